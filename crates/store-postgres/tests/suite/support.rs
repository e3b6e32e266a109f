//! Databases, stores and steps to test with.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_core::event::{ActivityScheduled, RunStarted};
use resurgam_core::{Event, EventKind, Payload, RunKey, Seq, Timestamp, Uid};
use resurgam_postgres_server::{Database, Server};
use resurgam_store::rows::{InstanceRow, Message, MessageRow, Progress, Status, TaskRow};
use resurgam_store::{
    Commit, InstanceWrite, MessageWrite, Node, Own, Ownership, Owning, Step, StepResult, TaskWrite,
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

/// As few connections as will do: many tests run at a time.
pub(crate) fn few() -> Options {
    Options::default().lanes(1).readers(1)
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
            replace_closed: false,
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
        lane: "charge".into(),
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
    match store.try_own(Node::new(node)).await.unwrap() {
        Owning::Taken(right) => right,
        Owning::Held(owner) => panic!("held by {owner}"),
    }
}

/// Asks again and again, a short while apart, until there is an answer.
pub(crate) async fn poll<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(since.elapsed() < Duration::from_secs(30), "nothing happened for 30 s");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
