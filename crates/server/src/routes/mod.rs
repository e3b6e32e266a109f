//! The routes, a file for each thing that they are about.

mod actions;
mod acts;
mod bulk;
mod calls;
mod delays;
mod export;
mod gates;
mod graphs;
mod instances;
mod live;
mod login;
mod newest;
mod now;
mod page;
mod policies;
mod pressure;
mod questions;
mod queues;
mod schedules;
mod search;
mod switches;
mod system;
mod tokens;
mod unresolved;
mod worker;

use axum::Json;
use axum::Router;
use axum::routing::get;
use utoipa::OpenApi;
use utoipa::openapi::Server;
use utoipa_axum::router::OpenApiRouter;

use crate::access::{Needs, Role, from_here, guarded, guarded_start};
use crate::api::Api;
use crate::links::base;
use crate::openapi::Description;
use crate::problem::Problem;

/// What a handler answers with.
type Reply<T> = Result<Json<T>, Problem>;

/// Every route with its description, each behind the guard of its role.
pub(crate) fn all(api: &Api) -> OpenApiRouter<Api> {
    let reading = OpenApiRouter::new()
        .merge(instances::routes())
        .merge(newest::routes())
        .merge(now::routes())
        .merge(calls::routes())
        .merge(delays::routes())
        .merge(export::routes())
        .merge(unresolved::routes())
        .merge(schedules::routes())
        .merge(bulk::routes())
        .merge(policies::routes())
        .merge(questions::routes())
        .merge(gates::routes())
        .merge(graphs::routes())
        .merge(pressure::routes())
        .merge(queues::routes())
        .merge(actions::routes())
        .merge(search::routes())
        .merge(live::routes())
        .merge(system::routes());
    let (reading, acting) = match api.options.switches.is_empty() {
        true => (reading, acts::routes()),
        false => (reading.merge(switches::reading()), acts::routes().merge(switches::acting())),
    };
    OpenApiRouter::with_openapi(Description::openapi())
        .merge(guarded(reading, api, Role::Read))
        .merge(guarded(acting, api, Role::Operate))
        .merge(guarded_start(acts::starting(), api))
        .merge(guarded(worker::routes(), api, Role::Work))
        .merge(guarded(tokens::routes(), api, Role::Admin))
        .merge(from_here(login::routes()))
        .merge(system::open_routes())
}

/// The description itself, which describes everything but itself.
pub(crate) fn description(api: &Api, description: utoipa::openapi::OpenApi) -> Router<Api> {
    let described = async move || {
        let mut description = description;
        let base = base();
        description.servers = (!base.is_empty()).then(|| vec![Server::new(base)]);
        Json(description)
    };
    let routes = Router::new().route("/openapi.json", get(described));
    Needs::new(api, Role::Read).guard(routes)
}
