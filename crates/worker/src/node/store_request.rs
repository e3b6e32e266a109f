//! Requests to the store: reads, and the claims and moves of shards that the store answers one by
//! one and not as part of a batch.
//!
//! A node says what it wants to know or to have ([`StoreRequest`]) and goes on; the driver asks the
//! store beside it (`reads.rs`), and the answer comes back as an [`Input`](super::Input). Trouble
//! with the store means asking again later, never a decision: what is asked until it is answered
//! comes back as [`Input::Unanswered`](super::Input::Unanswered) and is asked again, everything
//! else is for whoever gets the answer.
//!
//! What was read in another tenure, or of a shard that has changed hands since, is worth nothing:
//! an answer carries the [`Stamp`] of its question.

use std::sync::Arc;
use std::time::Duration;

use resurgam_core::action::Action;
use resurgam_core::{CallKey, RunKey, Shard, Timestamp, Uid};
use resurgam_store::rows::{Claim, DueDeadline, MessageRow};
use resurgam_store::{InboxRow, Runnable};

use crate::bulk::{BulkTarget, ToTry};

/// Something that is asked of the store.
#[derive(Clone, Debug)]
pub enum StoreRequest {
    /// A run with everything that a turn needs.
    Run(Uid),
    /// A task with everything that an attempt needs.
    Task(CallKey),
    /// A task whose outcome was lost in this process.
    LostTask(CallKey),
    /// What is due soon; of the deadlines, those behind this one.
    DueSoon { runnable: Runnable, deadlines_after: Option<DueDeadline> },
    /// Tasks that wait, whoever can run them.
    WaitingTasks(Runnable),
    /// Claims of nodes that are gone; not those of this one.
    Abandoned { node: String },
    /// The tasks of such claims, as far as they are still claimed so. There may be more claims than
    /// were read.
    AbandonedTasks { claims: Arc<[(CallKey, Option<Claim>)]>, has_more: bool },
    /// Runs that could not go on, after this one.
    HeldUp { after: Option<Uid> },
    /// Instances that have messages which are due.
    DueMessages { until: Timestamp },
    /// The messages of an instance that are due. The number tells one read from the next.
    MessagesOf { uid: Uid, read: u64, until: Timestamp },
    /// What attempts elsewhere have reported to an instance.
    Reports { uid: Uid, until: Timestamp },
    /// The tasks that reports are about.
    ReportedTasks { uid: Uid, reports: Arc<[MessageRow]> },
    /// A run that an operator acts on, with everything that this depends on.
    RunToActOn { uid: Uid, asked: Option<Box<(RunKey, Action)>> },
    /// An instance that is paused, with its messages.
    PausedRun(Uid),
    /// Those of the instances that are closed.
    Closed { uids: Arc<[Uid]> },
    /// Those of the instances that are gone.
    Missing { uids: Arc<[Uid]> },
    /// Whether an instance is closed.
    End(Uid),
    /// The tasks of these calls, in any shard, whose attempts have these tokens.
    RemoteTasks { attempts: Arc<[(CallKey, u64)]> },
    /// Claims tasks that others leave, at most so many.
    ClaimShared { node: String, runnable: Runnable, now: Timestamp, limit: usize },
    /// The tasks that were claimed: nobody else would run them.
    Claimed { calls: Arc<[CallKey]>, next: Option<Timestamp>, asked: usize },
    /// Claims a call that has waited too long and that others may run, so that nobody does.
    ClaimToEnd { node: String, call: CallKey, now: Timestamp },
    /// Claims a call that others may run, so that nobody does while an operator acts on it.
    ClaimToAct { node: String, call: CallKey, now: Timestamp },
    /// Takes the claim of an attempt on another node away, so that an operator can end its call.
    TakeOver { node: String, call: CallKey, token: u64, now: Timestamp },
    /// Claims a call that is given up so that nobody else can.
    SettleShared { node: String, call: CallKey, now: Timestamp },
    /// The task of a call that is given up and could not be claimed.
    SharedTask(CallKey),
    /// The schedules that are due.
    DueSchedules { now: Timestamp },
    /// Schedules that wait for something else than the time, from an id on.
    WaitingSchedules { after: String },
    /// One schedule.
    Schedule(String),
    /// What operators set for activities, what is stored of gates, and what was counted there from
    /// a time on; and which activities remote workers have offered, where somebody offers any.
    PolicyOverrides { counted_from: Option<Timestamp>, offered: bool },
    /// Whether calls wait behind these gates, in any shard, and since when.
    WaitingElsewhere { gates: Arc<[String]>, now: Timestamp },
    /// How many calls gates hold back that are due by now.
    Gated { gates: Arc<[String]>, now: Timestamp },
    /// The keys of this prefix that calls wait behind: as many as there may be.
    KeysOf { prefix: String },
    /// Due tasks behind gates, at most so many of each.
    BehindGates { runnable: Runnable, asked: Arc<[(String, usize)]> },
    /// Calls of an activity that wait after an attempt, behind this one.
    WaitingCalls { activity: String, after: Option<CallKey> },
    /// The open bulk jobs.
    OpenBulk,
    /// What a bulk job is about, behind this place, with what its action needs.
    BulkPage {
        job: String,
        target: Box<BulkTarget>,
        action: Box<Action>,
        after: Option<String>,
        limit: usize,
    },
    /// What came of actions that a bulk job has asked for.
    BulkAnswers { job: String, asked: Arc<[(CallKey, String)]> },
    /// The calls that a bulk job tries first.
    BulkTried { job: String, tried: Arc<[ToTry]> },
    /// The tasks of calls that actions are asked for, which are known already.
    Actions { asked: Arc<[InstanceActions]> },
    /// What others have inserted.
    Inbox,
    /// Whether the signal of a row of the inbox was sent before, through the inbox or by a client.
    /// Its instance may be closed by now, or have forgotten it.
    Signalled(InboxRow),
    /// Who has the id that a row of the inbox names.
    Addressee(InboxRow),
    /// Takes shards that nobody holds.
    Take { node: String, shards: Arc<[Shard]> },
    /// Gives shards up.
    Release { node: String, shards: Arc<[Shard]> },
}

/// What is asked for of the calls of one instance.
#[derive(Clone, Debug)]
pub struct InstanceActions {
    pub uid: Uid,
    /// The number of the read.
    pub number: u64,
    pub messages: Vec<MessageRow>,
}

/// The wait before something that could not be read is read again.
pub(crate) const AGAIN: Duration = Duration::from_secs(1);

/// When something was read: how often the role had changed, and the shard of what was read had been
/// gained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub(crate) tenure: u64,
    pub(crate) shard: Option<(Shard, u64)>,
}
