//! The failures of a call so far, bounded: what its history tells in the end.

use std::collections::VecDeque;
use std::time::Duration;

use resurgam_core::event::{AttemptError, RetryMetadata};
use resurgam_core::retry::{self, CheckedPolicy, Counters, Decision, State};
use resurgam_core::{Failure, Timestamp};
use resurgam_store::rows::{AttemptOutcome, AttemptRow, TaskRow};

use super::timeouts::millis;

/// How many failures are kept from the beginning, and how many from the end.
const KEPT: usize = 10;

/// The failures of a call so far, bounded.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailureLog {
    first: Vec<AttemptRow>,
    last: VecDeque<AttemptRow>,
    left_out: u32,
    /// The last one, whole. A loss or an interruption stands here only as long as nothing failed.
    /// Boxed, as the next ones: most calls never fail, and are moved about.
    failure: Option<Box<Failure>>,
    /// The last one, whole, whatever it was.
    error: Option<Box<Failure>>,
    has_failed: bool,
    /// The last attempt, if that failed.
    last_attempt: Option<Box<LastAttempt>>,
    /// The delay after the last failure.
    delay: Option<Duration>,
    /// When the last attempt ended.
    ended_at: Option<Timestamp>,
}

/// The attempt of a call that failed last, with what a decision about it needs.
#[derive(Clone, Debug)]
pub(crate) struct LastAttempt {
    attempt: u32,
    failure: Failure,
    ended_at: Timestamp,
    /// The delay after the failure before it.
    delay_before: Option<Duration>,
}

impl LastAttempt {
    /// When it ended.
    pub(crate) fn ended_at(&self) -> Timestamp {
        self.ended_at
    }

    /// What a policy says about it, asked again with the same random number.
    pub(crate) fn decided_again(&self, policy: &CheckedPolicy, state: State, u: f64) -> Decision {
        let state = State { previous_delay: self.delay_before, ..state };
        retry::decide(policy, &state, &self.failure, self.ended_at, u)
    }
}

impl FailureLog {
    /// Restores what a ledger tells, which is bounded itself; `ended` counts all of it.
    pub(crate) fn of(ledger: &[AttemptRow], ended: Counters) -> Self {
        let mut log = FailureLog::default();
        ledger.iter().for_each(|row| log.add(row));
        let kept = log.first.len() + log.last.len();
        let errors = ended.ended().saturating_sub(ended.snoozed);
        log.left_out = errors.saturating_sub(u32::try_from(kept).unwrap_or(u32::MAX));
        log
    }

    /// Adds an attempt. One that asked to be run later did not fail.
    pub(crate) fn add(&mut self, row: &AttemptRow) {
        self.ended_at = Some(row.ended_at);
        if error_of(row).is_none() {
            return;
        }
        self.error = row.failure.clone().map(Box::new);
        if row.outcome == AttemptOutcome::Failed || !self.has_failed {
            self.failure = row.failure.clone().map(Box::new);
        }
        self.has_failed |= row.outcome == AttemptOutcome::Failed;
        self.last_attempt = None;
        if let Some(failure) = row.failure.clone().filter(|_| row.outcome == AttemptOutcome::Failed)
        {
            let (attempt, ended_at, delay_before) = (row.attempt, row.ended_at, self.delay);
            let last = LastAttempt { attempt, failure, ended_at, delay_before };
            self.last_attempt = Some(Box::new(last));
            self.delay = row.delay();
        }
        if self.first.len() < KEPT {
            return self.first.push(row.clone());
        }
        if self.last.len() == KEPT {
            self.last.pop_front();
            self.left_out += 1;
        }
        self.last.push_back(row.clone());
    }

    /// This time, or when the attempt before ended, whichever is later: clocks of two nodes differ
    /// by some milliseconds, and attempts end one after the other.
    pub(crate) fn not_before(&self, time: Timestamp) -> Timestamp {
        self.ended_at.map_or(time, |ended| ended.max(time))
    }

    /// The last attempt, if that failed and has this number.
    pub(crate) fn last_attempt(&self, number: u32) -> Option<&LastAttempt> {
        self.last_attempt.as_deref().filter(|last| last.attempt == number)
    }

    /// The last failure, whole.
    pub(crate) fn last_failure(&self) -> Option<&Failure> {
        self.failure.as_deref()
    }

    /// The attempts that failed, as far as they are kept.
    pub(crate) fn rows(&self) -> Vec<AttemptRow> {
        self.first.iter().chain(&self.last).cloned().collect()
    }

    /// What the last attempt ended with that did not succeed, whole, also a loss.
    pub(crate) fn last_error(&self) -> Option<&Failure> {
        self.error.as_deref()
    }

    /// What happened as the history tells it, when there was more than one attempt.
    pub(crate) fn metadata(
        &self,
        task: &TaskRow,
        now: Timestamp,
        exhausted: bool,
    ) -> Option<RetryMetadata> {
        if task.attempt < 2 {
            return None;
        }
        let errors: Vec<AttemptError> =
            self.first.iter().chain(&self.last).filter_map(error_of).collect();
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
