//! The tests that need a server, in one program so that they share one.

#![allow(clippy::unwrap_used)]

mod conformance;
mod differential;
mod encrypted;
mod failover;
mod inbox;
mod large_lists;
mod looking;
mod lost;
mod members;
mod pooled;
mod prepared;
mod proxy;
mod refusals;
mod shared;
mod sharing;
mod support;
mod transact;
mod unreadable;
