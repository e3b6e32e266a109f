//! Remote workers: they ask for attempts, report how those ended, and say that they are there.
//!
//! Unlike elsewhere, fields that nobody knows are ignored: a worker may be newer than the server.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use resurgam::retry::RetryPolicy;
use resurgam::{
    ActivityContext, AttemptOutcome, AttemptRow, CallKey, Client, Code, EventKind, Failure, Kind,
    Payload, Timestamp,
};
use resurgam_core::duration;
use resurgam_store::rows::TaskRow;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use crate::api::Api;
use crate::caller::Caller;
use crate::extract::{Body, present};
use crate::problem::Problem;
use crate::remote::{
    Alive, Elsewhere, Held, Name, Offer, Remote, Running, Wants, ended, goes_on, is_reported,
};
use crate::wire::{self, value};

/// The protocol that is spoken here.
const PROTOCOL: u32 = 1;

/// How many attempts an answer has at most.
const MOST: usize = 1_000;

/// How many bytes of inputs an answer has at most, give or take one input.
const BYTES: usize = 8 << 20;

/// The longest that a poll waits.
const LONGEST_POLL: Duration = Duration::from_secs(60);

/// How long a report waits to be stored.
const LONGEST_REPORT: Duration = Duration::from_secs(20);

/// How long it is between two looks whether attempts are to end that are at another server.
const LOOK_ELSEWHERE: Duration = Duration::from_secs(1);

/// How long it is between two looks whether a report is stored.
const LOOK: Duration = Duration::from_millis(2);

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(poll)).routes(routes!(report)).routes(routes!(beat))
}

/// A worker asks for attempts.
#[derive(Debug, Deserialize, ToSchema)]
struct Poll {
    /// 1
    protocol: u32,
    /// Something random that this process of the worker keeps.
    session: String,
    /// What it offers.
    activities: Vec<Offered>,
    /// The queues of which it takes attempts; all when there are none.
    #[serde(default)]
    queues: Vec<String>,
    /// How many attempts it has room for; 1 unless given, 1,000 at most.
    max: Option<usize>,
    /// How long it waits for the first of them; 60,000 at most.
    #[serde(default)]
    wait_ms: u64,
    /// All attempts that it has, until their report was answered.
    #[serde(default)]
    running: Vec<String>,
}

/// An activity that a worker offers.
#[derive(Debug, Deserialize, ToSchema)]
struct Offered {
    name: String,
    /// The policy of its calls, unless a call has its own.
    retry: Option<Value>,
    /// How long an attempt may take, from when a worker has taken it, such as `10s`.
    timeout: Option<String>,
}

/// Attempts for a worker.
#[derive(Serialize, ToSchema)]
struct Polled {
    tasks: Vec<Task>,
    /// Attempts that are to end.
    cancel: Vec<String>,
    /// For how long a worker may be silent before its attempts are lost.
    lease_ms: u64,
}

/// An attempt.
#[derive(Serialize, ToSchema)]
struct Task {
    /// What reports name it by.
    task: String,
    activity: String,
    /// From 1.
    attempt: u32,
    /// The id of the instance that called it.
    instance: String,
    queue: String,
    /// The same for all attempts of a call.
    idempotency_key: String,
    #[schema(value_type = serde_json::Value)]
    input: wire::Json,
    /// What an attempt before it told last.
    #[schema(value_type = Option<serde_json::Value>)]
    last_heartbeat: Option<wire::Json>,
    /// How much time is left for it.
    timeout_ms: Option<u64>,
}

impl Task {
    fn of(held: &Held) -> Self {
        let context = &held.context;
        let left = held.left().map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        Task {
            task: held.name.to_string(),
            activity: context.activity().to_string(),
            attempt: context.attempt(),
            instance: context.instance().to_string(),
            queue: held.queue.clone(),
            idempotency_key: context.idempotency_key(),
            input: value(&held.input),
            last_heartbeat: context.last_heartbeat(),
            timeout_ms: left,
        }
    }
}

/// Workers are to ask again soon, or elsewhere.
fn away(why: &str) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, Code::E8, format!("remote workers: {why}"))
}

impl Api {
    /// Refuses workers that cannot be spoken with.
    fn speaks(protocol: u32, session: &str) -> Result<(), Problem> {
        if protocol < PROTOCOL {
            let detail = format!("protocol {protocol} is too old; this server speaks {PROTOCOL}");
            return Err(Problem::new(StatusCode::UPGRADE_REQUIRED, Code::E9, detail));
        }
        if !(1..=200).contains(&session.len()) {
            return Err(Problem::invalid("session: write 1 to 200 bytes"));
        }
        Ok(())
    }

    /// Where remote workers find their attempts; a problem where there are none for them.
    fn remote(&self) -> Result<&Remote, Problem> {
        let remote = self.options.remote.as_ref();
        let remote = remote
            .ok_or_else(|| away("this server works on nothing; `resurgam server --work` does"))?;
        if !self.client.is_owner() && !self.client.handle().store().is_shared() {
            return Err(away("another process works on the database, and this one stands by"));
        }
        Ok(remote)
    }
}

fn offers(offered: Vec<Offered>) -> Result<BTreeMap<String, Offer>, Problem> {
    let read = |offered: Offered| {
        let Offered { name, retry, timeout } = offered;
        let wrong = |why: String| Problem::invalid(format!("activity {name}: {why}"));
        let timeout = timeout.map(|text| {
            duration::parse(&text).map_err(|why| wrong(format!("timeout {text:?}: this {why}")))
        });
        let retry = retry.map(|policy| {
            RetryPolicy::from_value(&policy).map_err(|problems| {
                Problem::of_input(&format!("activity {name}: retry"), &problems)
            })
        });
        Ok((name.clone(), Offer { retry: retry.transpose()?, timeout: timeout.transpose()? }))
    };
    offered.into_iter().map(read).collect()
}

/// Asks for attempts
///
/// Answers as soon as there are some, or one is to end, or the time is over. What the answer before
/// gave and `running` does not name is given again: the same attempt, under the same name. A newer
/// poll of a session ends the older one.
#[utoipa::path(
    post, path = "/api/v1/worker/poll", tag = "workers", request_body = Poll,
    responses((status = OK, body = Polled))
)]
async fn poll(State(api): State<Api>, caller: Caller, Body(ask): Body<Poll>) -> Reply<Polled> {
    Api::speaks(ask.protocol, &ask.session)?;
    let (remote, handle) = (api.remote()?, api.client.handle());
    if api.is_stopping() {
        return Err(away("this server is about to end, and takes reports only"));
    }
    let session = ask.session.as_str();
    let most = ask.max.unwrap_or(1).min(MOST);
    let offers = offers(ask.activities)?;
    if let Some(name) = offers.keys().find(|name| handle.registry().has_activity(name)) {
        let detail = format!("activity {name} is one of the process that works, not of workers");
        return Err(Problem::conflict(detail));
    }
    let wants =
        Wants { activities: offers.keys().cloned().collect(), queues: caller.queues(ask.queues)? };
    if remote.hear(session, Some(offers), handle.now()) {
        api.client.activities_changed();
    }
    let names: Vec<Name> = ask.running.iter().filter_map(|it| Name::read(it)).collect();
    let Running { here: running, elsewhere, stays } = remote.runs(session, &names);
    remote.tell_others(&api.client).await;
    let mut ends = Elsewhere::read(&api.client, &stays).await?.ends();
    let answer = |tasks, ends: &[Name]| {
        let here = remote.cancelled(session);
        let cancel = here.iter().chain(ends).map(Name::to_string).collect();
        let lease_ms = u64::try_from(remote.lease().as_millis()).unwrap_or(u64::MAX);
        Ok(Json(Polled { tasks, cancel, lease_ms }))
    };
    let room = (most, BYTES);
    let again = remote.unknown_to(session, &running, room, |held| (held.name, Task::of(held)));
    let again = still_open(&api, again).await?;
    if !again.is_empty() {
        return answer(again, &ends);
    }
    let waiting = remote.wait(session, wants.clone());
    let tasks = remote.give(session, &wants, room, Task::of);
    let is_news =
        remote.has_news_of_ends(session, &running) | remote.has_news_of_elsewhere(session, &ends);
    if !tasks.is_empty() || is_news || ask.wait_ms == 0 {
        return answer(tasks, &ends);
    }
    let until = handle.now().saturating_add(Duration::from_millis(ask.wait_ms).min(LONGEST_POLL));
    let _room = api.may_wait(&caller)?;
    loop {
        let left = until.since(handle.now());
        let look = if elsewhere.is_empty() { left } else { left.min(LOOK_ELSEWHERE) };
        tokio::select! {
            () = waiting.woken() => break,
            _busy = handle.sleep(look) => {}
            // What is given now would only be left to the next server.
            () = api.stopped() => return answer(Vec::new(), &ends),
        }
        if look == left {
            break;
        }
        ends = Elsewhere::read(&api.client, &elsewhere).await?.ends();
        if remote.has_news_of_elsewhere(session, &ends) {
            break;
        }
    }
    // What made this one wake up is told by its answer.
    remote.has_news_of_ends(session, &running);
    answer(remote.give(session, &wants, room, Task::of), &ends)
}

/// Those of these attempts of which nobody has told another server how they ended.
async fn still_open(api: &Api, again: Vec<(Name, Task)>) -> Result<Vec<Task>, Problem> {
    let mut open = Vec::new();
    for (name, task) in again {
        if !is_reported(&api.client, name).await? {
            open.push(task);
        }
    }
    Ok(open)
}

/// What a worker says about its attempts.
#[derive(Debug, Deserialize, ToSchema)]
struct Reports {
    /// 1
    protocol: u32,
    session: String,
    reports: Vec<Report>,
}

/// How an attempt ended, or how far it is: one of the fields beside its name.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
struct Report {
    task: String,
    /// It succeeded with this.
    #[schema(value_type = Option<serde_json::Value>)]
    #[serde(deserialize_with = "present")]
    result: Option<Box<RawValue>>,
    /// It failed.
    failure: Option<Failed>,
    /// It is to run again after this time, such as `30s`, which is no failure.
    snooze: Option<String>,
    /// It goes on, and this is how far it is.
    #[schema(value_type = Option<serde_json::Value>)]
    #[serde(deserialize_with = "present")]
    heartbeat: Option<Box<RawValue>>,
    /// Ends its branch of a graph without failing.
    prune: bool,
    /// It was told to end, and has.
    cancelled: bool,
    /// The worker ends, and cut it short.
    interrupted: bool,
    /// It never began.
    released: bool,
}

/// Why an attempt failed.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
struct Failed {
    /// The name that policies match on, such as `CardDeclined`.
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    message: String,
    /// The type and those it descends from, nearest first.
    #[serde(default)]
    mro: Vec<String>,
    code: Option<String>,
    /// False: never again, whatever the policy says.
    retryable: Option<bool>,
    /// When the other side wants to be asked again, such as `5s`.
    retry_after: Option<String>,
    details: Option<Value>,
}

impl Failed {
    fn failure(self) -> Result<Failure, String> {
        let Failed { kind, message, mro, code, retryable, retry_after, details } = self;
        let retry_after = retry_after.map(|text| {
            duration::parse(&text).map_err(|why| format!("retry_after {text:?}: this {why}"))
        });
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mut record = serde_json::Map::new();
        record.insert("kind".to_string(), "error".into());
        record.insert("message".to_string(), message.into());
        record.insert("mro".to_string(), mro.into());
        record.extend(kind.map(|kind| ("type".to_string(), kind.into())));
        record.extend(code.map(|code| ("code".to_string(), code.into())));
        record.extend(retryable.map(|it| ("retryable".to_string(), it.into())));
        let retry_after = retry_after.transpose()?;
        record.extend(retry_after.map(|it| ("retry_after_ms".to_string(), millis(it).into())));
        record.extend(details.map(|details| ("details".to_string(), details)));
        serde_json::from_value(Value::Object(record)).map_err(|error| error.to_string())
    }
}

/// What a report says.
enum Said {
    Heartbeat(Payload),
    Ended(Result<Payload, Failure>),
}

impl Report {
    /// A report that makes no sense is a failure of its attempt: the worker has a mistake, and the
    /// attempt ended all the same.
    fn said(self) -> Said {
        let ended = |failure| Said::Ended(Err(failure));
        let Report { result, failure, snooze, heartbeat, .. } = self;
        match (result, failure, snooze, heartbeat) {
            (Some(result), None, None, None) => Said::Ended(Ok(Payload::from_text(result.get()))),
            (None, Some(failure), None, None) => {
                ended(failure.failure().unwrap_or_else(bad_report))
            }
            (None, None, Some(time), None) => match duration::parse(&time) {
                Ok(time) => ended(Failure::snooze(time)),
                Err(why) => ended(bad_report(format!("snooze {time:?}: this {why}"))),
            },
            (None, None, None, Some(details)) => Said::Heartbeat(Payload::from_text(details.get())),
            (None, None, None, None) if self.prune => ended(Failure::prune()),
            (None, None, None, None) if self.cancelled => {
                ended(Failure::of_kind(Kind::Cancelled, "its worker ended it when it was told to"))
            }
            (None, None, None, None) if self.interrupted => ended(Failure::interrupted()),
            (None, None, None, None) if self.released => ended(Failure::never_began()),
            _ => ended(bad_report(
                "a report has one of result, failure, snooze, heartbeat, prune, \
                                   cancelled, interrupted and released"
                    .to_string(),
            )),
        }
    }
}

fn bad_report(why: String) -> Failure {
    Failure::new(format!("its worker's report cannot be read: {why}")).with_type("BadReport")
}

/// What came of reports. A worker treats `recorded` and `over` as done, and sends again what is in
/// neither.
#[derive(Default, Serialize, ToSchema)]
struct Reported {
    /// Durably stored.
    recorded: Vec<String>,
    /// Not this session's any more: recorded before, timed out, cancelled or lost.
    over: Vec<String>,
    /// Attempts that are to end.
    cancel: Vec<String>,
}

/// Reports how attempts ended, or how far they are
///
/// Answers when that is durably stored, heartbeats too. Each report is judged by itself.
#[utoipa::path(
    post, path = "/api/v1/worker/report", tag = "workers", request_body = Reports,
    responses((status = OK, body = Reported))
)]
async fn report(State(api): State<Api>, Body(told): Body<Reports>) -> Reply<Reported> {
    Api::speaks(told.protocol, &told.session)?;
    let (remote, now) = (api.options.remote.as_ref(), api.client.handle().now());
    let session = told.session.as_str();
    if let Some(remote) = remote {
        remote.hear(session, None, now);
        remote.tell_others(&api.client).await;
    }
    let (mut answer, mut told_of, mut elsewhere) = (Reported::default(), Vec::new(), Vec::new());
    for report in told.reports {
        let task = report.task.clone();
        let Some(name) = Name::read(&task) else {
            answer.over.push(task);
            continue;
        };
        let here = remote.and_then(|remote| Some((remote, remote.number(session, name)?)));
        let Some((remote, number)) = here else {
            elsewhere.push((name, task, report.said()));
            continue;
        };
        match report.said() {
            Said::Heartbeat(details) => match remote.heartbeat(session, number, &details) {
                Alive::Told { name, context, at } => {
                    told_of.push(Told { task, name, context, word: Word::Alive(at) });
                }
                Alive::Ends => answer.recorded.push(task),
                Alive::Over => answer.over.push(task),
            },
            Said::Ended(result) => {
                let word = Word::Ended(result.clone());
                match remote.ended(session, number, result) {
                    Some(Held { name, context, .. }) => {
                        told_of.push(Told { task, name, context, word });
                    }
                    None => answer.over.push(task),
                }
            }
        }
    }
    said_elsewhere(&api, elsewhere, &mut answer).await?;
    stored(&api, told_of, &mut answer).await?;
    let cancel = remote.into_iter().flat_map(|remote| remote.cancelled(session));
    answer.cancel.extend(cancel.map(|name| name.to_string()));
    Ok(Json(answer))
}

/// What stores a report.
type Storing<'a> = Pin<Box<dyn Future<Output = Result<(), Problem>> + Send + 'a>>;

/// Stores what attempts say that are at no desk here. Each is judged by itself: it is durable, or
/// over; what cannot be stored now is in neither list, and its worker sends it again.
async fn said_elsewhere(
    api: &Api,
    said: Vec<(Name, String, Said)>,
    answer: &mut Reported,
) -> Result<(), Problem> {
    let names: Vec<Name> = said.iter().map(|(name, ..)| *name).collect();
    let found = Elsewhere::read(&api.client, &names).await?;
    let mut sent: Vec<(String, Storing<'_>)> = Vec::new();
    for (name, task, said) in said {
        if !found.claimed.contains(&name) {
            answer.over.push(task);
            continue;
        }
        if found.cancelled.contains(&name) && matches!(said, Said::Heartbeat(_)) {
            answer.cancel.push(task.clone());
        }
        let storing: Storing<'_> = match said {
            Said::Heartbeat(details) => Box::pin(goes_on(&api.client, name, details)),
            Said::Ended(result) => Box::pin(ended(&api.client, name, result)),
        };
        sent.push((task, storing));
    }
    // All of them were asked for, so that they are stored together.
    let (mut stored, mut refused) = (0, None);
    for (task, storing) in sent {
        match storing.await {
            Ok(()) => {
                stored += 1;
                answer.recorded.push(task);
            }
            Err(problem) => refused = Some(problem),
        }
    }
    match refused {
        Some(problem) if stored == 0 && answer.over.is_empty() => Err(problem),
        _ => Ok(()),
    }
}

/// An attempt of which the engine was told something.
struct Told {
    task: String,
    name: Name,
    context: ActivityContext,
    word: Word,
}

/// What the engine was told.
enum Word {
    /// It goes on, said at that time.
    Alive(Timestamp),
    Ended(Result<Payload, Failure>),
}

impl Told {
    /// Whether the task of its call does not show yet what it said: it is still claimed for this
    /// attempt, and the heartbeat in it, if there is one, is older.
    fn is_awaited(&self, rows: &[TaskRow]) -> bool {
        let lacks = |row: &TaskRow| match self.word {
            Word::Alive(at) => row.heartbeat.as_ref().is_none_or(|stored| stored.at < at),
            Word::Ended(_) => true,
        };
        let Name { call, token } = self.name;
        let has_it = |row: &TaskRow| row.claim.as_ref().is_some_and(|claim| claim.token == token);
        rows.iter().any(|row| row.call == call && has_it(row) && lacks(row))
    }

    /// Whether what it said counts, now that its claim is gone. An attempt that nobody told to end
    /// had its claim until then. One that was told may have lost it before, by a timeout or because
    /// an operator decided about its call: then the record knows, which is read for these alone.
    async fn is_recorded(&self, client: &Client) -> Result<bool, Problem> {
        if !self.context.is_cancelled() {
            return Ok(true);
        }
        let Word::Ended(result) = &self.word else { return Ok(false) };
        let (call, attempt) = (self.name.call, self.context.attempt());
        let instance = client.instance_of(call.run.uid);
        let failure = match result {
            Ok(result) => {
                let events = instance.event_page(Some(call.run.run), Some(call.seq), usize::MAX);
                return Ok(events.await?.iter().any(|event| match &event.kind {
                    EventKind::ActivityCompleted(done) => {
                        done.activity == call.seq && done.result == *result
                    }
                    _ => false,
                }));
            }
            Err(failure) => failure.clone().bounded(),
        };
        let is_told = |row: &AttemptRow| match row.outcome {
            AttemptOutcome::Failed => row
                .failure
                .as_ref()
                .is_some_and(|told| (told.kind, &told.message) == (failure.kind, &failure.message)),
            AttemptOutcome::Lost | AttemptOutcome::Cancelled => false,
            _ => true,
        };
        let ledger = instance.attempts(Some(call.run.run)).await?;
        Ok(ledger.iter().any(|row| row.call == call && row.attempt == attempt && is_told(row)))
    }
}

/// Waits until it is stored what these attempts said. Those that take too long are not among the
/// answer; their workers ask again, and hear that they are over.
async fn stored(api: &Api, mut told: Vec<Told>, answer: &mut Reported) -> Result<(), Problem> {
    let handle = api.client.handle();
    let begun = handle.now();
    while !told.is_empty() && handle.now().since(begun) < LONGEST_REPORT {
        let calls: Arc<[CallKey]> = told.iter().map(|it| it.name.call).collect();
        let busy = handle.busy();
        let rows = handle.store().tasks_of(calls).await;
        let rows = rows.map_err(|error| resurgam::Error::store("look what is recorded", error))?;
        let (left, done): (Vec<Told>, Vec<Told>) =
            told.into_iter().partition(|it| it.is_awaited(&rows));
        for it in done {
            match it.is_recorded(&api.client).await? {
                true => answer.recorded.push(it.task),
                false => answer.over.push(it.task),
            }
        }
        told = left;
        drop(busy);
        if !told.is_empty() {
            let _busy = handle.sleep(LOOK).await;
        }
    }
    Ok(())
}

/// A worker is there.
#[derive(Debug, Deserialize, ToSchema)]
struct Beat {
    /// 1
    protocol: u32,
    session: String,
    /// All attempts that it has.
    #[serde(default)]
    running: Vec<String>,
}

/// What a worker should know.
#[derive(Serialize, ToSchema)]
struct Beaten {
    /// Attempts that are to end.
    cancel: Vec<String>,
    /// Attempts that are not this session's any more.
    over: Vec<String>,
}

/// Says that a worker is there, while it is too busy to poll
#[utoipa::path(
    post, path = "/api/v1/worker/beat", tag = "workers", request_body = Beat,
    responses((status = OK, body = Beaten))
)]
async fn beat(State(api): State<Api>, Body(told): Body<Beat>) -> Reply<Beaten> {
    Api::speaks(told.protocol, &told.session)?;
    let (remote, now) = (api.options.remote.as_ref(), api.client.handle().now());
    let session = told.session.as_str();
    let (mut names, mut over) = (Vec::new(), Vec::new());
    for task in told.running {
        match Name::read(&task) {
            Some(name) => names.push(name),
            None => over.push(task),
        }
    }
    let (mut cancel, mut elsewhere) = (Vec::new(), names.clone());
    if let Some(remote) = remote {
        remote.hear(session, None, now);
        elsewhere = remote.runs(session, &names).elsewhere;
        let is_other = |name: &&Name| !elsewhere.contains(name) && !remote.has(session, **name);
        over.extend(names.iter().filter(is_other).map(Name::to_string));
        cancel = remote.cancelled(session);
        remote.tell_others(&api.client).await;
    }
    let found = Elsewhere::read(&api.client, &elsewhere).await?;
    over.extend(found.over.iter().map(Name::to_string));
    let cancel = cancel.iter().chain(&found.cancelled).map(Name::to_string).collect();
    Ok(Json(Beaten { cancel, over }))
}
