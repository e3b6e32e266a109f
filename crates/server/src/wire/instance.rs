//! Instances: in lists, with everything about them, and how they ended.

use std::collections::BTreeMap;

use resurgam::{Description, InstanceRow, Outcome, Payload, RunPause, Status};
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;
use utoipa::ToSchema;

use super::call::Call;
use super::{Json, both, content, hides_payloads, rfc3339, value};
use crate::links::link;
use crate::names::call_name;

/// An instance in a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct Instance {
    /// What identifies this start for ever.
    uid: String,
    /// The id it was started with. Another instance may have it by now.
    id: String,
    workflow: String,
    /// running, completed, failed, cancelled, terminated, blocked or paused
    status: String,
    /// Which of its runs is the current one.
    run: u32,
    queue: String,
    priority: i32,
    tags: BTreeMap<String, String>,
    created_at_ms: i64,
    created_at: String,
    closed_at_ms: Option<i64>,
    closed_at: Option<String>,
    /// Why it does not go on, while it does not.
    error: Option<String>,
    /// Who paused it, while it is paused.
    paused: Option<RunPaused>,
    /// Whether everything was undone: complete or incomplete, once something was.
    compensation: Option<String>,
    /// The call of another instance that started this one.
    parent: Option<String>,
    /// The schedule that started it.
    schedule: Option<String>,
}

/// Who paused an instance, and why.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunPaused {
    since_ms: Option<i64>,
    since: Option<String>,
    by: Option<String>,
    reason: Option<String>,
    /// Its open calls were paused with it.
    calls: bool,
}

impl From<&RunPause> for RunPaused {
    fn from(pause: &RunPause) -> Self {
        let (since_ms, since) = both(pause.since);
        let RunPause { by, reason, calls, .. } = pause.clone();
        RunPaused { since_ms, since, by, reason, calls }
    }
}

impl From<&InstanceRow> for Instance {
    fn from(row: &InstanceRow) -> Self {
        let (closed_at_ms, closed_at) = both(row.closed_at);
        Instance {
            uid: row.uid.to_string(),
            id: row.id.clone(),
            workflow: row.workflow.clone(),
            status: row.status.name().to_string(),
            run: row.run,
            queue: row.queue.clone(),
            priority: row.priority,
            tags: row.tags.clone(),
            created_at_ms: row.created_at.as_millis(),
            created_at: rfc3339(row.created_at),
            closed_at_ms,
            closed_at,
            error: row.error.clone(),
            paused: (row.status == Status::Paused).then(|| RunPaused::from(&row.pause)),
            compensation: row.compensation.map(|ended| ended.name().to_string()),
            parent: row.parent.map(call_name),
            schedule: row.schedule.clone(),
        }
    }
}

/// An instance with everything about it.
#[derive(Serialize, ToSchema)]
pub(crate) struct Described {
    #[serde(flatten)]
    instance: Instance,
    /// code, program or graph
    kind: String,
    /// What it was started with, without a program and without secrets.
    #[schema(value_type = serde_json::Value)]
    input: Json,
    /// What it returned, once it has completed.
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<Json>,
    /// Why it failed, once it has closed otherwise.
    #[schema(value_type = Option<serde_json::Value>)]
    failure: Option<Json>,
    /// Its unfinished activity calls.
    pending: Vec<Call>,
    /// The names of the signals that it has not read.
    unread_signals: Vec<String>,
    /// When its timers fire, the next one first.
    timers_ms: Vec<i64>,
    timers: Vec<String>,
    /// It is stored, and nobody who works has taken it up.
    waits_for_first_turn: bool,
    /// Somebody has asked its current run to end.
    cancel_requested: bool,
}

impl From<&Description> for Described {
    fn from(found: &Description) -> Self {
        let row = &found.instance;
        let href = |part: &str| link(&format!("/api/v1/instances/{}/{part}", row.uid));
        let outcome =
            row.outcome.as_ref().map(|outcome| content(value(outcome), || href("outcome")));
        let is_completed = row.status == Status::Completed;
        Described {
            kind: kind(&row.input).to_string(),
            input: content(started_with(&row.input), || href("input")),
            result: outcome.clone().filter(|_| is_completed),
            failure: outcome.filter(|_| !is_completed),
            pending: found.pending.iter().map(|call| Call::of(row, call)).collect(),
            unread_signals: found.unread.clone(),
            timers_ms: found.timers.iter().map(|at| at.as_millis()).collect(),
            timers: found.timers.iter().map(|at| rfc3339(*at)).collect(),
            waits_for_first_turn: found.waits_for_first_turn,
            cancel_requested: found.cancel_requested,
            instance: Instance::from(row),
        }
    }
}

/// What an argument holds.
#[derive(Deserialize)]
struct Shape {
    program: Option<serde::de::IgnoredAny>,
    graph: Option<serde::de::IgnoredAny>,
}

fn kind(argument: &Payload) -> &'static str {
    match argument.decode() {
        Ok(Shape { program: Some(_), .. }) => "program",
        Ok(Shape { graph: Some(_), .. }) => "graph",
        _ => "code",
    }
}

/// What an instance was started with: of a program or a graph, what somebody gave it.
pub(crate) fn started_with(argument: &Payload) -> Json {
    #[derive(Deserialize, Serialize)]
    struct Started {
        inputs: Json,
        #[serde(skip_serializing_if = "Option::is_none")]
        store: Option<Json>,
    }
    if hides_payloads() {
        return value(argument);
    }
    let started = || argument.decode::<Started>().ok();
    let given = match kind(argument) {
        "program" => started().map(|started| started.inputs),
        "graph" => started().and_then(|started| to_raw_value(&started).ok()),
        _ => Some(value(argument)),
    };
    given.unwrap_or_else(|| value(&Payload::null()))
}

/// How an instance ended, or that it has not.
#[derive(Serialize, ToSchema)]
pub(crate) struct Ended {
    /// True when the rest is what it will stay.
    closed: bool,
    /// running, completed, failed, cancelled or terminated
    status: String,
    /// What it returned.
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<Json>,
    /// Why it did not.
    #[schema(value_type = Option<serde_json::Value>)]
    failure: Option<Json>,
}

impl Ended {
    /// It has not ended yet.
    pub(crate) fn not_yet(status: Status) -> Self {
        let status = status.name().to_string();
        Ended { closed: false, status, result: None, failure: None }
    }

    pub(crate) fn of(outcome: &Outcome) -> Self {
        let (status, result, failure) = match outcome {
            Outcome::Completed(result) => (Status::Completed, Some(value(result)), None),
            Outcome::Failed(failure) => (Status::Failed, None, Some(failure)),
            Outcome::Cancelled(failure) => (Status::Cancelled, None, Some(failure)),
            Outcome::Terminated(failure) => (Status::Terminated, None, Some(failure)),
        };
        let status = status.name().to_string();
        Ended { closed: true, status, result, failure: failure.map(super::json) }
    }
}
