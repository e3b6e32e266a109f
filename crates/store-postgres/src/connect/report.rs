//! What a server says about itself: asked once for every connection, in one round trip.
//!
//! All that is asked for is anybody's to ask, also for a role that may do nothing else. A service
//! that does not offer one of the functions is asked for less; then its timeline is not known.

use resurgam_store::fleet::{
    MarkRead, PrimaryMemory, Purpose, ServerAccess, ServerIdentity, ServerReport, TimelineMark,
};
use tokio_postgres::{Client, Error, Row};

use crate::errors::{Meaning, meaning, said};
use crate::statement::{Schema, Sent, Statement, pipeline};

/// The first eight digits of the name of a WAL file are the timeline. What the control file says
/// about it lags behind a promotion.
const REPORT: &str = "
    SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
           (SELECT system_identifier FROM pg_control_system()),
           pg_postmaster_start_time()::text,
           CASE WHEN pg_is_in_recovery() THEN NULL
                ELSE pg_walfile_name(pg_current_wal_lsn()) END,
           EXISTS (SELECT 1 FROM pg_catalog.pg_extension WHERE extname = 'citus')";

const ROLE: &str = "SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on'";

const MARK: &str = "SELECT system, timeline, mark FROM @meta";

/// Nothing waits for a standby here: should the mark be lost, the next timeline gets another one.
const BEGIN_TO_MARK: &str = "BEGIN ISOLATION LEVEL READ COMMITTED;
    SET LOCAL synchronous_commit = local; SET LOCAL lock_timeout = '1s'";

/// The first one counts. Behind a pooler another server may answer by now, which gets no mark.
const LEAVE_MARK: &str = "
    UPDATE @meta SET system = $1, timeline = $2, mark = $3
    WHERE (system IS DISTINCT FROM $1 OR timeline IS NULL OR timeline < $2)
      AND left(pg_walfile_name(pg_current_wal_lsn()), 8) = $4";

/// Asks a server about itself, and whether the tables may be spread over others by Citus. An error
/// is trouble that may pass: a server that could not tell just now has not told that it cannot.
pub(super) async fn report(
    client: &Client,
    schema: &Schema,
) -> Result<(ServerReport, bool), Error> {
    let questions =
        [Statement::rows("look at the server", REPORT), Statement::rows("read the mark", MARK)];
    let sent = questions.each_ref().map(Sent::Values);
    let mut answers = pipeline(client, schema, &sent).await.into_iter();
    let mut next = || answers.next().unwrap_or_else(|| Ok(Vec::new()));
    let mut is_distributed = false;
    let told = match next() {
        Ok(rows) => {
            is_distributed = rows.first().is_some_and(|row| row.try_get(5).unwrap_or(false));
            rows.first().and_then(identified)
        }
        Err(error) if may_pass(&error) => return Err(error),
        Err(error) => {
            tracing::debug!(error = said(&error), "a server does not tell its timeline");
            let less = Statement::rows("look at the server", ROLE);
            match crate::statement::query(client, schema, &less).await {
                Ok(rows) => rows.first().and_then(access).map(|access| (access, None)),
                Err(error) if may_pass(&error) => return Err(error),
                Err(_) => None,
            }
        }
    };
    let mark = match next() {
        Ok(rows) => rows.first().map_or(MarkRead::Missing, mark),
        Err(error) if may_pass(&error) => return Err(error),
        Err(_) => MarkRead::Unreadable,
    };
    let report = match told {
        Some((access, identity)) => ServerReport { access, identity, mark },
        None => ServerReport::unknown(),
    };
    Ok((report, is_distributed))
}

fn may_pass(error: &Error) -> bool {
    matches!(meaning(error), Meaning::Lost | Meaning::Transient)
}

/// Leaves a mark where there should be one. Who may not does without.
pub(super) async fn leave_mark(
    client: &Client,
    schema: &Schema,
    memory: &PrimaryMemory,
    purpose: Purpose,
    server: &mut ServerReport,
) {
    let Some(ServerIdentity { system, timeline: Some(timeline), .. }) = server.identity else {
        return;
    };
    if purpose != Purpose::Work || !memory.should_mark(server) {
        return;
    }
    let name = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
    let leave = Statement::rows("mark a timeline", LEAVE_MARK)
        .big(system)
        .big(i64::from(timeline))
        .text(name)
        .text(format!("{timeline:08X}"));
    let read = Statement::rows("read the mark", MARK);
    let sent = [
        Sent::Plain(BEGIN_TO_MARK),
        Sent::Values(&leave),
        Sent::Values(&read),
        Sent::Plain("COMMIT"),
    ];
    let answers: Result<Vec<Vec<Row>>, Error> =
        pipeline(client, schema, &sent).await.into_iter().collect();
    match answers {
        Ok(answers) => {
            if let Some(row) = answers.get(2).and_then(|rows| rows.first()) {
                server.mark = mark(row);
            }
        }
        Err(error) => tracing::debug!(error = said(&error), "a timeline could not be marked"),
    }
}

fn identified(row: &Row) -> Option<(ServerAccess, Option<ServerIdentity>)> {
    let access = access(row)?;
    let identity = || {
        let file: Option<&str> = row.try_get(4).ok()?;
        let timeline = |name: &str| u32::from_str_radix(name.get(..8)?, 16).ok();
        Some(ServerIdentity {
            system: row.try_get(2).ok()?,
            timeline: file.and_then(timeline),
            started: row.try_get(3).ok()?,
        })
    };
    Some((access, identity()))
}

fn access(row: &Row) -> Option<ServerAccess> {
    Some(match (row.try_get(0).ok()?, row.try_get(1).ok()?) {
        (true, _) => ServerAccess::Standby,
        (false, true) => ServerAccess::ReadOnly,
        (false, false) => ServerAccess::Writable,
    })
}

fn mark(row: &Row) -> MarkRead {
    let found = || {
        let timeline: Option<i64> = row.try_get(1).ok()?;
        Some(TimelineMark {
            system: row.try_get::<_, Option<i64>>(0).ok()??,
            timeline: u32::try_from(timeline?).ok()?,
            name: row.try_get::<_, Option<String>>(2).ok()??,
        })
    };
    found().map_or(MarkRead::Missing, MarkRead::Found)
}
