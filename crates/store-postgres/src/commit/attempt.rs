//! The ledger: one row for each attempt that did not succeed at once, bounded for each call.
//!
//! Each row knows its place in the ledger of its call, so that neither adding one nor dropping the
//! oldest ever counts rows: the ten-thousandth retry costs what the tenth did.

use super::plan::Plan;
use crate::encode::{failure, prose, whole};
use crate::sql::Piece::{CountedRows, Matches, Names, Text, Value};
use crate::sql::{Column, RUN, SEQ, SHARD, Sql, UID};
use crate::statement::Statement;

/// How many rows at the beginning of a call's ledger always stay: how trouble began is worth more
/// than its middle.
const FIRST: i64 = 10;

/// The columns of a row but its place.
const ATTEMPT: &[Column] = &[
    SHARD,
    UID,
    RUN,
    SEQ,
    Column::text("name"),
    Column::bigint("attempt"),
    Column::text("outcome"),
    Column::bigint("started_at"),
    Column::bigint("ended_at"),
    Column::text("failure"),
    Column::bigint("delay_ms"),
    Column::text("why"),
];

const CALL: &[Column] = ATTEMPT.split_at(4).0;
const VALUES: &[Column] = ATTEMPT.split_at(4).1;

/// Adds rows.
static ADDED: Sql = Sql::new(&[
    Text("new AS (INSERT INTO @attempt ("),
    Names(CALL),
    Text(", place, "),
    Names(VALUES),
    Text(
        ") SELECT u.shard, u.uid, u.run, u.seq,
                  coalesce((SELECT max(a.place) FROM @attempt a WHERE ",
    ),
    Matches("a", CALL),
    Text(
        "), 0) + row_number() OVER (PARTITION BY u.uid, u.run, u.seq ORDER BY u.nth),
               u.name, u.attempt, u.outcome, u.started_at, u.ended_at, u.failure, u.delay_ms, u.why
         FROM ",
    ),
    CountedRows(ATTEMPT),
    Text(
        " RETURNING shard, uid, run, seq, place),
        last AS (SELECT shard, uid, run, seq, max(place) AS place FROM new
                 GROUP BY shard, uid, run, seq HAVING max(place) > ",
    ),
    Value(13),
    Text("::bigint)"),
]);

/// Drops what lies between the first ones and the last ones.
static DROP: Sql = Sql::new(&[
    Text(
        "DELETE FROM @attempt a USING last
         WHERE a.shard = last.shard AND a.uid = last.uid AND a.run = last.run AND a.seq = last.seq
           AND a.place > ",
    ),
    Value(14),
    Text("::bigint AND a.place <= last.place - "),
    Value(13),
    Text("::bigint + "),
    Value(14),
    Text("::bigint"),
]);

/// Adds the statement for the ledger rows of a batch. `limit` is how many a call may have.
pub(super) fn statements<'p>(plan: &'p Plan<'_>, limit: u32, add: &mut Vec<Statement<'p>>) {
    let rows = || plan.attempts.iter();
    if plan.attempts.is_empty() {
        return;
    }
    add.push(
        Statement::rows("add attempts to the ledger", &DROP)
            .made_from(&ADDED)
            .uids(rows().map(|row| row.call.run.uid))
            .bigs(rows().map(|row| i64::from(row.call.run.run)))
            .bigs(rows().map(|row| whole(row.call.seq.0)))
            .texts(rows().map(|row| &*row.name))
            .bigs(rows().map(|row| i64::from(row.attempt)))
            .texts(rows().map(|row| row.outcome.name()))
            .bigs(rows().map(|row| row.started_at.as_millis()))
            .bigs(rows().map(|row| row.ended_at.as_millis()))
            .maybe_texts(rows().map(|row| row.failure.as_ref().map(failure)))
            .maybe_bigs(rows().map(|row| row.delay_ms.map(whole)))
            .texts(rows().map(|row| prose(&row.why)))
            .big(i64::from(limit).max(FIRST + 1))
            .big(FIRST),
    );
}
