//! What a whole schedule amounts to.

use std::time::Duration;

use resurgam_core::Kind;
use resurgam_core::retry::{
    Backoff, CheckedPolicy, DeadlineRule, Jitter, Match, Matched, Reason, RetryPolicy, Rule,
    Timeouts, Verdict, forecast,
};
use resurgam_watchdog::test;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn checked(policy: RetryPolicy) -> CheckedPolicy {
    policy.check().unwrap()
}

/// The delays in seconds for a random number.
fn delays(policy: &CheckedPolicy, u: f64) -> Vec<u64> {
    let schedule = forecast::schedule(policy, policy.assumed(), u, Duration::ZERO);
    schedule.steps.iter().map(|step| step.delay.as_secs()).collect()
}

#[test]
fn a_schedule_is_about_the_first_rule_that_retries() {
    let rules = vec![
        Rule::fail(Match::types(&["A"])),
        Rule::retry(Match::types(&["B"])).max_attempts(2),
        Rule::retry(Match::types(&["C"])).max_attempts(3),
    ];
    let policy = checked(RetryPolicy { rules: rules.into(), ..RetryPolicy::DEFAULT });
    assert_eq!(policy.assumed(), Matched::Rule(1));
    assert_eq!(policy.retried(), [Matched::Nothing, Matched::Rule(1), Matched::Rule(2)]);
    let attempts = |matched| forecast::schedule(&policy, matched, 0.5, Duration::ZERO).attempts;
    assert_eq!(attempts(Matched::Rule(1)), Some(2));
    assert_eq!(attempts(Matched::Rule(2)), Some(3));
    assert_eq!(attempts(Matched::Nothing), Some(10));
}

#[test]
fn a_failure_that_is_not_retried_has_a_schedule_of_one_attempt() {
    let policy = RetryPolicy::DEFAULT.never_for(&["A"]).otherwise(Verdict::Fail);
    let rules = vec![Rule::fail(Match::kinds(&[Kind::Panic]))];
    let policy = checked(RetryPolicy { rules: rules.into(), ..policy });
    for (matched, reason) in [
        (policy.assumed(), Reason::NoRule),
        (Matched::Rule(0), Reason::NonRetryable),
        (Matched::NeverFor, Reason::NonRetryable),
    ] {
        let schedule = forecast::schedule(&policy, matched, 0.5, Duration::ZERO);
        assert_eq!((schedule.attempts, schedule.steps.len()), (Some(1), 0), "{matched:?}");
        assert_eq!(schedule.end.map(|why| why.reason), Some(reason));
        assert_eq!(forecast::forecast(&policy, matched, Duration::ZERO).rows, []);
    }
}

#[test]
fn decorrelated_delays_follow_one_another() {
    let policy = RetryPolicy::exponential(seconds(1)).max_delay(seconds(60)).max_attempts(7);
    let policy = checked(policy.jitter(Jitter::Decorrelated));
    assert_eq!(delays(&policy, 1.0), [3, 9, 27, 60, 60, 60]);
    assert_eq!(delays(&policy, 0.0), [1; 6]);
}

#[test]
fn the_time_of_the_attempts_counts_for_the_deadline() {
    let policy =
        RetryPolicy::fixed(seconds(10)).jitter(Jitter::None).max_elapsed(seconds(60)).unlimited();
    let attempts = |attempt_time| {
        let policy = checked(policy.clone());
        forecast::schedule(&policy, policy.assumed(), 0.5, attempt_time).attempts
    };
    // Attempts begin at 0, 10, ... 60 s; with 5 s each at 0, 15, 30, 45, 60 s.
    assert_eq!(attempts(Duration::ZERO), Some(7));
    assert_eq!(attempts(seconds(5)), Some(5));
    assert_eq!(attempts(seconds(61)), Some(1));
    assert_eq!(attempts(Duration::MAX), Some(1));
}

#[test]
fn a_clipped_wait_is_the_last() {
    let policy = RetryPolicy::fixed(seconds(25))
        .jitter(Jitter::None)
        .max_elapsed(seconds(60))
        .deadline(DeadlineRule::Clip);
    assert_eq!(delays(&checked(policy), 0.5), [25, 25, 10]);
}

#[test]
fn a_long_schedule_is_listed_in_part() {
    let policy = RetryPolicy::with_backoff(Backoff::None).max_attempts(1_000_000);
    let schedule = |policy: RetryPolicy| {
        let policy = checked(policy);
        forecast::schedule(&policy, policy.assumed(), 0.5, Duration::ZERO)
    };
    let listed = schedule(policy.clone());
    assert_eq!((listed.attempts, listed.steps.len()), (Some(1_000_000), 10_000));
    assert!(listed.more && listed.end.is_none());
    // Where time may end it earlier, nobody knows how many attempts there are.
    assert_eq!(schedule(policy.clone().max_elapsed(seconds(1))).attempts, None);
    let total = Timeouts { total: Some(seconds(1)), ..Timeouts::default() };
    assert_eq!(schedule(policy.timeouts(total)).attempts, None);
}

#[test]
fn without_jitter_every_quantile_is_the_delay() {
    let policy = checked(RetryPolicy::exponential(seconds(1)).jitter(Jitter::None).max_attempts(4));
    let forecast = forecast::forecast(&policy, policy.assumed(), seconds(2));
    let starts: Vec<u64> = forecast.rows.iter().map(|row| row.start.p50.as_secs()).collect();
    assert_eq!(starts, [3, 7, 13]);
    for row in &forecast.rows {
        assert_eq!((row.delay.min, row.start.min), (row.delay.max, row.start.max));
        assert_eq!(row.reached, 1.0);
    }
    assert_eq!(forecast.waiting, seconds(7));
    assert_eq!(forecast.outage.map(|outage| outage.p50), Some(seconds(13)));
}

#[test]
fn a_deadline_is_reached_by_a_share_of_the_runs() {
    // From 0 to 10 s twice under a limit of 10 s: half of the second waits still fit.
    let policy = RetryPolicy::fixed(seconds(10))
        .jitter(Jitter::Full)
        .max_attempts(3)
        .max_elapsed(seconds(10));
    let policy = checked(policy);
    let forecast = forecast::forecast(&policy, policy.assumed(), Duration::ZERO);
    assert_eq!(forecast.rows[0].reached, 1.0);
    // Of a thousand runs the share deviates by 1.6 %; five times that is 8 %.
    assert!((forecast.rows[1].reached - 0.5).abs() < 0.08, "{}", forecast.rows[1].reached);
}

#[test]
fn the_same_policy_has_the_same_forecast() {
    let policy = checked(RetryPolicy::DEFAULT);
    let once = forecast::forecast(&policy, policy.assumed(), Duration::ZERO);
    assert_eq!(once, forecast::forecast(&policy, policy.assumed(), Duration::ZERO));
}
