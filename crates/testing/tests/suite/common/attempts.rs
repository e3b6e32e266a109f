//! What tests about attempts share: a policy without surprises, a log that activities write and the
//! test reads, and ways to look at the one call of an instance.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use resurgam::PendingCall;
use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam_testing::{TestApp, TestBuilder};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// A second between attempts, as many as it takes.
pub(crate) const STEADY: RetryPolicy = RetryPolicy::fixed(SECOND).jitter(Jitter::None).unlimited();

/// What activities tell the test.
#[derive(Default)]
pub(crate) struct Log(Mutex<Vec<String>>);

impl Log {
    pub(crate) fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap().join("\n")
    }
}

pub(crate) fn log(ctx: &ActivityContext) -> Arc<Log> {
    ctx.state::<Arc<Log>>().as_ref().clone()
}

/// An app with a log that the test reads.
pub(crate) fn logging() -> (TestBuilder, Arc<Log>) {
    let log = Arc::new(Log::default());
    (TestApp::builder().state(log.clone()), log)
}

/// The only call that an instance waits for.
pub(crate) async fn pending(app: &TestApp, id: &str) -> PendingCall {
    let description = app.describe(id).await;
    let [call] = &description.pending[..] else { panic!("{description:?}") };
    call.clone()
}

/// The history of a bare activity, without its beginning.
pub(crate) async fn story(app: &TestApp, id: &str) -> String {
    let history = app.history(id).await;
    history.lines().skip(2).map(|line| format!("{line}\n")).collect()
}
