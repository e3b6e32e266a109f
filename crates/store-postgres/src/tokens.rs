//! API tokens, which are read whole and changed a row at a time; and the logins that browsers get
//! for them.

use resurgam_store::decode::{self, Decoded, LOGIN, TOKEN};
use resurgam_store::{Answer, Error, LoginRow, LoginWrite, Result, TokenRow, TokenWrite, Tokens};

use crate::decode::Fetched;
use crate::pool::Pool;
use crate::statement::Statement;
use crate::store::PostgresStore;

impl Tokens for PostgresStore {
    fn tokens(&self) -> Answer<'_, Vec<TokenRow>> {
        self.here(all(self.pool()))
    }

    fn write_token(&self, write: TokenWrite) -> Answer<'_, bool> {
        self.here(async move { change(self.pool(), &write).await })
    }

    fn login(&self, hash: &str) -> Answer<'_, Option<LoginRow>> {
        let hash = hash.to_string();
        self.here(async move { login(self.pool(), &hash).await })
    }

    fn write_login(&self, write: LoginWrite) -> Answer<'_, bool> {
        self.here(async move { change_login(self.pool(), &write).await })
    }
}

async fn all(pool: &Pool) -> Result<Vec<TokenRow>> {
    let what = "read the API tokens";
    let sql = format!("SELECT {TOKEN} FROM @api_token ORDER BY id");
    let rows = pool.ask(Statement::rows(what, sql)).await?;
    let found: Decoded<Vec<TokenRow>> =
        rows.iter().map(|row| decode::token(&Fetched(row))).collect();
    found.map_err(|why| Error::data(what).because(why))
}

/// Changes one token; false when there was nothing to change.
async fn change(pool: &Pool, write: &TokenWrite) -> Result<bool> {
    let what = "change an API token";
    let statement = match write {
        TokenWrite::Insert(row) => {
            let sql = "INSERT INTO @api_token
                           (id, name, role, hash, settings, by, created_at)
                       VALUES ($1, $2, $3, $4, $5, $6, $7)
                       ON CONFLICT (id) DO NOTHING RETURNING id";
            let TokenRow { id, name, role, hash, settings, by, created_at, .. } = row;
            let statement = Statement::rows(what, sql).text(id).text(name).text(role).text(hash);
            statement.text(settings).text(by).big(created_at.as_millis())
        }
        TokenWrite::Revoke { id, at } => {
            let sql = "UPDATE @api_token SET revoked_at = $2
                       WHERE id = $1 AND revoked_at IS NULL RETURNING id";
            Statement::rows(what, sql).text(id).big(at.as_millis())
        }
    };
    Ok(!pool.ask(statement).await?.is_empty())
}

async fn login(pool: &Pool, hash: &str) -> Result<Option<LoginRow>> {
    let what = "look for a login";
    let sql = format!("SELECT {LOGIN} FROM @login WHERE hash = $1");
    let rows = pool.ask(Statement::rows(what, sql).text(hash)).await?;
    let found = rows.first().map(|row| decode::login(&Fetched(row))).transpose();
    found.map_err(|why| Error::data(what).because(why))
}

/// Changes one login; false when there was nothing to change.
async fn change_login(pool: &Pool, write: &LoginWrite) -> Result<bool> {
    let what = "change a login";
    let statement = match write {
        LoginWrite::Insert { row, ended_before } => {
            let sql = "WITH ended AS (DELETE FROM @login WHERE ends_at < $6)
                       INSERT INTO @login (hash, token, bound, created_at, ends_at)
                       VALUES ($1, $2, $3, $4, $5) ON CONFLICT (hash) DO NOTHING RETURNING hash";
            let LoginRow { hash, token, bound, created_at, ends_at } = row;
            let statement = Statement::rows(what, sql).text(hash).text(token).text(bound);
            let statement = statement.big(created_at.as_millis()).big(ends_at.as_millis());
            statement.big(ended_before.as_millis())
        }
        LoginWrite::Delete { hash } => {
            let sql = "DELETE FROM @login WHERE hash = $1 RETURNING hash";
            Statement::rows(what, sql).text(hash)
        }
    };
    Ok(!pool.ask(statement).await?.is_empty())
}
