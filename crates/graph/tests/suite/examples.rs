//! The example graphs do what their nodes' comments say, with the executables beside them.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use resurgam::{Failure, Payload};
use resurgam_graph::{Listing, NodeCall, SecretsKey, Start, Template, node_activity};
use resurgam_sdk::ActivityDefinition;
use resurgam_testing::TestApp;
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::common::{app, lines, listing_of};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/graph")
}

/// An executable as an activity: just enough of what the command line does.
fn executable(name: &str, key: SecretsKey) -> ActivityDefinition {
    let file = folder().join("actions").join(name);
    node_activity(ActivityDefinition::new(name, move |ctx, input| {
        let (file, key) = (file.clone(), key.clone());
        Box::pin(async move {
            let call = NodeCall::of(&input.decode::<Value>()?).unwrap();
            let mut process = Command::new(&file)
                .env("RESURGAM_ATTEMPT", ctx.attempt().to_string())
                .envs(
                    call.secret_variables(Some(&key))?
                        .iter()
                        .map(|(name, value)| (name, value.as_str())),
                )
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            process.stdin.take().unwrap().write_all(call.inputs.to_string().as_bytes())?;
            let output = process.wait_with_output()?;
            let printed = String::from_utf8(output.stdout)?;
            if output.status.success() {
                return Ok(Payload::from_text(if printed.is_empty() {
                    "null"
                } else {
                    printed.trim()
                }));
            }
            let said = String::from_utf8(output.stderr)?;
            Err(failure(&serde_json::from_str(said.lines().last().unwrap_or_default())?))
        })
    }))
}

fn failure(said: &Value) -> Failure {
    if let Some(time) = said["snooze"].as_str() {
        return Failure::snooze(resurgam_core::duration::parse(time).unwrap());
    }
    if said["prune"] == true {
        return Failure::prune();
    }
    let failure =
        Failure::of_type(said["type"].as_str().unwrap(), said["message"].as_str().unwrap());
    if said["retryable"] == false { failure.into_terminal() } else { failure }
}

async fn run(file: &str, inputs: Value, store: Value) -> Listing {
    let template = Template::parse(&std::fs::read_to_string(folder().join(file)).unwrap()).unwrap();
    assert_eq!(template.warnings(), []);
    let key = SecretsKey::from_text(&SecretsKey::generate_text()).unwrap();
    let builder = template
        .node_names()
        .fold(app(), |builder, name| builder.activity_definition(executable(name, key.clone())));
    let app: TestApp = builder.start().await;
    let start = Start {
        inputs: inputs.as_object().unwrap().clone(),
        store: store.as_object().unwrap().clone(),
        key: Some(key),
        ..Start::default()
    };
    let started = template.start(&start).unwrap();
    let instance = app.start_named::<Value>("run", "graph", &started.run).await;
    instance.outcome().await;
    listing_of(&app, "run").await
}

fn last_output(listing: &Listing) -> Value {
    Value::Object(listing.states.last().unwrap().outputs.clone().unwrap())
}

#[test]
async fn the_report_fans_out_and_unites() {
    let listing = run("report.json", json!({}), json!({"day": "2026-11-19"})).await;
    assert_eq!(
        lines(&listing),
        [
            "list RETRY_CREATED 0",
            "list SUCCESS 1",
            "split SUCCESS 0",
            "split SUCCESS 0",
            "split SUCCESS 0",
            "split SUCCESS 0",
            "price SUCCESS 0",
            "price SUCCESS 0",
            "price SUCCESS 0",
            "price PRUNED 0",
            "total SUCCESS 0",
            "report SUCCESS 0",
        ]
    );
    assert_eq!(last_output(&listing), json!({"line": "Sales of 2026-11-19: 62.90 CHF"}));
}

#[test]
async fn the_text_is_published_although_nobody_translates_it() {
    let listing = run("publish.json", json!({}), json!({})).await;
    let mut told = lines(&listing);
    told.sort();
    assert_eq!(
        told,
        [
            "check SUCCESS 0",
            "publish SUCCESS 0",
            "shorten SUCCESS 0",
            "translate ERRORED 1",
            "translate RETRY_CREATED 0"
        ]
    );
    assert_eq!(last_output(&listing), json!({"signed_in": true, "teasers": 1, "translations": 0}));

    let listing = run("publish.json", json!({"text": " "}), json!({})).await;
    assert_eq!(lines(&listing), ["check ERRORED 0"]);
}

#[test]
async fn the_export_is_waited_for_without_counting_failures() {
    let listing = run("poll.json", json!({}), json!({})).await;
    assert_eq!(lines(&listing), ["start SUCCESS 0", "wait SUCCESS 0", "notify SUCCESS 0"]);
    assert_eq!(listing.states[1].enqueue_after_ms - listing.states[1].created_at_ms, 60_000);
    let message = &listing.states[2].inputs["message"];
    assert_eq!(message, "1200 rows of export-7 are there");
}
