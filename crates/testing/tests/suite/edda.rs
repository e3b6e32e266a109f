//! What Edda's document says about retries, in our engine: its defaults, who may override them,
//! how retries end, what is recorded about them, and what a replay does.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::dialect::Dialect;
use resurgam::retry::preset;
use resurgam_core::event::{EventKind, RetryMetadata};
use resurgam_testing::{TestApp, TestBuilder};
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::common::many;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn edda(policy: &Value) -> RetryPolicy {
    Dialect::Edda.import(policy).unwrap().policy
}

/// Succeeds after as many failures as it is told.
#[activity]
async fn flaky(ctx: ActivityContext, failures: u32) -> Result<String, Failure> {
    match ctx.attempt() <= failures {
        true => Err(Failure::of_type("ConnectionError", "gateway timeout")),
        false => Ok("TXN-123".to_string()),
    }
}

fn app(policy: RetryPolicy) -> TestBuilder {
    TestApp::builder().retry(policy).activity(flaky)
}

/// The times at which attempts of a call began, in milliseconds from the first.
async fn begins(app: &TestApp, id: &str) -> Vec<u64> {
    let ledger = app.ledger(id).await;
    let first = ledger[0].started_at;
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap();
    ledger.iter().map(|row| millis(row.started_at.since(first))).collect()
}

async fn metadata(app: &TestApp, id: &str) -> Option<RetryMetadata> {
    let events = app.client().events(id).await.unwrap();
    events.into_iter().find_map(|event| match event.kind {
        EventKind::ActivityCompleted(done) => done.retry_metadata,
        EventKind::ActivityFailed(failed) => failed.retry_metadata,
        _ => None,
    })
}

// Defaults and overrides.

#[test]
async fn by_default_there_are_five_attempts_within_fifteen_seconds() {
    let app = app(edda(&json!({}))).start().await;
    let run = app.submit("flaky-1", flaky(100)).await.unwrap();
    assert_eq!(run.failure().await.attempts, Some(5));
    assert_eq!(begins(&app, "flaky-1").await, [0, 1_000, 3_000, 7_000, 15_000]);
}

#[test]
async fn each_preset_keeps_its_schedule() {
    let schedules: [(_, &[u64]); 3] = [
        (preset::EDDA_DEFAULT, &[1_000, 2_000, 4_000, 8_000]),
        (preset::EDDA_AGGRESSIVE, &[100, 150, 225, 337, 506, 759, 1_139, 1_708, 2_562]),
        (preset::EDDA_CONSERVATIVE, &[5_000, 10_000]),
    ];
    for (policy, delays) in schedules {
        let app = app(policy).start().await;
        app.submit("flaky-1", flaky(100)).await.unwrap().failure().await;
        let chosen: Vec<u64> =
            app.ledger("flaky-1").await.iter().filter_map(|row| row.delay_ms).collect();
        assert_eq!(chosen, delays);
    }
}

#[test]
async fn retries_without_end_go_on_past_the_powers_that_a_float_can_hold() {
    let app = app(preset::EDDA_INFINITE).start().await;
    let failures = many(1_100) as u32;
    let run = app.submit("flaky-1", flaky(failures)).await.unwrap();
    run.result().await.unwrap();
    assert_eq!(metadata(&app, "flaky-1").await.unwrap().total_attempts, failures + 1);
    assert_eq!(app.ledger("flaky-1").await.last().unwrap().delay_ms, Some(60_000));
}

#[test]
async fn the_policy_of_an_activity_overrides_the_apps() {
    #[activity]
    async fn plain() -> Result<(), Failure> {
        Err(Failure::new("down"))
    }
    #[activity(retry = preset::EDDA_DEFAULT.max_attempts(3))]
    async fn with_policy() -> Result<(), Failure> {
        Err(Failure::new("down"))
    }
    let policy = edda(&json!({"max_attempts": 7, "initial_interval": 2.0, "max_interval": 120.0}));
    let app = TestApp::builder().retry(policy).activity(plain).activity(with_policy).start().await;
    app.submit("plain-1", plain()).await.unwrap().failure().await;
    app.submit("with-1", with_policy()).await.unwrap().failure().await;
    assert_eq!((app.attempts(plain), app.attempts(with_policy)), (7, 3));
    assert_eq!(begins(&app, "plain-1").await[..3], [0, 2_000, 6_000]);
    assert_eq!(begins(&app, "with-1").await, [0, 1_000, 3_000]);
}

#[test]
async fn a_coefficient_of_one_is_a_constant_delay() {
    let policy = json!({"initial_interval": 2.0, "backoff_coefficient": 1.0, "max_interval": 2.0});
    let app = app(edda(&policy)).start().await;
    app.submit("flaky-1", flaky(100)).await.unwrap().failure().await;
    assert_eq!(begins(&app, "flaky-1").await, [0, 2_000, 4_000, 6_000, 8_000]);
}

// How retries end.

#[test]
async fn a_call_whose_attempts_are_used_up_fails_with_the_error_of_the_last() {
    #[derive(Debug)]
    struct ConnectionError(std::io::Error);
    impl std::fmt::Display for ConnectionError {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Network timeout")
        }
    }
    impl std::error::Error for ConnectionError {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    #[activity(retry = preset::EDDA_DEFAULT.max_attempts(3))]
    async fn unreachable() -> Result<(), Failure> {
        Err(ConnectionError(std::io::Error::other("no route to host")))?
    }
    /// Falls back when the retries are used up.
    #[workflow]
    async fn resilient(ctx: WorkflowContext) -> Result<String, Failure> {
        match ctx.call(unreachable()).await {
            Ok(()) => Ok("completed".to_string()),
            Err(failure) => {
                let cause = failure.cause.as_ref().map_or("nothing", |cause| &cause.message);
                let (why, attempts) = (failure.why.as_deref().unwrap(), failure.attempts.unwrap());
                Ok(format!("{failure} because of {cause}; {why} after {attempts}"))
            }
        }
    }
    let app = TestApp::builder().workflow(resilient).activity(unreachable).start().await;
    let run = app.start("resilient-1", resilient()).await;
    expect!["ConnectionError: Network timeout because of no route to host; max_attempts after 3"]
        .assert_eq(&run.result().await.unwrap());
    assert!(metadata(&app, "resilient-1").await.unwrap().exhausted);
}

#[test]
async fn a_terminal_error_ends_the_call_at_once_and_the_workflow_can_handle_it() {
    #[activity]
    async fn validate(order: String) -> Result<(), Failure> {
        order.parse::<u32>().terminal()?;
        Ok(())
    }
    #[activity]
    async fn note(text: String) -> Result<String, Failure> {
        Ok(text)
    }
    #[workflow]
    async fn order(ctx: WorkflowContext, order: String) -> Result<(), Failure> {
        if let Err(failure) = ctx.call(validate(order)).await {
            ctx.call(note(failure.to_string())).await?;
            return Err(failure);
        }
        Ok(())
    }
    let app = TestApp::builder().retry(preset::EDDA_DEFAULT).workflow(order);
    let app = app.activity(validate).activity(note).start().await;
    let run = app.start("order-1", order("forty-two".to_string())).await;
    run.failure().await;
    assert_eq!(app.attempts(validate), 1);
    expect![[r#"
        1 +0ms RunStarted order {"order":"forty-two"}
        2 +0ms ActivityScheduled validate {"order":"forty-two"}
          +0ms validate#2 attempt 1 failed: ParseIntError: invalid digit found in string
        3 +0ms ActivityFailed #2 terminal: ParseIntError: invalid digit found in string
        4 +0ms ActivityScheduled note {"text":"ParseIntError: invalid digit found in string"}
        5 +0ms ActivityCompleted #4 "ParseIntError: invalid digit found in string"
        6 +0ms RunFailed ParseIntError: invalid digit found in string
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn only_listed_types_and_what_descends_from_them_are_retried() {
    #[activity]
    async fn raise(types: Vec<String>) -> Result<(), Failure> {
        let mut failure = Failure::of_type(types[0].clone(), "raised");
        failure.mro = types;
        Err(failure)
    }
    let policy = edda(&json!({"max_attempts": 2,
        "retryable_error_types": ["ConnectionError", "TimeoutError"],
        "non_retryable_error_types": ["ConnectionRefusedError"]}));
    let app = TestApp::builder().retry(policy).activity(raise).start().await;
    for (types, why) in [
        (vec!["ConnectionError", "OSError"], "max_attempts"),
        (vec!["ConnectionResetError", "ConnectionError", "OSError"], "max_attempts"),
        (vec!["ConnectionRefusedError", "ConnectionError", "OSError"], "non_retryable"),
        (vec!["ValueError"], "no_rule"),
    ] {
        let types: Vec<String> = types.into_iter().map(str::to_string).collect();
        let run = app.submit(&types[0], raise(types.clone())).await.unwrap();
        assert_eq!(run.failure().await.why.as_deref(), Some(why), "{types:?}");
    }
}

#[test]
async fn no_attempt_follows_a_failure_after_the_maximum_duration() {
    // Checked when an attempt fails, so the last one may begin after the ten seconds.
    let policy = json!({"max_attempts": null, "initial_interval": 4.0, "backoff_coefficient": 1.0,
        "max_duration": 10.0});
    let app = app(edda(&policy)).start().await;
    let failure = app.submit("flaky-1", flaky(100)).await.unwrap().failure().await;
    assert_eq!(begins(&app, "flaky-1").await, [0, 4_000, 8_000, 12_000]);
    assert_eq!(failure.why.as_deref(), Some("max_elapsed"));
    assert!(metadata(&app, "flaky-1").await.unwrap().exhausted);
}

#[test]
async fn the_duration_counts_from_the_first_attempt_and_not_from_the_call() {
    #[activity]
    async fn occupy(ctx: ActivityContext) -> Result<(), Failure> {
        ctx.sleep(10 * MINUTE).await;
        Ok(())
    }
    let policy = json!({"initial_interval": 4.0, "backoff_coefficient": 1.0, "max_duration": 10.0});
    let app = app(edda(&policy)).activity(occupy).options(|options| options.slots = 1);
    let app = app.start().await;
    app.submit("occupy-1", occupy()).await.unwrap();
    let run = app.submit("flaky-1", flaky(2)).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "TXN-123");
}

// What is recorded.

#[test]
async fn the_history_tells_the_story_of_the_retries_in_eddas_words() {
    let app = app(edda(&json!({}))).start().await;
    let began = app.now().as_millis();
    app.submit("flaky-1", flaky(2)).await.unwrap().result().await.unwrap();
    let metadata = serde_json::to_value(metadata(&app, "flaky-1").await.unwrap()).unwrap();
    let error = |attempt: u32, at: i64| {
        json!({"attempt": attempt, "error_type": "ConnectionError", "message": "gateway timeout",
            "timestamp_ms": began + at})
    };
    let expected = json!({
        "total_attempts": 3,
        "total_duration_ms": 3_000,
        "exhausted": false,
        "last_error": error(2, 1_000),
        "errors": [error(1, 0), error(2, 1_000)],
    });
    assert_eq!(metadata, expected);
}

#[test]
async fn an_activity_that_succeeds_at_once_has_no_story() {
    let app = app(edda(&json!({}))).start().await;
    app.submit("flaky-1", flaky(0)).await.unwrap().result().await.unwrap();
    assert_eq!(metadata(&app, "flaky-1").await, None);
}

// Crashes and replay.

#[test]
async fn a_process_that_is_killed_between_attempts_leaves_the_rest_of_them() {
    let app = app(edda(&json!({}))).start().await;
    let run = app.submit("flaky-1", flaky(100)).await.unwrap();
    app.advance(4 * SECOND).await;
    assert_eq!(app.attempts(flaky), 3);
    app.restart().await;
    let failure = run.failure().await;
    assert_eq!((failure.attempts, app.attempts(flaky)), (Some(5), 5));
    // The backoff ends when it was to end before the crash.
    assert_eq!(begins(&app, "flaky-1").await, [0, 1_000, 3_000, 7_000, 15_000]);
}

#[test]
async fn a_replay_runs_no_activity_again_and_sees_the_same_results() {
    /// How often the code of the workflow ran to its wait.
    static RUNS: AtomicU32 = AtomicU32::new(0);
    #[activity(retry = preset::EDDA_DEFAULT.max_attempts(2))]
    async fn hopeless() -> Result<(), Failure> {
        Err(Failure::of_type("ConnectionError", "gateway timeout"))
    }
    #[workflow]
    async fn order(ctx: WorkflowContext) -> Result<String, Failure> {
        let payment = ctx.call(flaky(2)).await?;
        let shipping = ctx.call(hopeless()).await.unwrap_err();
        RUNS.fetch_add(1, Ordering::Relaxed);
        ctx.signal::<()>("ship").await?;
        Ok(format!("{payment}; {shipping}; {:?}", shipping.attempts))
    }
    let app = app(edda(&json!({}))).workflow(order).activity(hopeless).start().await;
    let run = app.start("order-1", order()).await;
    app.advance(MINUTE).await;
    let before = run.history().await;
    app.restart().await;
    run.signal("ship", &()).await.unwrap();
    let expected = "TXN-123; ConnectionError: gateway timeout; Some(2)";
    assert_eq!(run.result().await.unwrap(), expected);
    assert_eq!((app.attempts(flaky), app.attempts(hopeless)), (3, 2));
    assert_eq!(RUNS.load(Ordering::Relaxed), 2);
    assert!(run.history().await.starts_with(&before));
}
