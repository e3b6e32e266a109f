//! How much may begin behind a gate now.
//!
//! What a gate allows is a [`Share`]: all of it where one node works, a part of it where several
//! do. [`Grants`] counts what begins against the share and says how much is left.

use std::time::Duration;

use super::machine::{GateState, Phase, Standing};
use super::settings::{Budget, Gate, Rate};
use crate::Timestamp;

/// How much there is at most at once after a quiet time while calls come back, in seconds of the
/// rate.
const RAMP_BURST: f64 = 0.1;

/// A bucket of tokens that fills at a rate: over any time `t`, at most `rate * t + burst` are taken
/// out of it.
///
/// ```
/// use resurgam_core::gate::{Meter, Rate};
/// use resurgam_core::Timestamp;
///
/// let at = Timestamp::from_millis;
/// let mut meter = Meter::new(Rate::per_second(10.0).burst(2), at(0));
/// assert_eq!(meter.left(at(0)), 2);
/// meter.take(at(0));
/// meter.take(at(0));
/// assert_eq!((meter.left(at(50)), meter.next(at(50))), (0, at(100)));
/// assert_eq!(meter.left(at(100)), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Meter {
    per_second: f64,
    burst: f64,
    tokens: f64,
    at: Timestamp,
}

impl Meter {
    /// A full bucket.
    pub fn new(rate: Rate, now: Timestamp) -> Self {
        let (per_second, burst) = (rate.per_second.max(0.0), f64::from(rate.burst));
        // Whoever may begin some may begin one; a node without a share, none.
        let burst = if per_second > 0.0 { burst.max(1.0) } else { 0.0 };
        Meter { per_second, burst, tokens: burst, at: now }
    }

    /// A bucket with one token in it.
    fn beginning(per_second: f64, now: Timestamp) -> Self {
        let burst = if per_second > 0.0 { (per_second * RAMP_BURST).max(1.0) } else { 0.0 };
        Meter { per_second, burst, tokens: burst.min(1.0), at: now }
    }

    /// How many can be taken.
    pub fn left(&self, now: Timestamp) -> u32 {
        // Sums of tenths come to a little less than a whole.
        (self.filled(now) + 1e-6) as u32
    }

    /// Takes one, also where there is none: what begins without asking is counted as well.
    pub fn take(&mut self, now: Timestamp) {
        self.fill(now);
        self.tokens -= 1.0;
    }

    /// When the next one is there.
    pub fn next(&self, now: Timestamp) -> Timestamp {
        let missing = (1.0 - 1e-6 - self.filled(now)).max(0.0);
        if missing <= 0.0 {
            return now;
        }
        if self.per_second <= 0.0 {
            return Timestamp::from_millis(i64::MAX);
        }
        let wait = (missing / self.per_second * 1000.0).ceil().min(1e15);
        now.saturating_add(Duration::from_millis(wait as u64))
    }

    /// Another rate from now on; what is in the bucket stays.
    fn set(&mut self, per_second: f64, burst: f64, now: Timestamp) {
        self.fill(now);
        let burst = if per_second > 0.0 { burst.max(1.0) } else { 0.0 };
        (self.per_second, self.burst) = (per_second.max(0.0), burst);
        self.tokens = self.tokens.min(self.burst);
    }

    fn add(&mut self, tokens: f64) {
        self.tokens = (self.tokens + tokens).min(self.burst);
    }

    fn filled(&self, now: Timestamp) -> f64 {
        (self.tokens + now.since(self.at).as_secs_f64() * self.per_second).min(self.burst)
    }

    fn is_full(&self, now: Timestamp) -> bool {
        self.filled(now) + 1e-6 >= self.burst
    }

    fn fill(&mut self, now: Timestamp) {
        self.tokens = self.filled(now);
        // A clock that was set back fills nothing for the time that it passes twice: then it begins
        // anew.
        self.at = now;
    }
}

/// What a gate allows a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// How it stands.
    pub standing: Standing,
    /// How many attempts begin in a time.
    pub rate: Option<Rate>,
    /// How many begin each second while calls come back.
    pub ramp: Option<f64>,
    /// How many probe the dependency in this turn.
    pub probes: Option<u32>,
    /// How many run at once.
    pub concurrency: Option<u32>,
    /// How many retries begin.
    pub budget: Option<Budget>,
}

impl Share {
    /// All that a gate allows.
    pub fn whole(settings: &Gate, state: &GateState) -> Self {
        let standing = state.standing();
        let probes = settings.breaker.as_ref().map_or(1, |breaker| breaker.probes);
        let ramp = match state.phase {
            Phase::Ramping { rate, .. } => Some(rate),
            _ => None,
        };
        Share {
            standing,
            rate: settings.rate,
            ramp: ramp.filter(|_| standing == Standing::Ramping),
            probes: (standing == Standing::Probing).then_some(probes),
            concurrency: settings.concurrency,
            budget: settings.budget,
        }
    }
}

/// How much may begin, of first attempts and of retries. `None` is without bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Of attempts.
    pub attempts: Option<u32>,
    /// Of those, retries.
    pub retries: Option<u32>,
}

/// What began behind a gate, and what may still begin.
#[derive(Clone, Debug)]
pub struct Grants {
    share: Share,
    turn: u64,
    rate: Option<Meter>,
    ramp: Option<Meter>,
    budget: Option<Meter>,
    /// Attempts that run, whenever they began.
    running: u32,
    /// Attempts that began in this turn, without those that ended and said nothing.
    begun: u32,
}

impl Grants {
    /// Nothing has begun.
    pub fn new(share: Share, turn: u64, now: Timestamp) -> Self {
        let mut grants = Grants {
            share: Share { rate: None, ramp: None, budget: None, ..share },
            turn,
            rate: None,
            ramp: None,
            budget: None,
            running: 0,
            begun: 0,
        };
        grants.set(share, turn, now);
        grants
    }

    /// The gate allows something else from now on.
    pub fn set(&mut self, share: Share, turn: u64, now: Timestamp) {
        if turn != self.turn {
            (self.turn, self.begun) = (turn, 0);
        }
        match (&mut self.rate, share.rate) {
            (Some(meter), Some(rate)) => meter.set(rate.per_second, f64::from(rate.burst), now),
            (meter, rate) => *meter = rate.map(|rate| Meter::new(rate, now)),
        }
        match (&mut self.ramp, share.ramp) {
            (Some(meter), Some(rate)) => meter.set(rate, rate * RAMP_BURST, now),
            (meter, rate) => *meter = rate.map(|rate| Meter::beginning(rate, now)),
        }
        match (&mut self.budget, share.budget) {
            (Some(meter), Some(budget)) => {
                meter.set(budget.min_per_second, burst_of(budget), now);
            }
            (meter, budget) => {
                let meter_of = |budget: Budget| {
                    let burst = burst_of(budget);
                    Meter { per_second: budget.min_per_second, burst, tokens: burst, at: now }
                };
                *meter = budget.map(meter_of);
            }
        }
        self.share = share;
    }

    /// How the gate stands.
    pub fn standing(&self) -> Standing {
        self.share.standing
    }

    /// How many attempts run.
    pub fn running(&self) -> u32 {
        self.running
    }

    /// True when nothing runs, and there is as much of everything as there ever is: as if nothing
    /// had begun.
    pub fn is_rested(&self, now: Timestamp) -> bool {
        let mut meters = self.rate.iter().chain(&self.ramp).chain(&self.budget);
        self.running == 0 && meters.all(|meter| meter.is_full(now))
    }

    /// How many began in this turn, without those that ended and said nothing.
    pub fn begun(&self) -> u32 {
        self.begun
    }

    /// True when some of what may begin lapses unless it is shared out again.
    pub fn lapses(&self) -> bool {
        self.rate.is_some() || self.ramp.is_some() || self.share.probes.is_some()
    }

    /// How much may begin now.
    pub fn left(&self, now: Timestamp) -> Left {
        let of_standing = match self.share.standing {
            Standing::Shut => Some(0),
            Standing::Probing => Some(self.share.probes.unwrap_or(0).saturating_sub(self.begun)),
            Standing::Ramping => self.ramp.as_ref().map(|meter| meter.left(now)),
            Standing::Flowing => None,
        };
        let of_rate = self.rate.as_ref().map(|meter| meter.left(now));
        let of_slots = self.share.concurrency.map(|most| most.saturating_sub(self.running));
        let attempts = [of_standing, of_rate, of_slots].into_iter().flatten().min();
        Left { attempts, retries: self.budget.as_ref().map(|meter| meter.left(now)) }
    }

    /// An attempt begins.
    pub fn begins(&mut self, is_retry: bool, now: Timestamp) {
        self.running = self.running.saturating_add(1);
        self.begun = self.begun.saturating_add(1);
        self.rate.iter_mut().chain(&mut self.ramp).for_each(|meter| meter.take(now));
        if let (Some(meter), Some(budget)) = (&mut self.budget, self.share.budget) {
            match is_retry {
                true => meter.take(now),
                false => meter.add(budget.ratio),
            }
        }
    }

    /// An attempt has ended.
    pub fn ends(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// An attempt that began in this turn says nothing about the dependency: another one may.
    pub fn says_nothing(&mut self) {
        self.begun = self.begun.saturating_sub(1);
    }

    /// An attempt that was thought to say nothing says something after all.
    pub fn says_something(&mut self) {
        self.begun = self.begun.saturating_add(1);
    }

    /// When more may begin although nothing ends; `None` when that is no question of time.
    pub fn next(&self, now: Timestamp) -> Option<Timestamp> {
        if matches!(self.share.standing, Standing::Shut | Standing::Probing) {
            return None;
        }
        let meters = self.rate.iter().chain(&self.ramp).chain(&self.budget);
        meters.map(|meter| meter.next(now)).filter(|at| *at > now).max()
    }
}

/// What may begin at once after a quiet time.
fn burst_of(budget: Budget) -> f64 {
    budget.min_per_second.max(1.0)
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;
    use crate::gate::Breaker;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn grants(gate: &Gate, state: &GateState, now: Timestamp) -> Grants {
        Grants::new(Share::whole(gate, state), state.turn, now)
    }

    fn attempts(grants: &Grants, now: Timestamp) -> Option<u32> {
        grants.left(now).attempts
    }

    #[test]
    fn a_gate_without_limits_bounds_nothing_while_it_flows() {
        let gate = Gate::new().breaker(Breaker::new());
        let mut grants = grants(&gate, &GateState::flowing(at(0)), at(0));
        grants.begins(false, at(0));
        assert_eq!(grants.left(at(0)), Left { attempts: None, retries: None });
        assert_eq!(grants.next(at(0)), None);
    }

    #[test]
    fn concurrency_counts_what_runs() {
        let gate = Gate::new().concurrency(2);
        let mut grants = grants(&gate, &GateState::flowing(at(0)), at(0));
        grants.begins(false, at(0));
        grants.begins(true, at(0));
        assert_eq!(attempts(&grants, at(0)), Some(0));
        grants.ends();
        assert_eq!(attempts(&grants, at(0)), Some(1));
    }

    #[test]
    fn a_probe_that_says_nothing_makes_room_for_another_one() {
        let gate = Gate::new().breaker(Breaker::new().probes(2));
        let state = GateState { turn: 4, phase: Phase::Probing, ..GateState::flowing(at(0)) };
        let mut grants = grants(&gate, &state, at(0));
        grants.begins(false, at(0));
        grants.begins(false, at(0));
        assert_eq!(attempts(&grants, at(0)), Some(0));
        grants.ends();
        assert_eq!(attempts(&grants, at(0)), Some(0));
        grants.says_nothing();
        assert_eq!(attempts(&grants, at(0)), Some(1));
        grants.says_something();
        assert_eq!(attempts(&grants, at(0)), Some(0));
    }

    #[test]
    fn retries_are_bounded_by_first_attempts_and_have_a_least_rate() {
        let gate = Gate::new().budget(Budget::new().ratio(0.5).min_per_second(1.0));
        let mut grants = grants(&gate, &GateState::flowing(at(0)), at(0));
        grants.begins(true, at(0));
        assert_eq!(grants.left(at(0)), Left { attempts: None, retries: Some(0) });
        grants.begins(false, at(0));
        assert_eq!(grants.left(at(0)).retries, Some(0));
        grants.begins(false, at(0));
        assert_eq!(grants.left(at(0)).retries, Some(1));
        grants.begins(true, at(0));
        assert_eq!(grants.left(at(999)).retries, Some(0));
        assert_eq!(grants.left(at(1000)).retries, Some(1));
    }

    #[test]
    fn a_new_rate_keeps_what_is_left_of_the_old_one() {
        let gate = Gate::new().breaker(Breaker::new());
        let ramping = |rate| Phase::Ramping {
            rate,
            first: 10.0,
            judged_at: at(0),
            judged: crate::gate::Tally::default(),
        };
        let mut state = GateState { phase: ramping(10.0), ..GateState::flowing(at(0)) };
        let mut grants = grants(&gate, &state, at(0));
        assert_eq!(attempts(&grants, at(0)), Some(1));
        grants.begins(false, at(0));
        assert_eq!(grants.next(at(0)), Some(at(100)));
        state.phase = ramping(100.0);
        grants.set(Share::whole(&gate, &state), state.turn, at(50));
        assert_eq!(attempts(&grants, at(50)), Some(0));
        assert_eq!(attempts(&grants, at(150)), Some(10));
    }

    #[test]
    fn a_gate_has_rested_when_nothing_runs_and_its_rate_is_there_again() {
        let gate = Gate::new().rate(Rate::per_second(10.0).burst(2)).concurrency(5);
        let mut grants = grants(&gate, &GateState::flowing(at(0)), at(0));
        assert!(grants.is_rested(at(0)));
        grants.begins(false, at(0));
        assert!(!grants.is_rested(at(5_000)));
        grants.ends();
        assert!(!grants.is_rested(at(99)) && grants.is_rested(at(100)));
    }

    #[test]
    fn a_shut_gate_wakes_nobody_for_its_rate() {
        let gate = Gate::new().rate(Rate::per_second(5.0)).breaker(Breaker::new());
        let phase = Phase::Shut { until: at(5000) };
        let state = GateState { phase, ..GateState::flowing(at(0)) };
        let grants = grants(&gate, &state, at(0));
        assert_eq!((attempts(&grants, at(0)), grants.next(at(0))), (Some(0), None));
    }
}
