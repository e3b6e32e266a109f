use std::time::Duration;

use resurgam::WorkflowContext;
use resurgam_core::Failure;
use resurgam_macros::{activity, workflow};

const NAME: &str = "charge";

#[activity(name = NAME)]
async fn constant_name() -> Result<(), Failure> {
    Ok(())
}

#[activity(name = "pay", alias = ["charge", "pay"], alias = "")]
async fn repeated_name() -> Result<(), Failure> {
    Ok(())
}

#[activity(timeout = Duration::from_secs(1), timeout = Duration::from_secs(2), retry)]
async fn repeated_setting() -> Result<(), Failure> {
    Ok(())
}

#[activity(retry = 3, timeout = 10, total_timeout = "1h")]
async fn literals() -> Result<(), Failure> {
    Ok(())
}

#[activity(crate = "resurgam")]
async fn text_for_a_path() -> Result<(), Failure> {
    Ok(())
}

#[activity(heartbeat_timeout = 30, queue_timeout = "10s", max_concurrent = 0)]
async fn more_literals() -> Result<(), Failure> {
    Ok(())
}

#[workflow(version = 0)]
async fn zeroth(_ctx: WorkflowContext) -> Result<(), Failure> {
    Ok(())
}

#[workflow(version = "2", version)]
async fn second(_ctx: WorkflowContext) -> Result<(), Failure> {
    Ok(())
}

fn main() {}
