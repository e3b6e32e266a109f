//! Instances in a batch: a start that wins its id or is refused, changes of status, and children.

use resurgam_core::{RunKey, Uid};

use super::tables::Instance;
use super::transaction::Transaction;
use crate::rows::{InstanceRow, Status};
use crate::{ChildStart, Error, InstanceWrite, Replaces, Result, StepResult};

impl Transaction<'_> {
    /// Changes an instance, or says why the step is refused.
    pub(super) fn write_instance(&mut self, write: &InstanceWrite) -> Result<StepResult> {
        match write {
            InstanceWrite::Insert { row, replaces } => self.start(row, *replaces),
            InstanceWrite::Open { uid, signals_below } => Ok(self.open(*uid, *signals_below)),
            InstanceWrite::Continue { run, input, pause } => {
                let RunKey { uid, run } = *run;
                if self.tables().instances.get(uid).is_some_and(|instance| !instance.current) {
                    return Ok(StepResult::Duplicate);
                }
                let what = || format!("continue instance {uid} with run {run}");
                self.change(uid, what, |row| {
                    row.run = run;
                    row.input = input.clone();
                    row.status = Status::Running;
                    if let Some(pause) = pause {
                        row.pause = (**pause).clone();
                    }
                    row.outcome = None;
                    row.compensation = None;
                    row.error = None;
                    row.closed_at = None;
                })
            }
            InstanceWrite::Status { uid, status, outcome, compensation, error, closed_at } => {
                let what = || format!("set instance {uid} to {}", status.name());
                self.change(*uid, what, |row| {
                    row.status = *status;
                    row.outcome = outcome.clone();
                    row.compensation = *compensation;
                    row.error = error.clone();
                    row.closed_at = *closed_at;
                })
            }
            InstanceWrite::Pause { uid, status, pause } => {
                let what = || format!("set instance {uid} to {}", status.name());
                self.change(*uid, what, |row| {
                    row.status = *status;
                    row.pause = pause.clone();
                    row.error = None;
                })
            }
        }
    }

    /// Starts an instance unless its id is held or its request is known. Both are looked at before
    /// the uid: a start that is repeated is a duplicate also when it repeats its uid.
    fn start(&mut self, row: &InstanceRow, replaces: Replaces) -> Result<StepResult> {
        let instances = &self.tables().instances;
        let holder = instances.holder(&row.id).cloned();
        let held = holder.as_ref().map(|held| (held.row.uid, held.row.status.is_closed()));
        let in_the_way = !replaces.frees(held);
        let request = row.request_id.as_deref();
        if in_the_way || request.is_some_and(|request| instances.requested(request).is_some()) {
            return Ok(StepResult::Duplicate);
        }
        if instances.get(row.uid).is_some() {
            return Err(Error::data(format!(
                "insert instance {:?}: its uid {} is that of another start",
                row.id, row.uid
            )));
        }
        if let Some(earlier) = holder {
            self.put_instance(earlier.row.uid, Some(Instance { current: false, ..earlier }));
        }
        let arrival = self.next_arrival();
        self.put_instance(row.uid, Some(Instance { row: row.clone(), current: true, arrival }));
        Ok(StepResult::Written)
    }

    /// Starts an instance for a workflow. One that is there already by its uid was started by the
    /// same command before, and stays as it is.
    pub(super) fn start_child(&mut self, child: &ChildStart) -> Result<()> {
        if self.tables().instances.get(child.row.uid).is_some() {
            return Ok(());
        }
        let written = self.start(&child.row, child.replaces)? == StepResult::Written;
        match (written, &child.otherwise) {
            (true, _) => self.deliver(&child.start),
            (false, Some(otherwise)) => self.deliver(otherwise),
            (false, None) => {}
        }
        Ok(())
    }

    fn open(&self, uid: Uid, signals_below: Option<usize>) -> StepResult {
        let is_open = |instance: &Instance| !instance.row.status.is_closed();
        if !self.tables().instances.get(uid).is_some_and(is_open) {
            return StepResult::Closed;
        }
        let waiting = self.tables().messages.signals(uid);
        match signals_below {
            Some(below) if waiting >= below => StepResult::Full,
            _ => StepResult::Written,
        }
    }

    /// Changes an instance that must be there.
    fn change(
        &mut self,
        uid: Uid,
        what: impl Fn() -> String,
        change: impl FnOnce(&mut InstanceRow),
    ) -> Result<StepResult> {
        let Some(mut instance) = self.tables().instances.get(uid).cloned() else {
            return Err(Error::data(format!("{}: there is no such instance", what())));
        };
        change(&mut instance.row);
        self.put_instance(uid, Some(instance));
        Ok(StepResult::Written)
    }
}
