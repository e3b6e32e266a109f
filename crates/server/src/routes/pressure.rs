//! How attempts end, minute by minute: what fails, what is tried again, what is given up.
//!
//! Statistics. Nodes count in memory and store what they counted every ten seconds, so a crash
//! loses that much; the answer says so. For what an attempt came to, its history is the record.

use axum::Json;
use axum::extract::State;
use resurgam::Timestamp;
use resurgam_store::{PressureRange, PressureRow};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use super::page::time;
use crate::api::Api;
use crate::extract::Query;
use crate::problem::Problem;
use crate::wire::rfc3339;

/// How far back is told unless somebody says so.
const HOUR_MS: i64 = 3_600_000;

/// How many rows there are in an answer at most.
const ROWS: usize = 20_000;

/// A day: no row is longer.
const LONGEST_STEP: u32 = 24 * 60;

/// How much is lost when a node dies.
const LOST: &str = "counted in memory and stored every 10 s: a node that dies loses what it \
                    counted since, and what is told of the last seconds is not complete";

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(pressure))
}

/// Which counts are told.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PressureQuery {
    /// Minutes that began then or later: milliseconds since 1970, or RFC 3339; an hour ago unless
    /// given.
    from: Option<String>,
    /// Minutes that began before that time; now unless given.
    to: Option<String>,
    /// How many minutes are added up: 1 to 1440; 1 unless given.
    step: Option<u32>,
    /// Only of this activity.
    activity: Option<String>,
}

/// How attempts ended.
#[derive(Serialize, ToSchema)]
struct Pressure {
    from_ms: i64,
    from: String,
    to_ms: i64,
    to: String,
    /// How long a row is.
    step_ms: i64,
    /// In the order of time, activity and failure type.
    items: Vec<Counted>,
    /// There are more rows than are told: ask for less time, or for longer steps.
    is_cut: bool,
    /// How far back counts are kept.
    kept_ms: i64,
    /// What is not promised.
    note: &'static str,
}

/// What was counted of an activity in one step.
#[derive(Serialize, ToSchema)]
struct Counted {
    /// When the step began.
    at_ms: i64,
    at: String,
    activity: String,
    /// The type of the failures, or their kind where they have none; `other` behind the 50 types of
    /// an activity and minute that are told apart; null for attempts that succeeded.
    failure_type: Option<String>,
    /// Attempts that failed.
    failures: u64,
    /// Those of them after which the call is tried again.
    retries: u64,
    /// Calls that failed because attempts or time ran out.
    exhausted: u64,
    /// Attempts that succeeded.
    successes: u64,
}

impl From<PressureRow> for Counted {
    fn from(row: PressureRow) -> Self {
        let PressureRow { at, activity, failure_type, counts } = row;
        Counted {
            at_ms: at.as_millis(),
            at: rfc3339(at),
            activity,
            failure_type: Some(failure_type).filter(|name| !name.is_empty()),
            failures: counts.failures,
            retries: counts.retries,
            exhausted: counts.exhausted,
            successes: counts.successes,
        }
    }
}

impl PressureQuery {
    fn range(&self, now: Timestamp) -> Result<PressureRange, Problem> {
        let to = time("to", self.to.as_deref())?.unwrap_or(now.max(Timestamp::from_millis(1)));
        let hour_before = Timestamp::from_millis(to.as_millis().saturating_sub(HOUR_MS));
        let from = time("from", self.from.as_deref())?.unwrap_or(hour_before);
        let step_minutes = self.step.unwrap_or(1);
        if !(1..=LONGEST_STEP).contains(&step_minutes) {
            let detail = format!("step={step_minutes}: write 1 to {LONGEST_STEP} minutes");
            return Err(Problem::invalid(detail));
        }
        let activity = self.activity.clone();
        let whole = PressureRange { from, to, step_minutes, activity, limit: ROWS + 1 };
        // A row that is cut in the middle would be less than what it says.
        Ok(PressureRange { from: whole.begin_of(from), ..whole })
    }
}

/// How attempts ended, by activity, failure type and time
///
/// Counted by the minute, and kept for a week. Snoozes, attempts that a stop cut short and those
/// that were cancelled are not counted.
#[utoipa::path(
    get, path = "/api/v1/pressure", tag = "system", params(PressureQuery),
    responses((status = OK, body = Pressure))
)]
async fn pressure(State(api): State<Api>, Query(query): Query<PressureQuery>) -> Reply<Pressure> {
    let handle = api.client.handle();
    let range = query.range(handle.now())?;
    let (from, to, step_ms) = (range.from, range.to, range.step_ms());
    let busy = handle.busy();
    let read = handle.store().pressure(range).await;
    drop(busy);
    let what = "read what was counted of attempts";
    let mut rows = read.map_err(|error| resurgam::Error::store(what, error))?;
    let is_cut = rows.len() > ROWS;
    rows.truncate(ROWS);
    Ok(Json(Pressure {
        from_ms: from.as_millis(),
        from: rfc3339(from),
        to_ms: to.as_millis(),
        to: rfc3339(to),
        step_ms,
        items: rows.into_iter().map(Counted::from).collect(),
        is_cut,
        kept_ms: 7 * 24 * HOUR_MS,
        note: LOST,
    }))
}
