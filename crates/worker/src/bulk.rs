//! A bulk job, read: what it is about, what it does, how far it has come, and what follows.
//!
//! Pure: the caller brings the time. The stored forms are read leniently.

mod letters;
mod runs;

use std::fmt;
use std::time::Duration;

use resurgam_core::action::{Action, ActionAnswer, Reset, ResetTo};
use resurgam_core::{CallKey, RunKey, Seq, Timestamp, Uid};
use resurgam_store::rows::{ActionRequest, Message, MessageRow, Status, TaskRow};
use resurgam_store::{AskedAnswer, BulkRow, CallFilter, CallStatus};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub(crate) use letters::RunAgain;
pub use letters::{LetterFilter, redriven_id};
pub use runs::RunFilter;

/// How many refused calls a job lists; the others it only counts.
pub const LISTED: usize = 1_000;

/// The most calls that a job tries first.
pub const MOST_FIRST: u32 = 100;

/// How long before its time a call is asked for at most, where calls are spread over a time; and
/// half of that at least, so that a page has many of them.
const LEAD: Duration = Duration::from_millis(500);

/// How late a job may be before it counts its time anew: whoever was stopped for an hour must not
/// make up for that in a moment.
const LATE: Duration = Duration::from_secs(5);

/// What a bulk job is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BulkTarget {
    /// Open activity calls.
    Calls(CallFilter),
    /// Runs.
    Runs(RunFilter),
    /// Dead letters.
    Letters(LetterFilter),
}

/// How a job goes about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BulkOptions {
    /// At most so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The time that all of them take together.
    #[serde(skip_serializing_if = "Duration::is_zero", with = "millis")]
    pub spread: Duration,
    /// How many are tried first; the others only if these succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u32>,
    /// A resume counts the failures of calls that used up their attempts from 0.
    pub resets_exhausted: bool,
    /// What the due times are drawn from.
    pub seed: u64,
    /// How many matched when the job was made.
    pub expected: u64,
}

mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Ok(Duration::from_millis(u64::deserialize(from)?))
    }
}

/// How far a job has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BulkCounts {
    /// How many matched so far: for so many the action was asked for.
    pub matched: u64,
    /// How many of them changed.
    pub changed: u64,
    /// How many changed nothing.
    pub refused: u64,
    /// The first of those, each with the reason.
    pub listed: Vec<Refused>,
    /// From when on time is counted, and how many were asked for by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    anchor: Option<(Timestamp, u64)>,
    /// Nothing else matches.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    at_end: bool,
    /// Where it stands with those that are tried first.
    #[serde(skip_serializing_if = "Trial::is_ahead")]
    trial: Trial,
}

/// A call, or a run, that an action changed nothing about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Which: `UID.RUN.SEQ`; of a run, the place is 0.
    pub call: String,
    /// Why.
    pub why: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Trial {
    #[default]
    Ahead,
    /// The first ones were asked for, and their outcome is not known.
    Waits,
    Over,
}

impl Trial {
    fn is_ahead(&self) -> bool {
        *self == Trial::Ahead
    }
}

/// A call that was asked for, as it stood then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sent {
    #[serde(with = "call_text")]
    pub(crate) call: CallKey,
    #[serde(default, skip_serializing_if = "is_zero")]
    failures: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

mod call_text {
    use resurgam_core::CallKey;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(call: &CallKey, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::call_to_text(*call))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<CallKey, D::Error> {
        let text = String::deserialize(from)?;
        super::call_of_text(&text)
            .ok_or_else(|| serde::de::Error::custom(format!("{text:?} is no call")))
    }
}

/// A call as `UID.RUN.SEQ`.
pub(crate) fn call_to_text(call: CallKey) -> String {
    format!("{}.{}.{}", call.run.uid, call.run.run, call.seq)
}

/// The call that such a text names.
pub(crate) fn call_of_text(text: &str) -> Option<CallKey> {
    let mut parts = text.splitn(3, '.');
    let uid = parts.next().filter(|uid| uid.len() == 32)?;
    let uid = Uid(u128::from_str_radix(uid, 16).ok()?);
    let run = RunKey { uid, run: parts.next()?.parse().ok()? };
    Some(run.call(Seq(parts.next()?.parse().ok()?)))
}

/// A bulk job.
#[derive(Clone, Debug, PartialEq)]
pub struct BulkJob {
    /// Its id.
    pub id: String,
    /// What it is about.
    pub target: BulkTarget,
    /// What is done to each.
    pub action: Action,
    /// How it goes about it.
    pub options: BulkOptions,
    /// How far it has come.
    pub counts: BulkCounts,
    /// Who wants it.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
    /// Who stopped it.
    pub stopped_by: Option<String>,
    /// Why it ended before it was done.
    pub error: Option<String>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it was over.
    pub closed_at: Option<Timestamp>,
    pub(crate) cursor: Option<String>,
    pub(crate) page: Vec<Sent>,
}

/// Where a bulk job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkState {
    /// It goes on.
    Running,
    /// Somebody stopped it, and what was asked for last is not answered yet.
    Stopping,
    /// Everything that matched was asked for.
    Done,
    /// Somebody stopped it.
    Stopped,
    /// It ended before it was done: those that were tried first did not succeed.
    Failed,
}

impl BulkState {
    /// The name that is shown.
    pub const fn name(self) -> &'static str {
        match self {
            BulkState::Running => "running",
            BulkState::Stopping => "stopping",
            BulkState::Done => "done",
            BulkState::Stopped => "stopped",
            BulkState::Failed => "failed",
        }
    }

    /// True when nothing further will happen.
    pub const fn is_over(self) -> bool {
        !matches!(self, BulkState::Running | BulkState::Stopping)
    }
}

/// What a job does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It looks what came of what was asked for.
    Look,
    /// It looks whether those that were tried first have succeeded.
    Try,
    /// It asks for so many more.
    Ask(usize),
    /// It waits until then.
    Wait(Timestamp),
    /// It is over.
    End,
}

/// Something that a job is to ask for.
#[derive(Clone, Debug)]
pub struct ToAsk {
    pub call: CallKey,
    /// Failures of the call so far.
    pub failures: u32,
    /// The call is paused because its attempts were used up.
    pub is_exhausted: bool,
    /// Where the activity of a dead letter runs once more by itself: what begins that, or why it
    /// cannot.
    pub again: Option<Result<Box<RunAgain>, String>>,
}

impl ToAsk {
    pub(crate) fn of_task(task: &TaskRow) -> Self {
        let paused = task.progress.paused.as_ref();
        ToAsk {
            call: task.call,
            failures: task.progress.failures,
            is_exhausted: paused.is_some_and(|pause| pause.stopped.is_some()),
            again: None,
        }
    }

    pub(crate) fn of_run(run: RunKey) -> Self {
        ToAsk { call: run.call(Seq::RUN), failures: 0, is_exhausted: false, again: None }
    }

    pub(crate) fn of_letter(call: CallKey) -> Self {
        ToAsk { call, failures: 0, is_exhausted: false, again: None }
    }
}

/// Whose outcome a job waits for before it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToTry {
    /// A call.
    Call(CallKey),
    /// What a run that goes on from a place in the one before it asks for there: its first call or
    /// child from that place on.
    AtCut(RunKey),
    /// A run.
    Run(RunKey),
    /// The instance that began again in place of this one, by the request of this id.
    Restarted { uid: Uid, request: String },
}

/// What became of one that was tried first.
#[derive(Clone, Debug)]
pub enum Tried {
    /// It is open. A call may be one that its run is about to make, or to hear the end of.
    Ahead,
    /// It is a call that has not ended.
    Open(Box<TaskRow>),
    Completed,
    /// It failed, or is gone; for people.
    Failed(String),
}

/// What those that were tried first come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Waits,
    Succeeded,
    Failed(String),
}

impl BulkJob {
    /// A job of which nothing is done.
    #[doc(hidden)]
    pub fn new(id: String, target: BulkTarget, action: Action, now: Timestamp) -> Self {
        BulkJob {
            id,
            target,
            action,
            options: BulkOptions::default(),
            counts: BulkCounts::default(),
            by: String::new(),
            reason: None,
            stopped_by: None,
            error: None,
            created_at: now,
            closed_at: None,
            cursor: None,
            page: Vec::new(),
        }
    }

    /// Reads a stored job. The error says what cannot be read.
    pub(crate) fn read(row: &BulkRow) -> Result<Self, String> {
        fn json<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, String> {
            serde_json::from_str(text).map_err(|error| format!("its {what}: {error}"))
        }
        Ok(BulkJob {
            id: row.id.clone(),
            target: json("filter", &row.filter)?,
            action: Action::from_stored(&row.action, None)?,
            options: json("options", &row.options)?,
            counts: json("counts", &row.counts)?,
            by: row.by.clone(),
            reason: row.reason.clone(),
            stopped_by: row.stopped_by.clone(),
            error: row.error.clone(),
            created_at: row.created_at,
            closed_at: row.closed_at,
            cursor: row.cursor.clone(),
            page: json("page", &row.page)?,
        })
    }

    /// The stored form.
    pub(crate) fn to_row(&self) -> BulkRow {
        fn json(value: &impl Serialize) -> String {
            serde_json::to_string(value).expect("a job holds nothing that JSON cannot")
        }
        BulkRow {
            id: self.id.clone(),
            filter: json(&self.target),
            action: self.action.to_stored().0,
            options: json(&self.options),
            cursor: self.cursor.clone(),
            counts: json(&self.counts),
            page: json(&self.page),
            by: self.by.clone(),
            reason: self.reason.clone(),
            stopped_by: self.stopped_by.clone(),
            error: self.error.clone(),
            created_at: self.created_at,
            closed_at: self.closed_at,
        }
    }

    /// Where it stands.
    pub fn state(&self) -> BulkState {
        match (self.closed_at, &self.error, &self.stopped_by) {
            (None, _, None) => BulkState::Running,
            (None, _, Some(_)) => BulkState::Stopping,
            (Some(_), Some(_), _) => BulkState::Failed,
            (Some(_), None, Some(_)) => BulkState::Stopped,
            (Some(_), None, None) => BulkState::Done,
        }
    }

    /// What those who wait for it look at: nothing else has this uid.
    pub(crate) fn watched_as(id: &str) -> Uid {
        Uid(0).placed(id)
    }

    /// What it does next. A page has at most so many calls.
    pub(crate) fn next(&mut self, now: Timestamp, page: usize) -> Next {
        if !self.page.is_empty() && !self.is_counted() {
            return Next::Look;
        }
        if self.counts.trial == Trial::Waits && self.stopped_by.is_none() {
            return Next::Try;
        }
        let page = match self.action {
            Action::RedriveAsNew => page.min(letters::STARTED),
            _ => page,
        };
        let left = self.options.limit.map(|most| most.saturating_sub(self.counts.matched));
        if self.stopped_by.is_some() || self.counts.at_end || left == Some(0) {
            return Next::End;
        }
        let mut most = left.map_or(page, |left| usize::try_from(left).unwrap_or(page).min(page));
        if let Some(first) = self.options.first.filter(|_| self.counts.trial == Trial::Ahead) {
            most = most.min(first as usize);
        }
        match self.due(now) {
            Ok(due) => Next::Ask(most.min(due).max(1)),
            Err(at) => Next::Wait(at),
        }
    }

    /// True when everything that was asked for is counted. Those that are tried first stay on the
    /// page until their outcome is known.
    fn is_counted(&self) -> bool {
        self.counts.matched == self.counts.changed + self.counts.refused
    }

    /// How many are due by now; the error says when the next one is.
    fn due(&mut self, now: Timestamp) -> Result<usize, Timestamp> {
        if self.options.spread.is_zero() {
            return Ok(usize::MAX);
        }
        let next = self.counts.matched;
        let late = |at: Timestamp| now.since(at) > LATE;
        if self.counts.anchor.is_none() || late(self.slot(next)) {
            self.counts.anchor = Some((now, next));
        }
        let begins = self.slot(next);
        if begins > now.saturating_add(LEAD / 2) {
            return Err(begins.saturating_sub(LEAD / 2));
        }
        let width = self.width().as_nanos().max(1);
        let ahead = now.saturating_add(LEAD).since(begins).as_nanos() / width;
        Ok(usize::try_from(ahead).unwrap_or(usize::MAX).saturating_add(1))
    }

    /// The part of the time that each has.
    fn width(&self) -> Duration {
        let count = self.options.expected.min(self.options.limit.unwrap_or(u64::MAX)).max(1);
        self.options.spread / u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// When the part of the nth begins.
    fn slot(&self, nth: u64) -> Timestamp {
        let (at, from) = self.counts.anchor.unwrap_or((self.created_at, 0));
        let nth = u32::try_from(nth.saturating_sub(from)).unwrap_or(u32::MAX);
        at.saturating_add(self.width().saturating_mul(nth))
    }

    /// When the nth is due: a time in its part that follows from the seed.
    fn draw(&self, nth: u64, call: CallKey) -> Option<Timestamp> {
        if self.options.spread.is_zero() {
            return None;
        }
        let width = u64::try_from(self.width().as_millis()).unwrap_or(u64::MAX).max(1);
        let bits = (call.run.uid.0 >> 64) as u64 ^ call.run.uid.0 as u64 ^ call.seq.0;
        let drawn = mix(self.options.seed ^ mix(bits ^ u64::from(call.run.run))) % width;
        Some(self.slot(nth).saturating_add(Duration::from_millis(drawn)))
    }

    /// What it is about was read, and this much of it is asked for: answers with the messages.
    /// `go_on` is where the next page begins; `None` when there is none.
    pub(crate) fn asks(
        &mut self,
        found: Vec<ToAsk>,
        go_on: Option<String>,
        now: Timestamp,
    ) -> Vec<MessageRow> {
        self.passes(go_on);
        let mut messages = Vec::with_capacity(found.len());
        for asked in found {
            let due = self.draw(self.counts.matched, asked.call);
            self.counts.matched += 1;
            messages.push(self.message(&asked, due, now));
            self.page.push(Sent { call: asked.call, failures: asked.failures });
        }
        if self.options.first.is_some() && self.counts.trial == Trial::Ahead {
            self.counts.trial = Trial::Waits;
        }
        messages
    }

    /// Nothing matched up to here.
    pub(crate) fn passes(&mut self, go_on: Option<String>) {
        self.counts.at_end = go_on.is_none();
        self.cursor = go_on.or(self.cursor.take());
    }

    fn message(&self, asked: &ToAsk, due: Option<Timestamp>, now: Timestamp) -> MessageRow {
        let ToAsk { call, is_exhausted, .. } = *asked;
        let action = match &self.action {
            Action::Retry { reset, .. } => Action::Retry { reset: *reset, due },
            Action::Resume { reset, .. } => {
                let resets = self.options.resets_exhausted && is_exhausted;
                Action::Resume { reset: *reset || resets, due }
            }
            Action::Redrive(_) => self.redrives(call, due, now),
            other => other.clone(),
        };
        let id = self.request_id(call);
        let (by, reason) = (self.by.clone(), self.reason.clone());
        let activity = letters::asked_of(&action, call);
        let request = Box::new(ActionRequest { id: id.clone(), by, reason, action });
        let body = Message::Action { run: call.run.run, activity, request };
        let id = MessageRow::action_id(&id);
        MessageRow { uid: call.run.uid, id, due_at: Timestamp::EPOCH, body }
    }

    /// What makes the request for a call the same one, for its instance.
    pub(crate) fn request_id(&self, call: CallKey) -> String {
        format!("bulk/{}/{}.{}", self.id, call.run.run, call.seq)
    }

    /// What was asked for and is not counted, with the ids of the requests.
    pub(crate) fn asked(&self) -> Vec<(CallKey, String)> {
        self.page.iter().map(|sent| (sent.call, self.request_id(sent.call))).collect()
    }

    /// What came of what was asked for. False while something of it waits.
    pub(crate) fn answered(&mut self, answers: Vec<AskedAnswer>) -> bool {
        if answers.contains(&AskedAnswer::Waits) {
            return false;
        }
        let mut refused = None;
        let asked: Vec<CallKey> = self.page.iter().map(|sent| sent.call).collect();
        for (call, answer) in asked.into_iter().zip(answers) {
            let why = match answer {
                AskedAnswer::Answered(ActionAnswer { changed: true, .. }) => {
                    self.counts.changed += 1;
                    continue;
                }
                AskedAnswer::Answered(answer) => answer.text,
                AskedAnswer::Waits | AskedAnswer::Gone => self.is_gone().to_string(),
            };
            refused.get_or_insert_with(|| why.clone());
            self.refused(call, why);
        }
        if self.counts.trial != Trial::Waits {
            self.page.clear();
            return true;
        }
        // Whether it succeeds is only asked of what changed.
        if let Some(why) = refused {
            self.fails_first(&why);
        } else if !self.is_tried() {
            self.tried();
        }
        true
    }

    /// True when those that come first are to succeed, and not only to be done.
    fn is_tried(&self) -> bool {
        matches!(
            self.action,
            Action::Retry { .. }
                | Action::Resume { .. }
                | Action::Redrive(_)
                | Action::Restart
                | Action::Reset(_)
        )
    }

    /// Those that are to succeed before the job goes on. A call that is redriven has the same place
    /// in the run that follows.
    ///
    /// | action                                 | what is to succeed                         |
    /// |----------------------------------------|--------------------------------------------|
    /// | `retry`, `resume`                      | the next attempt of the call               |
    /// | `redrive`, `redrive_as_new`            | the first attempt of the call made anew    |
    /// | `reset` to the last failure, or a call | the first attempt of what is made there    |
    /// | `reset` to an event                    | the run that follows                       |
    /// | `restart`                              | the first run of the instance that follows |
    ///
    /// The last failure, or the call, is what somebody has mended, and it shows soon whether that
    /// helped. Of an event nobody knows what it is about.
    pub(crate) fn to_try(&self) -> Vec<ToTry> {
        let next = |run: RunKey| RunKey { run: run.run.saturating_add(1), ..run };
        let of = |Sent { call, .. }: &Sent| match &self.action {
            Action::Redrive(_) => ToTry::Call(next(call.run).call(call.seq)),
            Action::Reset(Reset { to: ResetTo::LastFailure | ResetTo::Before(_), .. }) => {
                ToTry::AtCut(next(call.run))
            }
            Action::Reset(Reset { to: ResetTo::Event(_), .. }) => ToTry::Run(next(call.run)),
            Action::Restart => {
                ToTry::Restarted { uid: call.run.uid, request: self.request_id(*call) }
            }
            _ => ToTry::Call(*call),
        };
        self.page.iter().map(of).collect()
    }

    /// Why nothing came of what was asked for.
    fn is_gone(&self) -> &'static str {
        match self.target {
            BulkTarget::Letters(_) => "its instance was deleted",
            _ => "it ended with its run before anybody could act",
        }
    }

    fn refused(&mut self, call: CallKey, why: String) {
        self.counts.refused += 1;
        if self.counts.listed.len() < LISTED {
            self.counts.listed.push(Refused { call: call_to_text(call), why });
        }
    }

    fn tried(&mut self) {
        self.counts.trial = Trial::Over;
        self.page.clear();
    }

    fn fails_first(&mut self, why: &str) {
        self.tried();
        let first = self.counts.matched;
        self.error = Some(format!("of the first {first}, not all succeeded: {why}"));
        self.counts.at_end = true;
    }

    /// Those that were tried first were looked at.
    pub(crate) fn judges(&mut self, found: &[Tried]) -> Verdict {
        let resets = matches!(
            self.action,
            Action::Retry { reset: true, .. }
                | Action::Resume { reset: true, .. }
                | Action::Redrive(_)
                | Action::RedriveAsNew
                | Action::Reset(_)
        );
        let mut verdict = Verdict::Succeeded;
        for (sent, found) in self.page.iter().zip(found) {
            match found {
                Tried::Completed => {}
                Tried::Failed(why) => {
                    verdict = Verdict::Failed(why.clone());
                    break;
                }
                Tried::Open(task) if has_failed(task, sent, resets) => {
                    let name = format!("{}#{}", task.name, task.call.seq);
                    verdict = Verdict::Failed(format!("{name} failed again"));
                    break;
                }
                Tried::Open(_) | Tried::Ahead => verdict = Verdict::Waits,
            }
        }
        match &verdict {
            Verdict::Waits => {}
            Verdict::Succeeded => self.tried(),
            Verdict::Failed(why) => self.fails_first(&why.clone()),
        }
        verdict
    }
}

/// What came of it so far, in one line.
impl fmt::Display for BulkJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BulkCounts { matched, changed, refused, .. } = self.counts;
        let what = match &self.target {
            BulkTarget::Calls(_) => "call",
            BulkTarget::Runs(_) => "run",
            BulkTarget::Letters(_) => "dead letter",
        };
        let done = match &self.action {
            Action::Redrive(_) | Action::RedriveAsNew => "redriven",
            Action::Discard => "discarded",
            _ => "changed",
        };
        let plural = if changed == 1 { "" } else { "s" };
        write!(f, "{changed} {what}{plural} {done}")?;
        if refused > 0 {
            write!(f, "; {refused} refused")?;
        }
        match (self.state(), &self.error, &self.stopped_by) {
            (BulkState::Failed, Some(error), _) => write!(f, "; {error}"),
            (BulkState::Stopped, _, Some(by)) => write!(f, "; stopped by {by}"),
            (BulkState::Done, ..) if matched == 0 => f.write_str("; nothing matched"),
            (BulkState::Running | BulkState::Stopping, ..) if matched == 0 => {
                write!(f, "; stored as {}: no worker has taken it up yet", self.id)
            }
            (BulkState::Running | BulkState::Stopping, ..) => {
                write!(f, "; {} goes on", self.id)
            }
            _ => Ok(()),
        }
    }
}

/// True when a call that was tried has failed since.
fn has_failed(task: &TaskRow, sent: &Sent, resets: bool) -> bool {
    let paused = task.progress.paused.as_ref();
    let is_exhausted = paused.is_some_and(|pause| pause.stopped.is_some());
    let before = if resets { 0 } else { sent.failures };
    // A resume that counts from 0 may have been asked for one that was exhausted.
    let has_more = task.progress.failures > before
        || (task.progress.failures > 0 && task.progress.failures < sent.failures);
    task.claim.is_none() && (is_exhausted || has_more)
}

/// Spreads bits evenly (the last step of SplitMix64).
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// The statuses that an action is for, where nobody names any.
pub(crate) fn statuses_for(action: &Action) -> (Option<CallStatus>, Vec<Status>) {
    match action {
        Action::Retry { .. } => (Some(CallStatus::Waiting), Vec::new()),
        Action::Resume { .. } => (Some(CallStatus::Paused), Vec::new()),
        Action::PauseRun { .. } => (None, vec![Status::Running, Status::Blocked]),
        Action::ResumeRun => (None, vec![Status::Paused]),
        Action::Restart | Action::Reset(_) => (None, vec![Status::Failed]),
        _ => (None, Vec::new()),
    }
}

#[cfg(test)]
mod tests;
