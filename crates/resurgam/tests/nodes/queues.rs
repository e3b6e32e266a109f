//! Queues that not every node serves: whoever serves one runs its attempts, wherever the shard is.

use crate::alone;
use crate::deployment::Node;
use crate::errands::QUEUE;
use crate::processes::now_ms;
use crate::stage::{INSTANCES, Stage, begins};

#[test]
fn attempts_of_a_queue_run_where_it_is_served_and_go_on_elsewhere_when_that_node_dies() {
    let _alone = alone();
    let mut stage = Stage::new(|node| Node { queues: serves("default"), ..node });
    stage.start(1);
    let served = stage.staying_elsewhere("served", 500);
    let local = stage.staying("here", 0);
    stage.results(local);
    let here = stage.deployment.nodes()[0];
    assert!(begins(&stage.deployment).iter().all(|begun| begun.process == here));
    assert_eq!(begins(&stage.deployment).len(), INSTANCES as usize, "the others wait");

    stage.deployment.node.queues = serves(QUEUE);
    let since = now_ms();
    let first = stage.start(1);
    stage.until(|begins| {
        let there = begins.iter().filter(|begun| begun.process == first).count();
        (there == INSTANCES as usize).then_some(())
    });
    println!(
        "all attempts begin {} ms after a node was started that serves them",
        now_ms() - since
    );
    stage.results(served);

    let lost = stage.staying_elsewhere("lost", 3_000);
    stage.until(|begins| {
        let there = begins.iter().filter(|begun| begun.process == first).count();
        (there == 2 * INSTANCES as usize).then_some(())
    });
    stage.deployment.kill(first);
    let second = stage.start(1);
    for instance in lost {
        assert_eq!(stage.block_on(instance.result()), 2, "{}", instance.id());
    }
    let again = begins(&stage.deployment);
    let again = again.iter().filter(|begun| begun.process == second && begun.attempt == 2);
    assert_eq!(again.count(), INSTANCES as usize);
}

fn serves(queue: &str) -> Option<Vec<String>> {
    Some(vec![queue.to_string()])
}
