//! Work whose progress can be seen from outside at any moment.

use std::time::Duration;

use resurgam::AppBuilder;
use resurgam::prelude::*;
use resurgam::retry::LostWorker;

use crate::processes::journal::Ending;
use crate::processes::workload::{World, begin, builder, end};

/// How often a ticking instance is seen at work.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Fails for ever, and is tried again soon, whatever happened to its process: so that what is
/// measured is not a backoff.
const TICKING: RetryPolicy = RetryPolicy::fixed(TICK).unlimited().lost_worker(SOON);

/// An attempt that is lost is followed by another one at once.
const STAYING: RetryPolicy = RetryPolicy::fixed(TICK).lost_worker(SOON);

const SOON: LostWorker = LostWorker {
    max: 1_000,
    initial: Duration::from_millis(3),
    max_delay: Duration::from_millis(3),
};

/// A queue that not every node serves.
pub(crate) const QUEUE: &str = "elsewhere";

#[activity(retry = TICKING)]
async fn tick(ctx: ActivityContext) -> Result<u32, Failure> {
    begin(&ctx);
    end(&ctx, Ending::Failed, 0)
}

/// Takes its time.
#[activity(retry = STAYING)]
async fn stay(ctx: ActivityContext, millis: u64) -> Result<u32, Failure> {
    begin(&ctx);
    ctx.sleep(Duration::from_millis(millis)).await;
    end(&ctx, Ending::Succeeded, ctx.attempt())
}

#[workflow]
pub(crate) async fn ticking(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.call(tick()).await
}

/// Returns the number of the attempt that succeeded.
#[workflow]
pub(crate) async fn staying(ctx: WorkflowContext, millis: u64) -> Result<u32, Failure> {
    ctx.call(stay(millis)).await
}

/// The same, in a queue that not every node serves.
#[workflow]
pub(crate) async fn staying_elsewhere(ctx: WorkflowContext, millis: u64) -> Result<u32, Failure> {
    ctx.call(stay(millis)).queue(QUEUE).await
}

/// Attempts once it has heard the signal `go`.
#[workflow]
pub(crate) async fn awaiting(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.signal::<()>("go").await?;
    ctx.call(stay(0)).await
}

/// An app with all there is, on no store yet.
pub(crate) fn app(world: World) -> AppBuilder {
    builder(world)
        .workflow(ticking)
        .workflow(staying)
        .workflow(staying_elsewhere)
        .workflow(awaiting)
        .activity(tick)
        .activity(stay)
}
