//! The user's own tables in the store under test. Code in a transaction is asynchronous on
//! PostgreSQL and not on SQLite; here it always is, and never has to wait on SQLite.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use resurgam::postgres::tokio_postgres;
use resurgam::prelude::*;
use resurgam::sqlite::rusqlite;
use resurgam::{PostgresOptions, SqliteOptions};
use resurgam_core::Payload;
use resurgam_store::Access;
use resurgam_store_postgres::PostgresWork;
use resurgam_testing::{TestApp, TestBuilder, TestStore};
use serde::Serialize;

/// A transaction of either store.
pub(crate) enum Transaction<'a> {
    Sqlite(&'a rusqlite::Transaction<'a>),
    Postgres(&'a tokio_postgres::Transaction<'a>),
}

pub(crate) fn is_postgres() -> bool {
    TestStore::chosen() == TestStore::Postgres
}

/// True where there is one writer: who is in a transaction keeps everybody else from committing.
pub(crate) fn has_one_writer() -> bool {
    !is_postgres()
}

/// A statement that does not end by itself.
pub(crate) fn endless() -> &'static str {
    match is_postgres() {
        true => "SELECT pg_sleep(600)",
        false => {
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
        }
    }
}

/// What code may not do in a transaction, and what it is told.
pub(crate) fn trespass() -> (&'static str, &'static str) {
    match is_postgres() {
        true => (
            "COMMIT",
            "NotAllowed: the transaction was ended from inside, and what it had written by then \
             may be there without a result; it is the engine's to begin and to end: no BEGIN, \
             COMMIT or ROLLBACK",
        ),
        false => ("SELECT count(*) FROM task", "NotAllowed: table task is the engine's own"),
    }
}

/// What code is told that changes tables where it may only read them.
pub(crate) fn only_read() -> &'static str {
    match is_postgres() {
        true => "tokio_postgres::Error: ERROR: cannot execute DELETE in a read-only transaction",
        false => "NotAllowed: table account can only be read here",
    }
}

/// Begins an app whose user has these tables.
pub(crate) async fn start_with(builder: TestBuilder, tables: &'static str) -> TestApp {
    if !is_postgres() {
        return builder.sqlite_setup(move |tx| Ok(tx.execute_batch(tables)?)).start().await;
    }
    let app = builder.start().await;
    write(&app, async |tx| execute(tx, tables).await).await.unwrap();
    app
}

/// Bounds the time of transactions, so that one without end is cut soon, and one that ends has time
/// enough on a busy machine.
pub(crate) fn in_a_hurry(builder: TestBuilder) -> TestBuilder {
    let time = Duration::from_millis(500);
    let builder = builder.sqlite_options(SqliteOptions::default().transaction_timeout(time));
    builder.postgres_options(PostgresOptions::default().transaction_timeout(time))
}

/// Runs a statement.
pub(crate) async fn execute(tx: &Transaction<'_>, sql: &str) -> Result<(), Failure> {
    match tx {
        Transaction::Sqlite(tx) => Ok(tx.execute_batch(sql)?),
        Transaction::Postgres(tx) => Ok(tx.batch_execute(sql).await?),
    }
}

/// The number that a query answers.
pub(crate) async fn number(tx: &Transaction<'_>, sql: &str) -> Result<i64, Failure> {
    match tx {
        Transaction::Sqlite(tx) => Ok(tx.query_row(sql, [], |row| row.get(0))?),
        Transaction::Postgres(tx) => Ok(tx.query_one(sql, &[]).await?.try_get(0)?),
    }
}

/// Transactions of activities.
pub(crate) trait TransactionExt {
    fn transaction<'a, T, F>(
        &'a self,
        work: F,
    ) -> Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>
    where
        T: Serialize + 'static,
        F: AsyncFn(&Transaction<'_>) -> Result<T, Failure> + Send + Sync + 'static;
}

impl TransactionExt for ActivityContext {
    fn transaction<'a, T, F>(
        &'a self,
        work: F,
    ) -> Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>
    where
        T: Serialize + 'static,
        F: AsyncFn(&Transaction<'_>) -> Result<T, Failure> + Send + Sync + 'static,
    {
        match is_postgres() {
            true => Box::pin(resurgam::postgres::TransactionExt::transaction(
                self,
                async move |tx: &tokio_postgres::Transaction<'_>| {
                    work(&Transaction::Postgres(tx)).await
                },
            )),
            false => Box::pin(resurgam::sqlite::TransactionExt::transaction(self, move |tx| {
                at_once(work(&Transaction::Sqlite(tx)))
            })),
        }
    }
}

/// Reads, outside of activities. The error is what the code is told.
pub(crate) async fn read<T, F>(app: &TestApp, work: F) -> Result<T, String>
where
    T: Send + 'static,
    F: AsyncFn(&Transaction<'_>) -> Result<T, Failure> + Send + Sync + 'static,
{
    if is_postgres() {
        return on_tables(app, Access::Read, work).await;
    }
    let tables = app.client().tables();
    let ended = tables.read(move |tx| at_once(work(&Transaction::Sqlite(tx)))).await;
    ended.map_err(|error| after("read tables failed: ", &error))
}

/// Changes, outside of activities. The error is what the code is told.
pub(crate) async fn write<T, F>(app: &TestApp, work: F) -> Result<T, String>
where
    T: Send + 'static,
    F: AsyncFn(&Transaction<'_>) -> Result<T, Failure> + Send + Sync + 'static,
{
    if is_postgres() {
        return on_tables(app, Access::Write, work).await;
    }
    let tables = app.client().tables();
    let ended = tables.write(move |tx| at_once(work(&Transaction::Sqlite(tx)))).await;
    ended.map_err(|error| after("change tables failed: ", &error))
}

async fn on_tables<T, F>(app: &TestApp, access: Access, work: F) -> Result<T, String>
where
    T: Send + 'static,
    F: AsyncFn(&Transaction<'_>) -> Result<T, Failure> + Send + Sync + 'static,
{
    let returned = Arc::new(Mutex::new(None));
    let keep = returned.clone();
    let work = PostgresWork::new(async move |tx: &tokio_postgres::Transaction<'_>| {
        let value = work(&Transaction::Postgres(tx)).await?;
        *keep.lock().unwrap() = Some(value);
        Ok(Payload::null())
    });
    let store = app.client().handle().store().clone();
    let ended = store.on_tables(access, Arc::new(work)).await.unwrap();
    ended.map_err(|failure| failure.to_string())?;
    Ok(returned.lock().unwrap().take().unwrap())
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
