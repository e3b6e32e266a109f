//! Commands: what a turn asks for.
//!
//! Every command has a place in the history, and an event that records it there. On replay the
//! events are compared with the commands that the code asks for today.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::{ActivityScheduled, Carried, ChildStarted, Compensation, Initiator};
use crate::event::{ParentClose, RunContinued};
use crate::retry::RetryPolicy;
use crate::{EventKind, Failure, Payload, Seq, Timestamp};

/// What a turn asks for, with its place in the history.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// The place of the event that records it.
    pub seq: Seq,
    /// What is asked for.
    pub kind: CommandKind,
}

/// What a turn asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandKind {
    /// Call an activity.
    ScheduleActivity(ActivityCall),
    /// Forget an activity call.
    CancelActivity {
        /// The call.
        activity: Seq,
        /// What the run wants to hear of it all the same.
        hear: Hear,
    },
    /// Remember what undoes an activity.
    RecordCompensation {
        /// The call that it undoes.
        activity: Seq,
        /// The call that undoes it.
        call: Box<ActivityCall>,
    },
    /// Start another instance.
    StartChild(Box<ChildCall>),
    /// Have a child end.
    CancelChild {
        /// The child.
        child: Seq,
        /// Whether it is to end at once.
        terminate: bool,
    },
    /// Fire later.
    StartTimer {
        /// When.
        fire_at: Timestamp,
    },
    /// Forget a timer.
    CancelTimer {
        /// Which.
        timer: Seq,
    },
    /// Tell the world where the run is.
    SetStatus {
        /// The value.
        value: Payload,
    },
    /// Change the instance's own data.
    SetKv {
        /// The name of the entry.
        key: String,
        /// Its value.
        value: Payload,
    },
    /// Remember which version of a change the run took.
    MarkVersion {
        /// The change.
        change: String,
        /// The version.
        version: u32,
    },
    /// End the run with a value.
    Complete {
        /// The value.
        result: Payload,
    },
    /// End the run with a failure.
    Fail {
        /// The failure.
        failure: Failure,
        /// Whether what it did was undone.
        compensation: Option<Compensation>,
        /// What a run that is tried again has of this one.
        carried: Box<Carried>,
    },
    /// End the run because it was cancelled.
    EndCancelled {
        /// What the workflow returned.
        failure: Failure,
        /// Whether what it did was undone.
        compensation: Option<Compensation>,
        /// Whether it was ended without its code being asked.
        terminated: bool,
    },
    /// End the run and begin another one with this argument.
    ContinueAsNew {
        /// The argument.
        input: Payload,
        /// What the next run has of this one.
        carried: Box<Carried>,
    },
}

/// What a run wants to hear of a call that it gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hear {
    /// Nothing: the run has nothing to undo.
    Nothing,
    /// That its attempt is over, after the grace period at the latest: nothing is undone while
    /// attempts still work.
    End,
    /// How it ended, whenever that is: the call can be undone, and may have taken effect.
    Outcome,
}

/// An instance to be started by a workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildCall {
    /// Its id; by default it is made from that of the instance that starts it.
    pub id: Option<String>,
    /// Its workflow.
    pub workflow: String,
    /// Its argument.
    pub input: Payload,
    /// What becomes of it when the run that started it is over.
    pub parent_close: ParentClose,
    /// Its own settings.
    pub settings: Settings,
}

/// What holds for an instance for as long as it lives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The policy by which a run that fails is followed by another one, in its stored form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
    /// Bound on one run, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_timeout_ms: Option<u64>,
    /// Bound on all runs together, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_timeout_ms: Option<u64>,
    /// How long the first run waits before its first turn, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// What becomes of it when the run that started it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_close: Option<ParentClose>,
}

/// An activity call as a value: a name, named arguments, and options.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityCall {
    /// The activity's name.
    pub name: String,
    /// Its arguments by name, a JSON object.
    pub input: Payload,
    /// What this call asks for.
    pub options: CallOptions,
    /// The call that it undoes, when it is a compensation.
    pub compensates: Option<Seq>,
}

/// What one call asks for in place of what the activity, the app and the engine say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallOptions {
    /// The retry policy.
    pub retry: Option<Box<RetryPolicy>>,
    /// Where it is to run.
    pub queue: Option<String>,
    /// The key of the gate that it is behind; the activity's, without.
    pub gate: Option<String>,
    /// Bound on one attempt.
    pub timeout: Option<Duration>,
    /// Bound on the whole call.
    pub total_timeout: Option<Duration>,
    /// Bound on the wait for a worker.
    pub queue_timeout: Option<Duration>,
    /// Bound on the silence of a running attempt.
    pub heartbeat_timeout: Option<Duration>,
}

/// The queue of calls that name none.
pub const DEFAULT_QUEUE: &str = "default";

impl CommandKind {
    /// The event that records it.
    pub fn record(&self) -> EventKind {
        match self {
            CommandKind::ScheduleActivity(call) => {
                EventKind::ActivityScheduled(ActivityScheduled {
                    name: call.name.clone(),
                    input: call.input.clone(),
                    queue: call.queue().to_string(),
                    compensates: call.compensates,
                })
            }
            CommandKind::CancelActivity { activity, hear: Hear::Nothing } => {
                EventKind::ActivityCancelled { activity: *activity }
            }
            CommandKind::CancelActivity { activity, hear: Hear::End | Hear::Outcome } => {
                EventKind::ActivityCancelRequested { activity: *activity }
            }
            CommandKind::RecordCompensation { activity, call } => EventKind::CompensationRecorded {
                activity: *activity,
                name: call.name.clone(),
                input: call.input.clone(),
            },
            CommandKind::StartChild(child) => EventKind::ChildStarted(ChildStarted {
                id: child.id.clone().unwrap_or_default(),
                workflow: child.workflow.clone(),
                input: child.input.clone(),
                parent_close: child.parent_close,
            }),
            CommandKind::CancelChild { child, terminate } => {
                EventKind::ChildCancelRequested { child: *child, terminate: *terminate }
            }
            CommandKind::SetKv { key, value } => {
                EventKind::KvSet { key: key.clone(), value: value.clone() }
            }
            CommandKind::MarkVersion { change, version } => {
                EventKind::VersionMarked { change: change.clone(), version: *version }
            }
            CommandKind::StartTimer { fire_at } => EventKind::TimerStarted { fire_at: *fire_at },
            CommandKind::CancelTimer { timer } => EventKind::TimerCancelled { timer: *timer },
            CommandKind::SetStatus { value } => EventKind::StatusSet { value: value.clone() },
            CommandKind::Complete { result } => EventKind::RunCompleted { result: result.clone() },
            CommandKind::Fail { failure, compensation, .. } => {
                EventKind::RunFailed { failure: failure.clone(), compensation: *compensation }
            }
            CommandKind::EndCancelled { failure, compensation, .. } => {
                EventKind::RunCancelled { failure: failure.clone(), compensation: *compensation }
            }
            CommandKind::ContinueAsNew { input, .. } => EventKind::RunContinued(RunContinued {
                initiator: Initiator::Workflow,
                input: input.clone(),
                failure: None,
                backoff_ms: 0,
            }),
        }
    }

    /// True when the recorded event is what this command would record. A queue is routing and may
    /// change under a running workflow; what is called with which arguments may not.
    pub fn is_recorded_by(&self, event: &EventKind) -> bool {
        match (self, event) {
            (CommandKind::ScheduleActivity(call), EventKind::ActivityScheduled(scheduled)) => {
                call.name == scheduled.name
                    && call.input == scheduled.input
                    && call.compensates == scheduled.compensates
            }
            (CommandKind::StartChild(child), EventKind::ChildStarted(started)) => {
                child.id.as_ref().is_none_or(|id| *id == started.id)
                    && child.workflow == started.workflow
                    && child.input == started.input
            }
            // A run that failed may have been tried again by policy.
            (CommandKind::Fail { .. }, EventKind::RunContinued(_)) => true,
            (command, event) => command.record() == *event,
        }
    }
}

impl ActivityCall {
    /// The queue it goes to.
    pub fn queue(&self) -> &str {
        self.options.queue.as_deref().unwrap_or(DEFAULT_QUEUE)
    }
}
