//! A secret is in clear nowhere but where a node runs.

use std::sync::Arc;

use resurgam::Failure;
use resurgam_graph::{NodeCall, SecretsKey, Start};
use resurgam_store_sqlite::SqliteStore;
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

#[test]
fn a_worker_without_the_right_key_says_so_and_nothing_else() {
    let right = key();
    let stored = right.encrypt("api_key", SECRET);
    let arguments = json!({"$node": {"identifier": "a", "secrets": {"api_key": stored}}});
    let call = NodeCall::of(&arguments).unwrap();
    let missing = call.secret_variables(None).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "SecretsKeyMissing: node a has secrets, and this worker has no key for them; set RESURGAM_SECRETS_KEY"
    );
    let wrong = call.secret_variables(Some(&key())).unwrap_err();
    assert!(
        wrong.is_terminal()
            && wrong.to_string().starts_with("SecretsKeyWrong: secret api_key cannot be decrypted")
    );
    assert!(call.secret_variables(Some(&right)).is_ok());
}
