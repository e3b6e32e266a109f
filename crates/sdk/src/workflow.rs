//! Workflows: durable programs.

use std::future::Future;

use resurgam_core::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::WorkflowContext;

/// A workflow, and at the same time one start of it: the fields are the arguments, by name.
///
/// `#[workflow]` on an async function writes this. The code is run again from the beginning after
/// a crash, so it waits only through `ctx` and takes time and randomness from there.
///
/// By hand it looks so:
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam::Workflow;
/// use resurgam_testing::TestApp;
/// use serde::{Deserialize, Serialize};
/// use std::time::Duration;
///
/// #[derive(Serialize, Deserialize)]
/// struct Nap {
///     minutes: u64,
/// }
///
/// impl Workflow for Nap {
///     const NAME: &'static str = "nap";
///     type Output = String;
///
///     async fn run(self, ctx: WorkflowContext) -> Result<String, Failure> {
///         ctx.sleep(Duration::from_secs(60 * self.minutes)).await?;
///         Ok("good morning".to_string())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let app = TestApp::builder().workflow_type::<Nap>().start().await;
/// let run = app.start("nap-1", Nap { minutes: 90 }).await;
/// assert_eq!(run.result().await.unwrap(), "good morning");
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a workflow",
    note = "put #[workflow] on the async function, and pass its name without calling it where a \
            workflow is registered"
)]
pub trait Workflow: Serialize + DeserializeOwned + Send + 'static {
    /// The name on the wire. Changing it leaves the runs that are under way waiting; see
    /// [`Workflow::ALIASES`].
    const NAME: &'static str;
    /// Names it had before.
    const ALIASES: &'static [&'static str] = &[];
    /// Its version. Several versions of a name can be registered: a run stays on the one that it
    /// began with, and new ones begin with the newest.
    const VERSION: u32 = 1;
    /// What it returns.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// The code.
    fn run(
        self,
        ctx: WorkflowContext,
    ) -> impl Future<Output = Result<Self::Output, Failure>> + Send;
}
