//! The store's promises, each sent to the thread that keeps it.

use std::sync::Arc;

use resurgam_core::{CallKey, Event, Failure, RunKey, Shard, Timestamp, Uid, UserWork};
use resurgam_store::rows::{
    ActionRow, AttemptRow, DueDeadline, DueMessage, DueTask, InstanceFilter, InstanceRow, KvRow,
    MessageRow, Owner, PolicyOverride, PolicyRow, RunRecord, TaskRecord, TaskRow,
};
use resurgam_store::{
    Access, Answer, AskedAnswer, Assignment, AttemptTransaction, Bulk, BulkCursor, BulkRecord,
    CallCursor, CallFilter, CallGroup, CallPage, Commit, DeadLetter, DeadLetterFilter, Deleted,
    Deletion, DueSchedules, Error, EventPage, GateCount, GateWaiting, Gates, Inbox, InboxRow,
    Inspect, Node, Own, Owning, PausedCall, PausedFilter, Retain, RunCalls, Runnable,
    ScheduleRecord, Schedules, Step, StepResult, StoredGates, Tables, Transacted, Unresolved, Work,
};
use tokio::sync::watch;

use crate::read;
use crate::store::SqliteStore;

impl Commit for SqliteStore {
    fn commit(&self, batch: Arc<[Step]>) -> Answer<'_, Vec<StepResult>> {
        Box::pin(self.write(batch))
    }

    /// There is one writer.
    fn lanes(&self) -> usize {
        1
    }
}

impl Own for SqliteStore {
    fn try_own(&self, node: Node) -> Answer<'_, Owning> {
        Box::pin(self.own(node.name))
    }

    /// One node has everything, and is not asked to share.
    fn assignment(&self) -> watch::Receiver<Assignment> {
        watch::channel(Assignment::default()).1
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn may_begin(&self) -> bool {
        true
    }

    fn now(&self) -> Option<Timestamp> {
        None
    }

    fn take<'a>(&'a self, _: &'a str, shards: Arc<[Shard]>) -> Answer<'a, Vec<Shard>> {
        Box::pin(async move { Ok(shards.to_vec()) })
    }

    fn release<'a>(&'a self, _: &'a str, _: Arc<[Shard]>) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn disown(&self) -> Answer<'_, ()> {
        Box::pin(self.client_again())
    }

    fn flush(&self) -> Answer<'_, ()> {
        Box::pin(self.empty_log())
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async {
            SqliteStore::close(self).await;
            Ok(())
        })
    }

    fn is_overtaken(&self) -> bool {
        self.overtaken()
    }

    fn gone(&self) -> Option<Error> {
        self.removed()
    }

    fn owner(&self) -> Answer<'_, Option<Owner>> {
        self.working()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changed()
    }
}

impl Tables for SqliteStore {
    fn transact(&self, attempt: Arc<AttemptTransaction>) -> Answer<'_, Transacted> {
        Box::pin(self.run_attempt(attempt))
    }

    fn on_tables(&self, access: Access, work: UserWork) -> Answer<'_, Result<(), Failure>> {
        self.run_on_tables(access, work)
    }
}

impl Work for SqliteStore {
    fn due_tasks(
        &self,
        runnable: Runnable,
        before: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<DueTask>> {
        self.read(
            move || format!("look for tasks due before {before}"),
            move |reading| read::due_tasks(reading, &runnable, before, limit),
        )
    }

    fn due_deadlines(
        &self,
        after: Option<DueDeadline>,
        before: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<DueDeadline>> {
        self.read(
            move || format!("look for tasks that wait in vain before {before}"),
            move |reading| read::due_deadlines(reading, after, before, limit),
        )
    }

    fn due_messages(&self, before: Timestamp, limit: usize) -> Answer<'_, Vec<DueMessage>> {
        self.read(
            move || format!("look for messages due before {before}"),
            move |reading| read::due_messages(reading, before, limit),
        )
    }

    fn held_up(&self, after: Option<Uid>, limit: usize) -> Answer<'_, Vec<Uid>> {
        self.read(
            || "look for instances that do not go on".to_string(),
            move |reading| read::held_up(reading, after, limit),
        )
    }

    fn abandoned(&self, node: &str, limit: usize) -> Answer<'_, Vec<TaskRow>> {
        let node = node.to_string();
        self.read(
            || "look for tasks of other nodes".to_string(),
            move |reading| read::abandoned(reading, &node, limit),
        )
    }

    fn claim_shared(
        &self,
        _: &str,
        _: Runnable,
        _: Timestamp,
        _: usize,
    ) -> Answer<'_, (Vec<TaskRow>, Option<Timestamp>)> {
        Box::pin(async { Ok((Vec::new(), None)) })
    }

    fn claim_shared_call(&self, _: &str, _: CallKey, _: Timestamp) -> Answer<'_, Option<TaskRow>> {
        Box::pin(async { Ok(None) })
    }

    fn take_over(&self, _: &str, _: CallKey, _: u64, _: Timestamp) -> Answer<'_, Option<TaskRow>> {
        Box::pin(async { Ok(None) })
    }

    fn policy_overrides(&self) -> Answer<'_, Vec<PolicyOverride>> {
        self.read(|| "read the policies of activities".to_string(), read::policy_overrides)
    }

    fn waiting_calls(
        &self,
        activity: &str,
        after: Option<CallKey>,
        limit: usize,
    ) -> Answer<'_, Vec<CallKey>> {
        let activity = activity.to_string();
        self.read(
            || "look for calls of an activity".to_string(),
            move |reading| read::waiting_calls(reading, &activity, after, limit),
        )
    }

    fn tasks_of(&self, calls: Arc<[CallKey]>) -> Answer<'_, Vec<TaskRow>> {
        let count = calls.len();
        self.read(
            move || format!("look at the tasks of {count} calls"),
            move |reading| read::tasks_of(reading, &calls),
        )
    }

    fn load_task(&self, call: CallKey) -> Answer<'_, Option<TaskRecord>> {
        self.read(
            move || format!("load the task of call {call}"),
            move |reading| read::load_task(reading, call),
        )
    }

    fn load_tasks(&self, calls: Arc<[CallKey]>) -> Answer<'_, Vec<TaskRecord>> {
        let count = calls.len();
        self.read(
            move || format!("load the tasks of {count} calls"),
            move |reading| read::load_tasks(reading, &calls),
        )
    }

    fn load_run(&self, uid: Uid) -> Answer<'_, Option<RunRecord>> {
        self.read(
            move || format!("load the run of instance {uid}"),
            move |reading| read::load_run(reading, uid),
        )
    }

    fn due_messages_of(&self, uid: Uid, before: Timestamp) -> Answer<'_, Vec<MessageRow>> {
        self.read(
            move || format!("look for messages of {uid} due before {before}"),
            move |reading| read::due_messages_of(reading, uid, before),
        )
    }
}

impl Schedules for SqliteStore {
    fn due_schedules(&self, now: Timestamp, limit: usize) -> Answer<'_, DueSchedules> {
        self.read(
            || "look for schedules that are due".to_string(),
            move |reading| read::due_schedules(reading, now, limit),
        )
    }

    fn waiting_schedules(&self, after: &str, limit: usize) -> Answer<'_, Vec<ScheduleRecord>> {
        let after = after.to_string();
        self.read(
            || "look for schedules that wait".to_string(),
            move |reading| read::waiting_schedules(reading, &after, limit),
        )
    }

    fn schedule(&self, id: &str) -> Answer<'_, Option<ScheduleRecord>> {
        let id = id.to_string();
        self.read(|| "read a schedule".to_string(), move |reading| read::schedule(reading, &id))
    }

    fn schedules(&self, after: &str, limit: usize) -> Answer<'_, Vec<ScheduleRecord>> {
        let after = after.to_string();
        self.read(
            || "list schedules".to_string(),
            move |reading| read::schedules(reading, &after, limit),
        )
    }
}

impl Bulk for SqliteStore {
    fn open_bulk(&self, limit: usize) -> Answer<'_, Vec<BulkRecord>> {
        self.read(
            || "look for bulk jobs".to_string(),
            move |reading| read::open_bulk(reading, limit),
        )
    }

    fn bulk(&self, id: &str) -> Answer<'_, Option<BulkRecord>> {
        let id = id.to_string();
        self.read(|| "read a bulk job".to_string(), move |reading| read::bulk(reading, &id))
    }

    fn bulk_list(&self, after: Option<BulkCursor>, limit: usize) -> Answer<'_, Vec<BulkRecord>> {
        self.read(
            || "list bulk jobs".to_string(),
            move |reading| read::bulk_list(reading, after.as_ref(), limit),
        )
    }

    fn oldest_bulk(&self) -> Answer<'_, Option<Timestamp>> {
        self.read(|| "look for the oldest bulk job".to_string(), read::oldest_bulk)
    }

    fn matching_calls(
        &self,
        filter: CallFilter,
        after: Option<CallKey>,
        limit: usize,
    ) -> Answer<'_, CallPage> {
        self.read(
            || "look for calls that match".to_string(),
            move |reading| read::matching_calls(reading, &filter, after, limit),
        )
    }

    fn run_calls(
        &self,
        runs: Arc<[RunKey]>,
        activity: Option<String>,
    ) -> Answer<'_, Vec<RunCalls>> {
        self.read(
            || "look at the calls of runs".to_string(),
            move |reading| read::run_calls(reading, &runs, activity.as_deref()),
        )
    }

    fn answers(&self, asked: Arc<[(CallKey, String)]>) -> Answer<'_, Vec<AskedAnswer>> {
        self.read(
            || "read what came of actions".to_string(),
            move |reading| read::answers(reading, &asked),
        )
    }
}

impl Gates for SqliteStore {
    fn gates(&self) -> Answer<'_, StoredGates> {
        self.read(|| "read what is stored of gates".to_string(), read::gates)
    }

    fn gate_counts(&self, from: Timestamp) -> Answer<'_, Vec<GateCount>> {
        self.read(
            || "read what was counted at gates".to_string(),
            move |reading| read::gate_counts(reading, from),
        )
    }

    fn waiting_gates(&self, after: &str, limit: usize) -> Answer<'_, Vec<String>> {
        let after = after.to_string();
        self.read(
            || "look for gates that tasks wait behind".to_string(),
            move |reading| read::waiting_gates(reading, &after, limit),
        )
    }

    fn count_waiting(
        &self,
        gates: Arc<[String]>,
        before: Timestamp,
        at_most: usize,
    ) -> Answer<'_, Vec<GateWaiting>> {
        self.read(
            || "count the tasks that wait behind gates".to_string(),
            move |reading| read::count_waiting(reading, &gates, before, at_most),
        )
    }
}

impl Inbox for SqliteStore {
    fn inbox(&self, limit: usize) -> Answer<'_, Vec<InboxRow>> {
        self.read(|| "look into the inbox".to_string(), move |reading| read::inbox(reading, limit))
    }
}

impl Retain for SqliteStore {
    fn delete_closed(&self, wanted: Deletion) -> Answer<'_, Deleted> {
        Box::pin(self.delete(wanted))
    }
}

impl Unresolved for SqliteStore {
    fn dead_letter(&self, call: CallKey) -> Answer<'_, Option<DeadLetter>> {
        self.read(
            move || format!("read the dead letter of {call}"),
            move |reading| read::dead_letter(reading, call),
        )
    }

    fn dead_letters(&self, filter: DeadLetterFilter) -> Answer<'_, Vec<DeadLetter>> {
        self.read(
            || "list dead letters".to_string(),
            move |reading| read::dead_letters(reading, &filter),
        )
    }

    fn dead_letter_places(&self, filter: DeadLetterFilter) -> Answer<'_, Vec<CallCursor>> {
        self.read(
            || "look where dead letters stand".to_string(),
            move |reading| read::dead_letter_places(reading, &filter),
        )
    }

    fn dead_letter_groups(&self, filter: DeadLetterFilter) -> Answer<'_, Vec<CallGroup>> {
        self.read(
            || "group dead letters".to_string(),
            move |reading| read::dead_letter_groups(reading, &filter),
        )
    }

    fn oldest_dead_letter(&self) -> Answer<'_, Option<Timestamp>> {
        self.read(|| "look for the oldest dead letter".to_string(), read::oldest_dead_letter)
    }

    fn paused_calls(&self, filter: PausedFilter) -> Answer<'_, Vec<PausedCall>> {
        self.read(
            || "list paused calls".to_string(),
            move |reading| read::paused_calls(reading, &filter),
        )
    }

    fn paused_count(&self) -> Answer<'_, u64> {
        self.read(|| "count paused calls".to_string(), read::paused_count)
    }

    fn paused_groups(&self, filter: PausedFilter) -> Answer<'_, Vec<CallGroup>> {
        self.read(
            || "group paused calls".to_string(),
            move |reading| read::paused_groups(reading, &filter),
        )
    }
}

impl Inspect for SqliteStore {
    fn policy(&self, hash: &str) -> Answer<'_, Option<PolicyRow>> {
        let hash = hash.to_string();
        self.read(|| "read a policy".to_string(), move |reading| read::policy(reading, &hash))
    }

    fn find(&self, id: &str) -> Answer<'_, Option<InstanceRow>> {
        let id = id.to_string();
        self.read(|| "find an instance".to_string(), move |reading| read::find(reading, &id))
    }

    fn find_request(&self, request_id: &str) -> Answer<'_, Option<InstanceRow>> {
        let request = request_id.to_string();
        self.read(
            || "look for a request".to_string(),
            move |reading| read::find_request(reading, &request),
        )
    }

    fn signalled(&self, id: &str, request_id: &str) -> Answer<'_, bool> {
        let (id, request) = (id.to_string(), request_id.to_string());
        self.read(
            || "look for a signal".to_string(),
            move |reading| read::signalled(reading, &id, &request),
        )
    }

    fn instance(&self, uid: Uid) -> Answer<'_, Option<InstanceRow>> {
        self.read(
            move || format!("read instance {uid}"),
            move |reading| read::instance(reading, uid),
        )
    }

    fn closed(&self, uids: Arc<[Uid]>) -> Answer<'_, Vec<InstanceRow>> {
        self.read(
            || "look for closed instances".to_string(),
            move |reading| read::closed(reading, &uids),
        )
    }

    fn missing(&self, uids: Arc<[Uid]>) -> Answer<'_, Vec<Uid>> {
        self.read(
            || "look for instances that are gone".to_string(),
            move |reading| read::missing(reading, &uids),
        )
    }

    fn list(&self, filter: InstanceFilter) -> Answer<'_, Vec<InstanceRow>> {
        self.read(|| "list instances".to_string(), move |reading| read::list(reading, &filter))
    }

    fn with_prefix(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Answer<'_, Vec<InstanceRow>> {
        let (prefix, after) = (prefix.to_string(), after.map(str::to_string));
        self.read(
            || "list instances by their ids".to_string(),
            move |reading| read::with_prefix(reading, &prefix, after.as_deref(), limit),
        )
    }

    fn history(&self, run: RunKey) -> Answer<'_, Vec<Event>> {
        self.read(
            move || format!("read the history of {}", run.uid),
            move |reading| read::history(reading, run),
        )
    }

    fn event_page(&self, run: RunKey, page: EventPage, limit: usize) -> Answer<'_, Vec<Event>> {
        self.read(
            move || format!("read a page of the history of {}", run.uid),
            move |reading| read::event_page(reading, run, page, limit),
        )
    }

    fn attempts(&self, run: RunKey) -> Answer<'_, Vec<AttemptRow>> {
        self.read(
            move || format!("read the ledger of {}", run.uid),
            move |reading| read::attempts(reading, run),
        )
    }

    fn actions(&self, run: RunKey) -> Answer<'_, Vec<ActionRow>> {
        self.read(
            move || format!("read what operators did to {}", run.uid),
            move |reading| read::actions(reading, run),
        )
    }

    fn action(&self, uid: Uid, id: &str) -> Answer<'_, Option<ActionRow>> {
        let id = id.to_string();
        self.read(
            move || format!("read an action on {uid}"),
            move |reading| read::action(reading, uid, &id),
        )
    }

    fn tasks(&self, run: RunKey) -> Answer<'_, Vec<TaskRow>> {
        self.read(
            move || format!("read the tasks of {}", run.uid),
            move |reading| read::tasks(reading, run),
        )
    }

    fn messages(&self, uid: Uid) -> Answer<'_, Vec<MessageRow>> {
        self.read(
            move || format!("read the messages of {uid}"),
            move |reading| read::messages(reading, uid),
        )
    }

    fn cancel_requested(&self, run: RunKey) -> Answer<'_, bool> {
        self.read(
            move || format!("look whether {} was cancelled", run.uid),
            move |reading| read::cancel_requested(reading, run),
        )
    }

    fn kv(&self, uid: Uid, key: &str) -> Answer<'_, Option<KvRow>> {
        let key = key.to_string();
        self.read(
            move || format!("read data of {uid}"),
            move |reading| read::kv(reading, uid, &key),
        )
    }
}
