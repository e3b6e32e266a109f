//! `ctx.call(..)`: an activity call as a value, and the future that waits for it.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use resurgam_core::command::{ActivityCall, CallOptions};
use resurgam_core::machine::SharedMachine;
use resurgam_core::retry::RetryPolicy;
use resurgam_core::{Failure, Payload, Seq};
use serde::de::DeserializeOwned;

use crate::Activity;

/// An activity call that has not been made yet. Awaiting it makes it.
#[must_use = "an activity is called when the call is awaited"]
#[derive(Debug)]
pub struct Call<A> {
    machine: SharedMachine,
    call: ActivityCall,
    activity: PhantomData<fn() -> A>,
}

impl<A: Activity> Call<A> {
    pub(super) fn new(machine: SharedMachine, activity: A) -> Self {
        let input = Payload::encode(&activity).unwrap_or_else(|error| {
            panic!("call {}: the arguments have no JSON form: {error}", A::NAME)
        });
        let call =
            ActivityCall { name: A::NAME.to_string(), input, options: CallOptions::default() };
        Call { machine, call, activity: PhantomData }
    }

    /// The retry policy of this call, in place of the activity's.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.call.options.retry = Some(Box::new(policy));
        self
    }

    /// Where this call runs.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.call.options.queue = Some(queue.into());
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
}

impl<A: Activity> IntoFuture for Call<A> {
    type Output = Result<A::Output, Failure>;
    type IntoFuture = CallFuture<A::Output>;

    fn into_future(self) -> CallFuture<A::Output> {
        let state = State::New(Box::new(self.call));
        CallFuture { machine: self.machine, state, output: PhantomData }
    }
}

/// Calls an activity that is known by name only, and answers with its result unread.
pub async fn call_by_name(machine: SharedMachine, call: ActivityCall) -> Result<Payload, Failure> {
    let state = State::New(Box::new(call));
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
    New(Box<ActivityCall>),
    Open(Seq),
    Done,
}

impl<T: DeserializeOwned> Future for CallFuture<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut machine = this.machine.lock();
        if matches!(this.state, State::New(_)) {
            if let Some(failure) = machine.cancelled() {
                let failure = failure.clone();
                this.state = State::Done;
                return Poll::Ready(Err(failure));
            }
            if let State::New(call) = std::mem::replace(&mut this.state, State::Done) {
                this.state = State::Open(machine.schedule_activity(*call));
            }
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
fn decoded<T: DeserializeOwned>(result: &Payload, seq: Seq) -> T {
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
