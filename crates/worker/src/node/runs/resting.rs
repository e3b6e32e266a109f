//! Runs that take no turns: those that an operator acts on, and those that are paused.
//!
//! Whoever acts on a run must know all of it, and nothing of it may change meanwhile. So the run is
//! brought to rest first: it leaves memory when its step is durable, and is read when nothing of it
//! is on its way any more. News for it is stored as for any run that is not in memory, and it is
//! loaded when the action is durable.
//!
//! A paused run is not in memory either. Its messages are parked, so that nobody who looks for work
//! finds them; one that comes later is found, and looked at, because somebody may want the run to
//! end. Parking is done for all messages of an instance at once, also for those that came after the
//! look; therefore there is another look after it, until it finds nothing new.

use std::collections::VecDeque;

use resurgam_core::action::Action;
use resurgam_core::{RunKey, Uid};
use resurgam_store::rows::{Message as StoredMessage, MessageRow};

use crate::node::Node;
use crate::node::coalesced_read::CoalescedRead;
use crate::node::pending_action::PendingAction;
use crate::node::store_request::StoreRequest;

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

/// An instance that is known to be paused.
#[derive(Debug, Default)]
pub(crate) struct PausedRun {
    /// How many messages it had when it was last looked at.
    seen: usize,
    looks: CoalescedRead,
}

/// What a look at a paused instance finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Nothing that was not there before.
    NothingNew,
    /// Messages that it has not read.
    Messages,
    /// Somebody wants it to end.
    End,
}

impl PausedRun {
    /// It was looked at, and has these messages. True when there is to be another look.
    pub(crate) fn looked_at(&mut self, messages: &[MessageRow]) -> (Look, bool) {
        let of_run = || messages.iter().filter(|row| !row.body.is_for_holder());
        let ends = |row: &MessageRow| {
            matches!(row.body, StoredMessage::Cancel { .. } | StoredMessage::Terminate { .. })
        };
        let before = std::mem::replace(&mut self.seen, of_run().count());
        let look = match self.seen != before {
            _ if of_run().any(ends) => Look::End,
            true => Look::Messages,
            false => Look::NothingNew,
        };
        (look, self.looks.end())
    }
}

impl Node {
    /// Looks at a paused instance: there may be messages.
    pub(crate) fn look_at_paused(&mut self, uid: Uid) {
        let Some(paused) = self.memory.runs.paused.get_mut(&uid) else { return };
        if paused.looks.begin(&mut self.ticks).is_some() {
            self.ask_store_of(uid, StoreRequest::PausedRun(uid));
        }
    }

    /// Reads a run that is acted on: nothing of it is on its way any more.
    pub(crate) fn read_run_to_act_on(&mut self, uid: Uid) {
        let Some(acts) = self.memory.runs.acted_on.get(&uid) else { return };
        let asked = acts.first().and_then(RunAct::asked).map(Box::new);
        self.ask_store_of(uid, StoreRequest::RunToActOn { uid, asked });
    }
}
