//! The engine is stopped before and after every commit of a graph, and goes on from the database.
//! The end is the one without a crash.

use resurgam::Failure;
use resurgam_graph::{Listing, Start, Status};
use resurgam_testing::{Crash, TestApp};
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::common::{app, graph, lines, listing_of, node, node_with, template, uniting};

/// A fan-out with a branch that is retried, one that fails for good, one that is pruned, one that
/// snoozes; and nodes that unite on what is left.
async fn start() -> TestApp {
    app()
        .action("R", |_, attempt| match attempt {
            1 => Err(Failure::new("not yet")),
            _ => Ok((0..5).map(|i| json!({"i": i})).collect()),
        })
        .action("W", |args, attempt| match (args["i"].as_str().unwrap(), attempt) {
            ("0", 1) => Err(Failure::new("down")),
            ("1", _) => Err(Failure::new("broken")),
            ("2", _) => Err(Failure::prune()),
            ("3", 1) => Err(Failure::snooze(std::time::Duration::from_secs(5))),
            _ => Ok(json!({"i": args["i"]})),
        })
        .action("U", |args, _| Ok(args))
        .action("Z", |_, _| Ok(json!({})))
        .start()
        .await
}

fn template_under_test() -> Value {
    let mut unites = uniting("u", "s", "ALL_DONE", &["z"]);
    unites["inputs"] = json!({"all": "${{ w.outputs.i[*] }}"});
    let mut first = node("s", &["r"]);
    first["node_name"] = json!("Z");
    let nodes = [
        first,
        node("r", &["w"]),
        node_with("w", json!({"i": "${{ r.outputs.i }}"}), &["u"]),
        unites,
        node("z", &[]),
    ];
    let mut template = graph(&nodes);
    template["retry_policy"] =
        json!({"max_retries": 1, "strategy": "FIXED", "backoff_factor": 1_000});
    template
}

async fn play(app: &TestApp) -> Listing {
    let started = template(&template_under_test()).start(&Start::default()).unwrap();
    let instance = app.start_named::<Value>("run", "graph", &started.run).await;
    assert!(instance.result().await.is_err());
    listing_of(app, "run").await
}

/// What must not depend on crashes. An attempt that is lost is not counted, but it is one: a node
/// that fails at its first attempt only may then not fail at all.
fn end(listing: &Listing) -> (Vec<String>, Vec<String>) {
    assert!(listing.states.iter().all(|row| row.retry_count <= 1));
    let last = listing.states.iter().filter(|row| row.state != Status::RetryCreated);
    let mut states: Vec<String> =
        last.map(|row| format!("{} {:?}", row.identifier, row.state)).collect();
    states.sort();
    let united = listing.states.iter().filter(|row| row.identifier == "u");
    (states, united.map(|row| row.inputs["all"].clone()).collect())
}

#[test]
async fn a_graph_survives_a_crash_at_every_commit() {
    let app = start().await;
    let listing = play(&app).await;
    let mut told = lines(&listing);
    told.sort();
    let expected = [
        "r RETRY_CREATED 0",
        "r SUCCESS 1",
        "r SUCCESS 1",
        "r SUCCESS 1",
        "r SUCCESS 1",
        "r SUCCESS 1",
        "s SUCCESS 0",
        "u SUCCESS 0",
        "w ERRORED 1",
        "w PRUNED 0",
        "w RETRY_CREATED 0",
        "w RETRY_CREATED 0",
        "w SUCCESS 0",
        "w SUCCESS 0",
        "w SUCCESS 1",
        "z SUCCESS 0",
    ];
    assert_eq!(told, expected);
    let quiet = end(&listing);
    assert_eq!(quiet.1, [r#"["0","3","4"]"#]);
    let commits = app.commits();
    assert!(commits > 6, "{commits}");
    for k in 1..=commits {
        for crash in [Crash::BeforeCommit(k), Crash::AfterCommit(k)] {
            let app = start().await;
            app.faults().crash(crash);
            let crashed = end(&play(&app).await);
            assert_eq!(crashed, quiet, "{crash:?}\n{}", app.history("run").await);
        }
    }
}
