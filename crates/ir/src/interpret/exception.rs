//! Failures as programs see them, and many failures as one.

use std::sync::Arc;

use resurgam_core::{Failure, Kind};
use serde_json::{Value as Json, json};

use crate::hierarchy::type_of;
use crate::value::{Value, small_dict};

/// How many of the other failures are kept with the first one.
const OTHERS: usize = 20;

/// How much of their messages is kept.
const MESSAGE: usize = 300;

/// What `except .. as` binds: `type`, `message`, `module`, `traceback` and `values`.
pub(super) fn exception(failure: &Failure) -> Result<Value, Failure> {
    let details = failure.details.as_ref();
    let told = |key: &str| details.and_then(|details| details.get(key)).map(read);
    let place = || {
        let line = details?.get("line")?.as_u64()?;
        let function = details?.get("function")?.as_str()?;
        Some(Value::text(format!("line {line}, in {function}")))
    };
    let dict = small_dict([
        ("type", Value::text(type_of(failure))),
        ("message", Value::text(&failure.message)),
        ("module", told("module").unwrap_or_default()),
        ("traceback", told("traceback").or_else(place).unwrap_or_default()),
        ("values", told("values").or_else(|| details.map(read)).unwrap_or_default()),
    ])?;
    Ok(Value::Dict(Arc::new(dict.into_exception())))
}

/// Details that cannot be read are not worth another failure.
fn read(details: &Json) -> Value {
    Value::from_json(details).unwrap_or_default()
}

/// The values of jobs that ran beside each other, in their order. When some failed, the first of
/// those in their order is raised, with the others in its details.
pub(super) fn settled(outcomes: Vec<Result<Value, Failure>>) -> Result<Value, Failure> {
    let mut values = Vec::with_capacity(outcomes.len());
    let mut failures = Vec::new();
    for (place, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(value) => values.push(value),
            Err(failure) => failures.push((place, failure)),
        }
    }
    if let Some(cancelled) = failures.iter().position(|(_, f)| f.kind == Kind::Cancelled) {
        return Err(failures.swap_remove(cancelled).1);
    }
    let mut failures = failures.into_iter();
    match failures.next() {
        None => Value::list(values),
        Some((_, first)) => Err(with_others(first, failures.collect())),
    }
}

fn with_others(mut first: Failure, others: Vec<(usize, Failure)>) -> Failure {
    if others.is_empty() {
        return first;
    }
    let told = others.iter().take(OTHERS).map(|(place, other)| {
        let message: String = other.message.chars().take(MESSAGE).collect();
        json!({ "index": place, "type": type_of(other), "message": message })
    });
    let mut details = match first.details.take() {
        None => json!({}),
        Some(Json::Object(details)) => Json::Object(details),
        Some(details) => json!({ "details": details }),
    };
    details["others"] = Json::Array(told.collect());
    details["failed"] = json!(others.len() + 1);
    first.details = Some(details);
    first
}
