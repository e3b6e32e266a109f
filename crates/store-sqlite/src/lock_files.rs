//! The files beside a database: ours, whose only use is to be locked, and SQLite's own.
//!
//! `orders.db-owner` is locked by the process that works on `orders.db`, see `lock`; and
//! `orders.db-queue` by those that wait to write, see `queue`. They stay where they are when nobody
//! needs them: a lock file that is removed and made anew is two files for a moment.
//!
//! The names follow the database's real path, so that whoever comes by way of a symbolic link finds
//! the same files. The database itself must not be locked, nor even opened by us: closing any
//! handle to it drops the locks that SQLite holds on it.
//!
//! SQLite makes `orders.db-wal` and `orders.db-shm` with the first connection and removes them with
//! the last, so each stays the same file for as long as a store is open, however often the log is
//! emptied or begun anew. Whoever removes one of them makes the processes that have it open lose
//! sight of those that come later; see [`Gone`].

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::lock::{self, Identity};

/// Where a database is, whatever path it was opened by.
#[derive(Clone, Debug)]
pub(crate) struct LockFiles {
    database: PathBuf,
    /// What tells the file from another one at the same path.
    identity: Option<Identity>,
    /// What tells SQLite's own files from others; none where there is no such file to watch.
    log: Option<Identity>,
    index: Option<Identity>,
}

/// A file of a database that is missing, or is another one than SQLite has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// The database itself: nobody would find what is written to it.
    Database,
    /// The write-ahead log: what was committed to it is lost with this process, unless it is
    /// copied into the database before.
    Log,
    /// The index of the log, which also holds the locks of those who write: a process that comes
    /// later makes another one, and would write at the same time.
    Index,
}

impl LockFiles {
    /// The files beside a database that is there, and that a connection has read: before that
    /// SQLite's own files may come and go.
    pub(crate) fn of(database: &Path) -> io::Result<Self> {
        let database = fs::canonicalize(database)?;
        let identity = lock::identity(&fs::metadata(&database)?);
        let mut files = LockFiles { database, identity, log: None, index: None };
        let found = |path: PathBuf| fs::metadata(path).ok().as_ref().and_then(lock::identity);
        files.log = found(files.log());
        files.index = found(files.index());
        Ok(files)
    }

    /// The file that is missing by now, or is another one.
    pub(crate) fn gone(&self) -> Option<Gone> {
        if is_gone(&self.database, self.identity) {
            Some(Gone::Database)
        } else if self.log.is_some() && is_gone(&self.log(), self.log) {
            Some(Gone::Log)
        } else if self.index.is_some() && is_gone(&self.index(), self.index) {
            Some(Gone::Index)
        } else {
            None
        }
    }

    /// The database.
    pub(crate) fn database(&self) -> &Path {
        &self.database
    }

    /// SQLite's write-ahead log.
    pub(crate) fn log(&self) -> PathBuf {
        self.named("-wal")
    }

    /// SQLite's index of the log.
    pub(crate) fn index(&self) -> PathBuf {
        self.named("-shm")
    }

    /// The file that the owner locks.
    pub(crate) fn owner(&self) -> PathBuf {
        self.named("-owner")
    }

    /// The file that those lock who wait to write.
    pub(crate) fn queue(&self) -> PathBuf {
        self.named("-queue")
    }

    fn named(&self, suffix: &str) -> PathBuf {
        let mut name = self.database.clone().into_os_string();
        name.push(suffix);
        name.into()
    }

    /// Opens one of these files, and makes it when it is not there.
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Of two processes that make it at once, both must get the same file.
                let file = options.create(true).truncate(false).open(path)?;
                self.share(&file);
                Ok(file)
            }
            opened => opened,
        }
    }

    /// Lets everybody lock the file who may write the database, as SQLite does with its own files.
    /// When that fails, those who suffer are told which file they may not write.
    #[cfg(unix)]
    fn share(&self, file: &File) {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

        let Ok(like) = fs::metadata(&self.database) else { return };
        // Only root can give a file away.
        let _ = fchown(file, Some(like.uid()), Some(like.gid()));
        let _ = file.set_permissions(fs::Permissions::from_mode(like.mode() & 0o666));
    }

    #[cfg(not(unix))]
    fn share(&self, _: &File) {}
}

/// True when the file at a path is missing, or is another one than it was.
fn is_gone(path: &Path, identity: Option<Identity>) -> bool {
    match fs::metadata(path) {
        Ok(now) => identity.is_some() && lock::identity(&now) != identity,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}
