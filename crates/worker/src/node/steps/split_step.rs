//! Steps that are too wide for one transaction.
//!
//! A turn that calls ten thousand activities is written in parts, in order; replay accepts a prefix
//! of a turn's commands, and asks for the rest. Therefore everything that belongs to a command goes
//! with the event that records it. The first part leaves a message that wakes the run after a crash
//! in between, the last part removes it.

use std::collections::BTreeMap;

use resurgam_core::{EventKind, RunKey, Seq, Timestamp, Uid};
use resurgam_store::rows::{Message, Status};
use resurgam_store::{InstanceWrite, MessageWrite, Step, TaskWrite};

use super::pending::Limits;
use crate::node::message::{NO_TIMER, timer_message};

/// The step as it is when it fits a transaction, otherwise in parts that do.
pub(crate) fn parts(mut step: Step, limits: Limits) -> Vec<Step> {
    if limits.admit(step.rows(), step.bytes()) {
        return vec![step];
    }
    let Some(run) = step.events.first().map(|(run, _)| *run) else { return vec![step] };
    let mut parts = events_in_parts(&mut step, limits);
    let places = Places::of(&parts, run);
    for task in step.tasks {
        parts[places.task(&task)].tasks.push(task);
    }
    for child in step.child_starts {
        parts[places.child_start(&child.row.uid)].child_starts.push(child);
    }
    for message in step.messages {
        parts[places.message(&message)].messages.push(message);
    }
    let (first, last) = instance_in_parts(step.instance, places.last > 0);
    parts[places.last].instance = last;
    if first.is_some() {
        parts[0].instance = first;
    }
    parts[0].policies = step.policies;
    parts[0].attempts = step.attempts;
    parts[0].actions = step.actions;
    parts[0].letters = step.letters;
    parts[0].kv = step.kv;
    if places.last > 0 {
        wake_after_a_crash(run, &mut parts, places.last);
    }
    parts
}

fn events_in_parts(step: &mut Step, limits: Limits) -> Vec<Step> {
    let mut parts = Vec::new();
    let mut part = Step::default();
    let (mut rows, mut bytes) = (0, 0);
    for (run, event) in std::mem::take(&mut step.events) {
        let (more_rows, more_bytes) = weight(&event.kind);
        if !part.events.is_empty() && !limits.admit(rows + more_rows, bytes + more_bytes) {
            parts.push(std::mem::take(&mut part));
            (rows, bytes) = (0, 0);
        }
        (rows, bytes) = (rows + more_rows, bytes + more_bytes);
        part.events.push((run, event));
    }
    parts.push(part);
    parts
}

/// About how many rows and bytes are written with an event.
fn weight(event: &EventKind) -> (usize, usize) {
    let bytes = event.payload_len();
    match event {
        // The instance, and the message that begins it.
        EventKind::ChildStarted(_) => (3, bytes * 2),
        _ => (2, bytes),
    }
}

/// What the first and the last part say about the instance: it begins with the first, and closes
/// with the last.
fn instance_in_parts(
    write: Option<InstanceWrite>,
    several: bool,
) -> (Option<InstanceWrite>, Option<InstanceWrite>) {
    match write {
        Some(InstanceWrite::Insert { mut row, replaces }) if several && row.status.is_closed() => {
            let close = InstanceWrite::Status {
                uid: row.uid,
                status: std::mem::replace(&mut row.status, Status::Running),
                outcome: row.outcome.take(),
                compensation: row.compensation.take(),
                error: None,
                closed_at: row.closed_at.take(),
            };
            (Some(InstanceWrite::Insert { row, replaces }), Some(close))
        }
        Some(insert @ InstanceWrite::Insert { .. }) => (Some(insert), None),
        status => (None, status),
    }
}

fn wake_after_a_crash(run: RunKey, parts: &mut [Step], last: usize) {
    let wake = timer_message(run, NO_TIMER, Timestamp::EPOCH);
    let end = MessageWrite::Delete { uid: run.uid, id: wake.id.clone() };
    parts[0].messages.push(MessageWrite::Insert(wake));
    parts[last].messages.push(end);
}

/// Which part the event of a call or timer is in.
struct Places {
    run: RunKey,
    by_seq: BTreeMap<Seq, usize>,
    cancelled: BTreeMap<Seq, usize>,
    children: BTreeMap<Uid, usize>,
    last: usize,
}

impl Places {
    fn of(parts: &[Step], run: RunKey) -> Self {
        let (mut by_seq, mut cancelled) = (BTreeMap::new(), BTreeMap::new());
        let mut children = BTreeMap::new();
        for (place, part) in parts.iter().enumerate() {
            // The events of the next run, if there are any, are in the last part.
            for (_, event) in part.events.iter().filter(|(of, _)| *of == run) {
                by_seq.insert(event.seq, place);
                match &event.kind {
                    EventKind::ActivityCancelled { activity }
                    | EventKind::ActivityCancelRequested { activity } => {
                        cancelled.insert(*activity, place);
                    }
                    EventKind::ChildStarted(child) => {
                        children.insert(Uid::of_child(run, event.seq, &child.id), place);
                    }
                    _ => {}
                }
            }
        }
        Places { run, by_seq, cancelled, children, last: parts.len() - 1 }
    }

    fn child_start(&self, uid: &Uid) -> usize {
        self.children.get(uid).copied().unwrap_or(self.last)
    }

    fn task(&self, write: &TaskWrite) -> usize {
        match write {
            TaskWrite::Insert(row) => self.by_seq.get(&row.call.seq).copied().unwrap_or(0),
            // What an input of the turn ended goes with the input, which is in the first part.
            TaskWrite::Delete(_) => 0,
            TaskWrite::Update(row) | TaskWrite::Amend(row) => {
                self.cancelled.get(&row.call.seq).copied().unwrap_or(0)
            }
            TaskWrite::Discard(call) => self.cancelled.get(&call.seq).copied().unwrap_or(0),
            TaskWrite::DeleteAll(_) => self.last,
        }
    }

    fn message(&self, write: &MessageWrite) -> usize {
        match write {
            MessageWrite::Insert(row) => match &row.body {
                Message::Timer { run, .. } | Message::Result { run, .. }
                    if *run != self.run.run =>
                {
                    self.last
                }
                Message::Timer { timer, .. } => self.by_seq.get(timer).copied().unwrap_or(0),
                _ => 0,
            },
            MessageWrite::Delete { .. } | MessageWrite::Defer { .. } => 0,
            // News for others: what becomes of children, or of this run.
            MessageWrite::InsertIfOpen(_) => self.last,
            MessageWrite::DeleteRun(_) | MessageWrite::Park(_) | MessageWrite::Unpark(_) => {
                self.last
            }
        }
    }
}
