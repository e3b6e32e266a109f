//! What a retry policy is made of. Plain data; the defaults are written here and nowhere else.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::duration;
use crate::{Kind, Names};

/// No delay is longer than this, whatever a policy or a server says: 365 days.
pub const CEILING: Duration = Duration::from_secs(365 * 86_400);

/// When, how often and how long an activity is tried again.
///
/// Build one in Rust, from [`RetryPolicy::exponential`] and its neighbours, or read one from JSON
/// or TOML with serde. An omitted field has the value of [`RetryPolicy::DEFAULT`], except that a
/// policy which names a backoff and no `max_delay` is bounded by [`CEILING`] only.
///
/// ```
/// use resurgam_core::retry::RetryPolicy;
///
/// let policy: RetryPolicy = serde_json::from_str(
///     r#"{ "backoff": {"type": "exponential", "initial": "200ms"}, "max_delay": "30s",
///          "max_attempts": 8, "never_for": ["CardDeclined"] }"#,
/// )?;
/// assert_eq!(policy.max_attempts.to_string(), "8");
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// Everything that can be said, in a `const`:
///
/// ```
/// use resurgam_core::Kind;
/// use resurgam_core::retry::{
///     Backoff, CapOrder, ClockFrom, DeadlineRule, Exhausted, Idempotency, Jitter, LostWorker,
///     Match, RetryPolicy, Rule, ServerDelay, ServerDelayMode, Timeouts, Verdict,
/// };
/// use std::time::Duration;
///
/// const SECOND: Duration = Duration::from_secs(1);
/// const MINUTE: Duration = Duration::from_secs(60);
///
/// const RULES: &[Rule] = &[
///     Rule::retry(Match::codes(&["429", "503"])).max_attempts(20).max_delay(MINUTE),
///     Rule::retry(Match::message("(?i)connect")).backoff(Backoff::None).jitter(Jitter::None),
///     Rule::fail(Match::types(&["InvalidRequest"])),
///     Rule::fail(Match::kinds(&[Kind::Panic])),
/// ];
///
/// const PAYMENT: RetryPolicy = RetryPolicy::with_backoff(Backoff::exponential(SECOND))
///     .multiplier(1.5)
///     .max_attempts(8)
///     .max_delay(MINUTE)
///     .jitter(Jitter::Full)
///     .cap(CapOrder::Truncate)
///     .max_elapsed(Duration::from_secs(3_600))
///     .deadline(DeadlineRule::LookAhead)
///     .clock_from(ClockFrom::FirstScheduled)
///     .timeouts(Timeouts {
///         attempt: Some(MINUTE),
///         heartbeat: Some(SECOND),
///         queue: None,
///         total: None,
///     })
///     .never_for(&["CardDeclined"])
///     .rules(RULES)
///     .otherwise(Verdict::Retry)
///     .lost_worker(LostWorker { max: 3, initial: SECOND, max_delay: MINUTE })
///     .server_delay(ServerDelay { mode: ServerDelayMode::Exact, max: MINUTE, jitter: 0.1 })
///     .idempotency(Idempotency::Keyed)
///     .on_exhausted(Exhausted::Fail);
/// assert!(PAYMENT.check().is_ok());
/// assert!(Match::ALL.is_catch_all());
///
/// // Shorter beginnings.
/// assert_eq!(RetryPolicy::once().max_attempts.to_string(), "1");
/// assert_eq!(RetryPolicy::fixed(MINUTE).unlimited().max_attempts.to_string(), "unlimited");
/// let growing = RetryPolicy::linear(SECOND);
/// let sums = growing.backoff(Backoff::Fibonacci { initial: SECOND });
/// assert!(sums.check().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RetryPolicy {
    /// Bound on attempts, the first included.
    pub max_attempts: Limit,
    /// How the delay grows with the number of failures.
    pub backoff: Backoff,
    /// Bound on one delay; `None` leaves only the ceiling of 365 days.
    #[serde(serialize_with = "max_delay_text")]
    pub max_delay: Option<Duration>,
    /// How a delay is spread.
    pub jitter: Jitter,
    /// Whether `max_delay` is applied before or after the jitter.
    #[serde(skip_serializing_if = "is_default")]
    pub cap: CapOrder,
    /// Bound on the time since the call's clock started; only stops retrying.
    #[serde(
        serialize_with = "duration::serialize_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub max_elapsed: Option<Duration>,
    /// What `max_elapsed` is compared with.
    #[serde(skip_serializing_if = "is_default")]
    pub deadline: DeadlineRule,
    /// When the clock of `max_elapsed` starts.
    #[serde(skip_serializing_if = "is_default")]
    pub clock_from: ClockFrom,
    /// Timeouts of an attempt and of the call.
    #[serde(skip_serializing_if = "is_default")]
    pub timeouts: Timeouts,
    /// Failure types that are never tried again: short for a first rule that says `fail`.
    #[serde(skip_serializing_if = "Names::is_empty")]
    pub never_for: Names,
    /// What to do about which failure; the first rule that matches wins.
    #[serde(skip_serializing_if = "no_rules")]
    pub rules: Cow<'static, [Rule]>,
    /// What to do about a failure that no rule matches.
    #[serde(skip_serializing_if = "is_default")]
    pub otherwise: Verdict,
    /// What to do about attempts whose process died.
    #[serde(skip_serializing_if = "is_default")]
    pub lost_worker: LostWorker,
    /// Whether the other side may choose the delay.
    #[serde(skip_serializing_if = "is_default")]
    pub server_delay: ServerDelay,
    /// What is known about running the activity twice.
    #[serde(skip_serializing_if = "is_default")]
    pub idempotency: Idempotency,
    /// What happens when the policy gives up.
    #[serde(skip_serializing_if = "is_default")]
    pub on_exhausted: Exhausted,
}

/// Lends a policy that is used again where one is asked for.
impl From<&RetryPolicy> for RetryPolicy {
    fn from(policy: &RetryPolicy) -> Self {
        policy.clone()
    }
}

/// Bound on attempts, the first included.
///
/// ```
/// use resurgam_core::retry::Limit;
///
/// let three = Limit::try_from(3)?;
/// assert!(three.allows(2)); // after two failures there is a third attempt
/// assert!(!three.allows(3));
/// assert!(Limit::Unlimited.allows(u32::MAX));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At most this many.
    Attempts(NonZeroU32),
    /// As many as it takes.
    Unlimited,
}

/// How the delay grows with the number `r` of failures so far, the latest included.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Backoff {
    /// No delay.
    None,
    /// One delay, every time.
    Fixed {
        /// The delay.
        #[serde(serialize_with = "duration::serialize")]
        delay: Duration,
    },
    /// `initial + increment * (r - 1)`.
    Linear {
        /// The first delay.
        #[serde(serialize_with = "duration::serialize")]
        initial: Duration,
        /// What each further failure adds; `initial` when left out.
        #[serde(
            serialize_with = "duration::serialize_option",
            skip_serializing_if = "Option::is_none"
        )]
        increment: Option<Duration>,
    },
    /// `initial * multiplier^(r - 1)`.
    Exponential {
        /// The first delay.
        #[serde(serialize_with = "duration::serialize")]
        initial: Duration,
        /// What each further failure multiplies the delay by.
        multiplier: f64,
    },
    /// `offset + scale * (r - shift)^power`, the second term 0 while `r <= shift`.
    Polynomial {
        /// The delay at `r - shift = 1`, without the offset.
        #[serde(serialize_with = "duration::serialize")]
        scale: Duration,
        /// The exponent.
        power: f64,
        /// How many failures pass before the term begins to grow.
        #[serde(skip_serializing_if = "is_default")]
        shift: u32,
        /// Added to every delay.
        #[serde(serialize_with = "duration::serialize", skip_serializing_if = "Duration::is_zero")]
        offset: Duration,
    },
    /// `initial * F(r)` with the Fibonacci numbers 1, 1, 2, 3, 5, ...
    Fibonacci {
        /// The first and second delay.
        #[serde(serialize_with = "duration::serialize")]
        initial: Duration,
    },
    /// A list of delays; the last one repeats.
    Schedule {
        /// The delays in order.
        #[serde(serialize_with = "delays_text")]
        delays: Cow<'static, [Duration]>,
    },
    /// One backoff after another, each for a number of failures; the last one goes on.
    Phases {
        /// How many failures each backoff serves, with `r` counted anew from 1.
        phases: Cow<'static, [(u32, Backoff)]>,
    },
}

/// How a delay is spread, so that callers that failed together do not return together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Jitter {
    /// Not at all.
    None,
    /// From 0 to the delay.
    Full,
    /// From half the delay to the delay.
    Equal,
    /// From the initial delay to three times the previous one; replaces the backoff's growth.
    Decorrelated,
    /// From `1 - j` to `1 + j` times the delay.
    Proportional(f64),
    /// From `lo` to `hi` times the delay.
    Range {
        /// Factor of the shortest draw.
        lo: f64,
        /// Factor of the longest draw.
        hi: f64,
    },
    /// From the delay to the delay plus this.
    Additive(Duration),
}

/// Where `max_delay` meets the jitter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CapOrder {
    /// The delay is capped and the draw kept below the cap: spread out and never above it.
    #[default]
    Truncate,
    /// The delay is capped, then spread; a draw may pass the cap (gRPC).
    Before,
    /// The delay is spread, then capped; draws pile up at the cap (Exosphere).
    After,
}

/// How `max_elapsed` (L) is compared with the time elapsed (e) and the next delay (d).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadlineRule {
    /// Retry when `e + d <= L` (Cadence, Temporal).
    #[default]
    LookAhead,
    /// Retry when `e < L`; the next attempt may begin late (Edda).
    CheckOnly,
    /// Retry when `e < L`, waiting at most until L (failsafe-go).
    Clip,
}

/// When the clock of `max_elapsed` starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockFrom {
    /// When the call was first scheduled.
    #[default]
    FirstScheduled,
    /// When its first attempt began.
    FirstStarted,
}

/// Why a policy of a workflow has no timeouts: they bound attempts of activities.
pub const NO_TIMEOUTS: &str = "timeouts: a workflow has no attempts to bound; bound each of its runs \
                               with run_timeout, and all of them together with total_timeout";

/// Timeouts of an attempt and of the whole call; each may be absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timeouts {
    /// From an attempt's start to its end.
    #[serde(
        serialize_with = "duration::serialize_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub attempt: Option<Duration>,
    /// From an attempt's start, or its last heartbeat, to the next.
    #[serde(
        serialize_with = "duration::serialize_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub heartbeat: Option<Duration>,
    /// From the moment an attempt is due to its start.
    #[serde(
        serialize_with = "duration::serialize_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub queue: Option<Duration>,
    /// From the first scheduling to the end of the call, all attempts included.
    #[serde(
        serialize_with = "duration::serialize_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub total: Option<Duration>,
}

/// What to do about the failures that a [`Match`] describes. What a rule leaves out, the policy
/// says; all rules share one count of failures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rule {
    /// Which failures it is about.
    #[serde(skip_serializing_if = "is_default")]
    pub on: Match,
    /// What to do about them.
    pub then: Verdict,
    /// Bound on attempts in place of the policy's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<Limit>,
    /// Backoff in place of the policy's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// Bound on one delay in place of the policy's.
    #[serde(
        serialize_with = "duration::serialize_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub max_delay: Option<Duration>,
    /// Jitter in place of the policy's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Jitter>,
    /// What happens on giving up, in place of the policy's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_exhausted: Option<Exhausted>,
}

/// Which failures a rule is about. Every condition that is given must hold; a list holds when one
/// of its entries does; with no condition it matches everything.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Match {
    /// Names of types; the empty name stands for a failure without one.
    #[serde(skip_serializing_if = "Names::is_empty")]
    pub types: Names,
    /// Kinds of trouble.
    #[serde(skip_serializing_if = "no_kinds")]
    pub kinds: Cow<'static, [Kind]>,
    /// Codes of the other side.
    #[serde(skip_serializing_if = "Names::is_empty")]
    pub codes: Names,
    /// Whether a type also matches the types that descend from it.
    #[serde(skip_serializing_if = "is_true")]
    pub subclass: bool,
    /// A regular expression that is found somewhere in the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Cow<'static, str>>,
}

/// What a rule, or `otherwise`, says about a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Try again while the limits allow it.
    #[default]
    Retry,
    /// Stop, the call fails.
    Fail,
    /// Stop, and keep the call for an operator.
    DeadLetter,
    /// Stop, and wait for an operator.
    Pause,
}

/// What to do about attempts whose process died. They are not counted in `max_attempts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LostWorker {
    /// How many in a row, without a heartbeat in between, before the call ends.
    pub max: u32,
    /// The delay after the first; it doubles with every further one.
    #[serde(serialize_with = "duration::serialize")]
    pub initial: Duration,
    /// Bound on that delay.
    #[serde(serialize_with = "duration::serialize")]
    pub max_delay: Duration,
}

/// Whether a delay that the other side asked for (`Retry-After`) is followed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ServerDelay {
    /// How it is combined with ours.
    pub mode: ServerDelayMode,
    /// Bound on what is followed.
    #[serde(serialize_with = "duration::serialize")]
    pub max: Duration,
    /// Upward spread as a share of the wish: everybody gets the same reset time from a server.
    pub jitter: f64,
}

/// How a wish of the other side is combined with the policy's delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerDelayMode {
    /// Not at all.
    Ignore,
    /// The longer of the two.
    AtLeast,
    /// The wish replaces the policy's delay.
    Exact,
}

/// What is known about running the activity more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Idempotency {
    /// Nothing.
    #[default]
    Unknown,
    /// Running it twice does no harm.
    Idempotent,
    /// It passes its idempotency key on, so the other side drops repeats.
    Keyed,
    /// It must not run twice: an attempt in doubt ends the call.
    AtMostOnce,
}

/// What happens when the policy gives up.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Exhausted {
    /// The call fails.
    #[default]
    Fail,
    /// The call is kept for an operator.
    DeadLetter,
    /// The call stays open and paused: an operator resumes it, completes it or fails it.
    Pause {
        /// How long before it fails by itself, for the reason that paused it.
        wait: Option<Duration>,
    },
    /// The run fails, whatever its code would do, and is undone.
    Compensate,
    /// Another activity goes on in its place: with the same argument, its own policy, and failures
    /// counted from 0.
    FallbackActivity(Cow<'static, str>),
    /// A fixed value is returned in its place.
    FallbackValue(serde_json::Value),
}

impl RetryPolicy {
    /// This policy where it is set in the place of another one, for all calls of an activity: the
    /// timeouts of the other one stay, and what must not run twice still must not.
    ///
    /// ```
    /// use resurgam_core::retry::{RetryPolicy, Timeouts};
    /// use std::time::Duration;
    ///
    /// let total = Timeouts { total: Some(Duration::from_secs(60)), ..Timeouts::default() };
    /// let of_the_call = RetryPolicy::DEFAULT.timeouts(total);
    /// let set = RetryPolicy::once().in_place_of(&of_the_call);
    /// assert_eq!(set, RetryPolicy::once().timeouts(total));
    /// ```
    #[must_use]
    pub fn in_place_of(&self, other: &RetryPolicy) -> RetryPolicy {
        let mut policy = RetryPolicy { timeouts: other.timeouts, ..self.clone() };
        if other.idempotency == Idempotency::AtMostOnce {
            policy.idempotency = Idempotency::AtMostOnce;
        }
        policy
    }
}

impl Limit {
    /// True when another attempt may follow this many failures.
    pub const fn allows(self, failures: u32) -> bool {
        match self {
            Limit::Attempts(max) => failures < max.get(),
            Limit::Unlimited => true,
        }
    }
}

/// Zero is refused: the limit counts the first attempt.
impl TryFrom<u32> for Limit {
    type Error = &'static str;

    fn try_from(attempts: u32) -> Result<Self, Self::Error> {
        NonZeroU32::new(attempts).map(Limit::Attempts).ok_or(Limit::ZERO)
    }
}

impl Limit {
    pub(crate) const ZERO: &'static str = "max_attempts: 0 is not allowed; it counts the first \
        attempt. Use 1 for no retries or \"unlimited\".";
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Attempts(max) => max.fmt(f),
            Limit::Unlimited => f.write_str("unlimited"),
        }
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Limit::Attempts(max) => serializer.serialize_u32(max.get()),
            Limit::Unlimited => serializer.serialize_str("unlimited"),
        }
    }
}

impl Serialize for Jitter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Jitter::Proportional(share) => one_entry(serializer, "proportional", share),
            Jitter::Range { lo, hi } => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("lo", lo)?;
                map.serialize_entry("hi", hi)?;
                map.end()
            }
            Jitter::None => serializer.serialize_str("none"),
            Jitter::Full => serializer.serialize_str("full"),
            Jitter::Equal => serializer.serialize_str("equal"),
            Jitter::Decorrelated => serializer.serialize_str("decorrelated"),
            Jitter::Additive(most) => one_entry(serializer, "additive", &text(*most)),
        }
    }
}

impl Serialize for Exhausted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde_json::json;
        match self {
            Exhausted::Fail => serializer.serialize_str("fail"),
            Exhausted::DeadLetter => serializer.serialize_str("dead_letter"),
            Exhausted::Compensate => serializer.serialize_str("compensate"),
            Exhausted::Pause { wait: None } => serializer.serialize_str("pause"),
            Exhausted::Pause { wait: Some(wait) } => {
                one_entry(serializer, "pause", &json!({ "for": text(*wait) }))
            }
            Exhausted::FallbackActivity(name) => {
                one_entry(serializer, "fallback", &json!({ "activity": name }))
            }
            Exhausted::FallbackValue(value) => {
                one_entry(serializer, "fallback", &json!({ "value": value }))
            }
        }
    }
}

fn one_entry<S: Serializer>(
    serializer: S,
    key: &str,
    value: &impl Serialize,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(key, value)?;
    map.end()
}

fn text(value: Duration) -> String {
    duration::Text(value).to_string()
}

/// An absent `max_delay` is written out, because leaving it out beside no backoff means 60 s.
fn max_delay_text<S: Serializer>(value: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => duration::serialize(value, to),
        None => to.serialize_str("unlimited"),
    }
}

fn delays_text<S: Serializer>(delays: &[Duration], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(delays.iter().map(|delay| text(*delay)))
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_true(value: &bool) -> bool {
    *value
}

fn no_rules(rules: &[Rule]) -> bool {
    rules.is_empty()
}

fn no_kinds(kinds: &[Kind]) -> bool {
    kinds.is_empty()
}
