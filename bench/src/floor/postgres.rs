//! The rows of a chain, written by tokio-postgres: a batch is one transaction in one round trip,
//! its statements prepared and the rows as columns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_core::{Payload, Uid};
use resurgam_store::rows::TaskRow;
use tokio::sync::Mutex;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::{Task, Written, in_order, written};
use crate::watched::Batch;
use crate::{Result, server};

/// A column of values.
type Column = Box<dyn ToSql + Sync + Send>;

/// The columns for each of the statements; none where there is nothing to write.
#[derive(Default)]
struct Columns([Vec<Column>; STATEMENTS.len()]);

const EVENT: usize = 0;
const INSTANCE: usize = 1;
const STATUS: usize = 2;
const TASK_ENDS: usize = 3;
const TASK: usize = 4;
const POLICY: usize = 5;
const TASK_CHANGES: usize = 6;

/// Those of the store, with `@` for the schema.
const STATEMENTS: [&str; 7] = [
    "INSERT INTO @event (shard, uid, run, seq, at, kind, head, encoding, body)
     SELECT * FROM unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[],
                          $6::text[], $7::text[], $8::text[], $9::text[])",
    "INSERT INTO @instance (shard, uid, id, arrival, workflow, status, run, priority, queue,
                            settings, input_encoding, input, created_at)
     SELECT * FROM unnest($1::smallint[], $2::uuid[], $3::text[], $4::bigint[], $5::text[],
                          $6::text[], $7::bigint[], $8::integer[], $9::text[], $10::text[],
                          $11::text[], $12::text[], $13::bigint[])",
    "UPDATE @instance i SET status = u.status, outcome_encoding = u.encoding, outcome = u.outcome,
                            closed_at = u.closed_at
     FROM unnest($1::smallint[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::bigint[])
          AS u(shard, uid, status, encoding, outcome, closed_at)
     WHERE i.shard = u.shard AND i.uid = u.uid",
    "DELETE FROM @task t
     USING unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::bigint[]) AS u(shard, uid, run, seq)
     WHERE t.shard = u.shard AND t.uid = u.uid AND t.run = u.run AND t.seq = u.seq",
    "INSERT INTO @task (shard, uid, run, seq, name, queue, gate, priority, policy, attempt, wake_at,
                        claimed_by, token, started_at, progress)
     SELECT * FROM unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::bigint[], $5::text[],
                          $6::text[], $7::text[], $8::integer[], $9::text[], $10::bigint[],
                          $11::bigint[], $12::text[], $13::bigint[], $14::bigint[], $15::text[])",
    "INSERT INTO @policy (hash, text) SELECT * FROM unnest($1::text[], $2::text[])
     ON CONFLICT (hash) DO NOTHING",
    "UPDATE @task t SET name = u.name, queue = u.queue, gate = u.gate, priority = u.priority,
                        policy = u.policy, attempt = u.attempt, wake_at = u.wake_at,
                        claimed_by = u.claimed_by, token = u.token, started_at = u.started_at,
                        progress = u.progress
     FROM unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::bigint[], $5::text[], $6::text[],
                 $7::text[], $8::integer[], $9::text[], $10::bigint[], $11::bigint[], $12::text[],
                 $13::bigint[], $14::bigint[], $15::text[])
          AS u(shard, uid, run, seq, name, queue, gate, priority, policy, attempt, wake_at,
               claimed_by, token, started_at, progress)
     WHERE t.shard = u.shard AND t.uid = u.uid AND t.run = u.run AND t.seq = u.seq",
];

/// A connection with its statements.
struct Lane {
    client: Client,
    statements: Vec<Statement>,
}

/// Writes batches into tables that are there, and says how long it took.
pub(crate) async fn write(
    url: &str,
    schema: &str,
    lanes: usize,
    batches: &[Batch],
) -> Result<Duration> {
    let mut arrival = 0;
    let columns: Vec<Columns> =
        batches.iter().map(|batch| columns(batch, &mut arrival)).collect::<Result<_>>()?;
    let mut open = Vec::new();
    for _ in 0..lanes {
        open.push(Arc::new(Mutex::new(Lane::open(url, schema).await?)));
    }
    let began = Instant::now();
    in_order(batches, lanes, |batch| {
        let (open, columns) = (&open, &columns[batch]);
        async move {
            let free = open.iter().find_map(|lane| lane.try_lock().ok());
            free.ok_or("floor: no lane is free")?.write(columns).await
        }
    })
    .await?;
    Ok(began.elapsed())
}

impl Lane {
    async fn open(url: &str, schema: &str) -> Result<Self> {
        let client = server::connect(url).await?;
        client.batch_execute("SET synchronous_commit = on").await?;
        let mut statements = Vec::new();
        for sql in STATEMENTS {
            statements.push(client.prepare(&sql.replace('@', &format!("{schema}."))).await?);
        }
        Ok(Lane { client, statements })
    }

    /// Sends everything in one go. The branches are polled in their order, and the first poll of
    /// each sends it.
    async fn write(&self, columns: &Columns) -> Result<()> {
        tokio::try_join!(
            biased;
            self.plain("BEGIN"),
            self.one(EVENT, columns),
            self.one(INSTANCE, columns),
            self.one(STATUS, columns),
            self.one(TASK_ENDS, columns),
            self.one(TASK_CHANGES, columns),
            self.one(TASK, columns),
            self.one(POLICY, columns),
            self.plain("COMMIT"),
        )?;
        Ok(())
    }

    async fn plain(&self, sql: &str) -> Result<()> {
        Ok(self.client.batch_execute(sql).await?)
    }

    async fn one(&self, statement: usize, columns: &Columns) -> Result<()> {
        let values = &columns.0[statement];
        if !values.is_empty() {
            let values: Vec<&(dyn ToSql + Sync)> =
                values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
            self.client.execute(&self.statements[statement], &values).await?;
        }
        Ok(())
    }
}

fn columns(batch: &Batch, arrival: &mut i64) -> Result<Columns> {
    let steps: Vec<Written<'_>> = batch.steps.iter().map(written).collect::<Result<_>>()?;
    let mut all = Columns::default();
    all.0[EVENT] = events(&steps);
    all.0[INSTANCE] = starts(&steps, arrival);
    all.0[STATUS] = ends(&steps);
    all.0[TASK_ENDS] = done(&steps);
    let task = || steps.iter().filter_map(|step| step.task.as_ref());
    all.0[TASK] = tasks(&task().filter_map(Task::inserted).collect::<Vec<&TaskRow>>());
    all.0[TASK_CHANGES] = tasks(&task().filter_map(Task::claimed).collect::<Vec<&TaskRow>>());
    let policies: Vec<_> = steps.iter().flat_map(|step| step.policies.iter()).collect();
    if !policies.is_empty() {
        let (hash, text) = (policies.iter().map(|row| row.0), policies.iter().map(|row| row.1));
        all.0[POLICY] = vec![texts(hash), texts(text)];
    }
    Ok(all)
}

fn events(steps: &[Written<'_>]) -> Vec<Column> {
    let events: Vec<_> = steps.iter().flat_map(|step| step.events.iter()).collect();
    if events.is_empty() {
        return Vec::new();
    }
    let all = || events.iter();
    let body = || all().map(|(_, _, stored)| stored.body.as_ref());
    vec![
        shards(all().map(|(run, ..)| run.uid)),
        uids(all().map(|(run, ..)| run.uid)),
        bigs(all().map(|(run, ..)| i64::from(run.run))),
        bigs(all().map(|(_, event, _)| event.seq.0.cast_signed())),
        bigs(all().map(|(_, event, _)| event.at.as_millis())),
        texts(all().map(|(_, _, stored)| stored.kind)),
        texts(all().map(|(_, _, stored)| &*stored.head)),
        column(body().map(|body| body.map(|_| Payload::ENCODING.to_string()))),
        column(body().map(|body| body.map(|body| body.as_str().to_string()))),
    ]
}

fn starts(steps: &[Written<'_>], arrival: &mut i64) -> Vec<Column> {
    let rows: Vec<_> = steps.iter().filter_map(|step| step.start).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let first = *arrival;
    *arrival += rows.len() as i64;
    let rows = || rows.iter();
    vec![
        shards(rows().map(|row| row.uid)),
        uids(rows().map(|row| row.uid)),
        texts(rows().map(|row| &*row.id)),
        bigs(first..*arrival),
        texts(rows().map(|row| &*row.workflow)),
        texts(rows().map(|row| row.status.name())),
        bigs(rows().map(|row| i64::from(row.run))),
        column(rows().map(|row| row.priority)),
        texts(rows().map(|row| &*row.queue)),
        texts(rows().map(|_| "{}")),
        texts(rows().map(|_| Payload::ENCODING)),
        texts(rows().map(|row| row.input.as_str())),
        bigs(rows().map(|row| row.created_at.as_millis())),
    ]
}

fn ends(steps: &[Written<'_>]) -> Vec<Column> {
    let ends: Vec<_> = steps.iter().filter_map(|step| step.end.as_ref()).collect();
    if ends.is_empty() {
        return Vec::new();
    }
    let ends = || ends.iter();
    vec![
        shards(ends().map(|end| end.uid)),
        uids(ends().map(|end| end.uid)),
        texts(ends().map(|end| end.status.name())),
        column(ends().map(|end| end.outcome.map(|_| Payload::ENCODING.to_string()))),
        column(ends().map(|end| end.outcome.map(|outcome| outcome.as_str().to_string()))),
        column(ends().map(|end| end.closed_at.map(|at| at.as_millis()))),
    ]
}

fn done(steps: &[Written<'_>]) -> Vec<Column> {
    let tasks = steps.iter().filter_map(|step| step.task.as_ref());
    let calls: Vec<_> = tasks.filter_map(Task::done).collect();
    if calls.is_empty() {
        return Vec::new();
    }
    let calls = || calls.iter();
    vec![
        shards(calls().map(|call| call.run.uid)),
        uids(calls().map(|call| call.run.uid)),
        bigs(calls().map(|call| i64::from(call.run.run))),
        bigs(calls().map(|call| call.seq.0.cast_signed())),
    ]
}

fn tasks(rows: &[&TaskRow]) -> Vec<Column> {
    if rows.is_empty() {
        return Vec::new();
    }
    let rows = || rows.iter();
    let claim = || rows().map(|row| row.claim.as_ref());
    vec![
        shards(rows().map(|row| row.call.run.uid)),
        uids(rows().map(|row| row.call.run.uid)),
        bigs(rows().map(|row| i64::from(row.call.run.run))),
        bigs(rows().map(|row| row.call.seq.0.cast_signed())),
        texts(rows().map(|row| &*row.name)),
        texts(rows().map(|row| &*row.queue)),
        texts(rows().map(|row| &*row.gate)),
        column(rows().map(|row| row.priority)),
        texts(rows().map(|row| &*row.policy)),
        bigs(rows().map(|row| i64::from(row.attempt))),
        bigs(rows().map(|row| row.wake_at.as_millis())),
        column(claim().map(|claim| claim.map(|claim| claim.node.clone()))),
        column(claim().map(|claim| claim.map(|claim| claim.token.cast_signed()))),
        column(claim().map(|claim| claim.map(|claim| claim.started_at.as_millis()))),
        column(rows().map(|row| serde_json::to_string(&row.progress).unwrap_or_default())),
    ]
}

fn column<T: ToSql + Sync + Send + 'static>(values: impl Iterator<Item = T>) -> Column
where
    Vec<T>: ToSql,
{
    Box::new(values.collect::<Vec<T>>())
}

fn texts<'t>(texts: impl Iterator<Item = &'t str>) -> Column {
    column(texts.map(str::to_string))
}

fn bigs(numbers: impl Iterator<Item = i64>) -> Column {
    column(numbers)
}

fn uids(uids: impl Iterator<Item = Uid>) -> Column {
    column(uids.map(|uid| Uuid::from_u128(uid.0)))
}

fn shards(uids: impl Iterator<Item = Uid>) -> Column {
    column(uids.map(|uid| uid.shard().0.cast_signed()))
}
