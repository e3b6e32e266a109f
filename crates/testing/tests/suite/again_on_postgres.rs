//! The tests of the engine once more, on PostgreSQL.
//!
//! The name of this file comes first, so that the longest test begins first. This binary is started
//! again with `RESURGAM_TEST_STORE`; its output is shown as it comes. Tests of what is decided
//! before a store hears of it are left out here. All of them, or one, on one store:
//! `RESURGAM_TEST_STORE=postgres cargo test -p resurgam-testing [NAME]`. A file is a store that can
//! be chosen too. What differs from a database in memory is what the tests of `resurgam` and
//! `resurgam-store-sqlite` are about, so nothing runs here on a file by itself.

use std::process::Command;

use resurgam_testing::TestStore;
use resurgam_watchdog::test;

/// What knows no store, or has chosen one itself.
const ELSEWHERE: [&str; 6] =
    ["again_on_postgres::", "hanging::", "peers::", "histories::", "queues::", "deployments::"];

/// What is decided by `core` and the engine from what they know, and stored as rows of the same
/// kinds that the other tests store: the tests of a store's promises cover those.
const ANYWHERE: [&str; 17] = [
    "bad_input::",
    "bounds::",
    "cadence::",
    "contradictions::",
    "counters::",
    "duroxide_plan::",
    "edda::",
    "failures::",
    "fallbacks::",
    "gate_keys::",
    "logging::",
    "outcomes::",
    "resolution::",
    "retries::",
    "timeouts::",
    "versions::",
    "waiting::",
];

#[test(minutes = 15)]
fn the_tests_that_a_store_can_matter_to_hold_on_postgres() {
    if std::env::var_os(TestStore::VARIABLE).is_some() {
        println!("{} is set: somebody has chosen a store for all tests", TestStore::VARIABLE);
        return;
    }
    // Skips this test where there is no server, instead of each one that would ask for it.
    resurgam_postgres_server::Server::require();
    let mut tests = Command::new(std::env::current_exe().unwrap());
    let skipped = ELSEWHERE.iter().chain(&ANYWHERE);
    tests.args(skipped.flat_map(|name| ["--skip", name]));
    // They wait for the server more than they compute.
    let threads = 2 * std::thread::available_parallelism().map_or(1, usize::from);
    tests.env("RUST_TEST_THREADS", threads.to_string());
    let ended = tests.env(TestStore::VARIABLE, "postgres").status().unwrap();
    assert!(ended.success(), "tests of the engine failed on PostgreSQL; their output is above");
}
