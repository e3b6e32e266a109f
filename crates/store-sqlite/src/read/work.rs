//! What the owner reads to do its work.

use std::sync::Arc;

use resurgam_core::{CallKey, Event, Payload, RunKey, Timestamp, Uid};
use resurgam_store::decode::{self, ATTEMPT, Columns, EVENT, INBOX, POLICY_OVERRIDE, TASK};
use resurgam_store::quarantine::Table;
use resurgam_store::rows::{
    AttemptRow, DueDeadline, DueMessage, DueTask, InstanceRow, Message, PolicyOverride, PolicyRow,
    Progress, RunRecord, TaskRecord, TaskRow,
};
use resurgam_store::{Error, EventPage, Gaps, GateScope, InboxRow, Result, Runnable};
use rusqlite::{ToSql, params};

use super::Reading;
use crate::decode::{Fetched, INSTANCE};
use crate::encode::whole;
use crate::errors::Attempted;
use crate::quarantine::Quarantined;

/// How many rows of a call's ledger an attempt is given, from each end.
const LEDGER_ENDS: i64 = 10;

/// What tasks must be to be run here, as the values of a query.
pub(super) struct Filter<'r> {
    pub(super) names: Option<String>,
    pub(super) queues: Option<String>,
    pub(super) provides: Option<String>,
    pub(super) lacking: &'r str,
    /// Activities and queues that are paused.
    pub(super) paused: [String; 2],
}

impl Filter<'_> {
    fn of(runnable: &Runnable) -> Self {
        let list = |names: &Arc<[String]>| serde_json::json!(&**names).to_string();
        let marks = |provides: &Arc<[String]>| -> String {
            let marks: Vec<String> = provides.iter().map(|what| Progress::lacking(what)).collect();
            serde_json::json!(marks).to_string()
        };
        Filter {
            names: runnable.activities.as_ref().map(list),
            queues: runnable.queues.as_ref().map(list),
            provides: runnable.provides.as_ref().map(marks),
            lacking: Progress::LACKING,
            paused: [&runnable.paused.activities, &runnable.paused.queues].map(list),
        }
    }
}

/// Tasks that wait and are due, in the order of their index: nothing is sorted. Where a gate is
/// left out they are looked for gate by gate.
pub(crate) fn due_tasks(
    reading: &mut Reading<'_>,
    runnable: &Runnable,
    before: Timestamp,
    limit: usize,
) -> Result<Vec<DueTask>> {
    let filter = Filter::of(runnable);
    match &runnable.gates {
        GateScope::All if runnable.paused.is_empty() => due_of_all(reading, &filter, before, limit),
        // What is paused is few queues and activities among all: they are stepped over.
        GateScope::All => due_unless_paused(reading, &filter, before, limit),
        gates => super::gates::due_tasks_of(reading, &filter, gates, before, limit),
    }
}

fn due_of_all(
    reading: &mut Reading<'_>,
    filter: &Filter<'_>,
    before: Timestamp,
    limit: usize,
) -> Result<Vec<DueTask>> {
    let sql = "SELECT uid, run, seq, wake_at, queue, name, priority, gate, rowid FROM task
               WHERE claimed_by IS NULL AND bad IS NULL AND wake_at < ?1
                 AND (?2 IS NULL OR name IN (SELECT value FROM json_each(?2)))
                 AND (?3 IS NULL OR queue IN (SELECT value FROM json_each(?3)))
                 AND (?4 IS NULL OR instr(progress, ?5) = 0
                      OR EXISTS (SELECT 1 FROM json_each(?4) WHERE instr(progress, value) > 0))
               ORDER BY wake_at, gate, rowid";
    let Filter { names, queues, provides, lacking, .. } = filter;
    let values = params![before.as_millis(), names, queues, provides, lacking];
    reading.many(Table::Task, sql, values, limit, |row| decode::due_task(&row))
}

fn due_unless_paused(
    reading: &mut Reading<'_>,
    filter: &Filter<'_>,
    before: Timestamp,
    limit: usize,
) -> Result<Vec<DueTask>> {
    let sql = "SELECT uid, run, seq, wake_at, queue, name, priority, gate, rowid FROM task
               WHERE claimed_by IS NULL AND bad IS NULL AND wake_at < ?1
                 AND (?2 IS NULL OR name IN (SELECT value FROM json_each(?2)))
                 AND (?3 IS NULL OR queue IN (SELECT value FROM json_each(?3)))
                 AND (?4 IS NULL OR instr(progress, ?5) = 0
                      OR EXISTS (SELECT 1 FROM json_each(?4) WHERE instr(progress, value) > 0))
                 AND name NOT IN (SELECT value FROM json_each(?6))
                 AND queue NOT IN (SELECT value FROM json_each(?7))
               ORDER BY wake_at, gate, rowid";
    let Filter { names, queues, provides, lacking, paused: [activities, paused_queues] } = filter;
    let before = before.as_millis();
    let values = params![before, names, queues, provides, lacking, activities, paused_queues];
    reading.many(Table::Task, sql, values, limit, |row| decode::due_task(&row))
}

/// Tasks that wait and may have waited too long, along their index.
pub(crate) fn due_deadlines(
    reading: &mut Reading<'_>,
    after: Option<DueDeadline>,
    before: Timestamp,
    limit: usize,
) -> Result<Vec<DueDeadline>> {
    let sql = "SELECT uid, run, seq, deadline_at, rowid FROM task
               WHERE claimed_by IS NULL AND bad IS NULL AND deadline_at < ?1 AND deadline_at >= ?2
                 AND (deadline_at > ?2 OR (uid, run, seq) > (?3, ?4, ?5))
               ORDER BY deadline_at, uid, run, seq";
    let call = after.map(|after| after.call);
    let uid = call.map_or_else(Vec::new, |call| call.run.uid.to_bytes().to_vec());
    let (run, seq) = call.map_or((0, 0), |call| (i64::from(call.run.run), whole(call.seq.0)));
    let from = after.map_or(i64::MIN, |after| after.deadline_at.as_millis());
    let values = params![before.as_millis(), from, uid, run, seq];
    reading.many(Table::Task, sql, values, limit, |row| decode::due_deadline(&row))
}

/// Messages that are due.
pub(crate) fn due_messages(
    reading: &mut Reading<'_>,
    before: Timestamp,
    limit: usize,
) -> Result<Vec<DueMessage>> {
    let sql = "SELECT uid, due_at, kind IN (?2, ?3), arrival AS rowid FROM message
               WHERE bad IS NULL AND parked = 0 AND due_at < ?1
               ORDER BY due_at, arrival";
    let [report, action] = Message::FOR_HOLDER;
    let values = params![before.as_millis(), report, action];
    reading.many(Table::Message, sql, values, limit, |row| decode::due_message(&row))
}

/// Open instances that do not go on.
pub(crate) fn held_up(
    reading: &mut Reading<'_>,
    after: Option<Uid>,
    limit: usize,
) -> Result<Vec<Uid>> {
    let sql = "SELECT uid, rowid FROM instance
               WHERE error IS NOT NULL AND closed_at IS NULL AND uid > ?1 ORDER BY uid";
    let after = after.map_or_else(Vec::new, |uid| uid.to_bytes().to_vec());
    reading.many(Table::Instance, sql, [after], limit, |row| row.uid(0))
}

/// Policies that operators set for all calls of an activity, by its name. They are few.
pub(crate) fn policy_overrides(reading: &mut Reading<'_>) -> Result<Vec<PolicyOverride>> {
    let sql = format!(
        "SELECT {POLICY_OVERRIDE} FROM resurgam_policy_override WHERE activity > ?1
         ORDER BY activity LIMIT 1"
    );
    let what = || "read the policies of activities".to_string();
    let mut found: Vec<PolicyOverride> = Vec::new();
    loop {
        let after = found.last().map_or("", |row| &row.activity);
        let next = reading.one(&sql, [after], |row| decode::policy_override(&row), what)?;
        let Some(next) = next else { return Ok(found) };
        found.push(next);
    }
}

/// Calls of an activity that wait after an attempt, by their keys.
pub(crate) fn waiting_calls(
    reading: &mut Reading<'_>,
    activity: &str,
    after: Option<CallKey>,
    limit: usize,
) -> Result<Vec<CallKey>> {
    let sql = "SELECT uid, run, seq, rowid FROM task
               WHERE (uid, run, seq) > (?1, ?2, ?3) AND name = ?4
                 AND claimed_by IS NULL AND bad IS NULL AND attempt > 0 AND wake_at < ?5
               ORDER BY uid, run, seq";
    let uid = after.map_or_else(Vec::new, |call| call.run.uid.to_bytes().to_vec());
    let (run, seq) = after.map_or((0, 0), |call| (i64::from(call.run.run), whole(call.seq.0)));
    let values = params![uid, run, seq, activity, TaskRow::NEVER.as_millis()];
    reading.many(Table::Task, sql, values, limit, |row| decode::call(&row))
}

/// Rows that others have inserted, in the order of their arrival.
pub(crate) fn inbox(reading: &mut Reading<'_>, limit: usize) -> Result<Vec<InboxRow>> {
    // Along the index of those without an error: there may be thousands that were refused.
    let sql = format!(
        "SELECT {INBOX}, arrival AS rowid FROM inbox INDEXED BY inbox_new
         WHERE error IS NULL AND arrival >= ?1 ORDER BY arrival"
    );
    reading.many(Table::Inbox, &sql, [i64::MIN], limit, |row| decode::inbox(&row))
}

/// Tasks that another node has claimed: it is gone, for one works at a time. Two ranges of the
/// index around the node's own claims.
pub(crate) fn abandoned(
    reading: &mut Reading<'_>,
    node: &str,
    limit: usize,
) -> Result<Vec<TaskRow>> {
    let unreported = "NOT EXISTS (SELECT 1 FROM message m WHERE m.uid = task.uid
        AND m.id = printf('report/%d/%d/%016x', task.run, task.seq, task.token))";
    let sql = format!(
        "SELECT {TASK}, rowid FROM task WHERE claimed_by < ?1 AND {unreported}
         UNION ALL SELECT {TASK}, rowid FROM task WHERE claimed_by > ?1 AND {unreported}"
    );
    reading.many(Table::Task, &sql, [node], limit, |row| decode::task(&row))
}

/// Those of these calls that are not finished.
pub(crate) fn tasks_of(reading: &mut Reading<'_>, calls: &[CallKey]) -> Result<Vec<TaskRow>> {
    let sql = format!("SELECT {TASK}, rowid FROM task WHERE uid = ?1 AND run = ?2 AND seq = ?3");
    let mut found = Vec::new();
    for call in calls {
        let key = params![call.run.uid.to_bytes(), call.run.run, whole(call.seq.0)];
        found.extend(reading.many(Table::Task, &sql, key, 1, |row| decode::task(&row))?);
    }
    Ok(found)
}

/// A task with its input, its instance's id and the ends of its ledger.
pub(crate) fn load_task(reading: &mut Reading<'_>, call: CallKey) -> Result<Option<TaskRecord>> {
    let sql = format!("SELECT {TASK}, rowid FROM task WHERE uid = ?1 AND run = ?2 AND seq = ?3");
    let key = params![call.run.uid.to_bytes(), call.run.run, whole(call.seq.0)];
    let what = || format!("read the task of call {call}");
    let found = reading.whole(what, |reading| {
        let with_rowid = |row: Fetched<'_>| Ok((row.rowid()?, decode::task(&row)?));
        reading.many(Table::Task, &sql, key, 1, with_rowid)
    })?;
    let Some((rowid, task)) = found.into_iter().next() else { return Ok(None) };
    let record = complete(reading, task);
    if let Err(error) = &record
        && error.is_data()
    {
        // No attempt can be made of it, so it must not be found due again and again.
        let why = error.to_string();
        reading.set_aside.push(Quarantined { table: Table::Task, rowid, why });
    }
    record.map(Some)
}

/// Reads the tasks of many calls. One that cannot be read is set aside.
pub(crate) fn load_tasks(reading: &mut Reading<'_>, calls: &[CallKey]) -> Result<Vec<TaskRecord>> {
    let mut found = Vec::new();
    for call in calls {
        match load_task(reading, *call) {
            Ok(task) => found.extend(task),
            Err(error) if error.is_data() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn complete(reading: &mut Reading<'_>, task: TaskRow) -> Result<TaskRecord> {
    Ok(TaskRecord {
        input: input(reading, task.call)?,
        policy: policy(reading, &task.policy)?,
        instance: instance_id(reading, task.call.run.uid)?,
        ledger: ledger_ends(reading, task.call)?,
        task,
    })
}

fn input(reading: &Reading<'_>, call: CallKey) -> Result<Payload> {
    let sql = "SELECT encoding, body FROM event WHERE uid = ?1 AND run = ?2 AND seq = ?3";
    let key = params![call.run.uid.to_bytes(), call.run.run, whole(call.seq.0)];
    let what = || format!("read the input of call {call}");
    let input = reading.one(sql, key, |row| row.payload(0), what)?;
    input.flatten().ok_or_else(|| Error::data(format!("{}: its event is missing", what())))
}

fn instance_id(reading: &Reading<'_>, uid: Uid) -> Result<String> {
    let what = || format!("read the id of instance {uid}");
    let sql = "SELECT id FROM instance WHERE uid = ?1";
    let id = reading.one(sql, [uid.to_bytes()], |row| row.string(0), what)?;
    id.ok_or_else(|| Error::data(format!("{}: there is no such instance", what())))
}

fn ledger_ends(reading: &mut Reading<'_>, call: CallKey) -> Result<Vec<AttemptRow>> {
    let sql = format!(
        "SELECT {ATTEMPT}, rowid FROM (
             SELECT *, rowid FROM (SELECT *, rowid FROM attempt
                 WHERE uid = ?1 AND run = ?2 AND seq = ?3 ORDER BY place LIMIT ?4)
             UNION
             SELECT *, rowid FROM (SELECT *, rowid FROM attempt
                 WHERE uid = ?1 AND run = ?2 AND seq = ?3 ORDER BY place DESC LIMIT ?4))
         ORDER BY place"
    );
    let key = params![call.run.uid.to_bytes(), call.run.run, whole(call.seq.0), LEDGER_ENDS];
    reading.many(Table::Attempt, &sql, key, usize::MAX, |row| decode::attempt(&row))
}

/// The current run of an instance, whole.
pub(crate) fn load_run(reading: &mut Reading<'_>, uid: Uid) -> Result<Option<RunRecord>> {
    let Some(instance) = instance(reading, uid)? else { return Ok(None) };
    let run = RunKey { uid, run: instance.run };
    Ok(Some(RunRecord {
        events: events(reading, run, Gaps::Refused)?,
        messages: super::messages(reading, uid)?,
        tasks: reading.whole(
            || format!("read the tasks of instance {:?}, run {}", instance.id, run.run),
            |reading| super::tasks(reading, run),
        )?,
        instance,
    }))
}

/// The instance of a uid.
pub(crate) fn instance(reading: &mut Reading<'_>, uid: Uid) -> Result<Option<InstanceRow>> {
    let sql = format!("SELECT {INSTANCE} FROM instance WHERE uid = ?1");
    let what = || format!("read instance {uid}");
    reading.one(&sql, [uid.to_bytes()], |row| decode::instance(&row), what)
}

/// The events of a run. One that cannot be read blocks its run and is named.
pub(super) fn events(reading: &Reading<'_>, run: RunKey, gaps: Gaps) -> Result<Vec<Event>> {
    let sql = format!("SELECT {EVENT} FROM event WHERE uid = ?1 AND run = ?2 ORDER BY seq");
    events_found(reading, run, &sql, params![run.uid.to_bytes(), run.run], gaps)
}

/// A part of the events of a run as far as they are there.
pub(crate) fn event_page(
    reading: &mut Reading<'_>,
    run: RunKey,
    page: EventPage,
    limit: usize,
) -> Result<Vec<Event>> {
    let (behind, place) = match page {
        EventPage::After(place) => ("seq > ?3 ORDER BY seq", Some(place)),
        EventPage::Before(place) => ("seq < ?3 ORDER BY seq DESC", place),
    };
    let sql =
        format!("SELECT {EVENT} FROM event WHERE uid = ?1 AND run = ?2 AND {behind} LIMIT ?4");
    let place = place.map_or(i64::MAX, |place| i64::try_from(place.0).unwrap_or(i64::MAX));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let values = params![run.uid.to_bytes(), run.run, place, limit];
    let mut events = events_found(reading, run, &sql, values, Gaps::Shown)?;
    if matches!(page, EventPage::Before(_)) {
        events.reverse();
    }
    Ok(events)
}

/// The events of a run that a statement finds.
fn events_found(
    reading: &Reading<'_>,
    run: RunKey,
    sql: &str,
    values: &[&dyn ToSql],
    gaps: Gaps,
) -> Result<Vec<Event>> {
    let what = || {
        // The id is for people; a missing one is no second trouble.
        let id = instance_id(reading, run.uid).unwrap_or_else(|_| run.uid.to_string());
        format!("read the history of instance {id:?}, run {}", run.run)
    };
    let mut statement = reading.prepare(sql)?;
    let mut rows = statement.query(values).attempted(what)?;
    let mut events: Vec<Event> = Vec::new();
    while let Some(row) = rows.next().attempted(what)? {
        let row = Fetched(row);
        let event = decode::event(&row).map_err(|why| decode::bad_event(&what(), &row, why))?;
        gaps.add(&mut events, event, what)?;
    }
    Ok(events)
}

/// An interned policy.
pub(crate) fn policy(reading: &mut Reading<'_>, hash: &str) -> Result<Option<PolicyRow>> {
    let sql = "SELECT hash, text FROM policy WHERE hash = ?1";
    let what = || format!("read policy {hash}");
    reading.one(sql, [hash], |row| decode::policy(&row), what)
}
