//! What Cadence's document says about activities, in our engine with an imported policy: how long
//! retries go on, what is not retried, what can be seen of a retry, and how an attempt goes on
//! from the progress of the one before. Workflow retries are tested where workflows are.

use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::Limit;
use resurgam::retry::dialect::Dialect;
use resurgam::{Kind, PendingCall, WaitsFor};
use resurgam_testing::{TestApp, TestBuilder, never};
use resurgam_watchdog::test;
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn cadence(policy: &Value) -> RetryPolicy {
    Dialect::Cadence.import(policy).unwrap().policy
}

/// An app whose activities are retried by this policy.
fn app(policy: &Value) -> TestBuilder {
    TestApp::builder().retry(cadence(policy)).activity(fail).activity(by_reason).activity(process)
}

/// The policy of the document's example: five attempts, or ten minutes.
fn example() -> Value {
    json!({"InitialInterval": 1, "BackoffCoefficient": 2, "MaximumInterval": 600,
        "ExpirationInterval": 600, "MaximumAttempts": 5})
}

/// The attempts of a bare activity and how its call ended.
async fn story(app: &TestApp, id: &str) -> String {
    let history = app.history(id).await;
    let lines = history.lines().skip(2).filter(|line| !line.contains(" Run"));
    lines.map(|line| format!("{line}\n")).collect()
}

async fn pending(app: &TestApp, id: &str) -> PendingCall {
    app.describe(id).await.pending.remove(0)
}

#[activity]
async fn fail() -> Result<(), Failure> {
    Err(Failure::of_type("Unavailable", "down"))
}

// How long retries go on.

#[test]
async fn the_policy_of_the_example_makes_five_attempts() {
    let app = app(&example()).start().await;
    app.submit("fail-1", fail()).await.unwrap().failure().await;
    expect![[r#"
          +0ms fail#2 attempt 1 failed: Unavailable: down; again in 1s
          +1s fail#2 attempt 2 failed: Unavailable: down; again in 2s
          +3s fail#2 attempt 3 failed: Unavailable: down; again in 4s
          +7s fail#2 attempt 4 failed: Unavailable: down; again in 8s
          +15s fail#2 attempt 5 failed: Unavailable: down
        3 +15s ActivityFailed #2 (attempt 5) max_attempts: Unavailable: down
    "#]]
    .assert_eq(&story(&app, "fail-1").await);
}

#[test]
async fn a_retry_may_begin_at_the_very_end_of_the_expiration_interval_and_not_after_it() {
    for (expiration, attempts) in [(29.999, 3), (30.0, 4), (30.001, 4)] {
        let policy = json!({"InitialInterval": 10, "BackoffCoefficient": 1,
            "ExpirationInterval": expiration});
        let app = app(&policy).start().await;
        let failure = app.submit("fail-1", fail()).await.unwrap().failure().await;
        assert_eq!((failure.attempts, app.attempts(fail)), (Some(attempts), attempts));
        assert_eq!(failure.why.as_deref(), Some("max_elapsed"));
    }
}

#[test]
async fn without_a_maximum_the_interval_grows_to_a_hundred_times_the_first() {
    let policy = json!({"InitialInterval": 0.1, "MaximumAttempts": 12});
    let app = app(&policy).start().await;
    app.submit("fail-1", fail()).await.unwrap().failure().await;
    let delays: Vec<u64> =
        app.ledger("fail-1").await.iter().filter_map(|row| row.delay_ms).collect();
    let grown = [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000, 10_000];
    assert_eq!(delays, grown);
}

#[test]
async fn the_expiration_interval_cuts_no_attempt_that_runs() {
    #[activity]
    async fn slow(ctx: ActivityContext) -> Result<u32, Failure> {
        ctx.sleep(MINUTE).await;
        Ok(ctx.attempt())
    }
    let policy = json!({"InitialInterval": 1, "ExpirationInterval": 30});
    let app = app(&policy).activity(slow).start().await;
    assert_eq!(app.submit("slow-1", slow()).await.unwrap().result().await.unwrap(), 1);
}

// What is not retried.

/// Fails in the way that it is told.
#[activity]
async fn by_reason(ctx: ActivityContext, reason: String) -> Result<(), Failure> {
    match reason.as_str() {
        "cadenceInternal:Panic" => panic!("out of paper"),
        "cadenceInternal:Generic" => Err(Failure::new("something else")),
        "cadenceInternal:Timeout START_TO_CLOSE" | "cadenceInternal:Timeout HEARTBEAT" => {
            never(&ctx).await;
            Ok(())
        }
        custom => Err(Failure::of_type(custom, "as I said")),
    }
}

/// Calls it with the timeouts that its reason needs.
#[workflow]
async fn call_by_reason(ctx: WorkflowContext, reason: String) -> Result<(), Failure> {
    let call = ctx.call(by_reason(reason.clone()));
    match reason.as_str() {
        "cadenceInternal:Timeout START_TO_CLOSE" => call.timeout(SECOND).await,
        "cadenceInternal:Timeout HEARTBEAT" => call.heartbeat_timeout(SECOND).await,
        _ => call.await,
    }
}

#[test]
async fn an_error_whose_reason_is_listed_is_not_retried_and_any_other_is() {
    let reasons = [
        "bad-argument",
        "cadenceInternal:Panic",
        "cadenceInternal:Generic",
        "cadenceInternal:Timeout START_TO_CLOSE",
        "cadenceInternal:Timeout HEARTBEAT",
    ];
    for listed in reasons {
        let policy = json!({"InitialInterval": 1, "MaximumAttempts": 3,
            "NonRetriableErrorReasons": [listed]});
        let app = app(&policy).workflow(call_by_reason).start().await;
        for reason in reasons {
            let run = app.start(reason, call_by_reason(reason.to_string())).await;
            let failure = run.failure().await;
            let expected = match reason == listed {
                true => (Some(1), Some("non_retryable")),
                false => (Some(3), Some("max_attempts")),
            };
            assert_eq!((failure.attempts, failure.why.as_deref()), expected, "{reason}");
        }
    }
}

#[test]
async fn a_reason_is_compared_to_the_letter() {
    let policy = json!({"InitialInterval": 1, "MaximumAttempts": 2,
        "NonRetriableErrorReasons": ["bad-argument"]});
    let app = app(&policy).start().await;
    for (reason, attempts) in [("bad-argument", 1), ("bad-arguments", 2), ("Bad-argument", 2)] {
        let run = app.submit(reason, by_reason(reason.to_string())).await.unwrap();
        assert_eq!(run.failure().await.attempts, Some(attempts), "{reason}");
    }
}

#[test]
async fn a_cancellation_is_no_failure_and_is_not_retried() {
    #[workflow]
    async fn call_wait(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(wait()).await
    }
    #[activity]
    async fn wait(ctx: ActivityContext) -> Result<(), Failure> {
        ctx.cancelled().await;
        Err(Failure::new("I was told to end"))
    }
    let app = app(&example()).workflow(call_wait).activity(wait).start().await;
    let run = app.start("wait-1", call_wait()).await;
    app.advance(SECOND).await;
    run.cancel("no longer needed").await.unwrap();
    let failure = run.failure().await;
    assert_eq!((failure.kind, app.attempts(wait)), (Kind::Cancelled, 1));
}

// The wait for a worker.

#[test]
async fn an_attempt_may_wait_for_a_worker_as_long_as_the_expiration_interval() {
    #[activity]
    async fn occupy(ctx: ActivityContext, minutes: u64) -> Result<(), Failure> {
        ctx.sleep(Duration::from_secs(60 * minutes)).await;
        Ok(())
    }
    for (minutes, expected) in [(9, "max_attempts"), (11, "queue_timeout")] {
        let app = app(&example()).activity(occupy).options(|options| options.slots = 1);
        let app = app.start().await;
        app.submit("occupy-1", occupy(minutes)).await.unwrap();
        let began = app.now();
        let failure = app.submit("fail-1", fail()).await.unwrap().failure().await;
        // What waited for nine minutes makes its five attempts in the tenth.
        assert_eq!(failure.why.as_deref(), Some(expected));
        let took = app.now().since(began);
        assert_eq!(took, if minutes == 9 { 9 * MINUTE + 15 * SECOND } else { 10 * MINUTE });
    }
}

// What can be seen.

#[test]
async fn a_retry_is_seen_in_the_description_and_not_in_the_history_before_it_is_over() {
    let app = app(&example()).start().await;
    let run = app.submit("fail-1", fail()).await.unwrap();
    app.advance(5 * SECOND).await;
    let call = pending(&app, "fail-1").await;
    assert_eq!((call.attempt, call.max_attempts()), (3, Some(Limit::try_from(5).unwrap())));
    assert_eq!((call.counters.failures, call.counters.lost), (3, 0));
    assert_eq!((call.waits_for, call.running), (Some(WaitsFor::Backoff), false));
    assert_eq!(call.next_due, Some(app.now().saturating_add(2 * SECOND)));
    let last = call.last.unwrap().failure.unwrap();
    assert_eq!(last.to_string(), "Unavailable: down");
    let events = app.client().events("fail-1").await.unwrap();
    let names: Vec<&str> = events.iter().map(|event| event.kind.name()).collect();
    assert_eq!(names, ["RunStarted", "ActivityScheduled"]);

    run.failure().await;
    let events = app.client().events("fail-1").await.unwrap();
    let names: Vec<&str> = events.iter().map(|event| event.kind.name()).collect();
    assert_eq!(names, ["RunStarted", "ActivityScheduled", "ActivityFailed", "RunFailed"]);
}

#[test]
async fn what_an_attempt_reports_is_seen_in_the_description() {
    let app = app(&example()).start().await;
    let began = app.now();
    app.submit("process-1", process(0, 100, 0)).await.unwrap();
    app.advance(Duration::from_millis(1_500)).await;
    let call = pending(&app, "process-1").await;
    assert_eq!((call.attempt, call.running, call.started_at), (1, true, Some(began)));
    let heartbeat = call.heartbeat.unwrap();
    assert_eq!((heartbeat.details.as_str(), heartbeat.at.since(began)), ("0", SECOND));
    // The attempt may take ten minutes.
    assert_eq!(call.deadline, Some(began.saturating_add(10 * MINUTE)));
}

// Progress.

/// Works through items, one a second, from the first that no attempt before it has reported. Its
/// first attempt fails at the item that it is told.
#[activity(timeout = 10 * MINUTE, heartbeat_timeout = 30 * SECOND)]
async fn process(
    ctx: ActivityContext,
    start: u32,
    end: u32,
    fails_at: u32,
) -> Result<String, Failure> {
    let finished: Option<u32> = ctx.last_heartbeat();
    let start = finished.map_or(start, |finished| finished + 1);
    for item in start..end {
        if item == fails_at && fails_at > 0 && ctx.attempt() == 1 {
            return Err(Failure::new(format!("item {item} is broken")));
        }
        ctx.sleep(SECOND).await;
        ctx.heartbeat(&item)?;
    }
    Ok(format!("from {start}"))
}

#[test]
async fn an_attempt_goes_on_after_the_last_item_that_was_reported() {
    let app = app(&example()).start().await;
    let run = app.submit("process-1", process(10, 30, 17)).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "from 17");
    expect![[r#"
          +7s process#2 attempt 1 failed: item 17 is broken; again in 1s
        3 +21s ActivityCompleted #2 (attempt 2) "from 17"
    "#]]
    .assert_eq(&story(&app, "process-1").await);
}

#[test]
async fn an_attempt_after_a_crash_goes_on_after_the_last_item_that_was_written_down() {
    let app = app(&example()).start().await;
    let run = app.submit("process-1", process(0, 100, 0)).await.unwrap();
    app.advance(Duration::from_millis(40_500)).await;
    app.restart().await;
    // Written after 1 s, and from there every 24 s, which is 80 % of the heartbeat timeout.
    assert_eq!(run.result().await.unwrap(), "from 25");
}
