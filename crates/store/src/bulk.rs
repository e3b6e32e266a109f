//! Bulk jobs as rows: one action of an operator on many calls, or on many runs.
//!
//! A store keeps the texts of a job and finds what it is about; what they mean is the worker's. The
//! node that works on a job writes it once for each page of calls, in one step with the messages
//! that ask for the action. Such a step names the revision that it follows from, so whoever comes
//! too late with it writes nothing of it: each call is asked for at most once.

use std::sync::Arc;

use resurgam_core::action::ActionAnswer;
use resurgam_core::{CallKey, Failure, RunKey, Timestamp};
use serde::{Deserialize, Serialize};

use crate::Answer;
use crate::rows::TaskRow;

/// How many calls are looked at in one read, whether they match or not.
pub const WINDOW: usize = 1_000;

/// Reading bulk jobs, and what they are about.
pub trait Bulk {
    /// Jobs that are not over, the oldest first, at most `limit`; those of the shards that this
    /// node holds. The shard of a job follows from its id as that of an instance does.
    fn open_bulk(&self, limit: usize) -> Answer<'_, Vec<BulkRecord>>;

    /// The job of this id.
    fn bulk(&self, id: &str) -> Answer<'_, Option<BulkRecord>>;

    /// All jobs, the newest first, those behind this place, at most `limit`.
    fn bulk_list(&self, after: Option<BulkCursor>, limit: usize) -> Answer<'_, Vec<BulkRecord>>;

    /// When the job was over that was over first.
    fn oldest_bulk(&self) -> Answer<'_, Option<Timestamp>>;

    /// Open calls that match, in an order of the store's own, those behind this one, at most
    /// `limit`. It looks at [`WINDOW`] calls at most, and says where to go on.
    fn matching_calls(
        &self,
        filter: CallFilter,
        after: Option<CallKey>,
        limit: usize,
    ) -> Answer<'_, CallPage>;

    /// What the calls of these runs say about each, in the same order. Its cost grows with the
    /// ledgers of the runs.
    fn run_calls(&self, runs: Arc<[RunKey]>, activity: Option<String>)
    -> Answer<'_, Vec<RunCalls>>;

    /// What came of actions that were asked for by these ids, each as of the same moment.
    fn answers(&self, asked: Arc<[(CallKey, String)]>) -> Answer<'_, Vec<AskedAnswer>>;
}

/// A bulk job. The texts are read by the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkRow {
    /// Its id.
    pub id: String,
    /// What it is about.
    pub filter: String,
    /// What is done to each.
    pub action: String,
    /// How it goes about it.
    pub options: String,
    /// Behind which call, or instance, it goes on.
    pub cursor: Option<String>,
    /// How far it has come.
    pub counts: String,
    /// What was asked for last, and is not counted yet.
    pub page: String,
    /// Who wants it.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
    /// Who stopped it.
    pub stopped_by: Option<String>,
    /// Why it ended before it was done, for people.
    pub error: Option<String>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it was over.
    pub closed_at: Option<Timestamp>,
}

/// A bulk job as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkRecord {
    /// The row.
    pub row: BulkRow,
    /// How often it was written.
    pub revision: u64,
}

/// A change of a bulk job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BulkWrite {
    /// A new one; the step is refused when there is one of this id.
    Insert(BulkRow),
    /// Another state of one; the step is refused when its revision is another one.
    Update {
        /// The row.
        row: BulkRow,
        /// The revision that was read.
        revision: u64,
    },
    /// Somebody wants one to end; the step is refused when there is none that is not over, or
    /// when it was stopped before.
    Stop {
        /// Which.
        id: String,
        /// Who.
        by: String,
    },
}

impl BulkWrite {
    /// The id of the job.
    pub fn id(&self) -> &str {
        match self {
            BulkWrite::Insert(row) | BulkWrite::Update { row, .. } => &row.id,
            BulkWrite::Stop { id, .. } => id,
        }
    }

    /// True when somebody who waits for the job, or is to work on it, should hear of it.
    pub fn is_news(&self) -> bool {
        !matches!(self, BulkWrite::Update { row, .. } if row.closed_at.is_none())
    }
}

/// A place in a list of bulk jobs: behind this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkCursor {
    /// When the job was asked for.
    pub at: Timestamp,
    /// Which of those.
    pub id: String,
}

impl BulkCursor {
    /// The place behind this job.
    pub fn of(row: &BulkRow) -> Self {
        BulkCursor { at: row.created_at, id: row.id.clone() }
    }
}

/// Which open activity calls. Every field narrows it further.
///
/// ```
/// use resurgam_store::{CallFilter, CallStatus};
///
/// let waiting = CallFilter {
///     activity: Some("charge".to_string()),
///     status: Some(CallStatus::Waiting),
///     ..CallFilter::default()
/// };
/// assert!(!waiting.is_empty());
/// assert!(CallFilter::default().is_empty()); // every open call
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallFilter {
    /// Only of the instances of these ids; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// Only of this workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Only of this activity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// Only those that stand so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<CallStatus>,
    /// Only those whose last failure is of this type, or of one that descends from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_type: Option<String>,
    /// Only those whose last failure has this code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<String>,
    /// Only of instances with this tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<(String, String)>,
    /// Only of this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only of instances that were started at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_since: Option<Timestamp>,
    /// Only those whose last failure was at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_since: Option<Timestamp>,
    /// Only those that were paused at this time or later, and still are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_since: Option<Timestamp>,
    /// Only those that are paused and have this fingerprint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Only of instances that were started by this time; and of paused calls, those that were
    /// paused by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// How an open call stands.
///
/// ```
/// use resurgam_store::CallStatus;
///
/// assert_eq!(CallStatus::named("paused"), Some(CallStatus::Paused));
/// assert_eq!(CallStatus::ALL.map(CallStatus::name), ["waiting", "retrying", "running", "paused"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// It waits: for its time, for a slot, for a worker.
    Waiting,
    /// It waits after an attempt.
    Retrying,
    /// An attempt runs.
    Running,
    /// It is paused.
    Paused,
}

impl CallStatus {
    /// Every one.
    pub const ALL: [CallStatus; 4] =
        [CallStatus::Waiting, CallStatus::Retrying, CallStatus::Running, CallStatus::Paused];

    /// The name that is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            CallStatus::Waiting => "waiting",
            CallStatus::Retrying => "retrying",
            CallStatus::Running => "running",
            CallStatus::Paused => "paused",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<CallStatus> {
        CallStatus::ALL.into_iter().find(|status| status.name() == name)
    }

    fn is_of(self, task: &TaskRow) -> bool {
        let (runs, is_paused) = (task.claim.is_some(), task.progress.paused.is_some());
        match self {
            CallStatus::Waiting => !runs && !is_paused,
            CallStatus::Retrying => !runs && !is_paused && task.attempt > 0,
            CallStatus::Running => runs,
            CallStatus::Paused => is_paused && !runs,
        }
    }
}

impl CallFilter {
    /// True when it leaves nothing out.
    pub fn is_empty(&self) -> bool {
        CallFilter { until: None, ..self.clone() } == CallFilter::default()
    }

    /// True when it asks for the last failure of a call.
    #[doc(hidden)]
    pub fn needs_failure(&self) -> bool {
        self.failure_type.is_some() || self.failure_code.is_some() || self.failed_since.is_some()
    }

    /// True when a call is among them.
    #[doc(hidden)]
    pub fn matches(&self, candidate: &Candidate) -> bool {
        let is =
            |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|it| it == value);
        let Candidate { task, instance, workflow, created_at, tag, failure, failed_at } = candidate;
        let (fingerprint, paused_at) = task.paused().unzip();
        (self.ids.is_empty() || self.ids.contains(instance))
            && is(&self.workflow, workflow)
            && is(&self.activity, &task.name)
            && is(&self.queue, &task.queue)
            && self.status.is_none_or(|status| status.is_of(task))
            && self.fingerprint.as_deref().is_none_or(|wanted| fingerprint == Some(wanted))
            && self.paused_since.is_none_or(|since| paused_at.is_some_and(|at| at >= since))
            && self.tag.as_ref().is_none_or(|(_, value)| tag.as_ref() == Some(value))
            && self.started_since.is_none_or(|since| *created_at >= since)
            && self.until.is_none_or(|until| *created_at <= until)
            && self.until.is_none_or(|until| paused_at.is_none_or(|at| at <= until))
            && self.failed_since.is_none_or(|since| failed_at.is_some_and(|at| at >= since))
            && self.matches_failure(failure.as_ref())
    }

    fn matches_failure(&self, failure: Option<&Failure>) -> bool {
        is_of_kind(failure, self.failure_type.as_ref(), self.failure_code.as_ref())
    }
}

/// True when a failure is of this type, or of one that descends from it, and has this code.
#[doc(hidden)]
pub fn is_of_kind(
    failure: Option<&Failure>,
    type_name: Option<&String>,
    code: Option<&String>,
) -> bool {
    let is_of = |wanted: &String| {
        failure.is_some_and(|it| it.type_name.as_ref() == Some(wanted) || it.mro.contains(wanted))
    };
    let has = |wanted: &String| failure.is_some_and(|it| it.code.as_ref() == Some(wanted));
    type_name.is_none_or(is_of) && code.is_none_or(has)
}

/// What the calls of a run say about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunCalls {
    /// One of the activity that is asked for is open.
    pub has_open: bool,
    /// The one that failed last, whether it was tried again or not.
    pub failed: Option<FailedCall>,
}

/// A failed attempt, as far as it tells one run from another.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedCall {
    /// The activity.
    pub activity: String,
    /// The failure.
    pub failure: Failure,
    /// When.
    pub at: Timestamp,
}

/// An open call with everything that a filter can ask about.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Candidate {
    pub task: TaskRow,
    /// The id of its instance.
    pub instance: String,
    /// The workflow of its instance.
    pub workflow: String,
    /// When its instance was started.
    pub created_at: Timestamp,
    /// The value of the tag that is asked for.
    pub tag: Option<String>,
    /// Its last failure, where that is asked for.
    pub failure: Option<Failure>,
    /// When that was.
    pub failed_at: Option<Timestamp>,
}

/// Open calls that match.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallPage {
    /// The calls.
    pub calls: Vec<MatchedCall>,
    /// Behind which call to go on; `None` when there are no more.
    pub go_on: Option<CallKey>,
}

/// An open call that matches.
#[derive(Clone, Debug, PartialEq)]
pub struct MatchedCall {
    /// Its task.
    pub task: TaskRow,
    /// The id of its instance.
    pub instance: String,
}

#[doc(hidden)]
impl CallPage {
    /// How many calls are looked at in one go, for so many that are wanted: most of them match
    /// where many are wanted.
    pub fn chunk(limit: usize) -> usize {
        limit.clamp(100, WINDOW)
    }

    /// Adds those of the candidates that match, until there are `limit`. `last` is the last call
    /// that was looked at, when there may be more behind it.
    pub fn add(
        &mut self,
        filter: &CallFilter,
        candidates: impl IntoIterator<Item = Candidate>,
        last: Option<CallKey>,
        limit: usize,
    ) {
        self.go_on = last;
        for candidate in candidates.into_iter().filter(|candidate| filter.matches(candidate)) {
            let Candidate { task, instance, .. } = candidate;
            let call = task.call;
            self.calls.push(MatchedCall { task, instance });
            if self.calls.len() == limit {
                self.go_on = Some(call);
                break;
            }
        }
    }

    /// True when there is no more to look at, for so many that are wanted and so many that were
    /// looked at.
    pub fn is_complete(&self, limit: usize, looked_at: usize) -> bool {
        self.calls.len() >= limit || self.go_on.is_none() || looked_at >= WINDOW
    }
}

/// What came of an action that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskedAnswer {
    /// Nobody has looked at it yet.
    Waits,
    /// It was carried out, or refused.
    Answered(ActionAnswer),
    /// It went with its run before anybody looked at it.
    Gone,
}
