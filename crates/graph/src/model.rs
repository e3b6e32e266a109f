//! A graph as people write it, after it was read: every default filled in, every text trimmed.
//!
//! These types are also the stored form, which travels with every run, and the published schema.
//! They are read by hand (`read.rs`), because a reader that serde writes stops at the first
//! mistake; serde's reader is for what we stored ourselves, and ignores what it does not know.

use std::collections::BTreeMap;

use resurgam_core::config::Problems;
use resurgam_core::retry::dialect::Dialect;
use resurgam_core::retry::{CapOrder, Exhausted, RetryPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::schema;

/// Nodes, how they follow each other, and what holds for all of them. Without secrets, which are
/// kept apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Graph {
    /// The nodes, one of which is where a run begins.
    #[schemars(length(min = 1, max = crate::MAX_NODES))]
    pub nodes: Vec<Node>,
    /// How a node that fails is tried again.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub retry_policy: Policy,
    /// The values that a run is started with and all its nodes can refer to.
    #[serde(default)]
    pub store_config: StoreConfig,
    /// When runs start by themselves.
    #[serde(default)]
    pub triggers: Vec<Trigger>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// What runs: the name of an activity, on the command line of an executable.
    #[schemars(regex(pattern = r"\S"))]
    pub node_name: String,
    /// The namespace whose workers run it.
    pub namespace: String,
    /// What other nodes call it.
    #[schemars(regex(pattern = r"\S"))]
    pub identifier: String,
    /// Its inputs: text, in which `${{ id.outputs.field }}` and `${{ store.key }}` stand for what
    /// they name.
    pub inputs: BTreeMap<String, String>,
    /// The nodes that follow it.
    #[serde(default)]
    #[schemars(with = "Option<Vec<String>>")]
    pub next_nodes: Vec<String>,
    /// What it waits for, when it brings branches together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unites: Option<Unites>,
    /// How this node is tried again, in place of the graph's policy. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<Policy>,
    /// Bound on one attempt: milliseconds, or a text with a unit such as `"30s"`. Ours.
    #[serde(default, rename = "timeout", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::timeout")]
    pub timeout_ms: Option<u64>,
    /// The gate that its calls are behind: a key such as `"stripe"`, or a template that makes one
    /// of its inputs, such as `"host:{url.host}"`. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::gate")]
    pub gate: Option<String>,
}

impl Graph {
    /// The activities that its nodes call or fall back to, each with the way to its name in the
    /// template.
    ///
    /// ```
    /// use resurgam_graph::Template;
    /// use serde_json::json;
    ///
    /// let template = Template::from_value(&json!({
    ///     "secrets": {},
    ///     "nodes": [
    ///         {"node_name": "Charge", "namespace": "shop", "identifier": "c", "inputs": {}}
    ///     ],
    ///     "retry_policy": {"on_exhausted": {"fallback": {"activity": "ChargeLater"}}},
    /// }))?;
    /// let calls = template.graph().calls();
    /// let names: Vec<&str> = calls.iter().map(|(_, name)| name.as_str()).collect();
    /// assert_eq!(names, ["Charge", "ChargeLater"]);
    /// # Ok::<(), resurgam_core::config::Problems>(())
    /// ```
    pub fn calls(&self) -> Vec<(String, String)> {
        let fallback = |path: String, policy: &Policy| {
            let called = policy.on_exhausted.as_ref()?.resolve().ok()?;
            let Exhausted::FallbackActivity(name) = called else { return None };
            Some((format!("{path}.on_exhausted.fallback.activity"), name.into_owned()))
        };
        let nodes = self.nodes.iter().enumerate();
        let nodes = nodes.flat_map(|(i, node)| {
            let named = (format!("nodes[{i}].node_name"), node.node_name.clone());
            let path = format!("nodes[{i}].retry_policy");
            let other = node.retry_policy.as_ref().and_then(|policy| fallback(path, policy));
            std::iter::once(named).chain(other)
        });
        nodes.chain(fallback("retry_policy".to_string(), &self.retry_policy)).collect()
    }
}

/// What a node that brings branches together waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unites {
    /// The node below which everything is waited for.
    #[schemars(regex(pattern = r"\S"))]
    pub identifier: String,
    /// How that must have ended.
    #[serde(default)]
    pub strategy: UniteStrategy,
}

/// How everything below a node must have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum UniteStrategy {
    /// All of it with success.
    #[default]
    AllSuccess,
    /// In any way.
    AllDone,
}

/// What is tried again, how often and when. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// How often a state is tried again: one less than the attempts.
    #[serde(default = "max_retries")]
    #[schemars(schema_with = "schema::count_from_zero")]
    pub max_retries: u32,
    /// How the delays grow.
    #[serde(default)]
    pub strategy: Strategy,
    /// The first delay.
    #[serde(default = "backoff_factor")]
    #[schemars(schema_with = "schema::count_above_zero")]
    pub backoff_factor: u64,
    /// What an exponential delay is multiplied with each time.
    #[serde(default = "exponent")]
    #[schemars(schema_with = "schema::count_above_zero")]
    pub exponent: u32,
    /// The longest delay.
    #[serde(default)]
    #[schemars(schema_with = "schema::count_or_null")]
    pub max_delay: Option<u64>,
    /// Whether the longest delay bounds what jitter is drawn from, or what was drawn. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<Cap>,
    /// What follows when attempts run out, beside the failure. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_exhausted: Option<OnExhausted>,
}

/// What follows when the attempts of a node run out: one of the words, or one of the objects that a
/// retry policy knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OnExhausted(Value);

impl OnExhausted {
    /// Reads it. The error names the field and what is wrong.
    pub(crate) fn from_value(value: &Value) -> Result<Self, Problems> {
        let read = OnExhausted(value.clone());
        read.resolve().map(|_| read)
    }

    fn resolve(&self) -> Result<Exhausted, Problems> {
        let policy = RetryPolicy::from_value(&json!({ "on_exhausted": self.0 }))?;
        Ok(policy.check()?.into_inner().on_exhausted)
    }
}

impl JsonSchema for OnExhausted {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OnExhausted".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schema::on_exhausted(generator)
    }
}

/// How delays grow, and how they are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(missing_docs)] // Their names say it all; the guide has the table.
pub enum Strategy {
    #[default]
    Exponential,
    ExponentialFullJitter,
    ExponentialEqualJitter,
    Linear,
    LinearFullJitter,
    LinearEqualJitter,
    Fixed,
    FixedFullJitter,
    FixedEqualJitter,
}

/// What the longest delay bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cap {
    /// What jitter is drawn from.
    Before,
    /// What was drawn: many delays are then exactly the longest.
    After,
    /// Both: drawn from what lies below the longest.
    Truncate,
}

fn max_retries() -> u32 {
    3
}

fn backoff_factor() -> u64 {
    2_000
}

fn exponent() -> u32 {
    2
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            max_retries: max_retries(),
            strategy: Strategy::default(),
            backoff_factor: backoff_factor(),
            exponent: exponent(),
            max_delay: None,
            cap: None,
            on_exhausted: None,
        }
    }
}

impl Policy {
    /// The policy in the engine's words, where `max_retries: 3` are four attempts.
    pub fn resolve(&self) -> Result<RetryPolicy, Problems> {
        let config = json!({
            "max_retries": self.max_retries,
            "strategy": self.strategy,
            "backoff_factor": self.backoff_factor,
            "exponent": self.exponent,
            "max_delay": self.max_delay,
        });
        self.with_cap(&config)
    }

    fn with_cap(&self, config: &Value) -> Result<RetryPolicy, Problems> {
        let mut policy = Dialect::Exosphere.import(config)?.policy;
        policy.cap = match self.cap {
            None => policy.cap,
            Some(Cap::Before) => CapOrder::Before,
            Some(Cap::After) => CapOrder::After,
            Some(Cap::Truncate) => CapOrder::Truncate,
        };
        if let Some(wanted) = &self.on_exhausted {
            policy.on_exhausted = wanted.resolve()?;
        }
        policy.check().map(|checked| checked.into_inner())
    }
}

/// What the store of a run holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StoreConfig {
    /// Keys that whoever starts a run must give.
    pub required_keys: Vec<String>,
    /// Values of keys that nobody gave.
    #[schemars(schema_with = "schema::any_values")]
    pub default_values: BTreeMap<String, String>,
}

/// What starts runs by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trigger {
    /// Its kind.
    #[serde(rename = "type")]
    pub kind: TriggerKind,
    /// When.
    pub value: Cron,
}

/// The kinds of triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TriggerKind {
    /// By a wall clock.
    Cron,
}

/// When a wall clock starts runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cron {
    /// Five fields as in a crontab; a sixth one at the end is the second.
    pub expression: String,
    /// The zone of the wall clock by its IANA name; UTC unless given. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
}

impl Cron {
    /// The rule of a schedule. What `graph check` accepts is a rule that makes sense.
    pub fn rule(&self) -> resurgam_core::schedule::Rule {
        let rule = resurgam_core::schedule::Rule::cron(seconds_first(&self.expression));
        match &self.timezone {
            Some(zone) => rule.in_zone(zone.clone()),
            None => rule,
        }
    }
}

/// Graphs write the second at the end, our schedules at the beginning.
fn seconds_first(expression: &str) -> String {
    let fields: Vec<&str> = expression.split_whitespace().collect();
    match fields.split_last() {
        Some((second, minutes @ [_, _, _, _, _])) => format!("{second} {}", minutes.join(" ")),
        _ => expression.trim().to_string(),
    }
}
