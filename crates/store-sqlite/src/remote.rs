//! Remote workers: two tables that are read whole, and written a few rows at a time.

use resurgam_store::decode::{self, REMOTE_ACTIVITY, WORKER_SESSION};
use resurgam_store::{Answer, RemoteActivity, RemoteWorkers, RemoteWrite, Result, WorkerSession};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use crate::busy;
use crate::errors::Attempted;
use crate::read::Reading;
use crate::store::SqliteStore;

impl RemoteWorkers for SqliteStore {
    fn worker_sessions(&self) -> Answer<'_, Vec<WorkerSession>> {
        self.read(|| "read the sessions of workers".to_string(), sessions)
    }

    fn remote_activities(&self) -> Answer<'_, Vec<RemoteActivity>> {
        self.read(|| "read the activities of workers".to_string(), activities)
    }

    fn write_remote_workers(&self, write: RemoteWrite) -> Answer<'_, ()> {
        Box::pin(async move {
            match write.is_empty() {
                true => Ok(()),
                false => self.change_remote_workers(write).await,
            }
        })
    }
}

/// One after the other, so that one that cannot be read is an error that names it.
fn sessions(reading: &mut Reading<'_>) -> Result<Vec<WorkerSession>> {
    let sql = format!(
        "SELECT {WORKER_SESSION} FROM resurgam_worker_session
         WHERE (session, server) > (?1, ?2) ORDER BY session, server LIMIT 1"
    );
    let what = || "read the sessions of workers".to_string();
    let mut found: Vec<WorkerSession> = Vec::new();
    loop {
        let after = found.last().map_or(["", ""], |row| [&row.session, &row.server]);
        let next = reading.one(&sql, after, |row| decode::worker_session(&row), what)?;
        let Some(next) = next else { return Ok(found) };
        found.push(next);
    }
}

fn activities(reading: &mut Reading<'_>) -> Result<Vec<RemoteActivity>> {
    let sql = format!(
        "SELECT {REMOTE_ACTIVITY} FROM resurgam_remote_activity
         WHERE name > ?1 ORDER BY name LIMIT 1"
    );
    let what = || "read the activities of workers".to_string();
    let mut found: Vec<RemoteActivity> = Vec::new();
    loop {
        let after = found.last().map_or("", |row| &row.name);
        let next = reading.one(&sql, [after], |row| decode::remote_activity(&row), what)?;
        let Some(next) = next else { return Ok(found) };
        found.push(next);
    }
}

/// Writes rows, and deletes old ones, in one transaction.
pub(crate) fn write(connection: &Connection, write: &RemoteWrite) -> Result<()> {
    let written = write_all(connection, write).attempted(|| "keep what workers said".into());
    busy::served();
    written
}

fn write_all(connection: &Connection, write: &RemoteWrite) -> rusqlite::Result<()> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    for WorkerSession { session, server, heard_at, about } in &write.sessions {
        let sql = "INSERT INTO resurgam_worker_session (session, server, heard_at, about)
                   VALUES (?1, ?2, ?3, ?4) ON CONFLICT (session, server) DO UPDATE
                   SET heard_at = excluded.heard_at, about = excluded.about";
        let mut statement = transaction.prepare_cached(sql)?;
        statement.execute(params![session, server, heard_at.as_millis(), about])?;
    }
    for RemoteActivity { name, offered_at, offer } in &write.activities {
        let sql = "INSERT INTO resurgam_remote_activity (name, offered_at, offer)
                   VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE
                   SET offered_at = excluded.offered_at, offer = excluded.offer";
        let mut statement = transaction.prepare_cached(sql)?;
        statement.execute(params![name, offered_at.as_millis(), offer])?;
    }
    if let Some(before) = write.sessions_before {
        let sql = "DELETE FROM resurgam_worker_session WHERE heard_at < ?1";
        transaction.execute(sql, [before.as_millis()])?;
    }
    if let Some(before) = write.activities_before {
        let sql = "DELETE FROM resurgam_remote_activity WHERE offered_at < ?1";
        transaction.execute(sql, [before.as_millis()])?;
    }
    transaction.commit()
}
