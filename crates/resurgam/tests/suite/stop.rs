//! A process that is told to end (`SIGTERM`) stops in an orderly way: attempts that run get the
//! grace period, the rest is interrupted and recorded, and the next process goes on at once. Real
//! processes take their time, so each test has a quarter of an hour.
#![cfg(unix)]

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::processes::Ground;
use crate::processes::journal::{self, Ending, Journal, What};
use crate::processes::program::{self, Program};
use crate::processes::workload::{World, begin, end};
use resurgam::prelude::*;
use resurgam::retry::Idempotency;
use resurgam::{AttemptOutcome, AttemptRow, Client, Status};
use resurgam_core::{EventKind, RunKey};
use resurgam_store::Inspect;
use resurgam_store_sqlite::{Options, SqliteStore};
use resurgam_watchdog::test;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

/// One attempt, none more: what is free of charge is seen by going on all the same.
const SINGLE: RetryPolicy = RetryPolicy::once();

const ONCE: RetryPolicy = RetryPolicy::once().idempotency(Idempotency::AtMostOnce);

/// How long a first attempt takes that is to be interrupted, and a grace period that nobody is to
/// wait for: longer than any test.
const TOO_LONG: Duration = Duration::from_secs(3_600);

/// A grace period that ends: long enough for whatever is brief, also on a busy machine.
const GRACE: Duration = Duration::from_secs(8);

/// The first attempt takes as long as the call says, from when the process is told to end: however
/// slow the machine is, it runs then.
#[activity(retry = SINGLE)]
async fn brief(ctx: ActivityContext, work_ms: u64) -> Result<u32, Failure> {
    begin(&ctx);
    if ctx.attempt() == 1 {
        ctx.cancelled().await;
        ctx.sleep(Duration::from_millis(work_ms)).await;
    }
    end(&ctx, Ending::Succeeded, ctx.attempt())
}

#[activity(retry = SINGLE)]
async fn long(ctx: ActivityContext) -> Result<u32, Failure> {
    begin(&ctx);
    ctx.sleep(first_only(&ctx)).await;
    end(&ctx, Ending::Succeeded, ctx.attempt())
}

#[activity(retry = SINGLE)]
fn blocking(ctx: ActivityContext) -> Result<u32, Failure> {
    begin(&ctx);
    // The work itself: a plain function has no other way to take its time.
    thread::sleep(first_only(&ctx));
    end(&ctx, Ending::Succeeded, ctx.attempt())
}

#[activity(retry = ONCE)]
async fn doubtful(ctx: ActivityContext) -> Result<u32, Failure> {
    begin(&ctx);
    ctx.sleep(first_only(&ctx)).await;
    end(&ctx, Ending::Succeeded, ctx.attempt())
}

/// Has nothing to run in: no attempt of it begins in the first process.
#[activity(retry = SINGLE)]
async fn queued(ctx: ActivityContext) -> Result<u32, Failure> {
    begin(&ctx);
    end(&ctx, Ending::Succeeded, ctx.attempt())
}

#[activity(retry = SINGLE)]
async fn endless(ctx: ActivityContext) -> Result<u32, Failure> {
    begin(&ctx);
    ctx.sleep(TOO_LONG).await;
    end(&ctx, Ending::Succeeded, ctx.attempt())
}

fn first_only(ctx: &ActivityContext) -> Duration {
    if ctx.attempt() == 1 { TOO_LONG } else { Duration::ZERO }
}

/// What a worker is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Worker {
    file: PathBuf,
    journal: PathBuf,
    process: u32,
    grace_ms: u64,
    slots: usize,
    work: Work,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Work {
    /// Start nothing.
    Nothing,
    /// Start an attempt that takes this long.
    Brief(u64),
    /// Start one of each, the brief one with an attempt that takes this long.
    Everything(u64),
    /// Start an attempt that is always interrupted.
    Endless,
    /// Go on with that one.
    GoOn,
    /// Finish these.
    Finish(Vec<String>),
}

impl Worker {
    fn new(ground: &Ground, process: u32, grace: Duration, work: Work) -> Self {
        let (file, journal) = (ground.file(), ground.journal());
        let grace_ms = u64::try_from(grace.as_millis()).unwrap();
        Worker { file, journal, process, grace_ms, slots: 4, work }
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
    let app = App::builder()
        .activity(brief)
        .activity(long)
        .activity(blocking)
        .activity(doubtful)
        .activity(queued)
        .activity(endless)
        .state(World::new(journal, 0))
        .slots(worker.slots)
        .grace(Duration::from_millis(worker.grace_ms))
        .sqlite(&worker.file)
        .await
        .unwrap();
    let begun = submit(&app, &worker.work).await;
    until_begun(&worker, begun).await;
    program::say("works");
    told_to_stop.recv().await;
    let client: Client = (*app).clone();
    let late = async {
        tokio::task::yield_now().await;
        client.submit("late", brief(0)).await.map(|_| ())
    };
    let (stopped, late) = tokio::join!(app.stop(), late);
    stopped.unwrap();
    program::say(&format!("stopped, and a late start: {}", late.unwrap_err()));
}

/// Answers with how many attempts of this process are to begin.
async fn submit(app: &App, work: &Work) -> usize {
    match work {
        Work::Nothing => 0,
        Work::Brief(work_ms) => {
            app.submit("brief", brief(*work_ms)).await.unwrap();
            1
        }
        Work::Everything(brief_ms) => {
            app.submit("brief", brief(*brief_ms)).await.unwrap();
            app.submit("long", long()).await.unwrap();
            app.submit("blocking", blocking()).await.unwrap();
            app.submit("doubtful", doubtful()).await.unwrap();
            app.submit("queued", queued()).await.unwrap();
            4
        }
        Work::Endless => {
            app.submit("endless", endless()).await.unwrap();
            1
        }
        Work::GoOn => 1,
        Work::Finish(ids) => {
            for id in ids {
                let instance = app.instance::<u32>(id).await.unwrap().unwrap();
                program::say(&format!("{id} {}", instance.result().await.unwrap()));
            }
            0
        }
    }
}

async fn until_begun(worker: &Worker, count: usize) {
    let begun = || {
        let entries = journal::read(&worker.journal).into_iter();
        let ours = entries.filter(|entry| entry.process == worker.process);
        ours.filter(|entry| matches!(entry.what, What::Begin { .. })).count()
    };
    while begun() < count {
        // The journal is a file, and tells nobody that it has grown. The test waits no longer than
        // it does for any answer.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Sends `SIGTERM` and answers with how long it took to end.
fn stop(mut program: Program) -> Duration {
    let since = Instant::now();
    program.signal(Signal::TERM);
    let said = program.hear().unwrap();
    assert!(said.ends_with("start late: the engine has stopped"), "{said}");
    assert!(program.wait().success());
    since.elapsed()
}

#[test(minutes = 15)]
fn a_stop_gives_attempts_the_grace_period_and_interrupts_the_rest() {
    let ground = Ground::new();
    let first =
        Program::start(module_path!(), &Worker::new(&ground, 0, GRACE, Work::Everything(100)));
    first.hear_that("works");
    let took = stop(first);
    println!("stopped after {took:?}");
    // A busy machine makes it later.
    assert!(took >= GRACE, "some needed all of the grace period");

    let recorded = recorded(&ground);
    let of = |id: &str| recorded.iter().find(|one| one.id == id).unwrap();
    assert_eq!((of("brief").status, of("brief").outcomes()), (Status::Completed, vec![]));
    for id in ["long", "blocking"] {
        assert_eq!(of(id).status, Status::Running);
        assert_eq!(of(id).outcomes(), [AttemptOutcome::Interrupted], "{id}");
        assert_eq!(of(id).ledger[0].delay_ms, Some(0), "{id} need not wait");
    }
    assert_eq!(of("doubtful").status, Status::Failed);
    assert_eq!(of("doubtful").outcomes(), [AttemptOutcome::Interrupted]);
    assert_eq!((of("queued").status, of("queued").outcomes()), (Status::Running, vec![]));
    assert!(recorded.iter().all(|one| one.claims == 0), "nothing waits for a timeout");
}

#[test(minutes = 15)]
fn the_next_process_goes_on_at_once_and_interruptions_are_free() {
    let ground = Ground::new();
    let work = Work::Everything(u64::try_from(TOO_LONG.as_millis()).unwrap());
    let first = Program::start(module_path!(), &Worker::new(&ground, 0, Duration::ZERO, work));
    first.hear_that("works");
    stop(first);
    let ids = ["long", "blocking", "queued", "brief"].map(str::to_string);
    let work = Work::Finish(ids.to_vec());
    let second = Program::start(module_path!(), &Worker::new(&ground, 1, Duration::ZERO, work));
    // All of them may be tried once only, and are: the interrupted attempt was free.
    for line in ["long 2", "blocking 2", "queued 1", "brief 2"] {
        second.hear_that(line);
    }
    second.hear_that("works");
    stop(second);

    let entries = journal::read(&ground.journal());
    let started = entries.iter().find(|entry| entry.process == 1).unwrap().at;
    let mut again = Vec::new();
    for entry in entries.iter().filter(|entry| entry.process == 1) {
        if let What::Begin { activity, attempt, .. } = &entry.what {
            println!("{activity} began {} ms after its process", entry.at - started);
            again.push((activity.clone(), *attempt));
        }
    }
    again.sort();
    // The fast one was interrupted as well: there was no grace period.
    let expected = [("blocking", 2), ("brief", 2), ("long", 2), ("queued", 1)];
    assert_eq!(again, expected.map(|(activity, attempt)| (activity.to_string(), attempt)));
    let recorded = recorded(&ground);
    for one in recorded.iter().filter(|one| one.id != "doubtful") {
        assert_eq!(one.status, Status::Completed, "{}", one.id);
        assert_eq!(one.attempts, if one.id == "queued" { 1 } else { 2 }, "{}", one.id);
        assert!(one.ledger.iter().all(|row| row.delay_ms == Some(0)), "{} need not wait", one.id);
    }
}

#[test(minutes = 15)]
fn a_stop_waits_no_longer_than_the_attempts_do() {
    let ground = Ground::new();
    let idle = Program::start(module_path!(), &Worker::new(&ground, 0, TOO_LONG, Work::Nothing));
    idle.hear_that("works");
    // One that waited for the grace period would not end within this test.
    println!("with nothing to wait for, stopped after {:?}", stop(idle));
    let busy = Program::start(module_path!(), &Worker::new(&ground, 1, TOO_LONG, Work::Brief(200)));
    busy.hear_that("works");
    println!("when its attempt had ended, stopped after {:?}", stop(busy));
    let recorded = recorded(&ground);
    assert_eq!((recorded[0].status, recorded[0].outcomes()), (Status::Completed, vec![]));
}

#[test(minutes = 15)]
fn a_call_may_be_interrupted_more_often_than_its_attempts_may_be_lost() {
    let ground = Ground::new();
    for process in 0..12 {
        let work = if process == 0 { Work::Endless } else { Work::GoOn };
        let worker = Worker::new(&ground, process, Duration::ZERO, work);
        let program = Program::start(module_path!(), &worker);
        program.hear_that("works");
        stop(program);
    }
    let recorded = recorded(&ground);
    assert_eq!(recorded[0].status, Status::Running);
    assert_eq!(recorded[0].outcomes(), [AttemptOutcome::Interrupted; 12]);
}

/// What the file says about an instance.
struct Recorded {
    id: String,
    status: Status,
    ledger: Vec<AttemptRow>,
    /// How many of its tasks are claimed.
    claims: usize,
    /// The attempt that succeeded, 0 when none did.
    attempts: u32,
}

impl Recorded {
    fn outcomes(&self) -> Vec<AttemptOutcome> {
        self.ledger.iter().map(|row| row.outcome).collect()
    }
}

fn recorded(ground: &Ground) -> Vec<Recorded> {
    program::runtime().block_on(async {
        let store = SqliteStore::open(ground.file(), Options::default()).unwrap();
        let mut recorded = Vec::new();
        for row in store.list(Default::default()).await.unwrap() {
            let run = RunKey { uid: row.uid, run: row.run };
            let tasks = store.tasks(run).await.unwrap();
            let events = store.history(run).await.unwrap();
            let completed = events.iter().find_map(|event| match &event.kind {
                EventKind::ActivityCompleted(done) => Some(done.attempt),
                _ => None,
            });
            recorded.push(Recorded {
                id: row.id,
                status: row.status,
                ledger: store.attempts(run).await.unwrap(),
                claims: tasks.iter().filter(|task| task.claim.is_some()).count(),
                attempts: completed.unwrap_or(0),
            });
        }
        store.close().await;
        recorded
    })
}
