//! The store: a handle on connections that commit, read, listen and watch.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use resurgam_core::Shard;
use resurgam_store::{Error, Result, Step, StepResult};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::aside::{self, BadRow};
use crate::changes::{self, Changes};
use crate::commit::lane::{Lane, Shared};
use crate::connect::Connector;
use crate::migrate::migrate;
use crate::options::{Listen, Options};
use crate::ownership::{Fence, Member, Whole};
use crate::pool::Pool;
use crate::statement::Schema;
use crate::trouble::within;

/// A Resurgam schema in a PostgreSQL database.
///
/// Many processes can use one at the same time. Dropping a store ends its connections;
/// [`close`](PostgresStore::close) lets those who still ask know it.
///
/// ```no_run
/// use resurgam_store::Look;
/// use resurgam_store_postgres::{Options, PostgresStore};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> resurgam_store::Result<()> {
/// let url = "postgres://orders:secret@db.example.com/orders?sslmode=verify-full";
/// let store = PostgresStore::connect(url, Options::default()).await?;
/// assert!(store.find("order-42").await?.is_none());
/// # Ok(()) }
/// ```
pub struct PostgresStore {
    pub(crate) inner: Arc<Inner>,
    tasks: Vec<JoinHandle<()>>,
}

/// What the store's own tasks share with it.
pub(crate) struct Inner {
    pub(crate) place: String,
    shared: Arc<Shared>,
    lanes: Vec<Mutex<Lane>>,
    /// Who waits for a lane waits here, in the order of arrival.
    free: tokio::sync::Semaphore,
    pub(crate) readers: Pool,
    /// For beats, watching and polling: nobody's long list may hold them up.
    pub(crate) control: Arc<Pool>,
    pub(crate) changes: Arc<Changes>,
    pub(crate) whole: Whole,
    pub(crate) lease: Duration,
    fence: RwLock<Option<Arc<Fence>>>,
}

/// What a store has written since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commits {
    /// Transactions.
    pub transactions: u64,
    /// Rows in them.
    pub rows: u64,
    /// How often a transaction waited for the server.
    pub round_trips: u64,
}

impl PostgresStore {
    /// Connects to a database, makes the schema when it is not there, and brings it up to date. An
    /// error says what to do about it.
    pub async fn connect(url: &str, options: Options) -> Result<Self> {
        let connector = Connector::new(url)?;
        let schema = Schema::new(&options.schema);
        let connected = connector.connect().await;
        let client = connected.map_err(|error| connector.trouble(error))?;
        migrate(&client, &connector, &schema).await?;
        let inner = Arc::new(Inner::new(connector.clone(), schema.clone(), &options));
        inner.control.give(client);
        aside::clear(&inner.control).await?;
        let mut first = inner.lanes[0].lock().await;
        first.open().await?;
        first.sweep().await?;
        drop(first);
        let tasks = inner.start(connector, schema, &options.listen)?;
        Ok(PostgresStore { inner, tasks })
    }

    /// What has been written since the store was opened.
    pub fn commits(&self) -> Commits {
        let counters = &self.inner.shared.counters;
        Commits {
            transactions: counters.transactions.load(Ordering::Relaxed),
            rows: counters.rows.load(Ordering::Relaxed),
            round_trips: counters.round_trips.load(Ordering::Relaxed),
        }
    }

    /// Rows that could not be read and were set aside, at most `limit` of each table.
    pub async fn bad_rows(&self, limit: u32) -> Result<Vec<BadRow>> {
        aside::marked(&self.inner.readers, limit).await
    }

    /// Joins the nodes that share the work, as one that serves these queues or all. From then on
    /// commits through this store are that node's, and refused where it does not own the shard.
    pub async fn join(
        &self,
        node: &str,
        queues: Option<Vec<String>>,
        build: Option<&str>,
    ) -> Result<Member> {
        Member::join(self.inner.clone(), node, queues, build).await
    }

    /// Gives up what is still held by a right to work that was dropped, and ends the connections.
    /// Later calls are errors.
    pub async fn close(&self) {
        self.inner.whole.finish(&self.inner).await;
        self.tasks.iter().for_each(JoinHandle::abort);
        self.inner.free.close();
        self.inner.readers.close();
        self.inner.control.close();
    }

    /// Where the lane of this store is, for tests that set the database back.
    #[doc(hidden)]
    pub fn writer(&self) -> &str {
        &self.inner.shared.writer
    }
}

impl Inner {
    fn new(connector: Connector, schema: Schema, options: &Options) -> Self {
        let writer = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let shared = Shared::new(connector.clone(), schema.clone(), writer, options);
        let shared = Arc::new(shared);
        let lanes = (0..options.lanes.cast_signed())
            .map(|number| Mutex::new(Lane::new(shared.clone(), number)))
            .collect::<Vec<_>>();
        Inner {
            place: connector.place(),
            free: tokio::sync::Semaphore::new(lanes.len()),
            lanes,
            readers: Pool::new(connector.clone(), schema.clone(), options.readers),
            control: Arc::new(Pool::new(connector, schema, 1)),
            changes: Arc::new(Changes::new()),
            whole: Whole::new(options.lease),
            lease: options.lease,
            fence: RwLock::default(),
            shared,
        }
    }

    /// Starts what looks and listens for others.
    fn start(
        &self,
        connector: Connector,
        schema: Schema,
        listen: &Listen,
    ) -> Result<Vec<JoinHandle<()>>> {
        let (changes, writer) = (&self.changes, &self.shared.writer);
        let looks = changes::look(changes.clone(), self.control.clone(), writer.clone());
        let mut tasks = vec![tokio::spawn(looks)];
        let connector = match listen {
            Listen::Here => Some(connector),
            Listen::At(url) => Some(Connector::new(url)?),
            Listen::Nowhere => None,
        };
        if let Some(connector) = connector {
            let listens = changes::listen(changes.clone(), connector, schema, writer.clone());
            tasks.push(tokio::spawn(listens));
        }
        Ok(tasks)
    }

    /// Writes a batch on the first lane that is free.
    pub(crate) async fn write(&self, batch: Arc<[Step]>) -> Result<Vec<StepResult>> {
        let attempted = || format!("commit {} steps in {}", batch.len(), self.place);
        let closed = |_| Error::unusable("the store is closed");
        let _permit = self.free.acquire().await.map_err(closed)?;
        let fence = self.present_fence();
        let free = self.lanes.iter().find_map(|lane| lane.try_lock().ok());
        let Some(mut lane) = free else {
            return Err(Error::transient(format!("{}: no lane is free", attempted())));
        };
        let written = lane.commit(&batch, fence.as_deref()).await;
        drop(lane);
        let (results, news) = written.map_err(|error| within(&attempted(), error))?;
        if news {
            self.changes.tell();
        }
        Ok(results)
    }

    /// From now on commits are those of a node, or a client's.
    pub(crate) fn fence(&self, fence: Option<Fence>) {
        let mut present = self.fence.write().unwrap_or_else(PoisonError::into_inner);
        *present = fence.map(Arc::new);
    }

    /// Whether commits are those of this node.
    pub(crate) fn is_fenced_as(&self, node: &str) -> bool {
        self.present_fence().is_some_and(|fence| fence.node() == node)
    }

    /// The shards that work is looked for in: an owner's own, or all.
    pub(crate) fn scope(&self) -> Vec<Shard> {
        match self.present_fence() {
            Some(fence) => fence.shards().collect(),
            None => Shard::all().collect(),
        }
    }

    fn present_fence(&self) -> Option<Arc<Fence>> {
        self.fence.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("place", &self.inner.place).finish_non_exhaustive()
    }
}
