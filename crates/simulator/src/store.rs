//! The store of a simulated process: everything that it asks goes over the wire.
//!
//! On a file one process works, and there is one lane: what is written is written, or the process
//! is dead. On a server several do; there the lanes are numbered, so that an answer which was lost
//! can be found out, and nodes show that they are alive. What decides about both is the code that
//! the PostgreSQL store runs (`resurgam_store::fleet`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use resurgam_core::{CallKey, Event, Failure, Payload, RunKey, Shard, Timestamp, Uid, UserWork};
use resurgam_store::model::{ShardSet, Writer};
use resurgam_store::rows::{
    ActionRow, AttemptRow, DueDeadline, DueMessage, DueTask, InstanceFilter, InstanceRow, KvRow,
    MessageRow, Owner, PolicyOverride, PolicyRow, RunRecord, TaskRecord, TaskRow,
};
use resurgam_store::{
    Access, Answer, AskedAnswer, Assignment, AttemptTransaction, Audit, AuditRange, AuditRow, Bulk,
    BulkCursor, BulkRecord, CallCursor, CallFilter, CallGroup, CallPage, Commit, DeadLetter,
    DeadLetterFilter, Deleted, Deletion, DueSchedules, Error, EventPage, GateCount, GateWaiting,
    Gates, GraphTemplateRow, GraphTemplateWrite, GraphTemplates, Inbox, InboxRow, Inspect,
    LoginRow, LoginWrite, Node, Own, Owning, PausedCall, PausedFilter, Pressure, PressureRange,
    PressureRow, RemoteActivity, RemoteWorkers, RemoteWrite, Result, Retain, RunCalls, Runnable,
    ScheduleRecord, Schedules, Step, StepResult, StoredGates, Tables, TokenRow, TokenWrite, Tokens,
    Transacted, Unresolved, Work, WorkerSession, not_offered,
};
use tokio::sync::watch;

use crate::database::Database;
use crate::server::Server;
use crate::wire::{Lost, Wire};

/// The store of a process.
pub(crate) struct SimulatedStore {
    pub(crate) wire: Wire,
    /// As whom it commits.
    writer: Mutex<Writer>,
    /// What the store does where it is a server; a file needs nothing.
    pub(crate) server: Option<Server>,
    pub(crate) assignment: watch::Sender<Assignment>,
    pub(crate) changes: watch::Sender<u64>,
    pub(crate) overtaken: AtomicBool,
}

impl SimulatedStore {
    /// The store of a process on a file, or on a server. One that only asks writes nothing else.
    pub(crate) fn new(wire: Wire, server: Option<Server>, works: bool) -> Self {
        let assignment = Assignment { may_begin: true, ..Assignment::default() };
        SimulatedStore {
            wire,
            writer: Mutex::new(if works { Writer::Anybody } else { Writer::Client }),
            server,
            assignment: watch::Sender::new(assignment),
            changes: watch::Sender::new(0),
            overtaken: AtomicBool::new(false),
        }
    }

    /// Somebody else has committed, or this node should look for another reason.
    pub(crate) fn tell(&self) {
        self.changes.send_modify(|number| *number += 1);
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shards that this store reads what is due in.
    fn shards(&self) -> ShardSet {
        match &*self.writer() {
            Writer::Anybody | Writer::Client => ShardSet::ALL,
            Writer::Node(fence) => fence.shards().collect(),
        }
    }

    /// Reads.
    fn read<'a, T: Send + 'static>(
        &'a self,
        what: &'static str,
        read: impl FnOnce(&Database) -> T + Send + 'static,
    ) -> Answer<'a, T> {
        self.try_read(what, |database| Ok(read(database)))
    }

    /// Reads what may be refused.
    fn try_read<'a, T: Send + 'static>(
        &'a self,
        what: &'static str,
        read: impl FnOnce(&Database) -> Result<T> + Send + 'static,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let found = self.wire.ask(what, false, move |database| read(database)).await;
            found.unwrap_or_else(|Lost| Err(lost(what)))
        })
    }

    /// Changes something; when the answer is lost nobody knows whether it is changed.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        what: &'static str,
        change: impl FnOnce(&mut Database) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let changed = self.wire.ask(what, true, change).await;
        changed.unwrap_or_else(|Lost| Err(lost(what)))
    }
}

/// What is said when there was no answer.
pub(crate) fn lost(what: &str) -> Error {
    Error::transient(format!("{what}: the connection broke"))
}

impl Commit for SimulatedStore {
    fn commit(&self, batch: Arc<[Step]>) -> Answer<'_, Vec<StepResult>> {
        Box::pin(async move {
            let writer = self.writer().clone();
            match &self.server {
                Some(server) => server.commit(self, writer, batch).await,
                None => {
                    let commit =
                        move |database: &mut Database| database.commit(&writer, &batch, |_| true);
                    self.change("commit", commit).await
                }
            }
        })
    }

    fn lanes(&self) -> usize {
        self.server.as_ref().map_or(1, Server::lanes)
    }
}

impl Tables for SimulatedStore {
    fn transact(&self, attempt: Arc<AttemptTransaction>) -> Answer<'_, Transacted> {
        Box::pin(async move {
            let Writer::Node(fence) = self.writer().clone() else {
                return Err(Error::fenced("this node does not work on it"));
            };
            let result = attempt.work.downcast_ref::<Payload>().cloned();
            let message =
                result.ok_or_else(not_offered).and_then(|result| (attempt.message)(result));
            let message = match message {
                Ok(message) => Arc::new(message),
                Err(failure) => return Ok(Transacted::Failed(failure)),
            };
            let (call, node) = ((attempt.call, attempt.token), fence.node().to_string());
            let is_done = match &self.server {
                Some(server) => server.transact(self, node, call, message.clone()).await?,
                None => {
                    let message = message.clone();
                    let ends =
                        move |database: &mut Database| database.transact(&node, call, &message);
                    self.change("transact", ends).await?
                }
            };
            Ok(match is_done {
                true => Transacted::Done(Box::new(MessageRow::clone(&message))),
                false => Transacted::Refused,
            })
        })
    }

    fn on_tables(&self, _: Access, _: UserWork) -> Answer<'_, std::result::Result<(), Failure>> {
        Box::pin(async { Ok(Err(not_offered())) })
    }
}

impl Work for SimulatedStore {
    fn due_tasks(
        &self,
        runnable: Runnable,
        before: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<DueTask>> {
        let shards = self.shards();
        self.read("due tasks", move |it| it.model.due_tasks(shards, &runnable, before, limit))
    }

    fn due_deadlines(
        &self,
        after: Option<DueDeadline>,
        before: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<DueDeadline>> {
        let shards = self.shards();
        self.read("due deadlines", move |it| it.model.due_deadlines(shards, after, before, limit))
    }

    fn due_messages(&self, before: Timestamp, limit: usize) -> Answer<'_, Vec<DueMessage>> {
        let shards = self.shards();
        self.read("due messages", move |it| it.model.due_messages(shards, before, limit))
    }

    fn held_up(&self, after: Option<Uid>, limit: usize) -> Answer<'_, Vec<Uid>> {
        let shards = self.shards();
        self.read("held up", move |it| it.model.held_up(shards, after, limit))
    }

    fn abandoned(&self, node: &str, limit: usize) -> Answer<'_, Vec<TaskRow>> {
        let (shards, node) = (self.shards(), node.to_string());
        self.read("abandoned", move |it| it.model.abandoned(shards, &node, limit))
    }

    fn claim_shared(
        &self,
        node: &str,
        runnable: Runnable,
        now: Timestamp,
        limit: usize,
    ) -> Answer<'_, (Vec<TaskRow>, Option<Timestamp>)> {
        let node = node.to_string();
        Box::pin(async move {
            let Some(server) = &self.server else { return Ok((Vec::new(), None)) };
            let claim = move |database: &mut Database| database.claim(&node, &runnable, now, limit);
            server.claim(self, claim, |(rows, _)| !rows.is_empty()).await
        })
    }

    fn claim_shared_call(
        &self,
        node: &str,
        call: CallKey,
        now: Timestamp,
    ) -> Answer<'_, Option<TaskRow>> {
        let node = node.to_string();
        Box::pin(async move {
            let Some(server) = &self.server else { return Ok(None) };
            let claim = move |database: &mut Database| database.claim_call(&node, call, now);
            server.claim(self, claim, Option::is_some).await
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
        Box::pin(async move {
            let Some(server) = &self.server else { return Ok(None) };
            let claim =
                move |database: &mut Database| database.take_over(&node, (call, token), now);
            server.claim(self, claim, Option::is_some).await
        })
    }

    fn policy_overrides(&self) -> Answer<'_, Vec<PolicyOverride>> {
        self.read("policies of activities", move |it| it.model.policy_overrides())
    }

    fn waiting_calls(
        &self,
        activity: &str,
        after: Option<CallKey>,
        limit: usize,
    ) -> Answer<'_, Vec<CallKey>> {
        let (shards, activity) = (self.shards(), activity.to_string());
        self.read("waiting calls", move |it| {
            it.model.waiting_calls(shards, &activity, after, limit)
        })
    }

    fn tasks_of(&self, calls: Arc<[CallKey]>) -> Answer<'_, Vec<TaskRow>> {
        self.read("tasks of calls", move |it| it.model.tasks_of(&calls))
    }

    fn load_task(&self, call: CallKey) -> Answer<'_, Option<TaskRecord>> {
        self.try_read("load a task", move |it| it.model.load_task(call))
    }

    fn load_tasks(&self, calls: Arc<[CallKey]>) -> Answer<'_, Vec<TaskRecord>> {
        self.read("load tasks", move |it| it.model.load_tasks(&calls))
    }

    fn load_run(&self, uid: Uid) -> Answer<'_, Option<RunRecord>> {
        self.try_read("load a run", move |it| it.model.load_run(uid))
    }

    fn due_messages_of(&self, uid: Uid, before: Timestamp) -> Answer<'_, Vec<MessageRow>> {
        self.read("messages", move |it| it.model.due_messages_of(uid, before))
    }
}

impl Schedules for SimulatedStore {
    fn due_schedules(&self, now: Timestamp, limit: usize) -> Answer<'_, DueSchedules> {
        let shards = self.shards();
        self.read("due schedules", move |it| it.model.due_schedules(shards, now, limit))
    }

    fn waiting_schedules(&self, after: &str, limit: usize) -> Answer<'_, Vec<ScheduleRecord>> {
        let (shards, after) = (self.shards(), after.to_string());
        self.read("waiting schedules", move |it| it.model.waiting_schedules(shards, &after, limit))
    }

    fn schedule(&self, id: &str) -> Answer<'_, Option<ScheduleRecord>> {
        let id = id.to_string();
        self.read("schedule", move |it| it.model.schedule(&id))
    }

    fn schedules(&self, after: &str, limit: usize) -> Answer<'_, Vec<ScheduleRecord>> {
        let after = after.to_string();
        self.read("schedules", move |it| it.model.schedules(&after, limit))
    }
}

impl Bulk for SimulatedStore {
    fn open_bulk(&self, limit: usize) -> Answer<'_, Vec<BulkRecord>> {
        let shards = self.shards();
        self.read("open bulk jobs", move |it| it.model.open_bulk(shards, limit))
    }

    fn bulk(&self, id: &str) -> Answer<'_, Option<BulkRecord>> {
        let id = id.to_string();
        self.read("bulk job", move |it| it.model.bulk(&id))
    }

    fn bulk_list(&self, after: Option<BulkCursor>, limit: usize) -> Answer<'_, Vec<BulkRecord>> {
        self.read("bulk jobs", move |it| it.model.bulk_list(after.as_ref(), limit))
    }

    fn oldest_bulk(&self) -> Answer<'_, Option<Timestamp>> {
        self.read("oldest bulk job", |it| it.model.oldest_bulk())
    }

    fn matching_calls(
        &self,
        filter: CallFilter,
        after: Option<CallKey>,
        limit: usize,
    ) -> Answer<'_, CallPage> {
        self.read("matching calls", move |it| it.model.matching_calls(&filter, after, limit))
    }

    fn run_calls(
        &self,
        runs: Arc<[RunKey]>,
        activity: Option<String>,
    ) -> Answer<'_, Vec<RunCalls>> {
        self.read("calls of runs", move |it| it.model.run_calls(&runs, activity.as_deref()))
    }

    fn answers(&self, asked: Arc<[(CallKey, String)]>) -> Answer<'_, Vec<AskedAnswer>> {
        self.read("answers", move |it| it.model.answers(&asked))
    }
}

impl Gates for SimulatedStore {
    fn gates(&self) -> Answer<'_, StoredGates> {
        self.read("gates", |it| it.model.gates())
    }

    fn gate_counts(&self, from: Timestamp) -> Answer<'_, Vec<GateCount>> {
        self.read("counts of gates", move |it| it.model.gate_counts(from))
    }

    fn waiting_gates(&self, after: &str, limit: usize) -> Answer<'_, Vec<String>> {
        let after = after.to_string();
        self.read("gates with waiting tasks", move |it| it.model.waiting_gates(&after, limit))
    }

    fn count_waiting(
        &self,
        gates: Arc<[String]>,
        before: Timestamp,
        at_most: usize,
    ) -> Answer<'_, Vec<GateWaiting>> {
        self.read("tasks behind gates", move |it| it.model.count_waiting(&gates, before, at_most))
    }
}

impl Inbox for SimulatedStore {
    fn inbox(&self, limit: usize) -> Answer<'_, Vec<InboxRow>> {
        let shards = self.shards();
        self.read("inbox", move |it| it.model.inbox(shards, limit))
    }
}

impl Retain for SimulatedStore {
    fn delete_closed(&self, wanted: Deletion) -> Answer<'_, Deleted> {
        Box::pin(self.change("delete", move |it| it.delete_closed(&wanted)))
    }
}

impl Tokens for SimulatedStore {
    fn tokens(&self) -> Answer<'_, Vec<TokenRow>> {
        self.read("tokens", |it| it.model.tokens())
    }

    fn write_token(&self, write: TokenWrite) -> Answer<'_, bool> {
        Box::pin(self.change("token", move |it| Ok(it.model.write_token(write))))
    }

    fn login(&self, hash: &str) -> Answer<'_, Option<LoginRow>> {
        let hash = hash.to_string();
        self.read("login", move |it| it.model.login(&hash))
    }

    fn write_login(&self, write: LoginWrite) -> Answer<'_, bool> {
        Box::pin(self.change("login", move |it| Ok(it.model.write_login(write))))
    }
}

impl Pressure for SimulatedStore {
    fn add_pressure(&self, rows: Arc<[PressureRow]>, forget_before: Timestamp) -> Answer<'_, ()> {
        Box::pin(self.change("pressure", move |it| {
            it.model.add_pressure(&rows, forget_before);
            Ok(())
        }))
    }

    fn pressure(&self, range: PressureRange) -> Answer<'_, Vec<PressureRow>> {
        self.read("pressure", move |it| it.model.pressure(&range))
    }
}

impl Audit for SimulatedStore {
    fn add_audit(&self, rows: Arc<[AuditRow]>, forget_before: Timestamp) -> Answer<'_, ()> {
        Box::pin(self.change("audit", move |it| {
            it.model.add_audit(&rows, forget_before);
            Ok(())
        }))
    }

    fn audit(&self, range: AuditRange<String>) -> Answer<'_, Vec<AuditRow>> {
        self.read("audit", move |it| it.model.audit(&range))
    }

    fn newest_actions(&self, range: AuditRange<(Uid, String)>) -> Answer<'_, Vec<ActionRow>> {
        self.read("newest actions", move |it| it.model.newest_actions(&range))
    }
}

impl GraphTemplates for SimulatedStore {
    fn graph_templates(&self, after: &str, limit: usize) -> Answer<'_, Vec<GraphTemplateRow>> {
        let after = after.to_string();
        self.read("graphs", move |it| it.model.graph_templates(&after, limit))
    }

    fn graph_template(&self, name: &str) -> Answer<'_, Option<GraphTemplateRow>> {
        let name = name.to_string();
        self.read("graph", move |it| it.model.graph_template(&name))
    }

    fn write_graph_template(&self, write: GraphTemplateWrite) -> Answer<'_, bool> {
        Box::pin(self.change("graph", move |it| Ok(it.model.write_graph_template(write))))
    }
}

impl RemoteWorkers for SimulatedStore {
    fn worker_sessions(&self) -> Answer<'_, Vec<WorkerSession>> {
        self.read("worker sessions", |it| it.model.worker_sessions())
    }

    fn remote_activities(&self) -> Answer<'_, Vec<RemoteActivity>> {
        self.read("remote activities", |it| it.model.remote_activities())
    }

    fn write_remote_workers(&self, write: RemoteWrite) -> Answer<'_, ()> {
        Box::pin(self.change("remote workers", move |it| {
            it.model.write_remote_workers(write);
            Ok(())
        }))
    }
}

impl Unresolved for SimulatedStore {
    fn dead_letter(&self, call: CallKey) -> Answer<'_, Option<DeadLetter>> {
        self.read("dead letter", move |it| it.model.dead_letter(call))
    }

    fn dead_letters(&self, filter: DeadLetterFilter) -> Answer<'_, Vec<DeadLetter>> {
        self.read("dead letters", move |it| it.model.dead_letters(&filter))
    }

    fn dead_letter_places(&self, filter: DeadLetterFilter) -> Answer<'_, Vec<CallCursor>> {
        self.read("dead letter places", move |it| it.model.dead_letter_places(&filter))
    }

    fn dead_letter_groups(&self, filter: DeadLetterFilter) -> Answer<'_, Vec<CallGroup>> {
        self.read("dead letter groups", move |it| it.model.dead_letter_groups(&filter))
    }

    fn oldest_dead_letter(&self) -> Answer<'_, Option<Timestamp>> {
        self.read("oldest dead letter", |it| it.model.oldest_dead_letter())
    }

    fn paused_calls(&self, filter: PausedFilter) -> Answer<'_, Vec<PausedCall>> {
        self.read("paused calls", move |it| it.model.paused_calls(&filter))
    }

    fn paused_count(&self) -> Answer<'_, u64> {
        let shards = self.shards();
        self.read("paused count", move |it| it.model.paused_count(shards))
    }

    fn paused_groups(&self, filter: PausedFilter) -> Answer<'_, Vec<CallGroup>> {
        self.read("paused groups", move |it| it.model.paused_groups(&filter))
    }
}

impl Inspect for SimulatedStore {
    fn policy(&self, hash: &str) -> Answer<'_, Option<PolicyRow>> {
        let hash = hash.to_string();
        self.read("policy", move |it| it.model.policy(&hash))
    }

    fn find(&self, id: &str) -> Answer<'_, Option<InstanceRow>> {
        let id = id.to_string();
        self.read("find", move |it| it.model.find(&id))
    }

    fn find_request(&self, request_id: &str) -> Answer<'_, Option<InstanceRow>> {
        let request = request_id.to_string();
        self.read("find a request", move |it| it.model.find_request(&request))
    }

    fn signalled(&self, id: &str, request_id: &str) -> Answer<'_, bool> {
        let (id, request) = (id.to_string(), request_id.to_string());
        self.read("signalled", move |it| it.model.signalled(&id, &request))
    }

    fn instance(&self, uid: Uid) -> Answer<'_, Option<InstanceRow>> {
        self.read("instance", move |it| it.model.instance(uid))
    }

    fn closed(&self, uids: Arc<[Uid]>) -> Answer<'_, Vec<InstanceRow>> {
        self.read("closed", move |it| it.model.closed(&uids))
    }

    fn missing(&self, uids: Arc<[Uid]>) -> Answer<'_, Vec<Uid>> {
        self.read("missing", move |it| it.model.missing(&uids))
    }

    fn list(&self, filter: InstanceFilter) -> Answer<'_, Vec<InstanceRow>> {
        self.read("list", move |it| it.model.list(&filter))
    }

    fn with_prefix(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Answer<'_, Vec<InstanceRow>> {
        let (prefix, after) = (prefix.to_string(), after.map(str::to_string));
        self.read("instances with a prefix", move |it| {
            it.model.with_prefix(&prefix, after.as_deref(), limit)
        })
    }

    fn history(&self, run: RunKey) -> Answer<'_, Vec<Event>> {
        self.read("history", move |it| it.model.history(run))
    }

    fn event_page(&self, run: RunKey, page: EventPage, limit: usize) -> Answer<'_, Vec<Event>> {
        self.read("event_page", move |it| it.model.event_page(run, page, limit))
    }

    fn attempts(&self, run: RunKey) -> Answer<'_, Vec<AttemptRow>> {
        self.read("attempts", move |it| it.model.attempts(run))
    }

    fn actions(&self, run: RunKey) -> Answer<'_, Vec<ActionRow>> {
        self.read("actions", move |it| it.model.actions(run))
    }

    fn action(&self, uid: Uid, id: &str) -> Answer<'_, Option<ActionRow>> {
        let id = id.to_string();
        self.read("action", move |it| it.model.action(uid, &id))
    }

    fn tasks(&self, run: RunKey) -> Answer<'_, Vec<TaskRow>> {
        self.read("tasks", move |it| it.model.tasks(run))
    }

    fn messages(&self, uid: Uid) -> Answer<'_, Vec<MessageRow>> {
        self.read("messages", move |it| it.model.messages(uid))
    }

    fn cancel_requested(&self, run: RunKey) -> Answer<'_, bool> {
        self.read("cancel requested", move |it| it.model.cancel_requested(run))
    }

    fn kv(&self, uid: Uid, key: &str) -> Answer<'_, Option<KvRow>> {
        let key = key.to_string();
        self.read("kv", move |it| it.model.kv(uid, &key))
    }
}

impl Own for SimulatedStore {
    fn try_own(&self, node: Node) -> Answer<'_, Owning> {
        Box::pin(async move {
            match &self.server {
                Some(server) => server.join(self, node).await,
                None => crate::file::own(self, node).await,
            }
        })
    }

    fn assignment(&self) -> watch::Receiver<Assignment> {
        self.assignment.subscribe()
    }

    fn is_shared(&self) -> bool {
        self.server.is_some()
    }

    /// Asked of the world, which knows the time: see `Host`.
    fn may_begin(&self) -> bool {
        self.assignment.borrow().may_begin
    }

    fn now(&self) -> Option<Timestamp> {
        None
    }

    fn take<'a>(&'a self, node: &'a str, shards: Arc<[Shard]>) -> Answer<'a, Vec<Shard>> {
        Box::pin(async move {
            match &self.server {
                Some(server) => server.take(self, node, &shards).await,
                None => Ok(Vec::new()),
            }
        })
    }

    fn release<'a>(&'a self, node: &'a str, shards: Arc<[Shard]>) -> Answer<'a, ()> {
        Box::pin(async move {
            match &self.server {
                Some(server) => server.release(self, node, &shards).await,
                None => Ok(()),
            }
        })
    }

    fn disown(&self) -> Answer<'_, ()> {
        Box::pin(async {
            *self.writer() = Writer::Client;
            Ok(())
        })
    }

    fn flush(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn is_overtaken(&self) -> bool {
        self.overtaken.load(Ordering::Relaxed)
    }

    fn gone(&self) -> Option<Error> {
        None
    }

    fn owner(&self) -> Answer<'_, Option<Owner>> {
        self.read("owner", |it| it.model.owner().cloned())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
