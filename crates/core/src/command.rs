//! Commands: what a turn asks for.
//!
//! Every command has a place in the history, and an event that records it there. On replay the
//! events are compared with the commands that the code asks for today.

use std::time::Duration;

use crate::event::ActivityScheduled;
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
    /// End the run with a value.
    Complete {
        /// The value.
        result: Payload,
    },
    /// End the run with a failure.
    Fail {
        /// The failure.
        failure: Failure,
    },
    /// End the run because it was cancelled.
    EndCancelled {
        /// What the workflow returned.
        failure: Failure,
    },
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
}

/// What one call asks for in place of what the activity, the app and the engine say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallOptions {
    /// The retry policy.
    pub retry: Option<Box<RetryPolicy>>,
    /// Where it is to run.
    pub queue: Option<String>,
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
                })
            }
            CommandKind::CancelActivity { activity } => {
                EventKind::ActivityCancelled { activity: *activity }
            }
            CommandKind::StartTimer { fire_at } => EventKind::TimerStarted { fire_at: *fire_at },
            CommandKind::CancelTimer { timer } => EventKind::TimerCancelled { timer: *timer },
            CommandKind::SetStatus { value } => EventKind::StatusSet { value: value.clone() },
            CommandKind::Complete { result } => EventKind::RunCompleted { result: result.clone() },
            CommandKind::Fail { failure } => EventKind::RunFailed { failure: failure.clone() },
            CommandKind::EndCancelled { failure } => {
                EventKind::RunCancelled { failure: failure.clone() }
            }
        }
    }

    /// True when the recorded event is what this command would record. A queue is routing and may
    /// change under a running workflow; what is called with which arguments may not.
    pub fn is_recorded_by(&self, event: &EventKind) -> bool {
        match (self, event) {
            (CommandKind::ScheduleActivity(call), EventKind::ActivityScheduled(scheduled)) => {
                call.name == scheduled.name && call.input == scheduled.input
            }
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
