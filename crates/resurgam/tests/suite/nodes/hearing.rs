//! A node hears of what other processes want. How soon it does, and how little an idle one asks, is
//! printed. Each test has a quarter of an hour: there are real processes and a server of its own.

use std::thread;
use std::time::{Duration, Instant};

use resurgam_watchdog::test;

use crate::nodes::deployment::{Listen, Node};
use crate::nodes::errands::{OPEN, awaiting, staying};
use crate::nodes::stage::Stage;
use crate::processes::{now_ms, until};

/// How often each latency is measured.
const TIMES: u32 = 3;

/// Longer than a node looks by itself, so that it is idle when something is wanted. Nothing shows
/// from outside that it is.
const IDLE: Duration = Duration::from_millis(700);

#[test(minutes = 15)]
fn a_start_and_a_signal_of_another_process_are_seen_by_who_listens() {
    measure(Listen::Here);
}

#[test(minutes = 15)]
fn and_by_who_only_looks() {
    measure(Listen::Nowhere);
}

#[test(minutes = 15)]
fn an_idle_node_makes_at_most_three_statements_a_second() {
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
    // What it does at its start is over by then. Nothing shows from outside that it is idle.
    thread::sleep(Duration::from_secs(3));
    let statements = || {
        let log = stage.server.log();
        let is_one = |line: &&str| line.contains("LOG:  execute") || line.contains("statement:");
        log.lines().filter(is_one).count()
    };
    let (before, since) = (statements(), Instant::now());
    // How often it asks can only be seen by watching for a while.
    thread::sleep(Duration::from_secs(5));
    until("an idle node shows that it is alive", || statements() > before);
    let (number, time) = (statements() - before, since.elapsed());
    println!("{number} statements in {time:?}");
    // Load on the machine only makes them fewer.
    assert!(number as u64 <= 3 * time.as_secs() + 3, "{number} statements in {time:?}");
}

/// Prints the milliseconds from the answer to a start, and to a signal, until the attempt that
/// follows it begins.
fn measure(listen: Listen) {
    let mut stage = Stage::new(|node| Node { lease_ms: 10_000, listen, ..node });
    stage.start(1);
    let (mut starts, mut signals) = (Vec::new(), Vec::new());
    for number in 0..TIMES {
        // Not always at the same moment between two looks.
        thread::sleep(IDLE + Duration::from_millis(37) * number);
        let id = format!("start-{number}");
        let start = stage.client().start(id, staying(OPEN.to_string()));
        let instance = stage.block_on(start);
        starts.push(stage.began_after(instance.uid(), now_ms()));

        let id = format!("signal-{number}");
        let instance = stage.block_on(stage.client().start(&id, awaiting()));
        thread::sleep(IDLE);
        stage.block_on(instance.signal("go", &()));
        signals.push(stage.began_after(instance.uid(), now_ms()));
    }
    println!("after a start: {starts:?} ms; after a signal: {signals:?} ms");
}
