//! The written form of a gate's settings: reads JSON values (and with them TOML), strictly.
//!
//! `true` stands for a part at its defaults, and a number for a rate.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use super::settings::{Breaker, Budget, Gate, Rate};
use crate::config::{At, Problems};

/// The longest window: counts of each second of it are in memory.
const LONGEST_WINDOW: Duration = Duration::from_secs(600);

/// The shortest time for which a gate shuts, and the longest.
const SHUT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(86_400));

/// The most that anybody may want to begin in a second.
const MOST: f64 = 1e6;

impl Gate {
    /// Reads settings from their JSON form. Every problem is reported.
    ///
    /// ```
    /// use resurgam_core::gate::{Breaker, Gate, Rate};
    /// use serde_json::json;
    ///
    /// let gate = Gate::new().breaker(Breaker::new()).rate(Rate::per_second(20.0));
    /// assert_eq!(Gate::from_value(&json!({"breaker": true, "rate": 20})), Ok(gate));
    ///
    /// let error = Gate::from_value(&json!({"braker": true})).unwrap_err();
    /// assert_eq!(error.to_string(), r#"unknown field "braker"; did you mean "breaker"?"#);
    /// ```
    pub fn from_value(value: &Value) -> Result<Gate, Problems> {
        read(&At::root(value))
    }

    /// Reads what was stored, also by a newer version: what it does not know, it ignores.
    pub fn from_stored(value: &Value) -> Result<Gate, Problems> {
        read(&At::stored(value))
    }
}

impl<'de> Deserialize<'de> for Gate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Gate::from_value(&value).map_err(de::Error::custom)
    }
}

fn read(at: &At<'_>) -> Result<Gate, Problems> {
    let mut fields = at.fields("the settings of a gate: {\"breaker\": ..., \"rate\": ...}")?;
    let gate = Gate {
        breaker: fields.read("breaker", breaker),
        rate: fields.read("rate", rate),
        concurrency: fields.read("concurrency", |at| above_zero(at, "a number of attempts")),
        budget: fields.read("budget", budget),
    };
    fields.finish()?;
    Ok(gate)
}

fn breaker(at: &At<'_>) -> Result<Breaker, Problems> {
    let usual = Breaker::new();
    if at.value() == true {
        return Ok(usual);
    }
    let mut fields = at.fields("a breaker: true, or an object")?;
    let window = fields.read("window", |at| within(at, Duration::from_secs(1), LONGEST_WINDOW));
    let min_calls = fields.read("min_calls", |at| above_zero(at, "a number of attempts"));
    let failure_ratio = fields.read("failure_ratio", ratio_of_failures);
    let probes = fields.read("probes", |at| above_zero(at, "a number of probes"));
    let shut = fields.read("shut", |at| within(at, SHUT.0, SHUT.1));
    let shut = shut.unwrap_or(usual.shut);
    let max_shut = fields.read("max_shut", |at| {
        let time = within(at, SHUT.0, SHUT.1)?;
        if time < shut {
            at.refuse("is shorter than \"shut\", the time at first")
        } else {
            Ok(time)
        }
    });
    let jitter = fields.read("jitter", |at| {
        let share = at.number("a share of a time, from 0 to 1")?;
        if (0.0..=1.0).contains(&share) {
            return Ok(share);
        }
        at.refuse("is not a share of a time; write a number from 0 to 1, such as 0.2")
    });
    fields.finish()?;
    Ok(Breaker {
        window: window.unwrap_or(usual.window),
        min_calls: min_calls.unwrap_or(usual.min_calls),
        failure_ratio: failure_ratio.unwrap_or(usual.failure_ratio),
        probes: probes.unwrap_or(usual.probes),
        shut,
        max_shut: max_shut.unwrap_or(usual.max_shut.max(shut)),
        jitter: jitter.unwrap_or(usual.jitter),
    })
}

fn ratio_of_failures(at: &At<'_>) -> Result<f64, Problems> {
    let wanted = "a share of calls; write a number above 0 and up to 1, such as 0.5";
    let ratio = at.number(wanted)?;
    if ratio > 0.0 && ratio <= 1.0 { Ok(ratio) } else { at.refuse(format!("is not {wanted}")) }
}

fn rate(at: &At<'_>) -> Result<Rate, Problems> {
    if at.value().is_number() {
        return per_second(at).map(Rate::per_second);
    }
    let mut fields = at.fields("a rate: a number of attempts each second, or an object")?;
    let number = fields.require("per_second", per_second);
    let burst = fields.read("burst", |at| above_zero(at, "a number of attempts"));
    fields.finish()?;
    let number = number.unwrap_or(MOST);
    Ok(Rate { per_second: number, burst: burst.unwrap_or(Rate::usual_burst(number)) })
}

fn per_second(at: &At<'_>) -> Result<f64, Problems> {
    let wanted = "a number of attempts each second";
    let number = at.number(wanted)?;
    if number > 0.0 && number <= MOST {
        return Ok(number);
    }
    at.refuse(format!(
        "is not {wanted} that can be kept; write a number above 0 and up to a million"
    ))
}

fn budget(at: &At<'_>) -> Result<Budget, Problems> {
    let usual = Budget::new();
    if at.value() == true {
        return Ok(usual);
    }
    let mut fields = at.fields("a budget: true, or an object")?;
    let ratio = fields.read("ratio", |at| from_zero(at, "a number of retries for each call"));
    let least = fields.read("min_per_second", |at| from_zero(at, "a number of retries"));
    fields.finish()?;
    Ok(Budget {
        ratio: ratio.unwrap_or(usual.ratio),
        min_per_second: least.unwrap_or(usual.min_per_second),
    })
}

fn from_zero(at: &At<'_>, what: &str) -> Result<f64, Problems> {
    let number = at.number(what)?;
    if (0.0..=MOST).contains(&number) {
        return Ok(number);
    }
    at.refuse(format!("is not {what}; write a number from 0 to a million"))
}

fn above_zero(at: &At<'_>, what: &str) -> Result<u32, Problems> {
    let wanted = format!("{what}; use 1 or more");
    let number = at.count(&wanted)?;
    if number > 0 { Ok(number) } else { at.refuse(format!("is not {wanted}")) }
}

fn within(at: &At<'_>, least: Duration, most: Duration) -> Result<Duration, Problems> {
    use crate::duration::Text;

    let time = at.duration()?;
    if (least..=most).contains(&time) {
        return Ok(time);
    }
    at.refuse(format!("is not from {} to {}", Text(least), Text(most)))
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;
    use serde_json::json;

    use super::*;

    fn problem(value: Value) -> String {
        Gate::from_value(&value).unwrap_err().to_string()
    }

    #[test]
    fn what_is_at_its_default_need_not_be_written() {
        let whole = json!({
            "breaker": {"window": "10s", "min_calls": 20, "failure_ratio": 0.5, "probes": 3,
                "shut": "5s", "max_shut": "30s", "jitter": 0.2},
            "rate": {"per_second": 20.0, "burst": 2},
            "budget": {"ratio": 0.2, "min_per_second": 10.0},
        });
        let short = json!({"breaker": true, "rate": 20, "budget": true});
        let gate = Gate::from_value(&short).unwrap();
        assert_eq!(Gate::from_value(&whole), Ok(gate.clone()));
        assert_eq!(serde_json::to_value(&gate).unwrap(), whole);
        assert_eq!(
            Gate::from_value(&json!({"breaker": {}})),
            Ok(Gate::new().breaker(Breaker::new()))
        );
    }

    #[test]
    fn every_problem_says_what_is_wrong_and_what_to_write() {
        let cases = [
            (json!(5), "5 is not the settings of a gate: {\"breaker\": ..., \"rate\": ...}"),
            (
                json!({"rate": 0}),
                "rate: 0 is not a number of attempts each second that can be kept; \
                write a number above 0 and up to a million",
            ),
            (json!({"rate": {}}), "rate.per_second: missing, and required"),
            (
                json!({"concurrency": 0}),
                "concurrency: 0 is not a number of attempts; use 1 or more",
            ),
            (
                json!({"breaker": {"shut": "10s", "max_shut": "5s"}}),
                "breaker.max_shut: \"5s\" is shorter than \"shut\", the time at first",
            ),
            (json!({"breaker": {"window": "1h"}}), "breaker.window: \"1h\" is not from 1s to 10m"),
            (
                json!({"breaker": {"window": 10}}),
                "breaker.window: 10 has no unit; write \"10s\" or \"10ms\"",
            ),
            (
                json!({"breaker": {"jitter": 2}}),
                "breaker.jitter: 2 is not a share of a time; write a number from 0 to 1, such as 0.2",
            ),
            (
                json!({"budget": {"ratio": -1}}),
                "budget.ratio: -1 is not a number of retries for each call; write a number from 0 \
                 to a million",
            ),
        ];
        for (value, message) in cases {
            assert_eq!(problem(value), message);
        }
        let both = problem(json!({"rate": 0, "concurrency": 0}));
        assert!(both.contains("rate: 0") && both.contains("concurrency: 0"), "{both}");
    }

    #[test]
    fn numbers_that_json_cannot_write_are_refused() {
        let gate = Gate::new().rate(Rate { per_second: f64::NAN, burst: 1 });
        let message = gate.check().unwrap_err().to_string();
        assert_eq!(message, "rate.per_second: null is not a number of attempts each second");
    }

    #[test]
    fn a_stored_form_of_a_newer_version_is_read() {
        let newer = json!({"breaker": {"min_calls": 5, "slow_calls": 3}, "colour": "red"});
        let known = Gate::new().breaker(Breaker::new().min_calls(5));
        assert_eq!(Gate::from_stored(&newer), Ok(known));
    }
}
