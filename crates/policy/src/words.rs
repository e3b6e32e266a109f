//! A policy's parts in words.
//!
//! Numbers say what a policy does; these sentences say what it is. Names come from a file and may
//! hold anything, so they are shown without control characters.

use std::time::Duration;

use resurgam_core::duration::Human;
use resurgam_core::retry::schedule::Terms;
use resurgam_core::retry::{
    Backoff, CheckedPolicy, ClockFrom, DeadlineRule, Exhausted, Jitter, Limit, Match, Matched,
    RetryPolicy, Verdict,
};
use resurgam_core::{Names, Short};

use crate::printable;

/// How many names or delays of a list are shown.
const SHOWN: usize = 8;

/// How long and how spread the waits are: `Waits 1s, doubling each time, at most 1m.`
pub fn waits(terms: &Terms<'_>) -> String {
    if *terms.backoff == Backoff::None {
        return "Does not wait between attempts.".into();
    }
    let most = terms.max_delay.map_or(String::new(), |max| format!(", at most {}", Human(max)));
    if let (Jitter::Decorrelated, Some(first)) = (terms.jitter, terms.backoff.initial()) {
        let first = Human(first);
        return format!("Waits between {first} and three times the wait before{most}.");
    }
    format!("Waits {}{most}{}.", backoff(terms.backoff), jitter(terms.jitter))
}

fn backoff(backoff: &Backoff) -> String {
    match backoff {
        Backoff::None => "no time".into(),
        Backoff::Fixed { delay } => format!("{} each time", Human(*delay)),
        Backoff::Linear { initial, increment } => {
            let step = Human(increment.unwrap_or(*initial));
            format!("{}, {step} more each time", Human(*initial))
        }
        Backoff::Exponential { initial, multiplier } => {
            let growth = match *multiplier {
                1.0 => " each time".into(),
                2.0 => ", doubling each time".into(),
                3.0 => ", tripling each time".into(),
                factor => format!(", {} times as long each time", Short(factor)),
            };
            format!("{}{growth}", Human(*initial))
        }
        Backoff::Polynomial { scale, power, shift, offset } => {
            let failures = if *shift == 0 { "r".into() } else { format!("(r - {shift})") };
            let offset = match offset.is_zero() {
                true => String::new(),
                false => format!("{} + ", Human(*offset)),
            };
            format!("{offset}{} x {failures}^{} after failure r", Human(*scale), Short(*power))
        }
        Backoff::Fibonacci { initial } => {
            format!("{} x 1, 1, 2, 3, 5, 8 and so on", Human(*initial))
        }
        Backoff::Schedule { delays } => schedule(delays),
        Backoff::Phases { phases } => phase_list(phases),
    }
}

fn schedule(delays: &[Duration]) -> String {
    let mut shown: Vec<String> =
        delays.iter().take(SHOWN).map(|delay| Human(*delay).to_string()).collect();
    if delays.len() > SHOWN {
        shown.push("...".into());
    }
    match delays.last() {
        Some(last) => format!("{}, then always {}", shown.join(", "), Human(*last)),
        None => "no time".into(),
    }
}

fn phase_list(phases: &[(u32, Backoff)]) -> String {
    let last = phases.len().saturating_sub(1);
    let phase = |(index, (failures, next)): (usize, &(u32, Backoff))| match index {
        _ if index == last => format!("({}) from then on", backoff(next)),
        _ => format!("({}) for {failures} failures", backoff(next)),
    };
    phases.iter().enumerate().map(phase).collect::<Vec<_>>().join(", ")
}

fn jitter(jitter: Jitter) -> String {
    match jitter {
        Jitter::None => String::new(),
        Jitter::Full => "; drawn from 0 to that".into(),
        Jitter::Equal => "; drawn from half of that to all of it".into(),
        Jitter::Decorrelated => {
            "; drawn from the first delay to three times the previous one".into()
        }
        Jitter::Proportional(share) => format!("; spread by {} up and down", percent(share)),
        Jitter::Range { lo, hi } => format!("; spread from {} to {}", percent(lo), percent(hi)),
        Jitter::Additive(most) => format!("; plus up to {}", Human(most)),
    }
}

/// When the retries end: `gives up after the last attempt, or ...`.
pub fn end(policy: &RetryPolicy, limit: Limit, exhausted: &Exhausted) -> String {
    let attempts = match limit {
        Limit::Attempts(max) => Some(format!("after attempt {max}")),
        Limit::Unlimited => None,
    };
    let total = policy.timeouts.total.map(|max| format!("{} after being scheduled", Human(max)));
    // The end of the whole time is no exhaustion: of what may follow, only a dead letter does.
    let is_apart = !matches!(exhausted, Exhausted::Fail | Exhausted::DeadLetter);
    let (apart, total) = if is_apart { (total, None) } else { (None, total) };
    let ends: Vec<String> = [attempts, deadline(policy), total].into_iter().flatten().collect();
    match (ends.is_empty(), apart) {
        (true, None) => "never gives up".into(),
        (true, Some(total)) => format!("fails {total}"),
        (false, None) => format!("gives up {}{}", ends.join(", or "), outcome(exhausted)),
        (false, Some(total)) => {
            format!("gives up {}{}; fails {total}", ends.join(", or "), outcome(exhausted))
        }
    }
}

fn deadline(policy: &RetryPolicy) -> Option<String> {
    let max = Human(policy.max_elapsed?);
    let since = match policy.clock_from {
        ClockFrom::FirstScheduled => "the call was scheduled",
        ClockFrom::FirstStarted => "the first attempt began",
    };
    Some(match policy.deadline {
        DeadlineRule::LookAhead => {
            format!("when the next attempt would begin later than {max} after {since}")
        }
        DeadlineRule::CheckOnly => format!("on a failure {max} or more after {since}"),
        DeadlineRule::Clip => {
            format!("on a failure {max} or more after {since} (no wait goes beyond that)")
        }
    })
}

/// What follows when retrying stops; nothing where the call only fails.
pub fn outcome(exhausted: &Exhausted) -> String {
    match exhausted {
        Exhausted::Fail => String::new(),
        Exhausted::DeadLetter => ", then keeps a dead letter".into(),
        Exhausted::Pause { wait: None } => ", then waits for an operator".into(),
        Exhausted::Pause { wait: Some(wait) } => {
            format!(", then waits up to {} for an operator and fails", Human(*wait))
        }
        Exhausted::Compensate => ", then fails the run and undoes what it did".into(),
        Exhausted::FallbackActivity(name) => {
            format!(", then calls {} in its place", printable(name))
        }
        Exhausted::FallbackValue(value) => {
            let value = value.to_string();
            match value.chars().count() {
                0..=60 => format!(", then returns {}", printable(&value)),
                _ => ", then returns a fixed value".into(),
            }
        }
    }
}

/// What is tried again and what is not, a line for each rule; nothing where everything is.
pub fn rules(policy: &CheckedPolicy) -> Vec<String> {
    let mut lines = Vec::new();
    if !policy.never_for.is_empty() {
        let kept = kept(&policy.on_exhausted);
        let types = list(&policy.never_for, "or");
        lines.push(format!("never retried{kept}: type {types} (never_for)"));
    }
    for (index, rule) in policy.rules.iter().enumerate() {
        let exhausted = rule.on_exhausted.as_ref().unwrap_or(&policy.on_exhausted);
        let verdict = verdict(rule.then, exhausted);
        lines.push(format!("{verdict}: {} (rules[{index}])", failures(&rule.on)));
    }
    let catch_all = policy.rules.iter().any(|rule| rule.on.is_catch_all());
    let special = !lines.is_empty() || policy.otherwise != Verdict::Retry;
    if special && !catch_all {
        let verdict = verdict(policy.otherwise, &policy.on_exhausted);
        lines.push(format!("{verdict}: everything else"));
    }
    lines
}

fn verdict(verdict: Verdict, exhausted: &Exhausted) -> String {
    match verdict {
        Verdict::Retry => "retried".into(),
        Verdict::Fail => format!("not retried{}", kept(exhausted)),
        Verdict::DeadLetter => format!("not retried{}", kept(&Exhausted::DeadLetter)),
        Verdict::Pause => "not retried, waits for an operator".into(),
    }
}

/// What becomes of a call that a rule fails at once: only a dead letter is kept then, too.
fn kept(exhausted: &Exhausted) -> &'static str {
    match exhausted {
        Exhausted::DeadLetter => ", kept as a dead letter",
        _ => "",
    }
}

/// Which failures one of the cases of a policy is about.
pub fn case(policy: &CheckedPolicy, matched: Matched) -> String {
    match matched.index().and_then(|index| policy.rules.get(index)) {
        Some(rule) => failures(&rule.on),
        None => "failures that no rule matches".into(),
    }
}

fn failures(on: &Match) -> String {
    let mut conditions = Vec::new();
    if !on.types.is_empty() {
        let exactly = if on.subclass { "" } else { "exactly " };
        conditions.push(format!("type {exactly}{}", list(&on.types, "or")));
    }
    if !on.kinds.is_empty() {
        let kinds: Vec<&str> = on.kinds.iter().map(|kind| kind.name()).collect();
        conditions.push(format!("kind {}", kinds.join(" or ")));
    }
    if !on.codes.is_empty() {
        conditions.push(format!("code {}", list(&on.codes, "or")));
    }
    if let Some(pattern) = &on.message {
        conditions.push(format!("message like /{}/", printable(pattern)));
    }
    if conditions.is_empty() { "any failure".into() } else { conditions.join(", ") }
}

fn list(names: &Names, word: &str) -> String {
    let named = |name: &str| if name.is_empty() { "(none)".into() } else { printable(name) };
    let mut shown: Vec<String> = names.iter().take(SHOWN).map(named).collect();
    if names.len() > SHOWN {
        shown.push(format!("{} more", names.len() - SHOWN));
    }
    match shown.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} {word} {last}", others.join(", ")),
        None => String::new(),
    }
}

/// A time that was sampled, with no more digits than that deserves: `1.6s`, `25s`.
pub fn about(time: Duration) -> Human {
    let step = match time.as_millis() {
        0..1_000 => 1,
        1_000..10_000 => 100,
        _ => 1_000,
    };
    let millis = (time.as_millis() + step / 2) / step * step;
    Human(Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
}

/// `12.5 %`, with one decimal at most. What is not all of it never reads as `100 %`.
pub fn percent(share: f64) -> String {
    let tenths = (share * 1000.0).round();
    let tenths = if share < 1.0 { tenths.min(999.0) } else { tenths };
    format!("{} %", tenths / 10.0)
}

/// A time, where nothing is `0s`.
pub fn time(time: Human) -> String {
    if time.0.is_zero() { "0s".into() } else { time.to_string() }
}

/// With a comma between thousands.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;
    use serde_json::{Value, json};

    fn policy(config: &Value) -> CheckedPolicy {
        RetryPolicy::from_value(config).unwrap().check().unwrap()
    }

    #[test]
    fn every_backoff_can_be_said() {
        for (backoff, words) in [
            (json!({"type": "fixed", "delay": "2s"}), "2s each time"),
            (json!({"type": "linear", "initial": "1s"}), "1s, 1s more each time"),
            (json!({"type": "exponential", "initial": "1s"}), "1s, doubling each time"),
            (
                json!({"type": "exponential", "initial": "1s", "multiplier": 1.5}),
                "1s, 1.5 times as long each time",
            ),
            (
                json!({
                    "type": "polynomial", "scale": "1s", "power": 4, "shift": 1, "offset": "15s",
                }),
                "15s + 1s x (r - 1)^4 after failure r",
            ),
            (json!({"type": "fibonacci", "initial": "1s"}), "1s x 1, 1, 2, 3, 5, 8 and so on"),
            (
                json!({"type": "schedule", "delays": ["1s", "10s", "1m"]}),
                "1s, 10s, 1m, then always 1m",
            ),
            (
                json!({"type": "phases", "phases": [
                    [3, {"type": "fixed", "delay": "10ms"}],
                    [1, {"type": "exponential", "initial": "1s"}],
                ]}),
                "(10ms each time) for 3 failures, (1s, doubling each time) from then on",
            ),
        ] {
            let policy = policy(&json!({"backoff": backoff, "jitter": "none"}));
            assert_eq!(waits(&policy.terms(None)), format!("Waits {words}."));
        }
        let none = policy(&json!({"backoff": {"type": "none"}}));
        assert_eq!(waits(&none.terms(None)), "Does not wait between attempts.");
    }

    #[test]
    fn every_jitter_can_be_said() {
        for (jitter, words) in [
            (json!("full"), "; drawn from 0 to that"),
            (json!("equal"), "; drawn from half of that to all of it"),
            (json!({"proportional": 0.125}), "; spread by 12.5 % up and down"),
            (json!({"lo": 0.5, "hi": 2}), "; spread from 50 % to 200 %"),
            (json!({"additive": "10s"}), "; plus up to 10s"),
        ] {
            let policy = policy(&json!({"jitter": jitter}));
            let expected = format!("Waits 1s, doubling each time, at most 1m{words}.");
            assert_eq!(waits(&policy.terms(None)), expected);
        }
        let decorrelated = policy(&json!({"jitter": "decorrelated"}));
        assert_eq!(
            waits(&decorrelated.terms(None)),
            "Waits between 1s and three times the wait before, at most 1m."
        );
    }

    #[test]
    fn the_rules_say_what_is_retried_and_what_is_not() {
        let policy = policy(&json!({
            "never_for": ["CardDeclined"],
            "rules": [
                {"on": {"codes": ["429", "503"], "kinds": ["throttled"]}, "max_attempts": 20},
                {"on": {"types": ["A", "B", ""], "subclass": false}, "then": "fail"},
                {"on": {"message": "^bad\u{1b}"}, "then": "fail"},
            ],
        }));
        assert_eq!(
            rules(&policy),
            [
                "never retried: type CardDeclined (never_for)",
                "retried: kind throttled, code 429 or 503 (rules[0])",
                "not retried: type exactly A, B or (none) (rules[1])",
                "not retried: message like /^bad\u{fffd}/ (rules[2])",
                "retried: everything else",
            ]
        );
    }

    #[test]
    fn a_policy_without_rules_has_nothing_to_say_about_them() {
        assert_eq!(rules(&policy(&json!({}))), [""; 0]);
        assert_eq!(rules(&policy(&json!({"otherwise": "fail"}))), ["not retried: everything else"]);
    }

    #[test]
    fn the_end_names_every_limit() {
        for (config, words) in [
            (json!({"max_attempts": 5}), "gives up after attempt 5"),
            (json!({"max_attempts": "unlimited"}), "never gives up"),
            (
                json!({"max_attempts": "unlimited", "max_elapsed": "1h"}),
                "gives up when the next attempt would begin later than 1h after the call was \
                 scheduled",
            ),
            (
                json!("edda.default"),
                "gives up after attempt 5, or on a failure 5m or more after the first attempt \
                 began",
            ),
            (
                json!({"timeouts": {"total": "1h"}, "on_exhausted": "dead_letter"}),
                "gives up after attempt 10, or 1h after being scheduled, then keeps a dead letter",
            ),
            (
                json!({"timeouts": {"total": "1h"}, "on_exhausted": "pause"}),
                "gives up after attempt 10, then waits for an operator; fails 1h after being \
                 scheduled",
            ),
            (
                json!({
                    "timeouts": {"total": "1h"}, "max_elapsed": "30m",
                    "on_exhausted": {"fallback": {"value": 7}},
                }),
                "gives up after attempt 10, or when the next attempt would begin later than 30m \
                 after the call was scheduled, then returns 7; fails 1h after being scheduled",
            ),
            (
                json!({
                    "max_attempts": "unlimited", "timeouts": {"total": "1h"},
                    "on_exhausted": "compensate",
                }),
                "fails 1h after being scheduled",
            ),
        ] {
            let policy = policy(&config);
            assert_eq!(end(&policy, policy.max_attempts, &policy.on_exhausted), words);
        }
    }
}
