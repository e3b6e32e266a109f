//! Nodes, the shards that they hold, and the fence that keeps out who was overtaken.
//!
//! A node joins under a name that nobody had before, takes shards that nobody holds, and leaves.
//! Taking a shard raises its epoch. A commit of a node names the epochs that it took its shards
//! with, and is refused when one of them is no longer the present one. When a node leaves is for
//! others to decide: the model knows no clock, so it takes nobody for dead.

use std::collections::BTreeMap;

use resurgam_core::{Shard, Uid};

use super::shard_set::ShardSet;
use super::{Model, Sharing};
use crate::fleet::Fence;
use crate::rows::Owner;
use crate::{
    Error, GateWrite, InstanceWrite, LetterWrite, MessageWrite, Node, Result, Step, TaskWrite,
};

/// Who commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Writer {
    /// Through a store that nobody has owned yet: everything is written.
    #[default]
    Anybody,
    /// Who does not work, or not any more: steps that only an owner can write are refused.
    Client,
    /// A node that works: what only an owner can write is refused outside of its shards.
    Node(Fence),
}

/// The nodes that are there, and who holds what.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    nodes: BTreeMap<String, Member>,
    shards: BTreeMap<Shard, Holding>,
}

#[derive(Clone, Debug)]
struct Member {
    node: Node,
    process: Owner,
}

/// Who holds a shard, and how often it was taken.
#[derive(Clone, Debug, Default)]
struct Holding {
    node: Option<String>,
    epoch: i64,
}

impl Members {
    /// Whether a node is there.
    pub(super) fn has(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// The node that holds a shard, if it is there.
    pub(super) fn holder(&self, shard: Shard) -> Option<&Node> {
        let holder = self.shards.get(&shard)?.node.as_deref()?;
        self.nodes.get(holder).map(|member| &member.node)
    }

    /// Whether some node serves chosen queues only.
    pub(super) fn leave_tasks(&self) -> bool {
        self.nodes.values().any(|member| member.node.queues.is_some())
    }

    fn holds(&self, node: &str, shard: Shard, epoch: i64) -> bool {
        self.shards
            .get(&shard)
            .is_some_and(|holding| holding.node.as_deref() == Some(node) && holding.epoch == epoch)
    }
}

impl Model {
    /// A node begins to work; it holds nothing yet. `process` is what others are told about it.
    /// Where one node works and another one is there, nothing changes and that one is the answer.
    pub fn join(&mut self, node: Node, process: Owner) -> Option<Owner> {
        if self.sharing == Sharing::OneNode
            && let Some(member) = self.members.nodes.values().next()
        {
            return Some(member.process.clone());
        }
        self.members.nodes.insert(node.name.clone(), Member { node, process });
        None
    }

    /// A node is gone, or others have taken it for dead; its shards are free.
    pub fn leave(&mut self, node: &str) {
        self.members.nodes.remove(node);
        for holding in self.members.shards.values_mut() {
            holding.node.take_if(|holder| holder == node);
        }
    }

    /// Takes those of these shards that nobody holds, for a node that is there; answers with them
    /// and their new epochs. What is the node's own is taken once more: the answer of the first
    /// time may have been lost.
    pub fn take(
        &mut self,
        node: &str,
        shards: impl IntoIterator<Item = Shard>,
    ) -> Vec<(Shard, i64)> {
        let Members { nodes, shards: held } = &mut self.members;
        if !nodes.contains_key(node) {
            return Vec::new();
        }
        let mut taken = Vec::new();
        for shard in shards {
            let holding = held.entry(shard).or_default();
            let is_another =
                |holder: &String| holder != node && nodes.contains_key(holder.as_str());
            if holding.node.as_ref().is_some_and(is_another) {
                continue;
            }
            holding.node = Some(node.to_string());
            holding.epoch += 1;
            taken.push((shard, holding.epoch));
        }
        taken
    }

    /// Gives up those of these shards that are the node's.
    pub fn release(&mut self, node: &str, shards: impl IntoIterator<Item = Shard>) {
        for shard in shards {
            if let Some(holding) = self.members.shards.get_mut(&shard) {
                holding.node.take_if(|holder| holder == node);
            }
        }
    }

    /// The nodes that are there.
    pub fn nodes(&self) -> impl Iterator<Item = (&Node, &Owner)> {
        self.members.nodes.values().map(|member| (&member.node, &member.process))
    }

    /// Every shard that was ever taken, who holds it, and its epoch.
    pub fn holdings(&self) -> impl Iterator<Item = (Shard, Option<&str>, i64)> {
        let shards = self.members.shards.iter();
        shards.map(|(shard, holding)| (*shard, holding.node.as_deref(), holding.epoch))
    }

    /// What is told about a node that is there.
    pub fn process_of(&self, node: &str) -> Option<&Owner> {
        self.members.nodes.get(node).map(|member| &member.process)
    }

    /// A node that is there and holds something.
    pub fn owner(&self) -> Option<&Owner> {
        let mut holders =
            self.members.shards.values().filter_map(|holding| holding.node.as_deref());
        holders.find_map(|node| self.process_of(node))
    }
}

/// Refuses a batch with a step that is not the writer's to write.
pub(super) fn check_writer(members: &Members, writer: &Writer, batch: &[Step]) -> Result<()> {
    match writer {
        Writer::Anybody => Ok(()),
        Writer::Client if batch.iter().any(Step::is_an_owners) => {
            Err(Error::fenced("this node does not work on it any more"))
        }
        Writer::Client => Ok(()),
        Writer::Node(fence) => {
            let mut owned = ShardSet::default();
            batch.iter().for_each(|step| add_owned(step, &mut owned));
            let is_held = |shard: &Shard| {
                let epoch = fence.epoch(*shard);
                epoch.is_some_and(|epoch| members.holds(fence.node(), *shard, epoch))
            };
            match owned.iter().find(|shard| !is_held(shard)) {
                None => Ok(()),
                Some(shard) => Err(Error::fenced(format!(
                    "node {} does not own shard {shard} any more",
                    fence.node()
                ))),
            }
        }
    }
}

/// Adds the shards whose holder alone may write what a step writes there. Anybody may start
/// something and send messages.
fn add_owned(step: &Step, owned: &mut ShardSet) {
    let instance = step.instance.iter().filter(|write| {
        !matches!(write, InstanceWrite::Insert { .. } | InstanceWrite::Open { .. })
    });
    let messages = step
        .messages
        .iter()
        .filter(|write| !matches!(write, MessageWrite::Insert(_) | MessageWrite::InsertIfOpen(_)));
    let letters = step.letters.iter().filter(|write| matches!(write, LetterWrite::Insert(_)));
    let uids = instance
        .map(InstanceWrite::uid)
        .chain(step.events.iter().map(|(run, _)| run.uid))
        .chain(step.rewind.iter().map(|rewind| rewind.from.uid))
        .chain(step.tasks.iter().map(TaskWrite::uid))
        .chain(messages.map(MessageWrite::uid))
        .chain(step.attempts.iter().map(|row| row.call.run.uid))
        .chain(step.actions.iter().map(|row| row.call.run.uid))
        .chain(letters.map(|write| write.call().run.uid))
        .chain(step.kv.iter().map(|row| row.uid));
    uids.map(Uid::shard).for_each(|shard| owned.insert(shard));
    if step.gates.iter().any(GateWrite::is_the_deciders) {
        owned.insert(GateWrite::DECIDER);
    }
}
