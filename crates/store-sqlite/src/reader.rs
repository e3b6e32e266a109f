//! The threads that read.
//!
//! A read is a closure that gets a connection. In a file every thread has a connection of its own
//! and takes the next read from a common channel; in memory there is one connection, and the
//! writer runs the reads between its commits.

use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use resurgam_store::Result;

use crate::quarantine::Quarantined;
use crate::still::{Opened, Seat};
use crate::writer::Order;

/// A read. Rows that it cannot make sense of go to the second argument before it answers, so that
/// they are marked before anything that its caller does next.
pub(crate) type ReadJob = Box<dyn FnOnce(Seat<'_>, &mut dyn FnMut(Vec<Quarantined>)) + Send>;

/// What a reader is asked to do.
pub(crate) enum ReadOrder {
    Read(ReadJob),
    Close,
}

/// Takes reads until the store is closed or dropped. What was opened without a log is opened anew
/// once it has one.
pub(crate) fn run(
    mut opened: Opened,
    open: impl Fn() -> Result<Opened>,
    orders: &Arc<Mutex<Receiver<ReadOrder>>>,
    writer: &Sender<Order>,
) {
    loop {
        // The lock covers the waiting only. Nothing can panic in there, so it is never poisoned.
        let order = orders.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match order {
            Ok(ReadOrder::Read(job)) => {
                if opened.still.as_ref().is_some_and(|still| !still.is_still()) {
                    // When this fails, what is read is not believed, and the next read tries again.
                    opened = open().unwrap_or(opened);
                }
                let Opened { connection, still } = &opened;
                job(Seat { connection, still: still.as_ref() }, &mut |rows| {
                    // Without a writer nobody can mark them, and they are found again another time.
                    let _ = writer.send(Order::Quarantine(rows));
                });
            }
            Ok(ReadOrder::Close) | Err(_) => return,
        }
    }
}
