//! Tasks: activity calls that are not finished, and what decisions about them need.

use resurgam_core::retry::Counters;
use resurgam_core::{CallKey, Failure, Fingerprint, Payload, RunKey, Timestamp};
use serde::{Deserialize, Serialize};

use super::{AttemptRow, PolicyRow, is_false, is_zero};

/// An activity call that is not finished. Its input lives in its `ActivityScheduled` event only.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRow {
    /// The call.
    pub call: CallKey,
    /// The activity's name.
    pub name: String,
    /// Where it is to run.
    pub queue: String,
    /// The gate of the dependency it talks to; the activity's name unless somebody says otherwise.
    pub gate: String,
    /// Higher goes first among tasks that are due.
    pub priority: i32,
    /// The hash of its policy, see [`PolicyRow`].
    pub policy: String,
    /// The attempt that runs, or ran last; 0 before the first.
    pub attempt: u32,
    /// When the next attempt is due, while it waits.
    pub wake_at: Timestamp,
    /// When it has waited too long: the queue timeout or the total timeout passes. `None` while an
    /// attempt runs, whose timeouts the node enforces in memory.
    pub deadline_at: Option<Timestamp>,
    /// Who runs an attempt; `None` while it waits.
    pub claim: Option<Claim>,
    /// What the next decision needs.
    pub progress: Progress,
    /// What the activity reported last.
    pub heartbeat: Option<Heartbeat>,
}

impl TaskRow {
    /// When the next attempt of a paused call is due. Nobody who looks for work finds it.
    pub const NEVER: Timestamp = Timestamp::from_millis(i64::MAX);

    /// The fingerprint of a call that is paused, and since when, as columns that are looked up by.
    pub fn paused(&self) -> Option<(&str, Timestamp)> {
        let pause = self.progress.paused.as_deref()?;
        let fingerprint = pause.fingerprint.as_deref().unwrap_or(Fingerprint::UNKNOWN);
        Some((fingerprint, pause.since.unwrap_or(Timestamp::EPOCH)))
    }
}

/// What an activity reported while it ran, kept for the next attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Heartbeat {
    /// What it said.
    pub details: Payload,
    /// When.
    pub at: Timestamp,
}

/// The right of a node to run an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The node.
    pub node: String,
    /// What a report must carry; random, so that a late report of another attempt is refused.
    pub token: u64,
    /// When the attempt began.
    pub started_at: Timestamp,
}

/// What decisions about a task need, stored in one versioned column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// The version of this form.
    pub v: u32,
    /// Attempts that failed.
    pub failures: u32,
    /// Attempts whose process died.
    pub lost: u32,
    /// Of those, how many in a row without a heartbeat in between.
    pub lost_in_a_row: u32,
    /// True when these are so many ([`Progress::POISON`]) that the call may be what kills its
    /// process: such calls run one at a time on a node.
    #[serde(skip_serializing_if = "is_false")]
    pub poison: bool,
    /// Attempts that a graceful stop cut short.
    pub interrupted: u32,
    /// Attempts that asked to be run later.
    pub snoozed: u32,
    /// Attempts that began while their gate was not flowing and failed: they are free.
    #[serde(skip_serializing_if = "super::is_zero_count")]
    pub probed: u32,
    /// True when the attempt that runs, or ran last, began while its gate was not flowing.
    #[serde(skip_serializing_if = "is_false")]
    pub probing: bool,
    /// When the call was first scheduled.
    pub first_scheduled: Option<Timestamp>,
    /// When its first attempt began.
    pub first_started: Option<Timestamp>,
    /// The delay chosen last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_delay_ms: Option<u64>,
    /// True when the workflow gave the call up and waits to hear how it ended.
    #[serde(skip_serializing_if = "is_false")]
    pub cancelled: bool,
    /// True when it waits for that not longer than the grace period of the attempt.
    #[serde(skip_serializing_if = "is_false")]
    pub in_grace: bool,
    /// True when the call has ended, because its time is up, and its last attempt has not.
    #[serde(skip_serializing_if = "is_false")]
    pub over: bool,
    /// True when the process that last looked for its activity did not find it.
    #[serde(skip_serializing_if = "is_false")]
    pub unregistered: bool,
    /// What the process that last looked at it was missing to run it. Another one may have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
    /// True when it is claimed only so that nobody else runs it while it ends: no attempt follows,
    /// and none is lost with the node that claimed it.
    #[serde(skip_serializing_if = "is_false")]
    pub to_end: bool,
    /// True when its attempts run in processes of somebody else and outlive the node that has
    /// claimed them: whoever takes the shard over waits for the one that runs.
    #[serde(skip_serializing_if = "is_false")]
    pub remote: bool,
    /// Why it is paused, while it is: [`TaskRow::wake_at`] is [`TaskRow::NEVER`] then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Box<Pause>>,
    /// Why it is to be paused when the attempt that runs has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_asked: Option<Box<Pause>>,
    /// How long its clocks stood still because it was paused.
    #[serde(skip_serializing_if = "is_zero")]
    pub stood_still_ms: u64,
    /// The run in which the call was first scheduled, when its run was reset since: its idempotency
    /// key follows from that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_run: Option<u32>,
    /// How much of that was after its first attempt began.
    #[serde(skip_serializing_if = "is_zero")]
    pub stood_still_since_start_ms: u64,
    /// True when an operator set its policy, for this call alone.
    #[serde(skip_serializing_if = "is_false")]
    pub policy_set: bool,
    /// The [revision](crate::PolicyOverride::revision) of what operators set for its activity by
    /// which its wait was decided.
    #[serde(skip_serializing_if = "is_zero")]
    pub decided_by: u64,
    /// True when it undoes another call.
    #[serde(skip_serializing_if = "is_false")]
    pub undoes: bool,
    /// What it was before another activity took its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Box<FellBack>>,
}

/// What a call was before its policy had another activity take its place. What is counted of a
/// call, and its times, are those of the other activity from there on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FellBack {
    /// The activity that was called.
    pub activity: String,
    /// What its attempts came to.
    pub failure: Failure,
    /// From when the total timeout of the call counts.
    pub since: Option<Timestamp>,
}

/// Why a call is paused, and since when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pause {
    /// Since when.
    pub since: Option<Timestamp>,
    /// When its next attempt would be due.
    pub due: Option<Timestamp>,
    /// When it ends by itself: the call fails then, for the reason in `stopped`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Why retrying stopped, when that is what paused it: the name of a
    /// [`Reason`](resurgam_core::retry::Reason).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Who paused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why they did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The times that bound the call go on meanwhile.
    #[serde(skip_serializing_if = "is_false")]
    pub clock_runs: bool,
    /// It was paused with its run, and goes on with it.
    #[serde(skip_serializing_if = "is_false")]
    pub with_run: bool,
    /// What the call has in common with others that failed in the same way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// That in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Progress {
    /// What stands in the stored form of a task that lacks something, and of no other: the quotes
    /// of a text in another field are escaped.
    pub const LACKING: &str = "\"lacks\":";

    /// How many attempts in a row are lost with their process before a call counts as one that may
    /// kill it.
    pub const POISON: u32 = 3;

    /// What stands in the stored form of a task that may kill its process, and of no other.
    pub const POISONOUS: &str = "\"poison\":";

    /// Another attempt in a row was lost with its process.
    pub fn is_lost_again(&mut self) {
        self.lost_in_a_row = self.lost_in_a_row.saturating_add(1);
        self.poison = self.lost_in_a_row >= Progress::POISON;
    }

    /// An attempt was not lost with its process, or a new count begins.
    pub fn is_not_lost(&mut self) {
        (self.lost_in_a_row, self.poison) = (0, false);
    }

    /// What stands in the stored form of a task that lacks just this.
    pub fn lacking(what: &str) -> String {
        format!("{}{}", Progress::LACKING, serde_json::Value::from(what))
    }

    /// The call that its idempotency key is made of.
    pub fn key_of(&self, call: CallKey) -> CallKey {
        let run = self.key_run.unwrap_or(call.run.run);
        RunKey { run, ..call.run }.call(call.seq)
    }

    /// How the attempts so far ended.
    pub fn counters(&self) -> Counters {
        let Progress { failures, lost, interrupted, snoozed, probed, .. } = *self;
        Counters { failures, lost, interrupted, snoozed, probed }
    }
}

/// A task with everything an attempt needs.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRecord {
    /// The task.
    pub task: TaskRow,
    /// The arguments, from its event.
    pub input: Payload,
    /// Its policy, `None` when it is missing.
    pub policy: Option<PolicyRow>,
    /// The workflow instance's id, for people.
    pub instance: String,
    /// Its ledger so far, bounded: the first ten and the last ten rows in order.
    pub ledger: Vec<AttemptRow>,
}
