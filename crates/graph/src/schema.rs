//! The JSON Schema of templates, for editors and for whoever writes them with a program.
//!
//! It is made from the types of the model. It accepts everything that the reader accepts; what a
//! schema cannot say (one root, no cycles, what inputs refer to) only the reader refuses.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::model::Graph;

/// A graph of nodes for Resurgam.
#[derive(JsonSchema)]
#[schemars(title = "Graph template")]
#[allow(dead_code)] // Only its schema is used.
struct Template {
    /// Secrets by name. They are encrypted before anything is stored.
    secrets: BTreeMap<String, String>,
    #[serde(flatten)]
    graph: Graph,
}

/// The JSON Schema of templates (draft 2020-12).
pub fn json_schema() -> Value {
    let settings = SchemaSettings::draft2020_12();
    settings.into_generator().into_root_schema_for::<Template>().to_value()
}

/// Whole numbers as they are read: also written as a text, or with a fraction that is zero.
fn count(minimum: u8) -> Value {
    let digits =
        if minimum == 0 { r"^\s*\+?[0-9]+(\.0+)?\s*$" } else { r"^\s*\+?0*[1-9][0-9]*(\.0+)?\s*$" };
    serde_json::json!([
        {"type": "integer", "minimum": minimum},
        {"type": "string", "pattern": digits},
        {"const": true},
    ])
}

pub(crate) fn count_from_zero(_: &mut SchemaGenerator) -> Schema {
    let mut forms = count(0);
    if let Some(forms) = forms.as_array_mut() {
        forms.push(serde_json::json!({"const": false}));
    }
    json_schema!({"anyOf": forms})
}

pub(crate) fn count_above_zero(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": count(1)})
}

pub(crate) fn count_or_null(_: &mut SchemaGenerator) -> Schema {
    let mut forms = count(1);
    if let Some(forms) = forms.as_array_mut() {
        forms.push(serde_json::json!({"type": "null"}));
    }
    json_schema!({"anyOf": forms})
}

pub(crate) fn timeout(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": "^\\s*([0-9.]+\\s*(ms|s|m|h|d)\\s*)+$"},
        {"const": true},
        {"type": "null"},
    ]})
}

pub(crate) fn gate(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "null"], "minLength": 1, "maxLength": 200})
}

/// The words and objects that a retry policy knows, with times above zero.
pub(crate) fn on_exhausted(_: &mut SchemaGenerator) -> Schema {
    let time = json!({"type": "string", "pattern": "^\\s*([0-9.]+\\s*(ms|s|m|h|d)\\s*)+$"});
    let object = |required: &[&str], properties: Value| {
        json!({
            "type": "object",
            "required": required,
            "properties": properties,
            "additionalProperties": false,
        })
    };
    let fallback = json!({"oneOf": [
        object(&["activity"], json!({"activity": {"type": "string", "minLength": 1}})),
        object(&["value"], json!({"value": {}})),
    ]});
    json_schema!({
        "description": "What follows when the attempts of a node run out.",
        "oneOf": [
            {"enum": ["fail", "dead_letter", "pause", "compensate"]},
            object(&["pause"], json!({"pause": object(&[], json!({"for": time}))})),
            object(&["fallback"], json!({"fallback": fallback})),
        ],
    })
}

/// Default values may be anything: they become text.
pub(crate) fn any_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object"})
}
