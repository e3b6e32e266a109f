//! The published JSON Schema: it is the one that the code builds, and it judges policies as the
//! code does, as far as a schema can.

use std::path::Path;

use expect_test::expect_file;
use resurgam_core::retry::{RetryPolicy, json_schema, preset};
use resurgam_watchdog::test;
use serde_json::{Value, json};

const VECTORS: &str = include_str!("../vectors/retry_vectors.json");

/// `UPDATE_EXPECT=1` rewrites the file.
#[test]
fn the_published_schema_is_the_one_that_the_code_builds() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/retry-policy.schema.json");
    let text = serde_json::to_string_pretty(&json_schema()).unwrap() + "\n";
    expect_file![file].assert_eq(&text);
}

fn accepts(value: &Value) -> bool {
    jsonschema::validator_for(&json_schema()).unwrap().is_valid(value)
}

#[test]
fn the_schema_is_a_valid_schema_itself() {
    jsonschema::meta::validate(&json_schema()).unwrap();
}

#[test]
fn the_configurations_of_the_vectors_are_judged_as_the_code_judges_them() {
    let file: Value = serde_json::from_str(VECTORS).unwrap();
    let rows = file["vectors"].as_array().unwrap();
    let ours = rows.iter().filter(|row| row["dialect"] == "canonical");
    let (invalid, valid): (Vec<_>, Vec<_>) = ours.partition(|row| row["kind"] == "invalid");
    assert_eq!((valid.len(), invalid.len()), (68, 5));
    for row in valid {
        assert!(accepts(&row["config"]), "{row}");
    }
    for row in invalid {
        assert!(!accepts(&row["config"]), "{row}");
    }
}

#[test]
fn the_short_forms_and_every_preset_are_accepted() {
    for value in [json!(false), json!(true), json!(1), json!(u32::MAX), json!({})] {
        assert!(accepts(&value), "{value}");
    }
    for (name, policy) in preset::ALL {
        assert!(accepts(&json!(name)), "{name}");
        assert!(accepts(&serde_json::to_value(policy).unwrap()), "{name}");
    }
}

#[test]
fn what_both_refuse() {
    for value in [
        json!(null),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(4294967296_u64),
        json!([]),
        json!("unheard.of"),
        json!({"max_attempts": null}),
        json!({"max_delay": 5}),
        json!({"max_delay": "5"}),
        json!({"max_delay": "s"}),
        json!({"max_delay": "."}),
        json!({"max_delay": ".s"}),
        json!({"max_delay": "1 s"}),
        json!({"max_delay": "-1s"}),
        json!({"max_delay": "1.2.3s"}),
        json!({"max_delay": "1sec"}),
        json!({"max_delay": ""}),
        json!({"max_elapsed": "unlimited"}),
        json!({"jitter": "some"}),
        json!({"jitter": {"proportional": 1.01}}),
        json!({"jitter": {"lo": 0}}),
        json!({"jitter": {"lo": 0, "hi": 11}}),
        json!({"jitter": {"lo": 0, "hi": 1, "proportional": 1}}),
        json!({"backoff": {"type": "exponential"}}),
        json!({"backoff": {"type": "exponential", "initial": "1s", "multiplier": 0}}),
        json!({"backoff": {"type": "none", "delay": "1s"}}),
        json!({"backoff": {"type": "schedule", "delays": []}}),
        json!({"backoff": {"type": "phases", "phases": [[0, {"type": "none"}]]}}),
        json!({"backoff": {"type": "phases", "phases": [[1, {"type": "none"}, 2]]}}),
        json!({"backoff": {"type": "polynomial", "scale": "1s", "power": -1}}),
        json!({"rules": [{"then": "again"}]}),
        json!({"rules": [{"on": {"kinds": ["Timeout"]}}]}),
        json!({"rules": [{"max_delay": "unlimited"}]}),
        json!({"on_exhausted": {"fallback": {"activity": "a", "value": 1}}}),
        json!({"on_exhausted": {"fallback": {}}}),
        json!({"lost_worker": {"max": -1}}),
        json!({"server_delay": {"jitter": 10.5}}),
    ] {
        assert!(!accepts(&value), "the schema accepts {value}");
        assert!(RetryPolicy::from_value(&value).is_err(), "the code accepts {value}");
    }
}

#[test]
fn what_only_the_code_refuses() {
    for value in [
        json!({"max_delay": "0s"}),
        json!({"max_delay": "40000d"}),
        json!({"jitter": {"lo": 2, "hi": 1}}),
        json!({"jitter": "decorrelated", "backoff": {"type": "none"}}),
        json!({"rules": [{}, {"on": {"codes": ["1"]}}]}),
        json!({"rules": [{"on": {"message": "("}}]}),
        json!({"timeouts": {"attempt": "1s", "heartbeat": "2s"}}),
        json!({"timeouts": {"attempt": "2s"}, "max_elapsed": "1s"}),
        json!({"idempotency": "at_most_once"}),
    ] {
        assert!(accepts(&value), "{value}");
        assert!(RetryPolicy::from_value(&value).is_err(), "{value}");
    }
}
