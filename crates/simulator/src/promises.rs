//! What is promised, checked against everything that happens.
//!
//! This knows nothing of how the engine works: it sees what the database takes, when attempts
//! begin, and what users are told.
//!
//! | promise | checked when |
//! |---|---|
//! | what was acknowledged is in the database | somebody is told so, and at the end |
//! | an attempt begins only while its call is claimed for it, and each number once | it begins |
//! | no attempt begins before it is due | it is claimed |
//! | failures never exceed the policy; each attempt is recorded once | the ledger is written |
//! | a result is that of the attempt which the history names | it is written |
//! | a call, a timer, a child ends once; a timer not before its time | it is written |
//! | signals of a name arrive once, in the order in which they were acknowledged | the end |
//! | nothing follows the end of a run; histories have no holes | they are written |
//! | nothing is undone while attempts of the run still work | an attempt begins |
//! | what somebody waits for is what was written | they are told |
//! | every run ends when the faults stop | the end |
//! | what is due is begun when the faults stop | an hour later, every minute |
//! | each firing of a schedule is started, skipped, missed or waiting, once | it is written |
//! | each row of the inbox is taken once, in order, with what it asks for | it is written, the end
//! |
//! | what is closed and old is deleted with everything of it, nothing else is | it is, the end |
//! | who waits for an instance is told, and lists have what was acknowledged | they are, the end |
//! | what an operator asks for is done once, and changes what its answer says | it is written |
//! | what is paused is not claimed before somebody lets it go on | it is claimed |
//! | what an operator asks of an instance is answered as long as it is there | the end |
//! | a paused run takes no turn, and its timeouts stand still | they are written |
//! | a reset copies what was before, and nothing of that is done again | it is written |
//! | a run hears of its own children how they ended | it is written |
//! | a run that is to be undone does not complete | it ends |
//! | a bulk job touches each call at most once, and its counts add up | it is written |
//! | a bulk job ends when the faults stop | the end |
//! | nothing begins behind a gate that is shut but probes, once its node can know | it is claimed |
//! | no more run behind a gate than it lets, in all processes that may work | an attempt begins |
//! | what fails while a gate is not flowing is free | the ledger is written |
//! | nobody waits behind a gate when everything is well | the end |
//! | a dead letter is tried again at most once, and not when it was discarded | it is written |
//! | what is set for an activity decides about its calls, their own policies otherwise | the ledger
//! is written |
//!
//! A call that its workflow has just given up may still begin: its process hears of that a moment
//! later.

mod actions;
mod bulk;
mod gates;
mod inbox;
mod instances;
mod letters;
mod policies;
mod retention;
mod schedules;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use resurgam_core::event::{Initiator, RunStarted};
use resurgam_core::retry::{Limit, RetryPolicy};
use resurgam_core::{CallKey, Event, EventKind, Payload, RunKey, Seq, Timestamp, Uid};
use resurgam_store::model::Model;
use resurgam_store::rows::{AttemptRow, InstanceRow, Message, TaskRow};
use resurgam_store::{InstanceWrite, MessageWrite, Step, StepResult, TaskWrite};

use crate::program::{Call, call_of};
use actions::ActionsSeen;
use bulk::JobsSeen;
use gates::GatesSeen;
pub(crate) use gates::LateClaim;
use inbox::InboxSeen;
use instances::InstanceSeen;
use letters::LettersSeen;
use policies::PoliciesSeen;
use retention::Swept;
pub(crate) use retention::everything;
use schedules::SchedulesSeen;

/// How far the clock of a node is set right when it hears that of the database, at most.
const CORRECTED: Duration = Duration::from_millis(500);

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The instance that it is about.
    pub uid: Option<Uid>,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// What has happened so far, as far as promises depend on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Promises {
    calls: BTreeMap<CallKey, CallSeen>,
    runs: BTreeMap<RunKey, RunSeen>,
    instances: BTreeMap<Uid, InstanceSeen>,
    /// Instances whose start was acknowledged.
    started: BTreeMap<String, Uid>,
    /// Signals that were acknowledged, in that order.
    signalled: BTreeMap<Uid, Vec<String>>,
    /// Signals that stand in a history, in that order.
    received: BTreeMap<Uid, Vec<String>>,
    /// Signals that an operator had dropped after they were received. They never come again, and
    /// are before and after nothing: a reset can have earlier ones received anew.
    dropped: BTreeMap<Uid, BTreeSet<String>>,
    schedules: SchedulesSeen,
    inbox: InboxSeen,
    swept: Swept,
    actions: ActionsSeen,
    jobs: JobsSeen,
    letters: LettersSeen,
    /// How many of them were tried again by themselves.
    run_again: u64,
    gates: GatesSeen,
    policies: PoliciesSeen,
    /// When the last batch was written, by the clock of the database.
    written_at: Option<Timestamp>,
    /// A clock was set, and not every node may have heard of it.
    is_clock_in_doubt: bool,
    /// What was found wrong, the first first.
    violations: Vec<Violation>,
}

#[derive(Clone, Debug, Default)]
struct CallSeen {
    script: Option<Box<Call>>,
    compensates: bool,
    /// The call that it was before its run was reset.
    key: Option<CallKey>,
    begun: BTreeSet<u32>,
    recorded: BTreeSet<u32>,
    /// When the last of those was, by the clock of the database.
    recorded_at: Option<Timestamp>,
    failures: u32,
    due: Option<Timestamp>,
    ended: bool,
    /// What its last claim carried.
    token: Option<u64>,
    /// The workflow gave it up while that claim stood: its process hears of it soon.
    given_up: bool,
    /// The claim that the holder of its shard took away last: its process hears of it soon.
    taken_over: Option<u64>,
    paused: bool,
    /// What operators had decide about it since.
    policies: Vec<RetryPolicy>,
    /// What an operator completed it with.
    by_hand: Option<Payload>,
    failed_by_hand: bool,
    /// The gate was not flowing when its last attempt was claimed.
    probing: bool,
    /// How many failures were free for that.
    free: u32,
}

#[derive(Clone, Debug, Default)]
struct RunSeen {
    last: u64,
    /// Nothing follows in it.
    closed: bool,
    /// It has ended, and its instance with it.
    is_over: bool,
    /// A call failed whose policy has the run undone.
    must_fail: bool,
    /// The policy of the call that is the run, where that is not its script's: it is redriven as
    /// new, and operators had another one decide about the call before.
    redriven_by: Option<RetryPolicy>,
    /// When its time is over.
    ends_at: Option<Timestamp>,
    timers: BTreeMap<Seq, Timestamp>,
    /// Its children, and whether each has told how it ended.
    children: BTreeMap<Seq, (Uid, bool)>,
}

impl Promises {
    /// What was found wrong first.
    pub(crate) fn broken(&self) -> Option<&Violation> {
        self.violations.first()
    }

    /// Notes that a promise was broken.
    pub(crate) fn breaks(&mut self, uid: impl Into<Option<Uid>>, what: String) {
        self.violations.push(Violation { uid: uid.into(), what });
    }

    /// When the last batch was written, by the clock of the database.
    fn now(&self) -> Timestamp {
        self.written_at.unwrap_or(Timestamp::EPOCH)
    }

    /// A batch is in the database, by whose clock it is so late.
    pub(crate) fn committed(
        &mut self,
        model: &Model,
        (batch, results): (&[Step], &[StepResult]),
        now: Timestamp,
    ) {
        let written =
            batch.iter().zip(results).filter(|(_, result)| **result == StepResult::Written);
        written.clone().for_each(|(step, _)| self.notes_brought_back(step));
        self.written_at = Some(now);
        for (step, _) in written {
            self.policies_written(step);
            self.gates_written(step);
            self.written(step);
            self.letters_written(model, step);
            self.instance_written(model, step);
            self.results_written(step);
            self.bulk_written(model, step);
            self.schedule_written(model, step);
            self.inbox_written(step);
        }
    }

    fn written(&mut self, step: &Step) {
        self.actions_written(step);
        for (run, event) in &step.events {
            self.appended(*run, event);
        }
        for write in &step.tasks {
            self.task_written(write);
        }
        for row in &step.attempts {
            self.recorded(row);
        }
        if let Some(InstanceWrite::Status { uid, status, .. }) = &step.instance
            && status.is_closed()
        {
            let closes = step.events.iter().any(|(_, event)| ends_run(&event.kind));
            if !closes {
                self.breaks(*uid, format!("instance {uid} closed without an event that says so"));
            }
        }
    }

    /// Results are stored for runs. By then it is known what a run that is reset has of the one
    /// before.
    fn results_written(&mut self, step: &Step) {
        for write in &step.messages {
            let (MessageWrite::Insert(row) | MessageWrite::InsertIfOpen(row)) = write else {
                continue;
            };
            let Message::Result { run, event } = &row.body else { continue };
            let run = RunKey { uid: row.uid, run: *run };
            let rewind = step.rewind.as_deref();
            match rewind.filter(|rewind| (rewind.from.uid, rewind.to) == (run.uid, run.run)) {
                Some(rewind) => self.result_kept(rewind.from, run, event),
                None => self.result_of_attempt(run, event),
            }
        }
    }

    /// A run that is reset keeps what a call returned whose end it has not read.
    fn result_kept(&mut self, from: RunKey, next: RunKey, event: &EventKind) {
        self.result_of_attempt(from, event);
        let EventKind::ActivityCompleted(completed) = event else { return };
        let before = self.calls.entry(from.call(completed.activity)).or_default();
        let by_hand = before.by_hand.clone();
        let call = self.calls.entry(next.call(completed.activity)).or_default();
        call.by_hand = by_hand;
        call.begun.insert(completed.attempt);
    }

    fn task_written(&mut self, write: &TaskWrite) {
        match write {
            TaskWrite::Insert(row) | TaskWrite::Update(row) | TaskWrite::Amend(row) => {
                let call = self.calls.entry(row.call).or_default();
                let is_new = row.claim.as_ref().is_some_and(|it| Some(it.token) != call.token);
                call.token = row.claim.as_ref().map(|claim| claim.token);
                call.given_up = false;
                match is_new {
                    true => self.claimed(row),
                    false => self.pause_written(row, false),
                }
            }
            TaskWrite::Delete(_) => {}
            TaskWrite::Discard(call) => self.calls.entry(*call).or_default().given_up = true,
            TaskWrite::DeleteAll(run) => {
                let calls = self.calls.range_mut(run.call(Seq(0))..=run.call(Seq(u64::MAX)));
                calls.for_each(|(_, call)| call.given_up = true);
            }
        }
    }

    /// A call is claimed, by the holder of its shard or by somebody else.
    pub(crate) fn claimed(&mut self, row: &TaskRow) {
        let Some(claim) = &row.claim else { return };
        self.pause_written(row, true);
        self.claimed_behind_gate(row);
        let call = self.calls.entry(row.call).or_default();
        call.token = Some(claim.token);
        let has_ended = call.ended;
        if let Some(due) = call.due.filter(|due| claim.started_at.saturating_add(CORRECTED) < *due)
        {
            let (number, early) = (row.attempt, due.since(claim.started_at));
            let what = format!("attempt {number} of call {} is {early:?} too early", row.call);
            self.breaks(row.call.run.uid, what);
        }
        if has_ended {
            let what = format!("call {} is claimed, and has ended before", row.call);
            self.breaks(row.call.run.uid, what);
        }
    }

    /// An attempt ended its call in a transaction of its own.
    pub(crate) fn transacted(&mut self, row: &resurgam_store::rows::MessageRow) {
        if let Message::Result { run, event } = &row.body {
            self.result_of_attempt(RunKey { uid: row.uid, run: *run }, event);
        }
    }

    fn appended(&mut self, run: RunKey, event: &Event) {
        let seen = self.runs.entry(run).or_default();
        // Whoever resets a run may do so after its end.
        let (last, closed) = (seen.last, seen.closed && !is_reset(&event.kind));
        seen.last = event.seq.0;
        seen.closed |= ends_run(&event.kind);
        seen.is_over |= ends_run(&event.kind) && !matches!(event.kind, EventKind::RunContinued(_));
        let name = event.kind.name();
        if event.seq.0 != last + 1 {
            self.breaks(run.uid, format!("event {} ({name}) of {run:?} follows {last}", event.seq));
        }
        if closed {
            self.breaks(
                run.uid,
                format!("event {} ({name}) of {run:?} follows its end", event.seq),
            );
        }
        let must_fail = self.runs.get(&run).is_some_and(|seen| seen.must_fail);
        if must_fail
            && matches!(event.kind, EventKind::RunCompleted { .. } | EventKind::RunContinued(_))
            && !is_reset(&event.kind)
        {
            self.breaks(run.uid, format!("{run:?} was to be undone, and ended with {name}"));
        }
        match &event.kind {
            EventKind::RunStarted(started) => {
                // One that does not begin at once waits for a timer in the place of its start.
                let seen = self.runs.entry(run).or_default();
                seen.timers.extend(started.first_turn_at.map(|at| (event.seq, at)));
                seen.redriven_by = redriven_by(started);
            }
            EventKind::ActivityScheduled(scheduled) => {
                let redriven_by = self.runs.get(&run).and_then(|seen| seen.redriven_by.clone());
                let call = self.calls.entry(run.call(event.seq)).or_default();
                call.policies.extend(redriven_by);
                call.script = call_of(&scheduled.input).map(Box::new);
                call.compensates = scheduled.compensates.is_some();
            }
            EventKind::ActivityCompleted(_) | EventKind::ActivityFailed(_) => {
                self.call_ended(run, event);
            }
            EventKind::TimerStarted { fire_at } => {
                self.runs.entry(run).or_default().timers.insert(event.seq, *fire_at);
            }
            EventKind::TimerFired { timer } => self.timer_fired(run, *timer, event.at),
            EventKind::ChildStarted(child) => {
                let uid = Uid::of_child(run, event.seq, &child.id);
                self.runs.entry(run).or_default().children.insert(event.seq, (uid, false));
            }
            EventKind::ChildCompleted { child, .. } | EventKind::ChildFailed { child, .. } => {
                self.child_ended(run, *child);
            }
            EventKind::SignalReceived { id: Some(id), .. } => self.received(run.uid, id),
            _ => {}
        }
    }

    fn call_ended(&mut self, run: RunKey, event: &Event) {
        self.result_of_attempt(run, &event.kind);
        let (seq, settles) = match &event.kind {
            EventKind::ActivityCompleted(completed) => (completed.activity, false),
            EventKind::ActivityFailed(failed) => (failed.activity, failed.settles),
            _ => return,
        };
        if let EventKind::ActivityFailed(failed) = &event.kind {
            self.failed_for(run.call(seq), &failed.why);
            self.runs.entry(run).or_default().must_fail |= failed.ends_run;
        }
        let call = self.calls.entry(run.call(seq)).or_default();
        // One whose time is up is heard of a second time, when its attempt has ended.
        if std::mem::replace(&mut call.ended, !settles) {
            self.breaks(run.uid, format!("call {seq} of {run:?} ended twice"));
        }
    }

    /// The result that is recorded must be the one that this attempt gave.
    fn result_of_attempt(&mut self, run: RunKey, event: &EventKind) {
        let EventKind::ActivityCompleted(completed) = event else { return };
        let key = run.call(completed.activity);
        if self.is_completed_otherwise(key, completed) {
            return;
        }
        let Some(call) = self.calls.get(&key) else { return };
        let result = completed.result.decode::<(u32, u32)>().ok();
        let expected = call.script.as_ref().map(|script| (script.id, completed.attempt));
        if result != expected {
            let what = format!(
                "call {key} completed with {result:?}, which is not what attempt {} gave",
                completed.attempt
            );
            return self.breaks(run.uid, what);
        }
        if !call.begun.contains(&completed.attempt) {
            let what = format!("call {key} completed by attempt {}", completed.attempt);
            return self.breaks(run.uid, format!("{what}, which never began"));
        }
        // One whose time was up may still succeed, and be undone for that.
        if call.recorded.contains(&completed.attempt) && !completed.after_cancel {
            let what = format!("call {key} completed by attempt {}", completed.attempt);
            self.breaks(run.uid, format!("{what}, which was recorded as failed before"));
        }
    }

    fn timer_fired(&mut self, run: RunKey, timer: Seq, at: Timestamp) {
        match self.runs.entry(run).or_default().timers.remove(&timer) {
            None => self.breaks(run.uid, format!("timer {timer} of {run:?} fired twice")),
            Some(fire_at) if at.saturating_add(CORRECTED) < fire_at && !self.is_clock_in_doubt => {
                let early = fire_at.since(at);
                self.breaks(run.uid, format!("timer {timer} of {run:?} fired {early:?} early"));
            }
            Some(_) => {}
        }
    }

    fn child_ended(&mut self, run: RunKey, child: Seq) {
        let child_of = self.runs.entry(run).or_default().children.get_mut(&child);
        let ended = child_of.map(|(_, ended)| std::mem::replace(ended, true));
        if ended != Some(false) {
            self.breaks(run.uid, format!("child {child} of {run:?} ended twice"));
        }
    }

    fn received(&mut self, uid: Uid, id: &str) {
        let received = self.received.entry(uid).or_default();
        let is_dropped = self.dropped.get(&uid).is_some_and(|dropped| dropped.contains(id));
        if is_dropped || received.iter().any(|other| other == id) {
            let what = format!("signal {id} is in the history of {uid} twice");
            return self.breaks(uid, what);
        }
        received.push(id.to_string());
    }

    /// A row of the ledger is written.
    fn recorded(&mut self, row: &AttemptRow) {
        let counts = self.counts_failure(row);
        let is_decided_again = self.is_clock_in_doubt || self.policies_change();
        let call = self.calls.entry(row.call).or_default();
        let uid = row.call.run.uid;
        call.failures += u32::from(counts);
        call.due = row.next_due().filter(|_| !is_decided_again);
        let failures = call.failures;
        let is_new = call.recorded.insert(row.attempt);
        // One that was replaced may have decided about the attempt.
        let policies = self.calls.get(&row.call).map(|call| self.policies_of(call));
        let policies = policies.unwrap_or_default();
        let most: Option<Vec<u32>> = policies.into_iter().map(most_attempts).collect();
        let most = most.and_then(|most| most.into_iter().max());
        let recorded_at = Some(self.now()).filter(|_| !self.is_clock_in_doubt);
        self.calls.entry(row.call).or_default().recorded_at = recorded_at;
        if !is_new {
            let what = format!("attempt {} of call {} is recorded twice", row.attempt, row.call);
            self.breaks(uid, what);
        }
        if most.is_some_and(|most| failures > most) {
            let what = format!("call {} failed {failures} times, allowed were {most:?}", row.call);
            self.breaks(uid, what);
        }
    }

    /// The holder of its shard claims a call that is given up, so that nobody else does: no attempt
    /// follows.
    pub(crate) fn claimed_to_end(&mut self, row: &TaskRow) {
        let call = self.calls.entry(row.call).or_default();
        call.token = row.claim.as_ref().map(|claim| claim.token);
    }

    /// A clock was set, or everybody has heard of that: what was due by it before says nothing.
    pub(crate) fn clock_was_set(&mut self, is_in_doubt: bool) {
        self.is_clock_in_doubt = is_in_doubt;
        self.clock_of_policies_was_set();
        for call in self.calls.values_mut() {
            call.due = None;
        }
        for instance in self.instances.values_mut() {
            instance.total_ends = None;
        }
        for run in self.runs.values_mut() {
            run.ends_at = None;
            run.timers.values_mut().for_each(|fire_at| *fire_at = Timestamp::EPOCH);
        }
    }

    /// An attempt begins in a process that does not know that the database went back in time, and
    /// can keep no promise.
    pub(crate) fn begins_unaware(&mut self, key: CallKey, number: u32) {
        self.calls.entry(key).or_default().begun.insert(number);
    }

    /// The holder of a shard has taken a claim away. Whoever has it may begin before it hears that.
    pub(crate) fn taken_over(&mut self, key: CallKey, token: u64) {
        self.calls.entry(key).or_default().taken_over = Some(token);
    }

    /// An attempt begins in a process. `running` are the other attempts
    /// that work at this moment, anywhere.
    pub(crate) fn begins(
        &mut self,
        model: &Model,
        (key, token, number): (CallKey, u64, u32),
        running: impl Iterator<Item = CallKey>,
    ) {
        let call = self.calls.entry(key).or_default();
        let what = format!("attempt {number} of call {key} began");
        let (is_new, undoes) = (call.begun.insert(number), call.compensates);
        let is_recorded = call.recorded.contains(&number);
        let was_taken = call.taken_over == Some(token);
        let was_claimed = was_taken || (call.given_up && call.token == Some(token));
        let uid = key.run.uid;
        if !was_claimed && !model.is_claimed(key, token) {
            self.breaks(uid, format!("{what} without a claim in the database"));
        }
        if !is_new {
            self.breaks(uid, format!("{what} twice"));
        }
        if is_recorded && !was_taken {
            self.breaks(uid, format!("{what} after it was recorded how it ended"));
        }
        if undoes {
            let is_forward = |other: &CallKey| {
                other.run == key.run && self.calls.get(other).is_some_and(|seen| !seen.compensates)
            };
            if let Some(other) = running.filter(|other| *other != key).find(is_forward) {
                self.breaks(uid, format!("{what} to undo something while call {other} works"));
            }
        }
    }

    /// A process waits for an attempt that one before it has claimed, and may have begun.
    pub(crate) fn resumes(&mut self, model: &Model, (key, token, number): (CallKey, u64, u32)) {
        let call = self.calls.entry(key).or_default();
        call.begun.insert(number);
        let is_recorded = call.recorded.contains(&number);
        let was_taken = call.taken_over == Some(token);
        let was_claimed = was_taken || (call.given_up && call.token == Some(token));
        let (uid, what) = (key.run.uid, format!("attempt {number} of call {key} was resumed"));
        if !was_claimed && !model.is_claimed(key, token) {
            self.breaks(uid, format!("{what} without a claim in the database"));
        }
        if is_recorded && !was_taken {
            self.breaks(uid, format!("{what} after it was recorded how it ended"));
        }
    }

    /// A user is told that an instance is started.
    pub(crate) fn start_acknowledged(&mut self, model: &Model, id: &str, uid: Uid) {
        if model.instance(uid).is_none_or(|row| row.id != id) {
            self.breaks(uid, format!("the start of {id} was acknowledged, and it is not there"));
        }
        self.started.insert(id.to_string(), uid);
    }

    /// Instances whose start was acknowledged, and that are there.
    pub(crate) fn acknowledged(&self) -> Vec<(String, Uid)> {
        let there = self.started.iter().filter(|(_, uid)| self.was_swept(**uid).is_none());
        there.map(|(id, uid)| (id.clone(), *uid)).collect()
    }

    /// Somebody listed all instances; these had been acknowledged before.
    pub(crate) fn listed(&mut self, expected: &[(String, Uid)], found: &[InstanceRow]) {
        for (id, uid) in expected {
            let is_there = found.iter().any(|row| row.uid == *uid);
            if !is_there && self.was_swept(*uid).is_none() {
                self.breaks(*uid, format!("{id} was acknowledged, and a list leaves it out"));
            }
        }
    }

    /// A user is told that a signal is sent.
    pub(crate) fn signal_acknowledged(&mut self, model: &Model, id: &str, uid: Uid, request: &str) {
        if !model.signalled(id, request) && self.was_swept(uid).is_none() {
            let what = format!("signal {request} to {id} was acknowledged, and it is not there");
            self.breaks(uid, what);
        }
        self.signalled.entry(uid).or_default().push(request.to_string());
    }

    /// A user is told how an instance ended.
    pub(crate) fn outcome_told(&mut self, row: Option<&InstanceRow>, uid: Uid, told: &str) {
        if !self.has_ended(uid, told) {
            let is = row.or(self.was_swept(uid)).map(|row| row.status.name());
            self.breaks(uid, format!("somebody was told that {uid} is {told}; it is {is:?}"));
        }
    }

    /// Everything is over: whether all that was promised came true.
    pub(crate) fn at_the_end(&mut self, model: &Model, stays: Option<Duration>, now: Timestamp) {
        self.inbox_at_the_end(model);
        self.gates_at_the_end(model);
        self.retention_at_the_end(model, stays, now);
        self.actions_at_the_end(model);
        self.bulk_at_the_end();
        for row in model.list(&everything()).iter().filter(|row| !row.status.is_closed()) {
            self.breaks(row.uid, format!("{} did not end: {}", row.id, state_of(model, row)));
        }
        for (id, uid) in self.started.clone() {
            match model.instance(uid) {
                None if self.was_swept(uid).is_some() => {}
                None => self.breaks(uid, format!("{id} was acknowledged, and is lost")),
                Some(_) => {}
            }
        }
        for (uid, sent) in std::mem::take(&mut self.signalled) {
            let received = self.received.get(&uid).cloned().unwrap_or_default();
            let both: Vec<&String> = sent.iter().filter(|id| received.contains(id)).collect();
            let order: Vec<&String> = received.iter().filter(|id| sent.contains(id)).collect();
            for name in ["go", "stop"] {
                let of_name = |ids: &[&String]| -> Vec<String> {
                    ids.iter().filter(|id| id.ends_with(name)).map(ToString::to_string).collect()
                };
                let (sent, arrived) = (of_name(&both), of_name(&order));
                if sent != arrived {
                    let what = format!("signals to {uid} were sent as {sent:?}");
                    self.breaks(uid, format!("{what}, and arrived as {arrived:?}"));
                }
            }
        }
    }
}

/// Where an instance stands, for people who wonder why it does not go on.
fn state_of(model: &Model, row: &InstanceRow) -> String {
    let run = RunKey { uid: row.uid, run: row.run };
    let last = model.history(run).last().map(|event| event.kind.name()).unwrap_or("nothing");
    let status = row.status.name();
    let mut state = format!("it is {status}, and the last that happened is {last}");
    if let Some(error) = &row.error {
        state.push_str(&format!("; {error}"));
    }
    for task in model.tasks(run) {
        let (call, attempt, wake_at) = (task.call.seq, task.attempt, task.wake_at);
        state.push_str(&format!("; call {call} in queue {}, attempt {attempt}", task.queue));
        match task.claim {
            Some(claim) => state.push_str(&format!(", is claimed by {}", claim.node)),
            None => state.push_str(&format!(", waits for {wake_at}")),
        }
        if let Some(lacks) = &task.progress.lacks {
            state.push_str(&format!(", lacks {lacks}"));
        }
    }
    state
}

/// How many attempts a policy allows at most: a rule may allow more than the rest.
fn most_attempts(policy: &RetryPolicy) -> Option<u32> {
    let rules = policy.rules.iter().filter_map(|rule| rule.max_attempts);
    let limits = rules.chain([policy.max_attempts]).map(|limit| match limit {
        Limit::Attempts(most) => Some(most.get()),
        Limit::Unlimited => None,
    });
    limits.collect::<Option<Vec<u32>>>()?.into_iter().max()
}

/// True for the end of a run that is reset.
fn is_reset(kind: &EventKind) -> bool {
    matches!(kind, EventKind::RunContinued(continued) if continued.initiator == Initiator::Reset)
}

/// True for an event after which nothing follows in its run.
/// The policy that a bare call is given with its argument.
fn redriven_by(started: &RunStarted) -> Option<RetryPolicy> {
    #[derive(serde::Deserialize)]
    struct BareCall {
        retry: Option<String>,
    }
    let call: BareCall = started.input.decode().ok()?;
    RetryPolicy::from_stored(&call.retry?).ok()
}

fn ends_run(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::RunCompleted { .. }
            | EventKind::RunFailed { .. }
            | EventKind::RunCancelled { .. }
            | EventKind::RunContinued(_)
    )
}
