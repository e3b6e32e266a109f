//! Steps that are too wide for one transaction.
//!
//! A turn that calls ten thousand activities is written in parts, in order; replay accepts a prefix
//! of a turn's commands, and asks for the rest. Therefore everything that belongs to a command goes
//! with the event that records it. The first part leaves a message that wakes the run after a crash
//! in between, the last part removes it.

use std::collections::HashMap;

use resurgam_core::{EventKind, RunKey, Seq, Timestamp, Uid};
use resurgam_store::rows::{Message, Status};
use resurgam_store::{InstanceWrite, MessageWrite, Step, TaskWrite};

use super::commit::{BYTES, ROWS};
use super::run::timer_message;

/// The timer that no run has: its message wakes a run and means nothing to it.
const NO_TIMER: Seq = Seq(0);

/// The step as it is when it fits a transaction, otherwise in parts that do.
pub(super) fn parts(mut step: Step) -> Vec<Step> {
    if step.rows() <= ROWS && step.bytes() <= BYTES {
        return vec![step];
    }
    let Some(run) = step.events.first().map(|(run, _)| *run) else { return vec![step] };
    let mut parts = events_in_parts(&mut step);
    let places = Places::of(&parts);
    for task in step.tasks {
        parts[places.task(&task)].tasks.push(task);
    }
    for birth in step.births {
        parts[places.birth(&birth.row.uid)].births.push(birth);
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
    parts[0].kv = step.kv;
    if places.last > 0 {
        wake_after_a_crash(run, &mut parts, places.last);
    }
    parts
}

fn events_in_parts(step: &mut Step) -> Vec<Step> {
    let mut parts = vec![Step::default()];
    let mut bytes = 0;
    for event in std::mem::take(&mut step.events) {
        bytes += event.1.kind.payload_len();
        let full = parts.last().is_some_and(|part| part.events.len() >= ROWS / 2);
        if full || bytes > BYTES {
            parts.push(Step::default());
            bytes = event.1.kind.payload_len();
        }
        parts.last_mut().into_iter().for_each(|part| part.events.push(event.clone()));
    }
    parts
}

/// What the first and the last part say about the instance: it begins with the first, and closes
/// with the last.
fn instance_in_parts(
    write: Option<InstanceWrite>,
    several: bool,
) -> (Option<InstanceWrite>, Option<InstanceWrite>) {
    match write {
        Some(InstanceWrite::Insert { mut row, replace_closed })
            if several && row.status.is_closed() =>
        {
            let close = InstanceWrite::Status {
                uid: row.uid,
                status: std::mem::replace(&mut row.status, Status::Running),
                outcome: row.outcome.take(),
                compensation: row.compensation.take(),
                error: None,
                closed_at: row.closed_at.take(),
            };
            (Some(InstanceWrite::Insert { row, replace_closed }), Some(close))
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
    by_seq: HashMap<Seq, usize>,
    cancelled: HashMap<Seq, usize>,
    children: HashMap<Uid, usize>,
    last: usize,
}

impl Places {
    fn of(parts: &[Step]) -> Self {
        let (mut by_seq, mut cancelled) = (HashMap::new(), HashMap::new());
        let mut children = HashMap::new();
        for (place, part) in parts.iter().enumerate() {
            for (run, event) in &part.events {
                by_seq.insert(event.seq, place);
                match &event.kind {
                    EventKind::ActivityCancelled { activity }
                    | EventKind::ActivityCancelRequested { activity } => {
                        cancelled.insert(*activity, place);
                    }
                    EventKind::ChildStarted(_) => {
                        children.insert(Uid::of_child(*run, event.seq), place);
                    }
                    _ => {}
                }
            }
        }
        Places { by_seq, cancelled, children, last: parts.len() - 1 }
    }

    fn birth(&self, uid: &Uid) -> usize {
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
                Message::Timer { timer, .. } => self.by_seq.get(timer).copied().unwrap_or(0),
                _ => 0,
            },
            MessageWrite::Delete { .. } => 0,
            // News for others: what becomes of children, or of this run.
            MessageWrite::InsertIfOpen(_) => self.last,
            MessageWrite::DeleteRun(_) | MessageWrite::Park(_) | MessageWrite::Unpark(_) => {
                self.last
            }
        }
    }
}
