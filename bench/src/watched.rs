//! A store with somebody who watches: how often it is asked, and what it is given to write.

use std::sync::atomic::{AtomicU64, Ordering};
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
use tokio::sync::watch;

/// A store that is watched.
pub(crate) struct Watched {
    store: Arc<dyn Store>,
    calls: AtomicU64,
    seen: Mutex<Seen>,
}

/// A batch that was written.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) steps: Arc<[Step]>,
    /// The batches before it that were not yet written when it was sent, by their places.
    pub(crate) beside: Vec<usize>,
}

#[derive(Default)]
struct Seen {
    batches: Vec<Batch>,
    under_way: Vec<usize>,
}

impl Watched {
    pub(crate) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Watched { store, calls: AtomicU64::new(0), seen: Mutex::default() })
    }

    /// How often the store was asked for something that touches tables.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Everything that was written so far, in the order in which it was sent.
    pub(crate) fn batches(&self) -> Vec<Batch> {
        self.seen().batches.clone()
    }

    fn asked(&self) -> &dyn Store {
        self.calls.fetch_add(1, Ordering::Relaxed);
        &*self.store
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sent(&self, steps: &Arc<[Step]>) -> usize {
        let mut seen = self.seen();
        let (place, beside) = (seen.batches.len(), seen.under_way.clone());
        seen.batches.push(Batch { steps: steps.clone(), beside });
        seen.under_way.push(place);
        place
    }

    fn written(&self, batch: usize) {
        self.seen().under_way.retain(|place| *place != batch);
    }
}

impl Commit for Watched {
    fn commit(&self, batch: Arc<[Step]>) -> Answer<'_, Vec<StepResult>> {
        let place = self.sent(&batch);
        let written = self.asked().commit(batch);
        Box::pin(async move {
            let results = written.await;
            self.written(place);
            results
        })
    }

    fn lanes(&self) -> usize {
        self.store.lanes()
    }
}

/// Asks the store itself, and counts.
macro_rules! passed_on {
    ($($name:ident($($value:ident: $kind:ty),*) -> $answer:ty;)*) => {
        $(fn $name(&self, $($value: $kind),*) -> Answer<'_, $answer> {
            self.asked().$name($($value),*)
        })*
    };
}

impl Own for Watched {
    passed_on! {
        try_own(node: Node) -> Owning;
        disown() -> ();
        flush() -> ();
        owner() -> Option<Owner>;
    }

    fn take<'a>(&'a self, node: &'a str, shards: Arc<[Shard]>) -> Answer<'a, Vec<Shard>> {
        self.asked().take(node, shards)
    }

    fn release<'a>(&'a self, node: &'a str, shards: Arc<[Shard]>) -> Answer<'a, ()> {
        self.asked().release(node, shards)
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

    fn close(&self) -> Answer<'_, ()> {
        self.store.close()
    }

    fn is_overtaken(&self) -> bool {
        self.store.is_overtaken()
    }

    fn gone(&self) -> Option<Error> {
        self.store.gone()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.store.changes()
    }
}

impl Work for Watched {
    passed_on! {
        due_tasks(runnable: Runnable, before: Timestamp, limit: usize) -> Vec<DueTask>;
        due_deadlines(after: Option<DueDeadline>, before: Timestamp, limit: usize) -> Vec<DueDeadline>;
        due_messages(before: Timestamp, limit: usize) -> Vec<DueMessage>;
        held_up(after: Option<Uid>, limit: usize) -> Vec<Uid>;
        abandoned(node: &str, limit: usize) -> Vec<TaskRow>;
        claim_shared(node: &str, runnable: Runnable, now: Timestamp, limit: usize)
            -> (Vec<TaskRow>, Option<Timestamp>);
        claim_shared_call(node: &str, call: CallKey, now: Timestamp) -> Option<TaskRow>;
        take_over(node: &str, call: CallKey, token: u64, now: Timestamp) -> Option<TaskRow>;
        policy_overrides() -> Vec<PolicyOverride>;
        waiting_calls(activity: &str, after: Option<CallKey>, limit: usize) -> Vec<CallKey>;
        tasks_of(calls: Arc<[CallKey]>) -> Vec<TaskRow>;
        load_task(call: CallKey) -> Option<TaskRecord>;
        load_tasks(calls: Arc<[CallKey]>) -> Vec<TaskRecord>;
        load_run(uid: Uid) -> Option<RunRecord>;
        due_messages_of(uid: Uid, before: Timestamp) -> Vec<MessageRow>;
    }
}

impl Inspect for Watched {
    passed_on! {
        policy(hash: &str) -> Option<PolicyRow>;
        find(id: &str) -> Option<InstanceRow>;
        find_request(request_id: &str) -> Option<InstanceRow>;
        signalled(id: &str, request_id: &str) -> bool;
        instance(uid: Uid) -> Option<InstanceRow>;
        closed(uids: Arc<[Uid]>) -> Vec<InstanceRow>;
        missing(uids: Arc<[Uid]>) -> Vec<Uid>;
        list(filter: InstanceFilter) -> Vec<InstanceRow>;
        with_prefix(prefix: &str, after: Option<&str>, limit: usize) -> Vec<InstanceRow>;
        history(run: RunKey) -> Vec<Event>;
        event_page(run: RunKey, page: EventPage, limit: usize) -> Vec<Event>;
        attempts(run: RunKey) -> Vec<AttemptRow>;
        actions(run: RunKey) -> Vec<ActionRow>;
        action(uid: Uid, id: &str) -> Option<ActionRow>;
        tasks(run: RunKey) -> Vec<TaskRow>;
        messages(uid: Uid) -> Vec<MessageRow>;
        cancel_requested(run: RunKey) -> bool;
        kv(uid: Uid, key: &str) -> Option<KvRow>;
    }
}

impl Unresolved for Watched {
    passed_on! {
        dead_letter(call: CallKey) -> Option<DeadLetter>;
        dead_letters(filter: DeadLetterFilter) -> Vec<DeadLetter>;
        dead_letter_places(filter: DeadLetterFilter) -> Vec<CallCursor>;
        dead_letter_groups(filter: DeadLetterFilter) -> Vec<CallGroup>;
        oldest_dead_letter() -> Option<Timestamp>;
        paused_calls(filter: PausedFilter) -> Vec<PausedCall>;
        paused_count() -> u64;
        paused_groups(filter: PausedFilter) -> Vec<CallGroup>;
    }
}

impl Bulk for Watched {
    passed_on! {
        open_bulk(limit: usize) -> Vec<BulkRecord>;
        bulk(id: &str) -> Option<BulkRecord>;
        bulk_list(after: Option<BulkCursor>, limit: usize) -> Vec<BulkRecord>;
        oldest_bulk() -> Option<Timestamp>;
        matching_calls(filter: CallFilter, after: Option<CallKey>, limit: usize) -> CallPage;
        run_calls(runs: Arc<[RunKey]>, activity: Option<String>) -> Vec<RunCalls>;
        answers(asked: Arc<[(CallKey, String)]>) -> Vec<AskedAnswer>;
    }
}

impl Gates for Watched {
    passed_on! {
        gates() -> StoredGates;
        gate_counts(from: Timestamp) -> Vec<GateCount>;
        waiting_gates(after: &str, limit: usize) -> Vec<String>;
        count_waiting(gates: Arc<[String]>, before: Timestamp, at_most: usize) -> Vec<GateWaiting>;
    }
}

impl Tables for Watched {
    passed_on! {
        transact(attempt: Arc<AttemptTransaction>) -> Transacted;
        on_tables(access: Access, work: UserWork) -> Result<(), Failure>;
    }
}

impl Schedules for Watched {
    passed_on! {
        due_schedules(now: Timestamp, limit: usize) -> DueSchedules;
        waiting_schedules(after: &str, limit: usize) -> Vec<ScheduleRecord>;
        schedule(id: &str) -> Option<ScheduleRecord>;
        schedules(after: &str, limit: usize) -> Vec<ScheduleRecord>;
    }
}

impl Inbox for Watched {
    passed_on! {
        inbox(limit: usize) -> Vec<InboxRow>;
    }
}

impl Tokens for Watched {
    passed_on! {
        tokens() -> Vec<TokenRow>;
        write_token(write: TokenWrite) -> bool;
        login(hash: &str) -> Option<LoginRow>;
        write_login(write: LoginWrite) -> bool;
    }
}

impl RemoteWorkers for Watched {
    passed_on! {
        worker_sessions() -> Vec<WorkerSession>;
        remote_activities() -> Vec<RemoteActivity>;
        write_remote_workers(write: RemoteWrite) -> ();
    }
}

impl Pressure for Watched {
    passed_on! {
        add_pressure(rows: Arc<[PressureRow]>, forget_before: Timestamp) -> ();
        pressure(range: PressureRange) -> Vec<PressureRow>;
    }
}

impl Audit for Watched {
    passed_on! {
        add_audit(rows: Arc<[AuditRow]>, forget_before: Timestamp) -> ();
        audit(range: AuditRange<String>) -> Vec<AuditRow>;
        newest_actions(range: AuditRange<(Uid, String)>) -> Vec<ActionRow>;
    }
}

impl GraphTemplates for Watched {
    passed_on! {
        graph_templates(after: &str, limit: usize) -> Vec<GraphTemplateRow>;
        graph_template(name: &str) -> Option<GraphTemplateRow>;
        write_graph_template(write: GraphTemplateWrite) -> bool;
    }
}

impl Retain for Watched {
    passed_on! {
        delete_closed(wanted: Deletion) -> Deleted;
    }
}
