//! What is stored, row by row. The names are those of the tables and columns.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use resurgam_core::action::{Action, ActionAnswer};
use resurgam_core::command::Settings;
use resurgam_core::event::Compensation;
use resurgam_core::history::{ActionLine, AttemptLine};
use resurgam_core::retry::{Counters, Matched, Reason, RecordedWhy, RetryPolicy};
use resurgam_core::{CallKey, Event, Failure, Fingerprint, Payload, RunKey, Seq, Timestamp, Uid};
use serde::{Deserialize, Serialize};

use crate::report::Report;

/// An instance: what a user started. Written when it starts, changes its status and closes.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceRow {
    /// What identifies this start for ever.
    pub uid: Uid,
    /// The id the user chose.
    pub id: String,
    /// The workflow's name.
    pub workflow: String,
    /// Where it is.
    pub status: Status,
    /// Which run is the current one.
    pub run: u32,
    /// The queue its activities go to when they name none.
    pub queue: String,
    /// What makes a repeated start return the first answer.
    pub request_id: Option<String>,
    /// Tasks of instances with a higher one go first.
    pub priority: i32,
    /// The call that started it, when another instance did.
    pub parent: Option<CallKey>,
    /// The schedule that started it.
    pub schedule: Option<String>,
    /// What people look it up by.
    pub tags: BTreeMap<String, String>,
    /// What holds for as long as it lives.
    pub settings: Settings,
    /// The argument.
    pub input: Payload,
    /// The result, or the failure as JSON.
    pub outcome: Option<Payload>,
    /// Whether what it did was undone, when it failed and there was anything to undo.
    pub compensation: Option<Compensation>,
    /// Why it is blocked, for people.
    pub error: Option<String>,
    /// Who paused it and why, while it is paused; and how long it was paused so far.
    pub pause: RunPause,
    /// When it was started.
    pub created_at: Timestamp,
    /// When it closed.
    pub closed_at: Option<Timestamp>,
}

impl InstanceRow {
    /// An instance that starts.
    pub fn new(
        uid: Uid,
        id: impl Into<String>,
        workflow: impl Into<String>,
        input: Payload,
        created_at: Timestamp,
    ) -> Self {
        InstanceRow {
            uid,
            id: id.into(),
            workflow: workflow.into(),
            status: Status::Running,
            run: 1,
            queue: resurgam_core::command::DEFAULT_QUEUE.to_string(),
            request_id: None,
            priority: 0,
            parent: None,
            schedule: None,
            tags: BTreeMap::new(),
            settings: Settings::default(),
            input,
            outcome: None,
            compensation: None,
            error: None,
            pause: RunPause::default(),
            created_at,
            closed_at: None,
        }
    }
}

/// Who paused an instance, when and why, while its status is [`Status::Paused`]. Stored in one
/// column; unknown fields are ignored.
///
/// ```
/// use resurgam_core::Timestamp;
/// use resurgam_store::rows::RunPause;
/// use std::time::Duration;
///
/// let pause = RunPause {
///     since: Some(Timestamp::from_millis(2_000)),
///     by: Some("ana".to_string()),
///     stood_still_ms: 500,
///     ..RunPause::default()
/// };
/// let resumed = pause.resumed(Timestamp::from_millis(3_000));
/// assert_eq!(resumed, RunPause { stood_still_ms: 1_500, ..RunPause::default() });
/// assert_eq!(resumed.stood_still(), Duration::from_millis(1_500));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunPause {
    /// Since when it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Who paused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why they did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its open calls were paused with it.
    #[serde(skip_serializing_if = "is_false")]
    pub calls: bool,
    /// How long its timeouts stood still, in all pauses before this one.
    #[serde(skip_serializing_if = "is_zero")]
    pub stood_still_ms: u64,
}

impl RunPause {
    /// How long its timeouts stood still, in all pauses that are over.
    pub fn stood_still(&self) -> Duration {
        Duration::from_millis(self.stood_still_ms)
    }

    /// What stays of it when the instance goes on.
    pub fn resumed(&self, now: Timestamp) -> RunPause {
        let this_time = self.since.map_or(Duration::ZERO, |since| now.since(since));
        let this_time = u64::try_from(this_time.as_millis()).unwrap_or(u64::MAX);
        let stood_still_ms = self.stood_still_ms.saturating_add(this_time);
        RunPause { stood_still_ms, ..RunPause::default() }
    }
}

/// Where an instance is.
///
/// ```
/// use resurgam_store::rows::Status;
///
/// assert_eq!(Status::named("blocked"), Some(Status::Blocked));
/// assert!(!Status::Blocked.is_closed()); // it goes on when its code is mended
/// assert!(!Status::Paused.is_closed()); // it goes on when somebody resumes it
/// assert_eq!(Status::ALL.map(Status::name).len(), 7);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It goes on.
    Running,
    /// Its workflow returned a value.
    Completed,
    /// Its workflow returned a failure.
    Failed,
    /// It ended because it was cancelled.
    Cancelled,
    /// It was ended where it stood, without its code being asked.
    Terminated,
    /// It cannot go on until its code is mended.
    Blocked,
    /// An operator paused it: it takes no turn until somebody resumes it.
    Paused,
}

impl Status {
    /// Every status.
    pub const ALL: [Status; 7] = [
        Status::Running,
        Status::Completed,
        Status::Failed,
        Status::Cancelled,
        Status::Terminated,
        Status::Blocked,
        Status::Paused,
    ];

    /// The name that is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
            Status::Terminated => "terminated",
            Status::Blocked => "blocked",
            Status::Paused => "paused",
        }
    }

    /// The status of this name.
    pub fn named(name: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.name() == name)
    }

    /// True when nothing further will happen.
    pub const fn is_closed(self) -> bool {
        !matches!(self, Status::Running | Status::Blocked | Status::Paused)
    }
}

/// Which instances to list.
///
/// ```
/// use resurgam_store::rows::{InstanceFilter, Status};
///
/// let failed_orders = InstanceFilter {
///     status: vec![Status::Failed],
///     workflow: Some("order".to_string()),
///     limit: 20,
///     ..InstanceFilter::default()
/// };
/// assert!(!failed_orders.retrying);
/// ```
///
/// A list that is longer than one page is read page by page, see [`InstanceCursor`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InstanceFilter {
    /// Only these statuses; empty for all.
    pub status: Vec<Status>,
    /// Only of this workflow.
    pub workflow: Option<String>,
    /// Only those with this tag.
    pub tag: Option<(String, String)>,
    /// Only those that this schedule started.
    pub schedule: Option<String>,
    /// Only those whose compensation ended so.
    pub compensation: Option<Compensation>,
    /// Only those with an activity that waits to be tried again.
    pub retrying: bool,
    /// Only those that were started at this time or later.
    pub since: Option<Timestamp>,
    /// Only those that a list has behind this place: the next page.
    pub after: Option<InstanceCursor>,
    /// At most this many; 0 means 100.
    pub limit: usize,
}

impl InstanceFilter {
    /// How many instances are listed when nobody says.
    const LIMIT: usize = 100;

    /// How many are listed at most.
    #[doc(hidden)]
    pub fn most(&self) -> usize {
        if self.limit == 0 { InstanceFilter::LIMIT } else { self.limit }
    }

    /// The statuses that can be among them: only what is open has activities that wait.
    #[doc(hidden)]
    pub fn statuses(&self) -> impl Iterator<Item = Status> {
        Status::ALL.into_iter().filter(|status| {
            let wanted = self.status.is_empty() || self.status.contains(status);
            wanted && !(self.retrying && status.is_closed())
        })
    }
}

/// A place in a list of instances: behind this one.
///
/// Instances that are started while somebody reads page by page come before the first page, so no
/// page repeats or leaves out any. Where the instance itself was deleted in between, those of its
/// millisecond are listed once more.
///
/// ```
/// use resurgam_core::{Payload, Timestamp, Uid};
/// use resurgam_store::rows::{InstanceCursor, InstanceFilter, InstanceRow};
///
/// let now = Timestamp::from_millis(1_794_733_200_000);
/// let last = InstanceRow::new(Uid(7), "order-7", "order", Payload::null(), now);
/// let cursor = InstanceCursor::of(&last);
/// let next_page = InstanceFilter { after: Some(cursor), ..InstanceFilter::default() };
///
/// // As text, for links and command lines.
/// assert_eq!(cursor.to_string(), "1794733200000-00000000000000000000000000000007");
/// assert_eq!(cursor.to_string().parse(), Ok(cursor));
/// assert!("yesterday".parse::<InstanceCursor>().is_err());
/// # assert_eq!(next_page.after, Some(cursor));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceCursor {
    /// When the instance was started.
    pub created_at: Timestamp,
    /// Which of those that were started then.
    pub uid: Uid,
}

impl InstanceCursor {
    /// The place behind this instance.
    pub fn of(row: &InstanceRow) -> Self {
        InstanceCursor { created_at: row.created_at, uid: row.uid }
    }
}

impl fmt::Display for InstanceCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.created_at.as_millis(), self.uid)
    }
}

/// The error is the rest of a sentence that begins with the text.
impl FromStr for InstanceCursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // From the end, because the time may begin with a sign.
        let read = || {
            let (time, uid) = text.rsplit_once('-')?;
            let time = time.parse().ok()?;
            let is_uid = uid.len() == 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit());
            let uid = u128::from_str_radix(uid, 16).ok().filter(|_| is_uid)?;
            Some(InstanceCursor { created_at: Timestamp::from_millis(time), uid: Uid(uid) })
        };
        read().ok_or_else(|| "is no place in a list; take the one that a list ends with".into())
    }
}

/// An activity call that is not finished. Its input lives in its `ActivityScheduled` event only.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRow {
    /// The call.
    pub call: CallKey,
    /// The activity's name.
    pub name: String,
    /// Where it is to run.
    pub queue: String,
    /// The gate of the dependency it talks to; the activity's name unless somebody says otherwise.
    pub gate: String,
    /// Higher goes first among tasks that are due.
    pub priority: i32,
    /// The hash of its policy, see [`PolicyRow`].
    pub policy: String,
    /// The attempt that runs, or ran last; 0 before the first.
    pub attempt: u32,
    /// When the next attempt is due, while it waits.
    pub wake_at: Timestamp,
    /// When it has waited too long: the queue timeout or the total timeout passes. `None` while an
    /// attempt runs, whose timeouts the node enforces in memory.
    pub deadline_at: Option<Timestamp>,
    /// Who runs an attempt; `None` while it waits.
    pub claim: Option<Claim>,
    /// What the next decision needs.
    pub progress: Progress,
    /// What the activity reported last.
    pub heartbeat: Option<Heartbeat>,
}

impl TaskRow {
    /// When the next attempt of a paused call is due. Nobody who looks for work finds it.
    pub const NEVER: Timestamp = Timestamp::from_millis(i64::MAX);

    /// The fingerprint of a call that is paused, and since when, as columns that are looked up by.
    pub fn paused(&self) -> Option<(&str, Timestamp)> {
        let pause = self.progress.paused.as_deref()?;
        let fingerprint = pause.fingerprint.as_deref().unwrap_or(Fingerprint::UNKNOWN);
        Some((fingerprint, pause.since.unwrap_or(Timestamp::EPOCH)))
    }
}

/// What an activity reported while it ran, kept for the next attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Heartbeat {
    /// What it said.
    pub details: Payload,
    /// When.
    pub at: Timestamp,
}

/// The right of a node to run an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The node.
    pub node: String,
    /// What a report must carry; random, so that a late report of another attempt is refused.
    pub token: u64,
    /// When the attempt began.
    pub started_at: Timestamp,
}

/// What decisions about a task need, stored in one versioned column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// The version of this form.
    pub v: u32,
    /// Attempts that failed.
    pub failures: u32,
    /// Attempts whose process died.
    pub lost: u32,
    /// Of those, how many in a row without a heartbeat in between.
    pub lost_in_a_row: u32,
    /// True when these are so many ([`Progress::POISON`]) that the call may be what kills its
    /// process: such calls run one at a time on a node.
    #[serde(skip_serializing_if = "is_false")]
    pub poison: bool,
    /// Attempts that a graceful stop cut short.
    pub interrupted: u32,
    /// Attempts that asked to be run later.
    pub snoozed: u32,
    /// When the call was first scheduled.
    pub first_scheduled: Option<Timestamp>,
    /// When its first attempt began.
    pub first_started: Option<Timestamp>,
    /// The delay chosen last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_delay_ms: Option<u64>,
    /// True when the workflow gave the call up and waits to hear how it ended.
    #[serde(skip_serializing_if = "is_false")]
    pub cancelled: bool,
    /// True when it waits for that not longer than the grace period of the attempt.
    #[serde(skip_serializing_if = "is_false")]
    pub in_grace: bool,
    /// True when the call has ended, because its time is up, and its last attempt has not.
    #[serde(skip_serializing_if = "is_false")]
    pub over: bool,
    /// True when the process that last looked for its activity did not find it.
    #[serde(skip_serializing_if = "is_false")]
    pub unregistered: bool,
    /// What the process that last looked at it was missing to run it. Another one may have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
    /// True when it is claimed only so that nobody else runs it while it ends: no attempt follows,
    /// and none is lost with the node that claimed it.
    #[serde(skip_serializing_if = "is_false")]
    pub to_end: bool,
    /// Why it is paused, while it is: [`TaskRow::wake_at`] is [`TaskRow::NEVER`] then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Box<Pause>>,
    /// Why it is to be paused when the attempt that runs has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_asked: Option<Box<Pause>>,
    /// How long its clocks stood still because it was paused.
    #[serde(skip_serializing_if = "is_zero")]
    pub stood_still_ms: u64,
    /// The run in which the call was first scheduled, when its run was reset since: its idempotency
    /// key follows from that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_run: Option<u32>,
    /// How much of that was after its first attempt began.
    #[serde(skip_serializing_if = "is_zero")]
    pub stood_still_since_start_ms: u64,
    /// True when an operator set its policy, for this call alone.
    #[serde(skip_serializing_if = "is_false")]
    pub policy_set: bool,
    /// The revision of what operators set for its activity ([`PolicyOverride::revision`]) by which
    /// its wait was decided.
    #[serde(skip_serializing_if = "is_zero")]
    pub decided_by: u64,
    /// True when it undoes another call.
    #[serde(skip_serializing_if = "is_false")]
    pub undoes: bool,
    /// What it was before another activity took its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Box<FellBack>>,
}

/// What a call was before its policy had another activity take its place. What is counted of a
/// call, and its times, are those of the other activity from there on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FellBack {
    /// The activity that was called.
    pub activity: String,
    /// What its attempts came to.
    pub failure: Failure,
    /// From when the total timeout of the call counts.
    pub since: Option<Timestamp>,
}

/// Why a call is paused, and since when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pause {
    /// Since when.
    pub since: Option<Timestamp>,
    /// When its next attempt would be due.
    pub due: Option<Timestamp>,
    /// When it ends by itself: the call fails then, for the reason in `stopped`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Why retrying stopped, when that is what paused it: the name of a [`Reason`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Who paused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why they did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The times that bound the call go on meanwhile.
    #[serde(skip_serializing_if = "is_false")]
    pub clock_runs: bool,
    /// It was paused with its run, and goes on with it.
    #[serde(skip_serializing_if = "is_false")]
    pub with_run: bool,
    /// What the call has in common with others that failed in the same way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// That in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl Progress {
    /// What stands in the stored form of a task that lacks something, and of no other: the quotes
    /// of a text in another field are escaped.
    pub const LACKING: &str = "\"lacks\":";

    /// How many attempts in a row are lost with their process before a call counts as one that may
    /// kill it.
    pub const POISON: u32 = 3;

    /// What stands in the stored form of a task that may kill its process, and of no other.
    pub const POISONOUS: &str = "\"poison\":";

    /// Another attempt in a row was lost with its process.
    pub fn is_lost_again(&mut self) {
        self.lost_in_a_row = self.lost_in_a_row.saturating_add(1);
        self.poison = self.lost_in_a_row >= Progress::POISON;
    }

    /// An attempt was not lost with its process, or a new count begins.
    pub fn is_not_lost(&mut self) {
        (self.lost_in_a_row, self.poison) = (0, false);
    }

    /// What stands in the stored form of a task that lacks just this.
    pub fn lacking(what: &str) -> String {
        format!("{}{}", Progress::LACKING, serde_json::Value::from(what))
    }

    /// The call that its idempotency key is made of.
    pub fn key_of(&self, call: CallKey) -> CallKey {
        let run = self.key_run.unwrap_or(call.run.run);
        RunKey { run, ..call.run }.call(call.seq)
    }

    /// How the attempts so far ended.
    pub fn counters(&self) -> Counters {
        let Progress { failures, lost, interrupted, snoozed, .. } = *self;
        Counters { failures, lost, interrupted, snoozed }
    }
}

/// A task with everything an attempt needs.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRecord {
    /// The task.
    pub task: TaskRow,
    /// The arguments, from its event.
    pub input: Payload,
    /// Its policy, `None` when it is missing.
    pub policy: Option<PolicyRow>,
    /// The workflow instance's id, for people.
    pub instance: String,
    /// Its ledger so far, bounded: the first ten and the last ten rows in order.
    pub ledger: Vec<AttemptRow>,
}

/// A row of the ledger: an attempt that did not succeed at once.
///
/// ```
/// use resurgam_core::retry::{Matched, Reason};
/// use resurgam_core::{RunKey, Seq, Timestamp, Uid};
/// use resurgam_store::rows::{AttemptOutcome, AttemptRow};
/// use std::time::Duration;
///
/// let first = AttemptRow {
///     call: RunKey::first(Uid(7)).call(Seq(2)),
///     name: "charge".to_string(),
///     attempt: 1,
///     outcome: AttemptOutcome::Failed,
///     started_at: Timestamp::from_millis(0),
///     ended_at: Timestamp::from_millis(250),
///     failure: None,
///     delay_ms: Some(2_000),
///     why: "failure 1 of 2; rules[0] matched; waits 2s".to_string(),
/// };
/// assert_eq!((first.matched(), first.stopped_by()), (Some(Matched::Rule(0)), None));
/// assert_eq!(first.delay(), Some(Duration::from_secs(2)));
/// assert_eq!(first.next_due(), Some(Timestamp::from_millis(2_250)));
/// let why = "max_attempts: 2 of 2 attempts failed (rules[0])".to_string();
/// let last = AttemptRow { attempt: 2, delay_ms: None, why, ..first };
/// assert_eq!((last.stopped_by(), last.next_due()), (Some(Reason::MaxAttempts), None));
/// let why = format!("{}; falls back to charge_later", last.why);
/// let fell_back = AttemptRow { why, ..last };
/// assert_eq!(fell_back.stopped_by(), Some(Reason::MaxAttempts));
/// assert_eq!(fell_back.falls_back_to(), Some("charge_later"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptRow {
    /// The call.
    pub call: CallKey,
    /// The activity's name.
    pub name: String,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// What went wrong.
    pub failure: Option<Failure>,
    /// The delay that was chosen, when another attempt follows.
    pub delay_ms: Option<u64>,
    /// How that was decided, in words.
    pub why: String,
}

/// What a printed history says about an attempt.
impl From<&AttemptRow> for AttemptLine {
    fn from(row: &AttemptRow) -> Self {
        AttemptLine {
            activity: row.call.seq,
            name: row.name.clone(),
            attempt: row.attempt,
            outcome: row.outcome.name().to_string(),
            ended_at: row.ended_at,
            failure: row.failure.as_ref().map(ToString::to_string),
            delay_ms: row.delay_ms,
            falls_back_to: row.falls_back_to().map(str::to_string),
        }
    }
}

impl AttemptRow {
    /// The delay that was chosen, when another attempt follows.
    pub fn delay(&self) -> Option<Duration> {
        self.delay_ms.map(Duration::from_millis)
    }

    /// When the next attempt was due, when another one follows.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.delay().map(|delay| self.ended_at.saturating_add(delay))
    }

    /// What the rules of the policy found; `None` when they were not asked, because the failure
    /// itself decided, or because the attempt did not fail.
    pub fn matched(&self) -> Option<Matched> {
        RecordedWhy::read(&self.why).matched
    }

    /// The activity that took the place of this one after the attempt.
    pub fn falls_back_to(&self) -> Option<&str> {
        self.why.split_once(RecordedWhy::FALLS_BACK).map(|(_, name)| name)
    }

    /// What ended the retries, when no attempt follows, or none of the same activity.
    pub fn stopped_by(&self) -> Option<Reason> {
        RecordedWhy::read(&self.why).stopped
    }
}

/// What somebody asks to be done to a call, or to a run.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionRequest {
    /// What makes a repeated request the same one, for its instance.
    pub id: String,
    /// Who asks.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
    /// For what.
    pub action: Action,
}

/// What an operator did to a call or to a run, and what came of it.
///
/// ```
/// use resurgam_core::action::{Action, ActionAnswer};
/// use resurgam_core::history::ActionLine;
/// use resurgam_core::{RunKey, Seq, Timestamp, Uid};
/// use resurgam_store::rows::{ActionRequest, ActionRow};
///
/// let row = ActionRow {
///     call: RunKey::first(Uid(7)).call(Seq(6)),
///     at: Timestamp::from_millis(2_000),
///     request: ActionRequest {
///         id: "ticket-17".to_string(),
///         by: "ana".to_string(),
///         reason: Some("bank is back".to_string()),
///         action: Action::Retry { reset: false, due: None },
///     },
///     answer: ActionAnswer::done("retried charge#6 now"),
/// };
/// assert_eq!(ActionLine::from(&row).by, "ana");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ActionRow {
    /// The call; of an action on a run, the place [`Seq::RUN`] in it.
    pub call: CallKey,
    /// When it was carried out, or refused.
    pub at: Timestamp,
    /// What was asked for.
    pub request: ActionRequest,
    /// What came of it.
    pub answer: ActionAnswer,
}

impl ActionRow {
    /// True when it was done to the run, and not to a call.
    pub fn is_on_run(&self) -> bool {
        self.call.seq == Seq::RUN
    }
}

/// What a printed history says about an action.
impl From<&ActionRow> for ActionLine {
    fn from(row: &ActionRow) -> Self {
        ActionLine {
            at: row.at,
            by: row.request.by.clone(),
            answer: row.answer.text.clone(),
            reason: row.request.reason.clone(),
        }
    }
}

/// How an attempt ended.
///
/// ```
/// use resurgam_store::rows::AttemptOutcome;
///
/// assert_eq!(AttemptOutcome::Lost.name(), "lost");
/// assert_eq!(AttemptOutcome::named("snoozed"), Some(AttemptOutcome::Snoozed));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptOutcome {
    /// It failed.
    Failed,
    /// Its process died.
    Lost,
    /// A graceful stop cut it short.
    Interrupted,
    /// It asked to be run later.
    Snoozed,
    /// Nobody wanted its result any more.
    Cancelled,
}

impl AttemptOutcome {
    /// Every outcome.
    pub const ALL: [AttemptOutcome; 5] = [
        AttemptOutcome::Failed,
        AttemptOutcome::Lost,
        AttemptOutcome::Interrupted,
        AttemptOutcome::Snoozed,
        AttemptOutcome::Cancelled,
    ];

    /// The name that is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            AttemptOutcome::Failed => "failed",
            AttemptOutcome::Lost => "lost",
            AttemptOutcome::Interrupted => "interrupted",
            AttemptOutcome::Snoozed => "snoozed",
            AttemptOutcome::Cancelled => "cancelled",
        }
    }

    /// The outcome of this name.
    pub fn named(name: &str) -> Option<AttemptOutcome> {
        AttemptOutcome::ALL.into_iter().find(|outcome| outcome.name() == name)
    }
}

/// What wakes a run: a timer, a signal, a result that arrived while it slept, a cancellation.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageRow {
    /// The instance it is for.
    pub uid: Uid,
    /// What makes a repeated message one: unique for the instance.
    pub id: String,
    /// When it is to be read.
    pub due_at: Timestamp,
    /// What it is.
    pub body: Message,
}

impl MessageRow {
    /// The time of a message that wakes nobody: a signal that nobody waits for.
    pub const NEVER: Timestamp = Timestamp::from_millis(i64::MAX);

    /// What the id of a signal begins with when its sender gave it one, which follows.
    pub const REPEATABLE_SIGNAL: &str = "signal/id/";

    /// The message that asks for an action of this id.
    pub fn action_id(id: &str) -> String {
        format!("action/{id}")
    }
}

/// What a message says.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// The instance begins: it was started by a process that does not work on it. Workflow and
    /// argument are in its row.
    Start,
    /// A timer of a run fires.
    Timer {
        /// The run that started it; a timer of an earlier run is stale.
        run: u32,
        /// Which timer.
        timer: Seq,
    },
    /// Somebody sent a signal.
    Signal {
        /// Its name.
        name: String,
        /// Its value.
        value: Payload,
    },
    /// Somebody wants the instance to end.
    Cancel {
        /// Why, for people.
        reason: String,
    },
    /// Somebody ends the instance at once.
    Terminate {
        /// Why, for people.
        reason: String,
    },
    /// Something that a run waits for ended elsewhere, or its time is up. The event is ready made.
    Result {
        /// The run that waits.
        run: u32,
        /// `ActivityCompleted`, `ActivityFailed`, `ChildCompleted`, `ChildFailed` or `RunTimedOut`.
        event: resurgam_core::EventKind,
    },
    /// An attempt of a call says something from another node. It is for who holds the shard, and
    /// wakes no run.
    Report {
        /// The run of the call.
        run: u32,
        /// What it says.
        report: Box<Report>,
    },
    /// Somebody asks for something to be done to a call, or to a run. It is for who holds the
    /// shard, and wakes no run.
    Action {
        /// The run of the call, or the run itself.
        run: u32,
        /// The place of the call in the run; [`Seq::RUN`] when it is about the run.
        activity: Seq,
        /// What is asked for.
        request: Box<ActionRequest>,
    },
}

impl Message {
    /// The kinds of messages that are for who holds the shard and wake no run, as they are stored.
    pub const FOR_HOLDER: [&str; 2] = [Report::KIND, Message::ACTION];

    /// The kind of a message that asks for an action, as it is stored.
    pub const ACTION: &str = "Action";

    /// True when it is for who holds the shard: a blocked run holds up none of these.
    pub fn is_for_holder(&self) -> bool {
        self.call().is_some()
    }

    /// The call that it is about, of those that are for who holds the shard, without its instance.
    pub fn call(&self) -> Option<(u32, Seq)> {
        match self {
            Message::Report { run, report } => Some((*run, report.activity)),
            Message::Action { run, activity, .. } => Some((*run, *activity)),
            _ => None,
        }
    }

    /// The run that it belongs to; `None` when it is for the instance, whatever run it is in.
    pub fn run(&self) -> Option<u32> {
        match self {
            Message::Timer { run, .. }
            | Message::Result { run, .. }
            | Message::Report { run, .. } => Some(*run),
            // What is asked of a run does not end with it: somebody is to be told why.
            Message::Action { run, activity, .. } => Some(*run).filter(|_| *activity != Seq::RUN),
            Message::Start
            | Message::Signal { .. }
            | Message::Cancel { .. }
            | Message::Terminate { .. } => None,
        }
    }
}

/// The node that works on a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The node.
    pub node: String,
    /// The id of its process.
    pub pid: u32,
    /// The name of its program.
    pub program: String,
    /// Since when.
    pub since: Timestamp,
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} ({})", self.pid, self.program)
    }
}

/// An interned policy: many tasks share one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRow {
    /// The hash of the text.
    pub hash: String,
    /// The stored form.
    pub text: String,
}

/// A policy that an operator set for all calls of an activity, those that are open included.
///
/// ```
/// use resurgam_core::Timestamp;
/// use resurgam_core::retry::RetryPolicy;
/// use resurgam_store::rows::PolicyOverride;
///
/// let set = PolicyOverride {
///     activity: "charge".to_string(),
///     policy: Some(RetryPolicy::once().to_stored()),
///     by: "ana".to_string(),
///     reason: Some("the bank asked us to".to_string()),
///     at: Timestamp::EPOCH,
///     revision: 0,
/// };
/// assert_eq!(set.retry_policy(), Some(RetryPolicy::once()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyOverride {
    /// The activity.
    pub activity: String,
    /// The policy in its stored form. `None` when there is none any more: that is kept, so that
    /// calls whose wait was decided by the last one are decided about again.
    pub policy: Option<String>,
    /// Who set it, or removed it.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
    /// How often it was changed. The store counts; what is written here counts for nothing.
    pub revision: u64,
}

impl PolicyOverride {
    /// The policy, as far as it can be read.
    pub fn retry_policy(&self) -> Option<RetryPolicy> {
        RetryPolicy::from_stored(self.policy.as_ref()?).ok()
    }
}

/// One entry of an instance's own data.
#[derive(Clone, Debug, PartialEq)]
pub struct KvRow {
    /// The instance.
    pub uid: Uid,
    /// The name.
    pub key: String,
    /// The value.
    pub value: Payload,
}

impl KvRow {
    /// The entry that holds the status. An entry that a workflow calls `status` is another one.
    pub const STATUS: &str = "resurgam.status";
}

/// A task that waits, without what an attempt needs.
#[derive(Clone, Debug, PartialEq)]
pub struct DueTask {
    /// The call.
    pub call: CallKey,
    /// When it is due.
    pub wake_at: Timestamp,
    /// Where it is to run.
    pub queue: String,
    /// Higher goes first among tasks that are due.
    pub priority: i32,
    /// The activity's name.
    pub name: String,
}

/// A task that waits and may have waited too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueDeadline {
    /// The call.
    pub call: CallKey,
    /// Until when it may wait.
    pub deadline_at: Timestamp,
}

/// A message that waits, without its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueMessage {
    /// The instance it is for.
    pub uid: Uid,
    /// When it is due.
    pub due_at: Timestamp,
    /// It is for who holds the shard, see [`Message::is_for_holder`].
    pub is_for_holder: bool,
}

/// The current run of an instance with everything a turn needs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The instance.
    pub instance: InstanceRow,
    /// Its events in order.
    pub events: Vec<Event>,
    /// Its messages in order of arrival, also those that are not due yet.
    pub messages: Vec<MessageRow>,
    /// Its unfinished activity calls.
    pub tasks: Vec<TaskRow>,
}

impl RunRecord {
    /// The run.
    pub fn key(&self) -> RunKey {
        RunKey { uid: self.instance.uid, run: self.instance.run }
    }
}
