//! What is due when.
//!
//! Only the near future is in memory: everything due before `scanned_until`. Waiting holds no
//! slot, no spawned task and no thread; it is an entry here, or only a row in the store. The store
//! is read again when the first thing beyond comes near, and not before: an idle engine is idle.
//!
//! A deadline that has passed may stay in the store: the clock of a call that its gate holds back
//! stands still. There may be a million of these, so deadlines that have passed are read once, page
//! by page, and hide nothing of what else is due.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use resurgam_core::{CallKey, Shard, Timestamp, Uid};
use resurgam_store::rows::{DueDeadline, TaskRow};

use super::slots::Ticket;
use crate::node::gates::GateId;

/// The shortest time between two reads of what is due.
const PAGE_WAIT: Duration = Duration::from_millis(100);

/// How far the store was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanned {
    /// Every task and every message due before this is about to be added.
    pub(super) until: Timestamp,
    /// Every deadline before this is about to be added.
    pub(super) deadlines_until: Timestamp,
    /// The last deadline of those that were read which has passed.
    pub(super) passed: Option<DueDeadline>,
    /// The first thing that is not about to be added.
    pub(super) beyond: Option<Timestamp>,
}

/// What is due when.
#[derive(Debug)]
pub(crate) struct Due {
    /// Tasks that wait for their time.
    tasks: BTreeMap<(Timestamp, CallKey), Ticket>,
    /// Runs that have a message at that time.
    runs: BTreeSet<(Timestamp, Uid)>,
    /// Tasks that may have waited too long by then.
    deadlines: BTreeSet<(Timestamp, CallKey)>,
    /// Runs that are tried again at that time, and tasks that are looked at again: this node waits
    /// for that by itself, whatever the store says.
    tried_again: BTreeSet<(Timestamp, Uid)>,
    looked_at_again: BTreeSet<(Timestamp, CallKey)>,
    horizon: Duration,
    /// Every task and every message due before this is in memory.
    scanned_until: Timestamp,
    /// Every deadline before this is in memory, or was looked at when it passed.
    deadlines_until: Timestamp,
    /// The last deadline that had passed when the store was read. Those up to it are not read
    /// again.
    passed: Option<DueDeadline>,
    /// When all deadlines are read again.
    deadlines_again: Option<Timestamp>,
    /// When to read the store again; `None` while everything is in memory.
    next_scan: Option<Timestamp>,
    /// The first thing that was left to the store while it was being read: the read may have missed
    /// it.
    missed: Option<Timestamp>,
    /// Somebody else wrote while the store was being read.
    read_again: bool,
    scanning: bool,
}

impl Due {
    pub(crate) fn new(horizon: Duration, now: Timestamp) -> Self {
        Due {
            tasks: BTreeMap::new(),
            runs: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            tried_again: BTreeSet::new(),
            looked_at_again: BTreeSet::new(),
            horizon,
            scanned_until: Timestamp::from_millis(i64::MIN),
            deadlines_until: Timestamp::from_millis(i64::MIN),
            passed: None,
            deadlines_again: None,
            next_scan: Some(now),
            missed: None,
            read_again: false,
            scanning: false,
        }
    }

    /// Remembers a task's time if it is near. False when it is left to the store.
    pub(crate) fn add_task(&mut self, at: Timestamp, call: CallKey, ticket: Ticket) -> bool {
        let near = self.is_near(at, self.scanned_until);
        if near {
            self.tasks.insert((at, call), ticket);
        }
        near
    }

    /// Remembers until when a task may wait, if it is near.
    pub(crate) fn add_deadline(&mut self, at: Timestamp, call: CallKey) {
        if self.is_near(at, self.deadlines_until) {
            self.deadlines.insert((at, call));
        }
    }

    /// Has a task looked at once more at this time, however far.
    pub(crate) fn look_again(&mut self, at: Timestamp, call: CallKey) {
        self.looked_at_again.insert((at, call));
    }

    /// A task no longer waits: its times mean nothing any more.
    pub(crate) fn forget(&mut self, task: &TaskRow) {
        self.tasks.remove(&(task.wake_at, task.call));
        if let Some(at) = task.deadline_at {
            self.deadlines.remove(&(at, task.call));
            self.looked_at_again.remove(&(at, task.call));
        }
    }

    /// Remembers that a run has a message at that time, if it is near.
    pub(crate) fn add_run(&mut self, at: Timestamp, uid: Uid) {
        if self.is_near(at, self.scanned_until) {
            self.runs.insert((at, uid));
        }
    }

    /// True when something due then is to be kept in memory; otherwise the store is read again
    /// before its time.
    fn is_near(&mut self, at: Timestamp, known_until: Timestamp) -> bool {
        if at < known_until {
            return true;
        }
        self.missed = Some(self.missed.map_or(at, |known| known.min(at)));
        let ahead = at.saturating_sub(self.horizon / 2);
        self.next_scan = Some(self.next_scan.map_or(ahead, |known| known.min(ahead)));
        false
    }

    /// As long as everything is in memory, the near future moves along with the time.
    pub(crate) fn moves_to(&mut self, now: Timestamp) {
        if self.next_scan.is_none() {
            let until = now.saturating_add(self.horizon);
            self.scanned_until = self.scanned_until.max(until);
            self.deadlines_until = self.deadlines_until.max(until);
        }
    }

    /// The last deadline that had passed when the store was read: those behind it are read.
    pub(crate) fn passed(&self) -> Option<DueDeadline> {
        self.passed
    }

    /// Reads all deadlines again at this time, also those that have passed.
    pub(crate) fn read_deadlines_again(&mut self, at: Timestamp) {
        self.deadlines_again = Some(self.deadlines_again.map_or(at, |known| known.min(at)));
    }

    /// True when the store is to be read now. Then [`Due::scanned`] is to follow.
    pub(crate) fn begin_scan(&mut self, now: Timestamp) -> bool {
        let due = !self.scanning && self.next_scan.is_some_and(|at| at <= now);
        if due {
            self.scanning = true;
            (self.missed, self.read_again) = (None, false);
        }
        due
    }

    /// The store was read.
    pub(crate) fn scanned(&mut self, found: Scanned, now: Timestamp) {
        let Scanned { until, deadlines_until, passed, beyond } = found;
        self.scanning = false;
        self.scanned_until = self.scanned_until.max(until);
        self.deadlines_until = self.deadlines_until.max(deadlines_until);
        self.passed = passed.or(self.passed).filter(|_| !self.read_again);
        let ahead = |at: Timestamp| at.saturating_sub(self.horizon / 2);
        // A full page is read on when it is used up, and not again at once.
        let soon = now.saturating_add(PAGE_WAIT);
        let page = beyond.map(|at| ahead(at).max(soon));
        let again = self.read_again.then_some(soon);
        // What was added meanwhile is ours, and may be due before that.
        self.next_scan = [page, again, self.missed.map(ahead)].into_iter().flatten().min();
        self.moves_to(now);
    }

    /// There may be more in the store than was there when it was read.
    pub(crate) fn rescan(&mut self, now: Timestamp) {
        self.passed = None;
        match self.scanning {
            true => self.read_again = true,
            false => self.next_scan = Some(now),
        }
    }

    /// The clock was set back by so much. What this node waits for by itself would take so much
    /// longer, and reading the store again, too.
    pub(crate) fn clock_was_set_back(&mut self, by: Duration, now: Timestamp) {
        self.rescan(now);
        let earlier = |(at, uid): (Timestamp, Uid)| (at.saturating_sub(by), uid);
        self.tried_again = std::mem::take(&mut self.tried_again).into_iter().map(earlier).collect();
        // Some of these are times by the clock.
        let also = self.looked_at_again.iter().map(|(at, call)| (at.saturating_sub(by), *call));
        self.looked_at_again.extend(also.collect::<Vec<_>>());
    }

    /// Forgets everything of these shards.
    pub(crate) fn drop_of(&mut self, shards: &BTreeSet<Shard>) {
        self.tasks.retain(|(_, call), _| !shards.contains(&call.run.uid.shard()));
        self.deadlines.retain(|(_, call)| !shards.contains(&call.run.uid.shard()));
        self.runs.retain(|(_, uid)| !shards.contains(&uid.shard()));
        self.tried_again.retain(|(_, uid)| !shards.contains(&uid.shard()));
        self.looked_at_again.retain(|(_, call)| !shards.contains(&call.run.uid.shard()));
    }

    /// The store could not be read.
    pub(crate) fn scan_failed(&mut self, again: Timestamp) {
        self.scanning = false;
        self.next_scan = Some(again);
    }

    /// The gates of the tasks that wait here for their time.
    pub(crate) fn gates(&self) -> impl Iterator<Item = GateId> {
        self.tasks.values().filter_map(|ticket| ticket.gate())
    }

    /// How far ahead the near future reaches.
    pub(crate) fn ahead(&self, now: Timestamp) -> Timestamp {
        now.saturating_add(self.horizon)
    }

    /// Wakes a run at this time, however far.
    pub(crate) fn wake_run(&mut self, at: Timestamp, uid: Uid) {
        self.tried_again.insert((at, uid));
    }

    /// The tasks whose time has come.
    pub(crate) fn due_tasks(&mut self, now: Timestamp) -> Vec<(Timestamp, CallKey, Ticket)> {
        let next = || {
            let first = self.tasks.first_entry().filter(|entry| entry.key().0 <= now)?;
            let ((at, call), ticket) = first.remove_entry();
            Some((at, call, ticket))
        };
        std::iter::from_fn(next).collect()
    }

    /// The tasks that may have waited too long.
    pub(crate) fn due_deadlines(&mut self, now: Timestamp) -> Vec<CallKey> {
        if self.deadlines_again.take_if(|at| *at <= now).is_some() {
            self.rescan(now);
        }
        let due = take_until(&mut self.deadlines, now);
        due.chain(take_until(&mut self.looked_at_again, now)).map(|(_, call)| call).collect()
    }

    /// The runs whose time has come.
    pub(crate) fn due_runs(&mut self, now: Timestamp) -> Vec<Uid> {
        let due = take_until(&mut self.runs, now);
        due.chain(take_until(&mut self.tried_again, now)).map(|(_, uid)| uid).collect()
    }

    /// The next time anything is due.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let task = self.tasks.first_key_value().map(|((at, _), _)| *at);
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        let run = self.runs.first().map(|(at, _)| *at);
        let again = self.tried_again.first().map(|(at, _)| *at);
        let look = self.looked_at_again.first().map(|(at, _)| *at);
        let scan = self.next_scan.filter(|_| !self.scanning);
        let all = [task, deadline, run, again, look, scan, self.deadlines_again];
        all.into_iter().flatten().min()
    }
}

/// Takes out what is due, one by one.
fn take_until<T: Copy + Ord>(
    waiting: &mut BTreeSet<(Timestamp, T)>,
    now: Timestamp,
) -> impl Iterator<Item = (Timestamp, T)> {
    std::iter::from_fn(move || {
        waiting.first().filter(|(at, _)| *at <= now)?;
        waiting.pop_first()
    })
}
