//! Hears of the commits of others.
//!
//! Polling is the truth: every commit counts up its lane, so one look at the sum of all lanes but
//! our own tells whether anybody has written. The pause between looks is short after news and grows
//! to just under half a second. A notification is a hint that comes sooner: after a commit that
//! concerns others a store says so on a connection of its own, which also listens. Poolers and
//! distributed servers may lose the hint, and nothing is missed then.
//!
//! Both also tell when nodes come and go and shards are given up, so that whoever should have them
//! takes them at once.
//!
//! A store that is to hear at the address at which it commits first hears itself: what it says on
//! one connection must reach another that stands still. That happens only where each connection has
//! a session of its own, and then the lanes may prepare their statements. A pooler in transaction
//! mode has nobody to pass it on to.
//!
//! The hint is not sent by the transaction that commits: PostgreSQL lets only one transaction with
//! a notification commit at a time. It follows a moment later, one for many commits.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use resurgam_store::{Error, Result};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_postgres::{Client, Row};

use crate::backoff::Backoff;
use crate::connect::{Connector, Notifications};
use crate::pool::Pool;
use crate::session::Session;
use crate::statement::{Schema, Statement};

/// The pause after news.
const SOON: Duration = Duration::from_millis(20);
/// The longest pause: with a beat every 1.4 seconds an idle node makes fewer than three statements
/// a second.
const IDLE: Duration = Duration::from_millis(480);
/// The shortest pause, however many hints come.
const AT_LEAST: Duration = Duration::from_millis(5);
/// How many commits share a hint: all within this time.
const TOGETHER: Duration = Duration::from_millis(5);

/// Rows of the inbox come from those who have no lane.
const LOOK: &str = "
    SELECT count(*), coalesce(sum(n), 0)::bigint,
           EXISTS (SELECT 1 FROM @inbox WHERE error IS NULL),
           (SELECT count(*) FROM @node),
           (SELECT count(*) FROM @shard WHERE owner IS NULL)
    FROM @lane WHERE node <> $1";

/// What tells this store about others, and others about this store.
#[derive(Debug)]
pub(crate) struct Changes {
    told: watch::Sender<u64>,
    /// A hint came.
    hinted: Notify,
    /// Something was committed that others want to hear of.
    news: Notify,
    /// Among it, that nodes or shards have moved.
    moved: AtomicBool,
    /// Others have moved nodes or shards.
    moves: Notify,
    /// The store has heard itself.
    heard: Notify,
    /// Connections made here have sessions of their own.
    sessions: Arc<AtomicBool>,
    /// Why nothing can be asked any more.
    gone: OnceLock<Error>,
}

impl Changes {
    pub(crate) fn new(sessions: Arc<AtomicBool>) -> Self {
        Changes {
            heard: Notify::new(),
            gone: OnceLock::new(),
            sessions,
            told: watch::Sender::new(0),
            hinted: Notify::new(),
            news: Notify::new(),
            moved: AtomicBool::new(false),
            moves: Notify::new(),
        }
    }

    /// What changes when somebody else has committed; what was seen by now is not news.
    pub(crate) fn told(&self) -> watch::Receiver<u64> {
        self.told.subscribe()
    }

    /// Why nothing can be asked any more, once that is so.
    pub(crate) fn gone(&self) -> Option<Error> {
        self.gone.get().map(Error::to_another)
    }

    /// The tables are not there any more, and whoever waits for news hears of it.
    fn is_gone(&self, place: &str, error: Error) {
        let text = format!(
            "{place} was removed while it was in use; it is not made anew, so that nobody takes an \
             empty one for it: restore a backup and begin the process anew"
        );
        // Only the first one is told.
        let _ = self.gone.set(Error::missing(text).because(error));
        self.changed();
    }

    /// Lets others know soon.
    pub(crate) fn tell(&self) {
        self.news.notify_one();
    }

    /// Lets others know soon that nodes or shards have moved.
    pub(crate) fn tell_moves(&self) {
        self.moved.store(true, Ordering::Relaxed);
        self.news.notify_one();
    }

    /// Ready when others have moved nodes or shards, or may have.
    pub(crate) async fn moves(&self) {
        self.moves.notified().await;
    }

    /// Lets the node here look who has what.
    pub(crate) fn look_at_moves(&self) {
        self.moves.notify_one();
    }

    /// Lets those know who wait for news here.
    pub(crate) fn changed(&self) {
        self.told.send_modify(|count| *count += 1);
    }
}

/// What a look finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    lanes: i64,
    numbers: i64,
    inbox: bool,
    nodes: i64,
    free: i64,
}

impl Found {
    fn read(row: &Row) -> Option<Found> {
        Some(Found {
            lanes: row.try_get(0).ok()?,
            numbers: row.try_get(1).ok()?,
            inbox: row.try_get(2).ok()?,
            nodes: row.try_get(3).ok()?,
            free: row.try_get(4).ok()?,
        })
    }

    /// What changes when somebody commits.
    fn commits(&self) -> (i64, i64, bool) {
        (self.lanes, self.numbers, self.inbox)
    }

    /// What changes when nodes come and go, and shards are given up and taken.
    fn moves(&self) -> (i64, i64) {
        (self.nodes, self.free)
    }
}

/// One look. The first is made before anybody can ask for news, so that all that is committed after
/// that is news.
pub(crate) async fn look(pool: &Pool, writer: &str) -> Result<Found> {
    let what = "look for commits of others";
    let rows = pool.ask(Statement::rows(what, LOOK).text(writer)).await?;
    let found = rows.first().and_then(Found::read);
    found.ok_or_else(|| Error::transient(format!("{what}: no answer")))
}

/// Looks until the store is gone, or the tables are. Other trouble is no news: the next look sees
/// what this one did not.
pub(crate) async fn keep_looking(
    changes: Arc<Changes>,
    pool: Arc<Pool>,
    place: String,
    writer: String,
    mut seen: Found,
) {
    let mut pause = SOON;
    loop {
        let found = match look(&pool, &writer).await {
            Ok(found) => found,
            Err(error) if error.is_missing() => return changes.is_gone(&place, error),
            Err(_) => seen,
        };
        let news = found.commits() != seen.commits();
        if found.moves() != seen.moves() {
            changes.look_at_moves();
        }
        seen = found;
        // A row that lies in the inbox is told of with every look, for as long as it lies there.
        if news || found.inbox {
            changes.changed();
        }
        pause = if news { SOON } else { (pause * 2).min(IDLE) };
        sleep(AT_LEAST).await;
        tokio::select! {
            () = sleep(pause - AT_LEAST) => {}
            () = changes.hinted.notified() => pause = SOON,
        }
    }
}

/// Listens, and sends hints, on a connection of its own, until the store is gone. With a speaker it
/// finds out whether connections have sessions of their own.
pub(crate) async fn listen(
    changes: Arc<Changes>,
    connector: Connector,
    schema: Schema,
    writer: String,
    speaker: Option<Arc<Pool>>,
) {
    let channel = Channel::new(&schema, writer);
    let mut backoff = Backoff::default();
    loop {
        match connector.listen().await {
            Ok((client, mut notifications)) => {
                backoff = Backoff::default();
                let speaker = speaker.as_deref();
                hear(&changes, &channel, &client, &mut notifications, speaker).await;
                changes.sessions.store(false, Ordering::Relaxed);
                // Whatever was said meanwhile went unheard.
                changes.hinted.notify_one();
            }
            Err(error) => tracing::debug!(%error, "nobody to listen to"),
        }
        backoff.wait().await;
    }
}

/// Where hints are sent.
struct Channel {
    name: String,
    writer: String,
}

/// What a hint says beside who sends it.
const COMMITS: &str = "commits";
const MOVES: &str = "moves";
const SELF: &str = "self";

/// How long the server may take to pass on a hint.
const SPOKEN: Duration = Duration::from_secs(10);

/// How long a store waits to hear itself.
const SELF_HEARD: Duration = Duration::from_secs(2);

impl Channel {
    fn new(schema: &Schema, writer: String) -> Self {
        let name = format!("\"resurgam {}\"", schema.name().replace('"', "\"\""));
        Channel { name, writer }
    }

    fn listen(&self) -> String {
        format!("LISTEN {}", self.name)
    }

    /// A transaction up to its `COMMIT`. Losing it in a crash loses nothing, so it need not wait
    /// for the disk.
    fn notify(&self, what: &str) -> String {
        let Channel { name, writer } = self;
        format!("BEGIN; SET LOCAL synchronous_commit = off; NOTIFY {name}, '{writer} {what}'")
    }
}

/// Hears what comes on a connection until it ends, or leads to the wrong server.
async fn hear(
    changes: &Changes,
    channel: &Channel,
    client: &Session,
    notifications: &mut Notifications,
    speaker: Option<&Pool>,
) {
    let mut speaking = pin!(speak(changes, channel, client, speaker));
    let mut moved = pin!(client.moved());
    loop {
        let hint = tokio::select! {
            () = &mut speaking => return,
            () = &mut moved => return,
            hint = notifications.recv() => hint,
        };
        let Some(hint) = hint else { return };
        let (writer, what) = hint.payload().split_once(' ').unwrap_or_default();
        if writer == channel.writer && what == SELF {
            changes.heard.notify_one();
        }
        if writer != channel.writer {
            changes.hinted.notify_one();
            if what == MOVES {
                changes.look_at_moves();
            }
        }
    }
}

/// Begins to listen, then passes on what is to be said; ends when the connection does.
async fn speak(changes: &Changes, channel: &Channel, client: &Client, speaker: Option<&Pool>) {
    let listen = channel.listen();
    let Ok(mut said) = timeout(SPOKEN, client.batch_execute(&listen)).await else { return };
    if let Some(speaker) = speaker
        && said.is_ok()
        && hears_itself(changes, channel, speaker).await
    {
        changes.sessions.store(true, Ordering::Relaxed);
    }
    while said.is_ok() {
        changes.news.notified().await;
        sleep_until(Instant::now() + TOGETHER).await;
        let moved = changes.moved.swap(false, Ordering::Relaxed);
        let notify = format!("{}; COMMIT", channel.notify(if moved { MOVES } else { COMMITS }));
        // A connection that does not answer is given up: a hint is nothing to wait for.
        let Ok(answer) = timeout(SPOKEN, client.batch_execute(&notify)).await else { return };
        said = answer;
    }
}

/// True when what is said on another connection comes here, where nothing is said meanwhile.
async fn hears_itself(changes: &Changes, channel: &Channel, speaker: &Pool) -> bool {
    if let Err(error) = speaker.tell(&channel.notify(SELF)).await {
        tracing::debug!(%error, "nobody to speak to");
        return false;
    }
    timeout(SELF_HEARD, changes.heard.notified()).await.is_ok()
}
