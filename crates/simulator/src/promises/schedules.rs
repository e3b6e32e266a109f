//! What is promised about schedules: every firing is started, skipped, missed or waiting, once.
//!
//! A schedule counts what it does with its firings. The counts must add up to the number of firings
//! that its rule has in the time that it has decided about, less those that passed while it was
//! paused. What it starts must be a firing that is due, and must not meet an instance that is open
//! unless its overlap policy says so.

use std::collections::BTreeMap;
use std::time::Duration;

use resurgam_core::Timestamp;
use resurgam_core::schedule::{CheckedSchedule, Overlap, Schedule, State};
use resurgam_store::model::Model;
use resurgam_store::rows::InstanceRow;
use resurgam_store::{ChildStart, ScheduleRow, ScheduleWrite, Step};

use super::{CORRECTED, Promises};

/// The schedules as they were last written, by id.
pub(super) type SchedulesSeen = BTreeMap<String, ScheduleSeen>;

#[derive(Clone, Debug)]
pub(super) struct ScheduleSeen {
    row: ScheduleRow,
    /// From here on its firings count.
    begins: Timestamp,
    /// How many firings passed while it was paused.
    forgotten: u64,
    /// How many of its instances there are or were.
    started: u64,
}

impl Promises {
    /// A step is written that changes a schedule.
    pub(super) fn schedule_written(&mut self, model: &Model, step: &Step) {
        match step.schedule.as_deref() {
            None => {}
            Some(ScheduleWrite::Insert(row)) => {
                let Some((_, state)) = self.read(row) else { return };
                let begins = state.decided;
                let seen = ScheduleSeen { row: row.clone(), begins, forgotten: 0, started: 0 };
                self.schedules.insert(row.id.clone(), seen);
            }
            Some(ScheduleWrite::Update { row, .. }) => {
                self.schedule_changed(model, row, &step.child_starts);
            }
            Some(ScheduleWrite::Delete { id }) => drop(self.schedules.remove(id)),
        }
    }

    fn read(&mut self, row: &ScheduleRow) -> Option<(CheckedSchedule, State)> {
        let schedule = Schedule::from_stored(&row.rule).and_then(|schedule| schedule.check());
        let read = schedule.and_then(|schedule| Ok((schedule, State::from_stored(&row.state)?)));
        if let Err(error) = &read {
            self.breaks(None, format!("schedule {} cannot be read: {error}", row.id));
        }
        read.ok()
    }

    fn schedule_changed(&mut self, model: &Model, row: &ScheduleRow, starts: &[ChildStart]) {
        let Some((schedule, state)) = self.read(row) else { return };
        let Some(mut seen) = self.schedules.remove(&row.id) else {
            return self.breaks(None, format!("schedule {} is written and was deleted", row.id));
        };
        let Some((_, before)) = self.read(&seen.row) else { return };
        if seen.row.paused && !row.paused {
            // Whoever resumes it leaves the firings out that have passed.
            seen.forgotten += schedule.count(before.decided, state.decided);
        }
        let waiting = u64::from(state.buffered.is_some());
        let done = state.started + state.missed + state.skipped + waiting + seen.forgotten;
        let firings = schedule.count(seen.begins, state.decided);
        if done != firings {
            let what = format!("schedule {} has had {firings} firings", row.id);
            self.breaks(None, format!("{what} and did something with {done}: {state:?}"));
        }
        self.check_starts(model, &seen.row, &schedule, &before, starts);
        seen.started += starts.len() as u64;
        if seen.started != state.started {
            let (id, started) = (&row.id, seen.started);
            self.breaks(None, format!("schedule {id} started {started} and counts {state:?}"));
        }
        seen.row = row.clone();
        self.schedules.insert(row.id.clone(), seen);
    }

    fn check_starts(
        &mut self,
        model: &Model,
        row: &ScheduleRow,
        schedule: &CheckedSchedule,
        before: &State,
        starts: &[ChildStart],
    ) {
        let id = &row.id;
        if starts.is_empty() {
            return;
        }
        if row.paused {
            self.breaks(None, format!("schedule {id} fires although it is paused"));
        }
        // One that an operator brought back may have been closed when the schedule looked.
        let is_open =
            |row: &InstanceRow| !row.status.is_closed() && !self.was_brought_back(row.uid);
        let is_open = |id: &str| model.find(id).is_some_and(|row| is_open(&row));
        let last_open = row.last.as_deref().filter(|last| is_open(last));
        if schedule.overlap != Overlap::Allow {
            if let Some(last) = last_open {
                self.breaks(None, format!("schedule {id} fires although {last} is open"));
            }
            if starts.len() > 1 {
                self.breaks(None, format!("schedule {id} fires {} times at once", starts.len()));
            }
        }
        for start in starts {
            let buffered = before.buffered.map(|nominal| schedule.instance_id(nominal));
            let by = start.row.created_at;
            let mut firings = schedule.firings(before.decided, by);
            let is_firing = firings.any(|nominal| schedule.instance_id(nominal) == start.row.id);
            if !is_firing && buffered.as_ref() != Some(&start.row.id) {
                let name = &start.row.id;
                self.breaks(None, format!("schedule {id} starts {name}, which is not due"));
            }
            if model.find(&start.row.id).is_none_or(|found| found.uid != start.row.uid) {
                let name = &start.row.id;
                self.breaks(None, format!("schedule {id} fired, and {name} is not there"));
            }
        }
    }

    /// A user is told that a schedule is there, and whether it is paused.
    pub(crate) fn schedule_acknowledged(&mut self, model: &Model, id: &str, paused: bool) {
        match model.schedule(id) {
            Some(record) if record.row.paused == paused => {}
            found => {
                let is = found.map(|record| record.row.paused);
                let what = format!("somebody was told that schedule {id} is paused: {paused}");
                self.breaks(None, format!("{what}; it is {is:?}"));
            }
        }
    }

    /// Nothing went wrong for a while: a schedule that is not paused has decided about every firing
    /// that is longer ago than this.
    pub(crate) fn schedule_is_current(&mut self, id: &str, now: Timestamp, slack: Duration) {
        let Some(seen) = self.schedules.get(id).filter(|seen| !seen.row.paused).cloned() else {
            return;
        };
        let Some((schedule, state)) = self.read(&seen.row) else { return };
        let late = now.saturating_sub(slack.saturating_add(CORRECTED));
        if let Some(nominal) = schedule.last(state.decided, late) {
            let error = seen.row.error.unwrap_or_default();
            self.breaks(
                None,
                format!("schedule {id} forgot {nominal} by {now}: {state:?} {error}"),
            );
        }
    }
}
