//! The engine that runs workflows and activities on a store.
//!
//! ```text
//!   Handle -- requests --> mailbox -- inputs --> Node -- outputs --> driver --> store, attempts
//!                             ^                 (pure)                  |
//!                             +---------------- answers ----------------+
//! ```
//!
//! One [`Engine`] works on one store. Its node (`node/`) owns everything in memory: it runs turns
//! (pure, in `core`) and decides; only when that is durable does anything happen outside. The
//! driver (`driver.rs`) owns what is not pure. Attempts (`attempt.rs`) run beside it as tasks of
//! their own and report back. A [`Handle`] talks to the loop. The way of a step is at the top of
//! `node`.

mod actions;
#[cfg(test)]
mod alone;
mod attempt;
mod bulk;
mod bulk_jobs;
mod bulk_reads;
mod clock;
mod driver;
mod error;
mod gates;
mod handle;
mod host;
mod keyed;
mod log_limit;
mod mailbox;
#[doc(hidden)]
pub mod node;
mod options;
mod outage;
mod plan;
mod policies;
mod policy;
mod random;
mod reads;
mod retention;
mod schedules;
#[doc(hidden)]
pub mod submit;
mod watchers;

pub use actions::Acted;
pub use bulk::{
    BulkCounts, BulkJob, BulkOptions, BulkState, BulkTarget, LISTED, LetterFilter, MOST_FIRST,
    Refused, RunFilter, redriven_id,
};
pub use bulk_jobs::BulkPreview;
pub use clock::{Awaits, Busy, Clock, Moment, StoreClock, SystemClock};
pub use driver::Engine;
pub use error::{Error, Result};
pub use handle::{Handle, IfExists, Outcome, Redrive, StartOptions, Started};
pub use options::Options;
pub use plan::ScheduledStart;
pub use retention::{ClosedFilter, Retention};
#[doc(hidden)]
pub use retention::{Pace, Swept, sweep};
pub use schedules::NewSchedule;
