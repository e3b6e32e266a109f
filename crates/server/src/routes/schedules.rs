//! Looking at schedules.

use axum::Json;
use axum::extract::State;
use resurgam::ScheduleDescription;
use resurgam_graph::without_secrets;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use crate::api::Api;
use crate::extract::Path;
use crate::problem::Problem;
use crate::wire::instance::started_with;
use crate::wire::schedule::Schedule;
use crate::wire::{self, Page};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(input))
        .routes(routes!(argument))
}

/// Lists schedules by their ids
#[utoipa::path(
    get, path = "/api/v1/schedules", tag = "schedules",
    responses((status = OK, body = Page<Schedule>))
)]
async fn list(State(api): State<Api>) -> Reply<Page<Schedule>> {
    let found = api.client.schedules().await?;
    Ok(Json(Page { items: found.iter().map(Schedule::from).collect(), cursor: None }))
}

async fn described(api: &Api, id: &str) -> Result<ScheduleDescription, Problem> {
    let found = api.client.describe_schedule(id).await?;
    found.ok_or_else(|| Problem::missing(format!("there is no schedule {id}")))
}

/// A schedule: when it fires next, and what it did
#[utoipa::path(
    get, path = "/api/v1/schedules/{id}", tag = "schedules",
    params(("id" = String, Path, description = "The id of the schedule")),
    responses((status = OK, body = Schedule))
)]
async fn show(State(api): State<Api>, Path(id): Path<String>) -> Reply<Schedule> {
    Ok(Json(Schedule::from(&described(&api, &id).await?)))
}

/// What a schedule starts its instances with
#[utoipa::path(
    get, path = "/api/v1/schedules/{id}/input", tag = "schedules",
    params(("id" = String, Path, description = "The id of the schedule")),
    responses((status = OK, body = serde_json::Value))
)]
async fn input(State(api): State<Api>, Path(id): Path<String>) -> Reply<wire::Json> {
    Ok(Json(started_with(&described(&api, &id).await?.input)))
}

/// All of what a schedule starts its instances with, as it is stored but without secrets
#[utoipa::path(
    get, path = "/api/v1/schedules/{id}/argument", tag = "schedules",
    params(("id" = String, Path, description = "The id of the schedule")),
    responses((status = OK, body = serde_json::Value))
)]
async fn argument(State(api): State<Api>, Path(id): Path<String>) -> Reply<wire::Json> {
    Ok(Json(wire::value(&without_secrets(&described(&api, &id).await?.input))))
}
