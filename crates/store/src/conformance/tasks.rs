//! A task is there from its schedule to its end, and every change finds exactly the one it means.

use std::sync::Arc;

use super::fixtures::*;
use resurgam_core::{Failure, Seq};

use crate::rows::{
    Claim, DueDeadline, DueTask, FellBack, Heartbeat, InstanceFilter, Message, MessageRow, Pause,
    Progress, TaskRow,
};
use crate::{Report, Reported, Runnable, Step, Store, TaskWrite};

pub async fn a_task_comes_back_as_it_was(store: &dyn Store) {
    let full = full(call(1, 2));
    write(store, [start(1, "order-1").insert(full.clone()).insert(task(call(1, 3)))]).await;
    assert_eq!(store.tasks(run(1)).await.unwrap(), [full, task(call(1, 3))]);
}

pub async fn a_call_has_one_task(store: &dyn Store) {
    write(store, [start(1, "order-1").insert(task(call(1, 2)))]).await;
    let mut second = task(call(1, 2));
    second.attempt = 9;
    refused(store, [step().insert(second)]).await;
    assert_eq!(store.tasks(run(1)).await.unwrap(), [task(call(1, 2))]);
}

pub async fn a_call_cannot_follow_itself(store: &dyn Store) {
    let running = TaskRow { claim: claim("node-a"), ..task(call(1, 2)) };
    write(store, [start(1, "order-1").insert(running.clone())]).await;
    // A new task comes before the end of the old one, and there is one already.
    let again = TaskRow { attempt: 9, ..running.clone() };
    refused(store, [step().insert(again).delete(call(1, 2))]).await;
    assert_eq!(store.tasks(run(1)).await.unwrap(), [running]);
}

pub async fn a_call_that_follows_another_keeps_nothing_of_it(store: &dyn Store) {
    let done = |number| full(call(number, 2));
    let node = &done(1).claim.unwrap().node;
    for (number, claim) in [(1, claim(node)), (2, claim("node-b")), (3, None)] {
        let next = TaskRow { claim, ..task(call(number, 4)) };
        write(store, [start(number, &format!("order-{number}")).insert(done(number))]).await;
        write(store, [step().delete(call(number, 2)).insert(next.clone())]).await;
        assert_eq!(store.tasks(run(number)).await.unwrap(), [next]);
    }
}

pub async fn a_call_follows_only_one_that_is_there_and_only_once(store: &dyn Store) {
    let claimed = |seq| TaskRow { claim: claim("node-a"), ..task(call(1, seq)) };
    write(store, [start(1, "order-1").insert(claimed(2)).insert(claimed(4))]).await;
    let error = refused(store, [step().delete(call(1, 3)).insert(claimed(6))]).await;
    assert!(error.to_string().contains(&call(1, 3).to_string()), "{error}");
    refused(store, [step().delete(call(1, 2)).insert(claimed(4))]).await;
    assert_eq!(store.tasks(run(1)).await.unwrap(), [claimed(2), claimed(4)]);
}

pub async fn an_update_needs_its_task(store: &dyn Store) {
    write(store, [start(1, "order-1").insert(task(call(1, 2)))]).await;
    let error = refused(store, [step().update(task(call(1, 3)))]).await;
    assert!(error.to_string().contains(&call(1, 3).to_string()), "{error}");
    write(store, [step().delete(call(1, 2))]).await;
    refused(store, [step().update(task(call(1, 2)))]).await;
    assert!(store.tasks(run(1)).await.unwrap().is_empty());
}

pub async fn an_update_changes_everything_and_nothing_else(store: &dyn Store) {
    write(store, [start(1, "order-1").insert(task(call(1, 2))).insert(task(call(1, 3)))]).await;
    write(store, [step().update(full(call(1, 2)))]).await;
    assert_eq!(store.tasks(run(1)).await.unwrap(), [full(call(1, 2)), task(call(1, 3))]);
    write(store, [step().update(task(call(1, 2)))]).await;
    assert_eq!(store.tasks(run(1)).await.unwrap(), [task(call(1, 2)), task(call(1, 3))]);
}

pub async fn a_deletion_needs_its_task(store: &dyn Store) {
    write(store, [start(1, "order-1").insert(task(call(1, 2))).insert(task(call(1, 3)))]).await;
    write(store, [step().delete(call(1, 2))]).await;
    let error = refused(store, [step().delete(call(1, 2))]).await;
    assert!(error.to_string().contains(&call(1, 2).to_string()), "{error}");
    assert_eq!(store.tasks(run(1)).await.unwrap(), [task(call(1, 3))]);
}

pub async fn a_run_that_closes_takes_its_tasks_and_no_others(store: &dyn Store) {
    let mut second_run = run(1);
    second_run.run = 2;
    let later = second_run.call(resurgam_core::Seq(2));
    let batch = [
        start(1, "order-1").insert(task(call(1, 2))).insert(full(call(1, 3))).insert(task(later)),
        start(2, "order-2").insert(task(call(2, 2))),
    ];
    write(store, batch).await;
    write(store, [step().delete_all(run(1))]).await;
    assert!(store.tasks(run(1)).await.unwrap().is_empty());
    assert_eq!(store.tasks(second_run).await.unwrap(), [task(later)]);
    assert_eq!(store.tasks(run(2)).await.unwrap(), [task(call(2, 2))]);
    // A run without tasks closes as well.
    write(store, [step().delete_all(run(1))]).await;
}

pub async fn only_tasks_of_known_activities_are_due(store: &dyn Store) {
    let mut unknown = due_at(2, 1);
    unknown.name = "unheard of".to_string();
    let known = due_at(3, 2);
    let names: Arc<[String]> = Arc::new([known.name.clone()]);
    write(store, [start(1, "order-1").insert(unknown).insert(known)]).await;
    let of = |activities| Runnable { activities: Some(activities), ..Runnable::default() };
    let found = store.due_tasks(of(names), at(1_000), 1).await.unwrap();
    assert_eq!(found.iter().map(|task| task.call).collect::<Vec<_>>(), [call(1, 3)]);
    assert_eq!(store.due_tasks(of(Arc::new([])), at(1_000), 1).await.unwrap(), []);
}

pub async fn only_tasks_of_served_queues_are_due(store: &dyn Store) {
    let mut elsewhere = due_at(2, 1);
    elsewhere.queue = "elsewhere".to_string();
    let here = due_at(3, 2);
    let queues: Arc<[String]> = Arc::new([here.queue.clone()]);
    write(store, [start(1, "order-1").insert(elsewhere).insert(here)]).await;
    let of = |queues| Runnable { queues: Some(queues), ..Runnable::default() };
    let found = store.due_tasks(of(queues), at(1_000), 1).await.unwrap();
    assert_eq!(found.iter().map(|task| task.call).collect::<Vec<_>>(), [call(1, 3)]);
    assert_eq!(store.due_tasks(of(Arc::new([])), at(1_000), 1).await.unwrap(), []);
}

pub async fn a_queue_that_is_named_twice_is_served_once(store: &dyn Store) {
    let here = due_at(2, 1);
    let queues: Arc<[String]> = Arc::new([here.queue.clone(), here.queue.clone()]);
    write(store, [start(1, "order-1").insert(here)]).await;
    let runnable = Runnable { queues: Some(queues), ..Runnable::default() };
    assert_eq!(store.due_tasks(runnable, at(1_000), 10).await.unwrap().len(), 1);
}

pub async fn a_task_that_lacks_something_is_not_due_where_that_is_missing(store: &dyn Store) {
    let mut lacking = due_at(2, 1);
    lacking.progress.lacks = Some("licence \"7\"".to_string());
    let here = due_at(3, 2);
    write(store, [start(1, "order-1").insert(lacking).insert(here)]).await;
    let of = |provides| Runnable { provides, ..Runnable::default() };
    for missing in [&[][..], &["licence 7".to_string()], &["lacks".to_string()]] {
        let found = store.due_tasks(of(Some(missing.into())), at(1_000), 1).await.unwrap();
        assert_eq!(found.iter().map(|task| task.call).collect::<Vec<_>>(), [call(1, 3)]);
    }
    // Nothing is left out when all are asked for.
    let found = store.due_tasks(of(None), at(1_000), 2).await.unwrap();
    assert_eq!(found.len(), 2);
    if !store.is_shared() {
        let provides: Arc<[String]> = Arc::new(["licence \"7\"".to_string()]);
        let found = store.due_tasks(of(Some(provides)), at(1_000), 1).await.unwrap();
        assert_eq!(found.iter().map(|task| task.call).collect::<Vec<_>>(), [call(1, 2)]);
    }
}

pub async fn a_task_that_is_gone_can_be_discarded(store: &dyn Store) {
    write(store, [start(1, "order-1").insert(due_at(2, 1))]).await;
    let discard = || Step { tasks: vec![TaskWrite::Discard(call(1, 2))], ..Step::default() };
    store.commit(Arc::new([discard()])).await.unwrap();
    store.commit(Arc::new([discard()])).await.unwrap();
    assert_eq!(store.tasks(run(1)).await.unwrap(), []);
}

pub async fn a_task_that_is_gone_can_be_amended(store: &dyn Store) {
    write(store, [start(1, "order-1").insert(task(call(1, 2))).insert(task(call(1, 3)))]).await;
    let amend = || Step { tasks: vec![TaskWrite::Amend(full(call(1, 2)))], ..Step::default() };
    write(store, [amend()]).await;
    assert_eq!(store.tasks(run(1)).await.unwrap(), [full(call(1, 2)), task(call(1, 3))]);
    write(store, [step().delete(call(1, 2))]).await;
    write(store, [amend()]).await;
    assert_eq!(store.tasks(run(1)).await.unwrap(), [task(call(1, 3))]);
}

pub async fn due_tasks_come_earliest_first(store: &dyn Store) {
    let mut all = start(1, "order-1");
    for (seq, wake_at) in [(2, 50), (3, -10), (4, 30), (5, 2_000), (6, 10)] {
        let mut row = due_at(seq, wake_at);
        row.gate = format!("gate-{seq}");
        row.priority = -7;
        all = all.insert(row);
    }
    write(store, [all]).await;
    let found = due(store, 1_000, 10).await;
    assert_eq!(found, [(3, -10), (6, 10), (4, 30), (2, 50)]);
    assert_eq!(due(store, 1_000, 2).await, [(3, -10), (6, 10)]);
    assert_eq!(due(store, 1_000, 0).await, []);

    let first = store.due_tasks(Runnable::default(), at(0), 1).await.unwrap();
    let expected = DueTask {
        gate: "gate-3".to_string(),
        call: call(1, 3),
        wake_at: at(-10),
        queue: "payments".to_string(),
        priority: -7,
        name: "charge".to_string(),
    };
    assert_eq!(first, [expected]);
}

pub async fn a_task_is_not_due_at_the_very_moment_that_is_asked_about(store: &dyn Store) {
    write(store, [start(1, "order-1").insert(due_at(2, 100))]).await;
    assert_eq!(due(store, 100, 10).await, []);
    assert_eq!(due(store, 101, 10).await, [(2, 100)]);
}

pub async fn a_claimed_task_is_not_due_until_it_is_released(store: &dyn Store) {
    let mut claimed = due_at(2, 0);
    claimed.claim = claim("node-a");
    write(store, [start(1, "order-1").insert(claimed)]).await;
    assert_eq!(due(store, 1_000, 10).await, []);

    let mut released = due_at(2, 500);
    released.attempt = 1;
    write(store, [step().update(released.clone())]).await;
    assert_eq!(due(store, 1_000, 10).await, [(2, 500)]);

    released.claim = claim("node-b");
    write(store, [step().update(released)]).await;
    assert_eq!(due(store, 1_000, 10).await, []);
}

pub async fn a_paused_task_is_never_due(store: &dyn Store) {
    let paused = TaskRow { wake_at: TaskRow::NEVER, attempt: 1, ..task(call(1, 2)) };
    write(store, [start(1, "order-1").insert(paused)]).await;
    let due = store.due_tasks(Runnable::default(), at(i64::MAX), 10).await.unwrap();
    assert_eq!(due, []);
    let retrying = InstanceFilter { retrying: true, ..InstanceFilter::default() };
    assert_eq!(store.list(retrying).await.unwrap(), []);
}

pub async fn deadlines_of_waiting_tasks_come_earliest_first(store: &dyn Store) {
    let mut all = start(1, "order-1").insert(task(call(1, 2)));
    for (seq, deadline) in [(3, 50), (4, -10), (5, 2_000), (6, 10)] {
        let deadline_at = Some(at(deadline));
        // A task is given up in time whether or not it is due, and whoever could run it.
        let name = format!("activity-{seq}");
        all = all.insert(TaskRow { name, deadline_at, ..due_at(seq, 5_000) });
    }
    write(store, [all]).await;
    let found = store.due_deadlines(None, at(2_000), 10).await.unwrap();
    let expected = |seq, deadline| DueDeadline { call: call(1, seq), deadline_at: at(deadline) };
    assert_eq!(found, [expected(4, -10), expected(6, 10), expected(3, 50)]);
    assert_eq!(store.due_deadlines(None, at(2_000), 1).await.unwrap(), [expected(4, -10)]);
    assert_eq!(store.due_deadlines(None, at(-10), 10).await.unwrap(), []);
}

pub async fn deadlines_are_found_page_by_page_also_those_of_one_moment(store: &dyn Store) {
    let mut steps = [start(1, "order-1"), start(2, "order-2")];
    for (order, seq, deadline) in [(1, 2, 7), (2, 2, 7), (1, 3, 7), (2, 3, 8), (1, 4, 6), (2, 4, 7)]
    {
        let task = TaskRow { deadline_at: Some(at(deadline)), ..task(call(order, seq)) };
        let [one, two] = steps;
        steps = if order == 1 { [one.insert(task), two] } else { [one, two.insert(task)] };
    }
    write(store, steps).await;
    let (mut found, mut last) = (Vec::new(), None);
    loop {
        let page = store.due_deadlines(last, at(8), 2).await.unwrap();
        last = page.last().copied();
        if page.is_empty() {
            break;
        }
        found.extend(page.into_iter().map(|due| (due.deadline_at.as_millis(), due.call)));
    }
    let mut of_one_moment = [call(1, 2), call(1, 3), call(2, 2), call(2, 4)];
    of_one_moment.sort_unstable();
    let expected: Vec<_> = of_one_moment.iter().map(|call| (7, *call)).collect();
    assert_eq!(found, [vec![(6, call(1, 4))], expected].concat());
    let last = Some(DueDeadline { call: of_one_moment[3], deadline_at: at(7) });
    let beyond = DueDeadline { call: call(2, 3), deadline_at: at(8) };
    assert_eq!(store.due_deadlines(last, at(9), 10).await.unwrap(), [beyond]);
}

pub async fn a_task_that_runs_or_is_over_has_no_deadline(store: &dyn Store) {
    let waiting = TaskRow { deadline_at: Some(at(1)), ..task(call(1, 2)) };
    write(store, [start(1, "order-1").insert(waiting.clone())]).await;
    let claimed = TaskRow { claim: claim("node-a"), ..waiting.clone() };
    write(store, [step().update(claimed)]).await;
    assert_eq!(store.due_deadlines(None, at(1_000), 10).await.unwrap(), []);
    write(store, [step().update(waiting)]).await;
    assert_eq!(store.due_deadlines(None, at(1_000), 10).await.unwrap().len(), 1);
    write(store, [step().update(task(call(1, 2)))]).await;
    assert_eq!(store.due_deadlines(None, at(1_000), 10).await.unwrap(), []);
}

pub async fn what_other_nodes_claimed_is_abandoned_when_they_are_gone(store: &dyn Store) {
    let mut all = start(1, "order-1").insert(task(call(1, 2)));
    for (seq, node) in [(3, "node-b"), (4, "node-a"), (5, "node-c"), (6, "node-b")] {
        let mut row = full(call(1, seq));
        row.claim = claim(node);
        all = all.insert(row);
    }
    write(store, [all]).await;
    let found = store.abandoned("node-b", 10).await.unwrap();
    let mut calls: Vec<_> = found.iter().map(|row| row.call).collect();
    calls.sort_unstable();
    assert_eq!(calls, [call(1, 4), call(1, 5)]);
    assert_eq!(found.iter().find(|row| row.call == call(1, 4)).unwrap().progress, progress());
    assert_eq!(store.abandoned("node-b", 1).await.unwrap().len(), 1);
    assert_eq!(store.abandoned("a new node", 10).await.unwrap().len(), 4);
}

pub async fn a_claim_whose_end_was_reported_is_not_abandoned(store: &dyn Store) {
    let mut all = start(1, "order-1");
    for (seq, token) in [(2, 7), (3, u64::MAX), (4, 9)] {
        let claim = claim("node-a").map(|claim| Claim { token, ..claim });
        all = all.insert(TaskRow { claim, ..task(call(1, seq)) });
    }
    // The last is of another attempt.
    for (seq, token) in [(2, 7), (3, u64::MAX), (4, 8)] {
        let (activity, outcome) = (Seq(seq), Reported::Interrupted);
        let report = Report { activity, token, at: at(5), outcome, heartbeat: None };
        let (id, report) = (report.id(1), Box::new(report));
        let body = Message::Report { run: 1, report };
        all = all.send(MessageRow { uid: uid(1), id, due_at: at(0), body });
    }
    write(store, [all]).await;
    let found = store.abandoned("node-b", 10).await.unwrap();
    assert_eq!(found.iter().map(|row| row.call).collect::<Vec<_>>(), [call(1, 4)]);
}

pub async fn tasks_are_found_by_their_calls(store: &dyn Store) {
    let claimed = TaskRow { claim: claim("node-a"), ..task(call(1, 2)) };
    let other = start(2, "order-2").insert(task(call(2, 2)));
    write(store, [start(1, "order-1").insert(claimed.clone()).insert(task(call(1, 3))), other])
        .await;
    let asked = [call(2, 2), call(1, 2), call(1, 9), call(3, 2)];
    let mut found = store.tasks_of(Arc::new(asked)).await.unwrap();
    found.sort_by_key(|row| row.call.run.uid == uid(2));
    assert_eq!(found, [claimed, task(call(2, 2))]);
    assert_eq!(store.tasks_of(Arc::new([])).await.unwrap(), []);
}

pub async fn a_loaded_task_has_what_an_attempt_needs(store: &dyn Store) {
    let turn = start(1, "order-1")
        .event(run(1), event(2, scheduled()))
        .insert(full(call(1, 2)))
        .attempt(failed_attempt(call(1, 2), 1))
        .attempt(failed_attempt(call(1, 3), 1));
    write(store, [turn]).await;
    let record = store.load_task(call(1, 2)).await.unwrap().unwrap();
    assert_eq!(record.task, full(call(1, 2)));
    assert_eq!(record.input, json(r#"{"cents":700}"#));
    assert_eq!(record.instance, "order-1");
    assert_eq!(record.ledger, [failed_attempt(call(1, 2), 1)]);
}

pub async fn a_loaded_task_brings_both_ends_of_its_ledger(store: &dyn Store) {
    let turn = start(1, "order-1").event(run(1), event(2, scheduled())).insert(task(call(1, 2)));
    write(store, [turn]).await;
    for attempt in 1..=25 {
        write(store, [step().attempt(failed_attempt(call(1, 2), attempt))]).await;
        let ledger = store.load_task(call(1, 2)).await.unwrap().unwrap().ledger;
        let found: Vec<u32> = ledger.iter().map(|row| row.attempt).collect();
        let expected = (1..=attempt).filter(|n| *n <= 10 || n + 10 > attempt);
        assert_eq!(found, expected.collect::<Vec<u32>>());
    }
}

pub async fn many_tasks_are_loaded_at_once_each_with_its_own(store: &dyn Store) {
    let mut steps = Vec::new();
    for number in 1..=30 {
        let (first, second) = (call(number, 2), call(number, 3));
        let mut turn = start(number, &format!("order-{number}"));
        for call in [first, second] {
            turn = turn.event(run(number), event(call.seq.0, scheduled())).insert(full(call));
        }
        for attempt in 1..=number as u32 {
            turn = turn.attempt(failed_attempt(first, attempt));
        }
        steps.push(turn);
    }
    write(store, steps).await;
    let single = [call(7, 2), call(7, 3), call(8, 2), call(30, 2), call(1, 3)];
    let absent = [call(7, 4), call(99, 2)];
    let mut expected = Vec::new();
    for call in single {
        expected.push(store.load_task(call).await.unwrap().unwrap());
    }
    let mut found = store.load_tasks([single.as_slice(), &absent].concat().into()).await.unwrap();
    found.sort_by_key(|record| record.task.call);
    expected.sort_by_key(|record| record.task.call);
    assert_eq!(found, expected);
    assert_eq!(store.load_tasks([].into()).await.unwrap(), []);
}

pub async fn a_finished_task_is_not_there(store: &dyn Store) {
    let turn = start(1, "order-1").event(run(1), event(2, scheduled())).insert(task(call(1, 2)));
    write(store, [turn]).await;
    write(store, [step().delete(call(1, 2))]).await;
    assert!(store.load_task(call(1, 2)).await.unwrap().is_none());
    assert!(store.load_task(call(9, 9)).await.unwrap().is_none());
    assert_eq!(due(store, 1_000, 10).await, []);
}

async fn due(store: &dyn Store, before: i64, limit: usize) -> Vec<(u64, i64)> {
    let found = store.due_tasks(Runnable::default(), at(before), limit).await.unwrap();
    found.iter().map(|task| (task.call.seq.0, task.wake_at.as_millis())).collect()
}

fn due_at(seq: u64, wake_at: i64) -> TaskRow {
    TaskRow { wake_at: at(wake_at), ..task(call(1, seq)) }
}

/// A task with every field at a value that is easy to get wrong.
fn full(call: resurgam_core::CallKey) -> TaskRow {
    TaskRow {
        call,
        name: "namespace/charge \"twice\"".to_string(),
        queue: "Zahlungen ü".to_string(),
        gate: String::new(),
        priority: i32::MIN,
        policy: "another".to_string(),
        attempt: u32::MAX,
        wake_at: at(i64::MAX),
        deadline_at: Some(at(i64::MIN)),
        claim: Some(Claim { node: "node-ü".to_string(), token: u64::MAX, started_at: at(-5) }),
        progress: progress(),
        heartbeat: Some(Heartbeat { details: json("{\"done\":\"97 %\"}"), at: at(-1) }),
    }
}

fn pause() -> Pause {
    Pause {
        since: Some(at(i64::MIN)),
        due: Some(at(i64::MAX)),
        until: Some(at(7)),
        stopped: Some("max_attempts".to_string()),
        by: Some("ana \"lacks\": ü".to_string()),
        reason: Some("\"lacks\":\"x\"".to_string()),
        clock_runs: true,
        with_run: true,
        fingerprint: Some("1:0123456789ab".to_string()),
        error: Some("BankDown: \"lacks\":".to_string()),
    }
}

fn progress() -> Progress {
    Progress {
        v: 1,
        failures: 3,
        lost: u32::MAX,
        lost_in_a_row: 2,
        poison: true,
        interrupted: 4,
        snoozed: 5,
        probed: 6,
        probing: true,
        first_scheduled: Some(at(6)),
        first_started: Some(at(i64::MIN)),
        previous_delay_ms: Some(u64::MAX),
        cancelled: true,
        in_grace: true,
        over: true,
        unregistered: true,
        lacks: Some("a key \"7\"".to_string()),
        to_end: true,
        remote: true,
        paused: Some(Box::new(pause())),
        pause_asked: Some(Box::default()),
        stood_still_ms: u64::MAX,
        key_run: Some(3),
        stood_still_since_start_ms: u64::MAX,
        policy_set: true,
        decided_by: u64::MAX,
        undoes: true,
        fallback: Some(Box::new(fell_back())),
    }
}

fn fell_back() -> FellBack {
    FellBack {
        activity: "charge".to_string(),
        failure: Failure::of_type("BankDown", "a \"quote\""),
        since: Some(at(7)),
    }
}
