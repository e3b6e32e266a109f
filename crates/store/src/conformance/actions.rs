//! What operators did is kept once, with what came of it, and goes with its instance.

use resurgam_core::action::{Action, ActionAnswer};
use resurgam_core::{Failure, Seq};

use super::fixtures::*;
use crate::rows::{ActionRow, DueMessage, Message, MessageRow};
use crate::{Step, Store};

pub async fn actions_come_back_as_they_were(store: &dyn Store) {
    let failure = Failure::terminal("ü'\" given up").with_type("Skipped");
    let actions = [
        Action::Retry { reset: true, due: None },
        Action::Pause { clock_runs: true },
        Action::Resume { reset: false, due: None },
        Action::Complete { value: json(r#"{"text":"ü'\""}"#), unchecked: true },
        Action::Fail { failure },
        Action::SetPolicy { policy: r#"{"max_attempts":3}"#.to_string() },
    ];
    let row = |(number, what): (u32, Action)| {
        let mut row = action(1, 2, &format!("id ü {number}"), i64::from(number));
        row.request.reason = (number > 2).then(|| "it \"hangs\"".to_string());
        row.request.action = what;
        row
    };
    let rows: Vec<ActionRow> = (1..).zip(actions).map(row).collect();
    let step = Step { actions: rows.clone(), ..start(1, "order-1") };
    write(store, [step]).await;
    assert_eq!(store.actions(run(1)).await.unwrap(), rows);
    assert_eq!(store.action(uid(1), "id ü 4").await.unwrap(), Some(rows[3].clone()));
    assert_eq!(store.action(uid(1), "id").await.unwrap(), None);
    assert_eq!(store.action(uid(2), "id ü 4").await.unwrap(), None);
}

pub async fn an_action_of_an_id_that_is_known_is_dropped(store: &dyn Store) {
    let first = action(1, 2, "ticket", 5);
    let mut second = action(1, 3, "ticket", 6);
    second.answer = ActionAnswer::refused("charge#3 has ended");
    let same_batch = [
        Step { actions: vec![first.clone(), second.clone()], ..start(1, "order-1") },
        Step { actions: vec![second.clone()], ..step() },
    ];
    write(store, same_batch).await;
    write(store, [Step { actions: vec![second], ..step() }]).await;
    assert_eq!(store.actions(run(1)).await.unwrap(), [first]);
}

pub async fn actions_come_in_the_order_of_time_and_run_by_run(store: &dyn Store) {
    let mut of_next_run = action(1, 2, "next", 3);
    of_next_run.call.run.run = 2;
    let (late, early) = (action(1, 2, "a", 9), action(1, 3, "b", 4));
    let actions = vec![late.clone(), early.clone(), of_next_run.clone(), action(2, 2, "a", 1)];
    write(store, [start(1, "order-1"), start(2, "order-2"), Step { actions, ..step() }]).await;
    assert_eq!(store.actions(run(1)).await.unwrap(), [early, late]);
    assert_eq!(store.actions(of_next_run.call.run).await.unwrap(), [of_next_run]);
}

pub async fn a_run_that_does_not_go_on_holds_up_no_action(store: &dyn Store) {
    let request = action(1, 2, "ticket", 5).request;
    let body = Message::Action { run: 1, activity: call(1, 2).seq, request: Box::new(request) };
    let asked = MessageRow { body, ..signal(1, "action/ticket", 5) };
    let begin = start(1, "order-1").send(signal(1, "a", 4)).send(asked.clone()).park(1);
    write(store, [begin]).await;
    let due = |due_at| DueMessage { uid: uid(1), due_at: at(due_at), is_for_holder: true };
    assert_eq!(store.due_messages(at(100), 10).await.unwrap(), [due(5)]);
    let found = store.due_messages_of(uid(1), at(100)).await.unwrap();
    assert_eq!(found, [signal(1, "a", 4), asked]);
}

pub async fn what_is_asked_of_a_run_outlives_it_and_what_is_asked_of_its_calls_does_not(
    store: &dyn Store,
) {
    let asked = |id: &str, activity| {
        let request = Box::new(action(1, 2, id, 5).request);
        let body = Message::Action { run: 1, activity, request };
        MessageRow { body, ..signal(1, id, 5) }
    };
    let (of_run, of_call) = (asked("run", Seq::RUN), asked("call", call(1, 2).seq));
    write(store, [start(1, "order-1").send(of_call).send(of_run.clone())]).await;
    write(store, [step().delete_messages_of(run(1))]).await;
    assert_eq!(store.messages(uid(1)).await.unwrap(), [of_run]);
}
