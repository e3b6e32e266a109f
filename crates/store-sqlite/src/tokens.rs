//! API tokens: a table that is read whole, and changed a row at a time.

use resurgam_store::decode::{self, TOKEN};
use resurgam_store::{Answer, Result, TokenRow, TokenWrite, Tokens};
use rusqlite::{Connection, params};

use crate::busy;
use crate::errors::Attempted;
use crate::read::Reading;
use crate::store::SqliteStore;

impl Tokens for SqliteStore {
    fn tokens(&self) -> Answer<'_, Vec<TokenRow>> {
        self.read(|| "read the API tokens".to_string(), all)
    }

    fn write_token(&self, write: TokenWrite) -> Answer<'_, bool> {
        Box::pin(self.change_token(write))
    }
}

/// One after the other, so that one that cannot be read is an error that names it.
fn all(reading: &mut Reading<'_>) -> Result<Vec<TokenRow>> {
    let sql = format!("SELECT {TOKEN} FROM resurgam_api_token WHERE id > ?1 ORDER BY id LIMIT 1");
    let what = || "read the API tokens".to_string();
    let mut found: Vec<TokenRow> = Vec::new();
    loop {
        let after = found.last().map_or("", |row| &row.id);
        let next = reading.one(&sql, [after], |row| decode::token(&row), what)?;
        let Some(next) = next else { return Ok(found) };
        found.push(next);
    }
}

/// Changes one token; false when there was nothing to change.
pub(crate) fn write(connection: &Connection, write: &TokenWrite) -> Result<bool> {
    let changed = match write {
        TokenWrite::Insert(row) => {
            let sql = "INSERT INTO resurgam_api_token
                           (id, name, role, hash, settings, by, created_at, revoked_at)
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (id) DO NOTHING";
            let TokenRow { id, name, role, hash, settings, by, created_at, revoked_at } = row;
            let times = (created_at.as_millis(), revoked_at.map(|at| at.as_millis()));
            let values = params![id, name, role, hash, settings, by, times.0, times.1];
            connection.execute(sql, values)
        }
        TokenWrite::Revoke { id, at } => {
            let sql = "UPDATE resurgam_api_token SET revoked_at = ?2
                       WHERE id = ?1 AND revoked_at IS NULL";
            connection.execute(sql, params![id, at.as_millis()])
        }
    };
    busy::served();
    Ok(changed.attempted(|| "change an API token".into())? > 0)
}
