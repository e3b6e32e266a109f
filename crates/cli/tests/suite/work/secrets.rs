//! Secrets are in clear where a node runs, and nowhere else.

use resurgam_watchdog::test;
use serde_json::json;

use crate::work::support::{Place, until};

const SECRET: &str = "correct-horse-battery-staple";

fn graph(secret: &str) -> String {
    json!({
        "secrets": {"token": secret},
        "nodes": [
            {"node_name": "Use", "namespace": "d", "identifier": "use", "inputs": {"a": "b"},
             "next_nodes": ["leak"]},
            {"node_name": "Leak", "namespace": "d", "identifier": "leak", "inputs": {}},
        ],
        "retry_policy": {"max_retries": 1, "strategy": "FIXED", "backoff_factor": 1},
    })
    .to_string()
}

#[test(minutes = 15)]
fn secrets_are_nowhere_in_clear() {
    let mut place = Place::new();
    let key = place.run(&["secrets", "new-key"]).stdout.trim().to_string();
    place.write("graph.json", &graph(SECRET));
    place.action("Use", "cat; [ \"$RESURGAM_SECRET_token\" = \"$(cat secret)\" ]");
    place.write("secret", SECRET);
    // It tells its secret wherever it can but in its result.
    place.action(
        "Leak",
        "echo \"$RESURGAM_SECRET_token\" > $RESURGAM_HEARTBEAT
         echo \"trying $RESURGAM_SECRET_token\" >&2
         echo \"{\\\"type\\\":\\\"T\\\",\\\"message\\\":\\\"no $RESURGAM_SECRET_token\\\"}\" >&2; exit 1",
    );
    place.set("RESURGAM_SECRETS_KEY", &key);
    place.set("RESURGAM_LOG", "trace");
    let worker = place.begin(&["worker", "--actions", "actions"]);
    until("it works", || worker.said().contains("working on"));
    assert_eq!(place.json(&["start", "graph.json", "--id", "g"])["status"], "running");
    let watched = place.run(&["watch", "g", "--json"]);
    let form = watched.json_with(1);
    assert_eq!(form["run_status"], "FAILED");
    assert_eq!(form["states"][0]["outputs"], json!({"a": "b"}), "{form}");
    let mut told = vec![watched.stdout, watched.stderr, worker.said()];
    for args in [
        &["show", "g"][..],
        &["show", "g", "--json"],
        &["history", "g"],
        &["history", "g", "--json", "--attempts"],
        &["attempts", "g", "--json"],
        &["list", "--json"],
    ] {
        let ended = place.run(args);
        told.extend([ended.stdout, ended.stderr]);
    }
    // The same graph with another secret is another one, and the message does not tell either.
    place.write("graph.json", &graph("another-secret-altogether"));
    let refused = place.run(&["run", "graph.json", "--id", "g", "--json"]);
    assert!(refused.stdout.contains("its secrets are others: token"), "{refused:?}");
    told.extend([refused.stdout, refused.stderr]);
    for text in &told {
        for secret in [SECRET, &key, "another-secret-altogether"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
    worker.kill();
    for entry in std::fs::read_dir(place.path("")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("test.db") {
            let bytes = std::fs::read(&path).unwrap();
            for secret in [SECRET, &key] {
                let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
                assert!(!found, "{name} holds {secret}");
            }
        }
    }
    assert!(
        place.json(&["attempts", "g"])[0]["failure"]["message"] == "no [RESURGAM_SECRET_token]"
    );
}

#[test(minutes = 15)]
fn a_key_that_is_none_is_refused_without_telling_it() {
    let mut place = Place::new();
    place.write("graph.json", &graph(SECRET));
    place.action("Use", "cat");
    place.action("Leak", "cat");
    place.set("RESURGAM_SECRETS_KEY", "not-a-key-at-all");
    let refused = place.run(&["run", "graph.json"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("is not a key") && !refused.stderr.contains("not-a-key-at-all")
    );
    assert!(!place.path("test.db").exists());
}
