//! Who works on a file, across processes: one at a time, and the next one at once. Each test starts
//! processes.

#![cfg(unix)]

use std::os::unix::fs::symlink;
use std::time::Instant;

use crate::support::process::{self, Process};
use crate::support::*;
use resurgam_store::{Commit, Inspect, Node, Own, Owning};
use resurgam_store_sqlite::SqliteStore;
use resurgam_watchdog::test;

#[test(minutes = 15)]
async fn a_killed_owner_is_followed_at_once() {
    let folder = Folder::new();
    let store = folder.open();
    let (mut tries, mut waits) = (Vec::new(), Vec::new());
    for number in 1..=5 {
        let mut owner = owning_process(&folder);
        assert!(try_own(&store).await.is_none());
        let since = Instant::now();
        owner.kill();
        let mut count = 0;
        let right = poll("the right of a killed owner", async || {
            count += 1;
            try_own(&store).await
        })
        .await;
        tries.push(count);
        waits.push(since.elapsed());
        write(&store, [start(100 + number)]).await;
        drop(right);
    }
    println!("taken over after {waits:?}");
    // The lock goes with the process. There is nothing to wait out, so the first try can succeed.
    assert!(tries.contains(&1), "{tries:?}");
}

#[test(minutes = 15)]
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
        let program = std::env::current_exe().unwrap();
        assert_eq!(holder.program, program.file_name().unwrap().to_string_lossy());
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

#[test(minutes = 15)]
async fn whoever_comes_by_a_symbolic_link_finds_the_same_owner() {
    let (folder, links) = (Folder::new(), Folder::new());
    let owner = owning_process(&folder);
    symlink(&folder.path, links.file("link.db")).unwrap();
    symlink(folder.path.parent().unwrap(), links.file("folder")).unwrap();
    for path in [links.file("link.db"), links.file("folder").join("orders.db")] {
        let store = SqliteStore::open(path, patient()).unwrap();
        assert!(try_own(&store).await.is_none());
        assert_eq!(store.owner().await.unwrap().unwrap().pid, owner.id());
    }
    assert!(!links.file("link.db-owner").exists());
}

#[test(minutes = 15)]
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
    let mut process = Process::start("takeover::the_process_that_owns", &folder.path);
    assert_eq!(process.hear().as_deref(), Some("owns"));
    process
}

#[test(minutes = 15)]
#[ignore = "other tests start it as a process"]
async fn the_process_that_owns() {
    let Some(path) = process::database() else { return };
    let store = SqliteStore::open(path, patient()).unwrap();
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
