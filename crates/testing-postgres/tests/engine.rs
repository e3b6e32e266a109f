//! The tests of the engine, on PostgreSQL. Each file is the one that runs on SQLite too.
//!
//! Not here: lists of tests (`peers.rs`, `semantics.rs`), and recorded histories, which know no
//! store.

#![allow(clippy::unwrap_used, clippy::duplicate_mod)]

#[path = "../../testing/tests/bad_input.rs"]
mod bad_input;
#[path = "../../testing/tests/bounds.rs"]
mod bounds;
#[path = "../../testing/tests/cadence.rs"]
mod cadence;
#[path = "../../testing/tests/cancelling.rs"]
mod cancelling;
#[path = "../../testing/tests/children.rs"]
mod children;
#[path = "../../testing/tests/compensation.rs"]
mod compensation;
#[path = "../../testing/tests/continuing.rs"]
mod continuing;
#[path = "../../testing/tests/contradictions.rs"]
mod contradictions;
#[path = "../../testing/tests/counters.rs"]
mod counters;
#[path = "../../testing/tests/crashes.rs"]
mod crashes;
#[path = "../../testing/tests/duroxide_plan.rs"]
mod duroxide_plan;
#[path = "../../testing/tests/edda.rs"]
mod edda;
#[path = "../../testing/tests/engine.rs"]
mod engine;
#[path = "../../testing/tests/failures.rs"]
mod failures;
#[path = "../../testing/tests/first.rs"]
mod first;
#[path = "../../testing/tests/found_later.rs"]
mod found_later;
#[path = "../../testing/tests/heartbeats.rs"]
mod heartbeats;
#[path = "../../testing/tests/inbox.rs"]
mod inbox;
#[path = "../../testing/tests/limits.rs"]
mod limits;
#[path = "../../testing/tests/model.rs"]
mod model;
#[path = "../../testing/tests/outcomes.rs"]
mod outcomes;
#[path = "../../testing/tests/records.rs"]
mod records;
#[path = "../../testing/tests/resolution.rs"]
mod resolution;
#[path = "../../testing/tests/retention.rs"]
mod retention;
#[path = "../../testing/tests/retries.rs"]
mod retries;
#[path = "../../testing/tests/schedules.rs"]
mod schedules;
#[path = "../../testing/tests/signals.rs"]
mod signals;
#[path = "../../testing/tests/slots.rs"]
mod slots;
#[path = "../../testing/tests/starting.rs"]
mod starting;
#[path = "../../testing/tests/timeouts.rs"]
mod timeouts;
#[path = "../../testing/tests/transactions.rs"]
mod transactions;
#[path = "../../testing/tests/versions.rs"]
mod versions;
#[path = "../../testing/tests/waiting.rs"]
mod waiting;
#[path = "../../testing/tests/workflow_crashes.rs"]
mod workflow_crashes;
#[path = "../../testing/tests/workflow_retry.rs"]
mod workflow_retry;
