//! The written form of a policy: reads JSON values (and with them TOML), strictly.
//!
//! Writing is derived on the types themselves; fields at their default are left out. This is the
//! form for people. What the engine stores is versioned and lenient, and lives elsewhere.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use super::policy::*;
use super::preset;
use crate::config::{At, Problem, Problems};
use crate::{Code, Kind, Names};

impl RetryPolicy {
    /// Reads a policy from its JSON form: an object, the name of a preset, a number of attempts,
    /// or `false` for a single attempt. The policy is checked, and every problem is reported.
    ///
    /// ```
    /// use resurgam_core::retry::RetryPolicy;
    /// use serde_json::json;
    ///
    /// assert_eq!(RetryPolicy::from_value(&json!(5))?, RetryPolicy::DEFAULT.max_attempts(5));
    /// let error = RetryPolicy::from_value(&json!({"max_atempts": 3})).unwrap_err();
    /// let answer = r#"unknown field "max_atempts"; did you mean "max_attempts"?"#;
    /// assert_eq!(error.to_string(), answer);
    /// # Ok::<(), resurgam_core::config::Problems>(())
    /// ```
    pub fn from_value(value: &Value) -> Result<Self, Problems> {
        let policy = RetryPolicy::read(&At::root(value))?;
        Ok(policy.check()?.into_inner())
    }

    /// The form that is stored beside tasks: versioned, and read leniently.
    pub fn to_stored(&self) -> String {
        serde_json::to_string(&StoredPolicy { v: 1, policy: self })
            .expect("a policy holds nothing that JSON cannot")
    }

    /// Reads the stored form, also of a newer version: what it does not know, it ignores.
    ///
    /// ```
    /// use resurgam_core::retry::RetryPolicy;
    ///
    /// let stored = RetryPolicy::DEFAULT.to_stored();
    /// assert_eq!(RetryPolicy::from_stored(&stored), Ok(RetryPolicy::DEFAULT));
    /// ```
    pub fn from_stored(text: &str) -> Result<Self, Problems> {
        let unreadable =
            |error| Problem::new("", format!("the stored policy: {error}")).with_code(Code::P1);
        let value: Value = serde_json::from_str(text).map_err(unreadable)?;
        RetryPolicy::read(&At::stored(&value["policy"]))
    }

    /// Reads a policy without checking it.
    pub(crate) fn read(at: &At<'_>) -> Result<Self, Problems> {
        match at.value() {
            Value::Bool(false) => Ok(RetryPolicy::once()),
            Value::Bool(true) => Ok(RetryPolicy::DEFAULT),
            Value::Number(_) => {
                let max_attempts = limit(at)?;
                Ok(RetryPolicy { max_attempts, ..RetryPolicy::DEFAULT })
            }
            Value::String(_) => at.word(&preset::ALL),
            _ => read_object(at),
        }
    }
}

/// The stored form of a policy.
#[derive(Serialize)]
struct StoredPolicy<'a> {
    v: u32,
    policy: &'a RetryPolicy,
}

impl<'de> Deserialize<'de> for RetryPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        RetryPolicy::from_value(&value).map_err(de::Error::custom)
    }
}

fn read_object(at: &At<'_>) -> Result<RetryPolicy, Problems> {
    let mut fields = at.fields("a policy: an object, a preset's name, a number or false")?;
    let mut policy = RetryPolicy::DEFAULT;
    set(&mut policy.max_attempts, fields.read("max_attempts", limit));
    if let Some(given) = fields.read("backoff", backoff) {
        policy.backoff = given;
        policy.max_delay = None;
    }
    set(&mut policy.max_delay, fields.read("max_delay", max_delay));
    set(&mut policy.jitter, fields.read("jitter", jitter));
    set(&mut policy.cap, fields.read("cap", |at| at.word(&CAP_ORDERS)));
    set(&mut policy.max_elapsed, fields.read("max_elapsed", At::duration).map(Some));
    set(&mut policy.deadline, fields.read("deadline", |at| at.word(&DEADLINE_RULES)));
    set(&mut policy.clock_from, fields.read("clock_from", |at| at.word(&CLOCKS)));
    set(&mut policy.timeouts, fields.read("timeouts", timeouts));
    set(&mut policy.never_for, fields.read("never_for", names));
    set(&mut policy.rules, fields.read("rules", |at| at.list_of(rule)).map(Cow::Owned));
    set(&mut policy.otherwise, fields.read("otherwise", |at| at.word(&VERDICTS)));
    set(&mut policy.lost_worker, fields.read("lost_worker", lost_worker));
    set(&mut policy.server_delay, fields.read("server_delay", server_delay));
    set(&mut policy.idempotency, fields.read("idempotency", |at| at.word(&IDEMPOTENCIES)));
    set(&mut policy.on_exhausted, fields.read("on_exhausted", exhausted));
    fields.finish()?;
    Ok(policy)
}

fn set<T>(place: &mut T, given: Option<T>) {
    if let Some(value) = given {
        *place = value;
    }
}

fn limit(at: &At<'_>) -> Result<Limit, Problems> {
    if at.value() == "unlimited" {
        return Ok(Limit::Unlimited);
    }
    let attempts = at.count("a number of attempts; use 1 or more, or \"unlimited\"")?;
    let zero = "is not allowed; it counts the first attempt. Use 1 for no retries or \
        \"unlimited\".";
    Limit::try_from(attempts).or_else(|_| at.refuse(zero))
}

fn max_delay(at: &At<'_>) -> Result<Option<Duration>, Problems> {
    if at.value() == "unlimited" { Ok(None) } else { at.duration().map(Some) }
}

fn names(at: &At<'_>) -> Result<Names, Problems> {
    at.texts().map(Names::from)
}

/// The backoffs by name. The types say which fields each has; here they are read.
fn backoff(at: &At<'_>) -> Result<Backoff, Problems> {
    let mut fields = at.fields("a backoff: {\"type\": ..., ...}")?;
    let Some(kind) = fields.require("type", |at| at.word(&BACKOFFS)) else {
        return Err(fields.into_problems());
    };
    let zero = Duration::ZERO;
    let backoff = match kind {
        "fixed" => Backoff::Fixed { delay: fields.require("delay", At::duration).unwrap_or(zero) },
        "linear" => Backoff::Linear {
            initial: fields.require("initial", At::duration).unwrap_or(zero),
            increment: fields.read("increment", At::duration),
        },
        "exponential" => Backoff::Exponential {
            initial: fields.require("initial", At::duration).unwrap_or(zero),
            multiplier: fields.read("multiplier", multiplier).unwrap_or(2.0),
        },
        "polynomial" => Backoff::Polynomial {
            scale: fields.require("scale", At::duration).unwrap_or(zero),
            power: fields.require("power", |at| at.number("a finite number")).unwrap_or(1.0),
            shift: fields.read("shift", |at| at.count("a whole number")).unwrap_or(0),
            offset: fields.read("offset", At::duration).unwrap_or(zero),
        },
        "fibonacci" => {
            Backoff::Fibonacci { initial: fields.require("initial", At::duration).unwrap_or(zero) }
        }
        "schedule" => Backoff::Schedule {
            delays: fields
                .require("delays", |at| at.list_of(At::duration))
                .unwrap_or_default()
                .into(),
        },
        "phases" => Backoff::Phases {
            phases: fields.require("phases", |at| at.list_of(phase)).unwrap_or_default().into(),
        },
        _ => Backoff::None,
    };
    fields.finish()?;
    Ok(backoff)
}

fn multiplier(at: &At<'_>) -> Result<f64, Problems> {
    at.number("a finite number greater than 0")
}

fn phase(at: &At<'_>) -> Result<(u32, Backoff), Problems> {
    match at.list()?.as_slice() {
        [failures, next] => Ok((failures.count("a number of failures")?, backoff(next)?)),
        _ => at.refuse("is not a phase; write [failures, backoff]"),
    }
}

fn jitter(at: &At<'_>) -> Result<Jitter, Problems> {
    if !at.value().is_object() {
        return at.word(&JITTERS);
    }
    let mut fields = at.fields("a jitter")?;
    let number = |at: &At<'_>| at.number("a finite number");
    let share = fields.read("proportional", number).map(Jitter::Proportional);
    let extra = fields.read("additive", At::duration).map(Jitter::Additive);
    let (lo, hi) = (fields.read("lo", number), fields.read("hi", number));
    fields.finish()?;
    match (share, extra, lo, hi) {
        (Some(jitter), None, None, None) | (None, Some(jitter), None, None) => Ok(jitter),
        (None, None, Some(lo), Some(hi)) => Ok(Jitter::Range { lo, hi }),
        _ => at.refuse(
            "is not one jitter; write {\"proportional\": 0.5}, {\"lo\": 0.5, \"hi\": 1} or \
             {\"additive\": \"1s\"}",
        ),
    }
}

fn timeouts(at: &At<'_>) -> Result<Timeouts, Problems> {
    let mut fields = at.fields("an object with timeouts")?;
    let timeouts = Timeouts {
        attempt: fields.read("attempt", At::duration),
        heartbeat: fields.read("heartbeat", At::duration),
        queue: fields.read("queue", At::duration),
        total: fields.read("total", At::duration),
    };
    fields.finish()?;
    Ok(timeouts)
}

fn rule(at: &At<'_>) -> Result<Rule, Problems> {
    let mut fields = at.fields("a rule: {\"on\": {...}, \"then\": \"retry\"}")?;
    let on = fields.read("on", matcher).unwrap_or_default();
    let then = fields.read("then", |at| at.word(&VERDICTS)).unwrap_or_default();
    let rule = Rule {
        on,
        then,
        max_attempts: fields.read("max_attempts", limit),
        backoff: fields.read("backoff", backoff),
        max_delay: fields.read("max_delay", At::duration),
        jitter: fields.read("jitter", jitter),
        on_exhausted: fields.read("on_exhausted", exhausted),
    };
    fields.finish()?;
    Ok(rule)
}

fn matcher(at: &At<'_>) -> Result<Match, Problems> {
    let mut fields = at.fields("an object with types, kinds, codes or message")?;
    let on = Match {
        types: fields.read("types", names).unwrap_or_default(),
        kinds: fields.read("kinds", |at| at.list_of(kind)).unwrap_or_default().into(),
        codes: fields.read("codes", names).unwrap_or_default(),
        subclass: fields.read("subclass", At::flag).unwrap_or(true),
        message: fields.read("message", At::text).map(|text| Cow::Owned(text.to_string())),
    };
    fields.finish()?;
    Ok(on)
}

fn kind(at: &At<'_>) -> Result<Kind, Problems> {
    at.word(&Kind::ALL.map(|kind| (kind.name(), kind)))
}

fn lost_worker(at: &At<'_>) -> Result<LostWorker, Problems> {
    let mut fields = at.fields("an object with max, initial and max_delay")?;
    let default = LostWorker::DEFAULT;
    let lost_worker = LostWorker {
        max: fields.read("max", |at| at.count("a whole number")).unwrap_or(default.max),
        initial: fields.read("initial", At::duration).unwrap_or(default.initial),
        max_delay: fields.read("max_delay", At::duration).unwrap_or(default.max_delay),
    };
    fields.finish()?;
    Ok(lost_worker)
}

fn server_delay(at: &At<'_>) -> Result<ServerDelay, Problems> {
    let mut fields = at.fields("an object with mode, max and jitter")?;
    let default = ServerDelay::DEFAULT;
    let server_delay = ServerDelay {
        mode: fields.read("mode", |at| at.word(&SERVER_DELAY_MODES)).unwrap_or(default.mode),
        max: fields.read("max", At::duration).unwrap_or(default.max),
        jitter: fields.read("jitter", |at| at.number("a number")).unwrap_or(default.jitter),
    };
    fields.finish()?;
    Ok(server_delay)
}

fn exhausted(at: &At<'_>) -> Result<Exhausted, Problems> {
    if !at.value().is_object() {
        return at.word(&EXHAUSTED);
    }
    let mut fields = at.fields("an outcome")?;
    let pause = fields.read("pause", |at| {
        let mut fields = at.fields("an object with for")?;
        let wait = fields.read("for", At::duration);
        fields.finish().map(|()| Exhausted::Pause { wait })
    });
    let fallback = fields.read("fallback", fallback);
    fields.finish()?;
    match (pause, fallback) {
        (Some(outcome), None) | (None, Some(outcome)) => Ok(outcome),
        _ => at.refuse("is not one outcome; write {\"pause\": ...} or {\"fallback\": ...}"),
    }
}

fn fallback(at: &At<'_>) -> Result<Exhausted, Problems> {
    let mut fields = at.fields("an object with activity or value")?;
    let activity = fields.read("activity", At::text);
    let value = fields.get("value").map(|at| at.value().clone());
    fields.finish()?;
    match (activity, value) {
        (Some(name), None) => Ok(Exhausted::FallbackActivity(Cow::Owned(name.to_string()))),
        (None, Some(value)) => Ok(Exhausted::FallbackValue(value)),
        _ => at.refuse("needs either \"activity\" or \"value\""),
    }
}

pub(super) const BACKOFFS: [(&str, &str); 8] = [
    ("none", "none"),
    ("fixed", "fixed"),
    ("linear", "linear"),
    ("exponential", "exponential"),
    ("polynomial", "polynomial"),
    ("fibonacci", "fibonacci"),
    ("schedule", "schedule"),
    ("phases", "phases"),
];
pub(super) const JITTERS: [(&str, Jitter); 4] = [
    ("none", Jitter::None),
    ("full", Jitter::Full),
    ("equal", Jitter::Equal),
    ("decorrelated", Jitter::Decorrelated),
];
pub(super) const CAP_ORDERS: [(&str, CapOrder); 3] =
    [("truncate", CapOrder::Truncate), ("before", CapOrder::Before), ("after", CapOrder::After)];
pub(super) const DEADLINE_RULES: [(&str, DeadlineRule); 3] = [
    ("look_ahead", DeadlineRule::LookAhead),
    ("check_only", DeadlineRule::CheckOnly),
    ("clip", DeadlineRule::Clip),
];
pub(super) const CLOCKS: [(&str, ClockFrom); 2] =
    [("first_scheduled", ClockFrom::FirstScheduled), ("first_started", ClockFrom::FirstStarted)];
pub(super) const VERDICTS: [(&str, Verdict); 4] = [
    ("retry", Verdict::Retry),
    ("fail", Verdict::Fail),
    ("dead_letter", Verdict::DeadLetter),
    ("pause", Verdict::Pause),
];
pub(super) const SERVER_DELAY_MODES: [(&str, ServerDelayMode); 3] = [
    ("ignore", ServerDelayMode::Ignore),
    ("at_least", ServerDelayMode::AtLeast),
    ("exact", ServerDelayMode::Exact),
];
pub(super) const IDEMPOTENCIES: [(&str, Idempotency); 4] = [
    ("unknown", Idempotency::Unknown),
    ("idempotent", Idempotency::Idempotent),
    ("keyed", Idempotency::Keyed),
    ("at_most_once", Idempotency::AtMostOnce),
];
pub(super) const EXHAUSTED: [(&str, Exhausted); 4] = [
    ("fail", Exhausted::Fail),
    ("dead_letter", Exhausted::DeadLetter),
    ("pause", Exhausted::Pause { wait: None }),
    ("compensate", Exhausted::Compensate),
];
