//! The routes that change something. Each is one request of a client: stored first, carried out by
//! whoever works, and answered with what it changed, or why it changed nothing.

mod bulk;
mod calls;
mod gates;
mod graphs;
mod instances;
mod policies;
mod schedules;
mod start;
mod unresolved;

use axum::Json;
use axum::http::StatusCode;
use resurgam::retry::RetryPolicy;
use resurgam::{Act, Acted, Uid};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use crate::api::Api;
use crate::audit::Did;
use crate::caller::{Caller, RequestKey};
use crate::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .merge(instances::routes())
        .merge(calls::routes())
        .merge(unresolved::routes())
        .merge(schedules::routes())
        .merge(bulk::routes())
        .merge(policies::routes())
        .merge(gates::routes())
        .merge(graphs::routes())
}

/// The routes that start instances.
pub(super) fn starting() -> OpenApiRouter<Api> {
    start::routes()
}

/// What came of a request.
#[derive(Serialize, ToSchema)]
struct Done {
    /// Something is different now.
    changed: bool,
    /// It is stored, and carried out as soon as somebody works.
    stored: bool,
    /// What changed, in a sentence.
    answer: String,
}

impl Done {
    fn changed(answer: impl Into<String>) -> Json<Self> {
        Json(Done { changed: true, stored: false, answer: answer.into() })
    }
}

/// What an action answers with: 200 when it changed something, 202 when it is stored for whoever
/// works next.
type Answer = Result<(StatusCode, Json<Done>), Problem>;

/// What changed nothing is a conflict: the answer says why.
fn told(acted: Acted) -> Answer {
    let answer = acted.to_string();
    match acted {
        Acted::Stored => {
            Ok((StatusCode::ACCEPTED, Json(Done { changed: false, stored: true, answer })))
        }
        Acted::Answered(given) if given.changed => Ok((StatusCode::OK, Done::changed(answer))),
        Acted::Answered(_) => Err(Problem::conflict(answer)),
    }
}

/// Why something is done, and who says so. On every route that acts on one thing.
#[derive(Clone, Debug, Default, Deserialize, IntoParams, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Why {
    /// Who does it. It is recorded beside the name of the token.
    by: Option<String>,
    reason: Option<String>,
}

impl Why {
    /// Records who did something that leaves no row with a name, and why.
    async fn record(self, api: &Api, caller: &Caller, did: Did) {
        api.record(caller, self.by, self.reason, did).await;
    }
}

/// Records what was done, when something was. A request that is stored for later has been made,
/// too.
async fn recorded(
    api: &Api,
    caller: &Caller,
    why: Why,
    (kind, subject): (&'static str, String),
    acted: Acted,
) -> Answer {
    let told = told(acted);
    if let Ok((_, Json(done))) = &told {
        why.record(api, caller, Did::new(kind, subject, &done.answer)).await;
    }
    told
}

/// Who asks, with what key and why.
struct Asked {
    caller: Caller,
    key: Option<String>,
    why: Why,
}

impl Asked {
    fn new(caller: Caller, RequestKey(key): RequestKey, by: Option<String>) -> Self {
        Asked { caller, key, why: Why { by, reason: None } }
    }

    fn because(mut self, reason: Option<String>) -> Self {
        self.why.reason = reason;
        self
    }

    /// Has an action carried out on an instance, or on a call of it.
    async fn act(self, api: &Api, uid: Uid, act: Act) -> Answer {
        let Asked { caller, key, why } = self;
        let mut act = act.by(caller.signs(why.by));
        if let Some(key) = key {
            let before = api.client.instance_of(uid).action(&key).await?;
            if before.is_some_and(|before| act.action() != Some(&before.request.action)) {
                return Err(Problem::another_body(&key));
            }
            act = act.request_id(key);
        }
        if let Some(reason) = why.reason {
            act = act.reason(reason);
        }
        told(act.await?)
    }
}

/// Reads a policy as `resurgam policy check` does.
fn policy(value: &Value) -> Result<RetryPolicy, Problem> {
    RetryPolicy::from_value(value).map_err(|problems| Problem::of_input("policy", &problems))
}
