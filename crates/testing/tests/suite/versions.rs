//! Changing the code of workflows that run: versions of a change, and versions of a workflow.

use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam::{Start, Status, Workflow};
use resurgam_testing::{TestApp, TestBuilder};
use resurgam_watchdog::test;
use serde::{Deserialize, Serialize};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

#[activity]
async fn reserve() -> Result<u32, Failure> {
    Ok(1)
}

#[activity]
async fn check() -> Result<u32, Failure> {
    Ok(10)
}

fn app() -> TestBuilder {
    TestApp::builder().activity(reserve).activity(check)
}

mod before {
    use super::*;

    #[workflow(name = "order")]
    pub(super) async fn order(ctx: WorkflowContext) -> Result<u32, Failure> {
        let reserved = ctx.call(reserve()).await?;
        ctx.sleep(HOUR).await?;
        Ok(reserved + ctx.call(reserve()).await?)
    }
}

/// Checks first, and once more after the sleep.
mod after {
    use super::*;

    #[workflow(name = "order")]
    pub(super) async fn order(ctx: WorkflowContext) -> Result<u32, Failure> {
        let mut sum = 0;
        if ctx.version("check-first", 2) >= 2 {
            sum += ctx.call(check()).await?;
        }
        sum += ctx.call(reserve()).await?;
        ctx.sleep(HOUR).await?;
        if ctx.version("check-again", 2) >= 2 {
            sum += ctx.call(check()).await?;
        }
        // Asked again, the answer is the same.
        if ctx.version("check-first", 2) >= 2 {
            sum += ctx.call(check()).await?;
        }
        Ok(sum + ctx.call(reserve()).await?)
    }
}

/// A third version of the same change.
mod later {
    use super::*;

    #[workflow(name = "order")]
    pub(super) async fn order(ctx: WorkflowContext) -> Result<u32, Failure> {
        let mut sum = 0;
        match ctx.version("check-first", 3) {
            1 => {}
            2 => sum += ctx.call(check()).await?,
            _ => sum += 100,
        }
        sum += ctx.call(reserve()).await?;
        ctx.sleep(HOUR).await?;
        if ctx.version("check-again", 2) >= 2 {
            sum += ctx.call(check()).await?;
        }
        if ctx.version("check-first", 3) == 2 {
            sum += ctx.call(check()).await?;
        }
        Ok(sum + ctx.call(reserve()).await?)
    }
}

#[test]
async fn a_run_that_came_by_before_a_change_was_made_keeps_to_the_old_way() {
    let app = app().workflow(before::order).start().await;
    let old = app.start("old", before::order()).await;
    app.advance(SECOND).await;
    app.restart_with(self::app().workflow(after::order)).await;
    let new = app.start("new", after::order()).await;
    app.advance(SECOND).await;
    app.restart().await;
    // The old one takes the change that lies ahead of it, and not the one that lies behind.
    assert_eq!(old.result().await.unwrap(), 12);
    expect![[r#"
        1 +0ms RunStarted order {}
        2 +0ms ActivityScheduled reserve {}
        3 +0ms ActivityCompleted #2 1
        4 +0ms TimerStarted until +1h
        5 +1h TimerFired #4
        6 +1h VersionMarked check-again 2
        7 +1h ActivityScheduled check {}
        8 +1h ActivityCompleted #7 10
        9 +1h ActivityScheduled reserve {}
        10 +1h ActivityCompleted #9 1
        11 +1h RunCompleted 12
    "#]]
    .assert_eq(&old.history().await);
    assert_eq!(new.result().await.unwrap(), 32);
    expect![[r#"
        1 +0ms RunStarted order {}
        2 +0ms VersionMarked check-first 2
        3 +0ms ActivityScheduled check {}
        4 +0ms ActivityCompleted #3 10
        5 +0ms ActivityScheduled reserve {}
        6 +0ms ActivityCompleted #5 1
        7 +0ms TimerStarted until +1h
        8 +1h TimerFired #7
        9 +1h VersionMarked check-again 2
        10 +1h ActivityScheduled check {}
        11 +1h ActivityCompleted #10 10
        12 +1h ActivityScheduled check {}
        13 +1h ActivityCompleted #12 10
        14 +1h ActivityScheduled reserve {}
        15 +1h ActivityCompleted #14 1
        16 +1h RunCompleted 32
    "#]]
    .assert_eq(&new.history().await);
}

#[test]
async fn a_run_stays_with_the_version_that_it_took() {
    let app = app().workflow(after::order).start().await;
    let second = app.start("second", after::order()).await;
    app.advance(SECOND).await;
    app.restart_with(self::app().workflow(later::order)).await;
    let third = app.start("third", later::order()).await;
    app.advance(SECOND).await;
    app.restart().await;
    assert_eq!(second.result().await.unwrap(), 32);
    assert_eq!(third.result().await.unwrap(), 112);
}

#[test]
async fn a_version_that_was_recorded_and_is_no_longer_asked_for_blocks_the_run() {
    let app = app().workflow(after::order).start().await;
    app.start("order-1", after::order()).await;
    app.advance(SECOND).await;
    app.restart_with(self::app().workflow(before::order)).await;
    app.advance(2 * HOUR).await;
    let instance = app.describe("order-1").await.instance;
    assert_eq!(instance.status, Status::Blocked);
    assert!(instance.error.unwrap().contains("VersionMarked check-first 2"));
}

// Versions of a whole workflow, written by hand: the macro writes the same.

#[derive(Serialize, Deserialize)]
struct OrderV1 {}

#[derive(Serialize, Deserialize)]
struct OrderV2 {}

impl Workflow for OrderV1 {
    const NAME: &'static str = "order";
    type Output = u32;

    async fn run(self, ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.sleep(HOUR).await?;
        work(&ctx, 1).await
    }
}

impl Workflow for OrderV2 {
    const NAME: &'static str = "order";
    const VERSION: u32 = 2;
    type Output = u32;

    async fn run(self, ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.sleep(2 * HOUR).await?;
        work(&ctx, 2).await
    }
}

/// Fails once, continues once, and then answers with the versions that its runs were on.
async fn work(ctx: &WorkflowContext, version: u32) -> Result<u32, Failure> {
    let runs: Vec<u32> = ctx.get("runs").unwrap_or_default();
    let runs = [runs, vec![version]].concat();
    ctx.set("runs", &runs);
    match runs.len() {
        1 => Err(Failure::new("once")),
        2 => ctx.continue_as_new(OrderV1 {}),
        _ => Ok(runs.iter().fold(0, |number, version| number * 10 + version)),
    }
}

fn first(builder: TestBuilder) -> TestBuilder {
    builder.workflow_type::<OrderV1>()
}

fn both(builder: TestBuilder) -> TestBuilder {
    builder.workflow_type::<OrderV1>().workflow_type::<OrderV2>()
}

#[test]
async fn a_run_stays_on_its_own_version_and_new_ones_take_the_newest() {
    let policy = RetryPolicy::fixed(SECOND).jitter(Jitter::None);
    let options = |start: Start<u32>| start.retry(&policy);
    let app = first(app()).start().await;
    let old = app.start_with("old", OrderV1 {}, options).await;
    app.advance(SECOND).await;
    app.restart_with(both(self::app())).await;
    let new = app.start_with("new", OrderV2 {}, options).await;
    // One that is tried again takes the newest too: a fix reaches a chain that keeps failing.
    assert_eq!(old.result().await.unwrap(), 122);
    assert_eq!(new.result().await.unwrap(), 222);
    expect![[r#"
        1 +0ms RunStarted order {} version 2
        2 +0ms TimerStarted until +2h
        3 +2h TimerFired #2
        4 +2h KvSet runs [2,2,2]
        5 +2h RunCompleted 222
    "#]]
    .assert_eq(&new.history().await);
}

#[test]
async fn a_run_whose_version_is_gone_waits_for_a_process_that_knows_it() {
    let app = both(app()).start().await;
    let run = app.start("new", OrderV2 {}).await;
    app.restart_with(first(self::app())).await;
    app.advance(3 * HOUR).await;
    let instance = app.describe("new").await.instance;
    assert_eq!(instance.status, Status::Running);
    expect!["B5 version 2 of workflow order is not registered in this process, whose newest is 1; keep a version registered until no run is on it"]
        .assert_eq(&instance.error.unwrap());
    app.restart_with(both(self::app())).await;
    run.failure().await;
}
