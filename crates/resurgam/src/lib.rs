//! Durable workflows and retried activities.
//!
//! A workflow is an async function whose progress survives crashes; an activity is a function that
//! is retried by policy. Both live in your process, on a SQLite file.
//!
//! ```
//! use resurgam::prelude::*;
//!
//! #[activity]
//! async fn greet(name: String) -> Result<String, Failure> {
//!     Ok(format!("hello, {name}"))
//! }
//!
//! #[workflow]
//! async fn welcome(ctx: WorkflowContext, name: String) -> Result<String, Failure> {
//!     ctx.call(greet(name)).await
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), resurgam::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let file = folder.path().join("app.db");
//! let app = App::builder().workflow(welcome).activity(greet).sqlite(&file).await?;
//! let instance = app.start("welcome-1", welcome("Ada".into())).await?;
//! assert_eq!(instance.result().await?, "hello, Ada");
//! app.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! The guides are in [`guide`]; begin with [`guide::getting_started`].

mod act;
mod act_on_run;
mod app;
mod bulk;
mod client;
mod export;
mod gates;
// Only for documentation: a program that uses the crate does not read its guides.
#[cfg(any(doc, doctest))]
pub mod guide;
mod instance;
mod instance_handle;
mod look;
mod policies;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod schedule;
pub mod sqlite;
mod unresolved;

#[doc(hidden)]
pub use act::os_user;
pub use act::{Act, CallHandle};
pub use act_on_run::RunHandle;
pub use app::{App, AppBuilder, Parts};
pub use bulk::{BulkAct, CallsHandle, RunsHandle};
pub use client::{Client, Start};
pub use gates::{GateAct, GateStatus};
pub use instance::Instance;
pub use instance_handle::InstanceHandle;
pub use look::{Description, PendingCall, WaitsFor};
pub use policies::SetPolicy;
pub use resurgam_core::action::{Action, ActionAnswer, RedriveCall, Reset, ResetTo};
pub use resurgam_core::event::{Compensation, ParentClose};
pub use resurgam_core::{
    CallKey, Code, Event, EventKind, Failure, FailureLabel, FailureType, Fingerprint, Kind,
    Payload, RunKey, Seq, Timestamp, Uid, event, gate, retry,
};
pub use resurgam_macros::{FailureType, activity, workflow};
pub use resurgam_sdk::{
    Activity, ActivityContext, ActivityDefinition, ActivitySource, BoxFuture, ChildHandle,
    Constructor, Elapsed, PendingTurn, Terminal, TurnThread, Typed, Workflow, WorkflowContext,
    WorkflowDefinition,
};
pub use resurgam_store::rows::{
    ActionRequest, ActionRow, AttemptOutcome, AttemptRow, Heartbeat, InstanceCursor,
    InstanceFilter, InstanceRow, Owner, Pause, PolicyOverride, RunPause, Status,
};
#[doc(hidden)]
pub use resurgam_store::rows::{Progress, TaskRow};
pub use resurgam_store::{
    CallCursor, CallFilter, CallGroup, CallStatus, DeadLetter, DeadLetterFilter, Hold, HoldKind,
    LetterState, MatchedCall, PausedCall, PausedFilter, Settled,
};
#[cfg(feature = "postgres")]
pub use resurgam_store_postgres::Options as PostgresOptions;
pub use resurgam_store_sqlite::{Options as SqliteOptions, SyncMode};
pub use resurgam_worker::{
    Acted, BulkCounts, BulkJob, BulkOptions, BulkPreview, BulkState, BulkTarget, ClosedFilter,
    Error, IfExists, LetterFilter, Outcome, Refused, Result, Retention, RunFilter,
};
pub use schedule::{NewSchedule, Overlap, Schedule, ScheduleDescription};
pub use unresolved::{DiscardOne, Redrive};

/// What most programs need.
pub mod prelude {
    pub use crate::retry::RetryPolicy;
    pub use crate::{
        ActivityContext, App, Failure, FailureType, Terminal, Typed, WorkflowContext, activity,
        workflow,
    };
}

/// What the code of the macros refers to. Not part of the promise.
#[doc(hidden)]
pub mod __private {
    pub use resurgam_sdk::__private::*;
}

/// The README's code compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
