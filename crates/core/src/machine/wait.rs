//! Waiting for one outcome: what calls, timers and children have in common.
//!
//! | state   | what happens                 | next      |
//! |---------|------------------------------|-----------|
//! | Open    | the outcome is known         | Settled   |
//! | Settled | its future takes the outcome | forgotten |

use std::task::{Poll, Waker};

use crate::Failure;

#[derive(Debug)]
pub(super) struct Wait<T> {
    state: State<T>,
    /// True when the run's cancellation does not concern it.
    shielded: bool,
}

#[derive(Debug)]
enum State<T> {
    Open(Option<Waker>),
    Settled(Result<T, Failure>),
}

impl<T: Clone> Wait<T> {
    pub(super) fn open(shielded: bool) -> Self {
        Wait { state: State::Open(None), shielded }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// True when the run's cancellation ends it.
    pub(super) fn can_be_cancelled(&self) -> bool {
        self.is_open() && !self.shielded
    }

    /// The first outcome stays.
    pub(super) fn settle(&mut self, outcome: Result<T, Failure>) {
        if let State::Open(waker) = &mut self.state {
            let waker = waker.take();
            self.state = State::Settled(outcome);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    pub(super) fn poll(&mut self, waker: &Waker) -> Poll<Result<T, Failure>> {
        match &mut self.state {
            State::Open(known) => {
                *known = Some(waker.clone());
                Poll::Pending
            }
            State::Settled(outcome) => Poll::Ready(outcome.clone()),
        }
    }

    /// The outcome, for those who do not wait.
    pub(super) fn outcome(&self) -> Option<&Result<T, Failure>> {
        match &self.state {
            State::Open(_) => None,
            State::Settled(outcome) => Some(outcome),
        }
    }
}
