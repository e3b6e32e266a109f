//! Acting on activity calls.

use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Answer, Asked, Done, policy};
use crate::api::Api;
use crate::caller::{Caller, RequestKey};
use crate::extract::{Body, Path, call, present};
use crate::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(act)).routes(routes!(set_policy))
}

/// What an action on a call needs. Each action takes its own fields, and refuses the others.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct CallAction {
    /// Who does it. It is recorded beside the name of the token.
    by: Option<String>,
    reason: Option<String>,
    /// retry, resume: its failures are forgotten, and its time begins again.
    reset: bool,
    /// pause: the times that bound the call go on meanwhile.
    clock_runs: bool,
    /// complete: the value that the workflow gets.
    #[schema(value_type = Option<serde_json::Value>)]
    #[serde(deserialize_with = "present")]
    value: Option<Box<RawValue>>,
    /// complete: the value is taken although nobody here can check it.
    unchecked: bool,
    /// fail: what the workflow is told.
    message: Option<String>,
}

/// Does something to an open activity call: retry, pause, resume, complete or fail
///
/// What changes nothing is a conflict, and the problem says why.
#[utoipa::path(
    post, path = "/api/v1/calls/{call}/actions/{action}", tag = "calls",
    params(
        ("call" = String, Path, description = "UID.RUN.SEQ"),
        ("action" = String, Path, description = "retry, pause, resume, complete or fail"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeat one request")
    ),
    request_body = CallAction,
    responses((status = OK, body = Done), (status = ACCEPTED, body = Done))
)]
async fn act(
    State(api): State<Api>,
    Path((name, action)): Path<(String, String)>,
    caller: Caller,
    key: RequestKey,
    Body(wanted): Body<CallAction>,
) -> Answer {
    let of = call(&name)?;
    let handle = api.client.call_of(of);
    let CallAction { by, reason, reset, clock_runs, value, unchecked, message } = wanted;
    let mut act = match (action.as_str(), value, message) {
        ("retry", None, None) => handle.retry(),
        ("pause", None, None) => handle.pause(),
        ("resume", None, None) => handle.resume(),
        ("complete", Some(value), None) => handle.complete(&value),
        ("complete", None, _) => {
            return Err(Problem::invalid("complete: `value` is what the workflow gets"));
        }
        ("fail", None, Some(message)) => handle.fail(message),
        ("fail", _, None) => {
            return Err(Problem::invalid("fail: `message` is what the workflow is told"));
        }
        ("retry" | "pause" | "resume" | "complete" | "fail", ..) => {
            let what = "`value` is for complete, `message` for fail";
            return Err(Problem::invalid(format!("{action}: {what}")));
        }
        _ => {
            return Err(Problem::missing(format!(
                "{action:?} cannot be done to a call; write retry, pause, resume, complete or fail"
            )));
        }
    };
    if reset {
        act = act.reset();
    }
    if clock_runs {
        act = act.clock_runs();
    }
    if unchecked {
        act = act.unchecked();
    }
    Asked::new(caller, key, by).because(reason).act(&api, of.run.uid, act).await
}

/// A policy that is to decide.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPolicy {
    pub(super) policy: Value,
    /// Who does it. It is recorded beside the name of the token.
    pub(super) by: Option<String>,
    pub(super) reason: Option<String>,
}

/// Has another policy decide about an open activity call from now on
#[utoipa::path(
    put, path = "/api/v1/calls/{call}/policy", tag = "calls",
    params(("call" = String, Path, description = "UID.RUN.SEQ")),
    request_body = NewPolicy,
    responses((status = OK, body = Done), (status = ACCEPTED, body = Done))
)]
async fn set_policy(
    State(api): State<Api>,
    Path(name): Path<String>,
    caller: Caller,
    key: RequestKey,
    Body(new): Body<NewPolicy>,
) -> Answer {
    let of = call(&name)?;
    let act = api.client.call_of(of).set_policy(policy(&new.policy)?);
    Asked::new(caller, key, new.by).because(new.reason).act(&api, of.run.uid, act).await
}
