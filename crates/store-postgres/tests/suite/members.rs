//! Nodes that share the shards: they join, leave and die, and everybody has an even share.

use std::time::Duration;

use resurgam_core::Shard;
use resurgam_postgres_server::Database;
use resurgam_store::{Commit, Look, Work};
use resurgam_store_postgres::ownership::Member;
use resurgam_store_postgres::{Options, PostgresStore};

use crate::support::*;

const LEASE: Duration = Duration::from_millis(600);

/// A process with a node in it.
struct Node {
    store: PostgresStore,
    member: Member,
}

impl Node {
    async fn join(database: &Database<'_>, name: &str) -> Node {
        let options: Options = few().lease(LEASE).without_listening();
        let store = PostgresStore::connect(&database.url(), options).await.unwrap();
        let member = store.join(name, None, None).await.unwrap();
        Node { store, member }
    }

    /// What a loop does: beat, look, move.
    async fn turn(&mut self) -> Vec<String> {
        let moved = self.member.beat().await.unwrap();
        assert!(moved.alive);
        self.member.take(&moved.moves.take).await.unwrap();
        self.member.release(&moved.moves.release).await.unwrap();
        moved.dead
    }

    fn count(&self) -> usize {
        self.member.shards().count()
    }
}

async fn settle(nodes: &mut [&mut Node]) {
    for _ in 0..4 {
        for node in nodes.iter_mut() {
            node.turn().await;
        }
    }
}

#[tokio::test]
async fn shards_are_shared_evenly_and_only_their_owner_writes() {
    let database = database().await;
    let mut a = Node::join(&database, "a").await;
    settle(&mut [&mut a]).await;
    assert_eq!(a.count(), 256);
    let mut b = Node::join(&database, "b").await;
    settle(&mut [&mut a, &mut b]).await;
    assert_eq!((a.count(), b.count()), (128, 128));

    let of = |node: &Node| {
        let shards: Vec<Shard> = node.member.shards().collect();
        (1..).find(|number| shards.contains(&run(*number).uid.shard())).unwrap()
    };
    let (of_a, of_b) = (of(&a), of(&b));
    write(&a.store, [start(of_a)]).await;
    write(&b.store, [start(of_b)]).await;
    assert!(b.store.commit([note(of_a, 3)].into()).await.unwrap_err().is_fenced());
    // Each finds its own work, and both see everything.
    assert_eq!(a.store.due_tasks(None, LATER, 10).await.unwrap().len(), 1);
    assert_eq!(b.store.due_messages(LATER, 10).await.unwrap()[0].uid, run(of_b).uid);
    assert!(a.store.find(&format!("order-{of_b}")).await.unwrap().is_some());
    // A message to somebody else's instance needs no shard of one's own.
    write(&b.store, [tell(of_a, "from b")]).await;

    b.member.leave().await.unwrap();
    a.turn().await;
    assert_eq!(a.count(), 256);
    write(&a.store, [note(of_b, 3)]).await;
    assert!(b.store.commit([note(of_b, 4)].into()).await.unwrap_err().is_fenced());
}

#[tokio::test]
async fn a_node_that_stands_still_for_a_lease_loses_its_shards_and_cannot_write() {
    let database = database().await;
    let (mut a, mut b) = (Node::join(&database, "a").await, Node::join(&database, "b").await);
    settle(&mut [&mut a, &mut b]).await;
    let shards: Vec<Shard> = b.member.shards().collect();
    let number = (1..).find(|number| shards.contains(&run(*number).uid.shard())).unwrap();
    write(&b.store, [start(number)]).await;

    // It makes no turn from here on, and others hear of its death after a lease and not before.
    let stopped = std::time::Instant::now();
    let dead = poll(async || {
        tokio::time::sleep(LEASE / 10).await;
        Some(a.turn().await).filter(|dead| !dead.is_empty())
    });
    assert_eq!(dead.await, ["b"]);
    assert!(stopped.elapsed() >= LEASE, "after {:?}", stopped.elapsed());
    assert_eq!(a.count(), 256);
    a.member.bury("b").await.unwrap();

    // It wakes up.
    assert!(!b.member.may_begin());
    assert!(b.store.commit([note(number, 3)].into()).await.unwrap_err().is_fenced());
    let moved = b.member.beat().await.unwrap();
    assert!(!moved.alive);
    assert_eq!(moved.lost.len(), 128);
    write(&a.store, [note(number, 3)]).await;
}
