//! The JSON forms of what is stored. They are documented in `docs/command-line.md` and stay.

use resurgam::retry::Limit;
use resurgam::{
    ActionRow, AttemptOutcome, AttemptRow, Description, InstanceCursor, InstanceRow, Pause,
    PendingCall, RunPause, Status, WaitsFor,
};
use resurgam_core::history::{ActionLine, AttemptLine, Printing, Times, printed};
use resurgam_core::{Event, EventKind, Payload};
use resurgam_graph::{Attempt, Ended, NodeCall, without_secrets};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::form::{Form, value};
use crate::program::Kind;
use crate::trouble::Trouble;
use crate::work::gate;

/// An instance in a list.
pub(super) fn instance(row: &InstanceRow) -> Form {
    Form::default()
        .with("id", &row.id)
        .with("workflow", &row.workflow)
        .with("status", row.status.name())
        .with("created_at_ms", row.created_at)
        .with("closed_at_ms", row.closed_at)
        .with("run", row.run)
        .with("queue", &row.queue)
        .with("error", &row.error)
        .with("paused", (row.status == Status::Paused).then(|| paused(&row.pause)))
}

/// Who paused an instance, and why.
fn paused(pause: &RunPause) -> Form {
    Form::default()
        .with("since_ms", pause.since)
        .with("by", &pause.by)
        .with("reason", &pause.reason)
        .with("calls", pause.calls)
}

/// An instance in a list of which there may be more: with where to go on.
pub(super) fn listed(row: &InstanceRow) -> Form {
    instance(row).with("cursor", InstanceCursor::of(row).to_string())
}

/// An instance with everything about it.
pub(super) fn described(found: &Description) -> Form {
    let Description { instance: row, pending, unread, timers, .. } = found;
    let kind = match Kind::of(&row.input) {
        Ok(Kind::Program) => "program",
        Ok(Kind::Graph) => "graph",
        Err(_) => "code",
    };
    let mut form = instance(row)
        .with("kind", kind)
        .with("input", input(row))
        .with("priority", row.priority)
        .with("tags", &row.tags);
    match (&row.outcome, row.status) {
        (Some(result), Status::Completed) => form.set("result", value(result)),
        (Some(failure), _) => form.set("failure", value(failure)),
        (None, _) => {}
    }
    let calls: Vec<Form> = pending.iter().map(call).collect();
    form.with("pending", calls)
        .with("unread_signals", unread)
        .with("timers_due_ms", timers)
        .with("waits_for_first_turn", found.waits_for_first_turn)
        .with("cancel_requested", found.cancel_requested)
}

/// A history for people, with the attempts that did not succeed and what operators did: of what a
/// program or a graph is started with and calls actions with, only what somebody gave it.
pub(super) fn history(
    events: &[Event],
    attempts: &[AttemptRow],
    actions: &[ActionRow],
    times: Times,
) -> String {
    let mut events = events.to_vec();
    for event in &mut events {
        match &mut event.kind {
            EventKind::RunStarted(started) => {
                started.input = Payload::from_text(started_with(&started.input).get());
            }
            EventKind::ActivityScheduled(call) => {
                let node = call.input.decode().ok().and_then(|input| NodeCall::of(&input));
                if let Some(node) = node {
                    call.name = format!("{} ({})", call.name, node.identifier);
                    call.input = Payload::from_text(node.inputs.to_string());
                }
            }
            _ => {}
        }
    }
    let attempts: Vec<AttemptLine> = attempts.iter().map(AttemptLine::from).collect();
    let actions: Vec<ActionLine> = actions.iter().map(ActionLine::from).collect();
    printed(&events, Printing { attempts: &attempts, actions: &actions, times })
}

/// What an instance was started with, without its program and without its secrets.
pub(super) fn input(row: &InstanceRow) -> Box<RawValue> {
    started_with(&row.input)
}

/// What an argument holds for people, without a program and without secrets.
pub(crate) fn started_with(argument: &Payload) -> Box<RawValue> {
    #[derive(Deserialize, Serialize)]
    struct Started {
        inputs: Box<RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        store: Option<Box<RawValue>>,
    }
    let started = argument.decode::<Started>();
    let input = match (Kind::of(argument), started) {
        (Ok(Kind::Program), Ok(started)) => Ok(started.inputs),
        (Ok(Kind::Graph), Ok(started)) => to_raw_value(&started),
        _ => Ok(value(argument)),
    };
    input.unwrap_or_else(|_| value(&Payload::null()))
}

/// An activity call that is not finished.
fn call(call: &PendingCall) -> Form {
    let most = call.max_attempts().and_then(|limit| match limit {
        Limit::Attempts(most) => Some(most.get()),
        Limit::Unlimited => None,
    });
    let heartbeat = call.heartbeat.as_ref();
    let heartbeat = heartbeat
        .map(|told| Form::default().with("details", value(&told.details)).with("at_ms", told.at));
    Form::default()
        .with("activity", &call.activity)
        .with("seq", call.seq)
        .with("queue", &call.queue)
        .with("attempt", call.attempt)
        .with("max_attempts", most)
        .with("running", call.running)
        .with("started_at_ms", call.started_at)
        .with("next_due_ms", call.next_due)
        .with("deadline_ms", call.deadline)
        .with("waits_for", call.waits_for.map(WaitsFor::name))
        .with("lacks", &call.lacks)
        .with("gate", &call.gate)
        .with("held_by", &call.held_by)
        .with("behind", call.behind.as_ref().map(|gate| gate::form(gate, gate.at)))
        .with("failures", call.counters.failures)
        .with("lost", call.counters.lost)
        .with("interrupted", call.counters.interrupted)
        .with("snoozed", call.counters.snoozed)
        .with("probed", call.counters.probed)
        .with("heartbeat", heartbeat)
        .with("paused", call.paused.as_ref().map(pause))
        .with("pause_asked", call.pause_asked.as_ref().map(pause))
        .with("fallback_of", &call.fallback_of)
        .with("last", call.last.as_ref().map(attempt))
}

/// Why a call is paused.
fn pause(pause: &Pause) -> Form {
    Form::default()
        .with("since_ms", pause.since)
        .with("until_ms", pause.until)
        .with("stopped", &pause.stopped)
        .with("by", &pause.by)
        .with("reason", &pause.reason)
}

/// What an operator did, among the events of a history.
pub(super) fn action(row: &ActionRow) -> Form {
    Form::default()
        .with("seq", ())
        .with("kind", "Action")
        .with("at_ms", row.at)
        .with("call", (!row.is_on_run()).then_some(row.call.seq))
        .with("action", row.request.action.name())
        .with("by", &row.request.by)
        .with("reason", &row.request.reason)
        .with("changed", row.answer.changed)
        .with("answer", &row.answer.text)
}

/// An attempt of the ledger.
pub(super) fn attempt(row: &AttemptRow) -> Form {
    Form::default().with("activity", &row.name).with("seq", row.call.seq).and(outcome(row))
}

/// An attempt of the ledger among the events of a history. Those have numbers of their own, so the
/// place of its call is told by another name.
pub(super) fn attempt_in_history(row: &AttemptRow) -> Form {
    Form::default()
        .with("seq", ())
        .with("kind", "Attempt")
        .with("at_ms", row.ended_at)
        .with("activity", &row.name)
        .with("call", row.call.seq)
        .and(outcome(row))
}

fn outcome(row: &AttemptRow) -> Form {
    Form::default()
        .with("attempt", row.attempt)
        .with("outcome", row.outcome.name())
        .with("started_at_ms", row.started_at)
        .with("ended_at_ms", row.ended_at)
        .with("failure", &row.failure)
        .with("delay_ms", row.delay_ms)
        .with("why", &row.why)
}

/// An event of a history. What it is about is under `activity`, `timer` or `child`: the `seq` of
/// the event that began it.
pub(super) fn event(event: &Event) -> Form {
    Form::default()
        .with("seq", event.seq)
        .with("kind", event.kind.name())
        .with("at_ms", event.at)
        .and(fields(&event.kind))
}

fn fields(kind: &EventKind) -> Form {
    let form = Form::default();
    match kind {
        EventKind::RunStarted(started) => form
            .with("workflow", &started.workflow)
            .with("input", value(&without_secrets(&started.input)))
            .with("version", started.version)
            .with("attempt", started.chain.attempt),
        EventKind::ActivityScheduled(call) => form
            .with("name", &call.name)
            .with("input", value(&without_secrets(&call.input)))
            .with("queue", &call.queue)
            .with("compensates", call.compensates),
        EventKind::ActivityCompleted(done) => form
            .with("activity", done.activity)
            .with("result", value(&done.result))
            .with("attempt", done.attempt)
            .with("started_at_ms", done.started_at)
            .with("after_cancel", done.after_cancel)
            .with("retry_metadata", &done.retry_metadata),
        EventKind::ActivityFailed(failed) => form
            .with("activity", failed.activity)
            .with("failure", &failed.failure)
            .with("attempt", failed.attempt)
            .with("started_at_ms", failed.started_at)
            .with("why", &failed.why)
            .with("retry_metadata", &failed.retry_metadata),
        EventKind::ActivityCancelled { activity }
        | EventKind::ActivityCancelRequested { activity } => form.with("activity", activity),
        EventKind::CompensationRecorded { activity, name, input } => {
            form.with("activity", activity).with("name", name).with("input", value(input))
        }
        EventKind::ChildStarted(child) => form
            .with("id", &child.id)
            .with("workflow", &child.workflow)
            .with("input", value(&child.input)),
        EventKind::ChildCompleted { child, result } => {
            form.with("child", child).with("result", value(result))
        }
        EventKind::ChildFailed { child, failure } => {
            form.with("child", child).with("failure", failure)
        }
        EventKind::ChildCancelRequested { child, terminate } => {
            form.with("child", child).with("terminate", terminate)
        }
        EventKind::TimerStarted { fire_at } => form.with("fire_at_ms", fire_at),
        EventKind::TimerFired { timer } | EventKind::TimerCancelled { timer } => {
            form.with("timer", timer)
        }
        EventKind::SignalReceived { name, value: told, .. } => {
            form.with("name", name).with("value", value(told))
        }
        EventKind::CancelRequested { reason } | EventKind::TerminateRequested { reason } => {
            form.with("reason", reason)
        }
        EventKind::RunTimedOut { total } => form.with("total", total),
        EventKind::LimitPassed { failure } => form.with("failure", failure),
        EventKind::KvSet { key, value: told } => form.with("key", key).with("value", value(told)),
        EventKind::VersionMarked { change, version } => {
            form.with("change", change).with("version", version)
        }
        EventKind::StatusSet { value: told } => form.with("value", value(told)),
        EventKind::RunCompleted { result } => form.with("result", value(result)),
        EventKind::RunFailed { failure, compensation }
        | EventKind::RunCancelled { failure, compensation } => form
            .with("failure", failure)
            .with("compensation", compensation.map(|ended| ended.name())),
        EventKind::RunContinued(continued) => form
            .with("input", value(&continued.input))
            .with("failure", &continued.failure)
            .with("backoff_ms", continued.backoff_ms),
    }
}

/// The states of a graph: `{"run_status","states"}`.
pub(super) fn listing(id: &str, events: &[Event], ledger: &[AttemptRow]) -> Result<Form, Trouble> {
    let attempts: Vec<Attempt> = ledger.iter().map(of_ledger).collect();
    let listing = resurgam_graph::listing(events, &attempts)
        .map_err(|what| Trouble::failed(format!("list the states of {id}: {what}")))?;
    Ok(Form::default().with("run_status", listing.run_status).with("states", listing.states))
}

fn of_ledger(row: &AttemptRow) -> Attempt {
    let ended = match row.outcome {
        AttemptOutcome::Failed => Ended::Failed,
        AttemptOutcome::Snoozed => Ended::Snoozed,
        AttemptOutcome::Lost | AttemptOutcome::Interrupted | AttemptOutcome::Cancelled => {
            Ended::Uncounted
        }
    };
    Attempt {
        call: row.call.seq,
        number: row.attempt,
        ended,
        ended_at: row.ended_at,
        failure: row.failure.clone(),
        delay_ms: row.delay_ms,
    }
}
