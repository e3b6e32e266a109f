//! Bulk jobs: a change must follow from what is stored.

use resurgam_store::{BulkRow, BulkWrite, Result};
use rusqlite::{Connection, OptionalExtension, Statement, params};

use super::prepare;
use crate::encode::{millis, whole};
use crate::errors::Attempted;

pub(crate) struct Bulk<'c> {
    look: Statement<'c>,
    insert: Statement<'c>,
    update: Statement<'c>,
    stop: Statement<'c>,
}

const LOOK: &str =
    "SELECT revision, closed_at IS NULL AND stopped_by IS NULL FROM resurgam_bulk WHERE id = ?1";

const INSERT: &str = "
    INSERT INTO resurgam_bulk (id, filter, action, options, cursor, counts, page, by, reason,
                               stopped_by, error, created_at, closed_at, revision)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 1)";

const UPDATE: &str = "
    UPDATE resurgam_bulk SET filter = ?2, action = ?3, options = ?4, cursor = ?5, counts = ?6,
                             page = ?7, by = ?8, reason = ?9, stopped_by = ?10, error = ?11,
                             created_at = ?12, closed_at = ?13, revision = revision + 1
    WHERE id = ?1";

const STOP: &str =
    "UPDATE resurgam_bulk SET stopped_by = ?2, revision = revision + 1 WHERE id = ?1";

impl<'c> Bulk<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Bulk {
            look: prepare(connection, LOOK)?,
            insert: prepare(connection, INSERT)?,
            update: prepare(connection, UPDATE)?,
            stop: prepare(connection, STOP)?,
        })
    }

    /// True when the change follows from what is stored.
    pub(crate) fn follows(&mut self, write: &BulkWrite) -> Result<bool> {
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?));
        let stored = self.look.query_row([write.id()], read).optional();
        let stored = stored.attempted(|| format!("look for the bulk job {:?}", write.id()))?;
        Ok(match write {
            BulkWrite::Insert(_) => stored.is_none(),
            BulkWrite::Update { revision, .. } => {
                stored.is_some_and(|(stored, _)| stored == whole(*revision))
            }
            BulkWrite::Stop { .. } => stored.is_some_and(|(_, goes_on)| goes_on),
        })
    }

    pub(crate) fn write(&mut self, write: &BulkWrite) -> Result<()> {
        let written = match write {
            BulkWrite::Insert(row) => with_values(&mut self.insert, row),
            BulkWrite::Update { row, .. } => with_values(&mut self.update, row),
            BulkWrite::Stop { id, by } => self.stop.execute(params![id, by]),
        };
        written.attempted(|| format!("write the bulk job {:?}", write.id()))?;
        Ok(())
    }
}

/// Both statements take the whole row under the same numbers.
fn with_values(statement: &mut Statement<'_>, row: &BulkRow) -> rusqlite::Result<usize> {
    statement.execute(params![
        row.id,
        row.filter,
        row.action,
        row.options,
        row.cursor,
        row.counts,
        row.page,
        row.by,
        row.reason,
        row.stopped_by,
        row.error,
        row.created_at.as_millis(),
        millis(row.closed_at),
    ])
}
