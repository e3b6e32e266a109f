//! Events of a history.

use resurgam::{Event as CoreEvent, EventKind, Payload, RunKey};
use resurgam_graph::without_secrets;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use utoipa::ToSchema;

use super::{INLINE, Json, content, json, rfc3339, value};
use crate::links::link;

/// An event of a history.
#[derive(Serialize, ToSchema)]
pub(crate) struct Event {
    seq: u64,
    /// What happened, such as `ActivityCompleted`.
    kind: String,
    at_ms: i64,
    at: String,
    /// What the event says. What it is about is under `activity`, `timer` or `child`: the `seq` of
    /// the event that began it.
    #[schema(value_type = std::collections::HashMap<String, serde_json::Value>)]
    data: BTreeMap<&'static str, Json>,
}

impl Event {
    /// An event in a list: large payloads are left out.
    pub(crate) fn listed(run: RunKey, event: &CoreEvent) -> Self {
        let mut whole = Event::whole(event);
        let href = || {
            let RunKey { uid, run } = run;
            link(&format!("/api/v1/instances/{uid}/events/{}?run={run}", event.seq))
        };
        let size: usize = whole.data.values().map(|value| value.get().len()).sum();
        if size > INLINE {
            for value in whole.data.values_mut() {
                *value = content(std::mem::replace(value, RawValue::NULL.to_owned()), href);
            }
        }
        whole
    }

    /// An event with everything in it.
    pub(crate) fn whole(event: &CoreEvent) -> Self {
        Event {
            seq: event.seq.0,
            kind: event.kind.name().to_string(),
            at_ms: event.at.as_millis(),
            at: rfc3339(event.at),
            data: data(&event.kind).0,
        }
    }
}

/// What an event says, name by name.
#[derive(Default)]
struct Data(BTreeMap<&'static str, Json>);

impl Data {
    fn with(mut self, name: &'static str, told: impl Serialize) -> Self {
        self.0.insert(name, json(&told));
        self
    }

    fn payload(mut self, name: &'static str, payload: &Payload) -> Self {
        self.0.insert(name, value(payload));
        self
    }
}

fn data(kind: &EventKind) -> Data {
    let data = Data::default();
    match kind {
        EventKind::RunStarted(started) => data
            .with("workflow", &started.workflow)
            .payload("input", &without_secrets(&started.input))
            .with("version", started.version)
            .with("attempt", started.chain.attempt),
        EventKind::ActivityScheduled(call) => data
            .with("name", &call.name)
            .payload("input", &without_secrets(&call.input))
            .with("queue", &call.queue)
            .with("compensates", call.compensates),
        EventKind::ActivityCompleted(done) => data
            .with("activity", done.activity)
            .payload("result", &done.result)
            .with("attempt", done.attempt)
            .with("started_at_ms", done.started_at)
            .with("after_cancel", done.after_cancel)
            .with("retry_metadata", &done.retry_metadata),
        EventKind::ActivityFailed(failed) => data
            .with("activity", failed.activity)
            .with("failure", &failed.failure)
            .with("attempt", failed.attempt)
            .with("started_at_ms", failed.started_at)
            .with("why", &failed.why)
            .with("retry_metadata", &failed.retry_metadata),
        EventKind::ActivityCancelled { activity }
        | EventKind::ActivityCancelRequested { activity } => data.with("activity", activity),
        EventKind::CompensationRecorded { activity, name, input } => {
            data.with("activity", activity).with("name", name).payload("input", input)
        }
        EventKind::ChildStarted(child) => data
            .with("id", &child.id)
            .with("workflow", &child.workflow)
            .payload("input", &without_secrets(&child.input)),
        EventKind::ChildCompleted { child, result } => {
            data.with("child", child).payload("result", result)
        }
        EventKind::ChildFailed { child, failure } => {
            data.with("child", child).with("failure", failure)
        }
        EventKind::ChildCancelRequested { child, terminate } => {
            data.with("child", child).with("terminate", terminate)
        }
        EventKind::TimerStarted { fire_at } => data.with("fire_at_ms", fire_at),
        EventKind::TimerFired { timer } | EventKind::TimerCancelled { timer } => {
            data.with("timer", timer)
        }
        EventKind::SignalReceived { name, value, .. } => {
            data.with("name", name).payload("value", value)
        }
        EventKind::CancelRequested { reason } | EventKind::TerminateRequested { reason } => {
            data.with("reason", reason)
        }
        EventKind::RunTimedOut { total } => data.with("total", total),
        EventKind::LimitPassed { failure } => data.with("failure", failure),
        EventKind::KvSet { key, value } => data.with("key", key).payload("value", value),
        EventKind::VersionMarked { change, version } => {
            data.with("change", change).with("version", version)
        }
        EventKind::StatusSet { value } => data.payload("value", value),
        EventKind::RunCompleted { result } => data.payload("result", result),
        EventKind::RunFailed { failure, compensation }
        | EventKind::RunCancelled { failure, compensation } => data
            .with("failure", failure)
            .with("compensation", compensation.map(|ended| ended.name())),
        EventKind::RunContinued(continued) => data
            .payload("input", &without_secrets(&continued.input))
            .with("failure", &continued.failure)
            .with("backoff_ms", continued.backoff_ms),
    }
}
