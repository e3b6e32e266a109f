//! An attempt that writes to the user's own tables: one transaction for it alone.
//!
//! The user's code runs first, with nothing of ours locked: it may take seconds, and who commits
//! steps of the same call, or takes the shard over, must not wait for it. Whether the task carries
//! the attempt's token is looked at before the code, so that it does not run in vain, and again
//! after it, when the task is deleted: that decides. Number, fence, task, result and `COMMIT`
//! travel in one go, as with every commit, so a lost answer is resolved in the same way and a crash
//! at any instant leaves the user's writes and the result, or neither.
//!
//! The claim is the node's, whoever holds the shard by now, so the fence here is that the node is
//! alive: who removes it waits for this commit, and its claims are lost only after that.

use std::slice;
use std::time::Duration;

use resurgam_core::{CallKey, Failure, UserWork};
use resurgam_store::rows::MessageRow;
use resurgam_store::{Access, AttemptTransaction, Error, MessageWrite, Result, Step, Transacted};

use super::lane::{Ending, Fate, Lane, alive, refused};
use super::plan::Plan;
use crate::encode::{token, whole};
use crate::errors::{Meaning, meaning};
use crate::session::Session;
use crate::statement::{Part, Statement};
use crate::user_transaction::{self, Ended, Visit};

const IS_CLAIMED: &str = "
    SELECT 1 FROM @task WHERE shard = $1 AND uid = $2 AND run = $3 AND seq = $4 AND token = $5";

const END: &str = "
    DELETE FROM @task WHERE shard = $1 AND uid = $2 AND run = $3 AND seq = $4 AND token = $5";

/// The limit of the user's code ends with it: that of a commit is ours (`limits`).
const OURS: &str = "SET LOCAL statement_timeout = 0";

/// How many rows of ours it writes: a message comes, a task goes.
const ROWS: u64 = 2;

impl Lane {
    /// Runs an attempt's code and stores its result, or nothing.
    pub(crate) async fn transact(
        &mut self,
        attempt: &AttemptTransaction,
        limit: Duration,
        node: &str,
    ) -> Result<Transacted> {
        let condition = claim(Statement::rows("look for a claim", IS_CLAIMED), attempt);
        let work = attempt.work.clone();
        let visit = Visit { work, access: Access::Write, limit, condition: Some(condition) };
        let (client, result) = match self.visit(visit).await? {
            (client, Ended::Open(result)) => (client, result),
            (_, Ended::Failed(failure)) => return Ok(Transacted::Failed(failure)),
            (_, Ended::Refused) => return Ok(Transacted::Refused),
        };
        let message = match (attempt.message)(result) {
            Ok(message) => message,
            Err(failure) => {
                self.roll_back(client).await;
                return Ok(Transacted::Failed(failure));
            }
        };
        self.end(client, attempt, message, node).await
    }

    /// Runs code of the user on their tables.
    pub(crate) async fn on_tables(
        &mut self,
        access: Access,
        work: UserWork,
        limit: Duration,
    ) -> Result<std::result::Result<(), Failure>> {
        let visit = Visit { work, access, limit, condition: None };
        let client = match self.visit(visit).await? {
            (client, Ended::Open(_)) => client,
            (_, Ended::Failed(failure)) => return Ok(Err(failure)),
            (_, Ended::Refused) => return Err(Error::transient("run the user's code")),
        };
        if access == Access::Read {
            self.roll_back(client).await;
            return Ok(Ok(()));
        }
        Ok(match self.commit_visit(client, &Plan::default(), Vec::new()).await? {
            Fate::Written => {
                self.shared.counters.add(0);
                Ok(())
            }
            Fate::Refused(_, error) => Err(user_transaction::told(error.into())),
        })
    }

    /// Lets code of the user in. The connection is out of our hands when its transaction is open,
    /// and kept otherwise.
    async fn visit(&mut self, visit: Visit) -> Result<(Option<Session>, Ended)> {
        let client = self.ready().await?;
        let (client, ended) = user_transaction::visit(client, &self.shared.schema, visit).await;
        match ended {
            Ok(ended @ Ended::Open(_)) => Ok((client, ended)),
            ended => {
                client.into_iter().for_each(|client| self.keep(client));
                Ok((None, ended?))
            }
        }
    }

    /// Ends the attempt's task and stores its result.
    async fn end(
        &mut self,
        client: Option<Session>,
        attempt: &AttemptTransaction,
        message: MessageRow,
        node: &str,
    ) -> Result<Transacted> {
        let stored = MessageWrite::Insert(message.clone());
        let step = Step { messages: vec![stored], ..Step::default() };
        let plan = Plan::hopeful(slice::from_ref(&step));
        let end = claim(Statement::new(Part::Claim, END), attempt).exactly(1);
        match self.commit_visit(client, &plan, vec![alive(node), end]).await? {
            Fate::Written => {
                self.shared.counters.add(ROWS);
                Ok(Transacted::Done(Box::new(message)))
            }
            Fate::Refused(Part::Claim, _) => Ok(Transacted::Refused),
            Fate::Refused(Part::Rows("commit"), error) => {
                Ok(Transacted::Failed(user_transaction::told(error.into())))
            }
            Fate::Refused(part, error) => Err(refused(part, error)),
        }
    }

    /// Commits what the user's code has written, and this beside it.
    async fn commit_visit(
        &mut self,
        client: Option<Session>,
        plan: &Plan<'_>,
        first: Vec<Statement<'_>>,
    ) -> Result<Fate> {
        let lost = || Error::transient("the connection ended before the transaction was committed");
        let client = client.ok_or_else(lost)?;
        let before = self.before(plan, None, &client)?;
        let writes = self.writes(plan);
        let statements: Vec<&Statement<'_>> = before.iter().chain(&first).chain(&writes).collect();
        self.batches.sent();
        match self.transaction(&client, Some(OURS), &statements).await {
            // What is looked at last, by the commit, is the user's: we have nothing of that kind.
            Ending::Refused(part @ Part::Rows("commit"), error) if is_the_users(&error) => {
                self.batches.not_written();
                self.keep(client);
                Ok(Fate::Refused(part, error))
            }
            ending => self.ended(client, ending, &mut false).await?.ok_or_else(lost),
        }
    }

    /// Ends a transaction without a trace. A connection that cannot do that is dropped, which does.
    pub(super) async fn roll_back(&mut self, client: Option<Session>) {
        let Some(client) = client else { return };
        let ended = self.shared.in_time("roll back", client.batch_execute("ROLLBACK")).await;
        if let Ok(Ok(())) = ended {
            self.keep(client);
        }
    }
}

fn claim(statement: Statement<'static>, attempt: &AttemptTransaction) -> Statement<'static> {
    let CallKey { run, seq } = attempt.call;
    statement.uid(run.uid).big(i64::from(run.run)).big(whole(seq.0)).big(token(attempt.token))
}

fn is_the_users(error: &tokio_postgres::Error) -> bool {
    matches!(meaning(error), Meaning::Data | Meaning::Unusable)
}
