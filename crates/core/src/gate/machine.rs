//! The states of a gate, and what follows what.
//!
//! | it is   | what is seen                                                    | then         |
//! |---------|-----------------------------------------------------------------|--------------|
//! | flowing | enough calls ended in the window, or in its latest part, and    | shut         |
//! |         | too many of them failed                                         |              |
//! | flowing | three calls were told to leave the dependency alone for a time  | shut         |
//! | flowing | calls are overdue because nobody worked for a while             | ramping      |
//! | shut    | its time is over                                                | probing      |
//! | probing | a probe failed                                                  | shut longer  |
//! | probing | as many as were wanted succeeded                                | ramping      |
//! | ramping | twenty or more ended, and a second or more has passed           | another rate |
//! | ramping | the rate falls below what it began with                         | shut longer  |
//! | ramping | no call is overdue, unless a fifth of twenty or more failed     | flowing      |
//! | any     | somebody shuts or opens it by hand                              | that         |
//! | by hand | the time for that is over, or somebody sets it to `auto`        | probing      |
//! |         | and it was open                                                 | flowing      |
//!
//! The rate of a ramp: ×1.2 while under 5 % fail (×1.02 above the rate before the outage), ×0.9
//! while under 20 % fail, ×0.7 otherwise.
//!
//! Each change begins a *turn*. An attempt remembers the turn in which it began, and only attempts
//! of a turn say anything about it: one that began before an outage ends in the middle of it, and
//! fails.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::outcome::Tally;
use super::settings::{Breaker, Gate};
use super::why::Why;
use crate::Timestamp;

/// After so long without trouble, the next shut is a short one again.
const CALM: Duration = Duration::from_secs(600);

/// How long what a dependency asks for can shut a gate.
const LONGEST_TOLD: Duration = Duration::from_secs(300);

/// How long a rate is kept at least before it is judged.
const JUDGED_EVERY: Duration = Duration::from_secs(1);

/// Fewer outcomes than these say nothing about a rate.
const JUDGED_BY: u64 = 20;

/// The slowest ramp, in attempts each second.
const SLOWEST: f64 = 10.0;

/// With which share of the rate before an outage a ramp begins.
const FIRST_SHARE: f64 = 0.03;

/// A rate that bounds nothing.
const FASTEST: f64 = 1e6;

/// How a gate stands, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateState {
    /// How often it has changed.
    pub turn: u64,
    /// What its calls did to it.
    pub phase: Phase,
    /// Since when.
    pub since: Timestamp,
    /// Why.
    pub why: Why,
    /// For how long it was shut last, without jitter; `None` before the first time, and after a
    /// calm time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_ms: Option<u64>,
    /// How many attempts ended each second before the outage.
    #[serde(default)]
    pub before: f64,
    /// What somebody wants of it, whatever its calls do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_hand: Option<ByHand>,
}

/// What the calls behind a gate did to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Phase {
    /// Calls begin when they are due.
    Flowing,
    /// Nothing begins.
    Shut {
        /// Until it probes.
        until: Timestamp,
    },
    /// A few calls begin, to see whether the dependency is back.
    Probing,
    /// Calls begin at a rate that grows as long as they succeed.
    Ramping {
        /// How many begin each second.
        rate: f64,
        /// With which rate it began.
        first: f64,
        /// When it was judged last.
        judged_at: Timestamp,
        /// What had ended by then.
        #[serde(default)]
        judged: Tally,
    },
}

/// How a gate stands for those who want to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Calls begin when they are due.
    Flowing,
    /// Nothing begins.
    Shut,
    /// A few begin.
    Probing,
    /// Some begin.
    Ramping,
}

impl Standing {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Standing::Flowing => "flowing",
            Standing::Shut => "shut",
            Standing::Probing => "probing",
            Standing::Ramping => "ramping",
        }
    }
}

/// What somebody wants of a gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByHand {
    /// It is shut; otherwise it is open.
    pub shut: bool,
    /// Who wants it.
    pub by: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// Until when; until somebody says otherwise, without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// What is known of the calls behind a gate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// While it flows: what ended within the window. Otherwise: what ended since this turn began,
    /// of the attempts that began in it.
    pub ended: Tally,
    /// While it flows: the worst of the latest part of the window, see
    /// [`Window::worst`](super::Window::worst).
    pub worst: Tally,
    /// While it flows: since when that ended, by the second; `None` while nothing has.
    pub since: Option<Timestamp>,
    /// How many calls should have begun a while ago; `None` while nobody knows.
    pub overdue: Option<u64>,
    /// Until when three calls at least were told to leave the dependency alone.
    pub told: Option<Timestamp>,
}

impl GateState {
    /// A gate that nobody has had trouble with.
    pub fn flowing(now: Timestamp) -> Self {
        GateState {
            turn: 0,
            phase: Phase::Flowing,
            since: now,
            why: Why::New,
            period_ms: None,
            before: 0.0,
            by_hand: None,
        }
    }

    /// How it stands for those who want to begin.
    ///
    /// ```
    /// use resurgam_core::gate::{ByHand, GateState, Standing};
    /// use resurgam_core::Timestamp;
    ///
    /// let now = Timestamp::EPOCH;
    /// let state = GateState::flowing(now);
    /// let maintenance = Some("maintenance".to_string());
    /// let by_hand =
    ///     ByHand { shut: true, by: "ana".into(), reason: maintenance, since: now, until: None };
    /// assert_eq!(state.standing(), Standing::Flowing);
    /// assert_eq!(state.set_by_hand(by_hand, now).standing(), Standing::Shut);
    /// ```
    pub fn standing(&self) -> Standing {
        match (&self.by_hand, self.phase) {
            (Some(ByHand { shut: true, .. }), _) | (None, Phase::Shut { .. }) => Standing::Shut,
            (Some(ByHand { shut: false, .. }), _) | (None, Phase::Flowing) => Standing::Flowing,
            (None, Phase::Probing) => Standing::Probing,
            (None, Phase::Ramping { .. }) => Standing::Ramping,
        }
    }

    /// Somebody shuts or opens it.
    pub fn set_by_hand(&self, by_hand: ByHand, now: Timestamp) -> GateState {
        let why = Why::ByHand { by: by_hand.by.clone(), reason: by_hand.reason.clone() };
        let mut next = self.turns(self.phase, why, now);
        next.by_hand = Some(by_hand);
        next
    }

    /// Its calls decide again: carefully, where it was shut and there is something to judge by.
    pub fn set_auto(&self, settings: &Gate, why: Why, now: Timestamp) -> GateState {
        let was_shut = self.standing() != Standing::Flowing;
        let phase = match was_shut && settings.breaker.is_some() {
            true => Phase::Probing,
            false => Phase::Flowing,
        };
        let mut next = self.turns(phase, why, now);
        next.by_hand = None;
        next
    }

    /// Calls are overdue because nobody worked for a while: they come back through a ramp, where
    /// the gate protects its dependency.
    pub fn after_own_outage(&self, settings: &Gate, now: Timestamp) -> Option<GateState> {
        let protects = settings.breaker.is_some() || settings.rate.is_some();
        let flows = self.by_hand.is_none() && self.phase == Phase::Flowing;
        (protects && flows).then(|| self.ramps(Why::OwnOutage, now))
    }

    /// A node has shut a gate for itself in this turn, by what it saw alone. By what all have seen
    /// it is as here: the turn goes on from there, so that the node follows.
    pub fn overrules(&self, turn: u64, now: Timestamp) -> GateState {
        let mut next = match self.standing() {
            Standing::Flowing => self.turns(self.phase, Why::WellElsewhere, now),
            _ => self.clone(),
        };
        next.turn = next.turn.max(turn.saturating_add(1));
        next
    }

    /// True when nothing is left of earlier trouble: it flows, and has for so long that its next
    /// shut would be a short one.
    ///
    /// ```
    /// use resurgam_core::gate::{Breaker, Gate, GateState, Seen, Tally};
    /// use resurgam_core::Timestamp;
    ///
    /// let at = |second: i64| Timestamp::from_millis(second * 1000);
    /// let (gate, new) = (Gate::new().breaker(Breaker::new()), GateState::flowing(at(0)));
    /// let seen = Seen { ended: Tally { succeeded: 0, failed: 20 }, ..Seen::default() };
    /// let shut = new.next(&gate, &seen, at(1), 0.5).unwrap();
    /// assert!(new.is_as_new(at(0)) && !shut.is_as_new(at(10_000)));
    /// ```
    pub fn is_as_new(&self, now: Timestamp) -> bool {
        let is_calm = self.turn == 0 || now.since(self.since) >= CALM;
        self.by_hand.is_none() && self.phase == Phase::Flowing && is_calm
    }

    /// When something follows although nothing ends: the end of what was wanted by hand, the next
    /// probe, or the next look at a rate.
    pub fn next_change(&self) -> Option<Timestamp> {
        match (&self.by_hand, self.phase) {
            (Some(by_hand), _) => by_hand.until,
            (None, Phase::Shut { until }) => Some(until),
            (None, Phase::Ramping { judged_at, .. }) => {
                Some(judged_at.saturating_add(JUDGED_EVERY))
            }
            (None, Phase::Flowing | Phase::Probing) => None,
        }
    }

    /// What follows from what is seen; `None` when it stays as it is. `u` is a random number from
    /// 0 to 1.
    ///
    /// ```
    /// use resurgam_core::gate::{Breaker, Gate, GateState, Seen, Standing, Tally};
    /// use resurgam_core::Timestamp;
    ///
    /// let (gate, now) = (Gate::new().breaker(Breaker::new()), Timestamp::EPOCH);
    /// let ended = Tally { succeeded: 5, failed: 15 };
    /// let seen = Seen { ended, ..Seen::default() };
    /// let shut = GateState::flowing(now).next(&gate, &seen, now, 0.5);
    /// assert_eq!(shut.unwrap().standing(), Standing::Shut);
    /// ```
    pub fn next(&self, settings: &Gate, seen: &Seen, now: Timestamp, u: f64) -> Option<GateState> {
        if let Some(by_hand) = &self.by_hand {
            let is_over = by_hand.until.is_some_and(|until| until <= now);
            return is_over.then(|| self.set_auto(settings, Why::HandOver, now));
        }
        let Some(breaker) = &settings.breaker else {
            // It ramps for its rate alone, or somebody took its breaker away.
            return match self.phase {
                Phase::Flowing => None,
                Phase::Ramping { .. } => self.ramping(None, seen, now, u),
                _ => Some(self.turns(Phase::Flowing, Why::NoneOverdue, now)),
            };
        };
        match self.phase {
            Phase::Flowing => self.flowing_next(breaker, seen, now, u),
            Phase::Shut { until } => {
                (until <= now).then(|| self.turns(Phase::Probing, Why::PeriodOver, now))
            }
            Phase::Probing if seen.ended.failed > 0 => {
                Some(self.shuts(breaker, Why::ProbeFailed, seen, now, u))
            }
            Phase::Probing => (seen.ended.succeeded >= u64::from(breaker.probes))
                .then(|| self.ramps(Why::ProbesSucceeded, now)),
            Phase::Ramping { .. } => self.ramping(Some(breaker), seen, now, u),
        }
    }

    fn flowing_next(
        &self,
        breaker: &Breaker,
        seen: &Seen,
        now: Timestamp,
        u: f64,
    ) -> Option<GateState> {
        let is_bad = |ended: &Tally| {
            let enough = ended.ended() >= u64::from(breaker.min_calls);
            enough && ended.failing() >= breaker.failure_ratio
        };
        if let Some(ended) = [seen.ended, seen.worst].into_iter().find(is_bad) {
            let Tally { failed, .. } = ended;
            let why = Why::Failing { failed, ended: ended.ended() };
            return Some(self.shuts(breaker, why, seen, now, u));
        }
        let told = seen.told.filter(|until| *until > now)?;
        let until = told.min(now.saturating_add(LONGEST_TOLD));
        Some(self.shuts(breaker, Why::Told { until }, seen, now, u))
    }

    /// Judges the rate at which calls come back. Without a breaker it does not fall below its
    /// first.
    fn ramping(
        &self,
        breaker: Option<&Breaker>,
        seen: &Seen,
        now: Timestamp,
        u: f64,
    ) -> Option<GateState> {
        let Phase::Ramping { rate, first, judged_at, judged } = self.phase else { return None };
        if now < judged_at.saturating_add(JUDGED_EVERY) {
            return None;
        }
        let lately = seen.ended.since(judged);
        let (failing, is_enough) = (lately.failing(), lately.ended() >= JUDGED_BY);
        // Where nobody waits there may never be enough to judge by: a few that fail hold nothing.
        if seen.overdue == Some(0) && !(is_enough && failing >= 0.2) {
            return Some(self.turns(Phase::Flowing, Why::NoneOverdue, now));
        }
        if !is_enough {
            return None;
        }
        let factor = match failing {
            ..0.05 if self.before > 0.0 && rate > self.before.max(first) => 1.02,
            ..0.05 => 1.2,
            ..0.2 => 0.9,
            _ => 0.7,
        };
        let rate = (rate * factor).min(FASTEST);
        if let Some(breaker) = breaker.filter(|_| rate < first) {
            let why = Why::RampFailed { failed: lately.failed, ended: lately.ended() };
            return Some(self.shuts(breaker, why, seen, now, u));
        }
        let rate = rate.max(first);
        // The same turn: attempts that began in it say something about it.
        let phase = Phase::Ramping { rate, first, judged_at: now, judged: seen.ended };
        Some(GateState { phase, ..self.clone() })
    }

    /// Shuts for the next period, and as long as it was told.
    fn shuts(&self, breaker: &Breaker, why: Why, seen: &Seen, now: Timestamp, u: f64) -> GateState {
        let is_flowing = self.phase == Phase::Flowing;
        let was_calm = is_flowing && now.since(self.since) >= CALM;
        let last = self.period_ms.filter(|_| !was_calm).map(Duration::from_millis);
        let period = last.map_or(breaker.shut, |last| last.saturating_mul(2));
        let period = period.clamp(breaker.shut, breaker.max_shut.max(breaker.shut));
        let spread = 1.0 + breaker.jitter.clamp(0.0, 1.0) * (2.0 * u.clamp(0.0, 1.0) - 1.0);
        let told = seen.told.map(|until| until.min(now.saturating_add(LONGEST_TOLD)));
        let millis = period.as_millis() as f64 * spread;
        let until = now.saturating_add(Duration::from_millis(millis as u64));
        let until = told.map_or(until, |told| told.max(until));
        let mut next = self.turns(Phase::Shut { until }, why, now);
        next.period_ms = u64::try_from(period.as_millis()).ok();
        if is_flowing {
            let lately = seen.ended.ended() as f64 / self.flowed(breaker, seen, now).as_secs_f64();
            // A gate that has just begun to flow says little about what is usual.
            let is_young = now.since(self.since) < breaker.window;
            next.before = if is_young { self.before.max(lately) } else { lately };
        }
        next
    }

    /// In how long a time ended what ended within the window: calls may have come for a part of
    /// it only.
    fn flowed(&self, breaker: &Breaker, seen: &Seen, now: Timestamp) -> Duration {
        let since = seen.since.map_or(self.since, |first| first.max(self.since));
        let shortest = Duration::from_secs(1);
        now.since(since).clamp(shortest, breaker.window.max(shortest))
    }

    fn ramps(&self, why: Why, now: Timestamp) -> GateState {
        let first = (self.before * FIRST_SHARE).max(SLOWEST);
        let judged = Tally::default();
        self.turns(Phase::Ramping { rate: first, first, judged_at: now, judged }, why, now)
    }

    fn turns(&self, phase: Phase, why: Why, now: Timestamp) -> GateState {
        let turn = self.turn.saturating_add(1);
        GateState { turn, phase, since: now, why, ..self.clone() }
    }
}
