//! A child as the workflow that started it sees it.
//!
//! | state   | what happens                              | next                               |
//! |---------|-------------------------------------------|------------------------------------|
//! | Started | it completed, failed, could not be started | Settled                            |
//! | Started | its future is dropped                     | forgotten; the child is cancelled  |
//! | Started | its handle is dropped                     | nobody hears of it; it goes on     |
//! | Started | the run is cancelled                      | Settled; the child is cancelled    |
//! | Started | the run ends                              | what its [`ParentClose`] says      |
//! | Settled | its future takes the outcome              | forgotten                          |
//!
//! A child with a handle whose [`ParentClose`] is not to cancel it goes on when the run is
//! cancelled, until the run ends.

use super::wait::Wait;
use crate::event::ParentClose;
use crate::{Failure, Payload};

#[derive(Debug)]
pub(super) struct Child {
    pub(super) wait: Wait<Payload>,
    pub(super) parent_close: ParentClose,
    /// True when whoever started it has a handle: it goes on when nobody waits for it.
    has_handle: bool,
    /// True once nobody will ask for its outcome.
    pub(super) unheard: bool,
    /// True once it has ended, or was asked to end.
    over: bool,
}

impl Child {
    pub(super) fn started(shielded: bool, parent_close: ParentClose, has_handle: bool) -> Self {
        let wait = Wait::open(shielded);
        Child { wait, parent_close, has_handle, unheard: false, over: false }
    }

    /// True while it runs as far as its parent knows, and nobody has asked it to end.
    pub(super) fn is_running(&self) -> bool {
        !self.over
    }

    /// It ended.
    pub(super) fn settle(&mut self, outcome: Result<Payload, Failure>) {
        self.over = true;
        self.wait.settle(outcome);
    }

    /// It is asked to end.
    pub(super) fn end(&mut self) {
        self.over = true;
    }

    /// The run that started it is cancelled, and so whoever waits for it hears. True when it is to
    /// be cancelled as well.
    pub(super) fn parent_cancelled(&mut self, failure: &Failure) -> bool {
        self.wait.settle(Err(failure.clone()));
        let goes_on = self.has_handle && self.parent_close != ParentClose::Cancel;
        self.over |= !goes_on;
        !goes_on
    }
}
