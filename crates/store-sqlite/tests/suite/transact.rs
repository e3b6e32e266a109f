//! Attempts that write to the user's own tables: both the writes and the result, or neither.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::*;
use resurgam_core::event::ActivityCompleted;
use resurgam_core::{CallKey, EventKind, Failure, Kind, Payload, Timestamp, UserWork};
use resurgam_store::rows::{Claim, Message, MessageRow};
use resurgam_store::{
    Access, AttemptTransaction, Commit, Inspect, Ownership, Result, Step, Tables, TaskWrite,
    Transacted, Work,
};
use resurgam_store_sqlite::{Options, SqliteStore, SqliteWork};
use resurgam_watchdog::test;
use rusqlite::Transaction;

const TOKEN: u64 = 7;

/// A store that has the user's tables and a task that an attempt works on.
struct Ground {
    store: SqliteStore,
    folder: Folder,
    right: Ownership,
}

impl Ground {
    async fn new() -> Self {
        Ground::with(patient()).await
    }

    async fn with(options: Options) -> Self {
        let folder = Folder::new();
        let store = SqliteStore::open(&folder.path, options).unwrap();
        let right = own(&store, "node-a").await;
        prepare(&store).await;
        Ground { store, folder, right }
    }

    async fn transact(&self, code: impl Fn(&Transaction<'_>) -> Ended + Send + 'static) -> Answer {
        transact(&self.store, TOKEN, code).await
    }

    /// The balance, whether the task is there, and how many results are.
    async fn state(&self) -> (i64, bool, usize) {
        state(&self.store).await
    }
}

type Ended = std::result::Result<i64, Failure>;
type Answer = Result<Transacted>;

fn the_call() -> CallKey {
    run(1).call(resurgam_core::Seq(2))
}

async fn prepare(store: &SqliteStore) {
    change(store, "CREATE TABLE account (name TEXT PRIMARY KEY, cents INTEGER NOT NULL) STRICT")
        .await
        .unwrap();
    change(store, "INSERT INTO account VALUES ('ada', 100)").await.unwrap();
    let mut started = start(1);
    let mut row = task(run(1), 2);
    row.attempt = 1;
    row.claim = Some(Claim { node: "node-a".into(), token: TOKEN, started_at: Timestamp::EPOCH });
    started.tasks = vec![TaskWrite::Insert(row)];
    started.messages.clear();
    write(store, [started]).await;
}

async fn change(store: &SqliteStore, sql: &str) -> std::result::Result<(), Failure> {
    let sql = sql.to_string();
    let code = move |tx: &Transaction<'_>| Ok(tx.execute_batch(&sql).map(|()| Payload::null())?);
    store.on_tables(Access::Write, Arc::new(SqliteWork::new(code))).await.unwrap()
}

async fn read(store: &SqliteStore, sql: &str) -> std::result::Result<i64, Failure> {
    let (sql, found) = (sql.to_string(), Arc::new(std::sync::Mutex::new(0)));
    let keep = found.clone();
    let code = move |tx: &Transaction<'_>| {
        *keep.lock().unwrap() = tx.query_row(&sql, [], |row| row.get(0))?;
        Ok(Payload::null())
    };
    store.on_tables(Access::Read, Arc::new(SqliteWork::new(code))).await.unwrap()?;
    let found = *found.lock().unwrap();
    Ok(found)
}

async fn transact(
    store: &SqliteStore,
    token: u64,
    code: impl Fn(&Transaction<'_>) -> Ended + Send + 'static,
) -> Answer {
    let work = SqliteWork::new(move |tx| Ok(Payload::encode(&code(tx)?)?));
    store.transact(attempt(token, Arc::new(work))).await
}

fn attempt(token: u64, work: UserWork) -> Arc<AttemptTransaction> {
    let message = Box::new(|result: Payload| {
        if result.len() > 1_000 {
            return Err(Failure::terminal("too large"));
        }
        Ok(message(result))
    });
    Arc::new(AttemptTransaction { call: the_call(), token, work, message })
}

fn message(result: Payload) -> MessageRow {
    let event = EventKind::ActivityCompleted(ActivityCompleted {
        activity: the_call().seq,
        result,
        attempt: 1,
        started_at: Timestamp::EPOCH,
        after_cancel: false,
        fallback: false,
        retry_metadata: None,
    });
    let body = Message::Result { run: 1, event };
    MessageRow { uid: run(1).uid, id: "result/1/2".into(), due_at: Timestamp::EPOCH, body }
}

async fn state(store: &SqliteStore) -> (i64, bool, usize) {
    let cents = read(store, "SELECT cents FROM account WHERE name = 'ada'").await.unwrap();
    let there = !store.tasks(run(1)).await.unwrap().is_empty();
    (cents, there, store.messages(run(1).uid).await.unwrap().len())
}

/// Nothing happened.
const UNTOUCHED: (i64, bool, usize) = (100, true, 0);

fn pay(tx: &Transaction<'_>) -> Ended {
    tx.execute("UPDATE account SET cents = cents - 30 WHERE name = 'ada'", [])?;
    Ok(tx.query_row("SELECT cents FROM account WHERE name = 'ada'", [], |row| row.get(0))?)
}

#[track_caller]
fn failed(answer: Answer) -> Failure {
    match answer.unwrap() {
        Transacted::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
async fn the_writes_and_the_result_are_stored_together() {
    let ground = Ground::new().await;
    let before = ground.store.commits().transactions;
    let Transacted::Done(stored) = ground.transact(pay).await.unwrap() else { panic!("not done") };
    assert_eq!(*stored, message(Payload::from_text("70")));
    assert_eq!(ground.store.commits().transactions - before, 1);
    assert_eq!(ground.state().await, (70, false, 1));
    // They wake the run.
    assert_eq!(ground.store.due_messages(LATER, 10).await.unwrap().len(), 1);
    let Ground { store, folder, right } = ground;
    store.close().await;
    drop(right);
    let store = folder.open();
    assert_eq!(state(&store).await, (70, false, 1));
    assert_eq!(store.messages(run(1).uid).await.unwrap(), [*stored]);
}

#[test]
async fn so_it_is_in_memory() {
    let store = SqliteStore::in_memory().unwrap();
    let _right = own(&store, "node-a").await;
    prepare(&store).await;
    assert!(matches!(transact(&store, TOKEN, pay).await.unwrap(), Transacted::Done(_)));
    assert_eq!(state(&store).await, (70, false, 1));
}

#[test]
async fn an_attempt_that_lost_its_claim_is_refused_before_its_code_runs() {
    let ground = Ground::new().await;
    let ran = Arc::new(AtomicU32::new(0));
    for token in [TOKEN + 1, 0, u64::MAX] {
        let counter = ran.clone();
        let count = move |tx: &Transaction<'_>| {
            counter.fetch_add(1, Ordering::Relaxed);
            pay(tx)
        };
        let answer = transact(&ground.store, token, count).await.unwrap();
        assert!(matches!(answer, Transacted::Refused), "{answer:?}");
    }
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    assert_eq!(ground.state().await, UNTOUCHED);
    // Nor can it be done twice: the task is gone.
    assert!(matches!(ground.transact(pay).await.unwrap(), Transacted::Done(_)));
    assert!(matches!(ground.transact(pay).await.unwrap(), Transacted::Refused));
    assert_eq!(ground.state().await, (70, false, 1));
}

#[test]
async fn a_task_that_waits_or_is_somebody_elses_refuses_too() {
    let ground = Ground::new().await;
    let waiting = task(run(1), 2);
    write(&ground.store, [Step { tasks: vec![TaskWrite::Update(waiting)], ..Step::default() }])
        .await;
    for token in [TOKEN, 0] {
        let answer = transact(&ground.store, token, pay).await.unwrap();
        assert!(matches!(answer, Transacted::Refused), "{answer:?}");
    }
    assert_eq!(ground.state().await, UNTOUCHED);
}

#[test]
async fn a_node_that_was_overtaken_writes_nothing() {
    let ground = Ground::new().await;
    ground.folder.sql().execute_batch("UPDATE meta SET owner = 'node-b'").unwrap();
    let error = ground.transact(pay).await.unwrap_err();
    assert!(error.is_fenced(), "{error}");
    assert!(error.to_string().contains("node node-b owns it by now"), "{error}");
    assert_eq!(ground.state().await, UNTOUCHED);
}

#[test]
async fn a_client_runs_no_attempts() {
    let ground = Ground::new().await;
    resurgam_store::Own::disown(&ground.store).await.unwrap();
    let error = ground.transact(pay).await.unwrap_err();
    assert!(error.is_fenced(), "{error}");
    assert_eq!(ground.state().await, UNTOUCHED);
}

#[test]
async fn a_failure_leaves_nothing_behind() {
    let ground = Ground::new().await;
    let failure = failed(
        ground
            .transact(|tx| {
                pay(tx)?;
                Err(Failure::of_type("Broke", "not enough"))
            })
            .await,
    );
    assert_eq!(failure, Failure::of_type("Broke", "not enough"));
    assert_eq!(ground.state().await, UNTOUCHED);
    // An error of SQLite is one like any other, for the policy to decide about.
    let failure = failed(
        ground
            .transact(|tx| {
                pay(tx)?;
                tx.execute("INSERT INTO account VALUES ('ada', 1)", [])?;
                Ok(1)
            })
            .await,
    );
    assert!(failure.message.contains("UNIQUE constraint failed: account.name"), "{failure}");
    assert_eq!(failure.retryable, None);
    assert_eq!(ground.state().await, UNTOUCHED);
}

#[test]
async fn a_panic_leaves_nothing_behind_and_the_writer_goes_on() {
    let ground = Ground::new().await;
    let failure = failed(
        ground
            .transact(|tx| {
                pay(tx)?;
                let mut open = tx.prepare_cached("SELECT cents FROM account")?;
                let _rows = open.query([])?;
                panic!("no such card");
            })
            .await,
    );
    assert_eq!((failure.kind, &*failure.message), (Kind::Panic, "no such card"));
    assert_eq!(ground.state().await, UNTOUCHED);
    // The guard is gone with the guest: our own tables are ours again.
    write(&ground.store, [start(2)]).await;
    ground.store.run_on_writer("UPDATE task SET priority = 1").await.unwrap();
    assert!(matches!(ground.transact(pay).await.unwrap(), Transacted::Done(_)));
}

#[test]
async fn a_result_that_cannot_be_stored_is_a_failure() {
    let ground = Ground::new().await;
    let work = SqliteWork::new(|tx| {
        pay(tx)?;
        Ok(Payload::encode(&"x".repeat(2_000))?)
    });
    let failure = failed(ground.store.transact(attempt(TOKEN, Arc::new(work))).await);
    assert_eq!(failure.message, "too large");
    assert_eq!(ground.state().await, UNTOUCHED);
}

const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    INSERT INTO account SELECT 'copy ' || i, 1 FROM n";

#[test]
async fn time_is_limited() {
    // Only what is to be late has so little time.
    let Ground { store, folder, right } = Ground::new().await;
    drop(right);
    store.close().await;
    let options = patient().transaction_timeout(Duration::from_millis(50));
    let (store, patient) = (SqliteStore::open(&folder.path, options).unwrap(), folder.open());
    let _right = own(&store, "node-a").await;
    let expected = Failure::of_kind(Kind::Timeout, "the transaction was not done within 50ms");
    let endless = |tx: &Transaction<'_>| {
        pay(tx)?;
        tx.execute(ENDLESS, [])?;
        Ok(1)
    };
    assert_eq!(failed(transact(&store, TOKEN, endless).await), expected);
    assert_eq!(state(&patient).await, UNTOUCHED);
    // Code that does not want to know goes no further either.
    let stubborn = |tx: &Transaction<'_>| {
        let _interrupted = tx.execute(ENDLESS, []);
        let _refused = tx.execute("UPDATE account SET cents = 0", []);
        Ok(1)
    };
    assert_eq!(failed(transact(&store, TOKEN, stubborn).await), expected);
    assert_eq!(state(&patient).await, UNTOUCHED);
    // Nor does code that takes its time elsewhere, as this one does by sleeping.
    let slow = |tx: &Transaction<'_>| {
        std::thread::sleep(Duration::from_millis(60));
        pay(tx)
    };
    assert_eq!(failed(transact(&store, TOKEN, slow).await), expected);
    assert_eq!(state(&patient).await, UNTOUCHED);
    // And the limit is the guest's, not ours.
    write(&store, (2..500).map(start).collect::<Vec<_>>()).await;
}

#[test]
async fn a_limit_without_end_is_none() {
    let ground = Ground::with(patient().transaction_timeout(Duration::MAX)).await;
    assert!(matches!(ground.transact(pay).await.unwrap(), Transacted::Done(_)));
}

/// What a guest is told that runs this.
async fn refusal(ground: &Ground, sql: &'static str) -> String {
    let failure = failed(
        ground
            .transact(move |tx| {
                pay(tx)?;
                tx.execute_batch(sql)?;
                Ok(1)
            })
            .await,
    );
    assert!(failure.is_terminal(), "{sql}: {failure:?}");
    assert_eq!(ground.state().await, UNTOUCHED, "{sql}");
    failure.to_string()
}

#[test]
async fn the_transaction_is_not_the_guests_to_control() {
    let ground = Ground::new().await;
    for sql in ["COMMIT", "END", "ROLLBACK", "BEGIN", "SAVEPOINT s", "RELEASE s", "ROLLBACK TO s"] {
        let text = refusal(&ground, sql).await;
        let expected = "NotAllowed: the transaction is the engine's to begin and to end: ";
        assert!(text.starts_with(expected), "{sql}: {text}");
    }
    let other = refusal(&ground, "ATTACH ':memory:' AS other").await;
    assert_eq!(other, "NotAllowed: other databases cannot be attached here");
    for sql in ["PRAGMA synchronous = OFF", "PRAGMA query_only = 1", "PRAGMA writable_schema = 1"] {
        let text = refusal(&ground, sql).await;
        assert!(text.ends_with(" is the engine's to set"), "{sql}: {text}");
    }
    let temp = refusal(&ground, "CREATE TEMP TABLE task (uid)").await;
    let expected = "NotAllowed: temporary tables would outlive the transaction ";
    assert!(temp.starts_with(expected), "{temp}");
}

#[test]
async fn our_tables_are_not_the_guests() {
    let ground = Ground::new().await;
    let own = |table: &str| format!("NotAllowed: table {table} is the engine's own");
    let cases = [
        ("SELECT count(*) FROM task", "task"),
        ("SELECT token FROM main.TASK", "task"),
        ("SELECT 1 FROM account WHERE EXISTS (SELECT 1 FROM event)", "event"),
        ("UPDATE task SET token = 1", "task"),
        ("DELETE FROM message", "message"),
        ("INSERT INTO inbox (instance, kind) VALUES ('x', 'start')", "inbox"),
        ("DROP TABLE meta", "meta"),
        ("ALTER TABLE kv ADD COLUMN mine", "kv"),
        ("CREATE INDEX mine ON instance (id)", "instance"),
        ("DROP INDEX task_due", "task"),
        ("CREATE TRIGGER mine AFTER INSERT ON event BEGIN SELECT 1; END", "event"),
        ("CREATE TABLE IF NOT EXISTS policy (mine)", "policy"),
        ("CREATE VIEW schedule AS SELECT 1", "schedule"),
    ];
    for (sql, table) in cases {
        assert_eq!(refusal(&ground, sql).await, own(table), "{sql}");
    }
    assert_eq!(
        refusal(&ground, "CREATE TABLE Resurgam_mine (x)").await,
        "NotAllowed: the name of table Resurgam_mine is kept for the engine"
    );
}

#[test]
async fn nor_are_they_through_a_view_or_a_trigger() {
    let ground = Ground::new().await;
    // Such things can be made; what they would do is refused when they are used.
    change(&ground.store, "CREATE VIEW spy AS SELECT token FROM task").await.unwrap();
    let trigger = "CREATE TRIGGER steal AFTER INSERT ON account
                   BEGIN DELETE FROM task; END";
    change(&ground.store, trigger).await.unwrap();
    assert_eq!(
        refusal(&ground, "SELECT * FROM spy").await,
        "NotAllowed: table task is the engine's own (through spy)"
    );
    assert_eq!(
        refusal(&ground, "INSERT INTO account VALUES ('bob', 1)").await,
        "NotAllowed: table task is the engine's own (through steal)"
    );
    assert_eq!(
        read(&ground.store, "SELECT token FROM spy").await.unwrap_err().to_string(),
        "NotAllowed: table task is the engine's own (through spy)"
    );
}

#[test]
async fn what_was_refused_is_a_failure_also_when_the_code_goes_on() {
    let ground = Ground::new().await;
    let failure = failed(
        ground
            .transact(|tx| {
                let _not_allowed = tx.execute_batch("COMMIT");
                pay(tx)
            })
            .await,
    );
    assert_eq!(failure.type_name.as_deref(), Some("NotAllowed"));
    assert_eq!(ground.state().await, UNTOUCHED);
}

#[test]
async fn after_a_rollback_by_sqlite_nothing_more_is_written() {
    let ground = Ground::new().await;
    let failure = failed(
        ground
            .transact(|tx| {
                let mut late = tx.prepare("UPDATE account SET cents = 0")?;
                pay(tx)?;
                let rolled_back = "INSERT OR ROLLBACK INTO account VALUES ('ada', 1)";
                tx.execute(rolled_back, []).unwrap_err();
                // No transaction is open here: this would be written for good.
                late.execute([]).unwrap_err();
                tx.execute("UPDATE account SET cents = 1", []).unwrap_err();
                Ok(1)
            })
            .await,
    );
    assert_eq!(failure.type_name.as_deref(), Some("RolledBack"));
    assert!(!failure.is_terminal());
    assert_eq!(ground.state().await, UNTOUCHED);
    write(&ground.store, [start(2)]).await;
}

#[test]
async fn guests_may_do_what_one_does_with_tables() {
    let ground = Ground::new().await;
    let sql = "CREATE TABLE entry (id INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT NOT NULL
                                   REFERENCES account (name), cents INTEGER);
               CREATE UNIQUE INDEX entry_account ON entry (account, id);
               CREATE VIEW total AS SELECT sum(cents) AS cents FROM entry;
               CREATE TRIGGER kept AFTER INSERT ON entry
               BEGIN UPDATE account SET cents = cents + new.cents WHERE name = new.account; END;
               INSERT INTO entry (account, cents) VALUES ('ada', 5);
               ALTER TABLE entry ADD COLUMN why TEXT;
               ALTER TABLE entry RENAME COLUMN why TO reason;
               CREATE TABLE gone AS SELECT * FROM entry;
               DROP TABLE gone;
               ANALYZE entry;
               CREATE VIRTUAL TABLE words USING fts5 (text);
               INSERT INTO words VALUES ('all is well');
               PRAGMA user_version = 3;";
    change(&ground.store, sql).await.unwrap();
    assert_eq!(read(&ground.store, "SELECT cents FROM total").await.unwrap(), 5);
    assert_eq!(read(&ground.store, "PRAGMA user_version").await.unwrap(), 3);
    let columns = "SELECT count(*) FROM pragma_table_info('entry')";
    assert_eq!(read(&ground.store, columns).await.unwrap(), 4);
    let found = "SELECT count(*) FROM words WHERE words MATCH 'well'";
    assert_eq!(read(&ground.store, found).await.unwrap(), 1);
    assert_eq!(ground.state().await, (105, true, 0));
    assert!(matches!(ground.transact(pay).await.unwrap(), Transacted::Done(_)));
    write(&ground.store, [start(2)]).await;
}

#[test]
async fn who_reads_writes_nothing() {
    for store in [SqliteStore::in_memory().unwrap(), Folder::new().open()] {
        let _right = own(&store, "node-a").await;
        prepare(&store).await;
        let refused = |sql: &'static str| {
            let store = &store;
            async move { read(store, sql).await.unwrap_err().to_string() }
        };
        assert_eq!(
            refused("UPDATE account SET cents = 0 RETURNING cents").await,
            "NotAllowed: table account can only be read here"
        );
        assert_eq!(
            refused("SELECT count(*) FROM task").await,
            "NotAllowed: table task is the engine's own"
        );
        let version = refused("PRAGMA user_version = 9").await;
        assert_eq!(version, "NotAllowed: PRAGMA user_version is the engine's to set");
        assert_eq!(state(&store).await, UNTOUCHED);
    }
}

#[test]
async fn foreign_keys_are_enforced_for_those_who_want_it() {
    let sql = "CREATE TABLE entry (account TEXT REFERENCES account (name)
                                   DEFERRABLE INITIALLY DEFERRED)";
    let stray = |tx: &Transaction<'_>| {
        tx.execute("INSERT INTO entry VALUES ('nobody')", [])?;
        pay(tx)
    };
    let ground = Ground::with(patient().foreign_keys(true)).await;
    change(&ground.store, sql).await.unwrap();
    // It is looked at last, by the commit.
    let failure = failed(ground.transact(stray).await);
    assert!(failure.message.contains("FOREIGN KEY constraint failed"), "{failure}");
    assert_eq!(ground.state().await, UNTOUCHED);
    assert!(matches!(ground.transact(pay).await.unwrap(), Transacted::Done(_)));

    let ground = Ground::new().await;
    change(&ground.store, sql).await.unwrap();
    assert!(matches!(ground.transact(stray).await.unwrap(), Transacted::Done(_)));
}

#[test]
async fn a_busy_database_is_waited_for_and_then_tried_again() {
    let ground = Ground::with(patient().busy_timeout(Duration::from_millis(10))).await;
    let other = ground.folder.sql();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = ground.transact(pay).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    other.execute_batch("COMMIT").unwrap();
    assert!(matches!(ground.transact(pay).await.unwrap(), Transacted::Done(_)));
    assert_eq!(ground.state().await, (70, false, 1));
}

#[test]
async fn a_full_disk_is_no_failure_of_the_code() {
    let ground = Ground::new().await;
    ground.store.run_on_writer("PRAGMA max_page_count = 1").await.unwrap();
    let large = |tx: &Transaction<'_>| {
        pay(tx)?;
        for number in 0..100 {
            let name = format!("{number}{}", "x".repeat(10_000));
            tx.execute("INSERT INTO account VALUES (?1, 0)", [name])?;
        }
        Ok(1)
    };
    for _ in 0..2 {
        let error = ground.transact(large).await.unwrap_err();
        assert!(error.is_transient(), "{error}");
        assert!(error.to_string().contains("full"), "{error}");
        assert_eq!(ground.state().await, UNTOUCHED);
    }
    // Code that swallows the error does not get away with half of it.
    let swallowing = move |tx: &Transaction<'_>| {
        large(tx).unwrap_err();
        Ok(tx.execute("UPDATE account SET cents = 1", []).map(|_| 1)?)
    };
    failed(ground.transact(swallowing).await);
    assert_eq!(ground.state().await, UNTOUCHED);
    ground.store.run_on_writer("PRAGMA max_page_count = 1000000").await.unwrap();
    assert!(matches!(ground.transact(large).await.unwrap(), Transacted::Done(_)));
    assert_eq!(ground.state().await, (70, false, 1));
}

#[test]
async fn work_for_another_store_is_refused() {
    let ground = Ground::new().await;
    let failure = failed(ground.store.transact(attempt(TOKEN, Arc::new("not for us"))).await);
    assert_eq!(failure.type_name.as_deref(), Some("NotOffered"));
    assert!(failure.is_terminal());
    for access in [Access::Read, Access::Write] {
        let ended = ground.store.on_tables(access, Arc::new(1)).await.unwrap();
        assert_eq!(ended.unwrap_err().type_name.as_deref(), Some("NotOffered"));
    }
}

#[test]
async fn our_statements_stay_prepared() {
    let ground = Ground::new().await;
    write(&ground.store, [start(2)]).await;
    let steps = (0_u64..50).map(|number| {
        let code = move |tx: &Transaction<'_>| {
            tx.execute("UPDATE account SET cents = cents + 1", [])?;
            match number % 3 {
                0 => Err(Failure::new("no")),
                1 => panic!("no"),
                _ => {
                    tx.execute_batch("SELECT * FROM task")?;
                    Ok(1)
                }
            }
        };
        (number, code)
    });
    for (number, code) in steps {
        failed(ground.transact(code).await);
        write(&ground.store, [note(2, 3 + number, 10)]).await;
    }
    assert_eq!(ground.state().await, UNTOUCHED);
    assert_eq!(ground.store.history(run(2)).await.unwrap().len(), 52);
    let batch = ground.store.commit([start(2)].into()).await.unwrap();
    assert_eq!(batch, [resurgam_store::StepResult::Duplicate]);
}
