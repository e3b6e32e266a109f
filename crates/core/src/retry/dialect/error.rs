//! Failures in the words of a dialect, as `policy eval` reads them.

use std::time::Duration;

use serde_json::Value;

use super::{Dialect, edda};
use crate::config::{At, Problems};
use crate::{Failure, Kind};

/// What an error may say it is.
const KINDS: [(&str, Asked); 6] = [
    ("error", Asked::Kind(Kind::Error)),
    ("timeout", Asked::Timeout),
    ("panic", Asked::Kind(Kind::Panic)),
    ("cancelled", Asked::Kind(Kind::Cancelled)),
    ("requeue_after", Asked::Snooze),
    ("prune", Asked::Prune),
];

const TIMEOUTS: [(&str, Kind); 4] = [
    ("attempt", Kind::Timeout),
    ("heartbeat", Kind::HeartbeatTimeout),
    ("queue", Kind::QueueTimeout),
    ("total", Kind::TotalTimeout),
];

#[derive(Clone, Copy)]
enum Asked {
    Kind(Kind),
    Timeout,
    Snooze,
    Prune,
}

/// Reads `{type, mro, kind, timeout, code, message, retry_after_ms, delay_ms}`. Every field may
/// be left out; nothing at all is a plain error. A wish to run later comes back as a failure
/// whose `snooze` is set.
///
/// ```
/// use resurgam_core::retry::dialect::{read_failure, Dialect};
/// use resurgam_core::Kind;
/// use serde_json::json;
///
/// let error = json!({"kind": "timeout", "timeout": "heartbeat"});
/// assert_eq!(read_failure(Dialect::Cadence, &error)?.kind, Kind::HeartbeatTimeout);
/// # Ok::<(), resurgam_core::config::Problems>(())
/// ```
pub fn read_failure(dialect: Dialect, error: &Value) -> Result<Failure, Problems> {
    let at = At::root(error);
    let mut fields = at.fields("an error: {\"type\": ..., \"kind\": ...}")?;
    let asked = fields.read("kind", |at| at.word(&KINDS)).unwrap_or(Asked::Kind(Kind::Error));
    let timeout = fields.read("timeout", |at| at.word(&TIMEOUTS)).unwrap_or(Kind::Timeout);
    let delay = fields.read("delay_ms", At::millis);
    let mut failure = match asked {
        Asked::Kind(kind) => Failure::of_kind(kind, ""),
        Asked::Timeout => Failure::of_kind(timeout, ""),
        Asked::Snooze => Failure::snooze(delay.unwrap_or(Duration::ZERO)),
        Asked::Prune => Failure::prune(),
    };
    if let Some(type_name) = fields.read("type", At::text) {
        failure.type_name = Some(type_name.to_string());
    }
    failure.mro = fields.read("mro", At::texts).unwrap_or_default();
    failure.code = fields.read("code", At::text).map(str::to_string);
    if let Some(message) = fields.read("message", At::text) {
        failure.message = message.to_string();
    }
    failure.retry_after = fields.read("retry_after_ms", At::millis);
    fields.finish()?;
    Ok(if dialect == Dialect::Edda { edda::failure(failure) } else { failure })
}
