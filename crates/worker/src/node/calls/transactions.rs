//! Attempts that wait for a transaction of theirs: what they report meanwhile is held back.

use std::collections::BTreeMap;

use resurgam_core::CallKey;

use crate::node::input::AttemptEnd;

/// The transactions that are with the store, by call and token.
#[derive(Debug, Default)]
pub(crate) struct Transactions(BTreeMap<(CallKey, u64), Reports>);

/// What an attempt reported while its transaction was with the store, in order.
pub(crate) type Reports = Vec<AttemptEnd>;

impl Transactions {
    /// A transaction goes to the store. False when the attempt has one there already.
    pub(crate) fn begin(&mut self, key: CallKey, token: u64) -> bool {
        let is_new = !self.0.contains_key(&(key, token));
        self.0.entry((key, token)).or_default();
        is_new
    }

    /// The store has decided. Answers with what the attempt reported meanwhile; `None` when nothing
    /// is known of the transaction.
    pub(crate) fn end(&mut self, key: CallKey, token: u64) -> Option<Reports> {
        self.0.remove(&(key, token))
    }

    /// True while the store decides about this call.
    pub(crate) fn is_under_way(&self, key: CallKey) -> bool {
        self.0.keys().any(|(call, _)| *call == key)
    }

    /// Keeps a report until the store has decided; hands it back when there is nothing to decide.
    pub(crate) fn hold(&mut self, key: CallKey, token: u64, end: AttemptEnd) -> Option<AttemptEnd> {
        let Some(reports) = self.0.get_mut(&(key, token)) else { return Some(end) };
        reports.push(end);
        None
    }
}
