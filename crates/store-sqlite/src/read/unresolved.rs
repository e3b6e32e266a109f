//! What waits for an operator's decision: dead letters, and calls that are paused.
//!
//! Each list is read from one end of an index. Groups are counted along the index of fingerprints;
//! the example of each is looked up by itself.

use resurgam_core::{CallKey, Timestamp};
use resurgam_store::decode::{self, Columns, DEAD_LETTER, LETTER_HEAD, TASK};
use resurgam_store::quarantine::Table;
use resurgam_store::{
    CallCursor, CallGroup, DeadLetter, DeadLetterFilter, GROUPS, LetterHead, PausedCall,
    PausedFilter, Result, grouped,
};
use rusqlite::params;

use super::Reading;
use crate::decode::Fetched;
use crate::encode::whole;

/// How many letters are looked at in one go.
const LOOKED_AT: usize = 1_000;

/// What every fingerprint comes before.
const LAST: &str = "\u{10FFFF}";

/// The dead letter of a call.
pub(crate) fn dead_letter(reading: &mut Reading<'_>, call: CallKey) -> Result<Option<DeadLetter>> {
    let sql = format!(
        "SELECT {DEAD_LETTER} FROM resurgam_dead_letter WHERE uid = ?1 AND run = ?2 AND seq = ?3"
    );
    let what = || format!("read the dead letter of {call}");
    let values = params![call.run.uid.to_bytes(), call.run.run, whole(call.seq.0)];
    reading.one(&sql, values, |row| decode::dead_letter(&row), what)
}

/// Dead letters, the newest first.
pub(crate) fn dead_letters(
    reading: &mut Reading<'_>,
    filter: &DeadLetterFilter,
) -> Result<Vec<DeadLetter>> {
    if !filter.looks_at_each() {
        return listed(reading, filter, DEAD_LETTER, |row| decode::dead_letter(&row));
    }
    let mut letters = Vec::new();
    for at in dead_letter_places(reading, filter)? {
        letters.extend(dead_letter(reading, at.call)?);
    }
    Ok(letters)
}

/// Where dead letters stand in their list, the newest first.
pub(crate) fn dead_letter_places(
    reading: &mut Reading<'_>,
    filter: &DeadLetterFilter,
) -> Result<Vec<CallCursor>> {
    if filter.looks_at_each() {
        return looked_at(reading, filter, filter.most(), |head| head.place);
    }
    listed(reading, filter, "uid, run, seq, at", |row| {
        Ok(CallCursor { call: decode::call(&row)?, at: row.timestamp(3)? })
    })
}

/// These columns of dead letters, the newest first.
fn listed<T>(
    reading: &mut Reading<'_>,
    filter: &DeadLetterFilter,
    columns: &str,
    decode: impl Fn(Fetched<'_>) -> decode::Decoded<T>,
) -> Result<Vec<T>> {
    let DeadLetterFilter { state, fingerprint, activity, .. } = filter;
    // Two texts, so that each has an index that is in its order.
    let of = if fingerprint.is_some() { "fingerprint = ?2" } else { "?2 IS NULL" };
    let sql = format!(
        "SELECT {columns}, rowid FROM resurgam_dead_letter
         WHERE state = ?1 AND {of} AND (?3 IS NULL OR activity = ?3) AND at >= ?4
           AND (at, uid, run, seq) < (?5, ?6, ?7, ?8)
         ORDER BY at DESC, uid DESC, run DESC, seq DESC"
    );
    let CallCursor { at, call } = filter.after.unwrap_or(CallCursor::FIRST);
    let values = params![
        state.name(),
        fingerprint,
        activity,
        since(filter.since),
        at.as_millis(),
        call.run.uid.to_bytes(),
        call.run.run,
        whole(call.seq.0),
    ];
    reading.many(Table::DeadLetter, &sql, values, filter.most(), decode)
}

/// Something of each letter that is chosen by what no index knows, at most so many: those that are
/// chosen otherwise are looked at, a bounded number at a time.
fn looked_at<T>(
    reading: &mut Reading<'_>,
    filter: &DeadLetterFilter,
    most: usize,
    of: impl Fn(LetterHead) -> T,
) -> Result<Vec<T>> {
    let mut page = DeadLetterFilter { limit: LOOKED_AT, ..filter.clone() };
    let mut found = Vec::new();
    loop {
        let heads = listed(reading, &page, LETTER_HEAD, |row| decode::letter_head(&row))?;
        let Some(last) = heads.last() else { return Ok(found) };
        page.after = Some(last.place);
        let matching = heads.into_iter().filter(|head| filter.has(head)).map(&of);
        found.extend(matching.take(most.saturating_sub(found.len())));
        if found.len() >= most {
            return Ok(found);
        }
    }
}

/// When the oldest dead letter was written.
pub(crate) fn oldest_dead_letter(reading: &mut Reading<'_>) -> Result<Option<Timestamp>> {
    let sql = "SELECT min(at) FROM resurgam_dead_letter";
    let what = || "look for the oldest dead letter".to_string();
    Ok(reading.one(sql, [], |row| row.maybe_timestamp(0), what)?.flatten())
}

/// Dead letters by their fingerprints.
pub(crate) fn dead_letter_groups(
    reading: &mut Reading<'_>,
    filter: &DeadLetterFilter,
) -> Result<Vec<CallGroup>> {
    if filter.looks_at_each() {
        let all = DeadLetterFilter { after: None, ..filter.clone() };
        return Ok(grouped(looked_at(reading, &all, usize::MAX, LetterHead::group)?));
    }
    let DeadLetterFilter { state, fingerprint, activity, .. } = filter;
    let sql = "SELECT fingerprint, count(*), min(at), max(at), 0 AS rowid FROM resurgam_dead_letter
               WHERE state = ?1 AND fingerprint >= ?2 AND fingerprint <= ?3
                 AND (?4 IS NULL OR activity = ?4) AND at >= ?5
               GROUP BY fingerprint ORDER BY count(*) DESC, fingerprint";
    let (first, last) = bounds(fingerprint.as_deref());
    let values = params![state.name(), first, last, activity, since(filter.since)];
    let counted = reading.many(Table::DeadLetter, sql, values, GROUPS, |row| count(&row))?;
    let mut groups = Vec::new();
    for Counted { fingerprint, count, oldest, newest } in counted {
        let one = DeadLetterFilter {
            fingerprint: Some(fingerprint.clone()),
            limit: 1,
            after: None,
            ..filter.clone()
        };
        if let Some(letter) = dead_letters(reading, &one)?.pop() {
            groups.push(CallGroup {
                fingerprint,
                activity: letter.activity,
                error: letter.error,
                count,
                oldest,
                newest,
                example: letter.call,
                instance: letter.instance,
            });
        }
    }
    Ok(groups)
}

/// Calls that are paused, those that were paused last first.
pub(crate) fn paused_calls(
    reading: &mut Reading<'_>,
    filter: &PausedFilter,
) -> Result<Vec<PausedCall>> {
    let PausedFilter { fingerprint, activity, .. } = filter;
    let of =
        if fingerprint.is_some() { "paused = ?1" } else { "paused IS NOT NULL AND ?1 IS NULL" };
    let columns = TASK.split(',').map(|column| format!("task.{}", column.trim()));
    let columns = columns.collect::<Vec<_>>().join(", ");
    let sql = format!(
        "SELECT {columns}, coalesce(instance.id, ''), coalesce(instance.workflow, ''),
                task.rowid AS rowid
         FROM task LEFT JOIN instance ON instance.uid = task.uid
         WHERE {of} AND (?2 IS NULL OR task.name = ?2) AND paused_at >= ?3
           AND (paused_at, task.uid, task.run, task.seq) < (?4, ?5, ?6, ?7)
         ORDER BY paused_at DESC, task.uid DESC, task.run DESC, task.seq DESC"
    );
    let CallCursor { at, call } = filter.after.unwrap_or(CallCursor::FIRST);
    let values = params![
        fingerprint,
        activity,
        since(filter.since),
        at.as_millis(),
        call.run.uid.to_bytes(),
        call.run.run,
        whole(call.seq.0),
    ];
    let most = filter.most();
    reading.many(Table::Task, &sql, values, most, |row| decode::paused_call(&row))
}

/// How many calls are paused.
pub(crate) fn paused_count(reading: &mut Reading<'_>) -> Result<u64> {
    // A range of its index, which every fingerprint is in.
    let sql = "SELECT count(*) FROM task INDEXED BY task_paused_fingerprint WHERE paused >= ''";
    let what = || "count paused calls".to_string();
    Ok(reading.one(sql, [], |row| row.number(0), what)?.unwrap_or_default().unsigned_abs())
}

/// Calls that are paused by their fingerprints.
pub(crate) fn paused_groups(
    reading: &mut Reading<'_>,
    filter: &PausedFilter,
) -> Result<Vec<CallGroup>> {
    let PausedFilter { fingerprint, activity, .. } = filter;
    let sql = "SELECT paused, count(*), min(paused_at), max(paused_at), 0 AS rowid FROM task
               WHERE paused >= ?1 AND paused <= ?2 AND (?3 IS NULL OR name = ?3)
                 AND paused_at >= ?4
               GROUP BY paused ORDER BY count(*) DESC, paused";
    let (first, last) = bounds(fingerprint.as_deref());
    let values = params![first, last, activity, since(filter.since)];
    let counted = reading.many(Table::Task, sql, values, GROUPS, |row| count(&row))?;
    let mut groups = Vec::new();
    for Counted { fingerprint, count, oldest, newest } in counted {
        let one = PausedFilter {
            fingerprint: Some(fingerprint.clone()),
            limit: 1,
            after: None,
            ..filter.clone()
        };
        if let Some(call) = paused_calls(reading, &one)?.pop() {
            let pause = call.task.progress.paused;
            groups.push(CallGroup {
                fingerprint,
                activity: call.task.name,
                error: pause.and_then(|pause| pause.error).unwrap_or_default(),
                count,
                oldest,
                newest,
                example: call.task.call,
                instance: call.instance,
            });
        }
    }
    Ok(groups)
}

/// A group that was counted.
struct Counted {
    fingerprint: String,
    count: u64,
    oldest: Timestamp,
    newest: Timestamp,
}

fn count(row: &impl Columns) -> decode::Decoded<Counted> {
    let (fingerprint, count) = (row.string(0)?, row.number(1)?.unsigned_abs());
    Ok(Counted { fingerprint, count, oldest: row.timestamp(2)?, newest: row.timestamp(3)? })
}

/// The first time that is wanted.
fn since(at: Option<Timestamp>) -> i64 {
    at.map_or(i64::MIN, Timestamp::as_millis)
}

/// The first fingerprint that is wanted, and the last.
fn bounds(fingerprint: Option<&str>) -> (&str, &str) {
    fingerprint.map_or(("", LAST), |one| (one, one))
}
