//! What the owner reads to do its work.

use std::collections::{BTreeSet, HashMap};

use resurgam_core::{CallKey, Event, RunKey, Seq, Shard, Timestamp, Uid};
use resurgam_store::rows::{
    AttemptRow, DueDeadline, DueMessage, DueTask, InstanceRow, PolicyRow, RunRecord, TaskRecord,
    TaskRow,
};
use resurgam_store::{Error, Report, Result, Runnable};
use tokio_postgres::Row;

use super::{many, one, set_aside, shards};
use crate::aside::{SetAside, Table, readable};
use crate::decode::{self, ATTEMPT, EVENT, INSTANCE, MESSAGE, TASK, Unreadable, get};
use crate::encode::whole;
use crate::pool::Pool;
use crate::statement::Statement;

/// How many rows of a call's ledger an attempt is given, from each end.
const LEDGER_ENDS: i64 = 10;

/// Each shard is read along its index and no further than its part; only what is left is sorted.
const DUE_TASKS: &str = "
    SELECT t.uid, t.run, t.seq, t.wake_at, t.queue, t.name, t.priority
    FROM unnest($1::smallint[]) AS s(shard)
    CROSS JOIN LATERAL (
        SELECT uid, run, seq, wake_at, queue, name, priority, lane FROM @task
        WHERE shard = s.shard AND claimed_by IS NULL AND bad IS NULL AND wake_at < $4
          AND ($5::text[] IS NULL OR name = ANY($5)) AND $6::text[] IS NULL
        ORDER BY wake_at, lane LIMIT $2) AS t
    ORDER BY t.wake_at, t.lane, t.uid, t.seq LIMIT $3";

/// The same, of some queues: what is in others is not even looked at.
const DUE_TASKS_OF: &str = "
    SELECT t.uid, t.run, t.seq, t.wake_at, t.queue, t.name, t.priority
    FROM unnest($1::smallint[]) AS s(shard)
    CROSS JOIN unnest($6::text[]) AS q(queue)
    CROSS JOIN LATERAL (
        SELECT uid, run, seq, wake_at, queue, name, priority, lane FROM @task
        WHERE shard = s.shard AND queue = q.queue AND claimed_by IS NULL AND bad IS NULL
          AND wake_at < $4 AND ($5::text[] IS NULL OR name = ANY($5))
        ORDER BY wake_at LIMIT $2) AS t
    ORDER BY t.wake_at, t.lane, t.uid, t.seq LIMIT $3";

const DUE_DEADLINES: &str = "
    SELECT t.uid, t.run, t.seq, t.deadline_at
    FROM unnest($1::smallint[]) AS s(shard)
    CROSS JOIN LATERAL (
        SELECT uid, run, seq, deadline_at FROM @task
        WHERE shard = s.shard AND claimed_by IS NULL AND bad IS NULL AND deadline_at IS NOT NULL
          AND deadline_at < $4
        ORDER BY deadline_at LIMIT $2) AS t
    ORDER BY t.deadline_at, t.uid, t.seq LIMIT $3";

const DUE_MESSAGES: &str = "
    SELECT m.uid, m.due_at, m.kind = $5
    FROM unnest($1::smallint[]) AS s(shard)
    CROSS JOIN LATERAL (
        SELECT uid, due_at, arrival, kind FROM @message
        WHERE shard = s.shard AND bad IS NULL AND NOT parked AND due_at < $4
        ORDER BY due_at, arrival LIMIT $2) AS m
    ORDER BY m.due_at, m.arrival LIMIT $3";

/// Tasks that wait and are due.
pub(crate) async fn due_tasks(
    pool: &Pool,
    among: &[Shard],
    runnable: &Runnable,
    before: Timestamp,
    limit: usize,
) -> Result<Vec<DueTask>> {
    let due = |due: Statement<'static>| {
        due.big(before.as_millis()).names(&runnable.activities).names(&runnable.queues)
    };
    let what = "look for tasks that are due";
    let sql = if runnable.queues.is_some() { DUE_TASKS_OF } else { DUE_TASKS };
    let rows = in_parts(pool, what, sql, among, limit, due).await?;
    let read = |row: &Row| {
        Ok(DueTask {
            call: decode::call(row)?,
            wake_at: decode::timestamp(row, 3)?,
            queue: get(row, 4)?,
            name: get(row, 5)?,
            priority: get(row, 6)?,
        })
    };
    all(&rows, what, read)
}

/// Tasks that wait and may have waited too long.
pub(crate) async fn due_deadlines(
    pool: &Pool,
    among: &[Shard],
    before: Timestamp,
    limit: usize,
) -> Result<Vec<DueDeadline>> {
    let what = "look for tasks that wait in vain";
    let due = |due: Statement<'static>| due.big(before.as_millis());
    let rows = in_parts(pool, what, DUE_DEADLINES, among, limit, due).await?;
    let read = |row: &Row| {
        Ok(DueDeadline { call: decode::call(row)?, deadline_at: decode::timestamp(row, 3)? })
    };
    all(&rows, what, read)
}

/// Messages that are due.
pub(crate) async fn due_messages(
    pool: &Pool,
    among: &[Shard],
    before: Timestamp,
    limit: usize,
) -> Result<Vec<DueMessage>> {
    let what = "look for messages that are due";
    let due = |due: Statement<'static>| due.big(before.as_millis()).text(Report::KIND);
    let rows = in_parts(pool, what, DUE_MESSAGES, among, limit, due).await?;
    let read = |row: &Row| {
        let (uid, due_at) = (decode::uid(row, 0)?, decode::timestamp(row, 1)?);
        Ok(DueMessage { uid, due_at, is_report: get(row, 2)? })
    };
    all(&rows, what, read)
}

/// Asks every shard for several times its even share: reading as many as are asked for in all would
/// be hundreds of times too many in a long queue. Where that cuts one of them short, it is asked
/// again, in full.
async fn in_parts(
    pool: &Pool,
    what: &'static str,
    sql: &'static str,
    among: &[Shard],
    limit: usize,
    with_values: impl Fn(Statement<'static>) -> Statement<'static>,
) -> Result<Vec<Row>> {
    let ask = async |part: usize| {
        let due = Statement::rows(what, sql)
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
    let uids = found.iter().filter_map(|row| decode::uid(row, 0).ok());
    uids.into_iter().any(|uid| {
        let count = counts.entry(uid.shard()).or_insert(0_usize);
        *count += 1;
        *count >= part
    })
}

/// Rows of which only columns with types are read, so that each of them can be.
fn all<T>(rows: &[Row], what: &str, read: impl Fn(&Row) -> decode::Decoded<T>) -> Result<Vec<T>> {
    let found: decode::Decoded<Vec<T>> = rows.iter().map(read).collect();
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
    many(pool, Table::Task, claimed, decode::task).await
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
    many(pool, Table::Task, tasks, decode::task).await
}

/// A task with its input, its instance's id and the ends of its ledger.
pub(crate) async fn load_task(pool: &Pool, call: CallKey) -> Result<Option<TaskRecord>> {
    read_tasks(pool, &[call]).await?.pop().transpose()
}

/// The same of many calls. One that cannot be read is set aside.
pub(crate) async fn load_tasks(pool: &Pool, calls: &[CallKey]) -> Result<Vec<TaskRecord>> {
    Ok(read_tasks(pool, calls).await?.into_iter().filter_map(Result::ok).collect())
}

async fn read_tasks(pool: &Pool, calls: &[CallKey]) -> Result<Vec<Result<TaskRecord>>> {
    let answers = pool.ask_all(&task_questions(calls)).await?;
    let [tasks, inputs, instances, ledger] = answers.as_slice() else {
        return Err(Error::transient("load tasks: no answer"));
    };
    let mut bad = Vec::new();
    let mut about = About::of(inputs, instances);
    for row in readable(Table::Attempt, ledger, &mut bad, decode::attempt) {
        about.ledgers.entry(row.call).or_default().push(row);
    }
    let mut found = Vec::with_capacity(tasks.len());
    for row in tasks {
        let record = about.complete(row);
        if let Err(error) = &record {
            // No attempt can be made of it, so it must not be found due again and again.
            bad.push(SetAside::new(Table::Task, row, error.to_string()));
        }
        found.push(record);
    }
    set_aside(pool, bad).await;
    Ok(found)
}

/// Each call is looked up by its key, whatever the server believes about its tables.
fn task_questions(calls: &[CallKey]) -> [Statement<'static>; 4] {
    const CALLS: &str = "unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::bigint[])
        AS u(of_shard, of_uid, of_run, of_seq)";
    const CALL: &str = "shard = of_shard AND uid = of_uid AND run = of_run AND seq = of_seq";
    let of = |columns: &str, rows: String| {
        let sql = format!("SELECT {columns} FROM {CALLS} CROSS JOIN LATERAL ({rows}) AS found");
        Statement::rows("load tasks", sql).calls(calls.iter().copied())
    };
    let uids: BTreeSet<Uid> = calls.iter().map(|call| call.run.uid).collect();
    let instances = "SELECT uid, id FROM unnest($1::smallint[], $2::uuid[]) AS u(of_shard, of_uid)
        CROSS JOIN LATERAL
            (SELECT uid, id FROM @instance WHERE shard = of_shard AND uid = of_uid LIMIT 1) AS i";
    [
        of(TASK, format!("SELECT * FROM @task WHERE {CALL} LIMIT 1")),
        of("uid, run, seq, encoding, body", format!("SELECT * FROM @event WHERE {CALL} LIMIT 1")),
        Statement::rows("load tasks", instances).uids(uids.iter().copied()),
        of(
            &format!("{ATTEMPT}, place"),
            format!(
                "(SELECT * FROM @attempt WHERE {CALL} ORDER BY place LIMIT {LEDGER_ENDS})
                 UNION
                 (SELECT * FROM @attempt WHERE {CALL} ORDER BY place DESC LIMIT {LEDGER_ENDS})
                 ORDER BY place"
            ),
        ),
    ]
}

/// What is to be known of tasks beside their rows.
struct About<'a> {
    inputs: HashMap<CallKey, &'a Row>,
    instances: HashMap<Uid, &'a Row>,
    ledgers: HashMap<CallKey, Vec<AttemptRow>>,
}

impl<'a> About<'a> {
    fn of(inputs: &'a [Row], instances: &'a [Row]) -> Self {
        let call = |row: &'a Row| Some((decode::call(row).ok()?, row));
        let instance = |row: &'a Row| Some((decode::uid(row, 0).ok()?, row));
        About {
            inputs: inputs.iter().filter_map(call).collect(),
            instances: instances.iter().filter_map(instance).collect(),
            ledgers: HashMap::new(),
        }
    }

    fn complete(&mut self, row: &Row) -> Result<TaskRecord> {
        let unreadable = |what: String| move |why: Unreadable| Error::data(what).because(why);
        let call = decode::call(row).map_err(unreadable("read the key of a task".to_string()))?;
        let task =
            decode::task(row).map_err(unreadable(format!("read the task of call {call}")))?;
        let Some(instance) = self.instances.get(&call.run.uid) else {
            let why = "there is no such instance";
            return Err(Error::data(format!("load the task of call {call}: {why}")));
        };
        let instance = get(instance, 1).map_err(unreadable("read the id of an instance".into()))?;
        let what = format!("read the input of call {call}");
        let input = self.inputs.get(&call).map(|row| decode::payload(row, 3)).transpose();
        let input = input.map_err(unreadable(what.clone()))?.flatten();
        let input = input.ok_or_else(|| Error::data(format!("{what}: its event is missing")))?;
        Ok(TaskRecord {
            task,
            input,
            instance,
            ledger: self.ledgers.remove(&call).unwrap_or_default(),
        })
    }
}

/// The current run of an instance, whole.
pub(crate) async fn load_run(pool: &Pool, uid: Uid) -> Result<Option<RunRecord>> {
    let key = |sql: String| Statement::rows("load a run", sql).uid(uid);
    const RUN: &str = "shard = $1 AND uid = $2
        AND run = (SELECT run FROM @instance WHERE shard = $1 AND uid = $2)";
    let questions = [
        key(format!("SELECT {INSTANCE} FROM @instance instance WHERE shard = $1 AND uid = $2")),
        key(format!("SELECT {EVENT} FROM @event WHERE {RUN} ORDER BY seq")),
        key(format!(
            "SELECT {MESSAGE} FROM @message WHERE shard = $1 AND uid = $2 ORDER BY arrival, id"
        )),
        key(format!("SELECT {TASK} FROM @task WHERE {RUN} ORDER BY seq")),
    ];
    let answers = pool.ask_all(&questions).await?;
    let [instance, events, messages, tasks] = answers.as_slice() else {
        return Err(Error::transient(format!("load the run of instance {uid}: no answer")));
    };
    let Some(instance) = one(instance, decode::instance, || format!("read instance {uid}"))? else {
        return Ok(None);
    };
    let mut bad = Vec::new();
    let messages = readable(Table::Message, messages, &mut bad, decode::message);
    let readable_messages = bad.len();
    let tasks = readable(Table::Task, tasks, &mut bad, decode::task);
    let lost_task = bad.get(readable_messages).map(|row| row.why.clone());
    set_aside(pool, bad).await;
    let named = format!("instance {:?}, run {}", instance.id, instance.run);
    let events = in_order(events, &named, Gaps::Refused)?;
    match lost_task {
        None => Ok(Some(RunRecord { instance, events, messages, tasks })),
        Some(why) => Err(Error::data(format!(
            "read the tasks of {named}: {why}; the row is marked in table task"
        ))),
    }
}

/// The instance of a uid.
pub(crate) async fn instance(pool: &Pool, uid: Uid) -> Result<Option<InstanceRow>> {
    let sql = format!("SELECT {INSTANCE} FROM @instance instance WHERE shard = $1 AND uid = $2");
    let rows = pool.ask(Statement::rows("read an instance", sql).uid(uid)).await?;
    one(&rows, decode::instance, || format!("read instance {uid}"))
}

/// Whether a history may have holes: people want to see what is there, a turn needs all of it.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Gaps {
    Shown,
    Refused,
}

/// The events of a run as far as they are there.
pub(crate) async fn history(pool: &Pool, run: RunKey) -> Result<Vec<Event>> {
    let sql = format!(
        "SELECT {EVENT}, (SELECT id FROM @instance WHERE shard = $1 AND uid = $2)
         FROM @event WHERE shard = $1 AND uid = $2 AND run = $3 ORDER BY seq"
    );
    let events = Statement::rows("read a history", sql).uid(run.uid).big(i64::from(run.run));
    let rows = pool.ask(events).await?;
    let id = rows.first().and_then(|row| row.try_get::<_, Option<String>>(6).ok().flatten());
    let id = id.unwrap_or_else(|| run.uid.to_string());
    in_order(&rows, &format!("instance {id:?}, run {}", run.run), Gaps::Shown)
}

/// Events from their rows. One that cannot be read blocks its run and is named.
fn in_order(rows: &[Row], run: &str, gaps: Gaps) -> Result<Vec<Event>> {
    let what = || format!("read the history of {run}");
    let mut events: Vec<Event> = Vec::with_capacity(rows.len());
    for row in rows {
        let due = events.last().map_or(Seq::FIRST, |last| last.seq.next());
        let event = decode::event(row).map_err(|why| bad_event(what(), row, why))?;
        if gaps == Gaps::Refused && event.seq != due {
            return Err(Error::data(format!(
                "{}: event {due} is missing; restore a backup",
                what()
            )));
        }
        events.push(event);
    }
    Ok(events)
}

fn bad_event(what: String, row: &Row, why: Unreadable) -> Error {
    let place = row.try_get::<_, i64>(0).map_or_else(|_| "?".to_string(), |seq| seq.to_string());
    Error::data(format!(
        "{what}: event {place} cannot be read; start a version that knows it, or restore a backup"
    ))
    .because(why)
}

/// An interned policy.
pub(crate) async fn policy(pool: &Pool, hash: &str) -> Result<Option<PolicyRow>> {
    let sql = "SELECT hash, text FROM @policy WHERE hash = $1";
    let rows = pool.ask(Statement::rows("read a policy", sql).text(hash)).await?;
    let read = |row: &Row| Ok(PolicyRow { hash: get(row, 0)?, text: get(row, 1)? });
    one(&rows, read, || format!("read policy {hash}"))
}
