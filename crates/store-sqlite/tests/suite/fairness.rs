//! Clients get to write beside an owner that never rests. Starts a process.

use std::time::{Duration, Instant};

use crate::support::process::{self, Process};
use crate::support::*;
use resurgam_store::Inspect;
use resurgam_store_sqlite::SqliteStore;
use resurgam_watchdog::test;

/// How many commits a client makes.
const COMMITS: usize = 200;

/// Both get on: no commit of the client gives up, and the owner makes some meanwhile. How long they
/// took is shown with `--nocapture`; what that is without the queue is seen when `orders.db-queue`
/// is removed once the owner has opened it.
#[test(minutes = 15)]
async fn a_client_comes_to_write_beside_an_owner_that_commits_back_to_back() {
    let folder = Folder::new();
    let mut owner = Process::start("fairness::the_owner_that_never_rests", &folder.path);
    assert_eq!(owner.hear().as_deref(), Some("owns"));
    let client = folder.open();
    let before = events(&client).await;
    let mut waits = Vec::new();
    commit(&client, &mut waits).await;
    let mut beside = events(&client).await - before;
    // Giving way is not giving up. On a busy machine the owner may get on later than the client.
    while beside <= COMMITS / 4 {
        assert!(waits.len() < 10 * COMMITS, "{beside} commits beside {}", waits.len());
        commit(&client, &mut waits).await;
        beside = events(&client).await - before;
    }
    waits.sort_unstable();
    let [half, most, longest] =
        [50, 99, 100].map(|percent| waits[(waits.len() - 1) * percent / 100]);
    println!("p50 {half:?}, p99 {most:?}, max {longest:?}; owner {beside} commits");
}

/// Makes the commits of a client, and adds how long each of them took.
async fn commit(client: &SqliteStore, waits: &mut Vec<Duration>) {
    for _ in 0..COMMITS {
        let since = Instant::now();
        write(client, [start(1_000_000 + waits.len() as u128)]).await;
        waits.push(since.elapsed());
    }
}

async fn events(store: &SqliteStore) -> usize {
    store.history(run(1)).await.unwrap().len()
}

#[test(minutes = 15)]
#[ignore = "another test starts it as a process"]
async fn the_owner_that_never_rests() {
    let Some(path) = process::database() else { return };
    let store = SqliteStore::open(path, patient()).unwrap();
    let _right = own(&store, "owner").await;
    write(&store, [start(1)]).await;
    process::say("owns");
    // Always one order ahead, so that the thread that writes never waits for us.
    for seq in (3..).step_by(2) {
        let (first, second) = ([note(1, seq, 1_000)], [note(1, seq + 1, 1_000)]);
        tokio::join!(write(&store, first), write(&store, second));
    }
}
