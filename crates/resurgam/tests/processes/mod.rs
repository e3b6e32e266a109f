//! Real processes for the tests: programs that are started, killed, stopped and frozen from
//! outside, and the journal in which they write down what they do.
//!
//! Other tests run on a virtual clock and never sleep. These are about what an operating system
//! does to a process, so they run on the wall clock; every bound on time is far above what is
//! measured.

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
use std::time::{SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

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
