//! When the store could not be reached ([`Outages`]): times that no call is charged for.

use std::collections::VecDeque;
use std::time::Duration;

use resurgam_core::{CallKey, Timestamp};

/// How many outages are remembered.
const OUTAGES: usize = 1_000;

/// When the store could not be reached.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    /// The times that are over, in order and apart from each other.
    pub(super) past: VecDeque<(Timestamp, Timestamp)>,
    /// Since when reading is refused.
    pub(super) since: Option<Timestamp>,
    /// Calls whose deadline passed in an outage that is not over.
    pub(super) held: Vec<CallKey>,
}

impl Outages {
    /// The store refused to be read.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        self.since.get_or_insert(now);
    }

    /// The store can be read. True when it could not be before.
    pub(crate) fn end(&mut self, now: Timestamp) -> bool {
        let since = self.since.take();
        since.into_iter().for_each(|since| self.add(since, now));
        since.is_some()
    }

    /// Calls whose deadline passed in an outage: they are to be looked at again.
    pub(crate) fn take_held(&mut self) -> Vec<CallKey> {
        std::mem::take(&mut self.held)
    }

    /// The store was out of reach, or slow, for this time.
    pub(crate) fn add(&mut self, mut from: Timestamp, mut until: Timestamp) {
        while let Some(last) = self.past.back().copied().filter(|last| last.1 >= from) {
            self.past.pop_back();
            (from, until) = (from.min(last.0), until.max(last.1));
        }
        self.past.push_back((from, until));
        if self.past.len() > OUTAGES {
            self.past.pop_front();
        }
    }

    /// How long the store was out of reach after this time.
    pub(super) fn after(&self, time: Timestamp) -> Duration {
        let after = self.past.iter().rev().take_while(|(_, until)| *until > time);
        after.map(|(from, until)| until.since(time.max(*from))).sum()
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn outages_are_counted_once_and_from_the_time_that_is_asked_about() {
        let mut outages = Outages::default();
        for (from, until) in [(10, 20), (30, 40), (35, 50), (100, 110)] {
            outages.add(at(from), at(until));
        }
        let after = |time| outages.after(at(time)).as_millis();
        assert_eq!(outages.past, [(at(10), at(20)), (at(30), at(50)), (at(100), at(110))]);
        assert_eq!([0, 15, 20, 45, 60, 105, 200].map(after), [40, 35, 30, 15, 10, 5, 0]);
    }
}
