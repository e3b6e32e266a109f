//! The limits as they are unless somebody sets others. What happens beyond small ones is in
//! `bad_input.rs`; unread signals are in `signals.rs`.

use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::{Compensation, Status};
use resurgam_testing::{TestApp, TestBuilder};
use resurgam_watchdog::test;

use crate::common::{log, wrapped};

const SECOND: Duration = Duration::from_secs(1);
const TWO_MIB: usize = 2 << 20;

#[activity]
async fn measure(text: String) -> Result<usize, Failure> {
    Ok(text.len())
}

#[activity]
async fn write(length: usize) -> Result<String, Failure> {
    Ok("x".repeat(length))
}

#[activity]
async fn undo() -> Result<(), Failure> {
    Ok(())
}

fn app() -> TestBuilder {
    TestApp::builder().activity(measure).activity(write).activity(undo)
}

#[test]
async fn a_value_may_have_two_mebibytes_and_no_more() {
    #[workflow]
    async fn echo(ctx: WorkflowContext, text: String) -> Result<usize, Failure> {
        let written = ctx.call(write(text.len())).await.map_or(0, |text| text.len());
        Ok(written + ctx.signal::<String>("text").await?.len())
    }
    // Two quotes around a text, and the name of the field around those.
    let (argument, value) = (TWO_MIB - r#"{"text":""}"#.len(), TWO_MIB - 2);
    let app = app().workflow(echo).start().await;
    let run = app.start("echo-1", echo("x".repeat(argument))).await;
    let too_large = app.try_start("echo-2", echo("x".repeat(argument + 1))).await;
    assert!(too_large.err().unwrap().is_too_large());
    assert!(run.signal("text", &"x".repeat(value + 1)).await.unwrap_err().is_too_large());
    run.signal("text", &"x".repeat(value)).await.unwrap();
    assert_eq!(run.result().await.unwrap(), argument + value);
}

#[test]
async fn a_history_may_have_fifty_thousand_events_and_no_more() {
    #[workflow]
    async fn talk(ctx: WorkflowContext, words: u32) -> Result<(), Failure> {
        ctx.call(write(1)).compensate_with(|_| undo()).await?;
        for word in 0..words {
            ctx.set_status(&word);
        }
        ctx.sleep(SECOND).await
    }
    let app = app().workflow(talk).start().await;
    // Beside the words there are four events before and one after.
    let run = app.start("talk-1", talk(50_000 - 5 - 2)).await;
    run.result().await.unwrap();
    let run = app.start("talk-2", talk(50_000 - 4)).await;
    let failure = run.failure().await;
    assert_eq!(failure.type_name.as_deref(), Some("HistoryLimit"));
    // Undoing what was done is not bounded by it.
    let instance = app.describe("talk-2").await.instance;
    assert_eq!(
        (instance.status, instance.compensation),
        (Status::Failed, Some(Compensation::Complete))
    );
}

#[test]
async fn a_run_may_have_ten_thousand_open_calls_and_no_more() {
    #[workflow]
    async fn fan_out(ctx: WorkflowContext, calls: usize) -> Result<usize, Failure> {
        Ok(ctx.join_all((0..calls).map(|_| ctx.call(write(1)))).await?.len())
    }
    let app = app().workflow(fan_out).start().await;
    let run = app.start("fan-1", fan_out(10_001)).await;
    let failure = run.failure().await;
    assert_eq!(failure.type_name.as_deref(), Some("OpenCallsLimit"));
    assert_eq!((app.attempts(write), app.describe("fan-1").await.pending.len()), (0, 0));
    let run = app.start("fan-2", fan_out(10_000)).await;
    assert_eq!(run.result().await.unwrap(), 10_000);
}

#[test]
async fn the_arguments_of_open_calls_may_have_sixty_four_mebibytes_and_no_more() {
    #[workflow]
    async fn carry(ctx: WorkflowContext, calls: usize, rounds: usize) -> Result<usize, Failure> {
        let text = "x".repeat(TWO_MIB - r#"{"text":""}"#.len());
        let mut sum = 0;
        for _ in 0..rounds {
            let calls = (0..calls).map(|_| ctx.call(measure(text.clone())));
            sum += ctx.join_all(calls).await?.len();
        }
        Ok(sum)
    }
    // With a limit of four: a busy machine takes long for a step of sixty-four.
    let app = app().options(|options| {
        assert_eq!(options.max_open_input, 64 << 20);
        options.max_open_input = 4 << 20;
    });
    let app = app.workflow(carry).start().await;
    // What is done does not count.
    let run = app.start("carry-1", carry(2, 3)).await;
    assert_eq!(run.result().await.unwrap(), 6);
    let failure = app.start("carry-2", carry(3, 1)).await.failure().await;
    assert_eq!(failure.type_name.as_deref(), Some("OpenInputLimit"));
    expect![[r#"
        the arguments of open calls have 6291456 bytes, 4194304 are allowed
    "#]]
    .assert_eq(&wrapped(&failure.message));
}

// A warning.

/// The warnings that name a way out.
fn warned() -> Vec<String> {
    let of_length = log::lines().into_iter().filter(|it| it.message.contains("continue_as_new"));
    of_length.map(|line| line.message).collect()
}

#[test]
async fn a_history_that_grows_long_is_warned_of_once() {
    #[workflow]
    async fn for_ever(ctx: WorkflowContext) -> Result<(), Failure> {
        loop {
            ctx.sleep(SECOND).await?;
        }
    }
    log::listen();
    let builder = || app().workflow(for_ever).options(|options| options.long_history = 10);
    let app = builder().start().await;
    app.start("long-1", for_ever()).await;
    app.advance(3 * SECOND).await;
    assert_eq!(warned(), [""; 0]);
    app.advance(7 * SECOND).await;
    app.restart().await;
    app.advance(7 * SECOND).await;
    let warned = warned();
    assert_eq!(warned.len(), 1);
    expect![[r#"
        the history has 12 events, 50000 are allowed; continue as new before that
        (ctx.continue_as_new)
    "#]]
    .assert_eq(&wrapped(&warned[0]));
}

#[test]
async fn a_history_of_more_than_ten_thousand_events_is_warned_of() {
    #[workflow]
    async fn talk(ctx: WorkflowContext, words: u32) -> Result<(), Failure> {
        for word in 0..words {
            ctx.set_status(&word);
        }
        ctx.sleep(SECOND).await
    }
    log::listen();
    let app = app().workflow(talk).start().await;
    // Beside the words there are two events before and two after.
    for (words, expected) in [(10_000 - 4, 0), (10_000 - 1, 1)] {
        let run = app.start(&format!("talk-{words}"), talk(words)).await;
        run.result().await.unwrap();
        assert_eq!(warned().len(), expected, "{words} words");
    }
}

// Nothing at all.

#[test]
async fn waiting_for_all_of_nothing_is_done_at_once() {
    #[workflow]
    async fn none(ctx: WorkflowContext) -> Result<usize, Failure> {
        let nothing: [usize; 0] = [];
        Ok(ctx.join_all(nothing.map(|length| ctx.call(write(length)))).await?.len())
    }
    let app = app().workflow(none).start().await;
    assert_eq!(app.start("none-1", none()).await.result().await.unwrap(), 0);
}

#[test]
async fn a_race_of_nothing_blocks_its_run_and_says_why() {
    #[workflow]
    async fn none(ctx: WorkflowContext) -> Result<usize, Failure> {
        let nothing: [usize; 0] = [];
        Ok(ctx.race(nothing.map(|length| ctx.call(write(length)))).await.0)
    }
    let app = app().workflow(none).start().await;
    app.start("none-1", none()).await;
    app.advance(Duration::ZERO).await;
    let instance = app.describe("none-1").await.instance;
    assert_eq!(instance.status, Status::Blocked);
    expect![[r#"
        B2 the workflow's code panicked while taking RunStarted at 1: ctx.race of
        nothing would wait for ever: nobody can win it
    "#]]
    .assert_eq(&wrapped(&instance.error.unwrap()));
}
