//! Durations as text: `250ms`, `1.5s`, `2m`, `1h`, `7d`.
//!
//! A unit is required because the systems we read policies from disagree about bare numbers
//! (seconds, whole seconds, milliseconds). Parsing is exact: digits become nanoseconds without a
//! detour through floating point.

use std::fmt;
use std::time::Duration;

const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
];

/// The longest duration a policy may name: 100 years. Longer ones are typing errors.
pub const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Reads a duration with a unit. The error is the rest of a sentence that begins with the value:
/// `has no unit; write "300s" or "300ms"`.
///
/// ```
/// use resurgam_core::duration;
/// use std::time::Duration;
///
/// assert_eq!(duration::parse("1.5s"), Ok(Duration::from_millis(1500)));
/// assert_eq!(duration::parse("1h30m"), Ok(Duration::from_secs(5400)));
/// assert_eq!(duration::parse("300").unwrap_err(), r#"has no unit; write "300s" or "300ms""#);
/// ```
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("is empty; write a number with a unit, such as \"250ms\" or \"2m\"".into());
    }
    match text.strip_prefix('-') {
        Some(positive) if sum(positive.trim_start()).is_ok() => Err("is negative".into()),
        _ => sum(text),
    }
}

/// Numbers with units, added up: `1h30m`.
fn sum(mut rest: &str) -> Result<Duration, String> {
    let mut total = Duration::ZERO;
    loop {
        let number =
            rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (digits, tail) = rest.split_at(number);
        let unit = tail.len() - tail.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let (unit, tail) = tail.split_at(unit);
        total = part(digits, unit).and_then(|part| total.checked_add(part).ok_or_else(too_long))?;
        rest = tail.trim_start();
        if rest.is_empty() {
            break;
        }
    }
    if total > LONGEST { Err(too_long()) } else { Ok(total) }
}

/// One number with its unit, in whole nanoseconds.
fn part(digits: &str, unit: &str) -> Result<Duration, String> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(not_a_duration());
    }
    if unit.is_empty() {
        return Err(format!("has no unit; write \"{digits}s\" or \"{digits}ms\""));
    }
    let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("has the unknown unit \"{unit}\"; use ms, s, m, h or d"));
    };
    let scale = u128::from(*scale);
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| too_long())? };
    // Bounded before the fraction is added, which could overflow otherwise.
    let fits = |nanos: &u128| *nanos <= u128::from(u64::MAX);
    let nanos = whole.checked_mul(scale).filter(fits).ok_or_else(too_long)?;
    let nanos = nanos + fraction_of(scale, fraction);
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| too_long())
}

/// The digits behind the point, times `scale`, rounded. More digits than these change nothing.
fn fraction_of(scale: u128, digits: &str) -> u128 {
    let (mut value, mut one) = (0, 1);
    for digit in digits.bytes().take(18) {
        value = value * 10 + u128::from(digit - b'0');
        one *= 10;
    }
    (value * scale + one / 2) / one
}

fn not_a_duration() -> String {
    "is not a duration; write a number with a unit, such as \"250ms\" or \"2m\"".into()
}

fn too_long() -> String {
    "is longer than 100 years".into()
}

/// A duration in the form that [`parse`] reads, exactly: `1500ms`, `2m`, `0.5ms`.
///
/// ```
/// use resurgam_core::duration::Text;
/// use std::time::Duration;
///
/// assert_eq!(Text(Duration::from_secs(90)).to_string(), "90s");
/// assert_eq!(Text(Duration::from_secs(120)).to_string(), "2m");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Text(pub Duration);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        if nanos == 0 {
            return f.write_str("0s");
        }
        for (unit, scale) in UNITS {
            if nanos.is_multiple_of(u128::from(scale)) {
                return write!(f, "{}{unit}", nanos / u128::from(scale));
            }
        }
        let fraction = format!("{:06}", nanos % 1_000_000);
        write!(f, "{}.{}ms", nanos / 1_000_000, fraction.trim_end_matches('0'))
    }
}

/// A duration for people, rounded to what one cares about: `4m 3s`, `1.5s`, `250ms`.
///
/// ```
/// use resurgam_core::duration::Human;
/// use std::time::Duration;
///
/// assert_eq!(Human(Duration::from_millis(243_400)).to_string(), "4m 3s");
/// assert_eq!(Human(Duration::from_millis(1_250)).to_string(), "1.25s");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Human(pub Duration);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        let seconds = (millis + 500) / 1000;
        let two = |f: &mut fmt::Formatter<'_>, a: u128, x: &str, b: u128, y: &str| {
            if b == 0 { write!(f, "{a}{x}") } else { write!(f, "{a}{x} {b}{y}") }
        };
        match seconds {
            _ if millis < 1000 => write!(f, "{millis}ms"),
            _ if millis < 59_995 => {
                let hundredths = (millis + 5) / 10;
                let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
                write!(f, "{}s", text.trim_end_matches('0').trim_end_matches('.'))
            }
            0..3_600 => two(f, seconds / 60, "m", seconds % 60, "s"),
            3_600..86_400 => two(f, seconds / 3600, "h", seconds % 3600 / 60, "m"),
            _ => two(f, seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
        }
    }
}

/// Milliseconds as a float, the unit in which delays are computed.
pub(crate) fn as_millis(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}

/// Seconds as a float, the one that was read. `as_secs_f64` rounds the fraction and then the sum,
/// so 1234.567 could become its neighbour; where f64 holds the nanoseconds, one division is exact.
pub(crate) fn as_seconds(duration: Duration) -> f64 {
    match duration.as_nanos() {
        nanos if nanos < 1 << f64::MANTISSA_DIGITS => nanos as f64 / 1e9,
        _ => duration.as_secs_f64(),
    }
}

/// For `#[serde(serialize_with)]` on a duration.
pub(crate) fn serialize<S: serde::Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&Text(*value))
}

/// For `#[serde(serialize_with)]` on an optional duration; the caller skips `None`.
pub(crate) fn serialize_option<S: serde::Serializer>(
    value: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serialize(value, to),
        None => to.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn every_unit_is_read_exactly() {
        for (text, nanos) in [
            ("250ms", 250_000_000),
            ("1.5s", 1_500_000_000),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("7d", 604_800_000_000_000),
            (".5ms", 500_000),
            ("0.0000000014s", 1),
            ("2.9999999999999996s", 3_000_000_000),
            ("0.000000000001d", 86),
            ("1h 30m", 5_400_000_000_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn a_bad_duration_says_what_to_write() {
        for (text, error) in [
            ("300", r#"has no unit; write "300s" or "300ms""#),
            ("5x", r#"has the unknown unit "x"; use ms, s, m, h or d"#),
            ("-1s", "is negative"),
            ("99999999999999999999999999999999999999999d", "is longer than 100 years"),
            ("40000d", "is longer than 100 years"),
            ("340282366920938463463374607431768.999999ms", "is longer than 100 years"),
        ] {
            assert_eq!(parse(text).unwrap_err(), error, "{text}");
        }
        for text in ["", "s", "1..5s", ".s", "one", "1s,", "−1s", "NaN", "1e3s", "-", "--1s"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&"-".repeat(1_000_000)).is_err());
    }

    #[test]
    fn text_reads_back_as_the_same_duration() {
        for nanos in
            [0, 1, 999, 500_000, 1_000_000, 1_500_000_000, 86_400_000_000_000, 90_000_000_000]
        {
            let duration = Duration::from_nanos(nanos);
            assert_eq!(parse(&Text(duration).to_string()), Ok(duration), "{}", Text(duration));
        }
    }

    #[test]
    fn people_see_two_units_at_most() {
        for (millis, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_000, "1s"),
            (3_375, "3.38s"),
            (59_994, "59.99s"),
            (59_999, "1m"),
            (61_000, "1m 1s"),
            (3_599_900, "1h"),
            (90_061_000, "1d 1h"),
        ] {
            assert_eq!(Human(Duration::from_millis(millis)).to_string(), text);
        }
    }
}
