//! When a call has waited too long, by its policy.

use std::time::Duration;

use resurgam_core::duration::Human;
use resurgam_core::{Failure, Kind, Timestamp};
use resurgam_store::rows::{Progress, TaskRow};

use crate::attempt::Limit;
use crate::policy::Resolved;

/// Until when a task may wait, as long as no attempt of it runs.
pub(crate) fn deadline(task: &TaskRow, policy: &Resolved) -> Option<Timestamp> {
    let pause = task.progress.paused.as_ref().and_then(|pause| pause.until);
    let ends = [total_end(task, policy), queue_end(task, policy, None), pause];
    ends.into_iter().flatten().min().filter(|_| task.claim.is_none())
}

/// When the whole call runs out of time: never while its clock stands still.
pub(crate) fn total_end(task: &TaskRow, policy: &Resolved) -> Option<Timestamp> {
    let stands_still = task.progress.paused.as_ref().is_some_and(|pause| !pause.clock_runs);
    let start = total_start(&task.progress).filter(|_| !stands_still)?;
    Some(start.saturating_add(policy.checked.timeouts.total?))
}

/// From when the time of a call counts: from when it was scheduled, and as much later as its clock
/// stood still.
pub(crate) fn clock_start(progress: &Progress) -> Option<Timestamp> {
    progress.first_scheduled.map(|at| at.saturating_add(stood_still(progress)))
}

/// From when the total timeout of a call counts. An activity that takes the place of another one
/// has what the call has left.
pub(crate) fn total_start(progress: &Progress) -> Option<Timestamp> {
    let since = progress.fallback.as_ref().and_then(|of| of.since);
    since.map(|at| at.saturating_add(stood_still(progress))).or_else(|| clock_start(progress))
}

/// How long the clocks of a call stood still.
pub(crate) fn stood_still(progress: &Progress) -> Duration {
    Duration::from_millis(progress.stood_still_ms)
}

/// When the first attempt of a call began, as much later as its clock stood still since.
pub(crate) fn start_of_first(progress: &Progress) -> Option<Timestamp> {
    let stood_still = Duration::from_millis(progress.stood_still_since_start_ms);
    progress.first_started.map(|at| at.saturating_add(stood_still))
}

/// When nobody has taken the next attempt of a call in time: never while its clock stands still. It
/// begins anew when its gate flows again.
pub(crate) fn queue_end(
    task: &TaskRow,
    policy: &Resolved,
    flows_since: Option<Timestamp>,
) -> Option<Timestamp> {
    let due = match &task.progress.paused {
        Some(pause) => pause.due.filter(|_| pause.clock_runs)?,
        None => flows_since.map_or(task.wake_at, |flows| flows.max(task.wake_at)),
    };
    Some(due.saturating_add(policy.checked.timeouts.queue?))
}

/// The failure of a call whose total timeout passed.
/// The failure of a call that ran out of its whole time.
pub(crate) fn total_failure(policy: &Resolved) -> Failure {
    let whole = policy.checked.timeouts.total.unwrap_or_default();
    Limit { left: whole, whole, kind: Kind::TotalTimeout }.failure()
}

/// The failure of an attempt that no worker took in time.
pub(crate) fn queue_failure(policy: &Resolved) -> Failure {
    let time = policy.checked.timeouts.queue.unwrap_or_default();
    let message = format!("no worker took it within {}", Human(time));
    Failure::of_kind(Kind::QueueTimeout, message)
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
