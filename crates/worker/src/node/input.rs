//! Everything that can happen to a node: what people ask for, what attempts report, what the store
//! answers. Who sends it is said with each; all of it comes through the driver (`driver.rs`).

use std::sync::Arc;

use resurgam_core::{CallKey, EventKind, Failure, Payload, RunKey, Shard, Timestamp, Uid};
use resurgam_store::rows::{
    ActionRequest, DueDeadline, DueMessage, DueTask, Heartbeat, InstanceRow, MessageRow, Owner,
    PolicyOverride, RunRecord, TaskRecord, TaskRow,
};
use resurgam_store::{
    AskedAnswer, BulkRecord, BulkWrite, DeadLetter, DueSchedules, GateCount, GateWaiting,
    GateWrite, InboxRow, LetterWrite, RemoteActivity, Report, Result, ScheduleRecord, Step,
    StoredGates, Transacted,
};

use super::output::TransactionRequest;
use super::reply::Reply;
use super::runs::away_turn::Turned;
use super::store_request::StoreRequest;
use crate::bulk::{ToAsk, Tried};
use crate::handle::{Outcome, StartOptions, Started};
use crate::retention::Swept;

/// Something that has happened.
#[derive(Debug)]
pub enum Input {
    /// Somebody asks for something.
    Request(Request),
    /// An attempt ended.
    AttemptEnded { call: CallKey, token: u64, end: AttemptEnd },
    /// An attempt was cut short by a stop, or kept from beginning.
    AttemptInterrupted { call: CallKey, token: u64, began: bool, heartbeat: Option<Heartbeat> },
    /// An attempt asks for a transaction, for the first time or again.
    Transact(TransactionRequest),
    /// The store ran a transaction.
    Transacted { ask: TransactionRequest, answer: Result<Transacted> },
    /// An attempt reports how far it has come.
    Heartbeat { call: CallKey, token: u64, heartbeat: Heartbeat },
    /// A plain function returned, whatever has become of its attempt.
    ThreadFree { token: u64 },
    /// A task that is due was read.
    TaskLoaded { call: CallKey, loaded: Result<Option<Box<TaskRecord>>> },
    /// A run is back that took a turn elsewhere.
    Turned(Box<Turned>),
    /// A run that has news was read.
    RunLoaded { uid: Uid, loaded: Result<Option<Box<RunRecord>>> },
    /// What is due soon was read.
    Scanned { found: Result<Scan> },
    /// Tasks that wait were read, whoever can run them.
    WaitingTasksRead { found: Result<Vec<DueTask>> },
    /// Claims of nodes that are gone were read.
    AbandonedFound { found: Result<Vec<TaskRow>> },
    /// The tasks of such claims were read. There may be more claims.
    Abandoned { found: Result<Vec<TaskRecord>>, has_more: bool },
    /// A task was read whose outcome was lost in this process.
    OutcomeLost { call: CallKey, found: Option<Box<TaskRecord>> },
    /// Shards are this node's.
    ShardsTaken(Vec<Shard>),
    /// Shards are no longer this node's.
    ShardsReleased(Arc<[Shard]>),
    /// Tasks were read whose attempts, of these tokens, run here for other nodes.
    RemoteTasksRead { attempts: Arc<[(CallKey, u64)]>, found: Result<Vec<TaskRow>> },
    /// Tasks that others leave were claimed; when the next one is due.
    SharedClaimed {
        /// How many there could have been.
        asked: usize,
        claimed: Result<(Vec<TaskRow>, Option<Timestamp>)>,
    },
    /// Tasks that this node claimed from others were read.
    SharedLoaded { claimed: Claimed },
    /// The store did not answer what is asked until it does.
    Unanswered { request: Box<StoreRequest>, error: resurgam_store::Error },
    /// A call that has waited too long was claimed, unless somebody was faster or it is over.
    ClaimedToEnd { call: CallKey, is_ours: bool },
    /// A call was claimed so that an operator can act on it, unless somebody else has it.
    ClaimedToAct { call: CallKey, claimed: Option<Box<TaskRow>> },
    /// A call that is given up was claimed, unless somebody was faster or it is over.
    SharedSettled { call: CallKey, ours: Option<Box<TaskRow>> },
    /// The task of a call was read that is given up and could not be claimed; none when it is over.
    SharedFound { call: CallKey, task: Option<Box<TaskRow>> },
    /// Messages for an instance were read, because there are reports or actions among them.
    ReportsFound { uid: Uid, found: Vec<MessageRow> },
    /// Reports for an instance were read, with their tasks.
    ReportsRead { uid: Uid, found: Vec<Found> },
    /// A run was read that an operator acts on; the error says why it cannot be.
    RunToActOn { uid: Uid, found: std::result::Result<Option<Box<ActedOn>>, String> },
    /// An instance that is paused was read, with its messages; the error says why it cannot be.
    PausedRun { uid: Uid, found: std::result::Result<Option<Box<PausedInstance>>, String> },
    /// Which runs could not go on was read, after this one.
    HeldUp { after: Option<Uid>, found: Result<Vec<Uid>> },
    /// The store said whether this node works.
    Role(Result<RoleAnswer>),
    /// This node is a client again.
    SteppedDown,
    /// Which instances have messages was read, because somebody else has committed.
    DueMessagesRead { found: Result<Vec<DueMessage>> },
    /// The messages of a run in memory were read.
    MessagesRead { uid: Uid, read: u64, found: Result<Vec<MessageRow>> },
    /// Which of the instances that somebody waits for are closed was read.
    Closed { found: Result<Vec<InstanceRow>> },
    /// Which of the instances that somebody waits for are gone was read.
    Missing { found: Result<Vec<Uid>> },
    /// There turned out to be no such instance.
    NoInstance { uid: Uid },
    /// An instance turned out to be closed.
    Finished { uid: Uid, outcome: Outcome },
    /// Which schedules are due was read.
    SchedulesDue { found: Result<DueSchedules> },
    /// What operators set for activities was read, what is stored of gates, and what other nodes
    /// counted there.
    OverridesRead {
        found: Vec<PolicyOverride>,
        gates: StoredGates,
        counts: Vec<GateCount>,
        /// The activities that remote workers have offered.
        offered: Vec<RemoteActivity>,
    },
    /// It was read whether calls wait behind gates that bound what begins, in any shard.
    WaitingElsewhere { found: Vec<GateWaiting> },
    /// Calls were counted that gates hold back.
    GatedCounted { found: Vec<GateWaiting> },
    /// The keys of a prefix were read that calls wait behind.
    KeysRead { prefix: String, found: Vec<String> },
    /// Due tasks behind gates were read, at most so many of each.
    BehindGatesRead { asked: Arc<[(String, usize)]>, found: Result<Vec<DueTask>> },
    /// Calls of an activity were read that wait after an attempt, behind one.
    WaitingCallsRead { activity: String, after: Option<CallKey>, found: Vec<CallKey> },
    /// Schedules that wait for something else than the time were read.
    SchedulesWaiting { found: Vec<ScheduleRecord> },
    /// A schedule was read whose instance closed.
    ScheduleRead(Box<ScheduleRecord>),
    /// What others have inserted was read.
    InboxRead { found: Result<Vec<InboxRow>> },
    /// It was read whether the signal of a row of the inbox was sent before.
    Signalled { row: InboxRow, found: std::result::Result<bool, String> },
    /// It was read who has the id that a row of the inbox names.
    Addressee { row: InboxRow, found: std::result::Result<Addressee, String> },
    /// What was asked for of many instances was read with its tasks; each with the number of its
    /// read.
    ActionsRead { found: Vec<(Uid, u64, Vec<Found>)> },
    /// The open bulk jobs were read.
    BulkRead { found: Vec<BulkRecord> },
    /// What a bulk job is about was read, and where to go on.
    BulkPage { job: String, found: Vec<ToAsk>, go_on: Option<String> },
    /// What came of a page of a bulk job was read.
    BulkAnswers { job: String, answers: Vec<AskedAnswer> },
    /// The calls that a bulk job tries first were read.
    BulkTried { job: String, found: Vec<Tried> },
    /// Closed instances that are old enough are deleted; when the next one is.
    Swept(Result<Swept>),
}

/// What is due soon.
#[derive(Debug)]
pub struct Scan {
    pub tasks: Vec<DueTask>,
    pub deadlines: Vec<DueDeadline>,
    pub messages: Vec<DueMessage>,
}

/// Something that is asked of the engine.
#[derive(Debug)]
pub enum Request {
    /// Start an instance.
    Start { workflow: String, input: Payload, options: StartOptions, reply: Reply<Started> },
    /// Give news to an open instance.
    Tell { uid: Uid, run: u32, event: EventKind, reply: Reply<()> },
    /// Have something done to a call.
    Act { call: CallKey, request: Box<ActionRequest>, reply: Reply<()> },
    /// Store what an attempt has to say that was heard here and is waited for elsewhere.
    Report { run: RunKey, report: Box<Report>, reply: Reply<()> },
    /// Answer when an instance is closed.
    Wait { uid: Uid, reply: Reply<Outcome> },
    /// Store what an operator sets for an activity, or removes.
    SetPolicy { row: Box<PolicyOverride>, reply: Reply<()> },
    /// Store what an operator wants of gates, or of kinds of calls.
    WriteGates { writes: Vec<GateWrite>, reply: Reply<()> },
    /// Write what somebody wants of a schedule; a new one is checked.
    Schedule { step: Box<Step>, is_new: bool, reply: Reply<()> },
    /// Write what somebody decided about a dead letter.
    SettleLetter { letter: Box<LetterWrite>, reply: Reply<()> },
    /// Store what somebody wants of a bulk job.
    Bulk { write: Box<BulkWrite>, reply: Reply<()> },
    /// Look for tasks that can be run now and could not before.
    LookForWork,
    /// Answer when it is known whether this node works.
    Settle { reply: Reply<()> },
    /// Stop.
    Stop { reply: Reply<()> },
}

/// How an attempt ended, as it reports.
#[derive(Debug)]
pub struct AttemptEnd {
    pub result: std::result::Result<Payload, Failure>,
    /// Its time is up, and its code has not returned: it reports again.
    pub lingers: bool,
    /// What it told last.
    pub heartbeat: Option<Heartbeat>,
}

/// Whether a node may work, as the store says.
#[derive(Debug)]
pub enum RoleAnswer {
    /// It may, on these shards.
    Taken(Vec<Shard>),
    /// Somebody else does.
    Held(Owner),
}

/// A report with the task that it is about.
#[derive(Debug)]
pub struct Found {
    pub row: MessageRow,
    pub task: Option<TaskRecord>,
    /// It asks for an action that was carried out before: somebody asked once more.
    pub is_answered: bool,
    /// How the call ended that somebody wants to act on, where that was looked up.
    pub ended: Option<String>,
}

/// A run that an operator acts on, and what else that depends on.
#[derive(Debug)]
pub struct ActedOn {
    pub record: RunRecord,
    /// No later start has taken its id over.
    pub is_current: bool,
    /// The instance that started it, if that is still there.
    pub parent: Option<InstanceRow>,
    /// The argument of its first run.
    pub first_input: Payload,
    /// The children that are open where it is reset, as far as they are there.
    pub children: Vec<InstanceRow>,
    /// The status that it had when its current run began.
    pub status_before: Option<Payload>,
    /// The dead letter that is redriven.
    pub letter: Option<DeadLetter>,
}

/// An instance that is paused, with its messages.
#[derive(Debug)]
pub struct PausedInstance {
    pub row: InstanceRow,
    pub messages: Vec<MessageRow>,
}

/// Tasks that this node has claimed, and when the next one is due.
#[derive(Debug)]
pub struct Claimed {
    pub tasks: Vec<TaskRecord>,
    pub next: Option<Timestamp>,
    pub asked: usize,
}

/// Who a signal or a cancellation is for.
#[derive(Debug)]
pub enum Addressee {
    Instance(Box<InstanceRow>),
    /// There is none of this id.
    Nobody,
    /// The signal came before, in whichever way.
    HasIt,
}
