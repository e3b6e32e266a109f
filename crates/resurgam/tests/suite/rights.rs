//! A worker that may not use its file, or may not use it now, says so and ends; the file stays as
//! it was. The worker is a process without the rights of root, which nothing keeps out. Real
//! processes take their time, so each test has a quarter of an hour.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::processes::program::{self, Program};
use crate::processes::{Ground, until};
use resurgam::SqliteOptions;
use resurgam::prelude::*;
use resurgam_watchdog::test;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A user without rights, by custom.
const NOBODY: u32 = 65_534;

#[workflow]
async fn nothing(_ctx: WorkflowContext) -> Result<u32, Failure> {
    Ok(7)
}

/// What a worker is told: to open this file, and when it may go on to start an instance and to wait
/// for its result.
#[derive(Debug, Serialize, Deserialize)]
struct Worker {
    file: PathBuf,
    busy_ms: u64,
}

#[test(minutes = 15)]
#[ignore = "other tests start it as a process"]
fn the_program_that_other_tests_start() {
    if let Some(worker) = program::role() {
        program::play(async move {
            match work(worker, program::ears()).await {
                Ok(result) => program::say(&format!("result {result}")),
                Err(error) => program::say(&error.to_string()),
            }
        });
    }
}

async fn work(worker: Worker, mut go_on: UnboundedReceiver<String>) -> resurgam::Result<u32> {
    let options = SqliteOptions::default().busy_timeout(Duration::from_millis(worker.busy_ms));
    let app = App::builder().workflow(nothing).sqlite_options(options).sqlite(&worker.file).await?;
    program::say("works");
    go_on.recv().await;
    let id = format!("nothing-{}", std::process::id());
    let result = app.start(id, nothing()).await?.result().await?;
    app.stop().await?;
    Ok(result)
}

/// A folder that everybody may look into.
fn open_ground() -> Ground {
    let ground = Ground::new();
    allow(ground.folder.path(), 0o755);
    ground
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// What a worker without rights says until it ends. Its program is a copy: it may not look into the
/// folder where that was built.
fn said_by_nobody(ground: &Ground, file: &Path) -> Vec<String> {
    let program = ground.folder.path().join("program");
    // Another process makes it: what this one has open to write, a program that another test
    // starts meanwhile has open too, and then it cannot be run.
    let this = std::env::current_exe().unwrap();
    assert!(Command::new("cp").arg(this).arg(&program).status().unwrap().success());
    allow(&program, 0o755);
    let worker = Worker { file: file.to_path_buf(), busy_ms: 100 };
    let mut worker = Program::start_at(&program, module_path!(), &worker, |command| {
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
    });
    worker.tell("go on");
    let said = std::iter::from_fn(|| worker.hear()).collect();
    assert!(worker.wait().success(), "it ends by itself, and in peace");
    fs::remove_file(program).unwrap();
    said
}

fn refusal(ground: &Ground, file: &Path) -> String {
    let said = said_by_nobody(ground, file);
    assert_eq!(said.len(), 1, "{said:?}");
    println!("{}", said[0]);
    assert!(said[0].contains(&*file.to_string_lossy()), "{said:?}");
    said[0].clone()
}

/// The files of a folder by name, each with a hash of what is in it.
fn files(folder: &Path) -> BTreeMap<String, u64> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = paths.filter(|path| path.is_file()).map(|path| {
        let mut hasher = DefaultHasher::new();
        fs::read(&path).unwrap().hash(&mut hasher);
        (path.file_name().unwrap().to_string_lossy().into_owned(), hasher.finish())
    });
    files.collect()
}

/// A database in which something was done, and that is closed.
fn used(file: &Path) {
    // Nobody keeps it from going on.
    let (_, go_on) = unbounded_channel();
    let work = work(Worker { file: file.to_path_buf(), busy_ms: 100 }, go_on);
    assert_eq!(program::runtime().block_on(work).unwrap(), 7);
    // The threads of the store end on their own, a little later.
    until("the write-ahead log goes away", || !file.with_extension("db-wal").exists());
}

#[test(minutes = 15)]
fn a_worker_without_rights_works_where_it_may_write() {
    let ground = open_ground();
    let folder = ground.folder.path().join("everybody");
    fs::create_dir(&folder).unwrap();
    allow(&folder, 0o777);
    assert_eq!(said_by_nobody(&ground, &folder.join("app.db")), ["works", "result 7"]);
}

#[test(minutes = 15)]
fn a_file_that_can_only_be_read_is_refused_and_stays_as_it_is() {
    let ground = open_ground();
    used(&ground.file());
    allow(&ground.file(), 0o444);
    let before = files(ground.folder.path());
    let text = refusal(&ground, &ground.file());
    assert!(text.contains("it can only be read; let this process write to the file"), "{text}");
    assert_eq!(files(ground.folder.path()), before);
}

#[test(minutes = 15)]
fn a_file_in_a_folder_that_can_only_be_read_is_refused_and_stays_as_it_is() {
    let ground = open_ground();
    used(&ground.file());
    allow(&ground.file(), 0o666);
    let before = files(ground.folder.path());
    let text = refusal(&ground, &ground.file());
    assert!(text.contains("write"), "{text}");
    assert_eq!(files(ground.folder.path()), before);
}

#[test(minutes = 15)]
fn a_folder_that_is_missing_or_closed_is_named() {
    let ground = open_ground();
    let missing = ground.folder.path().join("nowhere").join("app.db");
    let text = refusal(&ground, &missing);
    assert!(text.contains("its folder does not exist; create the folder first"), "{text}");
    let text = refusal(&ground, &ground.file());
    assert!(text.contains("check that this process may read and write"), "{text}");
    assert_eq!(files(ground.folder.path()), BTreeMap::new());
}

#[test(minutes = 15)]
fn a_file_that_another_program_keeps_to_itself_is_refused_after_the_busy_timeout() {
    let ground = open_ground();
    let other = Connection::open(ground.file()).unwrap();
    other.execute_batch("CREATE TABLE theirs (x); BEGIN EXCLUSIVE").unwrap();
    let worker = Worker { file: ground.file(), busy_ms: 100 };
    let mut program = Program::start(module_path!(), &worker);
    let said = program.hear().unwrap();
    println!("{said}");
    assert!(said.contains("another process keeps it locked; try again"), "{said}");
    assert!(program.wait().success());
    other.execute_batch("COMMIT; SELECT x FROM theirs").unwrap();
}

#[test(minutes = 15)]
fn work_waits_while_another_program_writes_and_goes_on_when_it_is_done() {
    let ground = open_ground();
    let mut program = Program::start(module_path!(), &Worker { file: ground.file(), busy_ms: 50 });
    program.hear_that("works");
    let other = Connection::open(ground.file()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    program.tell("go on");
    // That it decides nothing can only be seen by waiting for a while.
    assert_eq!(program.hear_within(Duration::from_millis(500)), None, "nothing was decided");
    other.execute_batch("COMMIT").unwrap();
    program.hear_that("result 7");
    assert!(program.wait().success());
}
