//! A bare activity: a workflow that only calls it.
//!
//! The name and the arguments of the call travel as the workflow's argument, so that one workflow
//! serves every activity.

use resurgam_core::command::{ActivityCall, CallOptions};
use resurgam_core::machine::SharedMachine;
use resurgam_core::retry::RetryPolicy;
use resurgam_core::turn::WorkflowFuture;
use resurgam_core::{CallKey, Payload, RunKey, Seq, Uid};
use resurgam_sdk::{Activity, Registry, WorkflowDefinition};
use serde::{Deserialize, Serialize};

/// The name of the workflow.
pub const NAME: &str = "resurgam.activity";

/// The call in an instance of it, which is the first thing that it does.
pub(crate) fn call_in(uid: Uid) -> CallKey {
    RunKey::first(uid).call(Seq::FIRST.next())
}

/// An activity call as an argument.
#[derive(Debug, Serialize, Deserialize)]
pub struct BareCall {
    activity: String,
    arguments: Box<serde_json::value::RawValue>,
    /// The policy of the call in its stored form, where it is not the activity's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry: Option<String>,
    /// The gate of the call, where it is not the activity's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gate: Option<String>,
}

/// The call of an activity.
pub fn call<A: Activity>(activity: &A) -> Result<BareCall, String> {
    let arguments = serde_json::value::to_raw_value(activity).map_err(|error| error.to_string())?;
    Ok(BareCall { activity: A::NAME.to_string(), arguments, retry: None, gate: None })
}

/// The call of an activity by its name, with a policy in its stored form.
pub fn call_of(
    activity: String,
    arguments: &Payload,
    retry: Option<String>,
) -> Result<BareCall, String> {
    let arguments = serde_json::value::RawValue::from_string(arguments.as_str().to_string());
    let arguments = arguments.map_err(|error| error.to_string())?;
    Ok(BareCall { activity, arguments, retry, gate: None })
}

/// The activity and the arguments of a call as it is stored.
pub fn read(argument: &Payload) -> Option<(String, Payload)> {
    let call: BareCall = argument.decode().ok()?;
    Some((call.activity, Payload::from_text(call.arguments.get())))
}

impl BareCall {
    /// Has the call follow a policy of its own. The error says why that makes no sense.
    pub fn retried_by(mut self, policy: &RetryPolicy) -> Result<Self, String> {
        let wrong = |error: String| format!("the retry policy of {}: {error}", self.activity);
        policy.check().map_err(|error| wrong(error.to_string()))?;
        self.retry = Some(policy.to_stored());
        Ok(self)
    }

    /// Has the call pass a gate of its own.
    pub fn behind(mut self, gate: &str) -> Self {
        self.gate = Some(gate.to_string()).filter(|gate| *gate != self.activity);
        self
    }

    /// The argument of the workflow.
    pub fn encoded(&self) -> Result<Payload, String> {
        Payload::encode(self).map_err(|error| error.to_string())
    }
}

/// Adds the workflow to a registry.
pub fn register(registry: &mut Registry) -> Result<(), resurgam_sdk::Error> {
    registry.add_workflow_definition(WorkflowDefinition::new(NAME, begin))
}

fn begin(machine: SharedMachine, input: &Payload) -> Result<WorkflowFuture, String> {
    let call: BareCall = input.decode().map_err(|error| format!("a bare call: {error}"))?;
    let retry = call.retry.as_deref().map(RetryPolicy::from_stored).transpose();
    let retry = retry.map_err(|error| format!("the retry policy of {}: {error}", call.activity))?;
    let call = ActivityCall {
        name: call.activity,
        input: Payload::from_text(call.arguments.get()),
        options: CallOptions {
            retry: retry.map(Box::new),
            gate: call.gate,
            ..CallOptions::default()
        },
        compensates: None,
    };
    Ok(Box::pin(resurgam_sdk::call_by_name(machine, call)))
}
