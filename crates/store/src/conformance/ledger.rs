//! The ledger keeps how attempts ended, in order, and does not grow without end.

use std::time::Duration;

use resurgam_core::Failure;

use super::fixtures::*;
use crate::rows::{AttemptOutcome, AttemptRow};
use crate::{Step, Store};

/// No call has more rows than this.
const BOUND: usize = 1_000;

pub async fn attempts_come_back_as_they_were(store: &dyn Store) {
    let failure = Failure::snooze(Duration::from_millis(7))
        .with_details(serde_json::json!({"text": "ü'\""}))
        .caused_by(Failure::of_type("Quota", "used\nup"));
    let rows: Vec<AttemptRow> = (1..)
        .zip(AttemptOutcome::ALL)
        .map(|(attempt, outcome)| AttemptRow { outcome, ..failed_attempt(call(1, 2), attempt) })
        .chain([
            AttemptRow {
                failure: Some(failure),
                delay_ms: Some(0),
                ..failed_attempt(call(1, 2), 7)
            },
            AttemptRow { failure: None, delay_ms: None, ..failed_attempt(call(1, 2), 8) },
        ])
        .collect();
    let step = rows.iter().fold(start(1, "order-1"), |step, row| step.attempt(row.clone()));
    write(store, [step]).await;
    assert_eq!(store.attempts(run(1)).await.unwrap(), rows);
}

pub async fn attempts_come_in_the_order_of_their_end(store: &dyn Store) {
    let ended = |seq, attempt, ended_at| AttemptRow {
        ended_at: at(ended_at),
        ..failed_attempt(call(1, seq), attempt)
    };
    let turn = start(1, "order-1")
        .attempt(ended(2, 1, 30))
        .attempt(ended(3, 1, 10))
        .attempt(ended(3, 2, 30))
        .attempt(ended(2, 2, 40));
    write(store, [turn, start(2, "order-2").attempt(failed_attempt(call(2, 2), 1))]).await;
    let found = store.attempts(run(1)).await.unwrap();
    let found: Vec<_> = found.iter().map(|row| (row.call.seq.0, row.attempt)).collect();
    assert_eq!(found, [(3, 1), (2, 1), (3, 2), (2, 2)]);
}

pub async fn a_ledger_is_bounded_and_keeps_both_ends(store: &dyn Store) {
    write(store, [start(1, "order-1").attempt(failed_attempt(call(1, 3), 1))]).await;
    let last = u32::try_from(BOUND).unwrap() + 500;
    let steps: Vec<Step> =
        (1..=last).map(|attempt| step().attempt(failed_attempt(call(1, 2), attempt))).collect();
    for batch in steps.chunks(100) {
        write(store, batch).await;
    }
    let rows = store.attempts(run(1)).await.unwrap();
    let of_call = rows.iter().filter(|row| row.call == call(1, 2));
    let attempts: Vec<u32> = of_call.map(|row| row.attempt).collect();
    assert!(attempts.len() <= BOUND, "{} rows", attempts.len());
    assert!(attempts.is_sorted());
    assert_eq!(attempts[..10], (1..=10).collect::<Vec<u32>>());
    assert_eq!(attempts[attempts.len() - 100..], (last - 99..=last).collect::<Vec<u32>>());
    // Another call of the run has a ledger of its own.
    assert!(rows.iter().any(|row| row.call == call(1, 3)));
}

pub async fn the_ledger_outlives_its_task(store: &dyn Store) {
    let turn = start(1, "order-1").insert(task(call(1, 2)));
    write(store, [turn.attempt(failed_attempt(call(1, 2), 1))]).await;
    write(store, [step().delete(call(1, 2)).attempt(failed_attempt(call(1, 2), 2))]).await;
    assert_eq!(store.attempts(run(1)).await.unwrap().len(), 2);
}
