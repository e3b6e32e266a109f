//! Options and policies that come as JSON.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use resurgam::retry::RetryPolicy;
use resurgam::{IfExists, ParentClose};
use resurgam_core::command::{CallOptions, Settings};
use resurgam_core::gate::KeyTemplate;
use resurgam_core::retry::dialect::Dialect;
use resurgam_sdk::ActivityOptions;
use serde::Deserialize;
use serde_json::Value;

/// What somebody wrote that makes no sense.
pub(crate) fn mistake(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Options of a call, an activity or a start. Times are seconds.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Given {
    retry: Option<Value>,
    queue: Option<String>,
    timeout: Option<f64>,
    total_timeout: Option<f64>,
    queue_timeout: Option<f64>,
    heartbeat_timeout: Option<f64>,
    /// The key of a gate, or a template over the arguments.
    gate: Option<String>,
    /// The policy of what undoes the call.
    compensation_retry: Option<Value>,
    run_timeout: Option<f64>,
    delay: Option<f64>,
    max_concurrent: Option<usize>,
    pub(crate) priority: Option<i32>,
    pub(crate) tags: std::collections::BTreeMap<String, String>,
    pub(crate) request_id: Option<String>,
    pub(crate) if_exists: Option<String>,
    parent_close: Option<String>,
    pub(crate) id: Option<String>,
}

fn time(what: &str, seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let read = |seconds| {
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| mistake(format!("{what}={seconds}: not a time in seconds")))
    };
    seconds.map(read).transpose()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A policy in its JSON form.
pub(crate) fn read_policy(value: &Value) -> PyResult<RetryPolicy> {
    let policy = RetryPolicy::from_value(value).map_err(mistake)?;
    policy.check().map_err(mistake)?;
    Ok(policy)
}

impl Given {
    pub(crate) fn read(text: Option<&str>) -> PyResult<Self> {
        text.map_or_else(
            || Ok(Given::default()),
            |text| serde_json::from_str(text).map_err(mistake),
        )
    }

    pub(crate) fn policy(&self) -> PyResult<Option<RetryPolicy>> {
        self.retry.as_ref().map(read_policy).transpose()
    }

    pub(crate) fn queue(&self) -> Option<String> {
        self.queue.clone()
    }

    /// As options of a call.
    pub(crate) fn of_call(&self) -> PyResult<CallOptions> {
        Ok(CallOptions {
            retry: self.policy()?.map(Box::new),
            queue: self.queue.clone(),
            timeout: time("timeout", self.timeout)?,
            total_timeout: time("total_timeout", self.total_timeout)?,
            queue_timeout: time("queue_timeout", self.queue_timeout)?,
            heartbeat_timeout: time("heartbeat_timeout", self.heartbeat_timeout)?,
            gate: self.gate()?,
        })
    }

    /// The gate of a call, as it is written.
    fn gate(&self) -> PyResult<Option<String>> {
        let wrong = |key: &str, why: String| mistake(format!("gate={key:?}: it {why}"));
        if let Some(text) = &self.gate {
            KeyTemplate::parse(text).map_err(|why| wrong(text, why))?;
        }
        Ok(self.gate.clone())
    }

    /// The policy of what undoes the call.
    pub(crate) fn compensation_policy(&self) -> PyResult<Option<RetryPolicy>> {
        self.compensation_retry.as_ref().map(read_policy).transpose()
    }

    /// As what holds for all calls of an activity.
    pub(crate) fn of_activity(&self) -> PyResult<ActivityOptions> {
        let of_call = self.of_call()?;
        let CallOptions { retry, queue, timeout, total_timeout, .. } = of_call;
        let CallOptions { queue_timeout, heartbeat_timeout, gate, .. } = of_call;
        Ok(ActivityOptions {
            retry: retry.map(|policy| *policy),
            queue,
            timeout,
            total_timeout,
            queue_timeout,
            heartbeat_timeout,
            max_concurrent: self.max_concurrent,
            gate,
        })
    }

    /// As what holds for an instance.
    pub(crate) fn of_instance(&self) -> PyResult<Settings> {
        Ok(Settings {
            retry: self.policy()?.map(|policy| policy.to_stored()),
            run_timeout_ms: time("run_timeout", self.run_timeout)?.map(millis),
            total_timeout_ms: time("total_timeout", self.total_timeout)?.map(millis),
            delay_ms: time("delay", self.delay)?.map(millis),
            parent_close: None,
        })
    }

    pub(crate) fn delay(&self) -> PyResult<Option<Duration>> {
        time("delay", self.delay)
    }

    pub(crate) fn run_timeout(&self) -> PyResult<Option<Duration>> {
        time("run_timeout", self.run_timeout)
    }

    pub(crate) fn total_timeout(&self) -> PyResult<Option<Duration>> {
        time("total_timeout", self.total_timeout)
    }

    pub(crate) fn if_exists(&self) -> PyResult<IfExists> {
        Ok(match self.if_exists.as_deref() {
            None | Some("refuse") => IfExists::Refuse,
            Some("use_running") => IfExists::UseRunning,
            Some("replace_closed") => IfExists::ReplaceClosed,
            Some("use_running_or_replace") => IfExists::UseRunningOrReplace,
            Some(other) => {
                return Err(mistake(format!(
                    "if_exists={other:?}: refuse, use_running, replace_closed or \
                     use_running_or_replace"
                )));
            }
        })
    }

    pub(crate) fn parent_close(&self) -> PyResult<ParentClose> {
        Ok(match self.parent_close.as_deref() {
            None | Some("cancel") => ParentClose::Cancel,
            Some("terminate") => ParentClose::Terminate,
            Some("abandon") => ParentClose::Abandon,
            Some("detached") => ParentClose::Detached,
            Some(other) => {
                return Err(mistake(format!(
                    "parent_close={other:?}: cancel, terminate, abandon or detached"
                )));
            }
        })
    }
}

/// Checks a policy; answers with its full form as JSON. The error says everything that is wrong.
#[pyfunction]
pub(crate) fn check_policy(json: &str) -> PyResult<String> {
    let value = serde_json::from_str(json).map_err(mistake)?;
    serde_json::to_string(&read_policy(&value)?).map_err(mistake)
}

/// A policy in the words of another system: in ours as JSON, and what of it has no effect.
#[pyfunction]
pub(crate) fn import_policy(dialect: &str, json: &str) -> PyResult<(String, Vec<String>)> {
    let known = Dialect::named(dialect).or(match dialect {
        "rappel" => Some(Dialect::RappelPy),
        _ => None,
    });
    let Some(known) = known else {
        return Err(mistake(format!("there is no dialect {dialect:?}")));
    };
    let value = serde_json::from_str(json).map_err(mistake)?;
    let imported = known.import(&value).map_err(mistake)?;
    let text = serde_json::to_string(&imported.policy).map_err(mistake)?;
    Ok((text, imported.notes))
}
