//! The user's own tables in PostgreSQL, with the face of those in SQLite (`tables_sqlite.rs`).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use resurgam::PostgresOptions;
pub(crate) use resurgam::postgres::TransactionExt;
pub(crate) use resurgam::postgres::tokio_postgres::Transaction;
use resurgam::prelude::*;
use resurgam_core::Payload;
use resurgam_store::Access;
use resurgam_store_postgres::PostgresWork;
use resurgam_testing::{TestApp, TestBuilder};

/// Nobody waits for a transaction but its attempt.
pub(crate) const ONE_WRITER: bool = false;

/// A statement that does not end by itself.
pub(crate) const ENDLESS: &str = "SELECT pg_sleep(600)";

/// What code may not do in a transaction, and what it is told.
pub(crate) const TRESPASS: (&str, &str) = (
    "COMMIT",
    "NotAllowed: the transaction was ended from inside, and what it had written by then may be \
     there without a result; it is the engine's to begin and to end: no BEGIN, COMMIT or ROLLBACK",
);

/// What code is told that changes tables where it may only read them.
pub(crate) const ONLY_READ: &str = "Error: ERROR: cannot execute DELETE in a read-only transaction";

/// Begins an app whose user has these tables.
pub(crate) async fn start_with(builder: TestBuilder, tables: &'static str) -> TestApp {
    let app = builder.start().await;
    write(&app, async |tx| execute(tx, tables).await).await.unwrap();
    app
}

/// Bounds the time of transactions, so that one without end is cut soon. A server that is busy with
/// other tests has time enough for what ends.
pub(crate) fn in_a_hurry(builder: TestBuilder) -> TestBuilder {
    let options = PostgresOptions::default().transaction_timeout(Duration::from_millis(500));
    builder.postgres_options(options)
}

/// Runs a statement.
pub(crate) async fn execute(tx: &Transaction<'_>, sql: &str) -> Result<(), Failure> {
    Ok(tx.batch_execute(sql).await?)
}

/// The number that a query answers.
pub(crate) async fn number(tx: &Transaction<'_>, sql: &str) -> Result<i64, Failure> {
    Ok(tx.query_one(sql, &[]).await?.try_get(0)?)
}

/// Reads, outside of activities. The error is what the code is told.
pub(crate) async fn read<T, F>(app: &TestApp, work: F) -> Result<T, String>
where
    T: Send + 'static,
    F: AsyncFn(&Transaction<'_>) -> Result<T, Failure> + Send + Sync + 'static,
{
    on_tables(app, Access::Read, work).await
}

/// Changes, outside of activities. The error is what the code is told.
pub(crate) async fn write<T, F>(app: &TestApp, work: F) -> Result<T, String>
where
    T: Send + 'static,
    F: AsyncFn(&Transaction<'_>) -> Result<T, Failure> + Send + Sync + 'static,
{
    on_tables(app, Access::Write, work).await
}

async fn on_tables<T, F>(app: &TestApp, access: Access, work: F) -> Result<T, String>
where
    T: Send + 'static,
    F: AsyncFn(&Transaction<'_>) -> Result<T, Failure> + Send + Sync + 'static,
{
    let returned = Arc::new(Mutex::new(None));
    let keep = returned.clone();
    let work = PostgresWork::new(async move |tx| {
        let value = work(tx).await?;
        *keep.lock().unwrap() = Some(value);
        Ok(Payload::null())
    });
    let store = app.client().handle().store().clone();
    let ended = store.on_tables(access, Arc::new(work)).await.unwrap();
    ended.map_err(|failure| failure.to_string())?;
    Ok(returned.lock().unwrap().take().unwrap())
}
