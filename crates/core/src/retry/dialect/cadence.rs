//! Cadence: `RetryPolicy{InitialInterval: ..., ...}`, here in seconds (fractions allowed).
//!
//! Readings: a missing `MaximumInterval` is 100 times the first interval everywhere, not only in
//! the client; `MaximumAttempts` counts every attempt (a local activity of Cadence makes one
//! more); the expiration looks ahead. As in Go, a field that is 0 was not given. Whole seconds
//! are Cadence's limit, not ours. An activity may wait in its queue until the policy expires.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Value, json};

use super::Losses;
use crate::config::{At, Problem, Problems};
use crate::duration::{LONGEST, as_seconds};
use crate::retry::policy::*;
use crate::{Kind, Names};

/// Reasons that Cadence makes up itself, and what they are here. The empty type is a failure
/// without a type.
const KINDS: [(&str, Kind); 5] = [
    ("cadenceInternal:Panic", Kind::Panic),
    ("cadenceInternal:Timeout START_TO_CLOSE", Kind::Timeout),
    ("cadenceInternal:Timeout HEARTBEAT", Kind::HeartbeatTimeout),
    ("cadenceInternal:Timeout SCHEDULE_TO_START", Kind::QueueTimeout),
    ("cadenceInternal:Timeout SCHEDULE_TO_CLOSE", Kind::TotalTimeout),
];
const GENERIC: &str = "cadenceInternal:Generic";

pub(super) fn import(at: &At<'_>) -> Result<RetryPolicy, Problems> {
    let mut fields = at.fields("an object with the fields of Cadence's RetryPolicy")?;
    let initial = fields.require("InitialInterval", |at| {
        let initial = at.seconds()?;
        if initial.is_zero() {
            at.refuse("must be above 0; it has no default")
        } else {
            Ok(initial)
        }
    });
    let coefficient = fields.read("BackoffCoefficient", |at| {
        let factor = at.number("a number of 1 or more")?;
        if factor == 0.0 || factor >= 1.0 { Ok(factor) } else { at.refuse("is below 1") }
    });
    let maximum = fields.read("MaximumInterval", |at| {
        let maximum = at.seconds()?;
        match initial {
            Some(initial) if !maximum.is_zero() && maximum < initial => {
                at.refuse("is below InitialInterval")
            }
            _ => Ok(maximum),
        }
    });
    let expiration = fields.read("ExpirationInterval", At::seconds).filter(|max| !max.is_zero());
    let attempts = fields.read("MaximumAttempts", |at| {
        let max = at.count("a number of attempts; use 0 for no limit")?;
        i32::try_from(max).map(|_| max).or_else(|_| at.refuse("is above 2147483647"))
    });
    let reasons = fields.read("NonRetriableErrorReasons", At::texts).unwrap_or_default();
    // A bound that was given and refused has its own problem.
    let mut unset = |name| fields.get(name).is_none_or(|at| at.value().as_f64() == Some(0.0));
    if unset("MaximumAttempts") && unset("ExpirationInterval") {
        let message = "MaximumAttempts and ExpirationInterval are both unset; set at least one";
        fields.report(Problem::new("MaximumAttempts", message));
    }
    fields.finish()?;

    let initial = initial.unwrap_or_default();
    let multiplier = coefficient.filter(|factor| *factor != 0.0).unwrap_or(2.0);
    let maximum = maximum.filter(|max| !max.is_zero());
    let mut policy = RetryPolicy::with_backoff(Backoff::Exponential { initial, multiplier })
        .jitter(Jitter::None)
        .max_delay(maximum.unwrap_or_else(|| default_maximum(initial)));
    policy.max_attempts = Limit::try_from(attempts.unwrap_or(0)).unwrap_or(Limit::Unlimited);
    policy.max_elapsed = expiration;
    policy.timeouts.queue = expiration;
    policy.rules = rules(reasons).into();
    Ok(policy)
}

fn default_maximum(initial: Duration) -> Duration {
    initial.saturating_mul(100).min(LONGEST)
}

/// One rule for each stretch of reasons that one rule can hold, so that their order survives.
fn rules(reasons: Vec<String>) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for reason in reasons {
        let internal = KINDS.iter().find(|(name, _)| *name == reason).map(|(_, kind)| *kind);
        let generic = reason == GENERIC;
        let last = rules.last_mut().map(|rule| &mut rule.on);
        match (internal, last) {
            (Some(kind), Some(on)) if on.types.is_empty() => on.kinds.to_mut().push(kind),
            (Some(kind), _) => {
                let kinds = Cow::Owned(vec![kind]);
                rules.push(Rule::fail(Match { kinds, ..Match::ALL }));
            }
            (None, Some(on)) if !generic && on.kinds.is_empty() => {
                let mut names: Vec<String> = on.types.iter().map(str::to_string).collect();
                names.push(reason);
                on.types = names.into();
            }
            (None, _) if generic => rules.push(Rule::fail(generic_error())),
            (None, _) => {
                let types = Names::from(vec![reason]);
                rules.push(Rule::fail(Match { types, subclass: false, ..Match::ALL }));
            }
        }
    }
    rules
}

/// An error without a type.
fn generic_error() -> Match {
    Match {
        types: Names::Static(&[""]),
        kinds: Cow::Borrowed(&[Kind::Error]),
        subclass: false,
        ..Match::ALL
    }
}

pub(super) fn export(policy: &RetryPolicy, lost: &mut Losses) -> Value {
    lost.ours_only(policy);
    lost.jitter(policy);
    lost.attempt_timeout(policy);
    if policy.timeouts.queue != policy.max_elapsed {
        lost.queue_timeout(policy);
    }
    if policy.max_elapsed.is_some() {
        let rule = policy.deadline != DeadlineRule::LookAhead;
        lost.add_if(rule, "deadline: Cadence looks ahead");
        let clock = policy.clock_from != ClockFrom::FirstScheduled;
        lost.add_if(clock, "clock_from: Cadence's clock starts when the call is scheduled");
    }
    let (initial, coefficient) = growth(&policy.backoff, lost);
    let maximum = policy.max_delay.unwrap_or(CEILING);
    lost.add_if(maximum < initial, "max_delay: Cadence refuses one below the first interval");
    let attempts = match policy.max_attempts {
        Limit::Attempts(max) => i32::try_from(max.get()).unwrap_or_else(|_| {
            lost.add("max_attempts: Cadence counts up to 2147483647");
            i32::MAX
        }),
        Limit::Unlimited => 0,
    };
    let unbounded = attempts == 0 && policy.max_elapsed.is_none();
    lost.add_if(unbounded, "max_attempts: Cadence wants a limit on attempts or time");
    json!({
        "InitialInterval": as_seconds(initial),
        "BackoffCoefficient": coefficient,
        "MaximumInterval": as_seconds(maximum.max(initial)),
        "ExpirationInterval": as_seconds(policy.max_elapsed.unwrap_or_default()),
        "MaximumAttempts": if unbounded { i32::MAX } else { attempts },
        "NonRetriableErrorReasons": reasons(policy, lost),
    })
}

/// True for names that mean no more than themselves in a list of reasons.
fn are_custom(types: &Names) -> bool {
    let internal = |name: &str| KINDS.iter().any(|(reason, _)| *reason == name) || name == GENERIC;
    !types.is_empty() && !types.iter().any(internal)
}

fn growth(backoff: &Backoff, lost: &mut Losses) -> (Duration, f64) {
    let (initial, coefficient) = match backoff {
        Backoff::Exponential { initial, multiplier } => (*initial, *multiplier),
        Backoff::Fixed { delay } => (*delay, 1.0),
        other => {
            lost.add("backoff: Cadence's intervals grow exponentially or not at all");
            (other.initial().unwrap_or_default(), 2.0)
        }
    };
    lost.add_if(coefficient < 1.0, "backoff.multiplier: Cadence refuses one below 1");
    if initial.is_zero() {
        lost.add("backoff.initial: Cadence's first interval is above 0");
        return (Duration::from_millis(1), coefficient.max(1.0));
    }
    (initial, coefficient.max(1.0))
}

fn reasons(policy: &RetryPolicy, lost: &mut Losses) -> Vec<String> {
    let mut reasons: Vec<String> = policy.never_for.iter().map(str::to_string).collect();
    let inexact = "Cadence compares types exactly, without their hierarchy";
    lost.add_if(!reasons.is_empty(), format!("never_for: {inexact}"));
    for (index, rule) in policy.rules.iter().enumerate() {
        let on = &rule.on;
        let plain = Rule::fail(on.clone()) == *rule && on.codes.is_empty() && on.message.is_none();
        let kinds = on.kinds.iter().map(|kind| {
            KINDS.iter().find(|(_, known)| known == kind).map(|(reason, _)| reason.to_string())
        });
        let kinds: Option<Vec<String>> = kinds.collect();
        match kinds {
            _ if plain && *on == generic_error() => reasons.push(GENERIC.to_string()),
            Some(_) if plain && on.kinds.is_empty() && are_custom(&on.types) => {
                lost.add_if(on.subclass, format!("rules[{index}].on.subclass: {inexact}"));
                reasons.extend(on.types.iter().map(str::to_string));
            }
            Some(kinds) if plain && on.types.is_empty() && !kinds.is_empty() => {
                reasons.extend(kinds);
            }
            _ => lost.add(format!("rules[{index}]: Cadence only lists reasons not to retry")),
        }
    }
    let otherwise = policy.otherwise != Verdict::Retry;
    lost.add_if(otherwise, "otherwise: Cadence retries what is not listed");
    reasons
}
