//! Histories in the form that is stored: for files that tests replay, and for programs that print
//! histories themselves.

use axum::Json;
use axum::extract::State;
use resurgam::{Event, EventKind, Payload, Seq};
use resurgam_core::event::Carried;
use resurgam_core::export::{Export, ExportedRun};
use resurgam_graph::without_secrets;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use super::page::length;
use crate::api::Api;
use crate::extract::{Path, Query, uid};
use crate::wire::{self, hides_payloads};

/// How many events there are on a page at most.
const EVENTS: usize = 500;

/// How many bytes of values there are on a page, unless one event alone has more.
const LARGEST: usize = 8 << 20;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(export))
}

/// Which run is meant, and where a page begins.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ExportQuery {
    /// The current run unless given.
    run: Option<u32>,
    /// The `cursor` of the page before.
    after: Option<u64>,
    /// How many events there are on a page; 500 unless given, 500 at most.
    limit: Option<usize>,
}

/// A part of a history.
#[derive(Serialize, ToSchema)]
struct Exported {
    /// The file that `resurgam export` writes, with these events of this run alone: those of all
    /// pages, one after another, make one that can be read.
    #[schema(value_type = serde_json::Value)]
    history: wire::Json,
    /// Where the next page begins; null on the last one.
    cursor: Option<String>,
}

/// The history of a run in the form that is stored, page by page
///
/// Values stand in it whatever their size, so that tests can replay it; secrets of graphs are left
/// out.
#[utoipa::path(
    get, path = "/api/v1/instances/{uid}/export", tag = "instances",
    params(("uid" = String, Path, description = "The uid of the instance"), ExportQuery),
    responses((status = OK, body = Exported))
)]
async fn export(
    State(api): State<Api>,
    Path(name): Path<String>,
    Query(query): Query<ExportQuery>,
) -> Reply<Exported> {
    let instance = api.client.instance_of(uid(&name)?);
    let length = length(query.limit.or(Some(EVENTS)))?;
    let row = instance.row().await?;
    let run = query.run.unwrap_or(row.run);
    let mut events = instance.event_page(Some(run), query.after.map(Seq), length + 1).await?;
    let (mut room, mut taken) = (LARGEST, 0);
    for event in events.iter_mut().take(length) {
        let size = for_others(&mut event.kind);
        if taken > 0 && size > room {
            break;
        }
        (room, taken) = (room.saturating_sub(size), taken + 1);
    }
    let is_more = events.len() > taken;
    events.truncate(taken);
    let cursor = events.last().filter(|_| is_more).map(|event: &Event| event.seq.to_string());
    let runs = vec![ExportedRun { run, events }];
    let file = Export { instance: row.id, uid: row.uid, runs }.to_json();
    let history = RawValue::from_string(file).unwrap_or_else(|_| RawValue::NULL.to_owned());
    Ok(Json(Exported { history, cursor }))
}

/// Leaves out what whoever asks may not see, and says how large the values are.
fn for_others(kind: &mut EventKind) -> usize {
    if let EventKind::RunStarted(started) = kind
        && hides_payloads()
    {
        started.carried = Carried::default();
    }
    let Some(payload) = value_of(kind) else { return 0 };
    *payload = match hides_payloads() {
        true => Payload::from_text(wire::value(payload).get()),
        false => without_secrets(payload),
    };
    payload.len()
}

/// The user's value that an event has.
fn value_of(kind: &mut EventKind) -> Option<&mut Payload> {
    match kind {
        EventKind::RunStarted(started) => Some(&mut started.input),
        EventKind::ActivityScheduled(call) => Some(&mut call.input),
        EventKind::ActivityCompleted(done) => Some(&mut done.result),
        EventKind::CompensationRecorded { input, .. } => Some(input),
        EventKind::ChildStarted(child) => Some(&mut child.input),
        EventKind::ChildCompleted { result, .. } | EventKind::RunCompleted { result } => {
            Some(result)
        }
        EventKind::SignalReceived { value, .. }
        | EventKind::KvSet { value, .. }
        | EventKind::StatusSet { value } => Some(value),
        EventKind::RunContinued(continued) => Some(&mut continued.input),
        EventKind::ActivityFailed(_)
        | EventKind::ActivityCancelled { .. }
        | EventKind::ActivityCancelRequested { .. }
        | EventKind::ChildFailed { .. }
        | EventKind::ChildCancelRequested { .. }
        | EventKind::TimerStarted { .. }
        | EventKind::TimerFired { .. }
        | EventKind::TimerCancelled { .. }
        | EventKind::CancelRequested { .. }
        | EventKind::TerminateRequested { .. }
        | EventKind::RunTimedOut { .. }
        | EventKind::LimitPassed { .. }
        | EventKind::VersionMarked { .. }
        | EventKind::RunFailed { .. }
        | EventKind::RunCancelled { .. } => None,
    }
}
