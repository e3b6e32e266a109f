//! What is logged about attempts, calls and runs that fail, and how much of it.

use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam_testing::{TestApp, never};
use resurgam_watchdog::test;
use tracing::Level;

use crate::common::log::{self, Line};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

#[activity(retry = RetryPolicy::fixed(MINUTE).jitter(Jitter::None).max_attempts(3))]
async fn ask(_number: u32) -> Result<(), Failure> {
    Err(Failure::of_type("Down", "no\nanswer"))
}

#[workflow]
async fn question(ctx: WorkflowContext, number: u32) -> Result<(), Failure> {
    ctx.call(ask(number)).await
}

/// The lines of a level; where the engine is at home is not of interest here.
fn logged(level: Level) -> Vec<Line> {
    log::lines()
        .into_iter()
        .filter(|line| line.level == level && !line.message.contains("works on"))
        .collect()
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
async fn failed_attempts_calls_and_runs_are_logged_with_what_one_wants_to_know() {
    log::listen();
    let app = TestApp::builder().workflow(question).activity(ask).start().await;
    app.start("question-1", question(1)).await.failure().await;
    expect![[r#"
        INFO attempt failed, will be retried instance=question-1 activity=ask attempt=1 failure=Down: no answer next_due=2026-01-01T00:01:00Z why=failure 1 of 3; waits 1m
        INFO attempt failed, will be retried instance=question-1 activity=ask attempt=2 failure=Down: no answer next_due=2026-01-01T00:02:00Z why=failure 2 of 3; waits 1m
    "#]]
    .assert_eq(&text(&logged(Level::INFO)));
    expect![[r#"
        WARN activity failed, no attempt follows instance=question-1 activity=ask attempt=3 failure=Down: no answer why=max_attempts: 3 of 3 attempts failed
        WARN run failed instance=question-1 workflow=question failure=Down: no answer
    "#]]
    .assert_eq(&text(&logged(Level::WARN)));
}

#[test]
async fn a_run_that_is_tried_again_is_information_and_the_last_one_a_warning() {
    #[workflow]
    async fn moody(_ctx: WorkflowContext) -> Result<(), Failure> {
        Err(Failure::new("not today"))
    }
    log::listen();
    let app = TestApp::builder().workflow(moody).start().await;
    let twice = RetryPolicy::fixed(MINUTE).jitter(Jitter::None).max_attempts(2);
    let run = app.start_with("moody-1", moody(), |start| start.retry(&twice)).await;
    run.failure().await;
    expect![[r#"
        INFO run failed, will be retried instance=moody-1 workflow=moody failure=not today next_due=2026-01-01T00:01:00Z
    "#]]
    .assert_eq(&text(&logged(Level::INFO)));
    expect![[r#"
        WARN run failed instance=moody-1 workflow=moody failure=not today
    "#]]
    .assert_eq(&text(&logged(Level::WARN)));
}

#[test]
async fn what_is_no_failure_is_not_logged() {
    #[activity]
    async fn later(ctx: ActivityContext) -> Result<(), Failure> {
        match ctx.attempt() {
            1 => Err(Failure::snooze(MINUTE)),
            _ => Ok(()),
        }
    }
    #[activity]
    async fn hang(ctx: ActivityContext) -> Result<(), Failure> {
        never(&ctx).await;
        Ok(())
    }
    #[workflow]
    async fn calm(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(later()).await?;
        let _elapsed = ctx.timeout(SECOND, ctx.call(hang())).await;
        Ok(())
    }
    log::listen();
    let app = TestApp::builder().workflow(calm).activity(later).activity(hang).start().await;
    app.start("calm-1", calm()).await.result().await.unwrap();
    let cancelled = app.start("calm-2", calm()).await;
    app.advance(SECOND).await;
    cancelled.cancel("enough").await.unwrap();
    cancelled.failure().await;
    app.advance(MINUTE).await;
    assert_eq!(text(&logged(Level::INFO)) + &text(&logged(Level::WARN)), "");
}

/// An app in which a hundred attempts have just failed.
async fn storm() -> TestApp {
    log::listen();
    let app = TestApp::builder().workflow(question).activity(ask).start().await;
    for number in 0..100 {
        app.start(&format!("question-{number}"), question(number)).await;
    }
    app.advance(Duration::ZERO).await;
    assert_eq!(logged(Level::INFO).len(), 10);
    app
}

#[test]
async fn a_storm_is_ten_lines_for_each_activity_and_then_a_count() {
    let app = storm().await;
    // The count comes when the while is over, and not with the next failure, 50 seconds later.
    app.advance(11 * SECOND).await;
    expect![[r#"
        INFO 90 more attempts failed within 10s and will be retried activity=ask left_out=90
    "#]]
    .assert_eq(&text(&logged(Level::INFO)[10..]));
    app.advance(5 * MINUTE).await;
    assert_eq!(logged(Level::INFO).len(), 22, "{}", text(&logged(Level::INFO)));
    let warnings = logged(Level::WARN);
    assert_eq!(warnings.len(), 22, "{}", text(&warnings));
    expect![[r#"
        WARN 90 more calls failed within 10s, no attempt follows activity=ask left_out=90
        WARN 90 more runs failed within 10s workflow=question left_out=90
    "#]]
    .assert_eq(&text(&warnings[20..]));
}

#[test]
async fn a_stop_in_the_midst_of_a_storm_tells_the_count_so_far() {
    let app = storm().await;
    app.stop().await;
    expect![[r#"
        INFO 90 more attempts failed within 10s and will be retried activity=ask left_out=90
    "#]]
    .assert_eq(&text(&logged(Level::INFO)[10..]));
}
