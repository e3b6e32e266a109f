//! An instance that is paused: what a look at it finds (`resting.rs` says when there is one).

use resurgam_store::rows::{Message as StoredMessage, MessageRow};

use crate::node::coalesced_read::CoalescedRead;

/// An instance that is known to be paused.
#[derive(Debug, Default)]
pub(crate) struct PausedRun {
    /// How many messages it had when it was last looked at.
    seen: usize,
    looks: CoalescedRead,
}

/// What a look at a paused instance finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Nothing that was not there before.
    NothingNew,
    /// Messages that it has not read.
    Messages,
    /// Somebody wants it to end.
    End,
}

impl PausedRun {
    /// It is looked at from now on. False while it is: then there is another look after that.
    pub(crate) fn begins_look(&mut self, numbers: &mut u64) -> bool {
        self.looks.begin(numbers).is_some()
    }

    /// It was looked at, and has these messages. True when there is to be another look.
    pub(crate) fn looked_at(&mut self, messages: &[MessageRow]) -> (Look, bool) {
        let of_run = || messages.iter().filter(|row| !row.body.is_for_holder());
        let ends = |row: &MessageRow| {
            matches!(row.body, StoredMessage::Cancel { .. } | StoredMessage::Terminate { .. })
        };
        let before = std::mem::replace(&mut self.seen, of_run().count());
        let look = match self.seen != before {
            _ if of_run().any(ends) => Look::End,
            true => Look::Messages,
            false => Look::NothingNew,
        };
        (look, self.looks.end())
    }
}
