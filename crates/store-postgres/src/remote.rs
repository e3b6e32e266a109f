//! Remote workers: two tables that are read whole, and written a few rows at a time.

use resurgam_store::decode::{self, Decoded, REMOTE_ACTIVITY, WORKER_SESSION};
use resurgam_store::{
    Answer, Error, RemoteActivity, RemoteWorkers, RemoteWrite, Result, WorkerSession,
};

use crate::decode::Fetched;
use crate::pool::Pool;
use crate::statement::Statement;
use crate::store::PostgresStore;

impl RemoteWorkers for PostgresStore {
    fn worker_sessions(&self) -> Answer<'_, Vec<WorkerSession>> {
        self.here(sessions(self.pool()))
    }

    fn remote_activities(&self) -> Answer<'_, Vec<RemoteActivity>> {
        self.here(activities(self.pool()))
    }

    fn write_remote_workers(&self, write: RemoteWrite) -> Answer<'_, ()> {
        self.here(async move { change(self.pool(), &write).await })
    }
}

async fn sessions(pool: &Pool) -> Result<Vec<WorkerSession>> {
    let what = "read the sessions of workers";
    let sql = format!("SELECT {WORKER_SESSION} FROM @worker_session ORDER BY session, server");
    let rows = pool.ask(Statement::rows(what, sql)).await?;
    let found: Decoded<Vec<WorkerSession>> =
        rows.iter().map(|row| decode::worker_session(&Fetched(row))).collect();
    found.map_err(|why| Error::data(what).because(why))
}

async fn activities(pool: &Pool) -> Result<Vec<RemoteActivity>> {
    let what = "read the activities of workers";
    let sql = format!("SELECT {REMOTE_ACTIVITY} FROM @remote_activity ORDER BY name");
    let rows = pool.ask(Statement::rows(what, sql)).await?;
    let found: Decoded<Vec<RemoteActivity>> =
        rows.iter().map(|row| decode::remote_activity(&Fetched(row))).collect();
    found.map_err(|why| Error::data(what).because(why))
}

/// Writes rows, in the order of their keys so that two servers do not wait for each other, and
/// deletes old ones. A part that comes without the others does no harm.
async fn change(pool: &Pool, write: &RemoteWrite) -> Result<()> {
    let RemoteWrite { sessions, activities, sessions_before, activities_before } = write;
    let what = "keep what workers said";
    if !sessions.is_empty() {
        let mut rows: Vec<&WorkerSession> = sessions.iter().collect();
        rows.sort_by_key(|row| (&row.session, &row.server));
        let sql = "INSERT INTO @worker_session AS s (session, server, heard_at, about)
                   SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])
                   ON CONFLICT (session, server) DO UPDATE
                   SET heard_at = excluded.heard_at, about = excluded.about
                   RETURNING 1";
        let statement = Statement::rows(what, sql)
            .texts(rows.iter().map(|row| row.session.as_str()))
            .texts(rows.iter().map(|row| row.server.as_str()))
            .bigs(rows.iter().map(|row| row.heard_at.as_millis()))
            .texts(rows.iter().map(|row| row.about.as_str()));
        pool.ask(statement).await?;
    }
    if !activities.is_empty() {
        let mut rows: Vec<&RemoteActivity> = activities.iter().collect();
        rows.sort_by_key(|row| &row.name);
        let sql = "INSERT INTO @remote_activity AS a (name, offered_at, offer)
                   SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[])
                   ON CONFLICT (name) DO UPDATE
                   SET offered_at = excluded.offered_at, offer = excluded.offer
                   RETURNING 1";
        let statement = Statement::rows(what, sql)
            .texts(rows.iter().map(|row| row.name.as_str()))
            .bigs(rows.iter().map(|row| row.offered_at.as_millis()))
            .texts(rows.iter().map(|row| row.offer.as_str()));
        pool.ask(statement).await?;
    }
    if let Some(before) = sessions_before {
        let sql = "DELETE FROM @worker_session WHERE heard_at < $1 RETURNING 1";
        pool.ask(Statement::rows(what, sql).big(before.as_millis())).await?;
    }
    if let Some(before) = activities_before {
        let sql = "DELETE FROM @remote_activity WHERE offered_at < $1 RETURNING 1";
        pool.ask(Statement::rows(what, sql).big(before.as_millis())).await?;
    }
    Ok(())
}
