//! What happens once a step is durable, and not before.
//!
//! Whatever the world outside, or the rest of memory, could notice of a step is an effect beside
//! it: an attempt begins, a caller gets the answer, another run is woken. So a crash before the
//! commit leaves nothing behind that anybody could have seen. Effects are listed here; they happen
//! in `commit.rs` (`happen`) and nowhere else.

use std::sync::{Arc, Mutex};

use resurgam_core::{CallKey, Timestamp, Uid};
use resurgam_store::{InboxRow, ScheduleRecord};

use super::refusal::{Refusal, too_late};
use crate::error::Error;
use crate::handle::{Outcome, Started};
use crate::node::pending_action::{JobPage, PendingAction};
use crate::node::reply::{Answer, Reply};
use crate::node::store_request::InstanceActions;

/// What happens once a step is durable.
#[derive(Debug)]
pub(crate) enum Effect {
    /// An attempt begins.
    Begin(CallKey),
    /// An attempt that outlived its process is waited for.
    Resume(CallKey),
    /// A task waits for its time.
    Waiting(CallKey),
    /// A run waits for a timer.
    TimerStarted(Timestamp, Uid),
    /// A run may take its next turn.
    NextTurn(Uid),
    /// A run is over and leaves memory.
    Closed(Uid),
    /// A run is over and leaves memory; the next one of its instance begins.
    NextRun(Uid),
    /// An instance may have messages that it does not know of, or begins.
    Wake(Uid),
    /// An instance is to end at once: one that is blocked does not wait for its next try.
    WakeToEnd(Uid),
    /// An attempt that runs is told that it is to end, and reports when it has.
    Tell(CallKey),
    /// Nobody wants to hear of a call any more.
    GivenUp(CallKey),
    /// Those who wait for the outcome get it.
    Finished(Uid, Outcome),
    /// A run is blocked, and tried again later.
    Blocked(Uid),
    /// News of a run that is not in memory is stored.
    NewsStored(Uid),
    /// What another node told about an attempt is gone from the store.
    ReportTaken(Uid, String),
    /// A call was given up that another node may run.
    SettleShared(CallKey),
    /// Reports for an instance are read.
    ReadReports(Uid),
    /// A run that an operator acts on is read: nothing of it is on its way any more.
    ReadRunToActOn(Uid),
    /// A closed instance begins again, or goes on, unless the store refuses that: another start
    /// takes its id first, or somebody else settles the letter.
    ActsOnRun(Box<PendingAction>),
    /// What an operator did to a run is stored, or refused by the store: the run may go on.
    RunActed(Uid),
    /// What an attempt has to say to the holder of its shard is stored.
    Reported(Uid),
    /// What came of an action on a call is stored: those who look at the instance are told.
    Acted(Uid),
    /// Everything that was on its way before this is durable.
    AtRest,
    /// What happens when the last part of it does.
    Part(Arc<Mutex<Effect>>),
    /// Claims of a process that died are read on.
    ReadAbandoned,
    /// A decision about a schedule, made on what was read; the next one can follow.
    ScheduleDecided(Box<ScheduleRecord>),
    /// Why a schedule does not fire is noted on it.
    ScheduleAside(String),
    /// An instance of a schedule closed.
    ScheduleMayGoOn(String),
    /// Schedules that wait are read on, from an id.
    ReadWaiting(String),
    /// Schedules have changed.
    LookAtSchedules,
    /// What operators set for activities has changed.
    LookAtOverrides,
    /// What was asked for of many instances is read with its tasks.
    ReadActions(Arc<[InstanceActions]>),
    /// A bulk job has asked for a page, or is over.
    BulkWritten(Box<JobPage>),
    /// There may be another bulk job, or one is to end.
    LookAtBulk,
    /// A row of the inbox is taken.
    RowTaken(Box<InboxRow>),
    /// A row of the inbox for this instance is refused.
    RowRefused(String),
    /// Somebody gets the answer that it is done.
    Reply(Reply<()>),
    /// Somebody gets the answer that an instance was started.
    Started(Reply<Started>, Started),
    /// Somebody hears why what they asked for was not done.
    Refuse(Reply<()>, Error),
    /// Somebody hears that an instance of this id was there before, or came to be just now.
    AlreadyExists(Reply<Started>, String),
}

impl Effect {
    /// The call that this effect makes or ends.
    pub(crate) fn call(&self) -> Option<CallKey> {
        match self {
            Effect::Begin(call)
            | Effect::Resume(call)
            | Effect::Waiting(call)
            | Effect::GivenUp(call) => Some(*call),
            _ => None,
        }
    }

    /// The call that waits from then on.
    pub(crate) fn waits(&self) -> Option<CallKey> {
        match self {
            Effect::Waiting(call) => Some(*call),
            _ => None,
        }
    }

    pub(crate) fn is_about(&self, call: CallKey) -> bool {
        self.call() == Some(call)
    }

    /// The message that asks for what this step does to a run, which the store may refuse.
    pub(crate) fn acts_on_run(&self) -> Option<&str> {
        match self {
            Effect::ActsOnRun(asked) => Some(&asked.message),
            _ => None,
        }
    }

    /// True when somebody hears by it what became of something that they asked of a run.
    pub(crate) fn is_reply(&self) -> bool {
        matches!(self, Effect::Reply(_) | Effect::Refuse(..))
    }

    /// True when somebody waits for the start of this instance.
    pub(crate) fn starts(&self, uid: Uid) -> bool {
        matches!(self, Effect::Started(_, started) if started.uid == uid)
    }

    /// What those hear who wait for the step, if anybody does, now that its fate is known.
    pub(crate) fn answer(self, fate: std::result::Result<(), &Refusal>) -> Option<Answer> {
        match self {
            Effect::Started(reply, started) => Some(reply.with(match fate {
                Ok(()) => Ok(started),
                Err(refusal) => Err(not_started(&started.id, refusal)),
            })),
            // Whoever was first is there, or was refused for the same reason.
            Effect::AlreadyExists(reply, id) => Some(reply.with(Err(match fate {
                Ok(()) => Error::already_exists(&id),
                Err(refusal) => not_started(&id, refusal),
            }))),
            Effect::Reply(reply) => Some(reply.with(fate.map_err(not_done))),
            Effect::Refuse(reply, why) => {
                Some(reply.with(Err(fate.map_or_else(not_done, |()| why))))
            }
            Effect::Begin(..)
            | Effect::Resume(..)
            | Effect::Waiting(..)
            | Effect::TimerStarted(..)
            | Effect::NextTurn(..)
            | Effect::Closed(..)
            | Effect::NextRun(..)
            | Effect::Wake(..)
            | Effect::WakeToEnd(..)
            | Effect::Tell(..)
            | Effect::GivenUp(..)
            | Effect::Finished(..)
            | Effect::Blocked(..)
            | Effect::NewsStored(..)
            | Effect::ReportTaken(..)
            | Effect::SettleShared(..)
            | Effect::ReadReports(..)
            | Effect::ReadRunToActOn(..)
            | Effect::ActsOnRun(..)
            | Effect::RunActed(..)
            | Effect::Reported(..)
            | Effect::Acted(..)
            | Effect::AtRest
            | Effect::Part(..)
            | Effect::ReadAbandoned
            | Effect::ScheduleDecided(..)
            | Effect::ScheduleAside(..)
            | Effect::ScheduleMayGoOn(..)
            | Effect::ReadWaiting(..)
            | Effect::LookAtSchedules
            | Effect::LookAtOverrides
            | Effect::ReadActions(..)
            | Effect::BulkWritten(..)
            | Effect::LookAtBulk
            | Effect::RowTaken(..)
            | Effect::RowRefused(..) => None,
        }
    }

    /// The run that this effect belongs to, where its step is a step of that run.
    pub(crate) fn run(&self) -> Option<Uid> {
        match self {
            Effect::NextTurn(uid) | Effect::Blocked(uid) => Some(*uid),
            _ => None,
        }
    }
}

/// Why an instance was not started.
fn not_started(id: &str, refusal: &Refusal) -> Error {
    match refusal {
        Refusal::Duplicate => Error::already_exists(id),
        Refusal::Missed => Error::overtaken(),
        Refusal::Fenced | Refusal::Trouble(_) => Error::transient(format!("start {id}: {refusal}")),
        refusal => Error::rejected(format!("start {id}: {refusal}")),
    }
}

/// Why something was not done.
fn not_done(refusal: &Refusal) -> Error {
    match refusal {
        Refusal::Closed => too_late(),
        Refusal::Missed => Error::overtaken(),
        Refusal::Full(most) => Error::full(*most),
        Refusal::Fenced | Refusal::Trouble(_) => Error::transient(refusal),
        refusal => Error::rejected(refusal),
    }
}
