//! Dead letters: one for each call that is given up, and what people decide about them.

use resurgam_core::CallKey;
use resurgam_store::{
    DeadLetter, LetterState, LetterWrite, Result, Settled, encode, ledger_to_stored,
};
use rusqlite::{Connection, OptionalExtension, Statement, params};

use super::prepare;
use crate::encode::{encoding, whole};
use crate::errors::Attempted;

pub(crate) struct Letters<'c> {
    look: Statement<'c>,
    insert: Statement<'c>,
    settle: Statement<'c>,
}

const INSERT: &str = "
    INSERT INTO resurgam_dead_letter (uid, run, seq, instance, workflow, activity, queue, policy,
                                      encoding, input, failure, why, attempts, ledger, at,
                                      fingerprint, error, state, settled_at, settled_by, reason,
                                      redriven_as, gate)
    VALUES (?1, ?2, ?3, ?4, coalesce((SELECT workflow FROM instance WHERE uid = ?1), ''), ?5, ?6,
            ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)
    ON CONFLICT (uid, run, seq) DO NOTHING";

const SETTLE: &str = "
    UPDATE resurgam_dead_letter
    SET state = ?4, settled_at = ?5, settled_by = ?6, reason = ?7, redriven_as = ?8
    WHERE uid = ?1 AND run = ?2 AND seq = ?3 AND state = 'open'";

const LOOK: &str = "
    SELECT state = 'open' FROM resurgam_dead_letter WHERE uid = ?1 AND run = ?2 AND seq = ?3";

impl<'c> Letters<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Letters {
            look: prepare(connection, LOOK)?,
            insert: prepare(connection, INSERT)?,
            settle: prepare(connection, SETTLE)?,
        })
    }

    /// True when every letter that is decided about is open.
    pub(crate) fn follow(&mut self, writes: &[LetterWrite]) -> Result<bool> {
        LetterWrite::all_follow(writes, |call| {
            let key = params![call.run.uid.to_bytes(), call.run.run, whole(call.seq.0)];
            let is_open = self.look.query_row(key, |row| row.get(0)).optional();
            is_open.attempted(|| format!("look for the dead letter of call {call}"))
        })
    }

    pub(crate) fn write(&mut self, write: &LetterWrite) -> Result<()> {
        match write {
            LetterWrite::Insert(letter) => self.insert(letter),
            LetterWrite::Settle { call, state, settled } => self.settle(*call, *state, settled),
        }
    }

    fn insert(&mut self, letter: &DeadLetter) -> Result<()> {
        let settled = letter.settled.as_ref();
        let values = params![
            letter.call.run.uid.to_bytes(),
            letter.call.run.run,
            whole(letter.call.seq.0),
            letter.instance,
            letter.activity,
            letter.queue,
            letter.policy,
            encoding(Some(&letter.input)),
            letter.input.as_str(),
            encode::failure(&letter.failure),
            letter.why,
            letter.attempts,
            ledger_to_stored(&letter.ledger),
            letter.at.as_millis(),
            letter.fingerprint,
            letter.error,
            letter.state.name(),
            settled.map(|settled| settled.at.as_millis()),
            settled.map(|settled| &settled.by),
            settled.and_then(|settled| settled.reason.as_ref()),
            settled.and_then(|settled| settled.redriven_as.as_ref()),
            letter.gate,
        ];
        let inserted = self.insert.execute(values);
        inserted.attempted(|| format!("insert the dead letter of call {}", letter.call))?;
        Ok(())
    }

    fn settle(&mut self, call: CallKey, state: LetterState, settled: &Settled) -> Result<()> {
        let values = params![
            call.run.uid.to_bytes(),
            call.run.run,
            whole(call.seq.0),
            state.name(),
            settled.at.as_millis(),
            settled.by,
            settled.reason,
            settled.redriven_as,
        ];
        let changed = self.settle.execute(values);
        changed.attempted(|| format!("settle the dead letter of call {call}"))?;
        Ok(())
    }
}
