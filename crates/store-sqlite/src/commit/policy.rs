//! Policies: each text once, however many tasks name it.

use resurgam_store::Result;
use resurgam_store::rows::PolicyRow;
use rusqlite::{Connection, Statement, params};

use super::prepare;
use crate::errors::Attempted;

pub(crate) struct Policies<'c> {
    insert: Statement<'c>,
}

const INSERT: &str =
    "INSERT INTO policy (hash, text) VALUES (?1, ?2) ON CONFLICT (hash) DO NOTHING";

impl<'c> Policies<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Policies { insert: prepare(connection, INSERT)? })
    }

    pub(crate) fn insert(&mut self, row: &PolicyRow) -> Result<()> {
        let inserted = self.insert.execute(params![row.hash, row.text]);
        inserted.attempted(|| format!("insert policy {}", row.hash))?;
        Ok(())
    }
}
