//! Nodes that are killed, paused, stopped and started at random, on a server that is restarted:
//! nothing is lost and nothing is done twice.
//!
//! The test is a client that starts thousands of workflows and sends each the signal it waits for,
//! while another thread does the damage. What is open after that is finished in peace. In the end
//! history, ledger and a journal outside are compared, see `processes/check.rs`. How soon nodes
//! recover is printed: it depends on what else the machine has to do. Each test has a quarter of an
//! hour.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use resurgam::Client;
use resurgam_postgres_server::Server;
use resurgam_watchdog::test;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use crate::nodes::deployment::{Deployment, Listen, Node};
use crate::processes::journal::{Journal, What};
use crate::processes::past::Past;
use crate::processes::{PATIENCE, program, seed, workload};

/// How many workflows are open at a time.
const OPEN: u32 = 500;

/// Long enough that hardly anybody misses it because the machine has much to do.
pub(super) const LEASE_MS: u64 = 3_000;

/// How many nodes there are, most of the time.
pub(super) const NODES: usize = 3;

/// How long damage is done. What is open after that is finished in peace.
pub(super) const DAMAGE: Duration = Duration::from_secs(25);

/// How many workflows there are, when somebody wants another number than the tests.
pub(super) const WORKFLOWS: &str = "RESURGAM_WORKFLOWS";

#[test(minutes = 15)]
fn three_nodes_that_are_killed_paused_and_restarted_with_their_server_lose_and_repeat_nothing() {
    survive(workflows(1_000), |_, node| node);
}

#[test(minutes = 15)]
fn so_it_is_behind_a_pooler_that_keeps_no_sessions() {
    survive(workflows(300), |server, node| {
        let name = node.url.rsplit('/').next().unwrap();
        let listen = Listen::At(node.url.clone());
        Node { url: server.pooler_of(20).url(name), listen, ..node }
    });
}

/// At most this number of workflows, unless `RESURGAM_WORKFLOWS` names another.
pub(super) fn workflows(usually: u32) -> u32 {
    std::env::var(WORKFLOWS).map_or(usually, |number| number.parse().unwrap())
}

fn survive(workflows: u32, change: fn(&Server, Node) -> Node) {
    let seed = seed();
    println!("RESURGAM_SEED={seed}");
    let server = Server::start();
    let runtime = program::runtime();
    let database = runtime.block_on(async {
        // As it is everywhere but in tests: thousands of rows come and go here.
        server.run("ALTER SYSTEM SET autovacuum = on").await;
        server.run("ALTER SYSTEM SET autovacuum_naptime = 5").await;
        server.run("SELECT pg_reload_conf()").await;
        server.database().await
    });
    let mut deployment = Deployment::new(&database.url(), seed, |node| {
        change(&server, Node { lingers_ms: 1_500, lease_ms: LEASE_MS, ..node })
    });
    for _ in 0..NODES {
        deployment.start_and_wait();
    }
    let began = Instant::now();
    let client = runtime.block_on(deployment.client());
    let (journal, pace) = (deployment.journal(), Arc::new(Pace::default()));
    let url = database.url();
    let driving =
        runtime.spawn(drive(client, journal, move || url.clone(), workflows, seed, pace.clone()));
    let mut chaos = Chaos { random: fastrand::Rng::with_seed(seed), done: [0; 4], wakes: None };
    while !driving.is_finished() && began.elapsed() < DAMAGE {
        chaos.act(&mut deployment, &server);
    }
    // Who wants a number of workflows gets it; otherwise a slow machine has done enough.
    pace.is_enough.store(std::env::var_os(WORKFLOWS).is_none(), Ordering::Relaxed);
    let (mut since, mut before) = (Instant::now(), 0);
    while !driving.is_finished() && since.elapsed() < PATIENCE {
        chaos.rest(&mut deployment);
        let started = pace.started.load(Ordering::Relaxed);
        if std::mem::replace(&mut before, started) != started {
            since = Instant::now();
        }
    }
    let (is_done, took) = (driving.is_finished(), began.elapsed());
    let started = pace.started.load(Ordering::Relaxed);
    println!("{started} workflows in {took:?}; kills, stops, pauses, outages: {:?}", chaos.done);
    if is_done {
        runtime.block_on(driving).unwrap();
    }
    // What has not ended is told with its story.
    runtime.block_on(deployment.end(&database));
    assert!(is_done, "{PATIENCE:?} after the last damage some workflows had not ended");
    println!("compared after {:?}", began.elapsed() - took);
}

/// What the one who drives the workflows and the one who does the damage tell each other.
#[derive(Debug, Default)]
pub(super) struct Pace {
    pub(super) started: AtomicU32,
    /// No more are to be started.
    pub(super) is_enough: AtomicBool,
}

/// Starts so many workflows, a few at a time, and waits until all have ended. The server that knows
/// how many have is asked for each time.
pub(super) async fn drive(
    client: Client,
    journal: Journal,
    url: impl Fn() -> String + Send,
    workflows: u32,
    seed: u64,
    pace: Arc<Pace>,
) {
    let journal = Arc::new(journal);
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut started, mut driving) = (0, JoinSet::new());
    loop {
        let (there, open) = count(&url(), &journal).await.unwrap_or((0, OPEN));
        let is_enough = pace.is_enough.load(Ordering::Relaxed);
        let wanted = if is_enough { started } else { workflows };
        if started == wanted && there == wanted && open == 0 {
            break;
        }
        // Those that are about to be there count as well.
        let room = OPEN.saturating_sub(open + started.saturating_sub(there));
        let next = wanted.min(started + room);
        for number in std::mem::replace(&mut started, next)..next {
            let (client, journal) = (client.clone(), journal.clone());
            let pause = Duration::from_millis(random.u64(0..80));
            driving.spawn(async move { drive_one(&client, &journal, number, pause).await });
        }
        pace.started.store(started, Ordering::Relaxed);
        // Nobody tells when one of many has ended in another process.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    driving.join_all().await;
}

/// How many workflows there are, and how many of them are open. Waiting for the result of each
/// would keep the machine busy with other things than what is tested here. Notes when the server
/// needs long for an answer.
async fn count(url: &str, journal: &Journal) -> Result<(u32, u32), tokio_postgres::Error> {
    let asked = Instant::now();
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    let sql = "SELECT count(*), count(*) FILTER (WHERE closed_at IS NULL) FROM resurgam.instance";
    let row = client.query_one(sql, &[]).await?;
    let lease = Duration::from_millis(LEASE_MS);
    journal.note_if_slow(asked.elapsed(), Past::slow_from(lease));
    let number = |place| u32::try_from(row.get::<_, i64>(place)).unwrap();
    Ok((number(0), number(1)))
}

/// One workflow: started, sent its signal, sooner or later, and now and then waited for.
async fn drive_one(client: &Client, journal: &Journal, number: u32, pause: Duration) {
    let (id, waits) = (format!("{number}"), number.is_multiple_of(2));
    journal.write(What::Starting { id: id.clone() });
    let start = || match number % 20 {
        0 => client.start(&id, workload::journey(4)),
        _ => client.start(&id, workload::trip(waits)),
    };
    let instance = until_answered(|| start().request_id(&id).into_future()).await;
    journal.write(What::Started { id: id.clone() });
    // Some signals come before anybody waits for them, others later.
    tokio::time::sleep(pause).await;
    if waits {
        until_answered(|| client.signal_once(&id, "go", &id, format!("go-{id}"))).await;
    }
    if number.is_multiple_of(20) {
        until_answered(|| instance.result()).await;
    }
}

/// Asks again for as long as the database is gone. Whoever asks is told of that, and decides.
async fn until_answered<T, F: Future<Output = resurgam::Result<T>>>(ask: impl Fn() -> F) -> T {
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
        // Nobody tells when it is there again. The test waits no longer than for all of them.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Damage, at random.
struct Chaos {
    random: fastrand::Rng,
    /// How many nodes were killed, stopped, paused; how often the server was.
    done: [u32; 4],
    /// Which node stands still, and when it is to go on.
    wakes: Option<(u32, Instant)>,
}

impl Chaos {
    /// Does no more damage.
    fn rest(&mut self, deployment: &mut Deployment) {
        self.wakes.take().into_iter().for_each(|(node, _)| deployment.wake(node));
        while deployment.nodes().len() < NODES {
            deployment.start();
        }
        // Between two looks whether all is done.
        thread::sleep(Duration::from_millis(20));
    }

    fn act(&mut self, deployment: &mut Deployment, server: &Server) {
        // Lets them come to some point: damage is done wherever they happen to be then.
        thread::sleep(Duration::from_millis(self.random.u64(50..400)));
        if let Some((node, _)) = self.wakes.take_if(|(_, at)| *at <= Instant::now()) {
            deployment.wake(node);
        }
        while deployment.nodes().len() < NODES {
            deployment.start();
        }
        let Some(node) = self.random.choice(deployment.awake()) else { return };
        let lease = deployment.node.lease();
        match self.random.u32(0..100) {
            0..7 => {
                self.done[0] += 1;
                deployment.kill(node);
            }
            7..12 => {
                self.done[1] += 1;
                deployment.stop(node);
            }
            12..19 if self.wakes.is_none() => {
                self.done[2] += 1;
                let time = lease * self.random.u32(0..250) / 100;
                deployment.pause(node);
                self.wakes = Some((node, Instant::now() + time));
            }
            19..21 => {
                self.done[3] += 1;
                deployment.outage(server, lease * self.random.u32(0..150) / 100);
            }
            _ => {}
        }
    }
}
