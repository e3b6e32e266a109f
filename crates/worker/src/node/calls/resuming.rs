//! Attempts that outlive the process which began them, because processes of somebody else run them
//! ([`ActivityDefinition::outlives`](resurgam_sdk::ActivityDefinition::outlives)).
//!
//! | what happens                        | what follows                                        |
//! |-------------------------------------|-----------------------------------------------------|
//! | the claim of such an attempt is     | the claim becomes this node's, with the same token  |
//! | found, and its node is gone         | and number; then its activity waits for it again,   |
//! |                                     | and says by and by that it ended, or is lost        |
//! | this node stops                     | its activity lets go of it: the claim stays as it   |
//! |                                     | is, for whoever works on the shard next             |
//!
//! The step that takes a claim over is the only one that is written for this, and nothing is while
//! all is well.

use std::sync::Arc;

use resurgam_core::CallKey;
use resurgam_sdk::ActivityDefinition;
use resurgam_store::rows::TaskRow;
use resurgam_store::{Step, TaskWrite};

use crate::node::Node;
use crate::node::steps::effect::Effect;

impl Node {
    /// True when the attempt that a task is claimed for may go on although its node is gone.
    pub(crate) fn outlives_its_node(&self, task: &TaskRow) -> bool {
        let is_run = task.claim.is_some() && !task.progress.to_end;
        is_run && task.progress.remote && self.registry.resumed(&task.name).is_some()
    }

    /// Makes the claim of a node that is gone this one's. The attempt is waited for when that is
    /// durable.
    pub(crate) fn take_claim_over(&mut self, key: CallKey) {
        let node = self.name.clone();
        let Some(call) = self.memory.calls.get_mut(key) else { return };
        let Some(claim) = &mut call.task.claim else { return };
        claim.node = node;
        call.resumed = true;
        let task = call.task.clone();
        // It runs already, whether or not there is a slot for it.
        let mut slot = self.memory.slots.take_now(&task);
        slot.iter_mut().for_each(|slot| self.memory.slots.begins(slot, &task));
        if let Some(call) = self.memory.calls.get_mut(key) {
            call.slot = slot;
        }
        let step = Step { tasks: vec![TaskWrite::Update(task)], ..Step::default() };
        self.outbox.push(step, vec![Effect::Resume(key)]);
    }

    /// Waits for an attempt that a process before this one has begun.
    pub(crate) fn wait_for_attempt(&mut self, key: CallKey, activity: Arc<ActivityDefinition>) {
        let Some(mut call) = self.memory.calls.hot.remove(key) else { return };
        self.run_attempt(&mut call, activity);
        let is_to_end = call.task.progress.cancelled;
        self.memory.calls.hot.insert(key, call);
        if is_to_end {
            self.tell_attempt(key);
        }
    }

    /// The attempt of a call goes on without this process: its claim stays as it is stored.
    pub(crate) fn leave_running(&mut self, key: CallKey) {
        self.free_slot(key);
        drop(self.take_call(key));
    }
}
