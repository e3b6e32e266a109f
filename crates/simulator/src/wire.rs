//! What a process sends to the database, and the answers that it awaits.
//!
//! A call of the store is a future that puts a job on the wire when it is first polled, and is
//! ready when the world has put the answer there. The world decides when the job reaches the
//! database, whether it does, and whether the answer comes back.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use resurgam_core::Timestamp;
use resurgam_worker::{Busy, Clock, Moment};

use crate::database::Database;

/// What is done at the database.
pub(crate) type Job = Box<dyn FnOnce(&mut Database) -> Reply + Send>;

/// What the database answers, for whoever asked to read.
pub(crate) type Reply = Box<dyn Any + Send>;

/// Something that a process waits for.
pub(crate) enum Sent {
    /// A job for the database.
    Ask {
        /// What it is, for people who read a trace.
        what: &'static str,
        /// Whether it writes: then it matters whether it was lost on the way there or back.
        writes: bool,
        /// The job.
        job: Job,
    },
    /// Some time.
    Sleep(Duration),
    /// Some time, or less when shards move.
    Nap(Duration),
}

/// How a job fared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lost;

/// The wire of one process.
#[derive(Clone, Default)]
pub(crate) struct Wire(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    now: Duration,
    asked: u64,
    sent: Vec<(u64, Sent)>,
    answers: BTreeMap<u64, Option<Reply>>,
}

impl Wire {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time that has passed, for whoever is polled next.
    pub(crate) fn passed(&self, now: Duration) {
        self.state().now = now;
    }

    /// The time that has passed.
    pub(crate) fn now(&self) -> Duration {
        self.state().now
    }

    /// What was sent since this was last asked.
    pub(crate) fn sent(&self) -> Vec<(u64, Sent)> {
        std::mem::take(&mut self.state().sent)
    }

    /// Something that was awaited is there. Without a reply nobody knows what became of it.
    pub(crate) fn answer(&self, number: u64, reply: Option<Reply>) {
        self.state().answers.insert(number, reply);
    }

    /// Has the database do something.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        what: &'static str,
        writes: bool,
        job: impl FnOnce(&mut Database) -> T + Send + 'static,
    ) -> Result<T, Lost> {
        let job: Job = Box::new(move |database| Box::new(job(database)));
        let reply = self.wait(Sent::Ask { what, writes, job }).await.ok_or(Lost)?;
        reply.downcast().map(|reply| *reply).map_err(|_| Lost)
    }

    /// Waits.
    pub(crate) async fn sleep(&self, time: Duration) {
        self.wait(Sent::Sleep(time)).await;
    }

    /// Waits, but not when shards move.
    pub(crate) async fn nap(&self, time: Duration) {
        self.wait(Sent::Nap(time)).await;
    }

    async fn wait(&self, sent: Sent) -> Option<Reply> {
        let number = {
            let mut state = self.state();
            state.asked += 1;
            let number = state.asked;
            state.sent.push((number, sent));
            number
        };
        poll_fn(|_| match self.state().answers.remove(&number) {
            Some(reply) => Poll::Ready(reply),
            None => Poll::Pending,
        })
        .await
    }
}

/// The clock of something that a process does beside its node.
pub(crate) struct WireClock {
    wire: Wire,
    /// What it said, and when.
    began: (Duration, Timestamp),
}

impl WireClock {
    /// A clock that says this now.
    pub(crate) fn new(wire: Wire, now: Timestamp) -> Self {
        let began = (wire.now(), now);
        WireClock { wire, began }
    }
}

impl Clock for WireClock {
    fn now(&self) -> Timestamp {
        let (began, said) = self.began;
        said.saturating_add(self.wire.now().saturating_sub(began))
    }

    fn sleep_until(&self, time: Timestamp) -> Moment {
        self.sleep(time.since(self.now()))
    }

    fn elapsed(&self) -> Duration {
        self.wire.now()
    }

    fn sleep(&self, time: Duration) -> Moment {
        let wire = self.wire.clone();
        Box::pin(async move {
            wire.sleep(time).await;
            Busy::default()
        })
    }

    fn busy(&self, _what: &dyn fmt::Display) -> Busy {
        Busy::default()
    }
}

impl fmt::Debug for WireClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WireClock at {}", self.now())
    }
}
