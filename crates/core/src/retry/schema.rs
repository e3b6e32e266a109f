//! The JSON Schema of a policy, for editors and for checking files without us.
//!
//! It is written from the same word lists that the reader uses. What a schema cannot say (a
//! heartbeat below its attempt timeout, a rule behind a catch-all) is said by `policy check`.

use serde_json::{Value, json};

use super::form;
use super::preset;
use crate::Kind;

/// The schema, draft 2020-12.
///
/// ```
/// let schema = resurgam_core::retry::json_schema();
/// assert_eq!(schema["title"], "Resurgam retry policy");
/// ```
pub fn json_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Resurgam retry policy",
        "description": "When, how often and how long an activity is tried again: an object, the \
            name of a preset, a number of attempts, or false for a single attempt.",
        "anyOf": [
            { "$ref": "#/$defs/policy" },
            { "enum": words(&preset::ALL) },
            { "type": "integer", "minimum": 1, "maximum": u32::MAX },
            { "type": "boolean" },
        ],
        "$defs": {
            "policy": policy(),
            "rule": rule(),
            "match": matcher(),
            "backoff": backoff(),
            "jitter": jitter(),
            "exhausted": exhausted(),
            "limit": {
                "anyOf": [
                    { "type": "integer", "minimum": 1, "maximum": u32::MAX },
                    { "const": "unlimited" },
                ],
            },
            "duration": {
                "type": "string",
                "pattern": r"^\s*(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ms|s|m|h|d)\s*)+$",
                "examples": ["250ms", "1.5s", "2m", "1h", "7d"],
            },
            "verdict": { "enum": words(&form::VERDICTS) },
            "names": { "type": "array", "items": { "type": "string" } },
        },
    })
}

fn policy() -> Value {
    object(
        &[],
        json!({
            "max_attempts": about("#/$defs/limit", "Bound on attempts, the first included."),
            "backoff": about("#/$defs/backoff", "How the delay grows."),
            "max_delay": {
                "description": "Bound on one delay.",
                "anyOf": [{ "$ref": "#/$defs/duration" }, { "const": "unlimited" }],
            },
            "jitter": about("#/$defs/jitter", "How a delay is spread."),
            "cap": { "enum": words(&form::CAP_ORDERS) },
            "max_elapsed": about("#/$defs/duration", "Bound on the time; only stops retrying."),
            "deadline": { "enum": words(&form::DEADLINE_RULES) },
            "clock_from": { "enum": words(&form::CLOCKS) },
            "timeouts": object(&[], json!({
                "attempt": reference("#/$defs/duration"),
                "heartbeat": reference("#/$defs/duration"),
                "queue": reference("#/$defs/duration"),
                "total": reference("#/$defs/duration"),
            })),
            "never_for": about("#/$defs/names", "Failure types that are never tried again."),
            "rules": { "type": "array", "items": { "$ref": "#/$defs/rule" } },
            "otherwise": about("#/$defs/verdict", "What happens when no rule matches."),
            "lost_worker": object(&[], json!({
                "max": { "type": "integer", "minimum": 0, "maximum": u32::MAX },
                "initial": reference("#/$defs/duration"),
                "max_delay": reference("#/$defs/duration"),
            })),
            "server_delay": object(&[], json!({
                "mode": { "enum": words(&form::SERVER_DELAY_MODES) },
                "max": reference("#/$defs/duration"),
                "jitter": { "type": "number", "minimum": 0, "maximum": 10 },
            })),
            "idempotency": { "enum": words(&form::IDEMPOTENCIES) },
            "on_exhausted": reference("#/$defs/exhausted"),
        }),
    )
}

fn rule() -> Value {
    object(
        &[],
        json!({
            "on": reference("#/$defs/match"),
            "then": reference("#/$defs/verdict"),
            "max_attempts": reference("#/$defs/limit"),
            "backoff": reference("#/$defs/backoff"),
            "max_delay": reference("#/$defs/duration"),
            "jitter": reference("#/$defs/jitter"),
            "on_exhausted": reference("#/$defs/exhausted"),
        }),
    )
}

fn matcher() -> Value {
    let kinds = Kind::ALL.map(Kind::name);
    object(
        &[],
        json!({
            "types": reference("#/$defs/names"),
            "kinds": { "type": "array", "items": { "enum": kinds } },
            "codes": reference("#/$defs/names"),
            "subclass": { "type": "boolean", "default": true },
            "message": { "type": "string", "format": "regex" },
        }),
    )
}

fn backoff() -> Value {
    let duration = || reference("#/$defs/duration");
    let positive = json!({ "type": "number", "exclusiveMinimum": 0 });
    let count = |least: u32| json!({ "type": "integer", "minimum": least, "maximum": u32::MAX });
    let of = |name: &str, required: &[&str], mut properties: Value| {
        properties["type"] = json!({ "const": name });
        let required: Vec<&str> = ["type"].iter().chain(required).copied().collect();
        object(&required, properties)
    };
    let phase = json!({
        "type": "array",
        "prefixItems": [count(1), reference("#/$defs/backoff")],
        "minItems": 2,
        "maxItems": 2,
    });
    json!({
        "oneOf": [
            of("none", &[], json!({})),
            of("fixed", &["delay"], json!({ "delay": duration() })),
            of("linear", &["initial"], json!({ "initial": duration(), "increment": duration() })),
            of("exponential", &["initial"],
                json!({ "initial": duration(), "multiplier": positive })),
            of("polynomial", &["scale", "power"], json!({
                "scale": duration(), "offset": duration(), "shift": count(0),
                "power": { "type": "number", "minimum": 0 },
            })),
            of("fibonacci", &["initial"], json!({ "initial": duration() })),
            of("schedule", &["delays"],
                json!({ "delays": { "type": "array", "items": duration(), "minItems": 1 } })),
            of("phases", &["phases"],
                json!({ "phases": { "type": "array", "items": phase, "minItems": 1 } })),
        ],
    })
}

fn jitter() -> Value {
    let factor = json!({ "type": "number", "minimum": 0, "maximum": 10 });
    let share = json!({ "type": "number", "minimum": 0, "maximum": 1 });
    json!({
        "oneOf": [
            { "enum": words(&form::JITTERS) },
            object(&["proportional"], json!({ "proportional": share })),
            object(&["lo", "hi"], json!({ "lo": factor, "hi": factor })),
            object(&["additive"], json!({ "additive": reference("#/$defs/duration") })),
        ],
    })
}

fn exhausted() -> Value {
    let pause = object(&[], json!({ "for": reference("#/$defs/duration") }));
    let fallback = json!({
        "oneOf": [
            object(&["activity"], json!({ "activity": { "type": "string" } })),
            object(&["value"], json!({ "value": {} })),
        ],
    });
    json!({
        "oneOf": [
            { "enum": words(&form::EXHAUSTED) },
            object(&["pause"], json!({ "pause": pause })),
            object(&["fallback"], json!({ "fallback": fallback })),
        ],
    })
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn reference(to: &str) -> Value {
    json!({ "$ref": to })
}

fn about(to: &str, description: &str) -> Value {
    json!({ "$ref": to, "description": description })
}

fn words<T>(words: &[(&'static str, T)]) -> Vec<&'static str> {
    words.iter().map(|(word, _)| *word).collect()
}
