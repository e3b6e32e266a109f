//! Schedules: a change must follow from what is stored.

use resurgam_core::Payload;
use resurgam_store::{Result, ScheduleRow, ScheduleWrite};
use rusqlite::{Connection, OptionalExtension, Statement, params};

use super::prepare;
use crate::encode::{millis, whole};
use crate::errors::Attempted;

pub(crate) struct Schedules<'c> {
    revision: Statement<'c>,
    count: Statement<'c>,
    insert: Statement<'c>,
    update: Statement<'c>,
    delete: Statement<'c>,
}

const REVISION: &str = "SELECT revision FROM schedule WHERE id = ?1";

/// The queue stands in the options too; the column is of the first format, and for people. Options
/// that are no JSON are somebody's damage, and must not refuse the note about it.
const INSERT: &str = "
    INSERT INTO schedule (id, workflow, encoding, input, rule, options, state, paused, next_at,
                          waits, last, error, created_at, queue, revision)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,
            coalesce(CASE WHEN json_valid(?6) THEN json_extract(?6, '$.queue') END, 'default'),
            (SELECT revision FROM meta))";

/// Whatever is written now can be read, so an older mark goes.
const UPDATE: &str = "
    UPDATE schedule SET workflow = ?2, encoding = ?3, input = ?4, rule = ?5, options = ?6,
                        state = ?7, paused = ?8, next_at = ?9, waits = ?10, last = ?11, error = ?12,
                        created_at = ?13, bad = NULL,
                        queue = coalesce(CASE WHEN json_valid(?6)
                                              THEN json_extract(?6, '$.queue') END, 'default'),
                        revision = (SELECT revision FROM meta)
    WHERE id = ?1";

/// Counted in one place: a schedule that is made anew must not get the number it had.
const COUNT: &str = "UPDATE meta SET revision = revision + 1";

const DELETE: &str = "DELETE FROM schedule WHERE id = ?1";

impl<'c> Schedules<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Schedules {
            revision: prepare(connection, REVISION)?,
            count: prepare(connection, COUNT)?,
            insert: prepare(connection, INSERT)?,
            update: prepare(connection, UPDATE)?,
            delete: prepare(connection, DELETE)?,
        })
    }

    /// True when the change follows from what is stored.
    pub(crate) fn follows(&mut self, write: &ScheduleWrite) -> Result<bool> {
        let stored = self.revision.query_row([write.id()], |row| row.get::<_, i64>(0));
        let stored =
            stored.optional().attempted(|| format!("look for the schedule {:?}", write.id()))?;
        Ok(match write {
            ScheduleWrite::Insert(_) => stored.is_none(),
            ScheduleWrite::Update { revision, .. } => stored == Some(whole(*revision)),
            ScheduleWrite::Delete { .. } => stored.is_some(),
        })
    }

    pub(crate) fn write(&mut self, write: &ScheduleWrite) -> Result<()> {
        let counted = self.count.execute([]);
        let written = counted.and_then(|_| match write {
            ScheduleWrite::Insert(row) => with_values(&mut self.insert, row),
            ScheduleWrite::Update { row, .. } => with_values(&mut self.update, row),
            ScheduleWrite::Delete { id } => self.delete.execute([id]),
        });
        written.attempted(|| format!("write the schedule {:?}", write.id()))?;
        Ok(())
    }
}

/// Both statements take the whole row under the same numbers.
fn with_values(statement: &mut Statement<'_>, row: &ScheduleRow) -> rusqlite::Result<usize> {
    statement.execute(params![
        row.id,
        row.workflow,
        Payload::ENCODING,
        row.input.as_str(),
        row.rule,
        row.options,
        row.state,
        row.paused,
        millis(row.next_at),
        row.waits,
        row.last,
        row.error,
        row.created_at.as_millis(),
    ])
}
