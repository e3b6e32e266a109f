//! Rows as the engine knows them. What cannot be read is described: never guessed, never a panic.

use std::fmt;

use resurgam_core::event::Compensation;
use resurgam_core::{CallKey, Event, EventKind, Payload, RunKey, Seq, Timestamp, Uid};
use resurgam_store::rows::{
    AttemptOutcome, AttemptRow, Claim, Heartbeat, InstanceRow, Message, MessageRow, Status, TaskRow,
};
use resurgam_store::{InboxRow, ScheduleRecord, ScheduleRow};
use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde::de::DeserializeOwned;

/// Why a row cannot be read.
#[derive(Debug)]
pub(crate) struct Unreadable(pub(crate) String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

impl From<rusqlite::Error> for Unreadable {
    fn from(error: rusqlite::Error) -> Self {
        Unreadable(error.to_string())
    }
}

impl From<String> for Unreadable {
    fn from(text: String) -> Self {
        Unreadable(text)
    }
}

type Decoded<T> = Result<T, Unreadable>;

/// The columns of [`instance`], in its order.
pub(crate) const INSTANCE: &str = "uid, id, workflow, status, run, queue, request_id, \
     input_encoding, input, outcome_encoding, outcome, error, created_at, closed_at, priority, \
     parent, parent_run, parent_seq, schedule, settings, compensation, \
     (SELECT json_group_object(name, value) FROM tag WHERE tag.uid = instance.uid)";

/// An instance from the columns of [`INSTANCE`].
pub(crate) fn instance(row: &Row<'_>) -> Decoded<InstanceRow> {
    let status = text(row, 3)?;
    Ok(InstanceRow {
        uid: uid(row, 0)?,
        id: text(row, 1)?.to_string(),
        workflow: text(row, 2)?.to_string(),
        status: Status::named(status)
            .ok_or_else(|| format!("the status {status:?} is unknown to this version"))?,
        run: row.get(4)?,
        queue: text(row, 5)?.to_string(),
        request_id: row.get(6)?,
        input: payload(row, 7)?.ok_or_else(|| "the input is missing".to_string())?,
        outcome: payload(row, 9)?,
        error: row.get(11)?,
        created_at: timestamp(row, 12)?,
        closed_at: row.get::<_, Option<i64>>(13)?.map(Timestamp::from_millis),
        priority: row.get(14)?,
        parent: parent(row)?,
        schedule: row.get(18)?,
        settings: json(row, 19, "settings")?,
        compensation: row.get::<_, Option<String>>(20)?.as_deref().and_then(Compensation::named),
        tags: json(row, 21, "tags")?,
    })
}

/// The call that started an instance.
fn parent(row: &Row<'_>) -> Decoded<Option<CallKey>> {
    let Some(uid) = row.get::<_, Option<[u8; 16]>>(15)?.map(Uid::from_bytes) else {
        return Ok(None);
    };
    let run = RunKey { uid, run: row.get(16)? };
    Ok(Some(run.call(seq(row, 17)?)))
}

fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize, what: &str) -> Decoded<T> {
    let read = serde_json::from_str(text(row, column)?);
    Ok(read.map_err(|error| format!("the {what}: {error}"))?)
}

/// The columns of [`event`], in its order.
pub(crate) const EVENT: &str = "seq, at, kind, head, encoding, body";

/// An event from the columns of [`EVENT`].
pub(crate) fn event(row: &Row<'_>) -> Decoded<Event> {
    let kind = EventKind::from_stored(text(row, 2)?, text(row, 3)?, payload(row, 4)?)?;
    Ok(Event { seq: seq(row, 0)?, at: timestamp(row, 1)?, kind })
}

/// The columns of [`message`], in its order.
pub(crate) const MESSAGE: &str = "uid, id, due_at, run, kind, head, encoding, body";

/// A message from the columns of [`MESSAGE`].
pub(crate) fn message(row: &Row<'_>) -> Decoded<MessageRow> {
    let (kind, head) = (text(row, 4)?, text(row, 5)?);
    let body = Message::from_stored(row.get(3)?, kind, head, payload(row, 6)?)?;
    Ok(MessageRow {
        uid: uid(row, 0)?,
        id: text(row, 1)?.to_string(),
        due_at: timestamp(row, 2)?,
        body,
    })
}

/// The columns of [`task`], in its order.
pub(crate) const TASK: &str = "uid, run, seq, name, queue, gate, priority, policy, attempt, \
     wake_at, claimed_by, token, started_at, progress, encoding, heartbeat, heartbeat_at, \
     deadline_at";

/// A task from the columns of [`TASK`].
pub(crate) fn task(row: &Row<'_>) -> Decoded<TaskRow> {
    let progress = serde_json::from_str(text(row, 13)?);
    Ok(TaskRow {
        call: call(row)?,
        name: text(row, 3)?.to_string(),
        queue: text(row, 4)?.to_string(),
        gate: text(row, 5)?.to_string(),
        priority: row.get(6)?,
        policy: text(row, 7)?.to_string(),
        attempt: row.get(8)?,
        wake_at: timestamp(row, 9)?,
        deadline_at: row.get::<_, Option<i64>>(17)?.map(Timestamp::from_millis),
        claim: claim(row)?,
        progress: progress.map_err(|error| format!("the progress: {error}"))?,
        heartbeat: heartbeat(row)?,
    })
}

/// One of an older program came without its time: then it is as old as can be.
fn heartbeat(row: &Row<'_>) -> Decoded<Option<Heartbeat>> {
    let at = row.get::<_, Option<i64>>(16)?.map_or(Timestamp::EPOCH, Timestamp::from_millis);
    Ok(payload(row, 14)?.map(|details| Heartbeat { details, at }))
}

fn claim(row: &Row<'_>) -> Decoded<Option<Claim>> {
    let Some(node) = row.get::<_, Option<String>>(10)? else { return Ok(None) };
    let token = row.get::<_, i64>(11)?.cast_unsigned();
    Ok(Some(Claim { node, token, started_at: timestamp(row, 12)? }))
}

/// The columns of [`attempt`], in its order.
pub(crate) const ATTEMPT: &str =
    "uid, run, seq, name, attempt, outcome, started_at, ended_at, failure, delay_ms, why";

/// A row of the ledger from the columns of [`ATTEMPT`].
pub(crate) fn attempt(row: &Row<'_>) -> Decoded<AttemptRow> {
    let outcome = text(row, 5)?;
    let failure = match row.get_ref(8)?.as_str_or_null().map_err(wrong_type(8))? {
        Some(failure) => {
            Some(serde_json::from_str(failure).map_err(|error| format!("the failure: {error}"))?)
        }
        None => None,
    };
    Ok(AttemptRow {
        call: call(row)?,
        name: text(row, 3)?.to_string(),
        attempt: row.get(4)?,
        outcome: AttemptOutcome::named(outcome)
            .ok_or_else(|| format!("the outcome {outcome:?} is unknown to this version"))?,
        started_at: timestamp(row, 6)?,
        ended_at: timestamp(row, 7)?,
        failure,
        delay_ms: row.get::<_, Option<i64>>(9)?.map(i64::unsigned_abs),
        why: text(row, 10)?.to_string(),
    })
}

/// The columns of [`schedule`], in its order.
pub(crate) const SCHEDULE: &str = "id, workflow, encoding, input, rule, options, state, paused, \
     next_at, waits, last, error, created_at, revision, \
     EXISTS (SELECT 1 FROM instance WHERE instance.id = schedule.last AND current = 1 \
                                      AND closed_at IS NULL)";

/// A schedule from the columns of [`SCHEDULE`].
pub(crate) fn schedule(row: &Row<'_>) -> Decoded<ScheduleRecord> {
    Ok(ScheduleRecord {
        row: ScheduleRow {
            id: text(row, 0)?.to_string(),
            workflow: text(row, 1)?.to_string(),
            input: payload(row, 2)?.ok_or_else(|| "the input is missing".to_string())?,
            rule: text(row, 4)?.to_string(),
            options: text(row, 5)?.to_string(),
            state: text(row, 6)?.to_string(),
            paused: row.get(7)?,
            next_at: row.get::<_, Option<i64>>(8)?.map(Timestamp::from_millis),
            waits: row.get(9)?,
            last: row.get(10)?,
            error: row.get(11)?,
            created_at: timestamp(row, 12)?,
        },
        revision: row.get::<_, i64>(13)?.unsigned_abs(),
        last_open: row.get(14)?,
    })
}

/// The columns of [`inbox`], in its order.
pub(crate) const INBOX: &str = "arrival, id, instance, kind, name, encoding, body";

/// A row of the inbox from the columns of [`INBOX`].
pub(crate) fn inbox(row: &Row<'_>) -> Decoded<InboxRow> {
    Ok(InboxRow {
        arrival: row.get(0)?,
        id: row.get(1)?,
        instance: text(row, 2)?.to_string(),
        kind: text(row, 3)?.to_string(),
        name: row.get(4)?,
        body: payload(row, 5)?,
    })
}

/// A call from the first three columns.
pub(crate) fn call(row: &Row<'_>) -> Decoded<CallKey> {
    Ok(RunKey { uid: uid(row, 0)?, run: row.get(1)? }.call(seq(row, 2)?))
}

pub(crate) fn uid(row: &Row<'_>, column: usize) -> Decoded<Uid> {
    let bytes = match row.get_ref(column)? {
        ValueRef::Blob(bytes) => bytes,
        other => return Err(Unreadable(format!("the uid is {}", other.data_type()))),
    };
    let sixteen = <[u8; 16]>::try_from(bytes);
    Ok(Uid::from_bytes(sixteen.map_err(|_| format!("the uid has {} bytes", bytes.len()))?))
}

pub(crate) fn timestamp(row: &Row<'_>, column: usize) -> Decoded<Timestamp> {
    Ok(Timestamp::from_millis(row.get(column)?))
}

pub(crate) fn text<'r>(row: &'r Row<'_>, column: usize) -> Decoded<&'r str> {
    row.get_ref(column)?.as_str().map_err(wrong_type(column))
}

/// A payload from the column of its encoding and the one after it.
pub(crate) fn payload(row: &Row<'_>, column: usize) -> Decoded<Option<Payload>> {
    let value = row.get_ref(column + 1)?.as_str_or_null().map_err(wrong_type(column + 1))?;
    let Some(value) = value else { return Ok(None) };
    match text(row, column)? {
        Payload::ENCODING => Ok(Some(Payload::from_text(value))),
        other => Err(Unreadable(format!("the encoding {other:?} is unknown to this version"))),
    }
}

fn seq(row: &Row<'_>, column: usize) -> Decoded<Seq> {
    let number: i64 = row.get(column)?;
    let number = u64::try_from(number).map_err(|_| format!("the place {number} is below 1"))?;
    Ok(Seq(number))
}

fn wrong_type(column: usize) -> impl FnOnce(rusqlite::types::FromSqlError) -> Unreadable {
    move |error| Unreadable(format!("column {}: {error}", column + 1))
}
