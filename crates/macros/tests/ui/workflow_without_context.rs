use resurgam::ActivityContext;
use resurgam_core::Failure;
use resurgam_macros::workflow;

#[workflow]
async fn fulfil(order_id: String) -> Result<String, Failure> {
    Ok(order_id)
}

#[workflow]
async fn tidy() -> Result<(), Failure> {
    Ok(())
}

#[workflow]
async fn ship(_ctx: ActivityContext, order_id: String) -> Result<String, Failure> {
    Ok(order_id)
}

fn main() {}
