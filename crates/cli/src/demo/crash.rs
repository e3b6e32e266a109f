//! Ends the process as a power cut would: at once, without cleaning up, without a last commit.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The way to a crash. Half of the orders may be finished; then every attempt stops half-way, so
/// that the crash hits some however late it comes.
#[derive(Debug)]
pub(super) struct Brink {
    /// How many orders may be finished. None, until it is known how many there are.
    limit: AtomicUsize,
    finished: AtomicUsize,
    farewell: OnceLock<Farewell>,
    changed: Notify,
}

/// The last words before a crash.
#[derive(Debug)]
pub(super) struct Farewell {
    pub(super) text: String,
    /// Standard output belongs to a program, so people read standard error.
    pub(super) json: bool,
}

impl Brink {
    pub(super) fn new(crash: bool) -> Self {
        let limit = AtomicUsize::new(if crash { 0 } else { usize::MAX });
        let (farewell, changed) = (OnceLock::new(), Notify::new());
        Brink { limit, finished: AtomicUsize::new(0), farewell, changed }
    }

    /// Lets this many orders be finished before the crash.
    pub(super) fn allow(&self, orders: usize) {
        self.limit.store(orders, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// An order is finished.
    pub(super) fn finish(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }

    /// Crashes in an attempt that is half-way: one that waits here, or the next that comes.
    pub(super) fn crash(&self, farewell: Farewell) {
        self.farewell.get_or_init(|| farewell);
        self.changed.notify_waiters();
    }

    /// Every attempt comes by here, half-way. It is one that can neither report nor time out any
    /// more when the process dies in it.
    pub(super) async fn pass(&self) {
        loop {
            // Listening begins before looking, so nothing is missed in between.
            let changed = self.changed.notified();
            if let Some(farewell) = self.farewell.get() {
                farewell.crash();
            }
            if self.finished.load(Ordering::Relaxed) < self.limit.load(Ordering::Relaxed) {
                return;
            }
            changed.await;
        }
    }
}

impl Farewell {
    /// Says the last words and kills the process.
    fn crash(&self) -> ! {
        // Words that nobody can read change nothing about the end.
        let _ = match self.json {
            true => writeln!(anstream::stderr(), "{}", self.text),
            false => writeln!(anstream::stdout(), "{}", self.text),
        };
        kill();
        // Where there is no such signal, and where it should ever be late.
        std::process::abort()
    }
}

#[cfg(unix)]
fn kill() {
    use rustix::process::{Signal, getpid, kill_process};
    // If this is refused, what follows aborts.
    let _ = kill_process(getpid(), Signal::KILL);
}

#[cfg(not(unix))]
fn kill() {}
