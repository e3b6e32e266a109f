//! Exosphere: the `retry_policy` of a graph template, in whole milliseconds.
//!
//! Readings: `max_retries` counts retries, so there is one attempt more; the cap is applied after
//! the jitter, as its document says, although draws then pile up at the cap (lint W6 tells);
//! `exponent` is accepted and ignored for linear and fixed strategies; equal jitter on an odd
//! delay starts at the half rounded down.

use std::time::Duration;

use serde_json::{Value, json};

use super::Losses;
use super::duroxide::millis;
use crate::config::{At, Problems};
use crate::retry::policy::*;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Growth {
    Exponential,
    Linear,
    Fixed,
}

const STRATEGIES: [(&str, (Growth, Jitter)); 9] = [
    ("EXPONENTIAL", (Growth::Exponential, Jitter::None)),
    ("EXPONENTIAL_FULL_JITTER", (Growth::Exponential, Jitter::Full)),
    ("EXPONENTIAL_EQUAL_JITTER", (Growth::Exponential, Jitter::Equal)),
    ("LINEAR", (Growth::Linear, Jitter::None)),
    ("LINEAR_FULL_JITTER", (Growth::Linear, Jitter::Full)),
    ("LINEAR_EQUAL_JITTER", (Growth::Linear, Jitter::Equal)),
    ("FIXED", (Growth::Fixed, Jitter::None)),
    ("FIXED_FULL_JITTER", (Growth::Fixed, Jitter::Full)),
    ("FIXED_EQUAL_JITTER", (Growth::Fixed, Jitter::Equal)),
];

pub(super) fn import(at: &At<'_>, notes: &mut Vec<String>) -> Result<RetryPolicy, Problems> {
    let mut fields = at.fields("an object with the fields of Exosphere's retry_policy")?;
    let max_attempts = fields.read("max_retries", |at| {
        let retries = at.count("a number of retries; use 0 or more")?;
        let attempts = retries.checked_add(1).and_then(|attempts| Limit::try_from(attempts).ok());
        attempts.map_or_else(|| at.refuse("is too large; use at most 4294967294"), Ok)
    });
    let strategy = fields.read("strategy", |at| at.word(&STRATEGIES));
    let factor = fields.read("backoff_factor", positive);
    let exponent = fields.read("exponent", |at| {
        let exponent = at.count("a whole number above 0")?;
        if exponent == 0 { at.refuse("is not a whole number above 0") } else { Ok(exponent) }
    });
    let max_delay = fields.read_or_null("max_delay", positive);
    fields.finish()?;

    let (growth, jitter) = strategy.unwrap_or((Growth::Exponential, Jitter::None));
    let initial = factor.unwrap_or(Duration::from_secs(2));
    let backoff = match growth {
        Growth::Exponential => {
            Backoff::Exponential { initial, multiplier: f64::from(exponent.unwrap_or(2)) }
        }
        Growth::Linear => Backoff::Linear { initial, increment: None },
        Growth::Fixed => Backoff::Fixed { delay: initial },
    };
    if let Some(exponent) = exponent.filter(|_| growth != Growth::Exponential) {
        notes.push(format!(
            "exponent: {exponent} has no effect; only EXPONENTIAL strategies use it"
        ));
    }
    let mut policy = RetryPolicy::with_backoff(backoff).max_attempts(4).jitter(jitter);
    policy.max_attempts = max_attempts.unwrap_or(policy.max_attempts);
    policy.max_delay = max_delay.flatten();
    if jitter != Jitter::None {
        policy.cap = CapOrder::After;
    }
    Ok(policy)
}

fn positive(at: &At<'_>) -> Result<Duration, Problems> {
    let time = at.millis()?;
    if time.is_zero() { at.refuse("is not a number of milliseconds above 0") } else { Ok(time) }
}

pub(super) fn export(policy: &RetryPolicy, lost: &mut Losses) -> Value {
    lost.ours_only(policy);
    lost.max_elapsed(policy);
    lost.attempt_timeout(policy);
    lost.queue_timeout(policy);
    lost.rules(policy);
    let max_retries = match policy.max_attempts {
        Limit::Attempts(max) => max.get() - 1,
        Limit::Unlimited => {
            lost.add("max_attempts: Exosphere always has a limit");
            u32::MAX - 1
        }
    };
    let (growth, factor, exponent) = growth(&policy.backoff, lost);
    let jitter = jitter(policy, lost);
    let named = STRATEGIES.iter().find(|(_, strategy)| *strategy == (growth, jitter));
    let mut config = json!({
        "max_retries": max_retries,
        "strategy": named.map_or("EXPONENTIAL", |(name, _)| *name),
        "backoff_factor": millis(factor, "backoff.initial", lost).max(1),
        "max_delay": policy.max_delay.map(|max| millis(max, "max_delay", lost)),
    });
    if growth == Growth::Exponential {
        config["exponent"] = json!(exponent);
    }
    config
}

fn growth(backoff: &Backoff, lost: &mut Losses) -> (Growth, Duration, u32) {
    let zero = "backoff: Exosphere always waits at least 1 ms";
    match backoff {
        Backoff::Exponential { initial, multiplier } => {
            lost.add_if(initial.is_zero(), zero);
            let largest = f64::from(u32::MAX);
            let whole = (1.0..=largest).contains(multiplier) && multiplier.fract() == 0.0;
            lost.add_if(!whole, "backoff.multiplier: Exosphere's exponent is a whole number");
            (Growth::Exponential, *initial, multiplier.clamp(1.0, largest) as u32)
        }
        Backoff::Linear { initial, increment } => {
            lost.add_if(initial.is_zero(), zero);
            let other = increment.is_some_and(|increment| increment != *initial);
            lost.add_if(other, "backoff.increment: Exosphere adds the factor each time");
            (Growth::Linear, *initial, 2)
        }
        Backoff::Fixed { delay } => {
            lost.add_if(delay.is_zero(), zero);
            (Growth::Fixed, *delay, 2)
        }
        Backoff::None => {
            lost.add(zero);
            (Growth::Fixed, Duration::ZERO, 2)
        }
        other => {
            lost.add("backoff: Exosphere knows exponential, linear and fixed");
            (Growth::Exponential, other.initial().unwrap_or_default(), 2)
        }
    }
}

fn jitter(policy: &RetryPolicy, lost: &mut Losses) -> Jitter {
    let jitter = policy.jitter;
    let order =
        jitter != Jitter::None && policy.max_delay.is_some() && policy.cap != CapOrder::After;
    lost.add_if(order, "cap: Exosphere caps after the jitter, so draws pile up at max_delay");
    match jitter {
        Jitter::None | Jitter::Full | Jitter::Equal => jitter,
        _ => {
            lost.add("jitter: Exosphere knows none, full and equal");
            Jitter::Equal
        }
    }
}
