//! The book of a run: its states, and what follows when one of them ends.
//!
//! Pure: the interpreter (`run.rs`) tells it what happened and when, and asks what is to be called
//! next. Listing the states of a run (`listing.rs`) keeps the same book from its history. A state
//! is one execution of one node, retries included; how often it was tried is in the engine's
//! ledger and not here.
//!
//! | state    | what happens                      | next                                |
//! |----------|-----------------------------------|-------------------------------------|
//! | Created  | it is called                      | Queued                              |
//! | Queued   | the call returns outputs          | Executed                            |
//! | Queued   | the call fails for good           | Errored                             |
//! | Queued   | the call prunes its branch        | Pruned                              |
//! | Executed | its children are created          | Success                             |
//! | Executed | a child's inputs cannot be made   | NextCreatedError, and no children   |
//! | Success  | a uniting node's inputs cannot be | NextCreatedError                    |
//!
//! A list of outputs makes as many states, each Executed with one of them and with children of its
//! own. When nodes unite: `unite.rs`. What inputs are made of: `inputs.rs`.

mod inputs;
#[cfg(test)]
mod tests;
mod unite;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use resurgam_core::{Failure, Payload, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::node_call::outputs_of;
use crate::plan::Plan;
use unite::{Pending, Scope};

/// The most states of a run. Each one that is called takes two events of a history that has
/// 50,000, so this only bounds what a single answer can ask for.
const MAX_STATES: usize = 100_000;

/// A state, by its place in the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StateId(usize);

impl StateId {
    /// The state that a run begins with.
    pub(crate) fn is_root(self) -> bool {
        self.0 == 0
    }
}

/// The book of a run.
#[derive(Debug)]
pub(crate) struct Book {
    pub(crate) plan: Plan,
    store: BTreeMap<String, String>,
    /// How many bytes the inputs of a state may have.
    room: usize,
    states: Vec<State>,
    /// States that are to be called, in order.
    waiting: VecDeque<StateId>,
    /// States that are Created or Queued.
    open: usize,
    /// The failure of the first state, in order of creation, whose call failed for good.
    first_failure: Option<(StateId, Failure)>,
}

/// One execution of one node.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) node: usize,
    pub(crate) inputs: Arc<BTreeMap<String, String>>,
    pub(crate) status: Status,
    pub(crate) outputs: Option<Map<String, Value>>,
    pub(crate) error: Option<String>,
    pub(crate) created_at: Timestamp,
    /// The state whose list of outputs it comes from, when it is not the first of them.
    pub(crate) fanned_from: Option<StateId>,
    /// The others that come from its list of outputs, in order.
    fanned: Vec<StateId>,
    /// What it was created by; for a node that unites, the state of its target.
    parent: Option<StateId>,
    children: Vec<StateId>,
    /// True once it has outputs and its children were created.
    followed: bool,
    scope: Option<Scope>,
    /// How far everything below it is, for each node that unites on it.
    pending: Vec<Pending>,
}

/// Where a state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// It waits to be called, or to be tried again.
    Created,
    /// It was called.
    Queued,
    /// It has outputs, and its children are being created.
    Executed,
    /// It is done.
    Success,
    /// An attempt failed, and another state tries it again.
    RetryCreated,
    /// It failed for good.
    Errored,
    /// It ended its branch without failing.
    Pruned,
    /// It is done, but what follows it could not be created.
    NextCreatedError,
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RunStatus {
    /// States are open.
    Pending,
    /// Nothing failed.
    Success,
    /// Something failed.
    Failed,
}

impl Book {
    /// The book of a run that begins now, with the state of its root. The error says why the root
    /// has no inputs.
    pub(crate) fn begin(
        plan: Plan,
        given: &BTreeMap<String, String>,
        store: BTreeMap<String, String>,
        room: usize,
        now: Timestamp,
    ) -> Result<Book, String> {
        let (states, waiting) = (Vec::new(), VecDeque::new());
        let first_failure = None;
        let mut book = Book { plan, store, room, states, waiting, open: 0, first_failure };
        let inputs = book.root_inputs(given)?;
        book.create(book.plan.root, None, inputs, now);
        Ok(book)
    }

    /// The next state that is to be called.
    pub(crate) fn next(&mut self) -> Option<StateId> {
        let id = self.waiting.pop_front()?;
        self.state_mut(id).status = Status::Queued;
        Some(id)
    }

    /// A call is over.
    pub(crate) fn settle(
        &mut self,
        id: StateId,
        outcome: Result<Payload, Failure>,
        now: Timestamp,
    ) {
        let outputs = outcome.and_then(|result| {
            let result: Value = result.decode().map_err(Failure::from)?;
            outputs_of(result)
        });
        self.open -= 1;
        match outputs {
            Ok(outputs) => self.executed(id, outputs, now),
            Err(failure) if failure.is_pruned() => self.state_mut(id).status = Status::Pruned,
            Err(failure) => self.errored(id, failure),
        }
        let group: Vec<StateId> =
            std::iter::once(id).chain(self.state(id).fanned.iter().copied()).collect();
        self.unite(&group, now);
    }

    /// A state has outputs: it fans out, and every state of it creates its children.
    fn executed(&mut self, id: StateId, outputs: Vec<Map<String, Value>>, now: Timestamp) {
        if outputs.len() > self.states_left() {
            let what = format!("{} outputs are more states than a run can have", outputs.len());
            return self.end_badly(id, Status::NextCreatedError, what);
        }
        let mut outputs = outputs.into_iter();
        self.state_mut(id).status = Status::Executed;
        self.state_mut(id).outputs = outputs.next();
        // All of them are there before any of them ends, so that nothing unites too early.
        let mut group = vec![id];
        group.extend(outputs.map(|outputs| self.fan_out(id, outputs, now)));
        for id in group {
            match self.children_of(id) {
                Ok(children) => {
                    self.state_mut(id).status = Status::Success;
                    self.state_mut(id).followed = true;
                    for (node, inputs) in children {
                        self.create(node, Some(id), inputs, now);
                    }
                }
                Err(what) => self.end_badly(id, Status::NextCreatedError, what),
            }
        }
    }

    fn fan_out(&mut self, from: StateId, outputs: Map<String, Value>, now: Timestamp) -> StateId {
        let original = self.state(from);
        let (node, parent, inputs) = (original.node, original.parent, original.inputs.clone());
        let id = self.add(node, parent, original.scope, inputs, now);
        let state = self.state_mut(id);
        state.status = Status::Executed;
        state.outputs = Some(outputs);
        state.fanned_from = Some(from);
        self.state_mut(from).fanned.push(id);
        id
    }

    /// The children of a state with their inputs: all of them, or the reason why there are none.
    #[allow(clippy::type_complexity)]
    fn children_of(&self, id: StateId) -> Result<Vec<(usize, BTreeMap<String, String>)>, String> {
        let next = &self.plan.nodes[self.state(id).node].next;
        if next.len() > self.states_left() {
            return Err("a run cannot have more states".to_string());
        }
        next.iter().map(|node| Ok((*node, self.inputs(*node, id)?))).collect()
    }

    fn states_left(&self) -> usize {
        MAX_STATES.saturating_sub(self.states.len())
    }

    /// Creates a state that is to be called.
    fn create(
        &mut self,
        node: usize,
        parent: Option<StateId>,
        inputs: BTreeMap<String, String>,
        now: Timestamp,
    ) {
        let scope = parent.and_then(|parent| self.scope_below(parent, node));
        let id = self.add(node, parent, scope, Arc::new(inputs), now);
        parent.into_iter().for_each(|parent| self.state_mut(parent).children.push(id));
        self.waiting.push_back(id);
        self.open += 1;
    }

    fn add(
        &mut self,
        node: usize,
        parent: Option<StateId>,
        scope: Option<Scope>,
        inputs: Arc<BTreeMap<String, String>>,
        now: Timestamp,
    ) -> StateId {
        let id = StateId(self.states.len());
        let pending = self.plan.nodes[node].uniting.iter().map(|_| Pending::default()).collect();
        self.states.push(State {
            node,
            inputs,
            status: Status::Created,
            outputs: None,
            error: None,
            created_at: now,
            fanned_from: None,
            fanned: Vec::new(),
            parent,
            children: Vec::new(),
            followed: false,
            scope,
            pending,
        });
        self.begins_below(id);
        id
    }

    fn errored(&mut self, id: StateId, failure: Failure) {
        self.end_badly(id, Status::Errored, text_of(&failure));
        if self.first_failure.as_ref().is_none_or(|(first, _)| id < *first) {
            self.first_failure = Some((id, failure));
        }
    }

    fn end_badly(&mut self, id: StateId, status: Status, error: String) {
        let state = self.state_mut(id);
        state.status = status;
        state.error = Some(error);
    }

    /// Where the run is.
    pub(crate) fn run_status(&self) -> RunStatus {
        let failed =
            |state: &State| matches!(state.status, Status::Errored | Status::NextCreatedError);
        match self.open {
            0 if self.states.iter().any(failed) => RunStatus::Failed,
            0 => RunStatus::Success,
            _ => RunStatus::Pending,
        }
    }

    /// What the call of a state failed with, when it is the first one of which the call failed.
    pub(crate) fn first_failure(&self, id: StateId) -> Option<&Failure> {
        self.first_failure.as_ref().filter(|(first, _)| *first == id).map(|(_, failure)| failure)
    }

    /// All states in order of creation.
    pub(crate) fn states(&self) -> impl Iterator<Item = (StateId, &State)> {
        self.states.iter().enumerate().map(|(place, state)| (StateId(place), state))
    }

    pub(crate) fn state(&self, id: StateId) -> &State {
        &self.states[id.0]
    }

    fn state_mut(&mut self, id: StateId) -> &mut State {
        &mut self.states[id.0]
    }
}

/// What a state says about a failure.
pub(crate) fn text_of(failure: &Failure) -> String {
    if failure.message.is_empty() { failure.to_string() } else { failure.message.clone() }
}
