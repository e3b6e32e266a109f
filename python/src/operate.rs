//! What operators do to gates, kinds of calls and many calls at once, and what they look at.

use std::time::Duration;

use pyo3::prelude::*;
use resurgam::gate::Gate;
use resurgam::{
    Acted, BulkAct, BulkJob, CallFilter, CallKey, Client, DeadLetter, DeadLetterFilter, GateAct,
    GateStatus, LetterState, PausedCall, PausedFilter, Result, RunFilter, RunKey, Seq, Uid,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::ask::{spawn, value};
use crate::attempt::seconds;
use crate::look;
use crate::settings::{mistake, read_policy};

/// What is wanted, as the package describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Wanted {
    Gate(OfGate),
    Gates,
    Holds,
    Policy { activity: String, policy: Option<Value>, by: Option<String>, reason: Option<String> },
    Policies,
    Bulk(Box<Bulk>),
    DeadLetters(Letters),
    Letter(OfLetter),
    PausedCalls(Letters),
    Actions { id: String },
    Export { id: String },
}

/// A change of a gate, or of a kind of calls.
#[derive(Clone, Debug, Deserialize)]
struct OfGate {
    change: String,
    key: String,
    settings: Option<Value>,
    lasting: Option<f64>,
    by: Option<String>,
    reason: Option<String>,
}

/// An action on everything that matches.
#[derive(Clone, Debug, Deserialize)]
struct Bulk {
    target: String,
    action: String,
    #[serde(default)]
    filter: Value,
    message: Option<String>,
    policy: Option<Value>,
    #[serde(default)]
    reset: bool,
    #[serde(default)]
    dry_run: bool,
    limit: Option<u64>,
    spread: Option<f64>,
    by: Option<String>,
    reason: Option<String>,
    request_id: String,
}

/// Which dead letters, or paused calls.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Letters {
    state: Option<String>,
    fingerprint: Option<String>,
    activity: Option<String>,
    since: Option<i64>,
    limit: usize,
}

/// What is done to one dead letter.
#[derive(Clone, Debug, Deserialize)]
struct OfLetter {
    action: String,
    call: String,
    #[serde(default)]
    as_new: bool,
    by: Option<String>,
    reason: Option<String>,
    request_id: String,
}

fn time(seconds: Option<f64>) -> Option<Duration> {
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// `UID.RUN.SEQ`
fn written(call: CallKey) -> String {
    format!("{}.{}.{}", call.run.uid, call.run.run, call.seq.0)
}

fn read_call(text: &str) -> Option<CallKey> {
    let mut parts = text.split('.');
    let uid: Uid = parts.next()?.parse().ok()?;
    let (run, seq) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(CallKey { run: RunKey { uid, run }, seq: Seq(seq) })
}

impl Wanted {
    /// What is wrong is said where it was written.
    fn check(&self) -> PyResult<()> {
        match self {
            Wanted::Gate(wanted) => {
                if let Some(settings) = &wanted.settings {
                    Gate::from_value(settings).map_err(mistake)?;
                }
            }
            Wanted::Policy { policy: Some(policy), .. } => drop(read_policy(policy)?),
            Wanted::Bulk(bulk) => bulk.check()?,
            Wanted::DeadLetters(of) => drop(of.state()?),
            Wanted::Letter(of) if read_call(&of.call).is_none() => {
                return Err(mistake(format!("call={:?}: not the call of a dead letter", of.call)));
            }
            _ => {}
        }
        Ok(())
    }

    async fn done(self, client: Client) -> Result<Value> {
        match self {
            Wanted::Gate(wanted) => wanted.act(&client).await.map(|acted| answer(&acted)),
            Wanted::Gates => {
                let now = client.handle().now();
                let gates = client.gates().await?;
                Ok(gates.iter().map(|gate| gate_status(gate, now)).collect())
            }
            Wanted::Holds => {
                let holds = client.holds().await?;
                let told = |hold: &resurgam::Hold| {
                    json!({"kind": hold.kind.name(), "name": hold.name, "by": hold.by,
                           "reason": hold.reason, "since": seconds(hold.since)})
                };
                Ok(holds.iter().map(told).collect())
            }
            Wanted::Policy { activity, policy, by, reason } => {
                let policy = policy.as_ref().and_then(|policy| read_policy(policy).ok());
                let mut act = match policy {
                    Some(policy) => client.set_policy(activity, policy),
                    None => client.unset_policy(activity),
                };
                act = by.into_iter().fold(act, resurgam::SetPolicy::by);
                act = reason.into_iter().fold(act, resurgam::SetPolicy::reason);
                act.await.map(|acted| answer(&acted))
            }
            Wanted::Policies => {
                let told = |row: &resurgam::PolicyOverride| {
                    let policy = row
                        .policy
                        .as_deref()
                        .map(|text| serde_json::from_str::<Value>(text).unwrap_or_default());
                    json!({"activity": row.activity, "policy": policy, "by": row.by,
                           "reason": row.reason})
                };
                Ok(client.policies().await?.iter().map(told).collect())
            }
            Wanted::Bulk(bulk) => bulk.done(&client).await,
            Wanted::DeadLetters(of) => {
                let found = client.dead_letters(of.of_letters()).await?;
                Ok(found.iter().map(letter).collect())
            }
            Wanted::Letter(of) => of.act(&client).await.map(|acted| answer(&acted)),
            Wanted::PausedCalls(of) => {
                let found = client.paused_calls(of.of_paused()).await?;
                Ok(found.iter().map(paused).collect())
            }
            Wanted::Actions { id } => {
                let told = |row: &resurgam::ActionRow| {
                    json!({"action": row.request.action.name(), "by": row.request.by,
                           "reason": row.request.reason, "at": seconds(row.at),
                           "seq": (!row.is_on_run()).then_some(row.call.seq.0),
                           "answer": row.answer.text})
                };
                Ok(client.actions(&id).await?.iter().map(told).collect())
            }
            Wanted::Export { id } => Ok(client.export_history(&id).await?.into()),
        }
    }
}

fn answer(acted: &Acted) -> Value {
    json!({"changed": acted.changed(), "text": acted.to_string()})
}

fn gate_status(gate: &GateStatus, now: resurgam::Timestamp) -> Value {
    json!({
        "key": gate.key,
        "standing": gate.state.standing().name(),
        "text": gate.told_at(now),
        "settings": gate.settings,
        "settings_by": gate.settings_by,
        "due": gate.due,
        "first_due": gate.first_due.map(seconds),
    })
}

fn letter(found: &DeadLetter) -> Value {
    json!({
        "call": written(found.call),
        "instance": found.instance,
        "workflow": found.workflow,
        "activity": found.activity,
        "queue": found.queue,
        "input": look::raw(&found.input),
        "failure": found.failure,
        "why": found.why,
        "attempts": found.attempts,
        "at": seconds(found.at),
        "fingerprint": found.fingerprint,
        "error": found.error,
        "state": found.state.name(),
    })
}

fn paused(found: &PausedCall) -> Value {
    let pause = found.task.progress.paused.as_deref();
    json!({
        "instance": found.instance,
        "workflow": found.workflow,
        "activity": found.task.name,
        "seq": found.task.call.seq.0,
        "since": seconds(found.since()),
        "by": pause.and_then(|pause| pause.by.clone()),
        "reason": pause.and_then(|pause| pause.reason.clone()),
    })
}

fn job(found: &BulkJob) -> Value {
    json!({
        "id": found.id,
        "state": found.state().name(),
        "matched": found.counts.matched,
        "changed": found.counts.changed,
        "refused": found.counts.refused,
        "error": found.error,
    })
}

impl OfGate {
    fn act(self, client: &Client) -> GateAct {
        let OfGate { change, key, settings, lasting, by, reason } = self;
        let mut act = match change.as_str() {
            "shut" => client.shut_gate(key),
            "open" => client.open_gate(key),
            "auto" => client.auto_gate(key),
            "pause_activity" => client.pause_activity(key),
            "resume_activity" => client.resume_activity(key),
            "pause_queue" => client.pause_queue(key),
            "resume_queue" => client.resume_queue(key),
            _ => match settings.and_then(|settings| Gate::from_value(&settings).ok()) {
                Some(gate) => client.set_gate(key, gate),
                None => client.unset_gate(key),
            },
        };
        act = by.into_iter().fold(act, GateAct::by);
        act = reason.into_iter().fold(act, GateAct::reason);
        time(lasting).into_iter().fold(act, GateAct::lasting)
    }
}

impl Letters {
    fn state(&self) -> PyResult<LetterState> {
        let Some(name) = &self.state else { return Ok(LetterState::Open) };
        LetterState::named(name)
            .ok_or_else(|| mistake(format!("state={name:?}: open, redriven or discarded")))
    }

    fn of_letters(&self) -> DeadLetterFilter {
        DeadLetterFilter {
            state: self.state().unwrap_or_default(),
            fingerprint: self.fingerprint.clone(),
            activity: self.activity.clone(),
            since: self.since.map(resurgam::Timestamp::from_millis),
            limit: self.limit,
            ..DeadLetterFilter::default()
        }
    }

    fn of_paused(&self) -> PausedFilter {
        PausedFilter {
            fingerprint: self.fingerprint.clone(),
            activity: self.activity.clone(),
            since: self.since.map(resurgam::Timestamp::from_millis),
            after: None,
            limit: self.limit,
        }
    }
}

impl OfLetter {
    async fn act(self, client: &Client) -> Result<Acted> {
        let OfLetter { action, call, as_new, by, reason, request_id } = self;
        let call = read_call(&call).expect("was checked when it was read");
        if action == "discard" {
            let act = by.into_iter().fold(client.discard_one(call), resurgam::DiscardOne::by);
            return reason.into_iter().fold(act, resurgam::DiscardOne::reason).await;
        }
        let mut act = client.redrive(call).request_id(request_id);
        if as_new {
            act = act.as_new();
        }
        act = by.into_iter().fold(act, resurgam::Redrive::by);
        reason.into_iter().fold(act, resurgam::Redrive::reason).await
    }
}

impl Bulk {
    fn check(&self) -> PyResult<()> {
        if let Some(policy) = &self.policy {
            read_policy(policy)?;
        }
        match self.target.as_str() {
            "calls" => drop(self.filter::<CallFilter>()?),
            _ => drop(self.filter::<RunFilter>()?),
        }
        match (self.target.as_str(), self.action.as_str()) {
            ("calls", "retry" | "pause" | "resume" | "fail" | "set_policy")
            | ("runs", "pause" | "resume" | "restart" | "reset")
            | ("letters", "redrive" | "discard") => Ok(()),
            (target, action) => Err(mistake(format!("{target} cannot {action}"))),
        }
    }

    fn filter<T: serde::de::DeserializeOwned + Default>(&self) -> PyResult<T> {
        if self.filter.is_null() || self.target == "letters" {
            return Ok(T::default());
        }
        serde_json::from_value(self.filter.clone()).map_err(mistake)
    }

    fn act(&self, client: &Client) -> BulkAct {
        match self.target.as_str() {
            "calls" => {
                let calls = client.calls(self.filter().unwrap_or_default());
                let policy = self.policy.as_ref().and_then(|policy| read_policy(policy).ok());
                match (self.action.as_str(), policy) {
                    ("retry", _) => calls.retry(),
                    ("pause", _) => calls.pause(),
                    ("resume", _) => calls.resume(),
                    ("set_policy", Some(policy)) => calls.set_policy(policy),
                    _ => calls.fail(self.message.clone().unwrap_or_default()),
                }
            }
            "runs" => {
                let runs = client.runs(self.filter().unwrap_or_default());
                match self.action.as_str() {
                    "pause" => runs.pause(),
                    "resume" => runs.resume(),
                    "restart" => runs.restart(),
                    _ => runs.reset(resurgam::ResetTo::LastFailure),
                }
            }
            _ => {
                let of: Letters = serde_json::from_value(self.filter.clone()).unwrap_or_default();
                match self.action.as_str() {
                    "redrive" => client.redrive_all(of.of_letters()),
                    _ => client.discard(of.of_letters()),
                }
            }
        }
    }

    async fn done(&self, client: &Client) -> Result<Value> {
        let mut act = self.act(client).request_id(&self.request_id);
        if self.reset {
            act = act.reset();
        }
        act = self.limit.into_iter().fold(act, BulkAct::limit);
        act = time(self.spread).into_iter().fold(act, BulkAct::spread);
        act = self.by.clone().into_iter().fold(act, BulkAct::by);
        act = self.reason.clone().into_iter().fold(act, BulkAct::reason);
        if self.dry_run {
            let preview = act.dry_run().await?;
            let mut first: Vec<String> = Vec::new();
            first.extend(preview.calls.iter().map(|call| call.instance.clone()));
            first.extend(preview.runs.iter().map(|row| row.id.clone()));
            first.extend(preview.letters.iter().map(|letter| letter.instance.clone()));
            return Ok(json!({"matched": preview.count, "instances": first}));
        }
        act.await.map(|done| job(&done))
    }
}

#[pymethods]
impl App {
    /// Does what operators do, or looks at what they look at.
    fn operate(&self, token: u64, wanted: &str) -> PyResult<()> {
        let wanted: Wanted = serde_json::from_str(wanted).map_err(mistake)?;
        wanted.check()?;
        let target = self.target.clone();
        spawn(&self.port, token, async move {
            let ask = |client: &Client| {
                let (wanted, client) = (wanted.clone(), client.clone());
                Box::pin(async move { wanted.done(client).await })
            };
            value(target.ask("do what an operator wants", ask).await)
        });
        Ok(())
    }
}
