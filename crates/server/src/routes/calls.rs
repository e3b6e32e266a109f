//! Looking at one activity call.

use axum::Json;
use axum::extract::State;
use resurgam::{CallKey, Event, EventKind, Failure, Payload, Seq};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use crate::api::Api;
use crate::extract::{Path, call};
use crate::links::link;
use crate::names::call_name;
use crate::problem::Problem;
use crate::wire::call::{Action, Attempt, Call, CallDetail};
use crate::wire::{Json as AnyJson, content, json, value};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(show))
}

/// How a call ended, as its history says.
#[derive(Default)]
struct End {
    state: &'static str,
    result: Option<Payload>,
    failure: Option<Failure>,
    why: Option<String>,
}

/// An activity call: what decides about it, and what happened to it so far
#[utoipa::path(
    get, path = "/api/v1/calls/{call}", tag = "calls",
    params(("call" = String, Path, description = "UID.RUN.SEQ")),
    responses((status = OK, body = CallDetail))
)]
async fn show(State(api): State<Api>, Path(name): Path<String>) -> Reply<CallDetail> {
    let key = call(&name)?;
    let instance = api.client.instance_of(key.run.uid);
    let found = instance.describe().await?;
    let run = Some(key.run.run);
    let events = instance.events(run).await?;
    let is_it = |event: &&Event| event.seq == key.seq;
    let scheduled = events.iter().find(is_it).and_then(|event| match &event.kind {
        EventKind::ActivityScheduled(scheduled) => Some(scheduled),
        _ => None,
    });
    let Some(scheduled) = scheduled else {
        return Err(Problem::missing(format!("{name} is no activity call")));
    };
    let is_current = found.instance.run == key.run.run;
    let pending = found.pending.iter().find(|call| is_current && call.seq == key.seq);
    let end = end_of(&events, key.seq, pending.is_some());
    let of_call = |of: CallKey| of == key;
    let attempts = instance.attempts(run).await?;
    let actions = instance.actions(run).await?;
    let policy = pending.and_then(|call| call.policy.as_ref());
    Ok(Json(CallDetail {
        call: call_name(key),
        instance: found.instance.id.clone(),
        activity: pending.map_or(scheduled.name.clone(), |call| call.activity.clone()),
        state: end.state.to_string(),
        pending: pending.map(|call| Call::of(&found.instance, call)),
        input: at_event(key, value(&resurgam_graph::without_secrets(&scheduled.input))),
        result: end.result.map(|result| at_event(key, value(&result))),
        failure: end.failure.as_ref().map(json),
        why: end.why,
        policy: policy.map(|policy| json(policy.as_ref())),
        attempts: attempts.iter().filter(|row| of_call(row.call)).map(Attempt::from).collect(),
        actions: actions.iter().filter(|row| of_call(row.call)).map(Action::from).collect(),
    }))
}

/// A payload of a call, or the way to the event that has it.
fn at_event(key: CallKey, payload: AnyJson) -> AnyJson {
    let CallKey { run, seq } = key;
    let path = || format!("/api/v1/instances/{}/events/{seq}?run={}", run.uid, run.run);
    content(payload, || link(&path()))
}

fn end_of(events: &[Event], call: Seq, is_pending: bool) -> End {
    let end = events.iter().rev().find_map(|event| match &event.kind {
        EventKind::ActivityCompleted(done) if done.activity == call => {
            let result = Some(done.result.clone());
            Some(End { state: "completed", result, ..End::default() })
        }
        EventKind::ActivityFailed(failed) if failed.activity == call => {
            let why = Some(failed.why.clone());
            let failure = Some(failed.failure.clone());
            Some(End { state: "failed", failure, why, ..End::default() })
        }
        EventKind::ActivityCancelled { activity } if *activity == call => {
            Some(End { state: "cancelled", ..End::default() })
        }
        _ => None,
    });
    let has_ended = events.last().is_some_and(|event| event.kind.is_close());
    end.unwrap_or(match (is_pending, has_ended) {
        // Its end is stored, and its workflow has not heard of it yet.
        (true, _) | (false, false) => End { state: "open", ..End::default() },
        (false, true) => End { state: "cancelled", ..End::default() },
    })
}
