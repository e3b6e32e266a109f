//! An app under test.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use resurgam::{
    Act, Acted, Activity, AttemptRow, CallHandle, Client, ClosedFilter, Constructor, Description,
    Error, Failure, Instance, InstanceFilter, Outcome, Parts, Result, RunHandle, SetPolicy, Start,
    WaitsFor, Workflow,
};
use resurgam_core::Timestamp;
use resurgam_store::Store;
use resurgam_worker::Clock;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::{AbortHandle, JoinHandle};

use crate::builder::{Counts, TestBuilder};
use crate::clock::{Stall, VirtualClock, since_begin};
use crate::faults::{Faults, FaultyStore};
use crate::pulse::{OpenInstance, Pulse};

/// How long a test waits for the end of a run that is blocked.
const A_DAY: Duration = Duration::from_secs(86_400);

/// An app on an in-memory database, in virtual time. Cloning gives another handle to the same one.
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam::ClosedFilter;
/// use resurgam_testing::TestApp;
/// use std::time::Duration;
///
/// const HOURLY: RetryPolicy = RetryPolicy::fixed(Duration::from_secs(3_600));
///
/// #[activity(retry = HOURLY)]
/// async fn ring(ctx: ActivityContext) -> Result<u32, Failure> {
///     match ctx.attempt() {
///         1 | 2 => Err(Failure::new("nobody opens")),
///         attempt => Ok(attempt),
///     }
/// }
///
/// #[workflow]
/// async fn visit(ctx: WorkflowContext) -> Result<u32, Failure> {
///     ctx.set_status("waits");
///     let rings: u32 = ctx.signal("go").await?;
///     ctx.set_status("rings");
///     Ok(ctx.call(ring()).await? * rings)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), resurgam::Error> {
/// let app = TestApp::builder().workflow(visit).activity(ring).start().await;
/// let begun = app.now();
/// let run = app.start("visit-1", visit()).await;
/// app.wait_for_status("visit-1", |status: &String| status == "waits").await?;
/// app.signal("visit-1", "go", &2).await?;
///
/// // Time passes when the test says so, or while it waits for a result.
/// app.advance(Duration::from_secs(600)).await;
/// assert_eq!(app.describe("visit-1").await.pending[0].attempt, 1);
/// app.restart().await; // as after kill -9: the wait goes on
/// assert_eq!(run.result().await.unwrap(), 6);
/// assert!(app.now().since(begun) > Duration::from_secs(3_600));
///
/// // What happened.
/// assert_eq!((app.attempts(ring), app.attempts_of("ring")), (3, 3));
/// assert_eq!(app.ledger("visit-1").await.len(), 2);
/// assert!(app.history("visit-1").await.contains("again in"));
/// assert_eq!(app.run_history("visit-1", 1).await, run.history().await);
/// assert!(app.commits() > 3 && app.faults().commits() == app.commits());
///
/// // Other ways to start, and to end.
/// assert!(app.try_start("visit-1", visit()).await.unwrap_err().is_already_exists());
/// let tagged = app.start_with("visit-2", visit(), |start| start.tag("door", "red")).await;
/// app.cancel("visit-2", "moved away").await?;
/// assert_eq!(tagged.failure().await.message, "moved away");
/// let named = app.start_named::<u32>("visit-3", "visit", &serde_json::json!({})).await;
/// app.terminate("visit-3", "a mistake").await?;
/// assert!(named.result().await.is_err());
/// assert_eq!(app.submit("ring-1", ring()).await?.result().await?, 3);
/// let tagged = app.submit_with("ring-2", ring(), |start| start.tag("door", "red")).await?;
/// assert_eq!(tagged.result().await?, 3);
/// assert_eq!(app.delete_closed(ClosedFilter::default()).await?, 5);
///
/// // A deployment, an orderly stop, and nobody at work.
/// app.restart_with(TestApp::builder().activity(ring)).await;
/// app.stop_and_restart().await;
/// app.stop().await;
/// app.stop_working().await;
/// app.restart().await;
/// let found = app.wait_for("an answer", app.client().find("visit-1")).await?;
/// assert!(found.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TestApp(Arc<Inner>);

struct Inner {
    recipe: Mutex<Recipe>,
    clock: VirtualClock,
    faults: Faults,
    store: Arc<dyn Store>,
    current: Mutex<Option<Current>>,
    requests: AtomicU64,
    /// Notices that nothing moves any more.
    pulse: OnceLock<AbortHandle>,
    /// What the store needs.
    _kept: Box<dyn Any + Send + Sync>,
}

impl Drop for Inner {
    /// A plain function that sleeps would keep a test from ending, above all one that failed.
    fn drop(&mut self) {
        self.pulse.get().inspect(|pulse| pulse.abort());
        drop(self.current.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        self.clock.end();
    }
}

/// What is needed to begin an engine again.
struct Recipe {
    registry: resurgam_sdk::Registry,
    states: resurgam_sdk::States,
    options: resurgam_worker::Options,
    counts: Counts,
}

impl Recipe {
    fn new(parts: Parts, counts: Counts) -> Self {
        let Parts { registry, states, options, mistake } = parts;
        assert!(mistake.is_none(), "build the app: {}", mistake.unwrap_or_default());
        Recipe { registry, states, options, counts }
    }
}

/// The engine that is at work.
struct Current {
    client: Client,
    engine: JoinHandle<()>,
}

impl Drop for Current {
    fn drop(&mut self) {
        self.engine.abort();
    }
}

impl TestApp {
    /// Begins an app.
    pub fn builder() -> TestBuilder {
        TestBuilder::default()
    }

    pub(crate) fn begin(
        parts: Parts,
        counts: Counts,
        store: Arc<dyn Store>,
        kept: Box<dyn Any + Send + Sync>,
    ) -> Self {
        let recipe = Mutex::new(Recipe::new(parts, counts));
        let clock = VirtualClock::new();
        let faults = Faults::default();
        let store = Arc::new(FaultyStore::new(store, faults.clone()));
        let current = Mutex::new(None);
        let requests = AtomicU64::new(0);
        let pulse = OnceLock::new();
        let inner = Inner { recipe, clock, faults, store, current, requests, pulse, _kept: kept };
        let app = TestApp(Arc::new(inner));
        app.begin_engine();
        app.begin_pulse();
        app
    }

    fn begin_pulse(&self) {
        let pulse = Pulse::new(self.0.clock.clone(), self.0.faults.clone());
        let app = Arc::downgrade(&self.0);
        let instances = move || {
            let app = app.upgrade().map(TestApp);
            async move {
                match app {
                    Some(app) => app.open_instances().await,
                    None => Vec::new(),
                }
            }
        };
        let answers = tokio::spawn(pulse.answer(instances));
        self.0.pulse.get_or_init(|| answers.abort_handle());
    }

    /// The open instances and what each of them waits for, as far as the store answers.
    async fn open_instances(&self) -> Vec<OpenInstance> {
        let Some(client) = self.lock().as_ref().map(|current| current.client.clone()) else {
            return Vec::new();
        };
        let rows = client.list(InstanceFilter::default()).await.unwrap_or_default();
        let mut open = Vec::new();
        for row in rows.into_iter().filter(|row| !row.status.is_closed()) {
            let described = client.describe(&row.id).await;
            let waits_for = described.ok().flatten().map_or_else(String::new, |it| waits_for(&it));
            let uid = row.uid.to_string();
            open.push(OpenInstance { id: row.id, uid, workflow: row.workflow, waits_for });
        }
        open
    }

    fn begin_engine(&self) {
        let parts = {
            let Recipe { registry, states, options, .. } = &*self.recipe();
            Parts {
                registry: registry.clone(),
                states: states.clone(),
                options: options.clone(),
                mistake: None,
            }
        };
        let clock = Arc::new(self.0.clock.clone());
        let (engine, client) =
            parts.engine(self.0.store.clone(), clock).expect("an app that makes sense");
        let mut engine = Box::pin(engine.run());
        // Busy from now on, and not only once it is polled: time must not pass before it looked.
        let mut begins = Some(self.0.clock.busy(&"an engine that begins"));
        let engine = tokio::spawn(std::future::poll_fn(move |context| {
            let polled = engine.as_mut().poll(context);
            drop(begins.take());
            polled
        }));
        *self.lock() = Some(Current { client, engine });
    }

    fn lock(&self) -> MutexGuard<'_, Option<Current>> {
        self.0.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recipe(&self) -> MutexGuard<'_, Recipe> {
        self.0.recipe.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client of the engine that is at work now.
    pub fn client(&self) -> Client {
        self.lock().as_ref().expect("an engine is at work").client.clone()
    }

    /// Kills the engine and begins another one on the same database.
    pub async fn restart(&self) {
        self.kill().await;
        self.begin_engine();
    }

    /// Kills the engine and begins another one on the same database that knows what this builder
    /// knows: a deployment. Attempts are counted on.
    ///
    /// # Panics
    /// When the app makes no sense: that is what the test is to show.
    pub async fn restart_with(&self, builder: TestBuilder) {
        self.kill().await;
        let (parts, counts) = builder.into_parts();
        {
            let mut recipe = self.recipe();
            counts.continue_from(&recipe.counts);
            *recipe = Recipe::new(parts, counts);
        }
        self.begin_engine();
    }

    /// Stops the engine as [`App::stop`](resurgam::App::stop) does, which gives attempts their
    /// grace period, and begins another one on the same database.
    ///
    /// # Panics
    /// When it does not stop.
    pub async fn stop_and_restart(&self) {
        let client = self.client();
        let what = "a graceful stop";
        let stopped = self.0.clock.wait_for(what, client.handle().stop()).await;
        let stopped = self.or_panic(stopped, what);
        stopped.expect("an engine that stops");
        self.kill().await;
        self.begin_engine();
    }

    /// Kills the engine and begins none: nobody works until [`TestApp::restart`].
    pub async fn stop_working(&self) {
        self.kill().await;
    }

    async fn kill(&self) {
        let before = self.lock().take();
        if let Some(mut before) = before {
            before.engine.abort();
            // Everything it held is gone before the next one begins, as after a real crash.
            let _aborted = (&mut before.engine).await;
        }
    }

    /// Stops the engine in an orderly way: attempts that run get the grace period, the rest is
    /// interrupted and recorded. [`TestApp::restart`] begins the next one.
    ///
    /// # Panics
    /// When the store does not take what is written last.
    pub async fn stop(&self) {
        let client = self.client();
        let what = "the engine to stop";
        let stopped = self.0.clock.wait_for(what, client.handle().stop()).await;
        self.or_panic(stopped, what).expect("a store that takes everything");
    }

    /// What is to go wrong.
    pub fn faults(&self) -> &Faults {
        &self.0.faults
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Lets this much time pass, with everything that is due in it.
    ///
    /// # Panics
    /// When something works on without end.
    pub async fn advance(&self, time: Duration) {
        let until = self.now().saturating_add(time);
        loop {
            let left = until.since(self.now());
            let advanced = tokio::select! {
                biased;
                () = self.0.faults.crashed() => None,
                advanced = self.0.clock.advance(left) => Some(advanced),
            };
            match advanced {
                Some(advanced) => return self.or_panic(advanced, "time to pass"),
                None => self.restart().await,
            }
        }
    }

    /// Waits for anything that the engine brings about, such as an answer to a
    /// [client](Self::client) or the end of a task that awaits one, and lets time pass meanwhile.
    /// `what` is for the message of a test that waits in vain.
    ///
    /// # Panics
    /// When it never comes.
    pub async fn wait_for<T>(&self, what: &str, wanted: impl Future<Output = T>) -> T {
        let waited = self.0.clock.wait_for(what, wanted).await;
        self.or_panic(waited, what)
    }

    /// Starts an instance. It is durable when this returns, also when a crash came in between.
    ///
    /// # Panics
    /// When it cannot be started; [`TestApp::try_start`] tells why instead.
    pub async fn start<W: Workflow>(&self, id: &str, workflow: W) -> TestInstance<W::Output> {
        self.start_plainly(id, W::NAME, resurgam::Payload::encode(&workflow)).await.typed()
    }

    /// Starts an instance with options. It is durable when this returns, also when a crash came in
    /// between.
    ///
    /// # Panics
    /// When it cannot be started.
    pub async fn start_with<W: Workflow>(
        &self,
        id: &str,
        workflow: W,
        options: impl Fn(Start<W::Output>) -> Start<W::Output>,
    ) -> TestInstance<W::Output> {
        self.start_as(id, W::NAME, &workflow, options).await
    }

    /// Starts an instance of a workflow that is known by its name only.
    ///
    /// # Panics
    /// When it cannot be started.
    pub async fn start_named<T: DeserializeOwned + Send + 'static>(
        &self,
        id: &str,
        workflow: &str,
        argument: &impl Serialize,
    ) -> TestInstance<T> {
        self.start_plainly(id, workflow, resurgam::Payload::encode(argument)).await.typed()
    }

    /// Starts an instance without options. Not generic, so that it is compiled once.
    async fn start_plainly(
        &self,
        id: &str,
        workflow: &str,
        argument: serde_json::Result<resurgam::Payload>,
    ) -> TestInstance<Raw> {
        let argument = argument.expect("an argument with a JSON form");
        let raw: Raw = argument.decode().expect("JSON that was just written");
        self.start_as(id, workflow, &raw, |start| start).await
    }

    async fn start_as<T: DeserializeOwned + Send + 'static>(
        &self,
        id: &str,
        workflow: &str,
        argument: &impl Serialize,
        options: impl Fn(Start<T>) -> Start<T>,
    ) -> TestInstance<T> {
        let argument = resurgam::Payload::encode(argument).expect("an argument with a JSON form");
        let raw: Raw = argument.decode().expect("JSON that was just written");
        let request = self.0.requests.fetch_add(1, Ordering::Relaxed);
        let what = format!("start {id}");
        let started = self.wait(&what, || {
            let start = self.client().start_named::<T>(id, workflow, &raw);
            let start = options(start.request_id(format!("test-start-{request}")));
            async move { start.await }
        });
        match started.await {
            Ok(instance) => TestInstance::new(self.clone(), &instance),
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts an instance, or says why it cannot be started.
    pub async fn try_start<W: Workflow>(
        &self,
        id: &str,
        workflow: W,
    ) -> Result<TestInstance<W::Output>> {
        let instance = self.client().start(id, workflow).await?;
        Ok(TestInstance::new(self.clone(), &instance))
    }

    /// Runs one activity durably, without a workflow. It is durable when this returns, also when a
    /// crash came in between.
    pub async fn submit<A: Activity>(
        &self,
        id: &str,
        activity: A,
    ) -> Result<TestInstance<A::Output>> {
        self.submit_with(id, activity, |start| start).await
    }

    /// Runs one activity durably, with options as [`Client::submit`] has them. It is durable when
    /// this returns, also when a crash came in between.
    pub async fn submit_with<A: Activity>(
        &self,
        id: &str,
        activity: A,
        options: impl Fn(Start<A::Output>) -> Start<A::Output>,
    ) -> Result<TestInstance<A::Output>> {
        let Ok(call) = resurgam::Payload::encode(&activity) else {
            // What has no JSON form is refused before anything could crash.
            let instance = options(self.client().submit(id, activity)).await?;
            return Ok(TestInstance::new(self.clone(), &instance));
        };
        let request = self.0.requests.fetch_add(1, Ordering::Relaxed);
        let what = format!("submit {id}");
        let submitted = self.wait(&what, || {
            let activity: A = call.decode().expect("JSON that was just written");
            let start = self.client().submit(id, activity);
            let start = options(start.request_id(format!("test-submit-{request}")));
            async move { start.await }
        });
        Ok(TestInstance::new(self.clone(), &submitted.await?))
    }

    /// Sends a signal.
    pub async fn signal(&self, id: &str, name: &str, value: &impl Serialize) -> Result<()> {
        let request = self.0.requests.fetch_add(1, Ordering::Relaxed);
        self.wait("send a signal", || {
            let client = self.client();
            async move { client.signal_once(id, name, value, format!("test-{request}")).await }
        })
        .await
    }

    /// Asks an instance to end.
    pub async fn cancel(&self, id: &str, reason: &str) -> Result<()> {
        self.wait("cancel", || {
            let client = self.client();
            async move { client.cancel(id, reason).await }
        })
        .await
    }

    /// Deletes closed instances, however many.
    pub async fn delete_closed(&self, filter: ClosedFilter) -> Result<u64> {
        self.wait("delete closed instances", || {
            let (client, filter) = (self.client(), filter.clone());
            async move { client.delete_closed(filter).await }
        })
        .await
    }

    /// Asks a [client](Self::client) for something, in virtual time and across crashes: what a
    /// crash cut short is asked again.
    ///
    /// ```
    /// use resurgam::PausedFilter;
    /// use resurgam_testing::TestApp;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// let app = TestApp::builder().start().await;
    /// let all = PausedFilter::default();
    /// let resumed = app.ask("resume all", |client| client.resume_paused(all.clone())).await?;
    /// assert_eq!(resumed.counts.changed, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ask<T, A>(&self, what: &str, ask: impl Fn(&Client) -> A) -> Result<T>
    where
        A: IntoFuture<Output = Result<T>>,
    {
        self.wait(what, || ask(&self.client()).into_future()).await
    }

    /// Ends an instance at once.
    pub async fn terminate(&self, id: &str, reason: &str) -> Result<()> {
        self.wait("terminate", || {
            let client = self.client();
            async move { client.terminate(id, reason).await }
        })
        .await
    }

    /// Does to a call what an operator does, once, also when a crash came in between.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam_testing::TestApp;
    /// use std::time::Duration;
    ///
    /// #[activity(retry = RetryPolicy::fixed(Duration::from_secs(60)).unlimited())]
    /// async fn ring() -> Result<(), Failure> {
    ///     Err(Failure::new("nobody is there"))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// let app = TestApp::builder().activity(ring).start().await;
    /// let visit = app.submit("visit", ring()).await?;
    /// app.advance(Duration::from_secs(90)).await;
    /// let failed = app.act("visit", "ring", |call| call.fail("they moved").by("ana")).await?;
    /// assert_eq!(failed.to_string(), "failed ring#2");
    /// assert_eq!(visit.failure().await.why.as_deref(), Some("operator"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn act(
        &self,
        id: &str,
        call: &str,
        act: impl Fn(&CallHandle) -> Act,
    ) -> Result<Acted> {
        let request = self.0.requests.fetch_add(1, Ordering::Relaxed);
        self.wait("act on a call", || {
            let act = act(&self.client().call(id, call)).request_id(format!("test-act-{request}"));
            async move { act.await }
        })
        .await
    }

    /// Does something to a run, as an operator would: see [`RunHandle`]. A crash on the way makes
    /// no difference: the action is carried out once.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam_testing::TestApp;
    ///
    /// #[workflow]
    /// async fn visit(ctx: WorkflowContext) -> Result<String, Failure> {
    ///     ctx.signal("say").await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// let app = TestApp::builder().workflow(visit).start().await;
    /// app.start("visit-1", visit()).await;
    /// let paused = app.act_on_run("visit-1", |run| run.pause().by("ana")).await?;
    /// assert_eq!(paused.to_string(), "paused visit-1");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn act_on_run(&self, id: &str, act: impl Fn(&RunHandle) -> Act) -> Result<Acted> {
        let request = self.0.requests.fetch_add(1, Ordering::Relaxed);
        self.wait("act on a run", || {
            let act = act(&self.client().run(id)).request_id(format!("test-act-{request}"));
            async move { act.await }
        })
        .await
    }

    /// Sets a policy for all calls of an activity, or removes it, also when a crash came in
    /// between.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam_testing::TestApp;
    /// use std::time::Duration;
    ///
    /// #[activity(retry = RetryPolicy::fixed(Duration::from_secs(60)).unlimited())]
    /// async fn ring() -> Result<(), Failure> {
    ///     Err(Failure::new("nobody is there"))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// let app = TestApp::builder().activity(ring).start().await;
    /// let visit = app.submit("visit", ring()).await?;
    /// app.advance(Duration::from_secs(30)).await;
    /// app.set_policy(|client| client.set_policy("ring", RetryPolicy::once())).await?;
    /// assert_eq!(visit.failure().await.why.as_deref(), Some("max_attempts"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_policy(&self, set: impl Fn(&Client) -> SetPolicy) -> Result<Acted> {
        self.wait("set a policy", || {
            let set = set(&self.client());
            async move { set.await }
        })
        .await
    }

    /// Waits in virtual time until an instance tells the world something that is as wanted.
    pub async fn wait_for_status<T: DeserializeOwned>(
        &self,
        id: &str,
        is_wanted: impl Fn(&T) -> bool,
    ) -> Result<T> {
        self.wait("a status", || {
            let client = self.client();
            let is_wanted = &is_wanted;
            async move { client.wait_for_status(id, is_wanted).await }
        })
        .await
    }

    /// The history of one run of an instance with its attempts, one line each.
    pub async fn run_history(&self, id: &str, run: u32) -> String {
        let history = self.client().run_history(id, run).await.expect("a store that answers");
        history.unwrap_or_else(|| panic!("there is no instance {id}"))
    }

    /// The history of an instance with its attempts, one line each.
    pub async fn history(&self, id: &str) -> String {
        let history = self.client().history(id).await.expect("a store that answers");
        history.unwrap_or_else(|| panic!("there is no instance {id}"))
    }

    /// The ledger of an instance.
    pub async fn ledger(&self, id: &str) -> Vec<AttemptRow> {
        self.client().attempts(id).await.expect("a store that answers")
    }

    /// What an instance is waiting for.
    pub async fn describe(&self, id: &str) -> Description {
        let description = self.client().describe(id).await.expect("a store that answers");
        description.unwrap_or_else(|| panic!("there is no instance {id}"))
    }

    /// How often an activity was attempted.
    pub fn attempts<Args, F>(&self, _constructor: F) -> u32
    where
        F: Constructor<Args>,
        F::Built: Activity,
    {
        self.attempts_of(<F::Built as Activity>::NAME)
    }

    /// How often an activity that is known by its name only was attempted.
    pub fn attempts_of(&self, activity: &str) -> u32 {
        self.recipe().counts.of(activity)
    }

    /// How many commits were made.
    pub fn commits(&self) -> u64 {
        self.0.faults.commits()
    }

    /// Ready with the reason once an instance is found blocked, or without code, after a day: it is
    /// tried again for ever, and a test that waits for its end would never hear of it.
    async fn stays_blocked(&self, id: &str) -> String {
        loop {
            self.0.clock.passed(self.now().saturating_add(A_DAY)).await;
            let row = self.0.store.find(id).await.expect("a store that answers");
            if let Some(error) = row.and_then(|row| row.error) {
                return error;
            }
        }
    }

    /// Waits for an answer of the engine, across crashes, and lets the time run.
    async fn wait<T, A>(&self, what: &str, ask: impl Fn() -> A) -> Result<T>
    where
        A: Future<Output = Result<T>>,
    {
        let answer = async {
            loop {
                let answer = tokio::select! {
                    biased;
                    () = self.0.faults.crashed() => {
                        self.restart().await;
                        continue;
                    }
                    answer = ask() => answer,
                };
                match answer {
                    Err(error) if error.is_stopped() => self.wait_for_engine().await,
                    answer => return answer,
                }
            }
        };
        match self.0.clock.wait_for(what, answer).await {
            Err(Stall::Nothing) => panic!(
                "waited for {what}, but nothing is under way and nothing is due: {}",
                self.why_nothing().await
            ),
            waited => self.or_panic(waited, what),
        }
    }

    /// Waits for the end of an instance.
    async fn outcome(&self, id: &str, uid: resurgam_core::Uid) -> Outcome {
        let what = format!("the end of {id}");
        let outcome = self.wait(&what, || {
            let client = self.client();
            async move { client.handle().outcome(uid).await }
        });
        tokio::select! {
            biased;
            outcome = outcome => outcome.unwrap_or_else(|error: Error| panic!("{error}")),
            why = self.stays_blocked(id) => panic!("waited for {what}: {why}"),
        }
    }

    /// What a test that waits in vain has probably forgotten.
    async fn why_nothing(&self) -> String {
        let mut forgotten = BTreeSet::new();
        for row in self.client().list(InstanceFilter::default()).await.unwrap_or_default() {
            let described = self.client().describe(&row.id).await;
            let pending = described.ok().flatten().map(|described| described.pending);
            let lost = pending.unwrap_or_default().into_iter();
            let lost = lost.filter(|call| call.waits_for == Some(WaitsFor::Unregistered));
            forgotten.extend(lost.map(|call| format!("{} of {}", call.activity, row.id)));
        }
        match forgotten.first() {
            None => "does a workflow wait for a signal that nobody sends?".to_string(),
            Some(call) => format!(
                "the activity {call} is not registered; add it with .activity(..) or .stub(.., ..)"
            ),
        }
    }

    /// The engine that was asked is gone; another one comes, or came already.
    async fn wait_for_engine(&self) {
        tokio::task::yield_now().await;
    }

    fn or_panic<T>(&self, waited: std::result::Result<T, Stall>, what: &str) -> T {
        match waited {
            Ok(value) => value,
            Err(Stall::Nothing) => panic!(
                "waited for {what}, but nothing is under way and nothing is due: does a workflow \
                 wait for a signal that nobody sends?"
            ),
            Err(Stall::Hang(report)) => panic!("waited for {what}, but {report}"),
        }
    }
}

/// What an instance waits for, in a few words.
fn waits_for(described: &Description) -> String {
    let calls = described.pending.iter().map(|call| {
        let (activity, attempt) = (&call.activity, call.attempt);
        match (call.running, call.waits_for, call.next_due) {
            (true, ..) => format!("attempt {attempt} of {activity}, which runs"),
            (_, Some(WaitsFor::Backoff), Some(due)) => {
                format!("{activity}, whose next attempt is due at {}", since_begin(due))
            }
            (_, Some(WaitsFor::Unregistered), _) => format!("{activity}, which is not registered"),
            (_, Some(WaitsFor::Lacking), _) => {
                let what = call.lacks.as_deref().unwrap_or("something");
                format!("{activity}, for which this process lacks {what}")
            }
            (_, Some(WaitsFor::Poison), _) => {
                format!("{activity}, which loses its process and runs beside no other such call")
            }
            _ => format!("{activity}, which needs a slot"),
        }
    });
    let timers = described.timers.iter().map(|at| format!("a timer at {}", since_begin(*at)));
    let known: Vec<String> = calls.chain(timers).collect();
    match known.is_empty() {
        true => "a signal, a child, or something that is not the engine's".to_string(),
        false => known.join(", "),
    }
}

/// JSON that is passed on as it is.
#[derive(Clone, Debug, Serialize, serde::Deserialize)]
#[serde(transparent)]
struct Raw(Box<serde_json::value::RawValue>);

impl fmt::Debug for TestApp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TestApp at {}", self.now())
    }
}

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
    fn new(app: TestApp, instance: &Instance<T>) -> Self {
        let output = std::marker::PhantomData;
        TestInstance { app, id: instance.id().to_string(), uid: instance.uid(), output }
    }

    /// The same instance, with what its result is read as.
    fn typed<U>(self) -> TestInstance<U> {
        let TestInstance { app, id, uid, .. } = self;
        TestInstance { app, id, uid, output: std::marker::PhantomData }
    }

    /// The id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Waits for the result in virtual time: returns at once. It fails as
    /// [`Instance::result`] does; the failure of the workflow is in [`Error::failure`], and
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
