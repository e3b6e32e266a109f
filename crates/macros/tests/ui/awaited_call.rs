use resurgam::WorkflowContext;
use resurgam_core::Failure;
use resurgam_macros::{activity, workflow};

#[activity]
async fn charge(cents: u64) -> Result<u64, Failure> {
    Ok(cents)
}

#[workflow]
async fn fulfil(_ctx: WorkflowContext) -> Result<u64, Failure> {
    charge(1).await
}

fn main() {
    let _start = fulfil();
}
