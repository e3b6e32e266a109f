//! Money moves exactly once, however often the process that moves it is killed.
//!
//! Workers move money between accounts in transactions of activities, and are killed at any instant
//! for many rounds, some of them while the next one stands by already. Every transfer notes its
//! call in a table that would take it twice. In the end the accounts hold together what they held
//! in the beginning, each what the notes say, and there is one note for each call that the
//! histories call completed, and for no other.
//!
//! `RESURGAM_SEED` repeats the failures and the moments of the kills, as far as moments can be
//! repeated; `RESURGAM_KILL_ROUNDS` sets the number of rounds. Real processes take their time, so
//! the test has a quarter of an hour.
#![cfg(unix)]

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::processes::program::{self, Program};
use crate::processes::{Ground, seed};
use resurgam::prelude::*;
use resurgam::retry::LostWorker;
use resurgam::sqlite::TransactionExt;
use resurgam::sqlite::rusqlite::Transaction;
use resurgam::{Client, InstanceFilter, Status};
use resurgam_core::{EventKind, RunKey};
use resurgam_watchdog::test;
use serde::{Deserialize, Serialize};

/// How many accounts there are, and what each holds in the beginning.
const ACCOUNTS: u32 = 6;
const CENTS: i64 = 1_000;

/// How many transfers each instance makes.
const TRANSFERS: u32 = 6;

#[test(minutes = 15)]
fn transfers_survive_any_number_of_kills_and_are_applied_exactly_once() {
    let (ground, seed) = (Ground::new(), seed());
    println!("RESURGAM_SEED={seed}");
    let teller = Teller { file: ground.file(), seed, process: 0, open: 8 };
    let start = |process| Program::start(module_path!(), &Teller { process, ..teller.clone() });
    let mut random = fastrand::Rng::with_seed(seed);
    let mut program = start(0);
    // However slow the machine is, there is something to lose.
    program.hear_that("works");
    program.hear_that("all are started");
    let rounds = crate::processes::rounds(120);
    for process in 1..=rounds {
        // Sometimes the next one stands by already, and takes over at once.
        let next = random.bool().then(|| start(process));
        if process > 1 && random.u32(0..4) > 0 {
            program.hear_that("works");
        }
        // Lets it come to some point: it is killed wherever it happens to be then.
        thread::sleep(Duration::from_micros(random.u64(0..40_000)));
        program.kill();
        program = next.unwrap_or_else(|| start(process));
    }
    program.kill();
    let last = Teller { process: rounds + 1, open: 0, ..teller };
    assert!(
        Program::start(module_path!(), &last).wait().success(),
        "RESURGAM_SEED={seed}: the last one failed"
    );
    program::runtime().block_on(check(&ground, seed));
}

/// What a process is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Teller {
    file: PathBuf,
    /// What decides about amounts and failures.
    seed: u64,
    /// Which process this is, counted by the test.
    process: u32,
    /// How many instances are kept open; 0 to finish what is there, and end.
    open: usize,
}

/// Lost attempts are followed by another, however often the process dies.
const POLICY: RetryPolicy =
    RetryPolicy::fixed(Duration::from_millis(3)).max_attempts(6).lost_worker(LostWorker {
        max: 10_000,
        initial: Duration::from_millis(1),
        max_delay: Duration::from_millis(5),
    });

/// What decides about amounts and failures.
struct Seed(u64);

fn drawn(parts: impl Hash) -> fastrand::Rng {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    fastrand::Rng::with_seed(hasher.finish())
}

#[activity(retry = POLICY)]
async fn transfer(ctx: ActivityContext, number: u32) -> Result<i64, Failure> {
    let seed = ctx.state::<Seed>().0;
    let mut amounts = drawn((seed, ctx.instance(), number));
    let (from, to) = (amounts.u32(0..ACCOUNTS), amounts.u32(0..ACCOUNTS));
    let cents = amounts.i64(1..400);
    let mut luck = drawn((seed, ctx.instance(), number, ctx.attempt()));
    ctx.sleep(Duration::from_micros(luck.u64(0..4_000))).await;
    let (key, fate) = (ctx.idempotency_key(), luck.u32(0..100));
    ctx.transaction(move |tx| {
        let left = moved(tx, from, to, cents)?;
        tx.execute("INSERT INTO applied VALUES (?1, ?2, ?3, ?4)", (&key, from, to, cents))?;
        match fate {
            0..15 => Err(Failure::new("after everything was written")),
            15..20 => panic!("after everything was written"),
            _ => Ok(left),
        }
    })
    .await
}

/// What is left where the money came from.
fn moved(tx: &Transaction<'_>, from: u32, to: u32, cents: i64) -> Result<i64, Failure> {
    tx.execute("UPDATE account SET cents = cents - ?2 WHERE id = ?1", (from, cents))?;
    let left = tx.query_row("SELECT cents FROM account WHERE id = ?1", [from], |row| row.get(0))?;
    if left < 0 {
        return Err(Failure::terminal("not enough money").with_type("Broke"));
    }
    tx.execute("UPDATE account SET cents = cents + ?2 WHERE id = ?1", (to, cents))?;
    Ok(left)
}

/// Some one after the other, some at once. A transfer that fails for good is none.
#[workflow]
async fn errand(ctx: WorkflowContext) -> Result<u32, Failure> {
    let mut made = 0;
    for number in 0..TRANSFERS / 2 {
        made += u32::from(ctx.call(transfer(number)).await.is_ok());
    }
    let rest = (TRANSFERS / 2..TRANSFERS).map(|number| {
        let call = ctx.call(transfer(number));
        async move { Ok::<_, Failure>(call.await.is_ok()) }
    });
    let rest = ctx.join_all(rest).await?;
    Ok(made + rest.into_iter().map(u32::from).sum::<u32>())
}

fn set_up(tx: &Transaction<'_>) -> Result<(), Failure> {
    tx.execute_batch(
        "CREATE TABLE IF NOT EXISTS account (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL);
         -- Not unique: whoever is applied twice is to be found out.
         CREATE TABLE IF NOT EXISTS applied (key TEXT, source INTEGER, target INTEGER, cents INTEGER);",
    )?;
    for id in 0..ACCOUNTS {
        tx.execute("INSERT OR IGNORE INTO account VALUES (?1, ?2)", (id, CENTS))?;
    }
    Ok(())
}

#[test(minutes = 15)]
#[ignore = "other tests start it as a process"]
fn the_program_that_other_tests_start() {
    if let Some(teller) = program::role() {
        // Panics are part of the plan, and nothing to read.
        std::panic::set_hook(Box::new(|panic| {
            let planned = panic.payload().downcast_ref::<&str>();
            if planned.is_none_or(|text| *text != "after everything was written") {
                eprintln!("{panic}");
            }
        }));
        program::play(work(teller));
    }
}

async fn work(teller: Teller) {
    let _ears = program::ears();
    let app = App::builder()
        .workflow(errand)
        .activity(transfer)
        .state(Seed(teller.seed))
        .sqlite_setup(set_up)
        .sqlite(&teller.file)
        .await
        .unwrap();
    program::say("works");
    let running = InstanceFilter { status: vec![Status::Running], ..InstanceFilter::default() };
    let (mut number, mut is_told) = (0, false);
    loop {
        let open = app.list(running.clone()).await.unwrap().len();
        if open == 0 && teller.open == 0 {
            return app.stop().await.unwrap();
        }
        for _ in open..teller.open {
            app.start(format!("{}-{number}", teller.process), errand()).await.unwrap();
            number += 1;
        }
        if !std::mem::replace(&mut is_told, true) {
            program::say("all are started");
        }
        // The end of an instance could be waited for; that of any of them cannot.
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
}

/// A note of a transfer.
struct Note {
    key: String,
    from: u32,
    to: u32,
    cents: i64,
}

async fn check(ground: &Ground, seed: u64) {
    let client = Client::sqlite(ground.file()).await.unwrap();
    let notes = notes(&client).await;
    let keys: BTreeSet<&str> = notes.iter().map(|note| note.key.as_str()).collect();
    assert_eq!(keys.len(), notes.len(), "RESURGAM_SEED={seed}: a transfer was applied twice");

    let balances = balances(&client).await;
    assert_eq!(balances.values().sum::<i64>(), i64::from(ACCOUNTS) * CENTS, "RESURGAM_SEED={seed}");
    let mut expected: BTreeMap<u32, i64> = (0..ACCOUNTS).map(|id| (id, CENTS)).collect();
    for note in &notes {
        *expected.get_mut(&note.from).unwrap() -= note.cents;
        *expected.get_mut(&note.to).unwrap() += note.cents;
    }
    assert_eq!(balances, expected, "RESURGAM_SEED={seed}: the notes tell another story");

    let completed = completed(&client, seed).await;
    let keys: BTreeSet<String> = keys.into_iter().map(str::to_string).collect();
    assert_eq!(keys, completed, "RESURGAM_SEED={seed}: the histories tell another story");
    println!("{} transfers", notes.len());
    assert!(notes.len() > 20, "RESURGAM_SEED={seed}: hardly anything was done");
}

/// The calls that the histories say were completed.
async fn completed(client: &Client, seed: u64) -> BTreeSet<String> {
    let mut completed = BTreeSet::new();
    let all = InstanceFilter { limit: 1_000_000, ..InstanceFilter::default() };
    for row in client.list(all).await.unwrap() {
        let story = client.history(&row.id).await.unwrap().unwrap();
        assert_eq!(row.status, Status::Completed, "RESURGAM_SEED={seed}: {}\n{story}", row.id);
        let run = RunKey { uid: row.uid, run: row.run };
        let mut ended = 0;
        for event in client.events(&row.id).await.unwrap() {
            match event.kind {
                EventKind::ActivityCompleted(done) => {
                    ended += 1;
                    let new = completed.insert(run.call(done.activity).to_string());
                    assert!(new, "RESURGAM_SEED={seed}: completed twice\n{story}");
                }
                EventKind::ActivityFailed(_) => ended += 1,
                _ => {}
            }
        }
        assert_eq!(ended, TRANSFERS, "RESURGAM_SEED={seed}: {}\n{story}", row.id);
    }
    completed
}

async fn notes(client: &Client) -> Vec<Note> {
    let read = client.tables().read(|tx| {
        let mut all = tx.prepare("SELECT key, source, target, cents FROM applied")?;
        let notes = all.query_map([], |row| {
            let (key, from, to, cents) = row.try_into()?;
            Ok(Note { key, from, to, cents })
        });
        Ok(notes?.collect::<Result<Vec<Note>, _>>()?)
    });
    read.await.unwrap()
}

async fn balances(client: &Client) -> BTreeMap<u32, i64> {
    let read = client.tables().read(|tx| {
        let mut all = tx.prepare("SELECT id, cents FROM account")?;
        let rows = all.query_map([], |row| row.try_into())?;
        Ok(rows.collect::<Result<BTreeMap<u32, i64>, _>>()?)
    });
    read.await.unwrap()
}
