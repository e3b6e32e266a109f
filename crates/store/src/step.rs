//! What one step of one run changes.

use resurgam_core::event::Compensation;
use resurgam_core::{CallKey, Event, Payload, RunKey, Seq, Shard, Timestamp, Uid};

use crate::bulk::BulkWrite;
use crate::gates::GateWrite;
use crate::inbox::InboxWrite;
use crate::rows::{
    ActionRow, AttemptRow, InstanceRow, KvRow, Message, MessageRow, PolicyOverride, PolicyRow,
    RunPause, Status, TaskRow,
};
use crate::schedules::ScheduleWrite;
use crate::unresolved::LetterWrite;

/// What one step of one run changes: taken as a whole, or refused as a whole. The parts are
/// written in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// The instance.
    pub instance: Option<InstanceWrite>,
    /// Events appended to a run.
    pub events: Vec<(RunKey, Event)>,
    /// What a run that is reset has of the run before it.
    pub rewind: Option<Box<Rewind>>,
    /// Policies that tasks of this step name; known ones are skipped.
    pub policies: Vec<PolicyRow>,
    /// Unfinished activity calls.
    pub tasks: Vec<TaskWrite>,
    /// Instances that a workflow or a schedule starts.
    pub child_starts: Vec<ChildStart>,
    /// Messages, also to instances that are started by the same step.
    pub messages: Vec<MessageWrite>,
    /// Rows of the ledger.
    pub attempts: Vec<AttemptRow>,
    /// What operators did; an action whose id is known for the instance is dropped.
    pub actions: Vec<ActionRow>,
    /// Dead letters. The instance of one that is written is there.
    pub letters: Vec<LetterWrite>,
    /// The instance's own data.
    pub kv: Vec<KvRow>,
    /// Policies that operators set for all calls of an activity, each in the place of the one
    /// before.
    pub policy_overrides: Vec<PolicyOverride>,
    /// Gates, and kinds of calls that are paused.
    pub gates: Vec<GateWrite>,
    /// A schedule.
    pub schedule: Option<Box<ScheduleWrite>>,
    /// A row that somebody else has inserted.
    pub inbox: Option<Box<InboxWrite>>,
    /// A bulk job.
    pub bulk: Option<Box<BulkWrite>>,
}

/// What a run that is reset has of the run before it: a copy of its history, which the store makes
/// by itself. Its own first event is among the events of the step.
#[derive(Clone, Debug, PartialEq)]
pub struct Rewind {
    /// The run before it.
    pub from: RunKey,
    /// The number of the run that gets the copy.
    pub to: u32,
    /// Everything between the first event and this one is copied, each event at its own place.
    pub before: Seq,
    /// Entries of the instance's own data that were not there yet.
    pub forget: Vec<String>,
}

/// A change of an instance.
#[derive(Clone, Debug, PartialEq)]
pub enum InstanceWrite {
    /// A new one. The step is a duplicate when who holds its id is not replaced.
    Insert {
        /// The row.
        row: Box<InstanceRow>,
        /// Who gives up the id.
        replaces: Replaces,
    },
    /// No change. The step is refused when the instance is closed, or was never there.
    Open {
        /// Which.
        uid: Uid,
        /// The step is refused also when this many signals wait for the instance.
        signals_below: Option<usize>,
    },
    /// The next run begins. The instance is running, whatever it was. The step is a duplicate when
    /// another one has taken over its id, which only happens to one that is closed.
    Continue {
        /// The run.
        run: RunKey,
        /// Its argument.
        input: Payload,
        /// What stays of a pause that is over with this; without it the row keeps what it has.
        pause: Option<Box<RunPause>>,
    },
    /// A change of status.
    Status {
        /// Which.
        uid: Uid,
        /// The new status.
        status: Status,
        /// The result, or the failure as JSON.
        outcome: Option<Payload>,
        /// Whether what it did was undone.
        compensation: Option<Compensation>,
        /// Why it is blocked.
        error: Option<String>,
        /// When it closed.
        closed_at: Option<Timestamp>,
    },
    /// The instance is paused, or goes on after that. Its error goes.
    Pause {
        /// Which.
        uid: Uid,
        /// The new status.
        status: Status,
        /// Who paused it and why, or how long it was paused.
        pause: RunPause,
    },
}

/// Who gives up an id to an instance that starts. An open one never does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaces {
    /// Nobody: the id must be free.
    Nobody,
    /// A closed holder, if there is one.
    Closed,
    /// This one, which must hold the id and be closed.
    Only(Uid),
}

/// An instance that a workflow or a schedule starts. Whether its id is free does not decide about
/// the step.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildStart {
    /// The instance.
    pub row: InstanceRow,
    /// Who gives up the id.
    pub replaces: Replaces,
    /// What begins it.
    pub start: MessageRow,
    /// What is stored instead when its id is taken.
    pub otherwise: Option<MessageRow>,
}

/// A change of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskWrite {
    /// A new one.
    Insert(TaskRow),
    /// Another state of one that must be there.
    Update(TaskRow),
    /// Another state of one that may be gone already: its attempt may have ended in a transaction
    /// of its own, see [`Tables`](crate::Tables).
    Amend(TaskRow),
    /// The end of one that must be there.
    Delete(CallKey),
    /// The end of one that may be gone already: the workflow gave the call up.
    Discard(CallKey),
    /// The end of all tasks of a run that closes.
    DeleteAll(RunKey),
}

/// A change of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum MessageWrite {
    /// A new one; one whose id is known is dropped.
    Insert(MessageRow),
    /// A new one, unless its instance is closed: then nobody wants it.
    InsertIfOpen(MessageRow),
    /// The end of one; none is fine.
    Delete {
        /// The instance.
        uid: Uid,
        /// The message.
        id: String,
    },
    /// One stays and is no longer due; none is fine.
    Defer {
        /// The instance.
        uid: Uid,
        /// The message.
        id: String,
    },
    /// The end of everything that belongs to a run that closes: timers, results.
    DeleteRun(RunKey),
    /// The messages that an instance has not read stay, and no longer wake it: it is closed, or
    /// blocked and reads them when it goes on.
    Park(Uid),
    /// Messages that were parked wake their instance again.
    Unpark(Uid),
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepResult {
    /// It is written.
    Written,
    /// Nothing of it is written: its instance's id is taken.
    Duplicate,
    /// Nothing of it is written: its instance is not open.
    Closed,
    /// Nothing of it is written: the schedule, the row of the inbox, or the bulk job, is not what
    /// it was, or the dead letter is not open.
    Missed,
    /// Nothing of it is written: too many signals wait for its instance.
    Full,
}

impl Replaces {
    /// Whether an id is free for the one that starts, which this one holds, open or closed.
    pub fn frees(self, holder: Option<(Uid, bool)>) -> bool {
        match (self, holder) {
            (Replaces::Nobody | Replaces::Closed, None) => true,
            (Replaces::Only(_), None) | (Replaces::Nobody, Some(_)) => false,
            (Replaces::Closed, Some((_, is_closed))) => is_closed,
            (Replaces::Only(uid), Some((holder, is_closed))) => holder == uid && is_closed,
        }
    }
}

impl InstanceWrite {
    /// The instance.
    pub fn uid(&self) -> Uid {
        match self {
            InstanceWrite::Insert { row, .. } => row.uid,
            InstanceWrite::Continue { run, .. } => run.uid,
            InstanceWrite::Open { uid, .. }
            | InstanceWrite::Status { uid, .. }
            | InstanceWrite::Pause { uid, .. } => *uid,
        }
    }
}

impl TaskWrite {
    /// The instance.
    pub fn uid(&self) -> Uid {
        match self {
            TaskWrite::Insert(row) | TaskWrite::Update(row) | TaskWrite::Amend(row) => {
                row.call.run.uid
            }
            TaskWrite::Delete(call) | TaskWrite::Discard(call) => call.run.uid,
            TaskWrite::DeleteAll(run) => run.uid,
        }
    }
}

impl MessageWrite {
    /// The instance that it is for.
    pub fn uid(&self) -> Uid {
        match self {
            MessageWrite::Insert(row) | MessageWrite::InsertIfOpen(row) => row.uid,
            MessageWrite::Delete { uid, .. } | MessageWrite::Defer { uid, .. } => *uid,
            MessageWrite::DeleteRun(run) => run.uid,
            MessageWrite::Park(uid) | MessageWrite::Unpark(uid) => *uid,
        }
    }

    /// True when it stores something that this run alone waits for.
    pub fn belongs_to(&self, run: RunKey) -> bool {
        let MessageWrite::Insert(row) = self else { return false };
        let of = match &row.body {
            Message::Timer { run, .. } | Message::Result { run, .. } => *run,
            _ => return false,
        };
        row.uid == run.uid && of == run.run
    }
}

impl Step {
    /// True when it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Step::default()
    }

    /// True for a step that only an owner can write; what a client asks for is rows that wake it.
    pub fn is_an_owners(&self) -> bool {
        let Step { events, tasks, attempts, actions, letters, gates, .. } = self;
        let writes_letter = |write: &LetterWrite| matches!(write, LetterWrite::Insert(_));
        !(events.is_empty() && tasks.is_empty() && attempts.is_empty() && actions.is_empty())
            || letters.iter().any(writes_letter)
            || gates.iter().any(GateWrite::is_the_deciders)
    }

    /// The shard of the instance that it is about; of the first one that it starts, when it is
    /// about none.
    pub fn shard(&self) -> Option<Shard> {
        let instance = self.instance.as_ref().map(InstanceWrite::uid);
        let event = self.events.first().map(|(run, _)| run.uid);
        let task = self.tasks.first().map(TaskWrite::uid);
        let message = self.messages.first().map(MessageWrite::uid);
        let attempt = self.attempts.first().map(|row| row.call.run.uid);
        let action = self.actions.first().map(|row| row.call.run.uid);
        let letter = self.letters.first().map(|write| write.call().run.uid);
        let kv = self.kv.first().map(|row| row.uid);
        let child_start = self.child_starts.first().map(|child| child.row.uid);
        let owned = instance.or(event).or(task).or(attempt).or(action).or(kv);
        owned.or(message).or(child_start).or(letter).map(Uid::shard)
    }

    /// How many rows it writes.
    pub fn rows(&self) -> usize {
        usize::from(self.instance.is_some())
            + self.events.len()
            + usize::from(self.rewind.is_some())
            + self.policies.len()
            + self.tasks.len()
            + self.messages.len()
            + self.child_starts.len() * 2
            + self.attempts.len()
            + self.actions.len()
            + self.letters.len()
            + self.kv.len()
            + self.policy_overrides.len()
            + self.gates.len()
            + usize::from(self.schedule.is_some())
            + usize::from(self.inbox.is_some())
            + usize::from(self.bulk.is_some())
    }

    /// About how many bytes of users' values it writes.
    pub fn bytes(&self) -> usize {
        self.event_bytes(0) + self.other_bytes()
    }

    /// About how many bytes of users' values are in its events from this place on.
    pub fn event_bytes(&self, from: usize) -> usize {
        self.events.iter().skip(from).map(|(_, event)| event.kind.payload_len()).sum()
    }

    /// About how many bytes of users' values it writes beside its events.
    pub fn other_bytes(&self) -> usize {
        let kv = self.kv.iter().map(|row| row.value.len());
        let child_starts = self.child_starts.iter().map(|child| child.row.input.len());
        let schedule = self.schedule.iter().map(|write| write.bytes());
        let letters = self.letters.iter().map(|write| match write {
            LetterWrite::Insert(letter) => letter.input.len(),
            LetterWrite::Settle { .. } => 0,
        });
        kv.chain(child_starts).chain(schedule).chain(letters).sum()
    }
}
