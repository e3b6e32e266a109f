//! Schedules: creating, changing and looking at what starts by the clock.
//!
//! A [`Rule`] says when. The rules of retry policies are [`retry::Rule`](crate::retry::Rule).

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use resurgam_core::retry::RetryPolicy;
use resurgam_core::schedule::State;
pub use resurgam_core::schedule::{Overlap, Rule, SHORTEST, Schedule, When};
use resurgam_core::{Payload, Timestamp};
use resurgam_sdk::Workflow;
use resurgam_store::ScheduleRecord;
use resurgam_worker::{Result, ScheduledStart};
use serde::Serialize;

use crate::Client;
use crate::client::{bad_value, millis};

/// How many of the next times are described.
const NEXT: usize = 5;

impl Client {
    /// Creates a schedule that starts a workflow by the clock. It is durable when awaiting this
    /// returns.
    ///
    /// A program can say so at every start: a schedule of this id that says the same is left as it
    /// is, also when an operator paused it. One that says something else is an error, unless
    /// [`NewSchedule::replace`] is asked for.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam::schedule::{Overlap, Rule};
    ///
    /// #[workflow]
    /// async fn report(ctx: WorkflowContext, title: String) -> Result<(), Failure> {
    ///     ctx.set_status(&title);
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let file = folder.path().join("app.db");
    /// let app = App::builder().workflow(report).sqlite(&file).await?;
    /// let rule = Rule::cron("0 3 * * *").in_zone("Europe/Berlin");
    /// app.schedule("nightly", rule, report("sales".into())).overlap(Overlap::BufferOne).await?;
    /// let nightly = app.describe_schedule("nightly").await?.unwrap();
    /// assert_eq!((nightly.started, nightly.next.len()), (0, 5));
    /// app.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn schedule<W: Workflow>(
        &self,
        id: impl Into<String>,
        rule: Rule,
        workflow: W,
    ) -> NewSchedule {
        self.schedule_named(id, rule, W::NAME, &workflow)
    }

    /// Creates a schedule that starts a workflow by its name, with the argument as an object.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam::schedule::Rule;
    ///
    /// #[workflow]
    /// async fn report(_ctx: WorkflowContext, title: String) -> Result<String, Failure> {
    ///     Ok(title)
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let file = folder.path().join("app.db");
    /// let app = App::builder().workflow(report).sqlite(&file).await?;
    /// let argument = serde_json::json!({"title": "sales"});
    /// app.schedule_named("nightly", Rule::cron("0 3 * * *"), "report", &argument).await?;
    /// let id = app.run_schedule_now("nightly").await?;
    /// let instance = app.instance::<String>(&id).await?.expect("it was started");
    /// assert_eq!(instance.result().await?, "sales");
    /// # app.stop().await
    /// # }
    /// ```
    pub fn schedule_named(
        &self,
        id: impl Into<String>,
        rule: Rule,
        workflow: &str,
        argument: &impl Serialize,
    ) -> NewSchedule {
        NewSchedule {
            client: self.clone(),
            input: Payload::encode(argument).map_err(|error| error.to_string()),
            workflow: workflow.to_string(),
            schedule: Schedule::new(id.into(), rule),
            start: ScheduledStart::default(),
            replace: false,
        }
    }

    /// Starts a workflow by its name by the clock, as a whole [`Schedule`] says; it takes effect
    /// when it is awaited.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam::schedule::Schedule;
    /// use serde_json::json;
    ///
    /// # #[workflow]
    /// # async fn report(_ctx: WorkflowContext) -> Result<u32, Failure> { Ok(1) }
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let app = App::builder().workflow(report).sqlite(folder.path().join("app.db")).await?;
    /// let hourly = Schedule::from_value(&json!({"id": "reports", "every": "1h"}))?;
    /// app.schedule_as(hourly, "report", &json!({})).await?;
    /// assert_eq!(app.schedules().await?[0].workflow, "report");
    /// # app.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn schedule_as(
        &self,
        schedule: Schedule,
        workflow: &str,
        argument: &impl Serialize,
    ) -> NewSchedule {
        NewSchedule {
            client: self.clone(),
            input: Payload::encode(argument).map_err(|error| error.to_string()),
            workflow: workflow.to_string(),
            schedule,
            start: ScheduledStart::default(),
            replace: false,
        }
    }

    /// Pauses a schedule: it does not fire until it is resumed, and what would have fired meanwhile
    /// is forgotten. Its instances go on.
    pub async fn pause_schedule(&self, id: &str) -> Result<()> {
        self.handle().pause_schedule(id).await
    }

    /// Lets a paused schedule fire again, from now on.
    pub async fn resume_schedule(&self, id: &str) -> Result<()> {
        self.handle().resume_schedule(id).await
    }

    /// Starts an instance of a schedule now, whether it is paused, and whether its last instance is
    /// open. Answers with the id of the instance: the schedule's and the present time.
    pub async fn run_schedule_now(&self, id: &str) -> Result<String> {
        self.handle().run_schedule_now(id).await
    }

    /// Starts the firings of a past range now, all at once and both ends included, at most 10,000.
    /// Those that have their instance already are not started again, so that a backfill that was
    /// interrupted can be repeated. Answers with how many were started.
    pub async fn backfill(&self, id: &str, from: Timestamp, to: Timestamp) -> Result<u64> {
        self.handle().backfill(id, from, to).await
    }

    /// Deletes a schedule. Its instances go on.
    pub async fn delete_schedule(&self, id: &str) -> Result<()> {
        self.handle().delete_schedule(id).await
    }

    /// All schedules, by id.
    pub async fn schedules(&self) -> Result<Vec<ScheduleDescription>> {
        let now = self.handle().now();
        let records = self.handle().schedules().await?;
        Ok(records.into_iter().map(|record| ScheduleDescription::of(record, now)).collect())
    }

    /// The schedule of this id.
    pub async fn describe_schedule(&self, id: &str) -> Result<Option<ScheduleDescription>> {
        let now = self.handle().now();
        let record = self.handle().schedule(id).await?;
        Ok(record.map(|record| ScheduleDescription::of(record, now)))
    }
}

/// A schedule that is about to be created; awaiting it does so.
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam::Timestamp;
/// use resurgam::schedule::{Overlap, Rule};
/// use std::time::Duration;
///
/// #[workflow]
/// async fn sweep(_ctx: WorkflowContext) -> Result<(), Failure> {
///     Ok(())
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), resurgam::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("app.db");
/// let app = App::builder().workflow(sweep).sqlite(&file).await?;
/// let hour = Duration::from_secs(3_600);
/// let new_year = Timestamp::from_millis(1_798_761_600_000); // of 2027
/// app.schedule("sweep", Rule::every(hour), sweep())
///     .overlap(Overlap::Skip) // while the last one is open
///     .catch_up(hour) // after downtime
///     .jitter(Duration::from_secs(60))
///     .not_before(new_year)
///     .not_after(new_year.saturating_add(365 * 24 * hour))
///     .paused()
///     .retry(RetryPolicy::fixed(hour).max_attempts(3))
///     .run_timeout(hour)
///     .total_timeout(5 * hour)
///     .queue("night")
///     .priority(-1)
///     .tag("kind", "sweep")
///     .await?;
/// let sweeping = app.describe_schedule("sweep").await?.expect("it was created");
/// assert!(sweeping.paused && sweeping.next.is_empty());
///
/// // Something else under the same id has to be said twice.
/// let daily = || app.schedule("sweep", Rule::cron("0 4 * * *"), sweep());
/// assert!(daily().await.is_err());
/// daily().replace().await?;
///
/// app.resume_schedule("sweep").await?;
/// assert_eq!(app.schedules().await?[0].next.len(), 5);
/// let id = app.run_schedule_now("sweep").await?;
/// assert!(id.starts_with("sweep/"));
/// let day = Timestamp::from_millis(1_767_225_600_000); // the first of 2026
/// assert_eq!(app.backfill("sweep", day, day.saturating_add(24 * hour)).await?, 1);
/// app.pause_schedule("sweep").await?;
/// app.delete_schedule("sweep").await?;
/// # app.stop().await
/// # }
/// ```
#[must_use = "a schedule is created when this is awaited"]
#[derive(Debug)]
pub struct NewSchedule {
    client: Client,
    schedule: Schedule,
    workflow: String,
    input: std::result::Result<Payload, String>,
    start: ScheduledStart,
    replace: bool,
}

impl NewSchedule {
    /// What a firing does while the last instance is open; nothing unless set.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.schedule = self.schedule.overlap(overlap);
        self
    }

    /// How late a firing may still start an instance, when nobody worked at its time; a minute
    /// unless set.
    pub fn catch_up(mut self, window: Duration) -> Self {
        self.schedule = self.schedule.catch_up(window);
        self
    }

    /// Delays each firing by its own share of this.
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.schedule = self.schedule.jitter(jitter);
        self
    }

    /// No firing before this time.
    pub fn not_before(mut self, time: Timestamp) -> Self {
        self.schedule = self.schedule.not_before(time);
        self
    }

    /// No firing after this time.
    pub fn not_after(mut self, time: Timestamp) -> Self {
        self.schedule = self.schedule.not_after(time);
        self
    }

    /// Creates it paused. One that is there already is paused only by [`NewSchedule::replace`].
    pub fn paused(mut self) -> Self {
        self.schedule = self.schedule.paused(true);
        self
    }

    /// Takes the place of a schedule of this id that says something else. What that remembers
    /// stays: its counters, its last instance, and whether it is paused.
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }

    /// The policy by which a run of an instance that fails is followed by another one.
    pub fn retry(mut self, policy: impl Into<RetryPolicy>) -> Self {
        self.start.settings.retry = Some(policy.into().to_stored());
        self
    }

    /// Bounds one run of an instance.
    pub fn run_timeout(mut self, time: Duration) -> Self {
        self.start.settings.run_timeout_ms = Some(millis(time));
        self
    }

    /// Bounds all runs of an instance together.
    pub fn total_timeout(mut self, time: Duration) -> Self {
        self.start.settings.total_timeout_ms = Some(millis(time));
        self
    }

    /// Where the activities of its instances run that name no queue.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.start.queue = Some(queue.into());
        self
    }

    /// The priority of its instances; 0 unless set.
    pub fn priority(mut self, priority: i32) -> Self {
        self.start.priority = priority;
        self
    }

    /// Something to look its instances up by.
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.start.tags.insert(name.into(), value.into());
        self
    }
}

impl IntoFuture for NewSchedule {
    type Output = Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let NewSchedule { client, schedule, workflow, input, start, replace } = self;
            let what = format!("schedule {}", schedule.id);
            let input = input.map_err(|error| bad_value(what, error))?;
            let new = resurgam_worker::NewSchedule { schedule, workflow, input, start, replace };
            client.handle().put_schedule(new).await
        })
    }
}

/// A schedule, and what an operator wants to know about it.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleDescription {
    /// Its id.
    pub id: String,
    /// The workflow that it starts.
    pub workflow: String,
    /// The argument.
    pub input: Payload,
    /// When it fires and how; `None` when that cannot be read, see `error`.
    pub schedule: Option<Schedule>,
    /// It does not fire until it is resumed.
    pub paused: bool,
    /// Why it does not fire: its workflow is unknown where the work is done, or it cannot be read.
    pub error: Option<String>,
    /// The next times at which it fires, at most five; empty while it is paused.
    pub next: Vec<Timestamp>,
    /// The time of a firing that waits until the last instance closes.
    pub buffered: Option<Timestamp>,
    /// The id of the instance that it started last.
    pub last: Option<String>,
    /// True while that instance is open.
    pub last_open: bool,
    /// How many instances it has started, backfills not counted.
    pub started: u64,
    /// How many firings came while nobody worked, for longer than the catch-up window.
    pub missed: u64,
    /// How many firings came while the last instance was open.
    pub skipped: u64,
    /// When it was created.
    pub created_at: Timestamp,
}

impl ScheduleDescription {
    fn of(record: ScheduleRecord, now: Timestamp) -> Self {
        let ScheduleRecord { row, last_open, .. } = record;
        let checked = Schedule::from_stored(&row.rule).and_then(|schedule| schedule.check());
        let state = State::from_stored(&row.state);
        let unreadable = checked.as_ref().err().or(state.as_ref().err()).map(ToString::to_string);
        let state = state.unwrap_or(State::new(now));
        let next = checked.as_ref().ok().filter(|_| !row.paused).map(|checked| {
            let after = Some(state.decided.max(now));
            let times = std::iter::successors(after, |last| checked.next(*last));
            times.skip(1).take(NEXT).collect()
        });
        ScheduleDescription {
            id: row.id,
            workflow: row.workflow,
            input: row.input,
            schedule: checked.ok().map(|checked| checked.into_inner()),
            paused: row.paused,
            error: row.error.or(unreadable),
            next: next.unwrap_or_default(),
            buffered: state.buffered,
            last: row.last,
            last_open,
            started: state.started,
            missed: state.missed,
            skipped: state.skipped,
            created_at: row.created_at,
        }
    }
}
