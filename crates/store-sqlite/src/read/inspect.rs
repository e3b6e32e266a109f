//! What people and clients read.

use resurgam_core::event::Compensation;
use resurgam_core::{Event, EventKind, RunKey, Timestamp, Uid};
use resurgam_store::decode::{self, ACTION, ATTEMPT, Columns, MESSAGE, TASK};
use resurgam_store::quarantine::Table;
use resurgam_store::rows::{
    ActionRow, AttemptRow, InstanceCursor, InstanceFilter, InstanceRow, KvRow, MessageRow, Status,
    TaskRow,
};
use resurgam_store::{Gaps, Result};
use rusqlite::params;

use super::Reading;
use super::work::events;
use crate::decode::INSTANCE;
use crate::encode::whole;

/// The current instance of an id.
pub(crate) fn find(reading: &mut Reading<'_>, id: &str) -> Result<Option<InstanceRow>> {
    let sql = format!("SELECT {INSTANCE} FROM instance WHERE id = ?1 AND current = 1");
    reading.one(&sql, [id], |row| decode::instance(&row), || format!("read instance {id:?}"))
}

/// The instance that was started with a request id.
pub(crate) fn find_request(
    reading: &mut Reading<'_>,
    request: &str,
) -> Result<Option<InstanceRow>> {
    let sql = format!("SELECT {INSTANCE} FROM instance WHERE request_id = ?1");
    reading.one(
        &sql,
        [request],
        |row| decode::instance(&row),
        || format!("look for request {request:?}"),
    )
}

/// Whether a signal was stored for an instance of this id: it is read, or still waits.
pub(crate) fn signalled(reading: &mut Reading<'_>, id: &str, request: &str) -> Result<bool> {
    let what = || format!("look for signal {request:?} to {id:?}");
    let read = "SELECT 1 FROM event JOIN instance USING (uid)
                WHERE kind = 'SignalReceived' AND json_extract(head, '$.id') = ?1
                  AND instance.id = ?2 LIMIT 1";
    let waits = "SELECT 1 FROM message JOIN instance USING (uid)
                 WHERE kind = 'SignalReceived' AND message.id = ?1 AND instance.id = ?2 LIMIT 1";
    let message = format!("{}{request}", MessageRow::REPEATABLE_SIGNAL);
    let found = reading.one(waits, [&message, id], |_| Ok(()), what)?;
    let found = found.or(reading.one(read, [request, id], |_| Ok(()), what)?);
    Ok(found.is_some())
}

/// Those of these instances that are closed. Most are not, so their rows are not read. One that
/// cannot be read is set aside: whoever waits for another one must still hear of it.
pub(crate) fn closed(reading: &mut Reading<'_>, uids: &[Uid]) -> Result<Vec<InstanceRow>> {
    let sql =
        format!("SELECT {INSTANCE}, rowid FROM instance WHERE uid = ?1 AND closed_at IS NOT NULL");
    let mut found = Vec::new();
    for uid in uids {
        let key = [uid.to_bytes()];
        found.extend(reading.many(Table::Instance, &sql, key, 1, |row| decode::instance(&row))?);
    }
    Ok(found)
}

/// Those of these instances that are not there.
pub(crate) fn missing(reading: &mut Reading<'_>, uids: &[Uid]) -> Result<Vec<Uid>> {
    let sql = "SELECT 1 FROM instance WHERE uid = ?1";
    let mut missing = Vec::new();
    for uid in uids {
        let what = || format!("look for instance {uid}");
        if reading.one(sql, [uid.to_bytes()], |_| Ok(()), what)?.is_none() {
            missing.push(*uid);
        }
    }
    Ok(missing)
}

/// Instances, the newest first. A list costs what it shows and not what is stored: a tag or a
/// schedule narrows most, so its index is the way in; otherwise each status is read along its index
/// and the results are merged.
pub(crate) fn list(reading: &mut Reading<'_>, filter: &InstanceFilter) -> Result<Vec<InstanceRow>> {
    let limit = filter.most();
    let range = range(reading, filter)?;
    let statuses: Vec<&str> = filter.statuses().map(Status::name).collect();
    let by_status = if filter.workflow.is_some() { &OF_WORKFLOW } else { &OF_STATUS };
    let mut found = match (&filter.tag, &filter.schedule) {
        (Some(_), _) => newest(reading, filter, &range, &TAGGED, &statuses)?,
        (None, Some(_)) => newest(reading, filter, &range, &SCHEDULED, &statuses)?,
        (None, None) if filter.retrying && few_are_retrying(reading)? => {
            newest(reading, filter, &range, &RETRYING, &statuses)?
        }
        (None, None) => {
            let mut found = Vec::new();
            for status in statuses {
                found.extend(newest(reading, filter, &range, by_status, &[status])?);
            }
            found
        }
    };
    found.sort_by_key(|(rowid, row)| std::cmp::Reverse((row.created_at, *rowid)));
    found.truncate(limit);
    Ok(found.into_iter().map(|(_, row)| row).collect())
}

/// Whether few calls wait to be tried again. Nobody counts further.
fn few_are_retrying(reading: &Reading<'_>) -> Result<bool> {
    let sql = "SELECT count(*) FROM (
                   SELECT 1 FROM task INDEXED BY task_retrying
                   WHERE uid > x'' AND claimed_by IS NULL AND bad IS NULL AND attempt > 0
                     AND wake_at < 9223372036854775807 LIMIT ?1)";
    let most = whole(InstanceFilter::FEW_RETRYING as u64);
    let what = || "count calls that wait to be tried again".to_string();
    let count = reading.one(sql, [most + 1], |row| row.number(0), what)?;
    Ok(count.unwrap_or_default() <= most)
}

/// Current instances whose ids begin so, in the order of their ids.
pub(crate) fn with_prefix(
    reading: &mut Reading<'_>,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<InstanceRow>> {
    let sql = format!(
        "SELECT {INSTANCE}, rowid FROM instance INDEXED BY instance_id
         WHERE current = 1 AND id >= ?1 AND id <= ?2 AND (?3 IS NULL OR id > ?3) ORDER BY id"
    );
    // The place is often far behind the beginning.
    let begin = after.filter(|after| *after > prefix).unwrap_or(prefix);
    let values = params![begin, InstanceFilter::end_of_prefix(prefix), after];
    reading.many(Table::Instance, &sql, values, limit, |row| decode::instance(&row))
}

/// From when to when instances of a list were started. Without bounds it is everything, so that
/// there is one statement for both.
struct Range {
    since: i64,
    /// The time of the cursor, and the row among those of that time. Both are left out.
    before: (i64, i64),
}

fn range(reading: &Reading<'_>, filter: &InstanceFilter) -> Result<Range> {
    let since = filter.since.map_or(i64::MIN, Timestamp::as_millis);
    let Some(InstanceCursor { created_at, uid }) = filter.after else {
        return Ok(Range { since, before: (i64::MAX, i64::MAX) });
    };
    let sql = "SELECT rowid FROM instance WHERE uid = ?1";
    let what = || format!("look for instance {uid}");
    let row = reading.one(sql, [uid.to_bytes()], |row| row.rowid(), what)?;
    Ok(Range { since, before: (created_at.as_millis(), row.unwrap_or(i64::MAX)) })
}

/// How a list is read, so that an index brings it in its order.
struct WayIn {
    from: &'static str,
    condition: &'static str,
    order: &'static str,
}

/// The one status is the only entry of the list.
const OF_STATUS: WayIn = WayIn {
    from: "instance",
    condition: "status = json_extract(?1, '$[0]') AND created_at BETWEEN ?7 AND ?8",
    order: "created_at DESC, instance.rowid DESC",
};

const OF_WORKFLOW: WayIn = WayIn {
    from: "instance INDEXED BY instance_workflow",
    condition: "workflow = ?2 AND status = json_extract(?1, '$[0]')
                AND created_at BETWEEN ?7 AND ?8",
    order: "created_at DESC, instance.rowid DESC",
};

/// Few are found by their calls, and sorted; where there are many, they are found among all.
const RETRYING: WayIn = WayIn {
    from: "(SELECT DISTINCT uid AS retrying_uid FROM task INDEXED BY task_retrying
            WHERE uid > x'' AND claimed_by IS NULL AND bad IS NULL AND attempt > 0
              AND wake_at < 9223372036854775807) CROSS JOIN instance",
    condition: "instance.uid = retrying_uid AND +status IN (SELECT value FROM json_each(?1))
                AND +created_at BETWEEN ?7 AND ?8",
    order: "created_at DESC, instance.rowid DESC",
};

/// A plus keeps the database from preferring another index.
const SCHEDULED: WayIn = WayIn {
    from: "instance",
    condition: "schedule = ?3 AND +status IN (SELECT value FROM json_each(?1))
                AND created_at BETWEEN ?7 AND ?8",
    order: "created_at DESC, instance.rowid DESC",
};

const TAGGED: WayIn = WayIn {
    from: "(SELECT uid AS tag_uid, created_at AS tagged_at, rowid AS tag_row FROM tag
            WHERE name = ?5 AND value = ?6 AND created_at BETWEEN ?7 AND ?8) CROSS JOIN instance",
    condition: "instance.uid = tag_uid AND +status IN (SELECT value FROM json_each(?1))",
    order: "tagged_at DESC, tag_row DESC",
};

fn newest(
    reading: &mut Reading<'_>,
    filter: &InstanceFilter,
    range: &Range,
    way_in: &WayIn,
    statuses: &[&str],
) -> Result<Vec<(i64, InstanceRow)>> {
    let WayIn { from, condition, order } = way_in;
    let retrying = match filter.retrying {
        true => {
            "AND EXISTS (SELECT 1 FROM task WHERE task.uid = instance.uid
                         AND claimed_by IS NULL AND attempt > 0
                         AND wake_at < 9223372036854775807)"
        }
        false => "",
    };
    let sql = format!(
        "SELECT {INSTANCE}, instance.rowid AS rowid FROM {from}
         WHERE {condition} AND (?2 IS NULL OR workflow = ?2) AND (?3 IS NULL OR +schedule = ?3)
           AND (?4 IS NULL OR compensation = ?4) AND (?5 IS NULL OR ?6 IS NOT NULL)
           AND (instance.created_at < ?8 OR instance.rowid < ?9) {retrying}
         ORDER BY {order}"
    );
    let (tag, value) = filter.tag.clone().unzip();
    let compensation = filter.compensation.map(Compensation::name);
    let statuses = serde_json::json!(statuses).to_string();
    let InstanceFilter { workflow, schedule, .. } = filter;
    let Range { since, before: (before, row) } = range;
    let values =
        params![statuses, workflow, schedule, compensation, tag, value, since, before, row];
    reading.many(Table::Instance, &sql, values, filter.most(), |row| {
        Ok((row.rowid()?, decode::instance(&row)?))
    })
}

/// The events of a run as far as they are there.
pub(crate) fn history(reading: &mut Reading<'_>, run: RunKey) -> Result<Vec<Event>> {
    events(reading, run, Gaps::Shown)
}

/// The ledger of a run.
pub(crate) fn attempts(reading: &mut Reading<'_>, run: RunKey) -> Result<Vec<AttemptRow>> {
    let sql = format!(
        "SELECT {ATTEMPT}, rowid FROM attempt WHERE uid = ?1 AND run = ?2 ORDER BY ended_at, rowid"
    );
    let key = params![run.uid.to_bytes(), run.run];
    reading.many(Table::Attempt, &sql, key, usize::MAX, |row| decode::attempt(&row))
}

/// What operators did to the calls of a run.
pub(crate) fn actions(reading: &mut Reading<'_>, run: RunKey) -> Result<Vec<ActionRow>> {
    let sql = format!(
        "SELECT {ACTION}, rowid FROM resurgam_action WHERE uid = ?1 AND run = ?2 ORDER BY at, id"
    );
    let key = params![run.uid.to_bytes(), run.run];
    reading.many(Table::Action, &sql, key, usize::MAX, |row| decode::action(&row))
}

/// What came of an action.
pub(crate) fn action(reading: &mut Reading<'_>, uid: Uid, id: &str) -> Result<Option<ActionRow>> {
    let sql = format!("SELECT {ACTION} FROM resurgam_action WHERE uid = ?1 AND id = ?2");
    let what = || format!("read action {id:?} of instance {uid}");
    reading.one(&sql, params![uid.to_bytes(), id], |row| decode::action(&row), what)
}

/// The unfinished calls of a run.
pub(crate) fn tasks(reading: &mut Reading<'_>, run: RunKey) -> Result<Vec<TaskRow>> {
    let sql = format!("SELECT {TASK}, rowid FROM task WHERE uid = ?1 AND run = ?2 ORDER BY seq");
    let key = params![run.uid.to_bytes(), run.run];
    reading.many(Table::Task, &sql, key, usize::MAX, |row| decode::task(&row))
}

/// The messages of an instance in order of their arrival.
pub(crate) fn messages(reading: &mut Reading<'_>, uid: Uid) -> Result<Vec<MessageRow>> {
    let sql =
        format!("SELECT {MESSAGE}, arrival AS rowid FROM message WHERE uid = ?1 ORDER BY arrival");
    reading.many(Table::Message, &sql, [uid.to_bytes()], usize::MAX, |row| decode::message(&row))
}

/// The messages of an instance that are due, in order of their arrival.
pub(crate) fn due_messages_of(
    reading: &mut Reading<'_>,
    uid: Uid,
    before: Timestamp,
) -> Result<Vec<MessageRow>> {
    let sql = format!(
        "SELECT {MESSAGE}, arrival AS rowid FROM message
         WHERE uid = ?1 AND due_at < ?2 ORDER BY arrival"
    );
    let values = params![uid.to_bytes(), before.as_millis()];
    reading.many(Table::Message, &sql, values, usize::MAX, |row| decode::message(&row))
}

/// Whether a run was asked to end.
pub(crate) fn cancel_requested(reading: &mut Reading<'_>, run: RunKey) -> Result<bool> {
    let sql = "SELECT 1 FROM event WHERE uid = ?1 AND run = ?2 AND kind = ?3 LIMIT 1";
    let what = || format!("look whether {} was cancelled", run.uid);
    let values = params![run.uid.to_bytes(), run.run, EventKind::CANCEL_REQUESTED];
    Ok(reading.one(sql, values, |_| Ok(()), what)?.is_some())
}

/// One entry of an instance's own data.
pub(crate) fn kv(reading: &mut Reading<'_>, uid: Uid, key: &str) -> Result<Option<KvRow>> {
    let sql = "SELECT encoding, value FROM kv WHERE uid = ?1 AND key = ?2";
    let what = || format!("read {key:?} of instance {uid}");
    let value = reading.one(sql, params![uid.to_bytes(), key], |row| row.payload(0), what)?;
    Ok(value.flatten().map(|value| KvRow { uid, key: key.to_string(), value }))
}
