//! Carries out requests to the store, most of which are reads, and says what it answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use resurgam_core::action::{Action, ResetTo};
use resurgam_core::event::Initiator;
use resurgam_core::gate::prefix_of;
use resurgam_core::history::end_of_call;
use resurgam_core::{CallKey, Event, EventKind, Payload, RunKey, Seq, Timestamp, Uid};
use resurgam_store::outage::OutageLog;
use resurgam_store::rows::{
    Claim, DueDeadline, InstanceRow, Message, MessageRow, RunRecord, TaskRecord,
};
use resurgam_store::{Result, Runnable, Store};

use crate::handle::Outcome;
use crate::node::{
    ABANDONED, ActedOn, Addressee, CROWD, Claimed, DUE, Found, GONE, INBOX_PAGE, Input,
    OVERRIDES_PAGE, PausedInstance, SCAN, SCHEDULES_PAGE, Scan, StoreRequest, open_children,
};
use crate::outage::bits_of;

impl StoreRequest {
    /// Asks the store. Every question has one answer; `None` when nobody needs to hear it.
    pub async fn ask(self, store: &dyn Store, log: &OutageLog) -> Option<Input> {
        let (again, asked) = (self.clone(), self.patient_name());
        Some(match self {
            StoreRequest::Run(uid) => {
                let loaded = store.load_run(uid).await.map(|record| record.map(Box::new));
                Input::RunLoaded { uid, loaded }
            }
            StoreRequest::Task(call) => {
                let loaded = store.load_task(call).await.map(|task| task.map(Box::new));
                Input::TaskLoaded { call, loaded }
            }
            StoreRequest::DueSoon { runnable, deadlines_after } => {
                Input::Scanned { found: scan(store, runnable, deadlines_after).await }
            }
            StoreRequest::BehindGates { runnable, asked } => {
                let most = asked.iter().map(|(_, most)| most).sum();
                let found = store.due_tasks(runnable, END_OF_TIME, most).await;
                Input::BehindGatesRead { asked, found }
            }
            StoreRequest::WaitingTasks(runnable) => Input::WaitingTasksRead {
                found: store.due_tasks(runnable, END_OF_TIME, GONE).await,
            },
            StoreRequest::Abandoned { node } => {
                Input::AbandonedFound { found: store.abandoned(&node, ABANDONED).await }
            }
            StoreRequest::AbandonedTasks { claims, has_more } => {
                Input::Abandoned { found: abandoned_tasks(store, &claims).await, has_more }
            }
            StoreRequest::HeldUp { after } => {
                Input::HeldUp { after, found: store.held_up(after, SCAN).await }
            }
            StoreRequest::DueMessages { until } => {
                Input::DueMessagesRead { found: store.due_messages(until, DUE).await }
            }
            StoreRequest::MessagesOf { uid, read, until } => {
                let found = store.due_messages_of(uid, until).await;
                Input::MessagesRead { uid, read, found }
            }
            StoreRequest::Closed { uids } => Input::Closed { found: store.closed(uids).await },
            StoreRequest::Missing { uids } => Input::Missing { found: store.missing(uids).await },
            StoreRequest::RemoteTasks { attempts } => {
                let calls = attempts.iter().map(|(call, _)| *call).collect();
                Input::RemoteTasksRead { attempts, found: store.tasks_of(calls).await }
            }
            StoreRequest::ClaimShared { node, runnable, now, limit } => {
                let claimed = store.claim_shared(&node, runnable, now, limit).await;
                Input::SharedClaimed { asked: limit, claimed }
            }
            StoreRequest::DueSchedules { now } => {
                let found = store.due_schedules(now, SCHEDULES_PAGE).await;
                Input::SchedulesDue { found }
            }
            StoreRequest::Inbox => Input::InboxRead { found: store.inbox(INBOX_PAGE).await },
            patient => {
                let answer = patient.ask_patiently(store).await;
                log.heard(asked, &answer);
                match answer {
                    Ok(message) => return message,
                    Err(error) => Input::Unanswered { request: Box::new(again), error },
                }
            }
        })
    }

    /// Asks the store a question that is repeated until it is answered.
    async fn ask_patiently(self, store: &dyn Store) -> Result<Option<Input>> {
        Ok(match self {
            StoreRequest::LostTask(call) => {
                let found = store.load_task(call).await?.map(Box::new);
                Some(Input::OutcomeLost { call, found })
            }
            StoreRequest::Reports { uid, until } => {
                Some(Input::ReportsFound { uid, found: store.due_messages_of(uid, until).await? })
            }
            StoreRequest::ReportedTasks { uid, reports } => {
                Some(Input::ReportsRead { uid, found: with_tasks(store, uid, &reports).await? })
            }
            StoreRequest::RunToActOn { uid, asked } => {
                let found = readable(run_to_act_on(store, uid, asked.as_deref()).await)?;
                Some(Input::RunToActOn { uid, found })
            }
            StoreRequest::PausedRun(uid) => {
                let found = readable(paused_run(store, uid).await)?;
                Some(Input::PausedRun { uid, found })
            }
            StoreRequest::End(uid) => match store.instance(uid).await?.as_ref().map(Outcome::of) {
                Some(Some(outcome)) => Some(Input::Finished { uid, outcome }),
                Some(None) => None,
                None => Some(Input::NoInstance { uid }),
            },
            StoreRequest::Claimed { calls, next, asked } => {
                let tasks = store.load_tasks(calls).await?;
                Some(Input::SharedLoaded { claimed: Claimed { tasks, next, asked } })
            }
            StoreRequest::ClaimToEnd { node, call, now } => {
                let is_ours = store.claim_shared_call(&node, call, now).await?.is_some();
                Some(Input::ClaimedToEnd { call, is_ours })
            }
            StoreRequest::ClaimToAct { node, call, now } => {
                let claimed = store.claim_shared_call(&node, call, now).await?.map(Box::new);
                Some(Input::ClaimedToAct { call, claimed })
            }
            StoreRequest::TakeOver { node, call, token, now } => {
                let claimed = store.take_over(&node, call, token, now).await?.map(Box::new);
                Some(Input::ClaimedToAct { call, claimed })
            }
            StoreRequest::SettleShared { node, call, now } => {
                let ours = store.claim_shared_call(&node, call, now).await?.map(Box::new);
                Some(Input::SharedSettled { call, ours })
            }
            StoreRequest::SharedTask(call) => {
                let task = store.tasks_of(Arc::new([call])).await?.pop().map(Box::new);
                Some(Input::SharedFound { call, task })
            }
            StoreRequest::WaitingSchedules { after } => {
                let found = store.waiting_schedules(&after, SCHEDULES_PAGE).await?;
                Some(Input::SchedulesWaiting { found })
            }
            StoreRequest::PolicyOverrides { counted_from, offered } => {
                let (found, gates) = (store.policy_overrides().await?, store.gates().await?);
                let counts = match counted_from {
                    Some(from) => store.gate_counts(from).await?,
                    None => Vec::new(),
                };
                let offered = match offered {
                    true => store.remote_activities().await?,
                    false => Vec::new(),
                };
                Some(Input::OverridesRead { found, gates, counts, offered })
            }
            StoreRequest::WaitingElsewhere { gates, now } => {
                let found = store.count_waiting(gates, now, 1).await?;
                Some(Input::WaitingElsewhere { found })
            }
            StoreRequest::Gated { gates, now } => {
                let found = store.count_waiting(gates, now, GATED).await?;
                Some(Input::GatedCounted { found })
            }
            StoreRequest::KeysOf { prefix } => {
                let mut found = store.waiting_gates(&format!("{prefix}:"), CROWD).await?;
                found.retain(|key| prefix_of(key) == Some(&prefix));
                Some(Input::KeysRead { prefix, found })
            }
            StoreRequest::WaitingCalls { activity, after } => {
                let found = store.waiting_calls(&activity, after, OVERRIDES_PAGE).await?;
                Some(Input::WaitingCallsRead { activity, after, found })
            }
            read @ (StoreRequest::OpenBulk
            | StoreRequest::BulkPage { .. }
            | StoreRequest::BulkAnswers { .. }
            | StoreRequest::BulkTried { .. }
            | StoreRequest::Actions { .. }) => read.ask_about_bulk(store).await?,
            StoreRequest::Schedule(id) => {
                let found = match store.schedule(&id).await {
                    // The store has marked it, for people to see.
                    Err(error) if error.is_data() => None,
                    found => found?,
                };
                found.map(|record| Input::ScheduleRead(Box::new(record)))
            }
            StoreRequest::Signalled(row) => {
                let id = row.id.as_deref().unwrap_or_default();
                let found = readable(store.signalled(&row.instance, id).await)?;
                Some(Input::Signalled { row, found })
            }
            StoreRequest::Addressee(row) => {
                let addressee = |found: Option<InstanceRow>| {
                    found.map_or(Addressee::Nobody, |row| Addressee::Instance(Box::new(row)))
                };
                let found = readable(store.find(&row.instance).await)?.map(addressee);
                Some(Input::Addressee { row, found })
            }
            StoreRequest::Take { node, shards } => {
                Some(Input::ShardsTaken(store.take(&node, shards).await?))
            }
            StoreRequest::Release { node, shards } => {
                store.release(&node, shards.clone()).await?;
                Some(Input::ShardsReleased(shards))
            }
            other => unreachable!("{other:?} is asked once"),
        })
    }

    /// What the outage log calls a question that is asked until it is answered.
    fn patient_name(&self) -> (&'static str, u64) {
        match self {
            StoreRequest::LostTask(call) => ("read a lost task", bits_of(call)),
            StoreRequest::Reports { uid, .. } | StoreRequest::ReportedTasks { uid, .. } => {
                ("read reports", uid.0 as u64)
            }
            StoreRequest::End(uid)
            | StoreRequest::RunToActOn { uid, .. }
            | StoreRequest::PausedRun(uid) => ("read an instance", uid.0 as u64),
            StoreRequest::Claimed { .. } => ("read tasks that were claimed", 0),
            StoreRequest::ClaimToEnd { call, .. } => ("claim a call to end it", bits_of(call)),
            StoreRequest::ClaimToAct { call, .. } | StoreRequest::TakeOver { call, .. } => {
                ("claim a call to act on it", bits_of(call))
            }
            StoreRequest::SettleShared { call, .. } | StoreRequest::SharedTask(call) => {
                ("settle a call", bits_of(call))
            }
            StoreRequest::WaitingSchedules { .. } => ("read waiting schedules", 0),
            StoreRequest::Schedule(_) => ("read a schedule", 0),
            StoreRequest::PolicyOverrides { .. } => ("read the policies of activities", 0),
            StoreRequest::WaitingElsewhere { .. } | StoreRequest::KeysOf { .. } => {
                ("look for calls behind gates", 0)
            }
            StoreRequest::Gated { .. } => ("count calls behind gates", 0),
            StoreRequest::WaitingCalls { .. } => ("look for calls of an activity", 0),
            StoreRequest::OpenBulk => ("read bulk jobs", 0),
            StoreRequest::BulkPage { .. } => ("read what a bulk job is about", 0),
            StoreRequest::BulkAnswers { .. } | StoreRequest::BulkTried { .. } => {
                ("read what came of a bulk job", 0)
            }
            StoreRequest::Actions { .. } => ("read calls to act on", 0),
            StoreRequest::Signalled(row) | StoreRequest::Addressee(row) => {
                ("route a row of the inbox", row.arrival as u64)
            }
            StoreRequest::Take { .. } => ("take shards", 0),
            StoreRequest::Release { .. } => ("release shards", 0),
            _ => ("read", 0),
        }
    }
}

/// How many calls behind a gate are counted at most.
const GATED: usize = 100_000;

const END_OF_TIME: Timestamp = Timestamp::from_millis(i64::MAX);

/// What is due soon, in three lists. Commits may come between them: what this node writes meanwhile
/// it knows by itself (`due.rs`), and every entry is a hint to look.
async fn scan(
    store: &dyn Store,
    runnable: Runnable,
    deadlines_after: Option<DueDeadline>,
) -> Result<Scan> {
    let tasks = store.due_tasks(runnable, END_OF_TIME, SCAN).await?;
    let deadlines = store.due_deadlines(deadlines_after, END_OF_TIME, SCAN).await?;
    let messages = store.due_messages(END_OF_TIME, SCAN).await?;
    Ok(Scan { tasks, deadlines, messages })
}

/// The tasks of claims, as far as they are still claimed so.
async fn abandoned_tasks(
    store: &dyn Store,
    claims: &[(CallKey, Option<Claim>)],
) -> Result<Vec<TaskRecord>> {
    let claims: BTreeMap<CallKey, &Option<Claim>> =
        claims.iter().map(|(call, claim)| (*call, claim)).collect();
    let mut tasks = store.load_tasks(claims.keys().copied().collect()).await?;
    tasks.retain(|record| claims.get(&record.task.call) == Some(&&record.task.claim));
    Ok(tasks)
}

/// Reports and actions for an instance, with the tasks that they are about. Of an action it is also
/// asked whether it was carried out before: the answer is stored when the first message that asks
/// for it goes, so that a second one finds it.
async fn with_tasks(store: &dyn Store, uid: Uid, reports: &[MessageRow]) -> Result<Vec<Found>> {
    let call_of = |row: &MessageRow| {
        let (run, activity) = row.body.call()?;
        Some(RunKey { uid, run }.call(activity))
    };
    let tasks = store.load_tasks(reports.iter().filter_map(call_of).collect()).await?;
    let tasks: BTreeMap<CallKey, TaskRecord> =
        tasks.into_iter().map(|task| (task.task.call, task)).collect();
    let mut found = Vec::new();
    for row in reports {
        let is_answered = match &row.body {
            Message::Action { request, .. } => store.action(uid, &request.id).await?.is_some(),
            _ => false,
        };
        // There may be several about one call.
        let task = call_of(row).and_then(|call| tasks.get(&call).cloned());
        let ended = match (&row.body, &task) {
            (Message::Action { activity, .. }, None) if *activity != Seq::RUN && !is_answered => {
                end_of(store, call_of(row)).await?
            }
            _ => None,
        };
        found.push(Found { row: row.clone(), task, is_answered, ended });
    }
    Ok(found)
}

/// How a call without a task ended, as its history says or a message that its run has not read yet.
async fn end_of(store: &dyn Store, call: Option<CallKey>) -> Result<Option<String>> {
    let Some(CallKey { run, seq }) = call else { return Ok(None) };
    let events = match store.history(run).await {
        Err(error) if error.is_data() => return Ok(None),
        events => events?,
    };
    let name = events.iter().find_map(|event| match &event.kind {
        EventKind::ActivityScheduled(scheduled) if event.seq == seq => Some(&scheduled.name),
        _ => None,
    });
    let Some(name) = name else { return Ok(None) };
    let mut how = events.iter().find_map(|event| end_of_call(&event.kind, seq));
    if how.is_none() {
        let messages = store.messages(run.uid).await?;
        how = messages.iter().find_map(|row| match &row.body {
            Message::Result { run: of, event } if *of == run.run => end_of_call(event, seq),
            _ => None,
        });
    }
    Ok(how.map(|how| format!("{name}#{seq} {how}")))
}

/// A run that an operator acts on, with everything that this depends on.
async fn run_to_act_on(
    store: &dyn Store,
    uid: Uid,
    asked: Option<&(RunKey, Action)>,
) -> Result<Option<Box<ActedOn>>> {
    let action = asked.map(|(_, action)| action);
    let Some(record) = store.load_run(uid).await? else { return Ok(None) };
    let row = &record.instance;
    let mut found = ActedOn {
        is_current: true,
        parent: None,
        first_input: row.input.clone(),
        children: Vec::new(),
        status_before: None,
        letter: None,
        record: record.clone(),
    };
    if action.is_some_and(Action::is_on_closed) {
        found.is_current = store.find(&row.id).await?.is_some_and(|holder| holder.uid == uid);
        if let Some(parent) = row.parent {
            found.parent = store.instance(parent.run.uid).await?;
        }
    }
    match asked {
        Some((_, Action::Restart)) if row.run > 1 => {
            let events = store.history(RunKey::first(uid)).await?;
            if let Some(EventKind::RunStarted(first)) = events.first().map(|event| &event.kind) {
                found.first_input = first.input.clone();
            }
        }
        Some((_, Action::Reset(reset))) => read_for_reset(store, &reset.to, &mut found).await?,
        Some((run, Action::Redrive(redrive))) => {
            found.letter = store.dead_letter(run.call(redrive.call)).await?;
            read_for_reset(store, &ResetTo::Event(redrive.call), &mut found).await?;
        }
        _ => {}
    }
    Ok(Some(Box::new(found)))
}

/// What a run depends on that goes back to a place in its history.
async fn read_for_reset(store: &dyn Store, to: &ResetTo, found: &mut ActedOn) -> Result<()> {
    for child in open_children(&found.record, to) {
        found.children.extend(store.instance(child).await?);
    }
    found.status_before = status_before(store, &found.record).await?;
    Ok(())
}

/// The status that an instance had when its current run began: the last one of a run before.
async fn status_before(store: &dyn Store, record: &RunRecord) -> Result<Option<Payload>> {
    let is_set = |event: &Event| matches!(event.kind, EventKind::StatusSet { .. });
    // Where this run has set none, the status is what it was.
    if !record.events.iter().any(is_set) {
        return Ok(None);
    }
    for run in (1..record.instance.run).rev() {
        let events = store.history(RunKey { uid: record.instance.uid, run }).await?;
        // What stands of one that was reset is copied into the one after it.
        if events.last().is_some_and(|last| is_reset(&last.kind)) {
            continue;
        }
        let last = events.into_iter().rev().find_map(|event| match event.kind {
            EventKind::StatusSet { value } => Some(value),
            _ => None,
        });
        if last.is_some() {
            return Ok(last);
        }
    }
    Ok(None)
}

/// True for the end of a run that was reset.
fn is_reset(kind: &EventKind) -> bool {
    matches!(kind, EventKind::RunContinued(continued) if continued.initiator == Initiator::Reset)
}

/// An instance that is paused, with its messages.
async fn paused_run(store: &dyn Store, uid: Uid) -> Result<Option<Box<PausedInstance>>> {
    let Some(row) = store.instance(uid).await? else { return Ok(None) };
    let messages = store.messages(uid).await?;
    Ok(Some(Box::new(PausedInstance { row, messages })))
}

/// What was read, or why it cannot be; other errors are the store's, and pass.
fn readable<T>(found: Result<T>) -> Result<std::result::Result<T, String>> {
    match found {
        Err(error) if error.is_data() => Ok(Err(error.to_string())),
        found => found.map(Ok),
    }
}
