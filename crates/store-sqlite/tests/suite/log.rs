//! The write-ahead log does not grow without end, and is missed when somebody removes it.

use std::fs;

use crate::support::*;
use resurgam_store::{Commit, Error, Inspect};
use resurgam_store_sqlite::{Options, SqliteStore};
use resurgam_watchdog::test;

const MIB: u64 = 1 << 20;

#[test]
async fn the_log_stays_bounded_under_constant_load() {
    let folder = Folder::new();
    let options = Options::default().log_bytes(2 * MIB as u32);
    let store = SqliteStore::open(&folder.path, options).unwrap();
    write(&store, [start(1)]).await;
    for seq in 3..200 {
        write(&store, [note(1, seq, 200_000)]).await;
        // One commit beyond the limit, and the one that was written while the log was copied.
        assert!(folder.log_bytes() < 4 * MIB, "{} bytes", folder.log_bytes());
    }
    assert_eq!(store.history(run(1)).await.unwrap().len(), 199);
}

#[test]
async fn a_log_that_somebody_reads_is_shortened_when_they_are_done() {
    let folder = Folder::new();
    let options = Options::default().log_bytes(MIB as u32);
    let store = SqliteStore::open(&folder.path, options).unwrap();
    write(&store, [start(1)]).await;
    let other = folder.sql();
    other.execute_batch("BEGIN; SELECT count(*) FROM event").unwrap();
    for seq in 3..30 {
        write(&store, [note(1, seq, 200_000)]).await;
    }
    assert!(folder.log_bytes() > 4 * MIB);
    other.execute_batch("COMMIT").unwrap();
    for seq in 30..40 {
        write(&store, [note(1, seq, 200_000)]).await;
    }
    assert!(folder.log_bytes() < 4 * MIB, "{} bytes", folder.log_bytes());
}

/// Starts instances until that is refused; answers with how many were acknowledged.
async fn until_refused(store: &SqliteStore) -> (u128, Error) {
    let mut acknowledged = 0;
    let error = poll("the refusal", async || {
        let committed = store.commit([start(acknowledged + 1)].into()).await;
        acknowledged += u128::from(committed.is_ok());
        committed.err()
    });
    let error = error.await;
    (acknowledged, error)
}

/// What a crash of this moment would leave: the database without a log.
fn left_by_a_crash(folder: &Folder) -> Folder {
    let left = Folder::new();
    fs::copy(&folder.path, &left.path).unwrap();
    left
}

#[cfg(unix)]
#[test]
async fn a_log_that_was_removed_takes_nothing_any_more_and_what_it_held_is_kept() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, [start(1_000_000)]).await;
    fs::remove_file(folder.file("orders.db-wal")).unwrap();
    let (acknowledged, error) = until_refused(&store).await;
    assert!(error.is_unusable(), "{error}");
    let expected = "orders.db-wal was removed or replaced while it was in use; ";
    assert!(error.to_string().contains(expected), "{error}");
    let left = left_by_a_crash(&folder).open().list(Default::default()).await.unwrap();
    assert_eq!(left.len() as u128, 1 + acknowledged);
}

#[cfg(unix)]
#[test]
async fn a_log_that_was_replaced_takes_nothing_any_more() {
    let folder = Folder::new();
    let store = folder.open();
    fs::write(folder.file("another"), "").unwrap();
    fs::rename(folder.file("another"), folder.file("orders.db-wal")).unwrap();
    let (_, error) = until_refused(&store).await;
    assert!(error.is_unusable() && error.to_string().contains("orders.db-wal was"), "{error}");
}

#[cfg(unix)]
#[test]
async fn an_index_of_the_log_that_was_removed_ends_all_writing_and_nothing_is_lost() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, [start(1_000_000)]).await;
    fs::remove_file(folder.file("orders.db-shm")).unwrap();
    let (acknowledged, error) = until_refused(&store).await;
    assert!(error.is_unusable(), "{error}");
    let expected = "orders.db-shm was removed or replaced while it was in use; ";
    assert!(error.to_string().contains(expected), "{error}");
    store.close().await;
    assert!(folder.log_bytes() > 0, "somebody else may have begun it anew: it is left alone");
    let left = folder.open().list(Default::default()).await.unwrap();
    assert_eq!(left.len() as u128, 1 + acknowledged);
}

#[test]
async fn a_log_that_is_emptied_and_begun_anew_is_not_taken_for_one_that_was_removed() {
    let folder = Folder::new();
    let options = patient().log_bytes(MIB as u32);
    let store = SqliteStore::open(&folder.path, options.clone()).unwrap();
    write(&store, [start(1)]).await;
    for seq in 3..40 {
        // Another one empties the log when it is closed.
        let client = SqliteStore::open(&folder.path, options.clone()).unwrap();
        write(&client, [note(1, seq, 100_000)]).await;
        client.close().await;
        write(&store, [note(1, 1_000 + seq, 10)]).await;
        let other = folder.sql();
        other.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    }
    assert_eq!(store.history(run(1)).await.unwrap().len(), 2 + 2 * 37);
}
