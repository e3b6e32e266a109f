//! What follows from handling one input, and is done after it.
//!
//! A part of the node never calls one above it. What it has for such a part, it puts on this list;
//! when it is done with what it was told, the node takes the list from the front (`mod.rs`). So
//! nothing is entered again while it is half changed.

use resurgam_core::{CallKey, RunKey, Timestamp, Uid};

use super::Node;
use super::calls::slots::Ticket;
use super::input::Request;
use super::news::News;
use super::pending_action::PendingAction;

/// Something that follows from what was handled.
#[expect(clippy::large_enum_variant, reason = "most of it is news, and none of it is kept")]
#[derive(Debug)]
pub(crate) enum FollowUp {
    /// News for a run, wherever it is.
    Deliver(RunKey, News),
    /// The store can be read.
    StoreAnswers,
    /// A task that was left to the store is due at this time: it waits for a slot.
    TaskDue(Timestamp, CallKey, Ticket),
    /// Slots may be free: the tasks that are first in line get them.
    FillSlots,
    /// A slot is free that a task of another holder may want.
    SlotForShared,
    /// Tasks of other holders may begin that could not before.
    LookForShared,
    /// An operator acts on a run.
    ActOnRun(PendingAction),
    /// A run takes the result of a call that it has read from the store.
    ResultRead(CallKey),
    /// There are reports of attempts for an instance.
    HasReports(Uid),
    /// Shards were gained: everything in them is looked at, as after a restart.
    ShardsGained,
    /// A request that waited until it was known whether this node works.
    Request(Request),
    /// Requests that came too early may be taken now.
    TakeDeferred,
}

impl FollowUp {
    /// The request, if it is one.
    pub(crate) fn into_request(self) -> Option<Request> {
        match self {
            FollowUp::Request(request) => Some(request),
            _ => None,
        }
    }
}

impl Node {
    /// Has something done when this part of the node is done.
    pub(crate) fn then(&mut self, follow_up: FollowUp) {
        self.memory.follow_ups.push_back(follow_up);
    }
}
