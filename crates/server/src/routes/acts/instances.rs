//! Acting on instances: signals, cancelling, terminating, deleting, and actions on runs.

use axum::Json;
use axum::extract::State;
use resurgam::{ResetTo, RunKey, Seq};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Answer, Asked, Done, Why};
use crate::api::Api;
use crate::audit::Did;
use crate::caller::{Caller, RequestKey};
use crate::extract::{Body, Path, Query, uid};
use crate::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(signal)).routes(routes!(act)).routes(routes!(delete))
}

/// A signal.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewSignal {
    /// What is sent; null unless given.
    #[schema(value_type = Option<serde_json::Value>)]
    value: Option<Box<RawValue>>,
    /// Who sends it. It is recorded beside the name of the token.
    by: Option<String>,
    reason: Option<String>,
}

/// Sends a signal to an open instance
///
/// It is durable when this answers. With an `Idempotency-Key` it is taken once, however often it is
/// sent.
#[utoipa::path(
    post, path = "/api/v1/instances/{uid}/signals/{name}", tag = "instances",
    params(
        ("uid" = String, Path, description = "The uid of the instance"),
        ("name" = String, Path, description = "The name of the signal"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeat one request")
    ),
    request_body = NewSignal,
    responses((status = OK, body = Done))
)]
async fn signal(
    State(api): State<Api>,
    Path((of, name)): Path<(String, String)>,
    caller: Caller,
    RequestKey(key): RequestKey,
    Body(new): Body<NewSignal>,
) -> Result<Json<Done>, Problem> {
    let instance = api.client.instance_of(uid(&of)?);
    let value = new.value.unwrap_or_else(|| RawValue::NULL.to_owned());
    if let Some(key) = &key
        && let Some((before, sent)) = instance.signal_sent(key).await?
        && (before != name || sent.as_str() != value.get())
    {
        return Err(Problem::another_body(key));
    }
    instance.signal(&name, &value, key).await?;
    let sent = format!("sent {name} to {}", instance.row().await?.id);
    let did = Did::new("signal", &of, &sent);
    Why { by: new.by, reason: new.reason }.record(&api, &caller, did).await;
    Ok(Done::changed(sent))
}

/// What an action on an instance needs. Each action takes its own fields, and refuses the others.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct RunAction {
    /// Who does it. It is recorded beside the name of the token.
    by: Option<String>,
    reason: Option<String>,
    /// pause: its open calls are paused, too.
    calls: bool,
    /// reset: where it goes on from.
    to: Option<Place>,
    /// reset: signals that were read after that place do not come again.
    drop_signals: bool,
    /// reset: also when something of the run was undone.
    even_if_undone: bool,
}

/// A place in a history.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Place {
    /// Before the event of this number.
    Event(u64),
    /// Before the last failure.
    LastFailure,
    /// Before the last call of this activity.
    Before(String),
}

impl From<Place> for ResetTo {
    fn from(place: Place) -> Self {
        match place {
            Place::Event(seq) => ResetTo::Event(Seq(seq)),
            Place::LastFailure => ResetTo::LastFailure,
            Place::Before(activity) => ResetTo::Before(activity),
        }
    }
}

/// Does something to an instance: cancel, terminate, pause, resume, restart or reset
///
/// What changes nothing is a conflict, and the problem says why.
#[utoipa::path(
    post, path = "/api/v1/instances/{uid}/actions/{action}", tag = "instances",
    params(
        ("uid" = String, Path, description = "The uid of the instance"),
        ("action" = String, Path, description = "cancel, terminate, pause, resume, restart, reset"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeat one request")
    ),
    request_body = RunAction,
    responses((status = OK, body = Done), (status = ACCEPTED, body = Done))
)]
async fn act(
    State(api): State<Api>,
    Path((of, action)): Path<(String, String)>,
    caller: Caller,
    key: RequestKey,
    Body(wanted): Body<RunAction>,
) -> Answer {
    let instance = api.client.instance_of(uid(&of)?);
    if matches!(action.as_str(), "cancel" | "terminate") {
        let RunAction { by, reason, .. } = wanted;
        let why = Why { by: by.clone(), reason: reason.clone() };
        let by = caller.signs(by);
        let reason = reason.map_or(format!("by {by}"), |reason| format!("{reason} (by {by})"));
        let (kind, answer) = match action.as_str() {
            "cancel" => ("cancel", instance.cancel(&reason).await.map(|()| "it was asked to end")),
            _ => {
                let ended = instance.terminate(&reason).await;
                ("terminate", ended.map(|()| "it has ended where it stood"))
            }
        };
        let answer = answer?;
        why.record(&api, &caller, Did::new(kind, &of, answer)).await;
        return Ok((axum::http::StatusCode::OK, Done::changed(answer)));
    }
    let row = instance.row().await?;
    let run = api.client.run_of(RunKey { uid: row.uid, run: row.run });
    let RunAction { by, reason, calls, to, drop_signals, even_if_undone } = wanted;
    let mut act = match (action.as_str(), to) {
        ("pause", None) => run.pause(),
        ("resume", None) => run.resume(),
        ("restart", None) => run.restart(),
        ("reset", Some(to)) => run.reset(to.into()),
        ("reset", None) => return Err(Problem::invalid("reset: `to` says where it goes on from")),
        ("pause" | "resume" | "restart", Some(_)) => {
            return Err(Problem::invalid(format!("{action}: `to` is for a reset")));
        }
        _ => {
            return Err(Problem::missing(format!(
                "{action:?} cannot be done to an instance; write cancel, terminate, pause, resume, \
                 restart or reset"
            )));
        }
    };
    if calls {
        act = act.calls();
    }
    if drop_signals {
        act = act.drop_signals();
    }
    if even_if_undone {
        act = act.even_if_undone();
    }
    Asked::new(caller, key, by).because(reason).act(&api, row.uid, act).await
}

/// Deletes a closed instance with everything of it
#[utoipa::path(
    delete, path = "/api/v1/instances/{uid}", tag = "instances",
    params(("uid" = String, Path, description = "The uid of the instance"), Why),
    responses((status = OK, body = Done))
)]
async fn delete(
    State(api): State<Api>,
    Path(of): Path<String>,
    caller: Caller,
    Query(why): Query<Why>,
) -> Result<Json<Done>, Problem> {
    let instance = api.client.instance_of(uid(&of)?);
    let id = instance.row().await?.id;
    instance.delete().await?;
    // Nothing is left to record it with.
    let told = format!("deleted instance {id}");
    why.record(&api, &caller, Did::new("delete", &of, &told)).await;
    Ok(Done::changed(told))
}
