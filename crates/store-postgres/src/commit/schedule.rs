//! Schedules: a change must follow from what is stored.

use resurgam_core::Shard;
use resurgam_store::ScheduleRow;

use super::wave::Wave;
use crate::encode::{encoding, millis, prose, text, whole};
use crate::sql::Piece::{Matches, Names, Rows, Set, Text};
use crate::sql::{Column, SHARD, Sql};
use crate::statement::Statement;

/// The columns of a schedule; and the revision that a change follows from, which is none of them.
const CHANGE: [Column; 17] = [
    SHARD,
    Column::text("id"),
    Column::text("workflow"),
    Column::text("queue"),
    Column::text("encoding"),
    Column::text("input"),
    Column::text("rule"),
    Column::text("options"),
    Column::text("state"),
    Column::boolean("paused"),
    Column::bigint("next_at"),
    Column::boolean("waits"),
    Column::text("last"),
    Column::text("error"),
    Column::bigint("created_at"),
    Column::bigint("revision"),
    Column::bigint("follows"),
];

const SCHEDULE: &[Column] = CHANGE.split_at(16).0;
const KEY: &[Column] = SCHEDULE.split_at(2).0;
const VALUES: &[Column] = SCHEDULE.split_at(2).1;

static INSERT: Sql = Sql::new(&[
    Text("INSERT INTO @schedule ("),
    Names(SCHEDULE),
    Text(") SELECT * FROM "),
    Rows(SCHEDULE),
    Text(" ON CONFLICT DO NOTHING"),
]);

/// Whatever is written now can be read, so an older mark goes.
static UPDATE: Sql = Sql::new(&[
    Text("UPDATE @schedule s SET "),
    Set(VALUES),
    Text(", bad = NULL FROM "),
    Rows(&CHANGE),
    Text(" WHERE "),
    Matches("s", KEY),
    Text(" AND s.revision = u.follows"),
]);

static DELETE: Sql = Sql::new(&[
    Text("DELETE FROM @schedule s USING "),
    Rows(KEY),
    Text(" WHERE "),
    Matches("s", KEY),
]);

/// Adds the statements for the schedules of a wave.
pub(super) fn statements<'p>(wave: &'p Wave<'_>, add: &mut Vec<Statement<'p>>) {
    if !wave.schedule_inserts.is_empty() {
        let inserts = || wave.schedule_inserts.iter().copied();
        let insert = Statement::rows("insert schedules", &INSERT);
        add.push(rows(insert, inserts()).exactly(inserts().len()));
    }
    if !wave.schedule_updates.is_empty() {
        let updates = || wave.schedule_updates.iter();
        let update = Statement::rows("update schedules", &UPDATE);
        add.push(
            rows(update, updates().map(|(row, _)| *row))
                .bigs(updates().map(|(_, revision)| whole(*revision)))
                .exactly(updates().len()),
        );
    }
    if !wave.schedule_deletes.is_empty() {
        let ids = || wave.schedule_deletes.iter().copied();
        let delete = Statement::rows("delete schedules", &DELETE);
        add.push(named(delete, ids()).exactly(ids().len()));
    }
}

/// Two columns: the shards of these schedules, or bulk jobs, and their ids.
pub(super) fn named<'p>(
    statement: Statement<'p>,
    ids: impl Iterator<Item = &'p str> + Clone,
) -> Statement<'p> {
    statement.shards(ids.clone().map(|id| Shard::of_id(id).0.cast_signed())).texts(ids)
}

fn rows<'p>(
    statement: Statement<'p>,
    rows: impl Iterator<Item = &'p ScheduleRow> + Clone,
) -> Statement<'p> {
    let rows = || rows.clone();
    named(statement, rows().map(|row| &*row.id))
        .texts(rows().map(|row| &*row.workflow))
        .texts(rows().map(|row| queue(&row.options)))
        .texts(rows().map(|row| encoding(&row.input)))
        .texts(rows().map(|row| text(&row.input)))
        .texts(rows().map(|row| &*row.rule))
        .texts(rows().map(|row| &*row.options))
        .texts(rows().map(|row| &*row.state))
        .flags(rows().map(|row| row.paused))
        .maybe_bigs(rows().map(|row| millis(row.next_at)))
        .flags(rows().map(|row| row.waits))
        .maybe_texts(rows().map(|row| row.last.as_deref()))
        .maybe_texts(rows().map(|row| row.error.as_deref().map(prose)))
        .bigs(rows().map(|row| row.created_at.as_millis()))
        .bigs(rows().map(|_| new_revision()))
}

/// Nobody counts them in one place, and still none comes twice: one that is made anew must not get
/// the number it had.
fn new_revision() -> i64 {
    fastrand::i64(0..=i64::MAX)
}

/// Options that are no JSON are somebody's damage, and must not refuse the note about it.
fn queue(options: &str) -> String {
    let options = serde_json::from_str::<serde_json::Value>(options).unwrap_or_default();
    options.get("queue").and_then(|queue| queue.as_str()).unwrap_or("default").to_string()
}
