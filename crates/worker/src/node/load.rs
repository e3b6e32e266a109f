//! What is not in memory: tasks that are due, claims of a process that died. Runs are in
//! `revive.rs`.
//!
//! Reading happens beside the loop and comes back as a message. Trouble with the store means
//! trying again later, never a decision.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

use resurgam_core::{CallKey, Timestamp, Uid};
use resurgam_store::rows::{DueTask, TaskRecord, TaskRow};
use resurgam_store::{Error, Result, Runnable, Step, TaskWrite};

use super::call::HotCall;
use super::effect::Effect;
use super::own::Hearing;
use super::read::Read;
use super::run::{News, Origin};
use super::shards::Shards;
use super::slots::{Slot, Ticket};
use super::story::Story;
use super::{Node, Scan};

/// How many due things are read at once.
pub(crate) const SCAN: usize = 10_000;

/// How many abandoned claims are read at once.
pub(crate) const ABANDONED: usize = 1_000;

/// How many of the tasks that wait are looked at for those whose activities are not there.
pub(crate) const GONE: usize = 1_000;

/// The wait before something that could not be read is read again.
pub(super) const AGAIN: Duration = Duration::from_secs(1);

/// Claims of nodes that are gone, while they are read. That takes a while when there are many, and
/// what happened meanwhile the read does not know of.
#[derive(Debug, Default)]
pub(super) struct Claims {
    heard: Hearing,
    /// How often each shard was gained when the read began.
    tenures: Vec<u64>,
    /// Calls of which more is known than the read can tell.
    changed: BTreeSet<CallKey>,
    /// The claims that were found to be lost, by their tokens, and when: until that is durable a
    /// read finds them again, and each is lost once.
    lost: BTreeMap<(CallKey, u64), Timestamp>,
}

/// How long a claim is remembered that was lost: far longer than a read takes.
const REMEMBERED: Duration = Duration::from_secs(600);

/// A task while it is read, once however many ask for it.
#[derive(Debug, Default)]
pub(super) struct TaskRead {
    /// Held for it until it is here.
    pub(super) slot: Option<Slot>,
    /// More is known of the call than the read can tell.
    outdated: bool,
}

impl Claims {
    /// True when what was read of a call may be out of date.
    fn is_outdated(&self, shards: &Shards, call: CallKey) -> bool {
        let shard = call.run.uid.shard();
        let tenure = self.tenures.get(usize::from(shard.0));
        tenure != Some(&shards.tenure(shard)) || self.changed.contains(&call)
    }

    /// True when a claim was found to be lost before.
    fn has_lost(&self, task: &TaskRow) -> bool {
        task.claim.as_ref().is_some_and(|claim| self.lost.contains_key(&(task.call, claim.token)))
    }

    /// What was not durable when a shard went is for its next holder to find.
    pub(super) fn forget(&mut self, goes: impl Fn(Uid) -> bool) {
        self.lost.retain(|(call, _), _| !goes(call.run.uid));
    }
}

impl Node {
    /// What the process before this one left behind: claims that nobody works on any more, and
    /// runs that could not go on and may have nothing that would wake them.
    pub(super) fn recover(&mut self) {
        self.read_abandoned();
        self.read(Read::HeldUp { after: None });
    }

    /// Runs that could not go on are tried again: this process may know better.
    pub(super) fn held_up(&mut self, after: Option<Uid>, found: Result<Vec<Uid>>) {
        match found {
            Ok(uids) => {
                let last = uids.last().copied().filter(|_| uids.len() == SCAN);
                uids.into_iter().for_each(|uid| self.load_run(uid));
                if last.is_some() {
                    self.read_later(Read::HeldUp { after: last });
                }
            }
            Err(_) => {
                self.read_later(Read::HeldUp { after });
            }
        }
    }

    /// Reads claims of nodes that are gone. One page at a time, each after what follows from the
    /// one before is durable: a claim is lost once.
    pub(super) fn read_abandoned(&mut self) {
        if self.memory.claims.heard.begin(&mut self.outbox.ticks).is_some() {
            self.read(self.abandoned_claims());
            self.memory.claims.tenures = self.memory.shards.tenures();
            self.memory.claims.changed.clear();
        }
    }

    fn abandoned_claims(&self) -> Read {
        Read::Abandoned { node: self.name.clone() }
    }

    /// Attempts that died with their node are recorded, counted apart and tried again.
    pub(super) fn abandoned(&mut self, found: Result<Vec<TaskRecord>>) {
        let tasks = match found {
            Ok(tasks) => tasks,
            Err(_) => {
                return self.read_later(self.abandoned_claims());
            }
        };
        let again = self.memory.claims.heard.end();
        let full = tasks.len() == ABANDONED;
        let (claims, shards) = (&self.memory.claims, &self.memory.shards);
        let is_present = |task: &TaskRecord| !claims.is_outdated(shards, task.task.call);
        let tasks: Vec<TaskRecord> = tasks.into_iter().filter(is_present).collect();
        let kept = self.take_abandoned(tasks);
        // A page of which nothing could be read would only be read again.
        if again || (full && kept) {
            // The ones that were read are no longer claimed once what precedes this is durable.
            self.outbox.after_all(Effect::ReadAbandoned);
        }
    }

    /// Takes tasks whose attempt is lost. False when there was none.
    pub(super) fn take_abandoned(&mut self, tasks: impl IntoIterator<Item = TaskRecord>) -> bool {
        let now = self.now;
        self.memory.claims.lost.retain(|_, at| now.since(*at) < REMEMBERED);
        let mut kept = false;
        for loaded in tasks {
            let task = &loaded.task;
            // What is in memory is known better here.
            if !self.owns(task.call.run.uid) || self.memory.calls.contains_key(&task.call) {
                continue;
            }
            if self.memory.claims.has_lost(task) {
                continue;
            }
            let token = task.claim.as_ref().map(|claim| claim.token);
            match (self.keep_call(loaded), token) {
                (Some(key), Some(token)) => {
                    self.memory.claims.lost.insert((key, token), now);
                    self.attempt_lost(key);
                }
                (Some(key), None) => self.task_waits(key),
                (None, _) => continue,
            }
            kept = true;
        }
        kept
    }

    /// Has a task read whose outcome was lost in this process, as soon as the store answers.
    pub(super) fn read_lost(&mut self, call: CallKey) {
        self.read_of(call.run.uid, Read::LostTask(call));
    }

    /// Keeps a task that was read. `None` when its policy cannot be read: it waits, and the log
    /// says why.
    pub(super) fn keep_call(&mut self, loaded: TaskRecord) -> Option<CallKey> {
        let mut call = self.hot_call(loaded)?;
        let key = call.task.call;
        if let Some(asleep) = self.memory.asleep.get_mut(&key.run.uid) {
            asleep.outdated |= asleep.loading && call.task.claim.is_some();
        }
        if let Some(run) = self.memory.runs.get_mut(&key.run.uid).filter(|run| run.key == key.run) {
            run.elsewhere.remove(&key.seq);
            // It may have been read before the workflow gave it up.
            let machine = run.code.machine().lock();
            call.task.progress.cancelled |= machine.is_settling(key.seq);
            call.task.progress.in_grace |= machine.settles_in_grace(key.seq);
        }
        self.memory.calls.insert(key, call);
        self.call_changes(key);
        Some(key)
    }

    /// Whatever is being read of a call is out of date.
    pub(super) fn call_changes(&mut self, key: CallKey) {
        self.memory.reports.call_changes(key);
        if let Some(read) = self.memory.loading.get_mut(&key) {
            read.outdated = true;
        }
        if self.memory.claims.heard.is_reading() {
            self.memory.claims.changed.insert(key);
        }
    }

    /// A task that was read, as it is in memory.
    pub(super) fn hot_call(&mut self, loaded: TaskRecord) -> Option<HotCall> {
        let TaskRecord { task, input, policy, instance, ledger } = loaded;
        let known = self.policies.known(&task.policy);
        let read = || policy.ok_or_else(|| format!("policy {} is missing", task.policy));
        let policy = match known.map_or_else(|| read().and_then(|row| self.policies.read(&row)), Ok)
        {
            Ok(policy) => policy,
            Err(error) => {
                tracing::error!(%instance, activity = %task.name, "a task waits: {error}");
                return None;
            }
        };
        let mut call = HotCall::new(task, input, instance, policy);
        call.story = Story::of(&ledger, call.task.progress.counters());
        Some(call)
    }

    /// Wakes tasks and runs whose time has come, and reads further ahead when it is time.
    pub(super) fn wake_what_is_due(&mut self) {
        let now = self.now;
        self.memory.due.moves_to(now);
        for (at, call, ticket) in self.memory.due.due_tasks(now) {
            self.task_due(at, call, ticket);
        }
        for uid in self.memory.due.due_runs(now) {
            if self.memory.runs.contains_key(&uid) {
                self.messages_due(uid, now);
            } else {
                self.load_run(uid);
            }
        }
        if self.is_owner() && self.memory.due.begin_scan(now) {
            self.read(Read::DueSoon(self.runnable()));
        }
        self.fill_slots();
        // Last: what has just got a slot does not wait any more.
        self.deadlines_due(now);
    }

    /// True when attempts of a queue run here.
    pub(super) fn serves(&self, queue: &str) -> bool {
        let queues = self.options.queues.as_ref();
        queues.is_none_or(|queues| queues.iter().any(|served| served == queue))
    }

    /// What can be run here.
    pub(super) fn runnable(&self) -> Runnable {
        let activities = Some(self.registry.activity_names());
        let provides = Some(self.options.provides.clone());
        Runnable { activities, queues: self.options.queues.clone(), provides }
    }

    /// What is due first is known. What is near is kept, the rest stays in the store.
    pub(super) fn scanned(&mut self, found: Result<Scan>) {
        let now = self.now;
        let scan = match found {
            Ok(scan) => scan,
            Err(_) => {
                self.memory.outages.begin(now);
                return self.memory.due.scan_failed(now.saturating_add(AGAIN));
            }
        };
        self.store_answers();
        let tasks = scan.tasks.iter().map(|task| task.wake_at);
        let deadlines = scan.deadlines.iter().map(|task| task.deadline_at);
        let messages = scan.messages.iter().map(|message| message.due_at);
        let ahead = self.memory.due.ahead(now);
        // A full page ends in the middle of a moment: that moment is read again.
        let cut = |page: usize, last: Option<Timestamp>| last.filter(|_| page == SCAN);
        let ends = [
            cut(scan.tasks.len(), tasks.clone().next_back()),
            cut(scan.deadlines.len(), deadlines.clone().next_back()),
            cut(scan.messages.len(), messages.clone().next_back()),
        ];
        let end = ends.into_iter().flatten().min();
        let until =
            end.map_or(ahead, |end| end.saturating_add(Duration::from_millis(1)).min(ahead));
        let beyond =
            tasks.chain(deadlines).chain(messages).filter(|at| *at >= until).chain(end).min();
        self.memory.due.scanned(until, beyond, now);
        // Some may be of a shard that has changed hands since.
        let tasks = scan.tasks.into_iter().filter(|task| task.wake_at < until);
        for task in tasks.filter(|task| self.owns(task.call.run.uid)).collect::<Vec<_>>() {
            let claimed =
                self.memory.calls.get(&task.call).is_some_and(|call| call.task.claim.is_some());
            if !claimed && self.registry.activity(&task.name).is_some() {
                let ticket = self.memory.slots.ticket(&task.name, &task.queue, task.priority);
                self.memory.due.add_task(task.wake_at, task.call, ticket);
            }
        }
        for task in scan.deadlines.into_iter().filter(|task| task.deadline_at < until) {
            self.memory.due.add_deadline(task.deadline_at, task.call);
        }
        for message in scan.messages.into_iter().filter(|message| message.due_at < until) {
            match message.is_report {
                true => self.has_reports(message.uid),
                false => self.memory.due.add_run(message.due_at, message.uid),
            }
        }
    }

    /// A task is durable and waits for its time.
    pub(super) fn task_waits(&mut self, key: CallKey) {
        if self.has_waited_too_long(key) {
            return;
        }
        if !self.owns(key.run.uid) {
            return self.forget_call(key);
        }
        let waits = |call: &&HotCall| call.task.claim.is_none();
        let Some(call) = self.memory.calls.get(&key).filter(waits) else { return };
        let (at, ticket) = (call.task.wake_at, self.memory.slots.ticket_of(&call.task));
        if self.leaves(&call.task) {
            // Another node serves its queue, or has what it lacks, some day.
            self.memory.calls.remove(&key);
        } else if self.registry.activity(&call.task.name).is_none() {
            self.waits_for_activity(key);
        } else if let Some(what) = self.lacks(call) {
            self.waits_for_what_it_lacks(key, what);
        } else if at <= self.now {
            self.task_due(at, key, ticket);
        } else if !self.memory.due.add_task(at, key, ticket) {
            self.memory.calls.remove(&key);
        }
    }

    /// A task waits until its activity is there. That is written down, once, for those who look at
    /// it from elsewhere and cannot know.
    fn waits_for_activity(&mut self, key: CallKey) {
        let Some(call) = self.memory.calls.get_mut(&key) else { return };
        if !call.task.progress.unregistered {
            call.task.progress.unregistered = true;
            let tasks = vec![TaskWrite::Update(call.task.clone())];
            let step = Step { tasks, ..Step::default() };
            return self.outbox.push(step, vec![Effect::Waiting(key)]);
        }
        if let Some(call) = self.memory.calls.remove(&key) {
            self.log_no_activity(&call.instance, &call.task.name);
        }
    }

    /// Looks for tasks whose activities have gone since they were scheduled, so that they say why
    /// they wait. Only where activities come and go.
    pub(super) fn look_for_gone(&mut self) {
        if !self.is_owner() || !self.registry.finds_activities() {
            return;
        }
        let all = Runnable { queues: self.options.queues.clone(), ..Runnable::default() };
        self.read(Read::Waiting(all));
    }

    /// Tasks wait, perhaps some whose activities are not there.
    pub(super) fn waiting_read(&mut self, found: Result<Vec<DueTask>>) {
        // Nothing depends on it but what people see.
        for task in found.unwrap_or_default() {
            let key = task.call;
            if self.registry.activity(&task.name).is_some() || !self.owns(key.run.uid) {
                continue;
            }
            if self.memory.calls.contains_key(&key) {
                self.task_waits(key);
            } else {
                self.read_of(key.run.uid, Read::Task(key));
            }
        }
    }

    /// A task's time has come: it waits for a slot, wherever it is.
    fn task_due(&mut self, at: Timestamp, key: CallKey, ticket: Ticket) {
        // A read that was overtaken: the task runs, or waits for another time by now.
        let is_stale =
            |call: &HotCall| call.task.claim.is_some() || call.given_up || call.task.wake_at != at;
        if !self.memory.calls.get(&key).is_some_and(is_stale) {
            self.memory.slots.enqueue(ticket, at, key);
        }
    }

    /// Notes that something could not be read. What people are told of it is in `outage.rs`.
    pub(super) fn tell(&self, what: &'static str, of: &dyn Display, error: &Error) {
        tracing::debug!("{what} of {of}, again later: {error}");
    }

    /// Has a task read that is not in memory, perhaps because there is a slot for it, which is held
    /// meanwhile.
    pub(super) fn read_task(&mut self, key: CallKey, slot: Option<Slot>) {
        if !self.memory.loading.contains_key(&key) {
            // What is not durable yet is not in the answer.
            let outdated = self.is_storing(key.run.uid) || self.is_over(key);
            self.memory.loading.insert(key, TaskRead { slot: None, outdated });
            self.read_of(key.run.uid, Read::Task(key));
        }
        let read = self.memory.loading.entry(key).or_default();
        if let Some(another) = slot.and_then(|slot| read.slot.replace(slot)) {
            self.memory.slots.free(another);
        }
    }

    pub(super) fn task_loaded(&mut self, key: CallKey, loaded: Result<Option<Box<TaskRecord>>>) {
        let TaskRead { slot, outdated } = self.memory.loading.remove(&key).unwrap_or_default();
        match loaded {
            Ok(loaded) => {
                self.store_answers();
                if self.keep_loaded(key, loaded, outdated) {
                    return self.task_waits_with(key, slot);
                }
            }
            Err(error) => {
                self.tell("read the task", &key, &error);
                self.memory.outages.begin(self.now);
                self.memory.loading.insert(key, TaskRead { slot: None, outdated });
                self.read_later_of(key.run.uid, Read::Task(key));
            }
        }
        slot.into_iter().for_each(|slot| self.memory.slots.free(slot));
    }

    /// Keeps a task that was read, unless more is known of it. True when it is in memory.
    fn keep_loaded(
        &mut self,
        key: CallKey,
        loaded: Option<Box<TaskRecord>>,
        outdated: bool,
    ) -> bool {
        if self.memory.calls.contains_key(&key) {
            return true;
        }
        if let Some(asleep) =
            self.memory.asleep.get_mut(&key.run.uid).filter(|asleep| asleep.storing > 0)
        {
            // That may be about the end of this very call: looks again when it is durable.
            asleep.calls.push(key);
            return false;
        }
        if self.is_over(key) {
            return false;
        }
        if outdated {
            self.read_task(key, None);
            return false;
        }
        let waits = |loaded: &TaskRecord| loaded.task.claim.is_none();
        let waiting = loaded.filter(|loaded| waits(loaded));
        waiting.is_some_and(|loaded| self.keep_call(*loaded).is_some())
    }

    fn is_storing(&self, uid: Uid) -> bool {
        self.memory.asleep.get(&uid).is_some_and(|asleep| asleep.storing > 0)
    }

    /// True when a call has ended, or was given up, and that may not be durable yet: what was read
    /// of its task is out of date.
    fn is_over(&self, key: CallKey) -> bool {
        let is_its_end =
            |news: &News| matches!(&news.origin, Origin::Call { call, .. } if *call == key);
        let uid = key.run.uid;
        match (
            self.memory.runs.get(&uid).filter(|run| run.key == key.run),
            self.memory.asleep.get(&uid),
        ) {
            (Some(run), _) => !run.calls.contains(&key.seq) || run.news.iter().any(is_its_end),
            (None, Some(asleep)) => asleep.held.iter().any(is_its_end),
            (None, None) => false,
        }
    }

    /// A task was read, perhaps because there is a slot for it.
    fn task_waits_with(&mut self, key: CallKey, slot: Option<Slot>) {
        let now = self.now;
        let is_due = self.memory.calls.get(&key).is_some_and(|call| {
            call.task.claim.is_none() && call.task.wake_at <= now && self.stopping.is_none()
        });
        match slot {
            Some(slot) if is_due && !self.has_waited_too_long(key) => self.claim_next(key, slot),
            slot => {
                slot.into_iter().for_each(|slot| self.memory.slots.free(slot));
                self.task_waits(key);
            }
        }
    }
}
