//! A timer as its workflow sees it.
//!
//! | state   | what happens                 | next      |
//! |---------|------------------------------|-----------|
//! | Started | it fires, the run cancelled  | Settled   |
//! | Started | its future is dropped        | forgotten |
//! | Settled | its future takes the outcome | forgotten |

use std::task::{Poll, Waker};

use crate::Failure;

#[derive(Debug)]
pub(super) enum Timer {
    Started { waker: Option<Waker> },
    Settled(Result<(), Failure>),
}

impl Timer {
    pub(super) fn started() -> Self {
        Timer::Started { waker: None }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self, Timer::Started { .. })
    }

    /// The first outcome stays.
    pub(super) fn settle(&mut self, outcome: Result<(), Failure>) {
        if let Timer::Started { waker } = self {
            let waker = waker.take();
            *self = Timer::Settled(outcome);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    pub(super) fn poll(&mut self, waker: &Waker) -> Poll<Result<(), Failure>> {
        match self {
            Timer::Started { waker: known } => {
                *known = Some(waker.clone());
                Poll::Pending
            }
            Timer::Settled(outcome) => Poll::Ready(outcome.clone()),
        }
    }
}
