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

/// A decision about many letters. At least one of `fingerprint` and `activity` says about which.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct LettersAction {
    fingerprint: Option<String>,
    activity: Option<String>,
    /// Those that were given up at that time or later.
    since_ms: Option<i64>,
    /// How many at most.
    limit: Option<usize>,
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
    let LettersAction { fingerprint, activity, since_ms, limit, by, reason, .. } = wanted;
    let LettersAction { spread_ms, dry_run, expect_count, .. } = wanted;
    if fingerprint.is_none() && activity.is_none() {
        return Err(Problem::invalid("dead letters: name a fingerprint or an activity"));
    }
    let (since, limit) = (since_ms.map(Timestamp::from_millis), limit.unwrap_or(0));
    let filter =
        DeadLetterFilter { fingerprint, activity, since, limit, ..DeadLetterFilter::default() };
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
    let act = spread(act, spread_ms);
    Asks { caller, by, key, dry_run, expect_count, reason }.begin(&api, act).await
}

/// A decision about many paused calls. At least one of `fingerprint` and `activity` says about
/// which.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct PausedAction {
    fingerprint: Option<String>,
    activity: Option<String>,
    /// Those that were paused at that time or later.
    since_ms: Option<i64>,
    /// How many at most.
    limit: Option<usize>,
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
    let PausedAction { fingerprint, activity, since_ms, limit, message, by, reason, .. } = wanted;
    let PausedAction { spread_ms, dry_run, expect_count, .. } = wanted;
    if fingerprint.is_none() && activity.is_none() {
        return Err(Problem::invalid("paused calls: name a fingerprint or an activity"));
    }
    let (since, limit) = (since_ms.map(Timestamp::from_millis), limit.unwrap_or(0));
    let filter = PausedFilter { fingerprint, activity, since, limit, after: None };
    let act = match (action.as_str(), message) {
        ("resume", None) => api.client.resume_paused(filter),
        ("fail", Some(message)) => api.client.fail_paused(filter, message),
        ("fail", None) => {
            return Err(Problem::invalid("fail: `message` is what the workflows are told"));
        }
        ("resume", Some(_)) => return Err(Problem::invalid("resume: `message` is for fail")),
        _ => return Err(unknown(&action, "resume or fail")),
    };
    let act = spread(act, spread_ms);
    Asks { caller, by, key, dry_run, expect_count, reason }.begin(&api, act).await
}

fn spread(act: BulkAct, spread_ms: Option<u64>) -> BulkAct {
    match spread_ms {
        Some(ms) => act.spread(Duration::from_millis(ms)),
        None => act,
    }
}
