//! The thread that copies the write-ahead log into the database, beside the writer.
//!
//! It works when the writer wakes it, and once more when the writer has ended: then the log is
//! emptied, so that a store that was closed is a single file. The log of one that has written
//! nothing may be somebody else's business, and then it is left alone.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use rusqlite::Connection;

use crate::busy;
use crate::writer::{Copying, copy_log, leave_log};

/// How long closing waits for readers of other processes before it leaves the log to them.
pub(crate) const CLOSING: Duration = Duration::from_millis(100);

/// Copies whenever it is woken. Trouble is left alone: nothing is lost, the log is merely longer,
/// and whatever ails the disk is said by the next commit.
pub(crate) fn run(
    connection: &Connection,
    wakes: &Receiver<()>,
    copying: &Copying,
    is_ours: impl FnOnce() -> bool,
) {
    while wakes.recv().is_ok() {
        let _ = copy_log(connection, copying);
    }
    if !is_ours() {
        return;
    }
    busy::limit_on_this_thread(CLOSING);
    empty_log(connection, copying);
    if copying.begin().is_none() {
        leave_log(connection);
    }
}

/// Copies all of the log and empties it, unless others still read there.
pub(crate) fn empty_log(connection: &Connection, copying: &Copying) {
    let Some(_turn) = copying.begin() else { return };
    let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
}
