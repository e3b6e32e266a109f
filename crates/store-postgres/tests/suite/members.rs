//! Nodes that share the shards: they join, leave and die, and everybody has an even share.

use std::time::{Duration, Instant};

use resurgam_core::Shard;
use resurgam_postgres_server::Database;
use resurgam_store::{Commit, Look, Node, Own, Ownership, Owning, Runnable, Standing, Work};
use resurgam_store_postgres::{Options, PostgresStore};
use tokio::sync::watch;

use crate::support::*;

const LEASE: Duration = Duration::from_millis(700);

/// A process with a node in it, which does what a store wants of it, as an engine does.
struct Worker {
    store: PostgresStore,
    right: Option<Ownership>,
    standing: watch::Receiver<Standing>,
    held: Vec<Shard>,
}

impl Worker {
    async fn join(database: &Database<'_>, name: &str) -> Worker {
        Worker::with(database, Node::new(name), few().lease(LEASE)).await
    }

    async fn with(database: &Database<'_>, node: Node, options: Options) -> Worker {
        let store = PostgresStore::connect(&database.url(), options).await.unwrap();
        let standing = store.standing();
        let Owning::Taken(right) = store.try_own(node).await.unwrap() else { panic!("held") };
        let held = right.shards().to_vec();
        Worker { store, right: Some(right), standing, held }
    }

    /// Takes and gives up what it should.
    async fn follow(&mut self) {
        let Standing { take, give, .. } = self.standing.borrow_and_update().clone();
        self.held.extend(self.store.take(take.into()).await.unwrap());
        self.held.retain(|shard| !give.contains(shard));
        self.store.release(give.into()).await.unwrap();
    }

    fn count(&self) -> usize {
        self.held.len()
    }

    /// The number of an instance in one of its shards.
    fn number(&self) -> u128 {
        (1..).find(|number| self.held.contains(&run(*number).uid.shard())).unwrap()
    }
}

/// Everybody does what is to be done until each has as many as expected; how long that took.
async fn settle<const N: usize>(workers: [&mut Worker; N], counts: [usize; N]) -> Duration {
    let since = Instant::now();
    let mut workers = workers;
    poll(async || {
        for worker in &mut workers {
            worker.follow().await;
        }
        workers.iter().map(|worker| worker.count()).eq(counts).then_some(())
    })
    .await;
    since.elapsed()
}

#[tokio::test]
async fn shards_are_shared_evenly_and_only_their_owner_writes() {
    let database = database().await;
    let mut a = Worker::join(&database, "a").await;
    assert_eq!(a.count(), 256, "at once");
    let mut b = Worker::join(&database, "b").await;
    assert_eq!(b.count(), 0, "nothing is free");
    settle([&mut a, &mut b], [128, 128]).await;

    let (of_a, of_b) = (a.number(), b.number());
    write(&a.store, [start(of_a)]).await;
    write(&b.store, [start(of_b)]).await;
    assert!(b.store.commit([note(of_a, 3)].into()).await.unwrap_err().is_fenced());
    // Each finds its own work, and both see everything.
    let all = Runnable::default;
    assert_eq!(a.store.due_tasks(all(), LATER, 10).await.unwrap().len(), 1);
    assert_eq!(b.store.due_messages(LATER, 10).await.unwrap()[0].uid, run(of_b).uid);
    assert!(a.store.find(&format!("order-{of_b}")).await.unwrap().is_some());
    // A message to somebody else's instance needs no shard of one's own.
    write(&b.store, [tell(of_a, "from b")]).await;

    let (before, mut standing) = (a.standing.borrow().departed, a.store.standing());
    drop(b.right.take());
    settle([&mut a], [256]).await;
    poll(async || (standing.borrow_and_update().departed != before).then_some(())).await;
    write(&a.store, [note(of_b, 3)]).await;
    assert!(b.store.commit([note(of_b, 4)].into()).await.unwrap_err().is_fenced());
}

#[tokio::test]
async fn what_is_given_up_is_with_the_next_node_within_tens_of_milliseconds() {
    let database = database().await;
    // A lease so long that no beat comes in time by itself.
    let options = || few().lease(Duration::from_secs(60));
    let mut a = Worker::with(&database, Node::new("a"), options()).await;
    // Until everybody listens.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut b = Worker::with(&database, Node::new("b"), options()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let joined = settle([&mut a, &mut b], [128, 128]).await;
    drop(b.right.take());
    let left = settle([&mut a], [256]).await;
    println!("shared after {joined:?}, taken over after {left:?}");
    // On a machine that others use too, these are far above what it takes.
    assert!(joined + left < Duration::from_secs(2), "{joined:?}, {left:?}");
}

#[tokio::test]
async fn a_node_that_stops_has_left_when_everything_is_at_rest() {
    let database = database().await;
    let mut a = Worker::join(&database, "a").await;
    // What an engine does that stops, before its process ends.
    a.store.release(Shard::all().collect()).await.unwrap();
    drop(a.right.take());
    a.store.flush().await.unwrap();
    assert_eq!(database.ask("SELECT count(*) FROM resurgam.node").await, "0");
    let b = Worker::join(&database, "b").await;
    assert_eq!(b.count(), 256);
}

#[tokio::test]
async fn without_notifications_shards_move_by_looking() {
    let database = database().await;
    let options = || few().lease(Duration::from_secs(60)).without_listening();
    let mut a = Worker::with(&database, Node::new("a"), options()).await;
    let mut b = Worker::with(&database, Node::new("b"), options()).await;
    let joined = settle([&mut a, &mut b], [128, 128]).await;
    drop(b.right.take());
    let left = settle([&mut a], [256]).await;
    println!("shared after {joined:?}, taken over after {left:?}");
    assert!(joined + left < Duration::from_secs(6), "{joined:?}, {left:?}");
}

#[tokio::test]
async fn a_node_that_stands_still_for_a_lease_loses_its_shards_and_cannot_write() {
    let database = database().await;
    let mut a = Worker::join(&database, "a").await;
    let mut b = Worker::join(&database, "b").await;
    settle([&mut a, &mut b], [128, 128]).await;
    let number = b.number();
    let mut claimed = start(number);
    if let [resurgam_store::TaskWrite::Insert(task)] = &mut claimed.tasks[..] {
        task.claim =
            Some(resurgam_store::rows::Claim { node: "b".into(), token: 7, started_at: LATER });
    }
    write(&b.store, [claimed]).await;
    assert_eq!(a.store.abandoned("a", 10).await.unwrap(), []);

    // Its process stands still: nothing of its store moves.
    let stopped = Instant::now();
    b.store.close().await;
    let before = a.standing.borrow().departed;
    settle([&mut a], [256]).await;
    assert!(stopped.elapsed() >= LEASE * 6 / 7, "after {:?}", stopped.elapsed());
    poll(async || (a.standing.borrow().departed != before).then_some(())).await;
    let lost = a.store.abandoned("a", 10).await.unwrap();
    assert_eq!(lost.iter().map(|task| task.call.run).collect::<Vec<_>>(), [run(number)]);
    write(&a.store, [note(number, 3)]).await;
}

#[tokio::test]
async fn a_node_that_wakes_up_after_a_lease_knows_that_it_was_taken_for_dead() {
    let database = database().await;
    let mut a = Worker::join(&database, "a").await;
    let mut b = Worker::join(&database, "b").await;
    settle([&mut a, &mut b], [128, 128]).await;
    let number = b.number();
    write(&b.store, [start(number)]).await;
    assert!(b.store.may_begin() && !b.store.is_overtaken());
    let mut news = b.store.changes();
    // What a node does that found it dead.
    let buried = "UPDATE resurgam.shard SET owner = NULL WHERE owner = 'b';
                  DELETE FROM resurgam.node WHERE node = 'b'";
    database.run(buried).await;
    assert!(b.store.commit([note(number, 3)].into()).await.unwrap_err().is_fenced());
    poll(async || b.store.is_overtaken().then_some(())).await;
    news.changed().await.unwrap();

    // It begins anew under another name.
    drop(b.right.take());
    b.store.disown().await.unwrap();
    assert!(!b.store.is_overtaken());
    let Owning::Taken(right) = b.store.try_own(Node::new("b2")).await.unwrap() else {
        panic!("held");
    };
    b.held = right.shards().to_vec();
    b.right = Some(right);
    settle([&mut a, &mut b], [128, 128]).await;
}

#[tokio::test]
async fn a_node_whose_shard_another_one_has_is_overtaken() {
    let database = database().await;
    let a = Worker::join(&database, "a").await;
    database.run("UPDATE resurgam.shard SET epoch = epoch + 1 WHERE shard = 3").await;
    poll(async || a.store.is_overtaken().then_some(())).await;
}

#[tokio::test]
async fn a_node_that_cannot_beat_begins_nothing_and_says_so() {
    let database = database().await;
    let proxy = crate::proxy::Proxy::before(&database).await;
    let options = few().lease(LEASE).without_listening();
    let store = PostgresStore::connect(&proxy.url, options).await.unwrap();
    let mut standing = store.standing();
    let _right = own(&store, "a").await;
    assert!(store.may_begin() && standing.borrow_and_update().may_begin);
    // The network swallows everything and answers nothing.
    let since = Instant::now();
    proxy.freeze();
    poll(async || (!store.may_begin()).then_some(())).await;
    let noticed = since.elapsed();
    assert!(noticed >= LEASE / 2 && noticed < LEASE, "{noticed:?}");
    poll(async || (!standing.borrow_and_update().may_begin).then_some(())).await;
    assert!(since.elapsed() < LEASE * 2, "{:?}", since.elapsed());
    proxy.thaw();
    poll(async || (store.may_begin() && standing.borrow_and_update().may_begin).then_some(()))
        .await;
    // Nobody else was there to take it for dead.
    assert!(!store.is_overtaken());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_the_database_kills_nobody() {
    let server = resurgam_postgres_server::Server::start();
    let database = server.database().await;
    let mut a = Worker::join(&database, "a").await;
    let mut b = Worker::join(&database, "b").await;
    settle([&mut a, &mut b], [128, 128]).await;
    tokio::task::block_in_place(|| server.kill());
    tokio::time::sleep(LEASE * 2).await;
    tokio::task::block_in_place(|| server.start_again());
    let (of_a, of_b) = (a.number(), b.number());
    poll(async || a.store.commit([start(of_a)].into()).await.ok()).await;
    poll(async || b.store.commit([start(of_b)].into()).await.ok()).await;
    tokio::time::sleep(LEASE).await;
    assert!(!a.store.is_overtaken() && !b.store.is_overtaken());
}
