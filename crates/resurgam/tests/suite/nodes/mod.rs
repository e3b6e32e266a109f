//! Several processes on one PostgreSQL database: whatever is done to them and to the server,
//! nothing is lost and nothing is done twice.
//!
//! - `chaos`: nodes that are killed, paused, stopped and started at random beside a server that is
//!   restarted, directly and behind PgBouncer.
//! - `failovers`: a primary that is killed, a standby that takes over, and the old primary that
//!   comes back.
//! - `gates`: what a gate allows, all nodes begin together.
//! - `moving`: work goes on after a node dies, stops or joins, and what survives that.
//! - `hearing`: a node hears of what others want; how soon, and how little it asks when idle.
//! - `queues`: attempts of queues that not every node serves.
//! - `refusals`: what an app says at its start when the database is not one that it can use.
//!
//! `RESURGAM_SEED` repeats the failures of attempts and the choice of what is done to whom, as far
//! as moments can be repeated; `RESURGAM_WORKFLOWS` sets how many workflows a chaos has, which may
//! take longer than a test has (`RESURGAM_TEST_LIMIT`, in seconds).
#![cfg(all(unix, feature = "postgres"))]

mod chaos;
mod deployment;
mod errands;
mod failovers;
mod gates;
mod hearing;
mod moving;
mod queues;
mod refusals;
mod stage;
