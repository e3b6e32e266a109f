//! A lost answer is resolved and not guessed: every batch is in exactly once.

use std::time::Duration;

use resurgam_postgres_server::Server;
use resurgam_store::{Commit, Inspect, Step};
use resurgam_store_postgres::PostgresStore;
use resurgam_watchdog::test;

use crate::proxy::Cut::{AfterCommit, BeforeCommit, Meanwhile, Never};
use crate::proxy::{Cut, Proxy};
use crate::support::*;

/// A store behind a proxy, with an instance.
async fn behind_a_proxy() -> (Proxy, PostgresStore, Open) {
    let direct = open().await;
    let proxy = Proxy::before(&direct.database).await;
    let options = few().without_listening();
    let store = PostgresStore::connect(&proxy.url, options).await.unwrap();
    write(&store, [start(1)]).await;
    (proxy, store, direct)
}

async fn check(cuts: &[Cut]) {
    let (proxy, store, direct) = behind_a_proxy().await;
    proxy.plan(cuts);
    for seq in 3..13 {
        write(&store, [note(1, seq)]).await;
        assert_eq!(direct.history(run(1)).await.unwrap().len() as u64, seq, "{cuts:?}");
    }
    assert!(proxy.is_done(), "{cuts:?}");
}

#[test]
async fn a_connection_cut_just_before_the_commit_writes_the_batch_once() {
    check(&[BeforeCommit]).await;
    check(&[BeforeCommit, BeforeCommit, Never, BeforeCommit]).await;
}

#[test]
async fn a_connection_cut_just_after_the_commit_writes_the_batch_once() {
    check(&[AfterCommit]).await;
    check(&[AfterCommit, AfterCommit, Never, BeforeCommit, AfterCommit]).await;
}

#[test]
async fn a_connection_cut_while_the_server_commits_writes_the_batch_once() {
    check(&[Meanwhile, Meanwhile, BeforeCommit, Meanwhile, AfterCommit, Never, Meanwhile]).await;
}

#[test]
async fn a_careful_commit_whose_answer_is_lost_tells_what_became_of_each_step() {
    let (proxy, store, _direct) = behind_a_proxy().await;
    // The hopeful try is the first commit, the careful one the second.
    proxy.plan(&[Never, AfterCommit]);
    let results = store.commit([start(1), start(2)].into()).await.unwrap();
    use resurgam_store::StepResult::{Duplicate, Written};
    assert_eq!(results, [Duplicate, Written]);
    assert!(proxy.is_done());
    assert!(store.find("order-2").await.unwrap().is_some());
}

/// The server is still busy with the first one when the second is sent: a lock that somebody else
/// holds keeps it busy.
#[test]
async fn a_batch_that_is_sent_again_waits_for_its_first_sending() {
    let (proxy, store, direct) = behind_a_proxy().await;
    let (sql, connection) =
        tokio_postgres::connect(&direct.database.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    sql.batch_execute("BEGIN; LOCK resurgam.event IN EXCLUSIVE MODE").await.unwrap();
    proxy.plan(&[Meanwhile]);
    let writing = async { write(&store, [note(1, 3)]).await };
    let release = async {
        // Who asks what became of the batch waits for the server to be done with it.
        blocked(&direct.database, "THEN n + 2").await;
        sql.batch_execute("COMMIT").await.unwrap();
    };
    tokio::join!(writing, release);
    assert_eq!(direct.history(run(1)).await.unwrap().len(), 3);
    write(&store, [note(1, 4)]).await;
    let n = direct.database.ask("SELECT max(n) FROM resurgam.lane").await;
    assert_eq!(n, "3", "one start and two notes, each counted once");
}

/// Somebody gave up waiting for a batch that the server has not even begun with. It must not get in
/// after the next one, nor be taken for a database that went back in time.
#[test]
async fn a_batch_that_was_given_up_never_gets_in_late() {
    let (proxy, store, direct) = behind_a_proxy().await;
    let pids = "SELECT string_agg(pid::text, ',') FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let pids = direct.database.ask(pids).await;
    proxy.freeze();
    let on_its_way =
        poll("the batch at the proxy", async || (proxy.held_commits() > 0).then_some(()));
    tokio::select! {
        answer = store.commit([note(1, 3)].into()) => panic!("it got through: {answer:?}"),
        () = on_its_way => {}
    }
    // The next one settles what became of it before it begins; both are on their way now.
    let before = proxy.connections();
    let next = store.commit([note(1, 4)].into());
    let (answer, ()) = tokio::join!(next, async {
        let connected = async || (proxy.connections() > before).then_some(());
        poll("the question what became of the batch", connected).await;
        proxy.thaw();
    });
    answer.unwrap();
    // The server's process that was sent the batch is gone: it cannot come later.
    let left = format!("SELECT count(*) FROM pg_stat_activity WHERE pid IN ({pids})");
    poll("the end of the connection that was given up", async || {
        let left: usize = direct.database.ask(&left).await.parse().unwrap();
        (left < pids.split(',').count()).then_some(())
    })
    .await;
    write(&store, [note(1, 5)]).await;
    let seqs: Vec<u64> =
        direct.history(run(1)).await.unwrap().iter().map(|event| event.seq.0).collect();
    assert!(seqs == [1, 2, 3, 4, 5] || seqs == [1, 2, 4, 5], "{seqs:?}");
}

#[test]
async fn who_stops_waiting_for_a_commit_does_not_disturb_the_next() {
    let (_proxy, store, direct) = behind_a_proxy().await;
    for seq in 3..23 {
        let step: Step = note(1, seq);
        // Given up at some moment between sending and the answer. It is to be a different one each
        // time, so no condition can stand for it.
        let impatient = Duration::from_micros(u64::from(u8::try_from(seq).unwrap()) * 100);
        let _ = tokio::time::timeout(impatient, store.commit([step].into())).await;
        write(&store, [note(2, seq)]).await;
    }
    assert_eq!(direct.history(run(2)).await.unwrap().len(), 20);
}

#[test]
async fn a_database_that_was_set_back_is_told_once_and_then_gone_on_with() {
    let open = open().await;
    write(&open, [start(1)]).await;
    write(&open, [note(1, 3)]).await;
    open.database
        .run("UPDATE resurgam.lane SET n = n - 1; DELETE FROM resurgam.event WHERE seq = 3")
        .await;
    let error = open.commit([note(1, 4)].into()).await.unwrap_err();
    assert!(error.is_rewound() && !error.is_transient() && !error.is_data(), "{error}");
    assert!(error.to_string().contains("went back in time"), "{error}");
    assert_eq!(open.history(run(1)).await.unwrap().len(), 2);
    write(&open, [note(1, 3)]).await;
    assert_eq!(open.history(run(1)).await.unwrap().len(), 3);
}

#[test]
async fn a_database_that_was_set_back_to_before_us_is_told_too() {
    let open = open().await;
    write(&open, [start(1)]).await;
    open.database.run("DELETE FROM resurgam.lane").await;
    assert!(open.commit([note(1, 3)].into()).await.unwrap_err().is_rewound());
    write(&open, [note(1, 3)]).await;
}

/// Kills a server of its own and starts it again.
#[test(minutes = 15, threads = 2)]
async fn a_server_that_is_killed_and_comes_back_loses_nothing_and_repeats_nothing() {
    let server = Server::start();
    let database = server.database().await;
    let store = PostgresStore::connect(&database.url(), few()).await.unwrap();
    write(&store, [start(1)]).await;
    for round in 0..2 {
        let stop = async {
            // In the midst of the writes, at whatever point they have reached: no condition.
            tokio::time::sleep(Duration::from_millis(20)).await;
            tokio::task::block_in_place(|| {
                server.kill();
                server.start_again();
            });
        };
        let writes = async {
            for seq in 3 + round * 100..103 + round * 100 {
                patiently(&store, note(1, seq)).await;
            }
        };
        tokio::join!(writes, stop);
    }
    assert_eq!(store.history(run(1)).await.unwrap().len(), 202);
}

#[test(minutes = 15, threads = 2)]
async fn trouble_names_its_database_once() {
    let server = Server::start();
    let database = server.database().await;
    let store = PostgresStore::connect(&database.url(), few()).await.unwrap();
    write(&store, [start(1)]).await;
    tokio::task::block_in_place(|| server.kill());
    let read = poll("a refused read", async || store.find("order-1").await.err()).await;
    let commit = store.commit([note(1, 3)].into());
    // A commit whose answer is lost waits for the server; one that finds no server is refused.
    let commit = tokio::time::timeout(Duration::from_secs(1), commit).await;
    let commit = commit.ok().and_then(Result::err);
    for error in [Some(read), commit].into_iter().flatten() {
        let text = error.to_string();
        assert_eq!(text.matches(" at ").count(), 1, "{text}");
        assert!(text.contains("nobody answers there"), "{text}");
    }
}

/// Commits a step as the engine does: again and again while the trouble is transient.
async fn patiently(store: &PostgresStore, step: Step) {
    poll("a commit after the trouble", async || match store.commit([step.clone()].into()).await {
        Ok(_) => Some(()),
        Err(error) if error.is_transient() => None,
        Err(error) => panic!("{error}"),
    })
    .await;
}
