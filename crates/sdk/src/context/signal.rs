//! `ctx.signal(..)`.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use resurgam_core::machine::{INVALID_NAME, SharedMachine, Waiter};
use resurgam_core::{Failure, identifier};
use serde::de::DeserializeOwned;

use super::BoxFuture;

/// Waits for the next signal of a name. Dropping it leaves the signal to the next who waits.
#[must_use = "a signal is read when it is awaited"]
#[derive(Debug)]
pub struct SignalFuture<T> {
    machine: SharedMachine,
    state: State,
    value: PhantomData<fn() -> T>,
}

#[derive(Debug)]
enum State {
    New(String, bool),
    Waiting(Waiter),
    Done,
}

impl<T> SignalFuture<T> {
    pub(super) fn new(machine: SharedMachine, name: &str, shielded: bool) -> Self {
        let state = State::New(name.to_string(), shielded);
        SignalFuture { machine, state, value: PhantomData }
    }
}

impl<T: DeserializeOwned + 'static> SignalFuture<T> {
    /// The wait in a box, so that it has the same type as other waits with the same output; see
    /// [`BoxFuture`].
    pub fn boxed(self) -> BoxFuture<Result<T, Failure>> {
        Box::pin(self)
    }
}

impl<T: DeserializeOwned> Future for SignalFuture<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut machine = this.machine.lock();
        if let State::New(name, shielded) = &this.state {
            // Nobody can send such a signal: it would be waited for in vain. What a history says
            // that was sent is read all the same.
            if let Err(error) = identifier::check("the name", name)
                && !machine.has_recorded_signal(name)
            {
                let failure = Failure::terminal(format!("wait for a signal: {error}"));
                this.state = State::Done;
                return Poll::Ready(Err(failure.with_type(INVALID_NAME)));
            }
            this.state = State::Waiting(machine.wait_for_signal(name, *shielded));
        }
        let State::Waiting(waiter) = &this.state else {
            panic!("a signal was polled after it was read")
        };
        let outcome = match machine.poll_signal(waiter, context.waker()) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(outcome) => outcome,
        };
        drop(machine);
        this.state = State::Done;
        Poll::Ready(outcome.and_then(|value| {
            // The sender is to blame, not this code: the workflow decides what to make of it.
            value.decode().map_err(|error| {
                Failure::terminal(format!("read a signal: {error}")).with_type("BadSignal")
            })
        }))
    }
}

impl<T> Drop for SignalFuture<T> {
    fn drop(&mut self) {
        if let State::Waiting(waiter) = &self.state {
            self.machine.lock().drop_signal(waiter);
        }
    }
}
