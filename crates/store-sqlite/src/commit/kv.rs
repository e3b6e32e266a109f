//! An instance's own data: the last value of a key counts.

use resurgam_core::{Payload, Uid};
use resurgam_store::Result;
use resurgam_store::rows::KvRow;
use rusqlite::{Connection, Statement, params};

use super::prepare;
use crate::errors::Attempted;

pub(crate) struct Kv<'c> {
    put: Statement<'c>,
    delete: Statement<'c>,
}

const PUT: &str = "
    INSERT INTO kv (uid, key, encoding, value) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (uid, key) DO UPDATE SET encoding = excluded.encoding, value = excluded.value";

const DELETE: &str = "DELETE FROM kv WHERE uid = ?1 AND key = ?2";

impl<'c> Kv<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Kv { put: prepare(connection, PUT)?, delete: prepare(connection, DELETE)? })
    }

    pub(crate) fn delete(&mut self, uid: Uid, key: &str) -> Result<()> {
        let deleted = self.delete.execute(params![uid.to_bytes(), key]);
        deleted.attempted(|| format!("forget {key:?} of instance {uid}"))?;
        Ok(())
    }

    pub(crate) fn put(&mut self, row: &KvRow) -> Result<()> {
        let values = params![row.uid.to_bytes(), row.key, Payload::ENCODING, row.value.as_str()];
        let attempted = || format!("set {:?} of instance {}", row.key, row.uid);
        self.put.execute(values).attempted(attempted)?;
        Ok(())
    }
}
