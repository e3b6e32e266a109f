//! Schedules.

use resurgam::ScheduleDescription;
use serde::Serialize;
use utoipa::ToSchema;

use super::instance::started_with;
use super::{Json, both, content, json, rfc3339};
use crate::links::link;

/// What starts by the clock.
#[derive(Serialize, ToSchema)]
pub(crate) struct Schedule {
    id: String,
    workflow: String,
    /// The rule as it is stored; null when it cannot be read.
    #[schema(value_type = Option<serde_json::Value>)]
    schedule: Option<Json>,
    paused: bool,
    /// Why it does not fire.
    error: Option<String>,
    /// When it fires next.
    next_ms: Vec<i64>,
    next: Vec<String>,
    /// A firing that waits for the one before it to end.
    buffered_ms: Option<i64>,
    buffered: Option<String>,
    /// The id of the instance it started last, and whether that is open.
    last: Option<String>,
    last_open: bool,
    started: u64,
    missed: u64,
    skipped: u64,
    created_at_ms: i64,
    created_at: String,
    #[schema(value_type = serde_json::Value)]
    input: Json,
}

impl From<&ScheduleDescription> for Schedule {
    fn from(found: &ScheduleDescription) -> Self {
        let (buffered_ms, buffered) = both(found.buffered);
        Schedule {
            id: found.id.clone(),
            workflow: found.workflow.clone(),
            schedule: found.schedule.as_ref().map(json),
            paused: found.paused,
            error: found.error.clone(),
            next_ms: found.next.iter().map(|at| at.as_millis()).collect(),
            next: found.next.iter().map(|at| rfc3339(*at)).collect(),
            buffered_ms,
            buffered,
            last: found.last.clone(),
            last_open: found.last_open,
            started: found.started,
            missed: found.missed,
            skipped: found.skipped,
            created_at_ms: found.created_at.as_millis(),
            created_at: rfc3339(found.created_at),
            input: content(started_with(&found.input), || {
                link(&format!("/api/v1/schedules/{}/input", encoded(&found.id)))
            }),
        }
    }
}

/// An id as it stands in a path.
pub(crate) fn encoded(id: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    id.bytes()
        .map(|byte| match plain(&byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}
