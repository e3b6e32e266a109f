//! Our files beside a database, whose only use is to be locked.
//!
//! `orders.db-owner` is locked by the process that works on `orders.db`, see `lock`; and
//! `orders.db-queue` by those that wait to write, see `queue`. They stay where they are when nobody
//! needs them: a lock file that is removed and made anew is two files for a moment.
//!
//! The names follow the database's real path, so that whoever comes by way of a symbolic link finds
//! the same files. The database itself must not be locked, nor even opened by us: closing any
//! handle to it drops the locks that SQLite holds on it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::lock::{self, Identity};

/// Where a database is, whatever path it was opened by.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    database: PathBuf,
    /// What tells the file from another one at the same path.
    identity: Option<Identity>,
}

impl Beside {
    /// The files beside a database that is there.
    pub(crate) fn of(database: &Path) -> io::Result<Self> {
        let database = fs::canonicalize(database)?;
        let identity = lock::identity(&fs::metadata(&database)?);
        Ok(Beside { database, identity })
    }

    /// True when the file at the path of the database is missing, or is another one.
    pub(crate) fn database_is_gone(&self) -> bool {
        match fs::metadata(&self.database) {
            Ok(now) => self.identity.is_some() && lock::identity(&now) != self.identity,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// The database.
    pub(crate) fn database(&self) -> &Path {
        &self.database
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
