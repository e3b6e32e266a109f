//! One node works on a store at a time, and everybody can tell which.

use super::fixtures::*;
use crate::rows::Owner;
use crate::{Node, Ownership, Owning, Step, Store};

pub async fn one_node_owns_a_store_at_a_time(store: &dyn Store) {
    let first = taken(store, "node-a").await;
    for node in ["node-b", "node-a"] {
        assert_eq!(held(store, node).await.node, "node-a");
    }
    // Being refused changes nothing for the owner.
    write(store, [start(1, "order-1")]).await;
    drop(first);
}

pub async fn the_right_to_work_ends_when_it_is_dropped(store: &dyn Store) {
    for node in ["node-a", "node-b", "node-a"] {
        let right = taken(store, node).await;
        held(store, "node-c").await;
        drop(right);
    }
}

pub async fn everybody_can_tell_who_owns_a_store(store: &dyn Store) {
    assert_eq!(store.owner().await.unwrap(), None);
    let right = taken(store, "node \"ü\"").await;
    let owner = store.owner().await.unwrap().unwrap();
    assert_eq!((owner.node.as_str(), owner.pid), ("node \"ü\"", std::process::id()));
    assert!(!owner.program.is_empty());
    assert!(owner.since > at(1_700_000_000_000), "{}", owner.since);
    assert_eq!(held(store, "node-b").await, owner);
    // Looking takes nothing away.
    assert_eq!(store.owner().await.unwrap(), Some(owner));
    drop(right);
    assert_eq!(store.owner().await.unwrap(), None);
}

pub async fn who_is_no_longer_the_owner_writes_what_a_client_writes(store: &dyn Store) {
    let right = taken(store, "node-a").await;
    write(store, [start(1, "order-1")]).await;
    drop(right);
    // Nobody minds that it is said twice.
    store.disown().await.unwrap();
    store.disown().await.unwrap();
    let error = store.commit([start(2, "order-2")].into()).await.unwrap_err();
    assert!(error.is_fenced(), "{error}");
    assert!(store.find("order-2").await.unwrap().is_none());
    write(store, [asked(2, "order-2")]).await;
    let _right = taken(store, "node-b").await;
    write(store, [start(3, "order-3")]).await;
}

/// A start as a client stores it.
fn asked(number: u128, id: &str) -> Step {
    let start = start(number, id);
    Step { instance: start.instance, ..Step::default() }
}

pub async fn an_owner_can_become_another_node(store: &dyn Store) {
    drop(taken(store, "node-a").await);
    let _right = taken(store, "node-b").await;
    write(store, [start(1, "order-1")]).await;
    assert!(store.find("order-1").await.unwrap().is_some());
}

async fn taken(store: &dyn Store, node: &str) -> Ownership {
    match store.try_own(Node::new(node)).await.unwrap() {
        Owning::Taken(right) => right,
        Owning::Held(owner) => panic!("held by {owner}"),
    }
}

async fn held(store: &dyn Store, node: &str) -> Owner {
    match store.try_own(Node::new(node)).await.unwrap() {
        Owning::Taken(_) => panic!("nobody held it"),
        Owning::Held(owner) => owner,
    }
}
