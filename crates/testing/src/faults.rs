//! A store that stops the engine at a chosen commit, or refuses chosen calls.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use resurgam_core::{CallKey, Event, Failure, RunKey, Shard, Timestamp, Uid, UserWork};
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
    PressureRow, RemoteActivity, RemoteWorkers, RemoteWrite, Retain, RunCalls, Runnable,
    ScheduleRecord, Schedules, Step, StepResult, Store, StoredGates, Tables, TokenRow, TokenWrite,
    Tokens, Transacted, Unresolved, Work, WorkerSession,
};
use resurgam_worker::Clock;
use tokio::sync::{Notify, watch};

use crate::clock::VirtualClock;

/// Where the engine is stopped, as by `kill -9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The k-th commit, from 1, never reaches the store. A transaction of an attempt is one, too.
    BeforeCommit(u64),
    /// The k-th commit reaches the store, and nobody hears of it.
    AfterCommit(u64),
}

/// A call to a store that can be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreCall {
    /// Writing.
    Commit,
    /// Running an attempt on the user's own tables.
    Transact,
    /// Reading what is due: tasks.
    DueTasks,
    /// Reading which calls wait too long.
    DueDeadlines,
    /// Reading what is due: messages.
    DueMessages,
    /// Reading which instances do not go on.
    HeldUp,
    /// Reading the claims of a process that died.
    Abandoned,
    /// Claiming tasks of shards that another node holds.
    ClaimShared,
    /// Reading which policies operators set for activities, and the calls that they are about.
    Policies,
    /// Reading what is known of gates, and what waits behind them.
    Gates,
    /// Reading a task.
    LoadTask,
    /// Reading a run.
    LoadRun,
    /// Reading an instance by its uid.
    Instance,
    /// Reading the messages of an instance.
    Messages,
    /// Reading which instances are closed.
    Closed,
    /// Reading a list of instances.
    List,
    /// Reading a whole history.
    History,
    /// Reading schedules.
    Schedules,
    /// Reading what others have inserted.
    Inbox,
    /// Reading bulk jobs, and what they are about.
    Bulk,
    /// Deleting closed instances.
    Delete,
}

impl StoreCall {
    /// Every call that can be refused.
    pub const ALL: [StoreCall; 21] = [
        StoreCall::Commit,
        StoreCall::Transact,
        StoreCall::DueTasks,
        StoreCall::DueDeadlines,
        StoreCall::DueMessages,
        StoreCall::HeldUp,
        StoreCall::Abandoned,
        StoreCall::ClaimShared,
        StoreCall::Policies,
        StoreCall::Gates,
        StoreCall::LoadTask,
        StoreCall::LoadRun,
        StoreCall::Instance,
        StoreCall::Messages,
        StoreCall::Closed,
        StoreCall::List,
        StoreCall::History,
        StoreCall::Schedules,
        StoreCall::Inbox,
        StoreCall::Bulk,
        StoreCall::Delete,
    ];

    /// What the call does, for the report of a test that hangs.
    fn name(self) -> &'static str {
        match self {
            StoreCall::Commit => "a commit",
            StoreCall::Transact => "a transaction of an attempt",
            StoreCall::DueTasks => "a read of due tasks",
            StoreCall::DueDeadlines => "a read of deadlines",
            StoreCall::DueMessages => "a read of due messages",
            StoreCall::HeldUp => "a read of the instances that do not go on",
            StoreCall::Abandoned => "a read of the claims of a process that died",
            StoreCall::Policies => "a read of policies set for activities",
            StoreCall::Gates => "a read of gates",
            StoreCall::ClaimShared => "a claim of tasks of another node's shards",
            StoreCall::LoadTask => "a read of a task",
            StoreCall::LoadRun => "a read of a run",
            StoreCall::Instance => "a read of an instance",
            StoreCall::Messages => "a read of an instance's messages",
            StoreCall::Closed => "a read of closed instances",
            StoreCall::List => "a read of a list of instances",
            StoreCall::History => "a read of a history",
            StoreCall::Schedules => "a read of schedules",
            StoreCall::Inbox => "a read of the inbox",
            StoreCall::Bulk => "a read of bulk jobs",
            StoreCall::Delete => "a deletion of closed instances",
        }
    }
}

/// A call to the store that is not answered yet.
struct UnderWay {
    faults: Faults,
    number: u64,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.faults.lock().under_way.remove(&self.number);
    }
}

/// What is to go wrong. Cloning gives another handle to the same plan.
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam_testing::{Crash, StoreCall, TestApp};
///
/// #[workflow]
/// async fn nap(ctx: WorkflowContext) -> Result<(), Failure> {
///     ctx.sleep(std::time::Duration::from_secs(60)).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let app = TestApp::builder().workflow(nap).start().await;
/// app.faults().crash(Crash::AfterCommit(1)); // nobody hears that the start was written
/// app.faults().refuse(StoreCall::Commit, 3); // and before that the disk was full
/// app.start("nap-1", nap()).await.result().await.unwrap();
/// assert_eq!(app.faults().refusals_left(StoreCall::Commit), 0);
/// app.faults().unwritable(Some("StatusSet")); // every step with such an event is refused
/// assert_eq!(app.faults().unwritten(), 0); // none has come
///
/// app.faults().crash(Crash::BeforeCommit(1_000));
/// app.faults().no_crash(); // on second thoughts
/// assert!(app.faults().commits() < 1_000);
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Plan>);

#[derive(Debug, Default)]
struct Plan {
    state: Mutex<PlanState>,
    crashed: Notify,
}

#[derive(Debug, Default)]
struct PlanState {
    commits: u64,
    /// The calls that the store has not answered yet, numbered.
    under_way: BTreeMap<u64, &'static str>,
    calls: u64,
    crash: Option<Crash>,
    refusals: HashMap<StoreCall, u32>,
    /// The kind of the events that cannot be written, and how often that was tried.
    unwritable: Option<String>,
    unwritten: u32,
}

impl Faults {
    /// Stops the engine at this commit; it is then begun anew on the same store.
    pub fn crash(&self, crash: Crash) {
        self.lock().crash = Some(crash);
    }

    /// Lets a crash that has not come yet not come at all: from here on nobody waits who would
    /// begin the engine anew.
    pub fn no_crash(&self) {
        self.lock().crash = None;
    }

    /// Refuses the next calls, this many times.
    pub fn refuse(&self, call: StoreCall, times: u32) {
        self.lock().refusals.insert(call, times);
    }

    /// Refuses every step with an event of this kind, as a database does that cannot take a row;
    /// with `None` no more.
    pub fn unwritable(&self, kind: Option<&str>) {
        self.lock().unwritable = kind.map(str::to_string);
    }

    /// How many steps were refused for an event that cannot be written.
    pub fn unwritten(&self) -> u32 {
        self.lock().unwritten
    }

    /// How many of the calls that are to be refused have not come yet.
    pub fn refusals_left(&self, call: StoreCall) -> u32 {
        self.lock().refusals.get(&call).copied().unwrap_or(0)
    }

    /// How many commits were made.
    pub fn commits(&self) -> u64 {
        self.lock().commits
    }

    /// Ready when the engine has come to the point where it is to be stopped.
    pub(crate) async fn crashed(&self) {
        self.0.crashed.notified().await;
    }

    /// The calls that the store has not answered yet.
    pub(crate) fn under_way(&self) -> Vec<&'static str> {
        self.lock().under_way.values().copied().collect()
    }

    /// Notes that a call is under way until it is answered or nobody wants to know any more.
    fn begin(&self, call: StoreCall) -> UnderWay {
        let mut state = self.lock();
        state.calls += 1;
        let number = state.calls;
        state.under_way.insert(number, call.name());
        drop(state);
        UnderWay { faults: self.clone(), number }
    }

    fn lock(&self) -> MutexGuard<'_, PlanState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self, call: StoreCall) -> Option<Error> {
        let mut state = self.lock();
        let left = state.refusals.get_mut(&call).filter(|left| **left > 0)?;
        *left -= 1;
        Some(Error::transient(format!("{call:?}: refused by the test")))
    }

    fn cannot_write(&self, batch: &[Step]) -> Option<Error> {
        let mut state = self.lock();
        let kind = state.unwritable.clone()?;
        let is_it = |step: &Step| step.events.iter().any(|(_, event)| event.kind.name() == kind);
        batch.iter().any(is_it).then(|| {
            // A batch is split until the culprit is alone.
            state.unwritten += u32::from(batch.len() == 1);
            Error::data(format!("write {kind}: refused by the test"))
        })
    }

    /// Counts a commit and says where it is to be cut.
    fn count(&self) -> Option<Crash> {
        let mut state = self.lock();
        state.commits += 1;
        let number = state.commits;
        let here = state.crash.filter(|crash| match crash {
            Crash::BeforeCommit(k) | Crash::AfterCommit(k) => *k == number,
        });
        if here.is_some() {
            state.crash = None;
        }
        here
    }
}

/// A store with faults.
#[derive(Clone)]
pub(crate) struct FaultyStore {
    store: Arc<dyn Store>,
    faults: Faults,
    clock: VirtualClock,
}

impl FaultyStore {
    pub(crate) fn new(store: Arc<dyn Store>, faults: Faults, clock: VirtualClock) -> Self {
        FaultyStore { store, faults, clock }
    }

    /// A read that is never refused. Whoever asks is busy until it is answered: the clock must not
    /// take a test that looks at something for one that waits in vain.
    fn read<'a, T: Send + 'a>(&'a self, answer: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(async move {
            let _busy = self.clock.busy(&"a read of the store");
            answer.await
        })
    }

    fn or_refuse<'a, T: Send + 'a>(
        &'a self,
        call: StoreCall,
        answer: Answer<'a, T>,
    ) -> Answer<'a, T> {
        match self.faults.refused(call) {
            Some(error) => Box::pin(async move { Err(error) }),
            None => self.noted(call, answer),
        }
    }

    fn noted<'a, T: Send + 'a>(&'a self, call: StoreCall, answer: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(async move {
            let _under_way = self.faults.begin(call);
            let _busy = self.clock.busy(&call.name());
            answer.await
        })
    }
}

impl FaultyStore {
    /// A write, or a crash before or after it.
    fn or_crash<'a, T: Send + 'a>(&'a self, write: Answer<'a, T>) -> Answer<'a, T> {
        let crash = self.faults.count();
        Box::pin(async move {
            if !matches!(crash, Some(Crash::BeforeCommit(_))) {
                let written = write.await;
                if crash.is_none() {
                    return written;
                }
            }
            self.faults.0.crashed.notify_one();
            std::future::pending().await
        })
    }
}

impl Commit for FaultyStore {
    fn commit(&self, batch: Arc<[Step]>) -> Answer<'_, Vec<StepResult>> {
        if let Some(error) = self.faults.refused(StoreCall::Commit) {
            return Box::pin(async move { Err(error) });
        }
        if let Some(error) = self.faults.cannot_write(&batch) {
            return Box::pin(async move { Err(error) });
        }
        self.or_crash(self.noted(StoreCall::Commit, self.store.commit(batch)))
    }

    /// One after another, so that the k-th is the same one in every run.
    fn lanes(&self) -> usize {
        1
    }
}

impl Tables for FaultyStore {
    fn transact(&self, attempt: Arc<AttemptTransaction>) -> Answer<'_, Transacted> {
        match self.faults.refused(StoreCall::Transact) {
            Some(error) => Box::pin(async move { Err(error) }),
            None => self.or_crash(self.noted(StoreCall::Transact, self.store.transact(attempt))),
        }
    }

    fn on_tables(&self, access: Access, work: UserWork) -> Answer<'_, Result<(), Failure>> {
        self.store.on_tables(access, work)
    }
}

impl Unresolved for FaultyStore {
    fn dead_letter(&self, call: CallKey) -> Answer<'_, Option<DeadLetter>> {
        self.read(self.store.dead_letter(call))
    }

    fn dead_letters(&self, filter: DeadLetterFilter) -> Answer<'_, Vec<DeadLetter>> {
        self.read(self.store.dead_letters(filter))
    }

    fn dead_letter_places(&self, filter: DeadLetterFilter) -> Answer<'_, Vec<CallCursor>> {
        self.read(self.store.dead_letter_places(filter))
    }

    fn dead_letter_groups(&self, filter: DeadLetterFilter) -> Answer<'_, Vec<CallGroup>> {
        self.read(self.store.dead_letter_groups(filter))
    }

    fn oldest_dead_letter(&self) -> Answer<'_, Option<Timestamp>> {
        self.read(self.store.oldest_dead_letter())
    }

    fn paused_calls(&self, filter: PausedFilter) -> Answer<'_, Vec<PausedCall>> {
        self.read(self.store.paused_calls(filter))
    }

    fn paused_count(&self) -> Answer<'_, u64> {
        self.read(self.store.paused_count())
    }

    fn paused_groups(&self, filter: PausedFilter) -> Answer<'_, Vec<CallGroup>> {
        self.read(self.store.paused_groups(filter))
    }
}

impl Retain for FaultyStore {
    fn delete_closed(&self, wanted: Deletion) -> Answer<'_, Deleted> {
        if let Some(error) = self.faults.refused(StoreCall::Delete) {
            return Box::pin(async move { Err(error) });
        }
        self.or_crash(self.noted(StoreCall::Delete, self.store.delete_closed(wanted)))
    }
}

impl Tokens for FaultyStore {
    fn tokens(&self) -> Answer<'_, Vec<TokenRow>> {
        self.store.tokens()
    }

    fn write_token(&self, write: TokenWrite) -> Answer<'_, bool> {
        self.store.write_token(write)
    }

    fn login(&self, hash: &str) -> Answer<'_, Option<LoginRow>> {
        self.store.login(hash)
    }

    fn write_login(&self, write: LoginWrite) -> Answer<'_, bool> {
        self.store.write_login(write)
    }
}

impl Pressure for FaultyStore {
    fn add_pressure(&self, rows: Arc<[PressureRow]>, forget_before: Timestamp) -> Answer<'_, ()> {
        self.store.add_pressure(rows, forget_before)
    }

    fn pressure(&self, range: PressureRange) -> Answer<'_, Vec<PressureRow>> {
        self.store.pressure(range)
    }
}

impl Audit for FaultyStore {
    fn add_audit(&self, rows: Arc<[AuditRow]>, forget_before: Timestamp) -> Answer<'_, ()> {
        self.store.add_audit(rows, forget_before)
    }

    fn audit(&self, range: AuditRange<String>) -> Answer<'_, Vec<AuditRow>> {
        self.store.audit(range)
    }

    fn newest_actions(&self, range: AuditRange<(Uid, String)>) -> Answer<'_, Vec<ActionRow>> {
        self.store.newest_actions(range)
    }
}

impl GraphTemplates for FaultyStore {
    fn graph_templates(&self, after: &str, limit: usize) -> Answer<'_, Vec<GraphTemplateRow>> {
        self.store.graph_templates(after, limit)
    }

    fn graph_template(&self, name: &str) -> Answer<'_, Option<GraphTemplateRow>> {
        self.store.graph_template(name)
    }

    fn write_graph_template(&self, write: GraphTemplateWrite) -> Answer<'_, bool> {
        self.store.write_graph_template(write)
    }
}

impl RemoteWorkers for FaultyStore {
    fn worker_sessions(&self) -> Answer<'_, Vec<WorkerSession>> {
        self.store.worker_sessions()
    }

    fn remote_activities(&self) -> Answer<'_, Vec<RemoteActivity>> {
        self.store.remote_activities()
    }

    fn write_remote_workers(&self, write: RemoteWrite) -> Answer<'_, ()> {
        self.store.write_remote_workers(write)
    }
}

impl Schedules for FaultyStore {
    fn due_schedules(&self, now: Timestamp, limit: usize) -> Answer<'_, DueSchedules> {
        self.or_refuse(StoreCall::Schedules, self.store.due_schedules(now, limit))
    }

    fn waiting_schedules(&self, after: &str, limit: usize) -> Answer<'_, Vec<ScheduleRecord>> {
        self.or_refuse(StoreCall::Schedules, self.store.waiting_schedules(after, limit))
    }

    fn schedule(&self, id: &str) -> Answer<'_, Option<ScheduleRecord>> {
        self.or_refuse(StoreCall::Schedules, self.store.schedule(id))
    }

    fn schedules(&self, after: &str, limit: usize) -> Answer<'_, Vec<ScheduleRecord>> {
        self.or_refuse(StoreCall::Schedules, self.store.schedules(after, limit))
    }
}

impl Bulk for FaultyStore {
    fn open_bulk(&self, limit: usize) -> Answer<'_, Vec<BulkRecord>> {
        self.or_refuse(StoreCall::Bulk, self.store.open_bulk(limit))
    }

    fn bulk(&self, id: &str) -> Answer<'_, Option<BulkRecord>> {
        self.or_refuse(StoreCall::Bulk, self.store.bulk(id))
    }

    fn bulk_list(&self, after: Option<BulkCursor>, limit: usize) -> Answer<'_, Vec<BulkRecord>> {
        self.or_refuse(StoreCall::Bulk, self.store.bulk_list(after, limit))
    }

    fn oldest_bulk(&self) -> Answer<'_, Option<Timestamp>> {
        self.or_refuse(StoreCall::Bulk, self.store.oldest_bulk())
    }

    fn matching_calls(
        &self,
        filter: CallFilter,
        after: Option<CallKey>,
        limit: usize,
    ) -> Answer<'_, CallPage> {
        self.or_refuse(StoreCall::Bulk, self.store.matching_calls(filter, after, limit))
    }

    fn run_calls(
        &self,
        runs: Arc<[RunKey]>,
        activity: Option<String>,
    ) -> Answer<'_, Vec<RunCalls>> {
        self.or_refuse(StoreCall::Bulk, self.store.run_calls(runs, activity))
    }

    fn answers(&self, asked: Arc<[(CallKey, String)]>) -> Answer<'_, Vec<AskedAnswer>> {
        self.or_refuse(StoreCall::Bulk, self.store.answers(asked))
    }
}

impl Gates for FaultyStore {
    fn gates(&self) -> Answer<'_, StoredGates> {
        self.or_refuse(StoreCall::Gates, self.store.gates())
    }

    fn gate_counts(&self, from: Timestamp) -> Answer<'_, Vec<GateCount>> {
        self.or_refuse(StoreCall::Gates, self.store.gate_counts(from))
    }

    fn waiting_gates(&self, after: &str, limit: usize) -> Answer<'_, Vec<String>> {
        self.or_refuse(StoreCall::Gates, self.store.waiting_gates(after, limit))
    }

    fn count_waiting(
        &self,
        gates: Arc<[String]>,
        before: Timestamp,
        at_most: usize,
    ) -> Answer<'_, Vec<GateWaiting>> {
        self.or_refuse(StoreCall::Gates, self.store.count_waiting(gates, before, at_most))
    }
}

impl Inbox for FaultyStore {
    fn inbox(&self, limit: usize) -> Answer<'_, Vec<InboxRow>> {
        self.or_refuse(StoreCall::Inbox, self.store.inbox(limit))
    }
}

impl Own for FaultyStore {
    fn try_own(&self, node: Node) -> Answer<'_, Owning> {
        self.store.try_own(node)
    }

    fn assignment(&self) -> watch::Receiver<Assignment> {
        self.store.assignment()
    }

    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    fn may_begin(&self) -> bool {
        self.store.may_begin()
    }

    fn now(&self) -> Option<Timestamp> {
        self.store.now()
    }

    fn take<'a>(&'a self, node: &'a str, shards: Arc<[Shard]>) -> Answer<'a, Vec<Shard>> {
        self.store.take(node, shards)
    }

    fn release<'a>(&'a self, node: &'a str, shards: Arc<[Shard]>) -> Answer<'a, ()> {
        self.store.release(node, shards)
    }

    fn disown(&self) -> Answer<'_, ()> {
        self.store.disown()
    }

    fn flush(&self) -> Answer<'_, ()> {
        self.store.flush()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.store.close()
    }

    fn is_overtaken(&self) -> bool {
        self.store.is_overtaken()
    }

    fn gone(&self) -> Option<Error> {
        self.store.gone()
    }

    fn owner(&self) -> Answer<'_, Option<Owner>> {
        self.read(self.store.owner())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.store.changes()
    }
}

impl Work for FaultyStore {
    fn due_tasks(
        &self,
        runnable: Runnable,
        before: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<DueTask>> {
        self.or_refuse(StoreCall::DueTasks, self.store.due_tasks(runnable, before, limit))
    }

    fn due_deadlines(
        &self,
        after: Option<DueDeadline>,
        before: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<DueDeadline>> {
        self.or_refuse(StoreCall::DueDeadlines, self.store.due_deadlines(after, before, limit))
    }

    fn due_messages(&self, before: Timestamp, limit: usize) -> Answer<'_, Vec<DueMessage>> {
        self.or_refuse(StoreCall::DueMessages, self.store.due_messages(before, limit))
    }

    fn held_up(&self, after: Option<Uid>, limit: usize) -> Answer<'_, Vec<Uid>> {
        self.or_refuse(StoreCall::HeldUp, self.store.held_up(after, limit))
    }

    fn abandoned(&self, node: &str, limit: usize) -> Answer<'_, Vec<TaskRow>> {
        self.or_refuse(StoreCall::Abandoned, self.store.abandoned(node, limit))
    }

    fn claim_shared(
        &self,
        node: &str,
        runnable: Runnable,
        now: Timestamp,
        limit: usize,
    ) -> Answer<'_, (Vec<TaskRow>, Option<Timestamp>)> {
        let claiming = self.store.claim_shared(node, runnable, now, limit);
        self.or_refuse(StoreCall::ClaimShared, claiming)
    }

    fn claim_shared_call(
        &self,
        node: &str,
        call: CallKey,
        now: Timestamp,
    ) -> Answer<'_, Option<TaskRow>> {
        let claiming = self.store.claim_shared_call(node, call, now);
        self.or_refuse(StoreCall::ClaimShared, claiming)
    }

    fn take_over(
        &self,
        node: &str,
        call: CallKey,
        token: u64,
        now: Timestamp,
    ) -> Answer<'_, Option<TaskRow>> {
        self.or_refuse(StoreCall::ClaimShared, self.store.take_over(node, call, token, now))
    }

    fn policy_overrides(&self) -> Answer<'_, Vec<PolicyOverride>> {
        self.or_refuse(StoreCall::Policies, self.store.policy_overrides())
    }

    fn waiting_calls(
        &self,
        activity: &str,
        after: Option<CallKey>,
        limit: usize,
    ) -> Answer<'_, Vec<CallKey>> {
        let waiting = self.store.waiting_calls(activity, after, limit);
        self.or_refuse(StoreCall::Policies, waiting)
    }

    fn tasks_of(&self, calls: Arc<[CallKey]>) -> Answer<'_, Vec<TaskRow>> {
        self.or_refuse(StoreCall::LoadTask, self.store.tasks_of(calls))
    }

    fn load_task(&self, call: CallKey) -> Answer<'_, Option<TaskRecord>> {
        self.or_refuse(StoreCall::LoadTask, self.store.load_task(call))
    }

    fn load_tasks(&self, calls: Arc<[CallKey]>) -> Answer<'_, Vec<TaskRecord>> {
        self.or_refuse(StoreCall::LoadTask, self.store.load_tasks(calls))
    }

    fn load_run(&self, uid: Uid) -> Answer<'_, Option<RunRecord>> {
        self.or_refuse(StoreCall::LoadRun, self.store.load_run(uid))
    }

    fn due_messages_of(&self, uid: Uid, before: Timestamp) -> Answer<'_, Vec<MessageRow>> {
        self.or_refuse(StoreCall::DueMessages, self.store.due_messages_of(uid, before))
    }
}

impl Inspect for FaultyStore {
    fn policy(&self, hash: &str) -> Answer<'_, Option<PolicyRow>> {
        self.read(self.store.policy(hash))
    }

    fn find(&self, id: &str) -> Answer<'_, Option<InstanceRow>> {
        self.read(self.store.find(id))
    }

    fn find_request(&self, request_id: &str) -> Answer<'_, Option<InstanceRow>> {
        self.read(self.store.find_request(request_id))
    }

    fn signalled(&self, id: &str, request_id: &str) -> Answer<'_, bool> {
        self.read(self.store.signalled(id, request_id))
    }

    fn instance(&self, uid: Uid) -> Answer<'_, Option<InstanceRow>> {
        self.or_refuse(StoreCall::Instance, self.store.instance(uid))
    }

    fn closed(&self, uids: Arc<[Uid]>) -> Answer<'_, Vec<InstanceRow>> {
        self.or_refuse(StoreCall::Closed, self.store.closed(uids))
    }

    fn missing(&self, uids: Arc<[Uid]>) -> Answer<'_, Vec<Uid>> {
        self.read(self.store.missing(uids))
    }

    fn list(&self, filter: InstanceFilter) -> Answer<'_, Vec<InstanceRow>> {
        self.or_refuse(StoreCall::List, self.store.list(filter))
    }

    fn with_prefix(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Answer<'_, Vec<InstanceRow>> {
        self.or_refuse(StoreCall::List, self.store.with_prefix(prefix, after, limit))
    }

    fn history(&self, run: RunKey) -> Answer<'_, Vec<Event>> {
        self.or_refuse(StoreCall::History, self.store.history(run))
    }

    fn event_page(&self, run: RunKey, page: EventPage, limit: usize) -> Answer<'_, Vec<Event>> {
        self.read(self.store.event_page(run, page, limit))
    }

    fn attempts(&self, run: RunKey) -> Answer<'_, Vec<AttemptRow>> {
        self.read(self.store.attempts(run))
    }

    fn actions(&self, run: RunKey) -> Answer<'_, Vec<ActionRow>> {
        self.read(self.store.actions(run))
    }

    fn action(&self, uid: Uid, id: &str) -> Answer<'_, Option<ActionRow>> {
        self.read(self.store.action(uid, id))
    }

    fn tasks(&self, run: RunKey) -> Answer<'_, Vec<TaskRow>> {
        self.read(self.store.tasks(run))
    }

    fn messages(&self, uid: Uid) -> Answer<'_, Vec<MessageRow>> {
        self.or_refuse(StoreCall::Messages, self.store.messages(uid))
    }

    fn cancel_requested(&self, run: RunKey) -> Answer<'_, bool> {
        self.read(self.store.cancel_requested(run))
    }

    fn kv(&self, uid: Uid, key: &str) -> Answer<'_, Option<KvRow>> {
        self.read(self.store.kv(uid, key))
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;
    use crate::database::Settings;

    #[resurgam_watchdog::test]
    async fn a_read_holds_the_clock_until_it_is_answered() {
        let clock = VirtualClock::new();
        let (store, _kept) = Settings::default().fresh().await;
        let store = FaultyStore::new(store, Faults::default(), clock.clone());
        let mut unanswered = store.read::<()>(Box::pin(std::future::pending()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(unanswered.as_mut().poll(&mut context).is_pending());
        assert!(clock.report().contains("these hold the clock: a read of the store."));
        drop(unanswered);
        assert!(clock.report().contains("nothing is under way"));
    }
}
