//! Building a [`TestApp`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use resurgam::gate::Gate;
use resurgam::retry::RetryPolicy;
use resurgam::sqlite::rusqlite;
use resurgam::{Activity, Constructor, Failure, Parts, SqliteOptions, TurnThread, Workflow};
use resurgam_core::Payload;
use resurgam_sdk::{ActivityContext, ActivityDefinition, ActivitySource, WorkflowDefinition};
use resurgam_store::Store;
use resurgam_worker::Options;
use serde_json::Value;

use crate::{TestApp, database, other_thread};

/// How often each activity was attempted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(Arc<Mutex<HashMap<String, u32>>>);

impl Counts {
    fn add(&self, activity: &str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(activity.to_string()).or_default() += 1;
    }

    pub(crate) fn of(&self, activity: &str) -> u32 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(activity).copied().unwrap_or(0)
    }

    /// Begins where another count ended.
    pub(crate) fn continue_from(&self, before: &Counts) {
        let before = before.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = before;
    }
}

/// A test app in the making.
///
/// ```
/// use resurgam::gate::Gate;
/// use resurgam::prelude::*;
/// use resurgam::{ActivityDefinition, SqliteOptions, WorkflowDefinition};
/// use resurgam_testing::TestApp;
/// use std::time::Duration;
///
/// struct Factor(u64);
///
/// #[activity]
/// async fn times(ctx: ActivityContext, number: u64) -> Result<u64, Failure> {
///     Ok(number * ctx.state::<Factor>().0)
/// }
///
/// #[activity]
/// async fn fetch(page: u64) -> Result<u64, Failure> {
///     Err(Failure::terminal(format!("a test does not fetch page {page}")))
/// }
///
/// #[workflow]
/// async fn add_up(ctx: WorkflowContext, page: u64) -> Result<u64, Failure> {
///     let fetched = ctx.call(fetch(page)).await?;
///     ctx.call(times(fetched)).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let app = TestApp::builder()
///     .workflow(add_up)
///     .activity(times)
///     .stub(fetch, |call, attempt| match attempt {
///         1 => Err(Failure::new("try again")),
///         _ => Ok(call.page + 1), // in place of the activity's own code
///     })
///     .state(Factor(10))
///     .retry(RetryPolicy::fixed(Duration::from_secs(86_400)))
///     .gate("fetch", Gate::new().concurrency(1))
///     .options(|options| options.slots = 1)
///     .sqlite_options(SqliteOptions::default().foreign_keys(true))
///     .sqlite_setup(|tx| Ok(tx.execute_batch("CREATE TABLE note (text TEXT)")?))
///     .start()
///     .await;
/// let run = app.start("add-1", add_up(4)).await;
/// assert_eq!(run.result().await.unwrap(), 50);
///
/// // By their types, as definitions, and by name only.
/// let app = TestApp::builder()
///     .workflow_type::<add_up>()
///     .activity_definition(ActivityDefinition::of::<times>())
///     .action("fetch", |arguments, _attempt| Ok(arguments["page"].clone()))
///     .run_attempts_twice() // what an activity does must bear it
///     .state(Factor(2))
///     .start()
///     .await;
/// let run = app.start("add-1", add_up(4)).await;
/// assert_eq!((run.result().await.unwrap(), app.attempts(times)), (8, 2));
///
/// // A workflow under another name, and one for all names: interpreters are such.
/// let other = || WorkflowDefinition::of::<add_up>();
/// let app = TestApp::builder().workflow_definition(other()).any_workflow(other()).start().await;
/// # drop(app);
/// # }
/// ```
#[derive(Debug, Default)]
pub struct TestBuilder {
    parts: Parts,
    database: database::Settings,
    counts: Counts,
    /// Shared with the activities, so that it holds for those that were added before it was said.
    twice: Arc<AtomicBool>,
    turns: Option<Arc<dyn TurnThread>>,
}

impl TestBuilder {
    /// Adds a workflow by the name of its function.
    pub fn workflow<Args, F>(mut self, constructor: F) -> Self
    where
        F: Constructor<Args>,
        F::Built: Workflow,
    {
        self.parts.workflow(constructor);
        self
    }

    /// Adds a workflow by its type, for one that was written by hand.
    pub fn workflow_type<W: Workflow>(mut self) -> Self {
        let added = self.parts.registry.add_workflow::<W>();
        self.parts.note(added);
        self
    }

    /// Adds a workflow that is known at run time only: a program as text, a graph.
    pub fn workflow_definition(mut self, definition: WorkflowDefinition) -> Self {
        let added = self.parts.registry.add_workflow_definition(definition);
        self.parts.note(added);
        self
    }

    /// Has instances of all workflows that are not registered run by this one.
    pub fn any_workflow(mut self, definition: WorkflowDefinition) -> Self {
        self.parts.registry.run_any_workflow_by(definition);
        self
    }

    /// Has activities that are not registered looked for in a place where they come and go. Their
    /// attempts are not counted.
    pub fn activities_in(mut self, source: Arc<dyn ActivitySource>) -> Self {
        self.parts.registry.find_activities_in(source);
        self
    }

    /// Adds an activity by the name of its function.
    pub fn activity<Args, F>(self, _constructor: F) -> Self
    where
        F: Constructor<Args>,
        F::Built: Activity,
    {
        self.define(ActivityDefinition::of::<F::Built>(), <F::Built as Activity>::ALIASES)
    }

    /// Adds an activity that is known at run time only.
    pub fn activity_definition(self, definition: ActivityDefinition) -> Self {
        self.define(definition, &[])
    }

    /// Adds an activity that is known by its name only, as the workflows of files call them: it
    /// gets its arguments as JSON and the number of the attempt.
    pub fn action<S>(self, name: &str, action: S) -> Self
    where
        S: Fn(Value, u32) -> std::result::Result<Value, Failure> + Send + Sync + 'static,
    {
        let action = Arc::new(action);
        let run = move |ctx: ActivityContext, input: Payload| -> Attempt {
            let action = action.clone();
            Box::pin(async move {
                let output = action(input.decode().map_err(Failure::from)?, ctx.attempt())?;
                Ok(Payload::encode(&output)?)
            })
        };
        self.define(ActivityDefinition::new(name, run), &[])
    }

    /// Adds an activity whose attempts are answered by `stub`: it gets the call and the number of
    /// the attempt. The activity's own policy and timeouts hold.
    pub fn stub<Args, F, S>(self, _constructor: F, stub: S) -> Self
    where
        F: Constructor<Args>,
        F::Built: Activity,
        S: Fn(F::Built, u32) -> std::result::Result<<F::Built as Activity>::Output, Failure>
            + Send
            + Sync
            + 'static,
    {
        let stub = Arc::new(stub);
        let run = move |ctx: ActivityContext, input: Payload| -> Attempt {
            let stub = stub.clone();
            Box::pin(async move {
                let call = input.decode().map_err(Failure::from)?;
                let output = stub(call, ctx.attempt())?;
                Ok(Payload::encode(&output)?)
            })
        };
        let mut definition = ActivityDefinition::new(<F::Built as Activity>::NAME, run);
        let gate = <F::Built as Activity>::GATE.map(str::to_string);
        definition.options = <F::Built as Activity>::options();
        definition.options.gate = definition.options.gate.or(gate);
        let definition = definition.checking_output(|value| {
            let read = value.decode::<<F::Built as Activity>::Output>();
            read.map(drop).map_err(|error| error.to_string())
        });
        self.define(definition, <F::Built as Activity>::ALIASES)
    }

    /// Runs the code of every attempt twice, as a crash at the wrong moment would: of all
    /// activities that are added here, before or after this.
    pub fn run_attempts_twice(self) -> Self {
        self.twice.store(true, Ordering::Relaxed);
        self
    }

    /// Shares a value with all activities.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.parts.states.insert(value);
        self
    }

    /// The policy of activities that name none.
    pub fn retry(mut self, policy: impl Into<RetryPolicy>) -> Self {
        self.parts.options.retry = policy.into();
        self
    }

    /// The settings of a gate, see `AppBuilder::gate`.
    pub fn gate(mut self, key: &str, settings: Gate) -> Self {
        self.parts.gate(key, &settings);
        self
    }

    /// Everything that can be set about the engine.
    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.parts.options);
        self
    }

    /// Has the turns of all workflows taken there that have no place of their own. Without this,
    /// `RESURGAM_TEST_TURNS=elsewhere` has them taken on a thread that does nothing else.
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
        self.turns = Some(thread);
        self
    }

    /// Makes the user's own tables, see `AppBuilder::sqlite_setup`.
    pub fn sqlite_setup(
        mut self,
        setup: impl Fn(&rusqlite::Transaction<'_>) -> Result<(), Failure> + Send + 'static,
    ) -> Self {
        self.database.setup.add(setup);
        self
    }

    /// How the database is used, as far as that is not about files.
    pub fn sqlite_options(mut self, options: SqliteOptions) -> Self {
        self.database.sqlite = options;
        self
    }

    /// How the database is used where that is PostgreSQL.
    #[cfg(feature = "postgres")]
    pub fn postgres_options(mut self, options: resurgam::PostgresOptions) -> Self {
        self.database.postgres = options;
        self
    }

    /// Begins the app on a database of its own: in memory, unless
    /// [`RESURGAM_TEST_STORE`](crate::TestStore) names another.
    ///
    /// # Panics
    /// When the app makes no sense: that is what the test is to show.
    pub async fn start(mut self) -> TestApp {
        let (store, kept) = std::mem::take(&mut self.database).fresh().await;
        let (parts, counts) = self.into_parts();
        TestApp::begin(parts, counts, store, kept)
    }

    /// Begins the app on a store, such as a file that somebody else writes to. What others do there
    /// takes wall time to be heard of, so it is best done before the app begins.
    ///
    /// # Panics
    /// When the app makes no sense: that is what the test is to show.
    pub fn start_on(self, store: Arc<dyn Store>) -> TestApp {
        let (parts, counts) = self.into_parts();
        TestApp::begin(parts, counts, store, Box::new(()))
    }

    pub(crate) fn into_parts(self) -> (Parts, Counts) {
        let TestBuilder { mut parts, counts, turns, .. } = self;
        if let Some(thread) = turns.or_else(other_thread::chosen) {
            parts.registry.take_turns_on(thread);
        }
        (parts, counts)
    }

    /// Adds an activity whose attempts are counted.
    fn define(mut self, definition: ActivityDefinition, aliases: &[&str]) -> Self {
        let (inner, counts) = (Arc::new(definition), self.counts.clone());
        let twice = self.twice.clone();
        let (name, options, blocking) = (inner.name.clone(), inner.options.clone(), inner.blocking);
        let (asked, typed) = (inner.clone(), inner.clone());
        let run = move |ctx: ActivityContext, input: Payload| -> Attempt {
            let (inner, counts) = (inner.clone(), counts.clone());
            let twice = twice.load(Ordering::Relaxed);
            Box::pin(async move {
                counts.add(&inner.name);
                if twice {
                    counts.add(&inner.name);
                    let _answer_that_nobody_hears = inner.run(ctx.clone(), input.clone()).await;
                }
                inner.run(ctx, input).await
            })
        };
        let mut counted = ActivityDefinition::new(name, run)
            .lacking(move |input| asked.lacks(input))
            .checking_output(move |value| typed.check_output(value));
        counted.options = options;
        counted.blocking = blocking;
        let added = self.parts.registry.add_activity_definition(counted, aliases);
        self.parts.note(added);
        self
    }
}

type Attempt = std::pin::Pin<
    Box<dyn std::future::Future<Output = std::result::Result<Payload, Failure>> + Send>,
>;
