//! Instances: what users started, how they are listed, and how a list is read page by page.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use resurgam_core::command::Settings;
use resurgam_core::event::Compensation;
use resurgam_core::{CallKey, Payload, Timestamp, Uid};
use serde::{Deserialize, Serialize};

use super::{is_false, is_zero};

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

    /// What is greater than every id that begins so.
    #[doc(hidden)]
    pub fn end_of_prefix(prefix: &str) -> String {
        format!("{prefix}{}", char::MAX)
    }

    /// How many instances are found by their calls that wait to be tried again. When there are
    /// more, any list has some of them soon.
    #[doc(hidden)]
    pub const FEW_RETRYING: usize = 2_000;

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
