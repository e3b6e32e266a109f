//! Several processes on one file: one works, others stand by for it or ask for things, and all of
//! them see the same.
//!
//! Every program here, the owner, a standby or a client, answers the same questions, so that each
//! of them can be asked from any side. The test itself is one more process, and a client. Real
//! processes take their time, so each test has a quarter of an hour.
#![cfg(unix)]

use std::collections::HashSet;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::processes::journal::{self, Ending, Entry, Journal, What};
use crate::processes::program::{self, Program};
use crate::processes::workload::{World, begin, end};
use crate::processes::{Ground, now_ms, until, until_some};
use resurgam::prelude::*;
use resurgam::retry::LostWorker;
use resurgam::{Client, InstanceFilter, SqliteOptions, Status};
use resurgam_watchdog::test;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

/// Fails for ever, every few milliseconds: whoever works is seen at work. A lost attempt is soon
/// tried again too, so that what is measured is the takeover and not a backoff.
const TICKING: RetryPolicy = RetryPolicy::fixed(TICK).unlimited().lost_worker(LostWorker {
    max: 1_000,
    initial: TICK,
    max_delay: TICK,
});

const TICK: Duration = Duration::from_millis(3);

#[activity(retry = TICKING)]
async fn tick(ctx: ActivityContext) -> Result<u32, Failure> {
    begin(&ctx);
    end(&ctx, Ending::Failed, 0)
}

#[activity]
async fn double(ctx: ActivityContext, number: u32) -> Result<u32, Failure> {
    begin(&ctx);
    end(&ctx, Ending::Succeeded, 2 * number)
}

#[workflow]
async fn ticking(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.call(tick()).await
}

#[workflow]
async fn doubled(ctx: WorkflowContext, number: u32) -> Result<u32, Failure> {
    ctx.call(double(number)).await
}

/// Doubles the number that it is sent.
#[workflow]
async fn asked(ctx: WorkflowContext) -> Result<u32, Failure> {
    let number = ctx.signal("number").await?;
    ctx.call(double(number)).await
}

/// What a program is.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Role {
    Worker { file: PathBuf, journal: PathBuf, process: u32 },
    Client { file: PathBuf },
}

/// What a program can be asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Ask {
    Start { id: String, workflow: String, request_id: Option<String> },
    Signal { id: String, number: u32 },
    Cancel { id: String },
    Wait { id: String },
    List,
    Owner,
    IsOwner,
}

#[test(minutes = 15)]
#[ignore = "other tests start it as a process"]
fn the_program_that_other_tests_start() {
    match program::role() {
        Some(Role::Worker { file, journal, process }) => {
            program::play(work(file, Journal::open(&journal, process)));
        }
        Some(Role::Client { file }) => program::play(async {
            let client = Client::sqlite(file).await.unwrap();
            program::say("opened");
            answer_all(client).await;
        }),
        None => {}
    }
}

async fn work(file: PathBuf, journal: Journal) {
    journal.write(What::Process);
    let mut told_to_stop = signal(SignalKind::terminate()).unwrap();
    let app = App::builder()
        .workflow(ticking)
        .workflow(doubled)
        .workflow(asked)
        .activity(tick)
        .activity(double)
        .state(World::new(journal, 0))
        .grace(Duration::ZERO)
        .sqlite(file)
        .await
        .unwrap();
    program::say("opened");
    let client: Client = (*app).clone();
    tokio::select! {
        () = answer_all(client) => {}
        _ = told_to_stop.recv() => {}
    }
    app.stop().await.unwrap();
}

async fn answer_all(client: Client) {
    let mut ears = program::ears();
    while let Some(line) = ears.recv().await {
        let answer = answer(&client, serde_json::from_str(&line).unwrap()).await;
        program::say(&answer.unwrap_or_else(|error| describe(&error)));
    }
}

/// An error as a line: what its callers can act on, and its text.
fn describe(error: &resurgam::Error) -> String {
    let kind = match error {
        _ if error.is_already_exists() => "already exists",
        _ if error.is_unknown() => "unknown",
        _ if error.is_closed() => "closed",
        _ => "other",
    };
    format!("{kind}: {error}")
}

async fn answer(client: &Client, ask: Ask) -> resurgam::Result<String> {
    Ok(match ask {
        Ask::Start { id, workflow, request_id } => {
            let argument = serde_json::json!({ "number": 21 });
            let mut start = client.start_named::<u32>(id, &workflow, &argument);
            if let Some(request_id) = request_id {
                start = start.request_id(request_id);
            }
            format!("started {}", start.await?.uid())
        }
        Ask::Signal { id, number } => {
            client.signal(&id, "number", &number).await?;
            "signalled".to_string()
        }
        Ask::Cancel { id } => {
            client.cancel(&id, "nobody wants it").await?;
            "cancelled".to_string()
        }
        Ask::Wait { id } => {
            let instance = client.instance::<u32>(&id).await?.unwrap();
            format!("{:?}", instance.outcome().await?)
        }
        Ask::List => {
            let rows = client.list(InstanceFilter::default()).await?;
            let mut lines: Vec<String> =
                rows.iter().map(|row| format!("{} {}", row.id, row.status.name())).collect();
            lines.sort();
            lines.join(", ")
        }
        Ask::Owner => match client.owner().await? {
            Some(owner) => owner.pid.to_string(),
            None => "nobody".to_string(),
        },
        Ask::IsOwner => client.is_owner().to_string(),
    })
}

/// A folder with a file that several processes share.
struct Shared {
    ground: Ground,
}

impl Shared {
    fn new() -> Self {
        Shared { ground: Ground::new() }
    }

    /// A worker that has opened the file.
    fn worker(&self, process: u32) -> Asked {
        let (file, journal) = (self.ground.file(), self.ground.journal());
        Asked::start(&Role::Worker { file, journal, process })
    }

    /// A client that has opened the file.
    fn client(&self) -> Asked {
        Asked::start(&Role::Client { file: self.ground.file() })
    }

    fn begins(&self) -> Vec<Entry> {
        let entries = journal::read(&self.ground.journal()).into_iter();
        entries.filter(|entry| matches!(entry.what, What::Begin { .. })).collect()
    }

    /// When a process was first seen to begin an attempt.
    fn first_begin(&self, process: u32) -> i64 {
        let first = until_some(&format!("an attempt begins in process {process}"), || {
            self.begins().into_iter().find(|entry| entry.process == process)
        });
        first.at
    }

    fn nothing_began_twice(&self) {
        let mut seen = HashSet::new();
        for entry in self.begins() {
            let What::Begin { key, attempt, .. } = entry.what else { continue };
            assert!(seen.insert((key.clone(), attempt)), "attempt {attempt} of {key} began twice");
        }
    }
}

/// A program that answers.
struct Asked {
    program: Program,
}

impl Asked {
    fn start(role: &Role) -> Self {
        let program = Program::start(module_path!(), role);
        program.hear_that("opened");
        Asked { program }
    }

    fn ask(&mut self, ask: Ask) -> String {
        self.program.ask(&serde_json::to_string(&ask).unwrap())
    }

    fn start_one(&mut self, id: &str, workflow: &str) -> String {
        let (id, workflow) = (id.to_string(), workflow.to_string());
        self.ask(Ask::Start { id, workflow, request_id: None })
    }

    fn wait_for(&mut self, id: &str) -> String {
        self.ask(Ask::Wait { id: id.to_string() })
    }

    fn is_owner(&mut self) -> bool {
        self.ask(Ask::IsOwner) == "true"
    }
}

#[test(minutes = 15)]
fn one_process_works_and_the_other_stands_by() {
    let shared = Shared::new();
    let began = now_ms();
    let (mut first, mut second) = (shared.worker(0), shared.worker(1));
    assert!(first.is_owner() && !second.is_owner());
    let mut client = shared.client();
    assert!(!client.is_owner());
    for program in [&mut first, &mut second, &mut client] {
        let pid = program.program.pid();
        assert!(program.start_one(&format!("by-{pid}"), "doubled").starts_with("started "));
        assert!(program.wait_for(&format!("by-{pid}")).contains("42"));
    }
    assert!(shared.begins().iter().all(|entry| entry.process == 0), "only the owner works");
    program::runtime().block_on(async {
        let client = Client::sqlite(shared.ground.file()).await.unwrap();
        let owner = client.owner().await.unwrap().unwrap();
        assert_eq!(owner.pid, first.program.pid());
        assert!(!owner.node.is_empty() && !owner.program.is_empty(), "{owner:?}");
        assert!((began..=now_ms()).contains(&owner.since.as_millis()), "{owner:?}");
    });
}

#[test(minutes = 15)]
fn a_standby_takes_over_at_once_when_the_owner_is_killed() {
    let shared = Shared::new();
    let mut owner = shared.worker(0);
    for number in 0..8 {
        assert!(owner.start_one(&format!("ticking-{number}"), "ticking").starts_with("started "));
    }
    let mut took = Vec::new();
    for process in 1..=7 {
        let standby = shared.worker(process);
        shared.first_begin(process - 1);
        // Lets it come to some point: it is killed wherever it happens to be then.
        thread::sleep(Duration::from_millis(fastrand::u64(0..30)));
        let killed = now_ms();
        owner.program.kill();
        took.push(shared.first_begin(process) - killed);
        owner = standby;
        assert!(owner.is_owner());
    }
    took.sort_unstable();
    println!("from kill -9 to the first attempt of the next process: {took:?} ms");
    assert!(took[0] >= 0, "nobody works beside an owner");
    shared.nothing_began_twice();
}

#[test(minutes = 15)]
fn a_standby_takes_over_at_once_when_the_owner_stops() {
    let shared = Shared::new();
    let mut first = shared.worker(0);
    first.start_one("ticking", "ticking");
    shared.first_begin(0);
    let mut second = shared.worker(1);
    let stopped = now_ms();
    first.program.signal(Signal::TERM);
    assert!(first.program.wait().success());
    println!("from SIGTERM to the next process: {} ms", shared.first_begin(1) - stopped);
    assert!(second.is_owner());
    shared.nothing_began_twice();
}

#[test(minutes = 15)]
fn a_client_starts_signals_cancels_waits_and_lists_also_across_a_takeover() {
    let shared = Shared::new();
    let mut first = shared.worker(0);
    let mut client = shared.client();
    for id in ["signalled", "cancelled", "later"] {
        assert!(client.start_one(id, "asked").starts_with("started "));
    }
    assert_eq!(client.ask(Ask::Signal { id: "signalled".into(), number: 4 }), "signalled");
    assert_eq!(client.ask(Ask::Cancel { id: "cancelled".into() }), "cancelled");
    assert!(client.wait_for("signalled").contains('8'));
    assert!(client.wait_for("cancelled").starts_with("Cancelled"));
    let before = "cancelled cancelled, later running, signalled completed";
    assert_eq!(client.ask(Ask::List), before);

    let mut second = shared.worker(1);
    first.program.kill();
    // Nobody may work at this moment; what is asked for is kept.
    assert!(client.start_one("between", "doubled").starts_with("started "));
    assert_eq!(client.ask(Ask::Signal { id: "later".into(), number: 5 }), "signalled");
    assert!(client.wait_for("later").contains("10"));
    assert!(client.wait_for("between").contains("42"));
    assert_eq!(client.ask(Ask::Owner), second.program.pid().to_string());
    let after = "between completed, cancelled cancelled, later completed, signalled completed";
    for program in [&mut client, &mut second] {
        assert_eq!(program.ask(Ask::List), after);
    }
    shared.nothing_began_twice();
}

#[test(minutes = 15)]
fn what_is_asked_for_while_nobody_works_is_done_by_whoever_comes() {
    let shared = Shared::new();
    shared.worker(0).program.kill();
    let mut client = shared.client();
    assert_eq!(client.ask(Ask::Owner), "nobody");
    assert!(client.start_one("early", "asked").starts_with("started "));
    assert_eq!(client.ask(Ask::Signal { id: "early".into(), number: 6 }), "signalled");
    assert!(client.start_one("unwanted", "asked").starts_with("started "));
    assert_eq!(client.ask(Ask::Cancel { id: "unwanted".into() }), "cancelled");
    let _worker = shared.worker(1);
    assert!(client.wait_for("early").contains("12"));
    assert!(client.wait_for("unwanted").starts_with("Cancelled"));
}

#[test(minutes = 15)]
fn a_client_hears_of_every_result_once_it_is_there() {
    let shared = Shared::new();
    let _worker = shared.worker(0);
    let mut client = shared.client();
    let (mut heard, mut whole) = (Vec::new(), Vec::new());
    for number in 0..20 {
        let (id, since) = (format!("doubled-{number}"), Instant::now());
        client.start_one(&id, "doubled");
        assert!(client.wait_for(&id).contains("42"));
        let now = now_ms();
        whole.push(since.elapsed().as_millis());
        let last = journal::read(&shared.ground.journal()).pop().unwrap();
        heard.push(now - last.at);
    }
    heard.sort_unstable();
    whole.sort_unstable();
    println!("from the end of the attempt to the client: {heard:?} ms");
    println!("from the client's start to its result: {whole:?} ms");
    assert!(heard[0] >= 0, "nothing is heard before it is there");
}

#[test(minutes = 15)]
fn an_owner_that_stands_still_stays_the_owner() {
    let shared = Shared::new();
    let mut owner = shared.worker(0);
    for number in 0..4 {
        owner.start_one(&format!("ticking-{number}"), "ticking");
    }
    shared.first_begin(0);
    let (mut standby, mut client) = (shared.worker(1), shared.client());
    owner.program.signal(Signal::STOP);
    let begun = shared.begins().len();
    // That the standby does not take over can only be seen by waiting for a while.
    let end = Instant::now() + Duration::from_millis(1_000);
    while Instant::now() < end {
        assert!(!standby.is_owner(), "it took over from an owner that lives");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(client.ask(Ask::Owner), owner.program.pid().to_string());
    // One attempt may have been on its way when everything stood still.
    assert!(shared.begins().len() <= begun + 4, "nobody works");
    owner.program.signal(Signal::CONT);
    until("the owner goes on", || shared.begins().len() > begun + 40);
    assert!(owner.is_owner() && !standby.is_owner());
    client.start_one("doubled", "doubled");
    assert!(client.wait_for("doubled").contains("42"));
    assert!(shared.begins().iter().all(|entry| entry.process == 0));
    shared.nothing_began_twice();
}

#[test(minutes = 15)]
fn a_client_gets_its_turn_beside_an_owner_under_full_load() {
    const STARTS: usize = 500;
    let shared = Shared::new();
    let mut owner = shared.worker(0);
    for number in 0..200 {
        owner.start_one(&format!("ticking-{number}"), "ticking");
    }
    let before = shared.begins().len();
    program::runtime().block_on(async {
        let client = Client::sqlite(shared.ground.file()).await.unwrap();
        let (since, mut slowest, mut started) = (Instant::now(), Duration::ZERO, Vec::new());
        for number in 0..STARTS {
            let one = Instant::now();
            let id = format!("doubled-{number}");
            started.push(client.start(id, doubled(u32::try_from(number).unwrap())).await.unwrap());
            slowest = slowest.max(one.elapsed());
        }
        let all = since.elapsed();
        for (number, instance) in started.iter().enumerate() {
            assert_eq!(instance.result().await.unwrap() as usize, 2 * number);
        }
        let done = since.elapsed();
        let ticks = shared.begins().len() - before;
        println!(
            "{STARTS} starts, one after the other, took {all:?}, the slowest {slowest:?}; all were \
             done after {done:?}, beside {ticks} attempts"
        );
        assert!(ticks > 0, "the owner worked meanwhile");
        let completed = InstanceFilter {
            status: vec![Status::Completed],
            limit: 2 * STARTS,
            ..InstanceFilter::default()
        };
        assert_eq!(client.list(completed).await.unwrap().len(), STARTS);
    });
    shared.nothing_began_twice();
}

#[test(minutes = 15)]
fn one_request_to_start_is_one_instance_whoever_repeats_it() {
    let shared = Shared::new();
    let (mut owner, mut standby, mut client) =
        (shared.worker(0), shared.worker(1), shared.client());
    for number in 0..20 {
        let id = format!("doubled-{number}");
        let workflow = "doubled".to_string();
        let ask =
            Ask::Start { id: id.clone(), workflow, request_id: Some(format!("request-{id}")) };
        let line = serde_json::to_string(&ask).unwrap();
        // All at once, so that they meet.
        let mut programs = [&mut owner, &mut standby, &mut client];
        programs.iter_mut().for_each(|asked| asked.program.tell(&line));
        let answers: Vec<String> =
            programs.iter().map(|asked| asked.program.hear().unwrap()).collect();
        assert!(answers[0].starts_with("started "), "{answers:?}");
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        assert!(client.wait_for(&id).contains("42"));
        // Also when it is over.
        for program in [&mut owner, &mut standby, &mut client] {
            assert_eq!(program.ask(ask.clone()), answers[0]);
        }
    }
    assert_eq!(shared.begins().len(), 20);
    shared.nothing_began_twice();
}

#[test(minutes = 15)]
fn mistakes_are_answered_clearly_by_every_process() {
    let shared = Shared::new();
    let (mut owner, mut standby, mut client) =
        (shared.worker(0), shared.worker(1), shared.client());
    client.start_one("over", "doubled");
    client.wait_for("over");
    client.start_one("open", "asked");
    for program in [&mut owner, &mut standby, &mut client] {
        for id in ["over", "open"] {
            let answer = program.start_one(id, "doubled");
            let expected = format!("already exists: start {id}: an instance of this id exists");
            assert!(answer.starts_with(&expected), "{answer}");
        }
        let answer = program.ask(Ask::Signal { id: "nowhere".into(), number: 1 });
        assert_eq!(answer, "unknown: signal number to nowhere: there is no instance of this id");
        let answer = program.ask(Ask::Signal { id: "over".into(), number: 1 });
        assert_eq!(answer, "closed: signal number to over: the instance is closed (completed)");
        let answer = program.ask(Ask::Cancel { id: "nowhere".into() });
        assert_eq!(answer, "unknown: cancel nowhere: there is no instance of this id");
        let answer = program.ask(Ask::Cancel { id: "over".into() });
        assert_eq!(answer, "closed: cancel over: the instance is closed (completed)");
    }
    for program in [&mut owner, &mut standby] {
        let answer = program.start_one("strange", "strange");
        assert!(
            answer.starts_with("unknown: start strange: workflow strange is unknown; known are"),
            "{answer}"
        );
    }
}

#[test(minutes = 15)]
fn a_workflow_that_only_the_owner_could_know_waits_with_the_reason() {
    let shared = Shared::new();
    let _owner = shared.worker(0);
    let mut client = shared.client();
    assert!(client.start_one("strange", "strange").starts_with("started "));
    let runtime = program::runtime();
    let client = runtime.block_on(Client::sqlite(shared.ground.file())).unwrap();
    let reason = until_some("it is said why it waits", || {
        let row = runtime.block_on(client.find("strange")).unwrap().unwrap();
        row.error.filter(|_| row.status == Status::Running)
    });
    assert!(reason.contains("workflow strange is not registered"), "{reason}");
}

#[test(minutes = 15)]
fn a_file_that_another_program_writes_to_without_end_is_refused_and_can_be_used_later() {
    let shared = Shared::new();
    shared.worker(0).program.kill();
    let other = rusqlite::Connection::open(shared.ground.file()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    program::runtime().block_on(async {
        let busy = SqliteOptions::default().busy_timeout(Duration::from_millis(100));
        let app = App::builder().sqlite_options(busy).sqlite(shared.ground.file()).await;
        let text = app.unwrap_err().to_string();
        assert!(text.contains("app.db") && text.contains("locked"), "{text}");
    });
    other.execute_batch("COMMIT").unwrap();
    assert!(shared.worker(1).start_one("doubled", "doubled").starts_with("started "));
}
