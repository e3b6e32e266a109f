//! Hints that something has changed, for whoever looks at it: server-sent events.
//!
//! An event says what to read again, and nothing of what is there: who may read it is asked when it
//! is read. The database is looked at every two seconds for each stream, so nothing has to be
//! told to anybody, and it does not matter which process works.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use futures_core::Stream;
use resurgam::{CallFilter, CallKey, Description, InstanceFilter, Uid};
use resurgam_store::rows::TaskRow;
use serde::Deserialize;
use tokio::sync::mpsc;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::still_lets_in;
use crate::api::{Api, Room};
use crate::caller::Caller;
use crate::extract::{Query, uid};
use crate::problem::Problem;

/// How long it is between two looks, so between two hints.
const LOOK: Duration = Duration::from_secs(2);

/// How many looks it is between two signs of life: proxies end streams that say nothing.
const SIGN: u32 = 7;

/// How many looks it is until the token is looked at again.
const RECHECK: u32 = 15;

/// How many instances and open calls of a list are looked at: the first page.
const FIRST: usize = 100;

/// How many topics a stream has at most.
const MOST: usize = 20;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(live))
}

/// What somebody looks at.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct LiveQuery {
    /// `lists`, `instance:UID`, with commas between them; 20 at most.
    topics: String,
}

/// Something that can change.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Topic {
    Lists,
    Instance(Uid),
}

impl LiveQuery {
    fn topics(&self) -> Result<Vec<Topic>, Problem> {
        let read = |name: &str| match name.split_once(':') {
            None if name == "lists" => Ok(Topic::Lists),
            Some(("instance", name)) => uid(name).map(Topic::Instance),
            _ => Err(Problem::invalid(format!("topics: {name:?}; write lists or instance:UID"))),
        };
        let topics: Vec<Topic> = self.topics.split(',').map(read).collect::<Result<_, _>>()?;
        match topics.len() <= MOST {
            true => Ok(topics),
            false => Err(Problem::invalid(format!("topics: {MOST} at most"))),
        }
    }
}

/// Hints what has changed, as server-sent events
///
/// `event: changed` with `{"topic": ...}` says what to read again, at most every two seconds.
/// `event: reset` says that changes may have been missed: who names a `Last-Event-ID` gets it, for
/// nothing is kept of what was told. `lists` are the newest instances, the first open calls and how
/// gates stand: somebody who must not miss what is further down asks for it now and then. A comment
/// says every 15 seconds that the stream is alive.
#[utoipa::path(
    get, path = "/api/v1/live", tag = "system", params(LiveQuery),
    responses((status = OK, body = String, content_type = "text/event-stream"))
)]
async fn live(
    State(api): State<Api>,
    Query(query): Query<LiveQuery>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let topics = query.topics()?;
    let room = api.may_wait(&caller)?;
    let (tell, told) = mpsc::channel(MOST + 1);
    let stream = Watching { api, topics, headers, tell, number: 0 };
    tokio::spawn(stream.tell_changes(room));
    let mut response = Response::new(Body::from_stream(Told(told)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// What a stream says, until whoever tells it ends.
struct Told(mpsc::Receiver<String>);

impl Stream for Told {
    type Item = Result<String, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|told| told.map(Ok))
    }
}

/// Somebody looks.
struct Watching {
    api: Api,
    topics: Vec<Topic>,
    headers: HeaderMap,
    tell: mpsc::Sender<String>,
    /// Of the event that was told last.
    number: u64,
}

impl Watching {
    /// Tells of changes until nobody listens, the server ends, or the token lets nobody in.
    async fn tell_changes(mut self, _room: Room) {
        let begins = match self.headers.contains_key("last-event-id") {
            true => self.event("reset", "{}"),
            false => ": nothing has changed so far\n\n".to_string(),
        };
        let mut marks = self.marks().await;
        let mut say = begins;
        for look in 1_u32.. {
            if !say.is_empty() && self.tell.send(std::mem::take(&mut say)).await.is_err() {
                return;
            }
            tokio::select! {
                _busy = self.api.client.handle().sleep(LOOK) => {}
                () = self.tell.closed() => return,
                () = self.api.stopped() => return,
            }
            if look % RECHECK == 0 && !still_lets_in(&self.api, &self.headers).await {
                return;
            }
            let now = self.marks().await;
            for (topic, (before, now)) in self.topics.clone().iter().zip(marks.iter().zip(&now)) {
                // What cannot be read now is no news.
                if before != now && now.is_some() {
                    let topic = serde_json::json!({"topic": topic.to_string()}).to_string();
                    say += &self.event("changed", &topic);
                }
            }
            let kept = |(now, before): (Option<u64>, Option<u64>)| now.or(before);
            marks = now.into_iter().zip(marks).map(kept).collect();
            if say.is_empty() && look % SIGN == 0 {
                say += ": still here\n\n";
            }
        }
    }

    fn event(&mut self, name: &str, data: &str) -> String {
        self.number += 1;
        format!("id: {}\nevent: {name}\ndata: {data}\n\n", self.number)
    }

    async fn marks(&self) -> Vec<Option<u64>> {
        let mut marks = Vec::new();
        for topic in &self.topics {
            marks.push(self.mark(topic).await);
        }
        marks
    }

    /// A number that is another one when something has changed; none when nobody can say so.
    async fn mark(&self, topic: &Topic) -> Option<u64> {
        let client = &self.api.client;
        let mut mark = DefaultHasher::new();
        match topic {
            Topic::Lists => {
                let filter = InstanceFilter { limit: FIRST, ..InstanceFilter::default() };
                for row in client.list(filter).await.ok()? {
                    (row.uid.0, row.status.name(), row.run).hash(&mut mark);
                }
                let calls =
                    client.handle().store().matching_calls(CallFilter::default(), None, FIRST);
                for found in calls.await.ok()?.calls {
                    state_of_call(&found.task).hash(&mut mark);
                }
                for gate in client.gates().await.ok()? {
                    let hand = gate.state.by_hand.as_ref().map(|hand| hand.shut);
                    (gate.key, gate.state.standing().name(), hand).hash(&mut mark);
                }
                for hold in client.holds().await.ok()? {
                    hold.name.hash(&mut mark);
                }
            }
            Topic::Instance(uid) => {
                let found = client.instance_of(*uid).describe().await.ok()?;
                state_of(&found).hash(&mut mark);
            }
        }
        Some(mark.finish())
    }
}

/// What is looked at of an instance. Not what is told relative to now: that changes all the time.
fn state_of(found: &Description) -> impl Hash {
    let calls = found.pending.iter().map(|call| {
        let heartbeat = call.heartbeat.as_ref().map(|told| told.at.as_millis());
        let due = call.next_due.map(|at| at.as_millis());
        let waits_for = call.waits_for.map(|why| why.name());
        (call.seq.0, call.attempt, call.running, due, waits_for, call.paused.is_some(), heartbeat)
    });
    let row = &found.instance;
    let timers: Vec<i64> = found.timers.iter().map(|at| at.as_millis()).collect();
    let state = (row.status.name(), row.run, found.unread.clone(), timers, found.cancel_requested);
    (state, calls.collect::<Vec<_>>())
}

/// What is looked at of an open call that a list counts.
fn state_of_call(task: &TaskRow) -> impl Hash + use<> {
    let progress = &task.progress;
    let waits = (progress.paused.is_some(), progress.unregistered, progress.lacks.is_some());
    let CallKey { run, seq } = task.call;
    let due = task.wake_at.as_millis();
    ((run.uid.0, run.run, seq.0), task.attempt, task.claim.is_some(), due, waits)
}

impl std::fmt::Display for Topic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Topic::Lists => f.write_str("lists"),
            Topic::Instance(uid) => write!(f, "instance:{uid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn topics_are_lists_and_instances() {
        let read = |topics: &str| LiveQuery { topics: topics.to_string() }.topics();
        let uid = "0".repeat(31) + "7";
        let both = read(&format!("lists,instance:{uid}")).unwrap();
        assert_eq!(both, [Topic::Lists, Topic::Instance(Uid(7))]);
        assert_eq!(both[1].to_string(), format!("instance:{uid}"));
        for wrong in ["", "list", "instance:7", "call:7", &"lists,".repeat(20)] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
