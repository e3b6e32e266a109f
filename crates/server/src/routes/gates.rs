//! Looking at gates, and at kinds of calls that are paused.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use crate::api::Api;
use crate::extract::Path;
use crate::problem::Problem;
use crate::wire::gate::{Gate, PausedKind};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show))
}

/// The gates, and what is paused as a whole.
#[derive(Serialize, ToSchema)]
struct Gates {
    /// Those that did not always flow, that somebody set, or behind which calls are due.
    items: Vec<Gate>,
    /// Activities and queues that are paused.
    paused: Vec<PausedKind>,
}

/// Lists gates, and the activities and queues that are paused
#[utoipa::path(
    get, path = "/api/v1/gates", tag = "gates", responses((status = OK, body = Gates))
)]
async fn list(State(api): State<Api>) -> Reply<Gates> {
    let (gates, holds) = (api.client.gates().await?, api.client.holds().await?);
    let now = api.client.handle().now();
    let items = gates.iter().map(|gate| Gate::of(gate, now)).collect();
    Ok(Json(Gates { items, paused: holds.iter().map(PausedKind::from).collect() }))
}

/// How a gate stands, why, and what waits behind it
#[utoipa::path(
    get, path = "/api/v1/gates/{key}", tag = "gates",
    params(("key" = String, Path, description = "The key of the gate")),
    responses((status = OK, body = Gate))
)]
async fn show(State(api): State<Api>, Path(key): Path<String>) -> Reply<Gate> {
    let missing = || {
        Problem::missing(format!("nothing is stored of gate {key:?}, and no call is due behind it"))
    };
    let found = api.client.gate(&key).await?;
    Ok(Json(Gate::of(&found.ok_or_else(missing)?, api.client.handle().now())))
}
