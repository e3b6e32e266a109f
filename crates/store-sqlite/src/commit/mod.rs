//! Writing a batch of steps: one transaction, its statements prepared once.
//!
//! One file for each table. The order inside a step is that of its fields, and what can refuse it
//! comes first: a schedule that was changed, a row of the inbox that is gone, a dead letter that is
//! settled, a start whose id is taken are found out before anything of the step is written, so that
//! refusing one step needs no savepoint and costs the others nothing.

mod action;
mod attempt;
mod bulk;
mod event;
mod gate;
mod inbox;
mod instance;
mod kv;
mod letter;
mod message;
mod policy;
mod schedule;
mod task;
mod transact;

use resurgam_core::RunKey;
use resurgam_store::{ChildStart, Result, Rewind, Step, StepResult};
use rusqlite::{Connection, PrepFlags, Statement};

use crate::busy;
use crate::errors::Attempted;
use crate::ownership::Fence;
use instance::Started;

/// The statements that write, each prepared once for the life of the connection.
pub(crate) struct Statements<'c> {
    connection: &'c Connection,
    begin: Statement<'c>,
    commit: Statement<'c>,
    owner: Statement<'c>,
    instances: instance::Instances<'c>,
    events: event::Events<'c>,
    policies: policy::Policies<'c>,
    tasks: task::Tasks<'c>,
    messages: message::Messages<'c>,
    attempts: attempt::Attempts<'c>,
    actions: action::Actions<'c>,
    letters: letter::Letters<'c>,
    kv: kv::Kv<'c>,
    gates: gate::Gates<'c>,
    schedules: schedule::Schedules<'c>,
    inbox: inbox::Inbox<'c>,
    bulk: bulk::Bulk<'c>,
}

impl<'c> Statements<'c> {
    /// Prepares them. `ledger` is how many rows the ledger of one call may have.
    pub(crate) fn prepare(connection: &'c Connection, ledger: u32) -> rusqlite::Result<Self> {
        Ok(Statements {
            connection,
            begin: prepare(connection, "BEGIN IMMEDIATE")?,
            commit: prepare(connection, "COMMIT")?,
            owner: prepare(connection, "SELECT owner FROM meta WHERE one = 1")?,
            instances: instance::Instances::prepare(connection)?,
            events: event::Events::prepare(connection)?,
            policies: policy::Policies::prepare(connection)?,
            tasks: task::Tasks::prepare(connection)?,
            messages: message::Messages::prepare(connection)?,
            attempts: attempt::Attempts::prepare(connection, ledger)?,
            actions: action::Actions::prepare(connection)?,
            letters: letter::Letters::prepare(connection)?,
            kv: kv::Kv::prepare(connection)?,
            gates: gate::Gates::prepare(connection)?,
            schedules: schedule::Schedules::prepare(connection)?,
            inbox: inbox::Inbox::prepare(connection)?,
            bulk: bulk::Bulk::prepare(connection)?,
        })
    }

    /// Writes the whole batch, or nothing of it. An owner brings the fence that it must be inside.
    pub(crate) fn write(
        &mut self,
        batch: &[Step],
        fence: Option<&Fence>,
    ) -> Result<Vec<StepResult>> {
        let begun = self.begin.execute([]);
        busy::served();
        begun.attempted(|| "begin a transaction".into())?;
        let written = self.fenced_steps(batch, fence).and_then(|results| {
            self.commit.execute([]).attempted(|| "commit the transaction".into())?;
            Ok(results)
        });
        if written.is_err() && !self.connection.is_autocommit() {
            // SQLite rolls back by itself after some errors and not after others. When this one
            // fails as well, the next `BEGIN` says so and nothing was committed meanwhile.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        written
    }

    fn fenced_steps(&mut self, batch: &[Step], fence: Option<&Fence>) -> Result<Vec<StepResult>> {
        if let Some(fence) = fence {
            self.check(fence)?;
        }
        batch.iter().map(|step| self.step(step)).collect()
    }

    /// Refuses to go on outside of the fence. In a transaction nobody else can write, so this stays
    /// true until the commit.
    fn check(&mut self, fence: &Fence) -> Result<()> {
        let owner: Option<String> = self
            .owner
            .query_row([], |row| row.get(0))
            .attempted(|| "look who owns the database".into())?;
        fence.check(owner.as_deref())
    }

    fn step(&mut self, step: &Step) -> Result<StepResult> {
        // The inbox first: a row that was taken before goes, whatever else refuses its step.
        if let Some(write) = &step.inbox
            && !self.inbox.is_new(write)?
        {
            return Ok(StepResult::Missed);
        }
        if let Some(write) = &step.schedule
            && !self.schedules.follows(write)?
        {
            return Ok(StepResult::Missed);
        }
        if let Some(write) = &step.bulk
            && !self.bulk.follows(write)?
        {
            return Ok(StepResult::Missed);
        }
        if !self.letters.follow(&step.letters)? {
            return Ok(StepResult::Missed);
        }
        if let Some(write) = &step.instance {
            let result = self.instances.write(write)?;
            if result != StepResult::Written {
                return Ok(result);
            }
        }
        for (run, event) in &step.events {
            self.events.insert(*run, event)?;
        }
        if let Some(rewind) = step.rewind.as_deref() {
            self.rewind(rewind)?;
        }
        for policy in &step.policies {
            self.policies.insert(policy)?;
        }
        self.tasks.write_all(&step.tasks)?;
        for child in &step.child_starts {
            self.start_child(child)?;
        }
        for message in &step.messages {
            self.messages.write(message)?;
        }
        for attempt in &step.attempts {
            self.attempts.insert(attempt)?;
        }
        for action in &step.actions {
            self.actions.insert(action)?;
        }
        for letter in &step.letters {
            self.letters.write(letter)?;
        }
        for row in &step.kv {
            self.kv.put(row)?;
        }
        for row in &step.policy_overrides {
            self.policies.set(row)?;
        }
        for write in &step.gates {
            self.gates.write(write)?;
        }
        if let Some(write) = step.schedule.as_deref() {
            self.schedules.write(write)?;
        }
        if let Some(write) = step.inbox.as_deref() {
            self.inbox.write(write)?;
        }
        if let Some(write) = step.bulk.as_deref() {
            self.bulk.write(write)?;
        }
        Ok(StepResult::Written)
    }
}

impl Statements<'_> {
    fn rewind(&mut self, rewind: &Rewind) -> Result<()> {
        self.events.copy(rewind)?;
        rewind.forget.iter().try_for_each(|key| self.kv.delete(rewind.from.uid, key))
    }

    fn start_child(&mut self, child: &ChildStart) -> Result<()> {
        let started = self.instances.start_child(&child.row, child.replaces)?;
        match (started, &child.otherwise) {
            (Started::New, _) => self.messages.insert(&child.start),
            (Started::IdTaken, Some(otherwise)) => self.messages.insert(otherwise),
            (Started::Before | Started::IdTaken, _) => Ok(()),
        }
    }
}

/// Prepares a statement that lives as long as the connection. Saying so keeps it out of SQLite's
/// small fast memory, which is then free for what executing it needs.
fn prepare<'c>(connection: &'c Connection, sql: &str) -> rusqlite::Result<Statement<'c>> {
    connection.prepare_with_flags(sql, PrepFlags::SQLITE_PREPARE_PERSISTENT)
}

/// A run in the words of an error.
fn named(run: RunKey) -> String {
    format!("run {} of instance {}", run.run, run.uid)
}
