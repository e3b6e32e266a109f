//! Duroxide: `RetryPolicy { max_attempts, backoff, timeout }`, here in milliseconds.
//!
//! Readings: `max_attempts` 0 is refused (its plan leaves open whether to panic or to clamp); the
//! linear backoff is capped although the comment on the type does not say so; a timeout belongs
//! to one attempt and ends the call, and is not the "total timeout" of its test plan.

use std::time::Duration;

use serde_json::{Value, json};

use super::Losses;
use crate::Kind;
use crate::config::{At, Problems};
use crate::retry::policy::*;

/// The cap of a backoff that names none.
const MAX: Duration = Duration::from_secs(30);

/// An attempt that timed out is not tried again.
const TIMEOUT_IS_FINAL: &[Rule] = &[Rule::fail(Match::kinds(&[Kind::Timeout]))];

pub(super) fn import(at: &At<'_>) -> Result<RetryPolicy, Problems> {
    let mut fields = at.fields("an object with the fields of Duroxide's RetryPolicy")?;
    let max_attempts = fields.read("max_attempts", |at| {
        let max = at.count("a number of attempts; use 1 or more")?;
        let zero = "is not allowed; it counts the first attempt. Use 1 for no retries.";
        Limit::try_from(max).or_else(|_| at.refuse(zero))
    });
    let default = (Backoff::exponential(Duration::from_millis(100)), Some(MAX));
    let (backoff, max_delay) = fields.read("backoff", strategy).unwrap_or(default);
    let timeout = fields.read_or_null("timeout_ms", |at| {
        let timeout = at.millis()?;
        if timeout.is_zero() {
            at.refuse("leaves no time; leave it out or give 1 or more")
        } else {
            Ok(timeout)
        }
    });
    fields.finish()?;
    let mut policy = RetryPolicy::with_backoff(backoff)
        .max_attempts(3)
        .jitter(Jitter::None)
        .rules(TIMEOUT_IS_FINAL);
    policy.max_attempts = max_attempts.unwrap_or(policy.max_attempts);
    policy.max_delay = max_delay;
    policy.timeouts.attempt = timeout.flatten();
    Ok(policy)
}

const STRATEGIES: [(&str, &str); 4] =
    [("None", "None"), ("Fixed", "Fixed"), ("Linear", "Linear"), ("Exponential", "Exponential")];

fn strategy(at: &At<'_>) -> Result<(Backoff, Option<Duration>), Problems> {
    let mut fields = at.fields("a backoff: {\"type\": \"Exponential\", ...}")?;
    let Some(kind) = fields.require("type", |at| at.word(&STRATEGIES)) else {
        return Err(fields.into_problems());
    };
    let result = match kind {
        "Fixed" => {
            let delay = fields.require("delay_ms", At::millis).unwrap_or_default();
            (Backoff::Fixed { delay }, None)
        }
        "Linear" => {
            let initial = fields.require("base_ms", At::millis).unwrap_or_default();
            (Backoff::Linear { initial, increment: None }, max(&mut fields))
        }
        "Exponential" => {
            let base = fields.read("base_ms", At::millis);
            let initial = base.unwrap_or(Duration::from_millis(100));
            let multiplier = fields.read("multiplier", multiplier).unwrap_or(2.0);
            (Backoff::Exponential { initial, multiplier }, max(&mut fields))
        }
        _ => (Backoff::None, None),
    };
    fields.finish()?;
    Ok(result)
}

fn max(fields: &mut crate::config::Fields<'_>) -> Option<Duration> {
    let max = fields.read("max_ms", |at| {
        let max = at.millis()?;
        if max.is_zero() {
            at.refuse("makes every delay nothing; use the type None")
        } else {
            Ok(max)
        }
    });
    Some(max.unwrap_or(MAX))
}

fn multiplier(at: &At<'_>) -> Result<f64, Problems> {
    let factor = at.number("a finite number greater than 0")?;
    if factor > 0.0 { Ok(factor) } else { at.refuse("is not a finite number greater than 0") }
}

pub(super) fn export(policy: &RetryPolicy, lost: &mut Losses) -> Value {
    lost.ours_only(policy);
    lost.jitter(policy);
    lost.max_elapsed(policy);
    lost.queue_timeout(policy);
    if policy.rules.as_ref() == TIMEOUT_IS_FINAL {
        let bare = RetryPolicy { rules: (&[]).into(), ..policy.clone() };
        lost.rules(&bare);
    } else {
        lost.rules(policy);
        let timeouts = policy.timeouts.attempt.is_some();
        lost.add_if(
            timeouts,
            "timeouts.attempt: Duroxide does not retry an attempt that timed out",
        );
    }
    let max_attempts = match policy.max_attempts {
        Limit::Attempts(max) => max.get(),
        Limit::Unlimited => {
            lost.add("max_attempts: Duroxide always has a limit");
            u32::MAX
        }
    };
    let mut config = json!({ "max_attempts": max_attempts, "backoff": backoff(policy, lost) });
    if let Some(timeout) = policy.timeouts.attempt {
        config["timeout_ms"] = json!(millis(timeout, "timeouts.attempt", lost));
    }
    config
}

fn backoff(policy: &RetryPolicy, lost: &mut Losses) -> Value {
    let max = |lost: &mut Losses| millis(policy.max_delay.unwrap_or(CEILING), "max_delay", lost);
    match &policy.backoff {
        Backoff::None => json!({ "type": "None" }),
        Backoff::Fixed { delay } => {
            let delay = policy.max_delay.map_or(*delay, |max| max.min(*delay));
            json!({ "type": "Fixed", "delay_ms": millis(delay, "backoff.delay", lost) })
        }
        Backoff::Linear { initial, increment } => {
            let other = increment.is_some_and(|increment| increment != *initial);
            lost.add_if(other, "backoff.increment: Duroxide adds the base each time");
            let base = millis(*initial, "backoff.initial", lost);
            json!({ "type": "Linear", "base_ms": base, "max_ms": max(lost) })
        }
        Backoff::Exponential { initial, multiplier } => {
            let base = millis(*initial, "backoff.initial", lost);
            json!({
                "type": "Exponential", "base_ms": base, "multiplier": multiplier,
                "max_ms": max(lost),
            })
        }
        other => {
            lost.add("backoff: Duroxide knows none, fixed, linear and exponential");
            let base = millis(other.initial().unwrap_or_default(), "backoff.initial", lost);
            json!({
                "type": "Exponential", "base_ms": base, "multiplier": 2.0, "max_ms": max(lost),
            })
        }
    }
}

/// Whole milliseconds; a fraction is lost and said so, but some time does not become none.
pub(super) fn millis(time: Duration, path: &str, lost: &mut Losses) -> u64 {
    lost.add_if(
        !time.subsec_nanos().is_multiple_of(1_000_000),
        format!("{path}: fractions of a millisecond"),
    );
    let least = u64::from(!time.is_zero());
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(least)
}
