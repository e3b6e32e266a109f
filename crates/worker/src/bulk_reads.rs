//! Reads for bulk jobs: what they are about, what came of it, and the calls that are acted on.

use std::collections::BTreeMap;

use resurgam_core::action::Action;
use resurgam_core::event::{Initiator, RunContinued};
use resurgam_core::{CallKey, Event, EventKind, Failure, RunKey, Seq, Uid};
use resurgam_store::rows::{InstanceCursor, InstanceRow, Message, MessageRow, Status, TaskRecord};
use resurgam_store::{CallCursor, CallPage, DeadLetter, LetterState, Result, Store};

use crate::bulk::{
    BulkTarget, RunAgain, RunFilter, ToAsk, ToTry, Tried, call_of_text, call_to_text, redriven_id,
};
use crate::handle::Outcome;
use crate::node::{Found, Input, InstanceActions, JOBS, StoreRequest};

/// How many bytes of arguments a page of dead letters has at most, unless the first one has more.
const PAGE_BYTES: usize = 8 << 20;

impl StoreRequest {
    /// Asks the store a question of a bulk job.
    pub(crate) async fn ask_about_bulk(self, store: &dyn Store) -> Result<Option<Input>> {
        Ok(match self {
            StoreRequest::OpenBulk => Some(Input::BulkRead { found: store.open_bulk(JOBS).await? }),
            StoreRequest::BulkPage { job, target, action, after, limit } => {
                let of = (&*target, &*action);
                let (found, go_on) = bulk_page(store, of, after.as_deref(), limit).await?;
                Some(Input::BulkPage { job, found, go_on })
            }
            StoreRequest::BulkAnswers { job, asked } => {
                Some(Input::BulkAnswers { job, answers: store.answers(asked).await? })
            }
            StoreRequest::BulkTried { job, tried } => {
                Some(Input::BulkTried { job, found: what_came_of(store, &tried).await? })
            }
            StoreRequest::Actions { asked } => {
                Some(Input::ActionsRead { found: asked_tasks(store, &asked).await? })
            }
            _ => None,
        })
    }
}

/// The tasks of calls that actions are asked for.
async fn asked_tasks(
    store: &dyn Store,
    asked: &[InstanceActions],
) -> Result<Vec<(Uid, u64, Vec<Found>)>> {
    let call_of = |row: &MessageRow| {
        let (run, activity) = row.body.call()?;
        Some(RunKey { uid: row.uid, run }.call(activity))
    };
    let calls = asked.iter().flat_map(|of| of.messages.iter().filter_map(call_of));
    let tasks = store.load_tasks(calls.collect()).await?;
    let mut tasks: BTreeMap<CallKey, TaskRecord> =
        tasks.into_iter().map(|task| (task.task.call, task)).collect();
    let mut all = Vec::with_capacity(asked.len());
    for of in asked {
        let mut found = Vec::with_capacity(of.messages.len());
        for row in &of.messages {
            let task = call_of(row).and_then(|call| tasks.remove(&call));
            let is_answered = made_its_instance(store, row).await?;
            found.push(Found { row: row.clone(), task, is_answered, ended: None });
        }
        all.push((of.uid, of.number, found));
    }
    Ok(all)
}

/// True when the instance that a job asks to begin again is one that it has begun again: the list
/// of a job has it once more when the clock was set back meanwhile.
async fn made_its_instance(store: &dyn Store, row: &MessageRow) -> Result<bool> {
    match &row.body {
        Message::Action { request, .. } if request.action == Action::Restart => {
            Ok(store.action(row.uid, &request.id).await?.is_some())
        }
        _ => Ok(false),
    }
}

/// What a bulk job is about, behind a place, and where to go on.
async fn bulk_page(
    store: &dyn Store,
    (target, action): (&BulkTarget, &Action),
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<ToAsk>, Option<String>)> {
    match target {
        BulkTarget::Calls(filter) => {
            let after = after.and_then(call_of_text);
            let page = store.matching_calls(filter.clone(), after, limit).await?;
            let calls = page.calls.iter().map(|matched| ToAsk::of_task(&matched.task)).collect();
            Ok((calls, page.go_on.map(call_to_text)))
        }
        BulkTarget::Runs(filter) => {
            let (rows, go_on) = matching_runs(store, filter, after, limit).await?;
            let run = |row: &InstanceRow| RunKey { uid: row.uid, run: row.run };
            Ok((rows.iter().map(|row| ToAsk::of_run(run(row))).collect(), go_on))
        }
        BulkTarget::Letters(filter) => {
            let places = store.dead_letter_places(filter.letters(after, limit)).await?;
            let go_on = places.last().filter(|_| places.len() == limit).copied();
            let (found, go_on) = match action {
                Action::RedriveAsNew => letters_again(store, places, go_on).await?,
                _ => (places.iter().map(|at| ToAsk::of_letter(at.call)).collect(), go_on),
            };
            Ok((found, go_on.map(|at| at.to_string())))
        }
    }
}

/// Dead letters with what runs their activities once more, as far as they fit into a page.
async fn letters_again(
    store: &dyn Store,
    places: Vec<CallCursor>,
    go_on: Option<CallCursor>,
) -> Result<(Vec<ToAsk>, Option<CallCursor>)> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    for at in places {
        let letter = store.dead_letter(at.call).await?;
        // Somebody may have decided about it meanwhile.
        let Some(letter) = letter.filter(|letter| letter.state == LetterState::Open) else {
            continue;
        };
        bytes += letter.input.len();
        let again = run_again(store, &letter).await?;
        found.push(ToAsk { again: Some(again.map(Box::new)), ..ToAsk::of_letter(at.call) });
        if bytes >= PAGE_BYTES {
            return Ok((found, Some(at)));
        }
    }
    Ok((found, go_on))
}

/// What runs the activity of a dead letter once more, or why it cannot.
async fn run_again(
    store: &dyn Store,
    letter: &DeadLetter,
) -> Result<std::result::Result<RunAgain, String>> {
    let id = redriven_id(letter.call);
    if store.find(&id).await?.is_some() {
        return Ok(Err(format!("the id {id} is taken")));
    }
    let policy = store.policy(&letter.policy).await?;
    Ok(RunAgain::of(letter, policy.map(|row| row.text)))
}

/// Instances that match, behind a place in their list, at most `limit`, and where to go on. It
/// looks at a bounded number of those that its list has.
pub(crate) async fn matching_runs(
    store: &dyn Store,
    filter: &RunFilter,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<InstanceRow>, Option<String>)> {
    if filter.ids.is_empty() {
        return listed_runs(store, filter, after, limit).await;
    }
    let mut ids: Vec<&String> = filter.ids.iter().collect();
    ids.sort_unstable();
    ids.dedup();
    let left = ids.into_iter().filter(|id| after.is_none_or(|after| id.as_str() > after));
    let left: Vec<&String> = left.collect();
    let mut rows = Vec::new();
    for id in left.iter().take(limit) {
        let found = store.find(id).await?;
        rows.extend(found.filter(|row| filter.has(row)));
    }
    let last = left.get(limit.saturating_sub(1)).filter(|_| left.len() > limit);
    Ok((with_such_calls(store, filter, rows).await?, last.map(|id| id.to_string())))
}

async fn listed_runs(
    store: &dyn Store,
    filter: &RunFilter,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<InstanceRow>, Option<String>)> {
    let mut list = filter.instances();
    let is_narrower = filter.queue.is_some() || filter.needs_calls();
    list.limit = if is_narrower { CallPage::chunk(limit) } else { limit };
    list.after = after.and_then(|after| after.parse().ok());
    let looked_at = list.limit;
    let rows = store.list(list).await?;
    let last = rows.last().filter(|_| rows.len() == looked_at).map(InstanceCursor::of);
    let rows = rows.into_iter().filter(|row| filter.has(row)).collect();
    let mut rows = with_such_calls(store, filter, rows).await?;
    let is_cut = rows.len() > limit;
    rows.truncate(limit);
    let go_on = if is_cut { rows.last().map(InstanceCursor::of) } else { last };
    Ok((rows, go_on.map(|at| at.to_string())))
}

/// Those of the instances whose calls match, too.
async fn with_such_calls(
    store: &dyn Store,
    filter: &RunFilter,
    rows: Vec<InstanceRow>,
) -> Result<Vec<InstanceRow>> {
    if !filter.needs_calls() || rows.is_empty() {
        return Ok(rows);
    }
    let runs = rows.iter().map(|row| RunKey { uid: row.uid, run: row.run }).collect();
    let calls = store.run_calls(runs, filter.activity.clone()).await?;
    let found = rows.into_iter().zip(calls).filter(|(row, calls)| filter.has_calls(row, calls));
    Ok(found.map(|(row, _)| row).collect())
}

/// What became of those that were tried.
async fn what_came_of(store: &dyn Store, tried: &[ToTry]) -> Result<Vec<Tried>> {
    let calls = tried.iter().filter_map(|tried| match tried {
        ToTry::Call(call) => Some(*call),
        _ => None,
    });
    let open = store.tasks_of(calls.collect()).await?;
    let mut open: BTreeMap<CallKey, _> = open.into_iter().map(|task| (task.call, task)).collect();
    let mut found = Vec::with_capacity(tried.len());
    for tried in tried {
        found.push(match tried {
            ToTry::Call(call) => match open.remove(call) {
                Some(task) => Tried::Open(Box::new(task)),
                None => ended_call(store, *call).await?,
            },
            ToTry::AtCut(run) => tried_at_cut(store, *run).await?,
            ToTry::Run(run) => match store.instance(run.uid).await? {
                Some(row) => tried_run(store, *run, &row).await?,
                None => deleted(),
            },
            ToTry::Restarted { uid, request } => tried_again(store, *uid, request).await?,
        });
    }
    Ok(found)
}

fn deleted() -> Tried {
    Tried::Failed("its instance was deleted".to_string())
}

/// What became of a call.
async fn tried_call(store: &dyn Store, call: CallKey) -> Result<Tried> {
    let open = store.tasks_of([call].into()).await?;
    match open.into_iter().next() {
        Some(task) => Ok(Tried::Open(Box::new(task))),
        None => ended_call(store, call).await,
    }
}

/// What became of the first call, or child, that a run has made behind what it has from the one
/// before it. Where it makes none there, how it ends itself is what counts.
async fn tried_at_cut(store: &dyn Store, run: RunKey) -> Result<Tried> {
    let Some(row) = store.instance(run.uid).await? else { return Ok(deleted()) };
    let events = store.history(run).await?;
    let Some((made, is_call)) = first_made(&events) else {
        return tried_run(store, run, &row).await;
    };
    if let Some(ended) = events.iter().find_map(|event| end_of(made, &event.kind)) {
        return Ok(ended);
    }
    // A run that is over may have left it open, and one that is blocked hears of no end.
    let goes_on = row.run == run.run && matches!(row.status, Status::Running | Status::Paused);
    match (goes_on, is_call) {
        (true, true) => tried_call(store, run.call(made)).await,
        (true, false) => Ok(Tried::Ahead),
        (false, _) => tried_run(store, run, &row).await,
    }
}

/// The first call or child that a run has made behind what it has from the one before it, and
/// whether it is a call.
fn first_made(events: &[Event]) -> Option<(Seq, bool)> {
    let EventKind::RunStarted(started) = &events.first()?.kind else { return None };
    let from = started.lineage.copied.last().map_or(Seq::FIRST, |copied| copied.before);
    events.iter().skip_while(|event| event.seq < from).find_map(|event| match event.kind {
        EventKind::ActivityScheduled(_) => Some((event.seq, true)),
        EventKind::ChildStarted(_) => Some((event.seq, false)),
        _ => None,
    })
}

/// How a run ended, of the instance whose row this is.
async fn tried_run(store: &dyn Store, run: RunKey, row: &InstanceRow) -> Result<Tried> {
    let id = &row.id;
    let failed = |failure: &Failure| Tried::Failed(format!("{id} failed again: {failure}"));
    if row.run == run.run {
        return Ok(match (row.status, Outcome::of(row)) {
            (Status::Completed, _) => Tried::Completed,
            (Status::Failed, Some(Outcome::Failed(failure))) => failed(&failure),
            (Status::Blocked, _) => {
                let why = row.error.as_deref().unwrap_or_default();
                Tried::Failed(format!("{id} is blocked: {why}"))
            }
            (Status::Running | Status::Paused, _) => Tried::Ahead,
            (status, _) => Tried::Failed(format!("{id} was {}", status.name())),
        });
    }
    let events = store.history(run).await?;
    Ok(match events.last().map(|event| &event.kind) {
        Some(EventKind::RunContinued(RunContinued { initiator, failure, .. })) => {
            match (initiator, failure) {
                (Initiator::Workflow, _) => Tried::Completed,
                (Initiator::RetryPolicy, Some(failure)) => failed(failure),
                (Initiator::RetryPolicy, None) => Tried::Failed(format!("{id} failed again")),
                (Initiator::Reset, _) => Tried::Failed(format!("{id} was reset once more")),
            }
        }
        _ => Tried::Failed(format!("the history of run {} of {id} is gone", run.run)),
    })
}

/// How the first run ended of the instance that began again in place of another one.
async fn tried_again(store: &dyn Store, before: Uid, request: &str) -> Result<Tried> {
    let Some(before) = store.instance(before).await? else { return Ok(deleted()) };
    let Some(row) = store.find(&before.id).await? else { return Ok(deleted()) };
    match store.action(row.uid, request).await? {
        Some(_) => tried_run(store, RunKey::first(row.uid), &row).await,
        None => Ok(Tried::Failed(format!("the id {} was taken over by a later start", row.id))),
    }
}

/// How a call, or a child, ended, where this event says so.
fn end_of(made: Seq, event: &EventKind) -> Option<Tried> {
    match event {
        EventKind::ActivityCompleted(done) if done.activity == made => Some(Tried::Completed),
        EventKind::ActivityFailed(failed) if failed.activity == made => {
            Some(Tried::Failed(failed.failure.to_string()))
        }
        EventKind::ActivityCancelled { activity, .. } if *activity == made => {
            Some(Tried::Failed(format!("call #{activity} was cancelled")))
        }
        EventKind::ChildCompleted { child, .. } if *child == made => Some(Tried::Completed),
        EventKind::ChildFailed { child, failure } if *child == made => {
            Some(Tried::Failed(failure.to_string()))
        }
        _ => None,
    }
}

/// How a call ended that has no task.
async fn ended_call(store: &dyn Store, call: CallKey) -> Result<Tried> {
    // Its run may not have heard of it.
    for row in store.messages(call.run.uid).await? {
        if let Message::Result { run, event } = &row.body
            && *run == call.run.run
            && let Some(ended) = end_of(call.seq, event)
        {
            return Ok(ended);
        }
    }
    // In this order: what ends a run ends its calls in the same commit.
    let of = store.instance(call.run.uid).await?;
    let events = store.history(call.run).await?;
    if let Some(ended) = events.iter().find_map(|event| end_of(call.seq, &event.kind)) {
        return Ok(ended);
    }
    // Its run is about to make it, or has done so since its task was looked for.
    let is_open = of.is_some_and(|row| row.run == call.run.run && !row.status.is_closed());
    Ok(match is_open {
        true => Tried::Ahead,
        false => Tried::Failed(format!("call #{} ended with its run", call.seq)),
    })
}
