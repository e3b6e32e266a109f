//! A child as the workflow that started it sees it.
//!
//! | state   | what happens                              | next                               |
//! |---------|-------------------------------------------|------------------------------------|
//! | Started | it completed, failed, could not be started | Settled                            |
//! | Started | its future is dropped, the run cancelled  | forgotten; the child is cancelled  |
//! | Started | the run ends                              | what its [`ParentClose`] says      |
//! | Settled | its future takes the outcome              | forgotten                          |

use super::wait::Wait;
use crate::Payload;
use crate::event::ParentClose;

#[derive(Debug)]
pub(super) struct Child {
    pub(super) wait: Wait<Payload>,
    pub(super) parent_close: ParentClose,
}
