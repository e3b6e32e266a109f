//! What goes on at this moment, for a first look: open calls by what they wait for, and what the
//! instances of a list wait for.
//!
//! No count over a table: at most [`LOOKED_AT`] open calls are looked at, and the answer says
//! whether that was all of them.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use resurgam::{CallFilter, RunKey, Timestamp};
use resurgam_store::rows::TaskRow;
use resurgam_store::{MatchedCall, RunCalls};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use crate::api::Api;
use crate::extract::{Query, uid};
use crate::names::call_name;
use crate::problem::Problem;
use crate::wire::call::Call;
use crate::wire::{Page, both, rfc3339};

/// How many open calls are looked at.
const LOOKED_AT: usize = 5_000;

/// How many instances can be asked about at once.
const ASKED: usize = 100;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(now)).routes(routes!(waiting))
}

/// What goes on at this moment.
#[derive(Serialize, ToSchema)]
struct Now {
    at_ms: i64,
    at: String,
    /// Open calls by what they wait for, the largest group first.
    groups: Vec<WaitingCalls>,
    /// How many open calls were looked at.
    looked_at: usize,
    /// There are no more than those.
    is_all: bool,
}

/// Open calls of an activity that wait for the same.
#[derive(Serialize, ToSchema)]
struct WaitingCalls {
    activity: String,
    queue: String,
    /// retrying, running, waiting, paused or unregistered
    state: String,
    /// The type of the failure that came last; null where no attempt has failed.
    failure_type: Option<String>,
    failure_code: Option<String>,
    /// What the newest of these failures says.
    message: Option<String>,
    count: u64,
    /// When the first of them was called.
    since_ms: Option<i64>,
    since: Option<String>,
    /// When the next attempt of one of them is due.
    next_due_ms: Option<i64>,
    next_due: Option<String>,
    /// The one that was called first.
    example: String,
    /// The id of its instance.
    instance: String,
}

/// What tells one group from another.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    activity: String,
    queue: String,
    state: &'static str,
    failure_type: Option<String>,
    failure_code: Option<String>,
}

/// A group while it is counted.
struct Counted {
    count: u64,
    since: Timestamp,
    next_due: Timestamp,
    message: Option<(Timestamp, String)>,
    example: String,
    instance: String,
}

fn state(task: &TaskRow) -> &'static str {
    match &task.progress {
        _ if task.claim.is_some() => "running",
        progress if progress.paused.is_some() => "paused",
        progress if progress.unregistered || progress.lacks.is_some() => "unregistered",
        _ if task.attempt > 0 => "retrying",
        _ => "waiting",
    }
}

/// Adds a page of calls to the groups.
fn count(groups: &mut BTreeMap<Kind, Counted>, calls: &[MatchedCall], of_runs: &[RunCalls]) {
    for (found, run) in calls.iter().zip(of_runs) {
        let task = &found.task;
        let failed = run.failed.as_ref().filter(|failed| failed.activity == task.name);
        let failed = failed.filter(|_| task.progress.failures > 0);
        let kind = Kind {
            activity: task.name.clone(),
            queue: task.queue.clone(),
            state: state(task),
            failure_type: failed.and_then(|failed| failed.failure.type_name.clone()),
            failure_code: failed.and_then(|failed| failed.failure.code.clone()),
        };
        let since = task.progress.first_scheduled.unwrap_or(task.wake_at);
        let told = failed.map(|failed| (failed.at, failed.failure.message.clone()));
        let fresh = || Counted {
            count: 0,
            since: TaskRow::NEVER,
            next_due: TaskRow::NEVER,
            message: None,
            example: String::new(),
            instance: String::new(),
        };
        let group = groups.entry(kind).or_insert_with(fresh);
        group.count += 1;
        group.next_due = group.next_due.min(task.wake_at);
        group.message = group.message.take().max(told);
        if since < group.since {
            group.since = since;
            group.example = call_name(task.call);
            group.instance = found.instance.clone();
        }
    }
}

impl WaitingCalls {
    fn of((kind, group): (Kind, Counted)) -> Self {
        let Kind { activity, queue, state, failure_type, failure_code } = kind;
        let is_known = |at: &Timestamp| *at != TaskRow::NEVER;
        let (since_ms, since) = both(Some(group.since).filter(is_known));
        let waits = matches!(state, "retrying" | "waiting");
        let (next_due_ms, next_due) = both(Some(group.next_due).filter(|at| waits && is_known(at)));
        WaitingCalls {
            activity,
            queue,
            state: state.to_string(),
            failure_type,
            failure_code,
            message: group.message.map(|(_, message)| message),
            count: group.count,
            since_ms,
            since,
            next_due_ms,
            next_due,
            example: group.example,
            instance: group.instance,
        }
    }
}

/// What goes on: open calls by activity, what they wait for, and how they failed last
///
/// At most 5,000 open calls are looked at; `is_all` is false when there are more.
#[utoipa::path(
    get, path = "/api/v1/now", tag = "calls", responses((status = OK, body = Now))
)]
async fn now(State(api): State<Api>) -> Reply<Now> {
    let handle = api.client.handle();
    let store = handle.store();
    let (mut groups, mut looked_at, mut after) = (BTreeMap::new(), 0, None);
    let trouble = |error| resurgam::Error::store("look what goes on", error);
    let is_all = loop {
        let _busy = handle.busy();
        let wanted = LOOKED_AT - looked_at;
        let page = store.matching_calls(CallFilter::default(), after, wanted.min(1_000)).await;
        let page = page.map_err(trouble)?;
        let runs: Vec<RunKey> = page.calls.iter().map(|found| found.task.call.run).collect();
        let of_runs = store.run_calls(runs.into(), None).await.map_err(trouble)?;
        count(&mut groups, &page.calls, &of_runs);
        looked_at += page.calls.len();
        after = page.go_on;
        if after.is_none() || looked_at >= LOOKED_AT {
            break after.is_none();
        }
    };
    let mut groups: Vec<WaitingCalls> = groups.into_iter().map(WaitingCalls::of).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    let at = handle.now();
    Ok(Json(Now { at_ms: at.as_millis(), at: rfc3339(at), groups, looked_at, is_all }))
}

/// Which instances are asked about.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WaitingQuery {
    /// Their uids, with commas between them; 100 at most.
    uids: String,
}

/// What an instance waits for.
#[derive(Serialize, ToSchema)]
struct Waiting {
    uid: String,
    /// Its open call that is due next, paused ones first.
    call: Option<Call>,
    /// How many open calls it has.
    calls: usize,
    /// When its next timer fires.
    timer_ms: Option<i64>,
    timer: Option<String>,
    /// It is stored, and nobody who works has taken it up.
    waits_for_first_turn: bool,
}

/// What the instances of a list wait for
///
/// Those that are there no more are left out.
#[utoipa::path(
    get, path = "/api/v1/waiting", tag = "instances", params(WaitingQuery),
    responses((status = OK, body = Page<Waiting>))
)]
async fn waiting(
    State(api): State<Api>,
    Query(query): Query<WaitingQuery>,
) -> Reply<Page<Waiting>> {
    let names: Vec<&str> = query.uids.split(',').filter(|name| !name.is_empty()).collect();
    if names.len() > ASKED {
        let many = names.len();
        return Err(Problem::invalid(format!("uids: {many} are asked about; {ASKED} at most")));
    }
    let mut items = Vec::new();
    for name in names {
        let found = match api.client.instance_of(uid(name)?).describe().await {
            Ok(found) => found,
            Err(error) if error.is_unknown() => continue,
            Err(error) => return Err(error.into()),
        };
        let next = found.pending.iter().min_by_key(|call| {
            (call.paused.is_none(), call.next_due.unwrap_or(TaskRow::NEVER), call.seq)
        });
        let (timer_ms, timer) = both(found.timers.first().copied());
        items.push(Waiting {
            uid: name.to_string(),
            call: next.map(|call| Call::of(&found.instance, call)),
            calls: found.pending.len(),
            timer_ms,
            timer,
            waits_for_first_turn: found.waits_for_first_turn,
        });
    }
    Ok(Json(Page { items, cursor: None }))
}
