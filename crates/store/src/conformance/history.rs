//! A history only grows, keeps its order, and comes back to the byte.

use std::time::Duration;

use resurgam_core::event::{
    ActivityCompleted, ActivityFailed, ActivityScheduled, AttemptError, Carried, Chain,
    ChildStarted, Compensation, Copied, Delayed, Initiator, KeptKeys, Lineage, ParentClose,
    RetryMetadata, RunContinued, RunStarted, UnreadSignal,
};
use resurgam_core::{EventKind, Failure, Payload, RunKey, Seq};

use super::fixtures::*;
use crate::{EventPage, InstanceWrite, Rewind, Step, Store};

pub async fn every_kind_of_event_comes_back_as_it_was(store: &dyn Store) {
    let events: Vec<_> = (1..).zip(every_kind()).map(|(seq, kind)| event(seq, kind)).collect();
    let mut turn = start(1, "order-1");
    for event in events.iter().skip(1) {
        turn = turn.event(run(1), event.clone());
    }
    write(store, [turn]).await;
    assert_eq!(store.history(run(1)).await.unwrap(), events);
    assert_eq!(store.load_run(uid(1)).await.unwrap().unwrap().events, events);
}

pub async fn awkward_payloads_come_back_to_the_byte(store: &dyn Store) {
    let mut row = instance(1, "order-1");
    row.input = json(&format!("\"{}\"", "ä🦀\u{10ffff}\u{feff}".repeat(20_000)));
    write(store, [start_of(row.clone())]).await;
    for (seq, value) in (2..).zip(awkward()) {
        let set = EventKind::StatusSet { value: value.clone() };
        let turn = step().event(run(1), event(seq, set.clone())).put(1, "value", value.clone());
        write(store, [turn]).await;
        assert_eq!(store.history(run(1)).await.unwrap().pop().unwrap().kind, set);
        assert_eq!(store.kv(uid(1), "value").await.unwrap().unwrap().value, value);
    }
    assert_eq!(store.instance(uid(1)).await.unwrap(), Some(row));
}

pub async fn events_come_back_in_their_order(store: &dyn Store) {
    write(store, [start(1, "order-1"), start(2, "order-2")]).await;
    // Long enough that places compared as text would come out wrong, with another run between.
    for seq in 2..130 {
        let both =
            [run(1), run(2)].map(|run| step().event(run, event(seq, status_set(&seq.to_string()))));
        write(store, both).await;
    }
    let events = store.history(run(1)).await.unwrap();
    let places: Vec<u64> = events.iter().map(|event| event.seq.0).collect();
    assert_eq!(places, (1..130).collect::<Vec<u64>>());
}

pub async fn a_history_is_read_in_parts_from_either_end(store: &dyn Store) {
    write(store, [start(1, "order-1"), start(2, "order-2")]).await;
    for seq in 2..=12 {
        let both =
            [run(1), run(2)].map(|run| step().event(run, event(seq, status_set(&seq.to_string()))));
        write(store, both).await;
    }
    let all = store.history(run(1)).await.unwrap();
    let places = async |page, limit| {
        let events = store.event_page(run(1), page, limit).await.unwrap();
        // They are the events of the history, with everything in them.
        assert!(events.iter().all(|event| all.contains(event)), "{events:?}");
        events.iter().map(|event| event.seq.0).collect::<Vec<u64>>()
    };
    assert_eq!(places(EventPage::After(Seq::RUN), 3).await, [1, 2, 3]);
    assert_eq!(places(EventPage::After(Seq(9)), 2).await, [10, 11]);
    assert_eq!(places(EventPage::After(Seq(10)), usize::MAX).await, [11, 12]);
    assert!(places(EventPage::After(Seq(12)), 5).await.is_empty());
    assert_eq!(places(EventPage::Before(None), 3).await, [10, 11, 12]);
    assert_eq!(places(EventPage::Before(Some(Seq(10))), 2).await, [8, 9]);
    assert_eq!(places(EventPage::Before(Some(Seq(3))), usize::MAX).await, [1, 2]);
    assert!(places(EventPage::Before(Some(Seq(1))), 5).await.is_empty());
    assert!(places(EventPage::Before(None), 0).await.is_empty());
    let second = RunKey { uid: uid(1), run: 2 };
    let none = store.event_page(second, EventPage::Before(None), 5).await.unwrap();
    assert_eq!(none, []);
}

pub async fn a_run_that_is_reset_has_a_copy_of_the_history_before_it(store: &dyn Store) {
    write(store, [start(1, "order-1"), start(2, "order-2")]).await;
    for seq in 2..40 {
        let value = json(&seq.to_string());
        write(
            store,
            [step()
                .event(run(1), event(seq, status_set(&seq.to_string())))
                .put(1, "last", value.clone())
                .put(2, "last", value)],
        )
        .await;
    }
    let second = RunKey { uid: uid(1), run: 2 };
    let rewind = Rewind { from: run(1), to: 2, before: Seq(30), forget: vec!["last".to_string()] };
    let next = InstanceWrite::Continue { run: second, input: json("[2]"), pause: None };
    // Also an event of the same batch.
    let turn = step().event(run(1), event(40, status_set("40")));
    let reset = Step { instance: Some(next), rewind: Some(Box::new(rewind)), ..step() };
    let reset = reset.event(second, event(1, started())).put(1, "status", json("29"));
    write(store, [turn, reset]).await;

    let before = store.history(run(1)).await.unwrap();
    let copied = store.history(second).await.unwrap();
    assert_eq!((before.len(), copied.len()), (40, 29));
    assert_eq!(copied[1..], before[1..29]);
    assert_eq!(store.load_run(uid(1)).await.unwrap().unwrap().events, copied);
    assert_eq!(store.kv(uid(1), "last").await.unwrap(), None);
    assert_eq!(store.kv(uid(1), "status").await.unwrap().unwrap().value, json("29"));
    assert_eq!(store.kv(uid(2), "last").await.unwrap().unwrap().value, json("39"));
    assert_eq!(store.history(run(2)).await.unwrap().len(), 1);

    // The same twice is an error of the data, and changes nothing.
    let rewind = Rewind { from: run(1), to: 2, before: Seq(3), forget: Vec::new() };
    refused(store, [Step { rewind: Some(Box::new(rewind)), ..step() }]).await;
    assert_eq!(store.history(second).await.unwrap(), copied);
}

pub async fn a_place_that_is_taken_stays_as_it_is(store: &dyn Store) {
    write(store, [start(1, "order-1")]).await;
    write(store, [step().event(run(1), event(2, status_set("first")))]).await;
    let error = refused(store, [step().event(run(1), event(2, status_set("second")))]).await;
    assert!(error.to_string().contains("event 2"), "{error}");
    assert!(error.to_string().contains(&uid(1).to_string()), "{error}");
    let history = store.history(run(1)).await.unwrap();
    assert_eq!(history, [event(1, started()), event(2, status_set("first"))]);
}

pub async fn runs_and_instances_are_apart(store: &dyn Store) {
    let second = RunKey { uid: uid(1), run: 2 };
    let other = start(2, "order-2").event(run(2), event(2, status_set("other")));
    let batch = [
        start(1, "order-1").event(run(1), event(2, status_set("first run"))),
        step().event(second, event(1, status_set("second run"))),
        other,
    ];
    write(store, batch).await;
    assert_eq!(store.history(run(1)).await.unwrap()[1].kind, status_set("first run"));
    assert_eq!(store.history(second).await.unwrap(), [event(1, status_set("second run"))]);
    assert_eq!(store.load_run(uid(1)).await.unwrap().unwrap().events.len(), 2);
    assert_eq!(store.history(run(2)).await.unwrap().len(), 2);
}

pub async fn a_run_with_a_missing_event_is_an_error_that_names_it(store: &dyn Store) {
    let torn = start(1, "order-1").event(run(1), event(3, status_set("third")));
    write(store, [torn, start(2, "order-2")]).await;
    let error = store.load_run(uid(1)).await.unwrap_err();
    assert!(error.is_data(), "{error}");
    let text = error.to_string();
    assert!(text.contains("order-1") && text.contains("event 2"), "{text}");
    // People still see what is there, and others go on.
    assert_eq!(store.history(run(1)).await.unwrap().len(), 2);
    assert!(store.load_run(uid(2)).await.unwrap().is_some());
}

pub async fn a_run_comes_back_whole(store: &dyn Store) {
    let turn = start(1, "order-1")
        .event(run(1), event(2, scheduled()))
        .insert(task(call(1, 2)))
        .send(timer(run(1), 3))
        .send(signal(1, "m", 5));
    write(store, [turn, start(2, "order-2").insert(task(call(2, 2))).send(signal(2, "m", 5))])
        .await;
    let record = store.load_run(uid(1)).await.unwrap().unwrap();
    assert_eq!(record.key(), run(1));
    assert_eq!(record.instance, instance(1, "order-1"));
    assert_eq!(record.events, [event(1, started()), event(2, scheduled())]);
    assert_eq!(record.tasks, [task(call(1, 2))]);
    assert_eq!(record.messages, [timer(run(1), 3), signal(1, "m", 5)]);
}

pub async fn what_nobody_started_is_not_there(store: &dyn Store) {
    assert!(store.load_run(uid(1)).await.unwrap().is_none());
    assert!(store.instance(uid(1)).await.unwrap().is_none());
    assert!(store.history(run(1)).await.unwrap().is_empty());
    assert!(store.messages(uid(1)).await.unwrap().is_empty());
    assert!(store.tasks(run(1)).await.unwrap().is_empty());
    assert!(store.attempts(run(1)).await.unwrap().is_empty());
}

/// Values that have tripped databases, drivers and JSON readers before.
fn awkward() -> Vec<Payload> {
    vec![
        Payload::null(),
        json(""),
        json(r#"{"quote":"it's \"here\"","back":"\\","sql":"'); DROP TABLE event; --"}"#),
        json(r#"{"nul":"\u0000","lone":"\ud800"}"#),
        json("\"a raw \0 byte\""),
        json("{\"a\":1,\"a\":2 , \"z\":1e400}\n"),
        json("12345678901234567890.000000000000000000001"),
        json("\"ä🦀\u{10ffff}\u{feff}\u{202e}\""),
        json(&format!("\"{}\"", "x".repeat(1 << 20))),
        json(&format!("{}{}", "[".repeat(1_000), "]".repeat(1_000))),
    ]
}

fn every_kind() -> Vec<EventKind> {
    let failure = Failure::retry_after(Duration::from_secs(3), "slow down")
        .with_code("429")
        .with_details(serde_json::json!({"limit": 10, "text": "ü\u{0}"}))
        .caused_by(Failure::of_type("Quota", "used up"));
    vec![
        started(),
        scheduled(),
        EventKind::ActivityCompleted(ActivityCompleted {
            activity: Seq(2),
            result: json("{}"),
            attempt: 3,
            started_at: at(77),
            after_cancel: true,
            fallback: true,
            retry_metadata: Some(story()),
        }),
        EventKind::ActivityFailed(ActivityFailed {
            activity: Seq(2),
            failure: failure.clone(),
            attempt: u32::MAX,
            started_at: at(-1),
            why: "attempts used up".to_string(),
            settles: true,
            ends_run: true,
            retry_metadata: None,
        }),
        EventKind::ActivityCancelled { activity: Seq(2) },
        EventKind::ActivityCancelRequested { activity: Seq(2) },
        EventKind::CompensationRecorded {
            activity: Seq(2),
            name: "refund".to_string(),
            input: json("{\"cents\":7}"),
        },
        EventKind::ActivityScheduled(ActivityScheduled {
            name: "refund".to_string(),
            input: json("{\"cents\":7}"),
            queue: "payments".to_string(),
            compensates: Some(Seq(2)),
        }),
        EventKind::ChildStarted(ChildStarted {
            id: "order-1/7".to_string(),
            workflow: "deliver".to_string(),
            input: json("[1]"),
            parent_close: ParentClose::Terminate,
        }),
        EventKind::ChildCompleted { child: Seq(9), result: json("[]") },
        EventKind::ChildFailed { child: Seq(9), failure: failure.clone() },
        EventKind::ChildCancelRequested { child: Seq(9), terminate: true },
        EventKind::ChildCancelRequested { child: Seq(9), terminate: false },
        EventKind::TimerStarted { fire_at: at(i64::MAX) },
        EventKind::TimerFired { timer: Seq(6) },
        EventKind::TimerCancelled { timer: Seq(6) },
        EventKind::SignalReceived {
            name: "paid \"twice\"".to_string(),
            value: Payload::null(),
            id: Some("request \"7\"".to_string()),
        },
        EventKind::CancelRequested { reason: "nobody wants it\nany more".to_string() },
        EventKind::TerminateRequested { reason: "fire".to_string() },
        EventKind::RunTimedOut { total: true },
        EventKind::RunTimedOut { total: false },
        EventKind::LimitPassed { failure: failure.clone() },
        EventKind::KvSet { key: "colour ü".to_string(), value: json("\"red\"") },
        EventKind::VersionMarked { change: "check first".to_string(), version: u32::MAX },
        status_set("half way"),
        EventKind::RunCompleted { result: json("[1,2]") },
        EventKind::RunFailed { failure: failure.clone(), compensation: None },
        EventKind::RunCancelled {
            failure: failure.clone(),
            compensation: Some(Compensation::Complete),
        },
        EventKind::RunContinued(RunContinued {
            initiator: Initiator::RetryPolicy,
            input: json("[2]"),
            failure: Some(failure),
            backoff_ms: u64::MAX,
        }),
        EventKind::RunStarted(next_run()),
    ]
}

/// The beginning of a run that has everything of the one before.
fn next_run() -> RunStarted {
    let unread = |name: &str, id: Option<&str>| UnreadSignal {
        name: name.to_string(),
        value: json("{ \"a\":  1 }"),
        id: id.map(str::to_string),
    };
    RunStarted {
        version: 7,
        first_turn_at: Some(at(99)),
        chain: Chain {
            attempt: 3,
            began: Some(at(1)),
            first_attempt: Some(at(2)),
            previous_delay_ms: Some(200),
        },
        carried: Carried {
            kv: [("ü".to_string(), json("[1, 2]"))].into(),
            signal_ids: vec!["request-1".to_string()],
            signals: vec![unread("paid", None), unread("sent", Some("request-2"))],
        },
        lineage: Box::new(Lineage {
            copied: vec![Copied { before: Seq(6), run: 1 }],
            kept: vec![KeptKeys { from: Seq(6), before: Seq(8), activity: "ü".into(), run: 1 }],
            delayed: Some(Delayed { call: Seq(6), until: at(99) }),
        }),
        ..RunStarted::new("fulfil", json("[2]"), 7)
    }
}

fn story() -> RetryMetadata {
    let error = AttemptError {
        attempt: 1,
        error_type: "GatewayDown".to_string(),
        message: "no answer".to_string(),
        timestamp_ms: 1_700_000_000_000,
    };
    RetryMetadata {
        total_attempts: 3,
        total_duration_ms: 1_234,
        exhausted: true,
        last_error: Some(error.clone()),
        errors: vec![error],
        errors_left_out: 7,
    }
}
