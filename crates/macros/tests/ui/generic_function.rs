use resurgam::WorkflowContext;
use resurgam_core::Failure;
use resurgam_macros::{activity, workflow};

#[activity]
async fn echo<T>(value: T) -> Result<T, Failure> {
    Ok(value)
}

#[workflow]
async fn same<T: Copy>(_ctx: WorkflowContext, value: T) -> Result<T, Failure> {
    Ok(value)
}

fn main() {}
