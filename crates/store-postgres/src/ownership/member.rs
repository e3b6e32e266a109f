//! The node that a store is, if it is one: what it holds, what it should take and give up.
//!
//! A store is one node at a time. The right to work is a value whose drop ends it. Dropping cannot
//! wait, so it notes that the node is to leave and lets a task do it. Should that not get to it,
//! whoever asks next through this store does it first; and when the process dies before, others
//! find the beat assignment still.
//!
//! Here are locks, statements and who is told. What follows from a look at the rows is decided by
//! [`Membership`].

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use resurgam_core::Shard;
use resurgam_store::fleet::{self, Fence, Membership, NodeRow, Observation, View};
use resurgam_store::rows::Owner;
use resurgam_store::{Assignment, Node, Ownership, Owning, Result};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::{heartbeat, rows};
use crate::store::Inner;

/// The node of a store.
pub(crate) struct Member {
    /// Time is counted from here.
    born: Instant,
    /// What is known of the nodes and decided from it.
    membership: Mutex<Membership>,
    /// What the node should do, as it was told last.
    assignment: watch::Sender<Assignment>,
    /// Nodes of this process that are to leave.
    leaving: Mutex<Vec<String>>,
    /// One at a time joins, beats, takes, gives up and leaves: so that what is read about shards is
    /// never older than what is known here.
    moving: tokio::sync::Mutex<()>,
}

/// What became of a beat.
pub(super) enum Beat {
    /// The node is alive.
    Alive,
    /// It has left, or is about to.
    Over,
    /// Others took it for dead, or have shards of it.
    Overtaken,
    /// Something that it has written is gone: the database went back in time.
    Rewound,
}

/// What proves the right to work, for as long as it lives.
struct Proof {
    node: String,
    store: Weak<Inner>,
    runtime: Handle,
}

impl Drop for Proof {
    fn drop(&mut self) {
        let Some(store) = self.store.upgrade() else { return };
        store.member.leaving().push(self.node.clone());
        self.runtime.spawn(async move { store.member.finish(&store).await });
    }
}

impl Member {
    pub(crate) fn new(lease: Duration) -> Self {
        let membership = Membership::new(lease);
        Member {
            born: Instant::now(),
            assignment: watch::Sender::new(membership.assignment().clone()),
            membership: Mutex::new(membership),
            leaving: Mutex::default(),
            moving: tokio::sync::Mutex::default(),
        }
    }

    /// Joins the nodes that share the work, and takes at once what is free and should be its own.
    pub(crate) async fn join(&self, inner: &Arc<Inner>, node: Node) -> Result<Owning> {
        let _moving = self.moving.lock().await;
        self.leave(inner).await?;
        if let Some(owner) = self.present_owner(inner).await? {
            return Ok(Owning::Held(owner));
        }
        // From here on whoever stops waiting lets the node leave.
        let (store, runtime) = (Arc::downgrade(inner), Handle::current());
        let proof = Proof { node: node.name.clone(), store, runtime };
        rows::join(&inner.control, &node).await?;
        let asked = self.now();
        let beat = rows::beat(&inner.control, &node.name, inner.writer()).await?;
        let fence = Fence::new(&node.name, []);
        inner.fence(fence.leaving_tasks(node.queues.is_some()));
        inner.overtaken.store(false, Ordering::Relaxed);
        let found = self.found(asked, beat.is_there, &beat.view);
        let take = self.membership().joined(&node.name, found);
        let shards = self.take_now(inner, &node.name, &take).await?;
        self.tell_standing();
        inner.changes.tell_moves();
        tokio::spawn(heartbeat::live(Arc::downgrade(inner), node.name));
        Ok(Owning::Taken(Ownership::new(proof, shards)))
    }

    /// Who has the right to work now: this node, or else one that owns something and is not known
    /// to be dead.
    pub(crate) async fn owner(&self, inner: &Arc<Inner>) -> Result<Option<Owner>> {
        let _moving = self.moving.lock().await;
        self.leave(inner).await?;
        if let Some(owner) = self.present_owner(inner).await? {
            return Ok(Some(owner));
        }
        let asked = self.now();
        let view = rows::look(&inner.control).await?;
        Ok(self.membership().owner(self.found(asked, false, &view)).map(Owner::from))
    }

    /// All nodes that are not known to be dead.
    pub(crate) async fn nodes(&self, inner: &Arc<Inner>) -> Result<Vec<Owner>> {
        let asked = self.now();
        let view = rows::look(&inner.control).await?;
        let mut membership = self.membership();
        Ok(membership.alive(self.found(asked, false, &view)).map(Owner::from).collect())
    }

    /// What this node should do.
    pub(crate) fn assignment(&self) -> watch::Receiver<Assignment> {
        self.assignment.subscribe()
    }

    /// Whether this node may begin an attempt: not when it could not beat for two thirds of a
    /// lease, for others may soon take it for dead.
    pub(crate) fn may_begin(&self) -> bool {
        self.membership().may_begin(self.now())
    }

    /// When this node must stop beginning attempts unless it beats before.
    pub(super) fn may_begin_until(&self) -> Option<Instant> {
        self.membership().may_begin_until().map(|until| self.born + until)
    }

    /// Takes shards that are free; those that it got. Only from here on may they be read: the owner
    /// before can write nothing any more.
    pub(crate) async fn take(
        &self,
        inner: &Inner,
        node: &str,
        shards: &[Shard],
    ) -> Result<Vec<Shard>> {
        let _moving = self.moving.lock().await;
        let Some(fence) = self.working_as(inner, node) else { return Ok(Vec::new()) };
        let (mut held, wanted): (Vec<Shard>, Vec<Shard>) =
            shards.iter().partition(|shard| fence.has(**shard));
        held.extend(self.take_now(inner, fence.node(), &wanted).await?);
        self.decide(|membership| membership.taken(shards));
        Ok(held)
    }

    /// Gives shards up. Commits to them are refused from here on, by this process first.
    pub(crate) async fn release(&self, inner: &Inner, node: &str, shards: &[Shard]) -> Result<()> {
        let _moving = self.moving.lock().await;
        let Some(fence) = self.working_as(inner, node) else { return Ok(()) };
        inner.fence(fence.without(shards));
        rows::release(&inner.control, fence.node(), shards).await?;
        self.decide(|membership| membership.released(shards));
        inner.changes.tell_moves();
        Ok(())
    }

    /// Ends what was begun before the store closes: a right that was dropped is given up.
    pub(crate) async fn finish(&self, inner: &Inner) {
        let _moving = self.moving.lock().await;
        if let Err(error) = self.leave(inner).await {
            tracing::warn!(%error, "a node could not leave; others will find it dead");
        }
    }

    /// Shows that the node is alive, looks around, removes who is dead, and says what should move.
    pub(super) async fn beat(&self, inner: &Inner, node: &str) -> Result<Beat> {
        let _moving = self.moving.lock().await;
        let Some(fence) = self.working_as(inner, node) else { return Ok(Beat::Over) };
        let (asked, lanes) = (self.now(), inner.lane_positions());
        let beat = rows::beat(&inner.control, node, inner.writer()).await?;
        inner.clock.heard(self.born + asked, beat.view.now);
        if inner.is_rewound(node, &lanes, &beat.lanes) {
            return Ok(Beat::Rewound);
        }
        let found = self.found(asked, beat.is_there, &beat.view);
        match self.decide(|membership| membership.beaten(&fence, found)) {
            fleet::Beat::Alive { dead, stray } => {
                self.release_stray(inner, node, &stray).await?;
                self.bury(inner, &dead).await.map(|()| Beat::Alive)
            }
            fleet::Beat::Over => Ok(Beat::Over),
            fleet::Beat::Overtaken => Ok(Beat::Overtaken),
        }
    }

    /// Says whether the node may begin attempts.
    pub(super) fn say_may_begin(&self) {
        self.decide(|membership| membership.note_may_begin(self.now()));
    }

    /// How long to wait before the next beat.
    pub(super) fn next_beat(&self) -> Duration {
        self.membership().next_beat(self.now())
    }

    /// How long one beat may take: then the next one gets another connection.
    pub(super) fn beat_timeout(&self) -> Duration {
        self.membership().beat_timeout()
    }

    async fn take_now(&self, inner: &Inner, node: &str, shards: &[Shard]) -> Result<Vec<Shard>> {
        if shards.is_empty() {
            return Ok(Vec::new());
        }
        let taken = rows::take(&inner.control, node, shards).await?;
        if let Some(fence) = inner.node() {
            inner.fence(fence.with(taken.iter().copied()));
        }
        Ok(taken.into_iter().map(|(shard, _)| shard).collect())
    }

    /// Releases shards that are the node's by the database only.
    async fn release_stray(&self, inner: &Inner, node: &str, stray: &[Shard]) -> Result<()> {
        if stray.is_empty() {
            return Ok(());
        }
        rows::release(&inner.control, node, stray).await?;
        inner.changes.tell_moves();
        Ok(())
    }

    /// Removes nodes that are dead. Their shards are seen to be free at the next look, which is
    /// made at once.
    async fn bury(&self, inner: &Inner, dead: &[&NodeRow]) -> Result<()> {
        if dead.is_empty() {
            return Ok(());
        }
        for row in dead {
            tracing::warn!(node = row.node, "a node is dead: its beat stood still for a lease");
        }
        rows::bury(&inner.control, dead).await?;
        inner.changes.tell_moves();
        inner.changes.look_at_moves();
        Ok(())
    }

    /// Lets the nodes leave whose right was dropped.
    async fn leave(&self, inner: &Inner) -> Result<()> {
        loop {
            let Some(node) = self.leaving().last().cloned() else { return Ok(()) };
            if let Some(fence) = inner.node().filter(|fence| fence.node() == node) {
                inner.fence(Fence::new(fence.node(), []));
            }
            rows::leave(&inner.control, &node).await?;
            self.leaving().retain(|other| *other != node);
            self.decide(|membership| membership.left(&node));
            inner.changes.tell_moves();
            // Its beat sees that it is over.
            inner.changes.look_at_moves();
        }
    }

    /// The node that this store is, as others see it.
    async fn present_owner(&self, inner: &Inner) -> Result<Option<Owner>> {
        let Some(node) = self.membership().node().map(str::to_string) else { return Ok(None) };
        let view = rows::look(&inner.control).await?;
        Ok(view.node(&node).map(Owner::from))
    }

    /// What the node of this name holds, while commits are its own.
    fn working_as(&self, inner: &Inner, node: &str) -> Option<Arc<Fence>> {
        let is_present = |fence: &Arc<Fence>| {
            fence.node() == node && self.membership().node().is_some_and(|present| present == node)
        };
        inner.node().filter(is_present)
    }

    /// An answer that has just come.
    fn found<'v>(&self, asked: Duration, beaten: bool, view: &'v View) -> Observation<'v> {
        Observation { asked, answered: self.now(), beaten, view }
    }

    fn decide<T>(&self, decide: impl FnOnce(&mut Membership) -> T) -> T {
        let decided = decide(&mut self.membership());
        self.tell_standing();
        decided
    }

    /// Tells the assignment of this moment, if it is news. Who has it on loan may ask this member
    /// meanwhile, so the membership is locked last.
    fn tell_standing(&self) {
        self.assignment.send_if_modified(|told| {
            let membership = self.membership();
            let is_news = told != membership.assignment();
            if is_news {
                told.clone_from(membership.assignment());
            }
            is_news
        });
    }

    /// The time by the process's own clock.
    fn now(&self) -> Duration {
        self.born.elapsed()
    }

    fn membership(&self) -> MutexGuard<'_, Membership> {
        self.membership.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leaving(&self) -> MutexGuard<'_, Vec<String>> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
