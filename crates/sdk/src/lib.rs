//! What workflows and activities are written against.
//!
//! - [`Activity`] and [`Workflow`] are the traits; a call is a value of the type that implements
//!   them. The macros write nothing that could not be written by hand.
//! - [`WorkflowContext`] is the only way a workflow waits; every durable point is visible as
//!   `ctx.`.
//! - [`ActivityContext`] tells an attempt who it is.
//! - [`Registry`] knows both by name.
//!
//! Nothing here spawns, sleeps or touches a disk.

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod activity;
mod construct;
mod context;
mod registry;
mod state;
mod terminal;
mod turns;
mod typed;
mod workflow;

pub use activity::{
    Activity, ActivityContext, ActivityOptions, Attempt, AttemptHost, HostFuture, Place,
};
pub use construct::Constructor;
pub use context::{
    BoxFuture, Call, CallFuture, Child, ChildFuture, ChildHandle, Crowd, Detached, Elapsed,
    JoinAll, Race, SignalFuture, Sleep, Timeout, WorkflowContext, call_by_name,
};
pub use registry::{ActivityDefinition, ActivitySource, Error, Registry, WorkflowDefinition};
pub use state::States;
pub use terminal::Terminal;
pub use turns::{PendingTurn, TurnThread};
pub use typed::Typed;
pub use workflow::Workflow;
