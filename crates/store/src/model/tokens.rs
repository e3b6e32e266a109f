//! API tokens.

use super::Model;
use crate::{TokenRow, TokenWrite};

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
}
