//! Where a system's own documents contradict themselves and the engine follows one reading. The
//! readings of policies are in `core/tests/contradictions.rs`.

use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::{Jitter, preset};
use resurgam_testing::TestApp;
use resurgam_watchdog::test;

#[activity]
async fn plain() -> Result<(), Failure> {
    Err(Failure::new("down"))
}

#[activity(timeout = Duration::from_secs(10))]
async fn timed(ctx: ActivityContext) -> Result<(), Failure> {
    if ctx.attempt() < 3 { Err(Failure::new("down")) } else { Ok(()) }
}

#[workflow]
async fn call_plain(ctx: WorkflowContext) -> Result<(), Failure> {
    ctx.call(plain()).await
}

#[workflow]
async fn call_timed(ctx: WorkflowContext) -> Result<(), Failure> {
    ctx.call(timed()).await
}

#[test]
async fn e6_an_activity_without_a_policy_has_the_apps_if_there_is_one() {
    for (policy, attempts) in [(None, 10), (Some(preset::EDDA_CONSERVATIVE), 3)] {
        let mut builder = TestApp::builder().workflow(call_plain).activity(plain);
        if let Some(policy) = policy {
            builder = builder.retry(policy);
        }
        let app = builder.start().await;
        app.start("run", call_plain()).await.failure().await;
        assert_eq!(app.attempts(plain), attempts);
    }
}

#[test]
async fn d4_the_activity_comes_first_and_timers_of_its_attempts_are_no_events() {
    let policy = RetryPolicy::fixed(Duration::from_secs(1)).jitter(Jitter::None);
    let app = TestApp::builder().workflow(call_timed).activity(timed).retry(policy).start().await;
    let run = app.start("run", call_timed()).await;
    run.result().await.unwrap();
    expect![[r#"
        1 +0ms RunStarted call_timed {}
        2 +0ms ActivityScheduled timed {}
          +0ms timed#2 attempt 1 failed: down; again in 1s
          +1s timed#2 attempt 2 failed: down; again in 1s
        3 +2s ActivityCompleted #2 (attempt 3) null
        4 +2s RunCompleted null
    "#]]
    .assert_eq(&run.history().await);
}
