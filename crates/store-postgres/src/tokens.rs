//! API tokens: a table that is read whole, and changed a row at a time.

use resurgam_store::decode::{self, Decoded, TOKEN};
use resurgam_store::{Answer, Error, Result, TokenRow, TokenWrite, Tokens};

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
