//! Waiting for other processes that write.
//!
//! SQLite's own waiting grows to a tenth of a second between looks, which starves a client beside
//! an owner that commits back to back. Ours looks twice in a millisecond until the time is up.
//! Beside an owner that never paused, on two busy cores, a client then waited half a millisecond
//! for its turn, and 85 at the most; an owner that left gaps for it made no difference.
//!
//! The oldest rusqlite that we accept takes a plain function as a handler, so the limit is kept by
//! thread: each connection lives on one.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

/// How long a waiting process sleeps between looks.
pub(crate) const LOOK_EVERY: Duration = Duration::from_micros(500);

thread_local! {
    static LIMIT: Cell<Duration> = const { Cell::new(Duration::from_secs(5)) };
    static SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// How long connections that this thread uses wait for a lock.
pub(crate) fn limit_on_this_thread(limit: Duration) {
    LIMIT.set(limit);
}

/// Makes a connection wait as the limit of its thread says.
pub(crate) fn install(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(wait as fn(i32) -> bool))
}

/// Sleeps a little; false when the time is up. `looks` counts from 0 for each lock.
pub(crate) fn wait(looks: i32) -> bool {
    let since = match SINCE.get() {
        Some(since) if looks > 0 => since,
        _ => Instant::now(),
    };
    SINCE.set(Some(since));
    if since.elapsed() >= LIMIT.get() {
        return false;
    }
    thread::sleep(LOOK_EVERY);
    true
}
