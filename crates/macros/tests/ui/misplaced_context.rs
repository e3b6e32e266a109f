use resurgam::{ActivityContext, WorkflowContext};
use resurgam_core::Failure;
use resurgam_macros::activity;

#[activity]
async fn late(order_id: String, _ctx: ActivityContext) -> Result<String, Failure> {
    Ok(order_id)
}

#[activity]
async fn borrowed(ctx: &ActivityContext) -> Result<u32, Failure> {
    Ok(ctx.attempt())
}

#[activity]
async fn mixed_up(_ctx: WorkflowContext) -> Result<(), Failure> {
    Ok(())
}

fn main() {}
