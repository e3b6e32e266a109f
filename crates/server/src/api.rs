//! The router, and what its handlers share.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::response::Response;
use resurgam::{Client, Code};
use resurgam_graph::SecretsKey;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::access::{Asks, Failures, KnownTokens, hash_of};
use crate::audit::AuditLog;
use crate::caller::Caller;
use crate::compress::compressed;
use crate::links::{as_base, with_links};
use crate::openapi::with_problems;
use crate::problem::Problem;
use crate::remote::Remote;
use crate::serve::{Limits, Network, Tls};
use crate::switch::Switch;
use crate::{routes, ui};

/// The largest body of a request, also when it was compressed.
pub(crate) const LARGEST_BODY: usize = 16 << 20;

/// Renders the numbers of this process.
pub(crate) type Metrics = Arc<dyn Fn() -> String + Send + Sync>;

/// What can be chosen about the API.
///
/// ```
/// use resurgam_server::Options;
///
/// let options = Options::default().metrics(|| "up 1\n".to_string()).open();
/// let with_admin = Options::default().admin_token("a secret of 32 bytes at least");
/// assert!(!format!("{with_admin:?}").contains("secret"));
/// assert!(format!("{options:?}").contains("Options"));
/// ```
#[derive(Clone, Default)]
pub struct Options {
    pub(crate) metrics: Option<Metrics>,
    pub(crate) asks: Asks,
    /// The hash of a token that is stored nowhere.
    pub(crate) admin: Option<String>,
    pub(crate) remote: Option<Remote>,
    /// What paths begin with outside; empty when the router finds that out.
    pub(crate) base: String,
    pub(crate) limits: Limits,
    pub(crate) tls: Option<Tls>,
    /// Whose word about a request is taken.
    pub(crate) proxies: Vec<Network>,
    pub(crate) switches: Vec<Switch>,
    /// What secrets of graphs are encrypted with.
    pub(crate) secrets_key: Option<SecretsKey>,
}

impl Options {
    /// What `/metrics` answers with, an OpenMetrics page; there is none unless this is set.
    pub fn metrics(mut self, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.metrics = Some(Arc::new(render));
        self
    }

    /// Lets in who names no token, with the right to do everything: for a router behind an
    /// authentication of your own, or at an address of this machine.
    pub fn open(mut self) -> Self {
        self.asks = Asks::IfNamed;
        self
    }

    /// What the paths of the API begin with for those who ask, such as `/ops`, where a proxy stands
    /// before it: links in answers begin with it, and requests may. Not needed where an outer
    /// router has nested this one.
    pub fn base_path(mut self, path: &str) -> Self {
        self.base = as_base(path);
        self
    }

    /// What is let in at once, and how long is waited for it.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Has [`serve`](crate::serve) encrypt its connections.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Believes proxies at these addresses: what they say in `X-Forwarded-Prefix` is where links in
    /// answers begin. Of others that header counts for nothing.
    pub fn trusted_proxy(mut self, network: Network) -> Self {
        self.proxies.push(network);
        self
    }

    /// Lets remote workers have the attempts that wait there.
    pub fn remote(mut self, remote: &Remote) -> Self {
        self.remote = Some(remote.clone());
        self
    }

    /// Has the dashboard show a switch above every view, which turns something of yours off and on:
    /// for demos and drills.
    pub fn switch(mut self, switch: &Switch) -> Self {
        self.switches.push(switch.clone());
        self
    }

    /// What secrets of graphs are encrypted with before anything is stored. Graphs with secrets are
    /// refused without it.
    pub fn secrets_key(mut self, key: &SecretsKey) -> Self {
        self.secrets_key = Some(key.clone());
        self
    }

    /// A token that may do everything while this process runs, and is stored nowhere.
    pub fn admin_token(mut self, token: &str) -> Self {
        self.admin = Some(hash_of(token));
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("asks", &self.asks).finish_non_exhaustive()
    }
}

/// The API on a client, before it becomes a router: it can be told to end.
///
/// ```
/// # use resurgam::prelude::*;
/// use resurgam_server::{Api, Options};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), resurgam::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// let app = App::builder().sqlite(folder.path().join("app.db")).await?;
/// let api = Api::new(&app, Options::default());
/// let router: axum::Router = api.router();
/// // When the process is to end: whoever waits for something is answered at once.
/// api.stop();
/// # let _ = router;
/// # app.stop().await
/// # }
/// ```
#[derive(Clone)]
pub struct Api {
    pub(crate) client: Client,
    pub(crate) options: Options,
    pub(crate) tokens: KnownTokens,
    /// Who named tokens that let nobody in.
    pub(crate) failures: Failures,
    /// Who did what.
    pub(crate) audit: AuditLog,
    stopping: Arc<watch::Sender<bool>>,
    /// Room for those who wait for something.
    waiting: Arc<Semaphore>,
    waiting_by_token: WaitingByToken,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Api")
    }
}

/// The API of a client as a router, to be mounted where it should be.
pub fn router(client: &Client, options: Options) -> Router {
    Api::new(client, options).router()
}

impl Api {
    /// The API of a client.
    pub fn new(client: &Client, options: Options) -> Self {
        let stopping = Arc::new(watch::Sender::new(false));
        let waiting = Arc::new(Semaphore::new(options.limits.polls));
        options.remote.iter().for_each(|remote| remote.attach(client));
        let (tokens, failures) = (KnownTokens::default(), Failures::default());
        let (client, audit) = (client.clone(), AuditLog::default());
        let waiting_by_token = WaitingByToken::default();
        Api { client, options, tokens, failures, audit, stopping, waiting, waiting_by_token }
    }

    /// Its routes.
    pub fn router(&self) -> Router {
        let (router, description) = routes::all(self).split_for_parts();
        let description = with_problems(description);
        let router = router
            .merge(routes::description(self, description))
            .merge(ui::routes())
            .fallback(nothing_here)
            .method_not_allowed_fallback(not_so)
            .layer(DefaultBodyLimit::max(LARGEST_BODY))
            .layer(from_fn(compressed))
            .layer(map_response(with_limits_for_browsers))
            .layer(from_fn_with_state(self.clone(), with_links))
            .with_state(self.clone());
        match self.options.base.as_str() {
            "" => router,
            // A proxy may take the base away, or leave it.
            base => Router::new().nest(base, router.clone()).fallback_service(router),
        }
    }

    /// Answers everybody who waits for something, now and from now on.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Room to wait for something, for as long as the answer exists; a problem where too many wait,
    /// or too many of this token.
    pub(crate) fn may_wait(&self, caller: &Caller) -> Result<Room, Problem> {
        let full = |most: usize, whose: &str| {
            let detail = format!("{most} requests{whose} wait already; ask later");
            Problem::new(StatusCode::TOO_MANY_REQUESTS, Code::E9, detail)
        };
        let limits = self.options.limits;
        let own = caller.token_id().map(|id| {
            let most = caller.polls().unwrap_or(limits.polls_of_token);
            let room = self.waiting_by_token.room(id, most);
            room.ok_or_else(|| full(most, " of this token"))
        });
        let own = own.transpose()?;
        let all = self.waiting.clone().try_acquire_owned();
        Ok(Room { _all: all.map_err(|_| full(limits.polls, ""))?, _own: own })
    }

    /// True when the process is to end.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Ends when the process is to end.
    pub(crate) async fn stopped(&self) {
        let mut stopping = self.stopping.subscribe();
        // The sender lives as long as this does.
        let _stopping = stopping.wait_for(|stopping| *stopping).await;
    }
}

/// Room to wait for something.
pub(crate) struct Room {
    _all: OwnedSemaphorePermit,
    _own: Option<OwnRoom>,
}

/// How many requests of each token wait.
#[derive(Clone, Default)]
struct WaitingByToken(Arc<Mutex<HashMap<String, usize>>>);

impl WaitingByToken {
    /// Room for one more, unless so many wait.
    fn room(&self, token: &str, most: usize) -> Option<OwnRoom> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = waiting.entry(token.to_string()).or_default();
        (*count < most).then(|| {
            *count += 1;
            OwnRoom { of: self.clone(), token: token.to_string() }
        })
    }
}

/// Room for a request of a token. Given back when it is dropped.
struct OwnRoom {
    of: WaitingByToken,
    token: String,
}

impl Drop for OwnRoom {
    fn drop(&mut self) {
        let mut waiting = self.of.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = waiting.get_mut(&self.token) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                waiting.remove(&self.token);
            }
        }
    }
}

/// What a browser may do with an answer: take it for what it says it is, and run nothing that does
/// not come from here.
const LIMITS: [(HeaderName, &str); 3] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
];

async fn with_limits_for_browsers(mut response: Response) -> Response {
    for (name, value) in LIMITS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    // Pages without data may be kept, and a stream says more about how it is.
    let kept = response.headers_mut().entry(header::CACHE_CONTROL);
    kept.or_insert(HeaderValue::from_static("no-store"));
    response
}

async fn nothing_here(uri: axum::http::Uri) -> Problem {
    let path = uri.path();
    Problem::missing(format!("there is nothing at {path}; /openapi.json says what there is"))
}

async fn not_so(method: axum::http::Method, uri: axum::http::Uri) -> Problem {
    let status = axum::http::StatusCode::METHOD_NOT_ALLOWED;
    let path = uri.path();
    let detail = format!("{path} cannot be asked with {method}; /openapi.json says with what");
    Problem::new(status, resurgam::Code::E9, detail)
}
