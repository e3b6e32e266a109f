//! What one node knows of the others, and what it decides from every look at their rows.
//!
//! | the node is told that | what follows |
//! |---|---|
//! | it has joined | the shards that it takes at once |
//! | its beat was answered | a new [`Standing`], and the nodes that are dead and to be removed |
//! | its row was gone, or one of its shards has another owner or epoch | it was overtaken |
//! | nothing, for two thirds of a lease | it may begin no attempt |
//!
//! Two times belong to an answer, and which one counts is a matter of safety. The others have seen
//! a beat no earlier than when it was asked for, so the node trusts it from then on. The node has
//! seen the others no later than when it got the answer, so their time begins to count there. Both
//! ways no node is taken for dead before it knows that it may be.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::Shard;

use super::sharers::{known_elsewhere, sharers, why_aside};
use super::{Fence, Moves, NodeRow, Observer, ShardRow, View, spread};
use crate::Standing;

/// What one process knows of the nodes of its database, and the node that it is, if it is one.
///
/// It lives as long as the process uses the database, as a client and as one node after the other.
/// The caller reads and writes the rows, one thing at a time, and keeps the [`Fence`].
///
/// ```
/// use std::time::Duration;
/// use resurgam_core::{Shard, Timestamp};
/// use resurgam_store::fleet::{Beat, Fence, Membership, NodeRow, Observation, ShardRow, View};
///
/// let row = NodeRow {
///     node: "node-1".into(),
///     beat: 0,
///     pid: 1,
///     program: "orders".into(),
///     started_at: Timestamp::EPOCH,
///     workflows: None,
/// };
/// let free = Shard::all().map(|shard| ShardRow { shard, owner: None, epoch: 0 });
/// let (now, shards) = (Timestamp::EPOCH, free.collect());
/// let view = View { now, leaves_tasks: false, nodes: vec![row], shards };
/// let at = |millis| Observation {
///     asked: Duration::from_millis(millis),
///     answered: Duration::from_millis(millis + 2),
///     beaten: true,
///     view: &view,
/// };
///
/// let mut membership = Membership::new(Duration::from_secs(9));
/// assert_eq!(membership.joined("node-1", at(0)).len(), 256);
/// // It may begin attempts for two thirds of a lease after a beat.
/// assert!(membership.may_begin(Duration::from_millis(5_999)));
/// assert!(!membership.may_begin(Duration::from_secs(6)));
/// // It believes to hold a shard that is free by the database.
/// let fence = Fence::new("node-1", [(Shard(3), 1)]);
/// assert_eq!(membership.beaten(&fence, at(1_000)), Beat::Overtaken);
/// ```
#[derive(Clone, Debug)]
pub struct Membership {
    lease: Duration,
    observer: Observer,
    present: Option<Present>,
    standing: Standing,
}

/// A node that works.
#[derive(Clone, Debug)]
struct Present {
    node: String,
    /// When it last showed that it is alive.
    beaten: Duration,
    /// The nodes that were there then.
    seen: BTreeSet<String>,
}

/// An answer of the database about nodes and shards, with the times of the one who asked.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'v> {
    /// Before the question was sent.
    pub asked: Duration,
    /// When the answer was there.
    pub answered: Duration,
    /// The question came with a beat, and that has found the row of its node.
    pub beaten: bool,
    /// What was found.
    pub view: &'v View,
}

/// What became of a beat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beat<'v> {
    /// The node is alive.
    Alive {
        /// Other nodes that are dead. Their rows are to be removed unless their beats have moved
        /// since, and their shards are free then.
        dead: Vec<&'v NodeRow>,
    },
    /// The node has left.
    Over,
    /// Others took the node for dead, or have shards of it.
    Overtaken,
}

/// How often a node looks while shards should move, when nobody tells it.
const MOVING: Duration = Duration::from_millis(100);

impl Membership {
    /// What a process knows that has seen nobody yet. Whose beat stands still for a whole lease is
    /// dead.
    pub fn new(lease: Duration) -> Self {
        Membership {
            lease,
            observer: Observer::new(lease),
            present: None,
            standing: Standing { may_begin: true, ..Standing::default() },
        }
    }

    /// What the node should do.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// The node that works, from when it has joined until it has left.
    pub fn node(&self) -> Option<&str> {
        self.present.as_ref().map(|present| present.node.as_str())
    }

    /// The row of this node was made, and this is the answer to its first beat. Answers with the
    /// shards that it is to take at once.
    pub fn joined(&mut self, node: &str, found: Observation<'_>) -> Vec<Shard> {
        let seen = names(found.view);
        self.present = Some(Present { node: node.to_string(), beaten: found.asked, seen });
        let moves = self.decide(&Fence::new(node, []), found);
        (self.standing.take, self.standing.give) = (Vec::new(), Vec::new());
        moves.take
    }

    /// The node within this fence has shown that it is alive, or tried to.
    pub fn beaten<'v>(&mut self, fence: &Fence, found: Observation<'v>) -> Beat<'v> {
        let Some(present) = self.present.as_mut().filter(|present| present.node == fence.node())
        else {
            return Beat::Over;
        };
        if !found.beaten || !fence.holds(found.view) {
            return Beat::Overtaken;
        }
        present.beaten = found.asked;
        let before = std::mem::replace(&mut present.seen, names(found.view));
        let departed = !before.is_subset(&present.seen);
        let Moves { take, release } = self.decide(fence, found);
        self.standing.departed += u64::from(departed);
        (self.standing.take, self.standing.give) = (take, release);
        self.standing.may_begin = true;
        let others = found.view.nodes.iter().filter(|row| row.node != fence.node());
        Beat::Alive { dead: others.filter(|row| self.observer.is_dead(&row.node)).collect() }
    }

    /// A node that owns something and is not known to be dead, as one sees who is none.
    pub fn owner<'v>(&mut self, found: Observation<'v>) -> Option<&'v NodeRow> {
        self.observe(found);
        let owns = |row: &NodeRow| {
            found.view.shards.iter().any(|shard| shard.owner.as_ref() == Some(&row.node))
        };
        found.view.nodes.iter().find(|row| owns(row) && !self.observer.is_dead(&row.node))
    }

    /// The node has taken those of these shards that it could get.
    pub fn taken(&mut self, shards: &[Shard]) {
        self.standing.take.retain(|shard| !shards.contains(shard));
    }

    /// The node has given these shards up.
    pub fn released(&mut self, shards: &[Shard]) {
        self.standing.give.retain(|shard| !shards.contains(shard));
    }

    /// A node of this process has left.
    pub fn left(&mut self, node: &str) {
        self.present.take_if(|present| present.node == node);
        (self.standing.take, self.standing.give) = (Vec::new(), Vec::new());
    }

    /// Whether the node may begin an attempt: not when it could not beat for two thirds of a
    /// lease, for others may soon take it for dead.
    pub fn may_begin(&self, now: Duration) -> bool {
        self.may_begin_until().is_none_or(|until| now < until)
    }

    /// When the node must stop beginning attempts unless it beats before.
    pub fn may_begin_until(&self) -> Option<Duration> {
        self.present.as_ref().map(|present| present.beaten + self.lease * 2 / 3)
    }

    /// Says in the standing whether the node may begin attempts at this time.
    pub fn note_may_begin(&mut self, now: Duration) {
        self.standing.may_begin = self.may_begin(now);
    }

    /// How long to wait before the next beat: so short that a few lost beats kill nobody, shorter
    /// while shards should move, and never beyond the moment from which nothing may begin.
    pub fn next_beat(&self, now: Duration) -> Duration {
        let every = if self.is_moving() { MOVING.min(self.lease / 7) } else { self.lease / 7 };
        let left = self.may_begin_until().map(|until| until.saturating_sub(now));
        left.filter(|left| !left.is_zero()).map_or(every, |left| left.min(every))
    }

    /// How long one beat may take before the next one gets another connection.
    pub fn beat_timeout(&self) -> Duration {
        self.lease / 4
    }

    fn is_moving(&self) -> bool {
        !self.standing.take.is_empty() || !self.standing.give.is_empty()
    }

    /// What should move, as far as the node within this fence is concerned; what else there is to
    /// know goes into the standing. What is the node's own by the database and not inside the fence
    /// it may as well take: the answer of an earlier time was lost.
    fn decide(&mut self, fence: &Fence, found: Observation<'_>) -> Moves {
        self.observe(found);
        let (node, view) = (fence.node(), found.view);
        let is_alive = |row: &&NodeRow| row.node == node || !self.observer.is_dead(&row.node);
        let live: Vec<&NodeRow> = view.nodes.iter().filter(is_alive).collect();
        let sharers = sharers(&live);
        let owner = |shard: &ShardRow| -> Option<&str> {
            let row = live.iter().find(|row| Some(&row.node) == shard.owner.as_ref())?;
            (row.node != node || fence.has(shard.shard)).then_some(row.node.as_str())
        };
        let owners: Vec<(Shard, Option<&str>)> =
            view.shards.iter().map(|row| (row.shard, owner(row))).collect();
        let names: Vec<&str> = sharers.iter().map(|row| row.node.as_str()).collect();
        let moves = spread(node, &names, &owners);

        let me = live.iter().find(|row| row.node == node);
        let known = me.map(|me| known_elsewhere(me, &live)).unwrap_or_default();
        let standing = &mut self.standing;
        standing.aside = me.and_then(|me| why_aside(me, &live, &sharers));
        standing.others_work = live.iter().any(|row| row.node != node);
        (standing.others_leave_tasks, standing.hands) = (view.leaves_tasks, view.hands());
        if *standing.known_elsewhere != known {
            standing.known_elsewhere = Arc::new(known);
        }
        moves
    }

    fn observe(&mut self, found: Observation<'_>) {
        let beats = found.view.nodes.iter().map(|row| (row.node.as_str(), row.beat));
        self.observer.look(found.answered, beats);
    }
}

fn names(view: &View) -> BTreeSet<String> {
    view.nodes.iter().map(|row| row.node.clone()).collect()
}
