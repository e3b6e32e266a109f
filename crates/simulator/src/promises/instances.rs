//! What is promised about instances that operators act on.
//!
//! - One that is paused takes no turn, and its timeouts stand still.
//! - One that is reset begins its next run with a copy of what was before the cut. Nothing of that
//!   is done again; what was open goes on under its name, and signals that were taken after the cut
//!   come again unless somebody drops them.
//! - One that is restarted is another instance with the same input and options, once for each
//!   request.

use std::collections::BTreeSet;
use std::time::Duration;

use resurgam_core::action::{Action, Reset, ResetTo};
use resurgam_core::event::RunStarted;
use resurgam_core::{CallKey, Event, EventKind, Payload, RunKey, Seq, Timestamp, Uid};
use resurgam_store::model::Model;
use resurgam_store::rows::{ActionRow, InstanceRow, KvRow, RunPause, Status};
use resurgam_store::{InstanceWrite, Rewind, Step};

use super::{CORRECTED, Promises, RunSeen};

/// What was seen of an instance.
#[derive(Clone, Debug, Default)]
pub(super) struct InstanceSeen {
    paused: bool,
    /// How long its timeouts stood still.
    stood_still: Duration,
    /// When its time is over.
    pub(super) total_ends: Option<Timestamp>,
    /// An operator had it begin again, or go on from before.
    brought_back: bool,
    /// How it ended, each time.
    closed_as: BTreeSet<&'static str>,
    /// What it told the world about itself, by run and place.
    statuses: Vec<(u32, Seq, Payload)>,
}

impl Promises {
    /// Notes the instances that operators bring back with a step. Others may be written in one
    /// batch with it that were decided about before.
    pub(super) fn notes_brought_back(&mut self, step: &Step) {
        let rewound = step.rewind.iter().map(|rewind| rewind.from.uid);
        let restarts = |row: &ActionRow| matches!(row.request.action, Action::Restart);
        let restarted = match &step.instance {
            Some(InstanceWrite::Insert { row, .. }) if step.actions.iter().any(restarts) => {
                Some(row.uid)
            }
            _ => None,
        };
        for uid in rewound.chain(restarted) {
            self.instances.entry(uid).or_default().brought_back = true;
        }
    }

    /// A step is written: what it says about an instance fits what was done to that.
    pub(super) fn instance_written(&mut self, model: &Model, step: &Step) {
        // A run that is reset while it is paused goes on with that.
        if let Some(InstanceWrite::Continue { run, pause: Some(pause), .. }) = &step.instance {
            self.goes_on(run.uid, pause);
        }
        for (run, event) in &step.events {
            self.happened_to_instance(model, *run, event);
        }
        match &step.instance {
            Some(InstanceWrite::Pause { uid, status: Status::Paused, .. }) => self.pauses(*uid),
            Some(InstanceWrite::Pause { uid, pause, .. }) => self.goes_on(*uid, pause),
            Some(InstanceWrite::Status { uid, status, .. }) => {
                self.not_while_paused(*uid, status.name());
                self.closed(*uid, *status);
            }
            Some(InstanceWrite::Continue { run, .. }) => {
                self.not_while_paused(run.uid, "continued");
            }
            Some(InstanceWrite::Insert { row, .. }) => {
                self.closed(row.uid, row.status);
                self.restarted(model, row, step);
            }
            Some(InstanceWrite::Open { .. }) | None => {}
        }
        if let Some(rewind) = step.rewind.as_deref() {
            self.rewound(model, rewind, step);
        }
    }

    fn happened_to_instance(&mut self, model: &Model, run: RunKey, event: &Event) {
        let uid = run.uid;
        self.not_while_paused(uid, event.kind.name());
        match &event.kind {
            EventKind::RunStarted(started) => self.time_begins(model, run, started, event.at),
            EventKind::RunTimedOut { total } => {
                let instance = self.instances.get(&uid).and_then(|seen| seen.total_ends);
                let run = self.runs.get(&run).and_then(|seen| seen.ends_at);
                let ends_at = if *total { instance } else { run };
                if let Some(ends_at) = ends_at.filter(|at| event.at.saturating_add(CORRECTED) < *at)
                {
                    let early = ends_at.since(event.at);
                    self.breaks(uid, format!("the time of {uid} was up {early:?} too early"));
                }
            }
            EventKind::StatusSet { value } => {
                let instance = self.instances.entry(uid).or_default();
                instance.statuses.push((run.run, event.seq, value.clone()));
            }
            EventKind::ChildCompleted { child, .. } | EventKind::ChildFailed { child, .. } => {
                self.child_told(model, run, *child, &event.kind);
            }
            _ => {}
        }
    }

    fn not_while_paused(&mut self, uid: Uid, what: &str) {
        if self.instances.get(&uid).is_some_and(|seen| seen.paused) {
            self.breaks(uid, format!("{uid} is paused, and {what} is written"));
        }
    }

    fn pauses(&mut self, uid: Uid) {
        let seen = self.instances.entry(uid).or_default();
        if std::mem::replace(&mut seen.paused, true) {
            self.breaks(uid, format!("{uid} is paused, and is paused again"));
        }
        if self.runs.range(runs_of(uid)).next_back().is_some_and(|(_, run)| run.is_over) {
            self.breaks(uid, format!("{uid} is closed, and is paused"));
        }
    }

    /// A paused run goes on, and the ends of its time are later by as much.
    fn goes_on(&mut self, uid: Uid, pause: &RunPause) {
        let seen = self.instances.entry(uid).or_default();
        let was_paused = std::mem::take(&mut seen.paused);
        let by = pause.stood_still().saturating_sub(seen.stood_still);
        seen.stood_still = pause.stood_still();
        let later = |at: &mut Timestamp| *at = at.saturating_add(by);
        seen.total_ends.iter_mut().for_each(later);
        if let Some((_, run)) = self.runs.range_mut(runs_of(uid)).next_back() {
            run.ends_at.iter_mut().for_each(later);
        }
        if !was_paused {
            self.breaks(uid, format!("{uid} is resumed, and was not paused"));
        }
    }

    fn closed(&mut self, uid: Uid, status: Status) {
        if status.is_closed() {
            self.instances.entry(uid).or_default().closed_as.insert(status.name());
        }
    }

    /// Whether an instance ended so at some time. One that is reset afterwards goes on.
    pub(super) fn has_ended(&self, uid: Uid, status: &str) -> bool {
        self.instances.get(&uid).is_some_and(|seen| seen.closed_as.contains(status))
    }

    /// Whether an operator had an instance begin again, or go on from before.
    pub(super) fn was_brought_back(&self, uid: Uid) -> bool {
        self.instances.get(&uid).is_some_and(|seen| seen.brought_back)
    }

    /// A run begins: its time does, and that of the instance with the first one.
    fn time_begins(&mut self, model: &Model, run: RunKey, started: &RunStarted, at: Timestamp) {
        let known = model.instance(run.uid).filter(|_| !self.is_clock_in_doubt);
        let Some(InstanceRow { settings, created_at, .. }) = known else { return };
        let after = |from: Timestamp, ms| from.saturating_add(Duration::from_millis(ms));
        let begins = started.first_turn_at.unwrap_or(at);
        let ends_at = settings.run_timeout_ms.map(|ms| after(begins, ms));
        self.runs.entry(run).or_default().ends_at = ends_at;
        if run.run == 1 {
            let total = settings.total_timeout_ms.map(|ms| after(created_at, ms));
            self.instances.entry(run.uid).or_default().total_ends = total;
        }
    }

    /// A run hears how a child ended: it did, and so.
    fn child_told(&mut self, model: &Model, run: RunKey, child: Seq, told: &EventKind) {
        let Some(uid) = self.runs.get(&run).and_then(|seen| seen.child(child)) else { return };
        let Some(row) = model.instance(uid).or(self.was_swept(uid).cloned()) else { return };
        let is_it = match told {
            EventKind::ChildCompleted { result, .. } => {
                row.status == Status::Completed && row.outcome.as_ref() == Some(result)
            }
            _ => row.status.is_closed() && row.status != Status::Completed,
        };
        if !is_it {
            let (name, status) = (told.name(), row.status.name());
            self.breaks(run.uid, format!("{run:?} hears {name} of {}, which is {status}", row.id));
        }
    }

    /// A run is reset.
    fn rewound(&mut self, model: &Model, rewind: &Rewind, step: &Step) {
        let Rewind { from, to, before: cut, .. } = rewind;
        let (from, next) = (*from, RunKey { run: *to, ..*from });
        let uid = from.uid;
        let history = model.history(from);
        let is_before = |event: &&Event| event.seq > Seq::FIRST && event.seq < *cut;
        let expected: Vec<&Event> = history.iter().filter(is_before).collect();
        let copy = model.history(next);
        if copy.iter().filter(is_before).collect::<Vec<&Event>>() != expected {
            self.breaks(uid, format!("{next:?} has no true copy of {from:?} before {cut}"));
        }
        let Some((reset, redrive)) =
            step.actions.iter().find_map(|row| match &row.request.action {
                Action::Reset(reset) => Some((reset.clone(), None)),
                Action::Redrive(redrive) => {
                    Some((Reset::to(ResetTo::Event(redrive.call)), Some((redrive, row.at))))
                }
                _ => None,
            })
        else {
            return self.breaks(uid, format!("{from:?} is reset, and nobody wanted that"));
        };
        self.may_be_reset(model, from, &reset, &history);
        if let Some((redrive, at)) = redrive {
            self.redriven((from, next), redrive, &history, at);
        }
        let end = step.events.iter().find(|(run, _)| *run == from);
        self.time_of_reset(model, next, end.map(|(_, event)| event.at));
        self.runs.entry(next).or_default().last = cut.0 - 1;
        for event in expected {
            self.copied(from, next, event);
        }
        for event in history.iter().filter(|event| event.seq >= *cut) {
            if let EventKind::SignalReceived { id: Some(id), .. } = &event.kind {
                self.received.entry(uid).or_default().retain(|other| other != id);
                if reset.drop_signals {
                    self.dropped.entry(uid).or_default().insert(id.clone());
                }
            }
        }
        let instance = self.instances.entry(uid).or_default();
        instance.statuses.retain(|(run, seq, _)| *run != from.run || seq < cut);
        let of_run = instance.statuses.iter_mut().filter(|(run, _, _)| *run == from.run);
        of_run.for_each(|(run, _, _)| *run = next.run);
        let status = instance.statuses.last().map(|(_, _, value)| value.clone());
        let stored = model.kv(uid, KvRow::STATUS).map(|row| row.value);
        if status != stored {
            let what = format!("{uid} was reset to event {cut}, where its status was {status:?}");
            self.breaks(uid, format!("{what}; it is {stored:?}"));
        }
    }

    /// The time of a run that goes on from before begins again.
    fn time_of_reset(&mut self, model: &Model, next: RunKey, at: Option<Timestamp>) {
        let Some(at) = at else { return };
        let row = model.instance(next.uid).filter(|_| !self.is_clock_in_doubt);
        let time = row.and_then(|row| row.settings.run_timeout_ms).map(Duration::from_millis);
        let ends_at = time.map(|time| at.saturating_add(time));
        self.runs.entry(next).or_default().ends_at = ends_at;
    }

    fn may_be_reset(&mut self, model: &Model, from: RunKey, reset: &Reset, history: &[Event]) {
        let undoes = |event: &Event| match &event.kind {
            EventKind::ActivityScheduled(call) => call.compensates.is_some(),
            _ => false,
        };
        if history.iter().any(undoes) && !reset.even_if_undone {
            let what = format!("{from:?} is reset although it has begun to undo what it did");
            self.breaks(from.uid, what);
        }
        let ended = self.runs.get(&from).is_some_and(|seen| seen.is_over);
        let parent = model.instance(from.uid).and_then(|row| row.parent);
        if ended && parent.is_some_and(|parent| model.instance(parent.run.uid).is_some()) {
            self.breaks(from.uid, format!("{from:?} is reset, and its parent was told its end"));
        }
    }

    /// An event that a run has from the run that was reset.
    fn copied(&mut self, from: RunKey, next: RunKey, event: &Event) {
        let seq = event.seq;
        match &event.kind {
            EventKind::ActivityScheduled(_) => {
                let before = self.calls.entry(from.call(seq)).or_default();
                let (script, compensates) = (before.script.clone(), before.compensates);
                let key = before.key.unwrap_or(from.call(seq));
                let call = self.calls.entry(next.call(seq)).or_default();
                (call.script, call.compensates, call.key) = (script, compensates, Some(key));
            }
            EventKind::ActivityCompleted(completed) => {
                self.calls.entry(next.call(completed.activity)).or_default().ended = true;
            }
            EventKind::ActivityFailed(failed) => {
                self.calls.entry(next.call(failed.activity)).or_default().ended = !failed.settles;
                self.runs.entry(next).or_default().must_fail |= failed.ends_run;
            }
            EventKind::TimerStarted { fire_at } => {
                self.runs.entry(next).or_default().timers.insert(seq, *fire_at);
            }
            EventKind::TimerFired { timer } => {
                self.runs.entry(next).or_default().timers.remove(timer);
            }
            EventKind::ChildStarted(_) => {
                let child = self.runs.get(&from).and_then(|seen| seen.child(seq));
                let children = &mut self.runs.entry(next).or_default().children;
                children.extend(child.map(|uid| (seq, (uid, false))));
            }
            EventKind::ChildCompleted { child, .. } | EventKind::ChildFailed { child, .. } => {
                let children = &mut self.runs.entry(next).or_default().children;
                children.get_mut(child).into_iter().for_each(|(_, ended)| *ended = true);
            }
            _ => {}
        }
    }

    /// A closed instance begins again.
    fn restarted(&mut self, model: &Model, row: &InstanceRow, step: &Step) {
        let restarts = |request: &Action| matches!(request, Action::Restart);
        let mut actions = step.actions.iter().filter(|row| restarts(&row.request.action));
        let Some(before) = actions.find(|action| action.call.run.uid != row.uid) else { return };
        let (uid, id) = (before.call.run.uid, before.request.id.clone());
        if let Some(other) = self.actions.restarts(uid, &id, row.uid) {
            let what = format!("{} was restarted as {other} and {}", row.id, row.uid);
            self.breaks(uid, format!("{what} by one request"));
        }
        let Some(old) = model.instance(uid) else { return };
        if !old.status.is_closed() {
            self.breaks(uid, format!("{} is {}, and restarted", row.id, old.status.name()));
        }
        let first = model.history(RunKey::first(uid)).into_iter().next();
        let input = first.and_then(|event| match event.kind {
            EventKind::RunStarted(started) => Some(started.input),
            _ => None,
        });
        let is_same = input.is_none_or(|input| input == row.input)
            && (&old.id, &old.workflow, &old.queue) == (&row.id, &row.workflow, &row.queue)
            && (old.priority, &old.tags) == (row.priority, &row.tags)
            && old.settings.run_timeout_ms == row.settings.run_timeout_ms
            && old.settings.total_timeout_ms == row.settings.total_timeout_ms;
        if !is_same {
            self.breaks(uid, format!("{} was restarted as something else", row.id));
        }
    }

    /// An attempt has the key of its call, which a reset leaves as it was.
    pub(crate) fn has_key(&mut self, call: CallKey, key: CallKey) {
        let expected = self.calls.get(&call).and_then(|seen| seen.key).unwrap_or(call);
        if key != expected {
            let what = format!("an attempt of call {call} has the key of {key}, not of {expected}");
            self.breaks(call.run.uid, what);
        }
    }
}

impl RunSeen {
    /// The child that was started at this place.
    fn child(&self, seq: Seq) -> Option<Uid> {
        self.children.get(&seq).map(|(uid, _)| *uid)
    }
}

fn runs_of(uid: Uid) -> std::ops::RangeInclusive<RunKey> {
    RunKey { uid, run: 0 }..=RunKey { uid, run: u32::MAX }
}
