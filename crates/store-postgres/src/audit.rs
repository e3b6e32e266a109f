//! What people and programs did, across instances.

use std::sync::Arc;

use resurgam_core::{Timestamp, Uid};
use resurgam_store::decode::{self, ACTION, AUDIT, Decoded};
use resurgam_store::quarantine::Table;
use resurgam_store::rows::ActionRow;
use resurgam_store::{Answer, Audit, AuditRange, AuditRow, Error, Result};

use crate::decode::Fetched;
use crate::encode::whole;
use crate::pool::Pool;
use crate::read::many;
use crate::statement::Statement;
use crate::store::PostgresStore;

impl Audit for PostgresStore {
    fn add_audit(&self, rows: Arc<[AuditRow]>, forget_before: Timestamp) -> Answer<'_, ()> {
        self.here(async move { add(self.pool(), &rows, forget_before).await })
    }

    fn audit(&self, range: AuditRange<String>) -> Answer<'_, Vec<AuditRow>> {
        self.here(async move { audit(self.pool(), &range).await })
    }

    fn newest_actions(&self, range: AuditRange<(Uid, String)>) -> Answer<'_, Vec<ActionRow>> {
        self.here(async move { newest_actions(self.pool(), &range).await })
    }
}

async fn add(pool: &Pool, rows: &[AuditRow], before: Timestamp) -> Result<()> {
    let sql = "WITH old AS (DELETE FROM @audit WHERE at < $9)
        INSERT INTO @audit (at, id, by, token, reason, kind, subject, told)
        SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[],
                             $6::text[], $7::text[], $8::text[])
                      AS u(at, id, by, token, reason, kind, subject, told)
        WHERE at >= $9
        ON CONFLICT DO NOTHING";
    let statement = Statement::rows("record what was done", sql)
        .bigs(rows.iter().map(|row| row.at.as_millis()))
        .texts(rows.iter().map(|row| row.id.as_str()))
        .texts(rows.iter().map(|row| row.by.as_str()))
        .maybe_texts(rows.iter().map(|row| row.token.as_deref()))
        .maybe_texts(rows.iter().map(|row| row.reason.as_deref()))
        .texts(rows.iter().map(|row| row.kind.as_str()))
        .texts(rows.iter().map(|row| row.subject.as_str()))
        .texts(rows.iter().map(|row| row.told.as_str()))
        .big(before.as_millis());
    pool.ask(statement).await.map(drop)
}

async fn audit(pool: &Pool, range: &AuditRange<String>) -> Result<Vec<AuditRow>> {
    let what = "read what was done";
    let sql = format!(
        "SELECT {AUDIT} FROM @audit
         WHERE at >= $1 AND at <= $2 AND (at < $2 OR id < $3)
         ORDER BY at DESC, id DESC LIMIT $4"
    );
    let (since, before) = times(range);
    let id = range.before.as_ref().and_then(|(_, id)| id.clone()).unwrap_or_default();
    let statement = Statement::rows(what, sql).big(since).big(before).text(id);
    let rows = pool.ask(statement.big(whole(range.limit as u64))).await?;
    let found: Decoded<Vec<AuditRow>> =
        rows.iter().map(|row| decode::audit(&Fetched(row))).collect();
    found.map_err(|why| Error::data(what).because(why))
}

async fn newest_actions(pool: &Pool, range: &AuditRange<(Uid, String)>) -> Result<Vec<ActionRow>> {
    let sql = format!(
        "SELECT {ACTION} FROM @action
         WHERE at >= $1 AND at <= $2 AND bad IS NULL
           AND (at < $2 OR ($3 = 1 AND (uid, id) < ($4::text::uuid, $5)))
         ORDER BY at DESC, uid DESC, id DESC LIMIT $6"
    );
    let (since, before) = times(range);
    let key = range.before.as_ref().and_then(|(_, key)| key.clone());
    let (is_keyed, (uid, id)) = (key.is_some(), key.unwrap_or((Uid(0), String::new())));
    let statement = Statement::rows("read what operators did", sql)
        .big(since)
        .big(before)
        .big(i64::from(is_keyed))
        .text(uid.to_string())
        .text(id)
        .big(whole(range.limit as u64));
    many(pool, Table::Action, statement, |row| decode::action(&row)).await
}

/// From when to when.
fn times<K>(range: &AuditRange<K>) -> (i64, i64) {
    let since = range.since.map_or(i64::MIN, Timestamp::as_millis);
    (since, range.before.as_ref().map_or(i64::MAX, |(at, _)| at.as_millis()))
}
