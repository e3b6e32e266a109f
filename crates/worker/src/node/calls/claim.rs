//! Attempts that begin: a task gets a slot, is claimed, and runs when the claim is durable.

use std::sync::Arc;

use resurgam_core::command::ActivityCall;
use resurgam_core::gate::Standing;
use resurgam_core::{CallKey, Kind, Timestamp};
use resurgam_sdk::ActivityDefinition;
use resurgam_store::rows::{Claim, PolicyRow, Progress, TaskRow};
use resurgam_store::{Step, TaskWrite};

use super::attempt_result::Ended;
use super::hot_call::HotCall;
use super::slots::Slot;
use super::timeouts::{deadline, millis, total_end, total_start};
use crate::attempt::{Limit, Limits};
use crate::node::Node;
use crate::node::follow_up::FollowUp;
use crate::node::output::{AttemptStart, Output};
use crate::node::steps::effect::Effect;

/// Whose call it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    instance: &'a str,
    priority: i32,
    /// The run in which the call was first scheduled, when that is another one.
    key_run: Option<u32>,
    /// When the first attempt is due, if not at once.
    due: Option<Timestamp>,
}

impl<'a> Caller<'a> {
    /// The instance that makes the call, and the priority of its run.
    pub(crate) fn new(instance: &'a str, priority: i32) -> Self {
        Caller { instance, priority, key_run: None, due: None }
    }

    /// The call was first scheduled in this run, which was reset since.
    pub(crate) fn of_run(self, run: u32) -> Self {
        Caller { key_run: Some(run), ..self }
    }

    /// The first attempt is due then, and the time of the call begins then.
    pub(crate) fn due(self, at: Timestamp) -> Self {
        Caller { due: Some(at), ..self }
    }
}

/// A call that is to be stored.
#[derive(Debug)]
pub(crate) struct Scheduled {
    /// Its policy, when the store may not have it yet.
    new_policy: Option<PolicyRow>,
    task: TaskRow,
    /// What happens once it is durable.
    effect: Effect,
}

impl Scheduled {
    /// The row of its task.
    pub(crate) fn task(&self) -> &TaskRow {
        &self.task
    }

    /// Adds it to the step that stores it.
    pub(crate) fn add_to(self, step: &mut Step, effects: &mut Vec<Effect>) {
        step.policies.extend(self.new_policy);
        step.tasks.push(TaskWrite::Insert(self.task));
        effects.push(self.effect);
    }
}

/// What an attempt that begins now must not take longer than.
fn limits(call: &HotCall, now: Timestamp) -> Limits {
    let timeouts = call.policy.checked.timeouts;
    let attempt = timeouts.attempt.map(|whole| Limit { left: whole, whole, kind: Kind::Timeout });
    let total = timeouts.total.map(|whole| {
        let since = total_start(&call.task.progress).unwrap_or(now);
        Limit { left: whole.saturating_sub(now.since(since)), whole, kind: Kind::TotalTimeout }
    });
    let time = total.into_iter().chain(attempt).min_by_key(|limit| limit.left);
    Limits { time, silence: timeouts.heartbeat }
}

impl Node {
    /// Makes a task of a call. It is claimed at once when a slot is free and nobody waits for one;
    /// the attempt begins when the step is durable.
    pub(crate) fn schedule_call(
        &mut self,
        key: CallKey,
        call: ActivityCall,
        caller: Caller<'_>,
        now: Timestamp,
    ) -> Result<Scheduled, String> {
        let definition = self.registry.activity(&call.name);
        let registry = self.registry.clone();
        let own = self.policies.resolve(&registry, &call)?;
        let queue = call.queue().to_string();
        let unregistered = definition.is_none() && self.serves(&queue);
        let lacks = definition.as_ref().filter(|_| self.serves(&queue));
        let lacks = lacks.and_then(|definition| definition.lacks(&call.input));
        lacks.iter().for_each(|what| self.log_lack(caller.instance, &call.name, what));
        let due = caller.due.map_or(now, |due| due.max(now));
        let gate = self.gate_for(call.options.gate.unwrap_or_else(|| call.name.clone()));
        let mut task = TaskRow {
            call: key,
            gate,
            name: call.name,
            queue,
            priority: caller.priority,
            policy: own.row.hash.clone(),
            attempt: 0,
            wake_at: due,
            deadline_at: None,
            claim: None,
            progress: Progress {
                v: 1,
                first_scheduled: Some(due),
                unregistered,
                lacks,
                key_run: caller.key_run,
                remote: definition.as_ref().is_some_and(|activity| activity.outlives),
                undoes: call.compensates.is_some(),
                ..Progress::default()
            },
            heartbeat: None,
        };
        let is_new = self.outbox.is_new_policy(key, &own.row.hash);
        let new_policy = is_new.then(|| own.row.clone());
        let deciding = self.policies.deciding(own, &task);
        let held = call.compensates.and_then(|_| self.memory.lingering.hold(key, self.elapsed));
        task.wake_at = due.saturating_add(held.unwrap_or_default());
        let waits = task.wake_at > now || held.is_some();
        let can_run = definition.is_some() && task.progress.lacks.is_none() && !waits;
        let can_run = can_run && self.memory.slots.gates().lets_kind(&task.name, &task.queue);
        let mut slot = if can_run && self.serves(&task.queue) && self.may_begin() {
            self.memory.slots.take(&task)
        } else {
            None
        };
        let effect = if let Some(slot) = &mut slot {
            self.claim(&mut task, now);
            self.memory.slots.begins(slot, &task);
            Effect::Begin(key)
        } else {
            task.deadline_at = deadline(&task, &deciding.policy);
            Effect::Waiting(key)
        };
        let mut hot = HotCall::new(task.clone(), call.input, caller.instance.to_string(), deciding);
        hot.slot = slot;
        self.memory.calls.hot.insert(key, Box::new(hot));
        Ok(Scheduled { new_policy, task, effect })
    }

    /// Marks the next attempt of a task as ours.
    pub(crate) fn claim(&mut self, task: &mut TaskRow, now: Timestamp) {
        task.attempt = task.attempt.saturating_add(1);
        task.progress.first_started.get_or_insert(now);
        task.progress.unregistered = false;
        task.progress.lacks = None;
        let activity = self.registry.activity(&task.name);
        task.progress.remote = activity.is_some_and(|activity| activity.outlives);
        let standing = self.memory.slots.gates().standing(&task.gate);
        task.progress.probing = standing != Standing::Flowing;
        task.deadline_at = None;
        let token = self.random.token();
        task.claim = Some(Claim { node: self.name.clone(), token, started_at: now });
    }

    /// Claims for every free slot the task that is first in line.
    pub(crate) fn fill_slots(&mut self) {
        if !self.may_begin() {
            return;
        }
        while let Some((at, key, slot)) = self.memory.slots.next_in_line() {
            match self.memory.calls.get(key) {
                // A read that was overtaken put it in line: it waits for another time by now.
                Some(call) if call.task.wake_at != at => self.memory.slots.free(slot),
                Some(_) => self.claim_next(key, slot),
                None => self.read_task(key, Some(slot)),
            }
        }
    }

    /// Claims the next attempt of a task that waits; it begins when that is durable.
    pub(crate) fn claim_next(&mut self, key: CallKey, mut slot: Slot) {
        let now = self.now;
        let waits = |call: &&HotCall| call.task.claim.is_none() && !call.given_up;
        let waiting = self.memory.calls.get(key).filter(waits);
        let Some(mut task) = waiting.map(|call| call.task.clone()) else {
            return self.memory.slots.free(slot);
        };
        let lacks = self.memory.calls.get(key).and_then(|call| self.lacks(call));
        let is_unknown = self.registry.activity(&task.name).is_none();
        let is_paused = !self.memory.slots.gates().lets_kind(&task.name, &task.queue);
        if is_unknown || lacks.is_some() || is_paused || self.leaves(&task) {
            // It went while the task waited, or this process lacks what another one had.
            self.memory.slots.free(slot);
            return self.task_waits(key);
        }
        let ticket = self.memory.slots.ticket_of(&task);
        if !slot.suits(ticket) {
            // Who found it due did not know that it may kill its process.
            self.memory.slots.free(slot);
            self.task_due(task.wake_at, key, ticket);
            return self.then(FollowUp::FillSlots);
        }
        self.memory.due.forget(&task);
        if let Some(left) = self.memory.lingering.holds(key, self.elapsed) {
            // The clock jumped: attempts that it waits for go on.
            self.memory.slots.free(slot);
            if let Some(call) = self.memory.calls.get_mut(key) {
                call.waits(now.saturating_add(left), now);
            }
            return self.task_waits(key);
        }
        self.claim(&mut task, now);
        self.memory.slots.begins(&mut slot, &task);
        let step = Step { tasks: vec![TaskWrite::Update(task.clone())], ..Step::default() };
        if let Some(call) = self.memory.calls.get_mut(key) {
            metrics::histogram!("resurgam.due_lag_ms")
                .record(millis(now.since(call.task.wake_at)) as f64);
            call.task = task;
            call.slot = Some(slot);
        }
        self.outbox.push(step, vec![Effect::Begin(key)]);
    }

    /// The claim is durable: the attempt begins.
    pub(crate) fn begin_attempt(&mut self, key: CallKey) {
        if !self.may_begin() || !self.owns(key.run.uid) {
            return self.hand_back(key);
        }
        let now = self.now;
        let Some(call) = self.memory.calls.get_mut(key) else { return };
        if call.given_up {
            // It is over before it began: that is about to be durable.
            return self.free_slot(key);
        }
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
        if let Some(mut call) = self.memory.calls.hot.remove(key) {
            self.run_attempt(&mut call, activity);
            self.memory.calls.hot.insert(key, call);
        }
    }

    /// Runs the attempt that a call is claimed for.
    pub(crate) fn run_attempt(&mut self, call: &mut HotCall, activity: Arc<ActivityDefinition>) {
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
            key: call.task.progress.key_of(call.task.call),
            token: claim.token,
            number: call.task.attempt,
            instance: call.instance.clone(),
            queue: call.task.queue.clone(),
            activity,
            input: call.input.clone(),
            last_heartbeat: call.task.heartbeat.as_ref().map(|told| told.details.clone()),
            fallback_of: call.task.progress.fallback.as_ref().map(|of| of.failure.clone()),
            limits: if self.options.attempt_timeouts {
                limits(call, now)
            } else {
                Limits::default()
            },
            resumed: call.resumed,
        })));
    }
}
