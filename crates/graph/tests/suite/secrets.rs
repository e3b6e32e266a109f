//! A secret is in clear nowhere but where a node runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use resurgam::{ActivityDefinition, Failure, Payload, Status, WaitsFor};
use resurgam_graph::{NodeCall, SecretsKey, Start};
use resurgam_store_sqlite::SqliteStore;
use resurgam_testing::TestBuilder;
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::common::{app, graph, node, template};

const SECRET: &str = "hunter2-correct-horse-battery-staple";

fn key() -> SecretsKey {
    SecretsKey::from_text(&SecretsKey::generate_text()).unwrap()
}

/// Every file of a folder, as one heap of bytes.
fn heap(folder: &std::path::Path) -> Vec<u8> {
    let files = std::fs::read_dir(folder).unwrap();
    files.flat_map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
}

fn contains(heap: &[u8], needle: &str) -> bool {
    heap.windows(needle.len()).any(|window| window == needle.as_bytes())
}

#[test]
async fn the_database_holds_no_secret_and_the_node_gets_it() {
    let key = key();
    let nodes_key = key.clone();
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("graph.db"), Default::default()).unwrap();
    let app = app()
        .action("A", move |args, attempt| {
            let call = NodeCall::of(&args).unwrap();
            assert_eq!(call.secret_names().collect::<Vec<_>>(), ["api_key"]);
            assert_eq!(call.inputs, json!({}));
            let variables = call.secret_variables(Some(&nodes_key))?;
            assert_eq!(
                (variables[0].0.as_str(), variables[0].1.as_str()),
                ("RESURGAM_SECRET_api_key", SECRET)
            );
            if attempt == 1 { Err(Failure::new("down")) } else { Ok(json!({"found": true})) }
        })
        .start_on(Arc::new(store));
    let mut with_secret = graph(&[node("a", &[])]);
    with_secret["secrets"] = json!({"api_key": SECRET});
    with_secret["retry_policy"] = json!({"max_retries": 1});
    let template = template(&with_secret);
    assert!(!format!("{template:?}").contains(SECRET));
    let started = template.start(&Start { key: Some(key), ..Start::default() }).unwrap();
    assert!(
        !format!("{started:?} {}", serde_json::to_string(&started.run).unwrap()).contains(SECRET)
    );
    let instance = app.start_named::<Value>("run", "graph", &started.run).await;
    let told = instance.result().await.unwrap();
    assert_eq!(told["states"][0]["outputs"], json!({"found": true}));
    let heap = heap(folder.path());
    assert!(contains(&heap, "api_key"), "the name is there");
    assert!(!contains(&heap, SECRET), "the secret is not");
    assert!(!app.history("run").await.contains(SECRET));
}

/// The arguments of a call of a node with a secret, as a run under this key makes them.
fn arguments(key: &SecretsKey) -> Value {
    let secrets = json!({"api_key": key.encrypt("api_key", SECRET)});
    json!({"$node": {"identifier": "a", "secrets": secrets, "key": key.fingerprint()}})
}

#[test]
fn a_worker_without_the_right_key_asks_for_it_by_its_fingerprint_and_fails_nothing() {
    let (right, other) = (key(), key());
    let needed = format!("secrets key {}", right.fingerprint());
    let call = NodeCall::of(&arguments(&right)).unwrap();
    for (key, type_name, why) in [
        (None, "SecretsKeyMissing", "this worker has no key for them"),
        (Some(&other), "SecretsKeyWrong", "this worker has another key"),
    ] {
        assert_eq!(call.lacks(key).as_ref(), Some(&needed));
        let later = call.secret_variables(key).unwrap_err();
        assert!(later.snooze.is_some(), "{later}");
        assert_eq!(
            later.to_string(),
            format!(
                "{type_name}: node a has secrets, and {why}; set RESURGAM_SECRETS_KEY to {needed}"
            )
        );
    }
    assert_eq!(call.lacks(Some(&right)), None);
    assert!(call.secret_variables(Some(&right)).is_ok());
}

#[test]
fn a_run_from_before_fingerprints_waits_for_its_key_as_well() {
    let (right, other) = (key(), key());
    let mut arguments = arguments(&right);
    arguments["$node"].as_object_mut().unwrap().remove("key");
    let call = NodeCall::of(&arguments).unwrap();
    assert!(call.secret_variables(Some(&other)).unwrap_err().snooze.is_some());
    assert!(call.secret_variables(None).unwrap_err().snooze.is_some());
    assert!(call.secret_variables(Some(&right)).is_ok());
}

#[test]
fn a_secret_that_the_right_key_cannot_read_fails_for_good() {
    let right = key();
    let mut arguments = arguments(&right);
    arguments["$node"]["secrets"]["api_key"] = json!(key().encrypt("api_key", SECRET));
    let failure = NodeCall::of(&arguments).unwrap().secret_variables(Some(&right)).unwrap_err();
    assert!(failure.is_terminal(), "{failure}");
    assert_eq!(failure.type_name.as_deref(), Some("SecretUnreadable"));
}

/// A worker that has this key.
fn worker(key: Option<&SecretsKey>, ran: &Arc<AtomicU32>) -> TestBuilder {
    let (key, ran) = (key.cloned(), ran.clone());
    let provides = key.iter().map(|key| SecretsKey::need(&key.fingerprint())).collect();
    let asked = key.clone();
    let node = ActivityDefinition::new("A", move |_, input: Payload| {
        ran.fetch_add(1, Ordering::SeqCst);
        let call = NodeCall::of(&input.decode().unwrap()).unwrap();
        let told = call.secret_variables(key.as_ref());
        let told = told.map(|variables| json!({"length": variables[0].1.len()}));
        Box::pin(async move { Ok(Payload::encode(&told?)?) })
    })
    .lacking(move |input| NodeCall::of(&input.decode().ok()?)?.lacks(asked.as_ref()));
    app().activity_definition(node).options(|options| options.provides = provides)
}

#[test]
async fn a_run_waits_for_its_key_and_goes_on_when_the_worker_is_started_with_it() {
    let (right, other, ran) = (key(), key(), Arc::default());
    let needed = SecretsKey::need(&right.fingerprint());
    let app = worker(None, &ran).start().await;
    let mut with_secret = graph(&[node("a", &[])]);
    with_secret["secrets"] = json!({"api_key": SECRET});
    let start = Start { key: Some(right.clone()), ..Start::default() };
    let started = template(&with_secret).start(&start).unwrap();
    let run = app.start_named::<Value>("run", "graph", &started.run).await;
    for has in [None, Some(&other)] {
        app.restart_with(worker(has, &ran)).await;
        app.advance(Duration::from_secs(3_600)).await;
        let found = app.describe("run").await;
        assert_eq!(found.instance.status, Status::Running, "{:?}", found.instance.outcome);
        let pending = &found.pending[0];
        assert_eq!((pending.waits_for, pending.attempt), (Some(WaitsFor::Lacking), 0));
        assert_eq!(pending.lacks.as_ref(), Some(&needed));
    }
    app.restart_with(worker(Some(&right), &ran)).await;
    let told = run.result().await.unwrap();
    assert_eq!(told["states"][0]["outputs"], json!({"length": SECRET.len()}));
    // Nothing was tried before, and nothing counted.
    assert_eq!((ran.load(Ordering::SeqCst), app.ledger("run").await.len()), (1, 0));
}

#[test]
async fn a_run_that_began_with_its_key_waits_when_the_worker_comes_back_without_it() {
    let (right, ran) = (key(), Arc::default());
    let app = worker(Some(&right), &ran).start().await;
    let mut with_secret = graph(&[node("a", &[])]);
    with_secret["secrets"] = json!({"api_key": SECRET});
    let delay = Duration::from_secs(60);
    let start = Start { key: Some(right.clone()), delay, ..Start::default() };
    let started = template(&with_secret).start(&start).unwrap();
    let run = app.start_named::<Value>("run", "graph", &started.run).await;
    app.restart_with(worker(None, &ran)).await;
    app.advance(2 * delay).await;
    assert_eq!(app.describe("run").await.pending[0].waits_for, Some(WaitsFor::Lacking));
    app.restart_with(worker(Some(&right), &ran)).await;
    assert!(run.result().await.is_ok());
    assert_eq!((ran.load(Ordering::SeqCst), app.ledger("run").await.len()), (1, 0));
}

#[test]
async fn a_run_that_waits_for_a_key_can_be_cancelled() {
    let (right, ran) = (key(), Arc::default());
    let app = worker(None, &ran).start().await;
    let mut with_secret = graph(&[node("a", &[])]);
    with_secret["secrets"] = json!({"api_key": SECRET});
    let start = Start { key: Some(right), ..Start::default() };
    let started = template(&with_secret).start(&start).unwrap();
    let run = app.start_named::<Value>("run", "graph", &started.run).await;
    app.client().cancel("run", "nobody has the key").await.unwrap();
    assert!(run.failure().await.message.contains("nobody has the key"));
}
