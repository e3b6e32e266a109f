//! Who works, whether all is well, numbers, and the pages of error codes.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use resurgam::Owner;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use crate::api::Api;
use crate::caller::Caller;
use crate::extract::Path;
use crate::pages;
use crate::problem::Problem;
use crate::remote::{LEASE, Remote, Seen, all_seen};
use crate::wire::{Page, rfc3339};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(server))
        .routes(routes!(nodes))
        .routes(routes!(workers))
        .routes(routes!(metrics))
}

/// Those that anybody may ask for: they tell nothing about what is in the database.
pub(super) fn open_routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(page)).routes(routes!(healthz)).routes(routes!(readyz))
}

/// What this server can, counted up with every release in which programs can ask for more.
const LEVEL: u32 = 1;

/// The server itself.
#[derive(Serialize, ToSchema)]
struct Server {
    /// Its version.
    version: String,
    /// What programs can ask of it: 1, and more in later versions.
    level: u32,
    /// What time it is there. Times in answers, and times in filters, are by this clock.
    at_ms: i64,
    at: String,
    /// The name of the token that let you in; null where none was asked for.
    token: Option<String>,
}

/// What this server is, what it can, and what time it is there
#[utoipa::path(
    get, path = "/api/v1/server", tag = "system", responses((status = OK, body = Server))
)]
async fn server(State(api): State<Api>, caller: Caller) -> Reply<Server> {
    let now = api.client.handle().now();
    Ok(Json(Server {
        version: env!("CARGO_PKG_VERSION").to_string(),
        level: LEVEL,
        at_ms: now.as_millis(),
        at: rfc3339(now),
        token: caller.token().map(str::to_string),
    }))
}

/// A process that works on the database.
#[derive(Serialize, ToSchema)]
struct Node {
    node: String,
    pid: u32,
    program: String,
    since_ms: i64,
    since: String,
}

impl From<&Owner> for Node {
    fn from(owner: &Owner) -> Self {
        Node {
            node: owner.node.clone(),
            pid: owner.pid,
            program: owner.program.clone(),
            since_ms: owner.since.as_millis(),
            since: rfc3339(owner.since),
        }
    }
}

/// Who works on the database
#[utoipa::path(
    get, path = "/api/v1/nodes", tag = "system", responses((status = OK, body = Page<Node>))
)]
async fn nodes(State(api): State<Api>) -> Reply<Page<Node>> {
    let nodes = api.client.nodes().await?;
    Ok(Json(Page { items: nodes.iter().map(Node::from).collect(), cursor: None }))
}

/// A remote worker.
#[derive(Serialize, ToSchema)]
struct Worker {
    /// What it calls itself by: the beginning of it.
    session: String,
    /// The activities that it offers.
    activities: Vec<String>,
    /// How many attempts it has.
    running: usize,
    /// It waits for more.
    polls: bool,
    /// When it was last heard of.
    heard_ms: i64,
    heard: String,
}

impl From<Seen> for Worker {
    fn from(seen: Seen) -> Self {
        let Seen { session, heard, activities, running, polls } = seen;
        // Who knows all of it could report in its place.
        let session = session.chars().take(8).collect();
        let (heard_ms, heard) = (heard.as_millis(), rfc3339(heard));
        Worker { session, activities, running, polls, heard_ms, heard }
    }
}

/// The remote workers that any server on the database has heard of within a lease
#[utoipa::path(
    get, path = "/api/v1/workers", tag = "system", responses((status = OK, body = Page<Worker>))
)]
async fn workers(State(api): State<Api>) -> Reply<Page<Worker>> {
    let (handle, remote) = (api.client.handle(), api.options.remote.as_ref());
    let now = handle.now();
    let lease = remote.map_or(LEASE, Remote::lease);
    let here = remote.map(|remote| remote.seen(now)).unwrap_or_default();
    let busy = handle.busy();
    let stored = handle.store().worker_sessions().await;
    drop(busy);
    let stored = stored.map_err(|error| resurgam::Error::store("look for workers", error))?;
    let seen = all_seen(here, stored, now.saturating_sub(lease));
    Ok(Json(Page { items: seen.into_iter().map(Worker::from).collect(), cursor: None }))
}

/// What an error code means, and what to do
#[utoipa::path(
    get, path = "/api/v1/errors/{code}", tag = "system",
    params(("code" = String, Path, description = "Such as E2")),
    responses((status = OK, body = String, content_type = "text/markdown"))
)]
async fn page(Path(code): Path<String>) -> Result<impl IntoResponse, Problem> {
    let missing = || Problem::missing(format!("{code:?} is no error code"));
    let page = pages::page(&code).ok_or_else(missing)?;
    Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], page))
}

/// This process answers
#[utoipa::path(
    get, path = "/healthz", tag = "system", responses((status = OK, body = String))
)]
async fn healthz() -> &'static str {
    "ok\n"
}

/// The database answers
#[utoipa::path(
    get, path = "/readyz", tag = "system",
    responses(
        (status = OK, body = String),
        (status = SERVICE_UNAVAILABLE, body = String)
    )
)]
async fn readyz(State(api): State<Api>) -> (StatusCode, &'static str) {
    match api.client.owner().await {
        Ok(_) => (StatusCode::OK, "ready\n"),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n"),
    }
}

/// The numbers of this process, for Prometheus: an OpenMetrics page
#[utoipa::path(
    get, path = "/metrics", tag = "system",
    responses((status = OK, body = String, content_type = "application/openmetrics-text"))
)]
async fn metrics(State(api): State<Api>) -> Result<impl IntoResponse, Problem> {
    let missing = || Problem::missing("this process keeps no numbers");
    let render = api.options.metrics.as_ref().ok_or_else(missing)?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], render()))
}
