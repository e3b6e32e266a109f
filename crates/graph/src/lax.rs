//! Values that are read as generously as graphs are used to: whole numbers that are written as
//! text, and texts of anything.

use serde_json::{Number, Value};

const NOT_WHOLE: &str = "Input should be a valid integer";

/// A whole number, also written as `"3"`, `3.0` or `true`.
pub(crate) fn whole(value: &Value) -> Result<i128, String> {
    match value {
        Value::Bool(flag) => Ok(i128::from(*flag)),
        Value::Number(number) => whole_number(number),
        Value::String(text) => whole_text(text)
            .ok_or_else(|| format!("{NOT_WHOLE}, unable to parse string as an integer")),
        _ => Err(NOT_WHOLE.to_string()),
    }
}

fn whole_number(number: &Number) -> Result<i128, String> {
    if let Some(whole) = number.as_i128() {
        return Ok(whole);
    }
    match number.as_f64() {
        // A cast saturates, and what is that large is refused by whoever asked.
        Some(float) if float.fract() == 0.0 => Ok(float as i128),
        _ => Err(format!("{NOT_WHOLE}, got a number with a fractional part")),
    }
}

fn whole_text(text: &str) -> Option<i128> {
    let text = text.trim();
    let (digits, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_whole = !fraction.is_empty() && fraction.bytes().all(|digit| digit == b'0');
    if is_whole { digits.parse().ok() } else { None }
}

/// A number that a policy is asked about; one that no policy can hold stays as large as it is.
pub(crate) fn number(whole: i128) -> Value {
    Number::from_i128(whole).map_or_else(|| Value::from(whole as f64), Value::Number)
}

/// What Python's `str()` makes of a value, which is what default values of a store go through.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => repr(other),
    }
}

fn repr(value: &Value) -> String {
    match value {
        Value::Null => "None".to_string(),
        Value::Bool(true) => "True".to_string(),
        Value::Bool(false) => "False".to_string(),
        Value::Number(number) => number_text(number),
        Value::String(text) => quoted(text),
        Value::Array(list) => {
            let parts: Vec<String> = list.iter().map(repr).collect();
            format!("[{}]", parts.join(", "))
        }
        Value::Object(fields) => {
            let part =
                |(key, value): (&String, &Value)| format!("{}: {}", quoted(key), repr(value));
            let parts: Vec<String> = fields.iter().map(part).collect();
            format!("{{{}}}", parts.join(", "))
        }
    }
}

fn number_text(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else {
        return number.to_string();
    };
    let size = float.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        // Python writes the sign of an exponent and at least two digits of it.
        let text = format!("{float:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, power) = match exponent.strip_prefix('-') {
            Some(power) => ('-', power),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{power:0>2}");
    }
    format!("{float:?}")
}

/// A text in the quotes that it does not contain itself.
fn quoted(text: &str) -> String {
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut quoted = String::from(mark);
    for letter in text.chars() {
        match letter {
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            letter if letter == mark => quoted.extend(['\\', letter]),
            letter => quoted.push(letter),
        }
    }
    quoted.push(mark);
    quoted
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;
    use serde_json::json;

    #[test]
    fn whole_numbers_are_read_generously_and_others_refused() {
        for value in [json!(3), json!(3.0), json!("3"), json!(" 3 "), json!("3.0"), json!("+3")] {
            assert_eq!(whole(&value), Ok(3), "{value}");
        }
        assert_eq!((whole(&json!(true)), whole(&json!("-1"))), (Ok(1), Ok(-1)));
        assert_eq!(whole(&json!(1e300)), Ok(i128::MAX));
        let odd = [
            json!(3.5),
            json!("3.5"),
            json!(null),
            json!(""),
            json!("x"),
            json!("3."),
            json!("1e3"),
            json!([3]),
            json!({}),
        ];
        for value in odd {
            assert!(whole(&value).is_err(), "{value}");
        }
    }

    #[test]
    fn values_become_the_text_that_python_makes_of_them() {
        for (value, text) in [
            (json!("as it is"), "as it is"),
            (json!(5), "5"),
            (json!(-2.5), "-2.5"),
            (json!(1.0), "1.0"),
            (json!(1e16), "1e+16"),
            (json!(0.00001), "1e-05"),
            (json!(true), "True"),
            (json!(null), "None"),
            (json!(["a", 1, {"it's": false}]), "['a', 1, {\"it's\": False}]"),
        ] {
            assert_eq!(text_of(&value), text);
        }
    }
}
