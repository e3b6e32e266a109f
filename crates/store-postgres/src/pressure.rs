//! How attempts ended, by the minute: one statement adds what was counted and deletes what is old.

use std::sync::Arc;

use resurgam_core::Timestamp;
use resurgam_store::decode::{self, Decoded};
use resurgam_store::{Answer, Error, Pressure, PressureRange, PressureRow, Result};

use crate::decode::Fetched;
use crate::encode::whole;
use crate::pool::Pool;
use crate::statement::Statement;
use crate::store::PostgresStore;

impl Pressure for PostgresStore {
    fn add_pressure(&self, rows: Arc<[PressureRow]>, forget_before: Timestamp) -> Answer<'_, ()> {
        self.here(async move { add(self.pool(), &rows, forget_before).await })
    }

    fn pressure(&self, range: PressureRange) -> Answer<'_, Vec<PressureRow>> {
        self.here(async move { counted(self.pool(), &range).await })
    }
}

async fn add(pool: &Pool, rows: &[PressureRow], before: Timestamp) -> Result<()> {
    // In the order of the key: two nodes that add to the same rows wait for each other, and never
    // each for the other.
    let sql = "WITH old AS (DELETE FROM @pressure WHERE minute < $8)
        INSERT INTO @pressure AS p (minute, activity, failure_type, failures, retries, exhausted,
                                    successes)
        SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[],
                             $6::bigint[], $7::bigint[])
                      AS u(minute, activity, failure_type, failures, retries, exhausted, successes)
        WHERE minute >= $8
        ORDER BY minute, activity COLLATE \"C\", failure_type COLLATE \"C\"
        ON CONFLICT (minute, activity, failure_type) DO UPDATE SET
            failures = p.failures + excluded.failures, retries = p.retries + excluded.retries,
            exhausted = p.exhausted + excluded.exhausted,
            successes = p.successes + excluded.successes";
    let statement = Statement::rows("add what was counted of attempts", sql)
        .bigs(rows.iter().map(|row| row.at.as_millis()))
        .texts(rows.iter().map(|row| row.activity.as_str()))
        .texts(rows.iter().map(|row| row.failure_type.as_str()))
        .bigs(rows.iter().map(|row| whole(row.counts.failures)))
        .bigs(rows.iter().map(|row| whole(row.counts.retries)))
        .bigs(rows.iter().map(|row| whole(row.counts.exhausted)))
        .bigs(rows.iter().map(|row| whole(row.counts.successes)))
        .big(before.as_millis());
    pool.ask(statement).await.map(drop)
}

async fn counted(pool: &Pool, range: &PressureRange) -> Result<Vec<PressureRow>> {
    let what = "read what was counted of attempts";
    let sql = "SELECT minute - minute % $3 AS step, activity, failure_type, sum(failures)::bigint,
                      sum(retries)::bigint, sum(exhausted)::bigint, sum(successes)::bigint
               FROM @pressure
               WHERE minute >= $1 AND minute < $2 AND ($4::text IS NULL OR activity = $4)
               GROUP BY step, activity, failure_type ORDER BY step, activity, failure_type
               LIMIT $5";
    let PressureRange { from, to, activity, limit, .. } = range;
    let statement = Statement::rows(what, sql)
        .big(from.as_millis())
        .big(to.as_millis())
        .big(range.step_ms())
        .maybe_text(activity.as_deref())
        .big(whole(*limit as u64));
    let rows = pool.ask_widely(statement).await?;
    let found: Decoded<Vec<PressureRow>> =
        rows.iter().map(|row| decode::pressure(&Fetched(row))).collect();
    found.map_err(|why| Error::data(what).because(why))
}
