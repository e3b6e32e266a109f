//! Where a system's own documents contradict themselves, we follow one reading. Each test states
//! it; the letter is the system (Edda, Duroxide, Rappel, Cadence, eXosphere).
//!
//! Two are about the engine and stand in `testing/tests/contradictions.rs`: which of several
//! policies holds for a call (E6), and the order of events in a history (D4).

use std::time::Duration;

use resurgam_core::retry::dialect::{Dialect, read_failure};
use resurgam_core::retry::lint::{Code, lint};
use resurgam_core::retry::schedule::spread;
use resurgam_core::retry::{
    Backoff, CapOrder, CheckedPolicy, ClockFrom, DeadlineRule, Decision, Jitter, Reason,
    RetryPolicy, State, Timeouts, decide, forecast,
};
use resurgam_core::{Failure, Kind, Timestamp};
use resurgam_watchdog::test;
use serde_json::{Value, json};

fn import(dialect: Dialect, config: Value) -> CheckedPolicy {
    dialect.import(&config).unwrap().policy.check().unwrap()
}

/// The number of attempts and the delays in milliseconds when every attempt fails.
fn schedule(policy: &CheckedPolicy) -> (Option<u32>, Vec<u64>) {
    let schedule = forecast::schedule(policy, policy.assumed(), 0.5, Duration::ZERO);
    let delays = schedule.steps.iter().map(|step| step.delay.as_millis() as u64);
    (schedule.attempts, delays.collect())
}

/// The decision after this many failures at this time on the call's clock.
fn decision(policy: &CheckedPolicy, failures: u32, failure: &Failure, elapsed: i64) -> Decision {
    let state = State::after(failures, Timestamp::EPOCH);
    decide(policy, &state, failure, Timestamp::from_millis(elapsed), 0.5)
}

fn reason(decision: &Decision) -> Option<Reason> {
    match decision {
        Decision::Retry { .. } => None,
        Decision::Stop { why } => Some(why.reason),
    }
}

fn delay_ms(decision: &Decision) -> Option<u64> {
    match decision {
        Decision::Retry { delay, .. } => Some(delay.as_millis() as u64),
        Decision::Stop { .. } => None,
    }
}

fn error(type_name: &str) -> Failure {
    Failure::of_type(type_name, "failed")
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn e1_the_table_holds_and_not_the_example_calculation() {
    let policy = import(Dialect::Edda, json!({}));
    assert_eq!(schedule(&policy), (Some(5), vec![1_000, 2_000, 4_000, 8_000]));
}

#[test]
fn e2_max_attempts_counts_every_attempt_although_the_text_says_retry_5_times() {
    let policy = import(Dialect::Edda, json!({"max_attempts": 3}));
    let failed = error("ConnectionError");
    assert_eq!(delay_ms(&decision(&policy, 2, &failed, 0)), Some(2_000));
    let last = decision(&policy, 3, &failed, 0);
    assert_eq!(reason(&last), Some(Reason::MaxAttempts));
    let Decision::Stop { why } = last else { unreachable!() };
    assert_eq!(why.to_string(), "max_attempts: 3 of 3 attempts failed");
}

#[test]
fn e3_n_attempts_have_n_minus_1_delays() {
    let conservative = json!({
        "max_attempts": 3, "initial_interval": 5.0, "max_interval": 300.0, "max_duration": 900.0,
    });
    assert_eq!(
        schedule(&import(Dialect::Edda, conservative)),
        (Some(3), vec![5_000, 10_000]),
        "and not a third of 20 s"
    );
    let constant = json!({
        "max_attempts": 5, "initial_interval": 2.0, "backoff_coefficient": 1.0, "max_interval": 2.0,
    });
    assert_eq!(
        schedule(&import(Dialect::Edda, constant)),
        (Some(5), vec![2_000; 4]),
        "and not five"
    );
}

#[test]
fn e4_the_first_attempt_is_immediate_and_the_first_delay_is_the_initial_interval() {
    let policy = import(Dialect::Edda, json!({"initial_interval": 0.5, "max_attempts": 3}));
    let (attempts, delays) = schedule(&policy);
    assert_eq!((attempts, delays.len()), (Some(3), 2), "no delay belongs to the first attempt");
    assert_eq!(delays, [500, 1_000], "2^(r - 1) and not 2^r");
}

#[test]
fn e5_a_type_that_is_not_retryable_is_not_exhausted() {
    let policy = import(Dialect::Edda, json!({"non_retryable_error_types": ["ValueError"]}));
    assert_eq!(reason(&decision(&policy, 1, &error("ValueError"), 0)), Some(Reason::NonRetryable));
    // Also where the attempts are used up at the same time.
    assert_eq!(reason(&decision(&policy, 5, &error("ValueError"), 0)), Some(Reason::NonRetryable));
    assert_eq!(reason(&decision(&policy, 5, &error("OSError"), 0)), Some(Reason::MaxAttempts));
}

#[test]
fn e7_the_time_is_counted_from_the_first_start_and_includes_execution() {
    let policy = import(Dialect::Edda, json!({"max_duration": 60.0}));
    assert_eq!(policy.clock_from, ClockFrom::FirstStarted);
    let at = Timestamp::from_millis;
    let state = State {
        failures: 1,
        first_scheduled: at(0),
        first_started: Some(at(100_000)),
        previous_delay: None,
        total_since: None,
    };
    // One attempt that took 59.999 s, and one that took 60 s: no wait has been made yet.
    let decide = |now| reason(&decide(&policy, &state, &error("OSError"), at(now), 0.5));
    assert_eq!(decide(159_999), None);
    assert_eq!(decide(160_000), Some(Reason::MaxElapsed));
}

#[test]
fn d1_a_timeout_belongs_to_one_attempt_and_ends_the_call() {
    let policy = import(Dialect::Duroxide, json!({"timeout_ms": 10_000}));
    let expected = Timeouts { attempt: Some(seconds(10)), ..Timeouts::default() };
    assert_eq!(policy.timeouts, expected, "not a total timeout");
    assert_eq!(policy.max_elapsed, None);
    let timeout = Failure::of_kind(Kind::Timeout, "activity timed out");
    assert_eq!(reason(&decision(&policy, 1, &timeout, 0)), Some(Reason::NonRetryable));
    assert_eq!(reason(&decision(&policy, 1, &error("E"), 1_000_000)), None, "no total limit");
    // A total limit of ours has no place there.
    let total = RetryPolicy::DEFAULT.max_elapsed(seconds(60)).jitter(Jitter::None);
    assert_eq!(Dialect::Duroxide.export(&total).lost, ["max_elapsed (1m)"]);
}

#[test]
fn d2_no_attempts_at_all_is_refused_and_neither_clamped_nor_a_panic() {
    let refused = Dialect::Duroxide.import(&json!({"max_attempts": 0})).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "max_attempts: 0 is not allowed; it counts the first attempt. Use 1 for no retries."
    );
}

#[test]
fn d3_no_delay_is_a_delay_of_zero_for_which_no_timer_is_needed() {
    let none = import(Dialect::Duroxide, json!({"backoff": {"type": "None"}}));
    let fixed = json!({"backoff": {"type": "Fixed", "delay_ms": 0}});
    for policy in [none, import(Dialect::Duroxide, fixed)] {
        let Decision::Retry { delay, .. } = decision(&policy, 1, &error("E"), 0) else {
            panic!("it is retried")
        };
        assert!(delay.is_zero());
    }
}

#[test]
fn d5_the_linear_backoff_is_capped_although_its_comment_does_not_say_so() {
    let linear = json!({
        "max_attempts": 5, "backoff": {"type": "Linear", "base_ms": 1_000, "max_ms": 2_500},
    });
    let (_, delays) = schedule(&import(Dialect::Duroxide, linear));
    assert_eq!(delays, [1_000, 2_000, 2_500, 2_500]);
    let unnamed = json!({"max_attempts": 50, "backoff": {"type": "Linear", "base_ms": 1_000}});
    let (_, delays) = schedule(&import(Dialect::Duroxide, unnamed));
    assert_eq!(delays.last(), Some(&30_000), "the default cap");
}

#[test]
fn r1_brackets_count_retries_and_python_counts_attempts_and_both_double() {
    let brackets = import(Dialect::RappelIr, json!({"brackets": "[retry: 3, backoff: 60]"}));
    assert_eq!(schedule(&brackets), (Some(4), vec![60_000, 120_000, 240_000]));
    let python = import(Dialect::RappelPy, json!({"attempts": 3, "backoff_seconds": 60}));
    assert_eq!(schedule(&python), (Some(3), vec![60_000, 120_000]));
}

#[test]
fn r2_the_first_delay_is_the_backoff_itself() {
    let policy = import(Dialect::RappelIr, json!({"brackets": "[retry: 1, backoff: 2m]"}));
    assert_eq!(schedule(&policy).1, [120_000], "2^0 and not 2^1");
}

#[test]
fn r3_counters_only_go_up_and_a_catch_all_covers_timeouts_unless_they_are_named() {
    let timeout = Failure::of_kind(Kind::Timeout, "too slow");
    let brackets = |text: &str| import(Dialect::RappelIr, json!({ "brackets": text }));
    let limit = |policy: &CheckedPolicy, failure: &Failure| {
        (1..).find(|failures| reason(&decision(policy, *failures, failure, 0)).is_some()).unwrap()
    };
    let catch_all = brackets("[retry: 3]");
    assert_eq!(limit(&catch_all, &timeout), 4);
    for named in ["[retry: 3] [timeout_retry: 1]", "[ActionTimeout -> retry: 1] [retry: 3]"] {
        let policy = brackets(named);
        assert_eq!(limit(&policy, &timeout), 2, "{named}");
        assert_eq!(limit(&policy, &error("ValueError")), 4, "{named}");
    }
    // A bracket for other types says nothing about timeouts, and without a catch-all they end it.
    let typed = brackets("[NetworkError -> retry: 5]");
    assert_eq!(reason(&decision(&typed, 1, &timeout, 0)), Some(Reason::NoRule));
}

#[test]
fn r4_types_may_stand_in_parentheses_or_not() {
    let import = |text: &str| Dialect::RappelIr.import(&json!({ "brackets": text })).unwrap();
    assert_eq!(
        import("[(ValueError, KeyError) -> retry: 3, backoff: 30s]"),
        import("[ValueError, KeyError -> retry: 3, backoff: 30s]")
    );
}

#[test]
fn r5_linear_growth_is_an_extension_of_the_syntax() {
    let policy = import(Dialect::RappelIr, json!({"brackets": "[retry: 3, backoff: 10s linear]"}));
    assert_eq!(schedule(&policy).1, [10_000, 20_000, 30_000]);
    let exported = Dialect::RappelIr.export(&policy);
    assert_eq!(exported.config, json!({"brackets": "[retry: 3, backoff: 10s linear]"}));
}

#[test]
fn c1_a_missing_maximum_is_a_hundred_times_the_first_interval_everywhere() {
    let policy = import(Dialect::Cadence, json!({"InitialInterval": 2, "MaximumAttempts": 20}));
    assert_eq!(policy.max_delay, Some(seconds(200)));
    let unset = json!({"InitialInterval": 2, "MaximumInterval": 0, "MaximumAttempts": 20});
    assert_eq!(import(Dialect::Cadence, unset).max_delay, Some(seconds(200)));
    assert_eq!(schedule(&policy).1[5..9], [64_000, 128_000, 200_000, 200_000]);
}

#[test]
fn c2_maximum_attempts_is_the_total_as_on_the_server() {
    let policy = import(Dialect::Cadence, json!({"InitialInterval": 1, "MaximumAttempts": 3}));
    assert_eq!(schedule(&policy), (Some(3), vec![1_000, 2_000]));
}

#[test]
fn c3_the_expiration_looks_ahead() {
    let policy = import(Dialect::Cadence, json!({"InitialInterval": 10, "ExpirationInterval": 60}));
    assert_eq!(policy.deadline, DeadlineRule::LookAhead);
    assert_eq!(policy.clock_from, ClockFrom::FirstScheduled);
    let failed = error("Custom");
    assert_eq!(delay_ms(&decision(&policy, 1, &failed, 50_000)), Some(10_000));
    assert_eq!(reason(&decision(&policy, 1, &failed, 50_001)), Some(Reason::MaxElapsed));
}

#[test]
fn c4_an_attempt_may_wait_in_its_queue_until_the_policy_expires() {
    let policy = import(Dialect::Cadence, json!({"InitialInterval": 1, "ExpirationInterval": 600}));
    assert_eq!(policy.timeouts.queue, Some(seconds(600)));
    let endless = import(Dialect::Cadence, json!({"InitialInterval": 1, "MaximumAttempts": 3}));
    assert_eq!(endless.timeouts.queue, None);
    let waited = read_failure(Dialect::Cadence, &json!({"kind": "timeout", "timeout": "queue"}));
    let waited = decision(&policy, 1, &waited.unwrap(), 600_000);
    assert_eq!(reason(&waited), Some(Reason::QueueTimeout), "extended, and not retried");
}

#[test]
fn x1_max_retries_counts_retries_so_there_is_one_attempt_more() {
    let policy = import(Dialect::Exosphere, json!({"max_retries": 3}));
    assert_eq!(schedule(&policy), (Some(4), vec![2_000, 4_000, 8_000]));
    let none = import(Dialect::Exosphere, json!({"max_retries": 0}));
    assert_eq!(schedule(&none), (Some(1), vec![]));
}

#[test]
fn x2_the_cap_comes_after_the_jitter_there_and_before_it_here() {
    let config = json!({
        "strategy": "EXPONENTIAL_FULL_JITTER", "backoff_factor": 2_000, "max_delay": 10_000,
    });
    let policy = import(Dialect::Exosphere, config);
    assert_eq!(policy.cap, CapOrder::After);
    assert!(lint(&policy).iter().any(|lint| lint.code == Code::W6));
    // The fifth delay is 32 s before the cap: over there two draws of three end at the cap.
    let there = spread(&policy.terms(None), 5, None);
    assert_eq!([0.25, 0.5, 0.75].map(|u| there.at(u).as_millis()), [8_000, 10_000, 10_000]);
    let ours = policy.into_inner().cap(CapOrder::Truncate);
    let here = spread(&ours.terms(None), 5, None);
    assert_eq!([0.25, 0.5, 0.75].map(|u| here.at(u).as_millis()), [2_500, 5_000, 7_500]);
}

#[test]
fn x3_a_failed_attempt_is_an_error_only_when_no_retry_follows() {
    let policy = import(Dialect::Exosphere, json!({"max_retries": 1}));
    let failure = Failure::new("down");
    let after = |failures| {
        let state = State::after(failures, Timestamp::EPOCH);
        decide(&policy, &state, &failure, Timestamp::EPOCH, 0.5)
    };
    assert!(matches!(after(1), Decision::Retry { .. }), "a retry was created");
    assert!(matches!(after(2), Decision::Stop { why } if why.reason == Reason::MaxAttempts));
}

#[test]
fn x4_an_exponent_without_use_is_accepted_with_a_note() {
    for strategy in ["LINEAR", "LINEAR_EQUAL_JITTER", "FIXED", "FIXED_FULL_JITTER"] {
        let imported =
            Dialect::Exosphere.import(&json!({"strategy": strategy, "exponent": 7})).unwrap();
        assert_eq!(
            imported.notes,
            ["exponent: 7 has no effect; only EXPONENTIAL strategies use it"]
        );
        assert!(!matches!(imported.policy.backoff, Backoff::Exponential { .. }));
    }
    let used = Dialect::Exosphere.import(&json!({"exponent": 7})).unwrap();
    assert_eq!(used.notes, [""; 0]);
    // Also where it has no use, it must be a whole number above 0.
    assert!(Dialect::Exosphere.import(&json!({"strategy": "FIXED", "exponent": 0})).is_err());
}

#[test]
fn x5_equal_jitter_on_an_odd_delay_begins_at_the_half_rounded_down() {
    let config = json!({"strategy": "FIXED_EQUAL_JITTER", "backoff_factor": 1_001});
    let policy = import(Dialect::Exosphere, config);
    let (shortest, longest) = spread(&policy.terms(None), 1, None).bounds();
    assert_eq!((shortest.as_millis(), longest.as_millis()), (500, 1_001));
}
