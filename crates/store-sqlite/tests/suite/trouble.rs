//! Trouble with the disk: said clearly, nothing lost, and over when the disk is well.

use std::sync::Arc;

use crate::support::process::{self, Process};
use crate::support::*;
use resurgam_store::{Commit, Inspect, Step, Work};
use resurgam_store_sqlite::SqliteStore;
use resurgam_watchdog::test;
#[cfg(unix)]
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
async fn a_full_disk_is_waited_out() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, [start(1)]).await;
    // As many pages as there are, and no more.
    store.run_on_writer("PRAGMA max_page_count = 1").await.unwrap();
    let batch: Arc<[Step]> = (3..50).map(|seq| note(1, seq, 10_000)).collect();
    for _ in 0..3 {
        let error = store.commit(batch.clone()).await.unwrap_err();
        assert!(error.is_transient(), "{error}");
        assert!(error.to_string().contains("full"), "{error}");
    }
    let record = store.load_run(run(1).uid).await.unwrap().unwrap();
    assert_eq!(record.events.len(), 2);
    assert_eq!(store.commits().transactions, 1);

    store.run_on_writer("PRAGMA max_page_count = 1000000").await.unwrap();
    write(&store, batch).await;
    assert_eq!(store.history(run(1)).await.unwrap().len(), 49);
}

#[cfg(unix)]
#[test]
fn a_limit_on_the_size_of_files_is_waited_out_like_a_full_disk() {
    let folder = Folder::new();
    let mut writer = Process::start("trouble::writes_up_to_a_limit_and_on", &folder.path);
    let error = writer.hear().expect("the limit ends the process");
    assert!(error.contains("may have more than 1000000 bytes (ulimit -f)"), "{error}");
    assert_eq!(writer.hear().as_deref(), Some("goes on"));
}

#[cfg(unix)]
#[test]
#[ignore = "run by others as a process of its own, for the limit is the whole process's"]
async fn writes_up_to_a_limit_and_on() {
    let Some(path) = process::database() else { return };
    let files = Resource::Fsize;
    let was = getrlimit(files);
    let store = SqliteStore::open(path, patient()).unwrap();
    setrlimit(files, Rlimit { current: Some(1_000_000), ..was }).unwrap();
    write(&store, [start(1)]).await;
    let batch = |n: u64| -> Arc<[Step]> { Arc::new([note(1, n, 50_000)]) };
    let mut acknowledged = 2;
    let error = loop {
        match store.commit(batch(acknowledged + 1)).await {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert!(error.is_transient(), "{error}");
    process::say(error);
    let again = store.commit(batch(acknowledged + 1)).await.unwrap_err();
    assert!(again.is_transient(), "{again}");
    setrlimit(files, was).unwrap();
    write(&store, batch(acknowledged + 1)).await;
    assert_eq!(store.history(run(1)).await.unwrap().len() as u64, acknowledged + 1);
    process::say("goes on");
}

#[test]
async fn a_database_that_becomes_read_only_is_unusable() {
    let folder = Folder::new();
    let store = folder.open();
    store.run_on_writer("PRAGMA query_only = ON").await.unwrap();
    let error = store.commit([start(1)].into()).await.unwrap_err();
    assert!(error.is_unusable(), "{error}");
    assert!(error.to_string().contains("orders.db"), "{error}");
    assert!(store.find("order-1").await.unwrap().is_none());
}

#[test]
async fn missing_tables_are_no_fault_of_the_data() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, [start(1)]).await;
    folder.sql().execute_batch("DROP TABLE event").unwrap();
    let error = store.commit([start(2)].into()).await.unwrap_err();
    assert!(error.is_unusable(), "{error}");
    assert!(store.find("order-2").await.unwrap().is_none());
}

#[test]
async fn a_damaged_page_is_no_fault_of_the_data() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, (1..500).map(start).collect::<Vec<_>>()).await;
    store.close().await;
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'event_seq'";
    let root: usize =
        folder.sql().query_row(root, [], |row| Ok(row.get::<_, u32>(0)? as usize)).unwrap();
    let mut bytes = std::fs::read(&folder.path).unwrap();
    bytes[(root - 1) * 4_096..root * 4_096].fill(0xff);
    std::fs::write(&folder.path, bytes).unwrap();

    let store = folder.open();
    let load = store.load_run(run(1).uid).await.map(|_| ()).unwrap_err();
    let commit = store.commit([start(500)].into()).await.map(|_| ()).unwrap_err();
    for error in [load, commit] {
        assert!(error.is_unusable(), "{error}");
    }
}

#[test]
async fn a_closed_store_says_so() {
    for store in [SqliteStore::in_memory().unwrap(), Folder::new().open()] {
        store.close().await;
        store.close().await;
        let commit = store.commit([start(1)].into()).await.unwrap_err();
        let find = store.find("order-1").await.unwrap_err();
        let version = store.data_version().await.unwrap_err();
        for error in [commit, find, version] {
            assert!(error.is_unusable(), "{error}");
            assert!(error.to_string().contains("the store is closed"), "{error}");
        }
    }
}

#[test]
async fn commits_that_were_asked_for_before_the_close_are_written() {
    let folder = Folder::new();
    let store = folder.open();
    let (first, second, ()) = tokio::join!(
        store.commit([start(1)].into()),
        store.commit([start(2)].into()),
        store.close()
    );
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(folder.open().list(Default::default()).await.unwrap().len(), 2);
}

#[test]
async fn transactions_and_rows_are_counted() {
    let store = SqliteStore::in_memory().unwrap();
    write(&store, [start(1), start(2)]).await;
    store.commit([start(1), start(3)].into()).await.unwrap();
    let commits = store.commits();
    assert_eq!((commits.transactions, commits.rows), (2, 3 * 5));
}
