//! What a batch means: its steps one after another, each whole or refused, all of them or none.
//!
//! What can refuse a step is looked at before anything of it is written: a schedule that was
//! changed, a row of the inbox that is gone, a dead letter that is settled, an id that is taken, an
//! instance that is closed, a mailbox that is full. Any other trouble is an error, and takes the
//! batch with it.

use resurgam_core::{CallKey, Event, RunKey, Seq};

use super::Model;
use super::ownership::{Writer, check_writer};
use super::transaction::Transaction;
use crate::rows::{ActionRow, AttemptRow, TaskRow};
use crate::{Error, Result, Rewind, Step, StepResult, TaskWrite};

/// How many rows the ledger of one call has at most.
const LEDGER_ROWS: u64 = 1_000;

/// How many rows at the beginning of a call's ledger always stay.
const LEDGER_BEGINNING: u64 = 10;

impl Model {
    /// Writes a batch as [`Commit::commit`](crate::Commit::commit) says, for a store that nobody
    /// has owned yet: nothing is fenced.
    pub fn commit(&mut self, batch: &[Step]) -> Result<Vec<StepResult>> {
        self.commit_as(&Writer::Anybody, batch)
    }

    /// Writes a batch of this writer: fenced when one of its steps is not the writer's to write.
    pub fn commit_as(&mut self, writer: &Writer, batch: &[Step]) -> Result<Vec<StepResult>> {
        self.commit_if(writer, batch, |_| true)
    }

    /// Writes a batch of this writer if what would become of its steps is `wanted`. The answer is
    /// that, whether it was written or not.
    pub fn commit_if(
        &mut self,
        writer: &Writer,
        batch: &[Step],
        wanted: impl FnOnce(&[StepResult]) -> bool,
    ) -> Result<Vec<StepResult>> {
        check_writer(&self.members, writer, batch)?;
        let mut transaction = Transaction::begin(&mut self.tables);
        let results: Result<Vec<StepResult>> =
            batch.iter().map(|step| transaction.step(step)).collect();
        if results.as_deref().is_ok_and(wanted) {
            transaction.keep();
        }
        results
    }
}

impl Transaction<'_> {
    fn step(&mut self, step: &Step) -> Result<StepResult> {
        let result = self.admit(step)?;
        if result != StepResult::Written {
            return Ok(result);
        }
        for (run, event) in &step.events {
            self.append(*run, event)?;
        }
        if let Some(rewind) = step.rewind.as_deref() {
            self.rewind(rewind)?;
        }
        for policy in &step.policies {
            self.add_policy(policy);
        }
        for write in &step.tasks {
            self.write_task(write)?;
        }
        for child in &step.child_starts {
            self.start_child(child)?;
        }
        for write in &step.messages {
            self.write_message(write);
        }
        for row in &step.attempts {
            self.add_attempt(row);
        }
        for row in &step.actions {
            self.add_action(row);
        }
        for write in &step.letters {
            self.write_letter(write);
        }
        for row in &step.kv {
            self.put_kv((row.uid, row.key.clone()), Some(row.value.clone()));
        }
        for row in &step.policy_overrides {
            self.set_policy_override(row);
        }
        for write in &step.gates {
            self.write_gate(write);
        }
        if let Some(write) = step.schedule.as_deref() {
            self.write_schedule(write);
        }
        if let Some(write) = step.inbox.as_deref() {
            self.write_inbox(write);
        }
        if let Some(write) = step.bulk.as_deref() {
            self.write_bulk(write);
        }
        Ok(StepResult::Written)
    }

    /// Whether a step is written. Its instance is written here, which decides that; and a row of
    /// the inbox goes that was taken before, which is all that is written of its step.
    fn admit(&mut self, step: &Step) -> Result<StepResult> {
        let is_new = step.inbox.as_deref().is_none_or(|write| self.is_new(write));
        let follows = step.schedule.as_deref().is_none_or(|write| self.follows(write));
        let follows = follows && step.bulk.as_deref().is_none_or(|write| self.bulk_follows(write));
        let follows = follows && self.letters_follow(&step.letters)?;
        if !is_new || !follows {
            return Ok(StepResult::Missed);
        }
        match &step.instance {
            Some(write) => self.write_instance(write),
            None => Ok(StepResult::Written),
        }
    }

    fn append(&mut self, run: RunKey, event: &Event) -> Result<()> {
        let place = run.call(event.seq);
        if self.tables().events.map().contains_key(&place) {
            return Err(Error::data(format!(
                "append event {} ({}) to run {} of instance {}: there is one already",
                event.seq,
                event.kind.name(),
                run.run,
                run.uid
            )));
        }
        self.put_event(place, Some(event.clone()));
        Ok(())
    }

    /// Copies what a run that is reset has of the run before it.
    fn rewind(&mut self, rewind: &Rewind) -> Result<()> {
        let Rewind { from, to, before, forget } = rewind;
        let to = RunKey { run: *to, ..*from };
        let is_copied = |event: &&Event| event.seq > Seq::FIRST && event.seq < *before;
        let copied: Vec<Event> =
            self.tables().events.of_run(*from).filter(is_copied).cloned().collect();
        copied.iter().try_for_each(|event| self.append(to, event))?;
        forget.iter().for_each(|key| self.put_kv((from.uid, key.clone()), None));
        Ok(())
    }

    /// Keeps what an operator did, unless an action of this id is known.
    fn add_action(&mut self, row: &ActionRow) {
        let key = (row.call.run.uid, row.request.id.clone());
        if !self.tables().actions.map().contains_key(&key) {
            self.put_action(key, Some(row.clone()));
        }
    }

    fn write_task(&mut self, write: &TaskWrite) -> Result<()> {
        match write {
            TaskWrite::Insert(row) => {
                let is_free = !self.has_task(row.call);
                must(is_free, "insert", row.call, "there is one already")?;
                self.set_task(row);
            }
            TaskWrite::Update(row) => {
                must(self.has_task(row.call), "update", row.call, "there is no such task")?;
                self.set_task(row);
            }
            TaskWrite::Amend(row) => {
                if self.has_task(row.call) {
                    self.set_task(row);
                }
            }
            TaskWrite::Delete(call) => self.end_task(*call)?,
            TaskWrite::Discard(call) => {
                if self.has_task(*call) {
                    self.put_task(*call, None);
                }
            }
            TaskWrite::DeleteAll(run) => {
                let calls: Vec<CallKey> =
                    self.tables().tasks.of_run(*run).map(|row| row.call).collect();
                calls.into_iter().for_each(|call| self.put_task(call, None));
            }
        }
        Ok(())
    }

    /// Ends a task that must be there.
    pub(super) fn end_task(&mut self, call: CallKey) -> Result<()> {
        must(self.has_task(call), "delete", call, "there is no such task")?;
        self.put_task(call, None);
        Ok(())
    }

    fn has_task(&self, call: CallKey) -> bool {
        self.tables().tasks.get(call).is_some()
    }

    fn set_task(&mut self, row: &TaskRow) {
        self.put_task(row.call, Some(row.clone()));
    }

    /// Adds a row to the ledger of its call. When that has too many, the oldest goes that is not
    /// one of the first.
    fn add_attempt(&mut self, row: &AttemptRow) {
        let ledger =
            self.tables().attempts.map().range((row.call, u64::MIN)..=(row.call, u64::MAX));
        let place = ledger.last().map_or(1, |((_, place), _)| place + 1);
        self.put_attempt((row.call, place), Some(row.clone()));
        if place > LEDGER_ROWS {
            let oldest = place - (LEDGER_ROWS - LEDGER_BEGINNING);
            self.put_attempt((row.call, oldest), None);
        }
    }
}

fn must(holds: bool, verb: &str, call: CallKey, why: &str) -> Result<()> {
    match holds {
        true => Ok(()),
        false => Err(Error::data(format!("{verb} the task of call {call}: {why}"))),
    }
}
