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
use resurgam_store::{Error, Result, Runnable};

use crate::decode::{Columns, Decoded, Fetched};
use crate::encode::whole;
use crate::pool::Pool;
use crate::statement::Statement;

const SHARED: &str = "
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
        FROM waiting w WHERE w.queue IS NOT NULL)
    SELECT t.uid, t.run, t.seq, t.wake_at FROM waiting w
    CROSS JOIN LATERAL (
        SELECT uid, run, seq, wake_at, priority FROM @task
        WHERE shard = w.shard AND queue = w.queue AND claimed_by IS NULL AND bad IS NULL
          AND ($4::text[] IS NULL OR name = ANY($4))
          AND strpos(progress, '\"lacks\":') = 0 AND strpos(progress, '\"poison\":') = 0
        ORDER BY wake_at LIMIT $3) AS t
    WHERE w.queue IS NOT NULL AND NOT w.queue = ANY(w.queues)
      AND ($5::text[] IS NULL OR w.queue = ANY($5))
    ORDER BY t.wake_at > $2, CASE WHEN t.wake_at > $2 THEN 0 ELSE t.priority END DESC,
             t.wake_at, t.uid, t.seq LIMIT $3";

const LACKING: &str = "
    SELECT t.uid, t.run, t.seq, t.wake_at FROM @task t
    WHERE t.claimed_by IS NULL AND t.bad IS NULL AND strpos(t.progress, '\"lacks\":') > 0
      AND strpos(t.progress, '\"poison\":') = 0
      AND ($5::text[] IS NULL OR EXISTS (
           SELECT 1 FROM unnest($5::text[]) AS u(mark) WHERE strpos(t.progress, u.mark) > 0))
      AND ($3::text[] IS NULL OR t.name = ANY($3))
      AND ($4::text[] IS NULL OR t.queue = ANY($4))
    ORDER BY t.wake_at > $1, CASE WHEN t.wake_at > $1 THEN 0 ELSE t.priority END DESC,
             t.wake_at, t.uid, t.seq LIMIT $2";

/// The first of the calls that may kill their process, whatever makes their holder leave them.
const POISON: &str = "
    SELECT t.uid, t.run, t.seq, t.wake_at FROM @task t
    JOIN @shard s ON s.shard = t.shard
    LEFT JOIN @node n ON n.node = s.owner
    WHERE t.claimed_by IS NULL AND t.bad IS NULL AND strpos(t.progress, '\"poison\":') > 0
      AND CASE WHEN strpos(t.progress, '\"lacks\":') > 0
          THEN $5::text[] IS NULL OR EXISTS (
               SELECT 1 FROM unnest($5::text[]) AS u(mark) WHERE strpos(t.progress, u.mark) > 0)
          ELSE n.node <> $1 AND n.queues IS NOT NULL AND NOT t.queue = ANY(n.queues) END
      AND ($3::text[] IS NULL OR t.name = ANY($3))
      AND ($4::text[] IS NULL OR t.queue = ANY($4))
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
    let look = Statement::rows(what, SHARED)
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
        rows.extend(pool.ask_widely(poison).await?);
    }
    rows.extend(pool.ask_widely(look).await?);
    if runnable.provides.as_ref().is_none_or(|provides| !provides.is_empty()) {
        let lacking = Statement::rows(what, LACKING)
            .big(now.as_millis())
            .big(whole(limit as u64))
            .names(&runnable.activities)
            .names(&runnable.queues)
            .names(&runnable.provides.as_ref().map(mark));
        rows.extend(pool.ask_widely(lacking).await?);
    }
    let found = |row: Fetched<'_>| Ok((decode::call(&row)?, row.timestamp(3)?));
    let found: Decoded<Vec<(CallKey, Timestamp)>> = rows.iter().map(Fetched).map(found).collect();
    let found = found.map_err(|why| Error::data(what).because(why))?;
    let next = found.iter().map(|(_, wake_at)| *wake_at).filter(|at| *at > now).min();
    let due = found.into_iter().filter(|(_, wake_at)| *wake_at <= now).map(|(call, _)| call);
    Ok((due.take(limit).collect(), next))
}
