//! What a node reads to do its work, in the shards that it holds.

use resurgam_core::{CallKey, Event, EventKind, Payload, RunKey, Timestamp, Uid};

use super::shard_set::ShardSet;
use super::tables::ledger_of;
use super::{Model, Sharing};
use crate::rows::{
    AttemptRow, DueDeadline, DueMessage, DueTask, MessageRow, PolicyOverride, PolicyRow, RunRecord,
    TaskRecord, TaskRow,
};
use crate::{Error, Gaps, Quota, Report, Result, Runnable};

/// How many rows of a call's ledger an attempt is given, from each end.
const LEDGER_ENDS: usize = 10;

impl Model {
    /// Tasks of these shards that wait, are due before this time and can be run here, the earliest
    /// first. See [`Work::due_tasks`](crate::Work::due_tasks).
    pub fn due_tasks(
        &self,
        shards: ShardSet,
        runnable: &Runnable,
        before: Timestamp,
        limit: usize,
    ) -> Vec<DueTask> {
        let waiting = self.tables.tasks.waiting().take_while(|row| row.wake_at < before);
        let here = waiting.filter(|row| shards.has(row.call.run.uid));
        let due = here.filter(|row| is_served(row, runnable) && self.is_provided(row, runnable));
        let mut quota = Quota::of(&runnable.gates);
        let due = due.filter(|row| quota.takes(&row.gate)).map(|row| DueTask {
            call: row.call,
            wake_at: row.wake_at,
            queue: row.queue.clone(),
            priority: row.priority,
            name: row.name.clone(),
            gate: row.gate.clone(),
        });
        due.take(limit).collect()
    }

    /// Whether a task lacks nothing that is missing here. Where several nodes work, one that lacks
    /// something is claimed and not found due.
    fn is_provided(&self, row: &TaskRow, runnable: &Runnable) -> bool {
        match (&runnable.provides, &row.progress.lacks) {
            (None, _) | (_, None) => true,
            (Some(provides), Some(lacks)) => {
                self.sharing == Sharing::OneNode && provides.contains(lacks)
            }
        }
    }

    /// Tasks of these shards that wait and whose deadline is before this time, the earliest first:
    /// those behind the one that is named.
    pub fn due_deadlines(
        &self,
        shards: ShardSet,
        after: Option<DueDeadline>,
        before: Timestamp,
        limit: usize,
    ) -> Vec<DueDeadline> {
        let due = self.tables.tasks.deadlines(after, before);
        let due = due.filter(|(_, call)| shards.has(call.run.uid));
        due.map(|(deadline_at, call)| DueDeadline { call, deadline_at }).take(limit).collect()
    }

    /// Messages for instances of these shards that are due before this time, the earliest first
    /// and among equals in the order of their arrival.
    pub fn due_messages(
        &self,
        shards: ShardSet,
        before: Timestamp,
        limit: usize,
    ) -> Vec<DueMessage> {
        let messages = &self.tables.messages;
        let due = messages.due(before).filter(|((uid, _), _)| shards.has(*uid));
        let due = due.map(|(key, due_at)| {
            let entry = messages.get(key);
            let is_for_holder = entry.is_some_and(|entry| entry.row.body.is_for_holder());
            DueMessage { uid: key.0, due_at, is_for_holder }
        });
        due.take(limit).collect()
    }

    /// Open instances of these shards of which is written down why they do not go on, by uid after
    /// this one.
    pub fn held_up(&self, shards: ShardSet, after: Option<Uid>, limit: usize) -> Vec<Uid> {
        let held_up = self.tables.instances.held_up(after).filter(|uid| shards.has(*uid));
        held_up.take(limit).collect()
    }

    /// Tasks of these shards that are claimed by a node that is not there any more and has not
    /// reported how their attempt ended. Where one node works, that is every other than `node`.
    pub fn abandoned(&self, shards: ShardSet, node: &str, limit: usize) -> Vec<TaskRow> {
        let is_gone = |claimer: &str| {
            claimer != node && (self.sharing == Sharing::OneNode || !self.members.has(claimer))
        };
        let claimed = self.tables.tasks.claimed();
        let left = claimed.filter(|(claimer, row)| {
            is_gone(claimer) && shards.has(row.call.run.uid) && !self.is_reported(row)
        });
        left.map(|(_, row)| row.clone()).take(limit).collect()
    }

    /// Whether the end of the attempt that runs was reported.
    fn is_reported(&self, row: &TaskRow) -> bool {
        let Some(claim) = &row.claim else { return false };
        let CallKey { run, seq } = row.call;
        let id = Report::end_id(run.run, seq, claim.token);
        self.tables.messages.by_id(run.uid, &id).is_some()
    }

    /// Those of these calls that are not finished.
    pub fn tasks_of(&self, calls: &[CallKey]) -> Vec<TaskRow> {
        calls.iter().filter_map(|call| self.tables.tasks.get(*call).cloned()).collect()
    }

    /// A task with everything an attempt needs. An error when its event or its instance is missing.
    pub fn load_task(&self, call: CallKey) -> Result<Option<TaskRecord>> {
        let Some(task) = self.tables.tasks.get(call).cloned() else { return Ok(None) };
        let event = self.tables.events.map().get(&call);
        let input = event.and_then(input_of).ok_or_else(|| {
            Error::data(format!("read the input of call {call}: its event is missing"))
        })?;
        let instance = self.tables.instances.get(call.run.uid).ok_or_else(|| {
            Error::data(format!("load the task of call {call}: there is no such instance"))
        })?;
        Ok(Some(TaskRecord {
            input,
            policy: self.policy(&task.policy),
            instance: instance.row.id.clone(),
            ledger: self.ledger_ends(call),
            task,
        }))
    }

    /// The tasks of many calls with everything an attempt needs; what cannot be read is left out.
    pub fn load_tasks(&self, calls: &[CallKey]) -> Vec<TaskRecord> {
        // An error is about the rows of one call, which is left out.
        calls.iter().filter_map(|call| self.load_task(*call).ok().flatten()).collect()
    }

    fn ledger_ends(&self, call: CallKey) -> Vec<AttemptRow> {
        let rows = || self.tables.attempts.map().range(ledger_of(call..=call));
        let first = rows().take(LEDGER_ENDS);
        let last_of_first = first.clone().last().map(|((_, place), _)| *place);
        let is_later = |place: u64| last_of_first.is_none_or(|last| place > last);
        let mut last: Vec<&AttemptRow> = rows()
            .rev()
            .take(LEDGER_ENDS)
            .filter(|((_, place), _)| is_later(*place))
            .map(|(_, row)| row)
            .collect();
        last.reverse();
        first.map(|(_, row)| row).chain(last).cloned().collect()
    }

    /// The current run of an instance with everything a turn needs. An event that is missing is an
    /// error that names it.
    pub fn load_run(&self, uid: Uid) -> Result<Option<RunRecord>> {
        let Some(instance) = self.instance(uid) else { return Ok(None) };
        let run = RunKey { uid, run: instance.run };
        let what = || format!("read the history of instance {:?}, run {}", instance.id, run.run);
        let mut events = Vec::new();
        for event in self.tables.events.of_run(run) {
            Gaps::Refused.add(&mut events, event.clone(), what)?;
        }
        let (messages, tasks) = (self.messages(uid), self.tasks(run));
        Ok(Some(RunRecord { instance, events, messages, tasks }))
    }

    /// Policies that were set for activities, and those that were removed.
    pub fn policy_overrides(&self) -> Vec<PolicyOverride> {
        self.tables.policy_overrides.map().values().cloned().collect()
    }

    /// Calls of an activity in these shards that wait after an attempt, by their keys after this
    /// one.
    pub fn waiting_calls(
        &self,
        shards: ShardSet,
        activity: &str,
        after: Option<CallKey>,
        limit: usize,
    ) -> Vec<CallKey> {
        let is_one = |row: &&TaskRow| {
            let waits = row.claim.is_none() && row.wake_at != TaskRow::NEVER && row.attempt > 0;
            waits && row.name == activity && shards.has(row.call.run.uid)
        };
        let calls = self.tables.tasks.after(after).filter(is_one).map(|row| row.call);
        calls.take(limit).collect()
    }

    /// The messages of an instance that are due before this time, in order of their arrival.
    pub fn due_messages_of(&self, uid: Uid, before: Timestamp) -> Vec<MessageRow> {
        let messages = self.tables.messages.of(uid).map(|(_, entry)| &entry.row);
        messages.filter(|row| row.due_at < before).cloned().collect()
    }

    /// An interned policy.
    pub fn policy(&self, hash: &str) -> Option<PolicyRow> {
        let text = self.tables.policies.map().get(hash)?;
        Some(PolicyRow { hash: hash.to_string(), text: text.clone() })
    }
}

/// Whether the activity of a task is known here, and its queue served, and neither is paused.
pub(super) fn is_served(row: &TaskRow, runnable: &Runnable) -> bool {
    let is_known = runnable.activities.as_ref().is_none_or(|names| names.contains(&row.name));
    is_known
        && runnable.queues.as_ref().is_none_or(|queues| queues.contains(&row.queue))
        && !runnable.paused.has(&row.name, &row.queue)
}

/// The arguments of the call that an event schedules.
fn input_of(event: &Event) -> Option<Payload> {
    match &event.kind {
        EventKind::ActivityScheduled(call) => Some(call.input.clone()),
        other => other.to_stored().body,
    }
}
