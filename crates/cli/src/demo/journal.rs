//! The journal: what the outside world saw, kept apart from the engine.
//!
//! Every attempt appends a line when it begins, with one write, before it does anything else. The
//! engine does not know the file; at the end its histories are compared with it, see
//! [`audit`](super::audit).

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use resurgam::ActivityContext;
use serde::{Deserialize, Serialize};

/// A file of beginnings.
#[derive(Clone, Debug)]
pub(super) struct Journal(PathBuf);

/// An attempt began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begin {
    pub(super) key: String,
    pub(super) activity: String,
    pub(super) attempt: u32,
    pub(super) instance: String,
}

impl Journal {
    /// The journal of a database.
    pub(super) fn beside(db: &Path) -> Self {
        let mut path = db.as_os_str().to_owned();
        path.push(".journal");
        Journal(path.into())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes down that an attempt begins.
    pub(super) fn append(&self, ctx: &ActivityContext) -> io::Result<()> {
        let begin = Begin {
            key: ctx.idempotency_key(),
            activity: ctx.activity().to_string(),
            attempt: ctx.attempt(),
            instance: ctx.instance().to_string(),
        };
        let line = serde_json::to_string(&begin)? + "\n";
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0)?;
        file.write_all(line.as_bytes())
    }

    /// Begins an empty one, for orders that are new.
    pub(super) fn begin_anew(&self) -> io::Result<()> {
        fs::write(&self.0, "")
    }

    /// Its lines in order; one that cannot be read is given back as it is.
    pub(super) fn read(&self) -> io::Result<Vec<Result<Begin, String>>> {
        let text = fs::read_to_string(&self.0)?;
        let read = |line: &str| serde_json::from_str(line).map_err(|_| line.to_string());
        Ok(text.lines().map(read).collect())
    }
}
