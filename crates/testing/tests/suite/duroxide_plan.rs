//! The test plan at the end of Duroxide's retry design, under names that say the behaviour. The
//! plan's own name stands above each test.
//!
//! How we read it: attempts are rows of the ledger and not `ActivityScheduled` events, backoffs are
//! due times and not timers, so both are asserted on the printed history. A "total timeout" is
//! `timeouts.total`. Policies are written in Duroxide's words wherever they can say what is meant.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::dialect::Dialect;
use resurgam::retry::{Backoff, Jitter, Limit, Timeouts, schedule};
use resurgam::{Activity, Kind};
use resurgam_testing::{StoreCall, TestApp, TestBuilder, TestInstance};
use resurgam_watchdog::test;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// What most tests call; they say what it does.
#[activity]
async fn flaky(input: String) -> Result<String, Failure> {
    Ok(input)
}

/// Takes a minute and does not listen.
#[activity]
async fn slow(ctx: ActivityContext) -> Result<String, Failure> {
    ctx.sleep(Duration::from_secs(60)).await;
    Ok("late".to_string())
}

/// Calls `flaky` under a policy in Duroxide's words.
#[workflow]
async fn call_flaky(ctx: WorkflowContext, policy: Value) -> Result<String, Failure> {
    ctx.call(flaky("x".to_string())).retry(duroxide(&policy)).await
}

/// Calls `slow` under a policy in Duroxide's words.
#[workflow]
async fn call_slow(ctx: WorkflowContext, policy: Value) -> Result<String, Failure> {
    ctx.call(slow()).retry(duroxide(&policy)).await
}

/// Calls `flaky` with a second between the attempts and a bound on all of them.
#[workflow]
async fn call_flaky_within(ctx: WorkflowContext, total_ms: u64) -> Result<String, Failure> {
    let total = Duration::from_millis(total_ms);
    ctx.call(flaky("x".to_string())).retry(EVERY_SECOND).total_timeout(total).await
}

/// Calls `slow` with a bound on the whole call.
#[workflow]
async fn call_slow_within(ctx: WorkflowContext, total_ms: u64) -> Result<String, Failure> {
    let total = Duration::from_millis(total_ms);
    ctx.call(slow()).retry(EVERY_SECOND).total_timeout(total).await
}

/// Calls `flaky`, and ends when it is told to: so it can be replayed in between.
#[workflow]
async fn call_flaky_and_wait(ctx: WorkflowContext, policy: Value) -> Result<String, Failure> {
    let answer = ctx.call(flaky("x".to_string())).retry(duroxide(&policy)).await;
    let answer = answer.unwrap_or_else(|failure| failure.to_string());
    ctx.signal::<()>("end").await?;
    Ok(answer)
}

const EVERY_SECOND: RetryPolicy = RetryPolicy::fixed(SECOND).jitter(Jitter::None).max_attempts(10);

fn duroxide(policy: &Value) -> RetryPolicy {
    Dialect::Duroxide.import(policy).unwrap().policy
}

fn exponential(max_attempts: u32) -> Value {
    let backoff = json!({"type": "Exponential", "base_ms": 100, "multiplier": 2.0, "max_ms": 1000});
    json!({"max_attempts": max_attempts, "backoff": backoff})
}

fn without_backoff(max_attempts: u32) -> Value {
    json!({"max_attempts": max_attempts, "backoff": {"type": "None"}})
}

/// An app whose `flaky` fails this many times.
fn failing(times: u32) -> TestBuilder {
    TestApp::builder()
        .workflow(call_flaky)
        .workflow(call_flaky_within)
        .workflow(call_flaky_and_wait)
        .stub(flaky, move |call, attempt| match attempt <= times {
            true => Err(Failure::new(format!("down {attempt}"))),
            false => Ok(call.input),
        })
}

const ALWAYS: u32 = u32::MAX;

/// Calls `flaky`, which fails this many times, and tells what happened.
async fn told(policy: Value, failures: u32) -> String {
    let app = failing(failures).start().await;
    let run = app.start("call-1", call_flaky(policy)).await;
    let _its_outcome_is_in_the_history = run.outcome().await;
    story(&run).await
}

/// The history without its first line, which repeats the policy.
async fn story<T: serde::de::DeserializeOwned>(run: &TestInstance<T>) -> String {
    let history = run.history().await;
    history.split_once('\n').unwrap().1.to_string()
}

// Construction and delays.

// test_retry_policy_default
#[test]
fn a_policy_that_says_nothing_makes_three_attempts_after_doubling_delays() {
    let policy = duroxide(&json!({}));
    assert_eq!(policy.max_attempts, Limit::try_from(3).unwrap());
    assert_eq!(policy.backoff, Backoff::exponential(Duration::from_millis(100)));
    assert_eq!(policy.max_delay, Some(Duration::from_secs(30)));
    assert_eq!(policy.timeouts, Timeouts::default());
}

// test_retry_policy_builder
#[test]
fn timeout_and_backoff_are_set_one_after_another() {
    let attempt = Some(Duration::from_secs(30));
    let policy = RetryPolicy::DEFAULT
        .max_attempts(5)
        .timeouts(Timeouts { attempt, ..Timeouts::default() })
        .backoff(Backoff::exponential(Duration::from_millis(500)))
        .max_delay(Duration::from_secs(10))
        .jitter(Jitter::None);
    let same = json!({
        "max_attempts": 5, "timeout_ms": 30_000,
        "backoff": {"type": "Exponential", "base_ms": 500, "multiplier": 2.0, "max_ms": 10_000},
    });
    let rules = duroxide(&same).rules;
    assert_eq!(RetryPolicy { rules, ..policy }, duroxide(&same));
}

// test_retry_policy_new
#[test]
fn the_bound_on_attempts_is_the_number_that_was_given() {
    for max in [1, 2, 7, u32::MAX] {
        assert_eq!(
            RetryPolicy::DEFAULT.max_attempts(max).max_attempts.to_string(),
            max.to_string()
        );
    }
}

/// The delays after the first failures, and after a very late one.
fn delays(backoff: Value) -> String {
    let policy = duroxide(&json!({"backoff": backoff}));
    let delay = |r| schedule::spread(&policy.terms(None), r, None).at(0.5);
    let delays = [1, 2, 3, 4, 5, 1_025, u32::MAX].map(|r| format!("{:?}", delay(r)));
    delays.join(", ")
}

// test_backoff_none
#[test]
fn no_backoff_is_no_delay() {
    let backoff = json!({"type": "None"});
    expect!["0ns, 0ns, 0ns, 0ns, 0ns, 0ns, 0ns"].assert_eq(&delays(backoff));
}

// test_backoff_fixed
#[test]
fn a_fixed_backoff_is_the_same_delay_each_time() {
    let backoff = json!({"type": "Fixed", "delay_ms": 250});
    expect!["250ms, 250ms, 250ms, 250ms, 250ms, 250ms, 250ms"].assert_eq(&delays(backoff));
}

// test_backoff_linear
#[test]
fn a_linear_backoff_grows_by_its_base_up_to_its_cap() {
    let backoff = json!({"type": "Linear", "base_ms": 100, "max_ms": 450});
    expect!["100ms, 200ms, 300ms, 400ms, 450ms, 450ms, 450ms"].assert_eq(&delays(backoff));
}

// test_backoff_exponential
#[test]
fn an_exponential_backoff_multiplies_up_to_its_cap() {
    let backoff =
        json!({"type": "Exponential", "base_ms": 100, "multiplier": 3.0, "max_ms": 5_000});
    expect!["100ms, 300ms, 900ms, 2.7s, 5s, 5s, 5s"].assert_eq(&delays(backoff));
}

// test_backoff_exponential_overflow
#[test]
fn powers_beyond_every_number_end_at_the_cap() {
    let max_ms = u64::try_from(DAY.as_millis()).unwrap();
    let backoff =
        json!({"type": "Exponential", "base_ms": 1, "multiplier": 1e300, "max_ms": max_ms});
    expect!["1ms, 86400s, 86400s, 86400s, 86400s, 86400s, 86400s"].assert_eq(&delays(backoff));
}

// Basic retry behaviour.

// test_activity_succeeds_first_attempt
#[test]
async fn an_activity_that_succeeds_at_once_is_attempted_once() {
    expect![[r#"
        2 +0ms ActivityScheduled flaky {"input":"x"}
        3 +0ms ActivityCompleted #2 "x"
        4 +0ms RunCompleted "x"
    "#]]
    .assert_eq(&told(exponential(3), 0).await);
}

// test_activity_fails_then_succeeds
#[test]
async fn an_activity_that_fails_twice_succeeds_with_its_third_attempt() {
    expect![[r#"
        2 +0ms ActivityScheduled flaky {"input":"x"}
          +0ms flaky#2 attempt 1 failed: down 1; again in 100ms
          +100ms flaky#2 attempt 2 failed: down 2; again in 200ms
        3 +300ms ActivityCompleted #2 (attempt 3) "x"
        4 +300ms RunCompleted "x"
    "#]]
    .assert_eq(&told(exponential(3), 2).await);
}

// test_activity_exhausts_all_attempts
#[test]
async fn an_activity_that_always_fails_is_attempted_as_often_as_allowed() {
    expect![[r#"
        2 +0ms ActivityScheduled flaky {"input":"x"}
          +0ms flaky#2 attempt 1 failed: down 1; again in 100ms
          +100ms flaky#2 attempt 2 failed: down 2; again in 200ms
          +300ms flaky#2 attempt 3 failed: down 3
        3 +300ms ActivityFailed #2 (attempt 3) max_attempts: down 3
        4 +300ms RunFailed down 3
    "#]]
    .assert_eq(&told(exponential(3), ALWAYS).await);
}

// test_activity_single_attempt_fails
#[test]
async fn a_single_attempt_that_fails_ends_the_call() {
    expect![[r#"
        2 +0ms ActivityScheduled flaky {"input":"x"}
          +0ms flaky#2 attempt 1 failed: down 1
        3 +0ms ActivityFailed #2 max_attempts: down 1
        4 +0ms RunFailed down 1
    "#]]
    .assert_eq(&told(exponential(1), ALWAYS).await);
}

// Backoff timing.

// test_retry_with_fixed_backoff
#[test]
async fn attempts_with_a_fixed_backoff_begin_at_even_distances() {
    let policy = json!({"max_attempts": 4, "backoff": {"type": "Fixed", "delay_ms": 250}});
    expect![[r#"
        2 +0ms ActivityScheduled flaky {"input":"x"}
          +0ms flaky#2 attempt 1 failed: down 1; again in 250ms
          +250ms flaky#2 attempt 2 failed: down 2; again in 250ms
          +500ms flaky#2 attempt 3 failed: down 3; again in 250ms
          +750ms flaky#2 attempt 4 failed: down 4
        3 +750ms ActivityFailed #2 (attempt 4) max_attempts: down 4
        4 +750ms RunFailed down 4
    "#]]
    .assert_eq(&told(policy, ALWAYS).await);
}

// test_retry_with_exponential_backoff
#[test]
async fn attempts_with_an_exponential_backoff_begin_at_doubling_distances() {
    expect![[r#"
        2 +0ms ActivityScheduled flaky {"input":"x"}
          +0ms flaky#2 attempt 1 failed: down 1; again in 100ms
          +100ms flaky#2 attempt 2 failed: down 2; again in 200ms
          +300ms flaky#2 attempt 3 failed: down 3; again in 400ms
          +700ms flaky#2 attempt 4 failed: down 4; again in 800ms
        3 +1.5s ActivityCompleted #2 (attempt 5) "x"
        4 +1.5s RunCompleted "x"
    "#]]
    .assert_eq(&told(exponential(5), 4).await);
}

// test_retry_with_no_backoff
#[test]
async fn attempts_without_a_backoff_follow_at_once() {
    expect![[r#"
        2 +0ms ActivityScheduled flaky {"input":"x"}
          +0ms flaky#2 attempt 1 failed: down 1; again in 0ms
          +0ms flaky#2 attempt 2 failed: down 2; again in 0ms
        3 +0ms ActivityCompleted #2 (attempt 3) "x"
        4 +0ms RunCompleted "x"
    "#]]
    .assert_eq(&told(without_backoff(3), 2).await);
}

// test_retry_backoff_respects_max
#[test]
async fn no_delay_is_longer_than_the_cap() {
    let app = failing(ALWAYS).start().await;
    let run = app.start("call-1", call_flaky(exponential(12))).await;
    run.failure().await;
    let delays: Vec<u64> =
        app.ledger("call-1").await.iter().filter_map(|row| row.delay_ms).collect();
    assert_eq!(delays, [100, 200, 400, 800, 1000, 1000, 1000, 1000, 1000, 1000, 1000]);
}

// Total timeout.

// test_timeout_fires_before_success
#[test]
async fn a_total_timeout_cuts_the_attempt_that_runs() {
    let app = TestApp::builder().workflow(call_slow_within).activity(slow).start().await;
    let run = app.start("call-1", call_slow_within(5_000)).await;
    let failure = run.failure().await;
    assert_eq!((failure.kind, failure.why.as_deref()), (Kind::TotalTimeout, Some("total_timeout")));
    expect![[r#"
        2 +0ms ActivityScheduled slow {}
          +5s slow#2 attempt 1 failed: total_timeout: not done within 5s
        3 +5s ActivityFailed #2 total_timeout: total_timeout: not done within 5s
        4 +5s RunFailed total_timeout: not done within 5s
    "#]]
    .assert_eq(&story(&run).await);
}

// test_timeout_fires_during_backoff
#[test]
async fn a_call_ends_at_once_when_the_next_delay_would_pass_its_total_timeout() {
    let app = failing(ALWAYS).start().await;
    let run = app.start("call-1", call_flaky_within(2_500)).await;
    assert_eq!(run.failure().await.why.as_deref(), Some("total_timeout"));
    expect![[r#"
        2 +0ms ActivityScheduled flaky {"input":"x"}
          +0ms flaky#2 attempt 1 failed: down 1; again in 1s
          +1s flaky#2 attempt 2 failed: down 2; again in 1s
          +2s flaky#2 attempt 3 failed: down 3
        3 +2s ActivityFailed #2 (attempt 3) total_timeout: down 3
        4 +2s RunFailed down 3
    "#]]
    .assert_eq(&story(&run).await);
}

// test_success_before_timeout
#[test]
async fn an_attempt_that_beats_its_timeout_leaves_nothing_behind() {
    let app = failing(1).start().await;
    let policy = json!({"timeout_ms": 10_000, "backoff": {"type": "Fixed", "delay_ms": 100}});
    let run = app.start("call-1", call_flaky_and_wait(policy)).await;
    app.advance(SECOND).await;
    let (history, commits) = (story(&run).await, app.commits());
    expect![[r#"
        2 +0ms ActivityScheduled flaky {"input":"x"}
          +0ms flaky#2 attempt 1 failed: down 1; again in 100ms
        3 +100ms ActivityCompleted #2 (attempt 2) "x"
    "#]]
    .assert_eq(&history);
    app.advance(DAY).await;
    assert_eq!((story(&run).await, app.commits()), (history, commits));
}

// test_timeout_with_single_attempt
#[test]
async fn one_attempt_with_a_timeout_is_a_try_with_a_deadline() {
    let app = TestApp::builder().workflow(call_slow).activity(slow).start().await;
    let run = app.start("call-1", call_slow(json!({"max_attempts": 1, "timeout_ms": 5_000}))).await;
    run.failure().await;
    expect![[r#"
        2 +0ms ActivityScheduled slow {}
          +5s slow#2 attempt 1 failed: timeout: not done within 5s
        3 +5s ActivityFailed #2 non_retryable: timeout: not done within 5s
        4 +5s RunFailed timeout: not done within 5s
    "#]]
    .assert_eq(&story(&run).await);
}

// test_no_timeout_retries_until_exhausted
#[test]
async fn without_a_total_timeout_all_attempts_are_made_however_long_it_takes() {
    let day_ms = u64::try_from(DAY.as_millis()).unwrap();
    let policy = json!({"max_attempts": 4, "backoff": {"type": "Fixed", "delay_ms": day_ms}});
    expect![[r#"
        2 +0ms ActivityScheduled flaky {"input":"x"}
          +0ms flaky#2 attempt 1 failed: down 1; again in 1d
          +1d flaky#2 attempt 2 failed: down 2; again in 1d
          +2d flaky#2 attempt 3 failed: down 3; again in 1d
          +3d flaky#2 attempt 4 failed: down 4
        3 +3d ActivityFailed #2 (attempt 4) max_attempts: down 4
        4 +3d RunFailed down 4
    "#]]
    .assert_eq(&told(policy, ALWAYS).await);
}

// Error handling.

// test_returns_last_error_message
#[test]
async fn the_failure_of_a_call_is_that_of_its_last_attempt() {
    let app = failing(ALWAYS).start().await;
    let run = app.start("call-1", call_flaky(exponential(4))).await;
    let failure = run.failure().await;
    assert_eq!((failure.message.as_str(), failure.attempts), ("down 4", Some(4)));
    assert_eq!(failure.why.as_deref(), Some("max_attempts"));
}

// test_timeout_error_message
#[test]
async fn the_failure_of_a_timeout_says_how_long_was_allowed() {
    let app = TestApp::builder().workflow(call_slow).activity(slow).start().await;
    let run = app.start("call-1", call_slow(json!({"timeout_ms": 1_500}))).await;
    let failure = run.failure().await;
    assert_eq!(failure.kind, Kind::Timeout);
    assert_eq!(failure.to_string(), "timeout: not done within 1.5s");
}

// test_only_application_errors_retried
#[test]
async fn trouble_of_the_store_is_not_a_failure_of_the_activity() {
    let app = failing(0).start().await;
    for call in StoreCall::ALL {
        app.faults().refuse(call, 3);
    }
    let run = app.start("call-1", call_flaky(without_backoff(1))).await;
    assert_eq!(run.result().await.unwrap(), "x");
    assert_eq!((app.attempts(flaky), app.ledger("call-1").await.len()), (1, 0));
}

// Typed variants.

#[derive(Serialize, Deserialize)]
struct Order {
    id: String,
    items: Vec<u32>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    order: String,
    cents: u32,
}

#[activity(retry = EVERY_SECOND.max_attempts(3))]
async fn bill(order: Order) -> Result<Receipt, Failure> {
    Ok(Receipt { order: order.id, cents: order.items.iter().sum() })
}

#[workflow]
async fn sell(ctx: WorkflowContext, order: Order) -> Result<Receipt, Failure> {
    ctx.call(bill(order)).await
}

// test_typed_activity_retry_success
#[test]
async fn arguments_and_results_keep_their_types_over_retries() {
    let app = TestApp::builder()
        .workflow(sell)
        .stub(bill, |call, attempt| match attempt {
            1 => Err(Failure::new("printer is offline")),
            _ => Ok(Receipt { order: call.order.id, cents: call.order.items.iter().sum() }),
        })
        .start()
        .await;
    let order = Order { id: "o-1".to_string(), items: vec![300, 25] };
    let run = app.start("sell-1", sell(order)).await;
    assert_eq!(run.result().await.unwrap(), Receipt { order: "o-1".to_string(), cents: 325 });
}

// test_typed_activity_retry_failure
#[test]
async fn a_call_with_types_fails_with_the_last_failure_too() {
    let app = TestApp::builder()
        .workflow(sell)
        .stub(bill, |_, attempt| {
            Err(Failure::of_type("PrinterError", format!("offline {attempt}")))
        })
        .start()
        .await;
    let run = app.start("sell-1", sell(Order { id: "o-1".to_string(), items: vec![] })).await;
    assert_eq!(run.failure().await.to_string(), "PrinterError: offline 3");
}

/// Counts how often it is written.
struct Parcel;

static WRITTEN: AtomicU32 = AtomicU32::new(0);

impl Serialize for Parcel {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        WRITTEN.fetch_add(1, Ordering::Relaxed);
        to.serialize_str("parcel")
    }
}

impl<'de> Deserialize<'de> for Parcel {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|_| Parcel)
    }
}

#[activity(retry = EVERY_SECOND.max_attempts(5))]
async fn ship(parcel: Parcel) -> Result<(), Failure> {
    let Parcel = parcel;
    Ok(())
}

#[workflow]
async fn send(ctx: WorkflowContext) -> Result<(), Failure> {
    ctx.call(ship(Parcel)).await
}

// test_typed_input_serialized_once
#[test]
async fn the_arguments_are_written_once_and_not_for_each_attempt() {
    let app = TestApp::builder()
        .workflow(send)
        .stub(ship, |_, attempt| match attempt {
            1..5 => Err(Failure::new("no carrier")),
            _ => Ok(()),
        })
        .start()
        .await;
    app.start("send-1", send()).await.result().await.unwrap();
    assert_eq!((app.attempts(ship), WRITTEN.load(Ordering::Relaxed)), (5, 1));
}

// Replay.

/// Restarts the engine, lets the run end, and tells what happened; nothing but the end is new.
async fn told_after_replay(app: &TestApp, run: &TestInstance<String>) -> String {
    app.advance(DAY).await;
    let before = story(run).await;
    app.restart().await;
    run.signal("end", &()).await.unwrap();
    run.outcome().await;
    let after = story(run).await;
    assert!(after.starts_with(&before), "{before} became {after}");
    after
}

// test_replay_retry_success_on_third_attempt
#[test]
async fn a_call_that_needed_three_attempts_is_replayed_without_an_attempt() {
    let app = failing(2).start().await;
    let run = app.start("call-1", call_flaky_and_wait(exponential(3))).await;
    expect![[r#"
        2 +0ms ActivityScheduled flaky {"input":"x"}
          +0ms flaky#2 attempt 1 failed: down 1; again in 100ms
          +100ms flaky#2 attempt 2 failed: down 2; again in 200ms
        3 +300ms ActivityCompleted #2 (attempt 3) "x"
        4 +1d SignalReceived end null
        5 +1d RunCompleted "x"
    "#]]
    .assert_eq(&told_after_replay(&app, &run).await);
    assert_eq!(app.attempts(flaky), 3);
}

/// Waits for `slow` no longer than two seconds, and ends when it is told to.
#[workflow]
async fn give_up_slow_and_wait(ctx: WorkflowContext) -> Result<String, Failure> {
    let answer = ctx.timeout(2 * SECOND, ctx.call(slow())).await;
    let answer = answer.unwrap_or_else(|elapsed| Ok(elapsed.to_string()))?;
    ctx.signal::<()>("end").await?;
    Ok(answer)
}

// test_replay_timeout_scenario
#[test]
async fn a_timeout_is_replayed_as_a_timeout() {
    let app = TestApp::builder().workflow(give_up_slow_and_wait).activity(slow).start().await;
    let run = app.start("call-1", give_up_slow_and_wait()).await;
    expect![[r#"
        2 +0ms ActivityScheduled slow {}
        3 +0ms TimerStarted until +2s
        4 +2s TimerFired #3
        5 +2s ActivityCancelled #2
        6 +1d SignalReceived end null
        7 +1d RunCompleted "not done within 2s"
    "#]]
    .assert_eq(&told_after_replay(&app, &run).await);
    assert_eq!(app.attempts(slow), 1);
}

// test_replay_partial_then_complete
#[test]
async fn a_restart_in_the_middle_of_the_retries_goes_on_counting() {
    let app = failing(ALWAYS).start().await;
    let run = app.start("call-1", call_flaky(exponential(5))).await;
    app.advance(Duration::from_millis(450)).await;
    assert_eq!(app.attempts(flaky), 3);
    app.restart().await;
    run.failure().await;
    assert_eq!(app.attempts(flaky), 5);
    expect![[r#"
        2 +0ms ActivityScheduled flaky {"input":"x"}
          +0ms flaky#2 attempt 1 failed: down 1; again in 100ms
          +100ms flaky#2 attempt 2 failed: down 2; again in 200ms
          +300ms flaky#2 attempt 3 failed: down 3; again in 400ms
          +700ms flaky#2 attempt 4 failed: down 4; again in 800ms
          +1.5s flaky#2 attempt 5 failed: down 5
        3 +1.5s ActivityFailed #2 (attempt 5) max_attempts: down 5
        4 +1.5s RunFailed down 5
    "#]]
    .assert_eq(&story(&run).await);
}

/// The same workflow and activity before and after a change of their policies.
mod before {
    use super::*;

    #[activity(name = "fetch", retry = EVERY_SECOND.max_attempts(4))]
    async fn fetch() -> Result<u32, Failure> {
        Ok(1)
    }

    #[workflow(name = "fetch_twice")]
    async fn fetch_twice(ctx: WorkflowContext) -> Result<u32, Failure> {
        Ok(ctx.call(fetch()).await? + ctx.call(fetch()).await?)
    }

    pub(super) fn app() -> TestBuilder {
        TestApp::builder().workflow(fetch_twice).stub(fetch, |_, attempt| fails_twice(attempt))
    }
}

mod after {
    use super::*;

    #[activity(name = "fetch", retry = RetryPolicy::linear(SECOND * 60).jitter(Jitter::None))]
    async fn fetch() -> Result<u32, Failure> {
        Ok(1)
    }

    #[workflow(name = "fetch_twice")]
    async fn fetch_twice(ctx: WorkflowContext) -> Result<u32, Failure> {
        let patient = EVERY_SECOND.max_attempts(9).never_for(&["Unrelated"]);
        Ok(ctx.call(fetch()).retry(patient).await? + ctx.call(fetch()).await?)
    }

    pub(super) fn app() -> TestBuilder {
        TestApp::builder().workflow(fetch_twice).stub(fetch, |_, attempt| fails_twice(attempt))
    }
}

fn fails_twice(attempt: u32) -> Result<u32, Failure> {
    match attempt {
        1 | 2 => Err(Failure::new("down")),
        _ => Ok(1),
    }
}

// test_replay_with_different_policy_fails: ours does not fail, and the test says so.
#[test]
async fn a_policy_that_changes_under_a_run_holds_for_the_calls_made_after_that() {
    let app = before::app().start().await;
    app.client().start_named::<u32>("fetch-1", "fetch_twice", &json!({})).await.unwrap();
    app.advance(Duration::from_millis(1_500)).await;
    app.restart_with(after::app()).await;
    app.advance(DAY).await;
    expect![[r#"
        1 +0ms RunStarted fetch_twice {}
        2 +0ms ActivityScheduled fetch {}
          +0ms fetch#2 attempt 1 failed: down; again in 1s
          +1s fetch#2 attempt 2 failed: down; again in 1s
        3 +2s ActivityCompleted #2 (attempt 3) 1
        4 +2s ActivityScheduled fetch {}
          +2s fetch#4 attempt 1 failed: down; again in 1m
          +1m 2s fetch#4 attempt 2 failed: down; again in 2m
        5 +3m 2s ActivityCompleted #4 (attempt 3) 1
        6 +3m 2s RunCompleted 2
    "#]]
    .assert_eq(&app.history("fetch-1").await);
}

// History.

// test_history_contains_all_activity_scheduled_events
#[test]
async fn every_attempt_that_failed_has_a_row_in_the_ledger_and_the_call_one_event() {
    let app = failing(ALWAYS).start().await;
    let run = app.start("call-1", call_flaky(without_backoff(6))).await;
    run.failure().await;
    let numbers: Vec<u32> = app.ledger("call-1").await.iter().map(|row| row.attempt).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    assert_eq!(story(&run).await.matches("ActivityScheduled").count(), 1);
}

// test_history_contains_backoff_timers
#[test]
async fn there_is_one_delay_less_than_attempts_and_none_after_the_last() {
    let app = failing(ALWAYS).start().await;
    let run = app.start("call-1", call_flaky(exponential(4))).await;
    run.failure().await;
    let delays: Vec<Option<u64>> =
        app.ledger("call-1").await.iter().map(|row| row.delay_ms).collect();
    assert_eq!(delays, [Some(100), Some(200), Some(400), None]);
    assert_eq!(story(&run).await.matches("; again in").count(), 3);
}

// test_history_timeout_timer_at_start, test_history_no_timeout_timer_when_none
#[test]
async fn timeouts_of_a_call_are_no_events_of_its_run() {
    let app = failing(1).start().await;
    let with = app.start("call-1", call_flaky_within(30_000)).await;
    with.result().await.unwrap();
    let policy = json!({"max_attempts": 10, "backoff": {"type": "Fixed", "delay_ms": 1000}});
    let without = app.start("call-2", call_flaky(policy)).await;
    without.result().await.unwrap();
    assert_eq!(story(&with).await, story(&without).await);
    assert!(!story(&with).await.contains("Timer"));
}

// Edge cases.

// test_max_attempts_zero
#[test]
fn no_attempts_at_all_are_refused_with_the_way_out() {
    let problems = Dialect::Duroxide.import(&json!({"max_attempts": 0})).unwrap_err();
    expect!["max_attempts: 0 is not allowed; it counts the first attempt. Use 1 for no retries."]
        .assert_eq(&problems.to_string());
    assert!(Limit::try_from(0).unwrap_err().to_string().contains("0 is not allowed"));
}

// test_max_attempts_one_no_backoff
#[test]
async fn a_single_attempt_has_no_delay_whatever_its_backoff() {
    let app = failing(ALWAYS).start().await;
    let run = app.start("call-1", call_flaky(exponential(1))).await;
    run.failure().await;
    let ledger = app.ledger("call-1").await;
    assert_eq!((ledger.len(), ledger[0].delay_ms), (1, None));
}

#[derive(Serialize, Deserialize)]
struct Nameless {}

impl Activity for Nameless {
    const NAME: &'static str = "";
    type Output = ();

    async fn run(self, _ctx: ActivityContext) -> Result<(), Failure> {
        Ok(())
    }
}

// test_empty_activity_name
#[test]
fn an_activity_without_a_name_is_refused() {
    let mut registry = resurgam_sdk::Registry::default();
    let error = registry.add_activity::<Nameless>().unwrap_err();
    expect![[r#"register activity "": an empty name is not allowed"#]]
        .assert_eq(&error.to_string());
}

// test_large_max_attempts
#[test]
async fn hundreds_of_attempts_are_made_and_recorded() {
    let app = failing(ALWAYS).start().await;
    let run = app.start("call-1", call_flaky(exponential(300))).await;
    let failure = run.failure().await;
    assert_eq!((failure.message.as_str(), failure.attempts), ("down 300", Some(300)));
    assert_eq!(app.ledger("call-1").await.len(), 300);
}

// test_very_short_timeout
#[test]
async fn a_timeout_of_a_millisecond_passes_after_a_millisecond() {
    let app = TestApp::builder().workflow(call_slow).activity(slow).start().await;
    let run = app.start("call-1", call_slow(json!({"timeout_ms": 1}))).await;
    run.failure().await;
    expect![[r#"
        2 +0ms ActivityScheduled slow {}
          +1ms slow#2 attempt 1 failed: timeout: not done within 1ms
        3 +1ms ActivityFailed #2 non_retryable: timeout: not done within 1ms
        4 +1ms RunFailed timeout: not done within 1ms
    "#]]
    .assert_eq(&story(&run).await);
}

// test_zero_duration_backoff
#[test]
async fn a_backoff_of_nothing_is_no_delay() {
    let policy = json!({"max_attempts": 3, "backoff": {"type": "Fixed", "delay_ms": 0}});
    expect![[r#"
        2 +0ms ActivityScheduled flaky {"input":"x"}
          +0ms flaky#2 attempt 1 failed: down 1; again in 0ms
          +0ms flaky#2 attempt 2 failed: down 2; again in 0ms
        3 +0ms ActivityCompleted #2 (attempt 3) "x"
        4 +0ms RunCompleted "x"
    "#]]
    .assert_eq(&told(policy, 2).await);
}

// Real activities, and many runs.

/// How often the service still answers with an error.
struct Outage(AtomicU32);

#[activity]
async fn ask_service(ctx: ActivityContext) -> Result<String, Failure> {
    let left = &ctx.state::<Outage>().0;
    if left.load(Ordering::Relaxed) > 0 {
        left.fetch_sub(1, Ordering::Relaxed);
        return Err(std::io::Error::other("connection refused").into());
    }
    Ok("pong".to_string())
}

#[workflow]
async fn ping(ctx: WorkflowContext) -> Result<String, Failure> {
    ctx.call(ask_service()).retry(EVERY_SECOND).await
}

// test_retry_with_real_failing_activity
#[test]
async fn an_outage_is_bridged_by_the_retries() {
    let app = TestApp::builder()
        .workflow(ping)
        .activity(ask_service)
        .state(Outage(AtomicU32::new(3)))
        .start()
        .await;
    let run = app.start("ping-1", ping()).await;
    assert_eq!(run.result().await.unwrap(), "pong");
    expect![[r#"
        2 +0ms ActivityScheduled ask_service {}
          +0ms ask_service#2 attempt 1 failed: std::io::Error: connection refused; again in 1s
          +1s ask_service#2 attempt 2 failed: std::io::Error: connection refused; again in 1s
          +2s ask_service#2 attempt 3 failed: std::io::Error: connection refused; again in 1s
        3 +3s ActivityCompleted #2 (attempt 4) "pong"
        4 +3s RunCompleted "pong"
    "#]]
    .assert_eq(&story(&run).await);
}

// test_retry_timeout_with_slow_activity
#[test]
async fn an_attempt_that_takes_too_long_is_not_tried_again_in_duroxides_words() {
    let app = TestApp::builder().workflow(call_slow).activity(slow).start().await;
    let run = app.start("call-1", call_slow(json!({"timeout_ms": 1_000}))).await;
    run.failure().await;
    assert_eq!(app.attempts(slow), 1);
    expect![[r#"
        2 +0ms ActivityScheduled slow {}
          +1s slow#2 attempt 1 failed: timeout: not done within 1s
        3 +1s ActivityFailed #2 non_retryable: timeout: not done within 1s
        4 +1s RunFailed timeout: not done within 1s
    "#]]
    .assert_eq(&story(&run).await);
}

/// Fails as often as its number says.
#[activity]
async fn fail_often(ctx: ActivityContext, number: u32) -> Result<u32, Failure> {
    match ctx.attempt() <= number {
        true => Err(Failure::new(format!("{} is down", ctx.instance()))),
        false => Ok(ctx.attempt()),
    }
}

#[workflow]
async fn persist(ctx: WorkflowContext, number: u32) -> Result<u32, Failure> {
    ctx.call(fail_often(number)).retry(EVERY_SECOND.unlimited()).await
}

// test_multiple_orchestrations_retrying
#[test]
async fn runs_that_retry_side_by_side_do_not_disturb_each_other() {
    let app = TestApp::builder().workflow(persist).activity(fail_often).start().await;
    let mut runs = Vec::new();
    for number in 0..20 {
        runs.push((number, app.start(&format!("persist-{number}"), persist(number)).await));
    }
    for (number, run) in runs {
        assert_eq!(run.result().await.unwrap(), number + 1);
        let ledger = app.ledger(run.id()).await;
        assert_eq!(u32::try_from(ledger.len()).unwrap(), number);
        let own = format!("{} is down", run.id());
        assert!(ledger.iter().all(|row| row.failure.as_ref().unwrap().message == own));
    }
}

// What comes too late.

/// A call that is done in time, then another one.
#[workflow]
async fn two_in_time(ctx: WorkflowContext) -> Result<String, Failure> {
    let first = ctx.timeout(SECOND, ctx.call(flaky("first".to_string()))).await??;
    let second = ctx.timeout(10 * SECOND, ctx.call(slow())).await;
    Ok(format!("{first}, {}", second.map_or_else(|elapsed| elapsed.to_string(), |_| "slow".into())))
}

// test_stale_event_same_execution_after_select_winner
#[test]
async fn the_timer_that_lost_a_race_is_cancelled_and_never_fires() {
    let app = TestApp::builder().workflow(two_in_time).activity(flaky).activity(slow).start().await;
    let run = app.start("two-1", two_in_time()).await;
    assert_eq!(run.result().await.unwrap(), "first, not done within 10s");
    expect![[r#"
        2 +0ms ActivityScheduled flaky {"input":"first"}
        3 +0ms TimerStarted until +1s
        4 +0ms ActivityCompleted #2 "first"
        5 +0ms TimerCancelled #3
        6 +0ms ActivityScheduled slow {}
        7 +0ms TimerStarted until +10s
        8 +10s TimerFired #7
        9 +10s ActivityCancelled #6
        10 +10s RunCompleted "first, not done within 10s"
    "#]]
    .assert_eq(&story(&run).await);
}

// test_replay_with_stale_events_in_history
#[test]
async fn a_result_that_comes_after_the_timeout_is_refused_and_a_replay_knows_nothing_of_it() {
    static RETURNED: AtomicU32 = AtomicU32::new(0);
    /// Returns after five seconds, whether anybody wants it or not.
    #[activity]
    async fn stubborn(ctx: ActivityContext) -> Result<String, Failure> {
        ctx.sleep(5 * SECOND).await;
        RETURNED.fetch_add(1, Ordering::Relaxed);
        Ok("late".to_string())
    }
    #[workflow]
    async fn give_up_stubborn(ctx: WorkflowContext) -> Result<String, Failure> {
        let answer = ctx.timeout(2 * SECOND, ctx.call(stubborn())).await;
        ctx.signal::<()>("end").await?;
        answer.unwrap_or_else(|elapsed| Ok(elapsed.to_string()))
    }
    let app = TestApp::builder().workflow(give_up_stubborn).activity(stubborn).start().await;
    let run = app.start("call-1", give_up_stubborn()).await;
    app.advance(10 * SECOND).await;
    assert_eq!(RETURNED.load(Ordering::Relaxed), 1);
    expect![[r#"
        2 +0ms ActivityScheduled stubborn {}
        3 +0ms TimerStarted until +2s
        4 +2s TimerFired #3
        5 +2s ActivityCancelled #2
        6 +1d SignalReceived end null
        7 +1d RunCompleted "not done within 2s"
    "#]]
    .assert_eq(&told_after_replay(&app, &run).await);
}

// What comes too late for a run that another one has followed.

/// Returns after five seconds, whether anybody wants it or not.
#[activity(retry = EVERY_SECOND)]
async fn slow_and_stubborn(ctx: ActivityContext, round: u32) -> Result<u32, Failure> {
    ctx.sleep(5 * SECOND).await;
    Ok(round)
}

/// Gives up after two seconds, as often as it is told, and waits for ten the last time.
#[workflow]
async fn rounds(ctx: WorkflowContext, round: u32, last: u32) -> Result<u32, Failure> {
    let patience = if round < last { 2 * SECOND } else { 10 * SECOND };
    match ctx.timeout(patience, ctx.call(slow_and_stubborn(round))).await {
        Ok(answer) => answer,
        Err(_) => ctx.continue_as_new(rounds(round + 1, last)),
    }
}

/// Is answered in time, and goes on at once; the time it had passes in the next run.
#[workflow]
async fn in_time_then_idle(ctx: WorkflowContext, second: bool) -> Result<u32, Failure> {
    if second {
        ctx.sleep(60 * SECOND).await?;
        return Ok(2);
    }
    ctx.timeout(20 * SECOND, ctx.call(slow_and_stubborn(1))).await??;
    ctx.continue_as_new(in_time_then_idle(true))
}

async fn rounds_app() -> TestApp {
    TestApp::builder()
        .workflow(rounds)
        .workflow(in_time_then_idle)
        .activity(slow_and_stubborn)
        .start()
        .await
}

// test_timeout_fires_activity_completes_after_continue_as_new
#[test]
async fn a_result_for_the_run_before_is_dropped_and_the_next_run_does_not_hear_of_it() {
    let app = rounds_app().await;
    let run = app.start("rounds-1", rounds(1, 2)).await;
    assert_eq!(run.result().await.unwrap(), 2);
    expect![[r#"
        1 +0ms RunStarted rounds {"round":1,"last":2}
        2 +0ms ActivityScheduled slow_and_stubborn {"round":1}
        3 +0ms TimerStarted until +2s
        4 +2s TimerFired #3
        5 +2s ActivityCancelled #2
        6 +2s RunContinued by Workflow {"round":2,"last":2}
    "#]]
    .assert_eq(&app.run_history("rounds-1", 1).await);
    expect![[r#"
        1 +0ms RunStarted rounds {"round":2,"last":2}
        2 +0ms ActivityScheduled slow_and_stubborn {"round":2}
        3 +0ms TimerStarted until +10s
        4 +5s ActivityCompleted #2 2
        5 +5s TimerCancelled #3
        6 +5s RunCompleted 2
    "#]]
    .assert_eq(&app.run_history("rounds-1", 2).await);
}

// test_activity_succeeds_timeout_fires_after_continue_as_new
#[test]
async fn a_timer_of_the_run_before_never_fires_in_the_next() {
    let app = rounds_app().await;
    let run = app.start("idle-1", in_time_then_idle(false)).await;
    assert_eq!(run.result().await.unwrap(), 2);
    expect![[r#"
        1 +0ms RunStarted in_time_then_idle {"second":false}
        2 +0ms ActivityScheduled slow_and_stubborn {"round":1}
        3 +0ms TimerStarted until +20s
        4 +5s ActivityCompleted #2 1
        5 +5s TimerCancelled #3
        6 +5s RunContinued by Workflow {"second":true}
    "#]]
    .assert_eq(&app.run_history("idle-1", 1).await);
    expect![[r#"
        1 +0ms RunStarted in_time_then_idle {"second":true}
        2 +0ms TimerStarted until +1m
        3 +1m TimerFired #2
        4 +1m RunCompleted 2
    "#]]
    .assert_eq(&app.run_history("idle-1", 2).await);
}

// test_multiple_stale_events_across_executions
#[test]
async fn late_results_of_several_runs_are_all_dropped_also_across_a_restart() {
    for restart in [false, true] {
        let app = rounds_app().await;
        let run = app.start("rounds-1", rounds(1, 3)).await;
        app.advance(3 * SECOND).await;
        if restart {
            app.restart().await;
        }
        assert_eq!(run.result().await.unwrap(), 3, "restart: {restart}");
        let third = app.run_history("rounds-1", 3).await;
        let events: Vec<&str> = third.lines().filter(|line| !line.starts_with(' ')).collect();
        assert_eq!(events.len(), 6, "{third}");
        assert!(events[3].ends_with("ActivityCompleted #2 3"), "{third}");
    }
}
