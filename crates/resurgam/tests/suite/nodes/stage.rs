//! A deployment whose instances are watched: nodes on a server of their own, and a client.

use std::collections::BTreeMap;
use std::time::Duration;

use resurgam::{Client, Instance};
use resurgam_core::Uid;
use resurgam_postgres_server::{Database, Server};
use tokio::runtime::Runtime;

use crate::nodes::deployment::{Deployment, Node};
use crate::nodes::errands::{Gates, staying, staying_elsewhere, ticking};
use crate::processes::journal::{self, Entry, What};
use crate::processes::{PATIENCE, program, until_some};

/// How many instances there are: every node of three works on some.
pub(crate) const INSTANCES: u32 = 40;

/// How many shards there are.
const SHARDS: i64 = 256;

/// Nodes on a server of their own, and a client.
pub(crate) struct Stage {
    pub(crate) runtime: Runtime,
    pub(crate) server: &'static Server,
    pub(crate) database: Database<'static>,
    pub(crate) deployment: Deployment,
    pub(crate) client: Option<Client>,
}

impl Stage {
    pub(crate) fn new(change: impl FnOnce(Node) -> Node) -> Self {
        let runtime = program::runtime();
        // It lives as long as the tests do.
        let server: &'static Server = Box::leak(Box::new(Server::start()));
        let database = runtime.block_on(server.database());
        let deployment = Deployment::new(&database.url(), 0, change);
        runtime.block_on(deployment.make_schema());
        let client = Some(runtime.block_on(deployment.client()));
        Stage { runtime, server, database, deployment, client }
    }

    pub(crate) fn client(&self) -> &Client {
        self.client.as_ref().unwrap()
    }

    pub(crate) fn block_on<T>(&self, asked: impl IntoFuture<Output = resurgam::Result<T>>) -> T {
        self.in_time("an answer", asked).unwrap()
    }

    fn in_time<T>(&self, what: &str, asked: impl IntoFuture<Output = T>) -> T {
        let asked = asked.into_future();
        let answer = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, asked).await });
        answer.unwrap_or_else(|_| panic!("after {PATIENCE:?} this has not come: {what}"))
    }

    /// How many milliseconds after this time the first attempt of an instance began.
    pub(crate) fn began_after(&self, uid: Uid, since: i64) -> i64 {
        let key = uid.to_string();
        let is_its = |begun: &&Begun| begun.key.starts_with(&key);
        let began = |begins: &[Begun]| begins.iter().find(is_its).map(|begun| begun.at - since);
        self.until(&format!("an attempt of {uid} begins"), began)
    }

    /// Starts nodes, waits until all share the shards evenly, and tells the last one.
    pub(crate) fn start(&mut self, count: usize) -> u32 {
        let last = (0..count).map(|_| self.deployment.start_and_wait()).last().unwrap();
        let nodes = self.deployment.awake().len() as i64;
        self.wait_for("all nodes share the shards evenly", |stage| {
            matches!(stage.shares()[..], [count, least, SHARDS] if count == nodes
                && least >= SHARDS / nodes)
        });
        last
    }

    /// How many nodes there are, how many shards the one has that has the fewest, and all together.
    fn shares(&self) -> Vec<i64> {
        let shares = "SELECT concat_ws(' ', count(*), min(shards), sum(shards)) FROM \
                      (SELECT count(s.shard) AS shards FROM resurgam.node n \
                       LEFT JOIN resurgam.shard s ON s.owner = n.node GROUP BY n.node) AS share";
        self.ask(shares).split(' ').map(|number| number.parse().unwrap()).collect()
    }

    /// How many shards the node has that started last.
    pub(crate) fn shards_of_last_node(&self) -> i64 {
        let of_last = "SELECT count(*) FROM resurgam.shard WHERE owner = \
                       (SELECT node FROM resurgam.node ORDER BY started_at DESC LIMIT 1)";
        self.ask(of_last).parse().unwrap()
    }

    pub(crate) fn ask(&self, sql: &str) -> String {
        self.runtime.block_on(self.database.ask(sql))
    }

    /// Instances that are seen at work all the time.
    pub(crate) fn ticking(&self) -> Vec<Instance<u32>> {
        self.instances("tick", |id| self.client().start(id, ticking()))
    }

    /// Instances with an attempt that stays until the gate of this name is open.
    pub(crate) fn staying(&self, gate: &str) -> Vec<Instance<u32>> {
        self.instances(gate, |id| self.client().start(id, staying(gate.to_string())))
    }

    /// The same in a queue that not every node serves.
    pub(crate) fn staying_elsewhere(&self, gate: &str) -> Vec<Instance<u32>> {
        self.instances(gate, |id| self.client().start(id, staying_elsewhere(gate.to_string())))
    }

    /// Lets those attempts of instances end that stay until this gate is open.
    pub(crate) fn open(&self, gate: &str, attempt: u32) {
        Gates::beside(&self.deployment.ground.journal()).open(gate, attempt);
    }

    fn instances(
        &self,
        name: &str,
        start: impl Fn(String) -> resurgam::Start<u32>,
    ) -> Vec<Instance<u32>> {
        (0..INSTANCES).map(|number| self.block_on(start(format!("{name}-{number}")))).collect()
    }

    /// All of them complete, with this attempt.
    pub(crate) fn results(&self, instances: Vec<Instance<u32>>, attempt: u32) {
        for instance in instances {
            let result = self.in_time(&format!("the end of {}", instance.id()), instance.result());
            assert_eq!(result.unwrap(), attempt, "{}", instance.id());
        }
    }

    /// Waits until the attempts that were seen to begin say something.
    pub(crate) fn until<T>(&self, what: &str, says: impl Fn(&[Begun]) -> Option<T>) -> T {
        until_some(what, || says(&begins(&self.deployment)))
    }

    /// Waits until so many attempts have begun that are as wanted.
    pub(crate) fn until_begun(&self, what: &str, count: u32, wanted: impl Fn(&Begun) -> bool) {
        self.until(what, |begins| {
            let begun = begins.iter().filter(|begun| wanted(begun)).count();
            (begun == count as usize).then_some(())
        });
    }

    pub(crate) fn wait_for(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        until_some(what, || holds(self).then_some(()));
    }

    /// Waits until every call was seen at work after this time; where and when that was first.
    pub(crate) fn begins_of_all_after(&self, since: i64) -> BTreeMap<String, Begun> {
        self.until("every instance is seen at work", |begins| {
            let mut first = BTreeMap::new();
            for begun in begins.iter().filter(|begun| begun.at > since) {
                first.entry(begun.key.clone()).or_insert_with(|| begun.clone());
            }
            (first.len() == INSTANCES as usize).then_some(first)
        })
    }

    /// The node that was last seen to work on the most instances.
    pub(crate) fn busiest(&self) -> u32 {
        let last_at = last_at(begins(&self.deployment));
        let work = |node: &u32| last_at.values().filter(|last| *last == node).count();
        self.deployment.awake().into_iter().max_by_key(work).unwrap()
    }

    /// How long it took after this time until all work of a node went on elsewhere.
    pub(crate) fn takeover(&self, node: u32, since: i64) -> Duration {
        let mut before = begins(&self.deployment);
        before.retain(|begun| begun.at <= since);
        let last_at = last_at(before);
        let elsewhere = self.until("all work goes on elsewhere", |begins| {
            let mut first: BTreeMap<String, i64> = BTreeMap::new();
            for begun in begins.iter().filter(|begun| begun.at > since && begun.process != node) {
                first.entry(begun.key.clone()).or_insert(begun.at);
            }
            (first.len() == INSTANCES as usize).then_some(first)
        });
        let of_node = elsewhere.iter().filter(|(key, _)| last_at[*key] == node);
        let millis = of_node.map(|(_, at)| at - since).max().expect("the node had work");
        Duration::from_millis(millis.cast_unsigned())
    }
}

/// An attempt that began.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    pub(crate) at: i64,
    pub(crate) process: u32,
    pub(crate) key: String,
    pub(crate) activity: String,
    pub(crate) attempt: u32,
}

impl Begun {
    pub(crate) fn is_tick_of(&self, process: u32) -> bool {
        self.activity == "tick" && self.process == process
    }
}

pub(crate) fn begins(deployment: &Deployment) -> Vec<Begun> {
    let begun = |Entry { at, process, what }| match what {
        What::Begin { key, activity, attempt } => {
            Some(Begun { at, process, key, activity, attempt })
        }
        _ => None,
    };
    journal::read(&deployment.ground.journal()).into_iter().filter_map(begun).collect()
}

/// Where the last attempt of each call began.
fn last_at(begins: Vec<Begun>) -> BTreeMap<String, u32> {
    begins.into_iter().map(|begun| (begun.key, begun.process)).collect()
}
