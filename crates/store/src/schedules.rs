//! Schedules as rows: what starts instances again and again.
//!
//! A store keeps the texts and finds what is due; what they mean is `core`'s. Everybody writes
//! schedules, the owner when one fires and clients when somebody changes one. So every write names
//! the revision that it follows from, and one that comes too late is refused as a whole.

use resurgam_core::{Payload, Timestamp};

use crate::Answer;

/// Reading schedules.
pub trait Schedules {
    /// Schedules whose time has come by now, the earliest first, at most `limit`, and when the
    /// first of the others is due. Paused ones are never due.
    fn due_schedules(&self, now: Timestamp, limit: usize) -> Answer<'_, DueSchedules>;

    /// Schedules that wait for something else than the time, by id after this one, at most
    /// `limit`. See [`ScheduleRow::waits`].
    fn waiting_schedules(&self, after: &str, limit: usize) -> Answer<'_, Vec<ScheduleRecord>>;

    /// The schedule of this id.
    fn schedule(&self, id: &str) -> Answer<'_, Option<ScheduleRecord>>;

    /// All schedules, by id after this one, at most `limit`.
    fn schedules(&self, after: &str, limit: usize) -> Answer<'_, Vec<ScheduleRecord>>;
}

/// A schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleRow {
    /// Its id.
    pub id: String,
    /// The workflow that it starts.
    pub workflow: String,
    /// The argument.
    pub input: Payload,
    /// When it fires and how, in its stored form.
    pub rule: String,
    /// How its instances are started, in its stored form.
    pub options: String,
    /// What it remembers, in its stored form.
    pub state: String,
    /// It does not fire.
    pub paused: bool,
    /// When it is to be looked at next; `None` for never.
    pub next_at: Option<Timestamp>,
    /// True when it waits for something else than the time: that its last instance closes, or that
    /// somebody mends it. Whoever begins to work looks at these too.
    pub waits: bool,
    /// The id of the instance that it started last.
    pub last: Option<String>,
    /// Why it does not fire, for people.
    pub error: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
}

/// A schedule as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleRecord {
    /// The row.
    pub row: ScheduleRow,
    /// Changes with every write.
    pub revision: u64,
    /// True while the instance that it started last is there and not closed.
    pub last_open: bool,
}

/// The schedules whose time has come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DueSchedules {
    /// Those that are due.
    pub due: Vec<ScheduleRecord>,
    /// When the first of the others is due: now, when there were more than could be told.
    pub next: Option<Timestamp>,
}

/// A change of a schedule.
#[derive(Clone, Debug, PartialEq)]
pub enum ScheduleWrite {
    /// A new one; the step is refused when there is one of this id.
    Insert(ScheduleRow),
    /// Another state of one; the step is refused when its revision is another one.
    Update {
        /// The row.
        row: ScheduleRow,
        /// The revision that was read.
        revision: u64,
    },
    /// The end of one; the step is refused when there is none.
    Delete {
        /// Which.
        id: String,
    },
}

impl ScheduleWrite {
    /// The id of the schedule.
    pub fn id(&self) -> &str {
        match self {
            ScheduleWrite::Insert(row) | ScheduleWrite::Update { row, .. } => &row.id,
            ScheduleWrite::Delete { id } => id,
        }
    }

    /// How many bytes of users' values it writes.
    pub fn bytes(&self) -> usize {
        match self {
            ScheduleWrite::Insert(row) | ScheduleWrite::Update { row, .. } => row.input.len(),
            ScheduleWrite::Delete { .. } => 0,
        }
    }
}
