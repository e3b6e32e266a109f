//! Values as columns of a SQL database hold them.

use resurgam_core::command::Settings;
use resurgam_core::{Failure, Timestamp};
use serde::Serialize;

use crate::rows::{Progress, RunPause};

/// A time that may be missing.
pub fn millis(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_millis)
}

/// A count. A database's integers end at half of ours, far beyond anything that counts up by one.
pub fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A token uses all its bits, so the upper half is stored as negative numbers.
pub fn token(token: u64) -> i64 {
    token.cast_signed()
}

/// The settings of an instance. Most have none.
pub fn settings(settings: &Settings) -> String {
    json(settings)
}

/// Who paused an instance, or how long it was paused. Most never were.
pub fn pause(pause: &RunPause) -> Option<String> {
    (*pause != RunPause::default()).then(|| json(pause))
}

/// What stays of a pause that is over, also where that is nothing.
pub fn past_pause(pause: &RunPause) -> String {
    json(pause)
}

/// The counters of a task.
pub fn progress(progress: &Progress) -> String {
    json(progress)
}

/// What went wrong with an attempt.
pub fn failure(failure: &Failure) -> String {
    json(failure)
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("rows hold nothing that JSON cannot")
}
