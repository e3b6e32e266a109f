//! Nodes on one schema that know different workflows: a deployment under way, and two programs that
//! should have a schema each. Each test has a quarter of an hour: the server may have to be
//! installed first.

use std::time::Duration;

use resurgam::prelude::*;
use resurgam::{AppBuilder, PostgresOptions, Status};
use resurgam_postgres_server::{Database, Server};
use resurgam_watchdog::test;
use tracing::Level;

use crate::common::{log, until};

#[workflow]
async fn order(ctx: WorkflowContext, number: u32) -> Result<u32, Failure> {
    ctx.sleep(Duration::from_millis(50)).await?;
    Ok(number)
}

#[workflow]
async fn refund(ctx: WorkflowContext, number: u32) -> Result<u32, Failure> {
    ctx.sleep(Duration::from_millis(50)).await?;
    Ok(number)
}

async fn node(database: &Database<'_>, builder: AppBuilder) -> App {
    // Short, and long enough that a node on a busy machine does not miss it.
    let options = PostgresOptions::default().lease(Duration::from_secs(5));
    builder.postgres_options(options).postgres(&database.url()).await.unwrap()
}

#[test(minutes = 15, threads = 2)]
async fn a_rolling_deployment_that_adds_a_workflow_holds_up_nobody() {
    let database = Server::shared().database().await;
    let old = node(&database, App::builder().workflow(order)).await;
    let mut orders = Vec::new();
    for number in 0..20 {
        orders.push(old.start(format!("order-{number}"), order(number)).await.unwrap());
    }
    let new = node(&database, App::builder().workflow(order).workflow(refund)).await;
    let mut refunds = Vec::new();
    for number in 0..20 {
        refunds.push(new.start(format!("refund-{number}"), refund(number)).await.unwrap());
    }
    for (number, run) in orders.into_iter().chain(refunds).enumerate() {
        assert_eq!(run.result().await.unwrap(), number as u32 % 20);
    }
    // What the old node starts now is the new one's to run.
    assert_eq!(old.start("order-20", order(20)).await.unwrap().result().await.unwrap(), 20);
    old.stop().await.unwrap();
    assert_eq!(new.start("order-21", order(21)).await.unwrap().result().await.unwrap(), 21);
    new.stop().await.unwrap();
}

#[test(minutes = 15, threads = 2)]
async fn another_program_on_the_same_schema_waits_for_its_turn_and_holds_up_nobody() {
    let database = Server::shared().database().await;
    let first = node(&database, App::builder().workflow(order)).await;
    let second = node(&database, App::builder().workflow(refund)).await;
    let refund_run = second.start("refund-1", refund(1)).await.unwrap();
    for number in 0..20 {
        let run = first.start(format!("order-{number}"), order(number)).await.unwrap();
        assert_eq!(run.result().await.unwrap(), number);
    }
    until("the reason why the refund waits", async || {
        let found = second.find("refund-1").await.unwrap().unwrap();
        assert_eq!(found.status, Status::Running);
        let why = found.error.unwrap_or_default();
        why.starts_with("B5 workflow refund is not registered")
            && why.ends_with("programs with different workflows need a schema each")
    })
    .await;
    first.stop().await.unwrap();
    assert_eq!(refund_run.result().await.unwrap(), 1);
    second.stop().await.unwrap();
}

/// On one thread, on which everything is logged.
#[test(minutes = 15)]
async fn a_node_that_takes_no_shards_warns_once_and_names_the_remedy() {
    log::listen();
    let database = Server::shared().database().await;
    let first = node(&database, App::builder().workflow(order)).await;
    assert_eq!(first.start("order-1", order(1)).await.unwrap().result().await.unwrap(), 1);
    let second = node(&database, App::builder().workflow(refund)).await;
    let warnings = || -> Vec<String> {
        let lines = log::lines().into_iter().filter(|line| line.level == Level::WARN);
        lines.map(|line| line.message).filter(|text| text.contains("takes no shards")).collect()
    };
    let told = until("a warning", async || !warnings().is_empty());
    tokio::time::timeout(Duration::from_secs(60), told).await.expect("it says nothing");
    // It looks at the others again and again.
    for number in 2..20 {
        let run = first.start(format!("order-{number}"), order(number)).await.unwrap();
        assert_eq!(run.result().await.unwrap(), number);
    }
    let warnings = warnings();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    let words = ["(order)", "instances of refund wait", "need a schema each", "?schema=NAME"];
    assert!(words.iter().all(|words| warnings[0].contains(words)), "{warnings:?}");
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}
