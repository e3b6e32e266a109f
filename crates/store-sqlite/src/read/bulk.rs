//! Bulk jobs, and the calls that they are about.

use resurgam_core::action::ActionAnswer;
use resurgam_core::{CallKey, RunKey, Timestamp};
use resurgam_store::decode::{self, BULK, Columns, TASK};
use resurgam_store::quarantine::Table;
use resurgam_store::rows::MessageRow;
use resurgam_store::{
    AskedAnswer, BulkCursor, BulkRecord, CallFilter, CallPage, Candidate, Result, RunCalls,
};
use rusqlite::params;

use super::Reading;
use crate::encode::whole;

/// Jobs that are not over, the oldest first.
pub(crate) fn open_bulk(reading: &mut Reading<'_>, limit: usize) -> Result<Vec<BulkRecord>> {
    let sql = format!(
        "SELECT {BULK} FROM resurgam_bulk
         WHERE closed_at IS NULL AND (created_at, id) > (?1, ?2) ORDER BY created_at, id LIMIT 1"
    );
    pages(reading, &sql, (i64::MIN, String::new()), limit)
}

/// All jobs, the newest first.
pub(crate) fn bulk_list(
    reading: &mut Reading<'_>,
    after: Option<&BulkCursor>,
    limit: usize,
) -> Result<Vec<BulkRecord>> {
    let sql = format!(
        "SELECT {BULK} FROM resurgam_bulk WHERE (created_at, id) < (?1, ?2)
         ORDER BY created_at DESC, id DESC LIMIT 1"
    );
    let first = after.map_or((i64::MAX, String::new()), |it| (it.at.as_millis(), it.id.clone()));
    pages(reading, &sql, first, limit)
}

/// One job after the other. They are few, and every column of them can be read.
fn pages(
    reading: &mut Reading<'_>,
    sql: &str,
    mut after: (i64, String),
    limit: usize,
) -> Result<Vec<BulkRecord>> {
    let what = || "read bulk jobs".to_string();
    let mut found = Vec::new();
    while found.len() < limit {
        let next = reading.one(sql, params![after.0, after.1], |row| decode::bulk(&row), what)?;
        let Some(next) = next else { break };
        after = (next.row.created_at.as_millis(), next.row.id.clone());
        found.push(next);
    }
    Ok(found)
}

/// The job of an id.
pub(crate) fn bulk(reading: &mut Reading<'_>, id: &str) -> Result<Option<BulkRecord>> {
    let sql = format!("SELECT {BULK} FROM resurgam_bulk WHERE id = ?1");
    let what = || format!("read the bulk job {id:?}");
    reading.one(&sql, params![id], |row| decode::bulk(&row), what)
}

/// When the job was over that was over first.
pub(crate) fn oldest_bulk(reading: &mut Reading<'_>) -> Result<Option<Timestamp>> {
    let sql = "SELECT min(closed_at) FROM resurgam_bulk WHERE closed_at IS NOT NULL";
    let what = || "look for the oldest bulk job".to_string();
    Ok(reading.one(sql, [], |row| row.maybe_timestamp(0), what)?.flatten())
}

/// Open calls that match, by their keys.
pub(crate) fn matching_calls(
    reading: &mut Reading<'_>,
    filter: &CallFilter,
    mut after: Option<CallKey>,
    limit: usize,
) -> Result<CallPage> {
    let (mut page, mut looked_at) = (CallPage::default(), 0);
    let chunk = CallPage::chunk(limit);
    loop {
        let found = candidates(reading, filter, after, chunk)?;
        looked_at += found.len();
        let last = found.last().filter(|_| found.len() == chunk).map(|found| found.task.call);
        page.add(filter, found, last, limit);
        if page.is_complete(limit, looked_at) {
            return Ok(page);
        }
        after = page.go_on;
    }
}

/// Open calls, by their keys. What is in the columns of a task is compared here, the rest by the
/// filter itself.
fn candidates(
    reading: &mut Reading<'_>,
    filter: &CallFilter,
    after: Option<CallKey>,
    limit: usize,
) -> Result<Vec<Candidate>> {
    let columns = TASK.split(',').map(|column| format!("task.{}", column.trim()));
    let columns = columns.collect::<Vec<_>>().join(", ");
    let of_last_failure = |column: &str| match filter.needs_failure() {
        true => format!(
            "(SELECT a.{column} FROM attempt a WHERE a.uid = task.uid AND a.run = task.run
                AND a.seq = task.seq AND a.failure IS NOT NULL ORDER BY a.place DESC LIMIT 1)"
        ),
        false => "NULL".to_string(),
    };
    let (failure, failed_at) = (of_last_failure("failure"), of_last_failure("ended_at"));
    let sql = format!(
        "SELECT {columns}, coalesce(instance.id, ''), coalesce(instance.workflow, ''),
                coalesce(instance.created_at, 0),
                (SELECT value FROM tag WHERE tag.uid = task.uid AND tag.name = ?7),
                {failure}, {failed_at}, task.rowid AS rowid
         FROM task INDEXED BY task_seq LEFT JOIN instance ON instance.uid = task.uid
         WHERE (task.uid, task.run, task.seq) > (?1, ?2, ?3) AND task.bad IS NULL
           AND (?4 IS NULL OR task.name = ?4) AND (?5 IS NULL OR task.queue = ?5)
           AND (?6 IS NULL OR task.paused = ?6)
         ORDER BY task.uid, task.run, task.seq"
    );
    let uid = after.map_or_else(Vec::new, |call| call.run.uid.to_bytes().to_vec());
    let (run, seq) = after.map_or((0, 0), |call| (i64::from(call.run.run), whole(call.seq.0)));
    let CallFilter { activity, queue, fingerprint, .. } = filter;
    let tag = filter.tag.as_ref().map(|(name, _)| name);
    let values = params![uid, run, seq, activity, queue, fingerprint, tag];
    reading.many(Table::Task, &sql, values, limit, |row| decode::candidate(&row))
}

/// What the calls of these runs say about each.
pub(crate) fn run_calls(
    reading: &mut Reading<'_>,
    runs: &[RunKey],
    activity: Option<&str>,
) -> Result<Vec<RunCalls>> {
    let open = "SELECT 1 FROM task INDEXED BY task_seq WHERE uid = ?1 AND run = ?2 AND name = ?3";
    let last = "SELECT name, failure, ended_at FROM attempt
                WHERE uid = ?1 AND run = ?2 AND failure IS NOT NULL
                ORDER BY ended_at DESC, seq DESC, place DESC LIMIT 1";
    let what = || "look at the calls of runs".to_string();
    let mut found = Vec::with_capacity(runs.len());
    for RunKey { uid, run } in runs {
        let uid = uid.to_bytes();
        let failed = reading.one(last, params![uid, run], |row| decode::failed_call(&row), what)?;
        let has_open = match activity {
            Some(name) => reading.one(open, params![uid, run, name], |_| Ok(()), what)?.is_some(),
            None => false,
        };
        found.push(RunCalls { has_open, failed: failed.flatten() });
    }
    Ok(found)
}

/// What came of actions that were asked for.
pub(crate) fn answers(
    reading: &mut Reading<'_>,
    asked: &[(CallKey, String)],
) -> Result<Vec<AskedAnswer>> {
    let done = "SELECT changed, answer FROM resurgam_action WHERE uid = ?1 AND id = ?2";
    let waits = "SELECT 1 FROM message WHERE uid = ?1 AND id = ?2";
    let what = || "read what came of actions".to_string();
    let mut answers = Vec::with_capacity(asked.len());
    for (call, id) in asked {
        let uid = call.run.uid.to_bytes();
        let answer = reading.one(
            done,
            params![uid, id],
            |row| Ok(ActionAnswer { changed: row.flag(0)?, text: row.string(1)? }),
            what,
        )?;
        let message = MessageRow::action_id(id);
        answers.push(match answer {
            Some(answer) => AskedAnswer::Answered(answer),
            None if reading.one(waits, params![uid, message], |_| Ok(()), what)?.is_some() => {
                AskedAnswer::Waits
            }
            None => AskedAnswer::Gone,
        });
    }
    Ok(answers)
}
