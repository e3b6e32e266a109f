//! The rows of nodes and shards, as one look at the database finds them.

use std::collections::BTreeSet;

use resurgam_core::{Shard, Timestamp};

use crate::rows::Owner;

/// Who is there, and who has what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// When, by the clock of the database.
    pub now: Timestamp,
    /// Some node serves chosen queues only, or some task lacks something.
    pub leaves_tasks: bool,
    /// The nodes, dead ones too.
    pub nodes: Vec<NodeRow>,
    /// Every shard.
    pub shards: Vec<ShardRow>,
}

/// A node that works, or did until it died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// Its name, which nobody had before.
    pub node: String,
    /// What it raises to show that it is alive.
    pub beat: i64,
    /// The id of its process.
    pub pid: u32,
    /// The name of its program.
    pub program: String,
    /// Since when, by the clock of the database.
    pub started_at: Timestamp,
    /// The workflows that it can run; `None` when it does not say.
    pub workflows: Option<BTreeSet<String>>,
}

/// Who has a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardRow {
    /// The shard.
    pub shard: Shard,
    /// The node that took it; `None` when it is free. Its row may be gone.
    pub owner: Option<String>,
    /// How often it was taken.
    pub epoch: i64,
}

impl View {
    /// How often shards were taken, where some node leaves tasks to others; otherwise nothing.
    pub fn hands(&self) -> i64 {
        let taken = self.shards.iter().map(|row| row.epoch);
        if self.leaves_tasks { taken.sum() } else { 0 }
    }

    /// The row of a node.
    pub fn node(&self, name: &str) -> Option<&NodeRow> {
        self.nodes.iter().find(|row| row.node == name)
    }
}

impl From<&NodeRow> for Owner {
    fn from(row: &NodeRow) -> Owner {
        let NodeRow { node, pid, program, started_at, .. } = row.clone();
        Owner { node, pid, program, since: started_at }
    }
}
