//! Graphs under test: built in a few words, run in virtual time, told as one line for each state.
#![allow(dead_code, clippy::unwrap_used)]

use resurgam::AttemptOutcome;
use resurgam_graph::{Attempt, Ended, Listing, Start, Status, Template, definition, listing};
use resurgam_testing::{TestApp, TestBuilder};
use serde_json::{Value, json};

/// A node whose activity is called as its identifier, in capitals.
pub(crate) fn node(identifier: &str, next: &[&str]) -> Value {
    json!({
        "node_name": identifier.to_uppercase(),
        "namespace": "test",
        "identifier": identifier,
        "inputs": {},
        "next_nodes": next,
    })
}

/// The same with inputs.
pub(crate) fn node_with(identifier: &str, inputs: Value, next: &[&str]) -> Value {
    let mut node = node(identifier, next);
    node["inputs"] = inputs;
    node
}

/// A node that unites.
pub(crate) fn uniting(identifier: &str, target: &str, strategy: &str, next: &[&str]) -> Value {
    let mut node = node(identifier, next);
    node["unites"] = json!({"identifier": target, "strategy": strategy});
    node
}

/// A template without secrets whose nodes are tried once.
pub(crate) fn graph(nodes: &[Value]) -> Value {
    json!({"secrets": {}, "nodes": nodes, "retry_policy": {"max_retries": 0}})
}

pub(crate) fn template(value: &Value) -> Template {
    Template::from_value(value).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Everything that is wrong with a template: `path: message`.
pub(crate) fn refused(value: &Value) -> Vec<String> {
    let problems = Template::from_value(value).expect_err("a template that is refused");
    problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect()
}

/// An app that runs graphs.
pub(crate) fn app() -> TestBuilder {
    TestApp::builder().workflow_definition(definition("graph"))
}

/// Starts a graph, waits for its end and tells what became of it: the status of the run, and its
/// states.
pub(crate) async fn run(app: &TestApp, graph: &Value) -> Listing {
    run_with(app, graph, &Start::default()).await
}

pub(crate) async fn run_with(app: &TestApp, graph: &Value, start: &Start) -> Listing {
    let started = template(graph).start(start).unwrap_or_else(|problems| panic!("{problems}"));
    let instance = app.start_named::<Value>("run", "graph", &started.run).await;
    let outcome = instance.result().await;
    let listing = listing_of(app, "run").await;
    // The workflow says the same in its own words.
    let told = match &outcome {
        Ok(told) => told.clone(),
        Err(error) => {
            let failure = error.failure().expect("a failure of the workflow");
            assert_eq!(failure.type_name.as_deref(), Some("GraphFailed"), "{failure}");
            failure.details.clone().unwrap()
        }
    };
    let status = serde_json::to_value(listing.run_status).unwrap();
    assert_eq!((outcome.is_ok(), &told["run_status"]), (status == "SUCCESS", &status));
    let final_states =
        listing.states.iter().filter(|row| row.state != Status::RetryCreated).count();
    let told_states = told["states"].as_array().unwrap().len();
    let left_out = told["states_left_out"].as_u64().unwrap_or(0);
    assert_eq!(told_states as u64 + left_out, final_states as u64);
    listing
}

/// The states of a run, from its history and its ledger.
pub(crate) async fn listing_of(app: &TestApp, id: &str) -> Listing {
    let events = app.client().events(id).await.unwrap();
    let attempts: Vec<Attempt> = app
        .ledger(id)
        .await
        .into_iter()
        .map(|row| Attempt {
            call: row.call.seq,
            number: row.attempt,
            ended: match row.outcome {
                AttemptOutcome::Failed => Ended::Failed,
                AttemptOutcome::Snoozed => Ended::Snoozed,
                _ => Ended::Uncounted,
            },
            ended_at: row.ended_at,
            failure: row.failure,
            delay_ms: row.delay_ms,
        })
        .collect();
    listing(&events, &attempts).unwrap()
}

/// One line for each state: identifier, state, retry count.
pub(crate) fn lines(listing: &Listing) -> Vec<String> {
    let line = |row: &resurgam_graph::StateRow| {
        let state = serde_json::to_value(row.state).unwrap();
        format!("{} {} {}", row.identifier, state.as_str().unwrap(), row.retry_count)
    };
    listing.states.iter().map(line).collect()
}

/// How many states of a node there are.
pub(crate) fn count(listing: &Listing, identifier: &str) -> usize {
    listing.states.iter().filter(|row| row.identifier == identifier).count()
}
