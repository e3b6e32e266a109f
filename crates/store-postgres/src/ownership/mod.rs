//! Who works on which shard, and how one that was overtaken is kept from writing.
//!
//! A node says that it is alive by raising a number in its own row, its beat. Others watch it: who
//! has seen a beat stand still for a whole lease, by a clock of their own and while the database
//! answered, knows that its node is dead and removes it, and its shards are free. Clocks are never
//! compared, and an outage of the database kills nobody. Taking a shard raises its epoch. Every
//! commit of an owner names its epochs and is refused when one of them is no longer the present
//! one, so a node that was only asleep can write nothing when it wakes.
//!
//! A store beats, watches and works out who should have what by itself, in real time. Moving a
//! shard is the engine's: what is to be given up must first be brought to rest there.
//!
//! - `observe`: pure; who is dead. `sharers`: pure; which nodes share the shards. `spread`: pure;
//!   who should have which ones.
//! - `rows`: the statements. `member`: the node of a store. `life`: its beat.

mod life;
mod member;
mod observe;
mod rows;
mod sharers;
mod spread;

use std::collections::BTreeMap;

use resurgam_core::Shard;
use resurgam_store::{Error, Result};

pub(crate) use member::Member;

/// What a node must find before it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    node: String,
    epochs: BTreeMap<Shard, i64>,
    /// It serves chosen queues only.
    leaves_tasks: bool,
}

impl Fence {
    pub(crate) fn new(node: &str, epochs: BTreeMap<Shard, i64>) -> Self {
        Fence { node: node.to_string(), epochs, leaves_tasks: false }
    }

    /// The same for a node that leaves tasks to others, or not.
    fn leaving_tasks(self, leaves_tasks: bool) -> Self {
        Fence { leaves_tasks, ..self }
    }

    /// Whether others should hear of tasks that wait.
    pub(crate) fn leaves_tasks(&self) -> bool {
        self.leaves_tasks
    }

    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// The shards that are ours as far as we know.
    pub(crate) fn shards(&self) -> impl Iterator<Item = Shard> {
        self.epochs.keys().copied()
    }

    /// Whether a shard is ours as far as we know.
    pub(crate) fn has(&self, shard: Shard) -> bool {
        self.epochs.contains_key(&shard)
    }

    /// The epochs of these shards, unless one is not ours.
    pub(crate) fn epochs(&self, of: impl Iterator<Item = Shard>) -> Result<Vec<(Shard, i64)>> {
        of.map(|shard| match self.epochs.get(&shard) {
            Some(epoch) => Ok((shard, *epoch)),
            None => Err(Error::fenced(format!("node {} does not own shard {shard}", self.node))),
        })
        .collect()
    }

    /// The same node with more shards.
    fn with(&self, taken: impl IntoIterator<Item = (Shard, i64)>) -> Self {
        let mut fence = self.clone();
        fence.epochs.extend(taken);
        fence
    }

    /// The same node without some shards.
    fn without(&self, shards: &[Shard]) -> Self {
        let mut fence = self.clone();
        fence.epochs.retain(|shard, _| !shards.contains(shard));
        fence
    }
}
