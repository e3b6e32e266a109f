//! Retries as an activity, its workflow and an operator see them: who decides, how long it takes,
//! what counts, and what is written down.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::{
    Backoff, DeadlineRule, Idempotency, Jitter, Match, Rule, ServerDelay, Timeouts, uniform,
};
use resurgam::{AttemptOutcome, Kind, Status, WaitsFor};
use resurgam_core::event::{EventKind, RetryMetadata};
use resurgam_testing::{TestApp, TestBuilder, never};
use resurgam_watchdog::test;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// A second between attempts, as many as it takes.
const STEADY: RetryPolicy = RetryPolicy::fixed(SECOND).jitter(Jitter::None).unlimited();

/// What most tests call; they say what it does.
#[activity(retry = STEADY)]
async fn fetch() -> Result<u32, Failure> {
    Ok(1)
}

#[workflow]
async fn call_fetch(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.call(fetch()).await
}

/// An app whose `fetch` is answered by `stub`.
fn fetching(stub: impl Fn(u32) -> Result<u32, Failure> + Send + Sync + 'static) -> TestBuilder {
    TestApp::builder().workflow(call_fetch).stub(fetch, move |_, attempt| stub(attempt))
}

fn fails(times: u32) -> impl Fn(u32) -> Result<u32, Failure> {
    move |attempt| match attempt <= times {
        true => Err(Failure::new(format!("down {attempt}"))),
        false => Ok(attempt),
    }
}

/// Runs `call_fetch` to its end, and tells what happened.
async fn told(app: &TestApp) -> String {
    let run = app.start("fetch-1", call_fetch()).await;
    let _its_outcome_is_in_the_history = run.outcome().await;
    run.history().await
}

/// The story of the retries that stands in the event which ended a call.
async fn metadata(app: &TestApp, id: &str) -> Option<RetryMetadata> {
    let events = app.client().events(id).await.unwrap();
    events.into_iter().find_map(|event| match event.kind {
        EventKind::ActivityCompleted(done) => done.retry_metadata,
        EventKind::ActivityFailed(failed) => failed.retry_metadata,
        _ => None,
    })
}

// How long.

#[activity(retry = RetryPolicy::exponential(MINUTE).max_delay(HOUR))]
async fn spread() -> Result<u32, Failure> {
    Ok(1)
}

#[workflow]
async fn call_spread(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.call(spread()).await
}

#[test]
async fn a_delay_of_a_millisecond_is_one_also_right_after_a_start_or_a_restart() {
    #[activity(retry = RetryPolicy::fixed(Duration::from_millis(1)).jitter(Jitter::None))]
    async fn stumble(ctx: ActivityContext) -> Result<u32, Failure> {
        match ctx.attempt() {
            1 => Err(Failure::new("down")),
            attempt => Ok(attempt),
        }
    }
    let app = TestApp::builder().activity(stumble).start().await;
    for (id, restarts) in [("start", false), ("restart", true)] {
        if restarts {
            app.restart().await;
        }
        let began = app.now();
        assert_eq!(app.submit(id, stumble()).await.unwrap().result().await.unwrap(), 2);
        assert_eq!(app.now().since(began), Duration::from_millis(1), "{id}");
    }
}

#[test]
async fn a_jittered_delay_is_drawn_once_and_a_restart_does_not_draw_again() {
    let app = TestApp::builder()
        .workflow(call_spread)
        .stub(spread, |_, attempt| fails(4)(attempt))
        .start()
        .await;
    let run = app.start("spread-1", call_spread()).await;
    app.advance(Duration::ZERO).await;
    let before = app.describe("spread-1").await;
    app.restart().await;
    assert_eq!(app.describe("spread-1").await, before);
    assert_eq!(run.result().await.unwrap(), 5);

    let ledger = app.ledger("spread-1").await;
    for (row, next) in ledger.iter().zip(&ledger[1..]) {
        let delay = Duration::from_millis(row.delay_ms.unwrap());
        assert_eq!(next.started_at, row.ended_at.saturating_add(delay));
    }
    // The number of the failure and the call are all that the draw depends on.
    for (row, failures) in ledger.iter().zip(1..) {
        let u = uniform(row.call.run.uid.0, row.call.run.run, row.call.seq.0, failures);
        let base = 60_000.0 * f64::from(1 << (failures - 1));
        let drawn = Duration::from_millis(row.delay_ms.unwrap()).as_secs_f64() * 1e3;
        assert!((drawn - base * (0.5 + u)).abs() <= 1.0, "{row:?}");
    }
}

#[test]
async fn runs_that_fail_together_do_not_come_back_together() {
    let app = TestApp::builder()
        .workflow(call_spread)
        .stub(spread, |_, attempt| fails(1)(attempt))
        .start()
        .await;
    for number in 0..10 {
        app.start(&format!("spread-{number}"), call_spread()).await;
    }
    app.advance(Duration::ZERO).await;
    let mut delays = Vec::new();
    for number in 0..10 {
        let ledger = app.ledger(&format!("spread-{number}")).await;
        delays.push(ledger[0].delay_ms.unwrap());
    }
    assert!(delays.iter().all(|delay| (30_000..=90_000).contains(delay)), "{delays:?}");
    delays.sort_unstable();
    delays.dedup();
    assert!(delays.len() > 7, "{delays:?}");
}

#[activity(retry = STEADY.server_delay(ServerDelay { jitter: 0.0, ..ServerDelay::DEFAULT }))]
async fn throttled() -> Result<u32, Failure> {
    Ok(1)
}

#[workflow]
async fn call_throttled(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.call(throttled()).await
}

#[test]
async fn the_other_side_may_ask_for_a_longer_delay_and_not_for_a_shorter_or_an_endless_one() {
    let app = TestApp::builder()
        .workflow(call_throttled)
        .stub(throttled, |_, attempt| match attempt {
            1 => Err(Failure::retry_after(10 * SECOND, "slow down")),
            2 => Err(Failure::retry_after(Duration::from_millis(1), "soon")),
            3 => Err(Failure::retry_after(1_000 * HOUR, "come back next month")),
            _ => Ok(attempt),
        })
        .start()
        .await;
    let run = app.start("throttled-1", call_throttled()).await;
    run.result().await.unwrap();
    expect![[r#"
        1 +0ms RunStarted call_throttled {}
        2 +0ms ActivityScheduled throttled {}
          +0ms throttled#2 attempt 1 failed: throttled: slow down; again in 10s
          +10s throttled#2 attempt 2 failed: throttled: soon; again in 1s
          +11s throttled#2 attempt 3 failed: throttled: come back next month; again in 1h
        3 +1h ActivityCompleted #2 (attempt 4) 4
        4 +1h RunCompleted 4
    "#]]
    .assert_eq(&run.history().await);
    let why: Vec<String> = app.ledger("throttled-1").await.into_iter().map(|row| row.why).collect();
    expect![[r#"
        failure 1; waits 10s, as the other side asked
        failure 2; waits 1s; the other side asked for 1ms
        failure 3; waits 1h, as the other side asked"#]]
    .assert_eq(&why.join("\n"));
}

#[test]
async fn no_retry_begins_that_would_pass_the_time_a_policy_allows() {
    const PATIENT: RetryPolicy = STEADY.max_elapsed(Duration::from_millis(2_500));
    assert_eq!(PATIENT.deadline, DeadlineRule::LookAhead);
    #[workflow]
    async fn call_within(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(fetch()).retry(PATIENT).await
    }
    let app = fetching(fails(u32::MAX)).workflow(call_within).start().await;
    let run = app.start("within-1", call_within()).await;
    assert_eq!(run.failure().await.why.as_deref(), Some("max_elapsed"));
    expect![[r#"
        1 +0ms RunStarted call_within {}
        2 +0ms ActivityScheduled fetch {}
          +0ms fetch#2 attempt 1 failed: down 1; again in 1s
          +1s fetch#2 attempt 2 failed: down 2; again in 1s
          +2s fetch#2 attempt 3 failed: down 3
        3 +2s ActivityFailed #2 (attempt 3) max_elapsed: down 3
        4 +2s RunFailed down 3
    "#]]
    .assert_eq(&run.history().await);
    assert!(metadata(&app, "within-1").await.unwrap().exhausted);
}

// What counts.

#[test]
async fn a_snooze_is_no_failure_and_counts_for_nothing() {
    #[workflow]
    async fn call_twice_at_most(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(fetch()).retry(STEADY.max_attempts(2)).await
    }
    let app = fetching(|attempt| match attempt {
        1 | 2 | 4 => Err(Failure::snooze(HOUR)),
        3 => Err(Failure::new("down")),
        _ => Ok(attempt),
    });
    let app = app.workflow(call_twice_at_most).start().await;
    let run = app.start("fetch-1", call_twice_at_most()).await;
    // What is kept of the retries is the same before and after a restart.
    app.advance(90 * MINUTE).await;
    app.restart().await;
    assert_eq!(run.result().await.unwrap(), 5);
    expect![[r#"
        1 +0ms RunStarted call_twice_at_most {}
        2 +0ms ActivityScheduled fetch {}
          +0ms fetch#2 attempt 1 snoozed: snoozed; again in 1h
          +1h fetch#2 attempt 2 snoozed: snoozed; again in 1h
          +2h fetch#2 attempt 3 failed: down; again in 1s
          +2h fetch#2 attempt 4 snoozed: snoozed; again in 1h
        3 +3h ActivityCompleted #2 (attempt 5) 5
        4 +3h RunCompleted 5
    "#]]
    .assert_eq(&run.history().await);
    let errors = metadata(&app, "fetch-1").await.unwrap().errors;
    assert_eq!(errors.iter().map(|error| error.attempt).collect::<Vec<_>>(), [3]);
}

#[test]
async fn an_attempt_that_died_with_its_process_is_run_again_and_does_not_count() {
    #[activity(retry = STEADY.max_attempts(2))]
    async fn hang_once(ctx: ActivityContext) -> Result<u32, Failure> {
        match ctx.attempt() {
            1 => never(&ctx).await,
            2 => return Err(Failure::new("down")),
            _ => {}
        }
        Ok(ctx.attempt())
    }
    #[workflow]
    async fn call_hang(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(hang_once()).await
    }
    let app = TestApp::builder().workflow(call_hang).activity(hang_once).start().await;
    let run = app.start("hang-1", call_hang()).await;
    app.advance(MINUTE).await;
    app.restart().await;
    assert_eq!(run.result().await.unwrap(), 3);
    expect![[r#"
        1 +0ms RunStarted call_hang {}
        2 +0ms ActivityScheduled hang_once {}
          +1m hang_once#2 attempt 1 lost: worker_lost: the process that ran it died; again in 100ms
          +1m hang_once#2 attempt 2 failed: down; again in 1s
        3 +1m 1s ActivityCompleted #2 (attempt 3) 3
        4 +1m 1s RunCompleted 3
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn an_attempt_that_may_not_be_repeated_ends_its_call_when_its_process_dies() {
    const ONCE: RetryPolicy = RetryPolicy::once().idempotency(Idempotency::AtMostOnce);
    #[activity(retry = ONCE)]
    async fn launch(ctx: ActivityContext) -> Result<(), Failure> {
        never(&ctx).await;
        Ok(())
    }
    #[workflow]
    async fn call_launch(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(launch()).await
    }
    let app = TestApp::builder().workflow(call_launch).activity(launch).start().await;
    let run = app.start("launch-1", call_launch()).await;
    app.advance(MINUTE).await;
    app.restart().await;
    assert_eq!(run.failure().await.kind, Kind::WorkerLost);
    expect![[r#"
        1 +0ms RunStarted call_launch {}
        2 +0ms ActivityScheduled launch {}
          +1m launch#2 attempt 1 lost: worker_lost: the process that ran it died
        3 +1m ActivityFailed #2 worker_lost: worker_lost: the process that ran it died
        4 +1m RunFailed worker_lost: the process that ran it died
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn an_activity_that_kills_its_process_again_and_again_is_given_up() {
    #[activity(retry = STEADY)]
    async fn poison(ctx: ActivityContext) -> Result<(), Failure> {
        never(&ctx).await;
        Ok(())
    }
    #[workflow]
    async fn call_poison(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(poison()).await
    }
    let app = TestApp::builder().workflow(call_poison).activity(poison).start().await;
    let run = app.start("poison-1", call_poison()).await;
    for _ in 0..11 {
        app.advance(MINUTE).await;
        app.restart().await;
    }
    let failure = run.failure().await;
    assert_eq!((failure.kind, failure.why.as_deref()), (Kind::WorkerLost, Some("worker_lost")));
    let ledger = app.ledger("poison-1").await;
    assert_eq!(ledger.len(), 11);
    assert!(ledger.iter().all(|row| row.outcome == AttemptOutcome::Lost));
}

// Which failures.

#[test]
async fn a_terminal_failure_ends_the_call_at_once() {
    let app = fetching(|_| "many".parse::<u32>().terminal()).start().await;
    expect![[r#"
        1 +0ms RunStarted call_fetch {}
        2 +0ms ActivityScheduled fetch {}
          +0ms fetch#2 attempt 1 failed: ParseIntError: invalid digit found in string
        3 +0ms ActivityFailed #2 terminal: ParseIntError: invalid digit found in string
        4 +0ms RunFailed ParseIntError: invalid digit found in string
    "#]]
    .assert_eq(&told(&app).await);
    assert_eq!(metadata(&app, "fetch-1").await, None);
}

#[test]
async fn a_pruned_branch_is_a_terminal_failure_outside_of_graphs() {
    let app = fetching(|_| Err(Failure::prune())).start().await;
    expect![[r#"
        1 +0ms RunStarted call_fetch {}
        2 +0ms ActivityScheduled fetch {}
          +0ms fetch#2 attempt 1 failed: Pruned: pruned
        3 +0ms ActivityFailed #2 pruned: Pruned: pruned
        4 +0ms RunFailed Pruned: pruned
    "#]]
    .assert_eq(&told(&app).await);
}

#[test]
async fn failures_of_a_type_that_is_never_retried_end_the_call() {
    #[workflow]
    async fn call_strict(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(fetch()).retry(STEADY.never_for(&["CardDeclined"])).await
    }
    let app = fetching(|attempt| match attempt {
        1 => Err(Failure::of_type("GatewayBusy", "try later")),
        _ => Err(Failure::of_type("CardDeclined", "no funds")),
    });
    let app = app.workflow(call_strict).start().await;
    let run = app.start("strict-1", call_strict()).await;
    assert_eq!(run.failure().await.why.as_deref(), Some("non_retryable"));
    expect![[r#"
        1 +0ms RunStarted call_strict {}
        2 +0ms ActivityScheduled fetch {}
          +0ms fetch#2 attempt 1 failed: GatewayBusy: try later; again in 1s
          +1s fetch#2 attempt 2 failed: CardDeclined: no funds
        3 +1s ActivityFailed #2 (attempt 2) non_retryable: CardDeclined: no funds
        4 +1s RunFailed CardDeclined: no funds
    "#]]
    .assert_eq(&run.history().await);
    let ledger = app.ledger("strict-1").await;
    expect!["non_retryable: its type is in never_for"].assert_eq(&ledger.last().unwrap().why);
}

#[test]
async fn the_first_rule_that_matches_decides() {
    const RULES: &[Rule] = &[
        Rule::retry(Match::codes(&["429"])).backoff(Backoff::Fixed { delay: MINUTE }),
        Rule::retry(Match::kinds(&[Kind::Panic])).max_attempts(1),
        Rule::retry(Match::types(&["Timeout"])).max_attempts(4),
        Rule::fail(Match::message("^no such")),
    ];
    #[workflow]
    async fn call_by_rules(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(fetch()).retry(STEADY.rules(RULES)).await
    }
    async fn by_rules(stub: fn(u32) -> Failure) -> String {
        let app = fetching(move |attempt| Err(stub(attempt)));
        let app = app.workflow(call_by_rules).start().await;
        let run = app.start("rules-1", call_by_rules()).await;
        run.failure().await;
        let rows = app.ledger("rules-1").await.into_iter();
        rows.map(|row| format!("{}: {}\n", row.failure.unwrap(), row.why)).collect()
    }
    let mixed = |attempt| match attempt {
        1 => Failure::of_type("HttpError", "slow down").with_code("429"),
        2 => Failure::of_type("Timeout", "too slow"),
        3 => Failure::new("something else"),
        _ => Failure::of_type("Timeout", "too slow"),
    };
    expect![[r#"
        HttpError: slow down: failure 1; rules[0] matched; waits 1m
        Timeout: too slow: failure 2 of 4; rules[2] matched; waits 1s
        something else: failure 3; waits 1s
        Timeout: too slow: max_attempts: 4 of 4 attempts failed (rules[2])
    "#]]
    .assert_eq(&by_rules(mixed).await);
    expect![[r#"
        no such page: non_retryable: rules[3] forbids another attempt
    "#]]
    .assert_eq(&by_rules(|_| Failure::new("no such page")).await);
    expect![[r#"
        panic: out of paper: max_attempts: 1 of 1 attempts failed (rules[1])
    "#]]
    .assert_eq(&by_rules(|_| panic!("out of paper")).await);
}

#[test]
async fn a_panic_is_a_failure_like_others() {
    let app = fetching(|attempt| match attempt {
        1 => panic!("index {} out of bounds", 7),
        2 => std::panic::panic_any(7),
        _ => Ok(attempt),
    });
    let app = app.start().await;
    expect![[r#"
        1 +0ms RunStarted call_fetch {}
        2 +0ms ActivityScheduled fetch {}
          +0ms fetch#2 attempt 1 failed: panic: index 7 out of bounds; again in 1s
          +1s fetch#2 attempt 2 failed: panic: a panic without a message; again in 1s
        3 +2s ActivityCompleted #2 (attempt 3) 3
        4 +2s RunCompleted 3
    "#]]
    .assert_eq(&told(&app).await);
    let failure = app.ledger("fetch-1").await[0].failure.clone().unwrap();
    assert_eq!(failure.kind, Kind::Panic);
}

#[test]
async fn a_plain_function_is_retried_and_may_panic_too() {
    #[activity(retry = STEADY)]
    fn grind(ctx: ActivityContext) -> Result<u32, Failure> {
        match ctx.attempt() {
            1 => Err(Failure::new("dull")),
            2 => panic!("broken"),
            attempt => Ok(attempt),
        }
    }
    #[workflow]
    async fn call_grind(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(grind()).await
    }
    let app = TestApp::builder().workflow(call_grind).activity(grind).start().await;
    let run = app.start("grind-1", call_grind()).await;
    assert_eq!(run.result().await.unwrap(), 3);
    expect![[r#"
        1 +0ms RunStarted call_grind {}
        2 +0ms ActivityScheduled grind {}
          +0ms grind#2 attempt 1 failed: dull; again in 1s
          +1s grind#2 attempt 2 failed: panic: broken; again in 1s
        3 +2s ActivityCompleted #2 (attempt 3) 3
        4 +2s RunCompleted 3
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn the_workflow_gets_the_whole_failure_and_the_same_one_on_replay() {
    /// Keeps the failure over a wait.
    #[workflow]
    async fn watch(ctx: WorkflowContext) -> Result<Failure, Failure> {
        let failure = ctx.call(fetch()).retry(STEADY.max_attempts(2)).await.unwrap_err();
        ctx.signal::<()>("end").await?;
        Ok(failure)
    }
    let stub = |_| {
        let cause = Failure::of_type("Quota", "used up");
        let details = serde_json::json!({"limit": 10});
        let failure = Failure::of_type("HttpError", "slow down").with_code("429");
        Err(failure.with_details(details).caused_by(cause))
    };
    let app = fetching(stub).workflow(watch).start().await;
    let first = app.start("watch-1", watch()).await;
    first.signal("end", &()).await.unwrap();
    let second = app.start("watch-2", watch()).await;
    app.advance(MINUTE).await;
    app.restart().await;
    second.signal("end", &()).await.unwrap();
    let failure = first.result().await.unwrap();
    expect![[r#"
        {
          "kind": "error",
          "type": "HttpError",
          "code": "429",
          "message": "slow down",
          "details": {
            "limit": 10
          },
          "cause": {
            "kind": "error",
            "type": "Quota",
            "message": "used up"
          },
          "attempts": 2,
          "why": "max_attempts"
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&failure).unwrap());
    assert_eq!(second.result().await.unwrap(), failure);
}

// Who decides.

#[activity(retry = RetryPolicy::fixed(MINUTE).jitter(Jitter::None).max_attempts(2))]
async fn with_policy() -> Result<(), Failure> {
    Ok(())
}

#[activity]
async fn without_policy() -> Result<(), Failure> {
    Ok(())
}

#[workflow]
async fn resolve(ctx: WorkflowContext) -> Result<(), Failure> {
    let own = RetryPolicy::fixed(HOUR).jitter(Jitter::None).max_attempts(2);
    let _call = ctx.call(with_policy()).retry(own).await;
    let _activity = ctx.call(with_policy()).await;
    let _app = ctx.call(without_policy()).await;
    Ok(())
}

#[test]
async fn the_policy_of_a_call_comes_before_the_activitys_and_that_before_the_apps() {
    let app = TestApp::builder()
        .workflow(resolve)
        .stub(with_policy, |_, _| Err(Failure::new("down")))
        .stub(without_policy, |_, _| Err(Failure::new("down")))
        .retry(STEADY.max_attempts(2))
        .start()
        .await;
    let run = app.start("resolve-1", resolve()).await;
    run.result().await.unwrap();
    expect![[r#"
        1 +0ms RunStarted resolve {}
        2 +0ms ActivityScheduled with_policy {}
          +0ms with_policy#2 attempt 1 failed: down; again in 1h
          +1h with_policy#2 attempt 2 failed: down
        3 +1h ActivityFailed #2 (attempt 2) max_attempts: down
        4 +1h ActivityScheduled with_policy {}
          +1h with_policy#4 attempt 1 failed: down; again in 1m
          +1h 1m with_policy#4 attempt 2 failed: down
        5 +1h 1m ActivityFailed #4 (attempt 2) max_attempts: down
        6 +1h 1m ActivityScheduled without_policy {}
          +1h 1m without_policy#6 attempt 1 failed: down; again in 1s
          +1h 1m without_policy#6 attempt 2 failed: down
        7 +1h 1m ActivityFailed #6 (attempt 2) max_attempts: down
        8 +1h 1m RunCompleted null
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn without_any_policy_there_are_ten_attempts() {
    #[workflow]
    async fn call_without(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(without_policy()).await
    }
    let app = TestApp::builder()
        .workflow(call_without)
        .stub(without_policy, |_, _| Err(Failure::new("down")))
        .start()
        .await;
    let run = app.start("without-1", call_without()).await;
    assert_eq!(run.failure().await.attempts, Some(10));
}

#[test]
async fn a_call_keeps_the_policy_it_was_scheduled_with_when_the_app_changes_its_own() {
    #[workflow]
    async fn call_without(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(without_policy()).await
    }
    let app = |policy| {
        TestApp::builder()
            .workflow(call_without)
            .stub(without_policy, |_, _| Err(Failure::new("down")))
            .retry(policy)
    };
    let old = app(STEADY.max_attempts(3)).start().await;
    let run = old.start("without-1", call_without()).await;
    old.advance(Duration::ZERO).await;
    old.restart_with(app(RetryPolicy::once())).await;
    assert_eq!(run.failure().await.attempts, Some(3));
}

// Timeouts.

/// Takes as long as the call says.
#[activity(timeout = 10 * SECOND, retry = STEADY)]
async fn take(ctx: ActivityContext, seconds: u64) -> Result<u32, Failure> {
    ctx.sleep(Duration::from_secs(seconds)).await;
    Ok(ctx.attempt())
}

#[test]
async fn an_attempt_that_takes_too_long_is_told_and_the_next_one_follows_by_policy() {
    /// The attempts that were told to stop.
    #[derive(Default)]
    struct Told(Mutex<Vec<u32>>);
    #[activity(timeout = 10 * SECOND, retry = STEADY)]
    async fn hang_twice(ctx: ActivityContext) -> Result<u32, Failure> {
        if ctx.attempt() < 3 {
            assert!(!ctx.is_cancelled());
            ctx.cancelled().await;
            assert!(ctx.is_cancelled());
            ctx.state::<Arc<Told>>().0.lock().unwrap().push(ctx.attempt());
        }
        Ok(ctx.attempt())
    }
    #[workflow]
    async fn call_hang_twice(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(hang_twice()).await
    }
    let told = Arc::new(Told::default());
    let app = TestApp::builder()
        .workflow(call_hang_twice)
        .activity(hang_twice)
        .state(told.clone())
        .start()
        .await;
    let run = app.start("hang-1", call_hang_twice()).await;
    // What the attempts return once they were told comes too late.
    assert_eq!(run.result().await.unwrap(), 3);
    expect![[r#"
        1 +0ms RunStarted call_hang_twice {}
        2 +0ms ActivityScheduled hang_twice {}
          +10s hang_twice#2 attempt 1 failed: timeout: not done within 10s; again in 1s
          +21s hang_twice#2 attempt 2 failed: timeout: not done within 10s; again in 1s
        3 +22s ActivityCompleted #2 (attempt 3) 3
        4 +22s RunCompleted 3
    "#]]
    .assert_eq(&run.history().await);
    assert_eq!(*told.0.lock().unwrap(), [1, 2]);
    assert_eq!(app.ledger("hang-1").await[0].failure.as_ref().unwrap().kind, Kind::Timeout);
}

#[test]
async fn an_attempt_that_does_not_listen_is_left_behind_and_holds_no_slot() {
    #[activity(timeout = SECOND, retry = STEADY.max_attempts(3))]
    async fn deaf(ctx: ActivityContext) -> Result<u32, Failure> {
        never(&ctx).await;
        Ok(ctx.attempt())
    }
    #[workflow]
    async fn call_deaf(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(deaf()).await
    }
    let app = TestApp::builder()
        .workflow(call_deaf)
        .activity(deaf)
        .options(|options| options.slots = 1)
        .start()
        .await;
    let run = app.start("deaf-1", call_deaf()).await;
    run.failure().await;
    expect![[r#"
        1 +0ms RunStarted call_deaf {}
        2 +0ms ActivityScheduled deaf {}
          +1s deaf#2 attempt 1 failed: timeout: not done within 1s; again in 1s
          +3s deaf#2 attempt 2 failed: timeout: not done within 1s; again in 1s
          +5s deaf#2 attempt 3 failed: timeout: not done within 1s
        3 +5s ActivityFailed #2 (attempt 3) max_attempts: timeout: not done within 1s
        4 +5s RunFailed timeout: not done within 1s
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn each_timeout_is_taken_from_the_call_before_the_activity() {
    #[workflow]
    async fn take_both(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
        let once = RetryPolicy::once();
        let of_activity = ctx.call(take(60)).retry(once.clone()).await;
        let of_call = ctx.call(take(60)).retry(once.clone()).timeout(2 * SECOND).await;
        let total = ctx.call(take(60)).retry(once.clone()).total_timeout(SECOND).await;
        let in_policy = once.timeouts(Timeouts { attempt: Some(MINUTE), ..Timeouts::default() });
        let of_policy = ctx.call(take(30)).retry(in_policy).await;
        let said = |outcome: Result<u32, Failure>| match outcome {
            Ok(attempt) => format!("attempt {attempt}"),
            Err(failure) => failure.to_string(),
        };
        Ok([of_activity, of_call, total, of_policy].map(said).to_vec())
    }
    let app = TestApp::builder().workflow(take_both).activity(take).start().await;
    let run = app.start("take-1", take_both()).await;
    expect![[r#"
        timeout: not done within 10s
        timeout: not done within 2s
        total_timeout: not done within 1s
        attempt 1"#]]
    .assert_eq(&run.result().await.unwrap().join("\n"));
}

#[test]
async fn each_timeout_is_taken_from_the_activity_before_the_app_whoever_gives_the_policy() {
    const fn within(attempt: Duration) -> Timeouts {
        Timeouts { attempt: Some(attempt), heartbeat: None, queue: None, total: None }
    }
    #[activity(retry = RetryPolicy::once())]
    async fn plain(ctx: ActivityContext) -> Result<(), Failure> {
        never(&ctx).await;
        Ok(())
    }
    #[activity(retry = RetryPolicy::once().timeouts(within(20 * SECOND)))]
    async fn bounded(ctx: ActivityContext) -> Result<(), Failure> {
        never(&ctx).await;
        Ok(())
    }
    #[workflow]
    async fn hang(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
        let calls = [
            ctx.call(plain()).await,
            ctx.call(plain()).retry(RetryPolicy::once()).await,
            ctx.call(bounded()).await,
            ctx.call(bounded()).retry(RetryPolicy::once()).await,
        ];
        Ok(calls.map(|outcome| outcome.unwrap_err().to_string()).to_vec())
    }
    let app = TestApp::builder()
        .workflow(hang)
        .activity(plain)
        .activity(bounded)
        .retry(STEADY.timeouts(within(MINUTE)))
        .start()
        .await;
    let run = app.start("hang-1", hang()).await;
    expect![[r#"
        timeout: not done within 1m
        timeout: not done within 1m
        timeout: not done within 20s
        timeout: not done within 20s"#]]
    .assert_eq(&run.result().await.unwrap().join("\n"));
}

#[test]
async fn a_total_timeout_ends_a_call_with_its_last_failure_as_the_cause() {
    #[activity(retry = STEADY)]
    async fn fail_then_hang(ctx: ActivityContext) -> Result<u32, Failure> {
        match ctx.attempt() {
            1 => return Err(Failure::of_type("GatewayBusy", "try later")),
            _ => never(&ctx).await,
        }
        Ok(1)
    }
    #[workflow]
    async fn call_within(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(fail_then_hang()).total_timeout(5 * SECOND).await
    }
    let app = TestApp::builder().workflow(call_within).activity(fail_then_hang).start().await;
    let run = app.start("within-1", call_within()).await;
    let failure = run.failure().await;
    expect![[r#"
        1 +0ms RunStarted call_within {}
        2 +0ms ActivityScheduled fail_then_hang {}
          +0ms fail_then_hang#2 attempt 1 failed: GatewayBusy: try later; again in 1s
          +5s fail_then_hang#2 attempt 2 failed: total_timeout: not done within 5s
        3 +5s ActivityFailed #2 (attempt 2) total_timeout: total_timeout: not done within 5s
        4 +5s RunFailed total_timeout: not done within 5s
    "#]]
    .assert_eq(&run.history().await);
    assert_eq!((failure.kind, failure.why.as_deref()), (Kind::TotalTimeout, Some("total_timeout")));
    let cause = failure.cause.as_ref().map(ToString::to_string);
    assert_eq!(cause.as_deref(), Some("GatewayBusy: try later"));
    assert!(metadata(&app, "within-1").await.unwrap().exhausted);
}

// What is written down.

#[test]
async fn a_call_that_succeeded_at_once_carries_no_story() {
    let app = fetching(Ok).start().await;
    told(&app).await;
    assert_eq!(metadata(&app, "fetch-1").await, None);
    assert_eq!(app.ledger("fetch-1").await, []);
}

#[test]
async fn a_call_that_needed_retries_tells_their_story() {
    let app = fetching(|attempt| match attempt {
        1 => Err(Failure::of_type("GatewayBusy", "try later")),
        2 => Err(Failure::of_kind(Kind::Throttled, "slow down")),
        _ => Ok(attempt),
    });
    let app = app.start().await;
    told(&app).await;
    let story = metadata(&app, "fetch-1").await.unwrap();
    expect![[r#"
        {
          "total_attempts": 3,
          "total_duration_ms": 2000,
          "exhausted": false,
          "last_error": {
            "attempt": 2,
            "error_type": "throttled",
            "message": "slow down",
            "timestamp_ms": 1767225601000
          },
          "errors": [
            {
              "attempt": 1,
              "error_type": "GatewayBusy",
              "message": "try later",
              "timestamp_ms": 1767225600000
            },
            {
              "attempt": 2,
              "error_type": "throttled",
              "message": "slow down",
              "timestamp_ms": 1767225601000
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&story).unwrap());
}

/// What a story of many failures keeps: the attempts, and how many are left out.
fn kept(story: &RetryMetadata) -> (Vec<u32>, u32) {
    (story.errors.iter().map(|error| error.attempt).collect(), story.errors_left_out)
}

#[test]
async fn a_long_story_keeps_the_first_ten_and_the_last_ten_failures() {
    let ends: Vec<u32> = (1..=10).chain(21..=30).collect();
    let app = fetching(fails(30)).start().await;
    told(&app).await;
    let story = metadata(&app, "fetch-1").await.unwrap();
    assert_eq!(kept(&story), (ends.clone(), 10));
    assert_eq!(
        (story.total_attempts, story.total_duration_ms, story.exhausted),
        (31, 30_000, false)
    );
    assert_eq!(story.last_error, story.errors.last().cloned());

    // The same when the process dies on the way.
    for restart_after in [5, 10, 15, 25, 29] {
        let app = fetching(fails(30)).start().await;
        let run = app.start("fetch-1", call_fetch()).await;
        app.advance(SECOND * restart_after).await;
        app.restart().await;
        run.result().await.unwrap();
        let restarted = metadata(&app, "fetch-1").await.unwrap();
        assert_eq!(kept(&restarted), (ends.clone(), 10), "restarted after {restart_after} s");
    }
}

#[test]
async fn a_long_message_is_cut_with_a_mark_and_never_inside_a_letter() {
    let long = "ü".repeat(5_000);
    let message = format!("x{long}");
    let stub = move |_| Err(Failure::new(message.clone()).into_terminal());
    let app = fetching(stub).start().await;
    let run = app.start("fetch-1", call_fetch()).await;
    let failure = run.failure().await;
    let cut = format!("x{} [cut]", "ü".repeat(2_047));
    assert_eq!(failure.message, cut);
    assert_eq!(app.ledger("fetch-1").await[0].failure.as_ref().unwrap().message, cut);
}

#[test]
async fn a_description_says_what_is_retrying_and_why_and_when_next() {
    let app = fetching(fails(5)).start().await;
    app.start("fetch-1", call_fetch()).await;
    app.advance(Duration::from_millis(2_500)).await;
    let description = app.describe("fetch-1").await;
    assert_eq!(description.instance.status, Status::Running);
    let [call] = &description.pending[..] else { panic!("{description:?}") };
    assert_eq!((call.activity.as_str(), call.seq.0, call.attempt), ("fetch", 2, 3));
    assert_eq!((call.running, call.waits_for), (false, Some(WaitsFor::Backoff)));
    let in_half_a_second = app.now().saturating_add(Duration::from_millis(500));
    assert_eq!(call.next_due, Some(in_half_a_second));
    let last = call.last.as_ref().unwrap();
    assert_eq!(last.failure.as_ref().unwrap().message, "down 3");
    expect!["failure 3; waits 1s"].assert_eq(&last.why);
}

#[test]
async fn a_description_says_which_attempt_runs() {
    #[activity]
    async fn hang(ctx: ActivityContext) -> Result<(), Failure> {
        never(&ctx).await;
        Ok(())
    }
    #[workflow]
    async fn call_hang(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(hang()).await
    }
    let app = TestApp::builder().workflow(call_hang).activity(hang).start().await;
    app.start("hang-1", call_hang()).await;
    app.advance(MINUTE).await;
    let description = app.describe("hang-1").await;
    let [call] = &description.pending[..] else { panic!("{description:?}") };
    assert_eq!((call.attempt, call.running, call.next_due), (1, true, None));
    assert_eq!(call.last, None);
}

#[test]
async fn the_key_of_a_call_is_the_same_for_all_attempts_and_another_for_every_call() {
    #[derive(Default)]
    struct Keys(Mutex<Vec<String>>);
    #[activity(retry = STEADY)]
    async fn charge(ctx: ActivityContext) -> Result<(), Failure> {
        ctx.state::<Arc<Keys>>().0.lock().unwrap().push(ctx.idempotency_key());
        match ctx.attempt() {
            1 => Err(Failure::new("down")),
            _ => Ok(()),
        }
    }
    #[workflow]
    async fn charge_twice(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(charge()).await?;
        ctx.call(charge()).await
    }
    let keys = Arc::new(Keys::default());
    let app = TestApp::builder()
        .workflow(charge_twice)
        .activity(charge)
        .state(keys.clone())
        .start()
        .await;
    app.start("charge-1", charge_twice()).await.result().await.unwrap();
    app.start("charge-2", charge_twice()).await.result().await.unwrap();
    let mut keys = keys.0.lock().unwrap().clone();
    let pairs = keys.chunks(2).all(|pair| pair[0] == pair[1]);
    keys.dedup();
    assert!(pairs && keys.len() == 4, "{keys:?}");
}

#[test]
async fn the_key_of_a_call_is_the_same_across_restarts() {
    #[derive(Default)]
    struct Keys(Mutex<Vec<String>>);
    #[activity(retry = STEADY)]
    async fn charge(ctx: ActivityContext) -> Result<(), Failure> {
        ctx.state::<Arc<Keys>>().0.lock().unwrap().push(ctx.idempotency_key());
        if ctx.attempt() < 3 {
            never(&ctx).await;
        }
        Ok(())
    }
    let keys = Arc::new(Keys::default());
    let app = TestApp::builder().activity(charge).state(keys.clone()).start().await;
    let run = app.submit("charge-1", charge()).await.unwrap();
    app.advance(MINUTE).await;
    app.restart().await;
    app.advance(MINUTE).await;
    app.stop_and_restart().await;
    run.result().await.unwrap();
    let mut keys = keys.0.lock().unwrap().clone();
    assert_eq!(keys.len(), 3);
    keys.dedup();
    assert_eq!(keys.len(), 1);
}

// Who waits.

#[test]
async fn an_activity_that_nobody_knows_waits_and_uses_nothing_up() {
    let app = TestApp::builder().workflow(call_fetch).start().await;
    let run = app.start("fetch-1", call_fetch()).await;
    app.advance(HOUR).await;
    let description = app.describe("fetch-1").await;
    let [call] = &description.pending[..] else { panic!("{description:?}") };
    assert_eq!((call.attempt, call.waits_for), (0, Some(WaitsFor::Unregistered)));
    assert_eq!((&call.last, description.instance.status), (&None, Status::Running));

    // A restart changes nothing, a deployment that knows it does.
    let commits = app.commits();
    app.restart().await;
    app.advance(HOUR).await;
    assert_eq!(app.commits(), commits);
    app.restart_with(fetching(Ok)).await;
    assert_eq!(run.result().await.unwrap(), 1);
    expect![[r#"
        1 +0ms RunStarted call_fetch {}
        2 +0ms ActivityScheduled fetch {}
        3 +2h ActivityCompleted #2 1
        4 +2h RunCompleted 1
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn a_call_that_waits_for_its_next_attempt_holds_no_slot() {
    #[workflow]
    async fn call_rarely(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(fetch()).retry(RetryPolicy::fixed(HOUR).jitter(Jitter::None)).await
    }
    let app = fetching(fails(1)).workflow(call_rarely).options(|options| options.slots = 1);
    let app = app.start().await;
    let rare = app.start("rare-1", call_rarely()).await;
    app.advance(MINUTE).await;
    let began = app.now();
    let quick = app.start("fetch-1", call_fetch()).await;
    quick.result().await.unwrap();
    assert_eq!(app.now().since(began), SECOND);
    rare.result().await.unwrap();
}

#[test]
async fn a_bare_activity_is_retried_by_its_own_policy() {
    let app = fetching(fails(2)).start().await;
    let run = app.submit("bare-1", fetch()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 3);
    expect![[r#"
        1 +0ms RunStarted resurgam.activity {"activity":"fetch","arguments":{}}
        2 +0ms ActivityScheduled fetch {}
          +0ms fetch#2 attempt 1 failed: down 1; again in 1s
          +1s fetch#2 attempt 2 failed: down 2; again in 1s
        3 +2s ActivityCompleted #2 (attempt 3) 3
        4 +2s RunCompleted 3
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn the_policy_of_a_submitted_activity_is_the_policy_of_the_activity() {
    #[activity(retry = RetryPolicy::fixed(SECOND).max_attempts(3).jitter(Jitter::None))]
    async fn doomed() -> Result<(), Failure> {
        Err(Failure::new("no"))
    }
    let app = TestApp::builder().activity(doomed).start().await;
    let twice = RetryPolicy::fixed(SECOND).max_attempts(2).jitter(Jitter::None);
    let run = app.client().submit("doomed-0", doomed()).retry(&twice).await.unwrap();
    let failure = app.wait_for("the end", run.result()).await.unwrap_err();
    assert_eq!(app.attempts(doomed), 2, "{failure}");
    // Its timeouts are those of the activity, too.
    let timeouts = Timeouts { attempt: Some(SECOND), ..Timeouts::default() };
    let twice = RetryPolicy { timeouts, ..twice };
    let run = app.client().submit("doomed-1", doomed()).retry(twice).await.unwrap();
    let failure = app.wait_for("the end", run.result()).await.unwrap_err();
    assert_eq!(app.attempts(doomed), 2 + 2, "{failure}");
    expect![[r#"
        1 +0ms RunStarted resurgam.activity {"activity":"doomed","arguments":{},"retry":"{\"v\":1,\"policy\":{\"max_attempts\":2,\"backoff\":{\"type\":\"fixed\",\"d... (220 bytes)
        2 +0ms ActivityScheduled doomed {}
          +0ms doomed#2 attempt 1 failed: no; again in 1s
          +1s doomed#2 attempt 2 failed: no
        3 +1s ActivityFailed #2 (attempt 2) max_attempts: no
        4 +1s RunFailed no
    "#]].assert_eq(&app.history("doomed-1").await);
    let nonsense = RetryPolicy { max_delay: Some(Duration::ZERO), ..RetryPolicy::default() };
    let refused = app.client().submit("doomed-2", doomed()).retry(nonsense).await.unwrap_err();
    assert!(refused.to_string().contains("the retry policy of doomed: "), "{refused}");
}

#[test]
async fn a_servers_delay_is_bounded_by_its_own_maximum_and_not_by_that_of_the_policy() {
    #[activity]
    async fn busy(ctx: ActivityContext) -> Result<u32, Failure> {
        match ctx.attempt() {
            1 => Err(Failure::retry_after(60 * SECOND, "busy")),
            2 => Err(Failure::retry_after(HOUR, "busy")),
            attempt => Ok(attempt),
        }
    }
    let policy = RetryPolicy {
        server_delay: ServerDelay { max: 600 * SECOND, jitter: 0.0, ..ServerDelay::default() },
        ..RetryPolicy::fixed(SECOND).max_delay(5 * SECOND).jitter(Jitter::None)
    };
    let app = TestApp::builder().activity(busy).start().await;
    let run = app.client().submit("busy-1", busy()).retry(policy).await.unwrap();
    assert_eq!(app.wait_for("the end", run.result()).await.unwrap(), 3);
    let ledger = app.ledger("busy-1").await;
    let delays: Vec<_> = ledger.iter().map(|row| row.delay_ms).collect();
    assert_eq!(delays, [Some(60_000), Some(600_000)]);
}
