//! A bulk job is written together with what it asks for, and finds the calls that it is about.

use resurgam_core::action::ActionAnswer;
use resurgam_core::{CallKey, Failure, Fingerprint, RunKey};

use super::fixtures::*;
use crate::rows::{AttemptRow, Message, MessageRow, Pause, Progress, TaskRow};
use crate::{
    AskedAnswer, BulkCursor, BulkRow, BulkWrite, CallFilter, CallStatus, Deletion, RunCalls, Step,
    StepResult, Store,
};

fn job(id: &str, created_at: i64) -> BulkRow {
    BulkRow {
        id: id.to_string(),
        filter: r#"{"activity":"ü'\""}"#.to_string(),
        action: "{}".to_string(),
        options: "{}".to_string(),
        cursor: None,
        counts: "{}".to_string(),
        page: "[]".to_string(),
        by: "ana".to_string(),
        reason: Some("a \"reason\"".to_string()),
        stopped_by: None,
        error: None,
        created_at: at(created_at),
        closed_at: None,
    }
}

fn writes(write: BulkWrite) -> Step {
    Step { bulk: Some(Box::new(write)), ..Step::default() }
}

fn asks(number: u128, id: &str) -> MessageRow {
    let request = Box::new(action(number, 2, id, 5).request);
    let body = Message::Action { run: 1, activity: call(number, 2).seq, request };
    MessageRow { uid: uid(number), id: MessageRow::action_id(id), due_at: at(0), body }
}

pub async fn a_bulk_job_comes_back_as_it_was(store: &dyn Store) {
    assert_eq!(store.bulk("a").await.unwrap(), None);
    write(store, [writes(BulkWrite::Insert(job("a", 1)))]).await;
    let first = store.bulk("a").await.unwrap().unwrap();
    assert_eq!(first.row, job("a", 1));
    let row = BulkRow {
        cursor: Some("behind \"this\"".to_string()),
        page: r#"["x"]"#.to_string(),
        stopped_by: Some("bo".to_string()),
        error: Some("ü".to_string()),
        closed_at: Some(at(9)),
        ..job("a", 1)
    };
    let update = BulkWrite::Update { row: row.clone(), revision: first.revision };
    write(store, [writes(update)]).await;
    let second = store.bulk("a").await.unwrap().unwrap();
    assert_eq!(second.row, row);
    assert_eq!((first.revision, second.revision), (1, 2));
}

pub async fn what_a_job_asks_for_is_refused_with_its_change(store: &dyn Store) {
    write(store, [start(1, "order-1"), writes(BulkWrite::Insert(job("a", 1)))]).await;
    let again = commit(store, [writes(BulkWrite::Insert(job("a", 2)))]).await;
    assert_eq!(again, [StepResult::Missed]);
    let revision = store.bulk("a").await.unwrap().unwrap().revision;
    let update = |cursor: &str, id: &str| {
        let row = BulkRow { cursor: Some(cursor.to_string()), ..job("a", 1) };
        writes(BulkWrite::Update { row, revision }).send(asks(1, id))
    };
    // Of two that follow from the same, one is written.
    let both = commit(store, [update("1", "x"), update("2", "y")]).await;
    assert_eq!(both, [StepResult::Written, StepResult::Missed]);
    assert_eq!(commit(store, [update("3", "z")]).await, [StepResult::Missed]);
    let found = store.bulk("a").await.unwrap().unwrap();
    assert_eq!(found.row.cursor.as_deref(), Some("1"));
    let messages = store.messages(uid(1)).await.unwrap();
    assert_eq!(messages.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["action/x"]);
}

pub async fn a_job_is_stopped_once_and_whoever_works_on_it_notices(store: &dyn Store) {
    write(store, [writes(BulkWrite::Insert(job("a", 1)))]).await;
    let revision = store.bulk("a").await.unwrap().unwrap().revision;
    let stop = |id: &str| writes(BulkWrite::Stop { id: id.to_string(), by: "bo".to_string() });
    let results = commit(store, [stop("a"), stop("a"), stop("b")]).await;
    assert_eq!(results, [StepResult::Written, StepResult::Missed, StepResult::Missed]);
    let update = BulkWrite::Update { row: job("a", 1), revision };
    assert_eq!(commit(store, [writes(update)]).await, [StepResult::Missed]);
    let stopped = store.bulk("a").await.unwrap().unwrap();
    assert_eq!(stopped.row, BulkRow { stopped_by: Some("bo".to_string()), ..job("a", 1) });
    let row = BulkRow { closed_at: Some(at(9)), ..job("b", 1) };
    write(store, [writes(BulkWrite::Insert(row))]).await;
    assert_eq!(commit(store, [stop("b")]).await, [StepResult::Missed]);
}

pub async fn open_jobs_come_oldest_first_and_a_list_newest_first(store: &dyn Store) {
    let closed = BulkRow { closed_at: Some(at(9)), ..job("d", 2) };
    let jobs = [job("b", 3), job("a", 3), job("c", 1), closed];
    write(store, jobs.map(|job| writes(BulkWrite::Insert(job)))).await;
    let ids = |found: Vec<crate::BulkRecord>| -> Vec<String> {
        found.into_iter().map(|record| record.row.id).collect()
    };
    assert_eq!(ids(store.open_bulk(9).await.unwrap()), ["c", "a", "b"]);
    assert_eq!(ids(store.open_bulk(1).await.unwrap()), ["c"]);
    assert_eq!(ids(store.bulk_list(None, 9).await.unwrap()), ["b", "a", "d", "c"]);
    let after = Some(BulkCursor { at: at(3), id: "a".to_string() });
    assert_eq!(ids(store.bulk_list(after, 1).await.unwrap()), ["d"]);
}

pub async fn jobs_that_were_over_long_ago_go(store: &dyn Store) {
    assert_eq!(store.oldest_bulk().await.unwrap(), None);
    let over = |id: &str, time| BulkRow { closed_at: Some(at(time)), ..job(id, 1) };
    let jobs = [over("a", 10), over("b", 20), job("c", 1)];
    write(store, jobs.map(|job| writes(BulkWrite::Insert(job)))).await;
    assert_eq!(store.oldest_bulk().await.unwrap(), Some(at(10)));
    let done = store.delete_closed(Deletion::Bulk { before: at(20) }).await.unwrap();
    assert_eq!((done.rows, done.more, done.next), (1, false, Some(at(20))));
    assert_eq!(store.bulk("a").await.unwrap(), None);
    assert_eq!(store.bulk_list(None, 9).await.unwrap().len(), 2);
}

/// Five calls that differ in everything a filter can ask for.
async fn calls(store: &dyn Store) {
    let paused = Progress {
        paused: Some(Box::new(Pause {
            since: Some(at(50)),
            fingerprint: Some("1:0a".to_string()),
            ..Pause::default()
        })),
        ..Progress::default()
    };
    let mut tagged = instance(1, "order-1");
    tagged.tags = [("team".to_string(), "blue".to_string())].into();
    let mut report = instance(2, "report-2");
    report.workflow = "report".to_string();
    let failed = |number, failure: Failure, time| AttemptRow {
        failure: Some(failure),
        ended_at: at(time),
        ..failed_attempt(call(number, 2), 1)
    };
    let other = TaskRow { name: "ship".to_string(), queue: "q2".to_string(), ..task(call(2, 2)) };
    let wait = |number| TaskRow { attempt: 1, ..task(call(number, 2)) };
    let down = Failure::of_type("GatewayDown", "no answer");
    let mut refused = Failure::of_type("Refused", "no");
    refused.code = Some("402".to_string());
    let steps = [
        start_of(tagged).insert(task(call(1, 2))),
        start_of(report).insert(other),
        start(3, "order-3").insert(wait(3)).attempt(failed(3, refused, 10)).attempt(failed(
            3,
            down.clone(),
            100,
        )),
        start(4, "order-4").insert(TaskRow { claim: claim("node-a"), ..wait(4) }),
        start(5, "order-5")
            .insert(TaskRow { wake_at: TaskRow::NEVER, progress: paused, ..wait(5) })
            .attempt(failed(5, down, 40)),
    ];
    write(store, steps).await;
}

async fn found(store: &dyn Store, filter: CallFilter, limit: usize) -> Vec<CallKey> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.matching_calls(filter.clone(), after, limit).await.unwrap();
        assert!(page.calls.len() <= limit);
        found.extend(page.calls.iter().map(|matched| matched.task.call));
        after = page.go_on;
        if after.is_none() {
            break;
        }
    }
    found.sort_unstable();
    found
}

pub async fn calls_that_match_are_found_page_by_page(store: &dyn Store) {
    calls(store).await;
    let text = |text: &str| Some(text.to_string());
    let all = CallFilter::default;
    let cases: [(CallFilter, &[u128]); 16] = [
        (all(), &[1, 2, 3, 4, 5]),
        (CallFilter { ids: vec!["order-3".into(), "none".into()], ..all() }, &[3]),
        (CallFilter { workflow: text("report"), ..all() }, &[2]),
        (CallFilter { activity: text("charge"), ..all() }, &[1, 3, 4, 5]),
        (CallFilter { queue: text("q2"), ..all() }, &[2]),
        (CallFilter { status: Some(CallStatus::Waiting), ..all() }, &[1, 2, 3]),
        (CallFilter { status: Some(CallStatus::Retrying), ..all() }, &[3]),
        (CallFilter { status: Some(CallStatus::Running), ..all() }, &[4]),
        (CallFilter { status: Some(CallStatus::Paused), ..all() }, &[5]),
        (CallFilter { failure_type: text("GatewayDown"), ..all() }, &[3, 5]),
        // Only the last failure counts.
        (CallFilter { failure_code: text("402"), ..all() }, &[]),
        (CallFilter { tag: Some(("team".into(), "blue".into())), ..all() }, &[1]),
        (CallFilter { started_since: Some(at(4_000)), ..all() }, &[4, 5]),
        (CallFilter { failed_since: Some(at(100)), ..all() }, &[3]),
        (CallFilter { fingerprint: text("1:0a"), paused_since: Some(at(50)), ..all() }, &[5]),
        (CallFilter { until: Some(at(3_000)), ..all() }, &[1, 2, 3]),
    ];
    for (filter, expected) in cases {
        let mut expected: Vec<CallKey> = expected.iter().map(|number| call(*number, 2)).collect();
        expected.sort_unstable();
        assert_eq!(found(store, filter.clone(), 100).await, expected, "{filter:?}");
        assert_eq!(found(store, filter.clone(), 2).await, expected, "two at a time: {filter:?}");
    }
    let none = [
        CallFilter { fingerprint: text(Fingerprint::UNKNOWN), ..all() },
        CallFilter { paused_since: Some(at(51)), ..all() },
        CallFilter { tag: Some(("team".into(), "red".into())), ..all() },
    ];
    for filter in none {
        assert_eq!(found(store, filter.clone(), 2).await, [], "{filter:?}");
    }
    let page = store.matching_calls(CallFilter { workflow: text("report"), ..all() }, None, 9);
    assert_eq!(page.await.unwrap().calls[0].instance, "report-2");
}

pub async fn the_calls_of_a_run_say_what_failed_last_and_what_is_open(store: &dyn Store) {
    calls(store).await;
    let runs: Vec<RunKey> = [3, 2, 9, 1].into_iter().map(run).collect();
    let told = async |activity: Option<&str>| {
        let activity = activity.map(str::to_string);
        let told = store.run_calls(runs.clone().into(), activity).await.unwrap();
        let last = |calls: RunCalls| {
            let failed = calls.failed.map(|it| (it.activity, it.failure.type_name.clone(), it.at));
            (calls.has_open, failed)
        };
        told.into_iter().map(last).collect::<Vec<_>>()
    };
    let last = Some(("charge".to_string(), Some("GatewayDown".to_string()), at(100)));
    let expected = [(false, last.clone()), (false, None), (false, None), (false, None)];
    assert_eq!(told(None).await, expected);
    let ship = [(false, last.clone()), (true, None), (false, None), (false, None)];
    assert_eq!(told(Some("ship")).await, ship);
    let charge = [(true, last), (false, None), (false, None), (true, None)];
    assert_eq!(told(Some("charge")).await, charge);
    assert_eq!(store.run_calls([].into(), None).await.unwrap(), []);
}

pub async fn what_came_of_actions_is_told(store: &dyn Store) {
    let done = action(1, 2, "done", 5);
    let mut refused = action(2, 2, "refused", 5);
    refused.answer = ActionAnswer::refused("charge#2 has ended");
    let actions = vec![done.clone(), refused.clone()];
    let waits = start(3, "order-3").send(asks(3, "waits"));
    write(store, [start(1, "order-1"), start(2, "order-2"), waits]).await;
    write(store, [Step { actions, ..step() }]).await;
    let asked = [(1, "done"), (2, "refused"), (3, "waits"), (3, "done"), (4, "waits")];
    let asked = asked.map(|(number, id)| (call(number, 2), id.to_string()));
    let expected = [
        AskedAnswer::Answered(done.answer),
        AskedAnswer::Answered(refused.answer),
        AskedAnswer::Waits,
        AskedAnswer::Gone,
        AskedAnswer::Gone,
    ];
    assert_eq!(store.answers(asked.into()).await.unwrap(), expected);
    assert_eq!(store.answers([].into()).await.unwrap(), []);
}
