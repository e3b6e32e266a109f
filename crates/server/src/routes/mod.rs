//! The routes, a file for each thing that they are about.

mod acts;
mod bulk;
mod calls;
mod instances;
mod page;
mod policies;
mod schedules;
mod system;
mod unresolved;

use axum::Json;
use axum::Router;
use axum::routing::get;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::api::Api;
use crate::openapi::Description;
use crate::problem::Problem;

/// What a handler answers with.
type Reply<T> = Result<Json<T>, Problem>;

/// Every route with its description.
pub(crate) fn all() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(Description::openapi())
        .merge(instances::routes())
        .merge(calls::routes())
        .merge(unresolved::routes())
        .merge(schedules::routes())
        .merge(bulk::routes())
        .merge(policies::routes())
        .merge(system::routes())
        .merge(acts::routes())
}

/// The description itself, which describes everything but itself.
pub(crate) fn description(description: utoipa::openapi::OpenApi) -> Router<Api> {
    Router::new().route("/openapi.json", get(async move || Json(description)))
}
