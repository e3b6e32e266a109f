//! An activity call as its workflow sees it. Attempts and retries happen elsewhere.
//!
//! | state     | what happens                         | next      |
//! |-----------|--------------------------------------|-----------|
//! | Scheduled | completed, failed, the run cancelled | Settled   |
//! | Scheduled | its future is dropped                | forgotten |
//! | Settled   | its future takes the outcome         | forgotten |

use std::task::{Poll, Waker};

use crate::{Failure, Payload};

#[derive(Debug)]
pub(super) enum Activity {
    Scheduled { waker: Option<Waker> },
    Settled(Result<Payload, Failure>),
}

impl Activity {
    pub(super) fn scheduled() -> Self {
        Activity::Scheduled { waker: None }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self, Activity::Scheduled { .. })
    }

    /// The first outcome stays.
    pub(super) fn settle(&mut self, outcome: Result<Payload, Failure>) {
        if let Activity::Scheduled { waker } = self {
            let waker = waker.take();
            *self = Activity::Settled(outcome);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    pub(super) fn poll(&mut self, waker: &Waker) -> Poll<Result<Payload, Failure>> {
        match self {
            Activity::Scheduled { waker: known } => {
                *known = Some(waker.clone());
                Poll::Pending
            }
            Activity::Settled(outcome) => Poll::Ready(outcome.clone()),
        }
    }
}
