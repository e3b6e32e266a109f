//! What is due when, and who gets a slot.
//!
//! Only the near future is in memory: everything due before `scanned_until`. Waiting holds no
//! slot, no tokio task and no thread; it is an entry here, or only a row in the store. The store
//! is read again when the first thing beyond comes near, and not before: an idle engine is idle.
//!
//! A task that is due and finds no slot waits in line. Lines are kept for each activity, so that
//! one activity at its own limit does not hold up the others; the line whose head has been due
//! longest goes first.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use resurgam_core::{CallKey, Timestamp, Uid};

/// The shortest time between two reads of what is due.
const PAGE_WAIT: Duration = Duration::from_millis(100);

/// What is due when.
#[derive(Debug)]
pub(super) struct Due {
    /// Tasks that wait for their time.
    tasks: BTreeSet<(Timestamp, CallKey)>,
    /// Runs that have a message at that time.
    runs: BTreeSet<(Timestamp, Uid)>,
    /// Tasks that wait for a slot, by activity.
    lines: HashMap<String, BTreeSet<(Timestamp, CallKey)>>,
    free: usize,
    limits: HashMap<String, usize>,
    taken: BTreeMap<String, usize>,
    horizon: Duration,
    /// Everything due before this is in memory.
    scanned_until: Timestamp,
    /// When to read the store again; `None` while everything is in memory.
    next_scan: Option<Timestamp>,
    /// What was left to the store while it was being read: the read may have missed it.
    missed: Option<Timestamp>,
    scanning: bool,
}

impl Due {
    pub(super) fn new(slots: usize, horizon: Duration, now: Timestamp) -> Self {
        Due {
            tasks: BTreeSet::new(),
            runs: BTreeSet::new(),
            lines: HashMap::new(),
            free: slots,
            limits: HashMap::new(),
            taken: BTreeMap::new(),
            horizon,
            scanned_until: Timestamp::from_millis(i64::MIN),
            next_scan: Some(now),
            missed: None,
            scanning: false,
        }
    }

    /// Bounds how many attempts of an activity run at once.
    pub(super) fn limit(&mut self, activity: &str, most: usize) {
        self.limits.insert(activity.to_string(), most);
    }

    /// Remembers a task's time if it is near. False when it is left to the store.
    pub(super) fn add_task(&mut self, at: Timestamp, call: CallKey) -> bool {
        let near = self.is_near(at);
        if near {
            self.tasks.insert((at, call));
        }
        near
    }

    /// Remembers that a run has a message at that time, if it is near.
    pub(super) fn add_run(&mut self, at: Timestamp, uid: Uid) {
        if self.is_near(at) {
            self.runs.insert((at, uid));
        }
    }

    /// True when something due then is to be kept in memory; otherwise the store is read again
    /// before its time.
    fn is_near(&mut self, at: Timestamp) -> bool {
        if at < self.scanned_until {
            return true;
        }
        self.missed = Some(self.missed.map_or(at, |known| known.min(at)));
        let ahead = at.saturating_sub(self.horizon / 2);
        self.next_scan = Some(self.next_scan.map_or(ahead, |known| known.min(ahead)));
        false
    }

    /// As long as everything is in memory, the near future moves along with the time.
    pub(super) fn moves_to(&mut self, now: Timestamp) {
        if self.next_scan.is_none() {
            self.scanned_until = self.scanned_until.max(now.saturating_add(self.horizon));
        }
    }

    /// True when the store is to be read now. Then [`Due::scanned`] is to follow.
    pub(super) fn begin_scan(&mut self, now: Timestamp) -> bool {
        let due = !self.scanning && self.next_scan.is_some_and(|at| at <= now);
        if due {
            self.scanning = true;
            self.missed = None;
        }
        due
    }

    /// The store was read: everything before `until` is about to be added; `beyond` is the first
    /// thing that is not.
    pub(super) fn scanned(&mut self, until: Timestamp, beyond: Option<Timestamp>, now: Timestamp) {
        self.scanning = false;
        self.scanned_until = self.scanned_until.max(until);
        let beyond = beyond.into_iter().chain(self.missed).min();
        // A full page is read on when it is used up, and not again at once.
        let soon = now.saturating_add(PAGE_WAIT);
        self.next_scan = beyond.map(|at| at.saturating_sub(self.horizon / 2).max(soon));
        self.moves_to(now);
    }

    /// The store could not be read.
    pub(super) fn scan_failed(&mut self, again: Timestamp) {
        self.scanning = false;
        self.next_scan = Some(again);
    }

    /// How far ahead the near future reaches.
    pub(super) fn ahead(&self, now: Timestamp) -> Timestamp {
        now.saturating_add(self.horizon)
    }

    /// Wakes a run at this time, however far.
    pub(super) fn wake_run(&mut self, at: Timestamp, uid: Uid) {
        self.runs.insert((at, uid));
    }

    /// The tasks whose time has come.
    pub(super) fn due_tasks(&mut self, now: Timestamp) -> Vec<(Timestamp, CallKey)> {
        std::iter::from_fn(|| {
            let first = self.tasks.first().filter(|(at, _)| *at <= now)?;
            let first = *first;
            self.tasks.remove(&first);
            Some(first)
        })
        .collect()
    }

    /// The runs whose time has come.
    pub(super) fn due_runs(&mut self, now: Timestamp) -> Vec<Uid> {
        std::iter::from_fn(|| {
            let first = self.runs.first().filter(|(at, _)| *at <= now)?;
            let first = *first;
            self.runs.remove(&first);
            Some(first.1)
        })
        .collect()
    }

    /// The next time anything is due.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let task = self.tasks.first().map(|(at, _)| *at);
        let run = self.runs.first().map(|(at, _)| *at);
        let scan = self.next_scan.filter(|_| !self.scanning);
        [task, run, scan].into_iter().flatten().min()
    }

    /// Takes a slot for an activity, unless all are taken or somebody has waited longer.
    pub(super) fn take_slot(&mut self, activity: &str) -> bool {
        let others = self.lines.keys().any(|waiting| waiting == activity || self.has_room(waiting));
        if others || !self.has_room(activity) {
            return false;
        }
        self.take(activity);
        true
    }

    /// Puts a task that is due in line for a slot.
    pub(super) fn enqueue(&mut self, activity: &str, at: Timestamp, call: CallKey) {
        self.lines.entry(activity.to_string()).or_default().insert((at, call));
    }

    /// Takes a task out of its line.
    pub(super) fn dequeue(&mut self, activity: &str, at: Timestamp, call: CallKey) {
        self.tasks.remove(&(at, call));
        if let Some(line) = self.lines.get_mut(activity) {
            line.remove(&(at, call));
            if line.is_empty() {
                self.lines.remove(activity);
            }
        }
    }

    /// Gives a slot to the task that has been due longest, if there is both. Answers with the
    /// activity too, whose slot it is.
    pub(super) fn next_in_line(&mut self) -> Option<(CallKey, String)> {
        let open = self.lines.iter().filter(|(activity, _)| self.has_room(activity));
        let heads = open.filter_map(|(activity, line)| Some((*line.first()?, activity)));
        let ((at, call), activity) = heads.min()?;
        let activity = activity.clone();
        self.dequeue(&activity, at, call);
        self.take(&activity);
        Some((call, activity))
    }

    /// Gives a slot back.
    pub(super) fn free_slot(&mut self, activity: &str) {
        self.free += 1;
        if let Some(taken) = self.taken.get_mut(activity) {
            *taken -= 1;
        }
    }

    fn take(&mut self, activity: &str) {
        self.free -= 1;
        if self.limits.contains_key(activity) {
            *self.taken.entry(activity.to_string()).or_default() += 1;
        }
    }

    fn has_room(&self, activity: &str) -> bool {
        let most = self.limits.get(activity).copied().unwrap_or(usize::MAX);
        self.free > 0 && self.taken.get(activity).copied().unwrap_or(0) < most
    }
}
