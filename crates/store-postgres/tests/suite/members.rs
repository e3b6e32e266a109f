//! Nodes that share the shards: they join, leave and die, and everybody has an even share.

use std::time::{Duration, Instant};

use resurgam_core::Shard;
use resurgam_postgres_server::Database;
use resurgam_store::{Aside, Assignment, Commit, Inspect, Node, Own, Ownership, Runnable, Work};
use resurgam_store_postgres::{Options, PostgresStore};
use resurgam_watchdog::test;
use tokio::sync::watch;

use crate::support::*;

/// A lease that is to lapse: as short as it may be for nodes that a busy machine lets wait for a
/// second now and then.
const LEASE: Duration = Duration::from_secs(5);

/// A lease so long that no beat is due while a test waits.
const NO_BEAT: Duration = Duration::from_secs(1_800);

/// A process with a node in it, which does what a store wants of it, as an engine does.
struct Worker {
    name: String,
    store: PostgresStore,
    right: Option<Ownership>,
    assignment: watch::Receiver<Assignment>,
    held: Vec<Shard>,
}

impl Worker {
    async fn join(database: &Database<'_>, name: &str) -> Worker {
        Worker::with(database, name, few()).await
    }

    async fn with(database: &Database<'_>, name: &str, options: Options) -> Worker {
        Worker::of(database, Node::new(name), options).await
    }

    /// A node that says which workflows it knows.
    async fn knowing(database: &Database<'_>, name: &str, workflows: &[&str]) -> Worker {
        let workflows = workflows.iter().map(ToString::to_string).collect();
        let node = Node { workflows: Some(workflows), ..Node::new(name) };
        Worker::of(database, node, few()).await
    }

    async fn of(database: &Database<'_>, node: Node, options: Options) -> Worker {
        let store = PostgresStore::connect(&database.url(), options).await.unwrap();
        let assignment = store.assignment();
        let name = node.name.clone();
        let right = own_as(&store, node).await;
        let held = right.shards().to_vec();
        Worker { name, store, right: Some(right), assignment, held }
    }

    /// Takes and gives up what it should.
    async fn follow(&mut self) {
        let Assignment { take, give, .. } = self.assignment.borrow_and_update().clone();
        self.held.extend(self.store.take(&self.name, take.into()).await.unwrap());
        // Giving up nothing would tell the others to look.
        if !give.is_empty() {
            self.held.retain(|shard| !give.contains(shard));
            self.store.release(&self.name, give.into()).await.unwrap();
        }
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
    poll("an even share for everybody", async || {
        for worker in &mut workers {
            worker.follow().await;
        }
        workers.iter().map(|worker| worker.count()).eq(counts).then_some(())
    })
    .await;
    since.elapsed()
}

/// How often a node has shown that it is alive.
async fn beat(database: &Database<'_>, node: &str) -> i64 {
    let sql = format!("SELECT beat FROM resurgam.node WHERE node = '{node}'");
    let beat = database.ask(&sql).await;
    beat.parse().unwrap_or_else(|_| panic!("node {node} is gone"))
}

#[test]
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

    let (before, mut assignment) = (a.assignment.borrow().departed, a.store.assignment());
    drop(b.right.take());
    settle([&mut a], [256]).await;
    let departed = async || (assignment.borrow_and_update().departed != before).then_some(());
    poll("the departure of b", departed).await;
    write(&a.store, [note(of_b, 3)]).await;
    assert!(b.store.commit([note(of_b, 4)].into()).await.unwrap_err().is_fenced());
}

#[test]
async fn what_is_given_up_is_with_the_next_node_without_waiting_for_a_beat() {
    let database = database().await;
    let mut a = Worker::with(&database, "a", few().lease(NO_BEAT)).await;
    let mut b = Worker::with(&database, "b", few().lease(NO_BEAT)).await;
    let joined = settle([&mut a, &mut b], [128, 128]).await;
    drop(b.right.take());
    let left = settle([&mut a], [256]).await;
    println!("shared after {joined:?}, taken over after {left:?}");
    // A hint is enough: nothing has moved that looking could find, and the node beats all the same.
    // The first hints may come before it listens.
    let before = beat(&database, "a").await;
    poll("a beat after a hint", async || {
        database.run("NOTIFY \"resurgam resurgam\", 'somebody moves'").await;
        (beat(&database, "a").await > before).then_some(())
    })
    .await;
}

#[test]
async fn a_node_with_nothing_to_write_notices_that_the_database_went_back_in_time() {
    let database = database().await;
    let a = Worker::with(&database, "a", few().lease(LEASE)).await;
    write(&a.store, [start(a.number())]).await;
    assert!(!a.store.is_overtaken());
    // A backup from before that is restored.
    database.run("UPDATE resurgam.lane SET n = n - 1").await;
    let overtaken = async || a.store.is_overtaken().then_some(());
    poll("a beat that finds it", overtaken).await;
}

#[test]
async fn a_shard_that_a_node_got_too_late_is_free_again() {
    let database = database().await;
    let mut a = Worker::with(&database, "a", few().lease(LEASE)).await;
    let mut b = Worker::with(&database, "b", few().lease(LEASE)).await;
    settle([&mut a, &mut b], [128, 128]).await;
    // A request to take one, which the network has held back, arrives after it was given up.
    let free = "UPDATE resurgam.shard SET owner = NULL, epoch = epoch + 1 WHERE shard = 0";
    let held = if a.held.contains(&Shard(0)) { &a } else { &b };
    held.store.release(&held.name, [Shard(0)].into()).await.unwrap();
    let other = if held.name == "a" { "b" } else { "a" };
    database.run(&free.replace("NULL", &format!("'{other}'"))).await;
    poll("that it is taken by who wants it", async || {
        a.follow().await;
        b.follow().await;
        let owner = "SELECT owner FROM resurgam.shard WHERE shard = 0";
        let owner = database.ask(owner).await;
        let holder = if owner == "a" { &a } else { &b };
        holder.held.contains(&Shard(0)).then_some(())
    })
    .await;
}

#[test]
async fn a_node_that_stops_has_left_when_everything_is_at_rest() {
    let database = database().await;
    let mut a = Worker::join(&database, "a").await;
    // What an engine does that stops, before its process ends.
    a.store.release("a", Shard::all().collect()).await.unwrap();
    drop(a.right.take());
    a.store.flush().await.unwrap();
    assert_eq!(database.ask("SELECT count(*) FROM resurgam.node").await, "0");
    let b = Worker::join(&database, "b").await;
    assert_eq!(b.count(), 256);
}

#[test]
async fn without_notifications_shards_move_by_looking() {
    let database = database().await;
    let options = || few().lease(NO_BEAT).without_listening();
    let mut a = Worker::with(&database, "a", options()).await;
    let mut b = Worker::with(&database, "b", options()).await;
    let joined = settle([&mut a, &mut b], [128, 128]).await;
    drop(b.right.take());
    let left = settle([&mut a], [256]).await;
    println!("shared after {joined:?}, taken over after {left:?}");
}

#[test]
async fn a_node_that_stands_still_for_a_lease_loses_its_shards_and_cannot_write() {
    let database = database().await;
    let mut a = Worker::with(&database, "a", few().lease(LEASE)).await;
    let mut b = Worker::with(&database, "b", few().lease(LEASE)).await;
    settle([&mut a, &mut b], [128, 128]).await;
    let number = b.number();
    let mut claimed = start(number);
    if let [resurgam_store::TaskWrite::Insert(task)] = &mut claimed.tasks[..] {
        task.claim =
            Some(resurgam_store::rows::Claim { node: "b".into(), token: 7, started_at: LATER });
    }
    write(&b.store, [claimed]).await;
    assert_eq!(a.store.abandoned("a", 10).await.unwrap(), []);

    // Its process stands still: nothing of its store moves. Its last beat comes after this moment,
    // and from its last beat on the other waits for a whole lease: load only makes that longer.
    let begin = Instant::now();
    let last = beat(&database, "b").await;
    poll("a beat", async || (beat(&database, "b").await > last).then_some(())).await;
    b.store.close().await;
    let before = a.assignment.borrow().departed;
    settle([&mut a], [256]).await;
    println!("taken over after {:?}", begin.elapsed());
    assert!(begin.elapsed() >= LEASE, "after {:?}", begin.elapsed());
    let departed = async || (a.assignment.borrow().departed != before).then_some(());
    poll("the departure of b", departed).await;
    let lost = a.store.abandoned("a", 10).await.unwrap();
    assert_eq!(lost.iter().map(|task| task.call.run).collect::<Vec<_>>(), [run(number)]);
    write(&a.store, [note(number, 3)]).await;
}

#[test]
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
    poll("its end", async || b.store.is_overtaken().then_some(())).await;
    within("the news of that", news.changed()).await.unwrap();

    // It begins anew under another name.
    drop(b.right.take());
    b.store.disown().await.unwrap();
    assert!(!b.store.is_overtaken());
    let right = own(&b.store, "b2").await;
    b.held = right.shards().to_vec();
    b.right = Some(right);
    settle([&mut a, &mut b], [128, 128]).await;
}

#[test]
async fn a_node_whose_shard_another_one_has_is_overtaken() {
    let database = database().await;
    let a = Worker::with(&database, "a", few().lease(LEASE)).await;
    database.run("UPDATE resurgam.shard SET epoch = epoch + 1 WHERE shard = 3").await;
    poll("its end", async || a.store.is_overtaken().then_some(())).await;
}

#[test]
async fn a_node_that_cannot_beat_begins_nothing_and_says_so() {
    let database = database().await;
    let proxy = crate::proxy::Proxy::before(&database).await;
    let options = few().lease(LEASE).without_listening();
    let store = PostgresStore::connect(&proxy.url, options).await.unwrap();
    let mut assignment = store.assignment();
    let _right = own(&store, "a").await;
    poll("the right to begin", async || {
        (store.may_begin() && assignment.borrow_and_update().may_begin).then_some(())
    })
    .await;
    // The network swallows everything and answers nothing.
    let since = Instant::now();
    proxy.freeze();
    poll("the end of that right", async || (!store.may_begin()).then_some(())).await;
    let noticed = since.elapsed();
    let told = async || (!assignment.borrow_and_update().may_begin).then_some(());
    poll("the news of that", told).await;
    println!("noticed after {noticed:?}, said after {:?}", since.elapsed());
    proxy.thaw();
    poll("the right to begin again", async || {
        (store.may_begin() && assignment.borrow_and_update().may_begin).then_some(())
    })
    .await;
    // Nobody else was there to take it for dead.
    assert!(!store.is_overtaken());
}

/// Kills a server of its own and starts it again.
#[test(minutes = 15, threads = 2)]
async fn an_outage_of_the_database_kills_nobody() {
    let server = resurgam_postgres_server::Server::start();
    let database = server.database().await;
    // Both are in this process: who holds up one holds up the other, and neither misses a beat.
    let lease = Duration::from_secs(3);
    let mut a = Worker::with(&database, "a", few().lease(lease)).await;
    let mut b = Worker::with(&database, "b", few().lease(lease)).await;
    settle([&mut a, &mut b], [128, 128]).await;
    tokio::task::block_in_place(|| server.kill());
    // What must not happen would need a lease to happen: no condition tells that it does not.
    tokio::time::sleep(lease * 3 / 2).await;
    tokio::task::block_in_place(|| server.start_again());
    let (of_a, of_b) = (a.number(), b.number());
    poll("a commit of a", async || a.store.commit([start(of_a)].into()).await.ok()).await;
    poll("a commit of b", async || b.store.commit([start(of_b)].into()).await.ok()).await;
    // Seven beats are a lease.
    let (of_a, of_b) = (beat(&database, "a").await, beat(&database, "b").await);
    poll("the beats of a lease", async || {
        let (now_a, now_b) = (beat(&database, "a").await, beat(&database, "b").await);
        (now_a >= of_a + 7 && now_b >= of_b + 7).then_some(())
    })
    .await;
    assert!(!a.store.is_overtaken() && !b.store.is_overtaken());
}

#[test(minutes = 15)]
async fn a_node_leaves_its_shards_to_one_that_knows_all_of_its_workflows_and_more() {
    let database = database().await;
    let mut old = Worker::knowing(&database, "old", &["order 1"]).await;
    settle([&mut old], [256]).await;
    let mut new = Worker::knowing(&database, "new", &["order 1", "refund 1"]).await;
    settle([&mut old, &mut new], [0, 256]).await;
    let assignment = old.assignment.borrow().clone();
    assert_eq!(assignment.aside, Some(Aside::KnowsLess { than: "new".to_string() }));
    assert!(assignment.known_elsewhere.iter().eq(["refund 1"]));
    assert_eq!(new.assignment.borrow().aside, None);
    // Another new one shares with the first.
    let mut newer = Worker::knowing(&database, "newer", &["order 1", "refund 1"]).await;
    settle([&mut old, &mut new, &mut newer], [0, 128, 128]).await;
    // When the new ones are gone, the old one goes on.
    drop((new.right.take(), newer.right.take()));
    settle([&mut old], [256]).await;
    assert_eq!(old.assignment.borrow().aside, None);
}

#[test(minutes = 15)]
async fn a_node_with_other_workflows_takes_no_shards_while_others_own_them() {
    let database = database().await;
    let mut app = Worker::knowing(&database, "app", &["order 1"]).await;
    settle([&mut app], [256]).await;
    let mut other = Worker::knowing(&database, "other", &["* any"]).await;
    let mut second = Worker::knowing(&database, "second", &["order 1"]).await;
    settle([&mut app, &mut other, &mut second], [128, 0, 128]).await;
    let aside = other.assignment.borrow().aside.clone();
    let Some(Aside::KnowsOthers { than, only_there, only_here, .. }) = aside else {
        panic!("it is told nothing of the others: {aside:?}");
    };
    assert_eq!((than.as_str(), only_there, only_here), ("app", names("order 1"), names("* any")));
    // Those that were there first go, and it works.
    drop((app.right.take(), second.right.take()));
    settle([&mut other], [256]).await;
}

fn names(name: &str) -> Vec<String> {
    vec![name.to_string()]
}
