//! Reads: everything that is asked of the store and answered by a message.
//!
//! The engine says what it wants to know ([`Read`]) and goes on; the driver asks the store beside
//! it (`driver.rs`), and the answer comes back as a [`Message`]. Trouble with the store means
//! asking again later, never a decision: what is asked until it is answered comes back as
//! [`Message::Unanswered`] and is asked again, everything else is for whoever gets the answer.
//!
//! What was read in another tenure, or of a shard that has changed hands since, is worth nothing:
//! an answer carries the [`Stamp`] of its question.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::{CallKey, RunKey, Shard, Timestamp, Uid};
use resurgam_store::outage::OutageLog;
use resurgam_store::rows::{Claim, InstanceRow, Message as StoredMessage, TaskRecord};
use resurgam_store::{InboxRow, Result, Runnable, Store};

use super::inbox::{self, Addressee};
use super::load::{ABANDONED, AGAIN, GONE, SCAN};
use super::output::Output;
use super::report::Found;
use super::shared::{Claimed, Settled};
use super::{Engine, Message, Scan, Stamp, own, schedule};
use crate::handle::Outcome;

/// Something that is asked of the store.
#[derive(Clone, Debug)]
pub(crate) enum Read {
    /// A run with everything that a turn needs.
    Run(Uid),
    /// A task with everything that an attempt needs.
    Task(CallKey),
    /// A task whose outcome was lost in this process.
    LostTask(CallKey),
    /// What is due soon.
    DueSoon(Runnable),
    /// Tasks that wait, whoever can run them.
    Waiting(Runnable),
    /// Claims of nodes that are gone; not those of this one.
    Abandoned { node: String },
    /// Runs that could not go on, after this one.
    HeldUp { after: Option<Uid> },
    /// Instances that have messages which are due.
    DueMessages { until: Timestamp },
    /// The messages of an instance that are due. The number tells one read from the next.
    MessagesOf { uid: Uid, read: u64, until: Timestamp },
    /// What attempts elsewhere have reported to an instance.
    Reports { uid: Uid, until: Timestamp },
    /// Those of the instances that are closed, and those that are gone.
    Ends { uids: Arc<[Uid]> },
    /// Whether an instance is closed.
    End(Uid),
    /// The tasks of these calls, in any shard.
    Wanted { calls: Arc<[CallKey]> },
    /// Claims tasks that others leave, at most so many.
    ClaimShared { node: String, runnable: Runnable, now: Timestamp, limit: usize },
    /// The tasks that were claimed: nobody else would run them.
    Claimed { calls: Arc<[CallKey]>, next: Option<Timestamp>, asked: usize },
    /// Claims a call so that nobody else can, or finds that somebody has.
    SettleShared { node: String, call: CallKey, now: Timestamp },
    /// The schedules that are due.
    DueSchedules { now: Timestamp },
    /// Schedules that wait for something else than the time, from an id on.
    WaitingSchedules { after: String },
    /// One schedule.
    Schedule(String),
    /// What others have inserted.
    Inbox,
    /// Who has the id that a row of the inbox names.
    Addressee(InboxRow),
    /// Takes shards that nobody holds.
    Take(Arc<[Shard]>),
    /// Gives shards up.
    Release(Arc<[Shard]>),
}

impl Read {
    /// Asks the store. Every question has one answer; `None` when nobody needs to hear it.
    pub(crate) async fn ask(self, store: &dyn Store, log: &OutageLog) -> Option<Message> {
        let (again, asked) = (self.clone(), self.patient_name());
        Some(match self {
            Read::Run(uid) => {
                let loaded = store.load_run(uid).await.map(|record| record.map(Box::new));
                Message::RunLoaded { uid, loaded }
            }
            Read::Task(call) => {
                let loaded = store.load_task(call).await.map(|task| task.map(Box::new));
                Message::TaskLoaded { call, loaded }
            }
            Read::DueSoon(runnable) => Message::Scanned { found: scan(store, runnable).await },
            Read::Waiting(runnable) => {
                Message::Waiting { found: store.due_tasks(runnable, END_OF_TIME, GONE).await }
            }
            Read::Abandoned { node } => Message::Abandoned { found: abandoned(store, &node).await },
            Read::HeldUp { after } => {
                Message::HeldUp { after, found: store.held_up(after, SCAN).await }
            }
            Read::DueMessages { until } => {
                Message::Heard { found: store.due_messages(until, own::DUE).await }
            }
            Read::MessagesOf { uid, read, until } => {
                let found = store.due_messages_of(uid, until).await;
                Message::MessagesRead { uid, read, found }
            }
            Read::Ends { uids } => Message::Ends { found: ends(store, uids).await },
            Read::Wanted { calls } => Message::Wanted { found: store.tasks_of(calls).await },
            Read::ClaimShared { node, runnable, now, limit } => {
                let claimed = store.claim_shared(&node, runnable, now, limit).await;
                Message::SharedClaimed { asked: limit, claimed }
            }
            Read::DueSchedules { now } => {
                let found = store.due_schedules(now, schedule::PAGE).await;
                Message::SchedulesDue { found }
            }
            Read::Inbox => Message::InboxRead { found: store.inbox(inbox::PAGE).await },
            patient => {
                let answer = patient.ask_patiently(store).await;
                log.heard(asked, &answer);
                match answer {
                    Ok(message) => return message,
                    Err(error) => Message::Unanswered { read: Box::new(again), error },
                }
            }
        })
    }

    /// The same for what is asked until it is answered.
    async fn ask_patiently(self, store: &dyn Store) -> Result<Option<Message>> {
        Ok(match self {
            Read::LostTask(call) => {
                let found = store.load_task(call).await?.map(Box::new);
                Some(Message::OutcomeLost { found })
            }
            Read::Reports { uid, until } => {
                Some(Message::ReportsRead { uid, found: reports(store, uid, until).await? })
            }
            Read::End(uid) => match store.instance(uid).await?.as_ref().map(Outcome::of) {
                Some(Some(outcome)) => Some(Message::Finished { uid, outcome }),
                Some(None) => None,
                None => Some(Message::NoInstance { uid }),
            },
            Read::Claimed { calls, next, asked } => {
                let tasks = store.load_tasks(calls).await?;
                Some(Message::SharedLoaded { claimed: Claimed { tasks, next, asked } })
            }
            Read::SettleShared { node, call, now } => {
                let settled = settled(store, &node, call, now).await?;
                settled.map(|settled| Message::SharedSettled { settled })
            }
            Read::WaitingSchedules { after } => {
                let found = store.waiting_schedules(&after, schedule::PAGE).await?;
                Some(Message::SchedulesWaiting { found })
            }
            Read::Schedule(id) => {
                let found = match store.schedule(&id).await {
                    // The store has marked it, for people to see.
                    Err(error) if error.is_data() => None,
                    found => found?,
                };
                found.map(|record| Message::ScheduleRead(Box::new(record)))
            }
            Read::Addressee(row) => {
                let found = match addressee(store, &row).await {
                    Err(error) if error.is_data() => Err(error.to_string()),
                    found => Ok(found?),
                };
                Some(Message::Addressee { row, found })
            }
            Read::Take(shards) => Some(Message::Taken(store.take(shards).await?)),
            Read::Release(shards) => {
                store.release(shards.clone()).await?;
                Some(Message::Released(shards))
            }
            other => unreachable!("{other:?} is asked once"),
        })
    }

    /// What the outage log calls a question that is asked until it is answered.
    fn patient_name(&self) -> (&'static str, u64) {
        match self {
            Read::LostTask(call) => ("read a lost task", super::outage::bits_of(call)),
            Read::Reports { uid, .. } => ("read reports", uid.0 as u64),
            Read::End(uid) => ("read an instance", uid.0 as u64),
            Read::Claimed { .. } => ("read tasks that were claimed", 0),
            Read::SettleShared { call, .. } => ("settle a call", super::outage::bits_of(call)),
            Read::WaitingSchedules { .. } => ("read waiting schedules", 0),
            Read::Schedule(_) => ("read a schedule", 0),
            Read::Addressee(row) => ("route a row of the inbox", row.arrival as u64),
            Read::Take(_) => ("take shards", 0),
            Read::Release(_) => ("release shards", 0),
            _ => ("read", 0),
        }
    }
}

impl Engine {
    /// Asks the store. The answer is worth nothing when the role has changed meanwhile.
    pub(super) fn read(&mut self, read: Read) {
        self.read_stamped(read, Duration::ZERO, Some(self.stamp()));
    }

    /// Asks the store about an instance. The answer is worth nothing when the shard has changed
    /// hands meanwhile.
    pub(super) fn read_of(&mut self, uid: Uid, read: Read) {
        let stamp = self.stamp_of(uid);
        self.read_stamped(read, Duration::ZERO, Some(stamp));
    }

    /// Asks the store again, after a while.
    pub(super) fn read_later(&mut self, read: Read) {
        self.read_stamped(read, AGAIN, Some(self.stamp()));
    }

    /// Asks the store again about an instance, after a while.
    pub(super) fn read_later_of(&mut self, uid: Uid, read: Read) {
        let stamp = self.stamp_of(uid);
        self.read_stamped(read, AGAIN, Some(stamp));
    }

    /// Asks the store; the answer counts whatever happens meanwhile, when there is no stamp.
    pub(super) fn read_stamped(&mut self, read: Read, after: Duration, stamp: Option<Stamp>) {
        self.outputs.push(Output::Read { read, after, stamp });
    }

    /// The store did not answer a question that somebody depends on.
    pub(super) fn unanswered(&mut self, read: Read, stamp: Option<Stamp>) {
        self.read_stamped(read, AGAIN, stamp);
    }

    fn stamp(&self) -> Stamp {
        Stamp { tenure: self.tenure, shard: None }
    }

    fn stamp_of(&self, uid: Uid) -> Stamp {
        let shard = Some((uid.shard(), self.shards.tenure(uid.shard())));
        Stamp { tenure: self.tenure, shard }
    }
}

const END_OF_TIME: Timestamp = Timestamp::from_millis(i64::MAX);

async fn scan(store: &dyn Store, runnable: Runnable) -> Result<Scan> {
    let tasks = store.due_tasks(runnable, END_OF_TIME, SCAN).await?;
    let deadlines = store.due_deadlines(END_OF_TIME, SCAN).await?;
    let messages = store.due_messages(END_OF_TIME, SCAN).await?;
    Ok(Scan { tasks, deadlines, messages })
}

async fn abandoned(store: &dyn Store, node: &str) -> Result<Vec<TaskRecord>> {
    let claimed = store.abandoned(node, ABANDONED).await?;
    let claims: BTreeMap<CallKey, Option<Claim>> =
        claimed.into_iter().map(|task| (task.call, task.claim)).collect();
    let mut tasks = store.load_tasks(claims.keys().copied().collect()).await?;
    tasks.retain(|record| claims.get(&record.task.call) == Some(&record.task.claim));
    Ok(tasks)
}

/// Those of the instances that are closed, and those that are gone.
async fn ends(store: &dyn Store, uids: Arc<[Uid]>) -> Result<(Vec<InstanceRow>, Vec<Uid>)> {
    let closed = store.closed(uids.clone()).await?;
    let is_closed = |uid: &Uid| closed.iter().any(|row| row.uid == *uid);
    let missing = store.missing(uids).await?.into_iter().filter(|uid| !is_closed(uid)).collect();
    Ok((closed, missing))
}

/// The reports for an instance, with the tasks that they are about.
async fn reports(store: &dyn Store, uid: Uid, until: Timestamp) -> Result<Vec<Found>> {
    let mut reports = Vec::new();
    for row in store.due_messages_of(uid, until).await? {
        let StoredMessage::Report { run, report } = &row.body else { continue };
        reports.push((RunKey { uid, run: *run }.call(report.activity), row));
    }
    let calls = reports.iter().map(|(key, _)| *key).collect();
    let tasks = store.load_tasks(calls).await?;
    let tasks: BTreeMap<CallKey, TaskRecord> =
        tasks.into_iter().map(|task| (task.task.call, task)).collect();
    // There may be several about one call.
    let with_task = |(key, row)| Found { task: tasks.get(&key).cloned(), row };
    Ok(reports.into_iter().map(with_task).collect())
}

/// Claims a call so that nobody else can, or finds that somebody has; `None` when it is over.
async fn settled(
    store: &dyn Store,
    node: &str,
    key: CallKey,
    now: Timestamp,
) -> Result<Option<Settled>> {
    if let Some(task) = store.claim_shared_call(node, key, now).await? {
        return Ok(Some(Settled::Ours(Box::new(task))));
    }
    let found = store.tasks_of(Arc::new([key])).await?.pop();
    let runs = found.filter(|task| task.claim.is_some());
    Ok(runs.map(|task| Settled::Runs(Box::new(task))))
}

/// Who a row is for. A signal with an id may have been sent before, through the inbox or by a
/// client, and its instance may be closed by now, or have forgotten it.
async fn addressee(store: &dyn Store, row: &InboxRow) -> Result<Addressee> {
    if let Some(id) = row.id.as_ref().filter(|_| row.kind == "signal")
        && store.signalled(&row.instance, id).await?
    {
        return Ok(Addressee::HasIt);
    }
    let found = store.find(&row.instance).await?;
    Ok(found.map_or(Addressee::Nobody, |row| Addressee::Instance(Box::new(row))))
}
