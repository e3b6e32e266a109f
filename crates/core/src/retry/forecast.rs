//! What a whole schedule amounts to: for `policy explain`, for lints, and for documentation.
//!
//! A forecast follows one kind of failure (a [`Matched`]) through attempt after attempt with the
//! same function that decides for real, so deadlines, caps and jitter come out as they will in
//! production. Spread-out schedules are sampled with numbers derived from the sample's index, so
//! the same policy always gives the same forecast.

use std::time::Duration;

use super::check::CheckedPolicy;
use super::decide::{Decision, Matched, State, StopWhy, decide_matched, uniform};
use super::policy::*;
use super::schedule::{self, Spread};
use crate::{Failure, Timestamp};

/// How many delays of an endless schedule are listed.
pub const LISTED: usize = 100;

/// How many delays of a finite schedule are listed.
const LISTED_FINITE: usize = 10_000;

/// How many runs are sampled where delays are spread.
const SAMPLES: u32 = 1_000;

impl CheckedPolicy {
    /// The failure that a schedule is about when nobody names one: what the first rule that
    /// retries matches, or a failure that no rule matches.
    pub fn assumed(&self) -> Matched {
        let first = self.rules.iter().position(|rule| rule.then == Verdict::Retry);
        first.map_or(Matched::Nothing, Matched::Rule)
    }

    /// Every kind of failure that is tried again and has terms of its own: those that no rule
    /// matches first, then one for each rule that retries.
    pub fn retried(&self) -> Vec<Matched> {
        let mut cases = Vec::new();
        if self.otherwise == Verdict::Retry {
            cases.push(Matched::Nothing);
        }
        let rules = self.rules.iter().enumerate();
        cases.extend(
            rules.filter(|(_, rule)| rule.then == Verdict::Retry).map(|(i, _)| Matched::Rule(i)),
        );
        cases
    }

    /// True when time may end the retries before the attempts are used up.
    fn ends_by_time(&self) -> bool {
        self.max_elapsed.is_some() || self.timeouts.total.is_some()
    }

    /// The terms for such a failure.
    pub fn terms_for(&self, matched: Matched) -> schedule::Terms<'_> {
        self.terms(matched.index().map(|index| &self.rules[index]))
    }
}

/// One delay of a schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The delay for the random number asked for.
    pub delay: Duration,
    /// The delays that were possible.
    pub spread: Spread,
}

/// The delays when every attempt fails at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// How many attempts there are, where it is known.
    pub attempts: Option<u32>,
    /// The delays in order.
    pub steps: Vec<Step>,
    /// True when there are more delays than are listed.
    pub more: bool,
    /// What ends it, unless there are more.
    pub end: Option<StopWhy>,
}

impl Schedule {
    /// The sum of the delays listed.
    pub fn total(&self) -> Duration {
        self.steps.iter().fold(Duration::ZERO, |sum, step| sum.saturating_add(step.delay))
    }
}

/// The schedule for one random number `u` that serves every draw, with attempts that take
/// `attempt_time` each.
///
/// ```
/// use resurgam_core::retry::{forecast, preset};
/// use std::time::Duration;
///
/// let policy = preset::EDDA_DEFAULT.check().unwrap();
/// let schedule = forecast::schedule(&policy, policy.assumed(), 0.5, Duration::ZERO);
/// assert_eq!(schedule.attempts, Some(5));
/// assert_eq!(schedule.total(), Duration::from_secs(15));
/// ```
pub fn schedule(
    policy: &CheckedPolicy,
    matched: Matched,
    u: f64,
    attempt_time: Duration,
) -> Schedule {
    let limit = policy.terms_for(matched).max_attempts;
    let listed = if limit == Limit::Unlimited { LISTED } else { LISTED_FINITE };
    walk(policy, matched, attempt_time, listed, |_| u)
}

/// Lets every attempt fail, with a random number for each failure, and lists the delays.
fn walk(
    policy: &CheckedPolicy,
    matched: Matched,
    attempt_time: Duration,
    listed: usize,
    draw: impl Fn(u32) -> f64,
) -> Schedule {
    let mut now = Timestamp::EPOCH;
    let (mut state, failure) = (State::after(0, now), Failure::default());
    let mut steps = Vec::new();
    loop {
        now = now.saturating_add(attempt_time);
        state.failures += 1;
        let u = draw(state.failures);
        let delay = match decide_matched(policy, matched, &state, &failure, now, u) {
            Decision::Stop { why } => {
                return Schedule {
                    attempts: Some(state.failures),
                    steps,
                    more: false,
                    end: Some(why),
                };
            }
            Decision::Retry { delay, why } => {
                if steps.len() == listed {
                    let attempts = match why.limit {
                        Limit::Attempts(max) if !policy.ends_by_time() => Some(max.get()),
                        _ => None,
                    };
                    return Schedule { attempts, steps, more: true, end: None };
                }
                steps.push(Step { delay, spread: why.spread });
                state.previous_delay = Some(delay);
                delay
            }
        };
        now = now.saturating_add(delay);
    }
}

/// A few points of a distribution of durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantiles {
    /// The shortest.
    pub min: Duration,
    /// One in twenty is shorter.
    pub p5: Duration,
    /// Half are shorter.
    pub p50: Duration,
    /// One in twenty is longer.
    pub p95: Duration,
    /// The longest.
    pub max: Duration,
}

impl Quantiles {
    /// Of a list that is not empty.
    fn of(mut samples: Vec<Duration>) -> Option<Self> {
        samples.sort_unstable();
        let last = samples.len().checked_sub(1)?;
        // Nearest rank: with one sample every quantile is that sample.
        let at = |share: f64| samples[(share * last as f64).round() as usize];
        Some(Quantiles { min: at(0.0), p5: at(0.05), p50: at(0.5), p95: at(0.95), max: at(1.0) })
    }
}

/// One attempt of a forecast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The attempt that begins after the delay; the first has none and no row.
    pub attempt: u32,
    /// The delay before it.
    pub delay: Quantiles,
    /// The time from the call's start to the attempt's.
    pub start: Quantiles,
    /// The share of runs in which the deadline still allows it.
    pub reached: f64,
}

/// What a schedule amounts to.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// The bound on attempts.
    pub max_attempts: Limit,
    /// A row for every attempt after the first.
    pub rows: Vec<Row>,
    /// True when there are more attempts than are listed.
    pub more: bool,
    /// The sum of the listed delays as the backoff alone has them, before jitter.
    pub waiting: Duration,
    /// How long an outage may last that begins with the first attempt and is over before the
    /// last one; `None` when there are more attempts than are listed.
    pub outage: Option<Quantiles>,
}

/// Samples what happens when every attempt fails after `attempt_time`.
pub fn forecast(policy: &CheckedPolicy, matched: Matched, attempt_time: Duration) -> Forecast {
    let spread = policy.terms_for(matched).jitter != Jitter::None;
    let count = if spread { SAMPLES } else { 1 };
    let runs: Vec<Schedule> = (0..count)
        .map(|run| {
            walk(policy, matched, attempt_time, LISTED, |r| uniform(u128::from(run), 0, 0, r))
        })
        .collect();
    let starts: Vec<Vec<Duration>> = runs.iter().map(|run| starts(run, attempt_time)).collect();
    let longest = runs.iter().map(|run| run.steps.len()).max().unwrap_or(0);
    let rows = (0..longest).filter_map(|index| {
        let delays: Vec<_> =
            runs.iter().filter_map(|run| Some(run.steps.get(index)?.delay)).collect();
        let begun: Vec<_> = starts.iter().filter_map(|run| run.get(index).copied()).collect();
        Some(Row {
            attempt: u32::try_from(index).ok()?.saturating_add(2),
            reached: delays.len() as f64 / f64::from(count),
            delay: Quantiles::of(delays)?,
            start: Quantiles::of(begun)?,
        })
    });
    let more = runs.iter().any(|run| run.more);
    let last = |run: &Vec<Duration>| run.last().copied().unwrap_or(Duration::ZERO);
    Forecast {
        max_attempts: policy.terms_for(matched).max_attempts,
        rows: rows.collect(),
        more,
        waiting: waiting(policy, matched, attempt_time),
        outage: if more { None } else { Quantiles::of(starts.iter().map(last).collect()) },
    }
}

/// The sum of the delays without jitter.
fn waiting(policy: &CheckedPolicy, matched: Matched, attempt_time: Duration) -> Duration {
    let mut plain = policy.clone().into_inner().jitter(Jitter::None);
    plain.rules.to_mut().iter_mut().for_each(|rule| rule.jitter = None);
    let plain = plain.check().map(|plain| walk(&plain, matched, attempt_time, LISTED, |_| 0.0));
    plain.map_or(Duration::ZERO, |schedule| schedule.total())
}

/// When each attempt after the first begins.
fn starts(run: &Schedule, attempt_time: Duration) -> Vec<Duration> {
    let mut now = Duration::ZERO;
    let begin = |step: &Step| {
        now = now.saturating_add(attempt_time).saturating_add(step.delay);
        now
    };
    run.steps.iter().map(begin).collect()
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn the_default_policy_waits_about_four_minutes() {
        let policy = RetryPolicy::DEFAULT.check().unwrap();
        let forecast = forecast(&policy, policy.assumed(), Duration::ZERO);
        assert_eq!(forecast.rows.len(), 9);
        assert_eq!(forecast.waiting, Duration::from_secs(243));
        // Draws stay below the cap of 60 s, so the usual wait is shorter than the backoff's sum.
        let outage = forecast.outage.unwrap();
        assert!((190..205).contains(&outage.p50.as_secs()), "{outage:?}");
        assert!(outage.p5 < outage.p50 && outage.p50 < outage.p95);
    }

    #[test]
    fn a_deadline_shortens_the_schedule_and_says_so() {
        let policy = RetryPolicy::fixed(Duration::from_secs(10))
            .jitter(Jitter::None)
            .unlimited()
            .max_elapsed(Duration::from_secs(60))
            .check()
            .unwrap();
        let schedule = schedule(&policy, policy.assumed(), 0.5, Duration::ZERO);
        assert_eq!((schedule.attempts, schedule.steps.len()), (Some(7), 6));
        let why = schedule.end.unwrap().to_string();
        assert_eq!(why, "max_elapsed: 1m have passed and the next wait would be 10s");
    }

    #[test]
    fn an_endless_schedule_lists_a_hundred_delays() {
        let policy = RetryPolicy::DEFAULT.unlimited().check().unwrap();
        let schedule = schedule(&policy, policy.assumed(), 0.5, Duration::ZERO);
        assert_eq!((schedule.attempts, schedule.steps.len(), schedule.more), (None, 100, true));
        assert_eq!(forecast(&policy, policy.assumed(), Duration::ZERO).outage, None);
    }
}
