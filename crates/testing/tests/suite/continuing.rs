//! Continuing as new: the same instance, its next run, and what goes over to it.

use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam::{InstanceFilter, Start, Status};
use resurgam_testing::{StoreCall, TestApp, TestBuilder};
use resurgam_watchdog::test;

use crate::common::many;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

#[activity]
async fn step(round: u32) -> Result<u32, Failure> {
    Ok(round)
}

/// Does one step in each run.
#[workflow]
async fn rounds(ctx: WorkflowContext, round: u32, last: u32) -> Result<u32, Failure> {
    ctx.call(step(round)).await?;
    match round == last {
        true => Ok(round),
        false => ctx.continue_as_new(rounds(round + 1, last)),
    }
}

fn app() -> TestBuilder {
    TestApp::builder().workflow(rounds).activity(step)
}

/// The histories of all runs of an instance.
async fn histories(app: &TestApp, id: &str) -> String {
    let mut text = String::new();
    for run in 1..=app.describe(id).await.instance.run {
        text += &format!("run {run}\n{}", app.run_history(id, run).await);
    }
    text
}

#[test]
async fn the_next_run_has_the_same_id_and_an_empty_history() {
    let app = app().start().await;
    let run = app.start("rounds-1", rounds(1, 3)).await;
    // The result is that of the last run.
    assert_eq!(run.result().await.unwrap(), 3);
    expect![[r#"
        run 1
        1 +0ms RunStarted rounds {"round":1,"last":3}
        2 +0ms ActivityScheduled step {"round":1}
        3 +0ms ActivityCompleted #2 1
        4 +0ms RunContinued by Workflow {"round":2,"last":3}
        run 2
        1 +0ms RunStarted rounds {"round":2,"last":3}
        2 +0ms ActivityScheduled step {"round":2}
        3 +0ms ActivityCompleted #2 2
        4 +0ms RunContinued by Workflow {"round":3,"last":3}
        run 3
        1 +0ms RunStarted rounds {"round":3,"last":3}
        2 +0ms ActivityScheduled step {"round":3}
        3 +0ms ActivityCompleted #2 3
        4 +0ms RunCompleted 3
    "#]]
    .assert_eq(&histories(&app, "rounds-1").await);
    let row = app.describe("rounds-1").await.instance;
    assert_eq!(
        (row.run, row.status, row.input.as_str()),
        (3, Status::Completed, r#"{"round":3,"last":3}"#)
    );
}

#[test]
async fn a_workflow_can_continue_in_its_first_turn() {
    #[workflow]
    async fn at_once(ctx: WorkflowContext, left: u32) -> Result<u32, Failure> {
        if left == 0 {
            Ok(ctx.get("seen").unwrap_or(0))
        } else {
            ctx.set("seen", &left);
            ctx.continue_as_new(at_once(left - 1))
        }
    }
    let app = app().workflow(at_once).start().await;
    let run = app.start("once-1", at_once(5)).await;
    assert_eq!(run.result().await.unwrap(), 1);
    assert_eq!(app.describe("once-1").await.instance.run, 6);
}

#[test]
async fn a_thousand_runs_go_on_across_restarts() {
    let app = app().start().await;
    let number = many(1_000) as u32;
    let run = app.start("rounds-1", rounds(1, number)).await;
    app.restart().await;
    assert_eq!(run.result().await.unwrap(), number);
    assert_eq!(app.describe("rounds-1").await.instance.run, number);
}

/// Reads one word in each run.
#[workflow]
async fn listen(ctx: WorkflowContext, heard: Vec<String>) -> Result<Vec<String>, Failure> {
    let mut heard = heard;
    heard.push(ctx.signal("word").await?);
    match heard.len() {
        4 => Ok(heard),
        _ => ctx.continue_as_new(listen(heard)),
    }
}

#[test]
async fn unread_signals_go_over_in_the_order_they_came() {
    let app = app().workflow(listen).start().await;
    // They are there before the first turn, so that each run leaves some unread.
    let run = app.start_with("listen-1", listen(Vec::new()), |start| start.delay(HOUR)).await;
    for word in ["one", "two", "three"] {
        run.signal("word", &word).await.unwrap();
        run.signal("other", &word).await.unwrap();
    }
    app.advance(HOUR).await;
    app.restart().await;
    run.signal("word", &"four").await.unwrap();
    assert_eq!(run.result().await.unwrap(), ["one", "two", "three", "four"]);
    // What nobody read is still there.
    assert_eq!(app.describe("listen-1").await.unread, ["other", "other", "other"]);
}

#[test]
async fn a_signal_that_was_given_and_not_read_goes_over_before_later_ones() {
    #[workflow]
    async fn forgetful(ctx: WorkflowContext, second: bool) -> Result<Vec<String>, Failure> {
        if second {
            let one = ctx.signal("word").await?;
            return Ok(vec![one, ctx.signal("word").await?, ctx.signal("word").await?]);
        }
        // Both are given, and nobody looks at them.
        let both = ctx.join_all([ctx.signal::<String>("word"), ctx.signal::<String>("word")]);
        let mut both = Box::pin(both);
        let polled = std::future::poll_fn(|cx| {
            std::task::Poll::Ready(Future::poll(both.as_mut(), cx).is_pending())
        });
        assert!(polled.await);
        ctx.signal::<()>("end").await?;
        ctx.continue_as_new(forgetful(true))
    }
    let app = app().workflow(forgetful).start().await;
    let run = app.start("forgetful-1", forgetful(false)).await;
    for word in ["one", "two", "three"] {
        run.signal("word", &word).await.unwrap();
    }
    run.signal("end", &()).await.unwrap();
    app.restart().await;
    assert_eq!(run.result().await.unwrap(), ["one", "two", "three"]);
    expect![[r#"
        run 1
        1 +0ms RunStarted forgetful {"second":false}
        2 +0ms SignalReceived word "one"
        3 +0ms SignalReceived word "two"
        4 +0ms SignalReceived end null
        5 +0ms RunContinued by Workflow {"second":true}
        run 2
        1 +0ms RunStarted forgetful {"second":true}
        2 +0ms SignalReceived word "three"
        3 +0ms RunCompleted ["one","two","three"]
    "#]]
    .assert_eq(&histories(&app, "forgetful-1").await);
}

#[test]
async fn a_signal_that_was_sent_before_is_one_across_runs() {
    #[workflow]
    async fn count(ctx: WorkflowContext, round: u32) -> Result<u32, Failure> {
        let word: String = ctx.signal("word").await?;
        match word.as_str() {
            "end" => Ok(round),
            _ => ctx.continue_as_new(count(round + 1)),
        }
    }
    let app = app().workflow(count).start().await;
    let run = app.start("count-1", count(1)).await;
    let client = app.client();
    for _ in 0..3 {
        client.signal_once("count-1", "word", &"next", "request-1").await.unwrap();
        app.advance(SECOND).await;
    }
    run.signal("word", &"end").await.unwrap();
    assert_eq!(run.result().await.unwrap(), 2);
    // The same answer also when it is over, and for the next one of that id.
    client.signal_once("count-1", "word", &"next", "request-1").await.unwrap();
    let next = app.start_with("count-1", count(1), |start| start.replace_closed()).await;
    client.signal_once("count-1", "word", &"next", "request-1").await.unwrap();
    next.signal("word", &"end").await.unwrap();
    assert_eq!(next.result().await.unwrap(), 1);
}

#[test]
async fn data_and_tags_and_status_go_over() {
    #[workflow]
    async fn add(ctx: WorkflowContext, round: u32) -> Result<u32, Failure> {
        let sum: u32 = ctx.get("sum").unwrap_or(0);
        ctx.set("sum", &(sum + round));
        ctx.set("last", &round);
        if round == 1 {
            ctx.set_status("begun");
        }
        ctx.sleep(SECOND).await?;
        match round {
            4 => Ok(ctx.get("sum").unwrap()),
            _ => ctx.continue_as_new(add(round + 1)),
        }
    }
    let app = app().workflow(add).start().await;
    let run = app.start_with("add-1", add(1), |start| start.tag("city", "Rome")).await;
    app.advance(SECOND * 5 / 2).await;
    app.restart().await;
    let value = |key| {
        let client = app.client();
        async move { client.value::<u32>("add-1", key).await.unwrap() }
    };
    assert_eq!((value("sum").await, value("last").await), (Some(6), Some(3)));
    assert_eq!(run.result().await.unwrap(), 10);
    assert_eq!(app.client().status::<String>("add-1").await.unwrap().as_deref(), Some("begun"));
    let rome = Some(("city".to_string(), "Rome".to_string()));
    let found =
        app.client().list(InstanceFilter { tag: rome, ..Default::default() }).await.unwrap();
    assert_eq!((found.len(), found[0].run), (1, 4));
}

#[test]
async fn the_retry_policy_goes_over_and_attempts_are_counted_anew() {
    #[workflow]
    async fn flaky(ctx: WorkflowContext, round: u32) -> Result<u32, Failure> {
        let tries: u32 = ctx.get("tries").unwrap_or(0);
        ctx.set("tries", &(tries + 1));
        // Each round fails once.
        match (tries.is_multiple_of(2), round) {
            (true, _) => Err(Failure::new("not yet")),
            (false, 3) => Ok(tries + 1),
            (false, _) => ctx.continue_as_new(flaky(round + 1)),
        }
    }
    let app = app().workflow(flaky).start().await;
    let policy = RetryPolicy::fixed(SECOND).max_attempts(2).jitter(Jitter::None);
    let run = app.start_with("flaky-1", flaky(1), |start| start.retry(&policy)).await;
    assert_eq!(run.result().await.unwrap(), 6);
    expect![[r#"
        run 1
        1 +0ms RunStarted flaky {"round":1}
        2 +0ms KvSet tries 1
        3 +0ms RunContinued by RetryPolicy in 1s after not yet
        run 2
        1 +0ms RunStarted flaky {"round":1} attempt 2, first turn at +1s
        2 +1s TimerFired #1
        3 +1s KvSet tries 2
        4 +1s RunContinued by Workflow {"round":2}
        run 3
        1 +0ms RunStarted flaky {"round":2}
        2 +0ms KvSet tries 3
        3 +0ms RunContinued by RetryPolicy in 1s after not yet
        run 4
        1 +0ms RunStarted flaky {"round":2} attempt 2, first turn at +1s
        2 +1s TimerFired #1
        3 +1s KvSet tries 4
        4 +1s RunContinued by Workflow {"round":3}
        run 5
        1 +0ms RunStarted flaky {"round":3}
        2 +0ms KvSet tries 5
        3 +0ms RunContinued by RetryPolicy in 1s after not yet
        run 6
        1 +0ms RunStarted flaky {"round":3} attempt 2, first turn at +1s
        2 +1s TimerFired #1
        3 +1s KvSet tries 6
        4 +1s RunCompleted 6
    "#]]
    .assert_eq(&histories(&app, "flaky-1").await);
}

#[test]
async fn the_time_that_a_policy_allows_is_counted_anew_and_the_total_timeout_is_not() {
    #[workflow]
    async fn slow_rounds(ctx: WorkflowContext, round: u32) -> Result<u32, Failure> {
        ctx.sleep(HOUR).await?;
        match (round, ctx.get::<bool>("failed")) {
            (3, None) => {
                ctx.set("failed", &true);
                Err(Failure::new("once"))
            }
            (5.., _) => Ok(round),
            _ => ctx.continue_as_new(slow_rounds(round + 1)),
        }
    }
    let app = app().workflow(slow_rounds).start().await;
    let policy = RetryPolicy::fixed(SECOND).max_elapsed(2 * HOUR).jitter(Jitter::None);
    let run = app.start_with("slow-1", slow_rounds(1), |start| start.retry(&policy)).await;
    assert_eq!(run.result().await.unwrap(), 5);
    let run =
        app.start_with("slow-2", slow_rounds(1), |start| start.total_timeout(HOUR * 5 / 2)).await;
    let failure = run.failure().await;
    expect!["TotalTimeout: the instance was not done in time, after 2h 30m"]
        .assert_eq(&failure.to_string());
    assert_eq!(app.describe("slow-2").await.instance.run, 3);
}

#[test]
async fn open_calls_and_timers_of_the_run_before_are_gone() {
    #[activity]
    async fn slow(ctx: ActivityContext) -> Result<u32, Failure> {
        ctx.sleep(HOUR).await;
        Ok(1)
    }
    #[workflow]
    async fn leave(ctx: WorkflowContext, second: bool) -> Result<u32, Failure> {
        if second {
            ctx.sleep(2 * HOUR).await?;
            return Ok(2);
        }
        let waits = async { ctx.race([ctx.call(slow())]).await.1 };
        let sleep = async { ctx.sleep(HOUR).await.map(|()| 3) };
        tokio::select! {
            biased;
            one = waits => one,
            three = sleep => three,
            signalled = ctx.signal::<u32>("next") => {
                signalled?;
                ctx.continue_as_new(leave(true))
            }
        }
    }
    let app = app().workflow(leave).activity(slow).start().await;
    let run = app.start("leave-1", leave(false)).await;
    app.advance(SECOND).await;
    run.signal("next", &1).await.unwrap();
    assert_eq!(app.describe("leave-1").await.pending, []);
    assert_eq!(run.result().await.unwrap(), 2);
    expect![[r#"
        run 1
        1 +0ms RunStarted leave {"second":false}
        2 +0ms ActivityScheduled slow {}
        3 +0ms TimerStarted until +1h
        4 +1s SignalReceived next 1
        5 +1s ActivityCancelled #2
        6 +1s TimerCancelled #3
        7 +1s RunContinued by Workflow {"second":true}
        run 2
        1 +0ms RunStarted leave {"second":true}
        2 +0ms TimerStarted until +2h
        3 +2h TimerFired #2
        4 +2h RunCompleted 2
    "#]]
    .assert_eq(&histories(&app, "leave-1").await);
}

#[test]
async fn a_cancellation_that_comes_between_two_runs_reaches_the_next_one() {
    #[workflow]
    async fn again(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.signal::<()>("next").await?;
        ctx.continue_as_new(again())
    }
    let app = app().workflow(again).start().await;
    let run = app.start("again-1", again()).await;
    // The step that ends the first run is on its way to the disk when the cancellation comes.
    app.faults().refuse(StoreCall::Commit, 3);
    let client = app.client();
    let signalled = tokio::spawn(async move { client.signal("again-1", "next", &()).await });
    app.advance(Duration::from_millis(1)).await;
    let client = app.client();
    let cancelled = tokio::spawn(async move { client.cancel("again-1", "enough").await });
    app.advance(SECOND).await;
    app.wait_for("the signal's answer", signalled).await.unwrap().unwrap();
    app.wait_for("the cancellation's answer", cancelled).await.unwrap().unwrap();
    assert!(matches!(run.outcome().await, resurgam::Outcome::Cancelled(_)));
    assert_eq!(app.describe("again-1").await.instance.run, 2);
}

#[test]
async fn a_value_that_is_too_large_for_the_next_run_blocks_this_one() {
    #[workflow]
    async fn grow(ctx: WorkflowContext, text: String) -> Result<(), Failure> {
        ctx.sleep(SECOND).await?;
        ctx.continue_as_new(grow(text.repeat(2)))
    }
    let app = app().workflow(grow).options(|options| options.max_payload = 100).start().await;
    app.start("grow-1", grow("x".repeat(60))).await;
    app.advance(10 * SECOND).await;
    let instance = app.describe("grow-1").await.instance;
    assert_eq!((instance.status, instance.run), (Status::Blocked, 1));
    expect!["B4 the argument of the next run: 131 bytes, 100 are allowed"]
        .assert_eq(&instance.error.unwrap());
}

#[test]
async fn the_key_of_a_call_is_another_one_in_every_run() {
    #[activity]
    async fn key(ctx: ActivityContext) -> Result<String, Failure> {
        if ctx.attempt() == 1 { Err(Failure::new("again")) } else { Ok(ctx.idempotency_key()) }
    }
    #[workflow]
    async fn keys(ctx: WorkflowContext, known: Vec<String>) -> Result<Vec<String>, Failure> {
        let known = [known, vec![ctx.call(key()).await?]].concat();
        if known.len() == 3 { Ok(known) } else { ctx.continue_as_new(keys(known)) }
    }
    let app = app().workflow(keys).activity(key).start().await;
    let mut known = app.start("keys-1", keys(Vec::new())).await.result().await.unwrap();
    // So it is in another instance of the same id.
    let next = app.start_with("keys-1", keys(Vec::new()), Start::replace_closed).await;
    known.extend(next.result().await.unwrap());
    known.sort_unstable();
    known.dedup();
    assert_eq!(known.len(), 6);
}
