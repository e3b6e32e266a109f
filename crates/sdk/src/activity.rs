//! Activities: the units of work that are retried by policy.

use std::any::TypeId;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use resurgam_core::retry::RetryPolicy;
use resurgam_core::{CallKey, Failure, Payload, Timestamp, UserWork};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::States;

/// An activity, and at the same time one call of it: the fields are the arguments, by name.
///
/// `#[activity]` on a function writes this; by hand it looks so:
///
/// ```
/// use resurgam_core::Failure;
/// use resurgam_sdk::{Activity, ActivityContext};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Charge {
///     order_id: String,
///     cents: u64,
/// }
///
/// impl Activity for Charge {
///     const NAME: &'static str = "charge";
///     type Output = String;
///
///     async fn run(self, ctx: ActivityContext) -> Result<String, Failure> {
///         Ok(format!("{} paid {} cents ({})", self.order_id, self.cents, ctx.idempotency_key()))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an activity",
    note = "put #[activity] on the function, and pass its name without calling it where an activity \
            is registered"
)]
pub trait Activity: Serialize + DeserializeOwned + Send + 'static {
    /// The name on the wire. Changing it loses the calls that are under way; see
    /// [`Activity::ALIASES`].
    const NAME: &'static str;
    /// Names it had before.
    const ALIASES: &'static [&'static str] = &[];
    /// The gate that its calls are behind: a key, or a template that makes one of the arguments,
    /// such as `host:{url.host}`. Without one it is the activity's name.
    const GATE: Option<&'static str> = None;
    /// True for a plain function that blocks its thread; it runs where it disturbs nobody.
    const BLOCKING: bool = false;
    /// What it returns.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// What holds for its calls unless they say otherwise.
    fn options() -> ActivityOptions {
        ActivityOptions::default()
    }

    /// Makes one attempt.
    fn run(
        self,
        ctx: ActivityContext,
    ) -> impl Future<Output = Result<Self::Output, Failure>> + Send;
}

/// What holds for the calls of an activity unless they say otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ActivityOptions {
    /// The retry policy.
    pub retry: Option<RetryPolicy>,
    /// Where it runs.
    pub queue: Option<String>,
    /// Bound on one attempt.
    pub timeout: Option<Duration>,
    /// Bound on the whole call.
    pub total_timeout: Option<Duration>,
    /// Bound on the wait for a worker.
    pub queue_timeout: Option<Duration>,
    /// Bound on the silence of a running attempt.
    pub heartbeat_timeout: Option<Duration>,
    /// How many of its attempts run at once on a node.
    pub max_concurrent: Option<usize>,
    /// The gate that its calls are behind, see [`Activity::GATE`].
    pub gate: Option<String>,
}

/// What an attempt knows about itself.
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam_testing::TestApp;
/// use std::time::Duration;
///
/// struct Printer {
///     seconds_per_page: u64,
/// }
///
/// #[activity(timeout = Duration::from_secs(600))]
/// async fn print(ctx: ActivityContext, pages: u64) -> Result<String, Failure> {
///     let (printer, begun) = (ctx.state::<Printer>(), ctx.now());
///     let printed: u64 = ctx.last_heartbeat().unwrap_or(0); // by the attempt before
///     for page in printed..pages {
///         if ctx.is_cancelled() {
///             return Err(Failure::new("put the paper back")); // nobody wants the rest
///         }
///         tokio::select! {
///             () = ctx.cancelled() => {}
///             () = ctx.sleep(Duration::from_secs(printer.seconds_per_page)) => {}
///         }
///         ctx.heartbeat(&(page + 1))?;
///         if page == 2 && ctx.attempt() == 1 {
///             return Err(Failure::of_type("Jam", "page 3"));
///         }
///     }
///     let took = Duration::from_secs(printer.seconds_per_page * (pages - printed));
///     assert_eq!(ctx.now().since(begun), took); // in a test no time passes by itself
///     assert!(ctx.deadline() > Some(ctx.now()) && !ctx.idempotency_key().is_empty());
///     Ok(format!("{} of {}: attempt {}", ctx.activity(), ctx.instance(), ctx.attempt()))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), resurgam::Error> {
/// let printer = Printer { seconds_per_page: 5 };
/// let app = TestApp::builder().activity(print).state(printer).start().await;
/// let job = app.submit("thesis", print(100)).await?;
/// assert_eq!(job.result().await.unwrap(), "print of thesis: attempt 2");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ActivityContext(Arc<Attempt>, Option<Output>);

/// What an activity returns.
#[derive(Clone, Copy, Debug)]
struct Output {
    id: TypeId,
    name: &'static str,
}

impl Output {
    fn of<T: 'static>() -> Self {
        Output { id: TypeId::of::<T>(), name: std::any::type_name::<T>() }
    }
}

/// The parts of an [`ActivityContext`]; the worker puts them together.
pub struct Attempt {
    /// The call.
    pub call: CallKey,
    /// The id of the instance that made the call.
    pub instance: String,
    /// The activity's name.
    pub activity: String,
    /// Which attempt, counting everything that began.
    pub number: u32,
    /// When it is cut short, if a timeout does that.
    pub deadline: Option<Timestamp>,
    /// What an attempt before this one reported last.
    pub last_heartbeat: Option<Payload>,
    /// The failure of the activity whose place this one has taken.
    pub fallback_of: Option<Failure>,
    /// Values that the app shares with its activities.
    pub states: States,
    /// What only the worker can do.
    pub host: Arc<dyn AttemptHost>,
}

/// A future of a host.
pub type HostFuture<'a, T = ()> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An attempt as the engine knows it.
///
/// ```
/// use resurgam_core::{RunKey, Seq, Uid};
/// use resurgam_sdk::Place;
///
/// let call = RunKey::first(Uid(7)).call(Seq(2));
/// let place = Place { call, queue: "default", token: 1, resumed: false };
/// assert_eq!((place.call.seq, place.queue), (Seq(2), "default"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The call.
    pub call: CallKey,
    /// The queue that it came from.
    pub queue: &'a str,
    /// What tells the attempt from others of its call, also from one that was handed back.
    pub token: u64,
    /// It was begun by a process before this one, and may be running somewhere: see
    /// [`ActivityDefinition::outlives`](crate::ActivityDefinition::outlives).
    pub resumed: bool,
}

/// What only the worker can do for an attempt.
pub trait AttemptHost: Send + Sync {
    /// Ready once nobody wants the attempt's result any more.
    fn cancelled(&self) -> HostFuture<'_>;
    /// True once nobody wants the attempt's result any more.
    fn is_cancelled(&self) -> bool;
    /// Calls back once nobody wants the attempt's result any more: at once where that is so.
    fn when_cancelled(&self, tell: Box<dyn FnOnce() + Send>) {
        if self.is_cancelled() {
            tell();
        }
    }
    /// Ready once the process ends, for an attempt that outlives it.
    fn let_go(&self) -> HostFuture<'_> {
        Box::pin(std::future::pending())
    }
    /// The attempt as the engine knows it; `None` where there is no engine.
    fn place(&self) -> Option<Place<'_>> {
        None
    }
    /// The time on the clock that the engine runs on; the system's, unless a host has another.
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::EPOCH.saturating_add(since)
    }
    /// Ready after this time, on the clock that the engine runs on.
    fn sleep(&self, time: Duration) -> HostFuture<'_>;
    /// Has the store run work of the user and record its result as the attempt's, both or neither.
    /// Comes back only when nothing was recorded.
    fn transact(&self, work: UserWork) -> HostFuture<'_, Failure> {
        drop(work);
        let nowhere = "there is no store here that a transaction could run on";
        Box::pin(async move { Failure::terminal(nowhere).with_type("NotOffered") })
    }
    /// Takes a sign of life, with what it says unless that cannot be told. The answer is whether
    /// the attempt is to go on.
    fn heartbeat(&self, details: Option<Payload>) -> Result<(), Failure>;
}

impl ActivityContext {
    /// Puts a context together.
    pub fn new(attempt: Attempt) -> Self {
        ActivityContext(Arc::new(attempt), None)
    }

    /// The context of an activity that returns a `T`.
    pub(crate) fn returning<T: 'static>(self) -> Self {
        ActivityContext(self.0, Some(Output::of::<T>()))
    }

    /// Which attempt this is, from 1, counting everything that began.
    pub fn attempt(&self) -> u32 {
        self.0.number
    }

    /// The id of the instance that made the call.
    pub fn instance(&self) -> &str {
        &self.0.instance
    }

    /// The activity's name.
    pub fn activity(&self) -> &str {
        &self.0.activity
    }

    /// The time on the engine's clock: virtual in tests, otherwise the wall clock, which on
    /// PostgreSQL is that of the database. It is the clock of [`ActivityContext::deadline`].
    pub fn now(&self) -> Timestamp {
        self.0.host.now()
    }

    /// When a timeout cuts this attempt short; `None` when none does. A heartbeat timeout is not
    /// told: it moves.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.0.deadline
    }

    /// A key that all attempts of this call share, and no other call has. Hand it to
    /// services that drop repeats. An activity that others fall back to has one of its own.
    pub fn idempotency_key(&self) -> String {
        match self.0.fallback_of {
            Some(_) => format!("{}/fallback", self.0.call),
            None => self.0.call.to_string(),
        }
    }

    /// The attempt as the engine knows it; `None` where there is no engine, as in a test of the
    /// function alone. For those who hand attempts on to other processes.
    pub fn place(&self) -> Option<Place<'_>> {
        self.0.host.place()
    }

    /// The failure of the activity that was called, when its policy had this one take its place
    /// (`on_exhausted`), and `None` when this one was called. The argument is the same.
    ///
    /// ```
    /// use resurgam_core::Failure;
    /// use resurgam_sdk::ActivityContext;
    ///
    /// async fn charge_later(ctx: &ActivityContext, order: &str) -> Result<String, Failure> {
    ///     let why = ctx.fallback_of().map_or("asked for".to_string(), Failure::to_string);
    ///     Ok(format!("{order} goes on a list ({why})"))
    /// }
    /// ```
    pub fn fallback_of(&self) -> Option<&Failure> {
        self.0.fallback_of.as_ref()
    }

    /// A value that the app shares with its activities.
    ///
    /// # Panics
    /// When the app has no value of this type; give it one with `App::builder().state(..)`.
    pub fn state<T: Send + Sync + 'static>(&self) -> Arc<T> {
        self.0.states.get().unwrap_or_else(|| {
            let name = std::any::type_name::<T>();
            panic!(
                "activity {}: no state of type {name}; add .state(..) to the app",
                self.0.activity
            )
        })
    }

    /// Waits until nobody wants the attempt's result any more.
    pub async fn cancelled(&self) {
        self.0.host.cancelled().await;
    }

    /// Waits until the process is told to stop, in an attempt that outlives it
    /// ([`ActivityDefinition::outlives`](crate::ActivityDefinition::outlives)). It answers with
    /// [`Failure::left_running`] when another process runs it, which goes on, or with
    /// [`Failure::never_began`]. Other attempts are told to end, and hear nothing here.
    ///
    /// ```
    /// use resurgam_core::{Failure, Payload};
    /// use resurgam_sdk::ActivityContext;
    ///
    /// async fn waits_for(
    ///     ctx: &ActivityContext,
    ///     report: impl Future<Output = Payload>,
    /// ) -> Result<Payload, Failure> {
    ///     tokio::select! {
    ///         result = report => Ok(result),
    ///         () = ctx.let_go() => Err(Failure::left_running()),
    ///     }
    /// }
    /// ```
    pub async fn let_go(&self) {
        self.0.host.let_go().await;
    }

    /// Calls back once nobody wants the attempt's result any more, or at once where that is so
    /// already, for code that cannot await [`ActivityContext::cancelled`] because it waits for
    /// something else. In a test the clock does not run on meanwhile, as it would while an attempt
    /// awaits its cancellation. The callback is called on the engine's thread: it must not wait for
    /// anything.
    ///
    /// ```
    /// use resurgam::prelude::*;
    ///
    /// #[activity]
    /// fn compress(ctx: ActivityContext, file: String) -> Result<(), Failure> {
    ///     let mut child = std::process::Command::new("gzip").arg(file).spawn()?;
    ///     let process = child.id();
    ///     ctx.when_cancelled(move || eprintln!("process {process} is to end"));
    ///     child.wait()?;
    ///     Ok(())
    /// }
    /// ```
    pub fn when_cancelled(&self, tell: impl FnOnce() + Send + 'static) {
        self.0.host.when_cancelled(Box::new(tell));
    }

    /// True once nobody wants the attempt's result any more.
    pub fn is_cancelled(&self) -> bool {
        self.0.host.is_cancelled()
    }

    /// Says that the attempt is alive and how far it has come. Cheap: call it as often as there is
    /// something to tell. An attempt with a heartbeat timeout fails when it is silent for longer.
    ///
    /// The details are kept with the call. Operators see them, and the next attempt gets them from
    /// [`ActivityContext::last_heartbeat`], also when this process dies: the first are stored at
    /// once, later ones after at most 80 % of the heartbeat timeout (30 s without one), the last
    /// ones together with how the attempt ended. It does not wait, so plain functions call it too.
    ///
    /// # Errors
    /// Of kind `Cancelled` when the attempt is to end: its call was cancelled, it ran out of time,
    /// or the process stops. Passing it on with `?` is the right answer. A terminal failure when
    /// the details have no JSON form or are larger than a value may be; the attempt counts as alive
    /// all the same.
    ///
    /// ```
    /// use resurgam_core::Failure;
    /// use resurgam_sdk::ActivityContext;
    ///
    /// fn import(ctx: &ActivityContext, rows: &[String]) -> Result<(), Failure> {
    ///     let done: usize = ctx.last_heartbeat().unwrap_or(0);
    ///     for (number, row) in rows.iter().enumerate().skip(done) {
    ///         println!("import {row}");
    ///         ctx.heartbeat(&(number + 1))?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn heartbeat<T: Serialize + ?Sized>(&self, details: &T) -> Result<(), Failure> {
        let encoded = Payload::encode(details).map_err(|error| {
            let activity = &self.0.activity;
            Failure::terminal(format!("heartbeat of {activity}: no JSON form: {error}"))
                .with_type("BadHeartbeat")
        });
        // It is alive, whatever it had to say.
        let alive = self.0.host.heartbeat(encoded.as_ref().ok().cloned());
        encoded.and(alive)
    }

    /// Says that the attempt is alive, where there is nothing to tell: what was reported last stays
    /// as it is, and nothing is stored.
    ///
    /// # Errors
    /// Of kind `Cancelled` when the attempt is to end, as [`ActivityContext::heartbeat`].
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use resurgam_core::Failure;
    /// use resurgam_sdk::ActivityContext;
    ///
    /// async fn wait_for(ctx: &ActivityContext, ready: fn() -> bool) -> Result<(), Failure> {
    ///     while !ready() {
    ///         ctx.keep_alive()?;
    ///         ctx.sleep(Duration::from_secs(1)).await;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn keep_alive(&self) -> Result<(), Failure> {
        self.0.host.heartbeat(None)
    }

    /// What an attempt of this call before this one reported last. `None` when none did, and also
    /// when it was of another type, as a program of another version reports it: then the attempt
    /// begins from the start, which an activity must be able to do anyway.
    pub fn last_heartbeat<T: DeserializeOwned>(&self) -> Option<T> {
        self.0.last_heartbeat.as_ref()?.decode().ok()
    }

    /// Waits on the engine's clock: in tests it passes at once.
    pub async fn sleep(&self, time: Duration) {
        self.0.host.sleep(time).await;
    }

    /// Has the store run work that returns a `T`, which is recorded as the activity's result. This
    /// is what transactions are made of, for example `resurgam::sqlite::TransactionExt`: they know
    /// what kind of work the store takes.
    ///
    /// When it is recorded the attempt is over, and this does not come back.
    pub async fn transact<T: 'static>(&self, work: UserWork) -> Failure {
        let returned = Output::of::<T>();
        match self.1.filter(|output| output.id != returned.id) {
            Some(output) => Failure::terminal(format!(
                "the transaction of activity {} returns {}, and the activity {}; what the \
                 transaction returns is the activity's result",
                self.0.activity, returned.name, output.name
            ))
            .with_type("BadOutput"),
            None => self.0.host.transact(work).await,
        }
    }
}

impl fmt::Debug for ActivityContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Attempt { activity, instance, number, .. } = &*self.0;
        write!(f, "attempt {number} of {activity} in {instance}")
    }
}
