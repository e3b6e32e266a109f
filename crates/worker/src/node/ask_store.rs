//! Asking the store: a request goes out with a stamp, and its answer is an input.

use std::time::Duration;

use resurgam_core::Uid;

use super::Node;
use super::output::Output;
use super::store_request::{AGAIN, Stamp, StoreRequest};

impl Node {
    /// Asks the store. The answer is worth nothing when the role has changed meanwhile.
    pub(crate) fn ask_store(&mut self, request: StoreRequest) {
        self.ask_store_stamped(request, Duration::ZERO, Some(self.stamp()));
    }

    /// Asks the store about an instance. The answer is worth nothing when the shard has changed
    /// hands meanwhile.
    pub(crate) fn ask_store_of(&mut self, uid: Uid, request: StoreRequest) {
        let stamp = self.stamp_of(uid);
        self.ask_store_stamped(request, Duration::ZERO, Some(stamp));
    }

    /// Asks the store again, after a while.
    pub(crate) fn ask_store_later(&mut self, request: StoreRequest) {
        self.ask_store_stamped(request, AGAIN, Some(self.stamp()));
    }

    /// Asks the store again about an instance, after a while.
    pub(crate) fn ask_store_later_of(&mut self, uid: Uid, request: StoreRequest) {
        let stamp = self.stamp_of(uid);
        self.ask_store_stamped(request, AGAIN, Some(stamp));
    }

    /// Asks the store; the answer counts whatever happens meanwhile, when there is no stamp.
    pub(crate) fn ask_store_stamped(
        &mut self,
        request: StoreRequest,
        after: Duration,
        stamp: Option<Stamp>,
    ) {
        self.outputs.push(Output::AskStore { request, after, stamp });
    }

    /// The store did not answer a request that somebody depends on.
    pub(crate) fn unanswered(&mut self, request: StoreRequest, stamp: Option<Stamp>) {
        self.ask_store_stamped(request, AGAIN, stamp);
    }

    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { tenure: self.tenure, shard: None }
    }

    pub(crate) fn stamp_of(&self, uid: Uid) -> Stamp {
        let shard = Some((uid.shard(), self.memory.shards.tenure(uid.shard())));
        Stamp { tenure: self.tenure, shard }
    }
}
