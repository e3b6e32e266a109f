//! Servers that take turns: the primary is found, an old one is refused, and no commit waits for
//! ever. Tests that need servers of their own have a quarter of an hour.

use std::time::Duration;

use resurgam_postgres_server::{Pair, Passage, Proxy, Server};
use resurgam_store::rows::InstanceFilter;
use resurgam_store::{Commit, Inspect, StepResult};
use resurgam_store_postgres::{Options, PostgresStore};
use resurgam_watchdog::test;

use crate::support::*;

/// Long enough for a busy machine, and short enough to wait for.
const LEASE: Duration = Duration::from_secs(5);

/// The database on both servers.
const NAME: &str = "orders";

async fn pair() -> Pair {
    let pair = Pair::start().await;
    pair.primary().run(&format!("CREATE DATABASE {NAME}")).await;
    pair
}

fn options() -> Options {
    few().lease(LEASE)
}

/// Opens a store; a busy machine may need more than one try.
async fn open(url: &str) -> PostgresStore {
    poll("a connection", async || match PostgresStore::connect(url, options()).await {
        Ok(store) => Some(store),
        Err(error) if error.is_transient() => None,
        Err(error) => panic!("{error}"),
    })
    .await
}

async fn refused(url: &str) -> String {
    let error = PostgresStore::connect(url, options()).await.map(drop).unwrap_err();
    assert!(error.is_transient(), "{error}");
    error.to_string()
}

/// Commits as the engine does: again and again while the trouble is transient.
async fn patiently(store: &PostgresStore, number: u128) {
    poll("a commit", async || match store.commit([start(number)].into()).await {
        Ok(results) => {
            assert_eq!(results, [StepResult::Written]);
            Some(())
        }
        Err(error) if error.is_transient() => None,
        Err(error) => panic!("{error}"),
    })
    .await;
}

/// What a store says to who reads, once it says these words. Commits wait until they know what
/// became of them, and say nothing.
async fn told(store: &PostgresStore, words: &str) -> String {
    poll("the refusal", async || {
        let error = store.find("order-1").await.err()?;
        assert!(error.is_transient(), "{error}");
        Some(error.to_string()).filter(|text| text.contains(words))
    })
    .await
}

/// How many instances of this number a server has.
async fn count(server: &Server, number: u128) -> String {
    let sql = format!("SELECT count(*) FROM resurgam.instance WHERE id = 'order-{number}'");
    server.ask_in(NAME, &sql).await
}

fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
}

#[test(minutes = 15, threads = 2)]
async fn several_hosts_mean_the_primary_whichever_comes_first() {
    let pair = pair().await;
    let [first, second] = pair.servers();
    let (proxy, ports) = (Proxy::before(first).await, [first.port(), second.port()]);
    let store = open(&pair.url_of(NAME, ports)).await;
    write(&store, [start(1)]).await;
    let turned = pair.url_of(NAME, [ports[1], ports[0]]);
    assert!(open(&turned).await.find("order-1").await.unwrap().is_some());
    says(&refused(&second.tcp_url(NAME)).await, &["it is a standby", "name the primary"]);
    // Where nobody can be used, every host is named with what is wrong.
    proxy.set(Passage::Closed);
    let names = [format!("127.0.0.1:{}", proxy.port()), format!("127.0.0.1:{}", ports[1])];
    let error = refused(&pair.url_of(NAME, [proxy.port(), ports[1]])).await;
    says(&error, &[&names[0], &names[1], "nobody answers", "it is a standby"]);
}

#[test(minutes = 15, threads = 2)]
async fn an_old_primary_that_is_back_is_refused_and_nothing_is_written_there() {
    let pair = pair().await;
    let [first, second] = pair.servers();
    let proxies = [Proxy::before(first).await, Proxy::before(second).await];
    let ports = [proxies[0].port(), proxies[1].port()];
    let url = pair.url_of(NAME, ports);
    let survivor = open(&url).await;
    write(&survivor, [start(1)]).await;

    pair.fail_over().await;
    patiently(&survivor, 2).await;
    pair.revive();
    let old = pair.other();
    assert_eq!(count(old, 1).await, "1");

    // Who comes now finds both, and takes the one that was promoted.
    let fresh = open(&url).await;
    assert!(fresh.find("order-2").await.unwrap().is_some());
    write(&fresh, [start(3)]).await;

    // Who knows the new primary does not move back when that one is out of reach.
    proxies[1].set(Passage::Closed);
    let refusal = async {
        let error = told(&survivor, "old primary").await;
        says(&error, &["it is on timeline 1", "promoted to timeline 2", "pg_rewind"]);
        told(&fresh, "old primary").await;
        assert_eq!(count(old, 4).await, "0");
        proxies[1].set(Passage::Open);
    };
    tokio::join!(patiently(&survivor, 4), refusal);
    for number in [2, 3, 4] {
        assert_eq!(count(old, number).await, "0", "order-{number}");
        assert_eq!(count(pair.primary(), number).await, "1", "order-{number}");
    }
}

/// Two things hold up commits here: somebody ends the server's wait for its standby, and a standby
/// is promoted beside a primary that goes on.
#[test(minutes = 15, threads = 2)]
async fn a_commit_that_waits_for_a_standby_is_acknowledged_only_when_that_has_it() {
    let pair = pair().await;
    let store = open(&pair.url(NAME)).await;
    write(&store, [start(1)]).await;
    pair.other().kill();
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let held_up = async || {
        let waits = async || (pair.primary().ask(waiting).await != "0").then_some(());
        poll("a commit that waits for its standby", waits).await;
    };
    let committing = store.commit([note(1, 3)].into());
    let ending = async {
        held_up().await;
        pair.primary().ask(cancel).await;
        // What became of it is asked for, and that waits for the standby as well.
        held_up().await;
        tokio::task::block_in_place(|| pair.other().start_again());
    };
    let acknowledged = async {
        committing.await.unwrap();
        let is_there = "SELECT count(*) FROM resurgam.event WHERE seq = 3";
        assert_eq!(pair.other().ask_in(NAME, is_there).await, "1", "the standby has it");
    };
    tokio::join!(acknowledged, ending);

    // The old primary goes on and waits for a standby that has left it; the beats of an idle node
    // go there too.
    let _right = own(&store, "node-a").await;
    tokio::task::block_in_place(|| pair.other().promote());
    let beat = "SELECT coalesce(max(beat), 0) FROM resurgam.node WHERE node = 'node-a'";
    let before = pair.other().ask_in(NAME, beat).await;
    poll("a beat on the new primary", async || {
        (pair.other().ask_in(NAME, beat).await != before).then_some(())
    })
    .await;
    within("a commit on the new primary", store.commit([note(1, 4)].into())).await.unwrap();
    let is_there = "SELECT count(*) FROM resurgam.event WHERE seq = 4";
    assert_eq!(pair.other().ask_in(NAME, is_there).await, "1");
}

#[test(minutes = 15, threads = 2)]
async fn of_two_servers_that_were_promoted_to_one_timeline_only_the_known_one_is_used() {
    let first = Server::start();
    first.run(&format!("CREATE DATABASE {NAME}")).await;
    let store = open(&first.tcp_url(NAME)).await;
    write(&store, [start(1)]).await;
    drop(store);
    let (left, right) = (first.standby(), first.standby());
    let follow = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
    poll("two standbys", async || (first.ask(follow).await == "2").then_some(())).await;
    let same = "SELECT (SELECT min(replay_lsn) FROM pg_stat_replication) >= pg_current_wal_lsn()";
    poll("copies that have everything", async || (first.ask(same).await == "t").then_some(()))
        .await;
    tokio::task::block_in_place(|| {
        first.kill();
        left.promote();
        right.promote();
    });
    let proxies = [Proxy::before(&left).await, Proxy::before(&right).await];
    let url = format!(
        "{}?sslmode=disable",
        left.tcp_url(NAME).replace(
            &format!("127.0.0.1:{}", left.port()),
            &format!("127.0.0.1:{},127.0.0.1:{}", proxies[0].port(), proxies[1].port()),
        )
    );
    // Nobody can tell which of both is meant.
    says(&refused(&url).await, &["two servers were promoted to timeline 2", "decide which one"]);
    proxies[1].set(Passage::Closed);
    let store = open(&url).await;
    write(&store, [start(2)]).await;
    proxies[1].set(Passage::Open);
    patiently(&store, 3).await;
    proxies[0].set(Passage::Closed);
    tokio::select! {
        () = patiently(&store, 4) => panic!("it was written on the other side"),
        _error = told(&store, "two servers were promoted to timeline 2") => {}
    }
    assert_eq!(count(&right, 4).await, "0");
}

#[test(minutes = 15, threads = 2)]
async fn who_only_looks_may_look_at_a_standby_and_hears_how_old_that_is() {
    let pair = pair().await;
    let store = open(&pair.url(NAME)).await;
    write(&store, [start(1)]).await;
    let look = async |url: &str| {
        PostgresStore::connect_existing(url, options().looking_only()).await.unwrap()
    };
    let standby = look(&pair.other().tcp_url(NAME)).await;
    let found = async || standby.find("order-1").await.unwrap();
    poll("what was written", found).await;
    assert_eq!(standby.list(InstanceFilter::default()).await.unwrap().len(), 1);
    assert_eq!(standby.history(run(1)).await.unwrap().len(), 2);
    assert_eq!(standby.attempts(run(1)).await.unwrap(), []);
    let staleness = standby.staleness().await.unwrap().unwrap();
    assert!(staleness.age.is_some(), "{staleness}");
    says(&staleness.to_string(), &["read from a standby", "old"]);
    assert!(standby.commit([start(2)].into()).await.is_err());
    // A primary is preferred, and what it shows is not old.
    let primary = look(&pair.url(NAME)).await;
    assert_eq!(primary.staleness().await.unwrap(), None);
    // Who may want to write is told that it cannot be done there.
    let client = PostgresStore::connect_existing(&pair.other().tcp_url(NAME), options()).await;
    says(&client.map(drop).unwrap_err().to_string(), &["it is a standby"]);
    // Without a primary a standby is what there is.
    tokio::task::block_in_place(|| pair.primary().kill());
    let left = look(&pair.url(NAME)).await;
    assert!(left.find("order-1").await.unwrap().is_some());
}

#[test]
async fn a_host_that_never_answers_holds_up_nobody() {
    let database = database().await;
    let silent = Proxy::before(Server::shared()).await;
    silent.set(Passage::Silent);
    let alone = database.tcp_url().replace(
        &format!("127.0.0.1:{}", Server::shared().port()),
        &format!("127.0.0.1:{}", silent.port()),
    );
    let alone = format!("{alone}?sslmode=disable&connect_timeout=1");
    says(&refused(&alone).await, &["nobody answers there", "no answer within"]);
    let both = database.tcp_url().replace(
        &format!("127.0.0.1:{}", Server::shared().port()),
        &format!("127.0.0.1:{},127.0.0.1:{}", silent.port(), Server::shared().port()),
    );
    let store = open(&format!("{both}?sslmode=disable")).await;
    write(&store, [start(1)]).await;
}

/// What is told of a server that was promoted and then lost again stays in the database.
#[test]
async fn a_timeline_that_is_worked_on_is_marked_once() {
    let database = database().await;
    let mark = "SELECT concat_ws(' ', timeline, mark) FROM resurgam.meta";
    let store = connect(&database).await;
    write(&store, [start(1)]).await;
    let first = database.ask(mark).await;
    assert!(first.starts_with("1 ") && first.len() == 34, "{first:?}");
    connect(&database).await;
    assert_eq!(database.ask(mark).await, first);
    // As a server that was restored from an old copy finds it.
    database.run("UPDATE resurgam.meta SET timeline = 7").await;
    let error = refused(&database.url()).await;
    says(&error, &["it is on timeline 1", "worked on at timeline 7", "SET timeline = NULL"]);
    // The message says what to do, and that helps.
    database.run("UPDATE resurgam.meta SET timeline = NULL").await;
    connect(&database).await;
    assert!(database.ask(mark).await.starts_with("1 "));
    database.run("UPDATE resurgam.meta SET timeline = 7").await;
    // A dump that was restored into another cluster is no old primary.
    database.run("UPDATE resurgam.meta SET system = 42").await;
    connect(&database).await;
    assert!(database.ask(mark).await.starts_with("1 "));
}
