//! Secrets are in clear where a node runs, and nowhere else.

use resurgam_postgres_server::Server;
use resurgam_watchdog::test;
use serde_json::json;

use crate::work::support::{Place, Process, until};

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
    // What is encrypted says nothing to people, and is told by its name.
    let history = place.json(&["history", "g"]);
    assert_eq!(history[0]["input"]["secrets"]["token"], "<secret token>");
    assert_eq!(history[1]["input"]["$node"]["secrets"]["token"], "<secret token>");
    let text = place.run(&["history", "g"]).stdout;
    assert!(text.contains("RunStarted graph {\"inputs\":{},\"store\":{}}\n"), "{text}");
    assert!(text.contains("ActivityScheduled Use (use) {\"a\":\"b\"}\n"), "{text}");
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
fn a_secret_of_several_lines_is_told_in_none_of_its_forms() {
    let mut place = Place::new();
    let secret = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END KEY-----\n";
    place.write("graph.json", &graph(secret));
    place.action("Use", "echo '{}'");
    // Escaped by hand, without its last line break, as shell scripts do it.
    place.action(
        "Leak",
        "key=$(printf %s \"$RESURGAM_SECRET_token\" | sed -e ':a' -e 'N' -e '$!ba' -e 's/\\n/\\\\n/g')
         printf '%s' \"$RESURGAM_SECRET_token\" | base64 | head -n 1 > $RESURGAM_HEARTBEAT
         echo \"{\\\"type\\\":\\\"T\\\",\\\"message\\\":\\\"no $key\\\"}\" >&2; exit 1",
    );
    let key = place.run(&["secrets", "new-key"]).stdout.trim().to_string();
    place.set("RESURGAM_SECRETS_KEY", &key);
    let run = place.run(&["run", "graph.json", "--id", "g"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let attempts = place.run(&["attempts", "g", "--json"]);
    assert_eq!(attempts.json()[0]["failure"]["message"], "no [RESURGAM_SECRET_token]");
    let history = place.run(&["history", "g", "--json", "--attempts"]);
    let show = place.run(&["show", "g"]);
    let told = [&run.stdout, &run.stderr, &attempts.stdout, &history.stdout, &show.stdout];
    let database = std::fs::read(place.path("test.db")).unwrap();
    for line in secret.lines().chain(["LS0tLS1CRUdJTiBLRVktLS0tLQpNSUlF"]) {
        assert!(told.iter().all(|text| !text.contains(line)), "{line}: {told:?}");
        let found = database.windows(line.len()).any(|window| window == line.as_bytes());
        assert!(!found, "the database holds {line}");
    }
}

/// A graph of one node that tells how long its secret is.
fn one_secret(place: &Place) {
    let graph = json!({
        "secrets": {"token": SECRET},
        "nodes": [{"node_name": "Use", "namespace": "d", "identifier": "use", "inputs": {}}],
        "retry_policy": {"max_retries": 0},
    });
    place.write("graph.json", &graph.to_string());
    place.action("Use", "echo \"{\\\"length\\\": ${#RESURGAM_SECRET_token}}\"");
}

#[test(minutes = 15)]
fn a_graph_waits_for_a_worker_with_its_key_and_nothing_is_counted() {
    let mut place = Place::new();
    one_secret(&place);
    let new_key = |place: &Place| place.run(&["secrets", "new-key"]).stdout.trim().to_string();
    let (key, other) = (new_key(&place), new_key(&place));
    place.set("RESURGAM_SECRETS_KEY", &key);
    let fingerprint = place.json(&["secrets", "fingerprint"])["fingerprint"].clone();
    let needed = format!("secrets key {}", fingerprint.as_str().unwrap());
    assert_eq!(place.json(&["start", "graph.json", "--id", "g"])["status"], "running");
    for wrong in ["", &other] {
        place.set("RESURGAM_SECRETS_KEY", wrong);
        let worker = place.begin(&["worker", "--actions", "actions"]);
        until("it waits", || {
            let shown = place.run(&["show", "g"]).stdout;
            assert!(shown.contains("status     running"), "{shown}");
            shown.contains("waits for a worker")
        });
        let shown = place.run(&["show", "g"]).stdout;
        assert!(shown.contains(&needed) && !shown.contains(&key), "{shown}");
        let show = place.json(&["show", "g"]);
        assert_eq!(show["pending"][0]["waits_for"], "lacking", "{show}");
        assert_eq!(show["pending"][0]["lacks"], json!(needed));
        assert_eq!(
            (&show["status"], &show["pending"][0]["attempt"]),
            (&json!("running"), &json!(0))
        );
        // The mark stays when the process goes.
        worker.kill();
    }
    place.set("RESURGAM_SECRETS_KEY", &key);
    let worker = place.begin(&["worker", "--actions", "actions"]);
    let form = place.run(&["watch", "g", "--json"]).json_with(0);
    assert_eq!(form["states"][0]["outputs"], json!({"length": SECRET.len()}), "{form}");
    assert_eq!(place.json(&["attempts", "g"]), json!([]));
    drop(worker);
}

#[test(minutes = 15)]
async fn on_postgres_another_worker_that_has_the_key_takes_the_call() {
    let database = Server::shared().database().await;
    let mut place = Place::new().on(&database.tcp_url());
    one_secret(&place);
    let key = place.run(&["secrets", "new-key"]).stdout.trim().to_string();
    let works = |worker: &Process| {
        until("it works", || worker.said().contains("working on postgres://"));
    };
    let without = place.begin(&["worker", "--actions", "actions"]);
    works(&without);
    place.set("RESURGAM_SECRETS_KEY", &key);
    let ids: Vec<String> = (0..4).map(|number| format!("g-{number}")).collect();
    for id in &ids[..2] {
        place.json(&["start", "graph.json", "--id", id]);
        until("it waits", || place.run(&["show", id]).stdout.contains("waits for a worker"));
    }
    let with = place.begin(&["worker", "--actions", "actions"]);
    works(&with);
    // Some of them are in shards of the one that lacks the key.
    for id in &ids[2..] {
        place.json(&["start", "graph.json", "--id", id]);
    }
    for id in &ids {
        let form = place.run(&["watch", id, "--json"]).json_with(0);
        assert_eq!(form["states"][0]["outputs"], json!({"length": SECRET.len()}), "{form}");
        assert_eq!(place.json(&["attempts", id]), json!([]));
    }
    drop((with, without));
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
