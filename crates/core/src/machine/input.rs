//! What happened, as the machine takes notice of it: futures that wait for it are woken.

use super::{Machine, Undo};
use crate::command::{ActivityCall, CommandKind, Hear};
use crate::duration::Human;
use crate::{Event, EventKind, Failure, Kind, Payload, Seq};

/// What an input asks for besides waking the code.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The code is asked what it makes of it.
    Poll,
    /// The code is not asked: it has not begun, or has returned.
    Wait,
    /// The code is not asked any more, and the run ends with this failure.
    End(Failure),
    /// The run ends where it stands, for this reason.
    Terminate(String),
}

impl Machine {
    /// Takes notice of an input.
    pub(crate) fn apply(&mut self, event: &Event) -> Verdict {
        self.now = event.at;
        self.next_seq = event.seq.next();
        match &event.kind {
            EventKind::RunStarted(started) => {
                self.seed = started.seed;
                self.sleeps = started.first_turn_at.is_some();
                self.instance_began = started.chain.began.unwrap_or(event.at);
                self.kv.clone_from(&started.carried.kv);
                self.signals.remember(&started.carried.signal_ids);
                for signal in started.carried.signals.iter().cloned() {
                    self.signals.receive(&signal.name, signal.value, signal.id);
                }
            }
            EventKind::ActivityCompleted(done) => {
                self.settle_activity(done.activity, Ok(done.result.clone()));
            }
            EventKind::ActivityFailed(failed) => {
                let mut failure = failed.failure.clone();
                failure.attempts = Some(failed.attempt);
                failure.why = Some(failed.why.clone());
                let settling = self.settling.remove(&failed.activity);
                if failed.settles {
                    let call = self.activities.get_mut(&failed.activity);
                    let undo = settling.flatten().or_else(|| call?.undo.take());
                    self.settling.insert(failed.activity, undo);
                }
                self.settle_activity(failed.activity, Err(failure.clone()));
                if failed.ends_run && self.ending.is_none() {
                    return Verdict::End(failure);
                }
            }
            EventKind::ChildCompleted { child, result } => {
                self.settle_child(*child, Ok(result.clone()));
            }
            EventKind::ChildFailed { child, failure } => {
                if let Some(refused) = self.detached.get_mut(child) {
                    *refused = Some(failure.clone());
                }
                self.settle_child(*child, Err(failure.clone()));
            }
            EventKind::TimerFired { timer } if *timer == Seq::FIRST => {
                self.sleeps = false;
                self.began = event.at;
            }
            EventKind::TimerFired { timer } => {
                if let Some(timer) = self.timers.get_mut(timer) {
                    timer.settle(Ok(()));
                }
            }
            EventKind::SignalReceived { name, value, id } => {
                self.signals.receive(name, value.clone(), id.clone());
            }
            EventKind::CancelRequested { reason } => {
                let failure = self.cancel(reason);
                if self.sleeps {
                    return Verdict::End(failure);
                }
            }
            EventKind::TerminateRequested { reason } => return Verdict::Terminate(reason.clone()),
            EventKind::RunTimedOut { total } => return Verdict::End(self.timed_out(*total)),
            EventKind::LimitPassed { failure } => return Verdict::End(failure.clone()),
            _ => {}
        }
        match self.ending.is_some() || self.sleeps {
            true => Verdict::Wait,
            false => Verdict::Poll,
        }
    }

    /// What undoes the call that this input completes: the user's code, to be run without the lock.
    pub(crate) fn take_undo(&mut self, event: &EventKind) -> Option<(Seq, Undo)> {
        let EventKind::ActivityCompleted(done) = event else { return None };
        let settling = self.settling.remove(&done.activity).flatten();
        let open = || self.activities.get_mut(&done.activity)?.undo.take();
        Some((done.activity, settling.or_else(open)?))
    }

    /// Remembers what undoes a call.
    pub(crate) fn record_compensation(&mut self, activity: Seq, call: ActivityCall) {
        self.command(CommandKind::RecordCompensation { activity, call: Box::new(call.clone()) });
        self.undo.push((activity, call));
    }

    /// True when an input is news to this run: a call or timer that it gave up is not, nor a
    /// signal that came before.
    pub fn expects(&self, input: &EventKind) -> bool {
        let open_call = |seq: &Seq| {
            self.activities.get(seq).is_some_and(|call| call.is_open())
                || self.settling.contains_key(seq)
        };
        let open_child = |seq: &Seq| self.children.get(seq).is_some_and(|it| it.wait.is_open());
        match input {
            EventKind::ActivityCompleted(done) => open_call(&done.activity),
            EventKind::ActivityFailed(failed) => open_call(&failed.activity),
            EventKind::ChildFailed { child, .. } if self.detached.contains_key(child) => true,
            EventKind::ChildCompleted { child, .. } | EventKind::ChildFailed { child, .. } => {
                open_child(child)
            }
            EventKind::TimerFired { timer } if *timer == Seq::FIRST => self.sleeps,
            EventKind::TimerFired { timer } => {
                self.timers.get(timer).is_some_and(|timer| timer.is_open())
            }
            EventKind::CancelRequested { .. } => self.cancelled.is_none(),
            EventKind::RunTimedOut { .. } => self.ending.is_none(),
            EventKind::SignalReceived { id: Some(id), .. } => !self.signals.knows(id),
            _ => true,
        }
    }

    fn settle_activity(&mut self, seq: Seq, outcome: Result<Payload, Failure>) {
        // A call that the workflow gave up in the meantime is no longer here.
        if let Some(activity) = self.activities.get_mut(&seq) {
            activity.wait.settle(outcome);
        }
    }

    fn settle_child(&mut self, seq: Seq, outcome: Result<Payload, Failure>) {
        let Some(child) = self.children.get_mut(&seq) else { return };
        child.settle(outcome);
        if child.unheard {
            self.children.remove(&seq);
        }
    }

    fn timed_out(&self, total: bool) -> Failure {
        let (what, began) = match total {
            true => ("the instance", self.instance_began),
            false => ("the run", self.began),
        };
        let after = Human(self.now.since(began));
        Failure::of_kind(Kind::Timeout, format!("{what} was not done in time, after {after}"))
            .with_type(if total { "TotalTimeout" } else { "RunTimeout" })
    }

    /// Ends every open wait that is not shielded, once.
    fn cancel(&mut self, reason: &str) -> Failure {
        if let Some(failure) = &self.cancelled {
            return failure.clone();
        }
        let failure = Failure::of_kind(Kind::Cancelled, reason).with_type("Cancelled");
        let undoes = self.may_have_to_undo();
        let activities = self.activities.iter_mut();
        let mut calls = Vec::new();
        for (seq, call) in activities.filter(|(_, call)| call.wait.can_be_cancelled()) {
            calls.push((*seq, call.undo.take()));
            call.wait.settle(Err(failure.clone()));
        }
        calls.into_iter().for_each(|(seq, undo)| self.give_up_activity(seq, undo, undoes));
        let mut timers = Vec::new();
        for (seq, timer) in self.timers.iter_mut().filter(|(_, wait)| wait.can_be_cancelled()) {
            timers.push(*seq);
            timer.settle(Err(failure.clone()));
        }
        for timer in timers {
            self.command(CommandKind::CancelTimer { timer });
        }
        let mut children = Vec::new();
        for (seq, it) in self.children.iter_mut().filter(|(_, it)| it.wait.can_be_cancelled()) {
            if it.parent_cancelled(&failure) {
                children.push(*seq);
            }
        }
        for child in children {
            self.command(CommandKind::CancelChild { child, terminate: false });
        }
        self.signals.cancel(&failure);
        self.cancelled = Some(failure.clone());
        failure
    }

    /// Nobody waits for a call any more. It is heard of all the same when it can be undone, or when
    /// the run may have to undo anything else. Earlier versions did not wait for the latter: where
    /// the history says so, that is how the run goes on.
    pub(super) fn give_up_activity(&mut self, seq: Seq, undo: Option<Undo>, undoes: bool) {
        let was_let_go = self.recorded_cancels.contains(&self.next_seq);
        let hear = match undo {
            Some(_) => Hear::Outcome,
            None if undoes && !was_let_go => Hear::End,
            None => Hear::Nothing,
        };
        self.command(CommandKind::CancelActivity { activity: seq, hear });
        if hear != Hear::Nothing {
            self.settling.insert(seq, undo);
        }
    }
}
