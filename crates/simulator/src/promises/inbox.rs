//! What is promised about the inbox: each row is taken once, in order, with what it asks for.

use std::collections::BTreeMap;

use resurgam_store::model::{Model, ShardSet};
use resurgam_store::rows::Message;
use resurgam_store::{InboxRow, InboxWrite, InstanceWrite, MessageWrite, Step};

use super::Promises;

/// The rows that somebody has inserted, by their arrival, and what became of each.
pub(super) type InboxSeen = BTreeMap<i64, (InboxRow, RowFate)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowFate {
    Waits,
    Taken,
    Refused,
}

impl Promises {
    /// Somebody's transaction that inserts a row is committed.
    pub(crate) fn inserted(&mut self, row: InboxRow) {
        self.inbox.insert(row.arrival, (row, RowFate::Waits));
    }

    /// True when a row of this id is committed, whatever became of it.
    pub(crate) fn has_inserted(&self, id: &str) -> bool {
        self.inbox.values().any(|(row, _)| row.id.as_deref() == Some(id))
    }

    /// True when a row of this id was taken.
    pub(crate) fn has_taken(&self, id: &str) -> bool {
        let is_it = |row: &InboxRow| row.id.as_deref() == Some(id);
        self.inbox.values().any(|(row, fate)| is_it(row) && *fate == RowFate::Taken)
    }

    /// A step is written that changes the inbox.
    pub(super) fn inbox_written(&mut self, step: &Step) {
        match step.inbox.as_deref() {
            Some(InboxWrite::Take { row, .. }) => self.row_taken(row, step),
            Some(InboxWrite::Refuse { arrival, error }) => self.row_refused(*arrival, error),
            Some(InboxWrite::Forget { .. }) | None => {}
        }
    }

    fn row_taken(&mut self, row: &InboxRow, step: &Step) {
        let what = format!("row {} of the inbox ({} {})", row.arrival, row.kind, row.instance);
        let fate = self.inbox.get(&row.arrival).map(|(_, fate)| *fate);
        if fate != Some(RowFate::Waits) {
            self.breaks(None, format!("{what} is taken, and was {fate:?} before"));
        }
        let is_repeated = row.id.as_deref().is_some_and(|id| self.has_taken(id));
        if !is_repeated && !does_what_is_asked(row, step) {
            self.breaks(None, format!("{what} is taken without what it asks for"));
        }
        let of_instance = |(other, _): &&(InboxRow, RowFate)| other.instance == row.instance;
        let mut earlier = self.inbox.range(..row.arrival).map(|(_, seen)| seen).filter(of_instance);
        let is_first = |(other, fate): &(InboxRow, RowFate)| {
            // A repeated row goes without a word, whenever it is looked at.
            *fate == RowFate::Waits && !other.id.as_deref().is_some_and(|id| self.has_taken(id))
        };
        if let Some((other, _)) = earlier.find(|seen| is_first(seen)) {
            let other = other.arrival;
            self.breaks(None, format!("{what} is taken before row {other} of the same instance"));
        }
        self.inbox.insert(row.arrival, (row.clone(), RowFate::Taken));
    }

    /// Only a row that waits is refused. When a shard moves, its holder of before may still look at
    /// a row that the next one has taken since: its refusal finds no row, and changes nothing.
    fn row_refused(&mut self, arrival: i64, error: &str) {
        let waits = self.inbox.get_mut(&arrival).filter(|(_, fate)| *fate == RowFate::Waits);
        let Some((row, fate)) = waits else { return };
        *fate = RowFate::Refused;
        if row.kind == "start" {
            let instance = row.instance.clone();
            self.breaks(None, format!("the start of {instance} by the inbox is refused: {error}"));
        }
    }

    /// Everything is over: no row waits, and none has vanished.
    pub(super) fn inbox_at_the_end(&mut self, model: &Model) {
        let left = model.inbox(ShardSet::ALL, usize::MAX);
        for row in &left {
            let what = format!("row {} of the inbox was never taken: {row:?}", row.arrival);
            self.breaks(None, what);
        }
        let waits = |(_, fate): &&(InboxRow, RowFate)| *fate == RowFate::Waits;
        let waiting: Vec<InboxRow> =
            self.inbox.values().filter(waits).map(|(row, _)| row.clone()).collect();
        for row in waiting {
            if !row.id.as_deref().is_some_and(|id| self.has_taken(id)) && !left.contains(&row) {
                self.breaks(None, format!("row {} of the inbox vanished: {row:?}", row.arrival));
            }
        }
    }
}

/// Whether the step that takes a row has what the row asks for.
fn does_what_is_asked(row: &InboxRow, step: &Step) -> bool {
    let messages = step.messages.iter().filter_map(|write| match write {
        MessageWrite::Insert(row) => Some(&row.body),
        _ => None,
    });
    let mut messages = messages.filter(|message| match (row.kind.as_str(), message) {
        ("start", Message::Start) => true,
        ("signal", Message::Signal { name, value }) => {
            row.name.as_ref() == Some(name) && row.body.as_ref() == Some(value)
        }
        ("cancel", Message::Cancel { .. }) => true,
        _ => false,
    });
    let is_for_it = match &step.instance {
        Some(InstanceWrite::Insert { row: instance, .. }) => instance.id == row.instance,
        Some(InstanceWrite::Open { .. }) => row.kind != "start",
        _ => false,
    };
    is_for_it && messages.next().is_some()
}

#[cfg(test)]
mod tests {
    use resurgam_core::{Payload, Timestamp, Uid};
    use resurgam_store::model::Sharing;
    use resurgam_store::rows::MessageRow;
    use resurgam_watchdog::test;

    use super::*;

    fn signal(arrival: i64) -> InboxRow {
        let text = |text: &str| Some(text.to_string());
        let (id, kind, instance) = (text("go-1"), "signal".to_string(), "order-1".to_string());
        InboxRow { arrival, id, instance, kind, name: text("go"), body: Some(Payload::null()) }
    }

    fn takes(row: InboxRow) -> Step {
        let (uid, due_at) = (Uid(1), Timestamp::EPOCH);
        let body = Message::Signal { name: "go".to_string(), value: Payload::null() };
        let message = MessageRow { uid, id: "go-1".to_string(), due_at, body };
        Step {
            instance: Some(InstanceWrite::Open { uid, signals_below: None }),
            messages: vec![MessageWrite::Insert(message)],
            inbox: Some(InboxWrite::Take { row, at: due_at }.into()),
            ..Step::default()
        }
    }

    fn refuses(arrival: i64) -> Step {
        let error = "the instance is closed".to_string();
        Step { inbox: Some(InboxWrite::Refuse { arrival, error }.into()), ..Step::default() }
    }

    #[test]
    fn a_row_that_was_taken_is_not_refused_by_the_holder_of_before() {
        let mut promises = Promises::default();
        (1..=2).for_each(|arrival| promises.inserted(signal(arrival)));
        promises.inbox_written(&takes(signal(1)));
        promises.inbox_written(&refuses(1));
        assert!(promises.has_taken("go-1"));
        // The second one is the first one again, and is gone with it.
        promises.inbox_at_the_end(&Model::new(Sharing::ManyNodes));
        assert_eq!(promises.broken(), None);
    }

    #[test]
    fn a_row_that_is_gone_although_nobody_took_it_has_vanished() {
        let mut promises = Promises::default();
        promises.inserted(signal(1));
        promises.inbox_at_the_end(&Model::new(Sharing::ManyNodes));
        assert!(promises.broken().is_some_and(|broken| broken.what.contains("vanished")));
    }
}
