//! Calls that are given up and kept: for which reasons, with what, once whatever crashes, and for
//! how long. And decisions about many of them, and about many paused calls.

use std::fmt::Write;
use std::time::Duration;

use expect_test::{Expect, expect};
use resurgam::prelude::*;
use resurgam::retry::{Exhausted, Jitter};
use resurgam::{
    Acted, CallCursor, CallKey, Client, ClosedFilter, DeadLetter, DeadLetterFilter, InstanceFilter,
    LetterState, PausedFilter, Status,
};
use resurgam_testing::{Crash, TestApp, TestBuilder};
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::common::{at_once, crashes, is_slow, later};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// Does what the case is called after.
#[activity]
async fn work(ctx: ActivityContext, case: String) -> Result<u32, Failure> {
    match case.as_str() {
        "terminal" => Err(Failure::terminal("no such account 4711")),
        "pruned" => Err(Failure::prune()),
        "long" => {
            ctx.sleep(HOUR).await;
            Ok(1)
        }
        "unicode" => Err(Failure::of_type("Größe", "銀行 \"7\" 💥 antwortet\0 nicht")),
        "huge" => Err(Failure::of_type("Huge", "row 7 of 'x'; ".repeat(10_000))),
        case => Err(Failure::of_type("BankDown", format!("no answer to {case} at 12:07:31"))),
    }
}

/// Calls it with a policy, and goes on whatever it says.
#[workflow]
async fn order(ctx: WorkflowContext, case: String, policy: Value) -> Result<String, Failure> {
    let policy =
        RetryPolicy::from_value(&policy).map_err(|error| Failure::terminal(error.to_string()))?;
    match ctx.call(work(case)).retry(policy).await {
        Ok(value) => Ok(format!("{value}")),
        Err(failure) => {
            Ok(format!("{} ({})", failure.kind.name(), failure.why.as_deref().unwrap_or("-")))
        }
    }
}

fn builder() -> TestBuilder {
    TestApp::builder()
        .workflow(order)
        .activity(work)
        .options(|options| (options.slots, options.grace) = (1, SECOND))
}

async fn letters(app: &TestApp, state: LetterState) -> Vec<DeadLetter> {
    let filter = DeadLetterFilter { state, limit: 100_000, ..DeadLetterFilter::default() };
    app.client().dead_letters(filter).await.unwrap()
}

/// The open letters, without what differs from run to run.
async fn told(app: &TestApp) -> String {
    let mut text = String::new();
    for letter in letters(app, LetterState::Open).await {
        let DeadLetter { activity, instance, workflow, queue, why, attempts, .. } = &letter;
        let (seq, run) = (letter.call.seq, letter.call.run.run);
        let failure: String = letter.failure.to_string().chars().take(60).collect();
        let error: String = letter.error.chars().take(60).collect();
        let name = format!("{activity}#{seq} of {instance}, run {run} ({workflow}, {queue})");
        writeln!(text, "{name} {}", letter.input).unwrap();
        writeln!(text, "  {why} after {attempts}: {failure:?}").unwrap();
        for row in &letter.ledger {
            let failure = row.failure.as_ref().map(ToString::to_string).unwrap_or_default();
            let failure: String = failure.chars().take(40).collect();
            let (outcome, delay) = (row.outcome.name(), row.delay_ms);
            writeln!(text, "  attempt {} {outcome} {delay:?}: {failure:?}", row.attempt).unwrap();
        }
        writeln!(text, "  {} {error:?}", letter.fingerprint).unwrap();
    }
    text
}

/// What is told after a day about one call under a policy with dead letters, and that it is the
/// same after a crash at any commit.
async fn check(case: &str, policy: Value, expected: Expect) {
    let play = async |app: &TestApp| {
        app.start("it", order(case.to_string(), policy.clone())).await;
        app.advance(DAY).await;
        (told(app).await, app.history("it").await)
    };
    let app = builder().start().await;
    let (letters, history) = play(&app).await;
    let ended =
        history.lines().find(|line| line.contains("ActivityFailed")).unwrap_or("no failure");
    let ended: String = ended.trim_start_matches(char::is_numeric).chars().take(100).collect();
    expected.assert_eq(&format!("{letters}{}\n", ended.trim().replace('\0', "\\0")));
    for crash in crashes(app.commits()) {
        let app = builder().start().await;
        app.faults().crash(crash);
        let (crashed, story) = play(&app).await;
        // An attempt that was lost with the process shifts what follows.
        match story.contains(" lost: ") {
            true => assert!(crashed.matches(" of it, ").count() <= 1, "{crash:?}\n{crashed}"),
            false => assert_eq!((&crashed, &story), (&letters, &history), "{crash:?}"),
        }
    }
}

fn kept(more: Value) -> Value {
    let mut policy = json!({
        "backoff": {"type": "fixed", "delay": "1s"},
        "jitter": "none",
        "max_attempts": 2,
        "on_exhausted": "dead_letter",
    });
    for (name, value) in more.as_object().unwrap() {
        policy[name] = value.clone();
    }
    policy
}

#[test]
async fn a_call_that_ran_out_of_attempts_is_kept() {
    check(
        "a",
        kept(json!({})),
        expect![[r#"
        work#2 of it, run 1 (order, default) {"case":"a"}
          max_attempts after 2: "BankDown: no answer to a at 12:07:31"
          attempt 1 failed Some(1000): "BankDown: no answer to a at 12:07:31"
          attempt 2 failed None: "BankDown: no answer to a at 12:07:31"
          1:ea9d80eba4fe "BankDown: no answer to a at <n>:<n>:<n>"
        +1s ActivityFailed #2 (attempt 2) max_attempts: BankDown: no answer to a at 12:07:31
    "#]],
    )
    .await;
}

#[test]
async fn a_call_that_ran_out_of_time_for_retries_is_kept() {
    let policy = kept(json!({"max_attempts": "unlimited", "max_elapsed": "1500ms"}));
    check(
        "a",
        policy,
        expect![[r#"
        work#2 of it, run 1 (order, default) {"case":"a"}
          max_elapsed after 2: "BankDown: no answer to a at 12:07:31"
          attempt 1 failed Some(1000): "BankDown: no answer to a at 12:07:31"
          attempt 2 failed None: "BankDown: no answer to a at 12:07:31"
          1:ea9d80eba4fe "BankDown: no answer to a at <n>:<n>:<n>"
        +1s ActivityFailed #2 (attempt 2) max_elapsed: BankDown: no answer to a at 12:07:31
    "#]],
    )
    .await;
}

#[test]
async fn a_call_that_failed_for_good_is_kept() {
    check(
        "terminal",
        kept(json!({})),
        expect![[r#"
        work#2 of it, run 1 (order, default) {"case":"terminal"}
          terminal after 1: "no such account 4711"
          attempt 1 failed None: "no such account 4711"
          1:ee3b445d5aea "error: no such account <n>"
        +0ms ActivityFailed #2 terminal: no such account 4711
    "#]],
    )
    .await;
}

#[test]
async fn a_call_that_a_rule_does_not_retry_is_kept() {
    let policy = kept(json!({"rules": [{"on": {"types": ["BankDown"]}, "then": "fail"}]}));
    check(
        "a",
        policy,
        expect![[r#"
        work#2 of it, run 1 (order, default) {"case":"a"}
          non_retryable after 1: "BankDown: no answer to a at 12:07:31"
          attempt 1 failed None: "BankDown: no answer to a at 12:07:31"
          1:ea9d80eba4fe "BankDown: no answer to a at <n>:<n>:<n>"
        +0ms ActivityFailed #2 non_retryable: BankDown: no answer to a at 12:07:31
    "#]],
    )
    .await;
}

#[test]
async fn a_call_that_no_rule_retries_is_kept() {
    let policy = kept(json!({"rules": [{"on": {"types": ["Other"]}}], "otherwise": "fail"}));
    check(
        "a",
        policy,
        expect![[r#"
        work#2 of it, run 1 (order, default) {"case":"a"}
          no_rule after 1: "BankDown: no answer to a at 12:07:31"
          attempt 1 failed None: "BankDown: no answer to a at 12:07:31"
          1:ea9d80eba4fe "BankDown: no answer to a at <n>:<n>:<n>"
        +0ms ActivityFailed #2 no_rule: BankDown: no answer to a at 12:07:31
    "#]],
    )
    .await;
}

#[test]
async fn a_rule_keeps_a_call_without_using_up_its_attempts() {
    let rules = json!([{"on": {"types": ["BankDown"]}, "then": "dead_letter"}]);
    let policy = kept(json!({"rules": rules, "on_exhausted": "fail"}));
    check(
        "a",
        policy,
        expect![[r#"
        work#2 of it, run 1 (order, default) {"case":"a"}
          non_retryable after 1: "BankDown: no answer to a at 12:07:31"
          attempt 1 failed None: "BankDown: no answer to a at 12:07:31"
          1:ea9d80eba4fe "BankDown: no answer to a at <n>:<n>:<n>"
        +0ms ActivityFailed #2 non_retryable: BankDown: no answer to a at 12:07:31
    "#]],
    )
    .await;
}

#[test]
async fn a_call_that_is_cut_by_its_total_timeout_is_kept() {
    let policy = kept(json!({"timeouts": {"total": "5s"}}));
    check(
        "long",
        policy,
        expect![[r#"
        work#2 of it, run 1 (order, default) {"case":"long"}
          total_timeout after 1: "total_timeout: not done within 5s"
          attempt 1 failed None: "total_timeout: not done within 5s"
          1:21e01650553c "total_timeout: not done within <n>s"
        +5s ActivityFailed #2 total_timeout: total_timeout: not done within 5s
    "#]],
    )
    .await;
}

#[test]
async fn a_call_whose_next_attempt_would_come_too_late_is_kept() {
    let backoff = json!({"type": "fixed", "delay": "1m"});
    let policy = kept(json!({"timeouts": {"total": "30s"}, "backoff": backoff}));
    check(
        "a",
        policy,
        expect![[r#"
        work#2 of it, run 1 (order, default) {"case":"a"}
          total_timeout after 1: "BankDown: no answer to a at 12:07:31"
          attempt 1 failed None: "BankDown: no answer to a at 12:07:31"
          1:ea9d80eba4fe "BankDown: no answer to a at <n>:<n>:<n>"
        +0ms ActivityFailed #2 total_timeout: BankDown: no answer to a at 12:07:31
    "#]],
    )
    .await;
}

#[test]
async fn what_is_in_a_message_cannot_hurt() {
    check(
        "unicode",
        kept(json!({"max_attempts": 1})),
        expect![[r#"
        work#2 of it, run 1 (order, default) {"case":"unicode"}
          max_attempts after 1: "Größe: 銀行 \"7\" 💥 antwortet\0 nicht"
          attempt 1 failed None: "Größe: 銀行 \"7\" 💥 antwortet\0 nicht"
          1:2d8552ed7db2 "Größe: 銀行 <text> 💥 antwortet nicht"
        +0ms ActivityFailed #2 max_attempts: Größe: 銀行 "7" 💥 antwortet\0 nicht
    "#]],
    )
    .await;
    check("huge", kept(json!({"max_attempts": 1})), expect![[r#"
        work#2 of it, run 1 (order, default) {"case":"huge"}
          max_attempts after 1: "Huge: row 7 of 'x'; row 7 of 'x'; row 7 of 'x'; row 7 of 'x'"
          attempt 1 failed None: "Huge: row 7 of 'x'; row 7 of 'x'; row 7 "
          1:a22057888c73 "Huge: row <n> of <text>; row <n> of <text>; row <n> of <text"
        +0ms ActivityFailed #2 max_attempts: Huge: row 7 of 'x'; row 7 of 'x'; row 7 of 'x'; row 7 of 'x';
    "#]]).await;
}

#[test]
async fn a_pruned_call_is_not_kept() {
    check(
        "pruned",
        kept(json!({})),
        expect![[r#"
            +0ms ActivityFailed #2 pruned: Pruned: pruned
        "#]],
    )
    .await;
}

#[test]
async fn a_policy_without_dead_letters_keeps_nothing() {
    check(
        "a",
        kept(json!({"on_exhausted": "fail"})),
        expect![[r#"
            +1s ActivityFailed #2 (attempt 2) max_attempts: BankDown: no answer to a at 12:07:31
        "#]],
    )
    .await;
}

#[test]
async fn a_call_that_nobody_took_in_time_is_kept() {
    let app = builder().start().await;
    app.start("busy", order("long".into(), json!({"max_attempts": 1}))).await;
    let policy = kept(json!({"timeouts": {"queue": "5s"}}));
    app.start("it", order("a".into(), policy)).await;
    app.advance(DAY).await;
    expect![[r#"
        work#2 of it, run 1 (order, default) {"case":"a"}
          queue_timeout after 1: "queue_timeout: no worker took it within 5s"
          attempt 1 failed None: "queue_timeout: no worker took it within "
          1:a3fa1900744a "queue_timeout: no worker took it within <n>s"
    "#]]
    .assert_eq(&told(&app).await);
}

#[test]
async fn a_call_whose_process_died_is_kept() {
    let app = builder().start().await;
    let policy = kept(json!({"max_attempts": 1, "idempotency": "at_most_once"}));
    app.start("it", order("long".into(), policy)).await;
    app.advance(SECOND).await;
    app.restart().await;
    app.advance(DAY).await;
    expect![[r#"
        work#2 of it, run 1 (order, default) {"case":"long"}
          worker_lost after 1: "worker_lost: the process that ran it died"
          attempt 1 lost None: "worker_lost: the process that ran it die"
          1:8224e755c4ad "worker_lost: the process that ran it died"
    "#]]
    .assert_eq(&told(&app).await);
}

#[test]
async fn a_call_that_is_cancelled_or_ended_by_an_operator_is_not_kept() {
    let app = builder().start().await;
    let waits = || kept(json!({"backoff": {"type": "fixed", "delay": "1h"}}));
    app.start("cancelled", order("a".into(), waits())).await;
    app.advance(SECOND).await;
    app.cancel("cancelled", "enough").await.unwrap();
    app.start("failed", order("a".into(), waits())).await;
    app.advance(SECOND).await;
    app.act("failed", "work", |call| call.fail("enough")).await.unwrap();
    app.start("terminated", order("a".into(), waits())).await;
    app.advance(SECOND).await;
    app.terminate("terminated", "enough").await.unwrap();
    app.advance(DAY).await;
    assert_eq!(told(&app).await, "");
}

#[test]
async fn another_policy_that_ends_a_call_can_keep_it() {
    let app = builder().start().await;
    let policy = json!({"backoff": {"type": "fixed", "delay": "1h"}, "jitter": "none"});
    app.start("it", order("a".into(), policy)).await;
    app.advance(SECOND).await;
    let once = RetryPolicy::once().on_exhausted(Exhausted::DeadLetter);
    app.act("it", "work", |call| call.set_policy(once.clone())).await.unwrap();
    expect![[r#"
        work#2 of it, run 1 (order, default) {"case":"a"}
          max_attempts after 1: "BankDown: no answer to a at 12:07:31"
          attempt 1 failed Some(3600000): "BankDown: no answer to a at 12:07:31"
          1:ea9d80eba4fe "BankDown: no answer to a at <n>:<n>:<n>"
    "#]]
    .assert_eq(&told(&app).await);
}

#[test]
async fn a_letter_has_the_first_ten_and_the_last_ten_attempts() {
    let app = builder().start().await;
    app.start("it", order("a".into(), kept(json!({"max_attempts": 25})))).await;
    app.advance(HOUR).await;
    let letter = letters(&app, LetterState::Open).await.remove(0);
    let attempts: Vec<u32> = letter.ledger.iter().map(|row| row.attempt).collect();
    assert_eq!(attempts, (1..=10).chain(16..=25).collect::<Vec<_>>());
    assert_eq!(letter.attempts, 25);
    // It is the same when the call was read from the store in between.
    let app = builder().start().await;
    app.start("it", order("a".into(), kept(json!({"max_attempts": 25})))).await;
    app.advance(20 * SECOND).await;
    app.restart().await;
    app.advance(HOUR).await;
    let again = letters(&app, LetterState::Open).await.remove(0);
    let attempts: Vec<u32> = again.ledger.iter().map(|row| row.attempt).collect();
    assert_eq!(attempts, (1..=10).chain(16..=25).collect::<Vec<_>>());
}

#[test]
async fn a_letter_outlives_its_instance_and_goes_after_thirty_days() {
    let app = builder().start().await;
    app.start("it", order("a".into(), kept(json!({})))).await;
    app.advance(HOUR).await;
    assert_eq!(app.delete_closed(ClosedFilter::default()).await.unwrap(), 1);
    assert!(app.client().find("it").await.unwrap().is_none());
    assert_eq!(letters(&app, LetterState::Open).await[0].workflow, "order");
    // Nobody works meanwhile, so that nobody looks every hour what can go.
    app.stop_working().await;
    app.advance(29 * DAY).await;
    app.restart().await;
    app.start("later", order("a".into(), kept(json!({})))).await;
    app.advance(DAY).await;
    let left = letters(&app, LetterState::Open).await;
    assert_eq!(left.iter().map(|letter| &*letter.instance).collect::<Vec<_>>(), ["later"]);
    app.stop_working().await;
    app.advance(29 * DAY).await;
    app.restart().await;
    app.advance(DAY).await;
    assert_eq!(letters(&app, LetterState::Open).await, []);
}

#[test]
async fn how_long_letters_stay_can_be_set_and_settled_ones_go_too() {
    let keep = |stays| builder().options(move |options| options.retention.dead_letters = stays);
    let app = keep(Some(DAY)).start().await;
    app.start("it", order("a".into(), kept(json!({})))).await;
    app.advance(HOUR).await;
    assert_eq!(discarded(&app, DeadLetterFilter::default(), "ana").await, 1);
    app.advance(DAY).await;
    assert_eq!(letters(&app, LetterState::Discarded).await, []);
    let app = keep(None).start().await;
    app.start("it", order("a".into(), kept(json!({})))).await;
    app.advance(400 * DAY).await;
    assert_eq!(letters(&app, LetterState::Open).await.len(), 1);
}

#[test]
async fn letters_of_one_problem_are_one_group_and_one_decision() {
    let app = builder().start().await;
    for number in 1..=5 {
        let policy = kept(json!({"max_attempts": 1}));
        app.start(&format!("bank-{number}"), order(format!("order {number}"), policy.clone()))
            .await;
        app.advance(SECOND).await;
        if number < 3 {
            app.start(&format!("lost-{number}"), order("terminal".into(), policy)).await;
            app.advance(SECOND).await;
        }
    }
    let client = app.client();
    let groups = client.dead_letter_groups(DeadLetterFilter::default()).await.unwrap();
    let told: Vec<(u64, &str, &str)> =
        groups.iter().map(|group| (group.count, &*group.error, &*group.instance)).collect();
    assert_eq!(
        told,
        [
            (5, "BankDown: no answer to order <n> at <n>:<n>:<n>", "bank-5"),
            (2, "error: no such account <n>", "lost-2"),
        ]
    );
    let bank = DeadLetterFilter {
        fingerprint: Some(groups[0].fingerprint.clone()),
        ..DeadLetterFilter::default()
    };
    let discard = |client: &Client| client.discard(bank.clone()).by("ana").reason("ticket 17");
    assert_eq!(app.ask("discard", discard).await.unwrap().counts.changed, 5);
    assert_eq!(discarded(&app, bank.clone(), "bob").await, 0);
    let settled = letters(&app, LetterState::Discarded).await;
    assert!(
        settled
            .iter()
            .all(|letter| { letter.settled.as_ref().is_some_and(|settled| settled.by == "ana") })
    );
    assert_eq!(letters(&app, LetterState::Open).await.len(), 2);
}

/// Awaits an action in virtual time.
async fn acted<T>(app: &TestApp, act: impl IntoFuture<Output = resurgam::Result<T>>) -> T {
    app.wait_for("an action", act.into_future()).await.unwrap()
}

/// Discards letters, and says how many.
async fn discarded(app: &TestApp, filter: DeadLetterFilter, by: &str) -> u64 {
    let discard = |client: &Client| client.discard(filter.clone()).by(by);
    app.ask("discard letters", discard).await.unwrap().counts.changed
}

#[test]
async fn a_letter_is_tried_again_as_new_once() {
    let app = TestApp::builder()
        .workflow(order)
        .stub(work, |call, attempt| match (call.case.as_str(), attempt) {
            ("works again", 2) => Ok(7),
            ("works again", _) | (_, _) => Err(Failure::of_type("BankDown", "no answer")),
        })
        .start()
        .await;
    let policy = kept(json!({"max_attempts": 1}));
    app.start("it", order("works again".into(), policy)).await;
    app.advance(SECOND).await;
    let client = app.client();
    let letter = letters(&app, LetterState::Open).await.remove(0);
    // It has the policy of the call, so it is given up again, and a letter is kept of that.
    let redriven = acted(&app, client.redrive(letter.call).as_new().by("ana").reason("x")).await;
    assert!(redriven.changed(), "{redriven}");
    app.advance(SECOND).await;
    let again = acted(&app, client.redrive(letter.call).as_new().by("bob")).await;
    let short = |text: String| text.replace(&letter.call.run.uid.to_string(), "UID");
    expect![[r#"work#2 of it was redriven by ana as redrive/UID.1.2 ("x") before"#]]
        .assert_eq(&short(again.to_string()));
    let open = letters(&app, LetterState::Open).await;
    assert_eq!(open.len(), 1);
    assert_eq!(
        (open[0].workflow.as_str(), open[0].input.clone()),
        ("resurgam.activity", letter.input)
    );
    let id = open[0].instance.clone();
    expect![[r#"
        1 +0ms RunStarted resurgam.activity {"activity":"work","arguments":{"case":"works again"},"retry":"{\"v\":1,\"policy\":{\"max_attempts\":1,\"backoff\":{\"ty... (237 bytes)
        2 +0ms ActivityScheduled work {"case":"works again"}
          +0ms work#2 attempt 1 failed: BankDown: no answer
        3 +0ms ActivityFailed #2 max_attempts: BankDown: no answer
        4 +0ms RunFailed BankDown: no answer
    "#]].assert_eq(&short(app.history(&id).await));

    let unknown = client.redrive(CallKey { seq: resurgam::Seq(99), ..letter.call }).as_new().await;
    let error = unknown.unwrap_err();
    assert!(error.is_unknown() && error.to_string().contains("no dead letter"), "{error}");
    assert_eq!(discarded(&app, DeadLetterFilter::default(), "cleo").await, 1);
    let too_late = acted(&app, client.redrive(open[0].call).as_new()).await;
    assert!(too_late.to_string().ends_with("was discarded by cleo before"), "{too_late}");
}

#[test]
async fn a_redrive_and_its_letter_are_one_commit() {
    let play = async |crash: Option<Crash>| {
        let app = builder().start().await;
        app.start("it", order("a".into(), kept(json!({"max_attempts": 1})))).await;
        app.advance(SECOND).await;
        let letter = letters(&app, LetterState::Open).await.remove(0);
        let before = app.commits();
        crash.into_iter().for_each(|crash| app.faults().crash(later(crash, before)));
        // Asked again where a crash cut it short, which is safe.
        let redrive = |client: &Client| client.redrive(letter.call).as_new().by("ana");
        let acted = app.ask("redrive a letter", redrive).await.unwrap();
        assert!(matches!(acted, Acted::Answered(_)), "{crash:?}");
        app.advance(HOUR).await;
        let redriven = letters(&app, LetterState::Redriven).await;
        assert_eq!(redriven.len(), 1, "{crash:?}");
        let id = redriven[0].settled.clone().unwrap().redriven_as.unwrap();
        let filter =
            InstanceFilter { workflow: Some("resurgam.activity".into()), ..Default::default() };
        let instances = app.client().list(filter).await.unwrap();
        assert_eq!(instances.iter().map(|row| &row.id).collect::<Vec<_>>(), [&id], "{crash:?}");
        // The new one was given up as well.
        assert_eq!(letters(&app, LetterState::Open).await.len(), 1, "{crash:?}");
        app.commits() - before
    };
    for crash in crashes(play(None).await) {
        play(Some(crash)).await;
    }
}

#[test]
async fn thousands_of_letters_are_listed_in_pages() {
    #[activity(retry = RetryPolicy::once().on_exhausted(Exhausted::DeadLetter))]
    async fn give_up(number: u64) -> Result<u64, Failure> {
        Err(Failure::new(format!("row {number}")))
    }
    let count = if is_slow() { 1_000 } else { 2_000 };
    let app = TestApp::builder().activity(give_up).start().await;
    for part in 0..count / 500 {
        let submit = |number| app.client().submit(format!("it-{number}"), give_up(number));
        for submitted in at_once((part * 500..(part + 1) * 500).map(submit)).await {
            submitted.unwrap();
        }
        app.advance(SECOND).await;
    }
    let client = app.client();
    let mut filter = DeadLetterFilter { limit: 700, ..DeadLetterFilter::default() };
    let mut found: Vec<CallKey> = Vec::new();
    loop {
        let page = client.dead_letters(filter.clone()).await.unwrap();
        let Some(last) = page.last() else { break };
        filter.after = Some(CallCursor::of_letter(last));
        found.extend(page.iter().map(|letter| letter.call));
    }
    assert_eq!(found.len() as u64, count);
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len() as u64, count);
    let groups = client.dead_letter_groups(DeadLetterFilter::default()).await.unwrap();
    assert_eq!(groups.iter().map(|group| group.count).collect::<Vec<_>>(), [count]);
    let part = DeadLetterFilter { limit: 600, ..DeadLetterFilter::default() };
    assert_eq!(discarded(&app, part, "ana").await, 600);
    assert_eq!(discarded(&app, DeadLetterFilter::default(), "ana").await, count - 600);
    assert_eq!(letters(&app, LetterState::Open).await, []);
}

const PAUSES: RetryPolicy = RetryPolicy::fixed(SECOND)
    .max_attempts(2)
    .jitter(Jitter::None)
    .on_exhausted(Exhausted::Pause { wait: None });

#[activity(retry = PAUSES)]
async fn notify(number: u32) -> Result<u32, Failure> {
    Ok(number)
}

async fn paused(app: &TestApp) -> Vec<String> {
    let calls = app.client().paused_calls(PausedFilter::default()).await.unwrap();
    calls.into_iter().map(|call| call.instance).collect()
}

async fn pausing() -> TestApp {
    let app = TestApp::builder()
        .stub(notify, |call, attempt| match attempt {
            1..=2 => Err(Failure::of_type("MailDown", format!("no answer to {}", call.number))),
            _ => Ok(call.number),
        })
        .start()
        .await;
    for number in 1..=4 {
        app.submit(&format!("mail-{number}"), notify(number)).await.unwrap();
        app.advance(10 * SECOND).await;
    }
    app
}

#[test]
async fn paused_calls_are_listed_and_resumed_as_one_group() {
    let app = pausing().await;
    assert_eq!(paused(&app).await, ["mail-4", "mail-3", "mail-2", "mail-1"]);
    app.restart().await;
    let client = app.client();
    let groups = client.paused_groups(PausedFilter::default()).await.unwrap();
    assert_eq!((groups.len(), groups[0].count), (1, 4));
    assert_eq!(groups[0].error, "MailDown: no answer to <n>");
    let of = |fingerprint: &str| PausedFilter {
        fingerprint: Some(fingerprint.to_string()),
        ..PausedFilter::default()
    };
    let none = acted(&app, client.resume_paused(of("1:0"))).await;
    assert_eq!(none.to_string(), "0 calls changed; nothing matched");
    let began = app.now();
    let all = client.resume_paused(of(&groups[0].fingerprint)).spread(40 * SECOND);
    let done = acted(&app, all.by("ana").reason("mail is back")).await;
    assert_eq!((done.counts.changed, done.counts.refused), (4, 0));
    let took = app.now().since(began);
    assert!(
        took >= 29 * SECOND && took < 40 * SECOND,
        "the last of four is asked for after {took:?}"
    );
    app.advance(15 * SECOND).await;
    assert_eq!(paused(&app).await, [""; 0]);
    assert!(app.history("mail-1").await.contains("operator ana: resumed notify#2"));
    let done = InstanceFilter { status: vec![Status::Completed], ..InstanceFilter::default() };
    assert_eq!(client.list(done).await.unwrap().len(), 4);
}

#[test]
async fn a_group_of_paused_calls_fails_and_what_is_paused_later_is_left_alone() {
    let app = pausing().await;
    let client = app.client();
    app.act("mail-4", "notify", |call| call.complete(&1)).await.unwrap();
    let two = PausedFilter { limit: 2, ..PausedFilter::default() };
    let done = acted(&app, client.fail_paused(two, "the mail is gone")).await;
    assert_eq!(done.counts.changed, 2);
    app.advance(SECOND).await;
    let left = paused(&app).await;
    assert_eq!(left.len(), 1, "{left:?}");
    for mail in ["mail-1", "mail-2", "mail-3"].into_iter().filter(|mail| *mail != left[0]) {
        let history = app.history(mail).await;
        assert!(history.contains("FailedByOperator: the mail is gone"), "{history}");
    }
}

#[test]
async fn a_call_that_an_operator_paused_before_it_failed_is_found_too() {
    let app = TestApp::builder().activity(notify).options(|it| it.slots = 0).start().await;
    app.submit("mail-1", notify(1)).await.unwrap();
    app.advance(SECOND).await;
    app.act("mail-1", "notify", |call| call.pause().by("ana")).await.unwrap();
    let groups = app.client().paused_groups(PausedFilter::default()).await.unwrap();
    assert_eq!((groups[0].count, groups[0].error.as_str()), (1, "it has not failed"));
    let done = acted(&app, app.client().resume_paused(PausedFilter::default())).await;
    assert_eq!(done.counts.changed, 1);
    assert_eq!(paused(&app).await, [""; 0]);
}

#[test]
async fn a_letter_and_an_action_are_kept_when_the_turn_behind_them_is_too_wide_for_one_commit() {
    #[workflow]
    async fn fan_out(ctx: WorkflowContext) -> Result<usize, Failure> {
        let kept = RetryPolicy::once().on_exhausted(Exhausted::DeadLetter);
        let _ = ctx.call(work("a".into())).retry(kept).await;
        let first = ctx.join_all((0..60).map(|number| ctx.call(notify(number)))).await?;
        let hourly = RetryPolicy::fixed(HOUR).unlimited();
        let _ = ctx.call(work("a".into())).retry(hourly).await;
        let second = ctx.join_all((0..60).map(|number| ctx.call(notify(number)))).await?;
        Ok(first.len() + second.len())
    }
    let app = TestApp::builder().workflow(fan_out).activity(work).activity(notify);
    let app = app.options(|options| options.max_batch_rows = 100).start().await;
    let run = app.start("it", fan_out()).await;
    app.advance(60 * SECOND).await;
    assert_eq!(letters(&app, LetterState::Open).await.len(), 1);
    let failed = app.act("it", "work", |call| call.fail("enough").by("ana")).await.unwrap();
    assert!(failed.changed(), "{failed}");
    assert_eq!(run.result().await.unwrap(), 120);
    assert!(app.history("it").await.contains("operator ana: failed work#"));
}
