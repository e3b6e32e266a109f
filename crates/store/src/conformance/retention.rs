//! What is closed can be deleted, with everything of it, in short pieces.

use std::sync::Arc;

use super::fixtures::*;
use crate::rows::{InstanceRow, Status};
use crate::{Deleted, Deletion, INSTANCES, InstanceWrite, Place, ROWS, Step, Store, Sweep};

/// All that completed before this time.
fn completed(before: i64) -> Sweep {
    Sweep {
        status: Status::Completed,
        closed_before: at(before),
        workflow: None,
        tag: None,
        after: None,
    }
}

async fn delete(store: &dyn Store, sweep: Sweep) -> Deleted {
    store.delete_closed(Deletion::Many(sweep)).await.unwrap()
}

/// Piece after piece until there is nothing left to do: how many instances went, in how many.
async fn delete_all(store: &dyn Store, sweep: Sweep) -> (u64, u32) {
    let (mut instances, mut pieces, mut after): (u64, u32, Option<Place>) = (0, 0, None);
    loop {
        let done = delete(store, Sweep { after, ..sweep.clone() }).await;
        instances += done.instances;
        if done.rows > 0 {
            pieces += 1;
        }
        if !done.more {
            return (instances, pieces);
        }
        after = done.go_on;
    }
}

/// An instance that has a row in every table and closed at this time.
fn full(number: u128, id: &str, closed_at: i64) -> [Step; 2] {
    let tags = [("customer".to_string(), "ada".to_string())].into();
    let begin = start_of(InstanceRow { tags, ..instance(number, id) })
        .event(run(number), event(2, scheduled()))
        .insert(task(call(number, 2)))
        .send(signal(number, "read", 0))
        .send(signal(number, "unread", 0))
        .attempt(failed_attempt(call(number, 2), 1))
        .put(number, "colour", json("\"red\""));
    let begin = Step { actions: vec![action(number, 2, "ticket", 3)], ..begin };
    [begin, closing(number, Status::Completed, closed_at).park(number)]
}

fn closing(number: u128, status: Status, closed_at: i64) -> Step {
    let mut step = set_status(number, status);
    if let Some(InstanceWrite::Status { closed_at: time, .. }) = &mut step.instance {
        *time = Some(at(closed_at));
    }
    step
}

pub async fn everything_of_a_closed_instance_goes(store: &dyn Store) {
    write(store, full(1, "a", 10)).await;
    write(store, full(2, "b", 20)).await;
    let done = delete(store, completed(20)).await;
    assert_eq!((done.instances, done.more, done.next), (1, false, Some(at(20))));

    assert_eq!(store.instance(uid(1)).await.unwrap(), None);
    assert_eq!(store.find("a").await.unwrap(), None);
    assert_eq!(store.history(run(1)).await.unwrap(), []);
    assert_eq!(store.attempts(run(1)).await.unwrap(), []);
    assert_eq!(store.tasks(run(1)).await.unwrap(), []);
    assert_eq!(store.actions(run(1)).await.unwrap(), []);
    assert_eq!(store.messages(uid(1)).await.unwrap(), []);
    assert_eq!(store.kv(uid(1), "colour").await.unwrap(), None);
    assert_eq!(store.missing(Arc::new([uid(1), uid(2)])).await.unwrap(), [uid(1)]);

    assert_eq!(store.history(run(2)).await.unwrap().len(), 2);
    assert_eq!(store.attempts(run(2)).await.unwrap().len(), 1);
    assert_eq!(store.messages(uid(2)).await.unwrap().len(), 2);
    let tag = Some(("customer".to_string(), "ada".to_string()));
    let filter = crate::rows::InstanceFilter { tag, ..Default::default() };
    assert_eq!(store.list(filter).await.unwrap().len(), 1);
}

pub async fn an_open_instance_stays(store: &dyn Store) {
    write(store, [start(1, "a"), start(2, "b"), set_status(2, Status::Blocked)]).await;
    for number in [1, 2, 3] {
        let done = store.delete_closed(Deletion::One(uid(number))).await.unwrap();
        assert_eq!(done, Deleted::default());
    }
    for status in Status::ALL {
        let all = Sweep { status, ..completed(i64::MAX) };
        assert_eq!(delete_all(store, all).await.0, 0);
    }
    assert!(store.find("a").await.unwrap().is_some());
    write(store, [close(1)]).await;
    let done = store.delete_closed(Deletion::One(uid(1))).await.unwrap();
    assert_eq!((done.instances, done.more), (1, false));
    assert_eq!(store.find("a").await.unwrap(), None);
}

pub async fn those_that_closed_first_go_first(store: &dyn Store) {
    for (number, closed_at) in [(1, 30), (2, 10), (3, 20), (4, 20)] {
        let id = format!("order-{number}");
        write(store, [start(number, &id), closing(number, Status::Completed, closed_at)]).await;
    }
    assert_eq!(delete(store, completed(10)).await.next, Some(at(10)));
    assert_eq!(delete(store, completed(20)).await.next, Some(at(20)));
    assert_eq!(store.missing((1..=4).map(uid).collect()).await.unwrap(), [uid(2)]);
    assert_eq!(delete_all(store, completed(30)).await.0, 2);
    let done = delete(store, completed(30)).await;
    assert_eq!((done.instances, done.next), (0, Some(at(30))));
}

pub async fn only_what_is_wanted_goes(store: &dyn Store) {
    write(store, full(1, "a", 10)).await;
    let other = InstanceRow { workflow: "other".to_string(), ..instance(2, "b") };
    write(store, [start_of(other), closing(2, Status::Completed, 10)]).await;
    write(store, [start(3, "c"), closing(3, Status::Failed, 10)]).await;
    write(store, [start(4, "d"), closing(4, Status::Completed, 10)]).await;
    let left = || async { store.missing((1..=4).map(uid).collect()).await.unwrap() };

    let tag = Some(("customer".to_string(), "bob".to_string()));
    assert_eq!(delete_all(store, Sweep { tag, ..completed(99) }).await.0, 0);
    let workflow = Some("other".to_string());
    assert_eq!(delete_all(store, Sweep { workflow, ..completed(99) }).await.0, 1);
    assert_eq!(left().await, [uid(2)]);
    let tag = Some(("customer".to_string(), "ada".to_string()));
    assert_eq!(delete_all(store, Sweep { tag, ..completed(99) }).await.0, 1);
    assert_eq!(left().await, [uid(1), uid(2)]);
    assert_eq!(delete_all(store, completed(99)).await.0, 1);
    assert_eq!(left().await, [uid(1), uid(2), uid(4)]);
}

pub async fn a_piece_is_bounded(store: &dyn Store) {
    let count = 2 * INSTANCES + 1;
    let steps: Vec<Step> = (1..=u128::from(count))
        .flat_map(|number| [start(number, &format!("order-{number}")), close(number)])
        .collect();
    write(store, steps).await;
    let done = delete(store, completed(i64::MAX)).await;
    assert_eq!((done.instances, done.more), (INSTANCES, true));
    let after = done.go_on;
    let done = delete(store, Sweep { after, ..completed(i64::MAX) }).await;
    assert_eq!((done.instances, done.more), (INSTANCES, true));
    // From the beginning is right too: what is gone is gone.
    assert_eq!(delete_all(store, completed(i64::MAX)).await.0, 1);
}

pub async fn a_long_history_goes_in_pieces(store: &dyn Store) {
    let events = 2 * ROWS + 10;
    let mut long = start(1, "long");
    for seq in 2..=events {
        long = long.event(run(1), event(seq, status_set("on")));
    }
    write(store, [long, close(1), start(2, "short"), close(2)]).await;
    let done = delete(store, completed(i64::MAX)).await;
    assert_eq!((done.instances, done.rows, done.more), (0, ROWS, true));
    assert!(store.find("long").await.unwrap().is_some(), "its own row goes last");
    assert_eq!(delete_all(store, completed(i64::MAX)).await, (2, 2));

    let mut long = start(3, "long");
    for seq in 2..=events {
        long = long.event(run(3), event(seq, status_set("on")));
    }
    write(store, [long, close(3)]).await;
    let mut pieces = 0;
    while store.delete_closed(Deletion::One(uid(3))).await.unwrap().more {
        pieces += 1;
    }
    assert_eq!(pieces, 2);
    assert_eq!(store.history(run(3)).await.unwrap(), []);
}

pub async fn the_id_of_a_deleted_instance_is_free(store: &dyn Store) {
    write(store, [start(1, "order-1"), close(1)]).await;
    write(store, [start(2, "order-1").replacing_closed(), close(2)]).await;
    assert_eq!(delete_all(store, completed(i64::MAX)).await.0, 2, "an earlier holder goes too");
    write(store, [start(3, "order-1")]).await;
    assert_eq!(store.find("order-1").await.unwrap().unwrap().uid, uid(3));
}
