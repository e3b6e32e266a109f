//! Every read of a store as text, without what a store is free to choose.

use std::fmt::Debug;
use std::sync::Arc;

use resurgam_core::event::Compensation;
use resurgam_core::{CallKey, RunKey, Timestamp, Uid};

use super::rows::{
    ACTIVITIES, FINGERPRINTS, IDS, KEYS, NODES, POLICIES, QUEUES, REQUESTS, SCHEDULES, WORKFLOWS,
};
use crate::rows::{InstanceCursor, InstanceFilter, InstanceRow, MessageRow, Status, TaskRow};
use crate::{
    BulkCursor, BulkRecord, CallCursor, CallFilter, DeadLetter, DeadLetterFilter, Error,
    LetterState, PausedFilter, Result, Runnable, ScheduleRecord, Store,
};

/// More than there is.
const ALL: usize = 1_000;

/// What is asked of a store.
#[derive(Debug)]
pub(super) struct Questions {
    pub(super) uids: Vec<Uid>,
    pub(super) runs: Vec<RunKey>,
    pub(super) calls: Vec<CallKey>,
    /// Calls whose tasks are there and can be loaded.
    pub(super) loadable: Vec<CallKey>,
    pub(super) runnable: Runnable,
    pub(super) before: Timestamp,
    pub(super) limit: usize,
    pub(super) uid: Uid,
}

/// The answers, each with what was asked.
#[derive(Default)]
struct Answers(Vec<(String, String)>);

impl Answers {
    fn add<T: Debug>(&mut self, what: impl Debug, answer: Result<T>) {
        let answer = answer.map_err(|error| class(&error));
        self.0.push((format!("{what:?}"), format!("{answer:?}")));
    }
}

/// What a caller can do about an error.
pub(super) fn class(error: &Error) -> &'static str {
    match error {
        _ if error.is_transient() => "transient",
        _ if error.is_fenced() => "fenced",
        _ if error.is_data() => "data",
        _ => "another error",
    }
}

/// Asks everything.
pub(super) async fn reads(store: &dyn Store, ask: &Questions) -> Vec<(String, String)> {
    let mut answers = Answers::default();
    instances(store, ask, &mut answers).await;
    runs(store, ask, &mut answers).await;
    lists(store, ask, &mut answers).await;
    due(store, ask, &mut answers).await;
    tasks(store, ask, &mut answers).await;
    schedules(store, ask, &mut answers).await;
    bulk(store, ask, &mut answers).await;
    gates(store, ask, &mut answers).await;
    unresolved(store, ask, &mut answers).await;
    answers.0
}

async fn instances(store: &dyn Store, ask: &Questions, answers: &mut Answers) {
    for uid in &ask.uids {
        answers.add(("instance", uid), store.instance(*uid).await);
        answers.add(("load_run", uid), store.load_run(*uid).await.map(level_run));
        answers.add(("messages", uid), store.messages(*uid).await);
        answers.add(("due_messages_of", uid), store.due_messages_of(*uid, ask.before).await);
        for id in REQUESTS {
            answers.add(("action", uid, id), store.action(*uid, id).await);
        }
        for key in KEYS {
            answers.add(("kv", uid, key), store.kv(*uid, key).await);
        }
    }
    let uids: Arc<[Uid]> = ask.uids.clone().into();
    let by_uid = |mut rows: Vec<InstanceRow>| {
        rows.sort_by_key(|row| row.uid);
        rows
    };
    answers.add("closed", store.closed(uids.clone()).await.map(by_uid));
    answers.add("missing", store.missing(uids).await);
    for request in REQUESTS {
        answers.add(("find_request", request), store.find_request(request).await);
        for id in IDS {
            answers.add(("signalled", id, request), store.signalled(id, request).await);
        }
    }
    for id in IDS {
        answers.add(("find", id), store.find(id).await);
    }
    for hash in POLICIES {
        answers.add(("policy", hash), store.policy(hash).await);
    }
}

async fn gates(store: &dyn Store, ask: &Questions, answers: &mut Answers) {
    answers.add("gates", store.gates().await);
    answers.add("gate_counts", store.gate_counts(ask.before).await);
    answers.add("waiting_gates", store.waiting_gates("", ask.limit).await);
    let keys: Arc<[String]> = KEYS.iter().map(|key| (*key).to_string()).collect();
    answers.add("count_waiting", store.count_waiting(keys, ask.before, ask.limit).await);
}

/// A letter without the name of its workflow, which the store knows from its instance: a random
/// batch may write a letter before the instance that it is of, which no node does.
fn unnamed(letter: DeadLetter) -> DeadLetter {
    DeadLetter { workflow: String::new(), ..letter }
}

async fn unresolved(store: &dyn Store, ask: &Questions, answers: &mut Answers) {
    for call in &ask.calls {
        let letter = store.dead_letter(*call).await;
        answers.add(("dead_letter", call), letter.map(|letter| letter.map(unnamed)));
    }
    let calls = ask.calls.iter();
    let after = calls.map(|call| CallCursor { at: ask.before, call: *call }).next();
    let (fingerprint, activity) =
        (Some(FINGERPRINTS[0].to_string()), Some(ACTIVITIES[0].to_string()));
    for state in LetterState::ALL {
        let all = || DeadLetterFilter { state, ..DeadLetterFilter::default() };
        let filters = [
            DeadLetterFilter { limit: ask.limit.max(1), ..all() },
            DeadLetterFilter { fingerprint: fingerprint.clone(), ..all() },
            DeadLetterFilter { activity: activity.clone(), since: Some(ask.before), ..all() },
            DeadLetterFilter { after, ..all() },
            DeadLetterFilter { after, fingerprint: fingerprint.clone(), ..all() },
            DeadLetterFilter { queue: Some(QUEUES[0].to_string()), after, ..all() },
            DeadLetterFilter { failure_code: Some("none".to_string()), ..all() },
        ];
        for filter in filters {
            let letters = store.dead_letters(filter.clone()).await;
            let letters = letters.map(|all| all.into_iter().map(unnamed).collect::<Vec<_>>());
            answers.add(("dead_letters", &filter), letters);
            let places = store.dead_letter_places(filter.clone()).await;
            answers.add(("dead_letter_places", &filter), places);
            let groups = store.dead_letter_groups(filter.clone()).await;
            answers.add(("dead_letter_groups", &filter), groups);
        }
    }
    answers.add("oldest_dead_letter", store.oldest_dead_letter().await);
    let filters = [
        PausedFilter { limit: ask.limit.max(1), ..PausedFilter::default() },
        PausedFilter { fingerprint: fingerprint.clone(), ..PausedFilter::default() },
        PausedFilter { activity, since: Some(ask.before), ..PausedFilter::default() },
        PausedFilter { after, ..PausedFilter::default() },
        PausedFilter { after, fingerprint, ..PausedFilter::default() },
    ];
    for filter in filters {
        let paused = store.paused_calls(filter.clone()).await.map(|mut calls| {
            calls.iter_mut().for_each(|call| level_tasks(std::slice::from_mut(&mut call.task)));
            calls
        });
        answers.add(("paused_calls", &filter), paused);
        answers.add(("paused_groups", &filter), store.paused_groups(filter.clone()).await);
    }
}

async fn runs(store: &dyn Store, ask: &Questions, answers: &mut Answers) {
    for run in &ask.runs {
        answers.add(("history", run), store.history(*run).await);
        answers.add(("cancel_requested", run), store.cancel_requested(*run).await);
        let tasks = store.tasks(*run).await.map(|mut tasks| {
            level_tasks(&mut tasks);
            tasks
        });
        answers.add(("tasks", run), tasks);
        // Those that ended at the same moment come in any order, but those of one call in its own.
        let attempts = store.attempts(*run).await.map(|mut rows| {
            let is_sorted = rows.is_sorted_by_key(|row| row.ended_at);
            rows.sort_by_key(|row| (row.ended_at, row.call.seq));
            (is_sorted, rows)
        });
        answers.add(("attempts", run), attempts);
        answers.add(("actions", run), store.actions(*run).await);
    }
}

async fn lists(store: &dyn Store, ask: &Questions, answers: &mut Answers) {
    let all = InstanceFilter::default;
    let filters = [
        InstanceFilter { limit: ask.limit, ..all() },
        InstanceFilter { status: vec![Status::Running, Status::Failed], ..all() },
        InstanceFilter { workflow: Some(WORKFLOWS[0].to_string()), limit: ask.limit, ..all() },
        InstanceFilter { tag: Some((KEYS[0].to_string(), IDS[0].to_string())), ..all() },
        InstanceFilter { schedule: Some(SCHEDULES[0].to_string()), ..all() },
        InstanceFilter { compensation: Some(Compensation::Complete), ..all() },
        InstanceFilter { retrying: true, ..all() },
        all(),
    ];
    for filter in filters {
        answers.add(("list", filter.clone()), store.list(filter.clone()).await);
        answers.add(("pages of", filter.clone()), pages(store, ask, filter).await);
    }
    answers.add("inbox", store.inbox(ALL).await);
    answers.add("the beginning of the inbox", store.inbox(ask.limit).await);
}

/// A list in two pieces, and what it has from a time on.
async fn pages(
    store: &dyn Store,
    ask: &Questions,
    filter: InstanceFilter,
) -> Result<[Vec<InstanceRow>; 3]> {
    let first = store.list(InstanceFilter { limit: 2, ..filter.clone() }).await?;
    let after = first.last().map(InstanceCursor::of);
    let rest = store.list(InstanceFilter { after, ..filter.clone() }).await?;
    let young = store.list(InstanceFilter { since: Some(ask.before), ..filter }).await?;
    Ok([first, rest, young])
}

/// What is due at the same moment comes in any order, and which of it a limit leaves out is open.
async fn due(store: &dyn Store, ask: &Questions, answers: &mut Answers) {
    let (before, runnable) = (ask.before, || ask.runnable.clone());
    let tasks = store.due_tasks(runnable(), before, ALL).await.map(|mut due| {
        let is_sorted = due.is_sorted_by_key(|task| task.wake_at);
        due.sort_by_key(|task| (task.wake_at, task.call));
        (is_sorted, due)
    });
    answers.add(("due_tasks", before, runnable()), tasks);
    let first = store.due_tasks(runnable(), before, ask.limit).await;
    let times = first.map(|due| due.into_iter().map(|task| task.wake_at).collect::<Vec<_>>());
    answers.add(("the first due_tasks", ask.limit, before, runnable()), times);

    let deadlines = store.due_deadlines(None, before, ALL).await.map(|mut due| {
        let is_sorted = due.is_sorted_by_key(|task| task.deadline_at);
        due.sort_by_key(|task| (task.deadline_at, task.call));
        (is_sorted, due)
    });
    answers.add(("due_deadlines", before), deadlines);
    let first = store.due_deadlines(None, before, ask.limit).await;
    let times = first.map(|due| due.into_iter().map(|task| task.deadline_at).collect::<Vec<_>>());
    answers.add(("the first due_deadlines", ask.limit, before), times);

    for before in [before, MessageRow::NEVER] {
        let messages = store.due_messages(before, ALL).await.map(|mut due| {
            let is_sorted = due.is_sorted_by_key(|message| message.due_at);
            due.sort_by_key(|message| (message.due_at, message.uid));
            (is_sorted, due)
        });
        answers.add(("due_messages", before), messages);
    }
    let first = store.due_messages(before, ask.limit).await;
    let times = first.map(|due| due.into_iter().map(|message| message.due_at).collect::<Vec<_>>());
    answers.add(("the first due_messages", ask.limit, before), times);
    answers.add("held_up", store.held_up(None, ALL).await);
    let after = store.held_up(Some(ask.uid), ask.limit).await;
    answers.add(("held_up", ask.uid, ask.limit), after);
}

async fn tasks(store: &dyn Store, ask: &Questions, answers: &mut Answers) {
    let level = |mut tasks: Vec<TaskRow>| {
        level_tasks(&mut tasks);
        tasks
    };
    answers.add("tasks_of", store.tasks_of(ask.calls.clone().into()).await.map(level));
    for node in NODES {
        answers.add(("abandoned", node), store.abandoned(node, ALL).await.map(level));
        let some = store.abandoned(node, ask.limit).await.map(|tasks| tasks.len());
        answers.add(("some abandoned", node, ask.limit), some);
    }
    let loaded = store.load_tasks(ask.loadable.clone().into()).await.map(|mut records| {
        records.sort_by_key(|record| record.task.call);
        records.iter_mut().for_each(|record| level_task(&mut record.task));
        records
    });
    answers.add("load_tasks", loaded);
    for call in ask.loadable.iter().take(2) {
        let loaded = store.load_task(*call).await.map(|record| {
            record.map(|mut record| {
                level_task(&mut record.task);
                record
            })
        });
        answers.add(("load_task", call), loaded);
    }
}

async fn schedules(store: &dyn Store, ask: &Questions, answers: &mut Answers) {
    let level = |mut records: Vec<ScheduleRecord>| {
        records.iter_mut().for_each(|record| record.revision = 0);
        records
    };
    let due = store.due_schedules(ask.before, ALL).await.map(|mut found| {
        found.due = level(found.due);
        found.due.sort_by_key(|record| (record.row.next_at, record.row.id.clone()));
        found
    });
    answers.add(("due_schedules", ask.before), due);
    let first = store.due_schedules(ask.before, 1).await.map(|found| {
        let times: Vec<_> = found.due.iter().map(|record| record.row.next_at).collect();
        (times, found.next)
    });
    answers.add(("the first due_schedules", ask.before), first);
    for after in ["", "a"] {
        let waiting = store.waiting_schedules(after, ask.limit).await;
        answers.add(("waiting_schedules", after, ask.limit), waiting.map(level));
        let all = store.schedules(after, ask.limit).await;
        answers.add(("schedules", after, ask.limit), all.map(level));
    }
    for id in SCHEDULES {
        let found = store.schedule(id).await;
        answers.add(("schedule", id), found.map(|found| level(found.into_iter().collect())));
    }
}

async fn bulk(store: &dyn Store, ask: &Questions, answers: &mut Answers) {
    let level = |mut records: Vec<BulkRecord>| {
        records.iter_mut().for_each(|record| record.revision = 0);
        records
    };
    answers.add("open_bulk", store.open_bulk(ALL).await.map(level));
    let list = store.bulk_list(None, ALL).await;
    let after = list.as_ref().ok().and_then(|all| all.first()).map(|it| BulkCursor::of(&it.row));
    answers.add("bulk_list", list.map(level));
    answers.add(("bulk_list", &after), store.bulk_list(after.clone(), ask.limit).await.map(level));
    answers.add("oldest_bulk", store.oldest_bulk().await);
    for filter in [
        CallFilter::default(),
        CallFilter { activity: Some(ACTIVITIES[0].to_string()), ..CallFilter::default() },
        CallFilter { failed_since: Some(ask.before), ..CallFilter::default() },
        CallFilter { started_since: Some(ask.before), ..CallFilter::default() },
        CallFilter { fingerprint: Some(FINGERPRINTS[0].to_string()), ..CallFilter::default() },
    ] {
        let found = store.matching_calls(filter.clone(), None, ALL).await.map(|page| {
            let mut tasks: Vec<TaskRow> = page.calls.into_iter().map(|it| it.task).collect();
            level_tasks(&mut tasks);
            tasks
        });
        answers.add(("matching_calls", filter), found);
    }
    for activity in [None, Some(ACTIVITIES[0].to_string())] {
        let calls = store.run_calls(ask.runs.clone().into(), activity.clone()).await;
        answers.add(("run_calls", activity), calls);
    }
    let asked = ask
        .calls
        .iter()
        .take(4)
        .flat_map(|call| REQUESTS.iter().map(move |request| (*call, request.to_string())));
    answers.add("answers", store.answers(asked.collect()).await);
}

fn level_run(mut run: Option<crate::rows::RunRecord>) -> Option<crate::rows::RunRecord> {
    if let Some(run) = &mut run {
        level_tasks(&mut run.tasks);
    }
    run
}

/// Tasks by call, and without the tokens that a store has chosen.
pub(super) fn level_tasks(tasks: &mut [TaskRow]) {
    tasks.sort_by_key(|task| task.call);
    tasks.iter_mut().for_each(level_task);
}

fn level_task(task: &mut TaskRow) {
    if let Some(claim) = task.claim.as_mut().filter(|claim| claim.node == "other") {
        claim.token = 0;
    }
}
