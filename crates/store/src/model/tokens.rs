//! API tokens and logins.

use super::Model;
use crate::{LoginRow, LoginWrite, TokenRow, TokenWrite};

impl Model {
    /// All tokens, by their ids.
    pub fn tokens(&self) -> Vec<TokenRow> {
        self.tables.tokens.map().values().cloned().collect()
    }

    /// Changes one token; false when there is nothing to change.
    pub fn write_token(&mut self, write: TokenWrite) -> bool {
        let rows = &mut self.tables.tokens;
        match write {
            TokenWrite::Insert(row) if rows.map().contains_key(&row.id) => false,
            TokenWrite::Insert(row) => rows.put(row.id.clone(), Some(row)).is_none(),
            TokenWrite::Revoke { id, at } => {
                let open = rows.map().get(&id).filter(|row| row.revoked_at.is_none()).cloned();
                let Some(row) = open else { return false };
                rows.put(id, Some(TokenRow { revoked_at: Some(at), ..row })).is_some()
            }
        }
    }

    /// The login of a hash.
    pub fn login(&self, hash: &str) -> Option<LoginRow> {
        self.tables.logins.map().get(hash).cloned()
    }

    /// Changes one login; false when there is nothing to change.
    pub fn write_login(&mut self, write: LoginWrite) -> bool {
        let rows = &mut self.tables.logins;
        match write {
            LoginWrite::Insert { row, ended_before } => {
                let has_ended = |row: &&LoginRow| row.ends_at < ended_before;
                let ended: Vec<String> =
                    rows.map().values().filter(has_ended).map(|row| row.hash.clone()).collect();
                for hash in ended {
                    rows.put(hash, None);
                }
                let is_new = !rows.map().contains_key(&row.hash);
                if is_new {
                    rows.put(row.hash.clone(), Some(row));
                }
                is_new
            }
            LoginWrite::Delete { hash } => rows.put(hash, None).is_some(),
        }
    }
}
