use std::rc::Rc;

use resurgam::ActivityContext;
use resurgam_core::Failure;
use resurgam_macros::activity;

#[activity]
async fn charge(ctx: ActivityContext, cents: u64) -> Result<u64, Failure> {
    let cents = Rc::new(cents);
    ctx.cancelled().await;
    Ok(*cents)
}

fn main() {
    let _call = charge(1);
}
