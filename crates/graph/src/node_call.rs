//! What an activity gets when it is called as a node, and what it may answer.
//!
//! Its arguments are the node's inputs, all text, and one more under a reserved name: which node
//! it is, and the secrets of the graph, encrypted. An activity written in Rust that does not care
//! ignores it; whoever runs executables takes it out with [`NodeCall::of`].

use std::collections::BTreeMap;
use std::sync::Arc;

use resurgam_core::{Failure, Payload};
use resurgam_sdk::ActivityDefinition;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::secrets::{KEY_VARIABLE, SecretsKey};

/// The reserved name among the arguments.
pub(crate) const NODE: &str = "$node";

/// How deep an output may be nested. Readers give up at 128 levels, and outputs are stored inside
/// of other things.
const LEVELS: usize = 50;

/// A call of a node.
///
/// ```
/// use resurgam_graph::NodeCall;
/// use serde_json::json;
///
/// let arguments = json!({"city": "Bern", "$node": {"identifier": "weather"}});
/// let call = NodeCall::of(&arguments).unwrap();
/// assert_eq!((call.identifier.as_str(), call.inputs), ("weather", json!({"city": "Bern"})));
/// assert!(NodeCall::of(&json!({"city": "Bern"})).is_none()); // nobody's node
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NodeCall {
    /// The node's identifier.
    pub identifier: String,
    /// Its inputs: an object of texts.
    pub inputs: Value,
    secrets: BTreeMap<String, String>,
}

/// What stands under the reserved name.
#[derive(Serialize, Deserialize)]
struct About<'a> {
    identifier: std::borrow::Cow<'a, str>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    secrets: BTreeMap<String, String>,
}

impl NodeCall {
    /// A call of a node, when these are the arguments of one.
    pub fn of(arguments: &Value) -> Option<Self> {
        let mut inputs = arguments.as_object()?.clone();
        let about: About<'_> = serde_json::from_value(inputs.remove(NODE)?).ok()?;
        let identifier = about.identifier.into_owned();
        Some(NodeCall { identifier, inputs: Value::Object(inputs), secrets: about.secrets })
    }

    /// The names of the graph's secrets.
    pub fn secret_names(&self) -> impl Iterator<Item = &str> {
        self.secrets.keys().map(String::as_str)
    }

    /// The environment variables that hand the secrets to an executable, with their values in
    /// clear.
    pub fn secret_variables(
        &self,
        key: Option<&SecretsKey>,
    ) -> Result<Vec<(String, Zeroizing<String>)>, Failure> {
        if self.secrets.is_empty() {
            return Ok(Vec::new());
        }
        let Some(key) = key else {
            return Err(Failure::of_type(
                "SecretsKeyMissing",
                format!(
                    "node {} has secrets, and this worker has no key for them; set {KEY_VARIABLE}",
                    self.identifier
                ),
            ));
        };
        let decrypt = |(name, stored): (&String, &String)| {
            let clear = key.decrypt(name, stored);
            let clear = clear.map_err(|error| {
                Failure::of_type("SecretsKeyWrong", error.to_string()).into_terminal()
            })?;
            Ok((secret_variable(name), clear))
        };
        self.secrets.iter().map(decrypt).collect()
    }
}

/// The environment variable of a secret.
pub fn secret_variable(name: &str) -> String {
    format!("RESURGAM_SECRET_{name}")
}

/// The arguments of a call.
pub(crate) fn arguments(
    identifier: &str,
    inputs: &BTreeMap<String, String>,
    secrets: &BTreeMap<String, String>,
) -> serde_json::Result<Payload> {
    #[derive(Serialize)]
    struct Arguments<'a> {
        #[serde(rename = "$node")]
        node: About<'a>,
        #[serde(flatten)]
        inputs: &'a BTreeMap<String, String>,
    }
    let node = About { identifier: identifier.into(), secrets: secrets.clone() };
    Payload::encode(&Arguments { node, inputs })
}

/// What a node returned, as one object for each state that follows from it: an object is one, a
/// list of objects is as many, and nothing (`null` or an empty list) is one without fields.
///
/// Whoever runs an executable for a [`NodeCall`] asks this about its result, so that an answer of
/// another form is a failure of the attempt, and is tried again.
///
/// ```
/// use resurgam_graph::outputs_of;
/// use serde_json::json;
///
/// assert_eq!(outputs_of(json!({"x": 1})).unwrap().len(), 1);
/// assert_eq!(outputs_of(json!([{"x": 1}, {"x": 2}])).unwrap().len(), 2);
/// assert_eq!(outputs_of(json!(null)).unwrap().len(), 1);
/// assert_eq!(
///     outputs_of(json!("done")).unwrap_err().to_string(),
///     "BadOutput: a node returns an object, a list of objects or nothing, not a text"
/// );
/// ```
pub fn outputs_of(result: Value) -> Result<Vec<Map<String, Value>>, Failure> {
    if !is_flatter_than(&result, LEVELS) {
        return Err(bad_output(&format!("of at most {LEVELS} levels, not one that is deeper")));
    }
    match result {
        Value::Null => Ok(vec![Map::new()]),
        Value::Object(output) => Ok(vec![output]),
        Value::Array(list) if list.is_empty() => Ok(vec![Map::new()]),
        Value::Array(list) => list.into_iter().map(output_of).collect(),
        other => Err(bad_output(&format!("not {}", kind(&other)))),
    }
}

/// An activity whose result is a failure when it is called as a node and returns what no node
/// returns. Called otherwise, it is the same as before.
pub fn node_activity(definition: ActivityDefinition) -> ActivityDefinition {
    let (name, options, blocking) =
        (definition.name.clone(), definition.options.clone(), definition.blocking);
    let inner = Arc::new(definition);
    let mut checked = ActivityDefinition::new(name, move |ctx, input| {
        let inner = inner.clone();
        Box::pin(async move {
            let is_node = input.decode().is_ok_and(|arguments| NodeCall::of(&arguments).is_some());
            let result = inner.run(ctx, input).await?;
            if is_node {
                outputs_of(result.decode().map_err(Failure::from)?)?;
            }
            Ok(result)
        })
    });
    checked.options = options;
    checked.blocking = blocking;
    checked
}

fn output_of(entry: Value) -> Result<Map<String, Value>, Failure> {
    match entry {
        Value::Object(output) => Ok(output),
        other => Err(bad_output(&format!("not a list with {} in it", kind(&other)))),
    }
}

fn bad_output(what: &str) -> Failure {
    let message = format!("a node returns an object, a list of objects or nothing, {what}");
    Failure::of_type("BadOutput", message)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn is_flatter_than(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) if levels == 0 => false,
        Value::Array(list) => list.iter().all(|value| is_flatter_than(value, levels - 1)),
        Value::Object(fields) => fields.values().all(|value| is_flatter_than(value, levels - 1)),
        _ => true,
    }
}
