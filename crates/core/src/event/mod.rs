//! Events: what happened in a run, in the order it happened.
//!
//! There are two sorts. An *input* comes from outside (a result, a timer, a signal) and causes a
//! turn; a *record* writes down what that turn asked for. A history is inputs, each followed by
//! the records of its turn, so replaying it takes the same branches as the first time. Attempts
//! and retries are not events: they live in the ledger.
//!
//! How an event is stored is in `stored.rs`, what a run keeps of one that was reset in
//! `lineage.rs`.

mod lineage;
mod stored;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use lineage::{Copied, Delayed, KeptKeys, Lineage};
pub use stored::Stored;

use crate::retry::Reason;
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
    /// Record: the workflow no longer wants an activity's result, but wants to know when the call
    /// is over: the activity can be compensated and may take effect, or something else is to be
    /// undone, and nothing is while attempts still work.
    ActivityCancelRequested {
        /// The call.
        activity: Seq,
    },
    /// Record: what undoes an activity that completed, should the run fail.
    CompensationRecorded {
        /// The call that it undoes.
        activity: Seq,
        /// The activity that undoes it.
        name: String,
        /// Its arguments by name.
        input: Payload,
    },
    /// Record: another instance is to be started.
    ChildStarted(ChildStarted),
    /// Input: a child returned a value.
    ChildCompleted {
        /// The child, by the place of its `ChildStarted`.
        child: Seq,
        /// What it returned.
        result: Payload,
    },
    /// Input: a child failed, was cancelled, or could not be started.
    ChildFailed {
        /// The child.
        child: Seq,
        /// Why.
        failure: Failure,
    },
    /// Record: a child is to end.
    ChildCancelRequested {
        /// The child.
        child: Seq,
        /// Whether it is to end at once, without a chance to clean up.
        terminate: bool,
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
    /// Input: somebody ends the run at once: its code does not hear of it.
    TerminateRequested {
        /// Why, for people.
        reason: String,
    },
    /// Input: the run, or the whole instance, took longer than it was given.
    RunTimedOut {
        /// True when the whole instance did, with all its runs.
        total: bool,
    },
    /// Input: the last turn asked for more than a run may have, and ends the run.
    LimitPassed {
        /// Which limit.
        failure: Failure,
    },
    /// Record: the workflow changed the instance's own data.
    KvSet {
        /// The name of the entry.
        key: String,
        /// Its value.
        value: Payload,
    },
    /// Record: the run took this version of a change.
    VersionMarked {
        /// The change.
        change: String,
        /// The version.
        version: u32,
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
        /// Whether what it did was undone, when there was anything to undo.
        compensation: Option<Compensation>,
    },
    /// Record: the workflow ended because it was cancelled.
    RunCancelled {
        /// What it returned.
        failure: Failure,
        /// Whether what it did was undone, when there was anything to undo.
        compensation: Option<Compensation>,
    },
    /// Record: the run is over and another one of the same instance follows.
    RunContinued(RunContinued),
}

/// Whether everything that a run had done was undone.
///
/// ```
/// use resurgam_core::event::Compensation;
///
/// assert_eq!(Compensation::Incomplete.name(), "incomplete");
/// assert_eq!(Compensation::named("complete"), Some(Compensation::Complete));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compensation {
    /// All of it.
    Complete,
    /// Not all: a compensation failed for good, or the run was terminated.
    Incomplete,
}

impl Compensation {
    /// The name that is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Compensation::Complete => "complete",
            Compensation::Incomplete => "incomplete",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Compensation::Complete, Compensation::Incomplete].into_iter().find(|c| c.name() == name)
    }
}

/// What had a run followed by another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Initiator {
    /// Its code continued as new.
    Workflow,
    /// It failed, and the retry policy of the workflow lets it try again.
    RetryPolicy,
    /// An operator reset it: the next run goes on from a place in its history.
    Reset,
}

/// The run is over and another one of the same instance follows.
#[derive(Clone, Debug, PartialEq)]
pub struct RunContinued {
    /// What had it followed.
    pub initiator: Initiator,
    /// The argument of the next run.
    pub input: Payload,
    /// The failure after which it is tried again.
    pub failure: Option<Failure>,
    /// How long the next run waits before its first turn.
    pub backoff_ms: u64,
}

/// Another instance is to be started.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildStarted {
    /// Its id.
    pub id: String,
    /// Its workflow.
    pub workflow: String,
    /// Its argument.
    pub input: Payload,
    /// What becomes of it when the run that started it is over.
    pub parent_close: ParentClose,
}

/// What becomes of a child when the run that started it is over.
///
/// ```
/// use resurgam_core::event::ParentClose;
///
/// assert_eq!(ParentClose::default(), ParentClose::Cancel);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParentClose {
    /// It is cancelled.
    #[default]
    Cancel,
    /// It ends at once.
    Terminate,
    /// It goes on.
    Abandon,
    /// It was nobody's child from the start: who started it does not hear of it again.
    Detached,
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
    /// Which of the registered versions of the workflow runs.
    pub version: u32,
    /// When the first turn is taken, if not at once: after a delay, or after the backoff of a
    /// workflow that is tried again.
    pub first_turn_at: Option<Timestamp>,
    /// Its place among runs that are tried again.
    pub chain: Chain,
    /// What it has of the run before.
    pub carried: Carried,
    /// What it has of the runs before it, when one was reset. Nearly always nothing, and boxed, so
    /// that events stay small.
    pub lineage: Box<Lineage>,
}

impl RunStarted {
    /// The beginning of a run that starts at once and continues no other.
    pub fn new(workflow: impl Into<String>, input: Payload, seed: u64) -> Self {
        RunStarted {
            workflow: workflow.into(),
            input,
            seed,
            version: 1,
            first_turn_at: None,
            chain: Chain::default(),
            carried: Carried::default(),
            lineage: Box::default(),
        }
    }
}

/// The place of a run among those of an instance that are tried again by policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chain {
    /// Which attempt of the workflow this run is.
    pub attempt: u32,
    /// When the instance began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began: Option<Timestamp>,
    /// When its first attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_attempt: Option<Timestamp>,
    /// The delay chosen last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_delay_ms: Option<u64>,
}

impl Default for Chain {
    fn default() -> Self {
        Chain { attempt: 1, began: None, first_attempt: None, previous_delay_ms: None }
    }
}

/// What a run has of the run before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Carried {
    /// The instance's own data.
    pub kv: BTreeMap<String, Payload>,
    /// The ids of signals that came before, so that repeated ones stay one.
    pub signal_ids: Vec<String>,
    /// Signals that it was given and did not read, in order of arrival.
    pub signals: Vec<UnreadSignal>,
}

/// A signal that nobody has read.
#[derive(Clone, Debug, PartialEq)]
pub struct UnreadSignal {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Payload,
    /// What makes a repeated one the same.
    pub id: Option<String>,
}

impl Carried {
    /// How many ids of signals a run has of those before it: the newest, as far as one can tell.
    pub const SIGNAL_IDS: usize = 1_000;

    /// These signals came before, too. Of more than [`Carried::SIGNAL_IDS`], the newest are kept.
    ///
    /// ```
    /// use resurgam_core::event::Carried;
    ///
    /// let mut carried = Carried::default();
    /// carried.add_signal_ids((1..=1_200).map(|number| format!("request-{number}")));
    /// assert_eq!(carried.signal_ids.len(), Carried::SIGNAL_IDS);
    /// assert_eq!(carried.signal_ids[0], "request-201");
    /// ```
    pub fn add_signal_ids(&mut self, ids: impl IntoIterator<Item = String>) {
        self.signal_ids.extend(ids);
        let oldest = self.signal_ids.len().saturating_sub(Carried::SIGNAL_IDS);
        self.signal_ids.drain(..oldest);
    }

    /// The size of the user's part.
    fn len(&self) -> usize {
        let signals = self.signals.iter().map(|signal| signal.value.len());
        self.kv.values().map(Payload::len).chain(signals).sum()
    }
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
    /// The call that it undoes, when it is a compensation.
    pub compensates: Option<Seq>,
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
    /// True when the workflow had given it up by then.
    pub after_cancel: bool,
    /// True when no attempt succeeded: the value is the one that its policy falls back to.
    pub fallback: bool,
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
    /// True when the call's time is up, its attempt has not ended yet, and the run wants to hear
    /// how it does: a second input tells.
    pub settles: bool,
    /// True when the run fails with it, whatever its code would do: its policy says so.
    pub ends_run: bool,
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

impl ActivityFailed {
    /// Why retrying stopped; `None` when a newer version of Resurgam recorded it, for a reason that
    /// this one does not know.
    pub fn reason(&self) -> Option<Reason> {
        Reason::named(&self.why)
    }
}

impl RetryMetadata {
    /// From the first attempt's start to the end.
    pub fn total_duration(&self) -> Duration {
        Duration::from_millis(self.total_duration_ms)
    }
}

impl EventKind {
    /// The name of the event that somebody asked a run to end.
    #[doc(hidden)]
    pub const CANCEL_REQUESTED: &'static str = "CancelRequested";

    /// The story of the retries, of an activity call that ended after more than one attempt.
    pub fn retry_metadata(&self) -> Option<&RetryMetadata> {
        match self {
            EventKind::ActivityCompleted(done) => done.retry_metadata.as_ref(),
            EventKind::ActivityFailed(failed) => failed.retry_metadata.as_ref(),
            _ => None,
        }
    }

    /// The name in histories and in the store.
    pub fn name(&self) -> &'static str {
        match self {
            EventKind::RunStarted(_) => "RunStarted",
            EventKind::ActivityScheduled(_) => "ActivityScheduled",
            EventKind::ActivityCompleted(_) => "ActivityCompleted",
            EventKind::ActivityFailed(_) => "ActivityFailed",
            EventKind::ActivityCancelled { .. } => "ActivityCancelled",
            EventKind::ActivityCancelRequested { .. } => "ActivityCancelRequested",
            EventKind::CompensationRecorded { .. } => "CompensationRecorded",
            EventKind::ChildStarted(_) => "ChildStarted",
            EventKind::ChildCompleted { .. } => "ChildCompleted",
            EventKind::ChildFailed { .. } => "ChildFailed",
            EventKind::ChildCancelRequested { .. } => "ChildCancelRequested",
            EventKind::TimerStarted { .. } => "TimerStarted",
            EventKind::TimerFired { .. } => "TimerFired",
            EventKind::TimerCancelled { .. } => "TimerCancelled",
            EventKind::SignalReceived { .. } => "SignalReceived",
            EventKind::CancelRequested { .. } => EventKind::CANCEL_REQUESTED,
            EventKind::TerminateRequested { .. } => "TerminateRequested",
            EventKind::RunTimedOut { .. } => "RunTimedOut",
            EventKind::LimitPassed { .. } => "LimitPassed",
            EventKind::KvSet { .. } => "KvSet",
            EventKind::VersionMarked { .. } => "VersionMarked",
            EventKind::StatusSet { .. } => "StatusSet",
            EventKind::RunCompleted { .. } => "RunCompleted",
            EventKind::RunFailed { .. } => "RunFailed",
            EventKind::RunCancelled { .. } => "RunCancelled",
            EventKind::RunContinued(_) => "RunContinued",
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
                | EventKind::TerminateRequested { .. }
                | EventKind::RunTimedOut { .. }
                | EventKind::LimitPassed { .. }
                | EventKind::ChildCompleted { .. }
                | EventKind::ChildFailed { .. }
        )
    }

    /// True when it ends the run.
    pub fn is_close(&self) -> bool {
        matches!(
            self,
            EventKind::RunCompleted { .. }
                | EventKind::RunFailed { .. }
                | EventKind::RunCancelled { .. }
                | EventKind::RunContinued(_)
        )
    }
}

impl EventKind {
    /// The size of the user's part, without encoding anything.
    pub fn payload_len(&self) -> usize {
        match self {
            EventKind::RunStarted(started) => started.input.len() + started.carried.len(),
            EventKind::ActivityScheduled(call) => call.input.len(),
            EventKind::ActivityCompleted(done) => done.result.len(),
            EventKind::ChildStarted(child) => child.input.len(),
            EventKind::CompensationRecorded { input, .. } => input.len(),
            EventKind::SignalReceived { value, .. }
            | EventKind::StatusSet { value }
            | EventKind::KvSet { value, .. } => value.len(),
            EventKind::RunCompleted { result } | EventKind::ChildCompleted { result, .. } => {
                result.len()
            }
            EventKind::RunContinued(continued) => continued.input.len(),
            EventKind::ActivityFailed(ActivityFailed { failure, .. })
            | EventKind::ChildFailed { failure, .. }
            | EventKind::LimitPassed { failure }
            | EventKind::RunFailed { failure, .. }
            | EventKind::RunCancelled { failure, .. } => failure.message.len(),
            _ => 0,
        }
    }
}
