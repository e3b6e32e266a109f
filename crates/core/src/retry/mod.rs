//! The retry policy: one type that says everything five existing systems say, and more.
//!
//! The way through the module follows a failed attempt:
//!
//! 1. [`RetryPolicy`] is what people write: in Rust (also in a `const`), JSON or TOML, or in the
//!    words of another system ([`dialect`]).
//! 2. [`RetryPolicy::check`] refuses what cannot work and yields a [`CheckedPolicy`]; [`lint`]
//!    warns about what works and is probably not meant.
//! 3. [`decide()`] takes a checked policy, a failure, the time and a random number, and answers
//!    with a [`Decision`] that says why. The delay comes from [`schedule`].
//! 4. [`forecast`] answers what a whole schedule amounts to, for people.
//!
//! ```
//! use resurgam_core::retry::{decide, decide_uncounted, Decision, RetryPolicy, State};
//! use resurgam_core::{Failure, Timestamp};
//! use std::time::Duration;
//!
//! const PAYMENT: RetryPolicy = RetryPolicy::exponential(Duration::from_millis(200))
//!     .max_attempts(8)
//!     .max_delay(Duration::from_secs(30))
//!     .never_for(&["CardDeclined"]);
//!
//! let policy = PAYMENT.check().unwrap();
//! let now = Timestamp::from_millis(5_000);
//! let state = State::after(3, now);
//! match decide(&policy, &state, &Failure::new("gateway is down"), now, 0.5) {
//!     Decision::Retry { delay, why } => {
//!         assert_eq!(delay, Duration::from_millis(800));
//!         assert_eq!(why.to_string(), "failure 3 of 8; waits 800ms, drawn from 400ms to 1.2s");
//!     }
//!     Decision::Stop { .. } => unreachable!(),
//! }
//! ```

mod builder;
mod check;
mod decide;
pub mod dialect;
mod exhausted;
pub mod forecast;
mod form;
pub mod lint;
mod policy;
pub mod preset;
pub mod schedule;
mod schema;

pub use check::CheckedPolicy;
pub(crate) use decide::mix;
pub use decide::{
    Counters, Decision, Matched, Reason, RecordedWhy, RetryWhy, State, StopWhy, cannot_wait,
    decide, decide_lost, decide_run, decide_uncounted, uniform,
};
pub use policy::{
    Backoff, CEILING, CapOrder, ClockFrom, DeadlineRule, Exhausted, Idempotency, Jitter, Limit,
    LostWorker, Match, NO_TIMEOUTS, RetryPolicy, Rule, ServerDelay, ServerDelayMode, Timeouts,
    Verdict,
};
pub use schema::json_schema;
