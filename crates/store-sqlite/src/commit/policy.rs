//! Policies: each text once, however many tasks name it; and what operators set for all calls of an
//! activity.

use resurgam_store::Result;
use resurgam_store::rows::{PolicyOverride, PolicyRow};
use rusqlite::{Connection, Statement, params};

use super::prepare;
use crate::errors::Attempted;

pub(crate) struct Policies<'c> {
    insert: Statement<'c>,
    set: Statement<'c>,
}

const SET: &str = "
    INSERT INTO resurgam_policy_override (activity, policy, by, reason, at, revision)
    VALUES (?1, ?2, ?3, ?4, ?5, 1)
    ON CONFLICT (activity) DO UPDATE SET
        policy = excluded.policy, by = excluded.by, reason = excluded.reason, at = excluded.at,
        revision = revision + 1";

const INSERT: &str =
    "INSERT INTO policy (hash, text) VALUES (?1, ?2) ON CONFLICT (hash) DO NOTHING";

impl<'c> Policies<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Policies { insert: prepare(connection, INSERT)?, set: prepare(connection, SET)? })
    }

    pub(crate) fn insert(&mut self, row: &PolicyRow) -> Result<()> {
        let inserted = self.insert.execute(params![row.hash, row.text]);
        inserted.attempted(|| format!("insert policy {}", row.hash))?;
        Ok(())
    }
    /// Keeps what an operator set for an activity.
    pub(crate) fn set(&mut self, row: &PolicyOverride) -> Result<()> {
        let values = params![row.activity, row.policy, row.by, row.reason, row.at.as_millis()];
        let set = self.set.execute(values);
        set.attempted(|| format!("set the policy of activity {:?}", row.activity))?;
        Ok(())
    }
}
