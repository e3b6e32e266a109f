//! Why a gate stands as it does, in words.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::machine::{GateState, Phase, Standing};
use super::settings::{Budget, Gate};
use crate::Timestamp;
use crate::duration::Human;

/// Why a gate has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum Why {
    /// It has not.
    New,
    /// Too many calls failed.
    Failing {
        /// How many.
        failed: u64,
        /// Of how many that ended.
        ended: u64,
    },
    /// Three calls were told to leave the dependency alone.
    Told {
        /// Until when.
        until: Timestamp,
    },
    /// Its time is over.
    PeriodOver,
    /// A probe failed.
    ProbeFailed,
    /// The probes succeeded.
    ProbesSucceeded,
    /// Too many calls failed that came back.
    RampFailed {
        /// How many.
        failed: u64,
        /// Of how many that ended.
        ended: u64,
    },
    /// No call is overdue.
    NoneOverdue,
    /// One node shut it for itself, and most calls of all nodes succeed.
    WellElsewhere,
    /// Calls are overdue because nobody worked for a while.
    OwnOutage,
    /// Somebody wanted it.
    ByHand {
        /// Who.
        by: String,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The time for what somebody wanted is over.
    HandOver,
    /// Somebody wants its calls to decide again.
    Auto {
        /// Who.
        by: String,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::New => f.write_str("no trouble yet"),
            Why::Failing { failed, ended } => write!(f, "{failed} of {ended} failed"),
            Why::Told { .. } => f.write_str("three calls were told to come back later"),
            Why::PeriodOver => f.write_str("it was shut long enough"),
            Why::ProbeFailed => f.write_str("a probe failed"),
            Why::ProbesSucceeded => f.write_str("the probes succeeded"),
            Why::RampFailed { failed, ended } => {
                write!(f, "{failed} of {ended} failed while calls came back")
            }
            Why::NoneOverdue => f.write_str("no call is overdue"),
            Why::WellElsewhere => f.write_str("most calls of all nodes succeed"),
            Why::OwnOutage => f.write_str("calls are overdue because nobody worked for a while"),
            Why::ByHand { by, reason: Some(reason) } => write!(f, "{by} wants it: {reason}"),
            Why::ByHand { by, reason: None } => write!(f, "{by} wants it"),
            Why::HandOver => f.write_str("the time for what was set by hand is over"),
            Why::Auto { by } => write!(f, "{by} set it to auto"),
        }
    }
}

impl GateState {
    /// How it stands, since when, why, and what comes next: one line.
    ///
    /// ```
    /// use resurgam_core::gate::{Breaker, Gate, GateState, Seen, Tally};
    /// use resurgam_core::Timestamp;
    ///
    /// let at = |second: i64| Timestamp::from_millis(second * 1000);
    /// let gate = Gate::new().breaker(Breaker::new());
    /// let seen = Seen { ended: Tally { succeeded: 88, failed: 412 }, ..Seen::default() };
    /// let shut = GateState::flowing(at(0)).next(&gate, &seen, at(60), 0.5).unwrap();
    /// assert_eq!(shut.told_at(at(62)), "shut 2s ago: 412 of 500 failed; next probe in 3s");
    /// ```
    pub fn told_at(&self, now: Timestamp) -> String {
        let standing = self.standing();
        let since = Human(now.since(self.since));
        let mut text = match self.why {
            Why::New => standing.name().to_string(),
            _ if standing == Standing::Shut => format!("shut {since} ago: {}", self.why),
            _ => format!("{} for {since}: {}", standing.name(), self.why),
        };
        let left = |at: Timestamp| Human(at.since(now));
        let next = match (&self.by_hand, self.phase) {
            (Some(by_hand), _) => by_hand.until.map(|at| format!("for another {}", left(at))),
            (None, Phase::Shut { until }) => Some(format!("next probe in {}", left(until))),
            (None, Phase::Ramping { rate, .. }) => Some(format!("{rate:.0} each second begin")),
            (None, Phase::Flowing | Phase::Probing) => None,
        };
        if let Some(next) = next {
            text.push_str("; ");
            text.push_str(&next);
        }
        text
    }
}

impl Gate {
    /// How much may begin behind it, in words; `None` where nothing is bounded.
    ///
    /// ```
    /// use resurgam_core::gate::{Breaker, Budget, Gate, Rate};
    ///
    /// let gate = Gate::new().rate(Rate::per_second(0.5)).concurrency(8).budget(Budget::new());
    /// let told = "at most 0.5 begin each second and 8 run at once, and of retries 10 begin each \
    ///     second and 0.2 for each first attempt";
    /// assert_eq!(gate.told_bounds().as_deref(), Some(told));
    /// assert_eq!(Gate::new().breaker(Breaker::new()).told_bounds(), None);
    /// ```
    pub fn told_bounds(&self) -> Option<String> {
        let rate = self.rate.map(|rate| format!("{} begin each second", rate.per_second));
        let most = self.concurrency.map(|most| format!("{most} run at once"));
        let attempts: Vec<String> = rate.into_iter().chain(most).collect();
        let attempts =
            (!attempts.is_empty()).then(|| format!("at most {}", attempts.join(" and ")));
        let retries = self.budget.map(|Budget { ratio, min_per_second }| {
            format!(
                "of retries {min_per_second} begin each second and {ratio} for each first attempt"
            )
        });
        let told: Vec<String> = attempts.into_iter().chain(retries).collect();
        (!told.is_empty()).then(|| told.join(", and "))
    }
}

/// A gate that has changed, as a line of a log.
///
/// ```
/// use resurgam_core::gate::{ByHand, Changed, GateState};
/// use resurgam_core::Timestamp;
///
/// let now = Timestamp::EPOCH;
/// let before = GateState::flowing(now);
/// let by_hand = ByHand { shut: true, by: "ana".into(), reason: None, since: now, until: None };
/// let after = before.set_by_hand(by_hand, now);
/// let line = Changed { key: "stripe", before: &before, after: &after }.to_string();
/// assert_eq!(line, "gate stripe: flowing -> shut: ana wants it");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Changed<'a> {
    /// The key of the gate.
    pub key: &'a str,
    /// How it stood.
    pub before: &'a GateState,
    /// How it stands.
    pub after: &'a GateState,
}

impl fmt::Display for Changed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.before.standing().name(), self.after.standing().name());
        match (self.before.phase, self.after.phase) {
            (Phase::Ramping { rate: from, .. }, Phase::Ramping { rate: to, .. })
                if self.before.turn == self.after.turn =>
            {
                write!(f, "gate {}: ramping at {from:.1}/s -> {to:.1}/s", self.key)
            }
            _ => write!(f, "gate {}: {from} -> {to}: {}", self.key, self.after.why),
        }
    }
}
