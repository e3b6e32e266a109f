//! The inbox, and the ids of rows that were taken from it.

use std::collections::{BTreeMap, BTreeSet};

use resurgam_core::Timestamp;

use crate::InboxRow;

/// A row that somebody has inserted.
#[derive(Clone, Debug)]
pub(in crate::model) struct InboxEntry {
    pub(in crate::model) row: InboxRow,
    /// Why it was refused.
    pub(in crate::model) error: Option<String>,
}

/// The table of rows that others have inserted.
#[derive(Clone, Debug, Default)]
pub(in crate::model) struct InboxRows {
    rows: BTreeMap<i64, InboxEntry>,
    /// Those that nobody has refused.
    new: BTreeSet<i64>,
}

impl InboxRows {
    pub(in crate::model) fn put(
        &mut self,
        arrival: i64,
        row: Option<InboxEntry>,
    ) -> Option<InboxEntry> {
        let before = self.rows.remove(&arrival);
        self.new.remove(&arrival);
        if let Some(entry) = row {
            if entry.error.is_none() {
                self.new.insert(arrival);
            }
            self.rows.insert(arrival, entry);
        }
        before
    }

    /// A row that nobody has taken or refused.
    pub(in crate::model) fn new_row(&self, arrival: i64) -> Option<&InboxRow> {
        let entry = self.rows.get(&arrival)?;
        entry.error.is_none().then_some(&entry.row)
    }

    /// Rows that nobody has taken or refused, in the order of their arrival.
    pub(in crate::model) fn new_rows(&self) -> impl Iterator<Item = &InboxRow> {
        self.new.iter().filter_map(|arrival| Some(&self.rows.get(arrival)?.row))
    }
}

/// The ids of rows that were taken, and when.
#[derive(Clone, Debug, Default)]
pub(in crate::model) struct SeenIds {
    rows: BTreeMap<String, Timestamp>,
    by_time: BTreeSet<(Timestamp, String)>,
}

impl SeenIds {
    pub(in crate::model) fn put(&mut self, id: String, at: Option<Timestamp>) -> Option<Timestamp> {
        let before = self.rows.remove(&id);
        if let Some(before) = before {
            self.by_time.remove(&(before, id.clone()));
        }
        if let Some(at) = at {
            self.by_time.insert((at, id.clone()));
            self.rows.insert(id, at);
        }
        before
    }

    pub(in crate::model) fn contains(&self, id: &str) -> bool {
        self.rows.contains_key(id)
    }

    /// The ids of rows that were taken before this time, the earliest first.
    pub(in crate::model) fn before(&self, time: Timestamp) -> impl Iterator<Item = &str> {
        self.by_time.iter().take_while(move |(at, _)| *at < time).map(|(_, id)| id.as_str())
    }
}
