//! An attempt that is over for its call may go on for its grace period. Nothing of its run is
//! undone until its code has returned.

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam_testing::{TestApp, TestBuilder};
use resurgam_watchdog::test;

use crate::common::attempts::SECOND;
use crate::undoing::{clean, give_back, rent};

/// Gives up cleaning before there is a room to give back, and fails.
#[workflow]
async fn rent_late(ctx: WorkflowContext, seconds: u32) -> Result<u32, Failure> {
    let _too_late = ctx.timeout(SECOND, ctx.call(clean(seconds))).await;
    ctx.call(rent()).compensate_with(|room| give_back(room.clone())).await?;
    Err(Failure::terminal("the room is not clean"))
}

fn app() -> TestBuilder {
    TestApp::builder().workflow(rent_late).activity(rent).activity(give_back).activity(clean)
}

#[test]
async fn an_attempt_that_timed_out_for_good_is_waited_for() {
    #[workflow]
    async fn stay(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(rent()).compensate_with(|room| give_back(room.clone())).await?;
        ctx.call(clean(5))
            .timeout(2 * SECOND)
            .retry(RetryPolicy::fixed(SECOND).max_attempts(1))
            .await
    }
    let app = app().workflow(stay).start().await;
    let run = app.start("stay-1", stay()).await;
    run.failure().await;
    expect![[r#"
        1 +0ms RunStarted stay {}
        2 +0ms ActivityScheduled rent {}
        3 +0ms ActivityCompleted #2 "room 7"
        4 +0ms CompensationRecorded #2 give_back {"what":"room 7"}
        5 +0ms ActivityScheduled clean {"seconds":5}
          +2s clean#5 attempt 1 failed: timeout: not done within 2s
        6 +2s ActivityFailed #5 max_attempts: timeout: not done within 2s
        7 +2s ActivityScheduled give_back to undo #2 {"what":"room 7"}
        8 +5s ActivityCompleted #7 null
        9 +5s RunFailed (compensation complete) timeout: not done within 2s
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn an_attempt_that_timed_out_is_waited_for_while_the_next_one_is_due() {
    #[workflow]
    async fn stay(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(rent()).compensate_with(|room| give_back(room.clone())).await?;
        let patient = RetryPolicy::fixed(60 * SECOND).jitter(Jitter::None);
        let cleaned = ctx.call(clean(5)).timeout(2 * SECOND).retry(patient);
        let cleaned = ctx.timeout(3 * SECOND, cleaned).await;
        cleaned.map_err(|_| Failure::terminal("it took too long"))?
    }
    let app = app().workflow(stay).start().await;
    let run = app.start("stay-1", stay()).await;
    run.failure().await;
    expect![[r#"
        1 +0ms RunStarted stay {}
        2 +0ms ActivityScheduled rent {}
        3 +0ms ActivityCompleted #2 "room 7"
        4 +0ms CompensationRecorded #2 give_back {"what":"room 7"}
        5 +0ms ActivityScheduled clean {"seconds":5}
        6 +0ms TimerStarted until +3s
          +2s clean#5 attempt 1 failed: timeout: not done within 2s; again in 1m
        7 +3s TimerFired #6
        8 +3s ActivityCancelRequested #5
        9 +3s ActivityFailed #5 cancelled: cancelled: the workflow gave it up
        10 +3s ActivityScheduled give_back to undo #2 {"what":"room 7"}
        11 +5s ActivityCompleted #10 null
        12 +5s RunFailed (compensation complete) it took too long
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn an_attempt_that_was_given_up_before_there_was_anything_to_undo_is_waited_for() {
    let app = app().start().await;
    let run = app.start("rent-1", rent_late(5)).await;
    run.failure().await;
    expect![[r#"
        1 +0ms RunStarted rent_late {"seconds":5}
        2 +0ms ActivityScheduled clean {"seconds":5}
        3 +0ms TimerStarted until +1s
        4 +1s TimerFired #3
        5 +1s ActivityCancelled #2
        6 +1s ActivityScheduled rent {}
        7 +1s ActivityCompleted #6 "room 7"
        8 +1s CompensationRecorded #6 give_back {"what":"room 7"}
        9 +1s ActivityScheduled give_back to undo #6 {"what":"room 7"}
        10 +5s ActivityCompleted #9 null
        11 +5s RunFailed (compensation complete) the room is not clean
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn an_attempt_that_lingers_for_longer_than_its_grace_period_is_not_waited_for() {
    let app = app().start().await;
    let run = app.start("rent-1", rent_late(50)).await;
    run.failure().await;
    expect![[r#"
        1 +0ms RunStarted rent_late {"seconds":50}
        2 +0ms ActivityScheduled clean {"seconds":50}
        3 +0ms TimerStarted until +1s
        4 +1s TimerFired #3
        5 +1s ActivityCancelled #2
        6 +1s ActivityScheduled rent {}
        7 +1s ActivityCompleted #6 "room 7"
        8 +1s CompensationRecorded #6 give_back {"what":"room 7"}
        9 +1s ActivityScheduled give_back to undo #6 {"what":"room 7"}
        10 +11s ActivityCompleted #9 null
        11 +11s RunFailed (compensation complete) the room is not clean
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn an_attempt_that_lingered_when_its_process_died_is_not_waited_for_by_the_next_one() {
    #[workflow]
    async fn stay(ctx: WorkflowContext) -> Result<u32, Failure> {
        let _too_late = ctx.timeout(SECOND, ctx.call(clean(50))).await;
        ctx.call(rent()).compensate_with(|room| give_back(room.clone())).await?;
        ctx.sleep(SECOND).await?;
        Err(Failure::terminal("the room is not clean"))
    }
    let app = app().workflow(stay).start().await;
    let run = app.start("stay-1", stay()).await;
    app.advance(SECOND).await;
    app.restart().await;
    run.failure().await;
    expect![[r#"
        1 +0ms RunStarted stay {}
        2 +0ms ActivityScheduled clean {"seconds":50}
        3 +0ms TimerStarted until +1s
        4 +1s TimerFired #3
        5 +1s ActivityCancelled #2
        6 +1s ActivityScheduled rent {}
        7 +1s ActivityCompleted #6 "room 7"
        8 +1s CompensationRecorded #6 give_back {"what":"room 7"}
        9 +1s TimerStarted until +2s
        10 +2s TimerFired #9
        11 +2s ActivityScheduled give_back to undo #6 {"what":"room 7"}
        12 +2s ActivityCompleted #11 null
        13 +2s RunFailed (compensation complete) the room is not clean
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn an_attempt_whose_call_an_operator_failed_is_waited_for() {
    #[workflow]
    async fn stay(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(rent()).compensate_with(|room| give_back(room.clone())).await?;
        ctx.call(clean(5)).await
    }
    let app = app().workflow(stay).start().await;
    let run = app.start("stay-1", stay()).await;
    app.advance(2 * SECOND).await;
    let failed = app.client().call("stay-1", "clean#5").fail("no time").by("ana").await.unwrap();
    assert!(failed.changed(), "{failed}");
    run.failure().await;
    expect![[r#"
        1 +0ms RunStarted stay {}
        2 +0ms ActivityScheduled rent {}
        3 +0ms ActivityCompleted #2 "room 7"
        4 +0ms CompensationRecorded #2 give_back {"what":"room 7"}
        5 +0ms ActivityScheduled clean {"seconds":5}
          +2s operator ana: failed clean#5
        6 +2s ActivityFailed #5 operator: FailedByOperator: no time
        7 +2s ActivityScheduled give_back to undo #2 {"what":"room 7"}
        8 +5s ActivityCompleted #7 null
        9 +5s RunFailed (compensation complete) FailedByOperator: no time
    "#]]
    .assert_eq(&run.history().await);
}
