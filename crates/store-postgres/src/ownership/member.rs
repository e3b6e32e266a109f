//! A node among others: what a loop calls to beat, to watch and to move shards.
//!
//! It decides nothing on its own. A loop beats as [`beat_every`](super::beat_every) says;
//! [`beat`](Member::beat) also says what should move, and the loop moves it when it is ready:
//! taking is at once, and what is given up is first brought to rest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_core::{Shard, Timestamp};
use resurgam_store::Result;

use super::{Fence, Moves, Observer, View, rows, spread};
use crate::store::Inner;

/// A node among others.
pub struct Member {
    inner: Arc<Inner>,
    node: String,
    born: Instant,
    beaten: Instant,
    observer: Observer,
    epochs: BTreeMap<Shard, i64>,
    /// Every shard with its epoch, at the last beat.
    shards: Vec<(Shard, i64)>,
}

/// What a beat found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The time of the database, for whoever wants to follow its clock.
    pub now: Timestamp,
    /// False when others took this node for dead and removed it: it must join anew.
    pub alive: bool,
    /// What should be taken and given up.
    pub moves: Moves,
    /// Shards that another node took from us: their runs must be dropped.
    pub lost: Vec<Shard>,
    /// Nodes that are dead: attempts that they claimed are lost.
    pub dead: Vec<String>,
}

impl Member {
    /// Registers a node, which serves these queues or all.
    pub(crate) async fn join(
        inner: Arc<Inner>,
        node: &str,
        queues: Option<Vec<String>>,
        build: Option<&str>,
    ) -> Result<Member> {
        rows::join(&inner.control, node, queues, build).await?;
        inner.fence(Fence::new(node, BTreeMap::new()));
        let (born, lease) = (Instant::now(), inner.lease);
        Ok(Member {
            inner,
            node: node.to_string(),
            born,
            beaten: born,
            observer: Observer::new(lease),
            epochs: BTreeMap::new(),
            shards: Vec::new(),
        })
    }

    /// Shows that it is alive, looks around and says what should move.
    pub async fn beat(&mut self) -> Result<Moved> {
        // The time before the statement: it is what the others have seen at the latest.
        let now = Instant::now();
        let (alive, view) = rows::beat(&self.inner.control, &self.node).await?;
        if alive {
            self.beaten = now;
        }
        let beats = view.nodes.iter().map(|row| (row.node.as_str(), row.beat));
        self.observer.look(self.born.elapsed(), beats);
        let moved = self.moved(alive, &view);
        self.shards = view.shards.iter().map(|(shard, _, epoch)| (*shard, *epoch)).collect();
        Ok(moved)
    }

    /// Whether it may begin an attempt: not when it could not beat for two thirds of a lease, for
    /// others may soon take it for dead.
    pub fn may_begin(&self) -> bool {
        may_begin(self.inner.lease, self.beaten.elapsed())
    }

    /// The shards that are its own as far as it knows.
    pub fn shards(&self) -> impl Iterator<Item = Shard> {
        self.epochs.keys().copied()
    }

    /// Takes shards that were free at the last beat; those that it got. Only from here on may they
    /// be read: the owner before can write nothing any more.
    pub async fn take(&mut self, shards: &[Shard]) -> Result<Vec<Shard>> {
        let seen = self.shards.iter().copied();
        let wanted: Vec<(Shard, i64)> = seen.filter(|(shard, _)| shards.contains(shard)).collect();
        let taken = rows::take(&self.inner.control, &self.node, &wanted).await?;
        self.epochs.extend(taken.iter().copied());
        self.refence();
        Ok(taken.into_iter().map(|(shard, _)| shard).collect())
    }

    /// Gives shards up. Commits to them are refused from here on, by this process first.
    pub async fn release(&mut self, shards: &[Shard]) -> Result<()> {
        self.epochs.retain(|shard, _| !shards.contains(shard));
        self.refence();
        rows::release(&self.inner.control, &self.node, shards).await
    }

    /// Removes a node that is dead, so that nobody has to watch it any more. Its claims are lost by
    /// then, and its shards are free.
    pub async fn bury(&mut self, node: &str) -> Result<()> {
        rows::leave(&self.inner.control, node).await
    }

    /// Gives everything up at once, because it stops.
    pub async fn leave(mut self) -> Result<()> {
        self.epochs.clear();
        self.refence();
        rows::leave(&self.inner.control, &self.node).await
    }

    fn moved(&mut self, alive: bool, view: &View) -> Moved {
        let is_dead = |node: &str| node != self.node && self.observer.is_dead(node);
        let nodes = view.nodes.iter().map(|row| row.node.as_str());
        let dead: Vec<String> =
            nodes.clone().filter(|node| is_dead(node)).map(str::to_string).collect();
        let live: Vec<&str> = nodes.filter(|node| !is_dead(node)).collect();
        let owners: Vec<(Shard, Option<&str>)> =
            view.shards.iter().map(|(shard, owner, _)| (*shard, owner.as_deref())).collect();
        let moves = spread(&self.node, &live, &owners);
        Moved { now: view.now, alive, moves, lost: self.lost(view), dead }
    }

    fn lost(&mut self, view: &View) -> Vec<Shard> {
        let present = |shard: &Shard, epoch: i64| {
            view.shards.iter().any(|(other, owner, at)| {
                other == shard && owner.as_ref() == Some(&self.node) && *at == epoch
            })
        };
        let kept = self.epochs.iter().map(|(shard, epoch)| (*shard, present(shard, *epoch)));
        let lost: Vec<Shard> = kept.filter(|(_, kept)| !kept).map(|(shard, _)| shard).collect();
        self.epochs.retain(|shard, _| !lost.contains(shard));
        if !lost.is_empty() {
            self.refence();
        }
        lost
    }

    fn refence(&self) {
        self.inner.fence(Fence::new(&self.node, self.epochs.clone()));
    }
}

fn may_begin(lease: Duration, since_beat: Duration) -> bool {
    since_beat < lease * 2 / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_could_not_beat_for_two_thirds_of_a_lease_begins_nothing() {
        let lease = Duration::from_secs(9);
        assert!(may_begin(lease, Duration::ZERO));
        assert!(may_begin(lease, Duration::from_millis(5_999)));
        assert!(!may_begin(lease, Duration::from_secs(6)));
    }
}
