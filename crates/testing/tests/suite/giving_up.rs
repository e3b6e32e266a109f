//! `on_exhausted: "compensate"` where the code of the run would do something else: in shielded
//! code, and under a retry policy of the workflow.

use std::time::Duration;

use expect_test::{Expect, expect};
use resurgam::prelude::*;
use resurgam::retry::{Exhausted, Jitter};
use resurgam_testing::{TestApp, TestBuilder};
use resurgam_watchdog::test;

use crate::common::crashes;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

const ENDS_THE_RUN: RetryPolicy = RetryPolicy::fixed(SECOND)
    .max_attempts(2)
    .jitter(Jitter::None)
    .on_exhausted(Exhausted::Compensate);

#[activity(retry = ENDS_THE_RUN)]
async fn notify(times: u32) -> Result<u32, Failure> {
    Ok(times)
}

#[activity]
async fn reserve(seat: u32) -> Result<u32, Failure> {
    Ok(seat)
}

#[activity]
async fn give_back(seat: u32) -> Result<u32, Failure> {
    Ok(seat)
}

/// Would go on without a notice, and is shielded from cancellation meanwhile.
#[workflow]
async fn shielded(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.call(reserve(7)).compensate_with(|seat| give_back(*seat)).await?;
    let inside = ctx.shielded();
    let told = inside.call(notify(9)).await.unwrap_or(0);
    inside.call(reserve(told)).await
}

/// Is tried again as a whole, twice.
#[workflow]
async fn again(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.call(reserve(7)).compensate_with(|seat| give_back(*seat)).await?;
    Ok(ctx.call(notify(9)).await.unwrap_or(0))
}

fn builder() -> TestBuilder {
    TestApp::builder()
        .workflow(shielded)
        .workflow(again)
        .activity(reserve)
        .activity(give_back)
        .stub(notify, |_, _| Err(Failure::of_type("MailDown", "no answer")))
}

async fn check(play: impl AsyncFn(&TestApp) -> String, expected: Expect) {
    let app = builder().start().await;
    let story = play(&app).await;
    expected.assert_eq(&story);
    for crash in crashes(app.commits()) {
        let app = builder().start().await;
        app.faults().crash(crash);
        let crashed = play(&app).await;
        if !crashed.contains(" lost: ") {
            assert_eq!(crashed, story, "{crash:?}");
        }
    }
}

#[test]
async fn a_call_in_shielded_code_ends_the_run_all_the_same() {
    let play = async |app: &TestApp| {
        drop(app.start("it", shielded()).await);
        app.advance(HOUR).await;
        app.history("it").await
    };
    check(
        play,
        expect![[r#"
        1 +0ms RunStarted shielded {}
        2 +0ms ActivityScheduled reserve {"seat":7}
        3 +0ms ActivityCompleted #2 7
        4 +0ms CompensationRecorded #2 give_back {"seat":7}
        5 +0ms ActivityScheduled notify {"times":9}
          +0ms notify#5 attempt 1 failed: MailDown: no answer; again in 1s
          +1s notify#5 attempt 2 failed: MailDown: no answer
        6 +1s ActivityFailed #5 (attempt 2) max_attempts ends the run: MailDown: no answer
        7 +1s ActivityScheduled give_back to undo #2 {"seat":7}
        8 +1s ActivityCompleted #7 7
        9 +1s RunFailed (compensation complete) MailDown: no answer
    "#]],
    )
    .await;
}

#[test]
async fn a_call_in_shielded_code_of_a_cancelled_run_ends_it_too() {
    let play = async |app: &TestApp| {
        drop(app.start("it", shielded()).await);
        app.advance(Duration::from_millis(500)).await;
        app.cancel("it", "changed our minds").await.unwrap();
        app.advance(HOUR).await;
        app.history("it").await
    };
    check(
        play,
        expect![[r#"
        1 +0ms RunStarted shielded {}
        2 +0ms ActivityScheduled reserve {"seat":7}
        3 +0ms ActivityCompleted #2 7
        4 +0ms CompensationRecorded #2 give_back {"seat":7}
        5 +0ms ActivityScheduled notify {"times":9}
          +0ms notify#5 attempt 1 failed: MailDown: no answer; again in 1s
        6 +500ms CancelRequested changed our minds
          +1s notify#5 attempt 2 failed: MailDown: no answer
        7 +1s ActivityFailed #5 (attempt 2) max_attempts ends the run: MailDown: no answer
        8 +1s ActivityScheduled give_back to undo #2 {"seat":7}
        9 +1s ActivityCompleted #8 7
        10 +1s RunCancelled (compensation complete) MailDown: no answer
    "#]],
    )
    .await;
}

#[test]
async fn a_run_that_is_undone_so_is_tried_again_by_the_policy_of_its_workflow() {
    let play = async |app: &TestApp| {
        let twice = RetryPolicy::fixed(60 * SECOND).max_attempts(2).jitter(Jitter::None);
        drop(app.start_with("it", again(), |start| start.retry(twice.clone())).await);
        app.advance(HOUR).await;
        let first = app.run_history("it", 1).await;
        format!("run 1\n{first}run 2\n{}", app.run_history("it", 2).await)
    };
    check(
        play,
        expect![[r#"
        run 1
        1 +0ms RunStarted again {}
        2 +0ms ActivityScheduled reserve {"seat":7}
        3 +0ms ActivityCompleted #2 7
        4 +0ms CompensationRecorded #2 give_back {"seat":7}
        5 +0ms ActivityScheduled notify {"times":9}
          +0ms notify#5 attempt 1 failed: MailDown: no answer; again in 1s
          +1s notify#5 attempt 2 failed: MailDown: no answer
        6 +1s ActivityFailed #5 (attempt 2) max_attempts ends the run: MailDown: no answer
        7 +1s ActivityScheduled give_back to undo #2 {"seat":7}
        8 +1s ActivityCompleted #7 7
        9 +1s RunContinued by RetryPolicy in 1m after MailDown: no answer
        run 2
        1 +0ms RunStarted again {} attempt 2, first turn at +1m
        2 +1m TimerFired #1
        3 +1m ActivityScheduled reserve {"seat":7}
        4 +1m ActivityCompleted #3 7
        5 +1m CompensationRecorded #3 give_back {"seat":7}
        6 +1m ActivityScheduled notify {"times":9}
          +1m notify#6 attempt 1 failed: MailDown: no answer; again in 1s
          +1m 1s notify#6 attempt 2 failed: MailDown: no answer
        7 +1m 1s ActivityFailed #6 (attempt 2) max_attempts ends the run: MailDown: no answer
        8 +1m 1s ActivityScheduled give_back to undo #3 {"seat":7}
        9 +1m 1s ActivityCompleted #8 7
        10 +1m 1s RunFailed (compensation complete) MailDown: no answer
    "#]],
    )
    .await;
}
