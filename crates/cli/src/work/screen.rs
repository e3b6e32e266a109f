//! How an instance goes, on the terminal of standard error: what runs, which attempt of how many,
//! and when the next one is due. Standard output is for the result.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anstyle::Style;
use resurgam::retry::{Counters, Limit};
use resurgam::{AttemptOutcome, AttemptRow, Description, PendingCall, Timestamp, WaitsFor};
use resurgam_core::Failure;

use super::log;
use crate::moment::tenths;
use crate::style::{FAINT, GOOD, STRONG, WARNING};
use crate::terminal::{Part, painted, redrawn, size};

/// Lines of the terminal that are not for calls.
const OTHER_LINES: usize = 3;

/// Where progress is shown.
#[derive(Debug)]
pub(super) struct Screen {
    /// How many lines were drawn; `None` where nobody could redraw them.
    drawn: Option<Arc<AtomicUsize>>,
    silent: bool,
}

impl Screen {
    /// The screen that suits standard error.
    pub(super) fn new(json: bool) -> Self {
        let colours = anstream::stderr().current_choice() != anstream::ColorChoice::Never;
        let live = colours && io::stderr().is_terminal();
        Screen { drawn: live.then(Arc::default), silent: json && !live }
    }

    /// True when somebody sees what is drawn.
    pub(super) fn is_live(&self) -> bool {
        self.drawn.is_some()
    }

    /// Warnings are told from now on, above what is drawn: a full disk, for example, which is
    /// waited for.
    pub(super) fn log(&self) {
        log::begin("warn", self.drawn.clone());
    }

    /// Says a sentence to people, if there are any.
    pub(super) fn say(&self, text: &str) {
        if !self.silent {
            print(text);
        }
    }

    /// Shows what an instance does at this moment.
    pub(super) fn show(&self, description: &Description, now: Timestamp) {
        self.draw(&lines(description, now, size(io::stderr())));
    }

    /// Draws lines in place of those drawn before.
    pub(super) fn draw(&self, lines: &[String]) {
        if let Some(drawn) = &self.drawn {
            print(&redrawn(drawn.swap(lines.len(), Ordering::Relaxed), lines));
        }
    }

    /// Takes away what was drawn.
    pub(super) fn clear(&self) {
        self.draw(&[]);
    }
}

/// Trouble with the terminal is no trouble of the instance.
fn print(text: &str) {
    let mut stderr = anstream::stderr().lock();
    let _unless_unread = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// A line for each call, as many as fit, those that run first.
fn lines(
    description: &Description,
    now: Timestamp,
    (width, height): (usize, usize),
) -> Vec<String> {
    let mut calls: Vec<&PendingCall> = description.pending.iter().collect();
    calls.sort_by_key(|call| (!call.running, call.next_due, call.seq));
    let fit = height.saturating_sub(OTHER_LINES).max(1).min(calls.len());
    let (shown, others) = calls.split_at(fit);
    let elapsed = tenths(now.since(description.instance.created_at));
    let mut lines = vec![vec![
        (STRONG, description.instance.id.clone()),
        (FAINT, format!("  {elapsed}  {}", counts(description, &calls))),
    ]];
    lines.extend(shown.iter().map(|call| line(call, now)));
    if !others.is_empty() {
        lines.push(vec![(FAINT, format!("  + {} more", others.len()))]);
    }
    lines.iter().map(|line| painted(line, width)).collect()
}

fn counts(description: &Description, calls: &[&PendingCall]) -> String {
    let running = calls.iter().filter(|call| call.running).count();
    match calls.len() - running {
        0 if running == 0 => waits(description),
        0 => format!("{running} running"),
        waiting => format!("{running} running, {waiting} waiting"),
    }
}

/// What an instance does that has called nothing.
pub(super) fn waits(description: &Description) -> String {
    match &description.instance.error {
        Some(why) => format!("waits: {why}"),
        None if description.waits_for_first_turn => "waits for its first turn".to_string(),
        None => "waits for no action".to_string(),
    }
}

fn line(call: &PendingCall, now: Timestamp) -> Vec<Part> {
    let mut parts = vec![(Style::new(), format!("  {:<20} ", call.activity)), state(call, now)];
    parts.extend(call.last.as_ref().map(|row| (FAINT, format!("  {}", trouble(row)))));
    parts
}

fn state(call: &PendingCall, now: Timestamp) -> Part {
    match (call.next_due, call.waits_for) {
        (_, Some(WaitsFor::Operator)) => (WARNING, "paused".to_string()),
        (None, _) => {
            let time = tenths(now.since(call.started_at.unwrap_or(now)));
            (GOOD, format!("{} runs, {time}", number(call)))
        }
        (_, Some(WaitsFor::Unregistered)) => (WARNING, "waits for its executable".to_string()),
        (_, Some(WaitsFor::Lacking)) => {
            let what = call.lacks.as_deref().unwrap_or("something");
            (WARNING, format!("waits for a worker that has {what}"))
        }
        (_, Some(WaitsFor::Gate)) => {
            let what = call.held_by.as_deref().unwrap_or("its gate");
            (WARNING, format!("{} waits for {what}", number(call)))
        }
        (Some(due), Some(WaitsFor::Poison)) if due <= now => {
            (WARNING, format!("{} waits for its turn: its worker died", number(call)))
        }
        (Some(due), _) if due <= now => (WARNING, format!("{} waits for a slot", number(call))),
        (Some(due), _) => {
            let wait = tenths(due.since(now));
            (WARNING, format!("{} in {wait}", number(call)))
        }
    }
}

/// Which attempt of how many that the policy counts, and how many there were that it does not:
/// lost ones, and those that were interrupted or asked to be run later.
pub(super) fn number(call: &PendingCall) -> String {
    let Counters { failures, lost, interrupted, snoozed, .. } = call.counters;
    let counted = failures.saturating_add(1);
    let of = match call.max_attempts() {
        Some(Limit::Attempts(most)) => format!("attempt {counted} of {most}"),
        _ => format!("attempt {counted}"),
    };
    let uncounted = [(lost, "lost"), (interrupted, "interrupted"), (snoozed, "snoozed")];
    let uncounted = uncounted.into_iter().filter(|(times, _)| *times > 0);
    let uncounted: Vec<String> = uncounted.map(|(times, how)| format!("{times} {how}")).collect();
    match uncounted.is_empty() {
        true => of,
        false => format!("{of} (not counted: {})", uncounted.join(", ")),
    }
}

/// Why the last attempt did not succeed, in few words.
pub(super) fn trouble(row: &AttemptRow) -> String {
    match (row.outcome, &row.failure) {
        (AttemptOutcome::Lost, _) => "lost with its process".to_string(),
        (AttemptOutcome::Interrupted, _) => "interrupted by a stop".to_string(),
        (AttemptOutcome::Snoozed, failure) => {
            let usual = Failure::snooze(Duration::ZERO);
            let own = |failure: &&Failure| failure.message != usual.message;
            let why = failure.as_ref().filter(own).map(|failure| &failure.message);
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            format!("asked to be run later{why}")
        }
        (_, Some(failure)) => failure.to_string(),
        (outcome, None) => outcome.name().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;
    use std::sync::Arc;

    use resurgam::retry::RetryPolicy;
    use resurgam::{InstanceRow, Payload};
    use resurgam_core::{Seq, Uid};

    use super::*;

    fn call(seq: u64) -> PendingCall {
        PendingCall {
            activity: format!("act-{seq}"),
            seq: Seq(seq),
            queue: "default".to_string(),
            priority: 0,
            policy: Some(Arc::new(RetryPolicy::DEFAULT.max_attempts(5))),
            attempt: 1,
            counters: Counters::default(),
            running: true,
            started_at: Some(Timestamp::EPOCH),
            next_due: None,
            waits_for: None,
            deadline: None,
            cancelled: false,
            heartbeat: None,
            lacks: None,
            gate: String::new(),
            held_by: None,
            behind: None,
            paused: None,
            pause_asked: None,
            fallback_of: None,
            last: None,
        }
    }

    fn waiting(seq: u64, due_ms: i64, waits_for: WaitsFor) -> PendingCall {
        PendingCall {
            running: false,
            started_at: None,
            next_due: Some(Timestamp::from_millis(due_ms)),
            waits_for: Some(waits_for),
            counters: Counters { failures: 1, ..Counters::default() },
            ..call(seq)
        }
    }

    fn drawn(pending: Vec<PendingCall>, size: (usize, usize)) -> Vec<String> {
        let input = Payload::null();
        let instance = InstanceRow::new(Uid(1), "order-1", "order", input, Timestamp::EPOCH);
        let description = Description {
            instance,
            pending,
            unread: Vec::new(),
            timers: Vec::new(),
            waits_for_first_turn: false,
            cancel_requested: false,
        };
        let lines = lines(&description, Timestamp::from_millis(2_500), size);
        lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    #[test]
    fn what_runs_comes_first_then_what_is_due_next() {
        let missing = PendingCall { attempt: 0, ..waiting(5, 2_000, WaitsFor::Unregistered) };
        let calls = vec![
            waiting(2, 90_000, WaitsFor::Backoff),
            waiting(3, 4_000, WaitsFor::Backoff),
            waiting(4, 2_400, WaitsFor::Slot),
            missing,
            call(6),
        ];
        assert_eq!(
            drawn(calls, (80, 24)),
            [
                "order-1  2.5s  1 running, 4 waiting",
                "  act-6                attempt 1 of 5 runs, 2.5s",
                "  act-5                waits for its executable",
                "  act-4                attempt 2 of 5 waits for a slot",
                "  act-3                attempt 2 of 5 in 1.5s",
                "  act-2                attempt 2 of 5 in 1m 27s",
            ]
        );
    }

    #[test]
    fn attempts_that_use_up_nothing_are_not_counted_against_the_bound() {
        let snoozed = PendingCall {
            attempt: 4,
            counters: Counters { snoozed: 3, lost: 1, ..Counters::default() },
            ..waiting(2, 4_000, WaitsFor::Backoff)
        };
        // Three of the four asked to be run later, and one was lost.
        assert_eq!(number(&snoozed), "attempt 1 of 5 (not counted: 1 lost, 3 snoozed)");
    }

    #[test]
    fn any_number_of_calls_fits_the_terminal() {
        for size in [(80, 24), (20, 6), (1, 1)] {
            let lines = drawn((2..1000).map(call).collect(), size);
            assert!(lines.len() < size.1.max(5), "{size:?}: {}", lines.len());
            assert!(lines.iter().all(|line| line.chars().count() < size.0.max(2)), "{lines:?}");
        }
    }
}
