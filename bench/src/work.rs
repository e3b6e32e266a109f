//! The workflows that are measured: activities that do nothing, one after another.

use resurgam::AppBuilder;
use resurgam::gate::{Breaker, Gate};
use resurgam::prelude::*;

/// What stands before the activity that does nothing.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Before {
    /// Puts a gate with a breaker before every call; it lets all of them through.
    #[arg(long)]
    gate: bool,
}

impl Before {
    /// The app with what stands there.
    pub(crate) fn tick(self, builder: AppBuilder) -> AppBuilder {
        match self.gate {
            true => builder.gate("tick", Gate::new().breaker(Breaker::new())),
            false => builder,
        }
    }
}

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
