//! Events: what happened in a run, in the order it happened.
//!
//! There are two sorts. An *input* comes from outside (a result, a timer, a signal) and causes a
//! turn; a *record* writes down what that turn asked for. A history is inputs, each followed by
//! the records of its turn, so replaying it takes the same branches as the first time. Attempts
//! and retries are not events: they live in the ledger.
//!
//! Stored form: `kind`, a small JSON `head` of the engine, and the user's `body`, which the engine
//! never reads. Unknown fields of a head are ignored; an unknown kind is an error that blocks the
//! run and not the process.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Failure, Payload, Seq, Timestamp};

/// One entry of a history.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its place, from 1.
    pub seq: Seq,
    /// When the engine took notice of it; never earlier than the event before.
    pub at: Timestamp,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// Input: the run began.
    RunStarted(RunStarted),
    /// Record: an activity is to be called.
    ActivityScheduled(ActivityScheduled),
    /// Input: an activity call succeeded.
    ActivityCompleted(ActivityCompleted),
    /// Input: an activity call failed for good.
    ActivityFailed(ActivityFailed),
    /// Record: the workflow no longer wants an activity's result.
    ActivityCancelled {
        /// The call.
        activity: Seq,
    },
    /// Record: a timer is to fire.
    TimerStarted {
        /// When.
        fire_at: Timestamp,
    },
    /// Input: a timer fired.
    TimerFired {
        /// Which.
        timer: Seq,
    },
    /// Record: the workflow no longer waits for a timer.
    TimerCancelled {
        /// Which.
        timer: Seq,
    },
    /// Input: a signal arrived.
    SignalReceived {
        /// Its name.
        name: String,
        /// Its value.
        value: Payload,
        /// What makes a repeated signal one, where the sender gave it an id.
        id: Option<String>,
    },
    /// Input: somebody wants the run to end.
    CancelRequested {
        /// Why, for people.
        reason: String,
    },
    /// Record: the workflow told the world where it is.
    StatusSet {
        /// The value.
        value: Payload,
    },
    /// Record: the workflow returned a value.
    RunCompleted {
        /// The value.
        result: Payload,
    },
    /// Record: the workflow returned a failure.
    RunFailed {
        /// The failure.
        failure: Failure,
    },
    /// Record: the workflow ended because it was cancelled.
    RunCancelled {
        /// What it returned.
        failure: Failure,
    },
}

/// The run began.
#[derive(Clone, Debug, PartialEq)]
pub struct RunStarted {
    /// The workflow's name.
    pub workflow: String,
    /// Its argument.
    pub input: Payload,
    /// What `ctx.random()` and `ctx.uuid()` are drawn from.
    pub seed: u64,
}

/// An activity is to be called.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityScheduled {
    /// The activity's name.
    pub name: String,
    /// Its arguments by name.
    pub input: Payload,
    /// Where it is to run.
    pub queue: String,
}

/// An activity call succeeded.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityCompleted {
    /// The call.
    pub activity: Seq,
    /// What it returned.
    pub result: Payload,
    /// Which attempt succeeded.
    pub attempt: u32,
    /// When that attempt began.
    pub started_at: Timestamp,
    /// The story of the retries, when there were any.
    pub retry_metadata: Option<RetryMetadata>,
}

/// An activity call failed for good.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityFailed {
    /// The call.
    pub activity: Seq,
    /// The last failure.
    pub failure: Failure,
    /// Which attempt was the last.
    pub attempt: u32,
    /// When that attempt began.
    pub started_at: Timestamp,
    /// Why retrying stopped: the name of a [`crate::retry::Reason`].
    pub why: String,
    /// The story of the retries, when there were any.
    pub retry_metadata: Option<RetryMetadata>,
}

/// The story of an activity call that needed more than one attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RetryMetadata {
    /// Every attempt that began, the last included.
    pub total_attempts: u32,
    /// From the first attempt's start to the end.
    pub total_duration_ms: u64,
    /// True when the attempts or the time were used up.
    pub exhausted: bool,
    /// The last failure before the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<AttemptError>,
    /// The first ten and the last ten failures.
    pub errors: Vec<AttemptError>,
    /// How many failures between them are left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub errors_left_out: u32,
}

/// One attempt that did not succeed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttemptError {
    /// Which attempt.
    pub attempt: u32,
    /// The failure's type, or its kind when it has none.
    pub error_type: String,
    /// The failure's message, cut when it is long.
    pub message: String,
    /// When the attempt ended, in milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl EventKind {
    /// The name in histories and in the store.
    pub fn name(&self) -> &'static str {
        match self {
            EventKind::RunStarted(_) => "RunStarted",
            EventKind::ActivityScheduled(_) => "ActivityScheduled",
            EventKind::ActivityCompleted(_) => "ActivityCompleted",
            EventKind::ActivityFailed(_) => "ActivityFailed",
            EventKind::ActivityCancelled { .. } => "ActivityCancelled",
            EventKind::TimerStarted { .. } => "TimerStarted",
            EventKind::TimerFired { .. } => "TimerFired",
            EventKind::TimerCancelled { .. } => "TimerCancelled",
            EventKind::SignalReceived { .. } => "SignalReceived",
            EventKind::CancelRequested { .. } => "CancelRequested",
            EventKind::StatusSet { .. } => "StatusSet",
            EventKind::RunCompleted { .. } => "RunCompleted",
            EventKind::RunFailed { .. } => "RunFailed",
            EventKind::RunCancelled { .. } => "RunCancelled",
        }
    }

    /// True when it comes from outside and causes a turn.
    pub fn is_input(&self) -> bool {
        matches!(
            self,
            EventKind::RunStarted(_)
                | EventKind::ActivityCompleted(_)
                | EventKind::ActivityFailed(_)
                | EventKind::TimerFired { .. }
                | EventKind::SignalReceived { .. }
                | EventKind::CancelRequested { .. }
        )
    }

    /// True when it ends the run.
    pub fn is_close(&self) -> bool {
        matches!(
            self,
            EventKind::RunCompleted { .. }
                | EventKind::RunFailed { .. }
                | EventKind::RunCancelled { .. }
        )
    }
}

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
}

impl EventKind {
    /// The form that is stored.
    pub fn to_stored(&self) -> Stored {
        let mut head = Head::default();
        let body = match self {
            EventKind::RunStarted(started) => {
                head.name = Some(started.workflow.clone());
                head.seed = Some(started.seed);
                Some(started.input.clone())
            }
            EventKind::ActivityScheduled(call) => {
                head.name = Some(call.name.clone());
                head.queue = Some(call.queue.clone());
                Some(call.input.clone())
            }
            EventKind::ActivityCompleted(done) => {
                head.of = Some(done.activity);
                head.attempt = Some(done.attempt);
                head.started_at = Some(done.started_at);
                head.retry_metadata = done.retry_metadata.clone();
                Some(done.result.clone())
            }
            EventKind::ActivityFailed(failed) => {
                head.of = Some(failed.activity);
                head.attempt = Some(failed.attempt);
                head.started_at = Some(failed.started_at);
                head.why = Some(failed.why.clone());
                head.retry_metadata = failed.retry_metadata.clone();
                Some(encoded(&failed.failure))
            }
            EventKind::TimerStarted { fire_at } => {
                head.fire_at = Some(*fire_at);
                None
            }
            EventKind::ActivityCancelled { activity: of }
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
            EventKind::StatusSet { value } => Some(value.clone()),
            EventKind::RunCompleted { result } => Some(result.clone()),
            EventKind::RunFailed { failure } | EventKind::RunCancelled { failure } => {
                Some(encoded(failure))
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
        Ok(match kind {
            "RunStarted" => EventKind::RunStarted(RunStarted {
                workflow: head.name.ok_or_else(|| lacks(kind, "name"))?,
                input: body()?,
                seed: head.seed.unwrap_or(0),
            }),
            "ActivityScheduled" => EventKind::ActivityScheduled(ActivityScheduled {
                name: head.name.ok_or_else(|| lacks(kind, "name"))?,
                input: body()?,
                queue: head.queue.unwrap_or_default(),
            }),
            "ActivityCompleted" => EventKind::ActivityCompleted(ActivityCompleted {
                activity: of()?,
                result: body()?,
                attempt: head.attempt.unwrap_or(1),
                started_at: head.started_at.unwrap_or(Timestamp::EPOCH),
                retry_metadata: head.retry_metadata,
            }),
            "ActivityFailed" => EventKind::ActivityFailed(ActivityFailed {
                activity: of()?,
                failure: decoded(kind, &body()?)?,
                attempt: head.attempt.unwrap_or(1),
                started_at: head.started_at.unwrap_or(Timestamp::EPOCH),
                why: head.why.unwrap_or_default(),
                retry_metadata: head.retry_metadata,
            }),
            "ActivityCancelled" => EventKind::ActivityCancelled { activity: of()? },
            "TimerStarted" => EventKind::TimerStarted {
                fire_at: head.fire_at.ok_or_else(|| lacks(kind, "fire_at"))?,
            },
            "TimerFired" => EventKind::TimerFired { timer: of()? },
            "TimerCancelled" => EventKind::TimerCancelled { timer: of()? },
            "SignalReceived" => EventKind::SignalReceived {
                name: head.name.ok_or_else(|| lacks(kind, "name"))?,
                value: body()?,
                id: head.id,
            },
            "CancelRequested" => {
                EventKind::CancelRequested { reason: head.why.unwrap_or_default() }
            }
            "StatusSet" => EventKind::StatusSet { value: body()? },
            "RunCompleted" => EventKind::RunCompleted { result: body()? },
            "RunFailed" => EventKind::RunFailed { failure: decoded(kind, &body()?)? },
            "RunCancelled" => EventKind::RunCancelled { failure: decoded(kind, &body()?)? },
            unknown => return Err(format!("the kind {unknown:?} is unknown to this version")),
        })
    }
}

fn lacks(kind: &str, field: &str) -> String {
    format!("the head of {kind} has no {field}")
}

fn encoded(failure: &Failure) -> Payload {
    Payload::encode(failure).expect("a failure holds nothing that JSON cannot")
}

fn decoded<T: DeserializeOwned>(kind: &str, body: &Payload) -> Result<T, String> {
    body.decode().map_err(|error| format!("the body of {kind}: {error}"))
}

impl EventKind {
    /// The size of the user's part, without encoding anything.
    pub fn payload_len(&self) -> usize {
        match self {
            EventKind::RunStarted(started) => started.input.len(),
            EventKind::ActivityScheduled(call) => call.input.len(),
            EventKind::ActivityCompleted(done) => done.result.len(),
            EventKind::SignalReceived { value, .. } | EventKind::StatusSet { value } => value.len(),
            EventKind::RunCompleted { result } => result.len(),
            EventKind::ActivityFailed(ActivityFailed { failure, .. })
            | EventKind::RunFailed { failure }
            | EventKind::RunCancelled { failure } => failure.message.len(),
            _ => 0,
        }
    }
}
