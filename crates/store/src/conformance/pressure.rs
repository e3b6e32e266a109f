//! What is counted of attempts adds up, is read by time and activity, and goes when it is old.

use super::fixtures::*;

use crate::{PressureCounts, PressureRange, PressureRow, Store};

const MINUTE: i64 = 60_000;

/// What was counted in a minute: this many of everything, each a little different.
fn counted(minute: i64, activity: &str, failure_type: &str, number: u64) -> PressureRow {
    let counts = PressureCounts {
        failures: number,
        retries: number + 1,
        exhausted: number + 2,
        successes: number + 3,
    };
    let (activity, failure_type) = (activity.to_string(), failure_type.to_string());
    PressureRow { at: at(minute * MINUTE), activity, failure_type, counts }
}

async fn add(store: &dyn Store, rows: &[PressureRow], forget_before: i64) {
    store.add_pressure(rows.into(), at(forget_before)).await.unwrap();
}

fn everything() -> PressureRange {
    let (from, to) = (at(0), at(i64::MAX));
    PressureRange { from, to, step_minutes: 1, activity: None, limit: 100 }
}

pub async fn what_is_counted_of_the_same_adds_up(store: &dyn Store) {
    add(store, &[], 0).await;
    assert_eq!(store.pressure(everything()).await.unwrap(), []);
    let (failed, succeeded) = (counted(5, "chärge", "Bank\"Down'", 2), counted(5, "chärge", "", 0));
    add(store, &[failed.clone(), succeeded.clone()], 0).await;
    add(store, std::slice::from_ref(&failed), 0).await;
    let mut both = failed.clone();
    both.counts.add(failed.counts);
    assert_eq!(store.pressure(everything()).await.unwrap(), [succeeded, both]);
}

pub async fn counts_are_read_by_time_and_activity_and_added_up_to_steps(store: &dyn Store) {
    let rows = [
        counted(4, "charge", "", 1),
        counted(5, "charge", "Busy", 1),
        counted(6, "charge", "Busy", 10),
        counted(9, "ship", "Busy", 1),
        counted(10, "charge", "Busy", 1),
    ];
    add(store, &rows, 0).await;
    let range = |from: i64, to: i64| PressureRange {
        from: at(from * MINUTE),
        to: at(to * MINUTE),
        ..everything()
    };
    let of_time = store.pressure(range(5, 10)).await.unwrap();
    assert_eq!(of_time, rows[1..4]);
    let of_ship = PressureRange { activity: Some("ship".to_string()), ..everything() };
    assert_eq!(store.pressure(of_ship).await.unwrap(), rows[3..4]);
    let in_steps = PressureRange { step_minutes: 5, ..range(4, 10) };
    let mut busy = rows[1].clone();
    busy.counts.add(rows[2].counts);
    let ship = PressureRow { at: at(5 * MINUTE), ..rows[3].clone() };
    let first = PressureRow { at: at(0), ..rows[0].clone() };
    assert_eq!(store.pressure(in_steps.clone()).await.unwrap(), [first.clone(), busy, ship]);
    let first_only = PressureRange { limit: 1, ..in_steps };
    assert_eq!(store.pressure(first_only).await.unwrap(), [first]);
}

pub async fn counts_that_are_old_go_with_the_next_ones(store: &dyn Store) {
    let (old, kept) = (counted(4, "charge", "", 1), counted(5, "charge", "", 1));
    add(store, &[old, kept.clone()], 0).await;
    let new = counted(6, "charge", "", 1);
    add(store, std::slice::from_ref(&new), 5 * MINUTE).await;
    assert_eq!(store.pressure(everything()).await.unwrap(), [kept, new]);
}
