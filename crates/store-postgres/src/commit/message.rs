//! Messages: dropped when they come twice, gone when a turn has read them.

use resurgam_core::Uid;
use resurgam_store::rows::MessageRow;

use super::NOW;
use super::wave::{NewMessage, Wave};
use crate::encode::{encoding, text};
use crate::statement::Statement;

const COLUMNS: &str = "shard, uid, id, arrival, due_at, run, kind, head, encoding, body";

const ROWS: &str = "unnest($1::smallint[], $2::uuid[], $3::text[], $4::bigint[], $5::bigint[],
                    $6::bigint[], $7::text[], $8::text[], $9::text[], $10::text[])";

/// Waits for a commit that closes the instance, and makes one wait that is about to: whichever
/// comes second sees the other.
const IF_OPEN: &str = "
    JOIN @instance i ON i.shard = u.shard AND i.uid = u.uid AND i.closed_at IS NULL";

const DELETE: &str = "
    DELETE FROM @message m
    USING unnest($1::smallint[], $2::uuid[], $3::text[]) AS u(shard, uid, id)
    WHERE m.shard = u.shard AND m.uid = u.uid AND m.id = u.id";

const DEFER: &str = "
    UPDATE @message m SET due_at = $4
    FROM unnest($1::smallint[], $2::uuid[], $3::text[]) AS u(shard, uid, id)
    WHERE m.shard = u.shard AND m.uid = u.uid AND m.id = u.id";

const DELETE_RUNS: &str = "
    DELETE FROM @message m
    USING unnest($1::smallint[], $2::uuid[], $3::bigint[]) AS u(shard, uid, run)
    WHERE m.shard = u.shard AND m.uid = u.uid AND m.run = u.run";

const PARK: &str = "
    UPDATE @message m SET parked = u.parked
    FROM unnest($1::smallint[], $2::uuid[], $3::boolean[]) AS u(shard, uid, parked)
    WHERE m.shard = u.shard AND m.uid = u.uid AND m.parked <> u.parked";

/// Adds the statements for the messages of a wave. Those that are about all messages of an instance
/// must find what came while its own row was waited for.
pub(super) fn statements<'p>(wave: &'p Wave<'_>, add: &mut Vec<Statement<'p>>) {
    if !wave.message_deletes.is_empty() {
        add.push(named(Statement::rows("delete messages", DELETE), &wave.message_deletes));
    }
    if !wave.message_defers.is_empty() {
        let defer = named(Statement::rows("defer messages", DEFER), &wave.message_defers);
        add.push(defer.big(MessageRow::NEVER.as_millis()));
    }
    if !wave.message_runs.is_empty() {
        let runs = || wave.message_runs.iter();
        let delete = Statement::rows("delete the messages of runs", DELETE_RUNS);
        let delete = delete.uids(runs().map(|run| run.uid));
        add.push(delete.bigs(runs().map(|run| i64::from(run.run))).following());
    }
    if !wave.message_inserts.is_empty() {
        add.push(insert(&wave.message_inserts, "", ""));
    }
    if !wave.message_inserts_if_open.is_empty() {
        add.push(insert(&wave.message_inserts_if_open, IF_OPEN, "FOR SHARE OF i"));
    }
    if !wave.parked.is_empty() {
        let parked = || wave.parked.iter();
        let park = Statement::rows("park messages", PARK).uids(parked().map(|(uid, _)| *uid));
        add.push(park.flags(parked().map(|(_, parked)| *parked)).following());
    }
}

fn named<'p>(statement: Statement<'p>, messages: &'p [(Uid, &str)]) -> Statement<'p> {
    let messages = || messages.iter();
    statement.uids(messages().map(|(uid, _)| *uid)).texts(messages().map(|(_, id)| *id))
}

/// A message arrives after every one of its instance that is still there.
pub(super) fn insert<'p>(rows: &'p [NewMessage<'_>], join: &str, lock: &str) -> Statement<'p> {
    let sql = format!(
        "INSERT INTO @message ({COLUMNS})
         SELECT u.shard, u.uid, u.id,
                greatest({NOW}, (SELECT max(m.arrival) + 1 FROM @message m
                                 WHERE m.shard = u.shard AND m.uid = u.uid)) + u.arrival,
                u.due_at, u.run, u.kind, u.head, u.encoding, u.body
         FROM {ROWS} AS u({COLUMNS}) {join}
         ORDER BY u.arrival {lock}
         ON CONFLICT (shard, uid, id) DO NOTHING"
    );
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
