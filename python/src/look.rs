//! What is stored, as JSON for the package.

use resurgam::{AttemptRow, Description, InstanceCursor, InstanceRow, PendingCall};
use resurgam_store::rows::Owner;
use serde_json::{Value, json};

use crate::attempt::seconds;

pub(crate) fn raw(payload: &resurgam::Payload) -> Value {
    serde_json::from_str(payload.as_str()).unwrap_or(Value::Null)
}

/// A row of an instance.
pub(crate) fn instance(row: &InstanceRow) -> Value {
    json!({
        "id": row.id,
        "workflow": row.workflow,
        "status": row.status.name(),
        "run": row.run,
        "queue": row.queue,
        "priority": row.priority,
        "tags": row.tags,
        "schedule": row.schedule,
        "input": raw(&row.input),
        "outcome": row.outcome.as_ref().map(raw),
        "error": row.error,
        "created_at": seconds(row.created_at),
        "closed_at": row.closed_at.map(seconds),
        "cursor": InstanceCursor::of(row).to_string(),
    })
}

/// A process that works on the database.
pub(crate) fn node(owner: &Owner) -> Value {
    json!({
        "id": owner.node,
        "pid": owner.pid,
        "program": owner.program,
        "since": seconds(owner.since),
    })
}

/// An attempt of the ledger.
pub(crate) fn attempt(row: &AttemptRow) -> Value {
    json!({
        "activity": row.name,
        "seq": row.call.seq.0,
        "attempt": row.attempt,
        "outcome": row.outcome.name(),
        "started_at": seconds(row.started_at),
        "ended_at": seconds(row.ended_at),
        "failure": row.failure,
        "delay": row.delay_ms.map(|ms| ms as f64 / 1000.0),
        "why": row.why,
    })
}

fn pending(call: &PendingCall) -> Value {
    json!({
        "activity": call.activity,
        "seq": call.seq.0,
        "queue": call.queue,
        "attempt": call.attempt,
        "running": call.running,
        "next_due": call.next_due.map(seconds),
        "waits_for": call.waits_for.map(|waits| waits.name()),
        "paused": call.paused.is_some(),
        "gate": call.gate,
        "held_by": call.held_by,
        "last_failure": call.last.as_ref().and_then(|last| last.failure.clone()),
    })
}

/// An instance with what it waits for.
pub(crate) fn description(found: &Description) -> Value {
    let mut described = instance(&found.instance);
    described["pending"] = found.pending.iter().map(pending).collect();
    described["unread"] = json!(found.unread);
    described["timers"] = found.timers.iter().copied().map(seconds).collect();
    described["cancel_requested"] = json!(found.cancel_requested);
    described
}
