//! Looking at instances: lists, descriptions, histories, attempts.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::duration::Human;
use resurgam_core::event::{ActivityCompleted, ActivityFailed};
use resurgam_core::history::{self, ActionLine, AttemptLine, Printing, Times};
use resurgam_core::retry::{Counters, Limit, RetryPolicy, Timeouts};
use resurgam_core::{Event, EventKind, RunKey, Seq, Timestamp, Uid};
use resurgam_store::RemoteActivity;
use resurgam_store::rows::{
    ActionRow, AttemptRow, Heartbeat, InstanceFilter, InstanceRow, KvRow, Message, MessageRow,
    Pause, PolicyOverride, TaskRow,
};
use resurgam_worker::{Error, Result};
use serde::de::DeserializeOwned;

use crate::Client;
use crate::gates::{GateStatus, Held, held_by};

/// Of how many calls of an instance it is counted how many are due before them.
const AHEAD: usize = 20;

/// An instance with what it is waiting for.
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam::{InstanceFilter, WaitsFor};
/// use std::time::Duration;
///
/// #[activity(retry = RetryPolicy::fixed(Duration::from_secs(3_600)).max_attempts(5))]
/// async fn fetch() -> Result<u64, Failure> {
///     Err(Failure::of_type("Down", "no answer"))
/// }
///
/// #[workflow]
/// async fn import(ctx: WorkflowContext) -> Result<u64, Failure> {
///     ctx.set_status("fetches");
///     ctx.set("source", "ftp");
///     ctx.call(fetch()).await
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), resurgam::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("app.db");
/// let app = App::builder().workflow(import).activity(fetch).sqlite(&file).await?;
/// app.start("import-1", import()).await?;
/// let status: String = app.wait_for_status("import-1", |s: &String| s == "fetches").await?;
/// let source: String = app.wait_for_value("import-1", "source", |_: &String| true).await?;
/// assert_eq!((status.as_str(), source.as_str()), ("fetches", "ftp"));
/// assert_eq!(app.status::<String>("import-1").await?, Some(status));
/// assert_eq!(app.value::<String>("import-1", "source").await?, Some(source));
///
/// // What is retrying, why, and when next.
/// let retrying = InstanceFilter { retrying: true, ..InstanceFilter::default() };
/// while app.list(retrying.clone()).await?.is_empty() {
///     tokio::time::sleep(Duration::from_millis(5)).await;
/// }
/// let description = app.describe("import-1").await?.expect("it was started");
/// let call = &description.pending[0];
/// assert_eq!((call.activity.as_str(), call.attempt), ("fetch", 1));
/// assert_eq!(call.max_attempts().map(|limit| limit.to_string()).as_deref(), Some("5"));
/// assert_eq!(call.waits_for, Some(WaitsFor::Backoff));
/// assert_eq!(call.waits_for.map(WaitsFor::name), Some("backoff"));
/// assert!(call.next_due > call.last.as_ref().map(|last| last.ended_at));
///
/// // The ledger, the history as data, and the history as text.
/// assert_eq!(app.attempts("import-1").await?[0].failure.as_ref().unwrap().message, "no answer");
/// assert!(app.events("import-1").await?[0].at >= description.instance.created_at);
/// let history = app.history("import-1").await?.expect("it was started");
/// assert!(history.contains("attempt 1 failed: Down: no answer; again in"));
/// assert_eq!(app.run_history("import-1", 1).await?, Some(history));
/// assert!(app.find("import-2").await?.is_none());
/// # app.stop().await
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// The instance.
    pub instance: InstanceRow,
    /// Its unfinished activity calls.
    pub pending: Vec<PendingCall>,
    /// The names of the signals that it has not read, in order of arrival.
    pub unread: Vec<String>,
    /// When its timers fire, the next one first.
    pub timers: Vec<Timestamp>,
    /// True before its first turn: somebody who does not work on it has started it, and no process
    /// that works has taken it up.
    pub waits_for_first_turn: bool,
    /// Somebody has asked its current run to end. It stays so when the run returned a value all the
    /// same, and completed.
    pub cancel_requested: bool,
}

/// An unfinished activity call, and what an operator wants to know about it.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingCall {
    /// The activity.
    pub activity: String,
    /// Its place in the history.
    pub seq: Seq,
    /// Where it runs.
    pub queue: String,
    /// Higher goes first among calls that are due.
    pub priority: i32,
    /// The policy that decides about it, `None` when it cannot be read: the one that an operator
    /// set for it, or for its activity, or else the one it was scheduled with.
    pub policy: Option<Arc<RetryPolicy>>,
    /// The attempt that runs, or ran last; 0 before the first.
    pub attempt: u32,
    /// How the attempts so far ended.
    pub counters: Counters,
    /// True while an attempt runs.
    pub running: bool,
    /// When that attempt began.
    pub started_at: Option<Timestamp>,
    /// When the next attempt is due, while none runs.
    pub next_due: Option<Timestamp>,
    /// Why no attempt runs.
    pub waits_for: Option<WaitsFor>,
    /// When a timeout ends what it does now: the attempt that runs, or the wait for one. A
    /// heartbeat timeout is not told; and the clock of the queue timeout can stand still.
    pub deadline: Option<Timestamp>,
    /// True when the workflow has given the call up and waits to hear how it ended.
    pub cancelled: bool,
    /// What the activity reported last, as far as it is stored.
    pub heartbeat: Option<Heartbeat>,
    /// What the process that looked at it last was missing to run it, such as a key.
    pub lacks: Option<String>,
    /// The key of its gate.
    pub gate: String,
    /// What holds it back while it waits for its gate, or for an operator who resumes its activity
    /// or its queue: `gate stripe (shut 2m ago: 412 of 500 failed; next probe in 18s; 7 calls are
    /// due before it)`. Also while it waits for a slot behind a gate that bounds how much begins.
    pub held_by: Option<String>,
    /// How that gate stands. Of those that are due behind it, [`GateStatus::due`] counts those that
    /// are due before this call.
    pub behind: Option<GateStatus>,
    /// Why it is paused, while it is.
    pub paused: Option<Pause>,
    /// Why it is to be paused when the attempt that runs has failed.
    pub pause_asked: Option<Pause>,
    /// The activity that was called, when its policy had this one take its place.
    pub fallback_of: Option<String>,
    /// How the last attempt ended, when one did.
    pub last: Option<AttemptRow>,
}

impl PendingCall {
    /// How many attempts its policy allows.
    pub fn max_attempts(&self) -> Option<Limit> {
        self.policy.as_ref().map(|policy| policy.max_attempts)
    }
}

/// Why no attempt of a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// The next attempt is not due yet.
    Backoff,
    /// All slots are taken, or nobody works on the store.
    Slot,
    /// The activity is not registered in the process that was asked; where that one only asks
    /// itself, in the process that works.
    Unregistered,
    /// The process that works knows the activity and lacks what this call needs, see
    /// [`PendingCall::lacks`].
    Lacking,
    /// It is due, and its process died three times in a row: a node runs one such call at a time,
    /// so that they do not take each other down.
    Poison,
    /// Somebody who resumes it: it is paused, see [`PendingCall::paused`].
    Operator,
    /// Its gate, or somebody who resumes its activity or its queue, see [`PendingCall::held_by`].
    Gate,
}

impl WaitsFor {
    /// The name that is shown.
    pub const fn name(self) -> &'static str {
        match self {
            WaitsFor::Backoff => "backoff",
            WaitsFor::Slot => "slot",
            WaitsFor::Unregistered => "unregistered",
            WaitsFor::Lacking => "lacking",
            WaitsFor::Poison => "poison",
            WaitsFor::Operator => "operator",
            WaitsFor::Gate => "gate",
        }
    }
}

impl Client {
    /// Instances, the newest first.
    pub async fn list(&self, filter: InstanceFilter) -> Result<Vec<InstanceRow>> {
        let found = self.handle().store().list(filter).await;
        found.map_err(|error| Error::store("list instances", error))
    }

    /// The instance of this id.
    pub async fn find(&self, id: &str) -> Result<Option<InstanceRow>> {
        let _busy = self.handle().busy();
        let found = self.handle().store().find(id).await;
        found.map_err(|error| Error::store(format!("find {id}"), error))
    }

    /// What an instance is waiting for: what is retrying, why, and when next.
    pub async fn describe(&self, id: &str) -> Result<Option<Description>> {
        match self.find(id).await? {
            Some(instance) => self.description(instance).await.map(Some),
            None => Ok(None),
        }
    }

    pub(crate) async fn description(&self, instance: InstanceRow) -> Result<Description> {
        let run = RunKey { uid: instance.uid, run: instance.run };
        let what = format!("describe {}", instance.id);
        let store = self.handle().store();
        let tasks = store.tasks(run).await.map_err(|error| Error::store(&what, error))?;
        let ledger = store.attempts(run).await.map_err(|error| Error::store(&what, error))?;
        let policies = self.policies_of(&tasks).await;
        let policies = policies.map_err(|error| Error::store(&what, error))?;
        let overrides = store.policy_overrides().await;
        let overrides = overrides.map_err(|error| Error::store(&what, error))?;
        let gates = store.gates().await.map_err(|error| Error::store(&what, error))?;
        // The ledger is in order of time, so the last row of a call is the one that stays.
        let last: HashMap<Seq, &AttemptRow> =
            ledger.iter().map(|row| (row.call.seq, row)).collect();
        let (now, mut looked_at) = (self.handle().now(), 0);
        let mut pending = Vec::with_capacity(tasks.len());
        for task in tasks {
            let policy = policies.get(&task.policy).cloned();
            let policy = policy.map(|own| deciding(own, &task, &overrides));
            let last = last.get(&task.call.seq).copied().cloned();
            let due = task.claim.is_none() && task.wake_at <= now;
            let mut held = held_by(&task, &gates, now).filter(|_| due);
            if let Some(held) = held.as_mut().filter(|held| held.gate.is_some())
                && looked_at < AHEAD
            {
                looked_at += 1;
                let ahead = self.handle().due_before(&task.gate, task.wake_at).await?;
                held.comes_after(ahead, now);
            }
            pending.push(self.pending(task, policy, last, held));
        }
        self.says_since_when(&mut pending, now)
            .await
            .map_err(|error| Error::store(&what, error))?;
        let messages = store.messages(instance.uid).await;
        let messages = messages.map_err(|error| Error::store(&what, error))?;
        let timer = |row: &MessageRow| match row.body {
            Message::Timer { run, .. } if run == instance.run => Some(row.due_at),
            _ => None,
        };
        let mut timers: Vec<Timestamp> = messages.iter().filter_map(timer).collect();
        timers.sort_unstable();
        let is_start = |row: &MessageRow| matches!(row.body, Message::Start);
        let waits_for_first_turn = messages.iter().any(is_start);
        let is_cancel = |row: &MessageRow| matches!(row.body, Message::Cancel { .. });
        let cancel_requested = messages.iter().any(is_cancel)
            || store.cancel_requested(run).await.map_err(|error| Error::store(&what, error))?;
        let signal = |row: MessageRow| match row.body {
            Message::Signal { name, .. } => Some(name),
            _ => None,
        };
        let unread = messages.into_iter().filter_map(signal).collect();
        Ok(Description {
            instance,
            pending,
            unread,
            timers,
            waits_for_first_turn,
            cancel_requested,
        })
    }

    /// Says of calls that wait for a remote worker for how long none has offered their activity.
    async fn says_since_when(
        &self,
        pending: &mut [PendingCall],
        now: Timestamp,
    ) -> resurgam_store::Result<()> {
        let waits = |call: &PendingCall| {
            call.lacks.as_ref().is_some_and(|lacks| *lacks == RemoteActivity::lack(&call.activity))
        };
        if !pending.iter().any(waits) {
            return Ok(());
        }
        let offered = self.handle().store().remote_activities().await?;
        for call in pending.iter_mut().filter(|call| waits(call)) {
            let Some(last) = offered.iter().find(|row| row.name == call.activity) else { continue };
            let since = Human(now.since(last.offered_at));
            let lack = RemoteActivity::lack(&call.activity);
            call.lacks = Some(format!("{lack}, which none has offered for {since}"));
        }
        Ok(())
    }

    /// The policies of these tasks that can be read, by their hash. Many tasks share one.
    async fn policies_of(
        &self,
        tasks: &[TaskRow],
    ) -> resurgam_store::Result<HashMap<String, Arc<RetryPolicy>>> {
        let hashes: HashSet<&String> = tasks.iter().map(|task| &task.policy).collect();
        let mut policies = HashMap::new();
        for hash in hashes {
            let row = self.handle().store().policy(hash).await?;
            let policy = row.and_then(|row| RetryPolicy::from_stored(&row.text).ok());
            policies.extend(policy.map(|policy| (hash.clone(), Arc::new(policy))));
        }
        Ok(policies)
    }

    fn pending(
        &self,
        task: TaskRow,
        policy: Option<Arc<RetryPolicy>>,
        last: Option<AttemptRow>,
        held: Option<Held>,
    ) -> PendingCall {
        let started_at = task.claim.as_ref().map(|claim| claim.started_at);
        let timeouts = policy.as_ref().map(|policy| policy.timeouts).unwrap_or_default();
        let waits_for = match started_at {
            Some(_) => None,
            None if task.progress.paused.is_some() => Some(WaitsFor::Operator),
            None if self.is_unregistered(&task) => Some(WaitsFor::Unregistered),
            None if task.progress.lacks.is_some() => Some(WaitsFor::Lacking),
            None if task.wake_at > self.handle().now() => Some(WaitsFor::Backoff),
            None if held.as_ref().is_some_and(|held| held.is_certain) => Some(WaitsFor::Gate),
            None if task.progress.poison => Some(WaitsFor::Poison),
            None => Some(WaitsFor::Slot),
        };
        let is_held = matches!(waits_for, Some(WaitsFor::Gate | WaitsFor::Slot));
        let (held_by, behind) = held.filter(|_| is_held).map(|held| (held.by, held.gate)).unzip();
        PendingCall {
            seq: task.call.seq,
            priority: task.priority,
            policy,
            attempt: task.attempt,
            counters: task.progress.counters(),
            running: started_at.is_some(),
            started_at,
            next_due: Some(task.wake_at).filter(|at| started_at.is_none() && *at != TaskRow::NEVER),
            waits_for,
            deadline: deadline(&task, timeouts),
            cancelled: task.progress.cancelled,
            heartbeat: task.heartbeat,
            lacks: task.progress.lacks,
            gate: task.gate,
            held_by,
            behind: behind.flatten(),
            paused: task.progress.paused.map(|pause| *pause),
            pause_asked: task.progress.pause_asked.map(|pause| *pause),
            fallback_of: task.progress.fallback.map(|of| of.activity),
            last,
            activity: task.name,
            queue: task.queue,
        }
    }

    /// A process that only asks knows no activities: it has what the one that works wrote down.
    fn is_unregistered(&self, task: &TaskRow) -> bool {
        match self.handle().works() {
            true => self.handle().registry().activity(&task.name).is_none(),
            // Before its time nobody has looked, and it may have come.
            false => task.progress.unregistered && task.wake_at <= self.handle().now(),
        }
    }

    /// The history of an instance with its attempts, one line each.
    pub async fn history(&self, id: &str) -> Result<Option<String>> {
        match self.find(id).await? {
            Some(row) => self.history_of(row.uid).await.map(Some),
            None => Ok(None),
        }
    }

    /// The events of an instance's current run; [`EventKind`](crate::EventKind) says what each of
    /// them is.
    pub async fn events(&self, id: &str) -> Result<Vec<Event>> {
        let Some(row) = self.find(id).await? else { return Ok(Vec::new()) };
        let run = RunKey { uid: row.uid, run: row.run };
        let events = self.handle().store().history(run).await;
        events.map_err(|error| Error::store(format!("read the history of {id}"), error))
    }

    /// The attempts of an instance's current run that did not succeed at once: which rule of the
    /// policy matched, what was waited for, and why no other one followed.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam::retry::{Jitter, Match, Matched, Reason, Rule};
    /// use resurgam::{AttemptRow, EventKind};
    /// use resurgam_testing::TestApp;
    /// use std::time::Duration;
    ///
    /// const RULES: &[Rule] = &[Rule::retry(Match::codes(&["429"])).max_attempts(2)];
    /// const POLITE: RetryPolicy =
    ///     RetryPolicy::fixed(Duration::from_secs(60)).jitter(Jitter::None).rules(RULES);
    ///
    /// #[activity(retry = POLITE)]
    /// async fn ask() -> Result<(), Failure> {
    ///     Err(Failure::new("too many requests").with_code("429"))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// let app = TestApp::builder().activity(ask).start().await;
    /// app.submit("ask-1", ask()).await?.failure().await;
    ///
    /// let ledger: Vec<AttemptRow> = app.client().attempts("ask-1").await?;
    /// assert_eq!(ledger[0].matched(), Some(Matched::Rule(0)));
    /// assert_eq!(ledger[0].delay(), Some(Duration::from_secs(60)));
    /// assert_eq!(ledger[0].next_due(), Some(ledger[1].started_at));
    /// assert_eq!((ledger[1].stopped_by(), ledger[1].delay()), (Some(Reason::MaxAttempts), None));
    ///
    /// // The history tells the same when the call is over.
    /// let events = app.client().events("ask-1").await?;
    /// let failed = events.iter().find_map(|event| match &event.kind {
    ///     EventKind::ActivityFailed(failed) => Some(failed),
    ///     _ => None,
    /// });
    /// assert_eq!(failed.unwrap().reason(), Some(Reason::MaxAttempts));
    /// let story = events.iter().find_map(|event| event.kind.retry_metadata()).unwrap();
    /// assert_eq!((story.total_attempts, story.exhausted), (2, true));
    /// assert_eq!(story.total_duration(), Duration::from_secs(60));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn attempts(&self, id: &str) -> Result<Vec<AttemptRow>> {
        let Some(row) = self.find(id).await? else { return Ok(Vec::new()) };
        let run = RunKey { uid: row.uid, run: row.run };
        let trouble = |error| Error::store(format!("read the attempts of {id}"), error);
        // A first run was not begun by a reset, so nothing of it was copied.
        let events = match row.run {
            1 => Vec::new(),
            _ => self.handle().store().history(run).await.map_err(trouble)?,
        };
        self.ledger_of(run, &events).await.map_err(trouble)
    }

    /// The ledger of a run with this history. When a run before it was reset, calls that ended
    /// there are in the copied part of the history, and their attempts are found with the run that
    /// made them.
    pub(crate) async fn ledger_of(
        &self,
        run: RunKey,
        events: &[Event],
    ) -> resurgam_store::Result<Vec<AttemptRow>> {
        let store = self.handle().store();
        let mut ledger = Vec::new();
        if let Some(EventKind::RunStarted(first)) = events.first().map(|event| &event.kind) {
            let mut ended: BTreeMap<u32, BTreeSet<Seq>> = BTreeMap::new();
            for event in events {
                let (EventKind::ActivityCompleted(ActivityCompleted { activity, .. })
                | EventKind::ActivityFailed(ActivityFailed { activity, .. })) = &event.kind
                else {
                    continue;
                };
                let of = first.lineage.run_of(run.run, event.seq);
                if of != run.run {
                    ended.entry(of).or_default().insert(*activity);
                }
            }
            for (of, calls) in ended {
                let rows = store.attempts(RunKey { run: of, ..run }).await?;
                ledger.extend(rows.into_iter().filter(|row| calls.contains(&row.call.seq)));
            }
        }
        ledger.extend(store.attempts(run).await?);
        Ok(ledger)
    }

    /// What operators did to the activity calls of an instance's current run, in order of time.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam_testing::TestApp;
    /// use std::time::Duration;
    ///
    /// #[activity(retry = RetryPolicy::fixed(Duration::from_secs(60)))]
    /// async fn charge() -> Result<(), Failure> {
    ///     Err(Failure::of_type("BankDown", "no answer"))
    /// }
    ///
    /// #[workflow]
    /// async fn order(ctx: WorkflowContext) -> Result<(), Failure> {
    ///     ctx.call(charge()).await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// let app = TestApp::builder().workflow(order).activity(charge).start().await;
    /// app.start("order-42", order()).await;
    /// app.advance(Duration::from_secs(1)).await; // the first attempt has failed
    /// app.client().call("order-42", "charge#2").pause().by("ana").await?;
    ///
    /// let actions = app.client().actions("order-42").await?;
    /// assert_eq!(actions[0].request.by, "ana");
    /// assert!(actions[0].answer.changed);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn actions(&self, id: &str) -> Result<Vec<ActionRow>> {
        let Some(row) = self.find(id).await? else { return Ok(Vec::new()) };
        let run = RunKey { uid: row.uid, run: row.run };
        let actions = self.handle().store().actions(run).await;
        actions.map_err(|error| Error::store(format!("read what was done to {id}"), error))
    }

    /// What an instance told the world with `ctx.set_status`.
    pub async fn status<T: DeserializeOwned>(&self, id: &str) -> Result<Option<T>> {
        self.value(id, KvRow::STATUS).await
    }

    /// An entry of an instance's own data, as `ctx.set` left it.
    pub async fn value<T: DeserializeOwned>(&self, id: &str, key: &str) -> Result<Option<T>> {
        match self.find(id).await? {
            Some(row) => self.value_of(row.uid, id, key).await,
            None => Ok(None),
        }
    }

    /// Waits until an instance tells the world something that is as wanted, and answers with that.
    /// An error when it closes without having told it.
    pub async fn wait_for_status<T: DeserializeOwned>(
        &self,
        id: &str,
        is_wanted: impl Fn(&T) -> bool,
    ) -> Result<T> {
        self.wait_for_value(id, KvRow::STATUS, is_wanted).await
    }

    /// Waits until an entry of an instance's own data is as wanted, and answers with it. An error
    /// when the instance closes without having set it so.
    pub async fn wait_for_value<T: DeserializeOwned>(
        &self,
        id: &str,
        key: &str,
        is_wanted: impl Fn(&T) -> bool,
    ) -> Result<T> {
        let what = format!("wait for the {key} of {id}");
        let row = self.find(id).await?;
        let uid = row.map(|row| row.uid).ok_or_else(|| Error::no_instance(&what))?;
        let mut changed = self.handle().watch(uid).await?;
        loop {
            changed.borrow_and_update();
            let busy = self.handle().busy();
            let row = self.handle().store().instance(uid).await;
            let row = row.map_err(|error| Error::store(&what, error))?;
            // Read after the status of the instance: what it said last is not missed.
            let value = self.value_of(uid, id, key).await?;
            drop(busy);
            if let Some(value) = value.filter(|value| is_wanted(value)) {
                return Ok(value);
            }
            if row.is_none_or(|row| row.status.is_closed()) {
                return Err(Error::ended(&what));
            }
            changed.changed().await.map_err(|_| Error::engine_stopped(&what))?;
        }
    }

    async fn value_of<T: DeserializeOwned>(
        &self,
        uid: Uid,
        id: &str,
        key: &str,
    ) -> Result<Option<T>> {
        let what = || format!("read the {key} of {id}");
        let entry = self.handle().store().kv(uid, key).await;
        let entry = entry.map_err(|error| Error::store(what(), error))?;
        let decoded = entry.map(|entry| entry.value.decode()).transpose();
        decoded.map_err(|error| {
            Error::failed(&what(), resurgam_core::Failure::terminal(error.to_string()))
        })
    }

    /// The history of one run of an instance with its attempts, one line each. An instance has
    /// several runs when it continues as new, or is tried again.
    pub async fn run_history(&self, id: &str, run: u32) -> Result<Option<String>> {
        match self.find(id).await? {
            Some(row) => self.history_of_run(RunKey { uid: row.uid, run }).await.map(Some),
            None => Ok(None),
        }
    }

    pub(crate) async fn history_of(&self, uid: Uid) -> Result<String> {
        let what = |error| Error::store(format!("read the history of {uid}"), error);
        let row = self.handle().store().instance(uid).await.map_err(what)?;
        match row {
            Some(row) => self.history_of_run(RunKey { uid, run: row.run }).await,
            None => Ok(String::new()),
        }
    }

    async fn history_of_run(&self, run: RunKey) -> Result<String> {
        let what = |error| Error::store(format!("read the history of {}", run.uid), error);
        let store = self.handle().store();
        let events = store.history(run).await.map_err(what)?;
        let attempts = self.ledger_of(run, &events).await.map_err(what)?;
        let actions = store.actions(run).await.map_err(what)?;
        let attempts: Vec<AttemptLine> = attempts.iter().map(AttemptLine::from).collect();
        let actions: Vec<ActionLine> = actions.iter().map(ActionLine::from).collect();
        let with = Printing { attempts: &attempts, actions: &actions, times: Times::SinceStart };
        Ok(history::printed(&events, with))
    }
}

/// The policy that decides about a call whose own is this one.
fn deciding(own: Arc<RetryPolicy>, task: &TaskRow, set: &[PolicyOverride]) -> Arc<RetryPolicy> {
    let is_its_own = task.progress.policy_set || task.progress.undoes;
    let set = set.iter().find(|row| row.activity == task.name).filter(|_| !is_its_own);
    let set = set.and_then(PolicyOverride::retry_policy);
    set.map_or(own.clone(), |set| Arc::new(set.in_place_of(&own)))
}

/// When a timeout ends the attempt that runs, or the wait for one.
fn deadline(task: &TaskRow, timeouts: Timeouts) -> Option<Timestamp> {
    let Some(claim) = &task.claim else { return task.deadline_at };
    let of_fallback = task.progress.fallback.as_ref().and_then(|of| of.since);
    let scheduled = of_fallback.or(task.progress.first_scheduled).unwrap_or(claim.started_at);
    let stood_still = Duration::from_millis(task.progress.stood_still_ms);
    let scheduled = scheduled.saturating_add(stood_still);
    let attempt = timeouts.attempt.map(|time| claim.started_at.saturating_add(time));
    let total = timeouts.total.map(|time| scheduled.saturating_add(time));
    attempt.into_iter().chain(total).min()
}
