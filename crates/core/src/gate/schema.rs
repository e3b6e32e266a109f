//! The JSON Schema of a gate's settings, for editors and for checking files without us.

use serde_json::{Value, json};

/// The schema, draft 2020-12.
///
/// ```
/// let schema = resurgam_core::gate::json_schema();
/// assert_eq!(schema["title"], "Resurgam gate");
/// ```
pub fn json_schema() -> Value {
    let count = json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX });
    let share = json!({ "type": "number", "minimum": 0, "maximum": 1 });
    let duration = json!({
        "type": "string",
        "pattern": r"^\s*(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ms|s|m|h|d)\s*)+$",
        "examples": ["500ms", "5s", "2m"],
    });
    let rate = json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1e6 });
    let from_zero = json!({ "type": "number", "minimum": 0, "maximum": 1e6 });
    let object = |required: &[&str], properties: Value| {
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": required,
            "properties": properties,
        })
    };
    let breaker = object(
        &[],
        json!({
            "window": duration,
            "min_calls": count,
            "failure_ratio": { "type": "number", "exclusiveMinimum": 0, "maximum": 1 },
            "probes": count,
            "shut": duration,
            "max_shut": duration,
            "jitter": share,
        }),
    );
    let rates = object(&["per_second"], json!({ "per_second": rate, "burst": count }));
    let budget = object(&[], json!({ "ratio": from_zero, "min_per_second": from_zero }));
    let mut whole = object(
        &[],
        json!({
            "breaker": { "anyOf": [{ "const": true }, breaker] },
            "rate": { "anyOf": [rate, rates] },
            "concurrency": count,
            "budget": { "anyOf": [{ "const": true }, budget] },
        }),
    );
    whole["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    whole["title"] = json!("Resurgam gate");
    whole["description"] =
        json!("When calls to a dependency are held back, and how many of them begin.");
    whole
}
