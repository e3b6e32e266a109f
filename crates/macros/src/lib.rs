//! The attribute macros `#[activity]` and `#[workflow]`: functions that become durable calls.
//!
//! They write nothing that could not be written by hand against the traits of `resurgam-sdk`: a
//! struct of the arguments, a function that builds it, and the implementation of the trait.
//!
//! ```
//! # use resurgam_macros::activity;
//! # use resurgam_core::Failure;
//! use std::time::Duration;
//!
//! #[activity(timeout = Duration::from_secs(10))]
//! async fn charge(order_id: String, cents: u64) -> Result<String, Failure> {
//!     Ok(format!("{order_id} paid {cents} cents"))
//! }
//! # let call = charge("o-1".into(), 5);
//! # assert_eq!(serde_json::to_string(&call).unwrap(), r#"{"order_id":"o-1","cents":5}"#);
//! ```
//!
//! stands for
//!
//! ```
//! # use resurgam_core::Failure;
//! # use resurgam::{Activity, ActivityContext, ActivityOptions};
//! # use serde::{Deserialize, Serialize};
//! use std::time::Duration;
//!
//! #[allow(non_camel_case_types)]
//! #[derive(Serialize, Deserialize)]
//! struct charge {
//!     pub order_id: String,
//!     pub cents: u64,
//! }
//!
//! #[must_use]
//! fn charge(order_id: String, cents: u64) -> charge {
//!     charge { order_id, cents }
//! }
//!
//! impl charge {
//!     async fn charge(order_id: String, cents: u64) -> Result<String, Failure> {
//!         Ok(format!("{order_id} paid {cents} cents"))
//!     }
//! }
//!
//! impl Activity for charge {
//!     const NAME: &'static str = "charge";
//!     type Output = String;
//!
//!     fn options() -> ActivityOptions {
//!         ActivityOptions { timeout: Some(Duration::from_secs(10)), ..Default::default() }
//!     }
//!
//!     async fn run(self, _ctx: ActivityContext) -> Result<String, Failure> {
//!         charge::charge(self.order_id, self.cents).await
//!     }
//! }
//! # let call = charge("o-1".into(), 5);
//! # assert_eq!(serde_json::to_string(&call).unwrap(), r#"{"order_id":"o-1","cents":5}"#);
//! ```
//!
//! A struct and a function may share a name because types and values are named apart. So
//! `charge(..)` builds a call, `charge` alone is what an app registers, and `charge { .. }` takes a
//! call apart.
//!
//! # What is written where
//!
//! - The function itself moves into an `impl` of the struct, whole: lints, messages and
//!   `#[tracing::instrument]` treat it as what it is.
//! - Doc comments, `#[must_use]` and `#[deprecated]` go to the function that builds the call.
//! - `#[derive(..)]` and `#[serde(..)]` below the macro go to the struct, and `#[serde(..)]` and
//!   doc comments of a parameter to its field: `#[serde(default)]` lets calls that were made before
//!   the parameter existed be read. Only serde's traits are derived unasked, because `Debug` and
//!   `Clone` would be demanded of every argument; ask for them with `#[derive(Debug, Clone)]`.
//! - `#[cfg(..)]` and `#[allow(..)]` (or `warn`, `deny`, `forbid`) go everywhere, all else stays on
//!   the function.
//!
//! # Limits
//!
//! A function under a macro is a free one, has at most twelve arguments, is not generic and borrows
//! nothing: its arguments are stored and read back, perhaps by another process. Since its name is
//! also a type, a module of that name cannot stand beside it, and links in documentation say which
//! is meant: `[charge()]` or `[struct@charge]`.

mod attributes;
mod complaints;
mod expand;
mod function;
mod kind;
mod settings;
mod signature;
mod types;

use kind::Kind;

/// Makes an activity of a function: a unit of work that is retried by policy.
///
/// ```
/// use resurgam::ActivityContext;
/// use resurgam_core::Failure;
/// use resurgam_core::retry::RetryPolicy;
/// use resurgam_macros::activity;
/// use std::time::Duration;
///
/// const PAYMENT: RetryPolicy =
///     RetryPolicy::exponential(Duration::from_millis(200)).max_attempts(8);
///
/// #[activity(retry = PAYMENT, timeout = Duration::from_secs(10), queue = "payments")]
/// async fn charge(ctx: ActivityContext, order_id: String, cents: u64) -> Result<String, Failure> {
///     Ok(format!("{order_id}: {cents} cents, key {}", ctx.idempotency_key()))
/// }
///
/// let call = charge("order-42".to_string(), 4200); // nothing runs yet
/// assert_eq!(serde_json::to_string(&call).unwrap(), r#"{"order_id":"order-42","cents":4200}"#);
/// ```
///
/// The context comes first and may be left out. A plain function, not an `async` one, may block its
/// thread. The error is `Failure` or anything that can become one, such as an error of your own.
///
/// | setting | value |
/// |---|---|
/// | `name` | the name on the wire, `"charge"` in place of the function's |
/// | `alias` | a name it had before, or a list of them: `["pay", "bill"]`; may be repeated |
/// | `retry` | a `RetryPolicy` |
/// | `timeout` | a `Duration`: the bound on one attempt |
/// | `total_timeout` | a `Duration`: the bound on the whole call |
/// | `queue_timeout` | a `Duration`: the bound on the wait for a worker |
/// | `heartbeat_timeout` | a `Duration`: the bound on the silence of a running attempt |
/// | `queue` | the queue it runs on: a text or whatever becomes a `String` |
/// | `max_concurrent` | how many of its attempts run at once on a node, a `usize` |
/// | `crate` | where Resurgam is when it has another name: `crate = resurgam_sdk` |
///
/// What stands for this without the macro: [the crate's page](crate).
#[proc_macro_attribute]
pub fn activity(
    settings: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    expand::expand(Kind::Activity, settings.into(), item.into()).into()
}

/// Makes a workflow of an async function: a durable program.
///
/// ```
/// use resurgam::WorkflowContext;
/// use resurgam_core::Failure;
/// use resurgam_macros::{activity, workflow};
/// use std::time::Duration;
///
/// #[activity]
/// async fn greet(name: String) -> Result<String, Failure> {
///     Ok(format!("good morning, {name}"))
/// }
///
/// #[workflow]
/// async fn wake_up(ctx: WorkflowContext, name: String) -> Result<String, Failure> {
///     ctx.sleep(Duration::from_secs(8 * 60 * 60)).await?;
///     ctx.call(greet(name)).await
/// }
///
/// let start = wake_up("Ada".to_string()); // nothing runs yet
/// assert_eq!(serde_json::to_string(&start).unwrap(), r#"{"name":"Ada"}"#);
/// ```
///
/// By hand it is a struct and an implementation of the trait:
///
/// ```
/// use resurgam::{Workflow, WorkflowContext};
/// use resurgam_core::Failure;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct WakeUp {
///     name: String,
/// }
///
/// impl Workflow for WakeUp {
///     const NAME: &'static str = "wake_up";
///     type Output = String;
///
///     async fn run(self, ctx: WorkflowContext) -> Result<String, Failure> {
///         ctx.sleep(std::time::Duration::from_secs(8 * 60 * 60)).await?;
///         Ok(format!("good morning, {}", self.name))
///     }
/// }
/// ```
///
/// Settings: `name`, `alias` and `crate`, as in [`macro@activity`]. A workflow is not retried, so
/// it has none of the others.
#[proc_macro_attribute]
pub fn workflow(
    settings: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    expand::expand(Kind::Workflow, settings.into(), item.into()).into()
}
