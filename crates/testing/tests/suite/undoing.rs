//! Nothing is undone while attempts of the run still work: they may use what would be taken away,
//! or take effect after it was looked for.

use std::fmt::Debug;
use std::time::Duration;

use expect_test::{Expect, expect};
use resurgam::prelude::*;
use resurgam::{Compensation, Kind, Outcome, Status, Workflow};
use resurgam_testing::{Crash, TestApp, TestBuilder, TestInstance};
use resurgam_watchdog::test;
use serde::de::DeserializeOwned;

use crate::common::attempts::SECOND;

const HOUR: Duration = Duration::from_secs(3_600);

#[activity]
pub(crate) async fn rent() -> Result<String, Failure> {
    Ok("room 7".to_string())
}

#[activity]
pub(crate) async fn give_back(what: String) -> Result<(), Failure> {
    drop(what);
    Ok(())
}

/// Works on, whether or not anybody still wants it. It cannot be undone.
#[activity]
pub(crate) async fn clean(ctx: ActivityContext, seconds: u32) -> Result<u32, Failure> {
    ctx.sleep(seconds * SECOND).await;
    Ok(seconds)
}

/// Takes five seconds to paint the room, whether or not anybody still wants that.
#[activity(total_timeout = 2 * SECOND)]
async fn paint(ctx: ActivityContext, seconds: u32) -> Result<String, Failure> {
    ctx.sleep(seconds * SECOND).await;
    Ok("paint".to_string())
}

/// Rents a room, begins to clean it, and fails after a second.
#[workflow]
async fn stay(ctx: WorkflowContext, seconds: u32) -> Result<u32, Failure> {
    ctx.call(rent()).compensate_with(|room| give_back(room.clone())).await?;
    let cleaned = ctx.timeout(SECOND, ctx.call(clean(seconds))).await;
    cleaned.map_err(|_| Failure::terminal("it took too long"))?
}

/// Rents a room and waits until it is clean.
#[workflow]
async fn wait(ctx: WorkflowContext, seconds: u32) -> Result<u32, Failure> {
    ctx.call(rent()).compensate_with(|room| give_back(room.clone())).await?;
    ctx.call(clean(seconds)).await
}

#[workflow]
async fn decorate(ctx: WorkflowContext, seconds: u32) -> Result<(), Failure> {
    let painted = ctx.call(paint(seconds)).compensate_with(|room| give_back(room.clone())).await;
    let failure = painted.unwrap_err();
    ctx.set_status(&failure.kind.name());
    Err(failure)
}

fn app() -> TestBuilder {
    let app = TestApp::builder().workflow(stay).workflow(wait).workflow(decorate);
    app.activity(rent).activity(give_back).activity(clean).activity(paint)
}

/// An app in which an instance of this workflow has just begun.
async fn begun<W: Workflow>(workflow: W) -> (TestApp, TestInstance<W::Output>) {
    begun_in(app(), workflow).await
}

/// The same in an app of its own kind.
async fn begun_in<W: Workflow>(
    app: TestBuilder,
    workflow: W,
) -> (TestApp, TestInstance<W::Output>) {
    let app = app.start().await;
    let run = app.start(&format!("{}-1", W::NAME), workflow).await;
    (app, run)
}

/// Waits until an instance has failed, and compares its history.
async fn fails<T: DeserializeOwned + Debug>(run: &TestInstance<T>, history: Expect) {
    run.failure().await;
    history.assert_eq(&run.history().await);
}

#[test]
async fn compensations_begin_when_the_attempts_of_all_other_calls_have_ended() {
    let (_app, run) = begun(stay(5)).await;
    let history = expect![[r#"
        1 +0ms RunStarted stay {"seconds":5}
        2 +0ms ActivityScheduled rent {}
        3 +0ms ActivityCompleted #2 "room 7"
        4 +0ms CompensationRecorded #2 give_back {"what":"room 7"}
        5 +0ms ActivityScheduled clean {"seconds":5}
        6 +0ms TimerStarted until +1s
        7 +1s TimerFired #6
        8 +1s ActivityCancelRequested #5
        9 +5s ActivityCompleted #5 after cancel 5
        10 +5s ActivityScheduled give_back to undo #2 {"what":"room 7"}
        11 +5s ActivityCompleted #10 null
        12 +5s RunFailed (compensation complete) it took too long
    "#]];
    fails(&run, history).await;
}

#[test]
async fn an_attempt_that_does_not_end_is_waited_for_until_its_grace_period_is_over() {
    let patient = app().options(|options| options.grace = 3 * SECOND);
    let (app, run) = begun_in(patient, stay(3_600)).await;
    let history = expect![[r#"
        1 +0ms RunStarted stay {"seconds":3600}
        2 +0ms ActivityScheduled rent {}
        3 +0ms ActivityCompleted #2 "room 7"
        4 +0ms CompensationRecorded #2 give_back {"what":"room 7"}
        5 +0ms ActivityScheduled clean {"seconds":3600}
        6 +0ms TimerStarted until +1s
        7 +1s TimerFired #6
        8 +1s ActivityCancelRequested #5
          +4s clean#5 attempt 1 failed: cancelled: it was told to end and did not within 3s
        9 +4s ActivityFailed #5 cancelled: cancelled: it was told to end and did not within 3s
        10 +4s ActivityScheduled give_back to undo #2 {"what":"room 7"}
        11 +4s ActivityCompleted #10 null
        12 +4s RunFailed (compensation complete) it took too long
    "#]];
    fails(&run, history).await;
    app.advance(2 * HOUR).await;
    assert_eq!(app.describe("stay-1").await.pending, []);
}

#[test]
async fn a_cancelled_run_waits_for_its_attempts_too_before_it_undoes_anything() {
    let (app, run) = begun(wait(5)).await;
    app.advance(SECOND).await;
    run.cancel("enough").await.unwrap();
    assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
    expect![[r#"
        1 +0ms RunStarted wait {"seconds":5}
        2 +0ms ActivityScheduled rent {}
        3 +0ms ActivityCompleted #2 "room 7"
        4 +0ms CompensationRecorded #2 give_back {"what":"room 7"}
        5 +0ms ActivityScheduled clean {"seconds":5}
        6 +1s CancelRequested enough
        7 +1s ActivityCancelRequested #5
        8 +5s ActivityCompleted #5 after cancel 5
        9 +5s ActivityScheduled give_back to undo #2 {"what":"room 7"}
        10 +5s ActivityCompleted #9 null
        11 +5s RunCancelled (compensation complete) Cancelled: enough
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn calls_that_are_open_when_the_time_of_a_run_is_up_are_waited_for() {
    let app = app().start().await;
    let run = app.start_with("wait-1", wait(5), |start| start.run_timeout(SECOND)).await;
    let history = expect![[r#"
        1 +0ms RunStarted wait {"seconds":5}
        2 +0ms ActivityScheduled rent {}
        3 +0ms ActivityCompleted #2 "room 7"
        4 +0ms CompensationRecorded #2 give_back {"what":"room 7"}
        5 +0ms ActivityScheduled clean {"seconds":5}
        6 +1s RunTimedOut run
        7 +1s ActivityCancelRequested #5
        8 +5s ActivityCompleted #5 after cancel 5
        9 +5s ActivityScheduled give_back to undo #2 {"what":"room 7"}
        10 +5s ActivityCompleted #9 null
        11 +5s RunFailed (compensation complete) RunTimeout: the run was not done in time, after 1s
    "#]];
    fails(&run, history).await;
}

#[test]
async fn an_attempt_that_died_with_its_process_is_not_waited_for() {
    let (app, run) = begun(stay(5)).await;
    app.advance(2 * SECOND).await;
    assert_eq!(app.attempts(give_back), 0);
    app.restart().await;
    let history = expect![[r#"
        1 +0ms RunStarted stay {"seconds":5}
        2 +0ms ActivityScheduled rent {}
        3 +0ms ActivityCompleted #2 "room 7"
        4 +0ms CompensationRecorded #2 give_back {"what":"room 7"}
        5 +0ms ActivityScheduled clean {"seconds":5}
        6 +0ms TimerStarted until +1s
        7 +1s TimerFired #6
        8 +1s ActivityCancelRequested #5
          +2s clean#5 attempt 1 lost: worker_lost: the process that ran it died
        9 +2s ActivityFailed #5 cancelled: worker_lost: the process that ran it died
        10 +2s ActivityScheduled give_back to undo #2 {"what":"room 7"}
        11 +2s ActivityCompleted #10 null
        12 +2s RunFailed (compensation complete) it took too long
    "#]];
    fails(&run, history).await;
}

#[test]
async fn a_crash_at_any_commit_changes_nothing_about_what_is_undone() {
    for commit in 1..12 {
        for crash in [Crash::BeforeCommit(commit), Crash::AfterCommit(commit)] {
            let app = app().start().await;
            app.faults().crash(crash);
            app.start("stay-1", stay(5)).await.failure().await;
            let row = app.describe("stay-1").await.instance;
            let ended = (row.status, row.compensation);
            assert_eq!(ended, (Status::Failed, Some(Compensation::Complete)), "{crash:?}");
            assert!(app.attempts(give_back) >= 1, "{crash:?}");
        }
    }
}

#[test]
async fn a_run_with_nothing_to_undo_does_not_wait() {
    #[workflow]
    async fn leave(ctx: WorkflowContext) -> Result<u32, Failure> {
        let cleaned = ctx.timeout(SECOND, ctx.call(clean(5))).await;
        cleaned.map_err(|_| Failure::terminal("it took too long"))?
    }
    let (_app, run) = begun_in(app().workflow(leave), leave()).await;
    let history = expect![[r#"
        1 +0ms RunStarted leave {}
        2 +0ms ActivityScheduled clean {"seconds":5}
        3 +0ms TimerStarted until +1s
        4 +1s TimerFired #3
        5 +1s ActivityCancelled #2
        6 +1s RunFailed it took too long
    "#]];
    fails(&run, history).await;
}

// A call whose total timeout cuts its attempt.

#[test]
async fn what_an_attempt_returns_after_the_total_timeout_of_its_call_is_recorded_and_undone() {
    let (app, run) = begun(decorate(5)).await;
    app.advance(2 * SECOND).await;
    // The workflow hears of it at once.
    let status: Option<String> = app.client().status("decorate-1").await.unwrap();
    assert_eq!(status.as_deref(), Some("total_timeout"));
    assert_eq!(run.failure().await.kind, Kind::TotalTimeout);
    expect![[r#"
        1 +0ms RunStarted decorate {"seconds":5}
        2 +0ms ActivityScheduled paint {"seconds":5}
          +2s paint#2 attempt 1 failed: total_timeout: not done within 2s
        3 +2s ActivityFailed #2 total_timeout: total_timeout: not done within 2s
        4 +2s StatusSet "total_timeout"
        5 +5s ActivityCompleted #2 after cancel "paint"
        6 +5s CompensationRecorded #2 give_back {"what":"paint"}
        7 +5s ActivityScheduled give_back to undo #2 {"what":"paint"}
        8 +5s ActivityCompleted #7 null
        9 +5s RunFailed (compensation complete) total_timeout: not done within 2s
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn an_attempt_that_outlives_its_grace_period_too_took_no_effect_that_is_known() {
    let (app, run) = begun(decorate(13)).await;
    let history = expect![[r#"
        1 +0ms RunStarted decorate {"seconds":13}
        2 +0ms ActivityScheduled paint {"seconds":13}
          +2s paint#2 attempt 1 failed: total_timeout: not done within 2s
        3 +2s ActivityFailed #2 total_timeout: total_timeout: not done within 2s
        4 +2s StatusSet "total_timeout"
        5 +12s ActivityFailed #2 cancelled: cancelled: it was told to end and did not within 10s
        6 +12s RunFailed total_timeout: not done within 2s
    "#]];
    fails(&run, history).await;
    assert_eq!(app.attempts(give_back), 0);
}

#[test]
async fn a_crash_while_a_call_settles_after_its_total_timeout_loses_its_attempt() {
    let (app, run) = begun(decorate(5)).await;
    app.advance(3 * SECOND).await;
    app.restart().await;
    let history = expect![[r#"
        1 +0ms RunStarted decorate {"seconds":5}
        2 +0ms ActivityScheduled paint {"seconds":5}
          +2s paint#2 attempt 1 failed: total_timeout: not done within 2s
        3 +2s ActivityFailed #2 total_timeout: total_timeout: not done within 2s
        4 +2s StatusSet "total_timeout"
        5 +3s ActivityFailed #2 cancelled: worker_lost: the process that ran it died
        6 +3s RunFailed total_timeout: not done within 2s
    "#]];
    fails(&run, history).await;
    assert_eq!((app.attempts(paint), app.attempts(give_back)), (1, 0));
}

#[test]
async fn a_late_value_of_a_run_that_completes_is_not_undone() {
    #[workflow]
    async fn cope(ctx: WorkflowContext) -> Result<(), Failure> {
        let late = ctx.call(paint(5)).compensate_with(|room| give_back(room.clone())).await;
        assert!(late.is_err());
        ctx.sleep(HOUR).await
    }
    let (app, run) = begun_in(app().workflow(cope), cope()).await;
    run.result().await.unwrap();
    expect![[r#"
        1 +0ms RunStarted cope {}
        2 +0ms ActivityScheduled paint {"seconds":5}
          +2s paint#2 attempt 1 failed: total_timeout: not done within 2s
        3 +2s ActivityFailed #2 total_timeout: total_timeout: not done within 2s
        4 +2s TimerStarted until +1h
        5 +5s ActivityCompleted #2 after cancel "paint"
        6 +5s CompensationRecorded #2 give_back {"what":"paint"}
        7 +1h TimerFired #4
        8 +1h RunCompleted null
    "#]]
    .assert_eq(&run.history().await);
    assert_eq!(app.attempts(give_back), 0);
}
