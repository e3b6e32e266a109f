//! A database that can be read where no files can be made.
//!
//! Reading a database in write-ahead mode needs the files of the log beside it. Where this process
//! may not make them and nobody else has, nobody has the database open, and the file alone is the
//! whole of it. Then it is opened as one that never changes (`immutable`): SQLite makes no files
//! and takes no locks. Because somebody may begin to write at any moment, what was read is believed
//! only when the files are the same after it; and from then on the log is there to be read.
//!
//! A process that was killed, or that opened the database and wrote nothing, may leave a log of no
//! bytes behind. That is as good as none. SQLite moves what is in a log to the file, and has it on
//! the disk, before it cuts the log; so whenever the log is empty, the file alone is the whole.
//! Somebody may have it open all the same: the first thing that they write makes the log longer,
//! and the file itself is written only from a log that is not empty, so both are seen here.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use resurgam_store::{Error, Result};
use rusqlite::{Connection, OpenFlags};

/// A database with nothing in its log, as it was seen last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Still {
    database: PathBuf,
    files: [Option<Seen>; 2],
}

/// The length of a file and when it was written.
type Seen = (u64, Option<SystemTime>);

/// A connection, and how its database was seen where the connection cannot tell.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    pub(crate) still: Option<Still>,
}

/// What a read uses.
#[derive(Clone, Copy)]
pub(crate) struct Seat<'c> {
    pub(crate) connection: &'c Connection,
    pub(crate) still: Option<&'c Still>,
}

impl Still {
    /// How a database is seen now; `None` when there is something in its log.
    pub(crate) fn of(path: &Path) -> io::Result<Option<Self>> {
        let still = Still::look(fs::canonicalize(path)?);
        let is_whole = still.files[1].is_none_or(|(length, _)| length == 0);
        Ok(is_whole.then_some(still))
    }

    fn look(database: PathBuf) -> Self {
        let mut log = database.clone().into_os_string();
        log.push("-wal");
        let seen = |path: &Path| {
            let about = fs::metadata(path).ok()?;
            Some((about.len(), about.modified().ok()))
        };
        let files = [seen(&database), seen(Path::new(&log))];
        Still { database, files }
    }

    /// The files, looked at once more.
    pub(crate) fn now(&self) -> Self {
        Still::look(self.database.clone())
    }

    /// True when nobody has begun to write.
    pub(crate) fn is_still(&self) -> bool {
        self.now() == *self
    }

    /// Opens the database as one that never changes.
    pub(crate) fn open(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(format!("{}?immutable=1", uri(&self.database)), flags)
    }
}

impl Seat<'_> {
    /// What was read, if it can be believed.
    pub(crate) fn checked<T>(&self, read: Result<T>) -> Result<T> {
        match self.still {
            Some(still) if !still.is_still() => {
                Err(Error::transient("somebody has begun to write; try again"))
            }
            _ => read,
        }
    }
}

/// A path in the form in which options can follow it.
fn uri(path: &Path) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let escaped = |byte: &u8| match is_plain(*byte) {
        true => char::from(*byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    let path: String = path.as_os_str().as_encoded_bytes().iter().map(escaped).collect();
    format!("file:{path}")
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_path_keeps_its_meaning_in_front_of_options() {
        let path = Path::new("/tmp/50% ready? #1 é.db");
        assert_eq!(uri(path), "file:/tmp/50%25%20ready%3F%20%231%20%C3%A9.db");
    }

    #[test]
    fn what_was_read_while_somebody_began_to_write_is_not_believed() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a ?.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE x (y)").unwrap();
        let still = Still::of(&path).unwrap().unwrap();
        let connection = still.open().unwrap();
        let seat = Seat { connection: &connection, still: Some(&still) };
        assert!(seat.checked(Ok(())).is_ok());
        let log = folder.path().join("a ?.db-wal");
        fs::write(&log, "").unwrap();
        assert!(seat.checked(Ok(())).unwrap_err().is_transient());
        let emptied = Still::of(&path).unwrap().expect("nothing is in the log");
        assert!(emptied.is_still());
        fs::write(&log, "frames").unwrap();
        assert!(!emptied.is_still());
        assert_eq!(Still::of(&path).unwrap(), None);
    }
}
