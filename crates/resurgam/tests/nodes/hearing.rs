//! How soon a node hears of what other processes want, and how little an idle one asks.

use std::thread;
use std::time::Duration;

use crate::alone;
use crate::deployment::{Listen, Node};
use crate::errands::{awaiting, staying};
use crate::processes::now_ms;
use crate::stage::Stage;

/// How often each latency is measured.
const TIMES: u32 = 12;

/// Longer than a node looks by itself, so that it is idle when something is wanted.
const IDLE: Duration = Duration::from_millis(700);

#[test]
fn a_start_and_a_signal_of_another_process_are_seen_within_50_ms_by_who_listens() {
    let _alone = alone();
    let (starts, signals) = latencies(Listen::Here);
    assert!(nearly_all(&starts) < 50, "{starts:?}");
    assert!(nearly_all(&signals) < 50, "{signals:?}");
}

#[test]
fn and_within_500_ms_by_who_only_looks() {
    let _alone = alone();
    let (starts, signals) = latencies(Listen::Nowhere);
    assert!(nearly_all(&starts) < 500, "{starts:?}");
    assert!(nearly_all(&signals) < 500, "{signals:?}");
}

#[test]
fn an_idle_node_makes_at_most_three_statements_a_second() {
    let _alone = alone();
    let default_lease = 10_000;
    let mut stage = Stage::new(|node| Node { lease_ms: default_lease, ..node });
    stage.runtime.block_on(async {
        stage.server.run("ALTER SYSTEM SET log_statement = 'all'").await;
        stage.server.run("SELECT pg_reload_conf()").await;
    });
    // A client looks as often as a node does.
    let client = stage.client.take();
    drop(client);
    stage.start(1);
    thread::sleep(Duration::from_secs(3));
    let statements = || {
        let log = stage.server.log();
        let is_one = |line: &&str| line.contains("LOG:  execute") || line.contains("statement:");
        log.lines().filter(is_one).count()
    };
    let (before, time) = (statements(), Duration::from_secs(10));
    thread::sleep(time);
    let made = statements() - before;
    println!("{made} statements in {time:?}");
    assert!(made > 0, "the server logs them");
    assert!(made <= 3 * 10, "{made} statements in {time:?}");
}

/// The milliseconds from the answer to a start, and to a signal, until the attempt that follows it
/// begins.
fn latencies(listen: Listen) -> (Vec<i64>, Vec<i64>) {
    let mut stage = Stage::new(|node| Node { lease_ms: 10_000, listen, ..node });
    stage.start(1);
    let (mut starts, mut signals) = (Vec::new(), Vec::new());
    for number in 0..TIMES {
        // Not always at the same moment between two looks.
        thread::sleep(IDLE + Duration::from_millis(37) * number);
        let id = format!("start-{number}");
        let instance = stage.block_on(stage.client().start(id, staying(0)));
        starts.push(stage.began_after(instance.uid(), now_ms()));

        let id = format!("signal-{number}");
        let instance = stage.block_on(stage.client().start(&id, awaiting()));
        thread::sleep(IDLE);
        stage.block_on(instance.signal("go", &()));
        signals.push(stage.began_after(instance.uid(), now_ms()));
    }
    println!("after a start: {starts:?} ms; after a signal: {signals:?} ms");
    (starts, signals)
}

/// What nearly all of them are not above: a busy machine may be late now and then.
fn nearly_all(millis: &[i64]) -> i64 {
    let mut sorted = millis.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() - 3]
}
