//! The stored form of events: `kind`, a small JSON `head` of the engine, and the user's `body`,
//! which the engine never reads. Unknown fields of a head are ignored; an unknown kind is an error
//! that blocks the run and not the process.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::*;

/// The stored form of what happened: the engine's part and the user's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The name of the kind.
    pub kind: &'static str,
    /// The engine's part, a JSON object.
    pub head: String,
    /// The user's part.
    pub body: Option<Payload>,
}

/// The fields of every head. One shape for all kinds keeps old readers able to read new heads.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Head {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<Seq>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fire_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_metadata: Option<RetryMetadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compensates: Option<Seq>,
    #[serde(skip_serializing_if = "is_false")]
    after_cancel: bool,
    #[serde(skip_serializing_if = "is_false")]
    settles: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    compensation: Option<Compensation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_turn_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chain: Option<Chain>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    kv: BTreeMap<String, Box<RawValue>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    signal_ids: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    signals: Vec<HeadSignal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_close: Option<ParentClose>,
    #[serde(skip_serializing_if = "is_false")]
    terminate: bool,
    #[serde(skip_serializing_if = "is_false")]
    total: bool,
    #[serde(skip_serializing_if = "is_false")]
    fallback: bool,
    #[serde(skip_serializing_if = "is_false")]
    ends_run: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    copied: Vec<Copied>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept: Vec<KeptKeys>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delayed: Option<Delayed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    initiator: Option<Initiator>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Failure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff_ms: Option<u64>,
}

/// A signal that one run hands to the next.
#[derive(Serialize, Deserialize)]
struct HeadSignal {
    name: String,
    value: Box<RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl EventKind {
    /// The form that is stored.
    pub fn to_stored(&self) -> Stored {
        let mut head = Head::default();
        let body = match self {
            EventKind::RunStarted(started) => {
                head.name = Some(started.workflow.clone());
                head.seed = Some(started.seed);
                head.version = Some(started.version).filter(|version| *version != 1);
                head.first_turn_at = started.first_turn_at;
                head.chain = Some(started.chain.clone()).filter(|chain| *chain != Chain::default());
                head.kv = started.carried.kv.iter().map(|(k, v)| (k.clone(), raw(v))).collect();
                head.signal_ids.clone_from(&started.carried.signal_ids);
                head.signals = started.carried.signals.iter().map(HeadSignal::of).collect();
                head.copied.clone_from(&started.lineage.copied);
                head.kept.clone_from(&started.lineage.kept);
                head.delayed = started.lineage.delayed;
                Some(started.input.clone())
            }
            EventKind::ActivityScheduled(call) => {
                head.name = Some(call.name.clone());
                head.queue = Some(call.queue.clone());
                head.compensates = call.compensates;
                Some(call.input.clone())
            }
            EventKind::ActivityCompleted(done) => {
                head.of = Some(done.activity);
                head.attempt = Some(done.attempt);
                head.started_at = Some(done.started_at);
                head.after_cancel = done.after_cancel;
                head.fallback = done.fallback;
                head.retry_metadata = done.retry_metadata.clone();
                Some(done.result.clone())
            }
            EventKind::ActivityFailed(failed) => {
                head.of = Some(failed.activity);
                head.attempt = Some(failed.attempt);
                head.started_at = Some(failed.started_at);
                head.why = Some(failed.why.clone());
                head.settles = failed.settles;
                head.ends_run = failed.ends_run;
                head.retry_metadata = failed.retry_metadata.clone();
                Some(encoded(&failed.failure))
            }
            EventKind::TimerStarted { fire_at } => {
                head.fire_at = Some(*fire_at);
                None
            }
            EventKind::ActivityCancelled { activity: of }
            | EventKind::ActivityCancelRequested { activity: of }
            | EventKind::TimerFired { timer: of }
            | EventKind::TimerCancelled { timer: of } => {
                head.of = Some(*of);
                None
            }
            EventKind::SignalReceived { name, value, id } => {
                head.name = Some(name.clone());
                head.id = id.clone();
                Some(value.clone())
            }
            EventKind::CancelRequested { reason } => {
                head.why = Some(reason.clone());
                None
            }
            EventKind::TerminateRequested { reason } => {
                head.why = Some(reason.clone());
                None
            }
            EventKind::RunTimedOut { total } => {
                head.total = *total;
                None
            }
            EventKind::LimitPassed { failure } => Some(encoded(failure)),
            EventKind::CompensationRecorded { activity, name, input } => {
                head.of = Some(*activity);
                head.name = Some(name.clone());
                Some(input.clone())
            }
            EventKind::ChildStarted(child) => {
                head.id = Some(child.id.clone());
                head.name = Some(child.workflow.clone());
                head.parent_close = Some(child.parent_close);
                Some(child.input.clone())
            }
            EventKind::ChildCompleted { child, result } => {
                head.of = Some(*child);
                Some(result.clone())
            }
            EventKind::ChildFailed { child, failure } => {
                head.of = Some(*child);
                Some(encoded(failure))
            }
            EventKind::ChildCancelRequested { child, terminate } => {
                head.of = Some(*child);
                head.terminate = *terminate;
                None
            }
            EventKind::KvSet { key, value } => {
                head.name = Some(key.clone());
                Some(value.clone())
            }
            EventKind::VersionMarked { change, version } => {
                head.name = Some(change.clone());
                head.version = Some(*version);
                None
            }
            EventKind::StatusSet { value } => Some(value.clone()),
            EventKind::RunCompleted { result } => Some(result.clone()),
            EventKind::RunFailed { failure, compensation }
            | EventKind::RunCancelled { failure, compensation } => {
                head.compensation = *compensation;
                Some(encoded(failure))
            }
            EventKind::RunContinued(continued) => {
                head.initiator = Some(continued.initiator);
                head.failure.clone_from(&continued.failure);
                head.backoff_ms = Some(continued.backoff_ms).filter(|backoff| *backoff > 0);
                Some(continued.input.clone())
            }
        };
        let head = serde_json::to_string(&head).expect("a head holds nothing that JSON cannot");
        Stored { kind: self.name(), head, body }
    }

    /// Reads the form that was stored. The error says what could not be read.
    pub fn from_stored(kind: &str, head: &str, body: Option<Payload>) -> Result<Self, String> {
        let head: Head =
            serde_json::from_str(head).map_err(|error| format!("the head of {kind}: {error}"))?;
        let body = || body.clone().ok_or_else(|| format!("{kind} has no body"));
        let of = || head.of.ok_or_else(|| lacks(kind, "of"));
        let name = || head.name.clone().ok_or_else(|| lacks(kind, "name"));
        Ok(match kind {
            "RunStarted" => EventKind::RunStarted(RunStarted {
                workflow: name()?,
                input: body()?,
                seed: head.seed.unwrap_or(0),
                version: head.version.unwrap_or(1),
                first_turn_at: head.first_turn_at,
                chain: head.chain.unwrap_or_default(),
                carried: Carried {
                    kv: head.kv.iter().map(|(k, v)| (k.clone(), unraw(v))).collect(),
                    signal_ids: head.signal_ids,
                    signals: head.signals.into_iter().map(HeadSignal::into_signal).collect(),
                },
                lineage: Box::new(Lineage {
                    copied: head.copied,
                    kept: head.kept,
                    delayed: head.delayed,
                }),
            }),
            "ActivityScheduled" => EventKind::ActivityScheduled(ActivityScheduled {
                name: name()?,
                input: body()?,
                queue: head.queue.unwrap_or_default(),
                compensates: head.compensates,
            }),
            "ActivityCompleted" => EventKind::ActivityCompleted(ActivityCompleted {
                activity: of()?,
                result: body()?,
                attempt: head.attempt.unwrap_or(1),
                started_at: head.started_at.unwrap_or(Timestamp::EPOCH),
                after_cancel: head.after_cancel,
                fallback: head.fallback,
                retry_metadata: head.retry_metadata,
            }),
            "ActivityFailed" => EventKind::ActivityFailed(ActivityFailed {
                activity: of()?,
                failure: decoded(kind, &body()?)?,
                attempt: head.attempt.unwrap_or(1),
                started_at: head.started_at.unwrap_or(Timestamp::EPOCH),
                why: head.why.unwrap_or_default(),
                settles: head.settles,
                ends_run: head.ends_run,
                retry_metadata: head.retry_metadata,
            }),
            "ActivityCancelled" => EventKind::ActivityCancelled { activity: of()? },
            "ActivityCancelRequested" => EventKind::ActivityCancelRequested { activity: of()? },
            "CompensationRecorded" => {
                EventKind::CompensationRecorded { activity: of()?, name: name()?, input: body()? }
            }
            "ChildStarted" => EventKind::ChildStarted(ChildStarted {
                id: head.id.clone().ok_or_else(|| lacks(kind, "id"))?,
                workflow: name()?,
                input: body()?,
                parent_close: head.parent_close.unwrap_or_default(),
            }),
            "ChildCompleted" => EventKind::ChildCompleted { child: of()?, result: body()? },
            "ChildFailed" => {
                EventKind::ChildFailed { child: of()?, failure: decoded(kind, &body()?)? }
            }
            "ChildCancelRequested" => {
                EventKind::ChildCancelRequested { child: of()?, terminate: head.terminate }
            }
            "TimerStarted" => EventKind::TimerStarted {
                fire_at: head.fire_at.ok_or_else(|| lacks(kind, "fire_at"))?,
            },
            "TimerFired" => EventKind::TimerFired { timer: of()? },
            "TimerCancelled" => EventKind::TimerCancelled { timer: of()? },
            "SignalReceived" => {
                EventKind::SignalReceived { name: name()?, value: body()?, id: head.id }
            }
            "CancelRequested" => {
                EventKind::CancelRequested { reason: head.why.unwrap_or_default() }
            }
            "TerminateRequested" => {
                EventKind::TerminateRequested { reason: head.why.unwrap_or_default() }
            }
            "RunTimedOut" => EventKind::RunTimedOut { total: head.total },
            "LimitPassed" => EventKind::LimitPassed { failure: decoded(kind, &body()?)? },
            "KvSet" => EventKind::KvSet { key: name()?, value: body()? },
            "VersionMarked" => EventKind::VersionMarked {
                change: name()?,
                version: head.version.ok_or_else(|| lacks(kind, "version"))?,
            },
            "StatusSet" => EventKind::StatusSet { value: body()? },
            "RunCompleted" => EventKind::RunCompleted { result: body()? },
            "RunFailed" => EventKind::RunFailed {
                failure: decoded(kind, &body()?)?,
                compensation: head.compensation,
            },
            "RunCancelled" => EventKind::RunCancelled {
                failure: decoded(kind, &body()?)?,
                compensation: head.compensation,
            },
            "RunContinued" => EventKind::RunContinued(RunContinued {
                initiator: head.initiator.ok_or_else(|| lacks(kind, "initiator"))?,
                input: body()?,
                failure: head.failure,
                backoff_ms: head.backoff_ms.unwrap_or(0),
            }),
            unknown => return Err(format!("the kind {unknown:?} is unknown to this version")),
        })
    }
}

impl HeadSignal {
    fn of(signal: &UnreadSignal) -> Self {
        let UnreadSignal { name, value, id } = signal;
        HeadSignal { name: name.clone(), value: raw(value), id: id.clone() }
    }

    fn into_signal(self) -> UnreadSignal {
        UnreadSignal { name: self.name, value: unraw(&self.value), id: self.id }
    }
}

fn lacks(kind: &str, field: &str) -> String {
    format!("the head of {kind} has no {field}")
}

fn raw(value: &Payload) -> Box<RawValue> {
    RawValue::from_string(value.as_str().to_string()).expect("a payload is JSON")
}

fn unraw(value: &RawValue) -> Payload {
    Payload::from_text(value.get())
}

fn encoded(failure: &Failure) -> Payload {
    Payload::encode(failure).expect("a failure holds nothing that JSON cannot")
}

fn decoded<T: DeserializeOwned>(kind: &str, body: &Payload) -> Result<T, String> {
    body.decode().map_err(|error| format!("the body of {kind}: {error}"))
}
