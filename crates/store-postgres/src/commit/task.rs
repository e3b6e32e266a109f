//! Tasks: a change must find exactly the row it means, unless it says that it may be gone.

use std::sync::LazyLock;

use resurgam_store::rows::TaskRow;

use super::wave::Wave;
use crate::encode::{encoding, millis, progress, text, token, whole};
use crate::statement::Statement;

/// All columns, as arrays under these numbers.
const ROWS: &str = "unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::bigint[], $5::text[],
                $6::text[], $7::text[], $8::integer[], $9::text[], $10::bigint[], $11::bigint[],
                $12::text[], $13::bigint[], $14::bigint[], $15::text[], $16::text[], $17::text[],
                $18::bigint[], $19::bigint[])";

const COLUMNS: &str = "shard, uid, run, seq, name, queue, gate, priority, policy, attempt, wake_at,
                claimed_by, token, started_at, progress, encoding, heartbeat, heartbeat_at, deadline_at";

static INSERT: LazyLock<String> =
    LazyLock::new(|| format!("INSERT INTO @task ({COLUMNS}) SELECT * FROM {ROWS}"));

/// Whatever is written now can be read, so an older mark goes.
static UPDATE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "UPDATE @task t SET name = u.name, queue = u.queue, gate = u.gate, priority = u.priority,
                            policy = u.policy, attempt = u.attempt, wake_at = u.wake_at,
                            claimed_by = u.claimed_by, token = u.token, started_at = u.started_at,
                            progress = u.progress, encoding = u.encoding, heartbeat = u.heartbeat,
                            heartbeat_at = u.heartbeat_at, deadline_at = u.deadline_at, bad = NULL
         FROM {ROWS} AS u({COLUMNS})
         WHERE t.shard = u.shard AND t.uid = u.uid AND t.run = u.run AND t.seq = u.seq"
    )
});

const DELETE: &str = "
    DELETE FROM @task t
    USING unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::bigint[]) AS u(shard, uid, run, seq)
    WHERE t.shard = u.shard AND t.uid = u.uid AND t.run = u.run AND t.seq = u.seq";

const DELETE_RUNS: &str = "
    DELETE FROM @task t USING unnest($1::smallint[], $2::uuid[], $3::bigint[]) AS u(shard, uid, run)
    WHERE t.shard = u.shard AND t.uid = u.uid AND t.run = u.run";

/// Adds the statements for the tasks of a wave.
pub(super) fn statements<'p>(wave: &'p Wave<'_>, add: &mut Vec<Statement<'p>>) {
    if !wave.task_deletes.is_empty() {
        let delete = Statement::rows("delete tasks", DELETE);
        let deletes = &wave.task_deletes;
        add.push(delete.calls(deletes.iter().copied()).exactly(deletes.len()));
    }
    if !wave.task_discards.is_empty() {
        let discard = Statement::rows("discard tasks", DELETE);
        add.push(discard.calls(wave.task_discards.iter().copied()));
    }
    if !wave.task_runs.is_empty() {
        let runs = || wave.task_runs.iter();
        let delete = Statement::rows("delete the tasks of runs", DELETE_RUNS);
        let delete = delete.uids(runs().map(|run| run.uid));
        add.push(delete.bigs(runs().map(|run| i64::from(run.run))));
    }
    if !wave.task_updates.is_empty() {
        add.push(update(&wave.task_updates));
    }
    if !wave.task_amends.is_empty() {
        add.push(rows(Statement::rows("amend tasks", UPDATE.as_str()), &wave.task_amends));
    }
    if !wave.task_inserts.is_empty() {
        add.push(rows(Statement::rows("insert tasks", INSERT.as_str()), &wave.task_inserts));
    }
}

/// Changes tasks that must all be there.
pub(super) fn update<'p>(tasks: &'p [&TaskRow]) -> Statement<'p> {
    rows(Statement::rows("update tasks", UPDATE.as_str()), tasks).exactly(tasks.len())
}

fn rows<'p>(statement: Statement<'p>, rows: &'p [&TaskRow]) -> Statement<'p> {
    let rows = || rows.iter();
    let claim = || rows().map(|row| row.claim.as_ref());
    let heartbeat = || rows().map(|row| row.heartbeat.as_ref());
    statement
        .uids(rows().map(|row| row.call.run.uid))
        .bigs(rows().map(|row| i64::from(row.call.run.run)))
        .bigs(rows().map(|row| whole(row.call.seq.0)))
        .texts(rows().map(|row| &*row.name))
        .texts(rows().map(|row| &*row.queue))
        .texts(rows().map(|row| &*row.gate))
        .ints(rows().map(|row| row.priority))
        .texts(rows().map(|row| &*row.policy))
        .bigs(rows().map(|row| i64::from(row.attempt)))
        .bigs(rows().map(|row| row.wake_at.as_millis()))
        .maybe_texts(claim().map(|claim| claim.map(|claim| &*claim.node)))
        .maybe_bigs(claim().map(|claim| claim.map(|claim| token(claim.token))))
        .maybe_bigs(claim().map(|claim| claim.map(|claim| claim.started_at.as_millis())))
        .texts(rows().map(|row| progress(&row.progress)))
        .maybe_texts(heartbeat().map(|heartbeat| heartbeat.map(|said| encoding(&said.details))))
        .maybe_texts(heartbeat().map(|heartbeat| heartbeat.map(|said| text(&said.details))))
        .maybe_bigs(heartbeat().map(|heartbeat| heartbeat.map(|said| said.at.as_millis())))
        .maybe_bigs(rows().map(|row| millis(row.deadline_at)))
}
