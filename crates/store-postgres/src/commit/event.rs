//! Events: appended and never changed.

use super::plan::Plan;
use crate::encode::{encoding, text, whole};
use crate::sql::Piece::{Names, Rows, Text};
use crate::sql::{Column, RUN, SEQ, SHARD, Sql, UID};
use crate::statement::Statement;

const EVENT: &[Column] = &[
    SHARD,
    UID,
    RUN,
    SEQ,
    Column::bigint("at"),
    Column::text("kind"),
    Column::text("head"),
    Column::text("encoding"),
    Column::text("body"),
];

static INSERT: Sql =
    Sql::new(&[Text("INSERT INTO @event ("), Names(EVENT), Text(") SELECT * FROM "), Rows(EVENT)]);

/// Adds the statement for the events of a batch.
pub(super) fn statements<'p>(plan: &'p Plan<'_>, add: &mut Vec<Statement<'p>>) {
    let events = || plan.events.iter();
    if plan.events.is_empty() {
        return;
    }
    let body = || events().map(|(_, _, stored)| stored.body.as_ref());
    add.push(
        Statement::rows("append events", &INSERT)
            .uids(events().map(|(run, ..)| run.uid))
            .bigs(events().map(|(run, ..)| i64::from(run.run)))
            .bigs(events().map(|(_, event, _)| whole(event.seq.0)))
            .bigs(events().map(|(_, event, _)| event.at.as_millis()))
            .texts(events().map(|(_, _, stored)| stored.kind))
            .texts(events().map(|(_, _, stored)| &*stored.head))
            .maybe_texts(body().map(|body| body.map(encoding)))
            .maybe_texts(body().map(|body| body.map(text))),
    );
}
