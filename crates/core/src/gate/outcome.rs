//! What counts of the attempts behind a gate, and how much of it there was lately.
//!
//! A gate judges a dependency, and nobody else. A timeout counts against it, a request to slow
//! down, and an error after which the policy would try again. A lost worker says something about
//! us, and a terminal failure about the call: the dependency has answered.

use std::collections::VecDeque;
use std::time::Duration;

use crate::retry::{CheckedPolicy, Limit};
use crate::{Failure, Kind, Timestamp};

/// How an attempt ended, for its gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Succeeded,
    /// It counts against the dependency, which may have said for how long to leave it alone.
    Failed {
        /// For how long.
        told: Option<Duration>,
    },
    /// It says nothing about the dependency.
    Neither,
}

impl Outcome {
    /// What the failure of an attempt is for its gate.
    ///
    /// ```
    /// use resurgam_core::gate::Outcome;
    /// use resurgam_core::retry::RetryPolicy;
    /// use resurgam_core::{Failure, Kind};
    ///
    /// let policy = RetryPolicy::DEFAULT.check().unwrap();
    /// let of = |failure| Outcome::of_failure(&policy, &failure);
    /// assert_eq!(of(Failure::new("503")), Outcome::Failed { told: None });
    /// assert_eq!(of(Failure::terminal("no such card")), Outcome::Neither);
    /// assert_eq!(of(Failure::of_kind(Kind::WorkerLost, "died")), Outcome::Neither);
    /// ```
    pub fn of_failure(policy: &CheckedPolicy, failure: &Failure) -> Outcome {
        let told = failure.retry_after;
        let is_plain = !failure.is_terminal() && failure.snooze.is_none();
        match failure.kind {
            Kind::Throttled if is_plain => Outcome::Failed { told },
            Kind::Timeout if is_plain => Outcome::Failed { told: None },
            Kind::Error if is_plain && policy.would_retry(failure) => {
                Outcome::Failed { told: None }
            }
            _ => Outcome::Neither,
        }
    }
}

/// How many failures of a call are free that happened while its gate was not flowing; those that
/// come after them count.
///
/// ```
/// use resurgam_core::gate::most_probed;
/// use resurgam_core::retry::Limit;
///
/// assert_eq!(most_probed(Limit::try_from(5).unwrap()), 5);
/// assert_eq!(most_probed(Limit::Unlimited), 10);
/// ```
pub fn most_probed(max_attempts: Limit) -> u32 {
    match max_attempts {
        Limit::Unlimited => 10,
        Limit::Attempts(most) => most.get(),
    }
}

/// How many attempts ended, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Tally {
    /// Those that succeeded.
    pub succeeded: u64,
    /// Those that count against the dependency.
    pub failed: u64,
}

impl Tally {
    /// Those that say something about the dependency.
    pub fn ended(self) -> u64 {
        self.succeeded.saturating_add(self.failed)
    }

    /// Which share of them failed.
    pub fn failing(self) -> f64 {
        if self.failed == 0 { 0.0 } else { self.failed as f64 / self.ended() as f64 }
    }

    /// What came since an earlier tally of the same.
    pub fn since(self, earlier: Tally) -> Tally {
        Tally {
            succeeded: self.succeeded.saturating_sub(earlier.succeeded),
            failed: self.failed.saturating_sub(earlier.failed),
        }
    }

    /// Both together.
    pub fn and(self, other: Tally) -> Tally {
        Tally {
            succeeded: self.succeeded.saturating_add(other.succeeded),
            failed: self.failed.saturating_add(other.failed),
        }
    }

    fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Succeeded => self.succeeded = self.succeeded.saturating_add(1),
            Outcome::Failed { .. } => self.failed = self.failed.saturating_add(1),
            Outcome::Neither => {}
        }
    }
}

/// What ended lately, second by second.
///
/// ```
/// use resurgam_core::gate::{Outcome, Window};
/// use resurgam_core::Timestamp;
/// use std::time::Duration;
///
/// let at = |second: i64| Timestamp::from_millis(second * 1000);
/// let mut window = Window::new(Duration::from_secs(10));
/// window.add(Outcome::Failed { told: None }, at(0));
/// window.add(Outcome::Succeeded, at(9));
/// assert_eq!(window.tally(at(9)).ended(), 2);
/// assert_eq!(window.tally(at(10)).failed, 0);
/// ```
#[derive(Clone, Debug)]
pub struct Window {
    seconds: i64,
    counts: VecDeque<(i64, Tally)>,
    sum: Tally,
    /// Until when the dependency wants to be left alone, as the latest calls were told, the
    /// latest time first. Three are enough to believe it.
    told: [Option<Timestamp>; 3],
}

impl Window {
    /// Nothing has ended yet.
    pub fn new(length: Duration) -> Self {
        let seconds = i64::try_from(length.as_secs()).unwrap_or(i64::MAX).max(1);
        Window { seconds, counts: VecDeque::new(), sum: Tally::default(), told: [None; 3] }
    }

    /// An attempt has ended.
    pub fn add(&mut self, outcome: Outcome, now: Timestamp) {
        if let Outcome::Failed { told: Some(time) } = outcome {
            self.is_told(now.saturating_add(time), now);
        }
        let second = now.as_millis().div_euclid(1000);
        self.forget(second);
        self.sum.add(outcome);
        match self.counts.back_mut() {
            // A clock that went back counts for the second that it was.
            Some((last, tally)) if *last >= second => tally.add(outcome),
            _ => {
                let mut tally = Tally::default();
                tally.add(outcome);
                self.counts.push_back((second, tally));
            }
        }
    }

    /// What ended in the time before this.
    pub fn tally(&mut self, now: Timestamp) -> Tally {
        self.forget(now.as_millis().div_euclid(1000));
        self.sum
    }

    /// What ended in the latest seconds of that time: the last whole second and what followed it,
    /// or more seconds before, so many as make the worst of it where at least `least` ended. What
    /// fails from one moment on is seen at once, however much succeeded before.
    ///
    /// ```
    /// use resurgam_core::Timestamp;
    /// use resurgam_core::gate::{Outcome, Window};
    /// use std::time::Duration;
    ///
    /// let at = |second: i64| Timestamp::from_millis(second * 1000);
    /// let mut window = Window::new(Duration::from_secs(10));
    /// (0..90).for_each(|_| window.add(Outcome::Succeeded, at(0)));
    /// (0..30).for_each(|_| window.add(Outcome::Failed { told: None }, at(1)));
    /// assert_eq!(window.tally(at(2)).failing(), 0.25);
    /// assert_eq!(window.worst(at(2), 20).failing(), 1.0);
    /// assert_eq!(window.worst(at(2), 40).failing(), 0.25);
    /// ```
    pub fn worst(&mut self, now: Timestamp, least: u64) -> Tally {
        let second = now.as_millis().div_euclid(1000);
        self.forget(second);
        let (mut sum, mut worst) = (Tally::default(), Tally::default());
        if self.sum.failed == 0 {
            return worst;
        }
        for (at, tally) in self.counts.iter().rev() {
            sum = sum.and(*tally);
            if *at < second && sum.ended() >= least.max(1) && sum.failing() > worst.failing() {
                worst = sum;
            }
        }
        worst
    }

    /// True when an attempt has failed lately, as far as anybody has looked.
    pub fn has_failures(&self) -> bool {
        self.sum.failed > 0
    }

    /// True when a failure, or a wish to be left alone, still counts.
    ///
    /// ```
    /// use resurgam_core::Timestamp;
    /// use resurgam_core::gate::{Outcome, Window};
    /// use std::time::Duration;
    ///
    /// let at = |second: i64| Timestamp::from_millis(second * 1000);
    /// let mut window = Window::new(Duration::from_secs(10));
    /// window.add(Outcome::Succeeded, at(0));
    /// assert!(!window.has_trouble(at(1)));
    /// window.add(Outcome::Failed { told: None }, at(1));
    /// assert!(window.has_trouble(at(10)) && !window.has_trouble(at(11)));
    /// ```
    pub fn has_trouble(&self, now: Timestamp) -> bool {
        let second = now.as_millis().div_euclid(1000);
        let counts = |(at, tally): &(i64, Tally)| tally.failed > 0 && at + self.seconds > second;
        self.counts.iter().any(counts) || self.told[0].is_some_and(|until| until > now)
    }

    /// Since when something ended lately: the beginning of the first second in which it did.
    ///
    /// ```
    /// use resurgam_core::Timestamp;
    /// use resurgam_core::gate::{Outcome, Window};
    /// use std::time::Duration;
    ///
    /// let mut window = Window::new(Duration::from_secs(10));
    /// assert_eq!(window.since(), None);
    /// window.add(Outcome::Succeeded, Timestamp::from_millis(7_300));
    /// window.add(Outcome::Succeeded, Timestamp::from_millis(9_100));
    /// assert_eq!(window.since(), Some(Timestamp::from_millis(7_000)));
    /// ```
    pub fn since(&self) -> Option<Timestamp> {
        let (second, _) = self.counts.iter().find(|(_, tally)| tally.ended() > 0)?;
        Some(Timestamp::from_millis(second.saturating_mul(1_000)))
    }

    /// What ended lately, by the second since the epoch.
    pub fn seconds(&self) -> Vec<(i64, Tally)> {
        self.counts.iter().copied().collect()
    }

    /// Adds what ended elsewhere, by the second since the epoch.
    pub(super) fn add_seconds(&mut self, counts: &[(i64, Tally)]) {
        for (second, tally) in counts {
            self.sum = self.sum.and(*tally);
            let place = self.counts.partition_point(|(at, _)| at < second);
            match self.counts.get_mut(place).filter(|(at, _)| at == second) {
                Some((_, known)) => *known = known.and(*tally),
                None => self.counts.insert(place, (*second, *tally)),
            }
        }
    }

    /// The times until which the dependency wants to be left alone, the latest first.
    pub fn told(&self) -> [Option<Timestamp>; 3] {
        self.told
    }

    /// Nothing that ended so far says anything any more.
    pub fn clear(&mut self) {
        *self = Window::new(Duration::from_secs(self.seconds.unsigned_abs()));
    }

    fn forget(&mut self, second: i64) {
        while let Some((_, old)) = self.counts.pop_front_if(|(at, _)| *at + self.seconds <= second)
        {
            self.sum = self.sum.since(old);
        }
    }

    fn is_told(&mut self, until: Timestamp, now: Timestamp) {
        let known = self.told.into_iter().flatten().filter(|at| *at > now);
        let mut all: Vec<Timestamp> = known.chain([until]).collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        self.told = [0, 1, 2].map(|index| all.get(index).copied());
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;
    use crate::retry::RetryPolicy;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(second * 1000)
    }

    #[test]
    fn only_what_a_dependency_can_be_blamed_for_counts() {
        let policy = RetryPolicy::DEFAULT.never_for(&["Refused"]).check().unwrap();
        let of = |failure: Failure| Outcome::of_failure(&policy, &failure);
        let failed = Outcome::Failed { told: None };
        assert_eq!(of(Failure::of_kind(Kind::Timeout, "slow")), failed);
        assert_eq!(of(Failure::of_kind(Kind::Error, "down")), failed);
        for kind in [
            Kind::HeartbeatTimeout,
            Kind::QueueTimeout,
            Kind::TotalTimeout,
            Kind::Panic,
            Kind::WorkerLost,
            Kind::Cancelled,
        ] {
            assert_eq!(of(Failure::of_kind(kind, "something")), Outcome::Neither, "{kind:?}");
        }
        assert_eq!(of(Failure::new("no").with_type("Refused")), Outcome::Neither);
        let mut throttled = Failure::of_kind(Kind::Throttled, "429");
        throttled.retry_after = Some(Duration::from_secs(7));
        assert_eq!(of(throttled), Outcome::Failed { told: Some(Duration::from_secs(7)) });
        let mut snoozed = Failure::new("later");
        snoozed.snooze = Some(Duration::from_secs(7));
        assert_eq!(of(snoozed), Outcome::Neither);
    }

    #[test]
    fn an_error_counts_although_attempts_are_used_up() {
        let once = RetryPolicy::DEFAULT.max_attempts(1).check().unwrap();
        assert_eq!(Outcome::of_failure(&once, &Failure::new("x")), Outcome::Failed { told: None });
    }

    #[test]
    fn a_window_forgets_second_by_second() {
        let mut window = Window::new(Duration::from_secs(3));
        for second in 0..6 {
            window.add(Outcome::Succeeded, at(second));
            window.add(Outcome::Neither, at(second));
        }
        assert_eq!(window.tally(at(5)), Tally { succeeded: 3, failed: 0 });
        assert_eq!(window.tally(at(7)), Tally { succeeded: 1, failed: 0 });
        assert_eq!(window.tally(at(9)), Tally::default());
    }

    #[test]
    fn three_calls_say_until_when_to_leave_a_dependency_alone() {
        let mut window = Window::new(Duration::from_secs(10));
        let told = |seconds| Outcome::Failed { told: Some(Duration::from_secs(seconds)) };
        window.add(told(30), at(0));
        window.add(told(10), at(1));
        assert_eq!(window.told()[2], None);
        window.add(told(20), at(2));
        assert_eq!(window.told(), [Some(at(30)), Some(at(22)), Some(at(11))]);
        // What is over counts no more.
        window.add(told(60), at(15));
        assert_eq!(window.told(), [Some(at(75)), Some(at(30)), Some(at(22))]);
    }
}
