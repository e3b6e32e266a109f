//! Signals: kept in order until somebody waits for them, once each, and bounded.
//!
//! How those who wait share them is in `waiting.rs`; what goes over to the next run is in
//! `continuing.rs`.

use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::{Outcome, Status};
use resurgam_testing::{Crash, StoreCall, TestApp, TestBuilder};
use resurgam_watchdog::test;

use crate::common::{at_once, many};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

#[workflow]
async fn listen(ctx: WorkflowContext, signals: u32) -> Result<Vec<u32>, Failure> {
    let mut heard = Vec::new();
    for _ in 0..signals {
        heard.push(ctx.signal("number").await?);
    }
    Ok(heard)
}

/// Reads nothing for an hour, and then everything.
#[workflow]
async fn sleep_then_listen(ctx: WorkflowContext, signals: u32) -> Result<Vec<u32>, Failure> {
    ctx.sleep(HOUR).await?;
    let mut heard = Vec::new();
    for _ in 0..signals {
        heard.push(ctx.signal("number").await?);
    }
    Ok(heard)
}

fn app() -> TestBuilder {
    TestApp::builder().workflow(listen).workflow(sleep_then_listen)
}

#[test]
async fn signals_that_nobody_waits_for_are_kept_in_order_and_are_not_in_the_history_yet() {
    let app = app().start().await;
    let run = app.start("listen-1", sleep_then_listen(4)).await;
    for number in 1..=2 {
        run.signal("number", &number).await.unwrap();
    }
    app.restart().await;
    run.signal("number", &3).await.unwrap();
    app.advance(SECOND).await;
    assert_eq!(app.describe("listen-1").await.unread, ["number"; 3]);
    expect![[r#"
        1 +0ms RunStarted sleep_then_listen {"signals":4}
        2 +0ms TimerStarted until +1h
    "#]]
    .assert_eq(&run.history().await);
    app.advance(HOUR).await;
    run.signal("number", &4).await.unwrap();
    assert_eq!(run.result().await.unwrap(), [1, 2, 3, 4]);
    expect![[r#"
        1 +0ms RunStarted sleep_then_listen {"signals":4}
        2 +0ms TimerStarted until +1h
        3 +1h TimerFired #2
        4 +1h SignalReceived number 1
        5 +1h SignalReceived number 2
        6 +1h SignalReceived number 3
        7 +1h SignalReceived number 4
        8 +1h RunCompleted [1,2,3,4]
    "#]]
    .assert_eq(&run.history().await);
    assert_eq!(app.describe("listen-1").await.unread, [""; 0]);
}

#[test]
async fn signals_that_come_before_a_delayed_start_begins_are_kept() {
    let app = app().start().await;
    let run = app.start_with("listen-1", listen(3), |start| start.delay(HOUR)).await;
    run.signal("number", &1).await.unwrap();
    app.restart().await;
    run.signal("number", &2).await.unwrap();
    run.signal("number", &3).await.unwrap();
    assert_eq!(run.result().await.unwrap(), [1, 2, 3]);
    expect![[r#"
        1 +0ms RunStarted listen {"signals":3}, first turn at +1h
        2 +1h TimerFired #1
        3 +1h SignalReceived number 1
        4 +1h SignalReceived number 2
        5 +1h SignalReceived number 3
        6 +1h RunCompleted [1,2,3]
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn signals_of_several_names_are_taken_in_the_order_they_came() {
    #[workflow]
    async fn both(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
        ctx.sleep(HOUR).await?;
        let mut heard = Vec::new();
        for _ in 0..4 {
            let (_, word) = ctx.race(["a", "b"].map(|name| ctx.signal::<String>(name))).await;
            heard.push(word?);
        }
        Ok(heard)
    }
    let app = app().workflow(both).start().await;
    let run = app.start("both-1", both()).await;
    for (name, word) in [("b", "one"), ("a", "two"), ("c", "never"), ("a", "three"), ("b", "four")]
    {
        run.signal(name, &word).await.unwrap();
    }
    app.restart().await;
    assert_eq!(run.result().await.unwrap(), ["one", "two", "three", "four"]);
    assert_eq!(app.describe("both-1").await.unread, ["c"]);
}

#[test]
async fn a_flood_of_signals_is_read_in_order_across_a_crash() {
    let app = app().options(|options| options.max_batch_rows = 500).start().await;
    let run = app.start("listen-1", sleep_then_listen(500)).await;
    for number in 0..500 {
        run.signal("number", &number).await.unwrap();
    }
    app.advance(HOUR - SECOND).await;
    let before = app.commits();
    // The turns of an hour's signals come in several steps; the process dies between them.
    app.faults().crash(Crash::AfterCommit(before + 2));
    assert_eq!(run.result().await.unwrap(), (0..500).collect::<Vec<_>>());
    assert_eq!(app.describe("listen-1").await.unread, [""; 0]);
}

// How many.

#[test]
async fn a_sender_is_refused_when_too_many_are_unread_until_some_are_read() {
    let app = app().options(|options| options.max_unread_signals = 3).start().await;
    let run = app.start("listen-1", sleep_then_listen(4)).await;
    for number in 1..=3 {
        run.signal("number", &number).await.unwrap();
    }
    for restart in [false, true] {
        if restart {
            // Nobody has it in memory.
            app.restart().await;
        }
        let error = run.signal("number", &9).await.unwrap_err();
        assert!(error.is_full(), "{error}");
        expect![[
            r#"signal number to listen-1: 3 are unread already; send it again when some are read"#
        ]]
        .assert_eq(&error.to_string());
    }
    app.advance(2 * HOUR).await;
    run.signal("number", &4).await.unwrap();
    assert_eq!(run.result().await.unwrap(), [1, 2, 3, 4]);
}

#[test]
async fn a_signal_that_somebody_waits_for_is_taken_however_many_others_are_unread() {
    let app = app().options(|options| options.max_unread_signals = 3).start().await;
    let run = app.start("listen-1", listen(2)).await;
    for _ in 0..3 {
        run.signal("noise", &()).await.unwrap();
    }
    run.signal("noise", &()).await.unwrap_err();
    run.signal("number", &1).await.unwrap();
    app.restart().await;
    run.signal("number", &2).await.unwrap();
    assert_eq!(run.result().await.unwrap(), [1, 2]);
}

#[test]
async fn a_blocked_run_keeps_as_many_signals_as_any_other() {
    #[workflow]
    async fn stumble(ctx: WorkflowContext) -> Result<(), Failure> {
        let word: String = ctx.signal("word").await?;
        panic!("cannot stand {word}");
    }
    let app =
        app().workflow(stumble).options(|options| options.max_unread_signals = 3).start().await;
    let run = app.start("stumble-1", stumble()).await;
    for _ in 0..3 {
        run.signal("word", &"x").await.unwrap();
    }
    assert!(run.signal("word", &"x").await.unwrap_err().is_full());
    assert_eq!(app.describe("stumble-1").await.instance.status, Status::Blocked);
}

#[test]
async fn ten_thousand_unread_signals_are_the_limit() {
    let most = many(10_000) as usize;
    let app = match most {
        10_000 => app().start().await,
        _ => app().options(|options| options.max_unread_signals = most).start().await,
    };
    let run = app.start("listen-1", sleep_then_listen(most as u32)).await;
    let client = app.client();
    let signals = (0..most).map(|number| {
        let client = client.clone();
        async move { client.signal("listen-1", "number", &number).await }
    });
    assert!(at_once(signals).await.iter().all(Result::is_ok));
    assert!(client.signal("listen-1", "number", &0).await.unwrap_err().is_full());
    assert_eq!(run.result().await.unwrap().len(), most);
}

// Once.

#[test]
async fn a_signal_with_a_request_id_is_taken_once_wherever_the_first_one_is() {
    let app = app().start().await;
    let run = app.start("listen-1", sleep_then_listen(2)).await;
    let client = app.client();
    let send = || client.signal_once("listen-1", "number", &7, "request-7");
    send().await.unwrap();
    // It waits in memory, then in the store, then it is read, then the instance is closed.
    send().await.unwrap();
    app.restart().await;
    let client = app.client();
    let send = || client.signal_once("listen-1", "number", &7, "request-7");
    send().await.unwrap();
    app.advance(2 * HOUR).await;
    send().await.unwrap();
    run.signal("number", &8).await.unwrap();
    assert_eq!(run.result().await.unwrap(), [7, 8]);
    send().await.unwrap();
    // And its id is another one's.
    let next = app.start_with("listen-1", listen(1), |start| start.replace_closed()).await;
    send().await.unwrap();
    next.signal("number", &9).await.unwrap();
    assert_eq!(next.result().await.unwrap(), [9]);
}

#[test]
async fn the_same_request_id_for_another_instance_is_another_signal() {
    let app = app().start().await;
    let client = app.client();
    for number in 1..=2 {
        let id = format!("listen-{number}");
        let run = app.start(&id, listen(1)).await;
        client.signal_once(&id, "number", &number, "request-7").await.unwrap();
        assert_eq!(run.result().await.unwrap(), [number]);
    }
}

// The end.

#[test]
async fn what_a_closed_instance_did_not_read_stays_visible() {
    let app = app().start().await;
    let run = app.start("listen-1", listen(1)).await;
    run.signal("other", &1).await.unwrap();
    run.signal("number", &1).await.unwrap();
    run.result().await.unwrap();
    assert_eq!(app.describe("listen-1").await.unread, ["other"]);
    // It wakes nobody.
    let commits = app.commits();
    app.restart().await;
    app.advance(24 * HOUR).await;
    assert_eq!(app.commits(), commits);
}

#[test]
async fn a_signal_that_loses_the_race_with_the_close_is_refused_or_stays_visible() {
    let app = app().start().await;
    let run = app.start("listen-1", listen(1)).await;
    app.faults().refuse(StoreCall::Commit, 3);
    let client = app.client();
    let first = tokio::spawn(async move { client.signal("listen-1", "number", &1).await });
    app.advance(Duration::from_millis(1)).await;
    let client = app.client();
    let second = tokio::spawn(async move { client.signal("listen-1", "number", &2).await });
    app.advance(SECOND).await;
    app.wait_for("the first answer", first).await.unwrap().unwrap();
    let second = app.wait_for("the second answer", second).await.unwrap();
    assert!(second.unwrap_err().is_closed());
    assert_eq!(run.result().await.unwrap(), [1]);
}

#[test]
async fn a_signal_that_was_stored_in_time_and_lost_the_race_with_the_close_stays_unread() {
    let app = app().start().await;
    let run = app.start_with("listen-1", listen(1), |start| start.delay(HOUR)).await;
    // Both are taken while the instance is open, and it closes with the first.
    run.signal("number", &1).await.unwrap();
    run.signal("number", &2).await.unwrap();
    assert_eq!(run.result().await.unwrap(), [1]);
    assert_eq!(app.describe("listen-1").await.unread, ["number"]);
}

#[test]
async fn signals_of_a_cancelled_run_stay_unread() {
    let app = app().start().await;
    let run = app.start("listen-1", sleep_then_listen(1)).await;
    run.signal("number", &1).await.unwrap();
    run.cancel("enough").await.unwrap();
    assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
    assert_eq!(app.describe("listen-1").await.unread, ["number"]);
}
