//! The worker's side of an [`ActivityContext`](resurgam_sdk::ActivityContext): what an attempt can
//! be told, and what it tells.
//!
//! It is shared between the attempt, on whatever thread that runs, and the loop. Heartbeats are
//! taken here and handed on to the loop: the first at once, later ones not more often than the
//! throttle allows, so that an attempt may report as often as it likes.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use resurgam_core::{CallKey, Failure, Kind, Payload, Timestamp, UserWork};
use resurgam_sdk::{ActivityDefinition, AttemptHost, HostFuture, Place};
use resurgam_store::rows::Heartbeat;
use tokio::sync::Notify;

use crate::clock::{Busy, Clock};
use crate::driver::UserTransaction;
use crate::mailbox::{Mail, Mailbox};
use crate::node::Input;

/// What an attempt and the loop share.
#[derive(Debug)]
pub(crate) struct Host {
    facts: AttemptFacts,
    clock: Arc<dyn Clock>,
    mailbox: Mailbox,
    state: Mutex<State>,
    told: Notify,
    let_go: Notify,
    cut: Notify,
    held_back: Notify,
}

/// What a host knows about its attempt.
#[derive(Debug)]
pub(crate) struct AttemptFacts {
    pub(crate) call: CallKey,
    pub(crate) token: u64,
    /// A process before this one has begun it.
    pub(crate) resumed: bool,
    pub(crate) number: u32,
    pub(crate) activity: Arc<ActivityDefinition>,
    pub(crate) instance: String,
    pub(crate) queue: String,
    /// The shortest time between two heartbeats that are handed on.
    pub(crate) throttle: Duration,
    /// The largest details of a heartbeat, in bytes.
    pub(crate) max_payload: usize,
}

/// An attempt's name, for a clock that wants to know; most do not.
impl fmt::Display for AttemptFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {} of {} in {}", self.number, self.activity.name, self.instance)
    }
}

#[derive(Debug)]
struct State {
    /// Held while the attempt works, and not while it waits on its context.
    busy: Option<Busy>,
    waiting: bool,
    code: Code,
    /// It is to end.
    told: bool,
    /// Its process ends, and it goes on elsewhere.
    let_go: bool,
    /// Nobody wants to hear of it any more.
    over: bool,
    /// Its start, or its last heartbeat, by the clock's elapsed time.
    last_sign: Duration,
    latest: Option<Heartbeat>,
    /// When a heartbeat was last handed on to the loop, by the clock's elapsed time.
    handed_on: Option<Duration>,
    is_held_back: bool,
    /// Held until the clock knows when a heartbeat is handed on that was held back.
    alarm: Option<Busy>,
    /// Called when it is told that it is to end.
    listeners: Listeners,
}

/// Something to call once.
type Listener = Box<dyn FnOnce() + Send>;

/// Those who want to hear of something once.
#[derive(Default)]
struct Listeners(Vec<Listener>);

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} listeners", self.0.len())
    }
}

/// Where the activity's code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    /// It has not begun.
    New,
    /// It may have done something.
    Begun,
    /// It never begins.
    Withdrawn,
}

impl Host {
    pub(crate) fn new(facts: AttemptFacts, clock: Arc<dyn Clock>, mailbox: Mailbox) -> Self {
        let state = State {
            busy: Some(clock.busy(&facts)),
            waiting: false,
            code: Code::New,
            told: false,
            let_go: false,
            over: false,
            last_sign: clock.elapsed(),
            latest: None,
            handed_on: None,
            is_held_back: false,
            alarm: None,
            listeners: Listeners::default(),
        };
        let (told, let_go) = (Notify::new(), Notify::new());
        let (cut, held_back) = (Notify::new(), Notify::new());
        Host { facts, clock, mailbox, state: Mutex::new(state), told, let_go, cut, held_back }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that the code begins. False when it must not: it was withdrawn, or nobody wants to hear
    /// of it any more.
    pub(crate) fn begin(&self) -> bool {
        let mut state = self.lock();
        if state.code == Code::New {
            state.code = if state.over { Code::Withdrawn } else { Code::Begun };
        }
        state.code == Code::Begun
    }

    /// True when nobody wants to hear of the attempt any more.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.lock();
        state.over || state.code == Code::Withdrawn
    }

    /// Keeps the code from beginning. False when it has begun.
    pub(crate) fn withdraw(&self) -> bool {
        let mut state = self.lock();
        if state.code == Code::New {
            state.code = Code::Withdrawn;
        }
        state.code == Code::Withdrawn
    }

    /// Tells the attempt that it is to end.
    pub(crate) fn tell(&self) {
        let mut state = self.lock();
        state.told = true;
        if state.waiting {
            // From here on it has something to do; the clock must not run on before it did.
            state.busy = Some(self.clock.busy(&self.facts));
        }
        let listeners = std::mem::take(&mut state.listeners);
        drop(state);
        self.told.notify_waiters();
        listeners.0.into_iter().for_each(|tell| tell());
    }

    /// The code has returned, and reported. Whoever still holds its context does no work of it, and
    /// what it is told from here on is nothing that it has to do.
    pub(crate) fn has_returned(&self) {
        let mut state = self.lock();
        state.waiting = false;
        let _released = state.busy.take();
    }

    /// Tells an attempt that outlives its process that the process ends.
    pub(crate) fn lets_go(&self) {
        let mut state = self.lock();
        state.let_go = true;
        if state.waiting {
            // From here on it has something to do; the clock must not run on before it did.
            state.busy = Some(self.clock.busy(&self.facts));
        }
        drop(state);
        self.let_go.notify_waiters();
    }

    /// The attempt is alive, as it said elsewhere.
    pub(crate) fn is_alive(&self) {
        self.lock().last_sign = self.clock.elapsed();
    }

    /// Tells the attempt that it is to end, and that nobody wants to hear of it any more.
    pub(crate) fn end(&self) {
        self.lock().over = true;
        self.tell();
    }

    /// Ends the attempt, and what watches over it.
    pub(crate) fn give_up(&self) {
        self.end();
        self.cut();
    }

    /// Begins the grace period of the attempt.
    pub(crate) fn cut(&self) {
        self.cut.notify_one();
    }

    /// Ready when the grace period of the attempt begins.
    pub(crate) async fn was_cut(&self) {
        self.cut.notified().await;
    }

    /// Lets the clock go on without this attempt: nobody watches over it any more.
    pub(crate) fn leave(&self) {
        self.release();
        drop(self.lock().alarm.take());
    }

    /// Lets the clock go on while the attempt waits.
    fn release(&self) {
        let _released = self.lock().busy.take();
    }

    /// When the attempt last gave a sign of life, by the clock's elapsed time.
    pub(crate) fn last_sign(&self) -> Duration {
        self.lock().last_sign
    }

    /// What the attempt reported last.
    pub(crate) fn heartbeat(&self) -> Option<Heartbeat> {
        self.lock().latest.clone()
    }

    /// Hands heartbeats on that had to wait, for as long as it is polled.
    pub(crate) async fn hand_on(&self) -> std::convert::Infallible {
        loop {
            self.held_back.notified().await;
            let next = self.lock().handed_on.map(|at| at.saturating_add(self.facts.throttle));
            let elapsed = self.clock.elapsed();
            let moment = self.clock.sleep(next.unwrap_or(elapsed).saturating_sub(elapsed));
            drop(self.lock().alarm.take());
            let _busy = moment.await;
            let mut state = self.lock();
            if state.is_held_back {
                self.send(&mut state);
            }
        }
    }

    /// Takes a heartbeat: hands it on, or keeps it until the throttle allows that.
    fn take(&self, state: &mut State, details: Payload, at: Timestamp) {
        state.latest = Some(Heartbeat { details, at });
        let (throttle, elapsed) = (self.facts.throttle, self.clock.elapsed());
        if state.handed_on.is_none_or(|before| before.saturating_add(throttle) <= elapsed) {
            self.send(state);
        } else if !std::mem::replace(&mut state.is_held_back, true) {
            state.alarm = Some(self.clock.busy(&self.facts));
            self.held_back.notify_one();
        }
    }

    fn send(&self, state: &mut State) {
        state.is_held_back = false;
        state.handed_on = Some(self.clock.elapsed());
        let AttemptFacts { call, token, .. } = self.facts;
        if let Some(heartbeat) = state.latest.clone().filter(|_| !state.over) {
            self.mailbox.send(Input::Heartbeat { call, token, heartbeat });
        }
    }
}

impl AttemptHost for Host {
    fn place(&self) -> Option<Place<'_>> {
        let AttemptFacts { call, token, resumed, ref queue, .. } = self.facts;
        Some(Place { call, queue, token, resumed })
    }

    fn let_go(&self) -> HostFuture<'_> {
        Box::pin(async move {
            let let_go = self.let_go.notified();
            tokio::pin!(let_go);
            // Listening begins before looking, so nothing is missed in between.
            let_go.as_mut().enable();
            {
                let mut state = self.lock();
                if state.let_go {
                    return;
                }
                state.waiting = true;
                state.busy = None;
            }
            let_go.await;
            self.lock().waiting = false;
        })
    }

    fn cancelled(&self) -> HostFuture<'_> {
        Box::pin(async move {
            let told = self.told.notified();
            tokio::pin!(told);
            // Listening begins before looking, so nothing is missed in between.
            told.as_mut().enable();
            {
                let mut state = self.lock();
                if state.told {
                    return;
                }
                state.waiting = true;
                state.busy = None;
            }
            told.await;
            self.lock().waiting = false;
        })
    }

    fn is_cancelled(&self) -> bool {
        self.lock().told
    }

    fn when_cancelled(&self, tell: Listener) {
        let mut state = self.lock();
        match state.told {
            true => {
                drop(state);
                tell();
            }
            false => state.listeners.0.push(tell),
        }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn sleep(&self, time: Duration) -> HostFuture<'_> {
        Box::pin(async move {
            let moment = self.clock.sleep(time);
            self.release();
            let busy = moment.await;
            self.lock().busy = Some(busy);
        })
    }

    fn heartbeat(&self, details: Option<Payload>) -> Result<(), Failure> {
        let (now, most) = (self.clock.now(), self.facts.max_payload);
        let size = details.as_ref().map_or(0, Payload::len);
        let mut state = self.lock();
        state.last_sign = self.clock.elapsed();
        if let Some(details) = details.filter(|_| size <= most && !state.over) {
            self.take(&mut state, details, now);
        }
        if state.told {
            let message = "the attempt is to end: it was cancelled, it ran out of time, or its \
                           process stops";
            return Err(Failure::of_kind(Kind::Cancelled, message));
        }
        if size > most {
            let name = &self.facts.activity.name;
            let message =
                format!("heartbeat of {name}: the details have {size} bytes, {most} are allowed");
            return Err(Failure::terminal(message).with_type("PayloadTooLarge"));
        }
        Ok(())
    }

    fn transact(&self, work: UserWork) -> HostFuture<'_, Failure> {
        Box::pin(async move {
            let AttemptFacts { call, token, .. } = self.facts;
            let (ask, answer) = UserTransaction::new(call, token, work);
            self.mailbox.send(Mail::Transact(ask));
            // The engine has it, and may have to wait for the store: time goes on.
            self.release();
            let (failure, busy) =
                answer.await.unwrap_or_else(|_| (UserTransaction::over(), Busy::default()));
            self.lock().busy = Some(busy);
            failure
        })
    }
}
