//! Runs that are reset: the next run begins with a copy of the history before some event, and goes
//! on from there.
//!
//! The step that resets a run closes it, begins the next one with its first event, and has the
//! store copy the events between that and the place it goes back to, so that a long history never
//! has to be written by us. What was open at that place:
//!
//! | what            | what becomes of it                                                        |
//! |-----------------|---------------------------------------------------------------------------|
//! | activity calls  | get fresh tasks when the run is loaded: only its code knows their options |
//! | calls given up  | completed all the same: that is told again, so that it is undone; else    |
//! |                 | they have ended                                                           |
//! | timers          | fire at their original time                                               |
//! | children        | report to the new run; what they told after that place is told again     |
//! | later children  | go on by themselves; what they tell is dropped                            |
//! | signals         | those taken after that place come again, before those that nobody read    |
//! | kv, status      | have the values that they had                                             |
//!
//! What follows from the place of an event follows from the run that it happened in (`Lineage`):
//! idempotency keys and the uids of children stay as they are. A call that is made after the copy
//! is a call of the new run, with a key of its own, unless a redrive makes it again (`redrive.rs`).

use std::collections::{BTreeMap, BTreeSet};

use resurgam_core::action::{Reset, ResetTo};
use resurgam_core::command::ActivityCall;
use resurgam_core::event::{
    ActivityFailed, ChildStarted, Initiator, Lineage, ParentClose, RunContinued, RunStarted,
    UnreadSignal,
};
use resurgam_core::retry::{Idempotency, Reason};
use resurgam_core::turn::Blocked;
use resurgam_core::{Event, EventKind, Failure, Kind, Payload, RunKey, Seq, Timestamp, Uid};
use resurgam_store::rows::{
    InstanceRow, KvRow, Message as StoredMessage, MessageRow, RunRecord, Status,
};
use resurgam_store::{InstanceWrite, MessageWrite, Rewind, Step, TaskWrite};

use super::continuation::first_messages;
use super::draft::Draft;
use super::hot_run::HotRun;
use super::instance_info::InstanceInfo;
use crate::handle::Outcome;
use crate::node::Node;
use crate::node::input::ActedOn;
use crate::node::message::{
    child_message, now_due, reopen_id, reopen_message, result_id, timer_message, wake_message,
};
use crate::node::steps::effect::Effect;

/// How many children an answer names.
pub(super) const NAMED: usize = 20;

/// What a reset comes to.
pub(crate) struct ResetRun {
    pub(super) run: RunKey,
    pub(super) text: String,
    pub(super) step: Step,
    pub(super) effects: Vec<Effect>,
}

/// How a run goes back.
pub(super) struct GoBack {
    /// The event that the copy ends before.
    pub(super) cut: Seq,
    /// What the next run has of this one.
    pub(super) lineage: Lineage,
    /// Signals that were taken after that do not come again.
    pub(super) drop_signals: bool,
}

impl Node {
    /// The next run begins with a copy of the history before some event. The error says why not.
    pub(crate) fn reset_run(
        &mut self,
        asked_of: RunKey,
        reset: &Reset,
        found: &ActedOn,
    ) -> Result<ResetRun, String> {
        let cut = may_be_reset(asked_of, reset, found)?;
        let (record, first) = (&found.record, first_of(&found.record)?);
        let back = GoBack {
            cut,
            lineage: first.lineage.before(record.instance.run, cut),
            drop_signals: reset.drop_signals,
        };
        let what = record.events.iter().find(|event| event.seq == cut).map(described);
        let (id, what) = (&record.instance.id, what.unwrap_or_default());
        let mut done = self.go_back(found, first, back);
        let text = format!("reset {id} to event {cut} ({what}); run {}", done.run.run);
        done.text = format!("{text} goes on from there{}", done.text);
        Ok(done)
    }

    /// Closes a run, whose first event this is, and begins the next one at a place in its history.
    /// The text says what becomes of signals and of later children.
    pub(super) fn go_back(
        &mut self,
        found: &ActedOn,
        first: &RunStarted,
        back: GoBack,
    ) -> ResetRun {
        let GoBack { cut, lineage, drop_signals } = back;
        let lineage = Box::new(lineage);
        let record = &found.record;
        let (row, key) = (&record.instance, record.key());
        let next = RunKey { run: key.run.saturating_add(1), ..key };
        let began = record.events.first().map_or(self.now, |event| event.at);
        let now = self.now.max(record.events.last().map_or(self.now, |last| last.at));
        let (mut started, begins) = match lineage.copied.is_empty() {
            // Nothing of it is copied, so nothing keeps it from the newest version.
            true => {
                let version = self.newest_version(&row.workflow);
                let seed = self.random.number();
                let first = first.clone();
                (RunStarted { version, seed, first_turn_at: None, lineage, ..first }, now)
            }
            false => (RunStarted { lineage, ..first.clone() }, began),
        };
        // A paused run goes on with this.
        let pause = (row.status == Status::Paused).then(|| row.pause.resumed(self.now));
        let taken = signals_after(&record.events, cut);
        if drop_signals {
            // A sender that had no answer repeats its signal, which stays dropped.
            let ids = taken.iter().filter_map(|signal| signal.id.clone());
            started.carried.add_signal_ids(ids);
        }
        let (signals, mut text) = self.signals_again(record, taken, drop_signals);
        text += &later_children(&record.events, cut);
        if pause.is_some() {
            text += "; it was paused, and is no longer";
        }
        let mut step = Step {
            instance: Some(InstanceWrite::Continue {
                run: next,
                input: started.input.clone(),
                pause: pause.clone().map(Box::new),
            }),
            rewind: Some(Box::new(Rewind {
                from: key,
                to: next.run,
                before: cut,
                forget: Vec::new(),
            })),
            tasks: vec![TaskWrite::DeleteAll(key)],
            ..Step::default()
        };
        step.events.push((key, end_of_run(record, &started, now)));
        let children = children_at(first, key, &record.events, cut);
        step.messages.extend(
            stale(record, &children)
                .map(|row| MessageWrite::Delete { uid: key.uid, id: row.id.clone() }),
        );
        step.messages.extend(signals);
        step.messages.extend(outcomes_again(record, next, cut, &children, &found.children));
        step.messages.extend(completed_late(record, next, cut));
        step.messages.push(MessageWrite::Unpark(key.uid));
        let row = &InstanceRow { pause: pause.unwrap_or_else(|| row.pause.clone()), ..row.clone() };
        let info = InstanceInfo::new(row, &started);
        let time = RunStarted { first_turn_at: None, ..started.clone() };
        let messages = first_messages(next, &info, &time, self.now);
        let wake = [reopen_message(next), wake_message(next)];
        step.messages.extend(messages.into_iter().chain(wake).map(MessageWrite::Insert));
        own_data_at(record, first, cut, found.status_before.as_ref(), &mut step);
        let kind = EventKind::RunStarted(started);
        step.events.push((next, Event { seq: Seq::FIRST, at: begins, kind }));
        let mut effects: Vec<Effect> = Vec::new();
        for task in &record.tasks {
            effects.extend(self.give_up_call(task.call));
        }
        effects.push(Effect::RunActed(key.uid));
        self.memory.runs.blocked.remove(&key.uid);
        self.memory.runs.paused.remove(&key.uid);
        ResetRun { run: next, text, step, effects }
    }

    /// Signals that were taken after a place come again, before those that nobody read.
    fn signals_again(
        &mut self,
        record: &RunRecord,
        taken: Vec<UnreadSignal>,
        drop_them: bool,
    ) -> (Vec<MessageWrite>, String) {
        let uid = record.instance.uid;
        let text = match (taken.len(), drop_them) {
            (0, _) => String::new(),
            (1, true) => "; a signal is dropped".to_string(),
            (many, true) => format!("; {many} signals are dropped"),
            (1, false) => "; a signal comes again".to_string(),
            (many, false) => format!("; {many} signals come again"),
        };
        if taken.is_empty() || drop_them {
            return (Vec::new(), text);
        }
        let is_signal = |row: &&MessageRow| matches!(row.body, StoredMessage::Signal { .. });
        let unread: Vec<MessageRow> = record.messages.iter().filter(is_signal).cloned().collect();
        let gone = unread.iter().map(|row| MessageWrite::Delete { uid, id: row.id.clone() });
        let mut writes: Vec<MessageWrite> = gone.collect();
        for signal in taken {
            // In line with those that nobody has read.
            let row = self.signal_message(uid, signal.id, signal.name, signal.value);
            writes.push(MessageWrite::Insert(MessageRow { due_at: MessageRow::NEVER, ..row }));
        }
        writes.extend(unread.into_iter().map(MessageWrite::Insert));
        (writes, text)
    }

    /// What was open where a run was reset is made again: calls from what its code asks for, timers
    /// with their original time.
    pub(crate) fn reopen(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        record: &RunRecord,
        calls: BTreeMap<Seq, ActivityCall>,
    ) -> Result<(), Blocked> {
        draft.receive(run, |row| row.id == reopen_id(record.key()));
        let open = open_calls(&record.events);
        for (seq, mut call) in calls {
            let Some(queue) = open.get(&seq) else { continue };
            call.options.queue = Some((*queue).to_string());
            match self.runs_at_most_once(&call) {
                true => {
                    let row = may_have_run(run.key, seq, &call.name);
                    draft.keep_message(run, row);
                }
                false => self.schedule_activity(run, draft, seq, call, self.now)?,
            }
        }
        for (seq, fire_at) in open_timers(&record.events) {
            draft.keep_message(run, timer_message(run.key, seq, fire_at));
        }
        Ok(())
    }

    /// True when a call that has begun must never begin again.
    fn runs_at_most_once(&mut self, call: &ActivityCall) -> bool {
        let registry = self.registry.clone();
        let policy = self.policies.resolve(&registry, call);
        policy.is_ok_and(|policy| policy.checked.idempotency == Idempotency::AtMostOnce)
    }
}

/// The signals that a run has taken at an event or after it, in order.
fn signals_after(events: &[Event], cut: Seq) -> Vec<UnreadSignal> {
    let taken = events.iter().filter(|event| event.seq >= cut);
    let signals = taken.filter_map(|event| match &event.kind {
        EventKind::SignalReceived { name, value, id } => {
            Some(UnreadSignal { name: name.clone(), value: value.clone(), id: id.clone() })
        }
        _ => None,
    });
    signals.collect()
}

/// The first event of a run.
pub(super) fn first_of(record: &RunRecord) -> Result<&RunStarted, String> {
    match record.events.first().map(|event| &event.kind) {
        Some(EventKind::RunStarted(first)) => Ok(first),
        _ => Err(format!("{} has not begun; there is nothing to go back to", record.instance.id)),
    }
}

/// The last event of a run that is reset.
fn end_of_run(record: &RunRecord, next: &RunStarted, at: Timestamp) -> Event {
    let continued = RunContinued {
        initiator: Initiator::Reset,
        input: next.input.clone(),
        failure: None,
        backoff_ms: 0,
    };
    let seq = record.events.last().map_or(Seq::FIRST, |last| last.seq.next());
    Event { seq, at, kind: EventKind::RunContinued(continued) }
}

/// The event that a reset goes back to; the error says why it is refused.
pub(super) fn may_be_reset(
    asked_of: RunKey,
    reset: &Reset,
    found: &ActedOn,
) -> Result<Seq, String> {
    let record = &found.record;
    let (row, id) = (&record.instance, &record.instance.id);
    if asked_of.run != row.run {
        return Err(format!(
            "run {} of {id} is over; only its current run, number {}, can be reset",
            asked_of.run, row.run
        ));
    }
    if !found.is_current {
        return Err(format!("the id {id} was taken over by a later start; reset that one"));
    }
    if row.status.is_closed()
        && let Some(parent) = &found.parent
    {
        let (status, parent) = (row.status.name(), &parent.id);
        return Err(format!(
            "{id} is {status}, and {parent}, which started it, was told so; reset {parent} instead"
        ));
    }
    let is_undone = |event: &Event| matches!(&event.kind, EventKind::ActivityScheduled(call) if call.compensates.is_some());
    if record.events.iter().any(is_undone) && !reset.even_if_undone {
        return Err(format!(
            "{id} has begun to undo what it did, and what is undone stays undone; reset it all the \
             same with even_if_undone (--even-if-undone)"
        ));
    }
    place(&record.events, &reset.to).map_err(|why| format!("{id} {why}"))
}

/// The event that a reset goes back to; the error is the rest of a sentence.
pub(crate) fn place(events: &[Event], to: &ResetTo) -> Result<Seq, String> {
    let last = events.last().map_or(Seq(0), |event| event.seq);
    let is_undo = |seq: Seq| {
        let of = events.iter().find(|event| event.seq == seq).map(|event| &event.kind);
        matches!(of, Some(EventKind::ActivityScheduled(call)) if call.compensates.is_some())
    };
    // What follows the end of a run by force is not what its code asked for.
    let ended = |event: &&Event| matches!(event.kind, EventKind::TerminateRequested { .. });
    let ended_at = events.iter().find(ended).map(|event| event.seq);
    match to {
        ResetTo::Event(seq) if *seq > Seq::FIRST && ended_at.is_some_and(|at| *seq > at) => {
            let at = ended_at.unwrap_or(*seq);
            Err(format!("was terminated at event {at}; it can go back to that event or before"))
        }
        ResetTo::Event(seq) if *seq > Seq::FIRST && *seq <= last => Ok(*seq),
        ResetTo::Event(_) if last <= Seq::FIRST => {
            Err("has only begun; there is no event to go back to".to_string())
        }
        ResetTo::Event(seq) => {
            Err(format!("has no event {seq} to go back to; it has those from 2 to {last}"))
        }
        ResetTo::LastFailure => {
            let failed = events.iter().rev().find_map(|event| match &event.kind {
                EventKind::ActivityFailed(failed) if failed.why != Reason::Cancelled.name() => {
                    Some(failed.activity).filter(|seq| !is_undo(*seq))
                }
                EventKind::ChildFailed { child, .. } => Some(*child),
                _ => None,
            });
            failed.ok_or_else(|| "has no call and no child that failed".to_string())
        }
        ResetTo::Before(name) => {
            let called = events.iter().rev().find(|event| {
                matches!(&event.kind, EventKind::ActivityScheduled(call) if call.name == *name)
            });
            let missing = || format!("has no call of {name}");
            called.map(|event| event.seq).ok_or_else(missing)
        }
    }
}

/// The children that a run had started and not heard of where it is reset, by their places.
pub(crate) fn children_at(
    first: &RunStarted,
    key: RunKey,
    events: &[Event],
    cut: Seq,
) -> BTreeMap<Seq, Uid> {
    let mut open = BTreeMap::new();
    for event in events.iter().take_while(|event| event.seq < cut) {
        match &event.kind {
            EventKind::ChildStarted(child) if child.parent_close != ParentClose::Detached => {
                let of = RunKey { run: first.lineage.run_of(key.run, event.seq), ..key };
                open.insert(event.seq, Uid::of_child(of, event.seq, &child.id));
            }
            EventKind::ChildCompleted { child, .. } | EventKind::ChildFailed { child, .. } => {
                open.remove(child);
            }
            _ => {}
        }
    }
    open
}

/// The children that are open where a run is reset, when it can be.
pub(crate) fn open_children(record: &RunRecord, to: &ResetTo) -> Vec<Uid> {
    let (Ok(first), Ok(cut)) = (first_of(record), place(&record.events, to)) else {
        return Vec::new();
    };
    children_at(first, record.key(), &record.events, cut).into_values().collect()
}

/// Messages that only the run that is over waited for. What children tell it is for the next one,
/// and whatever comes from now on that nobody wants is dropped when it is read.
fn stale<'r>(
    record: &'r RunRecord,
    children: &'r BTreeMap<Seq, Uid>,
) -> impl Iterator<Item = &'r MessageRow> {
    let of_run = record.instance.run;
    record.messages.iter().filter(move |row| match &row.body {
        StoredMessage::Timer { run, .. } => *run == of_run,
        StoredMessage::Result {
            event: EventKind::ChildCompleted { child, .. } | EventKind::ChildFailed { child, .. },
            ..
        } => !children.contains_key(child),
        StoredMessage::Result { run, .. } => *run == of_run,
        _ => false,
    })
}

/// What children that are open again have told already: the run that was told is over.
fn outcomes_again(
    record: &RunRecord,
    next: RunKey,
    cut: Seq,
    children: &BTreeMap<Seq, Uid>,
    rows: &[InstanceRow],
) -> Vec<MessageWrite> {
    let mut told: BTreeMap<Seq, EventKind> = BTreeMap::new();
    for event in record.events.iter().filter(|event| event.seq >= cut) {
        if let EventKind::ChildCompleted { child, .. } | EventKind::ChildFailed { child, .. } =
            &event.kind
        {
            told.insert(*child, event.kind.clone());
        }
    }
    for (seq, uid) in children {
        let row = rows.iter().find(|row| row.uid == *uid);
        if let Some(outcome) = row.and_then(Outcome::of) {
            told.insert(*seq, outcome.for_parent(*seq));
        }
    }
    told.retain(|seq, _| children.contains_key(seq));
    let told = told.into_iter();
    told.map(|(seq, event)| MessageWrite::Insert(child_message(next.call(seq), event))).collect()
}

/// What calls returned that were given up before a place and completed after it, or of which the
/// run has not heard: they took their effect, and the run that goes on from there may have to undo
/// it.
fn completed_late(record: &RunRecord, next: RunKey, cut: Seq) -> Vec<MessageWrite> {
    let before = record.events.iter().take_while(|event| event.seq < cut);
    let mut given_up = BTreeSet::new();
    for event in before {
        match &event.kind {
            EventKind::ActivityCancelRequested { activity } => drop(given_up.insert(*activity)),
            EventKind::ActivityCompleted(done) => drop(given_up.remove(&done.activity)),
            EventKind::ActivityFailed(failed) => drop(given_up.remove(&failed.activity)),
            EventKind::ActivityCancelled { activity } => drop(given_up.remove(activity)),
            _ => {}
        }
    }
    let unread = record.messages.iter().filter_map(|row| match &row.body {
        StoredMessage::Result { run, event } if *run == record.instance.run => Some(event),
        _ => None,
    });
    let after = record.events.iter().filter(|event| event.seq >= cut).map(|event| &event.kind);
    let completed = after.chain(unread).filter_map(|event| match event {
        EventKind::ActivityCompleted(done) if given_up.remove(&done.activity) => Some(done),
        _ => None,
    });
    let told = completed.map(|done| {
        let event = EventKind::ActivityCompleted(done.clone());
        let body = StoredMessage::Result { run: next.run, event };
        MessageWrite::Insert(now_due(next.uid, result_id(next, done.activity), body))
    });
    told.collect()
}

/// The instance's own data as it was.
fn own_data_at(
    record: &RunRecord,
    first: &RunStarted,
    cut: Seq,
    status_before: Option<&Payload>,
    step: &mut Step,
) {
    let uid = record.instance.uid;
    let mut values: BTreeMap<String, Payload> = first.carried.kv.clone();
    values.extend(status_before.map(|value| (KvRow::STATUS.to_string(), value.clone())));
    let mut changed: BTreeSet<String> = BTreeSet::new();
    for event in &record.events {
        let (key, value) = match &event.kind {
            EventKind::KvSet { key, value } => (key.clone(), value),
            EventKind::StatusSet { value } => (KvRow::STATUS.to_string(), value),
            _ => continue,
        };
        if event.seq < cut {
            values.insert(key, value.clone());
        } else {
            changed.insert(key);
        }
    }
    for key in changed {
        match values.remove(&key) {
            Some(value) => step.kv.push(KvRow { uid, key, value }),
            None => step.rewind.iter_mut().for_each(|rewind| rewind.forget.push(key.clone())),
        }
    }
}

/// Children that were started after the place a run goes back to, for people.
fn later_children(events: &[Event], cut: Seq) -> String {
    let started = |event: &&Event| event.seq >= cut;
    let ids: Vec<&str> = events
        .iter()
        .filter(started)
        .filter_map(|event| match &event.kind {
            EventKind::ChildStarted(ChildStarted { id, .. }) => Some(id.as_str()),
            _ => None,
        })
        .collect();
    match ids.len() {
        0 => String::new(),
        many => {
            let named = ids.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
            let more = match many.saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("; children that were started after that go on by themselves: {named}{more}")
        }
    }
}

/// The calls of a history that have not ended and were not given up, with their queues.
fn open_calls(events: &[Event]) -> BTreeMap<Seq, &str> {
    let mut open = BTreeMap::new();
    for event in events {
        match &event.kind {
            EventKind::ActivityScheduled(call) => {
                open.insert(event.seq, call.queue.as_str());
            }
            EventKind::ActivityCompleted(done) => drop(open.remove(&done.activity)),
            EventKind::ActivityFailed(failed) => drop(open.remove(&failed.activity)),
            EventKind::ActivityCancelled { activity }
            | EventKind::ActivityCancelRequested { activity } => drop(open.remove(activity)),
            _ => {}
        }
    }
    open
}

/// The timers of a history that have not fired and were not given up.
fn open_timers(events: &[Event]) -> BTreeMap<Seq, Timestamp> {
    let mut open = BTreeMap::new();
    for event in events {
        match &event.kind {
            EventKind::RunStarted(started) => {
                open.extend(started.first_turn_at.map(|at| (Seq::FIRST, at)));
            }
            EventKind::TimerStarted { fire_at } => drop(open.insert(event.seq, *fire_at)),
            EventKind::TimerFired { timer } | EventKind::TimerCancelled { timer } => {
                open.remove(timer);
            }
            _ => {}
        }
    }
    open
}

/// The end of a call that may have begun before its run was reset, and must not begin twice.
fn may_have_run(key: RunKey, seq: Seq, name: &str) -> MessageRow {
    let message = format!(
        "{name}#{seq} may have run before its run was reset, and must not run twice (at_most_once)"
    );
    let event = EventKind::ActivityFailed(ActivityFailed {
        activity: seq,
        failure: Failure::of_kind(Kind::WorkerLost, message),
        attempt: 0,
        started_at: Timestamp::EPOCH,
        why: Reason::WorkerLost.name().to_string(),
        settles: false,
        ends_run: false,
        retry_metadata: None,
    });
    let body = StoredMessage::Result { run: key.run, event };
    now_due(key.uid, result_id(key, seq), body)
}

/// An event in a few words.
fn described(event: &Event) -> String {
    let name = event.kind.name();
    match &event.kind {
        EventKind::ActivityScheduled(call) => format!("{name} {}", call.name),
        EventKind::ChildStarted(child) => format!("{name} {}", child.id),
        EventKind::SignalReceived { name: signal, .. } => format!("{name} {signal}"),
        _ => name.to_string(),
    }
}
