//! A handle to what was started.

use std::marker::PhantomData;

use resurgam_core::Uid;
use resurgam_worker::{Outcome, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Client;

/// A handle to an instance whose result is a `T`.
///
/// ```
/// use resurgam::Outcome;
/// use resurgam::prelude::*;
///
/// #[workflow]
/// async fn echo(ctx: WorkflowContext) -> Result<String, Failure> {
///     ctx.signal("say").await
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), resurgam::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("app.db");
/// let app = App::builder().workflow(echo).sqlite(&file).await?;
/// let first = app.start("echo-1", echo()).await?;
/// first.signal("say", &"hello").await?;
/// assert_eq!(first.result().await?, "hello");
/// assert_eq!(first.id(), "echo-1");
/// assert!(first.history().await?.contains("RunCompleted"));
///
/// let second = app.start("echo-2", echo()).await?;
/// assert_ne!(first.uid(), second.uid());
/// second.cancel("nobody speaks").await?;
/// assert!(matches!(second.outcome().await?, Outcome::Cancelled(_)));
/// # app.stop().await
/// # }
/// ```
#[derive(Debug)]
pub struct Instance<T> {
    client: Client,
    id: String,
    uid: Uid,
    output: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Instance<T> {
    pub(crate) fn new(client: Client, id: String, uid: Uid) -> Self {
        Instance { client, id, uid, output: PhantomData }
    }

    /// The id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What identifies this start for ever.
    pub fn uid(&self) -> Uid {
        self.uid
    }

    /// Waits for the result. A failure of the workflow is in
    /// [`Error::failure`](crate::Error::failure).
    pub async fn result(&self) -> Result<T> {
        self.outcome().await?.into_result(&self.id)
    }

    /// Waits for the end.
    pub async fn outcome(&self) -> Result<Outcome> {
        self.client.handle().outcome(self.uid).await
    }

    /// Sends it a signal.
    pub async fn signal(&self, name: &str, value: &impl Serialize) -> Result<()> {
        self.client.signal(&self.id, name, value).await
    }

    /// Asks it to end.
    pub async fn cancel(&self, reason: &str) -> Result<()> {
        self.client.cancel(&self.id, reason).await
    }

    /// Its history with its attempts, one line each.
    pub async fn history(&self) -> Result<String> {
        self.client.history_of(self.uid).await
    }
}
