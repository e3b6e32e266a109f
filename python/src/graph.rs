//! Graphs of nodes: templates, runs of them, and their nodes' calls.

use std::time::Duration;

use pyo3::prelude::*;
use resurgam::{AttemptOutcome, AttemptRow, Client};
use resurgam_core::config::{Problem, Problems};
use resurgam_graph::{
    Attempt, Ended, KEY_VARIABLE, NodeCall, SecretsKey, Start, Template, definition, listing,
    node_activity, secret_variable,
};
use serde_json::{Map, Value, json};

use crate::app::{App, Builder};
use crate::ask::{spawn, value};
use crate::attempt::on_loop;
use crate::settings::{Given, mistake};

/// A graph under this name is what the command line and the server call one, too.
const GRAPH: &str = "graph";

/// The key of graphs' secrets: the one that was given, else the environment's.
fn key(given: Option<&str>) -> PyResult<Option<SecretsKey>> {
    let known = given.map(str::to_string).or_else(|| std::env::var(KEY_VARIABLE).ok());
    known.map(|text| SecretsKey::from_text(&text).map_err(mistake)).transpose()
}

fn problems(found: &Problems) -> PyErr {
    mistake(found)
}

fn messages(warnings: &[Problem]) -> Vec<String> {
    warnings.iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect()
}

fn object(json: &str) -> PyResult<Map<String, Value>> {
    serde_json::from_str(json).map_err(mistake)
}

/// Checks a template: what is odd about it, and the names of its nodes' activities. The error says
/// everything that is wrong.
#[pyfunction]
pub(crate) fn check_graph(template: &str) -> PyResult<(Vec<String>, Vec<String>)> {
    let template = Template::parse(template).map_err(|found| problems(&found))?;
    let names = template.node_names().map(str::to_string).collect();
    Ok((messages(template.warnings()), names))
}

/// The argument of a run of a template, and what has no effect.
#[pyfunction]
#[pyo3(signature = (template, inputs, store, delay, secrets_key=None))]
pub(crate) fn start_graph(
    template: &str,
    inputs: &str,
    store: &str,
    delay: f64,
    secrets_key: Option<&str>,
) -> PyResult<(String, Vec<String>)> {
    let template = Template::parse(template).map_err(|found| problems(&found))?;
    let start = Start {
        inputs: object(inputs)?,
        store: object(store)?,
        delay: Duration::try_from_secs_f64(delay).map_err(mistake)?,
        key: key(secrets_key)?,
        stored_secrets: None,
    };
    let started = template.start(&start).map_err(|found| problems(&found))?;
    let run = serde_json::to_string(&started.run).map_err(mistake)?;
    Ok((run, messages(&started.warnings)))
}

/// What a node is called with: its identifier, its inputs as JSON, and the graph's secrets in
/// clear. The error says what the node lacks.
#[pyfunction]
#[pyo3(signature = (arguments, secrets_key=None))]
pub(crate) fn node_call(
    arguments: &str,
    secrets_key: Option<&str>,
) -> PyResult<(String, String, Vec<(String, String)>)> {
    let arguments: Value = serde_json::from_str(arguments).map_err(mistake)?;
    let Some(call) = NodeCall::of(&arguments) else {
        let inputs = arguments.to_string();
        return Ok((String::new(), inputs, Vec::new()));
    };
    let variables = call.secret_variables(key(secrets_key)?.as_ref()).map_err(mistake)?;
    let prefix = secret_variable("");
    let secrets = variables
        .into_iter()
        .map(|(name, clear)| (name.trim_start_matches(&prefix).to_string(), clear.to_string()))
        .collect();
    Ok((call.identifier.clone(), call.inputs.to_string(), secrets))
}

/// A key for the secrets of graphs, as text.
#[pyfunction]
pub(crate) fn new_secrets_key() -> String {
    SecretsKey::generate_text().to_string()
}

fn of_ledger(row: &AttemptRow) -> Attempt {
    let ended = match row.outcome {
        AttemptOutcome::Failed => Ended::Failed,
        AttemptOutcome::Snoozed => Ended::Snoozed,
        AttemptOutcome::Lost | AttemptOutcome::Interrupted | AttemptOutcome::Cancelled => {
            Ended::Uncounted
        }
    };
    Attempt {
        call: row.call.seq,
        number: row.attempt,
        ended,
        ended_at: row.ended_at,
        failure: row.failure.clone(),
        delay_ms: row.delay_ms,
    }
}

#[pymethods]
impl Builder {
    /// Has the app run graphs.
    fn graphs(&mut self) {
        self.workflows.push(definition(GRAPH));
    }

    /// An activity that is a node of graphs, by its place in the list of activities. A call whose
    /// secrets this process cannot read waits for one that can.
    #[pyo3(signature = (name, place, options=None, secrets_key=None))]
    fn node(
        &mut self,
        name: &str,
        place: usize,
        options: Option<&str>,
        secrets_key: Option<&str>,
    ) -> PyResult<()> {
        let key = key(secrets_key)?;
        let mut known = on_loop(name.to_string(), place, self.port.clone());
        known.options = Given::read(options)?.of_activity()?;
        let known = known.lacking(move |input| {
            input.decode().ok().and_then(|arguments| NodeCall::of(&arguments)?.lacks(key.as_ref()))
        });
        self.activities.push(node_activity(known));
        Ok(())
    }
}

#[pymethods]
impl App {
    /// All states of a run of a graph, with every retry.
    fn graph_states(&self, token: u64, id: String) {
        let target = self.target.clone();
        spawn(&self.port, token, async move {
            let ask = |client: &Client| {
                let (client, id) = (client.clone(), id.clone());
                Box::pin(
                    async move { Ok((client.events(&id).await?, client.attempts(&id).await?)) },
                )
            };
            let found = target.ask("list the states of a graph", ask).await;
            value(found.map(|(events, ledger)| {
                let attempts: Vec<Attempt> = ledger.iter().map(of_ledger).collect();
                match listing(&events, &attempts) {
                    Ok(listing) => json!({"listing": listing}),
                    Err(error) => json!({"error": error}),
                }
            }))
        });
    }
}
