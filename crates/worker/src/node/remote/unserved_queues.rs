//! Tasks of queues that the holder of their shard does not serve: nodes that do serve them claim
//! them, run them and report (`remote_attempts.rs`). So it is with calls that the holder lacks
//! something for: it writes down what, and whoever has it claims them; the holder, too, once it has
//! it.
//!
//! The holder keeps such tasks out of memory. Others look for them when somebody has committed,
//! when a slot is free again, and when the next one is due that they know of; none of this happens
//! while every node serves every queue. Two nodes never get the same task: the store sees to that.
//! Of calls that may kill their process a node claims one, and no other while that runs.
//!
//! Behind a gate that bounds what begins, a node claims as many as its share of it allows. To have
//! a share it must know that calls wait there: it asks for that where it has none.
//!
//! Only the holder can end a call that nobody has taken. To be sure that nobody does in that very
//! moment, it claims the task first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::{CallKey, Timestamp};
use resurgam_store::rows::{TaskRecord, TaskRow};
use resurgam_store::{GateScope, GateWaiting, Reported, Result, Runnable, Step, TaskWrite};

use crate::node::Node;
use crate::node::follow_up::FollowUp;
use crate::node::gates::MostOfEach;
use crate::node::input::Claimed;
use crate::node::news::{News, Origin, cancelled_call};
use crate::node::store_request::{AGAIN, StoreRequest};

/// The most tasks that are claimed at once.
const AT_ONCE: usize = 100;

/// For how long nobody asks for a share of a gate again behind which there was nothing to claim.
const FRUITLESS: Duration = Duration::from_secs(5);

/// What a node knows about tasks that others leave to it.
#[derive(Debug, Default)]
pub(crate) struct UnservedQueues {
    /// When the next one is due that is known of.
    next: Option<Timestamp>,
    looking: bool,
    /// There may be more by now than are being looked for.
    again: bool,
    /// There were more than there were slots.
    hungry: bool,
    /// Of which gates tasks are to be claimed next, at most so many of each, and whether these
    /// gates flow; and of which they are being claimed.
    behind: Vec<(MostOfEach, bool)>,
    claiming: MostOfEach,
    /// When it is asked next whether calls wait behind gates of which this node has no share.
    asks_at: Option<Timestamp>,
    /// Gates behind which nothing was found for this node, and until when it does not ask.
    fruitless: BTreeMap<String, Timestamp>,
}

impl UnservedQueues {
    /// When to look again.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.next.filter(|_| !self.looking)
    }

    /// The clock was set back by so much.
    pub(crate) fn clock_was_set_back(&mut self, by: Duration) {
        self.next = self.next.map(|at| at.saturating_sub(by));
    }
}

impl Node {
    /// Looks for tasks that others leave, when it is time.
    pub(crate) fn wake_shared(&mut self) {
        let now = self.now;
        if self.memory.unserved.next().is_some_and(|at| at <= now) {
            self.look_for_shared();
        }
    }

    /// A slot is free again: there may be a task for it.
    pub(crate) fn slot_for_shared(&mut self) {
        if self.memory.unserved.hungry {
            self.look_for_shared();
        }
    }

    /// Claims tasks that others leave, as many as there are slots.
    pub(crate) fn look_for_shared(&mut self) {
        if !self.memory.shards.others_leave_tasks() {
            // What this node wanted a share of gates for is run by others now.
            return self.memory.slots.gates_mut().want_no_share();
        }
        if !self.is_owner() || !self.may_begin() {
            return;
        }
        if self.memory.unserved.looking {
            self.memory.unserved.again = true;
            return;
        }
        let limit = self.memory.slots.free_now().min(AT_ONCE);
        let no_poison = !self.memory.slots.has_room_for_poison();
        self.memory.unserved.hungry = limit == 0 || no_poison;
        if limit == 0 {
            return;
        }
        (self.memory.unserved.looking, self.memory.unserved.next) = (true, None);
        let gates = self.memory.slots.gates();
        self.memory.unserved.behind = gates.claimable(limit);
        self.memory.unserved.claiming = Arc::default();
        let runnable = Runnable { no_poison, gates: gates.unbounded(), ..self.runnable() };
        let (node, now) = (self.name.clone(), self.now);
        self.ask_store(StoreRequest::ClaimShared { node, runnable, now, limit });
        self.ask_behind_gates();
    }

    /// Claims tasks behind gates that bound what begins. True when there may be any.
    fn claim_behind_gates(&mut self) -> bool {
        let limit = self.memory.slots.free_now().min(AT_ONCE);
        let Some((gates, flows)) = self.memory.unserved.behind.pop().filter(|_| limit > 0) else {
            return false;
        };
        self.memory.unserved.looking = true;
        self.memory.unserved.claiming = gates.clone();
        let gates = GateScope::Only(gates);
        let runnable = Runnable { no_poison: true, gates, probing: !flows, ..self.runnable() };
        let (node, now) = (self.name.clone(), self.now);
        self.ask_store(StoreRequest::ClaimShared { node, runnable, now, limit });
        true
    }

    /// Asks whether calls wait behind gates that let nothing begin here, because this node has no
    /// share of them.
    fn ask_behind_gates(&mut self) {
        let now = self.now;
        let unserved = &mut self.memory.unserved;
        if unserved.asks_at.is_some_and(|at| at > now) {
            return;
        }
        unserved.fruitless.retain(|_, until| *until > now);
        let mut gates = self.memory.slots.gates().without_share();
        gates.retain(|gate| !unserved.fruitless.contains_key(gate));
        if !gates.is_empty() {
            unserved.asks_at = Some(now.saturating_add(AGAIN));
            self.ask_store(StoreRequest::WaitingElsewhere { gates: gates.into(), now });
        }
    }

    /// Calls wait behind gates, or do not: this node wants a share where some are due.
    pub(crate) fn waiting_elsewhere(&mut self, found: Vec<GateWaiting>) {
        let now = self.now;
        for GateWaiting { gate, due, first } in found {
            if due > 0 {
                self.memory.slots.gates_mut().wants_share(&gate, true);
            } else if let Some(first) = first.filter(|first| *first > now) {
                let next = &mut self.memory.unserved.next;
                *next = Some(next.map_or(first, |known| known.min(first)));
            }
        }
    }

    /// Tasks behind gates were claimed: where there were as many as were asked for, there may be
    /// more.
    fn claimed_behind_gates(&mut self, tasks: &[TaskRecord]) {
        let until = self.now.saturating_add(FRUITLESS);
        for (gate, most) in std::mem::take(&mut self.memory.unserved.claiming).iter() {
            let count = tasks.iter().filter(|task| task.task.gate == *gate).count();
            self.memory.slots.gates_mut().wants_share(gate, count >= *most);
            if count == 0 {
                self.memory.unserved.fruitless.insert(gate.clone(), until);
            }
        }
    }

    /// Tasks that others left are claimed: what their attempts need is read.
    pub(crate) fn shared_claimed(
        &mut self,
        asked: usize,
        claimed: Result<(Vec<TaskRow>, Option<Timestamp>)>,
    ) {
        match claimed {
            Ok((rows, next)) if rows.is_empty() => {
                self.shared_loaded(Claimed { tasks: Vec::new(), next, asked });
            }
            Ok((rows, next)) => {
                let calls = rows.iter().map(|row| row.call).collect();
                self.ask_store(StoreRequest::Claimed { calls, next, asked });
            }
            Err(_) => {
                self.memory.unserved.looking = false;
                self.memory.unserved.behind.clear();
                self.memory.unserved.next = Some(self.now.saturating_add(AGAIN));
            }
        }
    }

    /// Tasks that others left are this node's: their attempts begin.
    pub(crate) fn shared_loaded(&mut self, claimed: Claimed) {
        let Claimed { tasks, next, asked } = claimed;
        let unserved = &mut self.memory.unserved;
        unserved.looking = false;
        unserved.next = unserved.next.into_iter().chain(next).min();
        unserved.again |= tasks.len() == asked;
        self.claimed_behind_gates(&tasks);
        tasks.into_iter().for_each(|task| self.begin_shared(task));
        if !self.claim_behind_gates() && std::mem::take(&mut self.memory.unserved.again) {
            self.look_for_shared();
        }
    }

    fn begin_shared(&mut self, loaded: TaskRecord) {
        let Some(mut call) = self.hot_call(loaded) else { return };
        if let Some(what) = self.lacks(&call) {
            // The holder writes down what it takes, so that nobody without it claims the call.
            self.log_lack(call.instance(), &call.task().name, &what);
            return self.report(&mut call, Reported::Lacks(what), None);
        }
        // When it has ended there may be another one of its kind.
        self.memory.unserved.hungry |= call.task().progress.poison;
        let activity = self.registry.activity(&call.task().name);
        let slot = self.memory.slots.take_now(call.task()).filter(|_| self.may_begin());
        match (slot, activity) {
            (Some(mut slot), Some(activity)) => {
                self.memory.slots.begins_elsewhere(&mut slot, call.task());
                call.hold(slot);
                self.run_attempt(&mut call, activity);
                self.keep_away(Box::new(call));
            }
            (slot, _) => {
                slot.into_iter().for_each(|slot| self.memory.slots.free(slot));
                self.report(&mut call, Reported::NeverBegan, None);
            }
        }
    }

    /// The workflow gave up a call that another node may run, and wants to hear how it ended.
    pub(crate) fn settle_shared(&mut self, key: CallKey) {
        let (node, now) = (self.name.clone(), self.now);
        self.ask_store(StoreRequest::SettleShared { node, call: key, now });
    }

    pub(crate) fn shared_settled(&mut self, key: CallKey, ours: Option<Box<TaskRow>>) {
        match ours {
            Some(task) if !self.owns(key.run.uid) => self.return_claim(*task),
            Some(task) => {
                let News { event, .. } = cancelled_call(key.seq, task.attempt.saturating_sub(1));
                let origin = Origin::ended(key, None, None);
                self.then(FollowUp::Deliver(key.run, News { event, origin, reply: None }));
            }
            None => self.ask_store_of(key.run.uid, StoreRequest::SharedTask(key)),
        }
    }

    /// A call is claimed so that somebody can act on it, unless another node was faster.
    pub(crate) fn claimed_to_act(&mut self, call: CallKey, claimed: Option<Box<TaskRow>>) {
        match claimed {
            Some(task) if !self.owns(call.run.uid) => {
                self.memory.reports.is_claimed(call, None);
                self.return_claim(*task);
            }
            claimed => {
                self.memory.reports.is_claimed(call, claimed.map(|task| *task));
                self.has_reports(call.run.uid);
            }
        }
    }

    /// A call that was given up could not be claimed: somebody runs it, or it is over.
    pub(crate) fn shared_found(&mut self, key: CallKey, task: Option<Box<TaskRow>>) {
        let Some(mut task) = task else { return };
        if task.claim.is_none() || task.progress.to_end {
            // Another node was about to claim it, and has not; or somebody acts on it meanwhile.
            let (node, now) = (self.name.clone(), self.now);
            return self.ask_store_later(StoreRequest::SettleShared { node, call: key, now });
        }
        // Its node asks whether it is still wanted, and is told; then it reports.
        task.progress.cancelled = true;
        let run = self.memory.runs.get(key.run.uid);
        task.progress.in_grace = run.is_some_and(|run| run.settles_in_grace(key.seq));
        let tasks = vec![TaskWrite::Amend(*task)];
        self.outbox.push(Step { tasks, ..Step::default() }, Vec::new());
    }
}
