//! What operators do to many calls, runs or dead letters at once.
//!
//! A bulk action is a job that is stored first: a node works on it, a page at a time, and goes on
//! with it after a crash. Each call is asked for at most once.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use resurgam_core::Failure;
use resurgam_core::action::{Action, Reset, ResetTo};
use resurgam_core::retry::RetryPolicy;
use resurgam_store::CallFilter;
use resurgam_store::rows::{InstanceCursor, InstanceRow};
use resurgam_worker::{BulkJob, BulkOptions, BulkPreview, BulkTarget, Error, Result, RunFilter};

use crate::Client;
use crate::act::os_user;

/// Open activity calls, to be acted on together. Nothing is read before that.
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam::{BulkState, CallFilter};
/// use resurgam_testing::TestApp;
/// use std::time::Duration;
///
/// #[activity(retry = RetryPolicy::fixed(Duration::from_secs(3_600)).unlimited())]
/// async fn charge(order: u64) -> Result<u64, Failure> {
///     Err(Failure::of_type("BankDown", "no answer"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), resurgam::Error> {
/// let app = TestApp::builder().activity(charge).start().await;
/// for order in 1..=3 {
///     app.submit(&format!("order-{order}"), charge(order)).await?;
/// }
/// app.advance(Duration::from_secs(60)).await; // the first attempts have failed
/// let client = app.client();
/// let charges = CallFilter { activity: Some("charge".into()), ..CallFilter::default() };
///
/// // How many would it be, and which?
/// let preview = client.calls(charges.clone()).retry().dry_run().await?;
/// assert_eq!((preview.count, preview.calls.len()), (3, 3));
///
/// // All of them, over a minute, so that they do not arrive at the same moment.
/// let retry = client.calls(charges.clone()).retry().spread(Duration::from_secs(60));
/// let job = retry.by("ana").reason("the bank is back").start().await?;
/// app.advance(Duration::from_secs(120)).await; // it was not
/// assert_eq!(app.attempts(charge), 6);
/// let job = client.bulk_job(&job.id).await?.expect("it is kept for thirty days");
/// assert_eq!((job.state(), job.counts.changed), (BulkState::Done, 3));
/// assert!(app.history("order-1").await.contains("operator ana: retried charge#2"));
///
/// // One is tried first; it fails again, so the others are left alone.
/// let first = client.calls(charges.clone()).retry().first(1).start().await?;
/// app.advance(Duration::from_secs(60)).await;
/// let first = client.bulk_job(&first.id).await?.expect("it is kept");
/// assert_eq!((first.state(), first.counts.matched), (BulkState::Failed, 1));
///
/// let done = app.ask("pause", |client| client.calls(charges.clone()).pause()).await?;
/// assert_eq!(done.to_string(), "3 calls changed");
/// assert_eq!(client.bulk_jobs(None, 10).await?.len(), 3);
/// assert!(!client.stop_bulk(&job.id, "ana").await?, "it was over");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CallsHandle {
    client: Client,
    filter: CallFilter,
}

/// Runs, to be acted on together. Nothing is read before that.
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam::{ResetTo, RunFilter, Status};
/// use resurgam_testing::TestApp;
///
/// #[workflow]
/// async fn order(ctx: WorkflowContext) -> Result<String, Failure> {
///     ctx.signal::<String>("paid").await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), resurgam::Error> {
/// let app = TestApp::builder().workflow(order).start().await;
/// for number in 1..=3 {
///     app.start(&format!("order-{number}"), order()).await;
/// }
/// let orders = RunFilter { workflow: Some("order".into()), ..RunFilter::default() };
/// let newest = app.client().runs(orders.clone()).list(None, 2).await?;
/// assert_eq!([&*newest[0].id, &*newest[1].id], ["order-3", "order-2"]);
/// let (page, go_on) = app.client().runs(orders.clone()).page(None, 2).await?;
/// assert_eq!((page.len(), go_on.is_some()), (2, true));
/// let paused = app.ask("pause", |client| client.runs(orders.clone()).pause()).await?;
/// assert_eq!(paused.to_string(), "3 runs changed");
/// let resumed = app.ask("resume", |client| client.runs(orders.clone()).resume().by("ana"));
/// assert_eq!(resumed.await?.counts.changed, 3);
///
/// // None has failed, so there is none to begin again, or to go back in.
/// let none = app.ask("restart", |client| client.runs(orders.clone()).restart()).await?;
/// assert_eq!(none.counts.matched, 0);
/// let back = |client: &resurgam::Client| client.runs(orders.clone()).reset(ResetTo::LastFailure);
/// assert_eq!(app.ask("reset", back).await?.counts.matched, 0);
/// let failed = RunFilter { status: vec![Status::Failed], ..orders.clone() };
/// assert_eq!(app.client().runs(failed).restart().dry_run().await?.count, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RunsHandle {
    client: Client,
    filter: RunFilter,
}

impl Client {
    /// Open activity calls, to be acted on together.
    pub fn calls(&self, filter: CallFilter) -> CallsHandle {
        CallsHandle { client: self.clone(), filter }
    }

    /// Runs, to be acted on together: the current ones of instances.
    pub fn runs(&self, filter: RunFilter) -> RunsHandle {
        RunsHandle { client: self.clone(), filter }
    }

    /// A bulk action, by its id. It is kept for thirty days after it was over.
    pub async fn bulk_job(&self, id: &str) -> Result<Option<BulkJob>> {
        self.handle().bulk_job(id).await
    }

    /// Bulk actions, the newest first; with `after`, those that a list has behind that one.
    pub async fn bulk_jobs(&self, after: Option<&BulkJob>, limit: usize) -> Result<Vec<BulkJob>> {
        let after = after.map(|job| (job.created_at, job.id.clone()));
        self.handle().bulk_jobs(after, limit).await
    }

    /// Has a bulk action ask for nothing more. What it has asked for is carried out. False when it
    /// was over, or stopped before.
    pub async fn stop_bulk(&self, id: &str, by: impl Into<String>) -> Result<bool> {
        self.handle().stop_bulk(id, &by.into()).await
    }

    /// Waits until a bulk action is over. Where nobody works who could go on with it, answers with
    /// how it stands.
    pub async fn bulk_over(&self, id: &str) -> Result<BulkJob> {
        self.handle().bulk_over(id).await
    }
}

impl CallsHandle {
    /// Has their next attempts begin now. Those that wait, unless the filter names another status.
    pub fn retry(&self) -> BulkAct {
        self.act(Action::Retry { reset: false, due: None })
    }

    /// Has no attempt of theirs begin until somebody resumes them.
    pub fn pause(&self) -> BulkAct {
        self.act(Action::Pause { clock_runs: false })
    }

    /// Lets them go on. Those that are paused, unless the filter names another status.
    pub fn resume(&self) -> BulkAct {
        self.act(Action::Resume { reset: false, due: None })
    }

    /// Ends them with a failure, which their workflows get.
    pub fn fail(&self, message: impl Into<String>) -> BulkAct {
        let failure = Failure::terminal(message.into()).with_type("FailedByOperator");
        self.act(Action::Fail { failure })
    }

    /// Has another policy decide about them from now on.
    pub fn set_policy(&self, policy: impl Into<RetryPolicy>) -> BulkAct {
        self.act(Action::SetPolicy { policy: policy.into().to_stored() })
    }

    /// Does what a program asks for that has an action in its hands.
    #[doc(hidden)]
    pub fn does(&self, action: Action) -> BulkAct {
        self.act(action)
    }

    fn act(&self, action: Action) -> BulkAct {
        BulkAct::new(&self.client, BulkTarget::Calls(self.filter.clone()), action)
    }
}

impl RunsHandle {
    /// The runs themselves, the newest first, at most `limit`; with `after`, those that a list has
    /// behind that place. An id that the filter names is looked up, and has no place in a list.
    pub async fn list(
        &self,
        after: Option<InstanceCursor>,
        limit: usize,
    ) -> Result<Vec<InstanceRow>> {
        self.client.handle().list_runs(&self.filter, after, limit).await
    }

    /// As many of them as there are among a bounded number of instances, the newest first, and
    /// where the next page begins: for lists of which nobody wants to wait until all of it was
    /// read. A page can have none, and not be the last.
    pub async fn page(
        &self,
        after: Option<InstanceCursor>,
        limit: usize,
    ) -> Result<(Vec<InstanceRow>, Option<InstanceCursor>)> {
        self.client.handle().run_page(&self.filter, after, limit).await
    }

    /// Has them take no turn until somebody resumes them. Those that are open, unless the filter
    /// names another status.
    pub fn pause(&self) -> BulkAct {
        self.act(Action::PauseRun { calls: false })
    }

    /// Lets them go on. Those that are paused, unless the filter names another status.
    pub fn resume(&self) -> BulkAct {
        self.act(Action::ResumeRun)
    }

    /// Begins closed instances again. Those that failed, unless the filter names another status.
    pub fn restart(&self) -> BulkAct {
        self.act(Action::Restart)
    }

    /// Has them go on from a place in their histories. Those that failed, unless the filter names
    /// another status.
    pub fn reset(&self, to: ResetTo) -> BulkAct {
        self.act(Action::Reset(Reset::to(to)))
    }

    /// Does what a program asks for that has an action in its hands.
    #[doc(hidden)]
    pub fn does(&self, action: Action) -> BulkAct {
        self.act(action)
    }

    fn act(&self, action: Action) -> BulkAct {
        BulkAct::new(&self.client, BulkTarget::Runs(self.filter.clone()), action)
    }
}

/// Something that is about to be done to many calls, or runs. Awaiting it does so and answers when
/// it is over; [`BulkAct::start`] answers as soon as it is stored.
#[must_use = "nothing is done until this is awaited"]
#[derive(Clone, Debug)]
pub struct BulkAct {
    client: Client,
    job: std::result::Result<BulkJob, String>,
}

impl BulkAct {
    pub(crate) fn new(client: &Client, target: BulkTarget, action: Action) -> Self {
        BulkAct { client: client.clone(), job: Ok(client.handle().new_bulk(target, action)) }
    }

    fn with(mut self, set: impl FnOnce(&mut BulkJob)) -> Self {
        if let Ok(job) = &mut self.job {
            set(job);
        }
        self
    }

    fn changing(mut self, change: impl FnOnce(&mut Action) -> bool, otherwise: &str) -> Self {
        if let Ok(job) = &mut self.job
            && !change(&mut job.action)
        {
            self.job = Err(otherwise.to_string());
        }
        self
    }

    /// Counts failures from 0 again, and lets the time of each call begin again. For a retry and a
    /// resume.
    pub fn reset(self) -> Self {
        let change = |action: &mut Action| match action {
            Action::Retry { reset, .. } | Action::Resume { reset, .. } => {
                *reset = true;
                true
            }
            _ => false,
        };
        self.changing(change, "only a retry and a resume can reset a call")
    }

    /// Lets the times that bound the calls go on while they are paused. For a pause.
    pub fn clock_runs(self) -> Self {
        let change = |action: &mut Action| match action {
            Action::Pause { clock_runs } => {
                *clock_runs = true;
                true
            }
            _ => false,
        };
        self.changing(change, "clocks are for a pause")
    }

    /// Pauses the open calls of the runs too. For a pause of runs.
    pub fn calls(self) -> Self {
        let change = |action: &mut Action| match action {
            Action::PauseRun { calls } => {
                *calls = true;
                true
            }
            _ => false,
        };
        self.changing(change, "only a pause of runs takes their calls with it")
    }

    /// Drops signals that were taken after the place that runs are reset to.
    pub fn drop_signals(self) -> Self {
        self.resetting(|reset| reset.drop_signals = true)
    }

    /// Resets runs although something of theirs was undone.
    pub fn even_if_undone(self) -> Self {
        self.resetting(|reset| reset.even_if_undone = true)
    }

    fn resetting(self, set: impl FnOnce(&mut Reset)) -> Self {
        let change = |action: &mut Action| match action {
            Action::Reset(reset) => {
                set(reset);
                true
            }
            _ => false,
        };
        self.changing(change, "this is for a reset of runs")
    }

    /// Runs each activity once more by itself, see [`Redrive::as_new`](crate::Redrive::as_new). For
    /// a redrive.
    pub fn as_new(self) -> Self {
        let change = |action: &mut Action| match action {
            Action::Redrive(redrive) if !redrive.new_key => {
                *action = Action::RedriveAsNew;
                true
            }
            _ => false,
        };
        self.changing(change, "only a redrive runs activities as new, and those have new keys")
    }

    /// Has each call made again with another idempotency key, see
    /// [`Redrive::new_key`](crate::Redrive::new_key). For a redrive.
    pub fn new_key(self) -> Self {
        let change = |action: &mut Action| match action {
            Action::Redrive(redrive) => {
                redrive.new_key = true;
                true
            }
            _ => false,
        };
        self.changing(change, "only a redrive in the run of a call gives it a new key")
    }

    /// Resumes calls that used up their attempts with failures counted from 0, and the others as
    /// they are.
    pub(crate) fn resetting_exhausted(self) -> Self {
        self.with(|job| job.options.resets_exhausted = true)
    }

    /// Does it to at most so many.
    pub fn limit(self, limit: u64) -> Self {
        self.with(|job| job.options.limit = Some(limit))
    }

    /// Takes that long for all of them, evenly, so that they do not arrive at the same moment. What
    /// is retried, or resumed, gets a due time that is drawn.
    pub fn spread(self, spread: Duration) -> Self {
        self.with(|job| job.options.spread = spread)
    }

    /// Does it to so many first, waits for their outcome, and goes on only if they succeed.
    ///
    /// Of a call that is retried, resumed or redriven its next attempt counts. A run that is reset
    /// to its last failure, or to before a call, succeeds with the call or child that it goes back
    /// to; one that is reset to an event, or restarted, when it is completed. Other actions succeed
    /// when they are not refused.
    pub fn first(self, first: u32) -> Self {
        self.with(|job| job.options.first = Some(first))
    }

    /// Makes a repeated request with the same id get the first job, which has this id.
    pub fn request_id(self, id: impl Into<String>) -> Self {
        self.with(|job| job.id = id.into())
    }

    /// Who does it; the user of the operating system, unless set.
    pub fn by(self, by: impl Into<String>) -> Self {
        self.with(|job| job.by = by.into())
    }

    /// Why.
    pub fn reason(self, reason: impl Into<String>) -> Self {
        self.with(|job| job.reason = Some(reason.into()))
    }

    /// Whether a job that was started asks for the same: an action on the same calls, runs or
    /// letters, done in the same way.
    pub fn asks_the_same_as(&self, started: &BulkJob) -> bool {
        let timeless = |target: &BulkTarget| match target.clone() {
            // When a job was made is part of its filter.
            BulkTarget::Calls(filter) => BulkTarget::Calls(CallFilter { until: None, ..filter }),
            other @ (BulkTarget::Runs(_) | BulkTarget::Letters(_)) => other,
        };
        // What was drawn and counted when it was started is no part of what was asked for.
        let asked = |options: &BulkOptions| BulkOptions { seed: 0, expected: 0, ..options.clone() };
        self.job.as_ref().is_ok_and(|job| {
            job.action == started.action
                && timeless(&job.target) == timeless(&started.target)
                && asked(&job.options) == asked(&started.options)
        })
    }

    /// Counts what it would be done to and lists the first hundred, and changes nothing.
    pub async fn dry_run(self) -> Result<BulkPreview> {
        let job = self.job.map_err(|why| Error::invalid(format!("look what matches: {why}")))?;
        let mut preview = self.client.handle().preview_bulk(&job.target, 100).await?;
        preview.count = preview.count.min(job.options.limit.unwrap_or(u64::MAX));
        let most = usize::try_from(preview.count).unwrap_or(usize::MAX);
        preview.calls.truncate(most);
        preview.runs.truncate(most);
        preview.letters.truncate(most);
        Ok(preview)
    }

    /// Stores it, for a node to work on. It is durable when this returns.
    pub async fn start(self) -> Result<BulkJob> {
        let mut job = self.job.map_err(|why| Error::invalid(format!("start a bulk job: {why}")))?;
        if job.by.is_empty() {
            job.by = os_user();
        }
        self.client.handle().start_bulk(job).await
    }
}

impl IntoFuture for BulkAct {
    type Output = Result<BulkJob>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<BulkJob>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let client = self.client.clone();
            let job = self.start().await?;
            client.bulk_over(&job.id).await
        })
    }
}
