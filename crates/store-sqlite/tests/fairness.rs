//! Clients get to write beside an owner that never rests.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::{Duration, Instant};

use resurgam_store::Look;
use resurgam_store_sqlite::{Options, SqliteStore};
use support::process::{self, Process};
use support::*;

/// How many commits a client makes.
const COMMITS: u128 = 200;

/// Shown with `--nocapture`. What they are without the queue is seen when `orders.db-queue` is
/// removed once the owner has opened it.
#[tokio::test]
async fn a_client_comes_to_write_beside_an_owner_that_commits_back_to_back() {
    let folder = Folder::new();
    let mut owner = Process::start("the_owner_that_never_rests", &folder.path);
    assert_eq!(owner.hear().as_deref(), Some("owns"));
    let client = folder.open();
    let before = events(&client).await;
    let waits = waits(&client).await;
    let [half, most, longest] =
        [50, 99, 100].map(|percent| waits[(waits.len() - 1) * percent / 100]);
    let beside = events(&client).await - before;
    let figures = format!("p50 {half:?}, p99 {most:?}, max {longest:?}; owner {beside} commits");
    println!("{figures}");
    // The busy timeout is five seconds; a client that only gets lucky comes near it.
    assert!(most < Duration::from_secs(1) && longest < Duration::from_secs(4), "{figures}");
    // Giving way is not giving up.
    assert!(beside as u128 > COMMITS / 4, "{figures}");
}

/// How long each commit of a client took, the shortest first.
async fn waits(client: &SqliteStore) -> Vec<Duration> {
    let mut waits = Vec::new();
    for number in 0..COMMITS {
        let since = Instant::now();
        write(client, [start(1_000_000 + number)]).await;
        waits.push(since.elapsed());
    }
    waits.sort_unstable();
    waits
}

async fn events(store: &SqliteStore) -> usize {
    store.history(run(1)).await.unwrap().len()
}

#[tokio::test]
#[ignore = "another test starts it as a process"]
async fn the_owner_that_never_rests() {
    let Some(path) = process::database() else { return };
    let store = SqliteStore::open(path, Options::default()).unwrap();
    let _right = own(&store, "owner").await;
    write(&store, [start(1)]).await;
    process::say("owns");
    // Always one order ahead, so that the thread that writes never waits for us.
    for seq in (3..).step_by(2) {
        let (first, second) = ([note(1, seq, 1_000)], [note(1, seq + 1, 1_000)]);
        tokio::join!(write(&store, first), write(&store, second));
    }
}
