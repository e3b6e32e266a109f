//! Timeouts: which clock each of them looks at, what follows when it passes, and what it leaves
//! alone.

use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::{ClockFrom, Exhausted, Jitter, Match, Rule};
use resurgam::{Kind, WaitsFor};
use resurgam_testing::{Crash, StoreCall, TestApp, TestBuilder, never};
use resurgam_watchdog::test;

use crate::common::attempts::{Log, MINUTE, SECOND, STEADY, log, logging, pending, story};

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// Keeps a slot for as long as the call says.
#[activity]
async fn occupy(ctx: ActivityContext, seconds: u64) -> Result<(), Failure> {
    ctx.sleep(Duration::from_secs(seconds)).await;
    Ok(())
}

fn one_slot() -> TestBuilder {
    TestApp::builder().activity(occupy).options(|options| options.slots = 1)
}

// The queue timeout.

/// Is to be taken within five seconds.
#[activity(retry = STEADY, queue_timeout = 5 * SECOND)]
async fn urgent(ctx: ActivityContext, fail_first: u32) -> Result<u32, Failure> {
    match ctx.attempt() <= fail_first {
        true => Err(Failure::of_type("GatewayBusy", "try later")),
        false => Ok(ctx.attempt()),
    }
}

#[test]
async fn an_attempt_that_no_slot_is_free_for_ends_its_call_when_the_queue_timeout_passes() {
    let app = one_slot().activity(urgent).start().await;
    app.submit("occupy-1", occupy(60)).await.unwrap();
    let run = app.submit("urgent-1", urgent(0)).await.unwrap();
    let call = pending(&app, "urgent-1").await;
    assert_eq!((call.waits_for, call.attempt), (Some(WaitsFor::Slot), 0));
    assert_eq!(call.deadline, Some(app.now().saturating_add(5 * SECOND)));
    let failure = run.failure().await;
    assert_eq!((failure.kind, failure.why.as_deref()), (Kind::QueueTimeout, Some("queue_timeout")));
    expect![[r#"
          +5s urgent#2 attempt 1 failed: queue_timeout: no worker took it within 5s
        3 +5s ActivityFailed #2 queue_timeout: queue_timeout: no worker took it within 5s
        4 +5s RunFailed queue_timeout: no worker took it within 5s
    "#]]
    .assert_eq(&story(&app, "urgent-1").await);
    let ledger = app.ledger("urgent-1").await;
    expect!["queue_timeout: no worker took the attempt in time"].assert_eq(&ledger[0].why);
    assert_eq!(app.attempts(urgent), 0);
}

#[test]
async fn an_attempt_that_gets_its_slot_at_the_last_moment_is_in_time() {
    let app = one_slot().activity(urgent).start().await;
    app.submit("occupy-1", occupy(5)).await.unwrap();
    let run = app.submit("urgent-1", urgent(0)).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 1);
    // Its deadline is forgotten: nothing more happens.
    let (history, commits) = (run.history().await, app.commits());
    app.advance(HOUR).await;
    assert_eq!((run.history().await, app.commits()), (history, commits));
}

#[test]
async fn the_queue_clock_starts_when_the_attempt_became_due() {
    #[activity(retry = RetryPolicy::fixed(MINUTE).jitter(Jitter::None), queue_timeout = 5 * SECOND)]
    async fn patient(ctx: ActivityContext) -> Result<u32, Failure> {
        match ctx.attempt() {
            1 => Err(Failure::of_type("GatewayBusy", "try later")),
            _ => Ok(ctx.attempt()),
        }
    }
    let app = one_slot().activity(patient).start().await;
    let run = app.submit("patient-1", patient()).await.unwrap();
    app.advance(SECOND).await;
    let call = pending(&app, "patient-1").await;
    assert_eq!(call.waits_for, Some(WaitsFor::Backoff));
    assert_eq!(call.deadline, Some(app.now().saturating_add(64 * SECOND)));
    app.submit("occupy-1", occupy(100)).await.unwrap();
    let failure = run.failure().await;
    expect![[r#"
          +0ms patient#2 attempt 1 failed: GatewayBusy: try later; again in 1m
          +1m 5s patient#2 attempt 2 failed: queue_timeout: no worker took it within 5s
        3 +1m 5s ActivityFailed #2 (attempt 2) queue_timeout: queue_timeout: no worker took it within 5s
        4 +1m 5s RunFailed queue_timeout: no worker took it within 5s
    "#]]
    .assert_eq(&story(&app, "patient-1").await);
    let cause = failure.cause.as_ref().map(ToString::to_string);
    assert_eq!(cause.as_deref(), Some("GatewayBusy: try later"));
    // When the attempt that nobody took became due.
    assert_eq!(app.ledger("patient-1").await[1].started_at.since(app.now()), Duration::ZERO);
}

#[test]
async fn a_rule_can_retry_what_nobody_took_and_it_counts_as_a_failure() {
    const RULES: &[Rule] = &[Rule::retry(Match::kinds(&[Kind::QueueTimeout]))];
    #[activity(retry = STEADY.max_attempts(3).rules(RULES), queue_timeout = 5 * SECOND)]
    async fn stubborn(ctx: ActivityContext) -> Result<u32, Failure> {
        Ok(ctx.attempt())
    }
    let app = one_slot().activity(stubborn).start().await;
    app.submit("occupy-1", occupy(14)).await.unwrap();
    let late = app.submit("late-1", stubborn()).await.unwrap();
    assert_eq!(late.result().await.unwrap(), 3);
    expect![[r#"
          +5s stubborn#2 attempt 1 failed: queue_timeout: no worker took it within 5s; again in 1s
          +11s stubborn#2 attempt 2 failed: queue_timeout: no worker took it within 5s; again in 1s
        3 +14s ActivityCompleted #2 (attempt 3) 3
        4 +14s RunCompleted 3
    "#]]
    .assert_eq(&story(&app, "late-1").await);

    app.submit("occupy-2", occupy(60)).await.unwrap();
    let failure = app.submit("late-2", stubborn()).await.unwrap().failure().await;
    assert_eq!((failure.attempts, failure.why.as_deref()), (Some(3), Some("max_attempts")));
    assert_eq!(app.attempts(stubborn), 1);
}

#[test]
async fn a_call_of_an_activity_that_nobody_knows_has_its_queue_timeout_too() {
    #[workflow]
    async fn call_urgent(ctx: WorkflowContext, minutes: u64) -> Result<u32, Failure> {
        let time = Duration::from_secs(60 * minutes);
        ctx.call(urgent(0)).retry(STEADY).queue_timeout(time).await
    }
    let app = TestApp::builder().workflow(call_urgent).start().await;
    // The second is beyond what is kept in memory, and so is the third, across a restart.
    for (minutes, restart) in [(0, false), (30, false), (30, true)] {
        let minutes = minutes.max(1);
        let (began, id) = (app.now(), format!("urgent-{minutes}-{restart}"));
        let run = app.start(&id, call_urgent(minutes)).await;
        assert_eq!(pending(&app, &id).await.waits_for, Some(WaitsFor::Unregistered));
        if restart {
            app.advance(MINUTE).await;
            app.restart().await;
        }
        let failure = run.failure().await;
        assert_eq!((failure.kind, failure.attempts), (Kind::QueueTimeout, Some(1)));
        assert_eq!(app.now().since(began), Duration::from_secs(60 * minutes), "{id}");
    }
}

#[test]
async fn a_queue_timeout_that_passes_while_nobody_works_ends_the_call_at_the_next_start() {
    let app = one_slot().activity(urgent).start().await;
    app.submit("occupy-1", occupy(3_600)).await.unwrap();
    let run = app.submit("urgent-1", urgent(0)).await.unwrap();
    app.stop().await;
    app.advance(MINUTE).await;
    app.restart().await;
    assert_eq!(run.failure().await.kind, Kind::QueueTimeout);
    assert_eq!(app.attempts(urgent), 0);
}

#[test]
async fn a_crash_around_a_queue_timeout_changes_nothing_about_it() {
    for crash in [Crash::BeforeCommit, Crash::AfterCommit] {
        let app = one_slot().activity(urgent).start().await;
        app.submit("occupy-1", occupy(60)).await.unwrap();
        let run = app.submit("urgent-1", urgent(0)).await.unwrap();
        let crash = crash(app.commits() + 1);
        app.faults().crash(crash);
        assert_eq!(run.failure().await.kind, Kind::QueueTimeout, "{crash:?}");
        let ledger = app.ledger("urgent-1").await;
        assert_eq!(ledger.len(), 1, "{crash:?} {ledger:#?} {:#?}", app.ledger("occupy-1").await);
        assert_eq!(app.attempts(urgent), 0, "{crash:?}");
    }
}

// The store in trouble.

#[test]
async fn the_queue_clock_stands_still_while_the_store_takes_nothing() {
    let app = one_slot().activity(urgent).start().await;
    app.submit("occupy-1", occupy(14)).await.unwrap();
    let run = app.submit("urgent-1", urgent(0)).await.unwrap();
    app.advance(4 * SECOND).await;
    // The signal to nobody keeps the committer busy for about ten seconds.
    app.faults().refuse(StoreCall::Commit, 15);
    let client = app.client();
    tokio::spawn(async move { client.submit("other-1", occupy(0)).await.map(drop) });
    assert_eq!(run.result().await.unwrap(), 1);
    assert_eq!(app.faults().refusals_left(StoreCall::Commit), 0);
}

#[test]
async fn the_queue_clock_goes_on_when_the_store_is_back() {
    let app = one_slot().activity(urgent).start().await;
    app.submit("occupy-1", occupy(3_600)).await.unwrap();
    let run = app.submit("urgent-1", urgent(0)).await.unwrap();
    let began = app.now();
    app.advance(4 * SECOND).await;
    app.faults().refuse(StoreCall::Commit, 15);
    let client = app.client();
    tokio::spawn(async move { client.submit("other-1", occupy(0)).await.map(drop) });
    assert_eq!(run.failure().await.kind, Kind::QueueTimeout);
    // Waits of 10, 20, ... 640 ms and then of a second, on top of the five seconds.
    let outage = Duration::from_millis(1_270 + 8_000);
    assert_eq!(app.now().since(began), 5 * SECOND + outage);
}

#[test]
async fn a_queue_timeout_is_recorded_once_however_long_the_store_takes_nothing() {
    /// Is paused for a second when nobody takes it within five.
    #[workflow]
    async fn call_urgent(ctx: WorkflowContext) -> Result<u32, Failure> {
        let policy = STEADY.on_exhausted(Exhausted::Pause { wait: Some(SECOND) });
        ctx.call(urgent(0)).retry(policy).queue_timeout(5 * SECOND).await
    }
    let app = TestApp::builder().workflow(call_urgent).start().await;
    let run = app.start("it", call_urgent()).await;
    app.advance(SECOND).await;
    app.stop_working().await;
    app.advance(MINUTE).await;
    // What the next process finds out first is not stored before the pause would be over.
    app.faults().refuse(StoreCall::Commit, 15);
    app.restart_with(TestApp::builder().workflow(call_urgent).activity(urgent)).await;
    assert_eq!(run.failure().await.kind, Kind::QueueTimeout);
    assert_eq!(app.faults().refusals_left(StoreCall::Commit), 0);
    assert_eq!(app.ledger("it").await.len(), 1);
    assert_eq!(app.attempts(urgent), 0);
}

#[test]
async fn the_queue_clock_stands_still_while_the_store_cannot_be_read() {
    #[workflow]
    async fn call_urgent(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(urgent(0)).queue_timeout(2 * MINUTE).await
    }
    let app = TestApp::builder().workflow(call_urgent).start().await;
    let run = app.start("urgent-1", call_urgent()).await;
    let began = app.now();
    app.advance(SECOND).await;
    // Whoever reads ahead for the deadline hears nothing for ten minutes.
    app.faults().refuse(StoreCall::DueTasks, 600);
    assert_eq!(run.failure().await.kind, Kind::QueueTimeout);
    let took = app.now().since(began);
    assert!(took >= 10 * MINUTE && took < 14 * MINUTE, "{took:?}");
}

#[test]
async fn a_store_that_takes_its_time_makes_no_attempt_too_slow() {
    #[activity(retry = RetryPolicy::once(), timeout = 2 * SECOND, heartbeat_timeout = SECOND)]
    async fn brief(ctx: ActivityContext) -> Result<u32, Failure> {
        ctx.sleep(Duration::from_millis(500)).await;
        Ok(ctx.attempt())
    }
    #[workflow]
    async fn three(ctx: WorkflowContext) -> Result<u32, Failure> {
        Ok(ctx.call(brief()).await? + ctx.call(brief()).await? + ctx.call(brief()).await?)
    }
    let app = TestApp::builder().workflow(three).activity(brief).start().await;
    // Each outcome, and with it the next claim, takes more than nine seconds to be stored.
    let run = app.start("three-1", three()).await;
    for _ in 0..3 {
        app.faults().refuse(StoreCall::Commit, 15);
        app.advance(10 * SECOND).await;
        assert_eq!(app.faults().refusals_left(StoreCall::Commit), 0);
    }
    assert_eq!(run.result().await.unwrap(), 3);
    assert_eq!(app.ledger("three-1").await, []);
}

// The total timeout.

/// Must be done within ten seconds and a bit.
#[activity(retry = STEADY, total_timeout = Duration::from_millis(10_007))]
async fn bounded(ctx: ActivityContext, fail_first: u32) -> Result<u32, Failure> {
    match ctx.attempt() <= fail_first {
        true => Err(Failure::of_type("GatewayBusy", "try later")),
        false => Ok(ctx.attempt()),
    }
}

#[test]
async fn the_total_timeout_ends_a_call_that_waits_for_a_slot_to_the_millisecond() {
    let app = one_slot().activity(bounded).start().await;
    let began = app.now();
    app.submit("occupy-1", occupy(3_600)).await.unwrap();
    let run = app.submit("bounded-1", bounded(0)).await.unwrap();
    let failure = run.failure().await;
    assert_eq!(app.now().since(began), Duration::from_millis(10_007));
    assert_eq!((failure.kind, failure.why.as_deref()), (Kind::TotalTimeout, Some("total_timeout")));
    assert_eq!((failure.attempts, failure.cause.clone()), (Some(0), None));
    // There was no attempt, so the ledger has no row.
    expect![[r#"
        3 +10.01s ActivityFailed #2 total_timeout: total_timeout: not done within 10.01s
        4 +10.01s RunFailed total_timeout: not done within 10.01s
    "#]]
    .assert_eq(&story(&app, "bounded-1").await);
}

#[test]
async fn the_total_timeout_ends_a_retry_that_waits_for_a_slot_and_its_failure_is_the_cause() {
    let app = one_slot().activity(bounded).start().await;
    let run = app.submit("bounded-1", bounded(1)).await.unwrap();
    app.advance(500 * MILLISECOND).await;
    app.submit("occupy-1", occupy(3_600)).await.unwrap();
    let failure = run.failure().await;
    expect![[r#"
          +0ms bounded#2 attempt 1 failed: GatewayBusy: try later; again in 1s
        3 +10.01s ActivityFailed #2 total_timeout: total_timeout: not done within 10.01s
        4 +10.01s RunFailed total_timeout: not done within 10.01s
    "#]]
    .assert_eq(&story(&app, "bounded-1").await);
    let cause = failure.cause.as_ref().map(ToString::to_string);
    assert_eq!(cause.as_deref(), Some("GatewayBusy: try later"));
    assert_eq!(failure.attempts, Some(1));
}

#[test]
async fn the_total_timeout_ends_a_call_that_nobody_knows_also_across_a_restart() {
    #[workflow]
    async fn call_bounded(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(bounded(0)).total_timeout(30 * MINUTE).await
    }
    let app = TestApp::builder().workflow(call_bounded).start().await;
    let began = app.now();
    let run = app.start("bounded-1", call_bounded()).await;
    app.advance(MINUTE).await;
    app.restart().await;
    let failure = run.failure().await;
    assert_eq!((failure.kind, failure.attempts), (Kind::TotalTimeout, Some(0)));
    assert_eq!(app.now().since(began), 30 * MINUTE);
}

#[test]
async fn no_attempt_begins_after_the_total_timeout_although_it_was_claimed_before() {
    let app = TestApp::builder().activity(bounded).start().await;
    // The start and its claim are one commit, which takes longer than the call may.
    app.faults().refuse(StoreCall::Commit, 20);
    let run = app.submit("bounded-1", bounded(0));
    let (run, ()) = tokio::join!(run, app.advance(MINUTE));
    let failure = run.unwrap().failure().await;
    assert_eq!((failure.kind, failure.attempts), (Kind::TotalTimeout, Some(0)));
    assert_eq!((app.attempts(bounded), app.ledger("bounded-1").await), (0, Vec::new()));
}

#[test]
async fn the_total_timeout_bounds_the_wait_after_a_lost_attempt() {
    #[activity(retry = STEADY, total_timeout = 10 * SECOND)]
    async fn hang(ctx: ActivityContext) -> Result<(), Failure> {
        never(&ctx).await;
        Ok(())
    }
    let app = TestApp::builder().activity(hang).start().await;
    let run = app.submit("hang-1", hang()).await.unwrap();
    app.advance(9 * SECOND).await;
    // Nobody is there when the time is up.
    app.stop().await;
    app.advance(MINUTE).await;
    app.restart().await;
    let failure = run.failure().await;
    assert_eq!((failure.kind, failure.attempts), (Kind::TotalTimeout, Some(1)));
}

#[test]
async fn a_snooze_that_does_not_fit_into_the_total_timeout_ends_the_call_at_once() {
    #[activity(retry = STEADY, total_timeout = 10 * SECOND)]
    async fn sleepy(ctx: ActivityContext) -> Result<(), Failure> {
        Err(match ctx.attempt() {
            1 => Failure::snooze(2 * SECOND),
            2 => Failure::new("down"),
            _ => Failure::snooze(7 * SECOND),
        })
    }
    let app = TestApp::builder().activity(sleepy).start().await;
    let run = app.submit("sleepy-1", sleepy()).await.unwrap();
    let failure = run.failure().await;
    assert_eq!((failure.kind, failure.why.as_deref()), (Kind::TotalTimeout, Some("total_timeout")));
    assert_eq!(failure.cause.as_ref().unwrap().to_string(), "down");
    expect![[r#"
          +0ms sleepy#2 attempt 1 snoozed: snoozed; again in 2s
          +2s sleepy#2 attempt 2 failed: down; again in 1s
          +3s sleepy#2 attempt 3 snoozed: snoozed
        3 +3s ActivityFailed #2 (attempt 3) total_timeout: total_timeout: not done within 10s
        4 +3s RunFailed total_timeout: not done within 10s
    "#]]
    .assert_eq(&story(&app, "sleepy-1").await);
    let ledger = app.ledger("sleepy-1").await;
    expect!["total_timeout: 3s have passed and the next wait would be 7s"]
        .assert_eq(&ledger[2].why);
}

#[test]
async fn a_lost_attempt_whose_successor_has_no_time_ends_the_call_at_once() {
    #[activity(retry = STEADY, total_timeout = 10 * SECOND)]
    async fn hang(ctx: ActivityContext) -> Result<(), Failure> {
        never(&ctx).await;
        Ok(())
    }
    let app = TestApp::builder().activity(hang).start().await;
    let run = app.submit("hang-1", hang()).await.unwrap();
    app.advance(10 * SECOND - 50 * MILLISECOND).await;
    app.restart().await;
    let failure = run.failure().await;
    assert_eq!((failure.kind, failure.attempts), (Kind::TotalTimeout, Some(1)));
    assert_eq!(failure.cause.as_ref().unwrap().kind, Kind::WorkerLost);
    expect![[r#"
          +9.95s hang#2 attempt 1 lost: worker_lost: the process that ran it died
        3 +9.95s ActivityFailed #2 total_timeout: total_timeout: not done within 10s
        4 +9.95s RunFailed total_timeout: not done within 10s
    "#]]
    .assert_eq(&story(&app, "hang-1").await);
}

#[test]
async fn when_time_ends_a_call_its_last_failure_is_the_cause_and_not_a_loss() {
    #[activity(retry = STEADY, total_timeout = MINUTE)]
    async fn fail_then_hang(ctx: ActivityContext, fails: bool) -> Result<(), Failure> {
        if ctx.attempt() == 1 && fails {
            return Err(Failure::of_type("GatewayBusy", "try later"));
        }
        never(&ctx).await;
        Ok(())
    }
    let app = TestApp::builder().activity(fail_then_hang).start().await;
    for (fails, expected) in [
        (true, "GatewayBusy: try later"),
        // Where nothing failed, the loss is all that there is to tell.
        (false, "worker_lost: a graceful stop cut it short"),
    ] {
        let run = app.submit(expected, fail_then_hang(fails)).await.unwrap();
        app.advance(5 * SECOND).await;
        app.restart().await;
        app.advance(5 * SECOND).await;
        app.stop_and_restart().await;
        let failure = run.failure().await;
        assert_eq!(failure.kind, Kind::TotalTimeout);
        let cause = failure.cause.as_ref().map(ToString::to_string);
        assert_eq!(cause.as_deref(), Some(expected));
    }
}

#[test]
async fn the_time_a_policy_allows_counts_from_the_call_or_from_its_first_attempt() {
    const BRIEF: RetryPolicy = STEADY.max_elapsed(MINUTE);
    #[activity(retry = BRIEF)]
    async fn from_call() -> Result<(), Failure> {
        Err(Failure::new("down"))
    }
    #[activity(retry = BRIEF.clock_from(ClockFrom::FirstStarted))]
    async fn from_first_attempt() -> Result<(), Failure> {
        Err(Failure::new("down"))
    }
    let app = one_slot().activity(from_call).activity(from_first_attempt).start().await;
    app.submit("occupy-1", occupy(50)).await.unwrap();
    let one = app.submit("one", from_call()).await.unwrap();
    let other = app.submit("other", from_first_attempt()).await.unwrap();
    // Both waited for fifty seconds before their first attempt.
    assert_eq!(one.failure().await.attempts, Some(11));
    assert_eq!(other.failure().await.attempts, Some(61));
}

#[test]
async fn the_time_a_policy_allows_cuts_no_attempt_that_runs() {
    #[activity(retry = STEADY.max_elapsed(MINUTE))]
    async fn slow(ctx: ActivityContext) -> Result<u32, Failure> {
        ctx.sleep(HOUR).await;
        Ok(ctx.attempt())
    }
    let app = TestApp::builder().activity(slow).start().await;
    assert_eq!(app.submit("slow-1", slow()).await.unwrap().result().await.unwrap(), 1);
}

// The timeout of an attempt.

#[test]
async fn an_attempt_that_waited_for_its_slot_has_all_of_its_time() {
    #[activity(retry = RetryPolicy::once(), timeout = 10 * SECOND)]
    async fn brief(ctx: ActivityContext) -> Result<(), Failure> {
        ctx.sleep(Duration::from_millis(9_999)).await;
        Ok(())
    }
    let app = one_slot().activity(brief).start().await;
    app.submit("occupy-1", occupy(60)).await.unwrap();
    app.submit("brief-1", brief()).await.unwrap().result().await.unwrap();
}

#[test]
async fn a_rule_can_forbid_another_attempt_after_a_timeout() {
    const RULES: &[Rule] = &[Rule::fail(Match::kinds(&[Kind::Timeout]))];
    #[activity(retry = STEADY.rules(RULES), timeout = 10 * SECOND)]
    async fn slow(ctx: ActivityContext) -> Result<(), Failure> {
        never(&ctx).await;
        Ok(())
    }
    let app = TestApp::builder().activity(slow).start().await;
    let failure = app.submit("slow-1", slow()).await.unwrap().failure().await;
    assert_eq!((failure.kind, failure.attempts), (Kind::Timeout, Some(1)));
    assert_eq!(failure.why.as_deref(), Some("non_retryable"));
}

#[test]
async fn a_timeout_passes_in_memory_also_while_the_store_takes_nothing() {
    #[activity(retry = STEADY, timeout = 10 * SECOND)]
    async fn slow_at_first(ctx: ActivityContext) -> Result<u32, Failure> {
        if ctx.attempt() == 1 {
            ctx.cancelled().await;
            log(&ctx).add("told");
        }
        Ok(ctx.attempt())
    }
    let (app, log) = logging();
    let app = app.activity(slow_at_first).start().await;
    let run = app.submit("slow-1", slow_at_first()).await.unwrap();
    app.faults().refuse(StoreCall::Commit, 100);
    app.advance(10 * SECOND).await;
    assert_eq!(log.text(), "told");
    assert!(app.faults().refusals_left(StoreCall::Commit) > 0);
    assert_eq!(run.result().await.unwrap(), 2);
}

// Timers of other attempts.

/// Fails or returns after as many seconds as its attempt is told.
#[activity(retry = STEADY, timeout = 10 * SECOND)]
async fn by_turns(ctx: ActivityContext, seconds: Vec<u64>) -> Result<u32, Failure> {
    let attempt = ctx.attempt();
    ctx.sleep(Duration::from_secs(seconds[attempt as usize - 1])).await;
    match attempt as usize == seconds.len() {
        true => Ok(attempt),
        false => Err(Failure::new("not yet")),
    }
}

#[test]
async fn a_timer_of_an_earlier_attempt_never_touches_a_later_one() {
    let app = TestApp::builder().activity(by_turns).start().await;
    // Attempts overlap with the timeouts of those before: 0-5, 6-15, 16-25, 26-35.
    let run = app.submit("turns-1", by_turns(vec![5, 9, 9, 9])).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 4);
    expect![[r#"
          +5s by_turns#2 attempt 1 failed: not yet; again in 1s
          +15s by_turns#2 attempt 2 failed: not yet; again in 1s
          +25s by_turns#2 attempt 3 failed: not yet; again in 1s
        3 +35s ActivityCompleted #2 (attempt 4) 4
        4 +35s RunCompleted 4
    "#]]
    .assert_eq(&story(&app, "turns-1").await);
}

#[test]
async fn an_attempt_that_beats_its_timeouts_leaves_no_timer_and_causes_no_turn() {
    #[activity(retry = STEADY, timeout = MINUTE, heartbeat_timeout = 20 * SECOND,
        queue_timeout = MINUTE, total_timeout = HOUR)]
    async fn quick(ctx: ActivityContext) -> Result<(), Failure> {
        ctx.heartbeat(&1)?;
        ctx.sleep(SECOND).await;
        ctx.heartbeat(&2)
    }
    #[workflow]
    async fn quick_then_wait(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(quick()).await?;
        ctx.signal::<()>("end").await
    }
    let app = TestApp::builder().workflow(quick_then_wait).activity(quick).start().await;
    let run = app.start("quick-1", quick_then_wait()).await;
    app.advance(SECOND).await;
    let (history, commits) = (run.history().await, app.commits());
    app.advance(2 * HOUR).await;
    assert_eq!((run.history().await, app.commits()), (history, commits));
    // Nobody waits for any time: a test that waits in vain is told so at once.
    let outcome = tokio::spawn(async move { run.outcome().await }).await;
    let panic = outcome.unwrap_err().into_panic();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("nothing is due"), "{message}");
}

// What becomes of an attempt that ran out of time.

/// Says when it is dropped.
struct Dropped(Arc<Log>, ActivityContext);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add(format!("attempt {} is gone", self.1.attempt()));
    }
}

#[test]
async fn an_attempt_that_ran_out_of_time_is_told_and_dropped_after_the_grace_period() {
    #[activity(retry = STEADY.max_attempts(1), timeout = 10 * SECOND)]
    async fn slow(ctx: ActivityContext) -> Result<(), Failure> {
        let _dropped = Dropped(log(&ctx), ctx.clone());
        ctx.cancelled().await;
        log(&ctx).add("told");
        ctx.sleep(HOUR).await;
        log(&ctx).add("never said");
        Ok(())
    }
    let (app, log) = logging();
    let app = app.activity(slow).options(|options| options.grace = 3 * SECOND).start().await;
    app.submit("slow-1", slow()).await.unwrap().failure().await;
    assert_eq!(log.text(), "told");
    app.advance(Duration::from_millis(2_999)).await;
    assert_eq!(log.text(), "told");
    app.advance(MILLISECOND).await;
    assert_eq!(log.text(), "told\nattempt 1 is gone");
}

/// A plain function whose first attempt takes a minute, whatever it is told.
#[activity(retry = STEADY.max_attempts(2), timeout = 10 * SECOND)]
fn plain(ctx: ActivityContext) -> Result<u32, Failure> {
    if ctx.attempt() == 1 {
        tokio::runtime::Handle::current().block_on(ctx.sleep(MINUTE));
        log(&ctx).add("the first attempt returns");
    }
    Ok(ctx.attempt())
}

#[test]
async fn a_plain_function_that_ran_out_of_time_keeps_its_slot_until_it_returns() {
    let (app, log) = logging();
    let app = app.activity(plain).options(|options| options.slots = 1).start().await;
    let run = app.submit("plain-1", plain()).await.unwrap();
    app.advance(30 * SECOND).await;
    let call = pending(&app, "plain-1").await;
    assert_eq!((call.attempt, call.waits_for), (1, Some(WaitsFor::Slot)));
    assert_eq!(run.result().await.unwrap(), 2);
    expect![[r#"
          +10s plain#2 attempt 1 failed: timeout: not done within 10s; again in 1s
        3 +1m ActivityCompleted #2 (attempt 2) 2
        4 +1m RunCompleted 2
    "#]]
    .assert_eq(&story(&app, "plain-1").await);
    assert_eq!(log.text(), "the first attempt returns");
}

#[test]
async fn the_next_attempt_does_not_wait_for_a_plain_function_and_its_result_is_refused() {
    let (app, log) = logging();
    let app = app.activity(plain).options(|options| options.slots = 2).start().await;
    let run = app.submit("plain-1", plain()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 2);
    let (history, commits) = (run.history().await, app.commits());
    expect![[r#"
          +10s plain#2 attempt 1 failed: timeout: not done within 10s; again in 1s
        3 +11s ActivityCompleted #2 (attempt 2) 2
        4 +11s RunCompleted 2
    "#]]
    .assert_eq(&story(&app, "plain-1").await);
    app.advance(HOUR).await;
    assert_eq!(log.text(), "the first attempt returns");
    assert_eq!((run.history().await, app.commits()), (history, commits));
}

#[test]
async fn a_plain_function_whose_call_was_given_up_keeps_its_slot_until_it_returns() {
    #[workflow]
    async fn give_up(ctx: WorkflowContext) -> Result<(), Failure> {
        let _given_up = ctx.timeout(5 * SECOND, ctx.call(plain())).await;
        Ok(())
    }
    let (app, _) = logging();
    let app = app.workflow(give_up).activity(plain).activity(occupy);
    let app = app.options(|options| options.slots = 1).start().await;
    let began = app.now();
    app.start("give-up-1", give_up()).await.result().await.unwrap();
    app.submit("occupy-1", occupy(0)).await.unwrap().result().await.unwrap();
    assert_eq!(app.now().since(began), MINUTE);
    // And it is free from then on.
    app.submit("occupy-2", occupy(0)).await.unwrap().result().await.unwrap();
    assert_eq!(app.now().since(began), MINUTE);
}
