//! What people and programs did, across instances: what an auditor asks for.
//!
//! What operators do to calls and runs is an [`ActionRow`] of its instance. Everything else that is
//! done through a server (starts, signals, schedules, gates, tokens) leaves an [`AuditRow`], which
//! belongs to no instance and outlives them.

use std::sync::Arc;

use resurgam_core::{Timestamp, Uid};

use crate::Answer;
use crate::rows::ActionRow;

/// Keeping what was done, and finding it again.
pub trait Audit {
    /// Adds rows, and deletes those older than `forget_before`, in one transaction. A row whose id
    /// is known is left out.
    fn add_audit(&self, rows: Arc<[AuditRow]>, forget_before: Timestamp) -> Answer<'_, ()>;

    /// Rows that were added, the newest first.
    fn audit(&self, range: AuditRange<String>) -> Answer<'_, Vec<AuditRow>>;

    /// What operators did to calls and runs of all instances, the newest first.
    fn newest_actions(&self, range: AuditRange<(Uid, String)>) -> Answer<'_, Vec<ActionRow>>;
}

/// Something that somebody did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// What tells it from all others.
    pub id: String,
    /// When.
    pub at: Timestamp,
    /// Who, as it is recorded everywhere.
    pub by: String,
    /// The id of the token that let them in; `None` where none was asked for.
    pub token: Option<String>,
    /// Why, in their words.
    pub reason: Option<String>,
    /// What kind of thing was done, such as `start`.
    pub kind: String,
    /// What it was done to: a uid, the id of a schedule, the key of a gate.
    pub subject: String,
    /// What was done, as a sentence.
    pub told: String,
}

/// Which rows are read, the newest first; those of one time by their keys, the greatest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRange<K> {
    /// Only those of this time or later.
    pub since: Option<Timestamp>,
    /// Only those before this time, and those of this time whose key is less than this one; of
    /// everything with `None`.
    pub before: Option<(Timestamp, Option<K>)>,
    /// At most this many.
    pub limit: usize,
}

impl<K: PartialOrd> AuditRange<K> {
    /// Whether a row of this time and key is wanted.
    pub fn has(&self, at: Timestamp, key: &K) -> bool {
        let is_before = match &self.before {
            None => true,
            Some((time, None)) => at < *time,
            Some((time, Some(before))) => at < *time || (at == *time && key < before),
        };
        is_before && self.since.is_none_or(|since| at >= since)
    }
}
