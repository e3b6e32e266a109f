//! Attempts that write to the user's own tables: both the writes and the result, or neither.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use resurgam_core::event::ActivityCompleted;
use resurgam_core::{CallKey, EventKind, Failure, Kind, Payload, Seq, Timestamp, UserWork};
use resurgam_store::rows::{Claim, Heartbeat, Message, MessageRow, TaskRow};
use resurgam_store::{
    Access, AttemptTransaction, Inspect, Node, Own, Ownership, Owning, Result, Step, Tables,
    TaskWrite, Transacted, Work,
};
use resurgam_store_postgres::{PostgresStore, PostgresWork};
use resurgam_watchdog::test;
use tokio_postgres::Transaction;

use crate::proxy::Cut::{AfterCommit, BeforeCommit, Meanwhile, Never};
use crate::proxy::{Cut, Proxy};
use crate::support::*;

const TOKEN: u64 = 7;

/// A store that has the user's tables and a task that an attempt works on.
struct Ground {
    open: Open,
    right: Ownership,
}

type Ended = std::result::Result<i64, Failure>;
type Answer = Result<Transacted>;

impl Ground {
    async fn new() -> Self {
        let database = database().await;
        let store = connect(&database).await;
        let right = own(&store, "node-a").await;
        prepare(&store).await;
        Ground { open: Open { store, database }, right }
    }

    async fn transact(
        &self,
        code: impl AsyncFn(&Transaction<'_>) -> Ended + Send + Sync + 'static,
    ) -> Answer {
        transact(&self.open, TOKEN, code).await
    }

    /// The balance, whether the task is there, and how many results are.
    async fn state(&self) -> (i64, bool, usize) {
        state(&self.open).await
    }

    /// Another node on the same database, whose code has no more time than the limit.
    async fn hurried(&self) -> (PostgresStore, Ownership) {
        let options = few().transaction_timeout(LIMIT);
        let store = PostgresStore::connect(&self.open.database.url(), options).await.unwrap();
        let right = own(&store, "node-b").await;
        (store, right)
    }
}

/// What code may take that is to be late. Everything around it takes less on a busy machine too.
const LIMIT: Duration = Duration::from_secs(2);

fn the_call() -> CallKey {
    run(1).call(Seq(2))
}

async fn prepare(store: &PostgresStore) {
    let sql = "CREATE TABLE account (name text PRIMARY KEY, cents bigint NOT NULL);
               INSERT INTO account VALUES ('ada', 100), ('bob', 0)";
    change(store, sql).await.unwrap();
    let mut started = start(1);
    started.tasks = vec![TaskWrite::Insert(claimed())];
    started.messages.clear();
    write(store, [started]).await;
}

fn claimed() -> TaskRow {
    let claim = Claim { node: "node-a".into(), token: TOKEN, started_at: Timestamp::EPOCH };
    TaskRow { attempt: 1, claim: Some(claim), ..task(run(1), 2) }
}

async fn change(store: &PostgresStore, sql: &str) -> std::result::Result<(), Failure> {
    let sql = sql.to_string();
    let work = PostgresWork::new(async move |tx| {
        tx.batch_execute(&sql).await?;
        Ok(Payload::null())
    });
    store.on_tables(Access::Write, Arc::new(work)).await.unwrap()
}

async fn read(store: &PostgresStore, sql: &str) -> std::result::Result<i64, Failure> {
    let (sql, found) = (sql.to_string(), Arc::new(std::sync::Mutex::new(0)));
    let keep = found.clone();
    let work = PostgresWork::new(async move |tx| {
        *keep.lock().unwrap() = tx.query_typed_one(&sql, &[]).await?.try_get(0)?;
        Ok(Payload::null())
    });
    store.on_tables(Access::Read, Arc::new(work)).await.unwrap()?;
    let found = *found.lock().unwrap();
    Ok(found)
}

async fn transact(
    store: &PostgresStore,
    token: u64,
    code: impl AsyncFn(&Transaction<'_>) -> Ended + Send + Sync + 'static,
) -> Answer {
    let work = PostgresWork::new(async move |tx| Ok(Payload::encode(&code(tx).await?)?));
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

async fn state(store: &PostgresStore) -> (i64, bool, usize) {
    let cents = read(store, "SELECT cents FROM account WHERE name = 'ada'").await.unwrap();
    let there = !store.tasks(run(1)).await.unwrap().is_empty();
    (cents, there, store.messages(run(1).uid).await.unwrap().len())
}

/// Nothing happened.
const UNTOUCHED: (i64, bool, usize) = (100, true, 0);

/// It is done.
const PAID: (i64, bool, usize) = (70, false, 1);

async fn pay(tx: &Transaction<'_>) -> Ended {
    let name = "ada";
    tx.execute("UPDATE account SET cents = cents - 30 WHERE name = $1", &[&name]).await?;
    let left = tx.query_one("SELECT cents FROM account WHERE name = $1", &[&name]).await?;
    Ok(left.try_get(0)?)
}

#[track_caller]
fn failed(answer: Answer) -> Failure {
    match answer.unwrap() {
        Transacted::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn done(answer: Answer) -> MessageRow {
    match answer.unwrap() {
        Transacted::Done(message) => *message,
        other => panic!("{other:?}"),
    }
}

#[test]
async fn the_writes_and_the_result_are_stored_together() {
    let ground = Ground::new().await;
    let before = ground.open.commits().transactions;
    let stored = done(ground.transact(pay).await);
    assert_eq!(stored, message(Payload::from_text("70")));
    assert_eq!(ground.open.commits().transactions - before, 1);
    assert_eq!(ground.state().await, PAID);
    assert_eq!(ground.open.messages(run(1).uid).await.unwrap(), [stored]);
    // They wake the run.
    assert_eq!(ground.open.due_messages(LATER, 10).await.unwrap().len(), 1);
}

#[test]
async fn so_it_is_behind_a_pooler() {
    let database = database().await;
    let url = database.server().pooler().url(database.name());
    let store = PostgresStore::connect(&url, few().without_listening()).await.unwrap();
    let _right = own(&store, "node-a").await;
    prepare(&store).await;
    // Statements without a name leave nothing behind.
    let unnamed = async |tx: &Transaction<'_>| {
        tx.execute_typed("UPDATE account SET cents = cents - 30 WHERE name = 'ada'", &[]).await?;
        Ok(1)
    };
    done(transact(&store, TOKEN, unnamed).await);
    assert_eq!(state(&store).await, PAID);
}

#[test]
async fn an_attempt_that_lost_its_claim_is_refused_before_its_code_runs() {
    let ground = Ground::new().await;
    let ran = Arc::new(AtomicU32::new(0));
    for token in [TOKEN + 1, 0, u64::MAX] {
        let counter = ran.clone();
        let count = async move |tx: &Transaction<'_>| {
            counter.fetch_add(1, Ordering::Relaxed);
            pay(tx).await
        };
        let answer = transact(&ground.open, token, count).await.unwrap();
        assert!(matches!(answer, Transacted::Refused), "{answer:?}");
    }
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    assert_eq!(ground.state().await, UNTOUCHED);
    // Nor can it be done twice: the task is gone.
    done(ground.transact(pay).await);
    assert!(matches!(ground.transact(pay).await.unwrap(), Transacted::Refused));
    assert_eq!(ground.state().await, PAID);
}

/// Lets a test do something while code of the user runs.
struct Between {
    inside: tokio::sync::Notify,
    go_on: tokio::sync::Notify,
}

impl Between {
    fn new() -> Arc<Between> {
        Arc::new(Between { inside: tokio::sync::Notify::new(), go_on: tokio::sync::Notify::new() })
    }

    /// Pays, and waits in the middle.
    async fn pay(&self, tx: &Transaction<'_>) -> Ended {
        let left = pay(tx).await?;
        self.inside.notify_one();
        self.go_on.notified().await;
        Ok(left)
    }

    /// Waits until somebody has paid and waits.
    async fn is_inside(&self) {
        within("the user's code", self.inside.notified()).await;
    }
}

#[test]
async fn no_commit_waits_for_the_users_code_and_whoever_comes_first_counts() {
    // The workflow gives the call up while the code runs.
    let ground = Ground::new().await;
    let between = Between::new();
    let inside = between.clone();
    let given_up = async {
        between.is_inside().await;
        let tasks = vec![TaskWrite::Discard(the_call())];
        write(&ground.open, [Step { tasks, ..Step::default() }]).await;
        between.go_on.notify_one();
    };
    let paying = ground.transact(async move |tx| inside.pay(tx).await);
    let (answer, ()) = tokio::join!(paying, given_up);
    assert!(matches!(answer.unwrap(), Transacted::Refused));
    assert_eq!(ground.state().await, (100, false, 0));

    // A heartbeat while it runs does not take the claim away.
    let ground = Ground::new().await;
    let between = Between::new();
    let inside = between.clone();
    let amended = async {
        between.is_inside().await;
        let heartbeat = Some(Heartbeat { details: Payload::null(), at: LATER });
        let tasks = vec![TaskWrite::Amend(TaskRow { heartbeat, ..claimed() })];
        write(&ground.open, [Step { tasks, ..Step::default() }]).await;
        between.go_on.notify_one();
    };
    let paying = ground.transact(async move |tx| inside.pay(tx).await);
    let (answer, ()) = tokio::join!(paying, amended);
    done(answer);
    assert_eq!(ground.state().await, PAID);
}

#[test]
async fn an_attempt_whose_shard_is_another_nodes_by_now_may_still_finish() {
    let ground = Ground::new().await;
    let shard = the_call().run.uid.shard();
    ground.open.release("node-a", Arc::new([shard])).await.unwrap();
    let other = connect(&ground.open.database).await;
    let Owning::Taken(_right) = other.try_own(Node::new("node-b")).await.unwrap() else {
        panic!("held");
    };
    assert_eq!(other.take("node-b", Arc::new([shard])).await.unwrap(), [shard]);
    let mut news = other.changes();
    done(ground.transact(pay).await);
    assert_eq!(ground.state().await, PAID);
    // Whoever holds the shard hears of it.
    within("the news of that", news.changed()).await.unwrap();
    assert_eq!(other.due_messages(LATER, 10).await.unwrap().len(), 1);
}

#[test]
async fn a_node_that_was_taken_for_dead_writes_nothing() {
    let ground = Ground::new().await;
    ground.open.database.run("DELETE FROM resurgam.node").await;
    let error = ground.transact(pay).await.unwrap_err();
    assert!(error.is_fenced(), "{error}");
    assert_eq!(ground.state().await, UNTOUCHED);
}

#[test]
async fn who_removes_a_node_waits_for_its_last_transaction() {
    let ground = Ground::new().await;
    let (sql, connection) =
        tokio_postgres::connect(&ground.open.database.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    // Holds up the commit after its fence.
    sql.batch_execute("BEGIN; LOCK resurgam.message IN EXCLUSIVE MODE").await.unwrap();
    let database = &ground.open.database;
    let bury = async {
        blocked(database, ".message ").await;
        database.run("DELETE FROM resurgam.node").await;
    };
    let release = async {
        blocked(database, "DELETE FROM resurgam.node").await;
        sql.batch_execute("COMMIT").await.unwrap();
    };
    let (answer, (), ()) = tokio::join!(ground.transact(pay), bury, release);
    done(answer);
}

#[test]
async fn a_client_runs_no_attempts() {
    let ground = Ground::new().await;
    ground.open.disown().await.unwrap();
    let error = ground.transact(pay).await.unwrap_err();
    assert!(error.is_fenced(), "{error}");
    assert_eq!(ground.state().await, UNTOUCHED);
    drop(ground.right);
}

#[test]
async fn a_failure_leaves_nothing_behind_and_says_what_the_server_said() {
    let ground = Ground::new().await;
    let answer = ground.transact(async |tx| {
        pay(tx).await?;
        Err(Failure::of_type("Broke", "no money"))
    });
    assert_eq!(failed(answer.await).type_name.as_deref(), Some("Broke"));
    let answer = ground.transact(async |tx| {
        pay(tx).await?;
        tx.execute("INSERT INTO account VALUES ('bob', 1)", &[]).await?;
        Ok(1)
    });
    let failure = failed(answer.await);
    assert!(failure.message.contains("duplicate key value"), "{failure}");
    assert!(!failure.is_terminal());
    let answer = ground.transact(async |tx| {
        pay(tx).await?;
        panic!("out of ink");
    });
    let failure = failed(answer.await);
    assert_eq!((failure.kind, failure.message.as_str()), (Kind::Panic, "out of ink"));
    let large = ground.transact(async |tx| Ok(pay(tx).await?.pow(9)));
    done(large.await);
}

#[test]
async fn a_result_that_cannot_be_stored_takes_the_writes_with_it() {
    let ground = Ground::new().await;
    let work = PostgresWork::new(async |tx| {
        pay(tx).await?;
        Ok(Payload::encode(&"x".repeat(2_000))?)
    });
    let failure = failed(ground.open.transact(attempt(TOKEN, Arc::new(work))).await);
    assert_eq!(failure.message, "too large");
    assert_eq!(ground.state().await, UNTOUCHED);
    done(ground.transact(pay).await);
}

#[test]
async fn code_that_takes_too_long_is_cut() {
    let ground = Ground::new().await;
    let (store, _right) = ground.hurried().await;
    let waits = transact(&store, TOKEN, async |tx| {
        pay(tx).await?;
        std::future::pending().await
    });
    assert_eq!(failed(waits.await).kind, Kind::Timeout);
    let computes = transact(&store, TOKEN, async |tx| {
        pay(tx).await?;
        tx.execute("SELECT pg_sleep(60)", &[]).await?;
        Ok(1)
    });
    assert_eq!(failed(computes.await).kind, Kind::Timeout);
    assert_eq!(ground.state().await, UNTOUCHED);
    done(ground.transact(pay).await);
}

/// It cannot be cut, so it is late when it comes back, whatever it comes back with. It sleeps: that
/// it takes so long is what is wrong with it.
#[test]
async fn code_that_blocks_its_thread_for_too_long_is_late_and_not_run_again() {
    let ground = Ground::new().await;
    let (store, _right) = ground.hurried().await;
    let quiet = transact(&store, TOKEN, async |tx| {
        let left = pay(tx).await?;
        // Code that blocks its thread past the limit is what this is about.
        std::thread::sleep(LIMIT + Duration::from_millis(200));
        Ok(left)
    });
    assert_eq!(failed(quiet.await).kind, Kind::Timeout);
    // By then the server has ended the connection, a second after the limit.
    let ended = transact(&store, TOKEN, async |tx| {
        let left = pay(tx).await?;
        std::thread::sleep(LIMIT + Duration::from_millis(1_500));
        Ok(left)
    });
    assert_eq!(failed(ended.await).kind, Kind::Timeout);
    // By then the server has ended the statement, a tenth of a second after the limit.
    let cut = transact(&store, TOKEN, async |tx| {
        let look_away = async {
            tokio::task::yield_now().await;
            std::thread::sleep(LIMIT + Duration::from_millis(500));
        };
        let (computed, ()) = tokio::join!(tx.execute("SELECT pg_sleep(60)", &[]), look_away);
        Ok(i64::try_from(computed?)?)
    });
    assert_eq!(failed(cut.await).kind, Kind::Timeout);
    assert_eq!(ground.state().await, UNTOUCHED);
    done(ground.transact(pay).await);
}

#[test]
async fn who_stops_waiting_stops_the_code() {
    let ground = Ground::new().await;
    let between = Between::new();
    let inside = between.clone();
    let paying = ground.transact(async move |tx| inside.pay(tx).await);
    tokio::select! {
        _ = paying => panic!("it waits for ever"),
        () = between.is_inside() => {}
    }
    // Nothing is locked any more, and nothing was written.
    done(ground.transact(pay).await);
    assert_eq!(ground.state().await, PAID);
}

#[test]
async fn what_the_commit_finds_wrong_is_a_failure_of_the_code() {
    let ground = Ground::new().await;
    let sql = "CREATE TABLE entry (account text REFERENCES account (name)
                                   DEFERRABLE INITIALLY DEFERRED)";
    change(&ground.open, sql).await.unwrap();
    let stray = async |tx: &Transaction<'_>| {
        tx.execute("INSERT INTO entry VALUES ('nobody')", &[]).await?;
        pay(tx).await
    };
    let failure = failed(ground.transact(stray).await);
    assert!(failure.message.contains("violates foreign key constraint"), "{failure}");
    assert_eq!(ground.state().await, UNTOUCHED);
    let failure = change(&ground.open, "INSERT INTO entry VALUES ('nobody')").await.unwrap_err();
    assert!(failure.message.contains("violates foreign key constraint"), "{failure}");
    done(ground.transact(pay).await);
}

#[test]
async fn a_statement_that_failed_is_a_failure_also_when_the_code_goes_on() {
    let ground = Ground::new().await;
    let swallowing = async |tx: &Transaction<'_>| {
        let left = pay(tx).await?;
        tx.execute("INSERT INTO account VALUES ('bob', 1)", &[]).await.unwrap_err();
        Ok(left)
    };
    let failure = failed(ground.transact(swallowing).await);
    assert_eq!(failure.type_name.as_deref(), Some("RolledBack"));
    assert!(!failure.is_terminal());
    assert_eq!(ground.state().await, UNTOUCHED);
    // Who knows how can go on after one.
    let saving = async |tx: &Transaction<'_>| {
        tx.batch_execute("SAVEPOINT before").await?;
        tx.execute("INSERT INTO account VALUES ('bob', 1)", &[]).await.unwrap_err();
        tx.batch_execute("ROLLBACK TO before").await?;
        pay(tx).await
    };
    done(ground.transact(saving).await);
    assert_eq!(ground.state().await, PAID);
}

#[test]
async fn a_transaction_that_was_ended_from_inside_is_found_out() {
    for end in ["COMMIT", "ROLLBACK", "COMMIT; BEGIN"] {
        let ground = Ground::new().await;
        let ending = async move |tx: &Transaction<'_>| {
            tx.batch_execute(end).await?;
            Ok(1)
        };
        let failure = failed(ground.transact(ending).await);
        assert_eq!(failure.type_name.as_deref(), Some("NotAllowed"), "{end}");
        assert!(failure.is_terminal());
        // Ours is as it was, and goes on.
        assert_eq!(ground.state().await, UNTOUCHED);
        write(&ground.open, [start(2)]).await;
        done(ground.transact(pay).await);
    }
}

#[test]
async fn who_reads_writes_nothing_and_sees_one_moment() {
    let ground = Ground::new().await;
    let failure = read(&ground.open, "UPDATE account SET cents = 0 RETURNING cents").await;
    let failure = failure.unwrap_err();
    assert!(failure.message.contains("read-only transaction"), "{failure}");
    assert_eq!(ground.state().await, UNTOUCHED);
    let other = connect(&ground.open.database).await;
    let twice = PostgresWork::new(async move |tx| {
        let sum = async || -> Ended {
            let sum = "SELECT sum(cents)::bigint FROM account";
            Ok(tx.query_typed_one(sum, &[]).await?.try_get(0)?)
        };
        let before = sum().await?;
        change(&other, "UPDATE account SET cents = cents + 1").await?;
        assert_eq!(sum().await?, before);
        Ok(Payload::null())
    });
    ground.open.on_tables(Access::Read, Arc::new(twice)).await.unwrap().unwrap();
}

#[test]
async fn work_for_another_store_is_refused() {
    let ground = Ground::new().await;
    let failure = failed(ground.open.transact(attempt(TOKEN, Arc::new("not for us"))).await);
    assert_eq!(failure.type_name.as_deref(), Some("NotOffered"));
    assert!(failure.is_terminal());
    for access in [Access::Read, Access::Write] {
        let ended = ground.open.on_tables(access, Arc::new(1)).await.unwrap();
        assert_eq!(ended.unwrap_err().type_name.as_deref(), Some("NotOffered"));
    }
}

/// Pays again and again until the trouble is over, as the engine does; how often the code ran.
async fn patiently(cuts: &[Cut]) -> u32 {
    let ground = Ground::new().await;
    let proxy = Proxy::before(&ground.open.database).await;
    let options = few().without_listening();
    let store = PostgresStore::connect(&proxy.url, options).await.unwrap();
    // The same node in another store: what is told apart is who writes.
    drop(ground.right);
    let _right =
        poll("the right to work", async || match store.try_own(Node::new("node-b")).await {
            Ok(Owning::Taken(right)) => Some(right),
            _ => None,
        })
        .await;
    let ran = Arc::new(AtomicU32::new(0));
    proxy.plan(cuts);
    poll("the end of the trouble", async || {
        let counter = ran.clone();
        let answer = transact(&store, TOKEN, async move |tx| {
            counter.fetch_add(1, Ordering::Relaxed);
            pay(tx).await
        });
        match answer.await {
            Ok(Transacted::Done(_)) => Some(()),
            Ok(other) => panic!("{other:?}"),
            Err(error) if error.is_transient() => None,
            Err(error) => panic!("{error}"),
        }
    })
    .await;
    assert_eq!(state(&ground.open).await, PAID, "{cuts:?}");
    ran.load(Ordering::Relaxed)
}

#[test]
async fn a_lost_answer_is_resolved_and_the_money_is_paid_once() {
    assert_eq!(patiently(&[Never]).await, 1);
    // Nothing was written: the code runs again.
    assert_eq!(patiently(&[BeforeCommit, BeforeCommit]).await, 3);
    // It was: it does not.
    assert_eq!(patiently(&[AfterCommit]).await, 1);
    assert_eq!(patiently(&[BeforeCommit, AfterCommit]).await, 2);
    let ran = patiently(&[Meanwhile, AfterCommit]).await;
    assert!(ran <= 2, "{ran}");
}

#[test]
async fn a_connection_that_ends_inside_is_no_failure_of_the_code() {
    let ground = Ground::new().await;
    let answer = ground.transact(async |tx| {
        pay(tx).await?;
        tx.execute("SELECT pg_terminate_backend(pg_backend_pid())", &[]).await?;
        Ok(1)
    });
    let error = answer.await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    done(ground.transact(pay).await);
    assert_eq!(ground.state().await, PAID);
}
