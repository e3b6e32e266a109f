//! The loop that owns everything in memory.
//!
//! The way of a step, and where it is written:
//!
//! 1. A request starts or wakes a run (`request.rs`), or an attempt ends (`ended.rs`): news.
//! 2. The run takes a turn for each piece of news (`run.rs`); what the turns ask for becomes one
//!    [`Step`](resurgam_store::Step), with effects that must wait until it is durable
//!    (`record.rs`).
//! 3. The committer (`commit.rs`) takes every step that is ready (`outbox.rs`), writes them in one
//!    transaction, and hands them back. It never waits to fill a batch.
//! 4. Then the effects happen (`effect.rs`): attempts begin, callers get their answer.
//!
//! Tasks and timers that are due soon are kept by time (`due.rs`); the rest stays in the store. A
//! task that is due waits for a slot (`slots.rs`), but not for ever (`deadline.rs`).
//! Runs and tasks that are not in memory are loaded when something happens to them (`load.rs`,
//! `revive.rs`).
//!
//! Schedules fire (`schedule.rs`), rows of the inbox are routed (`inbox.rs`), and what is closed
//! and old is deleted (`retention.rs`).
//! What fails is logged (`logging.rs`).
//! Attempts that write to the user's own tables are in `transact.rs`; those that go on for a while
//! after they are over for their call, in `lingering.rs`.
//! The engine asks for everything that is not in memory, and for everything that is to be done, by
//! outputs (`output.rs`, reads in `read.rs`); the driver (`driver.rs`) carries them out.
//! All this a node does for the shards that it holds (`shards.rs`); whether it works at all, and
//! what those do who do not, is in `own.rs`. An attempt can outlast that its node holds the shard;
//! then it reports by message (`report.rs`). So do those of queues that a holder does not serve
//! (`shared.rs`). What people are told of a store that does not answer is in `outage.rs`.
//!
//! While a step of a run is not yet durable, the run takes no further turn and stays in memory.

mod call;
mod commit;
mod deadline;
mod driver;
mod due;
mod effect;
mod ended;
mod inbox;
mod later;
mod lingering;
mod load;
mod logging;
mod looking;
mod message;
mod next;
mod outage;
mod outbox;
mod output;
mod own;
mod read;
mod record;
mod report;
mod request;
mod retention;
mod revive;
mod run;
mod schedule;
mod shards;
mod shared;
mod slots;
mod stop;
mod story;
mod transact;
mod unread;
mod wide;
mod writing;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use resurgam_core::{CallKey, Shard, Timestamp, Uid};
use resurgam_sdk::{Registry, States};
use resurgam_store::outage::OutageLog;
use resurgam_store::rows::{
    DueDeadline, DueMessage, DueTask, Heartbeat, InstanceRow, MessageRow, RunRecord, TaskRecord,
    TaskRow,
};
use resurgam_store::{DueSchedules, InboxRow, ScheduleRecord, Store};
use tokio::sync::{mpsc, watch};

use crate::clock::{Busy, Clock};
use crate::handle::Handle;
use crate::options::Options;
use crate::policy::Policies;
use crate::random::Random;
use call::HotCall;

use deadline::Outages;
pub(crate) use driver::Ask;
use driver::{Written, poll_commits};
use due::Due;
pub(crate) use ended::AttemptEnd;
use inbox::Routing;
use lingering::Lingering;
use looking::Watched;
use outbox::Outbox;
pub(crate) use output::AttemptStart;
use output::{AskFor, Output};
use own::{Hearing, Role};
use read::Read;
use report::Reports;
pub(crate) use request::{Reply, Request};
use retention::Keeper;
use revive::Tries;
use run::{Asleep, HotRun};
use schedule::Calendar;
use shards::Shards;
use shared::Leftovers;
use slots::{Slot, Slots};
use stop::Stopping;
use transact::Transactions;

/// How many messages are taken before the loop looks at the clock and the committer again.
const MESSAGES_AT_ONCE: usize = 256;

/// Runs workflows and activities on a store.
pub struct Engine {
    store: Arc<dyn Store>,
    registry: Arc<Registry>,
    states: States,
    clock: Arc<dyn Clock>,
    options: Options,
    /// The time of what is being handled.
    now: Timestamp,
    random: Random,
    node: String,
    mailbox: Mailbox,
    inbox: mpsc::UnboundedReceiver<Envelope>,
    policies: Policies,
    runs: BTreeMap<Uid, HotRun>,
    ids: BTreeMap<String, Uid>,
    calls: BTreeMap<CallKey, HotCall>,
    transactions: Transactions,
    due: Due,
    slots: Slots,
    /// The tasks that are being read.
    loading: BTreeMap<CallKey, load::TaskRead>,
    /// The slots of plain functions that have not returned, by the token of their attempt.
    threads: BTreeMap<u64, Slot>,
    lingering: Lingering,
    outages: Outages,
    /// Tells people when the store cannot be used.
    outage_log: Arc<OutageLog>,
    /// What was logged lately about attempts, calls and runs that failed.
    lines: logging::Lines,
    outbox: Outbox,
    waiters: BTreeMap<Uid, Vec<Reply<crate::handle::Outcome>>>,
    /// Instances that somebody looks at.
    watched: Watched,
    /// Runs that are not in memory and have news, or are being read.
    asleep: BTreeMap<Uid, Asleep>,
    /// Runs that are blocked, or wait for a process that knows their workflow.
    blocked: BTreeMap<Uid, Tries>,
    /// Workflows that people were told this process does not know.
    unknown: BTreeSet<String>,
    stopping: Option<Stopping>,
    role: Role,
    /// People were told who works instead of this node.
    knows_owner: bool,
    /// Tells the handles whether this node works.
    owns: watch::Sender<bool>,
    /// Changes when somebody else has committed.
    changes: watch::Receiver<u64>,
    /// Messages of others are being read.
    messages_heard: Hearing,
    /// It is being read which instances are closed.
    ends_heard: Hearing,
    /// How often the role has changed: what was read before that is worth nothing.
    tenure: u64,
    shards: Shards,
    reports: Reports,
    leftovers: Leftovers,
    /// Claims of nodes that are gone are being read.
    claims: load::Claims,
    early: Early,
    calendar: Calendar,
    routing: Routing,
    keeper: Keeper,
    /// The right to work, while this node has it.
    right: driver::Right,
    sweeping: Option<driver::EndsWithIt>,
    beside: driver::Beside,
    commits: Vec<Option<driver::InFlight>>,
    /// What is to be done about all this.
    outputs: Vec<Output>,
}

/// What was asked before it was known whether this node works.
#[derive(Debug, Default)]
struct Early {
    requests: Vec<Request>,
    settled: Vec<Reply<()>>,
}

/// Something for the loop to take notice of.
#[derive(Debug)]
pub(crate) enum Message {
    /// Somebody asks for something.
    Request(Request),
    /// An attempt ended.
    AttemptEnded { call: CallKey, token: u64, end: AttemptEnd },
    /// An attempt was cut short by a stop, or kept from beginning.
    AttemptInterrupted { call: CallKey, token: u64, began: bool, heartbeat: Option<Heartbeat> },
    /// An attempt asks for a transaction.
    Transact(Ask),
    /// An attempt asks again for a transaction that the store could not run.
    TransactAgain(AskFor),
    /// The store ran a transaction.
    Transacted { ask: AskFor, answer: resurgam_store::Result<resurgam_store::Transacted> },
    /// An attempt reports how far it has come.
    Heartbeat { call: CallKey, token: u64, heartbeat: Heartbeat },
    /// A plain function returned, whatever has become of its attempt.
    ThreadFree { token: u64 },
    /// A task that is due was read.
    TaskLoaded { call: CallKey, loaded: resurgam_store::Result<Option<Box<TaskRecord>>> },
    /// A run that has news was read.
    RunLoaded { uid: Uid, loaded: resurgam_store::Result<Option<Box<RunRecord>>> },
    /// What is due soon was read.
    Scanned { found: resurgam_store::Result<Scan> },
    /// Tasks that wait were read, whoever can run them.
    Waiting { found: resurgam_store::Result<Vec<DueTask>> },
    /// Claims of nodes that are gone were read.
    Abandoned { found: resurgam_store::Result<Vec<TaskRecord>> },
    /// A task was read whose outcome was lost in this process.
    OutcomeLost { found: Option<Box<TaskRecord>> },
    /// Shards are this node's.
    Taken(Vec<Shard>),
    /// Shards are no longer this node's.
    Released(Arc<[Shard]>),
    /// Tasks were read whose attempts run here for other nodes.
    Wanted { found: resurgam_store::Result<Vec<TaskRow>> },
    /// Tasks that others leave were claimed; when the next one is due.
    SharedClaimed {
        /// How many there could have been.
        asked: usize,
        claimed: resurgam_store::Result<(Vec<TaskRow>, Option<Timestamp>)>,
    },
    /// They were read.
    SharedLoaded { claimed: shared::Claimed },
    /// The store did not answer what is asked until it does.
    Unanswered { read: Box<Read>, error: resurgam_store::Error },
    /// It is known whether a call runs elsewhere that is given up.
    SharedSettled { settled: shared::Settled },
    /// Reports for an instance were read.
    ReportsRead { uid: Uid, found: Vec<report::Found> },
    /// Which runs could not go on was read, after this one.
    HeldUp { after: Option<Uid>, found: resurgam_store::Result<Vec<Uid>> },
    /// The store said whether this node works.
    Role(resurgam_store::Result<own::RoleAnswer>),
    /// This node is a client again.
    SteppedDown,
    /// Which instances have messages was read, because somebody else has committed.
    Heard { found: resurgam_store::Result<Vec<DueMessage>> },
    /// The messages of a run in memory were read.
    MessagesRead { uid: Uid, read: u64, found: resurgam_store::Result<Vec<MessageRow>> },
    /// Which of the instances that somebody waits for are closed was read.
    Ends { found: resurgam_store::Result<(Vec<InstanceRow>, Vec<Uid>)> },
    /// There turned out to be no such instance.
    NoInstance { uid: Uid },
    /// An instance turned out to be closed.
    Finished { uid: Uid, outcome: crate::handle::Outcome },
    /// Which schedules are due was read.
    SchedulesDue { found: resurgam_store::Result<DueSchedules> },
    /// Schedules that wait for something else than the time were read.
    SchedulesWaiting { found: Vec<ScheduleRecord> },
    /// A schedule was read whose instance closed.
    ScheduleRead(Box<ScheduleRecord>),
    /// What others have inserted was read.
    InboxRead { found: resurgam_store::Result<Vec<InboxRow>> },
    /// It was read who has the id that a row of the inbox names.
    Addressee { row: InboxRow, found: Result<inbox::Addressee, String> },
    /// Closed instances that are old enough are deleted; when the next one is.
    Swept { next: resurgam_store::Result<Option<Timestamp>> },
}

/// What is due soon.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) tasks: Vec<DueTask>,
    pub(crate) deadlines: Vec<DueDeadline>,
    pub(crate) messages: Vec<DueMessage>,
}

/// A message, and the proof that work is under way until it is taken.
#[derive(Debug)]
pub(crate) struct Envelope {
    message: Message,
    busy: Busy,
    /// When it was read, for what is worth nothing in another tenure.
    stamp: Option<Stamp>,
}

/// When something was read: how often the role had changed, and the shard of what was read had been
/// gained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    tenure: u64,
    shard: Option<(Shard, u64)>,
}

/// Where messages to the loop go.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox {
    sender: mpsc::UnboundedSender<Envelope>,
    clock: Arc<dyn Clock>,
    stamp: Option<Stamp>,
}

impl Mailbox {
    /// A mailbox, and where its messages come out.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> (Self, mpsc::UnboundedReceiver<Envelope>) {
        let (sender, inbox) = mpsc::unbounded_channel();
        (Mailbox { sender, clock, stamp: None }, inbox)
    }

    /// Hands over a message. When the loop is gone, whoever waits for an answer hears of it
    /// because the message is dropped.
    pub(crate) fn send(&self, message: Message) {
        let busy = self.clock.busy(&"a message to the engine");
        let stamp = self.stamp;
        let _loop_is_gone = self.sender.send(Envelope { message, busy, stamp });
    }

    /// The same, for what is worth nothing in another tenure.
    fn stamped(&self, stamp: Option<Stamp>) -> Self {
        Mailbox { stamp, ..self.clone() }
    }

    /// True when the loop is gone: nobody wants to know anything any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
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
        let (now, mut random) = (clock.now(), Random::from_entropy());
        let engine = Engine {
            due: Due::new(options.horizon, now),
            slots: Slots::new(options.slots, registry.limits(), options.queue_slots.clone()),
            loading: BTreeMap::new(),
            threads: BTreeMap::new(),
            lingering: Lingering::default(),
            outages: Outages::default(),
            outage_log: store.outage_log().unwrap_or_default(),
            lines: logging::Lines::default(),
            policies: Policies::new(options.retry.clone()),
            node: random.name(now),
            now,
            random,
            changes: store.changes(),
            shards: Shards::new(store.standing()),
            outbox: Outbox::new(store.lanes()),
            store,
            registry,
            states,
            clock,
            options,
            mailbox,
            inbox,
            runs: BTreeMap::new(),
            ids: BTreeMap::new(),
            calls: BTreeMap::new(),
            transactions: Transactions::default(),
            waiters: BTreeMap::new(),
            watched: Watched::default(),
            asleep: BTreeMap::new(),
            blocked: BTreeMap::new(),
            unknown: BTreeSet::new(),
            stopping: None,
            role: Role::Asking,
            knows_owner: false,
            right: Arc::default(),
            sweeping: None,
            beside: driver::Beside::default(),
            commits: Vec::new(),
            owns,
            messages_heard: Hearing::default(),
            ends_heard: Hearing::default(),
            tenure: 0,
            reports: Reports::default(),
            leftovers: Leftovers::default(),
            claims: load::Claims::default(),
            early: Early::default(),
            calendar: Calendar::default(),
            routing: Routing::default(),
            keeper: Keeper::default(),
            outputs: Vec::new(),
        };
        (engine, handle)
    }

    /// Works until it is told to stop, or its database was removed.
    pub async fn run(mut self) {
        let mut busy = Some(self.clock.busy(&"the engine"));
        self.ask_to_own();
        loop {
            self.now = self.clock.now();
            self.hear_of_others();
            if self.is_without_store() {
                return self.log_left_out_at_end();
            }
            self.follow_standing();
            self.take_messages();
            self.wake_what_is_due();
            self.wake_schedules();
            self.wake_inbox();
            self.wake_retention();
            self.wake_reports();
            self.wake_shared();
            self.settle_shards();
            self.log_left_out();
            self.evict();
            self.commit();
            if self.is_done() {
                return;
            }
            self.do_outputs();
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

    /// A batch is durable: the next one is on its way before the effects of this one happen, so
    /// that the disk does not wait for them.
    async fn batch_answered(&mut self, written: Written) {
        let mut written = Some(written);
        while let Some(Written { lane, answer, busy }) = written.take() {
            self.now = self.clock.now();
            let done = self.answered(lane, answer);
            self.commit();
            self.do_outputs();
            if let Some((since, done)) = done {
                written = self.poll_commit().await;
                self.committed(done, since);
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

    fn take_messages(&mut self) {
        for _ in 0..MESSAGES_AT_ONCE {
            let Ok(envelope) = self.inbox.try_recv() else { return };
            self.now = self.clock.now();
            drop(self.take(envelope));
        }
    }

    /// Takes notice of a message, unless it was read in another tenure.
    fn take(&mut self, envelope: Envelope) -> Busy {
        let Envelope { message, busy, stamp } = envelope;
        if stamp.is_none_or(|stamp| self.is_present(stamp)) {
            self.note_answer(&message);
            self.take_message(message, stamp);
        }
        busy
    }

    /// True when nothing has changed hands since something was read, nor is about to: what leaves
    /// is brought to rest, and must not be woken by a read that began before.
    fn is_present(&self, stamp: Stamp) -> bool {
        let of_shard =
            |(shard, tenure)| self.shards.owns(shard) && self.shards.tenure(shard) == tenure;
        stamp.tenure == self.tenure && stamp.shard.is_none_or(of_shard)
    }

    fn take_message(&mut self, message: Message, stamp: Option<Stamp>) {
        match message {
            Message::Request(request) => self.asked(request),
            Message::Role(answer) => self.role_known(answer),
            Message::SteppedDown => self.ask_to_own(),
            Message::Heard { found } => self.heard(found),
            Message::MessagesRead { uid, read, found } => self.messages_read(uid, read, found),
            Message::Ends { found } => self.ends_read(found),
            Message::AttemptEnded { call, token, end } => {
                self.forget_attempt(token, &end);
                self.attempt_ended(call, token, end);
            }
            Message::AttemptInterrupted { call, token, began, heartbeat } => {
                self.attempt_interrupted(call, token, began, heartbeat);
            }
            Message::Transact(ask) => {
                let ask = self.keep_ask(ask);
                self.transact(ask);
            }
            Message::TransactAgain(ask) => self.transact(ask),
            Message::Transacted { ask, answer } => {
                self.forget_transaction(ask);
                self.transacted(ask, answer);
            }
            Message::Heartbeat { call, token, heartbeat } => {
                self.attempt_reports(call, token, heartbeat);
            }
            Message::ThreadFree { token } => self.thread_free(token),
            Message::TaskLoaded { call, loaded } => self.task_loaded(call, loaded),
            Message::RunLoaded { uid, loaded } => self.run_loaded(uid, loaded),
            Message::Scanned { found } => self.scanned(found),
            Message::Waiting { found } => self.waiting_read(found),
            Message::Abandoned { found } => self.abandoned(found),
            Message::OutcomeLost { found } => {
                self.take_abandoned(found.into_iter().map(|task| *task));
            }
            Message::Taken(shards) => self.taken(&shards),
            Message::Released(shards) => self.released(&shards),
            Message::Wanted { found } => self.wanted(found),
            Message::SharedClaimed { asked, claimed } => self.shared_claimed(asked, claimed),
            Message::SharedLoaded { claimed } => self.shared_loaded(claimed),
            Message::Unanswered { read, error } => {
                tracing::debug!("read, again later: {error}");
                self.unanswered(*read, stamp);
            }
            Message::SharedSettled { settled } => self.shared_settled(settled),
            Message::ReportsRead { uid, found } => self.reports_read(uid, found),
            Message::HeldUp { after, found } => self.held_up(after, found),
            Message::NoInstance { uid } => self.no_instance(uid),
            Message::Finished { uid, outcome } => self.finished(uid, &outcome),
            Message::SchedulesDue { found } => self.schedules_due(found),
            Message::SchedulesWaiting { found } => self.schedules_waiting(found),
            Message::ScheduleRead(record) => self.schedule_read(*record),
            Message::InboxRead { found } => self.inbox_read(found),
            Message::Addressee { row, found } => self.addressee_found(row, found),
            Message::Swept { next } => self.swept(next),
        }
    }

    /// Waits until there is something to do: only a message, a commit or the time can make work.
    async fn wait(&mut self, busy: Option<Busy>) -> Option<Busy> {
        // The clock hears of the next due time before it hears that we are idle.
        let next = self.next_due().map(|time| self.clock.sleep_until(time));
        drop(busy);
        let moment = async move {
            match next {
                Some(moment) => moment.await,
                None => std::future::pending().await,
            }
        };
        let committed = poll_fn(|context| poll_commits(&mut self.commits, context));
        let others = async {
            // A store in memory is nobody else's: nothing is ever heard of others there.
            if self.changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            self.changes.mark_changed();
        };
        let standing = self.shards.changed();
        tokio::select! {
            biased;
            written = committed => {
                let busy = self.clock.busy(&"the engine");
                self.batch_answered(written).await;
                Some(busy)
            }
            envelope = self.inbox.recv() => {
                self.now = self.clock.now();
                Some(self.take(envelope?))
            }
            busy = moment => Some(busy),
            () = others => Some(self.clock.busy(&"the engine")),
            () = standing => Some(self.clock.busy(&"the engine")),
        }
    }

    /// The next time at which something is to be done.
    fn next_due(&self) -> Option<Timestamp> {
        let stop = self.stopping.as_ref().map(|stopping| stopping.until);
        // One that stops begins nothing new.
        let begins =
            [self.calendar.next(), self.routing.next(), self.keeper.next(), self.leftovers.next()];
        let begins = begins.into_iter().flatten().filter(|_| self.stopping.is_none());
        let due = self.due.next().into_iter().chain(begins).filter(|_| self.is_owner());
        due.chain(self.reports.next()).chain(self.lines.next()).chain(stop).min()
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("node", &self.node)
            .field("runs", &self.runs.len())
            .field("calls", &self.calls.len())
            .finish_non_exhaustive()
    }
}
