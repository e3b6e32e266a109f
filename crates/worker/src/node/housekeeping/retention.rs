//! Deleting closed instances in the background, when they have stayed as long as they may.
//!
//! The owner sweeps when it begins to work, then when the next instance has stayed long enough:
//! that time is known from the sweep before, or from the instance that closes first after it. With
//! nothing to delete, nothing is done. Dead letters and bulk jobs go in the same way. Letters and
//! paused calls are counted soon after their number may have changed, letters also when another
//! process has written something, and at no other time: a test that waits for one of them must see
//! that nothing else is going to happen.

use std::time::Duration;

use resurgam_store::rows::Status;

use crate::node::Node;
use crate::node::output::Output;
use crate::retention::{Retention, Swept};

/// The wait after a sweep that failed.
const AGAIN: Duration = Duration::from_secs(60);

/// The shortest and the longest time between two sweeps, while instances close all the time.
const BETWEEN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

impl Node {
    /// This node begins to work.
    pub(crate) fn begin_retention(&mut self) {
        self.memory.sweeper.next = Some(self.now);
    }

    /// A bulk job is over, and is to be deleted some day.
    pub(crate) fn bulk_will_be_deleted(&mut self) {
        self.memory.sweeper.not_later_than(self.now.saturating_add(Retention::BULK_JOBS));
    }

    /// An instance closed, and is to be deleted some day.
    pub(crate) fn will_be_deleted(&mut self, status: Status) {
        if let Some(stays) = self.options.retention.of(status) {
            self.memory.sweeper.not_later_than(self.now.saturating_add(stays));
        }
    }

    /// Sweeps when it is time.
    pub(crate) fn wake_retention(&mut self) {
        let now = self.now;
        let due = self.memory.sweeper.next().is_some_and(|at| at <= now);
        if !due || !self.is_owner() || self.stopping.is_some() {
            return;
        }
        self.memory.sweeper.next = None;
        self.memory.sweeper.is_sweeping = true;
        self.outputs.push(Output::Sweep { retention: self.options.retention, now });
    }

    /// Everything that was too old is gone.
    pub(crate) fn swept(&mut self, swept: resurgam_store::Result<Swept>) {
        self.memory.sweeper.is_sweeping = false;
        let now = self.now;
        let (shortest, longest) = BETWEEN;
        match swept {
            Ok(Swept { next, paused, letters }) => {
                self.memory.sweeper.has_paused = paused > 0;
                self.memory.sweeper.has_letters = letters;
                let Retention { dead_letters, .. } = self.options.retention;
                let stays = self.options.retention.each().into_iter().map(|(_, stays)| stays);
                let stays = stays.chain(dead_letters);
                let pause = (stays.min().unwrap_or(longest) / 100).clamp(shortest, longest);
                let soonest = now.saturating_add(pause);
                next.into_iter().for_each(|at| self.memory.sweeper.not_later_than(at));
                self.memory.sweeper.next = self.memory.sweeper.next.map(|at| at.max(soonest));
            }
            Err(error) => {
                tracing::warn!("delete what is old, again later: {error}");
                self.memory.sweeper.next = Some(now.saturating_add(AGAIN));
            }
        }
    }
}
