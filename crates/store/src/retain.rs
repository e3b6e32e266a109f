//! Deleting instances that are closed, with everything of theirs.
//!
//! One call is one short transaction. A store looks at and deletes a bounded number of rows in it
//! and says where to go on, so that others who write wait for one such piece at most. An instance
//! with a history longer than that goes in several pieces, its own row last.

use resurgam_core::{Timestamp, Uid};

use crate::Answer;
use crate::rows::Status;

/// Deleting what is closed. Anybody may do it: nobody works on a closed instance.
pub trait Retain {
    /// Deletes one piece of what is wanted.
    fn delete_closed(&self, wanted: Deletion) -> Answer<'_, Deleted>;
}

/// Which closed instances are to go.
#[derive(Clone, Debug, PartialEq)]
pub enum Deletion {
    /// This one, if it is closed.
    One(Uid),
    /// All that closed in this way.
    Many(Sweep),
    /// Dead letters that were written before this time, whatever became of them. They are no
    /// instances: they outlive theirs.
    Letters {
        /// The first time that stays.
        before: Timestamp,
    },
    /// Bulk jobs that were over before this time.
    Bulk {
        /// The first time that stays.
        before: Timestamp,
    },
}

/// Closed instances of one status, the ones that closed first going first.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// How they closed.
    pub status: Status,
    /// Only those that closed before this time.
    pub closed_before: Timestamp,
    /// Only of this workflow.
    pub workflow: Option<String>,
    /// Only those with this tag.
    pub tag: Option<(String, String)>,
    /// Where to go on, from [`Deleted::go_on`].
    pub after: Option<Place>,
}

/// A place in the order in which instances closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// When the instance closed.
    pub closed_at: Timestamp,
    /// Which of those that closed then.
    pub row: i64,
}

/// What became of a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// How many instances are gone.
    pub instances: u64,
    /// How many rows went, all tables together.
    pub rows: u64,
    /// True when there is more to do.
    pub more: bool,
    /// Where to go on; `None` for the beginning.
    pub go_on: Option<Place>,
    /// When the first instance closed, the first letter was written, or the first job was over,
    /// that is too young.
    pub next: Option<Timestamp>,
}

/// The most instances of one piece.
pub const INSTANCES: u64 = 500;

/// The most rows of one piece, about.
pub const ROWS: u64 = 5_000;
