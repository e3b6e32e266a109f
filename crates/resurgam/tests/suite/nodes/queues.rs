//! Queues that not every node serves: whoever serves one runs its attempts, wherever the shard is.
//! The test has a quarter of an hour: there are real processes and a server of its own.

use resurgam_watchdog::test;

use crate::nodes::deployment::Node;
use crate::nodes::errands::QUEUE;
use crate::nodes::stage::{INSTANCES, Stage, begins};
use crate::processes::now_ms;

#[test(minutes = 15)]
fn attempts_of_a_queue_run_where_it_is_served_and_go_on_elsewhere_when_that_node_dies() {
    let mut stage = Stage::new(|node| Node { queues: serves("default"), ..node });
    stage.start(1);
    ["served", "here"].iter().for_each(|gate| stage.open(gate, 1));
    let served = stage.staying_elsewhere("served");
    let local = stage.staying("here");
    stage.results(local, 1);
    let here = stage.deployment.nodes()[0];
    assert!(begins(&stage.deployment).iter().all(|begun| begun.process == here));
    assert_eq!(begins(&stage.deployment).len(), INSTANCES as usize, "the others wait");

    stage.deployment.node.queues = serves(QUEUE);
    let since = now_ms();
    let first = stage.start(1);
    stage.until_begun("the others begin", INSTANCES, |begun| begun.process == first);
    println!(
        "all attempts begin {} ms after a node was started that serves them",
        now_ms() - since
    );
    stage.results(served, 1);

    let lost = stage.staying_elsewhere("lost");
    stage.until_begun("the next ones begin", 2 * INSTANCES, |begun| begun.process == first);
    stage.deployment.kill(first);
    let second = stage.start(1);
    stage.open("lost", 2);
    stage.results(lost, 2);
    let again = begins(&stage.deployment);
    let again = again.iter().filter(|begun| begun.process == second && begun.attempt == 2);
    assert_eq!(again.count(), INSTANCES as usize);
}

fn serves(queue: &str) -> Option<Vec<String>> {
    Some(vec![queue.to_string()])
}
