//! What the history and the ledger say about the attempts of a call.

use std::time::Duration;

use expect_test::expect;
use resurgam::event::RetryMetadata;
use resurgam::prelude::*;
use resurgam::retry::{Backoff, Match, Matched, Reason, Rule};
use resurgam::{AttemptRow, EventKind};
use resurgam_testing::{TestApp, never};
use resurgam_watchdog::test;

use crate::common::attempts::{MINUTE, SECOND, STEADY};

/// Takes a second, and succeeds after as many failures as it is told, or never.
#[activity(retry = STEADY.max_attempts(3))]
async fn work(ctx: ActivityContext, failures: u32) -> Result<(), Failure> {
    ctx.sleep(SECOND).await;
    match ctx.attempt() <= failures {
        true => Err(Failure::new("down")),
        false => Ok(()),
    }
}

/// The event that ended the call of an instance, as it is stored.
async fn end(app: &TestApp, id: &str) -> EventKind {
    let ended = |kind: &EventKind| {
        matches!(kind, EventKind::ActivityCompleted(_) | EventKind::ActivityFailed(_))
    };
    let events = app.client().events(id).await.unwrap();
    events.into_iter().map(|event| event.kind).find(ended).unwrap()
}

async fn metadata(app: &TestApp, id: &str) -> Option<RetryMetadata> {
    match end(app, id).await {
        EventKind::ActivityCompleted(done) => done.retry_metadata,
        EventKind::ActivityFailed(failed) => failed.retry_metadata,
        _ => None,
    }
}

#[test]
async fn the_event_that_ends_a_call_says_which_attempt_it_was_and_when_that_began() {
    let app = TestApp::builder().activity(work).start().await;
    let mut said = Vec::new();
    for failures in [0, 2, 3] {
        let (began, id) = (app.now(), format!("work-{failures}"));
        let run = app.submit(&id, work(failures)).await.unwrap();
        let _it_is_in_the_event = run.outcome().await;
        let (attempt, at) = match end(&app, &id).await {
            EventKind::ActivityCompleted(done) => (done.attempt, done.started_at),
            EventKind::ActivityFailed(failed) => (failed.attempt, failed.started_at),
            other => panic!("{other:?}"),
        };
        said.push(format!("{failures} failures: attempt {attempt} at {:?}", at.since(began)));
    }
    expect![[r#"
        0 failures: attempt 1 at 0ns
        2 failures: attempt 3 at 4s
        3 failures: attempt 3 at 4s"#]]
    .assert_eq(&said.join("\n"));
}

#[test]
async fn a_call_that_fails_with_its_first_attempt_says_which_and_when_too() {
    #[activity(retry = RetryPolicy::once())]
    async fn hopeless(ctx: ActivityContext) -> Result<(), Failure> {
        ctx.sleep(SECOND).await;
        Err(Failure::new("down"))
    }
    let app = TestApp::builder().activity(hopeless).start().await;
    let began = app.now();
    app.submit("hopeless-1", hopeless()).await.unwrap().failure().await;
    let EventKind::ActivityFailed(failed) = end(&app, "hopeless-1").await else { panic!() };
    assert_eq!((failed.attempt, failed.started_at), (1, began));
    // There is no story of one attempt.
    assert_eq!(failed.retry_metadata, None);
}

#[test]
async fn a_story_is_told_whenever_there_was_more_than_one_attempt() {
    /// Snoozes, dies with its process, and succeeds.
    #[activity(retry = STEADY)]
    async fn roundabout(ctx: ActivityContext, snoozes: bool) -> Result<(), Failure> {
        match (ctx.attempt(), snoozes) {
            (1, true) => return Err(Failure::snooze(MINUTE)),
            (1, false) => never(&ctx).await,
            _ => {}
        }
        Ok(())
    }
    let app = TestApp::builder().activity(roundabout).start().await;
    app.submit("snoozed", roundabout(true)).await.unwrap().result().await.unwrap();
    let story = metadata(&app, "snoozed").await.unwrap();
    assert_eq!((story.total_attempts, story.total_duration_ms), (2, 60_000));
    assert_eq!((story.errors, story.last_error, story.exhausted), (Vec::new(), None, false));

    let run = app.submit("lost", roundabout(false)).await.unwrap();
    app.advance(SECOND).await;
    app.restart().await;
    run.result().await.unwrap();
    let story = metadata(&app, "lost").await.unwrap();
    let errors: Vec<_> = story.errors.iter().map(|error| error.error_type.as_str()).collect();
    assert_eq!((story.total_attempts, errors), (2, vec!["worker_lost"]));
}

#[test]
async fn long_messages_are_cut_in_the_story_too() {
    #[activity(retry = STEADY)]
    async fn wordy(ctx: ActivityContext, length: usize) -> Result<(), Failure> {
        match ctx.attempt() {
            1 => Err(Failure::new("x".repeat(length))),
            _ => Ok(()),
        }
    }
    let app = TestApp::builder().activity(wordy).start().await;
    for (length, kept) in [(4_096, "x".repeat(4_096)), (4_097, "x".repeat(4_096) + " [cut]")] {
        let id = length.to_string();
        app.submit(&id, wordy(length)).await.unwrap().result().await.unwrap();
        let story = metadata(&app, &id).await.unwrap();
        assert!(story.errors[0].message == kept, "{} bytes", story.errors[0].message.len());
        assert_eq!(story.last_error.as_ref(), story.errors.last());
    }
}

#[test]
async fn the_ledger_of_a_call_keeps_a_thousand_attempts_of_both_ends() {
    #[activity(retry = STEADY)]
    async fn stubborn(ctx: ActivityContext) -> Result<u32, Failure> {
        match ctx.attempt() {
            attempt @ ..1_501 => Err(Failure::new(format!("down {attempt}"))),
            attempt => Ok(attempt),
        }
    }
    let app = TestApp::builder().activity(stubborn).start().await;
    let run = app.submit("stubborn-1", stubborn()).await.unwrap();
    app.advance(999 * SECOND + Duration::from_millis(500)).await;
    let numbers =
        async || app.ledger("stubborn-1").await.iter().map(|row| row.attempt).collect::<Vec<_>>();
    // Each that did not succeed, as long as there is room.
    assert_eq!(numbers().await, (1..=1_000).collect::<Vec<_>>());
    assert_eq!(run.result().await.unwrap(), 1_501);
    let kept = numbers().await;
    assert_eq!((kept.len(), kept[0], kept.last()), (1_000, 1, Some(&1_500)));
    // The story says how many there were in all.
    let story = metadata(&app, "stubborn-1").await.unwrap();
    assert_eq!((story.total_attempts, story.errors_left_out), (1_501, 1_480));
}

#[test]
async fn the_ledger_says_which_rule_matched_how_long_was_waited_and_what_ended_it() {
    const RULES: &[Rule] = &[
        Rule::retry(Match::codes(&["429"])).backoff(Backoff::Fixed { delay: MINUTE }),
        Rule::fail(Match::types(&["Gone"])),
    ];
    #[activity(retry = STEADY.max_attempts(10).rules(RULES).never_for(&["Never"]))]
    async fn ask(ctx: ActivityContext, last: String) -> Result<(), Failure> {
        match (ctx.attempt(), last.as_str()) {
            (1, _) => Err(Failure::new("down")),
            (2, _) => Err(Failure::new("slow down").with_code("429")),
            (3, _) => Err(Failure::snooze(MINUTE)),
            (_, "terminal") => Err(Failure::terminal("no")),
            (_, last) => Err(Failure::of_type(last, "no")),
        }
    }
    let app = TestApp::builder().activity(ask).start().await;
    for (last, matched, reason) in [
        ("Gone", Some(Matched::Rule(1)), Reason::NonRetryable),
        ("Never", Some(Matched::NeverFor), Reason::NonRetryable),
        ("terminal", None, Reason::Terminal),
    ] {
        app.submit(last, ask(last.to_string())).await.unwrap().outcome().await;
        let ledger: Vec<AttemptRow> = app.client().attempts(last).await.unwrap();
        let rules: Vec<_> = ledger.iter().map(AttemptRow::matched).collect();
        assert_eq!(rules, [Some(Matched::Nothing), Some(Matched::Rule(0)), None, matched]);
        let delays: Vec<_> = ledger.iter().map(AttemptRow::delay).collect();
        assert_eq!(delays, [Some(SECOND), Some(MINUTE), Some(MINUTE), None]);
        for pair in ledger.windows(2) {
            assert_eq!(
                (pair[0].next_due(), pair[0].stopped_by()),
                (Some(pair[1].started_at), None)
            );
        }
        assert_eq!(ledger[3].stopped_by(), Some(reason));
        // The event says the same.
        let end = end(&app, last).await;
        let EventKind::ActivityFailed(failed) = &end else { panic!("{end:?}") };
        assert_eq!(failed.reason(), Some(reason));
        let story = end.retry_metadata().unwrap();
        assert_eq!((story.total_attempts, story.total_duration()), (4, 2 * MINUTE + SECOND));
    }
}
