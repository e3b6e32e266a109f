//! Activity calls, their attempts, and what operators did.

use resurgam::retry::{Idempotency, Limit};
use resurgam::{ActionRow, AttemptRow, InstanceRow, Pause, PendingCall, RunKey, WaitsFor};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::gate::Gate;
use super::{Json, both, json, rfc3339, value};
use crate::names::call_name;

/// An activity call that is not finished.
#[derive(Serialize, ToSchema)]
pub(crate) struct Call {
    /// How paths name it.
    call: String,
    activity: String,
    /// Its place in the history.
    seq: u64,
    queue: String,
    priority: i32,
    /// The attempt that runs, or ran last; 0 before the first.
    attempt: u32,
    /// Null when there is no limit.
    max_attempts: Option<u32>,
    running: bool,
    started_at_ms: Option<i64>,
    started_at: Option<String>,
    next_due_ms: Option<i64>,
    next_due: Option<String>,
    deadline_ms: Option<i64>,
    deadline: Option<String>,
    /// Why no attempt runs: backoff, slot, unregistered, lacking, poison, gate or
    /// operator.
    waits_for: Option<String>,
    /// The key of its gate.
    gate: String,
    /// What holds it back while it waits for its gate, or for an operator who resumes its activity
    /// or its queue; also while it waits for a slot behind a gate that bounds how much begins.
    held_by: Option<String>,
    /// How that gate stands; `due` counts the calls that are due before this one.
    behind: Option<Gate>,
    /// What the process that works was missing to run it.
    lacks: Option<String>,
    /// How the attempts so far ended.
    failures: u32,
    lost: u32,
    interrupted: u32,
    snoozed: u32,
    /// Those that began while its gate was not flowing, and failed: they are free.
    probed: u32,
    /// Its policy cannot be read: then nobody knows how many attempts it allows.
    policy_unreadable: bool,
    /// It must not run twice: what was paused because its attempts ended so is not resumed.
    at_most_once: bool,
    /// The workflow has given it up, and waits to hear how it ended.
    cancelled: bool,
    heartbeat: Option<Heartbeat>,
    paused: Option<CallPaused>,
    /// It is to be paused when the attempt that runs has failed.
    pause_asked: Option<CallPaused>,
    /// The activity that was called, when its policy had this one take its place.
    fallback_of: Option<String>,
    /// How the last attempt ended, when one did.
    last: Option<Attempt>,
}

/// What an attempt told about its progress.
#[derive(Serialize, ToSchema)]
pub(crate) struct Heartbeat {
    #[schema(value_type = serde_json::Value)]
    details: Json,
    at_ms: i64,
    at: String,
}

/// Why a call is paused.
#[derive(Serialize, ToSchema)]
pub(crate) struct CallPaused {
    since_ms: Option<i64>,
    since: Option<String>,
    until_ms: Option<i64>,
    until: Option<String>,
    /// Why trying ended, when its policy paused it.
    stopped: Option<String>,
    by: Option<String>,
    reason: Option<String>,
    /// The same for all calls that failed in the same way.
    fingerprint: Option<String>,
    /// What these have in common.
    error: Option<String>,
}

impl From<&Pause> for CallPaused {
    fn from(pause: &Pause) -> Self {
        let ((since_ms, since), (until_ms, until)) = (both(pause.since), both(pause.until));
        let stopped = pause.stopped.as_ref().map(|why| text_of(&json(why)));
        let Pause { by, reason, fingerprint, error, .. } = pause.clone();
        CallPaused { since_ms, since, until_ms, until, stopped, by, reason, fingerprint, error }
    }
}

/// A text without its quotes.
fn text_of(json: &RawValue) -> String {
    serde_json::from_str(json.get()).unwrap_or_else(|_| json.get().to_string())
}

impl Call {
    pub(crate) fn of(row: &InstanceRow, call: &PendingCall) -> Self {
        let key = RunKey { uid: row.uid, run: row.run }.call(call.seq);
        let max_attempts = call.max_attempts().and_then(|limit| match limit {
            Limit::Attempts(most) => Some(most.get()),
            Limit::Unlimited => None,
        });
        let heartbeat = call.heartbeat.as_ref().map(|told| Heartbeat {
            details: value(&told.details),
            at_ms: told.at.as_millis(),
            at: rfc3339(told.at),
        });
        let (started_at_ms, started_at) = both(call.started_at);
        let (next_due_ms, next_due) = both(call.next_due);
        let (deadline_ms, deadline) = both(call.deadline);
        Call {
            call: call_name(key),
            activity: call.activity.clone(),
            seq: call.seq.0,
            queue: call.queue.clone(),
            priority: call.priority,
            attempt: call.attempt,
            max_attempts,
            running: call.running,
            started_at_ms,
            started_at,
            next_due_ms,
            next_due,
            deadline_ms,
            deadline,
            waits_for: call.waits_for.map(|why| WaitsFor::name(why).to_string()),
            gate: call.gate.clone(),
            held_by: call.held_by.clone(),
            behind: call.behind.as_ref().map(|gate| Gate::of(gate, gate.at)),
            lacks: call.lacks.clone(),
            failures: call.counters.failures,
            lost: call.counters.lost,
            interrupted: call.counters.interrupted,
            snoozed: call.counters.snoozed,
            probed: call.counters.probed,
            policy_unreadable: call.policy.is_none(),
            at_most_once: call
                .policy
                .as_ref()
                .is_some_and(|policy| policy.idempotency == Idempotency::AtMostOnce),
            cancelled: call.cancelled,
            heartbeat,
            paused: call.paused.as_ref().map(CallPaused::from),
            pause_asked: call.pause_asked.as_ref().map(CallPaused::from),
            fallback_of: call.fallback_of.clone(),
            last: call.last.as_ref().map(Attempt::from),
        }
    }
}

/// An attempt that did not succeed at once.
#[derive(Serialize, ToSchema)]
pub(crate) struct Attempt {
    call: String,
    activity: String,
    attempt: u32,
    /// failed, lost, interrupted, snoozed or cancelled
    outcome: String,
    started_at_ms: i64,
    started_at: String,
    ended_at_ms: i64,
    ended_at: String,
    #[schema(value_type = Option<serde_json::Value>)]
    failure: Option<Json>,
    /// How long the next attempt waits; null when none follows.
    delay_ms: Option<u64>,
    /// What decided that.
    why: String,
}

impl From<&AttemptRow> for Attempt {
    fn from(row: &AttemptRow) -> Self {
        Attempt {
            call: call_name(row.call),
            activity: row.name.clone(),
            attempt: row.attempt,
            outcome: row.outcome.name().to_string(),
            started_at_ms: row.started_at.as_millis(),
            started_at: rfc3339(row.started_at),
            ended_at_ms: row.ended_at.as_millis(),
            ended_at: rfc3339(row.ended_at),
            failure: row.failure.as_ref().map(json),
            delay_ms: row.delay_ms,
            why: row.why.clone(),
        }
    }
}

/// What an operator did.
#[derive(Serialize, ToSchema)]
pub(crate) struct Action {
    at_ms: i64,
    at: String,
    /// The call it was done to; null for the run itself.
    call: Option<String>,
    action: String,
    by: String,
    reason: Option<String>,
    request_id: String,
    changed: bool,
    answer: String,
}

impl From<&ActionRow> for Action {
    fn from(row: &ActionRow) -> Self {
        Action {
            at_ms: row.at.as_millis(),
            at: rfc3339(row.at),
            call: (!row.is_on_run()).then(|| call_name(row.call)),
            action: row.request.action.name().to_string(),
            by: row.request.by.clone(),
            reason: row.request.reason.clone(),
            request_id: row.request.id.clone(),
            changed: row.answer.changed,
            answer: row.answer.text.clone(),
        }
    }
}

/// A call with everything about it.
#[derive(Serialize, ToSchema)]
pub(crate) struct CallDetail {
    pub(crate) call: String,
    pub(crate) instance: String,
    pub(crate) activity: String,
    /// open, completed, failed or cancelled
    pub(crate) state: String,
    /// The call while it is open.
    pub(crate) pending: Option<Call>,
    /// What it was called with.
    #[schema(value_type = serde_json::Value)]
    pub(crate) input: Json,
    /// What it returned.
    #[schema(value_type = Option<serde_json::Value>)]
    pub(crate) result: Option<Json>,
    /// Why it failed.
    #[schema(value_type = Option<serde_json::Value>)]
    pub(crate) failure: Option<Json>,
    /// Why it was not tried any more.
    pub(crate) why: Option<String>,
    /// The policy that decides about it, while it is open.
    #[schema(value_type = Option<serde_json::Value>)]
    pub(crate) policy: Option<Json>,
    /// Its attempts that did not succeed at once.
    pub(crate) attempts: Vec<Attempt>,
    /// What operators did to it.
    pub(crate) actions: Vec<Action>,
}
