//! What follows a failed attempt, and why.

use std::time::Duration;

use expect_test::expect;
use resurgam_core::retry::{
    Backoff, CEILING, CheckedPolicy, ClockFrom, Counters, DeadlineRule, Decision, Idempotency,
    Jitter, Limit, LostWorker, Match, Reason, RetryPolicy, Rule, ServerDelay, ServerDelayMode,
    State, Timeouts, Verdict, decide, decide_lost, uniform,
};
use resurgam_core::{Failure, Kind, Timestamp};
use resurgam_watchdog::test;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// Ten attempts, ten seconds apart, without jitter.
const TEN_SECONDS: RetryPolicy = RetryPolicy::fixed(Duration::from_secs(10)).jitter(Jitter::None);

fn checked(policy: RetryPolicy) -> CheckedPolicy {
    policy.check().unwrap()
}

fn with_rules(rules: Vec<Rule>) -> CheckedPolicy {
    checked(RetryPolicy { rules: rules.into(), ..TEN_SECONDS })
}

/// The decision after the first failure of a call that just began.
fn first(policy: &CheckedPolicy, failure: &Failure) -> Decision {
    decide(policy, &State::after(1, Timestamp::EPOCH), failure, Timestamp::EPOCH, 0.0)
}

fn nth(policy: &CheckedPolicy, failures: u32, failure: &Failure) -> Decision {
    decide(policy, &State::after(failures, Timestamp::EPOCH), failure, Timestamp::EPOCH, 0.0)
}

fn after(policy: &CheckedPolicy, elapsed_ms: i64) -> Decision {
    let state = State::after(1, Timestamp::EPOCH);
    decide(policy, &state, &Failure::new("down"), at(elapsed_ms), 0.0)
}

fn reason(decision: &Decision) -> Option<Reason> {
    match decision {
        Decision::Retry { .. } => None,
        Decision::Stop { why } => Some(why.reason),
    }
}

fn delay(decision: &Decision) -> Option<Duration> {
    match decision {
        Decision::Retry { delay, .. } => Some(*delay),
        Decision::Stop { .. } => None,
    }
}

fn retried(decision: &Decision) -> bool {
    reason(decision).is_none()
}

fn descendant(types: &[&str]) -> Failure {
    let mut failure = Failure::of_type(types[0], "failed");
    failure.mro = types.iter().map(ToString::to_string).collect();
    failure
}

#[test]
fn an_earlier_check_answers_before_a_later_one() {
    // Everything is wrong at once; each line takes the reason of the line before away.
    let strict = RetryPolicy {
        rules: vec![Rule::fail(Match::codes(&["x"]))].into(),
        otherwise: Verdict::Fail,
        ..TEN_SECONDS.max_attempts(1).max_elapsed(seconds(1))
    };
    let lenient = RetryPolicy { otherwise: Verdict::Retry, ..strict.clone() };
    let more = lenient.clone().max_attempts(2);
    let late = at(5_000);
    let coded = Failure::new("failed").with_code("x");
    let mut cancelled = Failure::prune().with_code("x");
    cancelled.kind = Kind::Cancelled;
    for (policy, failure, expected) in [
        (&strict, cancelled, Reason::Cancelled),
        (&strict, Failure::prune().with_code("x"), Reason::Pruned),
        (&strict, coded.clone().into_terminal(), Reason::Terminal),
        (&strict, coded, Reason::NonRetryable),
        (&strict, Failure::new("failed"), Reason::NoRule),
        (&lenient, Failure::new("failed"), Reason::MaxAttempts),
        (&more, Failure::new("failed"), Reason::MaxElapsed),
    ] {
        let state = State::after(1, Timestamp::EPOCH);
        let decision = decide(&checked(policy.clone()), &state, &failure, late, 0.0);
        assert_eq!(reason(&decision), Some(expected), "{failure}");
    }
    let more = more.max_elapsed(seconds(15));
    let state = State::after(1, Timestamp::EPOCH);
    assert!(retried(&decide(&checked(more), &state, &Failure::new("failed"), late, 0.0)));
}

#[test]
fn the_first_rule_that_matches_wins() {
    let policy = with_rules(vec![
        Rule::retry(Match::types(&["Busy"])).backoff(Backoff::Fixed { delay: seconds(1) }),
        Rule::fail(Match::types(&["Busy", "Broken"])),
        Rule::retry(Match::ALL).backoff(Backoff::Fixed { delay: seconds(2) }),
    ]);
    let busy = first(&policy, &Failure::of_type("Busy", ""));
    assert_eq!(delay(&busy), Some(seconds(1)));
    let broken = first(&policy, &Failure::of_type("Broken", ""));
    assert_eq!(reason(&broken), Some(Reason::NonRetryable));
    assert_eq!(delay(&first(&policy, &Failure::new("else"))), Some(seconds(2)));
}

#[test]
fn never_for_comes_before_every_rule() {
    let rules = vec![Rule::retry(Match::ALL)];
    let policy = RetryPolicy { rules: rules.into(), ..TEN_SECONDS }.never_for(&["CardDeclined"]);
    let policy = checked(policy);
    let declined = first(&policy, &descendant(&["StolenCard", "CardDeclined", "Exception"]));
    assert_eq!(reason(&declined), Some(Reason::NonRetryable));
    assert!(retried(&first(&policy, &Failure::of_type("Timeout", ""))));
}

#[test]
fn what_a_rule_leaves_out_the_policy_says() {
    let policy = with_rules(vec![Rule::retry(Match::codes(&["429"])).max_attempts(2)]);
    let throttled = Failure::new("slow down").with_code("429");
    assert_eq!(delay(&nth(&policy, 1, &throttled)), Some(seconds(10)));
    assert_eq!(reason(&nth(&policy, 2, &throttled)), Some(Reason::MaxAttempts));
    assert_eq!(delay(&nth(&policy, 2, &Failure::new("other"))), Some(seconds(10)));
}

#[test]
fn all_rules_share_one_count_of_failures() {
    let policy = with_rules(vec![
        Rule::retry(Match::types(&["A"])).max_attempts(3),
        Rule::retry(Match::types(&["B"])).max_attempts(5).backoff(Backoff::exponential(seconds(1))),
    ]);
    let (a, b) = (Failure::of_type("A", ""), Failure::of_type("B", ""));
    // Three failures, whatever they were: A is at its limit, B goes on and is at its third delay.
    assert_eq!(reason(&nth(&policy, 3, &a)), Some(Reason::MaxAttempts));
    assert_eq!(delay(&nth(&policy, 3, &b)), Some(seconds(4)));
    assert_eq!(delay(&nth(&policy, 4, &b)), Some(seconds(8)));
    assert_eq!(reason(&nth(&policy, 5, &b)), Some(Reason::MaxAttempts));
}

#[test]
fn a_rule_may_lift_the_limit_of_the_policy() {
    let unlimited = Rule { max_attempts: Some(Limit::Unlimited), ..Rule::retry(Match::ALL) };
    let policy = with_rules(vec![unlimited]);
    assert!(retried(&nth(&policy, u32::MAX, &Failure::new("down"))));
    assert!(!retried(&nth(&checked(TEN_SECONDS), 10, &Failure::new("down"))));
}

#[test]
fn descendants_match_unless_the_rule_asks_for_the_type_itself() {
    let rule = |subclass| {
        with_rules(vec![Rule::fail(Match { subclass, ..Match::types(&["ConnectionError"]) })])
    };
    let reset = descendant(&["ConnectionResetError", "ConnectionError", "OSError"]);
    let itself = descendant(&["ConnectionError", "OSError"]);
    for (subclass, failure, fails) in [
        (true, &reset, true),
        (false, &reset, false),
        (true, &itself, true),
        (false, &itself, true),
    ] {
        assert_eq!(!retried(&first(&rule(subclass), failure)), fails, "{subclass} {failure}");
    }
    // Only a hierarchy: its first entry is the type.
    let mut anonymous = reset;
    anonymous.type_name = None;
    assert!(retried(&first(&rule(false), &anonymous)));
    assert!(!retried(&first(&rule(true), &anonymous)));
}

#[test]
fn the_empty_name_stands_for_a_failure_without_a_type() {
    let policy = with_rules(vec![Rule::fail(Match::types(&[""]))]);
    assert!(!retried(&first(&policy, &Failure::new("anything"))));
    assert!(retried(&first(&policy, &Failure::of_type("Typed", "anything"))));
}

#[test]
fn codes_kinds_and_patterns_must_all_hold() {
    let on = Match {
        kinds: vec![Kind::Error, Kind::Throttled].into(),
        message: Some("over (load|run)".into()),
        ..Match::codes(&["503", "429"])
    };
    let policy = with_rules(vec![Rule::fail(on)]);
    let failure = |kind, code: &str, message: &str| Failure::of_kind(kind, message).with_code(code);
    for (failure, matches) in [
        (failure(Kind::Error, "503", "we are over load today"), true),
        (failure(Kind::Throttled, "429", "over run"), true),
        (failure(Kind::Timeout, "503", "over load"), false),
        (failure(Kind::Error, "500", "over load"), false),
        (failure(Kind::Error, "503", "overload"), false),
        (Failure::new("over load"), false),
    ] {
        assert_eq!(!retried(&first(&policy, &failure)), matches, "{failure:?}");
    }
}

#[test]
fn a_pattern_is_found_anywhere_and_minds_the_case() {
    let policy = |pattern| with_rules(vec![Rule::fail(Match::message(pattern))]);
    for (pattern, message, matches) in [
        ("deadlock", "ERROR: deadlock detected", true),
        ("deadlock", "ERROR: Deadlock detected", false),
        ("(?i)deadlock", "ERROR: Deadlock detected", true),
        ("^deadlock", "ERROR: deadlock detected", false),
        ("", "", true),
    ] {
        let decision = first(&policy(pattern), &Failure::new(message));
        assert_eq!(!retried(&decision), matches, "{pattern} in {message}");
    }
}

#[test]
fn the_failure_itself_has_the_word_before_the_rules() {
    let deny = RetryPolicy {
        rules: vec![Rule::fail(Match::ALL)].into(),
        otherwise: Verdict::Fail,
        ..TEN_SECONDS
    }
    .never_for(&["A"]);
    let deny = checked(deny);
    let says_yes = Failure::retryable("try again").with_type("A");
    assert!(retried(&first(&deny, &says_yes)), "over never_for, rules and otherwise");
    assert_eq!(reason(&nth(&deny, 10, &says_yes)), Some(Reason::MaxAttempts));

    let allow = checked(TEN_SECONDS);
    let says_no = Failure::terminal("no such account");
    assert_eq!(reason(&first(&allow, &says_no)), Some(Reason::Terminal));
    assert_eq!(reason(&first(&allow, &Failure::prune())), Some(Reason::Pruned));
}

#[test]
fn a_cancelled_call_and_a_lost_worker_are_not_asked_about() {
    let policy = with_rules(vec![Rule::retry(Match::kinds(&Kind::ALL))]);
    for (kind, expected) in [
        (Kind::Cancelled, Reason::Cancelled),
        (Kind::WorkerLost, Reason::WorkerLost),
        (Kind::TotalTimeout, Reason::TotalTimeout),
    ] {
        let mut failure = Failure::of_kind(kind, "");
        failure.retryable = Some(true);
        assert_eq!(reason(&first(&policy, &failure)), Some(expected));
    }
}

#[test]
fn every_other_kind_is_tried_again_unless_a_rule_says_otherwise() {
    let policy = checked(TEN_SECONDS);
    for kind in [Kind::Error, Kind::Timeout, Kind::HeartbeatTimeout, Kind::Panic, Kind::Throttled] {
        assert!(retried(&first(&policy, &Failure::of_kind(kind, ""))), "{kind:?}");
        let never = with_rules(vec![Rule::fail(Match { kinds: vec![kind].into(), ..Match::ALL })]);
        assert!(!retried(&first(&never, &Failure::of_kind(kind, ""))), "{kind:?}");
    }
}

#[test]
fn a_queue_timeout_ends_the_call_unless_a_rule_retries_it() {
    let waited = Failure::of_kind(Kind::QueueTimeout, "no worker");
    assert_eq!(reason(&first(&checked(TEN_SECONDS), &waited)), Some(Reason::QueueTimeout));
    let rule = |on| with_rules(vec![Rule::retry(on)]);
    assert!(retried(&first(&rule(Match::kinds(&[Kind::QueueTimeout])), &waited)));
    assert!(retried(&first(&rule(Match::ALL), &waited)));
    // It counts as a failure then.
    let once = with_rules(vec![Rule::retry(Match::ALL).max_attempts(1)]);
    assert_eq!(reason(&first(&once, &waited)), Some(Reason::MaxAttempts));
    let never = with_rules(vec![Rule::fail(Match::ALL)]);
    assert_eq!(reason(&first(&never, &waited)), Some(Reason::NonRetryable));
}

#[test]
fn verdicts_that_are_not_retry_stop() {
    for verdict in [Verdict::Fail, Verdict::DeadLetter, Verdict::Pause] {
        let rule = Rule { then: verdict, ..Rule::retry(Match::codes(&["x"])) };
        let coded = Failure::new("").with_code("x");
        assert_eq!(reason(&first(&with_rules(vec![rule]), &coded)), Some(Reason::NonRetryable));
        let policy = checked(TEN_SECONDS.otherwise(verdict));
        assert_eq!(reason(&first(&policy, &coded)), Some(Reason::NoRule));
    }
}

#[test]
fn the_first_failure_of_a_single_attempt_is_the_last() {
    let once = checked(RetryPolicy::once());
    assert_eq!(reason(&first(&once, &Failure::new("down"))), Some(Reason::MaxAttempts));
    let two = checked(TEN_SECONDS.max_attempts(2));
    assert!(retried(&nth(&two, 1, &Failure::new("down"))));
    assert_eq!(reason(&nth(&two, 2, &Failure::new("down"))), Some(Reason::MaxAttempts));
    // A record that counts more than was allowed stops too.
    assert_eq!(reason(&nth(&two, 7, &Failure::new("down"))), Some(Reason::MaxAttempts));
}

/// What comes of a hint of the other side, for the two ends of the draw.
fn hinted(server: ServerDelay, hint: Duration) -> (Duration, Duration) {
    let policy = checked(TEN_SECONDS.max_delay(seconds(60)).server_delay(server));
    let failure = Failure::retry_after(hint, "slow down");
    let at = |u| {
        let state = State::after(1, Timestamp::EPOCH);
        delay(&decide(&policy, &state, &failure, Timestamp::EPOCH, u)).unwrap()
    };
    (at(0.0), at(1.0))
}

#[test]
fn a_server_delay_is_ignored_a_floor_or_exact() {
    use ServerDelayMode::{AtLeast, Exact, Ignore};
    let plain = |mode| ServerDelay { mode, max: seconds(300), jitter: 0.0 };
    for (mode, hint, expected) in [
        (Ignore, seconds(30), seconds(10)),
        (AtLeast, seconds(30), seconds(30)),
        (AtLeast, seconds(3), seconds(10)),
        (AtLeast, Duration::ZERO, seconds(10)),
        (Exact, seconds(30), seconds(30)),
        (Exact, seconds(3), seconds(3)),
        (Exact, Duration::ZERO, Duration::ZERO),
        // The hint is bounded by its own maximum, not by max_delay.
        (AtLeast, seconds(1_000_000), seconds(300)),
        (Exact, Duration::MAX, seconds(300)),
    ] {
        assert_eq!(hinted(plain(mode), hint), (expected, expected), "{mode:?} {hint:?}");
    }
}

#[test]
fn a_server_delay_is_spread_upwards() {
    let tenth = ServerDelay { mode: ServerDelayMode::AtLeast, max: seconds(300), jitter: 0.1 };
    assert_eq!(hinted(tenth, seconds(100)), (seconds(100), seconds(110)));
    // The bound is on the wish; the spread comes on top, or everybody would return at the bound.
    assert_eq!(hinted(tenth, seconds(900)), (seconds(300), seconds(330)));
    let exact = ServerDelay { mode: ServerDelayMode::Exact, ..tenth };
    assert_eq!(hinted(exact, seconds(5)), (seconds(5), millis(5_500)));
    let wide = ServerDelay { max: Duration::from_secs(86_400 * 36_500), jitter: 10.0, ..tenth };
    assert_eq!(hinted(wide, Duration::MAX), (CEILING, CEILING));
}

#[test]
fn a_server_delay_is_subject_to_the_deadline() {
    let hint = Failure::retry_after(seconds(30), "slow down");
    let server = ServerDelay { jitter: 0.0, ..ServerDelay::DEFAULT };
    let policy =
        |rule| checked(TEN_SECONDS.server_delay(server).max_elapsed(seconds(60)).deadline(rule));
    let after = |rule, elapsed| {
        decide(&policy(rule), &State::after(1, Timestamp::EPOCH), &hint, at(elapsed), 0.0)
    };
    assert_eq!(delay(&after(DeadlineRule::LookAhead, 30_000)), Some(seconds(30)));
    assert_eq!(reason(&after(DeadlineRule::LookAhead, 30_001)), Some(Reason::MaxElapsed));
    assert_eq!(delay(&after(DeadlineRule::CheckOnly, 59_999)), Some(seconds(30)));
    assert_eq!(delay(&after(DeadlineRule::Clip, 45_000)), Some(seconds(15)));
}

#[test]
fn each_deadline_rule_has_its_exact_boundary() {
    let policy = |rule| checked(TEN_SECONDS.max_elapsed(seconds(60)).deadline(rule));
    use DeadlineRule::{CheckOnly, Clip, LookAhead};
    for (rule, elapsed, expected) in [
        (LookAhead, 49_999, Some(10_000)),
        (LookAhead, 50_000, Some(10_000)),
        (LookAhead, 50_001, None),
        (CheckOnly, 50_001, Some(10_000)),
        (CheckOnly, 59_999, Some(10_000)),
        (CheckOnly, 60_000, None),
        (Clip, 50_000, Some(10_000)),
        (Clip, 50_001, Some(9_999)),
        (Clip, 59_999, Some(1)),
        (Clip, 60_000, None),
        (LookAhead, i64::MAX, None),
        (CheckOnly, i64::MAX, None),
        (Clip, i64::MAX, None),
        // A clock that went back counts as no time.
        (LookAhead, -1, Some(10_000)),
        (CheckOnly, i64::MIN, Some(10_000)),
        (Clip, i64::MIN, Some(10_000)),
    ] {
        let decision = after(&policy(rule), elapsed);
        assert_eq!(delay(&decision), expected.map(millis), "{rule:?} after {elapsed}");
        if expected.is_none() {
            assert_eq!(reason(&decision), Some(Reason::MaxElapsed));
        }
    }
}

#[test]
fn a_deadline_finer_than_a_millisecond_is_never_passed() {
    let max = millis(1) + Duration::from_nanos(999_999);
    let policy = |rule| {
        let quick = RetryPolicy::fixed(millis(1)).jitter(Jitter::None);
        checked(quick.max_elapsed(max).deadline(rule))
    };
    assert_eq!(delay(&after(&policy(DeadlineRule::LookAhead), 0)), Some(millis(1)));
    assert_eq!(delay(&after(&policy(DeadlineRule::LookAhead), 1)), None);
    assert_eq!(delay(&after(&policy(DeadlineRule::Clip), 1)), Some(Duration::ZERO));
    assert_eq!(delay(&after(&policy(DeadlineRule::Clip), 2)), None);
}

#[test]
fn the_clock_starts_at_the_scheduling_or_at_the_first_attempt() {
    // Scheduled at 0, begun at 30 s, now 55 s: on the second clock only 25 s have passed.
    let state = State {
        failures: 1,
        first_scheduled: at(0),
        first_started: Some(at(30_000)),
        previous_delay: None,
        total_since: None,
    };
    let policy = |clock| checked(TEN_SECONDS.max_elapsed(seconds(60)).clock_from(clock));
    let decision =
        |clock, now| retried(&decide(&policy(clock), &state, &Failure::new("down"), at(now), 0.0));
    for (clock, last) in [(ClockFrom::FirstScheduled, 50_000), (ClockFrom::FirstStarted, 80_000)] {
        assert!(decision(clock, last), "{clock:?}");
        assert!(!decision(clock, last + 1), "{clock:?}");
    }
    // A call of which no attempt has begun has used up no time on that clock.
    let unstarted = State { first_started: None, ..state };
    let policy = policy(ClockFrom::FirstStarted);
    let decision = decide(&policy, &unstarted, &Failure::new("down"), at(i64::MAX), 0.0);
    assert!(retried(&decision));
}

#[test]
fn a_wait_that_would_reach_the_total_timeout_is_not_begun() {
    let total = Timeouts { total: Some(seconds(60)), ..Timeouts::default() };
    let policy = checked(TEN_SECONDS.timeouts(total));
    // At 50 s the next attempt would begin as the timeout cuts it.
    assert_eq!(delay(&after(&policy, 49_999)), Some(seconds(10)));
    assert_eq!(reason(&after(&policy, 50_000)), Some(Reason::TotalTimeout));
    // Its clock starts at the scheduling, whatever clock_from says.
    let policy = checked(TEN_SECONDS.timeouts(total).clock_from(ClockFrom::FirstStarted));
    let state = State { first_started: Some(at(40_000)), ..State::after(1, at(0)) };
    let decision = decide(&policy, &state, &Failure::new("down"), at(50_000), 0.0);
    assert_eq!(reason(&decision), Some(Reason::TotalTimeout));
    // An activity that takes the place of another one has what the call has left.
    let state = State { total_since: Some(at(-20_000)), ..State::after(1, at(0)) };
    let policy = checked(TEN_SECONDS.timeouts(total).max_elapsed(seconds(45)));
    let decided = |now| decide(&policy, &state, &Failure::new("down"), at(now), 0.0);
    assert_eq!(delay(&decided(29_999)), Some(seconds(10)));
    assert_eq!(reason(&decided(30_000)), Some(Reason::TotalTimeout));
    // A deadline that is reached earlier answers first, and a clipped wait may still fit.
    let both = TEN_SECONDS.timeouts(total).max_elapsed(seconds(30));
    assert_eq!(reason(&after(&checked(both.clone()), 55_000)), Some(Reason::MaxElapsed));
    let clipped = checked(both.max_elapsed(seconds(59)).deadline(DeadlineRule::Clip));
    assert_eq!(delay(&after(&clipped, 55_000)), Some(seconds(4)));
}

#[test]
fn other_timeouts_do_not_change_a_decision() {
    let timeouts = Timeouts {
        attempt: Some(millis(2)),
        heartbeat: Some(millis(1)),
        queue: Some(millis(1)),
        total: None,
    };
    let policy = checked(TEN_SECONDS.timeouts(timeouts));
    assert_eq!(delay(&after(&policy, 3_600_000)), Some(seconds(10)));
}

#[test]
fn decorrelated_jitter_remembers_the_delay_before() {
    let policy = RetryPolicy::exponential(seconds(1)).max_delay(seconds(60));
    let policy = checked(policy.jitter(Jitter::Decorrelated));
    let range = |failures, previous: Option<u64>| {
        let previous_delay = previous.map(seconds);
        let state = State { previous_delay, ..State::after(failures, Timestamp::EPOCH) };
        let at = |u| {
            let decision = decide(&policy, &state, &Failure::new("down"), Timestamp::EPOCH, u);
            delay(&decision).unwrap().as_secs()
        };
        (at(0.0), at(1.0))
    };
    assert_eq!(range(1, None), (1, 3));
    assert_eq!(range(2, Some(2)), (1, 6));
    assert_eq!(range(9, Some(2)), (1, 6));
    assert_eq!(range(5, Some(50)), (1, 60));
    assert_eq!(range(2, Some(0)), (1, 1));
}

#[test]
fn only_failures_count_and_counters_stay_at_their_end() {
    let counters = Counters { failures: 2, lost: 3, interrupted: 4, snoozed: 5, probed: 6 };
    assert_eq!(counters.ended(), 20);
    let most = Counters { failures: u32::MAX, lost: 1, ..counters };
    assert_eq!(most.ended(), u32::MAX);
    assert_eq!(Counters::default().ended(), 0);
}

#[test]
fn a_lost_worker_is_followed_by_short_waits_and_then_by_the_end() {
    let policy = checked(RetryPolicy::DEFAULT);
    let delays: Vec<_> =
        (1..=12).map(|lost| delay(&decide_lost(&policy, lost)).map(|d| d.as_millis())).collect();
    let doubling = [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000];
    assert_eq!(delays[..10], doubling.map(Some));
    assert_eq!(delays[10..], [None, None]);
    assert_eq!(reason(&decide_lost(&policy, 11)), Some(Reason::WorkerLost));
    assert_eq!(reason(&decide_lost(&policy, u32::MAX)), Some(Reason::WorkerLost));
}

#[test]
fn lost_attempts_do_not_ask_the_limits_of_the_policy() {
    let once = checked(RetryPolicy::once());
    assert!(retried(&decide_lost(&once, 1)), "lost attempts are not failures");
    let none = LostWorker { max: 0, ..LostWorker::DEFAULT };
    assert!(!retried(&decide_lost(&checked(RetryPolicy::DEFAULT.lost_worker(none)), 1)));
    let ever = LostWorker { max: u32::MAX, initial: millis(1), max_delay: CEILING };
    let ever = checked(RetryPolicy::DEFAULT.lost_worker(ever));
    assert_eq!(delay(&decide_lost(&ever, u32::MAX)), Some(CEILING));
}

#[test]
fn an_activity_that_must_not_run_twice_ends_with_its_worker() {
    let policy = RetryPolicy::once().idempotency(Idempotency::AtMostOnce);
    assert_eq!(reason(&decide_lost(&checked(policy), 1)), Some(Reason::WorkerLost));
}

#[test]
fn the_random_number_is_the_same_for_the_same_failure_only() {
    let number = uniform(1, 2, 3, 4);
    assert!((0.0..1.0).contains(&number));
    for other in [
        uniform(2, 2, 3, 4),
        uniform(1 << 64, 2, 3, 4),
        uniform(1, 3, 3, 4),
        uniform(1, 2, 4, 4),
        uniform(1, 2, 3, 5),
        uniform(4, 3, 2, 1),
    ] {
        assert_ne!(number, other);
    }
    // Written down, so that a change of the function is noticed: delays would not be reproducible.
    assert_eq!(number, 0.42411255531336145);
}

#[test]
fn reasons_are_named_in_the_order_of_the_checks() {
    let names = Reason::ALL.map(Reason::name);
    assert_eq!(
        names.join(" "),
        "cancelled terminal pruned non_retryable no_rule max_attempts max_elapsed total_timeout \
         queue_timeout worker_lost operator"
    );
}

#[test]
fn every_answer_says_why() {
    let default = checked(RetryPolicy::DEFAULT);
    let plain = Failure::new("down");
    let ruled = with_rules(vec![
        Rule::fail(Match::codes(&["404"])),
        Rule::retry(Match::codes(&["429"])).max_attempts(2),
    ]);
    let never = checked(TEN_SECONDS.never_for(&["A"]).otherwise(Verdict::Fail));
    let limited = TEN_SECONDS.max_elapsed(seconds(60));
    let look_ahead = checked(limited.clone());
    let clip = checked(limited.deadline(DeadlineRule::Clip));
    let nothing = RetryPolicy::with_backoff(Backoff::None).max_elapsed(seconds(60));
    let total = Timeouts { total: Some(seconds(60)), ..Timeouts::default() };
    let total = checked(TEN_SECONDS.timeouts(total));
    let endless = checked(TEN_SECONDS.unlimited());
    let hint = Failure::retry_after(seconds(90), "slow down");
    let coded = |code: &str| Failure::new("").with_code(code);
    let say = |decision: Decision| match decision {
        Decision::Retry { why, .. } => why.to_string(),
        Decision::Stop { why } => why.to_string(),
    };
    let half = |policy: &CheckedPolicy, failures, failure: &Failure| {
        let state = State::after(failures, Timestamp::EPOCH);
        say(decide(policy, &state, failure, Timestamp::EPOCH, 0.5))
    };
    let lines = [
        half(&default, 1, &plain),
        half(&default, 8, &plain),
        half(&default, 1, &hint),
        half(&default, 1, &Failure::retry_after(millis(200), "slow down")),
        half(&endless, 1_000, &plain),
        half(&ruled, 1, &coded("429")),
        say(after(&clip, 55_000)),
        say(decide_lost(&default, 3)),
        half(&default, 1, &Failure::of_kind(Kind::Cancelled, "")),
        half(&default, 1, &Failure::terminal("")),
        half(&default, 1, &Failure::prune()),
        half(&ruled, 1, &coded("404")),
        half(&never, 1, &Failure::of_type("A", "")),
        half(&never, 1, &plain),
        half(&default, 10, &plain),
        half(&ruled, 2, &coded("429")),
        say(after(&look_ahead, 55_000)),
        say(after(&clip, 61_000)),
        say(after(&checked(nothing), 61_000)),
        say(after(&total, 55_000)),
        half(&default, 1, &Failure::of_kind(Kind::QueueTimeout, "")),
        say(decide_lost(&default, 11)),
    ];
    expect![[r#"
        failure 1 of 10; waits 1s, drawn from 500ms to 1.5s
        failure 8 of 10; waits 45s, drawn from 30s to 1m, capped by max_delay
        failure 1 of 10; waits 1m 35s, as the other side asked
        failure 1 of 10; waits 1s, drawn from 500ms to 1.5s; the other side asked for 210ms
        failure 1000; waits 10s
        failure 1 of 2; rules[1] matched; waits 10s
        failure 1 of 10; waits 5s, shortened to end at max_elapsed
        lost attempt 3 of 10; waits 400ms
        cancelled: the call was cancelled
        terminal: the failure is never to be tried again
        pruned: the activity ended its branch
        non_retryable: rules[0] forbids another attempt
        non_retryable: its type is in never_for
        no_rule: no rule matches this failure
        max_attempts: 10 of 10 attempts failed
        max_attempts: 2 of 2 attempts failed (rules[1])
        max_elapsed: 55s have passed and the next wait would be 10s
        max_elapsed: 1m 1s have passed and the next wait would be 10s
        max_elapsed: 1m 1s have passed
        total_timeout: 55s have passed and the next wait would be 10s
        queue_timeout: no worker took the attempt in time
        worker_lost: 11 attempts in a row died with their process"#]]
    .assert_eq(&lines.join("\n"));
}
