//! Edda: `RetryPolicy(max_attempts=5, initial_interval=1.0, ...)`, seconds as floats.
//!
//! Readings where its document contradicts itself: the table of delays holds and not the example
//! calculation (1 s before the second attempt); `max_attempts` counts every attempt, also where
//! the text says "retry 5 times"; n attempts have n - 1 delays.

use std::time::Duration;

use serde_json::{Value, json};

use super::Losses;
use crate::config::{At, Problems};
use crate::duration::as_seconds;
use crate::retry::policy::*;
use crate::retry::preset::EDDA_DEFAULT;
use crate::{Failure, Kind, Names};

/// The error that Edda never retries.
const TERMINAL: &str = "TerminalError";

/// The classes that every Python exception descends from.
const ROOTS: [&str; 2] = ["Exception", "BaseException"];

pub(super) fn import(at: &At<'_>) -> Result<RetryPolicy, Problems> {
    let mut fields = at.fields("an object with the fields of Edda's RetryPolicy")?;
    let mut policy = EDDA_DEFAULT;
    if let Some(max) = fields.read_or_null("max_attempts", attempts) {
        policy.max_attempts = max.unwrap_or(Limit::Unlimited);
    }
    let initial = fields.read("initial_interval", At::seconds);
    let multiplier = fields.read("backoff_coefficient", coefficient);
    policy.backoff = Backoff::Exponential {
        initial: initial.unwrap_or(Duration::from_secs(1)),
        multiplier: multiplier.unwrap_or(2.0),
    };
    if let Some(max) = fields.read("max_interval", positive_seconds) {
        policy.max_delay = Some(max);
    }
    if let Some(max) = fields.read_or_null("max_duration", positive_seconds) {
        policy.max_elapsed = max;
    }
    let allowed = fields.read("retryable_error_types", At::texts);
    let denied = fields.read("non_retryable_error_types", At::texts).unwrap_or_default();
    fields.finish()?;
    set_rules(&mut policy, allowed, denied);
    Ok(policy)
}

fn attempts(at: &At<'_>) -> Result<Limit, Problems> {
    let max = at.count("a number of attempts; use 1 or more, or null for no limit")?;
    let zero = "is not allowed; it counts the first attempt. Use 1 for no retries or null.";
    Limit::try_from(max).or_else(|_| at.refuse(zero))
}

fn coefficient(at: &At<'_>) -> Result<f64, Problems> {
    let factor = at.number("a finite number greater than 0")?;
    if factor > 0.0 { Ok(factor) } else { at.refuse("is not a finite number greater than 0") }
}

fn positive_seconds(at: &At<'_>) -> Result<Duration, Problems> {
    let time = at.seconds()?;
    if time.is_zero() {
        at.refuse("leaves no time; give a number of seconds above 0")
    } else {
        Ok(time)
    }
}

/// The deny list wins over the allow list, and what is in neither fails.
fn set_rules(policy: &mut RetryPolicy, allowed: Option<Vec<String>>, denied: Vec<String>) {
    let mut rules = Vec::new();
    let everything = |types: &[String]| types.iter().any(|name| ROOTS.contains(&name.as_str()));
    let of = |types: Vec<String>| {
        if everything(&types) { Match::ALL } else { Match { types: types.into(), ..Match::ALL } }
    };
    if !denied.is_empty() {
        let catch_all = everything(&denied);
        rules.push(Rule::fail(of(denied)));
        if catch_all {
            policy.rules = rules.into();
            return;
        }
    }
    if let Some(allowed) = allowed.filter(|types| !everything(types)) {
        policy.otherwise = Verdict::Fail;
        if !allowed.is_empty() {
            rules.push(Rule::retry(of(allowed)));
        }
    }
    policy.rules = rules.into();
}

/// Python's own words: `TerminalError` says never again, and a timeout is a `TimeoutError`.
pub(super) fn failure(mut failure: Failure) -> Failure {
    if failure.has_type(TERMINAL, true) {
        failure = failure.into_terminal();
    }
    let timeout = matches!(failure.kind, Kind::Timeout | Kind::HeartbeatTimeout);
    if timeout && failure.type_name.is_none() {
        failure = failure.with_type("TimeoutError");
        failure.mro = ["TimeoutError", "OSError", "Exception"].map(str::to_string).to_vec();
    }
    failure
}

pub(super) fn export(policy: &RetryPolicy, lost: &mut Losses) -> Value {
    lost.ours_only(policy);
    lost.jitter(policy);
    lost.attempt_timeout(policy);
    lost.queue_timeout(policy);
    let (initial, coefficient) = match &policy.backoff {
        Backoff::Exponential { initial, multiplier } => (*initial, *multiplier),
        Backoff::Fixed { delay } => (*delay, 1.0),
        Backoff::None => (Duration::ZERO, 1.0),
        other => {
            lost.add("backoff: Edda's delays grow exponentially");
            (other.initial().unwrap_or_default(), 2.0)
        }
    };
    if policy.max_elapsed.is_some() {
        let late = policy.deadline != DeadlineRule::CheckOnly;
        lost.add_if(late, "deadline: Edda only checks it after a failed attempt (check_only)");
        let clock = policy.clock_from != ClockFrom::FirstStarted;
        lost.add_if(clock, "clock_from: Edda's clock starts with the first attempt");
    }
    let max_attempts = match policy.max_attempts {
        Limit::Attempts(max) => json!(max),
        Limit::Unlimited => Value::Null,
    };
    let (allowed, denied) = type_lists(policy, lost);
    json!({
        "max_attempts": max_attempts,
        "initial_interval": as_seconds(initial),
        "backoff_coefficient": coefficient,
        "max_interval": as_seconds(policy.max_delay.unwrap_or(CEILING)),
        "max_duration": policy.max_elapsed.map(as_seconds),
        "retryable_error_types": allowed,
        "non_retryable_error_types": denied,
    })
}

/// The allow and the deny list, where the rules are no more than that: first what fails, then
/// what is retried.
fn type_lists(policy: &RetryPolicy, lost: &mut Losses) -> (Vec<String>, Vec<String>) {
    let names = |names: &Names| names.iter().map(str::to_string).collect::<Vec<_>>();
    // For us a type of that name is one among others.
    let roots = |names: &Names| ROOTS.iter().any(|root| names.contains(root));
    lost.add_if(roots(&policy.never_for), "never_for: in Edda everything is an Exception");
    let mut denied = names(&policy.never_for);
    let mut allowed = Vec::new();
    for (index, rule) in policy.rules.iter().enumerate() {
        let types_only = Match { types: rule.on.types.clone(), ..Match::ALL } == rule.on
            && !roots(&rule.on.types);
        let terms = Rule { on: rule.on.clone(), then: rule.then, ..Rule::default() } == *rule;
        let everything = rule.on.is_catch_all();
        match rule.then {
            Verdict::Fail if types_only && terms && allowed.is_empty() && everything => {
                denied.push(ROOTS[0].to_string());
            }
            Verdict::Fail if types_only && terms && allowed.is_empty() => {
                denied.extend(names(&rule.on.types));
            }
            Verdict::Retry if types_only && terms && !everything => {
                allowed.extend(names(&rule.on.types));
            }
            _ => {
                lost.add(format!(
                    "rules[{index}]: Edda only lists types to retry and not to retry"
                ));
            }
        }
    }
    let everything = policy.otherwise == Verdict::Retry;
    lost.add_if(
        everything && !allowed.is_empty(),
        "rules that retry what is retried anyway have no place in Edda's lists",
    );
    let other = !matches!(policy.otherwise, Verdict::Retry | Verdict::Fail);
    lost.add_if(other, "otherwise: Edda fails what is not retried");
    (if everything { vec![ROOTS[0].to_string()] } else { allowed }, denied)
}
