//! An app under test: how it begins, ends and begins again, and how time passes.
//!
//! What tests ask of it is in `asking.rs`, what they look at in `looking.rs`, how they wait in
//! `waiting.rs`.

mod asking;
mod instance;
mod looking;
mod waiting;

use std::any::Any;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use resurgam::{Client, InstanceFilter, Parts};
use resurgam_core::Timestamp;
use resurgam_store::Store;
use resurgam_worker::Clock;
use tokio::task::{AbortHandle, JoinHandle};

pub use self::instance::TestInstance;
use self::waiting::waits_for;
use crate::builder::{Counts, TestBuilder};
use crate::clock::VirtualClock;
use crate::faults::{Faults, FaultyStore};
use crate::pulse::{OpenInstance, Pulse};

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
        let store = Arc::new(FaultyStore::new(store, faults.clone(), clock.clone()));
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

    /// Waits until every run is parked and every attempt waits for the time or has ended: nothing
    /// more happens unless time passes or somebody asks for something. No time passes.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam_testing::TestApp;
    /// use std::time::Duration;
    ///
    /// #[workflow]
    /// async fn nap(ctx: WorkflowContext) -> Result<(), Failure> {
    ///     ctx.set_status("asleep");
    ///     ctx.sleep(Duration::from_secs(60)).await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let app = TestApp::builder().workflow(nap).start().await;
    /// let run = app.start("nap-1", nap()).await;
    /// app.until_parked().await;
    /// assert!(run.history().await.contains("TimerStarted"));
    /// # }
    /// ```
    ///
    /// # Panics
    /// When something works on without end.
    pub async fn until_parked(&self) {
        self.advance(Duration::ZERO).await;
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
}

impl fmt::Debug for TestApp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TestApp at {}", self.now())
    }
}
