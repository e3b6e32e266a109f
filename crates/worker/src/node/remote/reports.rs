//! What a node remembers of attempts that run for other holders, and of reports and actions that
//! are being read ([`Reports`]). What follows from them is in `remote_attempts.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use resurgam_core::{CallKey, RunKey, Timestamp, Uid};
use resurgam_store::rows::{MessageRow, TaskRow};

use crate::node::calls::hot_call::HotCall;
use crate::node::coalesced_read::CoalescedRead;

/// Attempts whose shard is another node's, and reports of such attempts.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    /// Attempts that run here.
    pub(super) away: BTreeMap<CallKey, Box<HotCall>>,
    /// When to ask next whether they are wanted.
    pub(super) ask_at: Option<Timestamp>,
    /// Reports of instances that are being read.
    pub(super) heard: BTreeMap<Uid, CoalescedRead>,
    /// Reports that were taken. A read that began before they were gone from the store may still
    /// find them, and finds their tasks as they were.
    pub(super) taken: BTreeMap<(Uid, String), Taken>,
    /// Instances with reports that wait until others about the same call are gone.
    pub(super) postponed: BTreeSet<Uid>,
    /// Calls that changed while reports about them were being read: what was read of them is old.
    pub(super) changed: BTreeSet<CallKey>,
    /// Calls that were claimed so that an operator can act on them, until that has happened.
    pub(super) claimed: BTreeMap<CallKey, TaskRow>,
    /// Calls that are being claimed for that.
    pub(super) claiming: BTreeSet<CallKey>,
}

/// A report that was taken.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) call: CallKey,
    /// It is gone from the store.
    pub(super) gone: bool,
}

impl Reports {
    /// When to ask next whether attempts are wanted that run for other nodes.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.ask_at
    }

    /// The clock was set back by so much.
    pub(crate) fn clock_was_set_back(&mut self, by: Duration) {
        self.ask_at = self.ask_at.map(|at| at.saturating_sub(by));
    }

    /// The calls whose attempts run for other nodes.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &CallKey> {
        self.away.keys()
    }

    /// An attempt that runs for another node.
    pub(crate) fn get(&self, key: CallKey, token: u64) -> Option<&HotCall> {
        self.away.get(&key).map(Box::as_ref).filter(|call| call.has_token(token))
    }

    pub(crate) fn remove(&mut self, key: CallKey) -> Option<Box<HotCall>> {
        self.away.remove(&key)
    }

    /// Reports of a shard that goes are the next holder's.
    pub(crate) fn forget(&mut self, goes: impl Fn(Uid) -> bool) {
        self.heard.retain(|uid, _| !goes(*uid));
        self.taken.retain(|(uid, _), _| !goes(*uid));
        self.postponed.retain(|uid| !goes(*uid));
        self.changed.retain(|call| !goes(call.run.uid));
    }

    /// A call is claimed so that an operator can act on it, unless somebody else has it.
    pub(crate) fn is_claimed(&mut self, call: CallKey, task: Option<TaskRow>) {
        self.claiming.remove(&call);
        self.claimed.extend(task.map(|task| (call, task)));
    }

    /// The claims of this kind that go with their shards.
    pub(crate) fn take_claimed(&mut self, goes: impl Fn(Uid) -> bool) -> Vec<TaskRow> {
        let gone = self.claimed.extract_if(.., |call, _| goes(call.run.uid));
        gone.map(|(_, task)| task).collect()
    }

    /// A call changes: whatever is being read of it with reports is out of date.
    pub(crate) fn call_changes(&mut self, call: CallKey) {
        if self.heard.contains_key(&call.run.uid) {
            self.changed.insert(call);
        }
    }

    /// Takes a report, unless it was taken before, or its call has changed since it was read,
    /// perhaps because another report was taken: what was read of the task with it is worth
    /// nothing then.
    pub(super) fn take(&mut self, row: &MessageRow) -> bool {
        let Some((run, activity)) = row.body.call() else { return false };
        let call = RunKey { uid: row.uid, run }.call(activity);
        if self.changed.contains(&call) {
            self.postponed.insert(row.uid);
            return false;
        }
        let mut taken = self.taken.range((row.uid, String::new())..);
        let about = taken.find(|((uid, _), taken)| *uid != row.uid || taken.call == call);
        if let Some(((_, id), _)) = about.filter(|((uid, _), _)| *uid == row.uid) {
            if *id != row.id {
                self.postponed.insert(row.uid);
            }
            return false;
        }
        self.taken.insert((row.uid, row.id.clone()), Taken { call, gone: false });
        true
    }

    /// True while what a report says about a call is on its way to the store.
    pub(crate) fn is_being_recorded(&self, call: CallKey) -> bool {
        let of_instance = self.taken.range((call.run.uid, String::new())..);
        let of_instance = of_instance.take_while(|((uid, _), _)| *uid == call.run.uid);
        of_instance.into_iter().any(|(_, taken)| taken.call == call && !taken.gone)
    }

    /// The attempts that run for other nodes.
    pub(crate) fn attempts(&self) -> impl Iterator<Item = &HotCall> {
        self.away.values().map(Box::as_ref)
    }
}
