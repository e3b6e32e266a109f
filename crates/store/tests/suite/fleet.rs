//! Many nodes that decide for themselves, on rows that only they change.

use std::collections::BTreeMap;
use std::time::Duration;

use resurgam_core::{Shard, Timestamp};
use resurgam_store::Assignment;
use resurgam_store::fleet::{Beat, Fence, Membership, NodeRow, Observation, ShardRow, View};
use resurgam_watchdog::test;

const LEASE: Duration = Duration::from_secs(9);

/// The rows, as a database keeps them.
struct Rows {
    nodes: BTreeMap<String, NodeRow>,
    shards: Vec<ShardRow>,
}

impl Rows {
    fn new() -> Self {
        let shards = Shard::all().map(|shard| ShardRow { shard, owner: None, epoch: 0 });
        Rows { nodes: BTreeMap::new(), shards: shards.collect() }
    }

    fn view(&self) -> View {
        View {
            now: Timestamp::EPOCH,
            leaves_tasks: false,
            nodes: self.nodes.values().cloned().collect(),
            shards: self.shards.clone(),
        }
    }

    fn join(&mut self, name: &str) {
        let (node, program, started_at) = (name.to_string(), String::new(), Timestamp::EPOCH);
        let row = NodeRow { node, beat: 0, pid: 1, program, started_at, workflows: None };
        self.nodes.insert(name.to_string(), row);
    }

    /// Raises a beat; false when there is no such node.
    fn beat(&mut self, node: &str) -> bool {
        let row = self.nodes.get_mut(node);
        row.map(|row| row.beat += 1).is_some()
    }

    fn take(&mut self, node: &str, shards: &[Shard]) -> Vec<(Shard, i64)> {
        let Rows { nodes, shards: rows } = self;
        let is_free = |row: &&mut ShardRow| {
            let owner = row.owner.as_deref();
            let other = owner.filter(|owner| *owner != node && nodes.contains_key(*owner));
            shards.contains(&row.shard) && other.is_none() && nodes.contains_key(node)
        };
        let take = |row: &mut ShardRow| {
            row.owner = Some(node.to_string());
            row.epoch += 1;
            (row.shard, row.epoch)
        };
        rows.iter_mut().filter(is_free).map(take).collect()
    }

    fn release(&mut self, node: &str, shards: &[Shard]) {
        for row in self.shards.iter_mut().filter(|row| shards.contains(&row.shard)) {
            row.owner.take_if(|owner| owner == node);
        }
    }

    /// Removes a node, unless it has beaten since it was seen.
    fn bury(&mut self, dead: &NodeRow) {
        if self.nodes.get(&dead.node).is_some_and(|row| row.beat == dead.beat) {
            self.nodes.remove(&dead.node);
            self.release(&dead.node, &Shard::all().collect::<Vec<_>>());
        }
    }
}

/// A process with a node in it.
struct Process {
    membership: Membership,
    fence: Fence,
    /// When it beats next; never while it is asleep.
    next: Option<Duration>,
    overtaken: bool,
}

/// Nodes on a database that is slow now and then.
struct Fleet {
    rows: Rows,
    processes: BTreeMap<&'static str, Process>,
    now: Duration,
    asked: u32,
    buried: Vec<String>,
}

impl Fleet {
    fn new() -> Self {
        let (rows, processes) = (Rows::new(), BTreeMap::new());
        Fleet { rows, processes, now: Duration::ZERO, asked: 0, buried: Vec::new() }
    }

    /// How long the next statement takes, at most a sixth of a lease.
    fn latency(&mut self) -> Duration {
        self.asked += 1;
        Duration::from_millis(u64::from(self.asked * self.asked % 15) * 100)
    }

    fn join(&mut self, name: &'static str) {
        self.rows.join(name);
        let (asked, view) = (self.now, self.rows.view());
        let answered = asked + self.latency();
        let mut membership = Membership::new(LEASE);
        let found = Observation { asked, answered, beaten: true, view: &view };
        let take = membership.joined(name, found);
        let fence = Fence::new(name, self.rows.take(name, &take));
        let next = Some(answered + membership.next_beat(answered));
        self.processes.insert(name, Process { membership, fence, next, overtaken: false });
    }

    /// Everybody beats and does what it should, for so long.
    fn run(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            let next = self.processes.iter().filter_map(|(name, process)| {
                let next = process.next.filter(|next| *next < until)?;
                Some((next, *name))
            });
            let Some((next, name)) = next.min() else { break };
            self.now = self.now.max(next);
            self.beat(name);
        }
        self.now = until;
    }

    fn beat(&mut self, name: &'static str) {
        let (asked, beaten) = (self.now, self.rows.beat(name));
        let view = self.rows.view();
        let answered = asked + self.latency();
        let process = self.processes.get_mut(name).unwrap();
        let found = Observation { asked, answered, beaten, view: &view };
        match process.membership.beaten(&process.fence, found) {
            Beat::Alive { dead, stray } => {
                self.rows.release(name, &stray);
                self.follow(name, answered, &dead);
            }
            Beat::Overtaken => (process.next, process.overtaken) = (None, true),
            Beat::Over => panic!("{name} has not left"),
        }
    }

    /// Takes and gives up what the node should, and removes who is dead.
    fn follow(&mut self, name: &'static str, answered: Duration, dead: &[&NodeRow]) {
        for row in dead {
            self.rows.bury(row);
            self.buried.push(row.node.clone());
            let asleep = &self.processes[row.node.as_str()];
            assert!(!asleep.membership.may_begin(answered), "{} may begin attempts", row.node);
        }
        let process = self.processes.get_mut(name).unwrap();
        let Assignment { take, give, .. } = process.membership.assignment().clone();
        let taken = self.rows.take(name, &take);
        self.rows.release(name, &give);
        process.fence = process.fence.without(&give).with(taken);
        process.membership.taken(&take);
        process.membership.released(&give);
        process.next = Some(answered + process.membership.next_beat(answered));
    }

    fn sleep(&mut self, name: &str) {
        self.processes.get_mut(name).unwrap().next = None;
    }

    fn wake(&mut self, name: &str) {
        self.processes.get_mut(name).unwrap().next = Some(self.now);
    }

    /// How many shards each of these nodes has, by the database and by itself.
    fn counts<const N: usize>(&self, names: [&str; N]) -> [usize; N] {
        names.map(|name| {
            let rows = self.rows.shards.iter();
            let owned = rows.filter(|row| row.owner.as_deref() == Some(name)).count();
            assert_eq!(owned, self.processes[name].fence.shards().count(), "{name}");
            owned
        })
    }
}

#[test]
fn shards_are_spread_evenly_and_those_of_a_dead_node_move_to_the_others() {
    let mut fleet = Fleet::new();
    fleet.join("a");
    assert_eq!(fleet.counts(["a"]), [256]);
    fleet.join("b");
    fleet.join("c");
    fleet.run(LEASE);
    assert_eq!(fleet.counts(["a", "b", "c"]), [86, 85, 85]);
    fleet.sleep("b");
    fleet.run(LEASE * 3);
    assert_eq!(fleet.buried, ["b"]);
    assert_eq!(fleet.counts(["a", "c"]), [128, 128]);
    let departed = |name| fleet.processes[name].membership.assignment().departed;
    assert_eq!((departed("a"), departed("c")), (1, 1));
    // It wakes up and hears that it was taken for dead.
    fleet.wake("b");
    fleet.run(LEASE);
    assert!(fleet.processes["b"].overtaken);
    assert_eq!(fleet.counts(["a", "c"]), [128, 128]);
}

#[test]
fn an_outage_of_the_database_kills_nobody() {
    let mut fleet = Fleet::new();
    ["a", "b", "c"].into_iter().for_each(|name| fleet.join(name));
    fleet.run(LEASE);
    ["a", "b", "c"].into_iter().for_each(|name| fleet.sleep(name));
    fleet.run(LEASE * 10);
    // The last one comes back most of a lease after the first.
    for name in ["a", "b", "c"] {
        fleet.wake(name);
        fleet.run(LEASE / 3);
    }
    fleet.run(LEASE);
    assert_eq!(fleet.buried, Vec::<String>::new());
    assert_eq!(fleet.counts(["a", "b", "c"]), [86, 85, 85]);
}
