//! Messages: dropped when they come twice, gone when a turn has read them.

use resurgam_core::{EventKind, Payload, RunKey};
use resurgam_store::rows::{Message, MessageRow};
use resurgam_store::{MessageWrite, Result};
use rusqlite::{Connection, Statement, params};

use super::{named, prepare};
use crate::encode::encoding;
use crate::trouble::Attempted;

pub(crate) struct Messages<'c> {
    insert: Statement<'c>,
    delete: Statement<'c>,
    delete_timers: Statement<'c>,
}

const INSERT: &str = "
    INSERT INTO message (uid, id, due_at, run, kind, head, encoding, body)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    ON CONFLICT (uid, id) DO NOTHING";

const DELETE: &str = "DELETE FROM message WHERE uid = ?1 AND id = ?2";

const DELETE_TIMERS: &str =
    "DELETE FROM message WHERE uid = ?1 AND run = ?2 AND kind = 'TimerFired'";

impl<'c> Messages<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Messages {
            insert: prepare(connection, INSERT)?,
            delete: prepare(connection, DELETE)?,
            delete_timers: prepare(connection, DELETE_TIMERS)?,
        })
    }

    pub(crate) fn write(&mut self, write: &MessageWrite) -> Result<()> {
        match write {
            MessageWrite::Insert(row) => self.insert(row),
            MessageWrite::Delete { uid, id } => {
                let deleted = self.delete.execute(params![uid.to_bytes(), id]);
                deleted.attempted(|| format!("delete message {id:?} of instance {uid}"))?;
                Ok(())
            }
            MessageWrite::DeleteTimers(run) => self.delete_timers(*run),
        }
    }

    fn insert(&mut self, row: &MessageRow) -> Result<()> {
        let (run, event) = as_event(&row.body);
        let stored = event.to_stored();
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

    fn delete_timers(&mut self, run: RunKey) -> Result<()> {
        let deleted = self.delete_timers.execute(params![run.uid.to_bytes(), run.run]);
        deleted.attempted(|| format!("delete the timers of {}", named(run)))?;
        Ok(())
    }
}

/// The event that a message becomes, and the run it belongs to. Its stored form is the message's.
fn as_event(message: &Message) -> (Option<u32>, EventKind) {
    match message.clone() {
        Message::Timer { run, timer } => (Some(run), EventKind::TimerFired { timer }),
        Message::Signal { name, value } => {
            (None, EventKind::SignalReceived { name, value, id: None })
        }
        Message::Cancel { reason } => (None, EventKind::CancelRequested { reason }),
        Message::Result { run, event } => (Some(run), event),
    }
}
