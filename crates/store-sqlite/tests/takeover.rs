//! Who works on a file, across processes: one at a time, and the next one at once.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use resurgam_store::{Commit, Look, Node, Own, Owning};
use resurgam_store_sqlite::{Options, SqliteStore};
use support::process::{self, Process};
use support::*;

#[tokio::test]
async fn a_killed_owner_is_followed_at_once() {
    let folder = Folder::new();
    let store = folder.open();
    let mut waits = Vec::new();
    for _ in 0..5 {
        let mut owner = owning_process(&folder);
        assert!(try_own(&store).await.is_none());
        let since = Instant::now();
        owner.kill();
        let right = loop {
            match try_own(&store).await {
                Some(right) => break right,
                None => std::thread::sleep(Duration::from_millis(20)),
            }
            assert!(since.elapsed() < Duration::from_secs(30));
        };
        waits.push(since.elapsed());
        write(&store, [start(100 + waits.len() as u128)]).await;
        drop(right);
    }
    // A machine that does much else may be late, though not every time.
    assert!(waits.iter().min().unwrap() < &Duration::from_millis(100), "{waits:?}");
}

#[tokio::test]
async fn an_owner_that_is_stopped_stays_the_owner() {
    let folder = Folder::new();
    let store = folder.open();
    let mut owner = owning_process(&folder);
    owner.signal("STOP");
    for _ in 0..10 {
        let Owning::Held(holder) = store.try_own(Node::new("standby")).await.unwrap() else {
            panic!("taken from an owner that lives");
        };
        assert_eq!((holder.node.as_str(), holder.pid), ("child", owner.id()));
        assert!(holder.program.starts_with("takeover"), "{}", holder.program);
        assert_eq!(store.owner().await.unwrap(), Some(holder));
    }
    // Clients write all the same.
    write(&store, [start(7)]).await;
    owner.signal("CONT");
    owner.go_on();
    assert_eq!(owner.hear().as_deref(), Some("written"));
    owner.kill();
    assert_eq!(store.owner().await.unwrap(), None);
}

#[tokio::test]
async fn whoever_comes_by_a_symbolic_link_finds_the_same_owner() {
    let (folder, links) = (Folder::new(), Folder::new());
    let owner = owning_process(&folder);
    symlink(&folder.path, links.file("link.db")).unwrap();
    symlink(folder.path.parent().unwrap(), links.file("folder")).unwrap();
    for path in [links.file("link.db"), links.file("folder").join("orders.db")] {
        let store = SqliteStore::open(path, Options::default()).unwrap();
        assert!(try_own(&store).await.is_none());
        assert_eq!(store.owner().await.unwrap().unwrap().pid, owner.id());
    }
    assert!(!links.file("link.db-owner").exists());
}

#[tokio::test]
async fn a_removed_lock_file_makes_no_two_nodes_that_write() {
    let folder = Folder::new();
    let mut first = owning_process(&folder);
    std::fs::remove_file(folder.file("orders.db-owner")).unwrap();
    let store = folder.open();
    let _right = own(&store, "second").await;
    write(&store, [start(8)]).await;
    first.go_on();
    let said = first.hear().unwrap();
    assert!(said.starts_with("fenced: commit 1 steps in "), "{said}");
    assert!(said.ends_with("orders.db: node second owns it by now"), "{said}");
    assert!(store.find("order-1").await.unwrap().is_none());
}

/// Another process that owns the database and, told to go on, commits.
fn owning_process(folder: &Folder) -> Process {
    let mut process = Process::start("the_process_that_owns", &folder.path);
    assert_eq!(process.hear().as_deref(), Some("owns"));
    process
}

#[tokio::test]
#[ignore = "other tests start it as a process"]
async fn the_process_that_owns() {
    let Some(path) = process::database() else { return };
    let store = SqliteStore::open(path, Options::default()).unwrap();
    let _right = own(&store, "child").await;
    process::say("owns");
    process::wait();
    match store.commit([start(1)].into()).await {
        Ok(_) => process::say("written"),
        Err(error) => {
            assert!(error.is_fenced(), "{error}");
            process::say(format!("fenced: {error}"));
        }
    }
    process::wait();
}

async fn try_own(store: &SqliteStore) -> Option<resurgam_store::Ownership> {
    match store.try_own(Node::new("standby")).await.unwrap() {
        Owning::Taken(right) => Some(right),
        Owning::Held(_) => None,
    }
}
