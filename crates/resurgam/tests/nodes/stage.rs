//! A deployment whose instances are watched: nodes on a server of their own, and a client.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use resurgam::{Client, Instance};
use resurgam_core::Uid;
use resurgam_postgres_server::{Database, Server};
use tokio::runtime::Runtime;

use crate::deployment::{Deployment, Node};
use crate::errands::{staying, staying_elsewhere, ticking};
use crate::processes::journal::{self, Entry, What};
use crate::processes::program::{self, PATIENCE};

/// How many instances there are: every node of three works on some.
pub(crate) const INSTANCES: u32 = 40;

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
        let client = Some(runtime.block_on(deployment.client()));
        Stage { runtime, server, database, deployment, client }
    }

    pub(crate) fn client(&self) -> &Client {
        self.client.as_ref().unwrap()
    }

    pub(crate) fn block_on<T>(&self, asked: impl IntoFuture<Output = resurgam::Result<T>>) -> T {
        self.runtime.block_on(asked.into_future()).unwrap()
    }

    /// How many milliseconds after this time the first attempt of an instance began.
    pub(crate) fn began_after(&self, uid: Uid, since: i64) -> i64 {
        let key = uid.to_string();
        let is_its = |begun: &&Begun| begun.key.starts_with(&key);
        self.until(|begins| begins.iter().find(is_its).map(|begun| begun.at - since))
    }

    /// Starts nodes, waits until the shards are shared by all, and tells the last one.
    pub(crate) fn start(&mut self, count: usize) -> u32 {
        let last = (0..count).map(|_| self.deployment.start_and_wait()).last().unwrap();
        let share = 256 / self.deployment.awake().len() as i64;
        self.wait_for(|stage| stage.shards_of_last_node() >= share);
        last
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

    /// Instances with an attempt that takes so long.
    pub(crate) fn staying(&self, name: &str, millis: u64) -> Vec<Instance<u32>> {
        self.instances(name, |id| self.client().start(id, staying(millis)))
    }

    /// The same in a queue that not every node serves.
    pub(crate) fn staying_elsewhere(&self, name: &str, millis: u64) -> Vec<Instance<u32>> {
        self.instances(name, |id| self.client().start(id, staying_elsewhere(millis)))
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
    pub(crate) fn results(&self, instances: Vec<Instance<u32>>) {
        for instance in instances {
            assert_eq!(self.runtime.block_on(instance.result()).unwrap(), 1, "{}", instance.id());
        }
    }

    /// Waits until the attempts that were seen to begin say something.
    pub(crate) fn until<T>(&self, mut says: impl FnMut(&[Begun]) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            match says(&begins(&self.deployment)) {
                Some(said) => return said,
                None => assert!(Instant::now() < end, "it was waited for in vain"),
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn wait_for(&self, mut holds: impl FnMut(&Self) -> bool) {
        self.until(|_| holds(self).then_some(()));
    }

    /// Waits until every call was seen at work after this time; where and when that was first.
    pub(crate) fn begins_of_all_after(&self, since: i64) -> BTreeMap<String, Begun> {
        self.until(|begins| {
            let mut first = BTreeMap::new();
            for begun in begins.iter().filter(|begun| begun.at > since) {
                first.entry(begun.key.clone()).or_insert_with(|| begun.clone());
            }
            (first.len() == INSTANCES as usize).then_some(first)
        })
    }

    /// How long it took after this time until all work of a node went on elsewhere.
    pub(crate) fn takeover(&self, node: u32, since: i64) -> Duration {
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
