//! The ledger: one row for each attempt that did not succeed at once, bounded for each call.
//!
//! Each row knows its place in the ledger of its call, so that neither adding one nor dropping the
//! oldest ever counts rows: the ten-thousandth retry costs what the tenth did.

use resurgam_store::Result;
use resurgam_store::rows::AttemptRow;
use rusqlite::{Connection, Statement, params};

use super::prepare;
use crate::encode::{failure, whole};
use crate::errors::Attempted;

/// How many rows at the beginning of a call's ledger always stay: how trouble began is worth more
/// than its middle.
const FIRST: i64 = 10;

pub(crate) struct Attempts<'c> {
    limit: i64,
    insert: Statement<'c>,
    trim: Statement<'c>,
}

const INSERT: &str = "
    INSERT INTO attempt (uid, run, seq, place, name, attempt, outcome, started_at, ended_at,
                         failure, delay_ms, why)
    VALUES (?1, ?2, ?3,
            1 + coalesce((SELECT max(place) FROM attempt
                          WHERE uid = ?1 AND run = ?2 AND seq = ?3), 0),
            ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
    RETURNING place";

const TRIM: &str = "
    DELETE FROM attempt WHERE uid = ?1 AND run = ?2 AND seq = ?3 AND place > ?4 AND place <= ?5";

impl<'c> Attempts<'c> {
    pub(crate) fn prepare(connection: &'c Connection, limit: u32) -> rusqlite::Result<Self> {
        Ok(Attempts {
            limit: i64::from(limit).max(FIRST + 1),
            insert: prepare(connection, INSERT)?,
            trim: prepare(connection, TRIM)?,
        })
    }

    pub(crate) fn insert(&mut self, row: &AttemptRow) -> Result<()> {
        let attempted =
            || format!("add attempt {} of call {} to the ledger", row.attempt, row.call);
        let values = params![
            row.call.run.uid.to_bytes(),
            row.call.run.run,
            whole(row.call.seq.0),
            row.name,
            row.attempt,
            row.outcome.name(),
            row.started_at.as_millis(),
            row.ended_at.as_millis(),
            row.failure.as_ref().map(failure),
            row.delay_ms.map(whole),
            row.why,
        ];
        let place = self.insert.query_row(values, |row| row.get(0)).attempted(attempted)?;
        self.trim(row, place)
    }

    /// Drops what lies between the first rows and the last ones.
    fn trim(&mut self, row: &AttemptRow, place: i64) -> Result<()> {
        let until = place - (self.limit - FIRST);
        if until <= FIRST {
            return Ok(());
        }
        let call = row.call;
        let values =
            params![call.run.uid.to_bytes(), call.run.run, whole(call.seq.0), FIRST, until];
        self.trim.execute(values).attempted(|| format!("bound the ledger of call {call}"))?;
        Ok(())
    }
}
