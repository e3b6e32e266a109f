//! Policies for all calls of an activity.

use axum::extract::State;
use resurgam::SetPolicy;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::calls::NewPolicy;
use super::{Answer, Done, Why, policy, recorded};
use crate::api::Api;
use crate::caller::Caller;
use crate::extract::{Body, Path, Query};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(set, unset))
}

/// Has a policy decide about all calls of an activity from now on, open ones and later ones
#[utoipa::path(
    put, path = "/api/v1/activities/{name}/policy", tag = "calls",
    params(("name" = String, Path, description = "The activity")),
    request_body = NewPolicy,
    responses((status = OK, body = Done), (status = ACCEPTED, body = Done))
)]
async fn set(
    State(api): State<Api>,
    Path(name): Path<String>,
    caller: Caller,
    Body(new): Body<NewPolicy>,
) -> Answer {
    let set = api.client.set_policy(&name, policy(&new.policy)?);
    carried_out(&api, set, name, &caller, Why { by: new.by, reason: new.reason }).await
}

/// Why a policy is taken back.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Unset {
    /// Who does it. It is recorded beside the name of the token.
    by: Option<String>,
    reason: Option<String>,
}

/// Has the calls of an activity follow their own policies again
#[utoipa::path(
    delete, path = "/api/v1/activities/{name}/policy", tag = "calls",
    params(("name" = String, Path, description = "The activity"), Unset),
    responses((status = OK, body = Done), (status = ACCEPTED, body = Done))
)]
async fn unset(
    State(api): State<Api>,
    Path(name): Path<String>,
    caller: Caller,
    Query(why): Query<Unset>,
) -> Answer {
    let unset = api.client.unset_policy(&name);
    carried_out(&api, unset, name, &caller, Why { by: why.by, reason: why.reason }).await
}

async fn carried_out(
    api: &Api,
    mut set: SetPolicy,
    activity: String,
    caller: &Caller,
    why: Why,
) -> Answer {
    set = set.by(caller.signs(why.by.clone()));
    if let Some(reason) = &why.reason {
        set = set.reason(reason);
    }
    recorded(api, caller, why, ("policy", activity), set.await?).await
}
