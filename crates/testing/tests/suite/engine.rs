//! What the engine promises beside the semantics of workflows: storage trouble decides nothing,
//! a step is one commit, memory and slots are bounded.

use std::time::Duration;

use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam_testing::{StoreCall, TestApp};
use resurgam_watchdog::test;

use crate::common::{is_slow, log, many};

const POLICY: RetryPolicy =
    RetryPolicy::fixed(Duration::from_secs(90)).max_attempts(3).jitter(Jitter::None);

#[activity(retry = POLICY)]
async fn double(number: u64) -> Result<u64, Failure> {
    Ok(number * 2)
}

#[activity(retry = POLICY)]
async fn flaky(ctx: ActivityContext, number: u64) -> Result<u64, Failure> {
    if ctx.attempt() < 3 { Err(Failure::new("down")) } else { Ok(number) }
}

#[activity]
async fn slow(ctx: ActivityContext) -> Result<(), Failure> {
    ctx.sleep(Duration::from_secs(10)).await;
    Ok(())
}

#[workflow]
async fn chain(ctx: WorkflowContext, length: u64) -> Result<u64, Failure> {
    let mut sum = 0;
    for number in 1..=length {
        sum += ctx.call(double(number)).await?;
    }
    Ok(sum)
}

#[workflow]
async fn wide(ctx: WorkflowContext, width: u64) -> Result<u64, Failure> {
    let results = ctx.join_all((1..=width).map(|number| ctx.call(double(number)))).await?;
    Ok(results.iter().sum())
}

#[workflow]
async fn everything(ctx: WorkflowContext) -> Result<u64, Failure> {
    let first = ctx.call(flaky(1)).await?;
    ctx.sleep(Duration::from_secs(600)).await?;
    let more: u64 = ctx.signal("more").await?;
    Ok(first + ctx.call(flaky(more)).await?)
}

#[workflow]
async fn long_chain(ctx: WorkflowContext, length: u64) -> Result<(), Failure> {
    for _ in 0..length {
        ctx.call(slow()).await?;
    }
    Ok(())
}

#[workflow]
async fn one_retry(ctx: WorkflowContext) -> Result<u64, Failure> {
    ctx.call(flaky(5)).await
}

/// Its second call is larger than allowed, which blocks the run in its first turn.
#[workflow]
async fn half_good(ctx: WorkflowContext) -> Result<(), Failure> {
    let calls = [4, 5_000].into_iter().map(|size| ctx.call(measure("x".repeat(size))));
    ctx.join_all(calls).await.map(drop)
}

#[activity]
async fn measure(text: String) -> Result<usize, Failure> {
    Ok(text.len())
}

#[workflow]
async fn measured(ctx: WorkflowContext) -> Result<usize, Failure> {
    ctx.call(measure("four".to_string())).await
}

/// Nobody registers this one.
#[activity]
async fn unknown(number: u64) -> Result<u64, Failure> {
    Ok(number)
}

#[workflow]
async fn stuck(ctx: WorkflowContext) -> Result<(), Failure> {
    ctx.join_all((0..10_000).map(|number| ctx.call(unknown(number)))).await.map(drop)
}

async fn app() -> TestApp {
    TestApp::builder()
        .workflow(chain)
        .workflow(wide)
        .workflow(everything)
        .workflow(long_chain)
        .workflow(one_retry)
        .activity(double)
        .activity(flaky)
        .activity(slow)
        .start()
        .await
}

#[test]
async fn a_workflow_of_five_activities_is_six_commits() {
    let app = app().await;
    assert_eq!(app.start("chain", chain(5)).await.result().await.unwrap(), 30);
    assert_eq!(app.commits(), 6);
}

#[test]
async fn no_refused_store_call_fails_a_workflow() {
    // Reading an instance serves those who wait for one that is closed: the next test. Messages and
    // closed instances are looked for when others have committed, of whom there are none in memory.
    // This workflow has no activity with a transaction: those are in `transactions.rs`. And nothing
    // is deleted here: that is in `retention.rs`. One node works, so that nothing is shared. Lists
    // and whole histories are for people.
    let elsewhere = [
        StoreCall::List,
        StoreCall::History,
        StoreCall::Instance,
        StoreCall::Messages,
        StoreCall::Closed,
        StoreCall::Transact,
        StoreCall::Delete,
        StoreCall::ClaimShared,
    ];
    let how_often: &[u32] = if is_slow() { &[10] } else { &[1, 10, 100] };
    for call in StoreCall::ALL.into_iter().filter(|call| !elsewhere.contains(call)) {
        for times in how_often.iter().copied() {
            let app = app().await;
            let run = app.start("everything", everything()).await;
            // Cold, so that every kind of read has to happen.
            app.restart().await;
            app.faults().refuse(call, times);
            app.advance(Duration::from_secs(100)).await;
            app.restart().await;
            run.signal("more", &4).await.unwrap();
            assert_eq!(run.result().await.unwrap(), 5, "{call:?} refused {times} times");
            assert_eq!(app.faults().refusals_left(call), 0, "{call:?} refused {times} times");
        }
    }
}

#[test]
async fn an_outage_of_the_store_is_told_when_it_begins_and_when_it_is_over() {
    log::listen();
    let mut heard = 0;
    for call in [StoreCall::Commit, StoreCall::DueTasks, StoreCall::LoadRun] {
        let app = app().await;
        let run = app.start("everything", everything()).await;
        app.restart().await;
        app.faults().refuse(call, 50);
        app.advance(Duration::from_secs(100)).await;
        run.signal("more", &4).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 5);
        let told = log::lines().into_iter().map(|line| line.message);
        let told = told.filter(|line| line.starts_with("the database"));
        let told: Vec<String> = told.skip(heard).collect();
        heard += told.len();
        // Should the machine stand still for ten seconds meanwhile, that is told as well.
        let told = told.into_iter().filter(|line| !line.contains("cannot be used for"));
        let told: Vec<String> = told.collect();
        let [begins, over] = &told[..] else { panic!("{call:?}: {told:#?}") };
        assert!(begins.starts_with("the database cannot be used, trying again: "), "{begins}");
        assert!(over.starts_with("the database can be used again, after "), "{over}");
    }
}

#[test]
async fn a_refused_read_delays_the_answer_about_a_closed_instance() {
    for times in [1, 10, 100] {
        let app = app().await;
        let run = app.start("chain", chain(1)).await;
        assert_eq!(run.result().await.unwrap(), 2);
        app.faults().refuse(StoreCall::Instance, times);
        assert_eq!(run.result().await.unwrap(), 2);
        assert_eq!(app.faults().refusals_left(StoreCall::Instance), 0);
    }
}

#[test]
async fn a_run_that_was_evicted_goes_on_with_the_same_history() {
    let quiet = app().await;
    let run = quiet.start("everything", everything()).await;
    run.signal("more", &4).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 5);

    let tight = TestApp::builder()
        .workflow(everything)
        .activity(flaky)
        .options(|options| options.hot_runs = 0)
        .start()
        .await;
    let evicted = tight.start("everything", everything()).await;
    evicted.signal("more", &4).await.unwrap();
    assert_eq!(evicted.result().await.unwrap(), 5);
    assert_eq!(evicted.history().await, run.history().await);
}

#[test]
async fn a_run_of_ten_thousand_activities_works() {
    let app = app().await;
    let length = many(10_000);
    let run = app.start("chain", chain(length)).await;
    assert_eq!(run.result().await.unwrap(), length * (length + 1));
    assert_eq!(app.commits(), length + 1);
}

// On PostgreSQL each of the ten thousand is read and claimed when a slot is free for it.
#[test(minutes = 15)]
async fn a_fan_out_of_ten_thousand_works_also_across_a_restart() {
    let app = app().await;
    let run = app.start("wide", wide(10_000)).await;
    app.restart().await;
    assert_eq!(run.result().await.unwrap(), 100_010_000);
}

#[test]
async fn a_due_retry_gets_the_next_slot_that_is_free() {
    let app = TestApp::builder()
        .workflow(long_chain)
        .workflow(one_retry)
        .activity(slow)
        .activity(flaky)
        .options(|options| options.slots = 4)
        .start()
        .await;
    let run = app.start("retry", one_retry()).await;
    for number in 0..8 {
        app.start(&format!("chain-{number}"), long_chain(100)).await;
    }
    assert_eq!(run.result().await.unwrap(), 5);
    // Two delays of 90 s, and at most one turnover of 10 s for each attempt.
    let ledger = app.ledger("retry").await;
    let lags: Vec<u64> = ledger
        .windows(2)
        .map(|rows| {
            let due = rows[0].ended_at.saturating_add(Duration::from_secs(90));
            u64::try_from(rows[1].started_at.since(due).as_millis()).unwrap()
        })
        .collect();
    assert!(lags.iter().all(|lag| *lag <= 10_000), "{lags:?}");
}

#[test]
async fn a_duplicate_start_in_a_full_batch_is_refused_alone() {
    let app = app().await;
    app.start("taken", chain(1)).await.result().await.unwrap();
    let client = app.client();
    let starts = (0..500).map(|number| {
        let id = if number == 250 { "taken".to_string() } else { format!("start-{number}") };
        let start = client.start(id, chain(1));
        tokio::spawn(async move { start.await.map(|instance| instance.id().to_string()) })
    });
    let mut refused = Vec::new();
    for start in starts.collect::<Vec<_>>() {
        refused.extend(start.await.unwrap().err());
    }
    assert_eq!(refused.len(), 1);
    assert!(refused[0].is_already_exists(), "{}", refused[0]);
}

#[test]
async fn a_run_that_is_blocked_again_and_again_takes_no_slots() {
    let app = TestApp::builder()
        .workflow(half_good)
        .workflow(measured)
        .activity(measure)
        .options(|options| (options.slots, options.max_payload) = (3, 1_000))
        .start()
        .await;
    app.start("half", half_good()).await;
    app.advance(Duration::from_secs(60)).await;
    assert_eq!(app.start("measured", measured()).await.result().await.unwrap(), 4);
}

#[test]
async fn tasks_that_nobody_can_run_do_not_hide_those_that_somebody_can() {
    let app = TestApp::builder().workflow(stuck).workflow(one_retry).activity(flaky).start().await;
    app.start("stuck", stuck()).await;
    // Its delays of 90 s are beyond what is kept in memory.
    assert_eq!(app.start("retry", one_retry()).await.result().await.unwrap(), 5);
    assert_eq!(app.describe("stuck").await.pending.len(), 10_000);
}

#[test]
async fn a_start_that_is_repeated_before_the_first_is_durable_is_the_same_start() {
    let app = app().await;
    app.faults().refuse(StoreCall::Commit, 3);
    let client = app.client();
    let start = || async { client.start("chain", chain(1)).request_id("request-1").await };
    let both = async { tokio::join!(start(), start()) };
    let ((first, second), ()) = tokio::join!(both, app.advance(Duration::from_secs(20)));
    assert_eq!(first.unwrap().uid(), second.unwrap().uid());
}
