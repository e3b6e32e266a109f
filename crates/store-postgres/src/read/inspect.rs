//! What people and clients read.

use resurgam_core::event::Compensation;
use resurgam_core::{EventKind, RunKey, Timestamp, Uid};
use resurgam_store::Result;
use resurgam_store::decode::{self, ACTION, ATTEMPT, MESSAGE, TASK};
use resurgam_store::quarantine::Table;
use resurgam_store::rows::{
    ActionRow, AttemptRow, InstanceCursor, InstanceFilter, InstanceRow, KvRow, MessageRow, Status,
    TaskRow,
};

use super::{many, one};
use crate::batched_reads::Answers;
use crate::decode::{Columns, Decoded, Fetched, INSTANCE};
use crate::encode::whole;
use crate::pool::Pool;
use crate::statement::Statement;

/// The current instance of an id.
pub(crate) async fn find(pool: &Pool, id: &str) -> Result<Option<InstanceRow>> {
    let sql = format!("SELECT {INSTANCE} FROM @instance instance WHERE id = $1 AND current");
    let rows = pool.ask(Statement::rows("find an instance", sql).text(id)).await?;
    one(&rows, |row| decode::instance(&row), || format!("read instance {id:?}"))
}

/// The instance that was started with a request id.
pub(crate) async fn find_request(pool: &Pool, request: &str) -> Result<Option<InstanceRow>> {
    let sql = format!("SELECT {INSTANCE} FROM @instance instance WHERE request_id = $1");
    let rows = pool.ask(Statement::rows("look for a request", sql).text(request)).await?;
    one(&rows, |row| decode::instance(&row), || format!("look for request {request:?}"))
}

/// Those of these instances that are closed. One that cannot be read is set aside: whoever waits
/// for another one must still hear of it.
pub(crate) async fn closed(pool: &Pool, uids: &[Uid]) -> Result<Vec<InstanceRow>> {
    if uids.is_empty() {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT {INSTANCE} FROM @instance instance
         JOIN unnest($1::smallint[], $2::uuid[]) AS u(shard, uid)
           ON instance.shard = u.shard AND instance.uid = u.uid
         WHERE closed_at IS NOT NULL"
    );
    let closed = Statement::rows("look for closed instances", sql).uids(uids.iter().copied());
    many(pool, Table::Instance, closed, |row| decode::instance(&row)).await
}

/// Those of these instances that are not there.
pub(crate) async fn missing(pool: &Pool, uids: &[Uid]) -> Result<Vec<Uid>> {
    if uids.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT u.uid FROM unnest($1::smallint[], $2::uuid[])
                                 WITH ORDINALITY AS u(shard, uid, nth)
               WHERE NOT EXISTS (SELECT 1 FROM @instance i
                                 WHERE i.shard = u.shard AND i.uid = u.uid)
               ORDER BY u.nth";
    let what = "look for instances that are gone";
    let rows = pool.ask(Statement::rows(what, sql).uids(uids.iter().copied())).await?;
    let found: Decoded<Vec<Uid>> = rows.iter().map(|row| Fetched(row).uid(0)).collect();
    found.map_err(|why| resurgam_store::Error::data(what).because(why))
}

/// Whether a signal was stored for an instance of this id: it is read, or still waits. In the words
/// of the index over signals.
pub(crate) async fn signalled(pool: &Pool, id: &str, request: &str) -> Result<bool> {
    let sql = "
        WITH holder AS (
            SELECT shard, uid FROM @instance WHERE id = $1 AND current
            UNION ALL
            SELECT shard, uid FROM @instance WHERE id = $1 AND NOT current)
        SELECT EXISTS (
            SELECT 1 FROM holder h JOIN @message m ON m.shard = h.shard AND m.uid = h.uid
            WHERE m.id = $2 AND m.kind = 'SignalReceived')
        OR EXISTS (
            SELECT 1 FROM holder h JOIN @event e ON e.shard = h.shard AND e.uid = h.uid
            WHERE e.kind = 'SignalReceived' AND strpos(e.head, '\\u0000') = 0
              AND (e.head::json ->> 'id') = $3)";
    let look = Statement::rows("look for a signal", sql)
        .text(id)
        .text(format!("{}{request}", MessageRow::REPEATABLE_SIGNAL))
        .text(request);
    let rows = pool.ask(look).await?;
    let what = || format!("look for signal {request:?} to {id:?}");
    Ok(one(&rows, |row| row.flag(0), what)?.unwrap_or_default())
}

/// Instances, the newest first. A list costs what it shows and not what is stored: a tag or a
/// schedule narrows most, so its index is the way in; otherwise each status is read along its index
/// and the results are merged.
pub(crate) async fn list(pool: &Pool, filter: &InstanceFilter) -> Result<Vec<InstanceRow>> {
    let limit = filter.most();
    let (tag, value) = filter.tag.clone().unzip();
    // Without bounds it is everything, so that there is one statement for both.
    let since = filter.since.map_or(i64::MIN, Timestamp::as_millis);
    let (before, place) = match filter.after {
        Some(cursor) => (cursor.created_at.as_millis(), place(pool, cursor, filter).await?),
        None => (i64::MAX, i64::MAX),
    };
    let narrows = filter.retrying && filter.tag.is_none() && filter.schedule.is_none();
    let few = narrows && few_are_retrying(pool).await?;
    let list = Statement::rows("list instances", newest(filter, few))
        .texts(filter.statuses().map(Status::name))
        .maybe_text(filter.workflow.as_deref())
        .maybe_text(filter.schedule.as_deref())
        .maybe_text(filter.compensation.map(Compensation::name))
        .maybe_text(tag)
        .maybe_text(value)
        .big(whole(limit as u64))
        .big(since)
        .big(before)
        .big(place);
    many(pool, Table::Instance, list, |row| decode::instance(&row)).await
}

/// Where the instance of a cursor stands among those of its millisecond, in the order of the index
/// that a list is read by; at the end when it is gone. A question of its own, because Citus would
/// not take it as part of one over all shards.
async fn place(pool: &Pool, cursor: InstanceCursor, filter: &InstanceFilter) -> Result<i64> {
    let look = match &filter.tag {
        Some((name, _)) => {
            let sql = "SELECT arrival FROM @tag WHERE shard = $1 AND uid = $2 AND name = $3";
            Statement::rows("look for a tag", sql).uid(cursor.uid).text(name)
        }
        None => {
            let sql = "SELECT arrival FROM @instance WHERE shard = $1 AND uid = $2";
            Statement::rows("look for an instance", sql).uid(cursor.uid)
        }
    };
    let rows = pool.ask(look).await?;
    let what = || format!("look for instance {}", cursor.uid);
    Ok(one(&rows, |row| row.number(0), what)?.unwrap_or(i64::MAX))
}

/// Whether few calls wait to be tried again. Nobody counts further.
async fn few_are_retrying(pool: &Pool) -> Result<bool> {
    let sql = "SELECT count(*) FROM (
                   SELECT 1 FROM @task WHERE claimed_by IS NULL AND bad IS NULL AND attempt > 0
                     AND wake_at < 9223372036854775807 LIMIT $1) AS t";
    let most = whole(InstanceFilter::FEW_RETRYING as u64);
    let count = Statement::rows("count calls that wait to be tried again", sql).big(most + 1);
    let rows = pool.ask(count).await?;
    let what = || "count calls that wait to be tried again".to_string();
    Ok(one(&rows, |row| row.number(0), what)?.unwrap_or_default() <= most)
}

/// Current instances whose ids begin so, in the order of their ids.
pub(crate) async fn with_prefix(
    pool: &Pool,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<InstanceRow>> {
    let sql = format!(
        "SELECT {INSTANCE} FROM @instance AS instance
         WHERE current AND bad IS NULL AND id >= $1 AND id <= $2 AND ($3::text IS NULL OR id > $3)
         ORDER BY id LIMIT $4"
    );
    // The place is often far behind the beginning.
    let begin = after.filter(|after| *after > prefix).unwrap_or(prefix);
    let list = Statement::rows("list instances by their ids", sql)
        .text(begin)
        .text(InstanceFilter::end_of_prefix(prefix))
        .maybe_text(after)
        .big(whole(limit as u64));
    many(pool, Table::Instance, list, |row| decode::instance(&row)).await
}

fn newest(filter: &InstanceFilter, few_are_retrying: bool) -> String {
    let retrying = match filter.retrying {
        true => {
            "AND EXISTS (SELECT 1 FROM @task t WHERE t.shard = i.shard AND t.uid = i.uid
                         AND t.claimed_by IS NULL AND t.attempt > 0
                         AND t.wake_at < 9223372036854775807)"
        }
        false => "",
    };
    let narrowed = format!(
        "i.bad IS NULL AND ($2::text IS NULL OR i.workflow = $2)
         AND ($3::text IS NULL OR i.schedule = $3) AND ($4::text IS NULL OR i.compensation = $4)
         AND ($5::text IS NULL OR $6::text IS NOT NULL) {retrying}"
    );
    let range = "i.created_at >= $8 AND (i.created_at, i.arrival) < ($9::bigint, $10::bigint)";
    let rows = match (&filter.tag, &filter.schedule) {
        (Some(_), _) => format!(
            "SELECT i.*, g.arrival AS place
             FROM @tag g JOIN @instance i ON i.shard = g.shard AND i.uid = g.uid
             WHERE g.name = $5 AND g.value = $6 AND i.status = ANY($1) AND {narrowed}
               AND g.created_at >= $8 AND (g.created_at, g.arrival) < ($9::bigint, $10::bigint)
             ORDER BY g.created_at DESC, g.arrival DESC LIMIT $7"
        ),
        (None, Some(_)) => format!(
            "SELECT i.*, i.arrival AS place FROM @instance i
             WHERE i.status = ANY($1) AND {narrowed} AND {range}
             ORDER BY i.created_at DESC, i.arrival DESC LIMIT $7"
        ),
        // They are found by their calls, and sorted.
        (None, None) if few_are_retrying => format!(
            "SELECT i.*, i.arrival AS place
             FROM (SELECT DISTINCT shard, uid FROM @task
                   WHERE claimed_by IS NULL AND bad IS NULL AND attempt > 0
                     AND wake_at < 9223372036854775807 OFFSET 0) AS r
             JOIN @instance i ON i.shard = r.shard AND i.uid = r.uid
             WHERE i.status = ANY($1) AND {narrowed} AND {range}
             ORDER BY i.created_at DESC, i.arrival DESC LIMIT $7"
        ),
        // With its equality in front of it, the index of workflows is the cheaper one.
        (None, None) if filter.workflow.is_some() => format!(
            "SELECT i.* FROM unnest($1::text[]) AS s(wanted) CROSS JOIN LATERAL (
                 SELECT i.*, i.arrival AS place FROM @instance i
                 WHERE i.workflow = $2 AND i.status = s.wanted AND {narrowed} AND {range}
                 ORDER BY i.workflow DESC, i.status DESC, i.created_at DESC, i.arrival DESC
                 LIMIT $7) AS i"
        ),
        (None, None) => format!(
            "SELECT i.* FROM unnest($1::text[]) AS s(wanted) CROSS JOIN LATERAL (
                 SELECT i.*, i.arrival AS place FROM @instance i
                 WHERE i.status = s.wanted AND {narrowed} AND {range}
                 ORDER BY i.created_at DESC, i.arrival DESC LIMIT $7) AS i"
        ),
    };
    format!(
        "SELECT {INSTANCE} FROM ({rows}) AS instance
         ORDER BY created_at DESC, place DESC LIMIT $7"
    )
}

/// The ledger of a run. Those of one moment come call by call.
pub(crate) async fn attempts(pool: &Pool, run: RunKey) -> Result<Vec<AttemptRow>> {
    let sql = format!(
        "SELECT {ATTEMPT} FROM @attempt WHERE shard = $1 AND uid = $2 AND run = $3
         ORDER BY ended_at, seq, place"
    );
    let rows = Statement::rows("read a ledger", sql).uid(run.uid).big(i64::from(run.run));
    many(pool, Table::Attempt, rows, |row| decode::attempt(&row)).await
}

/// What operators did to the calls of a run.
pub(crate) async fn actions(pool: &Pool, run: RunKey) -> Result<Vec<ActionRow>> {
    let sql = format!(
        "SELECT {ACTION} FROM @action WHERE shard = $1 AND uid = $2 AND run = $3 ORDER BY at, id"
    );
    let rows = Statement::rows("read what operators did", sql);
    let rows = rows.uid(run.uid).big(i64::from(run.run));
    many(pool, Table::Action, rows, |row| decode::action(&row)).await
}

/// What came of an action.
pub(crate) async fn action(pool: &Pool, uid: Uid, id: &str) -> Result<Option<ActionRow>> {
    let sql = format!("SELECT {ACTION} FROM @action WHERE shard = $1 AND uid = $2 AND id = $3");
    let rows = pool.ask(Statement::rows("read an action", sql).uid(uid).text(id)).await?;
    one(&rows, |row| decode::action(&row), || format!("read action {id:?} of instance {uid}"))
}

/// The unfinished calls of a run.
pub(crate) async fn tasks(pool: &Pool, run: RunKey) -> Result<Vec<TaskRow>> {
    let sql =
        format!("SELECT {TASK} FROM @task WHERE shard = $1 AND uid = $2 AND run = $3 ORDER BY seq");
    let rows = Statement::rows("read the tasks of a run", sql);
    many(pool, Table::Task, rows.uid(run.uid).big(i64::from(run.run)), |row| decode::task(&row))
        .await
}

/// The messages of an instance in order of their arrival.
pub(crate) async fn messages(pool: &Pool, uid: Uid) -> Result<Vec<MessageRow>> {
    let sql = format!(
        "SELECT {MESSAGE} FROM @message WHERE shard = $1 AND uid = $2 ORDER BY arrival, id"
    );
    let rows = Statement::rows("read the messages of an instance", sql).uid(uid);
    many(pool, Table::Message, rows, |row| decode::message(&row)).await
}

/// The messages of instances that are due before a time each, in order of their arrival.
pub(crate) async fn due_messages_of(
    pool: &Pool,
    asked: &[(Uid, Timestamp)],
) -> Result<Answers<(Uid, Timestamp), Vec<MessageRow>>> {
    let sql = format!(
        "SELECT {MESSAGE}, before
         FROM unnest($1::smallint[], $2::uuid[], $3::bigint[]) AS u(of_shard, of_uid, before)
         CROSS JOIN LATERAL (
             SELECT * FROM @message
             WHERE shard = of_shard AND uid = of_uid AND due_at < before OFFSET 0) AS due
         ORDER BY arrival, id"
    );
    let due = Statement::rows("read the messages of instances that are due", sql)
        .uids(asked.iter().map(|(uid, _)| *uid))
        .bigs(asked.iter().map(|(_, before)| before.as_millis()));
    let with_key = |row: Fetched<'_>| {
        let message = decode::message(&row)?;
        Ok(((message.uid, row.timestamp(8)?), message))
    };
    let mut found: Answers<(Uid, Timestamp), Vec<MessageRow>> = Answers::new();
    for (key, message) in many(pool, Table::Message, due, with_key).await? {
        if let Ok(messages) = found.entry(key).or_insert_with(|| Ok(Vec::new())) {
            messages.push(message);
        }
    }
    Ok(found)
}

/// Whether a run was asked to end.
pub(crate) async fn cancel_requested(pool: &Pool, run: RunKey) -> Result<bool> {
    let sql =
        "SELECT 1 FROM @event WHERE shard = $1 AND uid = $2 AND run = $3 AND kind = $4 LIMIT 1";
    let look = Statement::rows("look whether a run was cancelled", sql)
        .uid(run.uid)
        .big(i64::from(run.run))
        .text(EventKind::CANCEL_REQUESTED);
    Ok(!pool.ask(look).await?.is_empty())
}

/// One entry of an instance's own data.
pub(crate) async fn kv(pool: &Pool, uid: Uid, key: &str) -> Result<Option<KvRow>> {
    let sql = "SELECT encoding, value FROM @kv WHERE shard = $1 AND uid = $2 AND key = $3";
    let rows =
        pool.ask(Statement::rows("read data of an instance", sql).uid(uid).text(key)).await?;
    let what = || format!("read {key:?} of instance {uid}");
    let value = one(&rows, |row| row.payload(0), what)?.flatten();
    Ok(value.map(|value| KvRow { uid, key: key.to_string(), value }))
}
