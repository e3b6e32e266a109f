//! The attribute macros `#[activity]` and `#[workflow]`: functions that become durable calls; and
//! `#[derive(FailureType)]`: errors that a workflow gets back as what they were.
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
mod failure;
mod failure_settings;
mod function;
mod gate;
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
/// | `gate` | the key of the gate its calls are behind, or a template: `"host:{url.host}"` |
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
/// | setting | value |
/// |---|---|
/// | `version` | a whole number from 1, which it is unless set |
/// | `name`, `alias`, `crate` | as in [`macro@activity`] |
///
/// Several versions of one name can be registered: a run stays on the one that it began with.
/// Their functions have two names in Rust and one on the wire:
///
/// ```
/// # use resurgam::{Workflow, WorkflowContext};
/// # use resurgam_core::Failure;
/// # use resurgam_macros::workflow;
/// #[workflow(name = "greet")]
/// async fn greet_v1(_ctx: WorkflowContext, name: String) -> Result<String, Failure> {
///     Ok(format!("good day, {name}"))
/// }
///
/// #[workflow(name = "greet", version = 2)]
/// async fn greet(_ctx: WorkflowContext, name: String) -> Result<String, Failure> {
///     Ok(format!("hello, {name}"))
/// }
/// assert_eq!((greet::NAME, greet_v1::VERSION, greet::VERSION), ("greet", 1, 2));
/// ```
///
/// A policy by which a failed run is tried again belongs to the start, and so do its timeouts: a
/// workflow has no other settings.
#[proc_macro_attribute]
pub fn workflow(
    settings: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    expand::expand(Kind::Workflow, settings.into(), item.into()).into()
}

/// Makes an error a type of failures: a workflow gets it back as what it was.
///
/// ```
/// use resurgam_core::FailureType as _;
/// use resurgam_macros::{FailureType, activity};
/// use serde::{Deserialize, Serialize};
/// use std::fmt;
/// use std::time::Duration;
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize, FailureType)]
/// enum PaymentError {
///     #[failure(terminal, code = 402)]
///     Declined { reason: String },
///     #[failure(retry_after = *wait)]
///     Busy { wait: Duration },
///     Unreachable,
/// }
///
/// impl std::error::Error for PaymentError {}
/// # impl fmt::Display for PaymentError {
/// #     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str("no payment") }
/// # }
///
/// #[activity]
/// async fn charge(cents: u64) -> Result<u64, PaymentError> {
///     Err(PaymentError::Declined { reason: format!("{cents} cents are too many") })
/// }
///
/// let failure = PaymentError::Declined { reason: "no funds".to_string() }.to_failure();
/// assert_eq!(failure.type_name.as_deref(), Some("Declined"));
/// assert_eq!(failure.mro, ["Declined", "PaymentError"]); // a rule can mean one, or all of them
/// assert!(failure.is_terminal());
/// let back = failure.as_error::<PaymentError>(); // deserialization, which may fail
/// assert_eq!(back, Some(PaymentError::Declined { reason: "no funds".to_string() }));
/// ```
///
/// The type implements `std::error::Error`, by hand or with a derive such as `thiserror`'s, and
/// serde's traits. **The rule**: your type is kept where it is named, which is in the return type
/// of a function under `#[activity]` or `#[workflow]`, or with `.typed()?`; a plain `?` into
/// `Failure` treats it as any other error and keeps its short Rust name only.
///
/// | `#[failure(..)]` | value | on |
/// |---|---|---|
/// | `name` | what rules and records call it, in place of its own name | all |
/// | `alias` | a name it had before, or a list of them | struct, variant |
/// | `parent` | a type it descends from, or a list of them, nearest first | all |
/// | `code` | a code that rules match on | all |
/// | `terminal` | never tried again | all |
/// | `retryable` | tried again whatever the rules say, within the limits | all |
/// | `retry_after` | a `Duration`, or an `Option` of one | struct, variant |
/// | `crate` | where Resurgam is when it has another name | struct, enum |
///
/// - The `name` of an enum is what its variants descend from.
/// - What was recorded under an `alias` is still read.
/// - `code` and `retry_after` are expressions that may mention fields, which are references: by
///   their names, or as `_0`, `_1` and so on.
///
/// What an enum says holds for the variants that say nothing else.
#[proc_macro_derive(FailureType, attributes(failure))]
pub fn failure_type(item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    failure::expand(item.into()).into()
}
