//! The store's promises, each asked of the model.

use std::sync::Arc;

use resurgam_core::{CallKey, Event, Failure, RunKey, Timestamp, Uid, UserWork};

use super::{ModelStore, ModelWork};
use crate::model::{Model, Writer};
use crate::rows::{
    ActionRow, AttemptRow, DueDeadline, DueMessage, DueTask, InstanceFilter, InstanceRow, KvRow,
    MessageRow, PolicyOverride, PolicyRow, RunRecord, TaskRecord, TaskRow,
};
use crate::{
    Access, Answer, AskedAnswer, AttemptTransaction, Audit, AuditRange, AuditRow, Bulk, BulkCursor,
    BulkRecord, CallCursor, CallFilter, CallGroup, CallPage, Commit, DeadLetter, DeadLetterFilter,
    Deleted, Deletion, DueSchedules, Error, EventPage, GateCount, GateWaiting, Gates,
    GraphTemplateRow, GraphTemplateWrite, GraphTemplates, Inbox, InboxRow, Inspect, LoginRow,
    LoginWrite, PausedCall, PausedFilter, Pressure, PressureRange, PressureRow, RemoteActivity,
    RemoteWorkers, RemoteWrite, Retain, RunCalls, Runnable, ScheduleRecord, Schedules, Step,
    StepResult, StoredGates, Tables, TokenRow, TokenWrite, Tokens, Transacted, Unresolved, Work,
    WorkerSession, not_offered,
};

impl Commit for ModelStore {
    fn commit(&self, batch: Arc<[Step]>) -> Answer<'_, Vec<StepResult>> {
        self.change(move |model, writer| model.commit_as(writer, &batch))
    }

    /// One lock, one batch at a time.
    fn lanes(&self) -> usize {
        1
    }
}

impl Tables for ModelStore {
    fn transact(&self, attempt: Arc<AttemptTransaction>) -> Answer<'_, Transacted> {
        self.change(move |model, writer| {
            let Some(work) = ModelWork::of(&attempt.work) else {
                return Ok(Transacted::Failed(not_offered()));
            };
            let Writer::Node(fence) = writer else {
                return Err(Error::fenced("this node does not work on it"));
            };
            if !model.is_claimed(attempt.call, attempt.token) {
                return Ok(Transacted::Refused);
            }
            let message = match work.run().and_then(|result| (attempt.message)(result)) {
                Ok(message) => message,
                Err(failure) => return Ok(Transacted::Failed(failure)),
            };
            let ended = model.end_claimed(fence.node(), attempt.call, attempt.token, &message)?;
            Ok(match ended {
                true => Transacted::Done(Box::new(message)),
                false => Transacted::Refused,
            })
        })
    }

    fn on_tables(&self, _: Access, work: UserWork) -> Answer<'_, Result<(), Failure>> {
        Box::pin(async move {
            let Some(work) = ModelWork::of(&work) else { return Ok(Err(not_offered())) };
            Ok(work.run().map(drop))
        })
    }
}

impl Work for ModelStore {
    fn due_tasks(
        &self,
        runnable: Runnable,
        before: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<DueTask>> {
        let shards = self.shards();
        self.read(move |model| model.due_tasks(shards, &runnable, before, limit))
    }

    fn due_deadlines(
        &self,
        after: Option<DueDeadline>,
        before: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<DueDeadline>> {
        let shards = self.shards();
        self.read(move |model| model.due_deadlines(shards, after, before, limit))
    }

    fn due_messages(&self, before: Timestamp, limit: usize) -> Answer<'_, Vec<DueMessage>> {
        let shards = self.shards();
        self.read(move |model| model.due_messages(shards, before, limit))
    }

    fn held_up(&self, after: Option<Uid>, limit: usize) -> Answer<'_, Vec<Uid>> {
        let shards = self.shards();
        self.read(move |model| model.held_up(shards, after, limit))
    }

    fn abandoned(&self, node: &str, limit: usize) -> Answer<'_, Vec<TaskRow>> {
        let (shards, node) = (self.shards(), node.to_string());
        self.read(move |model| model.abandoned(shards, &node, limit))
    }

    fn claim_shared(
        &self,
        node: &str,
        runnable: Runnable,
        now: Timestamp,
        limit: usize,
    ) -> Answer<'_, (Vec<TaskRow>, Option<Timestamp>)> {
        let node = node.to_string();
        self.change(move |model, _| {
            model.claim_shared(&node, &runnable, now, limit, || self.database.next_token())
        })
    }

    fn claim_shared_call(
        &self,
        node: &str,
        call: CallKey,
        now: Timestamp,
    ) -> Answer<'_, Option<TaskRow>> {
        let node = node.to_string();
        self.change(move |model, _| {
            model.claim_shared_call(&node, call, now, || self.database.next_token())
        })
    }

    fn take_over(
        &self,
        node: &str,
        call: CallKey,
        token: u64,
        now: Timestamp,
    ) -> Answer<'_, Option<TaskRow>> {
        let node = node.to_string();
        self.change(move |model, _| {
            model.take_over(&node, call, token, now, || self.database.next_token())
        })
    }

    fn policy_overrides(&self) -> Answer<'_, Vec<PolicyOverride>> {
        self.read(Model::policy_overrides)
    }

    fn waiting_calls(
        &self,
        activity: &str,
        after: Option<CallKey>,
        limit: usize,
    ) -> Answer<'_, Vec<CallKey>> {
        let (shards, activity) = (self.shards(), activity.to_string());
        self.read(move |model| model.waiting_calls(shards, &activity, after, limit))
    }

    fn tasks_of(&self, calls: Arc<[CallKey]>) -> Answer<'_, Vec<TaskRow>> {
        self.read(move |model| model.tasks_of(&calls))
    }

    fn load_task(&self, call: CallKey) -> Answer<'_, Option<TaskRecord>> {
        self.try_read(move |model| model.load_task(call))
    }

    fn load_tasks(&self, calls: Arc<[CallKey]>) -> Answer<'_, Vec<TaskRecord>> {
        self.read(move |model| model.load_tasks(&calls))
    }

    fn load_run(&self, uid: Uid) -> Answer<'_, Option<RunRecord>> {
        self.try_read(move |model| model.load_run(uid))
    }

    fn due_messages_of(&self, uid: Uid, before: Timestamp) -> Answer<'_, Vec<MessageRow>> {
        self.read(move |model| model.due_messages_of(uid, before))
    }
}

impl Schedules for ModelStore {
    fn due_schedules(&self, now: Timestamp, limit: usize) -> Answer<'_, DueSchedules> {
        let shards = self.shards();
        self.read(move |model| model.due_schedules(shards, now, limit))
    }

    fn waiting_schedules(&self, after: &str, limit: usize) -> Answer<'_, Vec<ScheduleRecord>> {
        let (shards, after) = (self.shards(), after.to_string());
        self.read(move |model| model.waiting_schedules(shards, &after, limit))
    }

    fn schedule(&self, id: &str) -> Answer<'_, Option<ScheduleRecord>> {
        let id = id.to_string();
        self.read(move |model| model.schedule(&id))
    }

    fn schedules(&self, after: &str, limit: usize) -> Answer<'_, Vec<ScheduleRecord>> {
        let after = after.to_string();
        self.read(move |model| model.schedules(&after, limit))
    }
}

impl Bulk for ModelStore {
    fn open_bulk(&self, limit: usize) -> Answer<'_, Vec<BulkRecord>> {
        let shards = self.shards();
        self.read(move |model| model.open_bulk(shards, limit))
    }

    fn bulk(&self, id: &str) -> Answer<'_, Option<BulkRecord>> {
        let id = id.to_string();
        self.read(move |model| model.bulk(&id))
    }

    fn bulk_list(&self, after: Option<BulkCursor>, limit: usize) -> Answer<'_, Vec<BulkRecord>> {
        self.read(move |model| model.bulk_list(after.as_ref(), limit))
    }

    fn oldest_bulk(&self) -> Answer<'_, Option<Timestamp>> {
        self.read(Model::oldest_bulk)
    }

    fn matching_calls(
        &self,
        filter: CallFilter,
        after: Option<CallKey>,
        limit: usize,
    ) -> Answer<'_, CallPage> {
        self.read(move |model| model.matching_calls(&filter, after, limit))
    }

    fn run_calls(
        &self,
        runs: Arc<[RunKey]>,
        activity: Option<String>,
    ) -> Answer<'_, Vec<RunCalls>> {
        self.read(move |model| model.run_calls(&runs, activity.as_deref()))
    }

    fn answers(&self, asked: Arc<[(CallKey, String)]>) -> Answer<'_, Vec<AskedAnswer>> {
        self.read(move |model| model.answers(&asked))
    }
}

impl Gates for ModelStore {
    fn gates(&self) -> Answer<'_, StoredGates> {
        self.read(Model::gates)
    }

    fn gate_counts(&self, from: Timestamp) -> Answer<'_, Vec<GateCount>> {
        self.read(move |model| model.gate_counts(from))
    }

    fn waiting_gates(&self, after: &str, limit: usize) -> Answer<'_, Vec<String>> {
        let after = after.to_string();
        self.read(move |model| model.waiting_gates(&after, limit))
    }

    fn count_waiting(
        &self,
        gates: Arc<[String]>,
        before: Timestamp,
        at_most: usize,
    ) -> Answer<'_, Vec<GateWaiting>> {
        self.read(move |model| model.count_waiting(&gates, before, at_most))
    }
}

impl Inbox for ModelStore {
    fn inbox(&self, limit: usize) -> Answer<'_, Vec<InboxRow>> {
        let shards = self.shards();
        self.read(move |model| model.inbox(shards, limit))
    }
}

impl Retain for ModelStore {
    fn delete_closed(&self, wanted: Deletion) -> Answer<'_, Deleted> {
        self.change(move |model, _| Ok(model.delete_closed(&wanted)))
    }
}

impl Tokens for ModelStore {
    fn tokens(&self) -> Answer<'_, Vec<TokenRow>> {
        self.read(Model::tokens)
    }

    fn write_token(&self, write: TokenWrite) -> Answer<'_, bool> {
        self.change(move |model, _| Ok(model.write_token(write)))
    }

    fn login(&self, hash: &str) -> Answer<'_, Option<LoginRow>> {
        let hash = hash.to_string();
        self.read(move |model| model.login(&hash))
    }

    fn write_login(&self, write: LoginWrite) -> Answer<'_, bool> {
        self.change(move |model, _| Ok(model.write_login(write)))
    }
}

impl Pressure for ModelStore {
    fn add_pressure(&self, rows: Arc<[PressureRow]>, forget_before: Timestamp) -> Answer<'_, ()> {
        self.change(move |model, _| {
            model.add_pressure(&rows, forget_before);
            Ok(())
        })
    }

    fn pressure(&self, range: PressureRange) -> Answer<'_, Vec<PressureRow>> {
        self.read(move |model| model.pressure(&range))
    }
}

impl Audit for ModelStore {
    fn add_audit(&self, rows: Arc<[AuditRow]>, forget_before: Timestamp) -> Answer<'_, ()> {
        self.change(move |model, _| {
            model.add_audit(&rows, forget_before);
            Ok(())
        })
    }

    fn audit(&self, range: AuditRange<String>) -> Answer<'_, Vec<AuditRow>> {
        self.read(move |model| model.audit(&range))
    }

    fn newest_actions(&self, range: AuditRange<(Uid, String)>) -> Answer<'_, Vec<ActionRow>> {
        self.read(move |model| model.newest_actions(&range))
    }
}

impl GraphTemplates for ModelStore {
    fn graph_templates(&self, after: &str, limit: usize) -> Answer<'_, Vec<GraphTemplateRow>> {
        let after = after.to_string();
        self.read(move |model| model.graph_templates(&after, limit))
    }

    fn graph_template(&self, name: &str) -> Answer<'_, Option<GraphTemplateRow>> {
        let name = name.to_string();
        self.read(move |model| model.graph_template(&name))
    }

    fn write_graph_template(&self, write: GraphTemplateWrite) -> Answer<'_, bool> {
        self.change(move |model, _| Ok(model.write_graph_template(write)))
    }
}

impl RemoteWorkers for ModelStore {
    fn worker_sessions(&self) -> Answer<'_, Vec<WorkerSession>> {
        self.read(Model::worker_sessions)
    }

    fn remote_activities(&self) -> Answer<'_, Vec<RemoteActivity>> {
        self.read(Model::remote_activities)
    }

    fn write_remote_workers(&self, write: RemoteWrite) -> Answer<'_, ()> {
        self.change(move |model, _| {
            model.write_remote_workers(write);
            Ok(())
        })
    }
}

impl Unresolved for ModelStore {
    fn dead_letter(&self, call: CallKey) -> Answer<'_, Option<DeadLetter>> {
        self.read(move |model| model.dead_letter(call))
    }

    fn dead_letters(&self, filter: DeadLetterFilter) -> Answer<'_, Vec<DeadLetter>> {
        self.read(move |model| model.dead_letters(&filter))
    }

    fn dead_letter_places(&self, filter: DeadLetterFilter) -> Answer<'_, Vec<CallCursor>> {
        self.read(move |model| model.dead_letter_places(&filter))
    }

    fn dead_letter_groups(&self, filter: DeadLetterFilter) -> Answer<'_, Vec<CallGroup>> {
        self.read(move |model| model.dead_letter_groups(&filter))
    }

    fn oldest_dead_letter(&self) -> Answer<'_, Option<Timestamp>> {
        self.read(|model| model.oldest_dead_letter())
    }

    fn paused_calls(&self, filter: PausedFilter) -> Answer<'_, Vec<PausedCall>> {
        self.read(move |model| model.paused_calls(&filter))
    }

    fn paused_count(&self) -> Answer<'_, u64> {
        let shards = self.shards();
        self.read(move |model| model.paused_count(shards))
    }

    fn paused_groups(&self, filter: PausedFilter) -> Answer<'_, Vec<CallGroup>> {
        self.read(move |model| model.paused_groups(&filter))
    }
}

impl Inspect for ModelStore {
    fn policy(&self, hash: &str) -> Answer<'_, Option<PolicyRow>> {
        let hash = hash.to_string();
        self.read(move |model| model.policy(&hash))
    }

    fn find(&self, id: &str) -> Answer<'_, Option<InstanceRow>> {
        let id = id.to_string();
        self.read(move |model| model.find(&id))
    }

    fn find_request(&self, request_id: &str) -> Answer<'_, Option<InstanceRow>> {
        let request = request_id.to_string();
        self.read(move |model| model.find_request(&request))
    }

    fn signalled(&self, id: &str, request_id: &str) -> Answer<'_, bool> {
        let (id, request) = (id.to_string(), request_id.to_string());
        self.read(move |model| model.signalled(&id, &request))
    }

    fn instance(&self, uid: Uid) -> Answer<'_, Option<InstanceRow>> {
        self.read(move |model| model.instance(uid))
    }

    fn closed(&self, uids: Arc<[Uid]>) -> Answer<'_, Vec<InstanceRow>> {
        self.read(move |model| model.closed(&uids))
    }

    fn missing(&self, uids: Arc<[Uid]>) -> Answer<'_, Vec<Uid>> {
        self.read(move |model| model.missing(&uids))
    }

    fn list(&self, filter: InstanceFilter) -> Answer<'_, Vec<InstanceRow>> {
        self.read(move |model| model.list(&filter))
    }

    fn with_prefix(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Answer<'_, Vec<InstanceRow>> {
        let (prefix, after) = (prefix.to_string(), after.map(str::to_string));
        self.read(move |model| model.with_prefix(&prefix, after.as_deref(), limit))
    }

    fn history(&self, run: RunKey) -> Answer<'_, Vec<Event>> {
        self.read(move |model| model.history(run))
    }

    fn event_page(&self, run: RunKey, page: EventPage, limit: usize) -> Answer<'_, Vec<Event>> {
        self.read(move |model| model.event_page(run, page, limit))
    }

    fn attempts(&self, run: RunKey) -> Answer<'_, Vec<AttemptRow>> {
        self.read(move |model| model.attempts(run))
    }

    fn actions(&self, run: RunKey) -> Answer<'_, Vec<ActionRow>> {
        self.read(move |model| model.actions(run))
    }

    fn action(&self, uid: Uid, id: &str) -> Answer<'_, Option<ActionRow>> {
        let id = id.to_string();
        self.read(move |model| model.action(uid, &id))
    }

    fn tasks(&self, run: RunKey) -> Answer<'_, Vec<TaskRow>> {
        self.read(move |model| model.tasks(run))
    }

    fn messages(&self, uid: Uid) -> Answer<'_, Vec<MessageRow>> {
        self.read(move |model| model.messages(uid))
    }

    fn cancel_requested(&self, run: RunKey) -> Answer<'_, bool> {
        self.read(move |model| model.cancel_requested(run))
    }

    fn kv(&self, uid: Uid, key: &str) -> Answer<'_, Option<KvRow>> {
        let key = key.to_string();
        self.read(move |model| model.kv(uid, &key))
    }
}
