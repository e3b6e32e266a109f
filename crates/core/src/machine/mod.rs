//! The state of a run between its workflow's code and its history.
//!
//! The workflow's futures ask the machine for things and wait for them; the turn tells it what
//! happened (`input.rs`). It knows open calls, timers, children and signals, not the history. There
//! is one small state machine for each durable operation, in a file of its own, and one for the end
//! of a run (`ending.rs`).
//!
//! The machine is shared between the futures of one run, all of which are polled by one turn at a
//! time; the lock is never waited for.

mod activity;
mod child;
mod ending;
mod input;
mod signal;
mod wait;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::command::{ActivityCall, CallOptions, ChildCall, Command, CommandKind};
use crate::event::ParentClose;
use crate::{Event, EventKind, Failure, Payload, RunKey, Seq, Timestamp, identifier};
use activity::Activity;
pub use activity::{Ask, Undo};
use child::Child;
pub use ending::CONTINUE_AS_NEW;
use ending::Ending;
pub(crate) use input::Verdict;
use signal::Signals;
pub use signal::Waiter;
use wait::Wait;

/// The type of the failure that a workflow gets for an id, a key or a name that cannot be used.
pub const INVALID_NAME: &str = "InvalidName";

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
    /// The id of the instance and the name of its workflow, as far as they were told.
    instance: String,
    workflow: String,
    now: Timestamp,
    next_seq: Seq,
    seed: u64,
    draws: u64,
    activities: BTreeMap<Seq, Activity>,
    /// The size of their arguments.
    open_input: usize,
    /// Calls that were given up, or whose time was up, until it is known how they ended; with what
    /// undoes those that can be undone.
    settling: BTreeMap<Seq, Option<Undo>>,
    /// What undoes the calls that completed, in order.
    undo: Vec<(Seq, ActivityCall)>,
    timers: BTreeMap<Seq, Wait<()>>,
    children: BTreeMap<Seq, Child>,
    /// Instances that were started to be left alone, and why one could not be started.
    detached: BTreeMap<Seq, Option<Failure>>,
    detached_ids: BTreeSet<String>,
    signals: Signals,
    kv: BTreeMap<String, Payload>,
    versions: BTreeMap<String, u32>,
    /// What the history says about versions, by its place, while it is replayed.
    recorded: BTreeMap<Seq, (String, u32)>,
    /// The places where it says that a call was given up and nothing more is to be heard of it.
    recorded_cancels: BTreeSet<Seq>,
    /// The places where it has what would be refused today, or may have.
    recorded_asks: BTreeSet<Seq>,
    /// The names of its signals that would be refused today.
    recorded_signals: BTreeSet<String>,
    /// The last place of the history that is replayed.
    recorded_until: Seq,
    cancelled: Option<Failure>,
    /// When the run began to work.
    began: Timestamp,
    /// When the first event of the first run happened.
    instance_began: Timestamp,
    /// True while the first turn is waited for.
    sleeps: bool,
    /// The argument of the next run, once the code continues as new.
    continuing: Option<Payload>,
    ending: Option<Ending>,
    /// What the code asked for and cannot have, where it has no other way to hear of it.
    refused: Option<Failure>,
    closed: bool,
    commands: Vec<Command>,
    /// False once the run is evicted or over: futures that are dropped then cancel nothing.
    armed: bool,
}

impl Machine {
    fn new(run: RunKey) -> Self {
        Machine {
            run,
            instance: String::new(),
            workflow: String::new(),
            now: Timestamp::EPOCH,
            next_seq: Seq::FIRST,
            seed: 0,
            draws: 0,
            activities: BTreeMap::new(),
            open_input: 0,
            settling: BTreeMap::new(),
            undo: Vec::new(),
            timers: BTreeMap::new(),
            children: BTreeMap::new(),
            detached: BTreeMap::new(),
            detached_ids: BTreeSet::new(),
            signals: Signals::default(),
            kv: BTreeMap::new(),
            versions: BTreeMap::new(),
            recorded: BTreeMap::new(),
            recorded_cancels: BTreeSet::new(),
            recorded_asks: BTreeSet::new(),
            recorded_signals: BTreeSet::new(),
            recorded_until: Seq(0),
            cancelled: None,
            began: Timestamp::EPOCH,
            instance_began: Timestamp::EPOCH,
            sleeps: false,
            continuing: None,
            ending: None,
            refused: None,
            closed: false,
            commands: Vec::new(),
            armed: true,
        }
    }

    // What the workflow's futures ask for.

    /// The run.
    pub fn run(&self) -> RunKey {
        self.run
    }

    /// Says whose run it is.
    pub fn belongs_to(&mut self, instance: &str, workflow: &str) {
        instance.clone_into(&mut self.instance);
        workflow.clone_into(&mut self.workflow);
    }

    /// The id of the instance; empty where a history is replayed by itself.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The name under which the workflow was started; empty where a history is replayed by itself.
    pub fn workflow(&self) -> &str {
        &self.workflow
    }

    /// True while the history says what comes next.
    pub fn is_replaying(&self) -> bool {
        self.next_seq <= self.recorded_until
    }

    /// Remembers something that undoes what the run has done so far, whatever that was: it is
    /// called when the run fails or is cancelled, before what was remembered earlier.
    pub fn compensate(&mut self, call: ActivityCall) {
        let seq = self.next_seq;
        self.record_compensation(seq, call);
    }

    /// The time of the event that caused this turn.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Calls an activity.
    pub fn schedule_activity(&mut self, call: ActivityCall, ask: Ask) -> Seq {
        let activity = Activity::scheduled(ask, call.input.len());
        self.open_input += call.input.len();
        let seq = self.command(CommandKind::ScheduleActivity(call));
        self.activities.insert(seq, activity);
        seq
    }

    /// The outcome of an activity call, once there is one.
    pub fn poll_activity(&mut self, seq: Seq, waker: &Waker) -> Poll<Result<Payload, Failure>> {
        let Some(activity) = self.activities.get_mut(&seq) else { return Poll::Pending };
        let outcome = activity.wait.poll(waker);
        if outcome.is_ready() {
            self.remove_activity(seq);
        }
        outcome
    }

    fn remove_activity(&mut self, seq: Seq) -> Option<Activity> {
        let activity = self.activities.remove(&seq)?;
        self.open_input -= activity.input_len;
        Some(activity)
    }

    /// Forgets an activity call: its future was dropped.
    pub fn drop_activity(&mut self, seq: Seq) {
        if !self.armed {
            return;
        }
        if let Some(activity) = self.remove_activity(seq).filter(Activity::is_open) {
            let undoes = self.may_have_to_undo();
            self.give_up_activity(seq, activity.undo, undoes);
        }
    }

    /// Starts a timer.
    pub fn start_timer(&mut self, delay: Duration, shielded: bool) -> Seq {
        let fire_at = self.now.saturating_add(delay);
        let seq = self.command(CommandKind::StartTimer { fire_at });
        self.timers.insert(seq, Wait::open(shielded));
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
        if self.armed && self.timers.remove(&seq).is_some_and(|timer| timer.is_open()) {
            self.command(CommandKind::CancelTimer { timer: seq });
        }
    }

    /// Starts a child that is cancelled when its future is dropped.
    pub fn start_child(&mut self, call: ChildCall, shielded: bool) -> Seq {
        self.begin_child(call, shielded, false)
    }

    /// Starts a child that goes on when nobody waits for it.
    pub fn start_child_with_handle(&mut self, call: ChildCall, shielded: bool) -> Seq {
        self.begin_child(call, shielded, true)
    }

    fn begin_child(&mut self, call: ChildCall, shielded: bool, has_handle: bool) -> Seq {
        let parent_close = call.parent_close;
        if parent_close == ParentClose::Detached {
            self.detached_ids.extend(call.id.clone());
        }
        let seq = self.command(CommandKind::StartChild(Box::new(call)));
        if parent_close == ParentClose::Detached {
            self.detached.insert(seq, None);
        } else {
            let child = Child::started(shielded, parent_close, has_handle);
            self.children.insert(seq, child);
        }
        seq
    }

    /// True when this run has started an instance of this id before, to be left alone.
    pub fn has_detached(&self, id: &str) -> bool {
        self.detached_ids.contains(id)
    }

    /// Why an instance that was started to be left alone could not be started, once that is known.
    pub fn detached_failure(&self, seq: Seq) -> Option<&Failure> {
        self.detached.get(&seq)?.as_ref()
    }

    /// True when an instance was started to be left alone.
    pub fn is_detached(&self, child: Seq) -> bool {
        self.detached.contains_key(&child)
    }

    /// True when the history says that what the code asks for next was accepted, whatever is
    /// refused today.
    pub fn was_accepted(&self) -> bool {
        self.recorded_asks.contains(&self.next_seq)
    }

    /// True when the history has a signal of this name, although nobody could send one today. To
    /// wait for a signal leaves no record, so that there is nothing else to go by.
    pub fn has_recorded_signal(&self, name: &str) -> bool {
        self.recorded_signals.contains(name)
    }

    /// What the code asked for and cannot have: the run ends with it.
    pub fn refused(&self) -> Option<&Failure> {
        self.refused.as_ref()
    }

    /// The outcome of a child, once there is one.
    pub fn poll_child(&mut self, seq: Seq, waker: &Waker) -> Poll<Result<Payload, Failure>> {
        let Some(child) = self.children.get_mut(&seq) else { return Poll::Pending };
        let outcome = child.wait.poll(waker);
        if outcome.is_ready() {
            self.child_unheard(seq);
        }
        outcome
    }

    /// Forgets a child: its future was dropped, and the child is cancelled.
    pub fn drop_child(&mut self, seq: Seq) {
        if self.armed && self.children.remove(&seq).is_some_and(|child| child.is_running()) {
            self.command(CommandKind::CancelChild { child: seq, terminate: false });
        }
    }

    /// Asks a child to end. Whoever waits for it hears how it ended.
    pub fn cancel_child(&mut self, seq: Seq) {
        let running = self.children.get_mut(&seq).filter(|child| child.is_running());
        if let Some(child) = running.filter(|_| self.armed) {
            child.end();
            self.command(CommandKind::CancelChild { child: seq, terminate: false });
        }
    }

    /// Nobody asks for the outcome of a child any more: its handle was dropped. The child goes on.
    pub fn drop_child_handle(&mut self, seq: Seq) {
        if self.armed {
            self.child_unheard(seq);
        }
    }

    /// A child that is over is forgotten. One that runs is remembered until the end of the run,
    /// which may end it.
    fn child_unheard(&mut self, seq: Seq) {
        if let Some(child) = self.children.get_mut(&seq) {
            child.unheard = true;
            if !child.is_running() {
                self.children.remove(&seq);
            }
        }
    }

    /// Begins to wait for a signal.
    pub fn wait_for_signal(&mut self, name: &str, shielded: bool) -> Waiter {
        self.signals.wait(name, shielded)
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

    /// An entry of the instance's own data.
    pub fn kv(&self, key: &str) -> Option<&Payload> {
        self.kv.get(key)
    }

    /// Changes an entry of the instance's own data. A key that no store can keep ends the run.
    pub fn set_kv(&mut self, key: &str, value: Payload) {
        if let Err(error) = identifier::check("the key", key)
            && !self.was_accepted()
        {
            self.refused.get_or_insert(Failure::terminal(error).with_type(INVALID_NAME));
            return;
        }
        self.kv.insert(key.to_string(), value.clone());
        self.command(CommandKind::SetKv { key: key.to_string(), value });
    }

    /// Which version of a change this run has: the newest, unless the run came by here before the
    /// change was made. Then it is version 1, which was never recorded.
    pub fn version(&mut self, change: &str, newest: u32) -> u32 {
        if let Some(version) = self.versions.get(change) {
            return *version;
        }
        let recorded = self.recorded.get(&self.next_seq).filter(|(known, _)| known == change);
        let (version, is_recorded) = match recorded {
            Some((_, version)) => (*version, true),
            None if self.next_seq <= self.recorded_until => (1, false),
            None => (newest, true),
        };
        if is_recorded {
            self.command(CommandKind::MarkVersion { change: change.to_string(), version });
        }
        self.versions.insert(change.to_string(), version);
        version
    }

    /// The run is to be followed by another one, with this argument, when its code returns.
    pub fn continue_as_new(&mut self, input: Payload) {
        self.continuing = Some(input);
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

    // What the turn tells it; see also `input.rs` and `ending.rs`.

    /// The history that is about to be replayed.
    pub(crate) fn remember(&mut self, events: &[Event]) {
        self.recorded_until = events.last().map_or(Seq(0), |event| event.seq);
        let version = |event: &Event| match &event.kind {
            EventKind::VersionMarked { change, version } => {
                Some((event.seq, (change.clone(), *version)))
            }
            _ => None,
        };
        self.recorded = events.iter().filter_map(version).collect();
        let is_ask = |event: &&Event| match &event.kind {
            EventKind::ChildStarted(_) => true,
            EventKind::KvSet { key, .. } => identifier::check("", key).is_err(),
            EventKind::ActivityScheduled(call) => identifier::check("", &call.queue).is_err(),
            _ => false,
        };
        self.recorded_asks = events.iter().filter(is_ask).map(|event| event.seq).collect();
        let signal = |event: &Event| match &event.kind {
            EventKind::SignalReceived { name, .. } if identifier::check("", name).is_err() => {
                Some(name.clone())
            }
            _ => None,
        };
        self.recorded_signals = events.iter().filter_map(signal).collect();
        let is_cancel = |event: &&Event| matches!(event.kind, EventKind::ActivityCancelled { .. });
        self.recorded_cancels = events.iter().filter(is_cancel).map(|event| event.seq).collect();
    }

    /// Takes from the records what the end of a run needs whose code is not there: its children,
    /// and whether anything is to be undone.
    pub(crate) fn restore(&mut self, events: &[Event]) {
        for event in events {
            self.now = event.at;
            self.next_seq = event.seq.next();
            match &event.kind {
                EventKind::ChildStarted(child) if child.parent_close != ParentClose::Detached => {
                    let child = Child::started(false, child.parent_close, false);
                    self.children.insert(event.seq, child);
                }
                EventKind::ChildCompleted { child, .. }
                | EventKind::ChildFailed { child, .. }
                | EventKind::ChildCancelRequested { child, .. } => {
                    self.children.remove(child);
                }
                EventKind::CompensationRecorded { activity, name, input } => {
                    let (name, input, options) =
                        (name.clone(), input.clone(), CallOptions::default());
                    let call = ActivityCall { name, input, options, compensates: None };
                    self.undo.push((*activity, call));
                }
                _ => {}
            }
        }
    }

    /// Notes when the run began.
    pub(crate) fn begins(&mut self, at: Timestamp) {
        self.began = at;
    }

    /// The run is over because an operator reset it.
    pub(crate) fn close_by_reset(&mut self) {
        self.closed = true;
        self.armed = false;
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
    pub fn next_seq(&self) -> Seq {
        self.next_seq
    }

    /// True when something may still wake the run.
    pub(crate) fn waits_for_something(&self) -> bool {
        self.activities.values().any(Activity::is_open)
            || self.timers.values().any(Wait::is_open)
            || self.children.values().any(|child| child.wait.is_open() && !child.unheard)
            || self.signals.wanted().next().is_some()
    }

    /// True when a call was given up and the run wants to hear how it ended.
    pub fn is_settling(&self, call: Seq) -> bool {
        self.settling.contains_key(&call)
    }

    /// True when the run waits for the end of a call's attempt, the grace period at most.
    pub fn settles_in_grace(&self, call: Seq) -> bool {
        self.settling.get(&call).is_some_and(Option::is_none)
    }

    /// True when the run wants to hear of an attempt that goes on although its call's time is up:
    /// the call can be undone, or something else can.
    pub fn wants_late_end(&self, call: Seq) -> bool {
        self.is_settling(call) || self.may_have_to_undo()
    }

    /// Calls that were given up and of which the run wants to hear how they ended.
    pub fn settling(&self) -> Vec<Seq> {
        self.settling.keys().copied().collect()
    }

    /// True when the code has returned and the run is not over yet.
    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// True when the run is over.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// True when somebody waits for a signal of this name. Others stay where they are until
    /// somebody does.
    pub fn wants_signal(&self, name: &str) -> bool {
        self.signals.wants(name)
    }

    /// The names of the signals that somebody waits for.
    pub fn wanted_signals(&self) -> Vec<String> {
        self.signals.wanted().map(str::to_string).collect()
    }

    /// Activity calls without an outcome.
    pub fn open_activities(&self) -> usize {
        self.activities.len()
    }

    /// The size of their arguments, in bytes.
    pub fn open_input(&self) -> usize {
        self.open_input
    }
}
