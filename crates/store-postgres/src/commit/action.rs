//! What operators did: one row for each action, dropped when it comes twice.

use resurgam_core::Payload;

use super::plan::Plan;
use crate::encode::{encoding, prose, text, whole};
use crate::sql::Piece::{Names, Rows, Text};
use crate::sql::{Column, RUN, SEQ, SHARD, Sql, UID};
use crate::statement::Statement;

const ACTION: &[Column] = &[
    SHARD,
    UID,
    Column::text("id"),
    RUN,
    SEQ,
    Column::bigint("at"),
    Column::text("by"),
    Column::text("reason"),
    Column::text("what"),
    Column::text("encoding"),
    Column::text("body"),
    Column::boolean("changed"),
    Column::text("answer"),
];

static INSERT: Sql = Sql::new(&[
    Text("INSERT INTO @action ("),
    Names(ACTION),
    Text(") SELECT * FROM "),
    Rows(ACTION),
    Text(" ON CONFLICT (shard, uid, id) DO NOTHING"),
]);

/// Adds the statement for the actions of a batch.
pub(super) fn statements<'p>(plan: &'p Plan<'_>, add: &mut Vec<Statement<'p>>) {
    if plan.actions.is_empty() {
        return;
    }
    let rows = || plan.actions.iter();
    let stored: Vec<(String, Option<Payload>)> =
        rows().map(|row| row.request.action.to_stored()).collect();
    let body = || stored.iter().map(|(_, body)| body.as_ref());
    add.push(
        Statement::rows("keep what operators did", &INSERT)
            .uids(rows().map(|row| row.call.run.uid))
            .texts(rows().map(|row| &*row.request.id))
            .bigs(rows().map(|row| i64::from(row.call.run.run)))
            .bigs(rows().map(|row| whole(row.call.seq.0)))
            .bigs(rows().map(|row| row.at.as_millis()))
            .texts(rows().map(|row| prose(&row.request.by)))
            .maybe_texts(rows().map(|row| row.request.reason.as_deref().map(prose)))
            .texts(stored.iter().map(|(what, _)| what.clone()))
            .maybe_texts(body().map(|body| body.map(encoding)))
            .maybe_texts(body().map(|body| body.map(|body| text(body).into_owned())))
            .flags(rows().map(|row| row.answer.changed))
            .texts(rows().map(|row| prose(&row.answer.text))),
    );
}
