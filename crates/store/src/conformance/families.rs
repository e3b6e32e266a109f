//! A workflow starts another instance in a step of its own, and hears of it when it cannot.

use super::fixtures::*;
use crate::rows::Status;
use crate::{ChildStart, InstanceWrite, Replaces, Step, StepResult, Store};

pub async fn an_instance_is_born_together_with_the_step_that_asks_for_it(store: &dyn Store) {
    write(store, [start(1, "parent").child_start(child_start(2, "child"))]).await;
    assert_eq!(store.find("child").await.unwrap(), Some(instance(2, "child")));
    assert_eq!(ids(store, 2).await, ["start"]);
    assert_eq!(ids(store, 1).await, [""; 0]);
}

pub async fn an_id_that_is_taken_stops_no_step_and_is_told(store: &dyn Store) {
    write(store, [start(1, "parent"), start(3, "open"), start(4, "closed"), close(4)]).await;
    let turn = step()
        .event(run(1), event(2, scheduled()))
        .child_start(child_start(5, "open"))
        .child_start(ChildStart { otherwise: None, ..child_start(6, "open") })
        .child_start(child_start(7, "closed"))
        .child_start(child_start(8, "free"));
    write(store, [turn]).await;
    assert_eq!(ids(store, 1).await, ["taken-5", "taken-7"]);
    assert_eq!(store.history(run(1)).await.unwrap().len(), 2);
    for number in [5, 6, 7] {
        assert_eq!(store.instance(uid(number)).await.unwrap(), None);
        assert_eq!(ids(store, number).await, [""; 0]);
    }
    assert_eq!(store.find("open").await.unwrap().unwrap().uid, uid(3));
    assert_eq!(store.find("free").await.unwrap().unwrap().uid, uid(8));
}

pub async fn a_child_takes_over_the_id_of_a_closed_instance_where_it_may(store: &dyn Store) {
    write(store, [start(1, "parent"), start(3, "open"), start(4, "closed"), close(4)]).await;
    let replacing =
        |number, id| ChildStart { replaces: Replaces::Closed, ..child_start(number, id) };
    write(store, [step().child_start(replacing(5, "open")).child_start(replacing(6, "closed"))])
        .await;
    assert_eq!(store.find("open").await.unwrap().unwrap().uid, uid(3));
    assert_eq!(store.find("closed").await.unwrap().unwrap().uid, uid(6));
    assert_eq!(ids(store, 1).await, ["taken-5"]);
}

pub async fn an_instance_is_born_once(store: &dyn Store) {
    let turn = || step().child_start(child_start(2, "child"));
    write(store, [start(1, "parent"), turn()]).await;
    write(store, [step().receive(uid(2), "start")]).await;
    // A crash kept the answer from the one who asked, who asks again.
    write(store, [turn()]).await;
    assert_eq!((ids(store, 1).await, ids(store, 2).await), (vec![], vec![]));

    // Even when it is over, and its id is another one's by now.
    write(store, [close(2), start(3, "child").replacing_closed(), turn()]).await;
    assert_eq!((ids(store, 1).await, ids(store, 2).await), (vec![], vec![]));
    assert_eq!(store.instance(uid(2)).await.unwrap().unwrap().status, Status::Completed);
    assert_eq!(store.find("child").await.unwrap().unwrap().uid, uid(3));
}

pub async fn what_a_step_starts_it_can_send_messages_to(store: &dyn Store) {
    let turn = step().child_start(child_start(2, "child")).send_if_open(signal(2, "end", 5));
    write(store, [start(1, "parent"), turn]).await;
    assert_eq!(ids(store, 2).await, ["start", "end"]);
}

pub async fn what_a_child_start_sends_takes_room_from_signals(store: &dyn Store) {
    write(store, [start(1, "parent"), start(3, "taken")]).await;
    let open = InstanceWrite::Open { uid: uid(1), signals_below: Some(1) };
    let tell = Step { instance: Some(open), ..step() }.send(signal(1, "m", 5));
    let results = commit(store, [step().child_start(child_start(5, "taken")), tell]).await;
    assert_eq!(results, [StepResult::Written, StepResult::Full]);
    assert_eq!(ids(store, 1).await, ["taken-5"]);
}

pub async fn a_message_to_an_instance_that_is_not_open_is_dropped(store: &dyn Store) {
    let started = (1..=3).map(|number| start(number, &format!("order-{number}")));
    write(store, started.collect::<Vec<Step>>()).await;
    write(store, [close(2), set_status(3, Status::Blocked)]).await;
    let told = (1..=4).fold(step(), |step, number| step.send_if_open(signal(number, "m", 5)));
    assert_eq!(commit(store, [told]).await, [StepResult::Written]);
    for (number, there) in [(1, true), (2, false), (3, true), (4, false)] {
        assert_eq!(ids(store, number).await.len(), usize::from(there), "{number}");
    }
}

/// A child that starts, and what its parent is told when its id is taken.
fn child_start(number: u128, id: &str) -> ChildStart {
    ChildStart {
        row: instance(number, id),
        replaces: Replaces::Nobody,
        start: signal(number, "start", 0),
        otherwise: Some(signal(1, &format!("taken-{number}"), 0)),
    }
}

impl Step {
    fn child_start(mut self, child_start: ChildStart) -> Self {
        self.child_starts.push(child_start);
        self
    }
}

async fn ids(store: &dyn Store, number: u128) -> Vec<String> {
    let messages = store.messages(uid(number)).await.unwrap();
    messages.into_iter().map(|row| row.id).collect()
}
