//! Every message about a template that makes no sense, with the way to what is wrong.

use std::time::Duration;

use resurgam_graph::{SecretsKey, Start, Template};
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::common::{graph, node, node_with, refused, template, uniting};

/// A template that is right, to be made wrong.
fn right() -> Value {
    graph(&[node("a", &["b"]), node("b", &[])])
}

fn with(path: &str, value: Value) -> Value {
    let mut template = right();
    *template.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
    template
}

fn added(object: &str, name: &str, value: Value) -> Value {
    let mut template = right();
    template.pointer_mut(object).unwrap()[name] = value;
    template
}

fn without(object: &str, name: &str) -> Value {
    let mut template = right();
    template.pointer_mut(object).unwrap().as_object_mut().unwrap().remove(name);
    template
}

#[track_caller]
fn says(template: Value, expected: &[&str]) {
    assert_eq!(refused(&template), expected, "{template}");
}

#[test]
fn what_is_missing_or_of_another_type() {
    says(json!([]), &[": Input should be a valid dictionary"]);
    says(without("", "secrets"), &["secrets: Field required"]);
    says(without("", "nodes"), &["nodes: Field required"]);
    says(with("/nodes", json!({})), &["nodes: Input should be a valid list"]);
    says(with("/secrets", json!(null)), &["secrets: Input should be a valid dictionary"]);
    says(without("/nodes/1", "node_name"), &["nodes[1].node_name: Field required"]);
    says(without("/nodes/1", "namespace"), &["nodes[1].namespace: Field required"]);
    says(without("/nodes/1", "inputs"), &["nodes[1].inputs: Field required"]);
    says(
        with("/nodes/1/inputs", json!([])),
        &["nodes[1].inputs: Input should be a valid dictionary"],
    );
    says(
        with("/nodes/1/namespace", json!(5)),
        &["nodes[1].namespace: Input should be a valid string"],
    );
    says(
        with("/nodes/0/next_nodes", json!("b")),
        &[
            "nodes[0].next_nodes: Input should be a valid list",
            "nodes: There should be exactly one root node in the graph but found 2 nodes with zero \
         in-degree: [a, b]",
        ],
    );
    let text = Template::parse("{\"nodes\": [").unwrap_err().to_string();
    assert!(text.starts_with("this is not JSON: EOF while parsing a list at line 1"), "{text}");
}

#[test]
fn empty_and_reserved_names() {
    says(
        with("/nodes/1/node_name", json!(" ")),
        &["nodes[1].node_name: Node name cannot be empty"],
    );
    says(
        with("/nodes/0/identifier", json!("\t")),
        &["nodes[0].identifier: Node identifier cannot be empty"],
    );
    says(
        graph(&[node("store", &[])]),
        &["nodes[0].identifier: Node identifier cannot be reserved word 'store'"],
    );
    says(
        with("/nodes/1/inputs", json!({"$node": "x"})),
        &["nodes[1].inputs.$node: Input name '$node' is reserved"],
    );
    // Space around names is nobody's intention.
    let template = template(&graph(&[node(" a ", &[" b"]), node("b ", &[])]));
    assert_eq!(template.graph().nodes[0].next_nodes, ["b"]);
    assert_eq!(template.node_names().collect::<Vec<_>>(), ["A", "B"]);
}

#[test]
fn secrets_have_names_and_values_which_no_message_repeats() {
    says(with("/secrets", json!({"": "v"})), &["secrets.: Secrets cannot be empty"]);
    says(with("/secrets", json!({"k": ""})), &["secrets.k: Secrets cannot be empty"]);
    says(with("/secrets", json!({"k": 12345})), &["secrets.k: Input should be a valid string"]);
    says(
        with("/secrets", json!({"a=b": "v"})),
        &["secrets.a=b: Secret cannot be handed over in an environment variable"],
    );
    assert!(Template::from_value(&with("/secrets", json!({}))).is_ok());
}

#[test]
fn inputs_are_texts() {
    says(with("/nodes/0/inputs", json!({"x": 5})), &["nodes[0].inputs.x: Input 5 is not a string"]);
    says(
        with("/nodes/0/inputs", json!({"x": null})),
        &["nodes[0].inputs.x: Input null is not a string"],
    );
}

#[test]
fn next_nodes_exist_and_are_named_once() {
    says(
        with("/nodes/0/next_nodes", json!(["b", "b"])),
        &["nodes[0].next_nodes[1]: Next node identifier b is not unique"],
    );
    says(
        with("/nodes/0/next_nodes", json!(["b", " "])),
        &["nodes[0].next_nodes[1]: Next node identifier cannot be empty"],
    );
    says(
        with("/nodes/0/next_nodes", json!(["b", "zz"])),
        &["nodes[0].next_nodes[1]: Node identifier zz does not exist in the graph"],
    );
    assert!(Template::from_value(&with("/nodes/1/next_nodes", json!(null))).is_ok());
    assert!(Template::from_value(&without("/nodes/1", "next_nodes")).is_ok());
}

#[test]
fn identifiers_are_unique() {
    says(
        graph(&[node("a", &["b"]), node("b", &[]), node("b", &[])]),
        &[
            "nodes[2].identifier: Node identifier b is not unique",
            "nodes: There should be exactly one root node in the graph but found 2 nodes with zero \
         in-degree: [a, b]",
        ],
    );
}

#[test]
fn there_is_exactly_one_root() {
    let message = "nodes: There should be exactly one root node in the graph but found";
    says(graph(&[]), &[&format!("{message} 0 nodes with zero in-degree: []")]);
    says(
        graph(&[node("a", &[]), node("b", &[])]),
        &[&format!("{message} 2 nodes with zero in-degree: [a, b]")],
    );
}

#[test]
fn there_are_no_cycles_and_everything_is_connected() {
    says(
        graph(&[node("a", &["b"]), node("b", &["c"]), node("c", &["b", "d"]), node("d", &[])]),
        &[
            "nodes[1]: Node b is not acyclic: b -> c -> b",
            "nodes[2]: Node c is not acyclic: c -> b -> c",
        ],
    );
    says(
        graph(&[node("a", &[]), node("b", &["c"]), node("c", &["b"])]),
        &[
            "nodes[1]: Node b is not acyclic: b -> c -> b",
            "nodes[2]: Node c is not acyclic: c -> b -> c",
            "nodes[1]: Node b is not connected to the root node",
            "nodes[2]: Node c is not connected to the root node",
        ],
    );
    // A node that unites comes after its target.
    says(
        graph(&[node("a", &["u"]), uniting("u", "d", "ALL_DONE", &["d"]), node("d", &[])]),
        &[
            "nodes[1]: Node u is not acyclic: u -> d -> u",
            "nodes[2]: Node d is not acyclic: d -> u -> d",
        ],
    );
}

#[test]
fn a_cycle_is_named_as_a_way_back_also_when_it_is_long_or_one_of_several() {
    // b leads from one cycle to another and is on none.
    says(
        graph(&[
            node("r", &["a"]),
            node("a", &["a", "b"]),
            node("b", &["c"]),
            node("c", &["d"]),
            node("d", &["e"]),
            node("e", &["c"]),
        ]),
        &[
            "nodes[1]: Node a is not acyclic: a -> a",
            "nodes[2]: Node b is not acyclic",
            "nodes[3]: Node c is not acyclic: c -> d -> e -> c",
            "nodes[4]: Node d is not acyclic: d -> e -> c -> d",
            "nodes[5]: Node e is not acyclic: e -> c -> d -> e",
        ],
    );
    let mut nodes = vec![node("root", &["n0"])];
    nodes.extend((0..50).map(|i| node(&format!("n{i}"), &[&format!("n{}", (i + 1) % 50)])));
    let told = refused(&graph(&nodes));
    let names: Vec<String> = (0..20).map(|i| format!("n{i}")).collect();
    let way = format!("nodes[1]: Node n0 is not acyclic: {} -> ..", names.join(" -> "));
    assert_eq!((told.len(), &told[0]), (50, &way));
}

#[test]
fn unites_targets_exist_and_are_other_nodes() {
    let unites = |value: Value| added("/nodes/1", "unites", value);
    says(
        unites(json!({"identifier": " "})),
        &["nodes[1].unites.identifier: Unites identifier cannot be empty"],
    );
    says(unites(json!({})), &["nodes[1].unites.identifier: Field required"]);
    says(
        unites(json!({"identifier": "q"})),
        &["nodes[1].unites.identifier: Node b has an unites target q that does not exist"],
    );
    says(
        unites(json!({"identifier": "b"})),
        &[
            "nodes[1].unites.identifier: Node b has an unites target b that is the same as the node itself",
        ],
    );
    says(
        unites(json!({"identifier": "a", "strategy": "all_done"})),
        &["nodes[1].unites.strategy: Input should be 'ALL_SUCCESS' or 'ALL_DONE'"],
    );
    for fine in [
        json!(null),
        json!({"identifier": "a"}),
        json!({"identifier": "a", "strategy": "ALL_DONE"}),
    ] {
        assert!(Template::from_value(&unites(fine)).is_ok());
    }
    // The target is an edge like any other.
    assert!(
        Template::from_value(&graph(&[node("a", &[]), uniting("u", "a", "ALL_DONE", &[])])).is_ok()
    );
}

#[test]
fn references_are_well_formed_and_lead_to_what_is_before() {
    let input = |text: &str| with("/nodes/1/inputs", json!({"x": text}));
    says(
        input("${{a.x}}"),
        &["nodes[1].inputs.x: Error creating dependent string for input ${{a.x}} check \
        syntax string: Invalid syntax string placeholder a.x for: ${{a.x}}"],
    );
    says(
        input("${{ a.outputs.x"),
        &["nodes[1].inputs.x: Error creating dependent string for input ${{ a.outputs.x \
        check syntax string: Invalid syntax string placeholder a.outputs.x for: ${{ a.outputs.x '${' not closed"],
    );
    says(
        input("${{ c.outputs.x }}"),
        &["nodes[1].inputs.x: Input ${{ c.outputs.x }} depends on c but c is not a parent of b"],
    );
    says(
        input("${{ b.outputs.x }}"),
        &["nodes[1].inputs.x: Input ${{ b.outputs.x }} depends on b but b is not a parent of b"],
    );
    says(
        input("${{ store.k }}"),
        &[
            "nodes[1].inputs.x: Input ${{ store.k }} depends on k but k is not a required key or a default value",
        ],
    );
    says(
        input("${{ a.outputs.x[*] }}"),
        &[
            "nodes[1].inputs.x: Input ${{ a.outputs.x[*] }} collects all of a but b does not unite anything",
        ],
    );
    assert!(Template::from_value(&input("${{ a.outputs.x }}")).is_ok());
}

#[test]
fn a_uniting_node_refers_to_its_target_and_not_to_the_branches() {
    let graph_with = |input: &str| {
        let mut unites = uniting("u", "t", "ALL_SUCCESS", &["z"]);
        unites["inputs"] = json!({"x": input});
        graph(&[
            node("r", &["t"]),
            node("t", &["b"]),
            node("b", &["u"]),
            unites,
            node_with("z", json!({"y": "${{ u.outputs.x }} ${{ t.outputs.x }}"}), &[]),
        ])
    };
    for fine in ["${{ t.outputs.x }}", "${{ r.outputs.x }}", "${{ b.outputs.x[*] }}"] {
        assert!(Template::from_value(&graph_with(fine)).is_ok(), "{fine}");
    }
    says(
        graph_with("${{ b.outputs.x }}"),
        &["nodes[3].inputs.x: Input ${{ b.outputs.x }} depends on b but b is not a parent of u"],
    );
    for above in ["r", "t", "u", "z"] {
        let input = format!("${{{{ {above}.outputs.x[*] }}}}");
        says(
            graph_with(&input),
            &[&format!(
                "nodes[3].inputs.x: Input {input} collects all of {above} \
            but {above} is not below t, on which u unites"
            )],
        );
    }
}

#[test]
fn policies_are_those_of_the_dialect_with_whole_numbers_read_generously() {
    let policy = |value: Value| with("/retry_policy", value);
    says(
        policy(json!({"max_retries": -1})),
        &["retry_policy.max_retries: max_retries: -1 is not a number of retries; use 0 or more"],
    );
    says(
        policy(json!({"strategy": "exponential"})),
        &[
            "retry_policy.strategy: strategy: \"exponential\" is unknown; did you mean \"EXPONENTIAL\"?",
        ],
    );
    says(
        policy(json!({"exponent": 0})),
        &["retry_policy.exponent: exponent: 0 is not a whole number above 0"],
    );
    says(
        policy(json!({"backoff_factor": 0})),
        &["retry_policy.backoff_factor: backoff_factor: 0 is not a number of milliseconds above 0"],
    );
    says(
        policy(json!({"max_delay": 0})),
        &["retry_policy.max_delay: max_delay: 0 is not a number of milliseconds above 0"],
    );
    says(
        policy(json!({"max_retries": 3.5})),
        &[
            "retry_policy.max_retries: max_retries: Input should be a valid integer, got a number with a fractional part",
        ],
    );
    says(
        policy(json!({"max_retries": null})),
        &["retry_policy.max_retries: max_retries: Input should be a valid integer"],
    );
    says(
        policy(json!({"exponent": "x"})),
        &[
            "retry_policy.exponent: exponent: Input should be a valid integer, unable to parse string as an integer",
        ],
    );
    says(
        policy(json!({"cap": "middle"})),
        &["retry_policy.cap: Input should be 'before', 'after' or 'truncate'"],
    );
    for (wanted, what) in [
        (json!("paus"), ": \"paus\" is unknown; did you mean \"pause\"?"),
        (json!({"pause": {"for": 5}}), ".pause.for: 5 has no unit"),
        (json!({"fallback": {}}), ".fallback"),
        (json!({"fallback": {"activity": ""}}), ".fallback.activity"),
        (json!({"retry": 1}), ".retry: on_exhausted: unknown field \"retry\""),
    ] {
        let found = refused(&policy(json!({"on_exhausted": wanted})));
        assert!(found[0].starts_with("retry_policy.on_exhausted"), "{found:?}");
        assert!(found[0].contains(what), "{found:?}");
        let node = added("/nodes/1", "retry_policy", json!({"on_exhausted": wanted}));
        assert!(refused(&node)[0].starts_with("nodes[1].retry_policy.on_exhausted"), "{found:?}");
    }
    says(policy(json!(null)), &["retry_policy: Input should be a valid dictionary"]);
    for huge in [json!(1e300), json!(u64::MAX), json!("9".repeat(30)), json!(-1e300)] {
        for field in ["max_retries", "backoff_factor", "exponent", "max_delay"] {
            let found = refused(&policy(json!({field: huge})));
            assert!(found[0].starts_with(&format!("retry_policy.{field}: {field}: ")), "{found:?}");
        }
    }
    let lax = template(&policy(
        json!({"max_retries": "3", "backoff_factor": 5.0, "exponent": true, "max_delay": null}),
    ));
    let read = &lax.graph().retry_policy;
    assert_eq!(
        (read.max_retries, read.backoff_factor, read.exponent, read.max_delay),
        (3, 5, 1, None)
    );
    says(
        added("/nodes/1", "retry_policy", json!({"max_retries": -1})),
        &[
            "nodes[1].retry_policy.max_retries: max_retries: -1 is not a number of retries; use 0 or more",
        ],
    );
}

#[test]
fn a_policy_is_translated_with_all_its_numbers() {
    let read = template(&with(
        "/retry_policy",
        json!({
            "max_retries": 3, "strategy": "LINEAR_FULL_JITTER", "backoff_factor": 7, "max_delay": 9, "cap": "before",
        }),
    ));
    let policy = read.graph().retry_policy.resolve().unwrap();
    assert_eq!(policy.max_attempts.to_string(), "4"); // retries and the first attempt
    assert_eq!(policy.max_delay, Some(Duration::from_millis(9)));
    assert_eq!(policy.cap, resurgam_core::retry::CapOrder::Before);
    let default = template(&without("", "retry_policy")).graph().retry_policy.resolve().unwrap();
    assert_eq!(
        default,
        resurgam_core::retry::dialect::Dialect::Exosphere.import(&json!({})).unwrap().policy
    );
}

#[test]
fn timeouts_are_milliseconds_or_have_a_unit() {
    let timeout = |value: Value| added("/nodes/1", "timeout", value);
    for (value, millis) in
        [(json!(1500), 1_500), (json!("1.5s"), 1_500), (json!(2.0), 2), (json!("2h"), 7_200_000)]
    {
        assert_eq!(template(&timeout(value)).graph().nodes[1].timeout_ms, Some(millis));
    }
    assert_eq!(template(&timeout(json!(null))).graph().nodes[1].timeout_ms, None);
    says(
        timeout(json!("300")),
        &["nodes[1].timeout: timeout: \"300\" has no unit; write \"300s\" or \"300ms\""],
    );
    for odd in [json!(0), json!(-1), json!(1e300), json!("0s")] {
        says(timeout(odd), &["nodes[1].timeout: timeout: use a time from 1 ms to 100 years"]);
    }
}

#[test]
fn a_gate_is_a_key_or_a_template_over_inputs() {
    let gate = |value: Value| added("/nodes/1", "gate", value);
    assert_eq!(template(&gate(json!("stripe"))).graph().nodes[1].gate.as_deref(), Some("stripe"));
    assert_eq!(template(&gate(json!(null))).graph().nodes[1].gate, None);
    says(
        gate(json!("host:{nowhere.host}")),
        &["nodes[1].gate: gate: \"host:{nowhere.host}\" names the input \"nowhere\", which there \
           is not"],
    );
    says(gate(json!("")), &["nodes[1].gate: gate: \"\" is empty; a gate's key has 1 to 200 bytes"]);
}

#[test]
fn store_keys_have_no_dots_and_are_named_once() {
    let store = |value: Value| added("", "store_config", value);
    says(
        store(json!({"required_keys": [" "]})),
        &["store_config.required_keys[0]: Key cannot be empty or contain only whitespace"],
    );
    says(
        store(json!({"required_keys": ["a.b"]})),
        &["store_config.required_keys[0]: Key 'a.b' cannot contain '.' character"],
    );
    says(
        store(json!({"required_keys": ["k", " k"]})),
        &["store_config.required_keys[1]: Key 'k' is duplicated"],
    );
    says(
        store(json!({"default_values": {"": "x"}})),
        &["store_config.default_values.: Key cannot be empty or contain only whitespace"],
    );
    says(
        store(json!({"default_values": {"a.b": "x"}})),
        &["store_config.default_values.a.b: Key 'a.b' cannot contain '.' character"],
    );
    says(
        store(json!({"default_values": {"k": "x", "k ": "y"}})),
        &["store_config.default_values.k : Key 'k' is duplicated"],
    );
    let read = template(&store(json!({"default_values": {"n": 5, "yes": true, "no": null}})));
    let values: Vec<_> = read.graph().store_config.default_values.values().cloned().collect();
    assert_eq!(values, ["5", "None", "True"]);
}

#[test]
fn triggers_are_cron_expressions_with_a_zone() {
    let trigger = |value: Value| added("", "triggers", json!([{"type": "CRON", "value": value}]));
    let found = refused(&trigger(json!({"expression": "every day"})));
    assert!(
        found[0].starts_with("triggers[0].value.expression: Invalid cron expression: "),
        "{found:?}"
    );
    let found = refused(&trigger(json!({"expression": "0 9 * * *", "timezone": "Berlin"})));
    assert_eq!(
        found,
        [
            "triggers[0].value.timezone: zone: \"Berlin\" is no time zone; did you mean \"Europe/Berlin\"?"
        ]
    );
    says(trigger(json!({})), &["triggers[0].value.expression: Field required"]);
    says(
        added("", "triggers", json!([{"type": "cron", "value": {"expression": "* * * * *"}}])),
        &["triggers[0].type: Input should be 'CRON'"],
    );
    says(added("", "triggers", json!(5)), &["triggers: Input should be a valid list"]);

    let read = template(&trigger(json!({"expression": "0 9 * * *", "timezone": "Europe/Berlin"})));
    let rule = read.graph().triggers[0].value.rule().check().unwrap();
    let next = rule.next(resurgam_core::Timestamp::from_millis(1_795_000_000_000)).unwrap();
    assert_eq!(resurgam_core::schedule::time_text(next), "2026-11-19T08:00:00Z");
    // A sixth field is the second, and stands at the end.
    let read = template(&trigger(json!({"expression": "0 9 * * * 30"})));
    let rule = read.graph().triggers[0].value.rule().check().unwrap();
    let next = rule.next(resurgam_core::Timestamp::from_millis(1_795_000_000_000)).unwrap();
    assert_eq!(resurgam_core::schedule::time_text(next), "2026-11-19T09:00:30Z");
}

#[test]
fn all_mistakes_are_told_at_once() {
    let mut template =
        graph(&[node("a", &["zz"]), node_with("b", json!({"x": 5, "y": "${{q.outputs.x}}"}), &[])]);
    template["secrets"] = json!({"k": ""});
    template["retry_policy"] = json!({"max_retries": -1, "exponent": 0});
    template["store_config"] = json!({"required_keys": ["a.b"]});
    assert_eq!(
        refused(&template),
        [
            "secrets.k: Secrets cannot be empty",
            "nodes[1].inputs.x: Input 5 is not a string",
            "retry_policy.max_retries: max_retries: -1 is not a number of retries; use 0 or more",
            "retry_policy.exponent: exponent: 0 is not a whole number above 0",
            "store_config.required_keys[0]: Key 'a.b' cannot contain '.' character",
            "nodes[0].next_nodes[0]: Node identifier zz does not exist in the graph",
            "nodes: There should be exactly one root node in the graph but found 2 nodes with zero in-degree: [a, b]",
            "nodes[1].inputs.y: Input ${{q.outputs.x}} depends on q but q is not a parent of b",
        ]
    );
}

#[test]
fn what_has_no_effect_is_worth_a_warning() {
    let mut odd = graph(&[
        node("r", &["a", "b"]),
        node("a", &["u"]),
        node("b", &["u"]),
        uniting("u", "a", "ALL_DONE", &[]),
    ]);
    odd["retry_polcy"] = json!({});
    odd["nodes"][0]["nextnodes"] = json!([]);
    odd["retry_policy"] = json!({"strategy": "FIXED", "exponent": 3, "colour": "blue"});
    odd["store_config"] = json!({"required_keys": ["k"], "default_values": {"k": "v"}});
    odd["triggers"] = json!([{"type": "CRON", "value": {"expression": "0 0 * * *"}}]);
    let template = template(&odd);
    let warnings: Vec<String> =
        template.warnings().iter().map(|w| format!("{}: {}", w.path, w.message)).collect();
    assert_eq!(
        warnings,
        [
            "retry_polcy: unknown field \"retry_polcy\" has no effect; did you mean \"retry_policy\"?",
            "nodes[0].nextnodes: unknown field \"nextnodes\" has no effect; did you mean \"next_nodes\"?",
            "retry_policy.colour: unknown field \"colour\" has no effect",
            "retry_policy: exponent: 3 has no effect; only EXPONENTIAL strategies use it",
            "store_config.default_values: Key 'k' is required, so its default value is never used",
            "nodes[2].next_nodes: Node u unites on a, which is not before b: it does not wait for b",
            "triggers: a trigger starts runs with an empty store, so required_keys make it fail",
        ]
    );
}

fn start(template: &Value, inputs: Value, store: Value) -> Result<Vec<String>, Vec<String>> {
    let start = Start {
        inputs: inputs.as_object().unwrap().clone(),
        store: store.as_object().unwrap().clone(),
        ..Start::default()
    };
    let told =
        |found: &resurgam_core::config::Problem| format!("{}: {}", found.path, found.message);
    match crate::common::template(template).start(&start) {
        Ok(started) => Ok(started.warnings.iter().map(told).collect()),
        Err(problems) => Err(problems.iter().map(told).collect()),
    }
}

#[test]
fn a_start_needs_its_store_keys_and_inputs_that_are_texts() {
    let mut template =
        graph(&[node_with("a", json!({"name": "x", "city": ""}), &["b"]), node("b", &[])]);
    template["store_config"] =
        json!({"required_keys": ["key", "another"], "default_values": {"c": "d"}});
    let given = json!({"key": "1", "another": "2"});
    assert_eq!(
        start(&template, json!({}), json!({})),
        Err(vec!["store: Missing store keys: {'another', 'key'}".into()])
    );
    assert_eq!(
        start(&template, json!({"name": 5}), given.clone()),
        Err(vec!["inputs.name: Invalid input: Input 5 is not a string".into()])
    );
    assert_eq!(
        start(&template, json!({"name": "${{ b.outputs.x }}", "city": "${{ store.q }}"}), given),
        Err(vec![
            "inputs.city: Invalid input: Input ${{ store.q }} depends on q but q is not a required key or a default value".into(),
            "inputs.name: Invalid input: Input ${{ b.outputs.x }} depends on b but b is not a parent of a".into(),
        ])
    );
    assert_eq!(
        start(&template, json!({"name": "${{ store.c }}", "nmae": "x"}), json!({"key": "1", "another": "2", "kye": "x"})),
        Ok(vec![
            "inputs.nmae: the graph has no input \"nmae\", so it has no effect; did you mean \"name\"?".into(),
            "store.kye: the graph has no store key \"kye\", so it has no effect; did you mean \"key\"?".into(),
        ])
    );
}

#[test]
fn secrets_need_a_key() {
    let template = template(&with("/secrets", json!({"api_key": "hunter2"})));
    let refused = template.start(&Start::default()).unwrap_err().to_string();
    assert_eq!(
        refused,
        "the graph has secrets, and there is no key to encrypt them with; make one with \
        `resurgam secrets new-key` and set RESURGAM_SECRETS_KEY to it"
    );
    let key = SecretsKey::from_text(&SecretsKey::generate_text()).unwrap();
    let started = template.start(&Start { key: Some(key), ..Start::default() }).unwrap();
    assert_eq!(started.run.secret_names().collect::<Vec<_>>(), ["api_key"]);
}

#[test]
fn nodes_that_nobody_knows_are_named() {
    let known = ["A", "Bb"].map(String::from).into_iter().collect();
    let template = template(&with("/nodes/1/node_name", json!("Bc")));
    let unknown: Vec<String> = template
        .unknown_nodes(&known)
        .iter()
        .map(|p| format!("{}: {}", p.path, p.message))
        .collect();
    assert_eq!(
        unknown,
        ["nodes[1].node_name: Node Bc in namespace test does not exist. Did you mean Bb?"]
    );
}

/// Five thousand nodes, each of which refers to the one before.
fn long_chain(nodes: usize) -> Value {
    let node = |i: usize| {
        let next = format!("n{}", i + 1);
        let next: &[&str] = if i + 1 < nodes { &[&next] } else { &[] };
        let inputs = if i == 0 {
            json!({})
        } else {
            json!({"x": format!("${{{{ n{}.outputs.x }}}}", i - 1)})
        };
        node_with(&format!("n{i}"), inputs, next)
    };
    graph(&(0..nodes).map(node).collect::<Vec<_>>())
}

#[test]
fn five_thousand_nodes_are_checked_without_going_through_all_pairs() {
    let chain = long_chain(5_000).to_string();
    let ends: Vec<String> = (0..4_998).map(|i| format!("e{i}")).collect();
    let mut nodes = vec![node("r", &ends.iter().map(String::as_str).collect::<Vec<_>>())];
    nodes.extend(ends.iter().map(|end| node(end, &["u"])));
    nodes.push(uniting("u", "r", "ALL_DONE", &[]));
    let wide = graph(&nodes).to_string();
    let begun = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    for text in [chain, wide] {
        assert_eq!(Template::parse(&text).unwrap().graph().nodes.len(), 5_000);
    }
    // Each takes some hundredths of a second when it is optimized; this catches a square. It is the
    // thread's own time: other work on the machine does not lengthen it.
    let took = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime) - begun;
    assert!(took.tv_sec < 20, "{took:?}");
}

#[test]
fn hostile_templates_are_refused_and_never_crash_us() {
    let deep = "[".repeat(100_000);
    assert!(Template::parse(&deep).is_err());
    assert!(Template::parse(&format!("{{\"nodes\": {deep}")).is_err());
    let nested = (0..100).fold(json!(1), |inner, _| json!([inner]));
    for path in [
        "/secrets",
        "/nodes",
        "/nodes/0",
        "/nodes/0/inputs",
        "/nodes/0/identifier",
        "/retry_policy",
    ] {
        assert!(Template::from_value(&with(path, nested.clone())).is_err());
    }
    let many = json!({"secrets": {}, "nodes": vec![json!({}); 20_001]});
    assert_eq!(refused(&many), ["nodes: 20001 nodes are more than a graph can have (20000)",]);
    let long = "x".repeat(1 << 20);
    let found = refused(&with("/nodes/1/inputs", json!({"x": format!("${{{{{long}}}}}")})));
    assert!(found[0].len() < 1_000, "{}", found[0].len());
}
