//! What a gate is told: when it shuts, and how much may begin.

use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::config::Problems;
use crate::duration::Text;

/// The settings of a gate. Without any, calls always flow.
///
/// ```
/// use resurgam_core::gate::{Breaker, Budget, Gate, Rate};
/// use std::time::Duration;
///
/// let gate = Gate::new()
///     .breaker(Breaker::new().min_calls(50).failure_ratio(0.3))
///     .rate(Rate::per_second(100.0).burst(20))
///     .concurrency(8)
///     .budget(Budget::new());
/// assert_eq!(gate.breaker.as_ref().unwrap().shut, Duration::from_secs(5));
/// assert_eq!(gate.check(), Ok(gate.clone()));
/// assert_eq!(Gate::from_value(&serde_json::to_value(&gate)?), Ok(gate));
///
/// let never = Gate::new().breaker(Breaker::new().failure_ratio(1.5)).check().unwrap_err();
/// let answer = "breaker.failure_ratio: 1.5 is not a share of calls; write a number above 0 and \
///     up to 1, such as 0.5";
/// assert_eq!(never.to_string(), answer);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Gate {
    /// When the gate shuts by itself; never, without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<Breaker>,
    /// How many attempts begin in a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How many attempts run at once, on all nodes together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many retries begin, compared with first attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
}

/// When a gate shuts by itself, and for how long.
///
/// ```
/// use resurgam_core::gate::Breaker;
/// use std::time::Duration;
///
/// let patient = Breaker::new().window(Duration::from_secs(60)).probes(1);
/// assert_eq!((patient.min_calls, patient.failure_ratio), (20, 0.5));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Breaker {
    /// The time whose attempts are judged, together and its latest seconds alone.
    #[serde(serialize_with = "text")]
    pub window: Duration,
    /// Fewer attempts than these say nothing.
    pub min_calls: u32,
    /// The gate shuts when this share of them failed.
    pub failure_ratio: f64,
    /// How many calls probe the dependency, and have to succeed.
    pub probes: u32,
    /// For how long the gate shuts at first. Twice as long each time after that.
    #[serde(serialize_with = "text")]
    pub shut: Duration,
    /// For how long it shuts at most.
    #[serde(serialize_with = "text")]
    pub max_shut: Duration,
    /// By which share these times are longer or shorter, at random.
    pub jitter: f64,
}

/// How many attempts begin in a time.
///
/// ```
/// use resurgam_core::gate::Rate;
///
/// assert_eq!(Rate::per_second(50.0).burst, 5);
/// assert_eq!(Rate::per_second(0.5).burst(3), Rate { per_second: 0.5, burst: 3 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// How many each second, in the long run.
    pub per_second: f64,
    /// How many at once after a quiet time.
    pub burst: u32,
}

/// How many retries begin, compared with first attempts.
///
/// ```
/// use resurgam_core::gate::Budget;
///
/// assert_eq!(Budget::new().ratio(0.1), Budget { ratio: 0.1, min_per_second: 10.0 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Budget {
    /// Retries for each first attempt.
    pub ratio: f64,
    /// Retries each second that begin in any case.
    pub min_per_second: f64,
}

impl Gate {
    /// No settings: calls flow.
    pub fn new() -> Self {
        Gate::default()
    }

    /// Shuts the gate while calls behind it fail.
    pub fn breaker(self, breaker: Breaker) -> Self {
        Gate { breaker: Some(breaker), ..self }
    }

    /// Bounds how many attempts begin in a time.
    pub fn rate(self, rate: Rate) -> Self {
        Gate { rate: Some(rate), ..self }
    }

    /// Bounds how many attempts run at once, on all nodes together.
    pub fn concurrency(self, most: u32) -> Self {
        Gate { concurrency: Some(most), ..self }
    }

    /// Bounds how many retries begin, compared with first attempts.
    pub fn budget(self, budget: Budget) -> Self {
        Gate { budget: Some(budget), ..self }
    }

    /// The settings, if they can work. The error has everything that is wrong with them.
    pub fn check(&self) -> Result<Gate, Problems> {
        let value = serde_json::to_value(self).unwrap_or(Value::Null);
        Gate::from_value(&value)
    }

    /// Fewer attempts than these say nothing about it.
    pub(super) fn least(&self) -> u64 {
        self.breaker.as_ref().map_or(1, |breaker| u64::from(breaker.min_calls))
    }

    /// True when it bounds how much begins while calls flow.
    pub fn has_limits(&self) -> bool {
        self.rate.is_some() || self.concurrency.is_some() || self.budget.is_some()
    }
}

impl Breaker {
    /// Ten seconds, twenty calls, half of them; three probes; 5 to 30 seconds, ±20 %.
    pub fn new() -> Self {
        Breaker {
            window: Duration::from_secs(10),
            min_calls: 20,
            failure_ratio: 0.5,
            probes: 3,
            shut: Duration::from_secs(5),
            max_shut: Duration::from_secs(30),
            jitter: 0.2,
        }
    }

    /// The time whose attempts are judged.
    pub fn window(self, window: Duration) -> Self {
        Breaker { window, ..self }
    }

    /// Fewer attempts than these say nothing.
    pub fn min_calls(self, min_calls: u32) -> Self {
        Breaker { min_calls, ..self }
    }

    /// The gate shuts when this share of them failed.
    pub fn failure_ratio(self, failure_ratio: f64) -> Self {
        Breaker { failure_ratio, ..self }
    }

    /// How many calls probe the dependency.
    pub fn probes(self, probes: u32) -> Self {
        Breaker { probes, ..self }
    }

    /// For how long the gate shuts at first, and at most.
    pub fn shut(self, shut: Duration, max_shut: Duration) -> Self {
        Breaker { shut, max_shut, ..self }
    }

    /// By which share these times are longer or shorter.
    pub fn jitter(self, jitter: f64) -> Self {
        Breaker { jitter, ..self }
    }
}

impl Default for Breaker {
    fn default() -> Self {
        Breaker::new()
    }
}

impl Rate {
    /// So many each second, a tenth of them at once.
    pub fn per_second(per_second: f64) -> Self {
        Rate { per_second, burst: Rate::usual_burst(per_second) }
    }

    /// How many at once after a quiet time.
    pub fn burst(self, burst: u32) -> Self {
        Rate { burst, ..self }
    }

    /// What may begin at once unless somebody says how much: what begins in a tenth of a second.
    pub(super) fn usual_burst(per_second: f64) -> u32 {
        // A number that is none, or far too large, saturates.
        ((per_second / 10.0).ceil() as u32).max(1)
    }
}

impl Budget {
    /// A retry for five first attempts, and ten each second in any case.
    pub fn new() -> Self {
        Budget { ratio: 0.2, min_per_second: 10.0 }
    }

    /// Retries for each first attempt.
    pub fn ratio(self, ratio: f64) -> Self {
        Budget { ratio, ..self }
    }

    /// Retries each second that begin in any case.
    pub fn min_per_second(self, min_per_second: f64) -> Self {
        Budget { min_per_second, ..self }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Budget::new()
    }
}

fn text<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Text(*time))
}
