//! What the engine asks for: carried out by the driver (`driver.rs`), which owns everything that
//! the engine itself does not know of, such as the store's answers, tasks and clocks.

use std::time::Duration;

use resurgam_core::Timestamp;
use resurgam_store::Node;

use super::Stamp;
use super::read::Read;
use crate::retention::Retention;

/// Something that is to be done.
#[derive(Debug)]
pub(crate) enum Output {
    /// The store is asked, after a while.
    Read {
        read: Read,
        after: Duration,
        /// The answer is worth nothing when this has changed.
        stamp: Option<Stamp>,
    },
    /// The store is asked for the right to work, after a while.
    TryOwn { node: Node, after: Duration },
    /// The right to work is given back; attempts, transactions and sweeps end where they stand.
    StepDown,
    /// Closed instances that are old enough at this time are deleted.
    Sweep { retention: Retention, now: Timestamp },
}
