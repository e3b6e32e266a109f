//! The workflows that are measured: activities that do nothing, one after another.

use resurgam::prelude::*;

/// Does nothing, so that only the engine is measured.
#[activity]
pub(crate) async fn tick(number: u64) -> Result<u64, Failure> {
    Ok(number)
}

/// Calls an activity again and again, each time after the call before is done.
#[workflow]
pub(crate) async fn chain(ctx: WorkflowContext, activities: u64) -> Result<u64, Failure> {
    let mut last = 0;
    for number in 1..=activities {
        last = ctx.call(tick(number)).await?;
    }
    Ok(last)
}

/// Gives back what it is given.
#[activity]
pub(crate) async fn carry(number: u64, ballast: String) -> Result<(u64, String), Failure> {
    Ok((number, ballast))
}

/// Does what `chain` does, with something to carry, there and back.
#[workflow]
pub(crate) async fn heavy_chain(
    ctx: WorkflowContext,
    activities: u64,
    ballast: String,
) -> Result<u64, Failure> {
    let mut last = 0;
    for number in 1..=activities {
        (last, _) = ctx.call(carry(number, ballast.clone())).await?;
    }
    Ok(last)
}
