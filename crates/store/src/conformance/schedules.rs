//! A schedule is changed by one at a time, and what it starts is written with the change.

use super::fixtures::*;
use crate::rows::{InstanceRow, Message, MessageRow};
use crate::{ChildStart, Replaces, ScheduleRow, ScheduleWrite, Step, StepResult, Store};

/// A schedule that is due at its number of seconds.
fn row(number: i64, id: &str) -> ScheduleRow {
    ScheduleRow {
        id: id.to_string(),
        workflow: "report".to_string(),
        input: json(r#"{"day":"today"}"#),
        rule: r#"{"v":1,"schedule":{"id":"a","every":"1s"}}"#.to_string(),
        options: r#"{"queue":"reports"}"#.to_string(),
        state: r#"{"v":1,"decided":0}"#.to_string(),
        paused: false,
        next_at: Some(at(1_000 * number)),
        waits: false,
        last: None,
        error: None,
        created_at: at(7),
    }
}

fn insert(row: ScheduleRow) -> Step {
    Step { schedule: Some(ScheduleWrite::Insert(row).into()), ..Step::default() }
}

fn update(row: ScheduleRow, revision: u64) -> Step {
    Step { schedule: Some(ScheduleWrite::Update { row, revision }.into()), ..Step::default() }
}

fn delete(id: &str) -> Step {
    Step { schedule: Some(ScheduleWrite::Delete { id: id.to_string() }.into()), ..Step::default() }
}

fn child_start(number: u128, id: &str) -> ChildStart {
    let row = InstanceRow { schedule: Some("a".to_string()), ..instance(number, id) };
    let start =
        MessageRow { uid: row.uid, id: "start".to_string(), due_at: at(0), body: Message::Start };
    ChildStart { row, start, otherwise: None, replaces: Replaces::Nobody }
}

async fn revision(store: &dyn Store, id: &str) -> u64 {
    store.schedule(id).await.unwrap().unwrap().revision
}

async fn one(store: &dyn Store, step: Step) -> StepResult {
    commit(store, [step]).await[0]
}

async fn due(store: &dyn Store, now: i64, limit: usize) -> (Vec<String>, Option<i64>) {
    let found = store.due_schedules(at(now), limit).await.unwrap();
    let ids = found.due.into_iter().map(|record| record.row.id).collect();
    (ids, found.next.map(|at| at.as_millis()))
}

pub async fn a_schedule_comes_back_as_it_was(store: &dyn Store) {
    let plain = row(1, "a");
    let full = ScheduleRow {
        paused: true,
        next_at: None,
        waits: true,
        last: Some("b/yesterday".to_string()),
        error: Some("nobody knows the workflow".to_string()),
        ..row(2, "b")
    };
    write(store, [insert(plain.clone()), insert(full.clone())]).await;
    for row in [plain, full] {
        let stored = store.schedule(&row.id).await.unwrap().unwrap();
        assert_eq!((stored.row, stored.last_open), (row, false));
    }
    assert_eq!(store.schedule("c").await.unwrap(), None);
}

pub async fn a_schedule_is_created_once(store: &dyn Store) {
    write(store, [insert(row(1, "a"))]).await;
    let other = ScheduleRow { workflow: "other".to_string(), ..row(2, "a") };
    assert_eq!(one(store, insert(other)).await, StepResult::Missed);
    assert_eq!(store.schedule("a").await.unwrap().unwrap().row, row(1, "a"));
}

pub async fn a_change_follows_from_what_was_read(store: &dyn Store) {
    write(store, [insert(row(1, "a"))]).await;
    let read = revision(store, "a").await;
    write(store, [update(row(2, "a"), read)]).await;
    assert_eq!(one(store, update(row(3, "a"), read)).await, StepResult::Missed);
    assert_eq!(store.schedule("a").await.unwrap().unwrap().row, row(2, "a"));
    // Also within one batch.
    let read = revision(store, "a").await;
    let results = commit(store, [update(row(4, "a"), read), update(row(5, "a"), read)]).await;
    assert_eq!(results, [StepResult::Written, StepResult::Missed]);
    assert_eq!(one(store, update(row(1, "b"), read)).await, StepResult::Missed);
}

pub async fn a_schedule_that_was_made_anew_is_another_one(store: &dyn Store) {
    write(store, [insert(row(1, "a"))]).await;
    let read = revision(store, "a").await;
    write(store, [delete("a"), insert(row(1, "a"))]).await;
    assert_eq!(one(store, update(row(2, "a"), read)).await, StepResult::Missed);
}

pub async fn a_schedule_that_is_gone_cannot_be_deleted(store: &dyn Store) {
    write(store, [insert(row(1, "a"))]).await;
    assert_eq!(commit(store, [delete("a"), delete("a")]).await[1], StepResult::Missed);
    assert_eq!(store.schedule("a").await.unwrap(), None);
    assert_eq!(due(store, 9_000, 10).await, (vec![], None));
}

pub async fn what_a_schedule_starts_is_refused_with_its_change(store: &dyn Store) {
    write(store, [insert(row(1, "a"))]).await;
    let read = revision(store, "a").await;
    write(store, [update(row(2, "a"), read).child_starts([child_start(1, "a/1")])]).await;
    let late = update(row(3, "a"), read).child_starts([child_start(2, "a/2")]);
    assert_eq!(one(store, late).await, StepResult::Missed);
    assert!(store.find("a/1").await.unwrap().is_some());
    assert_eq!(store.messages(uid(1)).await.unwrap().len(), 1);
    assert_eq!(store.find("a/2").await.unwrap(), None);
    assert_eq!(store.messages(uid(2)).await.unwrap(), []);
}

pub async fn an_id_that_is_taken_starts_nothing_and_refuses_nothing(store: &dyn Store) {
    write(store, [insert(row(1, "a")), start(9, "a/1")]).await;
    let read = revision(store, "a").await;
    let child_starts = [child_start(1, "a/1"), child_start(2, "a/2")];
    write(store, [update(row(2, "a"), read).child_starts(child_starts)]).await;
    assert_eq!(store.find("a/1").await.unwrap().unwrap().uid, uid(9));
    assert_eq!(store.messages(uid(1)).await.unwrap(), []);
    assert_eq!(store.find("a/2").await.unwrap().unwrap().uid, uid(2));
}

pub async fn due_schedules_come_earliest_first(store: &dyn Store) {
    let steps = [insert(row(3, "c")), insert(row(1, "a")), insert(row(2, "b"))];
    write(store, steps).await;
    let never = ScheduleRow { next_at: None, ..row(0, "never") };
    write(store, [insert(never)]).await;
    assert_eq!(due(store, 2_000, 10).await.0, ["a", "b"]);
    assert_eq!(due(store, 9_000, 10).await.0, ["a", "b", "c"]);
    assert_eq!(due(store, 999, 10).await.0, [""; 0]);
}

pub async fn the_next_time_is_told_with_what_is_due(store: &dyn Store) {
    assert_eq!(due(store, 0, 10).await.1, None);
    write(store, [insert(row(1, "a")), insert(row(2, "b")), insert(row(3, "c"))]).await;
    assert_eq!(due(store, 0, 10).await.1, Some(1_000));
    assert_eq!(due(store, 1_000, 10).await.1, Some(2_000));
    assert_eq!(due(store, 3_000, 10).await.1, None);
    assert_eq!(due(store, 9_000, 2).await, (vec!["a".into(), "b".into()], Some(9_000)));
}

pub async fn a_paused_schedule_is_never_due(store: &dyn Store) {
    let paused = ScheduleRow { paused: true, ..row(1, "a") };
    write(store, [insert(paused), insert(row(2, "b"))]).await;
    assert_eq!(due(store, 0, 10).await, (vec![], Some(2_000)));
    assert_eq!(due(store, 2_000, 10).await, (vec!["b".into()], None));
    let read = revision(store, "a").await;
    write(store, [update(row(1, "a"), read)]).await;
    assert_eq!(due(store, 1_000, 10).await, (vec!["a".into()], Some(2_000)));
}

pub async fn schedules_that_wait_are_found(store: &dyn Store) {
    for id in ["d", "b", "a", "c"] {
        let waits = id != "b";
        write(store, [insert(ScheduleRow { waits, next_at: None, ..row(1, id) })]).await;
    }
    let found = |after: &'static str, limit| async move {
        let rows = store.waiting_schedules(after, limit).await.unwrap();
        rows.into_iter().map(|record| record.row.id).collect::<Vec<_>>()
    };
    assert_eq!(found("", 10).await, ["a", "c", "d"]);
    assert_eq!(found("", 2).await, ["a", "c"]);
    assert_eq!(found("c", 2).await, ["d"]);
}

pub async fn schedules_are_listed_by_id(store: &dyn Store) {
    for id in ["d", "b", "a", "c"] {
        write(store, [insert(row(1, id))]).await;
    }
    let found = |after: &'static str, limit| async move {
        let rows = store.schedules(after, limit).await.unwrap();
        rows.into_iter().map(|record| record.row.id).collect::<Vec<_>>()
    };
    assert_eq!(found("", 10).await, ["a", "b", "c", "d"]);
    assert_eq!(found("b", 1).await, ["c"]);
}

pub async fn a_schedule_knows_whether_its_last_instance_is_open(store: &dyn Store) {
    let started = ScheduleRow { last: Some("a/1".to_string()), ..row(1, "a") };
    write(store, [insert(started)]).await;
    let open = || async { store.schedule("a").await.unwrap().unwrap().last_open };
    assert!(!open().await, "it is not there");
    write(store, [start(1, "a/1")]).await;
    assert!(open().await);
    let found = store.due_schedules(at(9_000), 1).await.unwrap();
    assert!(found.due[0].last_open);
    write(store, [set_status(1, crate::rows::Status::Blocked)]).await;
    assert!(open().await, "it may go on");
    write(store, [close(1)]).await;
    assert!(!open().await);
}
