//! Looking at what waits for a decision: dead letters and paused calls.

use axum::Json;
use axum::extract::State;
use resurgam::{CallCursor, DeadLetterFilter, LetterState, PausedFilter};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use super::page::{behind, length, page, place, time};
use crate::api::Api;
use crate::extract::{Path, Query, call};
use crate::problem::Problem;
use crate::wire::unresolved::{Group, Letter, LetterDetail, Paused, letter_input};
use crate::wire::{self, Page};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(letters))
        .routes(routes!(letter))
        .routes(routes!(input))
        .routes(routes!(paused))
}

/// A list, or groups of what is in it.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum ListOrGroups<T> {
    List(Page<T>),
    Groups(Page<Group>),
}

/// Which letters are listed.
#[derive(Debug, Deserialize, Serialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct LettersQuery {
    /// open, redriven or discarded; open unless given
    state: Option<String>,
    fingerprint: Option<String>,
    activity: Option<String>,
    /// Of instances with these ids: a list of texts in JSON.
    ids: Option<String>,
    workflow: Option<String>,
    queue: Option<String>,
    /// Only those that failed with this type, or with one that descends from it.
    failure_type: Option<String>,
    /// Only those that failed with this code.
    failure_code: Option<String>,
    /// Given up at that time or later: milliseconds since 1970, or RFC 3339.
    from: Option<String>,
    /// `fingerprint`: answers with groups of those that failed in the same way.
    group: Option<String>,
    /// The `cursor` of the page before.
    #[serde(skip_serializing)]
    cursor: Option<String>,
    /// Where the list begins, whatever filter led there: `MILLISECONDS-UID.RUN.SEQ`.
    #[serde(skip_serializing)]
    after: Option<String>,
    /// How many there are on a page; 100 unless given, 500 at most.
    #[serde(skip_serializing)]
    limit: Option<usize>,
}

/// Reads ids in a query.
fn ids(text: Option<&str>) -> Result<Vec<String>, Problem> {
    let wrong = |error| Problem::invalid(format!("ids: write a list of texts in JSON: {error}"));
    text.map_or(Ok(Vec::new()), |text| serde_json::from_str(text).map_err(wrong))
}

/// Whether groups are wanted.
fn grouped(group: Option<&str>) -> Result<bool, Problem> {
    match group {
        None => Ok(false),
        Some("fingerprint") => Ok(true),
        Some(other) => Err(Problem::invalid(format!("group={other:?}: write fingerprint"))),
    }
}

/// Lists calls that were given up, the newest first
#[utoipa::path(
    get, path = "/api/v1/dead-letters", tag = "decisions", params(LettersQuery),
    responses((status = OK, body = ListOrGroups<Letter>))
)]
async fn letters(
    State(api): State<Api>,
    Query(query): Query<LettersQuery>,
) -> Reply<ListOrGroups<Letter>> {
    let state = query.state.as_deref().unwrap_or(LetterState::Open.name());
    let state = LetterState::named(state).ok_or_else(|| {
        Problem::invalid(format!("state={state:?}: write open, redriven or discarded"))
    })?;
    let length = length(query.limit)?;
    let filter = DeadLetterFilter {
        state,
        fingerprint: query.fingerprint.clone(),
        activity: query.activity.clone(),
        since: time("from", query.from.as_deref())?,
        ids: ids(query.ids.as_deref())?,
        workflow: query.workflow.clone(),
        queue: query.queue.clone(),
        failure_type: query.failure_type.clone(),
        failure_code: query.failure_code.clone(),
        after: place(query.cursor.as_deref(), &query)?.or(behind(query.after.as_deref())?),
        limit: length + 1,
    };
    if grouped(query.group.as_deref())? {
        let found = api.client.dead_letter_groups(filter).await?;
        let items = found.iter().map(Group::from).collect();
        return Ok(Json(ListOrGroups::Groups(Page { items, cursor: None })));
    }
    let found = api.client.dead_letters(filter).await?;
    let place = |letter: &_| CallCursor::of_letter(letter).to_string();
    let page = page(found, length, &query, place, |letter| Letter::from(letter));
    Ok(Json(ListOrGroups::List(page)))
}

/// A call that was given up, with its attempts
#[utoipa::path(
    get, path = "/api/v1/dead-letters/{call}", tag = "decisions",
    params(("call" = String, Path, description = "UID.RUN.SEQ")),
    responses((status = OK, body = LetterDetail))
)]
async fn letter(State(api): State<Api>, Path(name): Path<String>) -> Reply<LetterDetail> {
    let found = api.client.dead_letter(call(&name)?).await?;
    let missing = || Problem::missing(format!("there is no dead letter of call {name}"));
    Ok(Json(LetterDetail::from(&found.ok_or_else(missing)?)))
}

/// What a call that was given up was made with
#[utoipa::path(
    get, path = "/api/v1/dead-letters/{call}/input", tag = "decisions",
    params(("call" = String, Path, description = "UID.RUN.SEQ")),
    responses((status = OK, body = serde_json::Value))
)]
async fn input(State(api): State<Api>, Path(name): Path<String>) -> Reply<wire::Json> {
    let found = api.client.dead_letter(call(&name)?).await?;
    let missing = || Problem::missing(format!("there is no dead letter of call {name}"));
    Ok(Json(letter_input(&found.ok_or_else(missing)?)))
}

/// Which paused calls are listed.
#[derive(Debug, Deserialize, Serialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PausedQuery {
    fingerprint: Option<String>,
    activity: Option<String>,
    /// Paused at that time or later: milliseconds since 1970, or RFC 3339.
    from: Option<String>,
    /// `fingerprint`: answers with groups of those that failed in the same way.
    group: Option<String>,
    /// The `cursor` of the page before.
    #[serde(skip_serializing)]
    cursor: Option<String>,
    /// Where the list begins, whatever filter led there: `MILLISECONDS-UID.RUN.SEQ`.
    #[serde(skip_serializing)]
    after: Option<String>,
    /// How many there are on a page; 100 unless given, 500 at most.
    #[serde(skip_serializing)]
    limit: Option<usize>,
}

/// Lists paused calls, those paused last first
#[utoipa::path(
    get, path = "/api/v1/paused", tag = "decisions", params(PausedQuery),
    responses((status = OK, body = ListOrGroups<Paused>))
)]
async fn paused(
    State(api): State<Api>,
    Query(query): Query<PausedQuery>,
) -> Reply<ListOrGroups<Paused>> {
    let length = length(query.limit)?;
    let filter = PausedFilter {
        fingerprint: query.fingerprint.clone(),
        activity: query.activity.clone(),
        since: time("from", query.from.as_deref())?,
        after: place(query.cursor.as_deref(), &query)?.or(behind(query.after.as_deref())?),
        limit: length + 1,
    };
    if grouped(query.group.as_deref())? {
        let found = api.client.paused_groups(filter).await?;
        let items = found.iter().map(Group::from).collect();
        return Ok(Json(ListOrGroups::Groups(Page { items, cursor: None })));
    }
    let found = api.client.paused_calls(filter).await?;
    let place = |call: &_| CallCursor::of_paused(call).to_string();
    let page = page(found, length, &query, place, |call| Paused::from(call));
    Ok(Json(ListOrGroups::List(page)))
}
