//! How attempts end, counted by activity, failure type and minute: what an operator looks at first.
//!
//! These are statistics. Nodes count in memory and add what they counted every few seconds, so a
//! crash loses what was counted since, and nothing of the engine ever reads them.

use std::sync::Arc;
use std::time::Duration;

use resurgam_core::Timestamp;

use crate::Answer;

/// Keeping what was counted.
pub trait Pressure {
    /// Adds rows to those of the same minute, activity and failure type, and deletes what is older
    /// than `forget_before`, in one transaction. No two rows are of the same.
    fn add_pressure(&self, rows: Arc<[PressureRow]>, forget_before: Timestamp) -> Answer<'_, ()>;

    /// What was counted, in the order of time, activity and failure type, at most as many rows as
    /// the range says.
    fn pressure(&self, range: PressureRange) -> Answer<'_, Vec<PressureRow>>;
}

/// What was counted of one activity in one minute, or in several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PressureRow {
    /// When the minute began, or the first of several.
    pub at: Timestamp,
    /// The activity.
    pub activity: String,
    /// The type of the failures; empty for attempts that succeeded.
    pub failure_type: String,
    /// How many.
    pub counts: PressureCounts,
}

impl PressureRow {
    /// What counts are kept by.
    pub const MINUTE: Duration = Duration::from_secs(60);

    /// When the minute of a time began.
    pub fn minute_of(at: Timestamp) -> Timestamp {
        let minute = 60_000;
        Timestamp::from_millis(at.as_millis().div_euclid(minute).saturating_mul(minute))
    }
}

/// How attempts ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PressureCounts {
    /// Attempts that failed.
    pub failures: u64,
    /// Those of them after which the call is tried again.
    pub retries: u64,
    /// Calls that failed because attempts or time ran out.
    pub exhausted: u64,
    /// Attempts that succeeded.
    pub successes: u64,
}

impl PressureCounts {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: PressureCounts) {
        self.failures = self.failures.saturating_add(other.failures);
        self.retries = self.retries.saturating_add(other.retries);
        self.exhausted = self.exhausted.saturating_add(other.exhausted);
        self.successes = self.successes.saturating_add(other.successes);
    }

    /// True when nothing was counted.
    pub fn is_zero(self) -> bool {
        self == PressureCounts::default()
    }
}

/// Which counts are read, and how many minutes are one row.
///
/// ```
/// use resurgam_core::Timestamp;
/// use resurgam_store::PressureRange;
///
/// let range = PressureRange {
///     from: Timestamp::EPOCH,
///     to: Timestamp::from_millis(3_600_000),
///     step_minutes: 5,
///     activity: Some("charge".to_string()),
///     limit: 1_000,
/// };
/// assert_eq!(range.step_ms(), 300_000);
/// assert_eq!(range.begin_of(Timestamp::from_millis(301_000)).as_millis(), 300_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PressureRange {
    /// Minutes that began at this time or later.
    pub from: Timestamp,
    /// Minutes that began before this time.
    pub to: Timestamp,
    /// How many minutes are added up to one row, counted from 1970.
    pub step_minutes: u32,
    /// Only of this activity.
    pub activity: Option<String>,
    /// At most this many rows.
    pub limit: usize,
}

impl PressureRange {
    /// How long a row is.
    pub fn step_ms(&self) -> i64 {
        i64::from(self.step_minutes.max(1)) * 60_000
    }

    /// When the row of a minute begins.
    pub fn begin_of(&self, minute: Timestamp) -> Timestamp {
        let step = self.step_ms();
        Timestamp::from_millis(minute.as_millis().div_euclid(step).saturating_mul(step))
    }
}
