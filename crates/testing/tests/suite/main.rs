//! The tests of the engine, one module for each topic.
//!
//! They run on a database in memory, and by `again_on_postgres` on PostgreSQL, from this one
//! binary.

#![allow(clippy::unwrap_used)]

mod again_on_postgres;
mod bad_input;
mod bounds;
mod bulk;
mod bulk_letters;
mod cadence;
mod cancelling;
mod children;
mod common;
mod compensation;
mod continuing;
mod contradictions;
mod counters;
mod crashes;
mod dead_letters;
mod deployments;
mod duroxide_plan;
mod edda;
mod engine;
mod failures;
mod fallbacks;
mod first;
mod found_later;
mod gate_keys;
mod gates;
mod giving_up;
mod hanging;
mod heartbeats;
mod histories;
mod inbox;
mod levers;
mod limits;
mod lingering;
mod logging;
mod model;
mod operators;
mod outcomes;
mod pausing;
mod peers;
mod policies;
mod queues;
mod records;
mod redriving;
mod reset_of_everything;
mod resetting;
mod resolution;
mod retention;
mod retries;
mod schedules;
mod signals;
mod slots;
mod starting;
mod timeouts;
mod transactions;
mod turns;
mod undoing;
mod unknown;
mod versions;
mod waiting;
mod workflow_crashes;
mod workflow_retry;
