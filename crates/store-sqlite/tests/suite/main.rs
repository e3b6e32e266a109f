//! The tests of the SQLite store, one module for each topic.

#![allow(clippy::unwrap_used)]

mod conformance;
mod differential;
mod durability;
mod fairness;
mod inbox;
mod large_lists;
mod log;
mod looking;
mod refusals;
mod rights;
mod sharing;
mod support;
mod takeover;
mod transact;
mod trouble;
mod unreadable;
