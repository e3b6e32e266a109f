//! Several processes on one PostgreSQL database: whatever is done to them and to the server,
//! nothing is lost and nothing is done twice.
//!
//! - `chaos`: nodes that are killed, paused, stopped and started at random beside a server that is
//!   restarted, directly and behind PgBouncer.
//! - `moving`: how soon work goes on after a node dies, stops or joins, and what survives that.
//! - `hearing`: how soon a node hears of what others want, and how little it asks when idle.
//! - `queues`: attempts of queues that not every node serves.
//! - `refusals`: what an app says at its start when the database is not one that it can use.
//!
//! `RESURGAM_SEED` repeats the failures of attempts and the choice of what is done to whom, as far
//! as moments can be repeated; `RESURGAM_WORKFLOWS` sets how many workflows a chaos has.
#![cfg(all(unix, feature = "postgres"))]
#![allow(clippy::unwrap_used)]

#[path = "../processes/mod.rs"]
mod processes;

mod chaos;
mod deployment;
mod errands;
mod hearing;
mod moving;
mod queues;
mod refusals;
mod stage;

use std::sync::{Mutex, MutexGuard, PoisonError};

use processes::program;

/// One test at a time: leases are short here, and time is measured.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
#[ignore = "other tests start it as a process"]
fn the_program_that_other_tests_start() {
    if let Some(node) = program::role() {
        program::play(deployment::work(node));
    }
}
