use resurgam::WorkflowContext;
use resurgam_core::Failure;
use resurgam_macros::{activity, workflow};

#[activity]
async fn charge(cents: u64) -> Result<u64, Failure> {
    Ok(cents)
}

#[workflow]
async fn fulfil(ctx: WorkflowContext) -> Result<u64, Failure> {
    ctx.call(charge).await
}

fn main() {
    let _start = fulfil();
}
