//! Runs one attempt of an activity as a task of its own, and reports how it ended.
//!
//! A panic is caught and becomes a failure. An attempt that took too long, or was silent for too
//! long, is reported at once, told, and dropped after a grace period. How it ended then is reported
//! too; that is refused because its token is no longer the task's, unless the run wants to know
//! before it undoes anything. All of this happens in memory: a slow
//! database times nothing out. The timers belong to the task and end with it.
//!
//! A plain function runs on a thread that blocking work is for, and cannot be dropped. Whatever
//! becomes of its attempt, its thread says when it has returned.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use resurgam_core::duration::Human;
use resurgam_core::turn::panic_message;
use resurgam_core::{Failure, Kind, Payload, Timestamp};
use resurgam_sdk::{ActivityContext, Attempt, States};
use resurgam_store::Assignment;
use resurgam_store::rows::Heartbeat;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::Instrument;

use crate::clock::{Busy, Clock};
use crate::host::{AttemptFacts, Host};
use crate::mailbox::Mailbox;
use crate::node::{AttemptEnd, AttemptStart, Input};

/// The shortest time between two heartbeats that are stored, where no timeout says otherwise.
const THROTTLE: Duration = Duration::from_secs(30);

/// How often a thread looks whether its function may begin, where it may not.
const GATE: Duration = Duration::from_millis(20);

/// What an attempt needs.
pub(crate) struct Spec {
    pub(crate) start: AttemptStart,
    pub(crate) max_payload: usize,
    pub(crate) grace: Duration,
    pub(crate) states: States,
    pub(crate) gate: Gate,
}

/// What keeps code from beginning while others may take this node for dead. The engine has asked
/// before it let an attempt begin; but a process can be put to sleep just then, and must not go on
/// where it stood when it wakes up and somebody else has done the work.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) is_open: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Changes when it opens.
    pub(crate) assignment: watch::Receiver<Assignment>,
}

impl Gate {
    async fn opens(&mut self) {
        loop {
            self.assignment.borrow_and_update();
            if (self.is_open)() {
                return;
            }
            if self.assignment.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits on a thread of its own.
    fn wait(&self, host: &Host) {
        while !(self.is_open)() && !host.is_over() {
            std::thread::sleep(GATE);
        }
    }
}

/// What an attempt must not take longer than.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// How long it may take.
    pub time: Option<Limit>,
    /// How long it may be silent.
    pub silence: Option<Duration>,
}

/// How long an attempt may take.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// From its beginning.
    pub left: Duration,
    /// The timeout that this is left of.
    pub whole: Duration,
    /// What an attempt that takes longer fails with.
    pub kind: Kind,
}

impl Limit {
    /// The failure of what took longer.
    pub fn failure(&self) -> Failure {
        Failure::of_kind(self.kind, format!("not done within {}", Human(self.whole)))
    }
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

    /// Tells an attempt that outlives this process that the process ends.
    pub(crate) fn let_go(&self) {
        self.host.lets_go();
    }

    /// It gave a sign of life elsewhere.
    pub(crate) fn is_alive(&self) {
        self.host.is_alive();
    }

    /// Tells the attempt that it is to end within the grace period, and to report when it has.
    pub(crate) fn ends_in_grace(&self) {
        self.host.tell();
        self.host.cut();
    }

    /// Tells the attempt that nobody wants its result any more, and lets it end by itself within
    /// the grace period.
    pub(crate) fn give_up(mut self) {
        self.host.give_up();
        self.task = None;
    }

    /// It has reported and ends by itself.
    pub(crate) fn leave(mut self) {
        self.task = None;
    }

    /// Ends the attempt where it stands. Answers with what it told last.
    pub(crate) fn cut(self) -> Option<Heartbeat> {
        self.host.heartbeat()
    }

    /// Keeps the attempt's code from beginning. False when it has begun.
    pub(crate) fn withdraw(&self) -> bool {
        self.host.withdraw()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            // A plain function goes on, and can only be told.
            self.host.end();
            task.abort();
        }
    }
}

/// Begins an attempt.
pub(crate) fn begin(spec: Spec, clock: Arc<dyn Clock>, mailbox: Mailbox) -> Running {
    let start = &spec.start;
    let facts = AttemptFacts {
        call: start.call,
        token: start.token,
        resumed: start.resumed,
        number: start.number,
        activity: start.activity.clone(),
        instance: start.instance.clone(),
        queue: start.queue.clone(),
        throttle: match start.activity.stores_heartbeats {
            true => Duration::ZERO,
            false => start.limits.silence.map_or(THROTTLE, |timeout| timeout / 5 * 4),
        },
        max_payload: spec.max_payload,
    };
    let host = Arc::new(Host::new(facts, clock.clone(), mailbox.clone()));
    let span = tracing::info_span!("attempt", instance = %start.instance,
        activity = %start.activity.name, attempt = start.number);
    let task = tokio::spawn(run(spec, host.clone(), clock, mailbox).instrument(span));
    Running { host, task: Some(task) }
}

async fn run(spec: Spec, host: Arc<Host>, clock: Arc<dyn Clock>, mailbox: Mailbox) {
    let (AttemptStart { call, token, limits, .. }, grace) = (&spec.start, spec.grace);
    let (call, token, limits) = (*call, *token, *limits);
    let too_long = too_long(limits.time, &*clock);
    let too_silent = too_silent(limits.silence, &host, &*clock);
    let deadline = limits.time.map(|limit| clock.now().saturating_add(limit.left));
    let mut code = Box::pin(caught(spec, deadline, host.clone(), mailbox.clone()));
    let report = |result, lingers| {
        let end = AttemptEnd { result, lingers, heartbeat: host.heartbeat() };
        mailbox.send(Input::AttemptEnded { call, token, end });
    };
    // What is done, or said, at the last moment is in time: the code comes first.
    let (failure, busy) = tokio::select! {
        biased;
        result = &mut code => {
            report(result, false);
            return host.has_returned();
        }
        (failure, busy) = too_long => (Some(failure), busy),
        (failure, busy) = too_silent => (Some(failure), busy),
        never = host.hand_on() => match never {},
        () = host.was_cut() => (None, Busy::default()),
    };
    // It has the grace period to clean up behind itself. The clock knows of that before it goes on.
    let end = clock.sleep(grace);
    if let Some(failure) = failure {
        report(Err(failure), true);
        host.end();
    }
    drop(busy);
    host.leave();
    tokio::select! {
        biased;
        result = &mut code => report(result, false),
        _busy = end => report(Err(deaf(grace)), false),
    }
}

/// What is reported of an attempt that was to end and did not.
fn deaf(grace: Duration) -> Failure {
    let message = format!("it was told to end and did not within {}", Human(grace));
    Failure::of_kind(Kind::Cancelled, message)
}

/// Ready when an attempt that begins now has taken too long.
fn too_long(limit: Option<Limit>, clock: &dyn Clock) -> impl Future<Output = (Failure, Busy)> {
    // The clock hears of it before the attempt can wait for anything.
    let end = limit.map(|limit| {
        let moment = clock.sleep(limit.left);
        (limit, moment)
    });
    async move {
        match end {
            Some((limit, moment)) => (limit.failure(), moment.await),
            None => std::future::pending().await,
        }
    }
}

/// Ready when an attempt that begins now has given no sign of life for too long.
fn too_silent<'a>(
    timeout: Option<Duration>,
    host: &'a Host,
    clock: &'a dyn Clock,
) -> impl Future<Output = (Failure, Busy)> + use<'a> {
    let watch = move |timeout| {
        let end = host.last_sign().saturating_add(timeout);
        (end, clock.sleep(end.saturating_sub(clock.elapsed())))
    };
    let first = timeout.map(|timeout| (timeout, watch(timeout)));
    async move {
        let Some((timeout, (mut end, mut moment))) = first else {
            return std::future::pending().await;
        };
        loop {
            let busy = moment.await;
            if host.last_sign().saturating_add(timeout) <= end {
                let message = format!("no heartbeat within {}", Human(timeout));
                return (Failure::of_kind(Kind::HeartbeatTimeout, message), busy);
            }
            (end, moment) = watch(timeout);
        }
    }
}

/// The activity's code, with panics turned into failures.
async fn caught(
    spec: Spec,
    deadline: Option<Timestamp>,
    host: Arc<Host>,
    mailbox: Mailbox,
) -> Result<Payload, Failure> {
    let Spec { start, states, mut gate, .. } = spec;
    let AttemptStart { key, token, number, instance, activity, input, .. } = start;
    let AttemptStart { last_heartbeat, fallback_of, .. } = start;
    let name = activity.name.clone();
    let context = ActivityContext::new(Attempt {
        call: key,
        instance,
        activity: name,
        number,
        deadline,
        last_heartbeat,
        fallback_of,
        states,
        host: host.clone(),
    });
    if activity.blocking {
        let work = move || {
            gate.wait(&host);
            let result = match host.begin() {
                true => poll_once(activity.run(context, input)),
                false => Err(Failure::of_kind(Kind::Cancelled, "it never began")),
            };
            mailbox.send(Input::ThreadFree { token });
            result
        };
        let result = tokio::task::spawn_blocking(work).await;
        return result.unwrap_or_else(|error| Err(panicked(&error.to_string())));
    }
    gate.opens().await;
    let mut code: Option<Pin<Box<dyn Future<Output = _> + Send>>> = None;
    let mut parts = Some((context, input));
    poll_fn(move |cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| {
            if let Some((context, input)) = parts.take().filter(|_| host.begin()) {
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

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;
    use std::sync::atomic::{AtomicBool, Ordering};

    use resurgam_core::{RunKey, Seq, Uid};
    use resurgam_sdk::ActivityDefinition;

    use super::*;
    use crate::clock::SystemClock;

    /// An attempt that has begun as far as the engine is concerned, and whether its code has.
    fn begun(blocking: bool) -> (Running, Arc<AtomicBool>) {
        let assignment = watch::Sender::new(Assignment::default()).subscribe();
        begun_behind(Gate { is_open: Arc::new(|| true), assignment }, blocking)
    }

    fn begun_behind(gate: Gate, blocking: bool) -> (Running, Arc<AtomicBool>) {
        let ran = Arc::new(AtomicBool::new(false));
        let note = ran.clone();
        let mut activity = ActivityDefinition::new("note", move |_, _| {
            note.store(true, Ordering::SeqCst);
            Box::pin(async { Ok(Payload::null()) })
        });
        activity.blocking = blocking;
        let start = AttemptStart {
            call: RunKey::first(Uid(1)).call(Seq(2)),
            key: RunKey::first(Uid(1)).call(Seq(2)),
            token: 1,
            number: 1,
            instance: "note-1".to_string(),
            queue: "default".to_string(),
            activity: Arc::new(activity),
            input: Payload::null(),
            last_heartbeat: None,
            fallback_of: None,
            limits: Limits { time: None, silence: None },
            resumed: false,
        };
        let spec = Spec {
            start,
            max_payload: 100,
            grace: Duration::ZERO,
            states: States::default(),
            gate,
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let (mailbox, _inbox) = Mailbox::new(clock.clone());
        (begin(spec, clock, mailbox), ran)
    }

    async fn let_others_run() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    async fn code_that_was_never_polled_can_be_withdrawn_and_then_never_runs() {
        for blocking in [false, true] {
            let (running, ran) = begun(blocking);
            assert!(running.withdraw());
            let_others_run().await;
            assert!(running.withdraw() && !ran.load(Ordering::SeqCst));
        }
    }

    #[test]
    async fn code_waits_while_others_may_take_its_node_for_dead() {
        let (open, assignment) = (Arc::new(AtomicBool::new(false)), watch::Sender::default());
        let is_open = open.clone();
        let gate = Gate {
            is_open: Arc::new(move || is_open.load(Ordering::SeqCst)),
            assignment: assignment.subscribe(),
        };
        let (running, ran) = begun_behind(gate.clone(), false);
        let_others_run().await;
        assert!(!ran.load(Ordering::SeqCst));
        open.store(true, Ordering::SeqCst);
        assignment.send_replace(Assignment { may_begin: true, ..Assignment::default() });
        let_others_run().await;
        assert!(ran.load(Ordering::SeqCst) && !running.withdraw());
    }

    #[test]
    async fn code_that_nobody_wants_any_more_does_not_begin() {
        for blocking in [false, true] {
            let assignment = watch::Sender::new(Assignment::default()).subscribe();
            let gate = Gate { is_open: Arc::new(|| false), assignment };
            let (running, ran) = begun_behind(gate, blocking);
            let host = running.host.clone();
            drop(running);
            let_others_run().await;
            assert!(!host.begin() && !ran.load(Ordering::SeqCst));
        }
    }

    #[test]
    async fn code_that_has_begun_cannot_be_withdrawn() {
        let (running, ran) = begun(false);
        let_others_run().await;
        assert!(!running.withdraw() && ran.load(Ordering::SeqCst));
    }
}
