//! A run of a graph: its argument, and the workflow that interprets it.
//!
//! The workflow has no durability code of its own. It keeps a book (`book/`), calls what the book
//! says by name, and tells the book how the calls ended; after a crash it is run again from the
//! beginning, as every workflow is, and keeps the same book.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use resurgam_core::command::{ActivityCall, CallOptions};
use resurgam_core::machine::SharedMachine;
use resurgam_core::turn::WorkflowFuture;
use resurgam_core::{Failure, Payload, Timestamp};
use resurgam_sdk::{Crowd, WorkflowContext, WorkflowDefinition, call_by_name};
use serde::{Deserialize, Serialize};

use crate::book::{Book, StateId};
use crate::model::Graph;
use crate::node_call::arguments;
use crate::plan::Plan;
use crate::secrets::EncryptedSecrets;
use crate::summary;

/// The most calls that are open at once, a little less than a run may have; and the most bytes of
/// their arguments.
const OPEN_CALLS: usize = 9_000;
const OPEN_INPUT: usize = 48 << 20;

/// The largest argument of a call.
const MAX_ARGUMENT: usize = 2 << 20;

/// The argument of the workflow: a graph with everything that a run of it needs. Its secrets are
/// encrypted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphRun {
    /// The version of this form.
    v: u32,
    graph: Graph,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    secrets: BTreeMap<String, String>,
    /// The fingerprint of the key that they are encrypted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// Inputs of the root, in place of the graph's.
    #[serde(default)]
    inputs: BTreeMap<String, String>,
    /// The values of the store, defaults included.
    #[serde(default)]
    store: BTreeMap<String, String>,
    #[serde(default)]
    start_delay_ms: u64,
}

impl GraphRun {
    pub(crate) fn new(
        graph: Graph,
        secrets: EncryptedSecrets,
        inputs: BTreeMap<String, String>,
        store: BTreeMap<String, String>,
        start_delay_ms: u64,
    ) -> Self {
        let EncryptedSecrets { values, key } = secrets;
        GraphRun { v: 1, graph, secrets: values, key, inputs, store, start_delay_ms }
    }

    /// Reads the argument of a run.
    pub fn from_payload(input: &Payload) -> Result<Self, String> {
        let run: GraphRun = input.decode().map_err(|error| format!("read a graph: {error}"))?;
        match run.v {
            1 => Ok(run),
            newer => Err(format!("read a graph: form {newer} is newer than this program")),
        }
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The names of its secrets.
    pub fn secret_names(&self) -> impl Iterator<Item = &str> {
        self.secrets.keys().map(String::as_str)
    }

    /// When the root may run, in a run that begins now.
    pub(crate) fn root_due(&self, now: Timestamp) -> Timestamp {
        now.saturating_add(Duration::from_millis(self.start_delay_ms))
    }

    /// The book of this run.
    pub(crate) fn book(&self, plan: Plan, now: Timestamp) -> Result<Book, String> {
        let secrets: usize =
            self.secrets.iter().map(|(name, value)| name.len() + value.len()).sum();
        // Names and values of secrets are plain text, and some bytes go between them.
        let around = secrets * 2 + self.secrets.len() * 16 + 4_096;
        let room = MAX_ARGUMENT.saturating_sub(around);
        Book::begin(plan, &self.inputs, self.store.clone(), room, now)
    }

    /// The call of a state.
    fn call(&self, book: &Book, id: StateId) -> ActivityCall {
        let state = book.state(id);
        let step = &book.plan.nodes[state.node];
        let input = arguments(&step.identifier, &state.inputs, &self.secrets, self.key.as_deref());
        let input = input.expect("texts have a JSON form");
        let gate = step.gate.as_ref().map(|template| {
            let inputs = serde_json::to_value(&*state.inputs).unwrap_or_default();
            template.key(&inputs)
        });
        let options = CallOptions {
            gate,
            retry: Some(Box::new(step.retry.clone())),
            timeout: step.timeout,
            ..CallOptions::default()
        };
        ActivityCall { name: step.node_name.clone(), input, options, compensates: None }
    }
}

/// The workflow that runs graphs, under a name of your choice. Its argument is a [`GraphRun`].
///
/// A run whose status is FAILED fails the workflow, with a failure of type `GraphFailed`; else its
/// result is an object with `run_status` and `states`. Both hold as many states as fit; all of
/// them, with every retry, come from [`listing`](crate::listing).
pub fn definition(name: impl Into<String>) -> WorkflowDefinition {
    WorkflowDefinition::new(name, |machine: SharedMachine, input: &Payload| {
        let run = GraphRun::from_payload(input)?;
        let plan = Plan::of(&run.graph)?;
        let code: WorkflowFuture = Box::pin(interpret(machine, run, plan));
        Ok(code)
    })
}

type OpenCall = Pin<Box<dyn Future<Output = (StateId, Result<Payload, Failure>)> + Send>>;

async fn interpret(machine: SharedMachine, run: GraphRun, plan: Plan) -> Result<Payload, Failure> {
    let ctx = WorkflowContext::new(machine.clone());
    let mut book = run.book(plan, ctx.now()).map_err(|what| {
        Failure::terminal(format!("Invalid input: {what}")).with_type("GraphFailed")
    })?;
    if run.start_delay_ms > 0 {
        ctx.sleep(Duration::from_millis(run.start_delay_ms)).await?;
    }
    let mut open: Crowd<OpenCall> = Crowd::new();
    let mut sizes = Vec::new();
    let mut size = 0;
    loop {
        while open.open() == 0 || (open.open() < OPEN_CALLS && size < OPEN_INPUT) {
            let Some(id) = book.next() else { break };
            let call = run.call(&book, id);
            size += call.input.len();
            sizes.push(call.input.len());
            let machine = machine.clone();
            open.push(Box::pin(async move { (id, call_by_name(machine, call).await) }));
        }
        let Some((place, (id, outcome))) = open.next().await else { break };
        if let Some(cancelled) = ctx.cancelled() {
            return Err(cancelled);
        }
        size -= sizes[place];
        book.settle(id, outcome, ctx.now());
    }
    summary::outcome(&book)
}
