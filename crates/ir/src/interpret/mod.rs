//! Programs as workflows.
//!
//! The interpreter is one workflow on the SDK and has no durability code of its own: an action is
//! an activity call, a sleep is a timer. The text of the program is part of the workflow's
//! argument, so editing the file changes nothing about instances that run.

mod builtins;
mod code;
mod compile;
mod exception;
mod machine;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use resurgam_core::command::ActivityCall;
use resurgam_core::machine::SharedMachine;
use resurgam_core::turn::WorkflowFuture;
use resurgam_core::{Failure, Payload};
use resurgam_sdk::{WorkflowContext, WorkflowDefinition, call_by_name};

pub(crate) use code::Code;
pub(crate) use compile::compile;
use exception::settled;
use machine::{Job, Machine, Step};

use crate::program::{Program, ProgramInput};
use crate::value::Value;

/// How many jobs run beside each other: a run may have this many open calls. What is more than
/// that waits until they are done.
const TOGETHER: usize = 10_000;

/// The workflow that runs programs, under any name. Its argument is a [`ProgramInput`].
///
/// ```
/// use resurgam_sdk::Registry;
///
/// let mut registry = Registry::default();
/// registry.add_workflow_definition(resurgam_ir::workflow("order"))?;
/// # Ok::<(), resurgam_sdk::Error>(())
/// ```
pub fn workflow(name: impl Into<String>) -> WorkflowDefinition {
    WorkflowDefinition::new(name, begin)
}

/// Makes a run of its argument. What cannot be read blocks the run, and a newer version of this
/// crate may read it.
fn begin(machine: SharedMachine, input: &Payload) -> Result<WorkflowFuture, String> {
    let input: ProgramInput = input.decode().map_err(|error| error.to_string())?;
    let program = Program::stored(&input).map_err(|errors| errors.to_string())?;
    let code = Arc::new(program.compile()?);
    let entry = program.entry_place().ok_or("the program has no function to begin with")?;
    let inputs = program.arrange(&input.inputs)?;
    let ctx = WorkflowContext::new(machine.clone());
    let host = Host { ctx, machine };
    Ok(Box::pin(async move {
        let result = drive(host, Machine::new(code, entry, inputs)).await?;
        result.to_payload()
    }))
}

/// What jobs are done with.
#[derive(Clone)]
struct Host {
    ctx: WorkflowContext,
    machine: SharedMachine,
}

type JobFuture = Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send>>;

/// Runs a machine to its end.
async fn drive(host: Host, mut machine: Machine) -> Result<Value, Failure> {
    loop {
        let answer = match machine.run() {
            Step::Done(result) => return result,
            Step::One(job) => perform(host.clone(), job).await,
            Step::All(jobs) => settled(all(&host, jobs).await),
        };
        if let Some(failure) = machine.resume(answer) {
            return Err(failure);
        }
    }
}

/// Does jobs beside each other and waits for all of them, whatever becomes of some.
async fn all(host: &Host, jobs: Vec<Job>) -> Vec<Result<Value, Failure>> {
    let mut outcomes = Vec::with_capacity(jobs.len());
    let mut jobs = jobs.into_iter().peekable();
    while jobs.peek().is_some() {
        let together = jobs.by_ref().take(TOGETHER);
        let futures = together.map(|job| {
            let future = perform(host.clone(), job);
            async move { Ok::<_, Infallible>(future.await) }
        });
        let Ok(settled) = host.ctx.join_all(futures.map(Box::pin).collect::<Vec<_>>()).await;
        outcomes.extend(settled);
    }
    outcomes
}

fn perform(host: Host, job: Job) -> JobFuture {
    match job {
        Job::Sleep(time) => Box::pin(async move {
            host.ctx.sleep(time).await?;
            Ok(Value::None)
        }),
        Job::Act { name, input, options } => Box::pin(async move {
            let call = ActivityCall { name: name.clone(), input, options, compensates: None };
            let result = call_by_name(host.machine, call).await?;
            Value::from_payload(&result, &format!("@{name}"))
        }),
        Job::Call(machine) => Box::pin(drive(host, machine)),
    }
}
