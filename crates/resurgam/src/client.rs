//! Starting, signalling, cancelling and looking.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::command::DEFAULT_QUEUE;
use resurgam_core::retry::RetryPolicy;
use resurgam_core::{EventKind, Payload};
use resurgam_sdk::{Activity, Workflow};
use resurgam_store::Store;
use resurgam_store::rows::{InstanceRow, Owner};
use resurgam_store_sqlite::{Options as SqliteOptions, SqliteStore};
use resurgam_worker::{
    Clock, ClosedFilter, Error, Handle, IfExists, Result, StartOptions, SystemClock, submit,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use crate::{Instance, Parts};

/// Talks to an app, in this process or in another. Cloning gives another one.
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam::{ClosedFilter, Client, Status};
///
/// #[activity]
/// async fn order_paper(sheets: u32) -> Result<u32, Failure> {
///     Ok(sheets)
/// }
///
/// #[workflow]
/// async fn approval(ctx: WorkflowContext, sheets: u32) -> Result<u32, Failure> {
///     let wanted: u32 = ctx.signal("approve").await?;
///     ctx.call(order_paper(wanted.min(sheets))).await
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), resurgam::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("office.db");
/// let app = App::builder().workflow(approval).activity(order_paper).sqlite(&file).await?;
/// app.until_owner().await?;
/// assert!(app.is_owner() && app.owner().await?.is_some());
/// assert_eq!(app.nodes().await?.len(), 1);
///
/// // In another process: a client that works on nothing, and asks the one that works.
/// let client = Client::sqlite(&file).await?;
/// let paper = client.start("paper", approval(500)).await?;
/// client.signal("paper", "approve", &400).await?;
/// assert_eq!(paper.result().await?, 400);
///
/// // By name, for code that does not have the workflow's types.
/// let argument = serde_json::json!({"sheets": 10});
/// let cards = client.start_named::<u32>("cards", "approval", &argument).await?;
/// client.signal_once("cards", "approve", &10, "mail-17").await?;
/// client.signal_once("cards", "approve", &10, "mail-17").await?; // a repeat: dropped
/// assert_eq!(cards.result().await?, 10);
///
/// // One activity, without a workflow.
/// assert_eq!(client.submit("pens", order_paper(3)).await?.result().await?, 3);
/// let argument = serde_json::json!({"sheets": 4});
/// let ink = client.submit_named::<u32>("ink", "order_paper", &argument).await?;
/// assert_eq!(ink.result().await?, 4);
///
/// // Asked to end, or ended where it stands.
/// let envelopes = client.start("envelopes", approval(1)).await?;
/// client.cancel("envelopes", "we have enough").await?;
/// assert!(envelopes.result().await.is_err());
/// let stamps = client.start("stamps", approval(1)).await?;
/// client.terminate("stamps", "a mistake").await?;
/// assert!(stamps.result().await.is_err());
///
/// // Found again later, and deleted.
/// let again = client.instance::<u32>("paper").await?.expect("it was started");
/// assert_eq!(again.result().await?, 400);
/// client.delete("paper").await?;
/// let completed = ClosedFilter { status: vec![Status::Completed], ..ClosedFilter::default() };
/// assert_eq!(client.delete_closed(completed).await?, 3);
/// client.close().await;
/// # app.stop().await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    handle: Handle,
    /// What writes and reads for a client without an app, for as long as one is left.
    _own: Option<Arc<Messenger>>,
}

/// An engine that works on nothing.
#[derive(Debug)]
struct Messenger(JoinHandle<()>);

impl Drop for Messenger {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Client {
    /// A client of an engine.
    pub fn new(handle: Handle) -> Self {
        Client { handle, _own: None }
    }

    /// A client of whichever process works on this SQLite file, now or later. It starts, signals,
    /// cancels, waits and looks, and runs nothing itself.
    ///
    /// The file is taken as it is: an app makes it, and brings it up to date. Where there is no
    /// file, or nothing in it, this is an error that says so. For looking, the right to read is
    /// enough.
    pub async fn sqlite(file: impl AsRef<Path>) -> Result<Self> {
        let options = SqliteOptions::default();
        let store = crate::app::open(file.as_ref(), options, SqliteStore::open_existing).await?;
        Client::on(Arc::new(store), Arc::new(SystemClock::new()))
    }

    /// A client on a store, without an app.
    pub(crate) fn on(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Result<Self> {
        let mut parts = Parts::default();
        parts.options.work = false;
        let (engine, mut client) = parts.engine(store, clock)?;
        client._own = Some(Arc::new(Messenger(tokio::spawn(engine.run()))));
        Ok(client)
    }

    /// Ends a client without an app, and all its clones, and waits until its connections are
    /// closed: files that SQLite keeps beside a database only while it is open are gone then.
    /// Dropping the client ends them a little later. One of an app ends with the app.
    pub async fn close(self) {
        if self._own.is_some() {
            // What was asked is answered, so that there is nothing that could go wrong.
            let _closed = self.handle.store().close().await;
        }
    }

    /// True while this process works on the store; otherwise another one does, or none.
    pub fn is_owner(&self) -> bool {
        self.handle.is_owner()
    }

    /// Waits until this process works on the store.
    pub async fn until_owner(&self) -> Result<()> {
        self.handle.until_owner().await
    }

    /// The process that works on the store, `None` while there is none.
    pub async fn owner(&self) -> Result<Option<Owner>> {
        self.handle.owner().await
    }

    /// All processes that work on the store: one, or on PostgreSQL several.
    pub async fn nodes(&self) -> Result<Vec<Owner>> {
        self.handle.nodes().await
    }

    /// What it talks through.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Says that activities have come that were not there before, see
    /// [`AppBuilder::activities_in`](crate::AppBuilder::activities_in): calls that wait for them
    /// are looked for.
    pub fn activities_changed(&self) {
        self.handle.activities_changed();
    }

    /// Starts an instance of a workflow. It is durable when awaiting this returns.
    pub fn start<W: Workflow>(&self, id: impl Into<String>, workflow: W) -> Start<W::Output> {
        self.start_named(id, W::NAME, &workflow)
    }

    /// Starts an instance of a workflow by its name, with the argument as an object.
    pub fn start_named<T: DeserializeOwned>(
        &self,
        id: impl Into<String>,
        workflow: &str,
        argument: &impl Serialize,
    ) -> Start<T> {
        let input = Payload::encode(argument).map_err(|error| error.to_string());
        self.start_payload(id.into(), workflow, input)
    }

    fn start_payload<T>(
        &self,
        id: String,
        workflow: &str,
        input: std::result::Result<Payload, String>,
    ) -> Start<T> {
        Start {
            client: self.clone(),
            workflow: workflow.to_string(),
            input,
            options: StartOptions { id, ..StartOptions::default() },
            bare: None,
            output: PhantomData,
        }
    }

    /// Runs one activity durably, with its own policy and no workflow to write.
    pub fn submit<A: Activity>(&self, id: impl Into<String>, activity: A) -> Start<A::Output> {
        let (call, nothing) = (submit::call(&activity), Ok(Payload::null()));
        let bare = Some(call.map_err(|error| format!("the value has no JSON form: {error}")));
        Start { bare, ..self.start_payload(id.into(), submit::NAME, nothing) }
    }

    /// Runs one activity durably by its name, with the arguments as an object.
    ///
    /// ```
    /// use resurgam::Client;
    /// use resurgam::prelude::*;
    ///
    /// #[activity]
    /// async fn double(n: u64) -> Result<u64, Failure> {
    ///     Ok(2 * n)
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// let app = App::builder().activity(double).sqlite(folder.path().join("app.db")).await?;
    /// let argument = serde_json::json!({"n": 21});
    /// let run = app.submit_named::<u64>("one", "double", &argument).request_id("form-1");
    /// assert_eq!(run.await?.result().await?, 42);
    ///
    /// // What a request began is found again, with what it asked for.
    /// let found = app.started_by("form-1").await?.expect("it was started so");
    /// let (activity, arguments) = Client::submitted(&found).expect("it is no workflow");
    /// assert_eq!((activity.as_str(), arguments.as_str()), ("double", r#"{"n":21}"#));
    /// # app.stop().await
    /// # }
    /// ```
    pub fn submit_named<T: DeserializeOwned>(
        &self,
        id: impl Into<String>,
        activity: &str,
        argument: &impl Serialize,
    ) -> Start<T> {
        let argument = Payload::encode(argument).map_err(|error| error.to_string());
        let call = argument.and_then(|it| submit::call_of(activity.to_string(), &it, None));
        let bare = Some(call.map_err(|error| format!("the value has no JSON form: {error}")));
        Start { bare, ..self.start_payload(id.into(), submit::NAME, Ok(Payload::null())) }
    }

    /// The workflow of instances that run one activity and nothing else.
    pub const BARE_ACTIVITY: &str = submit::NAME;

    /// The activity that an instance runs by itself, and its arguments; `None` for a workflow.
    pub fn submitted(row: &InstanceRow) -> Option<(String, Payload)> {
        let call = Some(row).filter(|row| row.workflow == submit::NAME);
        call.and_then(|row| submit::read(&row.input))
    }

    /// The instance that was started with this request id.
    pub async fn started_by(&self, request_id: &str) -> Result<Option<InstanceRow>> {
        let _busy = self.handle.busy();
        let found = self.handle.store().find_request(request_id).await;
        let what = || format!("look what request {request_id} started");
        found.map_err(|error| Error::store(what(), error))
    }

    /// Sends a signal to an open instance. It is durable when this returns.
    pub async fn signal(&self, id: &str, name: &str, value: &impl Serialize) -> Result<()> {
        let what = || format!("signal {name} to {id}");
        let value = Payload::encode(value).map_err(|error| bad_value(what(), error))?;
        self.handle.signal(id, name, value, None).await
    }

    /// Sends a signal that is taken once, however often it is sent with this request id.
    pub async fn signal_once(
        &self,
        id: &str,
        name: &str,
        value: &impl Serialize,
        request_id: impl Into<String>,
    ) -> Result<()> {
        let what = || format!("signal {name} to {id}");
        let value = Payload::encode(value).map_err(|error| bad_value(what(), error))?;
        self.handle.signal(id, name, value, Some(request_id.into())).await
    }

    /// Asks an open instance to end.
    pub async fn cancel(&self, id: &str, reason: &str) -> Result<()> {
        self.handle.cancel(id, reason).await
    }

    /// Ends an open instance at once: its code does not hear of it, and nothing is undone.
    pub async fn terminate(&self, id: &str, reason: &str) -> Result<()> {
        self.handle.terminate(id, reason).await
    }

    /// Deletes closed instances with everything of theirs, piece by piece so that others can write
    /// meanwhile, and says how many.
    pub async fn delete_closed(&self, filter: ClosedFilter) -> Result<u64> {
        self.handle.delete_closed(filter).await
    }

    /// Deletes one closed instance with everything of it; an open one is refused. Its id is free
    /// then, and whoever still waits for it hears that it is gone.
    pub async fn delete(&self, id: &str) -> Result<()> {
        self.handle.delete(id).await
    }

    /// The instance of this id, whose result is a `T`.
    pub async fn instance<T: DeserializeOwned>(&self, id: &str) -> Result<Option<Instance<T>>> {
        let row = self.find(id).await?;
        Ok(row.map(|row| Instance::new(self.clone(), row.id, row.uid)))
    }
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn bad_value(what: String, error: impl fmt::Display) -> Error {
    let failure = resurgam_core::Failure::terminal(format!("the value has no JSON form: {error}"));
    Error::failed(&what, failure)
}

/// An instance that is about to be started; awaiting it does so.
///
/// ```
/// use resurgam::IfExists;
/// use resurgam::prelude::*;
/// use std::time::Duration;
///
/// #[workflow]
/// async fn report(_ctx: WorkflowContext, day: String) -> Result<String, Failure> {
///     Ok(format!("the report of {day}"))
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), resurgam::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("app.db");
/// let app = App::builder().workflow(report).sqlite(&file).await?;
/// let hour = Duration::from_secs(3_600);
/// let monday = app
///     .start("report", report("Monday".into()))
///     .request_id("form-17") // a repeat of this start is this start
///     .retry(RetryPolicy::fixed(hour).max_attempts(3)) // when a run of it fails
///     .run_timeout(hour)
///     .total_timeout(6 * hour)
///     .delay(Duration::from_millis(1))
///     .queue("reports")
///     .priority(5)
///     .tag("day", "Monday")
///     .await?; // durable from here on
/// assert_eq!(monday.result().await?, "the report of Monday");
/// let row = app.instance_of(monday.uid()).row().await?;
/// let other = app.start("report", report("Monday".into())).queue("reports").priority(9);
/// assert!(!other.is_repeat_of(&row).await?);
///
/// // The id is taken, unless the instance that has it is closed and may be replaced.
/// assert!(app.start("report", report("Tuesday".into())).await.unwrap_err().is_already_exists());
/// let tuesday = app.start("report", report("Tuesday".into())).replace_closed().await?;
/// assert_eq!(tuesday.result().await?, "the report of Tuesday");
/// let wednesday = app.start("report", report("Wednesday".into()));
/// wednesday.if_exists(IfExists::UseRunningOrReplace).await?.result().await?;
/// # app.stop().await
/// # }
/// ```
#[must_use = "an instance is started when this is awaited"]
#[derive(Debug)]
pub struct Start<T> {
    client: Client,
    workflow: String,
    input: std::result::Result<Payload, String>,
    options: StartOptions,
    /// The activity call, where there is no workflow.
    bare: Option<std::result::Result<submit::BareCall, String>>,
    output: PhantomData<fn() -> T>,
}

impl<T> Start<T> {
    /// Makes a repeated start with the same request id return what the first one did.
    pub fn request_id(mut self, request_id: impl Into<String>) -> Self {
        self.options.request_id = Some(request_id.into());
        self
    }

    /// What follows when there is an instance of this id already: an error, unless set.
    pub fn if_exists(mut self, if_exists: IfExists) -> Self {
        self.options.if_exists = if_exists;
        self
    }

    /// Starts anew when the instance of this id is closed.
    pub fn replace_closed(self) -> Self {
        self.if_exists(IfExists::ReplaceClosed)
    }

    /// The policy by which a run that fails is followed by another one, from the beginning;
    /// timeouts in it are refused, those of a workflow are set below. For an activity without a
    /// workflow ([`Client::submit`]) it is the policy of the activity.
    pub fn retry(mut self, policy: impl Into<RetryPolicy>) -> Self {
        let policy = policy.into();
        let Some(bare) = self.bare.take() else {
            self.options.settings.retry = Some(policy.to_stored());
            return self;
        };
        self.bare = Some(bare.and_then(|call| call.retried_by(&policy)));
        self
    }

    /// Bounds one run.
    pub fn run_timeout(mut self, time: Duration) -> Self {
        self.options.settings.run_timeout_ms = Some(millis(time));
        self
    }

    /// Bounds all runs together.
    pub fn total_timeout(mut self, time: Duration) -> Self {
        self.options.settings.total_timeout_ms = Some(millis(time));
        self
    }

    /// Has the first turn wait. The instance exists at once, and can be signalled and cancelled.
    pub fn delay(mut self, time: Duration) -> Self {
        self.options.settings.delay_ms = Some(millis(time));
        self
    }

    /// Where its activities run that name no queue.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.options.queue = Some(queue.into());
        self
    }

    /// Its attempts go before those of instances with a lower priority, when slots are short;
    /// 0 unless set.
    pub fn priority(mut self, priority: i32) -> Self {
        self.options.priority = priority;
        self
    }

    /// Something to look it up by.
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.tags.insert(name.into(), value.into());
        self
    }
}

impl<T> Start<T> {
    /// Whether an instance was started by a request like this one: the same workflow, argument and
    /// options. Its id is not compared, nor what was to follow if that had been taken, which is not
    /// recorded.
    pub async fn is_repeat_of(&self, row: &InstanceRow) -> Result<bool> {
        let StartOptions { queue, priority, tags, settings, .. } = &self.options;
        let queue = queue.as_deref().unwrap_or(DEFAULT_QUEUE);
        let mine = (self.workflow.as_str(), queue, *priority, tags, settings);
        if mine != (row.workflow.as_str(), &*row.queue, row.priority, &row.tags, &row.settings) {
            return Ok(false);
        }
        let input = match &self.bare {
            None => self.input.clone(),
            Some(bare) => bare.as_ref().map_err(String::clone).and_then(|call| call.encoded()),
        };
        if row.run == 1 {
            return Ok(input.is_ok_and(|input| input == row.input));
        }
        // A later run may have another argument; what the instance was started with is the first's.
        let first = self.client.instance_of(row.uid).event_page(Some(1), None, 1).await?;
        Ok(first.first().is_none_or(|event| match &event.kind {
            EventKind::RunStarted(started) => input.is_ok_and(|input| input == started.input),
            _ => true,
        }))
    }
}

impl<T: DeserializeOwned + Send + 'static> IntoFuture for Start<T> {
    type Output = Result<Instance<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Instance<T>>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Start { client, workflow, input, options, bare, output: _ } = self;
        Box::pin(async move {
            let started = start(&client, &workflow, input, bare, options).await?;
            Ok(Instance::new(client, started.id, started.uid))
        })
    }
}

/// Starts an instance. Not generic, so that it is compiled once.
async fn start(
    client: &Client,
    workflow: &str,
    input: std::result::Result<Payload, String>,
    bare: Option<std::result::Result<submit::BareCall, String>>,
    options: StartOptions,
) -> Result<resurgam_worker::Started> {
    let what = format!("start {}", options.id);
    let input = match bare {
        None => input.map_err(|error| bad_value(what, error))?,
        Some(bare) => bare
            .and_then(|call| call.encoded())
            .map_err(|error| Error::failed(&what, resurgam_core::Failure::terminal(error)))?,
    };
    client.handle().start(workflow, input, options).await
}
