//! Acting on activity calls.

use axum::extract::State;
use resurgam::{Act, CallHandle, Uid};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Answer, Asked, Done, policy};
use crate::api::Api;
use crate::caller::{Caller, RequestKey};
use crate::extract::{Body, Path, call, present, uid};
use crate::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(act))
        .routes(routes!(act_by_name))
        .routes(routes!(set_policy))
        .routes(routes!(set_policy_by_name))
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
    let act = wanted.of(&api.client.call_of(of), &action)?;
    let CallAction { by, reason, .. } = wanted;
    Asked::new(caller, key, by).because(reason).act(&api, of.run.uid, act).await
}

/// The call of an instance that a name means, while the instance has its id.
async fn named(api: &Api, of: &str, name: &str) -> Result<(Uid, CallHandle), Problem> {
    let uid = uid(of)?;
    let row = api.client.instance_of(uid).row().await?;
    match api.client.find(&row.id).await? {
        Some(now) if now.uid == uid => Ok((uid, api.client.call(&row.id, name))),
        _ => Err(Problem::conflict(format!("the id {} belongs to another instance now", row.id))),
    }
}

/// Does something to an open activity call of an instance, named as histories name it
///
/// As `charge#6`, or as `charge` when one call of that activity is open. What changes nothing is a
/// conflict, and the problem says why.
#[utoipa::path(
    post, path = "/api/v1/instances/{uid}/calls/{name}/actions/{action}", tag = "calls",
    params(
        ("uid" = String, Path, description = "The uid of the instance"),
        ("name" = String, Path, description = "Such as charge#6, encoded for a path"),
        ("action" = String, Path, description = "retry, pause, resume, complete or fail"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeat one request")
    ),
    request_body = CallAction,
    responses((status = OK, body = Done), (status = ACCEPTED, body = Done))
)]
async fn act_by_name(
    State(api): State<Api>,
    Path((of, name, action)): Path<(String, String, String)>,
    caller: Caller,
    key: RequestKey,
    Body(wanted): Body<CallAction>,
) -> Answer {
    let (uid, call) = named(&api, &of, &name).await?;
    let act = wanted.of(&call, &action)?;
    let CallAction { by, reason, .. } = wanted;
    Asked::new(caller, key, by).because(reason).act(&api, uid, act).await
}

impl CallAction {
    /// What is asked of a call.
    fn of(&self, call: &CallHandle, action: &str) -> Result<Act, Problem> {
        let mut act = match (action, &self.value, &self.message) {
            ("retry", None, None) => call.retry(),
            ("pause", None, None) => call.pause(),
            ("resume", None, None) => call.resume(),
            ("complete", Some(value), None) => call.complete(value),
            ("complete", None, _) => {
                return Err(Problem::invalid("complete: `value` is what the workflow gets"));
            }
            ("fail", None, Some(message)) => call.fail(message),
            ("fail", _, None) => {
                return Err(Problem::invalid("fail: `message` is what the workflow is told"));
            }
            ("retry" | "pause" | "resume" | "complete" | "fail", ..) => {
                let what = "`value` is for complete, `message` for fail";
                return Err(Problem::invalid(format!("{action}: {what}")));
            }
            _ => {
                return Err(Problem::missing(format!(
                    "{action:?} cannot be done to a call; write retry, pause, resume, complete or \
                     fail"
                )));
            }
        };
        if self.reset {
            act = act.reset();
        }
        if self.clock_runs {
            act = act.clock_runs();
        }
        if self.unchecked {
            act = act.unchecked();
        }
        Ok(act)
    }
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

/// Has another policy decide about an open activity call of an instance, named as histories name it
#[utoipa::path(
    put, path = "/api/v1/instances/{uid}/calls/{name}/policy", tag = "calls",
    params(
        ("uid" = String, Path, description = "The uid of the instance"),
        ("name" = String, Path, description = "Such as charge#6, encoded for a path")
    ),
    request_body = NewPolicy,
    responses((status = OK, body = Done), (status = ACCEPTED, body = Done))
)]
async fn set_policy_by_name(
    State(api): State<Api>,
    Path((of, name)): Path<(String, String)>,
    caller: Caller,
    key: RequestKey,
    Body(new): Body<NewPolicy>,
) -> Answer {
    let (uid, call) = named(&api, &of, &name).await?;
    let act = call.set_policy(policy(&new.policy)?);
    Asked::new(caller, key, new.by).because(new.reason).act(&api, uid, act).await
}
