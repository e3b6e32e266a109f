//! Nodes on two servers that take turns: the primary is killed, its standby is promoted, and the
//! old primary comes back as it was left, beside the new one, before it is rewound.
//!
//! As in `chaos`, a client drives workflows meanwhile, and in the end history, ledger and journal
//! are compared: nothing is lost, and nothing begins after it completed. The old primary is also
//! looked at, before it is taken away again: nobody has written there. How soon after a promotion
//! something is committed is printed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use resurgam_postgres_server::{Pair, Server};
use resurgam_watchdog::test;
use tokio::runtime::Runtime;

use crate::nodes::chaos::{DAMAGE, LEASE_MS, NODES, Pace, WORKFLOWS, drive, workflows};
use crate::nodes::deployment::{Deployment, Node};
use crate::processes::{PATIENCE, program, seed, until};

/// The database on both servers.
const NAME: &str = "orders";

/// How often the primary is killed at least: each server is the old one once, and one of them is
/// seen beside the new one.
const FAILOVERS: u32 = 2;

/// Everything that somebody who works changes in a database.
const TRACES: &str = "
    SELECT concat_ws(' ', (SELECT sum(n) FROM resurgam.lane), (SELECT count(*) FROM resurgam.event),
                     (SELECT count(*) FROM resurgam.instance), (SELECT sum(epoch) FROM resurgam.shard),
                     (SELECT string_agg(node || beat, ',' ORDER BY node) FROM resurgam.node),
                     (SELECT mark FROM resurgam.meta))";

/// What rises with every commit and every beat: there may be nothing left to commit.
const COMMITS: &str = "
    SELECT coalesce((SELECT sum(n) FROM resurgam.lane), 0)
         + coalesce((SELECT sum(beat) FROM resurgam.node), 0)";

#[test(minutes = 15)]
fn three_nodes_lose_and_repeat_nothing_while_primaries_are_killed_and_old_ones_come_back() {
    let seed = seed();
    println!("RESURGAM_SEED={seed}");
    let runtime = program::runtime();
    let pair = Arc::new(runtime.block_on(Pair::start()));
    runtime.block_on(pair.primary().run(&format!("CREATE DATABASE {NAME}")));
    let mut deployment = Deployment::new(&pair.url(NAME), seed, |node| Node {
        lingers_ms: 1_500,
        lease_ms: LEASE_MS,
        ..node
    });
    for _ in 0..NODES {
        deployment.start_and_wait();
    }
    let began = Instant::now();
    let client = runtime.block_on(deployment.client());
    let (journal, pace) = (deployment.journal(), Arc::new(Pace::default()));
    let (servers, wanted) = (pair.clone(), workflows(120));
    let url = move || servers.primary().url(NAME);
    let driving = runtime.spawn(drive(client, journal, url, wanted, seed, pace.clone()));
    let mut damage = Damage { random: fastrand::Rng::with_seed(seed), ..Damage::default() };
    let is_asked_for = std::env::var_os(WORKFLOWS).is_some();
    while damage.failovers < FAILOVERS
        || (!driving.is_finished() && (is_asked_for || began.elapsed() < DAMAGE))
    {
        damage.fail_over(&runtime, &mut deployment, &pair);
        if began.elapsed() > PATIENCE * 2 {
            break;
        }
    }
    until("the end of all workflows", || driving.is_finished());
    let started = pace.started.load(Ordering::Relaxed);
    println!("{started} workflows in {:?}, {damage:?}", began.elapsed());
    runtime.block_on(driving).unwrap();
    runtime.block_on(deployment.end(&pair.primary().existing(NAME)));
}

/// Damage, at random.
#[derive(Debug, Default)]
struct Damage {
    random: fastrand::Rng,
    failovers: u32,
    /// How often the old primary was there beside the new one.
    revivals: u32,
    kills: u32,
    /// How long after a promotion something was committed.
    takeovers: Vec<Duration>,
}

impl Damage {
    /// The primary is killed, and its standby takes over; the old primary comes back as it was, or
    /// follows the new one at once.
    fn fail_over(&mut self, runtime: &Runtime, deployment: &mut Deployment, pair: &Pair) {
        // Lets them come to some point: damage is done wherever they happen to be then.
        thread::sleep(Duration::from_millis(self.random.u64(200..2_000)));
        deployment.note("the primary is killed, and its standby promoted".to_string());
        let promoted = runtime.block_on(pair.fail_over());
        self.failovers += 1;
        let before = ask(runtime, pair.primary(), COMMITS);
        until("a commit on the new primary", || ask(runtime, pair.primary(), COMMITS) != before);
        self.takeovers.push(promoted.elapsed());
        if self.failovers % 2 == 1 || self.random.bool() {
            self.revive(runtime, deployment, pair);
        }
        runtime.block_on(pair.rejoin());
        deployment.note("the old primary follows the new one".to_string());
    }

    /// The old primary is back beside the new one, and everybody must connect anew.
    fn revive(&mut self, runtime: &Runtime, deployment: &mut Deployment, pair: &Pair) {
        self.revivals += 1;
        pair.revive();
        deployment.note("the old primary is back as it was left".to_string());
        let before = ask(runtime, pair.other(), TRACES);
        if let Some(node) = self.random.choice(deployment.awake()) {
            self.kills += 1;
            deployment.kill(node);
            deployment.start_and_wait();
        }
        let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                   WHERE application_name = 'resurgam'";
        ask(runtime, pair.primary(), cut);
        let commits = ask(runtime, pair.primary(), COMMITS);
        until("a commit beside the old primary", || {
            ask(runtime, pair.primary(), COMMITS) != commits
        });
        assert_eq!(ask(runtime, pair.other(), TRACES), before, "somebody wrote to an old timeline");
        pair.other().kill();
    }
}

fn ask(runtime: &Runtime, server: &Server, sql: &str) -> String {
    runtime.block_on(server.ask_in(NAME, sql))
}
