//! Deleting closed instances, a short transaction at a time.
//!
//! Everything of an instance is found by its uid. The instance's own row goes last, so that one
//! whose deletion was cut short is found again; until then its history may be shorter than it was.
//! Policies stay: there are few, and others may name them. The file does not shrink, its pages are
//! used again.

use resurgam_core::{Timestamp, Uid};
use resurgam_store::{Deleted, Deletion, INSTANCES, Place, ROWS, Result, Sweep};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::busy;
use crate::errors::Attempted;

/// The tables whose rows belong to an instance; the one that can be long first.
const TABLES: [&str; 7] = ["event", "attempt", "message", "task", "resurgam_action", "kv", "tag"];

/// How many closed instances one piece looks at. Those that are not wanted cost a look each.
const LOOKS: u64 = 5_000;

/// Deletes one piece of what is wanted.
pub(crate) fn delete(connection: &Connection, wanted: &Deletion) -> Result<Deleted> {
    let begun = Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
    busy::served();
    let transaction = begun.attempted(|| "begin a transaction".into())?;
    let mut piece = Piece { connection: &transaction, done: Deleted::default() };
    let deleted = match wanted {
        Deletion::One(uid) => piece.one(*uid),
        Deletion::Many(sweep) => piece.many(sweep),
        Deletion::Letters { before } => piece.letters(*before),
        Deletion::Bulk { before } => piece.bulk(*before),
    };
    deleted.attempted(|| "delete closed instances".into())?;
    let done = piece.done;
    transaction.commit().attempted(|| "commit the transaction".into())?;
    Ok(done)
}

struct Piece<'c> {
    connection: &'c Connection,
    done: Deleted,
}

/// A closed instance.
struct Candidate {
    place: Place,
    /// Whatever is there: one that nobody can read must not keep the others.
    uid: Vec<u8>,
    wanted: bool,
}

impl Piece<'_> {
    fn one(&mut self, uid: Uid) -> rusqlite::Result<()> {
        let sql = "SELECT rowid FROM instance WHERE uid = ?1 AND closed_at IS NOT NULL";
        let mut find = self.connection.prepare_cached(sql)?;
        let row = find.query_row([uid.to_bytes()], |row| row.get(0)).optional()?;
        let Some(row) = row else { return Ok(()) };
        self.done.more = !self.instance(row, &uid.to_bytes())?;
        Ok(())
    }

    /// Dead letters, the oldest first.
    fn letters(&mut self, before: Timestamp) -> rusqlite::Result<()> {
        let sql = "DELETE FROM resurgam_dead_letter WHERE rowid IN (
                       SELECT rowid FROM resurgam_dead_letter WHERE at < ?1 ORDER BY at LIMIT ?2)";
        let values = params![before.as_millis(), ROWS.cast_signed()];
        let deleted = self.connection.prepare_cached(sql)?.execute(values)?;
        self.done.rows = deleted as u64;
        let sql = "SELECT min(at) FROM resurgam_dead_letter";
        let mut first = self.connection.prepare_cached(sql)?;
        let first: Option<i64> = first.query_row([], |row| row.get(0))?;
        let first = first.map(Timestamp::from_millis);
        self.done.more = first.is_some_and(|at| at < before);
        self.done.next = first.filter(|at| *at >= before);
        Ok(())
    }

    /// Bulk jobs, those that were over first going first.
    fn bulk(&mut self, before: Timestamp) -> rusqlite::Result<()> {
        let sql = "DELETE FROM resurgam_bulk WHERE rowid IN (
                       SELECT rowid FROM resurgam_bulk WHERE closed_at < ?1
                       ORDER BY closed_at LIMIT ?2)";
        let values = params![before.as_millis(), ROWS.cast_signed()];
        let deleted = self.connection.prepare_cached(sql)?.execute(values)?;
        self.done.rows = deleted as u64;
        let sql = "SELECT min(closed_at) FROM resurgam_bulk WHERE closed_at IS NOT NULL";
        let mut first = self.connection.prepare_cached(sql)?;
        let first: Option<i64> = first.query_row([], |row| row.get(0))?;
        let first = first.map(Timestamp::from_millis);
        self.done.more = first.is_some_and(|at| at < before);
        self.done.next = first.filter(|at| *at >= before);
        Ok(())
    }

    fn many(&mut self, sweep: &Sweep) -> rusqlite::Result<()> {
        self.done.go_on = sweep.after;
        let candidates = self.candidates(sweep)?;
        self.done.more = candidates.len() as u64 == LOOKS;
        for candidate in candidates {
            if candidate.place.closed_at >= sweep.closed_before {
                self.done.more = false;
                self.done.next = Some(candidate.place.closed_at);
                return Ok(());
            }
            let full = self.done.instances >= INSTANCES || self.done.rows >= ROWS;
            if full || (candidate.wanted && !self.instance(candidate.place.row, &candidate.uid)?) {
                self.done.more = true;
                return Ok(());
            }
            self.done.go_on = Some(candidate.place);
        }
        Ok(())
    }

    /// Those that closed first, from the place where the last piece ended.
    fn candidates(&self, sweep: &Sweep) -> rusqlite::Result<Vec<Candidate>> {
        let sql = "
            SELECT closed_at, rowid, uid,
                   (?4 IS NULL OR workflow = ?4)
                   AND (?5 IS NULL OR EXISTS (SELECT 1 FROM tag WHERE tag.uid = instance.uid
                                              AND name = ?5 AND value = ?6))
            FROM instance
            WHERE status = ?1 AND closed_at IS NOT NULL AND (closed_at, rowid) > (?2, ?3)
            ORDER BY closed_at, rowid LIMIT ?7";
        let first = Place { closed_at: Timestamp::from_millis(i64::MIN), row: i64::MIN };
        let after = sweep.after.unwrap_or(first);
        let (tag, value) = sweep.tag.clone().unzip();
        let values = params![
            sweep.status.name(),
            after.closed_at.as_millis(),
            after.row,
            sweep.workflow,
            tag,
            value,
            LOOKS.cast_signed(),
        ];
        let mut find = self.connection.prepare_cached(sql)?;
        let rows = find.query_map(values, |row| {
            let closed_at = Timestamp::from_millis(row.get(0)?);
            let place = Place { closed_at, row: row.get(1)? };
            Ok(Candidate { place, uid: row.get(2)?, wanted: row.get(3)? })
        })?;
        rows.collect()
    }

    /// Deletes an instance with everything of it. False when the piece is full before that.
    fn instance(&mut self, row: i64, uid: &[u8]) -> rusqlite::Result<bool> {
        for table in TABLES {
            let room = ROWS.saturating_sub(self.done.rows);
            let sql = format!(
                "DELETE FROM {table} WHERE rowid IN
                     (SELECT rowid FROM {table} WHERE uid = ?1 LIMIT ?2)"
            );
            let mut delete = self.connection.prepare_cached(&sql)?;
            let deleted = delete.execute(params![uid, room.cast_signed()])? as u64;
            self.done.rows += deleted;
            if deleted == room {
                // Perhaps that was all of it; the next piece finds out.
                return Ok(false);
            }
        }
        let sql = "DELETE FROM instance WHERE rowid = ?1";
        self.done.rows += self.connection.prepare_cached(sql)?.execute([row])? as u64;
        self.done.instances += 1;
        Ok(true)
    }
}
