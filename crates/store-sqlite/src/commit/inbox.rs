//! The inbox: a row is taken once, together with what it causes.

use resurgam_core::{Payload, Timestamp};
use resurgam_store::{InboxRow, InboxWrite, Result};
use rusqlite::{Connection, Statement, params};

use super::prepare;
use crate::errors::Attempted;

pub(crate) struct Inbox<'c> {
    same: Statement<'c>,
    seen: Statement<'c>,
    delete: Statement<'c>,
    remember: Statement<'c>,
    refuse: Statement<'c>,
    forget: Statement<'c>,
}

/// Numbers of rows that are gone are used again, so the number alone does not tell.
const SAME: &str = "
    SELECT 1 FROM inbox WHERE arrival = ?1 AND error IS NULL AND id IS ?2 AND instance = ?3
                          AND kind = ?4 AND name IS ?5 AND body IS ?6";

const SEEN: &str = "SELECT 1 FROM inbox_seen WHERE id = ?1";

const DELETE: &str = "DELETE FROM inbox WHERE arrival = ?1";

const REMEMBER: &str = "INSERT INTO inbox_seen (id, at) VALUES (?1, ?2)";

const REFUSE: &str = "UPDATE inbox SET error = ?2 WHERE arrival = ?1 AND error IS NULL";

const FORGET: &str = "
    DELETE FROM inbox_seen
    WHERE rowid IN (SELECT rowid FROM inbox_seen WHERE at < ?1 ORDER BY at LIMIT 1000)";

impl<'c> Inbox<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Inbox {
            same: prepare(connection, SAME)?,
            seen: prepare(connection, SEEN)?,
            delete: prepare(connection, DELETE)?,
            remember: prepare(connection, REMEMBER)?,
            refuse: prepare(connection, REFUSE)?,
            forget: prepare(connection, FORGET)?,
        })
    }

    /// True when the row is there as it was read and new. One that came before goes here: there is
    /// nothing else of its step to be written.
    pub(crate) fn is_new(&mut self, write: &InboxWrite) -> Result<bool> {
        let InboxWrite::Take { row, .. } = write else { return Ok(true) };
        let values = params![
            row.arrival,
            row.id,
            row.instance,
            row.kind,
            row.name,
            row.body.as_ref().map(Payload::as_str)
        ];
        if !self.same.exists(values).attempted(|| named(row.arrival))? {
            return Ok(false);
        }
        let Some(id) = &row.id else { return Ok(true) };
        let seen = self.seen.exists([id]).attempted(|| named(row.arrival))?;
        if seen {
            self.delete.execute([row.arrival]).attempted(|| named(row.arrival))?;
        }
        Ok(!seen)
    }

    pub(crate) fn write(&mut self, write: &InboxWrite) -> Result<()> {
        match write {
            InboxWrite::Take { row, at } => self.take(row, *at),
            InboxWrite::Refuse { arrival, error } => {
                let refused = self.refuse.execute(params![arrival, error]);
                refused.attempted(|| named(*arrival)).map(drop)
            }
            InboxWrite::Forget { before } => {
                let forgotten = self.forget.execute([before.as_millis()]);
                forgotten.attempted(|| "forget ids of the inbox".to_string()).map(drop)
            }
        }
    }

    fn take(&mut self, row: &InboxRow, at: Timestamp) -> Result<()> {
        self.delete.execute([row.arrival]).attempted(|| named(row.arrival))?;
        if let Some(id) = &row.id {
            let values = params![id, at.as_millis()];
            self.remember.execute(values).attempted(|| named(row.arrival))?;
        }
        Ok(())
    }
}

fn named(arrival: i64) -> String {
    format!("take row {arrival} of the inbox")
}
