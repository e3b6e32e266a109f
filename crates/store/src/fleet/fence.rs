//! The fence: what keeps a node from writing once it was overtaken.

use std::collections::BTreeMap;

use resurgam_core::Shard;

use super::{ShardRow, View};
use crate::{Error, Result};

/// What a node must find before it writes: its shards, at the epochs that it took them with.
///
/// A commit names the epochs of the shards that it writes, and is refused when one of them is no
/// longer the present one. A node that was only asleep can write nothing when it wakes.
///
/// ```
/// use resurgam_core::Shard;
/// use resurgam_store::fleet::Fence;
///
/// let fence = Fence::new("node-1", [(Shard(3), 7)]).with([(Shard(4), 1)]);
/// assert_eq!(fence.epochs([Shard(3), Shard(4)])?, [(Shard(3), 7), (Shard(4), 1)]);
/// assert!(fence.without(&[Shard(3)]).epochs([Shard(3)]).unwrap_err().is_fenced());
/// # Ok::<(), resurgam_store::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    node: String,
    epochs: BTreeMap<Shard, i64>,
    leaves_tasks: bool,
}

impl Fence {
    /// The fence of a node that took these shards, and leaves no tasks to others.
    pub fn new(node: impl Into<String>, epochs: impl IntoIterator<Item = (Shard, i64)>) -> Self {
        let epochs = epochs.into_iter().collect();
        Fence { node: node.into(), epochs, leaves_tasks: false }
    }

    /// The fence of a node that leaves tasks of some queues to others, or not.
    pub fn leaving_tasks(self, leaves_tasks: bool) -> Self {
        Fence { leaves_tasks, ..self }
    }

    /// Whether the node serves chosen queues only, so that others should hear of tasks that wait.
    pub fn leaves_tasks(&self) -> bool {
        self.leaves_tasks
    }

    /// The node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The shards that are the node's as far as it knows, in order.
    pub fn shards(&self) -> impl Iterator<Item = Shard> {
        self.epochs.keys().copied()
    }

    /// Whether a shard is the node's as far as it knows.
    pub fn has(&self, shard: Shard) -> bool {
        self.epochs.contains_key(&shard)
    }

    /// The epoch that a shard was taken with.
    pub fn epoch(&self, shard: Shard) -> Option<i64> {
        self.epochs.get(&shard).copied()
    }

    /// The epochs of these shards. An error when one of them is not the node's.
    pub fn epochs(&self, of: impl IntoIterator<Item = Shard>) -> Result<Vec<(Shard, i64)>> {
        let epoch = |shard| match self.epoch(shard) {
            Some(epoch) => Ok((shard, epoch)),
            None => Err(Error::fenced(format!("node {} does not own shard {shard}", self.node))),
        };
        of.into_iter().map(epoch).collect()
    }

    /// The fence of the same node with more shards.
    pub fn with(&self, taken: impl IntoIterator<Item = (Shard, i64)>) -> Self {
        let mut fence = self.clone();
        fence.epochs.extend(taken);
        fence
    }

    /// The fence of the same node without some shards.
    pub fn without(&self, shards: &[Shard]) -> Self {
        let mut fence = self.clone();
        fence.epochs.retain(|shard, _| !shards.contains(shard));
        fence
    }

    /// Whether everything that the node believes to hold is its own by the database.
    pub fn holds(&self, view: &View) -> bool {
        let is_held = |row: &&ShardRow| {
            row.owner.as_deref() == Some(self.node()) && self.epoch(row.shard) == Some(row.epoch)
        };
        view.shards.iter().filter(is_held).count() == self.epochs.len()
    }
}

#[cfg(test)]
mod tests {
    use resurgam_core::Timestamp;
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_node_knows_when_a_shard_is_not_its_own_any_more() {
        let fence = Fence::new("a", [(Shard(0), 7)]);
        let row = |shard, owner: Option<&str>, epoch| ShardRow {
            shard: Shard(shard),
            owner: owner.map(str::to_string),
            epoch,
        };
        let view = |owner: Option<&str>, epoch| View {
            now: Timestamp::EPOCH,
            leaves_tasks: false,
            nodes: Vec::new(),
            shards: vec![row(0, owner, epoch), row(1, None, 1)],
        };
        assert!(fence.holds(&view(Some("a"), 7)));
        assert!(!fence.holds(&view(Some("a"), 8)));
        assert!(!fence.holds(&view(Some("b"), 7)));
        assert!(!fence.holds(&view(None, 7)));
        assert!(Fence::new("a", []).holds(&view(None, 7)));
    }

    #[test]
    fn a_shard_that_was_given_up_is_outside_of_the_fence() {
        let fence = Fence::new("a", [(Shard(1), 4), (Shard(2), 9)]).leaving_tasks(true);
        let smaller = fence.without(&[Shard(1), Shard(7)]);
        assert_eq!(smaller.shards().collect::<Vec<_>>(), [Shard(2)]);
        assert!(smaller.leaves_tasks() && smaller.has(Shard(2)) && !smaller.has(Shard(1)));
        let error = smaller.epochs([Shard(2), Shard(1)]).unwrap_err();
        assert!(error.is_fenced());
        assert_eq!(error.to_string(), "node a does not own shard 1");
        // A shard that is taken anew has another epoch.
        assert_eq!(smaller.with([(Shard(1), 5)]).epoch(Shard(1)), Some(5));
    }
}
