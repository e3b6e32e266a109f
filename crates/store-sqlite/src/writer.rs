//! The one thread that writes.
//!
//! It owns the write connection and takes orders from a channel, one transaction each. Its callers
//! wait on a channel of their own and block nothing. The engine groups steps into batches before
//! they come here, so there is nothing left to group. Owning the database is an order like the
//! others, so that what was asked before it is a client's and what is asked after it the owner's.
//!
//! Between orders the thread looks whether somebody else has committed (see `changes`), whether it
//! is still the owner (see `ownership`), and whether the files are still those that it has open
//! (see `lock_files`). Once they are not, nothing is written any more.
//!
//! After a commit is acknowledged the thread looks after the write-ahead log: a log that grew is
//! copied into the database by another connection meanwhile, and when that lags behind, here. Only
//! a moment without a writer lets SQLite begin the log anew, so leaving it all to the other
//! connection would let the log grow for as long as the load lasts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use resurgam_core::{Failure, Shard, UserWork};
use resurgam_store::{
    Access, AttemptTransaction, Deleted, Deletion, Error, Ownership, Owning, RemoteWrite, Result,
    Step, StepResult, Transacted, not_offered,
};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use crate::busy;
use crate::changes::Changes;
use crate::checkpoint;
use crate::commit::Statements;
use crate::errors::Attempted;
use crate::lock_files::Gone;
use crate::ownership::{Fence, Place, Taking, owner_of};
use crate::quarantine::{self, Quarantined};
use crate::queue::Queue;
use crate::reader::ReadJob;
use crate::still::Seat;
use crate::user_transaction::{self, SqliteWork};
use crate::{remote, sweep};

/// What the writer is asked to do.
pub(crate) enum Order {
    /// Write a batch.
    Commit { batch: Arc<[Step]>, answer: oneshot::Sender<Result<Vec<StepResult>>> },
    /// Run an attempt's code on the user's tables.
    Transact { attempt: Arc<AttemptTransaction>, answer: oneshot::Sender<Result<Transacted>> },
    /// Run code of the user on their tables.
    Tables { work: UserWork, answer: oneshot::Sender<Result<Changed>> },
    /// Delete closed instances.
    Delete { wanted: Deletion, answer: oneshot::Sender<Result<Deleted>> },
    /// Change rows that no step writes: tokens, statistics, graphs.
    Apart { change: Change, answer: oneshot::Sender<Result<bool>> },
    /// Keep what is known of remote workers.
    Remote { write: RemoteWrite, answer: oneshot::Sender<Result<()>> },
    /// Take the right to work.
    Own { node: String, answer: oneshot::Sender<Result<Owning>> },
    /// Commit as a client again.
    Disown { answer: oneshot::Sender<Result<()>> },
    /// Copy the whole log into the database and empty it.
    Flush { answer: oneshot::Sender<Result<()>> },
    /// Read on this connection: everything in memory, otherwise what only this one can tell.
    Read(ReadJob),
    /// Mark rows that cannot be read.
    Quarantine(Vec<Quarantined>),
    /// Run SQL, for tests.
    Run { sql: String, answer: oneshot::Sender<Result<()>> },
    /// End.
    Close,
}

/// A change of rows that no step writes.
pub(crate) type Change = Box<dyn FnOnce(&Connection) -> Result<bool> + Send>;

/// How code of the user on their own tables ended.
pub(crate) type Changed = std::result::Result<(), Failure>;

/// What has been written since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) transactions: AtomicU64,
    pub(crate) rows: AtomicU64,
}

impl Counters {
    /// Counts a transaction.
    fn add(&self, rows: u64) {
        self.transactions.fetch_add(1, Ordering::Relaxed);
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }
}

/// How many rows of ours an attempt on the user's tables changes: its task and a message.
const TRANSACTION_ROWS: u64 = 2;

/// How the writer works.
pub(crate) struct Writer {
    pub(crate) connection: Connection,
    pub(crate) orders: Receiver<Order>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) ledger_rows: u32,
    pub(crate) busy_timeout: Duration,
    pub(crate) transaction_timeout: Duration,
    pub(crate) place: Place,
    /// True once it is seen that the right to work is gone.
    pub(crate) overtaken: Arc<AtomicBool>,
    /// A file of this connection that was seen to be no longer the one at its path.
    pub(crate) gone: Arc<OnceLock<Gone>>,
    /// Whether rows that cannot be read are marked: what one that only looks cannot read, whoever
    /// works may.
    pub(crate) marks: bool,
    /// The write-ahead log; none in memory.
    pub(crate) log: Option<Log>,
}

/// What changes while the writer works.
struct Desk<'c> {
    changes: Changes,
    /// Prepared by the first commit, which can answer when that fails.
    statements: Option<Statements<'c>>,
    /// What an owner must find before it writes; none for a client.
    fence: Option<Fence>,
    /// Where it is seen that others wait to write; none before anybody owned the file.
    queue: Option<Queue>,
    /// This was an owner, and is a client by now.
    disowned: bool,
}

/// What the writer knows about the write-ahead log.
pub(crate) struct Log {
    /// Wakes the thread that copies it.
    pub(crate) wake: SyncSender<()>,
    /// Held by whoever copies.
    pub(crate) copying: Copying,
    /// Bytes after which that thread is woken.
    pub(crate) copy_after: i64,
    /// Bytes after which the writer copies itself.
    pub(crate) copy_here_after: i64,
}

/// One thread copies at a time. SQLite refuses the second one instead of letting it wait, and the
/// log would go on growing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copying(Arc<Mutex<MayCopy>>);

/// Whether the log may still be copied. Without an index that is everybody's it may not: another
/// process may have begun the log anew, so that our index leads to other pages than it says.
#[derive(Debug, Default)]
pub(crate) enum MayCopy {
    #[default]
    Yes,
    No,
}

impl Copying {
    /// The turn to copy; none when nobody may any more.
    pub(crate) fn begin(&self) -> Option<MutexGuard<'_, MayCopy>> {
        let turn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(*turn, MayCopy::Yes).then_some(turn)
    }

    fn forbid(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = MayCopy::No;
    }
}

/// SQLite's usual size of a page. In another size the limits of the log are as much off.
const PAGE: i64 = 4_096;

impl Writer {
    /// Takes orders until the store is closed or dropped.
    pub(crate) fn run(self, changes: Changes) {
        busy::limit_on_this_thread(self.busy_timeout);
        if let Place::File(files) = &self.place {
            busy::queue_on_this_thread(files.queue());
        }
        let mut desk =
            Desk { changes, statements: None, fence: None, queue: None, disowned: false };
        while let Some(order) = self.next(&mut desk) {
            if !self.take(order, &mut desk) {
                break;
            }
            busy::served();
        }
    }

    /// The next order; none when nobody can give one any more. Looks around while it waits, and
    /// between orders that leave no time to wait.
    fn next(&self, desk: &mut Desk<'_>) -> Option<Order> {
        loop {
            let Some(wait) = desk.changes.next_look() else { return self.orders.recv().ok() };
            if wait.is_zero() {
                self.look_around(desk);
                continue;
            }
            match self.orders.recv_timeout(wait) {
                Ok(order) => return Some(order),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Looks what others did: whether they have committed, and whether one of them is the owner.
    fn look_around(&self, desk: &mut Desk<'_>) {
        let others = desk.changes.look(&self.connection);
        self.look_at_files(desk);
        let Some(fence) = &mut desk.fence else { return };
        fence.look();
        // Trouble with reading the name is left to the next commit.
        let name = if others { owner_of(&self.connection).ok() } else { None };
        let overtaken =
            fence.is_lost() || name.is_some_and(|name| fence.check(name.as_deref()).is_err());
        if overtaken && !self.overtaken.swap(true, Ordering::Relaxed) {
            desk.changes.tell();
        }
    }

    /// Looks whether the files are still in place. What was committed to a log that nobody else
    /// can see any more is saved into the database: again at every look, for somebody may be
    /// reading there who needs the database as it was.
    fn look_at_files(&self, desk: &mut Desk<'_>) {
        if self.gone.get().is_none()
            && let Some(gone) = self.place.gone()
        {
            // Nobody else sets it.
            let _ = self.gone.set(gone);
            if let (Gone::Index, Some(log)) = (gone, &self.log) {
                log.copying.forbid();
                leave_log(&self.connection);
            }
            desk.changes.tell();
        }
        if let (Some(Gone::Log), Some(log)) = (self.gone.get(), &self.log) {
            // Trouble is left to the next look.
            let _ = copy_log(&self.connection, &log.copying);
        }
    }

    /// Refuses to write where it would be lost, or would do damage.
    fn refuse_gone(&self) -> Result<()> {
        self.gone.get().map_or(Ok(()), |gone| Err(self.place.refusal(*gone)))
    }

    /// Carries out an order; false when it was the last. Where nobody listens to the answer, the
    /// caller went away, and what was written stays written.
    fn take<'c>(&'c self, order: Order, desk: &mut Desk<'c>) -> bool {
        match order {
            Order::Commit { batch, answer } => {
                let written = self.write(desk, &batch);
                self.count(&batch, &written);
                let _ = answer.send(written);
                self.look_after_log();
            }
            Order::Transact { answer, .. } if answer.is_closed() => {}
            Order::Transact { attempt, answer } => {
                let transacted = self.transact(desk, &attempt);
                if let Ok(Transacted::Done(_)) = &transacted {
                    self.counters.add(TRANSACTION_ROWS);
                }
                let _ = answer.send(transacted);
                self.look_after_log();
            }
            Order::Tables { work, answer } => {
                let changed = self.change_tables(desk, &work);
                if let Ok(Ok(())) = &changed {
                    self.counters.add(0);
                }
                let _ = answer.send(changed);
                self.look_after_log();
            }
            Order::Delete { wanted, answer } => {
                let deleted = self.refuse_gone().and_then(|()| {
                    self.give_way(desk);
                    sweep::delete(&self.connection, &wanted)
                });
                let _ = answer.send(deleted);
                self.look_after_log();
            }
            Order::Apart { change, answer } => {
                let changed = self.refuse_gone().and_then(|()| {
                    self.give_way(desk);
                    self.change_apart(change)
                });
                let _ = answer.send(changed);
                self.look_after_log();
            }
            Order::Remote { write, answer } => {
                let changed = self.refuse_gone().and_then(|()| {
                    self.give_way(desk);
                    remote::write(&self.connection, &write)
                });
                let _ = answer.send(changed);
            }
            Order::Own { node, answer } => {
                let answered = answer.send(self.own(desk, &node));
                if let Err(Ok(Owning::Taken(_))) = answered {
                    desk.fence = None;
                }
            }
            Order::Disown { answer } => {
                desk.fence = None;
                desk.disowned = true;
                self.overtaken.store(false, Ordering::Relaxed);
                let _ = answer.send(Ok(()));
            }
            Order::Flush { answer } => {
                if let Some(log) = &self.log {
                    busy::limit_on_this_thread(checkpoint::CLOSING);
                    checkpoint::empty_log(&self.connection, &log.copying);
                    busy::limit_on_this_thread(self.busy_timeout);
                }
                let _ = answer.send(Ok(()));
            }
            Order::Read(job) => {
                let seat = Seat { connection: &self.connection, still: None };
                job(seat, &mut |rows| self.set_aside(&rows));
            }
            Order::Quarantine(rows) => self.set_aside(&rows),
            Order::Run { sql, answer } => {
                let ran = self.connection.execute_batch(&sql);
                let _ = answer.send(ran.attempted(|| sql));
            }
            Order::Close => return false,
        }
        true
    }

    fn write<'c>(&'c self, desk: &mut Desk<'c>, batch: &[Step]) -> Result<Vec<StepResult>> {
        self.refuse_gone()?;
        if desk.disowned && batch.iter().any(Step::is_an_owners) {
            return Err(Error::fenced("another node owns it by now"));
        }
        self.give_way(desk);
        self.prepare(&mut desk.statements)?.write(batch, desk.fence.as_ref())
    }

    fn prepare<'d, 'c>(
        &'c self,
        statements: &'d mut Option<Statements<'c>>,
    ) -> Result<&'d mut Statements<'c>> {
        if statements.is_none() {
            let prepared = Statements::prepare(&self.connection, self.ledger_rows);
            *statements = Some(prepared.attempted(|| "prepare the statements".into())?);
        }
        Ok(statements.as_mut().expect("prepared by now"))
    }

    /// Only an owner runs attempts, so a client's transaction is one that comes too late.
    fn transact<'c>(
        &'c self,
        desk: &mut Desk<'c>,
        attempt: &AttemptTransaction,
    ) -> Result<Transacted> {
        let Some(work) = SqliteWork::of(&attempt.work) else {
            return Ok(Transacted::Failed(not_offered()));
        };
        self.refuse_gone()?;
        self.give_way(desk);
        let statements = self.prepare(&mut desk.statements)?;
        let Some(fence) = &desk.fence else {
            return Err(Error::fenced("this node does not own it"));
        };
        statements.transact(attempt, work, self.transaction_timeout, fence)
    }

    fn change_apart(&self, change: Change) -> Result<bool> {
        let begun = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate);
        busy::served();
        let transaction = begun.attempted(|| "begin a transaction".into())?;
        let changed = change(&transaction)?;
        transaction.commit().attempted(|| "commit the transaction".into())?;
        Ok(changed)
    }

    /// The user's tables are everybody's who has the file open, so no fence stands here.
    fn change_tables(&self, desk: &mut Desk<'_>, work: &UserWork) -> Result<Changed> {
        let Some(work) = SqliteWork::of(work) else { return Ok(Err(not_offered())) };
        self.refuse_gone()?;
        self.give_way(desk);
        let begun = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate);
        busy::served();
        let transaction = begun.attempted(|| "begin a transaction".into())?;
        if let Err(failure) =
            user_transaction::run(work, &transaction, Access::Write, self.transaction_timeout)?
        {
            return Ok(Err(failure));
        }
        transaction.commit().attempted(|| "commit the transaction".into())?;
        Ok(Ok(()))
    }

    /// Lets others write first who have waited. In memory there are none.
    fn give_way(&self, desk: &mut Desk<'_>) {
        let Place::File(files) = &self.place else { return };
        if desk.queue.is_none() {
            desk.queue = Queue::find(files);
        }
        if let Some(queue) = &mut desk.queue {
            queue.give_way();
        }
    }

    fn own(&self, desk: &mut Desk<'_>, node: &str) -> Result<Owning> {
        self.refuse_gone()?;
        match self.place.take(&self.connection, node)? {
            Taking::Held(owner) => Ok(Owning::Held(owner)),
            Taking::Taken(proof, fence) => {
                desk.fence = Some(fence);
                desk.disowned = false;
                self.overtaken.store(false, Ordering::Relaxed);
                if let Place::File(files) = &self.place {
                    // Without a queue others wait longer, and nothing is wrong.
                    desk.queue = Queue::make(files).ok();
                }
                Ok(Owning::Taken(Ownership::new(proof, Shard::all())))
            }
        }
    }

    fn count(&self, batch: &[Step], written: &Result<Vec<StepResult>>) {
        let Ok(results) = written else { return };
        let steps = batch.iter().zip(results);
        let rows: usize = steps
            .filter(|(_, result)| **result == StepResult::Written)
            .map(|(step, _)| step.rows())
            .sum();
        self.counters.add(rows as u64);
    }

    /// Marking is a courtesy: when it fails, the next read steps over the rows again.
    fn set_aside(&self, rows: &[Quarantined]) {
        if self.marks && !rows.is_empty() && self.gone.get().is_none() {
            let _ = quarantine::mark(&self.connection, rows);
        }
    }

    /// Trouble here is left alone: whatever ails the disk, the next commit says it.
    fn look_after_log(&self) {
        let Some(log) = &self.log else { return };
        let Ok((bytes, copied)) = log_bytes(&self.connection) else { return };
        if bytes > log.copy_here_after {
            let _ = copy_log(&self.connection, &log.copying);
        } else if bytes - copied > log.copy_after {
            // Full when the other thread is at it already.
            let _ = log.wake.try_send(());
        }
    }
}

/// How long the log is, and how much of it is in the database already.
fn log_bytes(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    let mut look = connection.prepare_cached("PRAGMA wal_checkpoint(NOOP)")?;
    let (pages, copied): (i64, i64) = look.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))?;
    Ok((pages * PAGE, copied * PAGE))
}

/// Copies as much of the log into the database as nobody still needs there.
pub(crate) fn copy_log(connection: &Connection, copying: &Copying) -> rusqlite::Result<()> {
    let Some(_turn) = copying.begin() else { return Ok(()) };
    connection.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?.query_row([], |_| Ok(()))
}

/// Has SQLite leave the log as it is when this connection is the last one that closes.
pub(crate) fn leave_log(connection: &Connection) {
    // The setting is refused by no library that we take.
    let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
}
