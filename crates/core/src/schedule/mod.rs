//! Schedules: what starts by the clock.
//!
//! The way through the module follows a firing:
//!
//! 1. [`Rule`] says when: a cron expression in a time zone, or an interval. [`Schedule`] adds what
//!    happens when firings meet each other or come late. Both are written in Rust or JSON, and
//!    [`Schedule::check`] refuses what cannot work.
//! 2. [`CheckedSchedule`] answers: the next firing, the firings of a range, the id of the instance
//!    a firing starts.
//! 3. [`decide()`] takes a checked schedule, what it remembers ([`State`]), the time and whether
//!    the last instance is open, and answers with a [`Decision`]: what to start, what to remember,
//!    when to decide again.
//!
//! Pure, as all of this crate: the caller brings the time, and a delay by jitter follows from the
//! schedule's id and the nominal time. Not here: starting instances, and keeping the state.
//!
//! ```
//! use resurgam_core::Timestamp;
//! use resurgam_core::schedule::{Rule, Schedule, State, decide};
//! use std::time::Duration;
//!
//! let report = Schedule::new("report", Rule::cron("0 9 * * MON-FRI").in_zone("Europe/Berlin"))
//!     .check()?;
//! let created = Timestamp::from_millis(1_795_000_000_000);
//! let first = decide(&report, &State::new(created), created, false);
//! let nine = first.wake_at.unwrap();
//! let decision = decide(&report, &first.state, nine, false);
//! assert_eq!(decision.start.len(), 1);
//! assert_eq!(report.instance_id(decision.start[0]), "report/2026-11-19T08:00:00Z");
//! # Ok::<(), resurgam_core::config::Problems>(())
//! ```

mod cron;
mod decide;
mod form;
mod options;
mod rule;
mod text;
mod zone;

pub use decide::{BATCH, Decision, State, decide, decide_at_most};
pub use options::{BACKFILL, CATCH_UP, CheckedSchedule, Overlap, Schedule};
pub use rule::{CheckedRule, Rule, SHORTEST, When};
pub use text::{parse_time, time_text};
