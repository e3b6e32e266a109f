//! The end of a run that failed or was cancelled: what it did is undone before it closes.
//!
//! | state        | what happens                          | next                               |
//! |--------------|---------------------------------------|------------------------------------|
//! | Settling     | the last call that may have taken effect settles | Compensating            |
//! | Compensating | a compensation completes, or fails for good      | the one before it       |
//! | Compensating | none is left                          | closed                             |
//! | any          | the run is terminated                 | closed, compensation incomplete    |
//!
//! Compensations run one after another, the last one recorded first. One that fails for good is in
//! the history like any other activity; the others still run.

use super::{Ask, Machine};
use crate::command::{CommandKind, Next};
use crate::event::{Compensation, ParentClose};
use crate::{Failure, Kind, Payload, Seq};

/// A run that is about to close.
#[derive(Debug)]
pub(super) struct Ending {
    close: Close,
    /// The compensation that is under way.
    running: Option<Seq>,
    compensation: Option<Compensation>,
}

/// What a run closes with.
#[derive(Debug)]
enum Close {
    Failed(Failure),
    Cancelled(Failure),
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
        match (returned, self.continuing.take().filter(|_| continues)) {
            (Ok(result), _) => self.close(CommandKind::Complete { result }),
            (Err(_), Some(input)) => {
                let carried = Box::new(self.carried());
                self.close(CommandKind::ContinueAsNew { input, carried });
            }
            (Err(failure), None) => self.begin_ending(failure),
        }
    }

    fn begin_ending(&mut self, failure: Failure) {
        let close = match self.cancelled {
            Some(_) => Close::Cancelled(failure),
            None => Close::Failed(failure),
        };
        let undoable = self.activities.values().any(|call| call.is_open() && call.undo.is_some());
        let nothing = self.undo.is_empty() && self.settling.is_empty() && !undoable;
        // What is only waiting ends with the run; when the run goes on for a while, it ends now.
        if !nothing {
            self.give_up_everything();
        }
        self.ending = Some(Ending { close, running: None, compensation: None });
        self.advance_ending();
    }

    fn give_up_everything(&mut self) {
        for (seq, activity) in std::mem::take(&mut self.activities) {
            if activity.is_open() {
                self.give_up_activity(seq, activity.undo);
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
            let Some(ending) = &mut self.ending else { return };
            if !self.settling.is_empty() {
                return;
            }
            if let Some(seq) = ending.running {
                let Some(activity) = self.activities.get(&seq) else { return };
                match activity.wait.outcome() {
                    None => return,
                    Some(Ok(_)) => {}
                    Some(Err(_)) => ending.compensation = Some(Compensation::Incomplete),
                }
                ending.running = None;
                self.activities.remove(&seq);
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
        let Some(Ending { close, compensation, .. }) = self.ending.take() else { return };
        match close {
            Close::Cancelled(failure) => {
                self.close(CommandKind::EndCancelled { failure, compensation });
            }
            Close::Failed(failure) => {
                let carried = Box::new(self.carried());
                self.close(CommandKind::Fail { failure, compensation, carried });
            }
        }
    }

    /// Ends the run where it stands.
    pub(crate) fn terminate(&mut self, reason: &str) {
        self.armed = false;
        let undone = self.undo.is_empty() && self.settling.is_empty() && self.ending.is_none();
        let compensation = (!undone).then_some(Compensation::Incomplete);
        let failure = Failure::of_kind(Kind::Cancelled, reason).with_type("Terminated");
        self.ending = None;
        self.close(CommandKind::EndCancelled { failure, compensation });
    }

    /// The last command of the run, after what becomes of its children.
    fn close(&mut self, last: CommandKind) {
        let open = |(seq, child): (&Seq, &super::Child)| {
            let terminate = match child.parent_close {
                ParentClose::Cancel => false,
                ParentClose::Terminate => true,
                ParentClose::Abandon | ParentClose::Detached => return None,
            };
            child.wait.is_open().then_some((*seq, terminate))
        };
        let children: Vec<(Seq, bool)> = self.children.iter().filter_map(open).collect();
        for (child, terminate) in children {
            self.command(CommandKind::CancelChild { child, terminate });
        }
        self.command(last);
        self.closed = true;
    }

    /// What the next run of the instance has of this one.
    fn carried(&mut self) -> Next {
        let mut next = Next::default();
        next.carried.kv = self.kv.clone();
        next.carried.signal_ids = self.signals.known();
        next.signals = self.signals.take_unread();
        next
    }
}
