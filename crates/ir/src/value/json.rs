//! Values from JSON and back. The order of keys is kept both ways.

use std::fmt;
use std::sync::Arc;

use resurgam_core::{Failure, Payload};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, Serialize, SerializeMap, SerializeSeq, Serializer};

use super::{Value, raised};

/// What stands in the message of an integer that has no place.
const BEYOND: &str = "an integer does not fit into 64 bits";

impl Value {
    /// Reads what an action answered.
    pub(crate) fn from_payload(payload: &Payload, what: &str) -> Result<Self, Failure> {
        Value::from_text(payload.as_str()).map_err(|error| {
            let type_name = if error.starts_with(BEYOND) { "OverflowError" } else { "ValueError" };
            raised(type_name, format!("read the result of {what}: {error}"))
        })
    }

    /// Reads JSON. The keys of objects stay in their order, and an integer beyond 64 bits is an
    /// error: as a float it would be another number.
    ///
    /// ```
    /// use resurgam_ir::Value;
    ///
    /// assert!(Value::from_text(r#"{"cents": 4200}"#).is_ok());
    /// assert!(Value::from_text("36893488147419103232").is_err());
    /// ```
    pub fn from_text(text: &str) -> Result<Self, String> {
        match wide_integer(text) {
            Some(integer) => Err(format!("{BEYOND}: {integer}")),
            None => serde_json::from_str(text).map_err(|error| error.to_string()),
        }
    }

    /// Writes it for an action or as a result.
    pub(crate) fn to_payload(&self) -> Result<Payload, Failure> {
        Payload::encode(self).map_err(|error| raised("ValueError", error.to_string()))
    }

    /// A value from `serde_json`, whose objects are sorted by key.
    pub fn from_json(json: &serde_json::Value) -> Result<Self, String> {
        serde_json::from_value(json.clone()).map_err(|error| error.to_string())
    }
}

/// An integer in a JSON text that has no room in 64 bits.
fn wide_integer(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let (mut at, mut quoted) = (0, false);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quoted => at += 1,
            b'"' => quoted = !quoted,
            b'-' | b'0'..=b'9' if !quoted => {
                let start = at;
                let is_number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                at += bytes[at..].iter().take_while(|byte| is_number(byte)).count();
                let number = &text[start..at];
                let whole = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
                if whole && number.len() > 18 && number.parse::<i64>().is_err() {
                    return Some(number);
                }
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::None => to.serialize_unit(),
            Value::Bool(value) => to.serialize_bool(*value),
            Value::Int(value) => to.serialize_i64(*value),
            Value::Float(value) if value.is_finite() => to.serialize_f64(*value),
            Value::Float(value) => Err(S::Error::custom(format!("{value} has no form in JSON"))),
            Value::Str(text) => to.serialize_str(text),
            Value::List(list) => {
                let mut seq = to.serialize_seq(Some(list.items().len()))?;
                list.items().iter().try_for_each(|item| seq.serialize_element(item))?;
                seq.end()
            }
            Value::Dict(dict) => {
                let mut map = to.serialize_map(Some(dict.entries().len()))?;
                for (key, value) in dict.entries() {
                    map.serialize_entry(key.as_str(), value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Read)
    }
}

struct Read;

impl<'de> Visitor<'de> for Read {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::None)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        i64::try_from(value).map(Value::Int).map_err(|_| E::custom(format!("{BEYOND}: {value}")))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::text(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Value::list(items).map_err(|failure| A::Error::custom(failure.message.clone()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            entries.push((Arc::new(key), value));
        }
        Value::dict(entries).map_err(|failure| A::Error::custom(failure.message.clone()))
    }
}
