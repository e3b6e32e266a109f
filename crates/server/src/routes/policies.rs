//! Looking at the policies that operators set for all calls of an activity.

use axum::Json;
use axum::extract::State;
use resurgam::PolicyOverride;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use crate::api::Api;
use crate::extract::Path;
use crate::problem::Problem;
use crate::wire::{self, Page, rfc3339};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show))
}

/// A policy that somebody set for all calls of an activity.
#[derive(Serialize, ToSchema)]
struct SetPolicy {
    activity: String,
    #[schema(value_type = Option<serde_json::Value>)]
    policy: Option<wire::Json>,
    by: String,
    reason: Option<String>,
    at_ms: i64,
    at: String,
    /// How often it was changed.
    revision: u64,
}

impl From<&PolicyOverride> for SetPolicy {
    fn from(row: &PolicyOverride) -> Self {
        SetPolicy {
            activity: row.activity.clone(),
            policy: row.retry_policy().as_ref().map(wire::json),
            by: row.by.clone(),
            reason: row.reason.clone(),
            at_ms: row.at.as_millis(),
            at: rfc3339(row.at),
            revision: row.revision,
        }
    }
}

/// Lists the policies that are set for activities
#[utoipa::path(
    get, path = "/api/v1/activities/policies", tag = "calls",
    responses((status = OK, body = Page<SetPolicy>))
)]
async fn list(State(api): State<Api>) -> Reply<Page<SetPolicy>> {
    let found = api.client.policies().await?;
    Ok(Json(Page { items: found.iter().map(SetPolicy::from).collect(), cursor: None }))
}

/// The policy that is set for an activity
#[utoipa::path(
    get, path = "/api/v1/activities/{name}/policy", tag = "calls",
    params(("name" = String, Path, description = "The activity")),
    responses((status = OK, body = SetPolicy))
)]
async fn show(State(api): State<Api>, Path(name): Path<String>) -> Reply<SetPolicy> {
    let found = api.client.policies().await?;
    let found = found.iter().find(|row| row.activity == name);
    let missing = || Problem::missing(format!("no policy is set for {name}"));
    Ok(Json(SetPolicy::from(found.ok_or_else(missing)?)))
}
