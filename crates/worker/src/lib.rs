//! The loops that run workflows and activities on a store. The only crate that spawns.
//!
//! One [`Engine`] works on one store. It is a single loop that owns everything in memory: it takes
//! messages, runs turns (pure, in `core`), and hands what they ask for to the committer; only when
//! that is durable does anything happen outside. Attempts run beside it as tasks of their own and
//! report back. A [`Handle`] talks to the loop.
//!
//! The way of a step: [`engine`] says it in order.

mod attempt;
mod clock;
pub mod engine;
mod error;
mod handle;
mod host;
mod log_limit;
mod options;
mod plan;
mod policy;
mod random;
mod retention;
mod schedules;

pub use clock::{Awaits, Busy, Clock, Moment, StoreClock, SystemClock};
pub use engine::Engine;
pub use error::{Error, Result};
pub use handle::{Handle, IfExists, Outcome, StartOptions, Started};
pub use options::Options;
pub use plan::ScheduledStart;
pub use retention::{ClosedFilter, Retention};
pub use schedules::NewSchedule;
