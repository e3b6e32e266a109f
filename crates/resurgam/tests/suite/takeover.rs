//! Workers that take over from each other at any instant, beside clients that die as well, lose
//! nothing and do nothing twice.
//!
//! As `kill.rs`, with a standby beside every owner, and with everything started and signalled by
//! another process. See there for `RESURGAM_SEED`, `RESURGAM_KILL_ROUNDS` and the time it has.
#![cfg(unix)]

use std::thread;
use std::time::Duration;

use crate::processes::check::{Fate, check};
use crate::processes::driver;
use crate::processes::journal::{Journal, What};
use crate::processes::program::{self, Program};
use crate::processes::workload::{self, Worker, World};
use crate::processes::{Ground, rounds, seed};
use resurgam::Client;
use resurgam_watchdog::test;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

/// What a program is.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Role {
    /// Works on the file, or stands by.
    Worker(Worker),
    /// Keeps instances going.
    Client(Worker),
}

#[test(minutes = 15)]
#[ignore = "other tests start it as a process"]
fn the_program_that_other_tests_start() {
    match program::role() {
        Some(Role::Worker(worker)) => program::play(work(worker)),
        Some(Role::Client(worker)) => program::play(async move {
            let _ears = program::ears();
            let client = Client::sqlite(&worker.file).await.unwrap();
            driver::keep_going(&client, &worker).await;
        }),
        None => {}
    }
}

async fn work(worker: Worker) {
    let _ears = program::ears();
    let mut told_to_stop = signal(SignalKind::terminate()).unwrap();
    let journal = || Journal::open(&worker.journal, worker.process);
    let app = workload::app(&worker, World::new(journal(), worker.seed)).await.unwrap();
    program::say("opened");
    tokio::select! {
        owner = app.until_owner() => {
            owner.unwrap();
            journal().write(What::Works);
            told_to_stop.recv().await;
        }
        _ = told_to_stop.recv() => {}
    }
    workload::stop(app).await;
}

#[test(minutes = 15)]
fn workers_that_take_over_from_each_other_lose_nothing_and_repeat_nothing() {
    let (ground, seed) = (Ground::new(), seed());
    println!("RESURGAM_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut stage = Stage { worker: Worker::new(&ground, seed), fates: Vec::new() };
    let mut owner = stage.worker();
    owner.1.hear_that("opened");
    let mut client = stage.client(8);
    for _ in 0..rounds(60) {
        let standby = stage.worker();
        // Lets them come to some point: one is ended wherever it happens to be then.
        thread::sleep(Duration::from_micros(random.u64(0..60_000)));
        if random.u32(0..5) == 0 {
            stage.end(client, Fate::Killed);
            client = stage.client(8);
        }
        let fate = if random.u32(0..4) == 0 { Fate::Stopped } else { Fate::Killed };
        // Now and then it is the one that stands by, or has not come to that yet.
        if random.u32(0..4) == 0 {
            stage.end(standby, fate);
            continue;
        }
        stage.end(owner, fate);
        standby.1.hear_that("opened");
        owner = standby;
    }
    stage.end(client, Fate::Killed);
    let mut last = stage.client(0);
    assert!(last.1.wait().success(), "RESURGAM_SEED={seed}: the last client failed");
    stage.end(owner, Fate::Stopped);
    check(ground, seed, &stage.fates);
}

/// Processes, each with its number.
struct Stage {
    worker: Worker,
    fates: Vec<Fate>,
}

type Numbered = (usize, Program);

impl Stage {
    fn worker(&mut self) -> Numbered {
        self.start(Role::Worker)
    }

    /// A client that keeps this many instances open.
    fn client(&mut self, open: usize) -> Numbered {
        self.worker.open = open;
        self.start(Role::Client)
    }

    fn start(&mut self, role: fn(Worker) -> Role) -> Numbered {
        let number = self.fates.len();
        // Until it ends in another way.
        self.fates.push(Fate::Killed);
        let process = u32::try_from(number).unwrap();
        (number, Program::start(module_path!(), &role(Worker { process, ..self.worker.clone() })))
    }

    fn end(&mut self, (number, mut program): Numbered, fate: Fate) {
        let process = u32::try_from(number).unwrap();
        Journal::open(&self.worker.journal, process).write(What::Ends);
        self.fates[number] = fate;
        if fate == Fate::Stopped {
            program.signal(Signal::TERM);
            self.fates[number] = Fate::of_stopped(program.wait());
            if self.fates[number] == Fate::Stopped {
                return;
            }
        }
        program.kill();
    }
}
