//! Nodes, shards and the fence.

use std::sync::Arc;

use resurgam_core::event::RunStarted;
use resurgam_core::{Event, EventKind, Payload, RunKey, Seq, Shard, Timestamp, Uid};
use resurgam_store::model::{Model, ModelDatabase, ModelStore, ShardSet, Sharing};
use resurgam_store::rows::{Message, MessageRow};
use resurgam_store::{Commit, MessageWrite, Node, Own, Ownership, Owning, Step, Work};
use resurgam_watchdog::test;

/// Two stores on one database.
fn pair() -> [ModelStore; 2] {
    let database = ModelDatabase::new(Model::new(Sharing::ManyNodes));
    [ModelStore::on(&database), ModelStore::on(&database)]
}

async fn own(store: &ModelStore, node: &str) -> Ownership {
    match store.try_own(Node::new(node)).await.unwrap() {
        Owning::Taken(right) => right,
        Owning::Held(owner) => panic!("held by {owner}"),
    }
}

/// A step that only the holder of the shard can write.
fn append(uid: Uid) -> Step {
    let kind = EventKind::RunStarted(RunStarted::new("fulfil", Payload::null(), 1));
    let event = Event { seq: Seq(1), at: Timestamp::EPOCH, kind };
    Step { events: vec![(RunKey::first(uid), event)], ..Step::default() }
}

/// A step that anybody can write.
fn tell(uid: Uid) -> Step {
    let body = Message::Signal { name: "paid".into(), value: Payload::null() };
    let row = MessageRow { uid, id: "m".into(), due_at: Timestamp::EPOCH, body };
    Step { messages: vec![MessageWrite::Insert(row)], ..Step::default() }
}

#[test]
async fn a_shard_that_moves_takes_the_right_to_write_with_it() {
    let [one, other] = pair();
    let (_first, second) = (own(&one, "one").await, own(&other, "other").await);
    assert_eq!(second.shards(), []);
    let moved: Arc<[Shard]> = Arc::new([Uid(3).shard()]);
    assert_eq!(other.take("other", moved.clone()).await.unwrap(), [], "it is held");
    one.release("one", moved.clone()).await.unwrap();
    assert_eq!(other.take("other", moved.clone()).await.unwrap(), [Uid(3).shard()]);
    assert!(one.commit([append(Uid(3))].into()).await.unwrap_err().is_fenced());
    one.commit([append(Uid(4))].into()).await.unwrap();
    other.commit([append(Uid(3))].into()).await.unwrap();
    assert!(other.commit([append(Uid(5))].into()).await.unwrap_err().is_fenced());
}

#[test]
async fn what_a_node_asked_for_is_not_done_for_the_one_after_it_in_its_process() {
    let [one, other] = pair();
    let (first, _second) = (own(&one, "one").await, own(&other, "other").await);
    let moved: Arc<[Shard]> = Arc::new([Uid(3).shard()]);
    one.release("one", moved.clone()).await.unwrap();
    drop(first);
    one.disown().await.unwrap();
    let again = own(&one, "one again").await;
    assert!(!again.shards().contains(&Uid(3).shard()) || again.shards().len() == 256);
    one.release("one again", moved.clone()).await.unwrap();
    // Asked for before, and heard now.
    assert_eq!(one.take("one", moved.clone()).await.unwrap(), []);
    assert_eq!(other.take("other", moved).await.unwrap(), [Uid(3).shard()]);
    one.release("one", Arc::new([Uid(4).shard()])).await.unwrap();
    one.commit([append(Uid(4))].into()).await.unwrap();
}

#[test]
async fn who_was_taken_for_dead_writes_nothing_that_only_an_owner_can() {
    let [one, other] = pair();
    let (_first, _second) = (own(&one, "one").await, own(&other, "other").await);
    one.database().lock().leave("one");
    assert!(one.is_overtaken());
    assert!(one.commit([append(Uid(3))].into()).await.unwrap_err().is_fenced());
    let all: Arc<[Shard]> = Shard::all().collect();
    assert_eq!(other.take("other", all).await.unwrap().len(), 256);
    assert!(one.commit([append(Uid(3))].into()).await.unwrap_err().is_fenced());
    other.commit([append(Uid(3))].into()).await.unwrap();
    // Anybody may tell it something.
    one.commit([tell(Uid(3))].into()).await.unwrap();
}

#[test]
async fn a_node_reads_what_is_due_in_its_own_shards() {
    let [one, other] = pair();
    let (_first, _second) = (own(&one, "one").await, own(&other, "other").await);
    let moved: Arc<[Shard]> = Arc::new([Uid(3).shard()]);
    one.release("one", moved.clone()).await.unwrap();
    other.take("other", moved).await.unwrap();
    one.commit([tell(Uid(3)), tell(Uid(4))].into()).await.unwrap();
    let before = Timestamp::from_millis(1);
    for (store, uid) in [(&one, Uid(4)), (&other, Uid(3))] {
        let due = store.due_messages(before, 10).await.unwrap();
        assert_eq!(due.iter().map(|message| message.uid).collect::<Vec<_>>(), [uid]);
    }
    let all = one.database().lock().due_messages(ShardSet::ALL, before, 10);
    assert_eq!(all.len(), 2);
}

#[test]
async fn a_closed_store_answers_nothing() {
    let [one, other] = pair();
    one.close().await.unwrap();
    assert!(one.commit([tell(Uid(3))].into()).await.unwrap_err().is_unusable());
    other.commit([tell(Uid(3))].into()).await.unwrap();
}
