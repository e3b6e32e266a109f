//! Gates on a database of many nodes: what a node does that decides about them, and one that does
//! not.

use resurgam_core::Shard;
use resurgam_store::{ByHand, GateWrite, HandState};
use resurgam_watchdog::test;

use super::remote::holder;
use super::*;

/// Somebody who is no node writes about a gate.
fn write(world: &World, gate: GateWrite) {
    let store = ModelStore::on(world.store.database());
    let step = Step { gates: vec![gate], ..Step::default() };
    at_once(store.commit([step].into())).unwrap();
}

#[test]
fn a_node_that_does_not_decide_waits_for_who_does_and_not_for_a_time_that_is_over() {
    let mut world = holder();
    world.gives(Shard(0));
    let (at, second) = (world.now, Duration::from_secs(1));
    let until = Some(at.saturating_add(5 * second));
    let hand = ByHand { state: HandState::Shut, by: "ana".to_string(), reason: None, at, until };
    write(&world, GateWrite::Hand { key: "mail".to_string(), hand });
    world.advance(2 * second);
    world.hears();
    world.clock_jumps(10 * second);
    world.settle();
    let next = world.node.next_due();
    assert!(next.is_none_or(|next| next > world.now), "{next:?} is over at {:?}", world.now);
}
