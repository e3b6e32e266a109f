//! Servers that take turns: the primary is found, an old one is refused, and no commit waits for
//! ever. Tests that need servers of their own have a quarter of an hour.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use resurgam_postgres_server::{Pair, Passage, Proxy, Server};
use resurgam_store::rows::InstanceFilter;
use resurgam_store::{Commit, Inspect, Node, Own, Result, Staleness, StepResult};
use resurgam_store_postgres::{Options, PostgresStore};
use resurgam_watchdog::test;
use tokio_postgres::NoTls;

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

/// Opens a store.
async fn open(url: &str) -> PostgresStore {
    connected(async || PostgresStore::connect(url, options()).await).await
}

/// Connects; a busy machine may need more than one try.
async fn connected(mut connect: impl AsyncFnMut() -> Result<PostgresStore>) -> PostgresStore {
    poll("a connection", async || match connect().await {
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

/// Commits until that is refused because of an old primary. The database has not gone back, and
/// nobody may say so.
async fn refused_commit(store: &PostgresStore, number: u128) -> String {
    poll("a refused commit", async || match store.commit([start(number)].into()).await {
        Ok(_) => panic!("the old primary has acknowledged a commit"),
        Err(error) => {
            assert!(error.is_transient(), "{error}");
            Some(error.to_string()).filter(|text| text.contains("old primary"))
        }
    })
    .await
}

/// Whether a store finds an instance, once it gets an answer.
async fn found(store: &PostgresStore, number: u128) -> bool {
    let id = format!("order-{number}");
    let found = poll("an answer", async || match store.find(&id).await {
        Ok(found) => Some(found),
        Err(error) if error.is_transient() => None,
        Err(error) => panic!("{error}"),
    });
    found.await.is_some()
}

/// Everything that somebody who works, or begins to, changes on a server.
async fn traces(server: &Server) -> String {
    let sql = "
        SELECT concat_ws(' ', (SELECT string_agg(node || lane || n, ',' ORDER BY node, lane)
                               FROM resurgam.lane),
                         (SELECT count(*) FROM resurgam.event),
                         (SELECT string_agg(id, ',' ORDER BY id) FROM resurgam.instance),
                         (SELECT sum(epoch) FROM resurgam.shard),
                         (SELECT string_agg(node || beat, ',' ORDER BY node) FROM resurgam.node),
                         (SELECT concat_ws(' ', timeline, mark) FROM resurgam.meta))";
    server.ask_in(NAME, sql).await
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
    // A new process that does not hear of the new primary in this time takes the old one.
    let url = format!("{}&connect_timeout=60", pair.url_of(NAME, ports));
    let survivor = open(&url).await;
    write(&survivor, [start(1)]).await;

    pair.fail_over().await;
    patiently(&survivor, 2).await;
    // It acknowledges at once whatever comes, so that who writes there is found out, and hangs
    // nowhere.
    pair.revive_alone().await;
    let old = pair.other();
    let before = traces(old).await;

    // Who comes now finds both, and takes the one that was promoted.
    let fresh = open(&url).await;
    assert!(found(&fresh, 2).await, "a new process is on the old primary");
    patiently(&fresh, 3).await;

    // Who knows the new primary does not move back when that one is out of reach.
    proxies[1].set(Passage::Closed);
    let refusal = async {
        let error = told(&survivor, "old primary").await;
        says(&error, &["it is on timeline 1", "promoted to timeline 2", "pg_rewind"]);
        told(&fresh, "old primary").await;
        assert_eq!(traces(old).await, before, "somebody wrote to the old primary");
        // Nor when it is back and takes its time: the old one answers first, again and again.
        proxies[1].set(Passage::Slow(Duration::from_millis(2_500)));
    };
    let (mut committing, mut refusal) = (pin!(patiently(&survivor, 4)), pin!(refusal));
    tokio::select! {
        () = &mut refusal => committing.await,
        () = &mut committing => {
            // It may have been faster than the end of its connection.
            assert_eq!(count(old, 4).await, "0", "the old primary has acknowledged a commit");
            refusal.await;
        }
    }
    for number in [2, 3, 4] {
        assert_eq!(count(pair.primary(), number).await, "1", "order-{number}");
    }
    assert_eq!(traces(old).await, before, "somebody wrote to the old primary");
}

/// The pooler's clients stay connected while it leads to other servers, and are told nothing.
#[test(minutes = 15, threads = 2)]
async fn an_old_primary_behind_a_pooler_is_refused_and_nothing_is_written_there() {
    let pair = pair().await;
    let pooler = pair.primary().pooler();
    // Beats, looks and commits have a minute: what is waited for here is no limit that ran out.
    let connect = async || {
        let options = few().without_listening();
        poll("a connection", async || {
            PostgresStore::connect(&pooler.url(NAME), options.clone()).await.ok()
        })
        .await
    };
    let (node, other) = (connect().await, connect().await);
    write(&node, [start(1)]).await;
    let _right = own(&node, "node-a").await;
    pair.fail_over().await;
    pooler.lead_to(pair.primary()).await;
    for (number, store) in [(2, &node), (3, &other)] {
        patiently(store, number).await;
        assert!(found(store, 2).await);
    }

    pair.revive_alone().await;
    let old = pair.other();
    let before = traces(old).await;
    pooler.lead_to(old).await;
    let refused = refused_commit(&node, 4).await;
    says(&refused, &["it is an old primary", "it is on timeline 1", "promoted to timeline 2"]);
    told(&node, "it is an old primary").await;
    // Nobody takes a shard there, whatever it says about who is alive.
    let joined =
        poll("a refusal to join", async || match other.try_own(Node::new("node-b")).await {
            Ok(_) => panic!("a node joined on the old primary"),
            Err(error) => {
                Some(error.to_string()).filter(|text| text.contains("it is an old primary"))
            }
        });
    joined.await;
    assert_eq!(traces(old).await, before, "somebody wrote to the old primary");

    pooler.lead_to(pair.primary()).await;
    patiently(&node, 4).await;
    assert_eq!(count(pair.primary(), 4).await, "1");
    assert_eq!(traces(old).await, before, "somebody wrote to the old primary");
}

/// Three things happen to commits here that wait for a standby: somebody ends the server's wait, it
/// takes too long, and the standby is promoted beside a primary that goes on.
#[test(minutes = 15, threads = 2)]
async fn a_commit_that_waits_for_a_standby_is_acknowledged_only_when_that_has_it() {
    let pair = pair().await;
    let store = open(&pair.url(NAME)).await;
    let named = |name: &str| format!("{}&application_name={name}", pair.url(NAME));
    let other = open(&named("other")).await;
    write(&store, [start(1)]).await;
    write(&other, [start(5)]).await;
    pair.other().kill();
    let waiting = "FROM pg_stat_activity
                   WHERE wait_event = 'SyncRep' AND application_name = 'resurgam'";
    let held_up = async || {
        let waits = format!("SELECT count(*) {waiting}");
        let waits = async || (pair.primary().ask(&waits).await != "0").then_some(());
        poll("a commit that waits for its standby", waits).await;
    };
    let (committing, is_back) = (store.commit([note(1, 3)].into()), AtomicBool::new(false));
    let too_long = other.commit([note(5, 3)].into());
    let ending = async {
        held_up().await;
        pair.primary().ask(&format!("SELECT pg_cancel_backend(pid) {waiting}")).await;
        // What became of it is asked for, and that waits for the standby as well.
        held_up().await;
        // Nobody has cancelled the other one: it was given up after its time.
        let asks = "SELECT count(*) FROM pg_stat_activity
                    WHERE application_name = 'other' AND query LIKE '%THEN n + 2%'";
        let asks = async || (pair.primary().ask(asks).await != "0").then_some(());
        poll("the question what became of a commit that took too long", asks).await;
        is_back.store(true, Ordering::SeqCst);
        tokio::task::block_in_place(|| pair.other().start_again());
    };
    let acknowledged = async {
        within("the end of a commit", committing).await.unwrap();
        assert!(is_back.load(Ordering::SeqCst), "it was acknowledged without the standby");
    };
    let too_long = within("the end of a commit that took too long", too_long);
    let ((), too_long, ()) = tokio::join!(acknowledged, too_long, ending);
    too_long.unwrap();
    let are_there = "SELECT count(*) FROM resurgam.event WHERE seq = 3";
    assert_eq!(pair.other().ask_in(NAME, are_there).await, "2", "the standby has both");

    // The old primary goes on and waits for a standby that has left it; the beats of an idle node
    // go there too, and a commit of somebody with more patience.
    drop(other);
    // Whoever connects after the promotion knows of it: this one has all it needs before.
    let (url, unaware) = (named("patient"), few().without_listening());
    let patient = connected(async || PostgresStore::connect(&url, unaware.clone()).await).await;
    let _right = own(&store, "node-a").await;
    tokio::task::block_in_place(|| pair.other().promote());
    let superseded = superseded_commit(&pair, &patient);
    let beat = "SELECT coalesce(max(beat), 0) FROM resurgam.node WHERE node = 'node-a'";
    let before = pair.other().ask_in(NAME, beat).await;
    let beaten = poll("a beat on the new primary", async || {
        (pair.other().ask_in(NAME, beat).await != before).then_some(())
    });
    tokio::join!(superseded, beaten);
    within("a commit on the new primary", store.commit([note(1, 4)].into())).await.unwrap();
    let is_there = "SELECT count(*) FROM resurgam.event WHERE seq = 4";
    assert_eq!(pair.other().ask_in(NAME, is_there).await, "1");
}

/// Commits to a primary that another server takes the place of while it waits for its standby. When
/// the old one answers at last that it has committed, its client knows better.
async fn superseded_commit(pair: &Pair, store: &PostgresStore) {
    let (old, new) = (pair.primary(), pair.other());
    let sessions = |which: &str| {
        format!("FROM pg_stat_activity WHERE application_name = 'patient' AND {which}")
    };
    let releasing = async {
        let waits = format!("SELECT count(*) {}", sessions("wait_event = 'SyncRep'"));
        let held_up = async || (old.ask(&waits).await != "0").then_some(());
        poll("a commit that waits for its standby", held_up).await;
        let others = sessions("wait_event IS DISTINCT FROM 'SyncRep'");
        let cut = format!("SELECT count(pg_terminate_backend(pid)) {others}");
        new.run_in(NAME, "UPDATE resurgam.instance SET workflow = 'promoted'").await;
        // Whoever reads connects anew, and finds the server that was promoted, unless all were
        // asked less than a second ago.
        poll("an answer of the new primary", async || {
            old.ask(&cut).await;
            let found = store.find("order-1").await.ok()??;
            (found.workflow == "promoted").then_some(())
        })
        .await;
        old.run("ALTER SYSTEM SET synchronous_standby_names = ''").await;
        old.run("SELECT pg_reload_conf()").await;
    };
    let committing = within("a commit", store.commit([start(2)].into()));
    let (committed, ()) = tokio::join!(committing, releasing);
    assert_eq!(committed.unwrap(), [StepResult::Written]);
    assert_eq!(count(new, 2).await, "1", "it was acknowledged by a primary that is none any more");
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
        "{}?sslmode=disable&options=-c%20lock_timeout%3D200",
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
    // A mark that cannot be read just now does not make the other side the right one.
    let locked = "BEGIN; LOCK TABLE resurgam.meta IN ACCESS EXCLUSIVE MODE; SELECT 1";
    let (client, connection) = tokio_postgres::connect(&right.url(NAME), NoTls).await.unwrap();
    let driving = tokio::spawn(connection);
    client.batch_execute(locked).await.unwrap();
    poll("a refusal because of the lock", async || match store.find("order-3").await {
        Ok(_) => panic!("it reads the other side"),
        Err(error) => error.to_string().contains("lock timeout").then_some(()),
    })
    .await;
    driving.abort();
}

#[test(minutes = 15, threads = 2)]
async fn who_only_looks_may_look_at_a_standby_and_hears_how_old_that_is() {
    let pair = pair().await;
    let store = open(&pair.url(NAME)).await;
    write(&store, [start(1)]).await;
    let look = async |url: &str| {
        let connect = || PostgresStore::connect_existing(url, options().looking_only());
        connected(async || connect().await).await
    };
    let standby = look(&pair.other().tcp_url(NAME)).await;
    let found = async || standby.find("order-1").await.unwrap();
    poll("what was written", found).await;
    assert_eq!(standby.list(InstanceFilter::default()).await.unwrap().len(), 1);
    assert_eq!(standby.history(run(1)).await.unwrap().len(), 2);
    assert_eq!(standby.attempts(run(1)).await.unwrap(), []);
    let staleness = standby.staleness().await.unwrap().unwrap();
    assert!(matches!(staleness, Staleness::Standby { age: Some(_) }), "{staleness}");
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
    let store = open(&format!("{both}?sslmode=disable&connect_timeout=5")).await;
    write(&store, [start(1)]).await;
    // Who only looks does not wait to the end, and hears that there is another one.
    let url = format!("{both}?sslmode=disable&connect_timeout=600");
    let looking = PostgresStore::connect_existing(&url, options().looking_only());
    let looking = within("a look", looking).await.unwrap();
    assert!(looking.find("order-1").await.unwrap().is_some());
    let staleness = looking.staleness().await.unwrap().unwrap();
    let unheard = format!("no answer from 127.0.0.1:{}", silent.port());
    says(&staleness.to_string(), &[&unheard, "out of date"]);
}

/// A server that answers nobody any more, although its network is fine: the system confirms what is
/// sent there, so the connection does not break.
#[test(threads = 2)]
async fn a_server_that_falls_silent_while_a_commit_is_prepared_holds_up_nobody() {
    let database = watched().await;
    let (port, proxy) = (Server::shared().port(), Proxy::before(Server::shared()).await);
    let hosts = format!("127.0.0.1:{},127.0.0.1:{port}", proxy.port());
    let url = database.tcp_url().replace(&format!("127.0.0.1:{port}"), &hosts);
    let url = format!("{url}?sslmode=disable");
    let (store, seq) = preparing(&url, "silent", options()).await;
    proxy.set(Passage::Silent);
    // No batch before it was like this one, so it is prepared first.
    let batch = [start(2), start(3), note(1, seq + 1), close(1)];
    let committing = poll("a commit", async || match store.commit(batch.clone().into()).await {
        Ok(results) => Some(results),
        Err(error) if error.is_transient() => None,
        Err(error) => panic!("{error}"),
    });
    let written = within("a commit on another connection", committing).await;
    assert!(written.iter().all(|result| *result == StepResult::Written), "{written:?}");
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
