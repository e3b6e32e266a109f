//! The store: a handle on connections that commit, read, listen and watch.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use resurgam_core::{CallKey, Failure, Shard, Timestamp, Uid, UserWork};
use resurgam_store::fleet::{Fence, Positions, Purpose};
use resurgam_store::outage::OutageLog;
use resurgam_store::quarantine::BadRow;
use resurgam_store::rows::{MessageRow, RunRecord, TaskRecord, TaskRow};
use resurgam_store::{
    Access, AttemptTransaction, Error, Result, Step, StepResult, Transacted, not_offered,
};
use tokio::task::JoinHandle;

use crate::batched_reads::BatchedReads;
use crate::changes::{self, Changes, Found};
use crate::clock::Clock;
use crate::commit::lane::Shared;
use crate::commit::shared::ClaimFor;
use crate::connect::Connector;
use crate::lanes::Lanes;
use crate::limits;
use crate::migrate::{check, migrate};
use crate::options::{Listen, Options};
use crate::ownership::Member;
use crate::pool::Pool;
use crate::quarantine;
use crate::statement::Schema;
use crate::user_transaction::PostgresWork;

/// A Resurgam schema in a PostgreSQL database.
///
/// Many processes can use one at the same time. Dropping a store ends its connections;
/// [`close`](PostgresStore::close) lets those who still ask know it.
///
/// ```no_run
/// use resurgam_store::Inspect;
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
    pub(crate) lanes: Lanes,
    /// For code of the user, which may take its time.
    guests: Lanes,
    transaction_timeout: Duration,
    lease: Duration,
    pub(crate) readers: Pool,
    pub(crate) runs: BatchedReads<Uid, RunRecord>,
    pub(crate) tasks: BatchedReads<CallKey, TaskRecord>,
    pub(crate) messages: BatchedReads<(Uid, Timestamp), Vec<MessageRow>>,
    /// For beats, watching and polling: nobody's long list may hold them up.
    pub(crate) control: Arc<Pool>,
    pub(crate) changes: Arc<Changes>,
    pub(crate) member: Member,
    pub(crate) clock: Clock,
    right: RwLock<Right>,
    pub(crate) overtaken: AtomicBool,
}

/// As whom this store commits.
#[derive(Clone, Default)]
enum Right {
    /// As anybody: whoever opened the store knows what it does.
    #[default]
    Anybody,
    /// As a node, which must be inside of its fence.
    Node(Arc<Fence>),
    /// As one that was a node and is none any more.
    Client,
}

/// One connection beats, another one looks for commits of others: neither waits for the other.
const CONTROL: usize = 2;

/// The number of the first lane for code of the user.
const FIRST_GUEST: i16 = 1_000;

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
        let (connector, schema) = addressed(url, &options, Purpose::Work)?;
        let client = connector.connect().await?;
        let migrated = migrate(&client, &connector, &schema);
        limits::within(limits::migration(), "bring the schema up to date", migrated).await??;
        let inner = Inner::new(connector.clone(), schema.clone(), &options, Use::Work);
        inner.control.give(client);
        quarantine::clear(&inner.control).await?;
        let mut first = inner.lanes.free().await?;
        first.open().await?;
        first.sweep().await?;
        drop(first);
        PostgresStore::begin(inner, connector, schema, &options).await
    }

    /// Connects to a database in which the schema is, for whoever works on nothing: it looks, and
    /// asks those who work. Nothing is made, brought up to date or marked, and a user who may read
    /// the tables will do unless something is written.
    ///
    /// An error when the schema is missing ([`Error::is_missing`]), or has the form of an older
    /// version.
    pub async fn connect_existing(url: &str, options: Options) -> Result<Self> {
        let (connector, schema) = addressed(url, &options, options.purpose())?;
        let client = connector.connect().await?;
        let checked = check(&client, &connector, &schema);
        limits::within(limits::read(), "look at the schema", checked).await??;
        let inner = Inner::new(connector.clone(), schema.clone(), &options, Use::Inspect);
        inner.control.give(client);
        PostgresStore::begin(inner, connector, schema, &options).await
    }

    async fn begin(
        inner: Inner,
        connector: Connector,
        schema: Schema,
        options: &Options,
    ) -> Result<Self> {
        inner.clock.ask(&inner.control).await?;
        let seen = changes::look(&inner.control, &inner.shared.writer).await?;
        let tasks = inner.start(connector, schema, &options.listen, seen)?;
        Ok(PostgresStore { inner: Arc::new(inner), tasks })
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
        quarantine::marked(&self.inner.readers, limit).await
    }

    /// Gives up what is still held by a right to work that was dropped, and ends the connections.
    /// Later calls are errors.
    pub async fn close(&self) {
        self.inner.member.finish(&self.inner).await;
        self.tasks.iter().for_each(JoinHandle::abort);
        self.inner.lanes.close();
        self.inner.guests.close();
        self.inner.readers.close();
        self.inner.control.close();
    }

    /// Where the lane of this store is, for tests that set the database back.
    #[doc(hidden)]
    pub fn writer(&self) -> &str {
        &self.inner.shared.writer
    }
}

/// What a schema is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// To work on it.
    Work,
    /// To look at it, and to ask those who work.
    Inspect,
}

/// What connects to the server that is meant, and the schema there.
fn addressed(url: &str, options: &Options, purpose: Purpose) -> Result<(Connector, Schema)> {
    let connector = Connector::new(url)?;
    let schema = Schema::new(options.schema_of(connector.schema()));
    Ok((connector.using(&schema, purpose), schema))
}

impl Inner {
    fn new(connector: Connector, schema: Schema, options: &Options, what_for: Use) -> Self {
        let writer = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let shared = Shared::new(connector.clone(), schema.clone(), writer, options);
        let shared = Arc::new(shared);
        let pool = |size| {
            let pool = Pool::new(connector.clone(), schema.clone(), options.lease, size)
                .with_sessions(shared.sessions());
            match what_for {
                Use::Work => pool,
                Use::Inspect => pool.without_marks(),
            }
        };
        Inner {
            place: connector.place(),
            lanes: Lanes::new(&shared, 0, options.lanes),
            guests: Lanes::new(&shared, FIRST_GUEST, options.transactions),
            transaction_timeout: options.transaction_timeout,
            lease: options.lease,
            readers: pool(options.readers),
            runs: BatchedReads::default(),
            tasks: BatchedReads::default(),
            messages: BatchedReads::default(),
            control: Arc::new(pool(CONTROL).with_limit(limits::control(options.lease))),
            changes: Arc::new(Changes::new(shared.sessions())),
            member: Member::new(options.lease),
            clock: Clock::default(),
            right: RwLock::default(),
            overtaken: AtomicBool::new(false),
            shared,
        }
    }

    /// Starts what looks and listens for others.
    fn start(
        &self,
        connector: Connector,
        schema: Schema,
        listen: &Listen,
        seen: Found,
    ) -> Result<Vec<JoinHandle<()>>> {
        let (changes, writer, pool) = (&self.changes, &self.shared.writer, &self.control);
        let place = format!("schema {} of {}", schema.name(), self.place);
        let (told, asked) = (changes.clone(), pool.clone());
        let looks = changes::keep_looking(told, asked, place, writer.clone(), seen);
        let around = connector.clone().keep_looking_around(self.lease);
        let mut tasks = vec![tokio::spawn(looks), tokio::spawn(around)];
        let listening = match listen {
            Listen::Here => Some((connector, Some(pool.clone()))),
            // There is a reason for another address: most likely a pooler.
            Listen::At(url) => Some((Connector::new(url)?.knowing(&connector), None)),
            Listen::Nowhere => None,
        };
        if let Some((connector, speaker)) = listening {
            let writer = writer.clone();
            let listens = changes::listen(changes.clone(), connector, schema, writer, speaker);
            tasks.push(tokio::spawn(listens));
        }
        Ok(tasks)
    }

    /// Writes a batch on the first lane that is free.
    pub(crate) async fn write(&self, batch: Arc<[Step]>) -> Result<Vec<StepResult>> {
        let in_words = |error: Error| {
            let attempted = format!("commit {} steps", batch.len());
            match error.to_string().contains(&self.place) {
                true => error.within(attempted),
                false => error.within(format!("{attempted} in {}", self.place)),
            }
        };
        let fence = match self.right() {
            Right::Anybody => None,
            Right::Node(fence) => Some(fence),
            Right::Client if batch.iter().any(Step::is_an_owners) => {
                return Err(in_words(Error::fenced("this node does not work on it any more")));
            }
            Right::Client => None,
        };
        let mut lane = self.lanes.free().await?;
        let written = lane.commit(&batch, fence.as_deref()).await;
        drop(lane);
        let (results, news) = written.map_err(in_words)?;
        if news {
            self.changes.tell();
        }
        Ok(results)
    }

    /// Runs an attempt's code on the user's tables. Only nodes run attempts, so that of a client is
    /// one that comes too late.
    pub(crate) async fn transact(&self, attempt: &AttemptTransaction) -> Result<Transacted> {
        if !PostgresWork::is(&attempt.work) {
            return Ok(Transacted::Failed(not_offered()));
        }
        let what = || format!("run the transaction of call {}", attempt.call);
        let Some(fence) = self.node() else {
            return Err(Error::fenced(format!("{}: this node does not work any more", what())));
        };
        let mut lane = self.guests.free().await?;
        let ended = lane.transact(attempt, self.transaction_timeout, fence.node()).await;
        drop(lane);
        if !fence.has(attempt.call.run.uid.shard()) && matches!(ended, Ok(Transacted::Done(_))) {
            self.changes.tell();
        }
        ended.map_err(|error| error.within(what()))
    }

    /// Claims tasks of shards whose holder does not serve their queue.
    pub(crate) async fn claim_shared(
        &self,
        node: &str,
        calls: &[CallKey],
        now: Timestamp,
        claim_for: ClaimFor,
    ) -> Result<Vec<TaskRow>> {
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let mut lane = self.lanes.free().await?;
        lane.claim_shared(node, calls, now, claim_for).await
    }

    /// Claims a task that another node has claimed with this token.
    pub(crate) async fn take_over(
        &self,
        node: &str,
        call: CallKey,
        token: u64,
        now: Timestamp,
    ) -> Result<Option<TaskRow>> {
        let mut lane = self.lanes.free().await?;
        lane.take_over(node, call, token, now).await
    }

    /// Runs code of the user on their tables, which are everybody's: no fence stands here.
    pub(crate) async fn on_tables(
        &self,
        access: Access,
        work: UserWork,
    ) -> Result<std::result::Result<(), Failure>> {
        if !PostgresWork::is(&work) {
            return Ok(Err(not_offered()));
        }
        let mut lane = self.guests.free().await?;
        lane.on_tables(access, work, self.transaction_timeout).await
    }

    /// From now on commits are those of a node.
    pub(crate) fn fence(&self, fence: Fence) {
        self.shared.rewinds().works_as(fence.node());
        self.stand(Right::Node(Arc::new(fence)));
    }

    /// From now on commits are a client's.
    pub(crate) fn disown(&self) {
        self.stand(Right::Client);
        self.overtaken.store(false, Ordering::Relaxed);
    }

    /// The name under which this process writes.
    pub(crate) fn writer(&self) -> &str {
        &self.shared.writer
    }

    /// Where the lanes of this process are.
    pub(crate) fn lane_positions(&self) -> Positions {
        self.shared.rewinds().positions()
    }

    /// True when something is gone that a lane has written, or when a lane has found that before:
    /// what the node knows may never have happened.
    pub(crate) fn is_rewound(&self, node: &str, before: &Positions, found: &[(i16, i64)]) -> bool {
        self.shared.has_lost(before, found) || self.shared.rewinds().refuses(node)
    }

    /// Others have taken this node for dead, and whoever waits for news hears of it.
    pub(crate) fn is_overtaken_by_others(&self) {
        if !self.overtaken.swap(true, Ordering::Relaxed) {
            self.changes.changed();
        }
    }

    /// The node as which this store commits.
    pub(crate) fn node(&self) -> Option<Arc<Fence>> {
        match self.right() {
            Right::Node(fence) => Some(fence),
            Right::Anybody | Right::Client => None,
        }
    }

    /// Where people are told when the database does not answer.
    pub(crate) fn outages(&self) -> &Arc<OutageLog> {
        &self.shared.outages
    }

    /// True when the store is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.lanes.is_closed()
    }

    /// The shards that work is looked for in: an owner's own, or all.
    pub(crate) fn scope(&self) -> Vec<Shard> {
        match self.right() {
            Right::Node(fence) => fence.shards().collect(),
            Right::Anybody | Right::Client => Shard::all().collect(),
        }
    }

    fn stand(&self, right: Right) {
        *self.right.write().unwrap_or_else(PoisonError::into_inner) = right;
    }

    fn right(&self) -> Right {
        self.right.read().unwrap_or_else(PoisonError::into_inner).clone()
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
