//! API tokens, which are read whole and changed a row at a time; and the logins that browsers get
//! for them.

use resurgam_store::decode::{self, LOGIN, TOKEN};
use resurgam_store::{Answer, LoginRow, LoginWrite, Result, TokenRow, TokenWrite, Tokens};
use rusqlite::{Connection, params};

use crate::errors::Attempted;
use crate::read::Reading;
use crate::store::SqliteStore;

impl Tokens for SqliteStore {
    fn tokens(&self) -> Answer<'_, Vec<TokenRow>> {
        self.read(|| "read the API tokens".to_string(), all)
    }

    fn write_token(&self, write: TokenWrite) -> Answer<'_, bool> {
        let change = move |connection: &Connection| change(connection, &write);
        Box::pin(self.change_apart("change an API token", change))
    }

    fn login(&self, hash: &str) -> Answer<'_, Option<LoginRow>> {
        let (hash, what) = (hash.to_string(), || "look for a login".to_string());
        self.read(what, move |reading| {
            let sql = format!("SELECT {LOGIN} FROM resurgam_login WHERE hash = ?1");
            reading.one(&sql, [hash], |row| decode::login(&row), what)
        })
    }

    fn write_login(&self, write: LoginWrite) -> Answer<'_, bool> {
        let change = move |connection: &Connection| change_login(connection, &write);
        Box::pin(self.change_apart("change a login", change))
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
fn change(connection: &Connection, write: &TokenWrite) -> Result<bool> {
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
    Ok(changed.attempted(|| "change an API token".into())? > 0)
}

/// Changes one login; false when there was nothing to change.
fn change_login(connection: &Connection, write: &LoginWrite) -> Result<bool> {
    let what = || "change a login".to_string();
    let changed = match write {
        LoginWrite::Insert { row, ended_before } => {
            let sql = "DELETE FROM resurgam_login WHERE ends_at < ?1";
            connection.execute(sql, [ended_before.as_millis()]).attempted(what)?;
            let sql = "INSERT INTO resurgam_login (hash, token, bound, created_at, ends_at)
                       VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (hash) DO NOTHING";
            let LoginRow { hash, token, bound, created_at, ends_at } = row;
            let values = params![hash, token, bound, created_at.as_millis(), ends_at.as_millis()];
            connection.execute(sql, values)
        }
        LoginWrite::Delete { hash } => {
            connection.execute("DELETE FROM resurgam_login WHERE hash = ?1", [hash])
        }
    };
    Ok(changed.attempted(what)? > 0)
}
