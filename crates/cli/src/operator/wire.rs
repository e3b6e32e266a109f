//! The answers of the API, read as what a database would have answered.
//!
//! Only what a command prints or acts on is read; what else an answer holds, now or in a later
//! version of the server, is passed over. So these are types of their own, and not those that the
//! server writes: a command line talks to servers of other versions.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use resurgam::gate::{Gate as GateSettings, GateState};
use resurgam::retry::{Counters, Idempotency, RetryPolicy};
use resurgam::schedule::{Schedule as Rule, ScheduleDescription};
use resurgam::{
    Action as CoreAction, ActionAnswer, ActionRequest, ActionRow, AttemptOutcome, AttemptRow,
    BulkJob, BulkTarget, CallGroup, CallKey, DeadLetter, Description, Event, Failure, GateStatus,
    Heartbeat as CoreHeartbeat, Hold, HoldKind, InstanceRow, LetterState, Outcome, Pause,
    PausedCall, Payload, PendingCall, PolicyOverride, Progress, Refused, RunKey, RunPause, Seq,
    Settled, Status, TaskRow, Timestamp, Uid, WaitsFor,
};
use resurgam_core::export::Export;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::work::call_key;

/// Any JSON, as it stands.
type Json = Box<RawValue>;

/// A text that stands for something else.
fn parsed<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

fn named<'de, T, D: Deserializer<'de>>(
    from: D,
    what: &str,
    find: impl Fn(&str) -> Option<T>,
) -> Result<T, D::Error> {
    let name = String::deserialize(from)?;
    let unknown =
        || serde::de::Error::custom(format!("{name:?} is no {what} that this version knows"));
    find(&name).ok_or_else(unknown)
}

fn status<'de, D: Deserializer<'de>>(from: D) -> Result<Status, D::Error> {
    named(from, "status", Status::named)
}

fn outcome<'de, D: Deserializer<'de>>(from: D) -> Result<AttemptOutcome, D::Error> {
    named(from, "outcome of an attempt", AttemptOutcome::named)
}

fn call<'de, D: Deserializer<'de>>(from: D) -> Result<CallKey, D::Error> {
    named(from, "call", call_key)
}

fn some_call<'de, D: Deserializer<'de>>(from: D) -> Result<Option<CallKey>, D::Error> {
    let name: Option<String> = Option::deserialize(from)?;
    Ok(name.and_then(|name| call_key(&name)))
}

fn waits_for<'de, D: Deserializer<'de>>(from: D) -> Result<Option<WaitsFor>, D::Error> {
    const ALL: [WaitsFor; 7] = [
        WaitsFor::Backoff,
        WaitsFor::Slot,
        WaitsFor::Unregistered,
        WaitsFor::Lacking,
        WaitsFor::Poison,
        WaitsFor::Operator,
        WaitsFor::Gate,
    ];
    let name: Option<String> = Option::deserialize(from)?;
    Ok(name.and_then(|name| ALL.into_iter().find(|why| why.name() == name)))
}

fn letter_state<'de, D: Deserializer<'de>>(from: D) -> Result<LetterState, D::Error> {
    named(from, "state of a dead letter", LetterState::named)
}

fn hold_kind<'de, D: Deserializer<'de>>(from: D) -> Result<HoldKind, D::Error> {
    named(from, "kind of calls", HoldKind::named)
}

/// The payload of a value.
fn payload(json: &RawValue) -> Payload {
    Payload::from_text(json.get())
}

/// A page of a list.
#[derive(Deserialize)]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    #[serde(default)]
    pub(super) cursor: Option<String>,
}

/// The server itself.
#[derive(Deserialize)]
pub(super) struct Server {
    pub(super) level: u32,
    pub(super) at_ms: Timestamp,
    pub(super) version: String,
}

#[derive(Deserialize)]
pub(super) struct Problem {
    pub(super) code: String,
    pub(super) detail: String,
}

/// What came of an action.
#[derive(Deserialize)]
pub(super) struct Done {
    pub(super) changed: bool,
    pub(super) stored: bool,
    pub(super) answer: String,
}

/// A node, of which only matters that there is one.
#[derive(Deserialize)]
pub(super) struct Node {}

#[derive(Deserialize)]
pub(super) struct Instance {
    #[serde(deserialize_with = "parsed")]
    pub(super) uid: Uid,
    id: String,
    workflow: String,
    #[serde(deserialize_with = "status")]
    status: Status,
    run: u32,
    queue: String,
    priority: i32,
    tags: BTreeMap<String, String>,
    created_at_ms: Timestamp,
    closed_at_ms: Option<Timestamp>,
    error: Option<String>,
    paused: Option<RunPaused>,
    schedule: Option<String>,
}

#[derive(Deserialize)]
struct RunPaused {
    since_ms: Option<Timestamp>,
    by: Option<String>,
    reason: Option<String>,
    calls: bool,
}

impl Instance {
    /// The row, without its argument and its outcome.
    pub(super) fn row(self) -> InstanceRow {
        let Instance { uid, id, workflow, created_at_ms, .. } = self;
        let mut row = InstanceRow::new(uid, id, workflow, Payload::null(), created_at_ms);
        (row.status, row.run, row.queue, row.priority) =
            (self.status, self.run, self.queue, self.priority);
        (row.tags, row.closed_at, row.error) = (self.tags, self.closed_at_ms, self.error);
        row.schedule = self.schedule;
        row.pause = self.paused.map_or_else(RunPause::default, |paused| {
            let RunPaused { since_ms: since, by, reason, calls } = paused;
            RunPause { since, by, reason, calls, ..RunPause::default() }
        });
        row
    }
}

/// What a description says beside what a list says.
#[derive(Deserialize)]
pub(super) struct Described {
    kind: String,
    pub(super) input: Json,
    pub(super) result: Option<Json>,
    pub(super) failure: Option<Json>,
    pending: Vec<Call>,
    unread_signals: Vec<String>,
    timers_ms: Vec<Timestamp>,
    waits_for_first_turn: bool,
    cancel_requested: bool,
}

impl Described {
    pub(super) fn of(self, instance: Instance) -> Description {
        let mut row = instance.row();
        row.input = argument(&self.kind, &self.input);
        row.outcome = match row.status {
            // A result that is null has no other form.
            Status::Completed => Some(self.result.as_deref().map_or(Payload::null(), payload)),
            _ => self.failure.as_deref().map(payload),
        };
        Description {
            instance: row,
            pending: self.pending.into_iter().map(Call::pending).collect(),
            unread: self.unread_signals,
            timers: self.timers_ms,
            waits_for_first_turn: self.waits_for_first_turn,
            cancel_requested: self.cancel_requested,
        }
    }
}

/// An argument of this kind that was given this: a program, or a graph, without its text.
fn argument(kind: &str, given: &RawValue) -> Payload {
    #[derive(Deserialize)]
    struct Given {
        inputs: Json,
        store: Option<Json>,
    }
    let given_to_graph = || serde_json::from_str::<Given>(given.get()).ok();
    let text = match (kind, given_to_graph()) {
        ("program", _) => format!("{{\"program\":\"\",\"inputs\":{given}}}"),
        ("graph", Some(Given { inputs, store: Some(store) })) => {
            format!("{{\"graph\":{{}},\"inputs\":{inputs},\"store\":{store}}}")
        }
        ("graph", Some(Given { inputs, store: None })) => {
            format!("{{\"graph\":{{}},\"inputs\":{inputs}}}")
        }
        ("graph", None) => format!("{{\"graph\":{{}},\"inputs\":{given}}}"),
        _ => given.get().to_string(),
    };
    Payload::from_text(text)
}

#[derive(Deserialize)]
struct Call {
    activity: String,
    seq: Seq,
    queue: String,
    priority: i32,
    attempt: u32,
    max_attempts: Option<u32>,
    policy_unreadable: bool,
    at_most_once: bool,
    running: bool,
    started_at_ms: Option<Timestamp>,
    next_due_ms: Option<Timestamp>,
    deadline_ms: Option<Timestamp>,
    #[serde(deserialize_with = "waits_for")]
    waits_for: Option<WaitsFor>,
    gate: String,
    held_by: Option<String>,
    behind: Option<Gate>,
    lacks: Option<String>,
    failures: u32,
    lost: u32,
    interrupted: u32,
    snoozed: u32,
    probed: u32,
    cancelled: bool,
    heartbeat: Option<Heartbeat>,
    paused: Option<CallPaused>,
    pause_asked: Option<CallPaused>,
    fallback_of: Option<String>,
    last: Option<Attempt>,
}

#[derive(Deserialize)]
struct Heartbeat {
    details: Json,
    at_ms: Timestamp,
}

#[derive(Deserialize)]
struct CallPaused {
    since_ms: Option<Timestamp>,
    until_ms: Option<Timestamp>,
    stopped: Option<String>,
    by: Option<String>,
    reason: Option<String>,
    fingerprint: Option<String>,
    error: Option<String>,
}

impl From<CallPaused> for Pause {
    fn from(paused: CallPaused) -> Self {
        let CallPaused { since_ms: since, until_ms: until, stopped, by, reason, .. } = paused;
        let CallPaused { fingerprint, error, .. } = paused;
        Pause { since, until, stopped, by, reason, fingerprint, error, ..Pause::default() }
    }
}

impl Call {
    fn policy(&self) -> Option<Arc<RetryPolicy>> {
        let policy = match self.max_attempts {
            Some(most) => RetryPolicy::DEFAULT.max_attempts(most),
            None => RetryPolicy::DEFAULT.unlimited(),
        };
        let policy = match self.at_most_once {
            true => policy.idempotency(Idempotency::AtMostOnce),
            false => policy,
        };
        (!self.policy_unreadable).then(|| Arc::new(policy))
    }

    fn pending(self) -> PendingCall {
        PendingCall {
            policy: self.policy(),
            counters: Counters {
                failures: self.failures,
                lost: self.lost,
                interrupted: self.interrupted,
                snoozed: self.snoozed,
                probed: self.probed,
            },
            activity: self.activity,
            seq: self.seq,
            queue: self.queue,
            priority: self.priority,
            attempt: self.attempt,
            running: self.running,
            started_at: self.started_at_ms,
            next_due: self.next_due_ms,
            waits_for: self.waits_for,
            deadline: self.deadline_ms,
            cancelled: self.cancelled,
            heartbeat: self
                .heartbeat
                .map(|told| CoreHeartbeat { details: payload(&told.details), at: told.at_ms }),
            lacks: self.lacks,
            gate: self.gate,
            held_by: self.held_by,
            behind: self.behind.map(Gate::status),
            paused: self.paused.map(Pause::from),
            pause_asked: self.pause_asked.map(Pause::from),
            fallback_of: self.fallback_of,
            last: self.last.map(Attempt::row),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Attempt {
    #[serde(deserialize_with = "call")]
    call: CallKey,
    activity: String,
    attempt: u32,
    #[serde(deserialize_with = "outcome")]
    outcome: AttemptOutcome,
    started_at_ms: Timestamp,
    ended_at_ms: Timestamp,
    failure: Option<Failure>,
    delay_ms: Option<u64>,
    why: String,
}

impl Attempt {
    pub(super) fn row(self) -> AttemptRow {
        AttemptRow {
            call: self.call,
            name: self.activity,
            attempt: self.attempt,
            outcome: self.outcome,
            started_at: self.started_at_ms,
            ended_at: self.ended_at_ms,
            failure: self.failure,
            delay_ms: self.delay_ms,
            why: self.why,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Action {
    at_ms: Timestamp,
    #[serde(deserialize_with = "some_call")]
    call: Option<CallKey>,
    action: String,
    by: String,
    reason: Option<String>,
    request_id: String,
    changed: bool,
    answer: String,
}

impl Action {
    /// The row of something that was done to this run.
    pub(super) fn row(self, run: RunKey) -> Option<ActionRow> {
        let Action { request_id: id, by, reason, changed, answer: text, .. } = self;
        let request = ActionRequest { id, by, reason, action: action_named(&self.action)? };
        let call = self.call.unwrap_or_else(|| run.call(Seq::RUN));
        Some(ActionRow { call, at: self.at_ms, request, answer: ActionAnswer { changed, text } })
    }
}

/// An action of this name. What it asked for in detail is told by nobody, and printed by nobody.
fn action_named(name: &str) -> Option<CoreAction> {
    let anything = serde_json::json!({
        "v": 1, "action": name, "failure": Failure::terminal(""), "policy": "",
        "to": "last_failure", "call": 0,
    });
    CoreAction::from_stored(&anything.to_string(), Some(Payload::null())).ok()
}

/// How an instance ended, or that it has not.
#[derive(Deserialize)]
pub(super) struct Ended {
    closed: bool,
    #[serde(deserialize_with = "status")]
    status: Status,
    result: Option<Json>,
    failure: Option<Failure>,
}

impl Ended {
    pub(super) fn outcome(self) -> Option<Outcome> {
        let failure = || self.failure.clone().unwrap_or_default();
        match self.status {
            _ if !self.closed => None,
            Status::Completed => {
                Some(Outcome::Completed(self.result.as_deref().map_or(Payload::null(), payload)))
            }
            Status::Failed => Some(Outcome::Failed(failure())),
            Status::Cancelled => Some(Outcome::Cancelled(failure())),
            Status::Terminated => Some(Outcome::Terminated(failure())),
            Status::Running | Status::Blocked | Status::Paused => None,
        }
    }
}

/// A part of a history.
#[derive(Deserialize)]
pub(super) struct Exported {
    pub(super) history: History,
    pub(super) cursor: Option<String>,
}

/// A history as a file has it, of which only the whole can be read: events are numbered from 1.
#[derive(Deserialize, Serialize)]
pub(super) struct History {
    format: String,
    version: u32,
    encoding: String,
    instance: String,
    uid: String,
    runs: Vec<HistoryOfRun>,
}

#[derive(Deserialize, Serialize)]
struct HistoryOfRun {
    run: u32,
    events: Vec<Json>,
}

impl History {
    /// Adds the next page of the same run.
    pub(super) fn goes_on(&mut self, next: History) {
        let events = next.runs.into_iter().flat_map(|run| run.events);
        if let Some(run) = self.runs.first_mut() {
            run.events.extend(events);
        }
    }

    /// What happened, once all pages are there.
    pub(super) fn events(&self) -> Result<Vec<Event>, String> {
        let text = serde_json::to_string(self).map_err(|error| error.to_string())?;
        let read = Export::from_json(&text)?;
        Ok(read.runs.into_iter().flat_map(|run| run.events).collect())
    }
}

#[derive(Deserialize)]
pub(super) struct Gates {
    pub(super) items: Vec<Gate>,
    pub(super) paused: Vec<PausedKind>,
}

#[derive(Deserialize)]
pub(super) struct Gate {
    key: String,
    state: GateState,
    settings: Option<GateSettings>,
    settings_by: Option<String>,
    bounds: Option<GateSettings>,
    due: usize,
    first_due_ms: Option<Timestamp>,
    at_ms: Timestamp,
}

impl Gate {
    pub(super) fn status(self) -> GateStatus {
        GateStatus {
            key: self.key,
            state: self.state,
            settings: self.settings,
            settings_by: self.settings_by,
            bounds: self.bounds,
            due: self.due,
            first_due: self.first_due_ms,
            at: self.at_ms,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct PausedKind {
    #[serde(deserialize_with = "hold_kind")]
    kind: HoldKind,
    name: String,
    by: String,
    reason: Option<String>,
    since_ms: Timestamp,
}

impl PausedKind {
    pub(super) fn hold(self) -> Hold {
        let PausedKind { kind, name, by, reason, since_ms: since } = self;
        Hold { kind, name, by, reason, since }
    }
}

#[derive(Deserialize)]
pub(super) struct SetPolicy {
    activity: String,
    policy: Option<Json>,
    by: String,
    reason: Option<String>,
    at_ms: Timestamp,
    revision: u64,
}

impl SetPolicy {
    pub(super) fn row(self) -> PolicyOverride {
        let SetPolicy { activity, by, reason, at_ms: at, revision, .. } = self;
        let policy = self.policy.map(|policy| format!("{{\"v\":1,\"policy\":{policy}}}"));
        PolicyOverride { activity, policy, by, reason, at, revision }
    }
}

#[derive(Deserialize)]
pub(super) struct Job {
    pub(super) id: String,
    does: Json,
    target: BulkTarget,
    expected: u64,
    matched: u64,
    changed: u64,
    pub(super) refused: u64,
    pub(super) listed: Vec<Refused>,
    by: String,
    reason: Option<String>,
    stopped_by: Option<String>,
    error: Option<String>,
    created_at_ms: Timestamp,
    closed_at_ms: Option<Timestamp>,
}

impl Job {
    pub(super) fn job(self) -> Result<BulkJob, String> {
        let action = CoreAction::from_stored(self.does.get(), None)?;
        let mut job = BulkJob::new(self.id, self.target, action, self.created_at_ms);
        job.options.expected = self.expected;
        (job.counts.matched, job.counts.changed) = (self.matched, self.changed);
        (job.counts.refused, job.counts.listed) = (self.refused, self.listed);
        (job.by, job.reason, job.stopped_by) = (self.by, self.reason, self.stopped_by);
        (job.error, job.closed_at) = (self.error, self.closed_at_ms);
        Ok(job)
    }
}

/// What something would be done to.
#[derive(Deserialize)]
pub(super) struct Preview {
    pub(super) count: u64,
    pub(super) of: Option<String>,
    pub(super) first: Vec<String>,
    pub(super) told: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct Schedule {
    id: String,
    workflow: String,
    schedule: Option<Rule>,
    paused: bool,
    error: Option<String>,
    next_ms: Vec<Timestamp>,
    buffered_ms: Option<Timestamp>,
    last: Option<String>,
    last_open: bool,
    started: u64,
    missed: u64,
    skipped: u64,
    created_at_ms: Timestamp,
    pub(super) input: Json,
}

impl Schedule {
    pub(super) fn description(self) -> ScheduleDescription {
        ScheduleDescription {
            id: self.id,
            workflow: self.workflow,
            input: payload(&self.input),
            schedule: self.schedule,
            paused: self.paused,
            error: self.error,
            next: self.next_ms,
            buffered: self.buffered_ms,
            last: self.last,
            last_open: self.last_open,
            started: self.started,
            missed: self.missed,
            skipped: self.skipped,
            created_at: self.created_at_ms,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Group {
    fingerprint: String,
    activity: String,
    error: String,
    count: u64,
    oldest_ms: Timestamp,
    newest_ms: Timestamp,
    #[serde(deserialize_with = "call")]
    example: CallKey,
    instance: String,
}

impl Group {
    pub(super) fn group(self) -> CallGroup {
        CallGroup {
            fingerprint: self.fingerprint,
            activity: self.activity,
            error: self.error,
            count: self.count,
            oldest: self.oldest_ms,
            newest: self.newest_ms,
            example: self.example,
            instance: self.instance,
        }
    }
}

/// A dead letter; its arguments and its attempts where it stands alone.
#[derive(Deserialize)]
pub(super) struct Letter {
    #[serde(deserialize_with = "call")]
    call: CallKey,
    instance: String,
    workflow: String,
    activity: String,
    queue: String,
    gate: String,
    #[serde(deserialize_with = "letter_state")]
    state: LetterState,
    at_ms: Timestamp,
    why: String,
    attempts: u32,
    failure: Failure,
    fingerprint: String,
    error: String,
    #[serde(default)]
    pub(super) input: Option<Json>,
    #[serde(default)]
    ledger: Vec<Attempt>,
    #[serde(default)]
    settled: Option<Decision>,
}

#[derive(Deserialize)]
struct Decision {
    at_ms: Timestamp,
    by: String,
    reason: Option<String>,
    redriven_as: Option<String>,
}

impl Letter {
    pub(super) fn letter(self) -> DeadLetter {
        DeadLetter {
            call: self.call,
            instance: self.instance,
            workflow: self.workflow,
            activity: self.activity,
            queue: self.queue,
            gate: self.gate,
            policy: String::new(),
            input: self.input.as_deref().map_or(Payload::null(), payload),
            failure: self.failure,
            why: self.why,
            attempts: self.attempts,
            ledger: self.ledger.into_iter().map(Attempt::row).collect(),
            at: self.at_ms,
            fingerprint: self.fingerprint,
            error: self.error,
            state: self.state,
            settled: self.settled.map(|settled| Settled {
                at: settled.at_ms,
                by: settled.by,
                reason: settled.reason,
                redriven_as: settled.redriven_as,
            }),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Paused {
    #[serde(deserialize_with = "call")]
    call: CallKey,
    instance: String,
    workflow: String,
    activity: String,
    queue: String,
    attempt: u32,
    paused: Option<CallPaused>,
}

impl Paused {
    pub(super) fn call(self) -> PausedCall {
        let paused = self.paused.map(|paused| Box::new(Pause::from(paused)));
        let task = TaskRow {
            call: self.call,
            name: self.activity,
            queue: self.queue,
            gate: String::new(),
            priority: 0,
            policy: String::new(),
            attempt: self.attempt,
            wake_at: TaskRow::NEVER,
            deadline_at: None,
            claim: None,
            progress: Progress { paused, ..Progress::default() },
            heartbeat: None,
        };
        PausedCall { task, instance: self.instance, workflow: self.workflow }
    }
}

#[cfg(test)]
mod tests {
    use resurgam::EventKind;
    use resurgam_core::event::RunStarted;
    use resurgam_core::export::ExportedRun;
    use resurgam_watchdog::test;

    use super::*;
    use crate::program::Kind;

    #[test]
    fn an_argument_is_of_its_kind_and_holds_what_was_given() {
        let of = |kind: &str, given: &str| {
            let given: Json = serde_json::from_str(given).unwrap();
            let argument = argument(kind, &given);
            (Kind::of(&argument).ok(), crate::work::started_with(&argument).get().to_string())
        };
        assert_eq!(
            of("program", r#"{"n":1.0}"#),
            (Some(Kind::Program), r#"{"n":1.0}"#.to_string())
        );
        let given = r#"{"inputs":{"a":1},"store":{"b":2}}"#;
        assert_eq!(of("graph", given), (Some(Kind::Graph), given.to_string()));
        assert_eq!(of("graph", r#"{"inputs":{}}"#).1, r#"{"inputs":{}}"#);
        assert_eq!(of("code", r#"{"inputs":{}}"#), (None, r#"{"inputs":{}}"#.to_string()));
    }

    #[test]
    fn a_history_is_read_once_all_of_its_pages_are_there() {
        let event = |seq: u64| Event {
            seq: Seq(seq),
            at: Timestamp::from_millis(7),
            kind: EventKind::StatusSet { value: Payload::from_text("{\"b\": 1.0}") },
        };
        let started = RunStarted::new("greet", Payload::null(), 1);
        let first = Event { kind: EventKind::RunStarted(started), ..event(1) };
        let events = vec![first, event(2), event(3)];
        let page = |events: &[Event]| {
            let runs = vec![ExportedRun { run: 4, events: events.to_vec() }];
            let file = Export { instance: "greet-1".to_string(), uid: Uid(7), runs };
            serde_json::from_str::<History>(&file.to_json()).unwrap()
        };
        let mut history = page(&events[..2]);
        history.goes_on(page(&events[2..]));
        assert_eq!(history.events().unwrap(), events);
        assert!(page(&events[2..]).events().is_err(), "a page alone is no history");
    }

    #[test]
    fn an_action_is_read_by_its_name() {
        for name in ["retry", "complete", "fail", "set_policy", "pause_run", "reset", "redrive"] {
            assert_eq!(action_named(name).map(|action| action.name()), Some(name));
        }
        assert_eq!(action_named("unheard of"), None);
    }
}
