//! Instances whose workflow the process does not know: they wait for one that does, are neither
//! blocked nor failed, and cost nothing meanwhile.

use std::time::Duration;

use resurgam::prelude::*;
use resurgam::{Outcome, Status, WorkflowDefinition};
use resurgam_testing::{TestApp, TestBuilder};
use resurgam_watchdog::test;
use tracing::Level;

use crate::common::{log, many};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

#[workflow]
async fn order(ctx: WorkflowContext, number: u64) -> Result<u64, Failure> {
    ctx.sleep(MINUTE).await?;
    let more: u64 = ctx.signal("more").await?;
    Ok(number + more)
}

#[workflow]
async fn other(_ctx: WorkflowContext) -> Result<(), Failure> {
    Ok(())
}

fn knowing() -> TestBuilder {
    TestApp::builder().workflow(other).workflow(order)
}

fn unknowing() -> TestBuilder {
    TestApp::builder().workflow(other)
}

async fn assert_waits(app: &TestApp, id: &str) {
    let instance = app.describe(id).await.instance;
    assert_eq!(instance.status, Status::Running, "{instance:?}");
    let why = instance.error.unwrap_or_default();
    assert!(why.starts_with("B5 workflow order is not registered in this process; "), "{why}");
}

#[test]
async fn instances_of_an_unknown_workflow_wait_and_nothing_is_tried_meanwhile() {
    let app = knowing().start().await;
    let orders = many(100);
    let mut runs = Vec::new();
    for number in 0..orders {
        runs.push(app.start(&format!("order-{number}"), order(number)).await);
    }
    app.restart_with(unknowing()).await;
    // Timers are due, and signals come.
    app.advance(2 * MINUTE).await;
    for number in 0..orders {
        app.signal(&format!("order-{number}"), "more", &1_u64).await.unwrap();
    }
    app.advance(MINUTE).await;
    for number in 0..orders {
        assert_waits(&app, &format!("order-{number}")).await;
    }
    let commits = app.commits();
    app.advance(DAY).await;
    assert_eq!(app.commits(), commits);
    // The workflows that it knows are as well as ever.
    app.start("other-1", other()).await.result().await.unwrap();

    app.restart_with(knowing()).await;
    for (number, run) in runs.into_iter().enumerate() {
        assert_eq!(run.result().await.unwrap(), number as u64 + 1);
    }
    assert_eq!(app.describe("order-0").await.instance.error, None);
}

#[test]
async fn people_are_told_once_of_a_workflow_that_is_unknown() {
    log::listen();
    let app = knowing().start().await;
    for number in 0..3 {
        app.start(&format!("order-{number}"), order(number)).await;
    }
    app.restart_with(unknowing()).await;
    app.advance(DAY).await;
    for number in 0..3 {
        let id = format!("order-{number}");
        assert_waits(&app, &id).await;
        app.signal(&id, "more", &1_u64).await.unwrap();
    }
    app.advance(DAY).await;
    let warnings = log::lines().into_iter().filter(|line| line.level <= Level::WARN);
    let warnings: Vec<String> = warnings.map(|line| line.to_string()).collect();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(warnings[0].contains("instances of a workflow wait: B5 "), "{warnings:?}");
    assert!(warnings[0].ends_with("workflow=order"), "{warnings:?}");
}

#[test]
async fn why_an_instance_waits_is_no_longer_said_once_it_goes_on() {
    let app = knowing().start().await;
    let run = app.start("order-1", order(1)).await;
    app.restart_with(unknowing()).await;
    app.advance(2 * MINUTE).await;
    assert_waits(&app, "order-1").await;
    app.restart_with(knowing()).await;
    app.advance(MINUTE).await;
    let instance = app.describe("order-1").await.instance;
    assert_eq!((instance.status, instance.error), (Status::Running, None));
    app.signal("order-1", "more", &1_u64).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 2);
}

#[test]
async fn an_instance_that_waits_for_its_workflow_can_be_terminated() {
    let app = knowing().start().await;
    let run = app.start("order-1", order(1)).await;
    app.restart_with(unknowing()).await;
    app.advance(2 * MINUTE).await;
    assert_waits(&app, "order-1").await;
    app.terminate("order-1", "nobody needs it").await.unwrap();
    let outcome = run.outcome().await;
    assert!(matches!(&outcome, Outcome::Terminated(_)), "{outcome:?}");
}

#[test]
async fn an_interpreter_leaves_instances_whose_argument_it_does_not_read_to_others() {
    let interpreter = || {
        let any = WorkflowDefinition::of::<order>();
        unknowing().any_workflow(any.reading(|argument| argument.as_str().contains("\"number\"")))
    };
    let app = TestApp::builder().workflow(nap).start().await;
    let run = app.start("nap-1", nap()).await;
    app.restart_with(interpreter()).await;
    app.advance(2 * MINUTE).await;
    let instance = app.describe("nap-1").await.instance;
    assert_eq!(instance.status, Status::Running, "{instance:?}");
    assert!(instance.error.unwrap().starts_with("B5 workflow nap is not registered"));
    app.restart_with(TestApp::builder().workflow(nap)).await;
    run.result().await.unwrap();
}

#[workflow]
async fn nap(ctx: WorkflowContext) -> Result<(), Failure> {
    ctx.sleep(MINUTE).await
}
