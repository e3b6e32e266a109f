//! Processes that are killed at any instant, again and again, lose nothing and do nothing twice.
//!
//! A worker keeps a few instances of one workflow going. The test kills it while it opens the file,
//! recovers, works or stops, and starts the next one, for many rounds; the last one finishes what
//! is left. Then history, ledger and a journal outside are compared, see `processes/check.rs`. Real
//! processes take their time, so each test has a quarter of an hour.
//!
//! `RESURGAM_SEED` repeats the failures and the moments of the kills, as far as moments can be
//! repeated; `RESURGAM_KILL_ROUNDS` sets the number of rounds of each test.
#![cfg(unix)]

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use crate::processes::check::{Fate, check};
use crate::processes::driver;
use crate::processes::journal::{Journal, What};
use crate::processes::program::{self, Program};
use crate::processes::workload::{self, Errand, Worker, World};
use crate::processes::{Ground, seed};
use resurgam::{InstanceFilter, Status};
use resurgam_core::{RunKey, Timestamp};
use resurgam_store::Inspect;
use resurgam_store::rows::Message;
use resurgam_store_sqlite::{Options, SqliteStore};
use resurgam_watchdog::test;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

#[test(minutes = 15)]
fn a_process_killed_at_any_instant_loses_nothing_and_repeats_nothing() {
    survive(80, |worker| worker);
}

#[test(minutes = 15)]
fn so_it_is_when_slots_are_few_and_runs_do_not_stay_in_memory() {
    survive(80, |worker| Worker { slots: 3, hot_runs: 1, open: 12, ..worker });
}

#[test(minutes = 15)]
fn so_it_is_when_every_instance_makes_many_calls_at_once() {
    survive(60, |worker| Worker { width: 40, open: 3, slots: 60, ..worker });
}

#[test(minutes = 15)]
fn backoffs_and_timers_end_at_their_original_time_however_often_the_process_dies() {
    let trial = Trial::new(|worker| Worker { errand: Errand::Vigil, open: 1, ..worker });
    let mut known: HashMap<String, Timestamp> = HashMap::new();
    let (mut fates, mut outlived) = (Vec::new(), 0);
    while outlived < 5 {
        assert!(fates.len() < 100, "waits have outlived {outlived} of {} deaths", fates.len());
        let mut program = trial.start(fates.len());
        program.hear_that("works");
        // Lets it come somewhere: it is killed wherever it happens to be.
        thread::sleep(Duration::from_millis(150));
        program.kill();
        fates.push(Fate::Killed);
        let waits = trial.waits();
        outlived += usize::from(waits.keys().any(|wait| known.contains_key(wait)));
        for (wait, due) in waits {
            let before = *known.entry(wait.clone()).or_insert(due);
            assert_eq!(due, before, "{wait} was begun anew");
        }
    }
    trial.finish(fates);
}

/// Lets worker after worker die, and checks everything.
fn survive(rounds: u32, change: fn(Worker) -> Worker) {
    let trial = Trial::new(change);
    let mut random = fastrand::Rng::with_seed(trial.worker.seed);
    let mut fates = Vec::new();
    for _ in 0..crate::processes::rounds(rounds) {
        fates.push(end(trial.start(fates.len()), &mut random));
    }
    trial.finish(fates);
}

/// Workers on one file, one after the other.
struct Trial {
    ground: Ground,
    worker: Worker,
}

impl Trial {
    fn new(change: fn(Worker) -> Worker) -> Self {
        let (ground, seed) = (Ground::new(), seed());
        println!("RESURGAM_SEED={seed}");
        let worker = change(Worker::new(&ground, seed));
        Trial { ground, worker }
    }

    fn start(&self, process: usize) -> Program {
        let process = u32::try_from(process).unwrap();
        Program::start(module_path!(), &Worker { process, ..self.worker.clone() })
    }

    /// What is waited for, by what the file says, and until when: the next attempt of a call, or a
    /// timer.
    fn waits(&self) -> HashMap<String, Timestamp> {
        program::runtime().block_on(async {
            let store = SqliteStore::open(self.ground.file(), Options::default()).unwrap();
            let running =
                InstanceFilter { status: vec![Status::Running], ..InstanceFilter::default() };
            let mut waits = HashMap::new();
            for row in store.list(running).await.unwrap() {
                let run = RunKey { uid: row.uid, run: row.run };
                let mut tasks = store.tasks(run).await.unwrap();
                tasks.retain(|task| task.attempt > 0 && task.claim.is_none());
                for task in tasks {
                    let wait = format!("the wait after attempt {} of {}", task.attempt, task.call);
                    waits.insert(wait, task.wake_at);
                }
                for message in store.messages(row.uid).await.unwrap() {
                    if let Message::Timer { timer, .. } = message.body {
                        waits.insert(format!("timer {timer} of {}", row.id), message.due_at);
                    }
                }
            }
            store.close().await;
            waits
        })
    }

    /// Lets a last worker finish what is left, and compares what is recorded with what was seen.
    fn finish(self, mut fates: Vec<Fate>) {
        let Trial { ground, worker } = self;
        let seed = worker.seed;
        let process = u32::try_from(fates.len()).unwrap();
        let ended = Program::start(module_path!(), &Worker { process, open: 0, ..worker }).wait();
        assert!(ended.success(), "RESURGAM_SEED={seed}: the last process failed");
        fates.push(Fate::Stopped);
        check(ground, seed, &fates);
    }
}

/// Ends a worker: before it works, early or late in its work, or in the middle of its stop.
fn end(mut program: Program, random: &mut fastrand::Rng) -> Fate {
    // Lets it come to some point: it is killed wherever it happens to be then.
    let wait = |micros| thread::sleep(Duration::from_micros(micros));
    let kind = random.u32(0..20);
    if kind < 6 {
        wait(random.u64(0..25_000));
        program.kill();
        return Fate::Killed;
    }
    program.hear_that("works");
    wait(random.u64(if kind < 14 { 0..20_000 } else { 20_000..100_000 }));
    if kind < 17 {
        program.kill();
        return Fate::Killed;
    }
    program.signal(Signal::TERM);
    if kind < 18 {
        let fate = Fate::of_stopped(program.wait());
        assert_ne!(fate, Fate::Killed, "it had heard of the signal");
        return fate;
    }
    wait(random.u64(0..25_000));
    match program.kill().success() {
        true => Fate::Stopped,
        false => Fate::KilledInItsStop,
    }
}

#[test(minutes = 15)]
#[ignore = "other tests start it as a process"]
fn the_program_that_other_tests_start() {
    if let Some(worker) = program::role() {
        program::play(work(worker));
    }
}

async fn work(worker: Worker) {
    let journal = Journal::open(&worker.journal, worker.process);
    journal.write(What::Process);
    let _ears = program::ears();
    let mut told_to_stop = signal(SignalKind::terminate()).unwrap();
    let world = World::new(journal, worker.seed);
    let app = workload::app(&worker, world).await.unwrap();
    program::say("works");
    tokio::select! {
        () = driver::keep_going(&app, &worker) => {}
        _ = told_to_stop.recv() => {}
    }
    workload::stop(app).await;
}
