//! The user's code in a transaction of ours.
//!
//! It gets `&tokio_postgres::Transaction` and is asynchronous. It runs on a thread of its own: so
//! what it returns may borrow from what it captured and need not be `Send`, which no bound on
//! stable Rust could ask of an async closure; and a panic in it is caught there.
//!
//! PostgreSQL has no hook that would keep code to its own tables. What is found out is a
//! transaction that was ended from inside: a setting that lives as long as the transaction does
//! must still be there. That comes too late to undo what the code committed; so the failure is
//! terminal and says what happened.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_core::duration::Human;
use resurgam_core::turn::panic_message;
use resurgam_core::{Failure, Kind, Payload, UserWork};
use resurgam_store::{Access, Error, Result};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_postgres::{IsolationLevel, Transaction};

use crate::errors::{self, Attempted, is_of_another_server, translated};
use crate::limits;
use crate::session::Session;
use crate::statement::{Schema, Sent, Statement, pipeline};

/// Code of the user, as this store takes it: it may be run more than once.
pub struct PostgresWork(Box<dyn Code>);

/// How code of the user ends.
pub(crate) type Outcome = std::result::Result<Payload, Failure>;

trait Code: Send + Sync {
    fn run<'t>(
        &'t self,
        transaction: &'t Transaction<'t>,
    ) -> Pin<Box<dyn Future<Output = Outcome> + 't>>;
}

impl<F> Code for F
where
    F: AsyncFn(&Transaction<'_>) -> Outcome + Send + Sync,
{
    fn run<'t>(
        &'t self,
        transaction: &'t Transaction<'t>,
    ) -> Pin<Box<dyn Future<Output = Outcome> + 't>> {
        Box::pin(self(transaction))
    }
}

impl PostgresWork {
    /// Takes code of the user. What it returns becomes the result of the activity.
    ///
    /// ```
    /// use resurgam_core::Payload;
    /// use resurgam_store_postgres::PostgresWork;
    ///
    /// let name = "ada".to_string();
    /// let work = PostgresWork::new(async move |tx| {
    ///     let take = "UPDATE account SET cents = cents - 30 WHERE name = $1";
    ///     tx.execute(take, &[&name]).await?;
    ///     Ok(Payload::null())
    /// });
    /// # let _ = work;
    /// ```
    pub fn new<F>(code: F) -> Self
    where
        F: AsyncFn(&Transaction<'_>) -> std::result::Result<Payload, Failure>
            + Send
            + Sync
            + 'static,
    {
        PostgresWork(Box::new(code))
    }

    /// True when work is meant for PostgreSQL.
    pub(crate) fn is(work: &UserWork) -> bool {
        (**work).is::<PostgresWork>()
    }
}

impl fmt::Debug for PostgresWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostgresWork")
    }
}

/// What code of the user is let in with.
pub(crate) struct Visit {
    pub(crate) work: UserWork,
    pub(crate) access: Access,
    pub(crate) limit: Duration,
    /// What must find a row before the code runs, if anything.
    pub(crate) condition: Option<Statement<'static>>,
}

/// How a visit ended.
pub(crate) enum Ended {
    /// The code is done, and its transaction is open.
    Open(Payload),
    /// The transaction is rolled back: the code failed.
    Failed(Failure),
    /// The code did not run: the condition does not hold.
    Refused,
}

/// Runs code of the user in a transaction. The connection comes back with the answer; it is gone
/// when whoever asked is. An error is trouble of the database, and the code may be run again.
pub(crate) async fn visit(
    client: Session,
    schema: &Schema,
    visit: Visit,
) -> (Option<Session>, Result<Ended>) {
    let (mut answer, answered) = oneshot::channel();
    let (schema, runtime) = (schema.clone(), Handle::current());
    tokio::task::spawn_blocking(move || {
        let stay = async {
            tokio::select! {
                ended = inside(client, &schema, &visit) => Some(ended),
                // Dropping the connection in the middle of the transaction rolls it back.
                () = answer.closed() => None,
            }
        };
        let ended = match catch_unwind(AssertUnwindSafe(|| runtime.block_on(stay))) {
            Ok(Some(ended)) => ended,
            Ok(None) => return,
            Err(panic) => {
                let failure = Failure::of_kind(Kind::Panic, panic_message(&*panic));
                (None, Ok(Ended::Failed(failure)))
            }
        };
        let _nobody_waits = answer.send(ended);
    });
    answered.await.unwrap_or_else(|_| (None, Err(Error::transient("the runtime is stopping"))))
}

async fn inside(
    mut client: Session,
    schema: &Schema,
    visit: &Visit,
) -> (Option<Session>, Result<Ended>) {
    let ended = stay(&mut client, schema, visit).await;
    let usable = !client.is_closed() && !matches!(&ended, Err(error) if error.is_transient());
    (usable.then_some(client), ended)
}

/// Everything from the beginning of the transaction to the end of the code.
async fn stay(client: &mut Session, schema: &Schema, visit: &Visit) -> Result<Ended> {
    let what = || "run the user's code".to_string();
    let level = match visit.access {
        Access::Read => IsolationLevel::RepeatableRead,
        Access::Write => IsolationLevel::ReadCommitted,
    };
    let check = client.server_check();
    let builder = client.build_transaction().isolation_level(level);
    let begun = in_time(builder.read_only(visit.access == Access::Read).start()).await?;
    let transaction = begun.attempted(what)?;
    let mark = format!("{:016x}", fastrand::u64(..));
    let conditions = [check.as_ref(), visit.condition.as_ref()].into_iter().flatten();
    let conditions: Vec<&Statement<'_>> = conditions.collect();
    if !in_time(prepare(&transaction, schema, visit, &conditions, &mark)).await?? {
        in_time(transaction.rollback()).await?.attempted(what)?;
        return Ok(Ended::Refused);
    }
    let Some(ended) = run(&transaction, visit).await else {
        // A connection that cannot roll back is gone, and the transaction with it.
        let _gone = in_time(transaction.rollback()).await;
        return Ok(Ended::Failed(late(visit.limit)));
    };
    match ended {
        Ok(result) => match in_time(is_open(&transaction, schema, &mark)).await? {
            Ok(true) => {
                // Its drop would roll back what is still to be committed.
                std::mem::forget(transaction);
                Ok(Ended::Open(result))
            }
            Ok(false) => Ok(Ended::Failed(ended_inside())),
            Err(error) if is_aborted(&error) => Ok(Ended::Failed(rolled_back())),
            Err(error) => Err(translated(error, what())),
        },
        Err(failure)
            if transaction.client().is_closed() || is_of_the_database(visit.access, &failure) =>
        {
            Err(Error::transient(what()).because(failure.to_string()))
        }
        Err(failure) => {
            in_time(transaction.rollback()).await?.attempted(what)?;
            Ok(Ended::Failed(failure))
        }
    }
}

/// Waits for what is asked beside the user's code, which has a limit of its own.
async fn in_time<T>(asked: impl Future<Output = T>) -> Result<T> {
    limits::within(limits::read(), "run the user's code", asked).await
}

/// Settings that end with the transaction, and whether the conditions hold.
async fn prepare(
    transaction: &Transaction<'_>,
    schema: &Schema,
    visit: &Visit,
    conditions: &[&Statement<'_>],
    mark: &str,
) -> Result<bool> {
    // The server's limits come after ours, which knows what to say.
    let limit = visit.limit.as_millis().clamp(1, i32::MAX as u128 - 1_000);
    let settings = format!(
        "SET LOCAL {MARK} = '{mark}';
         SET LOCAL statement_timeout = {};
         SET LOCAL idle_in_transaction_session_timeout = {};
         SET LOCAL synchronous_commit = on",
        limit + 100,
        limit + 1_000
    );
    let mut sent = vec![Sent::Plain(&settings)];
    sent.extend(conditions.iter().map(|condition| Sent::Values(condition)));
    let answers = pipeline(transaction.client(), schema, &sent).await;
    let what = || "begin a transaction on the user's tables".to_string();
    let mut holds = answers.len() == sent.len();
    for (place, answer) in answers.into_iter().enumerate() {
        match answer {
            Err(error) if is_of_another_server(&sent[place], &error) => {
                return Err(errors::another_server());
            }
            answer => holds &= !answer.attempted(what)?.is_empty() || place == 0,
        }
    }
    Ok(holds)
}

/// A setting that nobody else has, for as long as the transaction lives.
const MARK: &str = "resurgam.transaction";

const IS_OPEN: &str = "SELECT coalesce(current_setting('resurgam.transaction', true), '') = $1";

async fn is_open(
    transaction: &Transaction<'_>,
    schema: &Schema,
    mark: &str,
) -> std::result::Result<bool, tokio_postgres::Error> {
    let look = Statement::rows("look for the transaction", IS_OPEN).text(mark);
    let rows = crate::statement::query(transaction.client(), schema, &look).await?;
    rows.first().map_or(Ok(false), |row| row.try_get(0))
}

/// Runs the code; nothing when its time is up. Code that blocks its thread cannot be cut and comes
/// back with whatever the server did meanwhile: it is late all the same, and is not run again as if
/// the database were at fault.
async fn run(transaction: &Transaction<'_>, visit: &Visit) -> Option<Outcome> {
    let work: Arc<PostgresWork> = match visit.work.clone().downcast() {
        Ok(work) => work,
        Err(_) => return Some(Err(resurgam_store::not_offered())),
    };
    let began = Instant::now();
    let ended = tokio::time::timeout(visit.limit, work.0.run(transaction)).await;
    let in_time = ended.ok().filter(|_| began.elapsed() < visit.limit);
    in_time.map(|ended| ended.map_err(told))
}

/// The driver's own text is "db error" and no more; what the server said is behind it.
pub(crate) fn told(mut failure: Failure) -> Failure {
    if failure.message == "db error"
        && let Some(said) = &failure.cause
    {
        failure.message = said.message.clone();
    }
    failure
}

/// True for a failure of the user's code that is the database's fault: the code is to be run again,
/// and no attempt is to be counted. On its way through the user's code an error has become text;
/// these are the words in which the server and the driver say it. A server that speaks another
/// language is not understood, and the failure counts.
fn is_of_the_database(access: Access, failure: &Failure) -> bool {
    const SAYINGS: &[&str] = &[
        "connection closed",
        "error communicating with the server",
        "deadlock detected",
        "could not serialize access",
        "No space left on device",
        "the database system is",
        "terminating connection due to",
    ];
    // A replica that is not the first one yet: who may only read is told the same.
    let is_replica = access == Access::Write && failure.message.contains("read-only transaction");
    is_replica || SAYINGS.iter().any(|saying| failure.message.contains(saying))
}

fn is_aborted(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| code.code() == "25P02")
}

fn late(limit: Duration) -> Failure {
    let message = format!("the transaction was not done within {}", Human(limit));
    Failure::of_kind(Kind::Timeout, message)
}

fn rolled_back() -> Failure {
    let message = "PostgreSQL gave the transaction up when one of its statements failed; return \
                   that error";
    Failure::of_type("RolledBack", message)
}

fn ended_inside() -> Failure {
    let message = "the transaction was ended from inside, and what it had written by then may be \
                   there without a result; it is the engine's to begin and to end: no BEGIN, \
                   COMMIT or ROLLBACK";
    Failure::terminal(message).with_type("NotAllowed")
}
