//! What operators do to activity calls: every cell of the table in the guide "Operating", with a
//! crash before and after every commit.

use std::time::Duration;

use expect_test::{Expect, expect};
use resurgam::prelude::*;
use resurgam::retry::{Exhausted, Idempotency, Jitter};
use resurgam::{Act, Acted, CallHandle, Kind, Status, WaitsFor};
use resurgam_testing::TestApp;
use resurgam_watchdog::test;

use crate::common::acted::takes_effect_once;
use crate::common::crashes;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// Fails, and waits for an hour.
const HOURLY: RetryPolicy = RetryPolicy::fixed(HOUR).max_attempts(5).jitter(Jitter::None);

#[activity(retry = HOURLY)]
async fn charge(cents: u32) -> Result<u32, Failure> {
    Ok(cents)
}

/// Runs for an hour.
#[activity(retry = HOURLY)]
async fn print(ctx: ActivityContext, pages: u32) -> Result<u32, Failure> {
    tokio::select! {
        () = ctx.sleep(HOUR) => {}
        () = ctx.cancelled() => return Err(Failure::new("told to end")),
    }
    match (pages, ctx.attempt()) {
        (0, _) => Err(Failure::new("no paper")),
        (1, _) => Err(Failure::terminal("no printer")),
        (pages, _) => Ok(pages),
    }
}

#[activity]
async fn tear_up(pages: u32) -> Result<u32, Failure> {
    Ok(pages)
}

#[workflow]
async fn order(ctx: WorkflowContext, cents: u32) -> Result<u32, Failure> {
    ctx.call(charge(cents)).await
}

#[workflow]
async fn job(ctx: WorkflowContext, pages: u32) -> Result<u32, Failure> {
    ctx.call(print(pages)).await
}

/// Goes on although nobody wants it any more.
#[activity(retry = HOURLY)]
async fn print_all(ctx: ActivityContext, pages: u32) -> Result<u32, Failure> {
    ctx.sleep(HOUR).await;
    Ok(pages)
}

/// Gives a call up that can be undone, and waits for how it ends.
#[workflow]
async fn given_up(ctx: WorkflowContext) -> Result<u32, Failure> {
    let printed = ctx.call(print_all(7)).compensate_with(|pages| tear_up(*pages));
    match ctx.timeout(SECOND, printed).await {
        Ok(printed) => printed,
        Err(elapsed) => Err(elapsed.into()),
    }
}

async fn app() -> TestApp {
    TestApp::builder()
        .workflow(order)
        .workflow(job)
        .workflow(given_up)
        .activity(print)
        .activity(print_all)
        .activity(tear_up)
        .stub(charge, |call, attempt| match (call.cents, attempt) {
            (cents, 1..=2) => Err(Failure::of_type("BankDown", format!("{cents} not taken"))),
            (cents, _) => Ok(cents),
        })
        .options(|options| options.grace = Duration::from_secs(10))
        .start()
        .await
}

/// Where a call is when somebody acts on it.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In a backoff after its first attempt.
    Waits,
    /// An attempt runs; it succeeds, or fails, after an hour.
    Runs { pages: u32 },
    /// Its workflow gave it up.
    Settles,
    /// Somebody paused it in its backoff, a minute ago.
    Paused,
}

impl Place {
    /// The instance and the call.
    const fn call(self) -> &'static str {
        match self {
            Place::Waits | Place::Paused => "charge#2",
            Place::Runs { .. } => "print#2",
            Place::Settles => "print_all#2",
        }
    }

    async fn reach(self, app: &TestApp) {
        match self {
            Place::Waits => drop(app.start("it", order(700)).await),
            Place::Paused => {
                app.start("it", order(700)).await;
                app.advance(60 * SECOND).await;
                let paused = app.act("it", "charge#2", |call| call.pause().by("ana")).await;
                paused.unwrap();
            }
            Place::Runs { pages } => drop(app.start("it", job(pages)).await),
            Place::Settles => drop(app.start("it", given_up()).await),
        }
        app.advance(60 * SECOND).await;
    }
}

/// What is answered, and the history a day later.
async fn play(app: &TestApp, place: Place, act: impl Fn(&CallHandle) -> Act) -> (Acted, String) {
    place.reach(app).await;
    let acted = app.act("it", place.call(), |call| act(call).by("bob").reason("ticket 17")).await;
    let acted = acted.unwrap();
    app.advance(24 * HOUR).await;
    (acted, app.history("it").await)
}

/// What is compared of a history. How long a compensation waits for the attempt of a call that was
/// given up depends on whether the process knows when that has ended.
fn told(place: Place, history: &str) -> String {
    match place {
        Place::Settles => history.replace("+1m 10s ", "+1m 11s "),
        Place::Waits | Place::Runs { .. } | Place::Paused => history.to_string(),
    }
}

/// Compares what is answered and the history, and that both are the same after a crash at any
/// commit.
async fn check(place: Place, act: impl Fn(&CallHandle) -> Act, expected: Expect) {
    let app = app().await;
    let (acted, history) = play(&app, place, &act).await;
    expected.assert_eq(&format!("{acted}\n{history}"));
    for crash in crashes(app.commits()) {
        let app = self::app().await;
        app.faults().crash(crash);
        let (crashed, story) = play(&app, place, &act).await;
        // An attempt that was lost with the process shifts what follows.
        if !story.contains(" lost: ") {
            assert_eq!(crashed, acted, "{place:?} {crash:?}");
            assert_eq!(told(place, &story), told(place, &history), "{place:?} {crash:?}");
        }
        let asked = story.matches("operator bob").count();
        // A call that ended with an attempt that was lost is not acted on at all.
        assert!(asked <= 1, "{place:?} {crash:?}: an action is carried out once\n{story}");
        if crashed.changed() {
            takes_effect_once(&crashed.to_string(), &story, "bob");
        }
    }
}

#[test]
async fn a_call_that_waits_is_retried_at_once() {
    check(
        Place::Waits,
        |call| call.retry(),
        expect![[r#"
        retried charge#2 now
        1 +0ms RunStarted order {"cents":700}
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: 700 not taken; again in 1h
          +1m operator bob: retried charge#2 now ("ticket 17")
          +1m charge#2 attempt 2 failed: BankDown: 700 not taken; again in 1h
        3 +1h 1m ActivityCompleted #2 (attempt 3) 700
        4 +1h 1m RunCompleted 700
    "#]],
    )
    .await;
}

#[test]
async fn a_retry_with_a_reset_counts_failures_from_0() {
    check(
        Place::Waits,
        |call| call.retry().reset(),
        expect![[r#"
        retried charge#2 now, with failures counted from 0
        1 +0ms RunStarted order {"cents":700}
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: 700 not taken; again in 1h
          +1m operator bob: retried charge#2 now, with failures counted from 0 ("ticket 17")
          +1m charge#2 attempt 2 failed: BankDown: 700 not taken; again in 1h
        3 +1h 1m ActivityCompleted #2 (attempt 3) 700
        4 +1h 1m RunCompleted 700
    "#]],
    )
    .await;
}

#[test]
async fn a_call_that_waits_is_paused_until_it_is_resumed() {
    check(
        Place::Waits,
        |call| call.pause(),
        expect![[r#"
        paused charge#2 (attempt 2 is due in 59m)
        1 +0ms RunStarted order {"cents":700}
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: 700 not taken; again in 1h
          +1m operator bob: paused charge#2 (attempt 2 is due in 59m) ("ticket 17")
    "#]],
    )
    .await;
}

#[test]
async fn what_is_not_paused_cannot_be_resumed() {
    check(
        Place::Waits,
        |call| call.resume(),
        expect![[r#"
        charge#2 is not paused; nothing to resume
        1 +0ms RunStarted order {"cents":700}
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: 700 not taken; again in 1h
          +1m operator bob: charge#2 is not paused; nothing to resume ("ticket 17")
          +1h charge#2 attempt 2 failed: BankDown: 700 not taken; again in 1h
        3 +2h ActivityCompleted #2 (attempt 3) 700
        4 +2h RunCompleted 700
    "#]],
    )
    .await;
}

#[test]
async fn a_call_that_waits_is_completed_with_a_value() {
    check(
        Place::Waits,
        |call| call.complete(&9),
        expect![[r#"
        completed charge#2
        1 +0ms RunStarted order {"cents":700}
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: 700 not taken; again in 1h
          +1m operator bob: completed charge#2 ("ticket 17")
        3 +1m ActivityCompleted #2 9
        4 +1m RunCompleted 9
    "#]],
    )
    .await;
}

#[test]
async fn a_value_that_the_workflow_could_not_read_is_refused() {
    check(Place::Waits, |call| call.complete(&"nine"), expect![[r#"
        charge#2 cannot end with this value: invalid type: string "nine", expected u32 at line 1 column 6
        1 +0ms RunStarted order {"cents":700}
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: 700 not taken; again in 1h
          +1m operator bob: charge#2 cannot end with this value: invalid type: string "nine", expected u32 at line 1 column 6 ("ticket 17")
          +1h charge#2 attempt 2 failed: BankDown: 700 not taken; again in 1h
        3 +2h ActivityCompleted #2 (attempt 3) 700
        4 +2h RunCompleted 700
    "#]]).await;
}

#[test]
async fn a_value_that_is_too_large_for_a_result_is_refused_although_nobody_checks_it() {
    let app = app().await;
    Place::Waits.reach(&app).await;
    let large = "x".repeat(2 << 20);
    let acted = app.act("it", "charge#2", |call| call.complete(&large).unchecked()).await.unwrap();
    let why = "the result of 2097154 bytes is larger than the 2097152 allowed";
    let told = format!("charge#2 cannot end with this value: {why}");
    assert_eq!((acted.changed(), acted.to_string()), (false, told));
    assert_eq!(app.describe("it").await.pending.len(), 1);
}

#[test]
async fn a_call_that_waits_fails_with_the_last_failure_as_the_cause() {
    check(
        Place::Waits,
        |call| call.fail("we give up"),
        expect![[r#"
        failed charge#2
        1 +0ms RunStarted order {"cents":700}
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: 700 not taken; again in 1h
          +1m operator bob: failed charge#2 ("ticket 17")
        3 +1m ActivityFailed #2 operator: FailedByOperator: we give up
        4 +1m RunFailed FailedByOperator: we give up
    "#]],
    )
    .await;
}

#[test]
async fn another_policy_decides_again_about_a_call_in_its_backoff() {
    let every_two_minutes = RetryPolicy::fixed(120 * SECOND).max_attempts(3).jitter(Jitter::None);
    check(Place::Waits, |call| call.set_policy(every_two_minutes.clone()), expect![[r#"
        charge#2 follows another policy from now on (attempt 2 is due in 1m)
        1 +0ms RunStarted order {"cents":700}
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: 700 not taken; again in 1h
          +1m operator bob: charge#2 follows another policy from now on (attempt 2 is due in 1m) ("ticket 17")
          +2m charge#2 attempt 2 failed: BankDown: 700 not taken; again in 2m
        3 +4m ActivityCompleted #2 (attempt 3) 700
        4 +4m RunCompleted 700
    "#]]).await;
}

#[test]
async fn another_policy_can_end_a_call_in_its_backoff() {
    let never = RetryPolicy::DEFAULT.never_for(&["BankDown"]);
    check(Place::Waits, |call| call.set_policy(never.clone()), expect![[r#"
        charge#2 ended by its new policy: non_retryable: its type is in never_for
        1 +0ms RunStarted order {"cents":700}
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: 700 not taken; again in 1h
          +1m operator bob: charge#2 ended by its new policy: non_retryable: its type is in never_for ("ticket 17")
        3 +1m ActivityFailed #2 non_retryable: BankDown: 700 not taken
        4 +1m RunFailed BankDown: 700 not taken
    "#]]).await;
}

#[test]
async fn a_running_attempt_is_not_retried() {
    check(
        Place::Runs { pages: 3 },
        |call| call.retry(),
        expect![[r#"
        print#2 is running attempt 1; nothing to retry
        1 +0ms RunStarted job {"pages":3}
        2 +0ms ActivityScheduled print {"pages":3}
          +1m operator bob: print#2 is running attempt 1; nothing to retry ("ticket 17")
        3 +1h ActivityCompleted #2 3
        4 +1h RunCompleted 3
    "#]],
    )
    .await;
}

#[test]
async fn a_pause_lets_the_attempt_that_runs_complete_the_call() {
    check(
        Place::Runs { pages: 3 },
        |call| call.pause(),
        expect![[r#"
        asked print#2 to pause when attempt 1 has failed
        1 +0ms RunStarted job {"pages":3}
        2 +0ms ActivityScheduled print {"pages":3}
          +1m operator bob: asked print#2 to pause when attempt 1 has failed ("ticket 17")
        3 +1h ActivityCompleted #2 3
        4 +1h RunCompleted 3
    "#]],
    )
    .await;
}

#[test]
async fn a_pause_takes_hold_when_the_attempt_that_runs_fails() {
    check(
        Place::Runs { pages: 0 },
        |call| call.pause(),
        expect![[r#"
        asked print#2 to pause when attempt 1 has failed
        1 +0ms RunStarted job {"pages":0}
        2 +0ms ActivityScheduled print {"pages":0}
          +1m operator bob: asked print#2 to pause when attempt 1 has failed ("ticket 17")
          +1h print#2 attempt 1 failed: no paper; again in 1h
    "#]],
    )
    .await;
}

#[test]
async fn a_terminal_failure_ends_a_call_that_was_to_pause() {
    check(
        Place::Runs { pages: 1 },
        |call| call.pause(),
        expect![[r#"
        asked print#2 to pause when attempt 1 has failed
        1 +0ms RunStarted job {"pages":1}
        2 +0ms ActivityScheduled print {"pages":1}
          +1m operator bob: asked print#2 to pause when attempt 1 has failed ("ticket 17")
          +1h print#2 attempt 1 failed: no printer
        3 +1h ActivityFailed #2 terminal: no printer
        4 +1h RunFailed no printer
    "#]],
    )
    .await;
}

#[test]
async fn a_running_attempt_that_nobody_paused_cannot_be_resumed() {
    check(
        Place::Runs { pages: 3 },
        |call| call.resume(),
        expect![[r#"
        print#2 is running attempt 1; nothing to resume
        1 +0ms RunStarted job {"pages":3}
        2 +0ms ActivityScheduled print {"pages":3}
          +1m operator bob: print#2 is running attempt 1; nothing to resume ("ticket 17")
        3 +1h ActivityCompleted #2 3
        4 +1h RunCompleted 3
    "#]],
    )
    .await;
}

#[test]
async fn a_call_that_runs_is_completed_and_its_attempt_is_told() {
    check(
        Place::Runs { pages: 3 },
        |call| call.complete(&9),
        expect![[r#"
        completed print#2
        1 +0ms RunStarted job {"pages":3}
        2 +0ms ActivityScheduled print {"pages":3}
          +1m operator bob: completed print#2 ("ticket 17")
        3 +1m ActivityCompleted #2 9
        4 +1m RunCompleted 9
    "#]],
    )
    .await;
}

#[test]
async fn a_call_that_runs_fails_and_its_attempt_is_told() {
    check(
        Place::Runs { pages: 3 },
        |call| call.fail("enough"),
        expect![[r#"
        failed print#2
        1 +0ms RunStarted job {"pages":3}
        2 +0ms ActivityScheduled print {"pages":3}
          +1m operator bob: failed print#2 ("ticket 17")
        3 +1m ActivityFailed #2 operator: FailedByOperator: enough
        4 +1m RunFailed FailedByOperator: enough
    "#]],
    )
    .await;
}

#[test]
async fn another_policy_decides_about_the_attempt_that_runs() {
    let once = RetryPolicy::fixed(SECOND).max_attempts(1);
    check(
        Place::Runs { pages: 0 },
        |call| call.set_policy(once.clone()),
        expect![[r#"
        print#2 follows another policy from now on
        1 +0ms RunStarted job {"pages":0}
        2 +0ms ActivityScheduled print {"pages":0}
          +1m operator bob: print#2 follows another policy from now on ("ticket 17")
          +1h print#2 attempt 1 failed: no paper
        3 +1h ActivityFailed #2 max_attempts: no paper
        4 +1h RunFailed no paper
    "#]],
    )
    .await;
}

#[test]
async fn a_call_that_was_given_up_is_left_to_end() {
    for act in [CallHandle::retry, CallHandle::pause, CallHandle::resume] {
        let app = app().await;
        let (acted, _) = play(&app, Place::Settles, act).await;
        assert!(!acted.changed(), "{acted}");
        assert!(acted.to_string().contains("was given up by its workflow"), "{acted}");
    }
    check(Place::Settles, |call| call.fail("no"), expect![[r#"
        print_all#2 was given up by its workflow and is ending; nothing to fail
        1 +0ms RunStarted given_up {}
        2 +0ms ActivityScheduled print_all {"pages":7}
        3 +0ms TimerStarted until +1s
        4 +1s TimerFired #3
        5 +1s ActivityCancelRequested #2
          +1m operator bob: print_all#2 was given up by its workflow and is ending; nothing to fail ("ticket 17")
        6 +1h ActivityCompleted #2 after cancel 7
        7 +1h CompensationRecorded #2 tear_up {"pages":7}
        8 +1h ActivityScheduled tear_up to undo #2 {"pages":7}
        9 +1h ActivityCompleted #8 7
        10 +1h RunFailed (compensation complete) Elapsed: not done within 1s
    "#]]).await;
}

#[test]
async fn a_call_that_was_given_up_can_be_completed_and_is_undone() {
    check(
        Place::Settles,
        |call| call.complete(&9),
        expect![[r#"
            completed print_all#2
            1 +0ms RunStarted given_up {}
            2 +0ms ActivityScheduled print_all {"pages":7}
            3 +0ms TimerStarted until +1s
            4 +1s TimerFired #3
            5 +1s ActivityCancelRequested #2
              +1m operator bob: completed print_all#2 ("ticket 17")
            6 +1m ActivityCompleted #2 after cancel 9
            7 +1m CompensationRecorded #2 tear_up {"pages":9}
            8 +1m ActivityScheduled tear_up to undo #2 {"pages":9}
            9 +1m 10s ActivityCompleted #8 9
            10 +1m 10s RunFailed (compensation complete) Elapsed: not done within 1s
        "#]],
    )
    .await;
}

#[test]
async fn a_paused_call_is_resumed_and_not_retried() {
    check(
        Place::Paused,
        |call| call.retry(),
        expect![[r#"
        charge#2 is paused; resume it instead
        1 +0ms RunStarted order {"cents":700}
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: 700 not taken; again in 1h
          +1m operator ana: paused charge#2 (attempt 2 is due in 59m)
          +2m operator bob: charge#2 is paused; resume it instead ("ticket 17")
    "#]],
    )
    .await;
}

#[test]
async fn a_paused_call_stays_paused() {
    check(
        Place::Paused,
        |call| call.pause(),
        expect![[r#"
        charge#2 is paused; it stays so
        1 +0ms RunStarted order {"cents":700}
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: 700 not taken; again in 1h
          +1m operator ana: paused charge#2 (attempt 2 is due in 59m)
          +2m operator bob: charge#2 is paused; it stays so ("ticket 17")
    "#]],
    )
    .await;
}

#[test]
async fn a_resumed_call_goes_on_at_its_due_time() {
    check(
        Place::Paused,
        |call| call.resume(),
        expect![[r#"
        resumed charge#2 (attempt 2 is due in 58m)
        1 +0ms RunStarted order {"cents":700}
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: 700 not taken; again in 1h
          +1m operator ana: paused charge#2 (attempt 2 is due in 59m)
          +2m operator bob: resumed charge#2 (attempt 2 is due in 58m) ("ticket 17")
          +1h charge#2 attempt 2 failed: BankDown: 700 not taken; again in 1h
        3 +2h ActivityCompleted #2 (attempt 3) 700
        4 +2h RunCompleted 700
    "#]],
    )
    .await;
}

#[test]
async fn a_paused_call_ends_with_a_value() {
    check(
        Place::Paused,
        |call| call.complete(&9),
        expect![[r#"
        completed charge#2
        1 +0ms RunStarted order {"cents":700}
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: 700 not taken; again in 1h
          +1m operator ana: paused charge#2 (attempt 2 is due in 59m)
          +2m operator bob: completed charge#2 ("ticket 17")
        3 +2m ActivityCompleted #2 9
        4 +2m RunCompleted 9
    "#]],
    )
    .await;
}

#[test]
async fn a_paused_call_ends_with_a_failure() {
    check(
        Place::Paused,
        |call| call.fail("enough"),
        expect![[r#"
        failed charge#2
        1 +0ms RunStarted order {"cents":700}
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: 700 not taken; again in 1h
          +1m operator ana: paused charge#2 (attempt 2 is due in 59m)
          +2m operator bob: failed charge#2 ("ticket 17")
        3 +2m ActivityFailed #2 operator: FailedByOperator: enough
        4 +2m RunFailed FailedByOperator: enough
    "#]],
    )
    .await;
}

#[test]
async fn another_policy_for_a_paused_call_holds_when_it_is_resumed() {
    let once = RetryPolicy::fixed(SECOND).max_attempts(2);
    check(
        Place::Paused,
        |call| call.set_policy(once.clone()),
        expect![[r#"
        charge#2 follows another policy from now on
        1 +0ms RunStarted order {"cents":700}
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: 700 not taken; again in 1h
          +1m operator ana: paused charge#2 (attempt 2 is due in 59m)
          +2m operator bob: charge#2 follows another policy from now on ("ticket 17")
    "#]],
    )
    .await;
}

#[test]
async fn a_call_that_is_over_or_was_never_made_is_refused_with_what_became_of_it() {
    let app = app().await;
    let run = app.start("it", order(700)).await;
    run.result().await.unwrap();
    let act = async |call: &str| app.act("it", call, |call| call.retry()).await;
    assert_eq!(act("charge#2").await.unwrap().to_string(), "charge#2 completed");
    assert_eq!(act("charge").await.unwrap().to_string(), "no call of charge is open");
    let error = act("#1").await.unwrap_err().to_string();
    assert!(error.contains("#1 of it is no activity call"), "{error}");
    let error = act("ship#2").await.unwrap_err().to_string();
    assert!(error.contains("#2 of it is a call of charge"), "{error}");
    let error = app.act("nobody", "charge#2", |call| call.retry()).await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
}

#[test]
async fn a_repeated_request_gets_the_first_answer() {
    let app = app().await;
    Place::Waits.reach(&app).await;
    let client = app.client();
    let pause = client.call("it", "charge#2").pause().request_id("ticket-17");
    let first = pause.clone().await.unwrap();
    assert!(first.changed());
    assert_eq!(pause.await.unwrap(), first);
    let resume = client.call("it", "charge#2").resume().request_id("ticket-17");
    assert_eq!(resume.await.unwrap(), first, "the id says which request it is");
    let nameless = client.call("it", "charge#2").resume().request_id("").await.unwrap_err();
    assert!(nameless.to_string().ends_with("an empty request id is not allowed"), "{nameless}");
    assert_eq!(app.describe("it").await.pending[0].waits_for, Some(WaitsFor::Operator));
}

#[test]
async fn who_pauses_what_and_why_is_shown() {
    let app = app().await;
    Place::Paused.reach(&app).await;
    let call = app.describe("it").await.pending.remove(0);
    let pause = call.paused.unwrap();
    assert_eq!(pause.by.as_deref(), Some("ana"));
    assert_eq!((call.next_due, call.waits_for), (None, Some(WaitsFor::Operator)));
    let actions = app.client().actions("it").await.unwrap();
    assert_eq!(actions.len(), 1);
    assert_eq!(actions[0].request.action.name(), "pause");
}

/// Has an hour in all.
#[activity(retry = HOURLY, total_timeout = 2 * HOUR)]
async fn bounded() -> Result<u32, Failure> {
    Err(Failure::new("down"))
}

#[test]
async fn the_clock_of_a_call_stands_still_while_it_is_paused_unless_somebody_lets_it_run() {
    for runs in [false, true] {
        let app = TestApp::builder().activity(bounded).start().await;
        let it = app.submit("it", bounded()).await.unwrap();
        app.advance(60 * SECOND).await;
        let pause = |call: &CallHandle| match runs {
            true => call.pause().clock_runs(),
            false => call.pause(),
        };
        app.act("it", "bounded", pause).await.unwrap();
        app.advance(10 * HOUR).await;
        match runs {
            true => assert_eq!(it.failure().await.why.as_deref(), Some("total_timeout")),
            false => {
                app.act("it", "bounded", |call| call.resume()).await.unwrap();
                assert_eq!(it.failure().await.why.as_deref(), Some("total_timeout"));
                // Ten hours of pause, and less than two of its own.
                assert_eq!(app.attempts(bounded), 3);
            }
        }
    }
}

#[activity(retry = RetryPolicy::fixed(HOUR).max_attempts(1).idempotency(Idempotency::AtMostOnce))]
async fn once() -> Result<u32, Failure> {
    Err(Failure::snooze(HOUR))
}

#[test]
async fn what_must_not_run_twice_is_not_begun_again_from_0() {
    let app = TestApp::builder().activity(once).start().await;
    app.submit("it", once()).await.unwrap();
    app.advance(60 * SECOND).await;
    let refused = app.act("it", "once", |call| call.retry().reset()).await.unwrap();
    let expected = "once#2 must not run twice (at_most_once); complete or fail it";
    assert_eq!(refused.to_string(), expected);
}

/// Panics while its call waits.
#[workflow]
async fn breaks(ctx: WorkflowContext) -> Result<u32, Failure> {
    let breaks = async {
        ctx.sleep(SECOND).await?;
        panic!("it breaks");
    };
    let (charged, broken): (_, Result<(), Failure>) = tokio::join!(ctx.call(charge(7)), breaks);
    broken.and(charged)
}

#[test]
async fn a_call_of_a_blocked_run_can_be_acted_on() {
    let app = TestApp::builder()
        .workflow(breaks)
        .stub(charge, |_, _| Err(Failure::new("down")))
        .start()
        .await;
    drop(app.start("it", breaks()).await);
    app.advance(60 * SECOND).await;
    assert_eq!(app.describe("it").await.instance.status, Status::Blocked);
    let retried = app.act("it", "charge#2", |call| call.retry()).await.unwrap();
    assert_eq!(retried.to_string(), "retried charge#2 now");
    let completed = app.act("it", "charge#2", |call| call.complete(&9)).await.unwrap();
    assert_eq!(completed.to_string(), "completed charge#2");
    let again = app.act("it", "charge#2", |call| call.complete(&9)).await.unwrap();
    assert!(!again.changed(), "{again}");
}

/// Gives up after two attempts, and waits for an operator.
const PAUSING: RetryPolicy = RetryPolicy::fixed(SECOND).max_attempts(2).jitter(Jitter::None);

#[activity]
async fn notify(cents: u32) -> Result<u32, Failure> {
    Ok(cents)
}

/// Reserves first, so that there is something to undo, and would go on without a notice.
#[workflow]
async fn shop(ctx: WorkflowContext, exhausted: String) -> Result<u32, Failure> {
    ctx.call(print_all(1)).compensate_with(|pages| tear_up(*pages)).await?;
    let policy = PAUSING.on_exhausted(match exhausted.as_str() {
        "pause" => Exhausted::Pause { wait: None },
        "pause for an hour" => Exhausted::Pause { wait: Some(HOUR) },
        "compensate" => Exhausted::Compensate,
        "fallback" => Exhausted::FallbackValue(serde_json::json!(5)),
        _ => Exhausted::Fail,
    });
    Ok(ctx.call(notify(7)).retry(policy).await.unwrap_or(0))
}

/// What becomes of a shop whose notices fail until the fifth attempt, after a day and, if somebody
/// resumes it then, a day later.
async fn exhaust(exhausted: &str, resume: bool) -> String {
    let app = || async {
        TestApp::builder()
            .workflow(shop)
            .activity(print_all)
            .activity(tear_up)
            .stub(notify, |call, attempt| match attempt {
                1..=4 => Err(Failure::of_type("MailDown", "no answer")),
                _ => Ok(call.cents),
            })
            .start()
            .await
    };
    let play = async |app: &TestApp| {
        drop(app.start("it", shop(exhausted.to_string())).await);
        app.advance(24 * HOUR).await;
        if resume {
            let resumed = app.act("it", "notify", |call| call.resume().reset().by("ana")).await;
            resumed.unwrap();
            app.advance(24 * HOUR).await;
        }
        app.history("it").await
    };
    let quiet = app().await;
    let history = play(&quiet).await;
    for crash in crashes(quiet.commits()) {
        let app = app().await;
        app.faults().crash(crash);
        let story = play(&app).await;
        if !story.contains(" lost: ") {
            assert_eq!(story, history, "{exhausted} {crash:?}");
        }
    }
    history
}

#[test]
async fn a_call_that_ran_out_of_attempts_waits_for_an_operator_and_begins_again_from_0() {
    expect![[r#"
        1 +0ms RunStarted shop {"exhausted":"pause"}
        2 +0ms ActivityScheduled print_all {"pages":1}
        3 +1h ActivityCompleted #2 1
        4 +1h CompensationRecorded #2 tear_up {"pages":1}
        5 +1h ActivityScheduled notify {"cents":7}
          +1h notify#5 attempt 1 failed: MailDown: no answer; again in 1s
          +1h notify#5 attempt 2 failed: MailDown: no answer
          +1d operator ana: resumed notify#5, with failures counted from 0 (attempt 3 is due now)
          +1d notify#5 attempt 3 failed: MailDown: no answer; again in 1s
          +1d notify#5 attempt 4 failed: MailDown: no answer
    "#]]
    .assert_eq(&exhaust("pause", true).await);
}

#[test]
async fn a_pause_that_ends_by_itself_fails_the_call_for_the_reason_that_paused_it() {
    expect![[r#"
        1 +0ms RunStarted shop {"exhausted":"pause for an hour"}
        2 +0ms ActivityScheduled print_all {"pages":1}
        3 +1h ActivityCompleted #2 1
        4 +1h CompensationRecorded #2 tear_up {"pages":1}
        5 +1h ActivityScheduled notify {"cents":7}
          +1h notify#5 attempt 1 failed: MailDown: no answer; again in 1s
          +1h notify#5 attempt 2 failed: MailDown: no answer
        6 +2h ActivityFailed #5 (attempt 2) max_attempts: MailDown: no answer
        7 +2h RunCompleted 0
    "#]]
    .assert_eq(&exhaust("pause for an hour", false).await);
}

#[test]
async fn a_call_can_end_its_run_whatever_the_code_would_do() {
    expect![[r#"
        1 +0ms RunStarted shop {"exhausted":"compensate"}
        2 +0ms ActivityScheduled print_all {"pages":1}
        3 +1h ActivityCompleted #2 1
        4 +1h CompensationRecorded #2 tear_up {"pages":1}
        5 +1h ActivityScheduled notify {"cents":7}
          +1h notify#5 attempt 1 failed: MailDown: no answer; again in 1s
          +1h notify#5 attempt 2 failed: MailDown: no answer
        6 +1h ActivityFailed #5 (attempt 2) max_attempts ends the run: MailDown: no answer
        7 +1h ActivityScheduled tear_up to undo #2 {"pages":1}
        8 +1h ActivityCompleted #7 1
        9 +1h RunFailed (compensation complete) MailDown: no answer
    "#]]
    .assert_eq(&exhaust("compensate", false).await);
}

#[test]
async fn a_call_that_ran_out_of_attempts_falls_back_to_a_value() {
    expect![[r#"
        1 +0ms RunStarted shop {"exhausted":"fallback"}
        2 +0ms ActivityScheduled print_all {"pages":1}
        3 +1h ActivityCompleted #2 1
        4 +1h CompensationRecorded #2 tear_up {"pages":1}
        5 +1h ActivityScheduled notify {"cents":7}
          +1h notify#5 attempt 1 failed: MailDown: no answer; again in 1s
          +1h notify#5 attempt 2 failed: MailDown: no answer
        6 +1h ActivityCompleted #5 (attempt 2) fallback 5
        7 +1h RunCompleted 5
    "#]]
    .assert_eq(&exhaust("fallback", false).await);
}

#[test]
async fn what_retrying_stopped_is_resumed_with_a_reset_only() {
    let app = TestApp::builder()
        .stub(notify, |_, _| Err(Failure::of_type("MailDown", "no answer")))
        .start()
        .await;
    let policy = PAUSING.on_exhausted(Exhausted::Pause { wait: None });
    app.submit_with("it", notify(7), |start| start.retry(policy.clone())).await.unwrap();
    app.advance(HOUR).await;
    let call = app.describe("it").await.pending.remove(0);
    assert_eq!(call.paused.unwrap().stopped.as_deref(), Some("max_attempts"));
    let refused = app.act("it", "notify", |call| call.resume()).await.unwrap();
    expect![[r#"
        notify#2 is paused (max_attempts); resume it with a reset, so that failures are counted from 0, or complete or fail it"#]]
    .assert_eq(&refused.to_string());
}

/// An order whose bank never answers, after its first attempt.
async fn unpaid(attempts: u32) -> TestApp {
    let app = TestApp::builder()
        .stub(charge, |_, _| Err(Failure::of_type("BankDown", "no answer")))
        .start()
        .await;
    let policy = HOURLY.max_attempts(attempts);
    app.submit_with("it", charge(7), |start| start.retry(policy.clone())).await.unwrap();
    app.advance(60 * SECOND).await;
    app
}

#[test]
async fn only_a_reset_gives_a_call_all_its_attempts_again() {
    for (reset, attempts) in [(false, 2), (true, 3)] {
        let app = unpaid(2).await;
        let retry = |call: &CallHandle| match reset {
            true => call.retry().reset(),
            false => call.retry(),
        };
        app.act("it", "charge", retry).await.unwrap();
        app.advance(24 * HOUR).await;
        assert_eq!(app.attempts(charge), attempts, "reset: {reset}");
    }
}

#[test]
async fn what_an_operator_fails_is_caused_by_the_last_failure() {
    let app = unpaid(5).await;
    app.act("it", "charge", |call| call.fail("we give up")).await.unwrap();
    let failed = app.client().instance::<u32>("it").await.unwrap().unwrap();
    let error = app.wait_for("the end", failed.result()).await.unwrap_err();
    let cause = error.failure().unwrap().cause.as_ref().unwrap();
    assert_eq!(cause.type_name.as_deref(), Some("BankDown"));
}

#[test]
async fn a_policy_that_was_set_while_a_call_was_paused_decides_after_it_is_resumed() {
    let app = unpaid(5).await;
    app.act("it", "charge", |call| call.pause()).await.unwrap();
    let twice = RetryPolicy::fixed(SECOND).max_attempts(2);
    app.act("it", "charge", |call| call.set_policy(twice.clone())).await.unwrap();
    app.act("it", "charge", |call| call.resume()).await.unwrap();
    app.advance(24 * HOUR).await;
    assert_eq!(app.attempts(charge), 2);
    assert_eq!(app.describe("it").await.instance.status, Status::Failed);
}

#[test]
async fn a_pause_that_was_asked_for_is_taken_back() {
    let app = app().await;
    Place::Runs { pages: 0 }.reach(&app).await;
    app.act("it", "print", |call| call.pause().by("ana")).await.unwrap();
    let asked = app.describe("it").await.pending.remove(0).pause_asked.unwrap();
    assert_eq!(asked.by.as_deref(), Some("ana"));
    let taken_back = app.act("it", "print", |call| call.resume()).await.unwrap();
    assert_eq!(taken_back.to_string(), "took back that print#2 is to pause");
    app.advance(24 * HOUR).await;
    assert_eq!(app.attempts(print), 5, "it failed, and was tried again");
}

/// Fails once, and is undone by an activity that waits for an hour after each failure.
#[workflow]
async fn undone(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.call(tear_up(7)).compensate_with(|pages| charge(*pages)).await?;
    Err(Failure::new("sold out"))
}

#[test]
async fn a_call_that_undoes_another_takes_no_policy_that_would_undo_the_run() {
    let app = TestApp::builder()
        .workflow(undone)
        .activity(tear_up)
        .stub(charge, |_, _| Err(Failure::new("down")))
        .start()
        .await;
    drop(app.start("it", undone()).await);
    app.advance(60 * SECOND).await;
    let undoing = HOURLY.on_exhausted(Exhausted::Compensate);
    let refused = app.act("it", "charge", |call| call.set_policy(undoing.clone())).await.unwrap();
    let expected = "its policy: on_exhausted: \"compensate\" is not for a call that undoes another";
    assert!(refused.to_string().ends_with(expected), "{refused}");
    assert!(!refused.changed());
}

/// Fails each minute, for an hour after its first attempt.
const AN_HOUR: RetryPolicy =
    RetryPolicy::fixed(Duration::from_secs(60)).unlimited().jitter(Jitter::None).max_elapsed(HOUR);

#[test]
async fn the_time_that_a_call_is_retried_for_stands_still_while_it_is_paused() {
    #[activity(retry = AN_HOUR)]
    async fn hopeless() -> Result<(), Failure> {
        Err(Failure::of_type("BankDown", "no answer"))
    }

    for clock_runs in [false, true] {
        let app = TestApp::builder().activity(hopeless).start().await;
        app.submit("it", hopeless()).await.unwrap();
        app.advance(20 * 60 * SECOND).await;
        let pause = |call: &CallHandle| {
            let pause = call.pause();
            if clock_runs { pause.clock_runs() } else { pause }
        };
        let acted = app.act("it", "hopeless#2", pause).await.unwrap();
        assert!(acted.changed(), "{acted}");
        app.advance(5 * HOUR).await;
        assert_eq!(app.describe("it").await.instance.status, Status::Running);
        app.act("it", "hopeless#2", |call| call.resume()).await.unwrap();
        app.advance(SECOND).await;
        let is_open = app.describe("it").await.instance.status == Status::Running;
        assert_eq!(is_open, !clock_runs, "with clocks that run its hour is over");
        app.advance(35 * 60 * SECOND).await;
        let is_open = app.describe("it").await.instance.status == Status::Running;
        assert_eq!(is_open, !clock_runs, "40 minutes are left, and 35 have passed");
        app.advance(10 * 60 * SECOND).await;
        assert_eq!(app.describe("it").await.instance.status, Status::Failed);
    }
}

#[test]
async fn a_pause_before_the_first_attempt_gives_it_no_more_time() {
    const SHORT: RetryPolicy = RetryPolicy::fixed(Duration::from_secs(60))
        .unlimited()
        .max_elapsed(Duration::from_secs(150))
        .clock_from(resurgam::retry::ClockFrom::FirstStarted)
        .jitter(Jitter::None);
    #[activity(retry = SHORT)]
    async fn late() -> Result<(), Failure> {
        Err(Failure::new("down"))
    }
    #[activity]
    async fn blocks(ctx: ActivityContext) -> Result<(), Failure> {
        ctx.sleep(60 * SECOND).await;
        Ok(())
    }
    let app = TestApp::builder().activity(late).activity(blocks);
    let app = app.options(|options| options.slots = 1).start().await;
    app.submit("blocks", blocks()).await.unwrap();
    let it = app.submit("it", late()).await.unwrap();
    app.advance(SECOND).await;
    app.act("it", "late", |call| call.pause()).await.unwrap();
    app.advance(HOUR).await;
    app.act("it", "late", |call| call.resume()).await.unwrap();
    let failure = it.failure().await;
    // At 0, 60 and 120 s; the next one would be 180 s after the first.
    assert_eq!((failure.why.as_deref(), failure.attempts), (Some("max_elapsed"), Some(3)));
}

#[test]
async fn a_pause_after_lost_attempts_fails_for_the_loss_and_not_for_an_older_failure() {
    const LOST: resurgam::retry::LostWorker =
        resurgam::retry::LostWorker { max: 0, ..resurgam::retry::LostWorker::DEFAULT };
    const WAIT: Exhausted = Exhausted::Pause { wait: Some(HOUR) };
    #[activity(retry = PAUSING.max_attempts(9).lost_worker(LOST).on_exhausted(WAIT))]
    async fn deadly(ctx: ActivityContext) -> Result<(), Failure> {
        if ctx.attempt() == 1 {
            return Err(Failure::of_type("BankDown", "at first"));
        }
        resurgam_testing::never(&ctx).await;
        Ok(())
    }
    let app = TestApp::builder().activity(deadly).start().await;
    let it = app.submit("it", deadly()).await.unwrap();
    app.advance(60 * SECOND).await;
    app.restart().await;
    let failure = it.failure().await;
    assert_eq!((failure.kind, failure.why.as_deref()), (Kind::WorkerLost, Some("worker_lost")));
}

#[test]
async fn a_queue_timeout_passes_while_a_call_is_paused_with_its_clocks_running() {
    #[activity(retry = HOURLY, queue_timeout = 600 * SECOND)]
    async fn queued() -> Result<(), Failure> {
        Err(Failure::new("down"))
    }
    for runs in [false, true] {
        let app = TestApp::builder().activity(queued).start().await;
        let it = app.submit("it", queued()).await.unwrap();
        app.advance(60 * SECOND).await;
        let pause = |call: &CallHandle| match runs {
            true => call.pause().clock_runs(),
            false => call.pause(),
        };
        app.act("it", "queued", pause).await.unwrap();
        app.advance(10 * HOUR).await;
        let pending = app.describe("it").await.pending;
        match runs {
            // Due after an hour, and nobody took it in the ten minutes that followed.
            true => assert_eq!(it.failure().await.why.as_deref(), Some("queue_timeout")),
            false => assert_eq!(pending[0].waits_for, Some(WaitsFor::Operator)),
        }
    }
}

/// Does not hear that its time is up.
#[activity(retry = RetryPolicy::once(), timeout = 60 * SECOND)]
async fn deaf(ctx: ActivityContext) -> Result<u32, Failure> {
    ctx.sleep(HOUR).await;
    Ok(7)
}

/// An attempt whose time is up goes on while the run would undo what came before.
#[workflow]
async fn undone_beside(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.call(tear_up(7)).compensate_with(|pages| charge(*pages)).await?;
    ctx.call(deaf()).await
}

#[test]
async fn a_compensation_that_waits_for_a_lingering_attempt_is_not_retried_now() {
    let app = TestApp::builder()
        .workflow(undone_beside)
        .activity(tear_up)
        .activity(deaf)
        .stub(charge, |call, _| Ok(call.cents))
        .options(|options| options.grace = 600 * SECOND)
        .start()
        .await;
    drop(app.start("it", undone_beside()).await);
    app.advance(120 * SECOND).await;
    let refused = app.act("it", "charge", |call| call.retry()).await.unwrap();
    let refused = refused.to_string();
    assert!(
        refused.ends_with("waits for attempts of its run to end; nothing to retry"),
        "{refused}"
    );
    assert_eq!(app.attempts(charge), 0);
    app.advance(HOUR).await;
    assert_eq!(app.attempts(charge), 1);
}

/// A call that no worker knows.
async fn unregistered() -> TestApp {
    let app = TestApp::builder().workflow(order).start().await;
    drop(app.start("it", order(700)).await);
    app.advance(60 * SECOND).await;
    assert_eq!(app.describe("it").await.pending[0].waits_for, Some(WaitsFor::Unregistered));
    app
}

#[test]
async fn a_call_that_no_worker_knows_waits_and_can_be_paused_or_ended() {
    let answer = |act: fn(&CallHandle) -> Act| async move {
        let app = unregistered().await;
        let acted = app.act("it", "charge#2", act).await.unwrap();
        app.advance(SECOND).await;
        (acted.to_string(), app.history("it").await)
    };
    let waits = "charge#2 waits for a worker that knows charge";
    assert_eq!(answer(|call| call.retry()).await.0, format!("{waits}; nothing to retry"));
    assert_eq!(answer(|call| call.resume()).await.0, format!("{waits}; nothing to resume"));
    assert_eq!(answer(|call| call.pause()).await.0, "paused charge#2 (attempt 1 is due now)");
    let unchecked = answer(|call| call.complete(&9)).await.0;
    assert!(unchecked.contains("no worker knows the activity"), "{unchecked}");
    let (completed, history) = answer(|call| call.complete(&9).unchecked()).await;
    assert_eq!(completed, "completed charge#2");
    assert!(history.ends_with("RunCompleted 9\n"), "{history}");
    let (failed, history) = answer(|call| call.fail("nobody")).await;
    assert_eq!(failed, "failed charge#2");
    assert!(history.ends_with("RunFailed FailedByOperator: nobody\n"), "{history}");
    let (set, _) = answer(|call| call.set_policy(RetryPolicy::once())).await;
    assert_eq!(set, "charge#2 follows another policy from now on");
}

#[test]
async fn a_policy_is_not_set_while_a_call_is_settling() {
    check(Place::Settles, |call| call.set_policy(RetryPolicy::once()), expect![[r#"
        print_all#2 was given up by its workflow and is ending; nothing to decide about
        1 +0ms RunStarted given_up {}
        2 +0ms ActivityScheduled print_all {"pages":7}
        3 +0ms TimerStarted until +1s
        4 +1s TimerFired #3
        5 +1s ActivityCancelRequested #2
          +1m operator bob: print_all#2 was given up by its workflow and is ending; nothing to decide about ("ticket 17")
        6 +1h ActivityCompleted #2 after cancel 7
        7 +1h CompensationRecorded #2 tear_up {"pages":7}
        8 +1h ActivityScheduled tear_up to undo #2 {"pages":7}
        9 +1h ActivityCompleted #8 7
        10 +1h RunFailed (compensation complete) Elapsed: not done within 1s
    "#]]).await;
}

#[test]
async fn the_attempt_of_a_call_that_is_ended_by_hand_is_told() {
    static TOLD: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    #[activity]
    async fn listens(ctx: ActivityContext) -> Result<u32, Failure> {
        ctx.cancelled().await;
        TOLD.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(7)
    }
    let app = TestApp::builder().activity(listens).start().await;
    let completed = app.submit("completed", listens()).await.unwrap();
    let failed = app.submit("failed", listens()).await.unwrap();
    app.advance(SECOND).await;
    app.act("completed", "listens", |call| call.complete(&9)).await.unwrap();
    app.act("failed", "listens", |call| call.fail("enough")).await.unwrap();
    app.advance(60 * SECOND).await;
    assert_eq!(TOLD.load(std::sync::atomic::Ordering::SeqCst), 2);
    assert_eq!(completed.result().await.unwrap(), 9);
    assert_eq!(failed.failure().await.message, "enough");
}
