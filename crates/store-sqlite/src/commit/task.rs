//! Tasks: a change must find exactly the row it means, unless it says that it may be gone.

use resurgam_core::{CallKey, RunKey, Timestamp};
use resurgam_store::rows::TaskRow;
use resurgam_store::{Error, Result, TaskWrite};
use rusqlite::{Connection, Statement, params};

use super::{named, prepare};
use crate::encode::{encoding, progress, token, whole};
use crate::errors::Attempted;

pub(crate) struct Tasks<'c> {
    insert: Statement<'c>,
    update: Statement<'c>,
    delete: Statement<'c>,
    delete_all: Statement<'c>,
    follow: Statement<'c>,
    is_claimed: Statement<'c>,
}

const INSERT: &str = "
    INSERT INTO task (uid, run, seq, name, queue, gate, priority, policy, attempt, wake_at,
                      claimed_by, token, started_at, progress, encoding, heartbeat,
                      heartbeat_at, deadline_at, paused, paused_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
            ?20)";

/// Whatever is written now can be read, so an older mark goes.
const UPDATE: &str = "
    UPDATE task SET name = ?4, queue = ?5, gate = ?6, priority = ?7, policy = ?8, attempt = ?9,
                    wake_at = ?10, claimed_by = ?11, token = ?12, started_at = ?13, progress = ?14,
                    encoding = ?15, heartbeat = ?16, heartbeat_at = ?17, deadline_at = ?18,
                    paused = ?19, paused_at = ?20, bad = NULL
    WHERE uid = ?1 AND run = ?2 AND seq = ?3";

/// The row of a call that is over becomes that of the next. The claim's node is not set, so that
/// its index stays as it is.
const FOLLOW: &str = "
    UPDATE task SET seq = ?4, name = ?5, queue = ?6, gate = ?7, priority = ?8, policy = ?9,
                    attempt = ?10, wake_at = ?11, token = ?13, started_at = ?14, progress = ?15,
                    encoding = NULL, heartbeat = NULL, heartbeat_at = NULL, deadline_at = NULL,
                    paused = NULL, paused_at = NULL, bad = NULL
    WHERE uid = ?1 AND run = ?2 AND seq = ?3 AND claimed_by = ?12";

const DELETE: &str = "DELETE FROM task WHERE uid = ?1 AND run = ?2 AND seq = ?3";

const IS_CLAIMED: &str =
    "SELECT 1 FROM task WHERE uid = ?1 AND run = ?2 AND seq = ?3 AND token = ?4";

const DELETE_ALL: &str = "DELETE FROM task WHERE uid = ?1 AND run = ?2";

impl<'c> Tasks<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Tasks {
            insert: prepare(connection, INSERT)?,
            update: prepare(connection, UPDATE)?,
            delete: prepare(connection, DELETE)?,
            delete_all: prepare(connection, DELETE_ALL)?,
            follow: prepare(connection, FOLLOW)?,
            is_claimed: prepare(connection, IS_CLAIMED)?,
        })
    }

    /// Writes the tasks of a step. A call that follows another one takes over its row: most steps
    /// of a chain of calls are that, and it touches half of what a deletion and an insertion do.
    pub(crate) fn write_all(&mut self, writes: &[TaskWrite]) -> Result<()> {
        match writes {
            [TaskWrite::Delete(done), TaskWrite::Insert(next)]
                if next.call.run == done.run && self.follow(*done, next)? =>
            {
                Ok(())
            }
            writes => writes.iter().try_for_each(|write| self.write(write)),
        }
    }

    /// False when the row is not there, or another node's; then nothing is changed.
    fn follow(&mut self, done: CallKey, next: &TaskRow) -> Result<bool> {
        let (Some(claim), None, None, None) =
            (&next.claim, &next.heartbeat, next.deadline_at, next.paused())
        else {
            return Ok(false);
        };
        let values = params![
            done.run.uid.to_bytes(),
            done.run.run,
            whole(done.seq.0),
            whole(next.call.seq.0),
            next.name,
            next.queue,
            next.gate,
            next.priority,
            next.policy,
            next.attempt,
            next.wake_at.as_millis(),
            claim.node,
            token(claim.token),
            claim.started_at.as_millis(),
            progress(&next.progress),
        ];
        let changed = self.follow.execute(values).attempted(|| attempted("insert", next.call))?;
        Ok(changed == 1)
    }

    fn write(&mut self, write: &TaskWrite) -> Result<()> {
        match write {
            TaskWrite::Insert(row) => with_values(&mut self.insert, row, "insert"),
            TaskWrite::Update(row) => with_values(&mut self.update, row, "update"),
            TaskWrite::Amend(row) => change(&mut self.update, row, "amend").map(drop),
            TaskWrite::Delete(call) => self.end(*call),
            TaskWrite::Discard(call) => self.delete(*call).map(drop),
            TaskWrite::DeleteAll(run) => self.delete_all(*run),
        }
    }

    /// True while a task carries this token: the attempt that has it may report.
    pub(crate) fn is_claimed(&mut self, call: CallKey, by: u64) -> Result<bool> {
        let (uid, run, seq) = (call.run.uid.to_bytes(), call.run.run, whole(call.seq.0));
        let found = self.is_claimed.exists(params![uid, run, seq, token(by)]);
        found.attempted(|| attempted("look at", call))
    }

    /// Ends a task that must be there.
    pub(crate) fn end(&mut self, call: CallKey) -> Result<()> {
        must_be_one(self.delete(call)?, "delete", call)
    }

    fn delete(&mut self, call: CallKey) -> Result<usize> {
        let values = params![call.run.uid.to_bytes(), call.run.run, whole(call.seq.0)];
        self.delete.execute(values).attempted(|| attempted("delete", call))
    }

    fn delete_all(&mut self, run: RunKey) -> Result<()> {
        let deleted = self.delete_all.execute(params![run.uid.to_bytes(), run.run]);
        deleted.attempted(|| format!("delete the tasks of {}", named(run)))?;
        Ok(())
    }
}

fn with_values(statement: &mut Statement<'_>, row: &TaskRow, verb: &str) -> Result<()> {
    must_be_one(change(statement, row, verb)?, verb, row.call)
}

/// Both statements take the whole row under the same numbers.
fn change(statement: &mut Statement<'_>, row: &TaskRow, verb: &str) -> Result<usize> {
    let (claim, heartbeat) = (row.claim.as_ref(), row.heartbeat.as_ref());
    let values = params![
        row.call.run.uid.to_bytes(),
        row.call.run.run,
        whole(row.call.seq.0),
        row.name,
        row.queue,
        row.gate,
        row.priority,
        row.policy,
        row.attempt,
        row.wake_at.as_millis(),
        claim.map(|claim| claim.node.as_str()),
        claim.map(|claim| token(claim.token)),
        claim.map(|claim| claim.started_at.as_millis()),
        progress(&row.progress),
        encoding(heartbeat.map(|heartbeat| &heartbeat.details)),
        heartbeat.map(|heartbeat| heartbeat.details.as_str()),
        heartbeat.map(|heartbeat| heartbeat.at.as_millis()),
        row.deadline_at.map(Timestamp::as_millis),
        row.paused().map(|(fingerprint, _)| fingerprint),
        row.paused().map(|(_, since)| since.as_millis()),
    ];
    statement.execute(values).attempted(|| attempted(verb, row.call))
}

fn must_be_one(changed: usize, verb: &str, call: CallKey) -> Result<()> {
    match changed {
        1 => Ok(()),
        _ => Err(Error::data(format!("{}: there is no such task", attempted(verb, call)))),
    }
}

fn attempted(verb: &str, call: CallKey) -> String {
    format!("{verb} the task of call {call}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use resurgam_core::{Seq, Uid};
    use resurgam_store::rows::{Claim, Progress};
    use resurgam_watchdog::test;

    use super::*;
    use crate::schema;

    fn claimed(seq: u64, node: &str) -> TaskRow {
        TaskRow {
            call: RunKey::first(Uid(7)).call(Seq(seq)),
            name: "charge".to_string(),
            queue: "default".to_string(),
            gate: "charge".to_string(),
            priority: 0,
            policy: "p".to_string(),
            attempt: 1,
            wake_at: Timestamp::EPOCH,
            deadline_at: None,
            claim: Some(Claim { node: node.to_string(), token: 7, started_at: Timestamp::EPOCH }),
            progress: Progress::default(),
            heartbeat: None,
        }
    }

    /// The row that the call of this place has after it followed that of place 2.
    fn row_of_follower(seq: u64, node: &str) -> i64 {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(Path::new(":memory:"), &mut connection).unwrap();
        let mut tasks = Tasks::prepare(&connection).unwrap();
        let [done, other] = [claimed(2, "node-a"), claimed(3, "node-a")];
        let follow = [TaskWrite::Delete(done.call), TaskWrite::Insert(claimed(seq, node))];
        tasks.write_all(&[TaskWrite::Insert(done), TaskWrite::Insert(other)]).unwrap();
        tasks.write_all(&follow).unwrap();
        let rowid = "SELECT rowid FROM task WHERE seq = ?1";
        connection.query_row(rowid, [whole(seq)], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_call_takes_over_the_row_of_the_one_that_it_follows() {
        assert_eq!(row_of_follower(4, "node-a"), 1);
        // The row of another node stands elsewhere in the index of claims.
        assert_eq!(row_of_follower(4, "node-b"), 3);
    }
}
