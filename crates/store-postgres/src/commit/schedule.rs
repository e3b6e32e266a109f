//! Schedules: a change must follow from what is stored.

use resurgam_core::Shard;
use resurgam_store::ScheduleRow;

use super::wave::Wave;
use crate::encode::{encoding, millis, prose, text, whole};
use crate::statement::Statement;

const COLUMNS: &str = "shard, id, workflow, queue, encoding, input, rule, options, state, paused,
                next_at, waits, last, error, created_at, revision";

/// All columns, as arrays under these numbers.
const ROWS: &str = "unnest($1::smallint[], $2::text[], $3::text[], $4::text[], $5::text[],
                $6::text[], $7::text[], $8::text[], $9::text[], $10::boolean[], $11::bigint[],
                $12::boolean[], $13::text[], $14::text[], $15::bigint[], $16::bigint[])";

/// Whatever is written now can be read, so an older mark goes.
const UPDATE: &str = "
    UPDATE @schedule s SET workflow = u.workflow, queue = u.queue, encoding = u.encoding,
                           input = u.input, rule = u.rule, options = u.options, state = u.state,
                           paused = u.paused, next_at = u.next_at, waits = u.waits, last = u.last,
                           error = u.error, created_at = u.created_at, revision = u.revision,
                           bad = NULL";

const UPDATED: &str = "unnest($1::smallint[], $2::text[], $3::text[], $4::text[], $5::text[],
                $6::text[], $7::text[], $8::text[], $9::text[], $10::boolean[], $11::bigint[],
                $12::boolean[], $13::text[], $14::text[], $15::bigint[], $16::bigint[],
                $17::bigint[])";

const DELETE: &str = "
    DELETE FROM @schedule s USING unnest($1::smallint[], $2::text[]) AS u(shard, id)
    WHERE s.shard = u.shard AND s.id = u.id";

/// Adds the statements for the schedules of a wave.
pub(super) fn statements<'p>(wave: &'p Wave<'_>, add: &mut Vec<Statement<'p>>) {
    if !wave.schedule_inserts.is_empty() {
        let sql = format!(
            "INSERT INTO @schedule ({COLUMNS}) SELECT * FROM {ROWS} ON CONFLICT DO NOTHING"
        );
        let inserts = || wave.schedule_inserts.iter().copied();
        let insert = Statement::rows("insert schedules", sql);
        add.push(rows(insert, inserts()).exactly(inserts().len()));
    }
    if !wave.schedule_updates.is_empty() {
        let sql = format!(
            "{UPDATE} FROM {UPDATED} AS u({COLUMNS}, follows)
             WHERE s.shard = u.shard AND s.id = u.id AND s.revision = u.follows"
        );
        let updates = || wave.schedule_updates.iter();
        let update = Statement::rows("update schedules", sql);
        add.push(
            rows(update, updates().map(|(row, _)| *row))
                .bigs(updates().map(|(_, revision)| whole(*revision)))
                .exactly(updates().len()),
        );
    }
    if !wave.schedule_deletes.is_empty() {
        let ids = || wave.schedule_deletes.iter().copied();
        let delete = Statement::rows("delete schedules", DELETE);
        add.push(named(delete, ids()).exactly(ids().len()));
    }
}

/// Two columns: the shards of these schedules, and their ids.
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
