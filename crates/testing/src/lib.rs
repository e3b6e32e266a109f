//! Tests in virtual time: a three-day retry is tested in milliseconds, and nobody sleeps.
//!
//! [`TestApp`] is an app on an in-memory database whose clock stands still while anything is under
//! way, and jumps to the next due thing while the test waits for a result. Activities can be
//! replaced by stubs and are counted; the engine can be stopped before or after any commit and goes
//! on from the database; the store can be made to refuse.
//!
//! A test that hangs fails after twenty seconds of wall time (sixty on PostgreSQL, or as many as
//! `RESURGAM_TEST_PATIENCE` says) and tells what it waits for. Where it awaits something past the
//! test kit, nobody can make it fail alone: then the report goes to standard error and the process
//! is aborted.
//!
//! ```
//! use resurgam::prelude::*;
//! use resurgam_testing::TestApp;
//! use std::time::Duration;
//!
//! #[activity(retry = RetryPolicy::fixed(Duration::from_secs(86_400)))]
//! async fn ask() -> Result<String, Failure> {
//!     Err(Failure::new("nobody is there"))
//! }
//!
//! #[workflow]
//! async fn patient(ctx: WorkflowContext) -> Result<String, Failure> {
//!     ctx.call(ask()).await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let app = TestApp::builder()
//!     .workflow(patient)
//!     .stub(ask, |_call, attempt| match attempt {
//!         1..3 => Err(Failure::new("nobody is there")),
//!         _ => Ok("yes?".to_string()),
//!     })
//!     .start()
//!     .await;
//! let run = app.start("patient-1", patient()).await;
//! assert_eq!(run.result().await.unwrap(), "yes?"); // two days later, at once
//! assert_eq!(app.attempts(ask), 3);
//! # }
//! ```

mod app;
mod builder;
mod clock;
mod database;
#[cfg(doctest)]
mod error_pages;
mod faults;
mod other_thread;
mod pulse;
mod replay;

pub use app::{TestApp, TestInstance};
pub use builder::TestBuilder;
pub use clock::VirtualClock;
pub use database::TestStore;
#[cfg(feature = "postgres")]
pub use database::postgres_database;
pub use faults::{Crash, Faults, StoreCall};
pub use replay::{ReplayError, Replayer, assert_replays, replay};

use std::time::Duration;

use resurgam::ActivityContext;

/// Never returns, and lets the clock go on: an activity that hangs, also when it is told to end.
pub async fn never(ctx: &ActivityContext) {
    ctx.cancelled().await;
    // Longer than any grace period.
    ctx.sleep(Duration::from_secs(86_400)).await;
    std::future::pending::<()>().await;
}
