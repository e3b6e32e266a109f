//! The rows of a chain, written by rusqlite.

use std::path::Path;
use std::time::{Duration, Instant};

use resurgam_core::{Payload, Timestamp};
use resurgam_store::rows::TaskRow;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::{Written, written};
use crate::Result;
use crate::bed::Sync;
use crate::watched::Batch;

/// A row: the statement that writes it, by its place in [`STATEMENTS`], and its values.
type Row = (usize, Vec<Value>);

const INSTANCE: usize = 0;
const STATUS: usize = 1;
const EVENT: usize = 2;
const POLICY: usize = 3;
const TASK: usize = 4;
const TASK_FOLLOWS: usize = 5;
const TASK_ENDS: usize = 6;
const TASK_CHANGES: usize = 7;

/// Those of the store.
const STATEMENTS: [&str; 8] = [
    "INSERT INTO instance (uid, id, workflow, status, run, queue, input_encoding, input, created_at,
                           priority, settings)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    "UPDATE instance SET status = ?2, outcome_encoding = ?3, outcome = ?4, closed_at = ?5
     WHERE uid = ?1",
    "INSERT INTO event (uid, run, seq, at, kind, head, encoding, body)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    "INSERT INTO policy (hash, text) VALUES (?1, ?2) ON CONFLICT (hash) DO NOTHING",
    "INSERT INTO task (uid, run, seq, name, queue, gate, priority, policy, attempt, wake_at, token,
                       started_at, progress, claimed_by)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    "UPDATE task SET seq = ?3, name = ?4, queue = ?5, gate = ?6, priority = ?7, policy = ?8,
                     attempt = ?9, wake_at = ?10, token = ?11, started_at = ?12, progress = ?13
     WHERE uid = ?1 AND run = ?2 AND seq = ?14",
    "DELETE FROM task WHERE uid = ?1 AND run = ?2 AND seq = ?3",
    "UPDATE task SET name = ?4, queue = ?5, gate = ?6, priority = ?7, policy = ?8, attempt = ?9,
                     wake_at = ?10, token = ?11, started_at = ?12, progress = ?13, claimed_by = ?14
     WHERE uid = ?1 AND run = ?2 AND seq = ?3",
];

/// How many bytes the log may have before it is copied, as in the store.
const LOG_PAGES: i64 = 1_024;

/// Writes batches into tables that are there, and says how long it took.
pub(crate) fn write(file: &Path, sync: Sync, batches: &[Batch]) -> Result<Duration> {
    let batches: Vec<Vec<Row>> = batches.iter().map(rows).collect::<Result<_>>()?;
    let connection = Connection::open(file)?;
    let synchronous = match sync {
        Sync::Full => "FULL",
        Sync::Normal => "NORMAL",
    };
    connection.execute_batch(&format!(
        "PRAGMA temp_store = MEMORY;
         PRAGMA wal_autocheckpoint = {LOG_PAGES};
         PRAGMA synchronous = {synchronous};
         PRAGMA cache_size = -16384;"
    ))?;
    let mut statements = Vec::new();
    for sql in STATEMENTS {
        statements.push(connection.prepare(sql)?);
    }
    let (mut begin, mut commit) =
        (connection.prepare("BEGIN IMMEDIATE")?, connection.prepare("COMMIT")?);

    let began = Instant::now();
    for batch in &batches {
        begin.execute([])?;
        for (statement, values) in batch {
            if statements[*statement].execute(params_from_iter(values))? != 1 {
                let (sql, known) = (STATEMENTS[*statement], *statement == POLICY);
                if !known {
                    return Err(format!("floor: {sql} wrote nothing").into());
                }
            }
        }
        commit.execute([])?;
    }
    Ok(began.elapsed())
}

fn rows(batch: &Batch) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for step in batch.steps.iter() {
        add(&written(step)?, &mut rows);
    }
    Ok(rows)
}

fn add(step: &Written<'_>, rows: &mut Vec<Row>) {
    if let Some(row) = step.start {
        rows.push((
            INSTANCE,
            vec![
                blob(row.uid.to_bytes()),
                text(&row.id),
                text(&row.workflow),
                text(row.status.name()),
                row.run.into(),
                text(&row.queue),
                text(Payload::ENCODING),
                text(row.input.as_str()),
                millis(row.created_at),
                row.priority.into(),
                text("{}"),
            ],
        ));
    }
    if let Some(end) = &step.end {
        rows.push((
            STATUS,
            vec![
                blob(end.uid.to_bytes()),
                text(end.status.name()),
                end.outcome.map_or(Value::Null, |_| text(Payload::ENCODING)),
                end.outcome.map_or(Value::Null, |outcome| text(outcome.as_str())),
                end.closed_at.map_or(Value::Null, millis),
            ],
        ));
    }
    for (run, event, stored) in &step.events {
        let body = stored.body.as_ref();
        rows.push((
            EVENT,
            vec![
                blob(run.uid.to_bytes()),
                run.run.into(),
                event.seq.0.cast_signed().into(),
                millis(event.at),
                text(stored.kind),
                text(&stored.head),
                body.map_or(Value::Null, |_| text(Payload::ENCODING)),
                body.map_or(Value::Null, |body| text(body.as_str())),
            ],
        ));
    }
    rows.extend(step.policies.iter().map(|(hash, words)| (POLICY, vec![text(hash), text(words)])));
    rows.extend(step.claimed.map(|claimed| (TASK_CHANGES, whole_task(claimed))));
    match (step.next, step.done) {
        (Some(next), Some(done)) if next.call.run == done.run && next.claim.is_some() => {
            let mut values = task(next);
            values.push(done.seq.0.cast_signed().into());
            rows.push((TASK_FOLLOWS, values));
        }
        (next, done) => {
            rows.extend(next.map(|next| (TASK, whole_task(next))));
            rows.extend(done.map(|done| {
                let (run, seq) = (done.run.run.into(), done.seq.0.cast_signed().into());
                (TASK_ENDS, vec![blob(done.run.uid.to_bytes()), run, seq])
            }));
        }
    }
}

/// All values of a task.
fn whole_task(row: &TaskRow) -> Vec<Value> {
    let mut values = task(row);
    values.push(row.claim.as_ref().map_or(Value::Null, |claim| text(&claim.node)));
    values
}

/// The values that all ways to write a task begin with.
fn task(row: &TaskRow) -> Vec<Value> {
    let claim = row.claim.as_ref();
    vec![
        blob(row.call.run.uid.to_bytes()),
        row.call.run.run.into(),
        row.call.seq.0.cast_signed().into(),
        text(&row.name),
        text(&row.queue),
        text(&row.gate),
        row.priority.into(),
        text(&row.policy),
        row.attempt.into(),
        millis(row.wake_at),
        claim.map_or(Value::Null, |claim| claim.token.cast_signed().into()),
        claim.map_or(Value::Null, |claim| millis(claim.started_at)),
        text(&serde_json::to_string(&row.progress).unwrap_or_default()),
    ]
}

fn blob(bytes: [u8; 16]) -> Value {
    Value::Blob(bytes.to_vec())
}

fn text(text: &str) -> Value {
    Value::Text(text.to_string())
}

fn millis(at: Timestamp) -> Value {
    at.as_millis().into()
}
