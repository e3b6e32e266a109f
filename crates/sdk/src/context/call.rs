//! `ctx.call(..)`: an activity call as a value, and the future that waits for it.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use resurgam_core::command::{ActivityCall, CallOptions};
use resurgam_core::gate::check_key;
use resurgam_core::machine::{Ask, INVALID_NAME, SharedMachine, Undo};
use resurgam_core::retry::RetryPolicy;
use resurgam_core::{Failure, Payload, Seq, identifier};
use serde::de::DeserializeOwned;

use super::BoxFuture;
use crate::Activity;
use crate::registry::gate_key;

/// An activity call that has not been made yet. Awaiting it makes it.
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam_testing::TestApp;
/// use std::time::Duration;
///
/// #[activity]
/// async fn reserve(item: String) -> Result<u64, Failure> {
///     Ok(item.len() as u64)
/// }
///
/// #[activity]
/// async fn release(hold: u64) -> Result<(), Failure> {
///     println!("hold {hold} is released");
///     Ok(())
/// }
///
/// #[workflow]
/// async fn order(ctx: WorkflowContext, item: String) -> Result<u64, Failure> {
///     let second = Duration::from_secs(1);
///     ctx.call(reserve(item)) // nothing has happened yet
///         .retry(RetryPolicy::exponential(second).max_attempts(3))
///         .queue("warehouse")
///         .gate("warehouse-system") // what its calls talk to
///         .timeout(10 * second) // of an attempt
///         .heartbeat_timeout(5 * second)
///         .queue_timeout(600 * second) // of the wait for a worker
///         .total_timeout(3_600 * second) // of all of it
///         .compensate_with(|hold| release(*hold)) // should this run fail later
///         .compensation_retry(RetryPolicy::fixed(second).unlimited())
///         .boxed() // where waits of different kinds are to have one type
///         .await?; // it is called here
///     Err(Failure::terminal("the customer changed their mind"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let app = TestApp::builder().workflow(order).activity(reserve).activity(release).start().await;
/// app.start("order-1", order("lamp".into())).await.failure().await;
/// assert_eq!(app.attempts(release), 1);
/// # }
/// ```
#[must_use = "an activity is called when the call is awaited"]
#[derive(Debug)]
pub struct Call<A> {
    machine: SharedMachine,
    call: ActivityCall,
    ask: Ask,
    compensation_retry: Option<RetryPolicy>,
    activity: PhantomData<fn() -> A>,
}

impl<A: Activity> Call<A> {
    pub(super) fn new(machine: SharedMachine, activity: &A, shielded: bool) -> Self {
        let ask = Ask { shielded, undo: None };
        let call = activity_call(activity);
        Call { machine, call, ask, compensation_retry: None, activity: PhantomData }
    }

    /// The retry policy of this call, in place of the activity's.
    pub fn retry(mut self, policy: impl Into<RetryPolicy>) -> Self {
        self.call.options.retry = Some(Box::new(policy.into()));
        self
    }

    /// Where this call runs.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.call.options.queue = Some(queue.into());
        self
    }

    /// The key of the gate that this call is behind, in place of the activity's: the name of the
    /// dependency that it talks to.
    pub fn gate(mut self, key: impl Into<String>) -> Self {
        self.call.options.gate = Some(key.into());
        self
    }

    /// Bounds one attempt of this call.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.call.options.timeout = Some(time);
        self
    }

    /// Bounds the whole call, all attempts and waits included.
    pub fn total_timeout(mut self, time: Duration) -> Self {
        self.call.options.total_timeout = Some(time);
        self
    }

    /// Bounds how long an attempt that is due waits for a worker.
    pub fn queue_timeout(mut self, time: Duration) -> Self {
        self.call.options.queue_timeout = Some(time);
        self
    }

    /// Bounds how long an attempt may go without a heartbeat.
    pub fn heartbeat_timeout(mut self, time: Duration) -> Self {
        self.call.options.heartbeat_timeout = Some(time);
        self
    }

    /// What undoes this call, made from what the call returned. It is recorded when the call
    /// completes; a run that fails, or is cancelled, makes all recorded calls, the last one first.
    pub fn compensate_with<C: Activity>(
        mut self,
        undo: impl FnOnce(&A::Output) -> C + Send + 'static,
    ) -> Self {
        let name = A::NAME;
        self.ask.undo = Some(Undo::new(move |result| {
            let result: A::Output = result.decode().unwrap_or_else(|error| {
                panic!("the recorded result of {name} does not fit the code's type: {error}")
            });
            activity_call(&undo(&result))
        }));
        self
    }

    /// The retry policy of the compensation, in place of its activity's. Without either it is
    /// tried until it succeeds.
    pub fn compensation_retry(mut self, policy: impl Into<RetryPolicy>) -> Self {
        self.compensation_retry = Some(policy.into());
        self
    }

    /// The call in a box, so that it has the same type as other waits with the same output; see
    /// [`BoxFuture`].
    pub fn boxed(self) -> BoxFuture<Result<A::Output, Failure>> {
        Box::pin(self.into_future())
    }
}

/// An activity as a call without options.
fn activity_call<A: Activity>(activity: &A) -> ActivityCall {
    let input = Payload::encode(activity).unwrap_or_else(|error| {
        panic!("call {}: the arguments have no JSON form: {error}", A::NAME)
    });
    let gate = A::GATE.map(|template| gate_key(template, &input));
    let options = CallOptions { gate, ..CallOptions::default() };
    ActivityCall { name: A::NAME.to_string(), input, options, compensates: None }
}

impl<A: Activity> IntoFuture for Call<A> {
    type Output = Result<A::Output, Failure>;
    type IntoFuture = CallFuture<A::Output>;

    fn into_future(mut self) -> CallFuture<A::Output> {
        if let Some(policy) = self.compensation_retry.take() {
            self.ask.undo = self.ask.undo.map(|undo| undo.with_retry(policy));
        }
        let state = State::New(Box::new((self.call, self.ask)));
        CallFuture { machine: self.machine, state, output: PhantomData }
    }
}

/// Whether the key of a gate that a call names can be one.
fn check_gate(call: &ActivityCall) -> Result<(), String> {
    let Some(key) = &call.options.gate else { return Ok(()) };
    check_key(key).map_err(|error| format!("the gate {key:?} {error}"))
}

/// Calls an activity that is known by name only, and answers with its result unread.
pub async fn call_by_name(machine: SharedMachine, call: ActivityCall) -> Result<Payload, Failure> {
    let state = State::New(Box::new((call, Ask::default())));
    let result: Box<serde_json::value::RawValue> =
        CallFuture { machine, state, output: PhantomData }.await?;
    Ok(Payload::from_text(result.get()))
}

/// Waits for the outcome of an activity call. The first poll makes the call; dropping it before it
/// is done cancels the call.
#[derive(Debug)]
pub struct CallFuture<T> {
    machine: SharedMachine,
    state: State,
    output: PhantomData<fn() -> T>,
}

#[derive(Debug)]
enum State {
    New(Box<(ActivityCall, Ask)>),
    Open(Seq),
    Done,
}

impl<T: DeserializeOwned> Future for CallFuture<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut machine = this.machine.lock();
        if matches!(this.state, State::New(_))
            && let State::New(new) = std::mem::replace(&mut this.state, State::Done)
        {
            let (call, ask) = *new;
            if let Some(failure) = machine.cancelled().filter(|_| !ask.shielded) {
                return Poll::Ready(Err(failure.clone()));
            }
            let wrong = identifier::check("the queue", call.queue());
            let wrong = wrong.and_then(|()| check_gate(&call));
            if let Err(error) = wrong
                && !machine.was_accepted()
            {
                let failure = Failure::terminal(format!("call {}: {error}", call.name));
                return Poll::Ready(Err(failure.with_type(INVALID_NAME)));
            }
            this.state = State::Open(machine.schedule_activity(call, ask));
        }
        let State::Open(seq) = this.state else { panic!("a call was polled after it was done") };
        let outcome = match machine.poll_activity(seq, context.waker()) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(outcome) => outcome,
        };
        drop(machine);
        this.state = State::Done;
        Poll::Ready(outcome.map(|result| decoded(&result, seq)))
    }
}

/// A result of another type than the code expects is a mistake in the code: the panic blocks the
/// run, and mended code goes on with the recorded result.
pub(super) fn decoded<T: DeserializeOwned>(result: &Payload, seq: Seq) -> T {
    result.decode().unwrap_or_else(|error| {
        panic!("the recorded result of call #{seq} does not fit the code's type: {error}")
    })
}

impl<T> Drop for CallFuture<T> {
    fn drop(&mut self) {
        if let State::Open(seq) = self.state {
            self.machine.lock().drop_activity(seq);
        }
    }
}
