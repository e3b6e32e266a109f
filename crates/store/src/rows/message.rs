//! Messages: news for a run, and what is for who holds its shard. Their stored form is in
//! `store/message.rs`.

use resurgam_core::{Payload, Seq, Timestamp, Uid};

use super::ActionRequest;
use crate::report::Report;

/// What wakes a run: a timer, a signal, a result that arrived while it slept, a cancellation.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageRow {
    /// The instance it is for.
    pub uid: Uid,
    /// What makes a repeated message one: unique for the instance.
    pub id: String,
    /// When it is to be read.
    pub due_at: Timestamp,
    /// What it is.
    pub body: Message,
}

impl MessageRow {
    /// The time of a message that wakes nobody: a signal that nobody waits for.
    pub const NEVER: Timestamp = Timestamp::from_millis(i64::MAX);

    /// What the id of a signal begins with when its sender gave it one, which follows.
    pub const REPEATABLE_SIGNAL: &str = "signal/id/";

    /// The message that asks for an action of this id.
    pub fn action_id(id: &str) -> String {
        format!("action/{id}")
    }
}

/// What a message says.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// The instance begins: it was started by a process that does not work on it. Workflow and
    /// argument are in its row.
    Start,
    /// A timer of a run fires.
    Timer {
        /// The run that started it; a timer of an earlier run is stale.
        run: u32,
        /// Which timer.
        timer: Seq,
    },
    /// Somebody sent a signal.
    Signal {
        /// Its name.
        name: String,
        /// Its value.
        value: Payload,
    },
    /// Somebody wants the instance to end.
    Cancel {
        /// Why, for people.
        reason: String,
    },
    /// Somebody ends the instance at once.
    Terminate {
        /// Why, for people.
        reason: String,
    },
    /// Something that a run waits for ended elsewhere, or its time is up. The event is ready made.
    Result {
        /// The run that waits.
        run: u32,
        /// `ActivityCompleted`, `ActivityFailed`, `ChildCompleted`, `ChildFailed` or `RunTimedOut`.
        event: resurgam_core::EventKind,
    },
    /// An attempt of a call says something from another node. It is for who holds the shard, and
    /// wakes no run.
    Report {
        /// The run of the call.
        run: u32,
        /// What it says.
        report: Box<Report>,
    },
    /// Somebody asks for something to be done to a call, or to a run. It is for who holds the
    /// shard, and wakes no run.
    Action {
        /// The run of the call, or the run itself.
        run: u32,
        /// The place of the call in the run; [`Seq::RUN`] when it is about the run.
        activity: Seq,
        /// What is asked for.
        request: Box<ActionRequest>,
    },
}

impl Message {
    /// The kinds of messages that are for who holds the shard and wake no run, as they are stored.
    pub const FOR_HOLDER: [&str; 2] = [Report::KIND, Message::ACTION];

    /// The kind of a message that asks for an action, as it is stored.
    pub const ACTION: &str = "Action";

    /// True when it is for who holds the shard: a blocked run holds up none of these.
    pub fn is_for_holder(&self) -> bool {
        self.call().is_some()
    }

    /// The call that it is about, of those that are for who holds the shard, without its instance.
    pub fn call(&self) -> Option<(u32, Seq)> {
        match self {
            Message::Report { run, report } => Some((*run, report.activity)),
            Message::Action { run, activity, .. } => Some((*run, *activity)),
            _ => None,
        }
    }

    /// The run that it belongs to; `None` when it is for the instance, whatever run it is in.
    pub fn run(&self) -> Option<u32> {
        match self {
            Message::Timer { run, .. }
            | Message::Result { run, .. }
            | Message::Report { run, .. } => Some(*run),
            // What is asked of a run does not end with it: somebody is to be told why.
            Message::Action { run, activity, .. } => Some(*run).filter(|_| *activity != Seq::RUN),
            Message::Start
            | Message::Signal { .. }
            | Message::Cancel { .. }
            | Message::Terminate { .. } => None,
        }
    }
}
