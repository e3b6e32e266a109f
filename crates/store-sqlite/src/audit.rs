//! What people and programs did, across instances.

use std::sync::Arc;

use resurgam_core::{Timestamp, Uid};
use resurgam_store::decode::{self, ACTION, AUDIT};
use resurgam_store::quarantine::Table;
use resurgam_store::rows::ActionRow;
use resurgam_store::{Answer, Audit, AuditRange, AuditRow, Result};
use rusqlite::{Connection, params};

use crate::errors::Attempted;
use crate::read::Reading;
use crate::store::SqliteStore;

impl Audit for SqliteStore {
    fn add_audit(&self, rows: Arc<[AuditRow]>, forget_before: Timestamp) -> Answer<'_, ()> {
        Box::pin(async move {
            let change = move |connection: &Connection| add(connection, &rows, forget_before);
            self.change_apart("record what was done", change).await.map(drop)
        })
    }

    fn audit(&self, range: AuditRange<String>) -> Answer<'_, Vec<AuditRow>> {
        self.read(|| "read what was done".to_string(), move |reading| audit(reading, &range))
    }

    fn newest_actions(&self, range: AuditRange<(Uid, String)>) -> Answer<'_, Vec<ActionRow>> {
        let what = || "read what operators did".to_string();
        self.read(what, move |reading| newest_actions(reading, &range))
    }
}

fn add(connection: &Connection, rows: &[AuditRow], before: Timestamp) -> Result<bool> {
    let what = || "record what was done".to_string();
    let sql = "INSERT INTO resurgam_audit (at, id, by, token, reason, kind, subject, told)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING";
    let mut insert = connection.prepare_cached(sql).attempted(what)?;
    for row in rows {
        let AuditRow { id, at, by, token, reason, kind, subject, told } = row;
        let values = params![at.as_millis(), id, by, token, reason, kind, subject, told];
        insert.execute(values).attempted(what)?;
    }
    let sql = "DELETE FROM resurgam_audit WHERE at < ?1";
    let mut delete = connection.prepare_cached(sql).attempted(what)?;
    delete.execute([before.as_millis()]).attempted(what)?;
    Ok(true)
}

fn audit(reading: &mut Reading<'_>, range: &AuditRange<String>) -> Result<Vec<AuditRow>> {
    let sql = format!(
        "SELECT {AUDIT} FROM resurgam_audit
         WHERE at >= ?1 AND at <= ?2 AND (at < ?2 OR id < ?3)
         ORDER BY at DESC, id DESC LIMIT ?4"
    );
    let (since, before) = times(range);
    let id = range.before.as_ref().and_then(|(_, id)| id.as_deref()).unwrap_or_default();
    let values = params![since, before, id, limit(range.limit)];
    let what = || "read what was done".to_string();
    reading.every(&sql, values, |row| decode::audit(&row), what)
}

fn newest_actions(
    reading: &mut Reading<'_>,
    range: &AuditRange<(Uid, String)>,
) -> Result<Vec<ActionRow>> {
    let sql = format!(
        "SELECT {ACTION}, rowid FROM resurgam_action
         WHERE at >= ?1 AND at <= ?2 AND (at < ?2 OR (uid, id) < (?3, ?4))
         ORDER BY at DESC, uid DESC, id DESC"
    );
    let (since, before) = times(range);
    let key = range.before.as_ref().and_then(|(_, key)| key.as_ref());
    // No uid is less than no bytes.
    let uid = key.map_or_else(Vec::new, |(uid, _)| uid.to_bytes().to_vec());
    let id = key.map_or("", |(_, id)| id.as_str());
    let values = params![since, before, uid, id];
    reading.many(Table::Action, &sql, values, range.limit, |row| decode::action(&row))
}

/// From when to when.
fn times<K>(range: &AuditRange<K>) -> (i64, i64) {
    let since = range.since.map_or(i64::MIN, Timestamp::as_millis);
    (since, range.before.as_ref().map_or(i64::MAX, |(at, _)| at.as_millis()))
}

fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
