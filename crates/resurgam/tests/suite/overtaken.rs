//! Several apps and clients on one file, in one process: what is asked and waited for survives that
//! the owner changes, and what others store is taken exactly once. Every commit waits for the disk,
//! which may be slow, so each test has a quarter of an hour.

use std::path::Path;
use std::time::Duration;

use resurgam::prelude::*;
use resurgam::{Client, SqliteOptions};
use resurgam_store_sqlite::SqliteStore;
use resurgam_watchdog::test;
use tempfile::TempDir;

/// Longer than anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

#[activity]
async fn pause(ctx: ActivityContext, number: u32) -> Result<u32, Failure> {
    ctx.sleep(Duration::from_millis(20)).await;
    Ok(number)
}

#[workflow]
async fn steps(ctx: WorkflowContext, number: u32) -> Result<u32, Failure> {
    for step in 0..3 {
        ctx.call(pause(step)).await?;
    }
    Ok(number)
}

/// Adds up the values of so many signals.
#[workflow]
async fn sum(ctx: WorkflowContext, count: u32) -> Result<u64, Failure> {
    let mut sum = 0;
    for _ in 0..count {
        sum += ctx.signal::<u64>("value").await?;
    }
    Ok(sum)
}

async fn app(file: &Path) -> App {
    let app = App::builder().workflow(steps).workflow(sum).activity(pause);
    // Whoever holds the file may be kept from the processor for as long as a machine is busy.
    let app = app.sqlite_options(SqliteOptions::default().busy_timeout(PATIENCE));
    app.options(|options| options.hot_runs = 2).sqlite(file).await.unwrap()
}

async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(PATIENCE, work).await;
    ended.unwrap_or_else(|_| panic!("{what}: not done after {PATIENCE:?}"))
}

#[test(minutes = 15, threads = 2)]
async fn a_crowd_that_waits_in_a_standby_hears_every_end() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("orders.db");
    let (owner, standby) = (app(&file).await, app(&file).await);
    assert!(owner.is_owner() && !standby.is_owner());
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..500 {
        let instance = standby.start(format!("steps-{number}"), steps(number)).await.unwrap();
        waiting.spawn(async move { instance.result().await.unwrap() == number });
    }
    drop(owner);
    let all = in_time("waiting across a takeover", waiting.join_all()).await;
    assert!(standby.is_owner() && all.into_iter().all(|right| right));
    standby.stop().await.unwrap();
}

#[test(minutes = 15, threads = 2)]
async fn an_owner_whose_lock_was_removed_stands_by_and_its_waiters_hear_the_end() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("orders.db");
    let (first, second) = (app(&file).await, app(&file).await);
    let instance = first.start("sum", sum(20)).await.unwrap();
    for value in 0..20_u64 {
        // Each time one of them, or the other, is the owner afterwards.
        let _missing_for_a_moment = std::fs::remove_file(folder.path().join("orders.db-owner"));
        let asked = if value % 2 == 0 { &first } else { &second };
        let id = format!("value-{value}");
        let sent = async {
            // An owner that is overtaken at this moment says so, and is asked again.
            while asked.signal_once("sum", "value", &value, &id).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        in_time("a signal", sent).await;
    }
    let sum = in_time("the sum", instance.result()).await.unwrap();
    assert_eq!(sum, (0..20_u64).sum::<u64>());
    in_time("one of them works", async {
        tokio::select! { owner = first.until_owner() => owner, owner = second.until_owner() => owner }
    })
    .await
    .unwrap();
}

#[test(minutes = 15, threads = 2)]
async fn every_plain_signal_of_other_processes_is_taken_once() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("orders.db");
    let app = app(&file).await;
    let (clients, signals) = (3, 60);
    let mut instances = Vec::new();
    for id in ["a", "b", "c", "d"] {
        instances.push(app.start(id, sum(clients * signals)).await.unwrap());
    }
    let mut sending = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let client = Client::sqlite(&file).await.unwrap();
        sending.spawn(async move {
            for value in 0..u64::from(signals) {
                for id in ["a", "b", "c", "d"] {
                    // Refused, and not sent, where others keep the file for longer than a
                    // client waits.
                    while let Err(error) = client.signal(id, "value", &value).await {
                        assert!(error.is_transient(), "{error}");
                    }
                }
            }
        });
    }
    in_time("sending", sending.join_all()).await;
    for instance in instances {
        let sum = in_time("the sum", instance.result()).await.unwrap();
        assert_eq!(sum, u64::from(clients) * (0..u64::from(signals)).sum::<u64>());
        let left = app.handle().store().messages(instance.uid()).await.unwrap();
        assert!(left.is_empty(), "{} has unread signals: {left:?}", instance.id());
    }
    app.stop().await.unwrap();
}

#[cfg(unix)]
#[test(minutes = 15, threads = 2)]
async fn a_database_that_was_removed_under_its_users_takes_nothing_any_more() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("orders.db");
    let owner = app(&file).await;
    let client = Client::sqlite(&file).await.unwrap();
    let another = folder.path().join("another.db");
    drop(SqliteStore::open(&another, SqliteOptions::default()).unwrap());
    std::fs::rename(&another, &file).unwrap();
    let refused = async {
        loop {
            if let Err(error) = client.start("late", steps(1)).replace_closed().await
                && !error.is_already_exists()
            {
                return error.to_string();
            }
            tokio::task::yield_now().await;
        }
    };
    let text = "was removed or replaced while it was in use";
    let error = in_time("the refusal", refused).await;
    assert!(error.contains(text), "{error}");
    let ended = in_time("the end of the owner", owner.ended()).await.unwrap_err();
    assert!(ended.to_string().contains(text), "{ended}");
    assert!(!owner.is_owner());
    let late = owner.start("late", steps(1)).await.unwrap_err();
    assert!(late.to_string().contains(text), "{late}");
}
