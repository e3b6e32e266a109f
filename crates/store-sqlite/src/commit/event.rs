//! Events: appended and never changed.

use resurgam_core::{Event, Payload, RunKey, Seq};
use resurgam_store::{Result, Rewind};
use rusqlite::{Connection, Statement, params};

use super::{named, prepare};
use crate::encode::{encoding, whole};
use crate::errors::Attempted;

pub(crate) struct Events<'c> {
    insert: Statement<'c>,
    copy: Statement<'c>,
}

const INSERT: &str = "
    INSERT INTO event (uid, run, seq, at, kind, head, encoding, body)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

/// A history can be long: it never leaves the database.
const COPY: &str = "
    INSERT INTO event (uid, run, seq, at, kind, head, encoding, body)
    SELECT uid, ?3, seq, at, kind, head, encoding, body FROM event
    WHERE uid = ?1 AND run = ?2 AND seq > ?4 AND seq < ?5";

impl<'c> Events<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Events { insert: prepare(connection, INSERT)?, copy: prepare(connection, COPY)? })
    }

    /// Copies what a run that is reset has of the run before it.
    pub(crate) fn copy(&mut self, rewind: &Rewind) -> Result<()> {
        let Rewind { from, to, before, .. } = rewind;
        let (uid, first) = (from.uid.to_bytes(), whole(Seq::FIRST.0));
        let values = params![uid, from.run, to, first, whole(before.0)];
        let attempted = || format!("copy the events of {} before {before}", named(*from));
        self.copy.execute(values).attempted(attempted)?;
        Ok(())
    }

    /// Appends an event; a place that is taken is an error of the data.
    pub(crate) fn insert(&mut self, run: RunKey, event: &Event) -> Result<()> {
        let stored = event.kind.to_stored();
        let attempted =
            || format!("append event {} ({}) to {}", event.seq, stored.kind, named(run));
        let values = params![
            run.uid.to_bytes(),
            run.run,
            whole(event.seq.0),
            event.at.as_millis(),
            stored.kind,
            stored.head,
            encoding(stored.body.as_ref()),
            stored.body.as_ref().map(Payload::as_str),
        ];
        self.insert.execute(values).attempted(attempted)?;
        Ok(())
    }
}
