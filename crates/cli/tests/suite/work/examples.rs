//! The examples do what their comments say, as processes.

use std::path::{Path, PathBuf};

use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::work::support::{Ended, Place};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

fn run(place: &Place, file: &str, args: &[&str]) -> Ended {
    let file = folder(file);
    place.run(&[&["run", file.to_str().unwrap(), "--json"], args].concat())
}

fn states(ended: &Value) -> Vec<String> {
    let states = ended["states"].as_array().unwrap().iter();
    let line = |state: &Value| {
        let text = |name: &str| state[name].as_str().unwrap().to_string();
        format!("{} {} {}", text("identifier"), text("state"), state["retry_count"])
    };
    states.map(line).collect()
}

#[test(minutes = 15)]
fn the_order_is_shipped_after_a_retry() {
    let place = Place::new();
    let input = r#"{"order": {"id": "order-42", "items": ["lamp", "desk"], "cents": 4200}}"#;
    let ended = run(&place, "ir/order.rap", &["--input", input, "--id", "o1"]).json_with(0);
    assert_eq!((&ended["id"], &ended["status"]), (&json!("o1"), &json!("completed")));
    let expected = json!({
        "order": "order-42", "status": "shipped", "receipt": "receipt-order-42",
        "tracking": "tracking-o1", "items": 2,
    });
    assert_eq!(ended["result"], expected);
    let attempts = place.json(&["attempts", "o1"]);
    assert_eq!(attempts[0]["failure"]["type"], "RateLimited");
    assert_eq!(attempts.as_array().unwrap().len(), 1);
}

#[test(minutes = 15)]
fn a_declined_card_gives_everything_back() {
    let place = Place::new();
    let input = r#"{"order": {"id": "order-1", "items": ["lamp"], "cents": 0}}"#;
    let ended = run(&place, "ir/order.rap", &["--input", input]).json_with(0);
    let expected = json!({"order": "order-1", "status": "declined", "reason": "nothing to charge"});
    assert_eq!(ended["result"], expected);
}

#[test(minutes = 15)]
fn the_report_makes_do_with_what_can_be_had() {
    let place = Place::new();
    let monday = run(&place, "ir/report.rap", &["--input", r#"{"day": "monday"}"#]).json_with(0);
    assert_eq!(monday["result"], json!({"day": "monday", "per_visit": 15.0, "good": true}));
    let tuesday = run(&place, "ir/report.rap", &["--input", r#"{"day": "tuesday"}"#]).json_with(0);
    assert_eq!(tuesday["result"], json!({"day": "tuesday", "per_visit": null}));
}

#[test(minutes = 15)]
fn the_job_is_waited_for() {
    let mut place = Place::new();
    // The action counts its questions there.
    place.set("TMPDIR", place.path("").to_str().unwrap());
    let ended = run(&place, "ir/poll.rap", &["--input", r#"{"job": "nightly"}"#]).json_with(0);
    assert_eq!(ended["result"], json!({"job": "nightly", "waited": 3, "rows": 1234}));
}

#[test(minutes = 15)]
fn a_graph_that_lacks_a_value_of_its_store_says_how_to_give_it() {
    let refused = run(&Place::new(), "graph/report.json", &[]).json_with(2);
    let error = &refused["errors"][0];
    assert_eq!(error["message"], "store: Missing store keys: {'day'}");
    assert_eq!(error["hint"], "give them with --store and a JSON object");
}

#[test(minutes = 15)]
fn the_graph_of_sales_fans_out_and_unites() {
    let place = Place::new();
    let store = r#"{"day": "2026-11-19"}"#;
    let ended = run(&place, "graph/report.json", &["--store", store, "--id", "g1"]).json_with(0);
    assert_eq!(
        (&ended["id"], &ended["status"], &ended["run_status"]),
        (&json!("g1"), &json!("completed"), &json!("SUCCESS"))
    );
    let mut told = states(&ended);
    assert_eq!(told[..2], ["list RETRY_CREATED 0", "list SUCCESS 1"]);
    told.sort();
    told.dedup();
    assert_eq!(
        told,
        [
            "list RETRY_CREATED 0",
            "list SUCCESS 1",
            "price PRUNED 0",
            "price SUCCESS 0",
            "report SUCCESS 0",
            "split SUCCESS 0",
            "total SUCCESS 0",
        ]
    );
    let last = &ended["states"].as_array().unwrap().last().unwrap()["outputs"];
    assert_eq!(*last, json!({"line": "Sales of 2026-11-19: 62.90 CHF"}));
    assert_eq!(place.json(&["list"])[0]["workflow"], "report");
}

#[test(minutes = 15)]
fn the_text_is_published_with_a_secret() {
    let mut place = Place::new();
    let refused = run(&place, "graph/publish.json", &[]).json_with(2);
    let message = refused["errors"][0]["message"].as_str().unwrap();
    assert!(message.contains("resurgam secrets new-key"), "{message}");
    let key = place.run(&["secrets", "new-key"]).stdout;
    place.set("RESURGAM_SECRETS_KEY", key.trim());
    let ended = run(&place, "graph/publish.json", &[]);
    // The example's translator is never there for one language.
    let told = states(&ended.json());
    assert!(told.contains(&"publish SUCCESS 0".to_string()), "{told:?}");
}

#[test(minutes = 15)]
fn the_export_is_asked_for_again_and_again() {
    let place = Place::new();
    for name in ["StartExport", "ExportIsDone", "Notify"] {
        let script = std::fs::read_to_string(folder("graph/actions").join(name)).unwrap();
        // The same action, which asks to be run again a little earlier.
        place.action(name, &script.replace("30s", "300ms"));
    }
    let actions = place.path("actions");
    let args = ["--actions", actions.to_str().unwrap()];
    let ended = run(&place, "graph/poll.json", &args).json_with(0);
    assert_eq!(ended["run_status"], "SUCCESS");
    assert!(states(&ended).iter().all(|state| state.ends_with(" SUCCESS 0")), "{ended}");
}
