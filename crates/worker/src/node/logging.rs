//! What is logged about attempts, calls and runs that fail, and calls that cannot be made here.
//!
//! An attempt that is tried again is for information; a call that is over, and a run that failed,
//! are warnings. Each activity and each workflow has a number of lines in a while of its own
//! (`log_limit.rs`), so that a service that is down fills no disk. Cancelled calls, snoozes,
//! interruptions by a stop and pruned branches are no failures, and not logged.
//!
//! A line is written when it is decided what follows, and not when that is durable: nothing depends
//! on a line, and a store that refuses is when people want to read them.

use std::fmt::Display;

use resurgam_core::duration::Human;
use resurgam_core::retry::{Reason, StopWhy};
use resurgam_core::schedule::time_text;
use resurgam_core::{Failure, Timestamp};
use resurgam_store::rows::{AttemptOutcome, AttemptRow, TaskRow};

use super::Node;
use crate::log_limit::{LogLimit, WINDOW};

/// How much of a failure is in a line; all of it is in the ledger and in the history.
const SHOWN: usize = 300;

/// What lines are about: what happened, to which activity or workflow.
pub(crate) type Lines = LogLimit<(Trouble, String)>;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Trouble {
    AttemptFailed,
    CallFailed,
    /// A call waits for an operator because retrying stopped.
    Paused,
    RunTriedAgain,
    RunFailed,
    NoActivity,
    Lack,
}

impl Node {
    /// Logs an attempt that failed, or was lost, and is followed by another one.
    pub(crate) fn log_attempt(&mut self, instance: &str, row: &AttemptRow, due: Timestamp) {
        let failed = matches!(row.outcome, AttemptOutcome::Failed | AttemptOutcome::Lost);
        if !failed || !self.may_log(Trouble::AttemptFailed, &row.name) {
            return;
        }
        let failure = row.failure.as_ref().map(one_line).unwrap_or_default();
        tracing::info!(%instance, activity = %row.name, attempt = row.attempt, %failure,
            next_due = %time_text(due), why = %row.why, "attempt {}, will be retried",
            row.outcome.name());
    }

    /// Logs a call whose activity this process does not know.
    pub(crate) fn log_no_activity(&mut self, instance: &str, activity: &str) {
        if !self.may_log(Trouble::NoActivity, activity) {
            return;
        }
        match self.registry.finds_activities() {
            true => tracing::warn!(%instance, %activity,
                "an activity is not there; its call waits until it comes"),
            false => tracing::warn!(%instance, %activity,
                "an activity is not registered in this process, so its call waits; add it with \
                 .activity(..) where the app is built"),
        }
    }

    /// Logs a call that this process lacks something for.
    pub(crate) fn log_lack(&mut self, instance: &str, activity: &str, what: &str) {
        if self.may_log(Trouble::Lack, what) {
            tracing::warn!(%instance, %activity,
                "this process lacks {what}, so a call waits for one that has it");
        }
    }

    /// Logs a call that is over without success.
    pub(crate) fn log_call(
        &mut self,
        instance: &str,
        task: &TaskRow,
        failure: &Failure,
        why: &StopWhy,
    ) {
        let unwanted = matches!(why.reason, Reason::Cancelled | Reason::Pruned);
        if unwanted || !self.may_log(Trouble::CallFailed, &task.name) {
            return;
        }
        tracing::warn!(%instance, activity = %task.name, attempt = task.attempt, failure = %one_line(failure), %why,
            "activity failed, no attempt follows");
    }

    /// Logs a call that waits for an operator because retrying stopped.
    pub(crate) fn log_paused(&mut self, instance: &str, task: &TaskRow, why: &StopWhy) {
        if self.may_log(Trouble::Paused, &task.name) {
            tracing::warn!(%instance, activity = %task.name, attempt = task.attempt, %why,
                "activity failed and is paused: resume, complete or fail its call");
        }
    }

    /// Logs a call that goes on as another activity because retrying stopped.
    pub(crate) fn log_fallback(&mut self, instance: &str, task: &TaskRow, why: &StopWhy) {
        let called = task.progress.fallback.as_ref().map_or("", |of| &of.activity);
        if self.may_log(Trouble::CallFailed, called) {
            tracing::warn!(%instance, activity = called, attempt = task.attempt, %why,
                fallback = %task.name, "activity failed, another one goes on in its place");
        }
    }

    /// Logs a run that failed, and of the next one by the workflow's policy, if one follows.
    pub(crate) fn log_run(
        &mut self,
        instance: &str,
        workflow: &str,
        failure: &Failure,
        next: Option<Timestamp>,
    ) {
        let failure = || one_line(failure);
        match next {
            Some(due) if self.may_log(Trouble::RunTriedAgain, workflow) => {
                tracing::info!(%instance, %workflow, failure = %failure(),
                    next_due = %time_text(due), "run failed, will be retried");
            }
            None if self.may_log(Trouble::RunFailed, workflow) => {
                tracing::warn!(%instance, %workflow, failure = %failure(), "run failed");
            }
            _ => {}
        }
    }

    fn may_log(&mut self, what: Trouble, name: &str) -> bool {
        self.log_left_out();
        self.lines.admits((what, name.to_string()), self.now)
    }

    /// Logs how many lines were left out, once a while is over.
    pub(crate) fn log_left_out(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        for ((what, name), count) in self.lines.over(self.now) {
            log_count(what, &name, count);
        }
    }

    /// Logs how many lines were left out of a while that this process does not see the end of.
    pub(crate) fn log_left_out_at_end(&mut self) {
        for ((what, name), count) in self.lines.end() {
            log_count(what, &name, count);
        }
    }

    /// Notes that something could not be read. What people are told of it is in `outage.rs`.
    pub(crate) fn tell(&self, what: &'static str, of: &dyn Display, error: &resurgam_store::Error) {
        tracing::debug!("{what} of {of}, again later: {error}");
    }
}

fn log_count(what: Trouble, name: &str, count: u64) {
    let within = Human(WINDOW);
    match what {
        Trouble::AttemptFailed => tracing::info!(activity = %name, left_out = count,
            "{count} more attempts failed within {within} and will be retried"),
        Trouble::CallFailed => tracing::warn!(activity = %name, left_out = count,
            "{count} more calls failed within {within}, no attempt follows"),
        Trouble::Paused => tracing::warn!(activity = %name, left_out = count,
            "{count} more calls failed within {within} and are paused"),
        Trouble::RunTriedAgain => tracing::info!(workflow = %name, left_out = count,
            "{count} more runs failed within {within} and will be retried"),
        Trouble::Lack => tracing::warn!(
            left_out = count,
            "{count} more calls wait for a process that has {name}"
        ),
        Trouble::NoActivity => tracing::warn!(activity = %name, left_out = count,
            "{count} more calls wait for an activity that is not there"),
        Trouble::RunFailed => tracing::warn!(workflow = %name, left_out = count,
            "{count} more runs failed within {within}"),
    }
}

/// A failure in one line: what others sent must not look like lines of the log.
fn one_line(failure: &Failure) -> String {
    let text = failure.to_string();
    let mut line: String = text.chars().take(SHOWN).collect();
    line = line.replace(|character: char| character.is_control(), " ");
    if line.len() < text.len() {
        line.push_str("...");
    }
    line
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_failure_is_one_line_however_long_it_is_and_whatever_is_in_it() {
        assert_eq!(one_line(&Failure::of_type("Down", "no answer")), "Down: no answer");
        let forged = Failure::new("no\n2026-11-16 INFO all is well\u{1b}[2J");
        assert_eq!(one_line(&forged), "no 2026-11-16 INFO all is well [2J");
        let long = one_line(&Failure::new("ü".repeat(1_000)));
        assert_eq!(long, format!("{}...", "ü".repeat(SHOWN)));
    }
}
