//! Bulk jobs, and the calls that they are about.

use resurgam_core::action::ActionAnswer;
use resurgam_core::{CallKey, RunKey, Shard, Timestamp};
use resurgam_store::decode::{self, BULK, TASK};
use resurgam_store::quarantine::Table;
use resurgam_store::rows::MessageRow;
use resurgam_store::{
    AskedAnswer, BulkCursor, BulkRecord, CallFilter, CallPage, Candidate, Error, Result, RunCalls,
};
use tokio_postgres::Row;

use super::{one, set_aside, shards};
use crate::decode::{Columns, Decoded, Fetched};
use crate::encode::whole;
use crate::pool::Pool;
use crate::quarantine::readable;
use crate::statement::{Statement, shard_of};

/// Jobs of these shards that are not over, the oldest first.
pub(crate) async fn open_bulk(
    pool: &Pool,
    among: &[Shard],
    limit: usize,
) -> Result<Vec<BulkRecord>> {
    let sql = format!(
        "SELECT {BULK} FROM @bulk WHERE closed_at IS NULL AND shard = ANY($1)
         ORDER BY created_at, id LIMIT $2"
    );
    let open = Statement::rows("look for bulk jobs", sql).shards(shards(among));
    jobs(&pool.ask(open.big(whole(limit as u64))).await?)
}

/// All jobs, the newest first.
pub(crate) async fn bulk_list(
    pool: &Pool,
    after: Option<BulkCursor>,
    limit: usize,
) -> Result<Vec<BulkRecord>> {
    let sql = format!(
        "SELECT {BULK} FROM @bulk WHERE (created_at, id) < ($1::bigint, $2::text)
         ORDER BY created_at DESC, id DESC LIMIT $3"
    );
    let (at, id) = after.map_or((i64::MAX, String::new()), |it| (it.at.as_millis(), it.id));
    let list = Statement::rows("list bulk jobs", sql).big(at).text(id).big(whole(limit as u64));
    jobs(&pool.ask(list).await?)
}

/// The job of an id.
pub(crate) async fn bulk(pool: &Pool, id: &str) -> Result<Option<BulkRecord>> {
    let sql = format!("SELECT {BULK} FROM @bulk WHERE shard = $1 AND id = $2");
    let shard = Shard::of_id(id).0.cast_signed();
    let rows = pool.ask(Statement::rows("read a bulk job", sql).small(shard).text(id)).await?;
    Ok(jobs(&rows)?.pop())
}

fn jobs(rows: &[Row]) -> Result<Vec<BulkRecord>> {
    let found: Decoded<Vec<BulkRecord>> =
        rows.iter().map(|row| decode::bulk(&Fetched(row))).collect();
    found.map_err(|why| Error::data("read bulk jobs").because(why))
}

/// When the job was over that was over first.
pub(crate) async fn oldest_bulk(pool: &Pool) -> Result<Option<Timestamp>> {
    let what = "look for the oldest bulk job";
    let sql = "SELECT min(closed_at) FROM @bulk WHERE closed_at IS NOT NULL";
    let rows = pool.ask(Statement::rows(what, sql)).await?;
    Ok(one(&rows, |row| row.maybe_timestamp(0), || what.to_string())?.flatten())
}

/// Open calls that match, along the key of their table.
pub(crate) async fn matching_calls(
    pool: &Pool,
    filter: &CallFilter,
    mut after: Option<CallKey>,
    limit: usize,
) -> Result<CallPage> {
    let (mut page, mut looked_at) = (CallPage::default(), 0);
    let chunk = CallPage::chunk(limit);
    loop {
        let (found, last) = candidates(pool, filter, after, chunk).await?;
        looked_at += chunk;
        page.add(filter, found, last, limit);
        if page.is_complete(limit, looked_at) {
            return Ok(page);
        }
        after = page.go_on;
    }
}

/// Open calls, and the last of them when there may be more. What is in the columns of a task is
/// compared here, the rest by the filter itself.
async fn candidates(
    pool: &Pool,
    filter: &CallFilter,
    after: Option<CallKey>,
    limit: usize,
) -> Result<(Vec<Candidate>, Option<CallKey>)> {
    let columns = TASK.split(',').map(|column| format!("t.{}", column.trim()));
    let columns = columns.collect::<Vec<_>>().join(", ");
    let failed = match filter.needs_failure() {
        true => {
            "LEFT JOIN LATERAL (
                 SELECT failure, ended_at FROM @attempt a
                 WHERE a.shard = t.shard AND a.uid = t.uid AND a.run = t.run AND a.seq = t.seq
                   AND a.failure IS NOT NULL
                 ORDER BY a.place DESC LIMIT 1) AS f ON true"
        }
        false => "CROSS JOIN (SELECT NULL::text AS failure, NULL::bigint AS ended_at) AS f",
    };
    let sql = format!(
        "SELECT {columns}, coalesce(i.id, ''), coalesce(i.workflow, ''), coalesce(i.created_at, 0),
                (SELECT g.value FROM @tag g
                 WHERE g.shard = t.shard AND g.uid = t.uid AND g.name = $8),
                f.failure, f.ended_at
         FROM (SELECT * FROM @task
               WHERE bad IS NULL
                 AND ($1[1] IS NULL OR (shard, uid, run, seq) > ($2[1], $1[1], $3[1], $4[1]))
                 AND ($5::text IS NULL OR name = $5) AND ($6::text IS NULL OR queue = $6)
                 AND ($7::text IS NULL OR paused = $7)
               ORDER BY shard, uid, run, seq LIMIT $9) AS t
         LEFT JOIN @instance i ON i.shard = t.shard AND i.uid = t.uid {failed}
         ORDER BY t.shard, t.uid, t.run, t.seq"
    );
    let CallFilter { activity, queue, fingerprint, .. } = filter;
    let look = Statement::rows("look for calls that match", sql)
        .only_uids(std::iter::once(after.map(|call| call.run.uid)))
        .shards(std::iter::once(after.map_or(0, |call| shard_of(call.run.uid))))
        .bigs(std::iter::once(after.map_or(0, |call| i64::from(call.run.run))))
        .bigs(std::iter::once(after.map_or(0, |call| whole(call.seq.0))))
        .maybe_text(activity.as_deref())
        .maybe_text(queue.as_deref())
        .maybe_text(fingerprint.as_deref())
        .maybe_text(filter.tag.as_ref().map(|(name, _)| name.as_str()))
        .big(whole(limit as u64));
    let rows = pool.ask_widely(look).await?;
    let mut bad = Vec::new();
    let found = readable(Table::Task, &rows, &mut bad, |row| decode::candidate(&row));
    set_aside(pool, bad).await;
    // What cannot be read is looked at too.
    let last = rows.last().filter(|_| rows.len() == limit);
    let last = last.and_then(|row| decode::call(&Fetched(row)).ok());
    Ok((found, last))
}

/// What the calls of these runs say about each.
pub(crate) async fn run_calls(
    pool: &Pool,
    runs: &[RunKey],
    activity: Option<&str>,
) -> Result<Vec<RunCalls>> {
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let what = "look at the calls of runs";
    let sql = "
        SELECT f.name, f.failure, f.ended_at,
               EXISTS (SELECT 1 FROM @task t
                       WHERE t.shard = u.shard AND t.uid = u.uid AND t.run = u.run
                         AND t.name = $4)
        FROM unnest($1::smallint[], $2::uuid[], $3::bigint[])
             WITH ORDINALITY AS u(shard, uid, run, nth)
        LEFT JOIN LATERAL (
            SELECT a.name, a.failure, a.ended_at FROM @attempt a
            WHERE a.shard = u.shard AND a.uid = u.uid AND a.run = u.run AND a.failure IS NOT NULL
            ORDER BY a.ended_at DESC, a.seq DESC, a.place DESC LIMIT 1) AS f ON true
        ORDER BY u.nth";
    let look = Statement::rows(what, sql)
        .uids(runs.iter().map(|run| run.uid))
        .bigs(runs.iter().map(|run| i64::from(run.run)))
        .maybe_text(activity);
    let rows = pool.ask_widely(look).await?;
    let read = |row: &Row| {
        let row = Fetched(row);
        let failed = match row.maybe_string(0)? {
            Some(_) => decode::failed_call(&row)?,
            None => None,
        };
        Ok(RunCalls { has_open: row.flag(3)?, failed })
    };
    let found: Decoded<Vec<RunCalls>> = rows.iter().map(read).collect();
    found.map_err(|why| Error::data(what).because(why))
}

/// What came of actions that were asked for.
pub(crate) async fn answers(pool: &Pool, asked: &[(CallKey, String)]) -> Result<Vec<AskedAnswer>> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let what = "read what came of actions";
    let sql = "
        SELECT a.answer, coalesce(a.changed, false), m.id IS NOT NULL
        FROM unnest($1::smallint[], $2::uuid[], $3::text[], $4::text[])
             WITH ORDINALITY AS u(shard, uid, action, message, nth)
        LEFT JOIN @action a ON a.shard = u.shard AND a.uid = u.uid AND a.id = u.action
        LEFT JOIN @message m ON m.shard = u.shard AND m.uid = u.uid AND m.id = u.message
        ORDER BY u.nth";
    let look = Statement::rows(what, sql)
        .uids(asked.iter().map(|(call, _)| call.run.uid))
        .texts(asked.iter().map(|(_, id)| id.as_str()))
        .texts(asked.iter().map(|(_, id)| MessageRow::action_id(id)));
    let rows = pool.ask_widely(look).await?;
    let read = |row: &Row| {
        let row = Fetched(row);
        Ok(match (row.maybe_string(0)?, row.flag(2)?) {
            (Some(text), _) => AskedAnswer::Answered(ActionAnswer { changed: row.flag(1)?, text }),
            (None, true) => AskedAnswer::Waits,
            (None, false) => AskedAnswer::Gone,
        })
    };
    let found: Decoded<Vec<AskedAnswer>> = rows.iter().map(read).collect();
    found.map_err(|why| Error::data(what).because(why))
}
