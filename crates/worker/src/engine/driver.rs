//! Carries out what the engine asks for, and brings it the answers.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use resurgam_core::{CallKey, EventKind, Failure, Kind, Timestamp, UserWork};
use resurgam_store::rows::Message as StoredMessage;
use resurgam_store::{
    AttemptTransaction, Node, Ownership, Owning, Result, Step, StepResult, Store,
};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tracing::Instrument;

use super::ended::{AttemptEnd, fitting};
use super::message::{now_due, result_id};
use super::output::{AskFor, AttemptStart, Order, Output, Transaction};
use super::own::RoleAnswer;
use super::read::Read;
use super::transact::FIRST_WAIT;
use super::writing::Next;
use super::{Engine, Message, Stamp};
use crate::attempt::{self, Gate, Running};
use crate::clock::{Busy, Clock, Moment};
use crate::retention::{Pace, Retention, sweep};

/// A look at many instances that takes longer than this is followed by a pause.
const LONG_LOOK: Duration = Duration::from_millis(2);

impl Engine {
    /// Does what is to be done.
    pub(super) fn do_outputs(&mut self) {
        for output in std::mem::take(&mut self.outputs) {
            match output {
                Output::Read { read, after, stamp } => self.ask_store(read, after, stamp),
                Output::Commit { lane, next, patient } => self.write(lane, next, patient),
                Output::TryOwn { node, after } => self.try_own(node, after),
                Output::StepDown => self.give_right_back(),
                Output::StartAttempt(start) => self.start_attempt(*start),
                Output::OrderAttempt { token, order } => self.beside.order(token, order),
                Output::InterruptAttempt { call, token } => self.interrupt_attempt(call, token),
                Output::Transact(transaction) => self.run_transaction(*transaction),
                Output::RefuseTransaction { ask, failure } => {
                    if let Some(ask) = self.beside.asks.remove(&ask) {
                        ask.fails(failure, &*self.clock);
                    }
                }
                Output::TransactionRecorded { ask } => drop(self.beside.asks.remove(&ask)),
                Output::AskAgain { ask, after } => self.ask_again(ask, after),
                Output::Sweep { retention, now } => self.sweep(retention, now),
            }
        }
    }

    /// Asks the store beside the loop.
    fn ask_store(&self, read: Read, after: Duration, stamp: Option<Stamp>) {
        let (store, clock) = (self.store.clone(), self.clock.clone());
        let (log, mailbox) = (self.outage_log.clone(), self.mailbox.stamped(stamp));
        let waiting = Waiting::new(&*clock, after, "a read");
        tokio::spawn(async move {
            let mut busy = Some(waiting.over().await);
            if mailbox.is_closed() {
                return;
            }
            let (began, many) = (clock.elapsed(), matches!(read, Read::Ends { .. }));
            let message = read.ask(&*store, &log).await;
            let took = clock.elapsed().saturating_sub(began);
            // Waiting for ten thousand instances must not keep a core busy.
            if many && took > LONG_LOOK {
                let moment = clock.sleep(took * 4);
                drop(busy.take());
                busy = Some(moment.await);
            }
            message.into_iter().for_each(|message| mailbox.send(message));
            drop(busy);
        });
    }

    /// Sends steps to the store. They are on their way when the future is polled.
    fn write(&mut self, lane: usize, next: Next, patient: bool) {
        let (store, clock) = (self.store.clone(), self.clock.clone());
        let log = self.outage_log.clone();
        let Next { steps, after } = next;
        let rows: usize = steps.iter().map(Step::rows).sum();
        let span = tracing::debug_span!("commit", steps = steps.len(), rows);
        // Busy from now on, and not only once the future is polled.
        let waiting = Waiting::new(&*clock, after, "a commit");
        let commit = async move {
            let busy = waiting.over().await;
            let began = clock.now();
            let mut answer = store.commit(steps).await;
            if patient {
                log.heard(("commit", lane as u64), &answer);
            }
            match answer {
                Ok(_) => {
                    let took = clock.now().since(began);
                    metrics::histogram!("resurgam.commit_ms").record(took.as_secs_f64() * 1e3);
                }
                Err(error) if !patient => answer = Err(with_owner(&*store, error).await),
                Err(_) => {}
            }
            (answer, busy)
        };
        if self.commits.len() <= lane {
            self.commits.resize_with(lane + 1, || None);
        }
        self.commits[lane] = Some(Box::pin(commit.instrument(span)));
    }

    /// Asks for the right to work.
    fn try_own(&self, node: Node, after: Duration) {
        let (store, clock, mailbox) =
            (self.store.clone(), self.clock.clone(), self.mailbox.clone());
        let right = self.right.clone();
        let waiting = Waiting::new(&*clock, after, "a node that asks to work");
        tokio::spawn(async move {
            let busy = waiting.over().await;
            if mailbox.is_closed() {
                return;
            }
            mailbox.send(Message::Role(match store.try_own(node).await {
                Ok(Owning::Taken(taken)) => {
                    let shards = taken.shards().to_vec();
                    *right.lock().unwrap_or_else(PoisonError::into_inner) = Some(taken);
                    Ok(RoleAnswer::Taken(shards))
                }
                Ok(Owning::Held(owner)) => Ok(RoleAnswer::Held(owner)),
                Err(error) => Err(error),
            }));
            drop(busy);
        });
    }

    /// Gives the right to work back.
    fn give_right_back(&mut self) {
        self.sweeping = None;
        self.beside = Beside::default();
        drop(self.right.lock().unwrap_or_else(PoisonError::into_inner).take());
        let (store, mailbox) = (self.store.clone(), self.mailbox.clone());
        let busy = self.clock.busy(&"a node that steps down");
        tokio::spawn(async move {
            if let Err(error) = store.disown().await {
                tracing::warn!("step down: {error}");
            }
            mailbox.send(Message::SteppedDown);
            drop(busy);
        });
    }

    /// Deletes what is closed and old.
    fn sweep(&mut self, retention: Retention, now: Timestamp) {
        let (store, clock, mailbox) =
            (self.store.clone(), self.clock.clone(), self.mailbox.clone());
        let busy = self.clock.busy(&"a sweep");
        let sweep = tokio::spawn(async move {
            let mut pace = Pace::new(&*clock, busy);
            let next = sweep(&*store, &mut pace, retention, now).await;
            mailbox.send(Message::Swept { next });
        });
        self.sweeping = Some(EndsWithIt(sweep));
    }
}

impl Engine {
    fn start_attempt(&mut self, start: AttemptStart) {
        let store = self.store.clone();
        let gate = Gate {
            is_open: Arc::new(move || store.may_begin()),
            standing: self.shards.subscribe(),
        };
        let spec = attempt::Spec {
            max_payload: self.options.max_payload,
            grace: self.options.grace,
            states: self.states.clone(),
            gate,
            start,
        };
        let token = spec.start.token;
        let running = attempt::begin(spec, self.clock.clone(), self.mailbox.clone());
        self.beside.attempts.insert(token, running);
    }

    /// An attempt has reported. One that lingers is kept, to be told things.
    pub(super) fn forget_attempt(&mut self, token: u64, end: &AttemptEnd) {
        if !end.lingers
            && let Some(running) = self.beside.attempts.remove(&token)
        {
            running.leave();
        }
    }

    fn interrupt_attempt(&mut self, call: CallKey, token: u64) {
        let Some(running) = self.beside.attempts.remove(&token) else { return };
        let began = !running.withdraw();
        let heartbeat = running.cut();
        self.mailbox.send(Message::AttemptInterrupted { call, token, began, heartbeat });
    }

    /// Keeps what an attempt asks for until it is answered.
    pub(super) fn keep_ask(&mut self, ask: Ask) -> AskFor {
        self.beside.asked += 1;
        let (call, token) = (ask.call, ask.token);
        self.beside.asks.insert(self.beside.asked, ask);
        AskFor { ask: self.beside.asked, call, token, wait: FIRST_WAIT }
    }

    fn run_transaction(&mut self, transaction: Transaction) {
        let Transaction { ask, completed } = transaction;
        let Some(kept) = self.beside.asks.get(&ask.ask) else { return };
        let (run, most) = (ask.call.run, self.options.max_payload);
        let id = result_id(run, ask.call.seq);
        let message = move |result| {
            let mut completed = completed.clone();
            completed.result = fitting(result, most)?;
            let event = EventKind::ActivityCompleted(completed);
            Ok(now_due(run.uid, id.clone(), StoredMessage::Result { run: run.run, event }))
        };
        let attempt = Arc::new(AttemptTransaction {
            call: ask.call,
            token: ask.token,
            work: kept.work.clone(),
            message: Box::new(message),
        });
        let (store, mailbox) = (self.store.clone(), self.mailbox.clone());
        let busy = self.clock.busy(&"a transaction");
        let task = tokio::spawn(async move {
            let answer = store.transact(attempt).await;
            mailbox.send(Message::Transacted { ask, answer });
            drop(busy);
        });
        self.beside.transactions.insert(ask.ask, EndsWithIt(task));
    }

    /// The store has answered.
    pub(super) fn forget_transaction(&mut self, ask: AskFor) {
        self.beside.transactions.remove(&ask.ask);
    }

    fn ask_again(&self, ask: AskFor, after: Duration) {
        let waiting = Waiting::new(&*self.clock, after, "a transaction");
        let mailbox = self.mailbox.clone();
        tokio::spawn(async move {
            let busy = waiting.over().await;
            mailbox.send(Message::TransactAgain(ask));
            drop(busy);
        });
    }
}

/// A batch that is with the store.
pub(super) type InFlight = Pin<Box<dyn Future<Output = (Result<Vec<StepResult>>, Busy)> + Send>>;

/// The store's answer to a batch.
pub(super) struct Written {
    pub(super) lane: usize,
    pub(super) answer: Result<Vec<StepResult>>,
    /// Work is under way until the answer is taken notice of.
    pub(super) busy: Busy,
}

/// Lets the batches get on that are with the store: nothing is sent before the first look.
pub(super) fn poll_commits(
    commits: &mut [Option<InFlight>],
    context: &mut Context<'_>,
) -> Poll<Written> {
    for (lane, slot) in commits.iter_mut().enumerate() {
        let Some(commit) = slot else { continue };
        if let Poll::Ready((answer, busy)) = commit.as_mut().poll(context) {
            *slot = None;
            return Poll::Ready(Written { lane, answer, busy });
        }
    }
    Poll::Pending
}

/// A client that cannot write wants to know who is in its way.
async fn with_owner(store: &dyn Store, error: resurgam_store::Error) -> resurgam_store::Error {
    match store.owner().await {
        Ok(Some(owner)) if error.is_transient() => {
            resurgam_store::Error::transient(format!("{error}; the store is owned by {owner}"))
        }
        _ => error,
    }
}

/// What goes on beside the loop and ends with it.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// Attempts that have begun, by the token of their claim.
    attempts: BTreeMap<u64, Running>,
    /// What attempts have asked for and wait for.
    asks: BTreeMap<u64, Ask>,
    asked: u64,
    /// Transactions that are with the store.
    transactions: BTreeMap<u64, EndsWithIt>,
}

impl Beside {
    fn order(&mut self, token: u64, order: Order) {
        let Some(running) = self.attempts.get(&token) else { return };
        match order {
            Order::Tell => return running.tell(),
            Order::EndInGrace => return running.ends_in_grace(),
            Order::GiveUp | Order::Leave | Order::Cut => {}
        }
        let Some(running) = self.attempts.remove(&token) else { return };
        match order {
            Order::GiveUp => running.give_up(),
            Order::Leave => running.leave(),
            _ => drop(running),
        }
    }
}

/// A transaction that an attempt asks for.
pub(crate) struct Ask {
    call: CallKey,
    token: u64,
    work: UserWork,
    reply: oneshot::Sender<(Failure, Busy)>,
}

impl Ask {
    /// Asks for a transaction. The answer is why there was none; without one, it is recorded.
    pub(crate) fn new(
        call: CallKey,
        token: u64,
        work: UserWork,
    ) -> (Self, oneshot::Receiver<(Failure, Busy)>) {
        let (reply, answer) = oneshot::channel();
        (Ask { call, token, work, reply }, answer)
    }

    /// What code hears that goes on although its attempt is over.
    pub(crate) fn over() -> Failure {
        let message = "the attempt is over: its transaction is recorded, or its process stops";
        Failure::of_kind(Kind::Cancelled, message)
    }

    fn fails(self, failure: Failure, clock: &dyn Clock) {
        // Busy until the attempt has heard it. One that no longer waits for it is told elsewhere.
        let _nobody_waits = self.reply.send((failure, clock.busy(&"an attempt that goes on")));
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a transaction of call {}", self.call)
    }
}

/// The right to work, from when the store has given it.
pub(super) type Right = Arc<Mutex<Option<Ownership>>>;

/// A task that ends with the engine, as in a crash.
#[derive(Debug)]
pub(super) struct EndsWithIt(JoinHandle<()>);

impl Drop for EndsWithIt {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Something that is done after a while. The clock hears of it at once.
enum Waiting {
    Now(Busy),
    Until(Moment),
}

impl Waiting {
    fn new(clock: &dyn Clock, after: Duration, what: &'static str) -> Self {
        match after {
            Duration::ZERO => Waiting::Now(clock.busy(&what)),
            after => Waiting::Until(clock.sleep(after)),
        }
    }

    async fn over(self) -> Busy {
        match self {
            Waiting::Now(busy) => busy,
            Waiting::Until(moment) => moment.await,
        }
    }
}
