//! Schedules, by id and by the time when they are due.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use resurgam_core::Timestamp;

use crate::ScheduleRow;

/// A stored schedule.
#[derive(Clone, Debug)]
pub(in crate::model) struct ScheduleEntry {
    pub(in crate::model) row: ScheduleRow,
    /// Which change of any schedule made it what it is.
    pub(in crate::model) revision: u64,
}

/// The table of schedules.
#[derive(Clone, Debug, Default)]
pub(in crate::model) struct ScheduleRows {
    rows: BTreeMap<String, ScheduleEntry>,
    /// Those that fire by the clock.
    due: BTreeSet<(Timestamp, String)>,
    /// Those that wait for something else than the time.
    waiting: BTreeSet<String>,
}

impl ScheduleRows {
    pub(in crate::model) fn put(
        &mut self,
        id: String,
        row: Option<ScheduleEntry>,
    ) -> Option<ScheduleEntry> {
        let before = self.rows.remove(&id);
        if let Some(before) = &before {
            if let Some(next_at) = before.row.next_at {
                self.due.remove(&(next_at, id.clone()));
            }
            self.waiting.remove(&id);
        }
        if let Some(entry) = row {
            if let Some(next_at) = entry.row.next_at.filter(|_| !entry.row.paused) {
                self.due.insert((next_at, id.clone()));
            }
            if entry.row.waits {
                self.waiting.insert(id.clone());
            }
            self.rows.insert(id, entry);
        }
        before
    }

    pub(in crate::model) fn get(&self, id: &str) -> Option<&ScheduleEntry> {
        self.rows.get(id)
    }

    /// Schedules after this id, by id.
    pub(in crate::model) fn after(&self, id: &str) -> impl Iterator<Item = &ScheduleEntry> {
        self.rows.range::<str, _>((Excluded(id), Unbounded)).map(|(_, entry)| entry)
    }

    /// Schedules that wait, after this id, by id.
    pub(in crate::model) fn waiting_after(&self, id: &str) -> impl Iterator<Item = &ScheduleEntry> {
        let waiting = self.waiting.range::<str, _>((Excluded(id), Unbounded));
        waiting.filter_map(|id| self.rows.get(id))
    }

    /// Schedules that fire by the clock, the earliest first.
    pub(in crate::model) fn by_time(&self) -> impl Iterator<Item = (Timestamp, &ScheduleEntry)> {
        self.due.iter().filter_map(|(at, id)| Some((*at, self.rows.get(id)?)))
    }
}
