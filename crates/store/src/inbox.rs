//! The inbox: rows that anybody inserts with plain SQL, in a transaction of their own.
//!
//! What such a row says is for the engine to judge: here it is text. The row goes in the same step
//! as what it causes, so that it takes effect once, whatever happens in between.

use resurgam_core::{Payload, Timestamp};

use crate::Answer;

/// Reading what others have inserted.
pub trait Inbox {
    /// Rows that nobody has taken or refused, in the order of their arrival, at most `limit`. Rows
    /// that cannot even be read are refused by the store itself.
    fn inbox(&self, limit: usize) -> Answer<'_, Vec<InboxRow>>;
}

/// A row that somebody has inserted.
#[derive(Clone, Debug, PartialEq)]
pub struct InboxRow {
    /// Its place.
    pub arrival: i64,
    /// What makes a repeated row one.
    pub id: Option<String>,
    /// The id of the instance.
    pub instance: String,
    /// What is wanted: `start`, `signal`, `cancel`.
    pub kind: String,
    /// The name of the workflow, or of the signal.
    pub name: Option<String>,
    /// The argument, or the value.
    pub body: Option<Payload>,
}

/// A change of the inbox.
#[derive(Clone, Debug, PartialEq)]
pub enum InboxWrite {
    /// The row goes, and its id is remembered. The step is refused when the row is no longer there
    /// as it was read; and when its id is remembered already, then the row goes all the same.
    Take {
        /// The row.
        row: InboxRow,
        /// When.
        at: Timestamp,
    },
    /// The row stays, with the reason; its id is not remembered.
    Refuse {
        /// The row.
        arrival: i64,
        /// Why.
        error: String,
    },
    /// Ids of rows that were taken before this time are forgotten, a bounded number of them.
    /// Whether later steps of the same batch still find them remembered is open.
    Forget {
        /// The time.
        before: Timestamp,
    },
}
