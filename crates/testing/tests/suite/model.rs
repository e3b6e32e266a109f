//! Random workflows, with random failures, timeouts, cancels and crashes, against a simple model of
//! the semantics.
//!
//! A failing seed is printed, and runs alone with `RESURGAM_SEED=n`; `RESURGAM_SEEDS` says how many
//! are tried.

#[path = "model/model.rs"]
mod expectation;
#[path = "model/program.rs"]
mod program;

use std::time::Duration;

use expectation::{Begins as Expect, Expected, Tie};
use program::{Begins, Maker, Stmt, script, work};
use resurgam::Status;
use resurgam_testing::{Crash, TestApp, TestStore};
use resurgam_watchdog::test;

const A_YEAR: Duration = Duration::from_secs(365 * 86_400);

fn seeds(usual: u64) -> Vec<u64> {
    let usual = if TestStore::chosen() == TestStore::Postgres { usual / 5 } else { usual };
    let number = |name| std::env::var(name).ok().map(|text: String| text.parse().unwrap());
    match number("RESURGAM_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("RESURGAM_SEEDS").unwrap_or(usual)).collect(),
    }
}

async fn begin_app() -> (TestApp, Begins) {
    let begins = Begins::default();
    let app = TestApp::builder().workflow(script).activity(work).state(begins.clone());
    (app.start().await, begins)
}

/// What a test sees of the end of a run.
async fn seen(app: &TestApp, result: resurgam::Result<Vec<u32>>) -> Expected {
    let row = app.describe("script").await.instance;
    let took = row.closed_at.expect("a closed instance").since(row.created_at);
    Expected {
        at: u64::try_from(took.as_millis()).unwrap(),
        ended: result.map_err(|error| {
            let failure = error.failure().expect("a failure of the workflow");
            failure.type_name.clone().unwrap_or_else(|| failure.kind.name().to_string())
        }),
        cancelled: row.status == Status::Cancelled,
        compensation: row.compensation.map(resurgam::Compensation::name),
    }
}

/// Runs a program, cancelled at a time, and compares everything that the model says.
async fn check_times(seed: u64) -> Result<(), Tie> {
    let mut maker = Maker::new(seed, false);
    let program = maker.program(3);
    let cancel = (maker.random.u8(0..3) == 0).then(|| maker.random.u64(1..200_000));
    let mut begins = Expect::new();
    let expected = expectation::run(&program, 0, cancel.unwrap_or(u64::MAX), &mut begins)?;
    let (app, begun) = begin_app().await;
    let run = app.start("script", script(program.clone())).await;
    if let Some(cancel) = cancel.filter(|cancel| *cancel <= expected.at) {
        app.advance(Duration::from_millis(cancel)).await;
        app.cancel("script", "as planned").await.expect("an open instance");
    }
    let result = run.result().await;
    let seen = seen(&app, result).await;
    app.advance(A_YEAR).await;
    let history = app.history("script").await;
    assert_eq!(seen, expected, "seed {seed}, cancel {cancel:?}: {program:#?}\n{history}");
    assert_eq!(begun.counts(), begins, "seed {seed}, cancel {cancel:?}: {program:#?}\n{history}");
    Ok(())
}

#[test(minutes = 15)]
async fn random_workflows_do_at_every_moment_what_the_model_says() {
    let (mut ties, seeds) = (0, seeds(250));
    for seed in &seeds {
        if check_times(*seed).await.is_err() {
            ties += 1;
        }
    }
    assert!(ties * 20 <= seeds.len().max(20), "{ties} of {} seeds say nothing", seeds.len());
}

/// Runs a program with crashes. They make it longer, and change nothing else.
async fn check_crashes(seed: u64) -> Result<(), Tie> {
    let mut maker = Maker::new(seed, true);
    let program = Stmt::Seq(vec![maker.program(3), maker.program(2)]);
    let expected = expectation::run(&program, 0, u64::MAX, &mut Expect::new())?;
    let (app, _begun) = begin_app().await;
    crash_soon(&app, &mut maker);
    let run = app.start("script", script(program.clone())).await;
    app.advance(Duration::from_millis(maker.random.u64(1..100_000))).await;
    crash_soon(&app, &mut maker);
    let result = run.result().await;
    let seen = seen(&app, result).await;
    let history = app.history("script").await;
    let expected = Expected { at: seen.at, ..expected };
    assert_eq!(seen, expected, "seed {seed}: {program:#?}\n{history}");
    check_ledger(&app, seed, &history).await;
    Ok(())
}

fn crash_soon(app: &TestApp, maker: &mut Maker) {
    let commit = app.commits() + maker.random.u64(1..12);
    app.faults().crash(match maker.random.bool() {
        true => Crash::BeforeCommit(commit),
        false => Crash::AfterCommit(commit),
    });
}

/// Attempts that did not succeed have a row each, without gaps.
async fn check_ledger(app: &TestApp, seed: u64, history: &str) {
    let ledger = app.ledger("script").await;
    let mut last = std::collections::HashMap::new();
    for row in &ledger {
        let before = last.insert(row.call, row.attempt).unwrap_or(0);
        assert_eq!(row.attempt, before + 1, "seed {seed}: a gap in the ledger\n{history}");
    }
}

#[test(minutes = 15)]
async fn crashes_make_random_workflows_longer_and_change_nothing_else() {
    for seed in seeds(125) {
        let _ties_depend_on_times = check_crashes(seed).await;
    }
}
