//! Recorded calls of an activity under another policy.
//!
//! An attempt of a call at some time comes to what the attempt came to that the call made last
//! before that time; so the dependency is taken to fail for a call from one failed attempt until
//! the next attempt, and to be fine from the first success on.

mod recorded;

use std::collections::BTreeMap;
use std::time::Duration;

use resurgam_core::retry::{CheckedPolicy, Decision, State, decide};
use resurgam_core::{Failure, Timestamp};
use serde::Serialize;

pub use recorded::{Range, Records};

/// A call goes on for so many attempts at most.
const MOST_ATTEMPTS: usize = 1_000;

/// What is assumed, for those who read the numbers.
pub const ASSUMED: [&str; 3] = [
    "an attempt comes to what the attempt came to that the call made last before that time",
    "it takes as long as that one did, and begins as soon as it is due",
    "a call that failed for good when it was recorded would have failed from then on",
];

/// A call as it was recorded.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// When it was made.
    pub scheduled: Timestamp,
    /// Its attempts that counted, in order; at least one.
    pub attempts: Vec<Tried>,
    /// It was not over.
    pub is_open: bool,
}

/// An attempt as it was recorded.
#[derive(Clone, Debug)]
pub struct Tried {
    /// When it began.
    pub at: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// `None` for one that succeeded.
    pub failure: Option<Failure>,
}

/// What a call came to.
struct Course {
    attempts: Vec<Timestamp>,
    /// When it succeeded.
    succeeded: Option<Timestamp>,
    /// It was not given up, either.
    goes_on: bool,
}

/// What calls came to, together.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sums {
    /// How many attempts there are.
    pub attempts: u64,
    /// Calls that succeed.
    pub succeeded: u64,
    /// Calls that fail.
    pub failed: u64,
    /// Calls that are not over.
    pub open: u64,
    /// How long those that succeeded took from their beginning: half of them no longer than this.
    pub success_p50_ms: u64,
    /// Nineteen of twenty no longer than this.
    pub success_p95_ms: u64,
    /// And the longest.
    pub success_max_ms: u64,
    /// Attempts in the busiest minute.
    pub busiest_minute: u64,
    /// Attempts that began, by minute since 1970.
    pub per_minute: BTreeMap<i64, u64>,
}

/// Both courses of the same calls.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// The activity.
    pub activity: String,
    /// How many calls of it were recorded.
    pub calls: usize,
    /// What they came to.
    pub recorded: Sums,
    /// What they would have come to.
    pub what_if: Sums,
    assumed: [&'static str; 3],
}

impl Compared {
    /// Has calls of an activity follow another policy.
    pub fn of(activity: &str, calls: &[Recorded], policy: &CheckedPolicy) -> Self {
        let courses = |course: &dyn Fn(usize, &Recorded) -> Course| {
            let mut sums = Collected::default();
            for (number, call) in calls.iter().enumerate() {
                sums.add(call, course(number, call));
            }
            sums.sums()
        };
        Compared {
            activity: activity.to_string(),
            calls: calls.len(),
            recorded: courses(&|_, call| as_recorded(call)),
            what_if: courses(&|number, call| under(policy, call, number as u64)),
            assumed: ASSUMED,
        }
    }
}

fn as_recorded(call: &Recorded) -> Course {
    let last = call.attempts.last();
    let succeeded = last.filter(|tried| tried.failure.is_none());
    Course {
        attempts: call.attempts.iter().map(|tried| tried.at).collect(),
        succeeded: succeeded.map(|tried| tried.at.saturating_add(tried.took)),
        goes_on: call.is_open,
    }
}

/// What becomes of a call under a policy. The number of the call makes its random numbers.
fn under(policy: &CheckedPolicy, call: &Recorded, number: u64) -> Course {
    let Some(first) = call.attempts.first() else { return as_recorded(call) };
    let mut state = State { first_started: Some(first.at), ..State::after(0, call.scheduled) };
    let mut course = Course { attempts: Vec::new(), succeeded: None, goes_on: false };
    let mut at = first.at;
    while course.attempts.len() < MOST_ATTEMPTS {
        course.attempts.push(at);
        let before = call.attempts.partition_point(|tried| tried.at <= at);
        let tried = &call.attempts[before.saturating_sub(1)];
        let end = at.saturating_add(tried.took);
        let Some(failure) = &tried.failure else {
            course.succeeded = Some(end);
            return course;
        };
        state.failures = state.failures.saturating_add(1);
        let u = random(number, course.attempts.len() as u64);
        match decide(policy, &state, failure, end, u) {
            Decision::Stop { .. } => return course,
            Decision::Retry { delay, .. } => {
                state.previous_delay = Some(delay);
                at = end.saturating_add(delay);
            }
        }
    }
    course.goes_on = true;
    course
}

/// A number from 0 to 1 that follows from two (SplitMix64).
fn random(one: u64, other: u64) -> f64 {
    let seed = one.wrapping_mul(0xD6E8_FEB8_6659_FD93).wrapping_add(other);
    let mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Sums that are not done, with the times that their quantiles are taken of.
#[derive(Default)]
struct Collected {
    sums: Sums,
    times: Vec<u64>,
}

impl Collected {
    fn add(&mut self, call: &Recorded, course: Course) {
        let Collected { sums, times } = self;
        sums.attempts += course.attempts.len() as u64;
        for at in &course.attempts {
            *sums.per_minute.entry(at.as_millis().div_euclid(60_000)).or_default() += 1;
        }
        match course.succeeded {
            Some(at) => {
                sums.succeeded += 1;
                let took = at.since(call.scheduled).as_millis();
                times.push(u64::try_from(took).unwrap_or(u64::MAX));
            }
            None if course.goes_on => sums.open += 1,
            None => sums.failed += 1,
        }
    }

    fn sums(mut self) -> Sums {
        self.times.sort_unstable();
        let last = self.times.len().saturating_sub(1);
        let at = |share: usize| self.times.get(last * share / 100).copied().unwrap_or_default();
        Sums {
            success_p50_ms: at(50),
            success_p95_ms: at(95),
            success_max_ms: at(100),
            busiest_minute: self.sums.per_minute.values().copied().max().unwrap_or_default(),
            ..self.sums
        }
    }
}

#[cfg(test)]
mod tests {
    use resurgam_core::retry::{Jitter, RetryPolicy};
    use resurgam_watchdog::test;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    /// A call that failed at these seconds, and succeeded at the last.
    fn call(failed: &[i64], succeeded: Option<i64>) -> Recorded {
        let tried = |seconds: i64, failure| Tried {
            at: at(seconds),
            took: Duration::from_secs(1),
            failure,
        };
        let failed = failed.iter().map(|second| tried(*second, Some(Failure::new("down"))));
        let succeeded = succeeded.map(|second| tried(second, None));
        let attempts = failed.chain(succeeded).collect();
        Recorded { scheduled: at(0), attempts, is_open: false }
    }

    fn fixed(seconds: u64, attempts: u32) -> CheckedPolicy {
        let policy = RetryPolicy::fixed(Duration::from_secs(seconds)).jitter(Jitter::None);
        policy.max_attempts(attempts).check().unwrap()
    }

    #[test]
    fn an_attempt_comes_to_what_the_one_before_it_came_to() {
        let recorded = [call(&[0, 10], Some(30)), call(&[], Some(5)), call(&[0, 10, 30], None)];
        let compared = Compared::of("charge", &recorded, &fixed(4, 10));
        let Sums { attempts, succeeded, failed, success_max_ms, .. } = compared.recorded;
        assert_eq!((attempts, succeeded, failed, success_max_ms), (7, 2, 1, 31_000));
        // At 0, 5, 10, 15, 20, 25 the first call fails; at 30 it succeeds. The last one fails ten
        // times.
        let Sums { attempts, succeeded, failed, success_max_ms, .. } = compared.what_if;
        assert_eq!((attempts, succeeded, failed, success_max_ms), (7 + 1 + 10, 2, 1, 31_000));
    }

    #[test]
    fn a_call_that_was_not_over_when_it_was_read_goes_on() {
        let open = Recorded { is_open: true, ..call(&[0, 10], None) };
        let recorded = [open, call(&[0], None), call(&[], Some(5))];
        let Sums { succeeded, failed, open, .. } =
            Compared::of("charge", &recorded, &fixed(4, 3)).recorded;
        assert_eq!((succeeded, failed, open), (1, 1, 1));
    }

    #[test]
    fn fewer_attempts_lose_calls_that_were_recorded_as_succeeded() {
        let recorded = [call(&[0, 10], Some(30))];
        let compared = Compared::of("charge", &recorded, &fixed(4, 3));
        let Sums { attempts, succeeded, failed, .. } = compared.what_if;
        assert_eq!((attempts, succeeded, failed), (3, 0, 1));
    }

    #[test]
    fn a_policy_that_never_gives_up_leaves_calls_open() {
        let policy = RetryPolicy::fixed(Duration::from_secs(60)).jitter(Jitter::None);
        let policy = policy.unlimited().check().unwrap();
        let compared = Compared::of("charge", &[call(&[0], None)], &policy);
        let Sums { open, failed, busiest_minute, .. } = compared.what_if;
        assert_eq!((open, failed, busiest_minute), (1, 0, 1));
    }
}
