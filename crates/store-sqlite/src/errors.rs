//! What SQLite's errors mean to the engine.
//!
//! The engine knows three answers: try the same again, blame the data, give up on the store. This
//! is the one place that translates.
//!
//! | SQLite says | it means | why |
//! |---|---|---|
//! | `BUSY`, `LOCKED`, `PROTOCOL`, `INTERRUPT` | transient | somebody else writes, for a while |
//! | `FULL` | transient | a full disk is emptied by somebody, and nothing was written |
//! | `IOERR_WRITE`, `IOERR_SHMSIZE` under `ulimit -f` | transient | that is a full disk, too |
//! | `IOERR` | transient | a disk or a network file system that answers again later |
//! | `NOMEM`, `SCHEMA` | transient | less pressure, a statement prepared anew |
//! | `CANTOPEN` while working | transient | too many open files; the database itself is open |
//! | `CONSTRAINT`, `TOOBIG`, `MISMATCH`, `RANGE` | data | the same row is refused again |
//! | a column of a wrong type, text that is not UTF-8 | data | the same row is unreadable again |
//! | `CORRUPT`, `NOTADB`, `IOERR_CORRUPTFS` | unusable | no writing until somebody repairs it |
//! | `READONLY`, `PERM`, `AUTH`, `CANTOPEN` on opening | unusable | waiting gives no rights |
//! | `ERROR`, `INTERNAL`, `MISUSE` and the rest | unusable | tables are gone, or we have a bug |

use std::path::Path;

use resurgam_core::{Code, Failure};
use resurgam_store::{Error, Result};
use rusqlite::ErrorCode;
use rusqlite::ffi;

use crate::file_limit;

/// Said wherever a lock is met: people look for their own mistake before they think of a shell that
/// is open in another window.
const LOCKED: &str = "another process keeps it locked; try again, or close what has a transaction \
     open on it (a shell of sqlite3, a browser of databases, a backup), or raise the busy timeout";

/// Said to whoever wants to write what they may only read.
const READ_ONLY: &str = "it can only be read; let this process write to the file and to its \
     folder, where SQLite keeps the -wal and -shm files";

/// Turns SQLite's answer into ours, saying what was attempted. The text is only made when there is
/// trouble.
pub(crate) trait Attempted<T> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Attempted<T> for rusqlite::Result<T> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| translated(error, what()))
    }
}

/// Trouble while opening, with advice for what people usually run into.
pub(crate) fn on_opening(path: &Path, error: rusqlite::Error) -> Error {
    let attempted = format!("open {}", path.display());
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            "this file is not a SQLite database; give the path of another file, or of none"
        }
        Some(ErrorCode::CannotOpen) if !folder_exists(path) => {
            "its folder does not exist; create the folder first"
        }
        Some(ErrorCode::CannotOpen) if path.is_dir() => {
            "this is a folder; give the path of a file in it"
        }
        Some(ErrorCode::CannotOpen) => {
            "check that this process may read and write the file, and make files in its folder"
        }
        Some(ErrorCode::ReadOnly) => return read_only(path),
        Some(ErrorCode::DatabaseCorrupt) => {
            "the file is damaged; restore a backup, or recover it with sqlite3's .recover"
        }
        _ => return translated(error, attempted),
    };
    let attempted = format!("{attempted}: {advice}");
    match error.sqlite_error_code() {
        Some(ErrorCode::CannotOpen) => Error::unusable(attempted).because(error),
        Some(ErrorCode::NotADatabase) => translated(error, attempted).with_code(Code::D4),
        _ => translated(error, attempted),
    }
}

/// A database that can be read and not written.
pub(crate) fn read_only(path: &Path) -> Error {
    Error::unusable(format!("open {}: {READ_ONLY}", path.display()))
}

/// A file that is not there, or has nothing in it.
pub(crate) fn missing(path: &Path, what: &str) -> Error {
    Error::missing(format!(
        "open {}: {what}; a program that works on it makes it: begin your app, or `resurgam \
         worker`, first",
        path.display()
    ))
}

/// A database that went away, or was moved, while it was being opened.
pub(crate) fn not_found(path: &Path, error: std::io::Error) -> Error {
    Error::transient(format!("open {}: find out where it really is", path.display())).because(error)
}

/// True for a failure of the user's code that is the disk's fault: the code is to be run again, and
/// no attempt is to be counted. On its way through the user's code an error of SQLite has become
/// text; these are the words in which SQLite says it.
pub(crate) fn is_of_the_disk(failure: &Failure) -> bool {
    const SAYINGS: &[&str] = &[
        "database or disk is full",
        "disk I/O error",
        "out of memory",
        "unable to open database file",
        "attempt to write a readonly database",
        "database disk image is malformed",
    ];
    SAYINGS.iter().any(|saying| failure.message.starts_with(saying))
}

fn folder_exists(path: &Path) -> bool {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.is_dir(),
        _ => true,
    }
}

fn translated(error: rusqlite::Error, attempted: String) -> Error {
    let kind = match &error {
        rusqlite::Error::SqliteFailure(failure, _) => of_code(*failure),
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::ToSqlConversionFailure(_)
        | rusqlite::Error::Utf8Error(..) => Error::data,
        _ => Error::unusable,
    };
    let attempted = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            format!("{attempted}: {LOCKED}")
        }
        Some(ErrorCode::ReadOnly) => format!("{attempted}: {READ_ONLY}"),
        Some(ErrorCode::SystemIoFailure) => match file_limit::bytes().zip(room_for(&error)) {
            Some((bytes, advice)) => format!(
                "{attempted}: no file of this process may have more than {bytes} bytes (ulimit \
                 -f); {advice}"
            ),
            None => attempted,
        },
        _ => attempted,
    };
    kind(attempted).because(error)
}

/// What helps where a limit on the size of files is why the system refused to write. It does not
/// say why, but where there is a limit it is why most of the time.
fn room_for(error: &rusqlite::Error) -> Option<&'static str> {
    match error.sqlite_extended_error_code()? {
        ffi::SQLITE_IOERR_WRITE => Some("raise that limit, or delete closed instances"),
        ffi::SQLITE_IOERR_SHMOPEN | ffi::SQLITE_IOERR_SHMSIZE | ffi::SQLITE_IOERR_SHMMAP => {
            Some("raise that limit: even reading takes a -shm file of some 32 KiB beside it")
        }
        _ => None,
    }
}

fn of_code(failure: ffi::Error) -> fn(String) -> Error {
    match failure.code {
        _ if failure.extended_code == ffi::SQLITE_IOERR_CORRUPTFS => Error::unusable,
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::FileLockingProtocolFailed
        | ErrorCode::OperationInterrupted
        | ErrorCode::DiskFull
        | ErrorCode::SystemIoFailure
        | ErrorCode::OutOfMemory
        | ErrorCode::SchemaChanged
        | ErrorCode::CannotOpen => Error::transient,
        ErrorCode::ConstraintViolation
        | ErrorCode::TooBig
        | ErrorCode::TypeMismatch
        | ErrorCode::ParameterOutOfRange => Error::data,
        _ => Error::unusable,
    }
}
