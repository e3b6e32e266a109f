//! Tasks: a change must find exactly the row it means, unless it says that it may be gone.

use resurgam_store::rows::TaskRow;

use super::wave::Wave;
use crate::encode::{encoding, millis, progress, text, token, whole};
use crate::sql::Piece::{Matches, Names, Rows, Set, Text};
use crate::sql::{Column, RUN, SEQ, SHARD, Sql, UID};
use crate::statement::Statement;

const TASK: &[Column] = &[
    SHARD,
    UID,
    RUN,
    SEQ,
    Column::text("name"),
    Column::text("queue"),
    Column::text("gate"),
    Column::integer("priority"),
    Column::text("policy"),
    Column::bigint("attempt"),
    Column::bigint("wake_at"),
    Column::text("claimed_by"),
    Column::bigint("token"),
    Column::bigint("started_at"),
    Column::text("progress"),
    Column::text("encoding"),
    Column::text("heartbeat"),
    Column::bigint("heartbeat_at"),
    Column::bigint("deadline_at"),
    Column::text("paused"),
    Column::bigint("paused_at"),
];

/// What names the run of a task, and what names the task.
const OF_RUN: &[Column] = TASK.split_at(3).0;
const KEY: &[Column] = TASK.split_at(4).0;
const VALUES: &[Column] = TASK.split_at(4).1;

static INSERT: Sql =
    Sql::new(&[Text("INSERT INTO @task ("), Names(TASK), Text(") SELECT * FROM "), Rows(TASK)]);

/// Whatever is written now can be read, so an older mark goes.
static UPDATE: Sql = Sql::new(&[
    Text("UPDATE @task t SET "),
    Set(VALUES),
    Text(", bad = NULL FROM "),
    Rows(TASK),
    Text(" WHERE "),
    Matches("t", KEY),
]);

static DELETE: Sql =
    Sql::new(&[Text("DELETE FROM @task t USING "), Rows(KEY), Text(" WHERE "), Matches("t", KEY)]);

static DELETE_RUNS: Sql = Sql::new(&[
    Text("DELETE FROM @task t USING "),
    Rows(OF_RUN),
    Text(" WHERE "),
    Matches("t", OF_RUN),
]);

/// Adds the statements for the tasks of a wave.
pub(super) fn statements<'p>(wave: &'p Wave<'_>, add: &mut Vec<Statement<'p>>) {
    if !wave.task_deletes.is_empty() {
        let delete = Statement::rows("delete tasks", &DELETE);
        let deletes = &wave.task_deletes;
        add.push(delete.calls(deletes.iter().copied()).exactly(deletes.len()));
    }
    if !wave.task_discards.is_empty() {
        let discard = Statement::rows("discard tasks", &DELETE);
        add.push(discard.calls(wave.task_discards.iter().copied()));
    }
    if !wave.task_runs.is_empty() {
        let runs = || wave.task_runs.iter();
        let delete = Statement::rows("delete the tasks of runs", &DELETE_RUNS);
        let delete = delete.uids(runs().map(|run| run.uid));
        add.push(delete.bigs(runs().map(|run| i64::from(run.run))));
    }
    if !wave.task_updates.is_empty() {
        add.push(update(&wave.task_updates));
    }
    if !wave.task_amends.is_empty() {
        add.push(rows(Statement::rows("amend tasks", &UPDATE), &wave.task_amends));
    }
    if !wave.task_inserts.is_empty() {
        add.push(rows(Statement::rows("insert tasks", &INSERT), &wave.task_inserts));
    }
}

/// Changes tasks that must all be there.
pub(super) fn update<'p>(tasks: &'p [&TaskRow]) -> Statement<'p> {
    rows(Statement::rows("update tasks", &UPDATE), tasks).exactly(tasks.len())
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
        .maybe_texts(rows().map(|row| row.paused().map(|(fingerprint, _)| fingerprint)))
        .maybe_bigs(rows().map(|row| row.paused().map(|(_, since)| since.as_millis())))
}
