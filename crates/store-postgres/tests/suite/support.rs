//! Databases, stores and steps to test with.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_core::event::{ActivityScheduled, RunStarted};
use resurgam_core::{Event, EventKind, Payload, RunKey, Seq, Timestamp, Uid};
use resurgam_postgres_server::{Database, Server};
use resurgam_store::rows::{InstanceRow, Message, MessageRow, Progress, Status, TaskRow};
use resurgam_store::{
    Commit, InstanceWrite, MessageWrite, Node, Own, Ownership, Owning, Replaces, Step, StepResult,
    TaskWrite,
};
use resurgam_store_postgres::{Options, PostgresStore};

/// A store on a database of its own.
pub(crate) struct Open {
    pub(crate) store: PostgresStore,
    pub(crate) database: Database<'static>,
}

impl Deref for Open {
    type Target = PostgresStore;

    fn deref(&self) -> &PostgresStore {
        &self.store
    }
}

/// A database with our schema and nothing in it.
pub(crate) async fn database() -> Database<'static> {
    let prepare = async |url: String| {
        let store = PostgresStore::connect(&url, few()).await.unwrap();
        store.close().await;
    };
    Server::shared().copy(prepare).await
}

/// A store on a database of its own.
pub(crate) async fn open() -> Open {
    let database = database().await;
    let store = connect(&database).await;
    Open { store, database }
}

/// Another store on a database.
pub(crate) async fn connect(database: &Database<'_>) -> PostgresStore {
    PostgresStore::connect(&database.url(), few()).await.unwrap()
}

/// As few connections as will do, for many tests run at a time; and limits that no pause of a busy
/// machine uses up: a test that is about one sets its own.
pub(crate) fn few() -> Options {
    let long = Duration::from_secs(60);
    Options::default().lanes(1).readers(1).lease(long).transaction_timeout(long)
}

pub(crate) fn run(number: u128) -> RunKey {
    RunKey::first(Uid(number << 64).placed(&format!("order-{number}")))
}

/// Starts the instance `order-{number}` with one task that is due and one message.
pub(crate) fn start(number: u128) -> Step {
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

pub(crate) fn instance(number: u128) -> InstanceRow {
    let id = format!("order-{number}");
    InstanceRow::new(run(number).uid, id, "fulfil", Payload::null(), Timestamp::EPOCH)
}

pub(crate) fn started() -> Event {
    let kind = EventKind::RunStarted(RunStarted::new("fulfil", Payload::null(), 1));
    Event { seq: Seq(1), at: Timestamp::EPOCH, kind }
}

pub(crate) fn scheduled(seq: u64) -> Event {
    let kind = EventKind::ActivityScheduled(ActivityScheduled {
        name: "charge".into(),
        input: Payload::null(),
        queue: "default".into(),
        compensates: None,
    });
    Event { seq: Seq(seq), at: Timestamp::EPOCH, kind }
}

/// A step of an instance that writes one event.
pub(crate) fn note(number: u128, seq: u64) -> Step {
    let kind = EventKind::StatusSet { value: Payload::from_text("\"half way\"") };
    let event = Event { seq: Seq(seq), at: Timestamp::EPOCH, kind };
    Step { events: vec![(run(number), event)], ..Step::default() }
}

/// A step that closes an instance and leaves its messages lying.
pub(crate) fn close(number: u128) -> Step {
    let write = InstanceWrite::Status {
        uid: run(number).uid,
        status: Status::Completed,
        outcome: Some(Payload::null()),
        compensation: None,
        error: None,
        closed_at: Some(Timestamp::EPOCH),
    };
    let messages = vec![MessageWrite::Park(run(number).uid)];
    Step { instance: Some(write), messages, ..Step::default() }
}

/// A step that signals an instance, unless it is closed.
pub(crate) fn tell(number: u128, id: &str) -> Step {
    let uid = run(number).uid;
    Step {
        instance: Some(InstanceWrite::Open { uid, signals_below: None }),
        messages: vec![MessageWrite::Insert(signal(uid, id))],
        ..Step::default()
    }
}

pub(crate) fn task(run: RunKey, seq: u64) -> TaskRow {
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

pub(crate) fn signal(uid: Uid, id: &str) -> MessageRow {
    let body = Message::Signal { name: "paid".into(), value: Payload::null() };
    MessageRow { uid, id: id.into(), due_at: Timestamp::EPOCH, body }
}

/// Commits steps that must all be written.
pub(crate) async fn write(store: &PostgresStore, batch: impl Into<Arc<[Step]>>) {
    let results = store.commit(batch.into()).await.unwrap();
    assert!(results.iter().all(|result| *result == StepResult::Written), "{results:?}");
}

/// A time at which everything is due.
pub(crate) const LATER: Timestamp = Timestamp::from_millis(1_000_000);

/// Takes the right to work, which must be free.
pub(crate) async fn own(store: &PostgresStore, node: &str) -> Ownership {
    own_as(store, Node::new(node)).await
}

pub(crate) async fn own_as(store: &PostgresStore, node: Node) -> Ownership {
    match store.try_own(node).await.unwrap() {
        Owning::Taken(right) => right,
        Owning::Held(owner) => panic!("held by {owner}"),
    }
}

/// How long a test waits for anything: far longer than it takes on a busy machine, and less than
/// the limit of the test, which cannot say what did not come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Asks again and again, a short while apart, until there is an answer.
pub(crate) async fn poll<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(since.elapsed() < PATIENCE, "{what} did not come within {PATIENCE:?}");
        // A pause between two questions: what is asked here tells nobody when its answer changes.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits for what comes by itself.
pub(crate) async fn within<F: Future>(what: &str, awaited: F) -> F::Output {
    let came = tokio::time::timeout(PATIENCE, awaited).await;
    came.unwrap_or_else(|_| panic!("{what} did not come within {PATIENCE:?}"))
}

/// Waits until a statement with these words waits for a lock.
pub(crate) async fn blocked(database: &Database<'_>, words: &str) {
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event_type = 'Lock'
           AND query LIKE '%{words}%'"
    );
    let what = format!("a statement with {words:?} that waits for a lock");
    poll(&what, async || (database.ask(&sql).await != "0").then_some(())).await;
}

/// A store that prepares its statements, and how many events `order-1` has in it. The server must
/// write down the statements of this schema.
pub(crate) async fn preparing(
    url: &str,
    schema: &'static str,
    options: Options,
) -> (PostgresStore, u64) {
    let connect = async || {
        let store = PostgresStore::connect(url, options.clone().schema(schema)).await.unwrap();
        (store, Instant::now())
    };
    let (mut store, mut since) = connect().await;
    write(&store, [start(1)]).await;
    let mut seq = 2;
    poll("a prepared statement", async || {
        // A store that does not hear itself within two seconds takes that for a pooler, and does
        // not ask again. On a busy machine it may be wrong, and another store is tried.
        if since.elapsed() > Duration::from_secs(10) {
            (store, since) = connect().await;
        }
        seq += 1;
        write(&store, [note(1, seq)]).await;
        (prepared(schema) > 0).then_some(())
    })
    .await;
    (store, seq)
}

/// How many statements of this schema the server carried out that were prepared before.
pub(crate) fn prepared(schema: &str) -> usize {
    statements(schema).iter().filter(|entry| entry.starts_with("execute s")).count()
}

/// A database whose statements the server writes down.
pub(crate) async fn watched() -> Database<'static> {
    let database = database().await;
    let name = database.name();
    database.run(&format!("ALTER DATABASE {name} SET log_statement = 'all'")).await;
    database
}

/// What the server has written down that is about the tables of a schema.
pub(crate) fn statements(schema: &str) -> Vec<String> {
    let of_schema = format!("\"{schema}\".");
    let log = Server::shared().log();
    let entries = log.split("LOG:  ").filter(|entry| entry.contains(&of_schema));
    entries.map(str::to_string).collect()
}
