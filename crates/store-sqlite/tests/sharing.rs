//! Several processes, or several stores, on one file.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use resurgam_store::{Commit, Look, StepResult};
use resurgam_store_sqlite::{Options, SqliteStore};
use support::*;

#[tokio::test]
async fn stores_that_open_a_new_file_at_once_make_one_database() {
    for _ in 0..10 {
        let folder = Folder::new();
        let stores: Vec<SqliteStore> = std::thread::scope(|scope| {
            let opening: Vec<_> = (0..8).map(|_| scope.spawn(|| folder.open())).collect();
            opening.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for (number, store) in (1..).zip(&stores) {
            write(store, [start(number)]).await;
        }
        for store in &stores {
            assert_eq!(store.list(Default::default()).await.unwrap().len(), 8);
        }
    }
}

#[tokio::test]
async fn both_can_write_and_an_id_still_has_one_holder() {
    let folder = Folder::new();
    let (one, two) = (folder.open(), folder.open());
    for number in 1..50 {
        let (first, second) =
            tokio::join!(one.commit([start(number)].into()), two.commit([start(number)].into()));
        let mut results = [first.unwrap()[0], second.unwrap()[0]];
        results.sort_by_key(|result| *result == StepResult::Duplicate);
        assert_eq!(results, [StepResult::Written, StepResult::Duplicate]);
    }
    assert_eq!(one.list(Default::default()).await.unwrap().len(), 49);
}

#[tokio::test(flavor = "current_thread")]
async fn a_client_comes_to_write_beside_an_owner_that_never_pauses() {
    let folder = Folder::new();
    let (owner, client) = (folder.open(), folder.open());
    write(&owner, [start(1)]).await;
    let done = AtomicBool::new(false);
    let busy = async {
        let mut seq = 3;
        while !done.load(Ordering::Relaxed) {
            write(&owner, [note(1, seq, 1_000)]).await;
            seq += 1;
        }
    };
    let visits = async {
        for number in 2..20 {
            write(&client, [start(number)]).await;
        }
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(busy, visits);
}

#[tokio::test]
async fn a_store_hears_of_the_commits_of_others_and_not_of_its_own() {
    let folder = Folder::new();
    let (one, two) = (folder.open(), folder.open());
    let before = one.data_version().await.unwrap();
    write(&one, [start(1)]).await;
    assert_eq!(one.data_version().await.unwrap(), before);
    write(&two, [start(2)]).await;
    assert_ne!(one.data_version().await.unwrap(), before);
}

#[tokio::test]
async fn a_commit_that_waited_too_long_is_transient_and_can_be_repeated() {
    let folder = Folder::new();
    let options = Options::default().busy_timeout(Duration::from_millis(5));
    let store = SqliteStore::open(&folder.path, options).unwrap();
    let other = folder.sql();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.commit([start(1)].into()).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert!(error.to_string().contains("orders.db"), "{error}");
    // Reading goes on meanwhile.
    assert!(store.find("order-1").await.unwrap().is_none());
    other.execute_batch("COMMIT").unwrap();
    write(&store, [start(1)]).await;
}

#[tokio::test]
async fn a_long_read_of_somebody_else_delays_no_commit() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, [start(1)]).await;
    let other = folder.sql();
    other.execute_batch("BEGIN; SELECT count(*) FROM event").unwrap();
    for number in 2..50 {
        write(&store, [start(number)]).await;
    }
    // Closing leaves the log to whoever still reads it.
    store.close().await;
    assert!(folder.log_bytes() > 0);
    other.execute_batch("COMMIT").unwrap();
}
