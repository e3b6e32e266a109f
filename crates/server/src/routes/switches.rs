//! Looking at switches, and turning them. There are such routes where there are switches.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use crate::api::Api;
use crate::caller::Caller;
use crate::extract::{Body, Path};
use crate::problem::Problem;
use crate::switch::Switch;
use crate::wire::Page;

pub(super) fn reading() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list))
}

pub(super) fn acting() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(turn))
}

/// Something that can be turned off and on.
#[derive(Serialize, ToSchema)]
struct Stands {
    name: String,
    on: bool,
}

impl From<&Switch> for Stands {
    fn from(switch: &Switch) -> Self {
        Stands { name: switch.name().to_string(), on: switch.is_on() }
    }
}

/// Lists switches
#[utoipa::path(
    get, path = "/api/v1/switches", tag = "system", responses((status = OK, body = Page<Stands>))
)]
async fn list(State(api): State<Api>) -> Reply<Page<Stands>> {
    let items = api.options.switches.iter().map(Stands::from).collect();
    Ok(Json(Page { items, cursor: None }))
}

/// How a switch is to stand.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Turn {
    on: bool,
}

/// Turns a switch off or on
#[utoipa::path(
    put, path = "/api/v1/switches/{name}", tag = "system",
    params(("name" = String, Path, description = "The name of the switch")),
    request_body = Turn,
    responses((status = OK, body = Stands))
)]
async fn turn(
    State(api): State<Api>,
    Path(name): Path<String>,
    caller: Caller,
    Body(wanted): Body<Turn>,
) -> Reply<Stands> {
    let found = api.options.switches.iter().find(|switch| switch.name() == name);
    let switch = found.ok_or_else(|| Problem::missing(format!("there is no switch {name}")))?;
    switch.turn(wanted.on);
    let by = caller.signs(None);
    tracing::info!(by, "turned {name} {}", if wanted.on { "on" } else { "off" });
    Ok(Json(Stands::from(switch)))
}
