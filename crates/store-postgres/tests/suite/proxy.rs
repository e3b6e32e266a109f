//! A proxy that cuts connections where it hurts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use resurgam_postgres_server::{Database, ROLE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream, tcp, unix};
use tokio::sync::watch;
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
    /// It ends for the client when the COMMIT is on its way; the server may still be busy.
    Meanwhile,
}

/// A proxy in front of a database.
pub(crate) struct Proxy {
    pub(crate) url: String,
    /// What happens to each of the coming commits, four bits each, the next one lowest.
    plan: Arc<AtomicU64>,
    frozen: watch::Sender<bool>,
    _serving: Serving,
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
        let plan = Arc::new(AtomicU64::new(0));
        let (frozen, plans) = (watch::Sender::new(false), plan.clone());
        let thawed = frozen.subscribe();
        let serving = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let server = UnixStream::connect(&socket).await.unwrap();
                tokio::spawn(serve(client, server, plans.clone(), thawed.clone()));
            }
        });
        Proxy { url, plan, frozen, _serving: Serving(serving) }
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
        self.plan.store(plan, Ordering::SeqCst);
    }

    /// True when everything planned has happened.
    pub(crate) fn is_done(&self) -> bool {
        self.plan.load(Ordering::SeqCst) == 0
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

async fn serve(
    client: TcpStream,
    server: UnixStream,
    plan: Arc<AtomicU64>,
    mut frozen: watch::Receiver<bool>,
) -> Option<()> {
    let (mut from_client, to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let mute = Arc::new(AtomicBool::new(false));
    let back = tokio::spawn(answer(from_server, to_client, mute.clone(), frozen.clone()));
    let mut bytes = vec![0; 1 << 20];
    loop {
        let count = from_client.read(&mut bytes).await.ok().filter(|count| *count > 0)?;
        frozen.wait_for(|frozen| !frozen).await.ok()?;
        let sent = &bytes[..count];
        let at = sent.windows(COMMIT.len()).position(|window| window == COMMIT);
        match at.map(|at| (next(&plan), at)) {
            None | Some((Cut::Never, _)) => to_server.write_all(sent).await.ok()?,
            Some((Cut::BeforeCommit, at)) => {
                to_server.write_all(&sent[..at]).await.ok()?;
                back.abort();
                return None;
            }
            Some((Cut::AfterCommit, _)) => {
                mute.store(true, Ordering::SeqCst);
                to_server.write_all(sent).await.ok()?;
                return back.await.ok();
            }
            Some((Cut::Meanwhile, _)) => {
                to_server.write_all(sent).await.ok()?;
                back.abort();
                drop(from_client);
                // The server goes on with what it has.
                tokio::time::sleep(Duration::from_millis(500)).await;
                return None;
            }
        }
    }
}

/// Passes answers on. When it is muted it does not, and ends when the server has committed.
async fn answer(
    mut from: unix::OwnedReadHalf,
    mut to: tcp::OwnedWriteHalf,
    mute: Arc<AtomicBool>,
    mut frozen: watch::Receiver<bool>,
) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if frozen.wait_for(|frozen| !frozen).await.is_err() {
            return;
        }
        let answer = &bytes[..count];
        let done = answer.windows(7).any(|window| window == b"COMMIT\0");
        match mute.load(Ordering::SeqCst) {
            true if done => return,
            true => {}
            false if to.write_all(answer).await.is_err() => return,
            false => {}
        }
    }
}
