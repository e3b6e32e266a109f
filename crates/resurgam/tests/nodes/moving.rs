//! How soon work goes on after nodes come and go, and what survives that.
//!
//! What is measured is printed. Every bound is far above it, for machines that have other things to
//! do; what happens by the lapse of a lease is kept apart from what happens at once by a lease that
//! is longer than the test.

use std::thread;
use std::time::{Duration, Instant};

use crate::alone;
use crate::deployment::Node;
use crate::processes::now_ms;
use crate::stage::{Begun, INSTANCES, Stage, begins};

/// Longer than any test: nothing happens because of it.
const LONG_MS: u64 = 60_000;

#[test]
fn after_a_node_was_killed_its_work_goes_on_within_two_leases() {
    let _alone = alone();
    let mut stage = Stage::new(|node| node);
    stage.start(3);
    let _ticking = stage.ticking();
    for _ in 0..3 {
        let node = stage.deployment.nodes()[0];
        stage.begins_of_all_after(now_ms());
        let since = now_ms();
        stage.deployment.kill(node);
        let took = stage.takeover(node, since);
        println!("killed: the last of its instances goes on after {took:?}");
        assert!(took <= 2 * stage.deployment.node.lease(), "{took:?}");
        stage.start(1);
    }
}

#[test]
fn a_node_that_stops_hands_over_at_once_and_one_that_joins_gets_its_share() {
    let _alone = alone();
    let mut stage = Stage::new(|node| Node { lease_ms: LONG_MS, ..node });
    stage.start(2);
    let _ticking = stage.ticking();
    stage.begins_of_all_after(now_ms());
    let (node, since) = (stage.deployment.nodes()[0], now_ms());
    stage.deployment.stop(node);
    let took = stage.takeover(node, since);
    println!("stopped: the last of its instances goes on after {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");

    let since = now_ms();
    let joined = stage.start(1);
    let works = |begun: &Begun| (begun.process == joined).then_some(begun.at);
    let at = stage.until(|begins| begins.iter().find_map(works));
    println!("started: it works after {} ms", at - since);
    assert!(at - since < 5_000);
}

#[test]
fn attempts_go_on_while_their_shard_moves_away_and_back() {
    let _alone = alone();
    let mut stage = Stage::new(|node| Node { lease_ms: LONG_MS, grace_ms: 0, ..node });
    let first = stage.start(1);
    // Some end while another node has their shard, some when it is here again.
    let (short, long) = (stage.staying("short", 1_500), stage.staying("long", 6_000));
    stage.until(|begins| (begins.len() == 2 * INSTANCES as usize).then_some(()));
    let second = stage.start(1);
    let moved = stage.shards_of_last_node();
    assert!(moved > 100, "{moved} shards moved");
    stage.results(short);
    stage.deployment.stop(second);
    stage.wait_for(|stage| stage.shards_of_last_node() == 256);
    stage.results(long);
    let begins = begins(&stage.deployment);
    assert_eq!(begins.len(), 2 * INSTANCES as usize, "none began twice");
    assert!(begins.iter().all(|begun| begun.process == first));
    assert_eq!(stage.ask("SELECT count(*) FROM resurgam.attempt"), "0");
}

#[test]
fn a_node_that_slept_longer_than_its_lease_writes_nothing_when_it_wakes_and_then_works_again() {
    let _alone = alone();
    let mut stage = Stage::new(|node| node);
    let sleeper = stage.start(1);
    let staying = stage.staying("stay", 2_000);
    stage.until(|begins| (begins.len() == INSTANCES as usize).then_some(()));
    let since = now_ms();
    stage.deployment.pause(sleeper);
    let other = stage.start(1);
    let again = |begins: &[Begun]| begins.iter().filter(|begun| begun.attempt == 2).count();
    stage.until(|begins| (again(begins) == INSTANCES as usize).then_some(()));
    println!("paused: all attempts begin elsewhere after {} ms", now_ms() - since);
    // It wakes and its attempts end, long before the second ones.
    stage.deployment.wake(sleeper);
    for instance in staying {
        assert_eq!(stage.runtime.block_on(instance.result()).unwrap(), 2, "{}", instance.id());
    }
    let begins = begins(&stage.deployment);
    assert_eq!(begins.len(), 2 * INSTANCES as usize, "none began twice");
    let began = |attempt, process| {
        begins.iter().filter(|begun| (begun.attempt, begun.process) == (attempt, process)).count()
    };
    assert_eq!((began(1, sleeper), began(2, other)), (INSTANCES as usize, INSTANCES as usize));
    assert_eq!(stage.ask("SELECT string_agg(DISTINCT outcome, ' ') FROM resurgam.attempt"), "lost");

    let _ticking = stage.ticking();
    stage.until(|begins| begins.iter().any(|begun| begun.is_tick_of(sleeper)).then_some(()));
}

#[test]
fn an_outage_longer_than_a_lease_moves_no_shard_and_loses_no_attempt() {
    let _alone = alone();
    let mut stage = Stage::new(|node| node);
    stage.start(3);
    let owners =
        "SELECT string_agg(owner || ' ' || epoch, ', ' ORDER BY shard) FROM resurgam.shard";
    let staying = stage.staying("stay", 1_500);
    stage.until(|begins| (begins.len() == INSTANCES as usize).then_some(()));
    let before = stage.ask(owners);
    let since = Instant::now();
    stage.deployment.outage(stage.server, 3 * stage.deployment.node.lease());
    println!("an outage of {:?}", since.elapsed());
    stage.results(staying);
    println!("all results after {:?}", since.elapsed());
    // Whoever was taken for dead by mistake would be found to be so by now.
    thread::sleep(2 * stage.deployment.node.lease());
    assert_eq!(stage.ask(owners), before);
    assert_eq!(stage.ask("SELECT count(*) FROM resurgam.attempt"), "0");
    assert_eq!(begins(&stage.deployment).len(), INSTANCES as usize);
}
