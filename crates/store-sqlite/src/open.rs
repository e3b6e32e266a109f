//! Opening a database: refusing what is not ours, and setting up connections.
//!
//! Nothing is written to a file before it is known to be empty or ours. Then come the settings that
//! live in the file (page size, the write-ahead log), then the migrations.
//!
//! Who does not work on a database finds it ready or is refused: [`existing`] writes nothing.

use std::path::Path;

use resurgam_core::Code;
use resurgam_store::{Error, Result};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::options::{Options, SyncMode};
use crate::still::{Opened, Still};
use crate::{busy, errors, quarantine, schema, user_transaction};

/// The oldest SQLite library that may write: earlier ones can corrupt a write-ahead log that two
/// connections checkpoint.
const OLDEST_LIBRARY: i32 = 3_051_003;

/// The connection that writes, on a database that is ours and has every migration.
pub(crate) fn writer(path: &Path, options: &Options) -> Result<Connection> {
    refuse_old_library(rusqlite::version_number())?;
    refuse_missing(path, options)?;
    let failed = |error| errors::on_opening(path, error);
    let mut connection = connect(path, options).map_err(failed)?;
    // Before anything is read: even that would leave the files of a write-ahead log behind.
    refuse_read_only(path, &connection)?;
    connection.execute_batch(&settings(options)).map_err(failed)?;
    refuse_foreign(path, &connection)?;
    prepare_file(path, &mut connection)?;
    Ok(connection)
}

/// A connection to a database that is there and has every migration, which stays as it is. It may
/// write if this process has the rights.
pub(crate) fn existing(path: &Path, options: &Options) -> Result<Opened> {
    refuse_old_library(rusqlite::version_number())?;
    refuse_no_path(path)?;
    if !path.exists() {
        return Err(errors::missing(path, "there is no such file"));
    }
    let opened = another_existing(path, options)?;
    refuse_foreign(path, &opened.connection)?;
    schema::check(path, &opened.connection)?;
    Ok(opened)
}

/// Another connection to a database that [`existing`] has looked at.
pub(crate) fn another_existing(path: &Path, options: &Options) -> Result<Opened> {
    let unlogged = Still::of(path).map_err(|error| errors::not_found(path, error))?;
    let open = || {
        let connection = connect(path, &options.clone().create(false))?;
        let opened = match unlogged {
            // Where it may not be written, making the log would be in the way of whoever may.
            Some(still) if connection.is_readonly("main")? || !can_read(&connection)? => {
                let mut connection = still.open()?;
                user_transaction::install(&mut connection)?;
                Opened { connection, still: Some(still) }
            }
            _ => Opened { connection, still: None },
        };
        opened.connection.execute_batch(&settings(options))?;
        keep_statements(&opened.connection)?;
        Ok(opened)
    };
    open().map_err(|error| errors::on_opening(path, error))
}

/// False when the files are missing that reading needs, and cannot be made.
fn can_read(connection: &Connection) -> rusqlite::Result<bool> {
    use rusqlite::ErrorCode::{CannotOpen, ReadOnly};
    match connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.sqlite_error_code(), Some(CannotOpen | ReadOnly)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A database of this process only, gone with it. One connection does everything.
pub(crate) fn in_memory(options: &Options) -> Result<Connection> {
    refuse_old_library(rusqlite::version_number())?;
    let open = || {
        let mut connection = Connection::open_in_memory()?;
        user_transaction::install(&mut connection)?;
        connection.execute_batch(foreign_keys(options))?;
        connection.set_prepared_statement_cache_capacity(64);
        schema::copy_template(&mut connection)?;
        Ok(connection)
    };
    open().map_err(|error| errors::on_opening(Path::new(":memory:"), error))
}

/// A connection that reads or checkpoints a database that [`writer`] has prepared.
pub(crate) fn another(path: &Path, options: &Options) -> Result<Connection> {
    let open = || {
        let connection = connect(path, options)?;
        connection.execute_batch(&settings(options))?;
        keep_statements(&connection)?;
        Ok(connection)
    };
    open().map_err(|error| errors::on_opening(path, error))
}

/// Keeps prepared statements and their plans on a connection that only our own queries run on.
///
/// A plan must not depend on the values that a query is asked with. Where it may, SQLite prepares a
/// kept statement anew for each use, because its values were cleared in between, and that takes
/// several times as long as the query. Users' queries run on the connection that writes, which has
/// SQLite's default.
fn keep_statements(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

fn connect(path: &Path, options: &Options) -> rusqlite::Result<Connection> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, options.create);
    let mut connection = Connection::open_with_flags(path, flags)?;
    busy::install(&mut connection)?;
    user_transaction::install(&mut connection)?;
    Ok(connection)
}

/// What every connection to a file is told. Caches of 2, 16 and 64 MiB, pages of 8 KiB and a file
/// mapped into memory could not be told apart in the time of a commit, so the page size and the
/// mapping stay SQLite's, and the cache holds the largest batch twice.
fn settings(options: &Options) -> String {
    let (synchronous, fullfsync) = match options.sync {
        // On macOS only a full fsync reaches the disk; elsewhere the word changes nothing.
        SyncMode::Full => ("FULL", "ON"),
        SyncMode::Normal => ("NORMAL", "OFF"),
    };
    let foreign_keys = foreign_keys(options);
    format!(
        "{foreign_keys};
         PRAGMA temp_store = MEMORY;
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA synchronous = {synchronous};
         PRAGMA fullfsync = {fullfsync};
         PRAGMA cache_size = -16384;
         PRAGMA journal_size_limit = {};",
        options.log_bytes
    )
}

/// Our own tables have none, so that enforcing those of the user costs us nothing.
fn foreign_keys(options: &Options) -> &'static str {
    match options.foreign_keys {
        true => "PRAGMA foreign_keys = ON",
        false => "PRAGMA foreign_keys = OFF",
    }
}

fn prepare_file(path: &Path, connection: &mut Connection) -> Result<()> {
    let log = write_ahead_log(connection).map_err(|error| errors::on_opening(path, error))?;
    if log != "wal" {
        return Err(Error::unusable(format!(
            "open {}: its file system offers no write-ahead log (SQLite answered {log:?}); \
             put the file on a local disk",
            path.display()
        )));
    }
    schema::migrate(path, connection)?;
    quarantine::clear(connection).map_err(|error| errors::on_opening(path, error))
}

/// Switches to the write-ahead log and answers with the mode that is set. SQLite reads first and
/// then asks to write, and of two that do so at once it refuses one without calling the busy
/// handler.
fn write_ahead_log(connection: &Connection) -> rusqlite::Result<String> {
    busy::until_served(|| connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)))
}

fn refuse_old_library(version: i32) -> Result<()> {
    if version >= OLDEST_LIBRARY {
        return Ok(());
    }
    Err(Error::unusable(format!(
        "use SQLite {}.{}.{}: versions before 3.51.3 can damage a database in write-ahead mode; \
         build with rusqlite's feature `bundled`, or update the library",
        version / 1_000_000,
        version / 1_000 % 1_000,
        version % 1_000
    )))
}

/// SQLite takes these for databases that are gone when they are closed.
fn refuse_no_path(path: &Path) -> Result<()> {
    match path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
        true => Err(Error::unusable(format!("open {path:?}: give the path of a file"))),
        false => Ok(()),
    }
}

fn refuse_missing(path: &Path, options: &Options) -> Result<()> {
    refuse_no_path(path)?;
    if options.create || path.exists() {
        return Ok(());
    }
    Err(Error::unusable(format!("open {}: there is no such file", path.display())))
}

fn refuse_read_only(path: &Path, connection: &Connection) -> Result<()> {
    match connection.is_readonly("main") {
        Ok(false) => Ok(()),
        Ok(true) => Err(errors::read_only(path)),
        Err(error) => Err(errors::on_opening(path, error)),
    }
}

/// A file that holds tables and does not carry our mark belongs to somebody else.
fn refuse_foreign(path: &Path, connection: &Connection) -> Result<()> {
    // In one transaction: another process may be making the database at this moment.
    let look = || {
        let _transaction = connection.unchecked_transaction()?;
        let id: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
        let tables: i64 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((id, tables))
    };
    match look().map_err(|error| errors::on_opening(path, error))? {
        (schema::APPLICATION_ID, _) | (0, 0) => Ok(()),
        _ => Err(Error::unusable(format!(
            "open {}: this database belongs to another application; give the path of another \
             file, or of none",
            path.display()
        ))
        .with_code(Code::D4)),
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;
    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn a_library_that_can_damage_the_log_is_refused() {
        let error = refuse_old_library(3_051_002).unwrap_err();
        assert!(error.is_unusable());
        assert!(error.to_string().starts_with("use SQLite 3.51.2: "), "{error}");
        assert!(refuse_old_library(3_051_003).is_ok());
        assert!(refuse_old_library(rusqlite::version_number()).is_ok());
    }

    #[test]
    fn a_connection_that_can_only_read_is_refused() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("orders.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE x (y)").unwrap();
        let reading = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let connection = Connection::open_with_flags(&path, reading).unwrap();
        let error = refuse_read_only(&path, &connection).unwrap_err();
        assert!(error.is_unusable());
        assert!(error.to_string().contains("orders.db: it can only be read"), "{error}");
    }

    #[test]
    fn a_kept_query_is_prepared_once_whatever_it_is_asked_with() {
        let folder = tempfile::TempDir::new().unwrap();
        let (path, options) = (folder.path().join("orders.db"), Options::default());
        let _writer = writer(&path, &options).unwrap();
        for reader in [
            another(&path, &options).unwrap(),
            another_existing(&path, &options).unwrap().connection,
        ] {
            let sql = "SELECT seq FROM task WHERE uid = ?1 AND run = ?2 ORDER BY seq LIMIT ?3";
            for number in 0..3 {
                let mut statement = reader.prepare_cached(sql).unwrap();
                assert!(!statement.exists((b"uid", number, number)).unwrap());
                assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
            }
        }
    }
}
