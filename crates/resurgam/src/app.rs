//! An app: workflows and activities on a store, with an engine that runs them.

use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::gate::{Gate, KeyPattern};
use resurgam_core::retry::RetryPolicy;
use resurgam_sdk::{
    Activity, ActivityDefinition, ActivitySource, Constructor, Registry, States, TurnThread,
    Workflow, WorkflowDefinition,
};
use resurgam_store::Store;
use resurgam_store::rows::Status;
use resurgam_store_sqlite::{Options as SqliteOptions, SqliteStore};
use resurgam_worker::{Clock, Engine, Error, Options, Result, Retention, StoreClock, submit};
use tokio::task::JoinHandle;

use crate::{Client, Failure, sqlite};

/// Workflows and activities at work on a store. Dereferences to the [`Client`] that starts,
/// signals and looks.
///
/// One app at a time works on a SQLite file. Another one on the same file, in this process or in
/// another, stands by and takes over the moment the first one is gone; until then it is a client,
/// and everything can be asked of it all the same. See [`Client::is_owner`].
///
/// Dropping an app stops it where it stands, as a crash would: nothing is lost, and attempts that
/// ran are tried again. (A plain function cannot be stopped: it runs to its end, beside the next
/// attempt.) [`App::stop`] ends them in an orderly way.
///
/// ```
/// use resurgam::prelude::*;
///
/// #[activity]
/// async fn greet(name: String) -> Result<String, Failure> {
///     Ok(format!("hello, {name}"))
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), resurgam::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("app.db");
/// let app = App::builder().activity(greet).sqlite(&file).await?;
/// let greeting = app.submit("greet-1", greet("Ada".into())).await?; // a method of Client
/// assert_eq!(greeting.result().await?, "hello, Ada");
/// app.stop().await?;
/// # Ok(())
/// # }
/// ```
pub struct App {
    client: Client,
    engine: JoinHandle<()>,
}

impl App {
    /// Begins an app.
    pub fn builder() -> AppBuilder {
        AppBuilder::default()
    }

    /// Stops: no new attempts, a grace period for those that run, then the rest is interrupted and
    /// recorded.
    pub async fn stop(mut self) -> Result<()> {
        self.client.handle().stop().await?;
        let joined = (&mut self.engine).await;
        // The file alone is the whole database then, unless others still use it. Nothing depends on
        // that, so trouble with it is none of the stop.
        let _unless_others_use_it = self.client.handle().store().flush().await;
        joined
            .map_err(|error| Error::failed("stop", resurgam_core::Failure::new(error.to_string())))
    }
}

impl App {
    /// Waits until the app has ended by itself, which is an error: its database was removed under
    /// it. A program that waits for something else meanwhile selects between the two.
    ///
    /// ```
    /// use resurgam::prelude::*;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let file = folder.path().join("app.db");
    /// # let told_to_stop = async {};
    /// let app = App::builder().sqlite(&file).await?;
    /// tokio::select! {
    ///     ended = app.ended() => ended,
    ///     () = told_to_stop => app.stop().await,
    /// }
    /// # }
    /// ```
    pub fn ended(&self) -> impl Future<Output = Result<()>> + Send + use<> {
        let handle = self.client.handle().clone();
        async move { handle.ended().await }
    }
}

impl Deref for App {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.engine.abort();
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("App")
    }
}

/// Opens a file where waiting for the disk, or for others, disturbs nobody.
pub(crate) async fn open(
    file: &Path,
    options: SqliteOptions,
    open: fn(PathBuf, SqliteOptions) -> resurgam_store::Result<SqliteStore>,
) -> Result<SqliteStore> {
    let file = file.to_path_buf();
    let opened = tokio::task::spawn_blocking(move || open(file, options)).await;
    let died = |error: tokio::task::JoinError| {
        Error::failed("open the file", resurgam_core::Failure::new(error.to_string()))
    };
    Ok(opened.map_err(died)??)
}

/// An app in the making.
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam::{SqliteOptions, Status};
/// use std::time::Duration;
///
/// struct Rate(f64);
///
/// #[activity]
/// async fn price(ctx: ActivityContext, euros: f64) -> Result<f64, Failure> {
///     Ok(euros * ctx.state::<Rate>().0)
/// }
///
/// #[workflow]
/// async fn quote(ctx: WorkflowContext, euros: f64) -> Result<f64, Failure> {
///     ctx.call(price(euros)).await
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), resurgam::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("app.db");
/// let month = Duration::from_secs(30 * 86_400);
/// let app = App::builder()
///     .workflow(quote)
///     .activity(price)
///     .state(Rate(2.0)) // what activities share
///     .retry(RetryPolicy::exponential(Duration::from_millis(100))) // where none is named
///     .slots(50)
///     .grace(Duration::from_secs(2)) // for attempts that run when the app stops
///     .retention(month)
///     .retention_of(Status::Failed, 12 * month)
///     .dead_letter_retention(3 * month)
///     .options(|options| options.max_history = 10_000)
///     .sqlite_options(SqliteOptions::default().foreign_keys(true))
///     .sqlite_setup(|tx| Ok(tx.execute_batch("CREATE TABLE IF NOT EXISTS note (text TEXT)")?))
///     .sqlite(&file)
///     .await?;
/// assert_eq!(app.start("quote-1", quote(21.0)).await?.result().await?, 42.0);
/// # app.stop().await
/// # }
/// ```
///
/// What is not known when the program is compiled comes by [`AppBuilder::activities_in`] and
/// [`AppBuilder::any_workflow`]:
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam::{ActivityDefinition, ActivitySource, WorkflowDefinition};
/// use std::sync::Arc;
///
/// #[activity]
/// async fn plus_one(number: u64) -> Result<u64, Failure> {
///     Ok(number + 1)
/// }
///
/// #[workflow]
/// async fn count(ctx: WorkflowContext, number: u64) -> Result<u64, Failure> {
///     ctx.call(plus_one(number)).await
/// }
///
/// /// Finds one activity, under its own name only.
/// #[derive(Debug)]
/// struct OnlyOne;
///
/// impl ActivitySource for OnlyOne {
///     fn find(&self, name: &str) -> Option<Arc<ActivityDefinition>> {
///         (name == "plus_one").then(|| Arc::new(ActivityDefinition::of::<plus_one>()))
///     }
///
///     fn names(&self) -> Vec<String> {
///         vec!["plus_one".to_string()]
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), resurgam::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("app.db");
/// let app = App::builder()
///     .activities_in(Arc::new(OnlyOne))
///     .any_workflow(WorkflowDefinition::of::<count>())
///     .sqlite(&file)
///     .await?;
/// let argument = serde_json::json!({"number": 1});
/// let run = app.start_named::<u64>("a", "a name that nobody registered", &argument).await?;
/// assert_eq!(run.result().await?, 2);
/// # app.stop().await?;
///
/// // Types that were written by hand, or by the macros, can be named.
/// let builder = App::builder().workflow_type::<count>().activity_type::<plus_one>();
/// # drop(builder);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct AppBuilder {
    parts: Parts,
    sqlite: SqliteOptions,
    #[cfg(feature = "postgres")]
    pub(crate) postgres: crate::PostgresOptions,
    setup: sqlite::Setup,
}

/// What an app is made of, apart from its store: shared with the test kit.
#[derive(Debug, Default)]
pub struct Parts {
    /// Workflows and activities.
    pub registry: Registry,
    /// Shared values.
    pub states: States,
    /// What can be set about the engine.
    pub options: Options,
    /// The first mistake made while building.
    pub mistake: Option<String>,
}

impl Parts {
    /// Adds a workflow by the name of its function.
    pub fn workflow<Args, F>(&mut self, _constructor: F)
    where
        F: Constructor<Args>,
        F::Built: Workflow,
    {
        let added = self.registry.add_workflow::<F::Built>();
        self.note(added);
    }

    /// Adds an activity by the name of its function.
    pub fn activity<Args, F>(&mut self, _constructor: F)
    where
        F: Constructor<Args>,
        F::Built: Activity,
    {
        let added = self.registry.add_activity::<F::Built>();
        self.note(added);
    }

    /// Keeps the first mistake for when the app is begun.
    pub fn note<E: fmt::Display>(&mut self, added: std::result::Result<(), E>) {
        if let Err(mistake) = added {
            self.mistake.get_or_insert(mistake.to_string());
        }
    }

    /// Adds the settings of a gate.
    pub fn gate(&mut self, key: &str, settings: &Gate) {
        let pattern = KeyPattern::parse(key).map_err(|why| format!("gate {key:?}: its key {why}"));
        let settings = settings.check().map_err(|why| format!("gate {key}: {why}"));
        match (pattern, settings) {
            (Ok(pattern), Ok(settings)) => self.options.gates.push((pattern, settings)),
            (Err(mistake), _) | (_, Err(mistake)) => self.note(Err(mistake)),
        }
    }

    /// Puts an engine on a store, without running it.
    pub fn engine(
        mut self,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Engine, Client)> {
        let added = submit::register(&mut self.registry);
        self.note(added);
        let checked = self.options.retry.check();
        self.note(checked.map_err(|error| format!("the app's retry policy: {error}")).map(drop));
        if self.mistake.is_none() {
            let checked = self.registry.check_all_fallbacks(&self.options.retry);
            self.note(checked);
        }
        if let Some(mistake) = self.mistake {
            return Err(Error::mistake(format!("build the app failed: {mistake}")));
        }
        let (engine, handle) = Engine::new(store, self.registry, self.states, clock, self.options);
        Ok((engine, Client::new(handle)))
    }
}

impl AppBuilder {
    /// Adds a workflow by the name of its function.
    pub fn workflow<Args, F>(mut self, constructor: F) -> Self
    where
        F: Constructor<Args>,
        F::Built: Workflow,
    {
        self.parts.workflow(constructor);
        self
    }

    /// Adds an activity by the name of its function.
    pub fn activity<Args, F>(mut self, constructor: F) -> Self
    where
        F: Constructor<Args>,
        F::Built: Activity,
    {
        self.parts.activity(constructor);
        self
    }

    /// Adds a workflow by its type, for one that was written by hand.
    pub fn workflow_type<W: Workflow>(mut self) -> Self {
        let added = self.parts.registry.add_workflow::<W>();
        self.parts.note(added);
        self
    }

    /// Adds an activity by its type, for one that was written by hand.
    pub fn activity_type<A: Activity>(mut self) -> Self {
        let added = self.parts.registry.add_activity::<A>();
        self.parts.note(added);
        self
    }

    /// Adds an activity that is known at run time only.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam::{ActivityDefinition, Payload, WorkflowDefinition};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let file = folder.path().join("app.db");
    /// let echo = |_, input: Payload| Box::pin(async { Ok(input) }) as resurgam::BoxFuture<_>;
    /// let echo = ActivityDefinition::new("echo", echo);
    /// let wait = WorkflowDefinition::new("wait", |_machine, input| {
    ///     let input = input.clone();
    ///     Ok(Box::pin(async move { Ok(input) })) // an interpreter would begin here
    /// });
    /// let app = App::builder().activity_definition(echo).workflow_definition(wait).sqlite(&file);
    /// let app = app.await?;
    /// let argument = serde_json::json!({"text": "hello"});
    /// let said = app.submit_named::<serde_json::Value>("echo-1", "echo", &argument).await?;
    /// assert_eq!(said.result().await?, argument);
    /// let waited = app.start_named::<serde_json::Value>("wait-1", "wait", &argument).await?;
    /// assert_eq!(waited.result().await?, argument);
    /// # app.stop().await
    /// # }
    /// ```
    pub fn activity_definition(mut self, definition: ActivityDefinition) -> Self {
        let added = self.parts.registry.add_activity_definition(definition, &[]);
        self.parts.note(added);
        self
    }

    /// Adds a workflow that is known at run time only: a program as text, a graph, the code of an
    /// interpreter. [`AppBuilder::activity_definition`] has an example.
    pub fn workflow_definition(mut self, definition: WorkflowDefinition) -> Self {
        let added = self.parts.registry.add_workflow_definition(definition);
        self.parts.note(added);
        self
    }

    /// Has the turns of all workflows taken there that have no place of their own, see
    /// [`TurnThread`].
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam::{PendingTurn, TurnThread};
    /// use resurgam_testing::TestApp;
    /// use std::sync::Arc;
    ///
    /// #[workflow]
    /// async fn answer(_ctx: WorkflowContext) -> Result<u32, Failure> {
    ///     Ok(42)
    /// }
    ///
    /// /// A thread for each turn.
    /// #[derive(Debug)]
    /// struct Threads;
    ///
    /// impl TurnThread for Threads {
    ///     fn take(&self, turn: PendingTurn) {
    ///         std::thread::spawn(|| turn.take());
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let app = TestApp::builder().workflow(answer).turns_on(Arc::new(Threads)).start().await;
    /// assert_eq!(app.start("answer-1", answer()).await.result().await.unwrap(), 42);
    /// # }
    /// ```
    pub fn turns_on(mut self, thread: Arc<dyn TurnThread>) -> Self {
        self.parts.registry.take_turns_on(thread);
        self
    }

    /// Has activities that are not registered looked for in a place where they come and go, see
    /// [`ActivitySource`]. When something has come there, tell the engine with
    /// [`Client::activities_changed`].
    pub fn activities_in(mut self, source: Arc<dyn ActivitySource>) -> Self {
        self.parts.registry.find_activities_in(source);
        self
    }

    /// Has instances of all workflows that are not registered run by this one, which finds in its
    /// argument what to do: an interpreter.
    pub fn any_workflow(mut self, definition: WorkflowDefinition) -> Self {
        self.parts.registry.run_any_workflow_by(definition);
        self
    }

    /// Shares a value with all activities, see
    /// [`ActivityContext::state`](resurgam_sdk::ActivityContext::state).
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.parts.states.insert(value);
        self
    }

    /// The policy of activities that name none.
    pub fn retry(mut self, policy: impl Into<RetryPolicy>) -> Self {
        self.parts.options.retry = policy.into();
        self
    }

    /// How many attempts run at once.
    pub fn slots(mut self, slots: usize) -> Self {
        self.parts.options.slots = slots;
        self
    }

    /// The queues whose attempts run in this process; all, unless set. On PostgreSQL, attempts of
    /// the others run in processes that serve them.
    ///
    /// ```
    /// use resurgam::prelude::*;
    ///
    /// let app = App::builder().queues(["default", "reports"]);
    /// # let _ = app;
    /// ```
    pub fn queues(mut self, queues: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.parts.options.queues = Some(queues.into_iter().map(Into::into).collect());
        self
    }

    /// How many of them may be attempts of this queue, so that one queue leaves room for the
    /// others. With 0, its attempts do not run in this process.
    ///
    /// ```
    /// use resurgam::prelude::*;
    ///
    /// let app = App::builder().slots(100).queue_slots("reports", 4);
    /// # let _ = app;
    /// ```
    pub fn queue_slots(mut self, queue: impl Into<String>, slots: usize) -> Self {
        self.parts.options.queue_slots.insert(queue.into(), slots);
        self
    }

    /// The settings of a gate: what stands before a dependency that activities talk to. The key of
    /// a call's gate is the name of its activity, unless it names another one. A key that ends with
    /// a star is for all that begin so.
    ///
    /// ```
    /// use resurgam::gate::{Breaker, Gate, Rate};
    /// use resurgam::prelude::*;
    ///
    /// let app = App::builder().gate("stripe", Gate::new().breaker(Breaker::new()));
    /// let app = app.gate("host:*", Gate::new().rate(Rate::per_second(50.0)));
    /// # let _ = app;
    /// ```
    pub fn gate(mut self, key: &str, settings: Gate) -> Self {
        self.parts.gate(key, &settings);
        self
    }

    /// How long attempts may go on when the app stops.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.parts.options.grace = grace;
        self
    }

    /// How long closed instances stay before they are deleted, with everything of theirs; for ever,
    /// unless set. [`AppBuilder::retention_of`] says it for one way to close.
    pub fn retention(mut self, time: Duration) -> Self {
        let dead_letters = self.parts.options.retention.dead_letters;
        self.parts.options.retention = Retention { dead_letters, ..Retention::all(time) };
        self
    }

    /// How long instances stay that closed in this way.
    pub fn retention_of(mut self, status: Status, time: Duration) -> Self {
        let retention = &mut self.parts.options.retention;
        match status {
            Status::Completed => retention.completed = Some(time),
            Status::Failed => retention.failed = Some(time),
            Status::Cancelled => retention.cancelled = Some(time),
            Status::Terminated => retention.terminated = Some(time),
            Status::Running | Status::Blocked | Status::Paused => {
                let error = format!("retention: what is {} is not closed", status.name());
                self.parts.note(Err(error));
            }
        }
        self
    }

    /// How long dead letters stay, from when they were written and whatever became of them; thirty
    /// days, unless set. They stay when their instance is deleted.
    pub fn dead_letter_retention(mut self, time: Duration) -> Self {
        self.parts.options.retention.dead_letters = Some(time);
        self
    }

    /// Everything that can be set about the engine.
    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.parts.options);
        self
    }

    /// How the SQLite file is used.
    pub fn sqlite_options(mut self, options: SqliteOptions) -> Self {
        self.sqlite = options;
        self
    }

    /// Makes the user's own tables, before any workflow goes on. It runs at every start, in a
    /// transaction, so it must be able to find them there already. Several run in their order. See
    /// [`sqlite`](crate::sqlite).
    pub fn sqlite_setup(
        mut self,
        setup: impl Fn(&rusqlite::Transaction<'_>) -> Result<(), Failure> + Send + 'static,
    ) -> Self {
        self.setup.add(setup);
        self
    }

    /// Begins to work on a SQLite file, which is made when it is not there. When another process
    /// works on it, this one stands by.
    pub async fn sqlite(mut self, file: impl AsRef<Path>) -> Result<App> {
        let store = Arc::new(open(file.as_ref(), self.sqlite.clone(), SqliteStore::open).await?);
        std::mem::take(&mut self.setup).run(&store).await?;
        let app = self.on(store)?;
        app.client.handle().settled().await?;
        Ok(app)
    }

    /// Begins to work on a store, by its clock where it has one that its nodes agree on.
    pub fn on(mut self, store: Arc<dyn Store>) -> Result<App> {
        self.parts.note(self.setup.is_done());
        let clock = Arc::new(StoreClock::new(store.clone()));
        let (engine, client) = self.parts.engine(store, clock)?;
        Ok(App { client, engine: tokio::spawn(engine.run()) })
    }
}
