//! Runs that operators pause and resume, with a crash before and after every commit.

use std::time::Duration;

use expect_test::{Expect, expect};
use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam::{Act, Outcome, RunHandle, Start, Status};
use resurgam_testing::TestApp;
use resurgam_watchdog::test;

use crate::common::crashes;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

#[activity(retry = RetryPolicy::fixed(MINUTE).max_attempts(20).jitter(Jitter::None))]
async fn charge(cents: u32) -> Result<u32, Failure> {
    Ok(cents)
}

#[activity]
async fn note(what: String) -> Result<String, Failure> {
    Ok(what)
}

/// Waits for a signal, and then for a timer.
#[workflow]
async fn visit(ctx: WorkflowContext) -> Result<String, Failure> {
    let name: String = ctx.signal("name").await?;
    ctx.sleep(10 * MINUTE).await?;
    ctx.call(note(name)).await
}

/// Has a call that fails ten times, a minute apart.
#[workflow]
async fn order(ctx: WorkflowContext, cents: u32) -> Result<u32, Failure> {
    let paid = ctx.call(charge(cents)).await?;
    ctx.call(note("paid".to_string())).await?;
    Ok(paid)
}

/// Undoes what it did when it is cancelled.
#[workflow]
async fn booking(ctx: WorkflowContext) -> Result<u32, Failure> {
    let seat = ctx.call(charge(7)).compensate_with(|_| note("given back".to_string())).await?;
    ctx.signal::<()>("board").await?;
    Ok(seat)
}

async fn app() -> TestApp {
    TestApp::builder()
        .workflow(visit)
        .workflow(order)
        .workflow(booking)
        .activity(note)
        .stub(charge, |call, attempt| match (call.cents, attempt) {
            (700, 1..=10) => Err(Failure::of_type("BankDown", "no answer")),
            (cents, _) => Ok(cents),
        })
        .start()
        .await
}

/// Compares a history, and that it is the same after a crash at any commit.
async fn check(play: impl AsyncFn(&TestApp) -> String, expected: Expect) {
    let app = app().await;
    let story = play(&app).await;
    expected.assert_eq(&story);
    for crash in crashes(app.commits()) {
        let app = self::app().await;
        app.faults().crash(crash);
        let crashed = play(&app).await;
        // An attempt that was lost with the process shifts what follows.
        if !crashed.contains(" lost: ") {
            assert_eq!(crashed, story, "{crash:?}");
        }
        let asked = crashed.matches("operator ana: paused it").count();
        assert!(asked <= 1, "{crash:?}: an action is carried out once\n{crashed}");
    }
}

async fn act(app: &TestApp, act: impl Fn(&RunHandle) -> Act) -> String {
    let acted = app.act_on_run("it", |run| act(run).by("ana").reason("ticket 17")).await;
    acted.unwrap().to_string()
}

async fn status(app: &TestApp) -> Status {
    app.client().find("it").await.unwrap().unwrap().status
}

#[test]
async fn a_paused_run_keeps_its_messages_until_it_is_resumed() {
    let play = async |app: &TestApp| {
        app.start("it", visit()).await;
        app.advance(MINUTE).await;
        assert_eq!(act(app, |run| run.pause()).await, "paused it");
        app.signal("it", "name", &"ada").await.unwrap();
        app.advance(HOUR).await;
        assert_eq!(status(app).await, Status::Paused);
        let row = app.client().find("it").await.unwrap().unwrap();
        let pause = (row.pause.by.as_deref(), row.pause.reason.as_deref());
        assert_eq!(pause, (Some("ana"), Some("ticket 17")));
        assert_eq!(act(app, |run| run.resume()).await, "resumed it after 1h");
        app.advance(HOUR).await;
        app.history("it").await
    };
    check(
        play,
        expect![[r#"
        1 +0ms RunStarted visit {}
          +1m operator ana: paused it ("ticket 17")
          +1h 1m operator ana: resumed it after 1h ("ticket 17")
        2 +1h 1m SignalReceived name "ada"
        3 +1h 1m TimerStarted until +1h 11m
        4 +1h 11m TimerFired #3
        5 +1h 11m ActivityScheduled note {"what":"ada"}
        6 +1h 11m ActivityCompleted #5 "ada"
        7 +1h 11m RunCompleted "ada"
    "#]],
    )
    .await;
}

#[test]
async fn a_timer_that_fired_meanwhile_is_taken_when_the_run_goes_on() {
    let play = async |app: &TestApp| {
        app.start("it", visit()).await;
        app.signal("it", "name", &"ada").await.unwrap();
        app.advance(MINUTE).await;
        act(app, |run| run.pause()).await;
        app.advance(HOUR).await;
        act(app, |run| run.resume()).await;
        app.advance(SECOND).await;
        app.history("it").await
    };
    check(
        play,
        expect![[r#"
        1 +0ms RunStarted visit {}
        2 +0ms SignalReceived name "ada"
        3 +0ms TimerStarted until +10m
          +1m operator ana: paused it ("ticket 17")
          +1h 1m operator ana: resumed it after 1h ("ticket 17")
        4 +1h 1m TimerFired #3
        5 +1h 1m ActivityScheduled note {"what":"ada"}
        6 +1h 1m ActivityCompleted #5 "ada"
        7 +1h 1m RunCompleted "ada"
    "#]],
    )
    .await;
}

#[test(minutes = 15)]
async fn the_calls_of_a_paused_run_go_on() {
    let play = async |app: &TestApp| {
        app.start("it", order(700)).await;
        app.advance(8 * MINUTE + 30 * SECOND).await;
        act(app, |run| run.pause()).await;
        app.advance(HOUR).await;
        assert_eq!(status(app).await, Status::Paused);
        act(app, |run| run.resume()).await;
        app.advance(SECOND).await;
        let story = app.history("it").await;
        let lines = story.lines().filter(|line| !line.contains("BankDown"));
        lines.map(|line| format!("{line}\n")).collect()
    };
    check(
        play,
        expect![[r#"
        1 +0ms RunStarted order {"cents":700}
        2 +0ms ActivityScheduled charge {"cents":700}
          +8m 30s operator ana: paused it ("ticket 17")
          +1h 8m operator ana: resumed it after 1h ("ticket 17")
        3 +1h 8m ActivityCompleted #2 (attempt 11) 700
        4 +1h 8m ActivityScheduled note {"what":"paid"}
        5 +1h 8m ActivityCompleted #4 "paid"
        6 +1h 8m RunCompleted 700
    "#]],
    )
    .await;
}

#[test(minutes = 15)]
async fn calls_that_are_paused_with_their_run_go_on_with_it() {
    let play = async |app: &TestApp| {
        app.start("it", order(700)).await;
        app.advance(90 * SECOND).await;
        let paused = act(app, |run| run.pause().calls()).await;
        assert_eq!(paused, "paused it and its open call");
        app.advance(HOUR).await;
        let call = app.client().describe("it").await.unwrap().unwrap().pending.remove(0);
        let pause = call.paused.expect("it is paused");
        assert_eq!((pause.by.as_deref(), pause.with_run), (Some("ana"), true));
        act(app, |run| run.resume()).await;
        app.advance(HOUR).await;
        app.history("it").await
    };
    check(
        play,
        expect![[r#"
        1 +0ms RunStarted order {"cents":700}
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: no answer; again in 1m
          +1m charge#2 attempt 2 failed: BankDown: no answer; again in 1m
          +1m 30s operator ana: paused it and its open call ("ticket 17")
          +1m 30s operator ana: paused charge#2 (attempt 3 is due in 30s) ("ticket 17")
          +1h 1m operator ana: resumed it after 1h ("ticket 17")
          +1h 1m operator ana: resumed charge#2 (attempt 3 is due now) ("ticket 17")
          +1h 1m charge#2 attempt 3 failed: BankDown: no answer; again in 1m
          +1h 2m charge#2 attempt 4 failed: BankDown: no answer; again in 1m
          +1h 3m charge#2 attempt 5 failed: BankDown: no answer; again in 1m
          +1h 4m charge#2 attempt 6 failed: BankDown: no answer; again in 1m
          +1h 5m charge#2 attempt 7 failed: BankDown: no answer; again in 1m
          +1h 6m charge#2 attempt 8 failed: BankDown: no answer; again in 1m
          +1h 7m charge#2 attempt 9 failed: BankDown: no answer; again in 1m
          +1h 8m charge#2 attempt 10 failed: BankDown: no answer; again in 1m
        3 +1h 9m ActivityCompleted #2 (attempt 11) 700
        4 +1h 9m ActivityScheduled note {"what":"paid"}
        5 +1h 9m ActivityCompleted #4 "paid"
        6 +1h 9m RunCompleted 700
    "#]],
    )
    .await;
}

#[test]
async fn a_call_that_was_paused_by_hand_stays_paused_when_its_run_is_resumed() {
    let app = app().await;
    app.start("it", order(700)).await;
    app.advance(90 * SECOND).await;
    app.act("it", "charge", |call| call.pause().by("bob")).await.unwrap();
    assert_eq!(act(&app, |run| run.pause().calls()).await, "paused it");
    // Calls of a paused run are acted on like others.
    app.act("it", "charge", |call| call.resume()).await.unwrap();
    app.act("it", "charge", |call| call.pause().by("bob")).await.unwrap();
    assert!(act(&app, |run| run.resume()).await.starts_with("resumed it"));
    app.advance(HOUR).await;
    let call = app.client().describe("it").await.unwrap().unwrap().pending.remove(0);
    assert_eq!(call.paused.and_then(|pause| pause.by).as_deref(), Some("bob"));
}

#[test]
async fn a_call_of_a_paused_run_can_be_completed() {
    let play = async |app: &TestApp| {
        app.start("it", order(700)).await;
        app.advance(90 * SECOND).await;
        act(app, |run| run.pause().calls()).await;
        app.advance(MINUTE).await;
        let done = app.act("it", "charge", |call| call.complete(&1).by("bob")).await.unwrap();
        assert_eq!(done.to_string(), "completed charge#2");
        app.advance(MINUTE).await;
        act(app, |run| run.resume()).await;
        app.advance(HOUR).await;
        app.history("it").await
    };
    check(
        play,
        expect![[r#"
        1 +0ms RunStarted order {"cents":700}
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: no answer; again in 1m
          +1m charge#2 attempt 2 failed: BankDown: no answer; again in 1m
          +1m 30s operator ana: paused it and its open call ("ticket 17")
          +1m 30s operator ana: paused charge#2 (attempt 3 is due in 30s) ("ticket 17")
          +2m 30s operator bob: completed charge#2
          +3m 30s operator ana: resumed it after 2m ("ticket 17")
        3 +3m 30s ActivityCompleted #2 (attempt 2) 1
        4 +3m 30s ActivityScheduled note {"what":"paid"}
        5 +3m 30s ActivityCompleted #4 "paid"
        6 +3m 30s RunCompleted 1
    "#]],
    )
    .await;
}

#[test]
async fn cancelling_a_paused_run_resumes_it_first() {
    let play = async |app: &TestApp| {
        app.start("it", booking()).await;
        app.advance(MINUTE).await;
        act(app, |run| run.pause()).await;
        app.advance(MINUTE).await;
        // The answer to an earlier wish may have been lost in a crash.
        let _closed_already = app.cancel("it", "ordered twice").await;
        app.advance(HOUR).await;
        assert_eq!(status(app).await, Status::Cancelled);
        app.history("it").await
    };
    check(
        play,
        expect![[r#"
        1 +0ms RunStarted booking {}
        2 +0ms ActivityScheduled charge {"cents":7}
        3 +0ms ActivityCompleted #2 7
        4 +0ms CompensationRecorded #2 note {"what":"given back"}
          +1m operator ana: paused it ("ticket 17")
        5 +2m CancelRequested ordered twice
        6 +2m ActivityScheduled note to undo #2 {"what":"given back"}
        7 +2m ActivityCompleted #6 "given back"
        8 +2m RunCancelled (compensation complete) Cancelled: ordered twice
    "#]],
    )
    .await;
}

#[test]
async fn a_paused_run_can_be_terminated() {
    let play = async |app: &TestApp| {
        let run = app.start("it", booking()).await;
        app.advance(MINUTE).await;
        act(app, |run| run.pause()).await;
        app.advance(MINUTE).await;
        // The answer to an earlier wish may have been lost in a crash.
        let _closed_already = app.terminate("it", "enough").await;
        assert!(matches!(run.outcome().await, Outcome::Terminated(_)));
        app.history("it").await
    };
    check(
        play,
        expect![[r#"
        1 +0ms RunStarted booking {}
        2 +0ms ActivityScheduled charge {"cents":7}
        3 +0ms ActivityCompleted #2 7
        4 +0ms CompensationRecorded #2 note {"what":"given back"}
          +1m operator ana: paused it ("ticket 17")
        5 +2m TerminateRequested enough
        6 +2m RunCancelled (compensation incomplete) Terminated: enough
    "#]],
    )
    .await;
}

#[test]
async fn the_timeouts_of_a_paused_run_stand_still() {
    let play = async |app: &TestApp| {
        let options = |start: Start<String>| start.run_timeout(HOUR).total_timeout(2 * HOUR);
        app.start_with("it", visit(), options).await;
        app.advance(59 * MINUTE).await;
        act(app, |run| run.pause()).await;
        app.advance(24 * HOUR).await;
        assert_eq!(status(app).await, Status::Paused);
        act(app, |run| run.resume()).await;
        app.advance(30 * SECOND).await;
        assert_eq!(status(app).await, Status::Running);
        app.advance(31 * SECOND).await;
        app.history("it").await
    };
    check(
        play,
        expect![[r#"
        1 +0ms RunStarted visit {}
          +59m operator ana: paused it ("ticket 17")
          +1d operator ana: resumed it after 1d ("ticket 17")
        2 +1d 1h RunTimedOut run
        3 +1d 1h RunFailed RunTimeout: the run was not done in time, after 1d 1h
    "#]],
    )
    .await;
}

#[test]
async fn what_cannot_be_paused_or_resumed_says_why() {
    let app = app().await;
    let run = app.start("it", visit()).await;
    assert_eq!(act(&app, |run| run.resume()).await, "it is running; nothing to resume");
    act(&app, |run| run.pause()).await;
    assert_eq!(act(&app, |run| run.pause()).await, "it is paused; it stays so");
    app.signal("it", "name", &"ada").await.unwrap();
    act(&app, |run| run.resume()).await;
    assert_eq!(run.result().await.unwrap(), "ada");
    assert_eq!(act(&app, |run| run.pause()).await, "it is completed; nothing to pause");
    assert_eq!(act(&app, |run| run.resume()).await, "it is completed; nothing to resume");
    let unknown = app.act_on_run("nobody", |run| run.pause()).await.unwrap_err();
    assert!(unknown.to_string().contains("pause nobody"), "{unknown}");
    let wrong = app.act_on_run("it", |run| run.resume().calls()).await.unwrap_err();
    assert!(wrong.to_string().contains("calls are paused with a run"), "{wrong}");
}

#[test]
async fn a_request_that_is_repeated_pauses_once() {
    let app = app().await;
    app.start("it", visit()).await;
    let pause = || app.client().run("it").pause().request_id("ticket-17");
    let first = pause().await.unwrap();
    act(&app, |run| run.resume()).await;
    assert_eq!(pause().await.unwrap(), first);
    assert_eq!(status(&app).await, Status::Running);
}

#[test]
async fn a_run_is_paused_before_its_first_turn() {
    let play = async |app: &TestApp| {
        app.start_with("it", order(7), |start| start.delay(HOUR)).await;
        app.advance(MINUTE).await;
        act(app, |run| run.pause()).await;
        app.advance(24 * HOUR).await;
        act(app, |run| run.resume()).await;
        app.advance(HOUR).await;
        app.history("it").await
    };
    check(
        play,
        expect![[r#"
        1 +0ms RunStarted order {"cents":7}, first turn at +1h
          +1m operator ana: paused it ("ticket 17")
          +1d operator ana: resumed it after 1d ("ticket 17")
        2 +1d TimerFired #1
        3 +1d ActivityScheduled charge {"cents":7}
        4 +1d ActivityCompleted #3 7
        5 +1d ActivityScheduled note {"what":"paid"}
        6 +1d ActivityCompleted #5 "paid"
        7 +1d RunCompleted 7
    "#]],
    )
    .await;
}
