//! The end of a run that failed or was cancelled: what it did is undone before it closes.
//!
//! | state        | what happens                          | next                               |
//! |--------------|---------------------------------------|------------------------------------|
//! | Settling     | the last attempt that works is over              | Compensating            |
//! | Compensating | a compensation completes, or fails for good      | the one before it       |
//! | Compensating | none is left                          | closed                             |
//! | any          | the run is cancelled                  | the same, and it closes as cancelled |
//! | any          | the run is terminated                 | closed, compensation incomplete    |
//!
//! Compensations run one after another, the last one recorded first. One that fails for good is in
//! the history like any other activity; the others still run. None begins while an attempt of the
//! run works, also one of a call that cannot be undone: it may use what would be taken away. Such a
//! call is waited for until its grace period is over. A run with nothing to undo waits for nothing.

use super::{Ask, Machine};
use crate::command::CommandKind;
use crate::event::{Carried, Compensation, ParentClose};
use crate::{Failure, Kind, Payload, Seq};

/// A run that is about to close.
#[derive(Debug)]
pub(super) struct Ending {
    /// What it closes with: as cancelled when it is, by then.
    failure: Failure,
    /// The compensation that is under way.
    running: Option<Seq>,
    compensation: Option<Compensation>,
}

/// The type of the failure that a workflow returns to continue as new.
pub const CONTINUE_AS_NEW: &str = "ContinueAsNew";

impl Machine {
    /// The code returned, or is not asked any more.
    pub(crate) fn end(&mut self, returned: Result<Payload, Failure>) {
        let continues = matches!(&returned, Err(failure)
            if failure.type_name.as_deref() == Some(CONTINUE_AS_NEW));
        self.armed = false;
        if self.ending.is_some() {
            return;
        }
        // One that was cancelled ends, whatever its code would like to begin.
        let goes_on = continues && self.cancelled.is_none();
        match (returned, self.continuing.take().filter(|_| goes_on)) {
            (Ok(result), _) => self.close(CommandKind::Complete { result }),
            (Err(_), Some(input)) => {
                let carried = Box::new(self.carried());
                self.close(CommandKind::ContinueAsNew { input, carried });
            }
            (Err(failure), None) => {
                let cancelled = self.cancelled.clone().filter(|_| continues);
                self.begin_ending(cancelled.unwrap_or(failure));
            }
        }
    }

    fn begin_ending(&mut self, failure: Failure) {
        // What is only waiting ends with the run; when the run goes on for a while, it ends now.
        if self.may_have_to_undo() {
            self.give_up_everything();
        }
        self.ending = Some(Ending { failure, running: None, compensation: None });
        self.advance_ending();
    }

    /// True when something was done that can be undone, or may have been.
    pub fn may_have_to_undo(&self) -> bool {
        let undoable = |call: &super::Activity| call.is_open() && call.undo.is_some();
        !self.undo.is_empty()
            || self.settling.values().any(Option::is_some)
            || self.activities.values().any(undoable)
    }

    fn give_up_everything(&mut self) {
        self.open_input = 0;
        for (seq, activity) in std::mem::take(&mut self.activities) {
            if activity.is_open() {
                self.give_up_activity(seq, activity.undo, true);
            }
        }
        for (seq, timer) in std::mem::take(&mut self.timers) {
            if timer.is_open() {
                self.command(CommandKind::CancelTimer { timer: seq });
            }
        }
    }

    /// Does the next thing before the run can close.
    pub(crate) fn advance_ending(&mut self) {
        loop {
            if self.ending.is_none() {
                return;
            }
            if !self.settling.is_empty() && self.may_have_to_undo() {
                return;
            }
            let Some(ending) = &mut self.ending else { return };
            if let Some(seq) = ending.running {
                let Some(activity) = self.activities.get(&seq) else { return };
                match activity.wait.outcome() {
                    None => return,
                    Some(Ok(_)) => {}
                    Some(Err(_)) => ending.compensation = Some(Compensation::Incomplete),
                }
                ending.running = None;
                self.remove_activity(seq);
            }
            let Some((activity, mut call)) = self.undo.pop() else { return self.close_ending() };
            call.compensates = Some(activity);
            let seq = self.schedule_activity(call, Ask { shielded: true, undo: None });
            if let Some(ending) = &mut self.ending {
                ending.running = Some(seq);
                ending.compensation.get_or_insert(Compensation::Complete);
            }
        }
    }

    fn close_ending(&mut self) {
        let Some(Ending { failure, compensation, .. }) = self.ending.take() else { return };
        self.close(match self.cancelled {
            Some(_) => CommandKind::EndCancelled { failure, compensation, terminated: false },
            None => {
                let carried = Box::new(self.carried());
                CommandKind::Fail { failure, compensation, carried }
            }
        });
    }

    /// Ends the run where it stands.
    pub(crate) fn terminate(&mut self, reason: &str) {
        self.armed = false;
        let unfinished = self.ending.as_ref().is_some_and(|ending| ending.compensation.is_some());
        let undoes = unfinished || self.may_have_to_undo();
        let compensation = undoes.then_some(Compensation::Incomplete);
        let failure = Failure::of_kind(Kind::Cancelled, reason).with_type("Terminated");
        self.ending = None;
        self.close(CommandKind::EndCancelled { failure, compensation, terminated: true });
    }

    /// The last command of the run, after what becomes of its children.
    fn close(&mut self, last: CommandKind) {
        let open = |(seq, child): (&Seq, &super::Child)| {
            let terminate = match child.parent_close {
                ParentClose::Cancel => false,
                ParentClose::Terminate => true,
                ParentClose::Abandon | ParentClose::Detached => return None,
            };
            child.is_running().then_some((*seq, terminate))
        };
        let children: Vec<(Seq, bool)> = self.children.iter().filter_map(open).collect();
        for (child, terminate) in children {
            self.command(CommandKind::CancelChild { child, terminate });
        }
        self.command(last);
        self.closed = true;
    }

    /// What the next run of the instance has of this one.
    fn carried(&self) -> Carried {
        let signal_ids = self.signals.known();
        Carried { kv: self.kv.clone(), signal_ids, signals: self.signals.unread() }
    }
}
