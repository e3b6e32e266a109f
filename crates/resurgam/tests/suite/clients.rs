//! What a client sees and may do while somebody else works on the file: signals that find room,
//! a status to wait for, data to read.
//!
//! On the wall clock: nobody sees another process's virtual one. Nobody sleeps either; everything
//! is waited for.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use resurgam::prelude::*;
use resurgam::{App, Client, Error, Parts, SqliteOptions};
use resurgam_store_sqlite::SqliteStore;
use resurgam_watchdog::test;
use resurgam_worker::{Options, SystemClock};

#[workflow]
async fn listen(ctx: WorkflowContext, signals: u32) -> Result<Vec<u32>, Failure> {
    let mut heard = Vec::new();
    for _ in 0..signals {
        heard.push(ctx.signal("number").await?);
    }
    Ok(heard)
}

/// Says how far it is, each time it is told to go on.
#[workflow]
async fn progress(ctx: WorkflowContext) -> Result<(), Failure> {
    for percent in [0, 50, 100_u32] {
        ctx.set("percent", &percent);
        ctx.set_status(&format!("{percent} %"));
        ctx.signal::<()>("go on").await?;
    }
    Ok(())
}

struct Ground {
    folder: tempfile::TempDir,
}

impl Ground {
    fn new() -> Self {
        Ground { folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("app.db")
    }

    async fn app(&self, change: impl FnOnce(&mut Options)) -> App {
        let builder = App::builder().workflow(listen).workflow(progress).options(change);
        builder.sqlite(self.file()).await.unwrap()
    }

    /// A client with a store of its own, as in another process.
    fn client(&self, change: impl FnOnce(&mut Options)) -> Client {
        let mut parts = Parts::default();
        change(&mut parts.options);
        parts.options.work = false;
        let store = SqliteStore::open(self.file(), SqliteOptions::default()).unwrap();
        let (engine, client) = parts.engine(Arc::new(store), Arc::new(SystemClock::new())).unwrap();
        tokio::spawn(engine.run());
        client
    }
}

#[test]
async fn signals_of_all_processes_count_for_all_of_them() {
    let ground = Ground::new();
    let few = |options: &mut Options| options.max_unread_signals = 4;
    let (app, client) = (ground.app(few).await, ground.client(few));
    client.start("listen-1", listen(0)).await.unwrap().result().await.unwrap();
    client.start("listen-2", listen(1)).await.unwrap();
    for _ in 0..2 {
        client.signal("listen-2", "noise", &()).await.unwrap();
        app.signal("listen-2", "noise", &()).await.unwrap();
    }
    assert!(client.signal("listen-2", "noise", &()).await.unwrap_err().is_full());
    // The owner knows it too, once it has heard of the others.
    while app.signal("listen-2", "noise", &()).await.is_ok() {}
    // What somebody waits for is always taken, by the one who can.
    app.signal("listen-2", "number", &7).await.unwrap();
    let instance = client.instance::<Vec<u32>>("listen-2").await.unwrap().unwrap();
    assert_eq!(instance.result().await.unwrap(), [7]);
    app.stop().await.unwrap();
}

#[test]
async fn signals_that_come_before_the_start_is_taken_notice_of_are_kept() {
    let ground = Ground::new();
    // Nobody works yet: the instance and its signals wait in the file.
    let client = ground.client(|_| {});
    let instance = client.start("listen-1", listen(3)).await.unwrap();
    for number in 1..=3 {
        instance.signal("number", &number).await.unwrap();
    }
    let app = ground.app(|_| {}).await;
    assert_eq!(instance.result().await.unwrap(), [1, 2, 3]);
    app.stop().await.unwrap();
}

#[test]
async fn a_status_is_waited_for_by_those_who_work_and_by_others() {
    let ground = Ground::new();
    let app = ground.app(|_| {}).await;
    let client = ground.client(|_| {});
    app.start("progress-1", progress()).await.unwrap();
    for percent in [0_u32, 50, 100] {
        let text = format!("{percent} %");
        let is_there = |status: &String| *status == text;
        let (here, there, value) = tokio::join!(
            app.wait_for_status("progress-1", is_there),
            client.wait_for_status("progress-1", is_there),
            client.wait_for_value("progress-1", "percent", |value: &u32| *value >= percent),
        );
        assert_eq!((here.unwrap(), there.unwrap(), value.unwrap()), (text.clone(), text, percent));
        client.signal("progress-1", "go on", &()).await.unwrap();
    }
    // It is over, and says nothing more.
    let never = |_: &String| false;
    let is_closed = |answer: Result<String, Error>| answer.unwrap_err().is_closed();
    assert!(is_closed(app.wait_for_status("progress-1", never).await));
    assert!(is_closed(client.wait_for_status("progress-1", never).await));
    assert!(client.wait_for_status("nobody", never).await.unwrap_err().is_unknown());
    assert_eq!(client.value::<u32>("progress-1", "percent").await.unwrap(), Some(100));
    assert_eq!(client.value::<u32>("progress-1", "other").await.unwrap(), None);
    app.stop().await.unwrap();
}

#[test]
async fn a_delay_counts_from_the_start_and_not_from_when_somebody_works_on_it() {
    let ground = Ground::new();
    let client = ground.client(|_| {});
    let delay = Duration::from_millis(50);
    let instance = client.start("listen-1", listen(0)).delay(delay).await.unwrap();
    let app = ground.app(|_| {}).await;
    instance.result().await.unwrap();
    let events = app.events("listen-1").await.unwrap();
    let row = app.find("listen-1").await.unwrap().unwrap();
    // Both are the engine's own times; a busy machine makes the second one later.
    let waited = row.closed_at.unwrap().since(row.created_at);
    assert!(waited >= delay, "{waited:?}");
    let resurgam_core::EventKind::RunStarted(started) = &events[0].kind else { panic!("none") };
    let due = row.created_at.saturating_add(delay);
    assert_eq!(started.first_turn_at.unwrap_or(due), due);
    app.stop().await.unwrap();
}

#[test]
async fn a_client_makes_no_file_and_says_who_does() {
    let ground = Ground::new();
    let error = Client::sqlite(ground.file()).await.unwrap_err();
    assert_eq!(error.code().name(), "C4");
    assert!(error.to_string().contains("there is no such file; a program that works"), "{error}");
    assert!(!ground.file().exists());
    ground.app(|_| {}).await.stop().await.unwrap();
    let client = Client::sqlite(ground.file()).await.unwrap();
    assert!(client.find("nobody").await.unwrap().is_none());
}
