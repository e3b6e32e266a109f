//! When a call has waited too long, by its policy.

use std::time::Duration;

use resurgam_core::duration::Human;
use resurgam_core::{Failure, Kind, Timestamp};
use resurgam_store::rows::TaskRow;

use crate::attempt::Limit;
use crate::policy::Resolved;

/// Until when a task may wait, as long as no attempt of it runs.
pub(crate) fn deadline(task: &TaskRow, policy: &Resolved) -> Option<Timestamp> {
    let ends = [total_end(task, policy), queue_end(task, policy)];
    ends.into_iter().flatten().min().filter(|_| task.claim.is_none())
}

/// When the whole call runs out of time.
pub(crate) fn total_end(task: &TaskRow, policy: &Resolved) -> Option<Timestamp> {
    let scheduled = task.progress.first_scheduled?;
    Some(scheduled.saturating_add(policy.checked.timeouts.total?))
}

pub(crate) fn queue_end(task: &TaskRow, policy: &Resolved) -> Option<Timestamp> {
    Some(task.wake_at.saturating_add(policy.checked.timeouts.queue?))
}

/// The failure of a call whose total timeout passed.
pub(crate) fn total_failure(policy: &Resolved) -> Failure {
    let whole = policy.checked.timeouts.total.unwrap_or_default();
    Limit { left: whole, whole, kind: Kind::TotalTimeout }.failure()
}

pub(crate) fn queue_failure(policy: &Resolved) -> Failure {
    let time = policy.checked.timeouts.queue.unwrap_or_default();
    let message = format!("no worker took it within {}", Human(time));
    Failure::of_kind(Kind::QueueTimeout, message)
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
