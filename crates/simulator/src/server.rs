//! The store of a process whose database is a server that several share.
//!
//! This does the asking, as the PostgreSQL store does with SQL; what it means is decided by the
//! same code as there: [`BatchSequence`] for commits whose answer was lost, [`Membership`] for who
//! is alive and who has which shards.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use resurgam_core::{CallKey, Shard, Timestamp};
use resurgam_store::fleet::{
    BatchFate, BatchSequence, Beat, Fence, LaneRow, Membership, NumberRefused, Observation,
    Positions, Rewinds, Rewound,
};
use resurgam_store::model::Writer;
use resurgam_store::rows::{MessageRow, Owner};
use resurgam_store::{Error, Node, Ownership, Owning, Result, Step, StepResult};

use crate::database::{Database, Lane, Numbered};
use crate::store::{SimulatedStore, lost};
use crate::wire::{Lost, Wire};

/// How long a node may be silent before others take it for dead.
pub(crate) const LEASE: Duration = Duration::from_secs(9);

/// How many batches of a process are written at a time.
const COMMIT_LANES: usize = 3;

/// How many lanes there are, those of transactions of attempts included.
const LANES: usize = 5;

/// How long to wait before asking again.
const AGAIN: Duration = Duration::from_millis(50);

/// How often others may be faster before the caller is told to come again.
const RACES: usize = 10;

/// An answer of a clock that took longer than this says too little.
const VAGUE: Duration = Duration::from_millis(500);

/// What a process keeps of its server.
pub(crate) struct Server {
    writer: String,
    state: Mutex<State>,
}

struct State {
    membership: Membership,
    fence: Option<Fence>,
    /// Whether rows of nodes and shards are being changed: one thing at a time.
    is_moving: bool,
    /// Nodes of this process that are to leave.
    leaving: Vec<String>,
    lanes: Vec<LaneState>,
    rewinds: Rewinds,
    /// What the clock of the database said, and when.
    heard: Option<(Duration, Timestamp)>,
}

#[derive(Default)]
struct LaneState {
    batches: BatchSequence,
    is_taken: bool,
    is_connected: bool,
}

impl State {
    /// Every lane may know where this one is.
    fn reached(&mut self, now: Duration, lane: usize) {
        let last = self.lanes[lane].batches.last();
        self.rewinds.reached(now, lane as i16, last);
    }
}

impl Server {
    /// What a process keeps, under a name that no other has.
    pub(crate) fn new(writer: String) -> Self {
        let lanes = (0..LANES).map(|_| LaneState::default()).collect();
        let state = State {
            membership: Membership::new(LEASE),
            fence: None,
            is_moving: false,
            leaving: Vec::new(),
            lanes,
            rewinds: Rewinds::default(),
            heard: None,
        };
        Server { writer, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many batches it takes at a time.
    pub(crate) fn lanes(&self) -> usize {
        COMMIT_LANES
    }

    /// The time by the clock of the database, once it was heard.
    pub(crate) fn time(&self, now: Duration, drift: i64) -> Option<Timestamp> {
        let (at, time) = self.state().heard?;
        let since = now.saturating_sub(at).as_millis() as i64;
        let millis = since + since * drift / 1_000_000;
        Some(Timestamp::from_millis(time.as_millis() + millis))
    }

    /// All connections to the database are gone.
    pub(crate) fn connections_broke(&self) {
        self.state().lanes.iter_mut().for_each(|lane| lane.is_connected = false);
    }

    /// Whether attempts may begin.
    pub(crate) fn may_begin(&self, now: Duration) -> bool {
        self.state().membership.may_begin(now)
    }

    // Commits.

    /// Writes a batch: first in the hope that nothing stands in its way, then with care.
    pub(crate) async fn commit(
        &self,
        store: &SimulatedStore,
        writer: Writer,
        batch: Arc<[Step]>,
    ) -> Result<Vec<StepResult>> {
        let lane = self.free_lane(&store.wire, 0..COMMIT_LANES).await;
        let results = self.commit_on(store, lane, writer, batch).await;
        self.state().lanes[lane].is_taken = false;
        results
    }

    async fn commit_on(
        &self,
        store: &SimulatedStore,
        lane: usize,
        writer: Writer,
        batch: Arc<[Step]>,
    ) -> Result<Vec<StepResult>> {
        let mut expected = vec![StepResult::Written; batch.len()];
        for _ in 0..RACES {
            let (by, steps, wanted) = (writer.clone(), batch.clone(), expected.clone());
            let commit = move |database: &mut Database, lane: &Lane, number| {
                let numbered = (lane, number);
                match database.commit_numbered(numbered, &by, &steps, |found| found == wanted)? {
                    Numbered::Results(found) => Ok(Some(found == wanted)),
                    Numbered::OutOfPlace => Ok(None),
                }
            };
            let node = match &writer {
                Writer::Node(fence) => Some(fence.node()),
                Writer::Anybody | Writer::Client => None,
            };
            if self.numbered(store, lane, node, "commit", commit).await? {
                return Ok(expected);
            }
            let (by, steps) = (writer.clone(), batch.clone());
            let look = move |database: &mut Database| database.commit(&by, &steps, |_| false);
            expected = store.change("look before a commit", look).await?;
        }
        Err(Error::transient("others keep writing the same instances"))
    }

    /// Ends a call in a transaction of its own.
    pub(crate) async fn transact(
        &self,
        store: &SimulatedStore,
        node: String,
        call: (CallKey, u64),
        message: Arc<MessageRow>,
    ) -> Result<bool> {
        let lane = self.free_lane(&store.wire, COMMIT_LANES..LANES).await;
        let transact = move |database: &mut Database, lane: &Lane, number| {
            let transact = |it: &mut Database| it.transact(&node, call, &message);
            database.change_numbered((lane, number), transact)
        };
        let is_done = self.numbered(store, lane, None, "transact", transact).await;
        self.state().lanes[lane].is_taken = false;
        is_done
    }

    /// Claims something. Who claims knows what before the last word is sent, and so also when the
    /// answer to that is lost.
    pub(crate) async fn claim<T: Send + 'static>(
        &self,
        store: &SimulatedStore,
        claim: impl Fn(&mut Database) -> Result<T> + Send + Sync + 'static,
        is_claimed: fn(&T) -> bool,
    ) -> Result<T> {
        let lane = self.free_lane(&store.wire, COMMIT_LANES..LANES).await;
        let known: Arc<Mutex<Option<T>>> = Arc::default();
        let (found, claim) = (known.clone(), Arc::new(claim));
        let job = move |database: &mut Database, lane: &Lane, number| {
            database.change_numbered((lane, number), |database| {
                let claimed = claim(database)?;
                let is_claimed = is_claimed(&claimed);
                *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(claimed);
                Ok(is_claimed)
            })
        };
        let is_done = self.numbered(store, lane, None, "claim", job).await;
        self.state().lanes[lane].is_taken = false;
        is_done?;
        let claimed = known.lock().unwrap_or_else(PoisonError::into_inner).take();
        claimed.ok_or_else(|| lost("claim"))
    }

    /// Does something on a lane under its next number, and finds out whether it is done when the
    /// answer was lost. The job says whether it did it, or that the number was not the next.
    async fn numbered(
        &self,
        store: &SimulatedStore,
        lane: usize,
        node: Option<&str>,
        what: &'static str,
        job: impl Fn(&mut Database, &Lane, i64) -> Result<Option<bool>> + Clone + Send + 'static,
    ) -> Result<bool> {
        for _ in 0..2 {
            self.ready(store, lane).await?;
            if node.is_some_and(|node| self.state().rewinds.refuses(node)) {
                return Err(Error::rewound("the database went back in time"));
            }
            let (number, key) = (self.state().lanes[lane].batches.last(), self.lane(lane));
            self.state().lanes[lane].batches.sent();
            let job = job.clone();
            let asked = move |database: &mut Database| {
                let found = database.number(&key);
                (job(database, &key, number), found)
            };
            let answer = store.wire.ask(what, true, asked).await;
            match answer {
                Ok((Ok(Some(is_done)), _)) => {
                    let mut state = self.state();
                    match is_done {
                        true => state.lanes[lane].batches.committed(store.wire.now()),
                        false => state.lanes[lane].batches.not_written(),
                    }
                    state.reached(store.wire.now(), lane);
                    return Ok(is_done);
                }
                Ok((Ok(None), found)) => return Err(self.number_refused(store, lane, found)),
                Ok((Err(error), _)) => {
                    self.state().lanes[lane].batches.not_written();
                    return Err(error);
                }
                Err(Lost) => {
                    self.state().lanes[lane].is_connected = false;
                    if self.settle(store, lane).await? == BatchFate::Written {
                        return Ok(true);
                    }
                }
            }
        }
        Err(lost(what))
    }

    fn lane(&self, lane: usize) -> Lane {
        (self.writer.clone(), lane as i16)
    }

    async fn free_lane(&self, wire: &Wire, lanes: std::ops::Range<usize>) -> usize {
        loop {
            let free = lanes.clone().find(|lane| !self.state().lanes[*lane].is_taken);
            if let Some(lane) = free {
                self.state().lanes[lane].is_taken = true;
                return lane;
            }
            wire.sleep(Duration::from_millis(1)).await;
        }
    }

    /// A lane that is where it was left.
    async fn ready(&self, store: &SimulatedStore, lane: usize) -> Result<()> {
        if self.state().lanes[lane].batches.is_in_doubt() {
            self.settle(store, lane).await?;
        }
        if self.state().lanes[lane].is_connected {
            return Ok(());
        }
        let writer = self.writer.clone();
        let look = move |database: &mut Database| Ok(database.numbers(&writer));
        let before = self.state().rewinds.positions();
        let numbers = store.change("look at a lane", look).await?;
        let is_own = |(other, _): &&(i16, i64)| *other == lane as i16;
        let found = numbers.iter().find(is_own).map(|(_, number)| *number);
        let now = store.wire.now();
        if self.state().rewinds.has_lost(now, &before, &numbers) {
            let last = self.state().lanes[lane].batches.last();
            return Err(self.rewound(now, lane, Rewound { last, found }));
        }
        let row = {
            let mut state = self.state();
            let rewinds = state.rewinds.told();
            state.lanes[lane].batches.looked(now, found, rewinds)
        };
        match row {
            Ok(LaneRow::InPlace) => {}
            Ok(LaneRow::Missing) => self.make_row(store, lane).await?,
            Ok(LaneRow::Adopted) => {
                let has_row = self.state().lanes[lane].batches.has_row();
                if !has_row {
                    self.make_row(store, lane).await?;
                }
            }
            Err(rewound) => return Err(self.rewound(now, lane, rewound)),
        }
        let mut state = self.state();
        state.lanes[lane].is_connected = true;
        state.reached(now, lane);
        Ok(())
    }

    async fn make_row(&self, store: &SimulatedStore, lane: usize) -> Result<()> {
        let (key, number) = (self.lane(lane), self.state().lanes[lane].batches.last());
        let make = move |database: &mut Database| {
            database.make_lane(key, number);
            Ok(())
        };
        store.change("make a lane", make).await?;
        self.state().lanes[lane].batches.row_made(store.wire.now());
        Ok(())
    }

    /// Finds out what became of what was sent, for as long as it takes.
    async fn settle(&self, store: &SimulatedStore, lane: usize) -> Result<BatchFate> {
        loop {
            let (key, number) = (self.lane(lane), self.state().lanes[lane].batches.last());
            let forestall = move |database: &mut Database| database.forestall(&key, number);
            if let Ok(found) = store.wire.ask("forestall", true, forestall).await {
                let now = store.wire.now();
                let fate = self.state().lanes[lane].batches.forestalled(now, found);
                let fate = fate.map_err(|rewound| self.rewound(now, lane, rewound))?;
                self.state().reached(now, lane);
                return Ok(fate);
            }
            store.wire.sleep(AGAIN).await;
        }
    }

    fn number_refused(&self, store: &SimulatedStore, lane: usize, found: Option<i64>) -> Error {
        let now = store.wire.now();
        let mut state = self.state();
        let rewinds = state.rewinds.told();
        state.lanes[lane].batches.not_written();
        state.lanes[lane].is_connected = false;
        let refused = state.lanes[lane].batches.number_refused(now, found, rewinds);
        drop(state);
        match refused {
            Ok(NumberRefused::InPlace | NumberRefused::RowRemoved) => {
                Error::transient("the row of the lane is gone")
            }
            Err(rewound) => self.rewound(now, lane, rewound),
        }
    }

    fn rewound(&self, now: Duration, lane: usize, rewound: Rewound) -> Error {
        let mut state = self.state();
        let rewinds = state.rewinds.tell();
        state.lanes[lane].batches.accept(now, rewound, rewinds);
        state.lanes[lane].is_connected = false;
        rewound.into()
    }

    // Nodes and shards.

    async fn moving(&self, wire: &Wire) {
        loop {
            let is_moving = std::mem::replace(&mut self.state().is_moving, true);
            if !is_moving {
                return;
            }
            wire.sleep(Duration::from_micros(500)).await;
        }
    }

    fn moved(&self) {
        self.state().is_moving = false;
    }

    fn is_node(&self, node: &str) -> bool {
        self.state().fence.as_ref().is_some_and(|fence| fence.node() == node)
    }

    /// Joins the nodes that share the work.
    pub(crate) async fn join(&self, store: &SimulatedStore, node: Node) -> Result<Owning> {
        self.moving(&store.wire).await;
        let name = node.name.clone();
        let joined = self.join_now(store, node).await;
        if joined.is_err() {
            self.state().leaving.push(name);
        }
        self.moved();
        joined
    }

    async fn join_now(&self, store: &SimulatedStore, node: Node) -> Result<Owning> {
        self.leave_now(store).await?;
        let present = self.state().membership.node().map(str::to_string);
        if let Some(node) = present {
            let since = Timestamp::EPOCH;
            let owner = Owner { node, pid: 1, program: "simulated".to_string(), since };
            return Ok(Owning::Held(owner));
        }
        let (name, leaves_tasks) = (node.name.clone(), node.queues.is_some());
        store.change("join", move |database| Ok(database.join(node))).await?;
        let asked = store.wire.now();
        let beating = name.clone();
        let (beaten, view) =
            store.change("beat", move |database| Ok(database.beat(&beating))).await?;
        let answered = store.wire.now();
        let fence = Fence::new(&name, []).leaving_tasks(leaves_tasks);
        self.fence(store, fence);
        store.overtaken.store(false, Ordering::Relaxed);
        let found = Observation { asked, answered, beaten, view: &view };
        let take = self.state().membership.joined(&name, found);
        self.hears(asked, answered, view.now);
        let shards = self.take_now(store, &name, &take).await?;
        self.stands(store);
        Ok(Owning::Taken(Ownership::new((), shards)))
    }

    /// Takes shards that are free; those that it got.
    pub(crate) async fn take(
        &self,
        store: &SimulatedStore,
        node: &str,
        shards: &[Shard],
    ) -> Result<Vec<Shard>> {
        self.moving(&store.wire).await;
        let fence = self.state().fence.clone().filter(|fence| fence.node() == node);
        let taken = match fence {
            None => Ok(Vec::new()),
            Some(fence) => {
                let (mut held, wanted): (Vec<Shard>, Vec<Shard>) =
                    shards.iter().partition(|shard| fence.has(**shard));
                let taken = self.take_now(store, fence.node(), &wanted).await;
                taken.map(|taken| {
                    held.extend(taken);
                    held
                })
            }
        };
        if taken.is_ok() && self.is_node(node) {
            self.state().membership.taken(shards);
            self.stands(store);
        }
        self.moved();
        taken
    }

    async fn take_now(
        &self,
        store: &SimulatedStore,
        node: &str,
        shards: &[Shard],
    ) -> Result<Vec<Shard>> {
        if shards.is_empty() {
            return Ok(Vec::new());
        }
        let (name, wanted) = (node.to_string(), shards.to_vec());
        let take = move |database: &mut Database| Ok(database.model.take(&name, wanted));
        let taken = store.change("take shards", take).await?;
        let fence = self.state().fence.as_ref().map(|fence| fence.with(taken.iter().copied()));
        if let Some(fence) = fence {
            self.fence(store, fence);
        }
        Ok(taken.into_iter().map(|(shard, _)| shard).collect())
    }

    /// Gives shards up.
    pub(crate) async fn release(
        &self,
        store: &SimulatedStore,
        node: &str,
        shards: &[Shard],
    ) -> Result<()> {
        self.moving(&store.wire).await;
        let fence = self.state().fence.clone().filter(|fence| fence.node() == node);
        let released = match fence {
            None => Ok(()),
            Some(fence) => {
                self.fence(store, fence.without(shards));
                let (name, given) = (fence.node().to_string(), shards.to_vec());
                let release = move |database: &mut Database| {
                    database.model.release(&name, given);
                    database.news.moves = true;
                    Ok(())
                };
                store.change("release shards", release).await
            }
        };
        if released.is_ok() && self.is_node(node) {
            self.state().membership.released(shards);
            self.stands(store);
        }
        self.moved();
        released
    }

    /// The node of this process leaves.
    pub(crate) async fn leave(&self, store: &SimulatedStore) {
        self.moving(&store.wire).await;
        let node = self.state().fence.as_ref().map(|fence| fence.node().to_string());
        self.state().leaving.extend(node);
        // Who cannot leave now is found dead.
        let _later = self.leave_now(store).await;
        self.moved();
    }

    async fn leave_now(&self, store: &SimulatedStore) -> Result<()> {
        loop {
            let Some(node) = self.state().leaving.last().cloned() else { return Ok(()) };
            let is_fenced = self.state().fence.as_ref().is_some_and(|fence| fence.node() == node);
            if is_fenced {
                self.fence(store, Fence::new(&node, []));
            }
            let name = node.clone();
            let leave = move |database: &mut Database| {
                database.leave(&name);
                Ok(())
            };
            store.change("leave", leave).await?;
            let mut state = self.state();
            state.leaving.retain(|other| *other != node);
            state.membership.left(&node);
        }
    }

    fn fence(&self, store: &SimulatedStore, fence: Fence) {
        *store.writer() = Writer::Node(fence.clone());
        let mut state = self.state();
        state.rewinds.works_as(fence.node());
        state.fence = Some(fence);
    }

    /// What the store wants of the node.
    fn stands(&self, store: &SimulatedStore) {
        let assignment = self.state().membership.assignment().clone();
        store.assignment.send_if_modified(|before| {
            let changed = *before != assignment;
            *before = assignment;
            changed
        });
    }

    fn hears(&self, asked: Duration, answered: Duration, time: Timestamp) {
        let took = answered.saturating_sub(asked);
        let mut state = self.state();
        if state.heard.is_none() || took <= VAGUE {
            state.heard = Some((asked + took / 2, time));
        }
    }

    /// Whether something is gone that a lane has written, or a lane has found that before.
    fn is_rewound(
        &self,
        node: &str,
        now: Duration,
        before: &Positions,
        found: &[(i16, i64)],
    ) -> bool {
        let mut state = self.state();
        let has_lost = state.rewinds.has_lost(now, before, found);
        if has_lost {
            state.rewinds.tell();
        }
        has_lost || state.rewinds.refuses(node)
    }

    /// One beat. False when it was the last.
    async fn beat(&self, store: &SimulatedStore, node: &str) -> bool {
        let fence = self.state().fence.clone().filter(|fence| fence.node() == node);
        let Some(fence) = fence else { return false };
        let (asked, name, writer) = (store.wire.now(), node.to_string(), self.writer.clone());
        let lanes = self.state().rewinds.positions();
        let beat = move |database: &mut Database| (database.beat(&name), database.numbers(&writer));
        let answer = store.wire.ask("beat", true, beat).await;
        let answered = store.wire.now();
        let Ok(((beaten, view), numbers)) = answer else {
            self.state().membership.note_may_begin(answered);
            self.stands(store);
            return true;
        };
        self.hears(asked, answered, view.now);
        if self.is_rewound(node, answered, &lanes, &numbers) {
            store.overtaken.store(true, Ordering::Relaxed);
            store.tell();
            return false;
        }
        let found = Observation { asked, answered, beaten, view: &view };
        let beat = self.state().membership.beaten(&fence, found);
        self.stands(store);
        match beat {
            Beat::Over => false,
            Beat::Overtaken => {
                store.overtaken.store(true, Ordering::Relaxed);
                store.tell();
                false
            }
            Beat::Alive { dead, stray } => {
                if !stray.is_empty() {
                    let name = node.to_string();
                    let release = move |database: &mut Database| {
                        database.model.release(&name, stray);
                        database.news.moves = true;
                    };
                    // Otherwise the next beat does it.
                    let _later = store.wire.ask("release shards", true, release).await;
                }
                let dead: Vec<(String, i64)> =
                    dead.into_iter().map(|row| (row.node.clone(), row.beat)).collect();
                if !dead.is_empty() {
                    let bury = move |database: &mut Database| database.bury(&dead);
                    // Otherwise the next beat does it.
                    let _later = store.wire.ask("bury", true, bury).await;
                }
                true
            }
        }
    }
}

/// Shows that a node is alive until it leaves.
pub(crate) async fn live(store: &SimulatedStore, node: &str) {
    let Some(server) = &store.server else { return };
    loop {
        let pause = server.state().membership.next_beat(store.wire.now());
        store.wire.nap(pause.max(Duration::from_millis(1))).await;
        server.moving(&store.wire).await;
        let goes_on = server.beat(store, node).await;
        server.moved();
        if !goes_on {
            return;
        }
    }
}
