//! Deciding about dead letters and paused calls, one by one or group by group.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use resurgam::{BulkAct, DeadLetterFilter, PausedFilter, Timestamp};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::bulk::{Asks, Begun};
use super::{Answer, Done, Why, recorded};
use crate::api::Api;
use crate::caller::{Caller, RequestKey};
use crate::extract::{Body, Path, call};
use crate::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(letter)).routes(routes!(letters)).routes(routes!(paused))
}

/// What a decision about a letter needs.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct LetterAction {
    /// Who does it. It is recorded beside the name of the token.
    by: Option<String>,
    reason: Option<String>,
    /// redrive: the activity runs once more by itself; the workflow hears nothing of it.
    as_new: bool,
    /// redrive: with another idempotency key.
    new_key: bool,
    /// redrive: it begins so much later.
    delay_ms: Option<u64>,
}

/// Decides about a call that was given up: redrive or discard
#[utoipa::path(
    post, path = "/api/v1/dead-letters/{call}/actions/{action}", tag = "decisions",
    params(
        ("call" = String, Path, description = "UID.RUN.SEQ"),
        ("action" = String, Path, description = "redrive or discard"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeat one request")
    ),
    request_body = LetterAction,
    responses((status = OK, body = Done), (status = ACCEPTED, body = Done))
)]
async fn letter(
    State(api): State<Api>,
    Path((name, action)): Path<(String, String)>,
    caller: Caller,
    RequestKey(key): RequestKey,
    Body(wanted): Body<LetterAction>,
) -> Answer {
    let of = call(&name)?;
    let why = Why { by: wanted.by, reason: wanted.reason };
    let (by, reason) = (caller.signs(why.by.clone()), why.reason.clone());
    let acted = match action.as_str() {
        "redrive" => {
            let mut redrive = api.client.redrive(of).by(by);
            if wanted.as_new {
                redrive = redrive.as_new();
            }
            if wanted.new_key {
                redrive = redrive.new_key();
            }
            if let Some(ms) = wanted.delay_ms {
                redrive = redrive.delay(Duration::from_millis(ms));
            }
            if let Some(reason) = reason {
                redrive = redrive.reason(reason);
            }
            if let Some(key) = key {
                redrive = redrive.request_id(key);
            }
            redrive.await?
        }
        "discard" => {
            let mut discard = api.client.discard_one(of).by(by);
            if let Some(reason) = reason {
                discard = discard.reason(reason);
            }
            discard.await?
        }
        _ => return Err(unknown(&action, "redrive or discard")),
    };
    recorded(&api, &caller, why, ("dead_letter", name), acted).await
}

fn unknown(action: &str, known: &str) -> Problem {
    Problem::missing(format!("{action:?} cannot be done to it; write {known}"))
}

/// A decision about many letters: those that everything which is given holds for, or `all`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct LettersAction {
    fingerprint: Option<String>,
    activity: Option<String>,
    /// Those of instances with these ids.
    ids: Vec<String>,
    workflow: Option<String>,
    queue: Option<String>,
    /// Those that failed with this type, or with one that descends from it.
    failure_type: Option<String>,
    /// Those that failed with this code.
    failure_code: Option<String>,
    /// Those that were given up at that time or later.
    since_ms: Option<i64>,
    /// Every open letter, where nothing else is given.
    all: bool,
    /// How many at most.
    limit: Option<u64>,
    /// How many are decided about first; the others follow when those have succeeded.
    first: Option<u32>,
    /// redrive: each activity runs once more by itself.
    as_new: bool,
    /// redrive: with other idempotency keys.
    new_key: bool,
    /// redrive: they begin over that time.
    spread_ms: Option<u64>,
    /// Only counts and lists what it would be done to.
    dry_run: bool,
    /// How many the dry run counted: when it is another number by now, nothing is done.
    expect_count: Option<u64>,
    /// Who does it. It is recorded beside the name of the token.
    by: Option<String>,
    reason: Option<String>,
}

/// Decides about many calls that were given up: redrive or discard
///
/// It is a bulk job.
#[utoipa::path(
    post, path = "/api/v1/dead-letters/actions/{action}", tag = "decisions",
    params(
        ("action" = String, Path, description = "redrive or discard"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeat one request")
    ),
    request_body = LettersAction,
    responses((status = OK, body = Begun), (status = ACCEPTED, body = Begun))
)]
async fn letters(
    State(api): State<Api>,
    Path(action): Path<String>,
    caller: Caller,
    RequestKey(key): RequestKey,
    Body(wanted): Body<LettersAction>,
) -> Result<(StatusCode, Json<Begun>), Problem> {
    let LettersAction { spread_ms, dry_run, expect_count, limit, first, .. } = wanted;
    let LettersAction { by, reason, .. } = wanted;
    let filter = DeadLetterFilter {
        fingerprint: wanted.fingerprint,
        activity: wanted.activity,
        ids: wanted.ids,
        workflow: wanted.workflow,
        queue: wanted.queue,
        failure_type: wanted.failure_type,
        failure_code: wanted.failure_code,
        since: wanted.since_ms.map(Timestamp::from_millis),
        ..DeadLetterFilter::default()
    };
    if filter == DeadLetterFilter::default() && !wanted.all {
        let what = "dead letters: name at least one thing that they have in common, or `all`";
        return Err(Problem::invalid(what));
    }
    let mut act = match action.as_str() {
        "redrive" => api.client.redrive_all(filter),
        "discard" => api.client.discard(filter),
        _ => return Err(unknown(&action, "redrive or discard")),
    };
    if wanted.as_new {
        act = act.as_new();
    }
    if wanted.new_key {
        act = act.new_key();
    }
    let act = How { limit, first, spread_ms }.of(act);
    Asks { caller, by, key, dry_run, expect_count, reason }.begin(&api, act).await
}

/// A decision about many paused calls: those that everything which is given holds for, or `all`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct PausedAction {
    fingerprint: Option<String>,
    activity: Option<String>,
    /// Those that were paused at that time or later.
    since_ms: Option<i64>,
    /// Every paused call, where nothing else is given.
    all: bool,
    /// How many at most.
    limit: Option<u64>,
    /// How many are decided about first; the others follow when those have succeeded.
    first: Option<u32>,
    /// They begin over that time.
    spread_ms: Option<u64>,
    /// Only counts and lists what it would be done to.
    dry_run: bool,
    /// How many the dry run counted: when it is another number by now, nothing is done.
    expect_count: Option<u64>,
    /// fail: what the workflows are told.
    message: Option<String>,
    /// Who does it. It is recorded beside the name of the token.
    by: Option<String>,
    reason: Option<String>,
}

/// Decides about many paused calls: resume or fail
///
/// It is a bulk job. Calls whose attempts had run out begin anew.
#[utoipa::path(
    post, path = "/api/v1/paused/actions/{action}", tag = "decisions",
    params(
        ("action" = String, Path, description = "resume or fail"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeat one request")
    ),
    request_body = PausedAction,
    responses((status = OK, body = Begun), (status = ACCEPTED, body = Begun))
)]
async fn paused(
    State(api): State<Api>,
    Path(action): Path<String>,
    caller: Caller,
    RequestKey(key): RequestKey,
    Body(wanted): Body<PausedAction>,
) -> Result<(StatusCode, Json<Begun>), Problem> {
    let PausedAction { fingerprint, activity, since_ms, message, by, reason, .. } = wanted;
    let PausedAction { spread_ms, dry_run, expect_count, limit, first, .. } = wanted;
    let since = since_ms.map(Timestamp::from_millis);
    let filter = PausedFilter { fingerprint, activity, since, ..PausedFilter::default() };
    if filter == PausedFilter::default() && !wanted.all {
        let what = "paused calls: name at least one thing that they have in common, or `all`";
        return Err(Problem::invalid(what));
    }
    let act = match (action.as_str(), message) {
        ("resume", None) => api.client.resume_paused(filter),
        ("fail", Some(message)) => api.client.fail_paused(filter, message),
        ("fail", None) => {
            return Err(Problem::invalid("fail: `message` is what the workflows are told"));
        }
        ("resume", Some(_)) => return Err(Problem::invalid("resume: `message` is for fail")),
        _ => return Err(unknown(&action, "resume or fail")),
    };
    let act = How { limit, first, spread_ms }.of(act);
    Asks { caller, by, key, dry_run, expect_count, reason }.begin(&api, act).await
}

/// How a job goes about it.
struct How {
    limit: Option<u64>,
    first: Option<u32>,
    spread_ms: Option<u64>,
}

impl How {
    fn of(self, act: BulkAct) -> BulkAct {
        let act = act.spread(Duration::from_millis(self.spread_ms.unwrap_or(0)));
        let act = self.limit.into_iter().fold(act, BulkAct::limit);
        self.first.into_iter().fold(act, BulkAct::first)
    }
}
