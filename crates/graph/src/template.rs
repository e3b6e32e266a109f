//! A template: read and checked as a whole before anything is done with it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use resurgam_core::Code;
use resurgam_core::config::{Problem, Problems, nearest};
use serde_json::{Map, Value};

use crate::model::{Graph, Node};
use crate::notes::Notes;
use crate::plan::Plan;
use crate::reference::{Piece, Text, shown};
use crate::run::GraphRun;
use crate::secrets::{EncryptedSecrets, KEY_VARIABLE, Secrets, SecretsKey};
use crate::{check, read};

/// A graph that makes sense, with its secrets.
///
/// ```
/// use resurgam_graph::Template;
///
/// let template = Template::parse(r#"{"secrets": {}, "nodes": [
///     {"node_name": "Greet", "namespace": "demo", "identifier": "hello", "inputs": {}}
/// ]}"#)?;
/// assert_eq!(template.node_names().collect::<Vec<_>>(), ["Greet"]);
///
/// let refused = Template::parse(r#"{"secrets": {}, "nodes": []}"#).unwrap_err();
/// assert_eq!(
///     refused.to_string(),
///     "There should be exactly one root node in the graph but found 0 nodes with zero \
///      in-degree: []"
/// );
/// # Ok::<(), resurgam_core::config::Problems>(())
/// ```
#[derive(Clone, Debug)]
pub struct Template {
    secrets: Secrets,
    graph: Graph,
    warnings: Vec<Problem>,
}

/// What a run is started with.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Inputs of the root, in place of those of the template that have the same name.
    pub inputs: Map<String, Value>,
    /// Values of the store.
    pub store: Map<String, Value>,
    /// How long the root waits.
    pub delay: Duration,
    /// What the template's secrets are encrypted with.
    pub key: Option<SecretsKey>,
    /// Secrets that were encrypted before, see [`Template::secrets_to_store`], in the place of
    /// those of the template.
    pub stored_secrets: Option<String>,
}

/// A run that can be started.
#[derive(Clone, Debug)]
pub struct Started {
    /// The argument of the workflow.
    pub run: GraphRun,
    /// What has no effect.
    pub warnings: Vec<Problem>,
}

impl Template {
    /// Reads a template from text. The error lists everything that is wrong with it, each with the
    /// way to it.
    pub fn parse(text: &str) -> Result<Self, Problems> {
        let value = serde_json::from_str(text).map_err(|error| {
            let message = format!("this is not JSON: {error}");
            Problems::from(Problem::new("", message).with_code(Code::G1))
        })?;
        Template::from_value(&value)
    }

    /// Reads a template.
    pub fn from_value(value: &Value) -> Result<Self, Problems> {
        let mut notes = Notes::default();
        let (secrets, graph) = read::template(value, &mut notes);
        // What is not a list of nodes has no shape, and of too long a list we know none.
        let nodes = value.get("nodes").and_then(Value::as_array);
        if nodes.is_some_and(|nodes| nodes.len() <= crate::MAX_NODES) {
            check::check(&graph, &mut notes);
        }
        Problems::check(notes.problems)?;
        Ok(Template { secrets, graph, warnings: notes.warnings })
    }

    /// True when a JSON value means to be a graph: it has nodes.
    pub fn is_meant(value: &Value) -> bool {
        value.get("nodes").is_some()
    }

    /// What is odd about it, each with the way to it.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// The graph without its secrets.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The names of all nodes' activities, each once.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.graph
            .nodes
            .iter()
            .map(|node| node.node_name.as_str())
            .collect::<BTreeSet<_>>()
            .into_iter()
    }

    /// The names of its secrets. Their values cannot be asked for.
    pub fn secret_names(&self) -> impl Iterator<Item = &str> {
        self.secrets.names()
    }

    /// The nodes whose activity nobody knows, as problems of the template.
    pub fn unknown_nodes(&self, known: &BTreeSet<String>) -> Vec<Problem> {
        let nodes = self.graph.nodes.iter().enumerate();
        let unknown = nodes.filter(|(_, node)| !known.contains(&node.node_name));
        let problem = |(i, node): (usize, &Node)| {
            let (name, namespace) = (&node.node_name, &node.namespace);
            let near = nearest(name, known.iter().map(String::as_str));
            let advice = near.map_or(String::new(), |near| format!(" Did you mean {near}?"));
            let message = format!("Node {name} in namespace {namespace} does not exist.{advice}");
            Problem::new(format!("nodes[{i}].node_name"), message).with_code(Code::C2)
        };
        unknown.map(problem).collect()
    }

    /// Makes a run of it. The error lists everything that is missing.
    pub fn start(&self, start: &Start) -> Result<Started, Problems> {
        let mut notes = Notes::default();
        let inputs = self.root_inputs(start, &mut notes);
        let store = self.store(start, &mut notes);
        let secrets = match &start.stored_secrets {
            None => self.encrypted(start.key.as_ref(), &mut notes),
            Some(stored) => serde_json::from_str(stored).unwrap_or_else(|error| {
                notes.refuse(Code::G6, "secrets", format!("they cannot be read: {error}"));
                EncryptedSecrets::default()
            }),
        };
        Problems::check(notes.problems)?;
        let graph = self.graph.clone();
        let delay_ms = u64::try_from(start.delay.as_millis()).unwrap_or(u64::MAX);
        let run = GraphRun::new(graph, secrets, inputs, store, delay_ms);
        Ok(Started { run, warnings: notes.warnings })
    }

    /// Its secrets, encrypted and as text, so that the template can be kept without them. Whoever
    /// starts it later needs no key.
    ///
    /// ```
    /// use resurgam_graph::{SecretsKey, Start, Template};
    ///
    /// let node = r#"{"node_name": "Greet", "namespace": "n", "identifier": "a", "inputs": {}}"#;
    /// let of = |secrets: &str| {
    ///     Template::parse(&format!(r#"{{"secrets": {secrets}, "nodes": [{node}]}}"#))
    /// };
    /// let key = SecretsKey::from_text(&SecretsKey::generate_text()).unwrap();
    /// let stored = of(r#"{"password": "hunter2"}"#)?.secrets_to_store(Some(&key))?;
    /// assert!(stored.contains("password") && !stored.contains("hunter2"));
    /// let start = Start { stored_secrets: Some(stored), ..Start::default() };
    /// assert!(of("{}")?.start(&start).is_ok());
    /// # Ok::<(), resurgam_core::config::Problems>(())
    /// ```
    pub fn secrets_to_store(&self, key: Option<&SecretsKey>) -> Result<String, Problems> {
        let mut notes = Notes::default();
        let secrets = self.encrypted(key, &mut notes);
        Problems::check(notes.problems)?;
        Ok(serde_json::to_string(&secrets).expect("texts by their names are JSON"))
    }

    fn encrypted(&self, key: Option<&SecretsKey>, notes: &mut Notes) -> EncryptedSecrets {
        match (key, self.secrets.is_empty()) {
            (_, true) => EncryptedSecrets::default(),
            (Some(key), false) => self.secrets.encrypted(key),
            (None, false) => {
                notes.refuse(Code::G6, "secrets", no_key());
                EncryptedSecrets::default()
            }
        }
    }

    fn root(&self) -> &Node {
        let root = Plan::root_of(&self.graph);
        &self.graph.nodes[root.expect("a template that was accepted has one root")]
    }

    /// The inputs that were given and that the root has.
    fn root_inputs(&self, start: &Start, notes: &mut Notes) -> BTreeMap<String, String> {
        let root = self.root();
        let mut inputs = BTreeMap::new();
        for (name, value) in &start.inputs {
            let path = format!("inputs.{name}");
            if !root.inputs.contains_key(name) {
                notes.warn(path, unused("input", name, root.inputs.keys()));
                continue;
            }
            match value.as_str().map(|text| self.only_store(text).map(|()| text)) {
                None => notes.refuse(
                    Code::G6,
                    path,
                    format!("Invalid input: {}", read::not_a_string(value)),
                ),
                Some(Err(what)) => notes.refuse(Code::G6, path, format!("Invalid input: {what}")),
                Some(Ok(text)) => {
                    inputs.insert(name.clone(), text.to_string());
                }
            }
        }
        inputs
    }

    /// An input that is given from outside may refer to the store and nothing else.
    fn only_store(&self, text: &str) -> Result<(), String> {
        let config = &self.graph.store_config;
        let known = |key: &String| {
            config.required_keys.contains(key) || config.default_values.contains_key(key)
        };
        let input = shown(text);
        let wrong = Text::parse(text)?.0.into_iter().find_map(|piece| match piece {
            Piece::Plain(_) => None,
            Piece::Store(key) => (!known(&key)).then(|| check::undeclared(&input, &key)),
            Piece::Output(output) | Piece::Collected(output) => {
                Some(check::not_a_parent(&input, &output.identifier, &self.root().identifier))
            }
        });
        wrong.map_or(Ok(()), Err)
    }

    /// The values of the store, defaults included.
    fn store(&self, start: &Start, notes: &mut Notes) -> BTreeMap<String, String> {
        let config = &self.graph.store_config;
        let given: BTreeSet<&str> = start.store.keys().map(|key| key.trim()).collect();
        let missing: BTreeSet<String> = config
            .required_keys
            .iter()
            .filter(|key| !given.contains(key.as_str()))
            .map(|key| format!("'{key}'"))
            .collect();
        if !missing.is_empty() {
            let keys: Vec<String> = missing.into_iter().collect();
            notes.refuse(Code::G6, "store", format!("Missing store keys: {{{}}}", keys.join(", ")));
        }
        let mut store = config.default_values.clone();
        for (name, value) in &start.store {
            let (key, path) = (name.trim(), format!("store.{name}"));
            if !config
                .required_keys
                .iter()
                .chain(config.default_values.keys())
                .any(|known| known == key)
            {
                let known = config.required_keys.iter().chain(config.default_values.keys());
                notes.warn(&path, unused("store key", key, known));
            }
            match value.as_str() {
                Some(text) => {
                    store.insert(key.to_string(), text.to_string());
                }
                None => notes.refuse(
                    Code::G6,
                    path,
                    format!("Invalid input: {}", read::not_a_string(value)),
                ),
            }
        }
        store
    }
}

fn unused<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a String>) -> String {
    let advice = match nearest(name, known.map(String::as_str)) {
        Some(near) => format!("; did you mean \"{near}\"?"),
        None => String::new(),
    };
    let name = shown(name);
    format!("the graph has no {what} \"{name}\", so it has no effect{advice}")
}

fn no_key() -> String {
    format!(
        "the graph has secrets, and there is no key to encrypt them with; make one with \
         `resurgam secrets new-key` and set {KEY_VARIABLE} to it"
    )
}
