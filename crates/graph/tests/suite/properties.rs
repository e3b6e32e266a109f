//! Any JSON is a template or is refused with a reason; what is accepted can be stored and planned.

use proptest::prelude::*;
use resurgam_core::Payload;
use resurgam_graph::{GraphRun, SecretsKey, Start, Template, definition};
use resurgam_watchdog::test;
use serde_json::{Value, json};

/// Words that mean something in a template, and some that do not.
fn text() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "a",
        "b",
        "c",
        "store",
        "",
        " ",
        "A",
        "ALL_DONE",
        "CRON",
        "LINEAR",
        "0 0 * * *",
        "k",
        "30s",
        "${{ a.outputs.x }}",
        "${{ store.k }}",
        "${{ b.outputs.x[*] }}",
        "${{",
        "}}",
        "3",
        "${{.}}",
    ];
    prop_oneof![4 => proptest::sample::select(WORDS).prop_map(String::from), 1 => any::<String>()]
}

fn name() -> impl Strategy<Value = String> {
    const NAMES: &[&str] = &[
        "secrets",
        "nodes",
        "retry_policy",
        "store_config",
        "triggers",
        "node_name",
        "namespace",
        "identifier",
        "inputs",
        "next_nodes",
        "unites",
        "timeout",
        "gate",
        "strategy",
        "max_retries",
        "backoff_factor",
        "exponent",
        "max_delay",
        "cap",
        "required_keys",
        "default_values",
        "type",
        "value",
        "expression",
        "timezone",
    ];
    prop_oneof![8 => proptest::sample::select(NAMES).prop_map(String::from), 1 => text()]
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => text().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(4, 64, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map(name(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// A template with one place replaced by anything.
fn nearly_right() -> impl Strategy<Value = Value> {
    const PLACES: &[&str] = &[
        "/secrets",
        "/nodes",
        "/nodes/0",
        "/nodes/1/inputs",
        "/nodes/1/inputs/x",
        "/nodes/1/unites",
        "/nodes/0/next_nodes",
        "/nodes/2/next_nodes",
        "/nodes/1/retry_policy",
        "/retry_policy",
        "/retry_policy/max_delay",
        "/store_config",
        "/triggers",
        "/triggers/0/value",
        "/nodes/2/identifier",
        "/nodes/2/unites/identifier",
        "/nodes/0/timeout",
    ];
    (proptest::sample::select(PLACES), anything()).prop_map(|(place, value)| {
        let mut template = json!({
            "secrets": {"s": "secret"},
            "nodes": [
                {"node_name": "A", "namespace": "n", "identifier": "a", "inputs": {}, "next_nodes": ["b"], "timeout": 5},
                {"node_name": "B", "namespace": "n", "identifier": "b", "inputs": {"x": "${{ a.outputs.x }}"},
                 "next_nodes": ["c"], "unites": null, "retry_policy": {}},
                {"node_name": "C", "namespace": "n", "identifier": "c", "inputs": {"x": "${{ b.outputs.x[*] }}"},
                 "next_nodes": [], "unites": {"identifier": "a"}},
            ],
            "retry_policy": {"max_delay": 5_000},
            "store_config": {"required_keys": [], "default_values": {"k": "v"}},
            "triggers": [{"type": "CRON", "value": {"expression": "0 0 * * *"}}],
        });
        *template.pointer_mut(place).unwrap() = value;
        template
    })
}

fn judge(value: &Value) {
    let template = match Template::from_value(value) {
        Ok(template) => template,
        Err(problems) => {
            assert!(problems.iter().all(|problem| !problem.message.trim().is_empty()));
            return;
        }
    };
    let key = SecretsKey::from_text(&SecretsKey::generate_text()).unwrap();
    let mut start = Start { key: Some(key), ..Start::default() };
    for required in &template.graph().store_config.required_keys {
        start.store.insert(required.clone(), json!("value"));
    }
    let run = template.start(&start).unwrap().run;
    let stored = Payload::encode(&run).unwrap();
    assert_eq!(GraphRun::from_payload(&stored).unwrap(), run);
    let machine = resurgam_core::machine::SharedMachine::new(resurgam_core::RunKey {
        uid: resurgam_core::Uid(1),
        run: 1,
    });
    assert!(definition("graph").begin(machine, &stored).is_ok(), "what is accepted can begin");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn any_json_is_a_template_or_is_refused(value in anything()) {
        judge(&value);
    }

    #[test]
    fn a_template_with_anything_in_one_place_is_one_or_is_refused(value in nearly_right()) {
        judge(&value);
    }

    #[test]
    fn any_text_is_a_template_or_is_refused(text in any::<String>()) {
        prop_assert!(Template::parse(&text).is_err());
    }
}
