//! Activities that run in other processes, which ask for them over HTTP.
//!
//! The engine knows a remote worker's activities through a [`Remote`], which is a source of
//! activities. An attempt of one is a future here that waits at a desk (`desk.rs`) until a worker
//! takes it and reports. It holds a slot of this process as any attempt does, and it is this
//! process's: when the process dies, the attempt is lost and another one follows.

mod desk;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use resurgam::{
    ActivityContext, ActivityDefinition, ActivitySource, CallKey, Failure, Kind, Payload, Timestamp,
};
use tokio::sync::{Notify, mpsc};

use desk::LEASE;
use desk::{About, Desk, Standing};
pub(crate) use desk::{Offer, Seen, Wants};

/// How often an attempt looks whether its session is still there, at least.
const LOOK: Duration = Duration::from_secs(5);

/// Where the attempts of remote workers wait: an app takes its activities from here
/// ([`Remote::source`]), and the API lets workers have them
/// ([`Options::remote`](crate::Options::remote)).
///
/// ```
/// # use resurgam::prelude::*;
/// use resurgam_server::{Options, Remote, router};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), resurgam::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("app.db");
/// let remote = Remote::new();
/// let app = App::builder().activities_in(remote.source()).sqlite(&file).await?;
/// let api: axum::Router = router(&app, Options::default().remote(&remote));
/// # let _ = api;
/// # app.stop().await
/// # }
/// ```
#[derive(Clone)]
pub struct Remote(Arc<Shared>);

struct Shared {
    /// What the names of this process's tasks begin with.
    process: String,
    /// How long a session may be silent.
    lease: Duration,
    desk: Mutex<Desk<Held>>,
    polls: Mutex<HashMap<u64, Arc<Notify>>>,
}

/// An attempt while it waits, or runs somewhere.
pub(crate) struct Held {
    pub(crate) context: ActivityContext,
    pub(crate) input: Payload,
    pub(crate) claim: Claim,
    pub(crate) queue: String,
    /// What its worker bounds it with, from when it takes it.
    timeout: Option<Duration>,
    /// When that is over, since it was taken.
    ends: Option<Timestamp>,
    news: mpsc::UnboundedSender<News>,
}

/// What the engine knows an attempt by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) call: CallKey,
    pub(crate) token: u64,
}

impl Held {
    /// How long it may go on, whoever bounds it.
    pub(crate) fn left(&self) -> Option<Duration> {
        let ends = self.context.deadline().into_iter().chain(self.ends).min()?;
        Some(ends.since(self.context.now()))
    }
}

enum News {
    /// A worker has it, and bounds it so.
    Taken(Option<Timestamp>),
    Ended(Result<Payload, Failure>),
}

impl Default for Remote {
    fn default() -> Self {
        Remote::new()
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Remote")
    }
}

impl Remote {
    /// A desk at which nobody is yet.
    pub fn new() -> Self {
        Remote::with_lease(LEASE)
    }

    /// One whose workers lose their attempts when they were silent for so long; 30 seconds unless
    /// given.
    ///
    /// ```
    /// use resurgam_server::Remote;
    /// use std::time::Duration;
    ///
    /// let impatient = Remote::with_lease(Duration::from_secs(5));
    /// # let _ = impatient;
    /// ```
    pub fn with_lease(lease: Duration) -> Self {
        let mut bytes = [0; 8];
        // Without random numbers the clock of the process tells it from others well enough: names
        // of tasks are no secrets, and tokens need none of these.
        let _made_unique_below = getrandom::fill(&mut bytes);
        let process = u64::from_be_bytes(bytes) ^ u64::from(std::process::id());
        let (desk, polls) = (Mutex::default(), Mutex::default());
        Remote(Arc::new(Shared { process: format!("{process:x}"), lease, desk, polls }))
    }

    /// The activities that remote workers offer, for an app.
    pub fn source(&self) -> Arc<dyn ActivitySource> {
        Arc::new(self.clone())
    }

    fn desk(&self) -> MutexGuard<'_, Desk<Held>> {
        self.0.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a worker may be silent.
    pub(crate) fn lease(&self) -> Duration {
        self.0.lease
    }

    /// The workers that were heard of within a lease.
    pub(crate) fn seen(&self, now: Timestamp) -> Vec<Seen> {
        let mut desk = self.desk();
        desk.forget_silent(now, self.lease());
        desk.seen().collect()
    }

    /// How workers name an attempt.
    pub(crate) fn name(&self, number: u64) -> String {
        format!("{}.{number:x}", self.0.process)
    }

    /// The attempt of this name; none for those of another process, or of one before this.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        let (process, number) = name.split_once('.')?;
        (process == self.0.process).then_some(())?;
        u64::from_str_radix(number, 16).ok()
    }

    /// A session says something, and what it offers. True when an activity is new.
    pub(crate) fn hear(
        &self,
        session: &str,
        offers: Option<BTreeMap<String, Offer>>,
        now: Timestamp,
    ) -> bool {
        let mut desk = self.desk();
        desk.forget_silent(now, self.lease());
        desk.hear(session, offers, now)
    }

    /// Gives a session as many attempts as it wants, up to so many bytes; with each what `told`
    /// makes of it.
    pub(crate) fn give<T>(
        &self,
        session: &str,
        wants: &Wants,
        (most, bytes): (usize, usize),
        told: impl Fn(u64, &Held) -> T,
    ) -> Vec<T> {
        let mut desk = self.desk();
        let (mut given, mut size) = (Vec::new(), 0);
        while given.len() < most && size < bytes {
            let Some(number) = desk.give(session, wants, 1).pop() else { break };
            let Some(held) = desk.held_mut(session, number) else { break };
            size += held.input.len();
            held.ends = held.timeout.map(|time| held.context.now().saturating_add(time));
            given.push(told(number, held));
            // The attempt may have just ended.
            let _nobody_wants_it = held.news.send(News::Taken(held.ends));
        }
        given
    }

    /// Attempts that were given to a session, which does not know of them: as many as it has room
    /// for, up to so many bytes.
    pub(crate) fn unknown_to<T>(
        &self,
        session: &str,
        running: &BTreeSet<u64>,
        (most, bytes): (usize, usize),
        told: impl Fn(u64, &Held) -> T,
    ) -> Vec<T> {
        let desk = self.desk();
        let mut size = 0;
        let unknown = desk.unknown_to(session, running).take(most).take_while(|(_, held)| {
            let fits = size < bytes;
            size += held.input.len();
            fits
        });
        unknown.map(|(number, held)| told(number, held)).collect()
    }

    /// Whether a session is to be told at once that one of these attempts is to end; true once.
    pub(crate) fn has_news_of_ends(&self, session: &str, running: &BTreeSet<u64>) -> bool {
        self.desk().has_news_of_ends(session, running)
    }

    /// The attempts of a session that are to end.
    pub(crate) fn cancelled(&self, session: &str) -> Vec<u64> {
        self.desk().cancelled(session)
    }

    /// Whether a session has an attempt.
    pub(crate) fn has(&self, session: &str, number: u64) -> bool {
        self.desk().held(session, number).is_some()
    }

    /// An attempt of a session has ended; none when the session does not have it any more.
    pub(crate) fn ended(
        &self,
        session: &str,
        number: u64,
        result: Result<Payload, Failure>,
    ) -> Option<Held> {
        let mut desk = self.desk();
        desk.held(session, number)?;
        let held = desk.over(number)?;
        held.news.send(News::Ended(result)).ok()?;
        Some(held)
    }

    /// An attempt of a session is alive, and says how far it is.
    pub(crate) fn heartbeat(&self, session: &str, number: u64, details: &Payload) -> Alive {
        let desk = self.desk();
        let Some(held) = desk.held(session, number) else { return Alive::Over };
        let (at, details) = (held.context.now(), details.decode::<serde_json::Value>());
        match held.context.heartbeat(&details.unwrap_or_default()) {
            Ok(()) => Alive::Told { claim: held.claim, context: held.context.clone(), at },
            // It learns that it is to end from the answer.
            Err(_) => Alive::Ends,
        }
    }

    /// Has a poll wait until there is something for it, or until a newer one of its session.
    pub(crate) fn wait(&self, session: &str, wants: Wants) -> Waiting {
        let (number, older) = self.desk().waits(session, wants);
        let notify = Arc::new(Notify::new());
        self.polls().insert(number, notify.clone());
        self.wake(older);
        Waiting { remote: self.clone(), number, notify }
    }

    fn polls(&self) -> MutexGuard<'_, HashMap<u64, Arc<Notify>>> {
        self.0.polls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, polls: impl IntoIterator<Item = u64>) {
        let waiting = self.polls();
        polls.into_iter().filter_map(|poll| waiting.get(&poll)).for_each(|poll| poll.notify_one());
    }

    /// One attempt: waits for a worker, and for what that reports.
    async fn attempt(self, context: ActivityContext, input: Payload) -> Result<Payload, Failure> {
        let Some(place) = context.place() else {
            return Err(Failure::terminal("a remote activity needs an engine"));
        };
        let (claim, queue) =
            (Claim { call: place.call, token: place.token }, place.queue.to_string());
        let about = About { activity: context.activity().to_string(), queue: queue.clone() };
        let timeout = self.desk().offer(&about.activity).and_then(|offer| offer.timeout);
        let (news, mut hears) = mpsc::unbounded_channel();
        let held =
            Held { context: context.clone(), input, claim, queue, timeout, ends: None, news };
        let (number, woken) = self.desk().arrives(about, held);
        self.wake(woken);
        let _over_when_this_ends = Over { remote: self.clone(), number };
        let (mut ends, mut is_told) = (None::<Timestamp>, false);
        loop {
            let look = LOOK.min(self.lease() / 6);
            let left = ends.map_or(look, |end| end.since(context.now()).min(look));
            tokio::select! {
                biased;
                Some(news) = hears.recv() => match news {
                    News::Taken(at) => ends = at,
                    News::Ended(result) => return result,
                },
                () = context.cancelled(), if !is_told => {
                    is_told = true;
                    if self.standing(number, context.now()) != Standing::Given {
                        return Err(Failure::of_kind(Kind::Cancelled, "no worker had taken it"));
                    }
                    let poll = self.desk().cancel(number);
                    self.wake(poll);
                }
                () = context.sleep(left) => {
                    if let Some(timeout) = timeout.filter(|_| ends.is_some_and(|end| end <= context.now())) {
                        let message = format!("not done within {timeout:?}");
                        return Err(Failure::of_kind(Kind::Timeout, message));
                    }
                    match self.standing(number, context.now()) {
                        Standing::Lost => {
                            let message = "its worker was silent for too long";
                            return Err(Failure::of_kind(Kind::WorkerLost, message));
                        }
                        // No worker has seen it: it waits for one as others do.
                        Standing::Unwanted => return Err(Failure::never_began()),
                        Standing::Waits | Standing::Given | Standing::Over => {}
                    }
                }
            }
        }
    }

    fn standing(&self, number: u64, now: Timestamp) -> Standing {
        let mut desk = self.desk();
        desk.forget_silent(now, self.lease());
        desk.standing(number)
    }
}

impl ActivitySource for Remote {
    fn find(&self, name: &str) -> Option<Arc<ActivityDefinition>> {
        let offer = self.desk().offer(name)?;
        let remote = self.clone();
        let mut definition = ActivityDefinition::new(name, move |context, input| {
            Box::pin(remote.clone().attempt(context, input))
        });
        definition.options.retry = offer.retry.clone();
        definition.stores_heartbeats = true;
        Some(Arc::new(definition))
    }

    fn names(&self) -> Vec<String> {
        let desk = self.desk();
        let names: BTreeSet<&str> = desk.offered().collect();
        names.into_iter().map(str::to_string).collect()
    }
}

/// What came of a heartbeat.
pub(crate) enum Alive {
    /// The session does not have the attempt any more.
    Over,
    /// Nobody wants to know: it is to end.
    Ends,
    /// The engine was told, and stores it.
    Told { claim: Claim, context: ActivityContext, at: Timestamp },
}

/// Takes an attempt from the desk when the engine wants it no more.
struct Over {
    remote: Remote,
    number: u64,
}

impl Drop for Over {
    fn drop(&mut self) {
        // A report may have taken it before.
        let _taken_before = self.remote.desk().over(self.number);
    }
}

/// A poll that waits. Whoever asked may go away at any moment: what it was woken for is for the
/// next one then.
pub(crate) struct Waiting {
    remote: Remote,
    number: u64,
    notify: Arc<Notify>,
}

impl Waiting {
    /// Ready when there is something to look at.
    pub(crate) async fn woken(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.remote.polls().remove(&self.number);
        let next = self.remote.desk().leaves(self.number);
        self.remote.wake(next);
    }
}
