//! Schedules: what is due, what waits, and what people want to see.

use resurgam_core::{Shard, Timestamp};
use resurgam_store::decode;
use resurgam_store::quarantine::Table;
use resurgam_store::{DueSchedules, Error, Result, ScheduleRecord};

use super::{many, one, set_aside, shards};
use crate::decode::{Columns, SCHEDULE};
use crate::encode::whole;
use crate::pool::Pool;
use crate::quarantine::readable;
use crate::statement::Statement;

/// What the index of due schedules covers, word for word.
const FIRES: &str = "shard = ANY($1) AND next_at IS NOT NULL AND NOT paused AND bad IS NULL";

/// Schedules that are due, and when the first of the others is.
pub(crate) async fn due_schedules(
    pool: &Pool,
    among: &[Shard],
    now: Timestamp,
    limit: usize,
) -> Result<DueSchedules> {
    let what = "look for schedules that are due";
    let ask = |sql: String| Statement::rows(what, sql).shards(shards(among)).big(now.as_millis());
    let due = format!(
        "SELECT {SCHEDULE} FROM @schedule schedule WHERE {FIRES} AND next_at <= $2
         ORDER BY next_at, id LIMIT $3"
    );
    let next = format!("SELECT min(next_at) FROM @schedule WHERE {FIRES} AND next_at > $2");
    let answers = pool.ask_all(&[ask(due).big(whole(limit as u64)), ask(next)]).await?;
    let [rows, next] = answers.as_slice() else {
        return Err(Error::transient(format!("{what}: no answer")));
    };
    let mut bad = Vec::new();
    let due = readable(Table::Schedule, rows, &mut bad, |row| decode::schedule(&row));
    set_aside(pool, bad).await;
    let next = one(next, |row| row.maybe_timestamp(0), || what.to_string())?.flatten();
    let next = match rows.len() == limit {
        true => Some(now),
        false => next,
    };
    Ok(DueSchedules { due, next })
}

/// Schedules that wait for something else than the time.
pub(crate) async fn waiting_schedules(
    pool: &Pool,
    among: &[Shard],
    after: &str,
    limit: usize,
) -> Result<Vec<ScheduleRecord>> {
    let sql = format!(
        "SELECT {SCHEDULE} FROM @schedule schedule
         WHERE waits AND bad IS NULL AND id > $2 AND shard = ANY($1) ORDER BY id LIMIT $3"
    );
    let waiting = Statement::rows("look for schedules that wait", sql).shards(shards(among));
    let waiting = waiting.text(after).big(whole(limit as u64));
    many(pool, Table::Schedule, waiting, |row| decode::schedule(&row)).await
}

/// The schedule of an id.
pub(crate) async fn schedule(pool: &Pool, id: &str) -> Result<Option<ScheduleRecord>> {
    let sql = format!("SELECT {SCHEDULE} FROM @schedule schedule WHERE shard = $1 AND id = $2");
    let shard = Shard::of_id(id).0.cast_signed();
    let rows = pool.ask(Statement::rows("read a schedule", sql).small(shard).text(id)).await?;
    one(&rows, |row| decode::schedule(&row), || format!("read schedule {id:?}"))
}

/// All schedules, by id.
pub(crate) async fn schedules(
    pool: &Pool,
    after: &str,
    limit: usize,
) -> Result<Vec<ScheduleRecord>> {
    let sql =
        format!("SELECT {SCHEDULE} FROM @schedule schedule WHERE id > $1 ORDER BY id LIMIT $2");
    let all = Statement::rows("list schedules", sql).text(after).big(whole(limit as u64));
    many(pool, Table::Schedule, all, |row| decode::schedule(&row)).await
}
