//! The end of a history first: a page that shows a long one need not read it from its beginning.

use axum::Json;
use axum::extract::State;
use resurgam::{RunKey, Seq};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use super::page::length;
use crate::api::Api;
use crate::extract::{Path, Query, uid};
use crate::wire::Page;
use crate::wire::event::Event;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(newest))
}

/// Which run is meant, and where a page ends.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct NewestQuery {
    /// The current run unless given.
    run: Option<u32>,
    /// The `cursor` of the page before: what is told is older than that.
    before: Option<u64>,
    /// How many there are on a page; 100 unless given, 500 at most.
    limit: Option<usize>,
}

/// The newest events of a run, in their order
///
/// The cursor leads to those that are older.
#[utoipa::path(
    get, path = "/api/v1/instances/{uid}/newest", tag = "instances",
    params(("uid" = String, Path, description = "The uid of the instance"), NewestQuery),
    responses((status = OK, body = Page<Event>))
)]
async fn newest(
    State(api): State<Api>,
    Path(name): Path<String>,
    Query(query): Query<NewestQuery>,
) -> Reply<Page<Event>> {
    let instance = api.client.instance_of(uid(&name)?);
    let length = length(query.limit)?;
    let run = query.run.unwrap_or(instance.row().await?.run);
    // One more says whether there is an older one.
    let events = instance.events_before(Some(run), query.before.map(Seq), length + 1).await?;
    let told = &events[events.len().saturating_sub(length)..];
    let older = told.first().filter(|_| told.len() < events.len());
    let cursor = older.map(|event| event.seq.to_string());
    let key = RunKey { uid: instance.uid(), run };
    Ok(Json(Page { items: told.iter().map(|event| Event::listed(key, event)).collect(), cursor }))
}
