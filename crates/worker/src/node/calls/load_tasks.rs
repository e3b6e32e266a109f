//! What is not in memory: tasks that are due, claims of a process that died. Runs are in
//! `load_run.rs`.
//!
//! Reading happens beside the loop and comes back as a message. Trouble with the store means
//! trying again later, never a decision.

use std::time::Duration;

use resurgam_core::{CallKey, Timestamp};
use resurgam_store::rows::{DueTask, TaskRecord, TaskRow};
use resurgam_store::{Result, Runnable, Step, TaskWrite};

use super::abandoned_claims::REMEMBERED;
use super::due::Scanned;
use super::hot_call::HotCall;
use super::slots::Slot;
use super::task_read::TaskRead;
use crate::node::Node;
use crate::node::follow_up::FollowUp;
use crate::node::input::Scan;
use crate::node::news::{News, Origin, cancelled_call};
use crate::node::steps::effect::Effect;
use crate::node::store_request::{AGAIN, StoreRequest};

/// How many due things are read at once.
pub(crate) const SCAN: usize = 10_000;

/// How many abandoned claims are read at once.
pub(crate) const ABANDONED: usize = 1_000;

/// How many of the tasks that wait are looked at for those whose activities are not there.
pub(crate) const GONE: usize = 1_000;

/// How far ahead the store was read, where everything before this time is near. A full page ends in
/// the middle of a moment: that moment is read again.
fn read_until(scan: &Scan, near: Timestamp, now: Timestamp) -> Scanned {
    let tasks = scan.tasks.iter().map(|task| task.wake_at);
    let deadlines = scan.deadlines.iter().map(|task| task.deadline_at);
    let messages = scan.messages.iter().map(|message| message.due_at);
    let cut = |page: usize, last: Option<Timestamp>| last.filter(|_| page == SCAN);
    let whole = |end: Option<Timestamp>| {
        end.map_or(near, |end| end.saturating_add(Duration::from_millis(1)).min(near))
    };
    let of_tasks = cut(scan.tasks.len(), tasks.clone().next_back());
    let of_messages = cut(scan.messages.len(), messages.clone().next_back());
    let end = [of_tasks, of_messages].into_iter().flatten().min();
    let deadlines_end = cut(scan.deadlines.len(), deadlines.clone().next_back());
    let (until, deadlines_until) = (whole(end), whole(deadlines_end));
    let beyond = tasks.chain(messages).filter(|at| *at >= until);
    let late = deadlines.filter(|at| *at >= deadlines_until);
    let beyond = beyond.chain(late).chain(end).chain(deadlines_end).min();
    let passed = scan.deadlines.iter().rev().find(|task| task.deadline_at <= now).copied();
    Scanned { until, deadlines_until, passed, beyond }
}

impl Node {
    /// Reads claims of nodes that are gone. One page at a time, each after what follows from the
    /// one before is durable: a claim is lost once.
    pub(crate) fn read_abandoned(&mut self) {
        if self.memory.claims.heard.begin(&mut self.ticks).is_some() {
            self.ask_store(self.abandoned_claims());
            self.memory.claims.tenures = self.memory.shards.tenures();
            self.memory.claims.changed.clear();
        }
    }

    fn abandoned_claims(&self) -> StoreRequest {
        StoreRequest::Abandoned { node: self.name.clone() }
    }

    /// Claims of nodes that are gone were found: what follows needs their tasks.
    pub(crate) fn abandoned_found(&mut self, found: Result<Vec<TaskRow>>) {
        match found {
            Ok(rows) if rows.is_empty() => self.abandoned(Ok(Vec::new()), false),
            Ok(rows) => {
                let has_more = rows.len() == ABANDONED;
                let claims = rows.into_iter().map(|row| (row.call, row.claim)).collect();
                self.ask_store(StoreRequest::AbandonedTasks { claims, has_more });
            }
            Err(_) => self.ask_store_later(self.abandoned_claims()),
        }
    }

    /// Attempts that died with their node are recorded, counted apart and tried again. Those that
    /// outlive it are waited for here.
    pub(crate) fn abandoned(&mut self, found: Result<Vec<TaskRecord>>, has_more: bool) {
        let tasks = match found {
            Ok(tasks) => tasks,
            Err(_) => {
                return self.ask_store_later(self.abandoned_claims());
            }
        };
        let (mut again, found) = (self.memory.claims.heard.end(), tasks.len());
        let (claims, shards) = (&self.memory.claims, &self.memory.shards);
        let tenure = |call: CallKey| shards.tenure(call.run.uid.shard());
        let is_present =
            |task: &TaskRecord| !claims.is_outdated(task.task.call, tenure(task.task.call));
        let tasks: Vec<TaskRecord> = tasks.into_iter().filter(is_present).collect();
        // What has changed meanwhile may be claimed by the same node as before.
        again |= tasks.len() < found;
        let kept = self.take_abandoned(tasks);
        // A page of which nothing could be read would only be read again.
        if again || (has_more && kept) {
            // The ones that were read are no longer claimed once what precedes this is durable.
            self.outbox.after_all(Effect::ReadAbandoned);
        }
    }

    /// Takes tasks whose attempt is lost, or goes on without its node. False when there was none.
    pub(crate) fn take_abandoned(&mut self, tasks: impl IntoIterator<Item = TaskRecord>) -> bool {
        let now = self.now;
        self.memory.claims.lost.retain(|_, at| now.since(*at) < REMEMBERED);
        let mut kept = false;
        for loaded in tasks {
            let task = &loaded.task;
            // What is in memory is known better here.
            if !self.owns(task.call.run.uid) || self.memory.calls.has(task.call) {
                continue;
            }
            if self.memory.claims.has_lost(task) {
                continue;
            }
            let token = task.claim.as_ref().map(|claim| claim.token);
            let (is_unrun, goes_on) = (task.progress.to_end, self.outlives_its_node(task));
            if goes_on && self.stopping.is_some() {
                // It is for the next process.
                continue;
            }
            match (self.keep_call(loaded), token) {
                (Some(key), Some(token)) => {
                    self.memory.claims.lost.insert((key, token), now);
                    match () {
                        () if is_unrun => self.end_unrun(key),
                        () if goes_on => self.take_claim_over(key),
                        () => self.attempt_lost(key),
                    }
                }
                (Some(key), None) => self.task_waits(key),
                (None, _) => continue,
            }
            kept = true;
        }
        kept
    }

    /// A task was read because the outcome of an attempt was lost in this process.
    pub(crate) fn lost_task_read(&mut self, call: CallKey, found: Option<Box<TaskRecord>>) {
        match self.memory.claims.lost_reads.remove(&call) {
            // A later read knows more.
            None => {}
            // Another node has told how it ended, and that is on its way to the store. If it is
            // refused, the report is read again.
            Some(_) if self.memory.reports.is_being_recorded(call) => {}
            Some(true) => self.read_lost(call),
            Some(false) => drop(self.take_abandoned(found.into_iter().map(|task| *task))),
        }
    }

    /// A call that has waited too long was claimed to end it, unless another node was faster.
    pub(crate) fn claimed_to_end(&mut self, call: CallKey, is_ours: bool) {
        match is_ours {
            // It may have changed before it was claimed: it ends as it is now.
            true => self.read_lost(call),
            // Somebody runs it, or it is over; or it could not be claimed just now.
            false if self.owns(call.run.uid) => {
                self.memory.due.look_again(self.now.saturating_add(AGAIN), call);
            }
            false => {}
        }
    }

    /// A call is claimed so that nobody runs it while it ends. It ends, unless it has changed
    /// before that, or was given up by a process that died: then it waits as before.
    fn end_unrun(&mut self, key: CallKey) {
        if self.memory.runs.has_ended(key) {
            return self.forget_call(key);
        }
        self.take_claim_back(key);
        let run = self.memory.runs.current(key.run);
        if run.is_some_and(|run| run.is_settling(key.seq)) {
            let attempt = self.take_call(key).map_or(0, |call| call.task.attempt);
            let News { event, .. } = cancelled_call(key.seq, attempt);
            let origin = Origin::ended(key, None, None);
            return self.then(FollowUp::Deliver(key.run, News { event, origin, reply: None }));
        }
        if self.ends_if_too_long(key) {
            return;
        }
        let is_one = |call: &HotCall| call.is_to_be_decided_again();
        if self.memory.calls.get(key).is_some_and(is_one) && self.decides_again(key).is_none() {
            return;
        }
        let Some(call) = self.memory.calls.get(key) else { return };
        let tasks = vec![TaskWrite::Update(call.task.clone())];
        // Its run may have given it up: the run settles it when it is loaded.
        let uid = key.run.uid;
        // Somebody may act on it, who waited until the claim was gone.
        let effects = vec![Effect::Waiting(key), Effect::Wake(uid), Effect::Reported(uid)];
        self.outbox.push(Step { tasks, ..Step::default() }, effects);
    }

    /// What is due first is known. What is near is kept, the rest stays in the store.
    pub(crate) fn scanned(&mut self, found: Result<Scan>) {
        let now = self.now;
        let scan = match found {
            Ok(scan) => scan,
            Err(_) => {
                self.memory.outages.begin(now);
                return self.memory.due.scan_failed(now.saturating_add(AGAIN));
            }
        };
        self.store_answers();
        let found = read_until(&scan, self.memory.due.ahead(now), now);
        self.memory.due.scanned(found, now);
        let Scanned { until, deadlines_until, .. } = found;
        // Some may be of a shard that has changed hands since.
        let tasks = scan.tasks.into_iter().filter(|task| task.wake_at < until);
        for task in tasks.filter(|task| self.owns(task.call.run.uid)).collect::<Vec<_>>() {
            let claimed =
                self.memory.calls.get(task.call).is_some_and(|call| call.task.claim.is_some());
            if !claimed && self.registry.activity(&task.name).is_some() {
                let ticket =
                    self.memory.slots.ticket(&task.name, &task.queue, &task.gate, task.priority);
                self.memory.due.add_task(task.wake_at, task.call, ticket);
            }
        }
        for task in scan.deadlines.into_iter().filter(|task| task.deadline_at < deadlines_until) {
            // Of one that its gate holds back nothing is new until the gate flows.
            if !self.memory.slots.gates().has_held(task.call) {
                self.memory.due.add_deadline(task.deadline_at, task.call);
            }
        }
        for message in scan.messages.into_iter().filter(|message| message.due_at < until) {
            match message.is_for_holder {
                true => self.then(FollowUp::HasReports(message.uid)),
                false => self.memory.due.add_run(message.due_at, message.uid),
            }
        }
    }

    /// Looks for tasks whose activities have gone since they were scheduled, so that they say why
    /// they wait. Only where activities come and go.
    pub(crate) fn look_for_gone(&mut self) {
        if !self.is_owner() || !self.registry.finds_activities() {
            return;
        }
        let all = Runnable { queues: self.options.queues.clone(), ..Runnable::default() };
        self.ask_store(StoreRequest::WaitingTasks(all));
    }

    /// Tasks wait, perhaps some whose activities are not there.
    pub(crate) fn waiting_tasks_read(&mut self, found: Result<Vec<DueTask>>) {
        // Nothing depends on it but what people see.
        for task in found.unwrap_or_default() {
            let key = task.call;
            if self.registry.activity(&task.name).is_some() || !self.owns(key.run.uid) {
                continue;
            }
            if self.memory.calls.has(key) {
                self.task_waits(key);
            } else {
                self.ask_store_of(key.run.uid, StoreRequest::Task(key));
            }
        }
    }

    pub(crate) fn task_loaded(&mut self, key: CallKey, loaded: Result<Option<Box<TaskRecord>>>) {
        let TaskRead { slot, outdated } =
            self.memory.calls.loading.remove(&key).unwrap_or_default();
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
                self.memory.calls.loading.insert(key, TaskRead { slot: None, outdated });
                self.ask_store_later_of(key.run.uid, StoreRequest::Task(key));
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
        if self.memory.calls.has(key) {
            return true;
        }
        if self.memory.runs.look_when_stored(key) {
            // That may be about the end of this very call.
            return false;
        }
        if self.memory.runs.has_ended(key) {
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

    /// A task was read, perhaps because there is a slot for it.
    fn task_waits_with(&mut self, key: CallKey, slot: Option<Slot>) {
        let now = self.now;
        let is_due = self.memory.calls.get(key).is_some_and(|call| {
            call.task.claim.is_none() && call.task.wake_at <= now && self.stopping.is_none()
        });
        match slot {
            Some(slot) if is_due => match self.has_waited_too_long(key) {
                // The step that says so is not durable yet: until then the call stays in memory,
                // or it would be read as it was before, and its attempt recorded twice.
                true => self.memory.slots.free(slot),
                false => self.claim_next(key, slot),
            },
            slot => {
                slot.into_iter().for_each(|slot| self.memory.slots.free(slot));
                self.task_waits(key);
            }
        }
    }
}
