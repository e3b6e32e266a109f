//! Reads: everything that is asked of the store and answered by a message.
//!
//! A node says what it wants to know ([`Read`]) and goes on; the driver asks the store beside it
//! (`reads.rs`), and the answer comes back as an [`Input`](super::Input). Trouble with the store
//! means asking again later, never a decision: what is asked until it is answered comes back as
//! [`Input::Unanswered`](super::Input::Unanswered) and is asked again, everything else is for
//! whoever gets the answer.
//!
//! What was read in another tenure, or of a shard that has changed hands since, is worth nothing:
//! an answer carries the [`Stamp`] of its question.

use std::sync::Arc;
use std::time::Duration;

use resurgam_core::{CallKey, Shard, Timestamp, Uid};
use resurgam_store::{InboxRow, Runnable};

use super::load::AGAIN;
use super::output::Output;
use super::{Node, Stamp};

/// Something that is asked of the store.
#[derive(Clone, Debug)]
pub enum Read {
    /// A run with everything that a turn needs.
    Run(Uid),
    /// A task with everything that an attempt needs.
    Task(CallKey),
    /// A task whose outcome was lost in this process.
    LostTask(CallKey),
    /// What is due soon.
    DueSoon(Runnable),
    /// Tasks that wait, whoever can run them.
    Waiting(Runnable),
    /// Claims of nodes that are gone; not those of this one.
    Abandoned { node: String },
    /// Runs that could not go on, after this one.
    HeldUp { after: Option<Uid> },
    /// Instances that have messages which are due.
    DueMessages { until: Timestamp },
    /// The messages of an instance that are due. The number tells one read from the next.
    MessagesOf { uid: Uid, read: u64, until: Timestamp },
    /// What attempts elsewhere have reported to an instance.
    Reports { uid: Uid, until: Timestamp },
    /// Those of the instances that are closed, and those that are gone.
    Ends { uids: Arc<[Uid]> },
    /// Whether an instance is closed.
    End(Uid),
    /// The tasks of these calls, in any shard, whose attempts have these tokens.
    Wanted { attempts: Arc<[(CallKey, u64)]> },
    /// Claims tasks that others leave, at most so many.
    ClaimShared { node: String, runnable: Runnable, now: Timestamp, limit: usize },
    /// The tasks that were claimed: nobody else would run them.
    Claimed { calls: Arc<[CallKey]>, next: Option<Timestamp>, asked: usize },
    /// Claims a call so that nobody else can, or finds that somebody has.
    SettleShared { node: String, call: CallKey, now: Timestamp },
    /// The schedules that are due.
    DueSchedules { now: Timestamp },
    /// Schedules that wait for something else than the time, from an id on.
    WaitingSchedules { after: String },
    /// One schedule.
    Schedule(String),
    /// What others have inserted.
    Inbox,
    /// Who has the id that a row of the inbox names.
    Addressee(InboxRow),
    /// Takes shards that nobody holds.
    Take(Arc<[Shard]>),
    /// Gives shards up.
    Release(Arc<[Shard]>),
}

impl Node {
    /// Asks the store. The answer is worth nothing when the role has changed meanwhile.
    pub(super) fn read(&mut self, read: Read) {
        self.read_stamped(read, Duration::ZERO, Some(self.stamp()));
    }

    /// Asks the store about an instance. The answer is worth nothing when the shard has changed
    /// hands meanwhile.
    pub(super) fn read_of(&mut self, uid: Uid, read: Read) {
        let stamp = self.stamp_of(uid);
        self.read_stamped(read, Duration::ZERO, Some(stamp));
    }

    /// Asks the store again, after a while.
    pub(super) fn read_later(&mut self, read: Read) {
        self.read_stamped(read, AGAIN, Some(self.stamp()));
    }

    /// Asks the store again about an instance, after a while.
    pub(super) fn read_later_of(&mut self, uid: Uid, read: Read) {
        let stamp = self.stamp_of(uid);
        self.read_stamped(read, AGAIN, Some(stamp));
    }

    /// Asks the store; the answer counts whatever happens meanwhile, when there is no stamp.
    pub(super) fn read_stamped(&mut self, read: Read, after: Duration, stamp: Option<Stamp>) {
        self.outputs.push(Output::Read { read, after, stamp });
    }

    /// The store did not answer a question that somebody depends on.
    pub(super) fn unanswered(&mut self, read: Read, stamp: Option<Stamp>) {
        self.read_stamped(read, AGAIN, stamp);
    }

    fn stamp(&self) -> Stamp {
        Stamp { tenure: self.tenure, shard: None }
    }

    fn stamp_of(&self, uid: Uid) -> Stamp {
        let shard = Some((uid.shard(), self.memory.shards.tenure(uid.shard())));
        Stamp { tenure: self.tenure, shard }
    }
}
