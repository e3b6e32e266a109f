//! What the policy of an open call does, failure by failure: the curve that a page draws attempts
//! on. The function that decides for real makes it.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use resurgam::retry::forecast::schedule;
use resurgam::retry::{Matched, RecordedWhy};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use crate::api::Api;
use crate::extract::{Path, call};
use crate::problem::Problem;

/// How many delays are told.
const TOLD: usize = 100;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(show))
}

/// The delays of a policy, when every attempt fails at once.
#[derive(Serialize, ToSchema)]
struct Delays {
    /// The rule of the policy that they follow; null for failures that no rule matches.
    rule: Option<usize>,
    delays: Vec<Delay>,
    /// There are more.
    more: bool,
    /// What ends the attempts: max_attempts or max_elapsed, for example.
    ends_by: Option<String>,
}

/// What follows one failure.
#[derive(Serialize, ToSchema)]
struct Delay {
    /// Which failure, from 1.
    failure: u32,
    /// The shortest delay that may be drawn.
    low_ms: u64,
    /// The delay in the middle of the draw.
    middle_ms: u64,
    /// The longest.
    high_ms: u64,
    /// The backoff has outgrown `max_delay`.
    capped: bool,
}

/// The delays that the policy of an open call allows, failure by failure
///
/// They are those for failures like the last one.
#[utoipa::path(
    get, path = "/api/v1/calls/{call}/delays", tag = "calls",
    params(("call" = String, Path, description = "UID.RUN.SEQ")),
    responses((status = OK, body = Delays))
)]
async fn show(State(api): State<Api>, Path(name): Path<String>) -> Reply<Delays> {
    let key = call(&name)?;
    let found = api.client.instance_of(key.run.uid).describe().await?;
    let is_current = found.instance.run == key.run.run;
    let call = found.pending.iter().find(|call| is_current && call.seq == key.seq);
    let call = call.ok_or_else(|| Problem::missing(format!("{name} is no open call")))?;
    let policy = call.policy.as_ref().and_then(|policy| policy.check().ok());
    let missing = || Problem::missing(format!("the policy of {name} cannot be read here"));
    let policy = policy.ok_or_else(missing)?;
    let last = call.last.as_ref().and_then(|row| RecordedWhy::read(&row.why).matched);
    let known = last.filter(|matched| policy.retried().contains(matched));
    let matched: Matched = known.unwrap_or_else(|| policy.assumed());
    let found = schedule(&policy, matched, 0.5, Duration::ZERO);
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let numbered = found.steps.iter().zip(1..).take(TOLD);
    let delays = numbered.map(|(step, failure)| {
        let (low, high) = step.spread.bounds();
        let (low_ms, high_ms) = (ms(low), ms(high));
        Delay { failure, low_ms, middle_ms: ms(step.delay), high_ms, capped: step.spread.capped }
    });
    Ok(Json(Delays {
        rule: matched.index(),
        delays: delays.collect(),
        more: found.more || found.steps.len() > TOLD,
        ends_by: found.end.map(|end| end.reason.name().to_string()),
    }))
}
