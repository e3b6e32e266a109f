//! A proxy that cuts connections where it hurts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use resurgam_postgres_server::{Database, ROLE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream, tcp, unix};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

/// What happens to a connection that commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Nothing.
    Never,
    /// It ends when everything but the COMMIT has reached the server.
    BeforeCommit,
    /// It ends when the server has committed, before its answer comes.
    AfterCommit,
    /// It ends for the client when the COMMIT is on its way; the server may still be busy, and is
    /// left to it.
    Meanwhile,
}

/// A proxy in front of a database.
pub(crate) struct Proxy {
    pub(crate) url: String,
    traffic: Arc<Traffic>,
    frozen: watch::Sender<bool>,
    _serving: Serving,
}

/// What all connections have to do with.
#[derive(Default)]
struct Traffic {
    /// What happens to each of the coming commits, four bits each, the next one lowest.
    plan: AtomicU64,
    /// How many connections clients have made.
    connections: AtomicU64,
    /// How many commits have come that did not get through at once.
    held_commits: AtomicU64,
}

struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Proxy {
    pub(crate) async fn before(database: &Database<'_>) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("postgres://{ROLE}@127.0.0.1:{port}/{}?sslmode=disable", database.name());
        let url_of_server = database.url();
        let folder = url_of_server.split_once('@').unwrap().1.split_once(':').unwrap().0;
        let socket =
            format!("{}/.s.PGSQL.{}", folder.replace("%2F", "/"), database.server().port());
        let traffic: Arc<Traffic> = Arc::default();
        let (frozen, shared) = (watch::Sender::new(false), traffic.clone());
        let thawed = frozen.subscribe();
        let serving = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let server = UnixStream::connect(&socket).await.unwrap();
                shared.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(client, server, shared.clone(), thawed.clone()));
            }
        });
        Proxy { url, traffic, frozen, _serving: Serving(serving) }
    }

    /// Nothing gets through any more, and nobody hears why.
    pub(crate) fn freeze(&self) {
        self.frozen.send_replace(true);
    }

    /// Everything gets through again, what was sent meanwhile too.
    pub(crate) fn thaw(&self) {
        self.frozen.send_replace(false);
    }

    /// Says what happens to the coming commits, in order.
    pub(crate) fn plan(&self, cuts: &[Cut]) {
        let code = |cut: &Cut| match cut {
            Cut::Never => 0,
            Cut::BeforeCommit => 1,
            Cut::AfterCommit => 2,
            Cut::Meanwhile => 3,
        };
        let plan = cuts.iter().rev().fold(0, |plan, cut| plan << 4 | code(cut));
        self.traffic.plan.store(plan, Ordering::SeqCst);
    }

    /// True when everything planned has happened.
    pub(crate) fn is_done(&self) -> bool {
        self.traffic.plan.load(Ordering::SeqCst) == 0
    }

    /// How many connections clients have made.
    pub(crate) fn connections(&self) -> u64 {
        self.traffic.connections.load(Ordering::SeqCst)
    }

    /// How many commits have come that did not get through at once.
    pub(crate) fn held_commits(&self) -> u64 {
        self.traffic.held_commits.load(Ordering::SeqCst)
    }
}

fn next(plan: &AtomicU64) -> Cut {
    let before = plan.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |plan| Some(plan >> 4));
    match before.unwrap_or(0) & 0xf {
        0 => Cut::Never,
        1 => Cut::BeforeCommit,
        2 => Cut::AfterCommit,
        _ => Cut::Meanwhile,
    }
}

/// The message with which a transaction ends.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// What a batch begins with: beats, and questions what became of a batch, are none.
const COUNTS: &[u8] = b"SET n = n + 1";

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

async fn serve(
    client: TcpStream,
    server: UnixStream,
    traffic: Arc<Traffic>,
    mut frozen: watch::Receiver<bool>,
) -> Option<()> {
    let (mut from_client, to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let way_back = Arc::new(WayBack::default());
    let back = tokio::spawn(answer(from_server, to_client, way_back.clone(), frozen.clone()));
    let (mut bytes, mut counts) = (vec![0; 1 << 20], false);
    loop {
        let count = from_client.read(&mut bytes).await.ok().filter(|count| *count > 0)?;
        let sent = &bytes[..count];
        counts |= find(sent, COUNTS).is_some();
        let at = find(sent, COMMIT).filter(|_| std::mem::take(&mut counts));
        if at.is_some() && *frozen.borrow() {
            traffic.held_commits.fetch_add(1, Ordering::SeqCst);
        }
        frozen.wait_for(|frozen| !frozen).await.ok()?;
        match at.map(|at| (next(&traffic.plan), at)) {
            None | Some((Cut::Never, _)) => to_server.write_all(sent).await.ok()?,
            Some((Cut::BeforeCommit, at)) => {
                to_server.write_all(&sent[..at]).await.ok()?;
                back.abort();
                return None;
            }
            Some((Cut::AfterCommit, _)) => {
                way_back.mute.store(true, Ordering::SeqCst);
                to_server.write_all(sent).await.ok()?;
                return back.await.ok();
            }
            Some((Cut::Meanwhile, _)) => {
                way_back.mute.store(true, Ordering::SeqCst);
                to_server.write_all(sent).await.ok()?;
                way_back.cut.notify_one();
                drop(from_client);
                // A server whose own connection ends gives up what it is at.
                return back.await.ok();
            }
        }
    }
}

/// How answers come to the client.
#[derive(Default)]
struct WayBack {
    /// They do not.
    mute: AtomicBool,
    /// The client's connection is to end now.
    cut: Notify,
}

/// Passes answers on. When it is muted it does not, and ends when the server is done with the
/// transaction.
async fn answer(
    mut from: unix::OwnedReadHalf,
    to: tcp::OwnedWriteHalf,
    way_back: Arc<WayBack>,
    mut frozen: watch::Receiver<bool>,
) {
    let (mut to, mut bytes) = (Some(to), vec![0; 1 << 16]);
    loop {
        let read = tokio::select! {
            read = from.read(&mut bytes) => read,
            () = way_back.cut.notified() => {
                to = None;
                continue;
            }
        };
        let Ok(count @ 1..) = read else { return };
        if frozen.wait_for(|frozen| !frozen).await.is_err() {
            return;
        }
        let answer = &bytes[..count];
        let says = |end: &[u8]| answer.windows(end.len()).any(|window| window == end);
        let done = says(b"COMMIT\0") || says(b"ROLLBACK\0");
        if way_back.mute.load(Ordering::SeqCst) {
            if done {
                return;
            }
        } else if let Some(to) = &mut to
            && to.write_all(answer).await.is_err()
        {
            return;
        }
    }
}
