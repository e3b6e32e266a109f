//! The user's own tables in the same database.
//!
//! An attempt can write to them so that both its writes and its result are recorded, or neither. A
//! store offers that or not; one that does not says so to whoever asks, and never half of it.

use std::fmt;
use std::sync::Arc;

use resurgam_core::{CallKey, Failure, Payload, UserWork};

use crate::Answer;
use crate::rows::MessageRow;

/// The user's own tables.
pub trait Tables {
    /// Runs an attempt's code in a transaction of its own: looks whether the task still carries
    /// the attempt's token, lets the code write, stores the result as a message, deletes the task
    /// and commits. Fenced like every commit of the owner.
    ///
    /// An error means that nothing was written and the same may succeed later, as with
    /// [`Commit::commit`](crate::Commit::commit): then the code is run again.
    fn transact(&self, attempt: Arc<AttemptTransaction>) -> Answer<'_, Transacted> {
        drop(attempt);
        Box::pin(async { Ok(Transacted::Failed(not_offered())) })
    }

    /// Runs code of the user on their tables, outside of any activity. What it returns, it keeps
    /// for itself.
    fn on_tables(&self, access: Access, work: UserWork) -> Answer<'_, Result<(), Failure>> {
        let _ = (access, work);
        Box::pin(async { Ok(Err(not_offered())) })
    }
}

/// What code may do with the user's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Look.
    Read,
    /// Change them, too.
    Write,
}

/// An attempt that writes to the user's tables.
pub struct AttemptTransaction {
    /// The call.
    pub call: CallKey,
    /// What its task must still carry.
    pub token: u64,
    /// The user's code.
    pub work: UserWork,
    /// The message that tells the run of the result; a failure when the result cannot be stored.
    pub message: Box<dyn Fn(Payload) -> Result<MessageRow, Failure> + Send + Sync>,
}

/// What became of it.
#[derive(Debug)]
pub enum Transacted {
    /// The writes and this message are stored, and the task is gone.
    Done(Box<MessageRow>),
    /// Nothing is stored: the code failed.
    Failed(Failure),
    /// Nothing is stored, and the code did not run: the task is not this attempt's any more.
    Refused,
}

/// What the user's code hears from a store that cannot run it.
pub fn not_offered() -> Failure {
    let message = "this store has no transactions of this kind; use the ones of the store that \
                   the app works on";
    Failure::terminal(message).with_type("NotOffered")
}

impl fmt::Debug for AttemptTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transaction of call {}", self.call)
    }
}
