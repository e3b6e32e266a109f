//! What was acknowledged is there after the process is not.

use crate::support::process::{self, Process};
use crate::support::*;
use resurgam_store::{Inspect, Work};
use resurgam_store_sqlite::{Options, SqliteStore, SyncMode};
use resurgam_watchdog::test;

#[test]
async fn a_closed_store_is_one_file_that_opens_with_everything() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, [start(1), start(2)]).await;
    store.close().await;
    assert_eq!(folder.log_bytes(), 0);

    let store = folder.open();
    let record = store.load_run(run(1).uid).await.unwrap().unwrap();
    assert_eq!((record.events.len(), record.tasks.len(), record.messages.len()), (2, 1, 1));
    assert!(store.find("order-2").await.unwrap().is_some());
}

#[test]
async fn closing_empties_the_log_although_others_have_the_file_open() {
    let folder = Folder::new();
    let (store, other) = (folder.open(), folder.open());
    write(&store, [start(1)]).await;
    assert!(folder.log_bytes() > 0);
    store.close().await;
    assert_eq!(folder.log_bytes(), 0);
    assert!(other.find("order-1").await.unwrap().is_some());
}

#[test]
async fn a_dropped_store_keeps_what_was_acknowledged() {
    let folder = Folder::new();
    for number in 1..20 {
        write(&folder.open(), [start(number)]).await;
        let store = folder.open();
        for earlier in 1..=number {
            assert!(store.load_run(run(earlier).uid).await.unwrap().is_some());
        }
    }
}

/// The files as they are at that instant are what a process leaves that is killed then. Copying
/// them drops the locks of this process, which nobody else minds here.
#[test]
async fn the_files_of_an_open_store_hold_every_acknowledged_step() {
    let (folder, copy) = (Folder::new(), Folder::new());
    for sync in [SyncMode::Full, SyncMode::Normal] {
        let _ = std::fs::remove_file(&folder.path);
        let options = Options::default().sync(sync);
        let store = SqliteStore::open(&folder.path, options.clone()).unwrap();
        write(&store, [start(1)]).await;
        for seq in 3..30 {
            write(&store, [note(1, seq, 100)]).await;
            std::fs::copy(&folder.path, &copy.path).unwrap();
            std::fs::copy(folder.file("orders.db-wal"), copy.file("orders.db-wal")).unwrap();
            let left = SqliteStore::open(&copy.path, options.clone()).unwrap();
            let events = left.load_run(run(1).uid).await.unwrap().unwrap().events;
            assert_eq!(events.len() as u64, seq);
            left.close().await;
        }
        store.close().await;
    }
}

/// Starts a process.
#[test(minutes = 15)]
async fn a_killed_process_loses_no_acknowledged_step_and_leaves_no_half_of_one() {
    let folder = Folder::new();
    let mut process = Process::start("durability::the_process_that_is_killed", &folder.path);
    let acknowledged = std::iter::from_fn(|| process.hear());
    let last: u128 = acknowledged.take(200).last().unwrap().parse().unwrap();
    process.kill();

    let store = folder.open();
    for number in 1..=last {
        assert!(store.find(&format!("order-{number}")).await.unwrap().is_some(), "{number}");
    }
    let everything = resurgam_store::rows::InstanceFilter { limit: 100_000, ..Default::default() };
    for instance in store.list(everything).await.unwrap() {
        let record = store.load_run(instance.uid).await.unwrap().unwrap();
        assert_eq!((record.events.len(), record.tasks.len(), record.messages.len()), (2, 1, 1));
    }
}

#[test(minutes = 15)]
#[ignore = "another test starts it as a process, to kill it"]
async fn the_process_that_is_killed() {
    let Some(path) = process::database() else { return };
    let store = SqliteStore::open(path, patient()).unwrap();
    for number in 1.. {
        write(&store, [start(number)]).await;
        process::say(number);
    }
}
