use resurgam::WorkflowContext;
use resurgam_core::Failure;
use resurgam_macros::workflow;

#[workflow]
fn fulfil(_ctx: WorkflowContext, order_id: String) -> Result<String, Failure> {
    Ok(order_id)
}

fn main() {}
