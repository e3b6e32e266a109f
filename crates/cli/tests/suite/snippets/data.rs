//! JSON and TOML: policies, graphs, schedules, dependencies.

use resurgam_core::gate::Gate;
use resurgam_core::retry::RetryPolicy;
use resurgam_core::retry::dialect::Dialect;
use resurgam_core::schedule::Schedule;
use resurgam_graph::Template;
use serde_json::{Value, json};

use crate::snippets::page::{Block, root};

/// What a block without a word behind `json` may be.
const FORMS: [(&str, Form); 7] = [
    ("policy", policy),
    ("schedule", schedule),
    ("gate", gate),
    ("graph", graph),
    ("the retry policy of a graph", |value| part_of_a_graph("retry_policy", value)),
    ("triggers of a graph", |value| part_of_a_graph("triggers", value)),
    ("store of a graph", |value| part_of_a_graph("store_config", value)),
];

/// Reads a value; the error is what is wrong with it.
type Form = fn(&Value) -> Result<(), String>;

pub(crate) fn json(block: &Block) -> Result<(), String> {
    let value: Value = serde_json::from_str(&block.text).map_err(|error| error.to_string())?;
    match block.info.split_once(' ').map(|(_, word)| word) {
        None => any_form(&value),
        Some(word) => match (Dialect::named(word), FORMS.iter().find(|form| form.0 == word)) {
            (Some(dialect), _) => in_dialect(dialect, &value),
            (_, Some(form)) => (form.1)(&value),
            _ => Err(format!("`json {word}`: neither a dialect nor policy, schedule or graph")),
        },
    }
}

fn any_form(value: &Value) -> Result<(), String> {
    let mut refusals = Vec::new();
    for (name, form) in FORMS {
        match form(value) {
            Ok(()) => return Ok(()),
            Err(error) => refusals.push(format!("  as {name}: {error}")),
        }
    }
    Err(format!("it is nothing that the code reads:\n{}", refusals.join("\n")))
}

fn policy(value: &Value) -> Result<(), String> {
    in_dialect(Dialect::Canonical, value)
}

fn in_dialect(dialect: Dialect, value: &Value) -> Result<(), String> {
    let imported = dialect.import(value).map_err(|problems| problems.to_string())?;
    imported.policy.check().map(|_| ()).map_err(|problems| problems.to_string())
}

fn gate(value: &Value) -> Result<(), String> {
    Gate::from_value(value).map(drop).map_err(|problems| problems.to_string())
}

fn schedule(value: &Value) -> Result<(), String> {
    let schedule = Schedule::from_value(value).map_err(|problems| problems.to_string())?;
    schedule.check().map(|_| ()).map_err(|problems| problems.to_string())
}

fn graph(value: &Value) -> Result<(), String> {
    let template = Template::from_value(value).map_err(|problems| problems.to_string())?;
    match template.warnings() {
        [] => Ok(()),
        [warning, ..] => Err(format!("{}: {}", warning.path, warning.message)),
    }
}

/// A graph of one node, with this field.
fn part_of_a_graph(field: &str, value: &Value) -> Result<(), String> {
    let node = json!({"node_name": "A", "namespace": "n", "identifier": "a", "inputs": {},
        "next_nodes": []});
    graph(&json!({"secrets": {}, "nodes": [node], field: value}))
}

/// A policy, or what a program writes to depend on our crates.
pub(crate) fn toml(block: &Block) -> Result<(), String> {
    let table: toml::Table = toml::from_str(&block.text).map_err(|error| error.to_string())?;
    let mut dependencies = ["dependencies", "dev-dependencies"]
        .into_iter()
        .filter_map(|section| table.get(section)?.as_table())
        .peekable();
    if dependencies.peek().is_none() {
        let policy: RetryPolicy = toml::from_str(&block.text).map_err(|error| error.to_string())?;
        return policy.check().map(|_| ()).map_err(|problems| problems.to_string());
    }
    for (name, wanted) in dependencies.flatten().filter(|(name, _)| name.starts_with("resurgam")) {
        is_our_crate(name, wanted)?;
    }
    Ok(())
}

/// There is such a crate, and its version is what the page says.
fn is_our_crate(name: &str, wanted: &toml::Value) -> Result<(), String> {
    let folder = name.strip_prefix("resurgam-").unwrap_or("resurgam");
    if !root().join("crates").join(folder).exists() {
        return Err(format!("there is no crate {name}"));
    }
    let wanted = wanted.as_str().or_else(|| wanted.get("version").and_then(toml::Value::as_str));
    let version = env!("CARGO_PKG_VERSION");
    match wanted {
        Some(wanted) if !version.starts_with(wanted) => {
            Err(format!("{name} {wanted} is not the version of this repository, {version}"))
        }
        _ => Ok(()),
    }
}
