//! Instances: a start that wins its id or is refused, and changes of status.

use resurgam_core::event::Compensation;
use resurgam_core::{Payload, Uid};
use resurgam_store::rows::InstanceRow;

use super::NOW;
use super::plan::Plan;
use super::wave::{StatusWrite, Wave};
use crate::encode::{encoding, millis, past_pause, pause, prose, settings, text, whole};
use crate::sql::Piece::{IsCount, Matches, Names, Rows, Set, Text};
use crate::sql::{Column, RUN, SHARD, Sql, UID, columns};
use crate::statement::{Part, Statement};

/// The statuses in which nothing further happens.
pub(super) const CLOSED: &str = "('completed', 'failed', 'cancelled', 'terminated')";

/// The columns of an instance that starts.
const INSTANCE: [Column; 23] = [
    SHARD,
    UID,
    Column::text("id"),
    Column::bigint("arrival"),
    Column::text("workflow"),
    Column::text("status"),
    RUN,
    Column::integer("priority"),
    Column::text("queue"),
    Column::text("request_id"),
    Column::uuid("parent"),
    Column::bigint("parent_run"),
    Column::bigint("parent_seq"),
    Column::text("schedule"),
    Column::text("settings"),
    Column::text("input_encoding"),
    Column::text("input"),
    Column::text("outcome_encoding"),
    Column::text("outcome"),
    Column::text("compensation"),
    Column::text("error"),
    Column::bigint("created_at"),
    Column::bigint("closed_at"),
];

const KEY: &[Column] = INSTANCE.split_at(2).0;
const BEFORE_ARRIVAL: &[Column] = INSTANCE.split_at(3).0;
const AFTER_ARRIVAL: &[Column] = INSTANCE.split_at(4).1;

/// What a change of status writes.
const CHANGED: [Column; 8] = columns(
    &INSTANCE,
    ["shard", "uid", "status", "outcome_encoding", "outcome", "error", "closed_at", "compensation"],
);

/// What the next run of an instance begins with.
const BEGUN: [Column; 5] = columns(&INSTANCE, ["shard", "uid", "run", "input_encoding", "input"]);

/// With what stays of a pause that is over.
const CONTINUED: [Column; 6] = [BEGUN[0], BEGUN[1], BEGUN[2], BEGUN[3], BEGUN[4], PAUSE_TEXT];

const PAUSED: &[Column] = &[SHARD, UID, Column::text("status"), PAUSE_TEXT];

const PAUSE_TEXT: Column = Column::text("pause");

const RELEASED: &[Column] = &columns(&INSTANCE, ["id"]);

const TAGS: &[Column] = &[
    SHARD,
    UID,
    Column::text("name"),
    Column::text("value"),
    Column::bigint("created_at"),
    Column::bigint("arrival"),
];

const ROOM_FOR: &[Column] = &[SHARD, UID, Column::bigint("below")];

/// Waits for a commit that closes one of them, and makes one wait that is about to.
static OPEN: Sql = Sql::new(&[
    Text("SELECT "),
    IsCount(3),
    Text(" FROM (SELECT 1 FROM @instance i JOIN "),
    Rows(KEY),
    Text(" ON "),
    Matches("i", KEY),
    Text(" WHERE i.status NOT IN "),
    Text(CLOSED),
    Text(" ORDER BY i.shard, i.uid FOR SHARE OF i) AS open"),
]);

static STATUS: Sql = Sql::new(&[
    Text("UPDATE @instance i SET "),
    Set(CHANGED.split_at(2).1),
    Text(" FROM "),
    Rows(&CHANGED),
    Text(" WHERE "),
    Matches("i", KEY),
]);

static CONTINUE: Sql = Sql::new(&[
    Text("UPDATE @instance i SET "),
    Set(BEGUN.split_at(2).1),
    Text(
        ", status = 'running', error = NULL, closed_at = NULL, outcome_encoding = NULL,
          outcome = NULL, compensation = NULL, pause = coalesce(u.pause, i.pause) FROM ",
    ),
    Rows(&CONTINUED),
    Text(" WHERE i.current AND "),
    Matches("i", KEY),
]);

static PAUSE: Sql = Sql::new(&[
    Text("UPDATE @instance i SET "),
    Set(PAUSED.split_at(2).1),
    Text(", error = NULL FROM "),
    Rows(PAUSED),
    Text(" WHERE "),
    Matches("i", KEY),
]);

static RELEASE: Sql = Sql::new(&[
    Text("UPDATE @instance i SET current = false FROM "),
    Rows(RELEASED),
    Text(" WHERE i.id = u.id AND i.current AND i.status IN "),
    Text(CLOSED),
]);

static REPLACE: Sql = Sql::new(&[
    Text("UPDATE @instance i SET current = false FROM "),
    Rows(KEY),
    Text(" WHERE i.current AND i.status IN "),
    Text(CLOSED),
    Text(" AND "),
    Matches("i", KEY),
]);

/// Every unique index may refuse a start: the uid's, the id's and the request id's.
static INSERT: Sql = Sql::new(&[
    Text("INSERT INTO @instance ("),
    Names(&INSTANCE),
    Text(") SELECT "),
    Names(BEFORE_ARRIVAL),
    Text(", "),
    Text(NOW),
    Text(" + arrival, "),
    Names(AFTER_ARRIVAL),
    Text(" FROM "),
    Rows(&INSTANCE),
    Text(" ON CONFLICT DO NOTHING"),
]);

static TAG: Sql = Sql::new(&[
    Text("INSERT INTO @tag ("),
    Names(TAGS),
    Text(") SELECT "),
    Names(TAGS),
    Text(" + "),
    Text(NOW),
    Text(" FROM "),
    Rows(TAGS),
]);

/// Counts no further than it must. Two who send at the same time may both find the last place: the
/// limit is there to stop a flood, and one more does no harm.
static ROOM: Sql = Sql::new(&[
    Text("SELECT 1 / (count(*) = 0)::int FROM "),
    Rows(ROOM_FOR),
    Text(
        " WHERE u.below <= (SELECT count(*) FROM (
              SELECT 1 FROM @message m
              WHERE m.shard = u.shard AND m.uid = u.uid AND m.kind = 'SignalReceived'
              LIMIT greatest(u.below, 0)) AS waiting)",
    ),
]);

/// Adds the statement that looks whether there is room for the signals of a batch.
pub(super) fn room<'p>(plan: &'p Plan<'_>, add: &mut Vec<Statement<'p>>) {
    if !plan.room.is_empty() {
        add.push(
            Statement::check(Part::Rows("look whether there is room for signals"), &ROOM)
                .uids(plan.room.keys().copied())
                .bigs(plan.room.values().copied()),
        );
    }
}

/// Adds the statements for the instances of a wave. Changes of status come before starts, which may
/// take over the id of one that has just closed.
pub(super) fn statements<'p>(wave: &'p Wave<'_>, add: &mut Vec<Statement<'p>>) {
    if !wave.open.is_empty() {
        add.push(open(wave.open.iter().copied()));
    }
    if !wave.statuses.is_empty() {
        add.push(statuses(&wave.statuses));
    }
    if !wave.continued.is_empty() {
        let runs = || wave.continued.iter();
        add.push(
            Statement::rows("continue instances", &CONTINUE)
                .uids(runs().map(|(run, ..)| run.uid))
                .bigs(runs().map(|(run, ..)| i64::from(run.run)))
                .texts(runs().map(|(_, input, _)| encoding(input)))
                .texts(runs().map(|(_, input, _)| text(input)))
                .maybe_texts(runs().map(|(.., pause)| pause.map(past_pause)))
                .exactly(wave.continued.len()),
        );
    }
    if !wave.paused.is_empty() {
        let writes = || wave.paused.iter();
        add.push(
            Statement::rows("pause instances", &PAUSE)
                .uids(writes().map(|(uid, ..)| *uid))
                .texts(writes().map(|(_, status, _)| status.name()))
                .maybe_texts(writes().map(|(.., of)| pause(of)))
                .exactly(wave.paused.len()),
        );
    }
    if !wave.released.is_empty() {
        let release = Statement::rows("release ids", &RELEASE);
        add.push(release.texts(wave.released.iter().copied()));
    }
    if !wave.replaced.is_empty() {
        let replace = Statement::rows("take over ids", &REPLACE);
        add.push(replace.uids(wave.replaced.iter().copied()).exactly(wave.replaced.len()));
    }
    if !wave.started.is_empty() {
        let insert = insert(&wave.started);
        let takes_over = !(wave.released.is_empty() && wave.replaced.is_empty());
        add.push(if takes_over { insert.following() } else { insert });
        tags(&wave.started, add);
    }
}

fn open<'p>(uids: impl ExactSizeIterator<Item = Uid> + Clone) -> Statement<'p> {
    let expected = whole(uids.len() as u64);
    Statement::check(Part::Rows("look whether instances are open"), &OPEN).uids(uids).big(expected)
}

fn statuses<'p>(writes: &'p [StatusWrite<'_>]) -> Statement<'p> {
    let writes = || writes.iter();
    Statement::rows("change the status of instances", &STATUS)
        .uids(writes().map(|write| write.uid))
        .texts(writes().map(|write| write.status.name()))
        .maybe_texts(writes().map(|write| write.outcome.map(encoding)))
        .maybe_texts(writes().map(|write| write.outcome.map(text)))
        .maybe_texts(writes().map(|write| write.error.map(prose)))
        .maybe_bigs(writes().map(|write| millis(write.closed_at)))
        .maybe_texts(writes().map(|write| write.compensation.map(Compensation::name)))
        .exactly(writes().len())
}

fn insert<'p>(rows: &'p [(i64, &InstanceRow)]) -> Statement<'p> {
    let places = rows;
    let rows = || places.iter().map(|(_, row)| *row);
    Statement::rows("insert instances", &INSERT)
        .uids(rows().map(|row| row.uid))
        .texts(rows().map(|row| &*row.id))
        .bigs(places.iter().map(|(arrival, _)| *arrival))
        .texts(rows().map(|row| &*row.workflow))
        .texts(rows().map(|row| row.status.name()))
        .bigs(rows().map(|row| i64::from(row.run)))
        .ints(rows().map(|row| row.priority))
        .texts(rows().map(|row| &*row.queue))
        .maybe_texts(rows().map(|row| row.request_id.as_deref()))
        .only_uids(rows().map(|row| row.parent.map(|parent| parent.run.uid)))
        .maybe_bigs(rows().map(|row| row.parent.map(|parent| i64::from(parent.run.run))))
        .maybe_bigs(rows().map(|row| row.parent.map(|parent| whole(parent.seq.0))))
        .maybe_texts(rows().map(|row| row.schedule.as_deref()))
        .texts(rows().map(|row| settings(&row.settings)))
        .texts(rows().map(|row| encoding(&row.input)))
        .texts(rows().map(|row| text(&row.input)))
        .maybe_texts(rows().map(|row| outcome(row).map(encoding)))
        .maybe_texts(rows().map(|row| outcome(row).map(text)))
        .maybe_texts(rows().map(|row| row.compensation.map(Compensation::name)))
        .maybe_texts(rows().map(|row| row.error.as_deref().map(prose)))
        .bigs(rows().map(|row| row.created_at.as_millis()))
        .maybe_bigs(rows().map(|row| millis(row.closed_at)))
        .exactly(rows().len())
}

fn outcome(row: &InstanceRow) -> Option<&Payload> {
    row.outcome.as_ref()
}

fn tags<'p>(rows: &'p [(i64, &InstanceRow)], add: &mut Vec<Statement<'p>>) {
    let tags =
        || rows.iter().flat_map(|(nth, row)| row.tags.iter().map(move |tag| (nth, *row, tag)));
    if tags().next().is_some() {
        add.push(
            Statement::rows("tag instances", &TAG)
                .uids(tags().map(|(_, row, _)| row.uid))
                .texts(tags().map(|(_, _, (name, _))| &**name))
                .texts(tags().map(|(_, _, (_, value))| &**value))
                .bigs(tags().map(|(_, row, _)| row.created_at.as_millis()))
                .bigs(tags().map(|(nth, ..)| *nth)),
        );
    }
}
