//! Keeping graphs by name. One with secrets is an admin's: whoever writes it knows them, and
//! whoever replaces it takes them away.

use axum::Json;
use axum::extract::State;
use resurgam::Error;
use resurgam_graph::Template;
use resurgam_store::{GraphTemplateRow, GraphTemplateWrite};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Done, Why};
use crate::api::Api;
use crate::audit::Did;
use crate::caller::Caller;
use crate::extract::{Body, Path, Query};
use crate::problem::Problem;
use crate::routes::graphs::{found, graph_of, secret_names};

/// The longest name of a graph.
const LONGEST: usize = 200;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(put, delete))
}

/// A graph that is to be kept.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewGraph {
    /// The template, with its secrets in clear. They are encrypted before anything is stored.
    #[schema(value_type = serde_json::Value)]
    graph: Value,
    /// Who does it. It is recorded beside the name of the token.
    by: Option<String>,
    reason: Option<String>,
}

/// Keeps a graph under a name, in the place of the one that has it
///
/// Runs that have begun go on with the graph that they were started with. A graph with secrets
/// needs the role admin, also to be replaced or deleted.
#[utoipa::path(
    put, path = "/api/v1/graphs/{name}", tag = "graphs",
    params(("name" = String, Path, description = "The name of the graph")),
    request_body = NewGraph,
    responses((status = OK, body = Done))
)]
async fn put(
    State(api): State<Api>,
    Path(name): Path<String>,
    caller: Caller,
    Body(new): Body<NewGraph>,
) -> Result<Json<Done>, Problem> {
    let NewGraph { mut graph, by, reason } = new;
    if !(1..=LONGEST).contains(&name.len()) || name.contains(char::is_control) {
        let detail =
            format!("a graph has a name of 1 to {LONGEST} bytes, without control characters");
        return Err(Problem::invalid(detail));
    }
    let template = Template::from_value(&graph);
    let template = template.map_err(|problems| Problem::of_input("graph", &problems))?;
    let before = found(&api, &name).await?;
    let had_secrets = before.is_some_and(|row| !secret_names(&row).is_empty());
    if had_secrets || template.secret_names().next().is_some() {
        caller.needs_admin("a graph with secrets")?;
    }
    let secrets = template.secrets_to_store(api.options.secrets_key.as_ref());
    let secrets = secrets.map_err(|problems| Problem::of_input("graph", &problems))?;
    graph["secrets"] = Value::Object(Map::new());
    let handle = api.client.handle();
    let now = handle.now();
    let row = GraphTemplateRow {
        name: name.clone(),
        template: graph.to_string(),
        secrets,
        by: caller.signs(by.clone()),
        created_at: now,
        changed_at: now,
    };
    let told = match write(&api, GraphTemplateWrite::Put(row)).await? {
        true => format!("replaced graph {name}"),
        false => format!("graph {name} is kept"),
    };
    Why { by, reason }.record(&api, &caller, Did::new("graph", &name, &told)).await;
    Ok(Done::changed(told))
}

/// Keeps a graph no longer; its runs go on
#[utoipa::path(
    delete, path = "/api/v1/graphs/{name}", tag = "graphs",
    params(("name" = String, Path, description = "The name of the graph"), Why),
    responses((status = OK, body = Done))
)]
async fn delete(
    State(api): State<Api>,
    Path(name): Path<String>,
    caller: Caller,
    Query(why): Query<Why>,
) -> Result<Json<Done>, Problem> {
    let row = graph_of(&api, &name).await?;
    if !secret_names(&row).is_empty() {
        caller.needs_admin("a graph with secrets")?;
    }
    write(&api, GraphTemplateWrite::Delete { name: name.clone() }).await?;
    let told = format!("graph {name} is deleted; its runs go on");
    why.record(&api, &caller, Did::new("graph", &name, &told)).await;
    Ok(Done::changed(told))
}

/// True when there was one before.
async fn write(api: &Api, write: GraphTemplateWrite) -> Result<bool, Problem> {
    let handle = api.client.handle();
    let _busy = handle.busy();
    let written = handle.store().write_graph_template(write).await;
    Ok(written.map_err(|error| Error::store("change a graph", error))?)
}
