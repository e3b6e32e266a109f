//! What operators do to calls and runs.

use pyo3::prelude::*;
use resurgam::{Act, Client, ResetTo, Seq};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::ask::{spawn, value};
use crate::settings::{mistake, read_policy};

/// An action, as the package describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    action: String,
    /// The call that it is about; the run, without one.
    #[serde(default)]
    call: Option<String>,
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    value: Value,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    policy: Option<Value>,
    /// Also the calls of the run.
    #[serde(default)]
    calls: bool,
    #[serde(default)]
    drop_signals: bool,
    /// Counts failures from 0 again.
    #[serde(default)]
    reset: bool,
    /// The times that bound the call go on while it is paused.
    #[serde(default)]
    clock_runs: bool,
    /// Where a run is reset to: the number of an event, an activity, or the last failure.
    #[serde(default)]
    to: Value,
    request_id: String,
}

impl Wanted {
    fn check(&self) -> PyResult<()> {
        if let Some(policy) = &self.policy {
            read_policy(policy)?;
        }
        match (self.call.is_some(), self.action.as_str()) {
            (true, "retry" | "pause" | "resume" | "complete" | "fail")
            | (false, "pause" | "resume" | "restart" | "reset") => Ok(()),
            (true, "set_policy") if self.policy.is_some() => Ok(()),
            (_, other) => Err(mistake(format!("there is no action {other}"))),
        }
    }

    fn act(&self, client: &Client, id: &str) -> Act {
        let mut act = match &self.call {
            Some(call) => {
                let call = client.call(id, call.as_str());
                match self.action.as_str() {
                    "retry" => call.retry(),
                    "pause" => call.pause(),
                    "resume" => call.resume(),
                    "complete" => call.complete(&self.value),
                    "set_policy" => {
                        let policy = self.policy.as_ref().and_then(|it| read_policy(it).ok());
                        call.set_policy(policy.expect("was checked when it was read"))
                    }
                    _ => call.fail(self.message.clone().unwrap_or_default()),
                }
            }
            None => {
                let run = client.run(id);
                match self.action.as_str() {
                    "pause" => run.pause(),
                    "resume" => run.resume(),
                    "restart" => run.restart(),
                    _ => run.reset(match &self.to {
                        Value::Number(seq) => ResetTo::Event(Seq(seq.as_u64().unwrap_or(0))),
                        Value::String(activity) => ResetTo::Before(activity.clone()),
                        _ => ResetTo::LastFailure,
                    }),
                }
            }
        };
        if let Some(by) = &self.by {
            act = act.by(by);
        }
        if let Some(reason) = &self.reason {
            act = act.reason(reason);
        }
        if self.calls {
            act = act.calls();
        }
        if self.drop_signals {
            act = act.drop_signals();
        }
        if self.reset {
            act = act.reset();
        }
        if self.clock_runs {
            act = act.clock_runs();
        }
        act.request_id(&self.request_id)
    }
}

#[pymethods]
impl App {
    /// Does something to a run or a call of it; the answer says what came of it.
    fn act(&self, token: u64, id: String, action: &str) -> PyResult<()> {
        let wanted: Wanted = serde_json::from_str(action).map_err(mistake)?;
        wanted.check()?;
        let target = self.target.clone();
        spawn(&self.port, token, async move {
            let what = format!("{} {id}", wanted.action);
            let acted = target.ask(&what, |client: &Client| wanted.act(client, &id)).await;
            value(acted.map(|acted| json!({"changed": acted.changed(), "text": acted.to_string()})))
        });
        Ok(())
    }
}
