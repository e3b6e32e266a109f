//! Events: appended and never changed.

use resurgam_core::Seq;

use super::plan::Plan;
use crate::encode::{encoding, text, whole};
use crate::sql::Piece::{Matches, Names, Rows, Text};
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

const COPIED: &[Column] =
    &[SHARD, UID, RUN, Column::bigint("copy"), Column::bigint("first"), Column::bigint("before")];

/// A history can be long: it never leaves the database.
static COPY: Sql = Sql::new(&[
    Text("INSERT INTO @event ("),
    Names(EVENT),
    Text(
        ") SELECT e.shard, e.uid, u.copy, e.seq, e.at, e.kind, e.head, e.encoding, e.body
           FROM @event e JOIN ",
    ),
    Rows(COPIED),
    Text(" ON "),
    Matches("e", COPIED.split_at(3).0),
    Text(" AND e.seq > u.first AND e.seq < u.before"),
]);

/// Adds the statements for the events of a batch. What is copied may be part of it.
pub(super) fn statements<'p>(plan: &'p Plan<'_>, add: &mut Vec<Statement<'p>>) {
    append(plan, add);
    let rewinds = || plan.rewinds.iter();
    if plan.rewinds.is_empty() {
        return;
    }
    add.push(
        Statement::rows("copy events", &COPY)
            .uids(rewinds().map(|rewind| rewind.from.uid))
            .bigs(rewinds().map(|rewind| i64::from(rewind.from.run)))
            .bigs(rewinds().map(|rewind| i64::from(rewind.to)))
            .bigs(rewinds().map(|_| whole(Seq::FIRST.0)))
            .bigs(rewinds().map(|rewind| whole(rewind.before.0)))
            .following(),
    );
}

fn append<'p>(plan: &'p Plan<'_>, add: &mut Vec<Statement<'p>>) {
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
