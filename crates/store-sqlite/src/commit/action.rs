//! What operators did: one row for each action, dropped when it comes twice.

use resurgam_core::Payload;
use resurgam_store::Result;
use resurgam_store::rows::ActionRow;
use rusqlite::{Connection, Statement, params};

use super::prepare;
use crate::encode::{encoding, whole};
use crate::errors::Attempted;

pub(crate) struct Actions<'c> {
    insert: Statement<'c>,
}

const INSERT: &str = "
    INSERT INTO resurgam_action (uid, id, run, seq, at, by, reason, what, encoding, body, changed,
                                 answer)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
    ON CONFLICT (uid, id) DO NOTHING";

impl<'c> Actions<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Actions { insert: prepare(connection, INSERT)? })
    }

    pub(crate) fn insert(&mut self, row: &ActionRow) -> Result<()> {
        let (run, request) = (row.call.run, &row.request);
        let (what, body) = request.action.to_stored();
        let values = params![
            run.uid.to_bytes(),
            request.id,
            run.run,
            whole(row.call.seq.0),
            row.at.as_millis(),
            request.by,
            request.reason,
            what,
            encoding(body.as_ref()),
            body.as_ref().map(Payload::as_str),
            row.answer.changed,
            row.answer.text,
        ];
        let inserted = self.insert.execute(values);
        inserted.attempted(|| format!("insert action {:?} on call {}", request.id, row.call))?;
        Ok(())
    }
}
