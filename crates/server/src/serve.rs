//! A listener for the router, with a graceful end.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use resurgam::Code;
use tokio::net::TcpListener;

use crate::Api;
use crate::problem::Problem;

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
/// let api = Api::new(&app, Options::default());
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
            "listen at {}: others than this machine could reach it, and there are no tokens; \
             listen at 127.0.0.1",
            self.0
        )
    }
}

impl std::error::Error for Refused {}

/// Serves the API until the future ends; then it answers who waits, finishes what it has begun, and
/// returns.
///
/// Without tokens only an address of this machine will do, and a request that came through a proxy
/// is refused: a proxy on this machine would open it to everybody.
pub async fn serve(
    listener: TcpListener,
    api: Api,
    until: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, Refused(address)));
    }
    let router = api.router().layer(from_fn(refuse_proxied));
    let stop = async move {
        until.await;
        api.stop();
    };
    axum::serve(listener, router).with_graceful_shutdown(stop).await
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

async fn refuse_proxied(request: Request, next: Next) -> Response {
    match OF_PROXIES.iter().find(|name| request.headers().contains_key(**name)) {
        Some(name) => {
            let detail = format!(
                "the request has the header {name}, so it came through a proxy, and there are no \
                 tokens"
            );
            Problem::new(StatusCode::FORBIDDEN, Code::E9, detail).into_response()
        }
        None => next.run(request).await,
    }
}
