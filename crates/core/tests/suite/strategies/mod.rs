//! Policies, failures and configurations for the property tests.
//!
//! Two kinds of policies: `garbage`, which nobody checked and which holds every number there is,
//! and `valid`, which passes the check and still reaches for the ends of what it allows.

use std::borrow::Cow;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use resurgam_core::duration::{LONGEST, Text};
use resurgam_core::retry::dialect::Dialect;
use resurgam_core::retry::{
    Backoff, CEILING, CapOrder, ClockFrom, DeadlineRule, Exhausted, Idempotency, Jitter, Limit,
    LostWorker, Match, RetryPolicy, Rule, ServerDelay, ServerDelayMode, State, Timeouts, Verdict,
};
use resurgam_core::{Failure, Kind, Names, Timestamp};
use serde_json::{Value, json};

/// Names of types, some of which mean something of their own in a dialect.
const NAMES: [&str; 10] = [
    "A",
    "B",
    "pkg.Error",
    "Größe",
    "",
    "two words",
    "Exception",
    "ActionTimeout",
    "cadenceInternal:Panic",
    "cadenceInternal:Generic",
];

/// Names that are no more than names in every dialect.
const PLAIN_NAMES: [&str; 4] = ["ValueError", "KeyError", "pkg.Error", "_Private"];

/// The numbers of failures at which something may happen.
pub(crate) fn failures() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => 0..20_u32,
        2 => 20..3_000_u32,
        1 => select(vec![u32::MAX, u32::MAX - 1, 1 << 31, (1 << 31) + 1]),
        1 => any::<u32>(),
    ]
}

/// Random numbers, also of callers who got them wrong.
pub(crate) fn draw() -> impl Strategy<Value = f64> {
    prop_oneof![4 => 0.0..1.0, 1 => select(vec![0.0, 0.5, 1.0]), 2 => number()]
}

/// Every `f64` there is.
fn number() -> impl Strategy<Value = f64> {
    let special = vec![
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        0.0,
        -0.0,
        1.0,
        2.0,
    ];
    prop_oneof![1 => select(special), 1 => -2.0..20.0, 1 => proptest::num::f64::ANY]
}

/// Every duration there is.
fn any_duration() -> impl Strategy<Value = Duration> {
    let any = (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(s, n)| Duration::new(s, n));
    prop_oneof![4 => duration(), 1 => Just(Duration::MAX), 1 => any]
}

/// Durations that a policy may name.
pub(crate) fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        4 => (0..100_000_u64).prop_map(Duration::from_millis),
        2 => (0..10_000_000_000_u64).prop_map(Duration::from_nanos),
        1 => (0..=LONGEST.as_secs()).prop_map(Duration::from_secs),
        1 => select(vec![
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_nanos(999_999),
            // The nudge before flooring is as long as a nanosecond from here on.
            Duration::from_secs(1_000) - Duration::from_nanos(1),
            CEILING,
            CEILING + Duration::from_nanos(1),
            LONGEST,
        ]),
    ]
}

fn positive() -> impl Strategy<Value = Duration> {
    duration().prop_map(|time| time.max(Duration::from_nanos(1)))
}

/// Durations in whole milliseconds, which every dialect can say.
fn whole() -> impl Strategy<Value = Duration> {
    prop_oneof![0..100_000_u64, 0..CEILING.as_millis() as u64].prop_map(Duration::from_millis)
}

fn limit() -> impl Strategy<Value = Limit> {
    let attempts = prop_oneof![8 => 1..30_u32, 1 => 30..3_000_u32, 1 => Just(u32::MAX)];
    let attempts = attempts.prop_map(|max| Limit::try_from(max).unwrap());
    prop_oneof![6 => attempts, 1 => Just(Limit::Unlimited)]
}

fn names(from: &'static [&'static str]) -> impl Strategy<Value = Names> {
    vec(select(from), 0..3)
        .prop_map(|names| Names::from(names.into_iter().map(str::to_string).collect::<Vec<_>>()))
}

/// Backoffs made of these durations, multipliers and powers.
fn backoff<D: Strategy<Value = Duration> + Clone + 'static>(
    time: D,
    multiplier: BoxedStrategy<f64>,
    power: BoxedStrategy<f64>,
) -> BoxedStrategy<Backoff> {
    let simple = prop_oneof![
        Just(Backoff::None),
        time.clone().prop_map(|delay| Backoff::Fixed { delay }),
        (time.clone(), option::of(time.clone()))
            .prop_map(|(initial, increment)| Backoff::Linear { initial, increment }),
        (time.clone(), multiplier)
            .prop_map(|(initial, multiplier)| Backoff::Exponential { initial, multiplier }),
        (time.clone(), power, 0..5_u32, time.clone()).prop_map(|(scale, power, shift, offset)| {
            Backoff::Polynomial { scale, power, shift, offset }
        }),
        time.clone().prop_map(|initial| Backoff::Fibonacci { initial }),
        vec(time, 1..4).prop_map(|delays| Backoff::Schedule { delays: delays.into() }),
    ];
    simple
        .prop_recursive(3, 6, 2, |inner| {
            vec((1..6_u32, inner), 1..3)
                .prop_map(|phases| Backoff::Phases { phases: phases.into() })
        })
        .boxed()
}

fn jitter(
    share: impl Strategy<Value = f64>,
    range: impl Strategy<Value = (f64, f64)>,
    extra: impl Strategy<Value = Duration>,
) -> impl Strategy<Value = Jitter> {
    prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        Just(Jitter::Decorrelated),
        share.prop_map(Jitter::Proportional),
        range.prop_map(|(lo, hi)| Jitter::Range { lo, hi }),
        extra.prop_map(Jitter::Additive),
    ]
}

pub(crate) fn valid_jitter() -> impl Strategy<Value = Jitter> {
    let range = (0.0..=10.0, 0.0..=10.0).prop_map(|(a, b): (f64, f64)| (a.min(b), a.max(b)));
    jitter(prop_oneof![0.0..=1.0, select(vec![0.0, 1.0])], range, duration())
}

pub(crate) fn valid_backoff() -> BoxedStrategy<Backoff> {
    let tiny = f64::MIN_POSITIVE;
    let multiplier = prop_oneof![
        4 => 1.0..4.0,
        1 => 0.01..1.0,
        1 => select(vec![1.0, 2.0, tiny, f64::MAX, 1.0 + f64::EPSILON]),
    ];
    let power = prop_oneof![4 => 0.0..6.0, 1 => select(vec![0.0, f64::MAX, tiny])];
    backoff(duration().boxed(), multiplier.boxed(), power.boxed())
}

fn exhausted() -> impl Strategy<Value = Exhausted> {
    prop_oneof![
        4 => Just(Exhausted::Fail),
        1 => Just(Exhausted::DeadLetter),
        1 => Just(Exhausted::Compensate),
        1 => option::of(duration()).prop_map(|wait| Exhausted::Pause { wait }),
        1 => select(&NAMES[..])
            .prop_filter("an activity has a name", |name| !name.is_empty())
            .prop_map(|name| Exhausted::FallbackActivity(name.into())),
        1 => json_value().prop_map(Exhausted::FallbackValue),
    ]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let others = select(vec![Verdict::DeadLetter, Verdict::Pause]);
    prop_oneof![4 => Just(Verdict::Retry), 3 => Just(Verdict::Fail), 1 => others]
}

fn matcher() -> impl Strategy<Value = Match> {
    let kinds = vec(select(&Kind::ALL[..]), 0..2);
    let message = option::weighted(0.2, select(vec!["", "over(load|run)", "^5\\d\\d", "(?i)ö"]));
    let codes = names(&["429", "503"]);
    (names(&NAMES), kinds, codes, any::<bool>(), message).prop_map(
        |(types, kinds, codes, subclass, message)| Match {
            types,
            kinds: kinds.into(),
            codes,
            subclass,
            message: message.map(Cow::Borrowed),
        },
    )
}

fn rule(backoff: BoxedStrategy<Backoff>) -> impl Strategy<Value = Rule> {
    let terms = (
        option::of(limit()),
        option::of(backoff),
        option::of(positive()),
        option::of(valid_jitter()),
        option::of(exhausted()),
    );
    (matcher(), verdict(), terms).prop_map(|(on, then, terms)| {
        let (max_attempts, backoff, max_delay, jitter, on_exhausted) = terms;
        Rule { on, then, max_attempts, backoff, max_delay, jitter, on_exhausted }
    })
}

fn timeouts(time: BoxedStrategy<Duration>) -> impl Strategy<Value = Timeouts> {
    let time = || option::weighted(0.2, time.clone());
    (time(), time(), time(), time()).prop_map(|(attempt, heartbeat, queue, total)| Timeouts {
        attempt,
        heartbeat,
        queue,
        total,
    })
}

fn server_delay(
    max: impl Strategy<Value = Duration>,
    jitter: impl Strategy<Value = f64>,
) -> impl Strategy<Value = ServerDelay> {
    use ServerDelayMode::{AtLeast, Exact, Ignore};
    (select(vec![Ignore, AtLeast, Exact]), max, jitter)
        .prop_map(|(mode, max, jitter)| ServerDelay { mode, max, jitter })
}

fn caps() -> impl Strategy<Value = CapOrder> {
    select(vec![CapOrder::Truncate, CapOrder::Before, CapOrder::After])
}

fn deadlines() -> impl Strategy<Value = (DeadlineRule, ClockFrom)> {
    use DeadlineRule::{CheckOnly, Clip, LookAhead};
    (
        select(vec![LookAhead, CheckOnly, Clip]),
        select(vec![ClockFrom::FirstScheduled, ClockFrom::FirstStarted]),
    )
}

/// Policies that nobody checked: NaN, infinities, the longest duration and the largest count.
pub(crate) fn garbage() -> impl Strategy<Value = RetryPolicy> {
    let backoff = || backoff(any_duration().boxed(), number().boxed(), number().boxed());
    let jitter = jitter(number(), (number(), number()), any_duration());
    let shape = (limit(), backoff(), option::of(any_duration()), jitter, caps());
    let time = (option::of(any_duration()), deadlines(), timeouts(any_duration().boxed()));
    let rest = (
        vec(rule(backoff()), 0..3),
        server_delay(any_duration(), number()),
        (any::<u32>(), any_duration(), any_duration()),
    );
    (shape, time, rest).prop_map(|(shape, time, rest)| {
        let (max_attempts, backoff, max_delay, jitter, cap) = shape;
        let (max_elapsed, (deadline, clock_from), timeouts) = time;
        let (rules, server_delay, (max, initial, longest)) = rest;
        RetryPolicy {
            max_attempts,
            backoff,
            max_delay,
            jitter,
            cap,
            max_elapsed,
            deadline,
            clock_from,
            timeouts,
            rules: rules.into(),
            server_delay,
            lost_worker: LostWorker { max, initial, max_delay: longest },
            ..RetryPolicy::DEFAULT
        }
    })
}

/// Policies that pass the check.
pub(crate) fn valid() -> impl Strategy<Value = RetryPolicy> {
    let shape = (limit(), valid_backoff(), option::of(positive()), valid_jitter(), caps());
    let time = (option::of(positive()), deadlines(), timeouts(positive().boxed()));
    let rules = (names(&NAMES), vec(rule(valid_backoff()), 0..3), verdict());
    let lost = (0..20_u32, duration(), duration());
    let idempotency = select(vec![
        Idempotency::Unknown,
        Idempotency::Idempotent,
        Idempotency::Keyed,
        Idempotency::AtMostOnce,
    ]);
    let rest = (
        option::of(lost),
        option::of(server_delay(duration(), 0.0..=10.0)),
        idempotency,
        exhausted(),
    );
    (shape, time, rules, rest).prop_map(|(shape, time, rules, rest)| {
        let (max_attempts, backoff, max_delay, jitter, cap) = shape;
        let (max_elapsed, (deadline, clock_from), timeouts) = time;
        let (never_for, rules, otherwise) = rules;
        let (lost, server_delay, idempotency, on_exhausted) = rest;
        let lost = lost.map(|(max, initial, max_delay)| LostWorker { max, initial, max_delay });
        made_valid(RetryPolicy {
            max_attempts,
            backoff,
            max_delay,
            jitter,
            cap,
            max_elapsed,
            deadline,
            clock_from,
            timeouts,
            never_for,
            rules: rules.into(),
            otherwise,
            lost_worker: lost.unwrap_or_default(),
            server_delay: server_delay.unwrap_or_default(),
            idempotency,
            on_exhausted,
        })
    })
}

/// Policies without much that only we can say, so that other dialects often can say them too.
pub(crate) fn simple() -> impl Strategy<Value = RetryPolicy> {
    let times = (whole(), option::weighted(0.3, whole()));
    let backoff = prop_oneof![
        1 => Just(Backoff::None),
        2 => whole().prop_map(|delay| Backoff::Fixed { delay }),
        2 => times.prop_map(|(initial, increment)| Backoff::Linear { initial, increment }),
        5 => (whole(), select(vec![0.5, 1.0, 1.5, 2.0, 3.0]))
            .prop_map(|(initial, multiplier)| Backoff::Exponential { initial, multiplier }),
        1 => whole().prop_map(|initial| Backoff::Fibonacci { initial }),
    ];
    let jitter = prop_oneof![
        9 => Just(Jitter::None),
        1 => select(vec![Jitter::Full, Jitter::Equal, Jitter::Proportional(0.5)]),
    ];
    let attempt = option::weighted(0.2, whole());
    let shape = (limit(), backoff, option::weighted(0.3, whole()), jitter, caps());
    let time = (option::weighted(0.2, whole()), deadlines(), attempt);
    let verdict = select(vec![Verdict::Retry, Verdict::Fail]);
    let never_for = prop_oneof![9 => Just(Names::NONE), 1 => names(&NAMES)];
    let rules = prop_oneof![Just(Vec::new()), vec(simple_rule(), 0..3)];
    let rules = (never_for, rules, verdict);
    (shape, time, rules).prop_map(|(shape, time, rules)| {
        let (max_attempts, backoff, max_delay, jitter, cap) = shape;
        let (max_elapsed, (deadline, clock_from), attempt) = time;
        let (never_for, rules, otherwise) = rules;
        made_valid(RetryPolicy {
            max_attempts,
            backoff,
            max_delay,
            jitter,
            cap,
            max_elapsed,
            deadline,
            clock_from,
            timeouts: Timeouts { attempt, ..Timeouts::default() },
            never_for,
            rules: rules.into(),
            otherwise,
            ..RetryPolicy::DEFAULT
        })
    })
}

fn simple_rule() -> impl Strategy<Value = Rule> {
    let named = (names(&NAMES), any::<bool>());
    let on = prop_oneof![
        3 => names(&PLAIN_NAMES).prop_map(|types| Match { types, ..Match::ALL }),
        3 => named.prop_map(|(types, subclass)| Match { types, subclass, ..Match::ALL }),
        1 => Just(Match::kinds(&[Kind::Timeout])),
        1 => Just(Match::kinds(&[Kind::Panic, Kind::QueueTimeout])),
    ];
    let backoff = whole().prop_map(Backoff::exponential);
    let terms = (option::weighted(0.3, limit()), option::weighted(0.2, backoff));
    (on, select(vec![Verdict::Retry, Verdict::Fail]), terms).prop_map(
        |(on, then, (max_attempts, backoff))| Rule {
            on,
            then,
            max_attempts,
            backoff,
            ..Rule::default()
        },
    )
}

/// Changes what the check refuses about fields that depend on one another.
fn made_valid(mut policy: RetryPolicy) -> RetryPolicy {
    let some = |time: Option<Duration>| time.filter(|time| !time.is_zero());
    policy.max_delay = some(policy.max_delay);
    policy.max_elapsed = some(policy.max_elapsed);
    policy.timeouts.attempt = some(policy.timeouts.attempt);
    let Timeouts { attempt, heartbeat, .. } = policy.timeouts;
    if attempt.zip(policy.max_elapsed).is_some_and(|(attempt, max)| attempt > max) {
        policy.timeouts.attempt = None;
    }
    if attempt.zip(heartbeat).is_some_and(|(attempt, heartbeat)| heartbeat >= attempt) {
        policy.timeouts.heartbeat = None;
    }
    let at_most_once = policy.idempotency == Idempotency::AtMostOnce;
    if at_most_once {
        policy.max_attempts = Limit::try_from(1).unwrap();
    }
    if !decorrelates(&policy.backoff) && policy.jitter == Jitter::Decorrelated {
        policy.jitter = Jitter::Full;
    }
    let general = (policy.backoff.clone(), policy.jitter);
    let rules = policy.rules.to_mut();
    let catch_all = rules.iter().position(|rule| rule.on.is_catch_all());
    rules.truncate(catch_all.map_or(rules.len(), |index| index + 1));
    for rule in rules {
        if at_most_once {
            rule.max_attempts = None;
        }
        let backoff = rule.backoff.as_ref().unwrap_or(&general.0);
        if rule.jitter.unwrap_or(general.1) == Jitter::Decorrelated && !decorrelates(backoff) {
            rule.jitter = Some(Jitter::Equal);
        }
    }
    policy
}

fn decorrelates(backoff: &Backoff) -> bool {
    match backoff {
        Backoff::Fixed { delay: initial }
        | Backoff::Linear { initial, .. }
        | Backoff::Exponential { initial, .. } => !initial.is_zero(),
        _ => false,
    }
}

/// A failure, and the state of the call it happened in.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) failure: Failure,
    pub(crate) state: State,
    pub(crate) now: Timestamp,
    pub(crate) u: f64,
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    let extremes = select(vec![i64::MIN, i64::MAX, 0, -1]);
    prop_oneof![4 => 0..1_000_000_000_i64, 1 => extremes, 1 => any::<i64>()]
        .prop_map(Timestamp::from_millis)
}

pub(crate) fn failure() -> impl Strategy<Value = Failure> {
    let name = || select(&NAMES[..]).prop_map(str::to_string);
    let code = select(vec!["429", "503", "x"]).prop_map(str::to_string);
    let message = select(vec!["", "overload", "503 GRÖSSE"]).prop_map(str::to_string);
    let types = (option::of(name()), vec(name(), 0..3));
    let wish = option::weighted(0.2, any_duration());
    (select(&Kind::ALL[..]), types, option::of(code), message, option::of(any::<bool>()), wish)
        .prop_map(|(kind, (type_name, mro), code, message, retryable, retry_after)| {
            let mut failure = Failure::of_kind(kind, message);
            failure.type_name = type_name;
            failure.mro = mro;
            failure.code = code;
            failure.retryable = retryable;
            failure.retry_after = retry_after;
            failure
        })
}

/// Any failure at any time.
pub(crate) fn case() -> impl Strategy<Value = Case> {
    let state = (failures(), timestamp(), option::of(timestamp()), option::of(any_duration()));
    let state = state.prop_map(|(failures, first_scheduled, first_started, previous_delay)| {
        let total_since = None;
        State { failures, first_scheduled, first_started, previous_delay, total_since }
    });
    (failure(), state, timestamp(), draw()).prop_map(|(failure, state, now, u)| Case {
        failure,
        state,
        now,
        u,
    })
}

/// Any JSON, with a liking for words and numbers that a policy might hold.
pub(crate) fn json_value() -> BoxedStrategy<Value> {
    let words = vec![
        "unlimited",
        "exponential",
        "Exponential",
        "none",
        "None",
        "full",
        "1s",
        "-1s",
        "0s",
        "9d",
        "NaN",
        "retry",
        "fail",
        "default",
        "FIXED",
        "[retry: 3]",
        "[A -> retry: 1, backoff: 5]",
        "throttled",
        "decorrelated",
        "truncate",
        "at_most_once",
        "pause",
        "",
        "(",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..20_i64).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // A number that JSON cannot hold becomes null.
        number().prop_map(Value::from),
        select(words).prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((field_name(), inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
    .boxed()
}

/// The name of a field in some dialect, or something like it.
fn field_name() -> impl Strategy<Value = String> {
    let known = vec![
        "max_attempts",
        "backoff",
        "type",
        "initial",
        "multiplier",
        "increment",
        "delay",
        "scale",
        "power",
        "shift",
        "offset",
        "delays",
        "phases",
        "max_delay",
        "jitter",
        "proportional",
        "lo",
        "hi",
        "additive",
        "cap",
        "max_elapsed",
        "deadline",
        "clock_from",
        "timeouts",
        "attempt",
        "heartbeat",
        "queue",
        "total",
        "never_for",
        "rules",
        "on",
        "then",
        "types",
        "kinds",
        "codes",
        "subclass",
        "message",
        "otherwise",
        "lost_worker",
        "max",
        "server_delay",
        "mode",
        "idempotency",
        "on_exhausted",
        "fallback",
        "activity",
        "value",
        "for",
        "initial_interval",
        "backoff_coefficient",
        "max_interval",
        "max_duration",
        "retryable_error_types",
        "non_retryable_error_types",
        "delay_ms",
        "base_ms",
        "max_ms",
        "timeout_ms",
        "brackets",
        "attempts",
        "exception_types",
        "backoff_seconds",
        "timeout",
        "InitialInterval",
        "BackoffCoefficient",
        "MaximumInterval",
        "ExpirationInterval",
        "MaximumAttempts",
        "NonRetriableErrorReasons",
        "max_retries",
        "strategy",
        "backoff_factor",
        "exponent",
    ];
    prop_oneof![8 => select(known).prop_map(str::to_string), 1 => "\\PC{0,8}"]
}

/// Seconds that survive being written as a float and read to the nanosecond.
fn float_seconds(least: u64) -> impl Strategy<Value = Value> {
    let nanos = (least..1 << 50).prop_map(|nanos| nanos as f64 / 1e9);
    let millis = (least..LONGEST.as_millis() as u64).prop_map(|millis| millis as f64 / 1e3);
    prop_oneof![nanos, millis].prop_map(Value::from)
}

fn plain_names() -> impl Strategy<Value = Value> {
    vec(select(&PLAIN_NAMES[..]), 0..4).prop_map(Value::from)
}

/// Policies that came from some dialect.
pub(crate) fn imported() -> impl Strategy<Value = RetryPolicy> {
    select(&Dialect::ALL[1..]).prop_flat_map(|dialect| {
        full_config(dialect).prop_map(move |config| dialect.import(&config).unwrap().policy)
    })
}

/// A configuration of a foreign dialect in which every field is written out, in the form in which
/// we would write it.
pub(crate) fn full_config(dialect: Dialect) -> BoxedStrategy<Value> {
    match dialect {
        Dialect::Canonical => valid().prop_map(|p| serde_json::to_value(p).unwrap()).boxed(),
        Dialect::Edda => edda_config().boxed(),
        Dialect::Duroxide => duroxide_config().boxed(),
        Dialect::RappelIr => rappel_ir_config().boxed(),
        Dialect::RappelPy => rappel_py_config().boxed(),
        Dialect::Cadence => cadence_config().boxed(),
        Dialect::Exosphere => exosphere_config().boxed(),
    }
}

fn edda_config() -> impl Strategy<Value = Value> {
    // What is an Exception is everything, so beside it no other name says anything.
    let everything = Just(json!(["Exception"]));
    let lists = prop_oneof![
        3 => (plain_names(), plain_names()),
        2 => (everything.clone(), plain_names()),
        1 => (everything.clone(), everything),
    ];
    (
        option::of(1..=u32::MAX),
        float_seconds(0),
        f64::MIN_POSITIVE..1e6,
        float_seconds(1),
        option::of(float_seconds(1)),
        lists,
    )
        .prop_map(|(attempts, initial, coefficient, interval, duration, (allowed, denied))| {
            json!({
                "max_attempts": attempts,
                "initial_interval": initial,
                "backoff_coefficient": coefficient,
                "max_interval": interval,
                "max_duration": duration,
                "retryable_error_types": allowed,
                "non_retryable_error_types": denied,
            })
        })
}

fn duroxide_config() -> impl Strategy<Value = Value> {
    let longest = LONGEST.as_millis() as u64;
    let backoff = prop_oneof![
        Just(json!({"type": "None"})),
        (0..=longest).prop_map(|delay| json!({"type": "Fixed", "delay_ms": delay})),
        (0..=longest, 1..=longest)
            .prop_map(|(base, max)| json!({"type": "Linear", "base_ms": base, "max_ms": max})),
        (0..=longest, f64::MIN_POSITIVE..1e9, 1..=longest).prop_map(|(base, multiplier, max)| {
            json!({
                "type": "Exponential", "base_ms": base, "multiplier": multiplier, "max_ms": max,
            })
        }),
    ];
    (1..=u32::MAX, backoff, option::of(1..=longest)).prop_map(|(attempts, backoff, timeout)| {
        let mut config = json!({ "max_attempts": attempts, "backoff": backoff });
        if let Some(timeout) = timeout {
            config["timeout_ms"] = json!(timeout);
        }
        config
    })
}

fn cadence_config() -> impl Strategy<Value = Value> {
    let reasons = vec![
        "CustomReason",
        "",
        "cadenceInternal:Panic",
        "cadenceInternal:Generic",
        "cadenceInternal:Timeout START_TO_CLOSE",
        "cadenceInternal:Timeout HEARTBEAT",
        "cadenceInternal:Timeout SCHEDULE_TO_START",
        "cadenceInternal:Timeout SCHEDULE_TO_CLOSE",
    ];
    let expiration = option::of(float_seconds(1)).prop_map(|time| time.unwrap_or(json!(0)));
    let attempts = prop_oneof![Just(0), 1..=i32::MAX];
    let intervals = (float_seconds(1), float_seconds(1))
        .prop_map(|(a, b)| if a.as_f64() <= b.as_f64() { (a, b) } else { (b, a) });
    (intervals, 1.0..1e6, expiration, attempts, vec(select(reasons), 0..5))
        .prop_filter("attempts or time must be bounded", |(_, _, expiration, attempts, _)| {
            *attempts > 0 || expiration.as_f64() != Some(0.0)
        })
        .prop_map(|((initial, maximum), coefficient, expiration, attempts, reasons)| {
            json!({
                "InitialInterval": initial,
                "BackoffCoefficient": coefficient,
                "MaximumInterval": maximum,
                "ExpirationInterval": expiration,
                "MaximumAttempts": attempts,
                "NonRetriableErrorReasons": reasons,
            })
        })
}

fn exosphere_config() -> impl Strategy<Value = Value> {
    let growth = select(vec!["EXPONENTIAL", "LINEAR", "FIXED"]);
    let jitter = select(vec!["", "_FULL_JITTER", "_EQUAL_JITTER"]);
    let longest = LONGEST.as_millis() as u64;
    let exponent = prop_oneof![1..10_u32, 1..=u32::MAX];
    (0..u32::MAX, growth, jitter, 1..=longest, exponent, option::of(1..=longest)).prop_map(
        |(retries, growth, jitter, factor, exponent, max_delay)| {
            let mut config = json!({
                "max_retries": retries,
                "strategy": format!("{growth}{jitter}"),
                "backoff_factor": factor,
                "max_delay": max_delay,
            });
            if growth == "EXPONENTIAL" {
                config["exponent"] = json!(exponent);
            }
            config
        },
    )
}

fn rappel_py_config() -> impl Strategy<Value = Value> {
    let types =
        (vec(select(&PLAIN_NAMES[..]), 0..4), any::<bool>()).prop_map(|(names, timeouts)| {
            names.into_iter().chain(timeouts.then_some("ActionTimeout")).collect::<Vec<_>>()
        });
    (1..=u32::MAX, types, float_seconds(0), option::of(float_seconds(1))).prop_map(
        |(attempts, types, backoff, timeout)| {
            let mut config = json!({
                "attempts": attempts, "exception_types": types, "backoff_seconds": backoff,
            });
            if let Some(timeout) = timeout {
                config["timeout"] = timeout;
            }
            config
        },
    )
}

fn rappel_ir_config() -> impl Strategy<Value = Value> {
    let growth = || option::of((duration(), any::<bool>()));
    let names = vec!["ActionTimeout", "NetworkError", "pkg.Error", "Größe"];
    let typed = proptest::sample::subsequence(names, 0..=4).prop_shuffle();
    let typed = typed.prop_flat_map(move |names| {
        let retries = vec((0..=u32::MAX - 1, growth()), names.len());
        retries.prop_map(move |retries| names.clone().into_iter().zip(retries).collect::<Vec<_>>())
    });
    let catch_all = option::of((0..1_000_u32, option::of((duration(), any::<bool>()))));
    (typed, catch_all, option::of(positive())).prop_map(|(typed, catch_all, timeout)| {
        let field = |growth: Option<(Duration, bool)>| match growth {
            Some((base, linear)) => {
                format!(", backoff: {}{}", Text(base), if linear { " linear" } else { "" })
            }
            None => String::new(),
        };
        // A bracket for everything lifts the count of the others, except for timeouts.
        let least = catch_all.map_or(0, |(retries, _)| retries);
        let mut brackets: Vec<String> = Vec::new();
        for (name, (retries, growth)) in typed {
            let retries = if name == "ActionTimeout" { retries } else { retries.max(least) };
            brackets.push(format!("[{name} -> retry: {retries}{}]", field(growth)));
        }
        if let Some((retries, growth)) = catch_all {
            // Alone and without retries it says what no bracket says.
            let retries = if brackets.is_empty() { retries.max(1) } else { retries };
            brackets.push(format!("[retry: {retries}{}]", field(growth)));
        }
        brackets.extend(timeout.map(|timeout| format!("[timeout: {}]", Text(timeout))));
        json!({ "brackets": brackets.join(" ") })
    })
}
