//! Remote workers.

use super::Model;
use crate::{RemoteActivity, RemoteWrite, WorkerSession};

impl Model {
    /// The sessions of remote workers, by their ids and servers.
    pub fn worker_sessions(&self) -> Vec<WorkerSession> {
        self.tables.worker_sessions.map().values().cloned().collect()
    }

    /// The activities that remote workers have offered, by their names.
    pub fn remote_activities(&self) -> Vec<RemoteActivity> {
        self.tables.remote_activities.map().values().cloned().collect()
    }

    /// Writes what is known of remote workers, and deletes what is old.
    pub fn write_remote_workers(&mut self, write: RemoteWrite) {
        let RemoteWrite { sessions, activities, sessions_before, activities_before } = write;
        let rows = &mut self.tables.worker_sessions;
        for row in sessions {
            rows.put((row.session.clone(), row.server.clone()), Some(row));
        }
        let is_old = |row: &&WorkerSession| sessions_before.is_some_and(|at| row.heard_at < at);
        let old = rows.map().values().filter(is_old);
        let old: Vec<_> = old.map(|row| (row.session.clone(), row.server.clone())).collect();
        for key in old {
            rows.put(key, None);
        }
        let rows = &mut self.tables.remote_activities;
        for row in activities {
            rows.put(row.name.clone(), Some(row));
        }
        let is_old =
            |row: &&RemoteActivity| activities_before.is_some_and(|at| row.offered_at < at);
        let old: Vec<String> =
            rows.map().values().filter(is_old).map(|row| row.name.clone()).collect();
        for name in old {
            rows.put(name, None);
        }
    }
}
