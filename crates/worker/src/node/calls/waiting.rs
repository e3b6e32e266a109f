//! Tasks that wait: for their time, for a slot, for their activity, for what they lack. Those that
//! have waited too long end (`deadline.rs`); those whose turn it is are claimed (`claim.rs`).

use std::time::Duration;

use resurgam_core::{CallKey, Timestamp};
use resurgam_store::rows::TaskRow;
use resurgam_store::{Step, TaskWrite};

use super::attempt_result::decide_again;
use super::hot_call::HotCall;
use super::slots::{Slot, Ticket};
use super::task_read::TaskRead;
use crate::node::Node;
use crate::node::steps::effect::Effect;
use crate::node::store_request::StoreRequest;

/// How long a commit may take before the store counts as out of reach meanwhile.
const SLOW: Duration = Duration::from_millis(100);

/// How many calls that wait are kept in memory with their arguments, beside those that run.
const HOT: usize = 5_000;

impl Node {
    /// Looks at the calls whose deadline has come.
    pub(crate) fn deadlines_due(&mut self, now: Timestamp) {
        for call in self.memory.due.due_deadlines(now) {
            self.look_at_call(call);
        }
    }

    /// Ends a call that has waited too long, wherever it is. Otherwise it waits on.
    pub(crate) fn look_at_call(&mut self, key: CallKey) {
        if self.memory.calls.has(key) {
            self.has_waited_too_long(key);
            return;
        }
        self.read_task(key, None);
    }

    /// The store has taken a batch that was on its way since then.
    pub(crate) fn store_took(&mut self, since: Timestamp) {
        let now = self.now;
        if now.since(since) >= SLOW {
            self.memory.outages.add(since, now);
        }
        self.look_at_held();
    }

    /// The store can be read.
    pub(crate) fn store_answers(&mut self) {
        if self.memory.outages.end(self.now) {
            self.look_at_held();
        }
    }

    fn look_at_held(&mut self) {
        for call in self.memory.outages.take_held() {
            self.look_at_call(call);
        }
    }

    /// A task is durable and waits for its time.
    pub(crate) fn task_waits(&mut self, key: CallKey) {
        if self.outbox.is_storing(key) {
            // It waits when that is durable. In the store it is as it was before.
            return;
        }
        if self.has_waited_too_long(key) || self.is_decided_again(key) {
            return;
        }
        let waits = |call: &&HotCall| call.task.claim.is_none();
        // One that was claimed since is handed back when that is durable, should its shard go.
        let Some(call) = self.memory.calls.get(key).filter(waits) else { return };
        if !self.owns(key.run.uid) {
            return self.forget_call(key);
        }
        let (at, ticket) = (call.task.wake_at, self.memory.slots.ticket_of(&call.task));
        let is_paused = !self.memory.slots.gates().lets_kind(&call.task.name, &call.task.queue);
        if call.task.progress.paused.is_some() || is_paused {
            // Whoever resumes it, or its kind, finds it in the store.
            self.leave_to_store(key);
        } else if self.leaves(&call.task) {
            // Another node serves its queue, or has what it lacks, some day.
            self.leave_to_store(key);
        } else if self.registry.activity(&call.task.name).is_none() {
            self.waits_for_activity(key);
        } else if let Some(what) = self.lacks(call) {
            self.waits_for_what_it_lacks(key, what);
        } else if at <= self.now {
            self.task_due(at, key, ticket);
            self.leaves_memory_if_full(key);
        } else if self.memory.due.add_task(at, key, ticket) {
            self.leaves_memory_if_full(key);
        } else {
            self.memory.slots.left_to_store(ticket, at);
            self.leave_to_store(key);
        }
    }

    /// A call that waits is read again when it gets a slot, where so many are in memory that its
    /// arguments would be too much: an operator may retry a hundred thousand at once.
    fn leaves_memory_if_full(&mut self, key: CallKey) {
        if self.memory.calls.len() > self.options.slots.saturating_add(HOT) {
            self.leave_to_store(key);
        }
    }

    /// Decides about a call again that waits, when operators have set another policy for its
    /// activity since. Then it waits, or has ended, when that is durable.
    fn is_decided_again(&mut self, key: CallKey) -> bool {
        let is_one = |call: &HotCall| call.is_to_be_decided_again();
        // A stop decides about nothing that can wait for the next process.
        if self.stopping.is_some() || !self.memory.calls.get(key).is_some_and(is_one) {
            return false;
        }
        let is_left = |call: &HotCall| self.is_shared && self.leaves(&call.task);
        if self.memory.calls.get(key).is_some_and(is_left) {
            // Somebody may be about to claim it.
            self.claim_to_end(key);
            return true;
        }
        let Some(call) = self.memory.calls.get(key) else { return false };
        let before = call.task.wake_at;
        self.stop_waiting(key);
        self.decides_again(key).is_none_or(|task| {
            let is_changed = task.wake_at != before;
            if is_changed {
                let step = Step { tasks: vec![TaskWrite::Update(task)], ..Step::default() };
                self.outbox.push(step, vec![Effect::Waiting(key)]);
            }
            is_changed
        })
    }

    /// Decides about a call that waits by the policy that decides now. Answers with its task,
    /// unless that stops retrying.
    pub(crate) fn decides_again(&mut self, key: CallKey) -> Option<TaskRow> {
        let now = self.now;
        self.call_changes(key);
        let call = self.memory.calls.get_mut(key)?;
        call.is_decided();
        match decide_again(call, now) {
            Some(Err(why)) => {
                let failure = call.failure_log.last_failure().cloned().unwrap_or_default();
                self.stopped_retrying(key, failure, why, None, now);
                None
            }
            Some(Ok(())) | None => Some(call.task.clone()),
        }
    }

    /// A call that was given up goes on after all.
    pub(crate) fn keep_up_call(&mut self, key: CallKey) {
        let Some(call) = self.memory.calls.get_mut(key) else { return };
        call.given_up = false;
        if !call.is_claimed() {
            self.task_waits(key);
        }
    }

    /// A call was given up in a step that is not stored, and never will be. Its attempt goes on if
    /// it still runs. If it has ended meanwhile, nobody wanted to hear of that: what is stored of
    /// the call is read, and counts.
    pub(crate) fn is_not_given_up(&mut self, key: CallKey) {
        match self.memory.calls.get_mut(key).filter(|call| call.begun) {
            Some(call) => call.given_up = false,
            None => {
                self.forget_call(key);
                self.read_lost(key);
            }
        }
    }

    /// A task waits until its activity is there. That is written down, once, for those who look at
    /// it from elsewhere and cannot know.
    fn waits_for_activity(&mut self, key: CallKey) {
        let Some(call) = self.memory.calls.get_mut(key) else { return };
        if !call.task.progress.unregistered {
            call.task.progress.unregistered = true;
            let tasks = vec![TaskWrite::Update(call.task.clone())];
            let step = Step { tasks, ..Step::default() };
            return self.outbox.push(step, vec![Effect::Waiting(key)]);
        }
        if let Some(call) = self.leave_to_store(key) {
            self.log_no_activity(&call.instance, &call.task.name);
        }
    }

    /// A task's time has come: it waits for a slot, wherever it is.
    pub(crate) fn task_due(&mut self, at: Timestamp, key: CallKey, ticket: Ticket) {
        // A read that was overtaken: the task runs, or waits for another time by now.
        let is_stale =
            |call: &HotCall| call.task.claim.is_some() || call.given_up || call.task.wake_at != at;
        if self.memory.calls.get(key).is_some_and(is_stale) {
            return;
        }
        if let Some(left) = self.memory.slots.enqueue(ticket, at, key) {
            // Its gate has enough in line: it is read when its turn comes.
            if !self.outbox.is_storing(left) {
                self.leave_to_store(left);
            }
        }
    }

    /// Has a task read that is not in memory, perhaps because there is a slot for it, which is held
    /// meanwhile.
    pub(crate) fn read_task(&mut self, key: CallKey, slot: Option<Slot>) {
        if !self.memory.calls.loading.contains_key(&key) {
            // What is not durable yet is not in the answer.
            let outdated =
                self.memory.runs.is_storing(key.run.uid) || self.memory.runs.has_ended(key);
            self.memory.calls.loading.insert(key, TaskRead { slot: None, outdated });
            self.ask_store_of(key.run.uid, StoreRequest::Task(key));
        }
        let read = self.memory.calls.loading.entry(key).or_default();
        if let Some(another) = slot.and_then(|slot| read.slot.replace(slot)) {
            self.memory.slots.free(another);
        }
    }

    /// Reads of tasks whose shards go are worth nothing, and hold no slots.
    pub(crate) fn forget_reads(&mut self) {
        let shards = &self.memory.shards;
        let goes = |key: &CallKey, _: &mut TaskRead| !shards.owns(key.run.uid.shard());
        let reads: Vec<TaskRead> =
            self.memory.calls.loading.extract_if(.., goes).map(|(_, read)| read).collect();
        reads
            .into_iter()
            .filter_map(|read| read.slot)
            .for_each(|slot| self.memory.slots.free(slot));
    }

    /// A call waits until a process takes it that has what it lacks. That is written down: it is
    /// how others know that they may.
    fn waits_for_what_it_lacks(&mut self, key: CallKey, what: String) {
        let Some(call) = self.memory.calls.get_mut(key) else { return };
        let activity = self.registry.activity(&call.task.name);
        call.task.progress.remote = activity.is_some_and(|activity| activity.outlives);
        if call.task.progress.lacks.as_ref() == Some(&what) {
            self.leave_to_store(key);
            return;
        }
        call.task.progress.lacks = Some(what.clone());
        let (instance, task) = (call.instance.clone(), call.task.clone());
        self.log_lack(&instance, &task.name, &what);
        if self.leaves(&task) {
            self.memory.runs.call_is_shared(key);
        }
        let tasks = vec![TaskWrite::Update(task)];
        self.outbox.push(Step { tasks, ..Step::default() }, vec![Effect::Waiting(key)]);
    }
}
