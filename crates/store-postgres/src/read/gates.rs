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
const IS_DUE: &str = "claimed_by IS NULL AND bad IS NULL AND wake_at < $3
    AND ($4::text[] IS NULL OR name = ANY($4)) AND ($5::text[] IS NULL OR queue = ANY($5))
    AND ($6::text[] IS NULL OR strpos(progress, '\"lacks\":') = 0)
    AND NOT name = ANY($7::text[]) AND NOT queue = ANY($8::text[])";

const COLUMNS: &str = "uid, run, seq, wake_at, queue, name, priority, gate";

/// Where nothing more is to be said about a task than that it waits.
const WAITS: &str = "t.claimed_by IS NULL AND t.bad IS NULL";

/// The query for due tasks.
///
/// A *place* is a part of an index that is read in the order of time: a shard, of one queue or of
/// one gate where that is asked for. What is earliest in all of them is found by reading little
/// more than that:
///
/// | it reads | of which places |
/// |---|---|
/// | the first row | of all |
/// | an even share of what is asked for, and a little more | of those that have any |
/// | what follows | of those whose share is all among the earliest: there may be more in it |
///
/// Of tasks that are spread over shards as uids are, at most two rows are read for each that is
/// found; three where most of them are in one shard.
///
/// What is asked for apart (so many of each gate) is a *line*, which is shared out by itself.
pub(super) fn due_tasks_sql(runnable: &Runnable) -> String {
    let of_queue = if runnable.queues.is_some() { "AND t.queue = p.queue" } else { "" };
    let of_gate = if runnable.gates == GateScope::All { "" } else { "AND t.gate = p.gate" };
    format!(
        "WITH RECURSIVE {heads},
         shared AS (
             SELECT *, most::float8 / count(*) OVER (PARTITION BY line) AS even FROM heads),
         places AS (SELECT *, ceil(even + sqrt(even))::bigint AS part FROM shared),
         early AS MATERIALIZED (
             SELECT p.shard, p.queue AS of_queue, p.gate AS of_gate, p.line, p.most, p.part, t.*,
                    row_number() OVER (PARTITION BY p.line ORDER BY t.wake_at) AS nth,
                    count(*) OVER place AS count, max(t.wake_at) OVER place AS last
             FROM places p CROSS JOIN LATERAL (
                 SELECT {COLUMNS} FROM @task t WHERE {of_place} AND {IS_DUE}
                 ORDER BY t.wake_at LIMIT p.part) AS t
             WINDOW place AS (PARTITION BY p.shard, p.queue, p.gate)),
         enough AS (SELECT line, wake_at FROM early WHERE nth = most),
         judged AS (
             SELECT e.*, n.wake_at AS enough,
                    e.count = e.part AND (n.wake_at IS NULL OR e.last < n.wake_at) AS is_cut
             FROM early e LEFT JOIN enough n ON n.line = e.line),
         cut AS (
             SELECT DISTINCT shard, of_queue AS queue, of_gate AS gate, line, most, last, enough
             FROM judged WHERE is_cut),
         found AS (
             SELECT {COLUMNS}, line, most FROM judged WHERE NOT is_cut OR wake_at < last
             UNION ALL
             SELECT t.*, p.line, p.most FROM cut p CROSS JOIN LATERAL (
                 SELECT {COLUMNS} FROM @task t WHERE {of_place} AND {IS_DUE}
                   AND t.wake_at >= p.last AND t.wake_at <= coalesce(p.enough, $3)
                 ORDER BY t.wake_at LIMIT p.most) AS t)
         SELECT {COLUMNS} FROM (
             SELECT *, row_number() OVER (PARTITION BY line ORDER BY wake_at, uid, seq) AS nth
             FROM found) AS t
         WHERE nth <= most ORDER BY wake_at, gate, uid, seq LIMIT $2",
        heads = heads(runnable, of_queue),
        of_place = format!("t.shard = p.shard {of_queue} {of_gate}"),
    )
}

/// The places that have due tasks.
fn heads(runnable: &Runnable, of_queue: &str) -> String {
    let areas = match runnable.queues {
        Some(_) => {
            "SELECT s.shard, q.queue FROM unnest($1::smallint[]) AS s(shard)
             CROSS JOIN (SELECT DISTINCT queue FROM unnest($5::text[]) AS u(queue)) AS q"
        }
        None => "SELECT s.shard, NULL::text FROM unnest($1::smallint[]) AS s(shard)",
    };
    let first = |of_gate: &str| {
        format!(
            "CROSS JOIN LATERAL (
                 SELECT 1 FROM @task t
                 WHERE t.shard = p.shard {of_queue} {of_gate} AND {WAITS} AND t.wake_at < $3
                 ORDER BY t.wake_at LIMIT 1) AS f"
        )
    };
    let heads = match runnable.gates {
        GateScope::All => format!(
            "SELECT p.shard, p.queue, NULL::text AS gate, '' AS line, $2 AS most FROM areas p {}",
            first("")
        ),
        GateScope::Except(_) => "SELECT p.shard, p.queue, p.gate, '' AS line, $2 AS most
             FROM gates p WHERE p.wake_at < $3 AND NOT p.gate = ANY($9)"
            .to_string(),
        GateScope::Only(_) => format!(
            "SELECT p.shard, p.queue, p.gate, p.gate AS line, least($2, p.most) AS most
             FROM (SELECT a.*, g.* FROM areas a
                   CROSS JOIN unnest($9::text[], $10::bigint[]) AS g(gate, most)) AS p {}",
            first("AND t.gate = p.gate")
        ),
    };
    let gates = match runnable.gates {
        GateScope::Except(_) => format!("{}, ", gates_of("areas", of_queue)),
        _ => String::new(),
    };
    format!("areas(shard, queue) AS ({areas}), {gates}heads AS ({heads})")
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
        let read = "(SELECT sum(pg_stat_get_xact_tuples_returned(relation)) FROM (
             SELECT indexrelid::oid FROM pg_index WHERE indrelid = '@task'::regclass
             UNION ALL SELECT '@task'::regclass::oid) AS t(relation))";
        let sql = format!(
            "WITH before AS MATERIALIZED (SELECT {read} AS read),
                  answer AS MATERIALIZED (
                      SELECT count(*) AS found FROM ({}) AS t
                      WHERE (SELECT read FROM before) IS NOT NULL)
             SELECT found, (CASE WHEN found >= 0 THEN {read} END
                            - (SELECT read FROM before))::bigint FROM answer",
            due_tasks_sql(runnable)
        );
        let statement = Statement::rows("count what is read", sql)
            .shards(shards_of.into_iter())
            .big(limit)
            .big(1_000_000)
            .names(&runnable.activities)
            .names(&runnable.queues)
            .names(&runnable.provides);
        let statement = with_scope(statement, &runnable.paused, &runnable.gates);
        let counted = pool.ask(statement).await.unwrap();
        let number = |index| counted[0].get::<_, i64>(index).unsigned_abs();
        (number(1), number(0))
    }

    async fn store() -> PostgresStore {
        let database = Server::shared().database().await;
        let few = Options::default().lanes(1).readers(1);
        PostgresStore::connect(&database.url(), few).await.unwrap()
    }

    /// Stores tasks, one for each of these numbers, with this shard, gate and time.
    async fn store_tasks(pool: &Pool, most: u32, shard: &str, gate: &str, wake_at: &str) {
        let sql = format!(
            "INSERT INTO @task (shard, uid, run, seq, name, queue, gate, priority, policy,
                                attempt, wake_at, progress)
             SELECT {shard}, gen_random_uuid(), 1, 1, 'charge', 'default', {gate}, 0, 'p', 0,
                    {wake_at}, '{{}}'
             FROM generate_series(1, {most}) AS n"
        );
        pool.ask(Statement::rows("insert", sql)).await.unwrap();
        pool.ask(Statement::rows("analyze", "ANALYZE @task")).await.unwrap();
    }

    fn only(gate: &str, most: usize) -> GateScope {
        GateScope::Only([(gate.to_string(), most)].into())
    }

    fn except(gate: &str) -> GateScope {
        GateScope::Except([gate.to_string()].into())
    }

    #[test]
    async fn a_scan_reads_at_most_two_rows_for_each_that_it_answers_with() {
        let store = store().await;
        let pool = &store.inner.readers;
        let gate = "CASE WHEN n <= 20000 THEN 'stripe' ELSE 'charge' END";
        store_tasks(pool, 22_000, "n % 256", gate, "n").await;
        let runnable = Runnable { gates: except("stripe"), ..Runnable::default() };
        let (read, found) = rows_read(pool, &runnable, 10_000).await;
        assert_eq!(found, 2_000);
        assert!(read <= 2 * found, "{read} rows read for {found}");
        let runnable = Runnable { gates: only("stripe", 500), ..Runnable::default() };
        let (read, found) = rows_read(pool, &runnable, 2).await;
        // The first of each shard, twice, and hardly any more.
        assert!(found == 2 && read <= 2 * 256 + 2, "{read} rows read for {found}");
    }

    #[test]
    async fn a_long_queue_is_read_no_further_than_is_asked_for_however_its_shards_differ() {
        // As uids are; in a few shards; and most in one of them, of which no even share is enough.
        let shards = [
            ("hashint4(n) & 255", 2),
            ("hashint4(n) & 31", 2),
            ("CASE WHEN n % 4 = 0 THEN hashint4(n) & 255 ELSE 7 END", 3),
        ];
        for (shard, most_of_each) in shards {
            let store = store().await;
            let pool = &store.inner.readers;
            let gate = "CASE WHEN n % 50 = 0 THEN 'shut' ELSE 'charge' END";
            store_tasks(pool, 51_000, shard, gate, "(hashint4(n + 1) & 65535) * 10").await;
            for limit in [10_000, 1_000] {
                let most = usize::try_from(limit).unwrap();
                for gates in [GateScope::All, except("shut"), only("charge", most)] {
                    let runnable = Runnable { gates: gates.clone(), ..Runnable::default() };
                    let (read, found) = rows_read(pool, &runnable, limit).await;
                    assert_eq!(found, limit.unsigned_abs(), "{shard}, {gates:?}");
                    // In each shard the search for gates lands on the one that is left out.
                    let landings = if gates == except("shut") { 256 } else { 0 };
                    let most = most_of_each * found + landings;
                    eprintln!("{shard}, {gates:?}: {read} rows read for {found}");
                    assert!(read <= most, "{shard}, {gates:?}: {read} read for {found}");
                }
            }
        }
    }
}
