//! Decides what becomes of each step of a batch, from what the database knew before it.
//!
//! Pure. The database said no to the batch as a whole; here its steps are gone through one by one
//! with what was read, each seeing what those before it leave behind. A step whose id is taken or
//! whose instance is closed is left out, and a row that cannot be written is an error that names
//! it.

use std::collections::{HashMap, HashSet};

use resurgam_core::{CallKey, RunKey, Seq, Uid};
use resurgam_store::rows::InstanceRow;
use resurgam_store::{Birth, Error, InstanceWrite, Result, Step, StepResult, TaskWrite};

use super::plan::{Born, Plan};

/// What the database knew before the batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Who holds the ids that the batch asks for: whether they are closed.
    pub(crate) holders: HashMap<String, Uid>,
    /// Request ids that were seen.
    pub(crate) requests: HashSet<String>,
    /// Instances: whether they are closed.
    pub(crate) closed: HashMap<Uid, bool>,
    /// Tasks that are there.
    pub(crate) tasks: HashSet<CallKey>,
    /// Events that are there.
    pub(crate) events: HashSet<(RunKey, Seq)>,
}

/// What is written of a batch, and what became of its steps.
pub(crate) fn judge(batch: &[Step], mut known: Known) -> Result<(Plan<'_>, Vec<StepResult>)> {
    let mut plan = Plan::default();
    let mut results = Vec::with_capacity(batch.len());
    for step in batch {
        let result = match &step.instance {
            Some(write) => known.instance(write)?,
            None => StepResult::Written,
        };
        results.push(result);
        if result == StepResult::Written {
            known.events(step)?;
            known.tasks(step)?;
            let births: Vec<Born> = step.births.iter().map(|birth| known.birth(birth)).collect();
            plan.add(step, &births);
        }
    }
    Ok((plan, results))
}

impl Known {
    fn instance(&mut self, write: &InstanceWrite) -> Result<StepResult> {
        match write {
            InstanceWrite::Insert { row, replace_closed } => self.start(row, *replace_closed),
            InstanceWrite::Open { uid } => Ok(match self.closed.get(uid) {
                Some(false) => StepResult::Written,
                Some(true) | None => StepResult::Closed,
            }),
            InstanceWrite::Continue { run, .. } => {
                let what = || format!("continue instance {} with run {}", run.uid, run.run);
                self.must_know(run.uid, what)
            }
            InstanceWrite::Status { uid, status, .. } => {
                let known =
                    self.must_know(*uid, || format!("set instance {uid} to {}", status.name()));
                self.closed.insert(*uid, status.is_closed());
                known
            }
        }
    }

    fn must_know(&self, uid: Uid, what: impl Fn() -> String) -> Result<StepResult> {
        match self.closed.contains_key(&uid) {
            true => Ok(StepResult::Written),
            false => Err(Error::data(format!("{}: there is no such instance", what()))),
        }
    }

    fn start(&mut self, row: &InstanceRow, replace_closed: bool) -> Result<StepResult> {
        let holder = self.holders.get(&row.id);
        let closed = holder.is_some_and(|holder| self.closed.get(holder) == Some(&true));
        let in_the_way = holder.is_some() && !(replace_closed && closed);
        if in_the_way || self.knows_request(row) {
            return Ok(StepResult::Duplicate);
        }
        if self.closed.contains_key(&row.uid) {
            return Err(Error::data(format!(
                "insert instance {:?}: its uid {} is that of another start",
                row.id, row.uid
            )));
        }
        self.write(row);
        Ok(StepResult::Written)
    }

    /// One that is there already by its uid was started by the same command, before a crash.
    fn birth(&mut self, birth: &Birth) -> Born {
        let row = &birth.row;
        if self.closed.contains_key(&row.uid) {
            return Born::Before;
        }
        if self.holders.contains_key(&row.id) || self.knows_request(row) {
            return Born::IdTaken;
        }
        self.write(row);
        Born::New
    }

    fn knows_request(&self, row: &InstanceRow) -> bool {
        row.request_id.as_ref().is_some_and(|request| self.requests.contains(request))
    }

    fn write(&mut self, row: &InstanceRow) {
        self.holders.insert(row.id.clone(), row.uid);
        self.requests.extend(row.request_id.clone());
        self.closed.insert(row.uid, row.status.is_closed());
    }

    fn events(&mut self, step: &Step) -> Result<()> {
        for (run, event) in &step.events {
            if !self.events.insert((*run, event.seq)) {
                return Err(Error::data(format!(
                    "append event {} to run {} of instance {}: there is one already",
                    event.seq, run.run, run.uid
                )));
            }
        }
        Ok(())
    }

    fn tasks(&mut self, step: &Step) -> Result<()> {
        for write in &step.tasks {
            match write {
                TaskWrite::Insert(row) => {
                    let new = self.tasks.insert(row.call);
                    must(new, "insert", row.call, "there is one already")?;
                }
                TaskWrite::Update(row) => {
                    let there = self.tasks.contains(&row.call);
                    must(there, "update", row.call, "there is no such task")?;
                }
                TaskWrite::Delete(call) => {
                    let there = self.tasks.remove(call);
                    must(there, "delete", *call, "there is no such task")?;
                }
                TaskWrite::Discard(call) => {
                    self.tasks.remove(call);
                }
                TaskWrite::DeleteAll(run) => self.tasks.retain(|call| call.run != *run),
            }
        }
        Ok(())
    }
}

fn must(holds: bool, verb: &str, call: CallKey, why: &str) -> Result<()> {
    match holds {
        true => Ok(()),
        false => Err(Error::data(format!("{verb} the task of call {call}: {why}"))),
    }
}

#[cfg(test)]
mod tests {
    use StepResult::{Closed, Duplicate, Written};
    use resurgam_core::{Payload, Timestamp};
    use resurgam_store::MessageWrite;
    use resurgam_store::rows::{Message, MessageRow, Status};

    use super::*;

    const A: Uid = Uid(1);
    const B: Uid = Uid(2);

    fn instance(uid: Uid, id: &str) -> InstanceRow {
        InstanceRow::new(uid, id, "fulfil", Payload::null(), Timestamp::EPOCH)
    }

    fn start(uid: Uid, id: &str, replace_closed: bool) -> Step {
        let write = InstanceWrite::Insert { row: instance(uid, id), replace_closed };
        Step { instance: Some(write), ..Step::default() }
    }

    fn set(uid: Uid, status: Status) -> Step {
        let write = InstanceWrite::Status {
            uid,
            status,
            outcome: None,
            compensation: None,
            error: None,
            closed_at: None,
        };
        Step { instance: Some(write), ..Step::default() }
    }

    fn tell(uid: Uid) -> Step {
        let body = Message::Cancel { reason: String::new() };
        let row = MessageRow { uid, id: "m".into(), due_at: Timestamp::EPOCH, body };
        Step {
            instance: Some(InstanceWrite::Open { uid }),
            messages: vec![MessageWrite::Insert(row)],
            ..Step::default()
        }
    }

    /// What becomes of a batch when `a` is held by this instance, open or closed.
    fn check(closed: Option<bool>, batch: &[Step]) -> Vec<StepResult> {
        let mut known = Known::default();
        if let Some(closed) = closed {
            known.holders.insert("a".to_string(), A);
            known.closed.insert(A, closed);
        }
        judge(batch, known).expect("no row is to blame").1
    }

    #[test]
    fn a_start_wins_its_id_or_is_a_duplicate() {
        assert_eq!(check(None, &[start(B, "a", false)]), [Written]);
        assert_eq!(check(Some(false), &[start(B, "a", false)]), [Duplicate]);
        assert_eq!(check(Some(false), &[start(B, "a", true)]), [Duplicate]);
        assert_eq!(check(Some(true), &[start(B, "a", false)]), [Duplicate]);
        assert_eq!(check(Some(true), &[start(B, "a", true)]), [Written]);
        let twice = [start(A, "a", false), start(B, "a", true)];
        assert_eq!(check(None, &twice), [Written, Duplicate]);
    }

    #[test]
    fn each_step_sees_what_those_before_it_leave_behind() {
        let batch =
            [start(B, "a", true), set(A, Status::Completed), tell(A), start(B, "a", true), tell(B)];
        assert_eq!(check(Some(false), &batch), [Duplicate, Written, Closed, Written, Written]);
    }

    #[test]
    fn a_birth_knows_its_own_start_from_that_of_another() {
        let body = Message::Start;
        let start = MessageRow { uid: B, id: "s".into(), due_at: Timestamp::EPOCH, body };
        let birth =
            |uid, id: &str| Birth { row: instance(uid, id), start: start.clone(), otherwise: None };
        let mut known = Known::default();
        known.holders.insert("a".to_string(), A);
        known.closed.insert(A, false);
        assert_eq!(known.birth(&birth(A, "a")), Born::Before);
        assert_eq!(known.birth(&birth(B, "a")), Born::IdTaken);
        assert_eq!(known.birth(&birth(B, "b")), Born::New);
        assert_eq!(known.birth(&birth(B, "b")), Born::Before);
    }
}
