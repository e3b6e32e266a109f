//! Policies that operators set for all calls of an activity.

use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::{Exhausted, Idempotency, Jitter};
use resurgam::{Acted, WaitsFor};
use resurgam_testing::{TestApp, TestBuilder};
use resurgam_watchdog::test;

use crate::common::{at_once, crashes};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

const HOURLY: RetryPolicy = RetryPolicy::fixed(HOUR).max_attempts(5).jitter(Jitter::None);
const OFTEN: RetryPolicy =
    RetryPolicy::fixed(Duration::from_secs(120)).max_attempts(4).jitter(Jitter::None);

#[activity(retry = HOURLY)]
async fn charge(cents: u32) -> Result<u32, Failure> {
    Err(Failure::of_type("BankDown", format!("{cents} not taken")))
}

#[activity(retry = HOURLY)]
async fn refund(cents: u32) -> Result<(), Failure> {
    Err(Failure::of_type("BankDown", format!("{cents} not given")))
}

#[activity]
async fn reserve(cents: u32) -> Result<u32, Failure> {
    Ok(cents)
}

#[workflow]
async fn order(ctx: WorkflowContext, cents: u32) -> Result<u32, Failure> {
    ctx.call(charge(cents)).await
}

/// Fails at once, and undoes what it did with an activity that others call, too.
#[workflow]
async fn undone(ctx: WorkflowContext) -> Result<(), Failure> {
    ctx.call(reserve(7)).compensate_with(|cents| refund(*cents)).await?;
    Err(Failure::new("sold out"))
}

fn builder() -> TestBuilder {
    TestApp::builder()
        .workflow(order)
        .workflow(undone)
        .activity(charge)
        .activity(refund)
        .activity(reserve)
}

/// Sets a policy, or removes it, also when a crash comes in between.
async fn set(app: &TestApp, activity: &str, policy: Option<&RetryPolicy>) -> Acted {
    let set = app.set_policy(|client| match policy {
        Some(policy) => client.set_policy(activity, policy.clone()).by("ana"),
        None => client.unset_policy(activity).by("ana"),
    });
    set.await.unwrap()
}

#[test]
async fn open_calls_in_their_backoff_and_later_ones_follow_it_until_it_is_removed() {
    let play = async |app: &TestApp| {
        drop(app.start("first", order(1)).await);
        app.advance(MINUTE).await;
        set(app, "charge", Some(&OFTEN)).await;
        app.advance(SECOND).await;
        drop(app.start("second", order(2)).await);
        app.advance(3 * MINUTE + 30 * SECOND).await;
        set(app, "charge", None).await;
        app.advance(24 * HOUR).await;
        format!("{}\n{}", app.history("first").await, app.history("second").await)
    };
    let quiet = builder().start().await;
    let history = play(&quiet).await;
    expect![[r#"
        1 +0ms RunStarted order {"cents":1}
        2 +0ms ActivityScheduled charge {"cents":1}
          +0ms charge#2 attempt 1 failed: BankDown: 1 not taken; again in 1h
          +2m charge#2 attempt 2 failed: BankDown: 1 not taken; again in 2m
          +4m charge#2 attempt 3 failed: BankDown: 1 not taken; again in 2m
          +1h 4m charge#2 attempt 4 failed: BankDown: 1 not taken; again in 1h
          +2h 4m charge#2 attempt 5 failed: BankDown: 1 not taken
        3 +2h 4m ActivityFailed #2 (attempt 5) max_attempts: BankDown: 1 not taken
        4 +2h 4m RunFailed BankDown: 1 not taken

        1 +0ms RunStarted order {"cents":2}
        2 +0ms ActivityScheduled charge {"cents":2}
          +0ms charge#2 attempt 1 failed: BankDown: 2 not taken; again in 2m
          +2m charge#2 attempt 2 failed: BankDown: 2 not taken; again in 2m
          +1h 2m charge#2 attempt 3 failed: BankDown: 2 not taken; again in 1h
          +2h 2m charge#2 attempt 4 failed: BankDown: 2 not taken; again in 1h
          +3h 2m charge#2 attempt 5 failed: BankDown: 2 not taken
        3 +3h 2m ActivityFailed #2 (attempt 5) max_attempts: BankDown: 2 not taken
        4 +3h 2m RunFailed BankDown: 2 not taken
    "#]]
    .assert_eq(&history);
    for crash in crashes(quiet.commits()) {
        let app = builder().start().await;
        app.faults().crash(crash);
        let story = play(&app).await;
        if !story.contains(" lost: ") {
            assert_eq!(story, history, "{crash:?}");
        }
    }
}

#[test]
async fn what_is_set_is_listed_and_shown_and_asking_twice_changes_nothing() {
    let app = builder().start().await;
    app.start("it", order(1)).await;
    app.advance(MINUTE).await;
    let first = app.client().set_policy("charge", OFTEN).by("ana").reason("ticket 17").await;
    assert_eq!(first.unwrap().to_string(), "calls of charge follow this policy from now on");
    let again = set(&app, "charge", Some(&OFTEN)).await;
    assert_eq!(again.to_string(), "calls of charge follow this policy already");
    let listed = app.client().policies().await.unwrap();
    let [row] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((row.by.as_str(), row.reason.as_deref()), ("ana", Some("ticket 17")));
    assert_eq!((row.retry_policy(), row.revision), (Some(OFTEN), 1));
    app.advance(SECOND).await;
    let call = app.describe("it").await.pending.remove(0);
    assert_eq!(call.max_attempts().map(|limit| limit.to_string()).as_deref(), Some("4"));
    assert_eq!(call.waits_for, Some(WaitsFor::Backoff));
    let none = set(&app, "refund", None).await;
    assert_eq!(none.to_string(), "no policy is set for refund");
    assert!(!none.changed() && !again.changed());
}

#[test]
async fn a_policy_of_the_one_call_comes_first_and_timeouts_stay() {
    let total = resurgam::retry::Timeouts { total: Some(HOUR), ..Default::default() };
    let refused = |policy: RetryPolicy| async move {
        let app = builder().start().await;
        app.client().set_policy("charge", policy).await.unwrap_err().to_string()
    };
    assert_eq!(
        refused(OFTEN.timeouts(total)).await,
        "set the policy of charge: it names timeouts, which stay those of the calls; leave them out"
    );
    let app = builder().start().await;
    app.start("it", order(1)).await;
    app.advance(MINUTE).await;
    let every_minute = RetryPolicy::fixed(MINUTE).unlimited().jitter(Jitter::None);
    app.act("it", "charge", |call| call.set_policy(every_minute.clone())).await.unwrap();
    set(&app, "charge", Some(&RetryPolicy::once())).await;
    app.advance(10 * MINUTE).await;
    let call = app.describe("it").await.pending.remove(0);
    assert!(call.attempt >= 10, "{call:?}");
    assert_eq!(call.max_attempts().map(|limit| limit.to_string()).as_deref(), Some("unlimited"));
}

#[test]
async fn it_can_end_open_calls_or_pause_them_and_leaves_alone_what_undoes_others() {
    let app = builder().start().await;
    let fails = app.start("fails", order(1)).await;
    app.start("undone", undone()).await;
    app.advance(MINUTE).await;
    set(&app, "charge", Some(&RetryPolicy::once())).await;
    set(&app, "refund", Some(&RetryPolicy::once())).await;
    let failure = fails.failure().await;
    assert_eq!((failure.why.as_deref(), failure.attempts), (Some("max_attempts"), Some(1)));
    app.advance(3 * HOUR).await;
    let call = app.describe("undone").await.pending.remove(0);
    assert_eq!((call.activity.as_str(), call.attempt), ("refund", 4));

    set(&app, "charge", None).await;
    // A node knows within a second.
    app.advance(SECOND).await;
    app.start("pauses", order(2)).await;
    app.advance(MINUTE).await;
    let pauses = RetryPolicy::once().on_exhausted(Exhausted::Pause { wait: None });
    set(&app, "charge", Some(&pauses)).await;
    app.advance(SECOND).await;
    let call = app.describe("pauses").await.pending.remove(0);
    assert_eq!(call.waits_for, Some(WaitsFor::Operator), "{call:?}");
}

#[test]
async fn what_must_not_run_twice_still_must_not() {
    const ONCE: RetryPolicy = RetryPolicy::once().idempotency(Idempotency::AtMostOnce);
    #[activity(retry = ONCE)]
    async fn launch(ctx: ActivityContext) -> Result<(), Failure> {
        resurgam_testing::never(&ctx).await;
        Ok(())
    }
    let app = TestApp::builder().activity(launch).start().await;
    let run = app.submit("it", launch()).await.unwrap();
    set(&app, "launch", Some(&OFTEN)).await;
    app.advance(MINUTE).await;
    app.restart().await;
    assert_eq!(run.failure().await.why.as_deref(), Some("worker_lost"));
    assert_eq!(app.attempts(launch), 1);
}

#[test]
async fn many_calls_are_decided_about_again_page_by_page() {
    let calls = 1_200;
    let app = builder().options(|options| options.slots = 10_000).start().await;
    let submit = |number| app.client().submit(format!("it-{number}"), charge(number));
    for submitted in at_once((0..calls).map(submit)).await {
        submitted.unwrap();
    }
    app.advance(MINUTE).await;
    let before = app.commits();
    set(&app, "charge", Some(&OFTEN)).await;
    app.advance(MINUTE + SECOND).await;
    assert_eq!(app.attempts(charge), 2 * calls);
    assert!(app.commits() > before);
}

#[test]
async fn a_restart_reads_what_is_set_before_anything_else() {
    let app = builder().start().await;
    app.start("it", order(1)).await;
    app.advance(MINUTE).await;
    set(&app, "charge", Some(&OFTEN)).await;
    app.restart().await;
    app.advance(10 * HOUR).await;
    let history = app.history("it").await;
    assert!(history.contains("attempt 4 failed: BankDown: 1 not taken\n"), "{history}");
    assert!(!history.contains("attempt 5"), "{history}");
}

#[test]
async fn a_call_that_is_made_right_after_a_restart_follows_what_is_set_from_the_first_failure() {
    let app = builder().start().await;
    set(&app, "charge", Some(&OFTEN)).await;
    app.restart().await;
    app.start("it", order(1)).await;
    app.advance(SECOND).await;
    let history = app.history("it").await;
    assert!(history.contains("attempt 1 failed: BankDown: 1 not taken; again in 2m"), "{history}");
}

#[test]
async fn a_call_that_is_made_right_after_a_policy_was_set_follows_it() {
    let app = builder().start().await;
    for (number, policy, wait) in [(1, Some(&OFTEN), "2m"), (2, None, "1h")] {
        set(&app, "charge", policy).await;
        let id = format!("it-{number}");
        app.start(&id, order(number)).await;
        app.advance(SECOND).await;
        let history = app.history(&id).await;
        assert!(history.contains(&format!("not taken; again in {wait}")), "{history}");
    }
}
