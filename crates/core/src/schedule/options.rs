//! A schedule: a rule, and what happens when firings meet each other or come late.

use std::borrow::Cow;
use std::ops::Deref;
use std::time::Duration;

use serde::Serialize;

use super::rule::{CheckedRule, Rule, outside_the_calendar};
use super::text::{self, time_text};
use crate::Timestamp;
use crate::config::{Problem, Problems, cut};
use crate::duration::{self, LONGEST, Text};
use crate::retry::{mix, uniform};

/// What starts by the clock, and how.
///
/// ```
/// use resurgam_core::schedule::{Overlap, Rule, Schedule};
/// use std::time::Duration;
///
/// let report = Schedule::new("report", Rule::cron("0 9 * * MON-FRI").in_zone("Europe/Berlin"))
///     .overlap(Overlap::BufferOne)
///     .catch_up(Duration::from_secs(3600))
///     .jitter(Duration::from_secs(30))
///     .check()?;
/// assert_eq!(report.catch_up, Duration::from_secs(3600));
/// # Ok::<(), resurgam_core::config::Problems>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Schedule {
    /// The name under which it is known; its instances are called `id/time`.
    pub id: Cow<'static, str>,
    /// When it fires.
    #[serde(flatten)]
    pub rule: Rule,
    /// What a firing does while the last instance is open.
    #[serde(skip_serializing_if = "Overlap::is_default")]
    pub overlap: Overlap,
    /// How late a firing may still start an instance, after the engine was down. Older ones are
    /// counted as missed.
    #[serde(skip_serializing_if = "is_default_window", serialize_with = "duration::serialize")]
    pub catch_up: Duration,
    /// Each firing is delayed by its own share of this, so that many schedules of the same minute
    /// spread. See [`CheckedSchedule::due_at`].
    #[serde(skip_serializing_if = "Duration::is_zero", serialize_with = "duration::serialize")]
    pub jitter: Duration,
    /// It does not fire, and firings that pass are forgotten.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// No firing before this time; one at this time counts.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "text::serialize")]
    pub not_before: Option<Timestamp>,
    /// No firing after this time; one at this time counts.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "text::serialize")]
    pub not_after: Option<Timestamp>,
}

/// What a firing does while the schedule's last instance is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Nothing; it is counted.
    #[default]
    Skip,
    /// It waits until that instance closes. One can wait; further ones are skipped.
    BufferOne,
    /// It starts beside it.
    Allow,
}

impl Overlap {
    fn is_default(&self) -> bool {
        *self == Overlap::default()
    }
}

/// How late a firing may be when nobody says otherwise.
pub const CATCH_UP: Duration = Duration::from_secs(60);

fn is_default_window(window: &Duration) -> bool {
    *window == CATCH_UP
}

/// The most firings that a backfill starts.
pub const BACKFILL: u64 = 10_000;

/// The longest id, in bytes.
const ID: usize = 200;

impl Schedule {
    /// A schedule with the defaults: skips while its last instance is open, catches up a minute,
    /// no jitter.
    pub fn new(id: impl Into<Cow<'static, str>>, rule: Rule) -> Self {
        Schedule {
            id: id.into(),
            rule,
            overlap: Overlap::default(),
            catch_up: CATCH_UP,
            jitter: Duration::ZERO,
            paused: false,
            not_before: None,
            not_after: None,
        }
    }

    /// What a firing does while the last instance is open.
    pub const fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// How late a firing may still start an instance.
    pub const fn catch_up(mut self, window: Duration) -> Self {
        self.catch_up = window;
        self
    }

    /// Delays each firing by its own share of this.
    pub const fn jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// Whether it is paused.
    pub const fn paused(mut self, paused: bool) -> Self {
        self.paused = paused;
        self
    }

    /// No firing before this time.
    pub const fn not_before(mut self, time: Timestamp) -> Self {
        self.not_before = Some(time);
        self
    }

    /// No firing after this time.
    pub const fn not_after(mut self, time: Timestamp) -> Self {
        self.not_after = Some(time);
        self
    }

    /// Checks that the schedule makes sense. The error lists everything that does not.
    pub fn check(&self) -> Result<CheckedSchedule, Problems> {
        let mut problems = Vec::new();
        problems.extend(self.id_problem());
        let rule = self.rule.check().map_err(|found| problems.extend(found.iter().cloned()));
        problems.extend(self.window_problem());
        if self.jitter > LONGEST {
            let message = format!("jitter: {} is longer than 100 years", Text(self.jitter));
            problems.push(Problem::new("jitter", message));
        }
        for (path, time) in [("not_before", self.not_before), ("not_after", self.not_after)] {
            problems.extend(time.and_then(|time| outside_the_calendar(path, time)));
        }
        if let Ok(rule) = &rule {
            problems.extend(self.bounds_problem(rule));
        }
        Problems::check(problems)?;
        let rule = rule.expect("a schedule without problems has a rule without problems");
        Ok(CheckedSchedule { seed: seed(&self.id), schedule: self.clone(), rule })
    }

    fn id_problem(&self) -> Option<Problem> {
        let what = match self.id.as_ref() {
            "" => "is empty; give the schedule a name",
            id if id.len() > ID => "is longer than 200 bytes",
            id if id.chars().any(char::is_control) => "holds a control character",
            _ => return None,
        };
        Some(Problem::new("id", format!("id: {:?} {what}", cut(&self.id))))
    }

    fn window_problem(&self) -> Option<Problem> {
        let what = match self.catch_up {
            window if window < Duration::from_secs(1) => {
                "would miss firings that are only a moment late; write \"1s\" or more"
            }
            window if window > LONGEST => "is longer than 100 years",
            _ => return None,
        };
        Some(Problem::new("catch_up", format!("catch_up: {} {what}", Text(self.catch_up))))
    }

    fn bounds_problem(&self, rule: &CheckedRule) -> Option<Problem> {
        let (from, to) = (self.not_before?, self.not_after?);
        let (first, last) = (time_text(from), time_text(to));
        let message = if to < from {
            format!("not_after: {last} is before not_before, {first}")
        } else if rule.next(just_before(from)).is_none_or(|firing| firing > to) {
            format!("not_after: {last} leaves no firing since not_before, {first}")
        } else {
            return None;
        };
        Some(Problem::new("not_after", message))
    }
}

/// A schedule that was found to make sense, ready to decide.
///
/// ```
/// use resurgam_core::Timestamp;
/// use resurgam_core::schedule::{CheckedSchedule, Rule, Schedule};
/// use std::time::Duration;
///
/// let (minute, third) = (Timestamp::from_millis(60_000), Timestamp::from_millis(180_000));
/// let schedule = Schedule::new("poll", Rule::every(Duration::from_secs(60)))
///     .not_before(minute)
///     .not_after(third)
///     .paused(true);
/// let poll: CheckedSchedule = schedule.check()?;
/// let late = Timestamp::from_millis(1_000_000);
/// assert_eq!(poll.next(Timestamp::EPOCH), Some(minute));
/// assert_eq!(poll.firings(Timestamp::EPOCH, late).count(), 3);
/// assert_eq!((poll.count(minute, late), poll.last(minute, late)), (2, Some(third)));
/// assert_eq!(poll.backfill(Timestamp::EPOCH, third)?.len(), 4); // the bounds do not hold here
/// assert_eq!(poll.into_inner(), schedule);
/// # Ok::<(), resurgam_core::config::Problems>(())
/// ```
#[derive(Clone, Debug)]
pub struct CheckedSchedule {
    schedule: Schedule,
    rule: CheckedRule,
    /// The hash of the id, from which every delay is drawn.
    seed: u64,
}

impl Deref for CheckedSchedule {
    type Target = Schedule;

    fn deref(&self) -> &Schedule {
        &self.schedule
    }
}

impl CheckedSchedule {
    /// The schedule without the proof that it was checked.
    pub fn into_inner(self) -> Schedule {
        self.schedule
    }

    /// The first firing after this time, within the bounds. Whether it is paused does not matter.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let next = self.rule.next(self.later(after))?;
        self.not_after.is_none_or(|end| next <= end).then_some(next)
    }

    /// The firings after one time, up to and including another, within the bounds.
    pub fn firings(
        &self,
        after: Timestamp,
        until: Timestamp,
    ) -> impl Iterator<Item = Timestamp> + '_ {
        self.rule.firings(self.later(after), self.earlier(until))
    }

    /// How many firings there are after one time, up to and including another.
    pub fn count(&self, after: Timestamp, until: Timestamp) -> u64 {
        self.rule.count(self.later(after), self.earlier(until))
    }

    /// The last firing after one time, up to and including another.
    pub fn last(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        self.rule.last(self.later(after), self.earlier(until))
    }

    /// When a firing starts its instance: its nominal time, delayed by the jitter.
    ///
    /// The delay follows from the schedule's id and the nominal time, so every node and every
    /// replay gets the same. It is shorter than the jitter and ends before the next firing, so
    /// firings keep their order.
    ///
    /// ```
    /// use resurgam_core::Timestamp;
    /// use resurgam_core::schedule::{Rule, Schedule};
    /// use std::time::Duration;
    ///
    /// let poll = Schedule::new("poll", Rule::every(Duration::from_secs(60)))
    ///     .jitter(Duration::from_secs(10))
    ///     .check()?;
    /// let nominal = Timestamp::from_millis(120_000);
    /// assert_eq!(poll.due_at(nominal), poll.due_at(nominal));
    /// assert!(poll.due_at(nominal).since(nominal) < Duration::from_secs(10));
    /// # Ok::<(), resurgam_core::config::Problems>(())
    /// ```
    pub fn due_at(&self, nominal: Timestamp) -> Timestamp {
        if self.jitter.is_zero() {
            return nominal;
        }
        let gap = self.rule.next(nominal).map_or(self.jitter, |next| next.since(nominal));
        let millis = u64::try_from(self.jitter.min(gap).as_millis()).unwrap_or(u64::MAX);
        let share = uniform(self.seed.into(), 0, nominal.as_millis() as u64, 0);
        // Rounding could reach the end, which is not ours.
        let delay = ((share * millis as f64) as u64).min(millis.saturating_sub(1));
        nominal.saturating_add(Duration::from_millis(delay))
    }

    /// The id of the instance that a firing starts. It names the nominal time, so the same firing
    /// cannot start two.
    ///
    /// ```
    /// use resurgam_core::Timestamp;
    /// use resurgam_core::schedule::{Rule, Schedule};
    ///
    /// let report = Schedule::new("report", Rule::cron("0 9 * * *")).check()?;
    /// let nominal = report.next(Timestamp::from_millis(1_794_700_000_000)).unwrap();
    /// assert_eq!(report.instance_id(nominal), "report/2026-11-15T09:00:00Z");
    /// # Ok::<(), resurgam_core::config::Problems>(())
    /// ```
    pub fn instance_id(&self, nominal: Timestamp) -> String {
        format!("{}/{}", self.id, time_text(nominal))
    }

    /// The nominal times of a range, both ends included, for starting them now. The bounds of the
    /// schedule do not apply: a backfill is often for the time before it existed. More than
    /// [`BACKFILL`] are refused.
    pub fn backfill(&self, from: Timestamp, to: Timestamp) -> Result<Vec<Timestamp>, Problems> {
        let (first, last) = (time_text(from), time_text(to));
        if to < from {
            let message = format!("the backfill ends at {last}, before it begins at {first}");
            return Err(Problem::new("", message).into());
        }
        let after = just_before(from);
        match self.rule.count(after, to) {
            count if count > BACKFILL => {
                let message = format!(
                    "the backfill from {first} to {last} has {count} firings, and at most \
                     {BACKFILL} are started at once; take a shorter range"
                );
                Err(Problem::new("", message).into())
            }
            _ => Ok(self.rule.firings(after, to).collect()),
        }
    }

    /// The firings after a time that were due by another: how many, and a time up to which they
    /// all lie. `None` when there are none.
    pub(super) fn passed(&self, after: Timestamp, by: Timestamp) -> Option<(u64, Timestamp)> {
        let last = self.last(after, by)?;
        let count = self.count(after, by);
        if self.due_at(last) <= by {
            return Some((count, last));
        }
        // Only the last one can still wait: the delay of another ends before the next firing.
        (count > 1).then(|| (count - 1, just_before(last)))
    }

    fn later(&self, after: Timestamp) -> Timestamp {
        self.not_before.map_or(after, |start| after.max(just_before(start)))
    }

    fn earlier(&self, until: Timestamp) -> Timestamp {
        self.not_after.map_or(until, |end| until.min(end))
    }
}

fn just_before(time: Timestamp) -> Timestamp {
    time.saturating_sub(Duration::from_millis(1))
}

fn seed(id: &str) -> u64 {
    let start = mix(id.len() as u64);
    id.bytes().fold(start, |hash, byte| mix(hash ^ u64::from(byte)))
}
