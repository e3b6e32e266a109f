//! A clock that only moves while a test waits and nothing is under way.
//!
//! Whoever works holds a [`Busy`]. A test that waits looks: as long as somebody is busy it does
//! nothing, and when nobody is, and what it waits for has not come, it moves the clock to the
//! earliest moment anybody sleeps until. The sleeper is busy from that moment, so the clock cannot
//! run on before it did its work.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use resurgam_core::Timestamp;
use resurgam_core::duration::Human;
use resurgam_worker::{Awaits, Busy, Clock, Moment};
use tokio::sync::Notify;

/// The time at which every test begins: the first of January 2026.
const BEGIN: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// The time after the end of a test.
const END: Timestamp = Timestamp::from_millis(i64::MAX);

/// A clock for tests. Cloning gives another handle to the same one.
#[derive(Clone)]
pub struct VirtualClock(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// Something changed that a waiting test may want to know.
    changed: Notify,
}

struct State {
    now: Timestamp,
    next: u64,
    /// Who is at work.
    busy: BTreeMap<u64, String>,
    /// Who sleeps until when.
    sleepers: BTreeMap<(Timestamp, u64), Option<Waker>>,
    /// What the test awaits, through the clock or past it.
    awaited: BTreeMap<u64, String>,
    /// How many of these waits let time pass.
    waits: u32,
    /// How often it was moved because somebody slept until then.
    jumps: u64,
    /// Counts what happens, to tell a hang from slow progress.
    progress: u64,
    /// Nothing moves any more, and why.
    stalled: Option<String>,
}

/// Why a test that waits will wait for ever.
pub(crate) enum Stall {
    /// Nothing is under way and nothing is due.
    Nothing,
    /// Nothing has moved for a long while: what is under way.
    Hang(String),
}

impl VirtualClock {
    /// A clock at its beginning.
    pub fn new() -> Self {
        let state = State {
            now: BEGIN,
            next: 0,
            busy: BTreeMap::new(),
            sleepers: BTreeMap::new(),
            awaited: BTreeMap::new(),
            waits: 0,
            jumps: 0,
            progress: 0,
            stalled: None,
        };
        VirtualClock(Arc::new(Inner { state: Mutex::new(state), changed: Notify::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something, and lets the time run meanwhile.
    pub(crate) async fn wait_for<T>(
        &self,
        what: &str,
        wanted: impl Future<Output = T>,
    ) -> Result<T, Stall> {
        tokio::pin!(wanted);
        let _wait = Wait::new(self, what);
        loop {
            let changed = self.0.changed.notified();
            let idle = self.is_idle_or_stalled()?;
            // Looked at before asking: an answer comes before its sender is idle.
            if let Some(value) = poll_once(&mut wanted).await {
                return Ok(value);
            }
            if idle && self.is_idle() {
                match self.jump(Timestamp::from_millis(i64::MAX)) {
                    true => continue,
                    false => return Err(Stall::Nothing),
                }
            }
            tokio::select! {
                biased;
                value = &mut wanted => return Ok(value),
                () = changed => {}
            }
        }
    }

    /// Lets this much time pass, with everything that is due in it.
    pub(crate) async fn advance(&self, time: Duration) -> Result<(), Stall> {
        let until = self.lock().now.saturating_add(time);
        let _wait = Wait::new(self, "time to pass");
        // What was spawned before asks first: it is not busy until it was polled.
        tokio::task::yield_now().await;
        loop {
            let changed = self.0.changed.notified();
            if self.is_idle_or_stalled()? && !self.jump(until) {
                let mut state = self.lock();
                state.now = state.now.max(until);
                return Ok(());
            }
            changed.await;
        }
    }

    /// Ready once the clock has come to this time; it is not made to go there.
    pub(crate) async fn passed(&self, time: Timestamp) {
        loop {
            let changed = self.0.changed.notified();
            if self.lock().now >= time {
                return;
            }
            changed.await;
        }
    }

    /// How often it was moved because somebody slept until then.
    pub(crate) fn jumps(&self) -> u64 {
        self.lock().jumps
    }

    fn is_idle(&self) -> bool {
        self.lock().busy.is_empty()
    }

    /// Whether nobody is busy; the error says that nothing moves any more.
    fn is_idle_or_stalled(&self) -> Result<bool, Stall> {
        let state = self.lock();
        match &state.stalled {
            Some(report) => Err(Stall::Hang(report.clone())),
            None => Ok(state.busy.is_empty()),
        }
    }

    /// Changes whenever something happens.
    pub(crate) fn progress(&self) -> u64 {
        self.lock().progress
    }

    /// Ends the waits that let time pass. False when there are none: whatever the test awaits, it
    /// is not this clock that could end it.
    pub(crate) fn stall(&self, report: &str) -> bool {
        let mut state = self.lock();
        state.stalled = Some(report.to_string());
        let heard = state.waits > 0;
        drop(state);
        self.0.changed.notify_waiters();
        heard
    }

    /// What is under way and what is due.
    pub(crate) fn report(&self) -> String {
        let state = self.lock();
        let list = |names: &BTreeMap<u64, String>| {
            names.values().map(String::as_str).collect::<Vec<_>>().join("; ")
        };
        let mut report = match state.busy.is_empty() {
            false => format!(
                "these hold the clock: {}. (An activity under test waits through ctx, or with \
                 resurgam_testing::never.)",
                list(&state.busy)
            ),
            true => "nothing is under way: the test awaits something that only time can bring, \
                     and time passes only in methods of TestApp and its instances, such as \
                     app.advance(..) and run.result()."
                .to_string(),
        };
        if !state.awaited.is_empty() {
            report += &format!("\nAwaited: {}.", list(&state.awaited));
        }
        let now = since_begin(state.now);
        report += &match state.sleepers.first_key_value() {
            Some(((next, _), _)) => {
                format!("\nThe clock is at {now}; the next thing is due at {}.", since_begin(*next))
            }
            None => format!("\nThe clock is at {now}, and nothing is due."),
        };
        report
    }

    /// Moves the clock to the next moment that somebody sleeps until. False when there is none.
    fn jump(&self, until: Timestamp) -> bool {
        let wakers = {
            let mut state = self.lock();
            let Some(((at, _), _)) = state.sleepers.first_key_value() else { return false };
            let at = *at;
            if at > until {
                return false;
            }
            state.now = state.now.max(at);
            state.jumps += 1;
            state.progress += 1;
            state.wake_until(at)
        };
        wakers.into_iter().for_each(Waker::wake);
        self.0.changed.notify_waiters();
        true
    }

    /// Wakes everybody who sleeps, now and later: nobody moves the clock any more.
    pub(crate) fn end(&self) {
        let wakers = {
            let mut state = self.lock();
            state.now = END;
            state.wake_until(END)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Somebody is no longer busy.
    fn settle(&self) {
        self.lock().progress += 1;
        self.0.changed.notify_waiters();
    }

    fn guard(&self, id: u64) -> Busy {
        Busy::new(Guard { clock: self.clone(), id })
    }
}

impl State {
    /// Makes everybody busy who sleeps until then.
    fn wake_until(&mut self, at: Timestamp) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while let Some(entry) = self.sleepers.first_entry().filter(|entry| entry.key().0 <= at) {
            let (_, id) = *entry.key();
            wakers.extend(entry.remove());
            self.busy.insert(id, "a sleeper that woke".to_string());
        }
        wakers
    }

    fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// A time as people who read a test think of it.
pub(crate) fn since_begin(time: Timestamp) -> String {
    format!("+{}", Human(time.since(BEGIN)))
}

/// The value of a future that is ready when it is polled.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| match Pin::new(&mut *future).poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        self.lock().now
    }

    fn sleep_until(&self, time: Timestamp) -> Moment {
        let mut state = self.lock();
        let id = state.id();
        if time <= state.now {
            state.busy.insert(id, "a sleeper that woke".to_string());
        } else {
            state.sleepers.insert((time, id), None);
        }
        // Those who sleep again and again once the clock has ended let others run in between.
        let tired = state.now == END;
        drop(state);
        Box::pin(Sleeping { clock: self.clone(), time, id, done: false, tired })
    }

    fn elapsed(&self) -> Duration {
        self.now().since(BEGIN)
    }

    fn wakes_for_statistics(&self) -> bool {
        false
    }

    fn sleep(&self, time: Duration) -> Moment {
        self.sleep_until(self.now().saturating_add(time))
    }

    fn busy(&self, what: &dyn fmt::Display) -> Busy {
        let mut state = self.lock();
        let id = state.id();
        state.busy.insert(id, what.to_string());
        state.progress += 1;
        drop(state);
        self.guard(id)
    }

    fn awaits(&self, what: &dyn fmt::Display) -> Awaits {
        let mut state = self.lock();
        let id = state.id();
        state.awaited.insert(id, what.to_string());
        drop(state);
        Awaits::new(Awaited { clock: self.clone(), id })
    }
}

/// A test waits, and lets time pass.
struct Wait<'a> {
    clock: &'a VirtualClock,
    id: u64,
}

impl<'a> Wait<'a> {
    fn new(clock: &'a VirtualClock, what: &str) -> Self {
        let mut state = clock.lock();
        let id = state.id();
        state.awaited.insert(id, what.to_string());
        state.waits += 1;
        drop(state);
        Wait { clock, id }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut state = self.clock.lock();
        state.awaited.remove(&self.id);
        state.waits -= 1;
    }
}

/// Somebody outside awaits an answer of the engine.
struct Awaited {
    clock: VirtualClock,
    id: u64,
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.clock.lock().awaited.remove(&self.id);
    }
}

/// Somebody is at work.
struct Guard {
    clock: VirtualClock,
    id: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.clock.lock().busy.remove(&self.id);
        self.clock.settle();
    }
}

/// Somebody sleeps.
struct Sleeping {
    clock: VirtualClock,
    time: Timestamp,
    id: u64,
    done: bool,
    tired: bool,
}

impl Future for Sleeping {
    type Output = Busy;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Busy> {
        let mut state = self.clock.lock();
        if let Some(waker) = state.sleepers.get_mut(&(self.time, self.id)) {
            *waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        drop(state);
        if std::mem::take(&mut self.tired) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.done = true;
        Poll::Ready(self.clock.guard(self.id))
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let mut state = self.clock.lock();
        let slept = state.sleepers.remove(&(self.time, self.id)).is_some();
        let was_busy = !slept && state.busy.remove(&self.id).is_some();
        drop(state);
        if was_busy {
            self.clock.settle();
        }
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        VirtualClock::new()
    }
}

impl fmt::Debug for VirtualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VirtualClock at {}", self.now())
    }
}
