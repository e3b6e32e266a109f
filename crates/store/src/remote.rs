//! Remote workers as rows: which sessions there are, and which activities they have offered.
//!
//! A row of a session is what one server has heard from it, so that the others know that it is
//! there: two servers that hear from the same session write a row each. Sessions are no nodes: they
//! hold no shards, take no part in what nodes decide about each other, and there is a row for each
//! on a store of one node as well. What stands in the rows beside their keys and times is the
//! server's, as JSON.

use resurgam_core::Timestamp;

use crate::Answer;

/// Keeping what is known of remote workers.
pub trait RemoteWorkers {
    /// The sessions, by their ids and servers.
    fn worker_sessions(&self) -> Answer<'_, Vec<WorkerSession>>;

    /// The activities, by their names.
    fn remote_activities(&self) -> Answer<'_, Vec<RemoteActivity>>;

    /// Writes rows in the place of those with the same key, and deletes those that are older than
    /// somebody wants to know.
    fn write_remote_workers(&self, write: RemoteWrite) -> Answer<'_, ()>;
}

/// A session of a remote worker, as a server has heard from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSession {
    /// What the worker calls it.
    pub session: String,
    /// Which server wrote this: what it calls itself.
    pub server: String,
    /// When it was heard of last.
    pub heard_at: Timestamp,
    /// What else is known of it, as JSON.
    pub about: String,
}

/// An activity that remote workers have offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteActivity {
    /// Its name.
    pub name: String,
    /// When somebody offered it last.
    pub offered_at: Timestamp,
    /// What was said about it, as JSON.
    pub offer: String,
}

impl RemoteActivity {
    /// What calls of an activity lack that no worker offers now.
    pub fn lack(name: &str) -> String {
        format!("a worker for {name}")
    }
}

/// What is written about remote workers at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteWrite {
    /// Sessions that were heard of.
    pub sessions: Vec<WorkerSession>,
    /// Activities that were offered.
    pub activities: Vec<RemoteActivity>,
    /// Sessions go that were last heard of before this time.
    pub sessions_before: Option<Timestamp>,
    /// Activities go that were last offered before this time.
    pub activities_before: Option<Timestamp>,
}

impl RemoteWrite {
    /// True when it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == RemoteWrite::default()
    }
}
