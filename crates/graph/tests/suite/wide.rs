//! Fan-outs as wide as a run can have them.

use resurgam_graph::{RunStatus, Start};
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::common::{app, count, graph, listing_of, node, node_with, template, uniting};

#[test]
async fn ten_thousand_branches_run_and_unite_once() {
    let app = app()
        .action("R", |_, _| Ok(json!({})))
        .action("F", |_, _| Ok((0..10_000).map(|i| json!({"i": i})).collect()))
        .action("W", |args, _| Ok(json!({"i": args["i"]})))
        .action("U", |args, _| {
            let all: Vec<String> = serde_json::from_str(args["all"].as_str().unwrap()).unwrap();
            assert!(all.iter().enumerate().all(|(place, i)| *i == place.to_string()));
            Ok(json!({"count": all.len()}))
        })
        .start()
        .await;
    let mut unites = uniting("u", "r", "ALL_SUCCESS", &[]);
    unites["inputs"] = json!({"all": "${{ w.outputs.i[*] }}"});
    let nodes = [
        node("r", &["f"]),
        node("f", &["w"]),
        node_with("w", json!({"i": "${{ f.outputs.i }}"}), &["u"]),
        unites,
    ];
    let started = template(&graph(&nodes)).start(&Start::default()).unwrap();
    let instance = app.start_named::<Value>("run", "graph", &started.run).await;
    let told = instance.result().await.unwrap();
    assert_eq!(told["run_status"], "SUCCESS");
    let told_states = told["states"].as_array().unwrap().len() as u64;
    assert_eq!(told_states + told["states_left_out"].as_u64().unwrap(), 20_002);
    let listing = listing_of(&app, "run").await;
    assert_eq!(listing.run_status, RunStatus::Success);
    assert_eq!(
        (count(&listing, "f"), count(&listing, "w"), count(&listing, "u")),
        (10_000, 10_000, 1)
    );
    assert_eq!(listing.states.last().unwrap().outputs.clone().unwrap()["count"], 10_000);
}

#[test]
async fn more_states_than_a_run_can_have_fail_the_one_that_asks_for_them() {
    let app = app().action("A", |_, _| Ok(Value::from(vec![json!({}); 100_000]))).start().await;
    let listing = crate::common::run(&app, &graph(&[node("a", &[])])).await;
    assert_eq!(crate::common::lines(&listing), ["a NEXT_CREATED_ERROR 0"]);
    let error = listing.states[0].error.as_deref();
    assert_eq!(error, Some("100000 outputs are more states than a run can have"));
}
