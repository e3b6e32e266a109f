//! The ledger: attempts that did not succeed.

use std::time::Duration;

use resurgam_core::history::AttemptLine;
use resurgam_core::retry::{Matched, Reason, RecordedWhy};
use resurgam_core::{CallKey, Failure, Timestamp};

/// A row of the ledger: an attempt that did not succeed at once.
///
/// ```
/// use resurgam_core::retry::{Matched, Reason};
/// use resurgam_core::{RunKey, Seq, Timestamp, Uid};
/// use resurgam_store::rows::{AttemptOutcome, AttemptRow};
/// use std::time::Duration;
///
/// let first = AttemptRow {
///     call: RunKey::first(Uid(7)).call(Seq(2)),
///     name: "charge".to_string(),
///     attempt: 1,
///     outcome: AttemptOutcome::Failed,
///     started_at: Timestamp::from_millis(0),
///     ended_at: Timestamp::from_millis(250),
///     failure: None,
///     delay_ms: Some(2_000),
///     why: "failure 1 of 2; rules[0] matched; waits 2s".to_string(),
/// };
/// assert_eq!((first.matched(), first.stopped_by()), (Some(Matched::Rule(0)), None));
/// assert_eq!(first.delay(), Some(Duration::from_secs(2)));
/// assert_eq!(first.next_due(), Some(Timestamp::from_millis(2_250)));
/// let why = "max_attempts: 2 of 2 attempts failed (rules[0])".to_string();
/// let last = AttemptRow { attempt: 2, delay_ms: None, why, ..first };
/// assert_eq!((last.stopped_by(), last.next_due()), (Some(Reason::MaxAttempts), None));
/// let why = format!("{}; falls back to charge_later", last.why);
/// let fell_back = AttemptRow { why, ..last };
/// assert_eq!(fell_back.stopped_by(), Some(Reason::MaxAttempts));
/// assert_eq!(fell_back.falls_back_to(), Some("charge_later"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptRow {
    /// The call.
    pub call: CallKey,
    /// The activity's name.
    pub name: String,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// What went wrong.
    pub failure: Option<Failure>,
    /// The delay that was chosen, when another attempt follows.
    pub delay_ms: Option<u64>,
    /// How that was decided, in words.
    pub why: String,
}

/// What a printed history says about an attempt.
impl From<&AttemptRow> for AttemptLine {
    fn from(row: &AttemptRow) -> Self {
        AttemptLine {
            activity: row.call.seq,
            name: row.name.clone(),
            attempt: row.attempt,
            outcome: row.outcome.name().to_string(),
            ended_at: row.ended_at,
            failure: row.failure.as_ref().map(ToString::to_string),
            delay_ms: row.delay_ms,
            falls_back_to: row.falls_back_to().map(str::to_string),
        }
    }
}

impl AttemptRow {
    /// The delay that was chosen, when another attempt follows.
    pub fn delay(&self) -> Option<Duration> {
        self.delay_ms.map(Duration::from_millis)
    }

    /// When the next attempt was due, when another one follows.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.delay().map(|delay| self.ended_at.saturating_add(delay))
    }

    /// What the rules of the policy found; `None` when they were not asked, because the failure
    /// itself decided, or because the attempt did not fail.
    pub fn matched(&self) -> Option<Matched> {
        RecordedWhy::read(&self.why).matched
    }

    /// The activity that took the place of this one after the attempt.
    pub fn falls_back_to(&self) -> Option<&str> {
        self.why.split_once(RecordedWhy::FALLS_BACK).map(|(_, name)| name)
    }

    /// What ended the retries, when no attempt follows, or none of the same activity.
    pub fn stopped_by(&self) -> Option<Reason> {
        RecordedWhy::read(&self.why).stopped
    }
}

/// How an attempt ended.
///
/// ```
/// use resurgam_store::rows::AttemptOutcome;
///
/// assert_eq!(AttemptOutcome::Lost.name(), "lost");
/// assert_eq!(AttemptOutcome::named("snoozed"), Some(AttemptOutcome::Snoozed));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptOutcome {
    /// It failed.
    Failed,
    /// Its process died.
    Lost,
    /// A graceful stop cut it short.
    Interrupted,
    /// It asked to be run later.
    Snoozed,
    /// Nobody wanted its result any more.
    Cancelled,
}

impl AttemptOutcome {
    /// Every outcome.
    pub const ALL: [AttemptOutcome; 5] = [
        AttemptOutcome::Failed,
        AttemptOutcome::Lost,
        AttemptOutcome::Interrupted,
        AttemptOutcome::Snoozed,
        AttemptOutcome::Cancelled,
    ];

    /// The name that is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            AttemptOutcome::Failed => "failed",
            AttemptOutcome::Lost => "lost",
            AttemptOutcome::Interrupted => "interrupted",
            AttemptOutcome::Snoozed => "snoozed",
            AttemptOutcome::Cancelled => "cancelled",
        }
    }

    /// The outcome of this name.
    pub fn named(name: &str) -> Option<AttemptOutcome> {
        AttemptOutcome::ALL.into_iter().find(|outcome| outcome.name() == name)
    }
}
