//! From JSON to a [`Graph`]: everything that can be said about one field at a time.
//!
//! Nothing stops at the first mistake. What could not be read is left out of the graph that comes
//! out, which is then good for finding more mistakes and nothing else.

use std::collections::{BTreeMap, HashSet};

use resurgam_core::Code;
use resurgam_core::duration::{self, LONGEST};
use resurgam_core::gate::KeyTemplate;
use resurgam_core::retry::dialect::Dialect;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::lax;
use crate::model::*;
use crate::notes::{At, Fields, Notes, join};
use crate::secrets::Secrets;

const EMPTY_SECRET: &str = "Secrets cannot be empty";

/// Reads a template.
pub(crate) fn template(value: &Value, notes: &mut Notes) -> (Secrets, Graph) {
    let known = ["secrets", "nodes", "retry_policy", "store_config", "triggers"];
    let empty = Graph {
        nodes: Vec::new(),
        retry_policy: Policy::default(),
        store_config: StoreConfig::default(),
        triggers: Vec::new(),
    };
    let Some(fields) = (At { path: "", value }).fields(&known, notes) else {
        return (Secrets::default(), empty);
    };
    let secrets = fields.require("secrets", notes, secrets).unwrap_or_default();
    let nodes = fields.require("nodes", notes, nodes).unwrap_or_default();
    let retry_policy = fields.read("retry_policy", notes, policy).unwrap_or_default();
    let store_config = fields.read("store_config", notes, store_config).unwrap_or_default();
    let triggers = fields.read("triggers", notes, triggers).unwrap_or_default();
    (secrets, Graph { nodes, retry_policy, store_config, triggers })
}

fn secrets(at: At<'_>, notes: &mut Notes) -> Option<Secrets> {
    let Some(map) = at.value.as_object() else {
        notes.refuse(Code::G1, at.path, "Input should be a valid dictionary");
        return None;
    };
    let mut secrets = Secrets::default();
    for (name, value) in map {
        let path = join(at.path, name);
        // Values are never repeated in messages.
        let Some(value) = (At { path: &path, value }).text(notes) else { continue };
        if name.trim().is_empty() || value.is_empty() {
            notes.refuse(Code::G1, path, EMPTY_SECRET);
        } else if name.contains(['=', '\0']) || value.contains('\0') {
            notes.refuse(Code::G1, path, "Secret cannot be handed over in an environment variable");
        } else {
            secrets.insert(name, value);
        }
    }
    Some(secrets)
}

fn nodes(at: At<'_>, notes: &mut Notes) -> Option<Vec<Node>> {
    let list = at.list(notes);
    if list.len() > crate::MAX_NODES {
        let most = crate::MAX_NODES;
        notes.refuse(
            Code::G1,
            at.path,
            format!("{} nodes are more than a graph can have ({most})", list.len()),
        );
        return None;
    }
    let entries = list.iter().enumerate();
    Some(entries.map(|(i, value)| node(&format!("{}[{i}]", at.path), value, notes)).collect())
}

fn node(path: &str, value: &Value, notes: &mut Notes) -> Node {
    let known = [
        "node_name",
        "namespace",
        "identifier",
        "inputs",
        "next_nodes",
        "unites",
        "retry_policy",
        "timeout",
        "gate",
    ];
    let mut node = Node {
        node_name: String::new(),
        namespace: String::new(),
        identifier: String::new(),
        inputs: BTreeMap::new(),
        next_nodes: Vec::new(),
        unites: None,
        retry_policy: None,
        timeout_ms: None,
        gate: None,
    };
    let Some(fields) = (At { path, value }).fields(&known, notes) else { return node };
    let name = |at: At<'_>, notes: &mut Notes| at.name("Node name cannot be empty", notes);
    node.node_name = fields.require("node_name", notes, name).unwrap_or_default();
    let namespace = |at: At<'_>, notes: &mut Notes| at.text(notes).map(str::to_string);
    node.namespace = fields.require("namespace", notes, namespace).unwrap_or_default();
    node.identifier = fields.require("identifier", notes, identifier).unwrap_or_default();
    node.inputs = fields.require("inputs", notes, inputs).unwrap_or_default();
    node.next_nodes = fields.read_unless_null("next_nodes", notes, next_nodes).unwrap_or_default();
    node.unites = fields.read_unless_null("unites", notes, unites);
    node.retry_policy = fields.read_unless_null("retry_policy", notes, policy);
    node.timeout_ms = fields.read_unless_null("timeout", notes, timeout);
    let names: Vec<&str> = node.inputs.keys().map(String::as_str).collect();
    node.gate = fields.read_unless_null("gate", notes, |at, notes| gate(at, &names, notes));
    node
}

fn identifier(at: At<'_>, notes: &mut Notes) -> Option<String> {
    let identifier = at.name("Node identifier cannot be empty", notes)?;
    if identifier == "store" {
        notes.refuse(Code::G1, at.path, "Node identifier cannot be reserved word 'store'");
        return None;
    }
    Some(identifier)
}

fn inputs(at: At<'_>, notes: &mut Notes) -> Option<BTreeMap<String, String>> {
    let Some(map) = at.value.as_object() else {
        notes.refuse(Code::G1, at.path, "Input should be a valid dictionary");
        return None;
    };
    let mut inputs = BTreeMap::new();
    for (name, value) in map {
        let path = join(at.path, name);
        match value.as_str() {
            _ if name == crate::node_call::NODE => notes.refuse(Code::G1, path, reserved(name)),
            Some(text) => {
                inputs.insert(name.clone(), text.to_string());
            }
            None => notes.refuse(Code::G1, path, not_a_string(value)),
        }
    }
    Some(inputs)
}

fn reserved(name: &str) -> String {
    format!("Input name '{name}' is reserved")
}

pub(crate) fn not_a_string(value: &Value) -> String {
    format!("Input {} is not a string", crate::reference::shown(&value.to_string()))
}

fn next_nodes(at: At<'_>, notes: &mut Notes) -> Option<Vec<String>> {
    let mut seen = HashSet::new();
    let mut names = Vec::new();
    for (i, value) in at.list(notes).iter().enumerate() {
        let path = format!("{}[{i}]", at.path);
        let empty = "Next node identifier cannot be empty";
        let Some(name) = (At { path: &path, value }).name(empty, notes) else { continue };
        if seen.insert(name.clone()) {
            names.push(name);
        } else {
            notes.refuse(Code::G2, path, format!("Next node identifier {name} is not unique"));
        }
    }
    Some(names)
}

fn unites(at: At<'_>, notes: &mut Notes) -> Option<Unites> {
    let fields = at.fields(&["identifier", "strategy"], notes)?;
    let name = |at: At<'_>, notes: &mut Notes| at.name("Unites identifier cannot be empty", notes);
    let identifier = fields.require("identifier", notes, name);
    let strategy = fields.read("strategy", notes, |at, notes| {
        word(at, "Input should be 'ALL_SUCCESS' or 'ALL_DONE'", notes)
    });
    Some(Unites { identifier: identifier?, strategy: strategy.unwrap_or_default() })
}

/// One of a few words.
fn word<T: DeserializeOwned>(at: At<'_>, expected: &str, notes: &mut Notes) -> Option<T> {
    let word = serde_json::from_value(at.value.clone());
    notes.keep(Code::G5, at.path, word.map_err(|_| expected.to_string()))
}

/// Reads a policy with the same means as everywhere else, so that it means the same.
fn policy(at: At<'_>, notes: &mut Notes) -> Option<Policy> {
    let numbers = ["max_retries", "backoff_factor", "exponent", "max_delay"];
    let words = ["strategy", "cap", "on_exhausted"];
    let fields = at.fields(&[&numbers[..], &words[..]].concat(), notes)?;
    let before = notes.problems.len();
    let mut config = Map::new();
    for name in numbers {
        if let Some(number) = fields.read(name, notes, |at, notes| policy_number(name, at, notes)) {
            config.insert(name.to_string(), number);
        }
    }
    config.extend(fields.map.get("strategy").map(|word| ("strategy".to_string(), word.clone())));
    let cap = fields.read_unless_null("cap", notes, |at, notes| {
        word(at, "Input should be 'before', 'after' or 'truncate'", notes)
    });
    let on_exhausted = fields.read_unless_null("on_exhausted", notes, on_exhausted);
    let config = Value::Object(config);
    match Dialect::Exosphere.import(&config) {
        Ok(imported) => imported.notes.into_iter().for_each(|note| notes.warn(at.path, note)),
        Err(problems) => problems.iter().for_each(|problem| {
            notes.refuse(Code::G5, join(at.path, &problem.path), problem.message.clone());
        }),
    }
    if notes.problems.len() > before {
        return None;
    }
    let policy = serde_json::from_value::<Policy>(config).map(|policy| Policy {
        cap,
        on_exhausted,
        ..policy
    });
    let policy = notes.keep(Code::G5, at.path, policy.map_err(|error| error.to_string()))?;
    // With its cap it may still make no sense.
    if let Err(problems) = policy.resolve() {
        notes.refuse(Code::G5, at.path, problems.to_string());
    }
    Some(policy)
}

fn on_exhausted(at: At<'_>, notes: &mut Notes) -> Option<OnExhausted> {
    let read = OnExhausted::from_value(at.value);
    let problems = match read {
        Ok(read) => return Some(read),
        Err(problems) => problems,
    };
    for problem in problems.iter() {
        let below = problem.path.strip_prefix("on_exhausted").unwrap_or_default();
        notes.refuse(Code::G5, format!("{}{below}", at.path), problem.message.clone());
    }
    None
}

fn policy_number(name: &str, at: At<'_>, notes: &mut Notes) -> Option<Value> {
    if at.value.is_null() && name == "max_delay" {
        return Some(Value::Null);
    }
    let read = lax::whole(at.value).map_err(|what| format!("{name}: {what}"));
    notes.keep(Code::G5, at.path, read).map(lax::number)
}

fn timeout(at: At<'_>, notes: &mut Notes) -> Option<u64> {
    let longest = LONGEST.as_millis();
    let millis = match at.value {
        Value::String(text) => duration::parse(text)
            .map(|time| time.as_millis())
            .map_err(|what| format!("timeout: \"{}\" {what}", crate::reference::shown(text))),
        other => lax::whole(other).map(|millis| u128::try_from(millis).unwrap_or(0)),
    };
    let millis = notes.keep(Code::G5, at.path, millis)?;
    if millis == 0 || millis > longest {
        notes.refuse(Code::G5, at.path, "timeout: use a time from 1 ms to 100 years");
        return None;
    }
    u64::try_from(millis).ok()
}

/// A template for keys, whose places name inputs of the node.
fn gate(at: At<'_>, inputs: &[&str], notes: &mut Notes) -> Option<String> {
    let text = at.text(notes)?;
    let read = KeyTemplate::parse(text).and_then(|template| {
        let unknown = template.arguments().find(|name| !inputs.contains(name)).map(str::to_string);
        unknown
            .map_or(Ok(()), |name| Err(format!("names the input \"{name}\", which there is not")))
    });
    let read = read.map_err(|what| format!("gate: \"{}\" {what}", crate::reference::shown(text)));
    notes.keep(Code::G5, at.path, read).map(|()| text.to_string())
}

fn store_config(at: At<'_>, notes: &mut Notes) -> Option<StoreConfig> {
    let fields = at.fields(&["required_keys", "default_values"], notes)?;
    let required_keys = fields.read("required_keys", notes, required_keys).unwrap_or_default();
    let default_values = fields.read("default_values", notes, default_values).unwrap_or_default();
    for key in required_keys.iter().filter(|key| default_values.contains_key(*key)) {
        let path = join(at.path, "default_values");
        notes.warn(path, format!("Key '{key}' is required, so its default value is never used"));
    }
    Some(StoreConfig { required_keys, default_values })
}

fn required_keys(at: At<'_>, notes: &mut Notes) -> Option<Vec<String>> {
    let mut keys: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    for (i, value) in at.list(notes).iter().enumerate() {
        let path = format!("{}[{i}]", at.path);
        let Some(text) = (At { path: &path, value }).text(notes) else { continue };
        let Some(key) = key(&path, text, notes) else { continue };
        if seen.insert(key.clone()) {
            keys.push(key);
        } else {
            notes.refuse(Code::G1, path, format!("Key '{key}' is duplicated"));
        }
    }
    Some(keys)
}

fn default_values(at: At<'_>, notes: &mut Notes) -> Option<BTreeMap<String, String>> {
    let Some(map) = at.value.as_object() else {
        notes.refuse(Code::G1, at.path, "Input should be a valid dictionary");
        return None;
    };
    let mut values = BTreeMap::new();
    for (name, value) in map {
        let path = join(at.path, name);
        let Some(key) = key(&path, name, notes) else { continue };
        if values.insert(key.clone(), lax::text_of(value)).is_some() {
            notes.refuse(Code::G1, path, format!("Key '{key}' is duplicated"));
        }
    }
    Some(values)
}

fn key(path: &str, text: &str, notes: &mut Notes) -> Option<String> {
    let key = text.trim();
    if key.is_empty() {
        notes.refuse(Code::G1, path, "Key cannot be empty or contain only whitespace");
        return None;
    }
    if key.contains('.') {
        notes.refuse(Code::G1, path, format!("Key '{key}' cannot contain '.' character"));
        return None;
    }
    Some(key.to_string())
}

fn triggers(at: At<'_>, notes: &mut Notes) -> Option<Vec<Trigger>> {
    let entries = at.list(notes).iter().enumerate();
    Some(
        entries
            .filter_map(|(i, value)| trigger(&format!("{}[{i}]", at.path), value, notes))
            .collect(),
    )
}

fn trigger(path: &str, value: &Value, notes: &mut Notes) -> Option<Trigger> {
    let fields = (At { path, value }).fields(&["type", "value"], notes)?;
    let kind = fields.require("type", notes, |at, notes| word(at, "Input should be 'CRON'", notes));
    let value = fields.require("value", notes, |at, notes| {
        let fields = at.fields(&["expression", "timezone"], notes)?;
        cron(at.path, &fields, notes)
    });
    Some(Trigger { kind: kind?, value: value? })
}

fn cron(path: &str, fields: &Fields<'_>, notes: &mut Notes) -> Option<Cron> {
    let text = |at: At<'_>, notes: &mut Notes| at.text(notes).map(str::to_string);
    let expression = fields.require("expression", notes, text)?;
    let timezone = fields.read_unless_null("timezone", notes, text);
    let cron = Cron { expression, timezone };
    if let Err(problems) = cron.rule().check() {
        for problem in problems.iter() {
            match problem.path.as_str() {
                "zone" => notes.refuse(Code::G5, join(path, "timezone"), problem.message.clone()),
                _ => {
                    let message = format!("Invalid cron expression: {}", problem.message);
                    notes.refuse(Code::G5, join(path, "expression"), message);
                }
            }
        }
        return None;
    }
    Some(cron)
}
