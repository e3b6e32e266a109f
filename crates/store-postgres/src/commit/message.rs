//! Messages: dropped when they come twice, gone when a turn has read them.

use resurgam_core::Uid;
use resurgam_store::rows::{Message, MessageRow};

use super::NOW;
use super::wave::{NewMessage, Wave};
use crate::encode::{encoding, text};
use crate::sql::Piece::{Matches, Names, Rows, Shared, Text, Value};
use crate::sql::{Column, Piece, RUN, SHARD, Sql, UID, columns};
use crate::statement::Statement;

const MESSAGE: [Column; 10] = [
    SHARD,
    UID,
    Column::text("id"),
    Column::bigint("arrival"),
    Column::bigint("due_at"),
    RUN,
    Column::text("kind"),
    Column::text("head"),
    Column::text("encoding"),
    Column::text("body"),
];

const KEY: &[Column] = MESSAGE.split_at(3).0;
const OF_RUN: &[Column] = &columns(&MESSAGE, ["shard", "uid", "run"]);
const PARKED: &[Column] = &[SHARD, UID, Column::boolean("parked")];

/// A message arrives after every one of its instance that is still there.
const ARRIVES: Piece = Shared(&[
    Text("INSERT INTO @message ("),
    Names(&MESSAGE),
    Text(") SELECT u.shard, u.uid, u.id, greatest("),
    Text(NOW),
    Text(
        ", (SELECT max(m.arrival) + 1 FROM @message m
            WHERE m.shard = u.shard AND m.uid = u.uid)) + u.arrival,
         u.due_at, u.run, u.kind, u.head, u.encoding, u.body FROM ",
    ),
]);

const ONCE: Piece = Text(" ON CONFLICT (shard, uid, id) DO NOTHING");

static INSERT: Sql = Sql::new(&[ARRIVES, Rows(&MESSAGE), Text(" ORDER BY u.arrival"), ONCE]);

/// Waits for a commit that closes the instance, and makes one wait that is about to: whichever
/// comes second sees the other.
static INSERT_IF_OPEN: Sql = Sql::new(&[
    ARRIVES,
    Rows(&MESSAGE),
    Text(
        " JOIN @instance i ON i.shard = u.shard AND i.uid = u.uid AND i.closed_at IS NULL
          ORDER BY u.arrival FOR SHARE OF i",
    ),
    ONCE,
]);

static DELETE: Sql = Sql::new(&[
    Text("DELETE FROM @message m USING "),
    Rows(KEY),
    Text(" WHERE "),
    Matches("m", KEY),
]);

static DEFER: Sql = Sql::new(&[
    Text("UPDATE @message m SET due_at = "),
    Value(4),
    Text(" FROM "),
    Rows(KEY),
    Text(" WHERE "),
    Matches("m", KEY),
]);

static DELETE_RUNS: Sql = Sql::new(&[
    Text("DELETE FROM @message m USING "),
    Rows(OF_RUN),
    Text(" WHERE "),
    Matches("m", OF_RUN),
]);

/// A run that does not go on holds up nothing that is for who holds its shard.
static PARK: Sql = Sql::new(&[
    Text("UPDATE @message m SET parked = u.parked FROM "),
    Rows(PARKED),
    Text(
        " WHERE m.shard = u.shard AND m.uid = u.uid AND m.parked <> u.parked
            AND NOT (u.parked AND m.kind = ANY(",
    ),
    Value(4),
    Text("::text[]))"),
]);

/// Adds the statements for the messages of a wave. Those that are about all messages of an instance
/// must find what came while its own row was waited for.
pub(super) fn statements<'p>(wave: &'p Wave<'_>, add: &mut Vec<Statement<'p>>) {
    if !wave.message_deletes.is_empty() {
        add.push(named(Statement::rows("delete messages", &DELETE), &wave.message_deletes));
    }
    if !wave.message_defers.is_empty() {
        let defer = named(Statement::rows("defer messages", &DEFER), &wave.message_defers);
        add.push(defer.big(MessageRow::NEVER.as_millis()));
    }
    if !wave.message_runs.is_empty() {
        let runs = || wave.message_runs.iter();
        let delete = Statement::rows("delete the messages of runs", &DELETE_RUNS);
        let delete = delete.uids(runs().map(|run| run.uid));
        add.push(delete.bigs(runs().map(|run| i64::from(run.run))).following());
    }
    if !wave.message_inserts.is_empty() {
        add.push(insert(&INSERT, &wave.message_inserts));
    }
    if !wave.message_inserts_if_open.is_empty() {
        add.push(insert(&INSERT_IF_OPEN, &wave.message_inserts_if_open));
    }
    if !wave.parked.is_empty() {
        let parked = || wave.parked.iter();
        let park = Statement::rows("park messages", &PARK).uids(parked().map(|(uid, _)| *uid));
        let park = park.flags(parked().map(|(_, parked)| *parked));
        add.push(park.texts(Message::FOR_HOLDER.into_iter()).following());
    }
}

fn named<'p>(statement: Statement<'p>, messages: &'p [(Uid, &str)]) -> Statement<'p> {
    let messages = || messages.iter();
    statement.uids(messages().map(|(uid, _)| *uid)).texts(messages().map(|(_, id)| *id))
}

fn insert<'p>(sql: &'static Sql, rows: &'p [NewMessage<'_>]) -> Statement<'p> {
    let body = || rows.iter().map(|new| new.stored.body.as_ref());
    Statement::rows("insert messages", sql)
        .uids(rows.iter().map(|new| new.row.uid))
        .texts(rows.iter().map(|new| &*new.row.id))
        .bigs(rows.iter().map(|new| new.arrival))
        .bigs(rows.iter().map(|new| new.row.due_at.as_millis()))
        .maybe_bigs(rows.iter().map(|new| new.run.map(i64::from)))
        .texts(rows.iter().map(|new| new.stored.kind))
        .texts(rows.iter().map(|new| &*new.stored.head))
        .maybe_texts(body().map(|body| body.map(encoding)))
        .maybe_texts(body().map(|body| body.map(text)))
}
