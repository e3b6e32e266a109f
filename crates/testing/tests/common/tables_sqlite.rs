//! The user's own tables in SQLite, with the face of those in PostgreSQL, so that one source of
//! tests is for both: code in a transaction is asynchronous, and never has to wait here.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use resurgam::SqliteOptions;
use resurgam::prelude::*;
pub(crate) use resurgam::sqlite::rusqlite::Transaction;
use resurgam_testing::{TestApp, TestBuilder};
use serde::Serialize;

/// There is one writer: who is in a transaction keeps everybody else from committing.
pub(crate) const ONE_WRITER: bool = true;

/// A statement that does not end by itself.
pub(crate) const ENDLESS: &str = "
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

/// What code may not do in a transaction, and what it is told.
pub(crate) const TRESPASS: (&str, &str) =
    ("SELECT count(*) FROM task", "NotAllowed: table task is the engine's own");

/// What code is told that changes tables where it may only read them.
pub(crate) const ONLY_READ: &str = "NotAllowed: table account can only be read here";

/// Begins an app whose user has these tables.
pub(crate) async fn start_with(builder: TestBuilder, tables: &'static str) -> TestApp {
    builder.sqlite_setup(move |tx| Ok(tx.execute_batch(tables)?)).start().await
}

/// Bounds the time of transactions, so that one without end is cut soon.
pub(crate) fn in_a_hurry(builder: TestBuilder) -> TestBuilder {
    let options = SqliteOptions::default().transaction_timeout(Duration::from_millis(30));
    builder.sqlite_options(options)
}

/// Runs a statement.
pub(crate) async fn execute(tx: &Transaction<'_>, sql: &str) -> Result<(), Failure> {
    Ok(tx.execute_batch(sql)?)
}

/// The number that a query answers.
pub(crate) async fn number(tx: &Transaction<'_>, sql: &str) -> Result<i64, Failure> {
    Ok(tx.query_row(sql, [], |row| row.get(0))?)
}

/// Transactions of activities.
pub(crate) trait TransactionExt {
    fn transaction<T, F>(&self, work: F) -> impl Future<Output = Result<T, Failure>> + Send
    where
        T: Serialize + 'static,
        F: AsyncFn(&Transaction<'_>) -> Result<T, Failure> + Send + Sync + 'static;
}

impl TransactionExt for ActivityContext {
    fn transaction<T, F>(&self, work: F) -> impl Future<Output = Result<T, Failure>> + Send
    where
        T: Serialize + 'static,
        F: AsyncFn(&Transaction<'_>) -> Result<T, Failure> + Send + Sync + 'static,
    {
        resurgam::sqlite::TransactionExt::transaction(self, move |tx| at_once(work(tx)))
    }
}

/// Reads, outside of activities. The error is what the code is told.
pub(crate) async fn read<T, F>(app: &TestApp, work: F) -> Result<T, String>
where
    T: Send + 'static,
    F: AsyncFn(&Transaction<'_>) -> Result<T, Failure> + Send + Sync + 'static,
{
    let ended = app.client().tables().read(move |tx| at_once(work(tx))).await;
    ended.map_err(|error| after("read tables failed: ", &error))
}

/// Changes, outside of activities. The error is what the code is told.
pub(crate) async fn write<T, F>(app: &TestApp, work: F) -> Result<T, String>
where
    T: Send + 'static,
    F: AsyncFn(&Transaction<'_>) -> Result<T, Failure> + Send + Sync + 'static,
{
    let ended = app.client().tables().write(move |tx| at_once(work(tx))).await;
    ended.map_err(|error| after("change tables failed: ", &error))
}

fn after(attempted: &str, error: &resurgam::Error) -> String {
    let text = error.to_string();
    text.strip_prefix(attempted).unwrap_or_else(|| panic!("{text}")).to_string()
}

/// The value of code that has nothing to wait for.
fn at_once<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("code in a transaction of SQLite waits"),
    }
}
