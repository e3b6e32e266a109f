//! When a node deletes next what has stayed long enough ([`Sweeper`]). How it does so is in
//! `retention.rs`.

use resurgam_core::Timestamp;

/// What an engine knows about what is to be deleted.
#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    pub(super) next: Option<Timestamp>,
    pub(super) is_sweeping: bool,
}

impl Sweeper {
    /// When to sweep next, unless that is being done.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.next.filter(|_| !self.is_sweeping)
    }

    /// Something is to be deleted then, or before.
    pub(crate) fn not_later_than(&mut self, at: Timestamp) {
        self.next = Some(self.next.map_or(at, |known| known.min(at)));
    }
}
