//! Queues: what waits in them, what runs, and which of them somebody has paused.
//!
//! No count over a table: at most [`LOOKED_AT`] open calls are looked at, and the answer says
//! whether that was all of them. Queues that are paused are told in any case.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use resurgam::CallFilter;
use resurgam_store::HoldKind;
use resurgam_store::rows::TaskRow;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use crate::api::Api;
use crate::wire::{both, rfc3339};

/// How many open calls are looked at.
const LOOKED_AT: usize = 10_000;

/// How many at once.
const PAGE: usize = 1_000;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(queues))
}

/// The queues of which something is known.
#[derive(Serialize, ToSchema)]
struct Queues {
    /// By their names.
    items: Vec<Queue>,
    /// How many open calls were looked at.
    looked_at: usize,
    /// There are no more than those. Otherwise there is at least as much as is told.
    is_all: bool,
}

/// A queue, and its open calls.
#[derive(Serialize, ToSchema)]
struct Queue {
    queue: String,
    /// Calls with an attempt that runs.
    running: u64,
    /// Calls that are due and have none.
    waiting: u64,
    /// Calls that wait for a later time: before their first attempt, or before the next.
    later: u64,
    /// Calls that somebody paused one by one.
    paused: u64,
    /// Since when the one waits that has waited longest.
    oldest_ms: Option<i64>,
    oldest: Option<String>,
    /// Who paused the queue as a whole, when and why; null while it is not paused.
    hold: Option<Held>,
}

/// Who paused a queue.
#[derive(Serialize, ToSchema)]
struct Held {
    by: String,
    reason: Option<String>,
    since_ms: i64,
    since: String,
}

/// What was counted of a queue.
#[derive(Default)]
struct Counted {
    running: u64,
    waiting: u64,
    later: u64,
    paused: u64,
    oldest: Option<resurgam::Timestamp>,
}

impl Counted {
    fn add(&mut self, task: &TaskRow, now: resurgam::Timestamp) {
        match () {
            () if task.claim.is_some() => self.running += 1,
            () if task.progress.paused.is_some() => self.paused += 1,
            () if task.wake_at > now => self.later += 1,
            () => {
                self.waiting += 1;
                self.oldest =
                    Some(self.oldest.map_or(task.wake_at, |oldest| oldest.min(task.wake_at)));
            }
        }
    }
}

/// The queues, with what waits and runs in them, and who paused them
#[utoipa::path(
    get, path = "/api/v1/queues", tag = "system", responses((status = OK, body = Queues))
)]
async fn queues(State(api): State<Api>) -> Reply<Queues> {
    let (client, now) = (&api.client, api.client.handle().now());
    let mut counted: BTreeMap<String, Counted> = BTreeMap::new();
    let mut holds = BTreeMap::new();
    for hold in client.holds().await? {
        if hold.kind == HoldKind::Queue {
            counted.entry(hold.name.clone()).or_default();
            let (since_ms, since) = (hold.since.as_millis(), rfc3339(hold.since));
            let (by, reason) = (hold.by, hold.reason);
            holds.insert(hold.name, Held { by, reason, since_ms, since });
        }
    }
    let (store, mut looked_at, mut after) = (client.handle().store(), 0, None);
    let is_all = loop {
        let _busy = client.handle().busy();
        let page = store.matching_calls(CallFilter::default(), after, PAGE).await;
        let page = page.map_err(|error| resurgam::Error::store("read open calls", error))?;
        looked_at += page.calls.len();
        for found in &page.calls {
            let task = &found.task;
            counted.entry(task.queue.clone()).or_default().add(task, now);
        }
        after = page.go_on;
        if after.is_none() || looked_at >= LOOKED_AT {
            break after.is_none();
        }
    };
    let told = |(queue, counted): (String, Counted)| {
        let Counted { running, waiting, later, paused, oldest } = counted;
        let (oldest_ms, oldest) = both(oldest);
        let hold = holds.remove(&queue);
        Queue { queue, running, waiting, later, paused, oldest_ms, oldest, hold }
    };
    Ok(Json(Queues { items: counted.into_iter().map(told).collect(), looked_at, is_all }))
}
