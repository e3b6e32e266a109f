//! What every program can do without an action.

use std::time::Duration;

use resurgam_core::Failure;
use resurgam_core::duration::LONGEST;

use super::code::Builtin;
use crate::value::{Items, Value, raised};

/// The most numbers of a range that becomes a list.
const LONGEST_RANGE: u64 = 4_000_000;

pub(super) fn call(builtin: Builtin, arguments: &[Value]) -> Result<Value, Failure> {
    match (builtin, arguments) {
        (Builtin::Range, arguments) => {
            let items = range(arguments)?;
            if let Items::Range(_, count, _) = items
                && count > LONGEST_RANGE
            {
                let what =
                    format!("a list of {count} numbers is too long; go through it in a `for`");
                return Err(raised("MemoryError", what));
            }
            Value::list(items.collect())
        }
        (Builtin::Len, [value]) => {
            let length = value.length()?;
            Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
        }
        (Builtin::Enumerate, [items, start @ ..]) => {
            let start = start.first().map_or(Ok(0), int)?;
            let pairs = items.items()?.zip(start..);
            let pairs = pairs.map(|(item, place)| Value::list(vec![Value::Int(place), item]));
            Value::list(pairs.collect::<Result<_, _>>()?)
        }
        (Builtin::IsException, [value]) => Ok(Value::Bool(value.is_exception())),
        _ => Err(raised("TypeError", "the wrong number of arguments")),
    }
}

/// `range(stop)`, `range(start, stop)`, `range(start, stop, step)`.
pub(super) fn range(arguments: &[Value]) -> Result<Items, Failure> {
    let (start, stop, step) = match arguments {
        [stop] => (0, int(stop)?, 1),
        [start, stop] => (int(start)?, int(stop)?, 1),
        [start, stop, step] => (int(start)?, int(stop)?, int(step)?),
        _ => return Err(raised("TypeError", "range takes 1 to 3 arguments")),
    };
    if step == 0 {
        return Err(raised("ValueError", "range() arg 3 must not be zero"));
    }
    let distance = i128::from(stop) - i128::from(start);
    let step_length = i128::from(step).unsigned_abs();
    let count = match (distance > 0) == (step > 0) {
        true => distance.unsigned_abs().div_ceil(step_length),
        false => 0,
    };
    Ok(Items::Range(start, u64::try_from(count).unwrap_or(u64::MAX), step))
}

fn int(value: &Value) -> Result<i64, Failure> {
    match value {
        Value::Int(value) => Ok(*value),
        Value::Bool(value) => Ok(i64::from(*value)),
        other => {
            let what =
                format!("'{}' object cannot be interpreted as an integer", other.type_name());
            Err(raised("TypeError", what))
        }
    }
}

/// A dict from keys and values in turn.
pub(super) fn dict(parts: Vec<Value>) -> Result<Value, Failure> {
    let mut entries = Vec::with_capacity(parts.len() / 2);
    let mut parts = parts.into_iter();
    while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
        match key {
            Value::Str(key) => entries.push((key, value)),
            other => {
                let what = format!("the keys of a dict are texts, not '{}'", other.type_name());
                return Err(raised("TypeError", what));
            }
        }
    }
    Value::dict(entries)
}

/// A number of seconds to wait. Less than nothing is nothing, as in Python.
pub(super) fn duration(seconds: &Value) -> Result<Duration, Failure> {
    let time = match seconds {
        Value::Int(seconds) => Ok(Duration::from_secs(u64::try_from(*seconds).unwrap_or(0))),
        Value::Bool(seconds) => Ok(Duration::from_secs(u64::from(*seconds))),
        Value::Float(seconds) if seconds.is_nan() => {
            return Err(raised("ValueError", "the time to sleep is not a number"));
        }
        Value::Float(seconds) => Duration::try_from_secs_f64(seconds.max(0.0)),
        other => {
            let what = format!("sleep takes a number of seconds, not '{}'", other.type_name());
            return Err(raised("TypeError", what));
        }
    };
    let too_long = || raised("OverflowError", "the time to sleep is longer than 100 years");
    time.ok().filter(|time| *time <= LONGEST).ok_or_else(too_long)
}
