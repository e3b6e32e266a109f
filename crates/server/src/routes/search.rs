//! One box for whatever somebody has at hand: an id, a uid, the name of a call, a tag.

use axum::Json;
use axum::extract::State;
use resurgam::{InstanceFilter, InstanceRow, Uid};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use crate::api::Api;
use crate::extract::Query;
use crate::names;
use crate::problem::Problem;
use crate::wire::Page;
use crate::wire::instance::Instance;

/// How many instances with a tag are found at most.
const WITH_TAG: usize = 20;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(search))
}

/// What is looked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct SearchQuery {
    /// An id, a uid, UID.RUN.SEQ or name=value.
    q: String,
}

/// Something that was found.
#[derive(Serialize, ToSchema)]
struct Found {
    /// What it was found by: id, uid, call or tag.
    by: String,
    instance: Instance,
    /// The call, when it was found by that.
    call: Option<String>,
}

impl Found {
    fn new(by: &str, row: &InstanceRow) -> Self {
        Found { by: by.to_string(), instance: Instance::from(row), call: None }
    }
}

/// Finds instances by an id, a uid, a call or a tag
#[utoipa::path(
    get, path = "/api/v1/search", tag = "instances", params(SearchQuery),
    responses((status = OK, body = Page<Found>))
)]
async fn search(State(api): State<Api>, Query(query): Query<SearchQuery>) -> Reply<Page<Found>> {
    let wanted = query.q.trim();
    if wanted.is_empty() {
        return Err(Problem::invalid("q: write an id, a uid, the name of a call, or name=value"));
    }
    let mut items = Vec::new();
    items.extend(api.client.find(wanted).await?.iter().map(|row| Found::new("id", row)));
    if let Ok(uid) = wanted.parse::<Uid>() {
        items.extend(of_uid(&api, uid).await?.iter().map(|row| Found::new("uid", row)));
    }
    if let Ok(key) = names::call(wanted) {
        let row = of_uid(&api, key.run.uid).await?;
        let found = row.map(|row| Found::new("call", &row));
        items.extend(found.map(|it| Found { call: Some(names::call_name(key)), ..it }));
    }
    if let Some((name, value)) = wanted.split_once('=') {
        let tag = Some((name.to_string(), value.to_string()));
        let filter = InstanceFilter { tag, limit: WITH_TAG, ..InstanceFilter::default() };
        let rows = api.client.list(filter).await?;
        items.extend(rows.iter().map(|row| Found::new("tag", row)));
    }
    Ok(Json(Page { items, cursor: None }))
}

/// The instance of a uid, if there is one.
async fn of_uid(api: &Api, uid: Uid) -> Result<Option<InstanceRow>, Problem> {
    match api.client.instance_of(uid).row().await {
        Ok(row) => Ok(Some(row)),
        Err(error) if error.code() == resurgam::Code::E2 => Ok(None),
        Err(error) => Err(error.into()),
    }
}
