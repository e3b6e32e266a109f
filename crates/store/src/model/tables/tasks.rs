//! Tasks, by call, by the time when they are due, and by who runs them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use resurgam_core::{CallKey, RunKey, Timestamp, Uid};

use super::{calls_of, calls_of_run};
use crate::rows::{DueDeadline, TaskRow};

/// The table of tasks.
#[derive(Clone, Debug, Default)]
pub(in crate::model) struct Tasks {
    rows: BTreeMap<CallKey, TaskRow>,
    /// Those that wait for an attempt.
    waiting: BTreeSet<(Timestamp, CallKey)>,
    /// Those that wait, queue by queue.
    queues: Named,
    /// Those that wait, gate by gate.
    gates: Named,
    /// Those of them that lack something.
    lacking: BTreeSet<(Timestamp, CallKey)>,
    /// Those of them that have a deadline.
    deadlines: BTreeSet<(Timestamp, CallKey)>,
    /// Those of which an attempt runs, by its node.
    claimed: BTreeSet<(String, CallKey)>,
}

impl Tasks {
    pub(in crate::model) fn put(&mut self, call: CallKey, row: Option<TaskRow>) -> Option<TaskRow> {
        let before = self.rows.remove(&call);
        if let Some(before) = &before {
            self.leave_indexes(before);
        }
        if let Some(row) = row {
            self.enter_indexes(&row);
            self.rows.insert(call, row);
        }
        before
    }

    fn enter_indexes(&mut self, row: &TaskRow) {
        if let Some(claim) = &row.claim {
            self.claimed.insert((claim.node.clone(), row.call));
            return;
        }
        self.waiting.insert((row.wake_at, row.call));
        self.queues.insert((row.queue.clone(), row.wake_at, row.call));
        self.gates.insert((row.gate.clone(), row.wake_at, row.call));
        if row.progress.lacks.is_some() {
            self.lacking.insert((row.wake_at, row.call));
        }
        if let Some(deadline_at) = row.deadline_at {
            self.deadlines.insert((deadline_at, row.call));
        }
    }

    fn leave_indexes(&mut self, row: &TaskRow) {
        if let Some(claim) = &row.claim {
            self.claimed.remove(&(claim.node.clone(), row.call));
            return;
        }
        self.waiting.remove(&(row.wake_at, row.call));
        self.queues.remove(&(row.queue.clone(), row.wake_at, row.call));
        self.gates.remove(&(row.gate.clone(), row.wake_at, row.call));
        self.lacking.remove(&(row.wake_at, row.call));
        if let Some(deadline_at) = row.deadline_at {
            self.deadlines.remove(&(deadline_at, row.call));
        }
    }

    pub(in crate::model) fn get(&self, call: CallKey) -> Option<&TaskRow> {
        self.rows.get(&call)
    }

    /// All of them, by call.
    pub(in crate::model) fn all(&self) -> impl Iterator<Item = &TaskRow> {
        self.rows.values()
    }

    /// The tasks of all runs behind this call, by call.
    pub(in crate::model) fn after(&self, call: Option<CallKey>) -> impl Iterator<Item = &TaskRow> {
        let after = call.map_or(Unbounded, Excluded);
        self.rows.range((after, Unbounded)).map(|(_, row)| row)
    }

    /// The tasks of a run, by place.
    pub(in crate::model) fn of_run(&self, run: RunKey) -> impl Iterator<Item = &TaskRow> {
        self.rows.range(calls_of_run(run)).map(|(_, row)| row)
    }

    /// The tasks of all runs of an instance.
    pub(in crate::model) fn of(&self, uid: Uid) -> impl Iterator<Item = &TaskRow> {
        self.rows.range(calls_of(uid)).map(|(_, row)| row)
    }

    /// Tasks that wait, the one that is due first at the front.
    pub(in crate::model) fn waiting(&self) -> impl Iterator<Item = &TaskRow> {
        self.waiting.iter().filter_map(|(_, call)| self.rows.get(call))
    }

    /// Tasks that wait and lack something, the one that is due first at the front.
    pub(in crate::model) fn lacking(&self) -> impl Iterator<Item = &TaskRow> {
        self.lacking.iter().filter_map(|(_, call)| self.rows.get(call))
    }

    /// Tasks that wait in a queue, the one that is due first at the front.
    pub(in crate::model) fn in_queue(&self, queue: &str) -> impl Iterator<Item = &TaskRow> {
        named(&self.queues, queue).filter_map(|call| self.rows.get(&call))
    }

    /// Tasks that wait behind a gate, the one that is due first at the front.
    pub(in crate::model) fn behind(&self, gate: &str) -> impl Iterator<Item = &TaskRow> {
        named(&self.gates, gate).filter_map(|call| self.rows.get(&call))
    }

    /// The first queue after this one in which tasks wait.
    pub(in crate::model) fn queue_after(&self, queue: Option<&str>) -> Option<&str> {
        name_after(&self.queues, queue)
    }

    /// The first gate after this one that tasks wait behind.
    pub(in crate::model) fn gate_after(&self, gate: &str) -> Option<&str> {
        name_after(&self.gates, Some(gate))
    }

    /// Tasks that wait and have a deadline before this time, the earliest first: those behind the
    /// one that is named.
    pub(in crate::model) fn deadlines(
        &self,
        after: Option<DueDeadline>,
        before: Timestamp,
    ) -> impl Iterator<Item = (Timestamp, CallKey)> {
        let end = (before, *calls_of(Uid(u128::MIN)).start());
        let after = after.map(|after| (after.deadline_at, after.call)).filter(|after| *after < end);
        let start = after.map_or(Unbounded, Excluded);
        self.deadlines.range((start, Excluded(end))).copied()
    }

    /// Tasks of which an attempt runs, by the name of its node.
    pub(in crate::model) fn claimed(&self) -> impl Iterator<Item = (&str, &TaskRow)> {
        self.claimed.iter().filter_map(|(node, call)| Some((node.as_str(), self.rows.get(call)?)))
    }
}

/// Tasks that wait by a name and by the time when they are due.
type Named = BTreeSet<(String, Timestamp, CallKey)>;

/// The tasks of a name, the one that is due first at the front.
fn named(tasks: &Named, name: &str) -> impl Iterator<Item = CallKey> {
    let first = Timestamp::from_millis(i64::MIN);
    let begin = (name.to_string(), first, *calls_of(Uid(u128::MIN)).start());
    let waiting = tasks.range(begin..).take_while(move |(other, ..)| other == name);
    waiting.map(|(_, _, call)| *call)
}

/// The first name after this one.
fn name_after<'n>(tasks: &'n Named, name: Option<&str>) -> Option<&'n str> {
    let last = Timestamp::from_millis(i64::MAX);
    let end = |name: &str| (name.to_string(), last, *calls_of(Uid(u128::MAX)).end());
    let after = name.map_or(Unbounded, |name| Excluded(end(name)));
    tasks.range((after, Unbounded)).next().map(|(name, ..)| name.as_str())
}
