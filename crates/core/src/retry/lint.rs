//! Warns about policies that work and are probably not meant. Every lint carries the number that
//! triggered it.

use std::fmt;
use std::time::Duration;

use super::check::CheckedPolicy;
use super::decide::Matched;
use super::policy::*;
use super::schedule::{Spread, Terms, spread};
use crate::Short;
use crate::duration::{Human, Text};

/// What a lint is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// Never gives up.
    W1,
    /// Delays shrink.
    W2,
    /// The cap is below the first delay.
    W3,
    /// The cap takes the jitter away.
    W4,
    /// Unlimited attempts without jitter.
    W5,
    /// The cap is applied after the jitter.
    W6,
    /// The deadline comes before the last attempts.
    W7,
    /// Unlimited attempts without an attempt timeout.
    W8,
    /// Many attempts without a delay.
    W9,
}

impl Code {
    /// Every code.
    pub const ALL: [Code; 9] =
        [Code::W1, Code::W2, Code::W3, Code::W4, Code::W5, Code::W6, Code::W7, Code::W8, Code::W9];
}

/// A warning about a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lint {
    /// What it is about.
    pub code: Code,
    /// What was found, with the number that triggered it.
    pub message: String,
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.code, self.message)
    }
}

/// How much of the jitter may be lost at the cap.
const LOST_SHARE: f64 = 0.2;

/// How many delays are looked at for what the cap does to the jitter.
const LOOKED_AT: u32 = 100;

/// How many delays are looked at for what the deadline cuts off.
const LOOKED_AT_FOR_DEADLINE: u32 = 10_000;

/// How many attempts without a delay are nothing to warn about.
const MANY_WITHOUT_DELAY: u32 = 100;

/// Everything that is probably not meant, in the order of the codes.
///
/// ```
/// use resurgam_core::retry::{lint, RetryPolicy};
///
/// let policy = RetryPolicy::DEFAULT.unlimited().check().unwrap();
/// let codes: Vec<String> = lint::lint(&policy).iter().map(|l| format!("{:?}", l.code)).collect();
/// assert_eq!(codes, ["W1", "W8"]);
/// ```
pub fn lint(policy: &CheckedPolicy) -> Vec<Lint> {
    let mut found = Vec::new();
    for matched in policy.retried() {
        let terms = policy.terms_for(matched);
        let place = match matched {
            Matched::Rule(index) => format!("rules[{index}]: "),
            Matched::NeverFor | Matched::Nothing => String::new(),
        };
        let lints = about_limits(policy, &terms)
            .into_iter()
            .chain(about_backoff(&terms))
            .chain(about_jitter(&terms))
            .chain(about_deadline(policy, &terms));
        for (code, message) in lints {
            // A rule that leaves everything to the policy would only repeat its lints.
            let said = |lint: &Lint| lint.code == code && lint.message.ends_with(&message);
            if !found.iter().any(said) {
                found.push(Lint { code, message: format!("{place}{message}") });
            }
        }
    }
    found.sort_by_key(|lint| lint.code);
    found
}

type Found = Option<(Code, String)>;

fn about_limits(policy: &RetryPolicy, terms: &Terms<'_>) -> Vec<(Code, String)> {
    let unlimited = terms.max_attempts == Limit::Unlimited;
    let bounded = policy.max_elapsed.is_some() || policy.timeouts.total.is_some();
    let never = (unlimited && !bounded).then(|| {
        (Code::W1, "unlimited attempts and no max_elapsed: this never gives up".to_string())
    });
    let herd = (unlimited && spreads_nothing(terms.jitter)).then(|| {
        let message = "unlimited attempts and no jitter: callers that failed together return \
            together, for ever";
        (Code::W5, message.to_string())
    });
    let hang = (unlimited && policy.timeouts.attempt.is_none()).then(|| {
        let message = "unlimited attempts and no timeouts.attempt: one attempt that hangs is \
            never followed by another";
        (Code::W8, message.to_string())
    });
    [never, herd, hang, hot_loop(terms)].into_iter().flatten().collect()
}

/// A bound on the time changes nothing: until then it is a hot loop.
fn hot_loop(terms: &Terms<'_>) -> Found {
    let number = match terms.max_attempts {
        Limit::Unlimited => "unlimited".to_string(),
        Limit::Attempts(attempts) if attempts.get() > MANY_WITHOUT_DELAY => attempts.to_string(),
        Limit::Attempts(_) => return None,
    };
    let delays = worst_case(terms, LOOKED_AT);
    delays.iter().all(|spread| spread.bounds().1.is_zero()).then(|| {
        let message = format!(
            "{number} attempts and no delay: a call that fails at once is attempted thousands of \
             times a second"
        );
        (Code::W9, message)
    })
}

fn about_backoff(terms: &Terms<'_>) -> Vec<(Code, String)> {
    let shrinking: Found = match terms.backoff {
        Backoff::Exponential { multiplier, .. } if *multiplier < 1.0 => Some((Code::W2, {
            let factor = Short(*multiplier);
            format!("backoff.multiplier {factor} is below 1: delays shrink")
        })),
        _ => None,
    };
    let first = terms.backoff.initial();
    let low_cap: Found = match (terms.max_delay, first) {
        (Some(max), Some(first)) if max < first => {
            let (max, first) = (Text(max), Text(first));
            let message = format!(
                "max_delay ({max}) is below backoff.initial ({first}): every delay will be {max}"
            );
            Some((Code::W3, message))
        }
        _ => None,
    };
    [shrinking, low_cap].into_iter().flatten().collect()
}

fn about_jitter(terms: &Terms<'_>) -> Vec<(Code, String)> {
    if spreads_nothing(terms.jitter) {
        return Vec::new();
    }
    let spreads = worst_case(terms, LOOKED_AT);
    let lost: f64 = spreads.iter().map(Spread::lost_at_cap).sum();
    let share = lost / spreads.len().max(1) as f64;
    let lost = (share > LOST_SHARE).then(|| {
        let percent = (share * 100.0).round();
        let message = format!(
            "jitter is lost at the cap: {percent} % of the delays are exactly max_delay; raise \
             max_delay or use cap \"truncate\" with a jitter that reaches below it"
        );
        (Code::W4, message)
    });
    let after = (terms.cap == CapOrder::After && terms.max_delay.is_some()).then(|| {
        let max = terms.max_delay.map(Text).map_or(String::new(), |max| max.to_string());
        let message = format!(
            "cap order \"after\" with jitter: draws above max_delay ({max}) pile up there; \
             \"truncate\" spreads them"
        );
        (Code::W6, message)
    });
    [lost, after].into_iter().flatten().collect()
}

fn about_deadline(policy: &RetryPolicy, terms: &Terms<'_>) -> Found {
    let (Some(max), Limit::Attempts(attempts)) = (policy.max_elapsed, terms.max_attempts) else {
        return None;
    };
    let spreads = worst_case(terms, LOOKED_AT_FOR_DEADLINE);
    let looked_at = attempts.get().min(LOOKED_AT_FOR_DEADLINE + 1);
    let mut waited = Duration::ZERO;
    let mut reached = 1;
    for spread in &spreads {
        let delay = spread.bounds().1;
        let allowed = match policy.deadline {
            DeadlineRule::LookAhead => waited.saturating_add(delay) <= max,
            DeadlineRule::CheckOnly | DeadlineRule::Clip => waited < max,
        };
        waited = waited.saturating_add(delay);
        reached += u32::from(allowed);
    }
    (reached < looked_at).then(|| {
        let all = if looked_at == attempts.get() { "up to" } else { "more than" };
        let (waited, max, unreachable) = (Human(waited), Text(max), attempts.get() - reached);
        let message = format!(
            "the waits of {attempts} attempts take {all} {waited}, more than max_elapsed ({max}): \
             the last {unreachable} may never be made"
        );
        (Code::W7, message)
    })
}

fn spreads_nothing(jitter: Jitter) -> bool {
    match jitter {
        Jitter::None => true,
        Jitter::Proportional(share) => share == 0.0,
        Jitter::Range { lo, hi } => lo == hi,
        Jitter::Additive(extra) => extra.is_zero(),
        Jitter::Full | Jitter::Equal | Jitter::Decorrelated => false,
    }
}

/// The delays between the attempts when every draw is the longest.
fn worst_case(terms: &Terms<'_>, looked_at: u32) -> Vec<Spread> {
    let retries = match terms.max_attempts {
        Limit::Attempts(max) => (max.get() - 1).min(looked_at),
        Limit::Unlimited => looked_at,
    };
    let mut previous = None;
    (1..=retries)
        .map(|r| {
            let spread = spread(terms, r, previous);
            previous = Some(spread.bounds().1);
            spread
        })
        .collect()
}
