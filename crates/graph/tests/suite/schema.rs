//! The published JSON Schema: it is the one that the code makes, and it judges templates as the
//! code does, as far as a schema can.

use std::path::Path;

use expect_test::expect_file;
use resurgam_graph::{Template, json_schema};
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::common::{graph, node, uniting};

/// `UPDATE_EXPECT=1` rewrites the file.
#[test]
fn the_published_schema_is_the_one_that_the_code_makes() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/graph.schema.json");
    let text = serde_json::to_string_pretty(&json_schema()).unwrap() + "\n";
    expect_file![file].assert_eq(&text);
}

#[test]
fn the_schema_is_a_valid_schema_itself() {
    jsonschema::meta::validate(&json_schema()).unwrap();
}

fn changed(path: &str, value: Value) -> Value {
    let mut template = graph(&[node("a", &["b"]), uniting("b", "a", "ALL_DONE", &[])]);
    let (parent, name) = path.rsplit_once('/').unwrap();
    template.pointer_mut(parent).unwrap()[name] = value;
    template
}

#[test]
fn both_accept_what_makes_sense_and_both_refuse_what_has_the_wrong_form() {
    let schema = jsonschema::validator_for(&json_schema()).unwrap();
    for (path, accepted, refused) in [
        (
            "/secrets",
            vec![json!({}), json!({"k": "v"})],
            vec![json!(null), json!({"k": 5}), json!([])],
        ),
        ("/nodes", vec![], vec![json!([]), json!({}), json!([{}])]),
        ("/nodes/0/node_name", vec![json!("x")], vec![json!(""), json!(5)]),
        ("/nodes/0/inputs", vec![json!({"x": "y"})], vec![json!({"x": 5}), json!(null)]),
        ("/nodes/1/next_nodes", vec![json!([]), json!(null)], vec![json!("a"), json!([5])]),
        (
            "/nodes/1/unites",
            vec![json!({"identifier": "a"})],
            vec![json!({}), json!({"identifier": "a", "strategy": "SOME"})],
        ),
        (
            "/nodes/0/timeout",
            vec![json!(5), json!("1m"), json!(null)],
            vec![json!(0), json!("5"), json!([])],
        ),
        ("/nodes/0/retry_policy", vec![json!({}), json!(null)], vec![json!([])]),
        (
            "/retry_policy/max_retries",
            vec![json!(0), json!("3"), json!(3.0), json!(true), json!("0")],
            vec![json!(-1), json!(3.5), json!(null), json!("x")],
        ),
        (
            "/retry_policy/backoff_factor",
            vec![json!(1), json!("10")],
            vec![json!(0), json!("0"), json!(null)],
        ),
        ("/retry_policy/max_delay", vec![json!(1), json!(null)], vec![json!(0)]),
        (
            "/retry_policy/strategy",
            vec![json!("FIXED_FULL_JITTER")],
            vec![json!("fixed"), json!(null)],
        ),
        ("/retry_policy/cap", vec![json!("before"), json!(null)], vec![json!("x")]),
        (
            "/retry_policy/on_exhausted",
            vec![
                json!("fail"),
                json!("pause"),
                json!("dead_letter"),
                json!("compensate"),
                json!({"pause": {"for": "2h"}}),
                json!({"pause": {}}),
                json!({"fallback": {"value": [1]}}),
                json!({"fallback": {"activity": "Later"}}),
                json!(null),
            ],
            vec![
                json!("PAUSE"),
                json!({"pause": {"for": 5}}),
                json!({"pause": "2h"}),
                json!({"fallback": {}}),
                json!({"fallback": {"activity": ""}}),
                json!({"fallback": {"activity": "Later", "value": 1}}),
                json!({"pause": {}, "fallback": {"value": 1}}),
            ],
        ),
        (
            "/store_config",
            vec![json!({"required_keys": ["k"], "default_values": {"d": 5}}), json!({})],
            vec![json!([]), json!({"required_keys": 5})],
        ),
        (
            "/triggers",
            vec![
                json!([{"type": "CRON", "value": {"expression": "* * * * *", "timezone": "UTC"}}]),
            ],
            vec![json!([{"type": "X"}])],
        ),
        ("/colour", vec![json!("blue")], vec![]),
    ] {
        for value in accepted {
            let template = changed(path, value.clone());
            assert!(schema.is_valid(&template), "the schema refuses {path} {value}");
            assert!(Template::from_value(&template).is_ok(), "the code refuses {path} {value}");
        }
        for value in refused {
            let template = changed(path, value.clone());
            assert!(!schema.is_valid(&template), "the schema accepts {path} {value}");
            assert!(Template::from_value(&template).is_err(), "the code accepts {path} {value}");
        }
    }
}
