//! The engine is stopped before and after every commit of a set of scenarios, and goes on from the
//! database. The end is the one without a crash.

use std::collections::BTreeMap;
use std::time::Duration;

use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam::{AttemptOutcome, Outcome};
use resurgam_core::EventKind;
use resurgam_testing::TestApp;
use resurgam_watchdog::test;

use crate::common::crashes;

const POLICY: RetryPolicy =
    RetryPolicy::exponential(Duration::from_secs(10)).max_attempts(4).jitter(Jitter::None);

#[activity(retry = POLICY)]
async fn work(item: u32) -> Result<u32, Failure> {
    Ok(item * 10)
}

#[activity(retry = POLICY)]
async fn doomed(item: u32) -> Result<u32, Failure> {
    Err(Failure::new(format!("{item} never works")))
}

#[workflow]
async fn retrying(ctx: WorkflowContext) -> Result<u32, Failure> {
    let first = ctx.call(work(1)).await?;
    let second = ctx.call(doomed(2)).await.unwrap_or(7);
    Ok(first + second)
}

#[workflow]
async fn timers(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.sleep(Duration::from_secs(60)).await?;
    let quick = ctx.timeout(Duration::from_secs(5), ctx.call(doomed(1))).await.is_err();
    ctx.sleep(Duration::from_secs(86_400)).await?;
    Ok(u32::from(quick))
}

#[workflow]
async fn fan_out(ctx: WorkflowContext) -> Result<u32, Failure> {
    let results = ctx.join_all((1..=5).map(|item| ctx.call(work(item)))).await?;
    ctx.set_status("added up");
    Ok(results.iter().sum())
}

#[workflow]
async fn signalled(ctx: WorkflowContext) -> Result<Vec<u32>, Failure> {
    let mut got = Vec::new();
    while got.len() < 3 {
        let item: u32 = ctx.signal("item").await?;
        got.push(ctx.call(work(item)).await?);
    }
    Ok(got)
}

#[workflow]
async fn cancelled(ctx: WorkflowContext) -> Result<u32, Failure> {
    let wait = ctx.timeout(Duration::from_secs(3600), ctx.call(doomed(3)));
    match wait.await {
        Ok(result) => result,
        Err(elapsed) => Err(elapsed.into()),
    }
}

/// Turns that are too wide for one transaction: 52 calls, all but one of which are given up again.
/// A transaction has 100 rows here.
#[workflow]
async fn wide(ctx: WorkflowContext) -> Result<u32, Failure> {
    let waits = (0..52).map(|_| ctx.sleep(Duration::from_secs(3600)));
    let calls = (10..62).map(|item| ctx.call(work(item)));
    let (_, first) = ctx.race(calls).await;
    let (_, woken) = ctx.race(waits).await;
    woken?;
    first.map(|item| item.min(1))
}

/// Results that are together too large for one transaction of 80 KiB, taken in one step.
#[activity(retry = POLICY)]
async fn heavy(ctx: ActivityContext, item: u32) -> Result<String, Failure> {
    ctx.sleep(Duration::from_secs(u64::from(item / 100) + 1)).await;
    Ok("x".repeat(19_000))
}

#[workflow]
async fn weighty(ctx: WorkflowContext) -> Result<usize, Failure> {
    let results = ctx.join_all((0..5).map(|item| ctx.call(heavy(item)))).await?;
    ctx.sleep(Duration::from_secs(1)).await?;
    // The last results close the run.
    let more = ctx.join_all((0..5).map(|item| ctx.call(heavy(item)))).await?;
    Ok(results.iter().chain(&more).map(String::len).sum())
}

/// A turn that is wide and passes a limit, the first one or a later one.
#[workflow]
async fn limited(ctx: WorkflowContext, later: bool) -> Result<(), Failure> {
    if later {
        ctx.sleep(Duration::from_secs(1)).await?;
    }
    ctx.set_status("begun");
    ctx.join_all((10..63).map(|item| ctx.call(work(item)))).await.map(drop)
}

async fn app() -> TestApp {
    TestApp::builder()
        .workflow(retrying)
        .workflow(timers)
        .workflow(fan_out)
        .workflow(signalled)
        .workflow(cancelled)
        .workflow(wide)
        .workflow(weighty)
        .workflow(limited)
        .activity(heavy)
        .options(|options| {
            options.max_open_calls = 52;
            options.max_batch_rows = 100;
            options.max_batch_bytes = 80 << 10;
        })
        .stub(work, |call, attempt| match (call.item, attempt) {
            (3, 1) | (1, 1) => Err(Failure::new("down")),
            (item, _) => Ok(item * 10),
        })
        .activity(doomed)
        .start()
        .await
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Scenario {
    Retries,
    Timers,
    FanOut,
    Signals,
    Cancel,
    Wide,
    Weighty,
    Limited { later: bool },
}

/// What a scenario comes to.
#[derive(Debug, PartialEq)]
struct End {
    outcome: String,
    /// What the workflow told the world last.
    status: Option<String>,
    /// How many events of each kind the history has.
    events: BTreeMap<String, usize>,
    /// How many attempts of each call failed.
    failures: BTreeMap<u64, usize>,
}

async fn play(scenario: Scenario, app: &TestApp) -> Outcome {
    match scenario {
        Scenario::Retries => app.start("run", retrying()).await.outcome().await,
        Scenario::Timers => app.start("run", timers()).await.outcome().await,
        Scenario::FanOut => app.start("run", fan_out()).await.outcome().await,
        Scenario::Wide => app.start("run", wide()).await.outcome().await,
        Scenario::Weighty => app.start("run", weighty()).await.outcome().await,
        Scenario::Limited { later } => app.start("run", limited(later)).await.outcome().await,
        Scenario::Signals => {
            let run = app.start("run", signalled()).await;
            for item in [1, 2, 3] {
                run.signal("item", &item).await.unwrap();
            }
            run.outcome().await
        }
        Scenario::Cancel => {
            let run = app.start("run", cancelled()).await;
            app.advance(Duration::from_secs(15)).await;
            // The answer to an earlier wish may have been lost in a crash.
            let _closed_already = run.cancel("enough").await;
            run.outcome().await
        }
    }
}

async fn end(app: &TestApp, outcome: Outcome) -> End {
    let mut events = BTreeMap::new();
    for event in app.client().events("run").await.unwrap() {
        *events.entry(event.kind.name().to_string()).or_default() += 1;
    }
    let mut failures = BTreeMap::new();
    for row in app.ledger("run").await {
        if row.outcome == AttemptOutcome::Failed {
            *failures.entry(row.call.seq.0).or_default() += 1;
        }
    }
    let outcome = match outcome {
        Outcome::Completed(result) => format!("completed {result}"),
        Outcome::Failed(failure) => format!("failed {failure}"),
        Outcome::Cancelled(failure) => format!("cancelled {failure}"),
        Outcome::Terminated(failure) => format!("terminated {failure}"),
    };
    let status = app.client().status("run").await.unwrap();
    End { outcome, status, events, failures }
}

/// Every attempt that began before the last has a row in the ledger, and began when the row before
/// it said.
async fn every_attempt_is_explained(app: &TestApp, story: &str) {
    let ledger = app.ledger("run").await;
    for event in app.client().events("run").await.unwrap() {
        let (call, last, started_at, rows) = match event.kind {
            EventKind::ActivityCompleted(done) => {
                (done.activity, done.attempt, done.started_at, done.attempt - 1)
            }
            EventKind::ActivityFailed(failed) => {
                (failed.activity, failed.attempt, failed.started_at, failed.attempt)
            }
            _ => continue,
        };
        let told: Vec<_> = ledger.iter().filter(|row| row.call.seq == call).collect();
        let numbers: Vec<u32> = told.iter().map(|row| row.attempt).collect();
        assert_eq!(numbers, (1..=rows).collect::<Vec<_>>(), "call {call} ({last})\n{story}");
        let begun = told.iter().skip(1).map(|row| row.started_at).chain(Some(started_at));
        for (row, next) in told.iter().zip(begun).take(last as usize - 1) {
            let due = row.ended_at.saturating_add(Duration::from_millis(row.delay_ms.unwrap()));
            assert_eq!(next, due, "call {call} after attempt {}\n{story}", row.attempt);
        }
    }
}

async fn crash_everywhere(scenario: Scenario) {
    let app = app().await;
    let outcome = play(scenario, &app).await;
    let quiet = end(&app, outcome).await;
    let commits = app.commits();
    assert!(commits > 1, "{scenario:?} has {commits} commits");
    for crash in crashes(commits) {
        let app = self::app().await;
        app.faults().crash(crash);
        let outcome = play(scenario, &app).await;
        let crashed = end(&app, outcome).await;
        let story = app.history("run").await;
        assert_eq!(crashed.outcome, quiet.outcome, "{scenario:?} {crash:?}\n{story}");
        assert_eq!(crashed.status, quiet.status, "{scenario:?} {crash:?}\n{story}");
        assert_eq!(crashed.events, quiet.events, "{scenario:?} {crash:?}\n{story}");
        every_attempt_is_explained(&app, &story).await;
        for (call, failures) in crashed.failures {
            assert!(failures <= 4, "{scenario:?} {crash:?}: call {call}\n{story}");
        }
    }
}

#[test]
async fn retries_survive_a_crash_at_every_commit() {
    crash_everywhere(Scenario::Retries).await;
}

#[test]
async fn timers_survive_a_crash_at_every_commit() {
    crash_everywhere(Scenario::Timers).await;
}

#[test]
async fn a_fan_out_survives_a_crash_at_every_commit() {
    crash_everywhere(Scenario::FanOut).await;
}

#[test]
async fn signals_survive_a_crash_at_every_commit() {
    crash_everywhere(Scenario::Signals).await;
}

#[test]
async fn a_cancelled_run_survives_a_crash_at_every_commit() {
    crash_everywhere(Scenario::Cancel).await;
}

#[test]
async fn a_turn_too_wide_for_one_commit_survives_a_crash_at_every_commit() {
    crash_everywhere(Scenario::Wide).await;
}

#[test]
async fn results_too_large_for_one_commit_survive_a_crash_at_every_commit() {
    crash_everywhere(Scenario::Weighty).await;
}

#[test]
async fn a_wide_turn_that_passes_a_limit_survives_a_crash_at_every_commit() {
    crash_everywhere(Scenario::Limited { later: false }).await;
    crash_everywhere(Scenario::Limited { later: true }).await;
}
