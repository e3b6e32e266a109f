//! Nodes as real processes on one database, and everything that can be done to them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use resurgam::{Client, PostgresOptions};
use resurgam_postgres_server::{Database, Server};
use resurgam_store_postgres::PostgresStore;
use resurgam_watchdog::test;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

use crate::nodes::errands::{self, Gates};
use crate::processes::check::{Fate, check_nodes};
use crate::processes::journal::{Journal, What};
use crate::processes::past::Past;
use crate::processes::program::{self, Program};
use crate::processes::workload::{self, World};
use crate::processes::{Ground, log, now_ms};

/// What a node is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) url: String,
    /// Where to listen, when a pooler stands before the server.
    pub(crate) listen: Listen,
    pub(crate) lease_ms: u64,
    pub(crate) journal: PathBuf,
    /// Which process this is, counted by the test.
    pub(crate) process: u32,
    /// What decides which attempts fail.
    pub(crate) seed: u64,
    pub(crate) lingers_ms: u64,
    pub(crate) grace_ms: u64,
    /// The queues it serves, where it does not serve all.
    pub(crate) queues: Option<Vec<String>>,
}

/// Where a node listens for hints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Listen {
    Here,
    At(String),
    Nowhere,
}

impl Node {
    pub(crate) fn new(url: &str, ground: &Ground, seed: u64) -> Self {
        Node {
            url: url.to_string(),
            listen: Listen::Here,
            // Short, and long enough that a node on a busy machine does not miss it.
            lease_ms: 5_000,
            journal: ground.journal(),
            process: 0,
            seed,
            lingers_ms: 0,
            grace_ms: 20,
            queues: None,
        }
    }

    pub(crate) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    pub(crate) fn options(&self) -> PostgresOptions {
        let options = PostgresOptions::default().lease(self.lease());
        match &self.listen {
            Listen::Here => options,
            Listen::At(url) => options.listen_url(url),
            Listen::Nowhere => options.without_listening(),
        }
    }
}

#[test(minutes = 15)]
#[ignore = "other tests start it as a process"]
fn the_program_that_other_tests_start() {
    if let Some(node) = program::role() {
        program::play(work(node));
    }
}

/// What a node does until it is told to stop.
pub(crate) async fn work(node: Node) {
    let _ears = program::ears();
    let mut told_to_stop = signal(SignalKind::terminate()).unwrap();
    let journal = || Journal::open(&node.journal, node.process);
    journal().write(What::Process);
    log::begin(&node.journal, node.process);
    tokio::spawn(note_slowness(journal(), Past::slow_from(node.lease())));
    let lingers = Duration::from_millis(node.lingers_ms);
    let app = loop {
        let world = World { lingers, ..World::new(journal(), node.seed) };
        let mut app = errands::app(world, Gates::beside(&node.journal))
            .grace(Duration::from_millis(node.grace_ms))
            .postgres_options(node.options());
        if let Some(queues) = &node.queues {
            app = app.queues(queues.clone());
        }
        match app.postgres(&node.url).await {
            Ok(app) => break app,
            // The server is gone just now: whoever starts an app decides how long to ask.
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
        // Nobody tells when it is there again. The test waits no longer than for any node.
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    program::say("works");
    told_to_stop.recv().await;
    workload::stop(app).await;
}

/// Notes when the machine is so busy that this process gets no time.
async fn note_slowness(journal: Journal, long: Duration) {
    loop {
        let since = Instant::now();
        // How long this takes is what is measured.
        tokio::time::sleep(Duration::from_millis(50)).await;
        journal.note_if_slow(since.elapsed(), long);
    }
}

/// Processes on a database, each with its number. Process 0 is the test itself, a client.
pub(crate) struct Deployment {
    pub(crate) ground: Ground,
    pub(crate) node: Node,
    pub(crate) past: Past,
    fates: Vec<Fate>,
    nodes: BTreeMap<u32, Program>,
    /// Those that stand still, and since when.
    paused: BTreeMap<u32, i64>,
}

impl Deployment {
    pub(crate) fn new(url: &str, seed: u64, change: impl FnOnce(Node) -> Node) -> Self {
        let ground = Ground::new();
        let node = change(Node::new(url, &ground, seed));
        let past = Past::new(node.lease());
        let (nodes, paused) = (BTreeMap::new(), BTreeMap::new());
        Deployment { ground, node, past, fates: vec![Fate::Stopped], nodes, paused }
    }

    /// Makes the schema, for clients that come before the first node.
    pub(crate) async fn make_schema(&self) {
        let made = PostgresStore::connect(&self.node.url, self.node.options()).await;
        made.unwrap().close().await;
    }

    pub(crate) async fn client(&self) -> Client {
        Client::postgres_with(&self.node.url, self.node.options()).await.unwrap()
    }

    pub(crate) fn journal(&self) -> Journal {
        Journal::open(&self.node.journal, 0)
    }

    /// So that whoever reads the story of an instance sees it.
    pub(crate) fn note(&self, what: String) {
        self.journal().write(What::Damage { what });
    }

    /// Starts a node, and does not wait until it works.
    pub(crate) fn start(&mut self) -> u32 {
        let process = u32::try_from(self.fates.len()).unwrap();
        // Until it ends in another way.
        self.fates.push(Fate::Killed);
        let program = Program::start(module_path!(), &Node { process, ..self.node.clone() });
        self.nodes.insert(process, program);
        process
    }

    /// Starts a node, and waits until it works.
    pub(crate) fn start_and_wait(&mut self) -> u32 {
        let process = self.start();
        self.nodes[&process].hear_that("works");
        process
    }

    /// The nodes that there are; those that stand still too.
    pub(crate) fn nodes(&self) -> Vec<u32> {
        self.nodes.keys().copied().collect()
    }

    /// The nodes that do not stand still.
    pub(crate) fn awake(&self) -> Vec<u32> {
        self.nodes.keys().copied().filter(|node| !self.paused.contains_key(node)).collect()
    }

    /// The node that is the process of this id.
    pub(crate) fn process_of(&self, pid: u32) -> u32 {
        let mut nodes = self.nodes.iter();
        *nodes.find(|(_, program)| program.pid() == pid).expect("it is one of the nodes").0
    }

    pub(crate) fn kill(&mut self, process: u32) {
        self.note(format!("kill {process}"));
        self.past.ends(process, now_ms());
        self.nodes.remove(&process).unwrap().kill();
        self.paused.remove(&process);
    }

    /// Tells a node to stop, and waits until it has.
    pub(crate) fn stop(&mut self, process: u32) {
        self.note(format!("stop {process}"));
        self.past.ends(process, now_ms());
        let mut program = self.nodes.remove(&process).unwrap();
        program.signal(Signal::TERM);
        self.fates[process as usize] = Fate::of_stopped(program.wait());
    }

    pub(crate) fn pause(&mut self, process: u32) {
        self.note(format!("pause {process}"));
        self.nodes[&process].signal(Signal::STOP);
        self.paused.insert(process, now_ms());
    }

    pub(crate) fn wake(&mut self, process: u32) {
        if let Some(since) = self.paused.remove(&process) {
            self.note(format!("wake {process}"));
            self.past.paused(process, since, now_ms());
            self.nodes[&process].signal(Signal::CONT);
        }
    }

    /// The server does not answer for a while.
    pub(crate) fn outage(&self, server: &Server, time: Duration) {
        // The time is the damage: there is nothing to wait for.
        self.outage_while(server, || thread::sleep(time));
    }

    /// The server does not answer while something else happens.
    pub(crate) fn outage_while(&self, server: &Server, happens: impl FnOnce()) {
        self.note("the server is killed".to_string());
        server.kill();
        happens();
        server.start_again();
        self.note("the server answers again".to_string());
    }

    /// Stops all nodes, and compares what they recorded with what was seen.
    pub(crate) async fn end(mut self, database: &Database<'_>) {
        self.paused
            .keys()
            .copied()
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|node| self.wake(node));
        self.nodes().into_iter().for_each(|node| self.stop(node));
        let store = PostgresStore::connect(&database.url(), self.node.options()).await.unwrap();
        let Deployment { ground, node, past, fates, .. } = self;
        let left = "SELECT (SELECT count(*) FROM resurgam.task) +
                    (SELECT count(*) FROM resurgam.message WHERE kind <> 'signal')";
        let may_be_left = database.ask(left).await != "0";
        check_nodes(ground, &store, node.seed, &fates, past, may_be_left).await;
    }
}
