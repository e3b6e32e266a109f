//! Asking the store: a question goes out with a stamp, and its answer is an input.

use std::time::Duration;

use resurgam_core::Uid;

use super::Node;
use super::output::Output;
use super::read::{AGAIN, Read, Stamp};

impl Node {
    /// Asks the store. The answer is worth nothing when the role has changed meanwhile.
    pub(crate) fn read(&mut self, read: Read) {
        self.read_stamped(read, Duration::ZERO, Some(self.stamp()));
    }

    /// Asks the store about an instance. The answer is worth nothing when the shard has changed
    /// hands meanwhile.
    pub(crate) fn read_of(&mut self, uid: Uid, read: Read) {
        let stamp = self.stamp_of(uid);
        self.read_stamped(read, Duration::ZERO, Some(stamp));
    }

    /// Asks the store again, after a while.
    pub(crate) fn read_later(&mut self, read: Read) {
        self.read_stamped(read, AGAIN, Some(self.stamp()));
    }

    /// Asks the store again about an instance, after a while.
    pub(crate) fn read_later_of(&mut self, uid: Uid, read: Read) {
        let stamp = self.stamp_of(uid);
        self.read_stamped(read, AGAIN, Some(stamp));
    }

    /// Asks the store; the answer counts whatever happens meanwhile, when there is no stamp.
    pub(crate) fn read_stamped(&mut self, read: Read, after: Duration, stamp: Option<Stamp>) {
        self.outputs.push(Output::Read { read, after, stamp });
    }

    /// The store did not answer a question that somebody depends on.
    pub(crate) fn unanswered(&mut self, read: Read, stamp: Option<Stamp>) {
        self.read_stamped(read, AGAIN, stamp);
    }

    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { tenure: self.tenure, shard: None }
    }

    fn stamp_of(&self, uid: Uid) -> Stamp {
        let shard = Some((uid.shard(), self.memory.shards.tenure(uid.shard())));
        Stamp { tenure: self.tenure, shard }
    }
}
