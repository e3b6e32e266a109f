//! Attempts that wait for a transaction of theirs: what they report meanwhile is held back.

use std::collections::{BTreeMap, BTreeSet};

use resurgam_core::CallKey;

use crate::node::input::AttemptEnd;

/// The transactions that are with the store, by call and token.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    under_way: BTreeMap<(CallKey, u64), Reports>,
    /// Calls that somebody wants to end when it is known what became of the transaction.
    held_up: BTreeSet<CallKey>,
}

/// What an attempt reported while its transaction was with the store, in order.
pub(crate) type Reports = Vec<AttemptEnd>;

impl Transactions {
    /// A transaction goes to the store. False when the attempt has one there already.
    pub(crate) fn begin(&mut self, key: CallKey, token: u64) -> bool {
        let is_new = !self.under_way.contains_key(&(key, token));
        self.under_way.entry((key, token)).or_default();
        is_new
    }

    /// The store has decided. Answers with what the attempt reported meanwhile; `None` when nothing
    /// is known of the transaction.
    pub(crate) fn end(&mut self, key: CallKey, token: u64) -> Option<Reports> {
        self.under_way.remove(&(key, token))
    }

    /// True while the store decides about this call.
    pub(crate) fn is_under_way(&self, key: CallKey) -> bool {
        self.under_way.range((key, 0)..=(key, u64::MAX)).next().is_some()
    }

    /// True while the store decides about this call: whoever wants to end it waits for that.
    pub(crate) fn holds_up(&mut self, key: CallKey) -> bool {
        let is_under_way = self.is_under_way(key);
        if is_under_way {
            self.held_up.insert(key);
        }
        is_under_way
    }

    /// True when somebody waits for what becomes of this call, who does not any more.
    pub(crate) fn goes_on(&mut self, key: CallKey) -> bool {
        self.held_up.remove(&key)
    }

    /// Keeps a report until the store has decided; hands it back when there is nothing to decide.
    pub(crate) fn hold(&mut self, key: CallKey, token: u64, end: AttemptEnd) -> Option<AttemptEnd> {
        let Some(reports) = self.under_way.get_mut(&(key, token)) else { return Some(end) };
        reports.push(end);
        None
    }
}
