//! A [`Store`](crate::Store) around the model: a lock, and nothing that waits.
//!
//! Every call locks the model, asks it and answers at once, so a future of this store is ready
//! when it is first polled. Several [`ModelStore`]s on one [`ModelDatabase`] are several nodes.
//! Shards are not spread evenly: a node takes what is free when it joins, and later what it is told
//! to take.

mod calls;
mod own;

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use resurgam_core::{Failure, Payload, UserWork};
use tokio::sync::watch;

use super::{Model, ShardSet, Sharing, Writer};
use crate::{Answer, Error, InboxRow, Result};

/// A database that several model stores use.
#[derive(Clone, Debug)]
pub struct ModelDatabase(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    model: Mutex<Model>,
    /// Changes with every commit.
    changes: watch::Sender<u64>,
    /// How many claims have got a token.
    tokens: AtomicU64,
}

impl ModelDatabase {
    /// A database that holds this.
    pub fn new(model: Model) -> Self {
        let changes = watch::Sender::new(0);
        ModelDatabase(Arc::new(Shared {
            model: Mutex::new(model),
            changes,
            tokens: AtomicU64::new(0),
        }))
    }

    /// The model, which nobody else can use meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, Model> {
        self.0.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody inserts a row into the inbox with SQL.
    pub fn insert_inbox(&self, row: InboxRow) {
        self.lock().insert_inbox(row);
        self.tell();
    }

    fn tell(&self) {
        self.0.changes.send_modify(|number| *number += 1);
    }

    fn next_token(&self) -> u64 {
        self.0.tokens.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// A store that keeps everything in a [`Model`].
///
/// ```
/// use resurgam_store::Inspect;
/// use resurgam_store::model::{Model, ModelDatabase, ModelStore, Sharing};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> resurgam_store::Result<()> {
/// let database = ModelDatabase::new(Model::new(Sharing::ManyNodes));
/// let (one, other) = (ModelStore::on(&database), ModelStore::on(&database));
/// assert!(one.find("order-42").await?.is_none());
/// assert!(other.find("order-42").await?.is_none());
/// # Ok(()) }
/// ```
pub struct ModelStore {
    database: ModelDatabase,
    /// As whom this store commits.
    writer: Mutex<Writer>,
    closed: AtomicBool,
}

impl ModelStore {
    /// A store with an empty database of its own.
    pub fn new(sharing: Sharing) -> Self {
        ModelStore::on(&ModelDatabase::new(Model::new(sharing)))
    }

    /// Another store on a database.
    pub fn on(database: &ModelDatabase) -> Self {
        let (writer, closed) = (Mutex::default(), AtomicBool::new(false));
        ModelStore { database: database.clone(), writer, closed }
    }

    /// Its database.
    pub fn database(&self) -> &ModelDatabase {
        &self.database
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shards that this store reads what is due in.
    fn shards(&self) -> ShardSet {
        match &*self.writer() {
            Writer::Anybody | Writer::Client => ShardSet::ALL,
            Writer::Node(fence) => fence.shards().collect(),
        }
    }

    /// Asks the model.
    fn read<'a, T: Send + 'a>(
        &'a self,
        read: impl FnOnce(&Model) -> T + Send + 'a,
    ) -> Answer<'a, T> {
        self.try_read(|model| Ok(read(model)))
    }

    /// Asks the model, which may refuse.
    fn try_read<'a, T: Send + 'a>(
        &'a self,
        read: impl FnOnce(&Model) -> Result<T> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            self.refuse_closed()?;
            read(&self.database.lock())
        })
    }

    /// Changes the model, and tells whoever waits for changes.
    fn change<'a, T: Send + 'a>(
        &'a self,
        change: impl FnOnce(&mut Model, &Writer) -> Result<T> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            self.refuse_closed()?;
            // As whom it commits is locked before the model, here and everywhere.
            let writer = self.writer();
            let changed = change(&mut self.database.lock(), &writer);
            if changed.is_ok() {
                self.database.tell();
            }
            changed
        })
    }

    fn refuse_closed(&self) -> Result<()> {
        match self.closed.load(Ordering::Relaxed) {
            true => Err(Error::unusable("the store is closed")),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for ModelStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelStore").field("writer", &*self.writer()).finish_non_exhaustive()
    }
}

/// Code of the user, as a model store takes it. The model has no tables of the user: what the code
/// changes, it changes elsewhere, and that is not taken back when its transaction is refused.
pub struct ModelWork(Box<Code>);

type Code = dyn Fn() -> std::result::Result<Payload, Failure> + Send + Sync;

impl ModelWork {
    /// Takes code of the user. What it returns becomes the result of the activity.
    pub fn new(
        code: impl Fn() -> std::result::Result<Payload, Failure> + Send + Sync + 'static,
    ) -> Self {
        ModelWork(Box::new(code))
    }

    /// The work, if it is meant for a model store.
    fn of(work: &UserWork) -> Option<&Self> {
        let work: &(dyn Any + Send + Sync) = &**work;
        work.downcast_ref()
    }

    fn run(&self) -> std::result::Result<Payload, Failure> {
        (self.0)()
    }
}

impl fmt::Debug for ModelWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ModelWork")
    }
}
