//! Activity calls: scheduling them, beginning attempts, and what follows when one ends.

use std::sync::Arc;
use std::time::Duration;

use resurgam_core::command::ActivityCall;
use resurgam_core::event::{ActivityCompleted, ActivityFailed, AttemptError, RetryMetadata};
use resurgam_core::retry::{self, Counters, Decision, Reason, State, StopWhy};
use resurgam_core::{CallKey, EventKind, Failure, Kind, Payload, Timestamp};
use resurgam_store::Step;
use resurgam_store::TaskWrite;
use resurgam_store::rows::{AttemptOutcome, AttemptRow, Claim, Progress, TaskRow};

use super::Engine;
use super::commit::Effect;
use super::run::{Draft, HotRun, News, Origin};
use crate::attempt::{self, Limit, Running};
use crate::policy::Resolved;

/// An unfinished activity call in memory.
#[derive(Debug)]
pub(super) struct HotCall {
    pub(super) task: TaskRow,
    pub(super) input: Payload,
    pub(super) instance: String,
    pub(super) policy: Arc<Resolved>,
    pub(super) story: Story,
    pub(super) running: Option<Running>,
}

impl HotCall {
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
}

/// How many failures are kept from the beginning, and how many from the end.
const KEPT: usize = 10;

/// The longest message that is kept of a failure.
const MESSAGE: usize = 4096;

/// The failures of a call so far, bounded.
#[derive(Clone, Debug, Default)]
pub(super) struct Story {
    first: Vec<AttemptError>,
    last: std::collections::VecDeque<AttemptError>,
    left_out: u32,
    /// The last one, whole.
    failure: Option<Failure>,
}

impl Story {
    /// Adds an attempt. One that asked to be run later did not fail.
    fn add(&mut self, row: &AttemptRow) {
        let Some(error) = error_of(row) else { return };
        self.failure.clone_from(&row.failure);
        if self.first.len() < KEPT {
            return self.first.push(error);
        }
        if self.last.len() == KEPT {
            self.last.pop_front();
            self.left_out += 1;
        }
        self.last.push_back(error);
    }

    /// Restores what a ledger tells, which is bounded itself; `ended` counts all of it.
    pub(super) fn of(ledger: &[AttemptRow], ended: Counters) -> Self {
        let mut story = Story::default();
        ledger.iter().for_each(|row| story.add(row));
        let kept = story.first.len() + story.last.len();
        let errors = ended.ended().saturating_sub(ended.snoozed);
        story.left_out = errors.saturating_sub(u32::try_from(kept).unwrap_or(u32::MAX));
        story
    }

    fn metadata(&self, task: &TaskRow, now: Timestamp, exhausted: bool) -> Option<RetryMetadata> {
        if task.attempt < 2 {
            return None;
        }
        let errors: Vec<AttemptError> = self.first.iter().chain(&self.last).cloned().collect();
        let since = task.progress.first_started.unwrap_or(now);
        Some(RetryMetadata {
            total_attempts: task.attempt,
            total_duration_ms: millis(now.since(since)),
            exhausted,
            last_error: errors.last().cloned(),
            errors,
            errors_left_out: self.left_out,
        })
    }
}

fn error_of(row: &AttemptRow) -> Option<AttemptError> {
    let failure = row.failure.as_ref().filter(|_| row.outcome != AttemptOutcome::Snoozed)?;
    let error_type = failure.type_name.clone().unwrap_or_else(|| failure.kind.name().to_string());
    Some(AttemptError {
        attempt: row.attempt,
        error_type,
        message: failure.message.clone(),
        timestamp_ms: row.ended_at.as_millis(),
    })
}

/// How an attempt ended without success.
enum Ended {
    Failed(Failure),
    Lost,
    Interrupted,
    /// The workflow gave the call up before the attempt began.
    Cancelled,
}

impl Engine {
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
        let definition = self.registry.activity(&call.name).cloned();
        let policy = self.policies.resolve(definition.as_deref(), &call)?;
        let queue = call.queue().to_string();
        let mut task = TaskRow {
            call: key,
            lane: call.name.clone(),
            name: call.name,
            queue,
            priority: run.about.priority,
            policy: policy.row.hash.clone(),
            attempt: 0,
            wake_at: now,
            claim: None,
            progress: Progress { v: 1, first_scheduled: Some(now), ..Progress::default() },
            heartbeat: None,
        };
        if self.outbox.is_new_policy(&policy.row.hash) {
            step.policies.push(policy.row.clone());
        }
        if definition.is_some() && self.stopping.is_none() && self.due.take_slot(&task.name) {
            self.claim(&mut task, now);
            effects.push(Effect::Begin(key));
        } else {
            effects.push(Effect::Waiting(key));
        }
        step.tasks.push(TaskWrite::Insert(task.clone()));
        let (input, instance) = (call.input, run.id.clone());
        let story = Story::default();
        self.calls.insert(key, HotCall { task, input, instance, policy, story, running: None });
        Ok(())
    }

    /// Marks the next attempt of a task as ours.
    fn claim(&self, task: &mut TaskRow, now: Timestamp) {
        task.attempt = task.attempt.saturating_add(1);
        task.progress.first_started.get_or_insert(now);
        task.claim =
            Some(Claim { node: self.node.clone(), token: fastrand::u64(1..), started_at: now });
    }

    /// Claims for every free slot the task that has been due longest.
    pub(super) fn fill_slots(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        let now = self.clock.now();
        while let Some((key, activity)) = self.due.next_in_line() {
            let Some(mut task) = self.calls.get(&key).map(|call| call.task.clone()) else {
                self.due.free_slot(&activity);
                continue;
            };
            self.claim(&mut task, now);
            let step = Step { tasks: vec![TaskWrite::Update(task.clone())], ..Step::default() };
            if let Some(call) = self.calls.get_mut(&key) {
                metrics::histogram!("resurgam.due_lag_ms")
                    .record(millis(now.since(call.task.wake_at)) as f64);
                call.task = task;
            }
            self.outbox.push(step, vec![Effect::Begin(key)]);
        }
    }

    /// The claim is durable: the attempt begins.
    pub(super) fn begin_attempt(&mut self, key: CallKey) {
        if self.stopping.is_some() {
            return self.hand_back(key);
        }
        let Some(call) = self.calls.get_mut(&key) else { return };
        if call.task.progress.cancelled {
            // The workflow gave it up before it began.
            self.due.free_slot(&call.task.name);
            return self.attempt_failed(key, Ended::Cancelled);
        }
        let (Some(activity), Some(claim)) =
            (self.registry.activity(&call.task.name), &call.task.claim)
        else {
            return;
        };
        metrics::counter!("resurgam.attempts").increment(1);
        tracing::debug!(instance = %call.instance, activity = %call.task.name,
            attempt = call.task.attempt, "attempt begins");
        let spec = attempt::Spec {
            call: key,
            token: claim.token,
            number: call.task.attempt,
            instance: call.instance.clone(),
            activity: activity.clone(),
            input: call.input.clone(),
            timeout: attempt_limit(call, self.clock.now()),
            grace: self.options.grace,
            states: self.states.clone(),
        };
        call.running = Some(attempt::begin(spec, self.clock.clone(), self.mailbox.clone()));
    }

    /// The engine stops before a claimed attempt could begin: it never happened.
    fn hand_back(&mut self, key: CallKey) {
        let now = self.clock.now();
        let Some(call) = self.calls.get_mut(&key) else { return };
        self.due.free_slot(&call.task.name);
        call.task.claim = None;
        call.task.attempt = call.task.attempt.saturating_sub(1);
        if call.task.attempt == 0 {
            call.task.progress.first_started = None;
        }
        call.task.wake_at = now;
        let tasks = vec![TaskWrite::Update(call.task.clone())];
        self.outbox.push(Step { tasks, ..Step::default() }, Vec::new());
    }

    /// An attempt reports. One whose token is not the task's changes nothing.
    pub(super) fn attempt_ended(
        &mut self,
        key: CallKey,
        token: u64,
        result: Result<Payload, Failure>,
    ) {
        let Some(result) = self.transactions.hold(key, token, result) else { return };
        let Some(call) = self.calls.get_mut(&key) else { return };
        if call.task.claim.as_ref().is_none_or(|claim| claim.token != token) {
            return;
        }
        call.running.take().into_iter().for_each(Running::reported);
        self.due.free_slot(&call.task.name);
        let at_most_once = call.policy.checked.idempotency == retry::Idempotency::AtMostOnce;
        match result.and_then(|result| fitting(result, self.options.max_payload)) {
            Ok(result) => self.attempt_succeeded(key, result),
            // It was told to stop and did: that is not its failure, unless the policy wants to know
            // for certain how it ended.
            Err(failure) if self.stopping.is_some() && may_run_again(&failure, at_most_once) => {
                self.attempt_failed(key, Ended::Interrupted);
            }
            Err(failure) => self.attempt_failed(key, Ended::Failed(failure)),
        }
        self.fill_slots();
    }

    /// The process that ran an attempt died.
    pub(super) fn attempt_lost(&mut self, key: CallKey) {
        metrics::counter!("resurgam.lost").increment(1);
        self.attempt_failed(key, Ended::Lost);
    }

    /// A graceful stop cut an attempt short.
    pub(super) fn attempt_interrupted(&mut self, key: CallKey) {
        drop(self.calls.get_mut(&key).and_then(|call| call.running.take()));
        self.attempt_failed(key, Ended::Interrupted);
    }

    fn attempt_succeeded(&mut self, key: CallKey, result: Payload) {
        let Some(call) = self.calls.remove(&key) else { return };
        let completed = call.completed(result, self.clock.now());
        self.call_ended(key, EventKind::ActivityCompleted(completed), None);
    }

    /// Decides what follows, and writes it down.
    fn attempt_failed(&mut self, key: CallKey, ended: Ended) {
        let now = self.clock.now();
        let Some(call) = self.calls.get_mut(&key) else { return };
        let (outcome, mut failure) = describe(ended);
        if failure.kind == Kind::TotalTimeout {
            // Time ended it, but the failure before is what people want to know.
            failure.cause = failure.cause.take().or_else(|| call.story.failure.clone());
        }
        let decision = next(call, outcome, &failure, now);
        let started_at = started_at(&call.task);
        let mut row = AttemptRow {
            call: key,
            name: call.task.name.clone(),
            attempt: call.task.attempt,
            outcome,
            started_at,
            ended_at: now,
            failure: Some(bounded(failure.clone())),
            delay_ms: None,
            why: String::new(),
        };
        call.story.add(&row);
        match decision {
            Next::Again { delay, why } => {
                row.delay_ms = Some(millis(delay));
                row.why = why;
                self.try_again(key, delay, row, now);
            }
            Next::Stop(why) => {
                row.why = why.to_string();
                self.give_up(key, failure, why, row, now);
            }
        }
    }

    fn try_again(&mut self, key: CallKey, delay: Duration, row: AttemptRow, now: Timestamp) {
        metrics::counter!("resurgam.retries").increment(1);
        let Some(call) = self.calls.get_mut(&key) else { return };
        call.task.claim = None;
        call.task.wake_at = now.saturating_add(delay);
        let step = Step {
            tasks: vec![TaskWrite::Update(call.task.clone())],
            attempts: vec![row],
            ..Step::default()
        };
        self.outbox.push(step, vec![Effect::Waiting(key)]);
    }

    fn give_up(
        &mut self,
        key: CallKey,
        failure: Failure,
        why: StopWhy,
        row: AttemptRow,
        now: Timestamp,
    ) {
        let Some(call) = self.calls.remove(&key) else { return };
        let exhausted =
            matches!(why.reason, Reason::MaxAttempts | Reason::MaxElapsed | Reason::TotalTimeout);
        if exhausted {
            metrics::counter!("resurgam.exhausted").increment(1);
        }
        let event = EventKind::ActivityFailed(ActivityFailed {
            activity: key.seq,
            failure: bounded(failure),
            attempt: call.task.attempt,
            started_at: row.started_at,
            why: why.reason.name().to_string(),
            retry_metadata: call.story.metadata(&call.task, now, exhausted),
        });
        self.call_ended(key, event, Some(row));
    }

    /// A call is over: that is news for its run.
    fn call_ended(&mut self, key: CallKey, event: EventKind, row: Option<AttemptRow>) {
        let origin = Origin::Call { call: key, row };
        self.deliver(key.run, News { event, origin, reply: None });
    }

    /// The workflow gave a call up, or is over.
    pub(super) fn forget_call(&mut self, key: CallKey) {
        let Some(call) = self.calls.remove(&key) else { return };
        self.due.dequeue(&call.task.name, call.task.wake_at, key);
        if call.task.claim.is_some() {
            self.due.free_slot(&call.task.name);
        }
        call.running.into_iter().for_each(Running::give_up);
    }
}

/// True when an attempt that a stop made fail may count as one that the stop cut short.
fn may_run_again(failure: &Failure, at_most_once: bool) -> bool {
    !at_most_once && !failure.is_terminal() && failure.snooze.is_none()
}

/// What follows an attempt that did not succeed.
enum Next {
    Again { delay: Duration, why: String },
    Stop(StopWhy),
}

fn describe(ended: Ended) -> (AttemptOutcome, Failure) {
    match ended {
        Ended::Failed(failure) if failure.snooze.is_some() => (AttemptOutcome::Snoozed, failure),
        Ended::Failed(failure) => (AttemptOutcome::Failed, failure),
        Ended::Lost => {
            let failure = Failure::of_kind(Kind::WorkerLost, "the process that ran it died");
            (AttemptOutcome::Lost, failure)
        }
        Ended::Interrupted => {
            let failure = Failure::of_kind(Kind::WorkerLost, "a graceful stop cut it short");
            (AttemptOutcome::Interrupted, failure)
        }
        Ended::Cancelled => {
            let failure = Failure::of_kind(Kind::Cancelled, "the workflow gave it up");
            (AttemptOutcome::Cancelled, failure)
        }
    }
}

/// Counts the attempt and asks the policy.
fn next(call: &mut HotCall, outcome: AttemptOutcome, failure: &Failure, now: Timestamp) -> Next {
    let policy = &call.policy.checked;
    let progress = &mut call.task.progress;
    if progress.cancelled {
        return Next::Stop(StopWhy::new(Reason::Cancelled, progress.failures));
    }
    let decision = match outcome {
        AttemptOutcome::Snoozed => {
            progress.snoozed = progress.snoozed.saturating_add(1);
            progress.lost_in_a_row = 0;
            let delay = failure.snooze.unwrap_or_default();
            return Next::Again { delay, why: "snoozed".to_string() };
        }
        AttemptOutcome::Interrupted if policy.idempotency != retry::Idempotency::AtMostOnce => {
            progress.interrupted = progress.interrupted.saturating_add(1);
            return Next::Again { delay: Duration::ZERO, why: "interrupted by a stop".to_string() };
        }
        AttemptOutcome::Lost | AttemptOutcome::Interrupted => {
            progress.lost = progress.lost.saturating_add(1);
            progress.lost_in_a_row = progress.lost_in_a_row.saturating_add(1);
            retry::decide_lost(policy, progress.lost_in_a_row)
        }
        _ => {
            progress.failures = progress.failures.saturating_add(1);
            progress.lost_in_a_row = 0;
            let state = State {
                failures: progress.failures,
                first_scheduled: progress.first_scheduled.unwrap_or(now),
                first_started: progress.first_started,
                previous_delay: progress.previous_delay_ms.map(Duration::from_millis),
            };
            let CallKey { run, seq } = call.task.call;
            let u = retry::uniform(run.uid.0, run.run, seq.0, progress.failures);
            retry::decide(policy, &state, failure, now, u)
        }
    };
    match decision {
        Decision::Retry { delay, why } => {
            progress.previous_delay_ms = Some(millis(delay));
            Next::Again { delay, why: why.to_string() }
        }
        Decision::Stop { why } => Next::Stop(why),
    }
}

/// How long an attempt may take.
fn attempt_limit(call: &HotCall, now: Timestamp) -> Option<Limit> {
    let timeouts = call.policy.checked.timeouts;
    let attempt = timeouts.attempt.map(|whole| Limit { left: whole, whole, kind: Kind::Timeout });
    let total = timeouts.total.map(|whole| {
        let since = call.task.progress.first_scheduled.unwrap_or(now);
        Limit { left: whole.saturating_sub(now.since(since)), whole, kind: Kind::TotalTimeout }
    });
    total.into_iter().chain(attempt).min_by_key(|limit| limit.left)
}

fn started_at(task: &TaskRow) -> Timestamp {
    task.claim.as_ref().map_or(task.wake_at, |claim| claim.started_at)
}

/// A result that is not too large.
pub(super) fn fitting(result: Payload, most: usize) -> Result<Payload, Failure> {
    if result.len() <= most {
        return Ok(result);
    }
    let message = format!("the result of {} bytes is larger than the {most} allowed", result.len());
    Err(Failure::terminal(message).with_type("PayloadTooLarge"))
}

/// A failure whose message fits the ledger.
fn bounded(mut failure: Failure) -> Failure {
    if failure.message.len() > MESSAGE {
        let end = (0..=MESSAGE).rev().find(|end| failure.message.is_char_boundary(*end));
        failure.message.truncate(end.unwrap_or(0));
        failure.message.push_str(" [cut]");
    }
    failure
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
