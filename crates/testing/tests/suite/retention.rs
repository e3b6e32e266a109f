//! Closed instances are deleted by age and status, in bounded batches, with everything of theirs.

use std::sync::Arc;
use std::time::Duration;

use resurgam::prelude::*;
use resurgam::{ClosedFilter, InstanceFilter, Retention, Status};
use resurgam_store_sqlite::{Options as SqliteOptions, SqliteStore};
use resurgam_testing::{Crash, StoreCall, TestApp, TestBuilder};
use resurgam_watchdog::test;
use tempfile::TempDir;

use crate::common::at_once;

const DAY: Duration = Duration::from_secs(86_400);

/// Leaves something in every table: it is signalled, fails, retries, sleeps and tells.
#[workflow]
async fn order(ctx: WorkflowContext, fails: bool) -> Result<u32, Failure> {
    ctx.set_status("begun");
    ctx.call(charge()).await?;
    ctx.sleep(Duration::from_secs(10)).await?;
    if fails { Err(Failure::new("out of stock")) } else { Ok(1) }
}

#[workflow]
async fn other(ctx: WorkflowContext) -> Result<(), Failure> {
    ctx.set_status("quick");
    Ok(())
}

#[workflow]
async fn endless(ctx: WorkflowContext) -> Result<(), Failure> {
    ctx.signal::<()>("never").await
}

#[activity(retry = RetryPolicy::fixed(Duration::from_secs(1)))]
async fn charge(ctx: ActivityContext) -> Result<(), Failure> {
    if ctx.attempt() == 1 { Err(Failure::new("down")) } else { Ok(()) }
}

fn builder() -> TestBuilder {
    TestApp::builder().workflow(order).workflow(other).workflow(endless).activity(charge)
}

/// The ids of all instances, the newest first.
async fn left(app: &TestApp) -> Vec<String> {
    let filter = InstanceFilter { limit: 10_000, ..InstanceFilter::default() };
    let rows = app.client().list(filter).await.unwrap();
    rows.into_iter().map(|row| row.id).collect()
}

async fn of_every_kind(app: &TestApp) {
    let done = app.start("done", order(false)).await;
    let failed = app.start("failed", order(true)).await;
    let cancelled = app.start("cancelled", endless()).await;
    app.start("open", endless()).await;
    cancelled.cancel("enough").await.unwrap();
    done.outcome().await;
    failed.outcome().await;
    cancelled.outcome().await;
}

#[test]
async fn closed_instances_can_be_deleted_by_age_and_status() {
    let app = builder().start().await;
    of_every_kind(&app).await;
    let client = app.client();
    let old = |status: &[Status], age| ClosedFilter {
        status: status.to_vec(),
        older_than: Some(age),
        ..ClosedFilter::default()
    };
    assert_eq!(client.delete_closed(old(&[], DAY)).await.unwrap(), 0);
    app.advance(DAY).await;
    assert_eq!(client.delete_closed(old(&[Status::Failed], DAY / 2)).await.unwrap(), 1);
    assert_eq!(left(&app).await, ["open", "cancelled", "done"]);
    app.start("young", other()).await.outcome().await;
    assert_eq!(client.delete_closed(old(&[], DAY / 2)).await.unwrap(), 2);
    assert_eq!(left(&app).await, ["young", "open"]);
    assert_eq!(client.delete_closed(ClosedFilter::default()).await.unwrap(), 1);
    assert_eq!(left(&app).await, ["open"]);
    let error = client.delete_closed(old(&[Status::Blocked], DAY)).await.unwrap_err();
    assert!(error.to_string().contains("what is blocked is not closed"), "{error}");
}

#[test]
async fn closed_instances_can_be_deleted_by_workflow_and_tag() {
    let app = builder().start().await;
    let client = app.client();
    for (id, tag) in [("a", "ada"), ("b", "bob")] {
        client.start(id, other()).tag("customer", tag).await.unwrap();
    }
    app.start("c", order(false)).await.outcome().await;
    let workflow = Some("order".to_string());
    let filter = ClosedFilter { workflow, ..ClosedFilter::default() };
    assert_eq!(client.delete_closed(filter).await.unwrap(), 1);
    let tag = Some(("customer".to_string(), "ada".to_string()));
    let filter = ClosedFilter { tag, ..ClosedFilter::default() };
    assert_eq!(client.delete_closed(filter).await.unwrap(), 1);
    assert_eq!(left(&app).await, ["b"]);
}

#[test]
async fn one_closed_instance_can_be_deleted_and_an_open_one_cannot() {
    let app = builder().start().await;
    of_every_kind(&app).await;
    let client = app.client();
    client.delete("done").await.unwrap();
    assert!(client.find("done").await.unwrap().is_none());
    assert!(client.delete("done").await.unwrap_err().is_unknown());
    let error = client.delete("open").await.unwrap_err();
    assert!(error.is_open(), "{error}");
    assert!(error.to_string().contains("delete open: the instance is open (running)"), "{error}");
    assert_eq!(left(&app).await, ["open", "cancelled", "failed"]);
    // Its id is free.
    app.start("done", other()).await.outcome().await;
}

#[test]
async fn whoever_waits_for_a_deleted_instance_hears_that_it_is_gone() {
    let app = builder().start().await;
    let run = app.start("done", other()).await;
    run.outcome().await;
    let handle = app.client().instance::<()>("done").await.unwrap().unwrap();
    app.client().delete("done").await.unwrap();
    let error = handle.outcome().await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    assert!(handle.signal("late", &1).await.unwrap_err().is_unknown());
}

#[test]
async fn an_app_deletes_what_has_stayed_long_enough() {
    let retention = Retention { failed: Some(DAY * 3), ..Retention::all(DAY) };
    let app = builder().options(|options| options.retention = retention).start().await;
    of_every_kind(&app).await;
    app.advance(DAY - Duration::from_secs(60)).await;
    assert_eq!(left(&app).await.len(), 4);
    app.advance(Duration::from_secs(120)).await;
    assert_eq!(left(&app).await, ["open", "failed"]);
    app.advance(DAY * 2).await;
    assert_eq!(left(&app).await, ["open"]);
    // What closes later goes later.
    app.start("again", other()).await.outcome().await;
    app.advance(DAY / 2).await;
    app.start("later", other()).await.outcome().await;
    app.restart().await;
    app.advance(DAY / 2 + Duration::from_secs(3600)).await;
    assert_eq!(left(&app).await, ["later", "open"]);
    app.advance(DAY / 2).await;
    assert_eq!(left(&app).await, ["open"]);
}

#[test]
async fn nothing_is_done_while_there_is_nothing_to_delete() {
    let retention = Retention::all(DAY);
    let app = builder().options(|options| options.retention = retention).start().await;
    app.start("open", endless()).await;
    let before = app.commits();
    app.advance(DAY * 100).await;
    // One look when it begins, of each kind of what is deleted.
    assert!(app.commits() <= before + 4, "{} looks", app.commits() - before);
}

#[test]
async fn many_are_deleted_in_bounded_batches() {
    let retention = Retention::all(DAY);
    let app = builder().options(|options| options.retention = retention).start().await;
    for number in 0..1_200 {
        app.client().start(format!("order-{number}"), other()).await.unwrap();
    }
    app.advance(DAY / 2).await;
    let before = app.commits();
    app.advance(DAY).await;
    assert_eq!(left(&app).await, [""; 0]);
    let batches = app.commits() - before;
    assert!((3..20).contains(&batches), "{batches}");
}

#[test]
async fn many_are_deleted_by_hand_with_pauses_between_the_batches() {
    let app = builder().start().await;
    for number in 0..1_200 {
        app.client().start(format!("order-{number}"), other()).await.unwrap();
    }
    let (commits, began) = (app.commits(), app.now());
    assert_eq!(app.delete_closed(ClosedFilter::default()).await.unwrap(), 1_200);
    assert_eq!(app.commits() - commits, 6, "three for what completed, one for each other way");
    assert!(app.now() > began);
}

#[test]
async fn retention_survives_a_crash_at_every_commit_and_a_store_in_trouble() {
    let play = |crash: Option<(bool, u64)>| async move {
        let retention = Retention::all(DAY);
        let app = builder().options(|options| options.retention = retention).start().await;
        let client = app.client();
        let starts = (0..700).map(|number| client.start(format!("order-{number}"), other()));
        assert!(at_once(starts).await.iter().all(Result::is_ok));
        app.start("open", endless()).await;
        app.advance(DAY / 2).await;
        let before = app.commits();
        match crash {
            Some((true, k)) => app.faults().crash(Crash::BeforeCommit(before + k)),
            Some((false, k)) => app.faults().crash(Crash::AfterCommit(before + k)),
            None => app.faults().refuse(StoreCall::Delete, 3),
        }
        app.advance(DAY).await;
        assert_eq!(app.faults().refusals_left(StoreCall::Delete), 0);
        assert_eq!(left(&app).await, ["open"], "{crash:?}");
        app.commits() - before
    };
    for k in 1..=play(None).await {
        play(Some((true, k))).await;
        play(Some((false, k))).await;
    }
}

#[test]
async fn nothing_of_a_deleted_instance_is_left_in_the_file_and_its_space_is_used_again() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("app.db");
    let store = SqliteStore::open(&file, SqliteOptions::default()).unwrap();
    let app = builder().start_on(Arc::new(store));
    let mut sizes = Vec::new();
    for round in 0..4 {
        for number in 0..20 {
            let id = format!("order-{round}-{number}");
            app.client().start(&id, order(number % 2 == 0)).tag("round", "x").await.unwrap();
            // Nobody reads it: it stays as a message.
            app.signal(&id, "hurry", &"x".repeat(2_000)).await.unwrap();
        }
        app.advance(DAY).await;
        assert_eq!(app.client().delete_closed(ClosedFilter::default()).await.unwrap(), 20);
        let sql = rusqlite::Connection::open(&file).unwrap();
        for table in ["instance", "event", "message", "task", "attempt", "kv", "tag"] {
            let count = format!("SELECT count(*) FROM {table}");
            let rows: i64 = sql.query_row(&count, [], |row| row.get(0)).unwrap();
            assert_eq!(rows, 0, "{table}");
        }
        let pages = "PRAGMA page_count";
        sizes.push(sql.query_row(pages, [], |row| row.get::<_, i64>(0)).unwrap());
    }
    assert!(sizes[3] <= sizes[0] * 3 / 2, "{sizes:?}");
}
