//! Looking at instances.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use resurgam::{InstanceCursor, InstanceFilter, RunFilter, RunKey, Seq, Status, Uid};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use super::page::{cursor, length, page, place, time};
use crate::api::Api;
use crate::caller::Caller;
use crate::extract::{Path, Query, uid};
use crate::problem::Problem;
use crate::wire::call::{Action, Attempt, Call};
use crate::wire::event::Event;
use crate::wire::instance::{Described, Ended, Instance, started_with};
use crate::wire::{self, Page};

/// The longest that an answer is waited for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How many events there are on a page at most.
const EVENTS: usize = 500;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(describe))
        .routes(routes!(input))
        .routes(routes!(outcome))
        .routes(routes!(events))
        .routes(routes!(event))
        .routes(routes!(attempts))
        .routes(routes!(actions))
        .routes(routes!(calls))
        .routes(routes!(result))
}

/// Which instances are listed.
#[derive(Debug, Deserialize, Serialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// The instance that has this id now.
    id: Option<String>,
    /// Statuses, with commas between them.
    status: Option<String>,
    workflow: Option<String>,
    /// Only those with an open call of this activity, or of which one failed last.
    activity: Option<String>,
    /// Only those whose last failure is of this type, or of one that descends from it.
    failure_type: Option<String>,
    /// Only those whose id begins so. Alone it lists instances in the order of their ids.
    text: Option<String>,
    /// Only those whose id has this in it.
    contains: Option<String>,
    /// Only those of which a call waits for its next attempt.
    #[serde(default)]
    retrying: bool,
    /// Only those that somebody paused.
    #[serde(default)]
    paused: bool,
    /// `name=value`
    tag: Option<String>,
    /// The schedule that started them.
    schedule: Option<String>,
    /// Started at that time or later: milliseconds since 1970, or RFC 3339.
    from: Option<String>,
    /// Started at that time or before.
    to: Option<String>,
    /// Where the page begins: the `cursor` of the page before it.
    #[serde(skip_serializing)]
    cursor: Option<String>,
    /// How many there are on a page; 100 unless given, 500 at most.
    #[serde(skip_serializing)]
    limit: Option<usize>,
}

impl ListQuery {
    fn statuses(&self) -> Result<Vec<Status>, Problem> {
        let names = self.status.as_deref().unwrap_or_default().split(',');
        let mut statuses = Vec::new();
        for name in names.filter(|name| !name.is_empty()) {
            statuses.push(Status::named(name).ok_or_else(|| {
                let known: Vec<&str> = Status::ALL.iter().map(|status| status.name()).collect();
                Problem::invalid(format!("status={name}: write one of {}", known.join(", ")))
            })?);
        }
        if self.paused {
            statuses.push(Status::Paused);
        }
        Ok(statuses)
    }

    /// Whether nothing is asked for but what ids begin with.
    fn is_prefix_alone(&self) -> bool {
        let ListQuery { id, status, workflow, activity, failure_type, text, contains, .. } = self;
        let ListQuery { retrying, paused, tag, schedule, from, to, .. } = self;
        let others = [id, status, workflow, activity, failure_type, contains];
        let others = others.into_iter().chain([tag, schedule, from, to]);
        // What no store can look for is looked for one by one, and not found.
        let can_be_stored = |text: &String| !text.contains('\0');
        text.as_ref().is_some_and(can_be_stored)
            && !retrying
            && !paused
            && others.into_iter().all(Option::is_none)
    }

    /// The same, where calls are looked at.
    fn of_calls(&self, filter: InstanceFilter) -> Result<RunFilter, Problem> {
        if self.schedule.is_some() {
            let detail = "schedule: it cannot be combined with activity and failure_type";
            return Err(Problem::invalid(detail));
        }
        Ok(RunFilter {
            workflow: filter.workflow,
            status: filter.status,
            activity: self.activity.clone(),
            failure_type: self.failure_type.clone(),
            retrying: filter.retrying,
            tag: filter.tag,
            started_since: filter.since,
            ..RunFilter::default()
        })
    }

    fn filter(&self) -> Result<InstanceFilter, Problem> {
        let tag = self.tag.as_deref().map(|tag| {
            let parts = tag.split_once('=').map(|(name, value)| (name.into(), value.into()));
            parts.ok_or_else(|| Problem::invalid(format!("tag={tag:?}: write name=value")))
        });
        let to = time("to", self.to.as_deref())?;
        // No instance has the greatest uid, so this place is behind everything of that time.
        let to = to.map(|created_at| InstanceCursor { created_at, uid: Uid(u128::MAX) });
        Ok(InstanceFilter {
            status: self.statuses()?,
            workflow: self.workflow.clone(),
            retrying: self.retrying,
            tag: tag.transpose()?,
            schedule: self.schedule.clone(),
            since: time("from", self.from.as_deref())?,
            after: place(self.cursor.as_deref(), self)?.or(to),
            limit: length(self.limit)? + 1,
            ..InstanceFilter::default()
        })
    }
}

/// Lists instances, the newest first
///
/// An instance that changes its status meanwhile may be missed; none comes twice. With `activity`,
/// `failure_type` and `contains`, and with `text` beside another filter, a bounded number of
/// instances is looked at for a page: it can be short, or have none, and not be the last.
#[utoipa::path(
    get, path = "/api/v1/instances", tag = "instances", params(ListQuery),
    responses((status = OK, body = Instances))
)]
async fn list(State(api): State<Api>, Query(query): Query<ListQuery>) -> Reply<Instances> {
    if let Some(id) = &query.id {
        let found = api.client.find(id).await?;
        let items = found.iter().map(Instance::from).collect();
        return Ok(Json(Instances { items, cursor: None, scanned: None }));
    }
    let length = length(query.limit)?;
    let filter = match query.is_prefix_alone() {
        true => InstanceFilter::default(),
        false => query.filter()?,
    };
    let of_calls = query.activity.is_some() || query.failure_type.is_some();
    let by_id = query.text.is_some() || query.contains.is_some();
    match (of_calls, by_id) {
        (true, true) => {
            let what = if query.text.is_some() { "text" } else { "contains" };
            let detail = format!("{what}: it cannot be combined with activity and failure_type");
            return Err(Problem::invalid(detail));
        }
        (true, false) => {
            let after = filter.after;
            let runs = api.client.runs(query.of_calls(filter)?);
            let (found, go_on) = runs.page(after, length).await?;
            let items = found.iter().map(Instance::from).collect();
            let cursor = go_on.map(|at| cursor(&at.to_string(), &query));
            return Ok(Json(Instances { items, cursor, scanned: None }));
        }
        (false, true) if query.is_prefix_alone() => return with_prefix(&api, &query, length).await,
        (false, true) => return with_text(&api, &query, filter).await,
        (false, false) => {}
    }
    let found = api.client.list(filter).await?;
    let place = |row: &_| InstanceCursor::of(row).to_string();
    let Page { items, cursor } = page(found, length, &query, place, |row| Instance::from(row));
    Ok(Json(Instances { items, cursor, scanned: None }))
}

/// A page of instances.
#[derive(Serialize, ToSchema)]
struct Instances {
    items: Vec<Instance>,
    /// Where the next page begins; null on the last one.
    cursor: Option<String>,
    /// Where instances are looked for one by one: how many were looked at for this page.
    #[serde(skip_serializing_if = "Option::is_none")]
    scanned: Option<usize>,
}

/// How many instances are looked at for a page of those with a text, and how many at once.
const SCANNED: usize = 10_000;
const AT_ONCE: usize = 1_000;

/// The place behind an id, in a list that is in the order of ids.
struct AfterId(String);

impl std::str::FromStr for AfterId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(AfterId(text.to_string()))
    }
}

/// Those whose id begins so, found by the index of ids.
async fn with_prefix(api: &Api, query: &ListQuery, length: usize) -> Reply<Instances> {
    let prefix = query.text.as_deref().unwrap_or_default();
    let after: Option<AfterId> = place(query.cursor.as_deref(), query)?;
    let after = after.as_ref().map(|AfterId(id)| id.as_str());
    let handle = api.client.handle();
    let _busy = handle.busy();
    let found = handle.store().with_prefix(prefix, after, length + 1).await;
    let found = found.map_err(|error| resurgam::Error::store("list instances", error))?;
    let place = |row: &resurgam::InstanceRow| row.id.clone();
    let Page { items, cursor } = page(found, length, query, place, |row| Instance::from(row));
    Ok(Json(Instances { items, cursor, scanned: None }))
}

/// Those whose id has a text in it. No index knows them, so they are looked for one by one.
async fn with_text(api: &Api, query: &ListQuery, mut filter: InstanceFilter) -> Reply<Instances> {
    let begins = query.text.as_deref().unwrap_or_default();
    let contains = query.contains.as_deref().unwrap_or_default();
    let length = std::mem::replace(&mut filter.limit, AT_ONCE) - 1;
    let (mut items, mut scanned) = (Vec::new(), 0);
    loop {
        let rows = api.client.list(filter.clone()).await?;
        for row in &rows {
            scanned += 1;
            let place = InstanceCursor::of(row);
            if row.id.starts_with(begins) && row.id.contains(contains) {
                items.push(Instance::from(row));
            }
            if items.len() == length || scanned == SCANNED {
                let cursor = Some(cursor(&place.to_string(), query));
                return Ok(Json(Instances { items, cursor, scanned: Some(scanned) }));
            }
            filter.after = Some(place);
        }
        if rows.len() < AT_ONCE {
            return Ok(Json(Instances { items, cursor: None, scanned: Some(scanned) }));
        }
    }
}

/// An instance with everything it waits for
#[utoipa::path(
    get, path = "/api/v1/instances/{uid}", tag = "instances",
    params(("uid" = String, Path, description = "The uid of the instance")),
    responses((status = OK, body = Described))
)]
async fn describe(State(api): State<Api>, Path(name): Path<String>) -> Reply<Described> {
    let found = api.client.instance_of(uid(&name)?).describe().await?;
    Ok(Json(Described::from(&found)))
}

/// What an instance was started with
#[utoipa::path(
    get, path = "/api/v1/instances/{uid}/input", tag = "instances",
    params(("uid" = String, Path, description = "The uid of the instance")),
    responses((status = OK, body = serde_json::Value))
)]
async fn input(State(api): State<Api>, Path(name): Path<String>) -> Reply<wire::Json> {
    let row = api.client.instance_of(uid(&name)?).row().await?;
    Ok(Json(started_with(&row.input)))
}

/// The result of an instance, or its failure
#[utoipa::path(
    get, path = "/api/v1/instances/{uid}/outcome", tag = "instances",
    params(("uid" = String, Path, description = "The uid of the instance")),
    responses((status = OK, body = serde_json::Value))
)]
async fn outcome(State(api): State<Api>, Path(name): Path<String>) -> Reply<wire::Json> {
    let row = api.client.instance_of(uid(&name)?).row().await?;
    let outcome = row.outcome.as_ref();
    let outcome = outcome.ok_or_else(|| Problem::missing(format!("{} has not ended", row.id)))?;
    Ok(Json(wire::value(outcome)))
}

/// Which run is meant, and where a page begins.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct EventsQuery {
    /// The current run unless given.
    run: Option<u32>,
    /// The `seq` of the last event of the page before.
    after: Option<u64>,
    /// How many there are on a page; 500 unless given, 500 at most.
    limit: Option<usize>,
}

/// The history of a run
#[utoipa::path(
    get, path = "/api/v1/instances/{uid}/events", tag = "instances",
    params(("uid" = String, Path, description = "The uid of the instance"), EventsQuery),
    responses((status = OK, body = Page<Event>))
)]
async fn events(
    State(api): State<Api>,
    Path(name): Path<String>,
    Query(query): Query<EventsQuery>,
) -> Reply<Page<Event>> {
    let instance = api.client.instance_of(uid(&name)?);
    let length = length(query.limit.or(Some(EVENTS)))?;
    let run = query.run.unwrap_or(instance.row().await?.run);
    let after = query.after.map(Seq);
    let mut found = instance.event_page(Some(run), after, length + 1).await?;
    let is_more = found.len() > length;
    found.truncate(length);
    let last = found.last().filter(|_| is_more);
    let cursor = last.map(|event| event.seq.to_string());
    let key = RunKey { uid: instance.uid(), run };
    let items = found.iter().map(|event| Event::listed(key, event)).collect();
    Ok(Json(Page { items, cursor }))
}

/// Which run is meant.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct RunQuery {
    /// The current run unless given.
    run: Option<u32>,
}

/// One event with everything in it
#[utoipa::path(
    get, path = "/api/v1/instances/{uid}/events/{seq}", tag = "instances",
    params(
        ("uid" = String, Path, description = "The uid of the instance"),
        ("seq" = u64, Path, description = "The place of the event"),
        RunQuery
    ),
    responses((status = OK, body = Event))
)]
async fn event(
    State(api): State<Api>,
    Path((name, seq)): Path<(String, u64)>,
    Query(query): Query<RunQuery>,
) -> Reply<Event> {
    let instance = api.client.instance_of(uid(&name)?);
    let before = seq.checked_sub(1).map(Seq);
    let found = instance.event_page(query.run, before, 1).await?;
    let event = found.first().filter(|event| event.seq == Seq(seq));
    let missing = || Problem::missing(format!("instance {name} has no event {seq}"));
    Ok(Json(Event::whole(event.ok_or_else(missing)?)))
}

/// Where a page of attempts begins.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AttemptsQuery {
    /// The current run unless given.
    run: Option<u32>,
    /// The `cursor` of the page before.
    after: Option<usize>,
    /// How many there are on a page; 500 unless given, 500 at most.
    limit: Option<usize>,
}

/// The attempts of a run that did not succeed at once, in order of time
#[utoipa::path(
    get, path = "/api/v1/instances/{uid}/attempts", tag = "instances",
    params(("uid" = String, Path, description = "The uid of the instance"), AttemptsQuery),
    responses((status = OK, body = Page<Attempt>))
)]
async fn attempts(
    State(api): State<Api>,
    Path(name): Path<String>,
    Query(query): Query<AttemptsQuery>,
) -> Reply<Page<Attempt>> {
    let found = api.client.instance_of(uid(&name)?).attempts(query.run).await?;
    let (after, length) = (query.after.unwrap_or(0), length(query.limit.or(Some(EVENTS)))?);
    let end = after.saturating_add(length);
    let cursor = (found.len() > end).then(|| end.to_string());
    let items = found.iter().skip(after).take(length).map(Attempt::from).collect();
    Ok(Json(Page { items, cursor }))
}

/// What operators did to a run and its calls, in order of time
#[utoipa::path(
    get, path = "/api/v1/instances/{uid}/actions", tag = "instances",
    params(("uid" = String, Path, description = "The uid of the instance"), RunQuery),
    responses((status = OK, body = Page<Action>))
)]
async fn actions(
    State(api): State<Api>,
    Path(name): Path<String>,
    Query(query): Query<RunQuery>,
) -> Reply<Page<Action>> {
    let found = api.client.instance_of(uid(&name)?).actions(query.run).await?;
    Ok(Json(Page { items: found.iter().map(Action::from).collect(), cursor: None }))
}

/// The unfinished activity calls of an instance
#[utoipa::path(
    get, path = "/api/v1/instances/{uid}/calls", tag = "calls",
    params(("uid" = String, Path, description = "The uid of the instance")),
    responses((status = OK, body = Page<Call>))
)]
async fn calls(State(api): State<Api>, Path(name): Path<String>) -> Reply<Page<Call>> {
    let found = api.client.instance_of(uid(&name)?).describe().await?;
    let items = found.pending.iter().map(|call| Call::of(&found.instance, call)).collect();
    Ok(Json(Page { items, cursor: None }))
}

/// How long the end is waited for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ResultQuery {
    /// Not at all unless given, 60,000 at most.
    #[serde(default)]
    wait_ms: u64,
}

/// How an instance ended, as soon as it has
///
/// Answers when the instance has closed, or when the time is over: then `closed` is false.
#[utoipa::path(
    get, path = "/api/v1/instances/{uid}/result", tag = "instances",
    params(("uid" = String, Path, description = "The uid of the instance"), ResultQuery),
    responses((status = OK, body = Ended))
)]
async fn result(
    State(api): State<Api>,
    Path(name): Path<String>,
    Query(query): Query<ResultQuery>,
    caller: Caller,
) -> Reply<Ended> {
    let instance = api.client.instance_of(uid(&name)?);
    let row = instance.row().await?;
    if row.status.is_closed() {
        return Ok(Json(Ended::of(&instance.outcome().await?)));
    }
    let wait = Duration::from_millis(query.wait_ms).min(LONGEST_WAIT);
    if wait.is_zero() {
        return Ok(Json(Ended::not_yet(row.status)));
    }
    let _room = api.may_wait(&caller)?;
    tokio::select! {
        ended = instance.outcome() => Ok(Json(Ended::of(&ended?))),
        _busy = api.client.handle().sleep(wait) => Ok(Json(Ended::not_yet(row.status))),
        () = api.stopped() => Ok(Json(Ended::not_yet(row.status))),
    }
}
