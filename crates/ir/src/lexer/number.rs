//! Numbers: `12`, `1.5`, `1.`, `1e3`, and with a unit `30s`.

use super::{Kind, is_in_name};

/// What kind of number a text begins with, and how long it is.
pub(super) fn number(text: &str) -> (Kind, usize) {
    let digits = |from: usize| {
        let rest = &text[from..];
        from + rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len()
    };
    let mut end = digits(0);
    let mut kind = Kind::Int;
    if text[end..].starts_with('.') && !text[end + 1..].starts_with(|c: char| c.is_alphabetic()) {
        kind = Kind::Float;
        end = digits(end + 1);
    }
    let exponent = text[end..].strip_prefix(['e', 'E']);
    if let Some(rest) = exponent {
        let sign = usize::from(rest.starts_with(['+', '-']));
        if rest[sign..].starts_with(|c: char| c.is_ascii_digit()) {
            kind = Kind::Float;
            end = digits(end + 1 + sign);
        }
    }
    let unit = text[end..].len() - text[end..].trim_start_matches(is_in_name).len();
    if unit > 0 { (Kind::Quantity, end + unit) } else { (kind, end) }
}

/// The value of an integer. One above the largest is allowed, for `-9223372036854775808`.
pub(crate) fn int(text: &str) -> Result<u64, &'static str> {
    if text.len() > 1 && text.starts_with('0') && text.bytes().any(|digit| digit != b'0') {
        return Err("a number does not begin with 0");
    }
    let value = text.parse::<u64>().ok().filter(|value| *value <= 1 << 63);
    value.ok_or("the number does not fit into 64 bits")
}
