//! When nodes unite: decided anew whenever something below their target ends, however it ends.
//!
//! A node that unites is created once for each state of its target, when everything below that
//! state is done. Counting makes that cheap: for each state of a target, and each node that unites
//! on it, we know how many states below are open and whether all that ended did so with success.
//!
//! Below a state is everything that was created by it, directly or not, other nodes that unite
//! included: those whose target lies below always, those on the same target only when they lead to
//! the node in question. So of two nodes that unite on the same target neither waits for the
//! other, unless one comes after the other.

use resurgam_core::Timestamp;

use super::{Book, StateId, Status};

/// The nearest state above that nodes unite on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    target: StateId,
    /// The node that unites on it through which the way led here, if it did.
    via: Option<usize>,
}

/// How far everything below a state is, for one node that unites on it.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    open: usize,
    all_success: bool,
    created: bool,
}

impl Default for Pending {
    fn default() -> Self {
        Pending { open: 0, all_success: true, created: false }
    }
}

impl Book {
    /// The scope of a child.
    pub(super) fn scope_below(&self, parent: StateId, node: usize) -> Option<Scope> {
        let state = self.state(parent);
        let uniting = &self.plan.nodes[state.node].uniting;
        if uniting.is_empty() {
            return state.scope;
        }
        Some(Scope { target: parent, via: Some(node).filter(|node| uniting.contains(node)) })
    }

    /// A state began: whoever unites above waits for it.
    pub(super) fn begins_below(&mut self, id: StateId) {
        self.above(id, |pending| pending.open += 1);
    }

    /// States ended: whoever unites above, or on them, may be created now. What unites on something
    /// deeper goes first, for others wait for it.
    pub(super) fn unite(&mut self, ended: &[StateId], now: Timestamp) {
        for id in ended {
            let success = self.state(*id).status == Status::Success;
            self.above(*id, |pending| {
                pending.open -= 1;
                pending.all_success &= success;
            });
        }
        for id in ended {
            self.create_uniting(*id, now);
        }
        // They come from one fan-out, so they have the same states above.
        let mut scope = ended.first().and_then(|id| self.state(*id).scope);
        while let Some(Scope { target, .. }) = scope {
            self.create_uniting(target, now);
            scope = self.state(target).scope;
        }
    }

    /// Creates what unites on a state and waits for nothing any more.
    fn create_uniting(&mut self, target: StateId, now: Timestamp) {
        if !self.state(target).followed {
            return;
        }
        let count = self.plan.nodes[self.state(target).node].uniting.len();
        for place in 0..count {
            let node = self.plan.nodes[self.state(target).node].uniting[place];
            let takes_all_done = self.plan.nodes[node].takes_all_done;
            // Asked each time: the one before may have been created, and be waited for.
            let pending = &mut self.state_mut(target).pending[place];
            let ready = pending.open == 0 && (takes_all_done || pending.all_success);
            if pending.created || !ready {
                continue;
            }
            pending.created = true;
            match self.uniting_inputs(node, target) {
                Ok(inputs) => self.create(node, Some(target), inputs, now),
                Err(what) => {
                    self.end_badly(target, Status::NextCreatedError, what);
                    self.above(target, |pending| pending.all_success = false);
                }
            }
        }
    }

    fn uniting_inputs(
        &self,
        node: usize,
        target: StateId,
    ) -> Result<std::collections::BTreeMap<String, String>, String> {
        match self.states_left() {
            0 => Err("a run cannot have more states".to_string()),
            _ => self.inputs(node, target),
        }
    }

    /// Changes what is known at every state above for every node that waits for this one.
    fn above(&mut self, id: StateId, mut change: impl FnMut(&mut Pending)) {
        let mut scope = self.state(id).scope;
        while let Some(Scope { target, via }) = scope {
            let state = &mut self.states[target.0];
            let uniting = &self.plan.nodes[state.node].uniting;
            for (node, pending) in uniting.iter().zip(&mut state.pending) {
                let waits = via.is_none_or(|via| self.plan.nodes[via].before.contains(node));
                if waits {
                    change(pending);
                }
            }
            scope = state.scope;
        }
    }
}
