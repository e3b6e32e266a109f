//! Messages: dropped when they come twice, gone when a turn has read them.

use resurgam_core::{Payload, RunKey, Uid};
use resurgam_store::rows::{Message, MessageRow};
use resurgam_store::{MessageWrite, Result};
use rusqlite::{Connection, Statement, params};

use super::{named, prepare};
use crate::encode::encoding;
use crate::errors::Attempted;

pub(crate) struct Messages<'c> {
    insert: Statement<'c>,
    delete: Statement<'c>,
    delete_run: Statement<'c>,
    park: Statement<'c>,
    unpark: Statement<'c>,
    defer: Statement<'c>,
    is_open: Statement<'c>,
}

const INSERT: &str = "
    INSERT INTO message (uid, id, due_at, run, kind, head, encoding, body)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    ON CONFLICT (uid, id) DO NOTHING";

const DELETE: &str = "DELETE FROM message WHERE uid = ?1 AND id = ?2";

const DELETE_RUN: &str = "DELETE FROM message WHERE uid = ?1 AND run = ?2";

const DEFER: &str = "UPDATE message SET due_at = ?3 WHERE uid = ?1 AND id = ?2";

const IS_OPEN: &str = "SELECT 1 FROM instance WHERE uid = ?1 AND closed_at IS NULL";

/// A run that does not go on holds up nothing that is for who holds its shard.
const PARK: &str = "
    UPDATE message SET parked = 1
    WHERE uid = ?1 AND parked = 0 AND kind NOT IN (SELECT value FROM json_each(?2))";

const UNPARK: &str = "UPDATE message SET parked = 0 WHERE uid = ?1 AND parked = 1";

impl<'c> Messages<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Messages {
            insert: prepare(connection, INSERT)?,
            delete: prepare(connection, DELETE)?,
            delete_run: prepare(connection, DELETE_RUN)?,
            park: prepare(connection, PARK)?,
            unpark: prepare(connection, UNPARK)?,
            defer: prepare(connection, DEFER)?,
            is_open: prepare(connection, IS_OPEN)?,
        })
    }

    pub(crate) fn write(&mut self, write: &MessageWrite) -> Result<()> {
        match write {
            MessageWrite::Insert(row) => self.insert(row),
            MessageWrite::InsertIfOpen(row) => match self.is_open(row.uid)? {
                true => self.insert(row),
                false => Ok(()),
            },
            MessageWrite::Delete { uid, id } => {
                let deleted = self.delete.execute(params![uid.to_bytes(), id]);
                deleted.attempted(|| format!("delete message {id:?} of instance {uid}"))?;
                Ok(())
            }
            MessageWrite::Defer { uid, id } => {
                let never = MessageRow::NEVER.as_millis();
                let deferred = self.defer.execute(params![uid.to_bytes(), id, never]);
                deferred.attempted(|| format!("defer message {id:?} of instance {uid}"))?;
                Ok(())
            }
            MessageWrite::DeleteRun(run) => self.delete_run(*run),
            MessageWrite::Park(uid) => self.park(*uid),
            MessageWrite::Unpark(uid) => {
                let unparked = self.unpark.execute([uid.to_bytes()]);
                unparked.attempted(|| format!("unpark the messages of instance {uid}"))?;
                Ok(())
            }
        }
    }

    fn is_open(&mut self, uid: Uid) -> Result<bool> {
        let found = self.is_open.exists([uid.to_bytes()]);
        found.attempted(|| format!("look whether instance {uid} is open"))
    }

    pub(crate) fn insert(&mut self, row: &MessageRow) -> Result<()> {
        let (run, stored) = row.body.to_stored();
        let values = params![
            row.uid.to_bytes(),
            row.id,
            row.due_at.as_millis(),
            run,
            stored.kind,
            stored.head,
            encoding(stored.body.as_ref()),
            stored.body.as_ref().map(Payload::as_str),
        ];
        let inserted = self.insert.execute(values);
        inserted.attempted(|| format!("insert message {:?} for instance {}", row.id, row.uid))?;
        Ok(())
    }

    fn park(&mut self, uid: Uid) -> Result<()> {
        let for_holder = serde_json::json!(Message::FOR_HOLDER).to_string();
        let parked = self.park.execute(params![uid.to_bytes(), for_holder]);
        parked.attempted(|| format!("park the messages of instance {uid}"))?;
        Ok(())
    }

    fn delete_run(&mut self, run: RunKey) -> Result<()> {
        let deleted = self.delete_run.execute(params![run.uid.to_bytes(), run.run]);
        deleted.attempted(|| format!("delete the messages of {}", named(run)))?;
        Ok(())
    }
}
