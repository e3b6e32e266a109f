//! What happens once a step is durable, and not before.
//!
//! Whatever the world outside, or the rest of memory, could notice of a step is an effect beside
//! it: an attempt begins, a caller gets the answer, another run is woken. So a crash before the
//! commit leaves nothing behind that anybody could have seen. Effects happen here and nowhere else;
//! the committer (`commit.rs`) calls for them.

use std::sync::{Arc, Mutex, PoisonError};

use resurgam_core::{CallKey, Timestamp, Uid};
use resurgam_store::rows::TaskRow;
use resurgam_store::{InboxRow, ScheduleRecord};

use super::Node;
use super::commit::Refusal;
use super::output::{Order, Output};
use super::request::Reply;
use super::run::{HotRun, refuse_news, too_late};
use crate::error::Error;
use crate::handle::{Outcome, Started};

/// What happens once a step is durable.
#[derive(Debug)]
pub(super) enum Effect {
    /// An attempt begins.
    Begin(CallKey),
    /// A task waits for its time.
    Waiting(CallKey),
    /// A run waits for a timer.
    TimerStarted(Timestamp, Uid),
    /// A run may take its next turn.
    Durable(Uid),
    /// A run is over and leaves memory.
    Closed(Uid),
    /// A run is over and leaves memory; the next one of its instance begins.
    NextRun(Uid),
    /// An instance may have messages that it does not know of, or begins.
    Wake(Uid),
    /// The same for one that is to end at once: one that is blocked does not wait for its next try.
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
    /// What an attempt has to say to the holder of its shard is stored.
    Reported(Uid),
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
    /// A row of the inbox is taken.
    RowTaken(Box<InboxRow>),
    /// A row of the inbox for this instance is refused.
    RowRefused(String),
    /// Somebody gets the answer that it is done.
    Reply(Reply<()>),
    /// Somebody gets the answer that an instance was started.
    Started(Reply<Started>, Started),
}

impl Effect {
    /// The call that this effect makes or ends.
    pub(super) fn call(&self) -> Option<CallKey> {
        match self {
            Effect::Begin(call) | Effect::Waiting(call) | Effect::GivenUp(call) => Some(*call),
            _ => None,
        }
    }

    pub(super) fn is_about(&self, call: CallKey) -> bool {
        self.call() == Some(call)
    }

    /// True when somebody waits for the start of this instance.
    pub(super) fn starts(&self, uid: Uid) -> bool {
        matches!(self, Effect::Started(_, started) if started.uid == uid)
    }

    /// The step is durable: those who wait for it hear of it, and nothing else follows.
    pub(super) fn answers(self) {
        match self {
            Effect::Started(reply, started) => reply.send(Ok(started)),
            Effect::Reply(reply) => reply.send(Ok(())),
            _ => {}
        }
    }

    /// The step is not durable and will not be: those who wait for it hear of it.
    pub(super) fn fails(self, refusal: &Refusal) {
        match self {
            Effect::Started(reply, started) => reply.send(Err(match refusal {
                Refusal::Duplicate => Error::already_exists(&started.id),
                Refusal::Fenced | Refusal::Trouble(_) => {
                    Error::transient(format!("start {}: {refusal}", started.id))
                }
                refusal => Error::rejected(format!("start {}: {refusal}", started.id)),
            })),
            Effect::Reply(reply) => reply.send(Err(match refusal {
                Refusal::Closed => too_late(),
                Refusal::Missed => Error::overtaken(),
                Refusal::Full(most) => Error::full(*most),
                Refusal::Fenced | Refusal::Trouble(_) => Error::transient(refusal),
                refusal => Error::rejected(refusal),
            })),
            _ => {}
        }
    }

    /// The run that this effect belongs to, where its step is a step of that run.
    pub(super) fn run(&self) -> Option<Uid> {
        match self {
            Effect::Durable(uid) | Effect::Blocked(uid) => Some(*uid),
            _ => None,
        }
    }
}

impl Node {
    /// A step is durable: now this may be.
    pub(super) fn happen(&mut self, effect: Effect) {
        match effect {
            Effect::Begin(call) => self.begin_attempt(call),
            Effect::Tell(call) => self.tell_attempt(call),
            Effect::GivenUp(call) => self.forget_call(call),
            Effect::Waiting(call) => self.task_waits(call),
            Effect::TimerStarted(at, uid) => self.memory.due.add_run(at, uid),
            Effect::Durable(uid) => self.step_is_durable(uid),
            Effect::Closed(uid) => {
                if let Some(run) = self.take_out(uid) {
                    refuse_news(run.into_news());
                }
            }
            Effect::NextRun(uid) => {
                if let Some(run) = self.take_out(uid) {
                    self.hand_over(run);
                }
                self.load_run(uid);
            }
            Effect::Wake(uid) => self.has_messages(uid),
            Effect::WakeToEnd(uid) => self.wake_to_end(uid),
            Effect::Finished(uid, outcome) => {
                self.finished(uid, &outcome);
                self.will_be_deleted(outcome.status());
            }
            Effect::Blocked(uid) => self.try_blocked_later(uid),
            Effect::NewsStored(uid) => self.news_stored(uid),
            Effect::ReportTaken(uid, id) => self.report_taken(uid, id),
            Effect::SettleShared(call) => self.settle_shared(call),
            Effect::Reported(uid) => self.has_reports(uid),
            Effect::AtRest => self.at_rest(),
            Effect::Part(parts) => {
                if let Some(effect) = Arc::into_inner(parts) {
                    self.happen(effect.into_inner().unwrap_or_else(PoisonError::into_inner));
                }
            }
            Effect::ReadAbandoned => self.read_abandoned(),
            Effect::ScheduleDecided(record) => self.schedule_decided(&record.row.id),
            Effect::ScheduleAside(id) => self.schedule_decided(&id),
            Effect::ScheduleMayGoOn(id) => self.schedule_may_go_on(id),
            Effect::ReadWaiting(after) => self.read_waiting_schedules(after),
            Effect::LookAtSchedules => self.look_at_schedules(),
            Effect::RowTaken(row) => self.row_taken(&row),
            Effect::RowRefused(instance) => self.row_routed(&instance),
            Effect::Reply(reply) => reply.send(Ok(())),
            Effect::Started(reply, started) => reply.send(Ok(started)),
        }
    }

    /// The run takes the next turn, if it is still ours.
    fn step_is_durable(&mut self, uid: Uid) {
        self.outputs.push(Output::Changed(uid));
        if let Some(run) = self.memory.runs.get_mut(&uid) {
            run.committing = false;
            if std::mem::take(&mut run.gets_on) {
                run.tries = 0;
            }
            if !run.hearing.is_reading() {
                run.taken.clear();
            }
        }
        if !self.owns(uid) {
            return self.let_go(uid);
        }
        self.read_again(uid);
        self.advance(uid);
    }

    /// Takes a run that is over out of memory.
    fn take_out(&mut self, uid: Uid) -> Option<HotRun> {
        let run = self.memory.runs.remove(&uid)?;
        self.memory.ids.remove(&run.id);
        Some(run)
    }

    fn wake_to_end(&mut self, uid: Uid) {
        self.try_blocked_now(uid);
        match self.memory.blocked.contains_key(&uid) {
            true => self.load_run(uid),
            false => self.has_messages(uid),
        }
    }

    fn tell_attempt(&mut self, call: CallKey) {
        let Some(call) = self.memory.calls.get(&call).filter(|call| call.begun) else { return };
        let Some(claim) = &call.task.claim else { return };
        let (token, order) = (claim.token, end_order(&call.task));
        self.outputs.push(Output::OrderAttempt { token, order });
    }
}

/// What an attempt hears whose call was given up.
pub(super) fn end_order(task: &TaskRow) -> Order {
    if task.progress.in_grace { Order::EndInGrace } else { Order::Tell }
}
