//! Cancelling: of a call, of a run, and ending one at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam::{AttemptOutcome, Kind, Outcome, Status};
use resurgam_testing::{Crash, StoreCall, TestApp, TestBuilder};
use resurgam_watchdog::test;

use crate::common::attempts::{Log, SECOND, log, logging};

const HOUR: Duration = Duration::from_secs(3_600);

/// Reserves something, in ten seconds, and does not listen.
#[activity]
async fn reserve(ctx: ActivityContext) -> Result<u32, Failure> {
    ctx.sleep(10 * SECOND).await;
    Ok(7)
}

/// The same, but it stops when it is told to.
#[activity]
async fn reserve_politely(ctx: ActivityContext) -> Result<u32, Failure> {
    ctx.cancelled().await;
    ctx.state::<AtomicU32>().fetch_add(1, Ordering::Relaxed);
    Err(Failure::new("told to stop"))
}

#[activity]
async fn release(hold: u32) -> Result<(), Failure> {
    let _anything_will_do = hold;
    Ok(())
}

#[activity]
async fn note(text: String) -> Result<String, Failure> {
    Ok(text)
}

#[workflow]
async fn hold(ctx: WorkflowContext, polite: bool) -> Result<u32, Failure> {
    match polite {
        true => ctx.call(reserve_politely()).compensate_with(|hold| release(*hold)).await,
        false => ctx.call(reserve()).compensate_with(|hold| release(*hold)).await,
    }
}

fn app() -> TestBuilder {
    TestApp::builder()
        .workflow(hold)
        .activity(reserve)
        .activity(reserve_politely)
        .activity(release)
        .activity(note)
        .state(AtomicU32::new(0))
}

// A call that can be undone.

#[test]
async fn an_attempt_that_returns_ok_although_cancelled_is_recorded_and_compensated() {
    let app = app().start().await;
    let run = app.start("hold-1", hold(false)).await;
    app.advance(SECOND).await;
    run.cancel("enough").await.unwrap();
    assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
    expect![[r#"
        1 +0ms RunStarted hold {"polite":false}
        2 +0ms ActivityScheduled reserve {}
        3 +1s CancelRequested enough
        4 +1s ActivityCancelRequested #2
        5 +10s ActivityCompleted #2 after cancel 7
        6 +10s CompensationRecorded #2 release {"hold":7}
        7 +10s ActivityScheduled release to undo #2 {"hold":7}
        8 +10s ActivityCompleted #7 null
        9 +10s RunCancelled (compensation complete) Cancelled: enough
    "#]]
    .assert_eq(&run.history().await);
    assert_eq!(app.attempts(release), 1);
}

#[test]
async fn a_running_attempt_is_told_and_its_call_settles_when_it_ends() {
    let app = app().start().await;
    let run = app.start("hold-1", hold(true)).await;
    app.advance(SECOND).await;
    run.cancel("enough").await.unwrap();
    assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
    expect![[r#"
        1 +0ms RunStarted hold {"polite":true}
        2 +0ms ActivityScheduled reserve_politely {}
          +1s reserve_politely#2 attempt 1 failed: told to stop
        3 +1s CancelRequested enough
        4 +1s ActivityCancelRequested #2
        5 +1s ActivityFailed #2 cancelled: told to stop
        6 +1s RunCancelled Cancelled: enough
    "#]]
    .assert_eq(&run.history().await);
    // Not a failure, and never retried.
    assert_eq!((app.attempts(reserve_politely), app.attempts(release)), (1, 0));
}

#[test]
async fn an_attempt_that_is_lost_settles_its_call() {
    let app = app().start().await;
    let run = app.start("hold-1", hold(false)).await;
    app.advance(SECOND).await;
    run.cancel("enough").await.unwrap();
    app.advance(SECOND).await;
    app.restart().await;
    assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
    expect![[r#"
        1 +0ms RunStarted hold {"polite":false}
        2 +0ms ActivityScheduled reserve {}
        3 +1s CancelRequested enough
        4 +1s ActivityCancelRequested #2
          +2s reserve#2 attempt 1 lost: worker_lost: the process that ran it died
        5 +2s ActivityFailed #2 cancelled: worker_lost: the process that ran it died
        6 +2s RunCancelled Cancelled: enough
    "#]]
    .assert_eq(&run.history().await);
    let ledger = app.ledger("hold-1").await;
    assert_eq!(ledger.iter().map(|row| row.outcome).collect::<Vec<_>>(), [AttemptOutcome::Lost]);
    assert_eq!((app.attempts(reserve), app.attempts(release)), (1, 0));
}

#[test]
async fn an_attempt_that_died_settles_its_call_when_that_is_known_and_not_before() {
    for crash in [None, Some(Crash::BeforeCommit(3)), Some(Crash::AfterCommit(3))] {
        let app = app().start().await;
        let run = app.start("hold-1", hold(false)).await;
        app.advance(SECOND).await;
        // The next process cannot read yet what the one before left behind.
        app.faults().refuse(StoreCall::Abandoned, 3);
        crash.into_iter().for_each(|crash| app.faults().crash(crash));
        app.restart().await;
        run.cancel("enough").await.unwrap();
        assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
        let ledger = app.ledger("hold-1").await;
        let outcomes: Vec<_> = ledger.iter().map(|row| row.outcome).collect();
        assert_eq!(outcomes, [AttemptOutcome::Lost], "{crash:?}");
        assert_eq!((app.attempts(reserve), app.attempts(release)), (1, 0), "{crash:?}");
    }
}

#[test]
async fn a_call_that_waits_for_its_next_attempt_is_closed_at_once() {
    #[activity(retry = RetryPolicy::fixed(HOUR).jitter(Jitter::None))]
    async fn hopeless() -> Result<u32, Failure> {
        Err(Failure::new("down"))
    }
    #[workflow]
    async fn hope(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(hopeless()).compensate_with(|hold| release(*hold)).await
    }
    async fn told(restart: bool) -> String {
        let app = app().workflow(hope).activity(hopeless).start().await;
        let run = app.start("hope-1", hope()).await;
        app.advance(HOUR / 2).await;
        if restart {
            app.restart().await;
        }
        run.cancel("enough").await.unwrap();
        assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
        assert_eq!((app.now(), app.attempts(hopeless)), (app.now(), 1));
        run.history().await
    }
    expect![[r#"
        1 +0ms RunStarted hope {}
        2 +0ms ActivityScheduled hopeless {}
          +0ms hopeless#2 attempt 1 failed: down; again in 1h
        3 +30m CancelRequested enough
        4 +30m ActivityCancelRequested #2
        5 +30m ActivityFailed #2 cancelled: cancelled: the workflow gave it up
        6 +30m RunCancelled Cancelled: enough
    "#]]
    .assert_eq(&told(false).await);
    assert_eq!(told(true).await.lines().count(), told(false).await.lines().count());
}

#[test]
async fn a_call_that_was_given_up_before_it_could_begin_never_begins() {
    #[workflow]
    async fn queue_up(ctx: WorkflowContext) -> Result<u32, Failure> {
        let calls = (0..3).map(|_| ctx.call(reserve()).compensate_with(|hold| release(*hold)));
        let all = ctx.timeout(SECOND, ctx.join_all(calls)).await;
        all.map_err(Failure::from)?.map(|holds| holds.iter().sum())
    }
    let app = app().workflow(queue_up).options(|options| options.slots = 1).start().await;
    let run = app.start("queue-1", queue_up()).await;
    run.failure().await;
    expect![[r#"
        1 +0ms RunStarted queue_up {}
        2 +0ms ActivityScheduled reserve {}
        3 +0ms ActivityScheduled reserve {}
        4 +0ms ActivityScheduled reserve {}
        5 +0ms TimerStarted until +1s
        6 +1s TimerFired #5
        7 +1s ActivityCancelRequested #2
        8 +1s ActivityCancelRequested #3
        9 +1s ActivityCancelRequested #4
        10 +1s ActivityFailed #3 cancelled: cancelled: the workflow gave it up
        11 +1s ActivityFailed #4 cancelled: cancelled: the workflow gave it up
        12 +10s ActivityCompleted #2 after cancel 7
        13 +10s CompensationRecorded #2 release {"hold":7}
        14 +10s ActivityScheduled release to undo #2 {"hold":7}
        15 +10s ActivityCompleted #14 null
        16 +10s RunFailed (compensation complete) Elapsed: not done within 1s
    "#]]
    .assert_eq(&run.history().await);
    assert_eq!(app.attempts(reserve), 1);
}

// A call that cannot be undone.

#[test]
async fn a_call_without_compensation_is_given_up_at_once_and_its_late_result_changes_nothing() {
    #[workflow]
    async fn wait(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(reserve()).await
    }
    let app = app().workflow(wait).start().await;
    let run = app.start("wait-1", wait()).await;
    app.advance(SECOND).await;
    run.cancel("enough").await.unwrap();
    assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
    let history = run.history().await;
    expect![[r#"
        1 +0ms RunStarted wait {}
        2 +0ms ActivityScheduled reserve {}
        3 +1s CancelRequested enough
        4 +1s ActivityCancelled #2
        5 +1s RunCancelled Cancelled: enough
    "#]]
    .assert_eq(&history);
    app.advance(HOUR).await;
    assert_eq!(run.history().await, history);
    assert_eq!(app.describe("wait-1").await.pending, []);
}

#[test]
async fn an_attempt_whose_call_was_given_up_is_told_and_dropped_after_the_grace_period() {
    /// Says when it is dropped.
    struct Dropped(Arc<Log>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.add("gone");
        }
    }
    #[activity]
    async fn deaf(ctx: ActivityContext) -> Result<(), Failure> {
        let _dropped = Dropped(log(&ctx));
        ctx.cancelled().await;
        log(&ctx).add("told");
        ctx.sleep(HOUR).await;
        Ok(())
    }
    #[workflow]
    async fn give_up(ctx: WorkflowContext) -> Result<(), Failure> {
        let _late = ctx.timeout(SECOND, ctx.call(deaf())).await;
        ctx.sleep(HOUR).await
    }
    let (app, log) = logging();
    let app = app.workflow(give_up).activity(deaf).options(|options| options.grace = 3 * SECOND);
    let app = app.start().await;
    app.start("give-up-1", give_up()).await;
    app.advance(Duration::from_millis(3_999)).await;
    assert_eq!(log.text(), "told");
    app.advance(Duration::from_millis(1)).await;
    assert_eq!(log.text(), "told\ngone");
}

#[test]
async fn a_call_that_can_be_undone_is_waited_for_longer_than_the_grace_period() {
    let app = app().options(|options| options.grace = SECOND).start().await;
    let run = app.start("hold-1", hold(false)).await;
    app.advance(SECOND).await;
    run.cancel("enough").await.unwrap();
    app.advance(8 * SECOND).await;
    assert_eq!(app.describe("hold-1").await.instance.status, Status::Running);
    assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
    assert!(run.history().await.contains("+10s ActivityCompleted #2 after cancel 7\n"));
}

// A run.

#[test]
async fn every_open_wait_ends_once_and_later_ones_at_once() {
    #[workflow]
    async fn insist(ctx: WorkflowContext) -> Result<(), Failure> {
        let mut said = Vec::new();
        for _ in 0..2 {
            said.push(ctx.sleep(HOUR).await.unwrap_err());
            said.push(ctx.signal::<()>("never").await.unwrap_err());
            said.push(ctx.call(reserve()).await.unwrap_err());
            said.push(ctx.child(hold(false)).await.unwrap_err());
        }
        assert!(said.iter().all(|failure| failure.kind == Kind::Cancelled), "{said:?}");
        assert_eq!(ctx.cancelled().unwrap(), said[0]);
        Err(said.remove(0))
    }
    let app = app().workflow(insist).start().await;
    let run = app.start("insist-1", insist()).await;
    // Also one that is there already is not read any more.
    run.signal("never", &()).await.unwrap();
    run.cancel("enough").await.unwrap();
    assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
    expect![[r#"
        1 +0ms RunStarted insist {}
        2 +0ms TimerStarted until +1h
        3 +0ms CancelRequested enough
        4 +0ms TimerCancelled #2
        5 +0ms RunCancelled Cancelled: enough
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn what_is_awaited_through_a_shield_goes_on() {
    #[workflow]
    async fn clean_up(ctx: WorkflowContext) -> Result<String, Failure> {
        let failure = ctx.sleep(HOUR).await.unwrap_err();
        let shielded = ctx.shielded();
        shielded.sleep(SECOND).await?;
        let word: String = shielded.signal("word").await?;
        let noted = shielded.call(note(word)).await?;
        shielded.child(echo(noted.clone())).await?;
        // A time that is shielded or not bounds what is shielded.
        let late = ctx.timeout(SECOND, shielded.call(reserve())).await;
        ctx.set_status(&format!("{noted}, {}", late.is_err()));
        Err(failure)
    }
    #[workflow]
    async fn echo(_ctx: WorkflowContext, text: String) -> Result<String, Failure> {
        Ok(text)
    }
    let app = app().workflow(clean_up).workflow(echo).start().await;
    let run = app.start("clean-1", clean_up()).await;
    run.cancel("enough").await.unwrap();
    app.advance(SECOND / 2).await;
    app.restart().await;
    run.signal("word", &"bye").await.unwrap();
    assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
    assert_eq!(app.client().status::<String>("clean-1").await.unwrap().unwrap(), "bye, true");
    expect![[r#"
        1 +0ms RunStarted clean_up {}
        2 +0ms TimerStarted until +1h
        3 +0ms CancelRequested enough
        4 +0ms TimerCancelled #2
        5 +0ms TimerStarted until +1s
        6 +1s TimerFired #5
        7 +1s SignalReceived word "bye"
        8 +1s ActivityScheduled note {"text":"bye"}
        9 +1s ActivityCompleted #8 "bye"
        10 +1s ChildStarted clean-1/10 echo {"text":"bye"}
        11 +1s ChildCompleted #10 "bye"
        12 +1s ActivityScheduled reserve {}
        13 +1s TimerStarted until +2s
        14 +2s TimerFired #13
        15 +2s ActivityCancelled #12
        16 +2s StatusSet "bye, true"
        17 +2s RunCancelled Cancelled: enough
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn a_shielded_call_that_runs_when_the_run_is_cancelled_is_not_disturbed() {
    #[workflow]
    async fn finish(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.shielded().call(reserve()).await
    }
    let app = app().workflow(finish).start().await;
    let run = app.start("finish-1", finish()).await;
    app.advance(SECOND).await;
    run.cancel("enough").await.unwrap();
    // Code that returns a value although it was cancelled has completed.
    assert_eq!(run.result().await.unwrap(), 7);
    assert_eq!(app.describe("finish-1").await.instance.status, Status::Completed);
}

#[test]
async fn a_run_that_fails_while_being_cancelled_is_cancelled_and_not_retried() {
    #[workflow]
    async fn stumble(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.sleep(HOUR).await.map_err(|_| Failure::new("stumbled"))
    }
    let app = app().workflow(stumble).start().await;
    let policy = RetryPolicy::fixed(SECOND);
    let run = app.start_with("stumble-1", stumble(), |start| start.retry(&policy)).await;
    run.cancel("enough").await.unwrap();
    let Outcome::Cancelled(failure) = run.outcome().await else { panic!("not cancelled") };
    assert_eq!(failure.message, "stumbled");
    expect![[r#"
        1 +0ms RunStarted stumble {}
        2 +0ms TimerStarted until +1h
        3 +0ms CancelRequested enough
        4 +0ms TimerCancelled #2
        5 +0ms RunCancelled stumbled
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn a_run_that_is_cancelled_does_not_continue_as_new() {
    #[workflow]
    async fn go_on(ctx: WorkflowContext, rounds: u32) -> Result<u32, Failure> {
        let _cancelled = ctx.sleep(HOUR).await;
        ctx.continue_as_new(go_on(rounds + 1))
    }
    let app = app().workflow(go_on).start().await;
    let run = app.start("go-1", go_on(1)).await;
    app.advance(HOUR + SECOND).await;
    run.cancel("enough").await.unwrap();
    let Outcome::Cancelled(failure) = run.outcome().await else { panic!("not cancelled") };
    assert_eq!((failure.kind, failure.message.as_str()), (Kind::Cancelled, "enough"));
    expect![[r#"
        1 +0ms RunStarted go_on {"rounds":2}
        2 +0ms TimerStarted until +1h
        3 +1s CancelRequested enough
        4 +1s TimerCancelled #2
        5 +1s RunCancelled Cancelled: enough
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn a_run_is_cancelled_before_the_first_turn_of_a_delayed_start() {
    let app = app().start().await;
    let run = app.start_with("hold-1", hold(false), |start| start.delay(HOUR)).await;
    app.advance(HOUR / 2).await;
    app.restart().await;
    run.cancel("enough").await.unwrap();
    assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
    expect![[r#"
        1 +0ms RunStarted hold {"polite":false}, first turn at +1h
        2 +30m CancelRequested enough
        3 +30m RunCancelled Cancelled: enough
    "#]]
    .assert_eq(&run.history().await);
    app.advance(2 * HOUR).await;
    assert_eq!(app.attempts(reserve), 0);
}

#[test]
async fn a_terminal_status_is_never_overwritten() {
    #[workflow]
    async fn quick(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.signal("go").await
    }
    let app = app().workflow(quick).start().await;
    let run = app.start("quick-1", quick()).await;
    app.faults().refuse(StoreCall::Commit, 3);
    let client = app.client();
    let late = async {
        // The step that ends the run is on its way to the disk, and was refused once.
        while app.faults().refusals_left(StoreCall::Commit) == 3 {
            tokio::task::yield_now().await;
        }
        tokio::join!(client.cancel("quick-1", "late"), client.terminate("quick-1", "late"))
    };
    // Time passes meanwhile: the store is asked again after a while, and then again.
    let answers = async { tokio::join!(client.signal("quick-1", "go", &5), late) };
    let (signalled, (cancelled, terminated)) = app.wait_for("all answers", answers).await;
    signalled.unwrap();
    assert!(cancelled.unwrap_err().is_closed());
    assert!(terminated.unwrap_err().is_closed());
    assert_eq!(run.result().await.unwrap(), 5);
    assert!(run.cancel("much too late").await.unwrap_err().is_closed());
    assert!(app.terminate("quick-1", "much too late").await.unwrap_err().is_closed());
    assert_eq!(app.describe("quick-1").await.instance.status, Status::Completed);
}

// Ending a run at once.

#[test]
async fn a_run_that_is_terminated_ends_where_it_stands_and_its_code_does_not_hear_of_it() {
    static HEARD: AtomicU32 = AtomicU32::new(0);
    #[workflow]
    async fn stubborn(ctx: WorkflowContext) -> Result<(), Failure> {
        while ctx.shielded().sleep(HOUR).await.is_ok() {
            HEARD.fetch_add(u32::from(ctx.cancelled().is_some()), Ordering::Relaxed);
        }
        Ok(())
    }
    let app = app().workflow(stubborn).start().await;
    for restart in [false, true] {
        let id = format!("stubborn-{restart}");
        let run = app.start(&id, stubborn()).await;
        app.advance(HOUR * 3 / 2).await;
        if restart {
            app.restart().await;
        }
        app.terminate(&id, "fire").await.unwrap();
        let Outcome::Terminated(failure) = run.outcome().await else { panic!("not terminated") };
        assert_eq!(failure.type_name.as_deref(), Some("Terminated"));
        expect![[r#"
            1 +0ms RunStarted stubborn {}
            2 +0ms TimerStarted until +1h
            3 +1h TimerFired #2
            4 +1h TimerStarted until +2h
            5 +1h 30m TerminateRequested fire
            6 +1h 30m RunCancelled Terminated: fire
        "#]]
        .assert_eq(&run.history().await);
    }
    app.advance(3 * HOUR).await;
    assert_eq!(HEARD.load(Ordering::Relaxed), 0);
}

#[test]
async fn a_run_that_cannot_go_on_can_still_be_terminated() {
    #[workflow]
    async fn broken(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(note("x".into())).compensate_with(|_| release(1)).await?;
        let _never = ctx.child(hold(false)).id("child").await;
        panic!("no way out");
    }
    let app = app().workflow(broken).start().await;
    let run = app.start("broken-1", broken()).await;
    app.advance(SECOND).await;
    app.restart_with(self::app()).await;
    run.signal("anything", &()).await.unwrap();
    app.advance(SECOND).await;
    // Its code is not even registered.
    let broken = app.describe("broken-1").await.instance;
    assert!(broken.status == Status::Running && broken.error.is_some(), "{broken:?}");
    app.terminate("broken-1", "fire").await.unwrap();
    assert!(matches!(run.outcome().await, Outcome::Terminated(_)));
    expect![[r#"
        1 +0ms RunStarted broken {}
        2 +0ms ActivityScheduled note {"text":"x"}
        3 +0ms ActivityCompleted #2 "x"
        4 +0ms CompensationRecorded #2 release {"hold":1}
        5 +0ms ChildStarted child hold {"polite":false}
        6 +2s TerminateRequested fire
        7 +2s ChildCancelRequested #5
        8 +2s RunCancelled (compensation incomplete) Terminated: fire
    "#]]
    .assert_eq(&run.history().await);
    // Its child ends as with any other run.
    app.advance(HOUR).await;
    assert_eq!(app.describe("child").await.instance.status, Status::Cancelled);
    assert!(app.describe("broken-1").await.instance.error.is_none());
}

#[test]
async fn dropping_a_wait_cancels_what_it_waited_for() {
    let held = Arc::new(AtomicU32::new(0));
    #[workflow]
    async fn change_of_mind(ctx: WorkflowContext) -> Result<(), Failure> {
        let _late = ctx.timeout(SECOND, ctx.sleep(HOUR)).await;
        let _late = ctx.timeout(SECOND, ctx.call(reserve())).await;
        let _late = ctx.timeout(SECOND, ctx.child(hold(false)).id("child")).await;
        ctx.sleep(HOUR).await
    }
    let app = app().workflow(change_of_mind).state(held).start().await;
    let run = app.start("change-1", change_of_mind()).await;
    run.result().await.unwrap();
    expect![[r#"
        1 +0ms RunStarted change_of_mind {}
        2 +0ms TimerStarted until +1h
        3 +0ms TimerStarted until +1s
        4 +1s TimerFired #3
        5 +1s TimerCancelled #2
        6 +1s ActivityScheduled reserve {}
        7 +1s TimerStarted until +2s
        8 +2s TimerFired #7
        9 +2s ActivityCancelled #6
        10 +2s ChildStarted child hold {"polite":false}
        11 +2s TimerStarted until +3s
        12 +3s TimerFired #11
        13 +3s ChildCancelRequested #10
        14 +3s TimerStarted until +1h
        15 +1h TimerFired #14
        16 +1h RunCompleted null
    "#]]
    .assert_eq(&run.history().await);
    assert_eq!(app.describe("child").await.instance.status, Status::Cancelled);
}

#[test]
async fn a_cancelled_run_that_returns_a_value_is_completed_and_nothing_is_undone() {
    #[workflow]
    async fn cope(ctx: WorkflowContext) -> Result<u32, Failure> {
        let hold = ctx.call(note("7".into())).compensate_with(|_| release(7)).await?;
        match ctx.sleep(HOUR).await {
            Ok(()) => Err(Failure::terminal("not cancelled")),
            Err(_) => Ok(hold.len() as u32),
        }
    }
    let app = app().workflow(cope).start().await;
    let run = app.start("cope-1", cope()).await;
    app.advance(SECOND).await;
    assert!(!app.describe("cope-1").await.cancel_requested);
    run.cancel("enough").await.unwrap();
    assert_eq!(run.result().await.unwrap(), 1);
    let found = app.describe("cope-1").await;
    let row = &found.instance;
    assert_eq!((row.status, row.compensation), (Status::Completed, None));
    assert!(found.cancel_requested);
    assert_eq!(app.attempts(release), 0);
    assert!(run.history().await.contains("+1s CancelRequested enough\n"));
}
