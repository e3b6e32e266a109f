//! What a workflow can ask for. Every durable point of a workflow is visible as `ctx.`.

mod call;
mod child;
mod join;
mod signal;
mod sleep;

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use resurgam_core::command::{ActivityCall, CallOptions};
use resurgam_core::event::ParentClose;
use resurgam_core::machine::{CONTINUE_AS_NEW, SharedMachine};
use resurgam_core::{Failure, Payload, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Activity, Workflow};
pub use call::{Call, CallFuture, call_by_name};
pub use child::{Child, ChildFuture, ChildHandle, Detached};
pub use join::{Crowd, JoinAll, Race};
pub use signal::SignalFuture;
pub use sleep::{Elapsed, Sleep, Timeout};

/// A wait in a box: a type that waits of different kinds share when they have the same output.
///
/// Calls, children, timers and signals have `.boxed()`. It makes heterogeneous joins and races
/// possible, and functions that call themselves:
///
/// ```
/// use resurgam::BoxFuture;
/// use resurgam::prelude::*;
/// use resurgam_testing::TestApp;
/// use std::time::Duration;
///
/// #[activity]
/// async fn weigh(page: u64) -> Result<u64, Failure> {
///     Ok(page)
/// }
///
/// #[workflow]
/// async fn estimate(_ctx: WorkflowContext, page: u64) -> Result<u64, Failure> {
///     Ok(page * 10)
/// }
///
/// /// The weight of a page and of all pages below it.
/// fn weigh_tree(ctx: WorkflowContext, page: u64) -> BoxFuture<Result<u64, Failure>> {
///     if page >= 4 {
///         return ctx.call(weigh(page)).boxed();
///     }
///     Box::pin(async move {
///         let below = [2 * page, 2 * page + 1].map(|page| weigh_tree(ctx.clone(), page));
///         let below: u64 = ctx.join_all(below).await?.iter().sum();
///         Ok(ctx.call(weigh(page)).await? + below)
///     })
/// }
///
/// #[workflow]
/// async fn weigh_all(ctx: WorkflowContext) -> Result<u64, Failure> {
///     let both = [ctx.call(weigh(1)).boxed(), ctx.child(estimate(1)).boxed()];
///     assert_eq!(ctx.join_all(both).await?, [1, 10]);
///     let hour = Duration::from_secs(3_600);
///     let first = [ctx.sleep(hour).boxed(), ctx.signal::<()>("stop").boxed()];
///     ctx.race(first).await.1?;
///     weigh_tree(ctx, 1).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let app =
///     TestApp::builder().workflow(weigh_all).workflow(estimate).activity(weigh).start().await;
/// assert_eq!(app.start("all", weigh_all()).await.result().await.unwrap(), 28);
/// # }
/// ```
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What a workflow waits through. Cloning gives another handle to the same run.
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam_testing::TestApp;
/// use std::time::Duration;
///
/// #[activity]
/// async fn quote(shop: String) -> Result<u64, Failure> {
///     Ok(shop.len() as u64)
/// }
///
/// #[workflow]
/// async fn deliver(_ctx: WorkflowContext, cents: u64) -> Result<u64, Failure> {
///     Ok(cents)
/// }
///
/// #[workflow]
/// async fn audit(_ctx: WorkflowContext) -> Result<(), Failure> {
///     Ok(())
/// }
///
/// #[workflow]
/// async fn buy(ctx: WorkflowContext, rounds: u32) -> Result<u64, Failure> {
///     let begun = ctx.now(); // the same when the code runs again, as these two are
///     assert!(ctx.random() < 1.0 && ctx.uuid().len() == 36);
///     ctx.set_status("asks");
///     ctx.set("rounds", &rounds);
///     assert_eq!(ctx.get::<u32>("rounds"), Some(rounds));
///
///     let shops = ["corner".to_string(), "station".to_string()];
///     let calls = shops.iter().map(|shop| ctx.call(quote(shop.clone())));
///     let all = ctx.join_all(calls).await?; // all of them
///     let calls = shops.map(|shop| ctx.call(quote(shop)));
///     let (_place, first) = ctx.race(calls).await; // the first
///     let one = ctx.timeout(Duration::from_secs(60), ctx.call(quote("mall".into()))).await;
///     assert!(first.is_ok() && one.is_ok() && ctx.now() >= begun);
///
///     if ctx.version("longer-pause", 2) >= 2 {
///         ctx.sleep(Duration::from_secs(86_400)).await?;
///     }
///     if rounds > 1 {
///         return ctx.continue_as_new(buy(rounds - 1)); // the next run, with an empty history
///     }
///     ctx.start_detached("audit-1", audit())?; // and think no more of it
///     let answer = ctx.signal::<bool>("agree").await; // an Err when the run is cancelled
///     if ctx.cancelled().is_some() {
///         ctx.shielded().call(quote("clean up".into())).await?;
///     }
///     answer?;
///     ctx.child(deliver(all.iter().sum())).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), resurgam::Error> {
/// let app = TestApp::builder()
///     .workflow(buy)
///     .workflow(deliver)
///     .workflow(audit)
///     .activity(quote)
///     .start()
///     .await;
/// let run = app.start("buy-1", buy(2)).await;
/// app.signal("buy-1", "agree", &true).await?;
/// assert_eq!(run.result().await.unwrap(), 13); // two days later, at once
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct WorkflowContext {
    machine: SharedMachine,
    shielded: bool,
}

impl WorkflowContext {
    /// The context of a run.
    pub fn new(machine: SharedMachine) -> Self {
        WorkflowContext { machine, shielded: false }
    }

    /// A context of this run that shields: what is awaited through it goes on although the run was
    /// cancelled, for cleaning up.
    pub fn shielded(&self) -> Self {
        WorkflowContext { machine: self.machine.clone(), shielded: true }
    }

    /// Calls an activity. Nothing happens until the call is awaited; dropping it before it is
    /// done cancels it.
    pub fn call<A: Activity>(&self, activity: A) -> Call<A> {
        Call::new(self.machine.clone(), &activity, self.shielded)
    }

    /// The id of the instance. Empty where a history is replayed by itself, without its instance.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam_testing::TestApp;
    ///
    /// #[workflow]
    /// async fn whoami(ctx: WorkflowContext) -> Result<String, Failure> {
    ///     Ok(format!("{} of {}", ctx.instance(), ctx.workflow()))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let app = TestApp::builder().workflow(whoami).start().await;
    /// let run = app.start("me", whoami()).await;
    /// assert_eq!(run.result().await.unwrap(), "me of whoami");
    /// # }
    /// ```
    pub fn instance(&self) -> String {
        self.machine.lock().instance().to_string()
    }

    /// The name under which the instance was started. Empty as [`WorkflowContext::instance`] is.
    pub fn workflow(&self) -> String {
        self.machine.lock().workflow().to_string()
    }

    /// Remembers an activity that undoes what the run has done so far, without a call that it
    /// belongs to: when the run fails or is cancelled it is called, before those that were
    /// remembered earlier. [`Call::compensate_with`] is for what undoes one call.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam_testing::TestApp;
    ///
    /// #[activity]
    /// async fn close_account(name: String) -> Result<(), Failure> {
    ///     Ok(())
    /// }
    ///
    /// #[workflow]
    /// async fn welcome(ctx: WorkflowContext, name: String) -> Result<(), Failure> {
    ///     ctx.compensate(close_account(name));
    ///     Err(Failure::terminal("no licences are left"))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let app = TestApp::builder().workflow(welcome).activity(close_account).start().await;
    /// let run = app.start("ada", welcome("Ada".to_string())).await;
    /// assert!(run.result().await.is_err());
    /// assert_eq!(app.attempts(close_account), 1);
    /// # }
    /// ```
    ///
    /// # Panics
    /// When the arguments have no JSON form; the run is then blocked until the code is mended.
    pub fn compensate<A: Activity>(&self, activity: A) {
        let input = Payload::encode(&activity).unwrap_or_else(|error| {
            panic!("compensate with {}: the arguments have no JSON form: {error}", A::NAME)
        });
        let options = CallOptions::default();
        let call = ActivityCall { name: A::NAME.to_string(), input, options, compensates: None };
        self.machine.lock().compensate(call);
    }

    /// Starts another workflow and waits for its outcome. Nothing happens until it is awaited;
    /// dropping it before it is done cancels the child. [`Child::start`] starts it and goes on.
    pub fn child<W: Workflow>(&self, workflow: W) -> Child<W> {
        Child::new(self.machine.clone(), &workflow, self.shielded)
    }

    /// Starts another workflow under this id and thinks no more of it. A second one of the same id
    /// is an error. When another instance has the id nothing is started: the history says so, the
    /// log warns, and [`Detached::failure`] tells, as long as this run is open.
    pub fn start_detached<W: Workflow>(
        &self,
        id: impl Into<String>,
        workflow: W,
    ) -> Result<Detached, Failure> {
        let mut call = child::child_call(&workflow, ParentClose::Detached);
        call.id = Some(id.into());
        Detached::start(self.machine.clone(), call)
    }

    /// Ends this run and begins the next one of the same instance with an empty history. Return
    /// what this returns. Unread signals, the instance's data, its tags and its retry policy go
    /// over to the next run; open calls are cancelled.
    ///
    /// # Panics
    /// When the argument has no JSON form; the run is then blocked until the code is mended.
    pub fn continue_as_new<W: Workflow, T>(&self, workflow: W) -> Result<T, Failure> {
        let input = Payload::encode(&workflow).unwrap_or_else(|error| {
            panic!("continue {} as new: the argument has no JSON form: {error}", W::NAME)
        });
        self.machine.lock().continue_as_new(input);
        Err(Failure::terminal("the next run goes on").with_type(CONTINUE_AS_NEW))
    }

    /// Which version of a change this run has. A run that came by here before the change was made
    /// has version 1; every other one has the newest, and stays with it.
    pub fn version(&self, change: &str, newest: u32) -> u32 {
        self.machine.lock().version(change, newest)
    }

    /// An entry of the instance's own data, which outlives its runs and can be read from outside.
    ///
    /// # Panics
    /// When the entry is of another type; the run is then blocked until the code is mended.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let value = self.machine.lock().kv(key).cloned()?;
        let value = value.decode();
        Some(value.unwrap_or_else(|error| panic!("read {key:?} of the instance: {error}")))
    }

    /// Changes an entry of the instance's own data.
    ///
    /// # Panics
    /// When the value has no JSON form; the run is then blocked until the code is mended.
    pub fn set<T: Serialize + ?Sized>(&self, key: &str, value: &T) {
        let value = Payload::encode(value)
            .unwrap_or_else(|error| panic!("set {key:?}: the value has no JSON form: {error}"));
        self.machine.lock().set_kv(key, value);
    }

    /// Waits, across restarts. Ends early with a failure when the run is cancelled.
    pub fn sleep(&self, time: Duration) -> Sleep {
        Sleep::new(self.machine.clone(), time, self.shielded)
    }

    /// Waits for something, but no longer than this. What is not done by then is dropped, and so
    /// cancelled.
    pub fn timeout<F: IntoFuture>(&self, time: Duration, future: F) -> Timeout<F::IntoFuture> {
        // The run's cancellation ends what is waited for, which answers for itself; where it does
        // not, because it is shielded, the time still counts.
        let sleep = Sleep::new(self.machine.clone(), time, true);
        Timeout::new(sleep, future.into_future(), time)
    }

    /// Waits until all are done, then answers with all values, or with the first failure in the
    /// order given.
    pub fn join_all<I>(&self, futures: I) -> JoinAll<<I::Item as IntoFuture>::IntoFuture>
    where
        I: IntoIterator<Item: IntoFuture>,
    {
        JoinAll::new(futures.into_iter().map(IntoFuture::into_future))
    }

    /// Waits until one is done, and answers with its place and its value. The others are dropped,
    /// and so cancelled.
    ///
    /// # Panics
    /// When there is nothing to wait for; the run is then blocked until the code is mended.
    pub fn race<I>(&self, futures: I) -> Race<<I::Item as IntoFuture>::IntoFuture>
    where
        I: IntoIterator<Item: IntoFuture>,
    {
        Race::new(futures.into_iter().map(IntoFuture::into_future))
    }

    /// Waits for the next signal of this name. Signals are kept in order of arrival, also when
    /// they come before anybody waits.
    pub fn signal<T: DeserializeOwned>(&self, name: &str) -> SignalFuture<T> {
        SignalFuture::new(self.machine.clone(), name, self.shielded)
    }

    /// Tells the world where the run is.
    ///
    /// # Panics
    /// When the value has no JSON form; the run is then blocked until the code is mended.
    pub fn set_status<T: Serialize + ?Sized>(&self, value: &T) {
        let value = Payload::encode(value)
            .unwrap_or_else(|error| panic!("set_status: the value has no JSON form: {error}"));
        self.machine.lock().set_status(value);
    }

    /// The time of the event that brought the code here; the same on replay.
    pub fn now(&self) -> Timestamp {
        self.machine.lock().now()
    }

    /// A random number from 0 (included) to 1 (excluded); the same on replay.
    pub fn random(&self) -> f64 {
        (self.machine.lock().random() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A random UUID (version 4); the same on replay.
    pub fn uuid(&self) -> String {
        let mut machine = self.machine.lock();
        let bits = (u128::from(machine.random()) << 64) | u128::from(machine.random());
        let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        parts.join("-")
    }

    /// The failure that every wait ends with, once the run was cancelled.
    pub fn cancelled(&self) -> Option<Failure> {
        self.machine.lock().cancelled().cloned()
    }
}
