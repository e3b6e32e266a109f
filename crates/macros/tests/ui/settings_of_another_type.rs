use std::time::Duration;

use resurgam::WorkflowContext;
use resurgam_core::Failure;
use resurgam_macros::{activity, workflow};

const WAIT: Duration = Duration::from_secs(10);

#[activity(retry = WAIT)]
async fn retried() -> Result<(), Failure> {
    Ok(())
}

#[activity(timeout = WAIT.as_secs(), queue = 7, max_concurrent = "4")]
async fn bounded() -> Result<(), Failure> {
    Ok(())
}

#[activity(heartbeat_timeout = Some(WAIT), queue_timeout = 1.5 * 2.0, max_concurrent = -1)]
async fn watched() -> Result<(), Failure> {
    Ok(())
}

#[workflow(version = WAIT)]
async fn versioned(_ctx: WorkflowContext) -> Result<(), Failure> {
    Ok(())
}

#[workflow(version = -2)]
async fn below_zero(_ctx: WorkflowContext) -> Result<(), Failure> {
    Ok(())
}

fn main() {
    let _calls = (retried(), bounded(), watched(), versioned(), below_zero());
}
