//! Bulk jobs: one action on many calls or runs.

use resurgam::BulkJob;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{Json, both, json, rfc3339};

/// One action on many calls or runs, and how far it has come.
#[derive(Serialize, ToSchema)]
pub(crate) struct Job {
    id: String,
    /// running, stopping, done, stopped or failed
    state: String,
    action: String,
    /// What is done to each, with everything that was asked for.
    #[schema(value_type = serde_json::Value)]
    does: Json,
    /// What it is about.
    #[schema(value_type = serde_json::Value)]
    target: Json,
    /// How many matched when it was asked for.
    expected: u64,
    matched: u64,
    changed: u64,
    refused: u64,
    /// The first of those that were refused: a thousand at most, and ten in a list of jobs.
    listed: Vec<Refusal>,
    by: String,
    reason: Option<String>,
    stopped_by: Option<String>,
    error: Option<String>,
    created_at_ms: i64,
    created_at: String,
    closed_at_ms: Option<i64>,
    closed_at: Option<String>,
}

/// What was refused, and why.
#[derive(Serialize, ToSchema)]
pub(crate) struct Refusal {
    pub(crate) call: String,
    pub(crate) why: String,
}

/// How many that were refused stand in a list of jobs.
const IN_A_LIST: usize = 10;

impl Job {
    /// A job in a list.
    pub(crate) fn listed(job: &BulkJob) -> Self {
        let mut told = Job::from(job);
        told.listed.truncate(IN_A_LIST);
        told
    }
}

impl From<&BulkJob> for Job {
    fn from(job: &BulkJob) -> Self {
        let (closed_at_ms, closed_at) = both(job.closed_at);
        let counts = &job.counts;
        let listed = counts.listed.iter();
        Job {
            id: job.id.clone(),
            state: job.state().name().to_string(),
            action: job.action.name().to_string(),
            does: RawValue::from_string(job.action.to_stored().0)
                .unwrap_or_else(|_| RawValue::NULL.to_owned()),
            target: json(&job.target),
            expected: job.options.expected.min(job.options.limit.unwrap_or(u64::MAX)),
            matched: counts.matched,
            changed: counts.changed,
            refused: counts.refused,
            listed: listed
                .map(|one| Refusal { call: one.call.clone(), why: one.why.clone() })
                .collect(),
            by: job.by.clone(),
            reason: job.reason.clone(),
            stopped_by: job.stopped_by.clone(),
            error: job.error.clone(),
            created_at_ms: job.created_at.as_millis(),
            created_at: rfc3339(job.created_at),
            closed_at_ms,
            closed_at,
        }
    }
}
