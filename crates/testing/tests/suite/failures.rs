//! A failure as its workflow gets it: of the type that it was, whole, and the same one after a
//! restart. Every test keeps the failure over a restart, and the workflow writes it down before and
//! returns it after: were the replayed one another, the run would be blocked.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use expect_test::{Expect, expect};
use resurgam::prelude::*;
use resurgam::retry::{Idempotency, Jitter, Match, Rule, Verdict};
use resurgam::{AttemptOutcome, Kind};
use resurgam_core::event::EventKind;
use resurgam_testing::{TestApp, TestBuilder, never};
use resurgam_watchdog::test;
use serde::{Deserialize, Serialize};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

const TWICE: RetryPolicy = RetryPolicy::fixed(SECOND).jitter(Jitter::None).max_attempts(2);

/// What can go wrong with a payment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FailureType)]
enum PaymentError {
    #[failure(terminal, code = 402)]
    Declined { reason: String },
    #[failure(retry_after = *wait, code = status)]
    Busy { wait: Duration, status: u16 },
    #[failure(name = "gateway.down", parent = "NetworkError")]
    Down(Broken),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Broken {
    after: u32,
}

impl fmt::Display for PaymentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PaymentError::Declined { reason } => write!(f, "the bank declined: {reason}"),
            PaymentError::Busy { .. } => f.write_str("the gateway is busy"),
            PaymentError::Down(_) => f.write_str("the gateway does not answer"),
        }
    }
}

impl std::error::Error for PaymentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PaymentError::Down(broken) => Some(broken),
            _ => None,
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the connection broke after {} bytes", self.after)
    }
}

impl std::error::Error for Broken {}

/// Fails as it is told.
#[activity(retry = TWICE)]
async fn charge(error: PaymentError) -> Result<(), PaymentError> {
    Err(error)
}

/// What most tests call; they say how it fails.
#[activity(retry = TWICE)]
async fn fetch() -> Result<(), Failure> {
    Ok(())
}

/// Writes a failure down, keeps it over a wait, and returns it.
async fn keep(ctx: &WorkflowContext, failure: Failure) -> Result<Failure, Failure> {
    ctx.set_status(&failure);
    ctx.sleep(MINUTE).await?;
    Ok(failure)
}

#[workflow]
async fn watch_charge(ctx: WorkflowContext, error: PaymentError) -> Result<Failure, Failure> {
    let failure = ctx.call(charge(error)).await.unwrap_err();
    keep(&ctx, failure).await
}

#[workflow]
async fn watch_fetch(ctx: WorkflowContext) -> Result<Failure, Failure> {
    let failure = ctx.call(fetch()).await.unwrap_err();
    keep(&ctx, failure).await
}

fn fetching(fail: impl Fn(u32) -> Failure + Send + Sync + 'static) -> TestBuilder {
    let stub = move |_, attempt| Err(fail(attempt));
    TestApp::builder().workflow(watch_fetch).stub(fetch, stub)
}

/// The failure that a workflow got, the same one before and after a restart.
async fn kept(app: &TestApp, run: resurgam_testing::TestInstance<Failure>) -> Failure {
    app.advance(30 * SECOND).await;
    let before: Failure = app.client().status(run.id()).await.unwrap().expect("it failed");
    app.restart().await;
    let after = run.result().await.unwrap();
    assert_eq!(after, before);
    after
}

async fn kept_charge(error: PaymentError) -> Failure {
    let app = TestApp::builder().workflow(watch_charge).activity(charge).start().await;
    let run = app.start("watch-1", watch_charge(error)).await;
    kept(&app, run).await
}

async fn kept_fetch(fail: impl Fn(u32) -> Failure + Send + Sync + 'static) -> Failure {
    let app = fetching(fail).start().await;
    let run = app.start("watch-1", watch_fetch()).await;
    kept(&app, run).await
}

fn check(failure: &Failure, expected: Expect) {
    expected.assert_eq(&serde_json::to_string_pretty(failure).unwrap());
}

// The user's own types.

#[test]
async fn a_workflow_gets_the_users_type_back_after_a_restart() {
    let declined = PaymentError::Declined { reason: "no funds".to_string() };
    let failure = kept_charge(declined.clone()).await;
    check(
        &failure,
        expect![[r#"
            {
              "kind": "error",
              "type": "Declined",
              "mro": [
                "Declined",
                "PaymentError"
              ],
              "code": "402",
              "message": "the bank declined: no funds",
              "retryable": false,
              "details": {
                "Declined": {
                  "reason": "no funds"
                }
              },
              "attempts": 1,
              "why": "terminal"
            }"#]],
    );
    assert_eq!(failure.as_error(), Some(declined));
}

/// Functions that fail with the same value in each way that there is.
mod named {
    use super::*;

    fn declined() -> PaymentError {
        PaymentError::Declined { reason: "no funds".to_string() }
    }

    #[activity]
    pub(super) fn blocks() -> Result<(), PaymentError> {
        Err(declined())?;
        Ok(())
    }

    type Payment<T> = Result<T, PaymentError>;

    #[activity]
    pub(super) async fn returns_an_alias() -> Payment<()> {
        Err(declined())
    }

    #[activity]
    pub(super) async fn hands_it_over() -> Result<(), Failure> {
        Err(declined()).typed()?;
        Ok(())
    }

    #[activity]
    pub(super) async fn makes_it_a_failure() -> Result<(), Failure> {
        Err(declined().to_failure())
    }

    #[activity(retry = RetryPolicy::once())]
    pub(super) async fn asks_with_a_question_mark() -> Result<(), Failure> {
        Err(declined())?;
        Ok(())
    }
}

#[test]
async fn the_type_is_kept_where_it_is_named() {
    use named::*;
    #[workflow]
    async fn all(ctx: WorkflowContext) -> Result<Vec<Failure>, Failure> {
        let failures = [
            ctx.call(blocks()).await,
            ctx.call(returns_an_alias()).await,
            ctx.call(hands_it_over()).await,
            ctx.call(makes_it_a_failure()).await,
            ctx.call(asks_with_a_question_mark()).await,
        ];
        Ok(failures.into_iter().filter_map(Result::err).collect())
    }
    let app = TestApp::builder()
        .workflow(all)
        .activity(blocks)
        .activity(returns_an_alias)
        .activity(hands_it_over)
        .activity(makes_it_a_failure)
        .activity(asks_with_a_question_mark)
        .start()
        .await;
    let mut failures = app.start("all-1", all()).await.result().await.unwrap();
    // Into `Failure`, an error is an error like any other: this is the limit of the rule.
    let plain = failures.pop().unwrap();
    assert_eq!(plain.to_string(), "PaymentError: the bank declined: no funds");
    assert_eq!((plain.is_terminal(), plain.as_error::<PaymentError>()), (false, None));
    for failure in failures {
        assert!(matches!(failure.as_error(), Some(PaymentError::Declined { .. })), "{failure}");
        assert_eq!(failure.why.as_deref(), Some("terminal"));
    }
}

#[test]
async fn a_variant_has_a_name_parents_and_causes() {
    let down = PaymentError::Down(Broken { after: 7 });
    let failure = kept_charge(down.clone()).await;
    check(
        &failure,
        expect![[r#"
            {
              "kind": "error",
              "type": "gateway.down",
              "mro": [
                "gateway.down",
                "NetworkError",
                "PaymentError"
              ],
              "message": "the gateway does not answer",
              "details": {
                "Down": {
                  "after": 7
                }
              },
              "cause": {
                "kind": "error",
                "message": "the connection broke after 7 bytes"
              },
              "attempts": 2,
              "why": "max_attempts"
            }"#]],
    );
    assert_eq!(failure.as_error(), Some(down));
}

#[test]
async fn a_rule_means_one_variant_or_all_of_them() {
    const RULES: &[Rule] = &[Rule::fail(Match::types(&["PaymentError"]))];
    const NEVER_DOWN: RetryPolicy = TWICE.never_for(&["gateway.down"]);
    #[workflow]
    async fn by_rules(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
        let down = || charge(PaymentError::Down(Broken { after: 7 }));
        let all = ctx.call(down()).retry(TWICE.rules(RULES)).await.unwrap_err();
        let one = ctx.call(down()).retry(NEVER_DOWN).await.unwrap_err();
        let busy = PaymentError::Busy { wait: Duration::ZERO, status: 429 };
        let other = ctx.call(charge(busy)).retry(NEVER_DOWN).await.unwrap_err();
        Ok([all, one, other].into_iter().filter_map(|failure| failure.why.clone()).collect())
    }
    let app = TestApp::builder().workflow(by_rules).activity(charge).start().await;
    let run = app.start("rules-1", by_rules()).await;
    assert_eq!(run.result().await.unwrap(), ["non_retryable", "non_retryable", "max_attempts"]);
}

#[test]
async fn a_delay_that_the_other_side_asked_for_is_part_of_the_type() {
    // Less than a millisecond is lost when it is stored, and so it is lost at once.
    let wait = Duration::from_micros(20_000_900);
    let app = TestApp::builder().workflow(watch_charge).activity(charge).start().await;
    let run = app.start("watch-1", watch_charge(PaymentError::Busy { wait, status: 429 })).await;
    let failure = kept(&app, run).await;
    assert_eq!((failure.kind, failure.code.as_deref()), (Kind::Throttled, Some("429")));
    assert_eq!(failure.retry_after, Some(Duration::from_secs(20)));
    // The value itself is the user's, and whole.
    assert_eq!(failure.as_error(), Some(PaymentError::Busy { wait, status: 429 }));
    let delay = app.ledger("watch-1").await[0].delay_ms.unwrap();
    assert!((20_000..=22_000).contains(&delay), "{delay}");
}

#[test]
async fn a_type_that_changed_is_no_longer_read_and_the_failure_is_still_there() {
    mod newer {
        use super::*;

        #[derive(Debug, Serialize, Deserialize, FailureType)]
        pub(super) enum PaymentError {
            Declined { reason: String, since_version_2: u8 },
        }

        impl fmt::Display for PaymentError {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let PaymentError::Declined { reason, since_version_2 } = self;
                write!(f, "{reason} {since_version_2}")
            }
        }

        impl std::error::Error for PaymentError {}
    }
    let failure = kept_charge(PaymentError::Declined { reason: "no funds".to_string() }).await;
    assert!(failure.is::<newer::PaymentError>());
    let failure = failure.downcast::<newer::PaymentError>().unwrap_err();
    assert_eq!(failure.message, "the bank declined: no funds");
}

#[test]
async fn a_workflow_that_fails_with_its_own_type_gives_it_to_its_parent_and_to_who_asks() {
    #[workflow]
    async fn pay(_ctx: WorkflowContext) -> Result<(), PaymentError> {
        Err(PaymentError::Declined { reason: "no funds".to_string() })
    }
    #[workflow]
    async fn order(ctx: WorkflowContext) -> Result<Failure, Failure> {
        let failure = ctx.child(pay()).await.unwrap_err();
        keep(&ctx, failure).await
    }
    let app = TestApp::builder().workflow(pay).workflow(order).start().await;
    let failure = app.start("pay-1", pay()).await.failure().await;
    assert!(matches!(failure.as_error(), Some(PaymentError::Declined { .. })));
    let run = app.start("order-1", order()).await;
    let failure = kept(&app, run).await;
    assert!(matches!(failure.as_error(), Some(PaymentError::Declined { .. })));
}

// Every way to end.

#[test]
async fn a_failure_is_whole_on_replay() {
    let failure = kept_fetch(|attempt| {
        let mut failure = Failure::of_type("HttpError", format!("slow down, attempt {attempt}"))
            .with_code("429")
            .with_details(serde_json::json!({"limit": 10, "share": 0.1, "large": u64::MAX}))
            .caused_by(Failure::of_type("Quota", "used up").caused_by(Failure::new("why not")));
        failure.mro = vec!["HttpError".to_string(), "NetworkError".to_string()];
        failure
    });
    check(
        &failure.await,
        expect![[r#"
            {
              "kind": "error",
              "type": "HttpError",
              "mro": [
                "HttpError",
                "NetworkError"
              ],
              "code": "429",
              "message": "slow down, attempt 2",
              "details": {
                "large": 18446744073709551615,
                "limit": 10,
                "share": 0.1
              },
              "cause": {
                "kind": "error",
                "type": "Quota",
                "message": "used up",
                "cause": {
                  "kind": "error",
                  "message": "why not"
                }
              },
              "attempts": 2,
              "why": "max_attempts"
            }"#]],
    );
}

#[test]
async fn an_error_of_rusts_has_the_same_type_the_first_time_and_on_replay() {
    let failure = kept_fetch(|_| "x".parse::<u8>().unwrap_err().into()).await;
    assert_eq!(failure.type_name.as_deref(), Some("ParseIntError"));
    let fails = kept_fetch(|_| Failure::from(std::io::Error::other("no route"))).await;
    assert_eq!(fails.to_string(), "std::io::Error: no route");
}

/// Policies in databases were written when every such type was called `Error`.
#[test]
async fn rules_know_an_error_by_its_path_and_a_stored_policy_by_the_short_name_it_was_given() {
    async fn attempts_under(policy: &str) -> Option<u32> {
        #[workflow]
        async fn under(ctx: WorkflowContext, policy: String) -> Result<Failure, Failure> {
            let policy = RetryPolicy::from_stored(&policy).map_err(|_| Failure::new("policy"))?;
            Ok(ctx.call(fetch()).retry(policy).await.unwrap_err())
        }
        let stub = |_, _| Err(Failure::from(std::io::Error::other("no route")));
        let app = TestApp::builder().workflow(under).stub(fetch, stub).start().await;
        app.start("under-1", under(policy.to_string())).await.result().await.unwrap().attempts
    }
    for name in ["Error", "io::Error", "std::io::Error"] {
        let policy = format!(r#"{{"policy": {{"max_attempts": 3, "never_for": ["{name}"]}}}}"#);
        assert_eq!(attempts_under(&policy).await, Some(1), "{name}");
    }
    for name in ["std::fmt::Error", "ParseIntError"] {
        let policy = format!(r#"{{"policy": {{"max_attempts": 3, "never_for": ["{name}"]}}}}"#);
        assert_eq!(attempts_under(&policy).await, Some(3), "{name}");
    }
}

#[test]
async fn a_delay_that_the_other_side_asked_for_stays_on_the_failure() {
    let failure = kept_fetch(|_| Failure::retry_after(Duration::from_millis(1_500), "busy")).await;
    check(
        &failure,
        expect![[r#"
            {
              "kind": "throttled",
              "message": "busy",
              "retry_after_ms": 1500,
              "attempts": 2,
              "why": "max_attempts"
            }"#]],
    );
}

#[test]
async fn a_snoozed_attempt_is_counted_among_the_attempts_and_not_among_the_failures() {
    let failure = kept_fetch(|attempt| match attempt {
        1..=3 => Failure::snooze(SECOND),
        _ => Failure::new(format!("down {attempt}")),
    });
    check(
        &failure.await,
        expect![[r#"
            {
              "kind": "error",
              "message": "down 5",
              "attempts": 5,
              "why": "max_attempts"
            }"#]],
    );
}

#[test]
async fn a_pruned_branch_says_so() {
    let failure = kept_fetch(|_| Failure::prune()).await;
    assert!(failure.is_pruned());
    assert_eq!((failure.attempts, failure.why.as_deref()), (Some(1), Some("pruned")));
}

#[test]
async fn a_panic_is_a_failure_of_its_own_kind() {
    let failure = kept_fetch(|_| panic!("the unthinkable")).await;
    check(
        &failure,
        expect![[r#"
            {
              "kind": "panic",
              "message": "the unthinkable",
              "attempts": 2,
              "why": "max_attempts"
            }"#]],
    );
}

#[activity(retry = RetryPolicy::once().idempotency(Idempotency::AtMostOnce))]
async fn launch(ctx: ActivityContext) -> Result<(), Failure> {
    never(&ctx).await;
    Ok(())
}

#[workflow]
async fn watch_launch(ctx: WorkflowContext) -> Result<Failure, Failure> {
    let failure = ctx.call(launch()).await.unwrap_err();
    keep(&ctx, failure).await
}

#[test]
async fn a_process_that_dies_is_a_failure_where_nothing_may_be_repeated() {
    let app = TestApp::builder().workflow(watch_launch).activity(launch).start().await;
    let run = app.start("watch-1", watch_launch()).await;
    app.advance(SECOND).await;
    app.restart().await;
    check(
        &kept(&app, run).await,
        expect![[r#"
            {
              "kind": "worker_lost",
              "message": "the process that ran it died",
              "attempts": 1,
              "why": "worker_lost"
            }"#]],
    );
}

#[test]
async fn a_graceful_stop_is_a_failure_where_nothing_may_be_repeated() {
    let app = TestApp::builder().workflow(watch_launch).activity(launch).start().await;
    let run = app.start("watch-1", watch_launch()).await;
    app.advance(SECOND).await;
    app.stop_and_restart().await;
    let failure = kept(&app, run).await;
    check(
        &failure,
        expect![[r#"
            {
              "kind": "worker_lost",
              "message": "a graceful stop cut it short",
              "attempts": 1,
              "why": "worker_lost"
            }"#]],
    );
}

#[test]
async fn a_graceful_stop_costs_no_attempt_elsewhere() {
    #[activity(retry = TWICE)]
    async fn slow(ctx: ActivityContext) -> Result<(), Failure> {
        match ctx.attempt() {
            1 => never(&ctx).await,
            attempt => return Err(Failure::new(format!("down {attempt}"))),
        }
        Ok(())
    }
    #[workflow]
    async fn watch_slow(ctx: WorkflowContext) -> Result<Failure, Failure> {
        let failure = ctx.call(slow()).await.unwrap_err();
        keep(&ctx, failure).await
    }
    let app = TestApp::builder().workflow(watch_slow).activity(slow).start().await;
    let run = app.start("watch-1", watch_slow()).await;
    app.advance(SECOND).await;
    app.stop_and_restart().await;
    let failure = kept(&app, run).await;
    // The first was interrupted, two failed.
    assert_eq!((failure.message.as_str(), failure.attempts), ("down 3", Some(3)));
    let outcomes: Vec<AttemptOutcome> =
        app.ledger("watch-1").await.into_iter().map(|row| row.outcome).collect();
    let failed = AttemptOutcome::Failed;
    assert_eq!(outcomes, [AttemptOutcome::Interrupted, failed, failed]);
}

#[test]
async fn every_end_says_why() {
    const RULES: &[Rule] = &[Rule::fail(Match::message("^forbidden"))];
    #[activity(retry = TWICE)]
    async fn take(ctx: ActivityContext, seconds: u64) -> Result<(), Failure> {
        ctx.sleep(Duration::from_secs(seconds)).await;
        Err(Failure::new("forbidden"))
    }
    #[workflow]
    async fn ends(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
        let endless = || TWICE.unlimited();
        let failures = [
            ctx.call(take(0)).await,
            ctx.call(take(0)).retry(TWICE.rules(RULES)).await,
            ctx.call(take(0)).retry(TWICE.rules(RULES).otherwise(Verdict::Fail)).await,
            ctx.call(fetch()).retry(TWICE.rules(RULES).otherwise(Verdict::Fail)).await,
            ctx.call(take(3)).retry(endless().max_elapsed(10 * SECOND)).await,
            ctx.call(take(3)).retry(endless()).total_timeout(Duration::from_millis(3_500)).await,
            ctx.call(take(9)).retry(endless()).total_timeout(5 * SECOND).await,
            ctx.call(take(9)).timeout(SECOND).await,
        ];
        let why = |ended: Result<(), Failure>| {
            let failure = ended.unwrap_err();
            format!("{}: {}", failure.why.as_deref().unwrap(), failure.kind.name())
        };
        let whys: Vec<String> = failures.into_iter().map(why).collect();
        ctx.set_status(&whys);
        ctx.sleep(MINUTE).await?;
        Ok(whys)
    }
    let app = fetching(|_| Failure::new("strange")).workflow(ends).activity(take).start().await;
    let run = app.start("ends-1", ends()).await;
    app.advance(MINUTE).await;
    app.restart().await;
    expect![[r#"
        max_attempts: error
        non_retryable: error
        non_retryable: error
        no_rule: error
        max_elapsed: error
        total_timeout: error
        total_timeout: total_timeout
        max_attempts: timeout"#]]
    .assert_eq(&run.result().await.unwrap().join("\n"));
}

#[test]
async fn a_call_that_was_cancelled_and_settles_says_so() {
    #[activity(retry = TWICE)]
    async fn reserve(ctx: ActivityContext) -> Result<u32, Failure> {
        ctx.cancelled().await;
        Err(Failure::new("gave up"))
    }
    #[activity]
    async fn release(hold: u32) -> Result<u32, Failure> {
        Ok(hold)
    }
    #[workflow]
    async fn hurry(ctx: WorkflowContext) -> Result<(), Failure> {
        let hold = ctx.call(reserve()).compensate_with(|hold| release(*hold));
        ctx.timeout(SECOND, hold).await??;
        Ok(())
    }
    let app = TestApp::builder().workflow(hurry).activity(reserve).activity(release).start().await;
    let run = app.start("hurry-1", hurry()).await;
    let failure = run.failure().await;
    assert_eq!(failure.to_string(), "Elapsed: not done within 1s");
    let history = run.history().await;
    assert!(history.contains("ActivityFailed #2 cancelled: "), "{history}");
    assert_eq!(app.attempts(release), 0);
}

// What others get wrong about failures.

#[test]
async fn failed_attempts_leave_a_trace_after_an_eventual_success() {
    #[workflow]
    async fn patient(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(fetch()).retry(TWICE.unlimited()).await
    }
    let app = TestApp::builder()
        .workflow(patient)
        .stub(fetch, |_, attempt| match attempt {
            1..=3 => Err(PaymentError::Down(Broken { after: attempt }).to_failure()),
            _ => Ok(()),
        })
        .start()
        .await;
    let run = app.start("patient-1", patient()).await;
    run.result().await.unwrap();
    app.restart().await;
    let ledger = app.ledger("patient-1").await;
    let errors: Vec<PaymentError> =
        ledger.iter().filter_map(|row| row.failure.as_ref()?.as_error()).collect();
    assert_eq!(errors, [1, 2, 3].map(|after| PaymentError::Down(Broken { after })));
    let events = app.client().events("patient-1").await.unwrap();
    let story = events.into_iter().find_map(|event| match event.kind {
        EventKind::ActivityCompleted(done) => done.retry_metadata,
        _ => None,
    });
    let types: Vec<String> =
        story.unwrap().errors.into_iter().map(|error| error.error_type).collect();
    assert_eq!(types, ["gateway.down"; 3]);
}

#[test]
async fn the_story_of_a_failure_is_bounded_whatever_the_failures_weigh() {
    let details = "x".repeat(10_000);
    #[workflow]
    async fn insistent(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(fetch()).retry(TWICE.max_attempts(500)).await
    }
    let app = TestApp::builder()
        .workflow(insistent)
        .stub(fetch, move |_, _| {
            Err(Failure::new(&details).with_details(serde_json::json!([details])))
        })
        .start()
        .await;
    let run = app.start("insistent-1", insistent()).await;
    let failure = run.failure().await;
    assert_eq!((failure.attempts, failure.why.as_deref()), (Some(500), Some("max_attempts")));
    let events = app.client().events("insistent-1").await.unwrap();
    let story = events.into_iter().find_map(|event| match event.kind {
        EventKind::ActivityFailed(failed) => failed.retry_metadata,
        _ => None,
    });
    let story = story.unwrap();
    assert_eq!((story.errors.len(), story.errors_left_out, story.exhausted), (20, 480, true));
    // Messages are cut, and details are on the last failure only.
    assert!(serde_json::to_string(&story).unwrap().len() < 21 * 4_300);
}

#[test]
async fn a_result_or_an_error_that_cannot_be_written_does_not_run_the_body_again() {
    /// Has no JSON form: its keys are no text.
    #[derive(Debug, Serialize, Deserialize, FailureType)]
    struct Formless(BTreeMap<(u8, u8), u8>);
    impl fmt::Display for Formless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("no form")
        }
    }
    impl std::error::Error for Formless {}
    fn formless() -> Formless {
        Formless([((1, 2), 3)].into())
    }
    static BODIES: AtomicU32 = AtomicU32::new(0);
    #[activity(retry = TWICE.unlimited())]
    async fn returns_it() -> Result<Formless, Failure> {
        BODIES.fetch_add(1, Ordering::Relaxed);
        Ok(formless())
    }
    #[activity(retry = TWICE)]
    async fn fails_with_it() -> Result<(), Formless> {
        BODIES.fetch_add(1, Ordering::Relaxed);
        Err(formless())
    }
    #[workflow]
    async fn both(ctx: WorkflowContext) -> Result<Vec<Failure>, Failure> {
        let returned = ctx.call(returns_it()).await.err().unwrap();
        let failed = ctx.call(fails_with_it()).await.unwrap_err();
        ctx.sleep(MINUTE).await?;
        Ok(vec![returned, failed])
    }
    let app = TestApp::builder()
        .workflow(both)
        .activity(returns_it)
        .activity(fails_with_it)
        .start()
        .await;
    let run = app.start("both-1", both()).await;
    app.advance(30 * SECOND).await;
    app.restart().await;
    let failures = run.result().await.unwrap();
    let [returned, failed] = &failures[..] else { panic!("{failures:?}") };
    assert_eq!((returned.type_name.as_deref(), returned.attempts), (Some("BadOutput"), Some(1)));
    // The error is what it is, by its own policy, and says what is missing.
    assert_eq!((failed.type_name.as_deref(), failed.attempts), (Some("Formless"), Some(2)));
    assert_eq!(failed.cause.as_ref().unwrap().type_name.as_deref(), Some("BadDetails"));
    assert_eq!(BODIES.load(Ordering::Relaxed), 3);
}
