//! What a run did is undone when it fails or is cancelled: recorded as data, last first, to the
//! end.

use std::future::{Future, IntoFuture, poll_fn};
use std::task::Poll;
use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::{Jitter, Timeouts};
use resurgam::{Compensation, InstanceFilter, Outcome, Status};
use resurgam_testing::{TestApp, TestBuilder};
use resurgam_watchdog::test;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

const TWICE: RetryPolicy = RetryPolicy::fixed(SECOND).max_attempts(2).jitter(Jitter::None);

/// Books something, in a second, whether or not anybody still wants it.
#[activity(retry = TWICE)]
async fn book(ctx: ActivityContext, what: String) -> Result<String, Failure> {
    ctx.sleep(SECOND).await;
    Ok(format!("{what}-1"))
}

/// Gives back what was booked.
#[activity]
async fn give_back(booking: String) -> Result<(), Failure> {
    drop(booking);
    Ok(())
}

#[activity(retry = RetryPolicy::once())]
async fn pay() -> Result<(), Failure> {
    Err(Failure::of_type("CardDeclined", "no"))
}

fn undo(booking: &str) -> give_back {
    give_back(booking.to_string())
}

#[workflow]
async fn travel(ctx: WorkflowContext, pays: bool) -> Result<Vec<String>, Failure> {
    let train = ctx.call(book("train".into())).compensate_with(|train| undo(train)).await?;
    let hotel = ctx.call(book("hotel".into())).compensate_with(|hotel| undo(hotel)).await?;
    match pays {
        true => ctx.call(pay()).await?,
        false => ctx.sleep(HOUR).await?,
    }
    Ok(vec![train, hotel])
}

fn app() -> TestBuilder {
    TestApp::builder().workflow(travel).activity(book).activity(give_back).activity(pay)
}

async fn closed(app: &TestApp, id: &str) -> (Status, Option<Compensation>) {
    let instance = app.describe(id).await.instance;
    (instance.status, instance.compensation)
}

#[test]
async fn a_run_that_fails_undoes_what_it_did_last_first() {
    let app = app().start().await;
    let run = app.start("travel-1", travel(true)).await;
    assert_eq!(run.failure().await.type_name.as_deref(), Some("CardDeclined"));
    expect![[r#"
        1 +0ms RunStarted travel {"pays":true}
        2 +0ms ActivityScheduled book {"what":"train"}
        3 +1s ActivityCompleted #2 "train-1"
        4 +1s CompensationRecorded #2 give_back {"booking":"train-1"}
        5 +1s ActivityScheduled book {"what":"hotel"}
        6 +2s ActivityCompleted #5 "hotel-1"
        7 +2s CompensationRecorded #5 give_back {"booking":"hotel-1"}
        8 +2s ActivityScheduled pay {}
          +2s pay#8 attempt 1 failed: CardDeclined: no
        9 +2s ActivityFailed #8 max_attempts: CardDeclined: no
        10 +2s ActivityScheduled give_back to undo #5 {"booking":"hotel-1"}
        11 +2s ActivityCompleted #10 null
        12 +2s ActivityScheduled give_back to undo #2 {"booking":"train-1"}
        13 +2s ActivityCompleted #12 null
        14 +2s RunFailed (compensation complete) CardDeclined: no
    "#]]
    .assert_eq(&run.history().await);
    assert_eq!(closed(&app, "travel-1").await, (Status::Failed, Some(Compensation::Complete)));
}

#[test]
async fn a_run_that_is_cancelled_undoes_what_it_did() {
    let app = app().start().await;
    let run = app.start("travel-1", travel(false)).await;
    app.advance(10 * SECOND).await;
    run.cancel("changed my mind").await.unwrap();
    assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
    expect![[r#"
        1 +0ms RunStarted travel {"pays":false}
        2 +0ms ActivityScheduled book {"what":"train"}
        3 +1s ActivityCompleted #2 "train-1"
        4 +1s CompensationRecorded #2 give_back {"booking":"train-1"}
        5 +1s ActivityScheduled book {"what":"hotel"}
        6 +2s ActivityCompleted #5 "hotel-1"
        7 +2s CompensationRecorded #5 give_back {"booking":"hotel-1"}
        8 +2s TimerStarted until +1h
        9 +10s CancelRequested changed my mind
        10 +10s TimerCancelled #8
        11 +10s ActivityScheduled give_back to undo #5 {"booking":"hotel-1"}
        12 +10s ActivityCompleted #11 null
        13 +10s ActivityScheduled give_back to undo #2 {"booking":"train-1"}
        14 +10s ActivityCompleted #13 null
        15 +10s RunCancelled (compensation complete) Cancelled: changed my mind
    "#]]
    .assert_eq(&run.history().await);
    assert_eq!(closed(&app, "travel-1").await, (Status::Cancelled, Some(Compensation::Complete)));
}

#[test]
async fn a_run_that_succeeds_undoes_nothing() {
    let app = app().start().await;
    let run = app.start("travel-1", travel(false)).await;
    assert_eq!(run.result().await.unwrap(), ["train-1", "hotel-1"]);
    assert_eq!((app.attempts(give_back), closed(&app, "travel-1").await.1), (0, None));
}

#[test]
async fn a_run_that_did_nothing_that_can_be_undone_says_nothing_about_it() {
    #[workflow]
    async fn only_pay(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(pay()).await
    }
    let app = app().workflow(only_pay).start().await;
    app.start("pay-1", only_pay()).await.failure().await;
    assert_eq!(closed(&app, "pay-1").await, (Status::Failed, None));
}

#[test]
async fn what_undoes_a_call_is_recorded_with_its_completion_and_cannot_change_under_a_run() {
    /// The same workflow, with other arguments for what undoes.
    mod changed {
        use super::*;

        #[workflow(name = "travel")]
        pub(super) async fn travel(
            ctx: WorkflowContext,
            pays: bool,
        ) -> Result<Vec<String>, Failure> {
            let other = |_: &String| give_back("something else".to_string());
            let train = ctx.call(book("train".into())).compensate_with(other).await?;
            drop((train, pays));
            Err(Failure::new("unreachable"))
        }
    }
    let app = app().start().await;
    let run = app.start("travel-1", travel(false)).await;
    app.advance(10 * SECOND).await;
    let changed = TestApp::builder().activity(book).activity(give_back).activity(pay);
    app.restart_with(changed.workflow(changed::travel)).await;
    run.cancel("enough").await.unwrap();
    app.advance(SECOND).await;
    // Both sides are shown, as for any other change under a run.
    let error = app.describe("travel-1").await.instance.error.unwrap();
    assert!(
        error.contains(r#"CompensationRecorded #2 give_back {"booking":"train-1"}"#),
        "{error}"
    );
    app.restart_with(self::app()).await;
    run.outcome().await;
    assert_eq!(app.attempts(give_back), 2);
}

#[test]
async fn what_undoes_a_call_is_written_in_the_commit_that_completes_it() {
    let app = app().start().await;
    let run = app.start("travel-1", travel(false)).await;
    app.advance(SECOND).await;
    assert_eq!(app.commits(), 2);
    expect![[r#"
        1 +0ms RunStarted travel {"pays":false}
        2 +0ms ActivityScheduled book {"what":"train"}
        3 +1s ActivityCompleted #2 "train-1"
        4 +1s CompensationRecorded #2 give_back {"booking":"train-1"}
        5 +1s ActivityScheduled book {"what":"hotel"}
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn a_compensation_belongs_to_the_run_and_not_to_the_future() {
    #[workflow]
    async fn forget(ctx: WorkflowContext) -> Result<(), Failure> {
        let call = ctx.call(book("train".into())).compensate_with(|train| undo(train));
        let mut call = Box::pin(call.into_future());
        let begun = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await;
        assert!(begun);
        ctx.sleep(2 * SECOND).await?;
        // It is done, and nobody looks at what it answered.
        drop(call);
        Err(Failure::new("no"))
    }
    let app = app().workflow(forget).start().await;
    let run = app.start("forget-1", forget()).await;
    run.failure().await;
    expect![[r#"
        1 +0ms RunStarted forget {}
        2 +0ms ActivityScheduled book {"what":"train"}
        3 +0ms TimerStarted until +2s
        4 +1s ActivityCompleted #2 "train-1"
        5 +1s CompensationRecorded #2 give_back {"booking":"train-1"}
        6 +2s TimerFired #3
        7 +2s ActivityScheduled give_back to undo #2 {"booking":"train-1"}
        8 +2s ActivityCompleted #7 null
        9 +2s RunFailed (compensation complete) no
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn without_a_policy_of_its_own_a_compensation_is_tried_until_it_succeeds() {
    let total = Timeouts { total: Some(10 * SECOND), ..Timeouts::default() };
    let app = TestApp::builder()
        .workflow(travel)
        .activity(book)
        .activity(pay)
        .stub(give_back, |_, attempt| match attempt <= 25 {
            true => Err(Failure::new("closed for lunch")),
            false => Ok(()),
        })
        // The bounds of the app are for what is done, not for what is undone.
        .retry(TWICE.max_elapsed(10 * SECOND).timeouts(total))
        .start()
        .await;
    let run = app.start("travel-1", travel(true)).await;
    run.failure().await;
    assert_eq!(app.attempts(give_back), 52);
    assert_eq!(closed(&app, "travel-1").await.1, Some(Compensation::Complete));
}

#[test]
async fn the_time_that_the_apps_policy_allows_does_not_bound_a_compensation() {
    let hourly = || RetryPolicy::fixed(HOUR).jitter(Jitter::None);
    let total = Timeouts { total: Some(HOUR / 2), ..Timeouts::default() };
    for policy in [hourly().max_elapsed(HOUR), hourly().timeouts(total)] {
        let app = TestApp::builder()
            .workflow(travel)
            .activity(book)
            .activity(pay)
            .stub(give_back, |_, attempt| match attempt <= 3 {
                true => Err(Failure::new("closed for lunch")),
                false => Ok(()),
            })
            .retry(policy)
            .start()
            .await;
        app.start("travel-1", travel(true)).await.failure().await;
        assert_eq!(closed(&app, "travel-1").await.1, Some(Compensation::Complete));
    }
}

#[test]
async fn a_compensation_has_the_policy_of_its_activity() {
    #[activity(retry = TWICE)]
    async fn plead(booking: String) -> Result<(), Failure> {
        Err(Failure::new(format!("no refund for {booking}")))
    }
    #[workflow]
    async fn travel_hopefully(ctx: WorkflowContext) -> Result<(), Failure> {
        let call = ctx.call(book("train".into())).compensate_with(|train| plead(train.clone()));
        call.await?;
        ctx.call(pay()).await
    }
    let app = app().workflow(travel_hopefully).activity(plead).start().await;
    app.start("travel-1", travel_hopefully()).await.failure().await;
    assert_eq!(app.attempts(plead), 2);
    assert_eq!(closed(&app, "travel-1").await.1, Some(Compensation::Incomplete));
}

#[workflow]
async fn travel_impatiently(ctx: WorkflowContext) -> Result<(), Failure> {
    for what in ["train", "hotel", "car"] {
        let call = ctx.call(book(what.into())).compensate_with(|booked| undo(booked));
        call.compensation_retry(TWICE).await?;
    }
    ctx.call(pay()).await
}

#[test]
async fn a_compensation_that_fails_for_good_is_recorded_and_the_others_still_run() {
    let app = TestApp::builder()
        .workflow(travel_impatiently)
        .workflow(travel)
        .activity(book)
        .activity(pay)
        .stub(give_back, |call, _| match call.booking.as_str() {
            "hotel-1" => Err(Failure::new("no refunds")),
            _ => Ok(()),
        })
        .start()
        .await;
    let run = app.start("travel-1", travel_impatiently()).await;
    assert_eq!(run.failure().await.type_name.as_deref(), Some("CardDeclined"));
    expect![[r#"
        1 +0ms RunStarted travel_impatiently {}
        2 +0ms ActivityScheduled book {"what":"train"}
        3 +1s ActivityCompleted #2 "train-1"
        4 +1s CompensationRecorded #2 give_back {"booking":"train-1"}
        5 +1s ActivityScheduled book {"what":"hotel"}
        6 +2s ActivityCompleted #5 "hotel-1"
        7 +2s CompensationRecorded #5 give_back {"booking":"hotel-1"}
        8 +2s ActivityScheduled book {"what":"car"}
        9 +3s ActivityCompleted #8 "car-1"
        10 +3s CompensationRecorded #8 give_back {"booking":"car-1"}
        11 +3s ActivityScheduled pay {}
          +3s pay#11 attempt 1 failed: CardDeclined: no
        12 +3s ActivityFailed #11 max_attempts: CardDeclined: no
        13 +3s ActivityScheduled give_back to undo #8 {"booking":"car-1"}
        14 +3s ActivityCompleted #13 null
        15 +3s ActivityScheduled give_back to undo #5 {"booking":"hotel-1"}
          +3s give_back#15 attempt 1 failed: no refunds; again in 1s
          +4s give_back#15 attempt 2 failed: no refunds
        16 +4s ActivityFailed #15 (attempt 2) max_attempts: no refunds
        17 +4s ActivityScheduled give_back to undo #2 {"booking":"train-1"}
        18 +4s ActivityCompleted #17 null
        19 +4s RunFailed (compensation incomplete) CardDeclined: no
    "#]]
    .assert_eq(&run.history().await);
    assert_eq!(closed(&app, "travel-1").await, (Status::Failed, Some(Compensation::Incomplete)));

    // Visible in lists.
    app.start("travel-2", travel(false)).await.result().await.unwrap();
    let filter = InstanceFilter {
        compensation: Some(Compensation::Incomplete),
        ..InstanceFilter::default()
    };
    let found = app.client().list(filter).await.unwrap();
    assert_eq!(found.into_iter().map(|row| row.id).collect::<Vec<_>>(), ["travel-1"]);
}

/// Books two things at once and gives up before they are there.
#[workflow]
async fn hurry(ctx: WorkflowContext) -> Result<(), Failure> {
    let calls = ["train", "hotel"].map(|what| {
        ctx.call(book(what.into())).compensate_with(|booked| undo(booked)).into_future()
    });
    match ctx.timeout(SECOND / 2, ctx.join_all(calls)).await {
        Ok(booked) => booked.map(drop),
        Err(elapsed) => Err(elapsed.into()),
    }
}

#[test]
async fn compensations_wait_until_all_open_calls_have_settled() {
    let app = app().workflow(hurry).start().await;
    let run = app.start("hurry-1", hurry()).await;
    run.failure().await;
    expect![[r#"
        1 +0ms RunStarted hurry {}
        2 +0ms ActivityScheduled book {"what":"train"}
        3 +0ms ActivityScheduled book {"what":"hotel"}
        4 +0ms TimerStarted until +500ms
        5 +500ms TimerFired #4
        6 +500ms ActivityCancelRequested #2
        7 +500ms ActivityCancelRequested #3
        8 +1s ActivityCompleted #2 after cancel "train-1"
        9 +1s CompensationRecorded #2 give_back {"booking":"train-1"}
        10 +1s ActivityCompleted #3 after cancel "hotel-1"
        11 +1s CompensationRecorded #3 give_back {"booking":"hotel-1"}
        12 +1s ActivityScheduled give_back to undo #3 {"booking":"hotel-1"}
        13 +1s ActivityCompleted #12 null
        14 +1s ActivityScheduled give_back to undo #2 {"booking":"train-1"}
        15 +1s ActivityCompleted #14 null
        16 +1s RunFailed (compensation complete) Elapsed: not done within 500ms
    "#]]
    .assert_eq(&run.history().await);
    assert_eq!(closed(&app, "hurry-1").await, (Status::Failed, Some(Compensation::Complete)));
}

#[test]
async fn a_call_that_was_given_up_and_failed_has_nothing_to_undo() {
    let app = TestApp::builder()
        .workflow(hurry)
        .activity(give_back)
        .stub(book, |_, _| Err(Failure::new("sold out")))
        .start()
        .await;
    let run = app.start("hurry-1", hurry()).await;
    run.failure().await;
    // In their backoff they cannot take effect any more: nobody waits for them.
    expect![[r#"
        1 +0ms RunStarted hurry {}
        2 +0ms ActivityScheduled book {"what":"train"}
          +0ms book#2 attempt 1 failed: sold out; again in 1s
        3 +0ms ActivityScheduled book {"what":"hotel"}
          +0ms book#3 attempt 1 failed: sold out; again in 1s
        4 +0ms TimerStarted until +500ms
        5 +500ms TimerFired #4
        6 +500ms ActivityCancelRequested #2
        7 +500ms ActivityCancelRequested #3
        8 +500ms ActivityFailed #2 cancelled: cancelled: the workflow gave it up
        9 +500ms ActivityFailed #3 cancelled: cancelled: the workflow gave it up
        10 +500ms RunFailed Elapsed: not done within 500ms
    "#]]
    .assert_eq(&run.history().await);
    assert_eq!(app.attempts(give_back), 0);
}

#[test]
async fn calls_that_fail_the_run_together_with_others_that_are_open_settle_too() {
    #[workflow]
    async fn try_join(ctx: WorkflowContext) -> Result<(), Failure> {
        let mut train = Box::pin(
            ctx.call(book("train".into())).compensate_with(|train| undo(train)).into_future(),
        );
        let begun = poll_fn(|cx| Poll::Ready(train.as_mut().poll(cx).is_pending())).await;
        assert!(begun);
        ctx.call(pay()).await?;
        train.await.map(drop)
    }
    let app = app().workflow(try_join).start().await;
    let run = app.start("join-1", try_join()).await;
    run.failure().await;
    expect![[r#"
        1 +0ms RunStarted try_join {}
        2 +0ms ActivityScheduled book {"what":"train"}
        3 +0ms ActivityScheduled pay {}
          +0ms pay#3 attempt 1 failed: CardDeclined: no
        4 +0ms ActivityFailed #3 max_attempts: CardDeclined: no
        5 +0ms ActivityCancelRequested #2
        6 +1s ActivityCompleted #2 after cancel "train-1"
        7 +1s CompensationRecorded #2 give_back {"booking":"train-1"}
        8 +1s ActivityScheduled give_back to undo #2 {"booking":"train-1"}
        9 +1s ActivityCompleted #8 null
        10 +1s RunFailed (compensation complete) CardDeclined: no
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn a_restart_in_the_backoff_of_a_compensation_keeps_its_place_and_its_due_time() {
    const PATIENT: RetryPolicy = RetryPolicy::fixed(HOUR).jitter(Jitter::None).unlimited();
    let app = TestApp::builder()
        .workflow(travel)
        .activity(book)
        .activity(pay)
        .stub(give_back, |call, attempt| match (call.booking.as_str(), attempt) {
            ("hotel-1", 1) => Err(Failure::new("closed for lunch")),
            _ => Ok(()),
        })
        .retry(PATIENT)
        .start()
        .await;
    let run = app.start("travel-1", travel(true)).await;
    app.advance(HOUR / 2).await;
    app.restart().await;
    run.failure().await;
    expect![[r#"
        1 +0ms RunStarted travel {"pays":true}
        2 +0ms ActivityScheduled book {"what":"train"}
        3 +1s ActivityCompleted #2 "train-1"
        4 +1s CompensationRecorded #2 give_back {"booking":"train-1"}
        5 +1s ActivityScheduled book {"what":"hotel"}
        6 +2s ActivityCompleted #5 "hotel-1"
        7 +2s CompensationRecorded #5 give_back {"booking":"hotel-1"}
        8 +2s ActivityScheduled pay {}
          +2s pay#8 attempt 1 failed: CardDeclined: no
        9 +2s ActivityFailed #8 max_attempts: CardDeclined: no
        10 +2s ActivityScheduled give_back to undo #5 {"booking":"hotel-1"}
          +2s give_back#10 attempt 1 failed: closed for lunch; again in 1h
        11 +1h ActivityCompleted #10 (attempt 2) null
        12 +1h ActivityScheduled give_back to undo #2 {"booking":"train-1"}
        13 +1h ActivityCompleted #12 null
        14 +1h RunFailed (compensation complete) CardDeclined: no
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn a_run_that_times_out_undoes_what_it_did() {
    let app = app().start().await;
    let options = |start: resurgam::Start<Vec<String>>| start.run_timeout(Duration::from_secs(60));
    let run = app.start_with("travel-1", travel(false), options).await;
    let failure = run.failure().await;
    assert_eq!(failure.type_name.as_deref(), Some("RunTimeout"));
    expect![[r#"
        1 +0ms RunStarted travel {"pays":false}
        2 +0ms ActivityScheduled book {"what":"train"}
        3 +1s ActivityCompleted #2 "train-1"
        4 +1s CompensationRecorded #2 give_back {"booking":"train-1"}
        5 +1s ActivityScheduled book {"what":"hotel"}
        6 +2s ActivityCompleted #5 "hotel-1"
        7 +2s CompensationRecorded #5 give_back {"booking":"hotel-1"}
        8 +2s TimerStarted until +1h
        9 +1m RunTimedOut run
        10 +1m TimerCancelled #8
        11 +1m ActivityScheduled give_back to undo #5 {"booking":"hotel-1"}
        12 +1m ActivityCompleted #11 null
        13 +1m ActivityScheduled give_back to undo #2 {"booking":"train-1"}
        14 +1m ActivityCompleted #13 null
        15 +1m RunFailed (compensation complete) RunTimeout: the run was not done in time, after 1m
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn a_run_that_is_terminated_undoes_nothing_and_says_so() {
    let app = app().start().await;
    let run = app.start("travel-1", travel(false)).await;
    app.advance(10 * SECOND).await;
    app.terminate("travel-1", "fire").await.unwrap();
    assert!(matches!(run.outcome().await, Outcome::Terminated(_)));
    assert_eq!(app.attempts(give_back), 0);
    assert_eq!(
        closed(&app, "travel-1").await,
        (Status::Terminated, Some(Compensation::Incomplete))
    );
    let of = |status| InstanceFilter { status: vec![status], ..InstanceFilter::default() };
    assert_eq!(app.client().list(of(Status::Terminated)).await.unwrap().len(), 1);
    assert!(app.client().list(of(Status::Cancelled)).await.unwrap().is_empty());

    // Also while a call that can be undone has not answered yet.
    let run = app.start("travel-2", travel(false)).await;
    app.advance(SECOND / 2).await;
    app.terminate("travel-2", "fire").await.unwrap();
    run.outcome().await;
    assert_eq!(
        closed(&app, "travel-2").await,
        (Status::Terminated, Some(Compensation::Incomplete))
    );
}

#[test]
async fn a_run_that_is_cancelled_while_it_undoes_goes_on_and_closes_as_cancelled() {
    let app = TestApp::builder()
        .workflow(travel)
        .activity(book)
        .activity(pay)
        .stub(give_back, |_, attempt| match attempt {
            1 => Err(Failure::new("closed for lunch")),
            _ => Ok(()),
        })
        .retry(RetryPolicy::fixed(HOUR).jitter(Jitter::None))
        .start()
        .await;
    let run = app.start("travel-1", travel(true)).await;
    app.advance(HOUR / 2).await;
    run.cancel("enough").await.unwrap();
    // The first wish counts; this one changes nothing.
    run.cancel("more than enough").await.unwrap();
    let Outcome::Cancelled(failure) = run.outcome().await else { panic!("not cancelled") };
    assert_eq!(failure.type_name.as_deref(), Some("CardDeclined"));
    expect![[r#"
        1 +0ms RunStarted travel {"pays":true}
        2 +0ms ActivityScheduled book {"what":"train"}
        3 +1s ActivityCompleted #2 "train-1"
        4 +1s CompensationRecorded #2 give_back {"booking":"train-1"}
        5 +1s ActivityScheduled book {"what":"hotel"}
        6 +2s ActivityCompleted #5 "hotel-1"
        7 +2s CompensationRecorded #5 give_back {"booking":"hotel-1"}
        8 +2s ActivityScheduled pay {}
          +2s pay#8 attempt 1 failed: CardDeclined: no
        9 +2s ActivityFailed #8 max_attempts: CardDeclined: no
        10 +2s ActivityScheduled give_back to undo #5 {"booking":"hotel-1"}
          +2s give_back#10 attempt 1 failed: closed for lunch; again in 1h
        11 +30m CancelRequested enough
        12 +1h ActivityCompleted #10 (attempt 2) null
        13 +1h ActivityScheduled give_back to undo #2 {"booking":"train-1"}
          +1h give_back#13 attempt 1 failed: closed for lunch; again in 1h
        14 +2h ActivityCompleted #13 (attempt 2) null
        15 +2h RunCancelled (compensation complete) CardDeclined: no
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn a_limit_that_is_passed_undoes_what_was_done_across_a_restart() {
    #[workflow]
    async fn too_much(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(book("train".into())).compensate_with(|train| undo(train)).await?;
        let calls = (0..5).map(|number| {
            ctx.call(book(format!("hotel {number}"))).compensate_with(|hotel| undo(hotel))
        });
        ctx.join_all(calls).await.map(drop)
    }
    let app = TestApp::builder()
        .workflow(too_much)
        .activity(book)
        .stub(give_back, |_, attempt| match attempt {
            1 => Err(Failure::new("closed for lunch")),
            _ => Ok(()),
        })
        .retry(RetryPolicy::fixed(HOUR).jitter(Jitter::None))
        .options(|options| options.max_open_calls = 4)
        .start()
        .await;
    let run = app.start("much-1", too_much()).await;
    app.advance(HOUR / 2).await;
    app.restart().await;
    assert_eq!(run.failure().await.type_name.as_deref(), Some("OpenCallsLimit"));
    expect![[r#"
        1 +0ms RunStarted too_much {}
        2 +0ms ActivityScheduled book {"what":"train"}
        3 +1s ActivityCompleted #2 "train-1"
        4 +1s CompensationRecorded #2 give_back {"booking":"train-1"}
        5 +1s ActivityScheduled book {"what":"hotel 0"}
          +1s book#5 attempt 1 cancelled: cancelled: the workflow gave it up
        6 +1s ActivityScheduled book {"what":"hotel 1"}
          +1s book#6 attempt 1 cancelled: cancelled: the workflow gave it up
        7 +1s ActivityScheduled book {"what":"hotel 2"}
          +1s book#7 attempt 1 cancelled: cancelled: the workflow gave it up
        8 +1s ActivityScheduled book {"what":"hotel 3"}
          +1s book#8 attempt 1 cancelled: cancelled: the workflow gave it up
        9 +1s ActivityScheduled book {"what":"hotel 4"}
          +1s book#9 attempt 1 cancelled: cancelled: the workflow gave it up
        10 +1s LimitPassed OpenCallsLimit: 5 activity calls are open at once, 4 are allowed
        11 +1s ActivityCancelRequested #5
        12 +1s ActivityCancelRequested #6
        13 +1s ActivityCancelRequested #7
        14 +1s ActivityCancelRequested #8
        15 +1s ActivityCancelRequested #9
        16 +1s ActivityFailed #5 cancelled: cancelled: the workflow gave it up
        17 +1s ActivityFailed #6 cancelled: cancelled: the workflow gave it up
        18 +1s ActivityFailed #7 cancelled: cancelled: the workflow gave it up
        19 +1s ActivityFailed #8 cancelled: cancelled: the workflow gave it up
        20 +1s ActivityFailed #9 cancelled: cancelled: the workflow gave it up
        21 +1s ActivityScheduled give_back to undo #2 {"booking":"train-1"}
          +1s give_back#21 attempt 1 failed: closed for lunch; again in 1h
        22 +1h ActivityCompleted #21 (attempt 2) null
        23 +1h RunFailed (compensation complete) OpenCallsLimit: 5 activity calls are open at once, 4 are allowed
    "#]].assert_eq(&run.history().await);
}

#[test]
async fn a_compensation_that_panics_where_it_is_made_blocks_the_run() {
    #[workflow]
    async fn careless(ctx: WorkflowContext) -> Result<(), Failure> {
        let cannot = |_: &String| -> give_back { panic!("cannot say") };
        ctx.call(book("train".into())).compensate_with(cannot).await.map(drop)
    }
    let app = app().workflow(careless).start().await;
    app.start("careless-1", careless()).await;
    app.advance(10 * SECOND).await;
    let instance = app.describe("careless-1").await.instance;
    assert_eq!(instance.status, Status::Blocked);
    assert!(instance.error.unwrap().contains("cannot say"));
}
