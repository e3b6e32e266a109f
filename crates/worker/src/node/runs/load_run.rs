//! Runs that are not in memory: read when something happens to them, and replayed.
//!
//! What a crash kept from the disk is asked for again by the replay. A run that cannot be replayed
//! is *blocked*: it stays as it is, and is tried again in its own time. One whose workflow this
//! process does not know *waits*, for a process that does.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use resurgam_core::event::RunStarted;
use resurgam_core::turn::{Blocked, Run};
use resurgam_core::{CallKey, Event, EventKind, Payload, RunKey, Seq, Uid};
use resurgam_sdk::WorkflowDefinition;
use resurgam_store::rows::{
    InstanceRow, Message as StoredMessage, MessageRow, RunRecord, Status, TaskRow,
};
use resurgam_store::{InstanceWrite, MessageWrite, Result, Step};

use super::away_turn::{AwayTurn, Taken, Turned};
use super::draft::Draft;
use super::hot_run::HotRun;
use super::instance_info::InstanceInfo;
use super::paused_run::PausedRun;
use super::unloaded::held_up;
use super::unloaded_run::{Tries, UnloadedRun};
use crate::node::Node;
use crate::node::calls::load_tasks::SCAN;
use crate::node::message::{reopen_id, result_id, wake_id};
use crate::node::news::{News, cancelled_call};
use crate::node::steps::effect::Effect;
use crate::node::store_request::{AGAIN, StoreRequest};

impl Node {
    pub(crate) fn run_loaded(&mut self, uid: Uid, loaded: Result<Option<Box<RunRecord>>>) {
        self.run_read(uid, loaded, None);
    }

    /// A run is back from the replay of its history, or from its first turn.
    pub(crate) fn replayed(&mut self, mut turned: Turned) {
        let uid = turned.run.uid;
        let unloaded = self.memory.runs.unloaded.get_mut(&uid);
        let Some(mut record) = unloaded.and_then(|unloaded| unloaded.replaying.take()) else {
            return;
        };
        if turned.is_replay {
            record.events = std::mem::take(&mut turned.events);
        }
        self.run_read(uid, Ok(Some(record)), Some(turned));
    }

    /// A run was read, and replayed if that was done elsewhere.
    fn run_read(
        &mut self,
        uid: Uid,
        loaded: Result<Option<Box<RunRecord>>>,
        replayed: Option<Turned>,
    ) {
        let unloaded = self.memory.runs.unloaded.remove(&uid).unwrap_or_default();
        if self.memory.runs.is_acted_on(uid) {
            self.store_held(uid, unloaded.held);
            return self.bring_to_rest(uid);
        }
        if unloaded.outdated {
            let UnloadedRun { missed, held, .. } = unloaded;
            self.memory
                .runs
                .unloaded
                .insert(uid, UnloadedRun { missed, held, ..UnloadedRun::default() });
            return self.load_run(uid);
        }
        let missed = unloaded.missed;
        self.take_loaded(uid, loaded, unloaded, replayed);
        if missed {
            self.has_messages(uid);
        }
    }

    fn take_loaded(
        &mut self,
        uid: Uid,
        loaded: Result<Option<Box<RunRecord>>>,
        unloaded: UnloadedRun,
        replayed: Option<Turned>,
    ) {
        let mut record = match loaded {
            Ok(Some(record)) if !record.instance.status.is_closed() => record,
            Ok(record) => {
                // One that is gone may have left some too, which came late.
                if record.is_none_or(|record| !record.messages.is_empty()) {
                    self.park(uid);
                }
                return self.refuse_news(unloaded.held);
            }
            Err(error) if error.is_data() => {
                tracing::error!(instance = %uid, "a run cannot be read: {error}");
                return self.stay_blocked(uid, &format!("{} {error}", error.code()), unloaded.held);
            }
            Err(error) => {
                self.tell("read the run", &uid, &error);
                let at = self.now.saturating_add(AGAIN);
                self.memory.due.wake_run(at, uid);
                return self.store_held(uid, unloaded.held);
            }
        };
        if record.instance.status == Status::Paused {
            self.memory.runs.paused.insert(uid, PausedRun::default());
            self.store_held(uid, unloaded.held);
            return self.look_at_paused(uid);
        }
        if replayed.is_none()
            && let Some(turn) = self.replays_elsewhere(&mut record)
        {
            // It is being read until it is back.
            let replaying = UnloadedRun { loading: true, replaying: Some(record), ..unloaded };
            self.memory.runs.unloaded.insert(uid, replaying);
            return self.take_elsewhere(turn);
        }
        let held = unloaded.held;
        match self.rebuild(&record, replayed) {
            Ok((run, draft)) => self.rebuilt(&record, run, draft, held),
            Err(_) if is_terminated(&record, &held) => {
                let (run, draft) = self.without_code(&record);
                self.rebuilt(&record, run, draft, held);
            }
            Err(unknown @ Blocked::Unregistered(_)) => {
                self.wait_for_code(&record.instance, &unknown, held);
            }
            Err(error) => {
                tracing::warn!(instance = %record.instance.id, "run is blocked: {error}");
                self.stay_blocked(uid, &error.to_string(), held);
            }
        }
    }

    /// A run whose workflow this process does not know is for another process, or for a later
    /// version of this one. Its news is stored, and people can read why it waits.
    fn wait_for_code(&mut self, row: &InstanceRow, unknown: &Blocked, held: Vec<News>) {
        let mut why = unknown.to_string();
        let elsewhere = self.memory.shards.known_elsewhere();
        let is_elsewhere = elsewhere.iter().any(|known| is_version_of(known, &row.workflow));
        if is_elsewhere {
            why += "; another node knows it, and works on no shards because its workflows differ \
                    from this node's: programs with different workflows need a schema each";
        }
        if self.unknown.insert(row.workflow.clone()) {
            let (instance, workflow) = (&row.id, &row.workflow);
            tracing::warn!(%instance, %workflow, "instances of a workflow wait: {why}");
        }
        let uid = row.uid;
        let known = row.status == Status::Running && row.error.as_deref() == Some(&*why);
        let instance = (!known).then(|| held_up(uid, Status::Running, &why));
        let step = Step { instance, messages: vec![MessageWrite::Park(uid)], ..Step::default() };
        self.memory.runs.blocked.insert(uid, Tries { waits_for_code: true, ..Tries::after(0) });
        self.outbox.push(step, Vec::new());
        self.store_held(uid, held);
    }

    /// Notes why a run cannot go on. Its news is stored; it is tried again later.
    pub(crate) fn stay_blocked(&mut self, uid: Uid, error: &str, held: Vec<News>) {
        let messages = vec![MessageWrite::Park(uid)];
        let instance = Some(held_up(uid, Status::Blocked, error));
        let step = Step { instance, messages, ..Step::default() };
        let tries = self.memory.runs.blocked.get(&uid).map_or(0, |tries| tries.count);
        self.memory.runs.blocked.insert(uid, Tries::after(tries));
        self.outbox.push(step, vec![Effect::Blocked(uid)]);
        self.store_held(uid, held);
    }

    /// Stores news that was held back while a run was read, now that it was not loaded after all.
    fn store_held(&mut self, uid: Uid, held: Vec<News>) {
        for news in held {
            self.store_news(news.run(RunKey::first(uid)), news);
        }
    }

    /// The replay of a run whose turns are taken elsewhere, or its first turn. None when it cannot
    /// even begin: reviving it here says why.
    fn replays_elsewhere(&mut self, record: &mut RunRecord) -> Option<AwayTurn> {
        let started = self.first_event_of(record);
        let name = &record.instance.workflow;
        let workflow = self.version_of(name, started.version, &started.input).ok()?;
        let thread = self.registry.turn_thread(&workflow)?;
        let key = record.key();
        let code = begin_code_of(&record.instance, key, &workflow, &started.input).ok()?;
        if record.events.is_empty() {
            let kind = EventKind::RunStarted(started);
            let event = Event { seq: Seq::FIRST, at: self.now, kind };
            return Some(AwayTurn::of(key, code, event, thread));
        }
        let is_reset = record.messages.iter().any(|row| row.id == reopen_id(key));
        let events = std::mem::take(&mut record.events);
        Some(AwayTurn::replay(key, code, events, is_reset, thread))
    }

    fn first_event_of(&mut self, record: &RunRecord) -> RunStarted {
        let row = &record.instance;
        match record.events.first().map(|event| &event.kind) {
            Some(EventKind::RunStarted(started)) => started.clone(),
            _ => self.first_event(row, self.newest_version(&row.workflow)),
        }
    }

    /// Replays a run. What its last turn asked for and a crash kept from the disk is in the draft.
    fn rebuild(
        &mut self,
        record: &RunRecord,
        replayed: Option<Turned>,
    ) -> std::result::Result<(HotRun, Draft), Blocked> {
        let row = &record.instance;
        let started = match replayed.as_ref().and_then(Turned::started) {
            Some(started) => started.clone(),
            None => self.first_event_of(record),
        };
        let workflow = self.version_of(&row.workflow, started.version, &started.input)?;
        let key = record.key();
        let (code, taken) = match replayed {
            Some(turned) => (turned.code, Some((turned.events, turned.taken))),
            None => {
                let begun = begin_code_of(row, key, &workflow, &started.input);
                (begun.map_err(Blocked::Unreadable)?, None)
            }
        };
        let mut run = HotRun::new(key, row.id.clone(), code, InstanceInfo::new(row, &started));
        run.turns = self.registry.turn_thread(&workflow);
        run.open_calls = record.tasks.iter().map(|task| task.call.seq).collect();
        run.elsewhere = self.elsewhere(record);
        run.left_to_others = self.shared_calls(record);
        run.children = children(&run, &record.events);
        record.messages.iter().for_each(|row| run.remember(row.clone()));
        let mut draft = Draft::default();
        let rebuilt = match record.events.is_empty() {
            true => self.begin_started(&mut run, &mut draft, started, taken),
            false => self.replay(&mut run, &mut draft, record, taken.map(|(_, taken)| taken)),
        };
        if rebuilt.is_err() {
            self.take_back(&draft.effects);
        }
        rebuilt.map(|()| (run, draft))
    }

    fn replay(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        record: &RunRecord,
        taken: Option<Taken>,
    ) -> std::result::Result<(), Blocked> {
        let is_reset = record.messages.iter().any(|row| row.id == reopen_id(record.key()));
        let Taken { asks, calls } = taken.unwrap_or_else(|| {
            let mut calls = BTreeMap::new();
            let asks = run.code.replay_keeping(&record.events, |seq, call| {
                if is_reset {
                    calls.insert(seq, call);
                }
            });
            Taken { asks, calls }
        });
        let rest = asks?;
        draft.receive(run, |row| row.id == wake_id(record.key()));
        if is_reset {
            self.reopen(run, draft, record, calls)?;
        }
        self.settle_what_ended(run, draft, record);
        let at = record.events.last().map_or(self.now, |event| event.at);
        // What a reset has the code ask for again begins now.
        let at = if is_reset { at.max(self.now) } else { at };
        self.record(run, draft, rest, at)?;
        // A limit that the last turn passed ends the run now, if a crash kept it from that.
        match self.passed_limit(run) {
            Some(failure) => self.take_turn(run, draft, &EventKind::LimitPassed { failure }),
            None => Ok(()),
        }
    }

    /// The calls of a run that are left to others, and that nobody had claimed.
    fn shared_calls(&self, record: &RunRecord) -> BTreeSet<Seq> {
        let others = self.is_shared.then_some(&record.tasks).into_iter().flatten();
        let waiting = others.filter(|task| task.claim.is_none());
        waiting.filter(|task| self.leaves(task)).map(|task| task.call.seq).collect()
    }

    /// The calls of a run whose attempts were claimed by another node.
    fn elsewhere(&self, record: &RunRecord) -> BTreeMap<Seq, TaskRow> {
        let claimed = record.tasks.iter().filter(|task| task.claim.is_some());
        let elsewhere = claimed.filter(|task| !self.memory.calls.has(task.call));
        elsewhere.map(|task| (task.call.seq, task.clone())).collect()
    }

    /// A run that cannot go on, and need not: somebody ends it, and its code is not asked.
    fn without_code(&mut self, record: &RunRecord) -> (HotRun, Draft) {
        let (row, key) = (&record.instance, record.key());
        let mut draft = Draft::default();
        let mut events = Cow::Borrowed(&record.events);
        if events.is_empty() {
            // It never began. It does now, and ends.
            let kind = EventKind::RunStarted(self.first_event(row, 1));
            let first = Event { seq: Seq::FIRST, at: self.now, kind };
            draft.step.events.push((key, first.clone()));
            events = Cow::Owned(vec![first]);
        }
        let code = Run::without_code(key, &events);
        let about = match &events[0].kind {
            EventKind::RunStarted(started) => InstanceInfo::new(row, started),
            _ => InstanceInfo::default(),
        };
        let mut run = HotRun::new(key, row.id.clone(), code, about);
        run.open_calls = record.tasks.iter().map(|task| task.call.seq).collect();
        run.elsewhere = self.elsewhere(record);
        run.left_to_others = self.shared_calls(record);
        run.children = children(&run, &record.events);
        record.messages.iter().for_each(|row| run.remember(row.clone()));
        draft.receive(&mut run, is_start);
        drop(run.pending_messages.take(|row| !ends_at_once(row)));
        (run, draft)
    }

    /// The code of a workflow in the version that a run is on.
    fn version_of(
        &self,
        workflow: &str,
        version: u32,
        argument: &Payload,
    ) -> std::result::Result<Arc<WorkflowDefinition>, Blocked> {
        let reads = |definition: &&Arc<WorkflowDefinition>| definition.reads(argument);
        let found = self.registry.workflow_version(workflow, version).filter(reads).cloned();
        found.ok_or_else(|| {
            Blocked::Unregistered(match self.registry.workflow(workflow).filter(reads) {
                Some(newest) => format!(
                    "version {version} of workflow {workflow} is not registered in this process, \
                     whose newest is {}; keep a version registered until no run is on it",
                    newest.version
                ),
                None => format!(
                    "workflow {workflow} is not registered in this process; add it with \
                     .workflow(..) where the app is built"
                ),
            })
        })
    }

    /// Calls that the run gave up before the crash and that are not running: they have ended. One
    /// that waits can begin nowhere but here, and one that is paused would wait for ever.
    fn settle_what_ended(&mut self, run: &mut HotRun, draft: &mut Draft, record: &RunRecord) {
        let settling = run.code.machine().lock().settling();
        for seq in settling {
            let key = run.key.call(seq);
            let is_result = |row: &MessageRow| row.id == result_id(run.key, seq);
            let waits = |task: &TaskRow| task.call == key && task.claim.is_none();
            let is_idle = record.tasks.iter().any(waits)
                && !run.left_to_others.contains(&seq)
                && !self.memory.calls.has(key);
            if is_idle && run.open_calls.remove(&seq) {
                self.cancel_call(key, draft);
                run.settled.push_back(cancelled_call(seq, 0));
            } else if !run.open_calls.contains(&seq) && !record.messages.iter().any(is_result) {
                run.settled.push_back(cancelled_call(seq, 0));
            }
        }
    }

    /// Calls that were given up and are left to others: whether somebody has them is found out.
    fn settle_what_is_shared(&mut self, uid: Uid) {
        let Some(run) = self.memory.runs.hot.get(uid) else { return };
        let settling = run.code.machine().lock().settling();
        let shared = settling.into_iter().filter(|seq| run.left_to_others.contains(seq));
        let calls: Vec<CallKey> = shared.map(|seq| run.key.call(seq)).collect();
        calls.into_iter().for_each(|key| self.settle_shared(key));
    }

    /// The first turn of a run that was started by a process that does not work on it.
    fn begin_started(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        started: RunStarted,
        taken: Option<(Vec<Event>, Taken)>,
    ) -> std::result::Result<(), Blocked> {
        draft.receive(run, is_start);
        match taken.and_then(|(events, taken)| Some((events.into_iter().next()?, taken))) {
            Some((event, taken)) => self.began(run, draft, event, taken.asks?),
            None => self.begin_run(run, draft, &EventKind::RunStarted(started)),
        }
    }

    fn rebuilt(&mut self, record: &RunRecord, mut run: HotRun, mut draft: Draft, held: Vec<News>) {
        let uid = record.instance.uid;
        run.tries = self.memory.runs.blocked.remove(&uid).map_or(0, |tries| tries.count);
        let was_held_up = record.instance.error.is_some();
        if was_held_up {
            draft.step.messages.push(MessageWrite::Unpark(uid));
        }
        if was_held_up && draft.step.instance.is_none() {
            draft.step.instance = Some(InstanceWrite::Status {
                uid,
                status: Status::Running,
                outcome: None,
                compensation: None,
                error: None,
                closed_at: None,
            });
        }
        if !draft.step.is_empty() {
            draft.keep_awake(&mut run);
        }
        run.committing = !draft.step.is_empty();
        let closed = run.code.is_closed();
        // What is due already is taken below, and must not wake the run again if that blocks it.
        let now = self.now;
        for at in run.pending_messages.times_after(now) {
            self.memory.due.add_run(at, uid);
        }
        self.memory.runs.insert(run);
        if closed {
            draft.effects.push(Effect::Closed(uid));
        }
        if !draft.step.is_empty() {
            draft.effects.push(Effect::NextTurn(uid));
            self.outbox.push(draft.step, draft.effects);
        }
        self.settle_what_is_shared(uid);
        self.messages_due(uid, now);
        for news in held {
            self.deliver(news.run(record.key()), news);
        }
    }

    /// Runs that could not go on are tried again: this process may know better.
    pub(crate) fn held_up(&mut self, after: Option<Uid>, found: Result<Vec<Uid>>) {
        match found {
            Ok(uids) => {
                let last = uids.last().copied().filter(|_| uids.len() == SCAN);
                uids.into_iter().for_each(|uid| self.load_run(uid));
                if last.is_some() {
                    self.ask_store_later(StoreRequest::HeldUp { after: last });
                }
            }
            Err(_) => {
                self.ask_store_later(StoreRequest::HeldUp { after });
            }
        }
    }

    /// What the process before this one left behind: claims that nobody works on any more, and
    /// runs that could not go on and may have nothing that would wake them.
    pub(crate) fn recover(&mut self) {
        self.read_abandoned();
        self.ask_store(StoreRequest::HeldUp { after: None });
    }
}

/// The children that a run has started and that have not told how they ended.
fn children(run: &HotRun, events: &[Event]) -> BTreeMap<Seq, Uid> {
    let mut children = BTreeMap::new();
    for event in events {
        match &event.kind {
            EventKind::ChildStarted(child) => {
                let key = run.info.key_of(run.key, event.seq);
                children.insert(event.seq, Uid::of_child(key, event.seq, &child.id));
            }
            EventKind::ChildCompleted { child, .. } | EventKind::ChildFailed { child, .. } => {
                children.remove(child);
            }
            _ => {}
        }
    }
    children
}

/// True when somebody ends the run at once.
fn is_terminated(record: &RunRecord, held: &[News]) -> bool {
    let terminates = |news: &News| matches!(news.event, EventKind::TerminateRequested { .. });
    record.messages.iter().any(ends_at_once) || held.iter().any(terminates)
}

fn ends_at_once(row: &MessageRow) -> bool {
    matches!(row.body, StoredMessage::Terminate { .. })
}

fn is_start(row: &MessageRow) -> bool {
    matches!(row.body, StoredMessage::Start)
}

/// True when what a node says about a workflow that it knows is about this one.
fn is_version_of(known: &str, workflow: &str) -> bool {
    known.strip_prefix(workflow).is_some_and(|version| version.starts_with(' '))
}

/// The code of a run of this instance, before its first turn.
pub(crate) fn begin_code_of(
    row: &InstanceRow,
    key: RunKey,
    workflow: &WorkflowDefinition,
    input: &Payload,
) -> std::result::Result<Run, String> {
    let code = begin_code(key, workflow, input)?;
    code.machine().lock().belongs_to(&row.id, &row.workflow);
    Ok(code)
}

/// The code of a run, before its first turn. The error says why its argument cannot be read.
pub(crate) fn begin_code(
    key: RunKey,
    workflow: &WorkflowDefinition,
    input: &Payload,
) -> std::result::Result<Run, String> {
    let mut begun = Ok(());
    let code = Run::new(key, |machine| {
        workflow.begin(machine, input).unwrap_or_else(|error| {
            begun = Err(error);
            Box::pin(std::future::pending())
        })
    });
    begun.map(|()| code)
}
