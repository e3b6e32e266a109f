//! Times as text: `2026-11-15T09:00:00Z`.

use serde::Serializer;

use crate::Timestamp;
use crate::config::{At, Problems};

/// A time in UTC, with milliseconds only when there are some.
///
/// ```
/// use resurgam_core::Timestamp;
/// use resurgam_core::schedule::time_text;
///
/// assert_eq!(time_text(Timestamp::from_millis(1_794_733_200_000)), "2026-11-15T09:00:00Z");
/// assert_eq!(time_text(Timestamp::from_millis(1_794_733_200_500)), "2026-11-15T09:00:00.500Z");
/// ```
pub fn time_text(time: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(time.as_millis()) {
        Ok(known) if time.as_millis() % 1000 == 0 => format!("{known:.0}"),
        Ok(known) => format!("{known:.3}"),
        // Past the end of the calendar; no schedule fires there.
        Err(_) => time.to_string(),
    }
}

/// Reads a time with its offset from UTC. The error is the rest of a sentence that begins with the
/// text.
///
/// ```
/// use resurgam_core::schedule::{parse_time, time_text};
///
/// let nine = parse_time("2026-11-15T10:00:00+01:00")?;
/// assert_eq!(time_text(nine), "2026-11-15T09:00:00Z");
/// assert!(parse_time("2026-11-15 09:00").unwrap_err().starts_with("is not a time; write"));
/// # Ok::<(), String>(())
/// ```
pub fn parse_time(text: &str) -> Result<Timestamp, String> {
    let Ok(time) = text.parse::<jiff::Timestamp>() else { return Err(ADVICE.to_string()) };
    if time.subsec_nanosecond() % 1_000_000 != 0 {
        return Err("is finer than a millisecond; round it".to_string());
    }
    Ok(Timestamp::from_millis(time.as_millisecond()))
}

const ADVICE: &str = "is not a time; write the date, the time and the offset, such as \
    \"2026-11-15T09:00:00Z\" or \"2026-11-15T10:00:00+01:00\"";

/// Reads a time that somebody typed.
pub(super) fn read(at: &At<'_>) -> Result<Timestamp, Problems> {
    match at.value().as_str().map_or(Err(ADVICE.to_string()), parse_time) {
        Ok(time) => Ok(time),
        Err(what) => at.refuse(what),
    }
}

/// For `#[serde(serialize_with)]`; the caller skips `None`.
pub(super) fn serialize<S: Serializer>(time: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => to.serialize_str(&time_text(*time)),
        None => to.serialize_none(),
    }
}
