//! Which policy and which timeouts hold for a call: of those that the call, its activity and the
//! app name, and at which time.

use std::time::Duration;

use expect_test::expect;
use resurgam::Start;
use resurgam::prelude::*;
use resurgam::retry::{Jitter, Timeouts};
use resurgam_testing::{TestApp, TestBuilder, never};
use resurgam_watchdog::test;

use crate::common::attempts::{MINUTE, SECOND, STEADY, pending};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// What an app says about time.
const OF_APP: Timeouts = Timeouts {
    attempt: Some(HOUR),
    heartbeat: Some(Duration::from_secs(600)),
    queue: Some(DAY),
    total: Some(Duration::from_secs(7 * 86_400)),
};

/// Says something of its own about an attempt and its silence.
#[activity(timeout = 30 * MINUTE, heartbeat_timeout = 5 * MINUTE)]
async fn particular(ctx: ActivityContext) -> Result<(), Failure> {
    never(&ctx).await;
    Ok(())
}

/// Says nothing about time.
#[activity]
async fn modest(ctx: ActivityContext) -> Result<(), Failure> {
    never(&ctx).await;
    Ok(())
}

#[workflow]
async fn call_modest(ctx: WorkflowContext) -> Result<(), Failure> {
    ctx.call(modest()).await
}

#[workflow]
async fn call_particular(ctx: WorkflowContext) -> Result<(), Failure> {
    ctx.call(particular()).await
}

/// Says something of its own about an attempt and the wait for a worker.
#[workflow]
async fn call_particularly(ctx: WorkflowContext) -> Result<(), Failure> {
    ctx.call(particular()).timeout(20 * MINUTE).queue_timeout(2 * MINUTE).await
}

/// The timeouts that hold for the call of an instance.
async fn timeouts(app: &TestApp, id: &str) -> String {
    app.advance(Duration::ZERO).await;
    let Timeouts { attempt, heartbeat, queue, total } =
        pending(app, id).await.policy.unwrap().timeouts;
    format!("attempt {attempt:?}, heartbeat {heartbeat:?}, queue {queue:?}, total {total:?}")
}

#[test]
async fn each_timeout_is_taken_by_itself_from_the_call_the_activity_or_the_app() {
    let builder = || {
        TestApp::builder()
            .workflow(call_modest)
            .workflow(call_particular)
            .workflow(call_particularly)
            .activity(modest)
            .activity(particular)
    };
    let plain = builder().start().await;
    plain.start("modest", call_modest()).await;
    // Without a word from anybody there is no timeout at all.
    expect!["attempt None, heartbeat None, queue None, total None"]
        .assert_eq(&timeouts(&plain, "modest").await);

    let app = builder().retry(STEADY.timeouts(OF_APP)).start().await;
    app.start("modest", call_modest()).await;
    app.start("particular", call_particular()).await;
    app.start("particularly", call_particularly()).await;
    expect!["attempt Some(3600s), heartbeat Some(600s), queue Some(86400s), total Some(604800s)"]
        .assert_eq(&timeouts(&app, "modest").await);
    expect!["attempt Some(1800s), heartbeat Some(300s), queue Some(86400s), total Some(604800s)"]
        .assert_eq(&timeouts(&app, "particular").await);
    expect!["attempt Some(1200s), heartbeat Some(300s), queue Some(120s), total Some(604800s)"]
        .assert_eq(&timeouts(&app, "particularly").await);
}

#[test]
async fn the_policy_of_a_call_replaces_the_activitys_whole() {
    const STRICT: RetryPolicy =
        RetryPolicy::fixed(HOUR).jitter(Jitter::None).max_attempts(2).never_for(&["Busy"]);
    #[activity(retry = STRICT)]
    async fn busy() -> Result<(), Failure> {
        Err(Failure::of_type("Busy", "try later"))
    }
    #[workflow]
    async fn call_busy(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(busy()).retry(STEADY.max_attempts(3)).await
    }
    let app = TestApp::builder().workflow(call_busy).activity(busy).start().await;
    let run = app.start("busy-1", call_busy()).await;
    run.failure().await;
    // Neither the delay nor the types that are never retried are left of the other one.
    expect![[r#"
        1 +0ms RunStarted call_busy {}
        2 +0ms ActivityScheduled busy {}
          +0ms busy#2 attempt 1 failed: Busy: try later; again in 1s
          +1s busy#2 attempt 2 failed: Busy: try later; again in 1s
          +2s busy#2 attempt 3 failed: Busy: try later
        3 +2s ActivityFailed #2 (attempt 3) max_attempts: Busy: try later
        4 +2s RunFailed Busy: try later
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn a_policy_is_given_or_lent_wherever_one_is_asked_for() {
    #[activity]
    async fn busy() -> Result<(), Failure> {
        Err(Failure::new("try later"))
    }
    #[workflow]
    async fn call_busy(ctx: WorkflowContext) -> Result<(), Failure> {
        let thrice = STEADY.max_attempts(3);
        ctx.call(busy()).retry(&thrice).await.unwrap_err();
        ctx.call(busy()).retry(thrice).await
    }
    #[workflow]
    async fn have_busy_called(ctx: WorkflowContext) -> Result<(), Failure> {
        let twice = STEADY.max_attempts(2);
        ctx.child(call_busy()).retry(&twice).await.unwrap_err();
        ctx.child(call_busy()).retry(twice).await
    }
    let builder = TestApp::builder().workflow(call_busy).workflow(have_busy_called).activity(busy);
    let app = builder.retry(&STEADY).start().await;
    for lent in [true, false] {
        let once = STEADY.max_attempts(1);
        let retry = |start: Start<()>| match lent {
            true => start.retry(&once),
            false => start.retry(once.clone()),
        };
        let run = app.start_with(&format!("busy-{lent}"), have_busy_called(), retry).await;
        run.failure().await;
        // Two children, each of two runs, each with two calls of three attempts.
        assert_eq!(app.attempts(busy), if lent { 24 } else { 48 });
    }
}

/// The same activity before and after a change of its timeout.
mod before {
    use super::*;

    #[activity(name = "fetch", retry = STEADY, timeout = 10 * SECOND)]
    pub(super) async fn fetch(ctx: ActivityContext) -> Result<u32, Failure> {
        slow(&ctx).await
    }

    #[workflow(name = "fetch_twice")]
    pub(super) async fn fetch_twice(ctx: WorkflowContext) -> Result<u32, Failure> {
        Ok(ctx.call(fetch()).await? + ctx.call(fetch()).await?)
    }

    pub(super) fn app() -> TestBuilder {
        TestApp::builder().workflow(fetch_twice).activity(fetch)
    }
}

mod after {
    use super::*;

    #[activity(name = "fetch", retry = STEADY, timeout = MINUTE)]
    async fn fetch(ctx: ActivityContext) -> Result<u32, Failure> {
        slow(&ctx).await
    }

    pub(super) fn app() -> TestBuilder {
        TestApp::builder().workflow(before::fetch_twice).activity(fetch)
    }
}

/// Its first two attempts take longer than anybody waits.
async fn slow(ctx: &ActivityContext) -> Result<u32, Failure> {
    if ctx.attempt() < 3 {
        ctx.sleep(HOUR).await;
    }
    Ok(ctx.attempt())
}

#[test]
async fn a_call_keeps_the_timeouts_it_was_scheduled_with_when_the_code_changes() {
    let app = before::app().start().await;
    let run = app.start("fetch-1", before::fetch_twice()).await;
    app.advance(Duration::from_millis(10_500)).await;
    app.restart_with(after::app()).await;
    assert_eq!(run.result().await.unwrap(), 6);
    expect![[r#"
        1 +0ms RunStarted fetch_twice {}
        2 +0ms ActivityScheduled fetch {}
          +10s fetch#2 attempt 1 failed: timeout: not done within 10s; again in 1s
          +21s fetch#2 attempt 2 failed: timeout: not done within 10s; again in 1s
        3 +22s ActivityCompleted #2 (attempt 3) 3
        4 +22s ActivityScheduled fetch {}
          +1m 22s fetch#4 attempt 1 failed: timeout: not done within 1m; again in 1s
          +2m 23s fetch#4 attempt 2 failed: timeout: not done within 1m; again in 1s
        5 +2m 24s ActivityCompleted #4 (attempt 3) 3
        6 +2m 24s RunCompleted 6
    "#]]
    .assert_eq(&run.history().await);
}
