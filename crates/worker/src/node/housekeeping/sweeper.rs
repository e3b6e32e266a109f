//! When a node deletes next what has stayed long enough, and counts the calls that are paused
//! ([`Sweeper`]). How it does so is in `retention.rs`.

use std::time::Duration;

use resurgam_core::Timestamp;
use resurgam_store::{Step, TaskWrite};

/// How soon paused calls are counted when their number may have changed.
const COUNTED: Duration = Duration::from_secs(60);

/// What an engine knows about what is to be deleted.
#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    pub(super) next: Option<Timestamp>,
    pub(super) is_sweeping: bool,
    /// Calls of this node were paused when they were last counted.
    pub(super) has_paused: bool,
}

impl Sweeper {
    /// When to sweep next, unless that is being done.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.next.filter(|_| !self.is_sweeping)
    }

    /// These steps are written: calls may be paused from then on, or go on.
    pub(crate) fn hear_of_calls(&mut self, steps: &[Step], now: Timestamp) {
        let is_paused = |write: &TaskWrite| match write {
            TaskWrite::Insert(row) | TaskWrite::Update(row) | TaskWrite::Amend(row) => {
                row.progress.paused.is_some()
            }
            TaskWrite::Delete(_) | TaskWrite::Discard(_) | TaskWrite::DeleteAll(_) => false,
        };
        let mut tasks = steps.iter().flat_map(|step| &step.tasks);
        if tasks.any(|write| self.has_paused || is_paused(write)) {
            self.not_later_than(now.saturating_add(COUNTED));
        }
    }

    /// Something is to be deleted, or counted, then or before.
    pub(crate) fn not_later_than(&mut self, at: Timestamp) {
        self.next = Some(self.next.map_or(at, |known| known.min(at)));
    }
}
