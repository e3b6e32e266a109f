//! `resurgam show`, `history` and `attempts`: one instance.

use std::fmt::Write as _;

use resurgam::{
    ActionRow, AttemptRow, Description, Error, Pause, PendingCall, RunPause, Status, Timestamp,
    WaitsFor,
};
use resurgam_core::Event;
use resurgam_core::history::Times;
use resurgam_core::retry::Idempotency;

use super::forms;
use super::screen::{number, trouble};
use crate::exit::Exit;
use crate::form::{Form, line, readable};
use crate::moment::{TimeArgs, tenths};
use crate::operator::{Operator, Reach};
use crate::output::Output;
use crate::policy::complaint::printable;
use crate::style::{FAINT, STRONG, WARNING};
use crate::trouble::Trouble;

/// Show an instance and what it waits for
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    of: Of,
    /// Print one JSON value
    #[arg(long)]
    pub(super) json: bool,
}

/// Print the history of an instance
///
/// For people, with the attempts that did not succeed between the events. As JSON the events only,
/// unless --attempts is given.
#[derive(Debug, clap::Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    of: Of,
    /// With the attempts that did not succeed, by time; their `seq` is null
    #[arg(long)]
    attempts: bool,
    /// That of this run, from 1; of the current one unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    run: Option<u32>,
    /// Print one JSON value
    #[arg(long)]
    pub(super) json: bool,
}

/// Print the attempts of an instance that did not succeed
#[derive(Debug, clap::Args)]
pub(crate) struct AttemptsArgs {
    #[command(flatten)]
    of: Of,
    /// Print one JSON value
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, clap::Args)]
struct Of {
    /// The instance
    id: String,
    #[command(flatten)]
    times: TimeArgs,
    #[command(flatten)]
    reach: Reach,
}

impl Of {
    /// Looks at the instance, which must be there, and reads more about it.
    async fn read<T>(
        &self,
        more: impl AsyncFnOnce(&Operator, &Description) -> resurgam::Result<T>,
    ) -> Result<(Description, T), Trouble> {
        let read = async |operator: &Operator| {
            let found = operator.describe(&self.id).await?;
            let found = found.ok_or_else(|| Error::no_instance(&format!("look at {}", self.id)))?;
            let more = more(operator, &found).await?;
            Ok((found, more))
        };
        self.reach.look(read).await
    }
}

impl ShowArgs {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        let read =
            async |operator: &Operator, _: &_| Ok((operator.now(), operator.has_worker().await?));
        let (found, (now, has_worker)) = self.of.read(read).await?;
        Ok(match self.json {
            true => Output::json(line(&forms::described(&found)), Exit::Done),
            false => Output::done(shown(&found, &Now { now, times: self.of.times, has_worker })),
        })
    }
}

/// When somebody looks, and how that is told.
struct Now {
    now: Timestamp,
    times: TimeArgs,
    /// Whether somebody works on the database.
    has_worker: bool,
}

fn shown(found: &Description, at: &Now) -> String {
    let Now { now, times, has_worker } = *at;
    let Description { instance, pending, unread, .. } = found;
    let mut out = String::new();
    let mut tell = |name: &str, value: &str| {
        let lines: Vec<String> = value.lines().map(printable).collect();
        let value = lines.join(&format!("\n{:11}", ""));
        let _infallible = writeln!(out, "{FAINT}{name:<10}{FAINT:#} {value}");
    };
    tell("id", &instance.id);
    tell("workflow", &instance.workflow);
    tell("status", instance.status.name());
    if let Some(error) = &instance.error {
        tell(if instance.status == Status::Running { "waits" } else { "error" }, error);
    }
    if instance.status == Status::Paused {
        tell("paused", &paused_run(&instance.pause, now, times));
    }
    if found.cancel_requested {
        tell("cancel", "somebody has asked it to end");
    }
    tell("started", &times.past(instance.created_at, now));
    if let Some(closed) = instance.closed_at {
        let took = tenths(closed.since(instance.created_at));
        tell("closed", &format!("{}, after {took}", times.past(closed, now)));
    }
    tell("input", &readable(forms::input(instance).get()));
    if let Some(outcome) = &instance.outcome {
        let name = if instance.status == Status::Completed { "result" } else { "failure" };
        tell(name, &readable(outcome.as_str()));
    }
    if !unread.is_empty() {
        tell("unread", &unread.join(", "));
    }
    if let Some(wait) = waits(found, at) {
        tell("waits", &wait);
    }
    if instance.status == Status::Running && !has_worker {
        tell("worker", "none: nobody works on the database");
    }
    for call in pending {
        out.push_str(&pending_call(call, at));
    }
    out
}

/// What a run waits for besides calls.
fn waits(found: &Description, &Now { now, times, has_worker }: &Now) -> Option<String> {
    let Description { instance, pending, unread, timers, .. } = found;
    match timers.first() {
        _ if instance.status != Status::Running || instance.error.is_some() => None,
        _ if found.waits_for_first_turn && has_worker => {
            Some("for its first turn: no worker has taken it up yet".to_string())
        }
        _ if found.waits_for_first_turn => Some("for its first turn".to_string()),
        Some(due) if *due <= now => Some("for a timer, which is due".to_string()),
        Some(due) if times.utc => Some(format!("for a timer, {}", times.future(*due, now))),
        Some(due) => Some(format!("for a timer, {} more", tenths(due.since(now)))),
        None if has_worker && pending.is_empty() && unread.is_empty() => {
            Some("for a signal, or for another instance".to_string())
        }
        None => None,
    }
}

/// A call that is not finished: what it does, why it waits, what went wrong last.
fn pending_call(call: &PendingCall, &Now { now, times, has_worker }: &Now) -> String {
    let name = printable(&call.activity);
    let state = match (call.next_due, call.waits_for) {
        (_, Some(WaitsFor::Operator)) => paused(call, now, times),
        (None, _) => {
            let (attempt, began) = (number(call), call.started_at.unwrap_or(now));
            match has_worker {
                true => format!("{attempt} runs, {}", times.lasting(began, now)),
                false => {
                    format!("{attempt} began {}, and its worker is gone", times.past(began, now))
                }
            }
        }
        (_, Some(WaitsFor::Unregistered)) if has_worker => {
            format!(
                "waits for its executable: the worker has no action {name}; a program of yours \
                 that works needs `.activity({name})` where its app is built"
            )
        }
        (_, Some(WaitsFor::Lacking)) => {
            let what = printable(call.lacks.as_deref().unwrap_or("something"));
            match what.starts_with("a worker for ") {
                // Remote workers bring their activities themselves.
                true => format!("waits for {what}"),
                false => format!("waits for a worker that has {what}{}", how_to_provide(&what)),
            }
        }
        (Some(due), Some(WaitsFor::Gate)) if due <= now => {
            let (late, attempt) = (times.late(due, now), number(call));
            let what = printable(call.held_by.as_deref().unwrap_or("its gate"));
            format!("{attempt} is due since {late}, and waits for {what}")
        }
        (Some(due), Some(WaitsFor::Poison)) if due <= now && has_worker => {
            let (late, attempt) = (times.late(due, now), number(call));
            format!(
                "{attempt} is due since {late}, and waits for its turn: the worker died in its last \
                 three attempts, and a worker runs one such call at a time"
            )
        }
        (Some(due), _) if due <= now => {
            let late = times.late(due, now);
            let what = match &call.held_by {
                _ if !has_worker => "a worker".to_string(),
                Some(turn) => printable(turn),
                None => "a slot".to_string(),
            };
            let attempt = number(call);
            format!("{attempt} is due since {late}, and waits for {what}")
        }
        (Some(due), _) => format!("{} is due {}", number(call), times.future(due, now)),
    };
    let place = call.fallback_of.as_deref().map(|of| format!(" in place of {}", printable(of)));
    let place = place.unwrap_or_default();
    let mut out = format!("\n{STRONG}{name}{STRONG:#} #{}{place}: {state}\n", call.seq);
    if let Some(row) = &call.last {
        let ago = times.past(row.ended_at, now);
        let (what, why) = (printable(&trouble(row)), printable(&row.why));
        let _infallible =
            writeln!(out, "  {WARNING}attempt {}{WARNING:#}, {ago}: {what} ({why})", row.attempt);
    }
    if let Some(Pause { by: Some(by), .. }) = &call.pause_asked {
        let by = printable(by);
        let _infallible = writeln!(out, "  {by} asked for it to be paused when this attempt fails");
    }
    if let Some(told) = &call.heartbeat {
        let ago = times.past(told.at, now);
        let details = printable(told.details.as_str());
        let _infallible = writeln!(out, "  heartbeat, {ago}: {details}");
    }
    out
}

/// Since when an instance is paused, why, and what to do about it.
fn paused_run(pause: &RunPause, now: Timestamp, times: TimeArgs) -> String {
    let RunPause { since, by, reason, .. } = pause;
    let mut text = times.past(since.unwrap_or(now), now);
    if let Some(by) = by {
        let _infallible = write!(text, " by {by}");
    }
    if let Some(reason) = reason {
        let _infallible = write!(text, " (\"{reason}\")");
    }
    if pause.calls {
        text.push_str(", with its open calls");
    }
    text + "; `resurgam resume` goes on"
}

/// Since when a call is paused, why, and what to do about it.
fn paused(call: &PendingCall, now: Timestamp, times: TimeArgs) -> String {
    let Pause { since, until, stopped, by, reason, .. } = call.paused.clone().unwrap_or_default();
    let mut text = format!("paused {}", times.past(since.unwrap_or(now), now));
    if let Some(by) = by {
        let _infallible = write!(text, " by {}", printable(&by));
    }
    if let Some(reason) = reason {
        let _infallible = write!(text, " (\"{}\")", printable(&reason));
    }
    let is_once_only =
        call.policy.as_ref().is_some_and(|it| it.idempotency == Idempotency::AtMostOnce);
    match stopped {
        Some(stopped) if is_once_only => {
            let _infallible = write!(
                text,
                " ({stopped}); it must not run twice (at_most_once), so `resurgam call complete` \
                 or `fail` ends it"
            );
        }
        Some(stopped) => {
            let _infallible = write!(
                text,
                " ({stopped}); `resurgam call resume --reset`, `complete` or `fail` goes on"
            );
        }
        None => text.push_str("; `resurgam call resume` goes on"),
    }
    if let Some(until) = until {
        let _infallible = write!(text, "; it fails {}", times.future(until, now));
    }
    text
}

/// What to do about something that workers lack.
fn how_to_provide(what: &str) -> &'static str {
    match what.starts_with("secrets key ") {
        true => {
            "; start one with that key in RESURGAM_SECRETS_KEY (`resurgam secrets fingerprint` \
             tells which key is set)"
        }
        false => "",
    }
}

impl HistoryArgs {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        let read = async |operator: &Operator, found: &Description| {
            let uid = found.instance.uid;
            let events = operator.events(uid, self.run).await?;
            let attempts = match self.attempts || !self.json {
                true => operator.attempts(uid, self.run).await?,
                false => Vec::new(),
            };
            let actions = operator.actions(uid, self.run).await?;
            Ok((events, attempts, actions))
        };
        let (_, (events, attempts, actions)) = self.of.read(read).await?;
        if self.json {
            let actions = if self.attempts { actions.as_slice() } else { &[] };
            return Ok(Output::json(line(&merged(&events, &attempts, actions)), Exit::Done));
        }
        let times = if self.of.times.utc { Times::Utc } else { Times::SinceStart };
        let text = forms::history(&events, &attempts, &actions, times);
        let lines = text.lines().map(|line| printable(line) + "\n");
        Ok(Output::done(lines.collect()))
    }
}

/// Events with the attempts that ended before them, each after the event that scheduled its call,
/// and with what operators did before them.
fn merged(events: &[Event], attempts: &[AttemptRow], actions: &[ActionRow]) -> Vec<Form> {
    let mut attempts = attempts.iter().peekable();
    let mut actions = actions.iter().peekable();
    let mut list = Vec::new();
    for event in events {
        let before = |row: &&AttemptRow| row.ended_at <= event.at && event.seq > row.call.seq;
        while let Some(row) = attempts.next_if(before) {
            list.push(forms::attempt_in_history(row));
        }
        while let Some(row) = actions.next_if(|row| row.at <= event.at) {
            list.push(forms::action(row));
        }
        list.push(forms::event(event));
    }
    list.extend(attempts.map(forms::attempt_in_history));
    list.extend(actions.map(forms::action));
    list
}

impl AttemptsArgs {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        let read = async |operator: &Operator, found: &Description| {
            operator.attempts(found.instance.uid, None).await
        };
        let (found, rows) = self.of.read(read).await?;
        if self.json {
            let list: Vec<Form> = rows.iter().map(forms::attempt).collect();
            return Ok(Output::json(line(&list), Exit::Done));
        }
        let since = found.instance.created_at;
        let line = |row: &AttemptRow| attempt_line(row, &self.of.times.since(row.ended_at, since));
        Ok(Output::done(rows.iter().map(line).collect()))
    }
}

fn attempt_line(row: &AttemptRow, at: &str) -> String {
    let next = row
        .delay_ms
        .map(|delay| format!("; again in {}", tenths(std::time::Duration::from_millis(delay))));
    let (name, what) = (printable(&row.name), printable(&trouble(row)));
    let AttemptRow { call, attempt, outcome, why, .. } = row;
    let (outcome, next) = (outcome.name(), next.unwrap_or_default());
    format!(
        "{at} {name}#{} attempt {attempt} {outcome}: {what}{next} ({})\n",
        call.seq,
        printable(why)
    )
}
