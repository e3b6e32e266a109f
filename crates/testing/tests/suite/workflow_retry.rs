//! A workflow with a retry policy: a run that fails is followed by another one.

use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::{Idempotency, Jitter, Match, Rule};
use resurgam::{Compensation, Kind, Outcome, Status};
use resurgam_core::EventKind;
use resurgam_core::event::{Initiator, RunContinued};
use resurgam_testing::{TestApp, TestBuilder, never};
use resurgam_watchdog::test;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

const DOUBLING: RetryPolicy =
    RetryPolicy::exponential(MINUTE).max_delay(HOUR).max_attempts(4).jitter(Jitter::None);

#[activity(retry = RetryPolicy::once())]
async fn work(item: u32) -> Result<u32, Failure> {
    Ok(item)
}

#[activity]
async fn undo(item: u32) -> Result<(), Failure> {
    let _any = item;
    Ok(())
}

#[workflow]
async fn job(ctx: WorkflowContext, item: u32) -> Result<u32, Failure> {
    ctx.sleep(SECOND).await?;
    ctx.call(work(item)).await
}

#[workflow]
async fn careful_job(ctx: WorkflowContext, item: u32) -> Result<u32, Failure> {
    let done = ctx.call(work(100)).compensate_with(|item| undo(*item)).await?;
    Ok(done + ctx.call(work(item)).await?)
}

/// An app whose `work` fails as often as the item says, with this failure.
fn failing(failure: fn() -> Failure) -> TestBuilder {
    let calls = std::sync::atomic::AtomicU32::new(0);
    TestApp::builder().workflow(job).workflow(careful_job).activity(undo).stub(
        work,
        move |call, _| {
            if call.item == 100 {
                return Ok(1);
            }
            match calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < call.item {
                true => Err(failure()),
                false => Ok(call.item),
            }
        },
    )
}

fn down() -> Failure {
    Failure::new("down")
}

/// The histories of all runs of an instance.
async fn histories(app: &TestApp, id: &str) -> String {
    let mut text = String::new();
    for run in 1..=app.describe(id).await.instance.run {
        text += &format!("run {run}\n{}", app.run_history(id, run).await);
    }
    text
}

#[test]
async fn a_run_that_fails_is_followed_by_another_one_after_the_backoff() {
    let app = failing(down).start().await;
    let run = app.start_with("job-1", job(2), |start| start.retry(&DOUBLING)).await;
    // The result follows the chain.
    assert_eq!(run.result().await.unwrap(), 2);
    expect![[r#"
        run 1
        1 +0ms RunStarted job {"item":2}
        2 +0ms TimerStarted until +1s
        3 +1s TimerFired #2
        4 +1s ActivityScheduled work {"item":2}
          +1s work#4 attempt 1 failed: down
        5 +1s ActivityFailed #4 max_attempts: down
        6 +1s RunContinued by RetryPolicy in 1m after down
        run 2
        1 +0ms RunStarted job {"item":2} attempt 2, first turn at +1m
        2 +1m TimerFired #1
        3 +1m TimerStarted until +1m 1s
        4 +1m 1s TimerFired #3
        5 +1m 1s ActivityScheduled work {"item":2}
          +1m 1s work#5 attempt 1 failed: down
        6 +1m 1s ActivityFailed #5 max_attempts: down
        7 +1m 1s RunContinued by RetryPolicy in 2m after down
        run 3
        1 +0ms RunStarted job {"item":2} attempt 3, first turn at +2m
        2 +2m TimerFired #1
        3 +2m TimerStarted until +2m 1s
        4 +2m 1s TimerFired #3
        5 +2m 1s ActivityScheduled work {"item":2}
        6 +2m 1s ActivityCompleted #5 2
        7 +2m 1s RunCompleted 2
    "#]]
    .assert_eq(&histories(&app, "job-1").await);
}

// Cadence's ContinueAsNewInitiator and backoff of a retried run.
#[test]
async fn the_events_say_who_began_the_next_run_and_how_long_it_waits() {
    let app = failing(down).start().await;
    let run = app.start_with("job-1", job(2), |start| start.retry(&DOUBLING)).await;
    run.result().await.unwrap();
    let uid = app.describe("job-1").await.instance.uid;
    let mut chain = Vec::new();
    for number in 1..=3 {
        let key = resurgam_core::RunKey { uid, run: number };
        let events = app.client().handle().store().history(key).await.unwrap();
        let EventKind::RunStarted(started) = &events[0].kind else { panic!("no beginning") };
        let waits = started.first_turn_at.map(|at| at.since(events[0].at).as_millis());
        let last = &events.last().unwrap().kind;
        let followed = match last {
            EventKind::RunContinued(RunContinued { initiator, failure, backoff_ms, input }) => {
                assert_eq!(*input, started.input);
                Some((*initiator, failure.clone().unwrap().message.clone(), *backoff_ms))
            }
            _ => None,
        };
        chain.push((started.chain.attempt, waits, started.chain.previous_delay_ms, followed));
    }
    let retried = |ms| Some((Initiator::RetryPolicy, "down".to_string(), ms));
    assert_eq!(
        chain,
        [
            (1, None, None, retried(60_000)),
            (2, Some(60_000), Some(60_000), retried(120_000)),
            (3, Some(120_000), Some(120_000), None),
        ]
    );
}

#[test]
async fn a_workflow_that_always_fails_is_tried_as_often_as_allowed() {
    let app = failing(down).start().await;
    let run = app.start_with("job-1", job(99), |start| start.retry(&DOUBLING)).await;
    assert_eq!(run.failure().await.message, "down");
    let row = app.describe("job-1").await.instance;
    assert_eq!((row.run, row.status, app.attempts(work)), (4, Status::Failed, 4));
    expect![[r#"
        1 +0ms RunStarted job {"item":99} attempt 4, first turn at +4m
        2 +4m TimerFired #1
        3 +4m TimerStarted until +4m 1s
        4 +4m 1s TimerFired #3
        5 +4m 1s ActivityScheduled work {"item":99}
          +4m 1s work#5 attempt 1 failed: down
        6 +4m 1s ActivityFailed #5 max_attempts: down
        7 +4m 1s RunFailed down
    "#]]
    .assert_eq(&app.history("job-1").await);
}

#[test]
async fn a_terminal_failure_or_one_that_is_never_retried_ends_the_chain() {
    for failure in [|| Failure::terminal("no"), || Failure::of_type("Declined", "no")] {
        let app = failing(failure).start().await;
        let policy = DOUBLING.never_for(&["Declined"]);
        let run = app.start_with("job-1", job(1), |start| start.retry(&policy)).await;
        run.failure().await;
        assert_eq!(app.describe("job-1").await.instance.run, 1);
    }
}

#[test]
async fn without_a_policy_a_workflow_that_fails_has_failed() {
    let app = failing(down).start().await;
    app.start("job-1", job(1)).await.failure().await;
    assert_eq!(app.describe("job-1").await.instance.run, 1);
}

#[test]
async fn a_restart_during_the_backoff_keeps_the_due_time() {
    let app = failing(down).start().await;
    let policy = RetryPolicy::fixed(HOUR).jitter(Jitter::None);
    let run = app.start_with("job-1", job(1), |start| start.retry(&policy)).await;
    let began = app.now();
    app.advance(HOUR / 2).await;
    app.restart().await;
    app.advance(HOUR / 4).await;
    app.restart().await;
    assert_eq!(run.result().await.unwrap(), 1);
    // A second of work, an hour, a second of work.
    assert_eq!(app.now().since(began), HOUR + 2 * SECOND);
    expect![[r#"
        1 +0ms RunStarted job {"item":1} attempt 2, first turn at +1h
        2 +1h TimerFired #1
        3 +1h TimerStarted until +1h
        4 +1h TimerFired #3
        5 +1h ActivityScheduled work {"item":1}
        6 +1h ActivityCompleted #5 1
        7 +1h RunCompleted 1
    "#]]
    .assert_eq(&app.history("job-1").await);
}

#[test]
async fn the_next_run_exists_at_once_and_its_first_turn_waits() {
    let app = failing(down).start().await;
    let run = app.start_with("job-1", job(1), |start| start.retry(&DOUBLING)).await;
    app.advance(2 * SECOND).await;
    let row = app.describe("job-1").await.instance;
    assert_eq!((row.run, row.status), (2, Status::Running));
    // It can be signalled meanwhile.
    run.signal("hello", &()).await.unwrap();
    expect![[r#"
        1 +0ms RunStarted job {"item":1} attempt 2, first turn at +1m
    "#]]
    .assert_eq(&app.history("job-1").await);
    assert_eq!(app.describe("job-1").await.unread, ["hello"]);
    run.result().await.unwrap();
}

#[test]
async fn a_run_is_cancelled_during_its_backoff_and_no_other_follows() {
    let app = failing(down).start().await;
    let run = app.start_with("job-1", job(9), |start| start.retry(&DOUBLING)).await;
    app.advance(30 * SECOND).await;
    run.cancel("enough").await.unwrap();
    assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
    expect![[r#"
        1 +0ms RunStarted job {"item":9} attempt 2, first turn at +1m
        2 +29s CancelRequested enough
        3 +29s RunCancelled Cancelled: enough
    "#]]
    .assert_eq(&app.history("job-1").await);
    app.advance(10 * HOUR).await;
    assert_eq!((app.describe("job-1").await.instance.run, app.attempts(work)), (2, 1));
}

#[test]
async fn compensations_are_finished_before_the_next_run() {
    let app = failing(down).start().await;
    let run = app.start_with("job-1", careful_job(1), |start| start.retry(&DOUBLING)).await;
    assert_eq!(run.result().await.unwrap(), 2);
    expect![[r#"
        run 1
        1 +0ms RunStarted careful_job {"item":1}
        2 +0ms ActivityScheduled work {"item":100}
        3 +0ms ActivityCompleted #2 1
        4 +0ms CompensationRecorded #2 undo {"item":1}
        5 +0ms ActivityScheduled work {"item":1}
          +0ms work#5 attempt 1 failed: down
        6 +0ms ActivityFailed #5 max_attempts: down
        7 +0ms ActivityScheduled undo to undo #2 {"item":1}
        8 +0ms ActivityCompleted #7 null
        9 +0ms RunContinued by RetryPolicy in 1m after down
        run 2
        1 +0ms RunStarted careful_job {"item":1} attempt 2, first turn at +1m
        2 +1m TimerFired #1
        3 +1m ActivityScheduled work {"item":100}
        4 +1m ActivityCompleted #3 1
        5 +1m CompensationRecorded #3 undo {"item":1}
        6 +1m ActivityScheduled work {"item":1}
        7 +1m ActivityCompleted #6 1
        8 +1m RunCompleted 2
    "#]]
    .assert_eq(&histories(&app, "job-1").await);
}

#[test]
async fn a_run_that_could_not_undo_everything_is_not_retried() {
    #[workflow]
    async fn careless_job(ctx: WorkflowContext) -> Result<u32, Failure> {
        let call = ctx.call(work(100)).compensate_with(|item| undo(*item));
        call.compensation_retry(RetryPolicy::once()).await?;
        ctx.call(work(9)).await
    }
    let app = TestApp::builder()
        .workflow(careless_job)
        .stub(work, |call, _| if call.item == 100 { Ok(1) } else { Err(down()) })
        .stub(undo, |_, _| Err(Failure::new("cannot")))
        .start()
        .await;
    let run = app.start_with("job-1", careless_job(), |start| start.retry(&DOUBLING)).await;
    run.failure().await;
    let row = app.describe("job-1").await.instance;
    assert_eq!((row.run, row.compensation), (1, Some(Compensation::Incomplete)));
}

#[test]
async fn a_run_that_fails_and_is_cancelled_while_it_undoes_is_not_retried() {
    let app = TestApp::builder()
        .workflow(careful_job)
        .stub(work, |call, _| if call.item == 100 { Ok(1) } else { Err(down()) })
        .stub(undo, |_, attempt| if attempt == 1 { Err(down()) } else { Ok(()) })
        .retry(RetryPolicy::fixed(HOUR).jitter(Jitter::None))
        .start()
        .await;
    let run = app.start_with("job-1", careful_job(9), |start| start.retry(&DOUBLING)).await;
    app.advance(MINUTE).await;
    run.cancel("enough").await.unwrap();
    assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
    assert_eq!(app.describe("job-1").await.instance.run, 1);
}

#[test]
async fn a_run_that_takes_too_long_is_retried_like_one_that_fails() {
    #[workflow]
    async fn sluggish(ctx: WorkflowContext) -> Result<u32, Failure> {
        let runs = ctx.get::<u32>("runs").unwrap_or(0) + 1;
        ctx.set("runs", &runs);
        ctx.sleep(if runs < 3 { HOUR } else { SECOND }).await?;
        Ok(runs)
    }
    let app = TestApp::builder().workflow(sluggish).start().await;
    let options = |start: resurgam::Start<u32>| start.retry(&DOUBLING).run_timeout(MINUTE);
    let run = app.start_with("slow-1", sluggish(), options).await;
    assert_eq!(run.result().await.unwrap(), 3);
    expect![[r#"
        run 1
        1 +0ms RunStarted sluggish {}
        2 +0ms KvSet runs 1
        3 +0ms TimerStarted until +1h
        4 +1m RunTimedOut run
        5 +1m RunContinued by RetryPolicy in 1m after RunTimeout: the run was not done in time, after 1m
        run 2
        1 +0ms RunStarted sluggish {} attempt 2, first turn at +1m
        2 +1m TimerFired #1
        3 +1m KvSet runs 2
        4 +1m TimerStarted until +1h 1m
        5 +2m RunTimedOut run
        6 +2m RunContinued by RetryPolicy in 2m after RunTimeout: the run was not done in time, after 1m
        run 3
        1 +0ms RunStarted sluggish {} attempt 3, first turn at +2m
        2 +2m TimerFired #1
        3 +2m KvSet runs 3
        4 +2m TimerStarted until +2m 1s
        5 +2m 1s TimerFired #4
        6 +2m 1s RunCompleted 3
    "#]].assert_eq(&histories(&app, "slow-1").await);
}

/// Ends because its own time is up.
#[activity(retry = DOUBLING, total_timeout = SECOND)]
async fn late(ctx: ActivityContext) -> Result<(), Failure> {
    never(&ctx).await;
    Ok(())
}

/// Ends because nobody takes it in time.
#[activity(retry = DOUBLING, queue_timeout = SECOND, queue = "nobody")]
async fn untaken() -> Result<(), Failure> {
    Ok(())
}

/// Ends because its process died.
#[activity(retry = RetryPolicy::once().idempotency(Idempotency::AtMostOnce))]
async fn once(ctx: ActivityContext) -> Result<(), Failure> {
    never(&ctx).await;
    Ok(())
}

#[workflow]
async fn long(ctx: WorkflowContext) -> Result<(), Failure> {
    ctx.sleep(HOUR).await
}

/// Passes on how a call or a child ended, in its first run.
#[workflow]
async fn passes_on(ctx: WorkflowContext, what: String) -> Result<u32, Failure> {
    let runs = ctx.get::<u32>("runs").unwrap_or(0) + 1;
    ctx.set("runs", &runs);
    match what.as_str() {
        _ if runs > 1 => {}
        "late" => ctx.call(late()).await?,
        "untaken" => ctx.call(untaken()).await?,
        "lost" => ctx.call(once()).await?,
        _ => ctx.child(long()).total_timeout(MINUTE).await?,
    }
    Ok(runs)
}

#[test]
async fn a_call_or_child_that_ran_out_of_its_own_time_or_workers_fails_the_run_like_any_other() {
    let app = TestApp::builder()
        .workflow(passes_on)
        .workflow(long)
        .activity(late)
        .activity(untaken)
        .activity(once)
        .options(|options| options.queue_slots.extend([("nobody".to_string(), 0)]))
        .start()
        .await;
    for what in ["late", "untaken", "lost", "child"] {
        let workflow = passes_on(what.to_string());
        let run = app.start_with(what, workflow, |start| start.retry(&DOUBLING)).await;
        app.advance(SECOND / 2).await;
        if what == "lost" {
            app.restart().await;
        }
        assert_eq!(run.result().await.unwrap(), 2, "{what}");
    }
}

#[test]
async fn a_rule_of_a_workflow_matches_the_kinds_that_its_calls_end_with() {
    const RULES: &[Rule] = &[Rule::fail(Match::kinds(&[Kind::TotalTimeout]))];
    let app = TestApp::builder().workflow(passes_on).workflow(long).activity(late).start().await;
    let policy = DOUBLING.rules(RULES);
    let workflow = passes_on("late".to_string());
    let run = app.start_with("late", workflow, |start| start.retry(&policy)).await;
    assert_eq!(run.failure().await.kind, Kind::TotalTimeout);
    assert_eq!(app.describe("late").await.instance.run, 1);
}

#[test]
async fn the_time_that_the_policy_allows_bounds_the_whole_chain() {
    let app = failing(down).start().await;
    let policy = DOUBLING.unlimited().max_elapsed(10 * MINUTE);
    let run = app.start_with("job-1", job(99), |start| start.retry(&policy)).await;
    let began = app.now();
    run.failure().await;
    // After 1, 2 and 4 minutes; the next delay of 8 would pass it.
    assert_eq!(app.describe("job-1").await.instance.run, 4);
    assert_eq!(app.now().since(began), 7 * MINUTE + 4 * SECOND);
}

#[test]
async fn no_run_begins_that_the_total_timeout_would_not_let_begin() {
    let app = failing(down).start().await;
    let options = |start: resurgam::Start<u32>| start.retry(&DOUBLING).total_timeout(2 * MINUTE);
    let run = app.start_with("job-1", job(99), options).await;
    let began = app.now();
    assert_eq!(run.failure().await.message, "down");
    assert_eq!(app.describe("job-1").await.instance.run, 2);
    assert_eq!(app.now().since(began), MINUTE + 2 * SECOND);
}

#[test]
async fn a_total_timeout_ends_the_chain() {
    #[workflow]
    async fn sluggish(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.sleep(HOUR).await?;
        Ok(1)
    }
    let app = TestApp::builder().workflow(sluggish).start().await;
    let options = |start: resurgam::Start<u32>| {
        start.retry(&DOUBLING).run_timeout(MINUTE).total_timeout(150 * SECOND)
    };
    let run = app.start_with("slow-1", sluggish(), options).await;
    let failure = run.failure().await;
    assert_eq!(failure.type_name.as_deref(), Some("TotalTimeout"));
    expect![[r#"
        run 1
        1 +0ms RunStarted sluggish {}
        2 +0ms TimerStarted until +1h
        3 +1m RunTimedOut run
        4 +1m RunContinued by RetryPolicy in 1m after RunTimeout: the run was not done in time, after 1m
        run 2
        1 +0ms RunStarted sluggish {} attempt 2, first turn at +1m
        2 +1m TimerFired #1
        3 +1m TimerStarted until +1h 1m
        4 +1m 30s RunTimedOut total
        5 +1m 30s RunFailed TotalTimeout: the instance was not done in time, after 2m 30s
    "#]].assert_eq(&histories(&app, "slow-1").await);
}

#[test]
async fn timeouts_in_the_policy_of_a_workflow_are_refused_wherever_it_is_given() {
    #[workflow]
    async fn nap(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.sleep(SECOND).await
    }
    #[workflow]
    async fn parent(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.child(nap()).retry(bounded()).await
    }
    fn bounded() -> RetryPolicy {
        let timeouts = resurgam::retry::Timeouts { total: Some(MINUTE), ..Default::default() };
        RetryPolicy { timeouts, ..RetryPolicy::fixed(SECOND) }
    }
    let app = TestApp::builder().workflow(nap).workflow(parent).start().await;
    let started = app.client().start("nap-1", nap()).retry(bounded()).await.map(drop);
    let every = resurgam::schedule::Rule::every(MINUTE);
    let scheduled = app.client().schedule("naps", every, nap()).retry(bounded()).await.map(drop);
    for refused in [started, scheduled] {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("run_timeout") && text.contains("total_timeout"), "{text}");
    }
    let failure = app.start("parent-1", parent()).await.failure().await;
    assert_eq!(failure.type_name.as_deref(), Some("InvalidPolicy"));
    assert!(failure.message.contains("with run_timeout, and all of them together"), "{failure}");
}

// Snoozing.

/// Snoozes twice for a minute, then fails, then answers.
#[workflow]
async fn sleepy(ctx: WorkflowContext, word: String) -> Result<String, Failure> {
    let runs = ctx.get::<u32>("runs").unwrap_or(0) + 1;
    ctx.set("runs", &runs);
    match runs {
        1 | 2 => Err(Failure::snooze(MINUTE)),
        3 => Err(Failure::new("awake, but tired")),
        _ => Ok(word),
    }
}

#[test]
async fn a_workflow_that_snoozes_is_run_again_with_its_input_and_no_failure_is_counted() {
    let app = TestApp::builder().workflow(sleepy).start().await;
    // Two attempts: the failure and the run after it. Its time is up long before the second snooze.
    let policy = RetryPolicy::fixed(SECOND).max_attempts(2).jitter(Jitter::None);
    let policy = policy.max_elapsed(90 * SECOND);
    let run = app.start_with("sleepy-1", sleepy("hi".into()), |start| start.retry(&policy)).await;
    let failure = run.failure().await;
    assert_eq!(failure.message, "awake, but tired");
    let policy = policy.max_elapsed(HOUR);
    let run = app.start_with("sleepy-2", sleepy("hi".into()), |start| start.retry(&policy)).await;
    assert_eq!(run.result().await.unwrap(), "hi");
    expect![[r#"
        1 +0ms RunStarted sleepy {"word":"hi"}
        2 +0ms KvSet runs 1
        3 +0ms RunContinued by Workflow in 1m {"word":"hi"}
    "#]]
    .assert_eq(&app.client().run_history("sleepy-2", 1).await.unwrap().unwrap());
}

#[test]
async fn a_workflow_snoozes_without_a_policy_too_and_across_a_restart() {
    let app = TestApp::builder().workflow(sleepy).start().await;
    let run = app.start("sleepy-1", sleepy("hi".into())).await;
    app.advance(SECOND).await;
    app.restart().await;
    // The second run snoozes too.
    app.advance(MINUTE).await;
    assert_eq!(app.describe("sleepy-1").await.instance.run, 3);
    assert_eq!(run.failure().await.message, "awake, but tired");
    assert_eq!(app.describe("sleepy-1").await.instance.run, 3);
}

#[test]
async fn a_snooze_that_the_total_timeout_leaves_no_time_for_ends_the_instance() {
    let app = TestApp::builder().workflow(sleepy).start().await;
    let options = |start: resurgam::Start<String>| start.total_timeout(90 * SECOND);
    let run = app.start_with("sleepy-1", sleepy("hi".into()), options).await;
    assert_eq!(run.failure().await.message, "snoozed");
    assert_eq!(app.describe("sleepy-1").await.instance.run, 2);
}
