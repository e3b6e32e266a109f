//! Work whose progress can be seen from outside at any moment, and whose end the test decides.

use std::path::{Path, PathBuf};
use std::time::Duration;

use resurgam::AppBuilder;
use resurgam::prelude::*;
use resurgam::retry::LostWorker;

use crate::processes::journal::Ending;
use crate::processes::workload::{World, begin, builder, end};

/// How often a ticking instance is seen at work.
pub(crate) const TICK: Duration = Duration::from_millis(250);

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

/// Stays until its gate is open.
#[activity(retry = STAYING)]
async fn stay(ctx: ActivityContext, gate: String) -> Result<u32, Failure> {
    begin(&ctx);
    let gates = ctx.state::<Gates>();
    while !gates.is_open(&gate, ctx.attempt()) {
        // The gate is a file that another process makes, and tells nobody that it is there.
        ctx.sleep(Duration::from_millis(50)).await;
    }
    end(&ctx, Ending::Succeeded, ctx.attempt())
}

/// Gates that the test opens, by their names and for one attempt of each call: files beside the
/// journal. So the test and not the speed of the machine decides what happens while attempts run.
#[derive(Clone, Debug)]
pub(crate) struct Gates {
    journal: PathBuf,
}

/// The gate that is always open.
pub(crate) const OPEN: &str = "";

impl Gates {
    pub(crate) fn beside(journal: &Path) -> Self {
        Gates { journal: journal.to_path_buf() }
    }

    pub(crate) fn open(&self, gate: &str, attempt: u32) {
        std::fs::write(self.file(gate, attempt), "").unwrap();
    }

    fn is_open(&self, gate: &str, attempt: u32) -> bool {
        gate == OPEN || self.file(gate, attempt).exists()
    }

    fn file(&self, gate: &str, attempt: u32) -> PathBuf {
        self.journal.with_extension(format!("gate-{gate}-{attempt}"))
    }
}

#[workflow]
pub(crate) async fn ticking(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.call(tick()).await
}

/// Returns the number of the attempt that succeeded.
#[workflow]
pub(crate) async fn staying(ctx: WorkflowContext, gate: String) -> Result<u32, Failure> {
    ctx.call(stay(gate)).await
}

/// The same, in a queue that not every node serves.
#[workflow]
pub(crate) async fn staying_elsewhere(ctx: WorkflowContext, gate: String) -> Result<u32, Failure> {
    ctx.call(stay(gate)).queue(QUEUE).await
}

/// Attempts once it has heard the signal `go`.
#[workflow]
pub(crate) async fn awaiting(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.signal::<()>("go").await?;
    ctx.call(stay(OPEN.to_string())).await
}

/// An app with all there is, on no store yet.
pub(crate) fn app(world: World, gates: Gates) -> AppBuilder {
    builder(world)
        .state(gates)
        .workflow(ticking)
        .workflow(staying)
        .workflow(staying_elsewhere)
        .workflow(awaiting)
        .activity(tick)
        .activity(stay)
}
