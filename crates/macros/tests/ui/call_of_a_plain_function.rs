use resurgam::WorkflowContext;
use resurgam_core::Failure;
use resurgam_macros::workflow;

async fn plain(cents: u64) -> Result<u64, Failure> {
    Ok(cents)
}

#[workflow]
async fn fulfil(ctx: WorkflowContext) -> Result<u64, Failure> {
    ctx.call(plain(1)).await
}

fn main() {
    let _start = fulfil();
}
