//! The store: a handle that sends orders to its threads and waits for their answers.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use resurgam_core::UserWork;
use resurgam_store::quarantine::BadRow;
use resurgam_store::rows::Owner;
use resurgam_store::{
    Access, Answer, AttemptTransaction, Deleted, Deletion, Error, Owning, RemoteWrite, Result,
    Step, StepResult, Transacted,
};
use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

use crate::changes::Changes;
use crate::lock_files::{Gone, LockFiles};
use crate::options::Options;
use crate::ownership::{Note, Place};
use crate::process::Process;
use crate::read::Reading;
use crate::reader::{self, ReadJob, ReadOrder};
use crate::still::Opened;
use crate::threads::Threads;
use crate::writer::{Changed, Copying, Counters, Log, Order, Writer};
use crate::{busy, checkpoint, errors, file_limit, open, user_transaction};

/// A Resurgam database in one SQLite file, or in memory.
///
/// Every call sends an order to a thread of the store and waits for the answer; no call blocks the
/// thread it is made on. Dropping a store ends its threads in the background; [`close`] waits for
/// them.
///
/// Only the process that opened a store can use it: after a fork, open it again. And nothing else
/// in that process may open the file, not even to copy it: closing any handle to a file drops the
/// locks that the operating system keeps for the whole process. Use SQLite's own backup.
///
/// On Unix the first store on a file installs a handler for SIGXFSZ that does nothing, unless the
/// process has one: a limit on the size of files (`ulimit -f`) is then an error like a full disk,
/// and does not end the process. Programs that it starts are not affected.
///
/// ```
/// use resurgam_store::Inspect;
/// use resurgam_store_sqlite::SqliteStore;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> resurgam_store::Result<()> {
/// let store = SqliteStore::in_memory()?;
/// assert!(store.find("order-42").await?.is_none());
/// store.close().await;
/// # Ok(()) }
/// ```
///
/// [`close`]: SqliteStore::close
pub struct SqliteStore {
    path: String,
    process: Process,
    place: Place,
    changes: watch::Receiver<u64>,
    writer: Sender<Order>,
    readers: Readers,
    counters: Arc<Counters>,
    overtaken: Arc<AtomicBool>,
    gone: Arc<OnceLock<Gone>>,
    transaction_timeout: Duration,
    closed: AtomicBool,
    reading: Threads,
    writing: Threads,
}

/// Who reads.
enum Readers {
    /// Threads with connections of their own: how many, and how to reach them.
    Threads(usize, Sender<ReadOrder>),
    /// The writer, whose connection is the only one.
    Writer,
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// To work on it, now or when it is this node's turn.
    Work,
    /// To look at it, and to ask those who work.
    Inspect,
}

impl Use {
    /// Another connection to a file that is open already.
    fn another(self, path: &Path, options: &Options) -> Result<Opened> {
        match self {
            Use::Work => {
                let connection = open::another(path, options)?;
                Ok(Opened { connection, still: None })
            }
            Use::Inspect => open::another_existing(path, options),
        }
    }
}

/// What a store has written since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commits {
    /// Transactions.
    pub transactions: u64,
    /// Rows in them.
    pub rows: u64,
}

impl SqliteStore {
    /// Opens a database, makes it when it is not there, and brings it up to date.
    ///
    /// This waits for the disk, and for other processes at most as long as
    /// [`Options::busy_timeout`] says. An error says what to do about it.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let path = path.as_ref();
        file_limit::make_an_error();
        busy::limit_on_this_thread(options.busy_timeout);
        let opened = Opened { connection: open::writer(path, &options)?, still: None };
        SqliteStore::begin(path, opened, &options, Use::Work)
    }

    /// Opens a database that is there, for whoever works on nothing: it looks, and asks those who
    /// work. Nothing is made, brought up to date or marked, and the right to read is enough unless
    /// something is written.
    ///
    /// An error when the file is missing or empty ([`Error::is_missing`]), or has the form of an
    /// older version.
    pub fn open_existing(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let path = path.as_ref();
        file_limit::make_an_error();
        busy::limit_on_this_thread(options.busy_timeout);
        let opened = open::existing(path, &options)?;
        SqliteStore::begin(path, opened, &options, Use::Inspect)
    }

    fn begin(path: &Path, opened: Opened, options: &Options, what_for: Use) -> Result<Self> {
        let Opened { connection, still } = opened;
        let failed = |error| errors::on_opening(path, error);
        let files = LockFiles::of(path).map_err(|error| errors::not_found(path, error))?;
        let changes = Changes::in_a_file(&connection, still.as_ref()).map_err(failed)?;
        let is_read_only = connection.is_readonly("main").map_err(failed)?;
        let (writer, orders) = mpsc::channel();
        let (readers, reads) = mpsc::channel();
        let readers = Readers::Threads(options.readers, readers);
        let name = path.display().to_string();
        let store = SqliteStore::new(name, Place::File(files), &changes, writer, readers, options);
        store.start_readers(path, options, reads, what_for)?;
        let log = match is_read_only {
            true => None,
            false => Some(store.start_log(path, options, what_for)?),
        };
        store.start_writer(connection, changes, orders, options, (log, what_for))?;
        Ok(store)
    }

    /// A database in memory, gone with the store.
    pub fn in_memory() -> Result<Self> {
        SqliteStore::in_memory_with(Options::default())
    }

    /// Opens a database in memory, with those options that are not about files.
    pub fn in_memory_with(options: Options) -> Result<Self> {
        let connection = open::in_memory(&options)?;
        let changes = Changes::in_memory();
        let (writer, orders) = mpsc::channel();
        let (name, place) = (":memory:".to_string(), Place::Memory(Note::default()));
        let store = SqliteStore::new(name, place, &changes, writer, Readers::Writer, &options);
        store.start_writer(connection, changes, orders, &options, (None, Use::Work))?;
        Ok(store)
    }

    fn new(
        path: String,
        place: Place,
        changes: &Changes,
        writer: Sender<Order>,
        readers: Readers,
        options: &Options,
    ) -> Self {
        SqliteStore {
            path,
            process: Process::this(),
            place,
            changes: changes.told(),
            writer,
            readers,
            counters: Arc::default(),
            overtaken: Arc::default(),
            gone: Arc::default(),
            transaction_timeout: options.transaction_timeout,
            closed: AtomicBool::new(false),
            reading: Threads::default(),
            writing: Threads::default(),
        }
    }

    fn start_writer(
        &self,
        connection: Connection,
        changes: Changes,
        orders: Receiver<Order>,
        options: &Options,
        (log, what_for): (Option<Log>, Use),
    ) -> Result<()> {
        let writer = Writer {
            connection,
            orders,
            counters: self.counters.clone(),
            ledger_rows: options.ledger_rows,
            busy_timeout: options.busy_timeout,
            transaction_timeout: options.transaction_timeout,
            place: self.place.clone(),
            overtaken: self.overtaken.clone(),
            gone: self.gone.clone(),
            marks: what_for == Use::Work,
            log,
        };
        self.writing.start("resurgam-write", move || writer.run(changes))
    }

    /// Starts the thread that copies the write-ahead log.
    fn start_log(&self, path: &Path, options: &Options, what_for: Use) -> Result<Log> {
        let connection = what_for.another(path, options)?.connection;
        let (wake, wakes) = mpsc::sync_channel(1);
        let copying = Copying::default();
        let (copies, limit) = (copying.clone(), options.busy_timeout);
        let counters = self.counters.clone();
        let is_ours =
            move || what_for == Use::Work || counters.transactions.load(Ordering::Relaxed) > 0;
        self.writing.start("resurgam-log", move || {
            busy::limit_on_this_thread(limit);
            checkpoint::run(&connection, &wakes, &copies, is_ours);
        })?;
        let bytes = i64::from(options.log_bytes);
        Ok(Log { wake, copying, copy_after: bytes / 16, copy_here_after: bytes })
    }

    fn start_readers(
        &self,
        path: &Path,
        options: &Options,
        reads: Receiver<ReadOrder>,
        what_for: Use,
    ) -> Result<()> {
        let reads = Arc::new(Mutex::new(reads));
        for _ in 0..options.readers {
            let opened = what_for.another(path, options)?;
            let (reads, writer, options) = (reads.clone(), self.writer.clone(), options.clone());
            let path = path.to_path_buf();
            self.reading.start("resurgam-read", move || {
                busy::limit_on_this_thread(options.busy_timeout);
                let open = || what_for.another(&path, &options);
                reader::run(opened, open, &reads, &writer);
            })?;
        }
        Ok(())
    }

    /// What has been written since the store was opened.
    pub fn commits(&self) -> Commits {
        Commits {
            transactions: self.counters.transactions.load(Ordering::Relaxed),
            rows: self.counters.rows.load(Ordering::Relaxed),
        }
    }

    /// A number that changes when somebody else has committed to the file: another process, or
    /// another store. It costs microseconds and reads no table.
    pub async fn data_version(&self) -> Result<i64> {
        let what = || "look for commits of others".to_string();
        self.ask_writer(what, |reading| reading.data_version()).await
    }

    /// Rows that could not be read and were set aside, at most `limit` of each table.
    pub async fn bad_rows(&self, limit: u32) -> Result<Vec<BadRow>> {
        let what = || "look for rows that were set aside".to_string();
        self.ask_writer(what, move |reading| reading.bad_rows(limit)).await
    }

    /// Empties the write-ahead log as far as other processes let it.
    pub(crate) async fn empty_log(&self) -> Result<()> {
        self.order(|answer| Order::Flush { answer }, || "empty the log".into()).await
    }

    /// Finishes what was asked, empties the write-ahead log and ends the threads. Later calls are
    /// errors.
    pub async fn close(&self) {
        if self.process.refuse_others().is_err() {
            // The threads are in the process that opened the store.
            return;
        }
        self.closed.store(true, Ordering::Relaxed);
        if let Readers::Threads(count, readers) = &self.readers {
            for _ in 0..*count {
                // A thread that has ended already takes no order.
                let _ = readers.send(ReadOrder::Close);
            }
        }
        self.reading.ended().await;
        let _ = self.writer.send(Order::Close);
        self.writing.ended().await;
    }

    /// Runs SQL on the connection that writes. For tests, which set limits there that a disk would
    /// have.
    #[doc(hidden)]
    pub async fn run_on_writer(&self, sql: &str) -> Result<()> {
        self.order(|answer| Order::Run { sql: sql.to_string(), answer }, || "run SQL".into()).await
    }

    /// Writes a batch.
    pub(crate) async fn write(&self, batch: Arc<[Step]>) -> Result<Vec<StepResult>> {
        let steps = batch.len();
        let what = || format!("commit {steps} steps");
        self.order(|answer| Order::Commit { batch, answer }, what).await
    }

    /// Runs an attempt's code on the user's tables.
    pub(crate) async fn run_attempt(&self, attempt: Arc<AttemptTransaction>) -> Result<Transacted> {
        let call = attempt.call;
        let what = || format!("run the transaction of call {call}");
        self.order(|answer| Order::Transact { attempt, answer }, what).await
    }

    /// Runs code of the user on their tables.
    pub(crate) fn run_on_tables(&self, access: Access, work: UserWork) -> Answer<'_, Changed> {
        let limit = self.transaction_timeout;
        match access {
            Access::Read => self.send_read(
                || "read the user's tables".to_string(),
                move |answer| {
                    Box::new(move |seat, _| {
                        let read = user_transaction::read(&work, seat.connection, limit);
                        let _ = answer.send(seat.checked(read));
                    })
                },
            ),
            Access::Write => Box::pin(async move {
                let what = || "change the user's tables".to_string();
                self.order(|answer| Order::Tables { work, answer }, what).await
            }),
        }
    }

    /// Deletes closed instances.
    pub(crate) async fn delete(&self, wanted: Deletion) -> Result<Deleted> {
        let what = || "delete closed instances".to_string();
        self.order(|answer| Order::Delete { wanted, answer }, what).await
    }

    /// Changes rows that no step writes, in a transaction of its own.
    pub(crate) async fn change_apart(
        &self,
        what: &'static str,
        change: impl FnOnce(&Connection) -> Result<bool> + Send + 'static,
    ) -> Result<bool> {
        let change = Box::new(change);
        self.order(|answer| Order::Apart { change, answer }, || what.to_string()).await
    }

    /// Keeps what is known of remote workers.
    pub(crate) async fn change_remote_workers(&self, write: RemoteWrite) -> Result<()> {
        let what = || "keep what workers said".to_string();
        self.order(|answer| Order::Remote { write, answer }, what).await
    }

    /// Takes the right to work.
    pub(crate) async fn own(&self, node: String) -> Result<Owning> {
        let what = || "take the right to work".to_string();
        self.order(|answer| Order::Own { node, answer }, what).await
    }

    /// True once it is seen that the right to work is gone.
    pub(crate) fn overtaken(&self) -> bool {
        self.overtaken.load(Ordering::Relaxed)
    }

    /// The error of everything that is asked, once the file was seen to be gone.
    pub(crate) fn removed(&self) -> Option<Error> {
        self.gone.get().map(|gone| self.place.refusal(*gone))
    }

    /// Makes later commits a client's.
    pub(crate) async fn client_again(&self) -> Result<()> {
        self.order(|answer| Order::Disown { answer }, || "give up the right to work".into()).await
    }

    /// Who has the right to work. Asked on a thread that reads, for it may have to wait a moment.
    pub(crate) fn working(&self) -> Answer<'_, Option<Owner>> {
        let place = self.place.clone();
        self.read(|| "look who works".to_string(), move |_| place.owner())
    }

    /// What changes when somebody else has committed; what was seen by now is not news.
    pub(crate) fn changed(&self) -> watch::Receiver<u64> {
        let mut changes = self.changes.clone();
        changes.mark_unchanged();
        changes
    }

    /// Reads on one of the connections that are for it.
    pub(crate) fn read<'a, T: Send + 'static>(
        &'a self,
        what: impl Fn() -> String + Send + 'a,
        read: impl FnOnce(&mut Reading<'_>) -> Result<T> + Send + 'static,
    ) -> Answer<'a, T> {
        self.send_read(what, move |answer| job(read, answer))
    }

    fn send_read<'a, T: Send + 'static>(
        &'a self,
        what: impl Fn() -> String + Send + 'a,
        job: impl FnOnce(Answering<T>) -> ReadJob + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let send = |answer| match &self.readers {
                Readers::Threads(_, readers) => readers.send(ReadOrder::Read(job(answer))).is_ok(),
                Readers::Writer => self.writer.send(Order::Read(job(answer))).is_ok(),
            };
            self.answered(send, what).await
        })
    }

    /// Reads on the connection that writes.
    async fn ask_writer<T: Send + 'static>(
        &self,
        what: impl Fn() -> String,
        read: impl FnOnce(&mut Reading<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.order(|answer| Order::Read(job(read, answer)), what).await
    }

    async fn order<T>(
        &self,
        order: impl FnOnce(Answering<T>) -> Order,
        what: impl Fn() -> String,
    ) -> Result<T> {
        self.answered(|answer| self.writer.send(order(answer)).is_ok(), what).await
    }

    /// Sends something that will be answered, and waits for that.
    async fn answered<T>(
        &self,
        send: impl FnOnce(Answering<T>) -> bool,
        what: impl Fn() -> String,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let answer = match self.process.refuse_others() {
            Ok(()) if send(answer) => answered.await,
            Ok(()) => return Err(self.ended(&what())),
            Err(another_process) => Ok(Err(another_process)),
        };
        match answer {
            Ok(answer) => answer.map_err(|error| error.within(self.attempted(&what()))),
            Err(_) => Err(self.ended(&what())),
        }
    }

    fn attempted(&self, what: &str) -> String {
        format!("{what} in {}", self.path)
    }

    /// The error of a call whose thread is not there.
    fn ended(&self, what: &str) -> Error {
        let attempted = self.attempted(what);
        Error::unusable(match self.closed.load(Ordering::Relaxed) {
            true => format!("{attempted}: the store is closed"),
            false => format!("{attempted}: the store's thread has died; open the store again"),
        })
    }
}

/// Where an answer goes.
type Answering<T> = oneshot::Sender<Result<T>>;

/// A read as the threads take it.
fn job<T: Send + 'static>(
    read: impl FnOnce(&mut Reading<'_>) -> Result<T> + Send + 'static,
    answer: Answering<T>,
) -> ReadJob {
    Box::new(move |seat, set_aside| {
        if answer.is_closed() {
            return;
        }
        let (result, rows) = Reading::run(seat.connection, read);
        if !rows.is_empty() {
            set_aside(rows);
        }
        let _ = answer.send(seat.checked(result));
    })
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use resurgam_store::{Commit, Inspect, Node, Own};
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    async fn when_a_thread_has_died_every_call_says_so() {
        let store = SqliteStore::in_memory().unwrap();
        let dies: Result<()> = store.ask_writer(String::new, |_| panic!("a bug")).await;
        let commit = store.commit([Step::default()].into()).await.map(|_| ());
        let find = store.find("order-1").await.map(|_| ());
        for answer in [dies, commit, find] {
            let error = answer.unwrap_err();
            assert!(error.is_unusable(), "{error}");
            assert!(error.to_string().contains("thread has died"), "{error}");
        }
        store.close().await;
    }

    #[test]
    async fn after_a_fork_every_call_says_so_and_none_waits() {
        let mut store = SqliteStore::in_memory().unwrap();
        store.process = Process::of_id(0);
        let commit = store.commit([Step::default()].into()).await.map(|_| ());
        let find = store.find("order-1").await.map(|_| ());
        let owner = store.owner().await.map(|_| ());
        let own = store.try_own(Node::new("node-a")).await.map(|_| ());
        let version = store.data_version().await.map(|_| ());
        for answer in [commit, find, owner, own, store.disown().await, version] {
            let error = answer.unwrap_err();
            assert!(error.is_unusable(), "{error}");
            let expected = ":memory:: opened by process 0, and this is process ";
            assert!(error.to_string().contains(expected), "{error}");
        }
        store.close().await;
    }
}
