//! What an activity can return, and what its workflow gets of it. How often it is tried is in
//! `retries.rs`.

use std::fmt;
use std::time::Duration;

use expect_test::expect;
use resurgam::Kind;
use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam_testing::TestApp;
use resurgam_watchdog::test;
use serde::{Deserialize, Serialize};

const TWICE: RetryPolicy =
    RetryPolicy::fixed(Duration::from_secs(1)).max_attempts(2).jitter(Jitter::None);

/// An error of the user's own, with a cause.
#[derive(Debug)]
struct GatewayDown(std::num::ParseIntError);

impl fmt::Display for GatewayDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the gateway is down")
    }
}

impl std::error::Error for GatewayDown {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

fn gateway() -> Result<u32, GatewayDown> {
    "eighty".parse().map_err(GatewayDown)
}

#[activity(retry = TWICE)]
async fn ask(how: String) -> Result<u32, Failure> {
    match how.as_str() {
        "error" => Ok(gateway()?),
        "terminal" => gateway().terminal(),
        "typed" => Err(Failure::of_type("CardDeclined", "no").with_code("402")),
        _ => Ok(1),
    }
}

#[workflow]
async fn try_each(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
    let mut told = Vec::new();
    for how in ["error", "terminal", "typed"] {
        let failure = ctx.call(ask(how.to_string())).await.unwrap_err();
        let cause = failure.cause.as_ref().map(|cause| cause.message.clone());
        told.push(format!(
            "{:?} {:?} {:?} {:?} after {:?}: {:?}, because {cause:?}",
            failure.kind,
            failure.type_name,
            failure.code,
            failure.message,
            failure.attempts,
            failure.why
        ));
    }
    // So that it is told once more on replay.
    ctx.signal::<()>("end").await?;
    Ok(told)
}

#[test]
async fn any_error_is_retried_and_terminal_ones_are_not_and_the_workflow_hears_all_of_it() {
    let app = TestApp::builder().workflow(try_each).activity(ask).start().await;
    let run = app.start("try-1", try_each()).await;
    app.advance(Duration::from_secs(10)).await;
    app.restart().await;
    run.signal("end", &()).await.unwrap();
    expect![[r#"
        Error Some("GatewayDown") None "the gateway is down" after Some(2): Some("max_attempts"), because Some("invalid digit found in string")
        Error Some("GatewayDown") None "the gateway is down" after Some(1): Some("terminal"), because Some("invalid digit found in string")
        Error Some("CardDeclined") Some("402") "no" after Some(2): Some("max_attempts"), because None"#]].assert_eq(&run.result().await.unwrap().join("\n"));
    assert_eq!(app.attempts(ask), 5);
}

/// What an activity tells its workflow about a refusal.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Refusal {
    missing_cents: u64,
    cards: Vec<String>,
}

#[activity]
async fn pay() -> Result<(), Failure> {
    let refusal = Refusal { missing_cents: 12, cards: vec!["red".into(), "blue".into()] };
    let mut failure = Failure::terminal("not enough").with_type("Refused");
    failure.details = Some(serde_json::to_value(refusal).unwrap());
    Err(failure)
}

#[workflow]
async fn read_refusal(ctx: WorkflowContext) -> Result<Refusal, Failure> {
    let failure = ctx.call(pay()).await.unwrap_err();
    ctx.signal::<()>("end").await?;
    serde_json::from_value(failure.details.clone().unwrap()).terminal()
}

#[test]
async fn a_workflow_can_turn_a_failure_back_into_its_own_type_also_on_replay() {
    let app = TestApp::builder().workflow(read_refusal).activity(pay).start().await;
    let run = app.start("pay-1", read_refusal()).await;
    app.advance(Duration::ZERO).await;
    app.restart().await;
    run.signal("end", &()).await.unwrap();
    let refusal = run.result().await.unwrap();
    assert_eq!(refusal, Refusal { missing_cents: 12, cards: vec!["red".into(), "blue".into()] });
}

#[test]
async fn the_result_of_an_instance_is_the_whole_failure_of_its_workflow() {
    #[workflow]
    async fn give_up(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(pay()).await
    }
    let app = TestApp::builder().workflow(give_up).activity(pay).start().await;
    let failure = app.start("pay-1", give_up()).await.failure().await;
    assert_eq!((failure.kind, failure.type_name.as_deref()), (Kind::Error, Some("Refused")));
    assert_eq!((failure.attempts, failure.why.as_deref()), (Some(1), Some("terminal")));
    assert!(failure.details.is_some());
}
