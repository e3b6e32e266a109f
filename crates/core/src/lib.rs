//! The pure heart of Resurgam: what a failure is, and what follows it.
//!
//! Nothing here reads a clock, draws a random number, spawns or touches a disk. Time and
//! randomness come in as arguments, so every decision can be checked as a table.
//!
//! Start with [`retry`]: the policy type, the delay it chooses and the decision after a failed
//! attempt. [`Failure`] is the record that decision is made from. [`schedule`] decides what starts
//! by the clock. [`gate`] decides what may begin while a dependency is in trouble.

pub mod action;
mod bounds;
mod code;
pub mod command;
pub mod config;
pub mod duration;
pub mod event;
pub mod export;
mod failure;
mod failure_type;
mod fingerprint;
pub mod gate;
pub mod history;
pub mod identifier;
mod ids;
pub mod machine;
mod names;
mod number;
mod payload;
pub mod retry;
pub mod schedule;
mod shard;
mod time;
pub mod turn;
mod user_work;

pub use code::Code;
pub use event::{Event, EventKind};
pub use failure::{Failure, FailureRecord, Kind};
pub use failure_type::{FailureLabel, FailureType};
pub use fingerprint::Fingerprint;
pub use ids::{CallKey, RunKey, Seq, Uid};
pub use names::Names;
pub use number::Short;
pub use payload::Payload;
pub use shard::Shard;
pub use time::Timestamp;
pub use user_work::UserWork;
