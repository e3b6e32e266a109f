//! Rappel: the brackets of its IR, and `RetryPolicy(...)` of its Python API.
//!
//! Readings: `retry: N` of the IR counts retries, `attempts` of Python counts attempts; the delay
//! doubles in both and starts at the backoff itself; counters only go up; a bracket without types
//! also covers timeouts, unless `ActionTimeout` or `timeout_retry` names them. Where several
//! brackets match one type, the largest count holds, with the backoff of the first bracket that
//! names the type, and all brackets share one count of failures.

mod brackets;

use std::time::Duration;

use serde_json::{Value, json};

use super::Losses;
use crate::config::{At, Problem, Problems};
use crate::duration::{Text, as_seconds};
use crate::retry::policy::*;
use crate::{Kind, Names};
pub use brackets::{
    BadBracket, Bracket, Fallback, Growth, Wait, WhenExhausted, is_bounded, parse_bracket,
    parse_brackets,
};

/// What Rappel calls an attempt that ran too long.
const TIMEOUT: &str = "ActionTimeout";

/// Attempts of a Python policy that names none: upstream stops after 100 retries.
const PY_ATTEMPTS: u32 = 101;

pub(super) fn import_ir(at: &At<'_>) -> Result<RetryPolicy, Problems> {
    let mut fields = at.fields("an object with brackets")?;
    let brackets = fields.require("brackets", |at| Ok(parse_brackets(at.text()?)?));
    fields.finish()?;
    Ok(bracket_policy(&brackets.unwrap_or_default(), CatchAll::Everything)?)
}

/// What a bracket without types covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatchAll {
    /// Every failure, attempts that timed out included: Rappel.
    Everything,
    /// Attempts that timed out only where `ActionTimeout` is named: Waymark.
    AllButTimeouts,
}

/// How often and how fast one kind of failure is tried again.
#[derive(Clone, Copy, PartialEq)]
struct Retries {
    retries: u32,
    wait: Wait,
}

/// No retries at all.
const NEVER: Retries = Retries {
    retries: 0,
    wait: Wait {
        backoff: None,
        max_delay: None,
        jitter: None,
        max_elapsed: None,
        on_exhausted: None,
    },
};

/// The policy that a row of brackets describes.
///
/// ```
/// use resurgam_core::retry::dialect::{CatchAll, bracket_policy, parse_brackets};
///
/// let brackets = parse_brackets("[retry: 3, backoff: 60]")?;
/// let policy = bracket_policy(&brackets, CatchAll::Everything)?;
/// assert_eq!(policy.max_attempts.to_string(), "4");
/// # Ok::<(), resurgam_core::config::Problem>(())
/// ```
pub fn bracket_policy(brackets: &[Bracket], covers: CatchAll) -> Result<RetryPolicy, Problem> {
    let catch_all = catch_all(brackets);
    let cases = cases(brackets, catch_all);
    let general = catch_all.or(cases.first().map(|(_, retries)| *retries)).unwrap_or(NEVER);
    let mut policy = RetryPolicy::with_backoff(series(general.wait.backoff));
    policy.max_delay = general.wait.max_delay;
    policy.jitter = general.wait.jitter.unwrap_or(Jitter::None);
    policy.max_attempts = attempts(general.retries);
    policy.max_elapsed = max_elapsed(brackets)?;
    policy.on_exhausted = on_exhausted(brackets)?;
    policy.timeouts.attempt = shortest_timeout(brackets);
    if catch_all.is_none() && !cases.is_empty() {
        policy.otherwise = Verdict::Fail;
    }
    let spares_timeouts = covers == CatchAll::AllButTimeouts && catch_all.is_some();
    let named = cases.iter().any(|(on, _)| *on == timeouts());
    let mut rules: Vec<Rule> =
        cases.into_iter().map(|(on, retries)| rule(on, retries, general)).collect();
    if spares_timeouts && !named {
        rules.push(Rule::fail(timeouts()));
    }
    policy.rules = rules.into();
    Ok(policy)
}

/// What is said about failures of a type or a kind, in the order of their first bracket.
fn cases(brackets: &[Bracket], catch_all: Option<Retries>) -> Vec<(Match, Retries)> {
    let mut cases: Vec<(Match, Retries)> = Vec::new();
    for bracket in brackets {
        match bracket {
            Bracket::TimeoutRetry { retries, wait } => {
                cases.push((timeouts(), Retries { retries: *retries, wait: *wait }));
            }
            Bracket::Retry { types, .. } => {
                for name in types {
                    let on = on_type(name);
                    if !cases.iter().any(|(known, _)| *known == on) {
                        cases.push((on, for_type(brackets, name, catch_all)));
                    }
                }
            }
            Bracket::Timeout(_) | Bracket::Gate(_) | Bracket::Fallback(_) => {}
        }
    }
    cases
}

/// The bound on the whole call. A policy has one, so brackets that disagree cannot be honoured.
fn max_elapsed(brackets: &[Bracket]) -> Result<Option<Duration>, Problem> {
    let mut bounds = brackets.iter().filter_map(|bracket| match bracket {
        Bracket::Retry { wait, .. } | Bracket::TimeoutRetry { wait, .. } => Some(wait.max_elapsed),
        Bracket::Timeout(_) | Bracket::Gate(_) | Bracket::Fallback(_) => None,
    });
    let first = bounds.next().flatten();
    if bounds.all(|other| other == first) {
        return Ok(first);
    }
    let what = "max_elapsed: it bounds the whole call; write the same in every retry bracket";
    Err(Problem::new("brackets", what))
}

/// What follows when attempts run out: one thing, whichever bracket they were of.
fn on_exhausted(brackets: &[Bracket]) -> Result<Exhausted, Problem> {
    let mut wanted = brackets.iter().filter_map(|bracket| match bracket {
        Bracket::Retry { wait, .. } | Bracket::TimeoutRetry { wait, .. } => Some(wait.on_exhausted),
        Bracket::Timeout(_) | Bracket::Gate(_) | Bracket::Fallback(_) => None,
    });
    let first = wanted.next().flatten();
    if !wanted.all(|other| other == first) {
        let what =
            "on_exhausted: it is about the whole call; write the same in every retry bracket";
        return Err(Problem::new("brackets", what));
    }
    let mut fallbacks = brackets.iter().filter_map(|bracket| match bracket {
        Bracket::Fallback(fallback) => Some(fallback),
        _ => None,
    });
    let refused = |what: &str| Err(Problem::new("brackets", what));
    match (first, fallbacks.next(), fallbacks.next()) {
        (_, _, Some(_)) => refused("fallback: a call has one; leave the other bracket out"),
        (Some(_), Some(_), None) => {
            refused("fallback: it is what follows when attempts run out; leave on_exhausted out")
        }
        (None, Some(Fallback::ByActivity(name)), None) => {
            Ok(Exhausted::FallbackActivity(name.clone().into()))
        }
        (None, Some(Fallback::Value(value)), None) => Ok(Exhausted::FallbackValue(value.clone())),
        (wanted, None, None) => Ok(wanted.map_or(Exhausted::Fail, WhenExhausted::outcome)),
    }
}

fn shortest_timeout(brackets: &[Bracket]) -> Option<Duration> {
    let timeouts = brackets.iter().filter_map(|bracket| match bracket {
        Bracket::Timeout(time) if !time.is_zero() => Some(*time),
        _ => None,
    });
    timeouts.min()
}

/// The brackets without types, taken together.
fn catch_all(brackets: &[Bracket]) -> Option<Retries> {
    let mut all = brackets.iter().filter_map(|bracket| match bracket {
        Bracket::Retry { types, retries, wait } if types.is_empty() => {
            Some(Retries { retries: *retries, wait: *wait })
        }
        _ => None,
    });
    let first = all.next()?;
    Some(all.fold(first, |sum, next| Retries { retries: sum.retries.max(next.retries), ..sum }))
}

/// The brackets that match one type, taken together. Timeouts get a limit of their own.
fn for_type(brackets: &[Bracket], name: &str, catch_all: Option<Retries>) -> Retries {
    let mut named = brackets.iter().filter_map(|bracket| match bracket {
        Bracket::Retry { types, retries, wait } if types.iter().any(|t| t == name) => {
            Some(Retries { retries: *retries, wait: *wait })
        }
        _ => None,
    });
    let first = named.next().unwrap_or(NEVER);
    let others = catch_all.filter(|_| name != TIMEOUT).into_iter().chain(named);
    others.fold(first, |sum, next| Retries { retries: sum.retries.max(next.retries), ..sum })
}

/// What a rule leaves out, the policy says, so a bracket that differs from it says everything.
fn rule(on: Match, retries: Retries, general: Retries) -> Rule {
    let mut rule = Rule::retry(on);
    if retries.retries != general.retries {
        rule.max_attempts = Some(attempts(retries.retries));
    }
    let (wait, usual) = (retries.wait, general.wait);
    if wait.backoff != usual.backoff {
        rule.backoff = Some(series(wait.backoff));
    }
    if wait.max_delay != usual.max_delay {
        rule.max_delay = Some(wait.max_delay.unwrap_or(CEILING));
    }
    if wait.jitter.unwrap_or(Jitter::None) != usual.jitter.unwrap_or(Jitter::None) {
        rule.jitter = Some(wait.jitter.unwrap_or(Jitter::None));
    }
    rule
}

fn on_type(name: &str) -> Match {
    if name == TIMEOUT {
        return timeouts();
    }
    Match { types: Names::from(vec![name.to_string()]), ..Match::ALL }
}

fn timeouts() -> Match {
    Match::kinds(&[Kind::Timeout])
}

fn attempts(retries: u32) -> Limit {
    Limit::try_from(retries.saturating_add(1)).unwrap_or(Limit::Unlimited)
}

fn series(growth: Option<Growth>) -> Backoff {
    match growth {
        None => Backoff::None,
        Some(Growth { base, linear: true, .. }) => {
            Backoff::Linear { initial: base, increment: None }
        }
        Some(Growth { base, multiplier, .. }) => Backoff::Exponential { initial: base, multiplier },
    }
}

pub(super) fn import_py(at: &At<'_>) -> Result<RetryPolicy, Problems> {
    let mut fields = at.fields("an object with the fields of Rappel's RetryPolicy")?;
    let max_attempts = fields.read_or_null("attempts", |at| {
        let attempts = at.count("a number of attempts; use 1 or more")?;
        let zero = "is not allowed; it counts the first attempt. Use 1 for no retries.";
        Limit::try_from(attempts).or_else(|_| at.refuse(zero))
    });
    let types = fields.read_or_null("exception_types", At::texts).flatten().unwrap_or_default();
    let base = fields.read_or_null("backoff_seconds", At::seconds).flatten();
    let timeout = fields.read_or_null("timeout", |at| {
        let timeout = at.seconds()?;
        if timeout.is_zero() { at.refuse("leaves no time; leave it out") } else { Ok(timeout) }
    });
    fields.finish()?;
    let growth = base.filter(|base| !base.is_zero()).map(Growth::doubling);
    let mut policy =
        RetryPolicy::with_backoff(series(growth)).max_attempts(PY_ATTEMPTS).jitter(Jitter::None);
    policy.max_attempts = max_attempts.flatten().unwrap_or(policy.max_attempts);
    policy.timeouts.attempt = timeout.flatten();
    if !types.is_empty() {
        policy.otherwise = Verdict::Fail;
        let (timed_out, types): (Vec<_>, Vec<_>) = types.into_iter().partition(|t| t == TIMEOUT);
        let mut rules = Vec::new();
        if !types.is_empty() {
            rules.push(Rule::retry(Match { types: types.into(), ..Match::ALL }));
        }
        if !timed_out.is_empty() {
            rules.push(Rule::retry(timeouts()));
        }
        policy.rules = rules.into();
    }
    Ok(policy)
}

pub(super) fn export_ir(policy: &RetryPolicy, lost: &mut Losses) -> Value {
    what_rappel_lacks(policy, lost);
    let mut brackets = Vec::new();
    let mut named = Vec::new();
    let all = policy.otherwise == Verdict::Retry;
    for (index, rule) in policy.rules.iter().enumerate() {
        let Some(mut types) = retried_types(rule) else {
            lost.add(format!("rules[{index}]: a bracket only names types to retry"));
            continue;
        };
        // For us the first rule that names a type wins, so a later one says nothing about it;
        // Rappel would take the larger count of both.
        types.retain(|name| !named.contains(name));
        if types.is_empty() {
            continue;
        }
        let terms = policy.terms(Some(rule));
        let general = policy.max_attempts;
        let larger = all && types != [TIMEOUT] && exceeds(general, terms.max_attempts);
        lost.add_if(
            larger,
            format!(
                "rules[{index}].max_attempts: Rappel takes the larger count of the last bracket"
            ),
        );
        lost.add_if(
            rule.max_delay.is_some(),
            format!("rules[{index}].max_delay: Rappel's delays have no cap"),
        );
        brackets.push(bracket(&types.join(", "), terms.max_attempts, terms.backoff, lost));
        named.append(&mut types);
    }
    if all && (policy.max_attempts.allows(1) || !policy.rules.is_empty()) {
        brackets.push(bracket("", policy.max_attempts, &policy.backoff, lost));
    }
    if let Some(timeout) = policy.timeouts.attempt {
        brackets.push(format!("[timeout: {}]", Text(timeout)));
    }
    json!({ "brackets": brackets.join(" ") })
}

fn exceeds(limit: Limit, other: Limit) -> bool {
    match (limit, other) {
        (Limit::Attempts(limit), Limit::Attempts(other)) => limit > other,
        (limit, other) => limit == Limit::Unlimited && other != Limit::Unlimited,
    }
}

/// What neither of Rappel's forms can say.
fn what_rappel_lacks(policy: &RetryPolicy, lost: &mut Losses) {
    lost.ours_only(policy);
    lost.jitter(policy);
    lost.max_elapsed(policy);
    lost.queue_timeout(policy);
    let max = policy.max_delay.map(|max| format!("max_delay ({}): delays have no cap", Text(max)));
    max.into_iter().for_each(|max| lost.add(max));
    lost.add_if(!policy.never_for.is_empty(), "never_for: only types to retry can be named");
    let other = !matches!(policy.otherwise, Verdict::Retry | Verdict::Fail);
    lost.add_if(other, "otherwise: what is not retried fails");
}

/// The types of a rule that a bracket can say.
fn retried_types(rule: &Rule) -> Option<Vec<String>> {
    let Rule { on, then: Verdict::Retry, jitter: None, on_exhausted: None, .. } = rule else {
        return None;
    };
    if *on == timeouts() {
        return Some(vec![TIMEOUT.to_string()]);
    }
    let named = Match { types: on.types.clone(), ..Match::ALL } == *on && !on.types.is_empty();
    let readable = |name: &str| {
        let plain = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let begins = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
        begins && name.chars().all(plain) && name != TIMEOUT
    };
    (named && on.types.iter().all(readable)).then(|| on.types.iter().map(str::to_string).collect())
}

fn bracket(types: &str, limit: Limit, backoff: &Backoff, lost: &mut Losses) -> String {
    let retries = match limit {
        Limit::Attempts(max) => max.get() - 1,
        Limit::Unlimited => {
            lost.add("max_attempts: Rappel always has a limit");
            u32::MAX - 1
        }
    };
    let arrow = if types.is_empty() { String::new() } else { format!("{types} -> ") };
    let growth = match growth(backoff, lost) {
        Some(Growth { base, linear, .. }) => {
            let linear = if linear { " linear" } else { "" };
            format!(", backoff: {}{linear}", Text(base))
        }
        None => String::new(),
    };
    format!("[{arrow}retry: {retries}{growth}]")
}

fn growth(backoff: &Backoff, lost: &mut Losses) -> Option<Growth> {
    match backoff {
        Backoff::None => None,
        Backoff::Exponential { initial, multiplier } => {
            lost.add_if(*multiplier != 2.0, "backoff.multiplier: Rappel's delays double");
            Some(Growth::doubling(*initial))
        }
        Backoff::Linear { initial, increment } => {
            let other = increment.is_some_and(|increment| increment != *initial);
            lost.add_if(other, "backoff.increment: a linear backoff adds its base each time");
            Some(Growth { linear: true, ..Growth::doubling(*initial) })
        }
        Backoff::Fixed { delay } if delay.is_zero() => None,
        other => {
            lost.add("backoff: Rappel's delays double");
            other.initial().map(Growth::doubling)
        }
    }
}

pub(super) fn export_py(policy: &RetryPolicy, lost: &mut Losses) -> Value {
    what_rappel_lacks(policy, lost);
    let mut types = Vec::new();
    for (index, rule) in policy.rules.iter().enumerate() {
        let bare = Rule::retry(rule.on.clone()) == *rule && policy.otherwise == Verdict::Fail;
        match retried_types(rule).filter(|_| bare) {
            Some(named) => types.extend(named),
            None => lost.add(format!("rules[{index}]: one policy names the types it retries")),
        }
    }
    let attempts = match policy.max_attempts {
        Limit::Attempts(max) => max.get(),
        Limit::Unlimited => {
            lost.add("max_attempts: Rappel always has a limit");
            u32::MAX
        }
    };
    let nothing = policy.otherwise == Verdict::Fail && types.is_empty();
    lost.add_if(nothing, "otherwise: an empty list of types means all of them");
    let base = match growth(&policy.backoff, lost) {
        Some(Growth { linear: true, base, .. }) => {
            lost.add("backoff: the Python API's delays double");
            base
        }
        Some(Growth { base, .. }) => base,
        None => Duration::ZERO,
    };
    let mut config = json!({
        "attempts": attempts,
        "exception_types": types,
        "backoff_seconds": as_seconds(base),
    });
    if let Some(timeout) = policy.timeouts.attempt {
        config["timeout"] = json!(as_seconds(timeout));
    }
    config
}
