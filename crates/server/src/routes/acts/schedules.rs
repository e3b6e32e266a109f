//! Creating, changing and deleting schedules.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use resurgam::Timestamp;
use resurgam::schedule::Schedule as Form;
use serde::Deserialize;
use serde_json::value::RawValue;
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
use crate::wire;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(put, delete)).routes(routes!(act))
}

/// What is to start by the clock.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewSchedule {
    workflow: String,
    /// The arguments of the workflow; an empty object unless given.
    #[schema(value_type = Option<serde_json::Value>)]
    input: Option<Box<RawValue>>,
    /// When, in the form of the guide about schedules, without the id.
    schedule: Map<String, Value>,
    /// Takes the place of a schedule of this id that says something else.
    #[serde(default)]
    replace: bool,
    queue: Option<String>,
    #[serde(default)]
    priority: i32,
    /// Who does it. It is recorded beside the name of the token.
    by: Option<String>,
    reason: Option<String>,
}

/// Creates a schedule, or leaves one that says the same as it is
#[utoipa::path(
    put, path = "/api/v1/schedules/{id}", tag = "schedules",
    params(("id" = String, Path, description = "The id of the schedule")),
    request_body = NewSchedule,
    responses((status = OK, body = Done))
)]
async fn put(
    State(api): State<Api>,
    Path(id): Path<String>,
    caller: Caller,
    Body(new): Body<NewSchedule>,
) -> Result<Json<Done>, Problem> {
    let mut form = new.schedule;
    form.insert("id".to_string(), id.clone().into());
    let schedule = Form::from_value(&Value::Object(form));
    let schedule = schedule.map_err(|problems| Problem::of_input("schedule", &problems))?;
    // As it stands, and not taken apart and put together again.
    let input = new.input.unwrap_or_else(|| wire::json(&Map::new()));
    let mut put = api.client.schedule_as(schedule, &new.workflow, &input).priority(new.priority);
    if let Some(queue) = new.queue {
        put = put.queue(queue);
    }
    if new.replace {
        put = put.replace();
    }
    put.await?;
    let told = format!("schedule {id} starts {}", new.workflow);
    let why = Why { by: new.by, reason: new.reason };
    why.record(&api, &caller, Did::new("schedule", &id, &told)).await;
    Ok(Done::changed(told))
}

/// Deletes a schedule; its instances go on
#[utoipa::path(
    delete, path = "/api/v1/schedules/{id}", tag = "schedules",
    params(("id" = String, Path, description = "The id of the schedule"), Why),
    responses((status = OK, body = Done))
)]
async fn delete(
    State(api): State<Api>,
    Path(id): Path<String>,
    caller: Caller,
    Query(why): Query<Why>,
) -> Result<Json<Done>, Problem> {
    api.client.delete_schedule(&id).await?;
    let told = format!("schedule {id} is deleted; its instances go on");
    why.record(&api, &caller, Did::new("schedule", &id, &told)).await;
    Ok(Done::changed(told))
}

/// What an action on a schedule needs.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct ScheduleAction {
    /// backfill: from when, in milliseconds since 1970.
    from_ms: Option<i64>,
    /// backfill: until when.
    to_ms: Option<i64>,
    /// Who does it.
    by: Option<String>,
    reason: Option<String>,
}

/// Does something to a schedule: pause, resume, run or backfill
#[utoipa::path(
    post, path = "/api/v1/schedules/{id}/actions/{action}", tag = "schedules",
    params(
        ("id" = String, Path, description = "The id of the schedule"),
        ("action" = String, Path, description = "pause, resume, run or backfill")
    ),
    request_body = ScheduleAction,
    responses((status = OK, body = Done))
)]
async fn act(
    State(api): State<Api>,
    Path((id, action)): Path<(String, String)>,
    caller: Caller,
    Body(wanted): Body<ScheduleAction>,
) -> Result<(StatusCode, Json<Done>), Problem> {
    let client = &api.client;
    let (from, to) = (wanted.from_ms, wanted.to_ms);
    let answer = match (action.as_str(), from, to) {
        ("pause", None, None) => {
            client.pause_schedule(&id).await.map(|()| format!("schedule {id} is paused"))
        }
        ("resume", None, None) => {
            client.resume_schedule(&id).await.map(|()| format!("schedule {id} fires again"))
        }
        ("run", None, None) => {
            client.run_schedule_now(&id).await.map(|instance| format!("started {instance}"))
        }
        ("backfill", Some(from), Some(to)) => {
            let (from, to) = (Timestamp::from_millis(from), Timestamp::from_millis(to));
            client.backfill(&id, from, to).await.map(|count| format!("started {count}"))
        }
        ("pause" | "resume" | "run" | "backfill", ..) => {
            return Err(Problem::invalid(
                "`from_ms` and `to_ms` are for a backfill, which needs both",
            ));
        }
        _ => {
            return Err(Problem::missing(format!(
                "{action:?} cannot be done to a schedule; write pause, resume, run or backfill"
            )));
        }
    }?;
    let why = Why { by: wanted.by, reason: wanted.reason };
    let told = format!("{action} of schedule {id}: {answer}");
    why.record(&api, &caller, Did::new("schedule", &id, told)).await;
    Ok((StatusCode::OK, Done::changed(answer)))
}
