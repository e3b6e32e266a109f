//! An app on a real SQLite file and the system's clock: it goes on after a restart, and says what
//! is wrong with a file that it cannot use.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam::{AttemptOutcome, InstanceFilter, SqliteOptions, Status};
use resurgam_store_sqlite::SqliteStore;
use resurgam_watchdog::test;
use tempfile::TempDir;
use tokio::sync::Notify;

/// Longer than anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the tests know about the attempts.
#[derive(Clone, Default)]
struct World {
    begun: Arc<AtomicU32>,
    entered: Arc<Notify>,
    open: Arc<Notify>,
}

const QUICK: RetryPolicy =
    RetryPolicy::fixed(Duration::from_millis(5)).max_attempts(4).jitter(Jitter::None);

#[activity(retry = QUICK)]
async fn count(ctx: ActivityContext, number: u32) -> Result<u32, Failure> {
    let world = ctx.state::<World>();
    world.begun.fetch_add(1, Ordering::SeqCst);
    if ctx.attempt() == 1 && number == 2 { Err(Failure::new("down")) } else { Ok(number) }
}

/// Waits until the test opens the gate.
#[activity]
async fn gate(ctx: ActivityContext) -> Result<(), Failure> {
    let world = ctx.state::<World>();
    world.entered.notify_one();
    world.open.notified().await;
    Ok(())
}

#[activity]
fn blocking(number: u32) -> Result<u32, Failure> {
    Ok(number + 1)
}

#[workflow]
async fn journey(ctx: WorkflowContext) -> Result<u32, Failure> {
    let first = ctx.call(count(1)).await?;
    ctx.call(gate()).await?;
    let second = ctx.call(count(2)).await?;
    ctx.call(blocking(first + second)).await
}

async fn app(file: &Path, world: &World) -> resurgam::Result<App> {
    App::builder()
        .workflow(journey)
        .activity(count)
        .activity(gate)
        .activity(blocking)
        .state(world.clone())
        .grace(Duration::ZERO)
        .sqlite(file)
        .await
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
async fn a_workflow_goes_on_in_the_next_process_where_it_was() {
    let folder = folder();
    let file = folder.path().join("app.db");
    let world = World::default();
    let first = app(&file, &world).await.unwrap();
    first.start("journey", journey()).await.unwrap();
    world.entered.notified().await;
    drop(first); // as a crash would

    let second = app(&file, &world).await.unwrap();
    world.entered.notified().await;
    world.open.notify_one();
    let run = second.instance::<u32>("journey").await.unwrap().unwrap();
    assert_eq!(run.result().await.unwrap(), 4);
    assert_eq!(world.begun.load(Ordering::SeqCst), 3, "nothing completed ran again");
    let ledger = second.attempts("journey").await.unwrap();
    let outcomes: Vec<_> = ledger.iter().map(|row| (row.name.as_str(), row.outcome)).collect();
    assert_eq!(outcomes, [("gate", AttemptOutcome::Lost), ("count", AttemptOutcome::Failed)]);
    second.stop().await.unwrap();
}

#[test]
async fn a_graceful_stop_records_what_it_interrupts() {
    let folder = folder();
    let file = folder.path().join("app.db");
    let world = World::default();
    let first = app(&file, &world).await.unwrap();
    first.start("journey", journey()).await.unwrap();
    world.entered.notified().await;
    first.stop().await.unwrap();

    let second = app(&file, &world).await.unwrap();
    world.entered.notified().await;
    world.open.notify_one();
    let run = second.instance::<u32>("journey").await.unwrap().unwrap();
    assert_eq!(run.result().await.unwrap(), 4);
    let ledger = second.attempts("journey").await.unwrap();
    assert_eq!(ledger[0].outcome, AttemptOutcome::Interrupted);
    second.stop().await.unwrap();
}

#[test]
async fn a_bare_activity_is_retried_without_a_workflow() {
    let folder = folder();
    let app = app(&folder.path().join("app.db"), &World::default()).await.unwrap();
    let run = app.submit("count-2", count(2)).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 2);
    assert_eq!(app.attempts("count-2").await.unwrap().len(), 1);
    let done = InstanceFilter { status: vec![Status::Completed], ..InstanceFilter::default() };
    assert_eq!(app.list(done).await.unwrap().len(), 1);
    app.stop().await.unwrap();
}

async fn refusal(file: &Path) -> String {
    let error = app(file, &World::default()).await.unwrap_err().to_string();
    error.replace(&*file.parent().unwrap().to_string_lossy(), "FOLDER")
}

#[test]
async fn a_file_that_cannot_be_used_is_refused_with_the_reason() {
    let folder = folder();
    let missing = folder.path().join("nowhere").join("app.db");
    expect!["open FOLDER/app.db: its folder does not exist; create the folder first: unable to open database file: FOLDER/app.db"].assert_eq(&refusal(&missing).await);

    let garbage = folder.path().join("garbage.db");
    std::fs::write(&garbage, "this is a letter to my grandmother, and not a database at all")
        .unwrap();
    expect!["open FOLDER/garbage.db: this file is not a SQLite database; give the path of another file, or of none: file is not a database"].assert_eq(&refusal(&garbage).await);
    let text = std::fs::read_to_string(&garbage).unwrap();
    assert!(text.starts_with("this is a letter"), "nothing is lost");
}

/// Changes the file behind the app's back.
async fn tamper(file: &Path, sql: &str) {
    let store = SqliteStore::open(file, SqliteOptions::default()).unwrap();
    store.run_on_writer(sql).await.unwrap();
    store.close().await;
}

#[test]
async fn a_run_whose_history_cannot_be_read_is_blocked_and_goes_on_when_it_can() {
    let folder = folder();
    let file = folder.path().join("app.db");
    let world = World::default();
    let first = app(&file, &world).await.unwrap();
    first.start("journey", journey()).await.unwrap();
    world.entered.notified().await;
    first.stop().await.unwrap();
    tamper(&file, "UPDATE event SET kind = 'Nonsense' WHERE kind = 'ActivityCompleted'").await;

    let second = app(&file, &world).await.unwrap();
    world.entered.notified().await;
    world.open.notify_one();
    let blocked = InstanceFilter { status: vec![Status::Blocked], ..InstanceFilter::default() };
    let reason = loop {
        match second.list(blocked.clone()).await.unwrap().pop() {
            Some(row) => break row.error.unwrap(),
            None => tokio::task::yield_now().await,
        }
    };
    assert!(reason.contains("journey") && reason.contains("Nonsense"), "{reason}");
    second.stop().await.unwrap();
    tamper(&file, "UPDATE event SET kind = 'ActivityCompleted' WHERE kind = 'Nonsense'").await;

    let third = app(&file, &world).await.unwrap();
    let run = third.instance::<u32>("journey").await.unwrap().unwrap();
    assert_eq!(run.result().await.unwrap(), 4, "nothing was lost");
    third.stop().await.unwrap();
}

#[test]
async fn a_standby_that_is_dropped_no_longer_waits_for_the_file() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("orders.db");
    let owner = app(&file, &World::default()).await.unwrap();
    let store = Arc::new(SqliteStore::open(&file, SqliteOptions::default()).unwrap());
    let standby = App::builder().workflow(journey).on(store.clone()).unwrap();
    standby.handle().settled().await.unwrap();
    assert!(owner.is_owner() && !standby.is_owner());
    drop(standby);
    let nobody_else = async {
        while Arc::strong_count(&store) > 1 {
            tokio::task::yield_now().await;
        }
    };
    let lets_go = tokio::time::timeout(PATIENCE, nobody_else).await;
    lets_go.expect("the engine of a standby that was dropped lets go of its store");
    owner.stop().await.unwrap();
}
