//! Runs that operators reset, and instances that they restart, with a crash before and after every
//! commit.

use std::time::Duration;

use expect_test::{Expect, expect};
use resurgam::prelude::*;
use resurgam::retry::{Idempotency, Jitter};
use resurgam::{Act, EventKind, ResetTo, RunHandle, RunKey, Seq, Status};
use resurgam_testing::{TestApp, replay};
use resurgam_watchdog::test;

use crate::common::crashes;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// Answers with its idempotency key, without what differs from test to test.
#[activity]
async fn key(ctx: ActivityContext, of: String) -> Result<String, Failure> {
    let key = ctx.idempotency_key();
    let place = key.split_once('/').map_or("", |(_, place)| place);
    Ok(format!("{of} {place}"))
}

#[activity(retry = RetryPolicy::fixed(SECOND).max_attempts(2).jitter(Jitter::None))]
async fn ship(parcel: String) -> Result<String, Failure> {
    Ok(parcel)
}

#[activity]
async fn undo(what: String) -> Result<String, Failure> {
    Ok(what)
}

#[activity(retry = RetryPolicy::fixed(SECOND).max_attempts(1).idempotency(Idempotency::AtMostOnce))]
async fn launch() -> Result<String, Failure> {
    Ok("launched".to_string())
}

/// Signals, kv, a status, a call and a timer, and a call that fails.
#[workflow]
async fn order(ctx: WorkflowContext) -> Result<String, Failure> {
    let first: String = ctx.signal("item").await?;
    ctx.set("items", &first);
    ctx.set_status("one item");
    let stored = ctx.call(key("stored".to_string())).await?;
    let second: String = ctx.signal("item").await?;
    ctx.set("last", &second);
    ctx.set_status("two items");
    ctx.sleep(10 * MINUTE).await?;
    let shipped = ctx.call(ship(format!("{first} and {second}"))).await?;
    Ok(format!("{shipped}, {stored}"))
}

#[workflow]
async fn child(ctx: WorkflowContext, name: String) -> Result<String, Failure> {
    ctx.signal::<()>("go").await?;
    Ok(name)
}

#[workflow]
async fn quick(ctx: WorkflowContext, name: String) -> Result<String, Failure> {
    let _ = ctx;
    Ok(name)
}

/// A child that is open, one that is over, and one that is started later.
#[workflow]
async fn family(ctx: WorkflowContext) -> Result<String, Failure> {
    let slow = ctx.child(child("slow".to_string())).start();
    let fast = ctx.child(quick("fast".to_string())).await?;
    let third = ctx.child(quick("third".to_string())).await?;
    let slow = slow.await?;
    ctx.call(ship(format!("{slow} {fast} {third}"))).await
}

/// Undoes what it did when it fails.
#[workflow]
async fn booking(ctx: WorkflowContext) -> Result<String, Failure> {
    ctx.call(key("seat".to_string())).compensate_with(|_| undo("seat".to_string())).await?;
    ctx.call(ship("ticket".to_string())).await
}

/// Continues as new once, and then fails.
#[workflow]
async fn pages(ctx: WorkflowContext, page: u32) -> Result<String, Failure> {
    ctx.set_status(&format!("page {page}"));
    if page == 1 {
        return ctx.continue_as_new(pages(2));
    }
    let stored = ctx.call(key("page".to_string())).await?;
    ctx.set_status("stored");
    ctx.call(ship("page".to_string())).await?;
    Ok(stored)
}

/// A call that must not run twice.
#[workflow]
async fn rocket(ctx: WorkflowContext) -> Result<bool, Failure> {
    let launched = ctx.call(launch()).await;
    ctx.signal::<()>("land").await?;
    Ok(launched.is_ok())
}

/// Waits for a signal, and for an hour.
#[workflow]
async fn patient(ctx: WorkflowContext) -> Result<String, Failure> {
    match ctx.timeout(HOUR, ctx.signal::<String>("go")).await {
        Ok(said) => said,
        Err(_) => Ok("nobody came".to_string()),
    }
}

/// Goes on for ten minutes, also when nobody wants it any more.
#[activity]
async fn print(ctx: ActivityContext, what: String) -> Result<String, Failure> {
    ctx.sleep(10 * MINUTE).await;
    Ok(what)
}

/// Gives a call up that can be undone, and fails later.
#[workflow]
async fn poster(ctx: WorkflowContext) -> Result<String, Failure> {
    let printed = ctx.call(print("poster".to_string())).compensate_with(|what| undo(what.clone()));
    if ctx.timeout(SECOND, printed).await.is_err() {
        ctx.set_status("late");
    }
    ctx.signal::<()>("go").await?;
    ctx.call(ship("poster".to_string())).await
}

async fn app() -> TestApp {
    TestApp::builder()
        .workflow(poster)
        .activity(print)
        .workflow(order)
        .workflow(child)
        .workflow(quick)
        .workflow(family)
        .workflow(booking)
        .workflow(pages)
        .workflow(rocket)
        .workflow(patient)
        .activity(key)
        .activity(undo)
        .activity(launch)
        .stub(ship, |call, _| match call.parcel.as_str() {
            "never" => Ok("never".to_string()),
            _ => Err(Failure::terminal("no lorry")),
        })
        .start()
        .await
}

/// Compares what is told, and that it is the same after a crash at any commit.
async fn check(play: impl AsyncFn(&TestApp) -> String, expected: Expect) {
    let app = app().await;
    let story = play(&app).await;
    expected.assert_eq(&story);
    for crash in crashes(app.commits()) {
        let app = self::app().await;
        app.faults().crash(crash);
        let crashed = play(&app).await;
        if !crashed.contains(" lost: ") {
            assert_eq!(crashed, story, "{crash:?}");
        }
    }
}

async fn act(app: &TestApp, act: impl Fn(&RunHandle) -> Act) -> String {
    let acted = app.act_on_run("it", |run| act(run).by("ana")).await;
    acted.unwrap().to_string()
}

/// What was answered, and the histories of all runs.
async fn told(app: &TestApp, answer: String, runs: u32) -> String {
    let mut text = answer + "\n";
    for run in 1..=runs {
        text += &format!("run {run}\n{}", app.run_history("it", run).await);
    }
    text
}

async fn data(app: &TestApp) -> String {
    let client = app.client();
    let items: Option<String> = client.value("it", "items").await.unwrap();
    let last: Option<String> = client.value("it", "last").await.unwrap();
    let status: Option<String> = client.status("it").await.unwrap();
    format!("items {items:?}, last {last:?}, status {status:?}\n")
}

#[test]
async fn a_run_goes_on_from_before_its_last_failure() {
    let play = async |app: &TestApp| {
        app.start("it", order()).await;
        app.signal("it", "item", &"book").await.unwrap();
        app.signal("it", "item", &"lamp").await.unwrap();
        app.advance(HOUR).await;
        let answer = act(app, |run| run.reset(ResetTo::LastFailure)).await;
        app.advance(HOUR).await;
        told(app, answer, 2).await
    };
    check(
        play,
        expect![[r#"
            reset it to event 12 (ActivityScheduled ship); run 2 goes on from there
            run 1
            1 +0ms RunStarted order {}
            2 +0ms SignalReceived item "book"
            3 +0ms KvSet items "book"
            4 +0ms StatusSet "one item"
            5 +0ms ActivityScheduled key {"of":"stored"}
            6 +0ms ActivityCompleted #5 "stored 1/5"
            7 +0ms SignalReceived item "lamp"
            8 +0ms KvSet last "lamp"
            9 +0ms StatusSet "two items"
            10 +0ms TimerStarted until +10m
            11 +10m TimerFired #10
            12 +10m ActivityScheduled ship {"parcel":"book and lamp"}
              +10m ship#12 attempt 1 failed: no lorry
            13 +10m ActivityFailed #12 terminal: no lorry
            14 +10m RunFailed no lorry
            15 +1h RunContinued by Reset
            run 2
            1 +0ms RunStarted order {}
            2 +0ms SignalReceived item "book"
            3 +0ms KvSet items "book"
            4 +0ms StatusSet "one item"
            5 +0ms ActivityScheduled key {"of":"stored"}
            6 +0ms ActivityCompleted #5 "stored 1/5"
            7 +0ms SignalReceived item "lamp"
            8 +0ms KvSet last "lamp"
            9 +0ms StatusSet "two items"
            10 +0ms TimerStarted until +10m
            11 +10m TimerFired #10
              +1h operator ana: reset it to event 12 (ActivityScheduled ship); run 2 goes on from there
            12 +1h ActivityScheduled ship {"parcel":"book and lamp"}
              +1h ship#12 attempt 1 failed: no lorry
            13 +1h ActivityFailed #12 terminal: no lorry
            14 +1h RunFailed no lorry
        "#]],
    )
    .await;
}

#[test]
async fn signals_kv_status_and_timers_are_as_they_were() {
    let play = async |app: &TestApp| {
        app.start("it", order()).await;
        app.signal("it", "item", &"book").await.unwrap();
        app.advance(MINUTE).await;
        app.signal("it", "item", &"lamp").await.unwrap();
        app.advance(MINUTE).await;
        app.signal("it", "item", &"rug").await.unwrap();
        app.advance(MINUTE).await;
        let mut text = data(app).await;
        // Before the second signal was taken.
        let answer = act(app, |run| run.reset(ResetTo::Event(Seq(7)))).await;
        app.advance(SECOND).await;
        text += &data(app).await;
        app.advance(HOUR).await;
        text + &told(app, answer, 2).await
    };
    check(play, expect![[r#"
        items Some("book"), last Some("lamp"), status Some("two items")
        items Some("book"), last Some("lamp"), status Some("two items")
        reset it to event 7 (SignalReceived item); run 2 goes on from there; a signal comes again
        run 1
        1 +0ms RunStarted order {}
        2 +0ms SignalReceived item "book"
        3 +0ms KvSet items "book"
        4 +0ms StatusSet "one item"
        5 +0ms ActivityScheduled key {"of":"stored"}
        6 +0ms ActivityCompleted #5 "stored 1/5"
        7 +1m SignalReceived item "lamp"
        8 +1m KvSet last "lamp"
        9 +1m StatusSet "two items"
        10 +1m TimerStarted until +11m
        11 +3m RunContinued by Reset
        run 2
        1 +0ms RunStarted order {}
        2 +0ms SignalReceived item "book"
        3 +0ms KvSet items "book"
        4 +0ms StatusSet "one item"
        5 +0ms ActivityScheduled key {"of":"stored"}
        6 +0ms ActivityCompleted #5 "stored 1/5"
          +3m operator ana: reset it to event 7 (SignalReceived item); run 2 goes on from there; a signal comes again
        7 +3m SignalReceived item "lamp"
        8 +3m KvSet last "lamp"
        9 +3m StatusSet "two items"
        10 +3m TimerStarted until +13m
        11 +13m TimerFired #10
        12 +13m ActivityScheduled ship {"parcel":"book and lamp"}
          +13m ship#12 attempt 1 failed: no lorry
        13 +13m ActivityFailed #12 terminal: no lorry
        14 +13m RunFailed no lorry
    "#]]).await;
}

#[test]
async fn signals_that_are_dropped_do_not_come_again() {
    let app = app().await;
    app.start("it", order()).await;
    app.signal("it", "item", &"book").await.unwrap();
    app.advance(MINUTE).await;
    let reset = |run: &RunHandle| run.reset(ResetTo::Event(Seq(2))).drop_signals();
    let answer = act(&app, reset).await;
    app.advance(MINUTE).await;
    expect![[r#"
        reset it to event 2 (SignalReceived item); run 2 goes on from there; a signal is dropped
        run 1
        1 +0ms RunStarted order {}
        2 +0ms SignalReceived item "book"
        3 +0ms KvSet items "book"
        4 +0ms StatusSet "one item"
        5 +0ms ActivityScheduled key {"of":"stored"}
        6 +0ms ActivityCompleted #5 "stored 1/5"
        7 +1m RunContinued by Reset
        run 2
          +0ms operator ana: reset it to event 2 (SignalReceived item); run 2 goes on from there; a signal is dropped
        1 +0ms RunStarted order {}
    "#]].assert_eq(&told(&app, answer, 2).await);
    // Nothing is left of what the run before had set.
    expect![[r#"
        items None, last None, status None
    "#]]
    .assert_eq(&data(&app).await);
}

#[test]
async fn a_repeated_signal_that_a_reset_dropped_stays_dropped() {
    let app = app().await;
    app.start("it", order()).await;
    let client = app.client();
    client.signal_once("it", "item", &"book", "request-1").await.unwrap();
    app.advance(MINUTE).await;
    act(&app, |run| run.reset(ResetTo::Event(Seq(2))).drop_signals()).await;
    app.advance(MINUTE).await;
    app.restart().await;
    let client = app.client();
    client.signal_once("it", "item", &"book", "request-1").await.unwrap();
    app.advance(MINUTE).await;
    assert_eq!(data(&app).await, "items None, last None, status None\n");
    app.signal("it", "item", &"lamp").await.unwrap();
    app.advance(MINUTE).await;
    assert_eq!(data(&app).await, "items Some(\"lamp\"), last None, status Some(\"one item\")\n");
}

/// Takes signals until it is told to stop.
#[workflow]
async fn counter(ctx: WorkflowContext) -> Result<u32, Failure> {
    let mut taken = 0;
    while ctx.signal::<bool>("next").await? {
        taken += 1;
    }
    Ok(taken)
}

#[test]
async fn of_more_than_a_thousand_signals_that_a_reset_drops_the_newest_ids_are_kept() {
    let app = TestApp::builder().workflow(counter).start().await;
    app.start("it", counter()).await;
    let client = app.client();
    for number in 1..=1_100 {
        client.signal_once("it", "next", &true, format!("request-{number}")).await.unwrap();
    }
    act(&app, |run| run.reset(ResetTo::Event(Seq(2))).drop_signals()).await;
    app.advance(MINUTE).await;
    let first = app.client().events("it").await.unwrap().remove(0);
    let EventKind::RunStarted(first) = first.kind else { panic!("{first:?}") };
    let ids = &first.carried.signal_ids;
    assert_eq!((ids.len(), ids[0].as_str()), (1_000, "request-101"));
}

#[test]
async fn a_status_that_a_reset_took_back_does_not_return_with_the_next_reset() {
    let app = app().await;
    app.start("it", order()).await;
    for item in ["book", "lamp"] {
        app.signal("it", "item", &item).await.unwrap();
        app.advance(MINUTE).await;
        act(&app, |run| run.reset(ResetTo::Event(Seq(2))).drop_signals()).await;
        app.advance(MINUTE).await;
        assert_eq!(data(&app).await, "items None, last None, status None\n");
    }
}

#[test]
async fn a_timer_that_is_open_again_fires_at_its_original_time() {
    let play = async |app: &TestApp| {
        app.start("it", patient()).await;
        app.advance(MINUTE).await;
        app.signal("it", "go", &"on").await.unwrap();
        app.advance(10 * MINUTE).await;
        let reset = |run: &RunHandle| run.reset(ResetTo::Event(Seq(3))).drop_signals();
        let answer = act(app, reset).await;
        app.advance(HOUR).await;
        told(app, answer, 2).await
    };
    check(play, expect![[r#"
        reset it to event 3 (SignalReceived go); run 2 goes on from there; a signal is dropped
        run 1
        1 +0ms RunStarted patient {}
        2 +0ms TimerStarted until +1h
        3 +1m SignalReceived go "on"
        4 +1m TimerCancelled #2
        5 +1m RunCompleted "on"
        6 +11m RunContinued by Reset
        run 2
        1 +0ms RunStarted patient {}
        2 +0ms TimerStarted until +1h
          +11m operator ana: reset it to event 3 (SignalReceived go); run 2 goes on from there; a signal is dropped
        3 +1h TimerFired #2
        4 +1h RunCompleted "nobody came"
    "#]]).await;
}

#[test]
async fn a_call_that_is_open_again_has_the_same_idempotency_key() {
    let play = async |app: &TestApp| {
        app.start("it", order()).await;
        app.signal("it", "item", &"book").await.unwrap();
        app.advance(MINUTE).await;
        // Before the call completed, twice; then before it was scheduled.
        let mut text = String::new();
        for (to, run) in [(6, 2), (6, 3), (5, 4)] {
            text += &act(app, |run| run.reset(ResetTo::Event(Seq(to)))).await;
            app.advance(MINUTE).await;
            let history = app.run_history("it", run).await;
            let done = history.lines().filter(|line| line.contains("ActivityCompleted #"));
            // A crash may have cost it an attempt.
            let done = done.map(|line| line.replace(" (attempt 2)", ""));
            text += &done.map(|line| format!("\n{line}\n")).collect::<String>();
        }
        text
    };
    check(
        play,
        expect![[r#"
            reset it to event 6 (ActivityCompleted); run 2 goes on from there
            6 +1m ActivityCompleted #5 "stored 1/5"
            reset it to event 6 (ActivityCompleted); run 3 goes on from there
            6 +2m ActivityCompleted #5 "stored 1/5"
            reset it to event 5 (ActivityScheduled key); run 4 goes on from there
            6 +3m ActivityCompleted #5 "stored 4/5"
        "#]],
    )
    .await;
}

/// Goes back to before a call that was given up had completed, once its run has heard of that or is
/// paused and has not.
async fn undone_again(app: &TestApp, is_paused: bool) -> String {
    app.start("it", poster()).await;
    app.advance(MINUTE).await;
    if is_paused {
        act(app, |run| run.pause()).await;
    }
    app.advance(HOUR).await;
    let answer = act(app, |run| run.reset(ResetTo::Event(Seq(6)))).await;
    app.signal("it", "go", &()).await.unwrap();
    app.advance(HOUR).await;
    told(app, answer, 2).await
}

#[test]
async fn what_a_call_did_that_was_given_up_before_a_reset_is_undone_after_it() {
    check(
        async |app: &TestApp| undone_again(app, false).await,
        expect![[r#"
        reset it to event 6 (StatusSet); run 2 goes on from there
        run 1
        1 +0ms RunStarted poster {}
        2 +0ms ActivityScheduled print {"what":"poster"}
        3 +0ms TimerStarted until +1s
        4 +1s TimerFired #3
        5 +1s ActivityCancelRequested #2
        6 +1s StatusSet "late"
        7 +10m ActivityCompleted #2 after cancel "poster"
        8 +10m CompensationRecorded #2 undo {"what":"poster"}
        9 +1h 1m RunContinued by Reset
        run 2
        1 +0ms RunStarted poster {}
        2 +0ms ActivityScheduled print {"what":"poster"}
        3 +0ms TimerStarted until +1s
        4 +1s TimerFired #3
        5 +1s ActivityCancelRequested #2
          +1h 1m operator ana: reset it to event 6 (StatusSet); run 2 goes on from there
        6 +1h 1m StatusSet "late"
        7 +1h 1m ActivityCompleted #2 after cancel "poster"
        8 +1h 1m CompensationRecorded #2 undo {"what":"poster"}
        9 +1h 1m SignalReceived go null
        10 +1h 1m ActivityScheduled ship {"parcel":"poster"}
          +1h 1m ship#10 attempt 1 failed: no lorry
        11 +1h 1m ActivityFailed #10 terminal: no lorry
        12 +1h 1m ActivityScheduled undo to undo #2 {"what":"poster"}
        13 +1h 1m ActivityCompleted #12 "poster"
        14 +1h 1m RunFailed (compensation complete) no lorry
    "#]],
    )
    .await;
}

#[test]
async fn what_a_call_did_is_undone_although_the_run_that_was_reset_had_not_heard_of_it() {
    check(async |app: &TestApp| undone_again(app, true).await, expect![[r#"
        reset it to event 6 (StatusSet); run 2 goes on from there; it was paused, and is no longer
        run 1
        1 +0ms RunStarted poster {}
        2 +0ms ActivityScheduled print {"what":"poster"}
        3 +0ms TimerStarted until +1s
        4 +1s TimerFired #3
        5 +1s ActivityCancelRequested #2
        6 +1s StatusSet "late"
          +1m operator ana: paused it
        7 +1h 1m RunContinued by Reset
        run 2
        1 +0ms RunStarted poster {}
        2 +0ms ActivityScheduled print {"what":"poster"}
        3 +0ms TimerStarted until +1s
        4 +1s TimerFired #3
        5 +1s ActivityCancelRequested #2
          +1h 1m operator ana: reset it to event 6 (StatusSet); run 2 goes on from there; it was paused, and is no longer
        6 +1h 1m StatusSet "late"
        7 +1h 1m ActivityCompleted #2 after cancel "poster"
        8 +1h 1m CompensationRecorded #2 undo {"what":"poster"}
        9 +1h 1m SignalReceived go null
        10 +1h 1m ActivityScheduled ship {"parcel":"poster"}
          +1h 1m ship#10 attempt 1 failed: no lorry
        11 +1h 1m ActivityFailed #10 terminal: no lorry
        12 +1h 1m ActivityScheduled undo to undo #2 {"what":"poster"}
        13 +1h 1m ActivityCompleted #12 "poster"
        14 +1h 1m RunFailed (compensation complete) no lorry
    "#]]).await;
}

#[test]
async fn children_that_were_open_report_to_the_new_run() {
    let play = async |app: &TestApp| {
        app.start("it", family()).await;
        app.advance(MINUTE).await;
        // Before the second child had told anything.
        let answer = act(app, |run| run.reset(ResetTo::Event(Seq(4)))).await;
        app.advance(MINUTE).await;
        app.signal("it/2", "go", &()).await.unwrap();
        app.advance(MINUTE).await;
        told(app, answer, 2).await
    };
    check(play, expect![[r#"
        reset it to event 4 (ChildCompleted); run 2 goes on from there; children that were started after that go on by themselves: it/5
        run 1
        1 +0ms RunStarted family {}
        2 +0ms ChildStarted it/2 child {"name":"slow"}
        3 +0ms ChildStarted it/3 quick {"name":"fast"}
        4 +0ms ChildCompleted #3 "fast"
        5 +0ms ChildStarted it/5 quick {"name":"third"}
        6 +0ms ChildCompleted #5 "third"
        7 +1m RunContinued by Reset
        run 2
        1 +0ms RunStarted family {}
        2 +0ms ChildStarted it/2 child {"name":"slow"}
        3 +0ms ChildStarted it/3 quick {"name":"fast"}
          +1m operator ana: reset it to event 4 (ChildCompleted); run 2 goes on from there; children that were started after that go on by themselves: it/5
        4 +1m ChildCompleted #3 "fast"
        5 +1m ChildStarted it/2.5 quick {"name":"third"}
        6 +1m ChildCompleted #5 "third"
        7 +2m ChildCompleted #2 "slow"
        8 +2m ActivityScheduled ship {"parcel":"slow fast third"}
          +2m ship#8 attempt 1 failed: no lorry
        9 +2m ActivityFailed #8 terminal: no lorry
        10 +2m RunFailed no lorry
    "#]]).await;
}

#[test]
async fn what_a_child_told_the_run_before_is_told_again() {
    let play = async |app: &TestApp| {
        app.start("it", family()).await;
        app.advance(MINUTE).await;
        app.signal("it/2", "go", &()).await.unwrap();
        app.advance(MINUTE).await;
        let answer = act(app, |run| run.reset(ResetTo::Event(Seq(3)))).await;
        app.advance(MINUTE).await;
        told(app, answer, 2).await
    };
    check(play, expect![[r#"
        reset it to event 3 (ChildStarted it/3); run 2 goes on from there; children that were started after that go on by themselves: it/3, it/5
        run 1
        1 +0ms RunStarted family {}
        2 +0ms ChildStarted it/2 child {"name":"slow"}
        3 +0ms ChildStarted it/3 quick {"name":"fast"}
        4 +0ms ChildCompleted #3 "fast"
        5 +0ms ChildStarted it/5 quick {"name":"third"}
        6 +0ms ChildCompleted #5 "third"
        7 +1m ChildCompleted #2 "slow"
        8 +1m ActivityScheduled ship {"parcel":"slow fast third"}
          +1m ship#8 attempt 1 failed: no lorry
        9 +1m ActivityFailed #8 terminal: no lorry
        10 +1m RunFailed no lorry
        11 +2m RunContinued by Reset
        run 2
        1 +0ms RunStarted family {}
        2 +0ms ChildStarted it/2 child {"name":"slow"}
          +2m operator ana: reset it to event 3 (ChildStarted it/3); run 2 goes on from there; children that were started after that go on by themselves: it/3, it/5
        3 +2m ChildStarted it/2.3 quick {"name":"fast"}
        4 +2m ChildCompleted #2 "slow"
        5 +2m ChildCompleted #3 "fast"
        6 +2m ChildStarted it/2.6 quick {"name":"third"}
        7 +2m ChildCompleted #6 "third"
        8 +2m ActivityScheduled ship {"parcel":"slow fast third"}
          +2m ship#8 attempt 1 failed: no lorry
        9 +2m ActivityFailed #8 terminal: no lorry
        10 +2m RunFailed no lorry
    "#]]).await;
}

#[test]
async fn a_run_that_has_begun_to_undo_is_reset_only_by_who_says_so() {
    let play = async |app: &TestApp| {
        app.start("it", booking()).await;
        app.advance(MINUTE).await;
        let refused = act(app, |run| run.reset(ResetTo::LastFailure)).await;
        let reset = |run: &RunHandle| run.reset(ResetTo::LastFailure).even_if_undone();
        let answer = act(app, reset).await;
        app.advance(MINUTE).await;
        refused + "\n" + &told(app, answer, 2).await
    };
    check(play, expect![[r#"
        it has begun to undo what it did, and what is undone stays undone; reset it all the same with even_if_undone (--even-if-undone)
        reset it to event 5 (ActivityScheduled ship); run 2 goes on from there
        run 1
        1 +0ms RunStarted booking {}
        2 +0ms ActivityScheduled key {"of":"seat"}
        3 +0ms ActivityCompleted #2 "seat 1/2"
        4 +0ms CompensationRecorded #2 undo {"what":"seat"}
        5 +0ms ActivityScheduled ship {"parcel":"ticket"}
          +0ms ship#5 attempt 1 failed: no lorry
        6 +0ms ActivityFailed #5 terminal: no lorry
        7 +0ms ActivityScheduled undo to undo #2 {"what":"seat"}
        8 +0ms ActivityCompleted #7 "seat"
        9 +0ms RunFailed (compensation complete) no lorry
          +1m operator ana: it has begun to undo what it did, and what is undone stays undone; reset it all the same with even_if_undone (--even-if-undone)
        10 +1m RunContinued by Reset
        run 2
        1 +0ms RunStarted booking {}
        2 +0ms ActivityScheduled key {"of":"seat"}
        3 +0ms ActivityCompleted #2 "seat 1/2"
        4 +0ms CompensationRecorded #2 undo {"what":"seat"}
          +1m operator ana: reset it to event 5 (ActivityScheduled ship); run 2 goes on from there
        5 +1m ActivityScheduled ship {"parcel":"ticket"}
          +1m ship#5 attempt 1 failed: no lorry
        6 +1m ActivityFailed #5 terminal: no lorry
        7 +1m ActivityScheduled undo to undo #2 {"what":"seat"}
        8 +1m ActivityCompleted #7 "seat"
        9 +1m RunFailed (compensation complete) no lorry
    "#]]).await;
}

#[test]
async fn the_current_run_of_a_chain_is_reset() {
    let play = async |app: &TestApp| {
        app.start("it", pages(1)).await;
        app.advance(MINUTE).await;
        let answer = act(app, |run| run.reset(ResetTo::Before("key".to_string()))).await;
        app.advance(MINUTE).await;
        let status: Option<String> = app.client().status("it").await.unwrap();
        format!("{status:?}\n") + &told(app, answer, 3).await
    };
    check(
        play,
        expect![[r#"
            Some("stored")
            reset it to event 3 (ActivityScheduled key); run 3 goes on from there
            run 1
            1 +0ms RunStarted pages {"page":1}
            2 +0ms StatusSet "page 1"
            3 +0ms RunContinued by Workflow {"page":2}
            run 2
            1 +0ms RunStarted pages {"page":2}
            2 +0ms StatusSet "page 2"
            3 +0ms ActivityScheduled key {"of":"page"}
            4 +0ms ActivityCompleted #3 "page 2/3"
            5 +0ms StatusSet "stored"
            6 +0ms ActivityScheduled ship {"parcel":"page"}
              +0ms ship#6 attempt 1 failed: no lorry
            7 +0ms ActivityFailed #6 terminal: no lorry
            8 +0ms RunFailed no lorry
            9 +1m RunContinued by Reset
            run 3
            1 +0ms RunStarted pages {"page":2}
            2 +0ms StatusSet "page 2"
              +1m operator ana: reset it to event 3 (ActivityScheduled key); run 3 goes on from there
            3 +1m ActivityScheduled key {"of":"page"}
            4 +1m ActivityCompleted #3 "page 3/3"
            5 +1m StatusSet "stored"
            6 +1m ActivityScheduled ship {"parcel":"page"}
              +1m ship#6 attempt 1 failed: no lorry
            7 +1m ActivityFailed #6 terminal: no lorry
            8 +1m RunFailed no lorry
        "#]],
    )
    .await;
}

#[test]
async fn an_earlier_run_of_a_chain_is_not_reset() {
    let app = app().await;
    app.start("it", pages(1)).await;
    app.advance(MINUTE).await;
    let uid = app.client().find("it").await.unwrap().unwrap().uid;
    let earlier = app.client().run_of(RunKey { uid, run: 1 });
    let refused = earlier.reset(ResetTo::Event(Seq(2))).await.unwrap();
    assert_eq!(
        refused.to_string(),
        "run 1 of it is over; only its current run, number 2, can be reset"
    );
}

#[test]
async fn a_call_that_must_not_run_twice_ends_when_its_run_is_reset() {
    let play = async |app: &TestApp| {
        app.start("it", rocket()).await;
        app.advance(MINUTE).await;
        let answer = act(app, |run| run.reset(ResetTo::Event(Seq(3)))).await;
        app.signal("it", "land", &()).await.unwrap();
        app.advance(MINUTE).await;
        told(app, answer, 2).await
    };
    check(
        play,
        expect![[r#"
            reset it to event 3 (ActivityCompleted); run 2 goes on from there
            run 1
            1 +0ms RunStarted rocket {}
            2 +0ms ActivityScheduled launch {}
            3 +0ms ActivityCompleted #2 "launched"
            4 +1m RunContinued by Reset
            run 2
            1 +0ms RunStarted rocket {}
            2 +0ms ActivityScheduled launch {}
              +1m operator ana: reset it to event 3 (ActivityCompleted); run 2 goes on from there
            3 +1m ActivityFailed #2 worker_lost: worker_lost: launch#2 may have run before its run was reset, and must not run twice (at_most_once)
            4 +1m SignalReceived land null
            5 +1m RunCompleted false
        "#]],
    )
    .await;
}

#[test]
async fn a_reset_that_makes_no_sense_is_refused_with_the_reason() {
    let app = app().await;
    app.start("it", order()).await;
    let mut text = String::new();
    for to in [1, 2, 9] {
        text += &act(&app, |run| run.reset(ResetTo::Event(Seq(to)))).await;
        text += "\n";
    }
    text += &act(&app, |run| run.reset(ResetTo::LastFailure)).await;
    text += "\n";
    text += &act(&app, |run| run.reset(ResetTo::Before("ship".to_string()))).await;
    text += "\n";
    act(&app, |run| run.pause()).await;
    text += &act(&app, |run| run.reset(ResetTo::LastFailure)).await;
    text += "\n";
    assert_eq!(app.describe("it").await.instance.status, Status::Paused);
    text += &act(&app, |run| run.restart()).await;
    text += "\n";
    expect![[r#"
        it has only begun; there is no event to go back to
        it has only begun; there is no event to go back to
        it has only begun; there is no event to go back to
        it has no call and no child that failed
        it has no call of ship
        it has no call and no child that failed
        it is paused; only what is closed is restarted
    "#]]
    .assert_eq(&text);
}

#[test]
async fn a_paused_run_is_reset_and_goes_on() {
    let play = async |app: &TestApp| {
        let start = |start: resurgam::Start<String>| start.total_timeout(2 * HOUR);
        app.start_with("it", order(), start).await;
        app.signal("it", "item", &"book").await.unwrap();
        app.advance(MINUTE).await;
        act(app, |run| run.pause().calls()).await;
        app.signal("it", "item", &"lamp").await.unwrap();
        app.advance(HOUR).await;
        let answer = act(app, |run| run.reset(ResetTo::Before("key".to_string()))).await;
        app.advance(HOUR + 30 * MINUTE).await;
        let pause = app.client().find("it").await.unwrap().unwrap().pause;
        assert_eq!(pause.since, None);
        assert_eq!(pause.stood_still(), HOUR, "its whole time stood still");
        told(app, answer, 2).await
    };
    check(play, expect![[r#"
        reset it to event 5 (ActivityScheduled key); run 2 goes on from there; it was paused, and is no longer
        run 1
        1 +0ms RunStarted order {}
        2 +0ms SignalReceived item "book"
        3 +0ms KvSet items "book"
        4 +0ms StatusSet "one item"
        5 +0ms ActivityScheduled key {"of":"stored"}
        6 +0ms ActivityCompleted #5 "stored 1/5"
          +1m operator ana: paused it
        7 +1h 1m RunContinued by Reset
        run 2
        1 +0ms RunStarted order {}
        2 +0ms SignalReceived item "book"
        3 +0ms KvSet items "book"
        4 +0ms StatusSet "one item"
          +1h 1m operator ana: reset it to event 5 (ActivityScheduled key); run 2 goes on from there; it was paused, and is no longer
        5 +1h 1m ActivityScheduled key {"of":"stored"}
        6 +1h 1m ActivityCompleted #5 "stored 2/5"
        7 +1h 1m SignalReceived item "lamp"
        8 +1h 1m KvSet last "lamp"
        9 +1h 1m StatusSet "two items"
        10 +1h 1m TimerStarted until +1h 11m
        11 +1h 11m TimerFired #10
        12 +1h 11m ActivityScheduled ship {"parcel":"book and lamp"}
          +1h 11m ship#12 attempt 1 failed: no lorry
        13 +1h 11m ActivityFailed #12 terminal: no lorry
        14 +1h 11m RunFailed no lorry
    "#]]).await;
}

mod deployed {
    use super::*;

    /// Asks for a call that the histories of `order` do not have.
    #[workflow]
    pub(super) async fn order(ctx: WorkflowContext) -> Result<String, Failure> {
        let first: String = ctx.signal("item").await?;
        ctx.call(super::undo("the shelf".to_string())).await?;
        Ok(first)
    }
}

#[test]
async fn a_run_that_new_code_blocked_goes_back_to_before_the_change_and_on() {
    let app = app().await;
    app.start("it", order()).await;
    app.signal("it", "item", &"book").await.unwrap();
    app.advance(MINUTE).await;
    let changed = TestApp::builder().workflow(deployed::order).activity(key).activity(undo);
    app.restart_with(changed).await;
    app.signal("it", "item", &"lamp").await.unwrap();
    app.advance(MINUTE).await;
    assert_eq!(app.describe("it").await.instance.status, Status::Blocked);
    let answer = act(&app, |run| run.reset(ResetTo::Event(Seq(3)))).await;
    app.advance(MINUTE).await;
    expect![[r#"
        reset it to event 3 (KvSet); run 2 goes on from there
        run 1
        1 +0ms RunStarted order {}
        2 +0ms SignalReceived item "book"
        3 +0ms KvSet items "book"
        4 +0ms StatusSet "one item"
        5 +0ms ActivityScheduled key {"of":"stored"}
        6 +0ms ActivityCompleted #5 "stored 1/5"
        7 +2m RunContinued by Reset
        run 2
        1 +0ms RunStarted order {}
        2 +0ms SignalReceived item "book"
          +2m operator ana: reset it to event 3 (KvSet); run 2 goes on from there
        3 +2m ActivityScheduled undo {"what":"the shelf"}
        4 +2m ActivityCompleted #3 "the shelf"
        5 +2m RunCompleted "book"
    "#]]
    .assert_eq(&told(&app, answer, 2).await);
    let row = app.describe("it").await.instance;
    assert_eq!((row.status, row.error), (Status::Completed, None));
}

#[test]
async fn a_run_that_was_terminated_goes_back_to_before_that_and_not_to_its_end() {
    let app = app().await;
    app.start("it", order()).await;
    app.terminate("it", "enough").await.unwrap();
    let end = act(&app, |run| run.reset(ResetTo::Event(Seq(3)))).await;
    let before = act(&app, |run| run.reset(ResetTo::Event(Seq(2)))).await;
    app.advance(SECOND).await;
    expect![[r#"
        it was terminated at event 2; it can go back to that event or before
        reset it to event 2 (TerminateRequested); run 2 goes on from there
        running
    "#]]
    .assert_eq(&format!("{end}\n{before}\n{}\n", app.describe("it").await.instance.status.name()));
}

#[test]
async fn a_child_whose_parent_was_told_is_not_reset() {
    let app = app().await;
    app.start("it", family()).await;
    app.advance(MINUTE).await;
    let mut text = String::new();
    for act in
        [|run: &RunHandle| run.restart(), |run: &RunHandle| run.reset(ResetTo::Event(Seq(2)))]
    {
        text += &app.act_on_run("it/3", act).await.unwrap().to_string();
        text += "\n";
    }
    expect![[r#"
        it/3 was started by it, which is open and was told how it ended; restart it when it is closed, or reset it
        it/3 is completed, and it, which started it, was told so; reset it instead
    "#]].assert_eq(&text);
}

#[test]
async fn a_reset_run_is_replayed_from_an_export() {
    let app = app().await;
    app.start("it", order()).await;
    app.signal("it", "item", &"book").await.unwrap();
    app.signal("it", "item", &"lamp").await.unwrap();
    app.advance(HOUR).await;
    act(&app, |run| run.reset(ResetTo::LastFailure)).await;
    app.advance(HOUR).await;
    act(&app, |run| run.reset(ResetTo::Event(Seq(6)))).await;
    app.advance(HOUR).await;
    let export = app.client().export_history("it").await.unwrap().unwrap();
    replay(&export, order).unwrap();
}

#[test]
async fn a_timeout_of_the_run_begins_again_and_that_of_the_instance_goes_on() {
    let play = async |app: &TestApp| {
        let start =
            |start: resurgam::Start<String>| start.run_timeout(HOUR).total_timeout(90 * MINUTE);
        app.start_with("it", order(), start).await;
        app.signal("it", "item", &"book").await.unwrap();
        app.advance(50 * MINUTE).await;
        let answer = act(app, |run| run.reset(ResetTo::Event(Seq(2)))).await;
        app.advance(30 * MINUTE).await;
        assert_eq!(app.client().find("it").await.unwrap().unwrap().status, Status::Running);
        app.advance(HOUR).await;
        told(app, answer, 2).await
    };
    check(play, expect![[r#"
        reset it to event 2 (SignalReceived item); run 2 goes on from there; a signal comes again
        run 1
        1 +0ms RunStarted order {}
        2 +0ms SignalReceived item "book"
        3 +0ms KvSet items "book"
        4 +0ms StatusSet "one item"
        5 +0ms ActivityScheduled key {"of":"stored"}
        6 +0ms ActivityCompleted #5 "stored 1/5"
        7 +50m RunContinued by Reset
        run 2
          +0ms operator ana: reset it to event 2 (SignalReceived item); run 2 goes on from there; a signal comes again
        1 +0ms RunStarted order {}
        2 +0ms SignalReceived item "book"
        3 +0ms KvSet items "book"
        4 +0ms StatusSet "one item"
        5 +0ms ActivityScheduled key {"of":"stored"}
        6 +0ms ActivityCompleted #5 "stored 2/5"
        7 +40m RunTimedOut total
        8 +40m RunFailed TotalTimeout: the instance was not done in time, after 1h 30m
    "#]]).await;
}

#[test]
async fn a_closed_instance_begins_again_with_its_input_options_and_tags() {
    let play = async |app: &TestApp| {
        let start = |start: resurgam::Start<String>| {
            start.priority(7).queue("default").tag("city", "Rome").delay(SECOND)
        };
        app.start_with("it", pages(1), start).await;
        app.advance(MINUTE).await;
        let before = app.client().find("it").await.unwrap().unwrap();
        let answer = act(app, |run| run.restart()).await;
        app.advance(MINUTE).await;
        let row = app.client().find("it").await.unwrap().unwrap();
        assert_ne!(row.uid, before.uid);
        assert_eq!((row.priority, &row.tags), (7, &before.tags));
        assert_eq!(row.settings.delay_ms, None);
        told(app, answer, 2).await
    };
    check(
        play,
        expect![[r#"
        restarted it
        run 1
          +0ms operator ana: restarted it
        1 +0ms RunStarted pages {"page":1}
        2 +0ms StatusSet "page 1"
        3 +0ms RunContinued by Workflow {"page":2}
        run 2
        1 +0ms RunStarted pages {"page":2}
        2 +0ms StatusSet "page 2"
        3 +0ms ActivityScheduled key {"of":"page"}
        4 +0ms ActivityCompleted #3 "page 2/3"
        5 +0ms StatusSet "stored"
        6 +0ms ActivityScheduled ship {"parcel":"page"}
          +0ms ship#6 attempt 1 failed: no lorry
        7 +0ms ActivityFailed #6 terminal: no lorry
        8 +0ms RunFailed no lorry
    "#]],
    )
    .await;
}

#[test]
async fn a_request_that_is_repeated_restarts_once() {
    let app = app().await;
    app.start("it", quick("a".to_string())).await.result().await.unwrap();
    let restart = || app.client().run("it").restart().by("ana").request_id("ticket-17");
    let first = restart().await.unwrap();
    app.advance(MINUTE).await;
    let uid = app.client().find("it").await.unwrap().unwrap().uid;
    assert_eq!(restart().await.unwrap(), first);
    assert_eq!(app.client().find("it").await.unwrap().unwrap().uid, uid);
}
