//! Tasks that the holder of a shard leaves to others, and attempts that end their call themselves.
//!
//! A holder leaves a task when it does not serve its queue, or when the task lacks what the node
//! that last looked at it did not have. Whoever can run it claims it; that is the one change of a
//! task that somebody else than the holder makes, beside the end of an attempt in a transaction of
//! its own.

use std::cmp::Reverse;

use resurgam_core::{CallKey, Timestamp};

use super::transaction::Transaction;
use super::work::is_served;
use super::{Model, Sharing};
use crate::rows::{Claim, MessageRow, TaskRow};
use crate::{Error, Quota, Result, Runnable};

/// Tasks that were found: those that are due, and when the first of the others is.
#[derive(Default)]
struct Found<'m> {
    due: Vec<&'m TaskRow>,
    next: Option<Timestamp>,
}

impl Model {
    /// Claims tasks for a node that other holders leave, those that are due by now and can be run
    /// here, and says when the next one is due. `token` gives each claim its token. Fenced when
    /// the node is not there. See [`Work::claim_shared`](crate::Work::claim_shared).
    pub fn claim_shared(
        &mut self,
        node: &str,
        runnable: &Runnable,
        now: Timestamp,
        limit: usize,
        mut token: impl FnMut() -> u64,
    ) -> Result<(Vec<TaskRow>, Option<Timestamp>)> {
        if self.sharing == Sharing::OneNode {
            return Ok((Vec::new(), None));
        }
        let mut found = self.left_by_holders(node, runnable, now, limit);
        self.add_lacking(runnable, now, limit, &mut found);
        found.due.sort_by_key(|row| order(row));
        let poison = self.first_poison(node, runnable, now).filter(|_| !runnable.no_poison);
        let (poison, later) = match poison {
            Some(row) if row.wake_at > now => (None, Some(row.wake_at)),
            poison => (poison, None),
        };
        // Before the others, which may be many without an end.
        let due = poison.into_iter().chain(found.due.iter().copied());
        let mut quota = Quota::of(&runnable.gates);
        let due = due.filter(|row| quota.takes(&row.gate));
        let calls: Vec<CallKey> = due.take(limit).map(|row| row.call).collect();
        let next = found.next.into_iter().chain(later).min();
        let mut claimed = Vec::with_capacity(calls.len());
        for call in calls {
            let Some(mut row) = self.claim(node, call, now, &mut token)? else { continue };
            row.progress.probing = runnable.probing;
            self.tables.tasks.put(call, Some(row.clone()));
            claimed.push(row);
        }
        Ok((claimed, next))
    }

    /// Claims one such task by its key so that nobody runs it while it ends, whatever its queue and
    /// whether it is due, unless somebody has claimed it. Fenced when the node is not there.
    pub fn claim_shared_call(
        &mut self,
        node: &str,
        call: CallKey,
        now: Timestamp,
        token: impl FnOnce() -> u64,
    ) -> Result<Option<TaskRow>> {
        match self.sharing {
            Sharing::OneNode => Ok(None),
            Sharing::ManyNodes => {
                let Some(mut row) = self.claim(node, call, now, token)? else { return Ok(None) };
                row.progress.to_end = true;
                self.tables.tasks.put(call, Some(row.clone()));
                Ok(Some(row))
            }
        }
    }

    /// Claims a task of a shard that this node holds and that another node has claimed with this
    /// token, so that the attempt there cannot end the call. Fenced when the node is not there.
    pub fn take_over(
        &mut self,
        node: &str,
        call: CallKey,
        token: u64,
        now: Timestamp,
        new: impl FnOnce() -> u64,
    ) -> Result<Option<TaskRow>> {
        self.must_be_there(node, || format!("take the claim of call {call} over"))?;
        let is_held = self.members.holder(call.run.uid.shard()).is_some_and(|it| it.name == node);
        let is_other =
            self.sharing == Sharing::ManyNodes && is_held && self.is_claimed(call, token);
        let found = self.tables.tasks.get(call).filter(|_| is_other).cloned();
        Ok(found.map(|mut row| {
            row.attempt = row.attempt.saturating_add(1);
            row.progress.to_end = true;
            row.claim = Some(Claim { node: node.to_string(), token: new(), started_at: now });
            self.tables.tasks.put(call, Some(row.clone()));
            row
        }))
    }

    fn claim(
        &mut self,
        node: &str,
        call: CallKey,
        now: Timestamp,
        token: impl FnOnce() -> u64,
    ) -> Result<Option<TaskRow>> {
        self.must_be_there(node, || format!("claim call {call}"))?;
        let free = self.tables.tasks.get(call).filter(|row| self.is_left(row));
        let Some(mut row) = free.cloned() else { return Ok(None) };
        row.attempt = row.attempt.saturating_add(1);
        row.progress.first_started.get_or_insert(now);
        row.progress.lacks = None;
        row.progress.probing = false;
        row.deadline_at = None;
        row.claim = Some(Claim { node: node.to_string(), token: token(), started_at: now });
        self.tables.tasks.put(call, Some(row.clone()));
        Ok(Some(row))
    }

    /// Whether a task waits, and the holder of its shard is there and leaves it.
    fn is_left(&self, row: &TaskRow) -> bool {
        let Some(holder) = self.members.holder(row.call.run.uid.shard()) else { return false };
        let serves = holder.queues.as_ref().is_none_or(|queues| queues.contains(&row.queue));
        row.claim.is_none() && (!serves || row.progress.lacks.is_some())
    }

    /// Tasks of queues that the holders of their shards do not serve, and that lack nothing.
    fn left_by_holders(
        &self,
        node: &str,
        runnable: &Runnable,
        now: Timestamp,
        limit: usize,
    ) -> Found<'_> {
        let mut found = Found::default();
        if !self.members.leave_tasks() {
            return found;
        }
        let is_wanted = |row: &&TaskRow| {
            self.is_elsewhere(row, node)
                && row.progress.lacks.is_none()
                && !row.progress.poison
                && is_served(row, runnable)
                && runnable.gates.has(&row.gate)
        };
        let mut queue = self.tables.tasks.queue_after(None);
        while let Some(name) = queue {
            if runnable.queues.as_ref().is_none_or(|queues| queues.iter().any(|own| own == name)) {
                found.add(self.tables.tasks.in_queue(name).filter(is_wanted), now, limit);
            }
            queue = self.tables.tasks.queue_after(Some(name));
        }
        found
    }

    /// Tasks of all shards that lack what is here.
    fn add_lacking<'m>(
        &'m self,
        runnable: &Runnable,
        now: Timestamp,
        limit: usize,
        found: &mut Found<'m>,
    ) {
        let is_wanted = |row: &&TaskRow| {
            let lacks = row.progress.lacks.as_ref();
            lacks.is_some_and(|lacks| is_here(lacks, runnable))
                && !row.progress.poison
                && is_served(row, runnable)
                && runnable.gates.has(&row.gate)
        };
        found.add(self.tables.tasks.lacking().filter(is_wanted), now, limit);
    }

    /// The first of the tasks that may kill their process, of those that can be run here: one that
    /// is due, otherwise the one that is next.
    fn first_poison(&self, node: &str, runnable: &Runnable, now: Timestamp) -> Option<&TaskRow> {
        let is_left = |row: &&TaskRow| match &row.progress.lacks {
            Some(lacks) => is_here(lacks, runnable),
            None => self.is_elsewhere(row, node),
        };
        let poison = self.tables.tasks.waiting().filter(|row| row.progress.poison);
        let poison = poison.filter(is_left).filter(|row| is_served(row, runnable));
        let poison = poison.filter(|row| runnable.gates.has(&row.gate));
        poison.min_by_key(|row| {
            let (Reverse(priority), wake_at, call) = order(row);
            match wake_at > now {
                true => (true, Reverse(0), wake_at, call),
                false => (false, Reverse(priority), wake_at, call),
            }
        })
    }

    /// Whether another node holds the shard of a task and does not serve its queue.
    fn is_elsewhere(&self, row: &TaskRow, node: &str) -> bool {
        let holder = self.members.holder(row.call.run.uid.shard());
        let queues = holder.filter(|holder| holder.name != node);
        let queues = queues.and_then(|holder| holder.queues.as_ref());
        queues.is_some_and(|queues| !queues.contains(&row.queue))
    }

    /// Whether the task of a call carries this token: the attempt that has it may still end it.
    pub fn is_claimed(&self, call: CallKey, token: u64) -> bool {
        let claim = self.tables.tasks.get(call).and_then(|row| row.claim.as_ref());
        claim.is_some_and(|claim| claim.token == token)
    }

    /// Ends a call as an attempt does that writes to the user's own tables: if its task still
    /// carries the token, the task goes and the message is stored, otherwise nothing changes and
    /// the answer is false. Fenced when the node is not there. See
    /// [`Tables::transact`](crate::Tables::transact).
    pub fn end_claimed(
        &mut self,
        node: &str,
        call: CallKey,
        token: u64,
        message: &MessageRow,
    ) -> Result<bool> {
        self.must_be_there(node, || format!("run the transaction of call {call}"))?;
        if !self.is_claimed(call, token) {
            return Ok(false);
        }
        let mut transaction = Transaction::begin(&mut self.tables);
        transaction.deliver(message);
        transaction.end_task(call)?;
        transaction.keep();
        Ok(true)
    }

    fn must_be_there(&self, node: &str, what: impl Fn() -> String) -> Result<()> {
        match self.members.has(node) {
            true => Ok(()),
            false => Err(Error::fenced(format!("{}: node {node} is not there", what()))),
        }
    }
}

/// In which order tasks that are due are claimed.
fn order(row: &TaskRow) -> (Reverse<i32>, Timestamp, CallKey) {
    (Reverse(row.priority), row.wake_at, row.call)
}

/// Whether what a task lacks is here.
fn is_here(lacks: &str, runnable: &Runnable) -> bool {
    runnable.provides.as_ref().is_none_or(|provides| provides.iter().any(|own| own == lacks))
}

impl<'m> Found<'m> {
    /// Adds tasks that come in the order of their times, as many due ones as can be claimed.
    fn add(&mut self, tasks: impl Iterator<Item = &'m TaskRow>, now: Timestamp, limit: usize) {
        for (count, row) in tasks.enumerate() {
            if count == limit {
                return;
            }
            if row.wake_at > now {
                self.next = self.next.into_iter().chain([row.wake_at]).min();
                return;
            }
            self.due.push(row);
        }
    }
}
