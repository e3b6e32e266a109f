//! What is stored of gates, and tasks by the gates that they are behind.
//!
//! Where a gate is left out, each shard is read gate by gate: its gates are found by hopping along
//! the index from one to the next, and of each no more is read than is asked for. Rows behind a
//! gate that is left out are not read, but for the first, which the hop lands on.

use resurgam_core::{Shard, Timestamp};
use resurgam_store::decode::{self, GATE};
use resurgam_store::rows::TaskRow;
use resurgam_store::{
    GateCount, GateScope, GateWaiting, PausedKinds, Result, Runnable, StoredGates,
};

use super::shards;
use super::work::all;
use crate::decode::Columns;
use crate::encode::whole;
use crate::pool::Pool;
use crate::statement::Statement;

/// What a task must be to be due here, whatever its gate.
const IS_DUE: &str = "claimed_by IS NULL AND bad IS NULL AND wake_at < $4
    AND ($5::text[] IS NULL OR name = ANY($5)) AND ($6::text[] IS NULL OR queue = ANY($6))
    AND ($7::text[] IS NULL OR strpos(progress, '\"lacks\":') = 0)
    AND NOT name = ANY($8::text[]) AND NOT queue = ANY($9::text[])";

const COLUMNS: &str = "uid, run, seq, wake_at, queue, name, priority, gate";

/// Where nothing more is to be said about a task than that it waits.
const WAITS: &str = "t.claimed_by IS NULL AND t.bad IS NULL";

/// The query for due tasks where something is paused, or not every gate's are looked for.
pub(super) fn due_tasks_sql(runnable: &Runnable) -> String {
    let (places, of_queue) = match runnable.queues {
        Some(_) => (
            "SELECT s.shard, q.queue FROM unnest($1::smallint[]) AS s(shard)
             CROSS JOIN (SELECT DISTINCT queue FROM unnest($6::text[]) AS u(queue)) AS q",
            "AND t.queue = p.queue",
        ),
        None => ("SELECT s.shard, NULL::text FROM unnest($1::smallint[]) AS s(shard)", ""),
    };
    let places = format!("places(shard, queue) AS ({places})");
    let order = "ORDER BY t.wake_at, t.gate, t.uid, t.seq LIMIT $3";
    match runnable.gates {
        GateScope::All => format!(
            "WITH {places} SELECT t.* FROM places p CROSS JOIN LATERAL (
                 SELECT {COLUMNS} FROM @task t WHERE t.shard = p.shard {of_queue} AND {IS_DUE}
                 ORDER BY t.wake_at LIMIT $2) AS t
             {order}"
        ),
        GateScope::Except(_) => format!(
            "WITH RECURSIVE {places}, {}
             SELECT t.* FROM gates p CROSS JOIN LATERAL (
                 SELECT {COLUMNS} FROM @task t
                 WHERE t.shard = p.shard {of_queue} AND t.gate = p.gate AND {IS_DUE}
                 ORDER BY t.wake_at LIMIT $2) AS t
             WHERE p.wake_at < $4 AND NOT p.gate = ANY($10)
             {order}",
            gates_of("places", of_queue)
        ),
        GateScope::Only(_) => format!(
            "WITH {places} SELECT {COLUMNS} FROM (
                 SELECT t.*, g.most, row_number() OVER (
                     PARTITION BY g.gate ORDER BY t.wake_at, t.uid, t.seq) AS place
                 FROM places p CROSS JOIN unnest($10::text[], $11::bigint[]) AS g(gate, most)
                 CROSS JOIN LATERAL (
                     SELECT {COLUMNS} FROM @task t
                     WHERE t.shard = p.shard {of_queue} AND t.gate = g.gate AND {IS_DUE}
                     ORDER BY t.wake_at LIMIT least($2, g.most)) AS t) AS t
             WHERE place <= most {order}"
        ),
    }
}

/// The gates that tasks wait behind in each of some places, and when the first task there is due.
pub(super) fn gates_of(places: &str, of_queue: &str) -> String {
    let first = |behind: &str| {
        format!(
            "SELECT p.shard, p.queue, f.gate, f.wake_at FROM {behind} p CROSS JOIN LATERAL (
                 SELECT t.gate, t.wake_at FROM @task t
                 WHERE t.shard = p.shard {of_queue} AND {WAITS}{}
                 ORDER BY t.gate, t.wake_at LIMIT 1) AS f",
            if behind == "gates" { " AND t.gate > p.gate" } else { "" }
        )
    };
    format!("gates AS ({} UNION ALL {})", first(places), first("gates"))
}

/// What is paused, and the gates of a scope with how many tasks behind each are asked for.
pub(super) fn with_scope<'b>(
    statement: Statement<'b>,
    paused: &PausedKinds,
    scope: &GateScope,
) -> Statement<'b> {
    let statement =
        statement.names(&Some(paused.activities.clone())).names(&Some(paused.queues.clone()));
    match scope {
        GateScope::All => statement.names(&None).bigs(std::iter::empty()),
        GateScope::Except(gates) => statement.names(&Some(gates.clone())).bigs(std::iter::empty()),
        GateScope::Only(gates) => {
            statement.names(&Some(gates.iter().map(|(gate, _)| gate.clone()).collect())).bigs(
                gates.iter().map(|(_, most)| whole(*most as u64)).collect::<Vec<_>>().into_iter(),
            )
        }
    }
}

/// Every gate of which something is stored, and everything that is paused.
pub(crate) async fn gates(pool: &Pool) -> Result<StoredGates> {
    let what = "read what is stored of gates";
    let gates = format!("SELECT {GATE} FROM @gate ORDER BY key");
    let holds = "SELECT kind, name, by, reason, since FROM @hold ORDER BY kind, name";
    let asked = [Statement::rows(what, gates), Statement::rows(what, holds)];
    let answers = pool.ask_all(&asked).await?;
    let [gates, holds] = answers.as_slice() else {
        return Err(resurgam_store::Error::transient("read what is stored of gates: no answer"));
    };
    Ok(StoredGates {
        gates: all(gates, what, |row| decode::gate(&row))?,
        holds: all(holds, what, |row| decode::hold(&row))?,
    })
}

/// What nodes counted from this time on.
pub(crate) async fn gate_counts(pool: &Pool, from: Timestamp) -> Result<Vec<GateCount>> {
    let what = "read what was counted at gates";
    let sql = "SELECT gate, at, node, counts FROM @gate_count WHERE at >= $1
               ORDER BY gate, at, node";
    let rows = pool.ask(Statement::rows(what, sql).big(from.as_millis())).await?;
    all(&rows, what, |row| decode::gate_count(&row))
}

/// The keys of gates behind this one that tasks wait behind.
pub(crate) async fn waiting_gates(pool: &Pool, after: &str, limit: usize) -> Result<Vec<String>> {
    let what = "look for gates that tasks wait behind";
    let next = |after: &str| {
        format!(
            "(SELECT f.gate FROM unnest($1::smallint[]) AS s(shard) CROSS JOIN LATERAL (
                  SELECT t.gate FROM @task t WHERE t.shard = s.shard AND t.gate > {after} AND {WAITS}
                  ORDER BY t.gate LIMIT 1) AS f
              ORDER BY f.gate LIMIT 1)"
        )
    };
    let sql = format!(
        "WITH RECURSIVE gates AS (
             SELECT {} AS gate, 1::bigint AS nth
             UNION ALL
             SELECT {}, g.nth + 1 FROM gates g WHERE g.gate IS NOT NULL AND g.nth < $3)
         SELECT gate FROM gates WHERE gate IS NOT NULL AND nth <= $3 ORDER BY nth",
        next("$2"),
        next("g.gate")
    );
    let all_shards: Vec<Shard> = Shard::all().collect();
    let statement = Statement::rows(what, sql)
        .shards(shards(&all_shards))
        .text(after.to_string())
        .big(whole(limit as u64));
    all(&pool.ask_widely(statement).await?, what, |row| row.string(0))
}

/// How many tasks wait behind each of these gates.
pub(crate) async fn count_waiting(
    pool: &Pool,
    gates: &[String],
    before: Timestamp,
    at_most: usize,
) -> Result<Vec<GateWaiting>> {
    let what = "count the tasks that wait behind gates";
    let sql = format!(
        "SELECT g.gate,
             (SELECT count(*) FROM (
                  SELECT 1 FROM unnest($1::smallint[]) AS s(shard) CROSS JOIN LATERAL (
                      SELECT 1 FROM @task t
                      WHERE t.shard = s.shard AND t.gate = g.gate AND t.wake_at < $3 AND {WAITS}
                      LIMIT $4) AS t
                  LIMIT $4) AS counted),
             (SELECT min(f.wake_at) FROM unnest($1::smallint[]) AS s(shard) CROSS JOIN LATERAL (
                  SELECT t.wake_at FROM @task t
                  WHERE t.shard = s.shard AND t.gate = g.gate AND t.wake_at < $5 AND {WAITS}
                  ORDER BY t.wake_at LIMIT 1) AS f)
         FROM unnest($2::text[]) WITH ORDINALITY AS g(gate, nth) ORDER BY g.nth"
    );
    let all_shards: Vec<Shard> = Shard::all().collect();
    let statement = Statement::rows(what, sql)
        .shards(shards(&all_shards))
        .texts(gates.iter().map(|gate| gate.to_string()))
        .big(before.min(TaskRow::NEVER).as_millis())
        .big(whole(at_most as u64))
        .big(TaskRow::NEVER.as_millis());
    all(&pool.ask_widely(statement).await?, what, |row| {
        Ok(GateWaiting {
            gate: row.string(0)?,
            due: usize::try_from(row.number(1)?).unwrap_or_default(),
            first: row.maybe_timestamp(2)?,
        })
    })
}

#[cfg(test)]
mod tests {
    use resurgam_postgres_server::Server;
    use resurgam_watchdog::test;

    use super::*;
    use crate::{Options, PostgresStore};

    /// How many rows a query for due tasks reads from the table of tasks and its indexes, and how
    /// many it answers with.
    async fn rows_read(pool: &Pool, runnable: &Runnable, limit: i64) -> (u64, u64) {
        let shards_of = shards(&Shard::all().collect::<Vec<_>>()).collect::<Vec<_>>();
        let sql = format!("EXPLAIN (ANALYZE, TIMING OFF) {}", due_tasks_sql(runnable));
        let statement = Statement::rows("explain", sql)
            .shards(shards_of.into_iter())
            .big(limit)
            .big(limit)
            .big(1_000_000)
            .names(&runnable.activities)
            .names(&runnable.queues)
            .names(&runnable.provides);
        let statement = with_scope(statement, &runnable.paused, &runnable.gates);
        let plan = pool.ask(statement).await.unwrap();
        let lines: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
        let (mut read, mut loops) = (0, 0);
        for line in &lines {
            if line.contains("->") {
                loops = 0;
            }
            if line.contains(" on task") {
                loops = number(line, "loops=");
                // What is told is an average that is rounded.
                read += (2 * number(line, "actual rows=") + 1) * loops / 2;
            } else if line.contains("Rows Removed by") {
                read += number(line, ": ") * loops;
            }
        }
        (read, number(&lines[0], "actual rows="))
    }

    fn number(line: &str, after: &str) -> u64 {
        let text = line.split(after).nth(1).unwrap_or_default();
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or_default()
    }

    #[test]
    async fn a_scan_reads_at_most_two_rows_for_each_that_it_answers_with() {
        let database = Server::shared().database().await;
        let few = Options::default().lanes(1).readers(1);
        let store = PostgresStore::connect(&database.url(), few).await.unwrap();
        let pool = &store.inner.readers;
        let sql = "INSERT INTO @task (shard, uid, run, seq, name, queue, gate, priority, policy,
                                      attempt, wake_at, progress)
             SELECT n % 256, gen_random_uuid(), 1, 1, 'charge', 'default',
                    CASE WHEN n <= 20000 THEN 'stripe' ELSE 'charge' END, 0, 'p', 0, n, '{}'
             FROM generate_series(1, 22000) AS n";
        pool.ask(Statement::rows("insert", sql)).await.unwrap();
        let gates = GateScope::Except(["stripe".to_string()].into());
        let runnable = Runnable { gates, ..Runnable::default() };
        let (read, found) = rows_read(pool, &runnable, 10_000).await;
        assert_eq!(found, 2_000);
        println!("{read} rows read for {found}");
        assert!(read <= 2 * found, "{read} rows read for {found}");
        let gates = GateScope::Only([("stripe".to_string(), 500)].into());
        let (read, found) = rows_read(pool, &Runnable { gates, ..Runnable::default() }, 2).await;
        // Of each shard no more than is asked for, as rounded here.
        assert!(found == 2 && read <= 3 * 256, "{read} rows read for {found}");
    }
}
