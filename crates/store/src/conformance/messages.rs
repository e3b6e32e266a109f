//! Messages come in the order of their arrival, once each, and wait until they are deleted.

use resurgam_core::event::{ActivityCompleted, ActivityFailed};
use resurgam_core::{EventKind, Failure, RunKey, Seq};

use super::fixtures::*;
use crate::rows::{DueMessage, Heartbeat, Message, MessageRow, Status};
use crate::{InstanceWrite, Report, Reported, Step, StepResult, Store};

pub async fn every_kind_of_message_comes_back_as_it_was(store: &dyn Store) {
    let completed = EventKind::ActivityCompleted(ActivityCompleted {
        activity: Seq(2),
        result: json("\"ü\""),
        attempt: 3,
        started_at: at(9),
        after_cancel: false,
        fallback: true,
        retry_metadata: None,
    });
    let failed = EventKind::ActivityFailed(ActivityFailed {
        activity: Seq(4),
        failure: Failure::terminal("no such account"),
        attempt: 1,
        started_at: at(9),
        why: "terminal".to_string(),
        settles: true,
        ends_run: true,
        retry_metadata: None,
    });
    let bodies = [
        Message::Start,
        Message::Timer { run: u32::MAX, timer: Seq(3) },
        Message::Signal { name: "paid ü".to_string(), value: json("{\"a\": 1}") },
        Message::Cancel { reason: "it's over".to_string() },
        Message::Terminate { reason: "fire".to_string() },
        Message::Result { run: 1, event: EventKind::RunTimedOut { total: true } },
        Message::Result {
            run: 1,
            event: EventKind::ChildCompleted { child: Seq(2), result: json("1") },
        },
        Message::Result {
            run: 1,
            event: EventKind::ChildFailed { child: Seq(2), failure: Failure::new("no") },
        },
        Message::Result { run: 1, event: completed },
        Message::Result { run: 2, event: failed },
        Message::Report { run: 2, report: Box::new(report(Reported::GoesOn)) },
        Message::Report { run: 2, report: Box::new(report(Reported::Failed(Failure::new("no")))) },
    ];
    let rows: Vec<MessageRow> = (0..)
        .zip(bodies)
        .map(|(n, body)| MessageRow { body, ..signal(1, &format!("message {n}"), n) })
        .collect();
    let sent = rows.iter().fold(start(1, "order-1"), |step, row| step.send(row.clone()));
    write(store, [sent]).await;
    assert_eq!(store.messages(uid(1)).await.unwrap(), rows);
    assert_eq!(store.load_run(uid(1)).await.unwrap().unwrap().messages, rows);
}

/// A message that is no report.
fn due(number: u128, due_at: i64) -> DueMessage {
    DueMessage { uid: uid(number), due_at: at(due_at), is_for_holder: false }
}

/// What an attempt says from another node.
fn report(outcome: Reported) -> Report {
    let heartbeat = Some(Heartbeat { details: json("{\"page\": 3}"), at: at(7) });
    Report { activity: Seq(4), token: u64::MAX, at: at(8), outcome, heartbeat }
}

pub async fn a_due_message_says_whether_it_is_a_report(store: &dyn Store) {
    let body = Message::Report { run: 1, report: Box::new(report(Reported::Interrupted)) };
    let reported = MessageRow { body, ..signal(1, "report", 2) };
    write(store, [start(1, "order-1").send(signal(1, "a", 1)).send(reported)]).await;
    let found = store.due_messages(at(1_000), 10).await.unwrap();
    assert_eq!(found, [due(1, 1), DueMessage { is_for_holder: true, ..due(1, 2) }]);
}

pub async fn messages_are_read_in_the_order_of_their_arrival(store: &dyn Store) {
    write(store, [start(1, "order-1")]).await;
    // Neither their ids nor their due times are in that order, and gaps are not filled.
    for (id, due_at) in [("c", 3), ("a", 9), ("d", 1), ("b", 5)] {
        write(store, [step().send(signal(1, id, due_at))]).await;
    }
    write(store, [step().receive(uid(1), "b").receive(uid(1), "a")]).await;
    write(store, [step().send(signal(1, "a again", 0))]).await;
    assert_eq!(waiting(store, 1).await, ["c", "d", "a again"]);
}

pub async fn messages_of_one_batch_arrive_in_its_order(store: &dyn Store) {
    write(store, [start(1, "order-1").send(signal(1, "a", 5))]).await;
    // Some of these must wait for an earlier step, and those behind them must not overtake them.
    let batch = [
        set_status(1, Status::Blocked).send_if_open(signal(1, "b", 5)),
        step().send(signal(1, "c", 5)).receive(uid(1), "a"),
        step().send(signal(1, "a", 5)).send(signal(1, "d", 5)),
        step().send_if_open(signal(1, "e", 5)).send(signal(1, "f", 5)),
    ];
    write(store, batch).await;
    assert_eq!(waiting(store, 1).await, ["b", "c", "a", "d", "e", "f"]);
    let due = store.due_messages_of(uid(1), at(100)).await.unwrap();
    assert_eq!(due.iter().map(|row| &*row.id).collect::<String>(), "bcadef");
}

pub async fn a_repeated_message_is_dropped(store: &dyn Store) {
    write(store, [start(1, "order-1")]).await;
    let first = signal(1, "m", 5);
    let second =
        MessageRow { due_at: at(7), body: Message::Cancel { reason: "x".into() }, ..first };
    write(store, [step().send(signal(1, "m", 5)).send(second.clone())]).await;
    write(store, [step().send(second)]).await;
    assert_eq!(store.messages(uid(1)).await.unwrap(), [signal(1, "m", 5)]);
}

pub async fn the_same_message_id_for_another_instance_is_another_message(store: &dyn Store) {
    write(store, [start(1, "order-1").send(signal(1, "m", 5))]).await;
    write(store, [start(2, "order-2").send(signal(2, "m", 5))]).await;
    write(store, [step().receive(uid(1), "m")]).await;
    assert_eq!(waiting(store, 1).await, [""; 0]);
    assert_eq!(waiting(store, 2).await, ["m"]);
}

pub async fn deleting_a_message_that_is_gone_is_fine(store: &dyn Store) {
    write(store, [start(1, "order-1").send(signal(1, "m", 5))]).await;
    write(store, [step().receive(uid(1), "m").receive(uid(1), "m")]).await;
    write(store, [step().receive(uid(9), "unheard of")]).await;
    assert_eq!(waiting(store, 1).await, [""; 0]);
}

pub async fn a_run_that_closes_takes_its_timers_and_results_and_nothing_else(store: &dyn Store) {
    let second = RunKey { uid: uid(1), run: 2 };
    let result = Message::Result {
        run: 1,
        event: EventKind::ActivityCompleted(ActivityCompleted {
            activity: Seq(2),
            result: json("1"),
            attempt: 1,
            started_at: at(1),
            after_cancel: false,
            fallback: true,
            retry_metadata: None,
        }),
    };
    let turn = start(1, "order-1")
        .send(timer(run(1), 3))
        .send(signal(1, "signal", 5))
        .send(timer(run(1), 4))
        .send(timer(second, 3))
        .send(MessageRow { body: result, ..signal(1, "result", 5) })
        .send(MessageRow { body: Message::Start, ..signal(1, "start", 5) });
    write(store, [turn, start(2, "order-2").send(timer(run(2), 3))]).await;
    write(store, [step().delete_messages_of(run(1))]).await;
    assert_eq!(waiting(store, 1).await, ["signal", "timer-2-3", "start"]);
    assert_eq!(waiting(store, 2).await, ["timer-1-3"]);
}

pub async fn parked_messages_stay_and_wake_nobody(store: &dyn Store) {
    let both = [
        start(1, "order-1").send(signal(1, "a", 5)).send(timer(run(1), 3)),
        start(2, "order-2").send(signal(2, "b", 6)),
    ];
    write(store, both).await;
    // Said twice it is said once, and an instance without messages has nothing to park.
    write(store, [step().park(1), step().park(1).park(9)]).await;
    assert_eq!(store.due_messages(at(100), 10).await.unwrap(), [due(2, 6)]);
    assert_eq!(waiting(store, 1).await, ["a", "timer-1-3"]);
    let loaded = store.load_run(uid(1)).await.unwrap().unwrap().messages;
    assert_eq!(loaded, [signal(1, "a", 5), timer(run(1), 3)]);

    // One that was read goes as ever, the others wake the instance again.
    write(store, [step().receive(uid(1), "timer-1-3").unpark(1)]).await;
    assert_eq!(store.due_messages(at(100), 10).await.unwrap(), [due(1, 5), due(2, 6)]);
    assert_eq!(waiting(store, 1).await, ["a"]);
}

pub async fn parking_is_for_the_messages_that_are_there(store: &dyn Store) {
    write(store, [start(1, "order-1").send(signal(1, "early", 5)).park(1)]).await;
    assert_eq!(store.due_messages(at(100), 10).await.unwrap(), []);
    write(store, [step().send(signal(1, "early", 5)).send(signal(1, "late", 7))]).await;
    let late = due(1, 7);
    assert_eq!(store.due_messages(at(100), 10).await.unwrap(), [late]);
    assert_eq!(waiting(store, 1).await, ["early", "late"]);
}

pub async fn due_messages_come_earliest_first_and_then_as_they_arrived(store: &dyn Store) {
    let batch = [
        start(1, "order-1").send(signal(1, "z", 50)).send(signal(1, "y", 100)),
        start(3, "order-3").send(signal(3, "m", 50)),
        start(2, "order-2").send(signal(2, "b", 50)).send(signal(2, "a", -7)),
    ];
    write(store, batch).await;
    let all = [due(2, -7), due(1, 50), due(3, 50), due(2, 50)];
    assert_eq!(store.due_messages(at(100), 10).await.unwrap(), all);
    assert_eq!(store.due_messages(at(100), 2).await.unwrap(), all[..2]);
    assert_eq!(store.due_messages(at(50), 10).await.unwrap(), all[..1]);
    assert_eq!(store.due_messages(at(101), 10).await.unwrap().len(), 5);
}

pub async fn a_run_is_loaded_with_messages_that_are_not_due(store: &dyn Store) {
    write(store, [start(1, "order-1").send(signal(1, "m", i64::MAX))]).await;
    assert_eq!(store.load_run(uid(1)).await.unwrap().unwrap().messages.len(), 1);
    assert!(store.due_messages(at(1_000_000), 10).await.unwrap().is_empty());
}

pub async fn a_message_that_is_deferred_stays_and_is_not_due(store: &dyn Store) {
    let both = start(1, "order-1").send(signal(1, "a", 5)).send(signal(1, "b", 5));
    write(store, [both, start(2, "order-2").send(signal(2, "a", 5))]).await;
    write(store, [step().defer(1, "a").defer(1, "unheard of").defer(9, "a")]).await;
    let due = |number| due(number, 5);
    assert_eq!(store.due_messages(at(100), 10).await.unwrap(), [due(1), due(2)]);
    // It keeps its place, and says that it is not due.
    let rows = store.messages(uid(1)).await.unwrap();
    assert_eq!(rows[0], MessageRow { due_at: MessageRow::NEVER, ..signal(1, "a", 5) });
    assert_eq!(waiting(store, 1).await, ["a", "b"]);
    assert_eq!(store.due_messages(MessageRow::NEVER, 10).await.unwrap(), [due(1), due(2)]);
    write(store, [step().receive(uid(1), "a")]).await;
    assert_eq!(waiting(store, 1).await, ["b"]);
}

pub async fn the_messages_of_one_instance_that_are_due_are_read_as_they_arrived(store: &dyn Store) {
    let turn = start(1, "order-1").send(signal(1, "z", 50)).send(signal(1, "y", 100));
    write(store, [turn, start(2, "order-2").send(signal(2, "b", 50))]).await;
    write(store, [step().send(signal(1, "x", -7))]).await;
    let due = async |number, before| store.due_messages_of(uid(number), at(before)).await.unwrap();
    assert_eq!(due(1, 100).await, [signal(1, "z", 50), signal(1, "x", -7)]);
    assert_eq!(due(1, 50).await, [signal(1, "x", -7)]);
    assert_eq!(due(3, 100).await, []);
}

pub async fn a_signal_finds_room_or_is_refused_alone(store: &dyn Store) {
    let beside = MessageRow { body: Message::Start, ..signal(1, "start", 5) };
    write(store, [start(1, "order-1").send(beside), start(2, "order-2")]).await;
    let tell = |number, id: &str, below| {
        let open = InstanceWrite::Open { uid: uid(number), signals_below: Some(below) };
        Step { instance: Some(open), ..step() }.send(signal(number, id, 5))
    };
    let (written, full) = (StepResult::Written, StepResult::Full);
    // Only signals take room, those that are not due too, and each instance has its own.
    let batch = [tell(1, "a", 2), step().defer(1, "a"), tell(1, "b", 2), tell(1, "c", 2)];
    assert_eq!(commit(store, batch).await, [written, written, written, full]);
    assert_eq!(commit(store, [tell(2, "a", 2), tell(2, "b", 0)]).await, [written, full]);
    write(store, [step().receive(uid(1), "a")]).await;
    assert_eq!(commit(store, [tell(1, "d", 2)]).await, [written]);
    assert_eq!(waiting(store, 1).await, ["start", "b", "d"]);
    assert_eq!(commit(store, [tell(9, "a", 2)]).await, [StepResult::Closed]);
}

pub async fn a_signal_with_a_request_id_is_remembered_for_its_id(store: &dyn Store) {
    let named = |number, request: &str| {
        signal(number, &format!("{}{request}", MessageRow::REPEATABLE_SIGNAL), 5)
    };
    let received = |id: Option<&str>| EventKind::SignalReceived {
        name: "paid".to_string(),
        value: json("1"),
        id: id.map(str::to_string),
    };
    let turn = start(1, "order-1").send(named(1, "waits")).send(signal(1, "plain", 5));
    let turn = turn.event(run(1), event(2, received(Some("read"))));
    write(store, [turn.event(run(1), event(3, received(None))), start(2, "order-2")]).await;
    for replaced in [false, true] {
        for request in ["waits", "read"] {
            assert!(store.signalled("order-1", request).await.unwrap(), "{request} {replaced}");
            assert!(!store.signalled("order-2", request).await.unwrap(), "{request} {replaced}");
        }
        assert!(!store.signalled("order-1", "plain").await.unwrap());
        if !replaced {
            write(store, [close(1), start(3, "order-1").replacing_closed()]).await;
        }
    }
}

async fn waiting(store: &dyn Store, number: u128) -> Vec<String> {
    let messages = store.messages(uid(number)).await.unwrap();
    messages.into_iter().map(|row| row.id).collect()
}
