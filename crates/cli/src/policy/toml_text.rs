//! Policies written in TOML: the value, and the place of every part of it.
//!
//! A policy is read as a JSON value whatever it was written in. What TOML can say and JSON
//! cannot (dates, numbers that are none) becomes text, so that the reader of the field refuses it
//! and shows it as it was typed.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeArray, DeFloat, DeInteger, DeTable, DeValue};

use super::locate::{Inside, Place};

/// Something that is not TOML, and where.
#[derive(Debug, PartialEq)]
pub(crate) struct SyntaxError {
    pub(crate) message: String,
    pub(crate) span: Range<usize>,
}

/// Reads a TOML text; every syntax error is reported, in the order of the text.
pub(crate) fn parse(text: &str) -> Result<(Value, Place), Vec<SyntaxError>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        let (value, inside) = table(document.get_ref());
        return Ok((value, Place { span: 0..text.len(), inside }));
    }
    let mut errors: Vec<SyntaxError> = errors
        .iter()
        .map(|error| {
            let span = error.span().unwrap_or_default();
            SyntaxError { message: error.message().to_string(), span }
        })
        .collect();
    errors.sort_by_key(|error| error.span.start);
    Err(errors)
}

fn table(table: &DeTable<'_>) -> (Value, Inside) {
    let (mut map, mut places) = (Map::new(), BTreeMap::new());
    for (key, entry) in table {
        let (value, inside) = value(entry.get_ref());
        // The value of a table is its header; the key is inside that.
        let (name, content) = (key.span(), entry.span());
        let span = name.start.min(content.start)..name.end.max(content.end);
        map.insert(key.get_ref().to_string(), value);
        places.insert(key.get_ref().to_string(), Place { span, inside });
    }
    (Value::Object(map), Inside::Fields(places))
}

fn array(array: &DeArray<'_>) -> (Value, Inside) {
    let entry = |entry: &Spanned<DeValue<'_>>| {
        let (value, inside) = value(entry.get_ref());
        (value, Place { span: entry.span(), inside })
    };
    let (values, places) = array.iter().map(entry).unzip();
    (Value::Array(values), Inside::Entries(places))
}

fn value(value: &DeValue<'_>) -> (Value, Inside) {
    let plain = match value {
        DeValue::Table(entries) => return table(entries),
        DeValue::Array(entries) => return array(entries),
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => integer(number),
        DeValue::Float(number) => float(number),
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(date) => Value::String(date.to_string()),
    };
    (plain, Inside::Nothing)
}

fn integer(number: &DeInteger<'_>) -> Value {
    match i128::from_str_radix(number.as_str(), number.radix()).ok().and_then(Number::from_i128) {
        Some(number) => Value::Number(number),
        None => Value::String(number.to_string()),
    }
}

fn float(number: &DeFloat<'_>) -> Value {
    match number.as_str().parse().ok().and_then(Number::from_f64) {
        Some(number) => Value::Number(number),
        None => Value::String(number.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;
    use serde_json::json;

    const POLICY: &str = "\
max_attempts = 1_000
backoff.type = 'fixed'

[timeouts]
attempt = '1s'

[[rules]]
then = 'fail'

[[rules]]
on = { types = ['A', 'B'] }
";

    #[test]
    fn the_value_is_that_of_the_same_json() {
        let (value, _) = parse(POLICY).unwrap();
        let expected = json!({
            "max_attempts": 1000,
            "backoff": {"type": "fixed"},
            "timeouts": {"attempt": "1s"},
            "rules": [{"then": "fail"}, {"on": {"types": ["A", "B"]}}],
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn what_json_cannot_say_becomes_text() {
        let (value, _) = parse("a = nan\nb = -inf\nc = 2024-01-01\nd = 0xFF\ne = 1.5e3").unwrap();
        let expected = json!({"a": "nan", "b": "-inf", "c": "2024-01-01", "d": 255, "e": 1500.0});
        assert_eq!(value, expected);
        let (value, _) = parse("a = 99999999999999999999999999999999999999999999").unwrap();
        assert!(value["a"].is_string(), "{value}");
    }

    #[test]
    fn a_path_leads_to_the_field_with_its_name() {
        let (_, root) = parse(POLICY).unwrap();
        for (path, text) in [
            ("max_attempts", "max_attempts = 1_000"),
            ("backoff.type", "type = 'fixed'"),
            ("backoff.delay", "backoff"),
            ("timeouts.attempt", "attempt = '1s'"),
            ("timeouts", "[timeouts]"),
            ("rules[1]", "[[rules]]"),
            ("rules[1].on.types[1]", "'B'"),
        ] {
            assert_eq!(&POLICY[root.find(path).clone()], text, "{path}");
        }
    }

    #[test]
    fn every_syntax_error_is_reported_in_order() {
        let errors = parse("a = \nb = 3\nc 4\n").unwrap_err();
        let places: Vec<usize> = errors.iter().map(|error| error.span.start).collect();
        assert_eq!(places, [4, 13]);
    }
}
