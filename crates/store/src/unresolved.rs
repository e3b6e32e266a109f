//! What waits for an operator's decision: dead letters, and calls that are paused.
//!
//! Both are listed newest first and page by page, and are grouped by what they have in common,
//! their fingerprint. A dead letter is a row of its own that outlives its instance; a paused call
//! is a task that carries the fingerprint while it is paused. Neither list looks at anything else:
//! each has an index of its own, which calls that are not paused never enter.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use resurgam_core::{CallKey, Failure, Payload, RunKey, Seq, Timestamp, Uid};
use serde::{Deserialize, Serialize};

use crate::Answer;
use crate::bulk::is_of_kind;
use crate::rows::{AttemptOutcome, AttemptRow, TaskRow};

/// Reading what waits for an operator's decision.
pub trait Unresolved {
    /// The dead letter of a call.
    fn dead_letter(&self, call: CallKey) -> Answer<'_, Option<DeadLetter>>;

    /// Dead letters, the newest first.
    fn dead_letters(&self, filter: DeadLetterFilter) -> Answer<'_, Vec<DeadLetter>>;

    /// Where dead letters stand in their list, the newest first: what they hold is not read.
    fn dead_letter_places(&self, filter: DeadLetterFilter) -> Answer<'_, Vec<CallCursor>>;

    /// Dead letters by their fingerprints, the largest group first; at most [`GROUPS`]. Page and
    /// limit of the filter mean nothing here. Its cost grows with the letters that it counts.
    fn dead_letter_groups(&self, filter: DeadLetterFilter) -> Answer<'_, Vec<CallGroup>>;

    /// When the oldest dead letter was written, whatever became of it.
    fn oldest_dead_letter(&self) -> Answer<'_, Option<Timestamp>>;

    /// Calls that are paused, those that were paused last first.
    fn paused_calls(&self, filter: PausedFilter) -> Answer<'_, Vec<PausedCall>>;

    /// How many calls are paused, of the shards that this node holds.
    fn paused_count(&self) -> Answer<'_, u64>;

    /// Calls that are paused by their fingerprints, the largest group first; at most [`GROUPS`].
    /// Page and limit of the filter mean nothing here. Its cost grows with the calls that it
    /// counts.
    fn paused_groups(&self, filter: PausedFilter) -> Answer<'_, Vec<CallGroup>>;
}

/// How many groups are answered at most.
pub const GROUPS: usize = 1_000;

/// How many letters, or calls, are listed when nobody says.
const LIMIT: usize = 100;

/// An activity call that failed for good, kept because its policy wants that.
///
/// It has everything that somebody needs who decides what becomes of it: the instance may be
/// deleted by then.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    /// The call.
    pub call: CallKey,
    /// The id of its instance.
    pub instance: String,
    /// The workflow of its instance. A store takes it from the instance when the letter is written.
    pub workflow: String,
    /// The activity.
    pub activity: String,
    /// Where it ran.
    pub queue: String,
    /// The gate that it was behind.
    pub gate: String,
    /// The hash of its policy.
    pub policy: String,
    /// Its arguments.
    pub input: Payload,
    /// What the workflow got.
    pub failure: Failure,
    /// Why retrying stopped: the name of a [`Reason`](resurgam_core::retry::Reason).
    pub why: String,
    /// How many attempts were made.
    pub attempts: u32,
    /// How they ended: the first ten and the last ten.
    pub ledger: Vec<AttemptRow>,
    /// When it was given up.
    pub at: Timestamp,
    /// What it has in common with others that failed in the same way.
    pub fingerprint: String,
    /// That in words.
    pub error: String,
    /// What became of it.
    pub state: LetterState,
    /// Who decided that; `None` while it is open.
    pub settled: Option<Settled>,
}

impl DeadLetter {
    /// Who decided about it before, and what, for people: `redriven by ana ("it works") before`.
    #[doc(hidden)]
    pub fn decision(&self) -> String {
        let state = self.state.name();
        let Some(settled) = &self.settled else { return format!("{state} before") };
        let redriven = settled.redriven_as.iter().filter(|id| **id != self.instance);
        let redriven = redriven.map(|id| format!(" as {id}"));
        let reason = settled.reason.iter().map(|reason| format!(" ({reason:?})"));
        let more: String = redriven.chain(reason).collect();
        format!("{state} by {}{more} before", settled.by)
    }
}

/// What became of a dead letter.
///
/// ```
/// use resurgam_store::LetterState;
///
/// assert_eq!(LetterState::named("discarded"), Some(LetterState::Discarded));
/// assert_eq!(LetterState::default().name(), "open");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LetterState {
    /// Nobody has decided.
    #[default]
    Open,
    /// It was tried again.
    Redriven,
    /// Nothing is to be done.
    Discarded,
}

impl LetterState {
    /// Every state.
    pub const ALL: [LetterState; 3] =
        [LetterState::Open, LetterState::Redriven, LetterState::Discarded];

    /// The name that is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            LetterState::Open => "open",
            LetterState::Redriven => "redriven",
            LetterState::Discarded => "discarded",
        }
    }

    /// The state of this name.
    pub fn named(name: &str) -> Option<LetterState> {
        LetterState::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// A decision about a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
    /// The id of the instance that tries it again.
    pub redriven_as: Option<String>,
}

/// A change of a dead letter.
#[derive(Clone, Debug, PartialEq)]
pub enum LetterWrite {
    /// A new one; one of a call that has a letter is dropped.
    Insert(Box<DeadLetter>),
    /// A decision; the step is refused unless the letter is open.
    Settle {
        /// Which.
        call: CallKey,
        /// What becomes of it.
        state: LetterState,
        /// Who decided that.
        settled: Settled,
    },
}

impl LetterWrite {
    /// The call.
    pub fn call(&self) -> CallKey {
        match self {
            LetterWrite::Insert(letter) => letter.call,
            LetterWrite::Settle { call, .. } => *call,
        }
    }

    /// Whether every decision among the changes of a step is about a letter that is open by then.
    /// `stored` says of a letter that is there whether it is open.
    #[doc(hidden)]
    pub fn all_follow(
        writes: &[LetterWrite],
        mut stored: impl FnMut(CallKey) -> crate::Result<Option<bool>>,
    ) -> crate::Result<bool> {
        if writes.iter().all(|write| matches!(write, LetterWrite::Insert(_))) {
            return Ok(true);
        }
        let mut known: BTreeMap<CallKey, bool> = BTreeMap::new();
        for write in writes {
            let call = write.call();
            let is_open = match known.get(&call) {
                Some(is_open) => Some(*is_open),
                None => stored(call)?,
            };
            let is_open = match (write, is_open) {
                (LetterWrite::Insert(letter), is_open) => {
                    is_open.unwrap_or(letter.state == LetterState::Open)
                }
                (LetterWrite::Settle { state, .. }, Some(true)) => *state == LetterState::Open,
                (LetterWrite::Settle { .. }, _) => return Ok(false),
            };
            known.insert(call, is_open);
        }
        Ok(true)
    }
}

/// Which dead letters to list.
///
/// ```
/// use resurgam_store::{DeadLetterFilter, LetterState};
///
/// let charges = DeadLetterFilter {
///     activity: Some("charge".to_string()),
///     ..DeadLetterFilter::default()
/// };
/// assert_eq!(charges.state, LetterState::Open);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    /// Only those of which this became; the open ones, unless set.
    pub state: LetterState,
    /// Only of this group.
    pub fingerprint: Option<String>,
    /// Only of this activity.
    pub activity: Option<String>,
    /// Only those that were given up at this time or later.
    pub since: Option<Timestamp>,
    /// Only of the instances of these ids; empty for all.
    pub ids: Vec<String>,
    /// Only of this workflow.
    pub workflow: Option<String>,
    /// Only of this queue.
    pub queue: Option<String>,
    /// Only those that failed with this type, or with one that descends from it.
    pub failure_type: Option<String>,
    /// Only those that failed with this code.
    pub failure_code: Option<String>,
    /// Only those that a list has behind this place: the next page.
    pub after: Option<CallCursor>,
    /// At most this many; 0 means 100.
    pub limit: usize,
}

impl DeadLetterFilter {
    /// True when no index helps to find them: every letter that is chosen otherwise is looked at.
    #[doc(hidden)]
    pub fn looks_at_each(&self) -> bool {
        let names = [&self.workflow, &self.queue, &self.failure_type, &self.failure_code];
        !self.ids.is_empty() || names.iter().any(|name| name.is_some())
    }

    /// True when a letter that is chosen otherwise is among them.
    #[doc(hidden)]
    pub fn has(&self, letter: &LetterHead) -> bool {
        (self.ids.is_empty() || self.ids.contains(&letter.instance))
            && self.workflow.as_ref().is_none_or(|workflow| letter.workflow == *workflow)
            && self.queue.as_ref().is_none_or(|queue| letter.queue == *queue)
            && is_of_kind(
                Some(&letter.failure),
                self.failure_type.as_ref(),
                self.failure_code.as_ref(),
            )
    }

    /// How many are listed at most.
    #[doc(hidden)]
    pub fn most(&self) -> usize {
        if self.limit == 0 { LIMIT } else { self.limit }
    }
}

/// What a filter is asked about a dead letter, without its arguments and its attempts.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq)]
pub struct LetterHead {
    pub place: CallCursor,
    pub instance: String,
    pub workflow: String,
    pub activity: String,
    pub queue: String,
    pub failure: Failure,
    pub fingerprint: String,
    pub error: String,
}

impl LetterHead {
    /// What a filter is asked about a letter.
    pub fn of(letter: &DeadLetter) -> Self {
        LetterHead {
            place: CallCursor::of_letter(letter),
            instance: letter.instance.clone(),
            workflow: letter.workflow.clone(),
            activity: letter.activity.clone(),
            queue: letter.queue.clone(),
            failure: letter.failure.clone(),
            fingerprint: letter.fingerprint.clone(),
            error: letter.error.clone(),
        }
    }

    /// A group of one.
    pub fn group(self) -> CallGroup {
        CallGroup {
            fingerprint: self.fingerprint,
            activity: self.activity,
            error: self.error,
            count: 1,
            oldest: self.place.at,
            newest: self.place.at,
            example: self.place.call,
            instance: self.instance,
        }
    }
}

/// Groups of one by their fingerprints, the largest group first; at most [`GROUPS`].
#[doc(hidden)]
pub fn grouped(ones: impl IntoIterator<Item = CallGroup>) -> Vec<CallGroup> {
    let mut groups: BTreeMap<String, CallGroup> = BTreeMap::new();
    for one in ones {
        let Some(group) = groups.get_mut(&one.fingerprint) else {
            groups.insert(one.fingerprint.clone(), one);
            continue;
        };
        let (count, oldest) = (group.count + 1, group.oldest.min(one.oldest));
        if (one.newest, one.example) > (group.newest, group.example) {
            *group = one;
        }
        (group.count, group.oldest) = (count, oldest);
    }
    let mut groups: Vec<CallGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| Reverse(group.count));
    groups.truncate(GROUPS);
    groups
}

/// Which paused calls to list.
///
/// ```
/// use resurgam_store::PausedFilter;
///
/// let charges = PausedFilter { activity: Some("charge".to_string()), ..PausedFilter::default() };
/// assert_eq!(charges.fingerprint, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PausedFilter {
    /// Only of this group.
    pub fingerprint: Option<String>,
    /// Only of this activity.
    pub activity: Option<String>,
    /// Only those that were paused at this time or later.
    pub since: Option<Timestamp>,
    /// Only those that a list has behind this place: the next page.
    pub after: Option<CallCursor>,
    /// At most this many; 0 means 100.
    pub limit: usize,
}

impl PausedFilter {
    /// How many are listed at most.
    #[doc(hidden)]
    pub fn most(&self) -> usize {
        if self.limit == 0 { LIMIT } else { self.limit }
    }
}

/// A call that is paused.
#[derive(Clone, Debug, PartialEq)]
pub struct PausedCall {
    /// The task, which says why.
    pub task: TaskRow,
    /// The id of its instance.
    pub instance: String,
    /// The workflow of its instance.
    pub workflow: String,
}

impl PausedCall {
    /// Since when it is paused.
    pub fn since(&self) -> Timestamp {
        let pause = self.task.progress.paused.as_deref();
        pause.and_then(|pause| pause.since).unwrap_or(Timestamp::EPOCH)
    }
}

/// What calls that failed in the same way have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallGroup {
    /// Their fingerprint.
    pub fingerprint: String,
    /// Their activity.
    pub activity: String,
    /// The problem in words, without what differs from call to call.
    pub error: String,
    /// How many there are.
    pub count: u64,
    /// When the first of them was given up, or paused.
    pub oldest: Timestamp,
    /// When the last of them was.
    pub newest: Timestamp,
    /// The last of them.
    pub example: CallKey,
    /// The id of its instance.
    pub instance: String,
}

/// A place in a list of dead letters or paused calls: behind this one.
///
/// ```
/// use resurgam_core::{RunKey, Seq, Timestamp, Uid};
/// use resurgam_store::CallCursor;
///
/// let call = RunKey::first(Uid(7)).call(Seq(2));
/// let cursor = CallCursor { at: Timestamp::from_millis(1_794_733_200_000), call };
/// assert_eq!(cursor.to_string(), "1794733200000-00000000000000000000000000000007.1.2");
/// assert_eq!(cursor.to_string().parse(), Ok(cursor));
/// assert!("yesterday".parse::<CallCursor>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallCursor {
    /// When the call was given up, or paused.
    pub at: Timestamp,
    /// Which of those.
    pub call: CallKey,
}

impl CallCursor {
    /// The place behind everything that a list begins with.
    #[doc(hidden)]
    pub const FIRST: CallCursor = CallCursor {
        at: Timestamp::from_millis(i64::MAX),
        call: CallKey {
            run: RunKey { uid: Uid(u128::MAX), run: u32::MAX },
            seq: Seq(i64::MAX as u64),
        },
    };

    /// The place behind this letter.
    pub fn of_letter(letter: &DeadLetter) -> Self {
        CallCursor { at: letter.at, call: letter.call }
    }

    /// The place behind this paused call.
    pub fn of_paused(call: &PausedCall) -> Self {
        CallCursor { at: call.since(), call: call.task.call }
    }
}

impl fmt::Display for CallCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CallKey { run, seq } = self.call;
        write!(f, "{}-{}.{}.{seq}", self.at.as_millis(), run.uid, run.run)
    }
}

/// The error is the rest of a sentence that begins with the text.
impl FromStr for CallCursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            // From the end, because the time may begin with a sign.
            let (time, call) = text.rsplit_once('-')?;
            let mut parts = call.splitn(3, '.');
            let uid = parts.next().filter(|uid| uid.len() == 32)?;
            let uid = Uid(u128::from_str_radix(uid, 16).ok()?);
            let run = RunKey { uid, run: parts.next()?.parse().ok()? };
            let call = run.call(Seq(parts.next()?.parse().ok()?));
            Some(CallCursor { at: Timestamp::from_millis(time.parse().ok()?), call })
        };
        read().ok_or_else(|| "is no place in a list; take the one that a list ends with".into())
    }
}

/// A row of a letter's ledger, as it is stored with the letter.
#[derive(Serialize, Deserialize)]
struct StoredAttempt {
    attempt: u32,
    outcome: String,
    started_at: i64,
    ended_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<Failure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    #[serde(default)]
    why: String,
}

/// The ledger of a letter as it is stored.
#[doc(hidden)]
pub fn ledger_to_stored(ledger: &[AttemptRow]) -> String {
    let stored = |row: &AttemptRow| StoredAttempt {
        attempt: row.attempt,
        outcome: row.outcome.name().to_string(),
        started_at: row.started_at.as_millis(),
        ended_at: row.ended_at.as_millis(),
        failure: row.failure.clone(),
        delay_ms: row.delay_ms,
        why: row.why.clone(),
    };
    let rows: Vec<StoredAttempt> = ledger.iter().map(stored).collect();
    serde_json::to_string(&rows).expect("a ledger holds nothing that JSON cannot")
}

/// Reads what [`ledger_to_stored`] wrote, for this call of this activity.
#[doc(hidden)]
pub fn ledger_from_stored(
    text: &str,
    call: CallKey,
    activity: &str,
) -> Result<Vec<AttemptRow>, String> {
    let rows: Vec<StoredAttempt> =
        serde_json::from_str(text).map_err(|error| format!("the ledger: {error}"))?;
    let read = |row: StoredAttempt| {
        let outcome = AttemptOutcome::named(&row.outcome);
        Ok(AttemptRow {
            call,
            name: activity.to_string(),
            attempt: row.attempt,
            outcome: outcome.ok_or_else(|| format!("the outcome {:?} is unknown", row.outcome))?,
            started_at: Timestamp::from_millis(row.started_at),
            ended_at: Timestamp::from_millis(row.ended_at),
            failure: row.failure,
            delay_ms: row.delay_ms,
            why: row.why,
        })
    };
    rows.into_iter().map(read).collect()
}
