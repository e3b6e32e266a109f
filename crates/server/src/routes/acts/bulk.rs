//! Starting and stopping actions on many calls or runs.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use resurgam::{
    BulkAct, BulkJob, BulkPreview, CallFilter, CallStatus, Client, RunFilter, Status, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::instances::Place;
use super::{Done, Why, policy};
use crate::api::Api;
use crate::audit::Did;
use crate::caller::{Caller, RequestKey};
use crate::extract::{Body, Path, Query};
use crate::names::call_name;
use crate::problem::Problem;
use crate::wire::job::Job;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(begin)).routes(routes!(stop))
}

/// One action on many. Either `calls` or `runs` says on which.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewJob {
    calls: Option<Calls>,
    runs: Option<Runs>,
    /// Everything that the action is for, where `calls` or `runs` names nothing.
    #[serde(default)]
    all: bool,
    /// Of calls: retry, pause, resume, fail or set_policy. Of runs: pause, resume, restart or
    /// reset.
    action: String,
    /// Only counts and lists what would be changed.
    #[serde(default)]
    dry_run: bool,
    /// How many the dry run counted: when it is another number by now, nothing is done.
    expect_count: Option<u64>,
    /// How many at most.
    limit: Option<u64>,
    /// Their next attempts begin over that time.
    spread_ms: Option<u64>,
    /// How many are tried first; the others follow when those have succeeded.
    first: Option<u32>,
    /// retry, resume: failures are forgotten, and the time begins again.
    #[serde(default)]
    reset: bool,
    /// pause of calls: the times that bound them go on meanwhile.
    #[serde(default)]
    clock_runs: bool,
    /// fail: what the workflows are told.
    message: Option<String>,
    /// set_policy: the policy.
    policy: Option<Value>,
    /// pause of runs: their open calls are paused, too.
    #[serde(default)]
    with_calls: bool,
    /// reset: where they go on from.
    to: Option<Place>,
    #[serde(default)]
    drop_signals: bool,
    #[serde(default)]
    even_if_undone: bool,
    /// Who does it. It is recorded beside the name of the token.
    by: Option<String>,
    reason: Option<String>,
}

/// Which open calls.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Calls {
    /// Of the instances that have these ids now.
    #[serde(default)]
    ids: Vec<String>,
    workflow: Option<String>,
    activity: Option<String>,
    /// waiting, retrying, running or paused
    status: Option<String>,
    /// The type of the last failure, or one that it descends from.
    failure_type: Option<String>,
    failure_code: Option<String>,
    /// A name and a value.
    tag: Option<(String, String)>,
    queue: Option<String>,
    started_since_ms: Option<i64>,
    failed_since_ms: Option<i64>,
    paused_since_ms: Option<i64>,
    fingerprint: Option<String>,
}

/// Which instances.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Runs {
    /// Those that have these ids now.
    #[serde(default)]
    ids: Vec<String>,
    workflow: Option<String>,
    #[serde(default)]
    status: Vec<String>,
    /// Those with an open call of this activity, or of which one failed last.
    activity: Option<String>,
    /// The type of the last failure, or one that it descends from.
    failure_type: Option<String>,
    failure_code: Option<String>,
    /// Those with a call that waits to be tried again.
    #[serde(default)]
    retrying: bool,
    /// A name and a value.
    tag: Option<(String, String)>,
    /// The queue that they were started on.
    queue: Option<String>,
    started_since_ms: Option<i64>,
    failed_since_ms: Option<i64>,
}

impl Calls {
    fn filter(self, all: bool) -> Result<CallFilter, Problem> {
        let status = self.status.map(|name| {
            CallStatus::named(&name).ok_or_else(|| {
                Problem::invalid(format!(
                    "calls.status={name:?}: write waiting, retrying, running or paused"
                ))
            })
        });
        let filter = CallFilter {
            ids: self.ids,
            workflow: self.workflow,
            activity: self.activity,
            status: status.transpose()?,
            failure_type: self.failure_type,
            failure_code: self.failure_code,
            tag: self.tag,
            queue: self.queue,
            started_since: self.started_since_ms.map(Timestamp::from_millis),
            failed_since: self.failed_since_ms.map(Timestamp::from_millis),
            paused_since: self.paused_since_ms.map(Timestamp::from_millis),
            fingerprint: self.fingerprint,
            until: None,
        };
        match filter.is_empty() && !all {
            true => {
                let what = "calls: name at least one thing that they have in common, or `all`";
                Err(Problem::invalid(what))
            }
            false => Ok(filter),
        }
    }
}

impl Runs {
    fn filter(self, all: bool) -> Result<RunFilter, Problem> {
        let status = |name: &String| {
            let unknown =
                || Problem::invalid(format!("runs.status={name:?}: there is no such one"));
            Status::named(name).ok_or_else(unknown)
        };
        let filter = RunFilter {
            status: self.status.iter().map(status).collect::<Result<_, _>>()?,
            ids: self.ids,
            workflow: self.workflow,
            activity: self.activity,
            failure_type: self.failure_type,
            failure_code: self.failure_code,
            retrying: self.retrying,
            tag: self.tag,
            queue: self.queue,
            started_since: self.started_since_ms.map(Timestamp::from_millis),
            failed_since: self.failed_since_ms.map(Timestamp::from_millis),
        };
        match filter == RunFilter::default() && !all {
            true => {
                let what = "runs: name at least one thing that they have in common, or `all`";
                Err(Problem::invalid(what))
            }
            false => Ok(filter),
        }
    }
}

/// What would be changed.
#[derive(Serialize, ToSchema)]
pub(super) struct Preview {
    count: u64,
    /// What they are: call, instance or dead letter; null where there are none.
    of: Option<String>,
    /// The first of them: calls and letters by the name of the call, instances by id.
    first: Vec<String>,
    /// The same for people, one by one: `order-42 charge#6`.
    told: Vec<String>,
}

/// What a request for a job is answered with.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Begun {
    Preview(Preview),
    Job(Box<Job>),
}

/// How a job is asked for, whatever it does.
#[derive(Debug, Default)]
pub(super) struct Asks {
    pub(super) caller: Caller,
    pub(super) by: Option<String>,
    pub(super) key: Option<String>,
    pub(super) dry_run: bool,
    pub(super) expect_count: Option<u64>,
    pub(super) reason: Option<String>,
}

impl Asks {
    /// Counts what it would be done to, or begins it: once for a key, and only where as many match
    /// as were expected.
    pub(super) async fn begin(
        self,
        api: &Api,
        mut act: BulkAct,
    ) -> Result<(StatusCode, Json<Begun>), Problem> {
        let job = |job: &BulkJob| Json(Begun::Job(Box::new(Job::from(job))));
        if let Some(key) = &self.key
            && let Some(before) = api.client.bulk_job(key).await?
        {
            return match act.asks_the_same_as(&before) {
                true => Ok((StatusCode::OK, job(&before))),
                false => Err(Problem::another_body(key)),
            };
        }
        if self.dry_run || self.expect_count.is_some() {
            let found = act.clone().dry_run().await?;
            if self.dry_run {
                return Ok((StatusCode::OK, Json(Begun::Preview(Preview::of(&found)))));
            }
            if let Some(expected) = self.expect_count.filter(|expected| *expected != found.count) {
                return Err(Problem::conflict(format!(
                    "{expected} were expected, and it would be done to {}; look again",
                    found.count
                )));
            }
        }
        act = act.by(self.caller.signs(self.by.clone()));
        if let Some(reason) = &self.reason {
            act = act.reason(reason);
        }
        if let Some(key) = self.key {
            act = act.request_id(key);
        }
        let begun = act.start().await?;
        let did = Did::new("bulk", &begun.id, format!("began a job: {}", begun.action.name()));
        api.record(&self.caller, self.by, self.reason, did).await;
        Ok((StatusCode::ACCEPTED, job(&begun)))
    }
}

impl Preview {
    fn of(found: &BulkPreview) -> Self {
        let calls = found.calls.iter().map(|matched| {
            let (task, id) = (&matched.task, &matched.instance);
            ("call", call_name(task.call), format!("{id} {}#{}", task.name, task.call.seq))
        });
        let letters = found.letters.iter().map(|letter| {
            let name = format!("{} {}#{}", letter.instance, letter.activity, letter.call.seq);
            ("dead letter", call_name(letter.call), name)
        });
        let runs = found.runs.iter().map(|row| ("instance", row.id.clone(), row.id.clone()));
        let mut preview =
            Preview { count: found.count, of: None, first: Vec::new(), told: Vec::new() };
        for (of, name, told) in calls.chain(letters).chain(runs) {
            preview.of = Some(of.to_string());
            preview.first.push(name);
            preview.told.push(told);
        }
        preview
    }
}

impl NewJob {
    /// The job that is asked for, without its reason.
    fn act(&mut self, client: &Client) -> Result<BulkAct, Problem> {
        let act = match (self.calls.take(), self.runs.take()) {
            (Some(calls), None) => self.on_calls(client, calls.filter(self.all)?)?,
            (None, Some(runs)) => self.on_runs(client, runs.filter(self.all)?)?,
            _ => return Err(Problem::invalid("a bulk job: give either `calls` or `runs`")),
        };
        Ok(self.with_options(act))
    }

    fn on_calls(&self, client: &Client, filter: CallFilter) -> Result<BulkAct, Problem> {
        let calls = client.calls(filter);
        Ok(match (self.action.as_str(), &self.message, &self.policy) {
            ("retry", None, None) => calls.retry(),
            ("pause", None, None) => calls.pause(),
            ("resume", None, None) => calls.resume(),
            ("fail", Some(message), None) => calls.fail(message),
            ("set_policy", None, Some(new)) => calls.set_policy(policy(new)?),
            (action, ..) => {
                return Err(Problem::invalid(format!(
                    "{action:?} on calls: write retry, pause, resume, fail with a `message`, or \
                     set_policy with a `policy`"
                )));
            }
        })
    }

    fn on_runs(&mut self, client: &Client, filter: RunFilter) -> Result<BulkAct, Problem> {
        let runs = client.runs(filter);
        Ok(match (self.action.as_str(), self.to.take()) {
            ("pause", None) => runs.pause(),
            ("resume", None) => runs.resume(),
            ("restart", None) => runs.restart(),
            ("reset", Some(to)) => runs.reset(to.into()),
            (action, _) => {
                return Err(Problem::invalid(format!(
                    "{action:?} on runs: write pause, resume, restart, or reset with `to`"
                )));
            }
        })
    }

    fn with_options(&self, mut act: BulkAct) -> BulkAct {
        if self.reset {
            act = act.reset();
        }
        if self.clock_runs {
            act = act.clock_runs();
        }
        if self.with_calls {
            act = act.calls();
        }
        if self.drop_signals {
            act = act.drop_signals();
        }
        if self.even_if_undone {
            act = act.even_if_undone();
        }
        if let Some(limit) = self.limit {
            act = act.limit(limit);
        }
        if let Some(ms) = self.spread_ms {
            act = act.spread(Duration::from_millis(ms));
        }
        if let Some(first) = self.first {
            act = act.first(first);
        }
        act
    }
}

/// Does one thing to many calls or runs
///
/// It is a job that is stored, and goes on whatever crashes: each call is touched at most once.
/// With `dry_run` it only counts. What starts later than the job is left alone.
#[utoipa::path(
    post, path = "/api/v1/bulk", tag = "decisions",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a repeat one request")),
    request_body = NewJob,
    responses((status = OK, body = Begun), (status = ACCEPTED, body = Begun))
)]
async fn begin(
    State(api): State<Api>,
    caller: Caller,
    RequestKey(key): RequestKey,
    Body(mut new): Body<NewJob>,
) -> Result<(StatusCode, Json<Begun>), Problem> {
    let act = new.act(&api.client)?;
    let NewJob { dry_run, expect_count, by, reason, .. } = new;
    Asks { caller, by, key, dry_run, expect_count, reason }.begin(&api, act).await
}

/// Stops an action on many; what it has asked for is carried out
#[utoipa::path(
    delete, path = "/api/v1/bulk/{id}", tag = "decisions",
    params(("id" = String, Path, description = "The id of the job"), Why),
    responses((status = OK, body = Done))
)]
async fn stop(
    State(api): State<Api>,
    Path(id): Path<String>,
    caller: Caller,
    Query(why): Query<Why>,
) -> Result<Json<Done>, Problem> {
    match api.client.stop_bulk(&id, caller.signs(why.by)).await? {
        true => {
            let told = "stopped; what it has asked for is carried out";
            api.record(&caller, None, None, Did::new("bulk", &id, told)).await;
            Ok(Done::changed(told))
        }
        false => Err(Problem::conflict("it was over, or stopped before")),
    }
}
