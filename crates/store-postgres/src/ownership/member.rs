//! The node that a store is, if it is one: what it holds, what it should take and give up.
//!
//! A store is one node at a time. The right to work is a value whose drop ends it. Dropping cannot
//! wait, so it notes that the node is to leave and lets a task do it. Should that not get to it,
//! whoever asks next through this store does it first; and when the process dies before, others
//! find the beat standing still.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use resurgam_core::Shard;
use resurgam_store::fleet::{
    Fence, Moves, NodeRow, Observer, ShardRow, View, known_elsewhere, sharers, spread, why_aside,
};
use resurgam_store::rows::Owner;
use resurgam_store::{Aside, Node, Ownership, Owning, Result, Standing};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::{life, rows};
use crate::store::Inner;

/// The node of a store.
pub(crate) struct Member {
    pub(super) lease: Duration,
    born: Instant,
    observer: Mutex<Observer>,
    /// What the node should do.
    standing: watch::Sender<Standing>,
    present: Mutex<Option<Present>>,
    /// Nodes of this process that are to leave.
    leaving: Mutex<Vec<String>>,
    /// One at a time joins, beats, takes, gives up and leaves: so that what is read about shards is
    /// never older than what is known here.
    moving: tokio::sync::Mutex<()>,
}

/// A node that works.
struct Present {
    node: String,
    /// When it last showed that it is alive.
    beaten: Instant,
    /// The nodes that were there then.
    seen: BTreeSet<String>,
}

/// What became of a beat.
pub(super) enum Beat {
    /// The node is alive.
    Alive,
    /// It has left, or is about to.
    Over,
    /// Others took it for dead, or have shards of it.
    Overtaken,
}

/// What a node makes of a look around.
struct Judged {
    moves: Moves,
    aside: Option<Aside>,
    known_elsewhere: BTreeSet<String>,
}

impl Judged {
    fn tell(self, standing: &mut Standing) {
        standing.aside = self.aside;
        if *standing.known_elsewhere != self.known_elsewhere {
            standing.known_elsewhere = Arc::new(self.known_elsewhere);
        }
    }
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
        Member {
            lease,
            born: Instant::now(),
            observer: Mutex::new(Observer::new(lease)),
            standing: watch::Sender::new(Standing { may_begin: true, ..Standing::default() }),
            present: Mutex::default(),
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
        let beaten = Instant::now();
        let (_, view) = rows::beat(&inner.control, &node.name).await?;
        let fence = Fence::new(&node.name, []);
        inner.fence(fence.leaving_tasks(node.queues.is_some()));
        inner.overtaken.store(false, Ordering::Relaxed);
        *self.present() = Some(Present {
            node: node.name.clone(),
            beaten,
            seen: view.nodes.iter().map(|row| row.node.clone()).collect(),
        });
        let judged = self.judge(&view, &node.name, &BTreeSet::new());
        let shards = self.take_now(inner, &node.name, &judged.moves.take).await?;
        let others_work = self.others_work(&view, &node.name);
        self.stand(|standing| {
            (standing.take, standing.give) = (Vec::new(), Vec::new());
            (standing.others_leave_tasks, standing.hands) = (view.leaves_tasks, view.hands());
            standing.others_work = others_work;
            judged.tell(standing);
        });
        inner.changes.tell_moves();
        tokio::spawn(life::live(Arc::downgrade(inner), node.name));
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
        let view = rows::look(&inner.control).await?;
        self.observe(&view);
        let owns = |node: &str| view.shards.iter().any(|row| row.owner.as_deref() == Some(node));
        let alive = |row: &&NodeRow| owns(&row.node) && !self.is_dead(&row.node);
        Ok(view.nodes.iter().find(alive).map(Owner::from))
    }

    /// What this node should do.
    pub(crate) fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// Whether this node may begin an attempt: not when it could not beat for two thirds of a
    /// lease, for others may soon take it for dead.
    pub(crate) fn may_begin(&self) -> bool {
        self.present().as_ref().is_none_or(|node| may_begin(self.lease, node.beaten.elapsed()))
    }

    /// When this node must stop beginning attempts unless it beats before.
    pub(super) fn may_begin_until(&self) -> Option<Instant> {
        self.present().as_ref().map(|node| node.beaten + self.lease * 2 / 3)
    }

    /// Takes shards that are free; those that it got. Only from here on may they be read: the owner
    /// before can write nothing any more.
    pub(crate) async fn take(&self, inner: &Inner, shards: &[Shard]) -> Result<Vec<Shard>> {
        let _moving = self.moving.lock().await;
        let Some(fence) = self.working(inner) else { return Ok(Vec::new()) };
        let (mut held, wanted): (Vec<Shard>, Vec<Shard>) =
            shards.iter().partition(|shard| fence.has(**shard));
        held.extend(self.take_now(inner, fence.node(), &wanted).await?);
        self.stand(|standing| standing.take.retain(|shard| !shards.contains(shard)));
        Ok(held)
    }

    /// Gives shards up. Commits to them are refused from here on, by this process first.
    pub(crate) async fn release(&self, inner: &Inner, shards: &[Shard]) -> Result<()> {
        let _moving = self.moving.lock().await;
        let Some(fence) = self.working(inner) else { return Ok(()) };
        inner.fence(fence.without(shards));
        rows::release(&inner.control, fence.node(), shards).await?;
        self.stand(|standing| standing.give.retain(|shard| !shards.contains(shard)));
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
        let Some(fence) = self.working(inner).filter(|fence| fence.node() == node) else {
            return Ok(Beat::Over);
        };
        // The time before the statement: it is what the others have seen at the latest.
        let now = Instant::now();
        let (alive, view) = rows::beat(&inner.control, node).await?;
        inner.clock.heard(now, view.now);
        if !alive || !fence.holds(&view) {
            return Ok(Beat::Overtaken);
        }
        let departed = self.is_alive(node, now, &view);
        let held: BTreeSet<Shard> = fence.shards().collect();
        let mut judged = self.judge(&view, node, &held);
        let Moves { take, release: give } = std::mem::take(&mut judged.moves);
        let others_work = self.others_work(&view, node);
        self.stand(|standing| {
            standing.departed += u64::from(departed);
            (standing.take, standing.give, standing.may_begin) = (take, give, true);
            (standing.others_leave_tasks, standing.hands) = (view.leaves_tasks, view.hands());
            standing.others_work = others_work;
            judged.tell(standing);
        });
        self.bury(inner, &view, node).await?;
        Ok(Beat::Alive)
    }

    /// True when there are nodes beside this one that are not known to be dead.
    fn others_work(&self, view: &View, node: &str) -> bool {
        view.nodes.iter().any(|row| row.node != node && !self.is_dead(&row.node))
    }

    /// Says that the node may not begin attempts, if that is so.
    pub(super) fn say_may_begin(&self) {
        let may_begin = self.may_begin();
        self.stand(|standing| standing.may_begin = may_begin);
    }

    /// True while something should move: then it is worth looking more often.
    pub(super) fn is_moving(&self) -> bool {
        let standing = self.standing.borrow();
        !standing.take.is_empty() || !standing.give.is_empty()
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

    /// What should move, as far as this node is concerned, and why it has no part in the work, if
    /// it has none. What is its own by the database and not held here it may as well take: the
    /// answer of an earlier time was lost.
    fn judge(&self, view: &View, node: &str, held: &BTreeSet<Shard>) -> Judged {
        self.observe(view);
        let is_alive = |row: &&NodeRow| row.node == node || !self.is_dead(&row.node);
        let live: Vec<&NodeRow> = view.nodes.iter().filter(is_alive).collect();
        let sharers = sharers(&live);
        let owner = |shard: &ShardRow| -> Option<&str> {
            let row = live.iter().find(|row| Some(&row.node) == shard.owner.as_ref())?;
            (row.node != node || held.contains(&shard.shard)).then_some(row.node.as_str())
        };
        let owners: Vec<(Shard, Option<&str>)> =
            view.shards.iter().map(|row| (row.shard, owner(row))).collect();
        let names: Vec<&str> = sharers.iter().map(|row| row.node.as_str()).collect();
        let me = live.iter().find(|row| row.node == node);
        Judged {
            moves: spread(node, &names, &owners),
            aside: me.and_then(|me| why_aside(me, &live, &sharers)),
            known_elsewhere: me.map(|me| known_elsewhere(me, &live)).unwrap_or_default(),
        }
    }

    /// Removes nodes that are dead. Their shards are seen to be free at the next look, which is
    /// made at once.
    async fn bury(&self, inner: &Inner, view: &View, node: &str) -> Result<()> {
        let others = view.nodes.iter().filter(|row| row.node != node);
        let dead: Vec<&NodeRow> = others.filter(|row| self.is_dead(&row.node)).collect();
        if dead.is_empty() {
            return Ok(());
        }
        for row in &dead {
            tracing::warn!(node = row.node, "a node is dead: its beat stood still for a lease");
        }
        rows::bury(&inner.control, &dead).await?;
        inner.changes.tell_moves();
        inner.changes.look_at_moves();
        Ok(())
    }

    /// Notes that a node was alive at this time. True when one that was there before is gone.
    fn is_alive(&self, node: &str, now: Instant, view: &View) -> bool {
        let seen: BTreeSet<String> = view.nodes.iter().map(|row| row.node.clone()).collect();
        let mut present = self.present();
        let Some(present) = present.as_mut().filter(|present| present.node == node) else {
            return false;
        };
        present.beaten = now;
        let before = std::mem::replace(&mut present.seen, seen);
        !before.is_subset(&present.seen)
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
            self.present().take_if(|present| present.node == node);
            self.stand(|standing| (standing.take, standing.give) = (Vec::new(), Vec::new()));
            inner.changes.tell_moves();
            // Its beat sees that it is over.
            inner.changes.look_at_moves();
        }
    }

    /// The node that this store is, as others see it.
    async fn present_owner(&self, inner: &Inner) -> Result<Option<Owner>> {
        let Some(node) = self.present().as_ref().map(|present| present.node.clone()) else {
            return Ok(None);
        };
        let view = rows::look(&inner.control).await?;
        Ok(view.node(&node).map(Owner::from))
    }

    /// What the node holds, while commits are its own.
    fn working(&self, inner: &Inner) -> Option<Arc<Fence>> {
        let is_present = |fence: &Arc<Fence>| {
            self.present().as_ref().is_some_and(|present| present.node == fence.node())
        };
        inner.node().filter(is_present)
    }

    fn observe(&self, view: &View) {
        let beats = view.nodes.iter().map(|row| (row.node.as_str(), row.beat));
        self.observer().look(self.born.elapsed(), beats);
    }

    fn is_dead(&self, node: &str) -> bool {
        self.observer().is_dead(node)
    }

    fn stand(&self, change: impl FnOnce(&mut Standing)) {
        self.standing.send_if_modified(|standing| {
            let before = standing.clone();
            change(standing);
            *standing != before
        });
    }

    fn observer(&self) -> MutexGuard<'_, Observer> {
        self.observer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leaving(&self) -> MutexGuard<'_, Vec<String>> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn present(&self) -> MutexGuard<'_, Option<Present>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn may_begin(lease: Duration, since_beat: Duration) -> bool {
    since_beat < lease * 2 / 3
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_node_that_could_not_beat_for_two_thirds_of_a_lease_begins_nothing() {
        let lease = Duration::from_secs(9);
        assert!(may_begin(lease, Duration::ZERO));
        assert!(may_begin(lease, Duration::from_millis(5_999)));
        assert!(!may_begin(lease, Duration::from_secs(6)));
    }
}
