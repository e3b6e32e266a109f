//! Histories as files.

use resurgam_core::RunKey;
use resurgam_core::export::{Export, ExportedRun};
use resurgam_worker::{Error, Result};

use crate::Client;

impl Client {
    /// The whole history of an instance as JSON, for a file beside your code: all its runs, every
    /// event in its stored form. `None` when there is no instance of this id.
    ///
    /// `resurgam_testing::replay` checks it against the code of later days. The form is described
    /// in [`resurgam_core::export`], has a version and stays readable.
    ///
    /// ```
    /// use resurgam::prelude::*;
    ///
    /// #[workflow]
    /// async fn nap(_ctx: WorkflowContext) -> Result<(), Failure> {
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let file = folder.path().join("app.db");
    /// let app = App::builder().workflow(nap).sqlite(&file).await?;
    /// app.start("nap-1", nap()).await?.result().await?;
    /// let json = app.export_history("nap-1").await?.expect("it was started");
    /// assert!(json.contains("RunCompleted"));
    /// assert_eq!(app.export_history("nap-2").await?, None);
    /// # app.stop().await
    /// # }
    /// ```
    pub async fn export_history(&self, id: &str) -> Result<Option<String>> {
        let Some(row) = self.find(id).await? else { return Ok(None) };
        let what = |error| Error::store(format!("export the history of {id}"), error);
        let mut runs = Vec::new();
        for run in 1..=row.run {
            let key = RunKey { uid: row.uid, run };
            let events = self.handle().store().history(key).await.map_err(what)?;
            if !events.is_empty() {
                runs.push(ExportedRun { run, events });
            }
        }
        Ok(Some(Export { instance: row.id, uid: row.uid, runs }.to_json()))
    }
}
