//! Bulk jobs: a change must follow from what is stored.

use resurgam_store::BulkRow;

use super::schedule::named;
use super::wave::Wave;
use crate::encode::{millis, prose, whole};
use crate::sql::Piece::{Matches, Names, Rows, Set, Text};
use crate::sql::{Column, SHARD, Sql};
use crate::statement::Statement;

/// The columns of a job; and the revision that a change follows from, which is none of them.
const CHANGE: [Column; 16] = [
    SHARD,
    Column::text("id"),
    Column::text("filter"),
    Column::text("action"),
    Column::text("options"),
    Column::text("cursor"),
    Column::text("counts"),
    Column::text("page"),
    Column::text("by"),
    Column::text("reason"),
    Column::text("stopped_by"),
    Column::text("error"),
    Column::bigint("created_at"),
    Column::bigint("closed_at"),
    Column::bigint("revision"),
    Column::bigint("follows"),
];

const BULK: &[Column] = CHANGE.split_at(15).0;
const KEY: &[Column] = BULK.split_at(2).0;
const VALUES: &[Column] = BULK.split_at(2).1;
const STOP: &[Column] = &[SHARD, Column::text("id"), Column::text("stopped_by")];

static INSERT: Sql = Sql::new(&[
    Text("INSERT INTO @bulk ("),
    Names(BULK),
    Text(") SELECT * FROM "),
    Rows(BULK),
    Text(" ON CONFLICT DO NOTHING"),
]);

static UPDATE: Sql = Sql::new(&[
    Text("UPDATE @bulk s SET "),
    Set(VALUES),
    Text(" FROM "),
    Rows(&CHANGE),
    Text(" WHERE "),
    Matches("s", KEY),
    Text(" AND s.revision = u.follows"),
]);

static STOP_JOB: Sql = Sql::new(&[
    Text("UPDATE @bulk s SET stopped_by = u.stopped_by, revision = s.revision + 1 FROM "),
    Rows(STOP),
    Text(" WHERE "),
    Matches("s", KEY),
    Text(" AND s.closed_at IS NULL AND s.stopped_by IS NULL"),
]);

/// Adds the statements for the bulk jobs of a wave.
pub(super) fn statements<'p>(wave: &'p Wave<'_>, add: &mut Vec<Statement<'p>>) {
    if !wave.bulk_inserts.is_empty() {
        let inserts = || wave.bulk_inserts.iter().copied();
        let insert = Statement::rows("insert bulk jobs", &INSERT);
        let revisions = inserts().map(|_| 1);
        add.push(rows(insert, inserts()).bigs(revisions).exactly(inserts().len()));
    }
    if !wave.bulk_updates.is_empty() {
        let updates = || wave.bulk_updates.iter();
        let update = Statement::rows("update bulk jobs", &UPDATE);
        add.push(
            rows(update, updates().map(|(row, _)| *row))
                .bigs(updates().map(|(_, revision)| whole(revision.saturating_add(1))))
                .bigs(updates().map(|(_, revision)| whole(*revision)))
                .exactly(updates().len()),
        );
    }
    if !wave.bulk_stops.is_empty() {
        let stops = || wave.bulk_stops.iter();
        let stop = Statement::rows("stop bulk jobs", &STOP_JOB);
        add.push(
            named(stop, stops().map(|(id, _)| *id))
                .texts(stops().map(|(_, by)| prose(by)))
                .exactly(stops().len()),
        );
    }
}

fn rows<'p>(
    statement: Statement<'p>,
    rows: impl Iterator<Item = &'p BulkRow> + Clone,
) -> Statement<'p> {
    let rows = || rows.clone();
    named(statement, rows().map(|row| &*row.id))
        .texts(rows().map(|row| &*row.filter))
        .texts(rows().map(|row| &*row.action))
        .texts(rows().map(|row| &*row.options))
        .maybe_texts(rows().map(|row| row.cursor.as_deref()))
        .texts(rows().map(|row| &*row.counts))
        .texts(rows().map(|row| &*row.page))
        .texts(rows().map(|row| prose(&row.by)))
        .maybe_texts(rows().map(|row| row.reason.as_deref().map(prose)))
        .maybe_texts(rows().map(|row| row.stopped_by.as_deref().map(prose)))
        .maybe_texts(rows().map(|row| row.error.as_deref().map(prose)))
        .bigs(rows().map(|row| row.created_at.as_millis()))
        .maybe_bigs(rows().map(|row| millis(row.closed_at)))
}
