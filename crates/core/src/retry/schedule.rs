//! Chooses a delay.
//!
//! Pure: the caller brings the number of failures and a random number, so a schedule can be
//! checked as a table. Delays are computed in `f64` milliseconds, where nothing overflows into a
//! panic, are bounded by [`CEILING`], and are floored to whole milliseconds at the end. Jitter is
//! drawn below the cap by default, so that capped delays still spread.
//!
//! The chosen delay is written down by the engine and never computed again; a platform whose
//! `powf` rounds differently cannot change the past.

use std::time::Duration;

use super::policy::*;
use crate::duration::as_millis;

/// What holds for one failure: the policy's words, or those of the rule that matched in their
/// place.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Bound on attempts.
    pub max_attempts: Limit,
    /// How the delay grows.
    pub backoff: &'a Backoff,
    /// Bound on one delay.
    pub max_delay: Option<Duration>,
    /// How the delay is spread.
    pub jitter: Jitter,
    /// Where the bound meets the jitter.
    pub cap: CapOrder,
}

impl RetryPolicy {
    /// The terms that hold when `rule` matched, or no rule did.
    pub fn terms<'a>(&'a self, rule: Option<&'a Rule>) -> Terms<'a> {
        let mut terms = Terms {
            max_attempts: self.max_attempts,
            backoff: &self.backoff,
            max_delay: self.max_delay,
            jitter: self.jitter,
            cap: self.cap,
        };
        if let Some(rule) = rule {
            terms.max_attempts = rule.max_attempts.unwrap_or(terms.max_attempts);
            terms.backoff = rule.backoff.as_ref().unwrap_or(terms.backoff);
            terms.max_delay = rule.max_delay.or(terms.max_delay);
            terms.jitter = rule.jitter.unwrap_or(terms.jitter);
        }
        terms
    }
}

/// The delays that one failure may get: a draw between `lo` and `hi`, then cut at `most`.
/// In milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The shortest draw.
    pub lo: f64,
    /// The longest draw.
    pub hi: f64,
    /// What no draw passes.
    pub most: f64,
    /// True when the backoff had outgrown `max_delay`.
    pub capped: bool,
}

impl Spread {
    /// The delay for the random number `u`, from 0 to 1. Any other `u` counts as the nearest.
    pub fn at(&self, u: f64) -> Duration {
        whole_millis(self.draw(u), self.most)
    }

    /// The shortest and the longest delay.
    pub fn bounds(&self) -> (Duration, Duration) {
        (self.at(0.0), self.at(1.0))
    }

    /// The share of draws that end exactly at the cap, where a jitter was meant to spread them.
    pub fn lost_at_cap(&self) -> f64 {
        let width = self.hi - self.lo;
        match () {
            _ if self.lo >= self.most => 1.0,
            _ if width <= 0.0 || self.hi <= self.most => 0.0,
            _ => (self.hi - self.most) / width,
        }
    }

    fn draw(&self, u: f64) -> f64 {
        // Written so that an u that is not a number counts as 0.
        let u = if u > 0.0 { u.min(1.0) } else { 0.0 };
        (self.lo + (self.hi - self.lo) * u).min(self.most)
    }
}

/// The delays that may follow failure number `r` (from 1). `previous` is the delay chosen last
/// time; only decorrelated jitter looks at it.
pub fn spread(terms: &Terms<'_>, r: u32, previous: Option<Duration>) -> Spread {
    let ceiling = as_millis(CEILING);
    let max = terms.max_delay.map_or(ceiling, |max| as_millis(max).min(ceiling));
    let raw = raw_delay(terms.backoff, r);
    let capped = raw > max;
    if let Jitter::Decorrelated = terms.jitter {
        return decorrelated(terms, previous, max);
    }
    let (base, most) = match terms.cap {
        CapOrder::Truncate => (raw.min(max), max),
        CapOrder::Before => (raw.min(max), ceiling),
        CapOrder::After => (raw, max),
    };
    let (lo, hi) = match terms.jitter {
        Jitter::None | Jitter::Decorrelated => (base, base),
        Jitter::Full => (0.0, base),
        Jitter::Equal => (base * 0.5, base),
        Jitter::Proportional(share) => (base * (1.0 - share), base * (1.0 + share)),
        Jitter::Range { lo, hi } => (base * lo, base * hi),
        Jitter::Additive(extra) => (base, base + as_millis(extra)),
    };
    match terms.cap {
        CapOrder::Truncate => Spread { lo: lo.min(max), hi: hi.min(max), most, capped },
        CapOrder::Before | CapOrder::After => Spread { lo, hi, most, capped },
    }
}

fn decorrelated(terms: &Terms<'_>, previous: Option<Duration>, max: f64) -> Spread {
    let initial = terms.backoff.initial().map_or(0.0, as_millis);
    let longest = initial.max(3.0 * previous.map_or(initial, as_millis));
    let hi = if terms.cap == CapOrder::After { longest } else { longest.min(max) };
    Spread { lo: initial.min(hi), hi, most: max, capped: longest > max }
}

impl Backoff {
    /// The delay from which growth starts, where there is one.
    pub fn initial(&self) -> Option<Duration> {
        match self {
            Backoff::Fixed { delay } => Some(*delay),
            Backoff::Linear { initial, .. }
            | Backoff::Exponential { initial, .. }
            | Backoff::Fibonacci { initial } => Some(*initial),
            _ => None,
        }
    }
}

/// The backoff's delay after `r` failures in milliseconds, from 0 to the ceiling.
fn raw_delay(backoff: &Backoff, r: u32) -> f64 {
    let step = f64::from(r.max(1) - 1);
    let raw = match backoff {
        Backoff::None => 0.0,
        Backoff::Fixed { delay } => as_millis(*delay),
        Backoff::Linear { initial, increment } => {
            as_millis(*initial) + as_millis(increment.unwrap_or(*initial)) * step
        }
        Backoff::Exponential { initial, multiplier } => grow(*initial, || multiplier.powf(step)),
        Backoff::Polynomial { scale, power, shift, offset } => {
            let term = match r.saturating_sub(*shift) {
                0 => 0.0,
                n => grow(*scale, || f64::from(n).powf(*power)),
            };
            as_millis(*offset) + term
        }
        Backoff::Fibonacci { initial } => grow(*initial, || fibonacci(r)),
        Backoff::Schedule { delays } => {
            let index = usize::try_from(r.max(1) - 1).unwrap_or(usize::MAX);
            delays.get(index).or(delays.last()).map_or(0.0, |delay| as_millis(*delay))
        }
        Backoff::Phases { phases } => phase_delay(phases, r),
    };
    // `max` also turns NaN, which an unchecked policy can produce, into 0.
    raw.max(0.0).min(as_millis(CEILING))
}

/// `start` times a factor that may be infinite; nothing stays nothing.
fn grow(start: Duration, factor: impl FnOnce() -> f64) -> f64 {
    if start.is_zero() { 0.0 } else { as_millis(start) * factor() }
}

fn fibonacci(r: u32) -> f64 {
    // Even 1 ns times the hundredth number is past the ceiling.
    let (mut a, mut b) = (0.0, 1.0);
    for _ in 1..r.clamp(1, 100) {
        (a, b) = (b, a + b);
    }
    b
}

fn phase_delay(phases: &[(u32, Backoff)], r: u32) -> f64 {
    let mut r = r.max(1);
    let last = phases.len().saturating_sub(1);
    for (index, (failures, backoff)) in phases.iter().enumerate() {
        if r <= *failures || index == last {
            return raw_delay(backoff, r);
        }
        r -= failures;
    }
    0.0
}

/// Whole milliseconds, rounded down. The nudge keeps 1.7^2 s, which `f64` computes as
/// 2889.9999999999995 ms, from becoming 2889 ms; it must not lift a delay above its bound.
fn whole_millis(millis: f64, most: f64) -> Duration {
    let nudged = (millis * (1.0 + 1e-12)).min(most).floor().min(as_millis(CEILING));
    Duration::from_millis(nudged as u64)
}

/// What the other side's wish for a delay makes of ours.
///
/// `hint` is bounded by the policy and spread upwards, because a server tells everybody the same
/// moment. Answers the delay, and the part of the wish that was followed.
pub fn with_hint(
    server: &ServerDelay,
    drawn: Duration,
    hint: Option<Duration>,
    u: f64,
) -> (Duration, Option<Duration>) {
    let Some(hint) = hint.filter(|_| server.mode != ServerDelayMode::Ignore) else {
        return (drawn, None);
    };
    let lo = as_millis(hint.min(server.max));
    let hi = lo * (1.0 + server.jitter.max(0.0));
    let wish = Spread { lo, hi, most: as_millis(CEILING), capped: false }.at(u);
    match server.mode {
        ServerDelayMode::AtLeast => (drawn.max(wish), Some(wish)),
        ServerDelayMode::Exact | ServerDelayMode::Ignore => (wish, Some(wish)),
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    fn delays(policy: &RetryPolicy, r: impl IntoIterator<Item = u32>) -> Vec<u128> {
        let terms = policy.terms(None);
        r.into_iter().map(|r| spread(&terms, r, None).at(0.5).as_millis()).collect()
    }

    #[test]
    fn phases_follow_one_another_and_the_last_goes_on() {
        let policy = RetryPolicy::with_backoff(Backoff::Phases {
            phases: vec![
                (2, Backoff::Fixed { delay: Duration::from_millis(10) }),
                (2, Backoff::exponential(Duration::from_millis(100))),
                (1, Backoff::Fixed { delay: Duration::from_secs(5) }),
            ]
            .into(),
        })
        .jitter(Jitter::None);
        assert_eq!(delays(&policy, 1..=7), [10, 10, 100, 200, 5000, 5000, 5000]);
    }

    #[test]
    fn a_polynomial_waits_its_offset_until_it_begins_to_grow() {
        let policy = RetryPolicy::with_backoff(Backoff::Polynomial {
            scale: Duration::from_secs(1),
            power: 4.0,
            shift: 1,
            offset: Duration::from_secs(15),
        })
        .jitter(Jitter::None);
        assert_eq!(delays(&policy, 1..=4), [15_000, 16_000, 31_000, 96_000]);
    }

    #[test]
    fn a_draw_outside_its_range_counts_as_the_nearest() {
        let terms = RetryPolicy::DEFAULT;
        let spread = spread(&terms.terms(None), 1, None);
        assert_eq!(spread.at(f64::NAN), spread.at(0.0));
        assert_eq!(spread.at(-3.0), Duration::from_millis(500));
        assert_eq!(spread.at(f64::INFINITY), Duration::from_millis(1500));
    }

    #[test]
    fn only_draws_that_pile_up_count_as_lost_at_the_cap() {
        let policy = RetryPolicy::exponential(Duration::from_secs(1))
            .max_delay(Duration::from_secs(10))
            .jitter(Jitter::Full);
        let lost = |policy: &RetryPolicy, r| spread(&policy.terms(None), r, None).lost_at_cap();
        assert_eq!(lost(&policy, 9), 0.0);
        let after = policy.cap(CapOrder::After);
        assert_eq!(lost(&after, 2), 0.0);
        assert_eq!(lost(&after, 5), 6.0 / 16.0);
        assert_eq!(lost(&after.jitter(Jitter::Range { lo: 1.0, hi: 2.0 }), 9), 1.0);
    }
}
