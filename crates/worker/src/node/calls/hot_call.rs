//! An unfinished activity call in memory ([`HotCall`]): its task, and what changes that. How calls
//! get into memory and out of it is in `call.rs`.

use std::sync::Arc;

use resurgam_core::event::ActivityCompleted;
use resurgam_core::retry::{Exhausted, StopWhy};
use resurgam_core::{CallKey, Failure, Fingerprint, Payload, Timestamp, retry};
use resurgam_store::rows::{FellBack, Heartbeat, Pause, Progress, TaskRow};

use super::failure_log::FailureLog;
use super::slots::Slot;
use super::timeouts::{clock_start, deadline, millis};
use crate::policy::{Deciding, Resolved};

/// An unfinished activity call in memory.
#[derive(Debug)]
pub(crate) struct HotCall {
    pub(super) task: TaskRow,
    pub(super) input: Payload,
    pub(super) instance: String,
    pub(super) policy: Arc<Resolved>,
    /// The revision of what operators set for its activity that the policy follows.
    pub(super) revision: u64,
    pub(super) failure_log: FailureLog,
    /// What its attempt holds from the claim to the end, unless its thread does.
    pub(super) slot: Option<Slot>,
    /// The driver was told to begin the attempt that it is claimed for.
    pub(super) begun: bool,
    /// A process before this one has begun that attempt, which outlived it.
    pub(super) resumed: bool,
    /// The workflow wants to hear no more of it, as soon as that is durable.
    pub(super) given_up: bool,
    /// The message that told how its attempt ended on another node.
    pub(super) report: Option<String>,
}

/// An activity that takes the place of another one.
#[derive(Debug)]
pub(crate) struct Fallback {
    pub(super) activity: String,
    /// The queue that it names.
    pub(super) queue: Option<String>,
    /// The gate that it is behind.
    pub(super) gate: String,
    /// Its own policy, and the one that decides.
    pub(super) policy: Arc<Resolved>,
    pub(super) deciding: Deciding,
}

impl HotCall {
    pub(crate) fn new(task: TaskRow, input: Payload, instance: String, deciding: Deciding) -> Self {
        let Deciding { policy, revision } = deciding;
        HotCall {
            task,
            input,
            instance,
            policy,
            revision,
            failure_log: FailureLog::default(),
            slot: None,
            begun: false,
            resumed: false,
            given_up: false,
            report: None,
        }
    }

    /// The row of its task.
    pub(crate) fn task(&self) -> &TaskRow {
        &self.task
    }

    /// The row of its task, when nothing else of it is wanted.
    pub(crate) fn into_task(self) -> TaskRow {
        self.task
    }

    /// Its name everywhere.
    pub(crate) fn key(&self) -> CallKey {
        self.task.call
    }

    /// Its argument.
    pub(crate) fn input(&self) -> &Payload {
        &self.input
    }

    /// The id of its instance.
    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    /// True when the attempt that it is claimed for has this token.
    pub(crate) fn has_token(&self, token: u64) -> bool {
        self.token() == Some(token)
    }

    /// The token of the attempt that it is claimed for.
    pub(crate) fn token(&self) -> Option<u64> {
        self.task.claim.as_ref().map(|claim| claim.token)
    }

    /// The token of its attempt, if the driver was told to begin that.
    pub(crate) fn begun_token(&self) -> Option<u64> {
        self.token().filter(|_| self.begun)
    }

    /// True when an attempt of it is claimed.
    pub(crate) fn is_claimed(&self) -> bool {
        self.task.claim.is_some()
    }

    /// True when the attempt that it is claimed for outlives this process.
    pub(crate) fn outlives_process(&self) -> bool {
        self.is_claimed() && self.task.progress.remote
    }

    /// True when somebody may run the attempt that it is claimed for although this process does
    /// not, which began its code or did not.
    pub(crate) fn goes_on_elsewhere(&self, began: bool) -> bool {
        self.outlives_process() && (began || self.resumed)
    }

    /// True when the workflow wants to hear no more of it.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up
    }

    /// Its attempt holds a slot until it ends.
    pub(crate) fn hold(&mut self, slot: Slot) {
        self.slot = Some(slot);
    }

    /// The driver has ended its attempt, or has not begun it.
    pub(crate) fn is_cut_short(&mut self) {
        self.begun = false;
    }

    /// Takes back what its attempt holds.
    pub(crate) fn take_slot(&mut self) -> Option<Slot> {
        self.slot.take()
    }

    /// A message told how its attempt ended on another node.
    pub(crate) fn is_reported(&mut self, message: String) {
        self.report = Some(message);
    }

    /// What was told of its attempt is no end.
    pub(crate) fn is_not_over(&mut self) {
        self.report = None;
    }

    /// Nobody had what it takes: this is what it lacked.
    pub(crate) fn lacks(&mut self, what: String) {
        self.task.progress.lacks = Some(what);
    }

    /// The workflow no longer wants its result, but wants to hear how it ended; or, after all, it
    /// does.
    pub(crate) fn is_cancelled(&mut self, cancelled: bool, in_grace: bool) {
        self.task.progress.cancelled = cancelled;
        self.task.progress.in_grace = in_grace;
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
            fallback: self.task.progress.fallback.is_some(),
            retry_metadata: self.failure_log.metadata(&self.task, now, false),
        }
    }

    /// No attempt runs: from here on it waits, or is paused if somebody asked for that.
    pub(crate) fn waits(&mut self, wake_at: Timestamp, now: Timestamp) {
        self.task.claim = None;
        self.task.progress.to_end = false;
        (self.begun, self.resumed) = (false, false);
        self.task.wake_at = wake_at;
        if let Some(asked) = self.task.progress.pause_asked.take() {
            return self.pauses(*asked, now);
        }
        self.task.deadline_at = deadline(&self.task, &self.policy);
    }

    /// No attempt begins until somebody resumes it, or until the pause is over.
    pub(crate) fn pauses(&mut self, pause: Pause, now: Timestamp) {
        let (since, due) = (Some(now), Some(self.task.wake_at));
        let Fingerprint { key, error } =
            Fingerprint::of(&self.task.name, self.failure_log.last_failure());
        let (fingerprint, error) = (Some(key), Some(error));
        let pause = Pause { since, due, fingerprint, error, ..pause };
        self.task.progress.paused = Some(Box::new(pause));
        self.task.wake_at = TaskRow::NEVER;
        self.task.deadline_at = deadline(&self.task, &self.policy);
    }

    /// It goes on: its next attempt is due when it was to be, or now, and not before `due`. Its
    /// clocks stood still.
    pub(crate) fn resumes(&mut self, now: Timestamp, due: Option<Timestamp>) {
        let Some(pause) = self.task.progress.paused.take() else { return };
        if !pause.clock_runs {
            let paused = millis(now.since(pause.since.unwrap_or(now)));
            let progress = &mut self.task.progress;
            progress.stood_still_ms = progress.stood_still_ms.saturating_add(paused);
            if progress.first_started.is_some() {
                let since_start = progress.stood_still_since_start_ms.saturating_add(paused);
                progress.stood_still_since_start_ms = since_start;
            }
        }
        // It is late already where its clocks have run.
        let earliest = if pause.clock_runs { Timestamp::EPOCH } else { now };
        self.task.wake_at = pause.due.unwrap_or(now).max(earliest).max(due.unwrap_or(earliest));
        self.task.deadline_at = deadline(&self.task, &self.policy);
    }

    /// Failures are counted from 0 again, and its time begins again.
    pub(crate) fn starts_over(&mut self, now: Timestamp) {
        let progress = &mut self.task.progress;
        progress.failures = 0;
        progress.is_not_lost();
        progress.first_scheduled = Some(now);
        progress.first_started = None;
        progress.previous_delay_ms = None;
        (progress.stood_still_ms, progress.stood_still_since_start_ms) = (0, 0);
        if let Some(of) = &mut progress.fallback {
            of.since = Some(now);
        }
        self.task.deadline_at = deadline(&self.task, &self.policy);
    }

    /// Another policy decides from now on. Its timeouts are the same.
    pub(crate) fn follows(&mut self, deciding: Deciding) {
        let Deciding { policy, revision } = deciding;
        (self.policy, self.revision) = (policy, revision);
    }

    /// Its wait was decided, or chosen, by the policy that decides now.
    pub(crate) fn is_decided(&mut self) {
        self.task.progress.decided_by = self.revision;
    }

    /// True when it waits after a failure, and another policy than the one that decides now chose
    /// how long.
    pub(crate) fn is_to_be_decided_again(&self) -> bool {
        let Progress { policy_set, undoes, paused, cancelled, decided_by, .. } =
            &self.task.progress;
        let concerns = !policy_set && !undoes && *decided_by != self.revision;
        concerns && !self.is_claimed() && !self.given_up && !cancelled && paused.is_none()
    }

    /// What follows now that retrying has stopped. What takes the place of another activity can
    /// only fail: that its policy says so was checked where the activity is known.
    pub(crate) fn on_stop(&self, why: &StopWhy) -> Exhausted {
        match self.task.progress.fallback {
            Some(_) => Exhausted::Fail,
            None => self.policy.checked.on_stop(why),
        }
    }

    /// Another activity takes its place, with counters and times of its own, and is due now.
    pub(crate) fn falls_back(&mut self, to: Fallback, failure: Failure, now: Timestamp) {
        let Fallback { activity, queue, gate, policy, deciding } = to;
        let task = &mut self.task;
        let since = clock_start(&task.progress);
        task.gate = gate;
        let activity = std::mem::replace(&mut task.name, activity);
        if let Some(queue) = queue {
            task.queue = queue;
        }
        task.policy.clone_from(&policy.row.hash);
        task.progress.policy_set = false;
        // What the other one reported is not for this one.
        task.heartbeat = None;
        (task.progress.unregistered, task.progress.lacks) = (false, None);
        task.progress.remote = false;
        self.follows(deciding);
        self.starts_over(now);
        self.task.progress.fallback = Some(Box::new(FellBack { activity, failure, since }));
        self.waits(now, now);
    }

    /// Keeps what an attempt told. One that tells anything does not kill its process.
    pub(crate) fn note(&mut self, heartbeat: Option<Heartbeat>) {
        if let Some(heartbeat) = heartbeat {
            self.task.heartbeat = Some(heartbeat);
            self.task.progress.is_not_lost();
        }
    }
}

pub(crate) fn started_at(task: &TaskRow) -> Timestamp {
    let paused = task.progress.paused.as_ref();
    let due = paused.map_or(task.wake_at, |pause| pause.due.unwrap_or(Timestamp::EPOCH));
    task.claim.as_ref().map_or(due, |claim| claim.started_at)
}
