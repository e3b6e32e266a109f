//! The write-ahead log does not grow without end.

use crate::support::*;
use resurgam_store::Look;
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
