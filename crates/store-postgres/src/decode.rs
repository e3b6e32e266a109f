//! Rows as the engine knows them. What cannot be read is described: never guessed, never a panic.

use std::fmt;

use resurgam_core::event::Compensation;
use resurgam_core::{CallKey, Event, EventKind, Payload, RunKey, Seq, Timestamp, Uid};
use resurgam_store::rows::{
    AttemptOutcome, AttemptRow, Claim, Heartbeat, InstanceRow, Message, MessageRow, Status, TaskRow,
};
use resurgam_store::{InboxRow, ScheduleRecord, ScheduleRow};
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;

use crate::encode::{PERCENT, from_percent};

/// Why a row cannot be read.
#[derive(Debug)]
pub(crate) struct Unreadable(pub(crate) String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

impl From<String> for Unreadable {
    fn from(text: String) -> Self {
        Unreadable(text)
    }
}

pub(crate) type Decoded<T> = Result<T, Unreadable>;

/// The columns of [`instance`], in its order.
pub(crate) const INSTANCE: &str = "instance.uid, instance.id, workflow, status, run, queue,
     request_id, input_encoding, input, outcome_encoding, outcome, error, created_at, closed_at,
     priority, parent, parent_run, parent_seq, schedule, settings, compensation,
     (SELECT json_object_agg(tag.name, tag.value)::text FROM @tag tag
      WHERE tag.shard = instance.shard AND tag.uid = instance.uid)";

/// An instance from the columns of [`INSTANCE`].
pub(crate) fn instance(row: &Row) -> Decoded<InstanceRow> {
    let status = get::<&str>(row, 3)?;
    Ok(InstanceRow {
        uid: uid(row, 0)?,
        id: get(row, 1)?,
        workflow: get(row, 2)?,
        status: Status::named(status)
            .ok_or_else(|| format!("the status {status:?} is unknown to this version"))?,
        run: count(row, 4)?,
        queue: get(row, 5)?,
        request_id: get(row, 6)?,
        input: payload(row, 7)?.ok_or_else(|| "the input is missing".to_string())?,
        outcome: payload(row, 9)?,
        error: get(row, 11)?,
        created_at: timestamp(row, 12)?,
        closed_at: maybe_timestamp(row, 13)?,
        priority: get(row, 14)?,
        parent: parent(row)?,
        schedule: get(row, 18)?,
        settings: json(get(row, 19)?, "settings")?,
        compensation: get::<Option<&str>>(row, 20)?.and_then(Compensation::named),
        tags: json(get::<Option<&str>>(row, 21)?.unwrap_or("{}"), "tags")?,
    })
}

/// The call that started an instance.
fn parent(row: &Row) -> Decoded<Option<CallKey>> {
    let Some(uuid) = get::<Option<Uuid>>(row, 15)? else { return Ok(None) };
    let run = RunKey { uid: Uid(uuid.as_u128()), run: count(row, 16)? };
    Ok(Some(run.call(seq(row, 17)?)))
}

/// The columns of [`event`], in its order.
pub(crate) const EVENT: &str = "seq, at, kind, head, encoding, body";

/// An event from the columns of [`EVENT`].
pub(crate) fn event(row: &Row) -> Decoded<Event> {
    let kind = EventKind::from_stored(get(row, 2)?, get(row, 3)?, payload(row, 4)?)?;
    Ok(Event { seq: seq(row, 0)?, at: timestamp(row, 1)?, kind })
}

/// The columns of [`message`], in its order.
pub(crate) const MESSAGE: &str = "uid, id, due_at, run, kind, head, encoding, body";

/// A message from the columns of [`MESSAGE`].
pub(crate) fn message(row: &Row) -> Decoded<MessageRow> {
    let run = get::<Option<i64>>(row, 3)?.map(as_count).transpose()?;
    let body = Message::from_stored(run, get(row, 4)?, get(row, 5)?, payload(row, 6)?)?;
    Ok(MessageRow { uid: uid(row, 0)?, id: get(row, 1)?, due_at: timestamp(row, 2)?, body })
}

/// The columns of [`task`], in its order.
pub(crate) const TASK: &str = "uid, run, seq, name, queue, gate, priority, policy, attempt,
     wake_at, claimed_by, token, started_at, progress, encoding, heartbeat, heartbeat_at,
     deadline_at";

/// A task from the columns of [`TASK`].
pub(crate) fn task(row: &Row) -> Decoded<TaskRow> {
    Ok(TaskRow {
        call: call(row)?,
        name: get(row, 3)?,
        queue: get(row, 4)?,
        gate: get(row, 5)?,
        priority: get(row, 6)?,
        policy: get(row, 7)?,
        attempt: count(row, 8)?,
        wake_at: timestamp(row, 9)?,
        deadline_at: maybe_timestamp(row, 17)?,
        claim: claim(row)?,
        progress: json(get(row, 13)?, "progress")?,
        heartbeat: heartbeat(row)?,
    })
}

fn heartbeat(row: &Row) -> Decoded<Option<Heartbeat>> {
    let Some(details) = payload(row, 14)? else { return Ok(None) };
    Ok(Some(Heartbeat { details, at: timestamp(row, 16)? }))
}

fn claim(row: &Row) -> Decoded<Option<Claim>> {
    let Some(node) = get::<Option<String>>(row, 10)? else { return Ok(None) };
    let token = get::<i64>(row, 11)?.cast_unsigned();
    Ok(Some(Claim { node, token, started_at: timestamp(row, 12)? }))
}

/// The columns of [`attempt`], in its order.
pub(crate) const ATTEMPT: &str =
    "uid, run, seq, name, attempt, outcome, started_at, ended_at, failure, delay_ms, why";

/// A row of the ledger from the columns of [`ATTEMPT`].
pub(crate) fn attempt(row: &Row) -> Decoded<AttemptRow> {
    let outcome = get::<&str>(row, 5)?;
    let failure = get::<Option<&str>>(row, 8)?.map(|failure| json(failure, "failure"));
    Ok(AttemptRow {
        call: call(row)?,
        name: get(row, 3)?,
        attempt: count(row, 4)?,
        outcome: AttemptOutcome::named(outcome)
            .ok_or_else(|| format!("the outcome {outcome:?} is unknown to this version"))?,
        started_at: timestamp(row, 6)?,
        ended_at: timestamp(row, 7)?,
        failure: failure.transpose()?,
        delay_ms: get::<Option<i64>>(row, 9)?.map(i64::unsigned_abs),
        why: get(row, 10)?,
    })
}

/// The columns of [`schedule`], in its order.
pub(crate) const SCHEDULE: &str = "id, workflow, encoding, input, rule, options, state, paused,
     next_at, waits, last, error, created_at, revision,
     EXISTS (SELECT 1 FROM @instance i
             WHERE i.id = schedule.last AND i.current AND i.closed_at IS NULL)";

/// A schedule from the columns of [`SCHEDULE`].
pub(crate) fn schedule(row: &Row) -> Decoded<ScheduleRecord> {
    let row_of = ScheduleRow {
        id: get(row, 0)?,
        workflow: get(row, 1)?,
        input: payload(row, 2)?.ok_or_else(|| "the input is missing".to_string())?,
        rule: get(row, 4)?,
        options: get(row, 5)?,
        state: get(row, 6)?,
        paused: get(row, 7)?,
        next_at: maybe_timestamp(row, 8)?,
        waits: get(row, 9)?,
        last: get(row, 10)?,
        error: get(row, 11)?,
        created_at: timestamp(row, 12)?,
    };
    let revision = get::<i64>(row, 13)?.cast_unsigned();
    Ok(ScheduleRecord { row: row_of, revision, last_open: get(row, 14)? })
}

/// The columns of [`inbox`], in its order.
pub(crate) const INBOX: &str = "arrival, id, instance, kind, name, encoding, body";

/// A row of the inbox from the columns of [`INBOX`]. Whoever inserts one writes plain JSON.
pub(crate) fn inbox(row: &Row) -> Decoded<InboxRow> {
    let encoding = get::<&str>(row, 5)?;
    if encoding != Payload::ENCODING {
        return Err(Unreadable(format!("the encoding {encoding:?} is not known here")));
    }
    Ok(InboxRow {
        arrival: get(row, 0)?,
        id: get(row, 1)?,
        instance: get(row, 2)?,
        kind: get(row, 3)?,
        name: get(row, 4)?,
        body: get::<Option<&str>>(row, 6)?.map(Payload::from_text),
    })
}

/// A call from the first three columns.
pub(crate) fn call(row: &Row) -> Decoded<CallKey> {
    Ok(RunKey { uid: uid(row, 0)?, run: count(row, 1)? }.call(seq(row, 2)?))
}

pub(crate) fn uid(row: &Row, column: usize) -> Decoded<Uid> {
    Ok(Uid(get::<Uuid>(row, column)?.as_u128()))
}

pub(crate) fn timestamp(row: &Row, column: usize) -> Decoded<Timestamp> {
    Ok(Timestamp::from_millis(get(row, column)?))
}

fn maybe_timestamp(row: &Row, column: usize) -> Decoded<Option<Timestamp>> {
    Ok(get::<Option<i64>>(row, column)?.map(Timestamp::from_millis))
}

/// A payload from the column of its encoding and the one after it.
pub(crate) fn payload(row: &Row, column: usize) -> Decoded<Option<Payload>> {
    let Some(value) = get::<Option<&str>>(row, column + 1)? else { return Ok(None) };
    match get::<Option<&str>>(row, column)? {
        Some(Payload::ENCODING) => Ok(Some(Payload::from_text(value))),
        Some(PERCENT) => Ok(Some(from_percent(value))),
        Some(other) => {
            Err(Unreadable(format!("the encoding {other:?} is unknown to this version")))
        }
        None => Err(Unreadable("the encoding is missing".to_string())),
    }
}

/// Any column as a value of ours.
pub(crate) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Decoded<T> {
    row.try_get(column).map_err(|error| {
        let name = row.columns().get(column).map_or("?", |column| column.name());
        let why = std::error::Error::source(&error).map_or_else(String::new, |why| why.to_string());
        Unreadable(format!("column {name}: {error}: {why}"))
    })
}

fn json<T: DeserializeOwned>(text: &str, what: &str) -> Decoded<T> {
    Ok(serde_json::from_str(text).map_err(|error| format!("the {what}: {error}"))?)
}

fn count(row: &Row, column: usize) -> Decoded<u32> {
    as_count(get(row, column)?)
}

fn as_count(number: i64) -> Decoded<u32> {
    Ok(u32::try_from(number).map_err(|_| format!("the count {number} is out of range"))?)
}

fn seq(row: &Row, column: usize) -> Decoded<Seq> {
    let number: i64 = get(row, column)?;
    Ok(Seq(u64::try_from(number).map_err(|_| format!("the place {number} is below 1"))?))
}
