//! A reset of a run with everything behind it, and one of a long history.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::{ResetTo, Status};
use resurgam_testing::TestApp;
use resurgam_watchdog::test;

use crate::common::{crashes, is_slow};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// Whether there is a lorry.
#[derive(Clone, Default)]
struct Lorry(Arc<AtomicBool>);

/// Answers with its idempotency key, without what differs from test to test.
#[activity]
async fn key(ctx: ActivityContext, of: String) -> Result<String, Failure> {
    let key = ctx.idempotency_key();
    let place = key.split_once('/').map_or("", |(_, place)| place);
    Ok(format!("{of} {place}"))
}

#[activity(retry = RetryPolicy::once())]
async fn ship(ctx: ActivityContext) -> Result<String, Failure> {
    match ctx.state::<Lorry>().0.load(Ordering::SeqCst) {
        true => Ok("shipped".to_string()),
        false => Err(Failure::of_type("NoLorry", "all are on the road")),
    }
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

/// Continues as new, and then has a child that is open and one that is over, a signal, a step that
/// can be undone, a timer, a later child and a call that may fail. A signal decides what follows.
#[workflow]
async fn tour(ctx: WorkflowContext, day: u32) -> Result<String, Failure> {
    ctx.set_status(&format!("day {day}"));
    if day == 1 {
        ctx.call(key("first day".to_string())).await?;
        return ctx.continue_as_new(tour(2));
    }
    let slow = ctx.child(child("slow".to_string())).start();
    ctx.child(quick("fast".to_string())).await?;
    let item: String = ctx.signal("item").await?;
    ctx.set("item", &item);
    ctx.call(key("seat".to_string())).compensate_with(|seat| key(format!("undo {seat}"))).await?;
    ctx.sleep(10 * MINUTE).await?;
    ctx.child(quick("later".to_string())).await?;
    let shipped = ctx.call(ship()).await;
    let decision: String = ctx.signal("decide").await?;
    match (shipped, decision.as_str()) {
        (Ok(shipped), "go on") => Ok(format!("{item} {shipped} {}", slow.await?)),
        (Err(failure), _) => Err(failure),
        (Ok(_), _) => Err(Failure::terminal("called off")),
    }
}

async fn app() -> (TestApp, Lorry) {
    let lorry = Lorry::default();
    let builder = TestApp::builder()
        .workflow(tour)
        .workflow(child)
        .workflow(quick)
        .activity(key)
        .activity(ship)
        .state(lorry.clone());
    (builder.start().await, lorry)
}

async fn act(app: &TestApp, to: ResetTo) -> String {
    let reset = app.act_on_run("it", |run| run.reset(to.clone()).by("ana")).await;
    reset.unwrap().to_string()
}

/// Resets the tour to before the timer fired, when it has gone on to its end or waits for a
/// decision, and has it end in the other way.
async fn play(app: &TestApp, lorry: &Lorry, goes_on: bool) -> String {
    lorry.0.store(!goes_on, Ordering::SeqCst);
    app.start("it", tour(1)).await;
    app.signal("it", "item", &"tent").await.unwrap();
    app.advance(HOUR).await;
    lorry.0.store(true, Ordering::SeqCst);
    let events = app.client().events("it").await.unwrap();
    let fired = events.iter().find(|event| event.kind.name() == "TimerFired").unwrap().seq;
    let mut text = act(app, ResetTo::Event(fired)).await + "\n";
    app.advance(MINUTE).await;
    let open = events.iter().find_map(|event| match &event.kind {
        resurgam::EventKind::ChildStarted(child) => Some(child.id.clone()),
        _ => None,
    });
    app.signal(&open.unwrap(), "go", &()).await.unwrap();
    app.signal("it", "decide", &if goes_on { "go on" } else { "stop" }).await.unwrap();
    app.advance(HOUR).await;
    for run in 1..=3 {
        text += &format!("run {run}\n{}", app.run_history("it", run).await);
    }
    let item: Option<String> = app.client().value("it", "item").await.unwrap();
    let status: Option<String> = app.client().status("it").await.unwrap();
    text + &format!("item {item:?}, status {status:?}\n")
}

async fn check(goes_on: bool, expected: expect_test::Expect) {
    let (app, lorry) = self::app().await;
    let story = play(&app, &lorry, goes_on).await;
    expected.assert_eq(&story);
    for crash in crashes(app.commits()) {
        let (app, lorry) = self::app().await;
        app.faults().crash(crash);
        let crashed = play(&app, &lorry, goes_on).await;
        if !crashed.contains(" lost: ") {
            assert_eq!(crashed, story, "{crash:?}");
        }
    }
}

#[test(minutes = 15)]
async fn a_run_with_everything_behind_it_goes_on_from_an_earlier_place() {
    check(true, expect![[r#"
        reset it to event 12 (TimerFired); run 3 goes on from there; children that were started after that go on by themselves: it/2.13
        run 1
        1 +0ms RunStarted tour {"day":1}
        2 +0ms StatusSet "day 1"
        3 +0ms ActivityScheduled key {"of":"first day"}
        4 +0ms ActivityCompleted #3 "first day 1/3"
        5 +0ms RunContinued by Workflow {"day":2}
        run 2
        1 +0ms RunStarted tour {"day":2}
        2 +0ms StatusSet "day 2"
        3 +0ms ChildStarted it/2.3 child {"name":"slow"}
        4 +0ms ChildStarted it/2.4 quick {"name":"fast"}
        5 +0ms ChildCompleted #4 "fast"
        6 +0ms SignalReceived item "tent"
        7 +0ms KvSet item "tent"
        8 +0ms ActivityScheduled key {"of":"seat"}
        9 +0ms ActivityCompleted #8 "seat 2/8"
        10 +0ms CompensationRecorded #8 key {"of":"undo seat 2/8"}
        11 +0ms TimerStarted until +10m
        12 +10m TimerFired #11
        13 +10m ChildStarted it/2.13 quick {"name":"later"}
        14 +10m ChildCompleted #13 "later"
        15 +10m ActivityScheduled ship {}
          +10m ship#15 attempt 1 failed: NoLorry: all are on the road
        16 +10m ActivityFailed #15 max_attempts: NoLorry: all are on the road
        17 +1h RunContinued by Reset
        run 3
        1 +0ms RunStarted tour {"day":2}
        2 +0ms StatusSet "day 2"
        3 +0ms ChildStarted it/2.3 child {"name":"slow"}
        4 +0ms ChildStarted it/2.4 quick {"name":"fast"}
        5 +0ms ChildCompleted #4 "fast"
        6 +0ms SignalReceived item "tent"
        7 +0ms KvSet item "tent"
        8 +0ms ActivityScheduled key {"of":"seat"}
        9 +0ms ActivityCompleted #8 "seat 2/8"
        10 +0ms CompensationRecorded #8 key {"of":"undo seat 2/8"}
        11 +0ms TimerStarted until +10m
          +1h operator ana: reset it to event 12 (TimerFired); run 3 goes on from there; children that were started after that go on by themselves: it/2.13
        12 +1h TimerFired #11
        13 +1h ChildStarted it/3.13 quick {"name":"later"}
        14 +1h ChildCompleted #13 "later"
        15 +1h ActivityScheduled ship {}
        16 +1h ActivityCompleted #15 "shipped"
        17 +1h 1m ChildCompleted #3 "slow"
        18 +1h 1m SignalReceived decide "go on"
        19 +1h 1m RunCompleted "tent shipped slow"
        item Some("tent"), status Some("day 2")
    "#]]).await;
}

#[test(minutes = 15)]
async fn a_run_with_everything_behind_it_is_undone_once_when_it_fails_after_a_reset() {
    check(false, expect![[r#"
        reset it to event 12 (TimerFired); run 3 goes on from there; children that were started after that go on by themselves: it/2.13
        run 1
        1 +0ms RunStarted tour {"day":1}
        2 +0ms StatusSet "day 1"
        3 +0ms ActivityScheduled key {"of":"first day"}
        4 +0ms ActivityCompleted #3 "first day 1/3"
        5 +0ms RunContinued by Workflow {"day":2}
        run 2
        1 +0ms RunStarted tour {"day":2}
        2 +0ms StatusSet "day 2"
        3 +0ms ChildStarted it/2.3 child {"name":"slow"}
        4 +0ms ChildStarted it/2.4 quick {"name":"fast"}
        5 +0ms ChildCompleted #4 "fast"
        6 +0ms SignalReceived item "tent"
        7 +0ms KvSet item "tent"
        8 +0ms ActivityScheduled key {"of":"seat"}
        9 +0ms ActivityCompleted #8 "seat 2/8"
        10 +0ms CompensationRecorded #8 key {"of":"undo seat 2/8"}
        11 +0ms TimerStarted until +10m
        12 +10m TimerFired #11
        13 +10m ChildStarted it/2.13 quick {"name":"later"}
        14 +10m ChildCompleted #13 "later"
        15 +10m ActivityScheduled ship {}
        16 +10m ActivityCompleted #15 "shipped"
        17 +1h RunContinued by Reset
        run 3
        1 +0ms RunStarted tour {"day":2}
        2 +0ms StatusSet "day 2"
        3 +0ms ChildStarted it/2.3 child {"name":"slow"}
        4 +0ms ChildStarted it/2.4 quick {"name":"fast"}
        5 +0ms ChildCompleted #4 "fast"
        6 +0ms SignalReceived item "tent"
        7 +0ms KvSet item "tent"
        8 +0ms ActivityScheduled key {"of":"seat"}
        9 +0ms ActivityCompleted #8 "seat 2/8"
        10 +0ms CompensationRecorded #8 key {"of":"undo seat 2/8"}
        11 +0ms TimerStarted until +10m
          +1h operator ana: reset it to event 12 (TimerFired); run 3 goes on from there; children that were started after that go on by themselves: it/2.13
        12 +1h TimerFired #11
        13 +1h ChildStarted it/3.13 quick {"name":"later"}
        14 +1h ChildCompleted #13 "later"
        15 +1h ActivityScheduled ship {}
        16 +1h ActivityCompleted #15 "shipped"
        17 +1h 1m ChildCompleted #3 "slow"
        18 +1h 1m SignalReceived decide "stop"
        19 +1h 1m ActivityScheduled key to undo #8 {"of":"undo seat 2/8"}
        20 +1h 1m ActivityCompleted #19 "undo seat 2/8 3/19"
        21 +1h 1m RunFailed (compensation complete) called off
        item Some("tent"), status Some("day 2")
    "#]]).await;
}

/// Notes many things, and then ships.
#[workflow]
async fn long(ctx: WorkflowContext, notes: u32) -> Result<String, Failure> {
    for note in 0..notes {
        ctx.set("note", &note);
    }
    ctx.call(ship()).await
}

#[test]
async fn a_long_history_is_copied_by_the_store() {
    let notes = if is_slow() { 9_900 } else { 49_900 };
    let lorry = Lorry::default();
    let builder = TestApp::builder().workflow(long).activity(ship).state(lorry.clone());
    let app = builder.start().await;
    app.start("it", long(notes)).await.failure().await;
    lorry.0.store(true, Ordering::SeqCst);
    let before = app.commits();
    let answer = act(&app, ResetTo::LastFailure).await;
    let cut = notes + 2;
    let expected =
        format!("reset it to event {cut} (ActivityScheduled ship); run 2 goes on from there");
    assert_eq!(answer, expected);
    app.advance(MINUTE).await;
    let row = app.client().find("it").await.unwrap().unwrap();
    assert_eq!((row.run, row.status), (2, Status::Completed));
    let events = app.client().events("it").await.unwrap();
    // The copy, the call, its end and that of the run.
    assert_eq!(events.len(), notes as usize + 1 + 3);
    let value: Option<u32> = app.client().value("it", "note").await.unwrap();
    assert_eq!(value, Some(notes - 1));
    // The request, the reset, and the run: the copy takes no commits of its own.
    assert!(app.commits() - before <= 8, "{}", app.commits() - before);
}
