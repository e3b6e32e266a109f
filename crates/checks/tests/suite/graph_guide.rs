//! The guide `docs/graph.md` says what the code does: its tables are made by the code, and its
//! JSON is read by it. `UPDATE_EXPECT=1` rewrites the tables.

use std::time::Duration;

use resurgam_core::retry::{Decision, State, decide};
use resurgam_core::{Failure, Timestamp};
use resurgam_graph::Template;
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::guide::Guide;

fn guide() -> Guide {
    Guide::named("graph.md")
}

#[test]
fn the_tables_of_the_guide_are_made_by_the_code() {
    guide().check_tables(|name| match name {
        "strategies" => strategies(),
        _ => panic!("no table {name}"),
    });
}

/// A template with one node and these fields.
fn template(fields: &Value) -> Template {
    let mut template = json!({"secrets": {}, "nodes": [
        {"node_name": "A", "namespace": "n", "identifier": "a", "inputs": {}, "next_nodes": []},
    ]});
    template.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    Template::from_value(&template).unwrap()
}

fn strategies() -> String {
    let mut table =
        "| strategy | retry 1 | 2 | 3 | 4 | 5 |\n|---|---|---|---|---|---|\n".to_string();
    for growth in ["EXPONENTIAL", "LINEAR", "FIXED"] {
        for jitter in ["", "_FULL_JITTER", "_EQUAL_JITTER"] {
            let strategy = format!("{growth}{jitter}");
            let cells: Vec<String> = (1..=5).map(|retry| delay(&strategy, retry)).collect();
            table += &format!("| `{strategy}` | {} |\n", cells.join(" | "));
        }
    }
    table
}

/// The delay before a retry: one number, or the two ends of what it is drawn from.
fn delay(strategy: &str, retry: u32) -> String {
    let policy = json!({"retry_policy": {
        "max_retries": 9, "strategy": strategy, "backoff_factor": 1_000, "max_delay": 10_000,
    }});
    let policy = template(&policy).graph().retry_policy.resolve().unwrap().check().unwrap();
    let draw = |u: f64| {
        let state = State::after(retry, Timestamp::EPOCH);
        match decide(&policy, &state, &Failure::new("x"), Timestamp::EPOCH, u) {
            Decision::Retry { delay, .. } => delay,
            Decision::Stop { why } => panic!("{why}"),
        }
    };
    let (least, most): (Duration, Duration) = (draw(0.0), draw(1.0 - f64::EPSILON / 2.0));
    match least == most {
        true => least.as_millis().to_string(),
        false => format!("{} to {}", least.as_millis(), most.as_millis()),
    }
}

#[test]
fn every_example_of_the_guide_is_accepted_by_the_code() {
    let text = guide().text();
    let examples: Vec<&str> =
        text.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    for example in &examples {
        let value: Value = serde_json::from_str(example).unwrap();
        let template = match &value {
            Value::Array(_) => template(&json!({"triggers": value})),
            value if value.get("nodes").is_some() => Template::from_value(value).unwrap(),
            value if value.get("max_retries").is_some() => {
                let template = template(&json!({"retry_policy": value}));
                assert_eq!(template.graph().retry_policy, Default::default(), "the defaults");
                template
            }
            value => template(&json!({"store_config": value})),
        };
        assert_eq!(template.warnings(), [], "{example}");
    }
    assert_eq!(examples.len(), 5);
}
