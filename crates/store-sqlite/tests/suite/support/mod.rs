//! Steps and files for the tests of this store.

#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

pub mod process;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_core::event::{ActivityScheduled, RunStarted};
use resurgam_core::{Event, EventKind, Payload, RunKey, Seq, Timestamp, Uid};
use resurgam_store::rows::{InstanceRow, Message, MessageRow, Progress, TaskRow};
use resurgam_store::{
    Commit, InstanceWrite, MessageWrite, Node, Own, Ownership, Owning, Replaces, Step, StepResult,
    TaskWrite,
};
use resurgam_store_sqlite::{Options, SqliteStore};
use rusqlite::Connection;
use tempfile::TempDir;

/// A folder with the path of a database that is not there yet.
pub struct Folder {
    folder: TempDir,
    pub path: PathBuf,
}

impl Folder {
    pub fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("orders.db");
        Folder { folder, path }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.path, patient()).unwrap()
    }

    /// The names of all files in it.
    pub fn names(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.folder.path()).unwrap().map(Result::unwrap);
        let mut names: Vec<String> =
            files.map(|file| file.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A connection of somebody who speaks SQL.
    pub fn sql(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }

    /// The size of the write-ahead log, 0 when there is none.
    pub fn log_bytes(&self) -> u64 {
        std::fs::metadata(self.file("orders.db-wal")).map_or(0, |file| file.len())
    }
}

/// The usual options, with limits that no pause of a busy machine or a slow disk uses up.
pub fn patient() -> Options {
    let long = Duration::from_secs(60);
    Options::default().busy_timeout(long).transaction_timeout(long)
}

/// The text of the error with which a database is refused.
pub fn refusal(path: &Path, options: Options) -> resurgam_store::Error {
    SqliteStore::open(path, options).map(|_| "it was opened").unwrap_err()
}

pub fn run(number: u128) -> RunKey {
    RunKey::first(Uid(number << 64 | number))
}

/// Starts the instance `order-{number}` with one task that is due and one message.
pub fn start(number: u128) -> Step {
    let run = run(number);
    Step {
        instance: Some(InstanceWrite::Insert {
            row: instance(number).into(),
            replaces: Replaces::Nobody,
        }),
        events: vec![(run, started()), (run, scheduled(2))],
        tasks: vec![TaskWrite::Insert(task(run, 2))],
        messages: vec![MessageWrite::Insert(signal(run.uid, "paid"))],
        ..Step::default()
    }
}

pub fn instance(number: u128) -> InstanceRow {
    let id = format!("order-{number}");
    InstanceRow::new(run(number).uid, id, "fulfil", Payload::null(), Timestamp::EPOCH)
}

pub fn started() -> Event {
    let kind = EventKind::RunStarted(RunStarted::new("fulfil", Payload::null(), 1));
    Event { seq: Seq(1), at: Timestamp::EPOCH, kind }
}

pub fn scheduled(seq: u64) -> Event {
    let kind = EventKind::ActivityScheduled(ActivityScheduled {
        name: "charge".into(),
        input: Payload::null(),
        queue: "default".into(),
        compensates: None,
    });
    Event { seq: Seq(seq), at: Timestamp::EPOCH, kind }
}

/// A step of an instance that writes one event with a body of this many bytes.
pub fn note(number: u128, seq: u64, bytes: usize) -> Step {
    let value = Payload::from_text(format!("\"{}\"", "x".repeat(bytes)));
    let kind = EventKind::StatusSet { value };
    let event = Event { seq: Seq(seq), at: Timestamp::EPOCH, kind };
    Step { events: vec![(run(number), event)], ..Step::default() }
}

pub fn task(run: RunKey, seq: u64) -> TaskRow {
    TaskRow {
        call: run.call(Seq(seq)),
        name: "charge".into(),
        queue: "default".into(),
        gate: "charge".into(),
        priority: 0,
        policy: "p".into(),
        attempt: 0,
        wake_at: Timestamp::EPOCH,
        deadline_at: None,
        claim: None,
        progress: Progress::default(),
        heartbeat: None,
    }
}

pub fn signal(uid: Uid, id: &str) -> MessageRow {
    let body = Message::Signal { name: "paid".into(), value: Payload::null() };
    MessageRow { uid, id: id.into(), due_at: Timestamp::EPOCH, body }
}

/// Commits steps that must all be written.
pub async fn write(store: &SqliteStore, batch: impl Into<Arc<[Step]>>) {
    let results = store.commit(batch.into()).await.unwrap();
    assert!(results.iter().all(|result| *result == StepResult::Written), "{results:?}");
}

/// A time at which everything is due.
pub const LATER: Timestamp = Timestamp::from_millis(1_000_000);

/// Takes the right to work, which must be free.
pub async fn own(store: &SqliteStore, node: &str) -> Ownership {
    match store.try_own(Node::new(node)).await.unwrap() {
        Owning::Taken(right) => right,
        Owning::Held(owner) => panic!("held by {owner}"),
    }
}

/// How long a test waits for anything: far longer than it takes on a busy machine, and less than
/// the limit of the test, which cannot say what did not come.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Asks again and again, a short while apart, until there is an answer.
pub async fn poll<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(since.elapsed() < PATIENCE, "{what} did not come within {PATIENCE:?}");
        // A pause between two questions: what is asked here tells nobody when its answer changes.
        std::thread::sleep(Duration::from_millis(1));
    }
}
