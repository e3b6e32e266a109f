//! What is known of claims of nodes that are gone, while they are read ([`Claims`]). What follows
//! from them is in `load_tasks.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use resurgam_core::{CallKey, Timestamp, Uid};
use resurgam_store::rows::TaskRow;

use crate::node::coalesced_read::CoalescedRead;

/// Claims of nodes that are gone, while they are read. That takes a while when there are many, and
/// what happened meanwhile the read does not know of.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    pub(super) heard: CoalescedRead,
    /// How often each shard was gained when the read began.
    pub(super) tenures: Vec<u64>,
    /// Calls of which more is known than the read can tell.
    pub(super) changed: BTreeSet<CallKey>,
    /// The claims that were found to be lost, by their tokens, and when: until that is durable a
    /// read finds them again, and each is lost once.
    pub(super) lost: BTreeMap<(CallKey, u64), Timestamp>,
    /// Calls that are being read because the outcome of an attempt was lost in this process, and
    /// whether more is known of them by now than the read can tell.
    pub(super) lost_reads: BTreeMap<CallKey, bool>,
}

/// How long a claim is remembered that was lost: far longer than a read takes.
pub(super) const REMEMBERED: Duration = Duration::from_secs(600);

impl Claims {
    /// True when what was read of a call may be out of date, whose shard was gained so often by
    /// now.
    pub(super) fn is_outdated(&self, call: CallKey, tenure: u64) -> bool {
        let shard = usize::from(call.run.uid.shard().0);
        self.tenures.get(shard) != Some(&tenure) || self.changed.contains(&call)
    }

    /// True when a claim was found to be lost before.
    pub(super) fn has_lost(&self, task: &TaskRow) -> bool {
        task.claim.as_ref().is_some_and(|claim| self.lost.contains_key(&(task.call, claim.token)))
    }

    /// A call changes: whatever is being read of it is out of date.
    pub(super) fn call_changes(&mut self, call: CallKey) {
        if self.heard.is_reading() {
            self.changed.insert(call);
        }
        if let Some(outdated) = self.lost_reads.get_mut(&call) {
            *outdated = true;
        }
    }

    /// What was not durable when a shard went is for its next holder to find.
    pub(crate) fn forget(&mut self, goes: impl Fn(Uid) -> bool) {
        self.lost.retain(|(call, _), _| !goes(call.run.uid));
        self.lost_reads.retain(|call, _| !goes(call.run.uid));
    }
}
