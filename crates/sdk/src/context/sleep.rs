//! `ctx.sleep(..)` and `ctx.timeout(..)`.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use resurgam_core::machine::SharedMachine;
use resurgam_core::{Failure, Seq};

use super::BoxFuture;

/// Waits, across restarts. Dropping it cancels the timer.
#[must_use = "a timer starts when it is awaited"]
#[derive(Debug)]
pub struct Sleep {
    machine: SharedMachine,
    state: State,
}

#[derive(Debug)]
enum State {
    New(Duration, bool),
    Open(Seq),
    Done,
}

impl Sleep {
    pub(super) fn new(machine: SharedMachine, time: Duration, shielded: bool) -> Self {
        Sleep { machine, state: State::New(time, shielded) }
    }

    /// The timer in a box, so that it has the same type as other waits with the same output; see
    /// [`BoxFuture`].
    pub fn boxed(self) -> BoxFuture<Result<(), Failure>> {
        Box::pin(self)
    }
}

impl Future for Sleep {
    type Output = Result<(), Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut machine = this.machine.lock();
        if let State::New(time, shielded) = this.state {
            if let Some(failure) = machine.cancelled().filter(|_| !shielded) {
                let failure = failure.clone();
                this.state = State::Done;
                return Poll::Ready(Err(failure));
            }
            this.state = State::Open(machine.start_timer(time, shielded));
        }
        let State::Open(seq) = this.state else { panic!("a timer was polled after it fired") };
        let outcome = machine.poll_timer(seq, context.waker());
        if outcome.is_ready() {
            this.state = State::Done;
        }
        outcome
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let State::Open(seq) = self.state {
            self.machine.lock().drop_timer(seq);
        }
    }
}

/// Something took longer than it was given.
///
/// ```
/// use resurgam_sdk::Elapsed;
/// use std::time::Duration;
///
/// assert_eq!(Elapsed(Duration::from_secs(90)).to_string(), "not done within 1m 30s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(pub Duration);

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not done within {}", resurgam_core::duration::Human(self.0))
    }
}

impl std::error::Error for Elapsed {}

/// Waits for something, but not for ever.
#[must_use = "nothing happens until it is awaited"]
#[derive(Debug)]
pub struct Timeout<F> {
    // In a box, so that it can be dropped, and so cancelled, the moment the time is up.
    future: Option<Pin<Box<F>>>,
    sleep: Sleep,
    time: Duration,
}

impl<F: Future> Timeout<F> {
    pub(super) fn new(sleep: Sleep, future: F, time: Duration) -> Self {
        Timeout { future: Some(Box::pin(future)), sleep, time }
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.future else {
            panic!("a timeout was polled after it was done")
        };
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            self.future = None;
            return Poll::Ready(Ok(output));
        }
        match Pin::new(&mut self.sleep).poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(_) => {
                self.future = None;
                Poll::Ready(Err(Elapsed(self.time)))
            }
        }
    }
}
