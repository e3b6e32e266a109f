//! JSON objects whose fields stay in the order in which they are written.
//!
//! Users' values are passed on as they are stored: taken apart, a long number would be rounded and
//! the keys of an object would be sorted.

use resurgam_core::Payload;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// An object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Form(Vec<(&'static str, Box<RawValue>)>);

impl Form {
    /// The same with another field.
    pub(crate) fn with(mut self, name: &'static str, value: impl Serialize) -> Self {
        self.set(name, value);
        self
    }

    /// Adds a field.
    pub(crate) fn set(&mut self, name: &'static str, value: impl Serialize) {
        // What is told here has a JSON form: texts, numbers, and lists of them.
        let value = to_raw_value(&value).unwrap_or_else(|error| raw(&error.to_string()));
        self.0.push((name, value));
    }

    /// The fields of both.
    pub(crate) fn and(mut self, more: Form) -> Self {
        self.0.extend(more.0);
        self
    }
}

impl Serialize for Form {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// A user's value. What is not JSON, which no encoder makes, is told as text.
pub(crate) fn value(payload: &Payload) -> Box<RawValue> {
    payload.decode().unwrap_or_else(|_| raw(payload.as_str()))
}

fn raw(text: &str) -> Box<RawValue> {
    to_raw_value(text).expect("a text has a JSON form")
}

/// One line of JSON.
pub(crate) fn line(form: &impl Serialize) -> String {
    serde_json::to_string(form).unwrap_or_else(|error| raw(&error.to_string()).to_string())
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn fields_keep_their_order_and_values_their_digits() {
        let long = Payload::from_text("{\"z\": 123456789012345678901234567890, \"a\": 0.10}");
        let form = Form::default().with("id", "x").with("result", value(&long)).with("at", 7);
        assert_eq!(
            line(&form),
            "{\"id\":\"x\",\"result\":{\"z\": 123456789012345678901234567890, \"a\": 0.10},\"at\":7}"
        );
    }
}
