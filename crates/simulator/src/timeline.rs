//! What is going to happen, by time; what is planned for the same moment happens in that order.

use std::collections::BTreeMap;
use std::time::Duration;

/// What is going to happen.
#[derive(Debug)]
pub(crate) struct Timeline<E> {
    now: Duration,
    planned: u64,
    events: BTreeMap<(Duration, u64), E>,
}

impl<E> Timeline<E> {
    /// Nothing is planned.
    pub(crate) fn new() -> Self {
        Timeline { now: Duration::ZERO, planned: 0, events: BTreeMap::new() }
    }

    /// The time since the beginning.
    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    /// Plans something.
    pub(crate) fn after(&mut self, delay: Duration, event: E) {
        self.planned += 1;
        self.events.insert((self.now.saturating_add(delay), self.planned), event);
    }

    /// Lets the next thing happen.
    pub(crate) fn next(&mut self) -> Option<E> {
        let ((time, _), event) = self.events.pop_first()?;
        self.now = time;
        Some(event)
    }
}
