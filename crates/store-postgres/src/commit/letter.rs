//! Dead letters: one for each call that is given up, and what people decide about them.

use resurgam_core::CallKey;
use resurgam_store::{DeadLetter, LetterState, Settled, ledger_to_stored};

use super::wave::Wave;
use crate::encode::{encoding, failure, prose, text, whole};
use crate::sql::Piece::{Matches, Names, Rows, Text};
use crate::sql::{Column, RUN, SEQ, SHARD, Sql, UID};
use crate::statement::Statement;

const LETTER: &[Column] = &[
    SHARD,
    UID,
    RUN,
    SEQ,
    Column::text("instance"),
    Column::text("activity"),
    Column::text("queue"),
    Column::text("policy"),
    Column::text("encoding"),
    Column::text("input"),
    Column::text("failure"),
    Column::text("why"),
    Column::bigint("attempts"),
    Column::text("ledger"),
    Column::bigint("at"),
    Column::text("fingerprint"),
    Column::text("error"),
    Column::text("state"),
    Column::bigint("settled_at"),
    Column::text("settled_by"),
    Column::text("reason"),
    Column::text("redriven_as"),
    Column::text("gate"),
];

const SETTLED: &[Column] = &[
    SHARD,
    UID,
    RUN,
    SEQ,
    Column::text("state"),
    Column::bigint("settled_at"),
    Column::text("settled_by"),
    Column::text("reason"),
    Column::text("redriven_as"),
];

const KEY: &[Column] = SETTLED.split_at(4).0;

static INSERT: Sql = Sql::new(&[
    Text("INSERT INTO @dead_letter ("),
    Names(LETTER),
    Text(
        ", workflow) SELECT u.*, coalesce((SELECT i.workflow FROM @instance i \
         WHERE i.shard = u.shard AND i.uid = u.uid), '') FROM ",
    ),
    Rows(LETTER),
    Text(" ON CONFLICT (shard, uid, run, seq) DO NOTHING"),
]);

static SETTLE: Sql = Sql::new(&[
    Text(
        "UPDATE @dead_letter t SET state = u.state, settled_at = u.settled_at, \
         settled_by = u.settled_by, reason = u.reason, redriven_as = u.redriven_as FROM ",
    ),
    Rows(SETTLED),
    Text(" WHERE "),
    Matches("t", KEY),
    Text(" AND t.state = 'open'"),
]);

/// A decision about a letter.
pub(crate) struct SettledLetter<'b> {
    pub(crate) call: CallKey,
    pub(crate) state: LetterState,
    pub(crate) settled: &'b Settled,
}

/// Adds the statements for the letters of a wave.
pub(super) fn statements<'p>(wave: &'p Wave<'_>, add: &mut Vec<Statement<'p>>) {
    if !wave.letter_inserts.is_empty() {
        add.push(insert(&wave.letter_inserts));
    }
    if !wave.letter_settles.is_empty() {
        add.push(settle(&wave.letter_settles));
    }
}

fn insert<'p>(letters: &'p [&DeadLetter]) -> Statement<'p> {
    let rows = || letters.iter();
    let settled = || rows().map(|row| row.settled.as_ref());
    Statement::rows("keep dead letters", &INSERT)
        .uids(rows().map(|row| row.call.run.uid))
        .bigs(rows().map(|row| i64::from(row.call.run.run)))
        .bigs(rows().map(|row| whole(row.call.seq.0)))
        .texts(rows().map(|row| &*row.instance))
        .texts(rows().map(|row| &*row.activity))
        .texts(rows().map(|row| &*row.queue))
        .texts(rows().map(|row| &*row.policy))
        .texts(rows().map(|row| encoding(&row.input)))
        .texts(rows().map(|row| text(&row.input)))
        .texts(rows().map(|row| failure(&row.failure)))
        .texts(rows().map(|row| &*row.why))
        .bigs(rows().map(|row| i64::from(row.attempts)))
        .texts(rows().map(|row| ledger_to_stored(&row.ledger)))
        .bigs(rows().map(|row| row.at.as_millis()))
        .texts(rows().map(|row| &*row.fingerprint))
        .texts(rows().map(|row| prose(&row.error)))
        .texts(rows().map(|row| row.state.name()))
        .maybe_bigs(settled().map(|settled| settled.map(|settled| settled.at.as_millis())))
        .maybe_texts(settled().map(|settled| settled.map(|settled| prose(&settled.by))))
        .maybe_texts(settled().map(|settled| settled?.reason.as_deref().map(prose)))
        .maybe_texts(settled().map(|settled| settled?.redriven_as.as_deref()))
        .texts(rows().map(|row| &*row.gate))
}

fn settle<'p>(letters: &'p [SettledLetter<'_>]) -> Statement<'p> {
    let rows = || letters.iter();
    Statement::rows("settle dead letters", &SETTLE)
        .calls(rows().map(|row| row.call))
        .texts(rows().map(|row| row.state.name()))
        .bigs(rows().map(|row| row.settled.at.as_millis()))
        .texts(rows().map(|row| prose(&row.settled.by)))
        .maybe_texts(rows().map(|row| row.settled.reason.as_deref().map(prose)))
        .maybe_texts(rows().map(|row| row.settled.redriven_as.as_deref()))
        .exactly(letters.len())
}
