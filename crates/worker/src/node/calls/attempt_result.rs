//! What follows when an attempt ends.
//!
//! | it ended                 | what follows                                                |
//! |--------------------------|-------------------------------------------------------------|
//! | with a result            | the call is over: news for the run                          |
//! | failed                   | the policy decides: another attempt, or the call is over,   |
//! |                          | is paused, or goes on as another activity                   |
//! | lost with its process    | the policy decides, by a count of its own                   |
//! | interrupted by a stop    | another attempt at once; one that may run only once is lost |
//! | snoozed                  | another attempt when it said, not counted as a failure      |
//! | given up by its workflow | the call is over                                            |
//!
//! Another attempt is a changed task and a row in the ledger; the run hears nothing of it. A wait
//! that the call has no time for ends it. Deciding is `core`'s; here is the counting before and
//! the writing after.

use std::time::Duration;

use resurgam_core::event::{ActivityCompleted, ActivityFailed};
use resurgam_core::gate::{Outcome, most_probed};
use resurgam_core::retry::{
    CheckedPolicy, Decision, Exhausted, Reason, RecordedWhy, State, StopWhy,
};
use resurgam_core::{CallKey, EventKind, Failure, Kind, Payload, RunKey, Timestamp, retry};
use resurgam_store::rows::{AttemptOutcome, AttemptRow, Pause, Progress, TaskRow};
use resurgam_store::{Step, TaskWrite};

use super::hot_call::{Fallback, HotCall, started_at};
use super::timeouts::{
    clock_start, millis, queue_failure, start_of_first, total_failure, total_start,
};
use crate::node::Node;
use crate::node::follow_up::FollowUp;
use crate::node::message::end_report;
use crate::node::news::{News, Origin};
use crate::node::output::{Order, Output};
use crate::node::steps::effect::Effect;

/// How an attempt ended without success.
pub(crate) enum Ended {
    Failed(Failure),
    Lost,
    Interrupted,
    /// The workflow gave the call up before the attempt began.
    Cancelled,
}

impl Node {
    /// An attempt is over for its call, and perhaps not for its code.
    pub(crate) fn leave_attempt(&mut self, key: CallKey, lingers: bool) {
        let Some(call) = self.memory.calls.get_mut(key) else { return };
        call.begun = false;
        if let Some(claim) = call.task.claim.as_ref().filter(|_| lingers) {
            let (token, order) = (claim.token, Order::Leave);
            self.lingers(key.run, token);
            self.outputs.push(Output::OrderAttempt { token, order });
        }
    }

    /// Decides what follows an attempt that ended here.
    pub(crate) fn attempt_over(&mut self, key: CallKey, result: Result<Payload, Failure>) {
        let Some(call) = self.memory.calls.get(key) else { return };
        let stopped = self.stopping.is_some() && !call.task.progress.cancelled;
        // One that outlives this process was not told to end.
        let stopped = stopped && !call.outlives_process();
        let at_most_once = call.is_at_most_once();
        // Before anything follows: the next call of the same run may want the slot.
        self.free_slot(key);
        let result = result.and_then(|result| fitting(result, self.options.max_payload));
        match result.map_err(Failure::bounded) {
            Ok(result) => self.attempt_succeeded(key, result),
            Err(failure) if failure.is_never_begun() => self.was_never_begun(key),
            // It was told to stop and did: that is not its failure, unless the policy wants to know
            // for certain how it ended.
            Err(failure) if stopped && was_interrupted(&failure, at_most_once) => {
                self.attempt_failed(key, Ended::Interrupted, self.now);
            }
            // It was in a process of somebody else, which has ended, or was lost.
            Err(failure) if failure.is_interrupted() => {
                self.attempt_failed(key, Ended::Interrupted, self.now);
            }
            Err(failure) if failure.kind == Kind::WorkerLost => self.attempt_lost(key),
            Err(failure) => self.attempt_failed(key, Ended::Failed(failure), self.now),
        }
        self.then(FollowUp::FillSlots);
        self.then(FollowUp::SlotForShared);
    }

    /// An attempt was handed to another process, which has not begun it.
    fn was_never_begun(&mut self, key: CallKey) {
        let Some(call) = self.memory.calls.get(key) else { return };
        match call.task.progress.cancelled {
            // Nobody would begin it again.
            true => self.attempt_failed(key, Ended::Cancelled, self.now),
            false => self.hand_back(key),
        }
    }

    /// The process that ran an attempt died.
    pub(crate) fn attempt_lost(&mut self, key: CallKey) {
        metrics::counter!("resurgam.lost").increment(1);
        self.attempt_failed(key, Ended::Lost, self.now);
    }

    /// Nobody took an attempt in time: it counts as one that failed.
    pub(crate) fn attempt_never_taken(&mut self, key: CallKey) {
        let Some(call) = self.memory.calls.get(key) else { return };
        let (failure, now) = (queue_failure(&call.policy), self.now);
        self.stop_waiting(key);
        let Some(call) = self.memory.calls.get_mut(key) else { return };
        call.resumes(now, None);
        call.task.attempt = call.task.attempt.saturating_add(1);
        self.attempt_failed(key, Ended::Failed(failure), self.now);
    }

    /// A pause that was to end by itself is over: the call fails for the reason that paused it.
    pub(crate) fn pause_ran_out(&mut self, key: CallKey) {
        self.stop_waiting(key);
        let Some(call) = self.memory.calls.get(key) else { return };
        let stopped = call.task.progress.paused.as_ref().and_then(|pause| pause.stopped.as_deref());
        let reason = stopped.and_then(Reason::named).unwrap_or(Reason::MaxAttempts);
        let why = StopWhy::new(reason, call.task.progress.failures);
        // An older failure did not pause a call that lost its process too often.
        let failure = match reason {
            Reason::WorkerLost => call.failure_log.last_error(),
            _ => call.failure_log.last_failure(),
        };
        let failure = failure.cloned().unwrap_or_default();
        self.end_failed(key, failure, why, None, GivenUp::Fails);
    }

    /// A call that waits has run out of time. No attempt ends with it, so it leaves no row.
    pub(crate) fn call_ran_out_of_time(&mut self, key: CallKey) {
        let now = self.now;
        self.stop_waiting(key);
        let Some(call) = self.memory.calls.get(key) else { return };
        let mut why = StopWhy::new(Reason::TotalTimeout, call.task.progress.failures);
        why.elapsed = now.since(total_start(&call.task.progress).unwrap_or(now));
        let (given_up, failure) = (GivenUp::of(call, &why), total_failure(&call.policy));
        self.pressure.ran_out(&call.task.name, &failure, now);
        self.end_failed(key, failure, why, None, given_up);
    }

    /// Ends a call with the result of its attempt.
    pub(crate) fn attempt_succeeded(&mut self, key: CallKey, result: Payload) {
        if let Some(failure) = self.unfit_fallback(key, &result) {
            return self.attempt_failed(key, Ended::Failed(failure), self.now);
        }
        self.gate_hears(key, Outcome::Succeeded);
        let Some(call) = self.take_call(key) else { return };
        self.pressure.succeeded(&call.task.name, self.now);
        let completed = call.completed(result, self.now);
        let origin = Origin::ended(key, None, call.report);
        self.call_ended(key, EventKind::ActivityCompleted(completed), origin);
    }

    /// Why the result of an activity that took the place of another one is not what the workflow
    /// can read, as far as anybody here knows: that would block the run for good.
    fn unfit_fallback(&self, key: CallKey, result: &Payload) -> Option<Failure> {
        let call = self.memory.calls.get(key)?;
        let of = call.task.progress.fallback.as_ref()?;
        let error = self.registry.activity(&of.activity)?.check_output(result).err()?;
        let (name, called) = (&call.task.name, &of.activity);
        let message = format!("{name} returned what {called} could not have returned: {error}");
        Some(Failure::terminal(message).with_type("BadFallback"))
    }

    /// True when the total timeout of a call cuts an attempt that goes on for now, and its run
    /// wants to hear how it ends. What a run wants that is not in memory is not known: it may.
    pub(crate) fn wants_late_end(&self, key: CallKey, failure: &Failure) -> bool {
        let is_open = |call: &HotCall| !call.task.progress.cancelled;
        let run = self.memory.runs.current(key.run);
        failure.kind == Kind::TotalTimeout
            && self.memory.calls.get(key).is_some_and(is_open)
            && run.is_none_or(|run| run.wants_late_end(key.seq))
    }

    /// Decides what follows an attempt that ended at this time, and writes it down.
    pub(crate) fn attempt_failed(&mut self, key: CallKey, ended: Ended, now: Timestamp) {
        let is_open = |call: &&HotCall| !call.given_up;
        let Some(call) = self.memory.calls.get(key).filter(is_open) else { return };
        let outcome = match &ended {
            Ended::Failed(failure) => Outcome::of_failure(&call.policy.checked, failure),
            Ended::Lost | Ended::Interrupted | Ended::Cancelled => Outcome::Neither,
        };
        self.gate_hears(key, outcome);
        let Some(call) = self.memory.calls.get_mut(key) else { return };
        let now = call.failure_log.not_before(now);
        let (outcome, failure) = describe(ended);
        let decision = next(call, outcome, &failure, now);
        let mut row = attempt_row(call, outcome, failure.clone(), now);
        match decision {
            Next::Again { delay, why } => {
                row.delay_ms = Some(millis(delay));
                row.why = why;
                call.failure_log.add(&row);
                if is_failure(outcome) {
                    self.pressure.retried(&call.task.name, &failure, now);
                }
                self.try_again(key, delay, row, now);
            }
            Next::Stop(why) => {
                row.why = why.to_string();
                if is_failure(outcome) {
                    self.pressure.stopped(&call.task.name, &failure, why.reason, now);
                }
                // The row of an attempt whose time was up is there already.
                let row = Some(row).filter(|_| !call.task.progress.over);
                let failure = ends_with(call, outcome, failure, why.reason);
                self.stopped_retrying(key, failure, why, row, now);
            }
        }
    }

    /// Retrying has stopped: the call ends, or waits for an operator, as its policy wants.
    pub(crate) fn stopped_retrying(
        &mut self,
        key: CallKey,
        failure: Failure,
        why: StopWhy,
        row: Option<AttemptRow>,
        now: Timestamp,
    ) {
        let Some(call) = self.memory.calls.get(key) else { return };
        match call.on_stop(&why) {
            Exhausted::Pause { wait } => self.pause_exhausted(key, wait, &why, row, now),
            Exhausted::FallbackValue(value) => self.fall_back(key, &value, row, now),
            Exhausted::FallbackActivity(name) => {
                self.fall_back_to(key, &name, failure, &why, row, now);
            }
            Exhausted::Compensate | Exhausted::DeadLetter | Exhausted::Fail => {
                let given_up = GivenUp::of(call, &why);
                self.end_failed(key, failure, why, row, given_up);
            }
        }
    }

    /// Another activity goes on in the place of the one that was called.
    fn fall_back_to(
        &mut self,
        key: CallKey,
        name: &str,
        failure: Failure,
        why: &StopWhy,
        mut row: Option<AttemptRow>,
        now: Timestamp,
    ) {
        let fallback = match self.fallback_of(key, name) {
            Ok(fallback) => fallback,
            Err(error) => {
                tracing::error!(activity = name, "nothing to fall back to: {error}");
                return self.end_failed(key, failure, *why, row, GivenUp::Fails);
            }
        };
        metrics::counter!("resurgam.fallbacks").increment(1);
        let Some(call) = self.memory.calls.get_mut(key) else { return };
        if let Some(row) = &mut row {
            row.why.push_str(RecordedWhy::FALLS_BACK);
            row.why.push_str(name);
            call.failure_log.add(row);
        }
        let policy = fallback.policy.row.clone();
        call.falls_back(fallback, given_up(failure, call.task.attempt, why), now);
        let (instance, task) = (call.instance.clone(), call.task.clone());
        let report = call.report.take();
        let mut effects = vec![Effect::Waiting(key)];
        let mut step = Step {
            tasks: vec![TaskWrite::Update(task.clone())],
            attempts: row.into_iter().collect(),
            ..Step::default()
        };
        if self.outbox.is_new_policy(key, &policy.hash) {
            step.policies.push(policy);
        }
        if self.leaves(&task) {
            self.memory.runs.call_is_shared(key);
        }
        end_report(key.run.uid, report, &mut step, &mut effects);
        self.log_fallback(&instance, &task, why);
        self.outbox.push(step, effects);
    }

    /// What takes the place of a call when it falls back to this activity, which need not be known
    /// here. The error says why there is no policy for it.
    pub(crate) fn fallback_of(&mut self, key: CallKey, name: &str) -> Result<Fallback, String> {
        let call = self.memory.calls.get(key).ok_or_else(|| "the call is over".to_string())?;
        let (total, undoes) = (call.policy.checked.timeouts.total, call.task.progress.undoes);
        let activity = self.registry.activity(name);
        let policy = self.policies.of_fallback(activity.as_deref(), total, undoes)?;
        let call = self.memory.calls.get(key).ok_or_else(|| "the call is over".to_string())?;
        let gate = activity.as_ref().map(|activity| activity.gate_of(call.input()));
        let queue = activity.and_then(|activity| activity.options.queue.clone());
        let progress = Progress { undoes, ..Progress::default() };
        let task = TaskRow { name: name.to_string(), progress, ..call.task.clone() };
        let deciding = self.policies.deciding(policy.clone(), &task);
        let gate = gate.unwrap_or_else(|| name.to_string());
        Ok(Fallback { activity: name.to_string(), queue, gate, policy, deciding })
    }

    /// The call stays open and waits for an operator, at most so long.
    fn pause_exhausted(
        &mut self,
        key: CallKey,
        wait: Option<Duration>,
        why: &StopWhy,
        row: Option<AttemptRow>,
        now: Timestamp,
    ) {
        metrics::counter!("resurgam.paused").increment(1);
        let Some(call) = self.memory.calls.get_mut(key) else { return };
        row.iter().for_each(|row| call.failure_log.add(row));
        call.task.progress.pause_asked = None;
        call.waits(now, now);
        let (until, stopped) = (wait.map(|wait| now.saturating_add(wait)), why.reason.name());
        call.pauses(Pause { until, stopped: Some(stopped.to_string()), ..Pause::default() }, now);
        let (instance, task) = (call.instance.clone(), call.task.clone());
        let mut effects = vec![Effect::Waiting(key)];
        let mut step = Step {
            tasks: vec![TaskWrite::Update(task.clone())],
            attempts: row.into_iter().collect(),
            ..Step::default()
        };
        end_report(key.run.uid, call.report.take(), &mut step, &mut effects);
        self.log_paused(&instance, &task, why);
        self.outbox.push(step, effects);
    }

    /// The call completes with the value that its policy falls back to.
    fn fall_back(
        &mut self,
        key: CallKey,
        value: &serde_json::Value,
        row: Option<AttemptRow>,
        now: Timestamp,
    ) {
        let Some(mut call) = self.take_call(key) else { return };
        row.iter().for_each(|row| call.failure_log.add(row));
        let value = Payload::from_text(value.to_string());
        let completed = ActivityCompleted { fallback: true, ..call.completed(value, now) };
        let origin = Origin::ended(key, row, call.report);
        self.call_ended(key, EventKind::ActivityCompleted(completed), origin);
    }

    fn try_again(&mut self, key: CallKey, delay: Duration, row: AttemptRow, now: Timestamp) {
        metrics::counter!("resurgam.retries").increment(1);
        let Some(call) = self.memory.calls.get_mut(key) else { return };
        let due = now.saturating_add(delay);
        call.waits(due, now);
        call.is_decided();
        let instance = call.instance.clone();
        let mut effects = vec![Effect::Waiting(key)];
        let mut step = Step {
            tasks: vec![TaskWrite::Update(call.task.clone())],
            attempts: vec![row],
            ..Step::default()
        };
        end_report(key.run.uid, call.report.take(), &mut step, &mut effects);
        self.log_attempt(&instance, &step.attempts[0], due);
        self.outbox.push(step, effects);
    }

    /// Ends a call that failed, with the row of the attempt that ended with it, and what else its
    /// policy wants.
    fn end_failed(
        &mut self,
        key: CallKey,
        failure: Failure,
        why: StopWhy,
        mut row: Option<AttemptRow>,
        given_up: GivenUp,
    ) {
        let now = row.as_ref().map_or(self.now, |row| row.ended_at);
        let Some(mut call) = self.take_call(key) else { return };
        let mut failed = failed(&mut call, failure, &why, row.as_mut(), now);
        failed.ends_run = given_up == GivenUp::EndsRun;
        self.log_call(&call.instance, &call.task, &failed.failure, &why);
        let is_kept = given_up == GivenUp::IsKept;
        let letter = is_kept.then(|| self.dead_letter(&call, &failed, now));
        let origin = Origin::ended(key, row, call.report).with_letter(letter);
        self.call_ended(key, EventKind::ActivityFailed(failed), origin);
    }

    /// The time of a call is up, and its attempt goes on until its grace period is over. The run
    /// hears of the one now and of the other later, as of a call that it gave up itself.
    pub(crate) fn time_is_up(&mut self, key: CallKey, failure: Failure, now: Timestamp) {
        self.free_slot(key);
        let Some(mut call) = self.memory.calls.hot.remove(key) else { return };
        let report = call.report.take();
        let why = match next(&mut call, AttemptOutcome::Failed, &failure, now) {
            Next::Stop(why) => why,
            // No delay fits into no time.
            Next::Again { .. } => StopWhy::new(Reason::TotalTimeout, call.task.progress.failures),
        };
        self.pressure.stopped(&call.task.name, &failure, why.reason, now);
        let mut row = attempt_row(&call, AttemptOutcome::Failed, failure.clone(), now);
        row.why = why.to_string();
        let mut failed = failed(&mut call, failure, &why, Some(&mut row), now);
        failed.settles = true;
        let is_kept = GivenUp::of(&call, &why) == GivenUp::IsKept;
        let letter = is_kept.then(|| self.dead_letter(&call, &failed, now));
        let progress = &mut call.task.progress;
        (progress.cancelled, progress.in_grace, progress.over) = (true, true, true);
        let (instance, task) = (call.instance.clone(), Box::new(call.task.clone()));
        self.memory.calls.hot.insert(key, call);
        self.log_call(&instance, &task, &failed.failure, &why);
        let (stays, action) = (Some(task), None);
        let origin = Origin::Call { call: key, row: Some(row), report, stays, action, letter };
        self.call_ended(key, EventKind::ActivityFailed(failed), origin);
        self.then(FollowUp::FillSlots);
    }

    /// A call is over: that is news for its run.
    fn call_ended(&mut self, key: CallKey, event: EventKind, origin: Origin) {
        self.then(FollowUp::Deliver(key.run, News { event, origin, reply: None }));
    }

    /// The code of an attempt has returned: what waited for that may begin.
    pub(crate) fn stops_lingering(&mut self, run: RunKey, token: u64) {
        let now = self.now;
        for key in self.memory.lingering.end(run, token) {
            let waits = |call: &HotCall| call.task.claim.is_none() && call.task.wake_at > now;
            if !self.memory.calls.get(key).is_some_and(waits) {
                continue;
            }
            self.stop_waiting(key);
            if let Some(call) = self.memory.calls.get_mut(key) {
                call.task.wake_at = now;
            }
            // The step that schedules it may not be durable yet.
            self.outbox.after(key.run.uid, Effect::Waiting(key));
        }
    }
}

/// What follows for a call that is given up, beside its failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenUp {
    Fails,
    /// Its run fails with it.
    EndsRun,
    /// A dead letter is kept.
    IsKept,
}

impl GivenUp {
    /// What the policy of a call wants.
    pub(crate) fn of(call: &HotCall, why: &StopWhy) -> Self {
        match call.policy.checked.on_stop(why) {
            Exhausted::Compensate => GivenUp::EndsRun,
            Exhausted::DeadLetter => GivenUp::IsKept,
            _ => GivenUp::Fails,
        }
    }
}

/// The record of a call that failed for good. The row of the attempt that ended with it gets what
/// the call ends with.
pub(crate) fn failed(
    call: &mut HotCall,
    mut failure: Failure,
    why: &StopWhy,
    row: Option<&mut AttemptRow>,
    now: Timestamp,
) -> ActivityFailed {
    if matches!(failure.kind, Kind::TotalTimeout | Kind::QueueTimeout) {
        // Time ended it, but the failure before is what people want to know.
        let before = || call.failure_log.last_failure().cloned();
        failure.cause = failure.cause.take().or_else(before);
        failure = failure.bounded();
    }
    if let Some(row) = row {
        // What ended the attempt stays, where it is not what ends the call.
        if row.failure.as_ref().is_some_and(|own| own.kind == failure.kind) {
            row.failure = Some(failure.clone());
        }
        call.failure_log.add(row);
    }
    if let Some(of) = &call.task.progress.fallback {
        failure = caused_in_the_end_by(failure, &of.failure);
    }
    let exhausted =
        matches!(why.reason, Reason::MaxAttempts | Reason::MaxElapsed | Reason::TotalTimeout);
    if exhausted {
        metrics::counter!("resurgam.exhausted").increment(1);
    }
    ActivityFailed {
        activity: call.task.call.seq,
        failure,
        attempt: call.task.attempt,
        started_at: started_at(&call.task),
        why: why.reason.name().to_string(),
        settles: false,
        ends_run: false,
        retry_metadata: call.failure_log.metadata(&call.task, now, exhausted),
    }
}

/// The failure of a call as the activity gets it that takes its place, and as the cause of what
/// that one may fail with.
pub(crate) fn given_up(mut failure: Failure, attempts: u32, why: &StopWhy) -> Failure {
    (failure.attempts, failure.why) = (Some(attempts), Some(why.reason.name().to_string()));
    failure
}

/// A failure whose last cause is another one, unless it is among the causes already.
fn caused_in_the_end_by(mut failure: Failure, first: &Failure) -> Failure {
    let mut last = &mut failure;
    while last.cause.is_some() {
        let is_first = |cause: &Failure| {
            (cause.kind, &cause.type_name, &cause.message)
                == (first.kind, &first.type_name, &first.message)
        };
        if last.cause.as_ref().is_some_and(is_first) {
            break;
        }
        last = last.cause.as_mut().expect("it was there");
    }
    last.cause = Some(first.clone());
    failure.bounded()
}

/// True when an attempt that ended so is counted as one that failed.
fn is_failure(outcome: AttemptOutcome) -> bool {
    matches!(outcome, AttemptOutcome::Failed | AttemptOutcome::Lost)
}

/// The row of an attempt that did not succeed.
fn attempt_row(
    call: &HotCall,
    outcome: AttemptOutcome,
    failure: Failure,
    now: Timestamp,
) -> AttemptRow {
    AttemptRow {
        call: call.task.call,
        name: call.task.name.clone(),
        attempt: call.task.attempt,
        outcome,
        started_at: started_at(&call.task),
        ended_at: now,
        failure: Some(failure),
        delay_ms: None,
        why: String::new(),
    }
}

/// True when an attempt that failed after it was told to stop counts as one that the stop cut
/// short. One that ran out of time did so by itself. Where it must be known for certain how an
/// attempt ended, only one that says so itself was cut short.
pub(crate) fn was_interrupted(failure: &Failure, at_most_once: bool) -> bool {
    match failure.kind {
        Kind::Cancelled => true,
        Kind::Timeout | Kind::HeartbeatTimeout | Kind::TotalTimeout => false,
        _ => !at_most_once && !failure.is_terminal() && failure.snooze.is_none(),
    }
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

/// What a call ends with after an attempt that ended so. When there is no time to wait for the next
/// one although this one has not failed, the time is what ends it.
fn ends_with(call: &HotCall, outcome: AttemptOutcome, failure: Failure, reason: Reason) -> Failure {
    if reason != Reason::TotalTimeout {
        return failure;
    }
    match outcome {
        AttemptOutcome::Snoozed => total_failure(&call.policy),
        AttemptOutcome::Lost | AttemptOutcome::Interrupted => {
            let mut ended = total_failure(&call.policy);
            ended.cause = Some(call.failure_log.last_failure().cloned().unwrap_or(failure));
            ended
        }
        _ => failure,
    }
}

/// Counts the attempt and asks the policy. A wait that the call has no time for ends it.
fn next(call: &mut HotCall, outcome: AttemptOutcome, failure: &Failure, now: Timestamp) -> Next {
    if call.task.progress.cancelled {
        return Next::Stop(StopWhy::new(Reason::Cancelled, call.task.progress.failures));
    }
    match after(call, outcome, failure, now) {
        Next::Again { delay, why } => {
            let state = state(&call.task.progress, now);
            match retry::cannot_wait(&call.policy.checked, &state, now, delay) {
                Some(why) => Next::Stop(why),
                None => Next::Again { delay, why },
            }
        }
        stop => stop,
    }
}

fn after(call: &mut HotCall, outcome: AttemptOutcome, failure: &Failure, now: Timestamp) -> Next {
    let policy = &call.policy.checked;
    let progress = &mut call.task.progress;
    let mut is_counted = true;
    let decision = match outcome {
        AttemptOutcome::Snoozed => {
            progress.snoozed = progress.snoozed.saturating_add(1);
            progress.is_not_lost();
            let delay = failure.snooze.unwrap_or_default();
            return Next::Again { delay, why: "snoozed".to_string() };
        }
        AttemptOutcome::Interrupted if policy.idempotency != retry::Idempotency::AtMostOnce => {
            progress.interrupted = progress.interrupted.saturating_add(1);
            progress.is_not_lost();
            return Next::Again { delay: Duration::ZERO, why: "interrupted by a stop".to_string() };
        }
        AttemptOutcome::Lost | AttemptOutcome::Interrupted => {
            progress.lost = progress.lost.saturating_add(1);
            progress.is_lost_again();
            retry::decide_lost(policy, progress.lost_in_a_row)
        }
        _ if is_free(policy, progress, failure) => {
            progress.probed = progress.probed.saturating_add(1);
            progress.is_not_lost();
            let CallKey { run, seq } = call.task.call;
            let u = retry::uniform(run.uid.0, run.run, seq.0, progress.failures);
            is_counted = false;
            retry::decide_uncounted(policy, &state(progress, now), failure, now, u)
        }
        _ => {
            progress.failures = progress.failures.saturating_add(1);
            progress.is_not_lost();
            let CallKey { run, seq } = call.task.call;
            let u = retry::uniform(run.uid.0, run.run, seq.0, progress.failures);
            retry::decide(policy, &state(progress, now), failure, now, u)
        }
    };
    match decision {
        Decision::Retry { delay, why } => {
            // The policy's next delay follows from its own last one, not from that of a loss.
            if !why.lost {
                progress.previous_delay_ms = Some(millis(delay));
            }
            let free = if is_counted { "" } else { RecordedWhy::FREE };
            Next::Again { delay, why: format!("{why}{free}") }
        }
        Decision::Stop { why } => Next::Stop(why),
    }
}

/// Decides about the last failure of a call again, which waits after it, by the policy that it has
/// now: from the same random number, the delay before it, and the end of that attempt. `None` when
/// there is nothing to decide: it does not wait after a failure.
pub(crate) fn decide_again(call: &mut HotCall, now: Timestamp) -> Option<Result<(), StopWhy>> {
    let last = call.failure_log.last_attempt(call.task.attempt);
    // Where failures are counted from 0 again, nothing has been decided yet.
    let last = last.filter(|_| call.task.progress.failures > 0).cloned()?;
    let CallKey { run, seq } = call.task.call;
    let u = retry::uniform(run.uid.0, run.run, seq.0, call.task.progress.failures);
    let state = state(&call.task.progress, last.ended_at());
    let delay = match last.decided_again(&call.policy.checked, state, u) {
        Decision::Stop { why } => return Some(Err(why)),
        Decision::Retry { delay, .. } => delay,
    };
    call.task.progress.previous_delay_ms = Some(millis(delay));
    call.waits(last.ended_at().saturating_add(delay).max(now), now);
    Some(Ok(()))
}

/// True for a failure that began while its gate was not flowing, to see whether the dependency is
/// back: it is free, up to a bound.
fn is_free(policy: &CheckedPolicy, progress: &Progress, failure: &Failure) -> bool {
    let counts = || Outcome::of_failure(policy, failure) != Outcome::Neither;
    progress.probing && progress.probed < most_probed(policy.max_attempts) && counts()
}

/// What a decision needs to know about a call.
pub(crate) fn state(progress: &Progress, now: Timestamp) -> State {
    State {
        failures: progress.failures,
        first_scheduled: clock_start(progress).unwrap_or(now),
        first_started: start_of_first(progress),
        previous_delay: progress.previous_delay_ms.map(Duration::from_millis),
        total_since: total_start(progress),
    }
}

/// A result that is not too large; the next attempt would return the same.
pub fn fitting(result: Payload, most: usize) -> Result<Payload, Failure> {
    if result.len() <= most {
        return Ok(result);
    }
    let message = format!("the result of {} bytes is larger than the {most} allowed", result.len());
    Err(Failure::terminal(message).with_type("PayloadTooLarge"))
}
