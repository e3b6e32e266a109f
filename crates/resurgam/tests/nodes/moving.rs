//! How soon work goes on after nodes come and go, and what survives that.
//!
//! What is measured is printed. Every bound is far above it, for machines that have other things to
//! do; what happens by the lapse of a lease is kept apart from what happens at once by a lease that
//! is longer than the test.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use resurgam::{Client, Instance};
use resurgam_postgres_server::{Database, Server};
use tokio::runtime::Runtime;

use crate::deployment::{Deployment, Node};
use crate::errands::{staying, ticking};
use crate::processes::journal::{self, Entry, What};
use crate::processes::program::PATIENCE;
use crate::processes::{now_ms, program};

/// How many instances there are: every node of three works on some.
const INSTANCES: u32 = 40;

/// Longer than any test: nothing happens because of it.
const LONG_MS: u64 = 60_000;

#[test]
fn after_a_node_was_killed_its_work_goes_on_within_two_leases() {
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
    assert_eq!(stage.shards_of_last_node(), 256);
    stage.results(long);
    let begins = begins(&stage.deployment);
    assert_eq!(begins.len(), 2 * INSTANCES as usize, "none began twice");
    assert!(begins.iter().all(|begun| begun.process == first));
    assert_eq!(stage.ask("SELECT count(*) FROM resurgam.attempt"), "0");
}

#[test]
fn a_node_that_slept_longer_than_its_lease_writes_nothing_when_it_wakes_and_then_works_again() {
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
    let mut stage = Stage::new(|node| node);
    stage.start(3);
    let owners =
        "SELECT string_agg(owner || ' ' || epoch, ', ' ORDER BY shard) FROM resurgam.shard";
    let staying = stage.staying("stay", 1_500);
    stage.until(|begins| (begins.len() == INSTANCES as usize).then_some(()));
    let before = stage.ask(owners);
    let since = Instant::now();
    stage.deployment.outage(&stage.server, 3 * stage.deployment.node.lease());
    println!("an outage of {:?}", since.elapsed());
    stage.results(staying);
    println!("all results after {:?}", since.elapsed());
    // Whoever was taken for dead by mistake would be found to be so by now.
    thread::sleep(2 * stage.deployment.node.lease());
    assert_eq!(stage.ask(owners), before);
    assert_eq!(stage.ask("SELECT count(*) FROM resurgam.attempt"), "0");
    assert_eq!(begins(&stage.deployment).len(), INSTANCES as usize);
}

/// Nodes on a server of their own, and a client.
struct Stage {
    runtime: Runtime,
    server: &'static Server,
    database: Database<'static>,
    deployment: Deployment,
    client: Client,
}

impl Stage {
    fn new(change: impl FnOnce(Node) -> Node) -> Self {
        let runtime = program::runtime();
        // It lives as long as the tests do.
        let server: &'static Server = Box::leak(Box::new(Server::start()));
        let database = runtime.block_on(server.database());
        let deployment = Deployment::new(&database.url(), 0, change);
        let client = runtime.block_on(deployment.client());
        Stage { runtime, server, database, deployment, client }
    }

    /// Starts nodes, waits until the shards are shared by all, and tells the last one.
    fn start(&mut self, count: usize) -> u32 {
        let last = (0..count).map(|_| self.deployment.start_and_wait()).last().unwrap();
        let share = 256 / self.deployment.awake().len() as i64;
        self.wait_for(|stage| stage.shards_of_last_node() >= share);
        last
    }

    /// How many shards the node has that started last.
    fn shards_of_last_node(&self) -> i64 {
        let of_last = "SELECT count(*) FROM resurgam.shard WHERE owner = \
                       (SELECT node FROM resurgam.node ORDER BY started_at DESC LIMIT 1)";
        self.ask(of_last).parse().unwrap()
    }

    fn ask(&self, sql: &str) -> String {
        self.runtime.block_on(self.database.ask(sql))
    }

    /// Instances that are seen at work all the time.
    fn ticking(&self) -> Vec<Instance<u32>> {
        self.instances("tick", |id| self.client.start(id, ticking()))
    }

    /// Instances with an attempt that takes so long.
    fn staying(&self, name: &str, millis: u64) -> Vec<Instance<u32>> {
        self.instances(name, |id| self.client.start(id, staying(millis)))
    }

    fn instances(
        &self,
        name: &str,
        start: impl Fn(String) -> resurgam::Start<u32>,
    ) -> Vec<Instance<u32>> {
        self.runtime.block_on(async {
            let mut instances = Vec::new();
            for number in 0..INSTANCES {
                instances.push(start(format!("{name}-{number}")).await.unwrap());
            }
            instances
        })
    }

    /// All of them complete with their first attempt.
    fn results(&self, instances: Vec<Instance<u32>>) {
        for instance in instances {
            assert_eq!(self.runtime.block_on(instance.result()).unwrap(), 1, "{}", instance.id());
        }
    }

    /// Waits until the attempts that were seen to begin say something.
    fn until<T>(&self, mut says: impl FnMut(&[Begun]) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            match says(&begins(&self.deployment)) {
                Some(said) => return said,
                None => assert!(Instant::now() < end, "it was waited for in vain"),
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn wait_for(&self, mut holds: impl FnMut(&Self) -> bool) {
        self.until(|_| holds(self).then_some(()));
    }

    /// Waits until every call was seen at work after this time; where and when that was first.
    fn begins_of_all_after(&self, since: i64) -> BTreeMap<String, Begun> {
        self.until(|begins| {
            let mut first = BTreeMap::new();
            for begun in begins.iter().filter(|begun| begun.at > since) {
                first.entry(begun.key.clone()).or_insert_with(|| begun.clone());
            }
            (first.len() == INSTANCES as usize).then_some(first)
        })
    }

    /// How long it took after this time until all work of a node went on elsewhere.
    fn takeover(&self, node: u32, since: i64) -> Duration {
        let last_before: BTreeMap<String, u32> = begins(&self.deployment)
            .into_iter()
            .filter(|begun| begun.at <= since)
            .map(|begun| (begun.key, begun.process))
            .collect();
        let elsewhere = self.until(|begins| {
            let mut first: BTreeMap<String, i64> = BTreeMap::new();
            for begun in begins.iter().filter(|begun| begun.at > since && begun.process != node) {
                first.entry(begun.key.clone()).or_insert(begun.at);
            }
            (first.len() == INSTANCES as usize).then_some(first)
        });
        let of_node = elsewhere.iter().filter(|(key, _)| last_before[*key] == node);
        let millis = of_node.map(|(_, at)| at - since).max().expect("the node had work");
        Duration::from_millis(millis.cast_unsigned())
    }
}

/// An attempt that began.
#[derive(Clone, Debug)]
struct Begun {
    at: i64,
    process: u32,
    key: String,
    activity: String,
    attempt: u32,
}

impl Begun {
    fn is_tick_of(&self, process: u32) -> bool {
        self.activity == "tick" && self.process == process
    }
}

fn begins(deployment: &Deployment) -> Vec<Begun> {
    let begun = |Entry { at, process, what }| match what {
        What::Begin { key, activity, attempt } => {
            Some(Begun { at, process, key, activity, attempt })
        }
        _ => None,
    };
    journal::read(&deployment.ground.journal()).into_iter().filter_map(begun).collect()
}
