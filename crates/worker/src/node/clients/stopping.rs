//! A node that is about to stop, and who waits for that ([`Stopping`]). How it stops is in
//! `stop.rs`.

use resurgam_core::Timestamp;

use crate::node::reply::Reply;

/// The engine is about to stop.
#[derive(Debug)]
pub(crate) struct Stopping {
    /// When attempts that still run are interrupted, and after that when the store is given up.
    pub(super) until: Timestamp,
    pub(super) interrupted: bool,
    pub(super) replies: Vec<Reply<()>>,
}

impl Stopping {
    /// When something is to be done about it next.
    pub(crate) fn next(&self) -> Timestamp {
        self.until
    }
}
