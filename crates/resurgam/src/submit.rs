//! A bare activity: a workflow that only calls it.
//!
//! The name and the arguments of the call travel as the workflow's argument, so that one workflow
//! serves every activity.

use resurgam_core::Payload;
use resurgam_core::command::{ActivityCall, CallOptions};
use resurgam_core::machine::SharedMachine;
use resurgam_core::turn::WorkflowFuture;
use resurgam_sdk::{Activity, Registry, WorkflowDefinition};
use serde::{Deserialize, Serialize};

/// The name of the workflow.
pub(crate) const NAME: &str = "resurgam.activity";

/// An activity call as an argument.
#[derive(Serialize, Deserialize)]
pub(crate) struct BareCall {
    activity: String,
    arguments: Box<serde_json::value::RawValue>,
}

/// The call of an activity.
pub(crate) fn call<A: Activity>(activity: &A) -> Result<BareCall, String> {
    let arguments = serde_json::value::to_raw_value(activity).map_err(|error| error.to_string())?;
    Ok(BareCall { activity: A::NAME.to_string(), arguments })
}

/// Adds the workflow to a registry.
pub(crate) fn register(registry: &mut Registry) -> Result<(), resurgam_sdk::Error> {
    registry.add_workflow_definition(WorkflowDefinition::new(NAME, begin))
}

fn begin(machine: SharedMachine, input: &Payload) -> Result<WorkflowFuture, String> {
    let call: BareCall = input.decode().map_err(|error| format!("a bare call: {error}"))?;
    let call = ActivityCall {
        name: call.activity,
        input: Payload::from_text(call.arguments.get()),
        options: CallOptions::default(),
        compensates: None,
    };
    Ok(Box::pin(resurgam_sdk::call_by_name(machine, call)))
}
