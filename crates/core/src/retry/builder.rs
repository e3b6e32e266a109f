//! Building a policy in Rust, also in a `const`.
//!
//! Every method takes the policy and gives it back changed; the last call wins. They are `const`,
//! so that policies can be named once and refined where they are used:
//! `ctx.call(ship(order)).retry(PAYMENT.max_attempts(3))`.

use std::borrow::Cow;
use std::mem;
use std::time::Duration;

use super::policy::*;
use crate::{Kind, Names};

impl RetryPolicy {
    /// What an activity gets when nobody says otherwise: ten attempts over about four minutes of
    /// waiting, from 1 s doubling to 60 s, each delay spread by half.
    pub const DEFAULT: RetryPolicy =
        RetryPolicy::exponential(Duration::from_secs(1)).max_delay(Duration::from_secs(60));

    /// The default policy with another backoff, and so without a `max_delay`.
    pub const fn with_backoff(backoff: Backoff) -> Self {
        RetryPolicy {
            max_attempts: attempts(10),
            backoff,
            max_delay: None,
            jitter: Jitter::Proportional(0.5),
            cap: CapOrder::Truncate,
            max_elapsed: None,
            deadline: DeadlineRule::LookAhead,
            clock_from: ClockFrom::FirstScheduled,
            timeouts: Timeouts { attempt: None, heartbeat: None, queue: None, total: None },
            never_for: Names::NONE,
            rules: Cow::Borrowed(&[]),
            otherwise: Verdict::Retry,
            lost_worker: LostWorker::DEFAULT,
            server_delay: ServerDelay::DEFAULT,
            idempotency: Idempotency::Unknown,
            on_exhausted: Exhausted::Fail,
        }
    }

    /// Delays that double: `initial`, 2, 4, 8 times as long. See [`RetryPolicy::multiplier`].
    pub const fn exponential(initial: Duration) -> Self {
        Self::with_backoff(Backoff::exponential(initial))
    }

    /// Delays that grow by `initial` each time.
    pub const fn linear(initial: Duration) -> Self {
        Self::with_backoff(Backoff::Linear { initial, increment: None })
    }

    /// A policy with one delay, however often it is tried again.
    pub const fn fixed(delay: Duration) -> Self {
        Self::with_backoff(Backoff::Fixed { delay })
    }

    /// Delays from a list, the last one repeating.
    ///
    /// ```
    /// use resurgam_core::retry::RetryPolicy;
    /// use std::time::Duration;
    ///
    /// const POLICY: RetryPolicy =
    ///     RetryPolicy::schedule(&[Duration::from_secs(1), Duration::from_secs(60)]);
    /// assert!(POLICY.check().is_ok());
    /// ```
    pub const fn schedule(delays: &'static [Duration]) -> Self {
        Self::with_backoff(Backoff::Schedule { delays: Cow::Borrowed(delays) })
    }

    /// One attempt, no retries.
    pub const fn once() -> Self {
        Self::with_backoff(Backoff::None).max_attempts(1)
    }

    /// Bounds the attempts, the first included.
    ///
    /// # Panics
    /// On 0; in a `const` that is a compile error. Use `Limit::try_from` for a number that comes
    /// from outside.
    pub const fn max_attempts(mut self, max: u32) -> Self {
        self.max_attempts = attempts(max);
        self
    }

    /// Takes away the bound on attempts.
    pub const fn unlimited(mut self) -> Self {
        self.max_attempts = Limit::Unlimited;
        self
    }

    /// Replaces the backoff.
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        replace(&mut self.backoff, backoff);
        self
    }

    /// Sets what each further failure multiplies the delay by.
    ///
    /// # Panics
    /// When the backoff is not exponential; in a `const` that is a compile error.
    pub const fn multiplier(mut self, factor: f64) -> Self {
        match &mut self.backoff {
            Backoff::Exponential { multiplier, .. } => *multiplier = factor,
            _ => panic!("multiplier belongs to an exponential backoff"),
        }
        self
    }

    /// Bounds a single delay.
    pub const fn max_delay(mut self, max: Duration) -> Self {
        self.max_delay = Some(max);
        self
    }

    /// Sets how delays are spread.
    pub const fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets where `max_delay` meets the jitter.
    pub const fn cap(mut self, cap: CapOrder) -> Self {
        self.cap = cap;
        self
    }

    /// Bounds the time after which no retry is begun.
    pub const fn max_elapsed(mut self, max: Duration) -> Self {
        self.max_elapsed = Some(max);
        self
    }

    /// Sets what `max_elapsed` is compared with.
    pub const fn deadline(mut self, rule: DeadlineRule) -> Self {
        self.deadline = rule;
        self
    }

    /// Sets when the clock of `max_elapsed` starts.
    pub const fn clock_from(mut self, clock: ClockFrom) -> Self {
        self.clock_from = clock;
        self
    }

    /// Sets all four timeouts at once.
    pub const fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Names the failure types that are never tried again, in place of an earlier list.
    pub const fn never_for(mut self, types: &'static [&'static str]) -> Self {
        replace(&mut self.never_for, Names::Static(types));
        self
    }

    /// Sets the rules, in place of earlier ones.
    ///
    /// ```
    /// use resurgam_core::Kind;
    /// use resurgam_core::retry::{Backoff, Jitter, Match, RetryPolicy, Rule};
    /// use std::time::Duration;
    ///
    /// const MINUTE: Duration = Duration::from_secs(60);
    /// const RULES: &[Rule] = &[
    ///     Rule::retry(Match::codes(&["429"])).max_attempts(20).max_delay(MINUTE),
    ///     Rule::retry(Match::message("(?i)lock")).backoff(Backoff::None).jitter(Jitter::None),
    ///     Rule::fail(Match::types(&["InvalidRequest"])),
    ///     Rule::fail(Match::kinds(&[Kind::Panic])),
    /// ];
    /// const POLICY: RetryPolicy = RetryPolicy::exponential(Duration::from_secs(1)).rules(RULES);
    /// assert!(POLICY.check().is_ok());
    /// assert!(Match::ALL.is_catch_all()); // behind such a rule no other may stand
    /// ```
    pub const fn rules(mut self, rules: &'static [Rule]) -> Self {
        replace(&mut self.rules, Cow::Borrowed(rules));
        self
    }

    /// Sets what happens to failures that no rule matches.
    pub const fn otherwise(mut self, verdict: Verdict) -> Self {
        self.otherwise = verdict;
        self
    }

    /// Sets what happens to attempts whose process died.
    pub const fn lost_worker(mut self, lost_worker: LostWorker) -> Self {
        self.lost_worker = lost_worker;
        self
    }

    /// Sets whether the other side may choose the delay.
    pub const fn server_delay(mut self, server_delay: ServerDelay) -> Self {
        self.server_delay = server_delay;
        self
    }

    /// Says what is known about running the activity more than once.
    pub const fn idempotency(mut self, idempotency: Idempotency) -> Self {
        self.idempotency = idempotency;
        self
    }

    /// Sets what happens when the policy gives up.
    pub const fn on_exhausted(mut self, exhausted: Exhausted) -> Self {
        replace(&mut self.on_exhausted, exhausted);
        self
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy::DEFAULT
    }
}

impl Backoff {
    /// Delays that double.
    pub const fn exponential(initial: Duration) -> Self {
        Backoff::Exponential { initial, multiplier: 2.0 }
    }
}

impl Rule {
    /// Tries these failures again.
    pub const fn retry(on: Match) -> Self {
        Rule {
            on,
            then: Verdict::Retry,
            max_attempts: None,
            backoff: None,
            max_delay: None,
            jitter: None,
            on_exhausted: None,
        }
    }

    /// Never tries these failures again.
    pub const fn fail(on: Match) -> Self {
        let mut rule = Rule::retry(on);
        rule.then = Verdict::Fail;
        rule
    }

    /// Bounds the attempts after such a failure, in place of the policy's bound.
    ///
    /// # Panics
    /// On 0; in a `const` that is a compile error.
    pub const fn max_attempts(mut self, max: u32) -> Self {
        self.max_attempts = Some(attempts(max));
        self
    }

    /// Sets the backoff after such a failure.
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        replace(&mut self.backoff, Some(backoff));
        self
    }

    /// Bounds a single delay after such a failure.
    pub const fn max_delay(mut self, max: Duration) -> Self {
        self.max_delay = Some(max);
        self
    }

    /// Sets how delays after such a failure are spread.
    pub const fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = Some(jitter);
        self
    }
}

impl Match {
    /// Matches every failure.
    pub const ALL: Match = Match {
        types: Names::NONE,
        kinds: Cow::Borrowed(&[]),
        codes: Names::NONE,
        subclass: true,
        message: None,
    };

    /// Failures of these types, or of types that descend from them.
    pub const fn types(types: &'static [&'static str]) -> Self {
        Match { types: Names::Static(types), ..Match::ALL }
    }

    /// Failures of these kinds.
    pub const fn kinds(kinds: &'static [Kind]) -> Self {
        Match { kinds: Cow::Borrowed(kinds), ..Match::ALL }
    }

    /// Failures with these codes.
    pub const fn codes(codes: &'static [&'static str]) -> Self {
        Match { codes: Names::Static(codes), ..Match::ALL }
    }

    /// Failures whose message contains a match of this regular expression.
    pub const fn message(pattern: &'static str) -> Self {
        Match { message: Some(Cow::Borrowed(pattern)), ..Match::ALL }
    }

    /// True when it matches every failure.
    pub fn is_catch_all(&self) -> bool {
        self.types.is_empty()
            && self.kinds.is_empty()
            && self.codes.is_empty()
            && self.message.is_none()
    }
}

impl Default for Match {
    fn default() -> Self {
        Match::ALL
    }
}

impl LostWorker {
    /// Ten in a row, after 100 ms doubling to 10 s.
    pub const DEFAULT: LostWorker = LostWorker {
        max: 10,
        initial: Duration::from_millis(100),
        max_delay: Duration::from_secs(10),
    };
}

impl Default for LostWorker {
    fn default() -> Self {
        LostWorker::DEFAULT
    }
}

impl ServerDelay {
    /// At least what the other side asks for, up to an hour, spread upwards by a tenth.
    pub const DEFAULT: ServerDelay =
        ServerDelay { mode: ServerDelayMode::AtLeast, max: Duration::from_secs(3600), jitter: 0.1 };
}

impl Default for ServerDelay {
    fn default() -> Self {
        ServerDelay::DEFAULT
    }
}

const fn attempts(max: u32) -> Limit {
    match std::num::NonZeroU32::new(max) {
        Some(max) => Limit::Attempts(max),
        None => panic!("{}", Limit::ZERO),
    }
}

/// Replaces a field inside a `const fn`, where the old value cannot be dropped. An old value that
/// owns memory is leaked: that takes a builder call on a policy that was parsed at run time.
const fn replace<T>(place: &mut T, value: T) {
    mem::forget(mem::replace(place, value));
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn default_and_new_agree_with_the_documented_values() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.max_attempts, attempts(10));
        assert_eq!(policy.backoff, Backoff::exponential(Duration::from_secs(1)));
        assert_eq!(policy.max_delay, Some(Duration::from_secs(60)));
        assert_eq!(policy.jitter, Jitter::Proportional(0.5));
        assert_eq!(policy.server_delay.mode, ServerDelayMode::AtLeast);
        assert_eq!(RetryPolicy::exponential(Duration::from_secs(1)).max_delay, None);
    }

    #[test]
    fn a_const_policy_is_refined_where_it_is_used() {
        const RULES: &[Rule] = &[Rule::retry(Match::kinds(&[Kind::Timeout])).max_attempts(2)];
        const PAYMENT: RetryPolicy = RetryPolicy::exponential(Duration::from_millis(200))
            .max_attempts(8)
            .multiplier(1.5)
            .max_delay(Duration::from_secs(30))
            .never_for(&["CardDeclined"])
            .rules(RULES);
        let refined = PAYMENT.max_attempts(3);
        assert_eq!(refined.max_attempts, attempts(3));
        assert_eq!(refined.never_for, PAYMENT.never_for);
        assert_eq!(PAYMENT.max_attempts, attempts(8));
    }

    #[test]
    #[should_panic(expected = "it counts the first attempt")]
    fn zero_attempts_are_refused() {
        let zero = "0".parse().unwrap();
        let _ = RetryPolicy::DEFAULT.max_attempts(zero);
    }
}
