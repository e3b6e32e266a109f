//! What the owner reads to do its work.

use std::collections::HashMap;

use resurgam_core::{CallKey, Shard, Timestamp, Uid};
use resurgam_store::decode::{self, POLICY_OVERRIDE, TASK};
use resurgam_store::quarantine::Table;
use resurgam_store::rows::{
    DueDeadline, DueMessage, DueTask, InstanceRow, Message, PolicyOverride, PolicyRow, TaskRow,
};
use resurgam_store::{Error, Result, Runnable};
use tokio_postgres::Row;

use super::gates::{due_tasks_sql, with_scope};
use super::{many, one, shards};
use crate::decode::{Columns, Decoded, Fetched, INSTANCE};
use crate::encode::whole;
use crate::pool::Pool;
use crate::statement::{Statement, shard_of};

/// Each shard is read along its index and no further than its part; only what is left is sorted.
const DUE_DEADLINES: &str = "
    SELECT t.uid, t.run, t.seq, t.deadline_at
    FROM unnest($1::smallint[]) AS s(shard)
    CROSS JOIN LATERAL (
        SELECT uid, run, seq, deadline_at FROM @task
        WHERE shard = s.shard AND claimed_by IS NULL AND bad IS NULL AND deadline_at IS NOT NULL
          AND deadline_at < $4 AND deadline_at >= $5
          AND ($6[1] IS NULL OR (deadline_at, uid, run, seq) > ($5, $6[1], $7, $8))
        ORDER BY deadline_at, uid, run, seq LIMIT $2) AS t
    ORDER BY t.deadline_at, t.uid, t.run, t.seq LIMIT $3";

const DUE_MESSAGES: &str = "
    SELECT m.uid, m.due_at, m.kind = ANY($5::text[])
    FROM unnest($1::smallint[]) AS s(shard)
    CROSS JOIN LATERAL (
        SELECT uid, due_at, arrival, kind FROM @message
        WHERE shard = s.shard AND bad IS NULL AND NOT parked AND due_at < $4
        ORDER BY due_at, arrival LIMIT $2) AS m
    ORDER BY m.due_at, m.arrival LIMIT $3";

/// The second value holds the uid to begin after, or nothing.
const HELD_UP: &str = "
    SELECT uid FROM @instance
    WHERE shard = ANY($1) AND error IS NOT NULL AND closed_at IS NULL
      AND ($2[1] IS NULL OR uid > $2[1])
    ORDER BY uid LIMIT $3";

/// Tasks that wait and are due.
pub(crate) async fn due_tasks(
    pool: &Pool,
    among: &[Shard],
    runnable: &Runnable,
    before: Timestamp,
    limit: usize,
) -> Result<Vec<DueTask>> {
    let what = "look for tasks that are due";
    let due = Statement::rows(what, due_tasks_sql(runnable))
        .shards(shards(among))
        .big(whole(limit as u64))
        .big(before.as_millis())
        .names(&runnable.activities)
        .names(&runnable.queues)
        .names(&runnable.provides);
    let rows = pool.ask_widely(with_scope(due, &runnable.paused, &runnable.gates)).await?;
    all(&rows, what, |row| decode::due_task(&row))
}

/// Tasks that wait and may have waited too long.
pub(crate) async fn due_deadlines(
    pool: &Pool,
    among: &[Shard],
    after: Option<DueDeadline>,
    before: Timestamp,
    limit: usize,
) -> Result<Vec<DueDeadline>> {
    let what = "look for tasks that wait in vain";
    let call = after.map(|after| after.call);
    let due = |due: Statement<'static>| {
        due.big(before.as_millis())
            .big(after.map_or(i64::MIN, |after| after.deadline_at.as_millis()))
            .only_uids(std::iter::once(call.map(|call| call.run.uid)))
            .big(call.map_or(0, |call| i64::from(call.run.run)))
            .big(call.map_or(0, |call| whole(call.seq.0)))
    };
    let rows = in_parts(pool, what, DUE_DEADLINES, among, limit, due).await?;
    all(&rows, what, |row| decode::due_deadline(&row))
}

/// Messages that are due.
pub(crate) async fn due_messages(
    pool: &Pool,
    among: &[Shard],
    before: Timestamp,
    limit: usize,
) -> Result<Vec<DueMessage>> {
    let what = "look for messages that are due";
    let due = |due: Statement<'static>| {
        due.big(before.as_millis()).texts(Message::FOR_HOLDER.into_iter())
    };
    let rows = in_parts(pool, what, DUE_MESSAGES, among, limit, due).await?;
    all(&rows, what, |row| decode::due_message(&row))
}

/// By shards, as the key of the table is.
const WAITING_CALLS: &str = "
    SELECT uid, run, seq FROM @task
    WHERE shard = ANY($1) AND claimed_by IS NULL AND bad IS NULL AND attempt > 0
      AND name = $2 AND wake_at < $3
      AND ($4[1] IS NULL OR (shard, uid, run, seq) > ($5[1], $4[1], $6[1], $7[1]))
    ORDER BY shard, uid, run, seq LIMIT $8";

/// Calls of an activity that wait after an attempt.
pub(crate) async fn waiting_calls(
    pool: &Pool,
    among: &[Shard],
    activity: &str,
    after: Option<CallKey>,
    limit: usize,
) -> Result<Vec<CallKey>> {
    let what = "look for calls of an activity";
    let waiting = Statement::rows(what, WAITING_CALLS)
        .shards(shards(among))
        .text(activity)
        .big(TaskRow::NEVER.as_millis())
        .only_uids(std::iter::once(after.map(|call| call.run.uid)))
        .shards(std::iter::once(after.map_or(0, |call| shard_of(call.run.uid))))
        .bigs(std::iter::once(after.map_or(0, |call| i64::from(call.run.run))))
        .bigs(std::iter::once(after.map_or(0, |call| whole(call.seq.0))))
        .big(whole(limit as u64));
    all(&pool.ask_widely(waiting).await?, what, |row| decode::call(&row))
}

/// Policies that operators set for all calls of an activity, by its name.
pub(crate) async fn policy_overrides(pool: &Pool) -> Result<Vec<PolicyOverride>> {
    let what = "read the policies of activities";
    let sql = format!("SELECT {POLICY_OVERRIDE} FROM @policy_override ORDER BY activity");
    let rows = pool.ask(Statement::rows(what, sql)).await?;
    all(&rows, what, |row| decode::policy_override(&row))
}

/// Open instances that do not go on.
pub(crate) async fn held_up(
    pool: &Pool,
    among: &[Shard],
    after: Option<Uid>,
    limit: usize,
) -> Result<Vec<Uid>> {
    let what = "look for instances that do not go on";
    let held_up = Statement::rows(what, HELD_UP)
        .shards(shards(among))
        .only_uids(std::iter::once(after))
        .big(whole(limit as u64));
    all(&pool.ask_widely(held_up).await?, what, |row| row.uid(0))
}

/// Asks every shard for several times its even share: reading as many as are asked for in all would
/// be hundreds of times too many in a long queue. Where that cuts one of them short, it is asked
/// again, in full.
async fn in_parts(
    pool: &Pool,
    what: &'static str,
    sql: &str,
    among: &[Shard],
    limit: usize,
    with_values: impl Fn(Statement<'static>) -> Statement<'static>,
) -> Result<Vec<Row>> {
    let ask = async |part: usize| {
        let due = Statement::rows(what, sql.to_string())
            .shards(shards(among))
            .big(whole(part as u64))
            .big(whole(limit as u64));
        pool.ask_widely(with_values(due)).await
    };
    let part = limit.min(16 + 4 * limit / among.len().max(1));
    let found = ask(part).await?;
    match part < limit && is_cut(part, &found) {
        true => ask(limit).await,
        false => Ok(found),
    }
}

/// True when all that was read of some shard is among what was found: there may be more of it that
/// belongs there too.
fn is_cut(part: usize, found: &[Row]) -> bool {
    let mut counts = HashMap::new();
    let uids = found.iter().filter_map(|row| Fetched(row).uid(0).ok());
    uids.into_iter().any(|uid| {
        let count = counts.entry(uid.shard()).or_insert(0_usize);
        *count += 1;
        *count >= part
    })
}

/// Rows of which only columns with types are read, so that each of them can be.
pub(super) fn all<T>(
    rows: &[Row],
    what: &str,
    read: impl Fn(Fetched<'_>) -> Decoded<T>,
) -> Result<Vec<T>> {
    let found: Decoded<Vec<T>> = rows.iter().map(|row| read(Fetched(row))).collect();
    found.map_err(|why| Error::data(what).because(why))
}

/// Tasks that are claimed by a node that is not there any more. What the asking node has claimed is
/// never among them.
pub(crate) async fn abandoned(
    pool: &Pool,
    among: &[Shard],
    node: &str,
    limit: usize,
) -> Result<Vec<TaskRow>> {
    let sql = format!(
        "SELECT {TASK} FROM @task t
         WHERE shard = ANY($1) AND claimed_by IS NOT NULL AND claimed_by <> $2
           AND NOT EXISTS (SELECT 1 FROM @node n WHERE n.node = claimed_by)
           AND NOT EXISTS (
             SELECT 1 FROM @message m WHERE m.shard = t.shard AND m.uid = t.uid AND m.id =
               'report/' || t.run || '/' || t.seq || '/' || lpad(to_hex(t.token), 16, '0'))
         LIMIT $3"
    );
    let claimed = Statement::rows("look for claims of nodes that are gone", sql)
        .shards(shards(among))
        .text(node)
        .big(whole(limit as u64));
    many(pool, Table::Task, claimed, |row| decode::task(&row)).await
}

/// Those of these calls that are not finished.
pub(crate) async fn tasks_of(pool: &Pool, calls: &[CallKey]) -> Result<Vec<TaskRow>> {
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT {TASK} FROM @task
         JOIN unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::bigint[])
              AS u(of_shard, of_uid, of_run, of_seq)
           ON shard = of_shard AND uid = of_uid AND run = of_run AND seq = of_seq"
    );
    let tasks = Statement::rows("look at the tasks of calls", sql).calls(calls.iter().copied());
    many(pool, Table::Task, tasks, |row| decode::task(&row)).await
}

/// The instance of a uid.
pub(crate) async fn instance(pool: &Pool, uid: Uid) -> Result<Option<InstanceRow>> {
    let sql = format!("SELECT {INSTANCE} FROM @instance instance WHERE shard = $1 AND uid = $2");
    let rows = pool.ask(Statement::rows("read an instance", sql).uid(uid)).await?;
    one(&rows, |row| decode::instance(&row), || format!("read instance {uid}"))
}

/// An interned policy.
pub(crate) async fn policy(pool: &Pool, hash: &str) -> Result<Option<PolicyRow>> {
    let sql = "SELECT hash, text FROM @policy WHERE hash = $1";
    let rows = pool.ask(Statement::rows("read a policy", sql).text(hash)).await?;
    one(&rows, |row| decode::policy(&row), || format!("read policy {hash}"))
}
