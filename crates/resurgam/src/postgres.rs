//! Many processes on one PostgreSQL database (feature `postgres`).
//!
//! The same program with another URL: as many processes as are started share the work, and others
//! take over what a process leaves behind that dies. See the guide `docs/postgres.md`.
//!
//! ```no_run
//! use resurgam::prelude::*;
//!
//! # #[activity] async fn greet(name: String) -> Result<String, Failure> { Ok(name) }
//! # #[tokio::main] async fn main() -> Result<(), resurgam::Error> {
//! let url = "postgres://orders:secret@db.example.com/orders?sslmode=verify-full";
//! let app = App::builder().activity(greet).postgres(url).await?;
//! let greeting = app.submit("greet-1", greet("Ada".into())).await?.result().await?;
//! # let _ = greeting;
//! # app.stop().await
//! # }
//! ```
//!
//! # Your own tables in the same database
//!
//! An activity that changes them in a [`transaction`](TransactionExt::transaction) takes effect
//! exactly once: what it writes and the activity's result are recorded together, or neither is.
//!
//! ```no_run
//! use resurgam::postgres::TransactionExt;
//! use resurgam::prelude::*;
//!
//! #[activity]
//! async fn pay(ctx: ActivityContext, name: String, cents: i64) -> Result<u64, Failure> {
//!     ctx.transaction(async move |tx| {
//!         let take = "UPDATE account SET cents = cents - $2 WHERE name = $1 AND cents >= $2";
//!         match tx.execute(take, &[&name, &cents]).await? {
//!             0 => Err(Failure::terminal(format!("{name} has not got that much"))),
//!             changed => Ok(changed),
//!         }
//!     })
//!     .await
//! }
//! # let _ = pay;
//! ```
//!
//! The code may not end the transaction itself, and takes no longer than
//! [`PostgresOptions::transaction_timeout`](crate::PostgresOptions).

use std::sync::Arc;

use resurgam_core::{Failure, Payload, UserWork};
use resurgam_sdk::ActivityContext;
use resurgam_store_postgres::{Options, PostgresStore, PostgresWork};
use resurgam_worker::StoreClock;
use serde::Serialize;
pub use tokio_postgres;
use tokio_postgres::Transaction;

use crate::{App, AppBuilder, Client, Result};

/// Transactions of activities.
pub trait TransactionExt {
    /// Runs `work` in a transaction that also records what it returns as the activity's result:
    /// both, or neither. It is the last thing that an attempt does.
    ///
    /// - When it is recorded the attempt is over: nothing after this line runs. So it stands where
    ///   the activity returns, and `T` is what the activity returns; anything else ends the call
    ///   with a failure that says so.
    /// - When `work` returns a failure or panics, nothing was written. The failure comes back here
    ///   and is to be returned, so that the policy decides what follows.
    /// - `work` may be run more than once, for example when the connection was lost: it must have
    ///   no effect but through the transaction. A database in trouble is waited for and costs no
    ///   attempt.
    /// - An attempt that lost its claim, because it was cancelled or took too long, is refused
    ///   before `work` runs.
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
        let work: UserWork =
            Arc::new(PostgresWork::new(async move |transaction: &Transaction<'_>| {
                let result = work(transaction).await?;
                Payload::encode(&result).map_err(|error| {
                    let message = format!("write the result of the transaction: {error}");
                    Failure::terminal(message).with_type("BadOutput")
                })
            }));
        async move { Err(self.transact::<T>(work).await) }
    }
}

impl AppBuilder {
    /// How the PostgreSQL database is used.
    pub fn postgres_options(mut self, options: Options) -> Self {
        self.postgres = options;
        self
    }

    /// Begins to work on a PostgreSQL database, beside all others that do. Tables are made in a
    /// schema of their own when they are not there.
    pub async fn postgres(self, url: &str) -> Result<App> {
        let store = Arc::new(PostgresStore::connect(url, self.postgres.clone()).await?);
        let app = self.on(store)?;
        app.handle().settled().await?;
        Ok(app)
    }
}

impl Client {
    /// A client of the processes that work on this PostgreSQL database, now or later. It starts,
    /// signals, cancels, waits and looks, and runs nothing itself.
    ///
    /// The schema is taken as it is: an app makes it, and brings it up to date. Where there is
    /// none, this is an error that says so. For looking, a user who may read the tables will do.
    pub async fn postgres(url: &str) -> Result<Self> {
        Client::postgres_with(url, Options::default()).await
    }

    /// The same, with options: another schema, for example.
    pub async fn postgres_with(url: &str, options: Options) -> Result<Self> {
        let store = Arc::new(PostgresStore::connect_existing(url, options).await?);
        let clock = Arc::new(StoreClock::new(store.clone()));
        Client::on(store, clock)
    }
}
