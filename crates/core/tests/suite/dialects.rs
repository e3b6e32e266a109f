//! Policies of one system in the words of another: what can be said is said, and what cannot is
//! listed.

use std::time::Duration;

use expect_test::{Expect, expect};
use resurgam_core::retry::dialect::{CatchAll, Dialect, bracket_policy, parse_brackets};
use resurgam_core::retry::{
    Backoff, CEILING, ClockFrom, DeadlineRule, Decision, Exhausted, Idempotency, Jitter, Limit,
    LostWorker, Match, RetryPolicy, Rule, ServerDelay, State, Timeouts, Verdict, decide,
};
use resurgam_core::{Failure, Kind, Timestamp};
use resurgam_watchdog::test;
use serde_json::{Value, json};

const PLAIN: RetryPolicy = RetryPolicy::exponential(Duration::from_secs(1)).jitter(Jitter::None);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The policy in every foreign dialect, each with what was lost.
fn check(policy: &RetryPolicy, expected: Expect) {
    let mut text = String::new();
    for dialect in &Dialect::ALL[1..] {
        let exported = dialect.export(policy);
        text += &format!("{dialect} {}\n", exported.config);
        exported.lost.iter().for_each(|lost| text += &format!("  {lost}\n"));
    }
    expected.assert_eq(&text);
}

fn with_rules(rules: Vec<Rule>) -> RetryPolicy {
    RetryPolicy { rules: rules.into(), ..PLAIN }
}

fn retry(types: &'static [&'static str]) -> Rule {
    Rule::retry(Match::types(types))
}

#[test]
fn a_plain_policy_is_said_by_all_and_a_cap_by_most() {
    check(
        &PLAIN.max_attempts(4).max_delay(seconds(60)),
        expect![[r#"
        edda {"backoff_coefficient":2.0,"initial_interval":1.0,"max_attempts":4,"max_duration":null,"max_interval":60.0,"non_retryable_error_types":[],"retryable_error_types":["Exception"]}
        duroxide {"backoff":{"base_ms":1000,"max_ms":60000,"multiplier":2.0,"type":"Exponential"},"max_attempts":4}
        rappel_ir {"brackets":"[retry: 3, backoff: 1s]"}
          max_delay (1m): delays have no cap
        rappel_py {"attempts":4,"backoff_seconds":1.0,"exception_types":[]}
          max_delay (1m): delays have no cap
        cadence {"BackoffCoefficient":2.0,"ExpirationInterval":0.0,"InitialInterval":1.0,"MaximumAttempts":4,"MaximumInterval":60.0,"NonRetriableErrorReasons":[]}
        exosphere {"backoff_factor":1000,"exponent":2,"max_delay":60000,"max_retries":3,"strategy":"EXPONENTIAL"}
    "#]],
    );
}

#[test]
fn the_default_policy_loses_its_jitter_or_more() {
    check(
        &RetryPolicy::DEFAULT,
        expect![[r#"
        edda {"backoff_coefficient":2.0,"initial_interval":1.0,"max_attempts":10,"max_duration":null,"max_interval":60.0,"non_retryable_error_types":[],"retryable_error_types":["Exception"]}
          jitter: the dialect has none
        duroxide {"backoff":{"base_ms":1000,"max_ms":60000,"multiplier":2.0,"type":"Exponential"},"max_attempts":10}
          jitter: the dialect has none
        rappel_ir {"brackets":"[retry: 9, backoff: 1s]"}
          jitter: the dialect has none
          max_delay (1m): delays have no cap
        rappel_py {"attempts":10,"backoff_seconds":1.0,"exception_types":[]}
          jitter: the dialect has none
          max_delay (1m): delays have no cap
        cadence {"BackoffCoefficient":2.0,"ExpirationInterval":0.0,"InitialInterval":1.0,"MaximumAttempts":10,"MaximumInterval":60.0,"NonRetriableErrorReasons":[]}
          jitter: the dialect has none
        exosphere {"backoff_factor":1000,"exponent":2,"max_delay":60000,"max_retries":9,"strategy":"EXPONENTIAL_EQUAL_JITTER"}
          cap: Exosphere caps after the jitter, so draws pile up at max_delay
          jitter: Exosphere knows none, full and equal
    "#]],
    );
}

#[test]
fn what_only_we_can_say_is_listed() {
    let mut policy = PLAIN
        .unlimited()
        .max_elapsed(seconds(60))
        .deadline(DeadlineRule::Clip)
        .clock_from(ClockFrom::FirstStarted)
        .timeouts(Timeouts {
            attempt: Some(seconds(5)),
            heartbeat: Some(seconds(2)),
            queue: Some(seconds(30)),
            total: Some(seconds(600)),
        })
        .never_for(&["CardDeclined"])
        .otherwise(Verdict::Pause)
        .lost_worker(LostWorker { max: 1, ..LostWorker::DEFAULT })
        .server_delay(ServerDelay { jitter: 0.0, ..ServerDelay::DEFAULT })
        .idempotency(Idempotency::Keyed)
        .on_exhausted(Exhausted::DeadLetter);
    policy.backoff = Backoff::Fibonacci { initial: seconds(1) };
    policy.rules = vec![Rule::fail(Match::codes(&["404"]))].into();
    check(
        &policy,
        expect![[r#"
        edda {"backoff_coefficient":2.0,"initial_interval":1.0,"max_attempts":null,"max_duration":60.0,"max_interval":31536000.0,"non_retryable_error_types":["CardDeclined"],"retryable_error_types":[]}
          lost_worker
          server_delay
          idempotency
          on_exhausted
          timeouts.total (10m)
          timeouts.heartbeat (2s)
          timeouts.attempt (5s)
          timeouts.queue (30s)
          backoff: Edda's delays grow exponentially
          deadline: Edda only checks it after a failed attempt (check_only)
          rules[0]: Edda only lists types to retry and not to retry
          otherwise: Edda fails what is not retried
        duroxide {"backoff":{"base_ms":1000,"max_ms":31536000000,"multiplier":2.0,"type":"Exponential"},"max_attempts":4294967295,"timeout_ms":5000}
          lost_worker
          server_delay
          idempotency
          on_exhausted
          timeouts.total (10m)
          timeouts.heartbeat (2s)
          max_elapsed (1m)
          timeouts.queue (30s)
          never_for: the dialect knows no types
          rules[0]: the dialect knows no such rule
          otherwise: the dialect retries everything
          timeouts.attempt: Duroxide does not retry an attempt that timed out
          max_attempts: Duroxide always has a limit
          backoff: Duroxide knows none, fixed, linear and exponential
        rappel_ir {"brackets":"[timeout: 5s]"}
          lost_worker
          server_delay
          idempotency
          on_exhausted
          timeouts.total (10m)
          timeouts.heartbeat (2s)
          max_elapsed (1m)
          timeouts.queue (30s)
          never_for: only types to retry can be named
          otherwise: what is not retried fails
          rules[0]: a bracket only names types to retry
        rappel_py {"attempts":4294967295,"backoff_seconds":1.0,"exception_types":[],"timeout":5.0}
          lost_worker
          server_delay
          idempotency
          on_exhausted
          timeouts.total (10m)
          timeouts.heartbeat (2s)
          max_elapsed (1m)
          timeouts.queue (30s)
          never_for: only types to retry can be named
          otherwise: what is not retried fails
          rules[0]: one policy names the types it retries
          max_attempts: Rappel always has a limit
          backoff: Rappel's delays double
        cadence {"BackoffCoefficient":2.0,"ExpirationInterval":60.0,"InitialInterval":1.0,"MaximumAttempts":0,"MaximumInterval":31536000.0,"NonRetriableErrorReasons":["CardDeclined"]}
          lost_worker
          server_delay
          idempotency
          on_exhausted
          timeouts.total (10m)
          timeouts.heartbeat (2s)
          timeouts.attempt (5s)
          timeouts.queue (30s)
          deadline: Cadence looks ahead
          clock_from: Cadence's clock starts when the call is scheduled
          backoff: Cadence's intervals grow exponentially or not at all
          never_for: Cadence compares types exactly, without their hierarchy
          rules[0]: Cadence only lists reasons not to retry
          otherwise: Cadence retries what is not listed
        exosphere {"backoff_factor":1000,"exponent":2,"max_delay":null,"max_retries":4294967294,"strategy":"EXPONENTIAL"}
          lost_worker
          server_delay
          idempotency
          on_exhausted
          timeouts.total (10m)
          timeouts.heartbeat (2s)
          max_elapsed (1m)
          timeouts.attempt (5s)
          timeouts.queue (30s)
          never_for: the dialect knows no types
          rules[0]: the dialect knows no such rule
          otherwise: the dialect retries everything
          max_attempts: Exosphere always has a limit
          backoff: Exosphere knows exponential, linear and fixed
    "#]],
    );
}

#[test]
fn types_to_retry_and_not_to_retry() {
    let policy = with_rules(vec![Rule::fail(Match::types(&["ValueError"])), retry(&["OSError"])]);
    check(
        &policy.otherwise(Verdict::Fail),
        expect![[r#"
        edda {"backoff_coefficient":2.0,"initial_interval":1.0,"max_attempts":10,"max_duration":null,"max_interval":31536000.0,"non_retryable_error_types":["ValueError"],"retryable_error_types":["OSError"]}
        duroxide {"backoff":{"base_ms":1000,"max_ms":31536000000,"multiplier":2.0,"type":"Exponential"},"max_attempts":10}
          rules[0]: the dialect knows no such rule
          rules[1]: the dialect knows no such rule
          otherwise: the dialect retries everything
        rappel_ir {"brackets":"[OSError -> retry: 9, backoff: 1s]"}
          rules[0]: a bracket only names types to retry
        rappel_py {"attempts":10,"backoff_seconds":1.0,"exception_types":["OSError"]}
          rules[0]: one policy names the types it retries
        cadence {"BackoffCoefficient":2.0,"ExpirationInterval":0.0,"InitialInterval":1.0,"MaximumAttempts":10,"MaximumInterval":31536000.0,"NonRetriableErrorReasons":["ValueError"]}
          rules[0].on.subclass: Cadence compares types exactly, without their hierarchy
          rules[1]: Cadence only lists reasons not to retry
          otherwise: Cadence retries what is not listed
        exosphere {"backoff_factor":1000,"exponent":2,"max_delay":null,"max_retries":9,"strategy":"EXPONENTIAL"}
          rules[0]: the dialect knows no such rule
          rules[1]: the dialect knows no such rule
          otherwise: the dialect retries everything
    "#]],
    );
}

#[test]
fn a_limit_of_its_own_for_a_type() {
    let rules = vec![retry(&["RateLimited"]).max_attempts(11), retry(&["OSError"]).max_attempts(2)];
    check(
        &with_rules(rules),
        expect![[r#"
        edda {"backoff_coefficient":2.0,"initial_interval":1.0,"max_attempts":10,"max_duration":null,"max_interval":31536000.0,"non_retryable_error_types":[],"retryable_error_types":["Exception"]}
          rules[0]: Edda only lists types to retry and not to retry
          rules[1]: Edda only lists types to retry and not to retry
        duroxide {"backoff":{"base_ms":1000,"max_ms":31536000000,"multiplier":2.0,"type":"Exponential"},"max_attempts":10}
          rules[0]: the dialect knows no such rule
          rules[1]: the dialect knows no such rule
        rappel_ir {"brackets":"[RateLimited -> retry: 10, backoff: 1s] [OSError -> retry: 1, backoff: 1s] [retry: 9, backoff: 1s]"}
          rules[1].max_attempts: Rappel takes the larger count of the last bracket
        rappel_py {"attempts":10,"backoff_seconds":1.0,"exception_types":[]}
          rules[0]: one policy names the types it retries
          rules[1]: one policy names the types it retries
        cadence {"BackoffCoefficient":2.0,"ExpirationInterval":0.0,"InitialInterval":1.0,"MaximumAttempts":10,"MaximumInterval":31536000.0,"NonRetriableErrorReasons":[]}
          rules[0]: Cadence only lists reasons not to retry
          rules[1]: Cadence only lists reasons not to retry
        exosphere {"backoff_factor":1000,"exponent":2,"max_delay":null,"max_retries":9,"strategy":"EXPONENTIAL"}
          rules[0]: the dialect knows no such rule
          rules[1]: the dialect knows no such rule
    "#]],
    );
}

#[test]
fn importing_says_what_the_dialect_says_and_no_more() {
    let read = |dialect: Dialect, config: Value| dialect.import(&config).unwrap().policy;
    for (dialect, config) in [
        (Dialect::Edda, json!({})),
        (Dialect::Duroxide, json!({})),
        (Dialect::RappelIr, json!({"brackets": "[retry: 3, backoff: 5]"})),
        (Dialect::RappelPy, json!({})),
        (Dialect::Cadence, json!({"InitialInterval": 1, "MaximumAttempts": 3})),
        (Dialect::Exosphere, json!({})),
    ] {
        let policy = read(dialect, config);
        assert_eq!(policy.jitter, Jitter::None, "{dialect}");
        assert_eq!(policy.timeouts, Timeouts::default(), "{dialect}");
        assert_eq!(policy.server_delay, ServerDelay::DEFAULT, "{dialect}");
        let limited = matches!(policy.max_attempts, Limit::Attempts(_));
        assert!(limited, "{dialect} has a limit of its own");
    }
    assert_eq!(read(Dialect::RappelIr, json!({"brackets": ""})).max_attempts.to_string(), "1");
    assert_eq!(read(Dialect::RappelPy, json!({})).max_attempts.to_string(), "101");
    let null = json!({"attempts": null, "exception_types": null, "backoff_seconds": null});
    assert_eq!(read(Dialect::RappelPy, null), read(Dialect::RappelPy, json!({})));
}

#[test]
fn edda_takes_every_exception_for_an_exception() {
    let edda = |config: Value| Dialect::Edda.import(&config).unwrap().policy;
    let all = edda(json!({}));
    for root in ["Exception", "BaseException"] {
        assert_eq!(edda(json!({"retryable_error_types": [root]})), all);
        assert_eq!(edda(json!({"retryable_error_types": ["OSError", root]})), all);
        let none = edda(json!({"non_retryable_error_types": [root]}));
        assert_eq!(none.rules.as_ref(), [Rule::fail(Match::ALL)]);
    }
    // For us a type of that name is one among others, which Edda cannot say.
    let named = with_rules(vec![Rule::fail(Match::types(&["Exception"]))]);
    let lost = "rules[0]: Edda only lists types to retry and not to retry";
    assert_eq!(Dialect::Edda.export(&named).lost, [lost]);
    let never = PLAIN.never_for(&["BaseException"]);
    let lost = "never_for: in Edda everything is an Exception";
    assert_eq!(Dialect::Edda.export(&never).lost, [lost]);
}

#[test]
fn an_edda_terminal_error_is_terminal_and_its_timeouts_have_a_type() {
    use resurgam_core::retry::dialect::read_failure;
    let read = |error: Value| read_failure(Dialect::Edda, &error).unwrap();
    assert!(read(json!({"type": "TerminalError"})).is_terminal());
    assert!(
        read(json!({"type": "OutOfStock", "mro": ["OutOfStock", "TerminalError"]})).is_terminal()
    );
    assert!(!read(json!({"type": "OSError"})).is_terminal());
    assert!(read(json!({"kind": "timeout"})).has_type("OSError", true));
    let elsewhere = read_failure(Dialect::Duroxide, &json!({"type": "TerminalError"})).unwrap();
    assert_eq!(elsewhere, Failure::of_type("TerminalError", ""));
}

#[test]
fn cadence_reasons_are_kinds_and_types_in_their_order() {
    let reasons = json!([
        "custom",
        "cadenceInternal:Panic",
        "cadenceInternal:Timeout HEARTBEAT",
        "cadenceInternal:Generic",
        "other",
    ]);
    let config = json!({
        "InitialInterval": 1, "MaximumAttempts": 3, "NonRetriableErrorReasons": reasons,
    });
    let policy = Dialect::Cadence.import(&config).unwrap().policy;
    let exact = |types| Match { subclass: false, ..Match::types(types) };
    assert_eq!(
        policy.rules.as_ref(),
        [
            Rule::fail(exact(&["custom"])),
            Rule::fail(Match::kinds(&[Kind::Panic, Kind::HeartbeatTimeout])),
            Rule::fail(Match { kinds: vec![Kind::Error].into(), ..exact(&[""]) }),
            Rule::fail(exact(&["other"])),
        ]
    );
    assert_eq!(Dialect::Cadence.export(&policy).config["NonRetriableErrorReasons"], reasons);
    // A type that happens to have the name of such a reason cannot be said.
    let named = with_rules(vec![Rule::fail(exact(&["cadenceInternal:Panic"]))]);
    let lost = "rules[0]: Cadence only lists reasons not to retry";
    assert_eq!(Dialect::Cadence.export(&named).lost, [lost]);
}

#[test]
fn the_largest_count_of_rappels_brackets_holds_with_the_first_backoff() {
    let text = "[A -> retry: 2, backoff: 1s] [A, B -> retry: 5, backoff: 9s] [retry: 3]";
    let policy = Dialect::RappelIr.import(&json!({ "brackets": text })).unwrap().policy;
    assert_eq!(
        Dialect::RappelIr.export(&policy).config,
        json!({"brackets": "[A -> retry: 5, backoff: 1s] [B -> retry: 5, backoff: 9s] [retry: 3]"})
    );
}

#[test]
fn a_type_that_two_rules_name_is_said_once_in_rappels_brackets() {
    // For us the first rule wins; two brackets would give the larger count.
    let rules = vec![retry(&["A"]).max_attempts(3), retry(&["A", "B"]).max_attempts(7)];
    let policy = with_rules(rules).otherwise(Verdict::Fail);
    let exported = Dialect::RappelIr.export(&policy);
    assert_eq!(
        exported.config,
        json!({"brackets": "[A -> retry: 2, backoff: 1s] [B -> retry: 6, backoff: 1s]"})
    );
    assert_eq!(exported.lost, [""; 0]);
}

#[test]
fn a_type_called_action_timeout_is_not_a_timeout_for_us() {
    let named = with_rules(vec![retry(&["ActionTimeout"])]).otherwise(Verdict::Fail);
    let lost = Dialect::RappelIr.export(&named).lost;
    assert_eq!(lost, ["rules[0]: a bracket only names types to retry"]);
    let lost = &Dialect::RappelPy.export(&named).lost[0];
    assert_eq!(lost, "rules[0]: one policy names the types it retries");
    let timeouts = with_rules(vec![Rule::retry(Match::kinds(&[Kind::Timeout]))]);
    let timeouts = timeouts.otherwise(Verdict::Fail);
    assert_eq!(
        Dialect::RappelPy.export(&timeouts).config["exception_types"],
        json!(["ActionTimeout"])
    );
}

#[test]
fn a_fraction_of_a_millisecond_is_lost_but_does_not_become_nothing() {
    let micro = Duration::from_micros(1);
    let timeouts = Timeouts { attempt: Some(micro), ..Timeouts::default() };
    let policy = RetryPolicy::exponential(Duration::from_micros(1_500))
        .jitter(Jitter::None)
        .max_delay(micro)
        .timeouts(timeouts);
    let duroxide = Dialect::Duroxide.export(&policy);
    assert_eq!(duroxide.config["timeout_ms"], 1);
    assert_eq!(duroxide.config["backoff"]["base_ms"], 1);
    assert_eq!(duroxide.config["backoff"]["max_ms"], 1);
    assert!(duroxide.lost.contains(&"max_delay: fractions of a millisecond".to_string()));
    assert_eq!(Dialect::Exosphere.export(&policy).config["max_delay"], 1);
}

#[test]
fn seconds_are_read_and_written_as_they_were_typed() {
    for typed in [0.1, 0.3, 1234.567, 4_395_959.104, 15_179_751.572, 2_999_999_999.123, 1e-9] {
        let config = json!({"attempts": 2, "backoff_seconds": typed});
        let policy = Dialect::RappelPy.import(&config).unwrap().policy;
        assert_eq!(Dialect::RappelPy.export(&policy).config["backoff_seconds"], typed);
    }
    let config = json!({"initial_interval": 15_179_751.572});
    let policy = Dialect::Edda.import(&config).unwrap().policy;
    assert_eq!(policy.backoff.initial(), Some(Duration::from_millis(15_179_751_572)));
}

#[test]
fn an_exponent_may_be_as_large_as_exosphere_allows() {
    let config = json!({
        "max_retries": 4_294_967_294_u32, "strategy": "EXPONENTIAL", "backoff_factor": 1,
        "exponent": u32::MAX, "max_delay": null,
    });
    let policy = Dialect::Exosphere.import(&config).unwrap().policy;
    let exported = Dialect::Exosphere.export(&policy);
    assert_eq!((exported.config, exported.lost), (config, vec![]));
    let half = PLAIN.multiplier(2.5);
    let lost = "backoff.multiplier: Exosphere's exponent is a whole number";
    assert_eq!(Dialect::Exosphere.export(&half).lost, [lost]);
}

#[test]
fn a_dialect_is_found_by_its_name() {
    for dialect in Dialect::ALL {
        assert_eq!(Dialect::named(dialect.name()), Some(dialect));
    }
    assert_eq!(Dialect::named("temporal"), None);
}

#[test]
fn brackets_with_their_own_caps_and_jitter_do_not_inherit_those_of_others() {
    let text = "[A -> retry: 5, backoff: 1s, multiplier: 3, max_delay: 9s, jitter: full] \
                [B -> retry: 5, backoff: 2s linear] [retry: 1, backoff: 4s, max_delay: 8s]";
    let policy = Dialect::RappelIr.import(&json!({ "brackets": text })).unwrap().policy;
    assert_eq!((policy.max_delay, policy.jitter), (Some(Duration::from_secs(8)), Jitter::None));
    let [a, b] = &policy.rules[..] else { panic!("{:?}", policy.rules) };
    let tripling = Backoff::Exponential { initial: Duration::from_secs(1), multiplier: 3.0 };
    assert_eq!(a.backoff, Some(tripling));
    assert_eq!((a.max_delay, a.jitter), (Some(Duration::from_secs(9)), Some(Jitter::Full)));
    assert_eq!((b.max_delay, b.jitter), (Some(CEILING), None));
}

#[test]
fn the_shortest_of_several_timeouts_holds_and_zero_bounds_nothing() {
    let text = "[timeout: 2m] [timeout: 30] [timeout: 0]";
    let policy = Dialect::RappelIr.import(&json!({ "brackets": text })).unwrap().policy;
    assert_eq!(policy.timeouts.attempt, Some(Duration::from_secs(30)));
}

#[test]
fn brackets_that_disagree_about_the_whole_call_are_refused() {
    let import = |text: &str| Dialect::RappelIr.import(&json!({ "brackets": text }));
    let agree = "[A -> retry: 3, max_elapsed: 1h] [retry: 1, max_elapsed: 1h] [timeout: 5]";
    assert_eq!(import(agree).unwrap().policy.max_elapsed, Some(Duration::from_secs(3600)));
    let disagree = import("[A -> retry: 3, max_elapsed: 1h] [retry: 1]").unwrap_err();
    assert_eq!(
        disagree.to_string(),
        "max_elapsed: it bounds the whole call; write the same in every retry bracket"
    );
}

#[test]
fn a_bracket_for_everything_spares_timeouts_in_waymark_unless_they_are_named() {
    let timeout = Failure::of_kind(Kind::Timeout, "too slow");
    let retries = |text: &str, covers: CatchAll| {
        let policy = bracket_policy(&parse_brackets(text).unwrap(), covers).unwrap();
        let policy = policy.check().unwrap();
        let state = State::after(1, Timestamp::EPOCH);
        matches!(decide(&policy, &state, &timeout, Timestamp::EPOCH, 0.5), Decision::Retry { .. })
    };
    assert!(retries("[retry: 3]", CatchAll::Everything));
    assert!(!retries("[retry: 3]", CatchAll::AllButTimeouts));
    assert!(retries("[retry: 3] [ActionTimeout -> retry: 1]", CatchAll::AllButTimeouts));
    assert!(retries("[retry: 3] [timeout_retry: 1]", CatchAll::AllButTimeouts));
}
