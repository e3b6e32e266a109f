//! The inbox: a row is taken once, together with what it causes.

use resurgam_core::Payload;

use super::wave::Wave;
use crate::encode::prose;
use crate::sql::Piece::{Names, Rows, Text, Value};
use crate::sql::{Column, Sql};
use crate::statement::Statement;

const INBOX: &[Column] = &[
    Column::bigint("arrival"),
    Column::text("id"),
    Column::text("instance"),
    Column::text("kind"),
    Column::text("name"),
    Column::text("body"),
];

const REFUSED: &[Column] = &[Column::bigint("arrival"), Column::text("error")];
const SEEN: &[Column] = &[Column::text("id"), Column::bigint("at")];

/// Somebody may have changed a row since it was read; then it is another one.
static TAKE: Sql = Sql::new(&[
    Text("DELETE FROM @inbox i USING "),
    Rows(INBOX),
    Text(
        " WHERE i.arrival = u.arrival AND i.error IS NULL AND i.id IS NOT DISTINCT FROM u.id
            AND i.instance = u.instance AND i.kind = u.kind AND i.name IS NOT DISTINCT FROM u.name
            AND i.body IS NOT DISTINCT FROM u.body",
    ),
]);

/// In the order of the ids, so that two who take rows with the same cannot wait for each other.
static REMEMBER: Sql = Sql::new(&[
    Text("INSERT INTO @inbox_seen ("),
    Names(SEEN),
    Text(") SELECT * FROM "),
    Rows(SEEN),
    Text(" ORDER BY id ON CONFLICT DO NOTHING"),
]);

static DROP: Sql = Sql::new(&[
    Text("DELETE FROM @inbox WHERE arrival = ANY("),
    Value(1),
    Text(") AND error IS NULL"),
]);

static REFUSE: Sql = Sql::new(&[
    Text("UPDATE @inbox i SET error = u.error FROM "),
    Rows(REFUSED),
    Text(" WHERE i.arrival = u.arrival AND i.error IS NULL"),
]);

static FORGET: Sql = Sql::new(&[
    Text("DELETE FROM @inbox_seen WHERE id IN (SELECT id FROM @inbox_seen WHERE at < "),
    Value(1),
    Text(" ORDER BY at LIMIT 1000)"),
]);

/// Adds the statements for the rows of the inbox of a wave.
pub(super) fn statements<'p>(wave: &'p Wave<'_>, add: &mut Vec<Statement<'p>>) {
    if !wave.taken.is_empty() {
        take(wave, add);
    }
    if !wave.dropped.is_empty() {
        let dropped = Statement::rows("drop rows of the inbox", &DROP);
        add.push(dropped.bigs(wave.dropped.iter().copied()));
    }
    if !wave.refused.is_empty() {
        let refused = || wave.refused.iter();
        add.push(
            Statement::rows("refuse rows of the inbox", &REFUSE)
                .bigs(refused().map(|(arrival, _)| *arrival))
                .texts(refused().map(|(_, error)| prose(error))),
        );
    }
    if let Some(before) = wave.forgotten {
        add.push(Statement::rows("forget ids of the inbox", &FORGET).big(before.as_millis()));
    }
}

fn take<'p>(wave: &'p Wave<'_>, add: &mut Vec<Statement<'p>>) {
    let rows = || wave.taken.iter().map(|(row, _)| *row);
    add.push(
        Statement::rows("take rows of the inbox", &TAKE)
            .bigs(rows().map(|row| row.arrival))
            .maybe_texts(rows().map(|row| row.id.as_deref()))
            .texts(rows().map(|row| &*row.instance))
            .texts(rows().map(|row| &*row.kind))
            .maybe_texts(rows().map(|row| row.name.as_deref()))
            .maybe_texts(rows().map(|row| row.body.as_ref().map(Payload::as_str)))
            .exactly(wave.taken.len()),
    );
    let named = || {
        wave.taken.iter().filter_map(|(row, at)| row.id.as_deref().map(|id| (id, at.as_millis())))
    };
    if named().next().is_some() {
        add.push(
            Statement::rows("remember ids of the inbox", &REMEMBER)
                .texts(named().map(|(id, _)| id))
                .bigs(named().map(|(_, at)| at))
                .exactly(named().count()),
        );
    }
}
