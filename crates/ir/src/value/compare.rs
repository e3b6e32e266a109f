//! Equality, order and membership.

use std::cmp::Ordering;
use std::sync::Arc;

use resurgam_core::Failure;

use super::{Value, raised};
use crate::ast::Comparison;

impl Value {
    /// `self comparison other`.
    pub(crate) fn compare(&self, comparison: Comparison, other: &Value) -> Result<bool, Failure> {
        match comparison {
            Comparison::Equal => Ok(self == other),
            Comparison::NotEqual => Ok(self != other),
            Comparison::In => other.contains(self),
            Comparison::NotIn => other.contains(self).map(|found| !found),
            order => {
                let ordering = self.order(other, order)?;
                Ok(ordering.is_some_and(|ordering| match order {
                    Comparison::Less => ordering.is_lt(),
                    Comparison::LessEqual => ordering.is_le(),
                    Comparison::Greater => ordering.is_gt(),
                    _ => ordering.is_ge(),
                }))
            }
        }
    }

    /// Which comes first; none of them when one is no number at all.
    fn order(&self, other: &Value, sign: Comparison) -> Result<Option<Ordering>, Failure> {
        if let (Some(a), Some(b)) = (self.number(), other.number()) {
            return Ok(a.order(b));
        }
        match (self, other) {
            // The order of bytes is that of code points.
            (Value::Str(a), Value::Str(b)) => Ok(Some(a.cmp(b))),
            (Value::List(a), Value::List(b)) => {
                let mut pairs = a.items().iter().zip(b.items());
                match pairs.find(|(a, b)| a != b) {
                    Some((a, b)) => a.order(b, sign),
                    None => Ok(Some(a.items().len().cmp(&b.items().len()))),
                }
            }
            (a, b) => {
                let what = format!(
                    "'{}' not supported between instances of '{}' and '{}'",
                    sign.text(),
                    a.type_name(),
                    b.type_name()
                );
                Err(raised("TypeError", what))
            }
        }
    }

    /// `item in self`.
    fn contains(&self, item: &Value) -> Result<bool, Failure> {
        match self {
            Value::List(list) => Ok(list.items().contains(item)),
            Value::Dict(dict) => match item {
                Value::Str(key) => Ok(dict.get(key).is_some()),
                Value::List(_) | Value::Dict(_) => {
                    let what = format!("unhashable type: '{}'", item.type_name());
                    Err(raised("TypeError", what))
                }
                _ => Ok(false),
            },
            Value::Str(text) => match item {
                Value::Str(part) => Ok(text.contains(part.as_str())),
                other => {
                    let what = "'in <string>' requires string as left operand, not";
                    Err(raised("TypeError", format!("{what} {}", other.type_name())))
                }
            },
            other => {
                let what = format!("argument of type '{}' is not iterable", other.type_name());
                Err(raised("TypeError", what))
            }
        }
    }
}

/// As Python's `==`: `1 == 1.0 == True`, and dicts do not mind the order of their keys.
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        if let (Some(a), Some(b)) = (self.number(), other.number()) {
            return a.order(b) == Some(Ordering::Equal);
        }
        match (self, other) {
            (Value::None, Value::None) => true,
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::List(a), Value::List(b)) => Arc::ptr_eq(a, b) || a.items() == b.items(),
            (Value::Dict(a), Value::Dict(b)) => {
                let same = |(key, value): &(Arc<String>, Value)| b.get(key) == Some(value);
                Arc::ptr_eq(a, b)
                    || (a.entries().len() == b.entries().len() && a.entries().iter().all(same))
            }
            _ => false,
        }
    }
}
