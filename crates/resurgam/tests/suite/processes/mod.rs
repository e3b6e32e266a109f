//! Real processes for the tests: programs that are started, killed, stopped and frozen from
//! outside, and the journal in which they write down what they do.
//!
//! Other tests run on a virtual clock and never sleep. These are about what an operating system
//! does to a process, so they run on the wall clock, and must hold on a machine that is busy with
//! other things: they compare orders, counts and causes, and print how long something took. A wait
//! ends when what it is for has come, and fails with its name after [`PATIENCE`].

// Each test program uses a part of this.
#![allow(clippy::unwrap_used, dead_code)]

pub(crate) mod check;
pub(crate) mod driver;
pub(crate) mod journal;
pub(crate) mod log;
pub(crate) mod past;
pub(crate) mod program;
pub(crate) mod workload;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

/// The longest wait for anything. Whoever waits this long waits in vain, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// Between two looks at what other processes do: files, databases and processes tell nobody that
/// they have changed.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    until_some(what, || holds().then_some(()));
}

/// Waits until there is something.
pub(crate) fn until_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "after {PATIENCE:?} this has not come to pass: {what}");
        thread::sleep(PAUSE);
    }
}

/// A folder with the path of a database and of a journal.
pub(crate) struct Ground {
    pub(crate) folder: TempDir,
}

impl Ground {
    pub(crate) fn new() -> Self {
        Ground { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("app.db")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.folder.path().join("journal")
    }
}

/// The wall clock, in milliseconds.
pub(crate) fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// A seed: the one that `RESURGAM_SEED` names, or a fresh one.
pub(crate) fn seed() -> u64 {
    std::env::var("RESURGAM_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap())
}

/// A number of rounds, unless `RESURGAM_KILL_ROUNDS` names another.
pub(crate) fn rounds(usually: u32) -> u32 {
    std::env::var("RESURGAM_KILL_ROUNDS").map_or(usually, |rounds| rounds.parse().unwrap())
}
