//! Time, injected: the engine never asks the system.
//!
//! A test's clock stands still while anything is under way and jumps to the next due thing
//! otherwise. For that it must know what is under way: whoever works holds a [`Busy`]. The system's
//! clock does not care.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use resurgam_core::Timestamp;
use resurgam_store::Store;

/// Where time comes from.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The time.
    fn now(&self) -> Timestamp;

    /// Ready at this time. Whoever waited is busy from then on.
    fn sleep_until(&self, time: Timestamp) -> Moment;

    /// Says that work is under way until the guard is dropped. `what` names it, for the message of
    /// a test that hangs.
    fn busy(&self, what: &dyn fmt::Display) -> Busy;

    /// Says that somebody outside awaits an answer until the guard is dropped. That is no work and
    /// holds no clock; `what` is for the message of a test that hangs.
    fn awaits(&self, _what: &dyn fmt::Display) -> Awaits {
        Awaits::default()
    }
}

/// A point in time that somebody waits for.
pub type Moment = Pin<Box<dyn Future<Output = Busy> + Send>>;

/// Work is under way while this exists.
#[derive(Default)]
#[must_use = "work is under way while this exists"]
pub struct Busy(#[allow(dead_code, reason = "only its drop matters")] Option<Box<dyn Any + Send>>);

impl Busy {
    /// Keeps `guard` for as long as the work is under way.
    pub fn new(guard: impl Any + Send) -> Self {
        Busy(Some(Box::new(guard)))
    }
}

/// Somebody outside awaits an answer while this exists.
#[derive(Default)]
#[must_use = "somebody awaits an answer while this exists"]
pub struct Awaits(
    #[allow(dead_code, reason = "only its drop matters")] Option<Box<dyn Any + Send>>,
);

impl Awaits {
    /// Keeps `guard` for as long as the answer is awaited.
    pub fn new(guard: impl Any + Send) -> Self {
        Awaits(Some(Box::new(guard)))
    }
}

impl fmt::Debug for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Busy")
    }
}

/// The system's time: its wall clock when the process started, and monotonic from there, so that a
/// step of the wall clock moves no due time.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    wall: Timestamp,
    start: Instant,
}

impl SystemClock {
    /// Reads the wall clock, for the only time.
    pub fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        SystemClock { wall: Timestamp::EPOCH.saturating_add(since), start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.wall.saturating_add(self.start.elapsed())
    }

    fn sleep_until(&self, time: Timestamp) -> Moment {
        asleep(time.since(self.now()))
    }

    fn busy(&self, _what: &dyn fmt::Display) -> Busy {
        Busy::default()
    }
}

/// Real time passes by itself, whoever tells what time it is.
fn asleep(wait: Duration) -> Moment {
    Box::pin(async move {
        tokio::time::sleep(wait).await;
        Busy::default()
    })
}

/// The time as a store tells it, so that many nodes agree on when something is due. Until the store
/// has told it, and where it tells none, the system's.
pub struct StoreClock {
    store: Arc<dyn Store>,
    system: SystemClock,
}

impl StoreClock {
    /// A clock that follows a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        StoreClock { store, system: SystemClock::new() }
    }
}

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        self.store.now().unwrap_or_else(|| self.system.now())
    }

    fn sleep_until(&self, time: Timestamp) -> Moment {
        asleep(time.since(self.now()))
    }

    fn busy(&self, _what: &dyn fmt::Display) -> Busy {
        Busy::default()
    }
}

impl fmt::Debug for StoreClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreClock at {}", self.now())
    }
}
