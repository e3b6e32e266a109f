//! What a process sends to the database, and the answers that it awaits.
//!
//! A call of the store is a future that puts a job on the wire when it is first polled, and is
//! ready when the world has put the answer there. The world decides when the job reaches the
//! database, whether it does, and whether the answer comes back. Where there are servers, a process
//! first connects to the primary, which [`PrimaryMemory`] finds.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use resurgam_core::Timestamp;
use resurgam_store::fleet::{PrimaryMemory, Purpose, ServerReport};
use resurgam_store::model::Sharing;
use resurgam_worker::{Busy, Clock, Moment};

use crate::database::Database;

/// What is done at the database.
pub(crate) type Job = Box<dyn FnOnce(&mut Database) -> Reply + Send>;

/// What the database answers, for whoever asked to read.
pub(crate) type Reply = Box<dyn Any + Send>;

/// Something that a process waits for.
pub(crate) enum Sent {
    /// A connection: all servers that answer tell what they are.
    Connect {
        /// The highest timeline that this process has seen.
        remembers: Option<u32>,
    },
    /// A job for the database.
    Ask {
        /// What it is, for people who read a trace.
        what: &'static str,
        /// Whether it writes: then it matters whether it was lost on the way there or back.
        writes: bool,
        /// The timeline of the server that the process is connected to; none with a file.
        server: Option<u32>,
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
    /// What is known of the primary; none with a file.
    primary: Option<PrimaryMemory>,
    /// The timeline of the server that it is connected to.
    connected: Option<u32>,
    /// How often all connections broke.
    breaks: u64,
}

impl Wire {
    /// The wire of a process.
    pub(crate) fn new(sharing: Sharing) -> Self {
        let primary = (sharing == Sharing::ManyNodes).then(PrimaryMemory::default);
        Wire(Arc::new(Mutex::new(State { primary, ..State::default() })))
    }

    /// All connections to the database are gone.
    pub(crate) fn connections_broke(&self) {
        let mut state = self.state();
        state.connected = None;
        state.breaks += 1;
    }

    /// The timeline of the server that is the primary; none with a file. Connects when it must.
    async fn server(&self) -> Result<Option<u32>, Lost> {
        let (remembers, connected, breaks) = {
            let state = self.state();
            let Some(primary) = &state.primary else { return Ok(None) };
            (primary.timeline(), state.connected, state.breaks)
        };
        if connected.is_some() {
            return Ok(connected);
        }
        let reply = self.wait(Sent::Connect { remembers }).await.ok_or(Lost)?;
        let servers: Box<Vec<ServerReport>> = reply.downcast().map_err(|_| Lost)?;
        let mut state = self.state();
        if state.breaks != breaks {
            // The answer came to a process that stood still, and the connection is gone since.
            return Err(Lost);
        }
        let State { primary: Some(primary), connected, .. } = &mut *state else { return Err(Lost) };
        primary.heard(&servers);
        let chosen = primary.choose(Purpose::Work, &servers).map_err(|_| Lost)?;
        primary.admitted(&servers[chosen]);
        *connected = servers[chosen].timeline();
        Ok(*connected)
    }

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
        let server = self.server().await?;
        let job: Job = Box::new(move |database| Box::new(job(database)));
        let reply = self.wait(Sent::Ask { what, writes, server, job }).await.ok_or(Lost)?;
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
