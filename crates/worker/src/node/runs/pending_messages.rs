//! Messages of a run that are stored and not due yet.
//!
//! By time, and by id: a workflow with ten thousand timers cancels each of them at the same price.

use std::collections::BTreeMap;

use resurgam_core::Timestamp;
use resurgam_store::rows::MessageRow;

/// Messages that a run is to read later, by time and arrival.
#[derive(Debug, Default)]
pub(crate) struct PendingMessages {
    rows: BTreeMap<Place, MessageRow>,
    places: BTreeMap<String, Place>,
    arrivals: u64,
}

type Place = (Timestamp, u64);

impl PendingMessages {
    /// Keeps a message until its time. One whose id is known is the same one.
    pub(crate) fn keep(&mut self, row: MessageRow) {
        self.remove(&row.id);
        let place = (row.due_at, self.arrivals);
        self.arrivals += 1;
        self.places.insert(row.id.clone(), place);
        self.rows.insert(place, row);
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.places.contains_key(id)
    }

    pub(crate) fn remove(&mut self, id: &str) {
        if let Some(place) = self.places.remove(id) {
            self.rows.remove(&place);
        }
    }

    /// Takes the first message whose time has come.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<MessageRow> {
        let first = self.rows.first_entry().filter(|entry| entry.key().0 <= now)?;
        let row = first.remove();
        self.places.remove(&row.id);
        Some(row)
    }

    /// Takes the messages that are wanted, in order.
    pub(crate) fn take(&mut self, is_wanted: impl Fn(&MessageRow) -> bool) -> Vec<MessageRow> {
        let wanted: Vec<MessageRow> =
            self.rows.extract_if(.., |_, row| is_wanted(row)).map(|(_, row)| row).collect();
        for row in &wanted {
            self.places.remove(&row.id);
        }
        wanted
    }

    /// The times after this one, in order.
    pub(crate) fn times_after(&self, now: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
        self.rows.range((now, u64::MAX)..).map(|((at, _), _)| *at).filter(move |at| *at > now)
    }

    pub(crate) fn clear(&mut self) {
        *self = PendingMessages { arrivals: self.arrivals, ..PendingMessages::default() };
    }
}

#[cfg(test)]
mod tests {
    use resurgam_core::{Seq, Uid};
    use resurgam_store::rows::Message;
    use resurgam_watchdog::test;

    use super::*;

    fn row(id: &str, at: i64) -> MessageRow {
        let body = Message::Timer { run: 1, timer: Seq(2) };
        MessageRow { uid: Uid(1), id: id.to_string(), due_at: Timestamp::from_millis(at), body }
    }

    fn due(later: &mut PendingMessages, at: i64) -> Vec<String> {
        let next = || later.pop_due(Timestamp::from_millis(at)).map(|row| row.id);
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn messages_come_in_the_order_of_their_times_and_what_is_gone_never_comes() {
        let mut later = PendingMessages::default();
        for (id, at) in [("c", 30), ("a", 10), ("gone", 10), ("b", 10), ("d", 40), ("taken", 5)] {
            later.keep(row(id, at));
        }
        later.remove("gone");
        later.remove("never there");
        assert_eq!(later.take(|row| row.id == "taken").len(), 1);
        assert!(later.has("a") && !later.has("gone") && !later.has("taken"));
        let times: Vec<i64> =
            later.times_after(Timestamp::from_millis(10)).map(Timestamp::as_millis).collect();
        assert_eq!(times, [30, 40]);
        assert_eq!(due(&mut later, 30), ["a", "b", "c"]);
        assert!(!later.has("a"));
        later.keep(row("d", 20));
        assert_eq!(due(&mut later, 100), ["d"], "a message that is known is one");
    }
}
