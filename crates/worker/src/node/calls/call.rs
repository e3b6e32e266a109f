//! Activity calls: scheduling them and beginning attempts. What follows when one ends is in
//! `attempt_result.rs`.

use std::sync::Arc;

use resurgam_core::event::ActivityCompleted;
use resurgam_core::{CallKey, Payload, Timestamp, retry};
use resurgam_store::rows::{Heartbeat, TaskRecord, TaskRow};
use resurgam_store::{Step, TaskWrite};

use super::failure_log::FailureLog;
use super::slots::Slot;
use super::timeouts::deadline;
use crate::node::Node;
use crate::node::message::end_report;
use crate::node::output::{Order, Output};
use crate::node::steps::effect::Effect;
use crate::policy::Resolved;

/// An unfinished activity call in memory.
#[derive(Debug)]
pub(crate) struct HotCall {
    pub(crate) task: TaskRow,
    pub(crate) input: Payload,
    pub(crate) instance: String,
    pub(crate) policy: Arc<Resolved>,
    pub(crate) story: FailureLog,
    /// What its attempt holds from the claim to the end, unless its thread does.
    pub(crate) slot: Option<Slot>,
    /// The driver was told to begin the attempt that it is claimed for.
    pub(crate) begun: bool,
    /// The workflow wants to hear no more of it, as soon as that is durable.
    pub(crate) given_up: bool,
    /// The message that told how its attempt ended on another node.
    pub(crate) report: Option<String>,
}

impl HotCall {
    pub(crate) fn new(
        task: TaskRow,
        input: Payload,
        instance: String,
        policy: Arc<Resolved>,
    ) -> Self {
        HotCall {
            task,
            input,
            instance,
            policy,
            story: FailureLog::default(),
            slot: None,
            begun: false,
            given_up: false,
            report: None,
        }
    }

    pub(crate) fn is_at_most_once(&self) -> bool {
        self.policy.checked.idempotency == retry::Idempotency::AtMostOnce
    }

    /// The record of an attempt that succeeds.
    pub(crate) fn completed(&self, result: Payload, now: Timestamp) -> ActivityCompleted {
        ActivityCompleted {
            activity: self.task.call.seq,
            result,
            attempt: self.task.attempt,
            started_at: started_at(&self.task),
            after_cancel: self.task.progress.cancelled,
            retry_metadata: self.story.metadata(&self.task, now, false),
        }
    }

    /// No attempt runs: from here on it waits.
    pub(crate) fn waits(&mut self, wake_at: Timestamp) {
        self.task.claim = None;
        self.begun = false;
        self.task.wake_at = wake_at;
        self.task.deadline_at = deadline(&self.task, &self.policy);
    }

    /// Keeps what an attempt told. One that tells anything does not kill its process.
    pub(crate) fn note(&mut self, heartbeat: Option<Heartbeat>) {
        if let Some(heartbeat) = heartbeat {
            self.task.heartbeat = Some(heartbeat);
            self.task.progress.lost_in_a_row = 0;
        }
    }
}

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
        let Some(call) = self.memory.calls.get_mut(&key) else { return };
        let tasks = vec![TaskWrite::Update(call.task.clone())];
        let (mut step, mut effects) =
            (Step { tasks, ..Step::default() }, vec![Effect::Waiting(key)]);
        end_report(key.run.uid, call.report.take(), &mut step, &mut effects);
        self.outbox.push(step, effects);
    }

    /// Takes a claim back whose attempt has not begun. The task waits as it did before.
    pub(crate) fn take_claim_back(&mut self, key: CallKey) {
        self.free_slot(key);
        let Some(call) = self.memory.calls.get_mut(&key) else { return };
        call.task.attempt = call.task.attempt.saturating_sub(1);
        if call.task.attempt == 0 {
            call.task.progress.first_started = None;
        }
        call.waits(call.task.wake_at);
    }

    /// Gives back what the attempt of a call holds.
    pub(crate) fn free_slot(&mut self, key: CallKey) {
        let slot = self.memory.calls.get_mut(&key).and_then(|call| call.slot.take());
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
        if let Some(call) = self.memory.calls.get(&key) {
            self.memory.slots.dequeue(&call.task);
            self.memory.due.forget(&call.task);
        }
    }

    /// The workflow gave a call up, or is over.
    pub(crate) fn forget_call(&mut self, key: CallKey) {
        self.call_changes(key);
        self.stop_waiting(key);
        self.free_slot(key);
        let Some(call) = self.memory.calls.remove(&key) else { return };
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
        if let Some(unloaded) = self.memory.unloaded.get_mut(&key.run.uid) {
            unloaded.outdated |= unloaded.loading && call.task.claim.is_some();
        }
        if let Some(run) = self.memory.runs.get_mut(&key.run.uid).filter(|run| run.key == key.run) {
            run.elsewhere.remove(&key.seq);
            // It may have been read before the workflow gave it up.
            let machine = run.code.machine().lock();
            call.task.progress.cancelled |= machine.is_settling(key.seq);
            call.task.progress.in_grace |= machine.settles_in_grace(key.seq);
        }
        self.memory.calls.insert(key, call);
        self.call_changes(key);
        Some(key)
    }

    /// Whatever is being read of a call is out of date.
    pub(crate) fn call_changes(&mut self, key: CallKey) {
        self.memory.reports.call_changes(key);
        if let Some(read) = self.memory.loading.get_mut(&key) {
            read.outdated = true;
        }
        if self.memory.claims.heard.is_reading() {
            self.memory.claims.changed.insert(key);
        }
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
        let mut call = HotCall::new(task, input, instance, policy);
        call.story = FailureLog::of(&ledger, call.task.progress.counters());
        Some(call)
    }

    /// No attempt of a call begins any more. One that runs is told when that is durable.
    pub(crate) fn give_up_call(&mut self, key: CallKey) -> Option<Effect> {
        self.memory.calls.get_mut(&key)?.given_up = true;
        self.stop_waiting(key);
        Some(Effect::GivenUp(key))
    }

    pub(crate) fn tell_attempt(&mut self, call: CallKey) {
        let Some(call) = self.memory.calls.get(&call).filter(|call| call.begun) else { return };
        let Some(claim) = &call.task.claim else { return };
        let (token, order) = (claim.token, end_order(&call.task));
        self.outputs.push(Output::OrderAttempt { token, order });
    }
}

/// True when the attempt that runs has this token.
pub(crate) fn has_token(call: &HotCall, token: u64) -> bool {
    call.task.claim.as_ref().is_some_and(|claim| claim.token == token)
}

pub(crate) fn started_at(task: &TaskRow) -> Timestamp {
    task.claim.as_ref().map_or(task.wake_at, |claim| claim.started_at)
}

/// What an attempt hears whose call was given up.
pub(crate) fn end_order(task: &TaskRow) -> Order {
    if task.progress.in_grace { Order::EndInGrace } else { Order::Tell }
}
