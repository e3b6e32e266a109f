//! Gates that three nodes share: what a gate allows, all begin together, also when the node dies
//! that decides and when shards move. Each test has a quarter of an hour: there are real processes
//! and a server of its own.

use std::collections::BTreeSet;

use resurgam::gate::{Gate, Rate};
use resurgam_watchdog::test;

use crate::nodes::errands::OPEN;
use crate::nodes::stage::{INSTANCES, Stage, begins};
use crate::processes::journal::{self, What};
use crate::processes::now_ms;

/// The gate of the calls that stay.
const GATE: &str = "stay";

/// How many attempts run at once, behind the gate.
const MOST: u32 = 6;

/// The process that decides about gates.
fn decider(stage: &Stage) -> u32 {
    let pid = stage.ask(
        "SELECT n.pid FROM resurgam.shard s JOIN resurgam.node n ON n.node = s.owner \
         WHERE s.shard = 0",
    );
    stage.deployment.process_of(pid.parse().unwrap())
}

/// The most attempts that ran at once, those of a process that was killed until it was.
fn most_at_once(stage: &Stage, killed: Option<u32>) -> usize {
    let (mut running, mut most) = (BTreeSet::new(), 0);
    for entry in journal::read(&stage.deployment.ground.journal()) {
        match entry.what {
            What::Begin { key, attempt, .. } => {
                running.insert((entry.process, key, attempt));
            }
            What::End { key, attempt, .. } => {
                running.remove(&(entry.process, key, attempt));
            }
            What::Damage { .. } => running.retain(|(process, _, _)| Some(*process) != killed),
            _ => {}
        }
        most = most.max(running.len());
    }
    most
}

#[test(minutes = 15)]
fn what_may_run_at_once_holds_for_three_nodes_and_goes_on_when_the_one_dies_that_decides() {
    let mut stage = Stage::new(|node| node);
    // Nodes that are there already would follow within two seconds.
    stage.block_on(stage.client().set_gate(GATE, Gate::new().concurrency(MOST)));
    stage.start(3);
    let staying = stage.staying("hold");
    stage.until_begun("as many as the gate allows begin", MOST, |begun| begun.attempt == 1);
    let killed = decider(&stage);
    stage.deployment.kill(killed);
    for attempt in 1..4 {
        stage.open("hold", attempt);
    }
    for instance in staying {
        stage.block_on(async { instance.result().await });
    }
    assert_eq!(most_at_once(&stage, Some(killed)), MOST as usize);
}

#[test(minutes = 15)]
fn a_rate_holds_for_three_nodes_also_while_shards_move() {
    let (per_second, burst) = (8.0, 3);
    let mut stage = Stage::new(|node| node);
    let rate = Rate::per_second(per_second).burst(burst);
    stage.block_on(stage.client().set_gate(GATE, Gate::new().rate(rate)));
    stage.start(2);
    let staying = stage.staying(OPEN);
    // It takes its part of the shards, and of the rate.
    stage.start(1);
    let more = stage.staying("more");
    stage.open("more", 1);
    stage.results(staying, 1);
    stage.results(more, 1);
    let times = stage.ask(
        "SELECT string_agg(substring(head from '\"started_at\":([0-9]+)'), ' ') \
         FROM resurgam.event WHERE kind = 'ActivityCompleted'",
    );
    let mut times: Vec<i64> = times.split(' ').map(|at| at.parse().unwrap()).collect();
    times.sort_unstable();
    assert_eq!(times.len(), 2 * INSTANCES as usize);
    for (first, from) in times.iter().enumerate() {
        for (last, until) in times.iter().enumerate().skip(first) {
            let time = (until - from) as f64 / 1_000.0;
            let count = (last - first + 1) as f64;
            // The clocks of nodes differ by a little.
            let allowed = (time + 0.25) * per_second + f64::from(burst);
            assert!(count <= allowed, "{count} begin in {time} s");
        }
    }
    let nodes: BTreeSet<u32> = begins(&stage.deployment).iter().map(|it| it.process).collect();
    assert!(nodes.len() >= 2, "{nodes:?} begin attempts");
}

/// Waits until all calls that tick have been due for a second and nobody has begun one.
fn until_all_are_held_back(stage: &Stage) {
    let held = "SELECT count(*) FROM resurgam.task WHERE name = 'tick' AND claimed_by IS NULL \
                AND wake_at + 1000 < extract(epoch FROM clock_timestamp()) * 1000";
    stage.wait_for("all nodes hold back what is due", |stage| {
        stage.ask(held) == INSTANCES.to_string()
    });
}

/// Waits until every call is seen at work on the three nodes again.
fn until_all_go_on(stage: &Stage) {
    let first = stage.begins_of_all_after(now_ms());
    let nodes: BTreeSet<u32> = first.values().map(|begun| begun.process).collect();
    assert_eq!(nodes.len(), 3, "{nodes:?}");
}

#[test(minutes = 15)]
fn what_is_paused_or_shut_at_one_place_is_held_back_by_all_nodes_and_goes_on_at_all_of_them() {
    let mut stage = Stage::new(|node| node);
    stage.start(3);
    let _ticking = stage.ticking();
    until_all_go_on(&stage);
    stage.block_on(stage.client().pause_activity("tick").by("ana"));
    until_all_are_held_back(&stage);
    stage.block_on(stage.client().resume_activity("tick"));
    until_all_go_on(&stage);
    stage.block_on(stage.client().shut_gate("tick").by("ana"));
    until_all_are_held_back(&stage);
    stage.block_on(stage.client().auto_gate("tick"));
    until_all_go_on(&stage);
}
