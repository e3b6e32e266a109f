//! Graphs that are kept by name. Their secrets are in no answer; only their names are.

use axum::Json;
use axum::extract::State;
use resurgam::{Error, Payload};
use resurgam_store::GraphTemplateRow;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use super::page::length;
use crate::api::Api;
use crate::extract::{Path, Query};
use crate::problem::Problem;
use crate::wire::{self, Page, rfc3339};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show))
}

/// A graph that is kept.
#[derive(Serialize, ToSchema)]
struct Graph {
    name: String,
    /// The names of its secrets.
    secrets: Vec<String>,
    by: String,
    created_at_ms: i64,
    created_at: String,
    changed_at_ms: i64,
    changed_at: String,
}

/// A graph with everything of it but its secrets.
#[derive(Serialize, ToSchema)]
struct WholeGraph {
    #[serde(flatten)]
    graph: Graph,
    #[schema(value_type = serde_json::Value)]
    template: wire::Json,
}

impl From<&GraphTemplateRow> for Graph {
    fn from(row: &GraphTemplateRow) -> Self {
        Graph {
            name: row.name.clone(),
            secrets: secret_names(row),
            by: row.by.clone(),
            created_at_ms: row.created_at.as_millis(),
            created_at: rfc3339(row.created_at),
            changed_at_ms: row.changed_at.as_millis(),
            changed_at: rfc3339(row.changed_at),
        }
    }
}

/// The names of the secrets of a graph.
pub(super) fn secret_names(row: &GraphTemplateRow) -> Vec<String> {
    let stored: Value = serde_json::from_str(&row.secrets).unwrap_or_default();
    let names = stored["values"].as_object().map(|values| values.keys().cloned().collect());
    names.unwrap_or_default()
}

/// The graph of a name, as it is stored.
pub(super) async fn graph_of(api: &Api, name: &str) -> Result<GraphTemplateRow, Problem> {
    let missing = || Problem::missing(format!("there is no graph {name:?}"));
    found(api, name).await?.ok_or_else(missing)
}

/// The same, where there may be none.
pub(super) async fn found(api: &Api, name: &str) -> Result<Option<GraphTemplateRow>, Problem> {
    let handle = api.client.handle();
    let _busy = handle.busy();
    let row = handle.store().graph_template(name).await;
    Ok(row.map_err(|error| Error::store(format!("read graph {name:?}"), error))?)
}

/// Which graphs are listed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct GraphsQuery {
    /// Where the page begins: the `cursor` of the page before it.
    cursor: Option<String>,
    /// How many there are on a page; 100 unless given, 500 at most.
    limit: Option<usize>,
}

/// Lists graphs, by their names
#[utoipa::path(
    get, path = "/api/v1/graphs", tag = "graphs", params(GraphsQuery),
    responses((status = OK, body = Page<Graph>))
)]
async fn list(State(api): State<Api>, Query(query): Query<GraphsQuery>) -> Reply<Page<Graph>> {
    let length = length(query.limit)?;
    let after = query.cursor.unwrap_or_default();
    let handle = api.client.handle();
    let _busy = handle.busy();
    let rows = handle.store().graph_templates(&after, length + 1).await;
    let mut rows = rows.map_err(|error| Error::store("read graphs", error))?;
    let is_more = rows.len() > length;
    rows.truncate(length);
    let cursor = rows.last().filter(|_| is_more).map(|row| row.name.clone());
    Ok(Json(Page { items: rows.iter().map(Graph::from).collect(), cursor }))
}

/// A graph, without its secrets
#[utoipa::path(
    get, path = "/api/v1/graphs/{name}", tag = "graphs",
    params(("name" = String, Path, description = "The name of the graph")),
    responses((status = OK, body = WholeGraph))
)]
async fn show(State(api): State<Api>, Path(name): Path<String>) -> Reply<WholeGraph> {
    let row = graph_of(&api, &name).await?;
    let template = wire::value(&Payload::from_text(row.template.clone()));
    Ok(Json(WholeGraph { graph: Graph::from(&row), template }))
}
