//! Messages, by instance in the order of their arrival, and by the time when they are due.

use std::collections::BTreeMap;

use resurgam_core::{Timestamp, Uid};

use crate::rows::{Message, MessageRow};

/// A stored message.
#[derive(Clone, Debug)]
pub(in crate::model) struct MessageEntry {
    pub(in crate::model) row: MessageRow,
    /// True while it does not wake its instance.
    pub(in crate::model) parked: bool,
}

/// A message by its instance and its arrival.
pub(in crate::model) type MessageKey = (Uid, u64);

/// The table of messages.
#[derive(Clone, Debug, Default)]
pub(in crate::model) struct Messages {
    rows: BTreeMap<MessageKey, MessageEntry>,
    ids: BTreeMap<(Uid, String), u64>,
    /// What wakes its instance, by time and arrival.
    due: BTreeMap<(Timestamp, u64), Uid>,
    /// How many signals wait for an instance; none is not in here.
    signals: BTreeMap<Uid, usize>,
}

impl Messages {
    pub(in crate::model) fn put(
        &mut self,
        key: MessageKey,
        row: Option<MessageEntry>,
    ) -> Option<MessageEntry> {
        let before = self.rows.remove(&key);
        if let Some(before) = &before {
            self.leave_indexes(key, before);
        }
        if let Some(row) = row {
            self.enter_indexes(key, &row);
            self.rows.insert(key, row);
        }
        before
    }

    fn enter_indexes(&mut self, (uid, arrival): MessageKey, entry: &MessageEntry) {
        self.ids.insert((uid, entry.row.id.clone()), arrival);
        if !entry.parked {
            self.due.insert((entry.row.due_at, arrival), uid);
        }
        if is_signal(&entry.row) {
            *self.signals.entry(uid).or_default() += 1;
        }
    }

    fn leave_indexes(&mut self, (uid, arrival): MessageKey, entry: &MessageEntry) {
        self.ids.remove(&(uid, entry.row.id.clone()));
        self.due.remove(&(entry.row.due_at, arrival));
        if is_signal(&entry.row)
            && let Some(count) = self.signals.get_mut(&uid)
        {
            *count -= 1;
            if *count == 0 {
                self.signals.remove(&uid);
            }
        }
    }

    pub(in crate::model) fn get(&self, key: MessageKey) -> Option<&MessageEntry> {
        self.rows.get(&key)
    }

    /// The message of an instance with this id.
    pub(in crate::model) fn by_id(
        &self,
        uid: Uid,
        id: &str,
    ) -> Option<(MessageKey, &MessageEntry)> {
        let key = (uid, *self.ids.get(&(uid, id.to_string()))?);
        Some((key, self.rows.get(&key)?))
    }

    /// The messages of an instance in the order of their arrival.
    pub(in crate::model) fn of(
        &self,
        uid: Uid,
    ) -> impl Iterator<Item = (MessageKey, &MessageEntry)> {
        self.rows.range((uid, u64::MIN)..=(uid, u64::MAX)).map(|(key, entry)| (*key, entry))
    }

    /// What wakes instances before this time, the earliest first and then as it arrived.
    pub(in crate::model) fn due(
        &self,
        before: Timestamp,
    ) -> impl Iterator<Item = (MessageKey, Timestamp)> {
        let due = self.due.range(..(before, u64::MIN));
        due.map(|((due_at, arrival), uid)| ((*uid, *arrival), *due_at))
    }

    /// How many signals wait for an instance.
    pub(in crate::model) fn signals(&self, uid: Uid) -> usize {
        self.signals.get(&uid).copied().unwrap_or_default()
    }
}

/// Whether a message is a signal.
pub(in crate::model) fn is_signal(row: &MessageRow) -> bool {
    matches!(row.body, Message::Signal { .. })
}
