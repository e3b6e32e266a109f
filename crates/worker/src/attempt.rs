//! Runs one attempt of an activity as a task of its own, and reports how it ended.
//!
//! A panic is caught and becomes a failure. An attempt that ran too long is reported at once, told,
//! and dropped after a grace period; whatever it still returns is refused because its token is no
//! longer the task's.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use resurgam_core::duration::Human;
use resurgam_core::turn::panic_message;
use resurgam_core::{CallKey, Failure, Kind, Payload, UserWork};
use resurgam_sdk::{ActivityContext, ActivityDefinition, Attempt, AttemptHost, HostFuture, States};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::Instrument;

use crate::clock::{Busy, Clock};
use crate::engine::{Ask, Mailbox, Message};

/// What an attempt needs.
pub(crate) struct Spec {
    pub(crate) call: CallKey,
    pub(crate) token: u64,
    pub(crate) number: u32,
    pub(crate) instance: String,
    pub(crate) activity: Arc<ActivityDefinition>,
    pub(crate) input: Payload,
    pub(crate) timeout: Option<Limit>,
    pub(crate) grace: Duration,
    pub(crate) states: States,
}

/// How long an attempt may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// From its beginning.
    pub(crate) left: Duration,
    /// The timeout that this is left of.
    pub(crate) whole: Duration,
    /// What an attempt that takes longer fails with.
    pub(crate) kind: Kind,
}

/// A running attempt. Dropping it ends the attempt where it stands, as a crash would.
#[derive(Debug)]
pub(crate) struct Running {
    host: Arc<Host>,
    task: Option<JoinHandle<()>>,
}

impl Running {
    /// Tells the attempt that it is to end; it may still report.
    pub(crate) fn tell(&self) {
        self.host.tell();
    }

    /// Tells the attempt that nobody wants its result any more, and lets it end by itself within
    /// the grace period.
    pub(crate) fn give_up(mut self) {
        self.host.tell();
        self.host.given_up.notify_one();
        self.task = None;
    }

    /// It has reported and ends by itself.
    pub(crate) fn reported(mut self) {
        self.task = None;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.iter().for_each(JoinHandle::abort);
    }
}

/// Begins an attempt.
pub(crate) fn begin(spec: Spec, clock: Arc<dyn Clock>, mailbox: Mailbox) -> Running {
    let name = Name {
        number: spec.number,
        activity: spec.activity.clone(),
        instance: spec.instance.clone(),
    };
    let busy = clock.busy(&name);
    let desk = Desk { call: spec.call, token: spec.token, mailbox: mailbox.clone() };
    let host = Arc::new(Host::new(clock.clone(), name, busy, desk));
    let span = tracing::info_span!("attempt", instance = %spec.instance,
        activity = %spec.activity.name, attempt = spec.number);
    let task = tokio::spawn(run(spec, host.clone(), clock, mailbox).instrument(span));
    Running { host, task: Some(task) }
}

async fn run(spec: Spec, host: Arc<Host>, clock: Arc<dyn Clock>, mailbox: Mailbox) {
    let Spec { call, token, timeout, grace, .. } = spec;
    let mut code = Box::pin(caught(spec, host.clone()));
    let end = timeout.map(|limit| {
        let moment = clock.sleep_until(clock.now().saturating_add(limit.left));
        (limit, moment)
    });
    let timed_out = async move {
        match end {
            Some((limit, moment)) => (limit, moment.await),
            None => std::future::pending().await,
        }
    };
    let report = |result| mailbox.send(Message::AttemptEnded { call, token, result });
    tokio::select! {
        biased;
        result = &mut code => return report(result),
        (limit, _busy) = timed_out => {
            let message = format!("not done within {}", Human(limit.whole));
            report(Err(Failure::of_kind(limit.kind, message)));
            host.tell();
        }
        () = host.given_up.notified() => {}
    }
    // Nobody waits for it any more: it has the grace period to clean up behind itself.
    host.release();
    let end = clock.sleep_until(clock.now().saturating_add(grace));
    tokio::select! { _result = &mut code => {}, _busy = end => {} }
}

/// The activity's code, with panics turned into failures.
async fn caught(spec: Spec, host: Arc<Host>) -> Result<Payload, Failure> {
    let Spec { call, number, instance, activity, input, states, .. } = spec;
    let name = activity.name.clone();
    let context =
        ActivityContext::new(Attempt { call, instance, activity: name, number, states, host });
    if activity.blocking {
        let work = move || poll_once(activity.run(context, input));
        let result = tokio::task::spawn_blocking(work).await;
        return result.unwrap_or_else(|error| Err(panicked(&error.to_string())));
    }
    let mut code: Option<Pin<Box<dyn Future<Output = _> + Send>>> = None;
    let mut parts = Some((context, input));
    poll_fn(move |cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| {
            if let Some((context, input)) = parts.take() {
                code = Some(activity.run(context, input));
            }
            code.as_mut().map_or(Poll::Pending, |code| code.as_mut().poll(cx))
        }));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(panicked(&panic_message(&*panic)))))
    })
    .await
}

/// A plain function is done when it returns; there is nothing it could wait for.
fn poll_once<T>(
    code: Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>,
) -> Result<T, Failure> {
    let mut code = code;
    let waker = std::task::Waker::noop();
    let mut context = std::task::Context::from_waker(waker);
    let polled = catch_unwind(AssertUnwindSafe(|| code.as_mut().poll(&mut context)));
    match polled {
        Ok(Poll::Ready(result)) => result,
        Ok(Poll::Pending) => Err(Failure::terminal("a plain activity cannot wait; make it async")),
        Err(panic) => Err(panicked(&panic_message(&*panic))),
    }
}

fn panicked(message: &str) -> Failure {
    Failure::of_kind(Kind::Panic, message)
}

/// The worker's side of an [`ActivityContext`].
#[derive(Debug)]
pub(crate) struct Host {
    clock: Arc<dyn Clock>,
    name: Name,
    desk: Desk,
    state: Mutex<HostState>,
    told: Notify,
    given_up: Notify,
}

/// Where an attempt asks for a transaction, and by which right.
#[derive(Debug)]
struct Desk {
    call: CallKey,
    token: u64,
    mailbox: Mailbox,
}

/// What an attempt is called by a clock that wants to know; most do not.
#[derive(Debug)]
struct Name {
    number: u32,
    activity: Arc<ActivityDefinition>,
    instance: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {} of {} in {}", self.number, self.activity.name, self.instance)
    }
}

#[derive(Debug)]
struct HostState {
    /// Held while the attempt works, and not while it waits on its context.
    busy: Option<Busy>,
    waiting: bool,
    cancelled: bool,
}

impl Host {
    fn new(clock: Arc<dyn Clock>, name: Name, busy: Busy, desk: Desk) -> Self {
        let state = HostState { busy: Some(busy), waiting: false, cancelled: false };
        let state = Mutex::new(state);
        Host { clock, name, desk, state, told: Notify::new(), given_up: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, HostState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        let mut state = self.lock();
        state.cancelled = true;
        if state.waiting {
            // From here on it has something to do; the clock must not run on before it did.
            state.busy = Some(self.clock.busy(&self.name));
        }
        drop(state);
        self.told.notify_waiters();
    }

    /// Lets the clock go on without this attempt.
    fn release(&self) {
        let _released = self.lock().busy.take();
    }
}

impl AttemptHost for Host {
    fn cancelled(&self) -> HostFuture<'_> {
        Box::pin(async move {
            let told = self.told.notified();
            tokio::pin!(told);
            // Listening begins before looking, so nothing is missed in between.
            told.as_mut().enable();
            {
                let mut state = self.lock();
                if state.cancelled {
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
        self.lock().cancelled
    }

    fn sleep(&self, time: Duration) -> HostFuture<'_> {
        Box::pin(async move {
            let moment = self.clock.sleep_until(self.clock.now().saturating_add(time));
            self.release();
            let busy = moment.await;
            self.lock().busy = Some(busy);
        })
    }

    fn transact(&self, work: UserWork) -> HostFuture<'_, Failure> {
        Box::pin(async move {
            let Desk { call, token, ref mailbox } = self.desk;
            let (ask, answer) = Ask::new(call, token, work);
            mailbox.send(Message::Transact(ask));
            // The engine has it, and may have to wait for the store: time goes on.
            self.release();
            let (failure, busy) = answer.await.unwrap_or_else(|_| (Ask::over(), Busy::default()));
            self.lock().busy = Some(busy);
            failure
        })
    }
}
