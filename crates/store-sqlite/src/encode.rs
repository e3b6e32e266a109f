//! Values as columns hold them.

use resurgam_core::command::Settings;
use resurgam_core::{Payload, Timestamp};
use resurgam_store::rows::Progress;

/// The kind of the message that begins an instance.
pub(crate) const START: &str = "Start";

/// The mark beside a payload, absent when the payload is.
pub(crate) fn encoding(payload: Option<&Payload>) -> Option<&'static str> {
    payload.map(|_| Payload::ENCODING)
}

/// A time that may be missing.
pub(crate) fn millis(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_millis)
}

/// A count. SQLite's integers end at half of ours, far beyond anything that counts up by one.
pub(crate) fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A token uses all its bits, so the upper half is stored as negative numbers.
pub(crate) fn token(token: u64) -> i64 {
    token.cast_signed()
}

/// The settings of an instance. Most have none.
pub(crate) fn settings(settings: &Settings) -> String {
    serde_json::to_string(settings).expect("settings hold nothing that JSON cannot")
}

/// The counters of a task.
pub(crate) fn progress(progress: &Progress) -> String {
    serde_json::to_string(progress).expect("progress holds nothing that JSON cannot")
}
