//! How attempts ended, by the minute: one transaction adds what was counted and deletes what is
//! old.

use std::sync::Arc;

use resurgam_core::Timestamp;
use resurgam_store::decode;
use resurgam_store::{Answer, Pressure, PressureRange, PressureRow, Result};
use rusqlite::{Connection, params};

use crate::errors::Attempted;
use crate::read::Reading;
use crate::store::SqliteStore;

impl Pressure for SqliteStore {
    fn add_pressure(&self, rows: Arc<[PressureRow]>, forget_before: Timestamp) -> Answer<'_, ()> {
        Box::pin(async move {
            let what = "add what was counted of attempts";
            let change = move |connection: &Connection| add(connection, &rows, forget_before);
            self.change_apart(what, change).await.map(drop)
        })
    }

    fn pressure(&self, range: PressureRange) -> Answer<'_, Vec<PressureRow>> {
        let what = || "read what was counted of attempts".to_string();
        self.read(what, move |reading| counted(reading, &range))
    }
}

fn add(connection: &Connection, rows: &[PressureRow], before: Timestamp) -> Result<bool> {
    let what = || "add what was counted of attempts".to_string();
    let sql = "INSERT INTO resurgam_pressure (minute, activity, failure_type, failures, retries,
                                              exhausted, successes)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
               ON CONFLICT (minute, activity, failure_type) DO UPDATE SET
                   failures = failures + excluded.failures, retries = retries + excluded.retries,
                   exhausted = exhausted + excluded.exhausted,
                   successes = successes + excluded.successes";
    let mut insert = connection.prepare_cached(sql).attempted(what)?;
    for PressureRow { at, activity, failure_type, counts } in rows {
        let values = params![
            at.as_millis(),
            activity,
            failure_type,
            counts.failures.cast_signed(),
            counts.retries.cast_signed(),
            counts.exhausted.cast_signed(),
            counts.successes.cast_signed(),
        ];
        insert.execute(values).attempted(what)?;
    }
    let sql = "DELETE FROM resurgam_pressure WHERE minute < ?1";
    let mut delete = connection.prepare_cached(sql).attempted(what)?;
    delete.execute([before.as_millis()]).attempted(what)?;
    Ok(true)
}

fn counted(reading: &mut Reading<'_>, range: &PressureRange) -> Result<Vec<PressureRow>> {
    // Minutes before 1970 would be rounded the other way; no clock of ours stands there.
    let sql = "SELECT minute - minute % ?3 AS step, activity, failure_type, sum(failures),
                      sum(retries), sum(exhausted), sum(successes)
               FROM resurgam_pressure
               WHERE minute >= ?1 AND minute < ?2 AND (?4 IS NULL OR activity = ?4)
               GROUP BY step, activity, failure_type ORDER BY step, activity, failure_type
               LIMIT ?5";
    let PressureRange { from, to, activity, limit, .. } = range;
    let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
    let values = params![from.as_millis(), to.as_millis(), range.step_ms(), activity, limit];
    let what = || "read what was counted of attempts".to_string();
    reading.every(sql, values, |row| decode::pressure(&row), what)
}
