//! What waits for a decision: dead letters, paused calls, and groups of them.

use resurgam::{CallGroup, DeadLetter, PausedCall};
use resurgam_graph::without_secrets;
use serde::Serialize;
use utoipa::ToSchema;

use super::call::{Attempt, CallPaused};
use super::{Json, content, json, rfc3339, value};
use crate::links::link;
use crate::names::call_name;

/// A call that was given up, in a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct Letter {
    call: String,
    /// The id of the instance that made it.
    instance: String,
    workflow: String,
    activity: String,
    queue: String,
    /// The gate that it was behind.
    gate: String,
    /// open, redriven or discarded
    state: String,
    at_ms: i64,
    at: String,
    /// Why it was not tried any more.
    why: String,
    attempts: u32,
    #[schema(value_type = serde_json::Value)]
    failure: Json,
    /// The same for all calls that failed in the same way.
    fingerprint: String,
    /// What these have in common.
    error: String,
}

impl From<&DeadLetter> for Letter {
    fn from(letter: &DeadLetter) -> Self {
        Letter {
            call: call_name(letter.call),
            instance: letter.instance.clone(),
            workflow: letter.workflow.clone(),
            activity: letter.activity.clone(),
            queue: letter.queue.clone(),
            gate: letter.gate.clone(),
            state: letter.state.name().to_string(),
            at_ms: letter.at.as_millis(),
            at: rfc3339(letter.at),
            why: letter.why.clone(),
            attempts: letter.attempts,
            failure: json(&letter.failure),
            fingerprint: letter.fingerprint.clone(),
            error: letter.error.clone(),
        }
    }
}

/// A call that was given up, with everything about it.
#[derive(Serialize, ToSchema)]
pub(crate) struct LetterDetail {
    #[serde(flatten)]
    letter: Letter,
    #[schema(value_type = serde_json::Value)]
    input: Json,
    ledger: Vec<Attempt>,
    settled: Option<Decision>,
}

/// Who decided about a letter.
#[derive(Serialize, ToSchema)]
pub(crate) struct Decision {
    at_ms: i64,
    at: String,
    by: String,
    reason: Option<String>,
    /// The instance that tried it again.
    redriven_as: Option<String>,
}

impl From<&DeadLetter> for LetterDetail {
    fn from(letter: &DeadLetter) -> Self {
        let href = || link(&format!("/api/v1/dead-letters/{}/input", call_name(letter.call)));
        LetterDetail {
            letter: Letter::from(letter),
            input: content(letter_input(letter), href),
            ledger: letter.ledger.iter().map(Attempt::from).collect(),
            settled: letter.settled.as_ref().map(|settled| Decision {
                at_ms: settled.at.as_millis(),
                at: rfc3339(settled.at),
                by: settled.by.clone(),
                reason: settled.reason.clone(),
                redriven_as: settled.redriven_as.clone(),
            }),
        }
    }
}

/// What the call of a letter was made with.
pub(crate) fn letter_input(letter: &DeadLetter) -> Json {
    value(&without_secrets(&letter.input))
}

/// A paused call in a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct Paused {
    call: String,
    instance: String,
    workflow: String,
    activity: String,
    queue: String,
    attempt: u32,
    paused: Option<CallPaused>,
}

impl From<&PausedCall> for Paused {
    fn from(paused: &PausedCall) -> Self {
        let task = &paused.task;
        Paused {
            call: call_name(task.call),
            instance: paused.instance.clone(),
            workflow: paused.workflow.clone(),
            activity: task.name.clone(),
            queue: task.queue.clone(),
            attempt: task.attempt,
            paused: task.progress.paused.as_deref().map(CallPaused::from),
        }
    }
}

/// Calls that failed in the same way.
#[derive(Serialize, ToSchema)]
pub(crate) struct Group {
    fingerprint: String,
    activity: String,
    /// What they have in common.
    error: String,
    count: u64,
    oldest_ms: i64,
    oldest: String,
    newest_ms: i64,
    newest: String,
    /// The newest of them.
    example: String,
    instance: String,
}

impl From<&CallGroup> for Group {
    fn from(group: &CallGroup) -> Self {
        Group {
            fingerprint: group.fingerprint.clone(),
            activity: group.activity.clone(),
            error: group.error.clone(),
            count: group.count,
            oldest_ms: group.oldest.as_millis(),
            oldest: rfc3339(group.oldest),
            newest_ms: group.newest.as_millis(),
            newest: rfc3339(group.newest),
            example: call_name(group.example),
            instance: group.instance.clone(),
        }
    }
}
