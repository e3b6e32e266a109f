//! All states of a run, with every retry: made from its history and its ledger.
//!
//! A workflow is not woken when an attempt of one of its activities fails, so it cannot know of
//! retries; and what it returns has a bounded size. Its history says what it was told, so the same
//! book can be kept from there, and the ledger adds the attempts. This works for runs that are
//! under way too.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use resurgam_core::{Event, EventKind, Failure, Seq, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::book::{Book, RunStatus, State, StateId, Status, text_of};
use crate::plan::Plan;
use crate::run::GraphRun;

/// All states of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listing {
    /// Where the run is.
    pub run_status: RunStatus,
    /// The states in order of creation.
    pub states: Vec<StateRow>,
}

/// One state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StateRow {
    /// The node's identifier.
    pub identifier: String,
    /// The name of its activity.
    pub node: String,
    /// Where the state is.
    pub state: Status,
    /// How many failures went before it.
    pub retry_count: u32,
    /// Its inputs.
    pub inputs: BTreeMap<String, String>,
    /// What it returned.
    pub outputs: Option<Map<String, Value>>,
    /// What went wrong.
    pub error: Option<String>,
    /// When it was created.
    pub created_at_ms: i64,
    /// When it may run, or might have run at the earliest.
    pub enqueue_after_ms: i64,
}

/// An attempt that did not succeed, as the engine's ledger has it.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The call, by the place of its event.
    pub call: Seq,
    /// Which attempt of the call it was, from 1.
    pub number: u32,
    /// How it ended.
    pub ended: Ended,
    /// When.
    pub ended_at: Timestamp,
    /// What went wrong.
    pub failure: Option<Failure>,
    /// After which delay another one followed, when one did.
    pub delay_ms: Option<u64>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It failed, which counts.
    Failed,
    /// It asked to be run later.
    Snoozed,
    /// In any other way that does not count: its process died, or was stopped.
    Uncounted,
}

/// Lists the states of a run. The error says why this is not the history of a graph.
pub fn listing(history: &[Event], attempts: &[Attempt]) -> Result<Listing, String> {
    let mut by_call: HashMap<Seq, Vec<&Attempt>> = HashMap::new();
    for attempt in attempts {
        by_call.entry(attempt.call).or_default().push(attempt);
    }
    let (run, book, calls) = read(history)?;
    let call_of: HashMap<StateId, Seq> = calls.into_iter().map(|(seq, id)| (id, seq)).collect();
    let mut states = Vec::new();
    let mut retries: HashMap<StateId, u32> = HashMap::new();
    for (id, state) in book.states() {
        // A state that was fanned out has the attempts of the one that it comes from.
        let before = match state.fanned_from {
            Some(from) => Tries::counted(retries.get(&from).copied().unwrap_or(0)),
            None => {
                let attempts = call_of.get(&id).and_then(|call| by_call.get(call));
                Tries::of(state, attempts.map_or(&[], Vec::as_slice), due(&run, id, state))
            }
        };
        retries.insert(id, before.retry_count);
        states.extend(before.rows(&book, state));
    }
    states.sort_by_key(|row: &StateRow| row.created_at_ms);
    Ok(Listing { run_status: book.run_status(), states })
}

/// When a state was to run.
fn due(run: &GraphRun, id: StateId, state: &State) -> Timestamp {
    if id.is_root() { run.root_due(state.created_at) } else { state.created_at }
}

/// Keeps the book of a run from its history.
fn read(history: &[Event]) -> Result<(GraphRun, Book, HashMap<Seq, StateId>), String> {
    let mut events = history.iter();
    let Some(Event { at, kind: EventKind::RunStarted(started), .. }) = events.next() else {
        return Err("a history begins with RunStarted".to_string());
    };
    let run = GraphRun::from_payload(&started.input)?;
    let mut book = run.book(Plan::of(run.graph())?, started.first_turn_at.unwrap_or(*at))?;
    let mut calls = HashMap::new();
    for event in events {
        match &event.kind {
            EventKind::ActivityScheduled(_) => {
                let id =
                    book.next().ok_or("the history has a call that the graph does not make")?;
                calls.insert(event.seq, id);
            }
            EventKind::ActivityCompleted(done) => {
                settle(&mut book, &calls, done.activity, Ok(done.result.clone()), event.at);
            }
            EventKind::ActivityFailed(failed) => {
                settle(&mut book, &calls, failed.activity, Err(failed.failure.clone()), event.at);
            }
            // From here on the workflow listens to nobody.
            EventKind::CancelRequested { .. } => break,
            _ => {}
        }
    }
    Ok((run, book, calls))
}

fn settle(
    book: &mut Book,
    calls: &HashMap<Seq, StateId>,
    call: Seq,
    outcome: Result<resurgam_core::Payload, Failure>,
    at: Timestamp,
) {
    if let Some(id) = calls.get(&call) {
        book.settle(*id, outcome, at);
    }
}

/// The attempts of a state: the states before it, and how often it was tried.
struct Tries {
    failed: Vec<Failed>,
    retry_count: u32,
    /// When the last one was created and was to run.
    last: Option<(Timestamp, Timestamp)>,
}

/// A failure that was followed by another attempt.
struct Failed {
    retry_count: u32,
    created_at: Timestamp,
    due: Timestamp,
    error: Option<String>,
}

impl Tries {
    fn counted(retry_count: u32) -> Self {
        Tries { failed: Vec::new(), retry_count, last: None }
    }

    fn of(state: &State, attempts: &[&Attempt], due: Timestamp) -> Self {
        let (mut failed, mut uncounted) = (Vec::new(), 0);
        let (mut created_at, mut due, mut retry_count) = (state.created_at, due, 0);
        for attempt in attempts {
            let Some(delay_ms) = attempt.delay_ms else { continue };
            let next = attempt.ended_at.saturating_add(Duration::from_millis(delay_ms));
            match attempt.ended {
                Ended::Failed => {
                    let error = attempt.failure.as_ref().map(text_of);
                    // By its number and not by counting: the middle of a long ledger is dropped.
                    retry_count = attempt.number.saturating_sub(uncounted + 1);
                    failed.push(Failed { retry_count, created_at, due, error });
                    (created_at, due, retry_count) = (attempt.ended_at, next, retry_count + 1);
                }
                Ended::Snoozed => (due, uncounted) = (next, uncounted + 1),
                Ended::Uncounted => uncounted += 1,
            }
        }
        Tries { failed, retry_count, last: Some((created_at, due)) }
    }

    /// The rows of a state: one for each failure that was followed by another attempt, and its own.
    fn rows(self, book: &Book, state: &State) -> Vec<StateRow> {
        let step = &book.plan.nodes[state.node];
        let row = |retry_count: u32, created_at: Timestamp, due: Timestamp| StateRow {
            identifier: step.identifier.clone(),
            node: step.node_name.clone(),
            state: Status::RetryCreated,
            retry_count,
            inputs: (*state.inputs).clone(),
            outputs: None,
            error: None,
            created_at_ms: created_at.as_millis(),
            enqueue_after_ms: due.as_millis(),
        };
        let mut rows = Vec::with_capacity(self.failed.len() + 1);
        for Failed { retry_count, created_at, due, error } in self.failed {
            rows.push(StateRow { error, ..row(retry_count, created_at, due) });
        }
        let (created_at, due) = self.last.unwrap_or((state.created_at, state.created_at));
        rows.push(StateRow {
            state: state.status,
            outputs: state.outputs.clone(),
            error: state.error.clone(),
            ..row(self.retry_count, created_at, due)
        });
        rows
    }
}
