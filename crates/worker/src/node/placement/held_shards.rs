//! Which shards a node holds, and what the store wants of it ([`Shards`]). How they are gained and
//! handed over is in `shards.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;

use resurgam_core::Shard;
use resurgam_store::{Aside, Assignment};

/// The shards that this node works on.
#[derive(Debug)]
pub(crate) struct Shards {
    pub(super) held: BTreeSet<Shard>,
    pub(super) leaving: BTreeSet<Shard>,
    /// How often each was gained: what was read before that is worth nothing.
    pub(super) tenures: Vec<u64>,
    pub(super) assignment: Assignment,
    /// What the store wants was not looked at yet.
    pub(super) changed: bool,
    pub(super) departed: u64,
    /// Why this node has no part in the work, as people were told.
    pub(super) aside: Option<Aside>,
    pub(super) taking: bool,
    /// What leaves is being brought to rest, or released.
    pub(super) settling: bool,
}

impl Shards {
    pub(crate) fn new(assignment: Assignment) -> Self {
        Shards {
            held: BTreeSet::new(),
            leaving: BTreeSet::new(),
            tenures: vec![0; usize::from(Shard::COUNT)],
            assignment,
            changed: true,
            departed: 0,
            aside: None,
            taking: false,
            settling: false,
        }
    }

    /// The store wants something else of this node.
    pub(crate) fn wants(&mut self, assignment: Assignment) {
        (self.assignment, self.changed) = (assignment, true);
    }

    /// What the store wants of this node.
    pub(crate) fn assignment(&self) -> Assignment {
        self.assignment.clone()
    }

    /// True when this node works on the shard.
    pub(crate) fn owns(&self, shard: Shard) -> bool {
        self.held.contains(&shard) && !self.leaving.contains(&shard)
    }

    /// How often this node has gained the shard.
    pub(crate) fn tenure(&self, shard: Shard) -> u64 {
        self.tenures[usize::from(shard.0)]
    }

    /// How often each was gained, in their order.
    pub(crate) fn tenures(&self) -> Vec<u64> {
        self.tenures.clone()
    }

    /// True when some are to be given up and are not yet.
    pub(crate) fn is_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// How many are to be given up and are not yet.
    pub(crate) fn leaving(&self) -> usize {
        self.leaving.len()
    }

    /// True when others could take over what this node gives up.
    pub(crate) fn others_work(&self) -> bool {
        self.assignment.others_work
    }

    /// Workflows that other nodes can run and this one cannot.
    pub(crate) fn known_elsewhere(&self) -> Arc<BTreeSet<String>> {
        self.assignment.known_elsewhere.clone()
    }

    /// True when some node leaves tasks to others.
    pub(crate) fn others_leave_tasks(&self) -> bool {
        self.assignment.others_leave_tasks
    }
}
