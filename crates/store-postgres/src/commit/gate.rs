//! Gates: each part of a row is written by itself. And kinds of calls that are paused.

use resurgam_core::Timestamp;
use resurgam_store::{ByHand, GateCount, GateWrite, Hold, StoredSettings};

use super::wave::Wave;
use crate::encode::{millis, prose};
use crate::sql::Piece::{Matches, Names, Rows, Text};
use crate::sql::{Column, Sql};
use crate::statement::Statement;

const SETTINGS: &[Column] = &[
    Column::text("key"),
    Column::text("settings"),
    Column::text("settings_by"),
    Column::text("settings_reason"),
    Column::bigint("settings_at"),
    Column::bigint("revision"),
];

const HAND: &[Column] = &[
    Column::text("key"),
    Column::text("hand"),
    Column::text("hand_by"),
    Column::text("hand_reason"),
    Column::bigint("hand_at"),
    Column::bigint("hand_until"),
    Column::bigint("revision"),
];

const DECIDED: &[Column] =
    &[Column::text("key"), Column::text("decided"), Column::bigint("revision")];

const KEY: &[Column] = DECIDED.split_at(1).0;

const COUNT: &[Column] =
    &[Column::text("gate"), Column::bigint("at"), Column::text("node"), Column::text("counts")];

const HOLD: &[Column] = &[
    Column::text("kind"),
    Column::text("name"),
    Column::text("by"),
    Column::text("reason"),
    Column::bigint("since"),
];

const HELD: &[Column] = HOLD.split_at(2).0;

static SET: Sql = Sql::new(&[
    Text("INSERT INTO @gate AS g ("),
    Names(SETTINGS),
    Text(") SELECT * FROM "),
    Rows(SETTINGS),
    Text(
        " ON CONFLICT (key) DO UPDATE SET settings = excluded.settings,
          settings_by = excluded.settings_by, settings_reason = excluded.settings_reason,
          settings_at = excluded.settings_at, revision = g.revision + 1",
    ),
]);

static SET_HAND: Sql = Sql::new(&[
    Text("INSERT INTO @gate AS g ("),
    Names(HAND),
    Text(") SELECT * FROM "),
    Rows(HAND),
    Text(
        " ON CONFLICT (key) DO UPDATE SET hand = excluded.hand, hand_by = excluded.hand_by,
          hand_reason = excluded.hand_reason, hand_at = excluded.hand_at,
          hand_until = excluded.hand_until, revision = g.revision + 1",
    ),
]);

static DECIDE: Sql = Sql::new(&[
    Text("INSERT INTO @gate AS g ("),
    Names(DECIDED),
    Text(") SELECT * FROM "),
    Rows(DECIDED),
    Text(
        " ON CONFLICT (key) DO UPDATE SET decided = excluded.decided,
          revision = g.revision + 1",
    ),
]);

static FORGET: Sql = Sql::new(&[
    Text("DELETE FROM @gate t USING "),
    Rows(KEY),
    Text(" WHERE "),
    Matches("t", KEY),
    Text(" AND t.settings IS NULL AND coalesce(t.hand, 'auto') = 'auto'"),
]);

static SET_COUNT: Sql = Sql::new(&[
    Text("INSERT INTO @gate_count ("),
    Names(COUNT),
    Text(") SELECT * FROM "),
    Rows(COUNT),
    Text(" ON CONFLICT (gate, at, node) DO UPDATE SET counts = excluded.counts"),
]);

const TIME: &[Column] = &[Column::bigint("before")];

static FORGET_COUNTS: Sql = Sql::new(&[
    Text("DELETE FROM @gate_count t USING "),
    Rows(TIME),
    Text(" WHERE t.at < u.before"),
]);

static SET_HOLD: Sql = Sql::new(&[
    Text("INSERT INTO @hold ("),
    Names(HOLD),
    Text(") SELECT * FROM "),
    Rows(HOLD),
    Text(
        " ON CONFLICT (kind, name) DO UPDATE SET by = excluded.by, reason = excluded.reason,
          since = excluded.since",
    ),
]);

static RELEASE: Sql = Sql::new(&[
    Text("DELETE FROM @hold t USING "),
    Rows(HELD),
    Text(" WHERE "),
    Matches("t", HELD),
]);

/// The changes of gates in a wave, a list for each statement.
#[derive(Default)]
pub(crate) struct GateWrites<'b> {
    set: Vec<(&'b str, &'b StoredSettings)>,
    hand: Vec<(&'b str, &'b ByHand)>,
    decided: Vec<(&'b str, &'b str)>,
    forgotten: Vec<&'b str>,
    counts: Vec<&'b GateCount>,
    forgotten_counts: Option<Timestamp>,
    held: Vec<&'b Hold>,
    released: Vec<(&'static str, &'b str)>,
}

impl<'b> GateWrites<'b> {
    pub(super) fn add(&mut self, write: &'b GateWrite) {
        match write {
            GateWrite::Set { key, settings } => self.set.push((key, settings)),
            GateWrite::Hand { key, hand } => self.hand.push((key, hand)),
            GateWrite::Decide { key, decided } => self.decided.push((key, decided)),
            GateWrite::Forget { key } => self.forgotten.push(key),
            GateWrite::Count(count) => self.counts.push(count),
            GateWrite::ForgetCounts { before } => self.forgotten_counts = Some(*before),
            GateWrite::Hold(hold) => self.held.push(hold),
            GateWrite::Release { kind, name } => self.released.push((kind.name(), name)),
        }
    }
}

/// Adds the statements for the gates of a wave.
pub(super) fn statements<'p>(wave: &'p Wave<'_>, add: &mut Vec<Statement<'p>>) {
    let Some(writes) = wave.gates.as_deref() else { return };
    gates(writes, add);
    counts(writes, add);
    holds(writes, add);
}

fn gates<'p>(writes: &'p GateWrites<'_>, add: &mut Vec<Statement<'p>>) {
    if !writes.set.is_empty() {
        let rows = || writes.set.iter();
        add.push(
            Statement::rows("set gates", &SET)
                .texts(rows().map(|(key, _)| *key))
                .maybe_texts(rows().map(|(_, set)| set.text.as_deref()))
                .texts(rows().map(|(_, set)| prose(&set.by)))
                .maybe_texts(rows().map(|(_, set)| set.reason.as_deref().map(prose)))
                .bigs(rows().map(|(_, set)| set.at.as_millis()))
                .bigs(rows().map(|_| 1)),
        );
    }
    if !writes.hand.is_empty() {
        let rows = || writes.hand.iter();
        add.push(
            Statement::rows("shut and open gates", &SET_HAND)
                .texts(rows().map(|(key, _)| *key))
                .texts(rows().map(|(_, hand)| hand.state.name()))
                .texts(rows().map(|(_, hand)| prose(&hand.by)))
                .maybe_texts(rows().map(|(_, hand)| hand.reason.as_deref().map(prose)))
                .bigs(rows().map(|(_, hand)| hand.at.as_millis()))
                .maybe_bigs(rows().map(|(_, hand)| millis(hand.until)))
                .bigs(rows().map(|_| 1)),
        );
    }
    if !writes.decided.is_empty() {
        let rows = || writes.decided.iter();
        add.push(
            Statement::rows("decide about gates", &DECIDE)
                .texts(rows().map(|(key, _)| *key))
                .texts(rows().map(|(_, decided)| *decided))
                .bigs(rows().map(|_| 1)),
        );
    }
    if !writes.forgotten.is_empty() {
        let forget = Statement::rows("forget gates", &FORGET);
        add.push(forget.texts(writes.forgotten.iter().copied()));
    }
}

fn counts<'p>(writes: &'p GateWrites<'_>, add: &mut Vec<Statement<'p>>) {
    if !writes.counts.is_empty() {
        let rows = || writes.counts.iter();
        add.push(
            Statement::rows("count at gates", &SET_COUNT)
                .texts(rows().map(|count| &*count.gate))
                .bigs(rows().map(|count| count.at.as_millis()))
                .texts(rows().map(|count| &*count.node))
                .texts(rows().map(|count| &*count.counts)),
        );
    }
    if let Some(before) = writes.forgotten_counts {
        let forget = Statement::rows("forget what was counted at gates", &FORGET_COUNTS);
        add.push(forget.bigs(std::iter::once(before.as_millis())));
    }
}

fn holds<'p>(writes: &'p GateWrites<'_>, add: &mut Vec<Statement<'p>>) {
    if !writes.held.is_empty() {
        let rows = || writes.held.iter();
        add.push(
            Statement::rows("pause kinds of calls", &SET_HOLD)
                .texts(rows().map(|hold| hold.kind.name()))
                .texts(rows().map(|hold| &*hold.name))
                .texts(rows().map(|hold| prose(&hold.by)))
                .maybe_texts(rows().map(|hold| hold.reason.as_deref().map(prose)))
                .bigs(rows().map(|hold| hold.since.as_millis())),
        );
    }
    if !writes.released.is_empty() {
        let rows = || writes.released.iter();
        add.push(
            Statement::rows("resume kinds of calls", &RELEASE)
                .texts(rows().map(|(kind, _)| *kind))
                .texts(rows().map(|(_, name)| *name)),
        );
    }
}
