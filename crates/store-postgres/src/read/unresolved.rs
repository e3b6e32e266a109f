//! What waits for an operator's decision: dead letters, and calls that are paused.
//!
//! Each list is read from one end of an index. Groups are counted along the index of fingerprints,
//! and the example of each is looked up in the same round trip.

use resurgam_core::{CallKey, Shard, Timestamp};
use resurgam_store::decode::{self, DEAD_LETTER, LETTER_HEAD, TASK};
use resurgam_store::quarantine::Table;
use resurgam_store::{
    CallCursor, CallGroup, DeadLetter, DeadLetterFilter, GROUPS, LetterHead, PausedCall,
    PausedFilter, Result, grouped,
};

use super::{many, one, shards};
use crate::decode::{Columns, Decoded, Fetched};
use crate::encode::whole;
use crate::pool::Pool;
use crate::statement::Statement;

/// How many letters are looked at in one go.
const LOOKED_AT: usize = 1_000;

/// What every fingerprint comes before.
const LAST: &str = "\u{10FFFF}";

/// The dead letter of a call.
pub(crate) async fn dead_letter(pool: &Pool, call: CallKey) -> Result<Option<DeadLetter>> {
    let sql = format!(
        "SELECT {DEAD_LETTER} FROM @dead_letter
         WHERE shard = $1 AND uid = $2 AND run = $3 AND seq = $4"
    );
    let look = Statement::rows("read a dead letter", sql)
        .uid(call.run.uid)
        .big(i64::from(call.run.run))
        .big(whole(call.seq.0));
    let rows = pool.ask(look).await?;
    one(&rows, |row| decode::dead_letter(&row), || format!("read the dead letter of {call}"))
}

/// Dead letters, the newest first.
pub(crate) async fn dead_letters(
    pool: &Pool,
    filter: &DeadLetterFilter,
) -> Result<Vec<DeadLetter>> {
    if !filter.looks_at_each() {
        return listed(pool, filter, DEAD_LETTER, |row| decode::dead_letter(&row)).await;
    }
    let mut letters = Vec::new();
    for at in dead_letter_places(pool, filter).await? {
        letters.extend(dead_letter(pool, at.call).await?);
    }
    Ok(letters)
}

/// Where dead letters stand in their list, the newest first.
pub(crate) async fn dead_letter_places(
    pool: &Pool,
    filter: &DeadLetterFilter,
) -> Result<Vec<CallCursor>> {
    if filter.looks_at_each() {
        return looked_at(pool, filter, filter.most(), |head| head.place).await;
    }
    listed(pool, filter, "uid, run, seq, at", |row| {
        Ok(CallCursor { call: decode::call(&row)?, at: row.timestamp(3)? })
    })
    .await
}

/// These columns of dead letters, the newest first.
async fn listed<T>(
    pool: &Pool,
    filter: &DeadLetterFilter,
    columns: &str,
    decode: impl Fn(Fetched<'_>) -> Decoded<T>,
) -> Result<Vec<T>> {
    let DeadLetterFilter { state, fingerprint, activity, .. } = filter;
    // Two texts, so that each has an index that is in its order.
    let of = if fingerprint.is_some() { "fingerprint = $2" } else { "$2::text IS NULL" };
    let sql = format!(
        "SELECT {columns} FROM @dead_letter
         WHERE state = $1 AND {of} AND ($3::text IS NULL OR activity = $3) AND at >= $4
           AND (at, uid, run, seq) < ($5::bigint, ($6::uuid[])[1], $7::bigint, $8::bigint)
         ORDER BY at DESC, uid DESC, run DESC, seq DESC LIMIT $9"
    );
    let list = Statement::rows("list dead letters", sql)
        .text(state.name())
        .maybe_text(fingerprint.as_deref())
        .maybe_text(activity.as_deref())
        .big(since(filter.since));
    let list = behind(list, filter.after).big(whole(filter.most() as u64));
    many(pool, Table::DeadLetter, list, decode).await
}

/// Something of each letter that is chosen by what no index knows, at most so many: those that are
/// chosen otherwise are looked at, a bounded number at a time.
async fn looked_at<T>(
    pool: &Pool,
    filter: &DeadLetterFilter,
    most: usize,
    of: impl Fn(LetterHead) -> T,
) -> Result<Vec<T>> {
    let mut page = DeadLetterFilter { limit: LOOKED_AT, ..filter.clone() };
    let mut found = Vec::new();
    loop {
        let heads = listed(pool, &page, LETTER_HEAD, |row| decode::letter_head(&row)).await?;
        // A page that is not full may have had rows that cannot be read.
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
pub(crate) async fn oldest_dead_letter(pool: &Pool) -> Result<Option<Timestamp>> {
    let what = "look for the oldest dead letter";
    let rows = pool.ask(Statement::rows(what, "SELECT min(at) FROM @dead_letter")).await?;
    Ok(one(&rows, |row| row.maybe_timestamp(0), || what.to_string())?.flatten())
}

/// Dead letters by their fingerprints.
pub(crate) async fn dead_letter_groups(
    pool: &Pool,
    filter: &DeadLetterFilter,
) -> Result<Vec<CallGroup>> {
    if filter.looks_at_each() {
        let all = DeadLetterFilter { after: None, ..filter.clone() };
        return Ok(grouped(looked_at(pool, &all, usize::MAX, LetterHead::group).await?));
    }
    let DeadLetterFilter { state, fingerprint, activity, .. } = filter;
    let sql = "
        SELECT e.uid, e.run, e.seq, g.fingerprint, g.count, g.oldest, g.newest, e.activity, e.error,
               e.instance
        FROM (SELECT fingerprint, count(*) AS count, min(at) AS oldest, max(at) AS newest
              FROM @dead_letter
              WHERE state = $1 AND fingerprint >= $2 AND fingerprint <= $3
                AND ($4::text IS NULL OR activity = $4) AND at >= $5
              GROUP BY fingerprint ORDER BY count(*) DESC, fingerprint LIMIT $6) AS g
        CROSS JOIN LATERAL (
            SELECT * FROM @dead_letter l
            WHERE l.state = $1 AND l.fingerprint = g.fingerprint AND l.at >= $5
              AND ($4::text IS NULL OR l.activity = $4)
            ORDER BY l.at DESC, l.uid DESC, l.run DESC, l.seq DESC LIMIT 1) AS e
        ORDER BY g.count DESC, g.fingerprint";
    let (first, last) = bounds(fingerprint.as_deref());
    let groups = Statement::rows("group dead letters", sql)
        .text(state.name())
        .text(first)
        .text(last)
        .maybe_text(activity.as_deref())
        .big(since(filter.since))
        .big(whole(GROUPS as u64));
    many(pool, Table::DeadLetter, groups, |row| group(&row, row.string(8)?)).await
}

/// Calls that are paused, those that were paused last first.
pub(crate) async fn paused_calls(pool: &Pool, filter: &PausedFilter) -> Result<Vec<PausedCall>> {
    let PausedFilter { fingerprint, activity, .. } = filter;
    let of = match fingerprint {
        Some(_) => "t.paused = $1",
        None => "t.paused IS NOT NULL AND $1::text IS NULL",
    };
    let columns = TASK.split(',').map(|column| format!("t.{}", column.trim()));
    let columns = columns.collect::<Vec<_>>().join(", ");
    let sql = format!(
        "SELECT {columns}, coalesce(i.id, ''), coalesce(i.workflow, '')
         FROM @task t LEFT JOIN @instance i ON i.shard = t.shard AND i.uid = t.uid
         WHERE {of} AND ($2::text IS NULL OR t.name = $2) AND t.paused_at >= $3
           AND (t.paused_at, t.uid, t.run, t.seq)
               < ($4::bigint, ($5::uuid[])[1], $6::bigint, $7::bigint)
         ORDER BY t.paused_at DESC, t.uid DESC, t.run DESC, t.seq DESC LIMIT $8"
    );
    let list = Statement::rows("list paused calls", sql)
        .maybe_text(fingerprint.as_deref())
        .maybe_text(activity.as_deref())
        .big(since(filter.since));
    let list = behind(list, filter.after).big(whole(filter.most() as u64));
    many(pool, Table::Task, list, |row| decode::paused_call(&row)).await
}

/// How many calls of these shards are paused.
pub(crate) async fn paused_count(pool: &Pool, among: &[Shard]) -> Result<u64> {
    let what = "count paused calls";
    let sql = "SELECT count(*) FROM @task WHERE paused IS NOT NULL AND shard = ANY($1)";
    let rows = pool.ask(Statement::rows(what, sql).shards(shards(among))).await?;
    let count = one(&rows, |row| row.number(0), || what.to_string())?;
    Ok(count.unwrap_or_default().unsigned_abs())
}

/// Calls that are paused by their fingerprints.
pub(crate) async fn paused_groups(pool: &Pool, filter: &PausedFilter) -> Result<Vec<CallGroup>> {
    let PausedFilter { fingerprint, activity, .. } = filter;
    let sql = "
        SELECT e.uid, e.run, e.seq, g.paused, g.count, g.oldest, g.newest, e.name, e.progress, e.id
        FROM (SELECT paused, count(*) AS count, min(paused_at) AS oldest, max(paused_at) AS newest
              FROM @task
              WHERE paused >= $1 AND paused <= $2 AND ($3::text IS NULL OR name = $3)
                AND paused_at >= $4
              GROUP BY paused ORDER BY count(*) DESC, paused LIMIT $5) AS g
        CROSS JOIN LATERAL (
            SELECT t.*, coalesce(i.id, '') AS id
            FROM @task t LEFT JOIN @instance i ON i.shard = t.shard AND i.uid = t.uid
            WHERE t.paused = g.paused AND t.paused_at >= $4 AND ($3::text IS NULL OR t.name = $3)
            ORDER BY t.paused_at DESC, t.uid DESC, t.run DESC, t.seq DESC LIMIT 1) AS e
        ORDER BY g.count DESC, g.paused";
    let (first, last) = bounds(fingerprint.as_deref());
    let groups = Statement::rows("group paused calls", sql)
        .text(first)
        .text(last)
        .maybe_text(activity.as_deref())
        .big(since(filter.since))
        .big(whole(GROUPS as u64));
    let error = |row: &Fetched<'_>| {
        let pause = decode::progress(row.text(8)?)?.paused;
        Decoded::Ok(pause.and_then(|pause| pause.error).unwrap_or_default())
    };
    many(pool, Table::Task, groups, |row| group(&row, error(&row)?)).await
}

/// A group from its columns, with what its example says.
fn group(row: &Fetched<'_>, error: String) -> Decoded<CallGroup> {
    Ok(CallGroup {
        fingerprint: row.string(3)?,
        activity: row.string(7)?,
        error,
        count: row.number(4)?.unsigned_abs(),
        oldest: row.timestamp(5)?,
        newest: row.timestamp(6)?,
        example: decode::call(row)?,
        instance: row.string(9)?,
    })
}

/// Adds a place in a list: time, uid, run and seq.
fn behind(list: Statement<'_>, after: Option<CallCursor>) -> Statement<'_> {
    let CallCursor { at, call } = after.unwrap_or(CallCursor::FIRST);
    list.big(at.as_millis())
        .only_uids([Some(call.run.uid)].into_iter())
        .big(i64::from(call.run.run))
        .big(whole(call.seq.0))
}

/// The first time that is wanted.
fn since(at: Option<Timestamp>) -> i64 {
    at.map_or(i64::MIN, Timestamp::as_millis)
}

/// The first fingerprint that is wanted, and the last.
fn bounds(fingerprint: Option<&str>) -> (&str, &str) {
    fingerprint.map_or(("", LAST), |one| (one, one))
}
