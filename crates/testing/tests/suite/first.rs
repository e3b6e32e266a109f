//! The way of a step, on the virtual clock.

use std::time::Duration;

use expect_test::expect;
use resurgam::Start;
use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam_testing::{Crash, TestApp};
use resurgam_watchdog::test;

const FLAKY: RetryPolicy =
    RetryPolicy::exponential(Duration::from_secs(1)).max_attempts(3).jitter(Jitter::None);

#[activity(retry = FLAKY)]
async fn fetch(page: u32) -> Result<String, Failure> {
    Ok(format!("page {page}"))
}

#[workflow]
async fn crawl(ctx: WorkflowContext, pages: u32) -> Result<Vec<String>, Failure> {
    let mut texts = Vec::new();
    for page in 1..=pages {
        texts.push(ctx.call(fetch(page)).await?);
    }
    Ok(texts)
}

#[test]
async fn a_workflow_calls_its_activities_one_after_another() {
    let app = TestApp::builder().workflow(crawl).activity(fetch).start().await;
    let run = app.start("crawl-1", crawl(2)).await;
    assert_eq!(run.result().await.unwrap(), ["page 1", "page 2"]);
    expect![[r#"
        1 +0ms RunStarted crawl {"pages":2}
        2 +0ms ActivityScheduled fetch {"page":1}
        3 +0ms ActivityCompleted #2 "page 1"
        4 +0ms ActivityScheduled fetch {"page":2}
        5 +0ms ActivityCompleted #4 "page 2"
        6 +0ms RunCompleted ["page 1","page 2"]
    "#]]
    .assert_eq(&run.history().await);
    assert_eq!(app.attempts(fetch), 2);
}

#[test]
async fn attempts_run_twice_whether_that_is_said_before_or_after_the_activity_is_added() {
    let before = TestApp::builder().run_attempts_twice().workflow(crawl).activity(fetch);
    let after = TestApp::builder().workflow(crawl).activity(fetch).run_attempts_twice();
    for builder in [before, after] {
        let app = builder.start().await;
        app.start("crawl-1", crawl(1)).await.result().await.unwrap();
        assert_eq!(app.attempts(fetch), 2);
    }
}

#[test]
async fn a_failed_attempt_is_tried_again_after_its_delay() {
    let app = TestApp::builder()
        .workflow(crawl)
        .stub(fetch, |call, attempt| match attempt {
            1 | 2 => Err(Failure::new("down")),
            _ => Ok(format!("page {}", call.page)),
        })
        .start()
        .await;
    let run = app.start("crawl-1", crawl(1)).await;
    assert_eq!(run.result().await.unwrap(), ["page 1"]);
    expect![[r#"
        1 +0ms RunStarted crawl {"pages":1}
        2 +0ms ActivityScheduled fetch {"page":1}
          +0ms fetch#2 attempt 1 failed: down; again in 1s
          +1s fetch#2 attempt 2 failed: down; again in 2s
        3 +3s ActivityCompleted #2 (attempt 3) "page 1"
        4 +3s RunCompleted ["page 1"]
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn retries_end_when_the_attempts_are_used_up() {
    let app = TestApp::builder()
        .workflow(crawl)
        .stub(fetch, |_, attempt| Err(Failure::new(format!("down {attempt}"))))
        .start()
        .await;
    let run = app.start("crawl-1", crawl(1)).await;
    let failure = run.failure().await;
    assert_eq!((failure.message.as_str(), failure.attempts), ("down 3", Some(3)));
    assert_eq!(failure.why.as_deref(), Some("max_attempts"));
    expect![[r#"
        1 +0ms RunStarted crawl {"pages":1}
        2 +0ms ActivityScheduled fetch {"page":1}
          +0ms fetch#2 attempt 1 failed: down 1; again in 1s
          +1s fetch#2 attempt 2 failed: down 2; again in 2s
          +3s fetch#2 attempt 3 failed: down 3
        3 +3s ActivityFailed #2 (attempt 3) max_attempts: down 3
        4 +3s RunFailed down 3
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn an_activity_is_submitted_with_the_options_of_the_client_and_across_a_crash() {
    for crash in [Crash::BeforeCommit(1), Crash::AfterCommit(1)] {
        let app = TestApp::builder().activity(fetch).start().await;
        app.faults().crash(crash);
        let begun = app.now();
        let hour = Duration::from_secs(3_600);
        let options = |start: Start<String>| start.delay(hour).tag("site", "a").queue("slow");
        let run = app.submit_with("fetch-1", fetch(7), options).await.unwrap();
        assert_eq!(run.result().await.unwrap(), "page 7");
        assert_eq!(app.now().since(begun), hour);
        let instance = app.describe("fetch-1").await.instance;
        assert_eq!((instance.tags["site"].as_str(), instance.queue.as_str()), ("a", "slow"));
        let again = app.submit_with("fetch-1", fetch(8), |start| start).await.unwrap_err();
        assert!(again.is_already_exists());
        let other = app.submit_with("fetch-1", fetch(8), |start| start.replace_closed()).await;
        assert_eq!(other.unwrap().result().await.unwrap(), "page 8");
    }
}

#[test]
async fn an_attempt_tells_the_time_of_the_test() {
    #[activity(timeout = Duration::from_secs(7_200))]
    async fn nap(ctx: ActivityContext) -> Result<(u64, u64, i64), Failure> {
        let begun = ctx.now();
        ctx.sleep(Duration::from_secs(3_600)).await;
        let left = ctx.deadline().expect("a timeout").since(ctx.now());
        Ok((ctx.now().since(begun).as_secs(), left.as_secs(), begun.as_millis()))
    }
    let app = TestApp::builder().activity(nap).start().await;
    app.advance(Duration::from_secs(86_400)).await;
    let begun = app.now();
    let run = app.submit("nap-1", nap()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), (3_600, 3_600, begun.as_millis()));
}

#[test]
#[should_panic(
    expected = "waited for the end of crawl-1, but nothing is under way and nothing is due: the \
                activity fetch of crawl-1 is not registered; add it with .activity(..)"
)]
async fn a_test_that_forgets_an_activity_is_told_which() {
    let app = TestApp::builder().workflow(crawl).start().await;
    let _none = app.start("crawl-1", crawl(1)).await.result().await;
}
