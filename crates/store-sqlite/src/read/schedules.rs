//! Schedules: what is due, what waits, and what people want to see.

use resurgam_core::Timestamp;
use resurgam_store::decode::{self, Columns};
use resurgam_store::quarantine::Table;
use resurgam_store::{DueSchedules, Result, ScheduleRecord};
use rusqlite::params;

use super::Reading;
use crate::decode::SCHEDULE;

/// What the index of due schedules covers, word for word.
const FIRES: &str = "next_at IS NOT NULL AND paused = 0 AND bad IS NULL";

/// Schedules that are due, and when the first of the others is.
pub(crate) fn due_schedules(
    reading: &mut Reading<'_>,
    now: Timestamp,
    limit: usize,
) -> Result<DueSchedules> {
    let sql = format!(
        "SELECT {SCHEDULE}, rowid FROM schedule WHERE {FIRES} AND next_at <= ?1 ORDER BY next_at"
    );
    let due = reading
        .many(Table::Schedule, &sql, [now.as_millis()], limit, |row| decode::schedule(&row))?;
    if due.len() == limit {
        return Ok(DueSchedules { due, next: Some(now) });
    }
    let sql = format!(
        "SELECT next_at FROM schedule WHERE {FIRES} AND next_at > ?1 ORDER BY next_at LIMIT 1"
    );
    let what = || "look for the next schedule".to_string();
    let next = reading.one(&sql, [now.as_millis()], |row| row.timestamp(0), what)?;
    Ok(DueSchedules { due, next })
}

/// Schedules that wait for something else than the time.
pub(crate) fn waiting_schedules(
    reading: &mut Reading<'_>,
    after: &str,
    limit: usize,
) -> Result<Vec<ScheduleRecord>> {
    let sql = format!(
        "SELECT {SCHEDULE}, rowid FROM schedule
         WHERE waits = 1 AND bad IS NULL AND id > ?1 ORDER BY id"
    );
    reading.many(Table::Schedule, &sql, [after], limit, |row| decode::schedule(&row))
}

/// The schedule of an id.
pub(crate) fn schedule(reading: &mut Reading<'_>, id: &str) -> Result<Option<ScheduleRecord>> {
    let sql = format!("SELECT {SCHEDULE} FROM schedule WHERE id = ?1");
    reading.one(&sql, params![id], |row| decode::schedule(&row), || format!("read schedule {id:?}"))
}

/// All schedules, by id.
pub(crate) fn schedules(
    reading: &mut Reading<'_>,
    after: &str,
    limit: usize,
) -> Result<Vec<ScheduleRecord>> {
    let sql = format!("SELECT {SCHEDULE}, rowid FROM schedule WHERE id > ?1 ORDER BY id");
    reading.many(Table::Schedule, &sql, [after], limit, |row| decode::schedule(&row))
}
