//! What the engines we are measured against get wrong, and the test that shows that we do not.
//!
//! The table names a test for every line; a test at the end of this file checks that each of them
//! exists. Those that belong to no other file are below the table.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam::retry::dialect::Dialect;
use resurgam_testing::{StoreCall, TestApp, TestBuilder, never};
use resurgam_watchdog::test;
use serde_json::json;

/// Whose, what, and the test, by file and name.
const LINES: &[(&str, &str, &str, &str)] = &[
    (
        "Edda",
        "killed at attempt 3 of 5, it makes 5 more: attempts live in memory",
        "testing/tests/suite/duroxide_plan.rs",
        "a_restart_in_the_middle_of_the_retries_goes_on_counting",
    ),
    ("Edda", "the start time lives in memory", HERE, "a_deadline_is_counted_across_restarts"),
    (
        "Edda",
        "a replayed failure has another type than the first time",
        "testing/tests/suite/failures.rs",
        "an_error_of_rusts_has_the_same_type_the_first_time_and_on_replay",
    ),
    (
        "Edda",
        "a replayed failure has another type than the first time: types of the user",
        "testing/tests/suite/failures.rs",
        "a_workflow_gets_the_users_type_back_after_a_restart",
    ),
    ("Edda", "leases are never renewed", HERE, "an_attempt_that_takes_a_month_is_made_once"),
    (
        "Edda",
        "cancel during a backoff is ignored",
        "testing/tests/suite/waiting.rs",
        "a_call_is_cancelled_in_the_middle_of_its_backoff",
    ),
    (
        "Edda",
        "INFINITE_RETRY overflows at attempt 1025",
        HERE,
        "endless_retries_go_on_after_the_thousandth_with_their_longest_delay",
    ),
    (
        "Edda",
        "hook and serialisation errors re-run the body",
        "testing/tests/suite/failures.rs",
        "a_result_or_an_error_that_cannot_be_written_does_not_run_the_body_again",
    ),
    (
        "Duroxide",
        "a 0.31 s outage while committing fails the workflow for good",
        HERE,
        "an_outage_of_hours_while_committing_fails_nothing",
    ),
    (
        "Duroxide",
        "a 0.31 s outage: every call to the store",
        "testing/tests/suite/engine.rs",
        "no_refused_store_call_fails_a_workflow",
    ),
    (
        "Duroxide",
        "one failed lock renewal loses an activity and hangs its workflow",
        HERE,
        "an_attempt_that_ends_during_an_outage_is_not_lost",
    ),
    (
        "Duroxide",
        "one undecodable row blocks the queue",
        "store-sqlite/tests/suite/unreadable.rs",
        "many_unreadable_rows_do_not_hide_the_good_one_behind_them",
    ),
    (
        "Duroxide",
        "starting a duplicate id answers Ok",
        "testing/tests/suite/bad_input.rs",
        "an_id_that_is_taken_is_refused_and_its_run_is_left_alone",
    ),
    (
        "Duroxide",
        "signalling nobody answers Ok",
        "testing/tests/suite/bad_input.rs",
        "a_signal_to_nobody_is_refused",
    ),
    (
        "Duroxide",
        "an attempt that beats its timeout leaves a timer that later costs a turn",
        "testing/tests/suite/duroxide_plan.rs",
        "an_attempt_that_beats_its_timeout_leaves_nothing_behind",
    ),
    (
        "Rappel",
        "backoff is parsed and ignored; filters are ignored",
        HERE,
        "backoffs_and_filters_of_a_policy_from_there_are_followed",
    ),
    (
        "Rappel",
        "a timed-out attempt keeps running beside its successor",
        HERE,
        "an_attempt_that_timed_out_is_gone_before_its_successor_begins",
    ),
    (
        "Rappel",
        "durations are whole seconds",
        "testing/tests/suite/duroxide_plan.rs",
        "a_timeout_of_a_millisecond_passes_after_a_millisecond",
    ),
    ("Rappel", "a policy from a variable is silently dropped", HERE, "a_policy_may_be_a_variable"),
    (
        "Exosphere",
        "jitter is destroyed by capping after it",
        "core/tests/suite/contradictions.rs",
        "x2_the_cap_comes_after_the_jitter_there_and_before_it_here",
    ),
    (
        "Exosphere",
        "large powers overflow and leave the state queued for ever",
        HERE,
        "endless_retries_go_on_after_the_thousandth_with_their_longest_delay",
    ),
    (
        "Exosphere",
        "a dead runtime's states are never served again",
        "testing/tests/suite/retries.rs",
        "an_attempt_that_died_with_its_process_is_run_again_and_does_not_count",
    ),
    (
        "Exosphere",
        "a dead runtime's states are never served again: with real processes",
        "resurgam/tests/suite/takeover.rs",
        "workers_that_take_over_from_each_other_lose_nothing_and_repeat_nothing",
    ),
    (
        "Exosphere",
        "ALL_DONE hangs when the last branch fails",
        "testing/tests/suite/waiting.rs",
        "joined_calls_all_end_before_the_first_failure_in_their_order_is_returned",
    ),
    (
        "Cadence",
        "whole seconds",
        "testing/tests/suite/duroxide_plan.rs",
        "attempts_with_an_exponential_backoff_begin_at_doubling_distances",
    ),
    (
        "Cadence",
        "no jitter",
        "testing/tests/suite/retries.rs",
        "runs_that_fail_together_do_not_come_back_together",
    ),
    (
        "Cadence",
        "only the last failure kept",
        "testing/tests/suite/retries.rs",
        "a_call_that_needed_retries_tells_their_story",
    ),
    (
        "Cadence",
        "local activities make one attempt too many",
        "testing/tests/suite/duroxide_plan.rs",
        "an_activity_that_always_fails_is_attempted_as_often_as_allowed",
    ),
    (
        "Temporal",
        "a workflow that fails while being cancelled is retried",
        HERE,
        "a_run_that_fails_while_being_cancelled_is_not_tried_again",
    ),
    (
        "Temporal",
        "no attempt history",
        "testing/tests/suite/duroxide_plan.rs",
        "every_attempt_that_failed_has_a_row_in_the_ledger_and_the_call_one_event",
    ),
    (
        "DBOS",
        "failed attempts leave no trace after an eventual success",
        "testing/tests/suite/failures.rs",
        "failed_attempts_leave_a_trace_after_an_eventual_success",
    ),
    (
        "DBOS",
        "backoff sleeps in the worker",
        "testing/tests/suite/retries.rs",
        "a_call_that_waits_for_its_next_attempt_holds_no_slot",
    ),
    ("Restate", "a backoff below 2 s holds its slot", HERE, "a_short_backoff_holds_no_slot"),
];

const HERE: &str = "testing/tests/suite/peers.rs";

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

const STEADY: RetryPolicy = RetryPolicy::fixed(SECOND).jitter(Jitter::None).unlimited();

#[activity(retry = STEADY)]
async fn fetch() -> Result<u32, Failure> {
    Ok(1)
}

/// Calls `fetch` by this policy.
#[workflow]
async fn call_fetch(ctx: WorkflowContext, policy: RetryPolicy) -> Result<u32, Failure> {
    ctx.call(fetch()).retry(policy).await
}

fn fetching(stub: impl Fn(u32) -> Result<u32, Failure> + Send + Sync + 'static) -> TestBuilder {
    TestApp::builder().workflow(call_fetch).stub(fetch, move |_, attempt| stub(attempt))
}

fn down(_attempt: u32) -> Result<u32, Failure> {
    Err(Failure::new("down"))
}

#[test]
async fn a_deadline_is_counted_across_restarts() {
    let app = fetching(down).start().await;
    let began = app.now();
    let run = app.start("fetch-1", call_fetch(STEADY.max_elapsed(MINUTE))).await;
    for _ in 0..5 {
        app.advance(10 * SECOND).await;
        app.restart().await;
    }
    let failure = run.failure().await;
    assert_eq!(failure.why.as_deref(), Some("max_elapsed"));
    assert_eq!((app.now().since(began), failure.attempts), (MINUTE, Some(61)));
}

#[test]
async fn an_attempt_that_takes_a_month_is_made_once() {
    #[activity]
    async fn slow(ctx: ActivityContext) -> Result<u32, Failure> {
        ctx.sleep(30 * DAY).await;
        Ok(ctx.attempt())
    }
    #[workflow]
    async fn call_slow(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(slow()).await
    }
    let app = TestApp::builder().workflow(call_slow).activity(slow).start().await;
    let run = app.start("slow-1", call_slow()).await;
    assert_eq!((run.result().await.unwrap(), app.attempts(slow)), (1, 1));
}

#[test]
async fn endless_retries_go_on_after_the_thousandth_with_their_longest_delay() {
    // 2^1100 milliseconds are more than any number holds.
    let policy = RetryPolicy::exponential(Duration::from_millis(1)).jitter(Jitter::None);
    let policy = policy.max_delay(MINUTE).unlimited();
    let app = fetching(|attempt| match attempt {
        ..1_100 => down(attempt),
        _ => Ok(attempt),
    });
    let app = app.start().await;
    let run = app.start("fetch-1", call_fetch(policy)).await;
    assert_eq!(run.result().await.unwrap(), 1_100);
    assert_eq!(app.ledger("fetch-1").await.last().unwrap().delay_ms, Some(60_000));
}

#[test]
async fn an_outage_of_hours_while_committing_fails_nothing() {
    let app = fetching(Ok).start().await;
    // Each refusal is followed by a wait, so these are hours.
    app.faults().refuse(StoreCall::Commit, 20_000);
    let began = app.now();
    let run = app.start("fetch-1", call_fetch(RetryPolicy::once())).await;
    assert_eq!(run.result().await.unwrap(), 1);
    assert!(app.now().since(began) > DAY / 5);
    assert_eq!((app.attempts(fetch), app.ledger("fetch-1").await.len()), (1, 0));
}

#[test]
async fn an_attempt_that_ends_during_an_outage_is_not_lost() {
    #[activity(retry = RetryPolicy::once())]
    async fn slow(ctx: ActivityContext) -> Result<u32, Failure> {
        ctx.sleep(MINUTE).await;
        Ok(ctx.attempt())
    }
    #[workflow]
    async fn call_slow(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(slow()).await
    }
    let app = TestApp::builder().workflow(call_slow).activity(slow).start().await;
    let run = app.start("slow-1", call_slow()).await;
    app.advance(SECOND).await;
    for call in StoreCall::ALL {
        app.faults().refuse(call, 100);
    }
    assert_eq!(run.result().await.unwrap(), 1);
    assert_eq!(app.attempts(slow), 1);
}

#[test]
async fn backoffs_and_filters_of_a_policy_from_there_are_followed() {
    let brackets = "[Busy -> retry: 3, backoff: 2s] [Odd -> retry: 1, backoff: 500ms]";
    let policy = Dialect::RappelIr.import(&json!({ "brackets": brackets })).unwrap().policy;
    let app = fetching(|attempt| match attempt {
        1 | 2 => Err(Failure::of_type("Busy", "later")),
        _ => Err(Failure::of_type("Unforeseen", "what is this?")),
    });
    let app = app.start().await;
    let run = app.start("fetch-1", call_fetch(policy)).await;
    let failure = run.failure().await;
    assert_eq!(failure.why.as_deref(), Some("no_rule"));
    let lines: Vec<String> = run
        .history()
        .await
        .lines()
        .filter(|line| line.contains("#2"))
        .map(str::to_string)
        .collect();
    expect![[r#"
          +0ms fetch#2 attempt 1 failed: Busy: later; again in 2s
          +2s fetch#2 attempt 2 failed: Busy: later; again in 4s
          +6s fetch#2 attempt 3 failed: Unforeseen: what is this?
        3 +6s ActivityFailed #2 (attempt 3) no_rule: Unforeseen: what is this?"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
async fn an_attempt_that_timed_out_is_gone_before_its_successor_begins() {
    /// How many attempts are there at once, and how many were there at most.
    #[derive(Default)]
    struct Alive {
        now: AtomicU32,
        most: AtomicU32,
    }
    struct Guard(Arc<Alive>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.now.fetch_sub(1, Ordering::Relaxed);
        }
    }
    #[activity(timeout = MINUTE, retry = RetryPolicy::fixed(MINUTE).max_attempts(5))]
    async fn deaf(ctx: ActivityContext) -> Result<(), Failure> {
        let alive: Arc<Alive> = ctx.state::<Arc<Alive>>().as_ref().clone();
        let now = alive.now.fetch_add(1, Ordering::Relaxed) + 1;
        alive.most.fetch_max(now, Ordering::Relaxed);
        let _guard = Guard(alive);
        never(&ctx).await;
        Ok(())
    }
    #[workflow]
    async fn call_deaf(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(deaf()).await
    }
    let alive = Arc::new(Alive::default());
    let app = TestApp::builder()
        .workflow(call_deaf)
        .activity(deaf)
        .state(alive.clone())
        .options(|options| options.grace = SECOND)
        .start()
        .await;
    let run = app.start("deaf-1", call_deaf()).await;
    run.failure().await;
    assert_eq!((app.attempts(deaf), alive.most.load(Ordering::Relaxed)), (5, 1));
}

#[test]
async fn a_policy_may_be_a_variable() {
    let app = fetching(down).start().await;
    for attempts in 1..5 {
        let policy = STEADY.max_attempts(attempts);
        let run = app.start(&format!("fetch-{attempts}"), call_fetch(policy)).await;
        assert_eq!(run.failure().await.attempts, Some(attempts));
    }
}

#[test]
async fn a_run_that_fails_while_being_cancelled_is_not_tried_again() {
    #[workflow]
    async fn stubborn(ctx: WorkflowContext) -> Result<(), Failure> {
        let _cancelled = ctx.sleep(DAY).await;
        Err(Failure::new("and now for something else"))
    }
    let app = TestApp::builder().workflow(stubborn).start().await;
    let client = app.client();
    client.start("stubborn-1", stubborn()).retry(&STEADY).await.unwrap();
    app.advance(SECOND).await;
    app.cancel("stubborn-1", "enough").await.unwrap();
    app.advance(MINUTE).await;
    expect![[r#"
        1 +0ms RunStarted stubborn {}
        2 +0ms TimerStarted until +1d
        3 +1s CancelRequested enough
        4 +1s TimerCancelled #2
        5 +1s RunCancelled and now for something else
    "#]]
    .assert_eq(&app.history("stubborn-1").await);
}

#[test]
async fn a_short_backoff_holds_no_slot() {
    #[activity]
    async fn quick() -> Result<(), Failure> {
        Ok(())
    }
    #[workflow]
    async fn call_quick(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(quick()).await
    }
    let app = fetching(down).workflow(call_quick).activity(quick);
    let app = app.options(|options| options.slots = 1).start().await;
    let policy = RetryPolicy::fixed(Duration::from_millis(900)).jitter(Jitter::None).unlimited();
    app.start("fetch-1", call_fetch(policy)).await;
    app.advance(Duration::from_millis(100)).await;
    let began = app.now();
    app.start("quick-1", call_quick()).await.result().await.unwrap();
    assert_eq!(app.now(), began);
}

// The table.

#[test]
fn every_line_has_its_test() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (whose, what, file, test) in LINES {
        let text = std::fs::read_to_string(crates.join(file)).unwrap();
        let before = text.split_once(&format!("fn {test}()")).map(|(before, _)| before);
        let attribute = before.and_then(|before| before.trim_end_matches("async ").lines().last());
        let found = attribute.is_some_and(|line| line.starts_with("#[test"));
        assert!(found, "{whose}: {what}: there is no test {test} in {file}");
    }
}
