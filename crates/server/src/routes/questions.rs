//! Questions about policies: what `resurgam policy` answers, as the same JSON.
//!
//! They change nothing, so they need the role read although they are asked with POST: a policy is
//! too long for an address.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use resurgam::gate::Gate;
use resurgam::retry::{CheckedPolicy, RetryPolicy};
use resurgam_core::config::Problems;
use resurgam_core::retry::dialect::Dialect;
use resurgam_policy::answer::answer;
use resurgam_policy::check::{Mistake, Verdict};
use resurgam_policy::convert::Converted;
use resurgam_policy::explain::Explanation;
use resurgam_policy::simulate::{SECOND, Simulated, Told, World, begins_at};
use resurgam_policy::what_if::{Compared, Range};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Semaphore;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use crate::api::Api;
use crate::extract::Body;
use crate::problem::Problem;
use crate::wire::{self, Page};

/// How many questions are answered at once.
const QUESTIONS: usize = 10_000;

/// How many instances are looked at for a `what-if`.
const INSTANCES: usize = 10_000;

/// How many calls of a simulation there are at most: a core is busy with them for seconds.
const CALLS: f64 = 1e7;

/// One at a time is worked on that takes a core for seconds.
static HARD: Semaphore = Semaphore::const_new(1);

/// How far back a `what-if` looks unless somebody says so.
const WEEK_MS: u64 = 7 * 24 * 3_600_000;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(check))
        .routes(routes!(explain))
        .routes(routes!(eval))
        .routes(routes!(convert))
        .routes(routes!(what_if))
        .routes(routes!(simulate))
}

/// A policy, and in whose words it is written.
#[derive(Debug, Deserialize, ToSchema)]
struct Written {
    /// A configuration, or the name of a preset.
    policy: Value,
    /// canonical, edda, exosphere, rappel-ir and the like; canonical unless given
    from: Option<String>,
}

/// A policy that was read.
struct Loaded {
    policy: CheckedPolicy,
    /// What was accepted and has no effect.
    notes: Vec<String>,
}

fn dialect(what: &str, name: Option<&str>) -> Result<Dialect, Problem> {
    let name = name.unwrap_or(Dialect::Canonical.name());
    Dialect::named(name).ok_or_else(|| {
        let known = Dialect::ALL.map(Dialect::name).join(", ");
        Problem::invalid(format!("{what}={name:?}: write one of {known}"))
    })
}

impl Written {
    /// Reads it; the inner error is what is wrong with the policy itself.
    fn read(&self) -> Result<Result<Loaded, Problems>, Problem> {
        let dialect = dialect("from", self.from.as_deref())?;
        let read = || {
            let imported = dialect.import(&self.policy)?;
            Ok(Loaded { policy: imported.policy.check()?, notes: imported.notes })
        };
        Ok(read())
    }

    fn load(&self) -> Result<Loaded, Problem> {
        self.read()?.map_err(|problems| Problem::of_input("policy", &problems))
    }
}

/// A policy that is to be checked.
#[derive(Debug, Deserialize, ToSchema)]
struct ToCheck {
    #[serde(flatten)]
    written: Written,
    /// A policy that has lints is refused.
    #[serde(default)]
    strict: bool,
}

/// Checks a policy: errors, and lints about what is probably not meant
///
/// A policy that is refused is an answer: `ok` is false.
#[utoipa::path(
    post, path = "/api/v1/policies/check", tag = "policies", request_body = ToCheck,
    responses((status = OK, body = serde_json::Value))
)]
async fn check(Body(asked): Body<ToCheck>) -> Reply<wire::Json> {
    Ok(Json(match asked.written.read()? {
        Ok(Loaded { policy, notes }) => {
            wire::json(&Verdict::<Mistake>::of(&policy, &notes, asked.strict))
        }
        Err(problems) => {
            let mistakes: Vec<Mistake> = problems.iter().map(Mistake::from).collect();
            wire::json(&Verdict::refused(&mistakes))
        }
    }))
}

/// A policy that is to be explained.
#[derive(Debug, Deserialize, ToSchema)]
struct ToExplain {
    #[serde(flatten)]
    written: Written,
    /// How long each attempt is taken to last.
    #[serde(default)]
    attempt_time_ms: u64,
}

/// What a policy does: a sentence, its delays, the outage that it bridges, its lints
#[utoipa::path(
    post, path = "/api/v1/policies/explain", tag = "policies", request_body = ToExplain,
    responses((status = OK, body = serde_json::Value))
)]
async fn explain(State(api): State<Api>, Body(asked): Body<ToExplain>) -> Reply<wire::Json> {
    let Loaded { policy, notes } = asked.written.load()?;
    let attempt_time = Duration::from_millis(asked.attempt_time_ms);
    let told = move || wire::json(&Explanation::of(&policy, &notes, attempt_time));
    let told = beside(&api, told);
    Ok(Json(told.await?))
}

/// Questions about policies.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ToEval {
    /// Such as `{"dialect": "edda", "kind": "delay", "config": {}, "retry_index": 2}`; 10,000 at
    /// most.
    questions: Vec<Value>,
}

/// Answers questions about policies: one answer for each, in their order
#[utoipa::path(
    post, path = "/api/v1/policies/eval", tag = "policies", request_body = ToEval,
    responses((status = OK, body = Page<serde_json::Value>))
)]
async fn eval(
    State(api): State<Api>,
    Body(ToEval { questions }): Body<ToEval>,
) -> Reply<wire::Json> {
    if questions.len() > QUESTIONS {
        let many = questions.len();
        let detail = format!("questions: {many} are asked at once; {QUESTIONS} at most");
        return Err(Problem::invalid(detail));
    }
    #[derive(Serialize)]
    struct Answers {
        items: Vec<wire::Json>,
        cursor: Option<String>,
    }
    let answers = beside(&api, move || {
        let items = questions.iter().map(|question| wire::json(&answer(question))).collect();
        wire::json(&Answers { items, cursor: None })
    });
    Ok(Json(answers.await?))
}

/// A policy that is to be written in other words.
#[derive(Debug, Deserialize, ToSchema)]
struct ToConvert {
    #[serde(flatten)]
    written: Written,
    /// The dialect to write.
    to: String,
}

/// Writes a policy in another dialect, and lists what is lost
#[utoipa::path(
    post, path = "/api/v1/policies/convert", tag = "policies", request_body = ToConvert,
    responses((status = OK, body = serde_json::Value))
)]
async fn convert(Body(asked): Body<ToConvert>) -> Reply<wire::Json> {
    let to = dialect("to", Some(&asked.to))?;
    let Loaded { policy, notes } = asked.written.load()?;
    let exported = to.export(&policy);
    Ok(Json(wire::json(&Converted::of(&policy, &notes, to, &exported))))
}

/// A policy that recorded calls are to follow.
#[derive(Debug, Deserialize, ToSchema)]
struct ToCompare {
    #[serde(flatten)]
    written: Written,
    /// The activity whose calls are looked at.
    activity: String,
    /// How far back; a week unless given.
    since_ms: Option<u64>,
    /// How many instances are looked at, the newest first; 10,000 unless given, and at most.
    limit: Option<usize>,
}

/// What recorded calls of an activity would have come to under a policy
#[utoipa::path(
    post, path = "/api/v1/policies/what-if", tag = "policies", request_body = ToCompare,
    responses((status = OK, body = serde_json::Value))
)]
async fn what_if(State(api): State<Api>, Body(asked): Body<ToCompare>) -> Reply<wire::Json> {
    let Loaded { policy, .. } = asked.written.load()?;
    let since = Duration::from_millis(asked.since_ms.unwrap_or(WEEK_MS));
    let limit = asked.limit.unwrap_or(INSTANCES).min(INSTANCES);
    let range = Range { activity: asked.activity, since, limit };
    let _busy = api.client.handle().busy();
    let calls = range.recorded(&api.client).await?;
    let _turn = HARD.acquire().await;
    let compared = move || wire::json(&Compared::of(&range.activity, &calls, &policy));
    Ok(Json(beside(&api, compared).await?))
}

/// An outage that is to be simulated.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ToSimulate {
    /// A configuration, or the name of a preset; the default policy unless given.
    policy: Option<Value>,
    /// The dialect that it is written in.
    from: Option<String>,
    /// The settings of a gate before the dependency.
    gate: Option<Value>,
    /// How many calls are made each second.
    rate: f64,
    /// How many requests the dependency serves in a second.
    capacity: f64,
    /// How long the dependency is out.
    outage_ms: u64,
    /// How many calls are made at all; without, calls go on until nobody waits.
    calls: Option<f64>,
    /// How long calls are made before the outage; 20 s unless given.
    before_ms: Option<u64>,
    /// How far a second of the clock has passed when the outage begins; without, each number is the
    /// average over four such moments.
    phase_ms: Option<u64>,
    /// What refusing a request costs the dependency, where serving it costs 1; 0.3 unless given.
    refusal: Option<f64>,
    /// How many attempts run at once, on all nodes together; 256 unless given.
    slots: Option<usize>,
}

impl ToSimulate {
    /// The world without a gate, and behind it the one with it.
    fn worlds(&self) -> Result<Vec<World>, Problem> {
        let policy = match &self.policy {
            None => RetryPolicy::DEFAULT.check().expect("the default policy is one"),
            Some(policy) => {
                let written = Written { policy: policy.clone(), from: self.from.clone() };
                written.load()?.policy
            }
        };
        let gate = self.gate.as_ref().map(|gate| {
            Gate::from_value(gate).map_err(|problems| Problem::of_input("gate", &problems))
        });
        let positive = |name: &str, number: f64| match number > 0.0 && number <= 1e9 {
            true => Ok(number),
            false => Err(Problem::invalid(format!(
                "{name}={number}: write a number above 0 and up to 1e9"
            ))),
        };
        let (before, outage) = (
            Duration::from_millis(self.before_ms.unwrap_or(20_000)),
            Duration::from_millis(self.outage_ms),
        );
        let phase = Duration::from_millis(self.phase_ms.unwrap_or_default());
        if phase >= SECOND {
            return Err(Problem::invalid("phase_ms: write less than 1000"));
        }
        let refusal = self.refusal.unwrap_or(0.3);
        if !(0.0..=1.0).contains(&refusal) {
            return Err(Problem::invalid("refusal: write a number from 0 to 1"));
        }
        let rate = positive("rate", self.rate)?;
        let calls = self.calls.map(|calls| positive("calls", calls)).transpose()?;
        let without = World {
            policy,
            gate: None,
            rate,
            calls: calls.map(|calls| calls as u64),
            capacity: positive("capacity", self.capacity)?,
            refusal,
            before,
            outage,
            slots: self.slots.unwrap_or(256).max(1),
            phase: self.phase_ms.map_or(Duration::ZERO, |_| begins_at(phase, before)),
        };
        let most = calls.unwrap_or(rate * without.patience().as_secs_f64());
        if most > CALLS {
            let detail =
                format!("that may be {most:.0} calls; name fewer than {CALLS:.0} with `calls`");
            return Err(Problem::invalid(detail));
        }
        let with = gate.transpose()?.map(|gate| World { gate: Some(gate), ..without.clone() });
        Ok(std::iter::once(without).chain(with).collect())
    }
}

/// What an outage of a dependency costs under a policy, without a gate and with one
#[utoipa::path(
    post, path = "/api/v1/policies/simulate", tag = "policies", request_body = ToSimulate,
    responses((status = OK, body = serde_json::Value))
)]
async fn simulate(State(api): State<Api>, Body(asked): Body<ToSimulate>) -> Reply<wire::Json> {
    let worlds = asked.worlds()?;
    let outage = Duration::from_millis(asked.outage_ms);
    let _turn = HARD.acquire().await;
    let of = if asked.phase_ms.is_some() { Told::of } else { Told::over_phases };
    let told = beside(&api, move || {
        let told: Vec<Told> = worlds.iter().map(of).collect();
        wire::json(&Simulated { seconds_of_outage: outage.as_secs_f64(), told: &told })
    });
    Ok(Json(told.await?))
}

/// Works beside other requests: this takes a core for a while.
async fn beside<T: Send + 'static>(
    api: &Api,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let _busy = api.client.handle().busy();
    tokio::task::spawn_blocking(work).await.map_err(|_| {
        let detail = "the server is about to end, or the question was too hard for it";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, resurgam::Code::E8, detail)
    })
}
