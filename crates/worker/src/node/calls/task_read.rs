//! A task that is being read from the store.

use super::slots::Slot;

/// A task while it is read, once however many ask for it.
#[derive(Debug, Default)]
pub(crate) struct TaskRead {
    /// Held for it until it is here.
    pub(super) slot: Option<Slot>,
    /// More is known of the call than the read can tell.
    pub(super) outdated: bool,
}
