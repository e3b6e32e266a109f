//! One of many runs is reset or restarted first: the others follow only if it comes to a good end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use resurgam::prelude::*;
use resurgam::{BulkAct, BulkJob, BulkState, Client, ResetTo, RunFilter, RunsHandle, Seq, Status};
use resurgam_testing::{TestApp, TestBuilder};
use resurgam_watchdog::test;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// What of the world outside works.
#[derive(Clone, Default)]
struct World {
    bank: Arc<AtomicBool>,
    printer: Arc<AtomicBool>,
}

impl World {
    fn mends(&self, what: impl Fn(&World) -> &AtomicBool) {
        what(self).store(true, Ordering::SeqCst);
    }
}

#[activity(retry = RetryPolicy::once())]
async fn reserve(order: u32) -> Result<u32, Failure> {
    Ok(order)
}

#[activity(retry = RetryPolicy::once())]
async fn charge(ctx: ActivityContext, order: u32) -> Result<u32, Failure> {
    match ctx.state::<World>().bank.load(Ordering::SeqCst) {
        true => Ok(order),
        false => Err(Failure::of_type("BankDown", format!("no answer to order {order}"))),
    }
}

#[activity(retry = RetryPolicy::once())]
async fn print(ctx: ActivityContext, order: u32) -> Result<u32, Failure> {
    match ctx.state::<World>().printer.load(Ordering::SeqCst) {
        true => Ok(order),
        false => Err(Failure::of_type("NoPaper", format!("no slip for order {order}"))),
    }
}

/// Charges, and prints an hour later.
#[workflow]
async fn order(ctx: WorkflowContext, number: u32) -> Result<u32, Failure> {
    ctx.call(reserve(number)).await?;
    ctx.call(charge(number)).await?;
    ctx.sleep(HOUR).await?;
    ctx.call(print(number)).await
}

mod changed {
    use super::*;

    /// Does not go with the histories of `order`.
    #[workflow]
    pub(super) async fn order(ctx: WorkflowContext, number: u32) -> Result<u32, Failure> {
        ctx.call(charge(number)).await
    }
}

mod parent {
    use super::*;

    #[workflow]
    pub(super) async fn order(ctx: WorkflowContext, number: u32) -> Result<u32, Failure> {
        ctx.child(super::delivery(number)).await?;
        ctx.sleep(HOUR).await?;
        Ok(number)
    }
}

#[workflow]
async fn delivery(ctx: WorkflowContext, number: u32) -> Result<u32, Failure> {
    ctx.call(print(number)).await
}

fn builder(world: &World) -> TestBuilder {
    let builder = TestApp::builder().state(world.clone());
    builder.activity(reserve).activity(charge).activity(print)
}

/// Four orders that have failed. Order 4 is the first of every list.
async fn failed(builder: TestBuilder) -> TestApp {
    let app = builder.start().await;
    for number in 1..=4 {
        app.start(&format!("order-{number}"), order(number)).await;
        app.advance(SECOND).await;
    }
    app
}

/// Acts on the orders that have failed.
fn act(client: &Client, act: &impl Fn(RunsHandle) -> BulkAct) -> BulkAct {
    let workflow = Some("order".to_string());
    act(client.runs(RunFilter { workflow, ..RunFilter::default() })).first(1).by("ana")
}

/// Acts on the orders that have failed, one of them first, and waits for the end of that.
async fn one_first(app: &TestApp, how: impl Fn(RunsHandle) -> BulkAct) -> BulkJob {
    app.ask("a bulk action", |client| act(client, &how)).await.unwrap()
}

fn reset(to: ResetTo) -> impl Fn(RunsHandle) -> BulkAct {
    move |runs| runs.reset(to.clone())
}

fn restart(runs: RunsHandle) -> BulkAct {
    runs.restart()
}

async fn statuses(app: &TestApp) -> Vec<(u32, Status)> {
    let mut statuses = Vec::new();
    for number in 1..=4 {
        let row = app.client().find(&format!("order-{number}")).await.unwrap().unwrap();
        statuses.push((row.run, row.status));
    }
    statuses
}

/// How a job stands, how many it asked for, and what it says about those that came first.
fn told(job: &BulkJob) -> (BulkState, u64, &str) {
    (job.state(), job.counts.matched, job.error.as_deref().unwrap_or_default())
}

#[test]
async fn the_others_are_not_reset_when_the_call_that_the_first_goes_back_to_fails_again() {
    let of_charge = ResetTo::Before("charge".to_string());
    for to in [ResetTo::LastFailure, of_charge, ResetTo::Event(Seq(4))] {
        let world = World::default();
        let app = failed(builder(&world).workflow(order)).await;
        let job = one_first(&app, reset(to.clone())).await;
        let again = "of the first 1, not all succeeded: BankDown: no answer to order 4";
        let again = match to {
            ResetTo::Event(_) => again.replace("BankDown", "order-4 failed again: BankDown"),
            _ => again.to_string(),
        };
        assert_eq!(told(&job), (BulkState::Failed, 1, again.as_str()), "{to}");
        assert_eq!(statuses(&app).await[2..], [(1, Status::Failed), (2, Status::Failed)]);
    }
}

#[test]
async fn the_others_are_reset_when_the_call_that_the_first_goes_back_to_succeeds() {
    for to in [ResetTo::LastFailure, ResetTo::Before("charge".to_string())] {
        let world = World::default();
        let app = failed(builder(&world).workflow(order)).await;
        world.mends(|world| &world.bank);
        let job = one_first(&app, reset(to.clone())).await;
        assert_eq!(told(&job), (BulkState::Done, 4, ""), "{to}");
        // What becomes of the slips, an hour later, is not waited for.
        assert_eq!(statuses(&app).await, [(2, Status::Running); 4], "{to}");
    }
}

#[test]
async fn a_reset_to_an_event_and_a_restart_wait_for_the_end_of_the_first() {
    for is_restart in [false, true] {
        for prints in [false, true] {
            let world = World::default();
            let app = failed(builder(&world).workflow(order)).await;
            world.mends(|world| &world.bank);
            let start = |runs: RunsHandle| match is_restart {
                true => restart(runs),
                false => runs.reset(ResetTo::Event(Seq(4))),
            };
            let id = act(&app.client(), &start).start().await.unwrap().id;
            app.advance(HOUR / 2).await;
            let client = app.client();
            let so_far = client.bulk_job(&id).await.unwrap().unwrap();
            assert_eq!(told(&so_far), (BulkState::Running, 1, ""), "{is_restart}");
            if prints {
                world.mends(|world| &world.printer);
            }
            app.advance(HOUR).await;
            let job = client.bulk_job(&id).await.unwrap().unwrap();
            let again = "of the first 1, not all succeeded: order-4 failed again: NoPaper: no slip \
                         for order 4";
            let expected = match prints {
                true => (BulkState::Done, 4, ""),
                false => (BulkState::Failed, 1, again),
            };
            assert_eq!(told(&job), expected, "{is_restart}");
        }
    }
}

#[test]
async fn the_others_are_left_alone_when_the_first_cannot_go_on() {
    let world = World::default();
    let app = failed(builder(&world).workflow(order)).await;
    app.restart_with(builder(&world).workflow(changed::order)).await;
    let job = one_first(&app, reset(ResetTo::LastFailure)).await;
    let (state, matched, why) = told(&job);
    assert_eq!((state, matched), (BulkState::Failed, 1));
    let blocked = "of the first 1, not all succeeded: order-4 is blocked: B1 ";
    assert!(why.starts_with(blocked), "{why}");
}

#[test]
async fn a_first_one_that_goes_back_to_a_child_succeeds_with_it() {
    for is_mended in [false, true] {
        let world = World::default();
        let workflows = builder(&world).workflow(parent::order).workflow(delivery);
        let app = failed(workflows).await;
        if is_mended {
            world.mends(|world| &world.printer);
        }
        let job = one_first(&app, reset(ResetTo::LastFailure)).await;
        let again = "of the first 1, not all succeeded: NoPaper: no slip for order 4";
        let expected = match is_mended {
            true => (BulkState::Done, 4, ""),
            false => (BulkState::Failed, 1, again),
        };
        assert_eq!(told(&job), expected);
    }
}
