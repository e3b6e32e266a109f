//! `+ - * / // %`, also of texts and lists.

use std::sync::Arc;

use resurgam_core::Failure;

use super::number::{calculate, negate};
use super::{LARGEST, Value, raised, too_large};
use crate::ast::Operator;

impl Value {
    /// `self operator other`. Takes `self`, so that what nobody else holds is changed in place.
    pub(crate) fn calculate(self, operator: Operator, other: &Value) -> Result<Value, Failure> {
        if let (Some(a), Some(b)) = (self.number(), other.number()) {
            return calculate(operator, a, b);
        }
        match (operator, self, other) {
            (Operator::Add, Value::Str(text), Value::Str(more)) => concat(text, more),
            (Operator::Add, Value::List(mut list), Value::List(more)) => {
                Arc::make_mut(&mut list).extend(more.items())?;
                Ok(Value::List(list))
            }
            (Operator::Multiply, value, times) if value.is_sequence() => repeat(&value, times),
            (Operator::Multiply, times, value) if value.is_sequence() => repeat(value, &times),
            (Operator::Modulo, Value::Str(_), _) => {
                Err(raised("TypeError", "texts are not formatted with %; add them with +"))
            }
            (operator, a, b) => Err(unsupported(operator, &a, b)),
        }
    }

    /// `-self`.
    pub(crate) fn negate(&self) -> Result<Value, Failure> {
        let bad = || {
            let what = format!("bad operand type for unary -: '{}'", self.type_name());
            raised("TypeError", what)
        };
        self.number().ok_or_else(bad).and_then(negate)
    }

    fn is_sequence(&self) -> bool {
        matches!(self, Value::Str(_) | Value::List(_))
    }
}

fn concat(mut text: Arc<String>, more: &str) -> Result<Value, Failure> {
    if (text.len() + more.len()) as u64 > LARGEST {
        return Err(too_large());
    }
    Arc::make_mut(&mut text).push_str(more);
    Ok(Value::Str(text))
}

fn repeat(value: &Value, times: &Value) -> Result<Value, Failure> {
    let times = match times {
        Value::Bool(times) => i64::from(*times),
        Value::Int(times) => *times,
        other => {
            let what = "can't multiply sequence by non-int of type";
            return Err(raised("TypeError", format!("{what} '{}'", other.type_name())));
        }
    };
    let times = usize::try_from(times).unwrap_or(0);
    if !value.is_true() {
        return Ok(value.clone());
    }
    if value.extent().size.saturating_mul(times as u64) > LARGEST {
        return Err(too_large());
    }
    match value {
        Value::Str(text) => Ok(Value::text(text.repeat(times))),
        Value::List(list) => {
            let items = std::iter::repeat_n(list.items(), times).flatten().cloned();
            Value::list(items.collect())
        }
        _ => Ok(Value::None),
    }
}

fn unsupported(operator: Operator, a: &Value, b: &Value) -> Failure {
    let message = match (operator, a, b) {
        (Operator::Add, Value::Str(_), other) => {
            format!("can only concatenate str (not \"{}\") to str", other.type_name())
        }
        (Operator::Add, Value::List(_), other) => {
            format!("can only concatenate list (not \"{}\") to list", other.type_name())
        }
        (operator, a, b) => format!(
            "unsupported operand type(s) for {}: '{}' and '{}'",
            operator.text(),
            a.type_name(),
            b.type_name()
        ),
    };
    raised("TypeError", message)
}

impl Value {
    /// `self = self + other`, without copying what nobody else holds: a loop that collects a
    /// thousand items copies a thousand, and not half a million. After an error `self` is as it
    /// was.
    pub(crate) fn append(&mut self, other: &Value) -> Result<(), Failure> {
        match (&mut *self, other) {
            (Value::List(list), Value::List(more)) => {
                // Twice itself: the second one holds it, so it is copied.
                Arc::make_mut(list).extend(more.items())
            }
            (Value::Str(text), Value::Str(more)) => {
                if (text.len() + more.len()) as u64 > LARGEST {
                    return Err(too_large());
                }
                Arc::make_mut(text).push_str(more);
                Ok(())
            }
            _ => {
                *self = self.clone().calculate(Operator::Add, other)?;
                Ok(())
            }
        }
    }
}
