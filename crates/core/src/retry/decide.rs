//! Decides what follows a failed attempt.
//!
//! Pure: the caller brings the time and a random number. Snoozes are not failures and never come
//! here. The checks in order: cancelled, what the failure says itself, the rules, `otherwise`,
//! the attempts, the deadline. Every answer says why.

use std::fmt;
use std::time::Duration;

use super::check::CheckedPolicy;
use super::policy::*;
use super::schedule::{self, Spread};
use crate::duration::Human;
use crate::{Failure, Kind, Timestamp};

/// What a decision needs to know about the call so far.
///
/// ```
/// use resurgam_core::retry::{
///     Counters, Decision, Matched, Reason, RetryPolicy, RetryWhy, State, StopWhy, decide,
/// };
/// use resurgam_core::{Failure, Timestamp};
/// use std::time::Duration;
///
/// let policy = RetryPolicy::fixed(Duration::from_secs(1)).max_attempts(2).check().unwrap();
/// let (now, failure) = (Timestamp::EPOCH, Failure::new("down"));
///
/// // The middle of what the delay is drawn from.
/// let first = decide(&policy, &State::after(1, now), &failure, now, 0.5);
/// let Decision::Retry { delay, why } = first else { panic!("it may be tried again") };
/// let why: RetryWhy = why;
/// assert_eq!((delay, why.failures), (Duration::from_secs(1), 1));
///
/// let second = decide(&policy, &State::after(2, now), &failure, now, 0.5);
/// let Decision::Stop { why } = second else { panic!("two attempts are enough") };
/// assert_eq!((why.reason, why.reason.name()), (Reason::MaxAttempts, "max_attempts"));
/// assert_eq!(StopWhy::new(Reason::Cancelled, 1).failures, 1);
/// assert_eq!(Matched::Rule(2).index(), Some(2));
///
/// // Lost attempts are counted apart.
/// let counters = Counters { failures: 2, lost: 1, ..Counters::default() };
/// assert_eq!(counters.ended(), 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Failed attempts, the latest included.
    pub failures: u32,
    /// When the call was first scheduled.
    pub first_scheduled: Timestamp,
    /// When its first attempt began, if one did.
    pub first_started: Option<Timestamp>,
    /// The delay chosen after the failure before this one.
    pub previous_delay: Option<Duration>,
    /// From when the total timeout counts, where that is not when the call was first scheduled:
    /// another activity has taken its place since, which has counters of its own.
    pub total_since: Option<Timestamp>,
}

impl State {
    /// The state after this many failures of a call that was scheduled, and first started, at
    /// `start`.
    pub fn after(failures: u32, start: Timestamp) -> Self {
        let first_started = Some(start);
        let (previous_delay, total_since) = (None, None);
        State { failures, first_scheduled: start, first_started, previous_delay, total_since }
    }

    /// From when the total timeout counts.
    fn total_start(&self) -> Timestamp {
        self.total_since.unwrap_or(self.first_scheduled)
    }
}

/// How the attempts of a call ended. Only failures count against `max_attempts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Attempts that failed.
    pub failures: u32,
    /// Attempts whose process died.
    pub lost: u32,
    /// Attempts that a graceful stop cut short.
    pub interrupted: u32,
    /// Attempts that asked to be run later.
    pub snoozed: u32,
    /// Attempts that failed and began while the gate of their dependency was not flowing.
    pub probed: u32,
}

impl Counters {
    /// Every attempt that ended without success.
    pub fn ended(&self) -> u32 {
        let uncounted = self.lost.saturating_add(self.interrupted).saturating_add(self.snoozed);
        self.failures.saturating_add(uncounted).saturating_add(self.probed)
    }
}

/// What follows a failed attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Another attempt after `delay`.
    Retry {
        /// How long to wait. Write it down: it is never computed again.
        delay: Duration,
        /// How it was chosen.
        why: RetryWhy,
    },
    /// No further attempt.
    Stop {
        /// What ended it.
        why: StopWhy,
    },
}

/// Decides what follows a failed attempt. `u` is a random number from 0 to 1, see [`uniform`].
pub fn decide(
    policy: &CheckedPolicy,
    state: &State,
    failure: &Failure,
    now: Timestamp,
    u: f64,
) -> Decision {
    if let Some(reason) = ended_by_itself(failure) {
        return Decision::Stop { why: StopWhy::new(reason, state.failures) };
    }
    decide_matched(policy, policy.first_match(failure), state, failure, now, u)
}

/// Decides what follows a failed attempt that is free: it began while its gate was not flowing, to
/// see whether the dependency is back. Everything counts as ever but the attempts, and the delay is
/// as for as many failures as there were before.
///
/// ```
/// use resurgam_core::retry::{Decision, RetryPolicy, State, decide, decide_uncounted};
/// use resurgam_core::{Failure, Timestamp};
///
/// let policy = RetryPolicy::DEFAULT.max_attempts(1).check().unwrap();
/// let (state, failure) = (State::after(1, Timestamp::EPOCH), Failure::new("down"));
/// let counted = decide(&policy, &state, &failure, Timestamp::EPOCH, 0.5);
/// let free = decide_uncounted(&policy, &state, &failure, Timestamp::EPOCH, 0.5);
/// assert!(matches!(counted, Decision::Stop { .. }));
/// assert!(matches!(free, Decision::Retry { .. }));
/// ```
pub fn decide_uncounted(
    policy: &CheckedPolicy,
    state: &State,
    failure: &Failure,
    now: Timestamp,
    u: f64,
) -> Decision {
    if let Some(reason) = ended_by_itself(failure) {
        return Decision::Stop { why: StopWhy::new(reason, state.failures) };
    }
    let matched = policy.first_match(failure);
    if let Some(why) = stopped_by_rules(policy, matched, state, failure) {
        return Decision::Stop { why };
    }
    let state = State { failures: state.failures.max(1), ..*state };
    let counts = Counts { attempts: false };
    retry_within_limits(policy, matched, &state, failure.retry_after, counts, now, u)
}

/// Decides whether a run that failed is followed by another one. A failure that it passes on may be
/// that of a call which ran out of time, or of workers. That was the end of the call, and is one
/// failure among others to the run; rules match it as ever.
pub fn decide_run(
    policy: &CheckedPolicy,
    state: &State,
    failure: &Failure,
    now: Timestamp,
    u: f64,
) -> Decision {
    let matched = policy.first_match(failure);
    let mut failure = failure.clone();
    if matches!(failure.kind, Kind::TotalTimeout | Kind::QueueTimeout | Kind::WorkerLost) {
        failure.kind = Kind::Error;
    }
    match ended_by_itself(&failure) {
        Some(reason) => Decision::Stop { why: StopWhy::new(reason, state.failures) },
        None => decide_matched(policy, matched, state, &failure, now, u),
    }
}

/// Decides about a failure of which it is known what the rules say.
pub(crate) fn decide_matched(
    policy: &RetryPolicy,
    matched: Matched,
    state: &State,
    failure: &Failure,
    now: Timestamp,
    u: f64,
) -> Decision {
    if let Some(why) = stopped_by_rules(policy, matched, state, failure) {
        return Decision::Stop { why };
    }
    let counts = Counts { attempts: true };
    retry_within_limits(policy, matched, state, failure.retry_after, counts, now, u)
}

/// Why the rules end a call, if they do.
fn stopped_by_rules(
    policy: &RetryPolicy,
    matched: Matched,
    state: &State,
    failure: &Failure,
) -> Option<StopWhy> {
    let reason = refused(policy, matched, failure)?;
    Some(StopWhy { rule: matched.index(), ..StopWhy::new(reason, state.failures) })
}

/// What of a policy counts for a decision.
#[derive(Clone, Copy)]
struct Counts {
    /// The bound on attempts.
    attempts: bool,
}

/// Decides about a failure that may be tried again as far as the rules are concerned.
fn retry_within_limits(
    policy: &RetryPolicy,
    matched: Matched,
    state: &State,
    hint: Option<Duration>,
    counts: Counts,
    now: Timestamp,
    u: f64,
) -> Decision {
    let rule = matched.index();
    let terms = policy.terms(rule.map(|index| &policy.rules[index]));
    let limit = terms.max_attempts;
    if counts.attempts && !limit.allows(state.failures) {
        let why = StopWhy::new(Reason::MaxAttempts, state.failures);
        return Decision::Stop { why: StopWhy { rule, limit, ..why } };
    }
    let spread = schedule::spread(&terms, state.failures, state.previous_delay);
    let drawn = spread.at(u);
    let (delay, hint) = schedule::with_hint(&policy.server_delay, drawn, hint, u);
    let failures = state.failures;
    let (clipped, lost) = (false, false);
    let why = RetryWhy { rule, failures, limit, spread, drawn, hint, delay, clipped, lost };
    within_time(policy, state, now, why)
}

/// Verdicts that no rule is asked about.
fn ended_by_itself(failure: &Failure) -> Option<Reason> {
    match failure.kind {
        Kind::Cancelled => Some(Reason::Cancelled),
        _ if failure.is_pruned() => Some(Reason::Pruned),
        _ if failure.is_terminal() => Some(Reason::Terminal),
        Kind::TotalTimeout => Some(Reason::TotalTimeout),
        Kind::WorkerLost => Some(Reason::WorkerLost),
        _ => None,
    }
}

impl CheckedPolicy {
    /// True when nothing but the number of attempts, or time, would keep it from trying again after
    /// this failure.
    ///
    /// ```
    /// use resurgam_core::Failure;
    /// use resurgam_core::retry::RetryPolicy;
    ///
    /// let policy = RetryPolicy::DEFAULT.max_attempts(1).never_for(&["Refused"]).check().unwrap();
    /// assert!(policy.would_retry(&Failure::new("down")));
    /// assert!(!policy.would_retry(&Failure::new("no").with_type("Refused")));
    /// ```
    pub fn would_retry(&self, failure: &Failure) -> bool {
        ended_by_itself(failure).is_none()
            && refused(self, self.first_match(failure), failure).is_none()
    }
}

/// Why the rules forbid another attempt, if they do.
fn refused(policy: &RetryPolicy, matched: Matched, failure: &Failure) -> Option<Reason> {
    if failure.retryable == Some(true) {
        return None;
    }
    match matched {
        Matched::NeverFor => Some(Reason::NonRetryable),
        Matched::Rule(index) => {
            (policy.rules[index].then != Verdict::Retry).then_some(Reason::NonRetryable)
        }
        Matched::Nothing if failure.kind == Kind::QueueTimeout => Some(Reason::QueueTimeout),
        Matched::Nothing => (policy.otherwise != Verdict::Retry).then_some(Reason::NoRule),
    }
}

/// Applies `max_elapsed` and the total timeout to a delay that everything else allows.
fn within_time(policy: &RetryPolicy, state: &State, now: Timestamp, mut why: RetryWhy) -> Decision {
    let clock = match policy.clock_from {
        ClockFrom::FirstScheduled => Some(state.first_scheduled),
        ClockFrom::FirstStarted => state.first_started,
    };
    let elapsed = clock.map_or(Duration::ZERO, |start| now.since(start));
    let RetryWhy { rule, failures, limit, delay, .. } = why;
    let stop = |reason, elapsed, delay| Decision::Stop {
        why: StopWhy { reason, rule, failures, limit, elapsed, delay },
    };
    if let Some(max) = policy.max_elapsed {
        let allowed = match policy.deadline {
            DeadlineRule::LookAhead => elapsed.saturating_add(delay) <= max,
            DeadlineRule::CheckOnly | DeadlineRule::Clip => elapsed < max,
        };
        if !allowed {
            return stop(Reason::MaxElapsed, elapsed, delay);
        }
        if policy.deadline == DeadlineRule::Clip && delay > max.saturating_sub(elapsed) {
            why.delay = whole_millis(max.saturating_sub(elapsed));
            why.clipped = true;
        }
    }
    match passes_total(policy, state.total_start(), now, why.delay) {
        Some(total) => stop(Reason::TotalTimeout, total, why.delay),
        None => Decision::Retry { delay: why.delay, why },
    }
}

/// Why a call that would wait this long ends at once, if it does: its total timeout would pass
/// first. For waits that follow no failure; after a failure [`decide()`] knows.
pub fn cannot_wait(
    policy: &CheckedPolicy,
    state: &State,
    now: Timestamp,
    delay: Duration,
) -> Option<StopWhy> {
    let elapsed = passes_total(policy, state.total_start(), now, delay)?;
    Some(StopWhy { elapsed, delay, ..StopWhy::new(Reason::TotalTimeout, state.failures) })
}

/// The time since a call was scheduled, when its total timeout does not let it wait this long. An
/// attempt that begins as that passes would be cut at once.
fn passes_total(
    policy: &RetryPolicy,
    scheduled: Timestamp,
    now: Timestamp,
    delay: Duration,
) -> Option<Duration> {
    let elapsed = now.since(scheduled);
    let passes = |max| elapsed.saturating_add(delay) >= max;
    policy.timeouts.total.is_some_and(passes).then_some(elapsed)
}

fn whole_millis(delay: Duration) -> Duration {
    Duration::from_millis(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX))
}

/// Decides what follows an attempt whose process died. `lost` counts such attempts in a row,
/// without a heartbeat in between, this one included.
///
/// ```
/// use resurgam_core::retry::{decide_lost, Decision, RetryPolicy};
/// use std::time::Duration;
///
/// let policy = RetryPolicy::DEFAULT.check().unwrap();
/// let Decision::Retry { delay, .. } = decide_lost(&policy, 3) else { panic!() };
/// assert_eq!(delay, Duration::from_millis(400));
/// assert!(matches!(decide_lost(&policy, 11), Decision::Stop { .. }));
/// ```
pub fn decide_lost(policy: &CheckedPolicy, lost: u32) -> Decision {
    let LostWorker { max, initial, max_delay } = policy.lost_worker;
    if policy.idempotency == Idempotency::AtMostOnce || lost > max {
        return Decision::Stop { why: StopWhy::new(Reason::WorkerLost, lost) };
    }
    let doubling = RetryPolicy::exponential(initial).max_delay(max_delay).jitter(Jitter::None);
    let spread = schedule::spread(&doubling.terms(None), lost, None);
    let delay = spread.at(0.0);
    let why = RetryWhy {
        rule: None,
        failures: lost,
        limit: Limit::try_from(max).unwrap_or(Limit::Unlimited),
        spread,
        drawn: delay,
        hint: None,
        delay,
        clipped: false,
        lost: true,
    };
    Decision::Retry { delay, why }
}

/// What the rules of a policy found for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matched {
    /// Its type is in `never_for`.
    NeverFor,
    /// The rule at this place.
    Rule(usize),
    /// No rule: `otherwise` decides.
    Nothing,
}

impl Matched {
    /// The place of the rule that matched.
    pub fn index(self) -> Option<usize> {
        match self {
            Matched::Rule(index) => Some(index),
            Matched::NeverFor | Matched::Nothing => None,
        }
    }
}

/// Why there is no further attempt, in the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The call was cancelled.
    Cancelled,
    /// The failure itself forbids it.
    Terminal,
    /// The failure ends a branch of a graph.
    Pruned,
    /// A rule says so.
    NonRetryable,
    /// No rule matched, and `otherwise` is not to retry.
    NoRule,
    /// The attempts are used up.
    MaxAttempts,
    /// The time is used up.
    MaxElapsed,
    /// The total timeout passed, or would pass during the next delay.
    TotalTimeout,
    /// Nobody took the attempt in time.
    QueueTimeout,
    /// Too many attempts in a row were lost with their process.
    WorkerLost,
    /// An operator ended the call.
    Operator,
}

impl Reason {
    /// Every reason, in the order of the checks.
    pub const ALL: [Reason; 11] = [
        Reason::Cancelled,
        Reason::Terminal,
        Reason::Pruned,
        Reason::NonRetryable,
        Reason::NoRule,
        Reason::MaxAttempts,
        Reason::MaxElapsed,
        Reason::TotalTimeout,
        Reason::QueueTimeout,
        Reason::WorkerLost,
        Reason::Operator,
    ];

    /// The name used in histories, records and answers.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Cancelled => "cancelled",
            Reason::Terminal => "terminal",
            Reason::Pruned => "pruned",
            Reason::NonRetryable => "non_retryable",
            Reason::NoRule => "no_rule",
            Reason::MaxAttempts => "max_attempts",
            Reason::MaxElapsed => "max_elapsed",
            Reason::TotalTimeout => "total_timeout",
            Reason::QueueTimeout => "queue_timeout",
            Reason::WorkerLost => "worker_lost",
            Reason::Operator => "operator",
        }
    }

    /// The reason of this name.
    pub fn named(name: &str) -> Option<Self> {
        Reason::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

/// How a delay was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryWhy {
    /// The rule that matched.
    pub rule: Option<usize>,
    /// How many failures there were, or lost attempts in a row.
    pub failures: u32,
    /// The bound they were compared with.
    pub limit: Limit,
    /// The delays that were possible.
    pub spread: Spread,
    /// The delay that was drawn, before the other side and the deadline had their say.
    pub drawn: Duration,
    /// What the other side asked for, as far as it was followed.
    pub hint: Option<Duration>,
    /// The delay after all of that.
    pub delay: Duration,
    /// True when the delay was shortened to end at the deadline.
    pub clipped: bool,
    /// True when the attempt was lost and not failed.
    pub lost: bool,
}

impl fmt::Display for RetryWhy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.lost { "lost attempt" } else { "failure" };
        write!(f, "{what} {}", self.failures)?;
        if let Limit::Attempts(max) = self.limit {
            write!(f, " of {max}")?;
        }
        if let Some(rule) = self.rule {
            write!(f, "; rules[{rule}] matched")?;
        }
        write!(f, "; waits {}", Human(self.delay))?;
        if self.clipped {
            return f.write_str(", shortened to end at max_elapsed");
        }
        if self.hint == Some(self.delay) {
            return f.write_str(", as the other side asked");
        }
        let (shortest, longest) = self.spread.bounds();
        if shortest != longest {
            write!(f, ", drawn from {} to {}", Human(shortest), Human(longest))?;
        }
        if self.spread.capped {
            f.write_str(", capped by max_delay")?;
        }
        match self.hint {
            Some(hint) => write!(f, "; the other side asked for {}", Human(hint)),
            None => Ok(()),
        }
    }
}

/// What ended the retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopWhy {
    /// Which check.
    pub reason: Reason,
    /// The rule that matched.
    pub rule: Option<usize>,
    /// How many failures there were, or lost attempts in a row.
    pub failures: u32,
    /// The bound on attempts that held.
    pub limit: Limit,
    /// The time on the call's clock, where that was the reason.
    pub elapsed: Duration,
    /// The delay that no longer fitted, where that was the reason.
    pub delay: Duration,
}

impl StopWhy {
    /// Stopped for this reason, after this many failures.
    pub fn new(reason: Reason, failures: u32) -> Self {
        let limit = Limit::Unlimited;
        let (elapsed, delay) = (Duration::ZERO, Duration::ZERO);
        StopWhy { reason, rule: None, failures, limit, elapsed, delay }
    }
}

impl StopWhy {
    /// The rule whose terms held, if there was one.
    fn fmt_rule(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rule {
            Some(rule) => write!(f, " (rules[{rule}])"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for StopWhy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.reason.name())?;
        let failures = self.failures;
        match self.reason {
            Reason::Cancelled => f.write_str("the call was cancelled"),
            Reason::Terminal => f.write_str("the failure is never to be tried again"),
            Reason::Pruned => f.write_str("the activity ended its branch"),
            Reason::NonRetryable => match self.rule {
                Some(rule) => write!(f, "rules[{rule}] forbids another attempt"),
                None => f.write_str("its type is in never_for"),
            },
            Reason::NoRule => f.write_str("no rule matches this failure"),
            Reason::MaxAttempts => {
                write!(f, "{failures} of {} attempts failed", self.limit)?;
                self.fmt_rule(f)
            }
            Reason::MaxElapsed | Reason::TotalTimeout if !self.delay.is_zero() => {
                let (elapsed, delay) = (Human(self.elapsed), Human(self.delay));
                write!(f, "{elapsed} have passed and the next wait would be {delay}")?;
                self.fmt_rule(f)
            }
            Reason::MaxElapsed | Reason::TotalTimeout => {
                write!(f, "{} have passed", Human(self.elapsed))?;
                self.fmt_rule(f)
            }
            Reason::QueueTimeout => f.write_str("no worker took the attempt in time"),
            Reason::WorkerLost => write!(f, "{failures} attempts in a row died with their process"),
            Reason::Operator => f.write_str("an operator ended the call"),
        }
    }
}

/// A decision as the record of an attempt tells it: the sentence of a [`RetryWhy`] or a
/// [`StopWhy`], read back.
///
/// ```
/// use resurgam_core::retry::{Matched, Reason, RecordedWhy};
///
/// let again = RecordedWhy::read("failure 2 of 5; rules[1] matched; waits 4s");
/// assert_eq!((again.matched, again.stopped), (Some(Matched::Rule(1)), None));
/// let over = RecordedWhy::read("non_retryable: its type is in never_for");
/// assert_eq!(over.matched, Some(Matched::NeverFor));
/// assert_eq!(over.stopped, Some(Reason::NonRetryable));
/// let terminal = RecordedWhy::read("terminal: the failure is never to be tried again");
/// assert_eq!((terminal.matched, terminal.stopped), (None, Some(Reason::Terminal)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedWhy {
    /// What the rules of the policy found; `None` when they were not asked.
    pub matched: Option<Matched>,
    /// What ended the retries; `None` when another attempt followed.
    pub stopped: Option<Reason>,
}

impl RecordedWhy {
    /// What stands in the sentence of an attempt after which another activity took the place of
    /// the one that was called; its name follows, and is the only text of users' in it.
    pub const FALLS_BACK: &str = "; falls back to ";

    /// What stands at the end of the sentence of an attempt that was free.
    pub const FREE: &str = "; not counted: its gate was not flowing";

    /// Reads the sentence.
    pub fn read(sentence: &str) -> Self {
        let sentence = sentence.split(RecordedWhy::FALLS_BACK).next().unwrap_or_default();
        let stopped = sentence.split_once(':').and_then(|(name, _)| Reason::named(name));
        let rule = sentence.split_once("rules[").and_then(|(_, rest)| rest.split_once(']'));
        let rule = rule.and_then(|(index, _)| index.parse().ok()).map(Matched::Rule);
        let otherwise = match stopped {
            Some(Reason::NonRetryable) => Some(Matched::NeverFor),
            Some(
                Reason::NoRule | Reason::MaxAttempts | Reason::MaxElapsed | Reason::QueueTimeout,
            ) => Some(Matched::Nothing),
            // A total timeout ends what runs as well as what waits, and is told as one.
            Some(_) => None,
            None => sentence.starts_with("failure ").then_some(Matched::Nothing),
        };
        RecordedWhy { matched: rule.or(otherwise), stopped }
    }
}

/// A random number from 0 (included) to 1 (excluded) for a failure of a call: the same for the
/// same arguments, unrelated for others. It needs no state, can be checked after the fact, and
/// spreads calls that failed together.
///
/// ```
/// use resurgam_core::retry::uniform;
///
/// assert_eq!(uniform(7, 1, 3, 1), uniform(7, 1, 3, 1));
/// assert_ne!(uniform(7, 1, 3, 1), uniform(7, 1, 3, 2));
/// ```
pub fn uniform(uid: u128, run: u32, seq: u64, failures: u32) -> f64 {
    let mut hash = 0x9E37_79B9_7F4A_7C15_u64;
    let parts = [uid as u64, (uid >> 64) as u64, u64::from(run), seq, u64::from(failures)];
    for part in parts {
        hash = mix(hash ^ part);
    }
    // The upper 53 bits, as many as an f64 holds.
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}

/// The finaliser of SplitMix64: every input bit changes half of the output bits.
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}
