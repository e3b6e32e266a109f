//! Claims of tasks whose shard another node holds, which does not serve their queue; and of tasks
//! that lack something, whoever holds their shard.
//!
//! It is the one change of a task that somebody else than the holder makes. While it is made the
//! shard cannot change hands, so that no holder that serves the queue claims the same task; who
//! wants the same one skips it. As with every commit the answer may be lost, and the number of the
//! lane says then whether the claims are there: one that nobody knows of would never be run.

use resurgam_core::{CallKey, Timestamp};
use resurgam_store::decode::{self, TASK};
use resurgam_store::rows::{Claim, TaskRow};
use resurgam_store::{Error, Result};

use super::lane::{Fate, Lane, alive, refused};
use super::plan::Plan;
use super::task;
use crate::decode::Fetched;
use crate::encode::{token, whole};
use crate::statement::Statement;

/// Why a task is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimFor {
    /// Its next attempt is to run.
    Run,
    /// The same, although its gate does not flow.
    Probe,
    /// It is to end, and nobody is to run it meanwhile.
    End,
}

const FREE: &str = "
    JOIN unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::bigint[]) AS u(shard, uid, run, seq)
      ON t.shard = u.shard AND t.uid = u.uid AND t.run = u.run AND t.seq = u.seq
    JOIN @shard s ON s.shard = t.shard
    JOIN @node n ON n.node = s.owner
    WHERE t.claimed_by IS NULL AND t.bad IS NULL
      AND (n.queues IS NOT NULL AND NOT t.queue = ANY(n.queues)
           OR strpos(t.progress, '\"lacks\":') > 0)
    ORDER BY t.priority DESC, t.wake_at, t.uid, t.seq
    FOR SHARE OF s FOR UPDATE OF t SKIP LOCKED";

/// A task of a shard that the asking node holds, which another one has claimed. Whoever ends it
/// just now is waited for.
const CLAIMED: &str = "
    JOIN @shard s ON s.shard = t.shard
    WHERE t.shard = $1 AND t.uid = $2 AND t.run = $3 AND t.seq = $4 AND t.token = $5
      AND s.owner = $6 AND t.bad IS NULL
    FOR SHARE OF s FOR UPDATE OF t";

impl Lane {
    /// Claims a task that another node has claimed with this token, so that nobody runs it.
    pub(crate) async fn take_over(
        &mut self,
        node: &str,
        call: CallKey,
        claimed: u64,
        now: Timestamp,
    ) -> Result<Option<TaskRow>> {
        let sql = format!("SELECT {TASK} FROM (SELECT t.* FROM @task t {CLAIMED}) AS claimed");
        let found = Statement::rows("lock a task", sql)
            .uid(call.run.uid)
            .big(i64::from(call.run.run))
            .big(whole(call.seq.0))
            .big(token(claimed))
            .text(node);
        Ok(self.claim_found(node, found, now, ClaimFor::End).await?.pop())
    }

    /// Claims those of these tasks that are still free, for a node that is alive.
    pub(crate) async fn claim_shared(
        &mut self,
        node: &str,
        calls: &[CallKey],
        now: Timestamp,
        claim_for: ClaimFor,
    ) -> Result<Vec<TaskRow>> {
        let sql = format!("SELECT {TASK} FROM (SELECT t.* FROM @task t {FREE}) AS free");
        let free = Statement::rows("lock tasks", sql).calls(calls.iter().copied());
        self.claim_found(node, free, now, claim_for).await
    }

    /// Claims the tasks that a statement finds and locks, for a node that is alive.
    async fn claim_found(
        &mut self,
        node: &str,
        free: Statement<'_>,
        now: Timestamp,
        claim_for: ClaimFor,
    ) -> Result<Vec<TaskRow>> {
        let client = self.ready().await?;
        let mut before = self.before(&Plan::default(), None, &client)?;
        before.push(alive(node));
        let (client, rows) = self.ask_inside(client, &before, &[free]).await?;
        // One that cannot be read is left for the holder, which sets it aside.
        let free = rows.iter().flatten().filter_map(|row| decode::task(&Fetched(row)).ok());
        let claimed: Vec<TaskRow> = free.map(|task| claim(task, node, now, claim_for)).collect();
        if claimed.is_empty() {
            self.roll_back(Some(client)).await;
            return Ok(Vec::new());
        }
        self.batches.sent();
        let rows: Vec<&TaskRow> = claimed.iter().collect();
        let ending = self.transaction(&client, None, &[&task::update(&rows)]).await;
        match self.ended(client, ending, &mut false).await? {
            Some(Fate::Written) => {
                self.shared.counters.add(claimed.len() as u64);
                Ok(claimed)
            }
            Some(Fate::Refused(part, error)) => Err(refused(part, error)),
            None => Err(Error::transient("claim tasks: the connection ended before the commit")),
        }
    }
}

/// The next attempt of a task is a node's.
fn claim(mut task: TaskRow, node: &str, now: Timestamp, claim_for: ClaimFor) -> TaskRow {
    task.attempt = task.attempt.saturating_add(1);
    task.progress.first_started.get_or_insert(now);
    task.progress.lacks = None;
    task.progress.to_end = claim_for == ClaimFor::End;
    task.progress.probing = claim_for == ClaimFor::Probe;
    task.deadline_at = None;
    // Remote workers know those of their attempts, and are not to guess others.
    let token = getrandom::u64().unwrap_or_else(|_| fastrand::u64(..)).max(1);
    task.claim = Some(Claim { node: node.to_string(), token, started_at: now });
    task
}
