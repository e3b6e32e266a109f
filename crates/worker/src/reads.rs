//! Carries out reads: asks the store, and says what it answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use resurgam_core::{CallKey, RunKey, Timestamp, Uid};
use resurgam_store::outage::OutageLog;
use resurgam_store::rows::{Claim, InstanceRow, Message, TaskRecord};
use resurgam_store::{InboxRow, Result, Runnable, Store};

use crate::handle::Outcome;
use crate::node::{
    ABANDONED, Addressee, Claimed, DUE, Found, GONE, INBOX_PAGE, Input, Read, SCAN, SCHEDULES_PAGE,
    Scan, Settled,
};
use crate::outage::bits_of;

impl Read {
    /// Asks the store. Every question has one answer; `None` when nobody needs to hear it.
    pub async fn ask(self, store: &dyn Store, log: &OutageLog) -> Option<Input> {
        let (again, asked) = (self.clone(), self.patient_name());
        Some(match self {
            Read::Run(uid) => {
                let loaded = store.load_run(uid).await.map(|record| record.map(Box::new));
                Input::RunLoaded { uid, loaded }
            }
            Read::Task(call) => {
                let loaded = store.load_task(call).await.map(|task| task.map(Box::new));
                Input::TaskLoaded { call, loaded }
            }
            Read::DueSoon(runnable) => Input::Scanned { found: scan(store, runnable).await },
            Read::Waiting(runnable) => {
                Input::Waiting { found: store.due_tasks(runnable, END_OF_TIME, GONE).await }
            }
            Read::Abandoned { node } => Input::Abandoned { found: abandoned(store, &node).await },
            Read::HeldUp { after } => {
                Input::HeldUp { after, found: store.held_up(after, SCAN).await }
            }
            Read::DueMessages { until } => {
                Input::Heard { found: store.due_messages(until, DUE).await }
            }
            Read::MessagesOf { uid, read, until } => {
                let found = store.due_messages_of(uid, until).await;
                Input::MessagesRead { uid, read, found }
            }
            Read::Ends { uids } => Input::Ends { found: ends(store, uids).await },
            Read::Wanted { attempts } => {
                let calls = attempts.iter().map(|(call, _)| *call).collect();
                Input::Wanted { attempts, found: store.tasks_of(calls).await }
            }
            Read::ClaimShared { node, runnable, now, limit } => {
                let claimed = store.claim_shared(&node, runnable, now, limit).await;
                Input::SharedClaimed { asked: limit, claimed }
            }
            Read::DueSchedules { now } => {
                let found = store.due_schedules(now, SCHEDULES_PAGE).await;
                Input::SchedulesDue { found }
            }
            Read::Inbox => Input::InboxRead { found: store.inbox(INBOX_PAGE).await },
            patient => {
                let answer = patient.ask_patiently(store).await;
                log.heard(asked, &answer);
                match answer {
                    Ok(message) => return message,
                    Err(error) => Input::Unanswered { read: Box::new(again), error },
                }
            }
        })
    }

    /// Asks the store a question that is repeated until it is answered.
    async fn ask_patiently(self, store: &dyn Store) -> Result<Option<Input>> {
        Ok(match self {
            Read::LostTask(call) => {
                let found = store.load_task(call).await?.map(Box::new);
                Some(Input::OutcomeLost { found })
            }
            Read::Reports { uid, until } => {
                Some(Input::ReportsRead { uid, found: reports(store, uid, until).await? })
            }
            Read::End(uid) => match store.instance(uid).await?.as_ref().map(Outcome::of) {
                Some(Some(outcome)) => Some(Input::Finished { uid, outcome }),
                Some(None) => None,
                None => Some(Input::NoInstance { uid }),
            },
            Read::Claimed { calls, next, asked } => {
                let tasks = store.load_tasks(calls).await?;
                Some(Input::SharedLoaded { claimed: Claimed { tasks, next, asked } })
            }
            Read::ClaimToEnd { node, call, now } => {
                let is_ours = store.claim_shared_call(&node, call, now).await?.is_some();
                Some(Input::ClaimedToEnd { call, is_ours })
            }
            Read::ClaimToAct { node, call, now } => {
                let claimed = store.claim_shared_call(&node, call, now).await?.map(Box::new);
                Some(Input::ClaimedToAct { call, claimed })
            }
            Read::SettleShared { node, call, now } => {
                let settled = settled(store, &node, call, now).await?;
                settled.map(|settled| Input::SharedSettled { settled })
            }
            Read::WaitingSchedules { after } => {
                let found = store.waiting_schedules(&after, SCHEDULES_PAGE).await?;
                Some(Input::SchedulesWaiting { found })
            }
            Read::Schedule(id) => {
                let found = match store.schedule(&id).await {
                    // The store has marked it, for people to see.
                    Err(error) if error.is_data() => None,
                    found => found?,
                };
                found.map(|record| Input::ScheduleRead(Box::new(record)))
            }
            Read::Addressee(row) => {
                let found = match addressee(store, &row).await {
                    Err(error) if error.is_data() => Err(error.to_string()),
                    found => Ok(found?),
                };
                Some(Input::Addressee { row, found })
            }
            Read::Take(shards) => Some(Input::Taken(store.take(shards).await?)),
            Read::Release(shards) => {
                store.release(shards.clone()).await?;
                Some(Input::Released(shards))
            }
            other => unreachable!("{other:?} is asked once"),
        })
    }

    /// What the outage log calls a question that is asked until it is answered.
    fn patient_name(&self) -> (&'static str, u64) {
        match self {
            Read::LostTask(call) => ("read a lost task", bits_of(call)),
            Read::Reports { uid, .. } => ("read reports", uid.0 as u64),
            Read::End(uid) => ("read an instance", uid.0 as u64),
            Read::Claimed { .. } => ("read tasks that were claimed", 0),
            Read::ClaimToEnd { call, .. } => ("claim a call to end it", bits_of(call)),
            Read::ClaimToAct { call, .. } => ("claim a call to act on it", bits_of(call)),
            Read::SettleShared { call, .. } => ("settle a call", bits_of(call)),
            Read::WaitingSchedules { .. } => ("read waiting schedules", 0),
            Read::Schedule(_) => ("read a schedule", 0),
            Read::Addressee(row) => ("route a row of the inbox", row.arrival as u64),
            Read::Take(_) => ("take shards", 0),
            Read::Release(_) => ("release shards", 0),
            _ => ("read", 0),
        }
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

/// The reports and actions for an instance, with the tasks that they are about.
async fn reports(store: &dyn Store, uid: Uid, until: Timestamp) -> Result<Vec<Found>> {
    let mut reports = Vec::new();
    for row in store.due_messages_of(uid, until).await? {
        let Some((run, activity)) = row.body.call() else { continue };
        let is_answered = match &row.body {
            // The answer is stored when the first message goes, so that a second one finds it.
            Message::Action { request, .. } => store.action(uid, &request.id).await?.is_some(),
            _ => false,
        };
        reports.push((RunKey { uid, run }.call(activity), row, is_answered));
    }
    let calls = reports.iter().map(|(key, ..)| *key).collect();
    let tasks = store.load_tasks(calls).await?;
    let tasks: BTreeMap<CallKey, TaskRecord> =
        tasks.into_iter().map(|task| (task.task.call, task)).collect();
    // There may be several about one call.
    let with_task =
        |(key, row, is_answered)| Found { task: tasks.get(&key).cloned(), row, is_answered };
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
