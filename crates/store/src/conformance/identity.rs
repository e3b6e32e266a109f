//! An id has one holder at a time, and a uid is one start for ever.

use resurgam_core::RunKey;
use resurgam_core::command::Settings;
use resurgam_core::event::{Compensation, ParentClose};

use super::fixtures::*;
use crate::rows::{InstanceRow, RunPause, Status};
use crate::{Deletion, InstanceWrite, Replaces, Step, StepResult, Store};

pub async fn an_instance_comes_back_as_it_was(store: &dyn Store) {
    let mut row = instance(1, "Bestellung/42 „ü“ 🦀 '\"%_");
    row.queue = "slow".to_string();
    row.request_id = Some("request-1".to_string());
    row.status = Status::Blocked;
    row.error = Some("the code changed:\n- a\n+ b".to_string());
    row.outcome = Some(json("[null]"));
    row.closed_at = Some(at(-1));
    row.created_at = at(i64::MAX);
    row.run = u32::MAX;
    row.priority = -7;
    row.parent = Some(call(9, u64::from(u32::MAX)));
    row.schedule = Some("nightly".to_string());
    row.compensation = Some(Compensation::Incomplete);
    row.tags = [("a", "1"), ("ü", "'%_\"")].map(|(n, v)| (n.to_string(), v.to_string())).into();
    row.settings = Settings {
        retry: Some(r#"{"max_attempts":3}"#.to_string()),
        run_timeout_ms: Some(u64::MAX),
        total_timeout_ms: Some(0),
        delay_ms: Some(7),
        parent_close: Some(ParentClose::Terminate),
    };
    write(store, [start_of(row.clone())]).await;
    assert_eq!(store.find(&row.id).await.unwrap(), Some(row.clone()));
    assert_eq!(store.instance(row.uid).await.unwrap(), Some(row));
}

pub async fn an_open_instance_keeps_its_id(store: &dyn Store) {
    write(store, [start(1, "order-1")]).await;
    for status in [Status::Running, Status::Blocked] {
        write(store, [set_status(1, status)]).await;
        let plain = start(2, "order-1");
        assert_eq!(commit(store, [plain.clone()]).await, [StepResult::Duplicate]);
        assert_eq!(commit(store, [plain.replacing_closed()]).await, [StepResult::Duplicate]);
    }
    assert_eq!(store.find("order-1").await.unwrap().unwrap().uid, uid(1));
}

pub async fn a_closed_instance_keeps_its_id_unless_it_is_replaced(store: &dyn Store) {
    write(store, [start(1, "order-1")]).await;
    let closed = [Status::Completed, Status::Failed, Status::Cancelled, Status::Terminated];
    for (number, status) in (1..).zip(closed) {
        write(store, [set_status(number, status)]).await;
        let next = start(number + 1, "order-1");
        assert_eq!(commit(store, [next.clone()]).await, [StepResult::Duplicate]);
        assert_eq!(commit(store, [next.replacing_closed()]).await, [StepResult::Written]);
        assert_eq!(store.find("order-1").await.unwrap().unwrap().uid, uid(number + 1));
    }
}

pub async fn a_replaced_instance_is_still_there_under_its_uid(store: &dyn Store) {
    write(store, [start(1, "order-1"), close(1)]).await;
    write(store, [start(2, "order-1").replacing_closed()]).await;
    let first = store.instance(uid(1)).await.unwrap().unwrap();
    assert_eq!((first.id.as_str(), first.status), ("order-1", Status::Completed));
    assert_eq!(store.history(run(1)).await.unwrap().len(), 1);
    assert!(store.load_run(uid(1)).await.unwrap().is_some());
}

pub async fn a_repeated_request_is_a_duplicate_under_any_id(store: &dyn Store) {
    write(store, [requested(1, "order-1", "request-1")]).await;
    let repeated = [requested(2, "order-1", "request-1"), requested(3, "order-3", "request-1")];
    assert_eq!(commit(store, repeated).await, [StepResult::Duplicate; 2]);
    assert!(store.find("order-3").await.unwrap().is_none());

    // A start without a request id repeats nothing.
    write(store, [start(4, "order-4"), start(5, "order-5")]).await;
}

pub async fn a_refused_request_leaves_the_closed_holder_alone(store: &dyn Store) {
    write(store, [requested(1, "order-1", "request-1"), close(1)]).await;
    let repeated = requested(2, "order-1", "request-1").replacing_closed();
    assert_eq!(commit(store, [repeated]).await, [StepResult::Duplicate]);
    assert_eq!(store.find("order-1").await.unwrap().unwrap().uid, uid(1));
}

pub async fn a_request_is_found_also_when_its_instance_gave_up_its_id(store: &dyn Store) {
    write(store, [requested(1, "order-1", "request-1"), close(1)]).await;
    write(store, [requested(2, "order-1", "request-2").replacing_closed()]).await;
    let found = async |request| store.find_request(request).await.unwrap().map(|row| row.uid);
    assert_eq!(found("request-1").await, Some(uid(1)));
    assert_eq!(found("request-2").await, Some(uid(2)));
    assert_eq!(found("request-3").await, None);
}

pub async fn a_uid_is_used_once(store: &dyn Store) {
    write(store, [start(1, "order-1")]).await;
    let error = refused(store, [start(1, "order-2")]).await;
    assert!(error.to_string().contains("order-2"), "{error}");
    assert!(store.find("order-2").await.unwrap().is_none());
}

pub async fn a_late_message_to_an_earlier_holder_misses(store: &dyn Store) {
    write(store, [start(1, "order-1"), close(1)]).await;
    write(store, [start(2, "order-1").replacing_closed()]).await;
    write(store, [step().send(signal(1, "late", 5))]).await;
    assert!(store.messages(uid(2)).await.unwrap().is_empty());
    assert!(store.load_run(uid(2)).await.unwrap().unwrap().messages.is_empty());
    assert_eq!(store.messages(uid(1)).await.unwrap().len(), 1);
}

pub async fn a_change_of_status_is_written_whole(store: &dyn Store) {
    write(store, [start(1, "order-1"), start(2, "order-2")]).await;
    let blocked = InstanceWrite::Status {
        uid: uid(1),
        status: Status::Blocked,
        outcome: None,
        compensation: None,
        error: Some("a panic".to_string()),
        closed_at: None,
    };
    write(store, [Step { instance: Some(blocked), ..step() }]).await;
    let row = store.instance(uid(1)).await.unwrap().unwrap();
    assert_eq!((row.status, row.error.as_deref()), (Status::Blocked, Some("a panic")));

    write(store, [close(1)]).await;
    let row = store.instance(uid(1)).await.unwrap().unwrap();
    assert_eq!((row.status, row.error), (Status::Completed, None));
    assert_eq!((row.outcome, row.closed_at), (Some(json("\"done\"")), Some(at(9_000))));
    assert_eq!(store.instance(uid(2)).await.unwrap(), Some(instance(2, "order-2")));
}

pub async fn a_paused_instance_says_who_paused_it_and_is_open(store: &dyn Store) {
    write(store, [start(1, "order-1"), start(2, "order-2")]).await;
    let paused = RunPause {
        since: Some(at(7_000)),
        by: Some("ana \u{0} ü".to_string()),
        reason: Some("the \"bank\" is down".to_string()),
        calls: true,
        stood_still_ms: 5,
    };
    let pause = |status, pause: &RunPause| {
        let write = InstanceWrite::Pause { uid: uid(1), status, pause: pause.clone() };
        Step { instance: Some(write), ..step() }
    };
    // Also when it was blocked: why does not matter any more.
    write(store, [set_status(1, Status::Blocked), pause(Status::Paused, &paused)]).await;
    let row = store.instance(uid(1)).await.unwrap().unwrap();
    let expected =
        InstanceRow { status: Status::Paused, pause: paused.clone(), ..instance(1, "order-1") };
    assert_eq!(row, expected);
    assert_eq!(store.load_run(uid(1)).await.unwrap().unwrap().instance, expected);
    assert_eq!(store.held_up(None, 10).await.unwrap(), []);
    let told = [if_open(1).send(signal(1, "a", 5)), step().send_if_open(signal(1, "b", 5))];
    write(store, told).await;
    assert_eq!(store.messages(uid(1)).await.unwrap().len(), 2);
    assert_eq!(
        commit(store, [start(3, "order-1").replacing_closed()]).await,
        [StepResult::Duplicate]
    );

    let resumed = paused.resumed(at(8_000));
    write(store, [pause(Status::Running, &resumed)]).await;
    let row = store.instance(uid(1)).await.unwrap().unwrap();
    assert_eq!(row, InstanceRow { pause: resumed, ..instance(1, "order-1") });
    assert_eq!(store.instance(uid(2)).await.unwrap(), Some(instance(2, "order-2")));
    let nobody = InstanceWrite::Pause { uid: uid(9), status: Status::Paused, pause: paused };
    let error = refused(store, [Step { instance: Some(nobody), ..step() }]).await;
    assert!(error.to_string().contains(&uid(9).to_string()), "{error}");
}

pub async fn open_instances_that_do_not_go_on_are_found_by_the_page(store: &dyn Store) {
    let numbers = 1..=5;
    let starts = numbers.clone().map(|number| start(number, &format!("order-{number}")));
    write(store, starts.collect::<Vec<_>>()).await;
    assert_eq!(store.held_up(None, 10).await.unwrap(), []);
    let held_up = |number, status| InstanceWrite::Status {
        uid: uid(number),
        status,
        outcome: None,
        compensation: None,
        error: Some("a reason".to_string()),
        closed_at: None,
    };
    for number in numbers {
        let status = if number == 2 { Status::Blocked } else { Status::Running };
        write(store, [Step { instance: Some(held_up(number, status)), ..step() }]).await;
    }
    write(store, [close(3), set_status(4, Status::Running)]).await;
    let mut expected = [uid(1), uid(2), uid(5)];
    expected.sort_unstable();
    assert_eq!(store.held_up(None, 10).await.unwrap(), expected);
    assert_eq!(store.held_up(None, 2).await.unwrap(), expected[..2]);
    assert_eq!(store.held_up(Some(expected[1]), 2).await.unwrap(), expected[2..]);
    assert_eq!(store.held_up(Some(expected[2]), 2).await.unwrap(), []);
}

pub async fn a_change_of_status_needs_its_instance(store: &dyn Store) {
    let error = refused(store, [close(1)]).await;
    assert!(error.to_string().contains(&uid(1).to_string()), "{error}");
}

pub async fn ids_are_compared_to_the_letter(store: &dyn Store) {
    let ids = ["order", "Order", "order ", "ordér", "orde\u{301}r", ""];
    for (number, id) in (1..).zip(ids) {
        write(store, [start(number, id)]).await;
    }
    for (number, id) in (1..).zip(ids) {
        assert_eq!(store.find(id).await.unwrap().unwrap().uid, uid(number), "{id:?}");
    }
}

pub async fn a_step_that_needs_an_open_instance_is_refused_alone(store: &dyn Store) {
    let started = (1..=5).map(|number| start(number, &format!("order-{number}")));
    write(store, started.collect::<Vec<Step>>()).await;
    let ended = [(2, Status::Completed), (3, Status::Failed), (4, Status::Cancelled)];
    write(store, ended.map(|(number, status)| set_status(number, status))).await;
    write(store, [set_status(5, Status::Blocked)]).await;

    let signalled = |number| {
        if_open(number)
            .event(run(number), event(2, scheduled()))
            .insert(task(call(number, 2)))
            .send(signal(number, "m", 5))
            .put(number, "colour", json("1"))
    };
    let results = commit(store, [1, 2, 3, 4, 5, 9].map(signalled)).await;
    let (written, closed) = (StepResult::Written, StepResult::Closed);
    assert_eq!(results, [written, closed, closed, closed, written, closed]);
    for (number, result) in [1, 2, 3, 4, 5, 9].into_iter().zip(results) {
        let there = result == StepResult::Written;
        assert_eq!(store.messages(uid(number)).await.unwrap().len(), usize::from(there));
        assert_eq!(store.tasks(run(number)).await.unwrap().len(), usize::from(there));
        assert_eq!(store.kv(uid(number), "colour").await.unwrap().is_some(), there);
        assert_eq!(store.history(run(number)).await.unwrap().len() == 2, there);
    }
    // It asked about the instance and changed nothing of it.
    assert_eq!(store.instance(uid(1)).await.unwrap(), Some(instance(1, "order-1")));
    assert_eq!(store.instance(uid(5)).await.unwrap().unwrap().status, Status::Blocked);
}

pub async fn an_instance_is_open_until_the_step_of_the_same_batch_that_closes_it(
    store: &dyn Store,
) {
    let tell = |id: &str| if_open(1).send(signal(1, id, 5));
    let batch = [tell("early"), start(1, "order-1"), tell("in time"), close(1), tell("late")];
    let results = commit(store, batch).await;
    let (written, closed) = (StepResult::Written, StepResult::Closed);
    assert_eq!(results, [closed, written, written, written, closed]);
    assert_eq!(store.messages(uid(1)).await.unwrap(), [signal(1, "in time", 5)]);
}

pub async fn the_next_run_begins_with_its_own_argument(store: &dyn Store) {
    write(store, [start(1, "order-1"), start(2, "order-2")]).await;
    let second = RunKey { uid: uid(1), run: 2 };
    let next = InstanceWrite::Continue { run: second, input: json("[2]"), pause: None };
    // Also when it was blocked.
    write(store, [set_status(1, Status::Blocked)]).await;
    let next = Step { instance: Some(next), ..step() }.event(second, event(1, started()));
    write(store, [next]).await;
    let row = store.instance(uid(1)).await.unwrap().unwrap();
    assert_eq!((row.run, row.input, row.status), (2, json("[2]"), Status::Running));
    let loaded = store.load_run(uid(1)).await.unwrap().unwrap();
    assert_eq!((loaded.key(), loaded.events.len()), (second, 1));
    // The run before is still there to be looked at.
    assert_eq!(store.history(run(1)).await.unwrap().len(), 1);
    assert_eq!(store.instance(uid(2)).await.unwrap(), Some(instance(2, "order-2")));
}

pub async fn what_is_continued_is_open_whatever_it_was(store: &dyn Store) {
    write(store, [start(1, "order-1"), close(1)]).await;
    let second = RunKey { uid: uid(1), run: 2 };
    let next = InstanceWrite::Continue { run: second, input: json("[2]"), pause: None };
    write(store, [Step { instance: Some(next), ..step() }]).await;
    assert_eq!(store.closed([uid(1)].into()).await.unwrap(), []);
    let told = [if_open(1).send(signal(1, "a", 5)), step().send_if_open(signal(1, "b", 5))];
    write(store, told).await;
    assert_eq!(store.messages(uid(1)).await.unwrap().len(), 2);
    let deleted = store.delete_closed(Deletion::One(uid(1))).await.unwrap();
    assert_eq!(deleted.instances, 0);
}

pub async fn what_another_start_has_replaced_is_not_continued(store: &dyn Store) {
    let again = |number: u128| {
        let row = Box::new(instance(number, "order-1"));
        let instance = Some(InstanceWrite::Insert { row, replaces: Replaces::Closed });
        Step { instance, ..step() }
    };
    let continued = |number: u128| {
        let next = RunKey { uid: uid(number), run: 2 };
        let instance = Some(InstanceWrite::Continue { run: next, input: json("[2]"), pause: None });
        Step { instance, ..step() }.event(next, event(1, started()))
    };
    write(store, [start(1, "order-1"), close(1)]).await;
    // Before the one that continues it, and in the same batch behind it.
    write(store, [again(2)]).await;
    let (written, duplicate) = (StepResult::Written, StepResult::Duplicate);
    assert_eq!(commit(store, [continued(1)]).await, [duplicate]);
    let batch = [close(2), continued(2), close(2), again(3), continued(2)];
    let other = [start(4, "order-4"), continued(4)];
    let batch: Vec<Step> = batch.into_iter().chain(other).collect();
    let results = commit(store, batch).await;
    let expected = [written, written, written, written, duplicate, written, written];
    assert_eq!(results, expected);
    let status = async |number| store.instance(uid(number)).await.unwrap().unwrap().status;
    assert_eq!(status(1).await, Status::Completed);
    assert_eq!(status(2).await, Status::Completed);
    assert_eq!(store.history(RunKey { uid: uid(1), run: 2 }).await.unwrap(), []);
}

pub async fn an_id_is_taken_over_only_from_the_closed_one_that_a_start_names(store: &dyn Store) {
    let from = |number: u128, of: u128| {
        let row = Box::new(instance(number, "order-1"));
        let instance = Some(InstanceWrite::Insert { row, replaces: Replaces::Only(uid(of)) });
        Step { instance, ..step() }
    };
    let (written, duplicate) = (StepResult::Written, StepResult::Duplicate);
    // Nobody holds it, then somebody who is open, then another one than is named.
    assert_eq!(commit(store, [from(2, 1)]).await, [duplicate]);
    assert_eq!(commit(store, [start(1, "order-1"), from(2, 1)]).await, [written, duplicate]);
    assert_eq!(commit(store, [from(2, 1)]).await, [duplicate]);
    assert_eq!(commit(store, [close(1), from(2, 9)]).await, [written, duplicate]);
    assert_eq!(commit(store, [from(2, 9)]).await, [duplicate]);
    assert_eq!(commit(store, [from(2, 1)]).await, [written]);
    let holder = async || store.find("order-1").await.unwrap().map(|row| row.uid);
    assert_eq!(holder().await, Some(uid(2)));
    // In one batch: the second comes too late, and so does who names the first again.
    let batch = [close(2), from(3, 2), from(4, 2), from(5, 1)];
    assert_eq!(commit(store, batch).await, [written, written, duplicate, duplicate]);
    assert_eq!(holder().await, Some(uid(3)));
    // One that was deleted is not begun again.
    write(store, [close(3)]).await;
    assert_eq!(store.delete_closed(Deletion::One(uid(3))).await.unwrap().instances, 1);
    assert_eq!(commit(store, [from(6, 3)]).await, [duplicate]);
    assert_eq!(holder().await, None);
}

pub async fn only_what_was_started_is_continued(store: &dyn Store) {
    let next = InstanceWrite::Continue { run: run(1), input: json("[2]"), pause: None };
    let error = refused(store, [Step { instance: Some(next), ..step() }]).await;
    assert!(error.to_string().contains(&uid(1).to_string()), "{error}");
}

fn requested(number: u128, id: &str, request: &str) -> Step {
    let mut row = instance(number, id);
    row.request_id = Some(request.to_string());
    start_of(row)
}
