//! Carries out what the engine asks for, and brings it the answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use resurgam_core::Timestamp;
use resurgam_store::{Node, Ownership, Owning};
use tokio::task::JoinHandle;

use super::output::Output;
use super::own::RoleAnswer;
use super::read::Read;
use super::{Engine, Message, Stamp};
use crate::clock::{Busy, Clock, Moment};
use crate::retention::{Pace, Retention, sweep};

/// A look at many instances that takes longer than this is followed by a pause.
const LONG_LOOK: Duration = Duration::from_millis(2);

impl Engine {
    /// Does what is to be done.
    pub(super) fn do_outputs(&mut self) {
        for output in std::mem::take(&mut self.outputs) {
            match output {
                Output::Read { read, after, stamp } => self.ask_store(read, after, stamp),
                Output::TryOwn { node, after } => self.try_own(node, after),
                Output::StepDown => self.give_right_back(),
                Output::Sweep { retention, now } => self.sweep(retention, now),
            }
        }
    }

    /// Asks the store beside the loop.
    fn ask_store(&self, read: Read, after: Duration, stamp: Option<Stamp>) {
        let (store, clock) = (self.store.clone(), self.clock.clone());
        let (log, mailbox) = (self.outage_log.clone(), self.mailbox.stamped(stamp));
        let waiting = Waiting::new(&*clock, after, "a read");
        tokio::spawn(async move {
            let mut busy = Some(waiting.over().await);
            if mailbox.is_closed() {
                return;
            }
            let (began, many) = (clock.elapsed(), matches!(read, Read::Ends { .. }));
            let message = read.ask(&*store, &log).await;
            let took = clock.elapsed().saturating_sub(began);
            // Waiting for ten thousand instances must not keep a core busy.
            if many && took > LONG_LOOK {
                let moment = clock.sleep(took * 4);
                drop(busy.take());
                busy = Some(moment.await);
            }
            message.into_iter().for_each(|message| mailbox.send(message));
            drop(busy);
        });
    }

    /// Asks for the right to work.
    fn try_own(&self, node: Node, after: Duration) {
        let (store, clock, mailbox) =
            (self.store.clone(), self.clock.clone(), self.mailbox.clone());
        let right = self.right.clone();
        let waiting = Waiting::new(&*clock, after, "a node that asks to work");
        tokio::spawn(async move {
            let busy = waiting.over().await;
            if mailbox.is_closed() {
                return;
            }
            mailbox.send(Message::Role(match store.try_own(node).await {
                Ok(Owning::Taken(taken)) => {
                    let shards = taken.shards().to_vec();
                    *right.lock().unwrap_or_else(PoisonError::into_inner) = Some(taken);
                    Ok(RoleAnswer::Taken(shards))
                }
                Ok(Owning::Held(owner)) => Ok(RoleAnswer::Held(owner)),
                Err(error) => Err(error),
            }));
            drop(busy);
        });
    }

    /// Gives the right to work back.
    fn give_right_back(&mut self) {
        self.sweeping = None;
        drop(self.right.lock().unwrap_or_else(PoisonError::into_inner).take());
        let (store, mailbox) = (self.store.clone(), self.mailbox.clone());
        let busy = self.clock.busy(&"a node that steps down");
        tokio::spawn(async move {
            if let Err(error) = store.disown().await {
                tracing::warn!("step down: {error}");
            }
            mailbox.send(Message::SteppedDown);
            drop(busy);
        });
    }

    /// Deletes what is closed and old.
    fn sweep(&mut self, retention: Retention, now: Timestamp) {
        let (store, clock, mailbox) =
            (self.store.clone(), self.clock.clone(), self.mailbox.clone());
        let busy = self.clock.busy(&"a sweep");
        let sweep = tokio::spawn(async move {
            let mut pace = Pace::new(&*clock, busy);
            let next = sweep(&*store, &mut pace, retention, now).await;
            mailbox.send(Message::Swept { next });
        });
        self.sweeping = Some(Sweeping(sweep));
    }
}

/// The right to work, from when the store has given it.
pub(super) type Right = Arc<Mutex<Option<Ownership>>>;

/// A sweep that is under way. It ends with the engine, as in a crash.
#[derive(Debug)]
pub(super) struct Sweeping(JoinHandle<()>);

impl Drop for Sweeping {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Something that is done after a while. The clock hears of it at once.
enum Waiting {
    Now(Busy),
    Until(Moment),
}

impl Waiting {
    fn new(clock: &dyn Clock, after: Duration, what: &'static str) -> Self {
        match after {
            Duration::ZERO => Waiting::Now(clock.busy(&what)),
            after => Waiting::Until(clock.sleep(after)),
        }
    }

    async fn over(self) -> Busy {
        match self {
            Waiting::Now(busy) => busy,
            Waiting::Until(moment) => moment.await,
        }
    }
}
