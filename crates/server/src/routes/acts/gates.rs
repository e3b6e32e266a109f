//! What operators do to gates, and to all calls of an activity or a queue.

use std::time::Duration;

use axum::extract::State;
use resurgam::GateAct;
use resurgam::gate::Gate;
use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Answer, Done, Why, recorded};
use crate::api::Api;
use crate::caller::Caller;
use crate::extract::{Body, Path, Query};
use crate::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(set, unset))
        .routes(routes!(act))
        .routes(routes!(activity))
        .routes(routes!(queue))
}

/// Settings of a gate.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewSettings {
    settings: Value,
    /// Who does it. It is recorded beside the name of the token.
    by: Option<String>,
    reason: Option<String>,
}

/// Stores settings for a gate, which come before those in the code
#[utoipa::path(
    put, path = "/api/v1/gates/{key}", tag = "gates",
    params(("key" = String, Path, description = "The key, or what keys begin with and a star")),
    request_body = NewSettings,
    responses((status = OK, body = Done), (status = ACCEPTED, body = Done))
)]
async fn set(
    State(api): State<Api>,
    Path(key): Path<String>,
    caller: Caller,
    Body(new): Body<NewSettings>,
) -> Answer {
    let NewSettings { settings, by, reason } = new;
    let settings: Gate = serde_json::from_value(settings)
        .map_err(|why| Problem::invalid(format!("settings of gate {key}: {why}")))?;
    let act = api.client.set_gate(&key, settings);
    carried_out(&api, act, ("gate", key), &caller, Why { by, reason }).await
}

/// Why something is taken back.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Unset {
    /// Who does it. It is recorded beside the name of the token.
    by: Option<String>,
    reason: Option<String>,
}

/// Removes the settings that are stored for a gate
#[utoipa::path(
    delete, path = "/api/v1/gates/{key}", tag = "gates",
    params(("key" = String, Path, description = "The key, as it was set"), Unset),
    responses((status = OK, body = Done), (status = ACCEPTED, body = Done))
)]
async fn unset(
    State(api): State<Api>,
    Path(key): Path<String>,
    caller: Caller,
    Query(Unset { by, reason }): Query<Unset>,
) -> Answer {
    let act = api.client.unset_gate(&key);
    carried_out(&api, act, ("gate", key), &caller, Why { by, reason }).await
}

/// What is done to a gate by hand.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct HandAction {
    /// shut, open: for how long; until somebody changes it, unless given.
    for_ms: Option<u64>,
    /// Who does it. It is recorded beside the name of the token.
    by: Option<String>,
    reason: Option<String>,
}

/// Shuts or opens a gate by hand, or has it decide by itself again: shut, open or auto
#[utoipa::path(
    post, path = "/api/v1/gates/{key}/actions/{action}", tag = "gates",
    params(
        ("key" = String, Path, description = "The key of the gate"),
        ("action" = String, Path, description = "shut, open or auto")
    ),
    request_body = HandAction,
    responses((status = OK, body = Done), (status = ACCEPTED, body = Done))
)]
async fn act(
    State(api): State<Api>,
    Path((key, action)): Path<(String, String)>,
    caller: Caller,
    Body(HandAction { for_ms, by, reason }): Body<HandAction>,
) -> Answer {
    let mut act = match (action.as_str(), for_ms) {
        ("shut", _) => api.client.shut_gate(&key),
        ("open", _) => api.client.open_gate(&key),
        ("auto", None) => api.client.auto_gate(&key),
        ("auto", Some(_)) => return Err(Problem::invalid("auto: `for_ms` is for shut and open")),
        _ => {
            return Err(Problem::missing(format!(
                "{action:?} cannot be done to a gate; write shut, open or auto"
            )));
        }
    };
    if let Some(ms) = for_ms {
        act = act.lasting(Duration::from_millis(ms));
    }
    carried_out(&api, act, ("gate", key), &caller, Why { by, reason }).await
}

/// Pauses all calls of an activity, or lets them go on: pause or resume
#[utoipa::path(
    post, path = "/api/v1/activities/{name}/actions/{action}", tag = "gates",
    params(
        ("name" = String, Path, description = "The activity"),
        ("action" = String, Path, description = "pause or resume")
    ),
    request_body = Why,
    responses((status = OK, body = Done), (status = ACCEPTED, body = Done))
)]
async fn activity(
    State(api): State<Api>,
    Path((name, action)): Path<(String, String)>,
    caller: Caller,
    Body(why): Body<Why>,
) -> Answer {
    let act = match action.as_str() {
        "pause" => api.client.pause_activity(&name),
        "resume" => api.client.resume_activity(&name),
        _ => return Err(unknown("an activity", &action)),
    };
    carried_out(&api, act, ("hold", format!("activity {name}")), &caller, why).await
}

/// Pauses all calls of a queue, or lets them go on: pause or resume
#[utoipa::path(
    post, path = "/api/v1/queues/{name}/actions/{action}", tag = "gates",
    params(
        ("name" = String, Path, description = "The queue"),
        ("action" = String, Path, description = "pause or resume")
    ),
    request_body = Why,
    responses((status = OK, body = Done), (status = ACCEPTED, body = Done))
)]
async fn queue(
    State(api): State<Api>,
    Path((name, action)): Path<(String, String)>,
    caller: Caller,
    Body(why): Body<Why>,
) -> Answer {
    let act = match action.as_str() {
        "pause" => api.client.pause_queue(&name),
        "resume" => api.client.resume_queue(&name),
        _ => return Err(unknown("a queue", &action)),
    };
    carried_out(&api, act, ("hold", format!("queue {name}")), &caller, why).await
}

fn unknown(what: &str, action: &str) -> Problem {
    Problem::missing(format!("{action:?} cannot be done to {what}; write pause or resume"))
}

async fn carried_out(
    api: &Api,
    mut act: GateAct,
    of: (&'static str, String),
    caller: &Caller,
    why: Why,
) -> Answer {
    act = act.by(caller.signs(why.by.clone()));
    if let Some(reason) = &why.reason {
        act = act.reason(reason);
    }
    recorded(api, caller, why, of, act.await?).await
}
