//! Rows of a SQL database as the engine knows them.
//!
//! The SQL stores have the same tables, so they share how rows are read: a store says how it
//! fetches a column ([`Columns`]), and the functions here make rows of ours out of columns in the
//! order of a list that stands beside each. Queries may have further columns behind those.
//!
//! What cannot be read is described: never guessed, never a panic.

use std::fmt;

use resurgam_core::action::{Action, ActionAnswer};
use resurgam_core::event::Compensation;
use resurgam_core::{CallKey, Event, EventKind, Payload, RunKey, Seq, Timestamp, Uid};
use serde::de::DeserializeOwned;

use crate::rows::{
    ActionRequest, ActionRow, AttemptOutcome, AttemptRow, Claim, DueDeadline, DueMessage, DueTask,
    Heartbeat, InstanceRow, Message, MessageRow, PolicyOverride, PolicyRow, Progress, Status,
    TaskRow,
};
use crate::unresolved::{
    CallCursor, DeadLetter, LetterHead, LetterState, PausedCall, Settled, ledger_from_stored,
};
use crate::{
    AuditRow, BulkRecord, BulkRow, ByHand, Candidate, Error, FailedCall, GateCount, GateRow,
    GraphTemplateRow, HandState, Hold, HoldKind, InboxRow, LoginRow, PressureCounts, PressureRow,
    RemoteActivity, ScheduleRecord, ScheduleRow, StoredSettings, TokenRow, WorkerSession,
};

/// Why a row cannot be read.
#[derive(Debug)]
pub struct Unreadable(pub String);

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

/// What was read, or why it cannot be.
pub type Decoded<T> = Result<T, Unreadable>;

/// A row that a query has answered with. Columns are counted from 0.
///
/// A store says how it fetches each type; the rest follows from that.
pub trait Columns {
    /// What identifies an instance.
    fn maybe_uid(&self, column: usize) -> Decoded<Option<Uid>>;

    /// Text.
    fn maybe_text(&self, column: usize) -> Decoded<Option<&str>>;

    /// A number of eight bytes.
    fn maybe_number(&self, column: usize) -> Decoded<Option<i64>>;

    /// A number of four bytes.
    fn int(&self, column: usize) -> Decoded<i32>;

    /// Whether something is so.
    fn flag(&self, column: usize) -> Decoded<bool>;

    /// The payload of a text in this encoding, `None` when the encoding is unknown.
    fn payload_of(encoding: &str, text: &str) -> Option<Payload> {
        (encoding == Payload::ENCODING).then(|| Payload::from_text(text))
    }

    /// The name of a column, for people.
    fn name_of(&self, column: usize) -> String;

    /// What identifies an instance, which must be there.
    fn uid(&self, column: usize) -> Decoded<Uid> {
        self.present(column, self.maybe_uid(column)?)
    }

    /// Text that must be there.
    fn text(&self, column: usize) -> Decoded<&str> {
        self.present(column, self.maybe_text(column)?)
    }

    /// A number that must be there.
    fn number(&self, column: usize) -> Decoded<i64> {
        self.present(column, self.maybe_number(column)?)
    }

    /// Text of our own, which may be missing.
    fn maybe_string(&self, column: usize) -> Decoded<Option<String>> {
        Ok(self.maybe_text(column)?.map(str::to_string))
    }

    /// Text of our own.
    fn string(&self, column: usize) -> Decoded<String> {
        Ok(self.text(column)?.to_string())
    }

    /// A time.
    fn timestamp(&self, column: usize) -> Decoded<Timestamp> {
        Ok(Timestamp::from_millis(self.number(column)?))
    }

    /// A time that may be missing.
    fn maybe_timestamp(&self, column: usize) -> Decoded<Option<Timestamp>> {
        Ok(self.maybe_number(column)?.map(Timestamp::from_millis))
    }

    /// Something that is counted, and may be missing.
    fn maybe_count(&self, column: usize) -> Decoded<Option<u32>> {
        let count = |number| {
            u32::try_from(number).map_err(|_| format!("the count {number} is out of range"))
        };
        Ok(self.maybe_number(column)?.map(count).transpose()?)
    }

    /// Something that is counted.
    fn count(&self, column: usize) -> Decoded<u32> {
        self.present(column, self.maybe_count(column)?)
    }

    /// A place in a run.
    fn seq(&self, column: usize) -> Decoded<Seq> {
        let number = self.number(column)?;
        Ok(Seq(u64::try_from(number).map_err(|_| format!("the place {number} is below 1"))?))
    }

    /// A payload from the column of its encoding and the one after it.
    fn payload(&self, column: usize) -> Decoded<Option<Payload>> {
        let Some(text) = self.maybe_text(column + 1)? else { return Ok(None) };
        let encoding = self.maybe_text(column)?;
        let encoding = encoding.ok_or_else(|| "the encoding is missing".to_string())?;
        let payload = Self::payload_of(encoding, text);
        let unknown = || format!("the encoding {encoding:?} is unknown to this version");
        Ok(Some(payload.ok_or_else(unknown)?))
    }

    /// A value that must be there.
    fn present<T>(&self, column: usize, value: Option<T>) -> Decoded<T> {
        Ok(value.ok_or_else(|| format!("column {}: it is missing", self.name_of(column)))?)
    }
}

/// An instance. Both stores have a list of their own, because tags are in another table: uid, id,
/// workflow, status, run, queue, request_id, input_encoding, input, outcome_encoding, outcome,
/// error, created_at, closed_at, priority, parent, parent_run, parent_seq, schedule, settings,
/// compensation, all tags as JSON, and pause.
pub fn instance(row: &impl Columns) -> Decoded<InstanceRow> {
    let status = row.text(3)?;
    Ok(InstanceRow {
        uid: row.uid(0)?,
        id: row.string(1)?,
        workflow: row.string(2)?,
        status: Status::named(status)
            .ok_or_else(|| format!("the status {status:?} is unknown to this version"))?,
        run: row.count(4)?,
        queue: row.string(5)?,
        request_id: row.maybe_string(6)?,
        input: row.payload(7)?.ok_or_else(|| "the input is missing".to_string())?,
        outcome: row.payload(9)?,
        error: row.maybe_string(11)?,
        created_at: row.timestamp(12)?,
        closed_at: row.maybe_timestamp(13)?,
        priority: row.int(14)?,
        parent: parent(row)?,
        schedule: row.maybe_string(18)?,
        settings: json(row.text(19)?, "settings")?,
        compensation: row.maybe_text(20)?.and_then(Compensation::named),
        tags: json(row.maybe_text(21)?.unwrap_or("{}"), "tags")?,
        pause: json(row.maybe_text(22)?.unwrap_or("{}"), "pause")?,
    })
}

/// The call that started an instance.
fn parent(row: &impl Columns) -> Decoded<Option<CallKey>> {
    let Some(uid) = row.maybe_uid(15)? else { return Ok(None) };
    Ok(Some(RunKey { uid, run: row.count(16)? }.call(row.seq(17)?)))
}

/// The columns of [`event`], in its order.
pub const EVENT: &str = "seq, at, kind, head, encoding, body";

/// An event from the columns of [`EVENT`].
pub fn event(row: &impl Columns) -> Decoded<Event> {
    let kind = EventKind::from_stored(row.text(2)?, row.text(3)?, row.payload(4)?)?;
    Ok(Event { seq: row.seq(0)?, at: row.timestamp(1)?, kind })
}

/// The error for an event that cannot be read: it blocks its run and is named. `what` says which
/// history was to be read.
pub fn bad_event(what: &str, row: &impl Columns, why: Unreadable) -> Error {
    let place = row.number(0).map_or_else(|_| "?".to_string(), |seq| seq.to_string());
    Error::data(format!(
        "{what}: event {place} cannot be read; start a version that knows it, or restore a backup"
    ))
    .because(why)
}

/// The columns of [`message`], in its order.
pub const MESSAGE: &str = "uid, id, due_at, run, kind, head, encoding, body";

/// A message from the columns of [`MESSAGE`].
pub fn message(row: &impl Columns) -> Decoded<MessageRow> {
    let (run, kind, head) = (row.maybe_count(3)?, row.text(4)?, row.text(5)?);
    let body = Message::from_stored(run, kind, head, row.payload(6)?)?;
    Ok(MessageRow { uid: row.uid(0)?, id: row.string(1)?, due_at: row.timestamp(2)?, body })
}

/// The columns of [`task`], in its order.
pub const TASK: &str = "uid, run, seq, name, queue, gate, priority, policy, attempt, wake_at, \
     claimed_by, token, started_at, progress, encoding, heartbeat, heartbeat_at, deadline_at";

/// A task from the columns of [`TASK`].
pub fn task(row: &impl Columns) -> Decoded<TaskRow> {
    Ok(TaskRow {
        call: call(row)?,
        name: row.string(3)?,
        queue: row.string(4)?,
        gate: row.string(5)?,
        priority: row.int(6)?,
        policy: row.string(7)?,
        attempt: row.count(8)?,
        wake_at: row.timestamp(9)?,
        deadline_at: row.maybe_timestamp(17)?,
        claim: claim(row)?,
        progress: progress(row.text(13)?)?,
        heartbeat: heartbeat(row)?,
    })
}

/// One of an older program came without its time: then it is as old as can be.
fn heartbeat(row: &impl Columns) -> Decoded<Option<Heartbeat>> {
    let Some(details) = row.payload(14)? else { return Ok(None) };
    let at = row.maybe_timestamp(16)?.unwrap_or(Timestamp::EPOCH);
    Ok(Some(Heartbeat { details, at }))
}

fn claim(row: &impl Columns) -> Decoded<Option<Claim>> {
    let Some(node) = row.maybe_string(10)? else { return Ok(None) };
    let token = row.number(11)?.cast_unsigned();
    Ok(Some(Claim { node, token, started_at: row.timestamp(12)? }))
}

/// A task that is due, from these columns: uid, run, seq, wake_at, queue, name, priority, gate.
pub fn due_task(row: &impl Columns) -> Decoded<DueTask> {
    Ok(DueTask {
        call: call(row)?,
        wake_at: row.timestamp(3)?,
        queue: row.string(4)?,
        name: row.string(5)?,
        priority: row.int(6)?,
        gate: row.string(7)?,
    })
}

/// A task that may have waited too long, from these columns: uid, run, seq, deadline_at.
pub fn due_deadline(row: &impl Columns) -> Decoded<DueDeadline> {
    Ok(DueDeadline { call: call(row)?, deadline_at: row.timestamp(3)? })
}

/// A message that is due, from these columns: uid, due_at, and whether it is for who holds the
/// shard.
pub fn due_message(row: &impl Columns) -> Decoded<DueMessage> {
    Ok(DueMessage { uid: row.uid(0)?, due_at: row.timestamp(1)?, is_for_holder: row.flag(2)? })
}

/// A policy from these columns: hash, text.
pub fn policy(row: &impl Columns) -> Decoded<PolicyRow> {
    Ok(PolicyRow { hash: row.string(0)?, text: row.string(1)? })
}

/// The columns of [`attempt`], in its order.
pub const ATTEMPT: &str =
    "uid, run, seq, name, attempt, outcome, started_at, ended_at, failure, delay_ms, why";

/// A row of the ledger from the columns of [`ATTEMPT`].
pub fn attempt(row: &impl Columns) -> Decoded<AttemptRow> {
    let outcome = row.text(5)?;
    let failure = row.maybe_text(8)?.map(|failure| json(failure, "failure"));
    Ok(AttemptRow {
        call: call(row)?,
        name: row.string(3)?,
        attempt: row.count(4)?,
        outcome: AttemptOutcome::named(outcome)
            .ok_or_else(|| format!("the outcome {outcome:?} is unknown to this version"))?,
        started_at: row.timestamp(6)?,
        ended_at: row.timestamp(7)?,
        failure: failure.transpose()?,
        delay_ms: row.maybe_number(9)?.map(i64::unsigned_abs),
        why: row.string(10)?,
    })
}

/// The columns of [`action`], in its order.
pub const ACTION: &str = "uid, id, run, seq, at, by, reason, what, encoding, body, changed, answer";

/// An action from the columns of [`ACTION`].
pub fn action(row: &impl Columns) -> Decoded<ActionRow> {
    Ok(ActionRow {
        call: RunKey { uid: row.uid(0)?, run: row.count(2)? }.call(row.seq(3)?),
        at: row.timestamp(4)?,
        request: ActionRequest {
            id: row.string(1)?,
            by: row.string(5)?,
            reason: row.maybe_string(6)?,
            action: Action::from_stored(row.text(7)?, row.payload(8)?)?,
        },
        answer: ActionAnswer { changed: row.flag(10)?, text: row.string(11)? },
    })
}

/// The columns of [`dead_letter`], in its order.
pub const DEAD_LETTER: &str =
    "uid, run, seq, instance, workflow, activity, queue, policy, encoding,
    input, failure, why, attempts, ledger, at, fingerprint, error, state, settled_at, settled_by,
    reason, redriven_as, gate";

/// A dead letter from the columns of [`DEAD_LETTER`].
pub fn dead_letter(row: &impl Columns) -> Decoded<DeadLetter> {
    let (call, activity) = (call(row)?, row.string(5)?);
    let state = row.text(17)?;
    let settled_at = row.maybe_timestamp(18)?;
    let settled = |at| {
        let (by, reason) = (row.string(19)?, row.maybe_string(20)?);
        Decoded::Ok(Settled { at, by, reason, redriven_as: row.maybe_string(21)? })
    };
    Ok(DeadLetter {
        call,
        instance: row.string(3)?,
        workflow: row.string(4)?,
        queue: row.string(6)?,
        // Letters that were written before they said so: of a call behind its activity's own.
        gate: row.maybe_string(22)?.unwrap_or_else(|| activity.clone()),
        policy: row.string(7)?,
        input: row.payload(8)?.ok_or_else(|| "the input is missing".to_string())?,
        failure: json(row.text(10)?, "failure")?,
        why: row.string(11)?,
        attempts: row.count(12)?,
        ledger: ledger_from_stored(row.text(13)?, call, &activity)?,
        at: row.timestamp(14)?,
        fingerprint: row.string(15)?,
        error: row.string(16)?,
        state: LetterState::named(state)
            .ok_or_else(|| format!("the state {state:?} is unknown"))?,
        settled: settled_at.map(settled).transpose()?,
        activity,
    })
}

/// What a filter is asked about a dead letter.
pub const LETTER_HEAD: &str =
    "uid, run, seq, at, instance, workflow, activity, queue, failure, fingerprint, error";

/// What a filter is asked about a dead letter, from the columns of [`LETTER_HEAD`].
pub fn letter_head(row: &impl Columns) -> Decoded<LetterHead> {
    Ok(LetterHead {
        place: CallCursor { call: call(row)?, at: row.timestamp(3)? },
        instance: row.string(4)?,
        workflow: row.string(5)?,
        activity: row.string(6)?,
        queue: row.string(7)?,
        failure: json(row.text(8)?, "failure")?,
        fingerprint: row.string(9)?,
        error: row.string(10)?,
    })
}

/// A paused call from the columns of [`TASK`], and the id and the workflow of its instance behind
/// them.
pub fn paused_call(row: &impl Columns) -> Decoded<PausedCall> {
    let columns = TASK.split(',').count();
    Ok(PausedCall {
        task: task(row)?,
        instance: row.string(columns)?,
        workflow: row.string(columns + 1)?,
    })
}

/// A call that a filter is asked about, from the columns of [`TASK`] and behind them: the id of its
/// instance, its workflow, when that was started, the value of a tag, and the last failure with its
/// time. A failure that cannot be read is none.
pub fn candidate(row: &impl Columns) -> Decoded<Candidate> {
    let columns = TASK.split(',').count();
    let failure = row.maybe_text(columns + 4)?;
    Ok(Candidate {
        task: task(row)?,
        instance: row.string(columns)?,
        workflow: row.string(columns + 1)?,
        created_at: row.timestamp(columns + 2)?,
        tag: row.maybe_string(columns + 3)?,
        failure: failure.and_then(|text| serde_json::from_str(text).ok()),
        failed_at: row.maybe_timestamp(columns + 5)?,
    })
}

/// A failed attempt, from its activity, its failure and its end; none when the failure cannot be
/// read.
pub fn failed_call(row: &impl Columns) -> Decoded<Option<FailedCall>> {
    let failure = row.maybe_text(1)?.and_then(|text| serde_json::from_str(text).ok());
    let Some(failure) = failure else { return Ok(None) };
    Ok(Some(FailedCall { activity: row.string(0)?, failure, at: row.timestamp(2)? }))
}

/// What decisions about a task need, from its column.
pub fn progress(text: &str) -> Decoded<Progress> {
    json(text, "progress")
}

/// The columns of what was set for an activity.
pub const POLICY_OVERRIDE: &str = "activity, policy, by, reason, at, revision";

/// The columns of an API token.
pub const TOKEN: &str = "id, name, role, hash, settings, by, created_at, revoked_at";

/// An API token, from the columns of [`TOKEN`].
pub fn token(row: &impl Columns) -> Decoded<TokenRow> {
    Ok(TokenRow {
        id: row.string(0)?,
        name: row.string(1)?,
        role: row.string(2)?,
        hash: row.string(3)?,
        settings: row.string(4)?,
        by: row.string(5)?,
        created_at: row.timestamp(6)?,
        revoked_at: row.maybe_timestamp(7)?,
    })
}

/// The columns of a login.
pub const LOGIN: &str = "hash, token, bound, created_at, ends_at";

/// A login, from the columns of [`LOGIN`].
pub fn login(row: &impl Columns) -> Decoded<LoginRow> {
    Ok(LoginRow {
        hash: row.string(0)?,
        token: row.string(1)?,
        bound: row.string(2)?,
        created_at: row.timestamp(3)?,
        ends_at: row.timestamp(4)?,
    })
}

/// What was counted: a time, an activity, a failure type, and then failures, retries, calls that
/// were exhausted, and successes.
pub fn pressure(row: &impl Columns) -> Decoded<PressureRow> {
    let count = |column| -> Decoded<u64> { Ok(row.number(column)?.try_into().unwrap_or(0)) };
    Ok(PressureRow {
        at: row.timestamp(0)?,
        activity: row.string(1)?,
        failure_type: row.string(2)?,
        counts: PressureCounts {
            failures: count(3)?,
            retries: count(4)?,
            exhausted: count(5)?,
            successes: count(6)?,
        },
    })
}

/// The columns of what somebody did.
pub const AUDIT: &str = "id, at, by, token, reason, kind, subject, told";

/// What somebody did, from the columns of [`AUDIT`].
pub fn audit(row: &impl Columns) -> Decoded<AuditRow> {
    Ok(AuditRow {
        id: row.string(0)?,
        at: row.timestamp(1)?,
        by: row.string(2)?,
        token: row.maybe_string(3)?,
        reason: row.maybe_string(4)?,
        kind: row.string(5)?,
        subject: row.string(6)?,
        told: row.string(7)?,
    })
}

/// The columns of a graph that is kept by its name.
pub const GRAPH_TEMPLATE: &str = "name, template, secrets, by, created_at, changed_at";

/// A graph, from the columns of [`GRAPH_TEMPLATE`].
pub fn graph_template(row: &impl Columns) -> Decoded<GraphTemplateRow> {
    Ok(GraphTemplateRow {
        name: row.string(0)?,
        template: row.string(1)?,
        secrets: row.string(2)?,
        by: row.string(3)?,
        created_at: row.timestamp(4)?,
        changed_at: row.timestamp(5)?,
    })
}

/// The columns of a session of a remote worker.
pub const WORKER_SESSION: &str = "session, server, heard_at, about";

/// A session of a remote worker, from the columns of [`WORKER_SESSION`].
pub fn worker_session(row: &impl Columns) -> Decoded<WorkerSession> {
    Ok(WorkerSession {
        session: row.string(0)?,
        server: row.string(1)?,
        heard_at: row.timestamp(2)?,
        about: row.string(3)?,
    })
}

/// The columns of an activity of remote workers.
pub const REMOTE_ACTIVITY: &str = "name, offered_at, offer";

/// An activity of remote workers, from the columns of [`REMOTE_ACTIVITY`].
pub fn remote_activity(row: &impl Columns) -> Decoded<RemoteActivity> {
    Ok(RemoteActivity {
        name: row.string(0)?,
        offered_at: row.timestamp(1)?,
        offer: row.string(2)?,
    })
}

/// What was set for an activity, from the columns of [`POLICY_OVERRIDE`].
pub fn policy_override(row: &impl Columns) -> Decoded<PolicyOverride> {
    Ok(PolicyOverride {
        activity: row.string(0)?,
        policy: row.maybe_string(1)?,
        by: row.string(2)?,
        reason: row.maybe_string(3)?,
        at: row.timestamp(4)?,
        revision: row.number(5)?.cast_unsigned(),
    })
}

/// The columns of a gate.
pub const GATE: &str = "key, settings, settings_by, settings_reason, settings_at, hand, hand_by, \
     hand_reason, hand_at, hand_until, decided, revision";

/// What is stored of a gate, from the columns of [`GATE`].
pub fn gate(row: &impl Columns) -> Decoded<GateRow> {
    let settings = |at| {
        let (text, by) = (row.maybe_string(1)?, row.string(2)?);
        Decoded::Ok(StoredSettings { text, by, reason: row.maybe_string(3)?, at })
    };
    let hand = |at| {
        let state = row.text(5)?;
        let state = HandState::named(state)
            .ok_or_else(|| format!("the state {state:?} of a gate is unknown"))?;
        let (by, reason) = (row.string(6)?, row.maybe_string(7)?);
        Decoded::Ok(ByHand { state, by, reason, at, until: row.maybe_timestamp(9)? })
    };
    Ok(GateRow {
        key: row.string(0)?,
        settings: row.maybe_timestamp(4)?.map(settings).transpose()?,
        hand: row.maybe_timestamp(8)?.map(hand).transpose()?,
        decided: row.maybe_string(10)?,
        revision: row.number(11)?.cast_unsigned(),
    })
}

/// What a node counted at a gate, from these columns: gate, at, node, counts.
pub fn gate_count(row: &impl Columns) -> Decoded<GateCount> {
    let (gate, at) = (row.string(0)?, row.timestamp(1)?);
    Ok(GateCount { gate, at, node: row.string(2)?, counts: row.string(3)? })
}

/// A paused kind, from these columns: kind, name, by, reason, since.
pub fn hold(row: &impl Columns) -> Decoded<Hold> {
    let kind = row.text(0)?;
    let kind = HoldKind::named(kind).ok_or_else(|| format!("the kind {kind:?} is unknown"))?;
    let (name, by) = (row.string(1)?, row.string(2)?);
    Ok(Hold { kind, name, by, reason: row.maybe_string(3)?, since: row.timestamp(4)? })
}

/// The columns of a bulk job.
pub const BULK: &str = "id, filter, action, options, cursor, counts, page, by, reason, stopped_by, \
     error, created_at, closed_at, revision";

/// A bulk job, from the columns of [`BULK`].
pub fn bulk(row: &impl Columns) -> Decoded<BulkRecord> {
    let revision = row.number(13)?.cast_unsigned();
    let row = BulkRow {
        id: row.string(0)?,
        filter: row.string(1)?,
        action: row.string(2)?,
        options: row.string(3)?,
        cursor: row.maybe_string(4)?,
        counts: row.string(5)?,
        page: row.string(6)?,
        by: row.string(7)?,
        reason: row.maybe_string(8)?,
        stopped_by: row.maybe_string(9)?,
        error: row.maybe_string(10)?,
        created_at: row.timestamp(11)?,
        closed_at: row.maybe_timestamp(12)?,
    };
    Ok(BulkRecord { row, revision })
}

/// A schedule. Both stores have a list of their own, because the instance that it started last is
/// in another table: id, workflow, encoding, input, rule, options, state, paused, next_at, waits,
/// last, error, created_at, revision, and whether that instance is open.
pub fn schedule(row: &impl Columns) -> Decoded<ScheduleRecord> {
    Ok(ScheduleRecord {
        row: ScheduleRow {
            id: row.string(0)?,
            workflow: row.string(1)?,
            input: row.payload(2)?.ok_or_else(|| "the input is missing".to_string())?,
            rule: row.string(4)?,
            options: row.string(5)?,
            state: row.string(6)?,
            paused: row.flag(7)?,
            next_at: row.maybe_timestamp(8)?,
            waits: row.flag(9)?,
            last: row.maybe_string(10)?,
            error: row.maybe_string(11)?,
            created_at: row.timestamp(12)?,
        },
        revision: row.number(13)?.cast_unsigned(),
        last_open: row.flag(14)?,
    })
}

/// The columns of [`inbox`], in its order.
pub const INBOX: &str = "arrival, id, instance, kind, name, encoding, body";

/// A row of the inbox from the columns of [`INBOX`]. Whoever inserts one writes plain JSON.
pub fn inbox(row: &impl Columns) -> Decoded<InboxRow> {
    let encoding = row.text(5)?;
    if encoding != Payload::ENCODING {
        return Err(Unreadable(format!("the encoding {encoding:?} is not known here")));
    }
    Ok(InboxRow {
        arrival: row.number(0)?,
        id: row.maybe_string(1)?,
        instance: row.string(2)?,
        kind: row.string(3)?,
        name: row.maybe_string(4)?,
        body: row.maybe_text(6)?.map(Payload::from_text),
    })
}

/// A call from the first three columns: uid, run, seq.
pub fn call(row: &impl Columns) -> Decoded<CallKey> {
    Ok(RunKey { uid: row.uid(0)?, run: row.count(1)? }.call(row.seq(2)?))
}

fn json<T: DeserializeOwned>(text: &str, what: &str) -> Decoded<T> {
    Ok(serde_json::from_str(text).map_err(|error| format!("the {what}: {error}"))?)
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;
    use serde_json::{Value, json};

    use super::*;

    /// A row as JSON. A uid is a number.
    struct Row(Vec<Value>);

    impl Columns for Row {
        fn maybe_uid(&self, column: usize) -> Decoded<Option<Uid>> {
            Ok(self.0[column].as_u64().map(|uid| Uid(u128::from(uid))))
        }

        fn maybe_text(&self, column: usize) -> Decoded<Option<&str>> {
            Ok(self.0[column].as_str())
        }

        fn maybe_number(&self, column: usize) -> Decoded<Option<i64>> {
            Ok(self.0[column].as_i64())
        }

        fn int(&self, column: usize) -> Decoded<i32> {
            Ok(i32::try_from(self.number(column)?).unwrap())
        }

        fn flag(&self, column: usize) -> Decoded<bool> {
            Ok(self.0[column].as_bool().unwrap())
        }

        fn name_of(&self, column: usize) -> String {
            format!("nr. {column}")
        }
    }

    /// A task that is claimed and has told something, after this column was set to this value.
    fn task_with(column: usize, value: Value) -> Decoded<TaskRow> {
        let row = json!([
            7, 1, 2, "charge", "default", "stripe", -3, "p", 4, 5, "node-a", -1, 6, "{}", "json",
            "[1]", 8, 9
        ]);
        let Value::Array(mut row) = row else { panic!("{row} is a list") };
        row[column] = value;
        task(&Row(row))
    }

    #[test]
    fn a_task_is_read_from_the_columns_of_its_list() {
        let task = task_with(0, json!(7)).unwrap();
        assert_eq!(TASK.split(',').count(), 18);
        assert_eq!(task.call, RunKey::first(Uid(7)).call(Seq(2)));
        assert_eq!((task.gate.as_str(), task.priority, task.attempt), ("stripe", -3, 4));
        assert_eq!(task.claim.unwrap().token, u64::MAX);
        assert_eq!(task.heartbeat.unwrap().at, Timestamp::from_millis(8));
        assert_eq!(task.deadline_at, Some(Timestamp::from_millis(9)));
    }

    #[test]
    fn a_heartbeat_without_its_time_is_as_old_as_can_be() {
        let task = task_with(16, Value::Null).unwrap();
        assert_eq!(task.heartbeat.unwrap().at, Timestamp::EPOCH);
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let why = |column, value| task_with(column, value).unwrap_err().to_string();
        assert_eq!(why(3, Value::Null), "column nr. 3: it is missing");
        assert_eq!(why(1, json!(-1)), "the count -1 is out of range");
        assert_eq!(why(2, json!(-1)), "the place -1 is below 1");
        assert_eq!(why(14, Value::Null), "the encoding is missing");
        assert_eq!(why(14, json!("zstd")), "the encoding \"zstd\" is unknown to this version");
        assert!(why(13, json!("x")).starts_with("the progress: "), "{}", why(13, json!("x")));
    }
}
