//! What happened, as the world outside saw it: a file to which every process appends.
//!
//! The engine knows nothing of it, so it is a witness. A line is a single write to a file that is
//! open for appending, so it survives the process that wrote it. All lines have the same length, a
//! power of two: none lies on two pages, and a kill in the middle of the write cannot cut one.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::now_ms;

/// The length of a line.
const LINE: usize = 256;

/// Something that happened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// When, in milliseconds of the wall clock.
    pub(crate) at: i64,
    /// In which process, counted by the test.
    pub(crate) process: u32,
    /// What.
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum What {
    /// The process exists, and is about to work.
    Process,
    /// The process stood by, and works from now on.
    Works,
    /// It is about to start an instance.
    Starting { id: String },
    /// It was told that an instance is started.
    Started { id: String },
    /// The test is about to end the process.
    Ends,
    /// The test did something to a process, or to the server.
    Damage { what: String },
    /// The machine is busy: a short sleep of the process took this long, or in the test itself the
    /// answer of a server.
    Slow { millis: i64 },
    /// An attempt began.
    Begin { key: String, activity: String, attempt: u32 },
    /// An attempt is about to return.
    End { key: String, attempt: u32, ending: Ending },
}

/// How an attempt ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ending {
    Succeeded,
    Failed,
    Snoozed,
}

/// The journal, open for writing.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    process: u32,
}

impl Journal {
    pub(crate) fn open(path: &Path, process: u32) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        Journal { file, process }
    }

    pub(crate) fn write(&self, what: What) {
        let entry = Entry { at: now_ms(), process: self.process, what };
        let text = serde_json::to_string(&entry).unwrap();
        assert!(text.len() < LINE, "{text}");
        let line = format!("{text:<width$}\n", width = LINE - 1);
        (&self.file).write_all(line.as_bytes()).unwrap();
    }

    /// Notes that something took long, when it did.
    pub(crate) fn note_if_slow(&self, took: Duration, long: Duration) {
        if took > long {
            self.write(What::Slow { millis: i64::try_from(took.as_millis()).unwrap() });
        }
    }
}

/// Everything in the journal, in the order in which it was written.
pub(crate) fn read(path: &Path) -> Vec<Entry> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line.trim_end()).unwrap()).collect()
}
