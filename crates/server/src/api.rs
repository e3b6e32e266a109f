//! The router, and what its handlers share.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use resurgam::Client;
use tokio::sync::watch;

use crate::openapi::with_problems;
use crate::problem::Problem;
use crate::routes;

/// The largest body of a request.
const LARGEST_BODY: usize = 16 << 20;

/// Renders the numbers of this process.
pub(crate) type Metrics = Arc<dyn Fn() -> String + Send + Sync>;

/// What can be chosen about the API.
///
/// ```
/// use resurgam_server::Options;
///
/// let options = Options::default().metrics(|| "up 1\n".to_string());
/// assert!(format!("{options:?}").contains("Options"));
/// ```
#[derive(Clone, Default)]
pub struct Options {
    pub(crate) metrics: Option<Metrics>,
}

impl Options {
    /// What `/metrics` answers with, an OpenMetrics page; there is none unless this is set.
    pub fn metrics(mut self, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.metrics = Some(Arc::new(render));
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("metrics", &self.metrics.is_some()).finish()
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
    stopping: Arc<watch::Sender<bool>>,
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
        Api { client: client.clone(), options, stopping: Arc::new(watch::Sender::new(false)) }
    }

    /// Its routes.
    pub fn router(&self) -> Router {
        let (router, description) = routes::all().split_for_parts();
        let description = with_problems(description);
        router
            .merge(routes::description(description))
            .fallback(nothing_here)
            .method_not_allowed_fallback(not_so)
            .layer(DefaultBodyLimit::max(LARGEST_BODY))
            .with_state(self.clone())
    }

    /// Answers everybody who waits for something, now and from now on.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Ends when the process is to end.
    pub(crate) async fn stopped(&self) {
        let mut stopping = self.stopping.subscribe();
        // The sender lives as long as this does.
        let _stopping = stopping.wait_for(|stopping| *stopping).await;
    }
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
