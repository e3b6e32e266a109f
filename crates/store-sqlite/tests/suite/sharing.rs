//! Several processes, or several stores, on one file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::*;
use resurgam_store::{Commit, Inspect, Node, Own, Owning, Step, StepResult};
use resurgam_store_sqlite::{Options, SqliteStore};
use resurgam_watchdog::test;

#[test]
async fn stores_that_open_a_new_file_at_once_make_one_database() {
    for _ in 0..10 {
        let folder = Folder::new();
        let stores: Vec<SqliteStore> = std::thread::scope(|scope| {
            let opening: Vec<_> = (0..8).map(|_| scope.spawn(|| folder.open())).collect();
            opening.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for (number, store) in (1..).zip(&stores) {
            write(store, [start(number)]).await;
        }
        for store in &stores {
            assert_eq!(store.list(Default::default()).await.unwrap().len(), 8);
        }
    }
}

#[test]
async fn both_can_write_and_an_id_still_has_one_holder() {
    let folder = Folder::new();
    let (one, two) = (folder.open(), folder.open());
    for number in 1..50 {
        let (first, second) =
            tokio::join!(one.commit([start(number)].into()), two.commit([start(number)].into()));
        let mut results = [first.unwrap()[0], second.unwrap()[0]];
        results.sort_by_key(|result| *result == StepResult::Duplicate);
        assert_eq!(results, [StepResult::Written, StepResult::Duplicate]);
    }
    assert_eq!(one.list(Default::default()).await.unwrap().len(), 49);
}

#[test]
async fn a_client_comes_to_write_beside_an_owner_that_never_pauses() {
    let folder = Folder::new();
    let (owner, client) = (folder.open(), folder.open());
    write(&owner, [start(1)]).await;
    let done = AtomicBool::new(false);
    let busy = async {
        let mut seq = 3;
        while !done.load(Ordering::Relaxed) {
            write(&owner, [note(1, seq, 1_000)]).await;
            seq += 1;
        }
    };
    let visits = async {
        for number in 2..20 {
            write(&client, [start(number)]).await;
        }
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(busy, visits);
}

#[test]
async fn a_store_hears_of_the_commits_of_others_and_not_of_its_own() {
    let folder = Folder::new();
    let (one, two) = (folder.open(), folder.open());
    let before = one.data_version().await.unwrap();
    write(&one, [start(1)]).await;
    assert_eq!(one.data_version().await.unwrap(), before);
    write(&two, [start(2)]).await;
    assert_ne!(one.data_version().await.unwrap(), before);
}

#[test]
async fn a_commit_that_waited_too_long_is_transient_and_can_be_repeated() {
    let folder = Folder::new();
    let options = Options::default().busy_timeout(Duration::from_millis(5));
    let store = SqliteStore::open(&folder.path, options).unwrap();
    let other = folder.sql();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.commit([start(1)].into()).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert!(error.to_string().contains("orders.db"), "{error}");
    // Reading goes on meanwhile.
    assert!(store.find("order-1").await.unwrap().is_none());
    other.execute_batch("COMMIT").unwrap();
    write(&store, [start(1)]).await;
}

#[test]
async fn a_long_read_of_somebody_else_delays_no_commit() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, [start(1)]).await;
    let other = folder.sql();
    other.execute_batch("BEGIN; SELECT count(*) FROM event").unwrap();
    for number in 2..50 {
        write(&store, [start(number)]).await;
    }
    // Closing leaves the log to whoever still reads it.
    store.close().await;
    assert!(folder.log_bytes() > 0);
    other.execute_batch("COMMIT").unwrap();
}

#[test]
async fn a_node_that_was_overtaken_writes_nothing_any_more() {
    let folder = Folder::new();
    let (one, two) = (folder.open(), folder.open());
    let right = own(&one, "node-a").await;
    write(&one, [start(1)]).await;
    drop(right);
    // Nobody has taken over yet, so nobody can be harmed.
    write(&one, [start(2)]).await;

    let right = own(&two, "node-b").await;
    for _ in 0..2 {
        let error = one.commit([start(3), start(4)].into()).await.unwrap_err();
        assert!(error.is_fenced(), "{error}");
        let path = folder.path.display();
        let expected = format!("commit 2 steps in {path}: node node-b owns it by now");
        assert_eq!(error.to_string(), expected);
    }
    // Not even when the other one has gone.
    drop(right);
    assert!(one.commit([start(3)].into()).await.unwrap_err().is_fenced());
    assert!(two.find("order-3").await.unwrap().is_none());
    assert_eq!(one.commits().transactions, 2);

    // As a client it can, and as the owner again.
    one.disown().await.unwrap();
    write(&one, [asked(3)]).await;
    let _right = own(&one, "node-c").await;
    write(&one, [start(4)]).await;
    assert!(two.commit([start(5)].into()).await.unwrap_err().is_fenced());
}

#[test]
async fn clients_write_beside_an_owner() {
    let folder = Folder::new();
    let (owner, client) = (folder.open(), folder.open());
    let _right = own(&owner, "node-a").await;
    write(&client, [start(1)]).await;
    write(&owner, [start(2)]).await;
    assert_eq!(client.owner().await.unwrap().unwrap().node, "node-a");
    let Owning::Held(holder) = client.try_own(Node::new("node-b")).await.unwrap() else { panic!() };
    assert_eq!(holder.node, "node-a");
    write(&client, [start(3)]).await;
}

/// A start as a client stores it.
fn asked(number: u128) -> Step {
    Step { instance: start(number).instance, ..Step::default() }
}

#[test]
async fn owning_takes_its_place_among_the_commits() {
    let folder = Folder::new();
    let (one, two) = (folder.open(), folder.open());
    drop(own(&one, "node-a").await);
    let _right = own(&two, "node-b").await;
    // Asked for in this order without waiting: a fenced one, a client's, and a refused wish.
    let (fenced, disowned, client, held) = tokio::join!(
        one.commit([start(1)].into()),
        one.disown(),
        one.commit([asked(2)].into()),
        one.try_own(Node::new("node-c")),
    );
    assert!(fenced.unwrap_err().is_fenced());
    disowned.unwrap();
    assert_eq!(client.unwrap(), [StepResult::Written]);
    assert!(matches!(held.unwrap(), Owning::Held(_)));
}

#[test]
async fn who_cannot_note_that_it_owns_does_not_own() {
    let folder = Folder::new();
    let options = Options::default().busy_timeout(Duration::from_millis(5));
    let store = SqliteStore::open(&folder.path, options).unwrap();
    let other = folder.sql();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.try_own(Node::new("node-a")).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert!(error.to_string().contains("orders.db"), "{error}");
    assert_eq!(store.owner().await.unwrap(), None);
    other.execute_batch("COMMIT").unwrap();
    own(&store, "node-a").await;
}

#[test]
async fn a_right_that_nobody_waited_for_is_free_again() {
    let folder = Folder::new();
    let (one, two) = (folder.open(), folder.open());
    let mut wish = one.try_own(Node::new("node-a"));
    let _ = std::future::poll_fn(|ctx| std::task::Poll::Ready(wish.as_mut().poll(ctx))).await;
    drop(wish);
    let _right =
        poll("a free right", async || match two.try_own(Node::new("node-b")).await.unwrap() {
            Owning::Taken(right) => Some(right),
            Owning::Held(_) => None,
        })
        .await;
}

#[test]
async fn an_owner_whose_lock_file_is_gone_steps_down() {
    let folder = Folder::new();
    let store = folder.open();
    let right = own(&store, "node-a").await;
    std::fs::remove_file(folder.file("orders.db-owner")).unwrap();
    let mut number = 0;
    let error = poll("the end of the right", async || {
        number += 1;
        store.commit([start(number)].into()).await.err()
    })
    .await;
    assert!(error.is_fenced(), "{error}");
    assert!(error.to_string().contains("orders.db-owner was removed"), "{error}");
    drop(right);
    let _right = own(&store, "node-a").await;
    write(&store, [start(number)]).await;
}

#[test]
async fn commits_of_others_are_heard_of_and_ones_own_are_not() {
    let folder = Folder::new();
    let (one, two) = (folder.open(), folder.open());
    let (mut hears, others) = (one.changes(), two.changes());
    for number in 1..=3 {
        write(&two, [start(number)]).await;
        poll("news", async || hears.has_changed().unwrap().then_some(())).await;
        hears.mark_unchanged();
    }
    assert_eq!(*hears.borrow(), 3);
    assert_eq!(one.list(Default::default()).await.unwrap().len(), 3);
    assert!(!others.has_changed().unwrap());
    assert!(!one.changes().has_changed().unwrap());
}

#[test]
async fn a_store_that_has_no_rest_hears_of_others_too() {
    let folder = Folder::new();
    let (one, two) = (folder.open(), folder.open());
    let hears = one.changes();
    write(&two, [start(1)]).await;
    let mut number = 1;
    poll("news", async || {
        number += 1;
        write(&one, [start(number)]).await;
        hears.has_changed().unwrap().then_some(())
    })
    .await;
    // What it commits for some more looks is its own. It looks by the clock, and says nothing when
    // it finds nothing, so no condition can end this.
    let heard = *hears.borrow();
    let since = std::time::Instant::now();
    while since.elapsed() < Duration::from_millis(100) {
        number += 1;
        write(&one, [start(number)]).await;
    }
    assert_eq!(*hears.borrow(), heard);
}

#[test]
async fn a_database_in_memory_has_no_others() {
    let (one, two) = (SqliteStore::in_memory().unwrap(), SqliteStore::in_memory().unwrap());
    let hears = one.changes();
    let _rights = (own(&one, "node-a").await, own(&two, "node-b").await);
    write(&one, [start(1)]).await;
    write(&two, [start(1)]).await;
    assert!(!hears.has_changed().unwrap());
    one.close().await;
    poll("the end of all news", async || hears.has_changed().is_err().then_some(())).await;
}
