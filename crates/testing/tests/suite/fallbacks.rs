//! Activities that take the place of others whose attempts have run out.

use std::borrow::Cow;
use std::time::Duration;

use expect_test::{Expect, expect};
use resurgam::prelude::*;
use resurgam::retry::{Exhausted, Jitter, LostWorker};
use resurgam::{ActivityDefinition, Kind, Payload, WaitsFor};
use resurgam_testing::{TestApp, TestBuilder, never};
use resurgam_watchdog::test;
use serde_json::json;

use crate::common::crashes;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

const LATER: Exhausted = Exhausted::FallbackActivity(Cow::Borrowed("charge_later"));
const TWICE: RetryPolicy = RetryPolicy::fixed(SECOND).max_attempts(2).jitter(Jitter::None);

#[activity(retry = TWICE.on_exhausted(LATER))]
async fn charge(cents: u32) -> Result<String, Failure> {
    Err(Failure::of_type("BankDown", format!("{cents} not taken")))
}

/// Fails twice, and would fail for ever when there is nothing to charge.
#[activity(retry = RetryPolicy::fixed(MINUTE).max_attempts(3).jitter(Jitter::None))]
async fn charge_later(ctx: ActivityContext, cents: u32) -> Result<String, Failure> {
    let before = ctx.fallback_of().map(|failure| {
        let (attempts, why) = (failure.attempts, failure.why.clone().unwrap_or_default());
        format!("{failure} ({why} after {attempts:?})")
    });
    let is_own = ctx.idempotency_key().ends_with("/fallback");
    match (cents, ctx.attempt()) {
        (1.., 5..) => Ok(format!("{cents} later; {before:?}; its own key: {is_own}")),
        _ => Err(Failure::of_type("ListFull", "no room")),
    }
}

#[workflow]
async fn order(ctx: WorkflowContext, cents: u32) -> Result<String, Failure> {
    ctx.call(charge(cents)).await
}

fn builder() -> TestBuilder {
    TestApp::builder().workflow(order).activity(charge).activity(charge_later)
}

/// The history after a day, and that it is the same after a crash at any commit.
async fn check(cents: u32, expected: Expect) {
    let play = async |app: &TestApp| {
        drop(app.start("it", order(cents)).await);
        app.advance(24 * HOUR).await;
        app.history("it").await
    };
    let quiet = builder().start().await;
    let history = play(&quiet).await;
    expected.assert_eq(&history);
    for crash in crashes(quiet.commits()) {
        let app = builder().start().await;
        app.faults().crash(crash);
        let story = play(&app).await;
        if !story.contains(" lost: ") {
            assert_eq!(story, history, "{crash:?}");
        }
    }
}

#[test]
async fn another_activity_goes_on_with_its_own_policy_and_failures_from_0() {
    check(700, expect![[r#"
        1 +0ms RunStarted order {"cents":700}
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: 700 not taken; again in 1s
          +1s charge#2 attempt 2 failed: BankDown: 700 not taken; falls back to charge_later
          +1s charge_later#2 attempt 3 failed: ListFull: no room; again in 1m
          +1m 1s charge_later#2 attempt 4 failed: ListFull: no room; again in 1m
        3 +2m 1s ActivityCompleted #2 (attempt 5) fallback "700 later; Some(\"BankDown: 700 not taken (max_attempts after Some(2))\"); its own key: true"
        4 +2m 1s RunCompleted "700 later; Some(\"BankDown: 700 not taken (max_attempts after Some(2))\"); its own key: true"
    "#]]).await;
}

#[test]
async fn what_the_other_activity_fails_with_is_caused_by_the_first_failure() {
    check(
        0,
        expect![[r#"
        1 +0ms RunStarted order {"cents":0}
        2 +0ms ActivityScheduled charge {"cents":0}
          +0ms charge#2 attempt 1 failed: BankDown: 0 not taken; again in 1s
          +1s charge#2 attempt 2 failed: BankDown: 0 not taken; falls back to charge_later
          +1s charge_later#2 attempt 3 failed: ListFull: no room; again in 1m
          +1m 1s charge_later#2 attempt 4 failed: ListFull: no room; again in 1m
          +2m 1s charge_later#2 attempt 5 failed: ListFull: no room
        3 +2m 1s ActivityFailed #2 (attempt 5) max_attempts: ListFull: no room
        4 +2m 1s RunFailed ListFull: no room
    "#]],
    )
    .await;
    let app = builder().start().await;
    let failure = app.submit("it", charge(0)).await.unwrap().failure().await;
    assert_eq!((failure.attempts, failure.why.as_deref()), (Some(5), Some("max_attempts")));
    let cause = failure.cause.as_ref().unwrap();
    assert_eq!((cause.to_string().as_str(), cause.attempts), ("BankDown: 0 not taken", Some(2)));
    assert_eq!((cause.why.as_deref(), cause.cause.is_none()), (Some("max_attempts"), true));
}

#[test]
async fn who_waits_in_whose_place_is_shown_and_the_call_answers_to_both_names() {
    let app = builder().start().await;
    app.start("it", order(700)).await;
    app.advance(30 * SECOND).await;
    let call = app.describe("it").await.pending.remove(0);
    assert_eq!(
        (call.activity.as_str(), call.fallback_of.as_deref()),
        ("charge_later", Some("charge"))
    );
    assert_eq!((call.attempt, call.counters.failures), (3, 1));
    assert_eq!(call.waits_for, Some(WaitsFor::Backoff));
    let retried = app.act("it", "charge#2", |call| call.retry()).await.unwrap();
    assert_eq!(retried.to_string(), "retried charge_later#2 now");
    // The workflow reads what the activity returns that it called.
    let wrong = app.act("it", "charge_later", |call| call.complete(&7)).await.unwrap();
    assert!(wrong.to_string().contains("expected a string"), "{wrong}");
    let pausing = TWICE.on_exhausted(Exhausted::Pause { wait: None });
    let refused = app.act("it", "#2", |call| call.set_policy(pausing.clone())).await.unwrap();
    assert_eq!(
        refused.to_string(),
        "charge_later#2: its policy: it has taken the place of charge, so its on_exhausted can only \
         be \"fail\""
    );
    assert!(app.act("it", "charge", |call| call.complete(&"by hand")).await.unwrap().changed());
    assert!(app.history("it").await.contains("ActivityCompleted #2 (attempt 4) fallback"));
}

#[test]
async fn the_call_ends_when_its_total_timeout_passes_whoever_runs_it() {
    let bounded = TWICE.on_exhausted(LATER);
    #[workflow]
    async fn hurried(ctx: WorkflowContext, policy: RetryPolicy) -> Result<String, Failure> {
        ctx.call(charge(700)).retry(policy).total_timeout(30 * SECOND).await
    }
    let app = builder().workflow(hurried).start().await;
    let failure = app.start("it", hurried(bounded)).await.failure().await;
    // The next attempt of `charge_later` would be due after a minute.
    assert_eq!(
        (failure.to_string().as_str(), failure.why.as_deref()),
        ("ListFull: no room", Some("total_timeout"))
    );
}

#[test]
async fn max_elapsed_of_the_other_activity_counts_from_when_it_took_over() {
    const LONG: RetryPolicy = RetryPolicy::fixed(MINUTE).max_attempts(2).jitter(Jitter::None);
    const SHORT: RetryPolicy = RetryPolicy::fixed(Duration::from_secs(10))
        .unlimited()
        .max_elapsed(Duration::from_secs(30))
        .jitter(Jitter::None);
    #[activity(retry = LONG.on_exhausted(Exhausted::FallbackActivity(Cow::Borrowed("short"))))]
    async fn long() -> Result<(), Failure> {
        Err(Failure::new("long"))
    }
    #[activity(retry = SHORT)]
    async fn short() -> Result<(), Failure> {
        Err(Failure::new("short"))
    }
    let app = TestApp::builder().activity(long).activity(short).start().await;
    let failure = app.submit("it", long()).await.unwrap().failure().await;
    assert_eq!((failure.attempts, failure.why.as_deref()), (Some(6), Some("max_elapsed")));
}

#[test]
async fn a_rule_can_fall_back_and_a_lost_process_too() {
    let rule = json!({
        "on": {"types": ["Busy"]}, "max_attempts": 1,
        "on_exhausted": {"fallback": {"activity": "charge_later"}},
    });
    let policy = json!({"max_attempts": 2, "rules": [rule]});
    let policy = RetryPolicy::from_value(&policy).unwrap();
    const LOST: LostWorker = LostWorker { max: 1, ..LostWorker::DEFAULT };
    #[activity]
    async fn by_rule(cents: u32) -> Result<String, Failure> {
        Err(Failure::of_type(if cents > 0 { "Busy" } else { "Idle" }, "no"))
    }
    #[activity(retry = TWICE.lost_worker(LOST).on_exhausted(LATER))]
    async fn deadly(ctx: ActivityContext, cents: u32) -> Result<String, Failure> {
        never(&ctx).await;
        Ok(cents.to_string())
    }
    let app = builder().activity(by_rule).activity(deadly).start().await;
    app.submit_with("busy", by_rule(7), |start| start.retry(policy.clone())).await.unwrap();
    let idle = app.submit_with("idle", by_rule(0), |start| start.retry(policy.clone())).await;
    let idle = idle.unwrap().failure().await;
    assert_eq!((idle.why.as_deref(), idle.cause.is_none()), (Some("max_attempts"), true));
    app.advance(HOUR).await;
    assert_eq!(app.ledger("busy").await[0].falls_back_to(), Some("charge_later"));

    let deadly = app.submit("deadly", deadly(7)).await.unwrap();
    for _ in 0..2 {
        app.advance(MINUTE).await;
        app.restart().await;
    }
    assert!(deadly.result().await.unwrap().contains("worker_lost after Some(2)"));
}

#[test]
async fn an_activity_that_is_not_registered_is_waited_for() {
    let app = TestApp::builder().workflow(order).activity(charge).start().await;
    app.start("it", order(700)).await;
    app.advance(MINUTE).await;
    let call = app.describe("it").await.pending.remove(0);
    assert_eq!(
        (call.activity.as_str(), call.waits_for),
        ("charge_later", Some(WaitsFor::Unregistered))
    );
}

#[test]
async fn what_does_not_fit_the_workflow_fails_the_call_instead_of_blocking_the_run() {
    let number = ActivityDefinition::new("charge_later", |_, _| {
        Box::pin(async { Ok(Payload::from_text("7")) })
    });
    let app = TestApp::builder().workflow(order).activity(charge).activity_definition(number);
    let app = app.start().await;
    let failure = app.start("it", order(700)).await.failure().await;
    assert_eq!((failure.kind, failure.type_name.as_deref()), (Kind::Error, Some("BadFallback")));
    assert!(failure.message.contains("charge_later returned what charge could not"), "{failure}");
}

#[test]
async fn a_chain_of_fallbacks_is_refused() {
    const ROUND: RetryPolicy = TWICE;
    #[activity(retry = ROUND.on_exhausted(Exhausted::FallbackActivity(Cow::Borrowed("second"))))]
    async fn first() -> Result<(), Failure> {
        Ok(())
    }
    #[activity(retry = ROUND.on_exhausted(Exhausted::FallbackActivity(Cow::Borrowed("first"))))]
    async fn second() -> Result<(), Failure> {
        Ok(())
    }
    let folder = tempfile::tempdir().unwrap();
    let app = App::builder().activity(first).activity(second);
    let error = app.sqlite(folder.path().join("app.db")).await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "build the app failed: activity first: it falls back to second, whose own policy does not \
         simply fail when retrying stops; give second a policy with on_exhausted \"fail\", in its \
         rules too"
    );
}
