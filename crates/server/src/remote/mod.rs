//! Activities that run in other processes, which ask for them over HTTP.
//!
//! The engine knows a remote worker's activities through a [`Remote`], which is a source of
//! activities. An attempt of one is a future here that waits at a desk (`desk.rs`) until a worker
//! takes it and reports. It holds a slot of this process as any attempt does, and it outlives the
//! process: its claim stays, and whoever works on the shard next has it wait at a desk again, given
//! to somebody who has not spoken yet. Its name (`name.rs`) is the same then.

mod desk;
mod elsewhere;
mod name;
mod sessions;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use resurgam::{
    ActivityContext, ActivityDefinition, ActivitySource, Client, Failure, Kind, Payload, Timestamp,
};
use resurgam_store::{RemoteActivity, Store};
use tokio::sync::{Notify, mpsc};

pub(crate) use desk::LEASE;
use desk::{About, Desk, Standing};
pub(crate) use desk::{Offer, Seen, Wants};
pub(crate) use elsewhere::{Elsewhere, ended, goes_on, is_reported};
pub(crate) use name::Name;
use sessions::Told;
pub(crate) use sessions::all_seen;

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
    /// What this process calls itself, to those who read its rows.
    server: String,
    /// How long a session may be silent.
    lease: Duration,
    desk: Mutex<Desk<Held>>,
    polls: Mutex<HashMap<u64, Arc<Notify>>>,
    told: Mutex<Told>,
    /// Where it can be asked what other servers have heard, and when it was asked last. The store
    /// does not live longer for it: the engine on it has this one.
    store: OnceLock<Weak<dyn Store>>,
    looked: tokio::sync::Mutex<Option<Timestamp>>,
}

/// An attempt while it waits, or runs somewhere.
pub(crate) struct Held {
    pub(crate) context: ActivityContext,
    pub(crate) input: Payload,
    pub(crate) name: Name,
    pub(crate) queue: String,
    /// What its worker bounds it with, from when it takes it.
    timeout: Option<Duration>,
    /// When that is over, since it was taken.
    ends: Option<Timestamp>,
    news: mpsc::UnboundedSender<News>,
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
        // Without random numbers the process tells it from others well enough: it is no secret.
        let _made_unique_below = getrandom::fill(&mut bytes);
        let server = format!("{:016x}.{}", u64::from_be_bytes(bytes), std::process::id());
        let (desk, polls, told) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (store, looked) = (OnceLock::new(), tokio::sync::Mutex::default());
        Remote(Arc::new(Shared { server, lease, desk, polls, told, store, looked }))
    }

    /// The activities that remote workers offer, for an app.
    pub fn source(&self) -> Arc<dyn ActivitySource> {
        Arc::new(self.clone())
    }

    /// The workers are those of this client's database: what other servers there have heard of them
    /// counts.
    pub(crate) fn attach(&self, client: &Client) {
        // Of several APIs on one app the first does.
        let _attached_before = self.0.store.set(Arc::downgrade(client.handle().store()));
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

    /// The attempt of this name, if it is at this desk: it is the session's that names it, unless
    /// it is another one's.
    pub(crate) fn number(&self, session: &str, name: Name) -> Option<u64> {
        self.desk().names(session, name)
    }

    /// What a session has, all of it.
    pub(crate) fn runs(&self, session: &str, names: &[Name]) -> Running {
        let mut desk = self.desk();
        let found = desk.runs(session, names.iter().copied());
        let here = names.iter().filter_map(|name| desk.number_of(*name)).collect();
        let stays = found.iter().filter(|(_, stays)| *stays).map(|(name, _)| *name).collect();
        Running { here, elsewhere: found.into_iter().map(|(name, _)| name).collect(), stays }
    }

    /// Whether a session is to be told at once that these attempts, which are not at this desk, are
    /// to end; true once.
    pub(crate) fn has_news_of_elsewhere(&self, session: &str, ends: &[Name]) -> bool {
        self.desk().has_news_of_elsewhere(session, ends)
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
        told: impl Fn(&Held) -> T,
    ) -> Vec<T> {
        let mut desk = self.desk();
        let (mut given, mut size) = (Vec::new(), 0);
        while given.len() < most && size < bytes {
            let Some(number) = desk.give(session, wants, 1).pop() else { break };
            let Some(held) = desk.held_mut(session, number) else { break };
            size += held.input.len();
            held.ends = held.timeout.map(|time| held.context.now().saturating_add(time));
            given.push(told(held));
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
        told: impl Fn(&Held) -> T,
    ) -> Vec<T> {
        let desk = self.desk();
        let mut size = 0;
        let unknown = desk.unknown_to(session, running).take(most).take_while(|(_, held)| {
            let fits = size < bytes;
            size += held.input.len();
            fits
        });
        unknown.map(|(_, held)| told(held)).collect()
    }

    /// Whether a session is to be told at once that one of these attempts is to end; true once.
    pub(crate) fn has_news_of_ends(&self, session: &str, running: &BTreeSet<u64>) -> bool {
        self.desk().has_news_of_ends(session, running)
    }

    /// The attempts of a session that are to end.
    pub(crate) fn cancelled(&self, session: &str) -> Vec<Name> {
        self.desk().cancelled(session)
    }

    /// Whether a session has an attempt.
    pub(crate) fn has(&self, session: &str, name: Name) -> bool {
        let desk = self.desk();
        desk.number_of(name).is_some_and(|number| desk.held(session, number).is_some())
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
            Ok(()) => Alive::Told { name: held.name, context: held.context.clone(), at },
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
        let name = Name { call: place.call, token: place.token };
        let (queue, resumed) = (place.queue.to_string(), place.resumed);
        let about = About { activity: context.activity().to_string(), queue: queue.clone() };
        let timeout = self.desk().known(&about.activity).and_then(|offer| offer.timeout);
        let now = context.now();
        // Its time begins again where nobody knows when it was taken.
        let mut ends = timeout.filter(|_| resumed).map(|time| now.saturating_add(time));
        let (news, mut hears) = mpsc::unbounded_channel();
        let held = Held { context: context.clone(), input, name, queue, timeout, ends, news };
        let number = match resumed {
            true => self.desk().resumes(name, about, held, now.saturating_add(self.lease())),
            false => {
                let (number, woken) = self.desk().arrives(name, about, held);
                self.wake(woken);
                number
            }
        };
        let _over_when_this_ends = Over { remote: self.clone(), number };
        let mut is_told = false;
        loop {
            let look = LOOK.min(self.lease() / 6);
            let left = ends.map_or(look, |end| end.since(context.now()).min(look));
            tokio::select! {
                biased;
                Some(news) = hears.recv() => match news {
                    News::Taken(at) => ends = at,
                    News::Ended(result) => return result,
                },
                () = context.let_go() => {
                    return Err(match self.standing(number, context.now()) {
                        Standing::Given => Failure::left_running(),
                        _ => Failure::never_began(),
                    });
                }
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
                        Standing::Lost if self.is_lost(number, &context).await => {
                            let message = "its worker was silent for too long";
                            return Err(Failure::of_kind(Kind::WorkerLost, message));
                        }
                        // No worker has seen it: it waits for one as others do.
                        Standing::Unwanted => return Err(Failure::never_began()),
                        Standing::Waits | Standing::Given | Standing::Lost | Standing::Over => {}
                    }
                }
            }
        }
    }

    /// Whether an attempt is lost whose session was silent here: no other server has heard of it.
    async fn is_lost(&self, number: u64, context: &ActivityContext) -> bool {
        self.hears_of_others(context.now()).await
            && self.standing(number, context.now()) == Standing::Lost
    }

    fn standing(&self, number: u64, now: Timestamp) -> Standing {
        let mut desk = self.desk();
        desk.forget_silent(now, self.lease());
        desk.standing(number, now)
    }
}

impl Remote {
    /// What waits for attempts of an activity.
    fn definition(&self, name: &str) -> ActivityDefinition {
        let remote = self.clone();
        let mut definition = ActivityDefinition::new(name, move |context, input| {
            Box::pin(remote.clone().attempt(context, input))
        });
        (definition.stores_heartbeats, definition.outlives) = (true, true);
        let (remote, name) = (self.clone(), name.to_string());
        definition.lacking(move |_| {
            remote.desk().offer(&name).is_none().then(|| RemoteActivity::lack(&name))
        })
    }
}

impl ActivitySource for Remote {
    fn find(&self, name: &str) -> Option<Arc<ActivityDefinition>> {
        let offer = self.desk().known(name)?;
        let mut definition = self.definition(name);
        definition.options.retry = offer.retry.clone();
        Some(Arc::new(definition))
    }

    fn learns(&self, name: &str, offered_at: Timestamp, offer: &str) -> bool {
        self.learns_of(name, offered_at, offer)
    }

    fn provides(&self) -> Vec<String> {
        self.desk().offered().map(RemoteActivity::lack).collect()
    }

    fn resumed(&self, name: &str) -> Option<Arc<ActivityDefinition>> {
        Some(Arc::new(self.definition(name)))
    }

    fn names(&self) -> Vec<String> {
        let desk = self.desk();
        let names: BTreeSet<&str> = desk.all_known().collect();
        names.into_iter().map(str::to_string).collect()
    }
}

/// What a session has.
pub(crate) struct Running {
    /// What is at this desk.
    pub(crate) here: BTreeSet<u64>,
    /// What is not.
    pub(crate) elsewhere: Vec<Name>,
    /// What was not when the session spoke last, either.
    pub(crate) stays: Vec<Name>,
}

/// What came of a heartbeat.
pub(crate) enum Alive {
    /// The session does not have the attempt any more.
    Over,
    /// Nobody wants to know: it is to end.
    Ends,
    /// The engine was told, and stores it.
    Told { name: Name, context: ActivityContext, at: Timestamp },
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
