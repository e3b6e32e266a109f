//! What is refused, and with which words.
//!
//! A message names the field, the value, the rule and the remedy. People read these when
//! something does not start, so every one is compared in full.

use std::borrow::Cow;
use std::time::Duration;

use expect_test::{Expect, expect};
use resurgam_core::Kind;
use resurgam_core::duration::LONGEST;
use resurgam_core::retry::dialect::{Dialect, parse_brackets, read_failure};
use resurgam_core::retry::{
    Backoff, CapOrder, ClockFrom, DeadlineRule, Exhausted, Idempotency, Jitter, Limit, LostWorker,
    Match, RetryPolicy, Rule, ServerDelay, ServerDelayMode, Timeouts, Verdict, lint, preset,
};
use resurgam_watchdog::test;
use serde_json::{Value, json};

/// The problems of a policy in its own form.
fn refused(config: &Value) -> Vec<String> {
    messages(Dialect::Canonical, config)
}

fn messages(dialect: Dialect, config: &Value) -> Vec<String> {
    match dialect.import(config) {
        Ok(imported) => panic!("{dialect} accepts {config} as {:?}", imported.policy),
        Err(problems) => problems.iter().map(|problem| problem.message.clone()).collect(),
    }
}

/// Compares the answers to a list of configurations with a text of `config` and `  message` lines.
fn check(dialect: Dialect, configs: &[Value], expected: Expect) {
    let mut text = String::new();
    for config in configs {
        text += &format!("{config}\n");
        for message in messages(dialect, config) {
            text += &format!("  {message}\n");
        }
    }
    expected.assert_eq(&text);
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn each_rule_of_the_policy_has_its_message() {
    let exponential = |fields: Value| {
        let mut backoff = json!({"type": "exponential", "initial": "1s"});
        backoff.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({ "backoff": backoff })
    };
    let rows = [
        (
            json!({"max_attempts": 0}),
            r#"max_attempts: 0 is not allowed; it counts the first attempt. Use 1 for no retries or "unlimited"."#,
        ),
        (
            exponential(json!({"multiplier": 0})),
            "backoff.multiplier: 0 is not a finite number greater than 0",
        ),
        (
            exponential(json!({"multiplier": -2.5})),
            "backoff.multiplier: -2.5 is not a finite number greater than 0",
        ),
        (
            exponential(json!({"multiplier": "NaN"})),
            r#"backoff.multiplier: "NaN" is not a finite number greater than 0"#,
        ),
        (exponential(json!({"initial": "-1s"})), r#"backoff.initial: "-1s" is negative"#),
        (
            json!({"backoff": {"type": "fixed", "delay": "-5ms"}}),
            r#"backoff.delay: "-5ms" is negative"#,
        ),
        (
            json!({"backoff": {"type": "linear", "initial": "1s", "increment": "-1m"}}),
            r#"backoff.increment: "-1m" is negative"#,
        ),
        (
            json!({"max_elapsed": "0s"}),
            r#"max_elapsed: "0s" never allows a retry; leave it out or give a time"#,
        ),
        (json!({"max_delay": "0ms"}), r#"max_delay: "0s" makes every delay nothing; leave it out"#),
        (json!({"jitter": {"lo": 2, "hi": 1}}), "jitter: lo 2 is greater than hi 1"),
        (json!({"jitter": {"lo": 0, "hi": 10.5}}), "jitter: 0 to 10.5 is not between 0 and 10"),
        (json!({"jitter": {"lo": -0.1, "hi": 1}}), "jitter: -0.1 to 1 is not between 0 and 10"),
        (
            json!({"jitter": {"proportional": 1.5}}),
            "jitter: proportional 1.5 is not between 0 and 1",
        ),
        (
            json!({"backoff": {"type": "fibonacci", "initial": "1s"}, "jitter": "decorrelated"}),
            r#"jitter "decorrelated" needs backoff.initial: use an exponential, linear or fixed backoff that begins above 0"#,
        ),
        (json!({"max_elapsed": 300}), r#"max_elapsed: 300 has no unit; write "300s" or "300ms""#),
        (json!({"max_atempts": 3}), r#"unknown field "max_atempts"; did you mean "max_attempts"?"#),
        (
            json!({"timeouts": {"heartbeat": "5m", "attempt": "2m"}}),
            "timeouts.heartbeat (5m) is not below timeouts.attempt (2m)",
        ),
        (
            json!({"timeouts": {"attempt": "2m"}, "max_elapsed": "1m"}),
            "timeouts.attempt (2m) is longer than max_elapsed (1m): an attempt that times out could never be retried",
        ),
        (
            json!({"idempotency": "at_most_once"}),
            r#"idempotency "at_most_once" forbids retries; set max_attempts to 1"#,
        ),
    ];
    for (config, message) in rows {
        assert_eq!(refused(&config), [message], "{config}");
    }
}

#[test]
fn a_rule_behind_a_catch_all_is_refused_and_the_earlier_one_named() {
    let rules = json!({"rules": [
        {"then": "retry"},
        {"on": {"types": ["A"]}, "then": "fail"},
        {"on": {"types": ["B"]}, "then": "fail"},
    ]});
    assert_eq!(
        refused(&rules),
        [
            "rules[1] can never match: rules[0] matches everything",
            "rules[2] can never match: rules[0] matches everything",
        ]
    );
    let last = json!({"rules": [{"on": {"types": ["A"]}, "then": "fail"}, {"then": "retry"}]});
    assert!(RetryPolicy::from_value(&last).is_ok());
    // Whether descendants match says nothing without a type, so this matches everything too.
    let exact = json!({"rules": [{"on": {"subclass": false}}, {"on": {"codes": ["1"]}}]});
    assert_eq!(refused(&exact), ["rules[1] can never match: rules[0] matches everything"]);
}

#[test]
fn what_the_policy_only_warns_about_is_an_error_in_cadence() {
    for (native, cadence, message) in [
        (
            json!({"max_attempts": "unlimited"}),
            json!({"InitialInterval": 1}),
            "MaximumAttempts and ExpirationInterval are both unset; set at least one",
        ),
        (
            json!({"backoff": {"type": "exponential", "initial": "1s", "multiplier": 0.5}}),
            json!({"InitialInterval": 1, "BackoffCoefficient": 0.5, "MaximumAttempts": 3}),
            "BackoffCoefficient: 0.5 is below 1",
        ),
        (
            json!({"backoff": {"type": "exponential", "initial": "0s"}}),
            json!({"InitialInterval": 0, "MaximumAttempts": 3}),
            "InitialInterval: 0 must be above 0; it has no default",
        ),
        (
            json!({"backoff": {"type": "exponential", "initial": "5s"}, "max_delay": "2s"}),
            json!({"InitialInterval": 5, "MaximumInterval": 2, "MaximumAttempts": 3}),
            "MaximumInterval: 2 is below InitialInterval",
        ),
    ] {
        assert!(RetryPolicy::from_value(&native).is_ok(), "{native}");
        assert_eq!(messages(Dialect::Cadence, &cadence), [message], "{cadence}");
    }
}

#[test]
fn equality_is_on_the_allowed_side_where_the_rule_says_so() {
    for config in [
        json!({"max_attempts": 1}),
        json!({"max_attempts": u32::MAX}),
        json!({"jitter": {"proportional": 0}}),
        json!({"jitter": {"proportional": 1}}),
        json!({"jitter": {"lo": 0, "hi": 10}}),
        json!({"jitter": {"lo": 1, "hi": 1}}),
        json!({"timeouts": {"attempt": "1m"}, "max_elapsed": "1m"}),
        json!({"timeouts": {"heartbeat": "59999ms", "attempt": "1m"}}),
        json!({"backoff": {"type": "exponential", "initial": "0s"}}),
        json!({"backoff": {"type": "polynomial", "scale": "1s", "power": 0}}),
        json!({"idempotency": "at_most_once", "max_attempts": 1}),
        json!({"max_delay": "1ms"}),
        json!({"max_elapsed": "36500d"}),
    ] {
        let read = RetryPolicy::from_value(&config);
        assert!(read.is_ok(), "{config}: {}", read.unwrap_err());
    }
    assert_eq!(
        refused(&json!({"timeouts": {"heartbeat": "1m", "attempt": "60s"}})),
        ["timeouts.heartbeat (1m) is not below timeouts.attempt (1m)"]
    );
}

#[test]
fn numbers_that_only_rust_can_write_are_refused_by_the_check() {
    let exponential = RetryPolicy::exponential(seconds(1));
    let polynomial = |power| {
        RetryPolicy::with_backoff(Backoff::Polynomial {
            scale: seconds(1),
            power,
            shift: 0,
            offset: Duration::ZERO,
        })
    };
    let range = |lo, hi| RetryPolicy::DEFAULT.jitter(Jitter::Range { lo, hi });
    let server =
        |jitter| RetryPolicy::DEFAULT.server_delay(ServerDelay { jitter, ..ServerDelay::DEFAULT });
    let nan = f64::NAN;
    let infinite = f64::INFINITY;
    for (policy, message) in [
        (
            exponential.clone().multiplier(nan),
            "backoff.multiplier: NaN is not a finite number greater than 0",
        ),
        (
            exponential.clone().multiplier(infinite),
            "backoff.multiplier: inf is not a finite number greater than 0",
        ),
        (
            exponential.clone().multiplier(-0.0),
            "backoff.multiplier: -0 is not a finite number greater than 0",
        ),
        (polynomial(nan), "backoff.power: NaN is not a finite number from 0"),
        (polynomial(-1.0), "backoff.power: -1 is not a finite number from 0"),
        (polynomial(infinite), "backoff.power: inf is not a finite number from 0"),
        (
            exponential.jitter(Jitter::Proportional(nan)),
            "jitter: proportional NaN is not between 0 and 1",
        ),
        (range(nan, 1.0), "jitter: NaN to 1 is not between 0 and 10"),
        (range(0.0, nan), "jitter: 0 to NaN is not between 0 and 10"),
        (range(f64::NEG_INFINITY, infinite), "jitter: -inf to inf is not between 0 and 10"),
        (server(nan), "server_delay.jitter: NaN is not between 0 and 10"),
        (server(-0.1), "server_delay.jitter: -0.1 is not between 0 and 10"),
    ] {
        assert_eq!(policy.check().unwrap_err().to_string(), message);
    }
}

#[test]
fn a_duration_that_could_not_be_read_back_is_refused_wherever_it_stands() {
    let long = LONGEST + Duration::from_nanos(1);
    let default = RetryPolicy::DEFAULT;
    let backoff = |backoff| RetryPolicy::with_backoff(backoff).jitter(Jitter::None);
    let timeouts = |timeouts| RetryPolicy::DEFAULT.timeouts(timeouts);
    let rule = |rule: Rule| RetryPolicy { rules: vec![rule].into(), ..RetryPolicy::DEFAULT };
    let pause = Exhausted::Pause { wait: Some(long) };
    let zero = Duration::ZERO;
    let cases = [
        ("max_delay", default.clone().max_delay(long)),
        ("max_elapsed", default.clone().max_elapsed(long)),
        ("jitter.additive", default.clone().jitter(Jitter::Additive(long))),
        ("backoff.delay", backoff(Backoff::Fixed { delay: long })),
        ("backoff.initial", backoff(Backoff::Linear { initial: long, increment: None })),
        ("backoff.increment", backoff(Backoff::Linear { initial: zero, increment: Some(long) })),
        ("backoff.initial", backoff(Backoff::exponential(long))),
        ("backoff.initial", backoff(Backoff::Fibonacci { initial: long })),
        (
            "backoff.scale",
            backoff(Backoff::Polynomial { scale: long, power: 1.0, shift: 0, offset: zero }),
        ),
        (
            "backoff.offset",
            backoff(Backoff::Polynomial { scale: zero, power: 1.0, shift: 0, offset: long }),
        ),
        ("backoff.delays", backoff(Backoff::Schedule { delays: vec![zero, long].into() })),
        (
            "backoff.phases[0][1].delay",
            backoff(Backoff::Phases { phases: vec![(1, Backoff::Fixed { delay: long })].into() }),
        ),
        ("timeouts.attempt", timeouts(Timeouts { attempt: Some(long), ..Timeouts::default() })),
        ("timeouts.total", timeouts(Timeouts { total: Some(long), ..Timeouts::default() })),
        ("rules[0].max_delay", rule(Rule::fail(Match::ALL).max_delay(long))),
        (
            "rules[0].backoff.delay",
            rule(Rule::fail(Match::ALL).backoff(Backoff::Fixed { delay: long })),
        ),
        ("rules[0].jitter.additive", rule(Rule::fail(Match::ALL).jitter(Jitter::Additive(long)))),
        (
            "rules[0].on_exhausted.pause.for",
            rule(Rule { on_exhausted: Some(pause.clone()), ..Rule::fail(Match::ALL) }),
        ),
        (
            "lost_worker.initial",
            default.clone().lost_worker(LostWorker { initial: long, ..LostWorker::DEFAULT }),
        ),
        (
            "lost_worker.max_delay",
            default.clone().lost_worker(LostWorker { max_delay: long, ..LostWorker::DEFAULT }),
        ),
        (
            "server_delay.max",
            default.clone().server_delay(ServerDelay { max: long, ..ServerDelay::DEFAULT }),
        ),
        ("on_exhausted.pause.for", default.on_exhausted(pause)),
    ];
    for (path, policy) in cases {
        let value = "3153600000000.000001ms";
        let advice = "is longer than 100 years; leave it out or give less";
        let message = format!("{path}: \"{value}\" {advice}");
        assert_eq!(policy.check().unwrap_err().to_string(), message);
        let json = serde_json::to_value(&policy).unwrap();
        assert!(RetryPolicy::from_value(&json).is_err(), "{path}: the written form agrees");
    }
}

#[test]
fn every_problem_is_reported_at_once_in_the_order_of_the_fields() {
    let config = json!({
        "max_attempts": 0,
        "backoff": {"type": "exponential", "intial": "1s", "multiplier": "fast"},
        "max_delay": 60,
        "jitter": "ful",
        "deadline": "never",
        "timeouts": {"attempt": "2 minutes", "hearbeat": "1s"},
        "rules": [
            {"on": {"kinds": ["tiemout", 7]}, "then": "retri"},
            "retry",
            {"max_attempts": -1, "backoff": {"type": "fixed"}},
        ],
        "colour": "blue",
    });
    let text = refused(&config).join("\n");
    expect![[r#"
        max_attempts: 0 is not allowed; it counts the first attempt. Use 1 for no retries or "unlimited".
        backoff.initial: missing, and required
        backoff.multiplier: "fast" is not a finite number greater than 0
        backoff: unknown field "intial"; did you mean "initial"?
        max_delay: 60 has no unit; write "60s" or "60ms"
        jitter: "ful" is unknown; did you mean "full"?
        deadline: "never" is unknown; use one of "look_ahead", "check_only", "clip"
        timeouts.attempt: "2 minutes" has no unit; write "2s" or "2ms"
        timeouts: unknown field "hearbeat"; did you mean "heartbeat"?
        rules[0].on.kinds[0]: "tiemout" is unknown; did you mean "timeout"?
        rules[0].on.kinds[1]: 7 is unknown; use one of "error", "timeout", "heartbeat_timeout", "queue_timeout", "total_timeout", "panic", "worker_lost", "throttled", "cancelled"
        rules[0].then: "retri" is unknown; did you mean "retry"?
        rules[1]: "retry" is not a rule: {"on": {...}, "then": "retry"}
        rules[2].max_attempts: -1 is not a number of attempts; use 1 or more, or "unlimited"
        rules[2].backoff.delay: missing, and required
        unknown field "colour"; known are "max_attempts", "backoff", "max_delay", "jitter", "cap", "max_elapsed", "deadline", "clock_from", "timeouts", "never_for", "rules", "otherwise", "lost_worker", "server_delay", "idempotency", "on_exhausted""#]]
    .assert_eq(&text);
}

#[test]
fn the_check_reports_every_problem_at_once_too() {
    let policy = RetryPolicy::exponential(seconds(1))
        .multiplier(0.0)
        .max_delay(Duration::ZERO)
        .max_elapsed(Duration::ZERO)
        .jitter(Jitter::Proportional(2.0))
        .idempotency(Idempotency::AtMostOnce)
        .timeouts(Timeouts { queue: Some(Duration::ZERO), ..Timeouts::default() });
    let text: Vec<String> =
        policy.check().unwrap_err().iter().map(|p| format!("{} | {}", p.path, p.message)).collect();
    expect![[r#"
        backoff.multiplier | backoff.multiplier: 0 is not a finite number greater than 0
        jitter | jitter: proportional 2 is not between 0 and 1
        max_delay | max_delay: "0s" makes every delay nothing; leave it out
        max_elapsed | max_elapsed: "0s" never allows a retry; leave it out or give a time
        timeouts.queue | timeouts.queue: "0s" leaves no time; leave it out
        max_attempts | idempotency "at_most_once" forbids retries; set max_attempts to 1"#]]
    .assert_eq(&text.join("\n"));
}

#[test]
fn an_unknown_nested_field_is_answered_with_its_place_and_the_nearest_name() {
    check(
        Dialect::Canonical,
        &[
            json!({"backoff": {"type": "linear", "initial": "1s", "incremnt": "1s"}}),
            json!({"timeouts": {"start_to_close": "1m"}}),
            json!({"rules": [{"on": {"type": ["A"]}}]}),
            json!({"rules": [{"on": {"types": ["A"], "sub_class": true}}]}),
            json!({"rules": [{"than": "fail"}]}),
            json!({"server_delay": {"mod": "exact"}}),
            json!({"lost_worker": {"maximum": 3}}),
            json!({"jitter": {"proportonal": 0.5}}),
            json!({"on_exhausted": {"fallback": {"activty": "refund"}}}),
            json!({"on_exhausted": {"pause": {"fro": "1h"}}}),
            json!({"backoff": {"type": "phases", "phases": [[2, {"type": "fixed", "dely": "1s"}]]}}),
        ],
        expect![[r#"
            {"backoff":{"incremnt":"1s","initial":"1s","type":"linear"}}
              backoff: unknown field "incremnt"; did you mean "increment"?
            {"timeouts":{"start_to_close":"1m"}}
              timeouts: unknown field "start_to_close"; known are "attempt", "heartbeat", "queue", "total"
            {"rules":[{"on":{"type":["A"]}}]}
              rules[0].on: unknown field "type"; did you mean "types"?
            {"rules":[{"on":{"sub_class":true,"types":["A"]}}]}
              rules[0].on: unknown field "sub_class"; did you mean "subclass"?
            {"rules":[{"than":"fail"}]}
              rules[0]: unknown field "than"; did you mean "then"?
            {"server_delay":{"mod":"exact"}}
              server_delay: unknown field "mod"; did you mean "mode"?
            {"lost_worker":{"maximum":3}}
              lost_worker: unknown field "maximum"; known are "max", "initial", "max_delay"
            {"jitter":{"proportonal":0.5}}
              jitter: unknown field "proportonal"; did you mean "proportional"?
            {"on_exhausted":{"fallback":{"activty":"refund"}}}
              on_exhausted.fallback: unknown field "activty"; did you mean "activity"?
            {"on_exhausted":{"pause":{"fro":"1h"}}}
              on_exhausted.pause: unknown field "fro"; did you mean "for"?
            {"backoff":{"phases":[[2,{"dely":"1s","type":"fixed"}]],"type":"phases"}}
              backoff.phases[0][1].delay: missing, and required
              backoff.phases[0][1]: unknown field "dely"; did you mean "delay"?
        "#]],
    );
}

#[test]
fn a_backoff_of_unknown_type_is_not_blamed_for_its_other_fields() {
    check(
        Dialect::Canonical,
        &[
            json!({"backoff": {"type": "exponentail", "initial": "1s", "multiplier": 2}}),
            json!({"backoff": {"initial": "1s"}}),
            json!({"backoff": {"type": null, "initial": "1s"}}),
            json!({"backoff": "exponential"}),
        ],
        expect![[r#"
            {"backoff":{"initial":"1s","multiplier":2,"type":"exponentail"}}
              backoff.type: "exponentail" is unknown; did you mean "exponential"?
            {"backoff":{"initial":"1s"}}
              backoff.type: missing, and required
            {"backoff":{"initial":"1s","type":null}}
              backoff.type: null is unknown; use one of "none", "fixed", "linear", "exponential", "polynomial", "fibonacci", "schedule", "phases"
            {"backoff":"exponential"}
              backoff: "exponential" is not a backoff: {"type": ..., ...}
        "#]],
    );
    check(
        Dialect::Duroxide,
        &[
            json!({"backoff": {"type": "Exponental", "base_ms": 100}}),
            json!({"backoff": {"base_ms": 100}}),
        ],
        expect![[r#"
            {"backoff":{"base_ms":100,"type":"Exponental"}}
              backoff.type: "Exponental" is unknown; did you mean "Exponential"?
            {"backoff":{"base_ms":100}}
              backoff.type: missing, and required
        "#]],
    );
}

#[test]
fn a_duration_needs_a_number_and_a_unit() {
    check(
        Dialect::Canonical,
        &[
            json!({"max_delay": 30}),
            json!({"max_delay": 1.5}),
            json!({"max_delay": "30"}),
            json!({"max_delay": ""}),
            json!({"max_delay": "s"}),
            json!({"max_delay": "1.2.3s"}),
            json!({"max_delay": "30 s"}),
            json!({"max_delay": "30sec"}),
            json!({"max_delay": "1s;2s"}),
            json!({"max_delay": "+1s"}),
            json!({"max_delay": "1e3s"}),
            json!({"max_delay": "inf"}),
            json!({"max_delay": "36501d"}),
            json!({"max_delay": "99999999999999999999999999999999999999999999h"}),
            json!({"max_delay": true}),
            json!({"max_delay": null}),
            json!({"max_delay": ["1s"]}),
            json!({"max_delay": {"secs": 1}}),
        ],
        expect![[r#"
            {"max_delay":30}
              max_delay: 30 has no unit; write "30s" or "30ms"
            {"max_delay":1.5}
              max_delay: 1.5 has no unit; write "1.5s" or "1.5ms"
            {"max_delay":"30"}
              max_delay: "30" has no unit; write "30s" or "30ms"
            {"max_delay":""}
              max_delay: "" is empty; write a number with a unit, such as "250ms" or "2m"
            {"max_delay":"s"}
              max_delay: "s" is not a duration; write a number with a unit, such as "250ms" or "2m"
            {"max_delay":"1.2.3s"}
              max_delay: "1.2.3s" is not a duration; write a number with a unit, such as "250ms" or "2m"
            {"max_delay":"30 s"}
              max_delay: "30 s" has no unit; write "30s" or "30ms"
            {"max_delay":"30sec"}
              max_delay: "30sec" has the unknown unit "sec"; use ms, s, m, h or d
            {"max_delay":"1s;2s"}
              max_delay: "1s;2s" is not a duration; write a number with a unit, such as "250ms" or "2m"
            {"max_delay":"+1s"}
              max_delay: "+1s" is not a duration; write a number with a unit, such as "250ms" or "2m"
            {"max_delay":"1e3s"}
              max_delay: "1e3s" has the unknown unit "e"; use ms, s, m, h or d
            {"max_delay":"inf"}
              max_delay: "inf" is not a duration; write a number with a unit, such as "250ms" or "2m"
            {"max_delay":"36501d"}
              max_delay: "36501d" is longer than 100 years
            {"max_delay":"99999999999999999999999999999999999999999999h"}
              max_delay: "99999999999999999999999999999999999999999999h" is longer than 100 years
            {"max_delay":true}
              max_delay: true is not a duration; write a number with a unit, such as "250ms"
            {"max_delay":null}
              max_delay: null is not a duration; write a number with a unit, such as "250ms"
            {"max_delay":["1s"]}
              max_delay: a list is not a duration; write a number with a unit, such as "250ms"
            {"max_delay":{"secs":1}}
              max_delay: an object is not a duration; write a number with a unit, such as "250ms"
        "#]],
    );
}

#[test]
fn null_and_wrong_types_are_refused_in_every_field() {
    let fields = [
        "max_attempts",
        "backoff",
        "max_delay",
        "jitter",
        "cap",
        "max_elapsed",
        "deadline",
        "clock_from",
        "timeouts",
        "never_for",
        "rules",
        "otherwise",
        "lost_worker",
        "server_delay",
        "idempotency",
        "on_exhausted",
    ];
    for field in fields {
        for value in [json!(null), json!(true), json!(1.5), json!(["x"]), json!([{"x": 1}])] {
            // A list of texts is what these want.
            if field == "never_for" && value == json!(["x"]) {
                continue;
            }
            let found = refused(&json!({ field: value }));
            assert!(found[0].starts_with(field), "{field} = {value}: {found:?}");
        }
    }
}

#[test]
fn wrong_types_are_named_with_what_is_wanted() {
    check(
        Dialect::Canonical,
        &[
            json!(null),
            json!([]),
            json!(0),
            json!(2.5),
            json!(-1),
            json!("defualt"),
            json!({"max_attempts": "10"}),
            json!({"max_attempts": 4294967296_u64}),
            json!({"max_attempts": 1e300}),
            json!({"never_for": "CardDeclined"}),
            json!({"never_for": ["A", 1]}),
            json!({"rules": {"on": {}}}),
            json!({"rules": [{"on": {"subclass": "yes"}}]}),
            json!({"rules": [{"on": {"message": 5}}]}),
            json!({"jitter": {}}),
            json!({"jitter": {"lo": 1}}),
            json!({"jitter": {"proportional": 0.5, "additive": "1s"}}),
            json!({"on_exhausted": {}}),
            json!({"on_exhausted": {"fallback": {}}}),
            json!({"on_exhausted": {"fallback": {"activity": "a", "value": 1}}}),
            json!({"on_exhausted": {"pause": {}, "fallback": {"value": 1}}}),
            json!({"lost_worker": {"max": -1}}),
            json!({"server_delay": {"jitter": 11}}),
            json!({"backoff": {"type": "polynomial", "scale": "1s", "power": "2"}}),
            json!({"backoff": {"type": "schedule", "delays": []}}),
            json!({"backoff": {"type": "schedule", "delays": ["1s", 5, "x"]}}),
            json!({"backoff": {"type": "phases", "phases": []}}),
            json!({"backoff": {"type": "phases", "phases": [[0, {"type": "none"}]]}}),
            json!({"backoff": {"type": "phases", "phases": [[1]]}}),
            json!({"backoff": {"type": "phases", "phases": [{"failures": 1}]}}),
        ],
        expect![[r#"
            null
              null is not a policy: an object, a preset's name, a number or false
            []
              a list is not a policy: an object, a preset's name, a number or false
            0
              0 is not allowed; it counts the first attempt. Use 1 for no retries or "unlimited".
            2.5
              2.5 is not a number of attempts; use 1 or more, or "unlimited"
            -1
              -1 is not a number of attempts; use 1 or more, or "unlimited"
            "defualt"
              "defualt" is unknown; did you mean "default"?
            {"max_attempts":"10"}
              max_attempts: "10" is not a number of attempts; use 1 or more, or "unlimited"
            {"max_attempts":4294967296}
              max_attempts: 4294967296 is not a number of attempts; use 1 or more, or "unlimited"
            {"max_attempts":1e+300}
              max_attempts: 1e+300 is not a number of attempts; use 1 or more, or "unlimited"
            {"never_for":"CardDeclined"}
              never_for: "CardDeclined" is not a list
            {"never_for":["A",1]}
              never_for[1]: 1 is not a text
            {"rules":{"on":{}}}
              rules: an object is not a list
            {"rules":[{"on":{"subclass":"yes"}}]}
              rules[0].on.subclass: "yes" is not true or false
            {"rules":[{"on":{"message":5}}]}
              rules[0].on.message: 5 is not a text
            {"jitter":{}}
              jitter: an object is not one jitter; write {"proportional": 0.5}, {"lo": 0.5, "hi": 1} or {"additive": "1s"}
            {"jitter":{"lo":1}}
              jitter: an object is not one jitter; write {"proportional": 0.5}, {"lo": 0.5, "hi": 1} or {"additive": "1s"}
            {"jitter":{"additive":"1s","proportional":0.5}}
              jitter: an object is not one jitter; write {"proportional": 0.5}, {"lo": 0.5, "hi": 1} or {"additive": "1s"}
            {"on_exhausted":{}}
              on_exhausted: an object is not one outcome; write {"pause": ...} or {"fallback": ...}
            {"on_exhausted":{"fallback":{}}}
              on_exhausted.fallback: an object needs either "activity" or "value"
            {"on_exhausted":{"fallback":{"activity":"a","value":1}}}
              on_exhausted.fallback: an object needs either "activity" or "value"
            {"on_exhausted":{"fallback":{"value":1},"pause":{}}}
              on_exhausted: an object is not one outcome; write {"pause": ...} or {"fallback": ...}
            {"lost_worker":{"max":-1}}
              lost_worker.max: -1 is not a whole number
            {"server_delay":{"jitter":11}}
              server_delay.jitter: 11 is not between 0 and 10
            {"backoff":{"power":"2","scale":"1s","type":"polynomial"}}
              backoff.power: "2" is not a finite number
            {"backoff":{"delays":[],"type":"schedule"}}
              backoff.delays: an empty list; give at least one delay
            {"backoff":{"delays":["1s",5,"x"],"type":"schedule"}}
              backoff.delays[1]: 5 has no unit; write "5s" or "5ms"
              backoff.delays[2]: "x" is not a duration; write a number with a unit, such as "250ms" or "2m"
            {"backoff":{"phases":[],"type":"phases"}}
              backoff.phases: an empty list; give at least one phase
            {"backoff":{"phases":[[0,{"type":"none"}]],"type":"phases"}}
              backoff.phases[0]: 0 failures: the phase never begins; give 1 or more
            {"backoff":{"phases":[[1]],"type":"phases"}}
              backoff.phases[0]: a list is not a phase; write [failures, backoff]
            {"backoff":{"phases":[{"failures":1}],"type":"phases"}}
              backoff.phases[0]: an object is not a list
        "#]],
    );
}

#[test]
fn a_long_value_is_cut_in_the_message() {
    let found = refused(&json!({ "jitter": "x".repeat(10_000) }));
    assert!(found[0].len() < 200, "{}", found[0].len());
    let found = refused(&json!({ ("y".repeat(10_000)): 1 }));
    assert!(found[0].len() < 500, "{}", found[0].len());
}

/// A policy whose backoff has phases in phases, `depth` of them.
fn nested(depth: usize) -> Backoff {
    (0..depth).fold(Backoff::None, |inner, _| Backoff::Phases { phases: vec![(1, inner)].into() })
}

#[test]
fn phases_may_be_nested_eight_deep() {
    let policy = |depth| RetryPolicy::with_backoff(nested(depth));
    assert!(policy(8).check().is_ok());
    let deep = "[1]".to_string() + &".phases[0][1]".repeat(7);
    let message = format!("backoff.phases[0]{deep}: phases are nested deeper than 8");
    assert_eq!(policy(9).check().unwrap_err().to_string(), message);
    // The check stops there: a policy that is nested beyond all measure cannot exhaust the stack.
    assert_eq!(policy(500).check().unwrap_err().to_string(), message);
}

#[test]
fn a_pattern_is_compiled_when_the_policy_is_checked() {
    let policy = |pattern: &str| json!({"rules": [{"on": {"message": pattern}}]});
    assert!(RetryPolicy::from_value(&policy(r"^(5\d\d|timed out)\b")).is_ok());
    check(
        Dialect::Canonical,
        &[policy("(unclosed"), policy(r"(?=ahead)"), policy(r"\w{2000}{2000}"), policy("[z-a]")],
        expect![[r#"
            {"rules":[{"on":{"message":"(unclosed"}}]}
              rules[0].on.message: not a regular expression: unclosed group
            {"rules":[{"on":{"message":"(?=ahead)"}}]}
              rules[0].on.message: not a regular expression: look-around, including look-ahead and look-behind, is not supported
            {"rules":[{"on":{"message":"\\w{2000}{2000}"}}]}
              rules[0].on.message: not a regular expression: Compiled regex exceeds size limit of 1048576 bytes.
            {"rules":[{"on":{"message":"[z-a]"}}]}
              rules[0].on.message: not a regular expression: invalid character class range, the start must be <= the end
        "#]],
    );
}

#[test]
fn the_short_forms_stand_for_whole_policies() {
    let read = |value: Value| RetryPolicy::from_value(&value).unwrap();
    assert_eq!(read(json!(false)), RetryPolicy::once());
    assert_eq!(read(json!(false)).max_attempts, Limit::try_from(1).unwrap());
    assert_eq!(read(json!(true)), RetryPolicy::DEFAULT);
    assert_eq!(read(json!({})), RetryPolicy::DEFAULT);
    assert_eq!(read(json!(5)), RetryPolicy::DEFAULT.max_attempts(5));
    assert_eq!(read(json!(1)), RetryPolicy::DEFAULT.max_attempts(1));
    for (name, policy) in preset::ALL {
        assert_eq!(read(json!(name)), policy, "{name}");
    }
    assert_eq!(
        refused(&json!("edda.agressive")),
        [r#""edda.agressive" is unknown; did you mean "edda.aggressive"?"#]
    );
}

#[test]
fn an_omitted_max_delay_is_a_minute_unless_a_backoff_is_given() {
    let read = |value: Value| RetryPolicy::from_value(&value).unwrap().max_delay;
    assert_eq!(read(json!({"max_attempts": 3})), Some(seconds(60)));
    assert_eq!(read(json!({"backoff": {"type": "exponential", "initial": "1s"}})), None);
    assert_eq!(read(json!({"max_delay": "unlimited"})), None);
    let both = json!({"backoff": {"type": "none"}, "max_delay": "5s"});
    assert_eq!(read(both), Some(seconds(5)));
}

#[test]
fn toml_says_the_same_as_json() {
    let text = r#"
        max_attempts = 8
        max_delay = "30s"
        never_for = ["CardDeclined"]
        jitter = { lo = 0.5, hi = 1 }
        on_exhausted = { pause = { for = "1h" } }

        [backoff]
        type = "exponential"
        initial = "200ms"
        multiplier = 1.5

        [timeouts]
        attempt = "10s"

        [[rules]]
        on = { codes = ["429"], kinds = ["throttled"] }
        max_attempts = 20

        [[rules]]
        on = { types = ["InvalidRequest"], subclass = false }
        then = "fail"
    "#;
    let json = json!({
        "max_attempts": 8,
        "max_delay": "30s",
        "never_for": ["CardDeclined"],
        "jitter": {"lo": 0.5, "hi": 1},
        "on_exhausted": {"pause": {"for": "1h"}},
        "backoff": {"type": "exponential", "initial": "200ms", "multiplier": 1.5},
        "timeouts": {"attempt": "10s"},
        "rules": [
            {"on": {"codes": ["429"], "kinds": ["throttled"]}, "max_attempts": 20},
            {"on": {"types": ["InvalidRequest"], "subclass": false}, "then": "fail"},
        ],
    });
    let policy: RetryPolicy = toml::from_str(text).unwrap();
    assert_eq!(policy, RetryPolicy::from_value(&json).unwrap());
    let written = toml::to_string(&policy).unwrap();
    assert_eq!(toml::from_str::<RetryPolicy>(&written).unwrap(), policy, "{written}");
}

#[test]
fn toml_errors_are_our_errors() {
    for (text, message) in [
        ("max_atempts = 3", r#"unknown field "max_atempts"; did you mean "max_attempts"?"#),
        ("max_delay = 30", r#"max_delay: 30 has no unit; write "30s" or "30ms""#),
        (
            "backoff = { type = \"exponential\", initial = \"1s\", multiplier = inf }",
            // JSON has no infinity, and the policy is read through JSON values.
            "backoff.multiplier: null is not a finite number greater than 0",
        ),
    ] {
        let error = toml::from_str::<RetryPolicy>(text).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

/// A policy in which every field differs from the default.
fn full() -> RetryPolicy {
    RetryPolicy {
        max_attempts: Limit::Unlimited,
        backoff: Backoff::Phases {
            phases: vec![
                (3, Backoff::Schedule { delays: vec![seconds(1), Duration::from_nanos(1)].into() }),
                (
                    2,
                    Backoff::Polynomial {
                        scale: seconds(2),
                        power: 1.5,
                        shift: 1,
                        offset: seconds(3),
                    },
                ),
                (1, Backoff::Linear { initial: seconds(1), increment: Some(Duration::ZERO) }),
                (1, Backoff::Fibonacci { initial: seconds(90) }),
            ]
            .into(),
        },
        max_delay: Some(seconds(3600)),
        jitter: Jitter::Range { lo: 0.25, hi: 1.75 },
        cap: CapOrder::Before,
        max_elapsed: Some(seconds(86_400)),
        deadline: DeadlineRule::Clip,
        clock_from: ClockFrom::FirstStarted,
        timeouts: Timeouts {
            attempt: Some(seconds(30)),
            heartbeat: Some(seconds(10)),
            queue: Some(seconds(600)),
            total: Some(seconds(172_800)),
        },
        never_for: vec!["CardDeclined".to_string()].into(),
        rules: vec![
            Rule {
                on: Match {
                    types: vec![String::new(), "Busy".to_string()].into(),
                    kinds: Cow::Borrowed(&Kind::ALL),
                    codes: vec!["503".to_string()].into(),
                    subclass: false,
                    message: Some("^over(loaded|run)".into()),
                },
                then: Verdict::Retry,
                max_attempts: Some(Limit::Unlimited),
                backoff: Some(Backoff::exponential(seconds(1))),
                max_delay: Some(seconds(5)),
                jitter: Some(Jitter::Decorrelated),
                on_exhausted: Some(Exhausted::FallbackValue(json!({"cents": null}))),
            },
            Rule { then: Verdict::Pause, ..Rule::retry(Match::kinds(&[Kind::Panic])) },
            Rule { then: Verdict::DeadLetter, ..Rule::retry(Match::codes(&["x"])) },
        ]
        .into(),
        otherwise: Verdict::Fail,
        lost_worker: LostWorker { max: 3, initial: seconds(1), max_delay: seconds(2) },
        server_delay: ServerDelay { mode: ServerDelayMode::Exact, max: seconds(60), jitter: 0.25 },
        idempotency: Idempotency::Keyed,
        on_exhausted: Exhausted::Pause { wait: Some(seconds(7200)) },
    }
}

#[test]
fn every_field_survives_json_and_toml() {
    let policy = full();
    let json = serde_json::to_string(&policy).unwrap();
    assert_eq!(serde_json::from_str::<RetryPolicy>(&json).unwrap(), policy, "{json}");
    // TOML has no null, so the value of the fallback is another one.
    let mut policy = policy;
    policy.rules.to_mut()[0].on_exhausted = Some(Exhausted::FallbackValue(json!({"cents": 5})));
    let toml = toml::to_string(&policy).unwrap();
    assert_eq!(toml::from_str::<RetryPolicy>(&toml).unwrap(), policy, "{toml}");
}

#[test]
fn a_catch_all_that_does_not_look_at_descendants_survives_json() {
    let on = Match { subclass: false, ..Match::ALL };
    let policy = RetryPolicy { rules: vec![Rule::fail(on)].into(), ..RetryPolicy::DEFAULT };
    let json = serde_json::to_value(&policy).unwrap();
    assert_eq!(RetryPolicy::from_value(&json).unwrap(), policy, "{json}");
}

#[test]
fn every_outcome_of_retrying_is_read() {
    let config = json!({
        "otherwise": "dead_letter",
        "on_exhausted": {"pause": {"for": "1h"}},
        "rules": [
            {"on": {"types": ["A"]}, "then": "pause"},
            {"on": {"types": ["B"]}, "then": "dead_letter", "on_exhausted": "compensate"},
            {"on": {"types": ["C"]}, "on_exhausted": {"fallback": {"activity": "refund"}}},
            {"on": {"types": ["D"]}, "on_exhausted": {"fallback": {"value": 0}}},
            {"on": {"types": ["E"]}, "on_exhausted": "dead_letter"},
            {"on": {"types": ["F"]}, "then": "fail", "on_exhausted": "fail"},
        ],
    });
    let policy = RetryPolicy::from_value(&config).unwrap();
    assert_eq!(policy.otherwise, Verdict::DeadLetter);
    assert_eq!(policy.on_exhausted, Exhausted::Pause { wait: Some(seconds(3600)) });
    let nobody = json!({"on_exhausted": {"fallback": {"activity": ""}}});
    assert_eq!(
        RetryPolicy::from_value(&nobody).unwrap_err().to_string(),
        "on_exhausted.fallback.activity: an empty name is no activity's"
    );
    assert_eq!(
        policy.rules[2].on_exhausted,
        Some(Exhausted::FallbackActivity(Cow::Borrowed("refund")))
    );
    assert!(policy.check().is_ok());
}

#[test]
fn edda_is_answered_with_its_own_field_names() {
    check(
        Dialect::Edda,
        &[
            json!(5),
            json!({"max_attempts": 0}),
            json!({"max_attempts": "unlimited"}),
            json!({"initial_interval": -1.0}),
            json!({"initial_interval": "1s"}),
            json!({"backoff_coefficient": 0}),
            json!({"max_interval": 0}),
            json!({"max_duration": 0}),
            json!({"max_duration": 1e12}),
            json!({"retryable_error_types": "ValueError"}),
            json!({"max_retries": 3}),
            json!({"backof_coefficient": 3}),
        ],
        expect![[r#"
            5
              5 is not an object with the fields of Edda's RetryPolicy
            {"max_attempts":0}
              max_attempts: 0 is not allowed; it counts the first attempt. Use 1 for no retries or null.
            {"max_attempts":"unlimited"}
              max_attempts: "unlimited" is not a number of attempts; use 1 or more, or null for no limit
            {"initial_interval":-1.0}
              initial_interval: -1.0 is negative; write a number of seconds from 0
            {"initial_interval":"1s"}
              initial_interval: "1s" is not a number of seconds
            {"backoff_coefficient":0}
              backoff_coefficient: 0 is not a finite number greater than 0
            {"max_interval":0}
              max_interval: 0 leaves no time; give a number of seconds above 0
            {"max_duration":0}
              max_duration: 0 leaves no time; give a number of seconds above 0
            {"max_duration":1000000000000.0}
              max_duration: 1000000000000.0 is longer than 100 years (the unit is seconds)
            {"retryable_error_types":"ValueError"}
              retryable_error_types: "ValueError" is not a list
            {"max_retries":3}
              unknown field "max_retries"; known are "max_attempts", "initial_interval", "backoff_coefficient", "max_interval", "max_duration", "retryable_error_types", "non_retryable_error_types"
            {"backof_coefficient":3}
              unknown field "backof_coefficient"; did you mean "backoff_coefficient"?
        "#]],
    );
}

#[test]
fn duroxide_is_answered_with_its_own_field_names() {
    let backoff = |fields: Value| json!({ "backoff": fields });
    check(
        Dialect::Duroxide,
        &[
            json!({"max_attempts": 0}),
            json!({"max_attempts": -3}),
            json!({"timeout_ms": 0}),
            json!({"timeout_ms": 1.5}),
            json!({"timeout": 5}),
            backoff(json!({"type": "Fixed"})),
            backoff(json!({"type": "Fixed", "delay_ms": -1})),
            backoff(json!({"type": "Linear", "base_ms": 1, "max_ms": 0})),
            backoff(json!({"type": "Exponential", "multiplier": 0})),
            backoff(json!({"type": "None", "delay_ms": 1})),
        ],
        expect![[r#"
            {"max_attempts":0}
              max_attempts: 0 is not allowed; it counts the first attempt. Use 1 for no retries.
            {"max_attempts":-3}
              max_attempts: -3 is not a number of attempts; use 1 or more
            {"timeout_ms":0}
              timeout_ms: 0 leaves no time; leave it out or give 1 or more
            {"timeout_ms":1.5}
              timeout_ms: 1.5 is not a whole number of milliseconds
            {"timeout":5}
              unknown field "timeout"; did you mean "timeout_ms"?
            {"backoff":{"type":"Fixed"}}
              backoff.delay_ms: missing, and required
            {"backoff":{"delay_ms":-1,"type":"Fixed"}}
              backoff.delay_ms: -1 is negative
            {"backoff":{"base_ms":1,"max_ms":0,"type":"Linear"}}
              backoff.max_ms: 0 makes every delay nothing; use the type None
            {"backoff":{"multiplier":0,"type":"Exponential"}}
              backoff.multiplier: 0 is not a finite number greater than 0
            {"backoff":{"delay_ms":1,"type":"None"}}
              backoff: unknown field "delay_ms"; known are "type"
        "#]],
    );
}

#[test]
fn cadence_is_answered_with_its_own_field_names() {
    check(
        Dialect::Cadence,
        &[
            json!({}),
            json!({"InitialInterval": -1, "MaximumAttempts": 1}),
            json!({"InitialInterval": 1, "MaximumAttempts": -1}),
            json!({"InitialInterval": 1, "MaximumAttempts": 2147483648_u64}),
            json!({"InitialInterval": 1, "MaximumAttempts": 0, "ExpirationInterval": 0}),
            json!({"InitialInterval": 1, "ExpirationInterval": -5}),
            json!({"InitialInterval": 1, "ExpirationInterval": "10m"}),
            json!({"initialInterval": 1, "MaximumAttempts": 3}),
            json!({"InitialInterval": 1, "MaximumAttempts": 3, "NonRetryableErrorReasons": []}),
            json!({"InitialInterval": 1, "MaximumAttempts": 3, "Colour": "blue"}),
        ],
        expect![[r#"
            {}
              InitialInterval: missing, and required
              MaximumAttempts and ExpirationInterval are both unset; set at least one
            {"InitialInterval":-1,"MaximumAttempts":1}
              InitialInterval: -1 is negative; write a number of seconds from 0
            {"InitialInterval":1,"MaximumAttempts":-1}
              MaximumAttempts: -1 is not a number of attempts; use 0 for no limit
            {"InitialInterval":1,"MaximumAttempts":2147483648}
              MaximumAttempts: 2147483648 is above 2147483647
            {"ExpirationInterval":0,"InitialInterval":1,"MaximumAttempts":0}
              MaximumAttempts and ExpirationInterval are both unset; set at least one
            {"ExpirationInterval":-5,"InitialInterval":1}
              ExpirationInterval: -5 is negative; write a number of seconds from 0
            {"ExpirationInterval":"10m","InitialInterval":1}
              ExpirationInterval: "10m" is not a number of seconds
            {"MaximumAttempts":3,"initialInterval":1}
              InitialInterval: missing, and required
              unknown field "initialInterval"; did you mean "InitialInterval"?
            {"InitialInterval":1,"MaximumAttempts":3,"NonRetryableErrorReasons":[]}
              unknown field "NonRetryableErrorReasons"; did you mean "NonRetriableErrorReasons"?
            {"Colour":"blue","InitialInterval":1,"MaximumAttempts":3}
              unknown field "Colour"; known are "InitialInterval", "BackoffCoefficient", "MaximumInterval", "ExpirationInterval", "MaximumAttempts", "NonRetriableErrorReasons"
        "#]],
    );
}

#[test]
fn exosphere_is_answered_with_its_own_field_names() {
    check(
        Dialect::Exosphere,
        &[
            json!({"max_retries": -1}),
            json!({"max_retries": u32::MAX}),
            json!({"strategy": "exponential"}),
            json!({"strategy": "FIBONACCI"}),
            json!({"backoff_factor": 0}),
            json!({"backoff_factor": 2.5}),
            json!({"exponent": 0}),
            json!({"exponent": 1.5}),
            json!({"max_delay": 0}),
            json!({"max_delay": "1h"}),
            json!({"max_attempts": 3}),
        ],
        expect![[r#"
            {"max_retries":-1}
              max_retries: -1 is not a number of retries; use 0 or more
            {"max_retries":4294967295}
              max_retries: 4294967295 is too large; use at most 4294967294
            {"strategy":"exponential"}
              strategy: "exponential" is unknown; did you mean "EXPONENTIAL"?
            {"strategy":"FIBONACCI"}
              strategy: "FIBONACCI" is unknown; use one of "EXPONENTIAL", "EXPONENTIAL_FULL_JITTER", "EXPONENTIAL_EQUAL_JITTER", "LINEAR", "LINEAR_FULL_JITTER", "LINEAR_EQUAL_JITTER", "FIXED", "FIXED_FULL_JITTER", "FIXED_EQUAL_JITTER"
            {"backoff_factor":0}
              backoff_factor: 0 is not a number of milliseconds above 0
            {"backoff_factor":2.5}
              backoff_factor: 2.5 is not a whole number of milliseconds
            {"exponent":0}
              exponent: 0 is not a whole number above 0
            {"exponent":1.5}
              exponent: 1.5 is not a whole number above 0
            {"max_delay":0}
              max_delay: 0 is not a number of milliseconds above 0
            {"max_delay":"1h"}
              max_delay: "1h" is not a whole number of milliseconds
            {"max_attempts":3}
              unknown field "max_attempts"; known are "max_retries", "strategy", "backoff_factor", "exponent", "max_delay"
        "#]],
    );
}

#[test]
fn rappel_is_answered_with_its_own_field_names() {
    check(
        Dialect::RappelPy,
        &[
            json!({"attempts": 0}),
            json!({"attempts": 1.5}),
            json!({"backoff_seconds": -1}),
            json!({"timeout": 0}),
            json!({"exception_types": "ValueError"}),
            json!({"retries": 3}),
        ],
        expect![[r#"
            {"attempts":0}
              attempts: 0 is not allowed; it counts the first attempt. Use 1 for no retries.
            {"attempts":1.5}
              attempts: 1.5 is not a number of attempts; use 1 or more
            {"backoff_seconds":-1}
              backoff_seconds: -1 is negative; write a number of seconds from 0
            {"timeout":0}
              timeout: 0 leaves no time; leave it out
            {"exception_types":"ValueError"}
              exception_types: "ValueError" is not a list
            {"retries":3}
              unknown field "retries"; known are "attempts", "exception_types", "backoff_seconds", "timeout"
        "#]],
    );
    check(
        Dialect::RappelIr,
        &[
            json!({}),
            json!({"brackets": 3}),
            json!({"brackets": "[retry: 3] [timeout: 2x]"}),
            json!({"brackets": "[retry: three]"}),
            json!({"brackets": "[Größe ->  retry: 3, backof: 5]"}),
            json!({"brackets": "[(A, B -> retry: 3]"}),
            json!({"brackets": "[(A, B) retry: 3]"}),
            json!({"brackets": "[retry: 1, timeout_retry: 2]"}),
            json!({"brackets": "[timeout: 5s, backoff: 1s]"}),
            json!({"brackets": "[backoff: 5s]"}),
            json!({"brackets": "[retry: 3]]"}),
            json!({"bracket": "[retry: 3]"}),
        ],
        expect![[r#"
            {}
              brackets: missing, and required
            {"brackets":3}
              brackets: 3 is not a text
            {"brackets":"[retry: 3] [timeout: 2x]"}
              timeout: "2x" has the unknown unit "x"; use ms, s, m, h or d (column 22)
            {"brackets":"[retry: three]"}
              retry: "three" is not a number of retries from 0 to 4294967294 (column 9)
            {"brackets":"[Größe ->  retry: 3, backof: 5]"}
              unknown field "backof"; did you mean "backoff"? (column 22)
            {"brackets":"[(A, B -> retry: 3]"}
              expected ")", found "-" (column 8)
            {"brackets":"[(A, B) retry: 3]"}
              expected "->", found "r" (column 9)
            {"brackets":"[retry: 1, timeout_retry: 2]"}
              timeout_retry: write it in a bracket of its own (column 1)
            {"brackets":"[timeout: 5s, backoff: 1s]"}
              backoff: a bracket with a timeout has no backoff (column 1)
            {"brackets":"[backoff: 5s]"}
              retry: missing, so the bracket changes nothing; write [retry: 3] (column 1)
            {"brackets":"[retry: 3]]"}
              expected "[", found "]" (column 11)
            {"bracket":"[retry: 3]"}
              brackets: missing, and required
              unknown field "bracket"; did you mean "brackets"?
        "#]],
    );
}

#[test]
fn a_column_counts_characters_and_not_bytes() {
    let error = parse_brackets("[Größe -> retry: x]").unwrap_err();
    assert!(error.message.ends_with("(column 18)"), "{}", error.message);
}

#[test]
fn the_failure_of_a_question_is_read_as_strictly() {
    let messages = |error: Value| read_failure(Dialect::Edda, &error).unwrap_err().to_string();
    for (error, message) in [
        (json!({"knd": "timeout"}), r#"unknown field "knd"; did you mean "kind"?"#),
        (json!({"kind": "tiemout"}), r#"kind: "tiemout" is unknown; did you mean "timeout"?"#),
        (json!({"retry_after_ms": -5}), "retry_after_ms: -5 is negative"),
        (json!({"mro": "A"}), r#"mro: "A" is not a list"#),
        (json!("timeout"), r#""timeout" is not an error: {"type": ..., "kind": ...}"#),
    ] {
        assert_eq!(messages(error), message);
    }
}

#[test]
fn a_warning_does_not_stop_a_policy_from_being_read() {
    let policy = RetryPolicy::from_value(&json!({"max_attempts": "unlimited"})).unwrap();
    let lints = lint::lint(&policy.check().unwrap());
    assert_eq!(
        lints[0].to_string(),
        "W1 unlimited attempts and no max_elapsed: this never gives up"
    );
}
