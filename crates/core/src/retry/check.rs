//! Refuses policies that cannot work.
//!
//! [`decide`](super::decide()) takes a [`CheckedPolicy`], so a policy that nobody checked cannot
//! reach it, and the patterns of its rules are compiled once. What works and is probably not meant
//! is a lint, see [`super::lint`].

use std::fmt::Display;
use std::ops::Deref;
use std::time::Duration;

use regex::{Regex, RegexBuilder};

use super::decide::Matched;
use super::policy::*;
use crate::config::{Problem, Problems};
use crate::duration::{LONGEST, Text};
use crate::{Failure, Short};

/// A policy that was found to make sense, ready to decide.
///
/// ```
/// use resurgam_core::retry::{CheckedPolicy, RetryPolicy};
/// use std::time::Duration;
///
/// let policy = RetryPolicy::fixed(Duration::from_secs(1));
/// let checked: CheckedPolicy = policy.check().unwrap();
/// assert_eq!(checked.into_inner(), policy);
/// ```
#[derive(Clone, Debug)]
pub struct CheckedPolicy {
    policy: RetryPolicy,
    /// The message pattern of each rule, in the order of the rules.
    patterns: Vec<Option<Regex>>,
}

/// What a compiled message pattern may take in memory.
const PATTERN_BYTES: usize = 1 << 20;

/// How deep phases may be nested.
const NESTED_PHASES: u32 = 8;

impl RetryPolicy {
    /// Checks that the policy makes sense. The error lists everything that does not.
    ///
    /// ```
    /// use resurgam_core::retry::RetryPolicy;
    /// use std::time::Duration;
    ///
    /// let policy = RetryPolicy::exponential(Duration::from_secs(1)).multiplier(f64::NAN);
    /// assert_eq!(
    ///     policy.check().unwrap_err().to_string(),
    ///     "backoff.multiplier: NaN is not a finite number greater than 0"
    /// );
    /// ```
    pub fn check(&self) -> Result<CheckedPolicy, Problems> {
        let mut check = Check { problems: Vec::new() };
        check.backoff("backoff", &self.backoff, 0);
        check.jitter("jitter", self.jitter);
        check.decorrelated("jitter", self.jitter, &self.backoff);
        check.positive("max_delay", self.max_delay, "makes every delay nothing; leave it out");
        let remedy = "never allows a retry; leave it out or give a time";
        check.positive("max_elapsed", self.max_elapsed, remedy);
        check.server_delay(&self.server_delay);
        check.bounded("lost_worker.initial", self.lost_worker.initial);
        check.bounded("lost_worker.max_delay", self.lost_worker.max_delay);
        check.exhausted("on_exhausted", &self.on_exhausted);
        check.timeouts(self);
        check.rules(self);
        check.at_most_once(self);
        let patterns = check.patterns(&self.rules);
        Problems::check(check.problems)?;
        Ok(CheckedPolicy { policy: self.clone(), patterns })
    }
}

impl CheckedPolicy {
    /// The policy without the proof that it was checked.
    pub fn into_inner(self) -> RetryPolicy {
        self.policy
    }

    /// What the rules say about a failure: the first that matches wins.
    pub(crate) fn first_match(&self, failure: &Failure) -> Matched {
        if self.never_for.iter().any(|name| failure.has_type(name, true)) {
            return Matched::NeverFor;
        }
        let rules = self.rules.iter().zip(&self.patterns);
        let mut matching = rules.map(|(rule, pattern)| rule.on.matches(failure, pattern.as_ref()));
        matching.position(|matches| matches).map_or(Matched::Nothing, Matched::Rule)
    }
}

impl Backoff {
    /// The durations it names, without those of its phases.
    fn durations(&self) -> Vec<(&'static str, Duration)> {
        match self {
            Backoff::None | Backoff::Phases { .. } => Vec::new(),
            Backoff::Fixed { delay } => vec![("delay", *delay)],
            Backoff::Linear { initial, increment } => {
                vec![("initial", *initial), ("increment", increment.unwrap_or_default())]
            }
            Backoff::Exponential { initial, .. } | Backoff::Fibonacci { initial } => {
                vec![("initial", *initial)]
            }
            Backoff::Polynomial { scale, offset, .. } => {
                vec![("scale", *scale), ("offset", *offset)]
            }
            Backoff::Schedule { delays } => delays.iter().map(|delay| ("delays", *delay)).collect(),
        }
    }
}

impl Deref for CheckedPolicy {
    type Target = RetryPolicy;

    fn deref(&self) -> &RetryPolicy {
        &self.policy
    }
}

impl Match {
    /// True when every condition that is given holds for the failure.
    fn matches(&self, failure: &Failure, pattern: Option<&Regex>) -> bool {
        let type_holds = self.types.is_empty()
            || self.types.iter().any(|name| failure.has_type(name, self.subclass));
        let kind_holds = self.kinds.is_empty() || self.kinds.contains(&failure.kind);
        let code_holds = self.codes.is_empty()
            || failure.code.as_deref().is_some_and(|code| self.codes.contains(code));
        type_holds
            && kind_holds
            && code_holds
            && pattern.is_none_or(|pattern| pattern.is_match(&failure.message))
    }
}

/// Collects problems; one method per subject.
struct Check {
    problems: Vec<Problem>,
}

impl Check {
    fn report(&mut self, path: &str, message: impl Into<String>) {
        self.problems.push(Problem::new(path, message));
    }

    /// A value that breaks a rule, in the form `path: value rule`.
    fn refuse(&mut self, path: &str, value: impl Display, what: &str) {
        self.report(path, format!("{path}: {value} {what}"));
    }

    fn positive(&mut self, path: &str, value: Option<Duration>, what: &str) {
        if value.is_some_and(|value| value.is_zero()) {
            self.refuse(path, "\"0s\"", what);
        }
        self.bounded(path, value.unwrap_or_default());
    }

    /// The written form refuses such a duration too, so that every checked policy can be written.
    fn bounded(&mut self, path: &str, value: Duration) {
        if value > LONGEST {
            let value = format!("\"{}\"", Text(value));
            self.refuse(path, value, "is longer than 100 years; leave it out or give less");
        }
    }

    fn backoff(&mut self, path: &str, backoff: &Backoff, depth: u32) {
        for (name, value) in backoff.durations() {
            self.bounded(&format!("{path}.{name}"), value);
        }
        match backoff {
            Backoff::Exponential { multiplier, .. }
                if !(multiplier.is_finite() && *multiplier > 0.0) =>
            {
                let path = format!("{path}.multiplier");
                self.refuse(&path, Short(*multiplier), "is not a finite number greater than 0");
            }
            Backoff::Polynomial { power, .. } if !(power.is_finite() && *power >= 0.0) => {
                self.refuse(
                    &format!("{path}.power"),
                    Short(*power),
                    "is not a finite number from 0",
                );
            }
            Backoff::Schedule { delays } if delays.is_empty() => {
                self.report(path, format!("{path}.delays: an empty list; give at least one delay"));
            }
            Backoff::Phases { phases } => self.phases(path, phases, depth),
            _ => {}
        }
    }

    fn phases(&mut self, path: &str, phases: &[(u32, Backoff)], depth: u32) {
        if phases.is_empty() {
            self.report(path, format!("{path}.phases: an empty list; give at least one phase"));
        }
        if depth >= NESTED_PHASES {
            let message = format!("{path}: phases are nested deeper than {NESTED_PHASES}");
            return self.report(path, message);
        }
        for (index, (failures, backoff)) in phases.iter().enumerate() {
            let path = format!("{path}.phases[{index}]");
            if *failures == 0 {
                self.refuse(&path, 0, "failures: the phase never begins; give 1 or more");
            }
            self.backoff(&format!("{path}[1]"), backoff, depth + 1);
        }
    }

    fn jitter(&mut self, path: &str, jitter: Jitter) {
        match jitter {
            Jitter::Proportional(share) if !(0.0..=1.0).contains(&share) => {
                self.refuse(
                    path,
                    format!("proportional {}", Short(share)),
                    "is not between 0 and 1",
                );
            }
            Jitter::Range { lo, hi } if lo > hi => {
                self.report(path, format!("{path}: lo {lo} is greater than hi {hi}"));
            }
            Jitter::Range { lo, hi } if !(lo >= 0.0 && hi <= 10.0) => {
                self.refuse(
                    path,
                    format!("{} to {}", Short(lo), Short(hi)),
                    "is not between 0 and 10",
                );
            }
            Jitter::Additive(extra) => self.bounded(&format!("{path}.additive"), extra),
            _ => {}
        }
    }

    fn decorrelated(&mut self, path: &str, jitter: Jitter, backoff: &Backoff) {
        let grows = matches!(
            backoff,
            Backoff::Fixed { .. } | Backoff::Linear { .. } | Backoff::Exponential { .. }
        );
        let starts = grows && backoff.initial().is_some_and(|initial| !initial.is_zero());
        if jitter == Jitter::Decorrelated && !starts {
            let hint = "use an exponential, linear or fixed backoff that begins above 0";
            self.report(path, format!("{path} \"decorrelated\" needs backoff.initial: {hint}"));
        }
    }

    fn exhausted(&mut self, path: &str, exhausted: &Exhausted) {
        if let Exhausted::Pause { wait: Some(wait) } = exhausted {
            self.bounded(&format!("{path}.pause.for"), *wait);
        }
        if let Exhausted::FallbackActivity(name) = exhausted
            && name.is_empty()
        {
            let path = format!("{path}.fallback.activity");
            self.report(&path, format!("{path}: an empty name is no activity's"));
        }
    }

    fn server_delay(&mut self, server: &ServerDelay) {
        self.bounded("server_delay.max", server.max);
        if !(0.0..=10.0).contains(&server.jitter) {
            self.refuse("server_delay.jitter", Short(server.jitter), "is not between 0 and 10");
        }
    }

    fn timeouts(&mut self, policy: &RetryPolicy) {
        let Timeouts { attempt, heartbeat, queue, total } = policy.timeouts;
        let all =
            [("attempt", attempt), ("heartbeat", heartbeat), ("queue", queue), ("total", total)];
        for (name, value) in all {
            self.positive(&format!("timeouts.{name}"), value, "leaves no time; leave it out");
        }
        if let (Some(heartbeat), Some(attempt)) = (heartbeat, attempt)
            && heartbeat >= attempt
        {
            let (heartbeat, attempt) = (Text(heartbeat), Text(attempt));
            let message = format!(
                "timeouts.heartbeat ({heartbeat}) is not below timeouts.attempt ({attempt})"
            );
            self.report("timeouts.heartbeat", message);
        }
        if let (Some(attempt), Some(max)) = (attempt, policy.max_elapsed)
            && attempt > max
        {
            let (attempt, max) = (Text(attempt), Text(max));
            let message = format!(
                "timeouts.attempt ({attempt}) is longer than max_elapsed ({max}): an attempt that \
                 times out could never be retried"
            );
            self.report("timeouts.attempt", message);
        }
    }

    fn rules(&mut self, policy: &RetryPolicy) {
        let catch_all = policy.rules.iter().position(|rule| rule.on.is_catch_all());
        for (index, rule) in policy.rules.iter().enumerate() {
            let path = format!("rules[{index}]");
            if let Some(earlier) = catch_all.filter(|earlier| *earlier < index) {
                let message =
                    format!("{path} can never match: rules[{earlier}] matches everything");
                self.report(&path, message);
            }
            if let Some(backoff) = &rule.backoff {
                self.backoff(&format!("{path}.backoff"), backoff, 0);
            }
            if let Some(jitter) = rule.jitter {
                self.jitter(&format!("{path}.jitter"), jitter);
            }
            let remedy = "makes every delay nothing; leave it out";
            self.positive(&format!("{path}.max_delay"), rule.max_delay, remedy);
            if let Some(exhausted) = &rule.on_exhausted {
                self.exhausted(&format!("{path}.on_exhausted"), exhausted);
            }
            if rule.backoff.is_some() || rule.jitter.is_some() {
                let terms = policy.terms(Some(rule));
                self.decorrelated(&format!("{path}.jitter"), terms.jitter, terms.backoff);
            }
        }
    }

    fn at_most_once(&mut self, policy: &RetryPolicy) {
        if policy.idempotency != Idempotency::AtMostOnce {
            return;
        }
        let rules = policy.rules.iter().enumerate();
        let limits = std::iter::once(("max_attempts".to_string(), Some(policy.max_attempts)))
            .chain(rules.map(|(i, rule)| (format!("rules[{i}].max_attempts"), rule.max_attempts)));
        for (path, limit) in limits {
            if limit.is_some_and(|limit| limit.allows(1)) {
                let rule = "idempotency \"at_most_once\" forbids retries";
                self.report(&path, format!("{rule}; set {path} to 1"));
            }
        }
    }

    fn patterns(&mut self, rules: &[Rule]) -> Vec<Option<Regex>> {
        let compile = |pattern: &str| RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build();
        let mut patterns = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            let compiled = rule.on.message.as_deref().map(compile).transpose();
            patterns.push(compiled.unwrap_or_else(|error| {
                let path = format!("rules[{index}].on.message");
                let text = error.to_string();
                let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
                self.report(&path, format!("{path}: not a regular expression: {last}"));
                None
            }));
        }
        patterns
    }
}
