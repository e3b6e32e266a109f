//! Taking calls into memory and out of it, giving claims back, and telling attempts. Calls are
//! scheduled and attempts begin in `claim.rs`; what follows an attempt is in `attempt_result.rs`.

use resurgam_core::CallKey;
use resurgam_store::rows::{TaskRecord, TaskRow};
use resurgam_store::{Step, TaskWrite};

use super::failure_log::FailureLog;
use super::hot_call::HotCall;
use crate::node::Node;
use crate::node::message::end_report;
use crate::node::output::{Order, Output};
use crate::node::steps::effect::Effect;
use crate::node::store_request::StoreRequest;

impl Node {
    /// Tells an attempt something, if there is one.
    pub(crate) fn order_attempt(&mut self, call: &HotCall, order: Order) {
        if let Some(claim) = call.task.claim.as_ref().filter(|_| call.begun) {
            self.outputs.push(Output::OrderAttempt { token: claim.token, order });
        }
    }

    /// Stores that a claimed attempt never happened: its task waits as before.
    pub(crate) fn hand_back(&mut self, key: CallKey) {
        self.take_claim_back(key);
        let Some(call) = self.memory.calls.get_mut(key) else { return };
        let tasks = vec![TaskWrite::Update(call.task.clone())];
        let (mut step, mut effects) =
            (Step { tasks, ..Step::default() }, vec![Effect::Waiting(key)]);
        end_report(key.run.uid, call.report.take(), &mut step, &mut effects);
        self.outbox.push(step, effects);
    }

    /// Takes a claim back whose attempt has not begun. The task waits as it did before.
    pub(crate) fn take_claim_back(&mut self, key: CallKey) {
        let now = self.now;
        self.free_slot(key);
        let Some(call) = self.memory.calls.get_mut(key) else { return };
        call.task.attempt = call.task.attempt.saturating_sub(1);
        if call.task.attempt == 0 {
            call.task.progress.first_started = None;
            call.task.progress.stood_still_since_start_ms = 0;
        }
        call.waits(call.task.wake_at, now);
    }

    /// Gives back what the attempt of a call holds.
    pub(crate) fn free_slot(&mut self, key: CallKey) {
        let slot = self.memory.calls.get_mut(key).and_then(|call| call.slot.take());
        slot.into_iter().for_each(|slot| self.memory.slots.free(slot));
    }

    /// A plain function returned. Its attempt may be over for long.
    pub(crate) fn thread_free(&mut self, token: u64) {
        if let Some(slot) = self.memory.threads.remove(&token) {
            self.memory.slots.free(slot);
        }
    }

    /// Takes a task out of everything it waits in.
    pub(crate) fn stop_waiting(&mut self, key: CallKey) {
        if let Some(call) = self.memory.calls.get(key) {
            self.memory.slots.dequeue(&call.task);
            self.memory.due.forget(&call.task);
        }
    }

    /// The workflow gave a call up, or is over.
    pub(crate) fn forget_call(&mut self, key: CallKey) {
        self.call_changes(key);
        self.stop_waiting(key);
        self.free_slot(key);
        let Some(call) = self.memory.calls.hot.remove(key) else { return };
        if let Some(claim) = call.task.claim.as_ref().filter(|_| call.begun) {
            let token = claim.token;
            self.lingers(key.run, token);
        }
        self.order_attempt(&call, Order::GiveUp);
    }

    /// Keeps a task that was read. `None` when its policy cannot be read: it waits, and the log
    /// says why.
    pub(crate) fn keep_call(&mut self, loaded: TaskRecord) -> Option<CallKey> {
        let mut call = self.hot_call(loaded)?;
        let key = call.task.call;
        self.memory.runs.call_is_here(key, call.is_claimed());
        if let Some(run) = self.memory.runs.current(key.run) {
            // It may have been read before the workflow gave it up.
            call.task.progress.cancelled |= run.is_settling(key.seq);
            call.task.progress.in_grace |= run.settles_in_grace(key.seq);
        }
        self.memory.calls.hot.insert(key, Box::new(call));
        self.call_changes(key);
        Some(key)
    }

    /// A call leaves memory: from now on what is stored of it counts, and what was read before that
    /// is out of date.
    pub(crate) fn take_call(&mut self, key: CallKey) -> Option<Box<HotCall>> {
        self.call_changes(key);
        self.memory.runs.call_leaves(key);
        self.memory.calls.hot.remove(key)
    }

    /// A call that goes on leaves memory, which only one may of which everything is durable: it is
    /// read again as it is stored.
    pub(crate) fn leave_to_store(&mut self, key: CallKey) -> Option<Box<HotCall>> {
        debug_assert!(!self.outbox.is_storing(key), "{key} leaves memory before it is durable");
        self.take_call(key)
    }

    /// Whatever is being read of a call is out of date.
    pub(crate) fn call_changes(&mut self, key: CallKey) {
        self.memory.reports.call_changes(key);
        if let Some(read) = self.memory.calls.loading.get_mut(&key) {
            read.outdated = true;
        }
        self.memory.claims.call_changes(key);
    }

    /// Has a task read whose outcome was lost in this process, as soon as the store answers. What
    /// followed from an earlier loss of it is lost, too: it is found again.
    pub(crate) fn read_lost(&mut self, call: CallKey) {
        let claims = &mut self.memory.claims;
        claims.lost.retain(|(of, _), _| *of != call);
        // A read that is under way began before this.
        claims.lost_reads.entry(call).and_modify(|outdated| *outdated = true).or_default();
        self.ask_store_of(call.run.uid, StoreRequest::LostTask(call));
    }

    /// A task that was read, as it is in memory.
    pub(crate) fn hot_call(&mut self, loaded: TaskRecord) -> Option<HotCall> {
        let TaskRecord { task, input, policy, instance, ledger } = loaded;
        let known = self.policies.known(&task.policy);
        let read = || policy.ok_or_else(|| format!("policy {} is missing", task.policy));
        let policy = match known.map_or_else(|| read().and_then(|row| self.policies.read(&row)), Ok)
        {
            Ok(policy) => policy,
            Err(error) => {
                tracing::error!(%instance, activity = %task.name, "a task waits: {error}");
                return None;
            }
        };
        let deciding = self.policies.deciding(policy, &task);
        let mut call = HotCall::new(task, input, instance, deciding);
        call.failure_log = FailureLog::of(&ledger, call.task.progress.counters());
        Some(call)
    }

    /// No attempt of a call begins any more. One that runs is told when that is durable.
    pub(crate) fn give_up_call(&mut self, key: CallKey) -> Option<Effect> {
        self.call_changes(key);
        self.memory.calls.get_mut(key)?.given_up = true;
        self.stop_waiting(key);
        Some(Effect::GivenUp(key))
    }

    pub(crate) fn tell_attempt(&mut self, call: CallKey) {
        let Some(call) = self.memory.calls.get(call).filter(|call| call.begun) else { return };
        let Some(claim) = &call.task.claim else { return };
        let (token, order) = (claim.token, end_order(&call.task));
        self.outputs.push(Output::OrderAttempt { token, order });
    }
}

/// What an attempt hears whose call was given up.
pub(crate) fn end_order(task: &TaskRow) -> Order {
    if task.progress.in_grace { Order::EndInGrace } else { Order::Tell }
}
