//! One connection: its requests in turn, and its end.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tower::ServiceExt;

use crate::Api;

/// How long a connection without a request may take to end: a request may be on its way.
const SETTLES: Duration = Duration::from_secs(1);

/// Who has connected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// How long the body of a request may take to arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrives(pub(crate) Duration);

/// What all connections share.
pub(super) struct Connections {
    pub(super) api: Api,
    pub(super) router: Router,
}

impl Connections {
    /// Serves a connection until it ends, or the server does.
    pub(super) async fn serve(&self, stream: TcpStream, peer: SocketAddr) {
        // Answers are small, and somebody waits for each.
        let _unless_it_has_ended = stream.set_nodelay(true);
        let Some(tls) = &self.api.options.tls else { return self.speak(stream, peer.ip()).await };
        let begun = tokio::time::timeout(self.api.options.limits.request, tls.accept(stream));
        let begun = tokio::select! {
            begun = begun => begun,
            () = self.api.stopped() => return,
        };
        match begun {
            Ok(Ok(stream)) => self.speak(stream, peer.ip()).await,
            Ok(Err(error)) => tracing::debug!("a connection of {peer} without TLS: {error}"),
            Err(_) => tracing::debug!("a connection of {peer} was silent for too long"),
        }
    }

    async fn speak(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send, peer: IpAddr) {
        let under_way = Arc::new(AtomicUsize::new(0));
        let arrives = Arrives(self.api.options.limits.request);
        let service = service_fn(|request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer));
            request.extensions_mut().insert(arrives);
            let (router, under_way) = (self.router.clone(), UnderWay::new(&under_way));
            async move {
                let answer = router.oneshot(request).await;
                drop(under_way);
                answer.map_err(|never: Infallible| never)
            }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(arrives.0);
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            // It ends as clients want, or in the middle of something: that is their affair.
            _ended = connection.as_mut() => return,
            () = self.api.stopped() => connection.as_mut().graceful_shutdown(),
        }
        loop {
            tokio::select! {
                _ended = connection.as_mut() => return,
                () = tokio::time::sleep(SETTLES) => {
                    // Half a request is none.
                    if under_way.load(Ordering::Relaxed) == 0 {
                        return;
                    }
                }
            }
        }
    }
}

/// A request that is being answered.
struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        UnderWay(count.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
