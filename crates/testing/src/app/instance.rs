//! An instance under test.

use resurgam::{Failure, Instance, Outcome, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::TestApp;

/// An instance under test.
///
/// ```
/// use resurgam::Outcome;
/// use resurgam::prelude::*;
/// use resurgam_testing::TestApp;
///
/// #[workflow]
/// async fn echo(ctx: WorkflowContext) -> Result<String, Failure> {
///     ctx.signal("say").await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), resurgam::Error> {
/// let app = TestApp::builder().workflow(echo).start().await;
/// let run = app.start("echo-1", echo()).await;
/// run.signal("say", &"hello").await?;
/// assert_eq!(run.result().await?, "hello"); // fails as in the app
/// assert!(run.history().await.contains("SignalReceived"));
///
/// let silent = app.start("echo-2", echo()).await;
/// silent.cancel("nobody speaks").await?;
/// assert!(matches!(silent.outcome().await, Outcome::Cancelled(_)));
/// assert_eq!(silent.failure().await.message, "nobody speaks");
/// assert_eq!(silent.id(), "echo-2");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TestInstance<T> {
    app: TestApp,
    id: String,
    uid: resurgam_core::Uid,
    output: std::marker::PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> TestInstance<T> {
    pub(super) fn new(app: TestApp, instance: &Instance<T>) -> Self {
        let output = std::marker::PhantomData;
        TestInstance { app, id: instance.id().to_string(), uid: instance.uid(), output }
    }

    /// The same instance, with what its result is read as.
    pub(super) fn typed<U>(self) -> TestInstance<U> {
        let TestInstance { app, id, uid, .. } = self;
        TestInstance { app, id, uid, output: std::marker::PhantomData }
    }

    /// The id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Waits for the result in virtual time: returns at once. It fails as [`Instance::result`]
    /// does; the failure of the workflow is in its [`failure`](resurgam::Error::failure), and
    /// [`TestInstance::failure`] is for tests that expect one.
    ///
    /// # Panics
    /// When it never ends.
    pub async fn result(&self) -> Result<T> {
        self.outcome().await.into_result(&self.id)
    }

    /// Waits in virtual time for the end of an instance that is to fail or to be cancelled, and
    /// answers with the failure.
    ///
    /// # Panics
    /// When it completes, or never ends.
    pub async fn failure(&self) -> Failure {
        match self.outcome().await {
            Outcome::Failed(failure)
            | Outcome::Cancelled(failure)
            | Outcome::Terminated(failure) => failure,
            Outcome::Completed(result) => {
                panic!("{} was to fail, and completed with {}", self.id, result.as_str())
            }
        }
    }

    /// Waits for the end in virtual time.
    ///
    /// # Panics
    /// When it never ends.
    pub async fn outcome(&self) -> Outcome {
        self.app.outcome(&self.id, self.uid).await
    }

    /// Its history with its attempts, one line each.
    pub async fn history(&self) -> String {
        self.app.history(&self.id).await
    }

    /// Sends it a signal.
    pub async fn signal(&self, name: &str, value: &impl Serialize) -> Result<()> {
        self.app.signal(&self.id, name, value).await
    }

    /// Asks it to end.
    pub async fn cancel(&self, reason: &str) -> Result<()> {
        self.app.cancel(&self.id, reason).await
    }
}
