//! Runs a node on tokio. Beside `attempt.rs` the only file that spawns for the engine.
//!
//! The node (`node/`) decides; it is told what happens and says what is to be done. The driver owns
//! everything else: the store, the clock, the random source, attempts and transactions that run,
//! batches that are with the store, the channels through which others talk to the loop. Whatever it
//! does for the node comes back as an input.
//!
//! Work is under way for the clock of a test from when an output is carried out until what follows
//! from it was handled: each holds a [`Busy`].

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use resurgam_core::{CallKey, EventKind, Failure, Kind, Timestamp, UserWork};
use resurgam_sdk::{PendingTurn, Registry, States};
use resurgam_store::outage::OutageLog;
use resurgam_store::rows::Message as StoredMessage;
use resurgam_store::{
    Assignment, AttemptTransaction, Ownership, Owning, PressureRow, Result, Step, StepResult, Store,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tracing::Instrument;

use crate::attempt::{self, Gate, Running};
use crate::clock::{Busy, Clock, Moment};
use crate::handle::Handle;
use crate::mailbox::{Envelope, Mail, Mailbox};
use crate::node::{
    At, AttemptEnd, AttemptStart, AwayTurn, Batch, FIRST_WAIT, Facts, Input, Node, Order, Output,
    Replies, RoleAnswer, Stamp, StoreRequest, Transaction, TransactionRequest, Turned, fitting,
    now_due, result_id,
};
use crate::options::Options;
use crate::outage::note_answer;
use crate::retention::{Pace, Retention, sweep};
use crate::watchers::Watchers;

/// How many messages are taken before the loop looks at the clock and the committer again.
const MESSAGES_AT_ONCE: usize = 256;

/// A look at many instances that takes longer than this is followed by a pause.
const LONG_LOOK: Duration = Duration::from_millis(2);

/// How long it is stored what was counted of attempts.
const COUNTS_STAY: Duration = Duration::from_secs(7 * 24 * 3_600);

/// How long the end of an engine waits at most until the last counts are stored.
const LONGEST_END: Duration = Duration::from_secs(1);

/// Runs workflows and activities on a store.
pub struct Engine {
    node: Node,
    store: Arc<dyn Store>,
    states: States,
    clock: Arc<dyn Clock>,
    /// What an attempt must not be larger than, nor go on for longer after its end.
    max_payload: usize,
    grace: Duration,
    mailbox: Mailbox,
    inbox: mpsc::UnboundedReceiver<Envelope>,
    /// Changes when somebody else has committed.
    changes: watch::Receiver<u64>,
    /// Changes when the store wants something else of this node.
    assignment: watch::Receiver<Assignment>,
    /// Tells the handles whether this node works.
    owns: watch::Sender<bool>,
    /// Those who wait for answers to what they asked.
    replies: Replies,
    /// Those who look at instances.
    watchers: Watchers,
    /// Tells people when the store cannot be used.
    outage_log: Arc<OutageLog>,
    /// The right to work, while this node has it.
    right: Right,
    /// How often it was given back: what was to be written before that is not written after it.
    given_back: Arc<AtomicU64>,
    sweeping: Option<EndsWithIt>,
    /// What was counted of attempts is being stored.
    counting: Option<EndsWithIt>,
    beside: Beside,
    commits: Vec<Option<InFlight>>,
}

impl Engine {
    /// An engine on a store. It works while [`Engine::run`] is polled.
    pub fn new(
        store: Arc<dyn Store>,
        registry: Registry,
        states: States,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> (Self, Handle) {
        let (mailbox, inbox) = Mailbox::new(clock.clone());
        let registry = Arc::new(registry);
        let (owns, owned) = watch::channel(false);
        let handle = Handle::new(
            mailbox.clone(),
            store.clone(),
            registry.clone(),
            clock.clone(),
            owned,
            options.work,
        );
        let (max_payload, grace) = (options.max_payload, options.grace);
        let assignment = store.assignment();
        let facts = Facts {
            is_shared: store.is_shared(),
            lanes: store.lanes(),
            assignment: assignment.borrow().clone(),
        };
        let node = Node::new(registry, options, facts, fastrand::u64(..), clock.now());
        let engine = Engine {
            node,
            changes: store.changes(),
            assignment,
            outage_log: store.outage_log().unwrap_or_default(),
            store,
            states,
            clock,
            max_payload,
            grace,
            mailbox,
            inbox,
            owns,
            replies: Replies::default(),
            watchers: Watchers::default(),
            right: Arc::default(),
            given_back: Arc::default(),
            sweeping: None,
            counting: None,
            beside: Beside::default(),
            commits: Vec::new(),
        };
        (engine, handle)
    }

    /// Works until it is told to stop, or its database was removed.
    pub async fn run(mut self) {
        let mut busy = Some(self.clock.busy(&"the engine"));
        self.node.begin();
        loop {
            self.hear_of_others();
            if self.is_without_store() {
                return self.node.log_left_out_at_end();
            }
            self.take_messages();
            self.node.tick(self.at());
            let is_done = self.node.is_done();
            // Also at the end: attempts that were given up have their grace period.
            self.do_outputs();
            if is_done {
                return self.store_last_counts().await;
            }
            self.store_counts();
            let written = self.poll_commit().await;
            let more = written.is_some() || !self.inbox.is_empty();
            if let Some(written) = written {
                self.batch_answered(written).await;
            }
            if more {
                // Others share this thread: a loop that is never idle must still let them run.
                tokio::task::yield_now().await;
                continue;
            }
            busy = self.wait(busy).await;
        }
    }

    fn at(&self) -> At {
        let (now, elapsed) = (self.clock.now(), self.clock.elapsed());
        At { now, elapsed, may_begin: self.store.may_begin() }
    }

    /// Looks whether somebody else has committed, and what the store wants of this node.
    fn hear_of_others(&mut self) {
        if self.changes.has_changed().unwrap_or(false) {
            self.changes.borrow_and_update();
            let is_overtaken = self.store.is_overtaken();
            self.node.others_committed(self.at(), is_overtaken);
        }
        if self.assignment.has_changed().unwrap_or(false) {
            let assignment = self.assignment.borrow_and_update().clone();
            self.node.assignment(self.at(), assignment);
        }
    }

    /// True when the database was removed: nothing can be written any more, and whatever somebody
    /// else makes in its place knows nothing of what is in memory. Whoever waits hears of it when
    /// the loop is gone.
    fn is_without_store(&self) -> bool {
        let Some(gone) = self.store.gone() else { return false };
        tracing::error!(node = %self.node.name(), "stopped: {gone}");
        self.owns.send_replace(false);
        true
    }

    fn take_messages(&mut self) {
        for _ in 0..MESSAGES_AT_ONCE {
            let Ok(envelope) = self.inbox.try_recv() else { return };
            drop(self.take(envelope));
        }
    }

    /// Takes notice of a message.
    fn take(&mut self, envelope: Envelope) -> Busy {
        let Envelope { mail, busy, stamp } = envelope;
        match mail {
            Mail::Input(input) => self.take_input(input, stamp),
            Mail::Transact(ask) => {
                let ask = self.beside.keep_ask(ask);
                self.node.handle(self.at(), Input::Transact(ask), None);
            }
            Mail::Request(request, waiter) => {
                self.replies.expect(waiter);
                self.take_input(Input::Request(request), stamp);
            }
            Mail::Watch { uid, reply } => drop(reply.send(self.watchers.subscribe(uid))),
        }
        busy
    }

    /// What an input says about what the driver itself keeps is noted; everything else is for the
    /// node.
    fn take_input(&mut self, input: Input, stamp: Option<Stamp>) {
        match &input {
            Input::AttemptEnded { token, end, .. } => self.beside.attempt_ended(*token, end),
            Input::Transacted { ask, .. } => self.beside.transaction_answered(*ask),
            Input::Role(Ok(RoleAnswer::Taken(_))) => drop(self.owns.send_replace(true)),
            _ => {}
        }
        note_answer(&self.outage_log, &input);
        self.node.handle(self.at(), input, stamp);
    }

    /// A batch is durable: the next one is on its way before the effects of this one happen, so
    /// that the disk does not wait for them.
    async fn batch_answered(&mut self, written: Written) {
        let mut written = Some(written);
        while let Some(Written { lane, answer, busy }) = written.take() {
            let durable = self.node.batch_answered(self.at(), lane, answer);
            self.do_outputs();
            if let Some(durable) = durable {
                written = self.poll_commit().await;
                self.node.effects(durable);
            }
            drop(busy);
        }
        self.do_outputs();
    }

    /// Lets the batches that are on their way get on, without waiting for them.
    async fn poll_commit(&mut self) -> Option<Written> {
        match poll_fn(|context| Poll::Ready(poll_commits(&mut self.commits, context))).await {
            Poll::Ready(written) => Some(written),
            Poll::Pending => None,
        }
    }

    /// Waits until there is something to do: only a message, a commit or the time can make work.
    async fn wait(&mut self, busy: Option<Busy>) -> Option<Busy> {
        // The clock hears of the next due time before it hears that we are idle.
        let counts = self.node.counts_due().filter(|_| self.clock.wakes_for_statistics());
        let next = self.node.next_due().into_iter().chain(counts).min();
        let next = next.map(|time| self.clock.sleep_until(time));
        drop(busy);
        let moment = async move {
            match next {
                Some(moment) => moment.await,
                None => std::future::pending().await,
            }
        };
        let committed = poll_fn(|context| poll_commits(&mut self.commits, context));
        // A store in memory is nobody else's, and one with one owner wants nothing of it: nothing
        // is ever heard of others there.
        let others = heard(&mut self.changes);
        let assignment = heard(&mut self.assignment);
        tokio::select! {
            biased;
            written = committed => {
                let busy = self.clock.busy(&"the engine");
                self.batch_answered(written).await;
                Some(busy)
            }
            envelope = self.inbox.recv() => Some(self.take(envelope?)),
            busy = moment => Some(busy),
            () = others => Some(self.clock.busy(&"the engine")),
            () = assignment => Some(self.clock.busy(&"the engine")),
        }
    }

    /// Does what is to be done.
    fn do_outputs(&mut self) {
        for output in self.node.outputs() {
            match output {
                Output::AskStore { request, after, stamp } => self.ask_store(request, after, stamp),
                Output::Commit { lane, batch, patient } => self.write(lane, batch, patient),
                Output::TryOwn { node, after } => self.try_own(node, after),
                Output::StepDown => self.give_right_back(),
                Output::Turn { turn, stamp } => self.take_turn_elsewhere(*turn, stamp),
                Output::StartAttempt(start) => self.start_attempt(*start),
                Output::OrderAttempt { token, order } => self.beside.order(token, order),
                Output::Answer(answer) => self.replies.hand_over(answer),
                Output::Changed(uid) => self.watchers.changed(uid),
                Output::AnythingChanged => self.watchers.all_changed(),
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
    fn ask_store(&self, request: StoreRequest, after: Duration, stamp: Option<Stamp>) {
        let (store, clock) = (self.store.clone(), self.clock.clone());
        let (log, mailbox) = (self.outage_log.clone(), self.mailbox.stamped(stamp));
        let waiting = Waiting::new(&*clock, after, "a read");
        tokio::spawn(async move {
            let mut busy = Some(waiting.over().await);
            if mailbox.is_closed() {
                return;
            }
            let (began, many) = (clock.elapsed(), matches!(request, StoreRequest::Closed { .. }));
            let input = request.ask(&*store, &log).await;
            let took = clock.elapsed().saturating_sub(began);
            // Waiting for ten thousand instances must not keep a core busy.
            if many && took > LONG_LOOK {
                let moment = clock.sleep(took * 4);
                drop(busy.take());
                busy = Some(moment.await);
            }
            input.into_iter().for_each(|input| mailbox.send(input));
            drop(busy);
        });
    }

    /// Has a turn taken on the thread of whoever interprets its workflow.
    fn take_turn_elsewhere(&self, turn: AwayTurn, stamp: Stamp) {
        let mailbox = self.mailbox.stamped(Some(stamp));
        let busy = self.clock.busy(&"a turn that is taken elsewhere");
        let thread = turn.thread();
        thread.take(in_slices(turn, move |turned| {
            mailbox.send(Input::Turned(Box::new(turned)));
            drop(busy);
        }));
    }

    /// Sends steps to the store. They are on their way when the future is polled.
    fn write(&mut self, lane: usize, batch: Batch, patient: bool) {
        let (store, clock) = (self.store.clone(), self.clock.clone());
        let log = self.outage_log.clone();
        let Batch { steps, after } = batch;
        let rows: usize = steps.iter().map(Step::rows).sum();
        let span = tracing::debug_span!("commit", steps = steps.len(), rows);
        // Busy from now on, and not only once the future is polled.
        let waiting = Waiting::new(&*clock, after, "a commit");
        let given_back = self.given_back.clone();
        let tenure = given_back.load(Ordering::Relaxed);
        let commit = async move {
            let busy = waiting.over().await;
            if given_back.load(Ordering::Relaxed) != tenure {
                return (Err(resurgam_store::Error::fenced("this node has stepped down")), busy);
            }
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
    fn try_own(&self, node: resurgam_store::Node, after: Duration) {
        let (store, clock, mailbox) =
            (self.store.clone(), self.clock.clone(), self.mailbox.clone());
        let right = self.right.clone();
        let waiting = Waiting::new(&*clock, after, "a node that asks to work");
        tokio::spawn(async move {
            let busy = waiting.over().await;
            if mailbox.is_closed() {
                return;
            }
            mailbox.send(Input::Role(match store.try_own(node).await {
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
        // Answers to what was asked before may still come: numbers are not used again.
        self.beside = Beside { asked: self.beside.asked, ..Beside::default() };
        self.owns.send_replace(false);
        self.given_back.fetch_add(1, Ordering::Relaxed);
        drop(self.right.lock().unwrap_or_else(PoisonError::into_inner).take());
        let (store, mailbox) = (self.store.clone(), self.mailbox.clone());
        let busy = self.clock.busy(&"a node that steps down");
        tokio::spawn(async move {
            if let Err(error) = store.disown().await {
                tracing::warn!("step down: {error}");
            }
            mailbox.send(Input::SteppedDown);
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
            let swept = sweep(&*store, &mut pace, retention, now).await;
            mailbox.send(Input::Swept(swept));
        });
        self.sweeping = Some(EndsWithIt(sweep));
    }

    /// Stores what was counted of attempts, when it is time. Nobody waits for it, and what cannot
    /// be stored is lost: these are statistics.
    fn store_counts(&mut self) {
        let Some(rows) = self.node.due_counts().filter(|rows| !rows.is_empty()) else { return };
        let (store, now) = (self.store.clone(), self.clock.now());
        let busy = self.clock.busy(&"statistics");
        let counting = tokio::spawn(async move {
            add_counts(&*store, rows, now).await;
            drop(busy);
        });
        self.counting = Some(EndsWithIt(counting));
    }

    /// Stores what was counted last, unless the store makes people wait for it.
    async fn store_last_counts(mut self) {
        let rows = self.node.counts();
        if rows.is_empty() {
            return;
        }
        let (store, now) = (self.store.clone(), self.clock.now());
        let added = add_counts(&*store, rows, now);
        if tokio::time::timeout(LONGEST_END, added).await.is_err() {
            tracing::debug!("stopped without storing what was counted of attempts last");
        }
    }

    fn start_attempt(&mut self, start: AttemptStart) {
        let store = self.store.clone();
        let gate = Gate {
            is_open: Arc::new(move || store.may_begin()),
            assignment: self.assignment.clone(),
        };
        let spec = attempt::Spec {
            max_payload: self.max_payload,
            grace: self.grace,
            states: self.states.clone(),
            gate,
            start,
        };
        let token = spec.start.token;
        let running = attempt::begin(spec, self.clock.clone(), self.mailbox.clone());
        self.beside.attempts.insert(token, running);
    }

    fn interrupt_attempt(&mut self, call: CallKey, token: u64) {
        let Some(running) = self.beside.attempts.remove(&token) else { return };
        let began = !running.withdraw();
        let heartbeat = running.cut();
        self.mailbox.send(Input::AttemptInterrupted { call, token, began, heartbeat });
    }

    fn run_transaction(&mut self, transaction: Transaction) {
        let Transaction { ask, completed } = transaction;
        let Some(kept) = self.beside.asks.get(&ask.ask) else { return };
        let (run, most) = (ask.call.run, self.max_payload);
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
            mailbox.send(Input::Transacted { ask, answer });
            drop(busy);
        });
        self.beside.transactions.insert(ask.ask, EndsWithIt(task));
    }

    fn ask_again(&self, ask: TransactionRequest, after: Duration) {
        let waiting = Waiting::new(&*self.clock, after, "a transaction");
        let mailbox = self.mailbox.clone();
        tokio::spawn(async move {
            let busy = waiting.over().await;
            mailbox.send(Input::Transact(ask));
            drop(busy);
        });
    }
}

/// Adds what was counted of attempts to what is stored.
async fn add_counts(store: &dyn Store, rows: Vec<PressureRow>, now: Timestamp) {
    let forget_before = now.saturating_sub(COUNTS_STAY);
    if let Err(error) = store.add_pressure(rows.into(), forget_before).await {
        tracing::debug!("left out what was counted of attempts: {error}");
    }
}

/// A batch that is with the store.
type InFlight = Pin<Box<dyn Future<Output = (Result<Vec<StepResult>>, Busy)> + Send>>;

/// The store's answer to a batch.
struct Written {
    lane: usize,
    answer: Result<Vec<StepResult>>,
    /// Work is under way until the answer is taken notice of.
    busy: Busy,
}

/// Lets the batches get on that are with the store: nothing is sent before the first look.
fn poll_commits(commits: &mut [Option<InFlight>], context: &mut Context<'_>) -> Poll<Written> {
    for (lane, slot) in commits.iter_mut().enumerate() {
        let Some(commit) = slot else { continue };
        if let Poll::Ready((answer, busy)) = commit.as_mut().poll(context) {
            *slot = None;
            return Poll::Ready(Written { lane, answer, busy });
        }
    }
    Poll::Pending
}

/// A turn for the thread that takes it. The replay of a long history can be taken in slices.
fn in_slices(turn: AwayTurn, done: impl FnOnce(Turned) + Send + 'static) -> PendingTurn {
    PendingTurn::in_slices(move |more| match turn.take_while(more) {
        ControlFlow::Break(turned) => {
            done(turned);
            None
        }
        ControlFlow::Continue(rest) => Some(in_slices(rest, done)),
    })
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
struct Beside {
    /// Attempts that have begun, by the token of their claim.
    attempts: BTreeMap<u64, Running>,
    /// What attempts have asked for and wait for.
    asks: BTreeMap<u64, UserTransaction>,
    asked: u64,
    /// Transactions that are with the store.
    transactions: BTreeMap<u64, EndsWithIt>,
}

impl Beside {
    /// An attempt has reported. One that lingers is kept, to be told things.
    fn attempt_ended(&mut self, token: u64, end: &AttemptEnd) {
        if !end.lingers
            && let Some(running) = self.attempts.remove(&token)
        {
            running.leave();
        }
    }

    /// Keeps what an attempt asks for until it is answered.
    fn keep_ask(&mut self, ask: UserTransaction) -> TransactionRequest {
        self.asked += 1;
        let (call, token) = (ask.call, ask.token);
        self.asks.insert(self.asked, ask);
        TransactionRequest { ask: self.asked, call, token, wait: FIRST_WAIT }
    }

    /// The store has answered about a transaction.
    fn transaction_answered(&mut self, ask: TransactionRequest) {
        self.transactions.remove(&ask.ask);
    }

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
pub(crate) struct UserTransaction {
    call: CallKey,
    token: u64,
    work: UserWork,
    reply: oneshot::Sender<(Failure, Busy)>,
}

impl UserTransaction {
    /// Asks for a transaction. The answer is why there was none; without one, it is recorded.
    pub(crate) fn new(
        call: CallKey,
        token: u64,
        work: UserWork,
    ) -> (Self, oneshot::Receiver<(Failure, Busy)>) {
        let (reply, answer) = oneshot::channel();
        (UserTransaction { call, token, work, reply }, answer)
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

impl fmt::Debug for UserTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a transaction of call {}", self.call)
    }
}

/// The right to work, from when the store has given it.
type Right = Arc<Mutex<Option<Ownership>>>;

/// A task that ends with the engine, as in a crash.
#[derive(Debug)]
struct EndsWithIt(JoinHandle<()>);

impl Drop for EndsWithIt {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Ready when there is something new, which is still to be looked at then.
async fn heard<T>(news: &mut watch::Receiver<T>) {
    if news.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
    news.mark_changed();
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Engine").field(&self.node).finish()
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
