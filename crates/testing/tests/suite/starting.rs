//! Starting: what an id and a request id stand for, and the options of a start.

use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::{IfExists, InstanceFilter, Start, Status};
use resurgam_core::{EventKind, RunKey, Uid};
use resurgam_testing::{StoreCall, TestApp, TestBuilder};
use resurgam_watchdog::test;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

#[activity]
async fn work() -> Result<u32, Failure> {
    Ok(7)
}

#[activity(queue = "its own")]
async fn work_elsewhere() -> Result<u32, Failure> {
    Ok(7)
}

#[workflow]
async fn nap(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.sleep(MINUTE).await?;
    ctx.call(work()).await
}

fn app() -> TestBuilder {
    TestApp::builder().workflow(nap).activity(work).activity(work_elsewhere)
}

/// Starts a nap, and answers with what was started or why nothing was.
async fn started(app: &TestApp, options: impl Fn(Start<u32>) -> Start<u32>) -> Result<Uid, String> {
    let start = options(app.client().start("nap-1", nap())).await;
    start.map(|instance| instance.uid()).map_err(|error| error.to_string())
}

#[test]
async fn an_instance_is_durable_when_start_returns() {
    let app = app().start().await;
    let run = app.start("nap-1", nap()).await;
    app.restart().await;
    assert_eq!(run.result().await.unwrap(), 7);
}

#[test]
async fn the_same_id_again_is_an_error_unless_an_option_says_what_follows() {
    let app = app().start().await;
    let exists = "start nap-1: an instance of this id exists; choose another id".to_string();
    let first = started(&app, |start| start).await.unwrap();
    for restarted in [false, true] {
        if restarted {
            // What is not in memory counts as much.
            app.restart().await;
        }
        for refused in [IfExists::Refuse, IfExists::ReplaceClosed] {
            let again = started(&app, |start| start.if_exists(refused)).await;
            assert_eq!(again, Err(exists.clone()), "{refused:?}");
        }
        for used in [IfExists::UseRunning, IfExists::UseRunningOrReplace] {
            assert_eq!(started(&app, |start| start.if_exists(used)).await, Ok(first), "{used:?}");
        }
    }
    app.advance(HOUR).await;
    for refused in [IfExists::Refuse, IfExists::UseRunning] {
        let again = started(&app, |start| start.if_exists(refused)).await;
        assert_eq!(again, Err(exists.clone()), "{refused:?}");
    }
    let mut known = vec![first];
    for replaced in [IfExists::ReplaceClosed, IfExists::UseRunningOrReplace] {
        let next = started(&app, |start| start.if_exists(replaced)).await.unwrap();
        assert!(!known.contains(&next), "{replaced:?}");
        known.push(next);
        app.advance(HOUR).await;
    }
}

// Once.

#[test]
async fn a_repeated_start_returns_the_first_answer_whatever_became_of_it() {
    #[workflow(name = "nap")]
    async fn continuing(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.sleep(MINUTE).await?;
        match ctx.get::<bool>("again") {
            Some(_) => Ok(7),
            None => {
                ctx.set("again", &true);
                ctx.continue_as_new(continuing())
            }
        }
    }
    let app = TestApp::builder().workflow(continuing).start().await;
    let options = [
        IfExists::Refuse,
        IfExists::UseRunning,
        IfExists::ReplaceClosed,
        IfExists::UseRunningOrReplace,
    ];
    let again = async |uid| {
        for if_exists in options {
            let start = |start: Start<u32>| start.request_id("one").if_exists(if_exists);
            assert_eq!(started(&app, start).await, Ok(uid), "{if_exists:?}");
        }
    };
    let first = started(&app, |start| start.request_id("one")).await.unwrap();
    again(first).await;
    // Its next run.
    app.advance(MINUTE + SECOND).await;
    assert_eq!(app.describe("nap-1").await.instance.run, 2);
    again(first).await;
    app.restart().await;
    again(first).await;
    // Closed.
    app.advance(HOUR).await;
    again(first).await;
    // Replaced, and the one that did it is open, then closed.
    let second =
        started(&app, |start| start.request_id("two").if_exists(IfExists::ReplaceClosed)).await;
    assert_ne!(second, Ok(first));
    again(first).await;
    app.advance(HOUR).await;
    again(first).await;
}

#[test]
async fn another_request_is_another_start() {
    let app = app().start().await;
    let first = started(&app, |start| start.request_id("one")).await.unwrap();
    started(&app, |start| start.request_id("two")).await.unwrap_err();
    let used = |start: Start<u32>| start.request_id("three").if_exists(IfExists::UseRunning);
    assert_eq!(started(&app, used).await, Ok(first));
}

#[test]
async fn a_start_that_uses_the_running_one_waits_until_that_is_durable() {
    let app = app().start().await;
    app.faults().refuse(StoreCall::Commit, 3);
    let (one, two) = (app.clone(), app.clone());
    let first = tokio::spawn(async move { started(&one, |start| start.request_id("a")).await });
    app.advance(Duration::from_millis(1)).await;
    let used = |start: Start<u32>| start.request_id("b").if_exists(IfExists::UseRunning);
    let second = tokio::spawn(async move { started(&two, used).await });
    app.advance(SECOND).await;
    let second = app.wait_for("the second answer", second).await.unwrap();
    assert_eq!(second, app.wait_for("the first answer", first).await.unwrap());
}

// Options.

#[test]
async fn a_delayed_start_exists_at_once_and_takes_its_first_turn_later() {
    let app = app().start().await;
    let run = app.start_with("nap-1", nap(), |start| start.delay(HOUR)).await;
    assert_eq!(app.describe("nap-1").await.instance.status, Status::Running);
    app.advance(HOUR / 2).await;
    app.restart().await;
    assert_eq!(run.result().await.unwrap(), 7);
    expect![[r#"
        1 +0ms RunStarted nap {}, first turn at +1h
        2 +1h TimerFired #1
        3 +1h TimerStarted until +1h 1m
        4 +1h 1m TimerFired #3
        5 +1h 1m ActivityScheduled work {}
        6 +1h 1m ActivityCompleted #5 7
        7 +1h 1m RunCompleted 7
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn a_run_that_takes_too_long_fails_and_what_it_left_open_ends() {
    let app = app().start().await;
    for restart in [false, true] {
        let id = format!("nap-{restart}");
        // The time begins with the first turn.
        let options = |start: Start<u32>| start.delay(HOUR).run_timeout(10 * SECOND);
        let run = app.start_with(&id, nap(), options).await;
        if restart {
            app.advance(HOUR + SECOND).await;
            app.restart().await;
        }
        let failure = run.failure().await;
        assert_eq!(
            (failure.kind, failure.type_name.as_deref()),
            (resurgam::Kind::Timeout, Some("RunTimeout"))
        );
        let uid = app.describe(&id).await.instance.uid;
        assert_eq!(app.client().handle().store().messages(uid).await.unwrap(), []);
    }
    expect![[r#"
        1 +0ms RunStarted nap {}, first turn at +1h
        2 +1h TimerFired #1
        3 +1h TimerStarted until +1h 1m
        4 +1h RunTimedOut run
        5 +1h RunFailed RunTimeout: the run was not done in time, after 10s
    "#]]
    .assert_eq(&app.history("nap-false").await);
}

#[test]
async fn a_total_timeout_counts_the_delay_too() {
    let app = app().start().await;
    let options = |start: Start<u32>| start.delay(HOUR).total_timeout(HOUR + 10 * SECOND);
    let run = app.start_with("nap-1", nap(), options).await;
    assert_eq!(run.failure().await.type_name.as_deref(), Some("TotalTimeout"));
    expect![[r#"
        1 +0ms RunStarted nap {}, first turn at +1h
        2 +1h TimerFired #1
        3 +1h TimerStarted until +1h 1m
        4 +1h RunTimedOut total
        5 +1h RunFailed TotalTimeout: the instance was not done in time, after 1h
    "#]]
    .assert_eq(&run.history().await);
    // It may pass before the first turn.
    let options = |start: Start<u32>| start.delay(HOUR).total_timeout(SECOND);
    let run = app.start_with("nap-2", nap(), options).await;
    run.failure().await;
    expect![[r#"
        1 +0ms RunStarted nap {}, first turn at +1h
        2 +1s RunTimedOut total
        3 +1s RunFailed TotalTimeout: the instance was not done in time, after 1s
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn a_run_in_time_leaves_no_deadline_behind() {
    let app = app().start().await;
    let options = |start: Start<u32>| start.run_timeout(HOUR).total_timeout(2 * HOUR);
    let run = app.start_with("nap-1", nap(), options).await;
    assert_eq!(run.result().await.unwrap(), 7);
    let (history, commits) = (run.history().await, app.commits());
    app.advance(24 * HOUR).await;
    assert_eq!((run.history().await, app.commits()), (history, commits));
}

#[test]
async fn the_time_of_a_run_that_is_blocked_from_the_start_passes_all_the_same() {
    mod broken {
        use super::*;

        #[workflow(name = "nap")]
        pub(super) async fn nap(_ctx: WorkflowContext) -> Result<u32, Failure> {
            panic!("cannot begin")
        }
    }
    let app = TestApp::builder().workflow(broken::nap).start().await;
    let run = app.start_with("nap-1", broken::nap(), |start| start.run_timeout(MINUTE)).await;
    app.advance(HOUR).await;
    assert_eq!(app.describe("nap-1").await.instance.status, Status::Blocked);
    app.restart_with(self::app()).await;
    assert_eq!(run.failure().await.type_name.as_deref(), Some("RunTimeout"));
}

#[test]
async fn calls_that_name_no_queue_go_to_their_activitys_or_else_to_their_instances() {
    #[workflow]
    async fn queued(ctx: WorkflowContext, child: bool) -> Result<u32, Failure> {
        if child {
            return ctx.child(queued(false)).id("child").await;
        }
        ctx.call(work()).await?;
        ctx.call(work_elsewhere()).await?;
        ctx.call(work()).queue("here").await
    }
    let app = app().workflow(queued).start().await;
    let options = |start: Start<u32>| start.queue("slow").priority(5);
    app.start_with("queued-1", queued(true), options).await.result().await.unwrap();
    let events = app.client().events("child").await.unwrap();
    let queues = events.iter().filter_map(|event| match &event.kind {
        EventKind::ActivityScheduled(call) => Some(call.queue.as_str()),
        _ => None,
    });
    // A child is like its parent.
    assert_eq!(queues.collect::<Vec<_>>(), ["slow", "its own", "here"]);
    assert_eq!(app.describe("child").await.instance.priority, 5);
}

#[test]
async fn a_call_has_the_priority_of_its_instance() {
    #[activity]
    async fn hang(ctx: ActivityContext) -> Result<u32, Failure> {
        ctx.cancelled().await;
        Ok(1)
    }
    #[workflow]
    async fn wait(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(hang()).await
    }
    let app = app().workflow(wait).activity(hang).start().await;
    app.start_with("wait-1", wait(), |start| start.priority(-3)).await;
    let row = app.describe("wait-1").await.instance;
    let key = RunKey { uid: row.uid, run: row.run };
    assert_eq!(app.client().handle().store().tasks(key).await.unwrap()[0].priority, -3);
}

#[test]
async fn instances_are_found_by_their_tags() {
    let app = app().start().await;
    for (id, city) in [("nap-1", "Rome"), ("nap-2", "Oslo"), ("nap-3", "Rome")] {
        app.start_with(id, nap(), |start| start.tag("city", city).tag("kind", "nap")).await;
    }
    let found = async |name: &str, value: &str| {
        let tag = Some((name.to_string(), value.to_string()));
        let rows = app.client().list(InstanceFilter { tag, ..Default::default() }).await.unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(found("city", "Rome").await, ["nap-3", "nap-1"]);
    assert_eq!(found("kind", "nap").await.len(), 3);
    assert_eq!(found("city", "nap").await, [""; 0]);
    assert_eq!(app.describe("nap-2").await.instance.tags["city"], "Oslo");
}

#[test]
async fn a_retry_policy_that_makes_no_sense_is_refused() {
    let app = app().start().await;
    let policy = RetryPolicy::exponential(SECOND).multiplier(f64::NAN);
    expect!["start nap-1: its retry policy: backoff.multiplier: null is not a finite number greater than 0"].assert_eq(&started(&app, |start| start.retry(&policy)).await.unwrap_err());
}

// Looking.

#[test]
async fn a_status_and_data_are_read_and_waited_for_from_outside() {
    #[workflow]
    async fn progress(ctx: WorkflowContext) -> Result<(), Failure> {
        for percent in (0..=100_u32).step_by(10) {
            ctx.set_status(&percent);
            ctx.set("half", &(percent >= 50));
            ctx.sleep(MINUTE).await?;
        }
        Ok(())
    }
    let app = app().workflow(progress).start().await;
    let run = app.start("progress-1", progress()).await;
    let began = app.now();
    let status = app.wait_for_status("progress-1", |percent: &u32| *percent >= 45).await.unwrap();
    assert_eq!((status, app.now().since(began)), (50, 5 * MINUTE));
    assert_eq!(app.client().value::<bool>("progress-1", "half").await.unwrap(), Some(true));
    app.restart().await;
    // One that is there already is not waited for; and one that never comes is told.
    assert_eq!(app.wait_for_status("progress-1", |_: &u32| true).await.unwrap(), 50);
    let never = app.wait_for_status("progress-1", |percent: &u32| *percent > 100).await;
    assert!(never.unwrap_err().is_closed());
    run.result().await.unwrap();
}

#[test]
async fn data_that_is_called_status_is_not_the_status() {
    #[workflow]
    async fn lamp(ctx: WorkflowContext) -> Result<Option<bool>, Failure> {
        ctx.set_status("waits");
        let before = ctx.get::<bool>("status");
        ctx.set("status", &true);
        ctx.sleep(MINUTE).await?;
        Ok(before)
    }
    let app = app().workflow(lamp).start().await;
    let run = app.start("lamp-1", lamp()).await;
    let client = app.client();
    assert_eq!(client.status::<String>("lamp-1").await.unwrap().as_deref(), Some("waits"));
    assert_eq!(client.value::<bool>("lamp-1", "status").await.unwrap(), Some(true));
    assert_eq!(run.result().await.unwrap(), None);
}

#[test]
async fn an_entry_of_the_data_is_waited_for_from_outside() {
    #[workflow]
    async fn progress(ctx: WorkflowContext) -> Result<(), Failure> {
        for percent in (0..=100_u32).step_by(10) {
            ctx.set("percent", &percent);
            ctx.sleep(MINUTE).await?;
        }
        Ok(())
    }
    let app = app().workflow(progress).start().await;
    app.start("progress-1", progress()).await;
    let client = app.client();
    let half = |percent: &u32| *percent >= 50;
    let waits =
        tokio::spawn(async move { client.wait_for_value("progress-1", "percent", half).await });
    app.advance(5 * MINUTE - SECOND).await;
    assert!(!waits.is_finished());
    app.advance(SECOND).await;
    assert_eq!(app.wait_for("the value", waits).await.unwrap().unwrap(), 50);
}
