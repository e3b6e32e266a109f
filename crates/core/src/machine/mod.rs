//! The state of a run between its workflow's code and its history.
//!
//! The workflow's futures ask the machine for things and wait for them; the turn tells it what
//! happened. It knows open calls, timers and signals, not the history. There is one small state
//! machine for each durable operation, in a file of its own.
//!
//! The machine is shared between the futures of one run, all of which are polled by one turn at a
//! time; the lock is never waited for.

mod activity;
mod signal;
mod timer;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::command::{ActivityCall, Command, CommandKind};
use crate::event::RunStarted;
use crate::{Event, EventKind, Failure, Kind, Payload, RunKey, Seq, Timestamp};
use activity::Activity;
use signal::Signals;
pub use signal::Waiter;
use timer::Timer;

/// A machine that the futures of a run share.
#[derive(Clone, Debug)]
pub struct SharedMachine(Arc<Mutex<Machine>>);

impl SharedMachine {
    /// The machine of a run that has not begun.
    pub fn new(run: RunKey) -> Self {
        SharedMachine(Arc::new(Mutex::new(Machine::new(run))))
    }

    /// The machine. A panic of the workflow's code cannot leave it half changed: no user code
    /// runs while it is locked.
    pub fn lock(&self) -> MutexGuard<'_, Machine> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of a run.
#[derive(Debug)]
pub struct Machine {
    run: RunKey,
    now: Timestamp,
    next_seq: Seq,
    seed: u64,
    draws: u64,
    activities: BTreeMap<Seq, Activity>,
    timers: BTreeMap<Seq, Timer>,
    signals: Signals,
    cancelled: Option<Failure>,
    commands: Vec<Command>,
    /// False once the run is evicted or over: futures that are dropped then cancel nothing.
    armed: bool,
}

impl Machine {
    fn new(run: RunKey) -> Self {
        Machine {
            run,
            now: Timestamp::EPOCH,
            next_seq: Seq::FIRST,
            seed: 0,
            draws: 0,
            activities: BTreeMap::new(),
            timers: BTreeMap::new(),
            signals: Signals::default(),
            cancelled: None,
            commands: Vec::new(),
            armed: true,
        }
    }

    // What the workflow's futures ask for.

    /// The run.
    pub fn run(&self) -> RunKey {
        self.run
    }

    /// The time of the event that caused this turn.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Calls an activity.
    pub fn schedule_activity(&mut self, call: ActivityCall) -> Seq {
        let seq = self.command(CommandKind::ScheduleActivity(call));
        self.activities.insert(seq, Activity::scheduled());
        seq
    }

    /// The outcome of an activity call, once there is one.
    pub fn poll_activity(&mut self, seq: Seq, waker: &Waker) -> Poll<Result<Payload, Failure>> {
        let Some(activity) = self.activities.get_mut(&seq) else { return Poll::Pending };
        let outcome = activity.poll(waker);
        if outcome.is_ready() {
            self.activities.remove(&seq);
        }
        outcome
    }

    /// Forgets an activity call: its future was dropped.
    pub fn drop_activity(&mut self, seq: Seq) {
        let open = self.activities.remove(&seq).is_some_and(|activity| activity.is_open());
        if open && self.armed {
            self.command(CommandKind::CancelActivity { activity: seq });
        }
    }

    /// Starts a timer.
    pub fn start_timer(&mut self, delay: Duration) -> Seq {
        let fire_at = self.now.saturating_add(delay);
        let seq = self.command(CommandKind::StartTimer { fire_at });
        self.timers.insert(seq, Timer::started());
        seq
    }

    /// Ready once the timer has fired, or the run was cancelled.
    pub fn poll_timer(&mut self, seq: Seq, waker: &Waker) -> Poll<Result<(), Failure>> {
        let Some(timer) = self.timers.get_mut(&seq) else { return Poll::Pending };
        let outcome = timer.poll(waker);
        if outcome.is_ready() {
            self.timers.remove(&seq);
        }
        outcome
    }

    /// Forgets a timer: its future was dropped.
    pub fn drop_timer(&mut self, seq: Seq) {
        let open = self.timers.remove(&seq).is_some_and(|timer| timer.is_open());
        if open && self.armed {
            self.command(CommandKind::CancelTimer { timer: seq });
        }
    }

    /// Begins to wait for a signal.
    pub fn wait_for_signal(&mut self, name: &str) -> Waiter {
        self.signals.wait(name)
    }

    /// The signal, once there is one.
    pub fn poll_signal(
        &mut self,
        waiter: &Waiter,
        waker: &Waker,
    ) -> Poll<Result<Payload, Failure>> {
        self.signals.poll(waiter, waker)
    }

    /// Stops waiting for a signal. One that it was given and did not read goes to the next waiter.
    pub fn drop_signal(&mut self, waiter: &Waiter) {
        self.signals.forget(waiter);
    }

    /// Tells the world where the run is.
    pub fn set_status(&mut self, value: Payload) {
        self.command(CommandKind::SetStatus { value });
    }

    /// A number from 0 to `u64::MAX`, the same on replay.
    pub fn random(&mut self) -> u64 {
        self.draws += 1;
        crate::retry::mix(self.seed ^ crate::retry::mix(self.draws))
    }

    /// Why every wait ends at once, after the run was cancelled.
    pub fn cancelled(&self) -> Option<&Failure> {
        self.cancelled.as_ref()
    }

    fn command(&mut self, kind: CommandKind) -> Seq {
        let seq = self.next_seq;
        self.next_seq = seq.next();
        self.commands.push(Command { seq, kind });
        seq
    }

    // What the turn tells it.

    /// Takes notice of an input. Futures that wait for it are woken.
    pub(crate) fn apply(&mut self, event: &Event) {
        self.now = event.at;
        self.next_seq = event.seq.next();
        match &event.kind {
            EventKind::RunStarted(RunStarted { seed, .. }) => self.seed = *seed,
            EventKind::ActivityCompleted(done) => {
                self.settle_activity(done.activity, Ok(done.result.clone()));
            }
            EventKind::ActivityFailed(failed) => {
                let mut failure = failed.failure.clone();
                failure.attempts = Some(failed.attempt);
                failure.why = Some(failed.why.clone());
                self.settle_activity(failed.activity, Err(failure));
            }
            EventKind::TimerFired { timer } => {
                if let Some(timer) = self.timers.get_mut(timer) {
                    timer.settle(Ok(()));
                }
            }
            EventKind::SignalReceived { name, value, id } => {
                self.signals.receive(name, value.clone(), id.as_deref());
            }
            EventKind::CancelRequested { reason } => self.cancel(reason),
            _ => {}
        }
    }

    /// True when an input is news to this run: a call or timer that it gave up is not, nor a
    /// signal that came before.
    pub fn expects(&self, input: &EventKind) -> bool {
        let open_call = |seq: &Seq| self.activities.get(seq).is_some_and(Activity::is_open);
        match input {
            EventKind::ActivityCompleted(done) => open_call(&done.activity),
            EventKind::ActivityFailed(failed) => open_call(&failed.activity),
            EventKind::TimerFired { timer } => self.timers.get(timer).is_some_and(Timer::is_open),
            EventKind::CancelRequested { .. } => self.cancelled.is_none(),
            EventKind::SignalReceived { id: Some(id), .. } => !self.signals.knows(id),
            _ => true,
        }
    }

    fn settle_activity(&mut self, seq: Seq, outcome: Result<Payload, Failure>) {
        // A call that the workflow gave up in the meantime is no longer here.
        if let Some(activity) = self.activities.get_mut(&seq) {
            activity.settle(outcome);
        }
    }

    /// Ends every open wait, once.
    fn cancel(&mut self, reason: &str) {
        if self.cancelled.is_some() {
            return;
        }
        let failure = Failure::of_kind(Kind::Cancelled, reason).with_type("Cancelled");
        let open = |open: bool, seq: &Seq| open.then_some(*seq);
        let activities: Vec<Seq> =
            self.activities.iter().filter_map(|(seq, a)| open(a.is_open(), seq)).collect();
        for seq in activities {
            self.settle_activity(seq, Err(failure.clone()));
            self.command(CommandKind::CancelActivity { activity: seq });
        }
        let timers: Vec<Seq> =
            self.timers.iter().filter_map(|(seq, t)| open(t.is_open(), seq)).collect();
        for seq in timers {
            if let Some(timer) = self.timers.get_mut(&seq) {
                timer.settle(Err(failure.clone()));
            }
            self.command(CommandKind::CancelTimer { timer: seq });
        }
        self.signals.cancel(&failure);
        self.cancelled = Some(failure);
    }

    /// Ends the run with what the workflow returned.
    pub(crate) fn close(&mut self, returned: Result<Payload, Failure>) {
        self.armed = false;
        match returned {
            Ok(result) => self.command(CommandKind::Complete { result }),
            Err(failure) if self.cancelled.is_some() => {
                self.command(CommandKind::EndCancelled { failure })
            }
            Err(failure) => self.command(CommandKind::Fail { failure }),
        };
    }

    /// Lets futures be dropped without cancelling anything.
    pub(crate) fn disarm(&mut self) {
        self.armed = false;
    }

    /// The commands since the last call.
    pub(crate) fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// The place of the next event.
    pub(crate) fn next_seq(&self) -> Seq {
        self.next_seq
    }

    /// True when something may still wake the run.
    pub(crate) fn waits_for_something(&self) -> bool {
        self.activities.values().any(Activity::is_open)
            || self.timers.values().any(Timer::is_open)
            || self.signals.has_waiters()
    }

    /// Signals that nobody has read.
    pub fn unread_signals(&self) -> usize {
        self.signals.unread()
    }

    /// Activity calls without an outcome.
    pub fn open_activities(&self) -> usize {
        self.activities.len()
    }
}
