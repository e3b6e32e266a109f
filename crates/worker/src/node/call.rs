//! Activity calls: scheduling them and beginning attempts. What follows when one ends is in
//! `ended.rs`.

use std::sync::Arc;
use std::time::Duration;

use resurgam_core::command::ActivityCall;
use resurgam_core::event::ActivityCompleted;
use resurgam_core::retry;
use resurgam_core::{CallKey, Kind, Payload, Timestamp};
use resurgam_sdk::ActivityDefinition;
use resurgam_store::rows::{Claim, Heartbeat, Progress, TaskRow};
use resurgam_store::{Step, TaskWrite};

use super::Node;
use super::deadline::{deadline, total_end};
use super::effect::Effect;
use super::ended::Ended;
use super::output::{AttemptStart, Order, Output};
use super::report::end_report;
use super::run::{Draft, HotRun};
use super::slots::Slot;
use super::story::Story;
use crate::attempt::{Limit, Limits};
use crate::policy::Resolved;

/// An unfinished activity call in memory.
#[derive(Debug)]
pub(super) struct HotCall {
    pub(super) task: TaskRow,
    pub(super) input: Payload,
    pub(super) instance: String,
    pub(super) policy: Arc<Resolved>,
    pub(super) story: Story,
    /// What its attempt holds from the claim to the end, unless its thread does.
    pub(super) slot: Option<Slot>,
    /// The driver was told to begin the attempt that it is claimed for.
    pub(super) begun: bool,
    /// The workflow wants to hear no more of it, as soon as that is durable.
    pub(super) given_up: bool,
    /// The message that told how its attempt ended on another node.
    pub(super) report: Option<String>,
}

impl HotCall {
    pub(super) fn new(
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
            story: Story::default(),
            slot: None,
            begun: false,
            given_up: false,
            report: None,
        }
    }

    pub(super) fn is_at_most_once(&self) -> bool {
        self.policy.checked.idempotency == retry::Idempotency::AtMostOnce
    }

    /// The record of an attempt that succeeds.
    pub(super) fn completed(&self, result: Payload, now: Timestamp) -> ActivityCompleted {
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
    pub(super) fn waits(&mut self, wake_at: Timestamp) {
        self.task.claim = None;
        self.begun = false;
        self.task.wake_at = wake_at;
        self.task.deadline_at = deadline(&self.task, &self.policy);
    }

    /// Keeps what an attempt told. One that tells anything does not kill its process.
    pub(super) fn note(&mut self, heartbeat: Option<Heartbeat>) {
        if let Some(heartbeat) = heartbeat {
            self.task.heartbeat = Some(heartbeat);
            self.task.progress.lost_in_a_row = 0;
        }
    }
}

impl Node {
    /// Makes a task of a call. It is claimed at once when a slot is free and nobody waits for one;
    /// the attempt begins when the step is durable.
    pub(super) fn schedule_call(
        &mut self,
        key: CallKey,
        call: ActivityCall,
        run: &HotRun,
        now: Timestamp,
        draft: &mut Draft,
    ) -> Result<(), String> {
        let (step, effects) = (&mut draft.step, &mut draft.effects);
        let definition = self.registry.activity(&call.name);
        let policy = self.policies.resolve(definition.as_deref(), &call)?;
        let queue = call.queue().to_string();
        let unregistered = definition.is_none() && self.serves(&queue);
        let lacks = definition.as_ref().filter(|_| self.serves(&queue));
        let lacks = lacks.and_then(|definition| definition.lacks(&call.input));
        lacks.iter().for_each(|what| self.log_lack(&run.id, &call.name, what));
        let mut task = TaskRow {
            call: key,
            gate: call.name.clone(),
            name: call.name,
            queue,
            priority: run.about.priority,
            policy: policy.row.hash.clone(),
            attempt: 0,
            wake_at: now,
            deadline_at: None,
            claim: None,
            progress: Progress {
                v: 1,
                first_scheduled: Some(now),
                unregistered,
                lacks,
                ..Progress::default()
            },
            heartbeat: None,
        };
        if self.outbox.is_new_policy(key, &policy.row.hash) {
            step.policies.push(policy.row.clone());
        }
        let held = call.compensates.and_then(|_| self.memory.lingering.hold(key, now));
        task.wake_at = held.unwrap_or(now);
        let can_run = definition.is_some() && task.progress.lacks.is_none() && held.is_none();
        let slot = if can_run && self.serves(&task.queue) && self.may_begin() {
            self.memory.slots.take(&task)
        } else {
            None
        };
        if slot.is_some() {
            self.claim(&mut task, now);
            effects.push(Effect::Begin(key));
        } else {
            task.deadline_at = deadline(&task, &policy);
            effects.push(Effect::Waiting(key));
        }
        step.tasks.push(TaskWrite::Insert(task.clone()));
        let mut hot = HotCall::new(task, call.input, run.id.clone(), policy);
        hot.slot = slot;
        self.memory.calls.insert(key, hot);
        Ok(())
    }

    /// Marks the next attempt of a task as ours.
    fn claim(&mut self, task: &mut TaskRow, now: Timestamp) {
        task.attempt = task.attempt.saturating_add(1);
        task.progress.first_started.get_or_insert(now);
        task.progress.unregistered = false;
        task.progress.lacks = None;
        task.deadline_at = None;
        let token = self.random.token();
        task.claim = Some(Claim { node: self.name.clone(), token, started_at: now });
    }

    /// Claims for every free slot the task that is first in line.
    pub(super) fn fill_slots(&mut self) {
        if !self.may_begin() {
            return;
        }
        while let Some((at, key, slot)) = self.memory.slots.next_in_line() {
            match self.memory.calls.get(&key) {
                // A read that was overtaken put it in line: it waits for another time by now.
                Some(call) if call.task.wake_at != at => self.memory.slots.free(slot),
                Some(_) => self.claim_next(key, slot),
                None => self.read_task(key, Some(slot)),
            }
        }
    }

    /// Claims the next attempt of a task that waits; it begins when that is durable.
    pub(super) fn claim_next(&mut self, key: CallKey, slot: Slot) {
        let now = self.now;
        let waits = |call: &&HotCall| call.task.claim.is_none();
        let waiting = self.memory.calls.get(&key).filter(waits);
        let Some(mut task) = waiting.map(|call| call.task.clone()) else {
            return self.memory.slots.free(slot);
        };
        let lacks = self.memory.calls.get(&key).and_then(|call| self.lacks(call));
        let is_unknown = self.registry.activity(&task.name).is_none();
        if is_unknown || lacks.is_some() || self.leaves(&task) {
            // It went while the task waited, or this process lacks what another one had.
            self.memory.slots.free(slot);
            return self.task_waits(key);
        }
        self.memory.due.forget(&task);
        self.claim(&mut task, now);
        let step = Step { tasks: vec![TaskWrite::Update(task.clone())], ..Step::default() };
        if let Some(call) = self.memory.calls.get_mut(&key) {
            metrics::histogram!("resurgam.due_lag_ms")
                .record(millis(now.since(call.task.wake_at)) as f64);
            call.task = task;
            call.slot = Some(slot);
        }
        self.outbox.push(step, vec![Effect::Begin(key)]);
    }

    /// What is missing here to run a call whose activity is known.
    pub(super) fn lacks(&self, call: &HotCall) -> Option<String> {
        self.registry.activity(&call.task.name)?.lacks(&call.input)
    }

    /// The claim is durable: the attempt begins.
    pub(super) fn begin_attempt(&mut self, key: CallKey) {
        if !self.may_begin() || !self.owns(key.run.uid) {
            return self.hand_back(key);
        }
        let now = self.now;
        let Some(call) = self.memory.calls.get_mut(&key) else { return };
        if call.task.progress.cancelled {
            // The workflow gave it up before it began.
            self.free_slot(key);
            return self.attempt_failed(key, Ended::Cancelled, now);
        }
        if total_end(&call.task, &call.policy).is_some_and(|end| end <= now) {
            // The store took so long to take the claim.
            self.take_claim_back(key);
            return self.call_ran_out_of_time(key);
        }
        let Some(activity) = self.registry.activity(&call.task.name) else {
            // It was there when the attempt was claimed, and may come again.
            call.task.progress.unregistered = true;
            return self.hand_back(key);
        };
        if let Some(mut call) = self.memory.calls.remove(&key) {
            self.run_attempt(&mut call, activity);
            self.memory.calls.insert(key, call);
        }
    }

    /// Runs the attempt that a call is claimed for.
    pub(super) fn run_attempt(&mut self, call: &mut HotCall, activity: Arc<ActivityDefinition>) {
        let now = self.now;
        let Some(claim) = &call.task.claim else { return };
        metrics::counter!("resurgam.attempts").increment(1);
        tracing::debug!(instance = %call.instance, activity = %call.task.name,
            attempt = call.task.attempt, "attempt begins");
        if activity.blocking {
            // However it ends, its thread has the slot until the function returns.
            self.memory.threads.extend(call.slot.take().map(|slot| (claim.token, slot)));
        }
        call.begun = true;
        self.outputs.push(Output::StartAttempt(Box::new(AttemptStart {
            call: call.task.call,
            token: claim.token,
            number: call.task.attempt,
            instance: call.instance.clone(),
            activity,
            input: call.input.clone(),
            last_heartbeat: call.task.heartbeat.as_ref().map(|told| told.details.clone()),
            limits: limits(call, now),
        })));
    }

    /// Tells an attempt something, if there is one.
    pub(super) fn order_attempt(&mut self, call: &HotCall, order: Order) {
        if let Some(claim) = call.task.claim.as_ref().filter(|_| call.begun) {
            self.outputs.push(Output::OrderAttempt { token: claim.token, order });
        }
    }

    /// Stores that a claimed attempt never happened: its task waits as before.
    pub(super) fn hand_back(&mut self, key: CallKey) {
        self.take_claim_back(key);
        let Some(call) = self.memory.calls.get_mut(&key) else { return };
        let tasks = vec![TaskWrite::Update(call.task.clone())];
        let (mut step, mut effects) =
            (Step { tasks, ..Step::default() }, vec![Effect::Waiting(key)]);
        end_report(key.run.uid, call.report.take(), &mut step, &mut effects);
        self.outbox.push(step, effects);
    }

    /// Takes a claim back whose attempt has not begun. The task waits as it did before.
    fn take_claim_back(&mut self, key: CallKey) {
        self.free_slot(key);
        let Some(call) = self.memory.calls.get_mut(&key) else { return };
        call.task.attempt = call.task.attempt.saturating_sub(1);
        if call.task.attempt == 0 {
            call.task.progress.first_started = None;
        }
        call.waits(call.task.wake_at);
    }

    /// Gives back what the attempt of a call holds.
    pub(super) fn free_slot(&mut self, key: CallKey) {
        let slot = self.memory.calls.get_mut(&key).and_then(|call| call.slot.take());
        slot.into_iter().for_each(|slot| self.memory.slots.free(slot));
    }

    /// A plain function returned. Its attempt may be over for long.
    pub(super) fn thread_free(&mut self, token: u64) {
        if let Some(slot) = self.memory.threads.remove(&token) {
            self.memory.slots.free(slot);
        }
    }

    /// An attempt reports how far it has come: that is stored.
    pub(super) fn attempt_reports(&mut self, key: CallKey, token: u64, heartbeat: Heartbeat) {
        if self.away_reports(key, token, &heartbeat) {
            return;
        }
        let Some(call) = self.memory.calls.get_mut(&key).filter(|call| has_token(call, token))
        else {
            return;
        };
        call.note(Some(heartbeat));
        let tasks = vec![TaskWrite::Amend(call.task.clone())];
        self.outbox.push(Step { tasks, ..Step::default() }, Vec::new());
    }

    /// Takes a task out of everything it waits in.
    pub(super) fn stop_waiting(&mut self, key: CallKey) {
        if let Some(call) = self.memory.calls.get(&key) {
            self.memory.slots.dequeue(&call.task);
            self.memory.due.forget(&call.task);
        }
    }

    /// The workflow gave a call up, or is over.
    pub(super) fn forget_call(&mut self, key: CallKey) {
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
}

/// True when the attempt that runs has this token.
pub(super) fn has_token(call: &HotCall, token: u64) -> bool {
    call.task.claim.as_ref().is_some_and(|claim| claim.token == token)
}

/// What an attempt that begins now must not take longer than.
fn limits(call: &HotCall, now: Timestamp) -> Limits {
    let timeouts = call.policy.checked.timeouts;
    let attempt = timeouts.attempt.map(|whole| Limit { left: whole, whole, kind: Kind::Timeout });
    let total = timeouts.total.map(|whole| {
        let since = call.task.progress.first_scheduled.unwrap_or(now);
        Limit { left: whole.saturating_sub(now.since(since)), whole, kind: Kind::TotalTimeout }
    });
    let time = total.into_iter().chain(attempt).min_by_key(|limit| limit.left);
    Limits { time, silence: timeouts.heartbeat }
}

pub(super) fn started_at(task: &TaskRow) -> Timestamp {
    task.claim.as_ref().map_or(task.wake_at, |claim| claim.started_at)
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
