//! Tasks that the holder of a shard leaves to others: it does not serve their queue, or lacks what
//! they need.
//!
//! Which queues a shard has tasks in is found by hopping along the index from one to the next. So
//! nobody looks at the tasks that the holder runs itself, however many wait there. Tasks that lack
//! something, in whatever queue, have an index of their own, and only who has it finds them: also
//! in its own shards, which it may hold since somebody else found that something is missing. Calls
//! that may kill their process have one, too: of those a node claims one at a time.

use std::sync::Arc;

use resurgam_core::{CallKey, Timestamp};
use resurgam_store::decode;
use resurgam_store::rows::Progress;
use resurgam_store::{Error, GateScope, Quota, Result, Runnable};

use super::gates::{gates_of, with_scope};
use crate::decode::{Columns, Decoded, Fetched};
use crate::encode::whole;
use crate::pool::Pool;
use crate::statement::Statement;

/// The queues that tasks wait in of shards whose holder does not serve all.
const WAITING: &str = "
    WITH RECURSIVE elsewhere AS (
        SELECT s.shard, n.queues FROM @shard s JOIN @node n ON n.node = s.owner
        WHERE n.node <> $1 AND n.queues IS NOT NULL),
    waiting AS (
        SELECT e.shard, e.queues, (
            SELECT t.queue FROM @task t
            WHERE t.shard = e.shard AND t.claimed_by IS NULL AND t.bad IS NULL
            ORDER BY t.queue LIMIT 1) AS queue
        FROM elsewhere e
        UNION ALL
        SELECT w.shard, w.queues, (
            SELECT t.queue FROM @task t
            WHERE t.shard = w.shard AND t.queue > w.queue AND t.claimed_by IS NULL
              AND t.bad IS NULL
            ORDER BY t.queue LIMIT 1)
        FROM waiting w WHERE w.queue IS NOT NULL)";

/// Which of those are left to others that serve them.
const LEFT: &str = "w.queue IS NOT NULL AND NOT w.queue = ANY(w.queues)
      AND ($5::text[] IS NULL OR w.queue = ANY($5))";

/// Which of their tasks can be run here.
const CAN_RUN: &str =
    "claimed_by IS NULL AND bad IS NULL AND ($4::text[] IS NULL OR name = ANY($4))
    AND strpos(progress, '\"lacks\":') = 0 AND strpos(progress, '\"poison\":') = 0";

const ORDER: &str =
    "ORDER BY t.wake_at > $2, CASE WHEN t.wake_at > $2 THEN 0 ELSE t.priority END DESC,
             t.wake_at, t.uid, t.seq LIMIT $3";

/// True when no gate is left out and nothing is paused.
fn is_plain(runnable: &Runnable) -> bool {
    runnable.gates == GateScope::All && runnable.paused.is_empty()
}

/// The query for tasks of queues that others leave.
fn shared_sql(runnable: &Runnable) -> String {
    if is_plain(runnable) {
        return format!(
            "{WAITING}
             SELECT t.uid, t.run, t.seq, t.wake_at, t.gate FROM waiting w
             CROSS JOIN LATERAL (
                 SELECT uid, run, seq, wake_at, gate, priority FROM @task
                 WHERE shard = w.shard AND queue = w.queue AND {CAN_RUN}
                 ORDER BY wake_at LIMIT $3) AS t
             WHERE {LEFT} {ORDER}"
        );
    }
    let left = format!(
        "places AS (SELECT w.shard, w.queue FROM waiting w
             WHERE {LEFT} AND NOT w.queue = ANY($7::text[]))"
    );
    let (gates, of_gate, scope) = match runnable.gates {
        GateScope::All => ("gates AS (SELECT * FROM places)".to_string(), "", "true"),
        GateScope::Except(_) => (
            gates_of("places", "AND t.queue = p.queue"),
            "AND gate = p.gate",
            "NOT p.gate = ANY($8::text[])",
        ),
        GateScope::Only(_) => (
            "gates AS (SELECT p.shard, p.queue, g.gate
                       FROM places p CROSS JOIN unnest($8::text[]) AS g(gate))"
                .to_string(),
            "AND gate = p.gate",
            "true",
        ),
    };
    format!(
        "{WAITING}, {left}, {gates}
         SELECT t.uid, t.run, t.seq, t.wake_at, t.gate FROM gates p
         CROSS JOIN LATERAL (
             SELECT uid, run, seq, wake_at, gate, priority FROM @task
             WHERE shard = p.shard AND queue = p.queue {of_gate} AND {CAN_RUN}
               AND NOT name = ANY($6::text[])
             ORDER BY wake_at LIMIT $3) AS t
         WHERE {scope} {ORDER}"
    )
}

const LACKING: &str = "
    SELECT t.uid, t.run, t.seq, t.wake_at, t.gate FROM @task t
    WHERE t.claimed_by IS NULL AND t.bad IS NULL AND strpos(t.progress, '\"lacks\":') > 0
      AND strpos(t.progress, '\"poison\":') = 0
      AND ($5::text[] IS NULL OR EXISTS (
           SELECT 1 FROM unnest($5::text[]) AS u(mark) WHERE strpos(t.progress, u.mark) > 0))
      AND ($3::text[] IS NULL OR t.name = ANY($3))
      AND ($4::text[] IS NULL OR t.queue = ANY($4))
      AND NOT t.name = ANY($6::text[]) AND NOT t.queue = ANY($7::text[])
      AND (array_length($9::bigint[], 1) IS NULL AND ($8::text[] IS NULL OR NOT t.gate = ANY($8))
           OR array_length($9, 1) > 0 AND t.gate = ANY($8))
    ORDER BY t.wake_at > $1, CASE WHEN t.wake_at > $1 THEN 0 ELSE t.priority END DESC,
             t.wake_at, t.uid, t.seq LIMIT $2";

/// The first of the calls that may kill their process, whatever makes their holder leave them.
const POISON: &str = "
    SELECT t.uid, t.run, t.seq, t.wake_at, t.gate FROM @task t
    JOIN @shard s ON s.shard = t.shard
    LEFT JOIN @node n ON n.node = s.owner
    WHERE t.claimed_by IS NULL AND t.bad IS NULL AND strpos(t.progress, '\"poison\":') > 0
      AND CASE WHEN strpos(t.progress, '\"lacks\":') > 0
          THEN $5::text[] IS NULL OR EXISTS (
               SELECT 1 FROM unnest($5::text[]) AS u(mark) WHERE strpos(t.progress, u.mark) > 0)
          ELSE n.node <> $1 AND n.queues IS NOT NULL AND NOT t.queue = ANY(n.queues) END
      AND ($3::text[] IS NULL OR t.name = ANY($3))
      AND ($4::text[] IS NULL OR t.queue = ANY($4))
      AND NOT t.name = ANY($6::text[]) AND NOT t.queue = ANY($7::text[])
      AND (array_length($9::bigint[], 1) IS NULL AND ($8::text[] IS NULL OR NOT t.gate = ANY($8))
           OR array_length($9, 1) > 0 AND t.gate = ANY($8))
    ORDER BY t.wake_at > $2, CASE WHEN t.wake_at > $2 THEN 0 ELSE t.priority END DESC,
             t.wake_at, t.uid, t.seq LIMIT 1";

/// Calls that wait, and that the holder of their shard leaves to others: those that are due, and
/// when the first of the rest is.
pub(crate) async fn shared_tasks(
    pool: &Pool,
    node: &str,
    runnable: &Runnable,
    now: Timestamp,
    limit: usize,
) -> Result<(Vec<CallKey>, Option<Timestamp>)> {
    let what = "look for tasks that others leave";
    if runnable.gates == GateScope::Only(Arc::default()) {
        return Ok((Vec::new(), None));
    }
    let scoped = |statement| with_scope(statement, &runnable.paused, &runnable.gates);
    let look = Statement::rows(what, shared_sql(runnable))
        .text(node)
        .big(now.as_millis())
        .big(whole(limit as u64))
        .names(&runnable.activities)
        .names(&runnable.queues);
    let mark = |provides: &Arc<[String]>| -> Arc<[String]> {
        provides.iter().map(|what| Progress::lacking(what)).collect()
    };
    let mut rows = Vec::new();
    if !runnable.no_poison {
        let poison = Statement::rows(what, POISON)
            .text(node)
            .big(now.as_millis())
            .names(&runnable.activities)
            .names(&runnable.queues)
            .names(&runnable.provides.as_ref().map(mark));
        // Before the others, which may be many without an end.
        rows.extend(pool.ask_widely(scoped(poison)).await?);
    }
    let look = if is_plain(runnable) { look } else { scoped(look) };
    rows.extend(pool.ask_widely(look).await?);
    if runnable.provides.as_ref().is_none_or(|provides| !provides.is_empty()) {
        let lacking = Statement::rows(what, LACKING)
            .big(now.as_millis())
            .big(whole(limit as u64))
            .names(&runnable.activities)
            .names(&runnable.queues)
            .names(&runnable.provides.as_ref().map(mark));
        rows.extend(pool.ask_widely(scoped(lacking)).await?);
    }
    let found = |row: Fetched<'_>| Ok((decode::call(&row)?, row.timestamp(3)?, row.string(4)?));
    let found: Decoded<Vec<(CallKey, Timestamp, String)>> =
        rows.iter().map(Fetched).map(found).collect();
    let found = found.map_err(|why| Error::data(what).because(why))?;
    let next = found.iter().map(|(_, wake_at, _)| *wake_at).filter(|at| *at > now).min();
    let mut quota = Quota::of(&runnable.gates);
    let due = found.iter().filter(|(_, wake_at, _)| *wake_at <= now);
    let due = due.filter(|(_, _, gate)| quota.takes(gate)).map(|(call, ..)| *call);
    Ok((due.take(limit).collect(), next))
}
