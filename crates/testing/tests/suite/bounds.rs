//! What is too large: failures of any size, and arguments of too many calls at once.

use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam_testing::TestApp;
use resurgam_watchdog::test;
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);

/// A failure that no limit was made for.
fn enormous(depth: usize) -> Failure {
    let nested = (0..depth).fold(json!(1), |inner, _| json!([inner]));
    let causes = (0..100).fold(Failure::new("the end"), |cause, number| {
        let details = json!({"number": number, "text": "x".repeat(10_000), "nested": nested});
        Failure::of_type("Cause", "because ".repeat(1_000)).with_details(details).caused_by(cause)
    });
    Failure::of_type("Enormous".repeat(10_000), "no ".repeat(1 << 20))
        .with_details(json!("y".repeat(3 << 20)))
        .with_code("0".repeat(10_000))
        .caused_by(causes)
}

/// The size of everything that a failure says.
fn size(failure: &Failure) -> usize {
    serde_json::to_string(failure).unwrap().len()
}

#[activity(retry = RetryPolicy::fixed(SECOND).jitter(Jitter::None).max_attempts(3))]
async fn blow_up(depth: usize) -> Result<(), Failure> {
    Err(enormous(depth))
}

/// Says how large a failure was, and shows a part of it, now and after a restart.
#[workflow]
async fn survive(ctx: WorkflowContext, depth: usize) -> Result<(usize, Value), Failure> {
    let failure = ctx.call(blow_up(depth)).await.unwrap_err();
    ctx.signal::<()>("go on").await?;
    Ok((size(&failure), serde_json::to_value(&failure)?))
}

#[test]
async fn a_failure_of_any_size_is_cut_to_what_can_be_kept_and_read_back() {
    for depth in [10, 1_000] {
        let app = TestApp::builder().workflow(survive).activity(blow_up);
        let app = app.options(|options| options.max_payload = 1 << 20).start().await;
        let run = app.start("survive-1", survive(depth)).await;
        app.advance(10 * SECOND).await;
        app.restart().await;
        run.signal("go on", &()).await.unwrap();
        let (size, told) = run.result().await.unwrap();
        assert!(size < 200_000, "{size}");
        let part = |path: &str| told.pointer(path).unwrap().as_str().unwrap();
        let cut = |text: &str| format!("{}..{}", &text[..8], &text[text.len() - 8..]);
        expect!["no no no.. n [cut]"].assert_eq(&cut(part("/message")));
        expect!["Enormous..us [cut]"].assert_eq(&cut(part("/type")));
        expect!["[cut: the details are too large]"].assert_eq(part("/details"));
        let last = format!("{}/message", "/cause".repeat(16));
        expect!["[cut: 86 more causes]"].assert_eq(part(&last));
        assert_eq!((&told["attempts"], &told["why"]), (&json!(3), &json!("max_attempts")));
        assert_eq!(app.ledger("survive-1").await.len(), 3);
    }
}

#[test]
async fn a_workflow_may_fail_with_a_failure_of_any_size() {
    #[workflow]
    async fn give_up(_ctx: WorkflowContext) -> Result<(), Failure> {
        Err(enormous(10))
    }
    #[workflow]
    async fn parent(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.child(give_up()).await
    }
    let app = TestApp::builder().workflow(give_up).workflow(parent).start().await;
    let alone = app.start("alone-1", give_up()).await.failure().await;
    let of_child = app.start("parent-1", parent()).await.failure().await;
    for failure in [alone, of_child] {
        assert!(failure.message.starts_with("no no") && size(&failure) < 200_000);
    }
}

// Arguments.

/// Waits a while with a text in its hands.
#[activity]
async fn hold(ctx: ActivityContext, text: String) -> Result<usize, Failure> {
    ctx.sleep(SECOND).await;
    Ok(text.len())
}

/// Two rounds of as many calls at once, each with an argument of about 300 bytes.
#[workflow]
async fn rounds(ctx: WorkflowContext, first: usize, second: usize) -> Result<usize, Failure> {
    let calls = |count| (0..count).map(|_| ctx.call(hold("x".repeat(289)))).collect::<Vec<_>>();
    let open = ctx.join_all(calls(first));
    let more = async {
        ctx.signal::<()>("more").await?;
        ctx.join_all(calls(second)).await
    };
    let (open, more) = tokio::join!(open, more);
    Ok(open?.len() + more?.len())
}

#[test]
async fn a_run_whose_open_calls_hold_too_much_fails_and_says_so() {
    let app = TestApp::builder().workflow(rounds).activity(hold);
    let app = app.options(|options| options.max_open_input = 1_000).start().await;
    let run = app.start("rounds-1", rounds(4, 0)).await;
    let failure = run.failure().await;
    expect!["OpenInputLimit: the arguments of open calls have 1200 bytes, 1000 are allowed"]
        .assert_eq(&failure.to_string());
    assert_eq!(app.attempts(hold), 0);

    // What is over counts no longer, what is open does, also after a restart.
    for (advance, restart, fits) in [(2, false, true), (0, false, false), (0, true, false)] {
        let id = format!("rounds-{advance}-{restart}");
        let run = app.start(&id, rounds(3, 3)).await;
        app.advance(advance * SECOND).await;
        if restart {
            app.restart().await;
        }
        run.signal("more", &()).await.unwrap();
        let result = run.result().await;
        assert_eq!(result.is_ok(), fits, "{id}: {result:?}");
    }
}
