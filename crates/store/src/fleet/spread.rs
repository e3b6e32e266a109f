//! Who should have which shards: everybody as many as everybody else.
//!
//! Pure. Every node decides for itself, from the same rows, what it takes and what it gives up. It
//! takes only what is free and gives up only what it has too much of, so no two nodes ever argue
//! about a shard, and one that changes its owner does so for a reason. When two nodes see different
//! rows, both may reach for the same free shard; the epoch lets one of them have it.

use resurgam_core::Shard;

/// What a node should do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Shards to take, which are free.
    pub take: Vec<Shard>,
    /// Shards to give up, of which it has too many.
    pub release: Vec<Shard>,
}

/// What `me` should do. `sharers` are the nodes that share the shards, of which each has an owner
/// that is alive, or none.
pub fn spread(me: &str, sharers: &[&str], owners: &[(Shard, Option<&str>)]) -> Moves {
    let mut nodes: Vec<&str> = sharers.to_vec();
    nodes.sort_unstable();
    nodes.dedup();
    let of_me = |owner: &Option<&str>| *owner == Some(me);
    let mut mine: Vec<Shard> =
        owners.iter().filter(|(_, owner)| of_me(owner)).map(|(shard, _)| *shard).collect();
    let Some(rank) = nodes.iter().position(|node| *node == me) else {
        return Moves { release: mine, take: Vec::new() };
    };
    let share = owners.len() / nodes.len() + usize::from(rank < owners.len() % nodes.len());
    if mine.len() > share {
        // Everybody gives up others. Where nodes come and go all the time, a shard that was always
        // among the first to move would hardly ever be worked on.
        let begin = (number(me) % mine.len() as u64) as usize;
        mine.rotate_left(begin);
        return Moves { release: mine[share..].to_vec(), take: Vec::new() };
    }
    let mut free: Vec<Shard> =
        owners.iter().filter(|(_, owner)| owner.is_none()).map(|(shard, _)| *shard).collect();
    if !free.is_empty() {
        // Everybody begins somewhere else, so that few reach for the same one.
        let begin = rank * free.len() / nodes.len();
        free.rotate_left(begin);
    }
    free.truncate(share - mine.len());
    Moves { take: free, release: Vec::new() }
}

/// A number that is another one for nearly every name.
fn number(name: &str) -> u64 {
    name.bytes().fold(0, |number: u64, byte| number.wrapping_mul(31).wrapping_add(byte.into()))
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;
    use std::collections::BTreeMap;

    use super::*;

    /// A deployment in which every node moves in turn until nobody moves any more.
    struct Deployment {
        owners: Vec<Option<&'static str>>,
        moved: usize,
    }

    impl Deployment {
        fn new() -> Self {
            Deployment { owners: vec![None; 256], moved: 0 }
        }

        /// The live nodes settle; how many shards each has, and how many changed hands.
        fn settle(&mut self, live: &[&'static str]) -> (BTreeMap<&'static str, usize>, usize) {
            self.moved = 0;
            for _ in 0..4 {
                live.iter().for_each(|node| self.turn(node, live));
            }
            let mut counts = BTreeMap::new();
            for owner in self.owners.iter().flatten() {
                *counts.entry(*owner).or_default() += 1;
            }
            (counts, self.moved)
        }

        fn turn(&mut self, me: &'static str, live: &[&'static str]) {
            let is_alive = |owner: Option<&'static str>| owner.filter(|node| live.contains(node));
            let owners: Vec<(Shard, Option<&str>)> =
                Shard::all().zip(self.owners.iter().map(|owner| is_alive(*owner))).collect();
            let moves = spread(me, live, &owners);
            for shard in moves.release {
                self.owners[usize::from(shard.0)] = None;
            }
            for shard in moves.take {
                self.owners[usize::from(shard.0)] = Some(me);
                self.moved += 1;
            }
        }
    }

    #[test]
    fn shards_are_spread_evenly_while_nodes_join_leave_and_die() {
        let mut all = Deployment::new();
        assert_eq!(all.settle(&["a"]), (BTreeMap::from([("a", 256)]), 256));
        assert_eq!(all.settle(&["a"]).1, 0);
        // Only what the new one gets moves.
        let two = BTreeMap::from([("a", 128), ("b", 128)]);
        assert_eq!(all.settle(&["a", "b"]), (two.clone(), 128));
        let three = BTreeMap::from([("a", 86), ("b", 85), ("c", 85)]);
        assert_eq!(all.settle(&["c", "a", "b"]), (three, 85));
        // One dies: its shards move, and one more for the even share.
        let (counts, moved) = all.settle(&["b", "c"]);
        assert_eq!(counts, BTreeMap::from([("b", 128), ("c", 128)]));
        assert_eq!(moved, 86);
        // Another name, another order, nothing to do.
        assert_eq!(all.settle(&["c", "b"]).1, 0);
    }

    #[test]
    fn more_nodes_than_shards_is_fine_and_some_have_none() {
        let owners = [(Shard(0), Some("a")), (Shard(1), None)];
        let live = ["a", "b", "c"];
        assert_eq!(spread("a", &live, &owners), Moves::default());
        assert_eq!(spread("b", &live, &owners).take, [Shard(1)]);
        assert_eq!(spread("c", &live, &owners), Moves::default());
    }

    #[test]
    fn no_shard_is_always_the_one_that_moves() {
        let mut moved: BTreeMap<Shard, usize> = BTreeMap::new();
        for number in 0..100 {
            let (me, other) = (format!("node-{number}"), "other");
            let owners: Vec<_> = Shard::all().map(|shard| (shard, Some(me.as_str()))).collect();
            for shard in spread(&me, &[&me, other], &owners).release {
                *moved.entry(shard).or_default() += 1;
            }
        }
        assert!(moved.len() == 256 && moved.values().all(|times| (20..80).contains(times)));
    }

    #[test]
    fn a_node_that_is_not_among_those_that_share_takes_nothing_and_gives_up_what_it_has() {
        let owners = [(Shard(0), None), (Shard(1), Some("x")), (Shard(2), Some("a"))];
        let moves = spread("x", &["a"], &owners);
        assert_eq!(moves, Moves { take: Vec::new(), release: vec![Shard(1)] });
        // What is not given up yet is not free.
        assert_eq!(spread("a", &["a"], &owners).take, [Shard(0)]);
    }
}
