//! What is stored, row by row. The names are those of the tables and columns.

mod action;
mod attempt;
mod instance;
mod message;
mod task;

use resurgam_core::retry::RetryPolicy;
use resurgam_core::{CallKey, Event, Payload, RunKey, Timestamp, Uid};

pub use action::{ActionRequest, ActionRow};
pub use attempt::{AttemptOutcome, AttemptRow};
pub use instance::{InstanceCursor, InstanceFilter, InstanceRow, RunPause, Status};
pub use message::{Message, MessageRow};
pub use task::{Claim, FellBack, Heartbeat, Pause, Progress, TaskRecord, TaskRow};

/// The node that works on a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The node.
    pub node: String,
    /// The id of its process.
    pub pid: u32,
    /// The name of its program.
    pub program: String,
    /// Since when.
    pub since: Timestamp,
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} ({})", self.pid, self.program)
    }
}

/// An interned policy: many tasks share one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRow {
    /// The hash of the text.
    pub hash: String,
    /// The stored form.
    pub text: String,
}

/// A policy that an operator set for all calls of an activity, those that are open included.
///
/// ```
/// use resurgam_core::Timestamp;
/// use resurgam_core::retry::RetryPolicy;
/// use resurgam_store::rows::PolicyOverride;
///
/// let set = PolicyOverride {
///     activity: "charge".to_string(),
///     policy: Some(RetryPolicy::once().to_stored()),
///     by: "ana".to_string(),
///     reason: Some("the bank asked us to".to_string()),
///     at: Timestamp::EPOCH,
///     revision: 0,
/// };
/// assert_eq!(set.retry_policy(), Some(RetryPolicy::once()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyOverride {
    /// The activity.
    pub activity: String,
    /// The policy in its stored form. `None` when there is none any more: that is kept, so that
    /// calls whose wait was decided by the last one are decided about again.
    pub policy: Option<String>,
    /// Who set it, or removed it.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
    /// How often it was changed. The store counts; what is written here counts for nothing.
    pub revision: u64,
}

impl PolicyOverride {
    /// The policy, as far as it can be read.
    pub fn retry_policy(&self) -> Option<RetryPolicy> {
        RetryPolicy::from_stored(self.policy.as_ref()?).ok()
    }
}

/// One entry of an instance's own data.
#[derive(Clone, Debug, PartialEq)]
pub struct KvRow {
    /// The instance.
    pub uid: Uid,
    /// The name.
    pub key: String,
    /// The value.
    pub value: Payload,
}

impl KvRow {
    /// The entry that holds the status. An entry that a workflow calls `status` is another one.
    pub const STATUS: &str = "resurgam.status";
}

/// A task that waits, without what an attempt needs.
#[derive(Clone, Debug, PartialEq)]
pub struct DueTask {
    /// The call.
    pub call: CallKey,
    /// When it is due.
    pub wake_at: Timestamp,
    /// Where it is to run.
    pub queue: String,
    /// Higher goes first among tasks that are due.
    pub priority: i32,
    /// The activity's name.
    pub name: String,
    /// The gate that it is behind.
    pub gate: String,
}

/// A task that waits and may have waited too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueDeadline {
    /// The call.
    pub call: CallKey,
    /// Until when it may wait.
    pub deadline_at: Timestamp,
}

/// A message that waits, without its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueMessage {
    /// The instance it is for.
    pub uid: Uid,
    /// When it is due.
    pub due_at: Timestamp,
    /// It is for who holds the shard, see [`Message::is_for_holder`].
    pub is_for_holder: bool,
}

/// The current run of an instance with everything a turn needs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The instance.
    pub instance: InstanceRow,
    /// Its events in order.
    pub events: Vec<Event>,
    /// Its messages in order of arrival, also those that are not due yet.
    pub messages: Vec<MessageRow>,
    /// Its unfinished activity calls.
    pub tasks: Vec<TaskRow>,
}

impl RunRecord {
    /// The run.
    pub fn key(&self) -> RunKey {
        RunKey { uid: self.instance.uid, run: self.instance.run }
    }
}

fn is_zero_count(number: &u32) -> bool {
    *number == 0
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}
