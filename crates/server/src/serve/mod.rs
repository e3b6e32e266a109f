//! A listener for the router, with a graceful end.

mod connection;
mod network;
mod tls;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use resurgam::Code;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::Api;
use crate::access::Asks;
use crate::problem::Problem;

use connection::Connections;
pub(crate) use connection::{Arrives, Peer};
pub use network::Network;
pub use tls::Tls;

/// What is let in at once, and how long is waited for it.
///
/// ```
/// use resurgam_server::{Limits, Options};
///
/// let few = Limits { connections: 100, ..Limits::default() };
/// assert!(few.polls > 1_000 && few.request.as_secs() == 30);
/// let options = Options::default().limits(few);
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many connections there are at once; others wait.
    pub connections: usize,
    /// How many requests wait at once for an attempt or a result; others are told to ask later.
    pub polls: usize,
    /// How many of them are of one token, unless the token says so.
    pub polls_of_token: usize,
    /// How long a request may take to arrive: its head, and then its body.
    pub request: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let request = Duration::from_secs(30);
        Limits { connections: 4_096, polls: 2_048, polls_of_token: 1_024, request }
    }
}

/// An address at which the API may not be served as it is.
///
/// ```
/// # use resurgam::prelude::*;
/// use resurgam_server::{Api, Options, serve};
/// use tokio::net::TcpListener;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let app = App::builder().sqlite(folder.path().join("app.db")).await?;
/// let api = Api::new(&app, Options::default().open());
/// // Everybody could reach this one.
/// let listener = TcpListener::bind("0.0.0.0:0").await?;
/// let refused = serve(listener, api.clone(), async {}).await.unwrap_err();
/// assert!(refused.get_ref().unwrap().to_string().contains("tokens"));
/// // And only this machine that one. It ends when the future does.
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// serve(listener, api, async {}).await?;
/// # app.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(SocketAddr);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "listen at {}: others than this machine could reach it, and no tokens are asked for; \
             listen at 127.0.0.1",
            self.0
        )
    }
}

impl std::error::Error for Refused {}

/// Serves the API until the future ends; then it answers who waits, finishes what it has begun, and
/// returns. What is not finished within half a minute is cut off.
///
/// Where no token is asked for, only an address of this machine will do. A request that came
/// through a proxy is refused there, for a proxy on this machine would open it to everybody; and so
/// is one that names another host, for a name of somebody else may lead a browser here.
pub async fn serve(
    listener: TcpListener,
    api: Api,
    until: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    let mut router = api.router();
    if api.options.asks == Asks::IfNamed {
        if !address.ip().is_loopback() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, Refused(address)));
        }
        router = router.layer(from_fn(only_from_here));
    }
    let limits = api.options.limits;
    let connections = Arc::new(Connections { api: api.clone(), router });
    let room = Arc::new(Semaphore::new(limits.connections));
    let (mut open, mut until) = (JoinSet::new(), pin!(until));
    loop {
        let accepted = tokio::select! {
            () = &mut until => break,
            Some(_ended) = open.join_next() => continue,
            accepted = accept(&listener, &room) => accepted,
        };
        let (stream, peer, place) = accepted;
        let connections = connections.clone();
        open.spawn(async move {
            connections.serve(stream, peer).await;
            drop(place);
        });
    }
    drop(listener);
    api.stop();
    let ended = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(LONGEST_END, ended).await.is_err() {
        tracing::warn!("stopping: cut {} connections off that had not ended", open.len());
    }
    Ok(())
}

/// How long requests that have begun may take when the server ends.
const LONGEST_END: Duration = Duration::from_secs(30);

/// How long it is until a connection is asked for again that could not be taken.
const AGAIN: Duration = Duration::from_secs(1);

/// Takes the next connection as soon as there is room for one.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>) {
    // It is never closed.
    let place = room.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, place),
            // One that ended before it was taken is no concern of the others. Where files have run
            // out, some may be free later.
            Err(error) => {
                tracing::warn!("take a connection: {error}");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// Whether a host with or without a port is this machine.
pub(crate) fn is_here(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Headers that a proxy adds.
const OF_PROXIES: [&str; 6] = [
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-prefix",
];

async fn only_from_here(request: Request, next: Next) -> Response {
    let host = request.headers().get("host").and_then(|host| host.to_str().ok());
    if let Some(host) = host.filter(|host| !is_here(host)) {
        let detail = format!("the request is for the host {host}, and this is another");
        let status = StatusCode::MISDIRECTED_REQUEST;
        return Problem::new(status, Code::E9, detail).into_response();
    }
    match OF_PROXIES.iter().find(|name| request.headers().contains_key(**name)) {
        Some(name) => {
            let detail = format!(
                "the request has the header {name}, so it came through a proxy, and no tokens are \
                 asked for"
            );
            Problem::new(StatusCode::FORBIDDEN, Code::E9, detail).into_response()
        }
        None => next.run(request).await,
    }
}
