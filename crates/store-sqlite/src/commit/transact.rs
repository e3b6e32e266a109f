//! An attempt that writes to the user's own tables: one transaction for it alone.
//!
//! The order inside is what makes it safe. The write lock comes first, so that whoever holds the
//! token when it is looked at holds it until the end. The result is stored after the user's code
//! and before the one commit, so that a crash at any instant leaves both or neither.

use std::time::Duration;

use resurgam_core::Failure;
use resurgam_store::{Access, AttemptTransaction, Result, Transacted};
use rusqlite::{ErrorCode, Transaction, TransactionBehavior};

use super::Statements;
use crate::busy;
use crate::errors::Attempted;
use crate::ownership::Fence;
use crate::user_transaction::{self, SqliteWork};

impl Statements<'_> {
    /// Runs the attempt's code and stores its result. Whatever ends it early, a failure or trouble
    /// with the disk, rolls everything back.
    pub(crate) fn transact(
        &mut self,
        attempt: &AttemptTransaction,
        work: &SqliteWork,
        limit: Duration,
        fence: &Fence,
    ) -> Result<Transacted> {
        let begun = Transaction::new_unchecked(self.connection, TransactionBehavior::Immediate);
        busy::served();
        let transaction = begun.attempted(|| "begin a transaction".into())?;
        self.check(fence)?;
        if !self.tasks.is_claimed(attempt.call, attempt.token)? {
            return Ok(Transacted::Refused);
        }
        let result = match user_transaction::run(work, &transaction, Access::Write, limit)? {
            Ok(result) => result,
            Err(failure) => return Ok(Transacted::Failed(failure)),
        };
        let message = match (attempt.message)(result) {
            Ok(message) => message,
            Err(failure) => return Ok(Transacted::Failed(failure)),
        };
        self.messages.insert(&message)?;
        self.tasks.end(attempt.call)?;
        match transaction.commit() {
            Ok(()) => Ok(Transacted::Done(Box::new(message))),
            // A constraint that is looked at last: the user's, for we have none.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                Ok(Transacted::Failed(Failure::from(error)))
            }
            Err(error) => Err(error).attempted(|| "commit the transaction".into()),
        }
    }
}
