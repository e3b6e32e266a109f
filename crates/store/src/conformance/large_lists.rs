//! How long lists take where there are many instances. No promise: tests that are ignored print it
//! (`cargo test --release -p resurgam-store-sqlite -p resurgam-store-postgres --test suite --
//! --ignored --nocapture large_lists`).

use std::time::{Duration, Instant};

use super::fixtures::*;

use crate::rows::{InstanceCursor, InstanceFilter, InstanceRow, Status};
use crate::{Step, Store};

/// How many instances are written at a time.
const BATCH: u128 = 1_000;

/// How often each list is read; the middle counts.
const TIMES: usize = 9;

/// A list, how many rows it has, and how long it took to read it.
#[derive(Clone, Debug)]
pub struct Listed {
    pub list: String,
    pub rows: usize,
    pub took: Duration,
}

/// One instance in a thousand is of a workflow of its own, and one in four hundred has a call that
/// waits to be tried again; one in five hundred has failed.
fn begun(number: u128, retrying_every: u128) -> Vec<Step> {
    let id = format!("{}/{number:07}", if number % 100 == 7 { "refund" } else { "order" });
    let workflow = if number.is_multiple_of(1_000) { "refund" } else { "fulfil" };
    let row = InstanceRow { workflow: workflow.to_string(), ..instance(number, &id) };
    let begin = start_of(row);
    match number {
        _ if number % 500 == 3 => vec![begin, set_status(number, Status::Failed)],
        _ if number.is_multiple_of(retrying_every) => {
            let mut task = task(call(number, 2));
            (task.attempt, task.wake_at) = (1, at(9_000_000_000_000));
            vec![begin.insert(task)]
        }
        _ => vec![begin],
    }
}

/// Writes so many instances, and reads the first page of each list, and one far behind it. Between
/// the two the database may do what it does in the background, such as counting what there is.
pub async fn times(
    store: &dyn Store,
    instances: u128,
    retrying_every: u128,
    settle: impl AsyncFnOnce(),
) -> Vec<Listed> {
    let numbers: Vec<u128> = (1..=instances).collect();
    for batch in numbers.chunks(BATCH as usize) {
        let steps: Vec<Step> =
            batch.iter().flat_map(|number| begun(*number, retrying_every)).collect();
        write(store, steps).await;
    }
    settle().await;
    let everything = InstanceFilter { limit: 101, ..InstanceFilter::default() };
    let of = |workflow: &str| InstanceFilter {
        workflow: Some(workflow.to_string()),
        ..everything.clone()
    };
    let failed = |filter: InstanceFilter| InstanceFilter { status: vec![Status::Failed], ..filter };
    let retrying = InstanceFilter { retrying: true, ..everything.clone() };
    let middle = InstanceRow { uid: uid(instances / 2), ..instance(instances / 2, "") };
    let behind = |filter: &InstanceFilter| InstanceFilter {
        after: Some(InstanceCursor::of(&middle)),
        ..filter.clone()
    };
    let lists = [
        ("everything", everything.clone()),
        ("of a workflow with many", of("fulfil")),
        ("of a workflow with few", of("refund")),
        ("of a workflow with few, in the middle", behind(&of("refund"))),
        ("of a workflow with many, failed", failed(of("fulfil"))),
        ("retrying", retrying.clone()),
        ("retrying, in the middle", behind(&retrying)),
        ("retrying, of a workflow with few", InstanceFilter { retrying: true, ..of("refund") }),
    ];
    let mut listed = Vec::new();
    for (list, filter) in lists {
        let read = async || store.list(filter.clone()).await.unwrap();
        listed.push(measured(list, read).await);
    }
    for prefix in ["order/", "refund/", "refund/00"] {
        let read = async || store.with_prefix(prefix, None, 101).await.unwrap();
        listed.push(measured(&format!("ids that begin with {prefix}"), read).await);
    }
    let read = async || store.with_prefix("order/", Some("order/0100000"), 101).await.unwrap();
    listed.push(measured("ids that begin with order/, in the middle", read).await);
    listed
}

async fn measured(list: &str, read: impl AsyncFn() -> Vec<InstanceRow>) -> Listed {
    let (mut took, mut rows) = (Vec::new(), 0);
    for _ in 0..TIMES {
        let began = Instant::now();
        rows = read().await.len();
        took.push(began.elapsed());
    }
    took.sort();
    Listed { list: list.to_string(), rows, took: took[TIMES / 2] }
}

/// A line for each.
pub fn table(listed: &[Listed]) -> String {
    let line = |Listed { list, rows, took }: &Listed| format!("{took:>10.1?} {rows:>4} {list}\n");
    listed.iter().map(line).collect()
}
