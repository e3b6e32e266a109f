//! A batch is whole or nothing, in order; a start whose id is taken is refused alone.

use super::fixtures::*;
use crate::{StepResult, Store};

pub async fn a_batch_is_written_whole(store: &dyn Store) {
    let first = start(1, "order-1")
        .event(run(1), event(2, scheduled()))
        .policy(POLICY, "{}")
        .insert(task(call(1, 2)))
        .send(signal(1, "m", 5))
        .attempt(failed_attempt(call(1, 2), 1))
        .put(1, "colour", json("\"red\""));
    write(store, [first, start(2, "order-2")]).await;

    let record = store.load_run(uid(1)).await.unwrap().unwrap();
    assert_eq!(record.events.len(), 2);
    assert_eq!((record.tasks.len(), record.messages.len()), (1, 1));
    assert_eq!(store.attempts(run(1)).await.unwrap().len(), 1);
    assert!(store.policy(POLICY).await.unwrap().is_some());
    assert!(store.kv(uid(1), "colour").await.unwrap().is_some());
    assert!(store.find("order-2").await.unwrap().is_some());
}

pub async fn one_refused_row_takes_the_whole_batch_with_it(store: &dyn Store) {
    let good = start(1, "order-1").send(signal(1, "m", 5)).put(1, "colour", json("1"));
    let culprit = step().delete(call(7, 2));
    let error = refused(store, [good.clone(), culprit, start(2, "order-2")]).await;
    assert!(error.to_string().contains(&call(7, 2).to_string()), "{error}");

    assert!(store.find("order-1").await.unwrap().is_none());
    assert!(store.find("order-2").await.unwrap().is_none());
    assert!(store.history(run(1)).await.unwrap().is_empty());
    assert!(store.messages(uid(1)).await.unwrap().is_empty());
    assert!(store.kv(uid(1), "colour").await.unwrap().is_none());

    // Without the culprit the same steps are taken.
    write(store, [good, start(2, "order-2")]).await;
    assert!(store.find("order-1").await.unwrap().is_some());
}

pub async fn a_duplicate_start_is_refused_alone(store: &dyn Store) {
    write(store, [start(1, "order-1")]).await;
    let again = start(2, "order-1")
        .event(run(2), event(2, scheduled()))
        .policy("unheard-of", "{}")
        .insert(task(call(2, 2)))
        .send(signal(2, "m", 5))
        .attempt(failed_attempt(call(2, 2), 1))
        .put(2, "colour", json("1"));
    let results = commit(store, [start(3, "order-3"), again, start(4, "order-4")]).await;
    assert_eq!(results, [StepResult::Written, StepResult::Duplicate, StepResult::Written]);

    assert_eq!(store.find("order-1").await.unwrap().unwrap().uid, uid(1));
    assert!(store.find("order-3").await.unwrap().is_some());
    assert!(store.find("order-4").await.unwrap().is_some());
    assert!(store.instance(uid(2)).await.unwrap().is_none());
    assert!(store.history(run(2)).await.unwrap().is_empty());
    assert!(store.policy("unheard-of").await.unwrap().is_none());
    assert!(store.tasks(run(2)).await.unwrap().is_empty());
    assert!(store.messages(uid(2)).await.unwrap().is_empty());
    assert!(store.attempts(run(2)).await.unwrap().is_empty());
    assert!(store.kv(uid(2), "colour").await.unwrap().is_none());
}

pub async fn a_start_of_the_same_batch_holds_its_id(store: &dyn Store) {
    let results = commit(store, [start(1, "order-1"), start(2, "order-1")]).await;
    assert_eq!(results, [StepResult::Written, StepResult::Duplicate]);
    assert_eq!(store.find("order-1").await.unwrap().unwrap().uid, uid(1));
}

pub async fn steps_are_written_in_order(store: &dyn Store) {
    let waiting = task(call(1, 2));
    let mut running = waiting.clone();
    running.claim = claim("node-a");
    let batch = [
        start(1, "order-1").event(run(1), event(2, scheduled())),
        step().insert(waiting).put(1, "colour", json("\"red\"")),
        step().update(running).put(1, "colour", json("\"blue\"")),
        step().delete(call(1, 2)).put(1, "colour", json("\"green\"")),
        close(1),
        start(2, "order-1").replacing_closed(),
    ];
    write(store, batch).await;

    assert!(store.tasks(run(1)).await.unwrap().is_empty());
    assert_eq!(store.kv(uid(1), "colour").await.unwrap().unwrap().value, json("\"green\""));
    assert_eq!(store.find("order-1").await.unwrap().unwrap().uid, uid(2));
}

pub async fn the_parts_of_a_step_are_written_in_order(store: &dyn Store) {
    let mut running = task(call(1, 2));
    running.claim = claim("node-a");
    let turn = start(1, "order-1")
        .insert(task(call(1, 2)))
        .update(running.clone())
        .send(signal(1, "first", 5))
        .send(signal(1, "second", 5))
        .receive(uid(1), "first");
    write(store, [turn]).await;
    assert_eq!(store.tasks(run(1)).await.unwrap(), [running]);
    assert_eq!(store.messages(uid(1)).await.unwrap(), [signal(1, "second", 5)]);
}

pub async fn nothing_to_write_is_no_trouble(store: &dyn Store) {
    assert!(commit(store, []).await.is_empty());
    assert_eq!(commit(store, [step(), step()]).await, [StepResult::Written; 2]);
}

pub async fn a_read_sees_what_was_acknowledged(store: &dyn Store) {
    write(store, [start(1, "order-1")]).await;
    for seq in 2..100 {
        write(store, [step().event(run(1), event(seq, scheduled()))]).await;
        assert_eq!(store.history(run(1)).await.unwrap().len() as u64, seq);
    }
}
