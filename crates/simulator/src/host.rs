//! One process: a node, and what its driver would keep for it.
//!
//! The world carries out what the node wants (`world.rs`); here is what the process has in memory.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use resurgam_core::gate::Gate;
use resurgam_core::{CallKey, Timestamp, Uid};
use resurgam_store::rows::{Heartbeat, InstanceRow};
use resurgam_store::{Assignment, Own, Owning, Result, StepResult, Store};
use resurgam_worker::node::{At, AttemptStart, Facts, Input, Node, RoleAnswer, Stamp};
use resurgam_worker::{Options, Retention};
use tokio::sync::watch;

use crate::dependencies;
use crate::program::{Call, Try, call_of, registry};
use crate::store::SimulatedStore;
use crate::wire::Wire;

/// What a process is started with.
#[derive(Clone, Debug)]
pub(crate) struct Role {
    /// Whether it knows the new code, too.
    pub(crate) is_new: bool,
    /// Whether it serves the queue that not every process serves.
    pub(crate) serves_others: bool,
    /// How many attempts it runs at once.
    pub(crate) slots: usize,
    /// How many runs it keeps in memory while nothing happens to them.
    pub(crate) hot_runs: usize,
    /// How far ahead what is due is kept in memory.
    pub(crate) horizon: Duration,
    /// Whether it works, or only asks others to.
    pub(crate) works: bool,
    /// Whether turns are taken on another thread, which may be late.
    pub(crate) turns_elsewhere: bool,
    /// Whether attempts outlive their process, as those of remote workers do.
    pub(crate) outlives: bool,
    /// How long closed instances stay.
    pub(crate) stays: Option<Duration>,
    /// The gates that its code names.
    pub(crate) gates: Vec<Gate>,
}

/// A process.
pub(crate) struct Host {
    /// Tells this process from those that ran in its place before.
    pub(crate) life: u64,
    /// The node.
    pub(crate) node: Node,
    /// Its store.
    pub(crate) store: Arc<SimulatedStore>,
    /// What it waits for.
    pub(crate) wire: Wire,
    /// What arrived and was not looked at.
    pub(crate) inbox: VecDeque<Arrived>,
    /// Attempts that it runs, by the token of their claim.
    pub(crate) attempts: BTreeMap<u64, Attempt>,
    /// Transactions that attempts have asked for, by number: the token of the attempt.
    pub(crate) asks: BTreeMap<u64, u64>,
    /// How many attempts asked for a transaction.
    pub(crate) asked: u64,
    /// It stands still until then.
    pub(crate) paused_until: Option<Duration>,
    /// The database went back in time, and it has not noticed.
    pub(crate) is_unaware: bool,
    /// Since when nothing keeps it from hearing what others have decided, if something did.
    pub(crate) hears_since: Option<Duration>,
    /// When it is going to look at the time, if it is.
    pub(crate) wakes_at: Option<Duration>,
    /// What it waits for while it sleeps, unless shards move.
    pub(crate) nap: Option<u64>,
    /// How often it gave the right to work back.
    pub(crate) given_back: Arc<AtomicU64>,
    /// It is going to look at what arrived.
    pub(crate) is_called: bool,
    /// What deletes closed instances, while that is done.
    pub(crate) sweep: Option<u64>,
    /// Its clock, against that of the world.
    pub(crate) clock: HostClock,
    /// How long attempts may go on after their end.
    pub(crate) grace: Duration,
    tasks: BTreeMap<u64, Task>,
    awaited: BTreeMap<u64, u64>,
    begun: u64,
    changes: watch::Receiver<u64>,
    assignment: watch::Receiver<Assignment>,
}

/// Something that a process has to look at.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// An input for the node.
    Input(Box<Input>, Option<Stamp>),
    /// The store has answered a batch.
    Written {
        /// On which lane.
        lane: usize,
        /// What.
        answer: Result<Vec<StepResult>>,
    },
}

impl Arrived {
    /// An input that is worth something whatever happens meanwhile.
    pub(crate) fn input(input: Input) -> Self {
        Arrived::Input(Box::new(input), None)
    }
}

/// What a task of a process ends with.
pub(crate) enum Done {
    /// Something to look at.
    Arrived(Arrived),
    /// The right to work, or not.
    Role(Result<Owning>),
    /// All instances, for somebody who wanted to see them.
    Listed(Result<Vec<InstanceRow>>, Look),
    /// Nothing.
    Nothing,
}

/// What somebody expects who lists all instances.
pub(crate) struct Look {
    /// The instances whose start had been acknowledged.
    pub(crate) expected: Vec<(String, Uid)>,
    /// How often the database had been set back.
    pub(crate) set_backs: u64,
}

type Task = Pin<Box<dyn Future<Output = Done> + Send>>;

/// An attempt that a process runs.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// Its call.
    pub(crate) call: CallKey,
    /// Which attempt of it.
    pub(crate) number: u32,
    /// Of the calls of its program.
    pub(crate) id: u32,
    /// The dependency that it goes to.
    pub(crate) dependency: Option<usize>,
    /// What it does.
    pub(crate) script: Try,
    /// Whether its code has begun.
    pub(crate) begun: bool,
    /// A process before this one has begun it.
    pub(crate) resumed: bool,
    /// Whether it was told to end.
    pub(crate) told: bool,
    /// When its grace period is over, once it is to end.
    pub(crate) ends_by: Option<Duration>,
    /// Whether it has reported that its time is up.
    pub(crate) lingers: bool,
    /// What it told last.
    pub(crate) heartbeat: Option<Heartbeat>,
    /// When a heartbeat of it was last sent on.
    pub(crate) sent_at: Option<Duration>,
    /// The least time between two of those.
    pub(crate) throttle: Duration,
}

impl Attempt {
    /// Its code works, and its call waits for it: it has a slot.
    pub(crate) fn works(&self) -> bool {
        self.begun && !self.told && !self.lingers
    }
}

/// The clock of a process. On a file it is the machine's wall clock; on a server it is the
/// database's, as it was heard last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostClock {
    /// How far it is ahead, in milliseconds.
    pub(crate) ahead: i64,
    /// How fast it goes wrong, in parts per million.
    pub(crate) drift: i64,
    /// Since when.
    pub(crate) since: Duration,
}

impl HostClock {
    /// What it says.
    pub(crate) fn now(&self, begin: Timestamp, world: Duration) -> Timestamp {
        let since = world.saturating_sub(self.since).as_millis() as i64;
        let millis = world.as_millis() as i64 + self.ahead + since * self.drift / 1_000_000;
        Timestamp::from_millis(begin.as_millis() + millis)
    }
}

impl Host {
    /// A process that has begun.
    pub(crate) fn new(
        (life, seed): (u64, u64),
        role: &Role,
        wire: Wire,
        store: SimulatedStore,
        now: Timestamp,
    ) -> Self {
        let store = Arc::new(store);
        let mut assignment = store.assignment();
        let facts = Facts {
            is_shared: store.is_shared(),
            lanes: resurgam_store::Commit::lanes(&*store),
            assignment: assignment.borrow_and_update().clone(),
        };
        let queues: Arc<[String]> = Arc::new([resurgam_core::command::DEFAULT_QUEUE.to_string()]);
        let options = Options {
            work: role.works,
            slots: role.slots,
            hot_runs: role.hot_runs,
            horizon: role.horizon,
            queues: (!role.serves_others).then_some(queues),
            bulk_page: 3,
            gates: dependencies::settings(&role.gates),
            retention: role.stays.map_or(Retention::default(), Retention::all),
            ..Options::default()
        };
        let grace = options.grace;
        let registry = Arc::new(registry(role.is_new, role.turns_elsewhere, role.outlives));
        let mut node = Node::new(registry, options, facts, seed, now);
        node.begin();
        Host {
            life,
            node,
            wire,
            inbox: VecDeque::new(),
            attempts: BTreeMap::new(),
            asks: BTreeMap::new(),
            asked: 0,
            paused_until: None,
            is_unaware: false,
            hears_since: None,
            wakes_at: None,
            nap: None,
            given_back: Arc::default(),
            is_called: false,
            sweep: None,
            clock: HostClock::default(),
            grace,
            tasks: BTreeMap::new(),
            awaited: BTreeMap::new(),
            begun: 0,
            changes: store.changes(),
            assignment,
            store,
        }
    }

    /// Begins something that waits for the database; its number. It is to be polled.
    pub(crate) fn spawn(&mut self, task: impl Future<Output = Done> + Send + 'static) -> u64 {
        self.begun += 1;
        self.tasks.insert(self.begun, Box::pin(task));
        self.begun
    }

    /// Lets a task get on; whether it is done. What it sent is on the wire.
    pub(crate) fn poll(&mut self, number: u64) -> Option<Done> {
        let task = self.tasks.get_mut(&number)?;
        match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => {
                self.tasks.remove(&number);
                Some(done)
            }
            Poll::Pending => None,
        }
    }

    /// A task waits for this.
    pub(crate) fn awaits(&mut self, task: u64, sent: u64) {
        self.awaited.insert(sent, task);
    }

    /// The task that waited for this.
    pub(crate) fn awaited(&mut self, sent: u64) -> Option<u64> {
        self.awaited.remove(&sent)
    }

    /// Everything that goes on beside the node ends, as when it steps down: attempts, and what
    /// deletes instances. Other tasks go on, for the answers that they bring are refused by their
    /// stamp.
    pub(crate) fn cut_all(&mut self) {
        self.attempts.clear();
        self.asks.clear();
        self.sweep.take().and_then(|sweep| self.tasks.remove(&sweep));
    }

    /// Looks whether somebody else has committed, and what the store wants of this node.
    pub(crate) fn hear_of_others(&mut self, at: At) -> bool {
        let mut heard = false;
        if self.changes.has_changed().unwrap_or(false) {
            self.changes.borrow_and_update();
            self.node.others_committed(at, self.store.is_overtaken());
            heard = true;
        }
        if self.assignment.has_changed().unwrap_or(false) {
            let assignment = self.assignment.borrow_and_update().clone();
            self.node.assignment(at, assignment);
            heard = true;
        }
        heard
    }

    /// The store's answer to who wants to work, as an input.
    pub(crate) fn role(answer: Result<Owning>) -> Input {
        Input::Role(match answer {
            Ok(Owning::Taken(right)) => Ok(RoleAnswer::Taken(right.shards().to_vec())),
            Ok(Owning::Held(owner)) => Ok(RoleAnswer::Held(owner)),
            Err(error) => Err(error),
        })
    }

    /// An attempt that is to begin, as its program has it.
    pub(crate) fn attempt(start: &AttemptStart) -> Attempt {
        let call: Option<Call> = call_of(&start.input);
        let nothing = Try { takes: 1, ends: crate::program::Ends::Well, beats: None, deaf: false };
        let silence = start.limits.silence;
        Attempt {
            call: start.call,
            number: start.number,
            id: call.as_ref().map_or(0, |call| call.id),
            dependency: call.as_ref().and_then(|call| call.dependency),
            script: call.map_or(nothing, |call| call.attempt(start.number)),
            begun: false,
            resumed: start.resumed,
            told: false,
            ends_by: None,
            lingers: false,
            heartbeat: None,
            sent_at: None,
            throttle: silence.map_or(Duration::from_secs(30), |timeout| timeout / 5 * 4),
        }
    }

    /// The store, as reads want it.
    pub(crate) fn reader(&self) -> Arc<dyn Store> {
        self.store.clone()
    }
}
