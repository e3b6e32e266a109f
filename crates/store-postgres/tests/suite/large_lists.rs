//! How long lists take where there are 200,000 instances: printed, and compared with nothing.

use resurgam_store::conformance::large_lists::{Listed, table, times};
use resurgam_watchdog::test;

use crate::support::*;

const INSTANCES: u128 = 200_000;

fn all_are_found(listed: &[Listed]) {
    assert!(listed.iter().all(|listed| listed.rows > 0), "{listed:?}");
    println!("{}", table(listed));
}

#[test(minutes = 30)]
#[ignore = "it takes minutes, and is for people who measure"]
async fn large_lists_with_few_calls_that_wait_to_be_tried_again() {
    let store = open().await;
    all_are_found(
        &times(&*store, INSTANCES, 400, async || store.database.run("ANALYZE").await).await,
    );
}

#[test(minutes = 30)]
#[ignore = "it takes minutes, and is for people who measure"]
async fn large_lists_with_many_calls_that_wait_to_be_tried_again() {
    let store = open().await;
    all_are_found(
        &times(&*store, INSTANCES, 4, async || store.database.run("ANALYZE").await).await,
    );
}
