//! What an activity gets when it is called as a node, and what it may answer.
//!
//! Its arguments are the node's inputs, all text, and one more under a reserved name: which node
//! it is, and the secrets of the graph, encrypted. An activity written in Rust that does not care
//! ignores it; whoever runs executables takes it out with [`NodeCall::of`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::{Failure, Payload};
use resurgam_sdk::ActivityDefinition;
use serde::de::IgnoredAny;
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
    /// The fingerprint of the key that they are encrypted with.
    key: Option<String>,
}

/// What stands under the reserved name.
#[derive(Serialize, Deserialize)]
struct About<'a> {
    identifier: std::borrow::Cow<'a, str>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    secrets: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<std::borrow::Cow<'a, str>>,
}

/// How long a call waits before a process is asked again that could not read its secrets.
const AGAIN: Duration = Duration::from_secs(30);

impl NodeCall {
    /// A call of a node, when these are the arguments of one.
    pub fn of(arguments: &Value) -> Option<Self> {
        let mut inputs = arguments.as_object()?.clone();
        let about: About<'_> = serde_json::from_value(inputs.remove(NODE)?).ok()?;
        Some(NodeCall {
            identifier: about.identifier.into_owned(),
            inputs: Value::Object(inputs),
            secrets: about.secrets,
            key: about.key.map(std::borrow::Cow::into_owned),
        })
    }

    /// What a process lacks that has this key and no other, in words: the key of the graph's
    /// secrets. `None` when it lacks nothing, and for a run from before keys had fingerprints.
    ///
    /// For `ActivityDefinition::lacking`, so that the call waits for a process that has the key.
    pub fn lacks(&self, key: Option<&SecretsKey>) -> Option<String> {
        let needed = self.key.as_ref().filter(|_| !self.secrets.is_empty())?;
        let is_there = key.is_some_and(|key| key.fingerprint() == *needed);
        (!is_there).then(|| SecretsKey::need(needed))
    }

    /// The names of the graph's secrets.
    pub fn secret_names(&self) -> impl Iterator<Item = &str> {
        self.secrets.keys().map(String::as_str)
    }

    /// The environment variables that hand the secrets to an executable, with their values in
    /// clear.
    ///
    /// A key that is missing, or another one than they are encrypted with, is no failure of the
    /// node: the error asks to be run again later, by a process that has the right one.
    pub fn secret_variables(
        &self,
        key: Option<&SecretsKey>,
    ) -> Result<Vec<(String, Zeroizing<String>)>, Failure> {
        if self.secrets.is_empty() {
            return Ok(Vec::new());
        }
        let Some(key) = key else {
            return Err(self.later("SecretsKeyMissing", "this worker has no key for them"));
        };
        if self.lacks(Some(key)).is_some() {
            return Err(self.later("SecretsKeyWrong", "this worker has another key"));
        }
        let decrypt = |(name, stored): (&String, &String)| {
            let clear = key.decrypt(name, stored).map_err(|error| match &self.key {
                // It is the right key, and no other one will do better.
                Some(_) => Failure::terminal(error.to_string()).with_type("SecretUnreadable"),
                None => self.later("SecretsKeyWrong", &error.to_string()),
            })?;
            Ok((secret_variable(name), clear))
        };
        self.secrets.iter().map(decrypt).collect()
    }

    /// Asks to be run again later, because a key is not there.
    fn later(&self, type_name: &str, why: &str) -> Failure {
        let needed = self.key.as_deref().map(SecretsKey::need);
        let needed = needed.as_deref().unwrap_or("the key that they were encrypted with");
        let mut later = Failure::snooze(AGAIN).with_type(type_name);
        later.message = format!(
            "node {} has secrets, and {why}; set {KEY_VARIABLE} to {needed}",
            self.identifier
        );
        later
    }
}

/// The argument of a run, or of a call of a node, with `<secret NAME>` in place of what is
/// encrypted: for people, to whom that says nothing. Everything else, and every other value, stays
/// as it is.
///
/// ```
/// use resurgam_core::Payload;
/// use resurgam_graph::without_secrets;
///
/// let call = r#"{"$node": {"identifier": "a", "secrets": {"token": "b64=="}}, "n": 1.50}"#;
/// assert_eq!(
///     without_secrets(&Payload::from_text(call)).as_str(),
///     r#"{"$node": {"identifier": "a", "secrets": {"token": "<secret token>"}}, "n": 1.50}"#
/// );
/// ```
pub fn without_secrets(argument: &Payload) -> Payload {
    #[derive(Deserialize)]
    struct Shape {
        graph: Option<IgnoredAny>,
        #[serde(default)]
        secrets: BTreeMap<String, String>,
        #[serde(rename = "$node")]
        node: Option<About<'static>>,
    }
    let secrets = match argument.decode() {
        Ok(Shape { node: Some(node), .. }) => node.secrets,
        Ok(Shape { graph: Some(_), secrets, .. }) => secrets,
        _ => return argument.clone(),
    };
    let mut text = argument.as_str().to_string();
    for (name, stored) in secrets {
        // Each has a nonce of its own, so there is nothing else that looks the same.
        let mask = Value::from(format!("<secret {name}>")).to_string();
        text = text.replace(&Value::from(stored).to_string(), &mask);
    }
    Payload::from_text(text)
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
    key: Option<&str>,
) -> serde_json::Result<Payload> {
    #[derive(Serialize)]
    struct Arguments<'a> {
        #[serde(rename = "$node")]
        node: About<'a>,
        #[serde(flatten)]
        inputs: &'a BTreeMap<String, String>,
    }
    let key = key.map(Into::into);
    let node = About { identifier: identifier.into(), secrets: secrets.clone(), key };
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
    let (asked, typed) = (inner.clone(), inner.clone());
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
        .lacking(move |input| asked.lacks(input))
        .checking_output(move |value| typed.check_output(value))
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
