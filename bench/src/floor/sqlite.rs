//! The rows of a chain, written by rusqlite.

use std::path::Path;
use std::time::{Duration, Instant};

use resurgam_core::{CallKey, Payload, Timestamp};
use resurgam_store::rows::{InstanceRow, TaskRow};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::{End, Task, Written, written};
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
    "INSERT INTO instance (uid, id, workflow, status, run, queue, request_id, input_encoding, input,
                           outcome_encoding, outcome, error, created_at, closed_at, priority,
                           parent, parent_run, parent_seq, schedule, settings, compensation)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
             ?20, ?21)
     ON CONFLICT DO NOTHING",
    "UPDATE instance SET status = ?2, outcome_encoding = ?3, outcome = ?4, error = ?5,
                         closed_at = ?6, compensation = ?7
     WHERE uid = ?1",
    "INSERT INTO event (uid, run, seq, at, kind, head, encoding, body)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    "INSERT INTO policy (hash, text) VALUES (?1, ?2) ON CONFLICT (hash) DO NOTHING",
    "INSERT INTO task (uid, run, seq, name, queue, gate, priority, policy, attempt, wake_at,
                       claimed_by, token, started_at, progress, encoding, heartbeat,
                       heartbeat_at, deadline_at, paused, paused_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
             ?20)",
    "UPDATE task SET seq = ?4, name = ?5, queue = ?6, gate = ?7, priority = ?8, policy = ?9,
                     attempt = ?10, wake_at = ?11, token = ?13, started_at = ?14, progress = ?15,
                     encoding = NULL, heartbeat = NULL, heartbeat_at = NULL, deadline_at = NULL,
                     paused = NULL, paused_at = NULL, bad = NULL
     WHERE uid = ?1 AND run = ?2 AND seq = ?3 AND claimed_by = ?12",
    "DELETE FROM task WHERE uid = ?1 AND run = ?2 AND seq = ?3",
    "UPDATE task SET name = ?4, queue = ?5, gate = ?6, priority = ?7, policy = ?8, attempt = ?9,
                     wake_at = ?10, claimed_by = ?11, token = ?12, started_at = ?13, progress = ?14,
                     encoding = ?15, heartbeat = ?16, heartbeat_at = ?17, deadline_at = ?18,
                     paused = ?19, paused_at = ?20, bad = NULL
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
    rows.extend(step.start.map(|row| (INSTANCE, instance(row))));
    rows.extend(step.end.as_ref().map(|end| (STATUS, status(end))));
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
                maybe(body, |_| text(Payload::ENCODING)),
                maybe(body, |body| text(body.as_str())),
            ],
        ));
    }
    rows.extend(step.policies.iter().map(|(hash, words)| (POLICY, vec![text(hash), text(words)])));
    match &step.task {
        None => {}
        Some(Task::First(first)) => rows.push((TASK, whole_task(first))),
        Some(Task::Claimed(claimed)) => rows.push((TASK_CHANGES, whole_task(claimed))),
        Some(Task::Next { done, next }) if next.claim.is_some() => {
            let mut values = task(next);
            values.insert(2, done.seq.0.cast_signed().into());
            rows.push((TASK_FOLLOWS, values));
        }
        Some(Task::Next { done, next }) => {
            rows.extend([(TASK_ENDS, key(done)), (TASK, whole_task(next))]);
        }
        Some(Task::Last(done)) => rows.push((TASK_ENDS, key(done))),
    }
}

/// The values of an instance that starts.
fn instance(row: &InstanceRow) -> Vec<Value> {
    let mut values = vec![
        blob(row.uid.to_bytes()),
        text(&row.id),
        text(&row.workflow),
        text(row.status.name()),
        row.run.into(),
        text(&row.queue),
        Value::Null,
        text(Payload::ENCODING),
        text(row.input.as_str()),
        Value::Null,
        Value::Null,
        Value::Null,
        millis(row.created_at),
        Value::Null,
        row.priority.into(),
    ];
    let (settings, compensation) = (text("{}"), Value::Null);
    values.extend([Value::Null, Value::Null, Value::Null, Value::Null, settings, compensation]);
    values
}

/// The values of an instance that ends.
fn status(end: &End<'_>) -> Vec<Value> {
    vec![
        blob(end.uid.to_bytes()),
        text(end.status.name()),
        maybe(end.outcome, |_| text(Payload::ENCODING)),
        maybe(end.outcome, |outcome| text(outcome.as_str())),
        Value::Null,
        maybe(end.closed_at, millis),
        Value::Null,
    ]
}

/// All values of a task.
fn whole_task(row: &TaskRow) -> Vec<Value> {
    let mut values = task(row);
    let no_heartbeat = [Value::Null, Value::Null, Value::Null];
    values.extend(no_heartbeat.into_iter().chain([maybe(row.deadline_at, millis)]));
    // It is not paused.
    values.extend([Value::Null, Value::Null]);
    values
}

/// The values that all ways to write a task begin with.
fn task(row: &TaskRow) -> Vec<Value> {
    let claim = row.claim.as_ref();
    let mut values = key(&row.call);
    values.extend([
        text(&row.name),
        text(&row.queue),
        text(&row.gate),
        row.priority.into(),
        text(&row.policy),
        row.attempt.into(),
        millis(row.wake_at),
        maybe(claim, |claim| text(&claim.node)),
        maybe(claim, |claim| claim.token.cast_signed().into()),
        maybe(claim, |claim| millis(claim.started_at)),
        text(&serde_json::to_string(&row.progress).unwrap_or_default()),
    ]);
    values
}

/// What finds a task.
fn key(call: &CallKey) -> Vec<Value> {
    let CallKey { run, seq } = call;
    vec![blob(run.uid.to_bytes()), run.run.into(), seq.0.cast_signed().into()]
}

fn maybe<T>(value: Option<T>, make: impl FnOnce(T) -> Value) -> Value {
    value.map_or(Value::Null, make)
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

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    /// The words of a text, however its lines are broken.
    fn words(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_statement_is_one_of_the_store() {
        let store = words(concat!(
            include_str!("../../../crates/store-sqlite/src/commit/instance.rs"),
            include_str!("../../../crates/store-sqlite/src/commit/event.rs"),
            include_str!("../../../crates/store-sqlite/src/commit/policy.rs"),
            include_str!("../../../crates/store-sqlite/src/commit/task.rs"),
        ));
        for sql in STATEMENTS {
            assert!(store.contains(&format!("{}\";", words(sql))), "{sql}");
        }
    }
}
