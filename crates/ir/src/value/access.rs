//! Indexes, fields, lengths and what a loop goes through.

use std::sync::Arc;

use resurgam_core::Failure;

use super::{Dict, Value, raised};

impl Value {
    /// `self[index]`.
    pub(crate) fn index(&self, index: &Value) -> Result<Value, Failure> {
        match (self, index) {
            (Value::Dict(dict), Value::Str(key)) => entry(dict, key),
            (Value::Dict(_), Value::List(_) | Value::Dict(_)) => {
                Err(raised("TypeError", format!("unhashable type: '{}'", index.type_name())))
            }
            // Keys are texts, so nothing else is one.
            (Value::Dict(_), other) => Err(raised("KeyError", shown(other))),
            (Value::List(list), index) => {
                let at = place(index, list.items().len(), "list")?;
                Ok(list.items()[at].clone())
            }
            (Value::Str(text), index) => {
                let length = if text.is_ascii() { text.len() } else { text.chars().count() };
                let at = place(index, length, "string")?;
                let found = text.chars().nth(at).map(String::from).unwrap_or_default();
                Ok(Value::text(found))
            }
            (other, _) => {
                let what = format!("'{}' object is not subscriptable", other.type_name());
                Err(raised("TypeError", what))
            }
        }
    }

    /// `self.name`.
    pub(crate) fn field(&self, name: &str) -> Result<Value, Failure> {
        match self {
            Value::Dict(dict) => entry(dict, name),
            other => {
                let what = format!("'{}' object has no attribute '{name}'", other.type_name());
                Err(raised("AttributeError", what))
            }
        }
    }

    /// `len(self)`.
    pub(crate) fn length(&self) -> Result<usize, Failure> {
        match self {
            Value::Str(text) => Ok(text.chars().count()),
            Value::List(list) => Ok(list.items().len()),
            Value::Dict(dict) => Ok(dict.entries().len()),
            other => {
                let what = format!("object of type '{}' has no len()", other.type_name());
                Err(raised("TypeError", what))
            }
        }
    }

    /// What a loop goes through: items, characters or keys.
    pub(crate) fn items(&self) -> Result<Items, Failure> {
        match self {
            Value::List(list) => Ok(Items::List(list.clone(), 0)),
            Value::Str(text) => Ok(Items::Text(text.clone(), 0)),
            Value::Dict(dict) => Ok(Items::Keys(dict.clone(), 0)),
            other => {
                let what = format!("'{}' object is not iterable", other.type_name());
                Err(raised("TypeError", what))
            }
        }
    }
}

/// A loop's way through a value.
#[derive(Clone, Debug)]
pub(crate) enum Items {
    List(Arc<super::List>, usize),
    Text(Arc<String>, usize),
    Keys(Arc<Dict>, usize),
    /// The next one, the number of those left, and the step.
    Range(i64, u64, i64),
}

impl Iterator for Items {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        match self {
            Items::List(list, at) => {
                *at += 1;
                list.items().get(*at - 1).cloned()
            }
            Items::Text(text, at) => {
                let next = text[*at..].chars().next()?;
                *at += next.len_utf8();
                Some(Value::text(next))
            }
            Items::Keys(dict, at) => {
                *at += 1;
                dict.entries().get(*at - 1).map(|(key, _)| Value::Str(key.clone()))
            }
            Items::Range(next, left, step) => {
                *left = left.checked_sub(1)?;
                let value = *next;
                *next = next.wrapping_add(*step);
                Some(Value::Int(value))
            }
        }
    }
}

fn entry(dict: &Dict, key: &str) -> Result<Value, Failure> {
    dict.get(key).cloned().ok_or_else(|| raised("KeyError", format!("'{key}'")))
}

fn place(index: &Value, length: usize, what: &str) -> Result<usize, Failure> {
    let index = match index {
        Value::Bool(index) => i64::from(*index),
        Value::Int(index) => *index,
        other => {
            let what = format!("{what} indices must be integers, not '{}'", other.type_name());
            return Err(raised("TypeError", what));
        }
    };
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let place = if index < 0 { index.saturating_add(length) } else { index };
    let place = usize::try_from(place).ok().filter(|_| place < length);
    place.ok_or_else(|| raised("IndexError", format!("{what} index out of range")))
}

fn shown(value: &Value) -> String {
    match value {
        Value::None => "None".to_string(),
        Value::Bool(true) => "True".to_string(),
        Value::Bool(false) => "False".to_string(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => format!("{value:?}"),
        Value::Str(text) => format!("'{text}'"),
        other => other.type_name().to_string(),
    }
}
