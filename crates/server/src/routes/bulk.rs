//! Looking at actions on many calls or runs.

use axum::Json;
use axum::extract::State;
use resurgam::BulkJob;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use super::page::length;
use crate::api::Api;
use crate::extract::{Path, Query};
use crate::problem::Problem;
use crate::wire::Page;
use crate::wire::job::Job;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show))
}

/// Where a page of jobs begins.
#[derive(Debug, Deserialize, Serialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct JobsQuery {
    /// The `cursor` of the page before.
    cursor: Option<String>,
    /// How many there are on a page; 100 unless given, 500 at most.
    limit: Option<usize>,
}

async fn found(api: &Api, id: &str) -> Result<BulkJob, Problem> {
    let job = api.client.bulk_job(id).await?;
    job.ok_or_else(|| Problem::missing(format!("there is no bulk job {id}")))
}

/// Lists actions on many, the newest first
#[utoipa::path(
    get, path = "/api/v1/bulk", tag = "decisions", params(JobsQuery),
    responses((status = OK, body = Page<Job>))
)]
async fn list(State(api): State<Api>, Query(query): Query<JobsQuery>) -> Reply<Page<Job>> {
    let length = length(query.limit)?;
    let after = match &query.cursor {
        Some(id) => Some(found(&api, id).await?),
        None => None,
    };
    let mut jobs = api.client.bulk_jobs(after.as_ref(), length + 1).await?;
    let is_more = jobs.len() > length;
    jobs.truncate(length);
    let cursor = jobs.last().filter(|_| is_more).map(|job| job.id.clone());
    Ok(Json(Page { items: jobs.iter().map(Job::listed).collect(), cursor }))
}

/// An action on many, and how far it has come
#[utoipa::path(
    get, path = "/api/v1/bulk/{id}", tag = "decisions",
    params(("id" = String, Path, description = "The id of the job")),
    responses((status = OK, body = Job))
)]
async fn show(State(api): State<Api>, Path(id): Path<String>) -> Reply<Job> {
    Ok(Json(Job::from(&found(&api, &id).await?)))
}
