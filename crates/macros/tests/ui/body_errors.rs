use resurgam::WorkflowContext;
use resurgam_core::Failure;
use resurgam_macros::{activity, workflow};

struct Declined;

#[activity]
async fn charge(cents: u64) -> Result<String, Failure> {
    if cents > 100 {
        Err(Declined)?;
    }
    Ok(cents)
}

#[workflow]
async fn fulfil(ctx: WorkflowContext, cents: u64) -> Result<String, Failure> {
    let receipt = ctx.call(charge(cents.to_string())).await?;
    receipt.number
}

fn main() {
    let _start = fulfil(1);
}
