//! What the engine asks of a database.
//!
//! A store keeps rows and promises little: a batch of [`Step`]s is written whole or not at all,
//! what was acknowledged survives a crash, and reads see everything that was acknowledged before.
//! It decides nothing. The promises are written down as a suite that every store must pass, see
//! [`conformance`].
//!
//! - [`rows`]: what is stored, with the stored forms of engine data.
//! - [`Step`]: what one step of one run changes, the unit that is refused or taken as a whole.
//! - [`Own`]: who works on a store, and on which of its shards. [`Commit`], [`Work`], [`Inspect`]:
//!   writing; what a node reads to work; what people read. [`Unresolved`]: dead letters and paused
//!   calls. [`Bulk`]: one action on many calls. [`Gates`]: what stands before
//!   dependencies. [`Tables`]: the user's own tables beside ours.
//!   [`Schedules`], [`Inbox`], [`Retain`]: what starts by the clock; what others ask for in SQL;
//!   deleting what is closed. [`Tokens`], [`GraphTemplates`], [`Audit`], [`Pressure`]: what only a
//!   server needs. A [`Store`] is all of these.
//! - [`fleet`]: what the nodes of one database decide about each other, pure.
//! - [`decode`], [`encode`], [`quarantine`]: what SQL stores have in common.
//! - [`model`]: a store as a pure data structure, the oracle for the others.

mod audit;
mod bulk;
pub mod conformance;
pub mod decode;
pub mod encode;
mod error;
mod event_page;
pub mod fleet;
mod gaps;
mod gates;
mod graph_templates;
mod inbox;
mod message;
pub mod model;
#[doc(hidden)]
pub mod outage;
mod own;
mod pressure;
pub mod quarantine;
mod remote;
mod report;
mod retain;
pub mod rows;
mod schedules;
mod staleness;
mod step;
mod tables;
mod tokens;
mod unresolved;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use resurgam_core::{CallKey, Event, RunKey, Timestamp, Uid};

pub use audit::{Audit, AuditRange, AuditRow};
pub use bulk::{
    AskedAnswer, Bulk, BulkCursor, BulkRecord, BulkRow, BulkWrite, CallFilter, CallPage,
    CallStatus, Candidate, FailedCall, MatchedCall, RunCalls, WINDOW, is_of_kind,
};
pub use error::{Error, Result};
pub use event_page::EventPage;
pub use gaps::Gaps;
pub use gates::{
    ByHand, GateCount, GateRow, GateScope, GateWaiting, GateWrite, Gates, HandState, Hold,
    HoldKind, PausedKinds, Quota, StoredGates, StoredSettings,
};
pub use graph_templates::{GraphTemplateRow, GraphTemplateWrite, GraphTemplates};
pub use inbox::{Inbox, InboxRow, InboxWrite};
pub use own::{Aside, Assignment, Node, Own, Ownership, Owning};
pub use pressure::{Pressure, PressureCounts, PressureRange, PressureRow};
pub use remote::{RemoteActivity, RemoteWorkers, RemoteWrite, WorkerSession};
pub use report::{Report, Reported};
pub use retain::{Deleted, Deletion, INSTANCES, Place, ROWS, Retain, Sweep};
use rows::{
    ActionRow, AttemptRow, DueDeadline, DueMessage, DueTask, InstanceFilter, InstanceRow, KvRow,
    MessageRow, PolicyOverride, PolicyRow, RunRecord, TaskRecord, TaskRow,
};
pub use schedules::{DueSchedules, ScheduleRecord, ScheduleRow, ScheduleWrite, Schedules};
pub use staleness::Staleness;
pub use step::{
    ChildStart, InstanceWrite, MessageWrite, Replaces, Rewind, Step, StepResult, TaskWrite,
};
pub use tables::{Access, AttemptTransaction, Tables, Transacted, not_offered};
pub use tokens::{LoginRow, LoginWrite, TokenRow, TokenWrite, Tokens};
pub use unresolved::{
    CallCursor, CallGroup, DeadLetter, DeadLetterFilter, GROUPS, LetterHead, LetterState,
    LetterWrite, PausedCall, PausedFilter, Settled, Unresolved, grouped, ledger_from_stored,
    ledger_to_stored,
};

/// A future that can be kept in a list.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A database that keeps the engine's rows.
pub trait Store:
    Own
    + Commit
    + Work
    + Inspect
    + Unresolved
    + Bulk
    + Gates
    + Tables
    + Schedules
    + Inbox
    + Retain
    + Tokens
    + Pressure
    + Audit
    + GraphTemplates
    + RemoteWorkers
    + Send
    + Sync
    + 'static
{
}

impl<T> Store for T where
    T: Own
        + Commit
        + Work
        + Inspect
        + Unresolved
        + Bulk
        + Gates
        + Tables
        + Schedules
        + Inbox
        + Retain
        + Tokens
        + Pressure
        + Audit
        + GraphTemplates
        + RemoteWorkers
        + Send
        + Sync
        + 'static
{
}

/// Writing.
pub trait Commit {
    /// Writes a batch in one transaction, in order.
    ///
    /// Answers with one result for each step: [`StepResult::Written`], [`StepResult::Duplicate`]
    /// for a step whose instance id is taken, [`StepResult::Closed`] for one that needs an open
    /// instance, [`StepResult::Full`] for one that needs room for a signal, or
    /// [`StepResult::Missed`] for one that changes what has changed meanwhile; of these nothing is
    /// written while the rest of the batch is. Any other trouble is an error, and then nothing of
    /// the batch was written; [`Error::is_transient`] tells whether the same batch may succeed
    /// later, [`Error::is_fenced`] that another node is the owner by now, and otherwise one of its
    /// steps is to blame.
    ///
    /// The batch is shared and not copied: a writing thread reads it while the caller keeps it
    /// for another try.
    fn commit(&self, batch: Arc<[Step]>) -> Answer<'_, Vec<StepResult>>;

    /// How many batches it takes at a time, at least one: more do not wait for each other when they
    /// write different shards.
    fn lanes(&self) -> usize;
}

/// What can be run here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runnable {
    /// The activities that are known; all with `None`.
    pub activities: Option<Arc<[String]>>,
    /// The queues that are served; all with `None`.
    pub queues: Option<Arc<[String]>>,
    /// What tasks may lack elsewhere and is there, see [`rows::Progress::lacks`]; everything with
    /// `None`.
    pub provides: Option<Arc<[String]>>,
    /// Calls that may kill their process ([`rows::Progress::poison`]) are not claimed
    /// ([`Work::claim_shared`]). Otherwise one of them is at most, however many are due.
    pub no_poison: bool,
    /// Of which gates.
    pub gates: GateScope,
    /// An attempt of a task that is claimed begins although its gate does not flow
    /// ([`rows::Progress::probing`]).
    pub probing: bool,
    /// What is paused as a whole, and not looked for.
    pub paused: PausedKinds,
}

/// What a node reads to do its work, in the shards that it holds. Bounded: none of it loads
/// everything.
pub trait Work {
    /// Tasks that wait and are due before this time, the earliest first, at most `limit`; only
    /// those that can be run here: what nobody here can run must not stand in front of what
    /// somebody can. Where several nodes work, a task that lacks something is not among them: even
    /// the holder of its shard claims it with [`Work::claim_shared`].
    fn due_tasks(
        &self,
        runnable: Runnable,
        before: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<DueTask>>;

    /// Tasks that wait and whose deadline is before this time, the earliest first and those of one
    /// moment by their calls, at most `limit`; only those behind the one that is named. Of all
    /// activities: what nobody here can run must not wait for ever.
    fn due_deadlines(
        &self,
        after: Option<DueDeadline>,
        before: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<DueDeadline>>;

    /// Messages that are due before this time, the earliest first, at most `limit`. Those of one
    /// instance that are due at the same time come in the order of their arrival.
    fn due_messages(&self, before: Timestamp, limit: usize) -> Answer<'_, Vec<DueMessage>>;

    /// Open instances of which is written down why they do not go on
    /// ([`InstanceRow::error`](rows::InstanceRow::error)), in the order of their uids and after
    /// this one, at most `limit`.
    fn held_up(&self, after: Option<Uid>, limit: usize) -> Answer<'_, Vec<Uid>>;

    /// Tasks that are claimed by a node that is not there any more and has not told how their
    /// attempt ended ([`Report`]), at most `limit`. Where one node works, that is every other than
    /// `node`.
    fn abandoned(&self, node: &str, limit: usize) -> Answer<'_, Vec<TaskRow>>;

    /// Claims tasks for `node` that wait and are due by now, at most `limit`, and answers with
    /// them, and with when the next one is due: only those that can be run here, of shards whose
    /// holder does not serve their queue, and those of all shards that lack what is here. Of calls
    /// that may kill their process at most one is among them. Where one node works there are none.
    fn claim_shared(
        &self,
        node: &str,
        runnable: Runnable,
        now: Timestamp,
        limit: usize,
    ) -> Answer<'_, (Vec<TaskRow>, Option<Timestamp>)>;

    /// Claims such a task by its key so that nobody runs it while it ends
    /// ([`Progress::to_end`](rows::Progress::to_end)), whatever its queue and whether it is due,
    /// unless somebody has claimed it.
    fn claim_shared_call(
        &self,
        node: &str,
        call: CallKey,
        now: Timestamp,
    ) -> Answer<'_, Option<TaskRow>>;

    /// Claims a task for `node`, which holds its shard, that another node has claimed with this
    /// token, so that its attempt cannot end the call any more
    /// ([`Progress::to_end`](rows::Progress::to_end)); `None` when the task is not claimed so any
    /// more. Where one node works there is none.
    fn take_over(
        &self,
        node: &str,
        call: CallKey,
        token: u64,
        now: Timestamp,
    ) -> Answer<'_, Option<TaskRow>>;

    /// Policies that operators set for all calls of an activity, and those that they removed, by
    /// the names of the activities.
    fn policy_overrides(&self) -> Answer<'_, Vec<PolicyOverride>>;

    /// Calls of an activity that wait after an attempt, and are not paused, at most `limit`: in an
    /// order of the store's own, those behind this one.
    fn waiting_calls(
        &self,
        activity: &str,
        after: Option<CallKey>,
        limit: usize,
    ) -> Answer<'_, Vec<CallKey>>;

    /// Those of these calls that are not finished, in any shard.
    fn tasks_of(&self, calls: Arc<[CallKey]>) -> Answer<'_, Vec<TaskRow>>;

    /// A task with everything an attempt needs, `None` when it is finished.
    fn load_task(&self, call: CallKey) -> Answer<'_, Option<TaskRecord>>;

    /// The tasks of many calls at once, each with everything an attempt needs. What cannot be read
    /// is set aside and left out.
    fn load_tasks(&self, calls: Arc<[CallKey]>) -> Answer<'_, Vec<TaskRecord>>;

    /// The current run of an instance with everything a turn needs, `None` when the uid is
    /// unknown. Events that cannot be read are an error that names them.
    fn load_run(&self, uid: Uid) -> Answer<'_, Option<RunRecord>>;

    /// The messages of an instance that are due before this time, in order of their arrival.
    fn due_messages_of(&self, uid: Uid, before: Timestamp) -> Answer<'_, Vec<MessageRow>>;
}

/// What people and clients read.
pub trait Inspect {
    /// An interned policy.
    fn policy(&self, hash: &str) -> Answer<'_, Option<PolicyRow>>;

    /// The current instance of this id.
    fn find(&self, id: &str) -> Answer<'_, Option<InstanceRow>>;

    /// The instance that was started with this request id.
    fn find_request(&self, request_id: &str) -> Answer<'_, Option<InstanceRow>>;

    /// True when a signal with this request id was stored for an instance of this id, the current
    /// one or one before it.
    fn signalled(&self, id: &str, request_id: &str) -> Answer<'_, bool>;

    /// The instance of this uid.
    fn instance(&self, uid: Uid) -> Answer<'_, Option<InstanceRow>>;

    /// Those of these instances that are closed.
    fn closed(&self, uids: Arc<[Uid]>) -> Answer<'_, Vec<InstanceRow>>;

    /// Those of these instances that are not there, perhaps no longer.
    fn missing(&self, uids: Arc<[Uid]>) -> Answer<'_, Vec<Uid>>;

    /// Instances, the newest first.
    fn list(&self, filter: InstanceFilter) -> Answer<'_, Vec<InstanceRow>>;

    /// Current instances whose ids begin so, in the order of their ids and behind this one, at most
    /// `limit`.
    fn with_prefix(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Answer<'_, Vec<InstanceRow>>;

    /// The events of a run in order.
    fn history(&self, run: RunKey) -> Answer<'_, Vec<Event>>;

    /// A part of the events of a run, in order: at most so many, and no others are read.
    fn event_page(&self, run: RunKey, page: EventPage, limit: usize) -> Answer<'_, Vec<Event>>;

    /// The ledger of a run: attempts in order of their end.
    fn attempts(&self, run: RunKey) -> Answer<'_, Vec<AttemptRow>>;

    /// What operators did to the calls of a run, in order of time.
    fn actions(&self, run: RunKey) -> Answer<'_, Vec<ActionRow>>;

    /// What came of the action of this id, of any run of an instance; `None` as long as nobody has
    /// carried it out or refused it.
    fn action(&self, uid: Uid, id: &str) -> Answer<'_, Option<ActionRow>>;

    /// The unfinished activity calls of a run.
    fn tasks(&self, run: RunKey) -> Answer<'_, Vec<TaskRow>>;

    /// The messages that a run has not read, in order of their arrival.
    fn messages(&self, uid: Uid) -> Answer<'_, Vec<MessageRow>>;

    /// Whether the history of a run says that somebody asked it to end.
    fn cancel_requested(&self, run: RunKey) -> Answer<'_, bool>;

    /// One entry of an instance's own data.
    fn kv(&self, uid: Uid, key: &str) -> Answer<'_, Option<KvRow>>;

    /// Why what is read may not be the latest; `None` where everything is read that was
    /// acknowledged.
    fn staleness(&self) -> Answer<'_, Option<Staleness>> {
        Box::pin(async { Ok(None) })
    }
}
