//! How many steps a second one store takes, by size of batch and number of lanes.
//!
//! A step is what an activity's completion commits: its event, the deletion of its task, the event
//! that schedules the next call, and that call's task. Batches of different lanes belong to
//! different instances, as they do when shards are spread over lanes. With `BENCH_URL` a server of
//! one's own is measured, and its disk; without it a private one that does not sync.
//!
//! `cargo bench -p resurgam-store-postgres`

use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_core::event::{ActivityCompleted, ActivityScheduled};
use resurgam_core::{Event, EventKind, Payload, RunKey, Seq, Timestamp, Uid};
use resurgam_postgres_server::Server;
use resurgam_store::rows::{Claim, Progress, TaskRow};
use resurgam_store::{Commit, Node, Own, Owning, Step, TaskWrite};
use resurgam_store_postgres::{Options, PostgresStore};

/// How long each size is measured, about.
const MEASURED: Duration = Duration::from_secs(2);
/// How many instances are open at a time in each lane, and how many steps each takes before another
/// follows it.
const OPEN: usize = 2_000;
const STEPS_EACH: u64 = 20;

#[tokio::main]
async fn main() {
    println!(
        "{:>6} {:>8} {:>10} {:>12} {:>12}",
        "lanes", "batch", "steps/s", "ms/commit", "round trips"
    );
    for lanes in [1_u16, 4] {
        for size in [1, 10, 100, 500] {
            measure(lanes, size).await;
        }
    }
}

async fn measure(lanes: u16, size: usize) {
    let url = match std::env::var("BENCH_URL") {
        Ok(url) => url,
        Err(_) => Server::shared().database().await.url(),
    };
    let store = PostgresStore::connect(&url, Options::default().lanes(lanes)).await;
    let store = Arc::new(store.expect("a database for the bench"));
    let Ok(Owning::Taken(_right)) = store.try_own(Node::new(format!("bench-{lanes}-{size}"))).await
    else {
        panic!("somebody works on the database of the bench");
    };
    let loads: Vec<Load> = (0..lanes).map(|lane| Load::new(u128::from(lane))).collect();
    for load in &loads {
        store.commit(load.first().into()).await.expect("a fresh database");
    }
    let (before, begin) = (store.commits(), Instant::now());
    let lanes_at_work: Vec<_> = loads
        .into_iter()
        .map(|load| tokio::spawn(work(store.clone(), load, size, begin)))
        .collect();
    let mut steps = 0;
    for lane in lanes_at_work {
        steps += lane.await.expect("a lane works");
    }
    let (seconds, after) = (begin.elapsed().as_secs_f64(), store.commits());
    let commits = (after.transactions - before.transactions) as f64;
    println!(
        "{lanes:>6} {size:>8} {:>10.0} {:>12.3} {:>12.2}",
        steps as f64 / seconds,
        seconds * 1_000.0 * f64::from(lanes) / commits,
        (after.round_trips - before.round_trips) as f64 / commits
    );
}

async fn work(store: Arc<PostgresStore>, mut load: Load, size: usize, begin: Instant) -> usize {
    let mut steps = 0;
    while begin.elapsed() < MEASURED {
        store.commit(load.batch(size)).await.expect("the batch is fine");
        steps += size;
    }
    steps
}

/// Instances that take their steps in turn.
struct Load {
    lane: u128,
    runs: Vec<(RunKey, u64)>,
    next: usize,
    started: u128,
}

impl Load {
    fn new(lane: u128) -> Self {
        let mut load = Load { lane, runs: Vec::new(), next: 0, started: 0 };
        load.runs = (0..OPEN).map(|_| (load.fresh(), 2)).collect();
        load
    }

    /// Uids grow with time, as those of version 7 do, and end with a hash; each lane has shards of
    /// its own.
    fn fresh(&mut self) -> RunKey {
        self.started += 1;
        let noise = self.started.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) >> 64;
        let uid = (1_700_000_000_000 + self.started / 20) << 80 | (noise << 16);
        RunKey::first(Uid(uid | (self.lane * 64) | (noise % 64)))
    }

    /// The task of every instance's first call.
    fn first(&self) -> Vec<Step> {
        let insert = |(run, seq): &(RunKey, u64)| TaskWrite::Insert(task(*run, *seq));
        let tasks = |run| Step { tasks: vec![insert(run)], ..Step::default() };
        self.runs.iter().map(tasks).collect()
    }

    fn batch(&mut self, size: usize) -> Arc<[Step]> {
        (0..size).map(|_| self.step()).collect()
    }

    fn step(&mut self) -> Step {
        let place = self.next % OPEN;
        self.next += 1;
        let (run, seq) = self.runs[place];
        let next = match seq < STEPS_EACH * 2 {
            true => (run, seq + 2),
            false => (self.fresh(), 2),
        };
        self.runs[place] = next;
        step(run, seq, next)
    }
}

fn step(run: RunKey, seq: u64, (next_run, next_seq): (RunKey, u64)) -> Step {
    let completed = EventKind::ActivityCompleted(ActivityCompleted {
        activity: Seq(seq),
        result: Payload::from_text(
            r#"{"receipt":"7f9c2ba4e88f827d","amount_cents":129900,"ok":true}"#,
        ),
        attempt: 1,
        started_at: Timestamp::from_millis(1_700_000_000_000),
        after_cancel: false,
        fallback: false,
        retry_metadata: None,
    });
    let scheduled = EventKind::ActivityScheduled(ActivityScheduled {
        name: "charge".into(),
        input: Payload::from_text(r#"{"order_id":"order-123456","cents":129900,"currency":"EUR"}"#),
        queue: "default".into(),
        compensates: None,
    });
    let event =
        |seq, kind| Event { seq: Seq(seq), at: Timestamp::from_millis(1_700_000_000_000), kind };
    Step {
        events: vec![(run, event(seq + 1, completed)), (next_run, event(next_seq, scheduled))],
        tasks: vec![
            TaskWrite::Delete(run.call(Seq(seq))),
            TaskWrite::Insert(task(next_run, next_seq)),
        ],
        ..Step::default()
    }
}

fn task(run: RunKey, seq: u64) -> TaskRow {
    TaskRow {
        call: run.call(Seq(seq)),
        name: "charge".into(),
        queue: "default".into(),
        gate: "charge".into(),
        priority: 0,
        policy: "9f86d081884c7d65".into(),
        attempt: 1,
        wake_at: Timestamp::from_millis(1_700_000_000_000),
        deadline_at: None,
        claim: Some(Claim {
            node: "node-7f9c2ba4".into(),
            token: 0x9e37_79b9_7f4a_7c15,
            started_at: Timestamp::from_millis(1_700_000_000_000),
        }),
        progress: Progress {
            v: 1,
            first_scheduled: Some(Timestamp::from_millis(1_700_000_000_000)),
            first_started: Some(Timestamp::from_millis(1_700_000_000_000)),
            ..Progress::default()
        },
        heartbeat: None,
    }
}
