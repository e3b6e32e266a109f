//! Migrations: SQL files that are part of the program, applied in order.
//!
//! All that are missing are applied in one transaction, which begins by taking the write lock, so
//! of two processes that open a file at once one migrates and the other finds it done. A database
//! knows its own number (`meta.format`) and the lowest number that a program must know to use it
//! (`meta.min_reader`): migrations that only add do not lock out the program of yesterday.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use resurgam_core::Code;
use resurgam_store::{Error, Result};
use rusqlite::backup::Backup;
use rusqlite::{Connection, TransactionBehavior, params};

use crate::errors;

/// What `PRAGMA application_id` of our databases says: "RSGM".
pub(crate) const APPLICATION_ID: i32 = 0x5253_474D;

/// Our tables.
pub(crate) const TABLES: &[&str] = &[
    "attempt",
    "event",
    "inbox",
    "inbox_seen",
    "instance",
    "kv",
    "message",
    "meta",
    "policy",
    "schedule",
    "tag",
    "task",
];

/// What the names of tables begin with that later migrations may bring.
pub(crate) const RESERVED: &str = "resurgam_";

/// One step of the schema.
struct Migration {
    sql: &'static str,
    /// The number of the oldest migration whose programs can use the database after this one.
    min_reader: u32,
}

/// Migration n stands at place n - 1. Published ones are never changed.
const MIGRATIONS: &[Migration] = &[
    Migration { sql: include_str!("schema.sql"), min_reader: 1 },
    // A program that does not look who owns the file must not work on it.
    Migration { sql: include_str!("owner.sql"), min_reader: 2 },
    Migration { sql: include_str!("families.sql"), min_reader: 3 },
    // A deadline that an older program left behind is compared with the task before it is used.
    Migration { sql: include_str!("deadlines.sql"), min_reader: 3 },
    // An owner that fires no schedule and leaves the inbox alone must not work on the file.
    Migration { sql: include_str!("schedules.sql"), min_reader: 5 },
    Migration { sql: include_str!("held_up.sql"), min_reader: 5 },
    // A program that asks for the column by its old name cannot use the file.
    Migration { sql: include_str!("gate.sql"), min_reader: 7 },
    // A program that knows no paused calls would go by the end of time, and set actions aside.
    Migration { sql: include_str!("actions.sql"), min_reader: 8 },
    // A program that knows no paused instances would let them go on, or not read them.
    Migration { sql: include_str!("runs.sql"), min_reader: 9 },
    // A program that writes no letters would lose them, and one that sets no fingerprint would hide
    // paused calls.
    Migration { sql: include_str!("dead_letters.sql"), min_reader: 10 },
    // A program that knows nothing of these policies would decide by others.
    Migration { sql: include_str!("policy_overrides.sql"), min_reader: 11 },
    // A program that works on no bulk jobs would leave them lying.
    Migration { sql: include_str!("bulk.sql"), min_reader: 12 },
    // A program that knows no gates would begin what is held back.
    Migration { sql: include_str!("gates.sql"), min_reader: 13 },
    // A program that knows no tokens lets nobody in by them.
    Migration { sql: include_str!("tokens.sql"), min_reader: 13 },
    // A program that keeps no gate with a letter has it tried behind its activity's.
    Migration { sql: include_str!("letter_gate.sql"), min_reader: 13 },
    // A program that knows none of these tables counts nothing and keeps nothing there.
    Migration { sql: include_str!("server.sql"), min_reader: 13 },
    // A program that knows nothing of remote workers leaves the tables alone.
    Migration { sql: include_str!("remote.sql"), min_reader: 13 },
];

/// The number of the newest migration that this program knows.
const FORMAT: u32 = MIGRATIONS.len() as u32;

/// What a database says about itself.
struct Meta {
    format: u32,
    min_reader: u32,
    made_by: String,
}

/// Brings a database up to date, or refuses one that only newer programs understand.
pub(crate) fn migrate(path: &Path, connection: &mut Connection) -> Result<()> {
    let failed = |error| errors::on_opening(path, error);
    // Looking first keeps clients from waiting for the write lock on every start.
    if missing(path, meta(connection).map_err(failed)?)?.is_empty() {
        return Ok(());
    }
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let todo = missing(path, meta(&transaction).map_err(failed)?)?;
    apply(&transaction, todo).map_err(failed)?;
    transaction.commit().map_err(failed)
}

/// Makes an empty database in memory what [`migrate`] would make of it: a copy of one that is made
/// once. A test suite makes thousands, and the migrations were most of what it did.
pub(crate) fn copy_template(connection: &mut Connection) -> rusqlite::Result<()> {
    static TEMPLATE: Mutex<Option<Connection>> = Mutex::new(None);
    let mut template = TEMPLATE.lock().unwrap_or_else(PoisonError::into_inner);
    if template.is_none() {
        let migrated = Connection::open_in_memory()?;
        apply(&migrated, MIGRATIONS)?;
        *template = Some(migrated);
    }
    let template = template.as_ref().expect("it was just made");
    Backup::new(template, connection)?.run_to_completion(i32::MAX, Duration::ZERO, None)
}

/// Refuses a database that has not every migration, and changes nothing.
pub(crate) fn check(path: &Path, connection: &Connection) -> Result<()> {
    let Some(meta) = meta(connection).map_err(|error| errors::on_opening(path, error))? else {
        return Err(errors::missing(path, "there is no Resurgam in this file"));
    };
    let (format, made_by) = (meta.format, meta.made_by.clone());
    if missing(path, Some(meta))?.is_empty() {
        return Ok(());
    }
    Err(Error::unusable(format!(
        "open {}: it has format {format} of Resurgam {made_by}, and this program reads {FORMAT}; \
         a program that works on it brings it up to date: begin your app, or `resurgam worker`, \
         of this version first",
        path.display()
    ))
    .with_code(Code::D8))
}

/// The migrations that a database lacks.
fn missing(path: &Path, meta: Option<Meta>) -> Result<&'static [Migration]> {
    let Some(meta) = meta else { return Ok(MIGRATIONS) };
    if meta.min_reader > FORMAT {
        return Err(Error::unusable(format!(
            "open {}: it was made by Resurgam {} in format {}, which needs a program that knows \
             format {}, and this one knows {FORMAT}; use that version or a newer one",
            path.display(),
            meta.made_by,
            meta.format,
            meta.min_reader
        ))
        .with_code(Code::D3));
    }
    Ok(MIGRATIONS.get(meta.format as usize..).unwrap_or_default())
}

fn apply(connection: &Connection, todo: &[Migration]) -> rusqlite::Result<()> {
    let Some(last) = todo.last() else { return Ok(()) };
    for migration in todo {
        connection.execute_batch(migration.sql)?;
    }
    connection.execute_batch(&format!("PRAGMA application_id = {APPLICATION_ID}"))?;
    connection.execute(
        "INSERT INTO meta (one, format, min_reader, shards, hash, made_by)
         VALUES (1, ?1, ?2, 1, 'none', ?3)
         ON CONFLICT (one) DO UPDATE SET format = excluded.format,
                                         min_reader = max(min_reader, excluded.min_reader),
                                         made_by = excluded.made_by",
        params![FORMAT, last.min_reader, env!("CARGO_PKG_VERSION")],
    )?;
    Ok(())
}

/// What the database says about itself, `None` when it is empty.
fn meta(connection: &Connection) -> rusqlite::Result<Option<Meta>> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'meta'";
    if !connection.prepare(sql)?.exists([])? {
        return Ok(None);
    }
    connection.query_row("SELECT format, min_reader, made_by FROM meta", [], |row| {
        Ok(Some(Meta { format: row.get(0)?, min_reader: row.get(1)?, made_by: row.get(2)? }))
    })
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn every_table_of_ours_is_known_by_name() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(Path::new(":memory:"), &mut connection).unwrap();
        let sql = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name";
        let mut statement = connection.prepare(sql).unwrap();
        let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        let names: Vec<String> = names.map(|name| name.unwrap()).collect();
        let named = |name: &&String| !name.starts_with(RESERVED);
        assert_eq!(names.iter().filter(named).collect::<Vec<_>>(), TABLES);
    }

    #[test]
    fn a_copy_of_the_template_is_what_the_migrations_make() {
        let mut migrated = Connection::open_in_memory().unwrap();
        migrate(Path::new(":memory:"), &mut migrated).unwrap();
        let mut copy = Connection::open_in_memory().unwrap();
        copy_template(&mut copy).unwrap();
        assert_eq!(text_of(&copy), text_of(&migrated));
    }

    /// Every definition, and what the database says about itself.
    fn text_of(connection: &Connection) -> Vec<String> {
        let sql = "SELECT coalesce(sql, name) FROM sqlite_schema UNION ALL
                   SELECT format || ' ' || min_reader || ' ' || made_by FROM meta UNION ALL
                   SELECT '' || application_id FROM pragma_application_id";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.map(|row| row.unwrap()).collect()
    }
}
