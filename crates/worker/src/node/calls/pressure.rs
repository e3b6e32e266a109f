//! How attempts end, counted by activity, failure type and minute, until somebody stores it.
//!
//! Statistics: a crash loses what was not stored. Counting looks one entry up and adds; what is
//! counted is bounded, whatever activities call their failures.

use std::collections::BTreeMap;
use std::time::Duration;

use resurgam_core::retry::Reason;
use resurgam_core::{Failure, Timestamp};
use resurgam_store::{PressureCounts, PressureRow};

/// How long counts stay in memory.
pub(crate) const STORED_AFTER: Duration = Duration::from_secs(10);

/// How many failure types of an activity are told apart in a minute.
const TYPES: usize = 50;

/// What the others are called.
const OTHER: &str = "other";

/// The longest name of a failure type.
const LONGEST: usize = 200;

/// How many rows of minutes that are over are kept for a store that does not answer.
const KEPT: usize = 10_000;

/// What was counted.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// The minute that counts are of.
    minute: Option<Timestamp>,
    activities: BTreeMap<String, OfActivity>,
    /// What was counted in minutes that are over.
    over: Vec<PressureRow>,
    /// When the first of what is not stored was counted.
    since: Option<Timestamp>,
}

/// What was counted of an activity in a minute. Types that were stored stay, with nothing counted:
/// they are among those that are told apart.
#[derive(Debug, Default)]
struct OfActivity {
    successes: u64,
    types: BTreeMap<String, PressureCounts>,
}

impl Pressure {
    /// An attempt succeeded.
    pub(crate) fn succeeded(&mut self, activity: &str, now: Timestamp) {
        self.of(activity, now).successes += 1;
    }

    /// An attempt failed, and its call is tried again.
    pub(crate) fn retried(&mut self, activity: &str, failure: &Failure, now: Timestamp) {
        let counts = PressureCounts { failures: 1, retries: 1, ..PressureCounts::default() };
        self.failed(activity, failure, counts, now);
    }

    /// An attempt failed, and its call is not tried again for this reason.
    pub(crate) fn stopped(
        &mut self,
        activity: &str,
        failure: &Failure,
        reason: Reason,
        now: Timestamp,
    ) {
        let exhausted = u64::from(ran_out(reason));
        let counts = PressureCounts { failures: 1, exhausted, ..PressureCounts::default() };
        self.failed(activity, failure, counts, now);
    }

    /// A call ran out of time, and no attempt failed with it.
    pub(crate) fn ran_out(&mut self, activity: &str, failure: &Failure, now: Timestamp) {
        let counts = PressureCounts { exhausted: 1, ..PressureCounts::default() };
        self.failed(activity, failure, counts, now);
    }

    fn failed(&mut self, activity: &str, failure: &Failure, more: PressureCounts, now: Timestamp) {
        let name = failure.type_name.as_deref().filter(|name| !name.is_empty());
        let name = name.unwrap_or(failure.kind.name());
        let types = &mut self.of(activity, now).types;
        match types.get_mut(name) {
            Some(counts) => counts.add(more),
            None => {
                let name = if types.len() < TYPES { stored(name) } else { OTHER.to_string() };
                types.entry(name).or_default().add(more);
            }
        }
    }

    fn of(&mut self, activity: &str, now: Timestamp) -> &mut OfActivity {
        let minute = PressureRow::minute_of(now);
        if self.minute != Some(minute) {
            self.minute_is_over();
            self.minute = Some(minute);
        }
        self.since.get_or_insert(now);
        if !self.activities.contains_key(activity) {
            self.activities.insert(activity.to_string(), OfActivity::default());
        }
        self.activities.get_mut(activity).expect("it was just put there")
    }

    /// What was counted in a minute becomes rows, and the next one begins with nothing.
    fn minute_is_over(&mut self) {
        self.counted_so_far();
        self.activities.clear();
        self.over.truncate(KEPT);
    }

    /// Makes rows of what was counted since this was last asked for.
    fn counted_so_far(&mut self) {
        let Some(at) = self.minute else { return };
        for (activity, of) in &mut self.activities {
            let successes = std::mem::take(&mut of.successes);
            let successes = PressureCounts { successes, ..PressureCounts::default() };
            let types = of.types.iter_mut();
            let failed = types.map(|(name, counts)| (name.as_str(), std::mem::take(counts)));
            for (name, counts) in [("", successes)].into_iter().chain(failed) {
                if !counts.is_zero() {
                    let (activity, failure_type) = (activity.clone(), name.to_string());
                    self.over.push(PressureRow { at, activity, failure_type, counts });
                }
            }
        }
    }

    /// When what was counted is to be stored.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.since.map(|since| since.saturating_add(STORED_AFTER))
    }

    /// True when it is time to store what was counted; also when the clock was set back meanwhile.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.since.is_some_and(|since| now < since || now >= since.saturating_add(STORED_AFTER))
    }

    /// What was counted since this was last asked for, no two rows of the same.
    pub(crate) fn take(&mut self) -> Vec<PressureRow> {
        self.since = None;
        self.counted_so_far();
        let mut rows: Vec<PressureRow> = std::mem::take(&mut self.over);
        rows.sort();
        // A clock that is set back counts in a minute that was over.
        rows.dedup_by(|row, before| {
            let is_same = (row.at, &row.activity, &row.failure_type)
                == (before.at, &before.activity, &before.failure_type);
            if is_same {
                before.counts.add(row.counts);
            }
            is_same
        });
        rows
    }
}

/// True when a call failed because attempts or time ran out.
fn ran_out(reason: Reason) -> bool {
    matches!(reason, Reason::MaxAttempts | Reason::MaxElapsed | Reason::TotalTimeout)
}

/// A name that every store can keep.
fn stored(name: &str) -> String {
    let mut end = name.len().min(LONGEST);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].replace('\0', " ")
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use resurgam_core::Kind;
    use resurgam_watchdog::test;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn text(rows: &[PressureRow]) -> String {
        let mut text = String::new();
        for PressureRow { at, activity, failure_type, counts } in rows {
            let PressureCounts { failures, retries, exhausted, successes } = counts;
            let at = at.as_millis() / 1_000;
            let _ = writeln!(
                text,
                "{at} {activity} {failure_type:?} {failures} {retries} {exhausted} {successes}"
            );
        }
        text
    }

    #[test]
    fn ends_of_attempts_are_counted_by_minute_activity_and_type() {
        let mut pressure = Pressure::default();
        let busy = Failure::of_type("Busy", "ask later");
        pressure.retried("charge", &busy, at(61));
        pressure.retried("charge", &busy, at(62));
        pressure.stopped("charge", &busy, Reason::MaxAttempts, at(63));
        pressure.stopped("charge", &Failure::of_kind(Kind::Panic, "oh"), Reason::Terminal, at(64));
        pressure.succeeded("ship", at(65));
        assert!(!pressure.is_due(at(70)) && pressure.is_due(at(71)) && pressure.is_due(at(60)));
        assert_eq!(pressure.next(), Some(at(71)));
        pressure.ran_out("ship", &busy, at(120));
        let expected = [
            r#"60 charge "Busy" 3 2 1 0"#,
            r#"60 charge "panic" 1 0 0 0"#,
            r#"60 ship "" 0 0 0 1"#,
            r#"120 ship "Busy" 0 0 1 0"#,
        ];
        assert_eq!(text(&pressure.take()).lines().collect::<Vec<_>>(), expected);
        assert_eq!((pressure.take(), pressure.next()), (Vec::new(), None));
        pressure.succeeded("ship", at(121));
        assert_eq!(text(&pressure.take()), "120 ship \"\" 0 0 0 1\n");
    }

    #[test]
    fn fifty_types_of_a_minute_are_told_apart_also_when_some_of_them_are_stored_already() {
        let mut pressure = Pressure::default();
        let fail = |number: u32, pressure: &mut Pressure| {
            let failure = Failure::of_type(format!("T{number:03}"), "no");
            pressure.retried("charge", &failure, at(1));
        };
        (0..30).for_each(|number| fail(number, &mut pressure));
        assert_eq!(pressure.take().len(), 30);
        (0..60).for_each(|number| fail(number, &mut pressure));
        let rows = pressure.take();
        assert_eq!(rows.len(), 51);
        let other = rows.iter().find(|row| row.failure_type == OTHER).unwrap();
        assert_eq!(other.counts.failures, 10);
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_second_row_of_the_same() {
        let mut pressure = Pressure::default();
        for second in [59, 60, 59] {
            pressure.succeeded("ship", at(second));
        }
        assert_eq!(text(&pressure.take()), "0 ship \"\" 0 0 0 2\n60 ship \"\" 0 0 0 1\n");
    }

    #[test]
    fn a_name_is_bounded_and_can_be_stored() {
        assert_eq!(stored("a\0b"), "a b");
        assert_eq!(stored(&"ü".repeat(200)).len(), 200);
    }
}
