//! How many steps a second one store takes, by size of batch.
//!
//! A step is what an activity's completion commits: its event, the deletion of its task, the event
//! that schedules the next call, and that call's task. The folder decides what is measured: on a
//! disk the waiting for it, in memory our own work.
//!
//! `cargo bench -p resurgam-store-sqlite`, with `BENCH_FOLDER=/dev/shm` for our own work only.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_core::event::{ActivityCompleted, ActivityScheduled};
use resurgam_core::{Event, EventKind, Payload, RunKey, Seq, Timestamp, Uid};
use resurgam_store::rows::{Claim, Progress, TaskRow};
use resurgam_store::{Commit, Step, TaskWrite};
use resurgam_store_sqlite::{Options, SqliteStore, SyncMode};

/// How long each size is measured, about.
const MEASURED: Duration = Duration::from_secs(2);
/// How many instances are open at a time, and how many steps each takes before another follows it.
const OPEN: usize = 2_000;
const STEPS_EACH: u64 = 20;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let folder = std::env::var_os("BENCH_FOLDER").map_or_else(std::env::temp_dir, PathBuf::from);
    println!("steps per second in {}", folder.display());
    println!("{:>12} {:>8} {:>10} {:>12}", "synchronous", "batch", "steps/s", "ms/commit");
    for sync in [SyncMode::Full, SyncMode::Normal] {
        for size in [1, 10, 100, 1_000] {
            let folder = tempfile::tempdir_in(&folder).expect("the folder is there");
            let options = Options::default().sync(sync);
            let store = SqliteStore::open(folder.path().join("bench.db"), options);
            let (steps, commits, elapsed) = measure(&store.expect("a fresh file"), size).await;
            let seconds = elapsed.as_secs_f64();
            println!(
                "{:>12} {size:>8} {:>10.0} {:>12.3}",
                format!("{sync:?}"),
                steps as f64 / seconds,
                seconds * 1_000.0 / commits as f64
            );
        }
    }
}

async fn measure(store: &SqliteStore, size: usize) -> (usize, usize, Duration) {
    let mut load = Load::new();
    store.commit(load.first().into()).await.expect("a fresh database");
    let (mut steps, mut commits, mut elapsed) = (0, 0, Duration::ZERO);
    while elapsed < MEASURED {
        // Making the steps is the engine's work and not measured.
        let batches: Vec<Arc<[Step]>> = (0..10).map(|_| load.batch(size)).collect();
        let begin = Instant::now();
        for batch in batches {
            store.commit(batch).await.expect("the batch is fine");
            commits += 1;
            steps += size;
        }
        elapsed += begin.elapsed();
    }
    (steps, commits, elapsed)
}

/// Instances that take their steps in turn.
struct Load {
    runs: Vec<(RunKey, u64)>,
    next: usize,
    started: u128,
}

impl Load {
    fn new() -> Self {
        let mut load = Load { runs: Vec::new(), next: 0, started: 0 };
        load.runs = (0..OPEN).map(|_| (load.fresh(), 2)).collect();
        load
    }

    /// Uids grow with time, as those of version 7 do.
    fn fresh(&mut self) -> RunKey {
        self.started += 1;
        let noise = self.started.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) >> 64;
        RunKey::first(Uid((1_700_000_000_000 + self.started / 20) << 80 | noise))
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
        compensates: None,
        queue: "default".into(),
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
