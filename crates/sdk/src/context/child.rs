//! `ctx.child(..)`: a workflow of a workflow, awaited or started with a handle.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use resurgam_core::command::{ChildCall, Settings};
use resurgam_core::event::ParentClose;
use resurgam_core::machine::{INVALID_NAME, SharedMachine};
use resurgam_core::retry::{NO_TIMEOUTS, RetryPolicy, Timeouts};
use resurgam_core::{Failure, Payload, Seq, identifier};
use serde::de::DeserializeOwned;

use super::BoxFuture;
use crate::Workflow;

/// A child that has not been started yet. Awaiting it starts it and waits for its outcome;
/// [`Child::start`] starts it and goes on.
///
/// ```
/// use resurgam::ParentClose;
/// use resurgam::prelude::*;
/// use resurgam_testing::TestApp;
/// use std::time::Duration;
///
/// const TOMORROW: RetryPolicy = RetryPolicy::fixed(Duration::from_secs(86_400)).max_attempts(3);
///
/// #[workflow]
/// async fn deliver(_ctx: WorkflowContext, parcel: String) -> Result<String, Failure> {
///     Ok(format!("{parcel} is delivered"))
/// }
///
/// #[workflow]
/// async fn round(ctx: WorkflowContext) -> Result<String, Failure> {
///     ctx.child(deliver("books".into()))
///         .id("delivery-books")
///         .retry(TOMORROW)
///         .run_timeout(Duration::from_secs(3_600))
///         .total_timeout(Duration::from_secs(4 * 86_400))
///         .parent_close(ParentClose::Abandon) // should this run end first
///         .boxed() // where waits of different kinds are to have one type
///         .await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let app = TestApp::builder().workflow(round).workflow(deliver).start().await;
/// let run = app.start("round-1", round()).await;
/// assert_eq!(run.result().await.unwrap(), "books is delivered");
/// # }
/// ```
#[must_use = "a child is started when this is awaited"]
#[derive(Debug)]
pub struct Child<W> {
    machine: SharedMachine,
    call: ChildCall,
    shielded: bool,
    refused: Option<Failure>,
    workflow: PhantomData<fn() -> W>,
}

impl<W: Workflow> Child<W> {
    pub(super) fn new(machine: SharedMachine, workflow: &W, shielded: bool) -> Self {
        let call = child_call(workflow, ParentClose::Cancel);
        Child { machine, call, shielded, refused: None, workflow: PhantomData }
    }

    /// Its id. By default it is made from the id of the instance that starts it.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        let id = id.into();
        self.refused = self.refused.or(invalid_id(&self.call.workflow, &id));
        self.call.id = Some(id);
        self
    }

    /// The policy by which a run of it that fails is followed by another one. Whoever waits sees
    /// only the final outcome. Timeouts in it are refused: those of a workflow are set below.
    pub fn retry(mut self, policy: impl Into<RetryPolicy>) -> Self {
        let policy = policy.into();
        if policy.timeouts != Timeouts::default() {
            let error = format!("start {}: its retry policy: {NO_TIMEOUTS}", self.call.workflow);
            let refused = Failure::terminal(error).with_type("InvalidPolicy");
            self.refused = self.refused.or(Some(refused));
        }
        self.call.settings.retry = Some(policy.to_stored());
        self
    }

    /// Bounds one run of it.
    pub fn run_timeout(mut self, time: Duration) -> Self {
        self.call.settings.run_timeout_ms = Some(millis(time));
        self
    }

    /// Bounds all its runs together.
    pub fn total_timeout(mut self, time: Duration) -> Self {
        self.call.settings.total_timeout_ms = Some(millis(time));
        self
    }

    /// What becomes of it when the run that started it is over; it is cancelled unless set.
    pub fn parent_close(mut self, parent_close: ParentClose) -> Self {
        self.call.parent_close = parent_close;
        self
    }

    /// Starts it now, and answers with a handle that can be awaited later, or never: the child goes
    /// on until it is done, and what becomes of it when this run is over first is what
    /// [`Child::parent_close`] says.
    ///
    /// In a run that was cancelled nothing is started, and the handle has the failure of the
    /// cancellation; start it through `ctx.shielded()` where it is part of cleaning up.
    pub fn start(self) -> ChildHandle<W::Output> {
        let Child { machine, call, shielded, refused, .. } = self;
        let mut locked = machine.lock();
        let cancelled = locked.cancelled().filter(|_| !shielded).cloned();
        let state = match cancelled.or(refused.filter(|_| !locked.was_accepted())) {
            Some(failure) => Handle::Refused(failure),
            None => {
                let detached = call.parent_close == ParentClose::Detached;
                let seq = locked.start_child_with_handle(call, shielded);
                if detached { Handle::Detached } else { Handle::Open(seq) }
            }
        };
        drop(locked);
        ChildHandle { machine, state, output: PhantomData }
    }

    /// The wait for its outcome in a box, so that it has the same type as other waits with the same
    /// output; see [`BoxFuture`].
    pub fn boxed(self) -> BoxFuture<Result<W::Output, Failure>> {
        Box::pin(self.into_future())
    }
}

impl<W: Workflow> IntoFuture for Child<W> {
    type Output = Result<W::Output, Failure>;
    type IntoFuture = ChildFuture<W::Output>;

    fn into_future(self) -> ChildFuture<W::Output> {
        let state = State::New(Box::new((self.call, self.refused)), self.shielded);
        ChildFuture { machine: self.machine, state, output: PhantomData }
    }
}

/// A workflow as something to start.
pub(super) fn child_call<W: Workflow>(workflow: &W, parent_close: ParentClose) -> ChildCall {
    let input = Payload::encode(workflow).unwrap_or_else(|error| {
        panic!("start {}: the argument has no JSON form: {error}", W::NAME)
    });
    let (workflow, settings) = (W::NAME.to_string(), Settings::default());
    ChildCall { id: None, workflow, input, parent_close, settings }
}

/// Waits for the outcome of a child. The first poll starts it; dropping this before it is done
/// cancels the child.
#[derive(Debug)]
pub struct ChildFuture<T> {
    machine: SharedMachine,
    state: State,
    output: PhantomData<fn() -> T>,
}

#[derive(Debug)]
enum State {
    New(Box<(ChildCall, Option<Failure>)>, bool),
    Open(Seq),
    Done,
}

impl<T: DeserializeOwned> Future for ChildFuture<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut machine = this.machine.lock();
        if matches!(this.state, State::New(..))
            && let State::New(new, shielded) = std::mem::replace(&mut this.state, State::Done)
        {
            let (call, refused) = *new;
            if let Some(failure) = machine.cancelled().filter(|_| !shielded) {
                return Poll::Ready(Err(failure.clone()));
            }
            if let Some(failure) = refused.filter(|_| !machine.was_accepted()) {
                return Poll::Ready(Err(failure));
            }
            this.state = State::Open(machine.start_child(call, shielded));
        }
        let State::Open(seq) = this.state else { panic!("a child was polled after it was done") };
        let outcome = match machine.poll_child(seq, context.waker()) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(outcome) => outcome,
        };
        drop(machine);
        this.state = State::Done;
        Poll::Ready(outcome.map(|result| super::call::decoded(&result, seq)))
    }
}

impl<T> Drop for ChildFuture<T> {
    fn drop(&mut self) {
        if let State::Open(seq) = self.state {
            self.machine.lock().drop_child(seq);
        }
    }
}

/// A child that was started, see [`Child::start`]. Awaiting it waits for the child's outcome;
/// dropping it leaves the child alone.
///
/// ```
/// use resurgam::ParentClose;
/// use resurgam::prelude::*;
/// use resurgam_testing::TestApp;
/// use std::time::Duration;
///
/// #[workflow]
/// async fn ship(ctx: WorkflowContext, days: u64) -> Result<u64, Failure> {
///     ctx.sleep(Duration::from_secs(86_400 * days)).await?;
///     Ok(days)
/// }
///
/// #[workflow]
/// async fn order(ctx: WorkflowContext) -> Result<String, Failure> {
///     let hour = Duration::from_secs(3_600);
///     ctx.child(ship(3)).id("books").parent_close(ParentClose::Abandon).start(); // goes on alone
///     let lost = ctx.child(ship(365)).id("lost").start();
///     let mut lamp = ctx.child(ship(1)).id("lamp").start();
///     if ctx.timeout(hour, &mut lamp).await.is_err() {
///         ctx.set_status("the lamp takes longer than an hour");
///     }
///     lost.cancel();
///     Ok(format!("the lamp took {} day", lamp.await?))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let app = TestApp::builder().workflow(order).workflow(ship).start().await;
/// let run = app.start("order-1", order()).await;
/// assert_eq!(run.result().await.unwrap(), "the lamp took 1 day");
/// app.advance(Duration::from_secs(3 * 86_400)).await;
/// assert!(app.history("books").await.contains("RunCompleted 3"));
/// assert!(app.history("lost").await.contains("RunCancelled"));
/// # }
/// ```
#[derive(Debug)]
pub struct ChildHandle<T> {
    machine: SharedMachine,
    state: Handle,
    output: PhantomData<fn() -> T>,
}

#[derive(Debug)]
enum Handle {
    /// It was not started: the run was cancelled before, or what was asked for cannot be had.
    Refused(Failure),
    Open(Seq),
    /// Who started it never hears of it again.
    Detached,
    Done,
}

impl<T: DeserializeOwned> ChildHandle<T> {
    /// Asks the child to end. It may clean up first, and return a value all the same: await the
    /// handle to hear how it ended. Asking one that is done changes nothing.
    pub fn cancel(&self) {
        if let Handle::Open(seq) = self.state {
            self.machine.lock().cancel_child(seq);
        }
    }

    /// The wait for its outcome in a box, so that it has the same type as other waits with the same
    /// output; see [`BoxFuture`].
    pub fn boxed(self) -> BoxFuture<Result<T, Failure>>
    where
        T: 'static,
    {
        Box::pin(self)
    }
}

impl<T: DeserializeOwned> Future for ChildHandle<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let seq = match std::mem::replace(&mut self.state, Handle::Done) {
            Handle::Refused(failure) => return Poll::Ready(Err(failure)),
            Handle::Open(seq) => seq,
            Handle::Detached => panic!(
                "a detached child was awaited, and who starts one never hears of it: use \
                 ParentClose::Abandon"
            ),
            Handle::Done => panic!("a child was polled after it was done"),
        };
        let outcome = self.machine.lock().poll_child(seq, context.waker());
        if outcome.is_pending() {
            self.state = Handle::Open(seq);
        }
        outcome.map(|outcome| outcome.map(|result| super::call::decoded(&result, seq)))
    }
}

impl<T> Drop for ChildHandle<T> {
    fn drop(&mut self) {
        if let Handle::Open(seq) = self.state {
            self.machine.lock().drop_child_handle(seq);
        }
    }
}

/// An instance that was started to be left alone, see
/// [`start_detached`](super::WorkflowContext::start_detached).
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam_testing::TestApp;
///
/// #[workflow]
/// async fn audit(_ctx: WorkflowContext) -> Result<(), Failure> {
///     Ok(())
/// }
///
/// #[workflow]
/// async fn close_year(ctx: WorkflowContext) -> Result<bool, Failure> {
///     let audit_2025 = ctx.start_detached("audit-2025", audit())?;
///     ctx.sleep(std::time::Duration::from_secs(1)).await?;
///     Ok(audit_2025.failure().is_some())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let app = TestApp::builder().workflow(audit).workflow(close_year).start().await;
/// assert!(!app.start("close-1", close_year()).await.result().await.unwrap());
/// // The id is taken by now.
/// assert!(app.start("close-2", close_year()).await.result().await.unwrap());
/// # }
/// ```
#[derive(Debug)]
pub struct Detached {
    machine: SharedMachine,
    seq: Seq,
}

impl Detached {
    pub(super) fn start(machine: SharedMachine, call: ChildCall) -> Result<Self, Failure> {
        let mut locked = machine.lock();
        let id = call.id.as_deref().unwrap_or_default();
        // What a history says is done as the history says.
        if !locked.was_accepted() {
            invalid_id(&call.workflow, id).map_or(Ok(()), Err)?;
            if locked.has_detached(id) {
                let (workflow, id) = (&call.workflow, id);
                let message = format!("start {workflow}: this run has started {id:?} before");
                return Err(Failure::terminal(message).with_type("AlreadyExists"));
            }
        }
        let seq = locked.start_child(call, true);
        drop(locked);
        Ok(Detached { machine, seq })
    }

    /// Why it was not started, of type `AlreadyExists`, when an instance has its id. A run hears of
    /// that right after the turn that asked for it, so not before it has waited for something.
    pub fn failure(&self) -> Option<Failure> {
        self.machine.lock().detached_failure(self.seq).cloned()
    }
}

/// Why an id cannot be that of an instance.
fn invalid_id(workflow: &str, id: &str) -> Option<Failure> {
    let error = identifier::check("the id", id).err()?;
    Some(Failure::terminal(format!("start {workflow}: {error}")).with_type(INVALID_NAME))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
