//! Your own tables in the same SQLite file.
//!
//! An activity that changes them in a [`transaction`](TransactionExt::transaction) takes effect
//! exactly once: what it writes and the activity's result are recorded together, or neither is,
//! whatever happens to the process.
//!
//! ```
//! use resurgam::prelude::*;
//! use resurgam::sqlite::TransactionExt;
//!
//! #[activity]
//! async fn transfer(ctx: ActivityContext, from: String, to: String, cents: i64)
//! -> Result<i64, Failure> {
//!     ctx.transaction(move |tx| {
//!         let take = "UPDATE account SET cents = cents - ?2 WHERE name = ?1 AND cents >= ?2";
//!         if tx.execute(take, (&from, cents))? == 0 {
//!             return Err(Failure::terminal(format!("{from} has not got that much")));
//!         }
//!         tx.execute("UPDATE account SET cents = cents + ?2 WHERE name = ?1", (&to, cents))?;
//!         let left = "SELECT cents FROM account WHERE name = ?1";
//!         Ok(tx.query_row(left, [&from], |row| row.get(0))?)
//!     })
//!     .await
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), resurgam::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let file = folder.path().join("bank.db");
//! let app = App::builder()
//!     .activity(transfer)
//!     .sqlite_setup(|tx| {
//!         tx.execute_batch(
//!             "CREATE TABLE IF NOT EXISTS account (name TEXT PRIMARY KEY, cents INTEGER);
//!              INSERT OR IGNORE INTO account VALUES ('ada', 100), ('bob', 0);",
//!         )?;
//!         Ok(())
//!     })
//!     .sqlite(&file)
//!     .await?;
//! let left = app.submit("gift", transfer("ada".into(), "bob".into(), 30)).await?.result().await?;
//! assert_eq!(left, 70);
//!
//! const SUM: &str = "SELECT sum(cents) FROM account";
//! let total: i64 = app.tables().read(|tx| Ok(tx.query_row(SUM, [], |row| row.get(0))?)).await?;
//! assert_eq!(total, 100);
//!
//! let tables: resurgam::sqlite::Tables = app.tables();
//! tables.write(|tx| Ok(tx.execute("DELETE FROM account WHERE cents = 0", [])?)).await?;
//! # app.stop().await
//! # }
//! ```
//!
//! # The file is ours while the app has it
//!
//! Nothing else in this process may open the file, not even to read it, and not with rusqlite
//! either: closing any handle to a file drops the locks that the operating system keeps for the
//! whole process, and with them SQLite's. Make tables with
//! [`sqlite_setup`](crate::AppBuilder::sqlite_setup), and use them through [`Client::tables`]
//! outside of activities. Other processes may open it with any tool.
//!
//! # What a transaction may not do
//!
//! - Read or change the engine's tables, or use names that begin with `resurgam_`, which are kept
//!   for later ones. Views and triggers do not get around that.
//! - Begin, end or nest transactions, attach databases, make temporary tables, change settings.
//! - Take longer than [`SqliteOptions::transaction_timeout`](crate::SqliteOptions): there is one
//!   writer, and everybody waits for it. So do not wait for anything in there: ask other services
//!   first, and then write.
//!
//! The first two end the call with a failure of type `NotAllowed` that says what was refused, the
//! last is a failure of kind `Timeout`. That catches mistakes and is no wall: the code is yours and
//! runs in your process. Leave the connection as it was.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use resurgam_core::{Failure, Payload, UserWork};
use resurgam_sdk::ActivityContext;
use resurgam_store::{Access, Store};
use resurgam_store_sqlite::{SqliteStore, SqliteWork};
pub use rusqlite;
use rusqlite::Transaction;
use serde::Serialize;

use crate::{Client, Error, Result};

/// Transactions of activities.
pub trait TransactionExt {
    /// Runs `work` in a transaction that also records what it returns as the activity's result:
    /// both, or neither. It is the last thing that an attempt does.
    ///
    /// - When it is recorded the attempt is over: nothing after this line runs, as nothing of a
    ///   program runs after `exec`. So it stands where the activity returns, and `T` is what the
    ///   activity returns; anything else ends the call with a failure that says so.
    /// - When `work` returns a failure or panics, nothing was written. The failure comes back here
    ///   and is to be returned, so that the policy decides what follows.
    /// - `work` may be run more than once, for example when the disk was full: it must have no
    ///   effect but through the transaction. A disk in trouble is waited for and costs no attempt.
    /// - An attempt that lost its claim, because it was cancelled or took too long, is refused
    ///   before `work` runs.
    ///
    /// See [the module](self) for an example, and for what `work` may not do.
    fn transaction<T, F>(&self, work: F) -> impl Future<Output = Result<T, Failure>> + Send
    where
        T: Serialize + 'static,
        F: Fn(&Transaction<'_>) -> Result<T, Failure> + Send + 'static;
}

impl TransactionExt for ActivityContext {
    fn transaction<T, F>(&self, work: F) -> impl Future<Output = Result<T, Failure>> + Send
    where
        T: Serialize + 'static,
        F: Fn(&Transaction<'_>) -> Result<T, Failure> + Send + 'static,
    {
        let work: UserWork = Arc::new(SqliteWork::new(move |transaction| {
            let result = work(transaction)?;
            Payload::encode(&result).map_err(|error| {
                let message = format!("write the result of the transaction: {error}");
                Failure::terminal(message).with_type("BadOutput")
            })
        }));
        async move { Err(self.transact::<T>(work).await) }
    }
}

/// Your own tables, outside of activities.
#[derive(Clone, Debug)]
pub struct Tables {
    client: Client,
}

impl Client {
    /// Your own tables in the same SQLite file, see [`sqlite`](self).
    pub fn tables(&self) -> Tables {
        Tables { client: self.clone() }
    }
}

impl Tables {
    /// Reads, all at one moment of the database. Commits go on meanwhile.
    pub fn read<T, F>(&self, work: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: Fn(&Transaction<'_>) -> Result<T, Failure> + Send + 'static,
    {
        returning("read tables", self.client.clone(), Access::Read, work)
    }

    /// Changes them, in one transaction. That is for what belongs to no activity: unlike there,
    /// nobody repeats it after a crash.
    pub fn write<T, F>(&self, work: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: Fn(&Transaction<'_>) -> Result<T, Failure> + Send + 'static,
    {
        returning("change tables", self.client.clone(), Access::Write, work)
    }
}

/// Runs work whose value comes back here: the store does not look at it.
async fn returning<T: Send + 'static>(
    what: &str,
    client: Client,
    access: Access,
    work: impl Fn(&Transaction<'_>) -> Result<T, Failure> + Send + 'static,
) -> Result<T> {
    let _busy = client.handle().busy();
    let returned = Arc::new(Mutex::new(None));
    let keep = returned.clone();
    let work = SqliteWork::new(move |transaction| {
        let value = work(transaction)?;
        *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        Ok(Payload::null())
    });
    run(what, &**client.handle().store(), access, Arc::new(work)).await?;
    let value = returned.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(value.expect("work that was run has left its value"))
}

async fn run(what: &str, store: &dyn Store, access: Access, work: UserWork) -> Result<()> {
    let ended = store.on_tables(access, work).await;
    let ended = ended.map_err(|error| Error::store(what, error))?;
    ended.map_err(|failure| Error::failed(what, failure))
}

/// What makes the user's tables when an app begins: shared with the test kit.
#[derive(Default)]
pub struct Setup(Vec<SqliteWork>);

impl Setup {
    /// Adds something to be run after what was added before.
    pub fn add(
        &mut self,
        setup: impl Fn(&Transaction<'_>) -> Result<(), Failure> + Send + 'static,
    ) {
        let work = move |transaction: &Transaction<'_>| {
            setup(transaction)?;
            Ok(Payload::null())
        };
        self.0.push(SqliteWork::new(work));
    }

    /// Runs all of it.
    pub async fn run(self, store: &SqliteStore) -> Result<()> {
        for work in self.0 {
            run("set up tables", store, Access::Write, Arc::new(work)).await?;
        }
        Ok(())
    }

    /// An error when there is something that was never run.
    pub(crate) fn is_done(&self) -> std::result::Result<(), &'static str> {
        match self.0.is_empty() {
            true => Ok(()),
            false => {
                Err("sqlite_setup is for an app on a SQLite file: begin it with .sqlite(file)")
            }
        }
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} set-ups", self.0.len())
    }
}
