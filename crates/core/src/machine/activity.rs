//! An activity call as its workflow sees it. Attempts and retries happen elsewhere.
//!
//! | state     | what happens                         | next      |
//! |-----------|--------------------------------------|-----------|
//! | Scheduled | completed, failed, the run cancelled | Settled   |
//! | Scheduled | its future is dropped                | forgotten |
//! | Settled   | its future takes the outcome         | forgotten |
//!
//! A call that is given up before its outcome is known, or whose time is up while its attempt still
//! works, *settles* outside of this table where the run has anything to undo: the machine keeps it,
//! with its [`Undo`] if there is one, for the activity may have taken effect.

use std::fmt;

use super::wait::Wait;
use crate::Payload;
use crate::command::ActivityCall;
use crate::retry::RetryPolicy;

/// What a call has beside its arguments, for as long as it is open.
#[derive(Debug, Default)]
pub struct Ask {
    /// True when the run's cancellation does not concern it.
    pub shielded: bool,
    /// What undoes it.
    pub undo: Option<Undo>,
}

/// Makes the call that undoes an activity from what the activity returned.
pub struct Undo(Box<dyn FnOnce(&Payload) -> ActivityCall + Send>);

impl Undo {
    /// Wraps the user's closure, which may panic.
    pub fn new(undo: impl FnOnce(&Payload) -> ActivityCall + Send + 'static) -> Self {
        Undo(Box::new(undo))
    }

    /// Has the call that undoes tried again by this policy.
    pub fn with_retry(self, policy: RetryPolicy) -> Self {
        Undo::new(move |result| {
            let mut call = self.call(result);
            call.options.retry = Some(Box::new(policy));
            call
        })
    }

    pub(crate) fn call(self, result: &Payload) -> ActivityCall {
        (self.0)(result)
    }
}

impl fmt::Debug for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Undo")
    }
}

#[derive(Debug)]
pub(super) struct Activity {
    pub(super) wait: Wait<Payload>,
    pub(super) undo: Option<Undo>,
    /// The size of its arguments.
    pub(super) input_len: usize,
}

impl Activity {
    pub(super) fn scheduled(ask: Ask, input_len: usize) -> Self {
        Activity { wait: Wait::open(ask.shielded), undo: ask.undo, input_len }
    }

    pub(super) fn is_open(&self) -> bool {
        self.wait.is_open()
    }
}
