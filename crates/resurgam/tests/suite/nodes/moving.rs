//! Work goes on after nodes come and go, and what survives that.
//!
//! How soon it does is printed. What happens by the lapse of a lease is kept apart from what does
//! not: there the lease is one that nobody waits for. Each test has a quarter of an hour: there are
//! real processes and a server of its own.

use std::thread;
use std::time::Instant;

use resurgam_watchdog::test;

use crate::nodes::deployment::Node;
use crate::nodes::stage::{Begun, INSTANCES, Stage, begins};
use crate::processes::now_ms;

/// Longer than anybody waits for anything: nothing happens because of it.
const LONG_MS: u64 = 600_000;

#[test(minutes = 15)]
fn after_a_node_was_killed_its_work_goes_on_elsewhere() {
    let mut stage = Stage::new(|node| node);
    stage.start(3);
    let _ticking = stage.ticking();
    for _ in 0..2 {
        stage.begins_of_all_after(now_ms());
        let (node, since) = (stage.busiest(), now_ms());
        stage.deployment.kill(node);
        let took = stage.takeover(node, since);
        println!("killed: the last of its instances goes on after {took:?}");
        stage.start(1);
    }
}

#[test(minutes = 15)]
fn a_node_that_stops_hands_over_at_once_and_one_that_joins_gets_its_share() {
    let mut stage = Stage::new(|node| Node { lease_ms: LONG_MS, ..node });
    stage.start(2);
    let _ticking = stage.ticking();
    stage.begins_of_all_after(now_ms());
    let (node, since) = (stage.busiest(), now_ms());
    stage.deployment.stop(node);
    // Nobody waits for its lease to lapse: that takes longer than this waits.
    let took = stage.takeover(node, since);
    println!("stopped: the last of its instances goes on after {took:?}");

    let since = now_ms();
    let joined = stage.start(1);
    let works = |begun: &Begun| (begun.process == joined).then_some(begun.at);
    let at = stage.until("the one that joined works", |begins| begins.iter().find_map(works));
    println!("started: it works after {} ms", at - since);
}

#[test(minutes = 15)]
fn attempts_go_on_while_their_shard_moves_away_and_back() {
    let mut stage = Stage::new(|node| Node { lease_ms: LONG_MS, grace_ms: 0, ..node });
    let first = stage.start(1);
    // Some end while another node has their shard, some when it is here again.
    let (short, long) = (stage.staying("short"), stage.staying("long"));
    stage.until_begun("all attempts begin", 2 * INSTANCES, |_| true);
    let second = stage.start(1);
    let moved = stage.shards_of_last_node();
    assert!(moved > 100, "{moved} shards moved");
    stage.open("short", 1);
    stage.results(short, 1);
    stage.deployment.stop(second);
    stage.wait_for("all shards are back", |stage| stage.shards_of_last_node() == 256);
    stage.open("long", 1);
    stage.results(long, 1);
    let begins = begins(&stage.deployment);
    assert_eq!(begins.len(), 2 * INSTANCES as usize, "none began twice");
    assert!(begins.iter().all(|begun| begun.process == first));
    assert_eq!(stage.ask("SELECT count(*) FROM resurgam.attempt"), "0");
}

#[test(minutes = 15)]
fn a_node_that_slept_longer_than_its_lease_writes_nothing_when_it_wakes_and_then_works_again() {
    let mut stage = Stage::new(|node| node);
    let sleeper = stage.start(1);
    let staying = stage.staying("stay");
    stage.until_begun("all attempts begin", INSTANCES, |_| true);
    let since = now_ms();
    stage.deployment.pause(sleeper);
    let other = stage.start(1);
    stage.until_begun("all begin again", INSTANCES, |begun| begun.attempt == 2);
    println!("paused: all attempts begin elsewhere after {} ms", now_ms() - since);
    // It wakes and its attempts end, before the second ones do.
    stage.open("stay", 1);
    stage.deployment.wake(sleeper);
    let _ticking = stage.ticking();
    stage.until("the one that slept works again", |begins| {
        begins.iter().any(|begun| begun.is_tick_of(sleeper)).then_some(())
    });
    stage.open("stay", 2);
    stage.results(staying, 2);
    let mut begins = begins(&stage.deployment);
    begins.retain(|begun| begun.activity == "stay");
    assert_eq!(begins.len(), 2 * INSTANCES as usize, "none began twice");
    let began = |attempt, process| {
        begins.iter().filter(|begun| (begun.attempt, begun.process) == (attempt, process)).count()
    };
    assert_eq!((began(1, sleeper), began(2, other)), (INSTANCES as usize, INSTANCES as usize));
    let outcomes =
        "SELECT string_agg(DISTINCT outcome, ' ') FROM resurgam.attempt WHERE name = 'stay'";
    assert_eq!(stage.ask(outcomes), "lost");
}

#[test(minutes = 15)]
fn an_outage_longer_than_a_lease_moves_no_shard_and_loses_no_attempt() {
    let mut stage = Stage::new(|node| node);
    stage.start(3);
    let lease = stage.deployment.node.lease();
    let owners =
        "SELECT string_agg(owner || ' ' || epoch, ', ' ORDER BY shard) FROM resurgam.shard";
    let staying = stage.staying("stay");
    stage.until_begun("all attempts begin", INSTANCES, |_| true);
    let before = stage.ask(owners);
    let since = Instant::now();
    stage.deployment.outage_while(stage.server, || {
        // The attempts end meanwhile. The time is the damage: there is nothing to wait for.
        stage.open("stay", 1);
        thread::sleep(lease * 3 / 2);
    });
    println!("an outage of {:?}", since.elapsed());
    stage.results(staying, 1);
    println!("all results after {:?}", since.elapsed());
    // Whoever was taken for dead by mistake would be found to be so by now. That nobody is can only
    // be seen by waiting for a while.
    thread::sleep(lease * 5 / 4);
    assert_eq!(stage.ask(owners), before);
    assert_eq!(stage.ask("SELECT count(*) FROM resurgam.attempt"), "0");
    assert_eq!(begins(&stage.deployment).len(), INSTANCES as usize);
}
