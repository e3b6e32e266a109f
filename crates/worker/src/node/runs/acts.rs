//! What operators do to a run at rest, one after the other (`resting.rs`).

use std::collections::VecDeque;

use resurgam_core::RunKey;
use resurgam_core::action::Action;

use crate::node::pending_action::PendingAction;

/// Something that is done to a run at rest.
#[derive(Debug)]
pub(crate) enum RunAct {
    /// An operator asks for it.
    Asked(Box<PendingAction>),
    /// A paused run goes on because somebody wants it to end.
    ResumeToEnd,
}

impl RunAct {
    fn is_same(&self, other: &RunAct) -> bool {
        match (self, other) {
            (RunAct::Asked(one), RunAct::Asked(other)) => one.is_same(other),
            (RunAct::ResumeToEnd, RunAct::ResumeToEnd) => true,
            _ => false,
        }
    }

    /// What the operator asks for, and of which run.
    pub(crate) fn asked(&self) -> Option<(RunKey, Action)> {
        match self {
            RunAct::Asked(asked) => Some((asked.run(), asked.request.action.clone())),
            RunAct::ResumeToEnd => None,
        }
    }
}

/// What is to be done to a run, in order.
#[derive(Debug, Default)]
pub(crate) struct Acts {
    queue: VecDeque<RunAct>,
    /// The run is at rest: it is being read, or what was done first is on its way to the disk.
    at_rest: bool,
}

impl Acts {
    /// Adds one, unless it is there.
    pub(crate) fn add(&mut self, act: RunAct) {
        if !self.queue.iter().any(|other| other.is_same(&act)) {
            self.queue.push_back(act);
        }
    }

    /// The run is at rest from now on. False when it was before.
    pub(crate) fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.at_rest, true)
    }

    /// What is done first.
    pub(crate) fn first(&self) -> Option<&RunAct> {
        self.queue.front()
    }

    pub(crate) fn take_first(&mut self) -> Option<RunAct> {
        self.queue.pop_front()
    }

    /// What was done first is durable. True when there is more.
    pub(crate) fn done(&mut self) -> bool {
        self.at_rest = false;
        !self.queue.is_empty()
    }
}
