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
    /// Adds a field.
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

/// The most columns of a value that stays in one line.
const COLUMNS: usize = 80;

/// JSON for people: what is short stays in one line, what is longer gets a line for each entry. The
/// text is only laid out anew, so numbers keep their digits and objects their order.
pub(crate) fn readable(json: &str) -> String {
    match json.chars().count() <= COLUMNS && !json.contains('\n') {
        true => json.to_string(),
        false => laid_out(json),
    }
}

/// JSON with a line for each entry of its lists and objects.
fn laid_out(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut depth = 0_usize;
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    let mut chars = json.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                out.push(c);
                let mut escaped = false;
                for c in chars.by_ref() {
                    out.push(c);
                    if c == '"' && !escaped {
                        break;
                    }
                    escaped = c == '\\' && !escaped;
                }
            }
            '{' | '[' => {
                out.push(c);
                while chars.next_if(char::is_ascii_whitespace).is_some() {}
                match chars.next_if(|c| matches!(c, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn what_is_long_gets_a_line_for_each_entry_and_nothing_else_changes() {
        for short in [r#"{"b":[1,2.50], "a":{}}"#, "[ ]", "1e308"] {
            assert_eq!(readable(short), short);
        }
        let text = r#""a \"b\\, {c}: [\\""#;
        assert_eq!(readable(&format!("[1,\n{text}]")), format!("[\n  1,\n  {text}\n]"));
        let long = "x".repeat(80);
        assert_eq!(
            readable(&format!("{{\"k\":[\"{long}\",{{}},[ 1e308 ]],\"a\":null}}")),
            format!(
                "{{\n  \"k\": [\n    \"{long}\",\n    {{}},\n    [\n      1e308\n    ]\n  ],\n  \
                 \"a\": null\n}}"
            )
        );
    }

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
