//! What this node may do, and for whom: the questions that all its parts ask.

use resurgam_core::Uid;
use resurgam_store::Runnable;
use resurgam_store::rows::TaskRow;

use super::Node;
use super::calls::hot_call::HotCall;

/// What this node is to the store.
#[derive(Debug)]
pub(crate) enum Role {
    /// That is not known yet.
    Asking,
    /// Somebody else works, or nobody.
    Client,
    /// It works.
    Owner,
}

impl Node {
    /// True when attempts may begin: not while others may take this node for dead, and not before
    /// it is known what gates let.
    pub(crate) fn may_begin(&self) -> bool {
        let is_known = self.memory.slots.gates().is_read();
        self.stopping.is_none() && self.may_begin_now && is_known
    }

    pub(crate) fn is_owner(&self) -> bool {
        matches!(self.role, Role::Owner)
    }

    /// True when attempts of a queue run here.
    pub(crate) fn serves(&self, queue: &str) -> bool {
        let queues = self.options.queues.as_ref();
        queues.is_none_or(|queues| queues.iter().any(|served| served == queue))
    }

    /// What can be run here.
    pub(crate) fn runnable(&self) -> Runnable {
        let activities = Some(self.registry.activity_names());
        let provides = match self.registry.provides() {
            more if more.is_empty() => self.options.provides.clone(),
            more => self.options.provides.iter().cloned().chain(more).collect(),
        };
        let provides = Some(provides);
        let queues = self.options.queues.clone();
        let gates = self.memory.slots.gates();
        let (gates, paused) = (gates.scope(), gates.paused());
        Runnable { activities, queues, provides, gates, paused, no_poison: false, probing: false }
    }

    /// True when this node leaves a task to others, and claims it only as they do: it does not
    /// serve its queue, or somebody found that it lacks something. On a store of one node nobody
    /// else could take it.
    pub(crate) fn leaves(&self, task: &TaskRow) -> bool {
        let lacks = task.claim.is_none() && task.progress.lacks.is_some();
        !self.serves(&task.queue) || (lacks && self.is_shared)
    }

    /// What is missing here to run a call whose activity is known.
    pub(crate) fn lacks(&self, call: &HotCall) -> Option<String> {
        self.registry.activity(&call.task().name)?.lacks(call.input())
    }

    /// True when this node works on an instance.
    pub(crate) fn owns(&self, uid: Uid) -> bool {
        self.memory.shards.owns(uid.shard())
    }
}
