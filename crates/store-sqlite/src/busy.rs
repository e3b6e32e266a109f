//! Waiting for other processes that write.
//!
//! SQLite's own waiting grows to a tenth of a second between looks, which starves a client beside
//! an owner that commits back to back. Ours looks five times in a millisecond until the time is up,
//! and meanwhile stands in the queue to which others give way (see `queue`).
//!
//! Two processes on two cores that had other work too, an owner that always had the next commit
//! ready and a client that made 200; the middle of eight measurements, in milliseconds:
//!
//! | the client comes | | p50 | p99 | longest |
//! |---|---|---|---|---|
//! | now and then | without the queue | 2.6 | 13.8 | 26 |
//! | | with it | 1.3 | 7.4 | 11 |
//! | at once again | without the queue | 0.9 | 11.2 | 19 |
//! | | with it | 1.4 | 6.3 | 11 |
//!
//! The disk took half a millisecond. The longer a commit takes, the fewer moments there are to find
//! the database free by luck, and the more the queue is worth.
//!
//! The oldest rusqlite that we accept takes a plain function as a handler, so what it must know is
//! kept by thread: each connection lives on one.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::queue;

/// How long a waiting process sleeps between looks.
const LOOK_EVERY: Duration = Duration::from_micros(200);

thread_local! {
    static LIMIT: Cell<Duration> = const { Cell::new(Duration::from_secs(5)) };
    static SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
    static QUEUE: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
    static PLACE: RefCell<Option<File>> = const { RefCell::new(None) };
}

/// How long connections that this thread uses wait for a lock.
pub(crate) fn limit_on_this_thread(limit: Duration) {
    LIMIT.set(limit);
}

/// Where this thread queues when it waits; it must say when it has been [`served`].
pub(crate) fn queue_on_this_thread(queue: PathBuf) {
    QUEUE.set(Some(queue));
}

/// Leaves the queue: the lock is here, or the time was up. SQLite does not tell the handler.
pub(crate) fn served() {
    PLACE.set(None);
}

/// Makes a connection wait as the limit of its thread says.
pub(crate) fn install(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(wait as fn(i32) -> bool))
}

/// Tries again for as long as the limit of this thread allows. For what SQLite refuses at once,
/// without asking the handler.
pub(crate) fn until_served<T>(
    mut work: impl FnMut() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let since = Instant::now();
    loop {
        match work() {
            Err(error) if is_busy(&error) && since.elapsed() < LIMIT.get() => {
                thread::sleep(LOOK_EVERY);
            }
            answer => return answer,
        }
    }
}

/// Sleeps a little; false when the time is up. `looks` counts from 0 for each lock.
fn wait(looks: i32) -> bool {
    let since = match SINCE.get() {
        Some(since) if looks > 0 => since,
        _ => Instant::now(),
    };
    SINCE.set(Some(since));
    if since.elapsed() >= LIMIT.get() {
        return false;
    }
    stand_in_the_queue();
    thread::sleep(LOOK_EVERY);
    true
}

fn stand_in_the_queue() {
    PLACE.with_borrow_mut(|place| {
        if place.is_none() {
            *place = QUEUE.with_borrow(|queue| queue::stand_in(queue.as_deref()?));
        }
    });
}

fn is_busy(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};

    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked))
}
