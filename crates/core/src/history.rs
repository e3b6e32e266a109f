//! Histories as text, one event per line, with the ledger's attempts and what operators did merged
//! in by time.
//!
//! This is what people read at three in the morning, and what tests compare: a failing test reads
//! like a story.

use std::fmt::Write;

use crate::duration::Human;
use crate::event::{Initiator, RetryMetadata};
use crate::schedule::time_text;
use crate::{Event, EventKind, Payload, Seq, Timestamp};

/// An attempt as the ledger has it, for printing between the events.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptLine {
    /// The call.
    pub activity: Seq,
    /// The activity's name.
    pub name: String,
    /// Which attempt.
    pub attempt: u32,
    /// How it ended, in one word.
    pub outcome: String,
    /// When it ended.
    pub ended_at: Timestamp,
    /// What went wrong.
    pub failure: Option<String>,
    /// The delay before the next attempt.
    pub delay_ms: Option<u64>,
    /// The activity that goes on in the place of this one.
    pub falls_back_to: Option<String>,
}

/// What an operator did, for printing between the events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionLine {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: String,
    /// What it changed, or why it changed nothing.
    pub answer: String,
    /// Why they did it.
    pub reason: Option<String>,
}

/// How much of a user's value is shown.
const SHOWN: usize = 120;

/// How much of an answer to an operator is shown. It lists what people need, such as children that
/// go on by themselves and calls with new keys: 20 of each, by ids of any length.
const ANSWER: usize = 4_000;

/// Prints a history with its attempts. Times count from the first event.
///
/// ```
/// use resurgam_core::event::{Event, EventKind, RunStarted};
/// use resurgam_core::{history, Payload, Seq, Timestamp};
///
/// let started = RunStarted::new("greet", Payload::null(), 1);
/// let event =
///     Event { seq: Seq(1), at: Timestamp::EPOCH, kind: EventKind::RunStarted(started) };
/// assert_eq!(history::text(&[event], &[]), "1 +0ms RunStarted greet null\n");
/// ```
pub fn text(events: &[Event], attempts: &[AttemptLine]) -> String {
    printed(events, Printing { attempts, ..Printing::default() })
}

/// What is printed of a history besides its events, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct Printing<'a> {
    /// The attempts that did not succeed, in order of time.
    pub attempts: &'a [AttemptLine],
    /// What operators did, in order of time.
    pub actions: &'a [ActionLine],
    /// How times are printed.
    pub times: Times,
}

/// How the times of a history are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Times {
    /// The time since the first event: `+1.5s`.
    #[default]
    SinceStart,
    /// The time in UTC: `2026-11-15T09:00:00Z`.
    Utc,
}

/// Prints a history with more than its events.
///
/// ```
/// use resurgam_core::event::{Event, EventKind, RunStarted};
/// use resurgam_core::history::{ActionLine, Printing, Times, printed};
/// use resurgam_core::{Payload, Seq, Timestamp};
///
/// let started = RunStarted::new("greet", Payload::null(), 1);
/// let events =
///     [Event { seq: Seq(1), at: Timestamp::EPOCH, kind: EventKind::RunStarted(started) }];
/// let retried = [ActionLine {
///     at: Timestamp::from_millis(2_000),
///     by: "ana".to_string(),
///     answer: "retried charge#6 now".to_string(),
///     reason: Some("bank is back".to_string()),
/// }];
/// let with_actions = Printing { actions: &retried, ..Printing::default() };
/// assert_eq!(
///     printed(&events, with_actions),
///     "1 +0ms RunStarted greet null\n\
///      \x20 +2s operator ana: retried charge#6 now (\"bank is back\")\n"
/// );
/// let in_utc = Printing { times: Times::Utc, ..Printing::default() };
/// assert_eq!(printed(&events, in_utc), "1 1970-01-01T00:00:00Z RunStarted greet null\n");
/// ```
pub fn printed(events: &[Event], with: Printing<'_>) -> String {
    let start = events.first().map_or(Timestamp::EPOCH, |event| event.at);
    let shown = |time: Timestamp| match with.times {
        Times::SinceStart => format!("+{}", Human(time.since(start))),
        Times::Utc => time_text(time),
    };
    let mut attempts = with.attempts.iter().peekable();
    let mut actions = with.actions.iter().peekable();
    let mut text = String::new();
    // What follows from an action at the same moment comes after it.
    let mut actions_until = |text: &mut String, until: Timestamp| {
        while let Some(action) = actions.next_if(|action| action.at <= until) {
            action_line(text, &shown(action.at), action);
        }
    };
    for event in events {
        let before =
            |attempt: &&AttemptLine| attempt.ended_at <= event.at && event.seq > attempt.activity;
        while let Some(attempt) = attempts.next_if(before) {
            actions_until(&mut text, attempt.ended_at);
            attempt_line(&mut text, &shown(attempt.ended_at), attempt);
        }
        actions_until(&mut text, event.at);
        let line = match &event.kind {
            EventKind::TimerStarted { fire_at } => {
                format!("TimerStarted until {}", shown(*fire_at))
            }
            EventKind::RunStarted(started) => {
                let waits = started.first_turn_at.map(shown);
                let waits = waits.map(|at| format!(", first turn at {at}"));
                format!("{}{}", line(&event.kind), waits.unwrap_or_default())
            }
            kind => line(kind),
        };
        let _infallible = writeln!(text, "{} {} {line}", event.seq, shown(event.at));
    }
    for attempt in attempts {
        actions_until(&mut text, attempt.ended_at);
        attempt_line(&mut text, &shown(attempt.ended_at), attempt);
    }
    actions_until(&mut text, Timestamp::from_millis(i64::MAX));
    text
}

fn action_line(text: &mut String, at: &str, action: &ActionLine) {
    let ActionLine { by, answer, reason, .. } = action;
    let _infallible = write!(text, "  {at} operator {}: {}", cut(by), cut_at(answer, ANSWER));
    if let Some(reason) = reason {
        let _infallible = write!(text, " (\"{}\")", cut(reason));
    }
    text.push('\n');
}

fn attempt_line(text: &mut String, at: &str, attempt: &AttemptLine) {
    let AttemptLine { activity, name, attempt: number, outcome, .. } = attempt;
    let _infallible = write!(text, "  {at} {name}#{activity} attempt {number} {outcome}");
    if let Some(failure) = &attempt.failure {
        let _infallible = write!(text, ": {}", cut(failure));
    }
    if let Some(delay) = attempt.delay_ms {
        let delay = Human(std::time::Duration::from_millis(delay));
        let _infallible = write!(text, "; again in {delay}");
    }
    if let Some(name) = &attempt.falls_back_to {
        let _infallible = write!(text, "; falls back to {}", cut(name));
    }
    text.push('\n');
}

/// How a call ended, in a few words, when this is the event of its end.
///
/// ```
/// use resurgam_core::event::EventKind;
/// use resurgam_core::{Seq, history};
///
/// let end = EventKind::ActivityCancelled { activity: Seq(2) };
/// assert_eq!(history::end_of_call(&end, Seq(2)).unwrap(), "was given up by its workflow");
/// assert_eq!(history::end_of_call(&end, Seq(3)), None);
/// ```
pub fn end_of_call(event: &EventKind, call: Seq) -> Option<String> {
    match event {
        EventKind::ActivityCompleted(done) if done.activity == call => Some("completed".into()),
        EventKind::ActivityFailed(failed) if failed.activity == call => {
            Some(format!("failed ({}): {}", failed.why, failed.failure))
        }
        EventKind::ActivityCancelled { activity } if *activity == call => {
            Some("was given up by its workflow".into())
        }
        _ => None,
    }
}

/// One event without its place and time.
pub fn line(kind: &EventKind) -> String {
    let name = kind.name();
    let shown = |payload: &Payload| cut(payload.as_str());
    match kind {
        EventKind::RunStarted(started) => {
            let mut line = format!("{name} {} {}", started.workflow, shown(&started.input));
            if started.version > 1 {
                let _infallible = write!(line, " version {}", started.version);
            }
            if started.chain.attempt > 1 {
                let _infallible = write!(line, " attempt {}", started.chain.attempt);
            }
            line
        }
        EventKind::ActivityScheduled(call) => {
            let undoes = call.compensates.map(|of| format!(" to undo #{of}"));
            format!("{name} {}{} {}", call.name, undoes.unwrap_or_default(), shown(&call.input))
        }
        EventKind::ActivityCompleted(done) => {
            let attempts = attempts(done.attempt, done.retry_metadata.as_ref());
            let late = if done.after_cancel { " after cancel" } else { "" };
            let fallback = if done.fallback { " fallback" } else { "" };
            let result = shown(&done.result);
            format!("{name} #{}{attempts}{late}{fallback} {result}", done.activity)
        }
        EventKind::ActivityFailed(failed) => {
            let attempts = attempts(failed.attempt, failed.retry_metadata.as_ref());
            let failure = cut(&failed.failure.to_string());
            let ends = if failed.ends_run { " ends the run" } else { "" };
            format!("{name} #{}{attempts} {}{ends}: {failure}", failed.activity, failed.why)
        }
        EventKind::ActivityCancelled { activity: of }
        | EventKind::ActivityCancelRequested { activity: of }
        | EventKind::TimerFired { timer: of }
        | EventKind::TimerCancelled { timer: of } => format!("{name} #{of}"),
        EventKind::TimerStarted { fire_at } => format!("{name} until {fire_at}"),
        EventKind::SignalReceived { name: signal, value, .. } => {
            format!("{name} {signal} {}", shown(value))
        }
        EventKind::CancelRequested { reason } => format!("{name} {}", cut(reason)),
        EventKind::StatusSet { value } => format!("{name} {}", shown(value)),
        EventKind::RunCompleted { result } => format!("{name} {}", shown(result)),
        EventKind::RunFailed { failure, compensation }
        | EventKind::RunCancelled { failure, compensation } => {
            let undone = compensation.map(|it| format!(" (compensation {})", it.name()));
            format!("{name}{} {}", undone.unwrap_or_default(), cut(&failure.to_string()))
        }
        EventKind::RunContinued(continued) => {
            let after = Human(std::time::Duration::from_millis(continued.backoff_ms));
            match &continued.failure {
                _ if continued.initiator == Initiator::Reset => format!("{name} by Reset"),
                Some(failure) => {
                    format!("{name} by RetryPolicy in {after} after {}", cut(&failure.to_string()))
                }
                None if continued.backoff_ms > 0 => {
                    format!("{name} by Workflow in {after} {}", shown(&continued.input))
                }
                None => format!("{name} by Workflow {}", shown(&continued.input)),
            }
        }
        EventKind::CompensationRecorded { activity, name: undo, input } => {
            format!("{name} #{activity} {undo} {}", shown(input))
        }
        EventKind::ChildStarted(child) => {
            format!("{name} {} {} {}", child.id, child.workflow, shown(&child.input))
        }
        EventKind::ChildCompleted { child, result } => format!("{name} #{child} {}", shown(result)),
        EventKind::ChildFailed { child, failure } => {
            format!("{name} #{child} {}", cut(&failure.to_string()))
        }
        EventKind::ChildCancelRequested { child, terminate } => {
            format!("{name} #{child}{}", if *terminate { " terminate" } else { "" })
        }
        EventKind::TerminateRequested { reason } => format!("{name} {}", cut(reason)),
        EventKind::RunTimedOut { total } => {
            format!("{name} {}", if *total { "total" } else { "run" })
        }
        EventKind::LimitPassed { failure } => format!("{name} {}", cut(&failure.to_string())),
        EventKind::KvSet { key, value } => format!("{name} {key} {}", shown(value)),
        EventKind::VersionMarked { change, version } => format!("{name} {change} {version}"),
    }
}

/// ` (attempt 3)` when there was more than one.
fn attempts(attempt: u32, metadata: Option<&RetryMetadata>) -> String {
    match metadata {
        Some(_) => format!(" (attempt {attempt})"),
        None => String::new(),
    }
}

fn cut(text: &str) -> String {
    cut_at(text, SHOWN)
}

fn cut_at(text: &str, shown: usize) -> String {
    let text = text.replace('\n', " ");
    match text.char_indices().nth(shown) {
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}
