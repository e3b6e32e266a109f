//! What is known of a run that is not in memory: the news that is on its way, and how often it was
//! tried again where it is blocked. What is done with such a run is in `unloaded.rs`.

use resurgam_core::{CallKey, Timestamp};
use resurgam_store::rows::RunRecord;

use crate::node::news::News;

/// A run that is not in memory, with news on its way.
#[derive(Debug, Default)]
pub(crate) struct UnloadedRun {
    /// How many pieces of news are on their way to the store.
    pub(super) storing: usize,
    /// The run is being read.
    pub(super) loading: bool,
    /// Messages came while it was being read: the read may have missed them.
    pub(super) missed: bool,
    /// An attempt of it turned out to be over meanwhile, or a call of it left memory: the read may
    /// say that an attempt runs.
    pub(super) outdated: bool,
    /// News that came while it was being read.
    pub(super) held: Vec<News>,
    /// Calls to look at when everything is stored.
    pub(super) to_look_at: Vec<CallKey>,
    /// What was read, while its history is replayed elsewhere.
    pub(super) replaying: Option<Box<RunRecord>>,
}

/// How often a blocked run was tried again, and when it is to be tried next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tries {
    pub(super) count: u32,
    pub(super) next: Timestamp,
    /// This process does not know its workflow, and never will.
    pub(super) waits_for_code: bool,
}

impl Tries {
    /// The next one is not before it is known when.
    pub(crate) fn after(count: u32) -> Self {
        Tries { count, next: Timestamp::from_millis(i64::MAX), waits_for_code: false }
    }

    /// The next occasion is one.
    pub(crate) fn now(&mut self) {
        self.next = Timestamp::EPOCH;
    }
}
