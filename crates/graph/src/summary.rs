//! What the workflow itself says about a run in the end: as many states as fit.
//!
//! A result has a size, and what a failure carries has a much smaller one. Retries are not here:
//! the engine does not wake a workflow for them. Both are in the listing, which is made from the
//! history and the ledger.

use resurgam_core::{Failure, Payload};
use serde::Serialize;
use serde_json::{Value, json};

use crate::book::{Book, RunStatus, State, Status};

/// The most bytes of states in a result.
const RESULT: usize = 1 << 20;

/// The most bytes of states in a failure, whose details are bounded to 64 KiB.
const DETAILS: usize = 60 << 10;

/// A state as its workflow knows it.
#[derive(Serialize)]
struct Line<'a> {
    identifier: &'a str,
    node: &'a str,
    state: Status,
    inputs: &'a std::collections::BTreeMap<String, String>,
    outputs: &'a Option<serde_json::Map<String, Value>>,
    error: &'a Option<String>,
    created_at_ms: i64,
}

/// The end of a run. What a run fails with is caused by the failure of the node that its message
/// names, so that people, and a redrive of the node's dead letter, know which call it was.
pub(crate) fn outcome(book: &Book) -> Result<Payload, Failure> {
    let all: Vec<&State> = book.states().map(|(_, state)| state).collect();
    if book.run_status() != RunStatus::Failed {
        return Payload::encode(&told(book, &all, &all, RESULT)).map_err(Failure::from);
    }
    let is_failed = |state: &&&State| state.error.is_some();
    let failed: Vec<&State> = all.iter().filter(is_failed).copied().collect();
    let first = failed.first().map_or(String::new(), |state| {
        let step = &book.plan.nodes[state.node];
        let error = state.error.as_deref().unwrap_or_default();
        format!(": node {} ({}): {error}", step.identifier, step.node_name)
    });
    let message = format!("{} of {} states failed{first}", failed.len(), all.len());
    let mut details = told(book, &all, &all, DETAILS);
    if details["states_left_out"] != Value::Null {
        // Not all fit: then those that failed are worth most.
        details = told(book, &failed, &all, DETAILS);
    }
    let failure = Failure::of_type("GraphFailed", message).with_details(details);
    let named = book.states().find(|(_, state)| state.error.is_some());
    match named.and_then(|(id, _)| book.first_failure(id)) {
        Some(cause) => Err(failure.caused_by(cause.clone())),
        None => Err(failure),
    }
}

/// As many of these states as fit, and how many are left out.
fn told(book: &Book, states: &[&State], all: &[&State], room: usize) -> Value {
    let mut lines = Vec::new();
    let mut size = 0;
    for state in states {
        let step = &book.plan.nodes[state.node];
        let line = Line {
            identifier: &step.identifier,
            node: &step.node_name,
            state: state.status,
            inputs: &state.inputs,
            outputs: &state.outputs,
            error: &state.error,
            created_at_ms: state.created_at.as_millis(),
        };
        let line = serde_json::to_value(line).unwrap_or_default();
        size += line.to_string().len() + 1;
        if size > room {
            break;
        }
        lines.push(line);
    }
    let left_out = all.len() - lines.len();
    let mut told = json!({"run_status": book.run_status(), "states": lines});
    if left_out > 0 {
        told["states_left_out"] = json!(left_out);
    }
    told
}
