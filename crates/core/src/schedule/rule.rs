//! When a schedule fires: by a cron expression in a time zone, or in a fixed rhythm.
//!
//! A [`Rule`] is what people write; [`Rule::check`] refuses what cannot work and yields a
//! [`CheckedRule`], which answers. Every answer is bounded in time: the next firing is found by
//! months and not by seconds, and firings are counted without going through them.

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Serialize;

use super::cron::{self, Cron};
use super::text::{self, time_text};
use super::zone::Zone;
use crate::Timestamp;
use crate::config::{Problem, Problems, cut};
use crate::duration::{self, LONGEST, Text};

/// When a schedule fires.
///
/// ```
/// use resurgam_core::Timestamp;
/// use resurgam_core::schedule::{Rule, time_text};
/// use std::time::Duration;
///
/// let rule = Rule::cron("0 9 * * MON-FRI").in_zone("Europe/Berlin").check()?;
/// let next = rule.next(Timestamp::from_millis(1_795_000_000_000)).unwrap();
/// assert_eq!(time_text(next), "2026-11-19T08:00:00Z");
///
/// let rule = Rule::every(Duration::from_secs(300)).check()?;
/// assert_eq!(rule.next(Timestamp::EPOCH), Some(Timestamp::from_millis(300_000)));
/// # Ok::<(), resurgam_core::config::Problems>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// By the calendar or in a rhythm.
    #[serde(flatten)]
    pub when: When,
    /// The time zone of a cron expression, by its IANA name. UTC when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Cow<'static, str>>,
    /// A time at which a fixed interval fires. The beginning of 1970 when it is left out.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "text::serialize")]
    pub anchor: Option<Timestamp>,
}

/// The two kinds of rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// A cron expression: minute, hour, day of the month, month, day of the week; with the second
    /// in front if there are six fields.
    Cron(Cow<'static, str>),
    /// A fixed interval of elapsed time.
    #[serde(serialize_with = "duration::serialize")]
    Every(Duration),
}

/// The shortest interval. A schedule starts workflows, and each start is a commit.
pub const SHORTEST: Duration = Duration::from_secs(1);

impl Rule {
    /// Fires when a wall clock in UTC shows what the expression says. See [`Rule::in_zone`].
    pub fn cron(expression: impl Into<Cow<'static, str>>) -> Self {
        Rule { when: When::Cron(expression.into()), zone: None, anchor: None }
    }

    /// Fires whenever this much time has passed, whatever wall clocks do. See
    /// [`Rule::anchored_at`].
    pub const fn every(interval: Duration) -> Self {
        Rule { when: When::Every(interval), zone: None, anchor: None }
    }

    /// The time zone whose wall clock a cron expression means, such as `Europe/Berlin`.
    pub fn in_zone(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.zone = Some(name.into());
        self
    }

    /// A time at which an interval fires. The others lie whole intervals before and after it.
    ///
    /// ```
    /// use resurgam_core::Timestamp;
    /// use resurgam_core::schedule::Rule;
    /// use std::time::Duration;
    ///
    /// let quarter_past = Timestamp::from_millis(15 * 60_000);
    /// let hourly = Rule::every(Duration::from_secs(3_600)).anchored_at(quarter_past);
    /// assert_eq!(hourly.check().unwrap().next(Timestamp::EPOCH), Some(quarter_past));
    /// ```
    pub const fn anchored_at(mut self, time: Timestamp) -> Self {
        self.anchor = Some(time);
        self
    }

    /// Checks that the rule makes sense. The error lists everything that does not.
    ///
    /// ```
    /// use resurgam_core::schedule::Rule;
    ///
    /// assert_eq!(
    ///     Rule::cron("0 9 * * *").in_zone("Berlin").check().unwrap_err().to_string(),
    ///     r#"zone: "Berlin" is no time zone; did you mean "Europe/Berlin"?"#
    /// );
    /// ```
    pub fn check(&self) -> Result<CheckedRule, Problems> {
        let mut problems = Vec::new();
        let rule = match &self.when {
            When::Cron(text) => self.check_cron(text, &mut problems),
            When::Every(interval) => self.check_interval(*interval, &mut problems),
        };
        Problems::check(problems)?;
        Ok(rule.expect("a rule without problems was read"))
    }

    fn check_cron(&self, text: &str, problems: &mut Vec<Problem>) -> Option<CheckedRule> {
        let cron = cron::parse(text).map_err(|found| {
            let place = format!("cron: \"{}\"", cut(text));
            problems
                .extend(found.iter().map(|what| Problem::new("cron", format!("{place} {what}"))));
        });
        let name = self.zone.as_deref().unwrap_or("UTC");
        let zone = Zone::named(name).map_err(|what| {
            problems.push(Problem::new("zone", format!("zone: \"{}\" {what}", cut(name))));
        });
        if self.anchor.is_some() {
            let message = "anchor: belongs to an interval; a cron expression says itself when";
            problems.push(Problem::new("anchor", message));
        }
        Some(CheckedRule(Kind::Cron { cron: cron.ok()?, zone: zone.ok()? }))
    }

    fn check_interval(&self, time: Duration, problems: &mut Vec<Problem>) -> Option<CheckedRule> {
        let shown = Text(time);
        let what = match time {
            _ if time < SHORTEST => Some("is shorter than a second; write \"1s\" or more"),
            _ if time > LONGEST => Some("is longer than 100 years"),
            _ if !time.subsec_nanos().is_multiple_of(1_000_000) => {
                Some("is finer than a millisecond; round it")
            }
            _ => None,
        };
        problems.extend(what.map(|what| Problem::new("every", format!("every: {shown} {what}"))));
        if self.zone.is_some() {
            let message = "zone: belongs to a cron expression; an interval is the same everywhere";
            problems.push(Problem::new("zone", message));
        }
        let anchor = self.anchor.unwrap_or(Timestamp::EPOCH);
        problems.extend(outside_the_calendar("anchor", anchor));
        let interval = i64::try_from(time.as_millis()).ok()?;
        Some(CheckedRule(Kind::Every { interval, anchor: anchor.as_millis() }))
    }
}

/// Schedules fire from the year 1 to the year 9998. In milliseconds since 1970.
const CALENDAR: RangeInclusive<i64> = -62_135_596_800_000..=253_370_764_799_999;

/// The problem with a time that no schedule reaches.
pub(super) fn outside_the_calendar(path: &str, time: Timestamp) -> Option<Problem> {
    let outside = !CALENDAR.contains(&time.as_millis());
    let shown = time_text(time);
    outside.then(|| Problem::new(path, format!("{path}: {shown} is outside the years 1 to 9998")))
}

/// A rule that was found to make sense, ready to answer.
///
/// ```
/// use resurgam_core::Timestamp;
/// use resurgam_core::schedule::{CheckedRule, Rule, When};
/// use std::time::Duration;
///
/// let every = Rule::every(Duration::from_secs(60));
/// assert_eq!(every.when, When::Every(Duration::from_secs(60)));
/// let every: CheckedRule = every.check()?;
/// let (begin, end) = (Timestamp::EPOCH, Timestamp::from_millis(150_000));
/// let second = Timestamp::from_millis(120_000);
/// assert_eq!((every.count(begin, end), every.last(begin, end)), (2, Some(second)));
/// # Ok::<(), resurgam_core::config::Problems>(())
/// ```
#[derive(Clone, Debug)]
pub struct CheckedRule(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Cron { cron: Cron, zone: Zone },
    Every { interval: i64, anchor: i64 },
}

impl CheckedRule {
    /// The first firing after this time.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = after.as_millis().clamp(CALENDAR.start() - 1, *CALENDAR.end());
        let next = match &self.0 {
            Kind::Cron { cron, zone } => {
                let wall = cron.next(zone.unseen(after.div_euclid(1000)))?;
                zone.moment(wall) * 1000
            }
            Kind::Every { interval, anchor } => {
                // Both are far from the ends of i64, so nothing here overflows.
                anchor + ((after - anchor).div_euclid(*interval) + 1) * interval
            }
        };
        CALENDAR.contains(&next).then(|| Timestamp::from_millis(next))
    }

    /// The firings after one time, up to and including another.
    ///
    /// ```
    /// use resurgam_core::Timestamp;
    /// use resurgam_core::schedule::Rule;
    /// use std::time::Duration;
    ///
    /// let rule = Rule::every(Duration::from_secs(1)).check()?;
    /// let firings = rule.firings(Timestamp::EPOCH, Timestamp::from_millis(2_500));
    /// assert_eq!(firings.map(Timestamp::as_millis).collect::<Vec<_>>(), [1_000, 2_000]);
    /// # Ok::<(), resurgam_core::config::Problems>(())
    /// ```
    pub fn firings(
        &self,
        after: Timestamp,
        until: Timestamp,
    ) -> impl Iterator<Item = Timestamp> + '_ {
        let within = move |time: &Timestamp| *time <= until;
        std::iter::successors(self.next(after).filter(within), move |last| {
            self.next(*last).filter(within)
        })
    }

    /// How many firings there are after one time, up to and including another: found without
    /// going through them.
    pub fn count(&self, after: Timestamp, until: Timestamp) -> u64 {
        let after = after.as_millis().clamp(CALENDAR.start() - 1, *CALENDAR.end());
        let until = until.as_millis().clamp(CALENDAR.start() - 1, *CALENDAR.end());
        if after >= until {
            return 0;
        }
        match &self.0 {
            Kind::Cron { cron, zone } => {
                count(cron, zone, after.div_euclid(1000), until.div_euclid(1000))
            }
            Kind::Every { interval, anchor } => {
                let place = |time: i64| (time - anchor).div_euclid(*interval);
                u64::try_from(place(until) - place(after)).unwrap_or(0)
            }
        }
    }

    /// The last firing after one time, up to and including another.
    pub fn last(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let until = until.min(Timestamp::from_millis(*CALENDAR.end()));
        // Look back twice as far each time, then halve the way to the last one.
        let mut back = SHORTEST;
        let mut early = until.saturating_sub(back).max(after);
        while self.count(early, until) == 0 {
            if early <= after || early.as_millis() < *CALENDAR.start() {
                return None;
            }
            back = back.saturating_mul(2);
            early = until.saturating_sub(back).max(after);
        }
        let (mut early, mut late) = (early.as_millis(), until.as_millis());
        while early + 1 < late {
            let middle = early + (late - early) / 2;
            let any = self.count(Timestamp::from_millis(middle), until) > 0;
            if any { early = middle } else { late = middle }
        }
        Some(Timestamp::from_millis(late))
    }
}

/// Counts the firings of an expression piece by piece, each with one offset from UTC.
fn count(cron: &Cron, zone: &Zone, after: i64, until: i64) -> u64 {
    let mut wall = zone.unseen(after);
    let mut sum = 0;
    for change in zone.changes(after, until) {
        sum += cron.count(wall..change.before);
        wall = wall.max(change.before);
        if change.after > wall {
            // The times left out and the first one after them are one moment.
            sum += cron.count(wall..change.after + 1).min(1);
            wall = change.after + 1;
        }
    }
    sum + cron.count(wall..zone.wall(until) + 1)
}
